/* SPDX-License-Identifier: MIT */
/* blocks_place.c: gy_blocks_place puts parts of a block one behind the other at multiples of 64,
 * all inside. Each has the slack that its reader reads behind it. */
#include "tests/proof/proof.h"
#include "io/rows/blocks.c"

struct gy_blocks_entry nondet_entry(void);

static uint64_t packed_bytes(uint64_t numbers, unsigned bits) { return (numbers * bits + 7) / 8 + BLOCKS_SLACK; }

void proof(void)
{
    const struct gy_blocks_entry e = nondet_entry();
    PROOF_ASSUME(e.rows >= 1 && e.rows <= BLOCKS_ROWS && e.entries <= BLOCKS_ENTRIES && e.id_bits >= 1 && e.id_bits <= 32);
    PROOF_ASSUME(e.length_bits <= 32 && e.value_bits <= BLOCKS_WHOLE_BITS && e.label_kind <= GY_BLOCKS_LABEL_REAL);
    const struct gy_blocks_parts p = gy_blocks_place(&e);
    PROOF_CLAIM(p.lengths == 0 && p.ids % BLOCKS_PART == 0 && p.values % BLOCKS_PART == 0 && p.labels % BLOCKS_PART == 0);
    PROOF_CLAIM(p.weights % BLOCKS_PART == 0 && p.bytes % BLOCKS_ALIGN == 0);
    PROOF_CLAIM(e.length_bits == 0 || p.ids >= packed_bytes(e.rows, e.length_bits));
    PROOF_CLAIM(p.values >= p.ids + packed_bytes(e.entries, e.id_bits));
    PROOF_CLAIM(p.labels >= p.values + (e.value_bits ? packed_bytes(e.entries, e.value_bits) : e.flags & GY_BLOCKS_VALUES ? 4 * (uint64_t)e.entries : 0));
    PROOF_CLAIM(e.label_kind != GY_BLOCKS_LABEL_BITS || p.weights - p.labels >= (e.rows + 7) / 8);
    PROOF_CLAIM(p.weights >= p.labels && (e.label_kind != GY_BLOCKS_LABEL_REAL || p.weights - p.labels >= 4 * (uint64_t)e.rows));
    PROOF_CLAIM(p.bytes >= p.weights + (e.flags & GY_BLOCKS_WEIGHTS ? 4 * (uint64_t)e.rows : 0));
}
