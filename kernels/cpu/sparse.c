/* SPDX-License-Identifier: MIT */
/* sparse.c: the sweep of coordinate ascent. A row costs a chain of dependent work: its score, the
 * logit's Newton steps, the vector's change. The next row's score waits for it wherever they share
 * a feature. So everything beside that chain is cheap or early. Exponentials are a polynomial
 * without calls and branches. The first Newton step needs none (sig(dual) is known). Rows, ids and
 * weights are prefetched.
 *
 * Newton's method stops early. Where a row's number has nearly settled, one step is as good as
 * forty; the fixed point, t = -y z, is the same. */
#include "kernels/cpu/sparse.h"

#define SPARSE_ROW_AHEAD 24
#define SPARSE_ID_AHEAD 12
#define SPARSE_LOGIT_NEAR 0.03f /* a shorter step of Newton's is left to the row's next visit */

#if defined(__GNUC__)
#define SPARSE_FETCH(p) __builtin_prefetch(p)
#else
#define SPARSE_FETCH(p) (void)(p)
#endif

/* exp(-x), 0 <= x; from 87 on as of 87. Relative error below 3e-8 and roundings. */
static inline float sparse_exp_minus(float x)
{
    const float v = x < 87.0f ? x : 87.0f;
    const float whole = v * 1.44269504f + 12582912.0f; /* its last bits are the nearest integer n */
    const float n = whole - 12582912.0f;
    const float r = (n * 0.693145752f - v) + n * 1.42860677e-6f, r2 = r * r;
    const float low = (1.0f + r) + r2 * (0.5f + r * 0.166666672f);
    const float p = low + r2 * r2 * ((0.0416664183f + r * 0.00833345205f) + r2 * 0.00139f);
    uint32_t bits;
    float scale;
    memcpy(&bits, &whole, sizeof bits);
    bits = (127u << 23) - (bits << 23);
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

static inline float sparse_sigmoid(float t)
{
    const float e = sparse_exp_minus(fabsf(t)), d = 1.0f / (1.0f + e);
    return t >= 0 ? d : e * d;
}

GY_INT float gy_sparse_sigmoid(float t) { return sparse_sigmoid(t); }

/* ---- sums over a row ---- */

static inline float sparse_sum_ones(const uint32_t *id, uint32_t count, const float *w)
{
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    uint32_t k = 0;
    for (; k + 8 <= count; k += 8) {
        s0 += w[id[k]] + w[id[k + 4]];
        s1 += w[id[k + 1]] + w[id[k + 5]];
        s2 += w[id[k + 2]] + w[id[k + 6]];
        s3 += w[id[k + 3]] + w[id[k + 7]];
    }
    if (k + 4 <= count) {
        s0 += w[id[k]];
        s1 += w[id[k + 1]];
        s2 += w[id[k + 2]];
        s3 += w[id[k + 3]];
        k += 4;
    }
    for (; k < count; k++)
        s0 += w[id[k]];
    return (s0 + s1) + (s2 + s3);
}

static inline float sparse_sum_values(const uint32_t *id, const float *value, uint32_t count, const float *w)
{
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    uint32_t k = 0;
    for (; k + 4 <= count; k += 4) {
        s0 += value[k] * w[id[k]];
        s1 += value[k + 1] * w[id[k + 1]];
        s2 += value[k + 2] * w[id[k + 2]];
        s3 += value[k + 3] * w[id[k + 3]];
    }
    for (; k < count; k++)
        s0 += value[k] * w[id[k]];
    return (s0 + s1) + (s2 + s3);
}

GY_INT float gy_sparse_dot(const uint32_t *id, const float *value, uint32_t count, const float *w)
{
    return value ? sparse_sum_values(id, value, count, w) : sparse_sum_ones(id, count, w);
}

static inline float sparse_shrink(float v, float soft)
{
    const float up = v - soft, down = v + soft;
    return (up > 0 ? up : 0) + (down < 0 ? down : 0);
}

static float sparse_sum_soft(const uint32_t *id, const float *value, uint32_t count, const float *u, float soft)
{
    float even = 0, odd = 0;
    uint32_t k = 0;
    for (; k + 2 <= count; k += 2) {
        even += (value ? value[k] : 1.0f) * sparse_shrink(u[id[k]], soft);
        odd += (value ? value[k + 1] : 1.0f) * sparse_shrink(u[id[k + 1]], soft);
    }
    return even + odd + (k < count ? (value ? value[k] : 1.0f) * sparse_shrink(u[id[k]], soft) : 0);
}

/* ---- changes; ids are different within a row, so four loads may stand before four stores ---- */

static inline void sparse_add_ones(const uint32_t *id, uint32_t count, float *u, float d)
{
    uint32_t k = 0;
    for (; k + 4 <= count; k += 4) {
        const float a = u[id[k]] + d, b = u[id[k + 1]] + d, e = u[id[k + 2]] + d, g = u[id[k + 3]] + d;
        u[id[k]] = a;
        u[id[k + 1]] = b;
        u[id[k + 2]] = e;
        u[id[k + 3]] = g;
    }
    for (; k < count; k++)
        u[id[k]] += d;
}

static inline void sparse_add_values(const uint32_t *id, const float *value, uint32_t count, float *u, float d)
{
    for (uint32_t k = 0; k < count; k++)
        u[id[k]] += d * value[k];
}

/* ---- one row ---- */

/* The root of t + m + q (sig(t) - old) = 0. With r = q (old - 1/2) - m it is that of t + q (sig(t)
 * - 1/2) = r, odd in t and r. Where both are positive the left side is concave. So Newton's method
 * needs only a start below the root: r / (1 + q / 4), r - q / 2. The first step needs no exp. */
static inline float sparse_logit(float t, float *part, float m, float q, int steps)
{
    const float old = *part, r = q * (old - 0.5f) - m, side = r >= 0 ? 1.0f : -1.0f, goal = fabsf(r);
    const float from = t * side, first = from - (t + m) * side / (1.0f + q * old * (1.0f - old));
    const float linear = goal / (1.0f + 0.25f * q), far = goal - 0.5f * q, least = linear > far ? linear : far;
    float at = from >= 0 && first > least ? first : least;
    for (int k = 0;; k++) {
        const float e = sparse_exp_minus(at), s = 1.0f / (1.0f + e), low = e * s;
        const float f = at + q * (s - 0.5f) - goal, slope = 1.0f + q * s * low;
        if (f >= -SPARSE_LOGIT_NEAR * slope || k == steps) {
            *part = side > 0 ? s : low;
            return at * side;
        }
        at -= f / slope;
    }
}

/* Solves the row of score z; returns how much its coefficient has changed. */
static inline float sparse_solve(struct gy_sparse_sweep *p, struct gy_sparse_row *row, float z)
{
    const struct gy_glm_loss *const loss = p->loss;
    const float c = fabsf(row->c), old = row->dual, q = row->q * p->rate;
    if (loss->form == GY_GLM_LOGIT) {
        const float before = row->part, m = (row->c < 0 ? -1.0f : 1.0f) * z, off = old + m;
        p->gap += (double)(0.5f * c * before * (1.0f - before) * off * off);
        row->dual = sparse_logit(old, &row->part, m, q * c, p->steps);
        return row->c * (row->part - before);
    }
    const float y = row->part;
    row->dual = loss->step(y, z, old, q, c);
    p->gap += (double)loss->gap_seen(y, z, old, c);
    return (loss->form == GY_GLM_SIZE ? y : 1.0f) * (row->dual - old);
}

static inline void sparse_row(struct gy_sparse_sweep *p, uint32_t i)
{
    struct gy_sparse_row *const row = &p->row[i];
    const uint32_t count = row->count;
    const uint32_t *const id = row->id;
    const float *const value = p->value ? p->value[i] : NULL;
    const float sum = p->soft > 0 ? sparse_sum_soft(id, value, count, p->u, p->soft)
                      : value     ? sparse_sum_values(id, value, count, p->u)
                                  : sparse_sum_ones(id, count, p->u);
    float z = row->f * sum;
    if (p->bias != 0)
        z += p->bias * sparse_shrink(p->u[p->bias_at], p->soft);
    const float change = p->rate * sparse_solve(p, row, z), step = change * row->f;
    if (change == 0)
        return;
    if (value)
        sparse_add_values(id, value, count, p->u, step);
    else
        sparse_add_ones(id, count, p->u, step);
    if (p->bias != 0)
        p->u[p->bias_at] += change * p->bias;
}

/* The first four cache lines, and the last; between them the processor fetches ahead by itself. */
static inline void sparse_fetch_entries(const struct gy_sparse_sweep *p, uint32_t i)
{
    const uint32_t *const id = p->row[i].id;
    const uint32_t count = p->row[i].count, near = count < 64 ? count : 64;
    for (uint32_t k = 0; k < near; k += 16)
        SPARSE_FETCH(id + k);
    if (count == 0)
        return;
    SPARSE_FETCH(id + count - 1);
    for (uint32_t k = 0; p->value && k < near; k += 16)
        SPARSE_FETCH(p->value[i] + k);
}

GY_INT void gy_sparse_visit(struct gy_sparse_sweep *sweep)
{
    struct gy_sparse_sweep p = *sweep; /* a copy whose address nobody has: it stays in registers */
    p.gap = 0;
    for (int64_t at = 0; at < p.count; at++) {
        if (at + SPARSE_ROW_AHEAD < p.count)
            SPARSE_FETCH(&p.row[p.order[at + SPARSE_ROW_AHEAD]]);
        if (at + SPARSE_ID_AHEAD < p.count)
            sparse_fetch_entries(&p, p.order[at + SPARSE_ID_AHEAD]);
        sparse_row(&p, p.order[at]);
    }
    sweep->gap += p.gap;
}
