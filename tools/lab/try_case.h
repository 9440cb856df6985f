/* SPDX-License-Identifier: MIT */
/* try_case.h: one shape and type of a user's kernel, for try.c. It has the op's tensors with random
 * content, on the host, on the device and in float for the reference, and compares what comes
 * back. */
#ifndef GY_TRY_CASE_H
#define GY_TRY_CASE_H
#include "kernels/backend.h"
#include "tools/lab/try_text.h"
#ifndef GY_NO_CUDA

struct gy_try_tensor {
    int64_t count;           /* 0: the op has none of this role */
    int bytes, real;         /* of an element; a number that may be inexact */
    unsigned char *raw;      /* guards included: what the device is given */
    unsigned char *back;     /* the same, read back */
    float *exact, *size;     /* real: for the reference; with positive inputs, for a sum's bound */
    double *truth, *sizes;   /* both once more, as the bound wants them */
    void *other;             /* not real: for the reference */
    void *device;
};
struct gy_try_case {
    const struct gy_try *t;
    struct gy_geom geom;
    int dtype;
    size_t guard;            /* bytes before and behind each tensor */
    uint64_t seed;
    struct gy_uniform u;
    struct gy_arena arena;
    const struct gy_backend *backend;
    void *self;
    void *scratch;
    size_t scratch_bytes;
    int checked;             /* the reference ran */
    struct gy_try_tensor tensor[GY_ROLES];
};

/* Takes memory of host and device, and fills the tensors. With check it runs the reference. Close
 * it also after an error. */
GY_INT int gy_try_case_open(struct gy_try_case *c, const struct gy_alloc *alloc, int check, struct gy_error *err);
GY_INT void gy_try_case_close(struct gy_try_case *c);
/* Without addresses. */
GY_INT struct gy_op gy_try_op(const struct gy_try_case *c, const char *name);
/* Addresses, and scratch as large as the prepared op wants. */
GY_INT int gy_try_place(struct gy_try_case *c, struct gy_op *op, struct gy_error *err);
/* Sends inputs and poison, runs, reads back, compares. *most: the largest error over what is
 * allowed. GY_E_MISMATCH: the sentence names the first wrong element. */
GY_INT int gy_try_check(struct gy_try_case *c, const struct gy_op *op, double *most, struct gy_error *err);
/* Multiplications that the reference needs. */
GY_INT double gy_try_work(const struct gy_try *t, const struct gy_geom *g);

#endif
#endif
