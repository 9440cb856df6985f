/* SPDX-License-Identifier: MIT */
/* t_glm_l1.c: linear models with an l1 penalty: known optima with their numbers of weights that are
 * not 0, conditions of the optimum by plain sums. Also the same bits for any number of threads,
 * views that do not stay, a free bias, weights, elastic nets. */
#include "engine/glm/solve/l1_state.h"
#include "tests/glm_data.h"
#include "tests/t.h"

struct l1_solved {
    struct gy_glm_certificate at;
    int epochs;
    size_t dims, held; /* held: weights that are not 0 */
    float *w;
};

static const struct gy_glm_problem l1_logistic = { .loss = GY_GLM_LOGISTIC, .l1 = 1, .target = GY_GLM_TARGET_CLASS, .positive = 1, .class_weight = { 1, 1 } };

static struct l1_solved l1_solve_with(struct glm_data *data, const struct gy_glm_problem *problem, int threads, double gap)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct l1_solved out = { .dims = (size_t)data->feed.features + (problem->bias != 0) };
    struct gy_pool *pool = NULL;
    out.w = gy_alloc_take(&alloc, out.dims, sizeof *out.w);
    T_CHECK(gy_pool_open(&pool, &alloc, threads, &err) == GY_OK);
    struct gy_glm_run run = { .problem = problem, .feed = &data->feed, .alloc = &alloc, .pool = pool, .stop = { .gap = gap, .epochs = 200 }, .w = out.w };
    T_CHECK_MSG(gy_glm_l1()->solve(&run, &err) == GY_OK, "%s", err.text);
    out.at = run.result;
    out.epochs = run.epochs;
    for (size_t j = 0; j < out.dims; j++)
        out.held += out.w[j] != 0;
    gy_pool_close(pool);
    T_CHECK_MSG(out.at.gap >= 0 && out.at.dual <= out.at.primal, "primal %.12g dual %.12g gap %.3g", out.at.primal, out.at.dual, out.at.gap);
    return out;
}

struct l1_known {
    const char *file;
    int loss;
    double l1, optimum, within; /* within: relative */
    size_t held; /* at most: a9a has columns that are the same, so the least P has many points */
    size_t held_least;
};
static const struct l1_known l1_knowns[] = {
    { "heart_scale", GY_GLM_SQUARED, 10, 80.1033248244, 3e-9, 9, 9 },
    { "heart_scale", GY_GLM_LOGISTIC, 1, 102.667827527, 3e-9, 12, 12 },
    { "german_scale", GY_GLM_LOGISTIC, 1, 476.72561339, 3e-9, 23, 23 },
    { "cocoa_small.train", GY_GLM_SQUARED, 1, 326.242030371, 3e-9, 213, 213 },
    { "cocoa_small.train", GY_GLM_LOGISTIC, 1, 635.48612846, 3e-9, 76, 76 },
    { "a9a", GY_GLM_SQUARED, 10, 7380.46233505, 1e-9, 67, 62 },
    { "a9a", GY_GLM_LOGISTIC, 10, 10826.1667063, 1e-9, 53, 48 },
    { "a9a", GY_GLM_LOGISTIC, 1, 10558.7234, 1e-7, 98, 90 },
};

static void test_l1_known(const char *folder)
{
    struct glm_data data = { 0 };
    const char *read = "";
    for (size_t k = 0; k < GY_COUNT(l1_knowns); k++) {
        const struct l1_known *const known = &l1_knowns[k];
        if (strcmp(read, known->file) != 0) {
            glm_data_free(&data);
            if (glm_data_read(&data, folder, known->file, 0, 0) != 0) {
                T_SKIP(known->file);
                continue;
            }
            read = known->file;
        }
        struct gy_glm_problem problem = l1_logistic;
        problem.loss = known->loss;
        problem.l1 = known->l1;
        struct l1_solved found = l1_solve_with(&data, &problem, 2, 1e-9);
        printf("%s l1 %g: %.12g, gap %.2g, %d steps, %zu held\n", known->file, known->l1, found.at.primal, found.at.gap, found.epochs, found.held);
        T_CHECK_MSG(fabs(found.at.primal - known->optimum) <= known->within * known->optimum, "%s: optimum %.12g", known->file, known->optimum);
        T_CHECK_MSG(found.at.gap <= 1e-6 * found.at.primal, "%s: gap %.3g", known->file, found.at.gap);
        T_CHECK_MSG(found.at.dual <= known->optimum * (1 + known->within), "%s: bound %.15g", known->file, found.at.dual);
        T_CHECK_MSG(found.held <= known->held && found.held >= known->held_least, "%s: %zu weights are not 0, expected %zu", known->file, found.held,
                    known->held);
        free(found.w);
    }
    glm_data_free(&data);
}

/* Computes the gradient of losses and l2 by plain sums, and checks the optimality conditions of
 * every weight. */
static void check_conditions(const struct glm_data *data, const struct gy_glm_problem *problem, const struct l1_solved *found, const char *name, size_t number)
{
    double *const g = glm_data_grow(NULL, found->dims * sizeof *g);
    double primal = 0, scale = 1;
    memset(g, 0, found->dims * sizeof *g);
    for (int v = 0; v < data->views; v++)
        for (int32_t i = 0; i < data->view[v].count; i++) {
            const struct gy_rows *const rows = &data->view[v];
            const double same = rows->scale ? (double)rows->scale[i] : 1;
            double z = problem->bias != 0 ? problem->bias * (double)found->w[data->feed.features] : 0, first, second;
            for (uint32_t k = gy_rows_begin(rows, i); k < gy_rows_end(rows, i); k++)
                z += same * (rows->value ? (double)rows->value[k] : 1) * (double)found->w[rows->id[k]];
            const float y = gy_glm_y(problem, rows, i);
            const double c = (double)gy_glm_c(problem, rows, i, y);
            gy_glm_loss_of(problem)->slopes((double)y, z, &first, &second);
            primal += c * gy_glm_loss_of(problem)->value((double)y, z);
            for (uint32_t k = gy_rows_begin(rows, i); k < gy_rows_end(rows, i); k++)
                g[rows->id[k]] += c * first * same * (rows->value ? (double)rows->value[k] : 1);
            if (problem->bias != 0)
                g[data->feed.features] += c * first * problem->bias;
        }
    for (size_t j = 0; j < found->dims; j++) {
        const int is_free = j == data->feed.features && problem->bias_free;
        const double w = (double)found->w[j], l1 = is_free ? 0 : problem->l1, l2 = is_free ? 0 : problem->l2;
        primal += 0.5 * l2 * w * w + l1 * fabs(w);
        g[j] += l2 * w;
        scale = fabs(g[j]) > scale ? fabs(g[j]) : scale;
        const double off = w > 0 ? fabs(g[j] + l1) : w < 0 ? fabs(g[j] - l1) : fabs(g[j]) - l1;
        T_CHECK_MSG(off <= (is_free ? 0.2 : 2e-3 * scale), "%s %zu: weight %zu is %.6g, its gradient %.9g, l1 %g", name, number, j, w, g[j], l1);
    }
    T_CHECK_MSG(fabs(primal - found->at.primal) <= 1e-9 * fabs(primal), "%s %zu: P %.15g, said to be %.15g", name, number, primal, found->at.primal);
    free(g);
}

/* The solver is for every loss but the hinge loss. */
static int l1_takes(int loss)
{
    struct gy_glm_problem problem = l1_logistic;
    const char *why = NULL;
    problem.loss = loss;
    const int takes = gy_glm_l1()->fits(&problem, NULL, &why);
    T_CHECK(takes == (loss != GY_GLM_HINGE) && takes == !why);
    return takes;
}

/* Every loss, few and many features, with weights, scales, each kind of bias, with and without
 * l2. */
static void test_l1_random(void)
{
    static const struct glm_data_kind kinds[] = {
        { 400, 30, 12, 0, 0, 1 }, { 300, 3000, 20, 1, 0, 3 }, { 9000, 60, 10, 0, 0, 4 }, { 300, 3000, 20, 0, 1, 5 }, { 1, 3, 3, 1, 1, 6 },
    };
    for (size_t k = 0; k < GY_COUNT(kinds); k++)
        for (int l = 0; l < GY_GLM_LOSSES * 3; l++) {
            struct glm_data data;
            const int regression = kinds[k].regression && l / 3 == GY_GLM_SQUARED, bias = l % 3;
            if (!l1_takes(l / 3))
                continue;
            glm_data_random(&data, &kinds[k]);
            struct gy_glm_problem problem = l1_logistic;
            problem.loss = l / 3;
            problem.l1 = 0.5 + (double)(l % 4);
            problem.l2 = l % 2 ? 0.3 : 0;
            problem.target = regression ? GY_GLM_TARGET_VALUE : GY_GLM_TARGET_CLASS;
            problem.bias = bias ? 1.5 : 0;
            problem.bias_free = bias == 2;
            problem.class_weight[0] = l % 2 ? 2.5f : 1;
            if (l % 2 == 0) {
                data.weight = glm_data_grow(NULL, (size_t)data.rows * sizeof *data.weight);
                for (int64_t i = 0; i < data.rows; i++)
                    data.weight[i] = 0.5f * (float)(1 + i % 5);
                glm_data_cut(&data, data.views, 1);
            }
            if (k % 2)
                glm_data_normalise(&data);
            struct l1_solved found = l1_solve_with(&data, &problem, 1, 1e-8);
            T_CHECK_MSG(found.at.gap <= 5e-6 * fabs(found.at.primal) + 1e-6, "kind %zu problem %d: P %.12g gap %.3g", k, l, found.at.primal, found.at.gap);
            check_conditions(&data, &problem, &found, "kind", k * 100 + (size_t)l);
            glm_data_cut(&data, data.rows < 5 ? 1 : 5, 0);
            struct l1_solved again = l1_solve_with(&data, &problem, 2, 1e-8);
            T_CHECK_MSG(fabs(again.at.primal - found.at.primal) <= 1e-6 * fabs(found.at.primal) + 1e-6, "kind %zu problem %d: %.12g and %.12g", k, l,
                        found.at.primal, again.at.primal);
            free(found.w);
            free(again.w);
            glm_data_free(&data);
        }
}

static void test_l1_threads(void)
{
    static const struct glm_data_kind kinds[] = { { 20000, 50, 8, 0, 0, 11 }, { 1000, 4000, 15, 1, 0, 12 } };
    for (size_t k = 0; k < GY_COUNT(kinds); k++)
        for (int resident = 0; resident < 2; resident++) {
            struct glm_data data;
            glm_data_random(&data, &kinds[k]);
            glm_data_cut(&data, 3, resident);
            struct l1_solved one = l1_solve_with(&data, &l1_logistic, 1, 1e-7);
            for (int threads = 2; threads <= 4; threads += 2) {
                struct l1_solved more = l1_solve_with(&data, &l1_logistic, threads, 1e-7);
                T_CHECK_MSG(memcmp(one.w, more.w, one.dims * sizeof *one.w) == 0 && one.at.primal == more.at.primal && one.at.gap == more.at.gap,
                            "%d threads: %.17g and %.17g", threads, one.at.primal, more.at.primal);
                free(more.w);
            }
            free(one.w);
            glm_data_free(&data);
        }
}

/* Rows with many features of the working set. Its matrix costs many visits of the columns, and
 * later steps use it again. */
static void test_l1_kept(void)
{
    static const struct glm_data_kind kind = { 4000, 800, 90, 0, 0, 31 };
    struct glm_data data;
    struct gy_glm_problem problem = l1_logistic;
    glm_data_random(&data, &kind);
    glm_data_cut(&data, 3, 1);
    problem.l1 = 4;
    struct l1_solved one = l1_solve_with(&data, &problem, 1, 1e-6), more = l1_solve_with(&data, &problem, 3, 1e-6);
    T_CHECK_MSG(one.at.gap <= 1e-6 * one.at.primal && one.epochs <= 12, "gap %.3g of %.9g after %d steps", one.at.gap, one.at.primal, one.epochs);
    T_CHECK(memcmp(one.w, more.w, one.dims * sizeof *one.w) == 0 && one.at.gap == more.at.gap);
    check_conditions(&data, &problem, &one, "kept", 0);
    free(one.w);
    free(more.w);
    glm_data_free(&data);
}

/* Groups of features of which every row has one. Their sum is constant, and coordinate descent
 * alone takes thousands of rounds. */
static void test_l1_groups(void)
{
    const int64_t rows = 4000;
    struct glm_data data = { .rows = rows, .entries = rows * 6 };
    data.start = glm_data_grow(NULL, (size_t)(rows + 1) * sizeof *data.start);
    data.label = glm_data_grow(NULL, (size_t)rows * sizeof *data.label);
    data.id = glm_data_grow(NULL, (size_t)data.entries * sizeof *data.id);
    for (int64_t i = 0; i <= rows; i++)
        data.start[i] = 6 * i;
    for (int64_t e = 0; e < data.entries; e++) {
        const float u = gy_rng_uniform(7, 1, 0, (uint64_t)e);
        data.id[e] = (uint32_t)(e % 6) * 20 + (uint32_t)(u * u * 20);
    }
    for (int64_t i = 0; i < rows; i++) {
        float score = gy_rng_normal(7, 2, 0, (uint64_t)i) - 1;
        for (int k = 0; k < 6; k++)
            score += 0.7f * gy_rng_normal(7, 3, 0, data.id[6 * i + k]);
        data.label[i] = score > 0 ? 1.0f : -1.0f;
    }
    glm_data_settle(&data, 120, 1);
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        if (!l1_takes(loss))
            continue;
        struct gy_glm_problem problem = l1_logistic;
        problem.loss = loss;
        problem.l1 = 0.5;
        struct l1_solved found = l1_solve_with(&data, &problem, 1, 1e-9);
        T_CHECK_MSG(found.at.gap <= 1e-6 * found.at.primal && found.epochs <= 25, "loss %d: gap %.3g after %d steps", problem.loss, found.at.gap, found.epochs);
        free(found.w);
    }
    glm_data_free(&data);
}

/* ---- fields of more values than a matrix is made for ---- */

enum { FIELDS = 26, FIELD_VALUES = 40 };

/* Every row has one value of each field, low ones more often. One row in five has no value of the
 * last field. */
static void fields_data(struct glm_data *data, int64_t rows)
{
    *data = (struct glm_data){ .rows = rows };
    data->start = glm_data_grow(NULL, (size_t)(rows + 1) * sizeof *data->start);
    data->label = glm_data_grow(NULL, (size_t)rows * sizeof *data->label);
    data->id = glm_data_grow(NULL, (size_t)rows * FIELDS * sizeof *data->id);
    for (int64_t i = 0; i < rows; i++) {
        float score = gy_rng_normal(8, 2, 0, (uint64_t)i) - 1;
        data->start[i] = data->entries;
        for (int k = 0; k < FIELDS - (i % 5 == 0); k++) {
            const float u = gy_rng_uniform(8, 1, (uint64_t)k, (uint64_t)i);
            const uint32_t id = (uint32_t)(k * FIELD_VALUES) + (uint32_t)(u * u * u * FIELD_VALUES);
            data->id[data->entries++] = id;
            score += 0.7f * gy_rng_normal(8, 3, 0, id);
        }
        data->label[i] = score > 0 ? 1.0f : -1.0f;
    }
    data->start[rows] = data->entries;
    glm_data_settle(data, FIELDS * FIELD_VALUES, 1);
}

/* Each field is found to be a group, the bias another. */
static void check_fields(struct glm_data *data, int bias)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const size_t dims = (size_t)data->feed.features + (size_t)bias;
    struct gy_error err = { 0 };
    struct gy_pool *pool = NULL;
    struct gy_nw nw;
    struct gy_glm_problem problem = l1_logistic;
    int useful = 0, other = 0;
    problem.bias = bias;
    T_CHECK(gy_pool_open(&pool, &alloc, 1, &err) == GY_OK);
    struct gy_glm_run run = { .problem = &problem, .feed = &data->feed, .alloc = &alloc, .pool = pool };
    T_CHECK(gy_nw_open(&nw, &run, 1, 0, &err) == GY_OK);
    struct gy_l1_by_columns model = { .nw = &nw, .columns = nw.columns, .features = nw.features, .bias = bias, .row_count = nw.rows, .count = dims };
    model.at = glm_data_grow(NULL, dims * sizeof *model.at);
    model.line = glm_data_grow(NULL, dims * sizeof *model.line);
    for (size_t j = 0; j < dims; j++)
        model.at[j] = (struct gy_l1_coordinate){ .id = (uint32_t)j, .v = 1 };
    T_CHECK(gy_l1_find_groups(&model, &useful, &err) == GY_OK && useful);
    uint64_t seen = 0;
    for (size_t j = 0; j < nw.features; j++) {
        const int group = model.groups->of[j];
        other += nw.columns->start[j + 1] > nw.columns->start[j] && group != model.groups->of[j / FIELD_VALUES * FIELD_VALUES];
        seen |= (uint64_t)1 << (group - 1);
    }
    T_CHECK_MSG(other == 0, "%d features are in another group than their field's first", other);
    T_CHECK_MSG(seen == (((uint64_t)1 << FIELDS) - 1) << bias, "groups %llx", (unsigned long long)seen);
    T_CHECK(!bias || model.groups->of[nw.features] == 1);
    free(model.at);
    free(model.line);
    gy_nw_close(&nw);
    gy_pool_close(pool);
}

/* The change of the model when the values move, by plain sums: slope, curve of all rows, l1. */
static double sampled_change(const struct gy_l1_by_columns *model, const double *before)
{
    double sum = 0;
    for (size_t j = 0; j < model->count; j++)
        sum += model->at[j].g * (model->at[j].v - before[j]) + model->at[j].l1 * (fabs(model->at[j].v) - fabs(before[j]));
    for (int64_t i = 0; i < model->row_count; i++) {
        const size_t j = (size_t)(i / 2 % 2);
        const double move = model->at[j].v - before[j];
        sum += 0.5 * (double)model->rows[i].curve * move * move;
    }
    return sum;
}

/* With this many rows the groups' matrix is made of every second one. If these understate the
 * curve, the step would raise the model, so the best share of it is taken. odd: the curve of the
 * rows that are left out, relative to that of the others; share: the best share then. */
static void check_sampled(double odd, double share)
{
    enum { ROWS = 40000 };
    const double l1 = 1, pull = 4, step = 1; /* (pull - 2 l1) / E; two features, E 2 */
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct gy_pool *pool = NULL;
    struct gy_nw nw;
    struct glm_data data = { .rows = ROWS, .entries = ROWS };
    data.start = glm_data_grow(NULL, (ROWS + 1) * sizeof *data.start);
    data.label = glm_data_grow(NULL, ROWS * sizeof *data.label);
    data.id = glm_data_grow(NULL, ROWS * sizeof *data.id);
    for (int64_t i = 0; i <= ROWS; i++)
        data.start[i] = i;
    for (int64_t i = 0; i < ROWS; i++) {
        data.id[i] = (uint32_t)(i / 2 % 2);
        data.label[i] = i % 3 ? 1.0f : -1.0f;
    }
    glm_data_settle(&data, 2, 1);
    T_CHECK(gy_pool_open(&pool, &alloc, 1, &err) == GY_OK);
    struct gy_glm_run run = { .problem = &l1_logistic, .feed = &data.feed, .alloc = &alloc, .pool = pool };
    T_CHECK(gy_nw_open(&nw, &run, 1, 0, &err) == GY_OK);
    struct gy_l1_coordinate at[2];
    struct gy_l1_line line[2];
    float narrow[2] = { 0 };
    uint32_t order[2];
    double p[2];
    const double before[2] = { 1, 1 };
    struct gy_l1_by_columns model = { .nw = &nw, .columns = nw.columns, .features = nw.features, .row_count = nw.rows, .count = 2, .room = 2, .at = at,
                                      .line = line, .narrow = narrow, .order = order, .p = p };
    int useful;
    model.rows = glm_data_grow(NULL, ROWS * sizeof *model.rows);
    for (int64_t i = 0; i < ROWS; i++) {
        nw.curve[i] = (i % 2 ? (float)odd : 1.0f) / 20000;
        model.rows[i] = (struct gy_l1_row){ nw.curve[i], 0 };
    }
    for (uint32_t j = 0; j < 2; j++)
        at[j] = (struct gy_l1_coordinate){ .id = j, .w = 1, .v = 1, .g = -pull / 2, .l1 = l1 };
    T_CHECK(gy_l1_find_groups(&model, &useful, &err) == GY_OK && model.groups->of[0] == 1 && model.groups->of[1] == 1);
    T_CHECK(gy_l1_shift_groups(&model, &err) == GY_OK);
    const double change = sampled_change(&model, before), moved = share * step;
    const double best = -(pull - 2 * l1) * moved + 0.5 * (1 + odd) * moved * moved;
    T_CHECK_MSG(fabs(at[0].v - 1 - moved) < 1e-4 && at[0].v == at[1].v, "curve %g: moved by %.9g and %.9g, not %.9g", odd, at[0].v - 1, at[1].v - 1, moved);
    T_CHECK_MSG(change < 0 && fabs(change - best) < 1e-4, "curve %g: the model changes by %.9g, not %.9g", odd, change, best);
    T_CHECK_MSG(fabs((double)model.rows[0].slope - (double)nw.curve[0] * moved) < 1e-4 * (double)nw.curve[0], "curve %g: a row's slope is %.9g", odd,
                (double)model.rows[0].slope);
    free(model.rows);
    gy_nw_close(&nw);
    gy_pool_close(pool);
    glm_data_free(&data);
}

static void test_l1_sampled(void)
{
    check_sampled(1, 1);
    check_sampled(2.5, 1);        /* too long, but better than nothing: as it is */
    check_sampled(3.5, 2.0 / 4.5); /* it would raise the model */
    check_sampled(5, 1.0 / 3);
    check_sampled(0, 1);
}

static void test_l1_fields(void)
{
    struct glm_data data;
    fields_data(&data, 6000);
    check_fields(&data, 0);
    check_fields(&data, 1);
    for (int l = 0; l < GY_GLM_LOSSES * 3; l++) {
        struct gy_glm_problem problem = l1_logistic;
        if (!l1_takes(l / 3))
            continue;
        problem.loss = l / 3;
        problem.l1 = 5;
        problem.bias = l % 3 > 0;
        problem.bias_free = l % 3 == 2;
        struct l1_solved found = l1_solve_with(&data, &problem, 1, 1e-7), again = l1_solve_with(&data, &problem, 3, 1e-7);
        T_CHECK_MSG(found.at.gap <= 2e-6 * found.at.primal && found.epochs <= 20, "loss %d, bias %d: gap %.3g of %.9g after %d steps", problem.loss,
                    l % 3, found.at.gap, found.at.primal, found.epochs);
        T_CHECK_MSG(memcmp(found.w, again.w, found.dims * sizeof *found.w) == 0 && found.at.gap == again.at.gap, "loss %d: 3 threads: %.17g and %.17g",
                    problem.loss, found.at.primal, again.at.primal);
        check_conditions(&data, &problem, &found, "fields", (size_t)l);
        free(found.w);
        free(again.w);
    }
    glm_data_free(&data);
}

/* ---- columns that nearly say the same ---- */

enum { FACE_ROWS = 900, FACE_COLUMNS = 70, FACE_LONG = 25 };

/* Every row has so many columns beside each other: two neighbours differ in few rows. */
static void face_data(struct glm_data *data, int with_values)
{
    *data = (struct glm_data){ .rows = FACE_ROWS, .entries = (int64_t)FACE_ROWS * FACE_LONG };
    data->start = glm_data_grow(NULL, (FACE_ROWS + 1) * sizeof *data->start);
    data->label = glm_data_grow(NULL, FACE_ROWS * sizeof *data->label);
    data->id = glm_data_grow(NULL, (size_t)data->entries * sizeof *data->id);
    if (with_values)
        data->value = glm_data_grow(NULL, (size_t)data->entries * sizeof *data->value);
    for (int64_t i = 0; i < FACE_ROWS; i++) {
        const uint32_t first = (uint32_t)(gy_rng_uniform(9, 1, 0, (uint64_t)i) * (FACE_COLUMNS - FACE_LONG + 1));
        float score = gy_rng_normal(9, 2, 0, (uint64_t)i);
        data->start[i] = i * FACE_LONG;
        for (uint32_t k = 0; k < FACE_LONG; k++) {
            const float x = with_values ? 0.5f + gy_rng_uniform(9, 4, k, (uint64_t)i) : 1;
            data->id[i * FACE_LONG + k] = first + k;
            score += 0.4f * x * gy_rng_normal(9, 3, 0, first + k);
            if (with_values)
                data->value[i * FACE_LONG + k] = x;
        }
        data->label[i] = score > 0 ? 1.0f : -1.0f;
    }
    data->start[FACE_ROWS] = data->entries;
    glm_data_settle(data, FACE_COLUMNS, 1);
}

/* The model at w, nothing moved yet. */
static void face_begin(struct gy_l1_by_columns *model, const struct gy_glm_problem *problem, const float *w, const double *u)
{
    for (size_t j = 0; j < model->count; j++) {
        const int is_free = problem->bias_free && j == model->features;
        const double at = (double)w[j], l2 = is_free ? 0 : problem->l2;
        model->at[j] = (struct gy_l1_coordinate){ (uint32_t)j, at, at, l2 * at - u[j], is_free ? 0 : problem->l1, l2, -1 };
        model->narrow[j] = 0;
    }
    for (int64_t i = 0; i < model->row_count; i++)
        model->rows[i] = (struct gy_l1_row){ model->nw->curve[i], 0 };
}

/* Returns how far coordinates are from their optimality conditions, by the product over rows.
 * *slopes: the relative error of the slopes that rows are said to have. */
static double face_off(const struct gy_l1_by_columns *model, double *slopes)
{
    float p[FACE_COLUMNS + 1];
    double out[FACE_COLUMNS + 1], sum = 0, size = 0;
    struct gy_error err = { 0 };
    *slopes = 0;
    for (size_t j = 0; j < model->count; j++)
        p[j] = (float)(model->at[j].v - model->at[j].w);
    T_CHECK(gy_nw_product(model->nw, p, out, &err) == GY_OK);
    for (size_t j = 0; j < model->count; j++) {
        const struct gy_l1_coordinate *const at = &model->at[j];
        const double r = at->g + out[j] + at->l2 * (at->v - at->w);
        sum += at->v > 0 ? fabs(r + at->l1) : at->v < 0 ? fabs(r - at->l1) : fmax(0, fabs(r) - at->l1);
    }
    T_CHECK(gy_nw_forward(model->nw, p, &err) == GY_OK);
    for (int64_t i = 0; i < model->row_count; i++) {
        *slopes += fabs((double)model->rows[i].slope - (double)model->nw->product[i]);
        size += fabs((double)model->nw->product[i]);
    }
    *slopes /= size > 0 ? size : 1;
    return sum;
}

static void check_face(struct glm_data *data, int bias, double l1, int most)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_glm_problem problem = l1_logistic;
    struct gy_error err = { 0 };
    struct gy_pool *pool = NULL;
    struct gy_nw nw;
    struct gy_nw_sums sums;
    struct gy_l1_coordinate at[FACE_COLUMNS + 1];
    struct gy_l1_line line[FACE_COLUMNS + 1];
    struct gy_l1_row rows[FACE_ROWS];
    uint32_t order[FACE_COLUMNS + 1];
    float w[FACE_COLUMNS + 1], narrow[FACE_COLUMNS + 1];
    double u[FACE_COLUMNS + 1], own[5][FACE_COLUMNS + 1], slopes;
    problem.l1 = l1;
    problem.l2 = 0.01;
    problem.bias = bias ? 1.5 : 0;
    problem.bias_free = bias == 2;
    for (size_t j = 0; j < GY_COUNT(w); j++)
        w[j] = j % 3 ? 0.2f * gy_rng_normal(9, 5, 0, j) : 0;
    T_CHECK(gy_pool_open(&pool, &alloc, 2, &err) == GY_OK);
    struct gy_glm_run run = { .problem = &problem, .feed = &data->feed, .alloc = &alloc, .pool = pool, .w = w };
    T_CHECK(gy_nw_open(&nw, &run, 1, 0, &err) == GY_OK && gy_nw_visit(&nw, w, u, NULL, &sums, &err) == GY_OK);
    struct gy_l1_by_columns model = { .nw = &nw, .columns = nw.columns, .features = nw.features, .bias = problem.bias, .row_count = nw.rows,
        .count = FACE_COLUMNS + (bias != 0), .at = at, .line = line, .rows = rows, .order = order, .narrow = narrow,
        .r = own[0], .p = own[1], .q = own[2], .inverse = own[3], .first = own[4] };
    int done = 0, cycles = 0;
    face_begin(&model, &problem, w, u);
    const double enough = 1e-4 * face_off(&model, &slopes);
    while (!done && cycles < 40) {
        face_begin(&model, &problem, w, u);
        T_CHECK(gy_l1_descend(&model, enough, ++cycles, 0, &done, &err) == GY_OK);
    }
    const double off = face_off(&model, &slopes);
    T_CHECK_MSG(done && cycles > 1 && cycles <= most, "bias %d, l1 %g: done %d after %d cycles of rounds and a face, %d are usual", bias, l1, done, cycles,
                most);
    T_CHECK_MSG(off <= 1.5 * enough && slopes < 1e-4, "bias %d, l1 %g: off %g of %g, rows %g off", bias, l1, off, enough, slopes);
    gy_nw_close(&nw);
    gy_pool_close(pool);
}

static void test_l1_face(void)
{
    for (int form = 0; form < 2; form++) {
        struct glm_data data;
        face_data(&data, form);
        for (int bias = 0; bias < 3; bias++) {
            check_face(&data, bias, 0.01, 7);
            check_face(&data, bias, 3, 12);
        }
        glm_data_free(&data);
    }
}

/* Above the largest pull at 0 nothing is held; a little below it something is. */
static void test_l1_first(void)
{
    const struct glm_data_kind kind = { 500, 40, 9, 0, 0, 61 };
    struct glm_data data;
    double pull[40] = { 0 }, most = 0;
    glm_data_random(&data, &kind);
    for (int64_t i = 0; i < data.rows; i++)
        for (int64_t e = data.start[i]; e < data.start[i + 1]; e++)
            pull[data.id[e]] += 0.5 * (double)data.label[i];
    for (size_t j = 0; j < GY_COUNT(pull); j++)
        most = fabs(pull[j]) > most ? fabs(pull[j]) : most;
    struct gy_glm_problem problem = l1_logistic;
    problem.l1 = most * 1.0001;
    struct l1_solved none = l1_solve_with(&data, &problem, 1, 1e-9);
    T_CHECK(none.held == 0 && fabs(none.at.primal - (double)data.rows * log(2)) < 1e-9 * none.at.primal);
    problem.l1 = most * 0.99;
    struct l1_solved some = l1_solve_with(&data, &problem, 1, 1e-9);
    T_CHECK(some.held >= 1 && some.at.primal < none.at.primal);
    free(none.w);
    free(some.w);
    glm_data_free(&data);
}

int main(void)
{
    const char *const folder = getenv("GYRE_TEST_DATA");
    test_l1_first();
    test_l1_groups();
    test_l1_fields();
    test_l1_face();
    test_l1_sampled();
    test_l1_random();
    test_l1_threads();
    test_l1_kept();
    if (folder) {
        char glm[900];
        snprintf(glm, sizeof glm, "%s/glm", folder);
        test_l1_known(glm);
    } else {
        T_SKIP("the known optima: GYRE_TEST_DATA is not set");
    }
    T_END("t_glm_l1");
}
