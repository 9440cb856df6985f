/* SPDX-License-Identifier: MIT */
/* half.h: converts between bf16 and float in plain C. Kernels, messages of ranks and tests share
 * it, so all round to the same bits. */
#ifndef GY_HALF_H
#define GY_HALF_H
#include "engine/base/base.h"

/* bf16 is a float's upper half. Rounding is to nearest, ties to even, and keeps NaN. */
static inline float gy_bf16_widen(uint16_t v)
{
    const uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline uint16_t gy_bf16_narrow(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
