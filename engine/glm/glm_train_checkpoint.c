/* SPDX-License-Identifier: MIT */
/* Checkpoints of a linear training: a file a model, "glm-K.safetensors", written by the clock and
 * when the model is done. A run that is resumed finds those that are done, and goes on with the one
 * that is not. The other glm_train*.c call it; glm_checkpoint.c has the file's form. */
#include <errno.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/job/peers.h"
#include "engine/glm/glm_checkpoint.h"
#include "engine/glm/glm_stream.h"
#include "engine/glm/glm_train_state.h"

#define KEEP_FIELDS 11

/* Names and values of what the course of a run depends on. */
struct keep_settings {
    struct gy_glm_keep_field field[KEEP_FIELDS];
    char text[KEEP_FIELDS][40];
    int fields;
};

static void keep_add(struct keep_settings *s, const char *name, double value)
{
    gy_text_print(s->text[s->fields], sizeof s->text[0], "%.17g", value);
    s->field[s->fields] = (struct gy_glm_keep_field){ name, s->text[s->fields] };
    s->fields++;
}

static double keep_weights(const struct gyre_glm_config *c)
{
    uint32_t crc = gy_crc32c(0, &c->balanced, sizeof c->balanced);
    crc = gy_crc32c(crc, c->weight_label, (size_t)c->weights * sizeof *c->weight_label);
    return gy_crc32c(crc, c->weight_factor, (size_t)c->weights * sizeof *c->weight_factor);
}

static void keep_list(struct keep_settings *s, const struct glm_train *t)
{
    const struct gyre_glm_config *c = &t->c;
    const struct gy_glm_problem *p = t->run.problem;
    const struct {
        const char *name;
        double value;
    } rows[] = { { "l1", c->l1 }, { "l2", c->l2 }, { "bias", c->bias }, { "bias_free", c->bias_free }, { "normalize", c->normalize },
                                { "positive", p ? (double)p->positive : 0 }, { "weight0", p ? (double)p->class_weight[0] : 1 },
                                { "weight1", p ? (double)p->class_weight[1] : 1 } };
    s->fields = 0;
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        keep_add(s, rows[i].name, rows[i].value);
    if (gy_glm_model_is_whole(t->model)) {
        keep_add(s, "softmax", 1);
        keep_add(s, "class_weights_crc", keep_weights(c));
    }
    s->field[s->fields++] = (struct gy_glm_keep_field){ "loss", gy_glm_loss_name(c->loss) };
}

static int keep_path(const struct glm_train *t, int model, char path[4096], struct gy_error *err)
{
    char name[48];
    snprintf(name, sizeof name, "glm-%d.safetensors", model);
    return gy_file_join(path, 4096, t->c.folder, name, err);
}

static void keep_fill(struct gy_glm_keep *k, const struct glm_train *t, const struct keep_settings *s)
{
    const int whole = gy_glm_model_is_whole(t->model);
    int64_t first, end;
    gy_glm_deal(t->source->info.rows, gyre_job_rank(t->c.job), gyre_job_ranks(t->c.job), &first, &end);
    *k = (struct gy_glm_keep){ .data = t->source->info.id, .seed = t->c.seed, .field = s->field, .fields = s->fields,
                               .width = (whole ? t->model->info.models : 1) * t->model->width, .rows = end - first, .first = first,
                               .all_rows = t->source->info.rows, .w = t->run.w, .dual = whole ? NULL : t->dual, .epoch = t->run_epoch };
}

/* Removes the checkpoints of every possible model. A new run must not find those of an earlier
 * run. */
static int keep_remove(const struct glm_train *t, struct gy_error *err)
{
    char path[4096];
    for (int k = 0; gyre_job_rank(t->c.job) == 0 && k < GY_BLOCKS_CLASSES; k++) {
        GY_TRY(keep_path(t, k, path, err));
        if (unlink(path) != 0 && errno != ENOENT)
            return GY_FAIL(err, GY_E_IO, "%.400s cannot be removed: %s", path, strerror(errno));
    }
    return GY_OK;
}

GY_INT int gy_glm_train_folder(struct glm_train *t, struct gy_error *err)
{
    char path[4096];
    int there = 0;
    if (!t->c.folder)
        return GY_OK;
    if (t->c.folds)
        return GY_FAIL(err, GY_E_ARG, "glm config: cross-validation keeps no checkpoints: no folder");
    GY_TRY(gy_file_make_folder(t->c.folder, err));
    if (gyre_job_rank(t->c.job) == 0)
        GY_TRY(gy_run_folder_lock(&t->lock, t->c.folder, err));
    GY_TRY(keep_path(t, 0, path, err));
    if (t->c.overwrite)
        return keep_remove(t, err);
    if (t->c.resume)
        return GY_OK;
    there = gy_file_exists(path) != 0;
    if (t->c.job) /* before one of them writes */
        GY_TRY(gy_peers_any(t->c.job, there, &there, err));
    return there ? GY_FAIL(err, GY_E_STATE, "%.300s holds a run; it is neither to be resumed nor to be overwritten", t->c.folder) : GY_OK;
}

GY_INT int gy_glm_train_resume(struct glm_train *t, struct gy_error *err)
{
    struct keep_settings s;
    struct gy_glm_keep k;
    char path[4096];
    t->kept = gy_clock_ns();
    t->run_epoch = 0;
    if (!t->c.folder || !t->c.resume)
        return GY_OK;
    GY_TRY(keep_path(t, t->at, path, err));
    int there = gy_file_exists(path) != 0; /* what cannot be read says so when it is read */
    if (t->c.job)
        GY_TRY(gy_peers_any(t->c.job, there, &there, err));
    if (!there)
        return GY_OK;
    keep_list(&s, t);
    keep_fill(&k, t, &s);
    GY_TRY(gy_glm_keep_read(&k, path, t->c.job, &t->alloc, err));
    t->run.first_epoch = k.epoch;
    t->run.has_dual = k.dual != NULL;
    t->run_epoch = k.epoch;
    return GY_OK;
}

GY_INT int gy_glm_train_due(const struct glm_train *t)
{
    return t->c.folder && gyre_job_rank(t->c.job) == 0 && (double)(gy_clock_ns() - t->kept) * 1e-9 >= t->c.checkpoint_seconds;
}

GY_INT int gy_glm_train_keep(struct glm_train *t, struct gy_error *err)
{
    struct keep_settings s;
    struct gy_glm_keep k;
    char path[4096];
    GY_TRY(keep_path(t, t->at, path, err));
    keep_list(&s, t);
    keep_fill(&k, t, &s);
    t->kept = gy_clock_ns();
    return gy_glm_keep_write(&k, path, t->c.job, &t->alloc, err);
}
