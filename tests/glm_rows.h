/* SPDX-License-Identifier: MIT */
/* glm_rows.h: rows of linear models in every form, made from planted weights. */
#ifndef GY_GLM_ROWS_H
#define GY_GLM_ROWS_H
#include "engine/base/rng.h"
#include "engine/glm/glm.h"

/* CG_SINGLE: row i has only feature i */
enum { CG_VALUES = 1, CG_START = 2, CG_SCALE = 4, CG_WEIGHT = 8, CG_LONG = 16, CG_SINGLE = 32 };

struct cg_data {
    struct gy_rows rows;
    uint32_t *start, *id, features;
    float *value, *label, *weight, *scale;
    int64_t entries;
};

static double cg_random(uint64_t seed, uint64_t i)
{
    uint32_t word[4];
    gy_rng_words(seed, 77, 0, i, word);
    return (double)word[0] / 4294967296.0;
}

static void *cg_take(size_t count) { return calloc(count + 1, 4); }

static void cg_free(struct cg_data *d)
{
    free(d->start);
    free(d->id);
    free(d->value);
    free(d->label);
    free(d->weight);
    free(d->scale);
}

static int cg_length(int form, int i, int width, uint32_t features)
{
    if (form & CG_SINGLE)
        return 1;
    if (form & CG_LONG && i % 11 == 4)
        return (int)features / 2;
    return form & CG_START ? (i * 7) % (2 * width) : width;
}

/* Fills row i with rising ids. The ids are spread over `length` equal ranges of the features; low
 * ids of each range are more frequent. */
static void cg_row(struct cg_data *d, int form, int i, int length, uint64_t seed)
{
    const uint32_t begin = d->start[i];
    for (int k = 0; k < length; k++) {
        const uint32_t lo = (uint32_t)((uint64_t)d->features * (uint32_t)k / (uint32_t)length);
        const uint32_t hi = (uint32_t)((uint64_t)d->features * ((uint32_t)k + 1) / (uint32_t)length);
        const double at = cg_random(seed, (uint64_t)i * 100003u + (uint32_t)k);
        d->id[begin + (uint32_t)k] = form & CG_SINGLE ? (uint32_t)i : lo + (uint32_t)(at * at * (hi - lo));
        d->value[begin + (uint32_t)k] = (float)(2 * cg_random(seed + 1, begin + (uint32_t)k) - 1);
    }
}

/* `count` rows with planted weights, some labels wrong. */
static struct cg_data cg_make(int form, int count, int width, uint32_t features, int loss, uint64_t seed)
{
    struct cg_data d = { .features = features };
    const size_t room = (size_t)count * (form & CG_LONG ? features : 2 * (size_t)width);
    d.start = cg_take((size_t)count + 1), d.id = cg_take(room), d.value = cg_take(room), d.label = cg_take((size_t)count);
    d.weight = cg_take((size_t)count), d.scale = cg_take((size_t)count);
    for (int i = 0; i < count; i++) {
        const int length = cg_length(form, i, width, features);
        double score = 0;
        d.start[i + 1] = d.start[i] + (uint32_t)length;
        cg_row(&d, form, i, length, seed);
        for (uint32_t j = d.start[i]; j < d.start[i + 1]; j++)
            score += (form & CG_VALUES ? (double)d.value[j] : 1) * (cg_random(seed + 2, d.id[j]) - 0.5);
        score += cg_random(seed + 3, (uint64_t)i) - 0.5;
        d.label[i] = loss == GY_GLM_SQUARED ? (float)score : score > 0 ? 1.0f : 0.0f;
        d.weight[i] = i % 13 == 5 ? 0.0f : (float)(0.5 + cg_random(seed + 4, (uint64_t)i));
        d.scale[i] = (float)(0.2 + cg_random(seed + 5, (uint64_t)i));
    }
    d.entries = d.start[count];
    d.rows = (struct gy_rows){ .count = count, .width = form & (CG_START | CG_LONG) ? 0 : form & CG_SINGLE ? 1 : width,
                               .start = form & (CG_START | CG_LONG) ? d.start : NULL, .id = d.id, .value = form & CG_VALUES ? d.value : NULL,
                               .same = 0.5f, .label = d.label, .weight = form & CG_WEIGHT ? d.weight : NULL,
                               .scale = form & CG_SCALE ? d.scale : NULL };
    return d;
}

static double cg_value(const struct gy_rows *r, int i, uint32_t j)
{
    return (double)(r->value ? r->value[j] : r->same) * (double)(r->scale ? r->scale[i] : 1.0f);
}

static struct gy_glm_problem cg_problem(int loss, double l2, double bias)
{
    return (struct gy_glm_problem){ .loss = loss, .l2 = l2, .bias = bias, .positive = 1,
                                    .target = loss == GY_GLM_SQUARED ? GY_GLM_TARGET_VALUE : GY_GLM_TARGET_CLASS, .class_weight = { 1.0f, 1.5f } };
}

#endif
