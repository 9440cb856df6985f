/* SPDX-License-Identifier: MIT */
/* The CPU as a backend: device memory is host memory, the queue is always empty because run returns when the work
 * is done. A table gives each op code its fast driver and the condition under which it applies; whatever has none,
 * or does not meet it, runs the reference, sample by sample in parallel where samples are independent. Kernel set
 * "ref" runs references only, on one thread. bf16: drivers that know it are marked; all else is widened to float. */
#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "kernels/backend.h"
#include "kernels/cpu/block_sizes.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/conv_depth.h"
#include "kernels/cpu/conv_grad.h"
#include "kernels/cpu/cpu_ceiling.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/select.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/update.h"
#include "kernels/cpu/widen.h"
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/winograd_grad.h"

enum cpu_half { CPU_HALF_NO, CPU_HALF_YES, CPU_HALF_FLAT /* not with sigmoid or tanh */ };
struct cpu_row {
    const char *variant;
    int (*fits)(const struct gy_op *op);                            /* NULL: always */
    size_t (*need)(const struct gy_cpu *cpu, const struct gy_op *op); /* NULL: no scratch */
    void (*run)(const struct gy_cpu *cpu, const struct gy_op *op);
    enum cpu_half half;                                             /* does it work on bf16? */
};

struct cpu_backend {
    struct gy_cpu cpu;
    struct gy_alloc alloc;
    int ref;
    char device[160], model[80];
};

static int cpu_no_curve(const struct gy_op *op)
{
    return !gy_act_is_curve(op->act);
}

/* ORDER: enum gy_opcode. Rows without run, and batch norm backward over sigmoid or tanh, use the reference. */
static const struct cpu_row cpu_rows[GY_OP_CODES] = {
    [GY_OP_CONV] = {"gemm", NULL, gy_cpu_conv_need, gy_cpu_conv_run, CPU_HALF_FLAT},
    [GY_OP_CONV_DGRAD] = {"gemm", NULL, gy_cpu_dgrad_need, gy_cpu_dgrad_run, CPU_HALF_YES},
    [GY_OP_CONV_WGRAD] = {"outer", NULL, gy_cpu_wgrad_need, gy_cpu_wgrad_run, CPU_HALF_YES},
    [GY_OP_BN_STATS] = {"rows", NULL, gy_cpu_bn_parts_need, gy_cpu_bn_stats_run, CPU_HALF_YES},
    [GY_OP_BN_APPLY] = {"rows", NULL, NULL, gy_cpu_bn_apply_run, CPU_HALF_FLAT},
    [GY_OP_BN_SUMS] = {"rows", cpu_no_curve, gy_cpu_bn_parts_need, gy_cpu_bn_sums_run, CPU_HALF_YES},
    [GY_OP_BN_BWD] = {"rows", cpu_no_curve, gy_cpu_bn_back_need, gy_cpu_bn_back_run, CPU_HALF_YES},
    [GY_OP_INPUT] = {"flat", NULL, NULL, gy_cpu_input_run, CPU_HALF_YES},
    [GY_OP_DROPOUT] = {"flat", NULL, NULL, gy_cpu_dropout_run, CPU_HALF_YES},
    [GY_OP_POOL_MAX] = {"rows", NULL, gy_cpu_pool_need, gy_cpu_pool_max_run, CPU_HALF_YES},
    [GY_OP_POOL_AVG] = {"rows", NULL, gy_cpu_pool_need, gy_cpu_pool_avg_run, CPU_HALF_YES},
    [GY_OP_POOL_MAX_BWD] = {"rows", NULL, gy_cpu_pool_need, gy_cpu_pool_back_run, CPU_HALF_YES},
    [GY_OP_POOL_AVG_BWD] = {"rows", NULL, gy_cpu_pool_need, gy_cpu_pool_back_run, CPU_HALF_YES},
    [GY_OP_NORMS] = {"flat", NULL, gy_cpu_norms_need, gy_cpu_norms_run, CPU_HALF_NO},
    [GY_OP_SGD] = {"flat", NULL, NULL, gy_cpu_update_run, CPU_HALF_NO},
    [GY_OP_LARS] = {"flat", NULL, NULL, gy_cpu_update_run, CPU_HALF_NO},
    [GY_OP_ADAMW] = {"flat", NULL, NULL, gy_cpu_update_run, CPU_HALF_NO},
    [GY_OP_LAMB] = {"flat", NULL, gy_cpu_norms_need, gy_cpu_update_run, CPU_HALF_NO},
    [GY_OP_ACT] = {"flat", NULL, NULL, gy_cpu_act_run, CPU_HALF_FLAT},
    [GY_OP_ADD] = {"flat", NULL, NULL, gy_cpu_add_run, CPU_HALF_FLAT},
    [GY_OP_SHORTCUT] = {"rows", NULL, NULL, gy_cpu_shortcut_run, CPU_HALF_YES},
    [GY_OP_SHORTCUT_BWD] = {"rows", NULL, NULL, gy_cpu_shortcut_back_run, CPU_HALF_YES},
    [GY_OP_ACT_BWD] = {"flat", NULL, NULL, gy_cpu_act_back_run, CPU_HALF_FLAT},
    [GY_OP_ADD_BWD] = {"flat", NULL, NULL, gy_cpu_add_back_run, CPU_HALF_FLAT},
};

/* bf16 through float kernels: the mark of such an op. */
static const struct cpu_row cpu_wide_row = { .variant = "widened"};

/* Convolutions by Winograd's way; NULL: the direct way. ORDER: wino of struct gy_kernels. */
static const struct cpu_row *cpu_wino_row(const struct gy_op *op, const struct gy_kernels *k)
{
    static const struct cpu_row conv[GY_WINOS] = {{"winograd4", NULL, gy_cpu_wino_need, gy_cpu_wino_run, CPU_HALF_YES},
                                                  {"winograd7", NULL, gy_cpu_wino_need, gy_cpu_wino_run, CPU_HALF_YES},
                                                  {"winograd4", NULL, gy_cpu_wino_need, gy_cpu_wino_run, CPU_HALF_YES},
                                                  {"winograd7/2", NULL, gy_cpu_wino_need, gy_cpu_wino_run, CPU_HALF_NO}};
    static const struct cpu_row wgrad[GY_WINOS] = {{"winograd4", NULL, gy_cpu_wino_grad_need, gy_cpu_wino_grad_run, CPU_HALF_YES},
                                                   {"winograd7", NULL, gy_cpu_wino_grad_need, gy_cpu_wino_grad_run, CPU_HALF_YES},
                                                   {"winograd4", NULL, gy_cpu_wino_grad_need, gy_cpu_wino_grad_run, CPU_HALF_YES},
                                                   {"winograd7/2", NULL, gy_cpu_wino_grad_need, gy_cpu_wino_grad_run, CPU_HALF_NO}};
    const int is_wgrad = op->code == GY_OP_CONV_WGRAD;
    if (op->code != GY_OP_CONV && op->code != GY_OP_CONV_DGRAD && !is_wgrad)
        return NULL;
    const int i = gy_cpu_wino_find(op, k);
    return i < 0 ? NULL : is_wgrad ? &wgrad[i] : &conv[i];
}

/* Convolutions in which every channel is a group of its own. */
static const struct cpu_row *cpu_depth_row(int code)
{
    static const struct cpu_row forward = {"depthwise", NULL, gy_cpu_depth_need, gy_cpu_depth_run, CPU_HALF_NO};
    static const struct cpu_row dgrad = {"depthwise", NULL, gy_cpu_depth_dgrad_need, gy_cpu_depth_dgrad_run, CPU_HALF_NO};
    static const struct cpu_row wgrad = {"depthwise", NULL, gy_cpu_depth_wgrad_need, gy_cpu_depth_wgrad_run, CPU_HALF_NO};
    return code == GY_OP_CONV ? &forward : code == GY_OP_CONV_DGRAD ? &dgrad : code == GY_OP_CONV_WGRAD ? &wgrad : NULL;
}

/* Ops whose samples are independent, for the reference in parallel: what a sample's tensors hold. */
enum cpu_shape { CPU_SHAPE_NONE, CPU_SHAPE_IN, CPU_SHAPE_OUT };
struct cpu_sample_role {
    uint8_t role, shape, bytes; /* elements of a sample: h*w*c or p*q*k, bytes each */
};
struct cpu_sample_row {
    int code;
    struct cpu_sample_role roles[3];
};
static const struct cpu_sample_row cpu_sample_rows[] = {
    {GY_OP_LRN, {{GY_X, CPU_SHAPE_IN, 4}, {GY_Y, CPU_SHAPE_IN, 4}}},
    {GY_OP_LRN_BWD, {{GY_X, CPU_SHAPE_IN, 4}, {GY_DX, CPU_SHAPE_IN, 4}, {GY_DY, CPU_SHAPE_IN, 4}}},
    {GY_OP_CONCAT, {{GY_X, CPU_SHAPE_IN, 4}, {GY_Y, CPU_SHAPE_OUT, 4}}},
    {GY_OP_CONCAT_BWD, {{GY_DX, CPU_SHAPE_IN, 4}, {GY_DY, CPU_SHAPE_OUT, 4}}},
};

static const struct cpu_sample_row *cpu_sample_row(int code)
{
    for (size_t i = 0; i < GY_COUNT(cpu_sample_rows); i++)
        if (cpu_sample_rows[i].code == code)
            return &cpu_sample_rows[i];
    return NULL;
}

struct cpu_sample_job {
    const struct gy_op *op;
    const struct cpu_sample_row *row;
};

static void cpu_sample_tile(void *arg, int64_t tile, int thread)
{
    const struct cpu_sample_job *job = arg;
    struct gy_op op = *job->op;
    const struct gy_geom *g = &job->op->geom;
    const int64_t in = (int64_t)g->h * g->w * g->c, out = (int64_t)g->p * g->q * g->k;
    op.geom.n = 1;
    for (size_t i = 0; i < GY_COUNT(job->row->roles); i++) {
        const struct cpu_sample_role *r = &job->row->roles[i];
        if (r->shape == CPU_SHAPE_NONE || !op.ptr[r->role])
            continue;
        const int64_t count = r->shape == CPU_SHAPE_IN ? in : out;
        op.ptr[r->role] = (unsigned char *)op.ptr[r->role] + tile * count * r->bytes;
    }
    gy_ref_table()[op.code](&op);
    (void)thread;
}

static void cpu_say_pinned(const struct cpu_backend *cpu, const struct gy_backend_config *config, const char *why)
{
    if (gy_pool_is_pinned(cpu->cpu.pool))
        gy_log_write(config->log, GY_LOG_DEBUG, "%d threads are bound to processors", cpu->cpu.threads);
    else if (cpu->cpu.threads > 1)
        gy_log_write(config->log, config->pin == GY_PIN_ON ? GY_LOG_WARN : GY_LOG_DEBUG,
                     "%d threads are not bound to processors: %s", cpu->cpu.threads, why);
}

static int cpu_open(void **self, const struct gy_backend_config *config, struct gy_error *err)
{
    unsigned mask = 0;
    if (gy_cpu_mask(config->isa, &mask) != 0)
        return GY_FAIL(err, GY_E_ARG, "unknown CPU kernel set \"%s\"", config->isa);
    struct cpu_backend *cpu = gy_alloc_take(config->alloc, 1, sizeof *cpu);
    if (!cpu)
        return GY_NOMEM(err, "the CPU backend", sizeof *cpu);
    cpu->alloc = *config->alloc;
    cpu->ref = mask == 0;
    const char *why = NULL;
    const int status = gy_pool_open_compute(&cpu->cpu.pool, &cpu->alloc, cpu->ref ? 1 : config->threads, config->pin, &why, err);
    if (status != GY_OK) {
        gy_alloc_free(&cpu->alloc, cpu, sizeof *cpu);
        return status;
    }
    cpu->cpu.threads = gy_pool_threads(cpu->cpu.pool);
    cpu_say_pinned(cpu, config, why);
    cpu->cpu.k = gy_kernels_select(gy_cpu_bits() & mask);
    const int running = gy_pool_running(cpu->cpu.pool);
    char few[32] = "";
    if (running < cpu->cpu.threads)
        snprintf(few, sizeof few, " on %d processor%s", running, running == 1 ? "" : "s");
    snprintf(cpu->device, sizeof cpu->device, "%s, %d thread%s%s, %s", gy_cpu_model(cpu->model, sizeof cpu->model),
             cpu->cpu.threads, cpu->cpu.threads == 1 ? "" : "s", few, cpu->ref ? "reference kernels" : cpu->cpu.k.name);
    *self = cpu;
    return GY_OK;
}

static void cpu_close(void *self)
{
    struct cpu_backend *cpu = self;
    if (!cpu)
        return;
    const struct gy_alloc alloc = cpu->alloc;
    gy_pool_close(cpu->cpu.pool);
    gy_alloc_free(&alloc, cpu, sizeof *cpu);
}

static void cpu_caps(void *self, struct gy_caps *out)
{
    const struct cpu_backend *cpu = self;
    *out = (struct gy_caps){ .device = cpu->device, .host_memory = 1, .dtypes = 1u << GY_F32 | 1u << GY_BF16,
                            .threads = cpu->cpu.threads, .machine = cpu->model,
                            .set = cpu->ref ? "ref" : cpu->cpu.k.name };
}

/* The block starts with room for alignment; the address that the hook gave stands before the aligned one. */
#define CPU_MEM_EXTRA (GY_CACHE_LINE + sizeof(void *))

static int cpu_mem_get(void *self, size_t bytes, int kind, void **out, struct gy_error *err)
{
    struct cpu_backend *cpu = self;
    size_t total;
    (void)kind;
    if (gy_add_size(bytes, CPU_MEM_EXTRA, &total) != 0)
        return GY_NOMEM(err, "a memory block", bytes);
    unsigned char *const raw = gy_alloc_grow(&cpu->alloc, NULL, 0, total, 1);
    if (!raw)
        return GY_NOMEM(err, "a memory block", total);
    gy_mem_large_pages(raw, total); /* before the first write, which makes the pages */
    memset(raw, 0, total);
    const size_t skip = sizeof(void *) + (size_t)(-(uintptr_t)(raw + sizeof(void *)) & (GY_CACHE_LINE - 1));
    memcpy(raw + skip - sizeof(void *), &raw, sizeof(void *));
    *out = raw + skip;
    return GY_OK;
}

static void cpu_mem_put(void *self, void *ptr, size_t bytes, int kind)
{
    struct cpu_backend *cpu = self;
    void *raw;
    (void)kind;
    if (!ptr)
        return;
    memcpy(&raw, (unsigned char *)ptr - sizeof(void *), sizeof(void *));
    gy_alloc_free(&cpu->alloc, raw, bytes + CPU_MEM_EXTRA);
}

/* The driver of a float op, or NULL: the reference. */
static const struct cpu_row *cpu_pick(const struct cpu_backend *cpu, const struct gy_op *op)
{
    const struct cpu_row *row = &cpu_rows[op->code];
    if (gy_cpu_is_depthwise(op) && cpu_depth_row(op->code))
        row = cpu_depth_row(op->code);
    const struct cpu_row *wino = cpu_wino_row(op, &cpu->cpu.k);
    if (wino)
        row = wino;
    return cpu->ref || !row->run || (row->fits && !row->fits(op)) ? NULL : row;
}

static int cpu_is_half(const struct cpu_row *row, const struct gy_op *op)
{
    return row && (row->half == CPU_HALF_YES || (row->half == CPU_HALF_FLAT && !gy_act_is_curve(op->act)));
}

static int cpu_prepare(void *self, struct gy_op *op, struct gy_error *err)
{
    const struct cpu_backend *cpu = self;
    const char *const name = op->name ? op->name : "?";
    if (op->code >= GY_OP_GLM_STEP && op->code < GY_OP_GLM_END)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "ops of linear models are for devices with memory of their own; the CPU trains without them");
    if (op->code < 0 || op->code >= GY_OP_CODES)
        return GY_FAIL(err, GY_E_BUG, "op code %d of layer %s is outside 0..%d", op->code, name, GY_OP_CODES - 1);
    if (op->dtype != GY_F32 && op->dtype != GY_BF16)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "layer %s: the CPU computes on f32 and bf16 only", name);
    const struct cpu_row *row = cpu_pick(cpu, op);
    const int wide = op->dtype == GY_BF16 && !cpu_is_half(row, op);
    struct gy_op inner = wide ? gy_cpu_wide_op(op) : *op;
    inner.variant = row ? row->variant : "ref";
    gy_cpu_blocks_choose(&inner, cpu->cpu.k.name);
    memcpy(op->block, inner.block, sizeof op->block);
    op->scratch_bytes = wide ? gy_cpu_wide_need(op) : 0;
    op->kernel = wide ? &cpu_wide_row : row;
    op->variant = wide ? cpu_wide_row.variant : inner.variant;
    if (row && row->need)
        op->scratch_bytes += row->need(&cpu->cpu, &inner);
    return GY_OK;
}

static void cpu_run_float(const void *self, const struct gy_op *op)
{
    const struct cpu_backend *cpu = self;
    const struct cpu_row *row = cpu_pick(cpu, op);
    struct cpu_sample_job job = {op, cpu->ref ? NULL : cpu_sample_row(op->code)};
    if (row)
        row->run(&cpu->cpu, op);
    else if (job.row)
        gy_pool_run(cpu->cpu.pool, cpu_sample_tile, &job, op->geom.n);
    else
        gy_ref_table()[op->code](op);
}

static int cpu_run(void *self, const struct gy_op *op)
{
    const struct cpu_backend *cpu = self;
    const struct cpu_row *row = op->kernel;
    if (row == &cpu_wide_row)
        gy_cpu_wide_run(&cpu->cpu, op, cpu_run_float, cpu);
    else if (row)
        row->run(&cpu->cpu, op);
    else
        cpu_run_float(self, op);
    return GY_OK;
}

static int cpu_copy(void *self, void *dst, const void *src, size_t bytes, int kind)
{
    (void)self;
    (void)kind;
    memmove(dst, src, bytes);
    return GY_OK;
}

static void cpu_pin(void *self, void *ptr, size_t bytes, int on)
{
    (void)self;
    (void)ptr;
    (void)bytes;
    (void)on;
}

static int cpu_copy_on(void *self, int queue, void *dst, const void *src, size_t bytes, int kind)
{
    (void)queue;
    return cpu_copy(self, dst, src, bytes, kind);
}

static int cpu_ready(void *self, struct gy_error *err)
{
    (void)self;
    (void)err;
    return GY_OK;
}

static int cpu_begin(void *self, int program, const struct gy_uniform *u)
{
    (void)self;
    (void)program;
    (void)u;
    return 0;
}

static int cpu_end(void *self, int program)
{
    (void)self;
    (void)program;
    return GY_OK;
}

/* Everything is done when a call returns: there is nothing to wait for. */
static int cpu_mark(void *self, int queue, unsigned mark)
{
    (void)self;
    (void)queue;
    (void)mark;
    return GY_OK;
}

static int cpu_poll(void *self, unsigned mark)
{
    (void)self;
    (void)mark;
    return 1;
}

static int cpu_reach(void *self, unsigned mark)
{
    (void)self;
    (void)mark;
    return GY_OK;
}

static int cpu_sync(void *self)
{
    (void)self;
    return GY_OK;
}

#ifndef GY_NO_TUNING
static int cpu_ceilings(void *self, struct gy_ceilings *out)
{
    const struct cpu_backend *cpu = self;
    return gy_cpu_ceilings(&cpu->cpu, &cpu->alloc, out);
}

static int cpu_block_tries(void *self, const struct gy_op *op, int place, int any_order, int32_t values[GY_BLOCK_TRIES])
{
    (void)self;
    return gy_cpu_block_tries(op, place, any_order, values);
}

/* The shape alone decides. */
static const char *cpu_variant(void *self, const struct gy_op *op, int index)
{
    (void)self, (void)op, (void)index;
    return NULL;
}

static int cpu_kernel_hash(void *self, const struct gy_op *op, char hash[65])
{
    (void)self, (void)op, (void)hash;
    return 0;
}

static int cpu_time(void *self, const struct gy_op *op, int repeats, double *seconds, struct gy_error *err)
{
    const int64_t start = gy_clock_ns();
    for (int i = 0; i < repeats; i++)
        if (cpu_run(self, op) != GY_OK)
            return GY_FAIL(err, GY_E_DEVICE, "the device failed in layer %s", op->name ? op->name : "");
    *seconds = (double)gy_max64(gy_clock_ns() - start, 1) * 1e-9 / repeats;
    return GY_OK;
}
#endif

GY_INT const struct gy_backend *gy_cpu_backend(void)
{
#ifndef GY_NO_TUNING
    static const struct gy_backend_lab lab = {
        .ceilings = cpu_ceilings, .block = gy_cpu_block_info, .block_tries = cpu_block_tries, .variant = cpu_variant,
        .kernel_hash = cpu_kernel_hash, .time = cpu_time };
#endif
    static const struct gy_backend backend = {
        .open = cpu_open, .close = cpu_close, .caps = cpu_caps, .mem_get = cpu_mem_get, .mem_put = cpu_mem_put, .pin = cpu_pin,
        .prepare = cpu_prepare, .ready = cpu_ready, .run = cpu_run, .begin = cpu_begin, .end = cpu_end, .copy = cpu_copy,
        .copy_on = cpu_copy_on, .mark = cpu_mark, .wait = cpu_mark, .poll = cpu_poll, .reach = cpu_reach, .sync = cpu_sync,
#ifndef GY_NO_TUNING
        .lab = &lab,
#endif
    };
    return &backend;
}
