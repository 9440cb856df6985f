/* SPDX-License-Identifier: MIT */
/* t_ops.c: THE op test. One table of cases serves every mode, on every kernel set that this machine
 * has:
 *
 *     t_ops            every case against the truth in double, apart and in place; the same bits
 *                      for any number of threads; gradients against central differences; known
 *                      answers; and planted faults, which must be noticed
 *     t_ops --grad     only gradients and known answers
 *     t_ops --bench    time, GFLOP/s and GB/s of layers of real nets, as CSV
 *     t_ops --list     the cases
 *     --isa NAME --case TEXT --seed N   one kernel set; cases whose description holds TEXT; other
 *                      random numbers
 *     --sample         some of the cases, drawn by the seed, or by the clock without one: every op
 *                      code and type with every shape that it has, and with every combination of
 *                      options that it has
 *     --part I/N       the Ith of N parts of the cases; part 0: all that is not about one case
 *     --fault NAME     with a kernel that is wrong on purpose: it must fail
 *
 * Sizes lie around every vector width and tile edge; outputs are poisoned, tensors stand between
 * guard zones. */
#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "tests/op_half.h"
#include "tests/op_gradient.h"
#include "tests/op_known.h"

struct ops_options {
    const char *isa, *only;
    int bench, list, grad, fault, part, parts, sample;
    uint64_t seed;
};

static const char *const ops_isas[] = { "ref", "avx2", "avx512", "avx512bf16", "amx", "vsx", "mma" };

static int ops_selected(const struct ops_options *o, const struct op_case *c)
{
    char text[300];
    return !o->only || strstr(op_text(c, text, sizeof text), o->only);
}

static void ops_correctness(const struct ops_options *o, const struct op_device *d, const struct op_cases *cases)
{
    for (int i = 0; i < cases->count; i++) {
        if (!ops_selected(o, &cases->list[i]))
            continue;
        const int wrong = op_run_fault(d, &cases->list[i], o->seed + (uint64_t)i, 0);
        if (wrong >= 0)
            T_CHECK(wrong == 0);
        for (int pair = 0; pair < 2 && d->fault == OP_FAULT_NONE; pair++) {
            const int astray = op_run_in_place(d, &cases->list[i], pair, o->seed + 5000 + (uint64_t)i);
            if (astray >= 0)
                T_CHECK(astray == 0);
        }
    }
}

/* Output bits of a case. */
static uint32_t ops_bits(const struct op_device *d, const struct op_case *c)
{
    struct op_memory m;
    uint32_t hash = 2166136261u;
    op_memory_make(&m, c, 77);
    struct gy_op op = op_record(c, &m, OP_KERNEL);
    const int status = op_execute(d, &op);
    for (int role = 0; role < GY_ROLES && status == GY_OK; role++)
        for (int64_t i = 0; m.t[role].raw && op_writes(c, role) && i < m.t[role].count * m.t[role].bytes; i++)
            hash = (hash ^ op_place(&m.t[role])[i]) * 16777619u;
    op_memory_free(&m);
    return status == GY_OK ? hash : 0;
}

/* Every case of some size with 1, 2 and 3 threads. */
static void ops_threads(const struct ops_options *o, const char *isa, const struct op_cases *cases)
{
    static uint32_t bits[3][OP_CASES_MAX];
    for (int threads = 1; threads <= 3; threads++) {
        struct op_device d;
        if (!T_CHECK(op_device_open(&d, isa, threads) == GY_OK))
            return;
        for (int i = 0; i < cases->count; i++) {
            const struct gy_geom *g = &cases->list[i].geom;
            const int large = g->n * g->p * g->q * g->k >= 4000 || cases->list[i].spans;
            bits[threads - 1][i] = large && ops_selected(o, &cases->list[i]) ? ops_bits(&d, &cases->list[i]) : 1;
        }
        op_device_close(&d);
    }
    for (int i = 0; i < cases->count; i++)
        if (bits[0][i] != 1)
            T_CHECK(bits[0][i] != 0 && bits[0][i] == bits[1][i] && bits[0][i] == bits[2][i]);
}

/* The test of the test: a fault in small cases of an op code must be noticed in all cases that can
 * have it. */
static void ops_plant(struct op_device d, const struct op_cases *cases, int fault, int code)
{
    const int outputs = fault < OP_FAULT_ACCUMULATE && fault != OP_FAULT_INPUT ? 4 : 1;
    int planted = 0, missed = 0, tried = 0;
    char text[300];
    d.fault = fault;
    for (int i = 0; i < cases->count && planted < 12 && tried < 24; i++) {
        const struct op_case *c = &cases->list[i];
        const int64_t elements = c->geom.n * c->geom.p * c->geom.q * c->geom.k;
        if (c->code != code || c->values != OP_NORMAL || (!c->spans && elements < 50) || elements > 20000)
            continue;
        tried++;
        for (int which = 0; which < outputs; which++) {
            op_quiet = 1;
            const int wrong = op_run_fault(&d, c, 9, which);
            op_quiet = 0;
            planted += wrong >= 0;
            missed += wrong == 0;
            if (wrong == 0)
                printf("fault '%s' in output %d not noticed: %s\n", op_fault_names[fault], which,
                       op_text(c, text, sizeof text));
        }
    }
    if (planted > 0)
        T_CHECK(missed == 0);
    if (fault < OP_FAULT_ACCUMULATE)
        T_CHECK_MSG(planted > 0, "%s: no case of tests/op_cases.h can have the fault '%s'", gy_op_row(code)->name, op_fault_names[fault]);
}

static void ops_faults(const struct op_device *d, const struct op_cases *cases)
{
    for (int fault = 1; fault < OP_FAULTS; fault++) {
        const int before = t_passed + t_failed;
        for (int code = 0; code < GY_OP_CODES; code++)
            ops_plant(*d, cases, fault, code);
        T_CHECK(t_passed + t_failed > before); /* some op can have it */
    }
}

static void ops_bench_case(const struct op_device *d, const struct op_case *c)
{
    struct op_memory m;
    char text[300];
    op_memory_make(&m, c, 3);
    struct gy_op op = op_record(c, &m, OP_KERNEL);
    double bytes = 0;
    int64_t best = INT64_MAX;
    const int status = op_execute(d, &op);
    void *scratch = malloc(op.scratch_bytes + GY_CACHE_LINE);
    for (int role = 0; role < GY_ROLES; role++)
        bytes += m.t[role].raw ? (double)m.t[role].count * m.t[role].bytes : 0;
    if (scratch && status == GY_OK) {
        op.ptr[GY_SCRATCH] = (unsigned char *)scratch + (GY_CACHE_LINE - (uintptr_t)scratch % GY_CACHE_LINE);
        for (int64_t run = 0, spent = 0; run < 3 || (run < 100 && spent < 100000000); run++) {
            const int64_t start = gy_clock_ns();
            d->backend->run(d->self, &op);
            const int64_t took = gy_clock_ns() - start;
            best = gy_min64(best, took);
            spent += took;
        }
        printf("%s,\"%s\",%s,%.1f,%.2f,%.2f\n", d->isa, op_text(c, text, sizeof text), op.variant, (double)best * 1e-3,
               (double)gy_op_flops(&op) / (double)best, bytes / (double)best);
    }
    free(scratch);
    op_memory_free(&m);
}

static void ops_bench(const struct ops_options *o, const struct op_device *d)
{
    static struct op_cases cases;
    cases.count = 0;
    op_bench_make(&cases);
    for (int i = 0; i < cases.count; i++)
        if (ops_selected(o, &cases.list[i]))
            ops_bench_case(d, &cases.list[i]);
}

/* Leaves the cases of one part. */
static void ops_take_part(const struct ops_options *o, struct op_cases *cases)
{
    int kept = 0;
    for (int i = 0; i < cases->count && o->part > 0; i++)
        if (i % o->parts == o->part - 1)
            cases->list[kept++] = cases->list[i];
    cases->count = o->part > 0 ? kept : cases->count;
}

/* A set's kernels do all updates. The reference would give right answers, slowly. */
static void ops_updates(const struct op_device *d, const struct op_cases *cases)
{
    int met[GY_OP_CODES] = { 0 };
    for (int i = 0; i < cases->count; i++) {
        const struct op_case *c = &cases->list[i];
        struct op_memory m;
        if (c->code < GY_OP_NORMS || met[c->code]++)
            continue;
        op_memory_make(&m, c, 9);
        struct gy_op op = op_record(c, &m, OP_KERNEL);
        T_CHECK_MSG(op_execute(d, &op) == GY_OK && strcmp(op.variant, "ref") != 0, "%s: %s is left to the reference", d->isa,
                    gy_op_row(c->code)->name);
        op_memory_free(&m);
    }
}

/* ---- a sample ---- */

#define OPS_SEEN 65536 /* a power of two, several times OP_CASES_MAX */

/* The case with its shape alone, or with its options alone; memory that no member owns is 0. */
static struct op_case ops_half_of(const struct op_case *c, int shape)
{
    struct op_case half;
    memset(&half, 0, sizeof half);
    half.code = c->code;
    half.dtype = c->dtype;
    half.spans = c->spans;
    half.span_room = shape ? c->span_room : 0;
    if (shape) {
        half.geom = c->geom;
        return half;
    }
    half.act = c->act;
    half.flags = c->flags;
    memcpy(half.f, c->f, sizeof half.f);
    half.without = c->without;
    half.accumulate = c->accumulate;
    half.valid_less = c->valid_less;
    half.values = c->values;
    half.absent = c->absent;
    half.geom.groups = c->geom.groups > 1; /* groups and strides beside every option */
    half.geom.stride_h = c->geom.stride_h > 1;
    return half;
}

/* 1 where no case so far had this half; it then has it. */
static int ops_is_first(struct op_case *seen, const struct op_case *half)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *half; i++)
        hash = (hash ^ ((const unsigned char *)half)[i]) * 16777619u;
    size_t at = hash % OPS_SEEN;
    for (; seen[at].dtype != -1; at = (at + 1) % OPS_SEEN)
        if (memcmp(&seen[at], half, sizeof *half) == 0)
            return 0;
    memcpy(&seen[at], half, sizeof *half);
    return 1;
}

/* Keeps the cases that show a shape or options which no case before them showed. The seed draws
 * their order. */
static void ops_take_sample(const struct ops_options *o, struct op_cases *cases)
{
    static struct op_case seen[OPS_SEEN], drawn[OP_CASES_MAX];
    const int count = cases->count;
    memcpy(drawn, cases->list, (size_t)count * sizeof *drawn);
    memset(seen, 0xff, sizeof seen);
    cases->count = 0;
    for (int i = 0; i < count; i++) {
        const struct op_case *c = &drawn[gy_rng_permute(o->seed, GY_RNG_ORDER, 0, count, i)];
        const struct op_case shape = ops_half_of(c, 1), options = ops_half_of(c, 0);
        const int new_shape = ops_is_first(seen, &shape), new_options = ops_is_first(seen, &options);
        if (new_shape || new_options)
            cases->list[cases->count++] = *c;
    }
    printf("a sample of %d cases\n", count);
}

static void ops_list(const struct op_cases *cases)
{
    char text[300];
    for (int i = 0; i < cases->count; i++)
        printf("%s\n", op_text(&cases->list[i], text, sizeof text));
}

static int ops_has_cases(const struct ops_options *o)
{
    return o->parts == 0 || o->part > 0;
}

static int ops_has_rest(const struct ops_options *o)
{
    return !o->only && !o->fault && o->part == 0;
}

/* whole: for the first kernel set, the table from which faults are planted, whatever sample runs;
 * else NULL. A second set would add nothing. A fault might not show in the cases that a sample
 * took. */
static void ops_isa(const struct ops_options *o, const char *isa, const struct op_cases *cases,
                    const struct op_cases *whole)
{
    struct op_device d;
    if (!T_CHECK(op_device_open(&d, isa, 0) == GY_OK))
        return;
    struct gy_caps caps;
    const int before = t_passed;
    d.fault = o->fault;
    d.backend->caps(d.self, &caps);
    if (o->bench) {
        ops_bench(o, &d);
    } else {
        if (ops_has_cases(o))
            ops_correctness(o, &d, cases);
        if (ops_has_cases(o) && strcmp(isa, "ref") != 0 && !o->fault)
            ops_threads(o, isa, cases);
        if (ops_has_rest(o) && strcmp(isa, "ref") != 0 && !o->fault)
            ops_updates(&d, cases);
        if (whole && ops_has_rest(o))
            ops_faults(&d, whole);
        printf("%s (%s): %d checks held\n", isa, caps.device, t_passed - before);
    }
    op_device_close(&d);
}

/* The last words of a device's description name its kernels. A set that ran under another name is
 * passed over. A name of another processor's set leaves the portable kernels; one such run is
 * enough: "vsx" on x86. */
static int ops_is_new(const char *isa, char seen[][80], int *count)
{
    struct op_device d;
    struct gy_caps caps;
    unsigned mask = 0;
    if (gy_cpu_mask(isa, &mask) != 0 || (mask && !(gy_cpu_bits() & mask) && mask != GY_CPU_VSX))
        return 0;
    if (op_device_open(&d, isa, 1) != GY_OK)
        return 0;
    d.backend->caps(d.self, &caps);
    const char *name = strrchr(caps.device, ',');
    int known = 0;
    for (int i = 0; i < *count; i++)
        known |= strcmp(seen[i], name ? name : caps.device) == 0;
    if (!known)
        snprintf(seen[(*count)++], 80, "%s", name ? name : caps.device);
    op_device_close(&d);
    return !known;
}

static int ops_options_read(struct ops_options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0)
            o->bench = 1;
        else if (strcmp(argv[i], "--list") == 0)
            o->list = 1;
        else if (strcmp(argv[i], "--grad") == 0)
            o->grad = 1;
        else if (strcmp(argv[i], "--sample") == 0)
            o->sample = 1;
        else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc)
            o->isa = argv[++i];
        else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            o->only = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            o->seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc && sscanf(argv[i + 1], "%d/%d", &o->part, &o->parts) == 2)
            i++;
        else if (strcmp(argv[i], "--fault") == 0 && i + 1 < argc)
            for (i++; ++o->fault < OP_FAULTS && strcmp(argv[i], op_fault_names[o->fault]) != 0;)
                ;
        else
            return -1;
    }
    return o->fault < OP_FAULTS && o->part >= 0 && o->part <= o->parts ? 0 : -1;
}

/* 1: each op code has what the cases take for granted. */
static int ops_have_rows(void)
{
    const int before = t_failed;
    for (int code = 0; code < GY_OP_CODES; code++) {
        T_CHECK_MSG(gy_op_row(code)->name, "op code %d has no row in op_table.c", code);
        T_CHECK_MSG(op_truth_table()[code], "op code %d has no row in ref_table.c", code);
    }
    return t_failed == before;
}

int main(int argc, char **argv)
{
    struct ops_options o = { .seed = 0 };
    static struct op_cases cases, whole;
    char seen[GY_COUNT(ops_isas)][80];
    int count = 0;
    setvbuf(stdout, NULL, _IOLBF, 4096);
    if (ops_options_read(&o, argc, argv) != 0)
        return printf("t_ops [--grad] [--bench] [--list] [--isa NAME] [--case TEXT] [--seed N] [--sample] [--part I/N] [--fault NAME]\n"), 2;
    if (o.seed == 0)
        o.seed = o.sample ? (uint64_t)time(NULL) : 1000;
    if (!ops_have_rows())
        return t_end("t_ops");
    op_cases_make(&cases);
    op_add_blocks(&cases);
    op_add_halves(&cases);
    whole = cases;
    if (o.sample)
        ops_take_sample(&o, &cases);
    ops_take_part(&o, &cases);
    if (o.list)
        return ops_list(&cases), 0;
    if (o.bench)
        printf("isa,case,kernel,microseconds,gflops,gbytes\n");
    else
        printf("%d cases, seed %" PRIu64 "\n", cases.count, o.seed);
    for (size_t i = 0; i < GY_COUNT(ops_isas) && !o.grad; i++)
        if (o.isa ? strcmp(o.isa, ops_isas[i]) == 0 : ops_is_new(ops_isas[i], seen, &count))
            ops_isa(&o, ops_isas[i], &cases, o.isa || i == 0 ? &whole : NULL);
    if (o.bench)
        return t_failed != 0;
    if (!o.isa && ops_has_rest(&o)) {
        op_gradients();
        op_known();
    }
    T_END("t_ops");
}
