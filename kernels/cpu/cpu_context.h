/* SPDX-License-Identifier: MIT */
/* cpu_context.h: a CPU backend as its drivers see it, and what they all use: places in activations of either
 * type, scratch handed out piece by piece, rows cut into even tiles. A driver is a pair of functions:
 * ..._need tells the bytes of scratch that an op wants, ..._run does its work with all threads. */
#ifndef GY_CPU_CPU_H
#define GY_CPU_CPU_H
#include "engine/base/thread.h"
#include "kernels/cpu/isa/table.h"

/* A CPU backend as the drivers see it. */
#define GY_CHANNELS_MOST 4096 /* that zeros stand for */
struct gy_cpu {
    struct gy_kernels k;
    struct gy_pool *pool;
    int threads;
    float zeros[GY_CHANNELS_MOST]; /* what is read beside an image */
};

/* Element i of activations of type dtype; NULL stays NULL. */
static inline const void *gy_cpu_at(const void *base, int64_t i, int dtype)
{
    return !base ? NULL : (const unsigned char *)base + i * (dtype == GY_F32 ? 4 : 2);
}
static inline void *gy_cpu_out(void *base, int64_t i, int dtype)
{
    return !base ? NULL : (unsigned char *)base + i * (dtype == GY_F32 ? 4 : 2);
}

/* Bump allocation inside an op's scratch; with base NULL it only counts. */
struct gy_carve {
    unsigned char *base;
    size_t used;
};
static inline void *gy_carve_take(struct gy_carve *carve, size_t count, size_t elem_bytes)
{
    void *const at = carve->base ? (void *)(carve->base + carve->used) : NULL;
    carve->used = gy_align_up(carve->used + count * elem_bytes, GY_CACHE_LINE);
    return at;
}

/* Rows cut into as few tiles of at most `most` as there may be, as even as can be: tile i begins at rows * i / tiles, found without a
 * division a tile. */
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
