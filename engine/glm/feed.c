/* SPDX-License-Identifier: MIT */
/* A feed whose views are the unpacked blocks themselves. The first and the last of a part may be
 * cut, then their offsets are counted anew. */
#include "engine/glm/feed.h"
#include "engine/glm/glm_stream.h"

#define FEED_MANY 8192    /* features; the weights of fewer lie in the nearest cache in any order */
/* entries of each feature, on average, that one more thread must have to count */
#define FEED_COUNTED 4
/* of counts, the largest first; all larger counts share one bucket */
#define FEED_BUCKETS 4096

struct feed_view {
    struct gy_rows rows;
    struct gy_blocks_room room; /* lies in `memory` */
    struct gy_large memory;
    int64_t block;
    int32_t from, to;   /* rows of the block */
    uint32_t *start;    /* offsets of a cut block, or NULL */
    float *scale;
    int status;
    struct gy_error err;
};

struct feed_resident {
    struct gy_glm_feed feed; /* first: it is what others see */
    struct gy_alloc alloc;
    const struct gy_blocks *blocks;
    struct feed_view *view;
    int64_t views;
    int normalize, at;
    uint32_t *feature;  /* [info.features] of a place, where places are ids; else NULL */
};

static int feed_next(void *self, struct gy_rows *rows, struct gy_error *err)
{
    struct feed_resident *const f = self;
    (void)err;
    *rows = f->at < f->views ? f->view[f->at].rows : (struct gy_rows){ 0 };
    f->at = f->at < f->views ? f->at + 1 : 0;
    return GY_OK;
}

/* The block's rows [from, to). */
static int feed_cut(struct feed_resident *f, struct feed_view *view)
{
    struct gy_rows *const rows = &view->rows;
    const int32_t from = view->from, count = view->to - from;
    const uint32_t first = gy_rows_begin(rows, from);
    if (from == 0 && count == rows->count)
        return GY_OK;
    if (rows->start) {
        view->start = gy_alloc_take(&f->alloc, (size_t)count + 1, sizeof *view->start);
        if (!view->start)
            return GY_NOMEM(&view->err, "offsets of a cut block", ((size_t)count + 1) * sizeof *view->start);
        for (int32_t i = 0; i <= count; i++)
            view->start[i] = rows->start[from + i] - first;
        rows->start = view->start;
    }
    rows->id += first;
    rows->value = rows->value ? rows->value + first : NULL;
    rows->label += from;
    rows->weight = rows->weight ? rows->weight + from : NULL;
    rows->scale = rows->scale ? rows->scale + from : NULL;
    rows->first += from;
    rows->count = count;
    return GY_OK;
}

static int feed_scale(struct feed_resident *f, struct feed_view *view)
{
    struct gy_rows *const rows = &view->rows;
    view->scale = gy_alloc_take(&f->alloc, (size_t)rows->count, sizeof *view->scale);
    if (!view->scale)
        return GY_NOMEM(&view->err, "scales of rows", (size_t)rows->count * sizeof *view->scale);
    for (int32_t i = 0; i < rows->count; i++) {
        const uint32_t begin = gy_rows_begin(rows, i), end = gy_rows_end(rows, i);
        double sum = rows->value ? 0 : (double)(end - begin) * (double)rows->same * (double)rows->same;
        for (uint32_t k = begin; rows->value && k < end; k++)
            sum += (double)rows->value[k] * (double)rows->value[k];
        view->scale[i] = sum > 0 ? (float)(1 / sqrt(sum)) : 1;
    }
    rows->scale = view->scale;
    return GY_OK;
}

static int feed_unpack(struct feed_resident *f, struct feed_view *view)
{
    view->room.bytes = gy_blocks_room_bytes(f->blocks, view->block);
    if (gy_large_take(&view->memory, &f->alloc, view->room.bytes ? view->room.bytes : 1) != 0)
        return GY_NOMEM(&view->err, "an unpacked block", view->room.bytes);
    view->room.memory = view->memory.bytes;
    GY_TRY(gy_blocks_read(f->blocks, view->block, &view->room, &view->rows, &view->err));
    GY_TRY(feed_cut(f, view));
    return f->normalize ? feed_scale(f, view) : GY_OK;
}

static void feed_tile(void *job, int64_t tile, int thread)
{
    struct feed_resident *const f = job;
    (void)thread;
    f->view[tile].status = feed_unpack(f, &f->view[tile]);
}

/* Blocks that hold rows [first, end) of the data set. */
static void feed_plan(struct feed_resident *f, int64_t blocks, int64_t first, int64_t end)
{
    int64_t row = 0;
    for (int64_t b = 0; b < blocks; b++) {
        int32_t rows;
        gy_blocks_size(f->blocks, b, &rows, NULL);
        const int64_t from = gy_max64(first, row), to = gy_min64(end, row + rows);
        if (from < to)
            f->view[f->views++] = (struct feed_view){ .block = b, .from = (int32_t)(from - row), .to = (int32_t)(to - row) };
        row += rows;
    }
}

static int feed_fill(struct feed_resident *f, struct gy_pool *pool, struct gy_error *err)
{
    struct gy_glm_feed *const feed = &f->feed;
    gy_pool_run(pool, feed_tile, f, f->views);
    for (int64_t v = 0; v < f->views; v++) {
        const struct gy_rows *const rows = &f->view[v].rows;
        if (f->view[v].status != GY_OK) {
            if (err)
                *err = f->view[v].err;
            return f->view[v].status;
        }
        const int64_t entries = gy_rows_end(rows, rows->count - 1);
        feed->rows += rows->count;
        feed->entries += entries;
        feed->most_rows = rows->count > feed->most_rows ? rows->count : feed->most_rows;
        feed->most_entries = gy_max64(feed->most_entries, entries);
    }
    return GY_OK;
}

GY_INT int gy_glm_feed_resident(struct gy_glm_feed **out, const struct gy_blocks *blocks, int part, int parts, int normalize,
                                const struct gy_alloc *alloc, struct gy_pool *pool, struct gy_error *err)
{
    struct gy_blocks_info info;
    gy_blocks_get_info(blocks, &info);
    struct feed_resident *const f = gy_alloc_take(alloc, 1, sizeof *f);
    struct feed_view *const view = gy_alloc_take(alloc, (size_t)info.blocks, sizeof *view);
    if (!f || !view) {
        gy_alloc_free(alloc, view, (size_t)info.blocks * sizeof *view);
        gy_alloc_free(alloc, f, sizeof *f);
        return GY_NOMEM(err, "the table of blocks", (size_t)info.blocks * sizeof *view);
    }
    *f = (struct feed_resident){ .alloc = *alloc, .blocks = blocks, .view = view, .normalize = normalize };
    int64_t first, end;
    gy_glm_deal(info.rows, part, parts, &first, &end);
    feed_plan(f, info.blocks, first, end);
    f->feed = (struct gy_glm_feed){ .next = feed_next, .self = f, .first = first, .parts = parts, .all_rows = info.rows, .features = info.features,
                                    .views = (int)f->views, .resident = 1 };
    const int status = feed_fill(f, pool, err);
    if (status != GY_OK) {
        gy_glm_feed_close(&f->feed);
        return status;
    }
    *out = &f->feed;
    return GY_OK;
}

/* ---- features by how often they occur ---- */

struct feed_order {
    struct feed_resident *f;
    /* [shares][features]; in the end the first share's are the new ids of the old ones */
    uint32_t *count;
    int64_t shares;
    uint32_t features;
};

static void feed_count_tile(void *job, int64_t tile, int thread)
{
    const struct feed_order *const o = job;
    uint32_t *const count = o->count + tile * o->features;
    (void)thread;
    memset(count, 0, o->features * sizeof *count);
    for (int64_t v = 0; v < o->f->views; v++) {
        const struct gy_rows *const rows = &o->f->view[v].rows;
        const int64_t all = gy_rows_end(rows, rows->count - 1), end = all * (tile + 1) / o->shares;
        for (int64_t k = all * tile / o->shares; k < end; k++)
            count[rows->id[k]]++;
    }
}

/* Adds the counts of all shares. begin gets the number of features before those of a bucket; the
 * most frequent ones come first. Returns how many features occur. */
static uint32_t feed_buckets(struct feed_order *o, uint32_t begin[FEED_BUCKETS + 1])
{
    uint32_t all = 0;
    for (uint32_t j = 0; j < o->features; j++) {
        for (int64_t s = 1; s < o->shares; s++)
            o->count[j] += o->count[s * o->features + j];
        o->count[j] = o->count[j] < FEED_BUCKETS ? FEED_BUCKETS - o->count[j] : 0;
        begin[o->count[j]]++;
    }
    for (int b = 0; b <= FEED_BUCKETS; b++) {
        const uint32_t here = begin[b];
        begin[b] = all;
        all += here;
    }
    return begin[FEED_BUCKETS];
}

static void feed_rename_tile(void *job, int64_t tile, int thread)
{
    const struct feed_order *const o = job;
    (void)thread;
    for (int64_t v = 0; v < o->f->views; v++) {
        const struct gy_rows *const rows = &o->f->view[v].rows;
        char *const room = o->f->view[v].room.memory; /* it is ours, and ids lie in it */
        uint32_t *const id = (uint32_t *)(void *)(room + ((const char *)rows->id - room));
        const int64_t all = gy_rows_end(rows, rows->count - 1), end = all * (tile + 1) / o->shares;
        for (int64_t k = all * tile / o->shares; k < end; k++)
            id[k] = o->count[id[k]];
    }
}

GY_INT const uint32_t *gy_glm_feed_order(struct gy_glm_feed *feed, struct gy_pool *pool)
{
    struct feed_resident *const f = feed->self;
    const int64_t shares = gy_min64(gy_pool_threads(pool), feed->entries / (FEED_COUNTED * gy_max64(feed->features, 1)));
    struct feed_order o = { .f = f, .shares = shares, .features = feed->features };
    uint32_t begin[FEED_BUCKETS + 1] = { 0 };
    if (f->feature || feed->features < FEED_MANY || shares < 1)
        return f->feature;
    o.count = gy_alloc_take(&f->alloc, (size_t)shares * o.features, sizeof *o.count);
    uint32_t *const feature = gy_alloc_take(&f->alloc, o.features, sizeof *feature);
    if (o.count && feature) {
        gy_pool_run(pool, feed_count_tile, &o, shares);
        feed->features = feed_buckets(&o, begin);
        for (uint32_t j = 0; j < o.features; j++) {
            o.count[j] = begin[o.count[j]]++;
            feature[o.count[j]] = j;
        }
        gy_pool_run(pool, feed_rename_tile, &o, shares);
        f->feature = feature;
    } else
        gy_alloc_free(&f->alloc, feature, o.features * sizeof *feature);
    gy_alloc_free(&f->alloc, o.count, (size_t)shares * o.features * sizeof *o.count);
    return f->feature;
}

GY_INT void gy_glm_feed_unorder(struct gy_glm_feed *feed, struct gy_pool *pool)
{
    struct feed_resident *const f = feed->self;
    struct gy_blocks_info info;
    gy_blocks_get_info(f->blocks, &info);
    struct feed_order o = { .f = f, .count = f->feature, .shares = gy_pool_threads(pool) };
    if (!f->feature)
        return;
    gy_pool_run(pool, feed_rename_tile, &o, o.shares);
    gy_alloc_free(&f->alloc, f->feature, info.features * sizeof *f->feature);
    f->feature = NULL;
    feed->features = info.features;
}

GY_INT void gy_glm_feed_close(struct gy_glm_feed *feed)
{
    if (!feed)
        return;
    struct feed_resident *const f = feed->self;
    const struct gy_alloc alloc = f->alloc;
    struct gy_blocks_info info;
    gy_blocks_get_info(f->blocks, &info);
    for (int64_t v = 0; v < f->views; v++) {
        struct feed_view *const view = &f->view[v];
        gy_alloc_free(&alloc, view->start, ((size_t)(view->to - view->from) + 1) * sizeof *view->start);
        gy_alloc_free(&alloc, view->scale, (size_t)view->rows.count * sizeof *view->scale);
        gy_large_drop(&view->memory, &alloc);
    }
    gy_alloc_free(&alloc, f->feature, info.features * sizeof *f->feature);
    gy_alloc_free(&alloc, f->view, (size_t)info.blocks * sizeof *f->view);
    gy_alloc_free(&alloc, f, sizeof *f);
}
