/* SPDX-License-Identifier: MIT */
/* t_ops_cuda.c: the op test on a device with memory of its own. It has the table of cases of t_ops,
 * through the CUDA backend, on the emulator or on a GPU. Every row of the variant table that fits a
 * case runs it, not only the one that would be chosen.
 *
 *     t_ops_cuda                a sample on the emulator: of the cases that fit a row one that is
 *                               chosen and one in OPC_SAMPLE
 *     t_ops_cuda --each N       one in N; 1: all
 *     t_ops_cuda --whole        and everything that op_cover.h lists: each row for each
 *                               architecture and type, each way to cut
 *     t_ops_cuda --device cuda  every case on the GPU, each twice: the same bits
 *     t_ops_cuda --arch 90      no device: the sample is compiled for sm_90 by NVRTC, and no
 *                               convolution may spill; with --whole every row with every type and
 *                               every way to cut
 *     --case TEXT --row NAME --op NAME --seed N
 *     --list                    the pairs of op and row that the device has; nothing runs
 *     --say                     each case's name before it runs: the last one printed hangs
 *
 * On a GPU tensors stand between guard zones. On the emulator they do not, because it checks every
 * access by itself. */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "kernels/cuda/cuda_list.h"
#include "kernels/cuda/cuda_state.h"
#include "kernels/cuda/plans.h"
#include "kernels/cuda/variants.h"
#pragma GCC diagnostic ignored "-Wunused-function" /* the headers are for t_ops first */
#include "tests/device_here.h"
#include "tests/op_check.h"
#include "tests/op_cover.h"
#include "tests/op_glm.h"

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define OPC_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OPC_NO_EMULATOR 1
#endif
#endif

#define OPC_CHUNK 48       /* cases compiled together */
#define OPC_SAMPLE 96

struct opc_options {
    const char *device, *only, *row, *op;
    int64_t each, arch;
    uint64_t seed;
    int whole, list, say;
};

/* One case with one row on its way. */
struct opc_job {
    const struct op_case *c;
    const struct gy_cuda_row *row;
    struct op_memory m;
    struct gy_op op;
    void *device[GY_ROLES];
    int taken, in_place; /* role whose memory an output takes over, or -1 */
    int out;
};

struct opc_run {
    struct opc_options o;
    const struct gy_backend *backend;
    struct gy_cuda_backend *self;
    struct gy_alloc alloc;
    int guards, class;   /* class: of the device among cover_archs, 0 where it is no emulator */
    int fit[COVER_ROWS]; /* cases that fitted the row until now */
    int count;
    struct opc_job job[OPC_CHUNK];
};

/* ---- what the compiler said ---- */

/* all: every row must have been compiled for the architecture with every type that it serves. Rows
 * for other architectures are listed. */
static void opc_print_compiled(int arch, int all)
{
    for (int i = 0; cover_row_at(i) && i < COVER_ROWS; i++) {
        const struct gy_cuda_row *row = cover_row_at(i);
        int ran = 0, fits = 0;
        for (int dtype = 0; dtype < GY_DTYPES; dtype++) {
            const struct cover_cell *cell = &cover.cell[i][0][dtype];
            ran += cell->ran;
            fits += cell->fits;
            T_CHECK_MSG(!all || !cell->fits || cell->ran, "row %s of %s with type %d was not compiled for sm_%d", row->name,
                        gy_op_row(row->code)->name, dtype, arch);
        }
        if (all && !fits)
            printf("%-16s %-20s sm_%d: not for it\n", gy_op_row(row->code)->name, row->name, arch);
        if (ran)
            printf("%-16s %-20s sm_%d: %d of %d cases compiled, at most %d registers, %d bytes spilled\n", gy_op_row(row->code)->name,
                   row->name, arch, ran, fits, cover.registers[i], cover.spilled[i]);
    }
}

/* ---- memory ---- */

static size_t opc_bytes(const struct opc_run *run, const struct op_tensor *t)
{
    return (size_t)(t->count + (run->guards ? 2 * OP_GUARD : 0)) * (size_t)t->bytes;
}

static unsigned char *opc_host(const struct opc_run *run, const struct op_tensor *t) { return run->guards ? t->raw : op_place(t); }

static int opc_get(struct opc_run *run, size_t bytes, void **out)
{
    struct gy_error err = { 0 };
    const int status = run->backend->mem_get(run->self, bytes, GY_MEM_DEVICE, out, &err);
    if (status != GY_OK)
        printf("%s\n", err.text);
    return status;
}

/* Tensors on the device. On the emulator what the op shall only write stays as it is: unwritten. */
static int opc_send(struct opc_run *run, struct opc_job *j)
{
    for (int role = 0; role < GY_ROLES; role++) {
        const struct op_tensor *t = &j->m.t[role];
        if (!t->raw)
            continue;
        if (!j->device[role])
            GY_TRY(opc_get(run, opc_bytes(run, t), &j->device[role]));
        if (run->guards || op_reads(j->c, role))
            GY_TRY(run->backend->copy(run->self, j->device[role], opc_host(run, t), opc_bytes(run, t), GY_COPY_TO_DEVICE));
        j->op.ptr[role] = (unsigned char *)j->device[role] + (run->guards ? (size_t)OP_GUARD * (size_t)t->bytes : 0);
    }
    if (j->in_place)
        j->op.ptr[j->out] = j->op.ptr[j->taken];
    return GY_OK;
}

static int opc_fetch(struct opc_run *run, struct opc_job *j)
{
    for (int role = 0; role < GY_ROLES; role++) {
        const struct op_tensor *t = &j->m.t[role];
        const int out = j->in_place && role == j->out;
        if (t->raw && (run->guards || op_writes(j->c, role) || op_reads(j->c, role)))
            GY_TRY(run->backend->copy(run->self, opc_host(run, t), j->device[out ? j->taken : role], opc_bytes(run, t), GY_COPY_TO_HOST));
    }
    return GY_OK;
}

static void opc_free(struct opc_run *run, struct opc_job *j)
{
    for (int role = 0; role < GY_ROLES; role++)
        if (j->device[role])
            run->backend->mem_put(run->self, j->device[role], 0, GY_MEM_DEVICE);
    op_memory_free(&j->m);
    memset(j, 0, sizeof *j);
}

/* ---- running ---- */

static void opc_truth(const struct op_case *c, struct op_memory *m)
{
    const struct gy_op truth = op_record(c, m, OP_TRUTH), size = op_record(c, m, OP_SIZE);
    op_truth_table()[c->code](&truth);
    if (op_is_sum(c->code))
        op_truth_table()[c->code](&size);
}

/* The scratch starts as NaNs. */
static int opc_scratch(struct opc_run *run, struct opc_job *j)
{
    if (!j->op.scratch_bytes)
        return GY_OK;
    GY_TRY(opc_get(run, j->op.scratch_bytes, &j->device[GY_SCRATCH]));
    j->op.ptr[GY_SCRATCH] = j->device[GY_SCRATCH];
    if (!run->guards)
        return GY_OK;
    void *bad = malloc(j->op.scratch_bytes);
    if (!bad)
        return GY_E_NOMEM;
    memset(bad, 0xff, j->op.scratch_bytes);
    const int status = run->backend->copy(run->self, j->device[GY_SCRATCH], bad, j->op.scratch_bytes, GY_COPY_TO_DEVICE);
    free(bad);
    return status;
}

static uint32_t opc_bits(const struct opc_job *j)
{
    uint32_t hash = 2166136261u;
    for (int role = 0; role < GY_ROLES; role++)
        for (int64_t i = 0; j->m.t[role].raw && op_writes(j->c, role) && i < j->m.t[role].count * j->m.t[role].bytes; i++)
            hash = (hash ^ op_place(&j->m.t[role])[i]) * 16777619u;
    return hash;
}

static int opc_once(struct opc_run *run, struct opc_job *j)
{
    GY_TRY(opc_send(run, j));
    GY_TRY(run->backend->run(run->self, &j->op));
    GY_TRY(run->backend->sync(run->self));
    return opc_fetch(run, j);
}

/* Wrong elements; -1: the device failed. A second run starts from the same memory. */
static int opc_execute(struct opc_run *run, struct opc_job *j)
{
    char where[96];
    struct op_memory fresh;
    snprintf(where, sizeof where, "%s %s%s", run->self->set, j->row->name, j->in_place ? " in place" : "");
    if (run->o.say) {
        char text[300];
        printf("runs %s: %s\n", where, op_text(j->c, text, sizeof text));
        fflush(stdout);
    }
    if (opc_scratch(run, j) != GY_OK || opc_once(run, j) != GY_OK)
        return -1;
    const uint32_t bits = opc_bits(j);
    int wrong = op_compare(j->c, &j->m, where, j->taken);
    if (run->guards && !j->in_place) {
        op_memory_make(&fresh, j->c, j->m.seed);
        for (int role = 0; role < GY_ROLES; role++)
            if (fresh.t[role].raw)
                memcpy(j->m.t[role].raw, fresh.t[role].raw, (size_t)(fresh.t[role].count + 2 * OP_GUARD) * (size_t)fresh.t[role].bytes);
        op_memory_free(&fresh);
        if (opc_once(run, j) != GY_OK)
            return -1;
        if (opc_bits(j) != bits)
            wrong += op_complain(j->c, GY_ROLES - 1, where, "a second run gives other bits");
    }
    return wrong;
}

/* What the compiler said of a case's kernels. */
static int opc_look(struct opc_run *run, struct opc_job *j)
{
    struct gy_kernel_info k;
    const int row = cover_row_index(j->row);
    char text[300];
    int spills = 0;
    for (int launch = 0; gy_cuda_list_info(run->self, &j->op, launch, &k); launch++) {
        cover.registers[row] = k.registers > cover.registers[row] ? k.registers : cover.registers[row];
        cover.spilled[row] = k.spilled > cover.spilled[row] ? k.spilled : cover.spilled[row];
        T_CHECK(k.reported && k.registers > 0);
        spills += k.hot && k.spilled;
        if (k.spilled)
            printf("%s %s: %s spills %d bytes: %s\n", k.row, k.file, k.entry, k.spilled, op_text(j->c, text, sizeof text));
    }
    return spills;
}

static const struct gy_cuda_plan *opc_plan(const struct opc_job *j)
{
    const struct gy_cuda_plan *plan;
    memcpy(&plan, &j->op.kernel, sizeof plan);
    return plan;
}

/* Compiles and runs the chunk. A device that failed ends the test. */
static int opc_flush(struct opc_run *run)
{
    struct gy_error err = { 0 };
    char text[300];
    int ok = T_CHECK(run->backend->ready(run->self, &err) == GY_OK);
    if (!ok)
        printf("%s\n", err.text);
    for (int i = 0; i < run->count; i++) {
        struct opc_job *j = &run->job[i];
        const int wrong = !ok ? 0 : run->o.arch ? opc_look(run, j) : opc_execute(run, j);
        if (wrong < 0)
            printf("%s %s: the device failed\n", j->row->name, op_text(j->c, text, sizeof text));
        ok &= wrong >= 0;
        if (ok)
            cover_note(&j->op, opc_plan(j), run->class, wrong);
        T_CHECK(wrong == 0);
        opc_free(run, j);
    }
    run->count = 0;
    return ok;
}

static int opc_in_place(const struct op_case *c, const struct op_memory *m, int pair, int *out, int *in)
{
    *out = gy_op_row(c->code)->in_place[pair].out;
    *in = *out < 0 ? -1 : gy_op_row(c->code)->in_place[pair].in;
    return *out >= 0 && m->t[*out].raw && m->t[*in].raw && m->t[*out].count == m->t[*in].count && !op_reads(c, *out);
}

/* pair -1: apart. 0: stop. */
static int opc_add(struct opc_run *run, const struct op_case *c, const struct gy_cuda_row *row, uint64_t seed, int pair)
{
    struct opc_job *j = &run->job[run->count];
    struct gy_error err = { 0 };
    char text[300];
    *j = (struct opc_job){ .c = c, .row = row, .taken = -1 };
    op_memory_make(&j->m, c, seed);
    if (pair >= 0 && !opc_in_place(c, &j->m, pair, &j->out, &j->taken)) {
        opc_free(run, j);
        return 1;
    }
    j->in_place = pair >= 0;
    j->op = op_record(c, &j->m, OP_KERNEL);
    opc_truth(c, &j->m);
    memset(j->op.ptr, 0, sizeof j->op.ptr);
    j->op.variant = row->name;
    if (!T_CHECK(run->backend->prepare(run->self, &j->op, NULL, &err) == GY_OK && strcmp(j->op.variant, row->name) == 0)) {
        printf("%s: %s\n", op_text(c, text, sizeof text), err.text);
        opc_free(run, j);
        return 1;
    }
    return ++run->count < OPC_CHUNK ? 1 : opc_flush(run);
}

/* The cases once more on f16, a seventh of them: what its range can hold. */
static void opc_add_f16(struct op_cases *all)
{
    const int count = all->count;
    int met[GY_OP_CODES] = { 0 };
    for (int i = 0; i < count && all->count < OP_CASES_MAX; i++) {
        struct op_case c = all->list[i];
        if (c.dtype != GY_F32 || c.spans || c.values == OP_TINY || c.values == OP_HUGE || (!op_has_half(c.code) && met[c.code]++ % 7 != 0))
            continue;
        c.dtype = GY_F16;
        op_add_case(all, &c);
    }
}

/* For the whole of it: sizes at which a kernel goes another way. */
static void opc_add_large(struct op_cases *all)
{
    static const int flat[] = { GY_OP_INPUT, GY_OP_ACT, GY_OP_ACT_BWD, GY_OP_ADD, GY_OP_ADD_BWD, GY_OP_DROPOUT, GY_OP_CONCAT,
                                GY_OP_CONCAT_BWD, GY_OP_SHORTCUT, GY_OP_SHORTCUT_BWD };
    static const struct op_conv_shape convs[] = { { 3, 53, 54, 5, 6, 1, 1, 1, 0, 1, 1 }, { 1, 130, 128, 64, 8, 1, 1, 1, 0, 1, 1 } };
    for (size_t i = 0; i < GY_COUNT(flat); i++) {
        struct op_case c = { .code = flat[i], .geom = op_flat_geom(1, 1024, 1024, 4), .f = { 0.3f, 0.2f, 0.1f, 0.4f, 1, 1, 1, 1 } };
        const int moves = flat[i] == GY_OP_CONCAT || flat[i] == GY_OP_CONCAT_BWD;
        const int apart = flat[i] == GY_OP_SHORTCUT || flat[i] == GY_OP_SHORTCUT_BWD;
        c.act = flat[i] == GY_OP_ACT || flat[i] == GY_OP_ACT_BWD ? GY_ACT_RELU : GY_ACT_NONE;
        c.without = flat[i] == GY_OP_ADD_BWD ? OP_BIT(GY_Y) : 0;
        c.geom.k = moves ? 8 : apart ? 12 : 4;
        c.geom.r = moves ? 4 : 1;
        op_add_case(all, &c);
    }
    for (size_t i = 0; i < 3 * GY_COUNT(convs); i++) {
        const struct gy_geom g = op_conv_geom(&convs[i / 3]);
        op_add_case(all, &(struct op_case){ .code = GY_OP_CONV, .geom = g, .dtype = (int)(i % 3), .without = OP_CONV_PLAIN & ~OP_BIT(GY_STATS) });
    }
}

/* Does the row, which it fits, run the case? */
static int opc_takes(struct opc_run *run, const struct op_case *c, int which, int row, const struct gy_op *op)
{
    const int home = cover.home[row] - 1 == run->class, any_size = run->guards || run->o.arch, fit = run->fit[row]++;
    if (run->o.only || (home && run->o.each == 1))
        return home;
    if ((home || run->o.whole) && cover_is_chosen(which, row, op, &run->self->device, run->class, run->o.whole))
        return 1;
    return home && (any_size || cover_case_work(c) <= COVER_WORK) && (fit + (int64_t)run->o.seed) % run->o.each == 0;
}

static int opc_case(struct opc_run *run, const struct op_case *c, int which, uint64_t seed)
{
    char text[300];
    struct gy_span spans[8];
    if ((run->o.only && !strstr(op_text(c, text, sizeof text), run->o.only)) ||
        (run->o.op && strcmp(run->o.op, gy_op_row(c->code)->name) != 0))
        return 1;
    const struct gy_op op = cover_op(c, spans);
    int good = 1;
    for (int i = 0; cover_row_at(i) && i < COVER_ROWS && good; i++) {
        const struct gy_cuda_row *row = cover_row_at(i);
        if ((run->o.row && strcmp(run->o.row, row->name) != 0) || !cover_row_fits(row, &op, &run->self->device) ||
            !opc_takes(run, c, which, i, &op))
            continue;
        for (int pair = -1; pair < (run->o.arch ? 0 : 2) && good; pair++)
            good = opc_add(run, c, row, seed, pair);
    }
    return good;
}

/* Some op table case must fit some row, else the op cannot run at all. */
static void opc_check_served(struct opc_run *run, const struct op_cases *cases)
{
    char text[300];
    struct gy_span spans[8];
    for (int i = 0; i < cases->count; i++) {
        const struct gy_op op = cover_op(&cases->list[i], spans);
        if (!T_CHECK(gy_cuda_pick(&op, &run->self->device, NULL) != NULL))
            printf("no row fits %s\n", op_text(&cases->list[i], text, sizeof text));
    }
}

/* ---- opening ---- */

static void opc_log(void *user, int level, const char *text)
{
    (void)user;
    printf("%s%s\n", level == GY_LOG_ERROR ? "error: " : "", text);
}

static int opc_open(struct opc_run *run)
{
    char path[4096];
    struct gy_error err = { 0 };
    static const struct gy_log log = { opc_log, NULL, GY_LOG_WARN };
    void *self;
    run->alloc = gy_alloc_default();
    struct gy_backend_config config = { .alloc = &run->alloc, .log = &log, .kernel_cache = getenv("GYRE_KERNEL_CACHE"),
                                        .cuda_path = getenv("GYRE_CUDA_PATH") };
    const int emulated = !run->o.arch && strcmp(run->o.device, "emu") == 0;
    config.arch = (int)run->o.arch;
    run->backend = gy_cuda_backend();
    run->guards = !emulated && !run->o.arch;
#ifdef OPC_NO_EMULATOR
    if (emulated) {
        T_SKIP("no emulator under ThreadSanitizer");
        return 0;
    }
#endif
    if (emulated)
        config.emulator = dh_emulator(path, sizeof path);
    const int there = run->backend && (!emulated || config.emulator);
    if (!dh_opened(run->o.device, there ? run->backend->open(&self, &config, &err) : GY_E_NODEVICE, err.text))
        return 0;
    run->self = self;
    if (run->o.arch && gy_cuda_load_compiler(&run->self->lib, run->self->compiler.where, NULL, &err) != GY_OK) {
        printf("%s\n", err.text);
        run->backend->close(self);
        run->self = NULL;
        T_SKIP("no NVRTC");
        return 0;
    }
    return 1;
}

static int opc_read_options(struct opc_options *o, int argc, char **argv)
{
    *o = (struct opc_options){ .device = "emu", .seed = 2000 };
    for (int i = 1; i < argc; i++) {
        const char **const text = strcmp(argv[i], "--device") == 0 ? &o->device : strcmp(argv[i], "--case") == 0 ? &o->only :
                                  strcmp(argv[i], "--row") == 0 ? &o->row : strcmp(argv[i], "--op") == 0 ? &o->op : NULL;
        int *const flag = strcmp(argv[i], "--whole") == 0 ? &o->whole : strcmp(argv[i], "--list") == 0 ? &o->list :
                          strcmp(argv[i], "--say") == 0 ? &o->say : NULL;
        if (flag)
            *flag = 1;
        else if (text && i + 1 < argc)
            *text = argv[++i];
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            o->seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--arch") == 0 && i + 1 < argc && gy_text_int(argv[i + 1], 60, 999, &o->arch) == 0)
            i++;
        else if (strcmp(argv[i], "--each") == 0 && i + 1 < argc && gy_text_int(argv[i + 1], 1, 1 << 20, &o->each) == 0)
            i++;
        else
            return -1;
    }
    if (!o->each)
        o->each = strcmp(o->device, "emu") == 0 || o->arch ? OPC_SAMPLE : 1;
    return 0;
}

/* Pairs of op and row that some case fits. */
static void opc_list(const struct opc_run *run, const struct op_cases *cases)
{
    struct gy_span spans[8];
    for (int i = 0; cover_row_at(i) && i < COVER_ROWS; i++) {
        int fits = 0;
        for (int k = 0; k < cases->count && !fits; k++) {
            const struct gy_op op = cover_op(&cases->list[k], spans);
            fits = cover_row_fits(cover_row_at(i), &op, &run->self->device);
        }
        if (fits)
            printf("%s %s\n", gy_op_row(cover_row_at(i)->code)->name, cover_row_at(i)->name);
    }
}

/* All cases on one device. */
static void opc_device(struct opc_run *run, const struct op_cases *cases)
{
    int good = 1;
    if (!opc_open(run))
        return;
    printf("%d cases, seed %" PRIu64 ", on %s\n", cases->count, run->o.seed, run->self->name);
    if (!run->o.only && !run->o.op && !run->o.row)
        opc_check_served(run, cases);
    cover_choose(cases, &run->self->device, run->class);
    memset(run->fit, 0, sizeof run->fit);
    for (int i = 0; i < cases->count && good; i++)
        good = opc_case(run, &cases->list[i], i, run->o.seed + (uint64_t)i);
    if (good)
        opc_flush(run);
}

/* The kernels that measure a device stand in no row: a copy must copy, the others must run. */
static void opc_ceilings(struct opc_run *run)
{
    static const char options[] = "-DGY_ARCH=80\0-DGY_THREADS=64\0-DGY_SHARED_BYTES=0\0-DGY_DTYPE=0\0-DGY_ACT=0\0-DGY_FLAGS=0\0"
                                  "-DGY_ITEMS=300\0-DGY_TURNS=2\0-DGY_MULTIPLIES=3";
    static const char *const entries[] = { "ceiling_copy", "ceiling_read", "ceiling_multiply" };
    struct gy_cuda_unit unit = { .file = "ceiling.cu", .options = options, .option_bytes = sizeof options, .option_count = 9,
                                 .arch = run->self->device.arch };
    struct gy_cuda_unit *list[] = { &unit };
    const struct gy_cuda_api *api = &run->self->lib.api;
    struct gy_args args = { .spans = NULL };
    unsigned char sent[4800], got[4800];
    struct gy_error err = { 0 };
    gy_cuda_module module = NULL;
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (unsigned char)(i * 31 + i / 256);
    T_CHECK(opc_get(run, sizeof sent, &args.ptr[GY_X]) == GY_OK && opc_get(run, sizeof sent, &args.ptr[GY_Y]) == GY_OK);
    T_CHECK(run->backend->copy(run->self, args.ptr[GY_X], sent, sizeof sent, GY_COPY_TO_DEVICE) == GY_OK);
    T_CHECK_MSG(gy_cuda_compile(&run->self->compiler, list, 1, &err) == GY_OK, "%s", err.text);
    T_CHECK(unit.image.bytes && api->dr_module_load(&module, unit.image.bytes, 0, NULL, NULL) == 0);
    for (size_t i = 0; i < GY_COUNT(entries) && module; i++) {
        void *parameters[] = { &args };
        gy_cuda_function function = NULL;
        if (T_CHECK(api->dr_module_function(&function, module, entries[i]) == 0 &&
                    api->dr_launch_kernel(function, 3, 1, 1, 64, 1, 1, 0, run->self->stream, parameters, NULL) == 0 &&
                    run->backend->sync(run->self) == GY_OK))
            cover_kernel_ran(entries[i]);
    }
    T_CHECK(run->backend->copy(run->self, got, args.ptr[GY_Y], sizeof got, GY_COPY_TO_HOST) == GY_OK && memcmp(sent, got, sizeof got) == 0);
    if (module)
        api->dr_module_unload(module);
    gy_cuda_image_free(&unit.image);
    run->backend->mem_put(run->self, args.ptr[GY_X], 0, GY_MEM_DEVICE);
    run->backend->mem_put(run->self, args.ptr[GY_Y], 0, GY_MEM_DEVICE);
}

/* The value in bf16 that ceiling_matrix has at number i of its shared memory. */
static float opc_ceiling_value(uint32_t i)
{
    uint32_t v = i / 2 * 2654435761u;
    v ^= v >> 15;
    v *= 0x85ebca6bu;
    v = ((v ^ v >> 13) & 0x807f807fu) | 0x3f803f80u;
    const uint32_t bits = (i % 2 ? v >> 16 : v & 0xffff) << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Sum of all products of a group's 64 rows with 256 columns. Rows of 64 lie in 8 chunks: chunk c of
 * row r at c ^ r % 8. */
static double opc_ceiling_sum(int group)
{
    double sum = 0;
    for (uint32_t k = 0; k < 64; k++) {
        double a = 0, b = 0;
        for (uint32_t r = 0; r < 256; r++) {
            const uint32_t at = r * 64 + (k / 8 ^ r % 8) * 8 + k % 8;
            b += (double)opc_ceiling_value(2 * 64 * 64 + at);
            a += r < 64 ? (double)opc_ceiling_value((uint32_t)group * 64 * 64 + at) : 0.0;
        }
        sum += a * b;
    }
    return sum;
}

/* The matrix units' ceiling: sums of groups beside double; or it is compiled and no more. */
static void opc_ceiling_matrix(struct opc_run *run, int compile)
{
    enum { BLOCKS = 3, TURNS = 3, THREADS = 256, SHARED = 48 << 10 };
    static const char options[] = "-DGY_ARCH=90\0-DGY_THREADS=256\0-DGY_SHARED_BYTES=49152\0"
                                  "-DGY_DTYPE=0\0-DGY_ACT=0\0-DGY_FLAGS=0\0-DGY_ITEMS=1\0"
                                  "-DGY_TURNS=3\0-DGY_MULTIPLIES=3";
    struct gy_cuda_unit unit = { .file = "ceiling.cu", .options = options,
                                 .option_bytes = sizeof options, .option_count = 9,
                                 .arch = run->self->device.arch };
    struct gy_cuda_unit *list[] = { &unit };
    const struct gy_cuda_api *api = &run->self->lib.api;
    struct gy_args args = { .spans = NULL };
    void *parameters[] = { &args };
    static float got[BLOCKS * THREADS];
    gy_cuda_module module = NULL;
    gy_cuda_function function = NULL;
    struct gy_error err = { 0 };
    T_CHECK_MSG(gy_cuda_compile(&run->self->compiler, list, 1, &err) == GY_OK, "%s", err.text);
    if (!compile &&
        T_CHECK(opc_get(run, sizeof got, &args.ptr[GY_Y]) == GY_OK && unit.image.bytes &&
                api->dr_module_load(&module, unit.image.bytes, 0, NULL, NULL) == 0 &&
                api->dr_module_function(&function, module, "ceiling_matrix") == 0 &&
                api->dr_launch_kernel(function, BLOCKS, 1, 1, THREADS, 1, 1, SHARED,
                                      run->self->stream, parameters, NULL) == 0 &&
                run->backend->copy(run->self, got, args.ptr[GY_Y], sizeof got,
                                   GY_COPY_TO_HOST) == GY_OK)) {
        cover_kernel_ran("ceiling_matrix");
        for (int i = 0; i < BLOCKS * 2; i++) {
            double sum = 0;
            for (int t = 0; t < 128; t++)
                sum += (double)got[i * 128 + t];
            const double want = TURNS * opc_ceiling_sum(i % 2);
            T_CHECK_MSG(fabs(sum - want) <= 1.0, "group %d: %.3f, not %.3f", i, sum, want);
        }
    }
    if (module)
        api->dr_module_unload(module);
    gy_cuda_image_free(&unit.image);
    if (args.ptr[GY_Y])
        run->backend->mem_put(run->self, args.ptr[GY_Y], 0, GY_MEM_DEVICE);
}

static void opc_check_covered(struct opc_run *run)
{
    int served = 0, ran = 0;
    for (int i = 0; cover_row_at(i) && i < COVER_ROWS; i++) {
        int here = 0;
        served += cover_print_row(i, COVER_CLASSES, cover_archs, &here);
        ran += here;
        T_CHECK_MSG(here > 0, "row %s of %s never ran", cover_row_at(i)->name, gy_op_row(cover_row_at(i)->code)->name);
        if (run->o.whole)
            cover_check_row(i, COVER_CLASSES, cover_archs);
    }
    printf("%d of %d rows ran, each architecture and type by itself\n", ran, served);
    if (run->o.whole)
        cover_check_ways();
    cover_check_kernels(run->o.whole);
    cover_check_words(run->self->lib.runtime);
}

/* The emulator as each class of architectures; in the end every row has run. */
static void opc_emulated(struct opc_run *run, const struct op_cases *cases)
{
    const int some = run->o.only || run->o.op || run->o.row, skipped = t_skipped;
    for (run->class = 0; run->class < COVER_CLASSES && t_skipped == skipped; run->class++) {
        char arch[16];
        snprintf(arch, sizeof arch, "%d", cover_archs[run->class]);
        setenv("GYRE_EMU_ARCH", arch, 1);
        opc_device(run, cases);
        if (!run->self)
            return;
        const int last = run->class + 1 == COVER_CLASSES;
        const int ceiling = run->o.op && strcmp(run->o.op, "ceiling") == 0;
        if (run->self->device.arch == 90 && (!some || ceiling))
            opc_ceiling_matrix(run, 0);
        if (last && !some) {
            opc_ceilings(run);
            op_glm_run(run->backend, run->self);
            opc_check_covered(run);
        }
        run->backend->close(run->self);
        run->self = NULL;
    }
}

int main(int argc, char **argv)
{
    static struct opc_run run;
    static struct op_cases cases;
    setvbuf(stdout, NULL, _IOLBF, 4096);
    if (opc_read_options(&run.o, argc, argv) != 0)
        return printf("t_ops_cuda [--device emu|cuda] [--arch N] [--each N] [--whole] [--case TEXT] [--row NAME] [--op NAME] [--seed N]"
                      " [--list] [--say]\n"), 2;
    op_cases_make(&cases);
    op_add_halves(&cases);
    opc_add_f16(&cases);
    if (run.o.whole)
        opc_add_large(&cases);
    cover.seed = run.o.seed;
    cover_list_kernels();
    if (run.o.list) {
        if (!opc_open(&run))
            return 1;
        opc_list(&run, &cases);
        run.backend->close(run.self);
        return 0;
    }
    if (!run.o.arch && strcmp(run.o.device, "emu") == 0 && !getenv("GYRE_EMU_ARCH")) {
        opc_emulated(&run, &cases);
        T_END("t_ops_cuda");
    }
    opc_device(&run, &cases);
    const int all = !run.o.only && !run.o.op && !run.o.row;
    if (run.self && run.o.arch)
        opc_print_compiled(run.self->device.arch, run.o.whole && all);
    if (run.self && run.o.arch == 90 && all)
        opc_ceiling_matrix(&run, 1);
    if (run.self && run.o.arch && all)
        op_glm_compile(run.self, run.o.whole);
    for (int i = 0; run.self && !run.o.arch && cover_row_at(i) && i < COVER_ROWS; i++)
        cover_print_row(i, 1, &run.self->device.arch, &(int){ 0 });
    if (run.self)
        run.backend->close(run.self);
    T_END("t_ops_cuda");
}
