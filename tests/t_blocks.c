/* SPDX-License-Identifier: MIT */
/* t_blocks.c: the block file. What is written comes back bit for bit whatever the widths. Every cut
 * and every changed byte of a file is noticed. An append adds, and one that was stopped has changed
 * nothing. Rows are made by a counter, so that a failure can be repeated. */
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "io/rows/blocks_file.h"
#include "io/rows/blocks_write.h"
#include "tests/t.h"
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLK_ROWS 700
#define BLK_ENTRIES 40000

static struct gy_error blk_err;
#define BLK_OK(call) blk_is_ok((call), __LINE__)
static char blk_folder[256];

/* Counts one check: the call went well; else its sentence is shown. */
static int blk_is_ok(int status, int line)
{
    if (status != GY_OK)
        printf("    %s\n", blk_err.text);
    return t_note(status == GY_OK, __FILE__, line, "the call goes well");
}

struct blk_rows {
    uint32_t start[BLK_ROWS + 1], id[BLK_ENTRIES];
    float value[BLK_ENTRIES], label[BLK_ROWS], weight[BLK_ROWS];
};

struct blk_kind { /* what the rows of a case are like */
    int32_t rows, width; /* width 0: 0 to 12 entries */
    uint32_t features;
    /* values: 0, or by blk_value_of[values - 1]; labels: count of different ones, 0: reals */
    int values, weights, labels;
};

static uint64_t blk_state = 88172645463325252u;

static uint64_t blk_next(void)
{
    blk_state ^= blk_state << 13;
    blk_state ^= blk_state >> 7;
    blk_state ^= blk_state << 17;
    return blk_state;
}

/* Kinds of values: fractions; integers of 10 bits; integers of 24 bits; integers that are too
 * large; integers with a signed zero; two values; INT32_MIN among small integers. */
static float blk_fraction(uint64_t x) { return (float)(int64_t)(x % 2001) / 100 - 10; }
static float blk_ten(uint64_t x) { return (float)((int32_t)(x % 1000) - 300); }
static float blk_most(uint64_t x) { return (float)(x % 16777216) - BLOCKS_WHOLE_MOST; }
static float blk_large(uint64_t x) { return (float)(int64_t)(x % 1000) * 1e7f; }
static float blk_signed(uint64_t x) { return x % 9 ? (float)(x % 5) : -0.0f; }
static float blk_two(uint64_t x) { return (float)(x % 2) + 7; }
static float blk_least(uint64_t x) { return x % 9 ? (float)(x % 5) : (float)INT32_MIN; }
static float (*const blk_value_of[])(uint64_t) = { blk_fraction, blk_ten, blk_most, blk_large, blk_signed, blk_two, blk_least };
static const int blk_bits_of[] = { 0, 10, 24, 0, 0, 1, 0 };

static void blk_make_row(struct blk_rows *r, int32_t i, uint32_t length, const struct blk_kind *kind)
{
    uint32_t id = 0;
    for (uint32_t k = 0; k < length; k++) {
        /* leaves room for the other ids */
        const uint32_t left = length - k, room = (kind->features - id) / left;
        id += (uint32_t)(blk_next() % (room > 0 ? room : 1));
        r->id[r->start[i] + k] = id++;
        r->value[r->start[i] + k] = kind->values ? blk_value_of[kind->values - 1](blk_next()) : 0.25f;
    }
}

static struct gy_rows blk_make(struct blk_rows *r, const struct blk_kind *kind)
{
    r->start[0] = 0;
    for (int32_t i = 0; i < kind->rows; i++) {
        const uint32_t most = kind->features < 12 ? kind->features : 12,
            length = kind->width > 0 ? (uint32_t)kind->width : (uint32_t)(blk_next() % (most + 1));
        r->start[i + 1] = r->start[i] + length;
        blk_make_row(r, i, length, kind);
        r->label[i] = kind->labels == 0 ? (float)(blk_next() % 100000) / 7 : (float)(blk_next() % (uint64_t)kind->labels) * 2 - 1;
        r->weight[i] = (float)(blk_next() % 100) + 0.5f;
    }
    const struct gy_rows rows = { 0, kind->rows, kind->width, kind->width > 0 ? NULL : r->start, r->id, kind->values ? r->value : NULL, 0.25f, r->label,
                                  kind->weights ? r->weight : NULL, NULL };
    return rows;
}

/* Part of the rows as a view of its own. */
static struct gy_rows blk_part(const struct gy_rows *all, int32_t from, int32_t count, uint32_t start[BLK_ROWS + 1])
{
    struct gy_rows part = *all;
    const uint32_t first = gy_rows_begin(all, from);
    for (int32_t i = 0; i <= count; i++)
        start[i] = gy_rows_begin(all, from + i) - first;
    part.first = all->first + from;
    part.count = count;
    part.start = all->width > 0 ? NULL : start;
    part.id += first;
    part.value = all->value ? all->value + first : NULL;
    part.label += from;
    part.weight = all->weight ? all->weight + from : NULL;
    return part;
}

static float blk_value(const struct gy_rows *rows, uint32_t k) { return rows->value ? rows->value[k] : rows->same; }

/* 1: row j of got is row i of want, to the bit. */
static int blk_same_row(const struct gy_rows *want, int32_t i, const struct gy_rows *got, int32_t j)
{
    const uint32_t a = gy_rows_begin(want, i), b = gy_rows_begin(got, j), n = gy_rows_end(want, i) - a;
    int same = gy_rows_end(got, j) - b == n && want->label[i] == got->label[j];
    for (uint32_t k = 0; same && k < n; k++)
        same = want->id[a + k] == got->id[b + k] && blk_value(want, a + k) == blk_value(got, b + k) &&
               !signbit(blk_value(want, a + k)) == !signbit(blk_value(got, b + k));
    return same && (want->weight ? want->weight[i] : 1) == (got->weight ? got->weight[j] : 1);
}

/* Blocks of `step` rows, the first of each block a view of its own. */
static int blk_put_all(struct gy_blocks_writer *writer, const struct gy_rows *rows, int32_t step)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks_packed *packed = NULL;
    static uint32_t start[2][BLK_ROWS + 1];
    int status = GY_OK;
    for (int32_t from = 0; status == GY_OK && from < rows->count; from += step) {
        const int32_t n = (int32_t)gy_min64(step, rows->count - from), some = n / 3;
        const struct gy_rows views[2] = { blk_part(rows, from, some, start[0]), blk_part(rows, from + some, n - some, start[1]) };
        status = gy_blocks_pack(&packed, views, 2, &alloc, &blk_err);
        if (status == GY_OK)
            status = gy_blocks_put(writer, packed, &blk_err);
    }
    gy_blocks_drop(packed, &alloc);
    return status;
}

static int blk_write(const char *path, const struct gy_rows *rows, int32_t step, int append, uint32_t features, struct gy_blocks **memory)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_blocks_write config = { path, append, features, 0, 0, &alloc };
    struct gy_blocks_writer *writer = NULL;
    int status = gy_blocks_create(&writer, &config, &blk_err);
    if (status != GY_OK)
        return status;
    status = blk_put_all(writer, rows, step);
    if (status != GY_OK) {
        gy_blocks_abandon(writer);
        return status;
    }
    return gy_blocks_finish(writer, memory, &blk_err);
}

/* Rows of `blocks` from row `from` on that are not those of want. */
static int64_t blk_differences(const struct gy_blocks *blocks, const struct gy_rows *want, int64_t from)
{
    struct gy_blocks_info info;
    struct gy_rows got;
    int64_t bad = 0;
    gy_blocks_get_info(blocks, &info);
    const struct gy_blocks_room room = { malloc(gy_blocks_room_bytes(blocks, -1)), gy_blocks_room_bytes(blocks, -1) };
    for (int64_t i = 0; i < info.blocks; i++) {
        if (gy_blocks_read(blocks, i, &room, &got, &blk_err) != GY_OK) {
            printf("    %s\n", blk_err.text);
            bad++;
            continue;
        }
        for (int32_t j = 0; j < got.count; j++)
            if (got.first + j >= from && got.first + j < from + want->count)
                bad += !blk_same_row(want, (int32_t)(got.first + j - from), &got, j);
    }
    free(room.memory);
    return bad;
}

static const char *blk_path(char path[320], const char *name)
{
    snprintf(path, 320, "%s/%s", blk_folder, name);
    return path;
}

static void blk_test_bits(void)
{
    static uint32_t value[1100], back[1100];
    static unsigned char bytes[4 * 1100 + BLOCKS_SLACK];
    int bad = 0;
    for (int bits = 1; bits <= 32; bits++)
        for (size_t n = 0; n <= 1100; n = n < 40 ? n + 1 : n + 353) {
            struct gy_bits_writer writer = { bytes, 0, 0 };
            for (size_t k = 0; k < n; k++)
                value[k] = (uint32_t)(blk_next() >> 13) & (uint32_t)(((uint64_t)1 << bits) - 1);
            gy_bits_pack(&writer, value, n / 2, bits);
            gy_bits_pack(&writer, value + n / 2, n - n / 2, bits);
            gy_bits_flush(&writer);
            bad += (size_t)(writer.to - bytes) != (n * (size_t)bits + 7) / 8;
            gy_bits_unpack(bytes, bits, back, n);
            bad += memcmp(value, back, n * sizeof *value) != 0;
            struct gy_bits_look look = { 0, 0 };
            uint32_t most = 0;
            size_t falls = 0;
            for (size_t k = 0; k < n; k++) {
                most = value[k] > most ? value[k] : most;
                falls += k > 0 && value[k] <= value[k - 1];
            }
            gy_bits_see(&look, value, n, 0);
            bad += look.most != most || look.falls != falls;
        }
    T_CHECK_MSG(bad == 0, "%d of the packed runs differ", bad);
    T_CHECK(gy_bits_of(0) == 1 && gy_bits_of(1) == 1 && gy_bits_of(2) == 2 && gy_bits_of(255) == 8 && gy_bits_of(256) == 9 && gy_bits_of(UINT32_MAX) == 32);
}

static void blk_check_info(const struct blk_kind *kind, const struct gy_rows *rows, const struct gy_blocks_info *info, int32_t step)
{
    T_CHECK(info->rows == rows->count && info->entries == gy_rows_end(rows, rows->count - 1) && info->blocks == (rows->count + step - 1) / step);
    T_CHECK(info->width == kind->width && info->features <= kind->features && info->has_values == (kind->values > 0) && info->has_weights == kind->weights);
    T_CHECK(kind->values || info->same == 0.25f);
    T_CHECK_MSG(info->classes == kind->labels, "%" PRId32 " classes, want %d", info->classes, kind->labels);
    int64_t sum = 0;
    for (int32_t i = 0; i < info->classes; i++) {
        T_CHECK(info->label[i] == (float)(2 * i - 1));
        sum += info->label_rows[i];
    }
    T_CHECK(kind->labels == 0 || sum == rows->count);
}

static void blk_test_round_trip(void)
{
    static const struct blk_kind kinds[] = {
        { 700, 0, 5, 0, 0, 2 },          { 700, 0, 1000, 1, 0, 2 },     { 600, 39, 1 << 20, 0, 0, 2 }, { 600, 10, 4000000000u, 0, 1, 1 },
        { 300, 3, 1 << 26, 1, 1, 5 },    { 700, 0, 1u << 31, 1, 0, 40 }, { 64, 1, 2, 0, 0, 2 },         { 1, 7, 9, 1, 1, 1 },
        { 700, 0, 4294967295u, 0, 1, 2 },
    };
    static struct blk_rows data;
    for (size_t i = 0; i < GY_COUNT(kinds); i++)
        for (int32_t step = 100; step <= 1000; step += 450) {
            const struct gy_rows rows = blk_make(&data, &kinds[i]);
            struct gy_blocks *memory = NULL;
            struct gy_blocks_info info;
            if (!BLK_OK(blk_write(NULL, &rows, step, 0, 0, &memory)))
                continue;
            gy_blocks_get_info(memory, &info);
            blk_check_info(&kinds[i], &rows, &info, step);
            T_CHECK_MSG(blk_differences(memory, &rows, 0) == 0, "case %zu in blocks of %" PRId32 " rows", i, step);
            gy_blocks_close(memory);
        }
}

/* Integer values are stored in the bits of their range; no other values are. Files from before
 * integer values are read as they were. */
static void blk_test_whole(void)
{
    static struct blk_rows data;
    for (int v = 0; v < (int)GY_COUNT(blk_value_of); v++)
        for (int32_t step = 100; step <= 700; step += 600) {
            const struct blk_kind kind = { 700, v % 2 ? 9 : 0, 5000, v + 1, 0, 2 };
            const struct gy_rows rows = blk_make(&data, &kind);
            struct gy_blocks *memory = NULL;
            struct gy_blocks_head head;
            const struct gy_blocks_entry *entry;
            if (!BLK_OK(blk_write(NULL, &rows, step, 0, 0, &memory)))
                continue;
            gy_blocks_get_head(memory, &head, &entry);
            for (uint64_t i = 0; i < head.blocks; i++) {
                const int bits = entry[i].value_bits;
                T_CHECK_MSG(bits == blk_bits_of[v], "values %d: %d bits", v, bits);
                T_CHECK(!(entry[i].flags & GY_BLOCKS_WHOLE) == (bits == 0));
            }
            T_CHECK_MSG(blk_differences(memory, &rows, 0) == 0, "values %d in blocks of %" PRId32 " rows", v, step);
            gy_blocks_close(memory);
        }
}

/* More labels than are counted: a regression. */
static void blk_test_many_labels(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks_counts *counts = gy_alloc_take(&alloc, 1, sizeof *counts);
    for (int i = 0; i < GY_BLOCKS_CLASSES; i++)
        for (int k = 0; k < 2; k++)
            gy_blocks_count(counts, (float)(i * 7919 % GY_BLOCKS_CLASSES) - 100, 1);
    gy_blocks_count(counts, -0.0f, 3);
    T_CHECK(counts->count == GY_BLOCKS_CLASSES && !counts->too_many);
    gy_blocks_count(counts, 0.5f, 1);
    T_CHECK(counts->too_many);
    gy_blocks_sort(counts);
    int bad = 0;
    for (int i = 0; i < GY_BLOCKS_CLASSES; i++)
        bad += counts->label[i] != (float)(i - 100) || counts->rows[i] != (i == 100 ? 5 : 2);
    T_CHECK_MSG(bad == 0, "%d of the labels or counts differ", bad);
    gy_alloc_free(&alloc, counts, sizeof *counts);
}

/* Opens and reads everything of these bytes; GY_OK or what was wrong. */
static int blk_read_bytes(const unsigned char *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *blocks = NULL;
    struct gy_blocks_info info;
    struct gy_rows rows;
    int status = gy_blocks_open_memory(&blocks, bytes, count, "bytes", &alloc, NULL, 0, &blk_err);
    if (status != GY_OK)
        return status;
    gy_blocks_get_info(blocks, &info);
    const struct gy_blocks_room room = { malloc(gy_blocks_room_bytes(blocks, -1)), gy_blocks_room_bytes(blocks, -1) };
    for (int64_t i = 0; status == GY_OK && i < info.blocks; i++)
        status = gy_blocks_read(blocks, i, &room, &rows, &blk_err);
    free(room.memory);
    gy_blocks_close(blocks);
    return status;
}

static void blk_test_damage(void)
{
    static struct blk_rows data;
    const struct blk_kind kind = { 30, 0, 200, 1, 1, 3 };
    const struct gy_rows rows = blk_make(&data, &kind);
    const struct gy_alloc alloc = gy_alloc_default();
    char path[320], *bytes = NULL;
    size_t count = 0, cut = 0, changed = 0;
    if (!BLK_OK(blk_write(blk_path(path, "damage"), &rows, 20, 0, 0, NULL)) || !BLK_OK(gy_file_read(&alloc, path, 1 << 20, &bytes, &count,
                                                                                                                    &blk_err)))
        return;
    unsigned char *copy = malloc(count);
    memcpy(copy, bytes, count);
    BLK_OK(blk_read_bytes(copy, count));
    /* each copy has exactly n bytes, so that a sanitizer sees a read beyond them */
    for (size_t n = 0; n < count; n++) {
        unsigned char *exact = malloc(n + 1);
        memcpy(exact, bytes, n);
        cut += blk_read_bytes(exact, n) == GY_OK || blk_err.text[0] == 0;
        free(exact);
    }
    for (size_t n = 0; n < count; n++) {
        copy[n] = (unsigned char)(copy[n] ^ (1u << n % 8));
        changed += blk_read_bytes(copy, count) == GY_OK || !strstr(blk_err.text, "bytes");
        copy[n] = (unsigned char)bytes[n];
    }
    T_CHECK_MSG(cut == 0 && changed == 0, "%zu cuts and %zu changed bytes of %zu were not noticed", cut, changed, count);
    free(copy);
    gy_alloc_free(&alloc, bytes, count + 1);
}

/* Makes the checksums right again. blk_hostile then tests a file whose sums are right and whose
 * numbers are not: one field of head or index after another takes hostile values. */
static void blk_seal(unsigned char *bytes)
{
    struct gy_blocks_head head;
    memset(&head, 0, sizeof head);
    uint64_t at, size;
    memcpy(&at, bytes + 40, 8);
    memcpy(&size, bytes + 48, 8);
    const uint32_t index = gy_crc32c(0, bytes + at, (size_t)size);
    memcpy(bytes + 64, &index, 4);
    const uint32_t crc = gy_crc32c(0, bytes, BLOCKS_HEAD_USED - 4);
    memcpy(bytes + BLOCKS_HEAD_USED - 4, &crc, 4);
}

static int blk_hostile(unsigned char *copy, const unsigned char *bytes, size_t count, size_t at, int size, uint64_t value)
{
    memcpy(copy, bytes, count);
    memcpy(copy + at, &value, (size_t)size);
    if (memcmp(copy, bytes, count) == 0)
        return 0;
    uint64_t index_at, index_bytes;
    memcpy(&index_at, copy + 40, 8);
    memcpy(&index_bytes, copy + 48, 8);
    if (index_at <= count && index_bytes <= count - index_at)
        blk_seal(copy);
    const int status = blk_read_bytes(copy, count);
    return status == GY_OK || status == GY_E_NOMEM || blk_err.text[0] == 0;
}

static void blk_test_hostile(void)
{
    static const uint64_t value[] = { 0, 1, 2, 3, 33, 255, 4096, 8192, 12288, 1u << 20, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX };
    static const struct { int at, size; } head[] = { { 8, 4 }, { 12, 4 }, { 16, 8 }, { 24, 8 }, { 32, 8 }, { 40, 8 }, { 48, 8 }, { 56, 8 }, { 88, 4 } };
    static const struct { int at, size; } entry[] = { { 0, 8 }, { 8, 8 }, { 16, 4 }, { 20, 4 }, { 24, 4 }, { 29, 1 } };
    /* another kind of the same size may pass; nothing may be read outside */
    static const int kind_at[] = { 28, 30, 31, 52 };
    static struct blk_rows data;
    const struct blk_kind kind = { 40, 0, 200, 0, 0, 3 };
    const struct gy_rows rows = blk_make(&data, &kind);
    const struct gy_alloc alloc = gy_alloc_default();
    char path[320], *bytes = NULL;
    size_t count = 0;
    int bad = 0, tried = 0;
    if (!BLK_OK(blk_write(blk_path(path, "hostile"), &rows, 20, 0, 0, NULL)) || !BLK_OK(gy_file_read(&alloc, path, 1 << 20, &bytes,
                                                                                                                     &count, &blk_err)))
        return;
    unsigned char *copy = malloc(count);
    uint64_t index_at;
    memcpy(&index_at, bytes + 40, 8);
    for (size_t v = 0; v < GY_COUNT(value); v++) {
        for (size_t i = 0; i < GY_COUNT(head); i++, tried++)
            bad += blk_hostile(copy, (unsigned char *)bytes, count, (size_t)head[i].at, head[i].size, value[v]);
        for (size_t i = 0; i < GY_COUNT(entry); i++, tried++)
            bad += blk_hostile(copy, (unsigned char *)bytes, count, (size_t)index_at + BLOCKS_ENTRY + (size_t)entry[i].at, entry[i].size, value[v]);
    }
    T_CHECK_MSG(bad == 0, "%d of %d hostile numbers were taken", bad, tried);
    for (size_t i = 0; i < GY_COUNT(kind_at); i++)
        for (uint64_t v = 0; v < 256; v++)
            (void)blk_hostile(copy, (unsigned char *)bytes, count, (size_t)index_at + BLOCKS_ENTRY + (size_t)kind_at[i], 1, v);
    free(copy);
    gy_alloc_free(&alloc, bytes, count + 1);
}

/* ids that are too large or do not rise, in a file whose sums are right */
static void blk_test_wrong_ids(void)
{
    static const struct { uint32_t byte; unsigned char value; const char *says; } cases[] = { { 0, 6, "id 5 behind 6" }, { 2, 5, "id 5 behind 5" }, { 2,
        8, "id 8 is not" } };
    const uint32_t id[3] = { 3, 5, 7 };
    const float label[1] = { 1 };
    const struct gy_rows rows = { 0, 1, 3, NULL, id, NULL, 1, label, NULL, NULL };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        const struct gy_alloc alloc = gy_alloc_default();
        char path[320], *bytes = NULL;
        size_t count = 0;
        uint64_t index_at;
        if (!BLK_OK(blk_write(blk_path(path, "ids"), &rows, 20, 0, 0, NULL)) || !BLK_OK(gy_file_read(&alloc, path, 1 << 20, &bytes,
                                                                                                                     &count, &blk_err)))
            return;
        struct gy_bits_writer writer = { (unsigned char *)bytes + BLOCKS_HEAD, 0, 0 };
        uint32_t wrong[3] = { 3, 5, 7 };
        wrong[cases[i].byte] = cases[i].value;
        gy_bits_pack(&writer, wrong, 3, 4);
        bytes[BLOCKS_HEAD + 1] = (char)wrong[2];
        bytes[BLOCKS_HEAD] = (char)(wrong[0] | wrong[1] << 4);
        memcpy(&index_at, bytes + 40, 8);
        bytes[index_at + 28] = 4; /* bits of an id */
        const uint32_t crc = gy_crc32c(0, bytes + BLOCKS_HEAD, 4096);
        memcpy(bytes + index_at + 48, &crc, 4);
        blk_seal((unsigned char *)bytes);
        T_CHECK(blk_read_bytes((unsigned char *)bytes, count) == GY_E_FORMAT);
        T_CHECK_MSG(strstr(blk_err.text, cases[i].says) != NULL, "it says: %s", blk_err.text);
        gy_alloc_free(&alloc, bytes, count + 1);
    }
}

static int64_t blk_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (int64_t)info.st_size : -1;
}

/* A child appends and is killed when its blocks are written and the index is not. */
static void blk_append_killed(const char *path, const struct gy_rows *rows)
{
    int how = 0;
    const pid_t child = fork();
    if (child == 0) {
        const struct gy_alloc alloc = gy_alloc_default();
        const struct gy_blocks_write config = { path, 1, 0, 0, 0, &alloc };
        struct gy_blocks_writer *writer = NULL;
        if (gy_blocks_create(&writer, &config, &blk_err) == GY_OK && blk_put_all(writer, rows, 16) == GY_OK)
            raise(SIGKILL);
        _exit(1);
    }
    T_CHECK(child > 0 && waitpid(child, &how, 0) == child && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

static void blk_test_append(void)
{
    static struct blk_rows data, more;
    const struct blk_kind kind = { 150, 0, 300, 0, 0, 2 }, other = { 90, 5, 5000, 1, 1, 3 };
    const struct gy_rows rows = blk_make(&data, &kind), added = blk_make(&more, &other);
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *blocks = NULL;
    struct gy_blocks_info before, after;
    char path[320];
    blk_path(path, "append");
    BLK_OK(blk_write(path, &rows, 64, 0, 0, NULL));
    if (!BLK_OK(gy_blocks_open(&blocks, path, &alloc, &blk_err)))
        return;
    gy_blocks_get_info(blocks, &before);
    const int64_t size = blk_size(path);
    blk_append_killed(path, &added); /* the file grew, and reads as before */
    T_CHECK(blk_size(path) > size);
    gy_blocks_close(blocks);
    BLK_OK(gy_blocks_open(&blocks, path, &alloc, &blk_err));
    gy_blocks_get_info(blocks, &after);
    T_CHECK(after.rows == 150 && after.id == before.id && blk_differences(blocks, &rows, 0) == 0);
    BLK_OK(blk_write(path, &added, 64, 1, 0, NULL));
    T_CHECK(blk_differences(blocks, &rows, 0) == 0); /* whoever has it open reads on */
    gy_blocks_close(blocks);
    BLK_OK(gy_blocks_open(&blocks, path, &alloc, &blk_err));
    gy_blocks_get_info(blocks, &after);
    T_CHECK(after.rows == 240 && after.blocks == 5 && after.classes == 3 && after.has_values && after.has_weights && after.width == 0 &&
            after.id != before.id);
    T_CHECK(blk_differences(blocks, &rows, 0) == 0 && blk_differences(blocks, &added, 150) == 0);
    gy_blocks_close(blocks);
}

/* What does not agree is refused, and an append that fails leaves the file as it was. */
static void blk_test_append_refused(void)
{
    static struct blk_rows data;
    const struct blk_kind kind = { 50, 0, 300, 0, 0, 2 };
    struct gy_rows rows = blk_make(&data, &kind);
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks_writer *writer = NULL;
    char path[320];
    BLK_OK(blk_write(blk_path(path, "told"), &rows, 64, 0, 400, NULL));
    const int64_t size = blk_size(path);
    const struct gy_blocks_write hashed = { path, 1, 0, 20, 7, &alloc }, wider = { path, 1, 500, 0, 0, &alloc };
    T_CHECK(gy_blocks_create(&writer, &hashed, &blk_err) == GY_E_MISMATCH && gy_blocks_create(&writer, &wider, &blk_err) == GY_E_MISMATCH);
    data.id[data.start[50] - 1] = 400;
    T_CHECK(blk_write(path, &rows, 20, 1, 0, NULL) == GY_E_MISMATCH && blk_size(path) == size);
    data.id[data.start[50] - 1] = 399;
    BLK_OK(blk_write(path, &rows, 20, 1, 0, NULL));
    T_CHECK(blk_write(blk_path(path, "absent"), &rows, 20, 1, 0, NULL) == GY_E_IO && blk_size(path) == -1);
}

/* views of one block; each part of the block has several shares, which end inside views */
#define BLK_VIEWS 200

/* Packs the shares of a planned block, the last one first. */
static void blk_pack_backwards(struct gy_blocks_packed *packed, const struct gy_rows *views)
{
    for (uint64_t share = gy_blocks_shares(packed); share-- > 0;)
        gy_blocks_pack_share(packed, share, views, BLK_VIEWS);
}

/* Shares packed in any order, from sums made in any parts, give the same block as one call. Reading
 * it back gives the rows. */
static void blk_test_shares(void)
{
    static struct blk_rows data;
    static struct gy_blocks_sum sum, half;
    const struct blk_kind kinds[] = { { 699, 0, 99991, 1, 1, 0 }, { 699, 5, 1000, 0, 0, 2 }, { 699, 0, 99991, 2, 1, 0 } };
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_blocks_write config = { NULL, 0, 0, 0, 0, &alloc };
    for (size_t i = 0; i < GY_COUNT(kinds); i++) {
        struct gy_blocks_packed *once = NULL, *shares = NULL;
        struct gy_rows views[BLK_VIEWS], got;
        struct gy_blocks_writer *writer = NULL;
        struct gy_blocks *blocks = NULL;
        views[0] = blk_make(&data, &kinds[i]);
        memset(&sum, 0, sizeof sum);
        memset(&half, 0, sizeof half);
        for (int v = 0; v < BLK_VIEWS; v++) {
            views[v] = views[0];
            BLK_OK(gy_blocks_sum_add(v < BLK_VIEWS / 2 ? &sum : &half, &views[v], &blk_err));
        }
        gy_blocks_sum_join(&sum, &half);
        if (!BLK_OK(gy_blocks_pack(&once, views, BLK_VIEWS, &alloc, &blk_err)) || !BLK_OK(gy_blocks_plan(&shares, &sum, &alloc, &blk_err)))
            return;
        blk_pack_backwards(shares, views);
        T_CHECK(gy_blocks_shares(shares) >= 4 && gy_blocks_shares(shares) == gy_blocks_shares(once) && shares->entry.bytes == once->entry.bytes);
        T_CHECK(memcmp(shares->bytes, once->bytes, (size_t)once->entry.bytes) == 0);
        gy_blocks_sort(&shares->counts); /* labels are counted as they come, which differs */
        gy_blocks_sort(&once->counts);
        T_CHECK(shares->counts.count == once->counts.count && shares->counts.too_many == once->counts.too_many);
        T_CHECK(memcmp(shares->counts.label, once->counts.label, (size_t)once->counts.count * sizeof *once->counts.label) == 0);
        T_CHECK(memcmp(shares->counts.rows, once->counts.rows, (size_t)once->counts.count * sizeof *once->counts.rows) == 0);
        T_CHECK(gy_blocks_packed_crc(shares) == gy_crc32c(0, once->bytes, (size_t)once->entry.bytes));
        BLK_OK(gy_blocks_create(&writer, &config, &blk_err));
        BLK_OK(gy_blocks_put(writer, shares, &blk_err));
        if (BLK_OK(gy_blocks_finish(writer, &blocks, &blk_err))) {
            const struct gy_blocks_room room = { malloc(gy_blocks_room_bytes(blocks, -1)), gy_blocks_room_bytes(blocks, -1) };
            int same = BLK_OK(gy_blocks_read(blocks, 0, &room, &got, &blk_err)) && got.count == BLK_VIEWS * views[0].count;
            for (int32_t r = 0; same && r < got.count; r++)
                same = blk_same_row(&views[0], r % views[0].count, &got, r);
            T_CHECK(same);
            free(room.memory);
        }
        gy_blocks_close(blocks);
        gy_blocks_drop(once, &alloc);
        gy_blocks_drop(shares, &alloc);
    }
}

static void blk_test_refused_rows(void)
{
    uint32_t id[4] = { 1, 2, 3, 4 };
    float value[4] = { 1, 2, 3, 4 }, label[2] = { 1, -1 };
    const struct gy_rows rows = { 10, 2, 2, NULL, id, value, 1, label, NULL, NULL };
    struct gy_blocks *memory = NULL;
    id[3] = 3;
    T_CHECK(blk_write(NULL, &rows, 20, 0, 0, &memory) == GY_E_ARG && strstr(blk_err.text, "row 11: id 3 behind 3"));
    id[3] = UINT32_MAX;
    T_CHECK(blk_write(NULL, &rows, 20, 0, 0, &memory) == GY_E_ARG);
    id[3] = 4;
    value[2] = (float)INFINITY;
    T_CHECK(blk_write(NULL, &rows, 20, 0, 0, &memory) == GY_E_ARG);
    value[2] = 1;
    label[0] = (float)NAN;
    T_CHECK(blk_write(NULL, &rows, 20, 0, 0, &memory) == GY_E_ARG);
    label[0] = 1;
    T_CHECK(blk_write(NULL, &rows, 20, 0, 4, &memory) == GY_E_MISMATCH && !memory);
    BLK_OK(blk_write(NULL, &rows, 20, 0, 5, &memory));
    gy_blocks_close(memory);
}

/* Mapped or read into the room, ahead or not: the same rows. */
static void blk_test_sizes(void)
{
    static struct blk_rows data;
    const struct blk_kind kind = { 500, 0, 100000, 1, 1, 4 };
    const struct gy_rows rows = blk_make(&data, &kind);
    const struct gy_alloc alloc = gy_alloc_default();
    char path[320];
    BLK_OK(blk_write(blk_path(path, "sizes"), &rows, 100, 0, 0, NULL));
    struct gy_blocks *blocks = NULL;
    int32_t count = 0;
    int64_t entries = 0, sum = 0;
    if (!BLK_OK(gy_blocks_open(&blocks, path, &alloc, &blk_err)))
        return;
    for (int64_t i = 0; i < 5; i++) {
        gy_blocks_size(blocks, i, &count, &entries);
        gy_blocks_ahead(blocks, i + 1);
        sum += entries;
        T_CHECK(count == 100);
    }
    T_CHECK(sum == data.start[500] && blk_differences(blocks, &rows, 0) == 0);
    struct gy_rows got;
    const struct gy_blocks_room none = { NULL, 0 };
    T_CHECK(gy_blocks_read(blocks, 5, &none, &got, &blk_err) == GY_E_ARG && gy_blocks_read(blocks, 0, &none, &got, &blk_err) == GY_E_ARG);
    gy_blocks_close(blocks);
}

static void blk_remove(const char *name)
{
    char path[320];
    remove(blk_path(path, name));
}

int main(void)
{
    const char *const names[] = { "damage", "hostile", "ids", "append", "told", "sizes" };
    const char *base = getenv("TMPDIR");
    snprintf(blk_folder, sizeof blk_folder, "%s/t_blocks_%ld", base ? base : "/tmp", (long)getpid());
    BLK_OK(gy_file_make_folder(blk_folder, &blk_err));
    blk_test_bits();
    blk_test_round_trip();
    blk_test_whole();
    blk_test_many_labels();
    blk_test_damage();
    blk_test_hostile();
    blk_test_wrong_ids();
    blk_test_append();
    blk_test_append_refused();
    blk_test_shares();
    blk_test_refused_rows();
    blk_test_sizes();
    for (size_t i = 0; i < GY_COUNT(names); i++)
        blk_remove(names[i]);
    rmdir(blk_folder);
    T_END("t_blocks");
}
