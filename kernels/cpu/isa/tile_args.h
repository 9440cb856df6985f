/* SPDX-License-Identifier: MIT */
/* tile_args.h: what the products on register tiles are given: gemm, which sums over taps and
 * channels, and outer, which sums over pixels. A driver fills the struct; a kernel reads it. */
#ifndef GY_CPU_TILE_ARGS_H
#define GY_CPU_TILE_ARGS_H
#include "engine/base/base.h"

#define GY_ROWS_MAX 16     /* most pixels (or output channels) in a tile of vector registers; tiles of AMX have 32 */
#define GY_WIDTH_MAX 64    /* widest panel */
#define GY_OUTER_AHEAD 16  /* pixels that outer fetches ahead */
#define GY_SLICE_MAX 512   /* most channels behind one pointer of a tile */

/* What is done with the sums of a tile while they are in registers, instead of storing them at out: they go to rows of
 * activations, of bf16 with kinds of pairs, and their statistics are joined to those of the rows before. */
struct gy_gemm_finish {
    void *const *rows;   /* one a pixel; the panel begins at element first */
    int64_t first;
    int add, stream;     /* added to what is there; stream: as in gy_affine_rows */
    int last;            /* the last tile that streams: what is behind it sees all */
    float *mean, *m2;    /* [width], or NULL: no statistics */
    int64_t before;      /* rows whose statistics these are; 0: they are written */
};
/* Software prefetch while a tile is computed, a few cache lines a step. It prefetches input rows [from, to) of the list, and
 * `bytes` bytes from byte `first` of `count` outputs and of `besides` pairs of rows. */
struct gy_gemm_rows {
    const void *at[2];
};
struct gy_gemm_ask {
    int64_t from, to;
    void *const *outs;
    const struct gy_gemm_rows *beside;
    int64_t count, besides, first, bytes;
};
/* out[i][c] = (init[c] or out[i][c]) + sum over tap, j: rows[tap * row_pitch + i][row_first + j] * panel[tap][j][c]. */
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
    struct gy_gemm_ask ask;
};
typedef void (*gy_gemm_fn)(const struct gy_gemm_tile *tile);
/* Asks at once for what is left of the outputs behind so many bytes. */
static inline void gy_gemm_ask_outs(const struct gy_gemm_ask *a, int64_t bytes)
{
    for (int64_t byte = bytes; byte < a->bytes; byte += GY_CACHE_LINE)
        for (int64_t i = 0; i < a->count; i++)
            __builtin_prefetch((const char *)a->outs[i] + a->first + byte, 1);
}
/* Asks at once for all of the rows, where the kernel does not do it as it goes. */
static inline void gy_gemm_ask_rows(const struct gy_gemm_tile *t)
{
    for (int64_t tap = 0; tap < t->taps; tap++)
        for (int64_t i = t->ask.from; i < t->ask.to; i++)
            for (int64_t c = 0; c < t->len; c += GY_CACHE_LINE / (int64_t)sizeof(float))
                __builtin_prefetch(t->rows[tap * t->row_pitch + i] + t->row_first + c);
}

/* dw[i * dw_pitch + c] = (0 or dw) + sum over pixels p: dy[at[p] * dy_pitch + i] * x[p][c]. */
struct gy_outer_tile {
    const float *x;      /* [pixels][width of the kind], zero beyond cols; of float also rows x_pitch apart, unless that is 0 */
    int64_t x_pitch;
    const float *dy;     /* one row a pixel of the strip */
    int64_t dy_pitch;
    const int32_t *at;   /* [pixels + GY_OUTER_AHEAD]: the pixels of the strip that count, then any of the strip; NULL: at[p] = p */
    int64_t pixels;
    float *dw;
    int64_t dw_pitch, cols; /* cols: as above */
    int add;
    const void *const *ahead; /* asked for meanwhile: byte ahead_from behind every ahead_step-th pointer, asks of them */
    int64_t ahead_from, ahead_step, asks;
};
typedef void (*gy_outer_fn)(const struct gy_outer_tile *tile);

#define GY_GEMM_ASKS 2
/* One register tiling: at most rows x width; fn[r - 1] does r rows. */
struct gy_gemm_kind {
    int width, rows;
    const gy_gemm_fn *fn;
    int finishes; /* takes gy_gemm_finish; GY_GEMM_ASKS: and asks for outputs as it goes */
};
struct gy_outer_kind {
    int width, rows;
    const gy_outer_fn *fn;
    int panels; /* a pixel takes so few multiplications that dy is to lie in panels of the tile's rows */
};

#endif
