/* SPDX-License-Identifier: MIT */
/* t_glm_optima.c: the table of losses, and each solver of second order for each loss, beside sums
 * in long double that share nothing with them. Slopes stand beside differences of the losses. The
 * optimum is judged by its least subgradient r: as P is strongly convex, it is at most |r|^2 / (2
 * l2) above the least. */
#include "engine/glm/solve/newton_state.h"
#include "engine/glm/solve/softmax.h"
#include "tests/glm_data.h"
#include "tests/t.h"

#define LS_DIMS 12 /* features; the bias comes after them */
#define LS_CLASSES 3

typedef long double real;

/* The losses once more, as they are defined. */
static real ls_loss(int loss, real y, real z)
{
    const real m = y * z, under = m < 1 ? 1 - m : 0;
    return loss == GY_GLM_LOGISTIC ? (m > 0 ? log1pl(expl(-m)) : log1pl(expl(m)) - m)
           : loss == GY_GLM_SQUARED ? (z - y) * (z - y) / 2
           : loss == GY_GLM_HINGE   ? under
                                    : under * under;
}

static real ls_slope(int loss, real y, real z)
{
    const real m = y * z;
    return loss == GY_GLM_LOGISTIC  ? -y / (1 + expl(m))
           : loss == GY_GLM_SQUARED ? z - y
           : loss == GY_GLM_HINGE   ? (m < 1 ? -y : 0)
                                    : (m < 1 ? -2 * y * (1 - m) : 0);
}

static void test_slopes(void)
{
    static const double scores[] = { -7.3, -1.9, -0.6, 0.21, 0.83, 1.37, 2.9, 6.1 };
    const real h = 1e-4L;
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++)
        for (size_t k = 0; k < 2 * GY_COUNT(scores); k++) {
            const double y = k % 2 ? 1 : -1, z = scores[k / 2];
            const real below = ls_loss(loss, (real)y, (real)z - h), at = ls_loss(loss, (real)y, (real)z), above = ls_loss(loss, (real)y, (real)z + h);
            double first, second;
            gy_glm_loss_at(loss)->slopes(y, z, &first, &second);
            T_CHECK_MSG(fabsl((real)gy_glm_loss_at(loss)->value(y, z) - at) <= 1e-14L * (1 + at) && fabsl((above - below) / (2 * h) - (real)first) <= 1e-7L &&
                            fabsl((above - 2 * at + below) / (h * h) - (real)second) <= 1e-6L &&
                            fabsl(ls_slope(loss, (real)y, (real)z) - (real)first) <= 1e-14L,
                        "loss %d, y %g, z %g: slopes %.12g, %.12g", loss, y, z, first, second);
        }
}

/* ---- optima ---- */

static real ls_score(const struct glm_data *data, const struct gy_glm_problem *problem, int64_t i, const float *w)
{
    real z = (real)problem->bias * (real)w[LS_DIMS];
    for (int64_t e = data->start[i]; e < data->start[i + 1]; e++)
        z += (real)data->value[e] * (real)w[data->id[e]];
    return z;
}

static real ls_cost(const struct glm_data *data, const struct gy_glm_problem *problem, int64_t i)
{
    return (real)gy_glm_c(problem, data->view, (int32_t)i, gy_glm_y(problem, data->view, (int32_t)i));
}

/* How far w may be above the least P, as a part of P. */
static real ls_off(const struct glm_data *data, const struct gy_glm_problem *problem, const float *w)
{
    real g[LS_DIMS + 1] = { 0 }, primal = 0, square = 0;
    for (int64_t i = 0; i < data->rows; i++) {
        const real y = (real)gy_glm_y(problem, data->view, (int32_t)i), c = ls_cost(data, problem, i), z = ls_score(data, problem, i, w);
        const real slope = c * ls_slope(problem->loss, y, z);
        primal += c * ls_loss(problem->loss, y, z);
        for (int64_t e = data->start[i]; e < data->start[i + 1]; e++)
            g[data->id[e]] += slope * (real)data->value[e];
        g[LS_DIMS] += slope * (real)problem->bias;
    }
    for (int j = 0; j <= LS_DIMS; j++) {
        const real v = (real)w[j], l1 = (real)problem->l1, l2 = (real)problem->l2, at = g[j] + l2 * v;
        const real r = v > 0 ? at + l1 : v < 0 ? at - l1 : fmaxl(fabsl(at) - l1, 0);
        primal += l1 * fabsl(v) + l2 * v * v / 2;
        square += r * r;
    }
    return square / (2 * (real)problem->l2) / primal;
}

/* The hinge loss has no slope at its kink: the dual variables that are left say the same. */
static real ls_off_hinge(const struct glm_data *data, const struct gy_glm_problem *problem, const float *w, const float *dual)
{
    real u[LS_DIMS + 1] = { 0 }, primal = 0, bound = 0;
    for (int64_t i = 0; i < data->rows; i++) {
        const real y = (real)gy_glm_y(problem, data->view, (int32_t)i), c = ls_cost(data, problem, i), a = (real)dual[i];
        T_CHECK(a >= 0 && a <= c);
        primal += c * ls_loss(GY_GLM_HINGE, y, ls_score(data, problem, i, w));
        bound += a;
        for (int64_t e = data->start[i]; e < data->start[i + 1]; e++)
            u[data->id[e]] += y * a * (real)data->value[e];
        u[LS_DIMS] += y * a * (real)problem->bias;
    }
    for (int j = 0; j <= LS_DIMS; j++) {
        primal += (real)problem->l2 * (real)w[j] * (real)w[j] / 2;
        bound -= u[j] * u[j] / (2 * (real)problem->l2);
    }
    return (primal - bound) / primal;
}

static void ls_open(struct glm_data *data, int number)
{
    const struct glm_data_kind kind = { 90, LS_DIMS, 8, 1, 0, 71 + (uint64_t)number };
    glm_data_random(data, &kind);
    data->feed.features = LS_DIMS;
    data->weight = glm_data_grow(NULL, (size_t)data->rows * sizeof *data->weight);
    for (int64_t i = 0; i < data->rows; i++)
        data->weight[i] = 0.5f * (float)(i % 4); /* some are 0 */
    glm_data_cut(data, 1, 1); /* one view: what gy_glm_y and gy_glm_c look all rows up in */
}

static void test_optima(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++)
        for (int k = 0; k < 8; k++) {
            const int sparse = k % 2;
            const struct gy_glm_problem problem = { .loss = loss, .l1 = sparse ? 1.5 : 0, .l2 = 0.3, .bias = k & 2 ? 0.7 : 0, .target = GY_GLM_TARGET_CLASS,
                                                    .positive = 1, .class_weight = { 1, k & 4 ? 2.5f : 1 } };
            struct gy_error err = { 0 };
            struct glm_data data;
            float w[LS_DIMS + 1] = { 0 }, dual[90];
            if (loss == GY_GLM_HINGE && sparse)
                continue;
            ls_open(&data, k);
            struct gy_glm_run run = { .problem = &problem, .feed = &data.feed, .alloc = &alloc, .stop = { .gap = 1e-8 }, .w = w, .dual = dual };
            T_CHECK(gy_pool_open(&run.pool, &alloc, 1, &err) == GY_OK && (sparse ? gy_glm_l1 : gy_glm_newton)()->solve(&run, &err) == GY_OK);
            gy_pool_close(run.pool);
            const real off = loss == GY_GLM_HINGE ? ls_off_hinge(&data, &problem, w, dual) : ls_off(&data, &problem, w);
            T_CHECK_MSG(off <= 3e-8L && run.epochs < 60, "loss %d, problem %d: P %.12g is %.3Lg above the least, after %d epochs until %s", loss, k,
                        run.result.primal, off, run.epochs, gy_glm_why_name(run.why));
            glm_data_free(&data);
        }
}

/* The same of classes. */
static real ls_off_softmax(const struct glm_data *data, double l2, const float *labels, const float *w)
{
    real g[LS_CLASSES][LS_DIMS] = { { 0 } }, primal = 0, square = 0;
    for (int64_t i = 0; i < data->rows; i++) {
        real z[LS_CLASSES] = { 0 }, sum = 0, most = -HUGE_VALL;
        const real c = (real)data->weight[i];
        for (int k = 0; k < LS_CLASSES; k++) {
            for (int64_t e = data->start[i]; e < data->start[i + 1]; e++)
                z[k] += (real)data->value[e] * (real)w[k * LS_DIMS + (int)data->id[e]];
            most = fmaxl(most, z[k]);
        }
        for (int k = 0; k < LS_CLASSES; k++)
            sum += expl(z[k] - most);
        for (int k = 0; k < LS_CLASSES; k++) {
            const int is = labels[k] == data->label[i];
            primal += is ? c * (logl(sum) + most - z[k]) : 0;
            for (int64_t e = data->start[i]; e < data->start[i + 1]; e++)
                g[k][data->id[e]] += c * (expl(z[k] - most) / sum - (real)is) * (real)data->value[e];
        }
    }
    for (int k = 0; k < LS_CLASSES; k++)
        for (int j = 0; j < LS_DIMS; j++) {
            const real v = (real)w[k * LS_DIMS + j], r = g[k][j] + (real)l2 * v;
            primal += (real)l2 * v * v / 2;
            square += r * r;
        }
    return square / (2 * (real)l2) / primal;
}

static void test_softmax(void)
{
    static const float labels[LS_CLASSES] = { -1, 0, 1 }, factors[LS_CLASSES] = { 1, 1, 1 };
    const struct gy_glm_classes classes = { .label = labels, .factor = factors, .count = LS_CLASSES };
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_glm_problem problem = { .loss = GY_GLM_LOGISTIC, .l2 = 0.3, .class_weight = { 1, 1 } };
    struct gy_error err = { 0 };
    struct glm_data data;
    float w[LS_CLASSES * LS_DIMS] = { 0 };
    ls_open(&data, 9);
    for (int64_t i = 0; i < data.rows; i += 3)
        data.label[i] = 0;
    struct gy_glm_run run = { .problem = &problem, .feed = &data.feed, .alloc = &alloc, .stop = { .gap = 1e-8 }, .w = w };
    T_CHECK(gy_pool_open(&run.pool, &alloc, 1, &err) == GY_OK && gy_glm_softmax(&run, &classes, &err) == GY_OK);
    gy_pool_close(run.pool);
    const real off = ls_off_softmax(&data, problem.l2, labels, w);
    T_CHECK_MSG(off <= 3e-8L && run.epochs < 60, "P %.12g is %.3Lg above the least, after %d epochs until %s", run.result.primal, off, run.epochs,
                gy_glm_why_name(run.why));
    glm_data_free(&data);
}

int main(void)
{
    test_slopes();
    test_optima();
    test_softmax();
    T_END("t_glm_optima");
}
