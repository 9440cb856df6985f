/* SPDX-License-Identifier: MIT */
/* jitter.h: colour jitter of one sample, for augment.c. */
#ifndef GY_JITTER_H
#define GY_JITTER_H
#include "io/images/batch.h"
#include "io/images/decoder.h"

/* Applies torchvision's formulas to pixels [h][w][c]. Their order and factors come from (seed,
 * position). Scratch memory comes from the decoder; GY_E_IMAGE: it does not suffice. */
GY_INT int gy_augment_jitter(const struct gy_augment *augment, uint64_t seed, int64_t position, uint8_t *pixels,
                             int32_t h, int32_t w, int32_t c, struct gy_decoder *decoder, struct gy_error *err);

#endif
