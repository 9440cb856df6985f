/* SPDX-License-Identifier: MIT */
/* words.cu: kernels that do nothing wrong, for the test of the emulator's words. */
#include "prelude.cuh"

struct tree_shared {
    float part[GY_THREADS];
};

/* y[block] = sum of the block's x, by a tree in shared memory and shuffles */
GY_KERNEL(tree)
{
    GY_SHARED(struct tree_shared, s);
    const float *x = GY_P(const float, GY_X);
    float *y = GY_P(float, GY_Y);
    float v = x[GY_BX * GY_THREADS + GY_TID];
    for (int d = 16; d > 0; d /= 2)
        v += gy_shfl_down(v, d);
    if (GY_LANE == 0)
        s->part[GY_WARP] = v;
    GY_SYNC();
    if (GY_TID == 0) {
        float sum = 0.0f;
        for (int i = 0; i < GY_THREADS / 32; i++)
            sum += s->part[i];
        y[GY_BX] = sum;
    }
}

/* y[i] = x of the lane that each word of exchange names */
GY_KERNEL(exchange)
{
    const float *x = GY_P(const float, GY_X);
    float *y = GY_P(float, GY_Y);
    const int i = GY_BX * GY_THREADS + GY_TID;
    const float v = x[i];
    y[4 * i] = gy_shfl_xor(v, 5);
    y[4 * i + 1] = gy_shfl_down(v, 9);
    y[4 * i + 2] = gy_shfl(v, 17);
    y[4 * i + 3] = (float)gy_shfl_i(GY_TID, GY_LANE / 2);
}

/* all threads add to four places, some of them to a fifth */
GY_KERNEL(adders)
{
    float *y = GY_P(float, GY_Y);
    gy_atomic_add(y + GY_TID % 4, 1.0f);
    if (GY_TID % 4 == 1)
        gy_atomic_add(y + 4, gy_load_live(y + 1) > 0.0f ? 1.0f : 1000.0f);
}

/* where a thread stands */
GY_KERNEL(place)
{
    int32_t *y = GY_P(int32_t, GY_Y);
    const int block = (GY_BZ * GY_GY + GY_BY) * GY_GX + GY_BX;
    y[block * GY_THREADS + GY_TID] = block * 1000 + GY_WARP * 100 + GY_LANE;
}

/* y = x through each element type, four at once */
GY_KERNEL(elements)
{
    const gy_t *x = GY_P(const gy_t, GY_X);
    gy_t *y = GY_P(gy_t, GY_Y);
    struct gy_vec4 v = gy_get4(x, 4 * GY_TID);
    GY_UNROLL for (int j = 0; j < 4; j++) v.v[j] = gy_act_of(v.v[j]);
    gy_put4(y, 4 * GY_TID, v);
    gy_put(y, 4 * GY_TID, gy_get(y, 4 * GY_TID) + 1.0f);
}
