/* SPDX-License-Identifier: MIT */
/* glm_model.c: a linear model in memory: one weight vector for two classes or a regression, one a
 * class for more. A score is a sum in double in a fixed order: slices of rows do not change it. */
#include "engine/glm/glm_model.h"
#include <float.h>

GY_INT const char *gy_glm_loss_name(int loss)
{
    const struct gy_glm_loss *const row = gy_glm_loss_at(loss);
    return row ? row->name : NULL;
}

static enum gy_glm_why glm_model_why(const char *word)
{
    enum gy_glm_why why = GY_GLM_WHYS;
    while (word && --why != GY_GLM_GOES_ON && strcmp(gy_glm_why_name(why), word) != 0) {
    }
    return word ? why : GY_GLM_GOES_ON;
}

GY_INT const char *gy_glm_why(const char *word) { return gy_glm_why_name(glm_model_why(word)); }
GY_INT const char *gy_glm_worse(const char *a, const char *b) { return glm_model_why(a) > glm_model_why(b) ? a : b; }

GY_INT int gy_glm_model_take(struct gyre_glm **out, const struct gyre_glm_info *info, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gyre_glm *m = gy_alloc_take(alloc, 1, sizeof *m);
    if (!m)
        return GY_NOMEM(err, "a model's handle", sizeof *m);
    m->alloc = *alloc;
    m->info = *info;
    m->info.models = info->classes > 2 ? info->classes : 1;
    m->width = (int64_t)info->features + (info->bias != 0);
    m->label = gy_alloc_take(alloc, (size_t)info->classes + 1, sizeof *m->label);
    m->part = gy_alloc_take(alloc, (size_t)m->info.models, sizeof *m->part);
    m->w = gy_alloc_take(alloc, (size_t)m->info.models * (size_t)m->width + 1, sizeof *m->w);
    m->class_weight = gy_alloc_take(alloc, (size_t)info->classes + 1, sizeof *m->class_weight);
    if (!m->label || !m->class_weight || !m->part || !m->w) {
        const size_t bytes = (size_t)m->info.models * (size_t)m->width * sizeof *m->w;
        gyre_glm_close(m);
        return GY_NOMEM(err, "a model", bytes);
    }
    if (info->classes)
        memcpy(m->label, info->label, (size_t)info->classes * sizeof *m->label);
    for (int k = 0; k < info->classes; k++)
        m->class_weight[k] = info->class_weight ? info->class_weight[k] : 1;
    m->info.label = m->label;
    m->info.class_weight = m->class_weight;
    for (int i = 0; i < m->info.models; i++)
        m->part[i] = (struct gyre_glm_part){ .weight = m->w + i * m->width, .objective = (double)NAN, .bound = (double)NAN, .loss = (double)NAN };
    *out = m;
    return GY_OK;
}

GYRE_API void gyre_glm_close(struct gyre_glm *m)
{
    if (!m)
        return;
    const struct gy_alloc alloc = m->alloc;
    gy_alloc_free(&alloc, m->label, ((size_t)m->info.classes + 1) * sizeof *m->label);
    gy_alloc_free(&alloc, m->class_weight, ((size_t)m->info.classes + 1) * sizeof *m->class_weight);
    gy_alloc_free(&alloc, m->part, (size_t)m->info.models * sizeof *m->part);
    gy_alloc_free(&alloc, m->w, ((size_t)m->info.models * (size_t)m->width + 1) * sizeof *m->w);
    gy_alloc_free(&alloc, m, sizeof *m);
}

GYRE_API void gyre_glm_get_info(const struct gyre_glm *model, struct gyre_glm_info *info)
{
    if (model && info)
        *info = model->info;
}

GYRE_API int gyre_glm_get_part(const struct gyre_glm *model, int index, struct gyre_glm_part *part)
{
    if (!model || !part)
        return GYRE_E_ARG;
    if (index < 0 || index >= model->info.models)
        return GYRE_E_ARG;
    *part = model->part[index];
    return GYRE_OK;
}

GY_INT int32_t gy_glm_model_class(const struct gyre_glm *model, float label)
{
    int32_t lo = 0, hi = model->info.classes;
    while (lo < hi) {
        const int32_t mid = (lo + hi) / 2;
        if (model->label[mid] < label)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < model->info.classes && model->label[lo] == label)
        return lo;
    /* one file has 0 where another of the same data has -1 */
    const int alias = model->info.classes == 2 && model->label[1] > 0 && (model->label[0] == 0 || model->label[0] == -1);
    return alias && (label == 0 || label == -1) ? 0 : -1;
}

GY_INT struct gy_glm_problem gy_glm_model_problem(const struct gyre_glm *model, int k)
{
    const struct gyre_glm_info *const info = &model->info;
    const int32_t class = info->models == 1 ? 1 : k;
    struct gy_glm_problem p = { .loss = info->loss, .l1 = info->l1, .l2 = info->l2, .bias = info->bias, .bias_free = info->bias_free,
                                .target = info->classes ? GY_GLM_TARGET_CLASS : GY_GLM_TARGET_VALUE, .class_weight = { 1, 1 } };
    if (info->classes == 0 || gy_glm_model_is_whole(model))
        return p;
    p.positive = model->label[class];
    p.class_weight[1] = model->class_weight[class];
    p.class_weight[0] = info->models == 1 ? model->class_weight[0] : 1;
    return p;
}

/* ---- scores ---- */

GY_INT struct gy_glm_scorer gy_glm_model_scorer(const struct gyre_glm *m)
{
    return (struct gy_glm_scorer){ .w = m->w, .width = m->width, .features = m->info.features, .bias = m->info.bias,
                                   .normalize = m->info.normalize, .models = m->info.models };
}

static double glm_model_length(const struct gy_rows *rows, uint32_t begin, uint32_t end)
{
    double sum = 0;
    for (uint32_t k = begin; k < end; k++) {
        const double v = rows->value ? (double)rows->value[k] : (double)rows->same;
        sum += v * v;
    }
    return sqrt(sum);
}

static double glm_model_scale(const struct gy_glm_scorer *s, const struct gy_rows *rows, int32_t i, uint32_t begin, uint32_t end)
{
    if (rows->scale)
        return (double)rows->scale[i];
    if (!s->normalize)
        return 1;
    const double length = glm_model_length(rows, begin, end);
    return length > 0 ? (double)(float)(1 / length) : 1; /* as rows are scaled in training */
}

/* Ids rise, so the ones beyond the features are at the end. */
static uint32_t glm_model_known(const struct gy_rows *rows, uint32_t begin, uint32_t end, uint32_t features)
{
    while (end > begin && rows->id[end - 1] >= features)
        end--;
    return end;
}

static double glm_model_dot(const struct gy_rows *rows, uint32_t begin, uint32_t end, const float *w)
{
    double a = 0, b = 0;
    uint32_t k = begin;
    if (!rows->value) {
        for (; k + 1 < end; k += 2) {
            a += (double)w[rows->id[k]];
            b += (double)w[rows->id[k + 1]];
        }
        return (k < end ? a + b + (double)w[rows->id[k]] : a + b) * (double)rows->same;
    }
    for (; k + 1 < end; k += 2) {
        a += (double)rows->value[k] * (double)w[rows->id[k]];
        b += (double)rows->value[k + 1] * (double)w[rows->id[k + 1]];
    }
    return k < end ? a + b + (double)rows->value[k] * (double)w[rows->id[k]] : a + b;
}

GY_INT void gy_glm_score(const struct gy_glm_scorer *s, const struct gy_rows *rows, int32_t from, int32_t count, float *out)
{
    for (int32_t i = from; i < from + count; i++) {
        const uint32_t begin = gy_rows_begin(rows, i), end = gy_rows_end(rows, i);
        const uint32_t known = glm_model_known(rows, begin, end, s->features);
        const double scale = glm_model_scale(s, rows, i, begin, known);
        for (int m = 0; m < s->models; m++) {
            const float *w = s->w + m * s->width;
            const double bias = s->bias != 0 ? s->bias * (double)w[s->features] : 0;
            *out++ = (float)(glm_model_dot(rows, begin, known, w) * scale + bias);
        }
    }
}

GY_INT int32_t gy_glm_decide(const struct gyre_glm *model, const float *score)
{
    if (model->info.models == 1)
        return score[0] > 0;
    int32_t best = 0;
    for (int32_t m = 1; m < model->info.models; m++)
        best = score[m] > score[best] ? m : best;
    return best;
}

/* The logarithm of what class k's probability is in proportion to. Softmax; or one class against
 * the rest, sigmoids scaled to sum to 1 as in liblinear. */
static double glm_model_part(const struct gyre_glm_info *info, const float *score, int k)
{
    const double z = fmax(fmin((double)score[k], (double)FLT_MAX), -(double)FLT_MAX);
    return info->softmax ? z : -gy_glm_logistic_value(1, z);
}

/* The logarithm of the sum of all, less the largest; which that is comes into *most. */
static double glm_model_spread(const struct gyre_glm_info *info, const float *score, double *most)
{
    double sum = 0;
    *most = glm_model_part(info, score, 0);
    for (int k = 1; k < info->models; k++)
        *most = fmax(*most, glm_model_part(info, score, k));
    for (int k = 0; k < info->models; k++)
        sum += exp(glm_model_part(info, score, k) - *most);
    return log(sum);
}

GY_INT double gy_glm_log_loss(const struct gyre_glm *model, const float *score, int32_t class)
{
    double most;
    const double spread = glm_model_spread(&model->info, score, &most);
    return spread + (most - glm_model_part(&model->info, score, class));
}

GY_INT int gy_glm_probability(const struct gyre_glm *model, const float *score, float *out)
{
    const struct gyre_glm_info *info = &model->info;
    double most;
    if (info->loss != GYRE_GLM_LOGISTIC || info->classes < 2)
        return 0;
    if (info->models > 1) {
        const double spread = glm_model_spread(info, score, &most);
        for (int k = 0; k < info->models; k++)
            out[k] = (float)exp(glm_model_part(info, score, k) - most - spread);
    } else {
        out[0] = gy_glm_sigmoid(-score[0]);
        out[1] = gy_glm_sigmoid(score[0]);
    }
    return 1;
}
