/* SPDX-License-Identifier: MIT */
/* try_text.h: a kernel file of a user's own, with lines at any place of it that say what it is;
 * try.c and try_case.c read them:
 *
 *     // gyre: op bn-apply            what it does; one of 'gyre kernels' (column does)
 *     // gyre: dtype bf16 f32         what activations are stored as; each is tried (default f32)
 *     // gyre: act relu               activation of the op
 *     // gyre: with res               optional tensors that it is given
 *     // gyre: flags add-dx accumulate    adds to the output in place of setting it
 *     // gyre: f 0.0001 0.1           constants of the op (kernels/op.h)
 *     // gyre: shape 2x7x5x24 k 16 filter 3x3 stride 1 pad 1 dil 1 groups 1
 *                                     input NxHxWxC; several lines: each is tried
 *     // gyre: define MY_ROWS up(N*H*W,64)    a macro
 *     // gyre: scratch 4*K            bytes of GY_SCRATCH
 *     // gyre: launch my_apply grid up(N*H*W*C,256) threads 256 shared 0    in order, up to four
 *
 * A number behind grid (up to three), threads, shared, scratch or define may be computed, without
 * blanks. Its names: N H W C P Q K R S GROUPS BYTES (of an element). Its operations: + - * / % ( ),
 * up(a,b) (a / b rounded up), min(a,b), max(a,b). */
#ifndef GY_TRY_TEXT_H
#define GY_TRY_TEXT_H
#include "tools/lab/lab.h"
#include "kernels/cuda/variants.h"
#include "engine/base/status.h"
#ifndef GY_NO_CUDA

#define GY_TRY_SHAPES 8

struct gy_try_launch {
    const char *entry, *grid[3], *threads, *shared;
};
struct gy_try {
    const char *path, *text;       /* the caller's */
    int code, act, accumulate;
    uint32_t flags;
    uint64_t with;                 /* bits of optional roles */
    float f[8];
    int dtype[3], dtypes;
    struct gy_geom shape[GY_TRY_SHAPES];
    const char *shape_text[GY_TRY_SHAPES];
    int shapes;
    struct gy_try_launch launch[GY_CUDA_LAUNCHES];
    int launches;
    struct { const char *name, *value; } define[8];
    int defines;
    const char *scratch;
    int line;                      /* that is being read */
    char room[8192];               /* the lines' words */
    size_t used;
};

/* Reads the lines of text; sentences name path and line. *out must not be copied: it has pointers
 * into itself. */
GY_INT int gy_try_read(struct gy_try *out, const char *path, const char *text, struct gy_error *err);
/* How it is launched on a shape. cut points into t. */
GY_INT int gy_try_cut(const struct gy_try *t, const struct gy_geom *g, int dtype, struct gy_cuda_cut *cut, struct gy_error *err);
GY_INT uint64_t gy_try_roles(const struct gy_try *t); /* bits of the tensors that the op has */

#endif
#endif
