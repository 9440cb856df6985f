/* SPDX-License-Identifier: MIT */
/* micro.h: every micro-kernel written once, as macros over a vector type. An instruction set's file defines a dozen
 * inline operations with its prefix P (P_load, P_load_n, P_store, P_store_n, P_set1, P_add, P_sub, P_mul, P_fma,
 * P_div, P_sqrt, P_max, P_min, P_keep, P_stream, P_fence, and P_bcast: one element to all places) and instantiates: V the vector type, W its floats, ATTR
 * the function attribute that allows its instructions.
 *
 * Sums run in the written order, so the bits depend on the kernel set and the shapes only. */
#ifndef GY_CPU_MICRO_H
#define GY_CPU_MICRO_H
#include "kernels/cpu/isa/table.h"

/* Loops over registers are unrolled whole; where size counts they stay loops, and under a sanitizer, or compiling would take minutes. */
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

/* The first steps of the cache line at c prefetch: each a row's line, an output's, and those of a pair of rows. */
static inline int64_t gy_gemm_ask_count(const struct gy_gemm_tile *t, int64_t tap, int64_t c, int64_t count)
{
    return tap == 0 && c * (int64_t)sizeof(float) < t->ask.bytes ? count : 0;
}
static inline int64_t gy_gemm_asks(const struct gy_gemm_tile *t, int64_t tap, int64_t c)
{
    const int64_t outs = gy_gemm_ask_count(t, tap, c, gy_max64(t->ask.count, t->ask.besides));
    return gy_max64(t->ask.to - t->ask.from, outs);
}
static inline void gy_gemm_ask_step(const struct gy_gemm_tile *t, const float *const *rows, int64_t tap, int64_t c, int64_t i)
{
    if (t->ask.from + i < t->ask.to)
        __builtin_prefetch(rows[t->ask.from + i] + t->row_first + c);
    const int64_t at = t->ask.first / (int64_t)sizeof(float) + c;
    if (i < gy_gemm_ask_count(t, tap, c, t->ask.count))
        __builtin_prefetch((const float *)t->ask.outs[i] + at, 1);
    if (i < gy_gemm_ask_count(t, tap, c, t->ask.besides)) {
        __builtin_prefetch((const float *)t->ask.beside[i].at[0] + at);
        __builtin_prefetch((const float *)t->ask.beside[i].at[1] + at);
    }
}

#endif
