/* SPDX-License-Identifier: MIT */
/* blocks_check_entry: an accepted block lies behind the one before it and ahead of the index, and
 * is as large as its rows need. Its numbers are within the limits on which gy_blocks_place
 * builds. */
#include "tests/proof/proof.h"
#include "io/rows/blocks.c"

static uint64_t place_bytes;

/* Stands for the sizes of a block's parts, always the same of one entry. */
struct gy_blocks_parts contract_gy_blocks_place(const struct gy_blocks_entry *e)
{
    (void)e;
    return (struct gy_blocks_parts){ .bytes = place_bytes };
}

struct gy_blocks_entry nondet_entry(void);

void proof(void)
{
    struct gy_blocks b;
    struct gy_error err;
    const struct gy_blocks_entry e = nondet_entry();
    const uint64_t end = nondet_uint64();
    place_bytes = nondet_uint64();
    b.head.index_at = nondet_uint64();
    b.head.features = nondet_uint32();
    if (blocks_check_entry(&b, &e, nondet_int64(), end, &err) != GY_OK)
        return;
    PROOF_CLAIM(e.at >= end && e.at % BLOCKS_ALIGN == 0 && (proof_wide)e.at + e.bytes <= b.head.index_at && e.bytes == place_bytes);
    PROOF_CLAIM(e.rows >= 1 && e.rows <= BLOCKS_ROWS && e.entries <= BLOCKS_ENTRIES && e.features <= b.head.features);
    PROOF_CLAIM(e.id_bits >= 1 && e.id_bits <= 32 && e.length_bits <= 32 && e.value_bits <= BLOCKS_WHOLE_BITS);
    PROOF_CLAIM(e.length_bits != 0 || (uint64_t)e.width * e.rows == e.entries);
}
