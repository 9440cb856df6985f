/* SPDX-License-Identifier: MIT */
/* cpu_backend.c: the CPU as a backend. Device memory is host memory. The queue is always empty: run
 * returns when its work is done. drivers.c has the drivers of ops. devices.c opens it. */
#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "kernels/backend.h"
#include "kernels/cpu/block_sizes.h"
#include "kernels/cpu/cpu_ceiling.h"
#include "kernels/cpu/driver.h"
#include "kernels/cpu/isa/select.h"

struct cpu_backend {
    struct gy_cpu cpu; /* first: tests see it through self */
    struct gy_alloc alloc;
    char device[160], model[80];
};

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
    cpu->cpu.ref = mask == 0;
    const char *why = NULL;
    const int status = gy_pool_open_compute(&cpu->cpu.pool, &cpu->alloc, cpu->cpu.ref ? 1 : config->threads, config->pin, &why, err);
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
             cpu->cpu.threads, cpu->cpu.threads == 1 ? "" : "s", few, cpu->cpu.ref ? "reference kernels" : cpu->cpu.k.name);
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
                            .set = cpu->cpu.ref ? "ref" : cpu->cpu.k.name };
}

/* A block has room for alignment; the hook's address stands before the aligned one. */
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

static int cpu_prepare(void *self, struct gy_op *op, struct gy_arena *arena, struct gy_error *err)
{
    struct cpu_backend *cpu = self;
    struct gy_planner planner = { .cpu = &cpu->cpu, .arena = arena, .prepare = gy_driver_prepare };
    const char *const name = op->name ? op->name : "?";
    if (op->code >= GY_OP_GLM_STEP && op->code < GY_OP_GLM_END)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "ops of linear models are for devices with memory of their own; the CPU trains without them");
    if (op->code < 0 || op->code >= GY_OP_CODES)
        return GY_FAIL(err, GY_E_BUG, "op code %d of layer %s is outside 0..%d", op->code, name, GY_OP_CODES - 1);
    if (op->dtype != GY_F32 && op->dtype != GY_BF16)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "layer %s: the CPU computes on f32 and bf16 only", name);
    gy_driver_prepare(&planner, op);
    return planner.full ? GY_NOMEM(err, "a kernel's plan", arena->used) : GY_OK;
}

static int cpu_run(void *self, const struct gy_op *op)
{
    const struct cpu_backend *cpu = self;
    gy_driver_run(&cpu->cpu, op);
    return GY_OK;
}

static int cpu_copy(void *self, void *dst, const void *src, size_t bytes, int kind)
{
    (void)self, (void)kind;
    memmove(dst, src, bytes);
    return GY_OK;
}

static void cpu_pin(void *self, void *ptr, size_t bytes, int on)
{
    (void)self, (void)ptr, (void)bytes, (void)on;
}

static int cpu_copy_on(void *self, int queue, void *dst, const void *src, size_t bytes, int kind)
{
    (void)queue;
    return cpu_copy(self, dst, src, bytes, kind);
}

static int cpu_ready(void *self, struct gy_error *err)
{
    (void)self, (void)err;
    return GY_OK;
}

static int cpu_begin(void *self, int program, const struct gy_uniform *u)
{
    (void)self, (void)program, (void)u;
    return 0;
}

static int cpu_end(void *self, int program)
{
    (void)self, (void)program;
    return GY_OK;
}

/* Everything is done when a call returns: there is nothing to wait for. */
static int cpu_mark(void *self, int queue, unsigned mark)
{
    (void)self, (void)queue, (void)mark;
    return GY_OK;
}

static int cpu_poll(void *self, unsigned mark)
{
    (void)self, (void)mark;
    return 1;
}

static int cpu_reach(void *self, unsigned mark)
{
    (void)self, (void)mark;
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
