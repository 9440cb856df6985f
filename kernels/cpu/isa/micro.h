/* SPDX-License-Identifier: MIT */
/* micro.h: what the templates of micro-kernels (*.inc) share. A template is plain C that the file
 * of a kernel set includes, so that a debugger steps it. That file defines inline operations with
 * its prefix P: load, load_n, store, store_n, set1, add, sub, mul, fma, div, sqrt, max, min, keep,
 * stream, fence. P(bcast) puts one element into all places. Sums run in the written order: bits
 * depend on the kernel set and shapes only. */
#ifndef GY_CPU_MICRO_H
#define GY_CPU_MICRO_H
#include "kernels/cpu/isa/table.h"

/* Loops over registers are unrolled, but for size, or where a sanitizer would take minutes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__OPTIMIZE_SIZE__)
#define GY_UNROLL
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define GY_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define GY_UNROLL _Pragma("clang loop unroll(full)")
#endif
#else
#define GY_UNROLL _Pragma("GCC unroll 64")
#endif
#define GY_ALWAYS static inline __attribute__((always_inline))

#define GY_BN_ROWS 8           /* most rows of a block of batch norm's gradient */
#define GY_BN_RUN 1024         /* bytes of them, side by side in memory */
#define GY_NARROW_LOOKAHEAD 12 /* rows from what is written to the outputs that are prefetched */
#define GY_POOL_LOOKAHEAD 2    /* rows from what is read to what is prefetched, when pooling */

/* Loads and stores of at most W elements. A macro: each type in memory has but these two. */
#define GY_MICRO_GET(P, ATTR, V, W)                                                                \
    ATTR GY_ALWAYS V P##_get(const P##_elem *p, int64_t n)                                         \
    {                                                                                              \
        return n >= (W) ? P##_load(p) : P##_load_n(p, n);                                          \
    }                                                                                              \
    ATTR GY_ALWAYS void P##_put(P##_elem *p, V v, int64_t n)                                       \
    {                                                                                              \
        n >= (W) ? P##_store(p, v) : P##_store_n(p, v, n);                                         \
    }

/* Rows of a block of batch norm's gradient. Short rows go together, so that what belongs to columns
 * stays in registers. Long ones go alone: the processor fetches ahead what is read along a row. */
static inline int64_t gy_bn_rows_of(int64_t row_bytes)
{
    return row_bytes <= GY_BN_RUN / 4 ? gy_min64(GY_BN_RUN / gy_max64(row_bytes, 1), GY_BN_ROWS) : 1;
}

/* Names of templates: GY_JOIN(a512, load) is a512_load; what is given may be a macro itself. */
#define GY_PASTE(a, b) a##_##b
#define GY_JOIN(a, b) GY_PASTE(a, b)

#endif
