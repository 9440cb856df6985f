/* SPDX-License-Identifier: MIT */
/* ceiling.cu: what a GPU can do at most, as peak.c measures it: a copy, a read and multiply-adds,
 * as simple as can be. The first two go through GY_ITEMS pieces of 16 bytes GY_TURNS times.
 * Multiply-adds run in eight chains a thread, so that none waits for another. Where a warp group
 * multiplies (sm_90), two of them do nothing else, on random numbers: zeros cost less power and run
 * faster. One version. Blocks of GY_THREADS, shared memory for the products alone, any alignment of
 * 16 bytes, tails by the loop. */
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

#if GY_ARCH >= 90 && GY_ARCH < 100
/* 64 of the reduction by rows, as conv_wgmma.cu has them: 64 rows a group, 256 columns for both. */
struct ceiling_tiles {
    uint16_t a[2][64 * 64], b[256 * 64];
};

/* Two numbers in bf16, of either sign and a size from 1 to 2. */
GY_FN uint32_t ceiling_pair(uint32_t i)
{
    uint32_t v = i * 2654435761u;
    v ^= v >> 15;
    v *= 0x85ebca6bu;
    return ((v ^ v >> 13) & 0x807f807fu) | 0x3f803f80u;
}

/* Blocks have two groups. The reduction is GY_TURNS times 64. A thread stores the sum of its
 * products. */
GY_KERNEL(ceiling_matrix)
{
    GY_SHARED(struct ceiling_tiles, s);
    const int group = gy_shfl_i(GY_WARP, 0) / 4;
    float d[128], sum = 0.0f;
    for (int i = GY_TID; i < (int)sizeof *s / 4; i += GY_THREADS)
        ((uint32_t *)s)[i] = ceiling_pair((uint32_t)i);
    gy_fence_async();
    GY_SYNC();
    const uint64_t a_tile = gy_wgmma_tile(s->a[group], 16, 1024, 3);
    const uint64_t b_tile = gy_wgmma_tile(s->b, 16, 1024, 3);
    int turn = 0;
    do {
        gy_wgmma_fence();
        GY_UNROLL for (int k = 0; k < 4; k++)
            gy_wgmma_256(d, a_tile + 2 * k, b_tile + 2 * k, turn > 0 || k > 0, 0, 0);
        gy_wgmma_commit();
        gy_wgmma_wait(1);
    } while (++turn < GY_TURNS);
    gy_wgmma_wait(0);
    GY_UNROLL for (int i = 0; i < 128; i++) {
        gy_wgmma_hold(&d[i]);
        sum += d[i];
    }
    GY_P(float, GY_Y)[GY_BX * GY_THREADS + GY_TID] = sum;
}
#endif
