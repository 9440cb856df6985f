/* SPDX-License-Identifier: MIT */
/* What scores are worth, counted while they stream by: sums of losses and hits, and the moments of
 * a regression. Prediction (glm_api.c) and the tests of a training (glm_train.c) use it. For the
 * area under the ROC curve the scores are kept, 8 bytes a row, and sorted at the end. Above
 * METER_SCORES rows they are counted in bins of equal width instead. Then rows of one bin are in
 * unknown order, and half of their pairs is how far the area can be off. */
#include "engine/glm/glm_model.h"

#define METER_SCORES ((size_t)1 << 23)
#define METER_BINS 65536
#define METER_REACH 16.0 /* scores from -16 to 16 have bins of their own */

struct gy_glm_meter {
    struct gy_alloc alloc;
    const struct gyre_glm *model;
    size_t classes;                   /* and one more: lengths of what follows */
    int64_t rows, unknown;
    double weight, loss, log_loss;
    double *actual, *predicted, *hit; /* [classes + 1] weights of rows */
    double mean, spread, error;       /* regression: of labels; sum of squared errors */
    /* scores as sortable whole numbers, with the weight in the low bits, negative for the smaller
     * label */
    uint64_t *key;
    size_t keys, room;
    /* [2][METER_BINS] weights of smaller and larger labels; NULL: keys are used */
    double *bins;
};

GY_INT int gy_glm_meter_open(struct gy_glm_meter **out, const struct gyre_glm *model, const struct gy_alloc *alloc, struct gy_error *err)
{
    const size_t classes = (size_t)model->info.classes + 1;
    struct gy_glm_meter *m = gy_alloc_take(alloc, 1, sizeof *m);
    if (!m)
        return GY_NOMEM(err, "a meter", sizeof *m);
    m->alloc = *alloc;
    m->model = model;
    m->classes = classes;
    m->actual = gy_alloc_take(alloc, 3 * classes, sizeof *m->actual);
    if (!m->actual) {
        gy_glm_meter_close(m);
        return GY_NOMEM(err, "counts of classes", 3 * classes * sizeof *m->actual);
    }
    m->predicted = m->actual + classes;
    m->hit = m->predicted + classes;
    *out = m;
    return GY_OK;
}

GY_INT void gy_glm_meter_use(struct gy_glm_meter *meter, const struct gyre_glm *model) { meter->model = model; }

GY_INT void gy_glm_meter_close(struct gy_glm_meter *m)
{
    if (!m)
        return;
    const struct gy_alloc alloc = m->alloc;
    gy_alloc_free(&alloc, m->actual, 3 * m->classes * sizeof *m->actual);
    gy_alloc_free(&alloc, m->key, m->room * sizeof *m->key);
    gy_alloc_free(&alloc, m->bins, 2 * METER_BINS * sizeof *m->bins);
    gy_alloc_free(&alloc, m, sizeof *m);
}

/* ---- scores of two classes ---- */

static uint32_t meter_sortable(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float meter_score_of(uint64_t key)
{
    const uint32_t high = (uint32_t)(key >> 32), bits = high & 0x80000000u ? high & 0x7fffffffu : ~high;
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

static void meter_bin(struct gy_glm_meter *m, float score, int positive, float weight)
{
    const double at = ((double)score + METER_REACH) * (METER_BINS / (2 * METER_REACH));
    const int bin = at >= METER_BINS - 1 ? METER_BINS - 1 : at > 0 ? (int)at : 0;
    m->bins[(positive ? METER_BINS : 0) + bin] += (double)weight;
}

static float meter_weight_of(uint64_t key, int *positive)
{
    const uint32_t low = (uint32_t)key;
    float weight;
    memcpy(&weight, &low, sizeof weight);
    *positive = !(low & 0x80000000u);
    return fabsf(weight);
}

/* From keys to bins. */
static int meter_fold(struct gy_glm_meter *m, struct gy_error *err)
{
    m->bins = gy_alloc_take(&m->alloc, 2 * METER_BINS, sizeof *m->bins);
    if (!m->bins)
        return GY_NOMEM(err, "bins of scores", 2 * METER_BINS * sizeof *m->bins);
    for (size_t i = 0; i < m->keys; i++) {
        int positive;
        const float weight = meter_weight_of(m->key[i], &positive);
        meter_bin(m, meter_score_of(m->key[i]), positive, weight);
    }
    gy_alloc_free(&m->alloc, m->key, m->room * sizeof *m->key);
    m->key = NULL;
    m->keys = m->room = 0;
    return GY_OK;
}

static int meter_keep(struct gy_glm_meter *m, float score, int positive, float weight, struct gy_error *err)
{
    if (!m->bins && m->keys == METER_SCORES)
        GY_TRY(meter_fold(m, err));
    if (m->bins) {
        meter_bin(m, score, positive, weight);
        return GY_OK;
    }
    if (m->keys == m->room) {
        const size_t room = m->room ? 2 * m->room : 4096;
        uint64_t *key = gy_alloc_grow(&m->alloc, m->key, m->room, room, sizeof *key);
        if (!key)
            return GY_NOMEM(err, "scores for the area under the curve", room * sizeof *key);
        m->key = key;
        m->room = room;
    }
    const float marked = positive ? weight : -weight;
    uint32_t low;
    memcpy(&low, &marked, sizeof low);
    m->key[m->keys++] = (uint64_t)meter_sortable(score) << 32 | low;
    return GY_OK;
}

/* ---- rows ---- */

static int meter_class_row(struct gy_glm_meter *m, float label, const float *score, float weight, struct gy_error *err)
{
    const struct gyre_glm_info *info = &m->model->info;
    const int32_t class = gy_glm_model_class(m->model, label), decided = gy_glm_decide(m->model, score);
    const double w = (double)weight;
    if (class < 0) {
        m->unknown++;
        return GY_OK;
    }
    m->rows++;
    m->weight += w;
    m->actual[class] += w;
    m->predicted[decided] += w;
    m->hit[class] += class == decided ? w : 0;
    if (info->models == 1) {
        m->loss += w * gy_glm_loss_at(info->loss)->value(class ? 1 : -1, (double)score[0]);
        return meter_keep(m, score[0], class, weight, err);
    }
    if (info->loss == GYRE_GLM_LOGISTIC) {
        m->loss += w * gy_glm_log_loss(m->model, score, class);
        return GY_OK;
    }
    for (int k = 0; k < info->models; k++)
        m->loss += w * gy_glm_loss_at(info->loss)->value(k == class ? 1 : -1, (double)score[k]);
    return GY_OK;
}

static void meter_value_row(struct gy_glm_meter *m, double label, double score, double weight)
{
    m->rows++;
    if (!(weight > 0))
        return;
    const double before = label - m->mean;
    m->weight += weight;
    m->mean += before * weight / m->weight;
    m->spread += weight * before * (label - m->mean);
    m->error += weight * (score - label) * (score - label);
}

GY_INT int gy_glm_meter_take(void *user, const struct gy_glm_slice *s, struct gy_error *err)
{
    struct gy_glm_meter *m = user;
    const int models = m->model->info.models;
    for (int32_t i = 0; i < s->count; i++) {
        const float label = s->rows->label[s->from + i], weight = s->rows->weight ? s->rows->weight[s->from + i] : 1;
        if (m->model->info.classes == 0)
            meter_value_row(m, (double)label, (double)s->score[i], (double)weight);
        else
            GY_TRY(meter_class_row(m, label, s->score + (int64_t)i * models, weight, err));
    }
    return GY_OK;
}

/* ---- numbers ---- */

static int meter_compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Counts pairs of a larger and a smaller label whose scores have that order. A tie counts as half a
 * pair; *tied sums the ties. */
struct meter_pairs {
    double below, pairs, tied;
};

static void meter_group(struct meter_pairs *p, double smaller, double larger)
{
    p->pairs += larger * (p->below + 0.5 * smaller);
    p->tied += larger * smaller;
    p->below += smaller;
}

static struct meter_pairs meter_count_pairs(struct gy_glm_meter *m)
{
    struct meter_pairs p = { 0, 0, 0 };
    for (int b = 0; m->bins && b < METER_BINS; b++)
        meter_group(&p, m->bins[b], m->bins[METER_BINS + b]);
    if (m->keys)
        qsort(m->key, m->keys, sizeof *m->key, meter_compare);
    for (size_t i = 0; i < m->keys;) {
        double sum[2] = { 0, 0 };
        const uint64_t score = m->key[i] >> 32;
        for (; i < m->keys && m->key[i] >> 32 == score; i++) {
            int positive;
            const float weight = meter_weight_of(m->key[i], &positive);
            sum[positive] += (double)weight;
        }
        meter_group(&p, sum[0], sum[1]);
    }
    return p;
}

static double meter_ratio(double a, double b) { return b > 0 ? a / b : (double)NAN; }

static void meter_classes(struct gy_glm_meter *m, struct gyre_glm_metrics *out)
{
    const int classes = m->model->info.classes, first = classes == 2;
    double right = 0, precision = 0, recall = 0;
    for (int c = 0; c < classes; c++)
        right += m->hit[c];
    /* A class that was never predicted has precision 0; one without rows has recall 0. */
    for (int c = first; c < classes; c++) {
        precision += m->predicted[c] > 0 ? m->hit[c] / m->predicted[c] : 0;
        recall += m->actual[c] > 0 ? m->hit[c] / m->actual[c] : 0;
    }
    out->accuracy = meter_ratio(right, m->weight);
    out->precision = precision / (classes - first);
    out->recall = recall / (classes - first);
    if (m->model->info.loss == GYRE_GLM_LOGISTIC)
        out->log_loss = out->loss;
    if (classes == 2) {
        const struct meter_pairs p = meter_count_pairs(m);
        const double all = m->actual[0] * m->actual[1];
        out->auc = meter_ratio(p.pairs, all);
        out->auc_error = m->bins ? meter_ratio(0.5 * p.tied, all) : 0;
    }
}

GY_INT void gy_glm_meter_metrics(struct gy_glm_meter *m, struct gyre_glm_metrics *out)
{
    const double none = (double)NAN;
    *out = (struct gyre_glm_metrics){ .rows = m->rows, .unknown = m->unknown, .loss = meter_ratio(m->loss, m->weight), .log_loss = none, .accuracy = none,
                                      .precision = none, .recall = none, .auc = none, .squared_error = none, .r2 = none };
    if (m->model->info.classes) {
        meter_classes(m, out);
        return;
    }
    out->squared_error = meter_ratio(m->error, m->weight);
    out->loss = 0.5 * out->squared_error;
    out->r2 = 1 - meter_ratio(m->error, m->spread);
}

/* ---- print ---- */

static void meter_json(struct gy_sink *out, const char *before, const char *name, double value)
{
    if (isfinite(value))
        gy_sink_printf(out, "%s\"%s\":%.9g", before, name, value);
    else
        gy_sink_printf(out, "%s\"%s\":null", before, name);
}

static void meter_print_json(const struct gy_glm_meter *m, const struct gyre_glm_metrics *v, struct gy_sink *out)
{
    const struct {
        const char *name;
        double value;
    } rows[] = { { "loss", v->loss }, { "log_loss", v->log_loss }, { "accuracy", v->accuracy }, { "precision", v->precision }, { "recall", v->recall },
                 { "auc", v->auc }, { "auc_error", v->auc_error }, { "squared_error", v->squared_error }, { "r2", v->r2 } };
    gy_sink_printf(out, "{\"rows\":%" PRId64 ",\"unknown\":%" PRId64, v->rows, v->unknown);
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        meter_json(out, ",", rows[i].name, rows[i].value);
    gy_sink_printf(out, ",\"classes\":[");
    for (int c = 0; c < m->model->info.classes; c++) {
        gy_sink_printf(out, "%s{\"label\":%.9g", c ? "," : "", (double)m->model->label[c]);
        meter_json(out, ",", "rows", m->actual[c]);
        meter_json(out, ",", "precision", meter_ratio(m->hit[c], m->predicted[c]));
        meter_json(out, ",", "recall", meter_ratio(m->hit[c], m->actual[c]));
        gy_sink_printf(out, "}");
    }
    gy_sink_printf(out, "]}");
}

static void meter_print_classes(const struct gy_glm_meter *m, struct gy_sink *out)
{
    gy_sink_printf(out, "\n%12s %12s %10s %10s\n", "class", "rows", "precision", "recall");
    for (int c = 0; c < m->model->info.classes; c++)
        gy_sink_printf(out, "%12.9g %12.0f %10.6f %10.6f\n", (double)m->model->label[c], m->actual[c], meter_ratio(m->hit[c], m->predicted[c]),
                       meter_ratio(m->hit[c], m->actual[c]));
}

static void meter_print_text(const struct gy_glm_meter *m, const struct gyre_glm_metrics *v, struct gy_sink *out)
{
    gy_sink_printf(out, "rows       %" PRId64 "\n", v->rows);
    if (v->unknown)
        gy_sink_printf(out, "unknown    %" PRId64 " rows have a label that the model does not know; they count in nothing\n", v->unknown);
    if (m->model->info.classes == 0) {
        gy_sink_printf(out, "error      %.9g (mean square), %.9g (its root)\nR2         %.9g\n", v->squared_error, sqrt(v->squared_error), v->r2);
        return;
    }
    gy_sink_printf(out, "%s   %.9g\naccuracy   %.6f\n", isfinite(v->log_loss) ? "log-loss" : "loss    ", v->loss, v->accuracy);
    if (m->model->info.classes == 2)
        gy_sink_printf(out, "AUC        %.8f%s", v->auc, m->bins ? "" : "\n");
    if (m->bins)
        gy_sink_printf(out, " +- %.1g (from %d bins)\n", v->auc_error, METER_BINS);
    meter_print_classes(m, out);
}

GY_INT void gy_glm_meter_print(struct gy_glm_meter *m, int json, struct gy_sink *sink)
{
    struct gyre_glm_metrics v;
    gy_glm_meter_metrics(m, &v);
    if (json)
        meter_print_json(m, &v, sink);
    else
        meter_print_text(m, &v, sink);
}
