/* SPDX-License-Identifier: MIT */
/* tile_args.h: arguments of the products on register tiles: gemm, which sums over taps and
 * channels, and outer, which sums over pixels. A driver fills the struct; a kernel reads it. */
#ifndef GY_CPU_TILE_ARGS_H
#define GY_CPU_TILE_ARGS_H
#include "kernels/cpu/isa/prefetch.h"

#define GY_ROWS_MAX 16 /* most pixels or output channels of a tile in vector registers; AMX: 32 */
#define GY_WIDTH_MAX 64    /* widest panel */
#define GY_OUTER_LOOKAHEAD 16 /* pixels from the one read to the one prefetched */

/* Where the sums of a tile in registers go instead of out: rows of activations, of bf16 with kinds
 * of pairs. Their statistics are joined to those of the rows before. */
struct gy_gemm_finish {
    void *const *rows;   /* one a pixel; the panel begins at element first */
    int64_t first;
    int add, stream;     /* added to what is there; stream: as in gy_affine_rows */
    int last;            /* with stream: this tile is the last, it ends with a fence */
    float *mean, *m2;    /* [width], or NULL: no statistics */
    int64_t before;      /* rows whose statistics these are; 0: they are written */
};
/* out[i][c] = init[c], or +=, sum over tap, j: rows[tap][i][row_first + j] * panel[tap][j][c]. */
struct gy_gemm_tile {
    const float *const *rows;
    int64_t row_pitch;   /* pointers from one tap to the next */
    int64_t row_first;   /* floats of a row before the first that counts */
    const float *panel;  /* [taps][len][width of the kind], zero beyond cols */
    int64_t taps, len;
    float *const *out;   /* one pointer a pixel, at channel 0 of the vector dimension */
    int64_t out_first;   /* channel where the panel begins */
    const float *init;   /* [cols] first values, or NULL: add to out */
    int64_t cols;        /* columns stored, at most the width; less only with the narrowest kind */
    const struct gy_gemm_finish *finish; /* NULL: none; else the kind finishes */
    struct gy_prefetch prefetch;
};
typedef void (*gy_gemm_fn)(const struct gy_gemm_tile *tile);

/* dw[i * dw_pitch + c] = (0 or dw) + sum over pixels p: dy[at[p] * dy_pitch + i] * x[p][c]. */
struct gy_outer_tile {
    const float *x;      /* [pixels][width of the kind], zero beyond cols */
    int64_t x_pitch;     /* not 0: x is rows of floats so far apart */
    const float *dy;     /* one row a pixel of the strip */
    int64_t dy_pitch;
    const int32_t *at;   /* [pixels + GY_OUTER_LOOKAHEAD], then any of the strip; NULL: at[p] = p */
    int64_t pixels;
    float *dw;
    int64_t dw_pitch, cols; /* cols: as above */
    int add;
    struct gy_lookahead lookahead; /* a line a pixel */
};
typedef void (*gy_outer_fn)(const struct gy_outer_tile *tile);

#define GY_GEMM_PREFETCHES 2
/* One register tiling: at most rows x width; fn[r - 1] does r rows. */
struct gy_gemm_kind {
    int width, rows;
    const gy_gemm_fn *fn;
    int finishes; /* takes gy_gemm_finish; GY_GEMM_PREFETCHES: and prefetches outputs as it goes */
};
struct gy_outer_kind {
    int width, rows;
    const gy_outer_fn *fn;
    int panels; /* dy is to lie in panels of the tile's rows, as a pixel has few products */
};

#endif
