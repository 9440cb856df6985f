/* SPDX-License-Identifier: MIT */
/* row_args.h: arguments of the kernels that pass over rows of activations or of parameters: batch
 * norm, sums of branches, gradients of activations, pooling, updates. */
#ifndef GY_CPU_ROW_ARGS_H
#define GY_CPU_ROW_ARGS_H
#include "engine/base/base.h"

/* Row kernels work on rows x cols elements, rows pitch apart. stream: the output goes past the caches; it starts on a
 * GY_CACHE_LINE, pitch and cols are multiples of 16. lo and hi clamp forward (-inf, inf: nothing) and, backward,
 * keep the gradient only where lo < y < hi. */
struct gy_affine_rows {
    void *y;
    const void *x, *res;
    const float *scale, *shift; /* res NULL: none; scale NULL: y = x + res */
    const float *res_scale, *res_shift; /* with scale: res * res_scale + res_shift is added; NULL: res */
    int64_t rows, cols, pitch;
    int stream;
    float lo, hi;
};
struct gy_bn_rows {
    const void *dy, *x, *y;                  /* y and scale NULL: no mask */
    const float *scale, *shift;              /* instead of y: the mask is made from x * scale + shift [+ res] */
    const void *res;                         /* NULL: none */
    const float *res_scale, *res_shift;      /* as in gy_affine_rows */
    void *again;                             /* bn_sums with scale: that y, clamped; NULL: not wanted */
    const float *mean, *rstd;                /* [cols] */
    float *sum0, *sum1;                      /* bn_sums: written; [cols]; at least one row */
    const float *a, *b, *c;                  /* bn_back: dx = a dy' + (b (x - mean) + c); [cols] */
    void *dx, *dres;                         /* dres NULL: none; bn_sums: dy' */
    int64_t rows, cols, pitch;
    float lo, hi;
    int add_dx, add_dres, stream;
};
struct gy_back_rows { /* dx (and dres) = dy masked by y; any of dx, dres, y may be NULL */
    const void *dy, *y;
    void *dx, *dres;
    int64_t count;
    float lo, hi;
    int add_dx, add_dres;
};
/* Pooling, a row of pixels: each meets a rectangle, of cells (forward) or of windows (backward), along the row from first on.
 * Cell r, s of it has the number id of both + r id_row + s id_cell. Pitches in elements; cells and windows lie cols apart. */
struct gy_pool_span {
    int32_t first, cells, id;
};
struct gy_pool_rows {
    const void *x;                        /* the begin of the rectangles' first row */
    const struct gy_pool_span *span;      /* [count] */
    int64_t count, rows, row_pitch, cols;
    int64_t id, id_row, id_cell;
    const uint8_t *from;                  /* pool_back: adds x where from, laid out like x, holds the number */
    uint8_t *cell;                        /* pool_max: the maximum's number, or NULL */
    const float *share_row, *share_cell;  /* pool_sum: weights of rows, of cells along the row, */
    const float *share_out;               /* of outputs, or NULL, */
    float scale;                          /* and of all */
    void *y;
    int add, stream;                      /* y +=; pool_back: y goes past the caches, as in gy_affine_rows */
};
/* sgd: d = inner (scale g + decay w); m = mu m + d; w -= outer (nesterov ? d + mu m : m). adamw: w -= decay w; m =
 * beta1 m + (1 - beta1) g'; v = beta2 v + (1 - beta2) g'^2; w -= outer m / (sqrt(v) root + eps). Then ema = keep
 * ema + (1 - keep) w, where ema is not NULL. lamb: u = outer m / (sqrt(v) root + eps) + decay w; m, v stay if g is NULL. */
struct gy_update_rows {
    float *w, *m, *v, *ema;
    const float *g;
    int64_t count;
    float inner, outer, mu, decay, scale, keep;
    float beta1, beta2, eps, root;
    int nesterov;
};

#endif
