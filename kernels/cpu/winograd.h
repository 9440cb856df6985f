/* SPDX-License-Identifier: MIT */
/* winograd.h: cuts images into tiles, for winograd.c and winograd_grad.c. A tile is m x m outputs
 * and the e x e inputs that they meet, e = m + r - 1 with filters r x r. Tiles are numbered row by
 * row, image after image; those at the lower and right edge may stick out. Where many would,
 * gradients treat side x side images as one large one; a cell is an image with the zeros around it.
 * Four images of 13 x 13 outputs have 49 tiles of m = 4 together and 64 alone. Forward passes do
 * not: the outputs of a tile share roundings, and a net's output for an image must not depend on
 * others. */
#ifndef GY_CPU_WINOGRAD_H
#define GY_CPU_WINOGRAD_H
#include "kernels/cpu/cpu_context.h"

#define GY_WINO_EDGE_MAX 9    /* points, inputs or outputs along a side */
#define GY_WINO_POINTS_MAX 81 /* its square */
#define GY_WINO_OUTS_MAX 49   /* m^2 */
#define GY_WINO_TAPS_MAX 25   /* r^2 */

struct gy_wino_plan {
    int size;         /* of the kernel set's */
    const struct gy_wino *kernels;
    const float *zeros;
    int dtype;        /* of the activations */
    int edge, m;      /* along a tile's side: points or inputs; outputs, which are also the step */
    int points, outs, taps; /* edge^2, m^2, r^2 */
    int32_t red, vec; /* channels: of the input, summed over; of the output, in vectors */
    int32_t in_h, in_w, out_h, out_w, pad_h, pad_w;
    int32_t side, cell_h, cell_w; /* images along a large one's side; pixels from image to image */
    int32_t tiles_h, tiles_w;     /* of a large image */
    int64_t n, tiles;
    int transposed; /* data gradient: half a turn of the filter, output to input channels */
};

GY_INT void gy_wino_make_plan(struct gy_wino_plan *w, const struct gy_op *op, struct gy_planner *planner);
/* The input pixels of a tile from channel c on; zeros outside the image. */
GY_INT void gy_wino_pixels(const struct gy_wino_plan *w, const void *in, int64_t tile, int64_t c, const void **d);
/* The numbers of the output pixels of a tile, counted over all images; -1 outside. */
GY_INT void gy_wino_outs(const struct gy_wino_plan *w, int64_t tile, int64_t *numbers);
/* Floats from plane to plane: an odd number of cache lines, so planes do not share cache sets. */
static inline int64_t gy_wino_plane(int64_t floats)
{
    return ((floats + 15) / 16 | 1) * 16;
}

#endif
