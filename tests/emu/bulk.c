/* SPDX-License-Identifier: MIT */
/* bulk.c: bulk copies between device and shared memory by a tensor map. A map describes a tensor of
 * up to 5 dimensions and a box; a copy names the box's first element. Tiled: the box is a rectangle
 * in every dimension. Im2col: it is a number of channels of a number of pixels. Pixels follow each
 * other along W, then H, then N, with the strides of the convolution, inside the corners that the
 * map gives. Each is read at an offset (the filter's tap). Outside the tensor lie zeros. In shared
 * memory a box is dense, innermost first. A swizzle of 128 bytes exchanges pieces of 16 bytes: bits
 * 4 to 6 of an address ^= bits 7 to 9.
 *
 * A copy is queued and finished at a random moment, at the latest when no thread can run; meanwhile
 * its destination holds NaNs. */
#include "tests/emu/emu.h"

/* What the emulated driver writes into CUDA's 128 bytes. */
struct bulk_map {
    uint32_t magic;
    uint8_t im2col, rank, bytes, swizzle;
    uint64_t address;
    uint32_t size[5], channels, pixels;
    uint64_t stride[4];
    uint16_t box[5];
    uint8_t step[5];
    int8_t lower[3], upper[3];
};
typedef char bulk_map_fits[sizeof(struct bulk_map) <= 128 ? 1 : -1];
#define BULK_MAGIC 0x70616d65u

struct bulk_copy {
    struct bulk_map map;
    unsigned char *shared;
    int c[5], offset[2], store, group, tid, agent;
    const char *site;
    unsigned char *data; /* fetched already */
};
static struct bulk_copy *bulk_queue;
static int bulk_count, bulk_room;
static int bulk_group[EMU_THREADS_MOST];

/* ---- the driver's part ---- */

static int bulk_refuse(const char *why) { return emu_refuse(EMU_INVALID_VALUE, "%s", why); }

/* Bytes of an element of CUtensorMapDataType */
static int bulk_element(int type)
{
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 0;
}

static int bulk_encode(struct bulk_map *m, int type, unsigned rank, const void *address, const uint64_t *sizes, const uint64_t *strides,
                       const uint32_t *steps, int swizzle)
{
    memset(m, 0, sizeof *m);
    m->magic = BULK_MAGIC;
    m->rank = (uint8_t)rank;
    m->bytes = (uint8_t)bulk_element(type);
    m->swizzle = (uint8_t)swizzle;
    m->address = (uint64_t)(uintptr_t)address;
    if (rank < 1 || rank > 5 || !m->bytes || swizzle < 0 || swizzle > 3)
        return bulk_refuse("tensor map: rank 1 to 5, a known type, swizzle 0 to 3");
    if (m->address % 16 != 0)
        return bulk_refuse("tensor map: the address must be divisible by 16");
    for (unsigned i = 0; i < rank; i++) {
        if (sizes[i] < 1 || sizes[i] > 0xffffffffull || steps[i] < 1 || steps[i] > 8)
            return bulk_refuse("tensor map: sizes from 1 to 2^32 - 1, element strides from 1 to 8");
        m->size[i] = (uint32_t)sizes[i];
        m->step[i] = (uint8_t)steps[i];
    }
    for (unsigned i = 0; i + 1 < rank; i++) {
        if (strides[i] % 16 != 0 || strides[i] >= 1ull << 40)
            return bulk_refuse("tensor map: strides must be divisible by 16 and below 2^40");
        m->stride[i] = strides[i];
    }
    return EMU_OK;
}

/* A row of a box in shared memory must be whole 16 bytes and not wider than the swizzle. */
static int bulk_row_fits(const struct bulk_map *m, uint32_t elements)
{
    const uint32_t bytes = elements * m->bytes;
    if (bytes % 16 != 0)
        return bulk_refuse("tensor map: the innermost side of the box must be whole 16 bytes");
    if (m->swizzle && bytes > 16u << m->swizzle)
        return bulk_refuse("tensor map: the innermost side of the box is wider than the swizzle");
    return EMU_OK;
}

int emu_map_tiled(void *map, int type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *strides,
                  const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2, int fill)
{
    struct bulk_map m;
    (void)l2;
    if (interleave != 0 || fill != 0)
        return bulk_refuse("tensor map: the emulator knows no interleave and fills with zeros");
    int status = bulk_encode(&m, type, rank, address, sizes, strides, steps, swizzle);
    for (unsigned i = 0; i < rank && !status; i++) {
        if (box[i] < 1 || box[i] > 256)
            status = bulk_refuse("tensor map: sides of a box are 1 to 256");
        m.box[i] = (uint16_t)box[i];
    }
    status = status ? status : bulk_row_fits(&m, box[0]);
    if (status == EMU_OK)
        memcpy(map, &m, sizeof m);
    return status;
}

int emu_map_im2col(void *map, int type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *strides, const int *lower,
                   const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int l2,
                   int fill)
{
    struct bulk_map m;
    (void)l2;
    if (interleave != 0 || fill != 0 || rank != 4)
        return bulk_refuse("tensor map: the emulator knows im2col of rank 4 without interleave, filled with zeros");
    int status = bulk_encode(&m, type, rank, address, sizes, strides, steps, swizzle);
    for (int i = 0; i < 2 && !status; i++) {
        if (lower[i] < -128 || lower[i] > 127 || upper[i] < -128 || upper[i] > 127)
            status = bulk_refuse("tensor map: corners of im2col are -128 to 127");
        m.lower[i] = (int8_t)lower[i];
        m.upper[i] = (int8_t)upper[i];
    }
    if (!status && (channels < 1 || channels > 256 || pixels < 1 || pixels > 1024))
        status = bulk_refuse("tensor map: 1 to 256 channels of 1 to 1024 pixels");
    m.im2col = 1;
    m.channels = channels;
    m.pixels = pixels;
    status = status ? status : bulk_row_fits(&m, channels);
    if (status == EMU_OK)
        memcpy(map, &m, sizeof m);
    return status;
}

/* ---- where a box's rows lie ---- */

static uint32_t bulk_side(const struct bulk_map *m, int i) { return (m->box[i] + m->step[i] - 1u) / m->step[i]; }

static uint32_t bulk_rows(const struct bulk_map *m)
{
    uint32_t rows = 1;
    for (int i = 1; i < m->rank; i++)
        rows *= bulk_side(m, i);
    return m->im2col ? m->pixels : rows;
}
static uint32_t bulk_row_bytes(const struct bulk_map *m) { return (m->im2col ? m->channels : m->box[0]) * m->bytes; }

/* Coordinates of a row's first element in the tensor; a pixel of im2col walks W, H, N. */
static void bulk_row_at(const struct bulk_copy *k, uint32_t row, int64_t at[5])
{
    const struct bulk_map *m = &k->map;
    at[0] = k->c[0];
    if (!m->im2col) {
        for (int i = 1; i < m->rank; i++) {
            at[i] = k->c[i] + (int64_t)(row % bulk_side(m, i)) * m->step[i];
            row /= bulk_side(m, i);
        }
        return;
    }
    const int64_t across = ((int64_t)m->size[1] + m->upper[0] - m->lower[0] - 1) / m->step[1] + 1;
    const int64_t down = ((int64_t)m->size[2] + m->upper[1] - m->lower[1] - 1) / m->step[2] + 1;
    const int64_t first = ((int64_t)k->c[1] - m->lower[0]) / m->step[1] + ((int64_t)k->c[2] - m->lower[1]) / m->step[2] * across;
    const int64_t pixel = first + row;
    at[1] = m->lower[0] + pixel % across * m->step[1] + k->offset[0];
    at[2] = m->lower[1] + pixel / across % down * m->step[2] + k->offset[1];
    at[3] = k->c[3] + pixel / across / down;
}

/* The part [*first, *end) in elements of a row that lies in the tensor, and where; NULL: none. */
static unsigned char *bulk_inside(const struct bulk_copy *k, uint32_t row, int64_t *first, int64_t *end)
{
    const struct bulk_map *m = &k->map;
    int64_t at[5];
    bulk_row_at(k, row, at);
    unsigned char *p = (unsigned char *)(uintptr_t)m->address;
    for (int i = 1; i < m->rank; i++) {
        if (at[i] < 0 || at[i] >= m->size[i])
            return NULL;
        p += (uint64_t)at[i] * m->stride[i - 1];
    }
    const int64_t width = bulk_row_bytes(m) / m->bytes;
    *first = at[0] < 0 ? -at[0] : 0;
    *end = at[0] + width > m->size[0] ? (int64_t)m->size[0] - at[0] : width;
    return *first < *end ? p + (at[0] + *first) * m->bytes : NULL;
}

size_t emu_swizzled(size_t offset, int swizzle)
{
    const size_t mask = ((size_t)1 << swizzle) - 1;
    return offset ^ ((offset >> 7 & mask) << 4);
}

/* ---- copies ---- */

static void bulk_check_global(const struct bulk_copy *k)
{
    int64_t first, end;
    for (uint32_t row = 0; row < bulk_rows(&k->map); row++) {
        const unsigned char *p = bulk_inside(k, row, &first, &end);
        if (p)
            emu_check_global(p, (size_t)(end - first) * k->map.bytes, k->store, k->store ? "a bulk copy writes" : "a bulk copy reads",
                             k->site, NULL);
    }
}

static size_t bulk_bytes(const struct bulk_map *m) { return (size_t)bulk_rows(m) * bulk_row_bytes(m); }

/* Reads the box out of device memory, in shared memory's order but without the swizzle. */
static void bulk_fetch(struct bulk_copy *k)
{
    int64_t first, end;
    const size_t width = bulk_row_bytes(&k->map), bytes = k->map.bytes;
    if (k->data)
        return;
    k->data = calloc(1, bulk_bytes(&k->map));
    for (uint32_t row = 0; k->data && row < bulk_rows(&k->map); row++) {
        const unsigned char *p = bulk_inside(k, row, &first, &end);
        if (p)
            memcpy(k->data + row * width + (size_t)first * bytes, p, (size_t)(end - first) * bytes);
    }
}

/* The place in the block's shared memory of 16 bytes of a box */
static unsigned char *bulk_piece(const struct bulk_copy *k, size_t offset)
{
    unsigned char *shared = emu_block()->shared;
    return shared + emu_swizzled((size_t)(k->shared - shared) + offset, k->map.swizzle);
}

static void bulk_finish_load(struct bulk_copy *k)
{
    const size_t bytes = bulk_bytes(&k->map);
    bulk_fetch(k);
    emu_block()->acting = k->agent;
    emu_check_flying(k->shared, bytes, 0);
    emu_check_landed(k->shared, bytes, k->site);
    for (size_t at = 0; k->data && at < bytes; at += 16)
        memcpy(bulk_piece(k, at), k->data + at, 16);
    emu_bar_bytes(k->agent, (int)bytes);
}

static void bulk_write_out(struct bulk_copy *k)
{
    int64_t first, end;
    const size_t width = bulk_row_bytes(&k->map), bytes = k->map.bytes;
    k->data = malloc(bulk_bytes(&k->map));
    for (size_t at = 0; k->data && at < bulk_bytes(&k->map); at += 16)
        memcpy(k->data + at, bulk_piece(k, at), 16);
    for (uint32_t row = 0; k->data && row < bulk_rows(&k->map); row++) {
        unsigned char *p = bulk_inside(k, row, &first, &end);
        if (p)
            memcpy(p, k->data + row * width + (size_t)first * bytes, (size_t)(end - first) * bytes);
    }
}

static void bulk_finish_store(struct bulk_copy *k)
{
    if (!k->data)
        bulk_write_out(k);
    emu_check_flying(k->shared, bulk_bytes(&k->map), 0);
    emu_check_shared(k->shared, bulk_bytes(&k->map), 0, "a bulk copy reads", k->site, NULL);
}

static void bulk_remove(int i)
{
    free(bulk_queue[i].data);
    memmove(&bulk_queue[i], &bulk_queue[i + 1], (size_t)(--bulk_count - i) * sizeof *bulk_queue);
}

static struct bulk_copy *bulk_new(const void *map, const void *shared, const int *c, int rank, const char *site)
{
    struct bulk_copy k = { .shared = NULL, .tid = emu_block()->acting, .site = site };
    memcpy(&k.map, map, sizeof k.map);
    memcpy(&k.shared, &shared, sizeof shared);
    memcpy(k.c, c, (size_t)rank * sizeof *c);
    if (k.map.magic != BULK_MAGIC || k.map.rank != rank)
        emu_fail(site, NULL, "a bulk copy of rank %d with %s", rank, k.map.magic == BULK_MAGIC ? "another rank's map" : "no tensor map");
    if ((uintptr_t)shared % 128 != 0)
        emu_fail(site, NULL, "a bulk copy's place in shared memory must be divisible by 128");
    if (bulk_count == bulk_room) {
        const int room = bulk_room ? 2 * bulk_room : 64;
        struct bulk_copy *queue = realloc(bulk_queue, (size_t)room * sizeof *queue);
        if (!queue)
            emu_fail(site, NULL, "the emulator has no memory");
        bulk_queue = queue;
        bulk_room = room;
    }
    bulk_queue[bulk_count] = k;
    return &bulk_queue[bulk_count];
}

void emu_bulk_load(void *shared, const void *map, void *bar, const int *c, int rank, const int *offset, const char *site)
{
    struct bulk_copy *k = bulk_new(map, shared, c, rank, site);
    if (k->map.im2col != (offset != NULL))
        emu_fail(site, NULL, "a bulk copy %s im2col with the other kind of map", offset ? "by" : "without");
    if (offset)
        memcpy(k->offset, offset, 2 * sizeof *offset);
    k->agent = emu_bar_agent(bar, site);
    emu_counts[offset ? EMU_COUNT_BULK_IM2COL : EMU_COUNT_BULK_TILED]++;
    bulk_check_global(k);
    emu_check_shared(shared, bulk_bytes(&k->map), 1, "a bulk copy writes", site, NULL);
    emu_check_flying(shared, bulk_bytes(&k->map), 1);
    memset(shared, 0xff, bulk_bytes(&k->map));
    if (emu_random(2))
        bulk_fetch(k);
    bulk_count++;
}

void emu_bulk_store(const void *map, const void *shared, const int *c, int rank, const char *site)
{
    struct bulk_copy *k = bulk_new(map, shared, c, rank, site);
    k->store = 1;
    emu_counts[EMU_COUNT_BULK_STORE]++;
    k->group = bulk_group[k->tid];
    bulk_check_global(k);
    emu_check_async(shared, bulk_bytes(&k->map), "a bulk copy reads", site);
    emu_check_flying(shared, bulk_bytes(&k->map), 2);
    if (emu_random(2))
        bulk_write_out(k);
    bulk_count++;
}

void emu_bulk_commit(void) { bulk_group[emu_block()->acting]++; }

void emu_bulk_wait(int newest)
{
    const int tid = emu_block()->acting;
    for (int i = 0; i < bulk_count;)
        if (bulk_queue[i].store && bulk_queue[i].tid == tid && bulk_queue[i].group < bulk_group[tid] - newest) {
            bulk_finish_store(&bulk_queue[i]);
            bulk_remove(i);
        } else {
            i++;
        }
}

int emu_bulk_some(void)
{
    int loads = 0;
    for (int i = 0; i < bulk_count; i++)
        loads += !bulk_queue[i].store;
    if (loads == 0)
        return 0;
    int which = (int)emu_random((uint32_t)loads), i = 0;
    for (;; i++)
        if (!bulk_queue[i].store && which-- == 0)
            break;
    bulk_finish_load(&bulk_queue[i]);
    bulk_remove(i);
    return 1;
}

int emu_bulk_pending(void) { return bulk_count; }

void emu_bulk_block(void)
{
    while (bulk_count > 0)
        bulk_remove(0);
    memset(bulk_group, 0, sizeof bulk_group);
}

int emu_bulk_end(void)
{
    while (bulk_count > 0) {
        if (!bulk_queue[0].store)
            return emu_fault(bulk_queue[0].tid, bulk_queue[0].site, "the block has ended while this bulk copy is under way");
        if (!bulk_queue[0].data)
            bulk_write_out(&bulk_queue[0]);
        bulk_remove(0);
    }
    return 0;
}
