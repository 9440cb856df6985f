/* SPDX-License-Identifier: MIT */
/* mem.c: arenas and the default hook. An arena's chunks form a list; each begins with a mem_chunk.
 * What the present chunk cannot hold begins a new one; the rest of the old one stays unused. */
#include "engine/base/mem.h"
#include "engine/base/memory.h"

#define MEM_CHUNK ((size_t)1 << 16)

struct mem_chunk {
    struct mem_chunk *next;
    struct gy_large memory; /* whole, this head included */
};

/* Refuses what the machine does not have. The system would grant it, and kill the process later. */
static void *mem_default_fn(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    uint64_t available;
    (void)user;
    if (new_bytes)
        return new_bytes > old_bytes && gy_memory_short(new_bytes - old_bytes, &available) ? NULL : realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

GY_INT struct gy_alloc gy_alloc_default(void) { return (struct gy_alloc){ mem_default_fn, NULL }; }

GY_INT void *gy_alloc_take(const struct gy_alloc *alloc, size_t count, size_t elem_bytes)
{
    size_t bytes;
    if (gy_mul_size(count, elem_bytes, &bytes) != 0)
        return NULL;
    bytes = bytes ? bytes : 1;
    void *p = alloc->fn(alloc->user, NULL, 0, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

/* No block has 0 bytes: a request for none takes one byte, and is resized and given back as one. */
static size_t mem_some(size_t bytes) { return bytes ? bytes : 1; }

GY_INT void *gy_alloc_grow(const struct gy_alloc *alloc, void *ptr, size_t old_count, size_t new_count,
                           size_t elem_bytes)
{
    size_t old_bytes, new_bytes;
    if (gy_mul_size(old_count, elem_bytes, &old_bytes) != 0 || gy_mul_size(new_count, elem_bytes, &new_bytes) != 0)
        return NULL;
    return alloc->fn(alloc->user, ptr, ptr ? mem_some(old_bytes) : 0, mem_some(new_bytes));
}

GY_INT void gy_alloc_free(const struct gy_alloc *alloc, void *ptr, size_t bytes)
{
    if (ptr)
        alloc->fn(alloc->user, ptr, mem_some(bytes), 0);
}

#define MEM_LARGE_PAGE ((size_t)2 << 20)

#if defined(__linux__)
#define MEM_ADVISE_LARGE 14 /* MADV_HUGEPAGE; POSIX headers hide it and the function */
extern int madvise(void *, size_t, int);

GY_INT void gy_mem_large_pages(void *ptr, size_t bytes)
{
    const size_t skip = (size_t)(-(uintptr_t)ptr & (MEM_LARGE_PAGE - 1));
    if (bytes > skip && bytes - skip >= MEM_LARGE_PAGE)
        (void)madvise((unsigned char *)ptr + skip, (bytes - skip) & ~(MEM_LARGE_PAGE - 1), MEM_ADVISE_LARGE);
}
#else
GY_INT void gy_mem_large_pages(void *ptr, size_t bytes)
{
    (void)ptr;
    (void)bytes;
}
#endif

/* Uncleared memory. large: from half a large page on it begins at one and fills whole ones. */
static int mem_take(struct gy_large *memory, const struct gy_alloc *alloc, size_t bytes, int large)
{
    const int pages = large && bytes >= MEM_LARGE_PAGE / 2 && bytes < SIZE_MAX / 2;
    const size_t whole = pages ? gy_align_up(bytes, MEM_LARGE_PAGE) : bytes;
    memset(memory, 0, sizeof *memory);
    memory->room = pages ? whole + MEM_LARGE_PAGE : whole;
    memory->memory = gy_alloc_grow(alloc, NULL, 0, memory->room, 1);
    if (!memory->memory)
        return -1;
    memory->bytes = (unsigned char *)memory->memory + (pages ? (size_t)(-(uintptr_t)memory->memory & (MEM_LARGE_PAGE - 1)) : 0);
    gy_mem_large_pages(memory->bytes, whole);
    return 0;
}

GY_INT int gy_large_take(struct gy_large *large, const struct gy_alloc *alloc, size_t bytes)
{
    if (mem_take(large, alloc, bytes, 1) == 0)
        return 0;
    memset(large, 0, sizeof *large);
    return -1;
}

GY_INT void gy_large_drop(struct gy_large *large, const struct gy_alloc *alloc)
{
    gy_alloc_free(alloc, large->memory, large->room);
    memset(large, 0, sizeof *large);
}

GY_INT void gy_arena_open_fixed(struct gy_arena *arena, void *block, size_t bytes)
{
    const size_t skip = (GY_CACHE_LINE - (uintptr_t)block % GY_CACHE_LINE) % GY_CACHE_LINE;
    memset(arena, 0, sizeof *arena);
    arena->reserved = bytes;
    if (skip < bytes) {
        arena->at = (unsigned char *)block + skip;
        arena->left = bytes - skip;
    }
}

GY_INT void gy_arena_open_hook(struct gy_arena *arena, const struct gy_alloc *alloc)
{
    memset(arena, 0, sizeof *arena);
    arena->alloc = *alloc;
}

/* A new chunk for at least `bytes`, which are cleared when given out. Its head and alignment take
 * two cache lines at any address, so an arena's chunks do not depend on addresses. */
static int mem_add_chunk(struct gy_arena *arena, size_t bytes, int large)
{
    struct gy_large memory;
    size_t whole;
    if (!arena->alloc.fn || gy_add_size(bytes, 2 * GY_CACHE_LINE, &whole) != 0)
        return -1;
    whole = whole < MEM_CHUNK ? MEM_CHUNK : whole;
    if (mem_take(&memory, &arena->alloc, whole, large) != 0)
        return -1;
    struct mem_chunk *chunk = (struct mem_chunk *)(void *)memory.bytes;
    chunk->next = arena->chunks;
    chunk->memory = memory;
    arena->chunks = chunk;
    arena->reserved += whole;
    const size_t past = (size_t)((uintptr_t)(chunk + 1) % GY_CACHE_LINE);
    arena->at = (unsigned char *)(chunk + 1) + (past ? GY_CACHE_LINE - past : 0);
    arena->left = whole - 2 * GY_CACHE_LINE;
    return 0;
}

GY_INT void *gy_arena_take(struct gy_arena *arena, size_t count, size_t elem_bytes)
{
    size_t bytes;
    if (arena->frozen) {
        arena->refused_after_freeze++;
        return NULL;
    }
    if (gy_mul_size(count, elem_bytes, &bytes) != 0 || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = gy_align_up(bytes ? bytes : 1, GY_CACHE_LINE);
    if (bytes > arena->left && mem_add_chunk(arena, bytes, 0) != 0)
        return NULL;
    void *p = arena->at;
    arena->at += bytes;
    arena->left -= bytes;
    arena->used += bytes;
    return memset(p, 0, bytes);
}

GY_INT int gy_arena_reserve(struct gy_arena *arena, size_t bytes)
{
    return arena->frozen || bytes > SIZE_MAX / 2 ? -1 : mem_add_chunk(arena, bytes, 1);
}

GY_INT char *gy_arena_text(struct gy_arena *arena, const char *text, size_t bytes)
{
    char *copy = bytes < SIZE_MAX ? gy_arena_take(arena, bytes + 1, 1) : NULL;
    if (copy && bytes)
        memcpy(copy, text, bytes);
    return copy;
}

GY_INT void gy_arena_freeze(struct gy_arena *arena) { arena->frozen = 1; }

GY_INT void gy_arena_close(struct gy_arena *arena)
{
    for (struct mem_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        struct gy_large memory = chunk->memory;
        next = chunk->next;
        gy_large_drop(&memory, &arena->alloc);
    }
    memset(arena, 0, sizeof *arena);
}
