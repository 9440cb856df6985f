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

/* Names of templates: GY_JOIN(a512, load) is a512_load; what is given may be a macro itself. */
#define GY_PASTE(a, b) a##_##b
#define GY_JOIN(a, b) GY_PASTE(a, b)

#endif
