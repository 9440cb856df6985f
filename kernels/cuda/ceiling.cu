/* SPDX-License-Identifier: MIT */
/* What a GPU can do at most: a copy, a read and multiply-adds, as simple as can be. GY_ITEMS pieces of 16 bytes are gone through
 * GY_TURNS times; multiply-adds run in eight chains a thread, so that none waits for another. One version; blocks of GY_THREADS,
 * no shared memory, any alignment of 16 bytes, tails by the loop. */
#include "prelude.cuh"

GY_KERNEL(ceiling_copy)
{
    const unsigned char *const x = GY_P(const unsigned char, GY_X);
    unsigned char *const y = GY_P(unsigned char, GY_Y);
    for (int turn = 0; turn < GY_TURNS; turn++)
        for (int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID; i < GY_ITEMS; i += (int64_t)GY_GX * GY_THREADS)
            gy_store16(y + 16 * i, gy_load16(x + 16 * i));
}

/* The sum of what was read is stored where it has a value that it never has. */
GY_KERNEL(ceiling_read)
{
    const unsigned char *const x = GY_P(const unsigned char, GY_X);
    uint32_t sum = 0;
    for (int turn = 0; turn < GY_TURNS; turn++)
        for (int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID; i < GY_ITEMS; i += (int64_t)GY_GX * GY_THREADS) {
            const struct gy_raw16 r = gy_load16(x + 16 * i);
            sum += r.w[0] ^ r.w[1] ^ r.w[2] ^ r.w[3];
        }
    if (sum == 0x5a17c0deu)
        GY_P(uint32_t, GY_Y)[0] = sum;
}

GY_KERNEL(ceiling_multiply)
{
    float v[8];
    const float m = 1.0f + (float)GY_BX * 1e-9f, b = (float)GY_TID * 1e-9f;
    GY_UNROLL for (int j = 0; j < 8; j++) v[j] = (float)j;
    for (int turn = 0; turn < GY_MULTIPLIES; turn++) {
        GY_UNROLL for (int k = 0; k < 8; k++)
            GY_UNROLL for (int j = 0; j < 8; j++) v[j] = v[j] * m + b;
    }
    float sum = 0;
    GY_UNROLL for (int j = 0; j < 8; j++) sum += v[j];
    if (sum == 0.12345f)
        GY_P(float, GY_Y)[0] = sum;
}
