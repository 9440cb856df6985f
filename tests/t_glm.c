/* SPDX-License-Identifier: MIT */
/* t_glm.c: dual coordinate ascent and certificates. Optima of real data are compared with values
 * that other programs certified. Those of synthetic data are compared with certificates, and these
 * with plain sums. */
#include "engine/glm/glm_model.h"
#include "engine/glm/solve/sdca_state.h"
#include "tests/glm_data.h"
#include "tests/t.h"
#include "tests/t_memory.h"

/* ---- plain sums ---- */

struct plain {
    /* rows: the sum of the rows' own gaps, with scores of the vector that the duals give */
    double primal, dual, rows;
};

static double *plain_vector(const struct gy_glm_problem *p, const struct glm_data *d, const float *dual)
{
    const uint32_t dim = d->feed.features + (p->bias != 0);
    double *const u = calloc(dim + 1, sizeof *u);
    for (int64_t i = 0; u && i < d->rows; i++) {
        const struct gy_rows view = { .label = d->label, .weight = d->weight };
        const double y = (double)gy_glm_y(p, &view, (int32_t)i), c = (double)gy_glm_c(p, &view, (int32_t)i, (float)y), a = (double)dual[i];
        const double g = p->loss == GY_GLM_LOGISTIC ? y * c / (1 + exp(-a)) : p->loss == GY_GLM_SQUARED ? a : y * a;
        for (int64_t e = d->start[i]; e < d->start[i + 1]; e++)
            u[d->id[e]] += g / p->l2 * (d->value ? (double)d->value[e] : 1) * (d->scale ? (double)d->scale[i] : 1);
        if (p->bias != 0)
            u[dim - 1] += g / p->l2 * p->bias;
    }
    return u;
}

static double plain_shrink(double v, double by) { return v > by ? v - by : v < -by ? v + by : 0; }

static double plain_score(const struct gy_glm_problem *p, const struct glm_data *d, int64_t i, const double *w)
{
    double z = p->bias != 0 ? p->bias * w[d->feed.features] : 0;
    for (int64_t e = d->start[i]; e < d->start[i + 1]; e++)
        z += w[d->id[e]] * (d->value ? (double)d->value[e] : 1) * (d->scale ? (double)d->scale[i] : 1);
    return z;
}

static struct plain plain_sums(const struct gy_glm_problem *p, const struct glm_data *d, const float *w, const float *dual)
{
    const uint32_t dim = d->feed.features + (p->bias != 0);
    struct plain out = { 0, 0, 0 };
    double *const u = plain_vector(p, d, dual), *const given = calloc(dim + 1, sizeof *given);
    for (uint32_t j = 0; j < dim; j++) {
        u[j] = plain_shrink(u[j], p->l1 / p->l2);
        given[j] = (double)w[j];
        out.primal += 0.5 * p->l2 * given[j] * given[j] + p->l1 * fabs(given[j]);
        out.dual -= 0.5 * p->l2 * u[j] * u[j];
    }
    for (int64_t i = 0; i < d->rows; i++) {
        const struct gy_rows view = { .label = d->label, .weight = d->weight };
        const double y = (double)gy_glm_y(p, &view, (int32_t)i), c = (double)gy_glm_c(p, &view, (int32_t)i, (float)y), a = (double)dual[i];
        const double z = plain_score(p, d, i, u), s = 1 / (1 + exp(-a)), g = p->loss == GY_GLM_LOGISTIC ? y * c * s : p->loss == GY_GLM_SQUARED ? a : y * a;
        const double conjugate = p->loss == GY_GLM_LOGISTIC ? -c * ((s > 0 ? s * log(s) : 0) + (s < 1 ? (1 - s) * log(1 - s) : 0))
                                 : p->loss == GY_GLM_SQUARED ? a * y - a * a / (2 * c)
                                 : p->loss == GY_GLM_HINGE   ? a : a - a * a / (4 * c);
        out.primal += c * gy_glm_loss_of(p)->value(y, plain_score(p, d, i, given));
        out.dual += conjugate;
        out.rows += c * gy_glm_loss_of(p)->value(y, z) - conjugate + g * z;
    }
    free(u);
    free(given);
    return out;
}

/* ---- runs ---- */

struct job {
    struct gy_glm_problem problem;
    struct gy_glm_stop stop;
    int threads;
    uint64_t seed;
    int (*progress)(void *user, const struct gy_glm_progress *progress);
    void *user;
    double sigma;           /* 0: as measured */
    int plain;              /* passes are of the problem itself */
    float *dual;            /* NULL: of the run's own */
    int has_dual;
    /* out */
    struct gy_glm_certificate result;
    int epochs;
    double sigma_after;
    const char *why;
    float *w;
};

static struct gy_glm_problem t_problem(int loss, double l2)
{
    return (struct gy_glm_problem){ .loss = loss, .l2 = l2, .target = loss == GY_GLM_SQUARED ? GY_GLM_TARGET_VALUE : GY_GLM_TARGET_CLASS, .positive = 1,
                                    .class_weight = { 1, 1 } };
}

static int t_run_with(struct job *job, struct glm_data *data, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_pool *pool = NULL;
    const struct gy_alloc plain = gy_alloc_default();
    struct gy_sdca s;
    GY_TRY(gy_pool_open(&pool, &plain, job->threads ? job->threads : 1, err));
    free(job->w);
    job->w = calloc(data->feed.features + 2, sizeof *job->w);
    struct gy_glm_run run = { .problem = &job->problem, .feed = &data->feed, .alloc = alloc, .pool = pool, .stop = job->stop, .seed = job->seed, .w = job->w,
                              .dual = job->dual, .has_dual = job->has_dual, .progress = job->progress, .user = job->user };
    int status = gy_sdca_open(&s, &run, err);
    if (status == GY_OK) {
        s.threads.fixed = job->sigma > 0;
        s.threads.sigma = job->sigma > 0 ? job->sigma : s.threads.sigma;
        s.prox.plain = job->plain;
        status = gy_sdca_run(&s, err);
        job->sigma_after = s.threads.sigma;
        gy_sdca_close(&s);
    }
    gy_pool_close(pool);
    job->result = run.result;
    job->epochs = run.epochs;
    job->why = gy_glm_why_name(run.why);
    return status;
}

static int t_run(struct job *job, struct glm_data *data)
{
    struct gy_error err = { 0 };
    const struct gy_alloc alloc = gy_alloc_default();
    const int status = t_run_with(job, data, &alloc, &err);
    T_CHECK_MSG(status == GY_OK, "%s", err.text);
    return status;
}

/* ---- certificates ---- */

static void certify_case(struct glm_data *data, const struct gy_glm_problem *problem, const char *what)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const uint32_t dim = data->feed.features + (problem->bias != 0);
    float *const w = calloc(dim, sizeof *w), *const dual = calloc((size_t)data->rows, sizeof *dual);
    struct gy_glm_certificate first = { 0 };
    struct gy_error err = { 0 };
    for (uint32_t j = 0; j < dim; j++)
        w[j] = 0.3f * gy_rng_normal(1, 7, 0, j);
    for (int64_t i = 0; i < data->rows; i++) {
        const float any = gy_rng_normal(1, 8, 0, (uint64_t)i);
        dual[i] = problem->loss == GY_GLM_LOGISTIC ? 3 * any : problem->loss == GY_GLM_SQUARED ? any : fminf(fabsf(any), 1);
    }
    const struct plain plain = plain_sums(problem, data, w, dual);
    for (int threads = 1; threads <= 3; threads++) {
        struct gy_pool *pool = NULL;
        struct gy_glm_certificate at;
        gy_pool_open(&pool, &alloc, threads, &err);
        struct gy_glm_run run = { .problem = problem, .feed = &data->feed, .alloc = &alloc, .pool = pool };
        T_CHECK_MSG(gy_glm_certify(&run, w, dual, &at, &err) == GY_OK, "%s", err.text);
        if (threads == 1) {
            first = at;
            T_CHECK_MSG(fabs(at.primal - plain.primal) <= 1e-12 * fabs(plain.primal), "%s: P %.17g, plainly %.17g", what, at.primal, plain.primal);
            T_CHECK_MSG(fabs(at.dual - plain.dual) <= 1e-10 * fabs(plain.dual), "%s: D %.17g, plainly %.17g", what, at.dual, plain.dual);
            T_CHECK_MSG(at.gap > 0 && at.gap == at.primal - at.dual, "%s: gap %g", what, at.gap);
        }
        T_CHECK_MSG(memcmp(&first, &at, sizeof at) == 0, "%s: other bits with %d threads", what, threads);
        T_CHECK(gy_glm_certify(&run, w, NULL, &at, &err) == GY_OK && at.primal == first.primal && at.dual == -HUGE_VAL);
        gy_pool_close(pool);
    }
    /* the vector of the duals, in float, gives P - D as the sum of the rows' gaps */
    if (problem->l1 == 0) {
        double *const u = plain_vector(problem, data, dual);
        for (uint32_t j = 0; j < dim; j++)
            w[j] = (float)u[j];
        const struct plain own = plain_sums(problem, data, w, dual);
        T_CHECK_MSG(fabs(own.rows - (own.primal - own.dual)) <= 1e-6 * own.primal, "%s: rows' gaps %g, P - D %g", what, own.rows, own.primal - own.dual);
        free(u);
    }
    free(w);
    free(dual);
}

static void test_certificates(void)
{
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++)
        for (int kind = 0; kind < 4; kind++) {
            struct glm_data data;
            char what[80];
            struct gy_glm_problem problem = t_problem(loss, kind == 1 ? 5 : 0.5);
            glm_data_random(&data, &(struct glm_data_kind){ .rows = 7000, .features = kind == 2 ? 400 : 30, .most = 12, .values = kind & 1,
                                                            .regression = loss == GY_GLM_SQUARED, .seed = 3 });
            problem.bias = kind == 1 ? 0.7 : 0;
            problem.l1 = kind == 3 ? 2 : 0;
            if (kind == 2)
                glm_data_normalise(&data);
            if (kind == 3) {
                data.weight = glm_data_grow(NULL, (size_t)data.rows * sizeof *data.weight);
                for (int64_t i = 0; i < data.rows; i++)
                    data.weight[i] = 1 + 0.25f * (float)(i % 5);
                problem.class_weight[0] = 1.5f;
                glm_data_cut(&data, 3, 1);
            }
            snprintf(what, sizeof what, "%s, rows of kind %d", gy_glm_loss_name(loss), kind);
            certify_case(&data, &problem, what);
            glm_data_free(&data);
        }
}

/* ---- memory of which one allocation fails ---- */

/* ---- optima of real data ---- */

struct optimum {
    const char *file;
    int zero_based;
    uint32_t features;
    int normalise, loss;
    double l2, value, slack; /* slack: relative */
    int few;                 /* 1: with 2 threads only */
};
static const struct optimum optima[] = {
    { "heart_scale", 0, 13, 0, GY_GLM_LOGISTIC, 0.01, 95.1187705901, 1e-6, 0 },
    { "heart_scale", 0, 13, 0, GY_GLM_LOGISTIC, 1, 98.2267995081, 1e-6, 0 },
    { "heart_scale", 0, 13, 0, GY_GLM_LOGISTIC, 100, 150.622516289, 1e-6, 0 },
    { "german_scale", 0, 24, 0, GY_GLM_LOGISTIC, 1, 470.933753736, 1e-6, 0 },
    { "cocoa_small.train", 0, 9947, 0, GY_GLM_LOGISTIC, 1, 625.844012789, 1e-6, 0 },
    { "cocoa_small.train", 0, 9947, 0, GY_GLM_LOGISTIC, 2, 786.339473403, 1e-6, 0 },
    { "heart_scale", 0, 13, 0, GY_GLM_HINGE, 1, 96.4982780806, 1e-6, 0 },
    { "german_scale", 0, 24, 0, GY_GLM_HINGE, 1, 520.202439, 1e-6, 1 },
    { "cocoa_small.train", 0, 9947, 0, GY_GLM_HINGE, 2, 393.256397932, 1e-6, 0 },
    { "heart_scale", 0, 13, 0, GY_GLM_SQUARED, 1, 62.8414170995, 1e-6, 0 },
    { "cocoa_small.train", 0, 9947, 0, GY_GLM_SQUARED, 1, 156.458475836, 1e-6, 0 },
    { "a9a", 0, 123, 0, GY_GLM_LOGISTIC, 1, 10529.5625846, 1e-6, 0 },
    { "a9a", 0, 123, 0, GY_GLM_LOGISTIC, 10, 10648.4027152, 1e-6, 1 },
    { "a9a", 0, 123, 0, GY_GLM_LOGISTIC, 100, 11282.5069166, 1e-6, 1 },
    { "a9a", 0, 123, 0, GY_GLM_SQUARED, 1, 7301.49583245, 1e-6, 1 },
    { "frappe.validation.libfm", 1, 5382, 0, GY_GLM_LOGISTIC, 1, 17089.8931705, 1e-6, 0 },
    { "frappe.validation.libfm", 1, 5382, 0, GY_GLM_LOGISTIC, 10, 23640.2141961, 1e-6, 1 },
    { "frappe.validation.libfm", 1, 5382, 1, GY_GLM_LOGISTIC, 10, 30981.3625844, 1e-6, 1 },
    { "imdb.train.svm.gz", 0, 262144, 0, GY_GLM_LOGISTIC, 1, 2016.19142084, 1e-6, 1 },
    { "imdb.train.svm.gz", 0, 262144, 0, GY_GLM_LOGISTIC, 10, 4820.67548498, 1e-6, 0 },
    { "imdb.train.svm.gz", 0, 262144, 0, GY_GLM_LOGISTIC, 100, 8310.92946555, 1e-6, 1 },
    { "imdb.train.svm.gz", 0, 262144, 1, GY_GLM_LOGISTIC, 1, 8600.3286661, 1e-6, 1 },
};

static void optimum_run(const struct optimum *o, struct glm_data *data)
{
    static const int threads[] = { 1, 2, 4 };
    for (size_t k = 0; k < GY_COUNT(threads); k++) {
        struct job job = { .problem = t_problem(o->loss, o->l2), .stop = { .gap = 5e-7, .epochs = 20000 }, .threads = threads[k], .seed = 1 };
        if ((o->few && threads[k] != 2) || t_run(&job, data) != GY_OK) {
            free(job.w);
            continue;
        }
        T_CHECK_MSG(fabs(job.result.primal - o->value) <= o->slack * o->value && job.result.gap >= -1e-12 * o->value && strcmp(job.why, "gap") == 0,
                    "%s, %s, l2 %g, %d threads: P %.12g, certified before: %.12g; gap %g, %s after %d passes", o->file, gy_glm_loss_name(o->loss), o->l2,
                    threads[k], job.result.primal, o->value, job.result.gap, job.why, job.epochs);
        if (getenv("T_GLM_VERBOSE"))
            printf("%s%s, %s, l2 %g, %d threads: %d passes, sigma %.2f, gap %.2g\n", o->file, o->normalise ? " normalised" : "", gy_glm_loss_name(o->loss),
                   o->l2, threads[k], job.epochs, job.sigma_after, job.result.gap / job.result.primal);
        free(job.w);
    }
}

static void test_optima(const char *folder)
{
    struct glm_data data = { 0 };
    const char *file = "";
    int scaled = 0;
    for (size_t k = 0; k < GY_COUNT(optima); k++) {
        const struct optimum *const o = &optima[k];
        if (strcmp(file, o->file) != 0 || scaled != o->normalise) {
            glm_data_free(&data);
            if (!T_CHECK(glm_data_read(&data, folder, o->file, o->zero_based, o->features) == 0))
                continue;
            if (o->normalise)
                glm_data_normalise(&data);
            file = o->file;
            scaled = o->normalise;
        }
        optimum_run(o, &data);
    }
    glm_data_free(&data);
}

/* Passes of one thread until the gap is so small a part of P. */
struct budget {
    const char *file;
    int zero_based;
    uint32_t features;
    double l2;
    int passes[3]; /* to 1e-3, 1e-4, 1e-6 */
};
static const struct budget budgets[] = {
    { "a9a", 0, 123, 1, { 13, 18, 28 } },
    { "cocoa_small.train", 0, 9947, 1, { 4, 5, 7 } },
    { "frappe.validation.libfm", 1, 5382, 10, { 4, 4, 6 } },
    { "imdb.train.svm.gz", 0, 262144, 100, { 4, 5, 6 } },
};

struct budget_seen {
    int passes[3];
    double dual; /* of the pass before */
    int fell;
};

static int budget_progress(void *user, const struct gy_glm_progress *progress)
{
    struct budget_seen *const seen = user;
    const double share = progress->at.gap / progress->at.primal;
    for (int k = 0; k < 3; k++)
        if (!seen->passes[k] && share <= (double[3]){ 1e-3, 1e-4, 1e-6 }[k])
            seen->passes[k] = progress->epoch;
    seen->fell += progress->at.dual < seen->dual - 1e-9 * fabs(seen->dual);
    seen->dual = progress->at.dual;
    return 0;
}

static void test_budgets(const char *folder)
{
    for (size_t k = 0; k < 2 * GY_COUNT(budgets); k++) {
        const struct budget *const b = &budgets[k / 2];
        const int plain = k % 2;
        struct glm_data data;
        struct budget_seen seen = { { 0 }, -HUGE_VAL, 0 };
        struct job job = { .problem = t_problem(GY_GLM_LOGISTIC, b->l2), .stop = { .gap = 9e-7, .epochs = 60, .every = 1 }, .seed = 1,
                           .progress = budget_progress, .user = &seen, .plain = plain };
        if (!T_CHECK(glm_data_read(&data, folder, b->file, b->zero_based, b->features) == 0))
            continue;
        t_run(&job, &data);
        for (int j = 0; j < 3; j++)
            T_CHECK_MSG(seen.passes[j] > 0 && seen.passes[j] <= (plain ? 3 * b->passes[j] + 1 : 2 * b->passes[j] + 5) / 2,
                        "%s: %d passes to 1e-%d, %d is usual", b->file, seen.passes[j], j == 2 ? 6 : 3 + j, b->passes[j]);
        if (plain)
            T_CHECK_MSG(seen.fell == 0, "%s: D fell %d times", b->file, seen.fell);
        if (getenv("T_GLM_VERBOSE"))
            printf("%s: %d %d %d passes\n", b->file, seen.passes[0], seen.passes[1], seen.passes[2]);
        free(job.w);
        glm_data_free(&data);
    }
}

/* ---- synthetic rows ---- */

static struct glm_data_kind t_kind(int loss, int values, uint64_t seed)
{
    return (struct glm_data_kind){ .rows = 3000, .features = 200, .most = 14, .values = values, .regression = loss == GY_GLM_SQUARED, .seed = seed };
}

/* Any loss, with and without bias, weights, scales and l1, from several views, resident or not,
 * reaches its certified optimum. Plain sums agree. */
static void test_every_model(void)
{
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++)
        for (int kind = 0; kind < 6; kind++) {
            struct glm_data data;
            const struct glm_data_kind rows = t_kind(loss, kind & 1, 5);
            struct job job = { .problem = t_problem(loss, 3), .stop = { .gap = loss == GY_GLM_HINGE ? 2e-5 : 1e-6, .epochs = 3000 }, .threads = 1 + kind % 3,
                               .seed = 1 };
            float *const dual = calloc((size_t)rows.rows, sizeof *dual);
            glm_data_random(&data, &rows);
            job.problem.bias = kind >= 2 ? 1 : 0;
            job.problem.l1 = kind == 4 || kind == 1 ? 1.5 : 0;
            job.dual = dual;
            if (kind == 3)
                glm_data_normalise(&data);
            if (kind == 5) {
                data.weight = glm_data_grow(NULL, (size_t)data.rows * sizeof *data.weight);
                for (int64_t i = 0; i < data.rows; i++)
                    data.weight[i] = 0.5f * (float)(i % 4);
                job.problem.class_weight[1] = 2;
            }
            glm_data_cut(&data, kind > 2 ? 3 : 1, kind % 2);
            t_run(&job, &data);
            const struct plain plain = plain_sums(&job.problem, &data, job.w, dual);
            T_CHECK_MSG(job.why && strcmp(job.why, "gap") == 0, "%s, kind %d: ends by %s, gap %g of %g", gy_glm_loss_name(loss), kind, job.why, job.result.gap,
                        job.result.primal);
            if (kind != 5) /* weights of 0 have no conjugate by the plain formula */
                T_CHECK_MSG(fabs(plain.primal - job.result.primal) <= 1e-10 * plain.primal && fabs(plain.dual - job.result.dual) <= 1e-8 * plain.primal,
                            "%s, kind %d: plain P %.12g D %.12g, certified %.12g %.12g", gy_glm_loss_name(loss), kind, plain.primal, plain.dual,
                            job.result.primal, job.result.dual);
            if (job.problem.l1 > 0) {
                int zeros = 0;
                for (uint32_t j = 0; j < data.feed.features; j++)
                    zeros += job.w[j] == 0;
                T_CHECK(zeros > 0 && zeros < (int)data.feed.features);
            }
            free(job.w);
            free(dual);
            glm_data_free(&data);
        }
}

/* A run's end, as bits. */
static uint64_t t_bits(const struct job *job, uint32_t dim)
{
    uint64_t hash = 14695981039346656037u;
    for (uint32_t j = 0; j < dim; j++) {
        uint32_t bits;
        memcpy(&bits, &job->w[j], sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    }
    return hash;
}

static void test_same_bits(void)
{
    for (int threads = 1; threads <= 3; threads++) {
        struct glm_data data;
        const struct glm_data_kind rows = t_kind(GY_GLM_LOGISTIC, 0, 9);
        uint64_t bits[3];
        glm_data_random(&data, &rows);
        for (int k = 0; k < 3; k++) {
            struct job job = { .problem = t_problem(GY_GLM_LOGISTIC, 1), .stop = { .epochs = 5 }, .threads = threads, .seed = k == 2 ? 2 : 1 };
            t_run(&job, &data);
            bits[k] = t_bits(&job, data.feed.features);
            T_CHECK(job.epochs == 5 && strcmp(job.why, "epochs") == 0);
            free(job.w);
        }
        T_CHECK_MSG(bits[0] == bits[1], "%d threads: a second run has other bits", threads);
        T_CHECK_MSG(bits[0] != bits[2], "%d threads: another seed has the same bits", threads);
        glm_data_free(&data);
    }
}

/* Rows with and without values, and rows of equal length with and without offsets, are the same
 * problem. */
static void test_forms(void)
{
    struct glm_data data;
    const struct glm_data_kind rows = { .rows = 2000, .features = 300, .most = 9, .seed = 4 };
    struct gy_glm_certificate at[4];
    glm_data_random(&data, &rows);
    for (int64_t i = 0; i < data.rows; i++) /* every row has 5 entries */
        for (int k = 0; k < 5; k++) {
            data.start[i] = 5 * i;
            data.id[5 * i + k] = (uint32_t)k * 60 + (uint32_t)((i * (k + 3) * 7 + i / 3) % 60);
        }
    data.start[data.rows] = data.entries = 5 * data.rows;
    glm_data_cut(&data, 1, 1);
    for (int form = 0; form < 4; form++) {
        struct job job = { .problem = t_problem(GY_GLM_LOGISTIC, 1), .stop = { .gap = 1e-7, .epochs = 500 }, .threads = 2, .seed = 1 };
        if (form == 1) {
            data.value = glm_data_grow(NULL, (size_t)data.entries * sizeof *data.value);
            for (int64_t e = 0; e < data.entries; e++)
                data.value[e] = 1;
            data.view[0].value = data.value;
        }
        if (form >= 2) {
            data.view[0].value = NULL;
            data.view[0].start = NULL;
            data.view[0].width = 5;
        }
        if (form == 3) { /* twice the features, four times the penalty */
            data.view[0].same = 2;
            job.problem.l2 = 4;
        }
        t_run(&job, &data);
        at[form] = job.result;
        T_CHECK_MSG(fabs(at[form].primal - at[0].primal) <= 2e-7 * at[0].primal, "form %d: P %.12g, in form 0 %.12g", form, at[form].primal, at[0].primal);
        free(job.w);
    }
    glm_data_free(&data);
}

/* A weight of 2 is the row twice. */
static void test_weights(void)
{
    for (int loss = 0; loss < GY_GLM_LOSSES; loss++) {
        struct glm_data once, twice;
        struct glm_data_kind rows = t_kind(loss, 1, 6);
        struct job a = { .problem = t_problem(loss, 2), .stop = { .gap = 1e-6, .epochs = 3000 }, .seed = 1 }, b = a;
        rows.rows = 400;
        glm_data_random(&once, &rows);
        once.weight = glm_data_grow(NULL, 400 * sizeof *once.weight);
        for (int i = 0; i < 400; i++)
            once.weight[i] = i % 3 ? 1 : 2;
        glm_data_cut(&once, 1, 1);
        glm_data_random(&twice, &rows);
        twice.start = glm_data_grow(twice.start, 801 * sizeof *twice.start);
        twice.label = glm_data_grow(twice.label, 800 * sizeof *twice.label);
        twice.id = glm_data_grow(twice.id, 2 * (size_t)once.entries * sizeof *twice.id);
        twice.value = glm_data_grow(twice.value, 2 * (size_t)once.entries * sizeof *twice.value);
        for (int i = 0; i < 400; i += 3) {
            twice.label[twice.rows] = once.label[i];
            for (int64_t e = once.start[i]; e < once.start[i + 1]; e++) {
                twice.id[twice.entries] = once.id[e];
                twice.value[twice.entries++] = once.value[e];
            }
            twice.start[++twice.rows] = twice.entries;
        }
        glm_data_cut(&twice, 1, 1);
        t_run(&a, &once);
        t_run(&b, &twice);
        T_CHECK_MSG(fabs(a.result.primal - b.result.primal) <= 2e-6 * a.result.primal, "%s: weighted P %.12g, doubled %.12g", gy_glm_loss_name(loss),
                    a.result.primal, b.result.primal);
        free(a.w);
        free(b.w);
        glm_data_free(&once);
        glm_data_free(&twice);
    }
}

/* Rows (0, 0), (1, 1), (2, 2), from the documents of another program. */
static void test_small(void)
{
    int64_t start[4] = { 0, 0, 2, 4 };
    uint32_t id[4] = { 0, 1, 0, 1 };
    float value[4] = { 1, 1, 2, 2 }, targets[3] = { 0, 1, 2 }, classes[3] = { -1, -1, 1 };
    struct glm_data data = { .rows = 3, .entries = 4, .start = start, .id = id, .value = value, .label = targets, .feed = { .features = 2 } };
    struct job ridge = { .problem = t_problem(GY_GLM_SQUARED, 0.1), .stop = { .gap = 1e-7 }, .seed = 1 };
    struct job svm = { .problem = t_problem(GY_GLM_HINGE, 1), .stop = { .gap = 1e-6 }, .seed = 1 };
    struct job logistic = { .problem = t_problem(GY_GLM_LOGISTIC, 0.01), .stop = { .gap = 1e-7 }, .seed = 1 };
    glm_data_cut(&data, 1, 1);
    t_run(&ridge, &data);
    T_CHECK_MSG(fabsf(ridge.w[0] - 0.495f) < 1e-3f && fabsf(ridge.w[1] - 0.495f) < 1e-3f, "ridge: %g %g", (double)ridge.w[0], (double)ridge.w[1]);
    T_CHECK(fabsf(3 * ridge.w[0] + 3 * ridge.w[1] - 2.97f) < 5e-3f);
    data.view[0].label = classes;
    t_run(&svm, &data);
    T_CHECK_MSG(fabsf(svm.w[0] - 0.25f) < 1e-3f && fabsf(svm.w[1] - 0.25f) < 1e-3f, "svm: %g %g", (double)svm.w[0], (double)svm.w[1]);
    t_run(&logistic, &data);
    T_CHECK_MSG(fabs(logistic.result.primal - 1.97749216838) < 1e-6 && fabsf(logistic.w[0] - 0.20884f) < 1e-3f, "logistic: P %.12g, w %g",
                logistic.result.primal, (double)logistic.w[0]);
    free(ridge.w);
    free(svm.w);
    free(logistic.w);
    free(data.offsets);
    free(data.view);
}

/* Four threads with equal rows and no damping move four times too far. The guard sees it, and the
 * run still ends at the optimum. */
static void test_guard(void)
{
    struct glm_data data;
    const struct glm_data_kind rows = { .rows = 4000, .features = 3, .most = 3, .regression = 1, .values = 0, .seed = 8 };
    struct job one = { .problem = t_problem(GY_GLM_SQUARED, 1), .stop = { .gap = 1e-6, .epochs = 4000 }, .threads = 1, .seed = 1 }, four = one;
    glm_data_random(&data, &rows);
    four.threads = 4;
    four.sigma = 1;
    t_run(&one, &data);
    t_run(&four, &data);
    T_CHECK_MSG(four.sigma_after > 1, "the guard has left sigma at %g", four.sigma_after);
    T_CHECK_MSG(fabs(four.result.primal - one.result.primal) <= 2e-6 * one.result.primal, "P %.12g with four threads, %.12g with one", four.result.primal,
                one.result.primal);
    free(one.w);
    free(four.w);
    glm_data_free(&data);
}

static int t_stop_at_3(void *user, const struct gy_glm_progress *progress)
{
    (void)user;
    return progress->epoch == 3;
}

/* Other ways to end, and going on from dual variables. */
static void test_ends(void)
{
    struct glm_data data;
    const struct glm_data_kind rows = t_kind(GY_GLM_LOGISTIC, 1, 12);
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    float *const dual = calloc((size_t)rows.rows, sizeof *dual);
    struct job job = { .problem = t_problem(GY_GLM_LOGISTIC, 1), .stop = { .gap = 1e-6 }, .threads = 2, .seed = 1, .dual = dual };
    glm_data_random(&data, &rows);
    t_run(&job, &data);
    const double best = job.result.primal;
    const int cold = job.epochs;
    job.has_dual = 1;
    t_run(&job, &data);
    T_CHECK_MSG(job.epochs < cold && job.epochs <= 2, "%d passes from the duals of a run of %d", job.epochs, cold);
    job.has_dual = 0;
    job.stop = (struct gy_glm_stop){ .target = 1.01 * best };
    t_run(&job, &data);
    T_CHECK(strcmp(job.why, "target") == 0 && job.result.primal <= 1.01 * best && job.result.primal >= best * (1 - 1e-6) && job.epochs < cold);
    job.stop = (struct gy_glm_stop){ .gap = 1e-6 };
    job.progress = t_stop_at_3;
    T_CHECK(t_run_with(&job, &data, &alloc, &err) == GY_E_STOPPED && strstr(err.text, "3 passes"));
    free(job.w);
    free(dual);
    glm_data_free(&data);
}

/* Every allocation fails once. */
static void test_memory(void)
{
    struct glm_data data;
    struct glm_data_kind rows = t_kind(GY_GLM_LOGISTIC, 1, 13);
    int status = GY_E_NOMEM, tries = 0;
    rows.rows = 200;
    glm_data_random(&data, &rows);
    for (; status == GY_E_NOMEM && tries < 200; tries++) {
        struct t_memory memory = { .left = tries };
        const struct gy_alloc alloc = { t_memory_fn, &memory };
        struct gy_error err = { 0 };
        struct job job = { .problem = t_problem(GY_GLM_LOGISTIC, 1), .stop = { .epochs = 3 }, .threads = 2, .seed = 1 };
        status = t_run_with(&job, &data, &alloc, &err);
        T_CHECK_MSG(memory.bytes == 0, "%d allocations: %" PRId64 " bytes are left", tries, memory.bytes);
        T_CHECK(status == GY_OK || (status == GY_E_NOMEM && strstr(err.text, "out of memory")));
        free(job.w);
    }
    T_CHECK_MSG(status == GY_OK && tries > 3, "status %d after %d tries", status, tries);
    glm_data_free(&data);
}

/* Mean losses as they are told to the solver, one a check; the last one again and again. */
struct t_series {
    const double *loss;
    int count, calls;
};

static int t_validate(void *user, const float *w, double *loss, struct gy_error *err)
{
    struct t_series *const s = user;
    (void)w, (void)err;
    *loss = s->loss[s->calls < s->count ? s->calls : s->count - 1];
    s->calls++;
    return GY_OK;
}

/* Every solver ends at the first check whose loss is less than a hundredth below that of three
 * checks before. */
static void test_validation(void)
{
    static const double falls[] = { 10, 9, 8.5, 8.4, 8.39, 8.389, 8.388, 8.387 }, slowly[] = { 10, 9.94, 9.88, 9.82, 9.76, 9.7, 9.64, 9.58, 9.52, 9.46 },
                        rises[] = { 1, 2, 3, 4 }, dips[] = { 5, 1, 1, 1, 1 };
    static const struct {
        const double *loss;
        int count, ends;
    } rows[] = { { falls, 8, 7 }, { slowly, 10, 0 }, { rises, 4, 4 }, { dips, 5, 5 } };
    static const char *const names[] = { "sdca", "newton", "l1" };
    const struct gy_alloc alloc = gy_alloc_default();
    const struct glm_data_kind kind = t_kind(GY_GLM_LOGISTIC, 0, 3);
    struct gy_error err = { 0 };
    struct gy_pool *pool = NULL;
    struct glm_data data;
    float w[2000];
    glm_data_random(&data, &kind);
    if (!T_CHECK(data.feed.features + 1 <= GY_COUNT(w) && gy_pool_open(&pool, &alloc, 1, &err) == GY_OK))
        return;
    for (size_t k = 0; k < GY_COUNT(names); k++)
        for (size_t i = 0; i < GY_COUNT(rows); i++) {
            struct gy_glm_problem problem = t_problem(GY_GLM_LOGISTIC, 1e-3);
            struct t_series series = { rows[i].loss, rows[i].count, 0 };
            problem.l1 = k == 2 ? 1e-2 : 0;
            struct gy_glm_run run = { .problem = &problem, .feed = &data.feed, .alloc = &alloc, .pool = pool, .seed = 1, .w = w, .validate = t_validate,
                                      .user = &series, .stop = { .validation = 0.01, .epochs = 9, .every = 1 } };
            const struct gy_glm_solver *const solver = gy_glm_choose(names[k], &problem, &data.feed, NULL, &err);
            memset(w, 0, sizeof w);
            if (!T_CHECK(solver && solver->solve(&run, &err) == GY_OK))
                continue;
            const int validated = run.why == GY_GLM_VALIDATION;
            T_CHECK_MSG(validated == (rows[i].ends > 0) && series.calls == (rows[i].ends ? rows[i].ends : 9), "%s, series %zu: %s after %d checks",
                        names[k], i, gy_glm_why_name(run.why), series.calls);
        }
    gy_pool_close(pool);
    glm_data_free(&data);
}

static void test_choice(void)
{
    struct gy_error err = { 0 };
    const struct gy_glm_feed feed = { .rows = 100, .all_rows = 100, .entries = 1000, .features = 10 };
    struct gy_glm_problem problem = t_problem(GY_GLM_HINGE, 1);
    const struct gy_glm_solver *solver = gy_glm_choose(NULL, &problem, &feed, NULL, &err);
    T_CHECK(solver && strcmp(solver->name, "newton") == 0);
    /* many rows of few features: a matrix; of many: passes */
    const struct gy_glm_feed narrow = { .rows = 30000, .all_rows = 30000, .entries = 420000, .features = 123 };
    const struct gy_glm_feed wide = { .rows = 60000, .all_rows = 60000, .entries = 600000, .features = 5400 };
    problem.loss = GY_GLM_LOGISTIC;
    solver = gy_glm_choose(NULL, &problem, &narrow, NULL, &err);
    T_CHECK(solver && strcmp(solver->name, "newton") == 0);
    solver = gy_glm_choose(NULL, &problem, &wide, NULL, &err);
    T_CHECK(solver && strcmp(solver->name, "sdca") == 0);
    problem.loss = GY_GLM_HINGE;
    solver = gy_glm_choose(NULL, &problem, &narrow, NULL, &err);
    T_CHECK(solver && strcmp(solver->name, "newton") == 0);
    solver = gy_glm_choose(NULL, &problem, &wide, NULL, &err);
    T_CHECK(solver && strcmp(solver->name, "sdca") == 0);
    T_CHECK(!gy_glm_choose("nosuch", &problem, &feed, NULL, &err) && strstr(err.text, "nosuch") && strstr(err.text, "sdca"));
    problem.l2 = 0;
    T_CHECK(!gy_glm_choose("sdca", &problem, &feed, NULL, &err) && strstr(err.text, "l2"));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *const root = getenv("GYRE_TEST_DATA");
    char folder[900];
    test_certificates();
    test_small();
    test_every_model();
    test_same_bits();
    test_forms();
    test_weights();
    test_guard();
    test_ends();
    test_memory();
    test_validation();
    test_choice();
    if (root && *root) {
        snprintf(folder, sizeof folder, "%s/glm", root);
        test_optima(folder);
        test_budgets(folder);
    } else
        T_SKIP("optima of real data: GYRE_TEST_DATA is not set");
    T_END("t_glm");
}
