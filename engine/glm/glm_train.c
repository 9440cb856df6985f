/* SPDX-License-Identifier: MIT */
/* Training a linear model: gyre_glm_train, which tools/cmd_glm.c and claim.c call. It checks the
 * configuration, opens rows, deals them to ranks and says what labels mean. Then it gives one
 * problem after the other to glm_train_solve.c. Cross-validation trains without a fold and counts
 * on that fold. A new setting has its limits in glm_train_check. One that decides which collectives
 * a rank takes part in also stands in glm_train_settings. */
#include "io/rows/blocks.h"
#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/hash.h"
#include "engine/base/public.h"
#include "engine/job/peers.h"
#include "engine/glm/feed.h"
#include "engine/glm/glm_model.h"
#include "engine/glm/solve/softmax.h"
#include "engine/glm/glm_stream.h"
#include "engine/glm/glm_train_state.h"

#define GLM_TRAIN_GAP_LEAST 1e-13
/* least bytes of a feature with any solver (measured: 36 to 84), without the weights of further
 * models */
#define GLM_TRAIN_FEATURE 32

GY_STATIC_ASSERT((int)GYRE_GLM_SQUARED == (int)GY_GLM_SQUARED && (int)GYRE_GLM_HINGE == (int)GY_GLM_HINGE, glm_losses);
GY_STATIC_ASSERT((int)GYRE_GLM_LOSSES == (int)GY_GLM_LOSSES, glm_losses2);

GYRE_API void gyre_glm_config_default(struct gyre_glm_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->l2 = 1;
    config->device = "cpu";
    config->gap = 1e-4;
    config->epochs = 1000;
    config->seed = 1;
    config->checkpoint_seconds = 60;
    config->log.level = GYRE_LOG_INFO;
}

/* ---- checks ---- */

static int glm_train_check(const struct gyre_glm_config *c, struct gy_error *err)
{
    const struct gy_range rows[] = {
        { "loss", c->loss, 0, GYRE_GLM_LOSSES - 1 }, { "l1", c->l1, 0, 1e30 },
        { "l2", c->l2, 0, 1e30 }, { "bias", c->bias, 0, 1e9 }, { "bias_free", c->bias_free, 0, 1 }, { "normalize", c->normalize, 0, 1 },
        { "softmax", c->softmax, 0, 1 }, { "balanced", c->balanced, 0, 1 },
        { "gap", c->gap, 0, 1 }, { "target", c->target, 0, 1e300 }, { "validation", c->validation, 0, 1 }, { "epochs", c->epochs, 0, 1e9 },
        { "seconds", c->seconds, 0, 1e9 }, { "every", c->every, 0, 1e9 }, { "threads", c->threads, 0, 4096 }, { "pin", c->pin, GYRE_PIN_AUTO, GYRE_PIN_OFF },
        { "folds", c->folds, 0, 1000 }, { "weights", c->weights, 0, 65536 }, { "checkpoint_seconds", c->checkpoint_seconds, 0, 1e9 },
        { "resume", c->resume, 0, 1 }, { "overwrite", c->overwrite, 0, 1 }, { "log.level", c->log.level, 0, GYRE_LOG_DEBUG },
    };
    GY_TRY(gy_config_ranges("glm config", rows, GY_COUNT(rows), err));
    if (c->weights > 0 && (!c->weight_label || !c->weight_factor))
        return GY_FAIL(err, GY_E_ARG, "glm config: %d weights, but weight_label or weight_factor is NULL", c->weights);
    for (int i = 0; i < c->weights; i++)
        if (!(c->weight_factor[i] > 0 && c->weight_factor[i] < 1e30f))
            return GY_FAIL(err, GY_E_ARG, "glm config: label %g weighs %g; weights are above 0", (double)c->weight_label[i], (double)c->weight_factor[i]);
    if (c->gap > 0 && c->gap < GLM_TRAIN_GAP_LEAST)
        return GY_FAIL(err, GY_E_ARG, "glm config: gap is %g; sums of doubles allow %g at least, or 0 for none", c->gap, GLM_TRAIN_GAP_LEAST);
    if (c->bias_free && !(c->bias > 0))
        return GY_FAIL(err, GY_E_ARG, "glm config: bias_free without a bias: which weight is not to be penalised?");
    if (c->resume && c->overwrite)
        return GY_FAIL(err, GY_E_ARG, "glm config: resume goes on from the folder's checkpoints, overwrite removes them; take one of both");
    if (c->folds == 1)
        return GY_FAIL(err, GY_E_ARG, "glm config: folds is 1; cross-validation needs two at least");
    if (c->validation > 0 && !c->test)
        return GY_FAIL(err, GY_E_ARG, "glm config: validation needs rows to test on");
    return GY_OK;
}

/* Kinds of device: ranks may name another one of a kind each, as cuda:1. */
static int glm_train_device_kind(const char *device)
{
    return !device || strcmp(device, "cpu") == 0 ? 0 : strcmp(device, "auto") == 0 ? 1 : 2;
}

/* A checksum of what all ranks must have alike, as it decides which collectives they take part in.
 * A folder's and a file's name may differ. */
static uint64_t glm_train_settings(const struct glm_train *t)
{
    const struct gyre_glm_config *c = &t->c;
    const double numbers[] = { c->loss, c->l1, c->l2, c->bias, c->bias_free, c->normalize, c->softmax, c->balanced, c->gap, c->target, c->validation, c->epochs,
                               c->seconds, c->every, (double)c->seed, c->folds, c->weights,
                               c->folder != NULL, c->trace != NULL, c->test != NULL, c->resume,
                               c->overwrite, glm_train_device_kind(c->device) };
    uint32_t crc = gy_crc32c(0, numbers, sizeof numbers);
    crc = gy_crc32c(crc, c->weight_label, (size_t)c->weights * sizeof *c->weight_label);
    crc = gy_crc32c(crc, c->weight_factor, (size_t)c->weights * sizeof *c->weight_factor);
    return c->solver ? gy_crc32c(crc, c->solver, strlen(c->solver)) : crc;
}

static int glm_train_agree(const struct glm_train *t, struct gy_error *err)
{
    if (!t->c.job)
        return GY_OK;
    GY_TRY(gy_peers_agree(t->c.job, "the linear model's settings", glm_train_settings(t), err));
    return gy_peers_agree(t->c.job, "the rows", t->source->info.id, err);
}

/* ---- labels ---- */

static int glm_train_is_regression(const struct glm_train *t)
{
    return gy_glm_loss_at(t->c.loss)->labels == GY_GLM_NUMBERS;
}

static int glm_train_check_labels(const struct glm_train *t, const struct gy_glm_source *s, struct gy_error *err)
{
    if (s->info.entries == 0 && t->c.bias == 0)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: none of %" PRId64 " rows has a feature, and there is no bias: there is nothing to train", s->name,
                       s->info.rows);
    if (glm_train_is_regression(t))
        return GY_OK;
    if (s->info.classes == 0)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s has more than %d different labels; the %s loss is for classes, the squared loss for numbers", s->name,
                       GY_BLOCKS_CLASSES, gy_glm_loss_name(t->c.loss));
    if (s->info.classes == 1)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: all %" PRId64 " rows have the label %g; there must be two different ones at least", s->name, s->info.rows,
                       (double)s->info.label[0]);
    for (int i = 0; i < t->c.weights; i++) {
        int known = 0;
        for (int32_t k = 0; k < s->info.classes; k++)
            known |= s->info.label[k] == t->c.weight_label[i];
        if (!known)
            return GY_FAIL(err, GY_E_ARG, "glm config: a weight for label %g; %.300s has no such row", (double)t->c.weight_label[i], s->name);
    }
    return GY_OK;
}

/* How often rows of a class count. */
static float glm_train_factor(const struct glm_train *t, int32_t class)
{
    const struct gy_blocks_info *info = &t->source->info;
    double factor = t->c.balanced ? (double)info->rows / ((double)info->classes * (double)info->label_rows[class]) : 1;
    for (int i = 0; i < t->c.weights; i++)
        if (t->c.weight_label[i] == info->label[class])
            factor *= (double)t->c.weight_factor[i];
    return (float)factor;
}

/* ---- all models ---- */

GY_INT size_t gy_glm_train_memory(const struct gyre_glm_config *c)
{
    struct gy_memory machine;
    if (c->memory_bytes)
        return c->memory_bytes;
    gy_memory_look(&machine, "");
    const int locals = c->job && c->job->locals > 1 ? c->job->locals : 1;
    return machine.total < UINT64_MAX ? (size_t)((double)machine.total * 0.6 / locals) : 0;
}

/* Features that the machine has memory for; 0: any number, also where the caller gives the
 * memory. */
static uint32_t glm_train_most(const struct glm_train *t)
{
    struct gy_memory machine;
    if (t->c.memory.hook)
        return 0;
    gy_memory_look(&machine, "");
    return machine.available / GLM_TRAIN_FEATURE < UINT32_MAX ? (uint32_t)(machine.available / GLM_TRAIN_FEATURE) + 1 : 0;
}

/* The whole need is compared before any of it is taken. */
static int glm_train_check_memory(const struct glm_train *t, struct gy_error *err)
{
    const struct gy_blocks_info *info = &t->source->info;
    const int one = glm_train_is_regression(t) || info->classes < 3;
    const uint64_t more = one ? 0 : (uint64_t)info->classes - 1;
    const uint64_t bytes = info->features * (GLM_TRAIN_FEATURE + more * sizeof(float));
    uint64_t available;
    if (t->c.memory.hook || !gy_memory_short(bytes, &available))
        return GY_OK;
    return GY_FAIL(err, GY_E_NOMEM, "%.200s: a model of %" PRIu32 " features needs %" PRIu64 " bytes at least; %" PRIu64 " are available; take fewer "
                   "(--features), or hash the ids of text (--hash-bits)", t->source->name, info->features, bytes, available);
}

static void glm_train_add(struct glm_train *t, struct gyre_glm_report *r)
{
    const struct gyre_glm_part *p = &t->model->part[t->at];
    const double gap = gy_glm_relative_gap(p->objective, p->bound);
    r->objective += p->objective;
    r->bound += p->bound;
    r->gap = !(gap <= r->gap) ? gap : r->gap;
    r->epochs += t->run.epochs;
    r->rounds += t->run.rounds;
    r->why = gy_glm_worse(r->why, p->why);
    r->solver = t->solver;
}

static int glm_train_take_model(struct glm_train *t, struct gy_error *err)
{
    const struct gy_blocks_info *info = &t->source->info;
    float factor[GY_BLOCKS_CLASSES];
    const struct gyre_glm_info m = { .loss = t->c.loss, .features = info->features, .l1 = t->c.l1,
                                     .classes = glm_train_is_regression(t) ? 0 : info->classes,
                                     .l2 = t->c.l2, .bias = t->c.bias, .bias_free = t->c.bias_free, .normalize = t->c.normalize, .softmax = t->c.softmax,
                                     .hash_bits = info->hash_bits, .hash_seed = info->hash_seed, .label = info->label, .class_weight = factor };
    for (int32_t k = 0; k < m.classes; k++)
        factor[k] = glm_train_factor(t, k);
    return gy_glm_model_take(&t->model, &m, &t->alloc, err);
}

/* What this rank's rows take in memory, unpacked. */
static double glm_train_bytes(const struct glm_train *t)
{
    const struct gy_blocks_info *i = &t->source->info;
    const double entry = i->has_values ? 8 : 4, row = (i->width ? 4 : 8) + (i->has_weights ? 4 : 0) + (t->c.normalize ? 4 : 0);
    return ((double)i->entries * entry + (double)i->rows * row) / gyre_job_ranks(t->c.job);
}

/* 1: each rank trains on all rows alone. A pass is then shorter than a sum over ranks, and nothing
 * in the run needs them together. A row counts 50 ns, an entry 1 ns; the limit is 0.1 ms. */
static int glm_train_is_small(const struct glm_train *t)
{
    const struct gy_blocks_info *i = &t->source->info;
    return t->c.job && !t->c.folder && !t->c.trace && !(t->c.seconds > 0) && 50 * i->rows + i->entries < 100000;
}

static int glm_train_open_feed(struct glm_train *t, struct gy_error *err)
{
    t->apart = glm_train_is_small(t);
    const int rank = t->apart ? 0 : gyre_job_rank(t->c.job), ranks = t->apart ? 1 : gyre_job_ranks(t->c.job);
    const size_t limit = gy_glm_train_memory(&t->c);
    t->streamed = t->c.trace || glm_train_bytes(t) > (double)limit;
    if (t->streamed)
        GY_TRY(gy_glm_feed_stream(&t->feed, t->source->blocks, rank, ranks, t->c.normalize, limit, &t->alloc, err));
    else
        GY_TRY(gy_glm_feed_resident(&t->feed, t->source->blocks, rank, ranks, t->c.normalize, &t->alloc, t->pool, err));
    t->rows = t->feed->rows;
    if (t->c.folder) {
        t->dual = gy_alloc_take(&t->alloc, (size_t)t->rows + 1, sizeof *t->dual);
        if (!t->dual)
            return GY_NOMEM(err, "dual numbers of rows", ((size_t)t->rows + 1) * sizeof *t->dual);
    }
    return GY_OK;
}

static void glm_train_close_feed(struct glm_train *t)
{
    (t->streamed ? gy_glm_feed_stream_close : gy_glm_feed_close)(t->feed);
    t->feed = NULL;
    t->placed = 0;
    gy_alloc_free(&t->alloc, t->dual, ((size_t)t->rows + 1) * sizeof *t->dual);
    t->dual = NULL;
    const size_t point_bytes = t->model ? ((size_t)t->model->width + 1) * sizeof *t->point : 0;
    gy_alloc_free(&t->alloc, t->point, point_bytes);
    gy_alloc_free(&t->alloc, t->last, point_bytes);
    t->point = t->last = NULL;
}

/* Checks that all ranks have the same model. Each rank is compared with the first one whose
 * processor has the same instructions. */
static int glm_train_same(const struct glm_train *t, struct gy_error *err)
{
    const size_t bytes = (size_t)t->model->info.models * (size_t)t->model->width * sizeof *t->model->w;
    if (!t->c.job)
        return GY_OK;
    const uint64_t hash = (uint64_t)gy_crc32(0, t->model->w, bytes) << 32 | gy_crc32c(0, t->model->w, bytes);
    const int status = gy_peers_agree_alike(t->c.job, "the weights of the linear model", gy_cpu_bits(), hash, err);
    if (status == GY_E_MISMATCH && err)
        err->status = GY_E_PEER;
    return status == GY_E_MISMATCH ? GY_E_PEER : status;
}

/* All models over the rows of t->source. */
static int glm_train_models(struct glm_train *t, struct gyre_glm_report *r, struct gy_error *err)
{
    int status = glm_train_check_labels(t, t->source, err);
    if (status == GY_OK)
        status = glm_train_check_memory(t, err);
    if (status == GY_OK)
        status = glm_train_open_feed(t, err);
    if (status == GY_OK)
        status = glm_train_take_model(t, err);
    if (status == GY_OK)
        r->open_seconds += (double)(gy_clock_ns() - t->began) * 1e-9;
    const int64_t began = gy_clock_ns();
    if (status == GY_OK) {
        r->streamed = !t->feed->resident;
        r->models = t->model->info.models;
        r->classes = t->model->info.classes;
        r->features = t->model->info.features;
    }
    const int parts = status == GY_OK ? (gy_glm_model_is_whole(t->model) ? 1 : t->model->info.models) : 0;
    for (int k = 0; status == GY_OK && k < parts; k++) {
        status = gy_glm_train_one(t, k, err);
        if (status == GY_OK || status == GY_E_STOPPED)
            glm_train_add(t, r);
    }
    r->train_seconds += (double)(gy_clock_ns() - began) * 1e-9;
    if (status == GY_OK)
        status = glm_train_same(t, err);
    if (status == GY_OK && t->c.trace)
        status = gy_glm_feed_stream_trace(t->feed, t->c.trace, gyre_job_rank(t->c.job), gyre_job_ranks(t->c.job), err);
    glm_train_close_feed(t);
    return status;
}

/* ---- all of it ---- */

static int glm_train_test(struct glm_train *t, struct gyre_glm_report *r, struct gy_error *err)
{
    struct gy_glm_meter *meter;
    const struct gy_glm_scorer scorer = gy_glm_model_scorer(t->model);
    if (!t->tests || gyre_job_rank(t->c.job) > 0)
        return GY_OK;
    GY_TRY(gy_glm_meter_open(&meter, t->model, &t->alloc, err));
    const int status = gy_glm_source_score(t->tests, &scorer, t->pool, gy_glm_meter_take, meter, err);
    if (status == GY_OK)
        gy_glm_meter_metrics(meter, &r->test);
    gy_glm_meter_close(meter);
    return status;
}

/* A fold: trains on the others, counts on its own rows. */
static int glm_train_fold(struct glm_train *t, int fold, struct gy_glm_meter **meter, struct gyre_glm_report *r, struct gy_error *err)
{
    struct gy_glm_source *const all = t->source, *rest = NULL, *own = NULL;
    struct gy_glm_fold f = { .seed = t->c.seed, .number = fold, .folds = t->c.folds, .others = 1 };
    t->began = gy_clock_ns();
    int status = gy_glm_source_fold(&rest, all, &f, &t->alloc, err);
    f.others = 0;
    if (status == GY_OK)
        status = gy_glm_source_fold(&own, all, &f, &t->alloc, err);
    struct gyre_glm *const before = t->model;
    if (status == GY_OK && !glm_train_is_regression(t) && rest->info.classes != all->info.classes)
        status = GY_FAIL(err, GY_E_FORMAT, "%.300s: without fold %d there are only %d of %d labels; take fewer folds", all->name, fold + 1,
                         (int)rest->info.classes, (int)all->info.classes);
    if (status == GY_OK) {
        t->source = rest;
        t->model = NULL;
        status = glm_train_models(t, r, err);
        t->source = all;
    }
    if (status == GY_OK && !*meter)
        status = gy_glm_meter_open(meter, t->model, &t->alloc, err);
    if (status == GY_OK) {
        const struct gy_glm_scorer scorer = gy_glm_model_scorer(t->model);
        gy_glm_meter_use(*meter, t->model);
        status = gy_glm_source_score(own, &scorer, t->pool, gy_glm_meter_take, *meter, err);
    }
    if (before != t->model)
        gyre_glm_close(before);
    gy_glm_source_close(own);
    gy_glm_source_close(rest);
    return status;
}

static int glm_train_folds(struct glm_train *t, struct gyre_glm_report *r, struct gy_error *err)
{
    struct gy_glm_meter *meter = NULL;
    int status = GY_OK;
    if (t->source->info.rows < t->c.folds)
        return GY_FAIL(err, GY_E_ARG, "glm config: %d folds of %" PRId64 " rows", t->c.folds, t->source->info.rows);
    GY_TRY(glm_train_check_labels(t, t->source, err));
    for (int f = 0; f < t->c.folds && status == GY_OK; f++)
        status = glm_train_fold(t, f, &meter, r, err);
    if (status == GY_OK)
        gy_glm_meter_metrics(meter, &r->test);
    gy_glm_meter_close(meter);
    gyre_glm_close(t->model);
    t->model = NULL;
    return status;
}

static int glm_train_open(struct glm_train *t, struct gy_error *err)
{
    struct gyre_glm_data data;
    GY_TRY(gy_pool_open_compute(&t->pool, &t->alloc, t->c.threads, t->c.pin, NULL, err));
    const uint32_t most = glm_train_most(t);
    GY_TRY(gy_glm_data_take(&data, t->c.train, "training rows", err));
    GY_TRY(gy_glm_source_open(&t->source, &data, NULL, most, t->pool, &t->alloc, err));
    if (t->c.test) {
        const struct gyre_glm_info hash = { .hash_bits = t->source->info.hash_bits, .hash_seed = t->source->info.hash_seed };
        GY_TRY(gy_glm_data_take(&data, t->c.test, "test rows", err));
        GY_TRY(gy_glm_source_open(&t->tests, &data, &hash, 0, t->pool, &t->alloc, err));
    }
    return glm_train_agree(t, err);
}

static int glm_train_run(struct glm_train *t, struct gyre_glm_report *r, struct gy_error *err)
{
    GY_TRY(glm_train_open(t, err));
    r->rows = t->source->info.rows;
    r->entries = t->source->info.entries;
    r->ranks = gyre_job_ranks(t->c.job);
    r->threads = gy_pool_threads(t->pool);
    GY_TRY(gy_glm_train_folder(t, err));
    const int status = t->c.folds ? glm_train_folds(t, r, err) : glm_train_models(t, r, err);
    r->reached = status == GY_OK && (t->c.gap == 0 || r->gap <= t->c.gap);
    if (t->c.folds || (status != GY_OK && status != GY_E_STOPPED))
        return status;
    t->trained = 1;
    GY_TRY(glm_train_test(t, r, err));
    return status;
}

static int glm_train(struct gyre_glm **out, const struct gyre_glm_config *config, struct gyre_glm_report *report, struct gy_error *err)
{
    struct glm_train t = { .began = gy_clock_ns() };
    struct gyre_glm_report r = { 0 };
    gyre_glm_config_default(&t.c);
    GY_TRY(gy_config_take(&t.c, sizeof t.c, config, offsetof(struct gyre_glm_config, loss), "glm config", err));
    GY_TRY(glm_train_check(&t.c, err));
    GY_TRY(gy_config_hook(&t.c.memory, "glm config", &t.alloc, err));
    const int status = glm_train_run(&t, &r, err);
    gy_lock_drop(&t.lock);
    gy_glm_source_close(t.tests);
    gy_glm_source_close(t.source);
    gy_pool_close(t.pool);
    if (status != GY_OK && status != GY_E_STOPPED && !t.trained) {
        gyre_glm_close(t.model);
        return status;
    }
    *out = t.model;
    if (report)
        *report = r;
    return status;
}

GYRE_API int gyre_glm_train(struct gyre_glm **model, const struct gyre_glm_config *config, struct gyre_glm_report *report, struct gyre_error *error)
{
    GY_TRY(gy_given(model, "gyre_glm_train: model", error));
    GY_TRY(gy_given(config, "gyre_glm_train: config", error));
    struct gy_error err = { 0 };
    return glm_train(model, config, report, &err) == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
