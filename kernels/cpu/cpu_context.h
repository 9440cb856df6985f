/* SPDX-License-Identifier: MIT */
/* cpu_context.h: a CPU backend as its drivers see it, and what they share. That is: places in
 * activations of either type, memory of plans, scratch in pieces, even tiles. A driver is a row of
 * drivers.c. Its ..._plan derives once, in prepare, what the op's shape decides; ..._run reads that
 * and works with all threads. Whatever derives takes a planner. run has none, and its struct gy_cpu
 * is const, so it can derive nothing. */
#ifndef GY_CPU_CPU_H
#define GY_CPU_CPU_H
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "kernels/cpu/isa/table.h"

/* A CPU backend as the drivers see it. */
#define GY_CHANNELS_MOST 4096 /* channels of gy_cpu.zeros */
struct gy_cpu {
    struct gy_kernels k;
    struct gy_pool *pool;
    int threads;
    int ref;                       /* references alone */
    int64_t plans;                 /* made so far: their number stands still while a net steps */
    float zeros[GY_CHANNELS_MOST]; /* what is read beside an image */
};

/* What makes plans: prepare has one, run has none. */
struct gy_planner {
    struct gy_cpu *cpu;
    struct gy_arena *arena;
    /* of an op inside the planned one */
    void (*prepare)(struct gy_planner *planner, struct gy_op *op);
    int full; /* the arena had no memory: the plan is not whole */
};
/* Zeroed memory of a plan, for as long as the op lives; NULL: none is left. */
static inline void *gy_planner_take(struct gy_planner *planner, int64_t count, size_t elem_bytes)
{
    void *const at = gy_arena_take(planner->arena, (size_t)count, elem_bytes);
    planner->cpu->plans++;
    planner->full |= !at;
    return at;
}

/* Element i of activations of type dtype; NULL stays NULL. */
static inline const void *gy_cpu_at(const void *base, int64_t i, int dtype)
{
    return !base ? NULL : (const unsigned char *)base + i * (dtype == GY_F32 ? 4 : 2);
}
static inline void *gy_cpu_out(void *base, int64_t i, int dtype)
{
    return !base ? NULL : (unsigned char *)base + i * (dtype == GY_F32 ? 4 : 2);
}

/* Cuts scratch into pieces before its address is known. The layout is a struct of pointers, made as
 * if scratch began at address 0; gy_scratch_move adds the address. */
static inline void *gy_scratch_take(size_t *used, size_t count, size_t elem_bytes)
{
    void *const at = (void *)(uintptr_t)*used;
    *used = gy_align_up(*used + count * elem_bytes, GY_CACHE_LINE);
    return at;
}
/* pieces: bytes of a struct that holds such pointers and nothing else. */
static inline void gy_scratch_move(void *pieces, size_t bytes, const void *base)
{
    for (size_t i = 0; i < bytes; i += sizeof(uintptr_t)) {
        uintptr_t at;
        memcpy(&at, (char *)pieces + i, sizeof at);
        at += (uintptr_t)base;
        memcpy((char *)pieces + i, &at, sizeof at);
    }
}

/* Rows cut into the fewest tiles of at most `most` rows, as even as possible. Tile i begins at rows
 * * i / tiles, found without a division a tile. */
struct gy_even {
    int64_t tiles, at, each, rest, carry;
};
static inline struct gy_even gy_even_tiles(int64_t rows, int64_t most)
{
    const int64_t tiles = gy_max64(gy_ceil_div(rows, most), 1);
    return (struct gy_even){tiles, 0, rows / tiles, rows % tiles, 0};
}
/* Where the next tile ends. */
static inline int64_t gy_even_next(struct gy_even *e)
{
    e->carry += e->rest;
    const int64_t one = e->carry >= e->tiles;
    e->carry -= one ? e->tiles : 0;
    return e->at += e->each + one;
}

#endif
