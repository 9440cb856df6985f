/* SPDX-License-Identifier: MIT */
/* glm_data.h: rows for tests of linear models. It has a plain reader of svmlight text that trusts
 * its file, random rows, and a feed that hands them out in views. Everything lies in memory of
 * malloc; a test that runs out of it stops with a message. */
#ifndef GY_GLM_DATA_H
#define GY_GLM_DATA_H
#include "engine/base/rng.h"
#include "engine/glm/glm.h"

struct glm_data {
    struct gy_glm_feed feed;
    int64_t rows, entries;
    int64_t *start;        /* [rows + 1] */
    uint32_t *id;
    float *value;          /* NULL: all are 1 */
    float *label, *weight, *scale; /* weight, scale: NULL or [rows] */
    int views, at;
    uint32_t *offsets;     /* of the view that is out: [rows + 1] */
    struct gy_rows *view;  /* [views] */
};

static inline void *glm_data_grow(void *old, size_t bytes)
{
    void *p = realloc(old, bytes ? bytes : 1);
    if (!p) {
        printf("out of memory: test data of %zu bytes\n", bytes);
        exit(2);
    }
    return p;
}

static inline int glm_data_next(void *self, struct gy_rows *rows, struct gy_error *err)
{
    struct glm_data *const data = self;
    (void)err;
    *rows = data->at < data->views ? data->view[data->at] : (struct gy_rows){ 0 };
    data->at = data->at < data->views ? data->at + 1 : 0;
    return 0;
}

/* The feed hands out `views` views of about equal size. resident: the rows are in memory; 0: the
 * feed acts as if they came from a file. */
static inline void glm_data_cut(struct glm_data *data, int views, int resident)
{
    data->views = views;
    data->at = 0;
    data->offsets = glm_data_grow(data->offsets, (size_t)(data->rows + views) * sizeof *data->offsets);
    data->view = glm_data_grow(data->view, (size_t)views * sizeof *data->view);
    struct gy_glm_feed *const feed = &data->feed;
    *feed = (struct gy_glm_feed){ .next = glm_data_next, .self = data, .rows = data->rows, .entries = data->entries, .all_rows = data->rows,
                                  .features = feed->features, .views = views, .resident = resident };
    uint32_t *offset = data->offsets;
    for (int v = 0; v < views; v++) {
        const int64_t first = data->rows * v / views, end = data->rows * (v + 1) / views;
        struct gy_rows *const rows = &data->view[v];
        *rows = (struct gy_rows){ .first = first, .count = (int32_t)(end - first), .start = offset, .id = data->id + data->start[first],
                                  .value = data->value ? data->value + data->start[first] : NULL, .same = 1, .label = data->label + first,
                                  .weight = data->weight ? data->weight + first : NULL, .scale = data->scale ? data->scale + first : NULL };
        for (int64_t i = first; i <= end; i++)
            *offset++ = (uint32_t)(data->start[i] - data->start[first]);
        feed->most_rows = rows->count > feed->most_rows ? rows->count : feed->most_rows;
        feed->most_entries = gy_max64(feed->most_entries, data->start[end] - data->start[first]);
    }
}

static inline void glm_data_free(struct glm_data *data)
{
    free(data->start);
    free(data->id);
    free(data->value);
    free(data->label);
    free(data->weight);
    free(data->scale);
    free(data->offsets);
    free(data->view);
    memset(data, 0, sizeof *data);
}

/* Values go when they are all 1. */
static inline void glm_data_settle(struct glm_data *data, uint32_t features, int views)
{
    uint32_t most = 0;
    int ones = 1;
    for (int64_t e = 0; e < data->entries; e++) {
        most = data->id[e] >= most ? data->id[e] + 1 : most;
        ones &= data->value && data->value[e] == 1.0f;
    }
    if (ones) {
        free(data->value);
        data->value = NULL;
    }
    data->feed.features = features > most ? features : most;
    glm_data_cut(data, views, 1);
}

/* Every row has length 1, by its scale. */
static inline void glm_data_normalise(struct glm_data *data)
{
    data->scale = glm_data_grow(data->scale, (size_t)data->rows * sizeof *data->scale);
    for (int64_t i = 0; i < data->rows; i++) {
        double sum = 0;
        for (int64_t e = data->start[i]; e < data->start[i + 1]; e++)
            sum += data->value ? (double)data->value[e] * (double)data->value[e] : 1;
        data->scale[i] = sum > 0 ? (float)(1 / sqrt(sum)) : 1;
    }
    glm_data_cut(data, data->views, data->feed.resident);
}

/* One line "label id:value id:value ..." more; room grows by doubling. */
static inline void glm_data_line(struct glm_data *data, char *at, int zero_based, int64_t room[2])
{
    char *next;
    if (data->rows + 2 > room[0]) {
        room[0] = 2 * room[0] + 1024;
        data->start = glm_data_grow(data->start, (size_t)room[0] * sizeof *data->start);
        data->label = glm_data_grow(data->label, (size_t)room[0] * sizeof *data->label);
    }
    const float label = strtof(at, &next);
    if (next == at)
        return; /* blank */
    data->start[data->rows] = data->entries;
    data->label[data->rows++] = label;
    for (at = next;; at = next) {
        const long id = strtol(at, &next, 10);
        if (next == at || *next != ':')
            break;
        const float value = strtof(next + 1, &next);
        if (data->entries + 1 > room[1]) {
            room[1] = 2 * room[1] + 4096;
            data->id = glm_data_grow(data->id, (size_t)room[1] * sizeof *data->id);
            data->value = glm_data_grow(data->value, (size_t)room[1] * sizeof *data->value);
        }
        data->id[data->entries] = (uint32_t)(id - !zero_based);
        data->value[data->entries++] = value;
    }
    data->start[data->rows] = data->entries;
}

/* Reads a file of the folder; a .gz file goes through zcat. The data has at least `features`
 * features. Returns 0; -1: the file is absent or has no rows. */
static inline int glm_data_read(struct glm_data *data, const char *folder, const char *name, int zero_based, uint32_t features)
{
    char path[1024];
    const size_t length = strlen(name);
    const int packed = length > 3 && strcmp(name + length - 3, ".gz") == 0;
    snprintf(path, sizeof path, "%s%s/%s%s", packed ? "zcat '" : "", folder, name, packed ? "' 2>/dev/null" : "");
    FILE *const file = packed ? popen(path, "r") : fopen(path, "r");
    memset(data, 0, sizeof *data);
    if (!file)
        return -1;
    char *line = NULL;
    size_t line_room = 0;
    int64_t room[2] = { 0, 0 };
    while (getline(&line, &line_room, file) > 0)
        glm_data_line(data, line, zero_based, room);
    free(line);
    if (packed)
        pclose(file);
    else
        fclose(file);
    if (data->rows == 0)
        return -1;
    glm_data_settle(data, features, 1);
    return 0;
}

/* What random rows are like. */
struct glm_data_kind {
    int64_t rows;
    uint32_t features;
    int most;          /* entries of a row: 0 to most, uneven */
    int values;        /* 0: ones */
    int regression;    /* labels are numbers, else 1 and -1 */
    uint64_t seed;
};

/* Ids are skewed: the small ones are frequent. Labels follow planted weights, with noise. */
static inline void glm_data_random(struct glm_data *data, const struct glm_data_kind *kind)
{
    memset(data, 0, sizeof *data);
    data->rows = kind->rows;
    data->start = glm_data_grow(NULL, (size_t)(kind->rows + 1) * sizeof *data->start);
    data->label = glm_data_grow(NULL, (size_t)kind->rows * sizeof *data->label);
    data->id = glm_data_grow(NULL, (size_t)kind->rows * (size_t)kind->most * sizeof *data->id);
    data->value = glm_data_grow(NULL, (size_t)kind->rows * (size_t)kind->most * sizeof *data->value);
    for (int64_t i = 0; i < kind->rows; i++) {
        const int want = (int)(gy_rng_uniform(kind->seed, 1, 0, (uint64_t)i) * (float)(kind->most + 1));
        uint32_t id = 0;
        float score = 0;
        data->start[i] = data->entries;
        for (int k = 0; k < want; k++) {
            const uint64_t draw = (uint64_t)i * (uint64_t)kind->most + (uint64_t)k;
            const float u = gy_rng_uniform(kind->seed, 2, 0, draw);
            id += 1 + (uint32_t)(u * u * u * 2.0f * (float)kind->features / (float)kind->most);
            if (id > kind->features)
                break;
            const float value = kind->values ? gy_rng_normal(kind->seed, 3, 0, draw) : 1.0f;
            data->id[data->entries] = id - 1;
            data->value[data->entries++] = value;
            score += value * gy_rng_normal(kind->seed, 4, 0, id);
        }
        score += gy_rng_normal(kind->seed, 5, 0, (uint64_t)i);
        data->label[i] = kind->regression ? score : score > 0 ? 1.0f : -1.0f;
    }
    data->start[kind->rows] = data->entries;
    glm_data_settle(data, kind->features, 1);
}

#endif
