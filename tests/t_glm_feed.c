/* SPDX-License-Identifier: MIT */
/* t_glm_feed.c: the feed of rows of blocks. It gives every row once, in order, whatever part and
 * cut, and features in the order of how often they occur. */
#include <limits.h>
#include "engine/glm/feed.h"
#include "io/rows/blocks_write.h"
#include "tests/glm_data.h"
#include "tests/t.h"
#include "tests/t_memory.h"

/* The data's views become blocks in memory. */
static struct gy_blocks *feed_blocks(struct glm_data *data)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_blocks_write config = { .alloc = &alloc, .features = data->feed.features };
    struct gy_blocks_writer *writer = NULL;
    struct gy_blocks_packed *packed = NULL;
    struct gy_blocks *blocks = NULL;
    struct gy_error err = { 0 };
    int status = gy_blocks_create(&writer, &config, &err);
    for (int v = 0; status == GY_OK && v < data->views; v++) {
        status = gy_blocks_pack(&packed, &data->view[v], 1, &alloc, &err);
        if (status == GY_OK)
            status = gy_blocks_put(writer, packed, &err);
    }
    gy_blocks_drop(packed, &alloc);
    if (status == GY_OK)
        status = gy_blocks_finish(writer, &blocks, &err);
    T_CHECK_MSG(status == GY_OK, "%s", err.text);
    return blocks;
}

/* Counts the differences between a pass and the data's rows from *row on. *row becomes the row
 * where the pass ended. */
static int feed_differs(struct gy_glm_feed *feed, const struct glm_data *data, int64_t *row, int normalize)
{
    int wrong = 0;
    struct gy_rows rows;
    struct gy_error err;
    while (feed->next(feed->self, &rows, &err) == GY_OK && rows.count > 0) {
        wrong += rows.first != *row || rows.count > feed->most_rows || gy_rows_begin(&rows, 0) != 0;
        for (int32_t i = 0; i < rows.count; i++, ++*row) {
            const uint32_t begin = gy_rows_begin(&rows, i), count = gy_rows_end(&rows, i) - begin;
            double square = 0;
            wrong += count != data->start[*row + 1] - data->start[*row] || memcmp(&rows.label[i], &data->label[*row], 4) != 0;
            for (uint32_t k = 0; k < count; k++) {
                const float value = data->value ? data->value[data->start[*row] + k] : 1, found = rows.value ? rows.value[begin + k] : rows.same;
                square += (double)value * (double)value;
                wrong += rows.id[begin + k] != data->id[data->start[*row] + k] || memcmp(&found, &value, 4) != 0;
            }
            wrong += normalize && !(rows.scale && fabs((double)rows.scale[i] * sqrt(square > 0 ? square : 1) - 1) < 1e-6);
        }
    }
    return wrong;
}

static void test_feed(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct gy_pool *pool = NULL;
    gy_pool_open(&pool, &alloc, 3, &err);
    for (int kind = 0; kind < 4; kind++) {
        struct glm_data data;
        glm_data_random(&data, &(struct glm_data_kind){ .rows = 1003, .features = 90, .most = 7, .values = kind & 1, .seed = 21 });
        glm_data_cut(&data, 5, 1);
        struct gy_blocks *const blocks = feed_blocks(&data);
        const int parts = kind < 2 ? 1 : 4;
        for (int normalize = 0; blocks && normalize < 2; normalize++) {
            int64_t row = 0, rows = 0, entries = 0;
            for (int part = 0; part < parts; part++) {
                struct gy_glm_feed *feed = NULL;
                if (!T_CHECK(gy_glm_feed_resident(&feed, blocks, part, parts, normalize, &alloc, pool, &err) == GY_OK))
                    continue;
                const int64_t first = row;
                T_CHECK_MSG(feed_differs(feed, &data, &row, normalize) == 0 && row - first == feed->rows, "kind %d, part %d", kind, part);
                row = first; /* and once more */
                T_CHECK(feed_differs(feed, &data, &row, normalize) == 0 && feed->first == first && feed->all_rows == 1003 && feed->resident);
                rows += feed->rows;
                entries += feed->entries;
                gy_glm_feed_close(feed);
            }
            T_CHECK(row == 1003 && rows == 1003 && entries == data.entries);
        }
        for (int tries = 0, status = GY_E_NOMEM; blocks && status == GY_E_NOMEM && tries < 100; tries++) {
            struct t_memory memory = { .left = tries };
            const struct gy_alloc short_of = { t_memory_fn, &memory };
            struct gy_glm_feed *feed = NULL;
            status = gy_glm_feed_resident(&feed, blocks, 0, parts, 1, &short_of, pool, &err);
            gy_glm_feed_close(feed);
            T_CHECK_MSG(memory.bytes == 0 && (status == GY_OK || status == GY_E_NOMEM), "%d allocations: %" PRId64 " bytes are left", tries, memory.bytes);
        }
        gy_blocks_close(blocks);
        glm_data_free(&data);
    }
    gy_pool_close(pool);
}

/* Data's ids become places; how often each place occurs. */
static int order_rename(struct glm_data *data, const uint32_t *feature, uint32_t places, uint32_t features, uint32_t *times)
{
    uint32_t *const place = malloc(features * sizeof *place);
    int missing = !place;
    for (uint32_t j = 0; place && j < features; j++)
        place[j] = UINT32_MAX;
    for (uint32_t p = 0; place && p < places; p++)
        place[feature[p]] = p;
    for (int64_t k = 0; place && k < data->entries; k++) {
        data->id[k] = place[data->id[k]];
        missing += data->id[k] >= places;
        times[data->id[k] < places ? data->id[k] : 0]++;
    }
    free(place);
    return missing;
}

static void order_case(struct glm_data *data, struct gy_blocks *blocks, struct gy_pool *pool)
{
    enum { FEATURES = 10000 };
    static uint32_t times[FEATURES];
    struct t_memory memory = { .left = INT_MAX };
    const struct gy_alloc alloc = { t_memory_fn, &memory };
    struct gy_glm_feed *feed = NULL;
    struct gy_error err = { 0 };
    int64_t row = 0;
    uint32_t *const plain = malloc((size_t)data->entries * sizeof *plain);
    if (!T_CHECK(plain && gy_glm_feed_resident(&feed, blocks, 0, 1, 0, &alloc, pool, &err) == GY_OK))
        return;
    memcpy(plain, data->id, (size_t)data->entries * sizeof *plain);
    memory.left = 1; /* of two that it takes */
    T_CHECK(!gy_glm_feed_order(feed, pool) && feed->features == FEATURES && feed_differs(feed, data, &row, 0) == 0);
    memory.left = INT_MAX;
    const uint32_t *const feature = gy_glm_feed_order(feed, pool), places = feed->features;
    if (T_CHECK(feature && places < FEATURES && places > FEATURES / 2)) {
        int rises = 0;
        T_CHECK(order_rename(data, feature, places, FEATURES, times) == 0);
        for (uint32_t p = 1; p < places; p++)
            rises += times[p] > times[p - 1];
        row = 0;
        T_CHECK_MSG(rises == 0 && times[places - 1] > 0 && feed_differs(feed, data, &row, 0) == 0, "%d places out of order", rises);
        T_CHECK(gy_glm_feed_order(feed, pool) == feature && feed->features == places);
        row = 0;
        T_CHECK(feed_differs(feed, data, &row, 0) == 0);
    }
    memcpy(data->id, plain, (size_t)data->entries * sizeof *plain);
    gy_glm_feed_unorder(feed, pool);
    row = 0;
    T_CHECK(feed->features == FEATURES && feed_differs(feed, data, &row, 0) == 0);
    gy_glm_feed_unorder(feed, pool); /* nothing is left to do */
    row = 0;
    T_CHECK(feed->features == FEATURES && feed_differs(feed, data, &row, 0) == 0);
    gy_glm_feed_close(feed);
    free(plain);
    T_CHECK(memory.bytes == 0);
}

static void test_feed_order(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct gy_pool *pool = NULL;
    struct glm_data data;
    gy_pool_open(&pool, &alloc, 3, &err);
    glm_data_random(&data, &(struct glm_data_kind){ .rows = 9001, .features = 10000, .most = 11, .values = 1, .seed = 22 });
    T_CHECK_MSG(data.entries >= 40000, "%" PRId64 " entries: too few for an order", data.entries);
    glm_data_cut(&data, 3, 1);
    struct gy_blocks *const blocks = feed_blocks(&data);
    if (blocks)
        order_case(&data, blocks, pool);
    gy_blocks_close(blocks);
    glm_data_free(&data);
    gy_pool_close(pool);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_feed();
    test_feed_order();
    T_END("t_glm_feed");
}
