/* SPDX-License-Identifier: MIT */
/* table.h: the table of CPU micro-kernels. Drivers (conv.c, norm.c, ...) cut an op into tiles that fit the caches
 * and call these on each piece; only the functions behind the table know vector registers. The table is filled with
 * portable C first, then overridden by what the processor has (AVX2, AVX-512, AMX, VSX, MMA), as far as the mask of the
 * configuration allows.
 *
 * Convolution in every direction is one kernel: a batch-reduce product over pointers. For a tile of output pixels
 * the caller gives, for each filter tap, one pointer a pixel to the input channels it meets there (or to a row of
 * zeros), and a panel of weights [tap][channel][width]; the sums stay in registers over all taps and channels. */
#ifndef GY_CPU_KERNELS_H
#define GY_CPU_KERNELS_H
#include "engine/base/base.h"
#include "kernels/op.h"

#define GY_KINDS 3         /* panel widths a kernel set offers, widest first */
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

/* Activations in memory are float or bf16: a row kernel exists for each, by enum gy_dtype; sums are always float. */
#define GY_CPU_DTYPES 2

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
 * ema + (1 - keep) w, where ema is not NULL. */
struct gy_update_rows {
    float *w, *m, *v, *ema;
    const float *g;
    int64_t count;
    float inner, outer, mu, decay, scale, keep;
    float beta1, beta2, eps, root;
    int nesterov;
};

/* The transforms of Winograd's F(m x m, r x r), over count channels; see micro_wino.h. Transformed numbers lie pitch apart.
 * filter_back and spread are of weight gradients, NULL where a size has none. */
#define GY_WINOS 4
/* Filters at a row of points: u[j * pitch + i * width + c] of point j of the row, channel i of channels. */
struct gy_wino_filters {
    float *u;
    int64_t pitch;
    const float *const *taps; /* a channel's columns, step floats from channel to channel */
    int64_t step, channels, width, count; /* count: columns that there are */
    int row;
};
struct gy_wino {
    int m, r, stride;
    void (*filter)(const struct gy_wino_filters *f);
    /* [data gradient]; y[i] NULL: left out */
    void (*output[2])(float *const *y, const float *m, int64_t pitch, const float *init, int64_t count);
    void (*filter_back)(float *const *taps, const float *u, int64_t pitch, int64_t count, int add);
    /* [data gradient]; ahead: the pixels of the next tile, to be fetched. NULL: not of this type */
    void (*input[2][GY_CPU_DTYPES])(float *v, int64_t pitch, const void *const *pixels, const void *const *ahead, int64_t count);
    /* output, backward */
    void (*spread[GY_CPU_DTYPES])(float *m, int64_t pitch, const void *const *dy, const void *const *ahead, int64_t count);
};

struct gy_kernels {
    const char *name;
    struct gy_gemm_kind gemm[GY_KINDS];   /* unused ones repeat the last */
    struct gy_outer_kind outer[GY_KINDS];
    /* The same products over pairs of bf16: a "float" of rows, panel, x and dy is two of them, neighbours in the
     * reduction; sums are float. fn NULL: the processor has no such instruction. */
    struct gy_gemm_kind gemm_pair[GY_KINDS];
    struct gy_outer_kind outer_pair[GY_KINDS];
    /* dst[i][c] = the pair of row 2i and row 2i + 1 at column first + c, the last one alone with zero; dst rows lie pitch
     * apart. Of floats, one pair of rows: rounded first. NULL where there is no gemm_pair. */
    void (*pair_rows)(float *dst, int64_t pitch, const uint16_t *const *rows, int64_t first, int64_t cols, int64_t count);
    void (*pair_floats)(float *dst, const float *a, const float *b, int64_t count);
    /* dst[i * dst_pitch + r] = the pair of src[r * src_pitch + 2i] and what is beside it, rounded, zero at elems; NULL: by
     * transpose and pair_floats. */
    void (*pair_turn)(float *dst, int64_t dst_pitch, const float *src, int64_t src_pitch, int64_t rows, int64_t elems);
    float pair_pace; /* how much faster pairs are multiplied than floats */
    /* dst[i] = the pair of a[i] and b[i]. */
    void (*pair_values)(float *dst, const uint16_t *a, const uint16_t *b, int64_t count);
    /* Patches dst [count][pitch] of bf16: rows[i] and what lies line, 2 line, ... values further: taps times len values side
     * by side, then a zero. Reads and writes up to 31 values beyond. */
    void (*join)(uint16_t *dst, int64_t pitch, const uint16_t *const *rows, int64_t line, int64_t taps, int64_t len,
                 int64_t count);
    /* F(4x4, 3x3), F(7x7, 3x3), F(4x4, 5x5), and F(7x7, 3x3) with a stride of 2. r 0: the set does not have it. */
    struct gy_wino wino[GY_WINOS];
    /* dst[c * dst_pitch + r] = src[r * src_pitch + c] for r < rows, c < cols. */
    void (*transpose)(float *dst, int64_t dst_pitch, const float *src, int64_t src_pitch, int64_t rows, int64_t cols);
    /* Panel for outer: x rows side by side, dst [count][width], zero beyond cols. */
    void (*gather)(float *dst, int64_t width, const float *const *rows, int64_t first, int64_t cols, int64_t count);
    /* Panels pitch floats apart, [count][width] each: width columns a panel of cols from first on, what is beyond undefined; writes up to
     * GY_WIDTH_MAX / 4 floats behind a panel. NULL where no outer kind wants panels. */
    void (*panels)(float *dst, int64_t pitch, const float *const *rows, int64_t first, int64_t cols, int64_t width, int64_t count);
    /* The same from several places: vector v of lanes floats of a row of the panel begins at rows[i] + at[v]. */
    int lanes;
    void (*gather_at)(float *dst, int64_t width, const float *const *rows, const int32_t *at, int64_t count);
    /* Patches [count][pitch] from rows[tap * count + i] of len floats each, side by side; reads and writes up to
     * GY_ROWS_MAX floats beyond. */
    void (*patches)(float *dst, int64_t pitch, const float *const *rows, int64_t taps, int64_t len, int64_t count);
    void (*affine[GY_CPU_DTYPES])(const struct gy_affine_rows *a);
    /* Mean and sum of squared deviations of each column over the rows (at least 1), eight rows at a time. */
    void (*stats[GY_CPU_DTYPES])(const void *x, int64_t rows, int64_t cols, int64_t pitch, float *mean, float *m2);
    void (*bn_sums[GY_CPU_DTYPES])(const struct gy_bn_rows *a);
    void (*bn_back[GY_CPU_DTYPES])(const struct gy_bn_rows *a);
    void (*back[GY_CPU_DTYPES])(const struct gy_back_rows *a);
    void (*col_sums[GY_CPU_DTYPES])(const void *x, int64_t rows, int64_t cols, int64_t pitch, float *sum); /* added to */
    void (*pool_max[GY_CPU_DTYPES])(const struct gy_pool_rows *a);
    void (*pool_back[GY_CPU_DTYPES])(const struct gy_pool_rows *a);
    void (*pool_sum[GY_CPU_DTYPES])(const struct gy_pool_rows *a);
    /* To and from float. narrow: rows of src, pitch apart, to element at of every dst; add: dst = src + dst. */
    void (*widen[GY_CPU_DTYPES])(float *dst, const void *src, int64_t count);
    void (*narrow[GY_CPU_DTYPES])(void *const *dst, int64_t at, const float *src, int64_t pitch, int64_t rows,
                                  int64_t cols, int add);
    /* y[c] = (init[c], or 0 when NULL) + sum over t: x[t][c] * w[t][c]. */
    void (*depthwise)(float *y, const float *const *x, const float *const *w, int64_t taps, int64_t cols,
                      const float *init);
    /* sum[t][c] += dy[c] * x[t][c] */
    void (*depth_grad)(float *const *sum, const float *const *x, const float *dy, int64_t taps, int64_t cols);
    void (*sgd)(const struct gy_update_rows *a);
    void (*adamw)(const struct gy_update_rows *a);
    double (*dot)(const float *a, const float *b, int64_t count); /* of at most 4096 values, summed in a fixed order */
};

/* bf16 is the upper half of a float; rounding is to nearest, ties to even, and keeps what is not a number. */
static inline float gy_bf16_widen(uint16_t v)
{
    const uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline uint16_t gy_bf16_narrow(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The best set that bits (enum gy_cpu_bits, already masked) allow. */
GY_INT struct gy_kernels gy_kernels_select(unsigned bits);

/* 1 where this compiler writes POWER10's instructions in a function that asks for them: gcc; clang does it in whole files only. */
#if defined(__powerpc64__) && defined(__VSX__) && defined(__LITTLE_ENDIAN__) && !defined(__clang__) && __GNUC__ >= 10
#define GY_WITH_MMA 1
#else
#define GY_WITH_MMA 0
#endif

/* Overrides, one an instruction set; on other machines they change nothing. */
GY_INT void gy_kernels_avx2(struct gy_kernels *k);
GY_INT void gy_kernels_avx512(struct gy_kernels *k);
GY_INT void gy_kernels_avx512bf16(struct gy_kernels *k);
GY_INT void gy_kernels_amx(struct gy_kernels *k);
GY_INT void gy_kernels_vsx(struct gy_kernels *k);
GY_INT void gy_kernels_mma(struct gy_kernels *k);

#endif
