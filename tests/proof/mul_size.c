/* SPDX-License-Identifier: MIT */
/* gy_mul_size, with a size of 16 bits: the product where it fits, else -1 and nothing changed.
 * Solvers take the division of 64 bits for ever. */
#include "tests/proof/proof.h"
#undef GY_BASE_H
#undef SIZE_MAX
#define SIZE_MAX UINT16_MAX
#define size_t uint16_t
#define gy_min64 narrow_min64
#define gy_max64 narrow_max64
#define gy_ceil_div narrow_ceil_div
#define gy_mul_size narrow_mul_size
#define gy_add_size narrow_add_size
#define gy_mul_count narrow_mul_count
#define gy_align_up narrow_align_up
#include "engine/base/base.h"

uint16_t nondet_uint16(void);

void proof(void)
{
    const uint16_t a = nondet_uint16(), b = nondet_uint16(), before = nondet_byte();
    uint16_t out = before;
    const int status = narrow_mul_size(a, b, &out);
    PROOF_CLAIM((status == 0) == ((uint32_t)a * b <= UINT16_MAX));
    PROOF_CLAIM(status == 0 ? out == (uint32_t)a * b : status == -1 && out == before);
}
