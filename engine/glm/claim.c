/* SPDX-License-Identifier: MIT */
/* claim.c: checks what a model's file says of itself: gyre_glm_verify, which
 * tools/cmd_glm_verify.c calls. It takes the file and its rows, and nothing of the training. The
 * referee computes the objective of the file's weights, and the bound that their slopes prove.
 * Where that bound neither proves nor disproves the claim, the problem is solved again, for a
 * better one. A new kind of claim is a sentence of glm_verify_wrong. */
#include "engine/base/public.h"
#include "engine/glm/glm_model.h"
#include "engine/glm/referee.h"

#define CLAIM_LEAST 1e-12 /* least gap that a solution of our own is asked for */
/* The file's objective or bound may be above ours by this part of the objective: sums round. */
#define CLAIM_NEAR 1e-9

GYRE_API void gyre_glm_verify_default(struct gyre_glm_verify_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->l1 = config->l2 = -1;
    config->log.level = GYRE_LOG_INFO;
}

struct glm_verify {
    const struct gyre_glm *model;
    struct gyre_glm_info info; /* with the penalties that count */
    struct gyre_glm_verify_config c;
    struct gyre_glm_data data;
    struct gy_pool *pool;
    struct gy_glm_source *source;
    struct gyre_glm *own;      /* a solution of ours, where one was needed */
};

static int glm_verify_check(const struct glm_verify *v, struct gy_error *err)
{
    const struct gy_range rows[] = {
        { "threads", v->c.threads, 0, 4096 }, { "l1", v->c.l1, -HUGE_VAL, 1e30 }, { "l2", v->c.l2, -HUGE_VAL, 1e30 }, { "gap", v->c.gap, 0, 1 },
        { "seconds", v->c.seconds, 0, 1e9 }, { "log.level", v->c.log.level, 0, GYRE_LOG_DEBUG },
    };
    GY_TRY(gy_config_ranges("verify config", rows, GY_COUNT(rows), err));
    if (gy_glm_model_is_whole(v->model) && v->info.loss != GYRE_GLM_LOGISTIC)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "the model is of the loss of Crammer and Singer, which is not known here");
    if (v->model->is_other)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "the loss of L2R_L1LOSS_SVR_DUAL is not known here");
    if (v->info.classes == 1)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "the model has one class");
    return GY_OK;
}

static int glm_verify_open(struct glm_verify *v, const struct gyre_glm_verify_config *config, struct gy_error *err)
{
    const struct gyre_glm *m = v->model;
    gyre_glm_verify_default(&v->c);
    GY_TRY(gy_config_take(&v->c, sizeof v->c, config, offsetof(struct gyre_glm_verify_config, threads), "verify config", err));
    v->info = m->info;
    v->info.l1 = v->c.l1 >= 0 ? v->c.l1 : v->info.l1;
    v->info.l2 = v->c.l2 >= 0 ? v->c.l2 : v->info.l2;
    GY_TRY(glm_verify_check(v, err));
    GY_TRY(gy_glm_data_take(&v->data, v->c.data, "rows", err));
    GY_TRY(gy_pool_open(&v->pool, &m->alloc, v->c.threads, err));
    return gy_glm_source_open(&v->source, &v->data, &m->info, 0, v->pool, &m->alloc, err);
}

/* 1: some class counts otherwise than once a row. */
static int glm_verify_is_weighted(const struct gyre_glm_info *info)
{
    int i = 0;
    while (i < info->classes && info->class_weight[i] == 1)
        i++;
    return i < info->classes;
}

/* The same problem over the same rows, by one of the solvers. GY_E_UNSUPPORTED: not by this one.
 * GY_E_ARG: by none, as the file says what no training takes. */
static int glm_verify_solve(struct glm_verify *v, const char *solver, double gap, struct gy_error *err)
{
    struct gyre_glm_config c;
    struct gyre_glm_data data = v->data;
    struct gyre_error error = { 0 };
    const struct gyre_glm_info *const info = &v->info;
    gyre_glm_config_default(&c);
    data.hash_bits = info->hash_bits;
    data.hash_seed = info->hash_seed;
    c.train = &data;
    c.solver = solver;
    c.loss = info->loss;
    c.l1 = info->l1;
    c.l2 = info->l2;
    c.bias = info->bias;
    c.bias_free = info->bias_free && info->bias > 0;
    c.normalize = info->normalize;
    c.softmax = gy_glm_model_is_whole(v->model);
    c.weight_label = info->label;
    c.weight_factor = info->class_weight;
    c.weights = glm_verify_is_weighted(info) ? info->classes : 0;
    c.threads = v->c.threads;
    c.gap = fmax(gap, CLAIM_LEAST);
    c.seconds = v->c.seconds;
    c.log = v->c.log;
    const int status = gyre_glm_train(&v->own, &c, NULL, &error);
    return status == GYRE_OK ? GY_OK : GY_FAIL(err, error.status, "%s", error.text);
}

/* 1: part k of both models is the answer to the same problem, as far as labels decide it. The other
 * data of the problem are the file's, as glm_verify_solve took them from there. */
static int glm_verify_is_same(const struct gyre_glm *a, const struct gyre_glm *b, int k)
{
    const int whole = gy_glm_model_is_whole(a);
    if (a->info.models != b->info.models || whole != gy_glm_model_is_whole(b))
        return 0;
    for (int i = 0; whole && i < a->info.classes; i++)
        if (a->label[i] != b->label[i] || a->class_weight[i] != b->class_weight[i])
            return 0;
    const struct gy_glm_problem x = gy_glm_model_problem(a, k), y = gy_glm_model_problem(b, k);
    return x.target == y.target && x.positive == y.positive && x.class_weight[0] == y.class_weight[0] &&
           x.class_weight[1] == y.class_weight[1];
}

/* Part k of our own solution. NULL: there is none, or it is of another problem or of more features,
 * and says nothing of the file's. */
static const struct gyre_glm_part *glm_verify_own(const struct glm_verify *v, int k)
{
    const struct gyre_glm *const own = v->own;
    const int fits = own && own->info.features <= v->model->info.features;
    return fits && glm_verify_is_same(own, v->model, k) ? &own->part[k] : NULL;
}

static int glm_verify_look(struct glm_verify *v, int k, struct gy_glm_verdict *out, struct gy_error *err)
{
    const struct gyre_glm *const m = v->model;
    struct gy_glm_problem problem = gy_glm_model_problem(m, k);
    const struct gy_glm_classes classes = { .label = m->label, .factor = m->class_weight, .count = m->info.classes };
    const struct gy_glm_answer answer = { .blocks = v->source->blocks, .alloc = &m->alloc, .pool = v->pool, .problem = &problem,
                                          .classes = gy_glm_model_is_whole(m) ? &classes : NULL, .normalize = v->info.normalize,
                                          .features = m->info.features, .w = m->part[k].weight };
    problem.l1 = v->info.l1;
    problem.l2 = v->info.l2;
    return gy_glm_referee(&answer, out, err);
}

/* What is wrong with the claims of the file, or NULL. *unsure: a better bound may show that nothing
 * is wrong. */
static const char *glm_verify_wrong(const struct glm_verify *v, const struct gyre_glm_part *claim, const struct gyre_glm_verdict *now, double best,
                                    int *unsure)
{
    const double gap = now->objective > 0 ? (now->objective - now->bound) / now->objective : 0;
    *unsure = 0;
    if (!isfinite(now->objective))
        return "its objective is no number";
    if (now->bound > now->objective)
        return "nothing is proved: the bound that was found is above the objective";
    if (isfinite(claim->objective) && claim->objective < now->least)
        return "its objective is higher than it says";
    if (isfinite(claim->objective) && claim->objective > now->objective * (1 + CLAIM_NEAR))
        return "its objective is lower than it says: these are other weights, or other rows";
    if (isfinite(claim->bound) && claim->bound > fmin(best, now->objective))
        return "its bound is above the optimum";
    *unsure = 1;
    if (isfinite(claim->bound) && claim->bound > now->bound + CLAIM_NEAR * now->objective)
        return "its bound is not proved";
    return v->c.gap > 0 && !(gap <= v->c.gap) ? "the gap that was asked for is not proved" : NULL;
}

/* Solutions of our own, one solver after the other, until nothing is unsure. */
static int glm_verify_again(struct glm_verify *v, int k, struct gyre_glm_verdict *out, struct gy_error *err)
{
    static const struct {
        const char *solver;
        double part; /* of the gap that is to be proved */
    } turns[] = { { NULL, 0.9 }, { NULL, 0.2 }, { NULL, 0.01 }, { "sdca", 0.9 }, { "newton", 0.9 },
                { "l1", 0.9 } };
    const struct gyre_glm_part *const claim = &v->model->part[k];
    const double said = isfinite(claim->bound) && isfinite(claim->objective) ? (claim->objective - claim->bound) / claim->objective : 1;
    double best = HUGE_VAL;
    int unsure = 1;
    for (size_t i = 0; unsure && out->wrong && i < GY_COUNT(turns) && !(turns[i].solver && gy_glm_model_is_whole(v->model)); i++) {
        struct gy_error own_err = { 0 };
        gyre_glm_close(v->own);
        v->own = NULL;
        const int status = glm_verify_solve(v, turns[i].solver, turns[i].part * (v->c.gap > 0 ? fmin(said, v->c.gap) : said), &own_err);
        if (status != GY_OK && status != GY_E_UNSUPPORTED && status != GY_E_NONFINITE &&
            status != GY_E_ARG)
            return *err = own_err, status;
        const struct gyre_glm_part *const own = status == GY_OK ? glm_verify_own(v, k) : NULL;
        out->bound = own ? fmax(out->bound, own->bound) : out->bound;
        best = own ? fmin(best, own->objective) : best;
        out->wrong = glm_verify_wrong(v, claim, out, best, &unsure);
    }
    return GY_OK;
}

static int glm_verify_part(struct glm_verify *v, int k, struct gyre_glm_verdict *out, struct gy_error *err)
{
    struct gy_glm_verdict found;
    int unsure;
    GY_TRY(glm_verify_look(v, k, &found, err));
    *out = (struct gyre_glm_verdict){ .objective = found.objective, .least = found.least, .bound = found.bound };
    out->wrong = glm_verify_wrong(v, &v->model->part[k], out, HUGE_VAL, &unsure);
    return out->wrong && unsure ? glm_verify_again(v, k, out, err) : GY_OK;
}

GYRE_API int gyre_glm_verify(const struct gyre_glm *model, const struct gyre_glm_verify_config *config, struct gyre_glm_verdict *verdict,
                             struct gyre_error *error)
{
    GY_TRY(gy_given(model, "gyre_glm_verify: model", error));
    GY_TRY(gy_given(config, "gyre_glm_verify: config", error));
    GY_TRY(gy_given(verdict, "gyre_glm_verify: verdict", error));
    struct gy_error err = { 0 };
    struct glm_verify v = { .model = model };
    int status = glm_verify_open(&v, config, &err);
    const int parts = gy_glm_model_is_whole(model) ? 1 : model->info.models;
    for (int k = 0; status == GY_OK && k < parts; k++)
        status = glm_verify_part(&v, k, &verdict[k], &err);
    gyre_glm_close(v.own);
    gy_glm_source_close(v.source);
    gy_pool_close(v.pool);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
