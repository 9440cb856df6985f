/* SPDX-License-Identifier: MIT */
/* prefetch.h: what a kernel prefetches while it computes, for the next piece of work. A driver
 * fills a struct with that piece. The kernel fetches a few lines a step: a core has only a few in
 * flight.
 *
 *     tile i     | step 0 | step 1 | step 2 | ...   computes on rows [0, from)
 *     prefetches | line   | line   | line   | ...   for i + 1: rows [from, to), outputs, row pairs
 *
 * A product over channels (gemm) has a struct gy_prefetch, one over pixels (outer) a struct
 * gy_lookahead. Passes over memory prefetch a fixed distance ahead of their reads. */
#ifndef GY_CPU_PREFETCH_H
#define GY_CPU_PREFETCH_H
#include "engine/base/base.h"

#define GY_ROWS_LOOKAHEAD 2048 /* bytes ahead of reads: past a page's end, where processors stop */

struct gy_prefetch_pair {
    const void *at[2];
};
struct gy_prefetch {
    int64_t from, to;   /* rows of the tile's list, as long as a step is */
    void *const *outs;  /* `bytes` bytes from byte `first` on: of `count` outputs, */
    const struct gy_prefetch_pair *pairs; /* and of pair_count pairs of rows */
    int64_t count, pair_count, first, bytes;
};
/* Byte `first` behind each of `count` pointers, every step-th of a list. */
struct gy_lookahead {
    const void *const *lines;
    int64_t first, step, count;
};

/* Outputs at once, from so many bytes on. */
static inline void gy_prefetch_outs(const struct gy_prefetch *p, int64_t bytes)
{
    for (int64_t byte = bytes; byte < p->bytes; byte += GY_CACHE_LINE)
        for (int64_t i = 0; i < p->count; i++)
            __builtin_prefetch((const char *)p->outs[i] + p->first + byte, 1);
}
/* Floats [0, len) of all rows at once, where the kernel does not do it as it goes. */
static inline void gy_prefetch_rows(const struct gy_prefetch *p, const float *const *rows, int64_t first, int64_t len)
{
    for (int64_t i = p->from; i < p->to; i++)
        for (int64_t c = 0; c < len; c += GY_CACHE_LINE / (int64_t)sizeof(float))
            __builtin_prefetch(rows[i] + first + c);
}
/* Of `count` lists, those that have a line at float c; only beside the first tap. */
static inline int64_t gy_prefetch_count(const struct gy_prefetch *p, int64_t tap, int64_t c, int64_t count)
{
    return tap == 0 && c * (int64_t)sizeof(float) < p->bytes ? count : 0;
}
/* Steps that prefetch for the cache line at float c: lines of a row, an output, a pair of rows. */
static inline int64_t gy_prefetch_steps(const struct gy_prefetch *p, int64_t tap, int64_t c)
{
    const int64_t outs = gy_prefetch_count(p, tap, c, gy_max64(p->count, p->pair_count));
    return gy_max64(p->to - p->from, outs);
}
static inline void gy_prefetch_step(const struct gy_prefetch *p, const float *const *rows, int64_t row_first,
                                    int64_t tap, int64_t c, int64_t i)
{
    if (p->from + i < p->to)
        __builtin_prefetch(rows[p->from + i] + row_first + c);
    const int64_t at = p->first / (int64_t)sizeof(float) + c;
    if (i < gy_prefetch_count(p, tap, c, p->count))
        __builtin_prefetch((const float *)p->outs[i] + at, 1);
    if (i < gy_prefetch_count(p, tap, c, p->pair_count)) {
        __builtin_prefetch((const float *)p->pairs[i].at[0] + at);
        __builtin_prefetch((const float *)p->pairs[i].at[1] + at);
    }
}
/* What lies so many bytes behind p, which may be behind all that there is. */
static inline void gy_prefetch_ahead(const void *p, int64_t bytes)
{
    __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)bytes));
}

#endif
