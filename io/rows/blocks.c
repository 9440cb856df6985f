/* SPDX-License-Identifier: MIT */
/* blocks.c: reads a block file (blocks_file.h has its bytes). Opening checks header and index:
 * every part of every block lies inside the file, and no number of the index is beyond its limit.
 * Reading a block checks its sum, then its rows: as many entries as the index says, ids that rise,
 * below the number of features. So nothing that a file says can lead outside of it or of the
 * caller's room. */
#include "io/rows/blocks.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "io/rows/blocks_file.h"
#include <fcntl.h>

#define BLOCKS_STEP 1024 /* numbers that are unpacked and looked at together, a multiple of 8 */

struct gy_blocks {
    struct gy_alloc alloc;
    char name[1024];
    struct gy_file file;        /* or memory: then blocks are not copied into the room */
    uint64_t count;             /* bytes of the file as the header says */
    void *own;
    size_t own_bytes;
    struct gy_blocks_head head;
    struct gy_blocks_info info;
    struct gy_blocks_entry *entry; /* [blocks] */
    float *label;                  /* [classes] */
    int64_t *label_rows;
};

/* ---- numbers ---- */

static uint32_t blocks_get32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static uint64_t blocks_get64(const unsigned char *at) { return blocks_get32(at) | (uint64_t)blocks_get32(at + 4) << 32; }
static void blocks_put32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}
static void blocks_put64(unsigned char *at, uint64_t value)
{
    blocks_put32(at, (uint32_t)value);
    blocks_put32(at + 4, (uint32_t)(value >> 32));
}
static float blocks_get_real(const unsigned char *at)
{
    const uint32_t bits = blocks_get32(at);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static struct gy_blocks_head blocks_get_head(const unsigned char *b)
{
    struct gy_blocks_head h;
    h.version = blocks_get32(b + 8);
    h.flags = blocks_get32(b + 12);
    h.rows = blocks_get64(b + 16);
    h.entries = blocks_get64(b + 24);
    h.blocks = blocks_get64(b + 32);
    h.index_at = blocks_get64(b + 40);
    h.index_bytes = blocks_get64(b + 48);
    h.file_bytes = blocks_get64(b + 56);
    h.index_crc = blocks_get32(b + 64);
    h.features = blocks_get32(b + 68);
    h.hash_bits = blocks_get32(b + 72);
    h.told = blocks_get32(b + 76);
    h.hash_seed = blocks_get64(b + 80);
    h.classes = blocks_get32(b + 88);
    return h;
}

GY_INT void gy_blocks_put_head(unsigned char at[BLOCKS_HEAD], const struct gy_blocks_head *head)
{
    memset(at, 0, BLOCKS_HEAD);
    memcpy(at, BLOCKS_MAGIC, 8);
    blocks_put32(at + 8, head->version);
    blocks_put32(at + 12, head->flags);
    blocks_put64(at + 16, head->rows);
    blocks_put64(at + 24, head->entries);
    blocks_put64(at + 32, head->blocks);
    blocks_put64(at + 40, head->index_at);
    blocks_put64(at + 48, head->index_bytes);
    blocks_put64(at + 56, head->file_bytes);
    blocks_put32(at + 64, head->index_crc);
    blocks_put32(at + 68, head->features);
    blocks_put32(at + 72, head->hash_bits);
    blocks_put32(at + 76, head->told);
    blocks_put64(at + 80, head->hash_seed);
    blocks_put32(at + 88, head->classes);
    blocks_put32(at + BLOCKS_HEAD_USED - 4, gy_crc32c(0, at, BLOCKS_HEAD_USED - 4));
}

GY_INT void gy_blocks_get_entry(const unsigned char at[BLOCKS_ENTRY], struct gy_blocks_entry *e)
{
    e->at = blocks_get64(at);
    e->bytes = blocks_get64(at + 8);
    e->rows = blocks_get32(at + 16);
    e->entries = blocks_get32(at + 20);
    e->width = blocks_get32(at + 24);
    e->id_bits = at[28];
    e->length_bits = at[29];
    e->label_kind = at[30];
    e->flags = at[31];
    e->same = blocks_get_real(at + 32);
    e->label[0] = blocks_get_real(at + 36);
    e->label[1] = blocks_get_real(at + 40);
    e->features = blocks_get32(at + 44);
    e->crc = blocks_get32(at + 48);
    e->value_bits = at[52];
}

GY_INT void gy_blocks_put_entry(unsigned char at[BLOCKS_ENTRY], const struct gy_blocks_entry *e)
{
    memset(at, 0, BLOCKS_ENTRY);
    blocks_put64(at, e->at);
    blocks_put64(at + 8, e->bytes);
    blocks_put32(at + 16, e->rows);
    blocks_put32(at + 20, e->entries);
    blocks_put32(at + 24, e->width);
    at[28] = e->id_bits;
    at[29] = e->length_bits;
    at[30] = e->label_kind;
    at[31] = e->flags;
    blocks_put32(at + 32, gy_blocks_bits_of_float(e->same));
    blocks_put32(at + 36, gy_blocks_bits_of_float(e->label[0]));
    blocks_put32(at + 40, gy_blocks_bits_of_float(e->label[1]));
    blocks_put32(at + 44, e->features);
    blocks_put32(at + 48, e->crc);
    at[52] = e->value_bits;
}

GY_INT void gy_blocks_put_label(unsigned char at[BLOCKS_LABEL], float label, int64_t rows)
{
    blocks_put32(at, gy_blocks_bits_of_float(label));
    blocks_put32(at + 4, 0);
    blocks_put64(at + 8, (uint64_t)rows);
}

/* No sum can overflow: rows are at most 2^20, entries at most 2^30, bits at most 32. */
GY_INT struct gy_blocks_parts gy_blocks_place(const struct gy_blocks_entry *e)
{
    const uint64_t rows = e->rows, entries = e->entries, part = BLOCKS_PART;
    const uint64_t lengths = e->length_bits ? (rows * e->length_bits + 7) / 8 + BLOCKS_SLACK : 0, ids = (entries * e->id_bits + 7) / 8 + BLOCKS_SLACK;
    const uint64_t labels = e->label_kind == GY_BLOCKS_LABEL_BITS ? (rows + 7) / 8 : e->label_kind == GY_BLOCKS_LABEL_REAL ? 4 * rows : 0;
    const uint64_t values = e->value_bits ? (entries * e->value_bits + 7) / 8 + BLOCKS_SLACK : e->flags & GY_BLOCKS_VALUES ? 4 * entries : 0;
    struct gy_blocks_parts p = { 0, 0, 0, 0, 0, 0 };
    p.ids = (lengths + part - 1) / part * part;
    p.values = p.ids + (ids + part - 1) / part * part;
    p.labels = p.values + (values + part - 1) / part * part;
    p.weights = p.labels + (labels + part - 1) / part * part;
    p.bytes = p.weights + (e->flags & GY_BLOCKS_WEIGHTS ? 4 * rows : 0);
    p.bytes = (p.bytes + BLOCKS_ALIGN - 1) / BLOCKS_ALIGN * BLOCKS_ALIGN;
    return p;
}

/* ---- checks of header and index ---- */

static int blocks_check_head(struct gy_blocks *b, const unsigned char *bytes, struct gy_error *err)
{
    const struct gy_blocks_head h = blocks_get_head(bytes);
    if (gy_crc32c_differs(bytes, BLOCKS_HEAD_USED - 4, blocks_get32(bytes + BLOCKS_HEAD_USED - 4)))
        return GY_FAIL(err, GY_E_HASH, "%.300s: the checksum of its header differs", b->name);
    for (int i = BLOCKS_HEAD_USED; i < BLOCKS_HEAD; i++)
        if (bytes[i] != 0)
            return GY_FAIL(err, GY_E_FORMAT, "%.300s: byte %d of its header is %d, not 0", b->name, i, bytes[i]);
    if (h.version != 1 || h.flags != 0)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%.300s: version %" PRIu32 " with flags %" PRIu32 "; this build reads version 1", b->name, h.version, h.flags);
    if (h.file_bytes > b->file.size)
        return GY_FAIL(err, GY_E_TRUNCATED, "%.300s: %" PRIu64 " bytes, its header says %" PRIu64, b->name, b->file.size, h.file_bytes);
    if (h.blocks > BLOCKS_COUNT || h.classes > GY_BLOCKS_CLASSES || h.hash_bits > 32 || h.told > 1)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: its header says %" PRIu64 " blocks, %" PRIu32 " labels, ids hashed to %" PRIu32 " bits", b->name, h.blocks,
                       h.classes, h.hash_bits);
    if (h.index_at < BLOCKS_HEAD || h.index_at % BLOCKS_ALIGN != 0 || h.index_at > h.file_bytes || h.index_bytes != h.file_bytes - h.index_at ||
        h.index_bytes != h.blocks * BLOCKS_ENTRY + h.classes * BLOCKS_LABEL)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: its index at byte %" PRIu64 " of %" PRIu64 " does not end the file", b->name, h.index_at, h.file_bytes);
    b->head = h;
    b->count = h.file_bytes;
    return GY_OK;
}

static int blocks_check_entry(const struct gy_blocks *b, const struct gy_blocks_entry *e, int64_t i, uint64_t end, struct gy_error *err)
{
    if (e->rows < 1 || e->rows > BLOCKS_ROWS || e->entries > BLOCKS_ENTRIES)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: block %" PRId64 " has %" PRIu32 " rows with %" PRIu32 " entries; at most %u with %u are read", b->name, i,
                       e->rows, e->entries, BLOCKS_ROWS, BLOCKS_ENTRIES);
    if (e->id_bits < 1 || e->id_bits > 32 || e->length_bits > 32 || e->label_kind > GY_BLOCKS_LABEL_REAL ||
        (e->flags & ~(GY_BLOCKS_VALUES | GY_BLOCKS_WEIGHTS | GY_BLOCKS_WHOLE)) != 0)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: block %" PRId64 " has ids of %d bits, lengths of %d, labels of kind %d, flags %d", b->name, i, e->id_bits,
                       e->length_bits, e->label_kind, e->flags);
    const int whole = (e->flags & GY_BLOCKS_WHOLE) != 0;
    if (whole != (e->value_bits != 0) || (whole && (!(e->flags & GY_BLOCKS_VALUES) || e->value_bits > BLOCKS_WHOLE_BITS ||
                                                    !(fabsf(e->same) <= BLOCKS_WHOLE_MOST) || e->same != (float)(int32_t)e->same)))
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: block %" PRId64 " has values of %d bits above %g, flags %d", b->name, i, e->value_bits, (double)e->same,
                       e->flags);
    if ((e->length_bits == 0) != (e->width != 0) || (e->width != 0 && (uint64_t)e->width * e->rows != e->entries))
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: block %" PRId64 " has %" PRIu32 " rows of %" PRIu32 " entries, but %" PRIu32 " in all", b->name, i, e->rows,
                       e->width, e->entries);
    if (e->features > b->head.features)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: block %" PRId64 " has %" PRIu32 " features, the file %" PRIu32, b->name, i, e->features, b->head.features);
    if (e->at % BLOCKS_ALIGN != 0 || e->at < end || e->at > b->head.index_at || e->bytes > b->head.index_at - e->at || e->bytes != gy_blocks_place(e).bytes)
        return GY_FAIL(err, GY_E_FORMAT,
                       "%.300s: block %" PRId64 " has %" PRIu64 " bytes at byte %" PRIu64 ", but %" PRIu64 " are its rows', and the index is at %" PRIu64,
                       b->name, i, e->bytes, e->at, gy_blocks_place(e).bytes, b->head.index_at);
    return GY_OK;
}

/* What holds for all blocks so far, and for this one too. */
static void blocks_add_info(struct gy_blocks_info *info, const struct gy_blocks_entry *e, int first)
{
    const int values = (e->flags & GY_BLOCKS_VALUES) != 0 || (!first && info->same != e->same);
    info->rows += e->rows;
    info->entries += e->entries;
    info->width = first || info->width == (int32_t)e->width ? (int32_t)e->width : 0;
    info->id_bits = info->id_bits > e->id_bits ? info->id_bits : e->id_bits;
    info->same = first ? e->same : info->same;
    info->has_values |= values;
    info->has_weights |= (e->flags & GY_BLOCKS_WEIGHTS) != 0;
    info->most_rows = info->most_rows > (int32_t)e->rows ? info->most_rows : (int32_t)e->rows;
    info->most_entries = gy_max64(info->most_entries, e->entries);
    info->id = (info->id ^ e->crc ^ (uint64_t)e->rows << 32) * 0x100000001b3u;
}

static int blocks_check_labels(struct gy_blocks *b, const unsigned char *at, struct gy_error *err)
{
    int64_t rows = 0;
    for (uint32_t i = 0; i < b->head.classes; i++, at += BLOCKS_LABEL) {
        b->label[i] = blocks_get_real(at);
        const uint64_t have = blocks_get64(at + 8);
        if (!isfinite(b->label[i]) || (i > 0 && b->label[i] <= b->label[i - 1]) || have > (uint64_t)(b->info.rows - rows))
            return GY_FAIL(err, GY_E_FORMAT, "%.300s: label %" PRIu32 " of its index is %g with %" PRIu64 " rows of %" PRId64 "; labels rise", b->name, i,
                           (double)b->label[i], have, b->info.rows);
        b->label_rows[i] = (int64_t)have;
        rows += (int64_t)have;
    }
    if (b->head.classes > 0 && rows != b->info.rows)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: its labels are those of %" PRId64 " rows, it has %" PRId64, b->name, rows, b->info.rows);
    return GY_OK;
}

static int blocks_check_index(struct gy_blocks *b, const unsigned char *index, struct gy_error *err)
{
    uint64_t end = BLOCKS_HEAD;
    if (gy_crc32c_differs(index, b->head.index_bytes, b->head.index_crc))
        return GY_FAIL(err, GY_E_HASH, "%.300s: the checksum of its index differs", b->name);
    b->info.id = 0xcbf29ce484222325u;
    for (uint64_t i = 0; i < b->head.blocks; i++) {
        struct gy_blocks_entry *e = &b->entry[i];
        gy_blocks_get_entry(index + i * BLOCKS_ENTRY, e);
        GY_TRY(blocks_check_entry(b, e, (int64_t)i, end, err));
        e->first = b->info.rows;
        end = e->at + e->bytes;
        blocks_add_info(&b->info, e, i == 0);
    }
    if ((uint64_t)b->info.rows != b->head.rows || (uint64_t)b->info.entries != b->head.entries)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: its blocks have %" PRId64 " rows with %" PRId64 " entries, its header says %" PRIu64 " with %" PRIu64,
                       b->name,
                       b->info.rows, b->info.entries, b->head.rows, b->head.entries);
    GY_TRY(blocks_check_labels(b, index + b->head.blocks * BLOCKS_ENTRY, err));
    b->info.blocks = (int64_t)b->head.blocks;
    b->info.features = b->head.features;
    b->info.classes = (int32_t)b->head.classes;
    b->info.label = b->label;
    b->info.label_rows = b->label_rows;
    b->info.hash_bits = (int)b->head.hash_bits;
    b->info.hash_seed = b->head.hash_seed;
    return GY_OK;
}

/* ---- open and close ---- */

/* Gets the bytes [at, at + count) of the file, which were there when it was opened: in memory, or
 * read into buf. */
static int blocks_fetch(const struct gy_blocks *b, uint64_t at, size_t count, void *buf, const unsigned char **out, struct gy_error *err)
{
    *out = b->file.bytes ? b->file.bytes + at : buf;
    return b->file.bytes ? GY_OK : gy_file_read_at(&b->file, at, buf, count, err);
}

static int blocks_open_index(struct gy_blocks *b, struct gy_error *err)
{
    const size_t blocks = (size_t)b->head.blocks, classes = b->head.classes, bytes = (size_t)b->head.index_bytes;
    b->entry = gy_alloc_take(&b->alloc, blocks, sizeof *b->entry);
    b->label = gy_alloc_take(&b->alloc, classes, sizeof *b->label);
    b->label_rows = gy_alloc_take(&b->alloc, classes, sizeof *b->label_rows);
    void *buf = !b->file.bytes ? gy_alloc_take(&b->alloc, bytes, 1) : NULL;
    const unsigned char *index;
    int status = !b->entry || !b->label || !b->label_rows || (!b->file.bytes && !buf)
                     ? GY_NOMEM(err, "the index of a block file", bytes) : blocks_fetch(b, b->head.index_at, bytes, buf, &index, err);
    if (status == GY_OK)
        status = blocks_check_index(b, index, err);
    gy_alloc_free(&b->alloc, buf, bytes);
    return status;
}

static int blocks_open_bytes(struct gy_blocks *b, struct gy_error *err)
{
    unsigned char buf[BLOCKS_HEAD];
    GY_TRY(gy_file_read_at(&b->file, 0, buf, b->file.size < BLOCKS_HEAD ? (size_t)b->file.size : BLOCKS_HEAD, err));
    if (b->file.size < 8 || memcmp(buf, BLOCKS_MAGIC, 8) != 0)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: not a block file", b->name);
    if (b->file.size < BLOCKS_HEAD)
        return GY_FAIL(err, GY_E_TRUNCATED, "%.300s: %" PRIu64 " bytes are too few for a block file", b->name, b->file.size);
    GY_TRY(blocks_check_head(b, buf, err));
    return blocks_open_index(b, err);
}

static int blocks_new(struct gy_blocks **out, const char *name, const struct gy_alloc *alloc, struct gy_error *err)
{
    const uint16_t mark = 1;
    unsigned char low;
    memcpy(&low, &mark, 1);
    if (low != 1)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%.300s: block files are little-endian, this machine is not", name);
    struct gy_blocks *b = gy_alloc_take(alloc, 1, sizeof *b);
    if (!b)
        return GY_NOMEM(err, "a block file", sizeof *b);
    b->alloc = *alloc;
    (void)gy_text_copy(b->name, sizeof b->name, name);
    *out = b;
    return GY_OK;
}

static int blocks_finish_open(struct gy_blocks **out, struct gy_blocks *b, int status)
{
    if (status == GY_OK)
        *out = b;
    else
        gy_blocks_close(b);
    return status;
}

GY_INT int gy_blocks_open(struct gy_blocks **out, const char *path, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_blocks *b = NULL;
    GY_TRY(blocks_new(&b, path, alloc, err));
    int status = gy_file_open(&b->file, path, err);
    if (status == GY_OK)
        status = blocks_open_bytes(b, err);
    return blocks_finish_open(out, b, status);
}

GY_INT int gy_blocks_open_memory(struct gy_blocks **out, const unsigned char *bytes, size_t count, const char *name, const struct gy_alloc *alloc,
                                 void *own, size_t own_bytes, struct gy_error *err)
{
    struct gy_blocks *b = NULL;
    const int status = blocks_new(&b, name, alloc, err);
    if (status != GY_OK) {
        gy_alloc_free(alloc, own, own_bytes);
        return status;
    }
    b->file = gy_file_of(bytes, count, name);
    b->own = own;
    b->own_bytes = own_bytes;
    return blocks_finish_open(out, b, blocks_open_bytes(b, err));
}

GY_INT void gy_blocks_close(struct gy_blocks *b)
{
    if (!b)
        return;
    const struct gy_alloc alloc = b->alloc;
    gy_alloc_free(&alloc, b->entry, (size_t)b->head.blocks * sizeof *b->entry);
    gy_alloc_free(&alloc, b->label, b->head.classes * sizeof *b->label);
    gy_alloc_free(&alloc, b->label_rows, b->head.classes * sizeof *b->label_rows);
    gy_alloc_free(&alloc, b->own, b->own_bytes);
    gy_file_close(&b->file);
    gy_alloc_free(&alloc, b, sizeof *b);
}

GY_INT void gy_blocks_get_info(const struct gy_blocks *b, struct gy_blocks_info *info) { *info = b->info; }

GY_INT void gy_blocks_get_head(const struct gy_blocks *b, struct gy_blocks_head *head, const struct gy_blocks_entry **entry)
{
    *head = b->head;
    *entry = b->entry;
}

GY_INT void gy_blocks_size(const struct gy_blocks *b, int64_t block, int32_t *rows, int64_t *entries)
{
    if (rows)
        *rows = (int32_t)b->entry[block].rows;
    if (entries)
        *entries = b->entry[block].entries;
}

/* ---- reading a block ---- */

static size_t blocks_align(uint64_t bytes) { return gy_align_up((size_t)bytes, GY_CACHE_LINE); }

/* Bytes of the room for a block's arrays: raw (of a file), start, id, unpacked values, label. */
static size_t blocks_room(const struct gy_blocks *b, const struct gy_blocks_entry *e)
{
    return GY_CACHE_LINE + (!b->file.bytes ? blocks_align(e->bytes) : 0) + (e->width == 0 ? blocks_align(4 * ((uint64_t)e->rows + 1)) : 0) +
           blocks_align(4 * (uint64_t)e->entries) * (e->value_bits ? 2 : 1) + blocks_align(4 * (uint64_t)e->rows);
}

GY_INT size_t gy_blocks_room_bytes(const struct gy_blocks *b, int64_t block)
{
    size_t most = GY_CACHE_LINE;
    if (block >= 0)
        return blocks_room(b, &b->entry[block]);
    for (int64_t i = 0; i < b->info.blocks; i++)
        most = blocks_room(b, &b->entry[i]) > most ? blocks_room(b, &b->entry[i]) : most;
    return most;
}

struct blocks_read {
    const struct gy_blocks *b;
    const struct gy_blocks_entry *e;
    int64_t block;
    const unsigned char *raw;
    unsigned char *at; /* free part of the room */
    struct gy_blocks_parts parts;
};

static void *blocks_take(struct blocks_read *r, uint64_t bytes)
{
    void *at = r->at;
    r->at += blocks_align(bytes);
    return at;
}

static int blocks_read_raw(struct blocks_read *r, struct gy_error *err)
{
    void *buf = !r->b->file.bytes ? blocks_take(r, r->e->bytes) : NULL;
    GY_TRY(blocks_fetch(r->b, r->e->at, (size_t)r->e->bytes, buf, &r->raw, err));
    if (gy_crc32c_differs(r->raw, (size_t)r->e->bytes, r->e->crc))
        return GY_FAIL(err, GY_E_HASH, "%.300s: the checksum of block %" PRId64 " differs (%" PRIu64 " bytes at byte %" PRIu64 ")", r->b->name, r->block,
                       r->e->bytes, r->e->at);
    return GY_OK;
}

/* Lengths become offsets in place. */
static int blocks_read_start(struct blocks_read *r, struct gy_rows *rows, struct gy_error *err)
{
    if (r->e->width != 0)
        return GY_OK;
    uint32_t *start = blocks_take(r, 4 * ((uint64_t)r->e->rows + 1));
    uint64_t sum = 0;
    gy_bits_unpack(r->raw + r->parts.lengths, r->e->length_bits, start + 1, r->e->rows);
    start[0] = 0;
    for (uint32_t i = 1; i <= r->e->rows; i++) {
        sum += start[i];
        if (sum > r->e->entries)
            return GY_FAIL(err, GY_E_FORMAT, "%.300s: block %" PRId64 ": the entries of row %" PRIu32 " end at %" PRIu64 " of %" PRIu32, r->b->name,
                           r->block, i - 1, sum, r->e->entries);
        start[i] = (uint32_t)sum;
    }
    if (sum != r->e->entries)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: block %" PRId64 ": its rows have %" PRIu64 " entries, the index says %" PRIu32, r->b->name, r->block,
                       sum, r->e->entries);
    rows->start = start;
    return GY_OK;
}

static int blocks_ids_fail(const struct blocks_read *r, const struct gy_rows *rows, struct gy_error *err)
{
    for (int32_t i = 0; i < rows->count; i++)
        for (uint32_t k = gy_rows_begin(rows, i); k < gy_rows_end(rows, i); k++) {
            if (rows->id[k] >= r->e->features)
                return GY_FAIL(err, GY_E_FORMAT, "%.300s: block %" PRId64 ", row %" PRId32 ": id %" PRIu32 " is not below %" PRIu32, r->b->name, r->block,
                               i, rows->id[k], r->e->features);
            if (k > gy_rows_begin(rows, i) && rows->id[k] <= rows->id[k - 1])
                return GY_FAIL(err, GY_E_FORMAT, "%.300s: block %" PRId64 ", row %" PRId32 ": id %" PRIu32 " behind %" PRIu32, r->b->name, r->block, i,
                               rows->id[k], rows->id[k - 1]);
        }
    return GY_OK;
}

/* Reads the ids, which must rise within a row. Ids fall or repeat only where rows begin, so their
 * number in the block must equal the number at rows' begins. */
static int blocks_read_ids(struct blocks_read *r, struct gy_rows *rows, struct gy_error *err)
{
    const uint32_t n = r->e->entries;
    uint32_t *id = blocks_take(r, 4 * (uint64_t)n);
    struct gy_bits_look look = { 0, 0 };
    size_t allowed = 0;
    int32_t row = 0;
    rows->id = id;
    for (uint32_t k = 0; k < n; k += BLOCKS_STEP) {
        const uint32_t some = n - k < BLOCKS_STEP ? n - k : BLOCKS_STEP;
        gy_bits_unpack(r->raw + r->parts.ids + (uint64_t)k / 8 * r->e->id_bits, r->e->id_bits, id + k, some);
        gy_bits_see(&look, id + k, some, k > 0);
        for (; row < rows->count && gy_rows_begin(rows, row) < k + some; row++) {
            const uint32_t begin = gy_rows_begin(rows, row);
            allowed += begin > 0 && begin < gy_rows_end(rows, row) && id[begin] <= id[begin - 1];
        }
    }
    if (n > 0 && (look.falls != allowed || look.most >= r->e->features))
        return blocks_ids_fail(r, rows, err);
    return GY_OK;
}

static void blocks_read_values(struct blocks_read *r, struct gy_rows *rows)
{
    const unsigned char *const from = r->raw + r->parts.values;
    const uint32_t n = r->e->entries;
    uint32_t above[BLOCKS_STEP];
    if (r->e->flags & GY_BLOCKS_VALUES)
        rows->value = (const float *)(const void *)from;
    if (r->e->value_bits == 0)
        return;
    const int32_t least = (int32_t)r->e->same; /* which is a whole number then */
    float *const value = blocks_take(r, 4 * (uint64_t)n);
    rows->value = value;
    for (uint32_t k = 0; k < n; k += BLOCKS_STEP) {
        const uint32_t some = n - k < BLOCKS_STEP ? n - k : BLOCKS_STEP;
        gy_bits_unpack(from + (uint64_t)k / 8 * r->e->value_bits, r->e->value_bits, above, some);
        for (uint32_t i = 0; i < some; i++)
            value[k + i] = (float)((int32_t)above[i] + least);
    }
}

static void blocks_read_labels(struct blocks_read *r, struct gy_rows *rows)
{
    const unsigned char *from = r->raw + r->parts.labels;
    if (r->e->label_kind == GY_BLOCKS_LABEL_REAL) {
        rows->label = (const float *)(const void *)from;
        return;
    }
    float *label = blocks_take(r, 4 * (uint64_t)r->e->rows);
    const int bits = r->e->label_kind == GY_BLOCKS_LABEL_BITS;
    for (uint32_t i = 0; i < r->e->rows; i++)
        label[i] = r->e->label[bits ? from[i >> 3] >> (i & 7) & 1 : 0];
    rows->label = label;
}

GY_INT int gy_blocks_read(const struct gy_blocks *b, int64_t block, const struct gy_blocks_room *room, struct gy_rows *rows, struct gy_error *err)
{
    if (block < 0 || block >= b->info.blocks)
        return GY_FAIL(err, GY_E_ARG, "%.300s: block %" PRId64 " of %" PRId64, b->name, block, b->info.blocks);
    const struct gy_blocks_entry *e = &b->entry[block];
    if (room->bytes < blocks_room(b, e))
        return GY_FAIL(err, GY_E_ARG, "%.300s: block %" PRId64 " needs %zu bytes, the room has %zu", b->name, block, blocks_room(b, e), room->bytes);
    const size_t skip = (size_t)(-(uintptr_t)room->memory & (GY_CACHE_LINE - 1));
    struct blocks_read r = { b, e, block, NULL, (unsigned char *)room->memory + skip, gy_blocks_place(e) };
    struct gy_rows got = { 0, (int32_t)e->rows, (int32_t)e->width, NULL, NULL, NULL, e->same, NULL, NULL, NULL };
    GY_TRY(blocks_read_raw(&r, err));
    GY_TRY(blocks_read_start(&r, &got, err));
    GY_TRY(blocks_read_ids(&r, &got, err));
    blocks_read_values(&r, &got);
    blocks_read_labels(&r, &got);
    if (e->flags & GY_BLOCKS_WEIGHTS)
        got.weight = (const float *)(const void *)(r.raw + r.parts.weights);
    got.first = e->first;
    *rows = got;
    return GY_OK;
}

GY_INT void gy_blocks_ahead(const struct gy_blocks *b, int64_t soon)
{
    if (soon >= 0 && soon < b->info.blocks && b->file.open)
        (void)posix_fadvise(b->file.fd, (off_t)b->entry[soon].at, (off_t)b->entry[soon].bytes, POSIX_FADV_WILLNEED);
}
