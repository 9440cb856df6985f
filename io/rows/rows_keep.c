/* SPDX-License-Identifier: MIT */
/* rows_keep.c: keeps rows of pieces in memory until rows_convert.c has made blocks of them. A
 * thread parses every piece into the same arrays, which have place for whatever so much text can
 * become and stay in a cache. The rows that it became are copied to slabs of large pages, close
 * together; values that are all the same are left out. A slab is used again when the rows of all
 * its pieces have gone. */
#include "io/rows/rows_text.h"

#define KEEP_SLAB ((size_t)4 << 20) /* bytes; the first one of few rows is smaller */
/* pieces like the first that a slab has room for, unless they need more than KEEP_SLAB */
#define KEEP_PIECES 64
#define KEEP_APART ((size_t)64)     /* bytes that a piece's rows begin at multiples of */

struct gy_rows_slab {
    struct gy_large memory;
    size_t room, used;
    int pieces;                 /* whose rows are in it */
    struct gy_rows_keep *keep;
    struct gy_rows_slab *other; /* of all */
    struct gy_rows_slab *next;  /* of those that are empty */
};

/* An entry takes at least format->entry_bytes of text, a row at least two bytes. The room is not
 * cleared: unused pages cost no memory. */
GY_INT int gy_rows_keep_room(struct gy_rows_keep *keep, struct gy_rows_piece *p, const struct gy_alloc *alloc, struct gy_error *err)
{
    const struct gy_rows_format *const format = p->settings->format;
    if (p->bytes > keep->bytes || !keep->memory) {
        const size_t bytes = p->bytes + p->bytes / 8, entries = bytes / (size_t)format->entry_bytes + GY_ROWS_PAD, rows = bytes / 2 + 2;
        const size_t count = (format->ones ? 1 : 2) * entries + 2 * rows;
        if (entries > UINT32_MAX || rows > INT32_MAX)
            return GY_FAIL(err, GY_E_FORMAT, "a line of %zu bytes is too long", p->bytes);
        gy_alloc_free(alloc, keep->memory, keep->count * sizeof *keep->memory);
        keep->bytes = keep->count = 0;
        keep->memory = gy_alloc_grow(alloc, NULL, 0, count, sizeof *keep->memory);
        if (!keep->memory)
            return GY_NOMEM(err, "rows of a piece of text", count * sizeof *keep->memory);
        keep->bytes = bytes;
        keep->count = count;
        keep->entries = entries;
        keep->rows = rows;
    }
    p->id = keep->memory;
    p->start = p->id + keep->entries;
    p->label = (float *)(void *)(p->start + keep->rows);
    p->value = format->ones ? NULL : p->label + keep->rows;
    p->start[0] = 0;
    return GY_OK;
}

static struct gy_rows_slab *keep_new_slab(struct gy_rows_keep *keep, size_t bytes, const struct gy_alloc *alloc)
{
    const size_t room = bytes > KEEP_SLAB ? bytes : bytes > KEEP_SLAB / KEEP_PIECES ? KEEP_SLAB : KEEP_PIECES * bytes;
    struct gy_rows_slab *slab = gy_alloc_take(alloc, 1, sizeof *slab);
    if (!slab || gy_large_take(&slab->memory, alloc, room) != 0) {
        gy_alloc_free(alloc, slab, sizeof *slab);
        return NULL;
    }
    slab->room = room;
    slab->keep = keep;
    slab->other = keep->slabs;
    keep->slabs = slab;
    return slab;
}

/* A slab that has room for so many bytes. */
static struct gy_rows_slab *keep_slab(struct gy_rows_keep *keep, size_t bytes, const struct gy_alloc *alloc)
{
    struct gy_rows_slab *const last = keep->slab, *const empty = keep->empty;
    if (last && last->room - last->used >= bytes)
        return last;
    if (empty && empty->room >= bytes) {
        keep->empty = empty->next;
        keep->slab = empty;
    } else if (!(keep->slab = keep_new_slab(keep, bytes, alloc)))
        return NULL;
    if (last && last->pieces == 0) {
        last->next = keep->empty;
        keep->empty = last;
    }
    return keep->slab;
}

static void *keep_copy(unsigned char **to, const void *from, size_t bytes)
{
    void *const at = memcpy(*to, from, bytes);
    *to += bytes;
    return at;
}

GY_INT int gy_rows_keep(struct gy_rows_keep *keep, struct gy_rows_piece *p, const struct gy_alloc *alloc, struct gy_error *err)
{
    const size_t rows = (size_t)p->rows, entries = p->start[rows], values = p->value && p->sum.values ? entries : 0;
    const size_t bytes = gy_align_up((2 * rows + 1 + entries + values) * sizeof(uint32_t), KEEP_APART);
    p->slab = NULL;
    p->same = p->sum.entries > 0 ? p->sum.same : 1;
    if (rows == 0)
        return GY_OK;
    struct gy_rows_slab *const slab = keep_slab(keep, bytes, alloc);
    if (!slab)
        return GY_NOMEM(err, "rows that wait for their block", bytes);
    unsigned char *to = slab->memory.bytes + slab->used;
    p->start = keep_copy(&to, p->start, (rows + 1) * sizeof *p->start);
    p->label = keep_copy(&to, p->label, rows * sizeof *p->label);
    p->id = keep_copy(&to, p->id, entries * sizeof *p->id);
    p->value = values > 0 ? keep_copy(&to, p->value, values * sizeof *p->value) : NULL;
    slab->used += bytes;
    slab->pieces++;
    p->slab = slab;
    return GY_OK;
}

GY_INT void gy_rows_let_go(struct gy_rows_piece *p)
{
    struct gy_rows_slab *const slab = p->slab;
    p->slab = NULL;
    if (!slab || --slab->pieces > 0)
        return;
    slab->used = 0;
    if (slab == slab->keep->slab)
        return;
    slab->next = slab->keep->empty;
    slab->keep->empty = slab;
}

GY_INT void gy_rows_keep_close(struct gy_rows_keep *keep, const struct gy_alloc *alloc)
{
    for (struct gy_rows_slab *slab = keep->slabs, *other; slab != NULL; slab = other) {
        other = slab->other;
        gy_large_drop(&slab->memory, alloc);
        gy_alloc_free(alloc, slab, sizeof *slab);
    }
    gy_alloc_free(alloc, keep->memory, keep->count * sizeof *keep->memory);
    gy_alloc_free(alloc, keep->text.bytes, keep->text.room);
    memset(keep, 0, sizeof *keep);
}
