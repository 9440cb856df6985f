/* SPDX-License-Identifier: MIT */
/* mem.h: gives all memory of the library. Below is one allocator hook: the caller's, or malloc's.
 * An arena stands on it: a bump allocator that is released whole. It takes chunks from the hook, or
 * works in a fixed block (tests do). Plans, schedules, loaders and solvers keep tables in arenas.
 * After gy_arena_freeze allocations fail and are counted: steps of a net allocate nothing. */
#ifndef GY_MEM_H
#define GY_MEM_H
#include "engine/base/base.h"
#include "engine/base/memory.h"
#include "engine/base/status.h"

/* The hook of gyre_config: new_bytes 0 frees, ptr NULL allocates, otherwise resizes; memory is
 * aligned for any type. Returns NULL on failure (ptr stays valid then). May be called from any
 * thread. */
struct gy_alloc {
    void *(*fn)(void *user, void *ptr, size_t old_bytes, size_t new_bytes);
    void *user;
};

/* realloc and free; refuses what the machine does not have (memory.h) */
GY_INT struct gy_alloc gy_alloc_default(void);

/* count * elem_bytes zeroed bytes, or NULL (also on overflow). */
GY_INT void *gy_alloc_take(const struct gy_alloc *alloc, size_t count, size_t elem_bytes);
/* Resizes to new_count elements, new ones not cleared. NULL on failure, ptr still valid. */
GY_INT void *gy_alloc_grow(const struct gy_alloc *alloc, void *ptr, size_t old_count, size_t new_count,
                           size_t elem_bytes);
GY_INT void gy_alloc_free(const struct gy_alloc *alloc, void *ptr, size_t bytes); /* NULL is fine */

struct gy_arena {
    struct gy_alloc alloc; /* fn NULL: fixed block */
    void *chunks;          /* list of chunks taken from the hook */
    unsigned char *at;     /* next free byte of the present chunk or block */
    size_t left;           /* bytes left there */
    size_t used;           /* bytes handed out, padding included */
    size_t reserved;       /* bytes of all chunks, or the size of the fixed block */
    int frozen;
    int64_t refused_after_freeze;
};

GY_INT void gy_arena_open_fixed(struct gy_arena *arena, void *block, size_t bytes);
/* Asks the system to back [ptr, ptr + bytes) by large pages, as far as whole ones lie inside. It
 * may refuse; then nothing happens. */
GY_INT void gy_mem_large_pages(void *ptr, size_t bytes);
/* Memory that is not cleared. From half a large page on it has large pages of its own. */
struct gy_large {
    unsigned char *bytes;
    void *memory; /* as the hook gave it */
    size_t room;  /* of it */
};
/* -1: there is no memory; large is zeroed then */
GY_INT int gy_large_take(struct gy_large *large, const struct gy_alloc *alloc, size_t bytes);
/* zeroed is fine */
GY_INT void gy_large_drop(struct gy_large *large, const struct gy_alloc *alloc);
/* Takes one piece of such memory for the next `bytes` bytes of the arena. -1: there is none, and
 * nothing has changed. */
GY_INT int gy_arena_reserve(struct gy_arena *arena, size_t bytes);

GY_INT void gy_arena_open_hook(struct gy_arena *arena, const struct gy_alloc *alloc);
/* count * elem_bytes zeroed bytes at a cache line; NULL when exhausted, overflowing or frozen. */
GY_INT void *gy_arena_take(struct gy_arena *arena, size_t count, size_t elem_bytes);
/* copy, NUL added; or NULL */
GY_INT char *gy_arena_text(struct gy_arena *arena, const char *text, size_t bytes);
GY_INT void gy_arena_freeze(struct gy_arena *arena);
/* gives every chunk back; safe on a zeroed struct */
GY_INT void gy_arena_close(struct gy_arena *arena);

#define GY_NOMEM(err, what, bytes)                                                                                     \
    GY_FAIL((err), GY_E_NOMEM, "out of memory: %s needs %zu bytes%s", (what), (size_t)(bytes), gy_memory_words((char[64]){ 0 }, 64, (uint64_t)(bytes)))

#endif
