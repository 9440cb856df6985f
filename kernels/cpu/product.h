/* SPDX-License-Identifier: MIT */
/* product.h: the geometry of convolution products. Forward and data gradient are two views of one
 * product of output pixels and filter taps. Each (pixel, tap) has one input pixel or none. Along
 * one axis the input coordinate is always grid * in_step + off0 + tap * off_step, so an axis is
 * eleven integers. The data gradient of a strided convolution is cut into classes of equal
 * remainder. Each has this form with step 1, so no inserted zeros are multiplied.
 *
 * Work is cut by shape alone: strips of pixels x groups of weight panels. The reduction (taps x
 * channels) is cut into slices whose panel stays near the core. Between slices sums wait in the
 * output, or of bf16 in a buffer. conv.c, conv_grad.c and winograd.c call it. */
#ifndef GY_CPU_PRODUCT_H
#define GY_CPU_PRODUCT_H
#include "kernels/cpu/cpu_context.h"

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
    int unit;      /* bytes of an input unit: 4 (float or bf16 pair), 2 (bf16 that is widened) */
    int half;      /* activations are bf16: sums wait in a buffer, outputs are rounded from them */
    int pair;      /* bf16 pairs are multiplied: red, depth and in_pitch count pairs */
    int odd;       /* pairs of an odd red: lines are joined to whole patches of one tap. red and
                    * in_pitch count bf16 (unit 2); depth counts pairs, the last has a zero. */
    void (*widen)(float *dst, const void *src, int64_t count); /* for unit 2 */
    int transposed; /* weights are [red][r][s][vec] instead of [vec][r][s][red] */
    int lines;      /* few input channels: padded lines are copied; a tap is a whole filter row */
    int patch;      /* as lines where lines are not contiguous: whole patches are copied */
    int copy;       /* copy slices: unit 2 */
    int64_t taps, depth; /* of the kernel. lines: h.taps, w.taps*red; patch, odd: 1, r*s*red */
    int64_t line_pitch, line_tap; /* floats of a copied line; from a filter row to the next */
    int64_t tap_block, depth_block;
    int64_t pixels, strip, strips;
    const struct gy_panel *panel;              /* [panels], of a group */
    int64_t panels, panel_group, panel_groups; /* panels in all, a tile, tiles along them */
    int64_t padded;                            /* columns of all panels */
    int64_t packed;              /* floats of packed weights; 0: tiles pack their own slices */
};

/* Weights of some channels, as wide as a kind of register tile. */
struct gy_panel {
    const struct gy_gemm_kind *kind;
    int64_t first, cols; /* channels [first, first + cols) */
};
/* *count panels for vec channels: whole ones of each kind, the last may be cut. NULL: no memory. */
GY_INT const struct gy_panel *gy_product_panels(struct gy_planner *planner, const struct gy_gemm_kind *kinds, int64_t vec,
                                                int64_t *count);

/* What a product has: single bf16; bf16 pairs, if channels and processor allow them; or lines, for
 * few channels. The caller makes lines of floats, or pairs them from single bf16 (odd). */
enum gy_product_use { GY_PRODUCT_SINGLE, GY_PRODUCT_PAIRS, GY_PRODUCT_LINES };
/* op: geometry, type of the activations, block sizes. */
GY_INT void gy_product_forward(struct gy_product *p, const struct gy_op *op, struct gy_planner *planner,
                               enum gy_product_use use);
/* dx's pixels of rows a, a + stride_h, ... and columns b, b + stride_w, ...; taps may be 0. */
GY_INT void gy_product_dgrad(struct gy_product *p, const struct gy_op *op, struct gy_planner *planner, int32_t a, int32_t b);
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

/* Pointers to the input pixels that pixels [first, first + count) meet at a tap, or to zero. */
GY_INT void gy_product_rows(const struct gy_product *p, const void *in, int64_t first, int64_t count, int64_t tap,
                            const float *zero, const float **rows);
GY_INT void gy_product_outs(const struct gy_product *p, void *out, int64_t first, int64_t count, void **outs);
/* Copies whole patches [count][r * s * red] (rows pitch floats apart), zeros outside the image. */
GY_INT void gy_product_patches(const struct gy_product *p, const void *in, int64_t first, int64_t count, float *patch,
                               int64_t pitch);
GY_INT int64_t gy_product_patch_pitch(const struct gy_product *p);
/* Copies the padded lines that the pixels meet, once an image; returns how many. rows: each pixel's
 * first; each tap lies line_tap further. 16 floats behind its w.taps*red may be read. */
GY_INT int64_t gy_product_lines_floats(const struct gy_product *p);
GY_INT int64_t gy_product_lines(const struct gy_product *p, const void *in, int64_t first, int64_t count, float *lines);
GY_INT void gy_product_line_rows(const struct gy_product *p, const float *lines, int64_t first, int64_t count,
                                 const float **rows);

#endif
