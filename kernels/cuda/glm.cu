/* SPDX-License-Identifier: MIT */
/* glm.cu: linear models, for the rows of variants_glm.c: coordinate steps in the dual, scores, sums
 * for the duality gap.
 *
 * Idea: asynchronous stochastic dual coordinate ascent (Parnell and others, "Large-scale stochastic
 * learning using GPUs", 2017), parallel twice. Inside a row lanes add up value * w[id]. One of them
 * solves the row's own problem (glm_loss.h, the host's functions). All put the change into w. Among
 * rows GY_GX blocks of warps run at once; each sees what the others have added so far. What they
 * have not yet added makes steps too long. The damping factor s in q = s |x|^2 / l2 makes them
 * shorter.
 *
 *   1  a block a row   of Criteo's 39 entries a row, 217 of 256 lanes have none; two barriers a row
 *   2  (this one) a warp a row of up to GY_GLM_LONG entries, without any barrier; a block a longer
 *      one
 *
 * gy_load_live reads w past the caches that other multiprocessors do not see; gy_atomic_add alone
 * writes it. Each row is visited once, in a computed order: glm_permute is a bijection of [0, n)
 * without a table, the host's gy_rng_permute. A lane computes one place of the order, so a warp has
 * 32 for the price of one.
 *
 * Bits differ from run to run: the order of additions is open. With one warp it is fixed, and the
 * order is the host's. Sums (losses, conjugates, squares) are in double, GLM_PARTS blocks that add
 * equal strides, then one block; always the same order.
 *
 * Block: GY_THREADS, a multiple of 32. Shared memory: two doubles a thread. Alignment: windows on
 * 16 bytes. Tails: by the loops. Fields of struct gy_uniform: seed and step name the order, lr is 1
 * / l2, loss_scale is s, bias1 the bias's value, bias2 l1 / l2. GLM_LOSS is the symbol of a loss,
 * as in names of its functions, GLM_STREAM of random numbers. */
#include "prelude.cuh"
#include "philox.cuh"

#define GY_GLM_FN GY_FN
#define GLM_NAME(loss, what) gy_glm_##loss##_##what
#define GLM_OF(loss, what) GLM_NAME(loss, what)
#include "glm_loss.h"
#include "glm_window.h"

struct glm_shared {
    double sum[2][GY_THREADS];
};

/* A window with its arrays found. */
struct glm_view {
    const uint32_t *start, *id;
    const float *value, *y, *c, *scale;
    int rows, width;
    float same, bias, soft;
    uint32_t features;
};

GY_FN const void *glm_array(const struct gy_glm_window *x, uint64_t place)
{
    return place ? (const void *)((const unsigned char *)x + place) : (const void *)NULL;
}

GY_FN struct glm_view glm_view_of(const struct gy_glm_window *x, const struct gy_uniform *u)
{
    struct glm_view v;
    v.start = (const uint32_t *)glm_array(x, x->start);
    v.id = (const uint32_t *)glm_array(x, x->id);
    v.value = (const float *)glm_array(x, x->value);
    v.y = (const float *)glm_array(x, x->y);
    v.c = (const float *)glm_array(x, x->c);
    v.scale = (const float *)glm_array(x, x->scale);
    v.rows = x->rows;
    v.width = x->width;
    v.same = x->same;
    v.bias = u->bias1;
    v.soft = u->bias2;
    v.features = x->features;
    return v;
}

struct glm_row {
    uint32_t begin, end;
    float scale;
};

GY_FN struct glm_row glm_row_of(const struct glm_view *v, int i)
{
    struct glm_row r;
    r.begin = v->width ? (uint32_t)i * (uint32_t)v->width : v->start[i];
    r.end = v->width ? r.begin + (uint32_t)v->width : v->start[i + 1];
    r.scale = v->scale ? v->scale[i] : 1.0f;
    return r;
}

/* The weight of an element u of W: u shrunk towards 0 by soft = l1 / l2. */
GY_FN float glm_soft(float u, float soft)
{
    const float more = fabsf(u) - soft;
    return more > 0.0f ? (u > 0.0f ? more : -more) : 0.0f;
}
GY_FN float glm_weight(const struct glm_view *v, const float *w, uint32_t id) { return glm_soft(gy_load_live(w + id), v->soft); }

/* ---- a row's sums: features times w, and features squared, both without the row's scale ---- */

struct glm_dot {
    float w, square;
};

/* Those of entries first, first + step ... */
GY_FN struct glm_dot glm_dot_part(const struct glm_view *v, struct glm_row r, const float *w, uint32_t first, uint32_t step)
{
    struct glm_dot out = { 0.0f, 0.0f };
    GY_UNROLL_NOT for (uint32_t j = r.begin + first; j < r.end; j += step) {
        const float value = v->value ? v->value[j] : v->same;
        out.w += value * glm_weight(v, w, v->id[j]);
        out.square += value * value;
    }
    return out;
}

/* Of the warp's lanes. Where all values are equal the squares need no sum. */
GY_FN struct glm_dot glm_dot_warp(const struct glm_view *v, struct glm_row r, struct glm_dot x)
{
    GY_UNROLL for (int mask = 16; mask > 0; mask /= 2) x.w += gy_shfl_xor(x.w, mask);
    if (!v->value) {
        x.square = (float)(r.end - r.begin) * (v->same * v->same);
        return x;
    }
    GY_UNROLL for (int mask = 16; mask > 0; mask /= 2) x.square += gy_shfl_xor(x.square, mask);
    return x;
}

GY_FN float glm_score(const struct glm_view *v, struct glm_row r, struct glm_dot x, const float *w)
{
    return x.w * r.scale + (v->bias != 0.0f ? v->bias * glm_weight(v, w, v->features) : 0.0f);
}

/* ---- steps ---- */

/* gy_rng_permute. */
GY_FN int glm_permute(const struct gy_uniform *u, int count, int index)
{
    const uint64_t seed = u->seed, step = u->step;
    int half = 1;
    while ((int64_t)1 << (2 * half) < count)
        half++;
    const uint32_t mask = (1u << half) - 1;
    uint32_t x = (uint32_t)index;
    do {
        uint32_t left = x >> half & mask, right = x & mask;
        GY_UNROLL_NOT for (uint32_t round = 0; round < 4; round++) {
            const uint32_t next = left ^ (gy_philox(seed, GLM_STREAM, step, (uint64_t)round << 32 | right).w[0] & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint32_t)count);
    return (int)x;
}

/* Solves row i and stores its dual variable; returns the change of its coefficient, over l2. */
GY_FN float glm_move(const struct glm_view *v, const struct gy_uniform *u, int i, float score, float square, float *dual)
{
    const float y = v->y[i], c = v->c[i], old = dual[i];
    if (!(c > 0.0f))
        return 0.0f;
    const float best = GLM_OF(GLM_LOSS, step)(y, score, old, u->loss_scale * square * u->lr, c);
    dual[i] = best;
    const float before = GLM_OF(GLM_LOSS, coefficient)(y, old, c);
    return (GLM_OF(GLM_LOSS, coefficient)(y, best, c) - before) * u->lr;
}

GY_FN float glm_square(const struct glm_view *v, struct glm_row r, struct glm_dot x)
{
    return x.square * r.scale * r.scale + v->bias * v->bias;
}

/* Entries first, first + step ... of the row into w. */
GY_FN void glm_add(const struct glm_view *v, struct glm_row r, float change, float *w, uint32_t first, uint32_t step)
{
    const float scaled = change * r.scale;
    if (first == 0 && v->bias != 0.0f)
        gy_atomic_add(w + v->features, change * v->bias);
    GY_UNROLL_NOT for (uint32_t j = r.begin + first; j < r.end; j += step)
        gy_atomic_add(w + v->id[j], scaled * (v->value ? v->value[j] : v->same));
}

/* Row i by a warp. */
GY_FN void glm_step_row(const struct glm_view *v, const struct gy_uniform *u, int i, float *w, float *dual)
{
    const struct glm_row r = glm_row_of(v, i);
    float change = 0.0f;
    if (r.end - r.begin > GY_GLM_LONG)
        return;
    const struct glm_dot x = glm_dot_warp(v, r, glm_dot_part(v, r, w, (uint32_t)GY_LANE, 32));
    if (GY_LANE == 0)
        change = glm_move(v, u, i, glm_score(v, r, x, w), glm_square(v, r, x), dual);
    change = gy_shfl(change, 0);
    if (change != 0.0f)
        glm_add(v, r, change, w, (uint32_t)GY_LANE, 32);
}

/* Each row but the long ones, once. */
GY_KERNEL(glm_step)
{
    const struct glm_view v = glm_view_of(GY_P(const struct gy_glm_window, GY_X), a.u);
    const int warps = GY_GX * (GY_THREADS / 32), warp = GY_BX * (GY_THREADS / 32) + GY_WARP;
    for (int64_t first = (int64_t)warp * 32; first < v.rows; first += (int64_t)warps * 32) {
        const int left = v.rows - first < 32 ? (int)(v.rows - first) : 32;
        const int own = GY_LANE < left ? glm_permute(a.u, v.rows, (int)first + GY_LANE) : 0;
        GY_UNROLL_NOT for (int k = 0; k < left; k++)
            glm_step_row(&v, a.u, gy_shfl_i(own, k), GY_P(float, GY_W), GY_P(float, GY_M));
    }
}

struct glm_long {
    struct glm_dot part[GY_THREADS / 32];
    float change;
};

/* The long ones, a block each. */
GY_KERNEL(glm_step_long)
{
    GY_SHARED(struct glm_long, s);
    const struct gy_glm_window *window = GY_P(const struct gy_glm_window, GY_X);
    const struct glm_view v = glm_view_of(window, a.u);
    const int32_t *list = (const int32_t *)glm_array(window, window->long_rows);
    float *w = GY_P(float, GY_W);
    for (int p = GY_BX; p < window->longs; p += GY_GX) {
        const int i = list[glm_permute(a.u, window->longs, p)];
        const struct glm_row r = glm_row_of(&v, i);
        struct glm_dot x = glm_dot_warp(&v, r, glm_dot_part(&v, r, w, (uint32_t)GY_TID, GY_THREADS));
        if (GY_LANE == 0)
            s->part[GY_WARP] = x;
        GY_SYNC();
        if (GY_TID == 0) {
            for (int k = 1; k < GY_THREADS / 32; k++) {
                x.w += s->part[k].w;
                x.square += v.value ? s->part[k].square : 0.0f;
            }
            s->change = glm_move(&v, a.u, i, glm_score(&v, r, x, w), glm_square(&v, r, x), GY_P(float, GY_M));
        }
        GY_SYNC();
        glm_add(&v, r, s->change, w, (uint32_t)GY_TID, GY_THREADS);
    }
}

/* Adds a window's part to W: 1 / l2 * sum of coefficient_i x_i. A warp has a row; rows come in any
 * order. */
GY_KERNEL(glm_build)
{
    const struct glm_view v = glm_view_of(GY_P(const struct gy_glm_window, GY_X), a.u);
    const int warps = GY_GX * (GY_THREADS / 32);
    for (int64_t i = GY_BX * (GY_THREADS / 32) + GY_WARP; i < v.rows; i += warps) {
        const struct glm_row r = glm_row_of(&v, (int)i);
        const float dual = GY_P(const float, GY_M)[i];
        const float coefficient = GLM_OF(GLM_LOSS, coefficient)(v.y[i], dual, v.c[i]) * a.u->lr;
        glm_add(&v, r, v.c[i] > 0.0f ? coefficient : 0.0f, GY_P(float, GY_W), (uint32_t)GY_LANE, 32);
    }
}

/* ---- scores: Y = x . w of each row, a warp a row ---- */

GY_KERNEL(glm_scores)
{
    const struct glm_view v = glm_view_of(GY_P(const struct gy_glm_window, GY_X), a.u);
    const int warps = GY_GX * (GY_THREADS / 32);
    for (int64_t i = GY_BX * (GY_THREADS / 32) + GY_WARP; i < v.rows; i += warps) {
        const struct glm_row r = glm_row_of(&v, (int)i);
        const struct glm_dot x = glm_dot_warp(&v, r, glm_dot_part(&v, r, GY_P(const float, GY_W), (uint32_t)GY_LANE, 32));
        if (GY_LANE == 0)
            GY_P(float, GY_Y)[i] = glm_score(&v, r, x, GY_P(const float, GY_W));
    }
}

/* ---- sums ---- */

struct glm_pair {
    double first, second;
};

/* Over the block, by halves; thread 0 has the sums. */
GY_FN struct glm_pair glm_block(struct glm_shared *s, struct glm_pair x)
{
    s->sum[0][GY_TID] = x.first;
    s->sum[1][GY_TID] = x.second;
    GY_UNROLL_NOT for (int half = GY_THREADS / 2; half > 0; half /= 2) {
        GY_SYNC();
        if (GY_TID < half) {
            s->sum[0][GY_TID] += s->sum[0][GY_TID + half];
            s->sum[1][GY_TID] += s->sum[1][GY_TID + half];
        }
    }
    x.first = s->sum[0][0];
    x.second = s->sum[1][0];
    return x;
}

GY_FN void glm_part(struct glm_shared *s, struct glm_pair x, double *parts)
{
    x = glm_block(s, x);
    if (GY_TID == 0) {
        parts[2 * GY_BX] = x.first;
        parts[2 * GY_BX + 1] = x.second;
    }
}

/* Losses at the scores Y, and conjugates of M; either may be absent. A thread a row. */
GY_KERNEL(glm_sums)
{
    GY_SHARED(struct glm_shared, s);
    const struct glm_view v = glm_view_of(GY_P(const struct gy_glm_window, GY_X), a.u);
    const float *score = GY_P(const float, GY_Y), *dual = GY_P(const float, GY_M);
    struct glm_pair x = { 0.0, 0.0 };
    for (int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID; i < v.rows; i += (int64_t)GY_GX * GY_THREADS) {
        const double y = (double)v.y[i], c = (double)v.c[i];
        if (!(c > 0.0))
            continue;
        if (score)
            x.first += c * GLM_OF(GLM_LOSS, value)(y, (double)score[i]);
        if (dual)
            x.second += GLM_OF(GLM_LOSS, conjugate)(y, (double)dual[i], c);
    }
    glm_part(s, x, GY_P(double, GY_SCRATCH));
}

/* The weights squared, and their sizes, the bias included. */
GY_KERNEL(glm_squares)
{
    GY_SHARED(struct glm_shared, s);
    const float *w = GY_P(const float, GY_W);
    const int64_t count = (int64_t)GY_P(const struct gy_glm_window, GY_X)->features + (a.u->bias1 != 0.0f ? 1 : 0);
    struct glm_pair x = { 0.0, 0.0 };
    for (int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID; i < count; i += (int64_t)GY_GX * GY_THREADS) {
        const double one = (double)glm_soft(w[i], a.u->bias2);
        x.first += one * one;
        x.second += one < 0.0 ? -one : one;
    }
    glm_part(s, x, GY_P(double, GY_SCRATCH));
}

/* One block: what the parts amount to is added to SUMS. */
GY_KERNEL(glm_join)
{
    GY_SHARED(struct glm_shared, s);
    const double *parts = GY_P(const double, GY_SCRATCH);
    double *out = GY_P(double, GY_SUMS);
    struct glm_pair x = { 0.0, 0.0 };
    for (int i = GY_TID; i < GLM_PARTS; i += GY_THREADS) {
        x.first += parts[2 * i];
        x.second += parts[2 * i + 1];
    }
    x = glm_block(s, x);
    if (GY_TID == 0) {
        out[0] += x.first;
        out[1] += x.second;
    }
}
