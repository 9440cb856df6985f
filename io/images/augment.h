/* SPDX-License-Identifier: MIT */
/* augment.h: from a decoded image to a sample of a batch. Whatever is drawn is a pure function of (seed, position of
 * the sample in the run, use), so any sample of any step can be made again alone. Scratch memory comes from the
 * decoder. */
#ifndef GY_AUGMENT_H
#define GY_AUGMENT_H
#include "io/images/loader.h"

/* A rectangle of u8 pixels; stride: bytes from one row to the next. */
struct gy_window {
    const uint8_t *pixels;
    size_t stride;
    int32_t h, w, c;
};
GY_INT struct gy_window gy_window_of(const struct gy_image *image);

/* What a resize to total_h x total_w would give in its rows [y0, y0 + h) and columns [x0, x0 + w): Pillow's bilinear
 * filter (triangle, widened on reduction), horizontal then vertical, 8 bits between, fixed-point weights: the same bits
 * as Pillow. */
struct gy_resize {
    int64_t total_h, total_w, y0, x0;
    int32_t h, w;
};
GY_INT int gy_resample(const struct gy_window *from, const struct gy_resize *to, uint8_t *out, size_t out_stride,
                       struct gy_decoder *decoder, struct gy_error *err);
/* Bytes of decoder memory for a sample's augmentation, reading not included. max_h, max_w: the largest source. */
GY_INT size_t gy_augment_bytes(int32_t max_h, int32_t max_w, int32_t h, int32_t w);

GY_INT int gy_augment_check(const struct gy_augment *augment, struct gy_error *err); /* ranges; GY_E_ARG */

/* Training: out [h][w][c]. position: of the sample in the run. */
GY_INT int gy_augment_sample(const struct gy_augment *augment, const struct gy_image *image, uint64_t seed,
                             int64_t position, int32_t h, int32_t w, int32_t c, uint8_t *out,
                             struct gy_decoder *decoder, struct gy_error *err);
/* The same for an image of a float set that is h x w x c already: padded crop and flip alone; a NULL augment copies. out
 * holds floats. */
GY_INT void gy_augment_real(const struct gy_augment *augment, const struct gy_image *image, uint64_t seed,
                            int64_t position, uint8_t *out);
/* The padded crop and the flip of that sample, told instead of made: *rest is what is left for the two functions above. 0: they cannot be
 * told (colour follows them), or there are none. */
GY_INT int gy_augment_tells(const struct gy_augment *augment, struct gy_augment *rest);
GY_INT void gy_augment_tell(const struct gy_augment *augment, uint64_t seed, int64_t position, struct gy_batch_mix *mix);
/* torchvision's formulas on pixels [h][w][c], in the order and by the factors of (seed, position). */
GY_INT int gy_augment_jitter(const struct gy_augment *augment, uint64_t seed, int64_t position, uint8_t *pixels,
                             int32_t h, int32_t w, int32_t c, struct gy_decoder *decoder, struct gy_error *err);
/* Mixing of batch `number`, mix [batch]. */
GY_INT void gy_augment_mix(const struct gy_augment *augment, uint64_t seed, int64_t number, int32_t batch, int32_t h,
                           int32_t w, struct gy_batch_mix *mix);

#endif
