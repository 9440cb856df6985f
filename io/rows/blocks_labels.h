/* SPDX-License-Identifier: MIT */
/* blocks_labels.h: counts the different labels of a data set, one by one while they are few.
 * blocks_pack.c counts those of a block, blocks_write.c those of all. */
#ifndef GY_BLOCKS_LABELS_H
#define GY_BLOCKS_LABELS_H
#include "engine/base/base.h"

#define GY_BLOCKS_CLASSES 1024 /* most different labels that are counted one by one */

/* Different labels, and how many rows have each. too_many: there are more than GY_BLOCKS_CLASSES,
 * no longer counted. All zero: empty. */
struct gy_blocks_counts {
    int32_t count;
    int too_many, last;
    float label[GY_BLOCKS_CLASSES];
    int64_t rows[GY_BLOCKS_CLASSES];
    uint16_t slot[2 * GY_BLOCKS_CLASSES]; /* 1 + index, by the label's bits */
};
GY_INT void gy_blocks_count(struct gy_blocks_counts *counts, float label, int64_t rows);
GY_INT void gy_blocks_count_all(struct gy_blocks_counts *counts, const struct gy_blocks_counts *more);
/* Sorts them, rising. Nothing can be counted any more. */
GY_INT void gy_blocks_sort(struct gy_blocks_counts *counts);

#endif
