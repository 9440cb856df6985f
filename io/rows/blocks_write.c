/* SPDX-License-Identifier: MIT */
/* blocks_write.c: writes a block file (blocks_file.h has its bytes). A new file is written beside
 * its place and gets its name when it is whole. An append writes behind the end of the file, syncs,
 * and then replaces the header, 4096 bytes in one call. Before that the old file stands, after it
 * the new one. */
#include "io/rows/blocks_write.h"
#include "engine/base/file.h"
#include "engine/base/file_lock.h"
#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "io/rows/blocks_file.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCKS_MEMORY ((size_t)1 << 16) /* bytes that blocks in memory begin with */

struct gy_blocks_writer {
    struct gy_alloc alloc;
    char path[4096]; /* "": memory */
    int append;
    struct gy_outfile out;
    struct gy_lock lock;
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

/* ---- bytes to where they belong ---- */

static int blocks_write_at(const struct gy_blocks_writer *w, uint64_t at, const unsigned char *bytes, size_t count, struct gy_error *err)
{
    char why[160];
    for (size_t done = 0; done < count;) {
        const ssize_t put = pwrite(w->fd, bytes + done, count - done < GY_FILE_AHEAD ? count - done : GY_FILE_AHEAD, (off_t)(at + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return GY_FAIL(err, GY_E_IO, "%.300s: cannot be written: %s", w->path, gy_file_reason(errno, why));
        done += (size_t)put;
        if ((size_t)put == GY_FILE_AHEAD)
            gy_file_begin_sync(w->fd);
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
        if (!grown)
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
                       w->path, h->hash_bits, h->hash_seed, c->hash_bits, c->hash_seed);
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
    if (!grown)
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

/* Only blocks are written over: who forgets to name the target has named a text last. */
static int blocks_may_replace(const char *path, struct gy_error *err)
{
    struct stat info;
    const int full = stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    if (!full || gy_file_begins(path, BLOCKS_MAGIC, 8))
        return GY_OK;
    return GY_FAIL(err, GY_E_STATE, "%.300s is there and is no block file: it is not written over",
                   path);
}

static int blocks_create_new(struct gy_blocks_writer *w, const struct gy_blocks_write *c, struct gy_error *err)
{
    const unsigned char blank[BLOCKS_HEAD] = { 0 };
    w->head.version = 1;
    w->head.features = c->features;
    w->head.told = c->features != 0;
    w->head.hash_bits = (uint32_t)c->hash_bits;
    w->head.hash_seed = c->hash_seed;
    if (w->path[0] != 0) {
        GY_TRY(blocks_may_replace(w->path, err));
        GY_TRY(gy_outfile_open(&w->out, w->path, err));
    }
    return blocks_write_next(w, blank, sizeof blank, err);
}

GY_INT int gy_blocks_create(struct gy_blocks_writer **out, const struct gy_blocks_write *config, struct gy_error *err)
{
    if (config->hash_bits < 0 || config->hash_bits > 32 || (config->append && !config->path))
        return GY_FAIL(err, GY_E_ARG, "blocks: %d bits of hashed ids; at most 32, and only a file can be appended to", config->hash_bits);
    struct gy_blocks_writer *w = gy_alloc_take(config->alloc, 1, sizeof *w);
    if (!w)
        return GY_NOMEM(err, "writing blocks", sizeof *w);
    w->alloc = *config->alloc;
    w->append = config->append;
    w->fd = -1;
    int status = gy_text_copy(w->path, sizeof w->path, config->path ? config->path : "");
    if (status != 0 || (config->path && w->path[0] == 0))
        status = GY_FAIL(err, GY_E_ARG, "the path of a block file is empty or longer than %zu bytes", sizeof w->path - 1);
    if (status == GY_OK && w->path[0] != 0)
        status = gy_lock_beside(&w->lock, w->path, err);
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

/* As sentences call it. */
static const char *blocks_name(const struct gy_blocks_writer *w) { return w->path[0] ? w->path : "blocks in memory"; }

GY_INT int gy_blocks_put(struct gy_blocks_writer *w, const struct gy_blocks_packed *packed, struct gy_error *err)
{
    struct gy_blocks_head *h = &w->head;
    const struct gy_blocks_entry *e = &packed->entry;
    if (h->told && e->features > h->features)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s: %" PRIu32 " features, but rows %" PRIu64 " to %" PRIu64 " have id %" PRIu32,
                       blocks_name(w), h->features, h->rows, h->rows + e->rows - 1, e->features - 1);
    if (h->blocks >= BLOCKS_COUNT)
        return GY_FAIL(err, GY_E_ARG, "%.300s: more than %" PRIu64 " blocks", blocks_name(w), BLOCKS_COUNT);
    GY_TRY(blocks_grow_entries(w, (size_t)h->blocks + 1, err));
    struct gy_blocks_entry *mine = &w->entry[h->blocks];
    *mine = *e;
    mine->at = w->at;
    mine->crc = gy_blocks_packed_crc(packed);
    GY_TRY(blocks_write_next(w, packed->bytes, (size_t)e->bytes, err));
    h->blocks++;
    h->rows += e->rows;
    h->entries += e->entries;
    h->features = e->features > h->features ? e->features : h->features;
    gy_blocks_count_all(&w->counts, &packed->counts);
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
    /* an append that was killed may have left more bytes */
    if (ftruncate(w->fd, (off_t)w->head.file_bytes) != 0 || gy_file_sync(w->fd) != 0)
        return GY_FAIL(err, GY_E_IO, "%.300s: cannot be written: %s", w->path, strerror(errno));
    w->decided = 1;
    GY_TRY(blocks_write_at(w, 0, head, BLOCKS_HEAD, err));
    return gy_file_sync(w->fd) != 0 ? GY_FAIL(err, GY_E_IO, "%.300s: cannot be written: %s", w->path, strerror(errno)) : GY_OK;
}

static int blocks_finish_new(struct gy_blocks_writer *w, const unsigned char *head, struct gy_error *err)
{
    GY_TRY(gy_outfile_rewind(&w->out, err));
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
        status = w->path[0] == 0 ? blocks_finish_memory(w, head, memory, err)
                 : w->append     ? blocks_finish_append(w, head, err)
                                 : blocks_finish_new(w, head, err);
    }
    gy_blocks_abandon(w);
    return status;
}

GY_INT void gy_blocks_abandon(struct gy_blocks_writer *w)
{
    if (!w)
        return;
    const struct gy_alloc alloc = w->alloc;
    gy_outfile_abandon(&w->out);
    gy_lock_drop(&w->lock);
    if (w->fd >= 0 && !w->decided && ftruncate(w->fd, (off_t)w->old_bytes) != 0)
        /* The appended bytes stay behind the end that the header states; readers ignore them. */
        w->decided = 1;
    if (w->fd >= 0)
        close(w->fd);
    gy_alloc_free(&alloc, w->memory, w->room);
    gy_alloc_free(&alloc, w->entry, w->entries_room * sizeof *w->entry);
    gy_alloc_free(&alloc, w, sizeof *w);
}
