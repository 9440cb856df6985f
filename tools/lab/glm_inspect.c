/* SPDX-License-Identifier: MIT */
/* glm_inspect.c: prints what a file of rows or a model holds, for `gyre glm inspect`
 * (tools/cmd_glm_data.c), as text or as JSON. It reads every block of rows, so that a damaged one
 * is found. */
#include "tools/lab/lab.h"
#include "engine/run/engine.h"
#include "engine/base/file_line.h"
#include "engine/glm/glm_model.h"

#define INSPECT_LABELS 20 /* labels in the text, at most; JSON has them all */

static void inspect_rows_json(const char *path, const struct gy_glm_source *s, struct gy_sink *out)
{
    const struct gy_blocks_info *i = &s->info;
    gy_sink_printf(out, "{\"kind\":\"%s\",\"path\":", s->in_memory ? "text" : "blocks");
    gy_print_json_text(path, out);
    gy_sink_printf(out, ",\"rows\":%" PRId64 ",\"entries\":%" PRId64 ",\"features\":%" PRIu32 ",\"blocks\":%" PRId64
                   ",\"width\":%d,\"id_bits\":%d,\"values\":%s", i->rows, i->entries, i->features, i->blocks, i->width, i->id_bits,
                   i->has_values ? "true" : "false");
    gy_sink_printf(out, ",\"value\":%.9g,\"weights\":%s,\"hash_bits\":%d,\"hash_seed\":%" PRIu64 ",\"id\":\"%016" PRIx64 "\",\"labels\":[",
                   i->has_values ? 0 : (double)i->same, i->has_weights ? "true" : "false", i->hash_bits, i->hash_seed, i->id);
    for (int32_t c = 0; c < i->classes; c++)
        gy_sink_printf(out, "%s{\"label\":%.9g,\"rows\":%" PRId64 "}", c ? "," : "", (double)i->label[c], i->label_rows[c]);
    gy_sink_printf(out, "]}\n");
}

static void inspect_rows_text(const char *path, const struct gy_glm_source *s, struct gy_sink *out)
{
    const struct gy_blocks_info *i = &s->info;
    gy_sink_printf(out, "%.1000s: %s\nrows       %" PRId64 " in %" PRId64 " blocks of at most %d\nentries    %" PRId64 ", %.2f a row%s\nfeatures   %" PRIu32
                   ", ids of at most %d bits\n", path, s->in_memory ? "text" : "blocks", i->rows, i->blocks, i->most_rows, i->entries,
                   (double)i->entries / (double)i->rows, i->width ? ", each row as many" : "", i->features, i->id_bits);
    if (i->has_values)
        gy_sink_printf(out, "values     float%s\n", i->has_weights ? ", and weights of rows" : "");
    else
        gy_sink_printf(out, "values     all are %.9g%s\n", (double)i->same, i->has_weights ? "; rows have weights" : "");
    if (i->hash_bits)
        gy_sink_printf(out, "hashed     to %d bits with seed %" PRIu64 "\n", i->hash_bits, i->hash_seed);
    gy_sink_printf(out, "data id    %016" PRIx64 "\n", i->id);
    if (!i->classes)
        gy_sink_printf(out, "labels     more than %d different ones\n", GY_BLOCKS_CLASSES);
    for (int32_t c = 0; c < i->classes && c < INSPECT_LABELS; c++)
        gy_sink_printf(out, "label      %-9.9g %" PRId64 " rows\n", (double)i->label[c], i->label_rows[c]);
    if (i->classes > INSPECT_LABELS)
        gy_sink_printf(out, "           and %d more labels\n", i->classes - INSPECT_LABELS);
}

static int inspect_rows(const char *path, const struct gyre_glm_data *data, int json, struct gy_sink *out, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_glm_source *s;
    struct gy_rows rows;
    int status;
    GY_TRY(gy_glm_source_open(&s, data, NULL, 0, NULL, &alloc, err));
    while ((status = gy_glm_source_next(s, &rows, err)) == GY_OK && rows.count)
        ;
    if (status == GY_OK)
        (json ? inspect_rows_json : inspect_rows_text)(path, s, out);
    gy_glm_source_close(s);
    return status;
}

/* ---- models ---- */

static void inspect_number(struct gy_sink *out, const char *name, double value)
{
    if (isfinite(value))
        gy_sink_printf(out, ",\"%s\":%.12g", name, value);
    else
        gy_sink_printf(out, ",\"%s\":null", name);
}

static int64_t inspect_filled(const struct gyre_glm *m, int part)
{
    int64_t count = 0;
    for (int64_t j = 0; j < m->width; j++)
        count += m->w[part * m->width + j] != 0;
    return count;
}

static void inspect_model_json(const char *path, const struct gyre_glm *m, struct gy_sink *out)
{
    const struct gyre_glm_info *i = &m->info;
    gy_sink_printf(out, "{\"kind\":\"model\",\"path\":");
    gy_print_json_text(path, out);
    gy_sink_printf(out, ",\"loss\":\"%s\",\"l1\":%.12g,\"l2\":%.12g,\"features\":%" PRIu32 ",\"bias\":%.9g,\"bias_free\":%d,\"normalize\":%d,\"softmax\":%d",
                   gy_glm_loss_name(i->loss), i->l1, i->l2, i->features, i->bias, i->bias_free, i->normalize, i->softmax);
    gy_sink_printf(out, ",\"hash_bits\":%d,\"hash_seed\":%" PRIu64 ",\"labels\":[", i->hash_bits, i->hash_seed);
    for (int c = 0; c < i->classes; c++)
        gy_sink_printf(out, "%s%.9g", c ? "," : "", (double)m->label[c]);
    gy_sink_printf(out, "],\"parts\":[");
    for (int k = 0; k < i->models; k++) {
        gy_sink_printf(out, "%s{\"filled\":%" PRId64 ",\"epochs\":%d", k ? "," : "", inspect_filled(m, k), m->part[k].epochs);
        inspect_number(out, "objective", m->part[k].objective);
        inspect_number(out, "bound", m->part[k].bound);
        inspect_number(out, "loss", m->part[k].loss);
        gy_sink_printf(out, "}");
    }
    gy_sink_printf(out, "]}\n");
}

static void inspect_model_text(const char *path, const struct gyre_glm *m, struct gy_sink *out)
{
    const struct gyre_glm_info *i = &m->info;
    gy_sink_printf(out, "%.1000s: a linear model, loss %s%s\n", path, gy_glm_loss_name(i->loss), i->softmax && i->classes > 2 ? ", softmax" : "");
    gy_sink_printf(out, "penalty    l2 %.9g, l1 %.9g\nfeatures   %" PRIu32 "\n", i->l2, i->l1, i->features);
    if (i->bias != 0)
        gy_sink_printf(out, "bias       %.9g%s\n", i->bias, i->bias_free ? ", not penalised" : "");
    if (i->normalize)
        gy_sink_printf(out, "rows       scaled to length 1\n");
    if (i->hash_bits)
        gy_sink_printf(out, "hashed     to %d bits with seed %" PRIu64 "\n", i->hash_bits, i->hash_seed);
    gy_sink_printf(out, "classes    %d\n", i->classes);
    for (int k = 0; k < i->models; k++) {
        const struct gyre_glm_part *p = &m->part[k];
        if (i->models > 1)
            gy_sink_printf(out, "class %-9.9g ", (double)m->label[k]);
        gy_sink_printf(out, "weights    %" PRId64 " are not 0\n", inspect_filled(m, k));
        if (isfinite(p->objective))
            gy_sink_printf(out, "objective  %.9g, bound %.9g: at most %.2g of it above the optimum\n", p->objective, p->bound,
                           gy_glm_relative_gap(p->objective, p->bound));
    }
}

static int inspect_model(const char *path, int json, struct gy_sink *out, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gyre_glm *m;
    GY_TRY(gy_glm_model_read(&m, path, &alloc, err));
    (json ? inspect_model_json : inspect_model_text)(path, m, out);
    gyre_glm_close(m);
    return GY_OK;
}

/* A model's file begins with the name of one of its header's lines. */
static int inspect_is_model(const char *path)
{
    static const char *const words[] = { "solver_type", "nr_class", "nr_feature", "bias", "label" };
    char line[32];
    gy_file_line(path, line, sizeof line);
    for (size_t i = 0; i < GY_COUNT(words); i++)
        if (strncmp(line, words[i], strlen(words[i])) == 0 && line[strlen(words[i])] == ' ')
            return 1;
    return 0;
}

GYRE_API int gyre_glm_print_inspect(const char *path, const struct gyre_glm_data *how, int json, const struct gyre_sink *text, struct gyre_error *error)
{
    GY_TRY(gy_given(path, "gyre_glm_print_inspect: path", error));
    GY_TRY(gy_given(text, "gyre_glm_print_inspect: text", error));
    struct gy_error err = { 0 };
    struct gy_sink sink = gy_sink_of(text);
    struct gyre_glm_data data;
    gyre_glm_data_default(&data);
    int status = how ? gy_glm_data_take(&data, how, "data", &err) : GY_OK;
    data.files = &path;
    data.file_count = 1;
    if (status == GY_OK)
        status = inspect_is_model(path) ? inspect_model(path, json, &sink, &err) : inspect_rows(path, &data, json, &sink, &err);
    if (status == GY_OK && sink.failed)
        status = GY_FAIL(&err, GY_E_IO, "what was found could not be written");
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

#undef INSPECT_LABELS
