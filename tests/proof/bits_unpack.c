/* SPDX-License-Identifier: MIT */
/* gy_bits_unpack in plain C: numbers are the bits that lie there, lowest first, and no more is read
 * than the slack behind them. */
#include "tests/proof/proof.h"
#include "io/rows/blocks_file.h"
#undef __x86_64__
#include "io/rows/blocks_bits.c"

enum { NUMBERS = 8, MOST = NUMBERS * 32 / 8 + BLOCKS_SLACK };

void proof(void)
{
    unsigned char room[MOST];
    uint32_t out[NUMBERS];
    const int bits = nondet_int();
    const size_t n = nondet_size(), k = nondet_size();
    PROOF_ASSUME(bits >= 1 && bits <= 32 && n <= NUMBERS && k < n);
    const size_t bytes = (n * (size_t)bits + 7) / 8 + BLOCKS_SLACK;
    const unsigned char *const from = room + (MOST - bytes);
    gy_bits_unpack(from, bits, out, n);
    uint32_t value = 0;
    for (int i = 0; i < 32; i++) {
        const size_t bit = k * (size_t)bits + (size_t)i;
        if (i < bits)
            value |= (uint32_t)(from[bit / 8] >> bit % 8 & 1) << i;
    }
    PROOF_CLAIM(out[k] == value);
}
