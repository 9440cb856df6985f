/* SPDX-License-Identifier: MIT */
/* hopper.cu: the words of sm_90: bulk copies, counting barriers, and products of a warp group.
 * GY_WRONG says by a number what is left out of `pipeline` or `staged`; lines where it shows have a
 * mark HERE. */
#include "prelude.cuh"

#ifndef GY_WRONG
#define GY_WRONG 0
#endif
#ifndef GY_COLUMNS
#define GY_COLUMNS 64
#endif
#define GY_WGMMA_OF_(n) gy_wgmma_##n
#define GY_WGMMA_OF(n) GY_WGMMA_OF_(n)

struct ring {
    uint16_t a[2][64 * 64], b[2][256 * 64];
    uint64_t full[2], free[2];
};

GY_FN void ring_open(struct ring *s, int consumers)
{
    if (GY_TID == 0) {
        for (int i = 0; i < 2; i++) {
            gy_bar_init(&s->full[i], 1);
            gy_bar_init(&s->free[i], consumers);
        }
        gy_bar_init_done();
    }
    GY_SYNC();
}

/* y[64][N] from the lanes' accumulators */
GY_FN void put_result(float *y, const float *d)
{
    for (int i = 0; i < GY_COLUMNS / 2; i++)
        y[(16 * (GY_WARP % 4) + GY_LANE / 4 + i / 2 % 2 * 8) * GY_COLUMNS + i / 4 * 8 + GY_LANE % 4 * 2 + i % 2] = d[i];
}

/* Y[64][N] = X[64][K] W[N][K]^T, K = 256: warp 4 copies, warps 0 to 3 multiply. */
GY_KERNEL(pipeline)
{
    GY_SHARED(struct ring, s);
    ring_open(s, 128);
    if (GY_WARP >= 4) {
        gy_registers_less(24);
        if (GY_TID == 128)
            for (int k = 0; k < 4; k++) {
                const int i = k % 2;
#if GY_WRONG != 1
                gy_bar_wait(&s->free[i], (k / 2 & 1) ^ 1);
#endif
                gy_bar_expect(&s->full[i], (64 + GY_COLUMNS) * (GY_WRONG == 2 ? 130 : 128));
                gy_bulk_load2(s->a[i], &a.map[0], &s->full[i], k * 64, 0); /* HERE 1 */
                gy_bulk_load2(s->b[i], &a.map[1], &s->full[i], k * 64, 0);
            }
    } else {
        float d[GY_COLUMNS / 2];
        gy_registers_more(232);
        for (int k = 0; k < 4; k++) {
            const int i = k % 2;
#if GY_WRONG != 3
            gy_bar_wait(&s->full[i], k / 2 & 1); /* HERE 2 */
#endif
#if GY_WRONG != 4
            gy_wgmma_fence();
#endif
            for (int part = 0; part < 4; part++) {
                const uint64_t ta = gy_wgmma_tile((const char *)s->a[i] + part * 32, 16, 1024, 3);
                const uint64_t tb = gy_wgmma_tile((const char *)s->b[i] + part * 32, 16, 1024, 3);
                GY_WGMMA_OF(GY_COLUMNS)(d, ta, tb, k + part > 0, 0, 0); /* HERE 3 4 */
            }
            gy_wgmma_commit();
#if GY_WRONG == 5
            gy_bar_arrive(&s->free[i]); /* too early: the product still reads */
#endif
#if GY_WRONG == 9
            gy_wgmma_wait(1); /* the one before is done, this one is not */
#else
            gy_wgmma_wait(0);
#endif
#if GY_WRONG != 5
            gy_bar_arrive(&s->free[i]);
#endif
        }
        gy_wgmma_wait(0);
        put_result(GY_P(float, GY_Y), d);
    }
}

/* Every layout of operands: K = 64, tiles as bulk copies lay them. */
#ifndef GY_SWIZZLE
#define GY_SWIZZLE 3
#define GY_TURN_A 0
#define GY_TURN_B 0
#endif
#define WIDE (8 << GY_SWIZZLE) /* elements in a box's row */

/* Brings a whole operand, box by box; returns its bytes. */
GY_FN void load_operand(char *to, const struct gy_tensor_map *map, uint64_t *bar, int rows, int turn)
{
    for (int i = 0; i < (turn ? rows : 64) / WIDE; i++)
        gy_bulk_load2(to + i * (turn ? 64 : rows) * WIDE * 2, map, bar, i * WIDE, 0);
}
GY_FN uint64_t operand_tile(const char *at, int rows, int turn, int k)
{
    const int box = (turn ? 64 : rows) * WIDE * 2;
    if (turn)
        return gy_wgmma_tile(at + k * WIDE * 2, GY_SWIZZLE ? box : 8 * WIDE * 2, GY_SWIZZLE ? 8 * WIDE * 2 : box, GY_SWIZZLE);
    if (!GY_SWIZZLE)
        return gy_wgmma_tile(at + k / 8 * box, box, 128, 0);
    return gy_wgmma_tile(at + k / WIDE * box + k % WIDE * 2, 16, 8 * WIDE * 2, GY_SWIZZLE);
}

GY_KERNEL(layouts)
{
    GY_SHARED(struct ring, s);
    float d[GY_COLUMNS / 2];
    ring_open(s, 1);
    if (GY_TID == 0) {
        gy_bar_expect(&s->full[0], (64 + GY_COLUMNS) * 128);
        load_operand((char *)s->a, &a.map[0], &s->full[0], 64, GY_TURN_A);
        load_operand((char *)s->b, &a.map[1], &s->full[0], GY_COLUMNS, GY_TURN_B);
    }
    gy_bar_wait(&s->full[0], 0);
    gy_wgmma_fence();
    for (int k = 0; k < 64; k += 16)
        GY_WGMMA_OF(GY_COLUMNS)(d, operand_tile((const char *)s->a, 64, GY_TURN_A, k),
                                operand_tile((const char *)s->b, GY_COLUMNS, GY_TURN_B, k), k > 0, GY_TURN_A, GY_TURN_B);
    gy_wgmma_commit();
    gy_wgmma_wait(0);
    put_result(GY_P(float, GY_Y), d);
}

/* Pixels of an im2col box: Y[64][16] of X for the filter's tap (GY_F0, GY_F1), from pixel GY_F2 ..
 * GY_F4 on. */
GY_KERNEL(pixels)
{
    GY_SHARED(struct ring, s);
    ring_open(s, 1);
    if (GY_TID == 0) {
        gy_bar_expect(&s->full[0], 64 * 32);
        gy_bulk_im2col(s->a, &a.map[0], &s->full[0], 0, GY_P(const int32_t, GY_ARG)[0], GY_P(const int32_t, GY_ARG)[1],
                       GY_P(const int32_t, GY_ARG)[2], GY_P(const int32_t, GY_ARG)[3], GY_P(const int32_t, GY_ARG)[4]);
    }
    gy_bar_wait(&s->full[0], 0);
    for (int i = GY_TID; i < 64 * 16; i += GY_THREADS)
        GY_P(uint16_t, GY_Y)[i] = s->a[0][i];
}

/* Y = X + 1 through shared memory, out by a bulk copy. 128 threads in two halves meet at their own
 * barriers. */
GY_KERNEL(staged)
{
    GY_SHARED(struct ring, s);
    const int half = GY_TID / 64;
    uint16_t *mine = s->a[half];
    for (int i = GY_TID % 64; i < 16 * 64; i += 64)
        mine[i] = (uint16_t)(GY_P(const uint16_t, GY_X)[half * 1024 + i] + 1);
#if GY_WRONG != 6
    gy_fence_async();
#endif
#if GY_WRONG != 7
    gy_some_sync(1 + half, 64);
#endif
    if (GY_TID % 64 == 0) {
        gy_bulk_store2(&a.map[0], mine, 0, half * 16); /* HERE 6 7 */
        gy_bulk_commit();
#if GY_WRONG != 8
        gy_bulk_wait_read(0);
#endif
    }
    gy_some_sync(1 + half, 64);
    mine[GY_TID % 64] = 0; /* HERE 8 */
}
