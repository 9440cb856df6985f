/* SPDX-License-Identifier: MIT */
/* gy_align_up: the least multiple of a power of two that is not below the bytes. */
#include "tests/proof/proof.h"

void proof(void)
{
    const unsigned shift = nondet_byte();
    PROOF_ASSUME(shift < 64);
    const size_t align = (size_t)1 << shift, bytes = nondet_size();
    PROOF_ASSUME(bytes < SIZE_MAX - align);
    const size_t up = gy_align_up(bytes, align);
    PROOF_CLAIM(up >= bytes && up - bytes < align && (up & (align - 1)) == 0);
}
