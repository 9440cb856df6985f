/* SPDX-License-Identifier: MIT */
/* conv.h: what the three convolution drivers share. Forward and data gradient are the same product seen from two
 * sides: a grid of output pixels, a list of filter taps, and for each (pixel, tap) one input pixel or none. Along
 * one axis the input coordinate is always grid * in_step + off0 + tap * off_step, so an axis is eleven integers.
 * The data gradient of a strided convolution is cut into classes of equal remainder, each of which has this form
 * with step 1: no multiplication with inserted zeros is ever done.
 *
 * Work is cut by shape alone: strips of pixels x groups of weight panels. The reduction (taps x channels) is cut
 * into slices whose panel stays near the core; sums wait in the output between slices. */
#ifndef GY_CPU_CONV_H
#define GY_CPU_CONV_H
#include "engine/base/thread.h"
#include "kernels/cpu/block_sizes.h"
#include "kernels/cpu/isa/table.h"

struct gy_axis {
    int32_t grid;                     /* output pixels of this view */
    int32_t taps, tap0, tap_step;     /* filter coordinates tap0 + j * tap_step */
    int32_t off0, off_step, in_step;  /* input coordinate = g * in_step + off0 + j * off_step */
    int32_t in_size;                  /* outside of [0, in_size): zero */
    int32_t out0, out_step, out_size; /* output coordinate = out0 + g * out_step */
};

/* One product. Channels are counted per group; red are summed over, vec lie in vectors. */
struct gy_product {
    struct gy_axis h, w;
    int64_t n;
    int32_t groups, red, vec, r, s;
    int64_t in_pitch, out_pitch; /* units from pixel to pixel */
    int unit;                    /* bytes of an input unit: 4, a float or a pair of bf16; 2, a bf16 that is widened */
    int half;                    /* activations are bf16: outputs are rounded from sums that wait in a buffer */
    int pair;                    /* pairs of bf16 are multiplied: red, depth and in_pitch count them, as gemm_pair does */
    int odd;                     /* pairs though red is odd: lines are joined to whole patches of one tap; red and in_pitch count
                                  * bf16 (unit 2), depth pairs, the last one filled up by a zero */
    void (*widen)(float *dst, const void *src, int64_t count); /* for unit 2 */
    int transposed;              /* weights are [red][r][s][vec] instead of [vec][r][s][red] */
    int lines;                   /* input channels are few: padded lines are copied, a tap is a whole filter row */
    int patch;                   /* the same, but lines would not be contiguous: whole patches are copied */
    int copy;                    /* copy slices: unit 2 */
    int64_t taps, depth;         /* as the kernel sees it: taps and red; lines: h.taps and w.taps*red; patch, odd: 1 and r*s*red */
    int64_t line_pitch, line_tap; /* floats of a copied line; from a filter row to the next */
    int64_t tap_block, depth_block;
    int64_t pixels, strip, strips;
    int64_t panels, panel_group, panel_groups; /* panels in all, a tile, tiles along them */
    int64_t packed;              /* floats of packed weights, all groups; 0: tiles pack their own slices */
};

struct gy_panel {
    const struct gy_gemm_kind *kind;
    int64_t first, cols; /* channels [first, first + cols) */
};

/* What is wanted of a product: single bf16; pairs of bf16 where the channels allow it and the processor multiplies them; or,
 * for few channels, lines of floats or of single bf16 that the caller makes pairs of (odd). */
enum gy_product_use { GY_PRODUCT_SINGLE, GY_PRODUCT_PAIRS, GY_PRODUCT_LINES };
/* op: geometry, type of the activations, block sizes. */
GY_INT void gy_product_forward(struct gy_product *p, const struct gy_op *op, const struct gy_kernels *k,
                               enum gy_product_use use);
/* Class (a, b) of dx's pixels: rows a, a + stride_h, ..., columns b, b + stride_w, ... taps may be 0. */
GY_INT void gy_product_dgrad(struct gy_product *p, const struct gy_op *op, const struct gy_kernels *k, int32_t a, int32_t b);
/* Input unit i. */
static inline const void *gy_product_in(const struct gy_product *p, const void *in, int64_t i)
{
    return (const unsigned char *)in + i * p->unit;
}
/* Bytes of a unit of red in lines. */
static inline int64_t gy_product_cell(const struct gy_product *p)
{
    return p->odd ? 2 : 4;
}
/* dst = count units of src, widened where they are single bf16 that do not go in pairs. */
static inline void gy_product_take(const struct gy_product *p, void *dst, const void *src, int64_t count)
{
    if (p->unit == 2 && !p->odd)
        p->widen(dst, src, count);
    else
        memcpy(dst, src, (size_t)(count * p->unit));
}
GY_INT struct gy_panel gy_product_panel(const struct gy_product *p, const struct gy_kernels *k, int64_t index);

/* Pointers to the input pixels that grid pixels [first, first + count) meet at a tap; zero where there is none. */
GY_INT void gy_product_rows(const struct gy_product *p, const void *in, int64_t first, int64_t count, int64_t tap,
                            const float *zero, const float **rows);
GY_INT void gy_product_outs(const struct gy_product *p, void *out, int64_t first, int64_t count, void **outs);
/* Copies whole patches [count][r * s * red] (rows pitch floats apart), zeros outside the image. */
GY_INT void gy_product_patches(const struct gy_product *p, const void *in, int64_t first, int64_t count, float *patch,
                               int64_t pitch);
GY_INT int64_t gy_product_patch_pitch(const struct gy_product *p);
/* Copies the padded lines that the pixels meet, each image's once, and returns how many; then pointers to each pixel's first, tap t is line_tap
 * floats further. 16 floats beyond a pixel's w.taps*red may be read. */
GY_INT int64_t gy_product_lines_floats(const struct gy_product *p);
GY_INT int64_t gy_product_lines(const struct gy_product *p, const void *in, int64_t first, int64_t count, float *lines);
GY_INT void gy_product_line_rows(const struct gy_product *p, const float *lines, int64_t first, int64_t count,
                                 const float **rows);

/* A CPU backend as the drivers see it. */
#define GY_CHANNELS_MOST 4096 /* that zeros stand for */
struct gy_cpu {
    struct gy_kernels k;
    struct gy_pool *pool;
    int threads;
    float zeros[GY_CHANNELS_MOST]; /* what is read beside an image */
};

/* Element i of activations of type dtype; NULL stays NULL. */
static inline const void *gy_cpu_at(const void *base, int64_t i, int dtype)
{
    return !base ? NULL : (const unsigned char *)base + i * (dtype == GY_F32 ? 4 : 2);
}
static inline void *gy_cpu_out(void *base, int64_t i, int dtype)
{
    return !base ? NULL : (unsigned char *)base + i * (dtype == GY_F32 ? 4 : 2);
}

/* Bump allocation inside an op's scratch; with base NULL it only counts. */
struct gy_carve {
    unsigned char *base;
    size_t used;
};
static inline void *gy_carve_take(struct gy_carve *carve, size_t count, size_t elem_bytes)
{
    void *const at = carve->base ? (void *)(carve->base + carve->used) : NULL;
    carve->used = gy_align_up(carve->used + count * elem_bytes, GY_CACHE_LINE);
    return at;
}

/* The limits that clamp forward and select backward; sigmoid and tanh have none (-inf, inf) and are done apart. */
GY_INT void gy_act_limits(int act, float *lo, float *hi);
GY_INT int gy_act_is_curve(int act); /* sigmoid or tanh */
GY_INT void gy_act_curve(int act, float *y, const float *x, int64_t count);
GY_INT void gy_act_curve_back(int act, float *d, const float *dy, const float *y, int64_t count);

/* Rows cut into as few tiles of at most `most` as there may be, as even as can be: tile i begins at rows * i / tiles, found without a
 * division a tile. */
struct gy_even {
    int64_t tiles, at, each, rest, carry;
};
static inline struct gy_even gy_even_tiles(int64_t rows, int64_t most)
{
    const int64_t tiles = gy_max64(gy_ceil_div(rows, most), 1);
    return (struct gy_even){tiles, 0, rows / tiles, rows % tiles, 0};
}
/* Where the next tile ends. */
static inline int64_t gy_even_next(struct gy_even *e)
{
    e->carry += e->rest;
    const int64_t one = e->carry >= e->tiles;
    e->carry -= one ? e->tiles : 0;
    return e->at += e->each + one;
}

/* Drivers: need tells the bytes of scratch; run does the work. */
GY_INT size_t gy_cpu_conv_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_conv_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT size_t gy_cpu_dgrad_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_dgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT size_t gy_cpu_wgrad_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_wgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);
/* The part of a weight gradient that is a bias's, where it is wanted; it uses scratch from the begin. */
GY_INT size_t gy_cpu_dbias_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_dbias_run(const struct gy_cpu *cpu, const struct gy_op *op);

/* Winograd: 3x3 and 5x5 with stride 1, 3x3 with stride 2, enough channels. */
/* Which of its sizes is faster than the direct way; -1: none. */
GY_INT int gy_cpu_wino_find(const struct gy_op *op, const struct gy_kernels *k);
GY_INT size_t gy_cpu_wino_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_wino_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT size_t gy_cpu_wino_grad_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_wino_grad_run(const struct gy_cpu *cpu, const struct gy_op *op);

/* Depthwise: every channel is a group of its own. */
GY_INT int gy_cpu_is_depthwise(const struct gy_op *op);
GY_INT size_t gy_cpu_depth_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_depth_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT size_t gy_cpu_depth_dgrad_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_depth_dgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT size_t gy_cpu_depth_wgrad_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_depth_wgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);

/* Scale, shift, residual and activation on Y in place: rows pixels from pixel on, cols channels from channel on. */
GY_INT void gy_cpu_epilogue(const struct gy_cpu *cpu, const struct gy_op *op, int64_t pixel, int64_t rows,
                            int64_t channel, int64_t cols);

/* Statistics of parts, merged pairwise in a fixed tree (Chan et al. 1979). part p covers rows [p * rows / parts ...) as
 * ends tells; mean, m2: [parts][channels], destroyed. Writes stats [2][channels]. */
GY_INT void gy_cpu_merge_stats(const struct gy_cpu *cpu, float *mean, float *m2, int64_t parts, int64_t channels,
                               int64_t part_rows, int64_t rows, float *stats);
/* out = (add ? out : 0) + sum over parts of part[p][count], in the order of p. */
GY_INT void gy_cpu_sum_parts(const struct gy_cpu *cpu, const float *part, int64_t parts, int64_t count, int64_t pitch,
                             float *out, int add);

#endif
