/* SPDX-License-Identifier: MIT */
/* gy_mul_count, with counts of 16 bits: the product where it fits and none is below 0, else -1 and
 * nothing changed. Solvers take the division of 64 bits for ever. */
#include "tests/proof/proof.h"
#undef GY_BASE_H
#undef INT64_MAX
#define INT64_MAX INT16_MAX
#define int64_t int16_t
#define gy_min64 narrow_min64
#define gy_max64 narrow_max64
#define gy_ceil_div narrow_ceil_div
#define gy_mul_size narrow_mul_size
#define gy_add_size narrow_add_size
#define gy_mul_count narrow_mul_count
#define gy_align_up narrow_align_up
#include "engine/base/base.h"

int16_t nondet_int16(void);

void proof(void)
{
    const int16_t a = nondet_int16(), b = nondet_int16(), before = (int16_t)nondet_byte();
    int16_t out = before;
    const int status = narrow_mul_count(a, b, &out);
    PROOF_CLAIM((status == 0) == (a >= 0 && b >= 0 && (int32_t)a * b <= INT16_MAX));
    PROOF_CLAIM(status == 0 ? out == (int32_t)a * b : status == -1 && out == before);
}
