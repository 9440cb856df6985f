/* SPDX-License-Identifier: MIT */
/* row_args.h: arguments of the kernels that pass over rows of activations or of parameters: batch
 * norm, sums of branches, gradients of activations, pooling, updates. Drivers fill them. */
#ifndef GY_CPU_ROW_ARGS_H
#define GY_CPU_ROW_ARGS_H
#include "engine/base/base.h"

/* Rows lie pitch apart. stream: the output bypasses the caches. It starts on a GY_CACHE_LINE; pitch
 * and cols are multiples of 16. lo and hi clamp forward; gradients count where lo < y < hi. */
struct gy_affine_rows {
    void *y;
    const void *x, *res;
    const float *scale, *shift;         /* res NULL: none; scale NULL: y = x + res */
    const float *res_scale, *res_shift; /* adds res * res_scale + res_shift if not NULL */
    int64_t rows, cols, pitch;
    int stream;
    float lo, hi;
};
struct gy_bn_rows {
    const void *dy, *x, *y;             /* y and scale NULL: no mask */
    const float *scale, *shift;         /* without y: the mask is of x * scale + shift [+ res] */
    const void *res;                    /* NULL: none */
    const float *res_scale, *res_shift; /* as in gy_affine_rows */
    void *again;                        /* bn_sums with scale: gets y, clamped; NULL: none */
    const float *mean, *rstd;           /* [cols] */
    float *sum0, *sum1;                 /* bn_sums: written; [cols]; at least one row */
    const float *a, *b, *c;             /* bn_back: dx = a dy' + (b (x - mean) + c); [cols] */
    void *dx, *dres;                    /* dres NULL: none; bn_sums: dy' */
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
/* A row of pixels to pool. Each meets a rectangle of cells (backward: windows) from `first` on. Its
 * cell (r, s) has number span id + id + r id_row + s id_cell. Cells (windows) lie cols apart. */
struct gy_pool_span {
    int32_t first, cells, id;
};
struct gy_pool_rows {
    const void *x;                        /* the begin of the rectangles' first row */
    const struct gy_pool_span *span;      /* [count] */
    int64_t count, rows, row_pitch, cols;
    int64_t id, id_row, id_cell;
    const uint8_t *from; /* pool_back: adds x where this, laid out like x, holds the number */
    uint8_t *cell;                        /* pool_max: the maximum's number, or NULL */
    const float *share_row, *share_cell;  /* pool_sum: weights of rows, of cells along the row, */
    const float *share_out;               /* of outputs, or NULL, */
    float scale;                          /* and of all */
    void *y;
    int add, stream;                      /* y +=; pool_back: y bypasses the caches */
};
/* sgd: d = inner (scale g + decay w); m = mu m + d; w -= outer (nesterov ? d + mu m : m). adamw: w
 * -= decay w, then w -= outer s; lamb: u = outer s + decay w. s = m / (sqrt(v) root + eps). m and v
 * are means of g' and g'^2 by beta1, beta2; g NULL: they stay. ema, or NULL: mean of w by keep. */
struct gy_update_rows {
    float *w, *m, *v, *ema;
    const float *g;
    int64_t count;
    float inner, outer, mu, decay, scale, keep;
    float beta1, beta2, eps, root;
    int nesterov;
};

#endif
