/* SPDX-License-Identifier: MIT */
/* t_glm_newton.c: Newton's method for linear models: known optima, the same bits for any number of
 * threads, rows in views that do not stay. Also a bias that is free, weights, and its gradients
 * beside differences. */
#include "engine/base/cpu.h"
#include "engine/glm/solve/newton_state.h"
#include "tests/glm_data.h"
#include "tests/t.h"

struct solved {
    struct gy_glm_certificate at;
    int epochs, status;
    float *w;
    size_t dims;
};

static const struct gy_glm_problem logistic = { .loss = GY_GLM_LOGISTIC, .l2 = 1, .target = GY_GLM_TARGET_CLASS, .positive = 1, .class_weight = { 1, 1 } };

static struct solved solve_with(struct glm_data *data, const struct gy_glm_problem *problem, int threads, struct gy_glm_stop stop, float *dual)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct solved out = { .dims = (size_t)data->feed.features + (problem->bias != 0) };
    struct gy_pool *pool = NULL;
    out.w = gy_alloc_take(&alloc, out.dims, sizeof *out.w);
    T_CHECK(gy_pool_open(&pool, &alloc, threads, &err) == GY_OK);
    struct gy_glm_run run = { .problem = problem, .feed = &data->feed, .alloc = &alloc, .pool = pool, .stop = stop, .w = out.w, .dual = dual };
    out.status = gy_glm_newton()->solve(&run, &err);
    T_CHECK_MSG(out.status == GY_OK, "%s", err.text);
    out.at = run.result;
    out.epochs = run.epochs;
    gy_pool_close(pool);
    T_CHECK_MSG(out.at.gap >= 0 && out.at.dual <= out.at.primal, "primal %.12g dual %.12g gap %.3g", out.at.primal, out.at.dual, out.at.gap);
    return out;
}

/* The relative gap that floats allow. The hinge loss's dual variables are variables, not slopes of
 * scores. */
static double least_gap(int loss) { return loss == GY_GLM_HINGE ? 1e-8 : 1e-9; }

static struct solved solve(struct glm_data *data, const struct gy_glm_problem *problem, int threads)
{
    return solve_with(data, problem, threads, (struct gy_glm_stop){ .gap = least_gap(problem->loss), .epochs = 200 }, NULL);
}

/* P by the plainest sums. */
static double plain_primal(const struct glm_data *data, const struct gy_glm_problem *problem, const float *w)
{
    double sum = 0;
    for (int v = 0; v < data->views; v++)
        for (int32_t i = 0; i < data->view[v].count; i++) {
            const struct gy_rows *const rows = &data->view[v];
            double z = problem->bias != 0 ? problem->bias * (double)w[data->feed.features] : 0;
            for (uint32_t k = gy_rows_begin(rows, i); k < gy_rows_end(rows, i); k++)
                z += (rows->value ? (double)rows->value[k] : (double)rows->same) * (rows->scale ? (double)rows->scale[i] : 1) * (double)w[rows->id[k]];
            const float y = gy_glm_y(problem, rows, i);
            sum += (double)gy_glm_c(problem, rows, i, y) * gy_glm_loss_of(problem)->value((double)y, z);
        }
    for (size_t j = 0; j < data->feed.features + (size_t)(problem->bias != 0 && !problem->bias_free); j++)
        sum += 0.5 * problem->l2 * (double)w[j] * (double)w[j];
    return sum;
}

/* No small move of w makes P smaller by more than its gap. */
static void check_lowest(const struct glm_data *data, const struct gy_glm_problem *problem, struct solved *found)
{
    const double at = plain_primal(data, problem, found->w);
    T_CHECK_MSG(fabs(at - found->at.primal) <= 1e-9 * fabs(at), "P %.15g, said to be %.15g", at, found->at.primal);
    for (size_t j = 0; j < found->dims; j += 1 + found->dims / 7)
        for (int side = -1; side <= 1; side += 2) {
            const float old = found->w[j];
            found->w[j] = old + 0.01f * (float)side;
            const double beside = plain_primal(data, problem, found->w);
            T_CHECK_MSG(beside >= at - found->at.gap - 1e-10 * fabs(at), "weight %zu: %.15g beside %.15g", j, beside, at);
            found->w[j] = old;
        }
    const struct gy_glm_problem *const p = problem;
    if (p->bias != 0) {
        const size_t last = found->dims - 1;
        const float old = found->w[last];
        found->w[last] = old + 0.01f;
        T_CHECK(plain_primal(data, p, found->w) >= at - found->at.gap - 1e-10 * fabs(at));
        found->w[last] = old - 0.01f;
        T_CHECK(plain_primal(data, p, found->w) >= at - found->at.gap - 1e-10 * fabs(at));
        found->w[last] = old;
    }
}

struct known {
    const char *file;
    int zero_based, normalise, loss;
    double l2, optimum;
};
static const struct known knowns[] = {
    { "heart_scale", 0, 0, GY_GLM_LOGISTIC, 0.01, 95.1187705901 },
    { "heart_scale", 0, 0, GY_GLM_LOGISTIC, 1, 98.2267995081 },
    { "heart_scale", 0, 0, GY_GLM_LOGISTIC, 100, 150.622516289 },
    { "heart_scale", 0, 0, GY_GLM_SQUARED, 1, 62.8414170995 },
    { "german_scale", 0, 0, GY_GLM_LOGISTIC, 1, 470.933753736 },
    { "a9a", 0, 0, GY_GLM_LOGISTIC, 0.01, 10505.5069046 },
    { "a9a", 0, 0, GY_GLM_LOGISTIC, 1, 10529.5625846 },
    { "a9a", 0, 0, GY_GLM_LOGISTIC, 10, 10648.4027152 },
    { "a9a", 0, 0, GY_GLM_LOGISTIC, 100, 11282.5069166 },
    { "a9a", 0, 0, GY_GLM_SQUARED, 1, 7301.49583245 },
    { "cocoa_small.train", 0, 0, GY_GLM_LOGISTIC, 1, 625.844012789 },
    { "cocoa_small.train", 0, 0, GY_GLM_LOGISTIC, 2, 786.339473403 },
    { "cocoa_small.train", 0, 0, GY_GLM_SQUARED, 1, 156.458475836 },
    { "frappe.validation.libfm", 1, 0, GY_GLM_LOGISTIC, 1, 17089.8931705 },
    { "frappe.validation.libfm", 1, 0, GY_GLM_LOGISTIC, 10, 23640.2141961 },
    { "frappe.validation.libfm", 1, 1, GY_GLM_LOGISTIC, 10, 30981.3625844 },
    { "imdb.train.svm.gz", 0, 0, GY_GLM_LOGISTIC, 1, 2016.19142084 },
    { "imdb.train.svm.gz", 0, 0, GY_GLM_LOGISTIC, 10, 4820.67548498 },
    { "imdb.train.svm.gz", 0, 0, GY_GLM_LOGISTIC, 100, 8310.92946555 },
    { "imdb.train.svm.gz", 0, 1, GY_GLM_LOGISTIC, 1, 8600.3286661 },
    { "heart_scale", 0, 0, GY_GLM_HINGE, 1, 96.4982778496 },
    { "german_scale", 0, 0, GY_GLM_HINGE, 1, 520.2024005 },
    { "a9a", 0, 0, GY_GLM_HINGE, 1, 11433.8076961 },
};

static void test_known(const char *folder)
{
    struct glm_data data = { 0 };
    const char *read = "";
    int normalised = 0;
    for (size_t k = 0; k < GY_COUNT(knowns); k++) {
        const struct known *const known = &knowns[k];
        if (strcmp(read, known->file) != 0 || normalised != known->normalise) {
            glm_data_free(&data);
            if (glm_data_read(&data, folder, known->file, known->zero_based, 0) != 0) {
                T_SKIP(known->file);
                continue;
            }
            if (known->normalise)
                glm_data_normalise(&data);
            read = known->file;
            normalised = known->normalise;
        }
        struct gy_glm_problem problem = logistic;
        problem.loss = known->loss;
        problem.l2 = known->l2;
        struct solved found = solve(&data, &problem, 2);
        const double least = least_gap(known->loss);
        T_CHECK_MSG(fabs(found.at.primal - known->optimum) <= 3 * least * known->optimum, "%s l2 %g: %.12g, optimum %.12g", known->file, known->l2,
                    found.at.primal, known->optimum);
        T_CHECK_MSG(found.at.gap <= least * found.at.primal, "%s l2 %g: gap %.3g", known->file, known->l2, found.at.gap);
        T_CHECK_MSG(found.at.dual <= known->optimum * (1 + 3e-9), "%s l2 %g: bound %.15g", known->file, known->l2, found.at.dual);
        printf("%s l2 %g: %.12g, gap %.2g, %d steps\n", known->file, known->l2, found.at.primal, found.at.gap, found.epochs);
        free(found.w);
    }
    glm_data_free(&data);
}

/* Every loss, few and many features, values or ones, with weights, scales and each kind of bias.
 * The result is no higher than any point beside it, and its gap is certified. */
static void test_random(void)
{
    static const struct glm_data_kind kinds[] = {
        { 400, 30, 12, 0, 0, 1 }, { 400, 30, 12, 1, 0, 2 }, { 300, 3000, 20, 1, 0, 3 }, { 9000, 60, 10, 0, 0, 4 }, { 500, 2000, 30, 0, 1, 5 },
        { 1, 3, 3, 1, 1, 6 },
    };
    for (size_t k = 0; k < GY_COUNT(kinds); k++)
        for (int l = 0; l < GY_GLM_LOSSES * 3; l++) {
            struct glm_data data;
            const char *why = NULL;
            const int regression = kinds[k].regression && l / 3 == GY_GLM_SQUARED, bias = l % 3;
            glm_data_random(&data, &kinds[k]);
            struct gy_glm_problem problem = logistic;
            problem.loss = l / 3;
            problem.l2 = 0.5;
            problem.target = regression ? GY_GLM_TARGET_VALUE : GY_GLM_TARGET_CLASS;
            problem.bias = bias ? 1.5 : 0;
            problem.bias_free = bias == 2;
            problem.class_weight[1] = l % 2 ? 2.5f : 1;
            /* the hinge loss: too many features, or a free bias */
            if (!gy_glm_newton()->fits(&problem, &data.feed, &why)) {
                T_CHECK(problem.loss == GY_GLM_HINGE && (problem.bias_free || data.feed.features > 1000) && why);
                glm_data_free(&data);
                continue;
            }
            if (l % 2 == 0) {
                data.weight = glm_data_grow(NULL, (size_t)data.rows * sizeof *data.weight);
                for (int64_t i = 0; i < data.rows; i++)
                    data.weight[i] = 0.5f * (float)(i % 5); /* some are 0 */
                glm_data_cut(&data, data.views, 1);
            }
            if (k % 2)
                glm_data_normalise(&data);
            struct solved found = solve(&data, &problem, 1);
            T_CHECK_MSG(found.at.gap <= 1e-7 * fabs(found.at.primal) + 1e-7, "kind %zu problem %d: P %.12g gap %.3g", k, l, found.at.primal, found.at.gap);
            check_lowest(&data, &problem, &found);
            /* views of other sizes that are not resident: another order of sums, the same
             * optimum */
            glm_data_cut(&data, data.rows < 5 ? 1 : 5, 0);
            struct solved again = solve(&data, &problem, 2);
            T_CHECK_MSG(fabs(again.at.primal - found.at.primal) <= 1e-7 * fabs(found.at.primal) + 1e-7, "kind %zu problem %d: %.12g and %.12g", k, l,
                        found.at.primal, again.at.primal);
            free(found.w);
            free(again.w);
            glm_data_free(&data);
        }
}

static void test_threads(void)
{
    static const struct glm_data_kind kinds[] = { { 20000, 50, 8, 0, 0, 11 }, { 3000, 5000, 25, 1, 0, 12 }, { 20000, 50, 8, 0, 0, 13 } };
    for (size_t k = 0; k < GY_COUNT(kinds); k++)
        for (int resident = 0; resident < 2; resident++) {
            struct glm_data data;
            struct gy_glm_problem problem = logistic;
            problem.loss = k == 2 ? GY_GLM_HINGE : GY_GLM_LOGISTIC;
            glm_data_random(&data, &kinds[k]);
            glm_data_cut(&data, 3, resident);
            struct solved one = solve(&data, &problem, 1);
            for (int threads = 2; threads <= 4; threads += 2) {
                struct solved more = solve(&data, &problem, threads);
                T_CHECK_MSG(memcmp(one.w, more.w, one.dims * sizeof *one.w) == 0 && one.at.primal == more.at.primal && one.at.gap == more.at.gap,
                            "%d threads: %.17g and %.17g", threads, one.at.primal, more.at.primal);
                free(more.w);
            }
            free(one.w);
            glm_data_free(&data);
        }
}

/* A weight of 2 is a row twice. */
static void test_weights(void)
{
    const struct glm_data_kind kind = { 60, 10, 6, 1, 0, 21 };
    struct glm_data once, twice;
    glm_data_random(&once, &kind);
    glm_data_random(&twice, &kind);
    once.weight = glm_data_grow(NULL, (size_t)once.rows * sizeof *once.weight);
    for (int64_t i = 0; i < once.rows; i++)
        once.weight[i] = 2;
    glm_data_cut(&once, 1, 1);
    struct gy_glm_problem problem = logistic, doubled = logistic;
    problem.l2 = 1;
    doubled.l2 = 0.5;
    struct solved a = solve(&once, &problem, 1), b = solve(&twice, &doubled, 1);
    T_CHECK_MSG(fabs(a.at.primal - 2 * b.at.primal) <= 1e-8 * a.at.primal, "%.12g and %.12g", a.at.primal, b.at.primal);
    free(a.w);
    free(b.w);
    glm_data_free(&once);
    glm_data_free(&twice);
}

/* The dual variables that are left give the bound: D computed anew from them. */
static void test_dual(void)
{
    const struct glm_data_kind kind = { 500, 40, 9, 1, 0, 31 };
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        struct glm_data data;
        glm_data_random(&data, &kind);
        struct gy_glm_problem problem = logistic;
        problem.loss = loss;
        float *const dual = glm_data_grow(NULL, (size_t)data.rows * sizeof *dual);
        struct solved found = solve_with(&data, &problem, 1, (struct gy_glm_stop){ .gap = 1e-9, .epochs = 100 }, dual);
        double u[64] = { 0 }, d = 0;
        for (int64_t i = 0; i < data.rows; i++) {
            const float y = gy_glm_y(&problem, data.view, (int32_t)i);
            d += gy_glm_conjugate(gy_glm_loss_of(&problem), (double)y, (double)dual[i], 1);
            for (int64_t e = data.start[i]; e < data.start[i + 1]; e++)
                u[data.id[e]] += (double)gy_glm_loss_of(&problem)->coefficient(y, dual[i], 1) * (double)data.value[e];
        }
        for (size_t j = 0; j < GY_COUNT(u); j++)
            d -= u[j] * u[j] / (2 * problem.l2);
        T_CHECK_MSG(fabs(d - found.at.dual) <= 1e-5 * fabs(d), "loss %d: %.12g, said to be %.12g", problem.loss, d, found.at.dual);
        free(dual);
        free(found.w);
        glm_data_free(&data);
    }
}

/* The matrix, products and pulls of one point, beside sums row by row. */
static void test_passes(void)
{
    const struct glm_data_kind kind = { 700, 23, 9, 1, 0, 41 };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    for (int columns = 0; columns < 2; columns++) {
        struct glm_data data;
        struct gy_pool *pool = NULL;
        struct gy_nw nw;
        struct gy_nw_sums sums;
        struct gy_glm_problem problem = logistic;
        problem.bias = 0.5;
        glm_data_random(&data, &kind);
        glm_data_normalise(&data);
        glm_data_cut(&data, 2, 1);
        T_CHECK(gy_pool_open(&pool, &alloc, 2, &err) == GY_OK);
        struct gy_glm_run run = { .problem = &problem, .feed = &data.feed, .alloc = &alloc, .pool = pool };
        T_CHECK(gy_nw_open(&nw, &run, columns, 1, &err) == GY_OK);
        float w[24], p[24];
        double u[24], diagonal[24], out[24], matrix[300], part[6], far[24], expect = 0;
        int32_t map[24];
        for (int j = 0; j < 24; j++) {
            w[j] = 0.3f * gy_rng_normal(1, 2, 3, (uint64_t)j);
            p[j] = gy_rng_normal(1, 2, 4, (uint64_t)j);
            map[j] = j == 2 ? 0 : j == 7 ? 1 : j == 23 ? 2 : -1;
        }
        T_CHECK(gy_nw_visit(&nw, w, u, diagonal, &sums, &err) == GY_OK);
        T_CHECK(gy_nw_product(&nw, p, out, &err) == GY_OK);
        T_CHECK(gy_nw_matrix(&nw, NULL, 24, matrix, &err) == GY_OK);
        T_CHECK(gy_nw_matrix(&nw, map, 3, part, &err) == GY_OK);
        for (size_t j = 0; j < 24; j++) {
            double sum = 0;
            for (size_t k = 0; k < 24; k++)
                sum += matrix[gy_nw_row_at(j < k ? j : k, 24) + (j < k ? k : j)] * (double)p[k];
            T_CHECK_MSG(fabs(sum - out[j]) < 1e-4, "column %zu: %.9g by the matrix, %.9g", j, sum, out[j]);
            T_CHECK_MSG(fabs(diagonal[j] - matrix[gy_nw_row_at(j, 24) + j]) < 1e-4, "diagonal %zu: %.9g", j, diagonal[j]);
        }
        T_CHECK(fabs(part[0] - diagonal[2]) < 1e-4 && fabs(part[1] - matrix[gy_nw_row_at(2, 24) + 7]) < 1e-4 && fabs(part[5] - diagonal[23]) < 1e-4);
        for (size_t j = 0; j < 24; j++) {
            const float old = w[j];
            struct gy_nw_sums up, down;
            w[j] = old + 1e-3f;
            T_CHECK(gy_nw_visit(&nw, w, far, NULL, &up, &err) == GY_OK);
            w[j] = old - 1e-3f;
            T_CHECK(gy_nw_visit(&nw, w, far, NULL, &down, &err) == GY_OK);
            w[j] = old;
            expect = -(up.loss - down.loss) / ((double)(old + 1e-3f) - (double)(old - 1e-3f));
            T_CHECK_MSG(fabs(expect - u[j]) < 1e-3 * (1 + fabs(expect)), "pull %zu: %.9g, by differences %.9g", j, u[j], expect);
        }
        gy_nw_close(&nw);
        gy_pool_close(pool);
        glm_data_free(&data);
    }
}

/* Solves a system of n equations by the factor. Returns the largest residual, each relative to the
 * scale of its equation. Scales go from 10^-wild to 10^wild. */
static double factor_residual(struct gy_pool *pool, size_t n, double wild)
{
    double *const a = glm_data_grow(NULL, n * (n + 1) / 2 * sizeof *a), *const kept = glm_data_grow(NULL, n * (n + 1) / 2 * sizeof *kept);
    double *const x = glm_data_grow(NULL, 4 * n * sizeof *x), *const b = x + n, *const scale = b + n, *const least = scale + n, worst = 0;
    for (size_t i = 0; i < n; i++)
        scale[i] = pow(10, wild * cos((double)i));
    for (size_t i = 0; i < n; i++) {
        x[i] = b[i] = (double)gy_rng_normal(5, 6, 7, i) * scale[i];
        for (size_t k = i; k < n; k++)
            a[gy_nw_row_at(i, n) + k] = (i == k ? 3.0 * sqrt((double)n) : (double)gy_rng_normal(5, 6, 8, i * n + k)) * scale[i] * scale[k];
        least[i] = 1e-12 * a[gy_nw_row_at(i, n) + i];
    }
    memcpy(kept, a, n * (n + 1) / 2 * sizeof *a);
    gy_nw_factor(pool, gy_cpu_bits(), a, n, least);
    gy_nw_solve(a, n, x);
    for (size_t i = 0; i < n; i++) {
        double sum = -b[i];
        for (size_t k = 0; k < n; k++)
            sum += kept[gy_nw_row_at(i < k ? i : k, n) + (i < k ? k : i)] * x[k];
        worst = fabs(sum) / scale[i] > worst ? fabs(sum) / scale[i] : worst;
    }
    free(a);
    free(kept);
    free(x);
    return worst;
}

/* Systems larger than a panel and than what one thread does alone, and of features of any scale. */
static void test_factor(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct gy_pool *pool = NULL;
    T_CHECK(gy_pool_open(&pool, &alloc, 2, &err) == GY_OK);
    for (size_t n = 1; n < 400; n = n * 3 + 2)
        for (int wild = 0; wild <= 12; wild += 6) {
            const double worst = factor_residual(pool, n, (double)wild);
            T_CHECK_MSG(worst < 1e-10, "%zu equations, scales to 10^%d: residual %.3g", n, wild, worst);
        }
    gy_pool_close(pool);
}

static int stop_at_two(void *user, const struct gy_glm_progress *progress)
{
    *(int *)user = progress->epoch;
    return progress->epoch == 2;
}

/* The hinge loss from its own dual variables: it exists at once, whatever w says of the sample. */
static void check_resumed(const struct gy_glm_run *like, const struct gy_glm_problem *problem)
{
    struct gy_error err = { 0 };
    struct gy_glm_run run = *like;
    run.problem = problem;
    run.dual = glm_data_grow(NULL, (size_t)run.feed->rows * sizeof *run.dual);
    run.stop = (struct gy_glm_stop){ .gap = 1e-7, .epochs = 200 };
    memset(run.w, 0, run.feed->features * sizeof *run.w);
    T_CHECK(gy_glm_newton()->solve(&run, &err) == GY_OK && run.why == GY_GLM_GAP);
    const int before = run.epochs;
    const double least = run.result.primal;
    run.has_dual = 1;
    T_CHECK(gy_glm_newton()->solve(&run, &err) == GY_OK && run.why == GY_GLM_GAP);
    T_CHECK_MSG(2 * run.epochs < before, "%d epochs, and %d when it goes on", before, run.epochs);
    T_CHECK_MSG(fabs(run.result.primal - least) <= 2e-7 * least, "%.12g and %.12g", least, run.result.primal);
    free(run.dual);
}

/* Rounding ends these runs. A smaller gap that is asked for never proves much less. */
static void test_least_gap(void)
{
    const struct glm_data_kind kind = { 80, 6, 6, 1, 0, 61 };
    for (int turn = 0; turn < 6; turn++) {
        struct glm_data data;
        struct glm_data_kind other = kind;
        struct gy_glm_problem problem = logistic;
        double best = HUGE_VAL;
        other.seed += (uint64_t)turn;
        glm_data_random(&data, &other);
        for (int64_t e = 0; e < data.entries; e++)
            data.value[e] *= ldexpf(1, (int)(5 * data.id[e]) - 12);
        problem.loss = GY_GLM_HINGE;
        problem.l2 = 1e-8;
        float *const dual = glm_data_grow(NULL, (size_t)data.rows * sizeof *dual);
        for (double gap = 1e-4; gap > 1e-13; gap *= 1e-3) {
            struct solved found = solve_with(&data, &problem, 1, (struct gy_glm_stop){ .gap = gap, .epochs = 1000 }, dual);
            T_CHECK_MSG(found.at.gap <= 100 * best, "turn %d: gap %.3g of %.6g where %g is asked for, %.3g before", turn, found.at.gap, found.at.primal, gap,
                        best);
            best = fmin(best, found.at.gap);
            free(found.w);
        }
        free(dual);
        glm_data_free(&data);
    }
}

static void test_stops(void)
{
    const struct glm_data_kind kind = { 6000, 40, 9, 1, 0, 51 };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct gy_pool *pool = NULL;
    struct glm_data data;
    float w[40] = { 0 };
    int seen = 0;
    const char *why = NULL;
    glm_data_random(&data, &kind);
    T_CHECK(gy_pool_open(&pool, &alloc, 1, &err) == GY_OK);
    struct gy_glm_run run = { .problem = &logistic, .feed = &data.feed, .alloc = &alloc, .pool = pool, .w = w, .progress = stop_at_two, .user = &seen };
    T_CHECK(gy_glm_newton()->solve(&run, &err) == GY_E_STOPPED && seen == 2);
    run.progress = NULL;
    run.stop.epochs = 1;
    memset(w, 0, sizeof w);
    T_CHECK(gy_glm_newton()->solve(&run, &err) == GY_OK && run.epochs == 1 && run.why == GY_GLM_EPOCHS);
    run.stop = (struct gy_glm_stop){ .target = 1.0001 * run.result.primal };
    memset(w, 0, sizeof w);
    T_CHECK(gy_glm_newton()->solve(&run, &err) == GY_OK && run.why == GY_GLM_TARGET);
    run.stop = (struct gy_glm_stop){ 0 };
    T_CHECK(gy_glm_newton()->solve(&run, &err) == GY_OK && run.why == GY_GLM_ROUNDING);
    const double least = run.result.primal;
    run.stop = (struct gy_glm_stop){ .epochs = 1 }; /* it goes on from there */
    T_CHECK(gy_glm_newton()->solve(&run, &err) == GY_OK && run.result.primal <= least * (1 + 1e-12));
    struct gy_glm_problem wrong = logistic;
    wrong.l2 = 0;
    T_CHECK(!gy_glm_newton()->fits(&wrong, &data.feed, &why) && why);
    wrong = logistic;
    wrong.loss = GY_GLM_HINGE;
    T_CHECK(gy_glm_newton()->fits(&wrong, &data.feed, &why));
    check_resumed(&run, &wrong);
    wrong.bias = wrong.bias_free = 1;
    T_CHECK(!gy_glm_newton()->fits(&wrong, &data.feed, &why) && why);
    data.feed.rows += 1; /* a feed that has fewer rows than it says */
    T_CHECK(gy_glm_newton()->solve(&run, &err) == GY_E_MISMATCH);
    gy_pool_close(pool);
    glm_data_free(&data);
}

int main(void)
{
    const char *const folder = getenv("GYRE_TEST_DATA");
    test_passes();
    test_factor();
    test_random();
    test_threads();
    test_weights();
    test_dual();
    test_least_gap();
    test_stops();
    if (folder) {
        char glm[900];
        snprintf(glm, sizeof glm, "%s/glm", folder);
        test_known(glm);
    } else {
        T_SKIP("the known optima: GYRE_TEST_DATA is not set");
    }
    T_END("t_glm_newton");
}
