/* SPDX-License-Identifier: MIT */
/* add.c: one body is written in vectors of eight floats. It is compiled for what every processor of
 * the kind has, and on x86 again for AVX2, which a call chooses at run time. */
#include "net/schedule/add.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

typedef float add_vector __attribute__((vector_size(32), aligned(4), may_alias));
#define ADD_WIDE ((int64_t)(sizeof(add_vector) / sizeof(float)))

static inline __attribute__((always_inline)) void add_body(float *to, const float *a, const float *b, int64_t count)
{
    const int64_t whole = count / (4 * ADD_WIDE) * (4 * ADD_WIDE);
    for (int64_t i = 0; i < whole; i += 4 * ADD_WIDE) {
        add_vector *const out = (add_vector *)(to + i);
        const add_vector *const x = (const add_vector *)(a + i), *const y = (const add_vector *)(b + i);
        out[0] = x[0] + y[0];
        out[1] = x[1] + y[1];
        out[2] = x[2] + y[2];
        out[3] = x[3] + y[3];
    }
    for (int64_t i = whole; i < count; i++)
        to[i] = a[i] + b[i];
}

static inline __attribute__((always_inline)) void add_both_body(float *a, float *b, int64_t count)
{
    const int64_t whole = count / (4 * ADD_WIDE) * (4 * ADD_WIDE);
    for (int64_t i = 0; i < whole; i += 4 * ADD_WIDE) {
        add_vector *const x = (add_vector *)(a + i), *const y = (add_vector *)(b + i);
        const add_vector sum[4] = {x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3]};
        x[0] = y[0] = sum[0];
        x[1] = y[1] = sum[1];
        x[2] = y[2] = sum[2];
        x[3] = y[3] = sum[3];
    }
    for (int64_t i = whole; i < count; i++)
        a[i] = b[i] = a[i] + b[i];
}

#if defined(__x86_64__)
static __attribute__((target("avx2"))) void add_both_avx2(float *a, float *b, int64_t count)
{
    add_both_body(a, b, count);
}

static __attribute__((target("avx2"))) void add_avx2(float *to, const float *a, const float *b, int64_t count)
{
    add_body(to, a, b, count);
}
#endif

GY_INT void gy_net_sum2(float *to, const float *a, const float *b, int64_t count)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        add_avx2(to, a, b, count);
        return;
    }
#endif
    add_body(to, a, b, count);
}

GY_INT void gy_net_sum2_past(float *to, const float *a, const float *b, int64_t count)
{
    int64_t i = 0;
#if defined(__x86_64__)
    const int64_t line = GY_CACHE_LINE / (int64_t)sizeof(float), head = gy_min64((int64_t)(-(uintptr_t)to % GY_CACHE_LINE / sizeof(float)), count);
    gy_net_sum2(to, a, b, head);
    for (i = head; i + line <= count; i += line)
        for (int64_t k = i; k < i + line; k += 4)
            _mm_stream_ps(to + k, _mm_add_ps(_mm_loadu_ps(a + k), _mm_loadu_ps(b + k)));
#endif
    gy_net_sum2(to + i, a + i, b + i, count - i);
}

GY_INT void gy_net_past_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

GY_INT void gy_net_sum_both(float *a, float *b, int64_t count)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        add_both_avx2(a, b, count);
        return;
    }
#endif
    add_both_body(a, b, count);
}
