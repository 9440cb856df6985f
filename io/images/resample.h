/* SPDX-License-Identifier: MIT */
/* resample.h: computes a part of a resized image, for samples (augment.c) and for packing
 * (pack.c). */
#ifndef GY_RESAMPLE_H
#define GY_RESAMPLE_H
#include "io/images/data.h"

/* A rectangle of u8 pixels; stride: bytes from one row to the next. */
struct gy_window {
    const uint8_t *pixels;
    size_t stride;
    int32_t h, w, c;
};
GY_INT struct gy_window gy_window_of(const struct gy_image *image);

/* Rows [y0, y0 + h) and columns [x0, x0 + w) of a resize to total_h x total_w. It gives the same
 * bits as Pillow's bilinear filter: a triangle, widened on reduction. It goes first horizontally,
 * then vertically, with 8 bits between and fixed-point weights. */
struct gy_resize {
    int64_t total_h, total_w, y0, x0;
    int32_t h, w;
};
/* out: h rows of w pixels, out_stride bytes from one to the next. Scratch memory comes from the
 * decoder; GY_E_IMAGE: it does not suffice. */
GY_INT int gy_resample(const struct gy_window *from, const struct gy_resize *to, uint8_t *out, size_t out_stride,
                       struct gy_decoder *decoder, struct gy_error *err);

#endif
