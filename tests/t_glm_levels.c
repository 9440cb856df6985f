/* SPDX-License-Identifier: MIT */
/* t_glm_levels.c: ranks above threads. Any hierarchy of them reaches the same certified optimum,
 * and all ranks have the same weights, bit for bit. A forced schedule gives the same run again.
 * Optima are known ones where the data sets are here; otherwise rows come by formula. */
#include "engine/glm/solve/sdca_state.h"
#include "engine/glm/glm_stream.h"
#include "engine/gyre_glm.h"
#include "tests/glm_data.h"
#include "tests/glm_ranks.h"

enum { LV_RANKS = 4, LV_WIDTH = 16384 };

struct lv_set {
    const char *file;
    int zero_based;
    double l2, optimum; /* 0: unknown */
};

struct lv_left {
    struct gy_glm_certificate at;
    int status, rounds, epochs;
    int64_t rows;
    double sigma;
    char why[16], text[480];
    float w[LV_WIDTH];
};

struct lv_case {
    struct glm_data *data;
    const struct lv_set *set;
    int ranks, threads, views, loss;
    double gap;
    struct lv_left *left; /* [LV_RANKS], shared */
};

/* This rank's rows alone, in so many views that are resident or not. */
static void lv_part(struct glm_data *data, int rank, int ranks, int views)
{
    int64_t first, end;
    const int64_t all = data->rows;
    gy_glm_deal(all, rank, ranks, &first, &end);
    data->start += first;
    data->label += first;
    data->rows = end - first;
    data->entries = data->start[data->rows] - data->start[0];
    glm_data_cut(data, views > 0 ? views : -views, views > 0);
    data->feed.all_rows = all;
}

static int lv_rank(void *user, struct gyre_job *job, int rank)
{
    const struct lv_case *const c = user;
    struct lv_left *const left = &c->left[rank];
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_glm_problem problem = { .loss = c->loss, .l2 = c->set->l2, .target = GY_GLM_TARGET_CLASS, .positive = 1, .class_weight = { 1, 1 } };
    struct gy_glm_run run = { .problem = &problem, .feed = &c->data->feed, .alloc = &alloc, .job = job, .stop = { .gap = c->gap, .epochs = 20000 }, .seed = 3,
                              .w = left->w };
    struct gy_error err = { 0 };
    memset(left, 0, sizeof *left);
    lv_part(c->data, rank, c->ranks, c->views);
    left->status = c->data->feed.features <= LV_WIDTH ? gy_pool_open(&run.pool, &alloc, c->threads, &err) : GY_E_ARG;
    if (left->status == GY_OK)
        left->status = gy_glm_sdca()->solve(&run, &err);
    gy_pool_close(run.pool);
    left->at = run.result;
    left->rounds = run.rounds;
    left->epochs = run.epochs;
    left->rows = c->data->rows;
    snprintf(left->text, sizeof left->text, "%s", err.text);
    snprintf(left->why, sizeof left->why, "%s", gy_glm_why_name(run.why) ? gy_glm_why_name(run.why) : "?");
    return left->status == GY_OK;
}

/* All ranks of one run; its objective. */
static double lv_run(const struct lv_case *c)
{
    struct lv_case copy = *c;
    const struct lv_left *const l = c->left;
    const char *const name = c->set->file ? c->set->file : "rows by formula";
    int64_t rows = 0;
    int same = 1;
    T_CHECK_MSG(gr_run(c->ranks, lv_rank, &copy), "%s: %d x %d: %d %s", name, c->ranks, c->threads, l->status, l->text);
    for (int r = 0; r < c->ranks; r++) {
        rows += l[r].rows;
        same &= memcmp(l[r].w, l[0].w, sizeof l->w) == 0 && memcmp(&l[r].at, &l[0].at, sizeof l->at) == 0 && l[r].epochs == l[0].epochs &&
                strcmp(l[r].why, "gap") == 0;
    }
    T_CHECK_MSG(same && rows == c->data->rows, "%s: %d x %d: ranks differ, or ended by '%s'", name, c->ranks, c->threads, l->why);
    T_CHECK_MSG(l->at.gap >= -1e-9 * l->at.primal && l->at.gap <= c->gap * l->at.primal, "%s: %d x %d: gap %g", name, c->ranks, c->threads, l->at.gap);
    printf("%-24s l2 %-4g %d ranks x %d threads: %.7f after %d passes, %d sums\n", name, c->set->l2, c->ranks, c->threads, l->at.primal, l->epochs, l->rounds);
    return l->at.primal;
}

static void lv_check_set(struct glm_data *data, const struct lv_set *set, struct lv_left *left)
{
    static const int shape[][3] = { { 1, 1, 1 }, { 4, 1, 1 }, { 1, 4, 1 }, { 2, 2, 1 }, { 4, 4, 1 } };
    double want = set->optimum;
    for (size_t i = 0; i < GY_COUNT(shape); i++) {
        const struct lv_case c = { .data = data, .set = set, .ranks = shape[i][0], .threads = shape[i][1], .views = shape[i][2], .gap = 5e-7, .left = left };
        const double found = lv_run(&c);
        if (want == 0)
            want = found;
        T_CHECK_MSG(fabs(found - want) <= 1e-6 * want, "%d x %d: %.9g, the optimum is %.9g", c.ranks, c.threads, found, want);
    }
}

/* The same bits again, whatever the machine does meanwhile. */
static void lv_check_again(struct glm_data *data, const struct lv_set *set, struct lv_left *left)
{
    struct lv_left *const first = malloc(sizeof *first);
    for (int k = 0; k < 2; k++) {
        const struct lv_case c = { .data = data, .set = set, .ranks = 3, .threads = 2, .views = -2, .gap = 1e-4, .left = left };
        lv_run(&c);
        if (k == 0)
            *first = left[0];
    }
    T_CHECK(memcmp(first->w, left[0].w, sizeof first->w) == 0 && first->epochs == left[0].epochs && first->rounds == left[0].rounds);
    free(first);
}

static void lv_check_formula(struct lv_left *left)
{
    static const struct lv_set set = { NULL, 0, 5, 0 };
    const struct glm_data_kind kind = { .rows = 3000, .features = 700, .most = 24, .values = 1, .seed = 11 };
    struct glm_data data;
    double few_found[2];
    glm_data_random(&data, &kind);
    lv_check_set(&data, &set, left);
    lv_check_again(&data, &set, left);
    /* other losses, and a rank without rows */
    for (int loss = GY_GLM_LOGISTIC; loss < GY_GLM_LOSSES; loss++) {
        struct lv_case c = { .data = &data, .set = &set, .ranks = 1, .threads = 1, .views = 1, .loss = loss, .gap = 1e-5, .left = left };
        const double alone = lv_run(&c);
        c.ranks = 4;
        c.threads = 2;
        T_CHECK(fabs(lv_run(&c) - alone) <= 2e-5 * alone);
    }
    glm_data_free(&data);
    const struct glm_data_kind few = { .rows = 3, .features = 10, .most = 8, .seed = 12 };
    glm_data_random(&data, &few);
    for (int ranks = 1; ranks <= LV_RANKS; ranks += LV_RANKS - 1) {
        const struct lv_case c = { .data = &data, .set = &set, .ranks = ranks, .threads = 2, .views = 1, .gap = 1e-6, .left = left };
        few_found[ranks > 1] = lv_run(&c);
    }
    T_CHECK(fabs(few_found[0] - few_found[1]) <= 2e-6 * few_found[0]);
    glm_data_free(&data);
}

/* ---- rows that each rank could fit alone ---- */

/* Features that nearly all rows have, and many that few have. Ranks agree about w long before they
 * agree about dual variables, and the sums of a pass hardly show that. */
static void lv_check_hidden(struct lv_left *left)
{
    enum { ROWS = 3000, FREQUENT = 200, GROUPS = 12, GROUP = 1000 };
    static const struct lv_set set = { NULL, 0, 0.1, 0 };
    struct glm_data data = { .rows = ROWS };
    data.start = glm_data_grow(NULL, (ROWS + 1) * sizeof *data.start);
    data.label = glm_data_grow(NULL, ROWS * sizeof *data.label);
    data.id = glm_data_grow(NULL, (size_t)ROWS * (FREQUENT + GROUPS) * sizeof *data.id);
    data.start[0] = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        float score = 3 * gy_rng_normal(9, 3, 0, (uint64_t)i);
        for (uint32_t k = 0; k < FREQUENT + GROUPS; k++) {
            const float u = gy_rng_uniform(9, 1, (uint64_t)i, k);
            const uint32_t id = k < FREQUENT ? k : FREQUENT + (k - FREQUENT) * GROUP + (uint32_t)(u * GROUP);
            if (k < FREQUENT && u < 0.1f)
                continue;
            data.id[data.entries++] = id;
            score += (k < FREQUENT ? 0.05f : 1.0f) * gy_rng_normal(9, 2, 0, id);
        }
        data.start[i + 1] = data.entries;
        data.label[i] = score > 0 ? 1.0f : -1.0f;
    }
    glm_data_settle(&data, FREQUENT + GROUPS * GROUP, 1);
    const struct lv_case c = { .data = &data, .set = &set, .ranks = 2, .threads = 1, .views = 1, .gap = 1e-3, .left = left };
    lv_run(&c);
    T_CHECK_MSG(left->epochs <= 600, "%d passes", left->epochs);
    glm_data_free(&data);
}

/* ---- rows in blocks ---- */

/* Kappa follows a sample of the rows, which is the same however they are cut. */
static void lv_check_cuts(struct lv_left *left)
{
    static const struct lv_set set = { NULL, 0, 0.01, 0 };
    const struct glm_data_kind kind = { .rows = 9000, .features = 2000, .most = 24, .values = 1,
                                        .seed = 15 };
    struct lv_left *const whole = malloc(sizeof *whole);
    struct glm_data data;
    glm_data_random(&data, &kind);
    struct lv_case c = { .data = &data, .set = &set, .ranks = 2, .threads = 1, .views = 1,
                         .gap = 1e-4, .left = left };
    lv_run(&c);
    *whole = left[0];
    c.views = 1500; /* of 3 rows */
    lv_run(&c);
    T_CHECK_MSG(whole->epochs == left->epochs && memcmp(whole->w, left->w, sizeof whole->w) == 0,
                "%d passes, not %d", left->epochs, whole->epochs);
    free(whole);
    glm_data_free(&data);
}

/* ---- the guard ---- */

/* All ranks move w the same way, with a sigma as if they did not. The guard has to raise it. */
static int lv_guard_rank(void *user, struct gyre_job *job, int rank)
{
    const struct lv_case *const c = user;
    struct lv_left *const left = &c->left[rank];
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_glm_problem problem = { .loss = c->loss, .l2 = c->set->l2, .target = GY_GLM_TARGET_VALUE, .class_weight = { 1, 1 } };
    struct gy_glm_run run = { .problem = &problem, .feed = &c->data->feed, .alloc = &alloc, .job = job, .stop = { .gap = c->gap, .epochs = 20000 }, .seed = 3,
                              .w = left->w };
    struct gy_error err = { 0 };
    struct gy_sdca s;
    memset(left, 0, sizeof *left);
    lv_part(c->data, rank, c->ranks, c->views);
    left->status = gy_pool_open(&run.pool, &alloc, c->threads, &err);
    if (left->status == GY_OK)
        left->status = gy_sdca_open(&s, &run, &err);
    if (left->status == GY_OK) {
        s.prox.plain = s.ranks.fixed = s.ranks.parts = 1;
        s.ranks.sigma = 1;
        left->status = gy_sdca_run(&s, &err);
        left->sigma = s.ranks.sigma;
        gy_sdca_close(&s);
    }
    gy_pool_close(run.pool);
    left->at = run.result;
    snprintf(left->why, sizeof left->why, "%s", gy_glm_why_name(run.why) ? gy_glm_why_name(run.why) : "?");
    return left->status == GY_OK;
}

static void lv_check_guard(struct lv_left *left)
{
    static const struct lv_set set = { NULL, 0, 0.5, 0 };
    struct glm_data data;
    const struct glm_data_kind kind = { .rows = 400, .features = 6, .most = 12, .values = 0, .regression = 1, .seed = 13 };
    glm_data_random(&data, &kind);
    struct lv_case c = { .data = &data, .set = &set, .ranks = 4, .threads = 1, .views = 1, .loss = GY_GLM_SQUARED, .gap = 1e-4, .left = left };
    T_CHECK(gr_run(c.ranks, lv_guard_rank, &c));
    T_CHECK_MSG(strcmp(left->why, "gap") == 0 && left->sigma > 1, "the run ended by '%s' with sigma %g, objective %g", left->why, left->sigma, left->at.primal);
    for (int r = 1; r < c.ranks; r++)
        T_CHECK(left[r].sigma == left->sigma && memcmp(&left[r].at, &left->at, sizeof left->at) == 0);
    glm_data_free(&data);
}

/* ---- time ---- */

/* Only rank 1 has a time limit, which is over at once. All ranks end in the same round with the
 * same weights. */
static int lv_time_rank(void *user, struct gyre_job *job, int rank)
{
    const struct lv_case *const c = user;
    struct lv_left *const left = &c->left[rank];
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_glm_problem problem = { .l2 = c->set->l2, .target = GY_GLM_TARGET_CLASS, .positive = 1, .class_weight = { 1, 1 } };
    struct gy_glm_run run = { .problem = &problem, .feed = &c->data->feed, .alloc = &alloc, .job = job, .seed = 3, .w = left->w,
                              .stop = { .gap = c->gap, .epochs = 500, .seconds = rank == 1 ? 1e-7 : 1e6 } };
    struct gy_error err = { 0 };
    memset(left, 0, sizeof *left);
    lv_part(c->data, rank, c->ranks, c->views);
    left->status = gy_pool_open(&run.pool, &alloc, c->threads, &err);
    if (left->status == GY_OK)
        left->status = gy_glm_sdca()->solve(&run, &err);
    gy_pool_close(run.pool);
    left->at = run.result;
    left->epochs = run.epochs;
    snprintf(left->why, sizeof left->why, "%s", gy_glm_why_name(run.why) ? gy_glm_why_name(run.why) : "?");
    return left->status == GY_OK;
}

static void lv_check_time(struct lv_left *left)
{
    static const struct lv_set set = { NULL, 0, 0.5, 0 };
    const struct glm_data_kind kind = { .rows = 400, .features = 60, .most = 12, .values = 1, .seed = 14 };
    struct glm_data data;
    glm_data_random(&data, &kind);
    struct lv_case c = { .data = &data, .set = &set, .ranks = 3, .threads = 2, .views = 1, .gap = 1e-9, .left = left };
    T_CHECK(gr_run(c.ranks, lv_time_rank, &c));
    for (int r = 0; r < c.ranks; r++)
        T_CHECK_MSG(strcmp(left[r].why, "time") == 0 && left[r].epochs <= 2 && left[r].epochs == left->epochs &&
                    memcmp(left[r].w, left->w, sizeof left->w) == 0, "rank %d ended by '%s' after %d passes", r, left[r].why, left[r].epochs);
    glm_data_free(&data);
}

/* ---- what ranks must have alike ---- */

/* The kind of a setting that differs on the other rank. FACTOR, LABEL, COUNT: a class's weight, the
 * label of its class, the number of weights. */
enum lv_what { LV_DOUBLE, LV_INT, LV_SEED, LV_FACTOR, LV_LABEL, LV_COUNT, LV_SOLVER, LV_ROWS };
static const struct lv_setting {
    const char *name;
    enum lv_what what;
    size_t at;
    double value;
} lv_settings[] = {
    { "loss", LV_INT, offsetof(struct gyre_glm_config, loss), GYRE_GLM_HINGE }, { "l1", LV_DOUBLE, offsetof(struct gyre_glm_config, l1), 0.5 },
    { "l2", LV_DOUBLE, offsetof(struct gyre_glm_config, l2), 2 }, { "bias", LV_DOUBLE, offsetof(struct gyre_glm_config, bias), 2 },
    { "bias_free", LV_INT, offsetof(struct gyre_glm_config, bias_free), 1 }, { "normalize", LV_INT, offsetof(struct gyre_glm_config, normalize), 1 },
    { "balanced", LV_INT, offsetof(struct gyre_glm_config, balanced), 1 }, { "gap", LV_DOUBLE, offsetof(struct gyre_glm_config, gap), 1e-3 },
    { "target", LV_DOUBLE, offsetof(struct gyre_glm_config, target), 7 }, { "epochs", LV_INT, offsetof(struct gyre_glm_config, epochs), 5 },
    { "every", LV_INT, offsetof(struct gyre_glm_config, every), 3 }, { "seed", LV_SEED, 0, 9 }, { "a class's weight", LV_FACTOR, 0, 3 },
    { "the class of a weight", LV_LABEL, 0, -1 }, { "weights", LV_COUNT, 0, 2 }, { "solver", LV_SOLVER, 0, 0 }, { "rows", LV_ROWS, 0, 0 },
};

enum { LV_FEW = 40 };

static void lv_change(const struct lv_setting *s, struct gyre_glm_config *c, float *factor, float *label, float *rows)
{
    const int whole = (int)s->value;
    switch (s->what) {
    case LV_DOUBLE: memcpy((unsigned char *)c + s->at, &s->value, sizeof s->value); break;
    case LV_INT: memcpy((unsigned char *)c + s->at, &whole, sizeof whole); break;
    case LV_SEED: c->seed = 9; break;
    case LV_FACTOR: factor[0] = 3; break;
    case LV_LABEL: label[0] = -1; break;
    case LV_COUNT: c->weights = 2; break;
    case LV_SOLVER: c->solver = "sdca"; break;
    case LV_ROWS: rows[3] = 5; break;
    }
}

/* Rank 1 has one setting of its own: both are told. number -1: none. */
static int lv_settings_train(struct gyre_job *job, int rank, int number, struct gyre_error *error)
{
    int64_t start[LV_FEW + 1];
    uint32_t id[LV_FEW];
    float value[LV_FEW], truth[LV_FEW], factor[2] = { 2, 2 }, label[2] = { 1, -1 };
    struct gyre_glm_data rows;
    struct gyre_glm_config c;
    struct gyre_glm *model = NULL;
    for (int i = 0; i < LV_FEW; i++) {
        start[i] = i;
        id[i] = (uint32_t)(i % 7);
        value[i] = 1 + 0.1f * (float)(i % 5);
        truth[i] = i % 3 ? 1.0f : -1.0f;
    }
    start[LV_FEW] = LV_FEW;
    gyre_glm_data_default(&rows);
    rows.rows = LV_FEW;
    rows.start = start;
    rows.id = id;
    rows.value = value;
    rows.label = truth;
    gyre_glm_config_default(&c);
    c.train = &rows;
    c.threads = 1;
    c.job = job;
    c.bias = 1;
    c.weights = 1;
    c.weight_factor = factor;
    c.weight_label = label;
    if (rank == 1 && number >= 0)
        lv_change(&lv_settings[number], &c, factor, label, value);
    const int status = gyre_glm_train(&model, &c, NULL, error);
    gyre_glm_close(model);
    return status;
}

static int lv_settings_rank(void *user, struct gyre_job *job, int rank)
{
    struct gyre_error error = { 0 };
    int right = 1;
    (void)user;
    for (int k = 0; k < (int)GY_COUNT(lv_settings); k++) {
        const char *const what = lv_settings[k].what == LV_ROWS ? "the rows" : "the linear model's settings";
        const int status = lv_settings_train(job, rank, k, &error);
        const int told = status == GYRE_E_MISMATCH && strstr(error.text, "rank 1 has not the same as rank 0: ") && strstr(error.text, what);
        if (!told)
            printf("rank %d, other %s: %d, '%s'\n", rank, lv_settings[k].name, status, error.text);
        right &= told;
    }
    return lv_settings_train(job, rank, -1, &error) == GYRE_OK && right;
}

int main(void)
{
    static const struct lv_set sets[] = {
        { "a9a", 0, 100, 11282.5069166 },
        { "frappe.validation.libfm", 1, 10, 23640.2141961 },
        { "cocoa_small.train", 0, 1, 625.844012789 },
    };
    struct lv_left *const left = gr_memory(LV_RANKS * sizeof *left);
    const char *const root = getenv("GYRE_TEST_DATA");
    char folder[600];
    struct glm_data data;
    lv_check_formula(left);
    lv_check_hidden(left);
    lv_check_cuts(left);
    lv_check_guard(left);
    lv_check_time(left);
    T_CHECK(gr_run(2, lv_settings_rank, NULL));
    for (size_t i = 0; i < GY_COUNT(sets); i++) {
        snprintf(folder, sizeof folder, "%s/glm", root ? root : "/nowhere");
        if (glm_data_read(&data, folder, sets[i].file, sets[i].zero_based, 0) != 0) {
            T_SKIP("GYRE_TEST_DATA has no such linear models' data");
            continue;
        }
        lv_check_set(&data, &sets[i], left);
        glm_data_free(&data);
    }
    T_END("t_glm_levels");
}
