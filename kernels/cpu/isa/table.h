/* SPDX-License-Identifier: MIT */
/* table.h: the table of CPU micro-kernels. Drivers (conv.c, norm.c, ...) cut an op into tiles that
 * fit the caches and call these on each. Only the functions behind the table know vector registers.
 * Every instruction set has a function that fills its part of the table. select.c calls them from
 * the portable set upwards. What a kernel is given lies in tile_args.h and row_args.h.
 *
 * Convolution in every direction is one kernel: a batch-reduce product over pointers. The caller
 * gives a tile of output pixels. For each filter tap it has one pointer a pixel to the input
 * channels it meets there, or to a row of zeros. It also has a panel of weights
 * [tap][channel][width]. The sums stay in registers over all taps and channels. */
#ifndef GY_CPU_TABLE_H
#define GY_CPU_TABLE_H
#include "kernels/cpu/isa/row_args.h"
#include "kernels/cpu/isa/tile_args.h"
#include "kernels/op.h"

#define GY_KINDS 3         /* panel widths a kernel set offers, widest first */

/* By enum gy_dtype: activations are float or bf16, with a row kernel each; sums are float. */
#define GY_CPU_DTYPES 2

/* Winograd's transforms for F(m x m, r x r) over count channels (wino_points.h). Transformed
 * numbers lie pitch apart. filter_back and spread serve weight gradients. */
#define GY_WINOS 3
/* Filters at a row of points: u[j * pitch + i * width + c] has point j, channel i of channels. */
struct gy_wino_filters {
    float *u;
    int64_t pitch;
    const float *const *taps; /* a channel's columns, step floats from channel to channel */
    int64_t step, channels, width, count; /* count: columns that there are */
    int row;
};
struct gy_wino {
    int m, r;
    void (*filter)(const struct gy_wino_filters *f);
    /* y[i] NULL: left out */
    void (*output)(float *const *y, const float *m, int64_t pitch, const float *init, int64_t count);
    void (*filter_back)(float *const *taps, const float *u, int64_t pitch, int64_t count, int add);
    /* ahead: the next tile's pixels, to be fetched. spread: output, backward. */
    void (*input[GY_CPU_DTYPES])(float *v, int64_t pitch, const void *const *pixels, const void *const *ahead, int64_t count);
    void (*spread[GY_CPU_DTYPES])(float *m, int64_t pitch, const void *const *dy, const void *const *ahead, int64_t count);
};

struct gy_kernels {
    const char *name;
    struct gy_gemm_kind gemm[GY_KINDS];   /* unused ones repeat the last */
    struct gy_outer_kind outer[GY_KINDS];
    /* The same over bf16 pairs: a "float" of rows, panel, x and dy is a pair of neighbours in the
     * reduction. Sums are float. fn NULL: the processor has no such instruction. */
    struct gy_gemm_kind gemm_pair[GY_KINDS];
    struct gy_outer_kind outer_pair[GY_KINDS];
    /* dst[i][c] pairs rows 2i and 2i + 1 at column first + c; zero is the partner of a single row.
     * dst rows lie pitch apart. pair_floats rounds one pair of rows. NULL: no gemm_pair. */
    void (*pair_rows)(float *dst, int64_t pitch, const uint16_t *const *rows, int64_t first, int64_t cols, int64_t count);
    void (*pair_floats)(float *dst, const float *a, const float *b, int64_t count);
    /* dst[i * dst_pitch + r] pairs src[r * src_pitch + 2i] with its neighbour, rounded, zero at
     * elems. NULL: by transpose and pair_floats. */
    void (*pair_turn)(float *dst, int64_t dst_pitch, const float *src, int64_t src_pitch, int64_t rows, int64_t elems);
    float pair_pace; /* how much faster pairs are multiplied than floats */
    /* dst[i] = the pair of a[i] and b[i]. */
    void (*pair_values)(float *dst, const uint16_t *a, const uint16_t *b, int64_t count);
    /* Patches dst [count][pitch] of bf16: of rows[i], taps times len values that lie `line` apart,
     * side by side, then a zero. It reads and writes up to 31 values beyond. */
    void (*join)(uint16_t *dst, int64_t pitch, const uint16_t *const *rows, int64_t line, int64_t taps, int64_t len,
                 int64_t count);
    /* F(4x4, 3x3), F(7x7, 3x3), F(4x4, 5x5). r 0: the set does not have it. */
    struct gy_wino wino[GY_WINOS];
    /* dst[c * dst_pitch + r] = src[r * src_pitch + c] for r < rows, c < cols. */
    void (*transpose)(float *dst, int64_t dst_pitch, const float *src, int64_t src_pitch, int64_t rows, int64_t cols);
    /* Panel for outer: x rows side by side, dst [count][width], zero beyond cols. */
    void (*gather)(float *dst, int64_t width, const float *const *rows, int64_t first, int64_t cols, int64_t count);
    /* Panels [count][width], pitch floats apart, of columns from first on; undefined beyond cols.
     * Writes up to GY_WIDTH_MAX / 4 floats behind a panel. NULL: no outer kind wants panels. */
    void (*panels)(float *dst, int64_t pitch, const float *const *rows, int64_t first, int64_t cols, int64_t width, int64_t count);
    /* As gather, from several places: vector v, of lanes floats, begins at rows[i] + at[v]. */
    int lanes;
    void (*gather_at)(float *dst, int64_t width, const float *const *rows, const int32_t *at, int64_t count);
    /* Patches [count][pitch] from rows[tap * count + i] of len floats each, side by side. It reads
     * and writes up to GY_ROWS_MAX floats beyond. */
    void (*patches)(float *dst, int64_t pitch, const float *const *rows, int64_t taps, int64_t len, int64_t count);
    void (*affine[GY_CPU_DTYPES])(const struct gy_affine_rows *a);
    /* Each column's mean and sum of squared deviations over rows >= 1, eight rows at a time. */
    void (*stats[GY_CPU_DTYPES])(const void *x, int64_t rows, int64_t cols, int64_t pitch, float *mean, float *m2);
    void (*bn_sums[GY_CPU_DTYPES])(const struct gy_bn_rows *a);
    void (*bn_back[GY_CPU_DTYPES])(const struct gy_bn_rows *a);
    void (*back[GY_CPU_DTYPES])(const struct gy_back_rows *a);
    /* col_sums: added to sum */
    void (*col_sums[GY_CPU_DTYPES])(const void *x, int64_t rows, int64_t cols, int64_t pitch, float *sum);
    void (*pool_max[GY_CPU_DTYPES])(const struct gy_pool_rows *a);
    void (*pool_back[GY_CPU_DTYPES])(const struct gy_pool_rows *a);
    void (*pool_sum[GY_CPU_DTYPES])(const struct gy_pool_rows *a);
    /* To and from float. narrow: rows of src, pitch apart, to dst at `at`; add: dst += src. */
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
    void (*lamb)(const struct gy_update_rows *a, float *u);
    double (*dot)(const float *a, const float *b, int64_t count); /* count <= 4096, fixed order */
};

/* 1 where a function may ask for POWER10's instructions: gcc; clang does whole files only. */
#if defined(__powerpc64__) && defined(__VSX__) && defined(__LITTLE_ENDIAN__) && !defined(__clang__) && __GNUC__ >= 10
#define GY_WITH_MMA 1
#else
#define GY_WITH_MMA 0
#endif

/* Fills the table in portable C. */
GY_INT void gy_kernels_portable(struct gy_kernels *k);
/* Overrides, one an instruction set; on other machines they change nothing. */
GY_INT void gy_kernels_avx2(struct gy_kernels *k);
GY_INT void gy_kernels_avx512(struct gy_kernels *k);
GY_INT void gy_kernels_avx512bf16(struct gy_kernels *k);
GY_INT void gy_kernels_amx(struct gy_kernels *k);
GY_INT void gy_kernels_vsx(struct gy_kernels *k);
GY_INT void gy_kernels_mma(struct gy_kernels *k);

#endif
