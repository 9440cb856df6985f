/* SPDX-License-Identifier: MIT */
/* blocks_pack.h: packs a block. It needs nothing but the block's rows, so that threads pack blocks,
 * and shares of a block, at the same time. rows_convert.c does so in steps; engine/glm/source.c and
 * tools/lab/glm_generate.c call gy_blocks_pack. */
#ifndef GY_BLOCKS_PACK_H
#define GY_BLOCKS_PACK_H
#include "engine/base/mem.h"
#include "io/rows/blocks_file.h"
#include "io/rows/blocks_labels.h"
#include "io/rows/rows.h"

struct gy_blocks_packed; /* one block, packed; can be used again for another */
/* Packs at most 2^20 rows with 2^30 entries, which lie in `count` views one after the other. Ids
 * must rise in a row; values, labels and weights must be finite: GY_E_ARG says where they are not.
 * The scale of the rows is not kept. Thread-safe for different *packed. */
GY_INT int gy_blocks_pack(struct gy_blocks_packed **packed, const struct gy_rows *rows, int count, const struct gy_alloc *alloc, struct gy_error *err);
/* NULL is fine. */
GY_INT void gy_blocks_drop(struct gy_blocks_packed *packed, const struct gy_alloc *alloc);

/* ---- in steps: what gy_blocks_pack does in one call ---- */

/* What a block's rows are like. Zeroed is empty. */
struct gy_blocks_sum {
    uint64_t rows, entries;
    uint32_t longest, shortest;
    struct gy_bits_look look;
    int values, weights; /* they are not all the same; some rows have weights */
    float same;          /* value of the first entry */
    int fraction;        /* a value is no whole number of at most BLOCKS_WHOLE_MOST */
    int32_t whole[2];    /* the least and the largest value, where fraction is 0 */
    struct gy_blocks_counts counts;
};
/* Adds the rows of a view. GY_E_ARG as for gy_blocks_pack. */
GY_INT int gy_blocks_sum_add(struct gy_blocks_sum *sum, const struct gy_rows *rows, struct gy_error *err);
/* Adds the sum of rows that follow those of sum. */
GY_INT void gy_blocks_sum_join(struct gy_blocks_sum *sum, const struct gy_blocks_sum *next);

#define GY_BLOCKS_PARTS 5
struct gy_blocks_part {
    uint64_t begin, end; /* bytes of the block */
    uint64_t numbers;
    uint32_t bits;       /* of a number */
    uint64_t share;      /* its first one */
};
struct gy_blocks_packed {
    struct gy_large memory;
    unsigned char *bytes;
    uint32_t *crc; /* [shares] */
    size_t room, crc_room;
    uint64_t shares;
    struct gy_blocks_part part[GY_BLOCKS_PARTS];
    struct gy_blocks_entry entry; /* its crc is not known before all shares are packed */
    struct gy_blocks_counts counts;
};
/* Makes *packed (NULL, or one that can be used again) ready for rows like those. */
GY_INT int gy_blocks_plan(struct gy_blocks_packed **packed, const struct gy_blocks_sum *sum, const struct gy_alloc *alloc, struct gy_error *err);
GY_INT uint64_t gy_blocks_shares(const struct gy_blocks_packed *packed);
/* Packs one share of the rows that were summed, `count` views; from any thread, each share once. */
GY_INT void gy_blocks_pack_share(struct gy_blocks_packed *packed, uint64_t share, const struct gy_rows *rows, int count);
GY_INT uint32_t gy_blocks_packed_crc(const struct gy_blocks_packed *packed);

#endif
