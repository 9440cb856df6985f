/* SPDX-License-Identifier: MIT */
/* batch.h: the settings of augmentation, and a sample's record of moves and mixing, which an op
 * makes later. augment.h and loader.h share both. */
#ifndef GY_BATCH_H
#define GY_BATCH_H
#include "engine/base/base.h"

/* Augmentation of one sample, in this order. All zero: only a resize (when sizes differ) and a
 * centre crop. */
struct gy_augment {
    /* zero border before a random crop of the net's size (CIFAR: 4) */
    int32_t pad;
    int resized_crop;                /* random resized crop: */
    float scale_min, scale_max;      /*   area as part of the image: .08 .. 1 */
    float ratio_min, ratio_max;      /*   aspect ratio: 3/4 .. 4/3 */
    float flip;                      /* probability of a horizontal flip */
    float brightness, contrast, saturation, hue; /* colour jitter, as torchvision's */
    /* alpha of the Beta distributions; 0: off; both on: one of the two for each batch */
    float mixup, cutmix;
    /* shorter side before the centre crop, in evaluation, and in training without pad and
     * resized_crop; 0: the crop's own size */
    int32_t resize;
};

/* How sample i of a batch is moved, mirrored and mixed with another. It equals struct gy_mix of
 * kernels/op.h field by field. */
struct gy_batch_mix {
    int32_t partner;
    float inside, label;
    int32_t h0, w0, h1, w1;
    int32_t dy, dx, flip;
};

#endif
