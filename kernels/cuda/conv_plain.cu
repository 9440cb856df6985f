/* SPDX-License-Identifier: MIT */
/* conv_plain.cu: convolution to be read: patches are laid out in memory (im2col), then multiplied
 * as plain matrices. variants_conv.c has its row. Every other convolution kernel is this one with
 * the patches made on the fly.
 *
 * M = N * P * Q pixels, V = R * S * C/groups values of a patch, K/groups output channels; for each
 * group:
 *   forward          patches[M][V] = gather(x);  sums[M][K] = patches * w[K][V]^T + bias;
 *                    statistics; then y
 *   data gradient    patches[M][V] = dy[M][K] * w[K][V];  dx = sums over the patches of a pixel
 *   weight gradient  patches[M][V] = gather(x);  dw[K][V] = dy[M][K]^T * patches
 *
 * One thread makes one value of a product. Blocks of 16 x 16 threads share 16 x 16 tiles of both
 * factors. So each value is fetched once a block, not once a thread. Shared memory: two tiles, a
 * column of padding against bank conflicts. Tails: tiles are filled with zeros, stores are checked.
 * Patches are floats in scratch: the largest of all variants, chosen only by name. */
#include "prelude.cuh"
#include "conv.cuh"

#define PLAIN_TILE 16
#define PLAIN_VALUES ((int64_t)CV_PIXELS * GY_GROUPS * CV_ROW)
#define PLAIN_PATCHES ((float *)a.ptr[GY_SCRATCH])
/* forward: [M][K] behind the patches */
#define PLAIN_SUMS(scratch) ((float *)(scratch) + PLAIN_VALUES)
/* of this block's group */
#define PLAIN_AT(m, v) (((int64_t)(m) * GY_GROUPS + GY_BZ) * CV_ROW + (v))

/* What value v of pixel m's patch in a group is: an input pixel, or none; and its place in x. */
struct plain_cell {
    int inside;
    int64_t at;
};

GY_FN struct plain_cell plain_cell_of(int64_t m, int group, int v)
{
    const int c = v % CV_CG, s = v / CV_CG % GY_S, r = v / CV_CG / GY_S;
    const int q = (int)(m % GY_Q), p = (int)(m / GY_Q % GY_P_);
    const int h = p * GY_STRIDE_H - GY_PAD_H + r * GY_DIL_H, w = q * GY_STRIDE_W - GY_PAD_W + s * GY_DIL_W;
    struct plain_cell cell;
    cell.inside = h >= 0 && h < GY_H && w >= 0 && w < GY_W_;
    cell.at = ((m / (GY_P_ * GY_Q) * GY_H + h) * GY_W_ + w) * GY_C + group * CV_CG + c;
    return cell;
}

/* One thread a value of the patches. */
GY_KERNEL(plain_gather)
{
    const int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID;
    if (i >= PLAIN_VALUES)
        return;
    const int v = (int)(i % CV_ROW), group = (int)(i / CV_ROW % GY_GROUPS);
    const struct plain_cell cell = plain_cell_of(i / CV_ROW / GY_GROUPS, group, v);
    PLAIN_PATCHES[i] = cell.inside ? gy_get(GY_P(gy_t, GY_X), cell.at) : 0.0f;
}

struct plain_tiles {
    float a[PLAIN_TILE][PLAIN_TILE + 1], b[PLAIN_TILE][PLAIN_TILE + 1];
};

/* The two factors of the product, element by element: a[row][i], b[i][col]. */
#if GY_DIR == 0
#define PLAIN_ROWS CV_PIXELS
#define PLAIN_COLS CV_KG
#define PLAIN_DEPTH CV_ROW
GY_FN float plain_a(const struct gy_args *a, int row, int i)
{
    return ((const float *)a->ptr[GY_SCRATCH])[PLAIN_AT(row, i)];
}
GY_FN float plain_b(const struct gy_args *a, int i, int col)
{
    return ((const float *)a->ptr[GY_W])[((int64_t)GY_BZ * CV_KG + col) * CV_ROW + i];
}
#elif GY_DIR == 1
#define PLAIN_ROWS CV_PIXELS
#define PLAIN_COLS CV_ROW
#define PLAIN_DEPTH CV_KG
GY_FN float plain_a(const struct gy_args *a, int row, int i)
{
    return gy_get((const gy_t *)a->ptr[GY_DY], (int64_t)row * GY_K + GY_BZ * CV_KG + i);
}
GY_FN float plain_b(const struct gy_args *a, int i, int col)
{
    return ((const float *)a->ptr[GY_W])[((int64_t)GY_BZ * CV_KG + i) * CV_ROW + col];
}
#else
#define PLAIN_ROWS CV_KG
#define PLAIN_COLS CV_ROW
#define PLAIN_DEPTH CV_PIXELS
GY_FN float plain_a(const struct gy_args *a, int row, int i)
{
    return gy_get((const gy_t *)a->ptr[GY_DY], (int64_t)i * GY_K + GY_BZ * CV_KG + row);
}
GY_FN float plain_b(const struct gy_args *a, int i, int col)
{
    return ((const float *)a->ptr[GY_SCRATCH])[PLAIN_AT(i, col)];
}
#endif

/* Where the sum goes. */
GY_FN void plain_put(const struct gy_args *a, int row, int col, float sum)
{
#if GY_DIR == 0
    const int k = GY_BZ * CV_KG + col;
#if GY_HAS_BIAS
    sum += ((const float *)a->ptr[GY_BIAS])[k];
#endif
    PLAIN_SUMS(a->ptr[GY_SCRATCH])[(int64_t)row * GY_K + k] = sum;
#elif GY_DIR == 1
    ((float *)a->ptr[GY_SCRATCH])[PLAIN_AT(row, col)] = sum;
#else
    float *const dw = (float *)a->ptr[GY_DW] + ((int64_t)GY_BZ * CV_KG + row) * CV_ROW + col;
    *dw = a->u->accumulate ? *dw + sum : sum;
#endif
}

/* Block (x, z): one tile of one group's product. */
GY_KERNEL(plain_multiply)
{
    GY_SHARED(struct plain_tiles, s);
    const int across = (PLAIN_COLS + PLAIN_TILE - 1) / PLAIN_TILE;
    const int y = GY_TID / PLAIN_TILE, x = GY_TID % PLAIN_TILE;
    const int row = GY_BX / across * PLAIN_TILE + y, col = GY_BX % across * PLAIN_TILE + x;
    float sum = 0.0f;
    for (int first = 0; first < PLAIN_DEPTH; first += PLAIN_TILE) {
        s->a[y][x] = row < PLAIN_ROWS && first + x < PLAIN_DEPTH ? plain_a(&a, row, first + x) : 0.0f;
        s->b[y][x] = col < PLAIN_COLS && first + y < PLAIN_DEPTH ? plain_b(&a, first + y, col) : 0.0f;
        GY_SYNC();
        for (int i = 0; i < PLAIN_TILE; i++)
            sum += s->a[y][i] * s->b[i][x];
        GY_SYNC();
    }
    if (row < PLAIN_ROWS && col < PLAIN_COLS)
        plain_put(&a, row, col, sum);
}

struct plain_sums {
    float part[GY_THREADS];
};

/* The sum of every thread's value, in a tree. */
GY_FN float plain_sum(struct plain_sums *s, float v)
{
    GY_SYNC();
    s->part[GY_TID] = v;
    for (int half = GY_THREADS / 2; half > 0; half /= 2) {
        GY_SYNC();
        if (GY_TID < half)
            s->part[GY_TID] += s->part[GY_TID + half];
    }
    GY_SYNC();
    return s->part[0];
}

#if GY_DIR == 0 && GY_HAS_STATS
/* One block a channel: mean, then squares around it. */
GY_KERNEL(plain_stats)
{
    GY_SHARED(struct plain_sums, s);
    const float *const y = PLAIN_SUMS(a.ptr[GY_SCRATCH]) + GY_BX;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t m = GY_TID; m < CV_PIXELS; m += GY_THREADS)
        sum += y[m * GY_K];
    const float mean = plain_sum(s, sum) / (float)CV_PIXELS;
    for (int64_t m = GY_TID; m < CV_PIXELS; m += GY_THREADS) {
        const float off = y[m * GY_K] - mean;
        squares += off * off;
    }
    squares = plain_sum(s, squares);
    if (GY_TID == 0) {
        GY_P(float, GY_STATS)[GY_BX] = mean;
        GY_P(float, GY_STATS)[GY_K + GY_BX] = squares;
    }
}
#endif

#if GY_DIR == 0
/* What comes behind the statistics: one thread a value. */
GY_KERNEL(plain_finish)
{
    const int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID;
    if (i >= (int64_t)CV_PIXELS * GY_K)
        return;
    float scale = 1.0f, shift = 0.0f, res = 0.0f;
#if GY_HAS_SCALE
    scale = GY_P(float, GY_SCALE)[i % GY_K];
    shift = GY_P(float, GY_SHIFT)[i % GY_K];
#endif
#if GY_HAS_RES
    res = gy_get(GY_P(gy_t, GY_RES), i);
#endif
    gy_put(GY_P(gy_t, GY_Y), i, conv_finish(PLAIN_SUMS(a.ptr[GY_SCRATCH])[i], scale, shift, res));
}
#endif

#if GY_DIR == 1
/* One thread an input value: its places in the patches are looked for, tap by tap. */
GY_KERNEL(plain_collect)
{
    const int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID, pixel = i / GY_C;
    if (i >= (int64_t)GY_N * GY_H * GY_W_ * GY_C)
        return;
    const int channel = (int)(i % GY_C), w = (int)(pixel % GY_W_), h = (int)(pixel / GY_W_ % GY_H);
    float sum = 0.0f;
    for (int tap = 0; tap < CV_TAPS; tap++) {
        const int p = h + GY_PAD_H - tap / GY_S * GY_DIL_H, q = w + GY_PAD_W - tap % GY_S * GY_DIL_W;
        if (p < 0 || p % GY_STRIDE_H != 0 || p / GY_STRIDE_H >= GY_P_ || q < 0 || q % GY_STRIDE_W != 0 ||
            q / GY_STRIDE_W >= GY_Q)
            continue;
        const int64_t m = (pixel / (GY_H * GY_W_) * GY_P_ + p / GY_STRIDE_H) * GY_Q + q / GY_STRIDE_W;
        sum += PLAIN_PATCHES[(m * GY_GROUPS + channel / CV_CG) * CV_ROW + tap * CV_CG + channel % CV_CG];
    }
    gy_t *const dx = GY_P(gy_t, GY_DX);
    gy_put(dx, i, GY_FLAGS & GY_F_ADD_DX ? gy_get(dx, i) + sum : sum);
}
#endif

#if GY_DIR == 2 && GY_HAS_DBIAS
/* One block a channel: the sum of its gradients. */
GY_KERNEL(plain_bias)
{
    GY_SHARED(struct plain_sums, s);
    float sum = 0.0f;
    for (int64_t m = GY_TID; m < CV_PIXELS; m += GY_THREADS)
        sum += gy_get(GY_P(gy_t, GY_DY), m * GY_K + GY_BX);
    sum = plain_sum(s, sum);
    if (GY_TID == 0) {
        float *const db = GY_P(float, GY_DBIAS) + GY_BX;
        *db = a.u->accumulate ? *db + sum : sum;
    }
}
#endif
