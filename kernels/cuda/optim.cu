/* SPDX-License-Identifier: MIT */
/* optim.cu: updates of all parameters, and the norms that they need.
 *
 * Idea: one launch for all tensors. The parameter region is a line of elements. GY_SPANS spans
 * (tensors) lie in it in ascending order, each from a multiple of 16 elements on. A thread takes 4
 * neighbours. It finds their span by binary search between the spans of its block's first and last
 * element, which are mostly the same one.
 *
 *   1  a launch a tensor                    hundreds of launches, most of them for a few numbers
 *   2  one launch, a table of blocks        the table has to be made and kept
 *   3  one launch, spans found by search    (this one)
 *
 * Norms: OPTIM_PARTS blocks a span add equal contiguous slices (a multiple of OPTIM_STEP elements).
 * Then a block a span adds its slices, then one block the spans. The number of slices follows from
 * the spans alone: the same bits on every card.
 *
 * LAMB moves its moments slice by slice and adds the squares of its step on the way. The update
 * makes that step again and takes it.
 *
 * Block: 256 threads; update OPTIM_STEP = 1024 elements. Shared memory: two numbers a warp.
 * Alignment: regions on 64 bytes. Tails: the last elements of a span go one by one; gaps between
 * spans stay as they are. The variant, a row of variants_ops.c, names one part: OPTIM_NORMS,
 * OPTIM_SGD, OPTIM_LARS, OPTIM_ADAMW, OPTIM_LAMB. */
#include "prelude.cuh"

#define OPTIM_STEP (GY_THREADS * 4)

/* `count` (at most 4) floats from i on; the rest is 0. */
GY_FN struct gy_vec4 optim_get(const float *p, int64_t i, int count)
{
    struct gy_vec4 out;
    if (count == 4) {
        const struct gy_raw16 r = gy_load16(p + i);
        GY_UNROLL for (int j = 0; j < 4; j++) out.v[j] = gy_float(r.w[j]);
    } else {
        GY_UNROLL for (int j = 0; j < 4; j++) out.v[j] = j < count ? p[i + j] : 0.0f;
    }
    return out;
}

#if defined OPTIM_NORMS || defined OPTIM_LAMB
struct optim_shared {
    float w[GY_THREADS / 32], g[GY_THREADS / 32];
};

struct optim_pair {
    float w, g;
};

/* Adds over the block: lanes by halves, warps in order. All threads get the sums. */
GY_FN struct optim_pair optim_block(struct optim_shared *s, struct optim_pair x)
{
    struct optim_pair out = { 0.0f, 0.0f };
    GY_UNROLL for (int mask = 16; mask > 0; mask /= 2) {
        x.w += gy_shfl_xor(x.w, mask);
        x.g += gy_shfl_xor(x.g, mask);
    }
    if (GY_LANE == 0) {
        s->w[GY_WARP] = x.w;
        s->g[GY_WARP] = x.g;
    }
    GY_SYNC();
    GY_UNROLL for (int i = 0; i < GY_THREADS / 32; i++) {
        out.w += s->w[i];
        out.g += s->g[i];
    }
    return out;
}

/* Elements of a slice of a span. */
GY_FN int64_t optim_slice(struct gy_span span)
{
    const int64_t steps = (span.count + OPTIM_STEP - 1) / OPTIM_STEP;
    return (steps + OPTIM_PARTS - 1) / OPTIM_PARTS * OPTIM_STEP;
}

/* A slice's sums to SCRATCH. */
GY_FN void optim_part(struct optim_shared *s, struct optim_pair sum, float *scratch)
{
    sum = optim_block(s, sum);
    if (GY_TID == 0) {
        float *part = scratch + 2 * ((int64_t)GY_BY * OPTIM_PARTS + GY_BX);
        part[0] = sum.w;
        part[1] = sum.g;
    }
}

#ifdef OPTIM_NORMS
/* Grid (slice, span): the squares of a slice to SCRATCH. */
GY_KERNEL(optim_norms)
{
    GY_SHARED(struct optim_shared, s);
    const struct gy_span span = a.spans[GY_BY];
    const int64_t slice = optim_slice(span);
    const int64_t from = GY_BX * slice, to = from + slice < span.count ? from + slice : span.count;
    const float scale = a.u->grad_scale;
    struct gy_vec4 w, g;
    GY_UNROLL for (int j = 0; j < 4; j++) w.v[j] = g.v[j] = 0.0f;
    GY_UNROLL_NOT for (int64_t i = from + 4 * GY_TID; i < to; i += 2 * OPTIM_STEP) {
        struct gy_vec4 x[2], y[2];
        GY_UNROLL for (int u = 0; u < 2; u++) {
            const int64_t at = i + u * OPTIM_STEP;
            const int count = at + 4 <= to ? 4 : at < to ? (int)(to - at) : 0;
            x[u] = optim_get(GY_P(const float, GY_W), span.first + at, count);
            y[u] = optim_get(GY_P(const float, GY_DW), span.first + at, count);
        }
        GY_UNROLL for (int u = 0; u < 2; u++)
        GY_UNROLL for (int j = 0; j < 4; j++) {
            const float scaled = y[u].v[j] * scale;
            w.v[j] += x[u].v[j] * x[u].v[j];
            g.v[j] += scaled * scaled;
        }
    }
    const struct optim_pair sum = { (w.v[0] + w.v[1]) + (w.v[2] + w.v[3]), (g.v[0] + g.v[1]) + (g.v[2] + g.v[3]) };
    optim_part(s, sum, GY_P(float, GY_SCRATCH));
}
#endif

/* `count` pairs to one. */
GY_FN void optim_join(struct optim_shared *s, const float *part, int count, float *out)
{
    struct optim_pair sum = { 0.0f, 0.0f };
    for (int i = GY_TID; i < count; i += GY_THREADS) {
        sum.w += part[2 * i];
        sum.g += part[2 * i + 1];
    }
    sum = optim_block(s, sum);
    if (GY_TID == 0) {
        out[0] = sum.w;
        out[1] = sum.g;
    }
}

#ifdef OPTIM_NORMS
/* One block: the totals. */
GY_KERNEL(optim_norms_all)
{
    GY_SHARED(struct optim_shared, s);
    optim_join(s, GY_P(const float, GY_SUMS), GY_SPANS, GY_P(float, GY_SUMS) + 2 * GY_SPANS);
}
#endif
#endif

#ifndef OPTIM_NORMS
/* Gradients overflowed: nothing is updated. It tests exponent bits, which no compiler option can
 * remove. */
GY_FN int optim_skips(const float *sums)
{
    return (GY_FLAGS & GY_F_SKIP) && (gy_bits(sums[2 * GY_SPANS + 1]) & 0x7f800000u) == 0x7f800000u;
}
#endif

#if defined OPTIM_NORMS || defined OPTIM_LAMB
/* A block a span. */
GY_KERNEL(optim_norms_span)
{
    GY_SHARED(struct optim_shared, s);
#ifdef OPTIM_LAMB
    if (optim_skips(GY_P(const float, GY_SUMS)))
        return;
#endif
    const float *const parts = GY_P(const float, GY_SCRATCH) + 2 * (int64_t)GY_BX * OPTIM_PARTS;
    optim_join(s, parts, OPTIM_PARTS, GY_P(float, GY_SUMS) + 2 * GY_BX);
}
#endif

#ifndef OPTIM_NORMS
/* GY_F0 momentum, GY_F1 decay, GY_F2 and GY_F3 beta, GY_F4 eps, GY_F5 eta, GY_F6 clip (enum
 * gy_update_constant). */

/* The last of spans lo .. hi that does not begin behind i; lo when all do. */
GY_FN int optim_find(const struct gy_span *spans, int64_t i, int lo, int hi)
{
    while (lo < hi) {
        const int middle = (lo + hi + 1) / 2;
        if (spans[middle].first <= i)
            lo = middle;
        else
            hi = middle - 1;
    }
    return lo;
}

/* What the cut to the allowed total norm leaves of a gradient: 1 where it is below. */
GY_FN float optim_cut(const float *sums)
{
    const float norm = GY_HAS_SUMS && GY_F6 > 0.0f ? sqrtf(sums[2 * GY_SPANS + 1]) : 0.0f;
    return norm > GY_F6 ? GY_F6 / norm : 1.0f;
}

struct optim_rule {
    float scale, decay, lr;
    float lr1, root2; /* AdamW, LAMB: rate, or 1, over 1 - beta1^t; root of 1 - beta2^t */
};

/* Constants of span s. */
GY_FN struct optim_rule optim_rule_of(struct gy_span span, int s, const float *sums, const struct gy_uniform *u)
{
    struct optim_rule out;
    const float cut = optim_cut(sums);
    out.scale = u->grad_scale * cut;
    out.decay = GY_F1 * span.decay;
    out.lr = u->lr * span.rate;
    out.lr1 = out.lr / u->bias1;
    out.root2 = sqrtf(u->bias2);
#ifdef OPTIM_LARS
    const float w = sqrtf(sums[2 * s]), g = cut * sqrtf(sums[2 * s + 1]);
    if (span.adapt && w > 0.0f && g > 0.0f)
        out.lr *= GY_F5 * w / (g + out.decay * w);
#elif defined OPTIM_LAMB
    const float w = sqrtf(sums[2 * s]), step = sqrtf(sums[2 * s + 1]);
    if (span.adapt && w > 0.0f && step > 0.0f)
        out.lr *= w / step;
    out.lr1 = 1.0f / u->bias1;
#else
    (void)s;
#endif
    return out;
}

#if defined OPTIM_ADAMW || defined OPTIM_LAMB
GY_FN void optim_moments(struct optim_rule rule, float dw, float *m, float *v)
{
    const float g = rule.scale * dw;
    *m = GY_F2 * *m + (1.0f - GY_F2) * g;
    *v = GY_F3 * *v + (1.0f - GY_F3) * g * g;
}

GY_FN float optim_adam(struct optim_rule rule, float m, float v)
{
    return rule.lr1 * m / (sqrtf(v) / rule.root2 + GY_F4);
}
#endif

/* One parameter: w, its gradient dw, momentum m, second moment v. LAMB's moments were updated
 * already. */
GY_FN void optim_one(struct optim_rule rule, float dw, float *w, float *m, float *v)
{
#if defined OPTIM_SGD || defined OPTIM_LARS
    const int nesterov = (GY_FLAGS & GY_F_NESTEROV) != 0;
#ifdef OPTIM_LARS
    const int inside = !(GY_FLAGS & GY_F_UNSCALED);
#else
    const int inside = 0;
#endif
    const float step = (inside ? rule.lr : 1.0f) * (rule.scale * dw + rule.decay * *w);
    *m = GY_F0 * *m + step;
    *w -= (inside ? 1.0f : rule.lr) * (nesterov ? step + GY_F0 * *m : *m);
    (void)v;
#elif defined OPTIM_ADAMW
    *w -= rule.lr * rule.decay * *w;
    optim_moments(rule, dw, m, v);
    *w -= optim_adam(rule, *m, *v);
#else
    *w -= rule.lr * (optim_adam(rule, *m, *v) + rule.decay * *w);
    (void)dw;
#endif
}

GY_FN void optim_put(float *p, int64_t i, int count, struct gy_vec4 x)
{
    if (count == 4) {
        struct gy_raw16 r;
        GY_UNROLL for (int j = 0; j < 4; j++) r.w[j] = gy_bits(x.v[j]);
        gy_store16_global(p + i, r);
    } else {
        GY_UNROLL for (int j = 0; j < 4; j++) if (j < count) p[i + j] = x.v[j];
    }
}

#ifdef OPTIM_LAMB
/* Grid (slice, span): moments, and the squares of weights and steps of a slice to SCRATCH. */
GY_KERNEL(optim_lamb)
{
    GY_SHARED(struct optim_shared, s);
    const struct gy_span span = a.spans[GY_BY];
    const int64_t slice = optim_slice(span), from = GY_BX * slice;
    const int64_t to = from + slice < span.count ? from + slice : span.count;
    const struct optim_rule rule = optim_rule_of(span, GY_BY, GY_P(const float, GY_SUMS), a.u);
    struct optim_pair sum = { 0.0f, 0.0f };
    if (optim_skips(GY_P(const float, GY_SUMS)))
        return;
    GY_UNROLL_NOT for (int64_t i = from + 4 * GY_TID; i < to; i += OPTIM_STEP) {
        const int64_t at = span.first + i;
        const int count = i + 4 <= to ? 4 : (int)(to - i);
        const struct gy_vec4 w = optim_get(GY_P(const float, GY_W), at, count);
        const struct gy_vec4 dw = optim_get(GY_P(const float, GY_DW), at, count);
        struct gy_vec4 m = optim_get(GY_P(const float, GY_M), at, count);
        struct gy_vec4 v = optim_get(GY_P(const float, GY_V), at, count);
        GY_UNROLL for (int j = 0; j < 4; j++) {
            optim_moments(rule, dw.v[j], &m.v[j], &v.v[j]);
            const float step = j < count ? optim_adam(rule, m.v[j], v.v[j]) + rule.decay * w.v[j] : 0.0f;
            sum.w += w.v[j] * w.v[j];
            sum.g += step * step;
        }
        optim_put(GY_P(float, GY_M), at, count, m);
        optim_put(GY_P(float, GY_V), at, count, v);
    }
    optim_part(s, sum, GY_P(float, GY_SCRATCH));
}
#endif

GY_KERNEL(optim_update)
{
    const int64_t first = (int64_t)GY_BX * OPTIM_STEP, i = first + 4 * GY_TID;
    const int lo = optim_find(a.spans, first, 0, GY_SPANS - 1), hi = optim_find(a.spans, first + OPTIM_STEP - 1, lo, GY_SPANS - 1);
    const int s = optim_find(a.spans, i, lo, hi);
    const struct gy_span span = a.spans[s];
    const int64_t left = span.first + span.count - i;
    if (i < span.first || left <= 0 || optim_skips(GY_P(const float, GY_SUMS)))
        return;
    const int count = left < 4 ? (int)left : 4;
#ifdef OPTIM_LAMB
    const struct gy_vec4 dw = { { 0.0f, 0.0f, 0.0f, 0.0f } };
#else
    const struct gy_vec4 dw = optim_get(GY_P(const float, GY_DW), i, count);
#endif
    struct gy_vec4 w = optim_get(GY_P(const float, GY_W), i, count), m = optim_get(GY_P(const float, GY_M), i, count), v, ema;
    GY_UNROLL for (int j = 0; j < 4; j++) v.v[j] = ema.v[j] = 0.0f;
#if defined OPTIM_ADAMW || defined OPTIM_LAMB
    v = optim_get(GY_P(const float, GY_V), i, count);
#endif
    if (GY_HAS_EMA)
        ema = optim_get(GY_P(const float, GY_EMA), i, count);
    const struct optim_rule rule = optim_rule_of(span, s, GY_P(const float, GY_SUMS), a.u);
    GY_UNROLL for (int j = 0; j < 4; j++) {
        optim_one(rule, dw.v[j], &w.v[j], &m.v[j], &v.v[j]);
        ema.v[j] = a.u->keep * ema.v[j] + (1.0f - a.u->keep) * w.v[j];
    }
    optim_put(GY_P(float, GY_W), i, count, w);
#ifndef OPTIM_LAMB
    optim_put(GY_P(float, GY_M), i, count, m);
#endif
#ifdef OPTIM_ADAMW
    optim_put(GY_P(float, GY_V), i, count, v);
#endif
    if (GY_HAS_EMA)
        optim_put(GY_P(float, GY_EMA), i, count, ema);
}
#endif
