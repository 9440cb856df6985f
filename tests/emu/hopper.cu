/* SPDX-License-Identifier: MIT */
/* The words of sm_90: bulk copies, barriers that count, and products of a warp group. */
#include "prelude.cuh"

struct ring {
    uint16_t a[2][64 * 64], b[2][256 * 64], out[64 * 64];
    uint64_t full[2], free[2];
};

#ifndef GY_COLUMNS
#define GY_COLUMNS 64
#endif
#define GY_WGMMA_OF_(n) gy_wgmma_##n
#define GY_WGMMA_OF(n) GY_WGMMA_OF_(n)

/* Y[64][N] = X[64][K] W[N][K]^T, K = 256: warp 4 copies, warps 0 to 3 multiply. */
GY_KERNEL(pipeline)
{
    GY_SHARED(struct ring, s);
    if (GY_TID == 0) {
        for (int i = 0; i < 2; i++) {
            gy_bar_init(&s->full[i], 1);
            gy_bar_init(&s->free[i], 128);
        }
        gy_bar_init_done();
    }
    GY_SYNC();
    if (GY_WARP >= 4) {
        gy_registers_less(24);
        if (GY_TID == 128)
            for (int k = 0; k < 4; k++) {
                const int i = k % 2;
                gy_bar_wait(&s->free[i], (k / 2 & 1) ^ 1);
                gy_bar_expect(&s->full[i], (64 + GY_COLUMNS) * 128);
                gy_bulk_load2(s->a[i], &a.map[0], &s->full[i], k * 64, 0);
                gy_bulk_load2(s->b[i], &a.map[1], &s->full[i], k * 64, 0);
            }
    } else {
        float d[GY_COLUMNS / 2];
        gy_registers_more(232);
        for (int k = 0; k < 4; k++) {
            const int i = k % 2;
            gy_bar_wait(&s->full[i], k / 2 & 1);
            gy_wgmma_fence();
            for (int part = 0; part < 4; part++) {
                const uint64_t ta = gy_wgmma_tile((const char *)s->a[i] + part * 32, 16, 1024, 3);
                const uint64_t tb = gy_wgmma_tile((const char *)s->b[i] + part * 32, 16, 1024, 3);
                GY_WGMMA_OF(GY_COLUMNS)(d, ta, tb, k + part > 0, 0, 0);
            }
            gy_wgmma_commit();
            gy_wgmma_wait(0);
            gy_bar_arrive(&s->free[i]);
        }
        for (int i = 0; i < GY_COLUMNS / 2; i++)
            GY_P(float, GY_Y)[(16 * GY_WARP + GY_LANE / 4 + i / 2 % 2 * 8) * GY_COLUMNS + i / 4 * 8 + GY_LANE % 4 * 2 + i % 2] = d[i];
    }
}
