/* SPDX-License-Identifier: MIT */
/* conv_group.cu: convolution whose groups are so small that no matrix pays: depthwise, or at most 8
 * channels a group (variants_conv.c). Every value is summed directly. Neighbouring threads have
 * neighbouring channels, so that loads are wide and weights stay near.
 *
 *   1  one thread a value
 *   2  (this) a thread makes GR_VEC channels of GR_RUN neighbouring pixels of a row, so that a
 *      weight is fetched once for all of them. GR_VEC is 4 for a depthwise one whose channels
 *      divide by 4, else 1. Bound by memory
 *
 * Forward and data gradient: no shared memory, one thread a run of pixels and vector of channels,
 * channels first. The data gradient asks of each tap whether the stride divides. Weight gradient: a
 * block has 32 output channels (lanes), one filter row and one channel of the group. Its warps take
 * every (threads / 32)-th pixel of a slice. Sums of the filter row stay in registers; they are
 * added over warps in order, over slices by conv_sum. With statistics, 16-bit outputs also leave
 * their sums as floats in scratch. A second launch takes statistics of these: blocks of 32 channels
 * and GY_STAT_PIXELS pixels. */
#include "prelude.cuh"
#include "conv.cuh"

#define GR_DEPTH (CV_CG == 1 && CV_KG == 1 && GY_K % 4 == 0)
#define GR_VEC (GR_DEPTH ? 4 : 1)
#define GR_RUN 4
#define GR_STRIPS (GY_THREADS / 32)
/* in scratch, [N * P * Q][K], before the rows of statistics */
#define GR_SUMS (GY_HAS_STATS && GY_DTYPE != 0)

GY_FN void group_get(float *to, const gy_t *p, int64_t i)
{
#if GR_DEPTH
    const struct gy_vec4 v = gy_get4(p, i);
    GY_UNROLL for (int j = 0; j < 4; j++) to[j] = v.v[j];
#else
    to[0] = gy_get(p, i);
#endif
}

GY_FN void group_put(gy_t *p, int64_t i, const float *from)
{
#if GR_DEPTH
    struct gy_vec4 v;
    GY_UNROLL for (int j = 0; j < 4; j++) v.v[j] = from[j];
    gy_put4(p, i, v);
#else
    gy_put(p, i, from[0]);
#endif
}

/* A thread's place in the output: image, row, first column of the run, first channel. */
struct group_place {
    int n, row, col, channel, there;
};

GY_FN struct group_place group_place_of(int rows, int cols, int channels)
{
    const int runs = (cols + GR_RUN - 1) / GR_RUN, vecs = channels / GR_VEC;
    const int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID, run = i / vecs, line = run / runs;
    struct group_place at;
    at.channel = (int)(i % vecs) * GR_VEC;
    at.col = (int)(run % runs) * GR_RUN;
    at.row = (int)(line % rows);
    at.n = (int)(line / rows);
    at.there = line < (int64_t)GY_N * rows;
    return at;
}

GY_FN void group_zero(float sum[GR_RUN][GR_VEC])
{
    GY_UNROLL for (int i = 0; i < GR_RUN; i++) GY_UNROLL for (int j = 0; j < GR_VEC; j++) sum[i][j] = 0.0f;
}

#if GY_DIR == 0
/* One tap of one input channel of the group. */
GY_FN void group_tap(const struct gy_args *a, const struct group_place *at, int r, int s, int c,
                     float sum[GR_RUN][GR_VEC])
{
    const gy_t *const x = (const gy_t *)a->ptr[GY_X];
    const float *const w = (const float *)a->ptr[GY_W] + (int64_t)at->channel * CV_ROW + (r * GY_S + s) * CV_CG + c;
    const int h = at->row * GY_STRIDE_H - GY_PAD_H + r * GY_DIL_H, from = at->channel / CV_KG * CV_CG + c;
    float weight[GR_VEC], value[GR_VEC];
    if ((unsigned)h >= (unsigned)GY_H)
        return;
    GY_UNROLL for (int j = 0; j < GR_VEC; j++) weight[j] = w[j * CV_ROW];
    GY_UNROLL for (int i = 0; i < GR_RUN; i++) {
        const int v = (at->col + i) * GY_STRIDE_W - GY_PAD_W + s * GY_DIL_W;
        if ((unsigned)v >= (unsigned)GY_W_)
            continue;
        group_get(value, x, (((int64_t)at->n * GY_H + h) * GY_W_ + v) * GY_C + from);
        GY_UNROLL for (int j = 0; j < GR_VEC; j++) sum[i][j] += value[j] * weight[j];
    }
}

GY_FN void group_finish(const struct gy_args *a, int64_t first, int channel, float *v)
{
    float res[GR_VEC];
    GY_UNROLL for (int j = 0; j < GR_VEC; j++) res[j] = 0.0f;
#if GY_HAS_RES
    group_get(res, (const gy_t *)a->ptr[GY_RES], first);
#endif
    GY_UNROLL for (int j = 0; j < GR_VEC; j++) {
        float scale = 1.0f, shift = 0.0f;
#if GY_HAS_BIAS
        v[j] += ((const float *)a->ptr[GY_BIAS])[channel + j];
#endif
#if GR_SUMS
        ((float *)a->ptr[GY_SCRATCH])[first + j] = v[j];
#endif
#if GY_HAS_SCALE
        scale = ((const float *)a->ptr[GY_SCALE])[channel + j];
        shift = ((const float *)a->ptr[GY_SHIFT])[channel + j];
#endif
        v[j] = conv_finish(v[j], scale, shift, res[j]);
    }
    group_put((gy_t *)a->ptr[GY_Y], first, v);
}

GY_KERNEL(group_forward)
{
    const struct group_place at = group_place_of(GY_P_, GY_Q, GY_K);
    float sum[GR_RUN][GR_VEC];
    if (!at.there)
        return;
    group_zero(sum);
    for (int r = 0; r < GY_R; r++)
        for (int s = 0; s < GY_S; s++)
            for (int c = 0; c < CV_CG; c++)
                group_tap(&a, &at, r, s, c, sum);
    GY_UNROLL for (int i = 0; i < GR_RUN; i++)
        if (at.col + i < GY_Q)
            group_finish(&a, (((int64_t)at.n * GY_P_ + at.row) * GY_Q + at.col + i) * GY_K + at.channel, at.channel,
                         sum[i]);
}

#if GY_HAS_STATS
/* Block (x, y): one row of statistics, 32 channels. It passes twice over the pixels; the second
 * time the cache has them. */
GY_KERNEL(group_stats)
{
    GY_SHARED(struct conv_merge_shared, s);
    const int k = GY_BY * 32 + GY_LANE, first = GY_BX * GY_STAT_PIXELS;
    const int end = first + GY_STAT_PIXELS < CV_PIXELS ? first + GY_STAT_PIXELS : CV_PIXELS;
    const float *const y = GY_P(float, GR_SUMS ? GY_SCRATCH : GY_Y);
    float sum = 0.0f, squares = 0.0f;
    for (int m = first + GY_WARP; m < end && k < GY_K; m += GR_STRIPS)
        sum += y[(int64_t)m * GY_K + k];
    const float mean = conv_add_strips(s, sum) / (float)(end - first);
    for (int m = first + GY_WARP; m < end && k < GY_K; m += GR_STRIPS) {
        const float off = y[(int64_t)m * GY_K + k] - mean;
        squares += off * off;
    }
    squares = conv_add_strips(s, squares);
    if (GY_WARP == 0 && k < GY_K) {
        CV_STAT_AT(GY_BX)[k] = mean;
        CV_STAT_AT(GY_BX)[GY_K + k] = squares;
    }
}
#endif
#endif

#if GY_DIR == 1
/* One tap of one output channel of the group; k counts in the group. */
GY_FN void group_tap(const struct gy_args *a, const struct group_place *at, int r, int s, int k,
                     float sum[GR_RUN][GR_VEC])
{
    const gy_t *const dy = (const gy_t *)a->ptr[GY_DY];
    const int h = at->row + GY_PAD_H - r * GY_DIL_H, p = h / GY_STRIDE_H, from = at->channel / CV_CG * CV_KG + k;
    const float *const w = (const float *)a->ptr[GY_W] + (int64_t)from * CV_ROW + (r * GY_S + s) * CV_CG +
        at->channel % CV_CG;
    float weight[GR_VEC], value[GR_VEC];
    if (h < 0 || h % GY_STRIDE_H != 0 || p >= GY_P_)
        return;
    GY_UNROLL for (int j = 0; j < GR_VEC; j++) weight[j] = w[j * CV_ROW];
    GY_UNROLL for (int i = 0; i < GR_RUN; i++) {
        const int v = at->col + i + GY_PAD_W - s * GY_DIL_W, q = v / GY_STRIDE_W;
        if (v < 0 || v % GY_STRIDE_W != 0 || q >= GY_Q)
            continue;
        group_get(value, dy, (((int64_t)at->n * GY_P_ + p) * GY_Q + q) * GY_K + from);
        GY_UNROLL for (int j = 0; j < GR_VEC; j++) sum[i][j] += value[j] * weight[j];
    }
}

GY_KERNEL(group_dgrad)
{
    const struct group_place at = group_place_of(GY_H, GY_W_, GY_C);
    gy_t *const dx = GY_P(gy_t, GY_DX);
    float sum[GR_RUN][GR_VEC];
    if (!at.there)
        return;
    group_zero(sum);
    for (int r = 0; r < GY_R; r++)
        for (int s = 0; s < GY_S; s++)
            for (int k = 0; k < CV_KG; k++)
                group_tap(&a, &at, r, s, k, sum);
    GY_UNROLL for (int i = 0; i < GR_RUN; i++) {
        const int64_t to = (((int64_t)at.n * GY_H + at.row) * GY_W_ + at.col + i) * GY_C + at.channel;
        if (at.col + i >= GY_W_)
            continue;
#if GY_FLAGS & 1
        float before[GR_VEC];
        group_get(before, dx, to);
        GY_UNROLL for (int j = 0; j < GR_VEC; j++) sum[i][j] += before[j];
#endif
        group_put(dx, to, sum[i]);
    }
}
#endif

#if GY_DIR == 2
struct group_shared {
    float sum[GR_STRIPS][GY_S][32];
};

/* Block x: filter row and channel of the group, then 32 output channels; y: slice of the pixels. */
GY_KERNEL(group_wgrad)
{
    GY_SHARED(struct group_shared, sh);
    const int what = GY_BX % (GY_R * CV_CG), r = what / CV_CG, c = what % CV_CG,
              k = GY_BX / (GY_R * CV_CG) * 32 + GY_LANE;
    const int first = GY_BY * GY_SLICE_PIXELS,
              end = first + GY_SLICE_PIXELS < CV_PIXELS ? first + GY_SLICE_PIXELS : CV_PIXELS;
    const gy_t *const x = GY_P(gy_t, GY_X), *const dy = GY_P(gy_t, GY_DY);
    float sum[GY_S];
    GY_UNROLL for (int s = 0; s < GY_S; s++) sum[s] = 0.0f;
    for (int m = first + GY_WARP; m < end && k < GY_K; m += GR_STRIPS) {
        const int q = m % GY_Q, p = m / GY_Q % GY_P_, h = p * GY_STRIDE_H - GY_PAD_H + r * GY_DIL_H;
        if ((unsigned)h >= (unsigned)GY_H)
            continue;
        const float d = gy_get(dy, (int64_t)m * GY_K + k);
        const int64_t line = ((int64_t)(m / (GY_P_ * GY_Q)) * GY_H + h) * GY_W_;
        GY_UNROLL for (int s = 0; s < GY_S; s++) {
            const int v = q * GY_STRIDE_W - GY_PAD_W + s * GY_DIL_W;
            if ((unsigned)v < (unsigned)GY_W_)
                sum[s] += d * gy_get(x, (line + v) * GY_C + k / CV_KG * CV_CG + c);
        }
    }
    GY_UNROLL for (int s = 0; s < GY_S; s++) sh->sum[GY_WARP][s][GY_LANE] = sum[s];
    GY_SYNC();
    float *const out = GY_SLICES > 1 ? CV_PART(GY_BY) : GY_P(float, GY_DW);
    const int add = GY_SLICES == 1 && a.u->accumulate;
    for (int s = GY_WARP; s < GY_S && k < GY_K; s += GR_STRIPS) {
        float total = 0.0f;
        for (int i = 0; i < GR_STRIPS; i++)
            total += sh->sum[i][s][GY_LANE];
        const int64_t to = (int64_t)k * CV_ROW + (r * GY_S + s) * CV_CG + c;
        out[to] = add ? out[to] + total : total;
    }
}
#endif
