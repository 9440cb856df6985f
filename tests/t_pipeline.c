/* SPDX-License-Identifier: MIT */
/* t_pipeline.c: nets in stages beside one process. Nets are drawn at random, with residuals over
 * borders, batch norms, dropout, pools and groups. So are stages, micro-batches, copies, schedule,
 * type, optimiser and threads. After some updates the file that rank 0 saves must be, to its last
 * byte, that of one process; and so must the losses. Schedules are proved, and spoiled ones
 * refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/gyre.h"
#include "engine/gyre_job.h"
#include "engine/plan/stage_schedule.h"
#include "tests/random_net.h"
#include "tests/stage_verify.h"
#include "tests/rank.h"
#include "tests/t.h"
#include "tools/lab/stage_page.h"

#define PP_RANKS 8
#define PP_STEPS 3
#define PP_CALLS 24 /* at most so many have a spoiled batch */

struct pp_case {
    struct random_net net;
    uint64_t seed;
    int stages, micros, copies, sharded; /* micros: of a copy */
    int schedule, dtype, optimizer, threads, ema;
    int short_of; /* samples that a batch has less than the net's, where it may */
    int shards;   /* 0: as the above say */
    int huge;     /* inputs overflow: the batch is looked into */
    int spoiled;  /* bit of each call whose batch nothing can be learnt from: it is dropped */
};
struct pp_left {
    int status;
    double loss[PP_STEPS], test;
    char text[300];
};
static struct pp_left *pp_left; /* [PP_RANKS + 1], shared; the last one: of one process */
static char pp_folder[] = "/tmp/t_pipeline.XXXXXX";

/* ---- one case ---- */

static struct gyre_config pp_config(const struct pp_case *c, int pipelined)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = c->net.text;
    config.batch = c->net.batch;
    config.seed = c->seed;
    config.dtype = c->dtype;
    config.threads = pipelined ? c->threads : 1;
    config.optimizer.kind = c->optimizer;
    config.optimizer.ema = c->ema ? 0.9f : 0;
    config.schedule.rate = 0.01f;
    config.shards = c->shards ? c->shards : c->sharded ? c->micros * c->copies : 0;
    config.accumulate = c->sharded ? 1 : c->micros;
    config.pipeline = pipelined ? c->stages : 0;
    config.stage_schedule = c->schedule;
    return config;
}

/* Samples of a batch: the same numbers for the same place in the run. */
static void pp_fill(const struct pp_case *c, const struct gyre_shape *s, int64_t first, int count,
                    float *x, int32_t *label)
{
    const int64_t each = (int64_t)s->h * s->w * s->c;
    for (int i = 0; i < count; i++) {
        struct random_draw d = { c->seed * 1000003 + (uint64_t)(first + i) };
        label[i] = (int32_t)random_below(&d, (int)s->classes);
        for (int64_t k = 0; k < each; k++)
            x[i * each + k] = (float)random_real(&d, -1, 1);
    }
}

/* One process refuses a spoiled batch at once, stages with the last one of an update. */
static int pp_step(const struct pp_case *c, struct gyre_net *net, int call,
                   const struct gyre_batch *batch, float *x, int32_t *label, struct gyre_result *r)
{
    for (int i = 0; i < batch->count && c->spoiled >> call & 1 && call % 2 == 0; i++)
        label[i] = -1;
    if (c->spoiled >> call & 1 && call % 2 == 1)
        x[0] = NAN;
    for (int i = 0; i < 16 * batch->count && c->huge; i++)
        x[i] = 3e38f;
    int status = gyre_step(net, batch, r);
    if (c->huge) {
        int32_t sample = -1;
        status = gyre_find_nonfinite(net, batch, &sample, NULL);
        status = status == GYRE_E_NONFINITE && sample != 0 ? GYRE_E_BUG : status;
    }
    const int drops = c->spoiled && (status == GYRE_E_NONFINITE || status == GYRE_E_ARG);
    if (drops)
        r->loss = r->labelled = 0;
    return drops && call < PP_CALLS ? GYRE_OK : status;
}

/* part of parts: which of the samples of an update this process has. */
static int pp_train(const struct pp_case *c, struct gyre_net *net, int part, int parts,
                    struct pp_left *left)
{
    struct gyre_shape s;
    gyre_get_shape(net, &s);
    const int mine = c->sharded ? c->micros * c->copies / parts * s.batch : s.batch,
              calls = c->sharded ? 1 : c->micros;
    float *const x = calloc((size_t)mine * (size_t)s.h * (size_t)s.w * (size_t)s.c, sizeof *x);
    int32_t *const label = calloc((size_t)mine, sizeof *label);
    struct gyre_batch batch = { .x = x, .label = label, .count = mine };
    struct gyre_result r = { 0 };
    int status = x && label ? GYRE_OK : GYRE_E_NOMEM;
    for (int call = 0; r.step < PP_STEPS && status == GYRE_OK; call++) {
        double *const loss = &left->loss[r.step];
        pp_fill(c, &s, ((int64_t)call * parts + part) * mine, mine, x, label);
        batch.count = mine - (call % calls + 1 == calls ? c->short_of : 0);
        status = pp_step(c, net, call, &batch, x, label, &r);
        *loss = c->sharded ? r.loss : *loss + r.loss * r.labelled;
    }
    batch.count = s.batch;
    pp_fill(c, &s, 1 << 20, s.batch, x, label);
    if (status == GYRE_OK && part == 0) {
        status = gyre_eval(net, &batch, NULL); /* nobody need ask for the result */
        status = status == GYRE_OK ? gyre_eval(net, &batch, &r) : status;
        left->test = r.labelled ? r.loss : 0;
    }
    free(label);
    free(x);
    return status;
}

static int pp_run(const struct pp_case *c, struct gyre_job *job, const char *path,
                  struct pp_left *left)
{
    struct gyre_config config = pp_config(c, job != NULL);
    struct gyre_error error = { 0 };
    struct gyre_net *net = NULL;
    config.job = job;
    int status = gyre_open(&net, &config, &error);
    if (status == GYRE_OK) {
        const int parts = job ? c->copies : 1;
        status = pp_train(c, net, gyre_job_rank(job) / c->stages, parts, left);
        if (status == GYRE_OK)
            status = gyre_save(net, path);
        error = *gyre_last_error(net);
    }
    snprintf(left->text, sizeof left->text, "%.290s", error.text);
    gyre_close(net);
    return status;
}

static void pp_rank(const struct pp_case *c, int rank, int ranks, const char *name,
                    const char *path)
{
    struct gyre_job_config config;
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    gyre_job_config_default(&config);
    config.wait_seconds = 60;
    config.messages = 1;
    test_be_rank(name, rank, ranks);
    int status = gyre_job_open(&job, &config, &error);
    if (status == GYRE_OK)
        status = pp_run(c, job, path, &pp_left[rank]);
    else
        snprintf(pp_left[rank].text, sizeof pp_left[rank].text, "%.290s", error.text);
    if (status == GYRE_OK)
        status = gyre_job_end(job, &error);
    gyre_job_close(job);
    pp_left[rank].status = status;
}

static void pp_ranks(const struct pp_case *c, const char *path)
{
    static int jobs;
    char name[64];
    const int ranks = c->stages * c->copies;
    snprintf(name, sizeof name, "t_pipeline %ld %d", (long)getpid(), jobs++);
    fflush(stdout);
    for (int r = 0; r < ranks; r++)
        if (fork() == 0) {
            pp_rank(c, r, ranks, name, path);
            _exit(0);
        }
    for (int r = 0; r < ranks; r++)
        wait(NULL);
}

/* In a process of its own: this one must have no threads when it forks ranks. */
static void pp_alone(const struct pp_case *c, const char *path)
{
    fflush(stdout);
    if (fork() == 0) {
        pp_left[PP_RANKS].status = pp_run(c, NULL, path, &pp_left[PP_RANKS]);
        _exit(0);
    }
    wait(NULL);
}

static int pp_same(const char *a, const char *b)
{
    FILE *const f = fopen(a, "rb"), *const g = fopen(b, "rb");
    int x = 0, y = 0, count = 0;
    while (f && g && x == y && x != EOF) {
        x = getc(f);
        y = getc(g);
        count++;
    }
    if (f)
        fclose(f);
    if (g)
        fclose(g);
    return x == y && count > 1;
}

/* ---- drawing ---- */

/* So many stages, or as many as the net has. */
static int pp_shorten(struct pp_case *c)
{
    struct gyre_need need;
    struct gyre_error error = { 0 };
    int status = GYRE_E_ARG;
    for (; c->stages > 1; c->stages--) {
        const struct gyre_config config = pp_config(c, 1);
        status = gyre_measure(&config, &need, &error);
        if (status == GYRE_OK)
            return 1;
        T_CHECK_MSG(strstr(error.text, "is longer than the net"), "seed %d: %s", (int)c->seed,
                    error.text);
    }
    return 0;
}

static void pp_draw(struct pp_case *c, uint64_t seed)
{
    struct random_draw d = { seed };
    *c = (struct pp_case){ .seed = seed };
    random_net_make(&c->net, seed);
    c->stages = 2 + random_below(&d, 3);
    c->copies = random_percent(&d, 30) ? 2 : 1;
    c->sharded =
        random_percent(&d, 40) || c->copies > 1; /* of copies: one process has shards alone */
    c->micros = c->copies > 1 ? 1 << random_below(&d, 3) : 1 + random_below(&d, 6);
    c->schedule = random_below(&d, 2);
    c->dtype = random_percent(&d, 25) ? GYRE_BF16 : GYRE_F32;
    c->optimizer = random_below(&d, 3);
    c->threads = 1 + random_below(&d, 3);
    c->ema = random_percent(&d, 25);
    c->short_of = !c->sharded && c->net.batch > 1 && random_percent(&d, 30);
    c->spoiled = !c->sharded && random_percent(&d, 50) ? random_below(&d, 1 << 2 * c->micros) : 0;
}

static void pp_check(const struct pp_case *c)
{
    char one[64], all[64];
    const struct pp_left *const alone = &pp_left[PP_RANKS];
    snprintf(one, sizeof one, "%s/one", pp_folder);
    snprintf(all, sizeof all, "%s/all", pp_folder);
    memset(pp_left, 0, (PP_RANKS + 1) * sizeof *pp_left);
    pp_alone(c, one);
    if (alone->status == GYRE_E_NONFINITE) /* a net that no rate fits */
        return;
    T_CHECK_MSG(alone->status == GYRE_OK, "seed %d, one process: %s", (int)c->seed, alone->text);
    pp_ranks(c, all);
    int well = 1;
    for (int r = 0; r < c->stages * c->copies; r++) {
        const struct pp_left *left = &pp_left[r];
        well = well && left->status == GYRE_OK;
        T_CHECK_MSG(left->status == GYRE_OK, "seed %d, rank %d: %d, %s", (int)c->seed, r,
                    left->status, left->text);
        for (int k = 0; k < PP_STEPS && left->status == GYRE_OK; k++)
            T_CHECK_MSG(fabs(left->loss[k] - alone->loss[k]) <= 1e-12 * fabs(alone->loss[k]),
                        "seed %d, rank %d, update %d: loss %.17g, of one process %.17g",
                        (int)c->seed, r, k, left->loss[k], alone->loss[k]);
    }
    const double test = pp_left[c->stages - 1].test;
    T_CHECK_MSG(!well || (test <= alone->test && test >= alone->test),
                "seed %d: test loss %.17g, of one process %.17g", (int)c->seed, test, alone->test);
    T_CHECK_MSG(!well || pp_same(one, all), "seed %d: %d stages, %d micro-batches, %d copies, "
                "schedule %d, dtype %d, optimizer %d: not the bits of one process", (int)c->seed,
                c->stages, c->micros, c->copies, c->schedule, c->dtype, c->optimizer);
    if (!well || !pp_same(one, all))
        printf("the net, of batch %d:\n%s", c->net.batch, c->net.text);
    unlink(one);
    unlink(all);
}

static void pp_small(struct pp_case *c)
{
    c->threads = c->net.batch = 2;
    snprintf(c->net.text, sizeof c->net.text, "input 4x4x1\nconv 3 3x3\nconv 3 3x3\n"
             "linear 5\nsoftmax\n");
    memset(pp_left, 0, (PP_RANKS + 1) * sizeof *pp_left);
    pp_ranks(c, "/dev/null");
}

/* A convolution overflows. The stage behind it has weights of its own alone, which are finite. */
static void pp_overflow(void)
{
    struct pp_case *const c = calloc(1, sizeof *c);
    if (!c)
        return;
    *c = (struct pp_case){ .stages = 2, .copies = 1, .micros = 1, .huge = 1 };
    pp_small(c);
    for (int r = 0; r < 2; r++)
        T_CHECK_MSG(pp_left[r].status == (r == 0 ? GYRE_E_NONFINITE : GYRE_E_STATE),
                    "rank %d: %d, %s", r, pp_left[r].status, pp_left[r].text);
    free(c);
}

/* Shards that copies cannot have as branches of one process's tree. */
static void pp_undealt(void)
{
    static const int shards[] = { 1, 3, 6 };
    struct pp_case *const c = calloc(1, sizeof *c);
    for (size_t i = 0; i < GY_COUNT(shards) && c; i++) {
        *c = (struct pp_case){ .stages = 2, .copies = 2, .sharded = 1, .shards = shards[i] };
        c->micros = shards[i] < 2 ? 1 : shards[i] / 2;
        pp_small(c);
        for (int r = 0; r < 4; r++)
            T_CHECK_MSG(pp_left[r].status == GYRE_E_ARG && strstr(pp_left[r].text, "dealt"),
                        "%d shards, rank %d: %d, %s", shards[i], r, pp_left[r].status,
                        pp_left[r].text);
    }
    free(c);
}

/* What a stage must not lose is in some of them. */
static void pp_random(uint64_t first, int count)
{
    static const char *const words[] = { "dropout", "bn", "add", "pool" };
    struct pp_case *const c = calloc(1, sizeof *c);
    int ran = 0, lengths[5] = { 0 }, has[GY_COUNT(words)] = { 0 };
    for (uint64_t seed = first; ran < count && c; seed++) {
        pp_draw(c, seed);
        if (!pp_shorten(c))
            continue;
        pp_check(c);
        lengths[c->stages]++;
        ran++;
        for (size_t i = 0; i < GY_COUNT(words); i++)
            has[i] += strstr(c->net.text, words[i]) != NULL;
    }
    printf("seeds from %d: %d nets of 2 stages, %d of 3, %d of 4;", (int)first, lengths[2],
           lengths[3], lengths[4]);
    for (size_t i = 0; i < GY_COUNT(words); i++) {
        printf(" %d with %s", has[i], words[i]);
        T_CHECK_MSG(has[i] > 0 || count < 16, "no net has %s", words[i]);
    }
    puts("");
    free(c);
}

/* ---- schedules ---- */

static void pp_schedule_make(int kind, int stages, int micros, struct gy_stage_action *action,
                             int *slots)
{
    for (int s = 0; s < stages; s++) {
        gy_stage_schedule(kind, stages, micros, s, action + s * 2 * micros);
        slots[s] = gy_stage_slots(kind, stages, micros, s);
    }
}

static void pp_schedules(void)
{
    static struct gy_stage_action action[16 * 2 * 24];
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    int slots[16], peak[16];
    for (int kind = 0; kind < GY_SCHEDULE_KINDS; kind++)
        for (int stages = 1; stages <= 16; stages++)
            for (int micros = 1; micros <= 24; micros += 1 + micros / 6) {
                pp_schedule_make(kind, stages, micros, action, slots);
                T_CHECK_MSG(
                    stage_verify(action, stages, micros, slots, peak, &alloc, &err) == GY_OK,
                    "kind %d, %d stages, %d micro-batches: %s", kind, stages, micros, err.text);
                for (int s = 0; s < stages; s++) {
                    const int most =
                        kind == GY_SCHEDULE_GPIPE || stages - s > micros ? micros : stages - s;
                    T_CHECK_MSG(peak[s] == most && slots[s] == most, "kind %d, stage %d of %d, %d "
                                "micro-batches: keeps %d, slots %d, should be %d", kind, s, stages,
                                micros, peak[s], slots[s], most);
                }
            }
}

static void pp_swap(struct gy_stage_action *a, struct gy_stage_action *b)
{
    const struct gy_stage_action kept = *a;
    *a = *b;
    *b = kept;
}

/* The place of an action in a stage's list. */
static int pp_find(const struct gy_stage_action *own, int back, int micro)
{
    int i = 0;
    while (own[i].back != back || own[i].micro != micro)
        i++;
    return i;
}

/* One change that a right schedule cannot bear. */
static void pp_spoil(struct random_draw *d, int stages, int micros, struct gy_stage_action *action,
                     int *slots)
{
    const int s = random_below(d, stages), kind = random_below(d, 4), back = random_below(d, 2);
    const int k = random_below(d, micros - 1), i = random_below(d, 2 * micros - 1);
    struct gy_stage_action *const own = action + s * 2 * micros;
    if (kind == 0) /* an action twice, another never */
        own[i] = own[i + 1];
    else if (kind == 1) /* two passes of one kind change places */
        pp_swap(&own[pp_find(own, back, k)], &own[pp_find(own, back, k + 1)]);
    else if (kind == 2) /* fewer slots than it keeps */
        slots[s]--;
    else /* a backward pass before its forward pass */
        pp_swap(&own[pp_find(own, 0, 0)], &own[pp_find(own, 1, 0)]);
}

static void pp_mutants(void)
{
    static struct gy_stage_action action[8 * 2 * 12];
    const struct gy_alloc alloc = gy_alloc_default();
    struct random_draw d = { 77 };
    struct gy_error err = { 0 };
    int slots[8];
    for (int k = 0; k < 2000; k++) {
        const int kind = random_below(&d, GY_SCHEDULE_KINDS), stages = 1 + random_below(&d, 8),
                  micros = 2 + random_below(&d, 11);
        pp_schedule_make(kind, stages, micros, action, slots);
        pp_spoil(&d, stages, micros, action, slots);
        T_CHECK_MSG(stage_verify(action, stages, micros, slots, NULL, &alloc, &err) == GY_E_BUG,
                    "mutant %d of kind %d, %d stages, %d micro-batches passes", k, kind, stages,
                    micros);
    }
    /* two stages that wait for each other: the first wants a gradient before the second can have
     * made it */
    struct gy_stage_action wait[2][4] = { { { 0, 0 }, { 1, 0 }, { 0, 1 }, { 1, 1 } },
                                          { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } } };
    const int two[2] = { 2, 2 };
    T_CHECK_MSG(stage_verify(wait[0], 2, 2, two, NULL, &alloc, &err) == GY_E_BUG &&
                    strstr(err.text, "wait for each other"),
                "%s", err.text);
}

/* Equal stages, whose backward pass takes twice the forward pass: both schedules last M + P - 1
 * turns (Huang et al. 2019). A slow last stage is never without work. */
static void pp_simulations(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_stage_time time[16];
    struct gy_error err = { 0 };
    double seconds = 0;
    for (int kind = 0; kind < GY_SCHEDULE_KINDS; kind++)
        for (int stages = 1; stages <= 16; stages++)
            for (int micros = 1; micros <= 40; micros += 1 + micros / 4) {
                for (int s = 0; s < stages; s++)
                    time[s] = (struct gy_stage_time){ 1, 2, 0 };
                int status = gy_stage_simulate(kind, stages, micros, time, &seconds, &alloc, &err);
                T_CHECK_MSG(status == GY_OK && fabs(seconds - 3 * (micros + stages - 1)) < 1e-9,
                            "kind %d, %d stages, %d micro-batches: %g s", kind, stages, micros,
                            seconds);
                time[stages - 1] = (struct gy_stage_time){ 10, 20, 0 };
                status = gy_stage_simulate(kind, stages, micros, time, &seconds, &alloc, &err);
                T_CHECK_MSG(status == GY_OK &&
                                fabs(seconds - (30 * micros + 3 * (stages - 1))) < 1e-9,
                            "kind %d, %d stages, %d micro-batches, the last one slow: %g s", kind,
                            stages, micros, seconds);
            }
}

int main(int argc, char **argv)
{
    const size_t bytes = (PP_RANKS + 1) * sizeof *pp_left;
    FILE *const file = tmpfile();
    void *const at = file && ftruncate(fileno(file), (off_t)bytes) == 0
                         ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0)
                         : MAP_FAILED;
    if (at == MAP_FAILED || !mkdtemp(pp_folder))
        return 1;
    pp_left = at;
    pp_schedules();
    pp_mutants();
    pp_simulations();
    pp_overflow();
    pp_undealt();
    pp_random(argc > 1 ? strtoull(argv[1], NULL, 10) : 300, argc > 2 ? atoi(argv[2]) : 16);
    rmdir(pp_folder);
    T_END("t_pipeline");
}
