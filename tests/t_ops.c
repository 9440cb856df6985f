/* SPDX-License-Identifier: MIT */
/* THE op test. One table of cases serves three modes on every kernel set that this machine has:
 *
 *     t_ops                      every case against the truth in double; gradients against central differences; the same bits for any
 *                                number of threads; outputs in place; and a wrong kernel, which must be noticed
 *     t_ops --bench              time, GFLOP/s and GB/s of the larger cases, as CSV
 *     t_ops --list               the cases
 *     t_ops --isa NAME --case TEXT   only this kernel set; only cases whose description holds TEXT
 *
 * Sizes lie around every vector width and tile edge; outputs are poisoned, tensors stand between guard zones. */
#include "../engine/base/clock.h"
#include "../engine/base/cpu.h"
#include "op_cases.h"
#include "op_gradient.h"

struct ops_options {
    const char *isa, *only;
    int bench, list;
};

static const char *const ops_isas[] = { "ref", "avx2", "avx512", "avx512bf16", "amx", "vsx", "mma" };

/* Kernel sets that differ: all of their bits are here and at least one is new. */
static int ops_has_isa(const char *isa)
{
    unsigned mask = 0;
    return gy_cpu_mask(isa, &mask) == 0 && (gy_cpu_bits() & mask) == mask;
}

static int ops_selected(const struct ops_options *o, const struct op_case *c)
{
    char text[300];
    return !o->only || strstr(op_text(c, text, sizeof text), o->only) != NULL;
}

static void ops_correctness(const struct ops_options *o, const struct op_device *d, const struct op_cases *cases)
{
    for (int i = 0; i < cases->count; i++) {
        if (!ops_selected(o, &cases->list[i]))
            continue;
        T_CHECK(op_run_case(d, &cases->list[i], (uint64_t)(1000 + i)) == 0);
        for (int pair = 0; pair < 2; pair++)
            T_CHECK(op_run_in_place(d, &cases->list[i], pair, (uint64_t)(5000 + i)) == 0);
    }
}

/* Output bits of a case with a number of threads. */
static uint32_t ops_bits(const char *isa, const struct op_case *c, int threads)
{
    struct op_device d;
    struct op_memory m;
    uint32_t hash = 2166136261u;
    if (op_device_open(&d, isa, threads) != GY_OK)
        return 0;
    op_memory_make(&m, c, 77);
    struct gy_op op = op_record(c, &m, OP_KERNEL);
    const int status = op_execute(&d, &op);
    for (int role = 0; role < GY_ROLES && status == GY_OK; role++)
        for (int64_t i = 0; m.t[role].raw && op_writes(c, role) && i < m.t[role].count * m.t[role].bytes; i++)
            hash = (hash ^ op_place(&m.t[role])[i]) * 16777619u;
    op_memory_free(&m);
    d.backend->close(d.self);
    return status == GY_OK ? hash : 0;
}

static void ops_threads(const struct ops_options *o, const char *isa, const struct op_cases *cases)
{
    for (int i = 0; i < cases->count; i++) {
        const struct op_case *c = &cases->list[i];
        if (!ops_selected(o, c) || c->geom.n * c->geom.p * c->geom.q * c->geom.k < 4000)
            continue;
        const uint32_t one = ops_bits(isa, c, 1);
        T_CHECK(one != 0 && one == ops_bits(isa, c, 2) && one == ops_bits(isa, c, 3));
    }
}

/* A kernel that is wrong in one element must fail in every case (of ordinary values: one huge input allows larger errors). */
static void ops_wrong_kernel(struct op_device d, const struct op_cases *cases)
{
    int missed = 0;
    d.spoil = 1;
    printf("a wrong kernel follows; the complaints are wanted\n");
    for (int i = 0; i < cases->count; i += 37) {
        char text[300];
        if (cases->list[i].values != OP_NORMAL || op_run_case(&d, &cases->list[i], 9) != 0)
            continue;
        printf("not noticed: %s\n", op_text(&cases->list[i], text, sizeof text));
        missed++;
    }
    printf("end of the wrong kernel\n");
    T_CHECK_MSG(missed == 0, "%d cases did not notice", missed);
}

static void ops_bench_case(const struct op_device *d, const struct op_case *c)
{
    struct op_memory m;
    char text[300];
    op_memory_make(&m, c, 3);
    struct gy_op op = op_record(c, &m, OP_KERNEL);
    struct gy_error err;
    double bytes = 0;
    int64_t best = INT64_MAX;
    for (int role = 0; role < GY_ROLES; role++)
        bytes += m.t[role].raw ? (double)m.t[role].count * m.t[role].bytes : 0;
    if (d->backend->prepare(d->self, &op, &err) == GY_OK) {
        void *scratch = NULL;
        if (posix_memalign(&scratch, 64, op.scratch_bytes + 64) == 0)
            op.ptr[GY_SCRATCH] = scratch;
        for (int run = 0; run < 5; run++) {
            const int64_t start = gy_clock_ns();
            d->backend->run(d->self, &op);
            best = gy_min64(best, gy_clock_ns() - start);
        }
        free(scratch);
        printf("%s,\"%s\",%s,%.1f,%.2f,%.2f\n", d->isa, op_text(c, text, sizeof text), op.variant, (double)best * 1e-3,
               (double)gy_op_flops(&op) / (double)best, bytes / (double)best);
    }
    op_memory_free(&m);
}

static void ops_bench(const struct ops_options *o, const struct op_device *d, const struct op_cases *cases)
{
    printf("isa,case,kernel,microseconds,gflops,gbytes\n");
    for (int i = 0; i < cases->count; i++)
        if (ops_selected(o, &cases->list[i]) && cases->list[i].geom.n * cases->list[i].geom.p * cases->list[i].geom.q >= 196)
            ops_bench_case(d, &cases->list[i]);
}

static void ops_list(const struct op_cases *cases)
{
    char text[300];
    for (int i = 0; i < cases->count; i++)
        printf("%s\n", op_text(&cases->list[i], text, sizeof text));
}

static void ops_isa(const struct ops_options *o, const char *isa, const struct op_cases *cases)
{
    struct op_device d;
    if (op_device_open(&d, isa, 0) != GY_OK) {
        T_CHECK(!"the backend opens");
        return;
    }
    const int before = t_passed;
    if (o->bench) {
        ops_bench(o, &d, cases);
        t_skipped++;
    } else {
        ops_correctness(o, &d, cases);
        if (strcmp(isa, "ref") != 0)
            ops_threads(o, isa, cases);
        ops_wrong_kernel(d, cases);
        printf("%s: %d checks held\n", isa, t_passed - before);
    }
    d.backend->close(d.self);
}

int main(int argc, char **argv)
{
    struct ops_options o = { 0 };
    static struct op_cases cases;
    setvbuf(stdout, NULL, _IOLBF, 4096);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0)
            o.bench = 1;
        else if (strcmp(argv[i], "--list") == 0)
            o.list = 1;
        else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc)
            o.isa = argv[++i];
        else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            o.only = argv[++i];
        else
            return printf("t_ops [--bench] [--list] [--isa NAME] [--case TEXT]\n"), 2;
    }
    op_cases_make(&cases);
    if (o.list)
        return ops_list(&cases), 0;
    for (size_t i = 0; i < GY_COUNT(ops_isas); i++) {
        if (o.isa ? strcmp(o.isa, ops_isas[i]) != 0 : !ops_has_isa(ops_isas[i]))
            continue;
        ops_isa(&o, ops_isas[i], &cases);
    }
    if (!o.bench && !o.isa)
        op_gradients();
    T_END("t_ops");
}
