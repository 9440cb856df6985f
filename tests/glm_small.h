/* SPDX-License-Identifier: MIT */
/* glm_small.h: small linear problems by number, of every kind that strains a solver. They have no
 * features or many, columns of scales 1e-6 to 1e6, doubled rows and columns, empty rows. Weights
 * are 0 to 10,000, penalties 1e-4 to 1e4. It also computes P and D of given weights and dual
 * variables, plainly, in long double. */
#ifndef GY_GLM_SMALL_H
#define GY_GLM_SMALL_H
#include "tests/glm_data.h"

struct gs_case {
    struct gy_glm_problem problem;
    struct glm_data data;
    int threads, views, resident;
};

static inline uint32_t gs_word(uint64_t number, uint32_t what, uint64_t at)
{
    uint32_t word[4];
    gy_rng_words(number, what, 77, at, word);
    return word[0];
}
static inline uint32_t gs_below(uint64_t number, uint32_t what, uint32_t most) { return gs_word(number, what, 0) % most; }

static inline float gs_value(uint64_t number, int64_t row, uint32_t column, int wild, int ones)
{
    const float scale = wild ? powf(10, (float)(gs_word(number, 20, column) % 13) - 6) : 1;
    return scale * (ones ? 1.0f : gy_rng_normal(number, 21, (uint64_t)row, column));
}

/* Row i is one of those before it in some problems, column j the one before it in some. */
static inline void gs_fill(struct glm_data *data, uint64_t number, uint32_t features)
{
    const int wild = gs_below(number, 1, 3) == 0, rows_twice = gs_below(number, 2, 4) == 0, columns_twice = gs_below(number, 3, 4) == 0;
    const int ones = gs_below(number, 4, 3) == 0;
    const uint32_t most = 1 + gs_below(number, 5, features < 30 ? features + 1 : 30);
    data->start[0] = 0;
    for (int64_t i = 0; i < data->rows; i++) {
        const int64_t like = rows_twice && i % 2 ? i - 1 : i;
        const uint32_t skip = 1 + features / most;
        const int empty = features == 0 || gs_word(number, 6, (uint64_t)like) % 16 == 0;
        for (uint32_t j = empty ? features : gs_word(number, 7, (uint64_t)like) % skip; j < features;
             j += 1 + gs_word(number, 8 + j, (uint64_t)like) % (2 * skip - 1)) {
            data->id[data->entries] = j;
            data->value[data->entries++] = gs_value(number, like, columns_twice ? j / 2 * 2 : j, wild, ones);
        }
        data->start[i + 1] = data->entries;
    }
}

static inline void gs_labels(struct gs_case *c, uint64_t number, int regression)
{
    struct glm_data *const data = &c->data;
    /* kind 0: all labels are equal; 1: the rows are separable */
    const int weighted = (int)gs_below(number, 10, 3), kind = (int)gs_below(number, 11, 4);
    const float far = powf(10, (float)gs_below(number, 12, 5));
    for (int64_t i = 0; i < data->rows; i++) {
        double score = 0.1;
        for (int64_t e = data->start[i]; e < data->start[i + 1]; e++)
            score += (double)(gy_rng_normal(number, 22, 1, data->id[e]) * data->value[e]);
        const double noise = (double)gy_rng_normal(number, 23, 0, (uint64_t)i);
        const double noisy = kind == 1 ? score : score + noise;
        data->label[i] = regression ? (float)noisy : kind == 0 || noisy > 0 ? 1 : -1;
        data->weight[i] = weighted == 0 ? 1 : weighted == 1 ? gy_rng_uniform(number, 24, 0, (uint64_t)i)
                        : gs_word(number, 25, (uint64_t)i) % 5 == 0 ? 0 : gs_word(number, 26, (uint64_t)i) % 7 == 0 ? far : 1;
    }
}

/* loss -1: any. */
static inline void gs_make(struct gs_case *c, uint64_t number, int loss)
{
    static const int rows_most[] = { 3, 30, 400 }, features_most[] = { 3, 30, 300 };
    struct glm_data *const data = &c->data;
    memset(c, 0, sizeof *c);
    loss = loss < 0 ? (int)gs_below(number, 30, GY_GLM_LOSSES) : loss;
    data->rows = 1 + gs_below(number, 31, (uint32_t)rows_most[gs_below(number, 32, 3)]);
    data->feed.features = gs_below(number, 33, (uint32_t)features_most[gs_below(number, 34, 3)] + 1);
    const size_t rows = (size_t)data->rows, room = rows * (data->feed.features + 1);
    data->start = glm_data_grow(NULL, (rows + 1) * sizeof *data->start);
    data->id = glm_data_grow(NULL, room * sizeof *data->id);
    data->value = glm_data_grow(NULL, room * sizeof *data->value);
    data->label = glm_data_grow(NULL, rows * sizeof *data->label);
    data->weight = glm_data_grow(NULL, rows * sizeof *data->weight);
    gs_fill(data, number, data->feed.features);
    gs_labels(c, number, loss == GY_GLM_SQUARED);
    c->problem = (struct gy_glm_problem){ .loss = loss, .l2 = pow(10, (double)gs_below(number, 35, 9) - 4), .class_weight = { 1, 1 }, .positive = 1,
                                          .target = loss == GY_GLM_SQUARED ? GY_GLM_TARGET_VALUE : GY_GLM_TARGET_CLASS };
    c->problem.l1 = gs_below(number, 36, 4) == 0 ? c->problem.l2 * 0.01 : 0;
    c->problem.bias = gs_below(number, 37, 2) ? 1 : 0;
    c->problem.class_weight[1] = gs_below(number, 38, 8) == 0 ? 10000 : 1;
    c->threads = 1 + (int)gs_below(number, 39, 3);
    c->views = gs_below(number, 40, 2) ? 1 : 1 + (int)gs_below(number, 41, data->rows < 5 ? (uint32_t)data->rows : 5);
    c->resident = gs_below(number, 42, 2) == 0;
    glm_data_cut(data, c->views, c->resident);
}

/* ---- P and D ---- */

struct gs_sums {
    long double primal, dual;
    /* estimated bound of the change of P and D if each product and sum has a relative error of 1 */
    long double rough[2];
};

static inline long double gs_coefficient(int loss, long double y, long double dual, long double c)
{
    return loss == GY_GLM_LOGISTIC ? y * c / (1 + expl(-dual)) : loss == GY_GLM_SQUARED ? dual : y * dual;
}

static inline long double gs_loss(int loss, long double y, long double z)
{
    const long double m = y * z, under = m < 1 ? 1 - m : 0;
    return loss == GY_GLM_LOGISTIC ? (m > 0 ? log1pl(expl(-m)) : log1pl(expl(m)) - m)
         : loss == GY_GLM_SQUARED  ? (z - y) * (z - y) / 2
         : loss == GY_GLM_HINGE    ? under : under * under;
}

static inline long double gs_slope(int loss, long double y, long double z)
{
    const long double m = y * z;
    return loss == GY_GLM_LOGISTIC ? -y / (1 + expl(m)) : loss == GY_GLM_SQUARED ? z - y : m >= 1 ? 0 : loss == GY_GLM_HINGE ? -y : -2 * y * (1 - m);
}

/* -INFINITY outside of its domain. */
static inline long double gs_conjugate(int loss, long double y, long double dual, long double c)
{
    const long double e = expl(-fabsl(dual));
    if (loss == GY_GLM_LOGISTIC)
        return isfinite(dual) ? c * (log1pl(e) + e / (1 + e) * fabsl(dual)) : -HUGE_VALL;
    if (loss == GY_GLM_SQUARED)
        return isfinite(dual) ? dual * y - dual * dual / (2 * c) : -HUGE_VALL;
    if (!(dual >= 0) || (loss == GY_GLM_HINGE && !(dual <= c)))
        return -HUGE_VALL;
    return loss == GY_GLM_HINGE ? dual : dual - dual * dual / (4 * c);
}

static inline struct gs_sums gs_sums_of(const struct gy_glm_problem *p, const struct glm_data *d, const float *w, const float *dual)
{
    const uint32_t dim = d->feed.features + (p->bias != 0);
    const long double l1 = (long double)p->l1, l2 = (long double)p->l2;
    long double *const u = calloc(dim + 1, sizeof *u);
    long double *const size = calloc(dim + 1, sizeof *size); /* as u, of magnitudes */
    struct gs_sums out = { 0 };
    if (!u || !size)
        exit(2);
    for (int64_t i = 0; i < d->rows; i++) {
        const struct gy_rows view = { .label = d->label, .weight = d->weight };
        const float y = gy_glm_y(p, &view, (int32_t)i), c = gy_glm_c(p, &view, (int32_t)i, y);
        if (!(c > 0))
            continue;
        const long double g = gs_coefficient(p->loss, (long double)y, (long double)dual[i], (long double)c);
        const long double bias = (long double)p->bias;
        long double z = bias != 0 ? bias * (long double)w[d->feed.features] : 0, sum = fabsl(z);
        for (int64_t e = d->start[i]; e < d->start[i + 1]; e++) {
            const long double x = (d->value ? (long double)d->value[e] : 1) * (d->scale ? (long double)d->scale[i] : 1);
            z += x * (long double)w[d->id[e]];
            sum += fabsl(x * (long double)w[d->id[e]]);
            u[d->id[e]] += g * x / l2;
            size[d->id[e]] += fabsl(g * x) / l2;
        }
        u[d->feed.features] += bias != 0 ? g * bias / l2 : 0;
        size[d->feed.features] += bias != 0 ? fabsl(g * bias) / l2 : 0;
        const long double a = (long double)dual[i], conjugate = gs_conjugate(p->loss, (long double)y, a, (long double)c);
        out.primal += (long double)c * gs_loss(p->loss, (long double)y, z);
        out.rough[0] += (long double)c * fabsl(gs_slope(p->loss, (long double)y, z)) * sum;
        out.dual += conjugate;
        out.rough[1] += p->loss == GY_GLM_SQUARED ? fabsl(a * (long double)y) + a * (long double)y - conjugate : conjugate;
    }
    out.rough[0] += out.primal;
    for (uint32_t j = 0; j < dim; j++) {
        const long double v = (long double)w[j], over = fmaxl(fabsl(u[j]) - l1 / l2, 0);
        out.primal += l2 / 2 * v * v + l1 * fabsl(v);
        out.rough[0] += l2 / 2 * v * v + l1 * fabsl(v);
        out.dual -= l2 / 2 * over * over;
        out.rough[1] += l2 * over * size[j];
    }
    free(u);
    free(size);
    return out;
}

#endif
