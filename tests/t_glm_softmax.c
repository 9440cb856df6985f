/* SPDX-License-Identifier: MIT */
/* t_glm_softmax.c: the softmax model. Two classes are the logistic model with half the penalty.
 * Gradients stand beside differences of plain sums. Bits are the same for any number of threads,
 * views do not stay, and refusals are tested. */
#include "engine/glm/solve/newton_state.h"
#include "engine/glm/solve/softmax.h"
#include "tests/glm_data.h"
#include "tests/t.h"

#define SOFT_CLASSES 5

/* weights of the classes' rows */
static const float soft_factor[SOFT_CLASSES] = { 1, 2.5f, 1, 0.5f, 3 };

static struct gy_glm_problem soft_problem(double l2, double bias)
{
    return (struct gy_glm_problem){ .loss = GY_GLM_LOGISTIC, .l2 = l2, .bias = bias, .target = GY_GLM_TARGET_CLASS, .positive = 1, .class_weight = { 1, 1 } };
}

/* Labels 0 to classes - 1 by planted weights. */
static void soft_labels(struct glm_data *data, int classes)
{
    for (int64_t i = 0; i < data->rows; i++) {
        float best = -1e30f;
        for (int k = 0; k < classes; k++) {
            float score = 0.5f * gy_rng_normal(9, (uint32_t)k, 1, (uint64_t)i);
            for (int64_t e = data->start[i]; e < data->start[i + 1]; e++)
                score += (data->value ? data->value[e] : 1) * gy_rng_normal(9, (uint32_t)k, 2, data->id[e]);
            if (score > best) {
                best = score;
                data->label[i] = (float)k;
            }
        }
    }
}

static double soft_plain(const struct glm_data *data, const struct gy_glm_problem *problem, int classes, const float *w)
{
    const size_t dims = data->feed.features + (size_t)(problem->bias != 0);
    double sum = 0;
    for (int v = 0; v < data->views; v++)
        for (int32_t i = 0; i < data->view[v].count; i++) {
            const struct gy_rows *const rows = &data->view[v];
            double z[SOFT_CLASSES], total = 0;
            for (int k = 0; k < classes; k++) {
                z[k] = problem->bias != 0 ? problem->bias * (double)w[(size_t)k * dims + dims - 1] : 0;
                for (uint32_t e = gy_rows_begin(rows, i); e < gy_rows_end(rows, i); e++)
                    z[k] += (rows->scale ? (double)rows->scale[i] : 1) * (rows->value ? (double)rows->value[e] : 1) * (double)w[(size_t)k * dims + rows->id[e]];
                total += exp(z[k]);
            }
            sum += (double)soft_factor[(int)rows->label[i]] * (rows->weight ? (double)rows->weight[i] : 1) * (log(total) - z[(int)rows->label[i]]);
        }
    for (size_t j = 0; j < dims * (size_t)classes; j++)
        sum += problem->bias_free && j % dims == dims - 1 ? 0 : 0.5 * problem->l2 * (double)w[j] * (double)w[j];
    return sum;
}

static int soft_solve_for(struct glm_data *data, const struct gy_glm_problem *problem, int classes, int threads, int epochs, float *w, struct gy_glm_run *run)
{
    static const float labels[] = { 0, 1, 2, 3, 4 };
    const struct gy_glm_classes list = { .label = labels, .factor = soft_factor, .count = classes };
    static struct gy_alloc alloc;
    struct gy_error err = { 0 };
    struct gy_pool *pool = NULL;
    alloc = gy_alloc_default();
    T_CHECK(gy_pool_open(&pool, &alloc, threads, &err) == GY_OK);
    *run = (struct gy_glm_run){ .problem = problem, .feed = &data->feed, .alloc = &alloc, .pool = pool, .stop = { .gap = 1e-9, .epochs = epochs }, .w = w };
    const int status = gy_glm_softmax(run, &list, &err);
    gy_pool_close(pool);
    run->pool = NULL;
    return status;
}

static int soft_solve(struct glm_data *data, const struct gy_glm_problem *problem, int classes, int threads, float *w, struct gy_glm_run *run)
{
    return soft_solve_for(data, problem, classes, threads, 100, w, run);
}

/* What is said of the optimum far from it must be true too, and soon says something. */
static void soft_check_bounds(struct glm_data *data, const struct gy_glm_problem *problem, double optimum, float *w, size_t all)
{
    for (int epochs = 1; epochs <= 4; epochs++) {
        struct gy_glm_run run;
        memset(w, 0, all * sizeof *w);
        T_CHECK(soft_solve_for(data, problem, SOFT_CLASSES, 1, epochs, w, &run) == GY_OK);
        T_CHECK_MSG(run.result.dual <= optimum * (1 + 1e-9), "a bound of %.12g after %d epochs; the optimum is %.12g", run.result.dual, epochs, optimum);
        T_CHECK_MSG(epochs < 4 || run.result.dual > optimum / 2, "a bound of %.12g, not half the optimum %.12g", run.result.dual, optimum);
    }
}

static void test_soft_optimum(void)
{
    static const struct glm_data_kind kinds[] = { { 600, 25, 9, 0, 0, 1 }, { 500, 40, 12, 1, 0, 2 }, { 200, 900, 20, 1, 0, 3 } };
    for (size_t k = 0; k < GY_COUNT(kinds); k++)
        for (int kind = 0; kind < 3; kind++) { /* no bias, one, one that is not penalised */
            const int bias = kind > 0, is_free = kind == 2;
            struct glm_data data;
            struct gy_glm_run run;
            struct gy_glm_problem problem = soft_problem(0.7, bias ? 2 : 0);
            problem.bias_free = is_free;
            glm_data_random(&data, &kinds[k]);
            soft_labels(&data, SOFT_CLASSES);
            if (k == 1)
                glm_data_normalise(&data);
            if (k == 2) {
                data.weight = glm_data_grow(NULL, (size_t)data.rows * sizeof *data.weight);
                for (int64_t i = 0; i < data.rows; i++)
                    data.weight[i] = 0.5f * (float)(i % 4);
                glm_data_cut(&data, 1, 1);
            }
            const size_t dims = data.feed.features + (size_t)bias, all = dims * SOFT_CLASSES;
            float *const w = glm_data_grow(NULL, 2 * all * sizeof *w), *const again = w + all;
            memset(w, 0, 2 * all * sizeof *w);
            T_CHECK(soft_solve(&data, &problem, SOFT_CLASSES, 1, w, &run) == GY_OK);
            const double at = soft_plain(&data, &problem, SOFT_CLASSES, w);
            T_CHECK_MSG(fabs(at - run.result.primal) <= 1e-9 * at, "P %.15g, said to be %.15g", at, run.result.primal);
            T_CHECK_MSG(run.result.gap >= 0 && run.result.gap <= (is_free ? 1e-6 : 1e-8) * at, "kind %zu: gap %.3g of %.12g", k, run.result.gap, at);
            for (size_t j = 0; j < all; j += 1 + all / 23) {
                const float old = w[j];
                w[j] = old + 1e-2f;
                const double up = soft_plain(&data, &problem, SOFT_CLASSES, w), width = (double)w[j];
                w[j] = old - 1e-2f;
                const double down = soft_plain(&data, &problem, SOFT_CLASSES, w);
                const double slope = (up - down) / (width - (double)w[j]);
                T_CHECK_MSG(fabs(slope) < 2e-3 * (1 + at / 100), "weight %zu: slope %.4g", j, slope);
                T_CHECK(up >= at - run.result.gap && down >= at - run.result.gap);
                w[j] = old;
            }
            T_CHECK(soft_solve(&data, &problem, SOFT_CLASSES, 4, again, &run) == GY_OK);
            T_CHECK(memcmp(w, again, all * sizeof *w) == 0);
            soft_check_bounds(&data, &problem, at, again, all);
            memset(again, 0, all * sizeof *w);
            glm_data_cut(&data, 6, 0);
            T_CHECK(soft_solve(&data, &problem, SOFT_CLASSES, 2, again, &run) == GY_OK);
            T_CHECK_MSG(fabs(run.result.primal - at) <= 1e-8 * at, "%.12g from views that do not stay, %.12g", run.result.primal, at);
            free(w);
            glm_data_free(&data);
        }
}

/* w_1 - w_0 is the logistic model's w, and each has half of it. */
static void test_soft_two(void)
{
    const struct glm_data_kind kind = { 400, 30, 9, 1, 0, 7 };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct glm_data data;
    struct gy_glm_run run;
    struct gy_pool *pool = NULL;
    float w[60] = { 0 }, one[30] = { 0 };
    const struct gy_glm_problem two = soft_problem(1, 0);
    struct gy_glm_problem half = soft_problem(0.5, 0);
    memcpy(half.class_weight, soft_factor, sizeof half.class_weight);
    glm_data_random(&data, &kind);
    soft_labels(&data, 2);
    T_CHECK(soft_solve(&data, &two, 2, 1, w, &run) == GY_OK);
    T_CHECK(gy_pool_open(&pool, &alloc, 1, &err) == GY_OK);
    struct gy_glm_run binary = { .problem = &half, .feed = &data.feed, .alloc = &alloc, .pool = pool, .stop = { .gap = 1e-10 }, .w = one };
    T_CHECK(gy_glm_newton()->solve(&binary, &err) == GY_OK);
    T_CHECK_MSG(fabs(run.result.primal - binary.result.primal) <= 1e-8 * binary.result.primal, "%.12g and %.12g", run.result.primal, binary.result.primal);
    for (size_t j = 0; j < 30; j++)
        T_CHECK_MSG(fabsf(w[30 + j] - w[j] - one[j]) < 1e-3f, "feature %zu: %g and %g", j, (double)(w[30 + j] - w[j]), (double)one[j]);
    gy_pool_close(pool);
    glm_data_free(&data);
}

static void test_soft_refuses(void)
{
    const struct glm_data_kind kind = { 40, 5, 3, 1, 0, 8 };
    struct glm_data data;
    struct gy_glm_run run;
    float w[25] = { 0 };
    struct gy_glm_problem problem = soft_problem(1, 0);
    glm_data_random(&data, &kind);
    soft_labels(&data, 4);
    T_CHECK(soft_solve(&data, &problem, 4, 1, w, &run) == GY_OK);
    data.label[17] = 4; /* none of the first four */
    T_CHECK(soft_solve(&data, &problem, 4, 1, w, &run) == GY_E_MISMATCH);
    T_CHECK(soft_solve(&data, &problem, 1, 1, w, &run) == GY_E_ARG);
    problem.l2 = 0;
    T_CHECK(soft_solve(&data, &problem, 5, 1, w, &run) == GY_E_UNSUPPORTED);
    glm_data_free(&data);
}

int main(void)
{
    test_soft_optimum();
    test_soft_two();
    test_soft_refuses();
    T_END("t_glm_softmax");
}
