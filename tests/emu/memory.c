/* SPDX-License-Identifier: MIT */
/* memory.c: device memory. Every allocation is a mapping of its own. It ends where a page begins
 * that may not be touched; behind that lies its shadow (check.c). The table of live ones is sorted
 * by address. Outside launches and copies the process cannot touch device memory at all. So a host
 * that follows a device pointer crashes here as it would with a GPU. With little memory that always
 * holds; with much only now and then, because it takes longer than most launches. */
#include "tests/emu/emu.h"

#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_ALIGN 256u
#define MEMORY_DEAD 64
#define MEMORY_LITTLE ((size_t)32 << 20)
#define MEMORY_HUGE ((size_t)8 << 20)
#define MEMORY_NOW_AND_THEN 64 /* of so many launches */
#define MEMORY_FILL ((size_t)256 << 20) /* allocations up to so many bytes are filled with NaNs */

static struct emu_range **memory_table; /* sorted by base */
static size_t memory_count, memory_room, memory_last, memory_bytes;
static struct emu_range memory_gone[MEMORY_DEAD];
static uint64_t memory_number, memory_gone_count;
static int memory_is_open;

static int memory_hides(void)
{
    static int hides = -1;
    if (hides < 0) {
        const char *text = getenv("GYRE_EMU_HIDE");
        hides = !text || strcmp(text, "0") != 0;
    }
    return hides;
}

static size_t memory_page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* Index of the first allocation whose base is above p. */
static size_t memory_above(const unsigned char *p)
{
    size_t lo = 0, hi = memory_count;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (memory_table[mid]->base <= p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Fewer page faults, and less to do when it is hidden. */
static void memory_huge(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    if (bytes >= MEMORY_HUGE)
        madvise(p, bytes, MADV_HUGEPAGE);
#else
    (void)p, (void)bytes;
#endif
}

static int memory_map(struct emu_range *r, size_t bytes)
{
    const size_t page = memory_page(), whole = (bytes + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
    const size_t inner = (whole + page - 1) / page * page;
    unsigned char *map =
        mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return -1;
    r->mapping = map;
    r->mapped = inner + 2 * page;
    r->base = map + page + inner - whole;
    r->bytes = bytes;
    memory_huge(map, r->mapped);
    return mprotect(map + page, inner, PROT_READ | PROT_WRITE);
}

static void memory_unmap(struct emu_range *r)
{
    if (r->shadow)
        munmap(r->shadow, (r->bytes + 3) / 4 * sizeof *r->shadow);
    if (r->mapping)
        munmap(r->mapping, r->mapped);
}

static void memory_hide(struct emu_range *r, int open)
{
    const size_t page = memory_page();
    if (!r->pinned)
        mprotect(r->mapping + page, r->mapped - 2 * page, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void emu_memory_open(int open)
{
    static unsigned count;
    if (!memory_hides() || open == memory_is_open)
        return;
    if (!open && memory_bytes > MEMORY_LITTLE && count++ % MEMORY_NOW_AND_THEN != 0)
        return;
    memory_is_open = open;
    for (size_t i = 0; i < memory_count; i++)
        memory_hide(memory_table[i], open);
}

static int memory_room_for_one(void)
{
    if (memory_count < memory_room)
        return 0;
    const size_t room = memory_room ? memory_room * 2 : 64;
    struct emu_range **table = realloc(memory_table, room * sizeof *table);
    if (!table)
        return -1;
    memory_table = table;
    memory_room = room;
    return 0;
}

int emu_memory_get(void **out, size_t bytes, int pinned)
{
    *out = NULL;
    if (bytes == 0)
        return EMU_OK;
    if (bytes > ((size_t)1 << 46) || memory_room_for_one() != 0)
        return EMU_NO_MEMORY;
    struct emu_range *r = calloc(1, sizeof *r);
    if (!r)
        return EMU_NO_MEMORY;
    r->pinned = pinned;
    r->number = ++memory_number;
    if (memory_map(r, bytes) == 0 && !pinned) {
        void *shadow = mmap(NULL, (bytes + 3) / 4 * sizeof *r->shadow, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        r->shadow = shadow == MAP_FAILED ? NULL : shadow;
        if (r->shadow)
            memory_huge(shadow, (bytes + 3) / 4 * sizeof *r->shadow);
    }
    if (!r->mapping || (!pinned && !r->shadow)) {
        memory_unmap(r);
        free(r);
        return EMU_NO_MEMORY;
    }
    if (!pinned && bytes <= MEMORY_FILL)
        memset(r->base, 0xff, bytes);
    const size_t at = memory_above(r->base);
    memmove(memory_table + at + 1, memory_table + at, (memory_count - at) * sizeof *memory_table);
    memory_table[at] = r;
    memory_count++;
    memory_bytes += pinned ? 0 : bytes;
    if (!pinned && memory_hides() && !memory_is_open)
        memory_hide(r, 0);
    *out = r->base;
    return EMU_OK;
}

int emu_memory_put(void *p)
{
    if (!p)
        return EMU_OK;
    const size_t at = memory_above(p);
    if (at == 0 || memory_table[at - 1]->base != (unsigned char *)p)
        return EMU_INVALID_VALUE;
    struct emu_range *r = memory_table[at - 1];
    memory_gone[memory_gone_count++ % MEMORY_DEAD] = *r;
    memmove(memory_table + at - 1, memory_table + at, (memory_count - at) * sizeof *memory_table);
    memory_count--;
    memory_bytes -= r->pinned ? 0 : r->bytes;
    memory_unmap(r);
    free(r);
    return EMU_OK;
}

struct emu_range *emu_memory_find(const void *p, size_t bytes, int *inside)
{
    const unsigned char *at = p;
    *inside = 0;
    if (memory_count == 0)
        return NULL;
    if (memory_last < memory_count) {
        struct emu_range *r = memory_table[memory_last];
        if (at >= r->base && (size_t)(at - r->base) + bytes <= r->bytes) {
            *inside = 1;
            return r;
        }
    }
    const size_t above = memory_above(at);
    if (above > 0) {
        struct emu_range *r = memory_table[above - 1];
        if ((size_t)(at - r->base) + bytes <= r->bytes) {
            memory_last = above - 1;
            *inside = 1;
            return r;
        }
        if (above == memory_count || at - (r->base + r->bytes) <= memory_table[above]->base - at)
            return r;
    }
    return memory_table[above];
}

const struct emu_range *emu_memory_dead(const void *p)
{
    const unsigned char *at = p;
    for (uint64_t i = memory_gone_count; i > 0 && i + MEMORY_DEAD > memory_gone_count; i--) {
        const struct emu_range *r = &memory_gone[(i - 1) % MEMORY_DEAD];
        if (at >= r->base && at < r->base + r->bytes)
            return r;
    }
    return NULL;
}

size_t emu_memory_used(void) { return memory_bytes; }
