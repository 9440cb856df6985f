/* SPDX-License-Identifier: MIT */
/* Public calls on linear models and their rows: defaults, files of models, prediction, conversion
 * of rows. tools/cmd_glm.c and cmd_glm_data.c call them. Training is in glm_train.c, verification
 * in claim.c; glm_model.c answers questions about a model and closes it. */
#include "io/rows/convert.h"
#include "engine/base/public.h"
#include "engine/glm/glm_model.h"

GYRE_API void gyre_glm_data_default(struct gyre_glm_data *data)
{
    if (!data)
        return;
    memset(data, 0, sizeof *data);
    data->size = sizeof *data;
    data->header = -1;
    data->log.level = GYRE_LOG_INFO;
}

GY_INT int gy_glm_data_take(struct gyre_glm_data *out, const struct gyre_glm_data *in, const char *name, struct gy_error *err)
{
    gyre_glm_data_default(out);
    if (!in)
        return GY_FAIL(err, GY_E_ARG, "%s are missing", name);
    GY_TRY(gy_config_take(out, sizeof *out, in, offsetof(struct gyre_glm_data, zero_based), name, err));
    for (int i = 0; out->files && i < out->file_count; i++)
        if (!out->files[i])
            return GY_FAIL(err, GY_E_ARG, "%s: files[%d] is NULL", name, i);
    const struct gy_range rows[] = {
        { "hash_bits", out->hash_bits, 0, 30 }, { "zero_based", out->zero_based, 0, 1 }, { "lenient", out->lenient, 0, 1 },
        { "label_column", out->label_column, -1, INT_MAX }, { "header", out->header, -1, 1 }, { "log.level", out->log.level, 0, GYRE_LOG_DEBUG },
    };
    return gy_config_ranges(name, rows, GY_COUNT(rows), err);
}

/* ---- files ---- */

static int glm_is_onnx(const char *path)
{
    const size_t bytes = strlen(path);
    return bytes > 5 && strcmp(path + bytes - 5, ".onnx") == 0;
}

GYRE_API int gyre_glm_save(const struct gyre_glm *model, const char *path, struct gyre_error *error)
{
    GY_TRY(gy_given(model, "gyre_glm_save: model", error));
    GY_TRY(gy_given(path, "gyre_glm_save: path", error));
    struct gy_error err = { 0 };
    const int status = glm_is_onnx(path) ? gy_glm_model_onnx(model, path, &err) : gy_glm_model_write(model, path, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

GYRE_API int gyre_glm_load(struct gyre_glm **model, const char *path, struct gyre_error *error)
{
    GY_TRY(gy_given(model, "gyre_glm_load: model", error));
    GY_TRY(gy_given(path, "gyre_glm_load: path", error));
    struct gy_error err = { 0 };
    const struct gy_alloc alloc = gy_alloc_default();
    return gy_glm_model_read(model, path, &alloc, &err) == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

/* ---- scores ---- */

GYRE_API void gyre_glm_predict_default(struct gyre_glm_predict_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
}

struct glm_scoring {
    const struct gyre_glm *model;
    struct gyre_glm_predict_config c;
    struct gy_pool *pool;
    struct gy_glm_source *source;
    struct gy_glm_meter *meter;
    float *label, *share; /* of one slice */
    size_t labels, shares;
};

static int glm_scoring_open(struct glm_scoring *s, const struct gyre_glm_predict_config *config, struct gy_error *err)
{
    struct gyre_glm_data d;
    const struct gyre_glm *m = s->model;
    gyre_glm_predict_default(&s->c);
    GY_TRY(gy_config_take(&s->c, sizeof s->c, config, offsetof(struct gyre_glm_predict_config, threads), "predict config", err));
    if (s->c.threads < 0 || s->c.threads > 4096)
        return GY_FAIL(err, GY_E_ARG, "threads is %d; it must be in 0 .. 4096", s->c.threads);
    GY_TRY(gy_glm_data_take(&d, s->c.data, "rows", err));
    GY_TRY(gy_pool_open(&s->pool, &m->alloc, s->c.threads, err));
    GY_TRY(gy_glm_source_open(&s->source, &d, &m->info, 0, s->pool, &m->alloc, err));
    return gy_glm_meter_open(&s->meter, m, &m->alloc, err);
}

static void glm_scoring_close(struct glm_scoring *s)
{
    gy_glm_meter_close(s->meter);
    gy_glm_source_close(s->source);
    gy_pool_close(s->pool);
    gy_alloc_free(&s->model->alloc, s->label, s->labels * sizeof *s->label);
    gy_alloc_free(&s->model->alloc, s->share, s->shares * sizeof *s->share);
}

static int glm_scoring_room(float **at, size_t *have, size_t need, const struct gy_alloc *alloc, struct gy_error *err)
{
    if (need <= *have)
        return GY_OK;
    float *const grown = gy_alloc_grow(alloc, *at, *have, need, sizeof *grown);
    if (!grown)
        return GY_NOMEM(err, "predictions", need * sizeof *grown);
    *at = grown;
    *have = need;
    return GY_OK;
}

static int glm_scoring_give(struct glm_scoring *s, const struct gy_glm_slice *slice, struct gy_error *err)
{
    const struct gyre_glm *m = s->model;
    const size_t count = (size_t)slice->count, models = (size_t)m->info.models, classes = (size_t)m->info.classes;
    int shares = classes > 0;
    GY_TRY(glm_scoring_room(&s->label, &s->labels, count, &m->alloc, err));
    GY_TRY(glm_scoring_room(&s->share, &s->shares, count * (classes + 1), &m->alloc, err));
    for (size_t i = 0; i < count; i++) {
        s->label[i] = classes ? m->label[gy_glm_decide(m, slice->score + i * models)] : slice->score[i];
        shares = shares && gy_glm_probability(m, slice->score + i * models, s->share + i * classes);
    }
    const struct gyre_glm_scores out = { .first = slice->rows->first + slice->from, .count = slice->count, .truth = slice->rows->label + slice->from,
                                         .label = s->label, .score = slice->score, .probability = shares ? s->share : NULL };
    return s->c.take(s->c.user, &out) ? GY_FAIL(err, GY_E_STOPPED, "prediction was stopped at row %" PRId64, out.first) : GY_OK;
}

static int glm_scoring_take(void *user, const struct gy_glm_slice *slice, struct gy_error *err)
{
    struct glm_scoring *s = user;
    GY_TRY(gy_glm_meter_take(s->meter, slice, err));
    return s->c.take ? glm_scoring_give(s, slice, err) : GY_OK;
}

static int glm_scoring_run(struct glm_scoring *s, struct gyre_glm_metrics *metrics, struct gy_error *err)
{
    const struct gy_glm_scorer scorer = gy_glm_model_scorer(s->model);
    GY_TRY(gy_glm_source_score(s->source, &scorer, s->pool, glm_scoring_take, s, err));
    if (metrics)
        gy_glm_meter_metrics(s->meter, metrics);
    if (!s->c.table)
        return GY_OK;
    struct gy_sink sink = gy_sink_of(s->c.table);
    gy_glm_meter_print(s->meter, s->c.json, &sink);
    return sink.failed ? GY_FAIL(err, GY_E_IO, "metrics could not be written") : GY_OK;
}

GYRE_API int gyre_glm_predict(const struct gyre_glm *model, const struct gyre_glm_predict_config *config, struct gyre_glm_metrics *metrics,
                              struct gyre_error *error)
{
    GY_TRY(gy_given(model, "gyre_glm_predict: model", error));
    GY_TRY(gy_given(config, "gyre_glm_predict: config", error));
    struct gy_error err = { 0 };
    struct glm_scoring s = { .model = model };
    int status = glm_scoring_open(&s, config, &err);
    if (status == GY_OK)
        status = glm_scoring_run(&s, metrics, &err);
    glm_scoring_close(&s);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

/* ---- conversion ---- */

GYRE_API void gyre_glm_convert_default(struct gyre_glm_convert_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
}

static void glm_print_conversion(const struct gyre_glm_data *d, const struct gy_convert_report *r, int json, struct gy_sink *out)
{
    gy_sink_printf(out, json ? "{\"rows\":%" PRId64 ",\"entries\":%" PRId64 ",\"bytes\":%" PRId64 ",\"mended\":["
                             : "%" PRId64 " rows with %" PRId64 " entries from %" PRId64 " bytes of text\n", r->rows, r->entries, r->bytes);
    for (int i = 0; i < r->mends; i++) {
        const char *file = d->files[r->mend[i].file];
        if (!json) {
            gy_sink_printf(out, "mended: %s: %" PRId64 " times, first in %.1000s:%" PRId64 "\n", r->mend[i].what, r->mend[i].count, file, r->mend[i].line);
            continue;
        }
        gy_sink_printf(out, "%s{\"what\":", i ? "," : "");
        gy_print_json_text(r->mend[i].what, out);
        gy_sink_printf(out, ",\"count\":%" PRId64 ",\"line\":%" PRId64 ",\"file\":", r->mend[i].count, r->mend[i].line);
        gy_print_json_text(file, out);
        gy_sink_printf(out, "}");
    }
    if (json)
        gy_sink_printf(out, "]}\n");
}

static int glm_convert(const struct gyre_glm_convert_config *config, int json, const struct gyre_sink *text, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gyre_glm_convert_config c;
    struct gyre_glm_data d;
    struct gy_convert_report report = { 0 };
    struct gy_pool *pool;
    gyre_glm_convert_default(&c);
    GY_TRY(gy_config_take(&c, sizeof c, config, offsetof(struct gyre_glm_convert_config, append), "convert config", err));
    GY_TRY(gy_glm_data_take(&d, c.from, "files to convert", err));
    if (!d.files || d.file_count < 1 || !c.to)
        return GY_FAIL(err, GY_E_ARG, "conversion needs files and a file to write");
    for (int i = 0; i < d.file_count; i++)
        if (gy_glm_is_blocks(d.files[i]))
            return GY_FAIL(err, GY_E_FORMAT, "%.300s is a block file already", d.files[i]);
    GY_TRY(gy_pool_open(&pool, &alloc, c.threads, err));
    const struct gy_convert_config inner = { .from = d.files, .files = d.file_count, .to = c.to, .format = d.format, .append = c.append, .lenient = d.lenient,
                                             .zero_based = d.zero_based, .features = d.features, .hash_bits = d.hash_bits, .hash_seed = d.hash_seed,
                                             .label_column = d.label_column, .header = d.header, .block_rows = c.block_rows, .pool = pool,
                                             .progress = c.progress, .user = c.user };
    const int status = gy_convert(&inner, &alloc, &report, err);
    gy_pool_close(pool);
    GY_TRY(status);
    struct gy_sink sink = gy_sink_of(text ? text : &(struct gyre_sink){ NULL, NULL });
    glm_print_conversion(&d, &report, json, &sink);
    return sink.failed ? GY_FAIL(err, GY_E_IO, "what was converted could not be written") : GY_OK;
}

GYRE_API int gyre_glm_convert(const struct gyre_glm_convert_config *config, int json, const struct gyre_sink *text, struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_glm_convert: config", error));
    struct gy_error err = { 0 };
    return glm_convert(config, json, text, &err) == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
