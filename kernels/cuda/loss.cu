/* SPDX-License-Identifier: MIT */
/* loss.cu: losses and their gradients.
 *
 * Idea: a warp has a sample. Its lanes go over the classes in strides of 32, then add up by
 * shuffles, in a fixed order. Scores are read once a pass (three of softmax) from the caches: a row
 * of 1000 classes is 4 KB.
 *
 *   1  a thread a sample            one lane of 32 reads a line
 *   2  a warp a sample (this one)   no shared memory, no barrier
 *
 * Block: GY_THREADS / 32 samples. Shared memory: none. Alignment: none needed. Tails: lanes beyond
 * the classes add nothing; warps beyond the samples leave together. Gradients: an element a thread.
 * X and DX are of GY_DTYPE, Y, LOSS and TARGET float. label < 0: no label, loss 0 (NaN where a
 * score is not finite), rank -1, gradient 0.
 *
 * The cross-entropy of a sample is the sum over c of t_c * ((largest - x_c) + log(sum of exp(x -
 * largest))). Both terms are not negative, so nothing cancels. The variant, a row of
 * variants_ops.c, names one part: LOSS_SOFTMAX, LOSS_MSE, LOSS_SOFTMAX_BWD, LOSS_MSE_BWD. */
#include "prelude.cuh"

/* A sample's target: its own label or target, mixed with that of a partner that has a label. */
struct loss_want {
    int own, partner;   /* labels */
    int64_t row, other; /* first elements of the targets */
    float share;        /* of the own one */
};

GY_FN struct loss_want loss_want_of(const int32_t *label, const struct gy_mix *mix, int n)
{
    struct loss_want out;
    const int with = GY_HAS_MIX && label[mix[n].partner] >= 0 ? mix[n].partner : n;
    out.own = label[n];
    out.partner = label[with];
    out.row = (int64_t)n * GY_C;
    out.other = (int64_t)with * GY_C;
    out.share = with == n ? 1.0f : mix[n].label;
    return out;
}

/* Of class c; smoothed by GY_F0. */
GY_FN float loss_target(struct loss_want want, int c)
{
    const float t = (c == want.own ? want.share : 0.0f) + (c == want.partner ? 1.0f - want.share : 0.0f);
    return t * (1.0f - GY_F0) + GY_F0 / (float)GY_C;
}

#if defined LOSS_SOFTMAX || defined LOSS_MSE
GY_FN int loss_sample(void) { return GY_BX * (GY_THREADS / 32) + GY_WARP; }
#define LOSS_EACH(c) for (int c = GY_LANE; c < GY_C; c += 32)

GY_FN float loss_add(float v)
{
    GY_UNROLL for (int mask = 16; mask > 0; mask /= 2) v += gy_shfl_xor(v, mask);
    return v;
}

/* Classes that score higher than the label. Among equals a lower number counts as higher. Every
 * class is higher than a score that is no number. Counts below 2^24 are exact in float. */
GY_FN int loss_rank(const gy_t *x, int label)
{
    const float mine = gy_get(x, label < 0 ? 0 : label);
    float rank = 0.0f;
    LOSS_EACH(c) {
        const float v = gy_get(x, c);
        rank += c != label && !(v < mine) && !(v == mine && c > label) ? 1.0f : 0.0f;
    }
    rank = loss_add(rank);
    return label < 0 ? -1 : (int)rank;
}
#endif

#ifdef LOSS_SOFTMAX
GY_KERNEL(loss_softmax)
{
    const int n = loss_sample();
    if (n >= GY_N)
        return;
    const gy_t *x = GY_P(const gy_t, GY_X) + (int64_t)n * GY_C;
    float *y = GY_P(float, GY_Y) + (int64_t)n * GY_C;
    const struct loss_want want = loss_want_of(GY_P(const int32_t, GY_LABEL), GY_P(const struct gy_mix, GY_MIX), n);
    float largest = gy_get(x, 0), sum = 0.0f, total = 0.0f;
    LOSS_EACH(c) {
        const float v = gy_get(x, c);
        largest = v > largest ? v : largest;
    }
    GY_UNROLL for (int mask = 16; mask > 0; mask /= 2) {
        const float other = gy_shfl_xor(largest, mask);
        largest = other > largest ? other : largest;
    }
    LOSS_EACH(c) sum += expf(gy_get(x, c) - largest);
    sum = loss_add(sum);
    const float more = logf(sum);
    LOSS_EACH(c) {
        const float v = gy_get(x, c);
        total += want.own < 0 ? 0.0f * v : loss_target(want, c) * ((largest - v) + more);
        y[c] = expf(v - largest) / sum;
    }
    total = loss_add(total);
    const int rank = loss_rank(x, want.own);
    if (GY_LANE == 0) {
        GY_P(float, GY_LOSS)[n] = total;
        GY_P(int32_t, GY_ARG)[n] = rank;
    }
}
#endif

GY_FN float loss_wanted(const float *target, struct loss_want want, int c)
{
    const float own = GY_HAS_TARGET ? target[want.row + c] : c == want.own ? 1.0f : 0.0f;
    if (want.row == want.other)
        return own;
    const float other = GY_HAS_TARGET ? target[want.other + c] : c == want.partner ? 1.0f : 0.0f;
    return want.share * own + (1.0f - want.share) * other;
}

#ifdef LOSS_MSE
GY_KERNEL(loss_mse)
{
    const int n = loss_sample();
    if (n >= GY_N)
        return;
    const struct loss_want want = loss_want_of(GY_P(const int32_t, GY_LABEL), GY_P(const struct gy_mix, GY_MIX), n);
    const gy_t *x = GY_P(const gy_t, GY_X) + want.row;
    const int rank = loss_rank(x, want.own);
    float sum = 0.0f;
    LOSS_EACH(c) {
        const float v = gy_get(x, c), off = v - loss_wanted(GY_P(const float, GY_TARGET), want, c);
        sum += want.own < 0 ? 0.0f * v : off * off;
        GY_P(float, GY_Y)[want.row + c] = v;
    }
    sum = loss_add(sum);
    if (GY_LANE == 0) {
        GY_P(float, GY_LOSS)[n] = sum / (float)GY_C;
        GY_P(int32_t, GY_ARG)[n] = rank;
    }
}
#endif

#if defined LOSS_SOFTMAX_BWD || defined LOSS_MSE_BWD
GY_KERNEL(loss_bwd)
{
    const int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID;
    if (i >= (int64_t)GY_N * GY_C)
        return;
    const int n = (int)(i / GY_C), c = (int)(i % GY_C);
    const float scale = a.u->loss_scale / (float)GY_N, y = GY_P(const float, GY_Y)[i];
    gy_t *dx = GY_P(gy_t, GY_DX);
    const struct loss_want want = loss_want_of(GY_P(const int32_t, GY_LABEL), GY_P(const struct gy_mix, GY_MIX), n);
#ifdef LOSS_SOFTMAX_BWD
    const float all = (y - loss_target(want, c)) * scale;
#else
    const float all = (y - loss_wanted(GY_P(const float, GY_TARGET), want, c)) * (2.0f * scale / (float)GY_C);
#endif
    const float d = want.own < 0 ? 0.0f : all;
    gy_put(dx, i, GY_FLAGS & GY_F_ADD_DX ? gy_get(dx, i) + d : d);
}
#endif
