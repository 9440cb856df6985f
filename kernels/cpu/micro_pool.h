/* SPDX-License-Identifier: MIT */
/* micro_pool.h: micro-kernels of pooling over one pixel's rectangle of cells (forward) or windows (backward), channels in
 * vectors. As in micro_rows.h, A is how activations lie in memory. P_pick(x, y, a, b) is a where x > y or x is no number, else
 * b; P_same(v, p, id, n) is v where the bytes p are id, else 0; P_put_bytes makes bytes of floats. Cell numbers are counted in
 * floats, which hold them exactly. A set without such instructions has P_bytes, floats of W bytes, and GY_MICRO_BYTES. */
#ifndef GY_CPU_MICRO_POOL_H
#define GY_CPU_MICRO_POOL_H
#include "micro_rows.h"

#define GY_MICRO_BYTES(P, ATTR, V, W)                                                                                  \
    ATTR GY_ALWAYS V P##_bytes_n(const uint8_t *p, int64_t n)                                                          \
    {                                                                                                                  \
        uint8_t t[W] = {0};                                                                                            \
        memcpy(t, p, (size_t)n);                                                                                       \
        return P##_bytes(t);                                                                                           \
    }                                                                                                                  \
    ATTR GY_ALWAYS V P##_same(V v, const uint8_t *p, float id, int64_t n)                                              \
    {                                                                                                                  \
        const V cell = n >= (W) ? P##_bytes(p) : P##_bytes_n(p, n);                                                    \
        return P##_keep(v, cell, P##_set1(id - 0.5f), P##_set1(id + 0.5f));                                            \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_put_bytes(uint8_t *p, V v, int64_t n)                                                      \
    {                                                                                                                  \
        float t[W];                                                                                                    \
        P##_store(t, v);                                                                                               \
        if (n >= (W))                                                                                                  \
            n = (W);                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            p[i] = (uint8_t)t[i];                                                                                      \
    }

#define GY_MICRO_POOL(P, A, ATTR, V, W)                                                                                \
    ATTR static void A##_pool_max(const struct gy_pool_rows *a)                                                        \
    {                                                                                                                  \
        const A##_elem *const x = a->x;                                                                                \
        for (int64_t c = 0; c < a->cols; c += (W)) {                                                                   \
            const int64_t n = a->cols - c;                                                                             \
            V best = P##_set1(-INFINITY), cell = P##_set1((float)a->id);                                               \
            for (int64_t r = 0; r < a->rows; r++) {                                                                    \
                for (int64_t s = 0; s < a->cells; s++) {                                                               \
                    const V v = A##_get(x + r * a->row_pitch + s * a->cell_pitch + c, n);                              \
                    const V id = P##_set1((float)(a->id + r * a->id_row + s * a->id_cell));                            \
                    cell = P##_pick(v, best, id, cell);                                                                \
                    best = P##_pick(v, best, v, best);                                                                 \
                }                                                                                                      \
            }                                                                                                          \
            A##_put((A##_elem *)a->y + c, best, n);                                                                    \
            if (a->cell != NULL)                                                                                       \
                P##_put_bytes(a->cell + c, cell, n);                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void A##_pool_back(const struct gy_pool_rows *a)                                                       \
    {                                                                                                                  \
        const A##_elem *const x = a->x;                                                                                \
        A##_elem *const y = a->y;                                                                                      \
        for (int64_t c = 0; c < a->cols; c += (W)) {                                                                   \
            const int64_t n = a->cols - c;                                                                             \
            V sum = a->add ? A##_get(y + c, n) : P##_set1(0.0f);                                                       \
            for (int64_t r = 0; r < a->rows; r++) {                                                                    \
                for (int64_t s = 0; s < a->cells; s++) {                                                               \
                    const int64_t at = r * a->row_pitch + s * a->cell_pitch + c;                                       \
                    const float id = (float)(a->id + r * a->id_row + s * a->id_cell);                                  \
                    const V v = P##_same(A##_get(x + at, n), a->from + at, id, n);                                     \
                    sum = P##_add(sum, v);                                                                             \
                }                                                                                                      \
            }                                                                                                          \
            A##_put(y + c, sum, n);                                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void A##_pool_sum(const struct gy_pool_rows *a, float scale)                                           \
    {                                                                                                                  \
        const A##_elem *const x = a->x;                                                                                \
        A##_elem *const y = a->y;                                                                                      \
        for (int64_t c = 0; c < a->cols; c += (W)) {                                                                   \
            const int64_t n = a->cols - c;                                                                             \
            V sum = P##_set1(0.0f);                                                                                    \
            for (int64_t r = 0; r < a->rows; r++) {                                                                    \
                V line = P##_set1(0.0f);                                                                               \
                for (int64_t s = 0; s < a->cells; s++) {                                                               \
                    const V v = A##_get(x + r * a->row_pitch + s * a->cell_pitch + c, n);                              \
                    line = P##_fma(v, P##_set1(a->share_cell[s]), line);                                               \
                }                                                                                                      \
                sum = P##_fma(line, P##_set1(a->share_row[r]), sum);                                                   \
            }                                                                                                          \
            sum = P##_mul(sum, P##_set1(scale));                                                                       \
            A##_put(y + c, a->add ? P##_add(A##_get(y + c, n), sum) : sum, n);                                         \
        }                                                                                                              \
    }

#define GY_MICRO_TABLE_POOL(A, DTYPE, KERNELS)                                                                         \
    do {                                                                                                               \
        (KERNELS)->pool_max[DTYPE] = A##_pool_max;                                                                     \
        (KERNELS)->pool_back[DTYPE] = A##_pool_back;                                                                   \
        (KERNELS)->pool_sum[DTYPE] = A##_pool_sum;                                                                     \
    } while (0)

#endif
