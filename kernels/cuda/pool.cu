/* SPDX-License-Identifier: MIT */
/* pool.cu: pooling, forward and backward.
 *
 * Idea: a thread has GY_VEC neighbouring channels of one pixel: of the output forward, of the input
 * backward. There it gathers what the windows over its pixel send back. So each element is written
 * once, by one thread, in a fixed order: no atomics.
 *
 *   1  backward scatters with atomics: not the same bits twice
 *   2  (this one) gathering over windows; overlapping windows are read again, from the caches
 *   3  POOL_GLOBAL: one window over the whole image. There version 2 has a thread for GY_VEC
 *      outputs only, each with a long sum. Here a block has GY_COLS vectors of channels of one
 *      image, its rows of threads share the pixels, and are added by halves
 *
 * Block: GY_THREADS (256) vectors in a line; POOL_GLOBAL: GY_COLS (a power of two up to 32) x rows,
 * grid (image, channels). Shared memory: POOL_GLOBAL a sum a thread and channel. Alignment: tensors
 * on 64 bytes, GY_VEC divides GY_C. Tails: threads beyond the last vector are idle. Maximum: the
 * first of equal ones, but the last NaN wins over all; padding never wins. ARG is r * GY_S + s. The
 * variant, a row of variants_ops.c, names one part: POOL_MAX, POOL_AVG, POOL_GLOBAL, POOL_MAX_BWD,
 * POOL_AVG_BWD. */
#include "prelude.cuh"

#define POOL_WIDE (GY_C / GY_VEC) /* vectors of a pixel */
#if GY_R * GY_S <= 16
#define POOL_UNROLL GY_UNROLL
#else
#define POOL_UNROLL GY_UNROLL_NOT
#endif
#if GY_N * GY_H * GY_W_ * GY_C < 2147483648 && GY_N * GY_P_ * GY_Q * GY_C < 2147483648
typedef uint32_t pool_index;
#else
typedef uint64_t pool_index;
#endif

/* A pixel of an image of some height and width, and a channel. */
struct pool_place {
    int n, h, w, c;
};

GY_FN struct pool_place pool_place_of(pool_index vector, int height, int width)
{
    struct pool_place at;
    const pool_index pixel = vector / POOL_WIDE;
    at.c = (int)(vector % POOL_WIDE) * GY_VEC;
    at.w = (int)(pixel % (uint32_t)width);
    at.h = (int)(pixel / (uint32_t)width % (uint32_t)height);
    at.n = (int)(pixel / (uint32_t)width / (uint32_t)height);
    return at;
}

GY_FN int64_t pool_vector(void) { return (int64_t)GY_BX * GY_THREADS + GY_TID; }

/* Index of input pixel (h, w) and output pixel (p, q), channel c. */
GY_FN int64_t pool_in(int n, int h, int w, int c) { return (((int64_t)n * GY_H + h) * GY_W_ + w) * GY_C + c; }
GY_FN int64_t pool_out(int n, int p, int q, int c) { return (((int64_t)n * GY_P_ + p) * GY_Q + q) * GY_C + c; }

GY_FN int pool_clamp(int v, int most) { return v < 0 ? 0 : v > most ? most : v; }
/* The element of cell (h, w), or of the nearest one in the image: loads need no branch between
 * them. */
GY_FN struct gy_vec pool_cell(const gy_t *x, int n, int h, int w, int c)
{
    return gy_get_vec(x, pool_in(n, pool_clamp(h, GY_H - 1), pool_clamp(w, GY_W_ - 1), c));
}
GY_FN int pool_inside(int h, int w) { return h >= 0 && h < GY_H && w >= 0 && w < GY_W_; }

/* GY_VEC bytes of ARG, or to it. */
struct pool_cells {
    int cell[GY_VEC];
};

#ifdef POOL_MAX
GY_FN void pool_put_cells(uint8_t *arg, int64_t i, struct pool_cells x)
{
#if GY_VEC == 8
    struct gy_raw8 r;
    GY_UNROLL for (int half = 0; half < 2; half++) {
        r.w[half] = 0;
        GY_UNROLL for (int j = 0; j < 4; j++) r.w[half] |= (uint32_t)(x.cell[4 * half + j] & 255) << (8 * j);
    }
    gy_store8_global(arg + i, r);
#elif GY_VEC == 4
    uint32_t r = 0;
    GY_EACH(j) r |= (uint32_t)(x.cell[j] & 255) << (8 * j);
    *(uint32_t *)(void *)(arg + i) = r;
#else
    arg[i] = (uint8_t)x.cell[0];
#endif
}

GY_KERNEL(pool_max)
{
    const gy_t *x = GY_P(const gy_t, GY_X);
    if (pool_vector() >= (int64_t)GY_N * GY_P_ * GY_Q * POOL_WIDE)
        return;
    const struct pool_place at = pool_place_of((pool_index)pool_vector(), GY_P_, GY_Q);
    const int top = at.h * GY_STRIDE_H - GY_PAD_H, left = at.w * GY_STRIDE_W - GY_PAD_W;
    struct gy_vec best;
    struct pool_cells arg;
    GY_EACH(j) {
        best.v[j] = 0.0f;
        arg.cell[j] = -1;
    }
    POOL_UNROLL for (int r = 0; r < GY_R; r++)
    POOL_UNROLL for (int s = 0; s < GY_S; s++) {
        const struct gy_vec v = pool_cell(x, at.n, top + r, left + s, at.c);
        const int inside = pool_inside(top + r, left + s);
        GY_EACH(j) {
            const int wins = inside && (arg.cell[j] < 0 || v.v[j] > best.v[j] || v.v[j] != v.v[j]);
            best.v[j] = wins ? v.v[j] : best.v[j];
            arg.cell[j] = wins ? r * GY_S + s : arg.cell[j];
        }
    }
    gy_put_vec(GY_P(gy_t, GY_Y), pool_vector() * GY_VEC, best);
    if (GY_HAS_ARG)
        pool_put_cells(GY_P(uint8_t, GY_ARG), pool_vector() * GY_VEC, arg);
}
#endif

#if defined POOL_AVG || defined POOL_AVG_BWD || defined POOL_GLOBAL
GY_FN int pool_span(int from, int size, int lo, int hi) { return (from + size < hi ? from + size : hi) - (from > lo ? from : lo); }

/* Cells of window (p, q) that count: with GY_F0 those inside the image, else also the padding's. */
GY_FN float pool_divisor(int p, int q)
{
    const int top = p * GY_STRIDE_H - GY_PAD_H, left = q * GY_STRIDE_W - GY_PAD_W;
    const int inside = GY_F0 > 0.0f;
    const int high = inside ? pool_span(top, GY_R, 0, GY_H) : pool_span(top, GY_R, top, GY_H + GY_PAD_H);
    const int wide = inside ? pool_span(left, GY_S, 0, GY_W_) : pool_span(left, GY_S, left, GY_W_ + GY_PAD_W);
    return (float)(high * wide);
}
#endif

#ifdef POOL_AVG
GY_KERNEL(pool_avg)
{
    const gy_t *x = GY_P(const gy_t, GY_X);
    if (pool_vector() >= (int64_t)GY_N * GY_P_ * GY_Q * POOL_WIDE)
        return;
    const struct pool_place at = pool_place_of((pool_index)pool_vector(), GY_P_, GY_Q);
    const int top = at.h * GY_STRIDE_H - GY_PAD_H, left = at.w * GY_STRIDE_W - GY_PAD_W;
    struct gy_vec sum;
    GY_EACH(j) sum.v[j] = 0.0f;
    POOL_UNROLL for (int r = 0; r < GY_R; r++)
    POOL_UNROLL for (int s = 0; s < GY_S; s++) {
        const struct gy_vec v = pool_cell(x, at.n, top + r, left + s, at.c);
        const int inside = pool_inside(top + r, left + s);
        GY_EACH(j) sum.v[j] += inside ? v.v[j] : 0.0f;
    }
    GY_EACH(j) sum.v[j] /= pool_divisor(at.h, at.w);
    gy_put_vec(GY_P(gy_t, GY_Y), pool_vector() * GY_VEC, sum);
}
#endif

#ifdef POOL_GLOBAL
#define POOL_ROWS (GY_THREADS / GY_COLS)

struct pool_shared {
    float sum[GY_VEC][GY_THREADS];
};

GY_KERNEL(pool_global)
{
    GY_SHARED(struct pool_shared, all);
    const int c = (GY_BY * GY_COLS + GY_TID % GY_COLS) * GY_VEC, row = GY_TID / GY_COLS;
    struct gy_vec sum;
    GY_EACH(j) sum.v[j] = 0.0f;
    if (c < GY_C)
        GY_UNROLL for (int i = row; i < GY_H * GY_W_; i += POOL_ROWS) {
            const struct gy_vec v = gy_get_vec(GY_P(const gy_t, GY_X), ((int64_t)GY_BX * GY_H * GY_W_ + i) * GY_C + c);
            GY_EACH(j) sum.v[j] += v.v[j];
        }
    GY_EACH(j) all->sum[j][GY_TID] = sum.v[j];
    GY_UNROLL_NOT for (int half = POOL_ROWS / 2; half > 0; half /= 2) {
        GY_SYNC();
        if (row < half)
            GY_EACH(j) sum.v[j] = all->sum[j][GY_TID] += all->sum[j][GY_TID + half * GY_COLS];
    }
    if (row > 0 || c >= GY_C)
        return;
    GY_EACH(j) sum.v[j] /= pool_divisor(0, 0);
    gy_put_vec(GY_P(gy_t, GY_Y), (int64_t)GY_BX * GY_C + c, sum);
}
#endif

#if defined POOL_MAX_BWD || defined POOL_AVG_BWD
#define POOL_OVER_H ((GY_R - 1) / GY_STRIDE_H + 1) /* windows over a row, at most */
#define POOL_OVER_W ((GY_S - 1) / GY_STRIDE_W + 1)
#if ((GY_R - 1) / GY_STRIDE_H + 1) * ((GY_S - 1) / GY_STRIDE_W + 1) <= 9
#define POOL_GATHER GY_UNROLL
#else
#define POOL_GATHER GY_UNROLL_NOT
#endif

#ifdef POOL_MAX_BWD
GY_FN struct pool_cells pool_get_cells(const uint8_t *arg, int64_t i)
{
    struct pool_cells out;
#if GY_VEC == 8
    const struct gy_raw8 r = gy_load8(arg + i);
    GY_EACH(j) out.cell[j] = (int)(r.w[j / 4] >> (j % 4 * 8) & 255);
#elif GY_VEC == 4
    const uint32_t r = *(const uint32_t *)(const void *)(arg + i);
    GY_EACH(j) out.cell[j] = (int)(r >> (8 * j) & 255);
#else
    out.cell[0] = arg[i];
#endif
    return out;
}
#endif

/* What window (p, q), output element i, sends back to its cell, if there is such a window. */
#ifdef POOL_MAX_BWD
GY_FN struct gy_vec pool_back(const gy_t *dy, const uint8_t *arg, int64_t i, int p, int q, int cell)
{
    struct gy_vec d = gy_get_vec(dy, i);
    const struct pool_cells from = pool_get_cells(arg, i);
    (void)p, (void)q;
    GY_EACH(j) d.v[j] = from.cell[j] == cell ? d.v[j] : 0.0f;
    return d;
}
#else
GY_FN struct gy_vec pool_back(const gy_t *dy, const uint8_t *arg, int64_t i, int p, int q, int cell)
{
    struct gy_vec d = gy_get_vec(dy, i);
    const float cells = pool_divisor(p, q);
    (void)arg, (void)cell;
    GY_EACH(j) d.v[j] /= cells;
    return d;
}
#endif

/* Windows over the pixel in their order: the last one down is h / stride. */
GY_KERNEL(pool_gather)
{
    const gy_t *dy = GY_P(const gy_t, GY_DY);
    gy_t *dx = GY_P(gy_t, GY_DX);
    if (pool_vector() >= (int64_t)GY_N * GY_H * GY_W_ * POOL_WIDE)
        return;
    const struct pool_place at = pool_place_of((pool_index)pool_vector(), GY_H, GY_W_);
    const int64_t i = pool_vector() * GY_VEC;
    struct gy_vec sum, old;
    if (GY_FLAGS & GY_F_ADD_DX)
        old = gy_get_vec(dx, i);
    GY_EACH(j) sum.v[j] = 0.0f;
    POOL_GATHER for (int down = POOL_OVER_H - 1; down >= 0; down--)
    POOL_GATHER for (int right = POOL_OVER_W - 1; right >= 0; right--) {
        const int p = (at.h + GY_PAD_H) / GY_STRIDE_H - down, q = (at.w + GY_PAD_W) / GY_STRIDE_W - right;
        const int r = at.h + GY_PAD_H - p * GY_STRIDE_H, s = at.w + GY_PAD_W - q * GY_STRIDE_W;
        const int over = p >= 0 && p < GY_P_ && q >= 0 && q < GY_Q && r < GY_R && s < GY_S;
        const int64_t from = pool_out(at.n, pool_clamp(p, GY_P_ - 1), pool_clamp(q, GY_Q - 1), at.c);
        const struct gy_vec d = pool_back(dy, GY_P(const uint8_t, GY_ARG), from, p, q, r * GY_S + s);
        GY_EACH(j) sum.v[j] += over ? d.v[j] : 0.0f;
    }
    if (GY_FLAGS & GY_F_ADD_DX)
        GY_EACH(j) sum.v[j] += old.v[j];
    gy_put_vec(dx, i, sum);
}
#endif
