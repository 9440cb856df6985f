/* SPDX-License-Identifier: MIT */
/* backend.h: what a device must do for the engine. All functions are mandatory; the engine never asks for a name.
 * An op is refused only in prepare, so a running program cannot discover missing support. run only enqueues: it neither
 * allocates nor blocks on anything but the device's own work. */
#ifndef GY_BACKEND_H
#define GY_BACKEND_H
#include "../engine/base/log.h"
#include "../engine/base/mem.h"
#include "op.h"

struct gy_backend_config {
    const struct gy_alloc *alloc;
    const struct gy_log *log;
    const char *isa; /* CPU: kernel sets allowed, a name of gy_cpu_mask; NULL: all */
    int threads;     /* CPU: 0 for all */
};

struct gy_caps {
    const char *device;      /* for people: "AMD EPYC, 2 threads, avx512" */
    int host_memory;         /* device addresses may be read by the host */
    unsigned dtypes;         /* bit 1 << enum gy_dtype: usable for activations */
    int threads;
    const char *machine, *set; /* the processor's model and the kernel set: what block sizes were measured for */
};

/* What the device can do at most, measured. Bytes are counted once when read and once when written. */
struct gy_ceilings {
    double f32, bf16;              /* multiply-add peak of all threads, GFLOP/s; bf16: f32's where no instruction does it */
    double read, copy;             /* GB/s, buffers far beyond the caches: read only; read and written */
    double cache_read, cache_copy; /* GB/s, buffers inside the last cache */
    double cache_bytes;            /* size of that cache */
};

/* A block size of kernels: by how much work is cut. */
struct gy_block_info {
    const char *name;
    int32_t lo, hi;
};
#define GY_BLOCK_TRIES 8

enum gy_memory_kind { GY_MEM_DEVICE, GY_MEM_HOST /* pinned where that exists */ };
enum gy_copy_kind { GY_COPY_TO_DEVICE, GY_COPY_TO_HOST, GY_COPY_ON_DEVICE };

struct gy_backend {
    int (*open)(void **self, const struct gy_backend_config *config, struct gy_error *err);
    void (*close)(void *self); /* NULL is fine */
    void (*caps)(void *self, struct gy_caps *out);
    /* A backend with host memory returns what the hook gives, aligned to GY_CACHE_LINE, zeroed. */
    int (*mem_get)(void *self, size_t bytes, int kind, void **out, struct gy_error *err);
    void (*mem_put)(void *self, void *ptr, size_t bytes, int kind);
    /* Chooses a variant from code, shapes, dtype and flags (not from ptr, which is not yet known); fills variant, kernel,
     * scratch_bytes, and block where it is 0. GY_E_UNSUPPORTED with a sentence when there is none. */
    int (*prepare)(void *self, struct gy_op *op, struct gy_error *err);
    int (*run)(void *self, const struct gy_op *op);
    int (*copy)(void *self, void *dst, const void *src, size_t bytes, int kind);
    int (*mark)(void *self, unsigned slot); /* records the present end of the queue */
    int (*wait)(void *self, unsigned slot); /* later work waits for the mark */
    int (*poll)(void *self, unsigned slot); /* 1 done, 0 not yet, < 0 status */
    int (*sync)(void *self);                /* until the queue is empty; returns the first error of the work */
    /* Measures now, a fraction of a second; takes memory for its duration. GY_E_NOMEM: *out is untouched. */
    int (*ceilings)(void *self, struct gy_ceilings *out);
    /* Name and range of struct gy_op.block[place]; NULL after the last. Whatever their values, results have the same bits for
     * any number of threads. */
    const struct gy_block_info *(*block)(int place);
    /* Values of block[place] worth trying for a prepared op, in values; returns how many, 0 where it does not matter. Without
     * any_order only such that leave every bit of the result. */
    int (*block_tries)(void *self, const struct gy_op *op, int place, int any_order, int32_t values[GY_BLOCK_TRIES]);
};

GY_INT const struct gy_backend *gy_cpu_backend(void);

#endif
