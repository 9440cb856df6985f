/* SPDX-License-Identifier: MIT */
/* augment.h: makes a sample of a batch from a decoded image; the loader calls it. Each draw is a
 * pure function of (seed, position of the sample in the run, use). So any sample of any step can be
 * made again alone. Scratch memory comes from the decoder. */
#ifndef GY_AUGMENT_H
#define GY_AUGMENT_H
#include "io/images/batch.h"
#include "io/images/data.h"

/* Bytes of decoder memory for the augmentation of a sample, without reading. max_h, max_w: the
 * largest source. */
GY_INT size_t gy_augment_bytes(int32_t max_h, int32_t max_w, int32_t h, int32_t w);

/* GY_E_ARG: a setting is out of its range. */
GY_INT int gy_augment_check(const struct gy_augment *augment, struct gy_error *err);

/* Training: out [h][w][c]. position: of the sample in the run. */
GY_INT int gy_augment_sample(const struct gy_augment *augment, const struct gy_image *image, uint64_t seed,
                             int64_t position, int32_t h, int32_t w, int32_t c, uint8_t *out,
                             struct gy_decoder *decoder, struct gy_error *err);
/* The same for an image of a float set, which is h x w x c already. It only does the padded crop
 * and the flip; a NULL augment copies. out holds floats. */
GY_INT void gy_augment_real(const struct gy_augment *augment, const struct gy_image *image, uint64_t seed,
                            int64_t position, uint8_t *out);
/* 1: a sample's padded crop and flip can be recorded in mix instead of being made. *rest is then
 * what the two functions above still do. 0: there is neither, or colour jitter follows them, so
 * pixels must be moved. */
GY_INT int gy_augment_tells(const struct gy_augment *augment, struct gy_augment *rest);
/* Records the padded crop and the flip of the sample at `position`. */
GY_INT void gy_augment_tell(const struct gy_augment *augment, uint64_t seed, int64_t position, struct gy_batch_mix *mix);
/* Mixing of batch `number`, mix [batch]. */
GY_INT void gy_augment_mix(const struct gy_augment *augment, uint64_t seed, int64_t number, int32_t batch, int32_t h,
                           int32_t w, struct gy_batch_mix *mix);

#endif
