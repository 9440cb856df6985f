/* SPDX-License-Identifier: MIT */
/* Writing a block file (blocks_file.h has its bytes). A new file is written beside its place and gets its name when it is whole. An append writes
 * behind the end of the file, syncs, and then replaces the header, 4096 bytes in one call: before that the old file stands, after it the new one. */
#include "blocks_write.h"
#include "../engine/base/file.h"
#include "../engine/base/hash.h"
#include "../engine/base/text.h"
#include "blocks_file.h"
#include <fcntl.h>
#include <unistd.h>

#define BLOCKS_MEMORY ((size_t)1 << 16) /* bytes that blocks in memory begin with */

struct gy_blocks_packed {
    unsigned char *bytes;
    size_t room;
    struct gy_blocks_entry entry;
    struct gy_blocks_counts counts;
};

struct gy_blocks_writer {
    struct gy_alloc alloc;
    char path[4096]; /* "": memory */
    int append;
    struct gy_outfile out;
    int fd;                /* of an append; -1: none */
    int decided;           /* an append: the new header may stand */
    unsigned char *memory;
    size_t room;
    uint64_t at;           /* where the next block goes */
    uint64_t old_bytes;    /* an append: of the file before */
    struct gy_blocks_head head;
    struct gy_blocks_entry *entry;
    size_t entries_room;
    struct gy_blocks_counts counts;
};

/* ---- packing ---- */

struct blocks_sum { /* what a block's rows are like */
    uint64_t rows, entries;
    uint32_t longest, shortest;
    struct gy_bits_look look;
    int values, weights;
    float same;
};

static int blocks_all_are(const float *value, uint32_t n, float same)
{
    const uint32_t want = gy_blocks_bits_of_float(same);
    uint32_t differ = 0;
    for (uint32_t k = 0; k < n && differ == 0;) {
        const uint32_t stop = n - k < 256 ? n : k + 256;
        for (; k < stop; k++)
            differ |= gy_blocks_bits_of_float(value[k]) ^ want;
    }
    return differ == 0;
}

/* Zero or more of n values are not finite: their exponent is all ones. */
static int blocks_some_not_finite(const float *value, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t size = gy_blocks_bits_of_float(value[k]) & 0x7fffffff;
        most = size > most ? size : most;
    }
    return most >= 0x7f800000;
}

static int blocks_row_fail(const struct gy_rows *rows, struct gy_error *err)
{
    for (int32_t i = 0; i < rows->count; i++)
        for (uint32_t k = gy_rows_begin(rows, i); k < gy_rows_end(rows, i); k++)
            if (k > gy_rows_begin(rows, i) && rows->id[k] <= rows->id[k - 1])
                return GY_FAIL(err, GY_E_ARG, "row %" PRId64 ": id %" PRIu32 " behind %" PRIu32 "; ids rise in a row", rows->first + i, rows->id[k],
                               rows->id[k - 1]);
    return GY_FAIL(err, GY_E_ARG, "one of %" PRId32 " rows from row %" PRId64 " has a value, weight or label that is not finite", rows->count, rows->first);
}

/* Looks at one view: lengths, ids, values. */
static int blocks_sum_view(struct blocks_sum *sum, const struct gy_rows *rows, struct gy_error *err)
{
    const uint32_t from = gy_rows_begin(rows, 0), n = gy_rows_end(rows, rows->count - 1) - from;
    size_t allowed = 0;
    for (int32_t i = 0; i < rows->count; i++) {
        const uint32_t begin = gy_rows_begin(rows, i), length = gy_rows_end(rows, i) - begin;
        sum->longest = length > sum->longest ? length : sum->longest;
        sum->shortest = length < sum->shortest ? length : sum->shortest;
        allowed += begin > from && length > 0 && rows->id[begin] <= rows->id[begin - 1];
    }
    const size_t falls = sum->look.falls;
    gy_bits_see(&sum->look, rows->id + from, n, 0);
    if (sum->look.falls - falls != allowed || blocks_some_not_finite(rows->label, (uint32_t)rows->count) ||
        (rows->value != NULL && blocks_some_not_finite(rows->value + from, n)) || (rows->weight != NULL && blocks_some_not_finite(rows->weight,
                                                                                                                                  (uint32_t)rows->count)))
        return blocks_row_fail(rows, err);
    if (n > 0) {
        const float first = rows->value != NULL ? rows->value[from] : rows->same;
        sum->same = sum->entries == 0 ? first : sum->same;
        sum->values |= gy_blocks_bits_of_float(first) != gy_blocks_bits_of_float(sum->same) || (rows->value != NULL && !blocks_all_are(rows->value + from,
                                                                                                                                       n, sum->same));
    }
    sum->weights |= rows->weight != NULL;
    sum->rows += (uint64_t)rows->count;
    sum->entries += n;
    return GY_OK;
}

/* A real number of every row or entry of the views, behind each other: from an array, or the same for all. */
static unsigned char *blocks_copy_reals(unsigned char *to, const float *from, float same, uint32_t n)
{
    if (from != NULL) {
        memcpy(to, from, (size_t)n * sizeof *from);
        return to + (size_t)n * sizeof *from;
    }
    for (uint32_t k = 0; k < n; k++, to += sizeof same)
        memcpy(to, &same, sizeof same);
    return to;
}

static void blocks_pack_lengths(struct gy_bits_writer *bits, const struct gy_rows *rows, int width)
{
    for (int32_t i = 0; i < rows->count; i++) {
        const uint32_t length = gy_rows_end(rows, i) - gy_rows_begin(rows, i);
        gy_bits_pack(bits, &length, 1, width);
    }
}

static void blocks_pack_label_bits(struct gy_bits_writer *bits, const struct gy_rows *rows, float low)
{
    for (int32_t i = 0; i < rows->count; i++) {
        const uint32_t bit = rows->label[i] + 0.0f != low;
        gy_bits_pack(bits, &bit, 1, 1);
    }
}

static void blocks_pack_parts(struct gy_blocks_packed *p, const struct gy_rows *rows, int count)
{
    const struct gy_blocks_parts parts = gy_blocks_place(&p->entry);
    struct gy_bits_writer lengths = { p->bytes + parts.lengths, 0, 0 }, ids = { p->bytes + parts.ids, 0, 0 }, labels = { p->bytes + parts.labels, 0, 0 };
    unsigned char *values = p->bytes + parts.values, *label = labels.to, *weights = p->bytes + parts.weights;
    for (int i = 0; i < count; i++, rows++) {
        if (rows->count == 0)
            continue;
        const uint32_t from = gy_rows_begin(rows, 0), n = gy_rows_end(rows, rows->count - 1) - from;
        if (p->entry.length_bits != 0)
            blocks_pack_lengths(&lengths, rows, p->entry.length_bits);
        gy_bits_pack(&ids, rows->id + from, n, p->entry.id_bits);
        if (p->entry.flags & GY_BLOCKS_VALUES)
            values = blocks_copy_reals(values, rows->value != NULL ? rows->value + from : NULL, rows->same, n);
        if (p->entry.label_kind == GY_BLOCKS_LABEL_BITS)
            blocks_pack_label_bits(&labels, rows, p->entry.label[0]);
        if (p->entry.label_kind == GY_BLOCKS_LABEL_REAL)
            label = blocks_copy_reals(label, rows->label, 0, (uint32_t)rows->count);
        if (p->entry.flags & GY_BLOCKS_WEIGHTS)
            weights = blocks_copy_reals(weights, rows->weight, 1, (uint32_t)rows->count);
    }
    gy_bits_flush(&lengths);
    gy_bits_flush(&ids);
    gy_bits_flush(&labels);
}

static int blocks_pack_room(struct gy_blocks_packed *p, size_t bytes, const struct gy_alloc *alloc, struct gy_error *err)
{
    if (p->room < bytes) {
        unsigned char *grown = gy_alloc_grow(alloc, p->bytes, p->room, bytes, 1);
        if (grown == NULL)
            return GY_NOMEM(err, "a packed block", bytes);
        p->bytes = grown;
        p->room = bytes;
    }
    memset(p->bytes, 0, bytes);
    return GY_OK;
}

static void blocks_describe(struct gy_blocks_packed *p, const struct blocks_sum *sum)
{
    const int same_length = sum->longest == sum->shortest && sum->longest > 0;
    struct gy_blocks_entry e = { 0, 0, (uint32_t)sum->rows, (uint32_t)sum->entries, same_length ? sum->longest : 0, 1, 0, GY_BLOCKS_LABEL_ONE, 0,
        sum->same, { 0, 0 }, 0, 0, 0 };
    e.id_bits = (uint8_t)gy_bits_of(sum->look.most);
    e.length_bits = same_length ? 0 : (uint8_t)gy_bits_of(sum->longest);
    e.label_kind = p->counts.too_many || p->counts.count > 2 ? GY_BLOCKS_LABEL_REAL : p->counts.count == 2 ? GY_BLOCKS_LABEL_BITS : GY_BLOCKS_LABEL_ONE;
    for (int i = 0; i < 2 && i < p->counts.count && e.label_kind != GY_BLOCKS_LABEL_REAL; i++)
        e.label[i] = p->counts.label[i];
    e.flags = (uint8_t)((sum->values ? GY_BLOCKS_VALUES : 0) | (sum->weights ? GY_BLOCKS_WEIGHTS : 0));
    e.features = sum->entries > 0 ? sum->look.most + 1 : 0;
    e.bytes = gy_blocks_place(&e).bytes;
    p->entry = e;
}

GY_INT int gy_blocks_pack(struct gy_blocks_packed **packed, const struct gy_rows *rows, int count, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct blocks_sum sum = { 0, 0, 0, UINT32_MAX, { 0, 0 }, 0, 0, 1 };
    if (*packed == NULL && (*packed = gy_alloc_take(alloc, 1, sizeof **packed)) == NULL)
        return GY_NOMEM(err, "a packed block", sizeof **packed);
    struct gy_blocks_packed *p = *packed;
    memset(&p->counts, 0, sizeof p->counts);
    for (int i = 0; i < count; i++) {
        if (rows[i].count > 0)
            GY_TRY(blocks_sum_view(&sum, &rows[i], err));
        for (int32_t k = 0; k < rows[i].count; k++)
            gy_blocks_count(&p->counts, rows[i].label[k], 1);
    }
    if (sum.rows < 1 || sum.rows > BLOCKS_ROWS || sum.entries > BLOCKS_ENTRIES || sum.look.most == UINT32_MAX)
        return GY_FAIL(err, GY_E_ARG, "a block of %" PRIu64 " rows with %" PRIu64 " entries, largest id %" PRIu32 "; at most %u with %u, %" PRIu32,
                       sum.rows, sum.entries,
                       sum.look.most, BLOCKS_ROWS, BLOCKS_ENTRIES, UINT32_MAX - 1);
    blocks_describe(p, &sum);
    GY_TRY(blocks_pack_room(p, (size_t)p->entry.bytes, alloc, err));
    blocks_pack_parts(p, rows, count);
    p->entry.crc = gy_crc32c(0, p->bytes, (size_t)p->entry.bytes);
    return GY_OK;
}

GY_INT int64_t gy_blocks_packed_bytes(const struct gy_blocks_packed *packed) { return (int64_t)packed->entry.bytes; }

GY_INT void gy_blocks_drop(struct gy_blocks_packed *packed, const struct gy_alloc *alloc)
{
    if (packed == NULL)
        return;
    gy_alloc_free(alloc, packed->bytes, packed->room);
    gy_alloc_free(alloc, packed, sizeof *packed);
}

/* ---- bytes to where they belong ---- */

static int blocks_write_at(const struct gy_blocks_writer *w, uint64_t at, const unsigned char *bytes, size_t count, struct gy_error *err)
{
    for (size_t done = 0; done < count;) {
        const ssize_t put = pwrite(w->fd, bytes + done, count - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return GY_FAIL(err, GY_E_IO, "%.300s: cannot be written: %s", w->path, strerror(errno));
        done += (size_t)put;
    }
    return GY_OK;
}

static int blocks_write_memory(struct gy_blocks_writer *w, const unsigned char *bytes, size_t count, struct gy_error *err)
{
    size_t need, room = w->room ? w->room : BLOCKS_MEMORY;
    if (gy_add_size((size_t)w->at, count, &need) != 0 || need > SIZE_MAX / 4)
        return GY_NOMEM(err, "blocks in memory", count);
    while (room < need)
        room += room / 2;
    if (room != w->room) {
        unsigned char *grown = gy_alloc_grow(&w->alloc, w->memory, w->room, room, 1);
        if (grown == NULL)
            return GY_NOMEM(err, "blocks in memory", room);
        w->memory = grown;
        w->room = room;
    }
    memcpy(w->memory + w->at, bytes, count);
    return GY_OK;
}

/* Behind what was written before. */
static int blocks_write_next(struct gy_blocks_writer *w, const unsigned char *bytes, size_t count, struct gy_error *err)
{
    GY_TRY(w->path[0] == 0 ? blocks_write_memory(w, bytes, count, err)
                           : w->append ? blocks_write_at(w, w->at, bytes, count, err) : gy_outfile_write(&w->out, bytes, count, err));
    w->at += count;
    return GY_OK;
}

/* ---- create ---- */

static int blocks_agree(const struct gy_blocks_writer *w, const struct gy_blocks_write *c, struct gy_error *err)
{
    const struct gy_blocks_head *h = &w->head;
    if (h->hash_bits != (uint32_t)c->hash_bits || (h->hash_bits != 0 && h->hash_seed != c->hash_seed))
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s: its ids are hashed to %" PRIu32 " bits with seed %" PRIu64 ", those to append to %d with %" PRIu64,
                       w->path, h->hash_bits,
                       h->hash_seed, c->hash_bits, c->hash_seed);
    if (c->features != 0 && c->features != h->features)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s: it has %" PRIu32 " features, those to append have %" PRIu32, w->path, h->features, c->features);
    return GY_OK;
}

static int blocks_grow_entries(struct gy_blocks_writer *w, size_t need, struct gy_error *err)
{
    if (need <= w->entries_room)
        return GY_OK;
    const size_t room = need < 32 ? 64 : 2 * need;
    struct gy_blocks_entry *grown = gy_alloc_grow(&w->alloc, w->entry, w->entries_room, room, sizeof *grown);
    if (grown == NULL)
        return GY_NOMEM(err, "the index of a block file", room * sizeof *grown);
    w->entry = grown;
    w->entries_room = room;
    return GY_OK;
}

/* Takes over what the file has. Too many labels before are too many now. */
static int blocks_take_old(struct gy_blocks_writer *w, const struct gy_blocks *old, struct gy_error *err)
{
    const struct gy_blocks_entry *entry;
    struct gy_blocks_info info;
    gy_blocks_get_head(old, &w->head, &entry);
    gy_blocks_get_info(old, &info);
    GY_TRY(blocks_grow_entries(w, (size_t)w->head.blocks, err));
    if (w->head.blocks > 0)
        memcpy(w->entry, entry, (size_t)w->head.blocks * sizeof *entry);
    w->counts.too_many = info.classes == 0 && info.rows > 0;
    for (int32_t i = 0; i < info.classes; i++)
        gy_blocks_count(&w->counts, info.label[i], info.label_rows[i]);
    w->old_bytes = w->head.file_bytes;
    w->at = (w->old_bytes + BLOCKS_ALIGN - 1) / BLOCKS_ALIGN * BLOCKS_ALIGN;
    return GY_OK;
}

static int blocks_create_append(struct gy_blocks_writer *w, const struct gy_blocks_write *c, struct gy_error *err)
{
    struct gy_blocks *old = NULL;
    GY_TRY(gy_blocks_open(&old, w->path, c->alloc, err));
    const int status = blocks_take_old(w, old, err);
    gy_blocks_close(old);
    GY_TRY(status);
    GY_TRY(blocks_agree(w, c, err));
    w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
    if (w->fd < 0)
        return GY_FAIL(err, GY_E_IO, "%.300s: cannot be appended to: %s", w->path, strerror(errno));
    return GY_OK;
}

static int blocks_create_new(struct gy_blocks_writer *w, const struct gy_blocks_write *c, struct gy_error *err)
{
    const unsigned char blank[BLOCKS_HEAD] = { 0 };
    w->head.version = 1;
    w->head.features = c->features;
    w->head.told = c->features != 0;
    w->head.hash_bits = (uint32_t)c->hash_bits;
    w->head.hash_seed = c->hash_seed;
    if (w->path[0] != 0)
        GY_TRY(gy_outfile_open(&w->out, w->path, err));
    return blocks_write_next(w, blank, sizeof blank, err);
}

GY_INT int gy_blocks_create(struct gy_blocks_writer **out, const struct gy_blocks_write *config, struct gy_error *err)
{
    if (config->hash_bits < 0 || config->hash_bits > 32 || (config->append && config->path == NULL))
        return GY_FAIL(err, GY_E_ARG, "blocks: %d bits of hashed ids; at most 32, and only a file can be appended to", config->hash_bits);
    struct gy_blocks_writer *w = gy_alloc_take(config->alloc, 1, sizeof *w);
    if (w == NULL)
        return GY_NOMEM(err, "writing blocks", sizeof *w);
    w->alloc = *config->alloc;
    w->append = config->append;
    w->fd = -1;
    int status = gy_text_copy(w->path, sizeof w->path, config->path != NULL ? config->path : "");
    if (status != 0 || (config->path != NULL && w->path[0] == 0))
        status = GY_FAIL(err, GY_E_ARG, "the path of a block file is empty or longer than %zu bytes", sizeof w->path - 1);
    if (status == GY_OK)
        status = w->append ? blocks_create_append(w, config, err) : blocks_create_new(w, config, err);
    if (status != GY_OK) {
        gy_blocks_abandon(w);
        return status;
    }
    *out = w;
    return GY_OK;
}

/* ---- put and finish ---- */

GY_INT int gy_blocks_put(struct gy_blocks_writer *w, const struct gy_blocks_packed *packed, struct gy_error *err)
{
    struct gy_blocks_head *h = &w->head;
    const struct gy_blocks_entry *e = &packed->entry;
    if (h->told && e->features > h->features)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s: %" PRIu32 " features, but rows %" PRIu64 " to %" PRIu64 " have id %" PRIu32,
                       w->path[0] ? w->path : "blocks in memory", h->features,
                       h->rows, h->rows + e->rows - 1, e->features - 1);
    if (h->blocks >= BLOCKS_COUNT)
        return GY_FAIL(err, GY_E_ARG, "%.300s: more than %" PRIu64 " blocks", w->path, BLOCKS_COUNT);
    GY_TRY(blocks_grow_entries(w, (size_t)h->blocks + 1, err));
    struct gy_blocks_entry *mine = &w->entry[h->blocks];
    *mine = *e;
    mine->at = w->at;
    GY_TRY(blocks_write_next(w, packed->bytes, (size_t)e->bytes, err));
    h->blocks++;
    h->rows += e->rows;
    h->entries += e->entries;
    h->features = e->features > h->features ? e->features : h->features;
    w->counts.too_many |= packed->counts.too_many;
    for (int32_t i = 0; i < packed->counts.count; i++)
        gy_blocks_count(&w->counts, packed->counts.label[i], packed->counts.rows[i]);
    return GY_OK;
}

static int blocks_write_index(struct gy_blocks_writer *w, struct gy_error *err)
{
    struct gy_blocks_head *h = &w->head;
    gy_blocks_sort(&w->counts);
    h->classes = w->counts.too_many ? 0 : (uint32_t)w->counts.count;
    h->index_at = w->at;
    h->index_bytes = h->blocks * BLOCKS_ENTRY + h->classes * BLOCKS_LABEL;
    h->file_bytes = h->index_at + h->index_bytes;
    h->index_crc = 0;
    for (uint64_t i = 0; i < h->blocks; i++) {
        unsigned char bytes[BLOCKS_ENTRY];
        gy_blocks_put_entry(bytes, &w->entry[i]);
        h->index_crc = gy_crc32c(h->index_crc, bytes, sizeof bytes);
        GY_TRY(blocks_write_next(w, bytes, sizeof bytes, err));
    }
    for (uint32_t i = 0; i < h->classes; i++) {
        unsigned char bytes[BLOCKS_LABEL];
        gy_blocks_put_label(bytes, w->counts.label[i], w->counts.rows[i]);
        h->index_crc = gy_crc32c(h->index_crc, bytes, sizeof bytes);
        GY_TRY(blocks_write_next(w, bytes, sizeof bytes, err));
    }
    return GY_OK;
}

static int blocks_finish_append(struct gy_blocks_writer *w, const unsigned char *head, struct gy_error *err)
{
    if (ftruncate(w->fd, (off_t)w->head.file_bytes) != 0 || fsync(w->fd) != 0) /* an append that was killed may have left more */
        return GY_FAIL(err, GY_E_IO, "%.300s: cannot be written: %s", w->path, strerror(errno));
    w->decided = 1;
    GY_TRY(blocks_write_at(w, 0, head, BLOCKS_HEAD, err));
    return fsync(w->fd) != 0 ? GY_FAIL(err, GY_E_IO, "%.300s: cannot be written: %s", w->path, strerror(errno)) : GY_OK;
}

static int blocks_finish_new(struct gy_blocks_writer *w, const unsigned char *head, struct gy_error *err)
{
    if (fseek(w->out.file, 0, SEEK_SET) != 0)
        return GY_FAIL(err, GY_E_IO, "%.300s: the header cannot be written: %s", w->path, strerror(errno));
    GY_TRY(gy_outfile_write(&w->out, head, BLOCKS_HEAD, err));
    return gy_outfile_commit(&w->out, err);
}

static int blocks_finish_memory(struct gy_blocks_writer *w, const unsigned char *head, struct gy_blocks **memory, struct gy_error *err)
{
    unsigned char *bytes = w->memory;
    const size_t room = w->room;
    memcpy(bytes, head, BLOCKS_HEAD);
    w->memory = NULL;
    return gy_blocks_open_memory(memory, bytes, (size_t)w->head.file_bytes, "blocks in memory", &w->alloc, bytes, room, err);
}

GY_INT int gy_blocks_finish(struct gy_blocks_writer *w, struct gy_blocks **memory, struct gy_error *err)
{
    unsigned char head[BLOCKS_HEAD];
    int status = blocks_write_index(w, err);
    if (status == GY_OK) {
        gy_blocks_put_head(head, &w->head);
        status = w->path[0] == 0 ? blocks_finish_memory(w, head, memory, err) : w->append ? blocks_finish_append(w, head, err) : blocks_finish_new(w,
                                                                                                                                                   head, err);
    }
    gy_blocks_abandon(w);
    return status;
}

GY_INT void gy_blocks_abandon(struct gy_blocks_writer *w)
{
    if (w == NULL)
        return;
    const struct gy_alloc alloc = w->alloc;
    gy_outfile_abandon(&w->out);
    if (w->fd >= 0 && !w->decided && ftruncate(w->fd, (off_t)w->old_bytes) != 0)
        w->decided = 1; /* what was appended stays behind the end that the header states, and is passed over */
    if (w->fd >= 0)
        close(w->fd);
    gy_alloc_free(&alloc, w->memory, w->room);
    gy_alloc_free(&alloc, w->entry, w->entries_room * sizeof *w->entry);
    gy_alloc_free(&alloc, w, sizeof *w);
}

#undef BLOCKS_MEMORY
