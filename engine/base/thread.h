/* SPDX-License-Identifier: MIT */
/* thread.h: a pool of threads that runs numbered tiles, for CPU kernels, solvers and packers. The
 * job alone fixes its tiles, never the number of threads. Any thread may run any tile, so a tile
 * must write only what belongs to it. Then results have the same bits for any number of threads.
 * The calling thread works, too; with one thread no other exists. */
#ifndef GY_THREAD_H
#define GY_THREAD_H
#include "engine/base/mem.h"
#include "engine/base/pin.h"

struct gy_pool;

/* tile in [0, tiles); thread in [0, threads): an index for private scratch. */
typedef void (*gy_tile_fn)(void *job, int64_t tile, int thread);

/* threads 0: one per processor that this process may run on. */
GY_INT int gy_pool_open(struct gy_pool **out, const struct gy_alloc *alloc, int threads, struct gy_error *err);
/* The same for work that computes all the time. At most one thread a processor runs, whatever
 * `threads` asks. how (enum gy_pin) gives threads their own processors; if it fails, *why (or NULL)
 * says why. ON binds workers; AUTO moves one that meets another. The caller is never bound. */
GY_INT int gy_pool_open_compute(struct gy_pool **out, const struct gy_alloc *alloc, int threads, int how, const char **why,
                                struct gy_error *err);
GY_INT int gy_pool_running(const struct gy_pool *pool); /* threads there are, with the caller */
GY_INT int gy_pool_is_pinned(const struct gy_pool *pool);
GY_INT void gy_pool_close(struct gy_pool *pool); /* NULL is fine */
GY_INT int gy_pool_threads(const struct gy_pool *pool);
/* Runs fn for each tile; returns when all are done. Not reentrant, one caller, no allocation. */
GY_INT void gy_pool_run(struct gy_pool *pool, gy_tile_fn fn, void *job, int64_t tiles);
GY_INT int gy_thread_count_available(void); /* processors in the affinity mask, at least 1 */

#endif
