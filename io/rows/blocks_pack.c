/* SPDX-License-Identifier: MIT */
/* blocks_pack.c: packs a block, in three steps. First it scans the block's rows, view by view. Then
 * it decides where each part of the block goes and how wide its numbers are. Last it packs shares
 * of the parts, on any threads in any order. A share is a run of a part's numbers that begins and
 * ends at whole bytes and has a checksum of its own. So no thread waits for another, nor reads what
 * another wrote. */
#include "io/rows/blocks_pack.h"
#include "engine/base/hash.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define PACK_SHARE ((uint64_t)64)
#else
/* numbers of a share; shares of any width end at a whole byte, as every multiple of 32 numbers
 * does */
#define PACK_SHARE ((uint64_t)1 << 17)
#endif
#define PACK_SOME 128

/* ---- looking at rows ---- */

static int pack_all_are(const float *value, uint32_t n, float same)
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

/* Returns whether one of n values is not finite. Their exponent is all ones: adding one to it
 * carries into the sign bit, not further. */
static int pack_some_not_finite(const float *value, uint32_t n)
{
    const uint64_t two = 0x0000000100000001u;
    uint64_t carried[4] = { 0, 0, 0, 0 };
    uint32_t k = 0;
    for (; n - k >= 8; k += 8)
        for (int i = 0; i < 4; i++) {
            uint64_t bits;
            memcpy(&bits, value + k + 2 * i, sizeof bits);
            carried[i] |= (bits & two * 0x7fffffff) + two * 0x00800000;
        }
    for (; k < n; k++)
        carried[0] |= (gy_blocks_bits_of_float(value[k]) & 0x7fffffff) + 0x00800000;
    return ((carried[0] | carried[1] | carried[2] | carried[3]) & two << 31) != 0;
}

static int pack_row_fail(const struct gy_rows *rows, struct gy_error *err)
{
    for (int32_t i = 0; i < rows->count; i++)
        for (uint32_t k = gy_rows_begin(rows, i); k < gy_rows_end(rows, i); k++)
            if (k > gy_rows_begin(rows, i) && rows->id[k] <= rows->id[k - 1])
                return GY_FAIL(err, GY_E_ARG, "row %" PRId64 ": id %" PRIu32 " behind %" PRIu32 "; ids rise in a row", rows->first + i, rows->id[k],
                               rows->id[k - 1]);
    return GY_FAIL(err, GY_E_ARG, "one of %" PRId32 " rows from row %" PRId64 " has a value, weight or label that is not finite", rows->count, rows->first);
}

/* Adds lengths and labels. Returns how often an id may be at or below the one before it, because a
 * row begins there. */
static size_t pack_sum_rows(struct gy_blocks_sum *sum, const struct gy_rows *rows)
{
    const uint32_t from = gy_rows_begin(rows, 0);
    size_t allowed = 0;
    for (int32_t i = 0; i < rows->count; i++) {
        const uint32_t begin = gy_rows_begin(rows, i), length = gy_rows_end(rows, i) - begin;
        sum->longest = length > sum->longest ? length : sum->longest;
        sum->shortest = sum->rows == 0 || length < sum->shortest ? length : sum->shortest;
        sum->rows++;
        allowed += begin > from && length > 0 && rows->id[begin] <= rows->id[begin - 1];
        gy_blocks_count(&sum->counts, rows->label[i], 1);
    }
    return allowed;
}

static void pack_sum_whole(struct gy_blocks_sum *sum, const float *value, uint32_t n)
{
    if (sum->entries == 0 && n > 0) {
        sum->whole[0] = INT32_MAX;
        sum->whole[1] = INT32_MIN;
    }
    for (uint32_t k = 0; k < n && !sum->fraction; k += PACK_SOME)
        sum->fraction = gy_bits_see_whole(value + k, n - k < PACK_SOME ? n - k : PACK_SOME, sum->whole);
}

static void pack_join_whole(struct gy_blocks_sum *sum, const struct gy_blocks_sum *next)
{
    const int32_t *const a = sum->entries > 0 ? sum->whole : next->whole, *const b = next->entries > 0 ? next->whole : a;
    sum->fraction |= next->fraction;
    const int32_t least = a[0] < b[0] ? a[0] : b[0], largest = a[1] > b[1] ? a[1] : b[1];
    sum->whole[0] = least;
    sum->whole[1] = largest;
}

/* Adds n entries, the first of value `first`; differ: another has another one. */
static void pack_sum_values(struct gy_blocks_sum *sum, float first, int differ, uint64_t n)
{
    if (n == 0)
        return;
    sum->same = sum->entries == 0 ? first : sum->same;
    sum->values |= differ || gy_blocks_bits_of_float(first) != gy_blocks_bits_of_float(sum->same);
    sum->entries += n;
}

GY_INT int gy_blocks_sum_add(struct gy_blocks_sum *sum, const struct gy_rows *rows, struct gy_error *err)
{
    if (rows->count == 0)
        return GY_OK;
    const uint32_t from = gy_rows_begin(rows, 0), n = gy_rows_end(rows, rows->count - 1) - from;
    const float *const value = rows->value ? rows->value + from : NULL;
    const size_t allowed = pack_sum_rows(sum, rows), falls = sum->look.falls;
    gy_bits_see(&sum->look, rows->id + from, n, 0);
    pack_sum_whole(sum, value ? value : &rows->same, value ? n : n > 0);
    if (sum->look.falls - falls != allowed || pack_some_not_finite(rows->label, (uint32_t)rows->count) ||
        (value && sum->fraction && pack_some_not_finite(value, n)) ||
        (rows->weight && pack_some_not_finite(rows->weight, (uint32_t)rows->count)))
        return pack_row_fail(rows, err);
    if (value && n > 0)
        pack_sum_values(sum, value[0], !pack_all_are(value, n, value[0]), n);
    else
        pack_sum_values(sum, rows->same, 0, n);
    sum->weights |= rows->weight != NULL;
    return GY_OK;
}

GY_INT void gy_blocks_sum_join(struct gy_blocks_sum *sum, const struct gy_blocks_sum *next)
{
    if (next->rows == 0)
        return;
    sum->longest = next->longest > sum->longest ? next->longest : sum->longest;
    sum->shortest = sum->rows == 0 || next->shortest < sum->shortest ? next->shortest : sum->shortest;
    sum->look.most = next->look.most > sum->look.most ? next->look.most : sum->look.most;
    pack_join_whole(sum, next);
    pack_sum_values(sum, next->same, next->values, next->entries);
    sum->weights |= next->weights;
    sum->rows += next->rows;
    gy_blocks_count_all(&sum->counts, &next->counts);
}

/* ---- planning ---- */

static struct gy_blocks_entry pack_describe(const struct gy_blocks_sum *sum)
{
    const int same_length = sum->longest == sum->shortest && sum->longest > 0;
    const struct gy_blocks_counts *const c = &sum->counts;
    struct gy_blocks_entry e = { 0, 0, (uint32_t)sum->rows, (uint32_t)sum->entries, same_length ? sum->longest : 0, 1, 0, GY_BLOCKS_LABEL_ONE, 0,
        sum->entries > 0 ? sum->same : 1, { 0, 0 }, 0, 0, 0, 0 };
    e.id_bits = (uint8_t)gy_bits_of(sum->look.most);
    e.length_bits = same_length ? 0 : (uint8_t)gy_bits_of(sum->longest);
    e.label_kind = c->too_many || c->count > 2 ? GY_BLOCKS_LABEL_REAL : c->count == 2 ? GY_BLOCKS_LABEL_BITS : GY_BLOCKS_LABEL_ONE;
    for (int i = 0; i < 2 && i < c->count && e.label_kind != GY_BLOCKS_LABEL_REAL; i++)
        e.label[i] = c->label[i];
    e.flags = (uint8_t)((sum->values ? GY_BLOCKS_VALUES : 0) | (sum->weights ? GY_BLOCKS_WEIGHTS : 0));
    const int bits = gy_bits_of((uint32_t)sum->whole[1] - (uint32_t)sum->whole[0]);
    if (sum->values && !sum->fraction && bits <= BLOCKS_WHOLE_BITS) {
        e.flags |= GY_BLOCKS_WHOLE;
        e.value_bits = (uint8_t)bits;
        e.same = (float)sum->whole[0];
    }
    e.features = sum->entries > 0 ? sum->look.most + 1 : 0;
    e.bytes = gy_blocks_place(&e).bytes;
    return e;
}

/* A part takes all bytes up to the next part. A part without numbers may still have bytes, which
 * are zero. */
static void pack_place_parts(struct gy_blocks_packed *p)
{
    const struct gy_blocks_entry *const e = &p->entry;
    const struct gy_blocks_parts at = gy_blocks_place(e);
    const int reals = e->label_kind == GY_BLOCKS_LABEL_REAL, bits = e->label_kind == GY_BLOCKS_LABEL_BITS;
    const struct gy_blocks_part part[GY_BLOCKS_PARTS] = {
        { at.lengths, at.ids, e->length_bits ? e->rows : 0, e->length_bits, 0 },
        { at.ids, at.values, e->entries, e->id_bits, 0 },
        { at.values, at.labels, e->flags & GY_BLOCKS_VALUES ? e->entries : 0, e->value_bits ? e->value_bits : 32, 0 },
        { at.labels, at.weights, reals || bits ? e->rows : 0, reals ? 32 : 1, 0 },
        { at.weights, at.bytes, e->flags & GY_BLOCKS_WEIGHTS ? e->rows : 0, 32, 0 },
    };
    p->shares = 0;
    for (int k = 0; k < GY_BLOCKS_PARTS; k++) {
        p->part[k] = part[k];
        p->part[k].share = p->shares;
        p->shares += part[k].end == part[k].begin ? 0 : part[k].numbers > PACK_SHARE ? (part[k].numbers + PACK_SHARE - 1) / PACK_SHARE : 1;
    }
}

/* Room for the block and its shares' checksums, with some to spare; what was there is lost. */
static int pack_take_room(struct gy_blocks_packed *p, const struct gy_alloc *alloc, struct gy_error *err)
{
    const size_t bytes = (size_t)p->entry.bytes, shares = (size_t)p->shares;
    if (p->room < bytes) {
        gy_large_drop(&p->memory, alloc);
        p->room = gy_large_take(&p->memory, alloc, bytes + bytes / 8) == 0 ? bytes + bytes / 8 : 0;
        p->bytes = p->memory.bytes;
    }
    if (p->crc_room < shares) {
        gy_alloc_free(alloc, p->crc, p->crc_room * sizeof *p->crc);
        p->crc_room = 2 * shares;
        p->crc = gy_alloc_grow(alloc, NULL, 0, p->crc_room, sizeof *p->crc);
        p->crc_room = p->crc ? p->crc_room : 0;
    }
    return p->bytes && p->crc ? GY_OK : GY_NOMEM(err, "a packed block", bytes);
}

GY_INT int gy_blocks_plan(struct gy_blocks_packed **packed, const struct gy_blocks_sum *sum, const struct gy_alloc *alloc, struct gy_error *err)
{
    if (!*packed && !(*packed = gy_alloc_take(alloc, 1, sizeof **packed)))
        return GY_NOMEM(err, "a packed block", sizeof **packed);
    struct gy_blocks_packed *p = *packed;
    if (sum->rows < 1 || sum->rows > BLOCKS_ROWS || sum->entries > BLOCKS_ENTRIES || sum->look.most == UINT32_MAX)
        return GY_FAIL(err, GY_E_ARG, "a block of %" PRIu64 " rows with %" PRIu64 " entries, largest id %" PRIu32 "; at most %u with %u, %" PRIu32,
                       sum->rows, sum->entries, sum->look.most, BLOCKS_ROWS, BLOCKS_ENTRIES, UINT32_MAX - 1);
    p->entry = pack_describe(sum);
    p->counts = sum->counts;
    pack_place_parts(p);
    return pack_take_room(p, alloc, err);
}

/* ---- shares ---- */

typedef void (*pack_put)(struct gy_bits_writer *to, const struct gy_rows *rows, uint32_t from, uint32_t n, const struct gy_blocks_entry *entry);

/* Real numbers, from an array, or the same for all. */
static void pack_reals(struct gy_bits_writer *to, const float *from, float same, uint32_t n)
{
    if (from)
        memcpy(to->to, from, (size_t)n * sizeof *from);
    for (uint32_t k = 0; k < n && !from; k++)
        memcpy(to->to + (size_t)k * sizeof same, &same, sizeof same);
    to->to += (size_t)n * sizeof same;
}

static void pack_lengths(struct gy_bits_writer *to, const struct gy_rows *rows, uint32_t from, uint32_t n, const struct gy_blocks_entry *entry)
{
    uint32_t length[PACK_SOME];
    for (uint32_t k = 0; k < n; k++) {
        const int32_t i = (int32_t)(from + k);
        length[k % PACK_SOME] = gy_rows_end(rows, i) - gy_rows_begin(rows, i);
        if ((k + 1) % PACK_SOME == 0 || k + 1 == n)
            gy_bits_pack(to, length, k % PACK_SOME + 1, entry->length_bits);
    }
}

static void pack_ids(struct gy_bits_writer *to, const struct gy_rows *rows, uint32_t from, uint32_t n, const struct gy_blocks_entry *entry)
{
    gy_bits_pack(to, rows->id + gy_rows_begin(rows, 0) + from, n, entry->id_bits);
}

static void pack_values(struct gy_bits_writer *to, const struct gy_rows *rows, uint32_t from, uint32_t n, const struct gy_blocks_entry *entry)
{
    const float *const value = rows->value ? rows->value + gy_rows_begin(rows, 0) + from : NULL;
    const int32_t least = (int32_t)(entry->value_bits ? entry->same : 0);
    uint32_t above[PACK_SOME];
    if (entry->value_bits == 0)
        pack_reals(to, value, rows->same, n);
    for (uint32_t k = 0; k < n && entry->value_bits; k += PACK_SOME) {
        const uint32_t some = n - k < PACK_SOME ? n - k : PACK_SOME;
        for (uint32_t i = 0; i < some; i++)
            above[i] = (uint32_t)((int32_t)(value ? value[k + i] : rows->same) - least);
        gy_bits_pack(to, above, some, entry->value_bits);
    }
}

static void pack_labels(struct gy_bits_writer *to, const struct gy_rows *rows, uint32_t from, uint32_t n, const struct gy_blocks_entry *entry)
{
    uint32_t bit[PACK_SOME];
    if (entry->label_kind == GY_BLOCKS_LABEL_REAL) {
        pack_reals(to, rows->label + from, 0, n);
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        bit[k % PACK_SOME] = rows->label[from + k] + 0.0f != entry->label[0];
        if ((k + 1) % PACK_SOME == 0 || k + 1 == n)
            gy_bits_pack(to, bit, k % PACK_SOME + 1, 1);
    }
}

static void pack_weights(struct gy_bits_writer *to, const struct gy_rows *rows, uint32_t from, uint32_t n, const struct gy_blocks_entry *entry)
{
    (void)entry;
    pack_reals(to, rows->weight ? rows->weight + from : NULL, 1, n);
}

static const struct pack_kind { /* of a part */
    int of_entries;             /* it has a number an entry, not a row */
    pack_put put;
} pack_kinds[GY_BLOCKS_PARTS] = { { 0, pack_lengths }, { 1, pack_ids }, { 1, pack_values }, { 0, pack_labels }, { 0, pack_weights } };

/* Numbers that a view has for the part. */
static uint64_t pack_numbers(const struct gy_rows *rows, int of_entries)
{
    if (rows->count == 0)
        return 0;
    return of_entries ? gy_rows_end(rows, rows->count - 1) - gy_rows_begin(rows, 0) : (uint64_t)rows->count;
}

static int pack_part_of(const struct gy_blocks_packed *p, uint64_t share)
{
    int k = GY_BLOCKS_PARTS - 1;
    while (p->part[k].share > share)
        k--;
    return k;
}

static void pack_find(const struct gy_blocks_packed *p, uint64_t share, uint64_t *begin, uint64_t *end)
{
    const struct gy_blocks_part *const part = &p->part[pack_part_of(p, share)];
    const uint64_t from = (share - part->share) * PACK_SHARE, to = from + PACK_SHARE;
    *begin = part->begin + from * part->bits / 8;
    *end = to >= part->numbers ? part->end : part->begin + to * part->bits / 8;
}

GY_INT uint64_t gy_blocks_shares(const struct gy_blocks_packed *p) { return p->shares; }

GY_INT void gy_blocks_pack_share(struct gy_blocks_packed *p, uint64_t share, const struct gy_rows *rows, int count)
{
    const int k = pack_part_of(p, share);
    const uint64_t from = (share - p->part[k].share) * PACK_SHARE, next = from + PACK_SHARE;
    const uint64_t to = next < p->part[k].numbers ? next : p->part[k].numbers;
    uint64_t begin, end, past = 0;
    pack_find(p, share, &begin, &end);
    struct gy_bits_writer writer = { p->bytes + begin, 0, 0 };
    for (const struct gy_rows *view = rows; view < rows + count && past < to; view++) {
        const uint64_t n = pack_numbers(view, pack_kinds[k].of_entries), first = from > past ? from - past : 0, stop = to - past < n ? to - past : n;
        if (first < stop)
            pack_kinds[k].put(&writer, view, (uint32_t)first, (uint32_t)(stop - first), &p->entry);
        past += n;
    }
    gy_bits_flush(&writer);
    memset(writer.to, 0, (size_t)(p->bytes + end - writer.to));
    p->crc[share] = gy_crc32c(0, p->bytes + begin, (size_t)(end - begin));
}

GY_INT uint32_t gy_blocks_packed_crc(const struct gy_blocks_packed *p)
{
    uint64_t begin, end;
    uint32_t crc = 0;
    for (uint64_t share = 0; share < p->shares; share++) {
        pack_find(p, share, &begin, &end);
        crc = gy_crc32c_join(crc, p->crc[share], (size_t)(end - begin));
    }
    return crc;
}

GY_INT int gy_blocks_pack(struct gy_blocks_packed **packed, const struct gy_rows *rows, int count, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_blocks_sum sum;
    memset(&sum, 0, sizeof sum);
    for (int i = 0; i < count; i++)
        GY_TRY(gy_blocks_sum_add(&sum, &rows[i], err));
    GY_TRY(gy_blocks_plan(packed, &sum, alloc, err));
    for (uint64_t share = 0; share < (*packed)->shares; share++)
        gy_blocks_pack_share(*packed, share, rows, count);
    return GY_OK;
}

GY_INT void gy_blocks_drop(struct gy_blocks_packed *packed, const struct gy_alloc *alloc)
{
    if (!packed)
        return;
    gy_large_drop(&packed->memory, alloc);
    gy_alloc_free(alloc, packed->crc, packed->crc_room * sizeof *packed->crc);
    gy_alloc_free(alloc, packed, sizeof *packed);
}

#undef PACK_SHARE
