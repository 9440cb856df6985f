/* SPDX-License-Identifier: MIT */
/* One body, compiled for the machine's least common vectors and again for wider ones. */
#include "add.h"

typedef float add_vector __attribute__((vector_size(32), aligned(4), may_alias));
#define ADD_WIDE ((int64_t)(sizeof(add_vector) / sizeof(float)))

static inline __attribute__((always_inline)) void add_body(float *to, const float *a, const float *b, int64_t count)
{
    int64_t i = 0;
    for (; i + 4 * ADD_WIDE <= count; i += 4 * ADD_WIDE) {
        add_vector *const out = (add_vector *)(to + i);
        const add_vector *const x = (const add_vector *)(a + i), *const y = (const add_vector *)(b + i);
        out[0] = x[0] + y[0];
        out[1] = x[1] + y[1];
        out[2] = x[2] + y[2];
        out[3] = x[3] + y[3];
    }
    for (; i < count; i++)
        to[i] = a[i] + b[i];
}

static inline __attribute__((always_inline)) void add_both_body(float *a, float *b, int64_t count)
{
    int64_t i = 0;
    for (; i + 4 * ADD_WIDE <= count; i += 4 * ADD_WIDE) {
        add_vector *const x = (add_vector *)(a + i), *const y = (add_vector *)(b + i);
        const add_vector sum[4] = {x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3]};
        x[0] = y[0] = sum[0];
        x[1] = y[1] = sum[1];
        x[2] = y[2] = sum[2];
        x[3] = y[3] = sum[3];
    }
    for (; i < count; i++)
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

#undef ADD_WIDE
