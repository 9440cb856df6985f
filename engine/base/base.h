/* SPDX-License-Identifier: MIT */
/* base.h: fixes feature macros, linkage marks, the system headers that all files use, and
 * arithmetic on sizes that reports overflow. Every file of Gyre includes it first.
 *
 * engine/base knows nothing of nets, data or kernels; all other folders may include it. */
#ifndef GY_BASE_H
#define GY_BASE_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GY_INT marks every function that is shared between Gyre's own files; the amalgamation defines it
 * as static. There is no extern data: tables are reached through functions. */
#ifndef GY_INT
#define GY_INT
#endif

#if defined(__GNUC__)
#define GY_PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))
#else
#define GY_PRINTF(fmt_at, args_at)
#endif

#define GY_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define GY_STATIC_ASSERT(cond, tag) typedef char gy_assert_##tag[(cond) ? 1 : -1]

#define GY_CACHE_LINE 64 /* bytes; every tensor starts on a multiple of this */

static inline int64_t gy_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t gy_max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t gy_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* *out = a * b; returns 0, or -1 on overflow with *out untouched. */
static inline int gy_mul_size(size_t a, size_t b, size_t *out)
{
    if (b != 0 && a > SIZE_MAX / b)
        return -1;
    *out = a * b;
    return 0;
}

/* *out = a + b; returns 0, or -1 on overflow with *out untouched. */
static inline int gy_add_size(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b)
        return -1;
    *out = a + b;
    return 0;
}

/* *out = a * b for element counts (both >= 0); returns 0, or -1 on overflow with *out untouched. */
static inline int gy_mul_count(int64_t a, int64_t b, int64_t *out)
{
    if (a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b))
        return -1;
    *out = a * b;
    return 0;
}

/* Rounds bytes, below SIZE_MAX - align, up to a multiple of align (a power of two). */
static inline size_t gy_align_up(size_t bytes, size_t align) { return (bytes + align - 1) & ~(align - 1); }

#endif
