/* SPDX-License-Identifier: MIT */
/* t_random.c: whole nets beside the interpreter of the graph: nets drawn at random, and the zoo.
 * Each set of kernels, in f32 and bf16, gives the interpreter's losses, scores, gradients and
 * running statistics. 1, 2 and 3 threads give the same bits. Memory is what was measured. A net
 * that fails is printed by its seed, and again as the smallest that still fails. Nets run in
 * processes of their own: one that crashes is one that fails.
 *
 *     t_random                       300 nets, planted faults, the small nets of the zoo
 *     --nets N --seed S              other nets, without faults and zoo
 *     --one SEED [--text]            one net, by its seed; its text alone
 *     --net FILE [--batch N]         the net of a file
 *     --zoo                          the large nets of the zoo too: minutes */
#include "engine/base/cpu.h"
#include "tests/net_case.h"
#include "tests/t.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The thresholds of recomputation are of sizes that no small net has: here each net may draw
 * smaller ones. */
static int64_t random_large = 67108864, random_near = 33554432;
#define REC_BYTES random_large
#define REC_NEAR random_near
#include "engine/plan/recompute.c"

#define RANDOM_NETS 300
#define RANDOM_LEAST 20   /* times that each kind of fusion and recomputation appears in them */
#define RANDOM_SECONDS 300 /* a net that takes longer hangs, on busy machines, too */
#define RANDOM_DRAWS 3    /* samples that a net gets when values lie near a kink */
#define RANDOM_NOISE 6    /* and so often its noise is measured again before */
#define RANDOM_KINDS 40
#define RANDOM_TRIES 3000
#define RANDOM_SHRUNK 12  /* failing nets that are made small; of the others the seed is printed */

static const char *const random_isas[] = { "ref", "avx2", "avx512", "avx512bf16", "amx", "vsx", "mma" };

/* What the processes share. */
struct random_shared {
    int at;                     /* net that is worked on */
    /* nets whose noise was measured again; those with other samples; those made small */
    int noisy, redrawn, shrunk;
    int compared[2], ill[2];    /* runs in f32 and bf16; those of ill-conditioned nets */
    double worst[2];            /* largest error of f32 and bf16, as a part of what is allowed */
    /* Faults in f32 and bf16; those that change a number that is compared, and that are seen. */
    int planted[2], changed[2], seen[2];
    int crashed;                /* faults that end the process */
    int kinds[RANDOM_KINDS];
    char why[NET_WHY];
};

static struct random_shared *random_shared;

/* ---- what a plan holds ---- */

static const char *random_tensor(const struct gy_plan *plan, const struct gy_op *op, int role)
{
    return op->tensor[role] < 0 ? "" : plan->tensors[op->tensor[role]].name;
}

static int random_is_again(const struct gy_plan *plan, const struct gy_op *op, int role)
{
    return strncmp(random_tensor(plan, op, role), "again.", 6) == 0;
}

enum random_kind {
    KIND_CONV_ACT, KIND_LINEAR_ACT, KIND_CONV_BN, KIND_LINEAR_BN, KIND_BN_ACT, KIND_BN_ADD, KIND_BN_ADD_ACT,
    KIND_THROUGH, KIND_ADD_ACT, KIND_BEHIND_POOL, KIND_FOLD, KIND_FOLD_ADD, KIND_FOLD_ACT, KIND_FOLD_LINEAR,
    KIND_FLATTEN, KIND_DROPOUT_EVAL, KIND_DROPOUT_ZERO, KIND_INPUT_AGAIN, KIND_NORM_ON_THE_WAY, KIND_NORM_PASS,
    KIND_NORM_RES_KEPT, KIND_CHAIN_BEGIN, KIND_CHAIN_END, KIND_CHAIN_WHOLE, KIND_CONV_AGAIN, KIND_SEGMENTS,
    KIND_WAITING, KINDS
};
GY_STATIC_ASSERT(KINDS <= RANDOM_KINDS, random_kinds);
static const char *const random_kind_names[KINDS] = {
    "conv + act", "linear + act", "conv + bn", "linear + bn", "bn + act", "bn + add", "bn + add + act",
    "bn through bn + add", "add + act", "clamp behind a max pool", "evaluation: bn in a conv",
    "evaluation: bn, add in a conv", "evaluation: bn, act in a conv", "evaluation: bn in a linear",
    "no op for a flatten", "evaluation: no op for a dropout", "no op for a dropout of 0", "again: the input",
    "again: a norm's output, on the way", "again: a norm's output, by a pass",
    "again: beside a residual that is kept", "again: where a chain begins", "again: where a chain ends",
    "again: along a chain", "again: a convolution", "segments computed twice", "a weight gradient waits for a norm",
};

static void random_count_forward(const struct gy_plan *plan, const struct gy_graph *g, int *found)
{
    const struct gy_program *p = &plan->program[GY_FORWARD];
    for (int i = 0; i < p->count; i++) {
        const struct gy_op *op = &p->ops[i];
        const int linear = g->nodes[op->id].layer == GY_LAYER_LINEAR, act = op->act != GY_ACT_NONE,
                  adds = op->tensor[GY_RES] >= 0;
        const int conv = op->code == GY_OP_CONV, norm = op->code == GY_OP_BN_APPLY;
        found[linear ? KIND_LINEAR_ACT : KIND_CONV_ACT] |= conv && act;
        found[linear ? KIND_LINEAR_BN : KIND_CONV_BN] |= conv && op->tensor[GY_STATS] >= 0;
        found[KIND_BN_ACT] |= norm && act && !adds;
        found[KIND_BN_ADD] |= norm && adds && !act;
        found[KIND_BN_ADD_ACT] |= norm && adds && act;
        found[KIND_THROUGH] |= norm && op->tensor[GY_RES_SCALE] >= 0;
        found[KIND_ADD_ACT] |= op->code == GY_OP_ADD && act;
        found[KIND_BEHIND_POOL] |=
            op->code == GY_OP_ACT && i > 0 && p->ops[i - 1].code == GY_OP_POOL_MAX && p->ops[i - 1].id == op->id;
    }
}

static void random_count_eval(const struct gy_plan *plan, const struct gy_graph *g, int *found)
{
    const struct gy_program *p = &plan->program[GY_EVAL];
    for (int i = 0; i < p->count; i++) {
        const struct gy_op *op = &p->ops[i];
        const int fold = op->code == GY_OP_CONV && op->tensor[GY_SCALE] >= 0;
        found[g->nodes[op->id].layer == GY_LAYER_LINEAR ? KIND_FOLD_LINEAR : KIND_FOLD] |= fold;
        found[KIND_FOLD_ADD] |= fold && op->tensor[GY_RES] >= 0;
        found[KIND_FOLD_ACT] |= fold && op->act != GY_ACT_NONE;
    }
    for (int i = 0; i < g->node_count; i++) {
        const int layer = g->nodes[i].layer, drops = layer == GY_LAYER_DROPOUT;
        found[KIND_FLATTEN] |= layer == GY_LAYER_FLATTEN;
        found[KIND_DROPOUT_EVAL] |= drops && g->nodes[i].f[0] > 0;
        found[KIND_DROPOUT_ZERO] |= drops && g->nodes[i].f[0] <= 0;
    }
}

static void random_count_again(const struct gy_plan *plan, int recompute, int *found)
{
    const struct gy_program *p = &plan->program[GY_BACKWARD];
    for (int i = 0; i < p->count; i++) {
        const struct gy_op *op = &p->ops[i];
        const int passes = op->code == GY_OP_BN_APPLY && random_is_again(plan, op, GY_Y),
                  way = op->tensor[GY_AGAIN] >= 0;
        const int res = op->tensor[GY_RES] >= 0, res_again = res && random_is_again(plan, op, GY_RES);
        found[KIND_INPUT_AGAIN] |= op->code == GY_OP_INPUT && random_is_again(plan, op, GY_Y);
        found[KIND_NORM_ON_THE_WAY] |= way;
        found[KIND_NORM_PASS] |= passes;
        found[KIND_NORM_RES_KEPT] |= (passes || way) && res && !res_again;
        found[KIND_CHAIN_BEGIN] |= (passes || way) && op->tensor[GY_RES_SCALE] >= 0;
        found[KIND_CHAIN_END] |= recompute == 0 && (passes || way) && res_again;
        found[KIND_CHAIN_WHOLE] |= recompute > 0 && (passes || way) && res_again;
        found[KIND_CONV_AGAIN] |= op->code == GY_OP_CONV && random_is_again(plan, op, GY_Y);
        found[KIND_SEGMENTS] |= op->code == GY_OP_CONV && !random_is_again(plan, op, GY_Y);
        found[KIND_WAITING] |= op->code == GY_OP_CONV_WGRAD && i > 0 && random_is_again(plan, op, GY_X) &&
                               (p->ops[i - 1].code == GY_OP_BN_SUMS || p->ops[i - 1].code == GY_OP_CONV_WGRAD);
    }
}

static void random_look(const struct gyre_net *net)
{
    int found[KINDS] = { 0 };
    random_count_forward(&net->plan, &net->graph, found);
    random_count_eval(&net->plan, &net->graph, found);
    random_count_again(&net->plan, net->config.recompute, found);
    for (int i = 0; i < KINDS; i++)
        random_shared->kinds[i] += found[i];
}

/* ---- planted faults ---- */

struct random_fault {
    struct random_draw d;
};

/* Clears a flag; 0: it was not set. */
static int random_clear(struct gy_op *op, uint32_t flag)
{
    const int set = (op->flags & flag) != 0;
    op->flags &= ~flag;
    return set;
}

static int random_forget_act(struct gy_op *op)
{
    const int has = op->act != GY_ACT_NONE;
    op->act = GY_ACT_NONE;
    return has;
}

/* The op reads another value of the same size; 0: the one that was drawn is none. */
static int random_swap(const struct gyre_net *net, struct gy_op *op, int other)
{
    const int x = op->tensor[GY_X];
    const struct gy_tensor *t = net->plan.tensors;
    if (x < 0 || other == x || t[other].region != GY_AT_ACT || t[other].bytes != t[x].bytes ||
        t[other].offset == t[x].offset || t[other].dtype != t[x].dtype)
        return 0;
    op->ptr[GY_X] = (unsigned char *)net->base[GY_AT_ACT] + t[other].offset;
    return 1;
}

static int random_forget(struct gy_program *p, int i)
{
    memmove(&p->ops[i], &p->ops[i + 1], (size_t)(p->count - i - 1) * sizeof p->ops[0]);
    p->count--;
    return 1;
}

/* Op i of the program has a fault now; 0: it cannot have this one. */
static int random_break(struct gyre_net *net, struct gy_program *p, int i, int kind, struct random_draw *d)
{
    switch (kind) {
    case 0: return random_clear(&p->ops[i], GY_F_ADD_DX);
    case 1: return random_clear(&p->ops[i], GY_F_ADD_DRES);
    case 2: return random_forget_act(&p->ops[i]);
    case 3: return random_swap(net, &p->ops[i], random_below(d, net->plan.tensor_count));
    default: return random_forget(p, i);
    }
}

static int random_plant(void *user, struct gyre_net *net)
{
    struct random_fault *f = user;
    for (int tries = 0; tries < 400; tries++) {
        struct gy_program *p = &net->plan.program[random_percent(&f->d, 70) ? GY_BACKWARD : GY_FORWARD];
        if (random_break(net, p, random_below(&f->d, p->count), random_below(&f->d, 5), &f->d))
            return 1;
    }
    return 0;
}

/* ---- one net ---- */

/* The machine has this set; twice the same kernels for f32 are left out. */
static int random_has(const char *isa, int dtype)
{
    unsigned mask = 0;
    const int half_alone = strcmp(isa, "avx512bf16") == 0 || strcmp(isa, "amx") == 0;
    return gy_cpu_mask(isa, &mask) == 0 && (mask & ~gy_cpu_bits()) == 0 && (dtype == GYRE_BF16 || !half_alone);
}

/* How far it is off; where that is too far, its noise is measured a few times more. */
static double random_off(struct net_test *t, int dtype, const double *answer, char *why)
{
    double off = net_test_off(t, dtype, answer, why);
    for (int i = 0; i < RANDOM_NOISE && off > 1 && isfinite(off); i++) {
        random_shared->noisy += i == 0;
        if (net_test_add_noise(t, dtype) != 0)
            break;
        off = net_test_off(t, dtype, answer, why);
    }
    return off;
}

/* 0, or 1: *why says what is wrong; 2: the same, but rounding might do that near a kink. */
static int random_run(struct net_test *t, const struct net_run *run, double *answer, char *why)
{
    char what[NET_WHY];
    int status = net_test_run(t, run, answer, what) != 0;
    const double off = status ? 0 : random_off(t, run->dtype, answer, what);
    double *const worst = &random_shared->worst[run->dtype == GYRE_BF16];
    if (!(off <= 1))
        status = t->kinks > 0 || run->dtype == GYRE_BF16 ? 2 : 1;
    else if (!status)
        status = net_test_updated(t, answer, what) != 0;
    if (!status)
        *worst = off > *worst ? off : *worst;
    random_shared->ill[run->dtype == GYRE_BF16] += net_test_is_ill(t, run->dtype);
    random_shared->compared[run->dtype == GYRE_BF16]++;
    if (status)
        snprintf(why, NET_WHY, "%s, %s, %d threads: %.500s", run->isa, run->dtype == GYRE_BF16 ? "bf16" : "f32",
                 run->threads, what);
    return status;
}

/* The same bits with 2 and 3 threads, of one set and type. */
static int random_threads(const struct net_test *t, const struct net_run *alone, const double *answer, double *other,
                          char *why)
{
    for (int threads = 2; threads <= 3; threads++) {
        struct net_run run = *alone;
        run.threads = threads;
        run.look = NULL;
        if (net_test_run(t, &run, other, why) != 0)
            return 1;
        for (int p = 0; p < t->part_count; p++)
            if (memcmp(other + t->part[p].first, answer + t->part[p].first,
                       (size_t)t->part[p].count * sizeof *other) != 0) {
                snprintf(why, NET_WHY, "%s, %s: %s has other bits with %d threads than with one", run.isa,
                         run.dtype ? "bf16" : "f32", t->part[p].name, threads);
                return 1;
            }
    }
    return 0;
}

/* A fault in the plan must be seen, if it changes any number at all that is compared. It may also
 * crash, or hang: in a process of its own. */
static void random_fault_alone(const struct net_test *t, const struct net_run *run, const double *answer,
                               double *other, char *why)
{
    /* the loss is no number */
    const int status = net_test_run(t, run, other, why), refused = status < 0;
    int changed = refused;
    if (status == 1)
        return;
    for (int p = 0; p < t->part_count && !refused; p++)
        changed |= t->part[p].kind != NET_UPDATED && memcmp(other + t->part[p].first, answer + t->part[p].first,
                                                            (size_t)t->part[p].count * sizeof *other) != 0;
    const int half = run->dtype == GYRE_BF16;
    random_shared->planted[half]++;
    random_shared->changed[half] += changed;
    random_shared->seen[half] += refused || (changed && !(net_test_off(t, run->dtype, other, why) <= 1));
}

static void random_faults(const struct net_test *t, const struct net_run *clean, const double *answer, double *other)
{
    struct random_fault fault = { .d = { t->c->seed + 5 } };
    struct net_run run = *clean;
    char why[NET_WHY];
    run.fault = random_plant;
    run.user = &fault;
    run.look = NULL;
    const pid_t child = fork();
    if (child == 0) {
        alarm(RANDOM_SECONDS);
        random_fault_alone(t, &run, answer, other, why);
        exit(0);
    }
    int status = 0;
    if (child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status))
        random_shared->crashed++;
}

struct random_wish {
    int half, threads, faults; /* bf16 too; thread counts; a planted fault */
    int large;                 /* takes minutes */
};

static int random_try(struct net_test *t, const struct random_wish *wish, char *why)
{
    double *answer = calloc((size_t)t->count, sizeof *answer), *other = calloc((size_t)t->count, sizeof *other);
    int status = !answer || !other, looked = t->draw > 0, sets = 0;
    struct random_draw d = { t->c->seed + 9 };
    for (int dtype = GYRE_F32; dtype <= (wish->half ? GYRE_BF16 : GYRE_F32) && !status; dtype++)
        for (size_t i = 0; i < GY_COUNT(random_isas) && !status; i++) {
            const struct net_run run = {
                .isa = random_isas[i], .dtype = dtype, .threads = 1, .look = looked ? NULL : random_look
            };
            if (!random_has(run.isa, dtype))
                continue;
            looked = 1;
            status = random_run(t, &run, answer, why);
            const int chosen = !status && random_below(&d, ++sets) == 0;
            if (chosen && wish->threads)
                status = random_threads(t, &run, answer, other, why);
            if (chosen && !status && wish->faults)
                random_faults(t, &run, answer, other);
        }
    free(answer);
    free(other);
    return status;
}

/* 0; else *why says why. Near kinks a net fails only when it does so with other samples and weights
 * too. */
static int random_check(const struct net_case *c, const struct random_wish *wish, char *why)
{
    struct random_draw d = { c->seed + 3 };
    int status = 2;
    random_large = random_percent(&d, 40) ? 67108864 : 1 << random_below(&d, 14);
    random_near = random_percent(&d, 60) ? 33554432 : 1 << random_below(&d, 16);
    for (int draw = 0; draw < RANDOM_DRAWS && status == 2; draw++) {
        struct net_test t;
        status = net_test_open(&t, c, draw, why) != 0 || net_test_add_noise(&t, GYRE_F32) != 0 ||
                 (wish->half && net_test_add_noise(&t, GYRE_BF16) != 0);
        if (!status)
            status = random_try(&t, wish, why);
        net_test_close(&t);
        random_shared->redrawn += status == 2;
    }
    return status != 0;
}

static struct random_wish random_wishes(uint64_t seed, int faults)
{
    struct random_draw d = { seed + 11 };
    const int half = random_percent(&d, 40), threads = random_percent(&d, 60);
    return (struct random_wish){ .half = half, .threads = threads, .faults = faults && random_percent(&d, 50) };
}

/* ---- processes ---- */

/* In a process of its own; what it says when it fails is in random_shared->why. */
static int random_alone(const struct net_case *c, const struct random_wish *wish)
{
    fflush(stdout);
    random_shared->why[0] = 0;
    const pid_t child = fork();
    if (child == 0) {
        alarm(wish->large ? 8 * RANDOM_SECONDS : RANDOM_SECONDS);
        exit(random_check(c, wish, random_shared->why) ? 1 : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return snprintf(random_shared->why, NET_WHY, "no process could be started"), 1;
    if (WIFSIGNALED(status))
        snprintf(random_shared->why, NET_WHY, "ended by signal %d (%s)", WTERMSIG(status),
                 WTERMSIG(status) == SIGALRM ? "it hangs" : "it crashes");
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

struct random_failing {
    struct net_case c;
    struct random_wish wish;
    int class;
};

/* What kind of failure a sentence tells of: a net is not shrunk to one that fails otherwise. */
static int random_class(const char *why)
{
    static const char *const words[] = { "opened in a block", "other bits", "is not by the rule", "ended by signal",
                                         "off by" };
    int class = 0;
    while (class < (int)GY_COUNT(words) && !strstr(why, words[class]))
        class++;
    return class;
}

static int random_fails(const struct random_failing *f)
{
    return random_alone(&f->c, &f->wish) && random_class(random_shared->why) == f->class;
}

static int random_still_fails(void *user, const struct random_net *net)
{
    struct random_failing f = *(const struct random_failing *)user;
    f.c.net = *net;
    f.c.count = f.c.count < f.c.net.batch ? f.c.count : f.c.net.batch;
    return random_fails(&f);
}

/* The smallest that still fails: first what was drawn beside the net, then the net. */
static void random_shrink(struct random_failing *f)
{
    int *const option[] = { &f->wish.half,  &f->wish.threads, &f->c.saves,     &f->c.infers,     &f->c.u8,
                            &f->c.moved,    &f->c.mixed,      &f->c.targets,   &f->c.unlabelled, &f->c.optimizer,
                            &f->c.nesterov, &f->c.decay_all,  &f->c.recompute, &f->c.poison };
    f->wish.faults = 0;
    for (size_t i = 0; i < GY_COUNT(option); i++) {
        const int kept = *option[i];
        *option[i] = 0;
        if (kept && !random_fails(f))
            *option[i] = kept;
    }
    const int accumulate = f->c.accumulate, count = f->c.count;
    f->c.accumulate = 1;
    if (!random_fails(f))
        f->c.accumulate = accumulate;
    f->c.count = f->c.net.batch;
    if (!random_fails(f))
        f->c.count = count;
    struct random_net net = f->c.net;
    const int calls = random_net_shrink(&net, random_still_fails, f, RANDOM_TRIES);
    f->c.net = net;
    f->c.count = f->c.count < net.batch ? f->c.count : net.batch;
    random_alone(&f->c, &f->wish);
    printf("    smallest that fails, of %d: batch %d, %d samples, recompute %d, accumulate %d, optimizer "
           "%d%s%s%s%s%s%s%s%s\n%s    %s\n",
           calls, f->c.net.batch, f->c.count, f->c.recompute, f->c.accumulate, f->c.optimizer,
           f->c.u8 ? ", bytes" : "", f->c.moved ? ", moved" : "", f->c.mixed ? ", mixed" : "",
           f->c.targets ? ", targets" : "", f->c.unlabelled ? ", without labels" : "", f->c.poison ? ", poison" : "",
           f->c.saves ? ", saved" : "", f->c.infers ? ", inference" : "", f->c.net.text, random_shared->why);
    fflush(stdout);
}

static int random_net_of(struct random_failing *f, const char *name)
{
    if (random_alone(&f->c, &f->wish) == 0)
        return 0;
    printf("%s: %s\n", name, random_shared->why);
    f->class = random_class(random_shared->why);
    if (random_shared->shrunk++ < RANDOM_SHRUNK)
        random_shrink(f);
    return 1;
}

/* Nets one after the other, in one process until one fails; the next one goes on behind it. */
static int random_nets(uint64_t seed, int nets, int faults)
{
    int failed = 0;
    for (int i = 0; i < nets;) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            for (; i < nets; i++) {
                struct net_case c;
                net_case_draw(&c, seed + (uint64_t)i);
                const struct random_wish wish = random_wishes(c.seed, faults);
                random_shared->at = i;
                alarm(RANDOM_SECONDS);
                if (random_check(&c, &wish, random_shared->why))
                    exit(1);
            }
            exit(0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child)
            return nets;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            break;
        struct random_failing f;
        char name[60];
        i = random_shared->at;
        net_case_draw(&f.c, seed + (uint64_t)i);
        f.wish = random_wishes(f.c.seed, 0);
        snprintf(name, sizeof name, "net of seed %" PRIu64, f.c.seed);
        if (!random_net_of(&f, name))
            printf("%s: failed, but not alone (%d)\n", name, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        failed++;
        i++;
    }
    return failed;
}

/* ---- the zoo, files ---- */

static int random_write(void *user, const char *text, size_t bytes)
{
    struct random_net *net = user;
    const size_t used = strlen(net->text);
    if (bytes >= sizeof net->text - used)
        return 1;
    memcpy(net->text + used, text, bytes);
    net->text[used + bytes] = 0;
    return 0;
}

/* Every net of the zoo, with the smallest images that it takes or somewhat larger ones, and samples
 * enough for its norms. */
static const struct random_zoo_net {
    const char *name;
    int32_t side;
    int batch, large;
} random_zoo_nets[] = {
    { "lenet5", 0, 4, 0 },      { "fashion", 0, 2, 0 },    { "logistic", 0, 9, 0 },   { "mlp", 0, 9, 0 },
    { "resnet20", 0, 2, 0 },    { "resnet18", 32, 4, 0 },  { "resnet32", 0, 2, 1 },   { "resnet44", 0, 2, 1 },
    { "resnet56", 0, 2, 1 },    { "resnet110", 0, 2, 1 },  { "resnet34", 64, 3, 1 },  { "resnet50", 64, 3, 1 },
    { "resnet101", 64, 3, 1 },  { "resnet152", 64, 3, 1 }, { "alexnet", 67, 1, 1 },   { "alexnet-bn", 67, 2, 1 },
    { "preact-resnet20", 0, 2, 0 },
};

static const struct random_zoo_net *random_zoo_find(const char *name)
{
    for (size_t i = 0; i < GY_COUNT(random_zoo_nets); i++)
        if (strcmp(random_zoo_nets[i].name, name) == 0)
            return &random_zoo_nets[i];
    return NULL;
}

static void random_zoo(int large)
{
    for (int i = 0; gyre_zoo_name(i); i++) {
        const struct random_zoo_net *zoo = random_zoo_find(gyre_zoo_name(i));
        struct random_failing f = { .c = { .seed = 4 }, .wish = { .half = large, .large = 1 } };
        struct gyre_error error = { 0 };
        const struct gyre_sink sink = { random_write, &f.c.net };
        T_CHECK_MSG(zoo, "%s is in no row of this test", gyre_zoo_name(i));
        if (!zoo || (zoo->large && !large))
            continue;
        T_CHECK_MSG(gyre_zoo_text(zoo->name, 10, zoo->side, zoo->side, 0, &sink, &error) == GYRE_OK, "%s", error.text);
        f.c.net.batch = zoo->batch;
        net_case_plain(&f.c);
        const int status = random_alone(&f.c, &f.wish);
        T_CHECK_MSG(!status, "%s: %s", zoo->name, random_shared->why);
    }
}

/* ---- the program ---- */

struct random_options {
    uint64_t seed;
    int nets, one, text, batch, zoo, counted;
    const char *file;
};

static int random_read_options(struct random_options *o, int argc, char **argv)
{
    *o = (struct random_options){ .seed = 1, .nets = RANDOM_NETS, .batch = 8, .counted = 1 };
    for (int i = 1; i < argc; i++) {
        const int more = i + 1 < argc;
        if (strcmp(argv[i], "--nets") == 0 && more)
            o->nets = (int)strtol(argv[++i], NULL, 10), o->counted = 0;
        else if (strcmp(argv[i], "--seed") == 0 && more)
            o->seed = strtoull(argv[++i], NULL, 10), o->counted = 0;
        else if (strcmp(argv[i], "--one") == 0 && more)
            o->seed = strtoull(argv[++i], NULL, 10), o->one = 1;
        else if (strcmp(argv[i], "--text") == 0)
            o->text = 1;
        else if (strcmp(argv[i], "--net") == 0 && more)
            o->file = argv[++i];
        else if (strcmp(argv[i], "--batch") == 0 && more)
            o->batch = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--zoo") == 0)
            o->zoo = 1;
        else
            return 0;
    }
    return 1;
}

static int random_one(const struct random_options *o)
{
    struct random_failing f;
    net_case_draw(&f.c, o->seed);
    if (o->text)
        return printf("%s# batch %d\n", f.c.net.text, f.c.net.batch), 0;
    f.wish = random_wishes(f.c.seed, 0);
    T_CHECK(!random_net_of(&f, "the net"));
    T_END("t_random");
}

static int random_file(const struct random_options *o)
{
    struct random_failing f = { .c = { .seed = o->seed } };
    FILE *file = fopen(o->file, "r");
    const size_t bytes = file ? fread(f.c.net.text, 1, sizeof f.c.net.text - 1, file) : 0;
    f.c.net.text[bytes] = 0;
    f.c.net.batch = o->batch;
    net_case_plain(&f.c);
    f.wish = (struct random_wish){ .half = 1, .threads = 1 };
    T_CHECK(file && fclose(file) == 0 && bytes > 0 && !random_net_of(&f, o->file));
    T_END("t_random");
}

static void random_counts(const struct random_options *o)
{
    const struct random_shared *r = random_shared;
    for (int i = 0; i < KINDS; i++)
        T_CHECK_MSG(!o->counted || r->kinds[i] >= RANDOM_LEAST, "%s: in %d nets, %d are wanted", random_kind_names[i],
                    r->kinds[i], RANDOM_LEAST);
    for (int i = 0; i < KINDS; i++)
        printf("%s%s: %d", i == 0 ? "" : i % 5 == 0 ? ",\n" : ", ", random_kind_names[i], r->kinds[i]);
    printf("\n%d nets, the noise of %d measured again, %d with other samples\n", o->nets, r->noisy, r->redrawn);
    for (int half = 0; half < 2; half++)
        printf("%s: %d runs, %d of them ill-conditioned; largest error %.2f of what is allowed; planted faults: %d, "
               "of which %d change something, %d are seen\n", half ? "bf16" : "f32", r->compared[half], r->ill[half], r->worst[half], r->planted[half],
               r->changed[half], r->seen[half]);
    if (!o->counted)
        return;
    T_CHECK_MSG(r->changed[0] >= RANDOM_LEAST && r->seen[0] * 20 >= r->changed[0] * 19, "%d of %d in f32", r->seen[0],
                r->changed[0]);
    T_CHECK_MSG(r->changed[1] >= RANDOM_LEAST && r->seen[1] * 20 >= r->changed[1] * 13, "%d of %d in bf16",
                r->seen[1], r->changed[1]);
    T_CHECK_MSG(r->ill[0] * 50 <= r->compared[0] && r->ill[1] * 5 <= r->compared[1], "%d, %d are ill-conditioned",
                r->ill[0], r->ill[1]);
    T_CHECK_MSG(r->redrawn * 10 <= o->nets, "%d nets needed other samples", r->redrawn);
}

int main(int argc, char **argv)
{
    struct random_options o;
    if (!random_read_options(&o, argc, argv))
        return printf("t_random [--nets N] [--seed S] [--one SEED [--text]] [--net FILE [--batch N]] [--zoo]\n"), 2;
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), sizeof *random_shared) != 0)
        return printf("no file for what several processes share\n"), 1;
    random_shared = mmap(NULL, sizeof *random_shared, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (random_shared == MAP_FAILED)
        return printf("no memory for what several processes share\n"), 1;
    if (o.file)
        return random_file(&o);
    if (o.one)
        return random_one(&o);
    const int failed = random_nets(o.seed, o.nets, o.counted);
    T_CHECK_MSG(failed == 0, "%d of %d nets", failed, o.nets);
    random_counts(&o);
    if (o.counted || o.zoo)
        random_zoo(o.zoo);
    T_END("t_random");
}
