/* SPDX-License-Identifier: MIT */
/* The op test on a device with memory of its own: the same table of cases as t_ops, through the CUDA backend, on the emulator or on
 * a GPU. Every row of the variant table that fits a case runs it, not only the one that would be chosen.
 *
 *     t_ops_cuda                       a sample on the emulator: of the cases that fit a row the first and one in OPC_SAMPLE
 *     t_ops_cuda --each N              one in N; 1: all
 *     t_ops_cuda --device cuda         every case on the GPU, each twice: the same bits
 *     t_ops_cuda --arch 90             no device: the sample is compiled for sm_90 by NVRTC, and no convolution may spill
 *     --case TEXT --row NAME --op NAME --seed N
 *
 * On a GPU tensors stand between guard zones; on the emulator they do not, because it checks every access by itself. */
#include "../engine/base/clock.h"
#include "../engine/base/file.h"
#include "../kernels/cuda/backend.h"
#include "../kernels/cuda/list.h"
#pragma GCC diagnostic ignored "-Wunused-function" /* the headers are for t_ops first */
#include "op_half.h"
#include "op_check.h"

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
#define OPC_WORK 3000000   /* multiplications that the emulator is given in a sample */
#define OPC_FIRST 100000000 /* and in the first case of a row */

struct opc_options {
    const char *device, *only, *row, *op;
    int64_t each, arch;
    uint64_t seed;
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
    int guards;
    int count;
    struct opc_job job[OPC_CHUNK];
};

/* ---- rows and how often each ran ---- */

#define OPC_ROWS 512
static int opc_ran[OPC_ROWS], opc_wrong[OPC_ROWS], opc_fits[OPC_ROWS], opc_registers[OPC_ROWS], opc_spilled[OPC_ROWS];
static int opc_took[OPC_ROWS]; /* a case is chosen */
static int opc_ever[OPC_ROWS]; /* a case fits on some architecture */
static int opc_done[OPC_ROWS]; /* the architecture on which the row ran, 0 not yet */

static const struct gy_cuda_row *opc_row_at(int index)
{
    int i = 0;
    for (int k = 0; gy_cuda_row_at(k); k++, i++)
        if (i == index)
            return gy_cuda_row_at(k);
    for (int k = 0; gy_cuda_conv_row_at(k); k++, i++)
        if (i == index)
            return gy_cuda_conv_row_at(k);
    return NULL;
}

static int opc_row_index(const struct gy_cuda_row *row)
{
    for (int i = 0; opc_row_at(i); i++)
        if (opc_row_at(i) == row)
            return i < OPC_ROWS ? i : OPC_ROWS - 1;
    return OPC_ROWS - 1;
}

static int opc_row_fits(const struct gy_cuda_row *row, const struct gy_op *op, const struct gy_cuda_device *d)
{
    return row->code == op->code && row->arch <= d->arch && (row->dtypes >> op->dtype & 1) && (!row->fits || row->fits(op, d));
}

static void opc_print_rows(const struct gy_cuda_device *d, int compiled)
{
    for (int i = 0; opc_row_at(i) && i < OPC_ROWS; i++) {
        const struct gy_cuda_row *row = opc_row_at(i);
        if (opc_done[i] || !opc_ran[i])
            continue;
        opc_done[i] = d->arch;
        if (compiled)
            printf("%-16s %-20s sm_%d: %d of %d cases compiled, at most %d registers, %d bytes spilled\n", gy_op_row(row->code)->name,
                   row->name, d->arch, opc_ran[i], opc_fits[i], opc_registers[i], opc_spilled[i]);
        else
            printf("%-16s %-20s sm_%d: %d of %d cases ran, %d wrong\n", gy_op_row(row->code)->name, row->name, d->arch, opc_ran[i],
                   opc_fits[i], opc_wrong[i]);
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
    const int row = opc_row_index(j->row);
    char text[300];
    int spills = 0;
    for (int launch = 0; gy_cuda_list_info(run->self, &j->op, launch, &k); launch++) {
        opc_registers[row] = k.registers > opc_registers[row] ? k.registers : opc_registers[row];
        opc_spilled[row] = k.spilled > opc_spilled[row] ? k.spilled : opc_spilled[row];
        T_CHECK(k.reported && k.registers > 0);
        spills += k.hot && k.spilled;
        if (k.spilled)
            printf("%s %s: %s spills %d bytes: %s\n", k.row, k.file, k.entry, k.spilled, op_text(j->c, text, sizeof text));
    }
    return spills;
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
        if (ok) {
            opc_ran[opc_row_index(j->row)]++;
            opc_wrong[opc_row_index(j->row)] += wrong > 0;
        }
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
    if (!T_CHECK(run->backend->prepare(run->self, &j->op, &err) == GY_OK && strcmp(j->op.variant, row->name) == 0)) {
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
    for (int i = 0; i < count && all->count < OP_CASES_MAX; i++) {
        struct op_case c = all->list[i];
        if (c.dtype != GY_F32 || c.spans || c.values == OP_TINY || c.values == OP_HUGE || (i % 7 != 0 && !op_has_half(c.code)))
            continue;
        c.dtype = GY_F16;
        op_add_case(all, &c);
    }
}

static double opc_work(const struct op_case *c)
{
    const struct gy_op op = gy_op_make(c->code, "", &c->geom);
    return (double)gy_op_flops(&op) / 2;
}

/* Is the case in the sample of the row, which it fits? */
static int opc_sampled(const struct opc_run *run, const struct op_case *c, int row)
{
    const double most = run->guards || run->o.arch ? 1e30 : opc_took[row] ? OPC_WORK : OPC_FIRST;
    const int fit = opc_fits[row]++, small = opc_work(c) <= most, first = small && !opc_took[row];
    opc_ever[row] = 1;
    if (run->o.each == 1 || run->o.only)
        return 1;
    if (!first && (!small || (fit + (int64_t)run->o.seed) % run->o.each != 0))
        return 0;
    opc_took[row] = 1;
    return 1;
}

/* The case's op as prepare sees it, without memory. */
static struct gy_op opc_record(const struct op_case *c)
{
    const uint64_t used = (gy_op_row(c->code)->reads | gy_op_row(c->code)->writes) & ~c->without;
    struct gy_op op = gy_op_make(c->code, "case", &c->geom);
    op.dtype = c->dtype;
    op.act = c->act;
    op.flags = c->flags;
    op.span_count = c->spans;
    memcpy(op.f, c->f, sizeof op.f);
    for (int role = 0; role < GY_ROLES; role++)
        if (used >> role & 1)
            op.tensor[role] = role;
    return op;
}

static int opc_case(struct opc_run *run, const struct op_case *c, uint64_t seed)
{
    char text[300];
    if ((run->o.only && !strstr(op_text(c, text, sizeof text), run->o.only)) ||
        (run->o.op && strcmp(run->o.op, gy_op_row(c->code)->name) != 0))
        return 1;
    const struct gy_op op = opc_record(c);
    int good = 1;
    for (int i = 0; opc_row_at(i) && i < OPC_ROWS && good; i++) {
        const struct gy_cuda_row *row = opc_row_at(i);
        if (opc_done[i] || (run->o.row && strcmp(run->o.row, row->name) != 0) || !opc_row_fits(row, &op, &run->self->device) ||
            !opc_sampled(run, c, i))
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
    for (int i = 0; i < cases->count; i++) {
        const struct gy_op op = opc_record(&cases->list[i]);
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

/* The emulator's library: GYRE_EMU, or beside the folder of the test program. */
static const char *opc_emulator(const char *program, char *path, size_t room)
{
    const char *const named = getenv("GYRE_EMU"), *const slash = strrchr(program, '/');
    if (named && named[0])
        return named;
    const int bytes = slash ? (int)(slash - program) : 1;
    snprintf(path, room, "%.*s/../libgyre-emu.so", bytes, slash ? program : ".");
    if (gy_file_exists(path) != 1)
        snprintf(path, room, "%.*s/libgyre-emu.so", bytes, slash ? program : ".");
    return gy_file_exists(path) == 1 ? path : NULL;
}

static int opc_open(struct opc_run *run, const char *program)
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
        config.emulator = opc_emulator(program, path, sizeof path);
    if (!run->backend || (emulated && !config.emulator)) {
        T_SKIP("no CUDA in this build, or no libgyre-emu.so beside the test");
        return 0;
    }
    if (run->backend->open(&self, &config, &err) != GY_OK) {
        if (emulated)
            T_CHECK(0);
        printf("%s\n", err.text);
        T_SKIP("no device");
        return 0;
    }
    run->self = self;
    if (run->o.arch && gy_cuda_load_compiler(&run->self->lib, run->self->compiler.where, NULL, &err) != GY_OK) {
        printf("%s\n", err.text);
        run->backend->close(self);
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
        if (text && i + 1 < argc)
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

/* All cases on one device. */
static void opc_device(struct opc_run *run, const char *program, const struct op_cases *cases)
{
    int good = 1;
    if (!opc_open(run, program))
        return;
    printf("%d cases, seed %" PRIu64 ", on %s\n", cases->count, run->o.seed, run->self->name);
    if (!run->o.only && !run->o.op && !run->o.row)
        opc_check_served(run, cases);
    for (int i = 0; i < cases->count && good; i++)
        good = opc_case(run, &cases->list[i], run->o.seed + (uint64_t)i);
    if (good)
        opc_flush(run);
    opc_print_rows(&run->self->device, run->o.arch != 0);
    run->backend->close(run->self);
}

/* The emulator can be any architecture: a row runs on the first of these that it is for, and in the end every row has run. */
static void opc_emulated(struct opc_run *run, const char *program, const struct op_cases *cases)
{
    static const char *const archs[] = { "80", "90", "75", "70", "60" };
    const int whole = !run->o.only && !run->o.op && !run->o.row;
    const int skipped = t_skipped;
    for (size_t i = 0; i < GY_COUNT(archs) && t_skipped == skipped; i++) {
        setenv("GYRE_EMU_ARCH", archs[i], 1);
        memset(opc_fits, 0, sizeof opc_fits);
        opc_device(run, program, cases);
    }
    for (int i = 0; whole && t_skipped == skipped && opc_row_at(i) && i < OPC_ROWS; i++)
        if (opc_ever[i])
            T_CHECK_MSG(opc_done[i], "row %s of %s never ran", opc_row_at(i)->name, gy_op_row(opc_row_at(i)->code)->name);
        else
            printf("%-16s %-20s fits no case on any architecture\n", gy_op_row(opc_row_at(i)->code)->name, opc_row_at(i)->name);
}

int main(int argc, char **argv)
{
    static struct opc_run run;
    static struct op_cases cases;
    setvbuf(stdout, NULL, _IOLBF, 4096);
    if (opc_read_options(&run.o, argc, argv) != 0)
        return printf("t_ops_cuda [--device emu|cuda] [--arch N] [--each N] [--case TEXT] [--row NAME] [--op NAME] [--seed N]\n"), 2;
    op_cases_make(&cases);
    op_add_halves(&cases);
    opc_add_f16(&cases);
    if (!run.o.arch && strcmp(run.o.device, "emu") == 0 && !getenv("GYRE_EMU_ARCH"))
        opc_emulated(&run, argv[0], &cases);
    else
        opc_device(&run, argv[0], &cases);
    T_END("t_ops_cuda");
}
