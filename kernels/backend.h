/* SPDX-License-Identifier: MIT */
/* backend.h: what a device does for the engine, and what its lab does for tools that measure.
 * cpu_backend.c and cuda_backend.c implement it; engine/run and engine/glm call it. No function is
 * NULL; the engine never tests a backend's name. Only prepare may refuse an op, so that no running
 * program does. run only enqueues: it neither allocates nor blocks on anything but its own work. */
#ifndef GY_BACKEND_H
#define GY_BACKEND_H
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "kernels/op.h"

struct gy_backend_config {
    const struct gy_alloc *alloc;
    const struct gy_log *log;
    const char *isa; /* CPU: kernel sets allowed, a name of gy_cpu_mask; NULL: all */
    int threads;     /* CPU: 0 for all; CUDA: of the compiler of kernels */
    int pin;         /* CPU: enum gy_pin of engine/base/pin.h */
    /* CUDA alone; texts are read during open only */
    int device;                /* its number, from 0 */
    /* not 0: no device; kernels for this architecture (90: sm_90) are chosen and can be compiled */
    int arch;
    const char *emulator; /* path of the emulator's library, used in place of CUDA's; NULL: a GPU */
    const char *cuda_path;     /* folder in which CUDA's libraries are looked for first; NULL */
    const char *kernel_cache;  /* folder of compiled kernels; NULL: the usual one, "off": none */
    const char *kernel_pack;   /* file of compiled kernels; NULL */
};

struct gy_caps {
    const char *device;      /* for people: "AMD EPYC, 2 threads, avx512" */
    int host_memory;         /* device addresses may be read by the host */
    unsigned dtypes;         /* bit 1 << enum gy_dtype: usable for activations */
    int threads;
    /* the processor's model and kernel set, for block sizes. machine NULL: none */
    const char *machine, *set;
    const char *versions; /* of a GPU's driver and compiler, as far as they are known; else NULL */
    int processors;            /* of a GPU, each of many warps; else 0 */
};

/* What the device can do at most, measured. Bytes read and bytes written count once each. */
struct gy_ceilings {
    /* multiply-add peak of all threads, GFLOP/s; bf16: f32's where no instruction does it */
    double f32, bf16;
    double read, copy; /* GB/s, buffers far beyond the caches: read only; read and written */
    double cache_read, cache_copy; /* GB/s, buffers inside the last cache */
    double cache_bytes;            /* size of that cache */
};

/* A block size of kernels: by how much work is cut. */
struct gy_block_info {
    const char *name;
    int32_t lo, hi;
};
#define GY_BLOCK_TRIES 8
#define GY_BACKEND_PROGRAMS 8

enum gy_memory_kind { GY_MEM_DEVICE, GY_MEM_HOST /* pinned where that exists */ };
enum gy_copy_kind { GY_COPY_TO_DEVICE, GY_COPY_TO_HOST, GY_COPY_ON_DEVICE };

/* Queues run side by side, each in the order of the calls. GY_QUEUE_WORK has the programs,
 * GY_QUEUE_PEERS what goes to other ranks and comes from them. */
enum gy_queue { GY_QUEUE_WORK, GY_QUEUE_COPY, GY_QUEUE_PEERS, GY_QUEUES };

/* Marks: places in a queue that others can wait for. Gradients' buckets: GY_MARK_BUCKET on. */
enum gy_mark { GY_MARK_SENT, GY_MARK_TAKEN, GY_MARK_FORWARD, GY_MARK_RESULTS, GY_MARK_UPDATE, GY_MARK_SUMMED, GY_MARK_BUCKET = 8,
               GY_MARK_FETCHED = 72, GY_MARKS = 136 };

/* What measured block sizes and the tools that measure ask of a backend. Training does without. */
struct gy_backend_lab {
    /* Measures now, in a fraction of a second and some memory. GY_E_NOMEM: *out is untouched. */
    int (*ceilings)(void *self, struct gy_ceilings *out);
    /* Name and range of struct gy_op.block[place]; NULL after the last. Whatever their values,
     * results have the same bits for any number of threads. */
    const struct gy_block_info *(*block)(int place);
    /* Values of block[place] worth trying for a prepared op, in values; returns how many, 0 where
     * it does not matter. Without any_order only such that leave every bit of the result. */
    int (*block_tries)(void *self, const struct gy_op *op, int place, int any_order, int32_t values[GY_BLOCK_TRIES]);
    /* Name of the index-th kernel that could run the op. prepare takes it when op->variant names
     * it. Kernels may differ in the order of sums. NULL behind the last, and where the shape alone
     * decides. */
    const char *(*variant)(void *self, const struct gy_op *op, int index);
    /* SHA-256 in hex of the kernel that op->variant names, or of the usual one where it is NULL. 0:
     * there is none, or it is not compiled at run time. Nothing is prepared. */
    int (*kernel_hash)(void *self, const struct gy_op *op, char hash[65]);
    /* Seconds of a run of a placed op, the mean of `repeats`. GY_E_UNSUPPORTED: no clock. */
    int (*time)(void *self, const struct gy_op *op, int repeats, double *seconds, struct gy_error *err);
};

struct gy_backend {
    int (*open)(void **self, const struct gy_backend_config *config, struct gy_error *err);
    void (*close)(void *self); /* NULL is fine */
    void (*caps)(void *self, struct gy_caps *out);
    /* A backend with host memory returns what the hook gives, aligned to GY_CACHE_LINE, zeroed. */
    int (*mem_get)(void *self, size_t bytes, int kind, void **out, struct gy_error *err);
    void (*mem_put)(void *self, void *ptr, size_t bytes, int kind);
    /* Pins the caller's host memory, which then counts as GY_MEM_HOST of mem_get. A device that
     * refuses copies slower. on 0 unpins it; all queues are empty then. */
    void (*pin)(void *self, void *ptr, size_t bytes, int on);
    /* Chooses a variant from code, shapes, dtype and flags; ptr is not yet known. Fills variant,
     * kernel, plan, scratch_bytes, and block where it is 0. The CPU keeps what run reads in arena,
     * which outlives the op; a GPU needs none. GY_E_UNSUPPORTED with a sentence: no variant. */
    int (*prepare)(void *self, struct gy_op *op, struct gy_arena *arena, struct gy_error *err);
    /* Between the last prepare and the first run: what is left for all ops, such as compiling. */
    int (*ready)(void *self, struct gy_error *err);
    int (*run)(void *self, const struct gy_op *op);
    /* Enclose the ops of a program, a number below GY_BACKEND_PROGRAMS, whose ops and addresses are
     * the same each time. begin returns 1 when the device repeats the program by itself: then
     * neither ops nor end follow. Otherwise it returns 0, or a status. */
    int (*begin)(void *self, int program, const struct gy_uniform *u);
    int (*end)(void *self, int program);
    /* Enqueues a copy; copy uses GY_QUEUE_WORK. Until the host has waited for it, memory of mem_get
     * must not change (as src) or be read (as dst). Other host memory is done when copy returns. */
    int (*copy)(void *self, void *dst, const void *src, size_t bytes, int kind);
    int (*copy_on)(void *self, int queue, void *dst, const void *src, size_t bytes, int kind);
    /* mark records the present end of a queue. On GY_QUEUE_WORK between begin and end it becomes
     * part of the program, and is recorded in every run. wait makes later work of the queue wait
     * for the mark's last record before the call, if any; not between begin and end. */
    int (*mark)(void *self, int queue, unsigned mark);
    int (*wait)(void *self, int queue, unsigned mark);
    int (*poll)(void *self, unsigned mark);  /* 1 done, 0 not yet, < 0 status */
    int (*reach)(void *self, unsigned mark); /* the host waits */
    int (*sync)(void *self); /* until all queues are empty; returns the first error of the work */
    const struct gy_backend_lab *lab;        /* NULL: none */
};

GY_INT const struct gy_backend *gy_cpu_backend(void);
#ifndef GY_NO_CUDA
GY_INT const struct gy_backend *gy_cuda_backend(void);
#endif

#endif
