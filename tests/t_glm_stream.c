/* SPDX-License-Identifier: MIT */
/* t_glm_stream.c: a feed that reads ahead hands out every row of its part once a pass, in order, as
 * written, within its memory. A fault of the file comes out of next, where the wrong block would
 * have. */
#include "engine/glm/feed.h"
#include "engine/glm/glm_stream.h"
#include "io/rows/blocks_write.h"
#include "io/json.h"
#include "tests/data_files.h"
#include <sys/resource.h>
#include <time.h>

enum { ST_WIDE = 40 };

/* A data set by formula. */
struct st_set {
    int rows, block_rows, width; /* width 0: rows differ, some have no entry */
    int values, weights;
};

static uint32_t st_mix(uint32_t a, uint32_t b)
{
    uint32_t x = a * 0x9e3779b9u ^ (b + 0x85ebca6bu) * 0xc2b2ae35u;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    return x ^ x >> 13;
}
static int st_length(const struct st_set *s, int row) { return s->width ? s->width : (int)(st_mix((uint32_t)row, 7) % ST_WIDE); }
static uint32_t st_id(int row, int k) { return (uint32_t)k * 11 + st_mix((uint32_t)row, 100 + (uint32_t)k) % 11; }
static float st_value(int row, int k) { return (float)(st_mix((uint32_t)row, 900 + (uint32_t)k) % 1000) / 64 + 0.25f; }
static float st_label(int row) { return st_mix((uint32_t)row, 3) % 3 ? -1.0f : 1.0f; }
static float st_weight(int row) { return 1 + (float)(row % 5); }

struct st_block {
    uint32_t start[512], id[512 * ST_WIDE];
    float value[512 * ST_WIDE], label[512], weight[512];
};

static struct gy_rows st_make(const struct st_set *s, int first, int count, struct st_block *b)
{
    uint32_t at = 0;
    for (int i = 0; i < count; i++) {
        b->start[i] = at;
        for (int k = 0; k < st_length(s, first + i); k++, at++) {
            b->id[at] = st_id(first + i, k);
            b->value[at] = st_value(first + i, k);
        }
        b->label[i] = st_label(first + i);
        b->weight[i] = st_weight(first + i);
    }
    b->start[count] = at;
    return (struct gy_rows){ .first = first, .count = count, .start = b->start, .id = b->id, .value = s->values ? b->value : NULL, .same = 1,
                             .label = b->label, .weight = s->weights ? b->weight : NULL };
}

/* path NULL: blocks in memory. */
static struct gy_blocks *st_write(const struct st_set *s, const char *path)
{
    static struct st_block b;
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_blocks_write config = { .path = path, .alloc = &alloc };
    struct gy_blocks_writer *w = NULL;
    struct gy_blocks_packed *packed = NULL;
    struct gy_blocks *out = NULL;
    struct gy_error err = { 0 };
    int status = gy_blocks_create(&w, &config, &err);
    for (int first = 0; status == GY_OK && first < s->rows; first += s->block_rows) {
        const struct gy_rows rows = st_make(s, first, s->rows - first < s->block_rows ? s->rows - first : s->block_rows, &b);
        status = gy_blocks_pack(&packed, &rows, 1, &alloc, &err);
        if (status == GY_OK)
            status = gy_blocks_put(w, packed, &err);
    }
    gy_blocks_drop(packed, &alloc);
    if (status == GY_OK)
        status = gy_blocks_finish(w, path ? NULL : &out, &err);
    if (status == GY_OK && path)
        status = gy_blocks_open(&out, path, &alloc, &err);
    T_CHECK_MSG(status == GY_OK, "%s", err.text);
    return out;
}

/* Whether row i of the view is row number `row` of the set. */
static int st_equal(const struct st_set *s, const struct gy_rows *in, int32_t i, int row, int normalize)
{
    const uint32_t begin = gy_rows_begin(in, i), end = gy_rows_end(in, i);
    double sum = 0;
    int same = (int)(end - begin) == st_length(s, row) && memcmp(&in->label[i], &(float){ st_label(row) }, 4) == 0;
    for (int k = 0; same && k < st_length(s, row); k++) {
        const float value = s->values ? st_value(row, k) : 1, found = in->value ? in->value[begin + (uint32_t)k] : in->same;
        same = in->id[begin + (uint32_t)k] == st_id(row, k) && memcmp(&found, &value, 4) == 0;
        sum += (double)value * (double)value;
    }
    const float weight = in->weight ? in->weight[i] : 1, want = s->weights ? st_weight(row) : 1;
    if (normalize && !(in->scale && fabs((double)in->scale[i] * sqrt(sum > 0 ? sum : 1) - 1) < 1e-6))
        same = 0;
    return same && memcmp(&weight, &want, 4) == 0;
}

/* Reads one pass and returns the number of wrong rows; -1: it failed with err. *next_row: the
 * number of the next row. */
static int st_pass(const struct st_set *s, struct gy_glm_feed *feed, int *next_row, int normalize, struct gy_error *err)
{
    int wrong = 0;
    for (;;) {
        struct gy_rows rows;
        if (feed->next(feed->self, &rows, err) != GY_OK)
            return -1;
        if (rows.count == 0)
            return wrong;
        wrong += rows.first != *next_row || rows.count > feed->most_rows || gy_rows_begin(&rows, 0) != 0;
        wrong += gy_rows_end(&rows, rows.count - 1) > feed->most_entries;
        for (int32_t i = 0; i < rows.count; i++)
            wrong += !st_equal(s, &rows, i, (*next_row)++, normalize);
    }
}

static const struct st_set st_ragged = { 5000, 500, 0, 1, 1 }, st_plain = { 4800, 400, 30, 0, 0 }, st_values = { 3003, 64, 5, 1, 0 };

/* ---- rows ---- */

static size_t st_least(const struct gy_blocks *blocks) /* the limit that the sentence names */
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_glm_feed *feed = NULL;
    struct gy_error err = { 0 };
    T_CHECK(gy_glm_feed_stream(&feed, blocks, 0, 1, 0, 100, &alloc, &err) == GY_E_NOMEM && !feed);
    T_CHECK(strstr(err.text, "the limit is 100 bytes") != NULL);
    const char *const at = strstr(err.text, "at a time: ");
    return at ? (size_t)strtoull(at + 11, NULL, 10) : 0;
}

static void test_set(const struct st_set *s)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *const blocks = st_write(s, NULL);
    const size_t least = st_least(blocks);
    struct gy_error err = { 0 };
    struct gy_glm_feed *feed = NULL;
    /* no limit, the least, a byte less, and some between */
    const size_t limit[] = { 0, least, least - 1, least + least / 2, 2 * least, 3 * least };
    for (size_t k = 0; k < GY_COUNT(limit); k++)
        for (int normalize = 0; normalize < 2; normalize++) {
            const size_t scales = normalize && limit[k] ? (size_t)s->block_rows * 8 + 128 : 0;
            const int status = gy_glm_feed_stream(&feed, blocks, 0, 1, normalize, limit[k] + scales, &alloc, &err);
            if (k == 2 && !normalize) {
                T_CHECK(status == GY_E_NOMEM);
                continue;
            }
            T_CHECK_MSG(status == GY_OK, "limit %zu: %s", limit[k], err.text);
            if (status != GY_OK)
                continue;
            struct gy_glm_stream_counts n;
            gy_glm_feed_stream_counts(feed, &n);
            T_CHECK(limit[k] == 0 || normalize || n.memory <= limit[k]);
            T_CHECK(feed->resident == (n.windows == n.rooms) && feed->views == n.windows && feed->rows == s->rows && feed->all_rows == s->rows);
            T_CHECK(limit[k] != 0 || feed->resident);
            T_CHECK(k != 1 || (!feed->resident && n.rooms == 2));
            T_CHECK(k != 4 || n.rooms == 3 || feed->resident);
            for (int pass = 0; pass < 3; pass++) {
                int row = 0;
                T_CHECK(st_pass(s, feed, &row, normalize, &err) == 0 && row == s->rows);
            }
            gy_glm_feed_stream_counts(feed, &n);
            T_CHECK(n.taken == 3 * n.windows);
            gy_glm_feed_stream_close(feed);
        }
    gy_blocks_close(blocks);
}

/* Parts hold all rows once, and differ by one row at most. Their entries, counted before reading,
 * are those that are read. */
static void test_parts(const struct st_set *s)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *const blocks = st_write(s, NULL);
    struct gy_blocks_info info;
    struct gy_error err = { 0 };
    gy_blocks_get_info(blocks, &info);
    for (int parts = 1; parts <= 7; parts++)
        for (int small = 0; small < 2; small++) {
            int row = 0, wrong = 0;
            int64_t entries = 0;
            for (int part = 0; part < parts; part++) {
                struct gy_glm_feed *feed = NULL;
                const int begin = row;
                int64_t first, end;
                if (!T_CHECK(gy_glm_feed_stream(&feed, blocks, part, parts, 0, small ? 2 * st_least(blocks) : 0, &alloc, &err) == GY_OK))
                    continue;
                wrong += st_pass(s, feed, &row, 0, &err);
                gy_glm_deal(s->rows, part, parts, &first, &end);
                wrong += begin != first || row != end || feed->rows != end - first || end - first > s->rows / parts + 1;
                entries += feed->entries;
                gy_glm_feed_stream_close(feed);
            }
            T_CHECK(wrong == 0 && row == s->rows && entries == info.entries);
        }
    gy_blocks_close(blocks);
}

/* Reads one pass in any order. Returns the number of rows that are wrong or missing. order: the
 * first row of each view. */
static int st_pass_any(const struct st_set *s, struct gy_glm_feed *feed, int64_t order[64], struct gy_error *err)
{
    static unsigned char seen[8192];
    int wrong = 0, views = 0;
    memset(seen, 0, sizeof seen);
    for (;;) {
        struct gy_rows rows;
        if (feed->next(feed->self, &rows, err) != GY_OK || views == 64)
            return -1;
        if (rows.count == 0)
            break;
        order[views++] = rows.first;
        for (int32_t i = 0; i < rows.count; i++) {
            wrong += !st_equal(s, &rows, i, (int)rows.first + i, 0) || seen[rows.first + i];
            seen[rows.first + i] = 1;
        }
    }
    for (int64_t i = feed->first; i < feed->first + feed->rows; i++)
        wrong += !seen[i];
    return views == feed->views ? wrong : -1;
}

static void test_shuffle(const struct st_set *s)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *const blocks = st_write(s, NULL);
    const size_t least = st_least(blocks);
    struct gy_error err = { 0 };
    struct gy_rows rows;
    static int64_t order[3][4][64];
    for (int part = 0; part < 3; part++) { /* of two, and the first again */
        struct gy_glm_feed *feed = NULL;
        if (!T_CHECK(gy_glm_feed_stream(&feed, blocks, part % 2, 2, 0, least, &alloc, &err) == GY_OK && feed->shuffle && feed->views < 64))
            break;
        T_CHECK(part != 1 || feed->next(feed->self, &rows, &err) == GY_OK);
        if (part == 1) { /* not in the middle of a pass */
            T_CHECK(feed->shuffle(feed->self, 1, 5, &err) == GY_E_BUG);
            while (rows.count)
                T_CHECK(feed->next(feed->self, &rows, &err) == GY_OK);
        }
        T_CHECK(feed->shuffle(feed->self, 1, 5, &err) == GY_OK);
        for (int pass = 0; pass < 4; pass++)
            T_CHECK(st_pass_any(s, feed, order[part][pass], &err) == 0);
        const size_t bytes = (size_t)feed->views * sizeof order[0][0][0];
        T_CHECK(memcmp(order[part][0], order[part][1], bytes) != 0 && memcmp(order[part][1], order[part][2], bytes) != 0);
        T_CHECK(part < 2 || memcmp(order[0], order[2], sizeof order[0]) == 0);
        T_CHECK(feed->shuffle(feed->self, 0, 0, &err) == GY_OK);
        int row = (int)feed->first;
        T_CHECK(st_pass(s, feed, &row, 0, &err) == 0 && row == feed->first + feed->rows);
        gy_glm_feed_stream_close(feed);
    }
    struct gy_glm_feed *feed = NULL;
    T_CHECK(gy_glm_feed_stream(&feed, blocks, 0, 1, 0, 0, &alloc, &err) == GY_OK && !feed->shuffle);
    gy_glm_feed_stream_close(feed);
    gy_blocks_close(blocks);
}

/* More ranks than rows: some have none. */
static void test_empty_part(void)
{
    const struct st_set s = { 3, 2, 4, 0, 0 };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *const blocks = st_write(&s, NULL);
    struct gy_glm_feed *feed = NULL;
    struct gy_error err = { 0 };
    struct gy_rows rows;
    struct gy_glm_stream_event e;
    T_CHECK(gy_glm_feed_stream(&feed, blocks, 4, 5, 0, 0, &alloc, &err) == GY_OK);
    for (int i = 0; i < 3; i++)
        T_CHECK(feed->next(feed->self, &rows, &err) == GY_OK && rows.count == 0);
    T_CHECK(feed->rows == 0 && feed->entries == 0 && feed->all_rows == 3 && !gy_glm_feed_stream_event(feed, 0, &e));
    gy_glm_feed_stream_close(feed);
    feed = NULL;
    T_CHECK(gy_glm_feed_stream(&feed, blocks, 5, 5, 0, 0, &alloc, &err) == GY_E_ARG && !feed);
    gy_blocks_close(blocks);
}

/* Closed at once, in the middle of a pass, with a window in hand. */
static void test_close(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *const blocks = st_write(&st_plain, NULL);
    const size_t least = st_least(blocks);
    for (int some = 0; some < 12; some++) {
        struct gy_glm_feed *feed = NULL;
        struct gy_error err = { 0 };
        struct gy_rows rows;
        if (!T_CHECK(gy_glm_feed_stream(&feed, blocks, 0, 1, 0, least, &alloc, &err) == GY_OK))
            break;
        for (int i = 0; i < some; i++)
            T_CHECK(feed->next(feed->self, &rows, &err) == GY_OK && rows.count > 0);
        gy_glm_feed_stream_close(feed);
    }
    gy_glm_feed_stream_close(NULL);
    gy_blocks_close(blocks);
}

/* ---- memory ---- */

struct st_count {
    int taken;
};
static void *st_counted(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct st_count *const c = user;
    const struct gy_alloc plain = gy_alloc_default();
    c->taken += new_bytes > 0;
    return plain.fn(plain.user, ptr, old_bytes, new_bytes);
}

static void test_memory(void)
{
    struct st_count count = { 0 };
    const struct gy_alloc alloc = { st_counted, &count };
    struct gy_blocks *const blocks = st_write(&st_ragged, NULL);
    struct gy_glm_feed *feed = NULL;
    struct gy_error err = { 0 };
    const size_t least = st_least(blocks);
    if (T_CHECK(gy_glm_feed_stream(&feed, blocks, 0, 1, 0, least, &alloc, &err) == GY_OK)) {
        const int before = count.taken;
        int row = 0, again = 0;
        T_CHECK(before > 0 && st_pass(&st_ragged, feed, &row, 0, &err) == 0 && st_pass(&st_ragged, feed, &again, 0, &err) == 0);
        gy_glm_feed_stream_close(feed);
        T_CHECK(count.taken == before);
    }
    gy_blocks_close(blocks);
}

/* ---- errors ---- */

/* With a thread that reads ahead, and without. */
static void test_flipped(const struct st_set *set)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const char *const path = df_path("flipped.glb");
    gy_blocks_close(st_write(set, path));
    FILE *const f = fopen(path, "r+b");
    const long at = 4096 + 4096 * 3; /* of one of the first blocks */
    fseek(f, at, SEEK_SET);
    const int was = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(was ^ 4, f);
    fclose(f);
    struct gy_blocks *blocks = NULL;
    struct gy_error err = { 0 };
    T_CHECK(gy_blocks_open(&blocks, path, &alloc, &err) == GY_OK);
    for (int k = 0; k < 2; k++) {
        struct gy_glm_feed *feed = NULL;
        int row = 0;
        err = (struct gy_error){ 0 };
        if (!T_CHECK(gy_glm_feed_stream(&feed, blocks, 0, 1, 0, k ? st_least(blocks) : 0, &alloc, &err) == GY_OK))
            continue;
        T_CHECK(st_pass(set, feed, &row, 0, &err) == -1 && err.status == GY_E_HASH && strstr(err.text, "flipped.glb") && strstr(err.text, "block "));
        T_CHECK(row < set->rows && row % set->block_rows == 0);
        struct gy_rows rows;
        err = (struct gy_error){ 0 };
        T_CHECK(feed->next(feed->self, &rows, &err) == GY_E_HASH && rows.count == 0 && err.text[0]);
        gy_glm_feed_stream_close(feed);
    }
    gy_blocks_close(blocks);
}

/* ---- reading ahead, and its trace ---- */

static int st_has(const char *path, const char *text)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char *data = NULL;
    size_t bytes = 0;
    if (gy_file_read(&alloc, path, 1 << 24, &data, &bytes, NULL) != GY_OK)
        return 0;
    const int has = strstr(data, text) != NULL;
    gy_alloc_free(&alloc, data, bytes + 1);
    return has;
}

static int st_is_json(const char *path)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_json json;
    char *data = NULL;
    size_t bytes = 0;
    if (gy_file_read(&alloc, path, 1 << 24, &data, &bytes, NULL) != GY_OK)
        return 0;
    gy_json_open(&json, (unsigned char *)data, bytes, path, NULL);
    const int good = gy_json_skip(&json, 0) == GY_OK && gy_json_finish(&json) == GY_OK;
    gy_alloc_free(&alloc, data, bytes + 1);
    return good;
}

/* While a window is held, the next is read: its room fills though next is not called. */
static int st_is_ahead(struct gy_glm_feed *feed)
{
    struct gy_glm_stream_counts n;
    for (int tries = 0; tries < 20000; tries++) {
        gy_glm_feed_stream_counts(feed, &n);
        if (n.ready > n.taken)
            return 1;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return 0;
}

static void st_check_events(struct gy_glm_feed *feed, int64_t count)
{
    struct gy_glm_stream_event e = { 0 };
    int64_t last = 0, wrong = 0, i = 0;
    for (; gy_glm_feed_stream_event(feed, i, &e); i++) {
        wrong += e.number != i || e.window != i % feed->views || e.pass != i / feed->views || e.rows == 0;
        wrong += !(e.read_began <= e.read_ended && e.read_ended <= e.train_began && e.train_began <= e.train_ended && last <= e.train_began);
        last = e.train_ended;
    }
    T_CHECK_MSG(wrong == 0 && i == count, "%" PRId64 " of %" PRId64 " events, %" PRId64 " are not as they should be", i, count, wrong);
}

static void test_ahead(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *const blocks = st_write(&st_plain, NULL);
    struct gy_glm_feed *feed = NULL;
    struct gy_error err = { 0 };
    struct gy_rows rows;
    if (T_CHECK(gy_glm_feed_stream(&feed, blocks, 0, 1, 0, 2 * st_least(blocks), &alloc, &err) == GY_OK)) {
        for (int i = 0; i < 2 * feed->views + 2; i++) {
            T_CHECK(feed->next(feed->self, &rows, &err) == GY_OK);
            T_CHECK(rows.count == 0 || st_is_ahead(feed));
        }
        st_check_events(feed, 2 * feed->views);
        const char *const json = df_path("trace.json"), *const svg = df_path("trace.svg");
        T_CHECK(gy_glm_feed_stream_trace(feed, json, 0, 1, &err) == GY_OK && st_is_json(json) && st_has(json, "\"name\":\"window 0\",\"cat\":\"train\""));
        T_CHECK(gy_glm_feed_stream_trace(feed, svg, 3, 4, &err) == GY_OK && !gy_file_exists(svg) && st_has(df_path("trace.3.svg"), "</svg>"));
        T_CHECK(st_has(df_path("trace.3.svg"), "windows a pass, 3 rooms"));
        T_CHECK(gy_glm_feed_stream_trace(feed, "/nowhere/trace.svg", 0, 1, &err) == GY_E_IO && strstr(err.text, "/nowhere/"));
        gy_glm_feed_stream_close(feed);
    }
    gy_blocks_close(blocks);
}

/* ---- training ---- */

static double st_train(struct gy_glm_feed *feed, int threads)
{
    static float w[ST_WIDE * 11];
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_glm_problem problem = { .loss = GY_GLM_LOGISTIC, .l2 = 50, .target = GY_GLM_TARGET_CLASS, .positive = 1, .class_weight = { 1, 1 } };
    struct gy_glm_run run = { .problem = &problem, .feed = feed, .alloc = &alloc, .stop = { .gap = 1e-6 }, .seed = 2, .w = w };
    struct gy_error err = { 0 };
    memset(w, 0, sizeof w);
    T_CHECK(feed->features <= GY_COUNT(w) && gy_pool_open(&run.pool, &alloc, threads, &err) == GY_OK);
    T_CHECK_MSG(gy_glm_sdca()->solve(&run, &err) == GY_OK && run.why == GY_GLM_GAP, "%s", err.text);
    gy_pool_close(run.pool);
    return run.result.primal;
}

/* Rows that come window by window lead to the same optimum as rows in memory. A second model on the
 * same feed reaches it, too. */
static void test_train(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *const blocks = st_write(&st_ragged, NULL);
    struct gy_glm_feed *whole = NULL, *feed = NULL;
    struct gy_pool *pool = NULL;
    struct gy_error err = { 0 };
    T_CHECK(gy_pool_open(&pool, &alloc, 1, &err) == GY_OK && gy_glm_feed_resident(&whole, blocks, 0, 1, 1, &alloc, pool, &err) == GY_OK);
    if (T_CHECK(gy_glm_feed_stream(&feed, blocks, 0, 1, 1, 2 * st_least(blocks), &alloc, &err) == GY_OK && !feed->resident)) {
        const double want = st_train(whole, 1), one = st_train(feed, 1), two = st_train(feed, 2);
        T_CHECK_MSG(fabs(one - want) <= 2e-6 * want && fabs(two - want) <= 2e-6 * want, "%.9g in memory, %.9g and %.9g streamed", want, one, two);
    }
    gy_glm_feed_stream_close(feed);
    gy_glm_feed_close(whole);
    gy_pool_close(pool);
    gy_blocks_close(blocks);
}

static long st_waits(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

/* Windows of a few rows: no thread waits for another one at each, and the optimum is the same. */
static void test_small_windows(void)
{
    static const struct st_set rows = { 2830, 2, 9, 1, 0 };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *const blocks = st_write(&rows, NULL);
    struct gy_glm_feed *feed = NULL;
    struct gy_error err = { 0 };
    struct gy_glm_stream_counts n;
    if (T_CHECK(gy_glm_feed_stream(&feed, blocks, 0, 1, 1, st_least(blocks) + 256, &alloc, &err) == GY_OK && feed->views > 500)) {
        const double one = st_train(feed, 1);
        const long before = st_waits();
        const double three = st_train(feed, 3);
        const long waits = st_waits() - before;
        gy_glm_feed_stream_counts(feed, &n);
        T_CHECK_MSG(fabs(one - three) <= 2e-6 * one, "%.9g by one thread, %.9g by three", one, three);
        T_CHECK_MSG(waits * 10 < n.taken, "%ld waits of a thread, %" PRId64 " windows", waits, n.taken);
        gy_glm_feed_stream_close(feed);
    }
    gy_blocks_close(blocks);
}

int main(void)
{
    df_open();
    test_set(&st_ragged);
    test_set(&st_plain);
    test_set(&st_values);
    test_parts(&st_ragged);
    test_parts(&st_values);
    test_shuffle(&st_values);
    test_empty_part();
    test_close();
    test_memory();
    test_flipped(&st_plain);
    test_flipped(&st_values);
    test_ahead();
    test_train();
    test_small_windows();
    df_remove(df_root);
    T_END("t_glm_stream");
}
