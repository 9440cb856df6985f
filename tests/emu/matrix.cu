/* SPDX-License-Identifier: MIT */
/* matrix.cu: matrices held by a warp, and asynchronous copies. One warp computes Y (f32) = X W^T
 * with X [M][K] and W [N][K], both 16-bit. With GY_WRONG a number says what is left out. */
#include "prelude.cuh"

#ifndef GY_WRONG
#define GY_WRONG 0
#endif

struct tiles {
    uint16_t x[16][16], w[16][16];
};

GY_FN uint32_t pair_at(const uint16_t *p) { return p[0] | (uint32_t)p[1] << 16; }

/* [16][K] by [8][K], fragments loaded by hand from device memory, as the tables say */
#define BY_HAND(name, k, mma)                                                                                          \
    GY_KERNEL(name)                                                                                                    \
    {                                                                                                                  \
        const uint16_t *x = GY_P(const uint16_t, GY_X), *w = GY_P(const uint16_t, GY_W);                               \
        const int group = GY_LANE / 4, pair = GY_LANE % 4;                                                             \
        uint32_t fa[4], fb[2];                                                                                         \
        float d[4] = {1.0f, 1.0f, 1.0f, 1.0f};                                                                         \
        for (int i = 0; i < k / 4; i++)                                                                                \
            fa[i] = pair_at(x + (group + i % 2 * 8) * k + 2 * pair + i / 2 * 8);                                       \
        for (int i = 0; i < k / 8; i++)                                                                                \
            fb[i] = pair_at(w + group * k + 2 * pair + i * 8);                                                         \
        mma;                                                                                                           \
        for (int i = 0; i < 4; i++)                                                                                    \
            GY_P(float, GY_Y)[(group + i / 2 * 8) * 8 + 2 * pair + i % 2] = d[i];                                      \
    }
BY_HAND(by_hand_8, 8, gy_mma_16_8_8_f16(d, fa, fb[0]))
BY_HAND(by_hand_16, 16, gy_mma_16_8_16_f16(d, fa, fb))
BY_HAND(by_hand_bf16, 16, gy_mma_16_8_16_bf16(d, fa, fb))

/* four products of [8][4] by [8][4], one below the other */
GY_KERNEL(by_hand_volta)
{
    const int product = GY_LANE % 16 / 4, row = GY_LANE % 4 + GY_LANE / 16 * 4;
    const uint16_t *x = GY_P(const uint16_t, GY_X) + product * 32 + row * 4, *w = GY_P(const uint16_t, GY_W) + product * 32 + row * 4;
    const uint32_t fa[2] = {pair_at(x), pair_at(x + 2)}, fb[2] = {pair_at(w), pair_at(w + 2)};
    float d[8] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    gy_mma_8_8_4_f16(d, fa, fb);
    for (int i = 0; i < 8; i++) {
        const int r = (GY_LANE & 1) + (i & 2) + GY_LANE / 16 * 4, c = (i & 4) + (GY_LANE & 2) + (i & 1);
        GY_P(float, GY_Y)[product * 64 + r * 8 + c] = d[i];
    }
}

/* [16][16] by [16][16]: tiles come by cp.async, fragments by ldmatrix. GY_TURNED: W lies as
 * [K][N]. */
GY_KERNEL(by_tiles)
{
    GY_SHARED(struct tiles, s);
    const uint16_t *x = GY_P(const uint16_t, GY_X), *w = GY_P(const uint16_t, GY_W);
    const int row = GY_LANE / 2, half = GY_LANE % 2 * 8;
    gy_copy_async(&s->x[row][half], x + row * 16 + half, 16);
    gy_copy_commit();
    /* 3 zeros end the last row's halves */
    gy_copy_async(&s->w[row][half], w + row * 16 + half, row < 15 ? 16 : 10);
    gy_copy_commit();
#if GY_WRONG == 1
    gy_copy_wait(1);
#elif GY_WRONG != 2
    gy_copy_wait(0);
#endif
#if GY_WRONG != 3
    GY_SYNC();
#endif
    uint32_t fa[4], fb[4];
    gy_ldmatrix4(fa, &s->x[GY_LANE % 16][GY_LANE / 16 * 8]); /* HERE lost_wait_2 lost_sync */
#ifdef GY_TURNED
    /* [k][n]: tiles (k 0, n 0), (k 8, n 0), (k 0, n 8), (k 8, n 8) */
    gy_ldmatrix4_turned(fb, &s->w[GY_LANE % 16][GY_LANE / 16 * 8]);
#else
    gy_ldmatrix4(fb, &s->w[GY_LANE % 8 + GY_LANE / 16 * 8][GY_LANE / 8 % 2 * 8]); /* HERE lost_wait_1 */
#endif
    for (int n = 0; n < 2; n++) {
        float d[4] = {1.0f, 1.0f, 1.0f, 1.0f};
        gy_mma_16_8_16_f16(d, fa, (fb + 2 * n));
        for (int i = 0; i < 4; i++)
            GY_P(float, GY_Y)[(GY_LANE / 4 + i / 2 * 8) * 16 + n * 8 + GY_LANE % 4 * 2 + i % 2] = d[i];
    }
}
