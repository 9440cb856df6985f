/* SPDX-License-Identifier: MIT */
/* blocks_labels.c: counts the rows of each different label, for the head of a block file. A label
 * is found by its bits in a hash table of 2 * GY_BLOCKS_CLASSES places, unless it is the last one.
 * Sorting ends the counting: it empties the table. */
#include "io/rows/blocks_labels.h"
#include "io/rows/blocks_file.h"

#define LABELS_SLOTS (2 * GY_BLOCKS_CLASSES)

/* The place of the label, or the free one where it would be. The factor is 2^32 over the golden
 * ratio (Knuth, The Art of Computer Programming 3, 6.4). */
static uint32_t labels_slot(const struct gy_blocks_counts *counts, float label)
{
    uint32_t at = (gy_blocks_bits_of_float(label) * 2654435769u) >> 16 & (LABELS_SLOTS - 1);
    while (counts->slot[at] != 0 && gy_blocks_bits_of_float(counts->label[counts->slot[at] - 1]) != gy_blocks_bits_of_float(label))
        at = (at + 1) & (LABELS_SLOTS - 1);
    return at;
}

GY_INT void gy_blocks_count(struct gy_blocks_counts *counts, float label, int64_t rows)
{
    label += 0.0f; /* -0 and 0 are one label */
    if (counts->too_many)
        return;
    if (counts->count > 0 && gy_blocks_bits_of_float(counts->label[counts->last]) == gy_blocks_bits_of_float(label)) {
        counts->rows[counts->last] += rows;
        return;
    }
    const uint32_t at = labels_slot(counts, label);
    if (counts->slot[at] == 0) {
        if (counts->count == GY_BLOCKS_CLASSES) {
            counts->too_many = 1;
            return;
        }
        counts->label[counts->count] = label;
        counts->rows[counts->count] = 0;
        counts->slot[at] = (uint16_t)++counts->count;
    }
    counts->last = counts->slot[at] - 1;
    counts->rows[counts->last] += rows;
}

GY_INT void gy_blocks_count_all(struct gy_blocks_counts *counts, const struct gy_blocks_counts *more)
{
    counts->too_many |= more->too_many;
    for (int32_t i = 0; i < more->count; i++)
        gy_blocks_count(counts, more->label[i], more->rows[i]);
}

GY_INT void gy_blocks_sort(struct gy_blocks_counts *counts)
{
    for (int32_t i = 1; i < counts->count; i++) {
        const float label = counts->label[i];
        const int64_t rows = counts->rows[i];
        int32_t at = i;
        for (; at > 0 && counts->label[at - 1] > label; at--) {
            counts->label[at] = counts->label[at - 1];
            counts->rows[at] = counts->rows[at - 1];
        }
        counts->label[at] = label;
        counts->rows[at] = rows;
    }
    counts->last = 0;
    memset(counts->slot, 0, sizeof counts->slot);
}
