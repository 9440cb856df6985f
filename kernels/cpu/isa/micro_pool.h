/* SPDX-License-Identifier: MIT */
/* micro_pool.h: micro-kernels of pooling over one pixel's rectangle of cells (forward) or windows (backward), channels in
 * vectors. As in micro_rows.h, A is how activations lie in memory. P_pick(x, y, a, b) is a where x > y or x is no number, else
 * b; P_same(v, p, id, n) is v where the bytes p are id, else 0; P_put_bytes makes bytes of floats. Cell numbers are counted in
 * floats, which hold them exactly. A set without such instructions has P_bytes, floats of W bytes, and GY_MICRO_BYTES, GY_MICRO_PUT_BYTES. */
#ifndef GY_CPU_MICRO_POOL_H
#define GY_CPU_MICRO_POOL_H
#include "kernels/cpu/isa/micro_rows.h"

#define GY_POOL_LOOKAHEAD 2 /* rows from what is read to what is prefetched */

#define GY_MICRO_BYTES(P, ATTR, V, W)                                                                                  \
    ATTR GY_ALWAYS V P##_bytes_n(const uint8_t *p, int64_t n)                                                          \
    {                                                                                                                  \
        uint8_t t[W] = {0};                                                                                            \
        memcpy(t, p, (size_t)n);                                                                                       \
        return P##_bytes(t);                                                                                           \
    }                                                                                                                  \
    ATTR GY_ALWAYS V P##_same(V v, const uint8_t *p, int id, int64_t n)                                                \
    {                                                                                                                  \
        const V cell = n >= (W) ? P##_bytes(p) : P##_bytes_n(p, n);                                                    \
        return P##_keep(v, cell, P##_set1((float)id - 0.5f), P##_set1((float)id + 0.5f));                              \
    }

#define GY_MICRO_PUT_BYTES(P, ATTR, V, W)                                                                              \
    ATTR GY_ALWAYS void P##_put_bytes(uint8_t *p, V v, int64_t n)                                                      \
    {                                                                                                                  \
        float t[W];                                                                                                    \
        P##_store(t, v);                                                                                               \
        if (n >= (W))                                                                                                  \
            n = (W);                                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            p[i] = (uint8_t)t[i];                                                                                      \
    }

/* Pixels one by one, columns in blocks of ACC vectors, which share what is made of a cell's number, and what is left of them. */
#define GY_MICRO_POOL_ROWS(P, A, ATTR, W, ACC, NAME)                                                                   \
    ATTR static void A##_##NAME(const struct gy_pool_rows *a)                                                          \
    {                                                                                                                  \
        for (int64_t i = 0; i < a->count; i++) {                                                                       \
            int64_t c = 0;                                                                                             \
            for (; (ACC) > 1 && c + (ACC) * (W) <= a->cols; c += (ACC) * (W))                                          \
                A##_##NAME##_part(a, i, c, (ACC) * (W), ACC);                                                          \
            for (; c < a->cols; c += (W))                                                                              \
                A##_##NAME##_part(a, i, c, a->cols - c, 1);                                                            \
        }                                                                                                              \
        if (a->stream)                                                                                                 \
            P##_fence();                                                                                               \
    }

#define GY_MICRO_POOL(P, A, ATTR, V, W, ACC)                                                                           \
    /* N vectors of pixel i from column c on, of left that there are. */                                               \
    ATTR GY_ALWAYS void A##_pool_max_part(const struct gy_pool_rows *a, int64_t i, int64_t c, int64_t left, const int N)\
    {                                                                                                                  \
        const struct gy_pool_span t = a->span[i];                                                                      \
        const A##_elem *x = (const A##_elem *)a->x + t.first * a->cols + c;                                            \
        V best[ACC], cell[ACC];                                                                                        \
        GY_UNROLL for (int v = 0; v < N; v++)                                                                          \
        {                                                                                                              \
            best[v] = P##_set1(-INFINITY);                                                                             \
            cell[v] = P##_set1((float)(a->id + t.id));                                                                 \
        }                                                                                                              \
        for (int64_t r = 0; r < a->rows; r++, x += a->row_pitch) {                                                     \
            for (int64_t s = 0; s < t.cells; s++) {                                                                    \
                const V id = P##_set1((float)(a->id + t.id + r * a->id_row + s * a->id_cell));                         \
                GY_UNROLL for (int v = 0; v < N; v++)                                                                  \
                {                                                                                                      \
                    const A##_elem *const at = x + s * a->cols + v * (W);                                              \
                    const V got = A##_get(at, left - v * (W));                                                         \
                    gy_prefetch_ahead(at, GY_POOL_LOOKAHEAD * a->row_pitch * (int64_t)sizeof *at);                     \
                    cell[v] = P##_pick(got, best[v], id, cell[v]);                                                     \
                    best[v] = P##_pick(got, best[v], got, best[v]);                                                    \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        GY_UNROLL for (int v = 0; v < N; v++)                                                                          \
        {                                                                                                              \
            const int64_t at = i * a->cols + c + v * (W);                                                              \
            A##_put((A##_elem *)a->y + at, best[v], left - v * (W));                                                   \
            if (a->cell != NULL)                                                                                       \
                P##_put_bytes(a->cell + at, cell[v], left - v * (W));                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR GY_ALWAYS void A##_pool_back_part(const struct gy_pool_rows *a, int64_t i, int64_t c, int64_t left, const int N)\
    {                                                                                                                  \
        const struct gy_pool_span t = a->span[i];                                                                      \
        const A##_elem *const x = a->x;                                                                                \
        A##_elem *const y = (A##_elem *)a->y + i * a->cols + c;                                                        \
        V sum[ACC];                                                                                                    \
        GY_UNROLL for (int v = 0; v < N; v++)                                                                          \
            sum[v] = a->add ? A##_get(y + v * (W), left - v * (W)) : P##_set1(0.0f);                                   \
        for (int64_t r = 0; r < a->rows; r++) {                                                                        \
            for (int64_t s = 0; s < t.cells; s++) {                                                                    \
                const int64_t at = r * a->row_pitch + (t.first + s) * a->cols + c;                                     \
                const int id = (int)(a->id + t.id + r * a->id_row + s * a->id_cell);                                   \
                gy_prefetch_ahead(a->from + at, GY_POOL_LOOKAHEAD * a->row_pitch);                                     \
                GY_UNROLL for (int v = 0; v < N; v++)                                                                  \
                {                                                                                                      \
                    const V got = A##_get(x + at + v * (W), left - v * (W));                                           \
                    gy_prefetch_ahead(x + at + v * (W), GY_POOL_LOOKAHEAD * a->row_pitch * (int64_t)sizeof *x);        \
                    sum[v] = P##_add(sum[v], P##_same(got, a->from + at + v * (W), id, left - v * (W)));               \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        GY_UNROLL for (int v = 0; v < N; v++)                                                                          \
        {                                                                                                              \
            if (a->stream)                                                                                             \
                A##_stream(y + v * (W), sum[v]);                                                                       \
            else                                                                                                       \
                A##_put(y + v * (W), sum[v], left - v * (W));                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void A##_pool_sum(const struct gy_pool_rows *a)                                                        \
    {                                                                                                                  \
        for (int64_t i = 0; i < a->count; i++) {                                                                       \
            const struct gy_pool_span t = a->span[i];                                                                  \
            const A##_elem *const x = (const A##_elem *)a->x + t.first * a->cols;                                      \
            const float *const share = a->share_cell + t.first;                                                        \
            const V scale = P##_set1(a->share_out != NULL ? a->scale * a->share_out[i] : a->scale);                    \
            A##_elem *const y = (A##_elem *)a->y + i * a->cols;                                                        \
            for (int64_t c = 0; c < a->cols; c += (W)) {                                                               \
                const int64_t n = a->cols - c;                                                                         \
                V sum = P##_set1(0.0f);                                                                                \
                for (int64_t r = 0; r < a->rows; r++) {                                                                \
                    V line = P##_set1(0.0f);                                                                           \
                    for (int64_t s = 0; s < t.cells; s++)                                                              \
                        line = P##_fma(A##_get(x + r * a->row_pitch + s * a->cols + c, n), P##_set1(share[s]), line);  \
                    sum = P##_fma(line, P##_set1(a->share_row[r]), sum);                                               \
                }                                                                                                      \
                sum = P##_mul(sum, scale);                                                                             \
                A##_put(y + c, a->add ? P##_add(A##_get(y + c, n), sum) : sum, n);                                     \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    GY_MICRO_POOL_ROWS(P, A, ATTR, W, ACC, pool_max)                                                                   \
    GY_MICRO_POOL_ROWS(P, A, ATTR, W, ACC, pool_back)

#define GY_MICRO_TABLE_POOL(A, DTYPE, KERNELS)                                                                         \
    do {                                                                                                               \
        (KERNELS)->pool_max[DTYPE] = A##_pool_max;                                                                     \
        (KERNELS)->pool_back[DTYPE] = A##_pool_back;                                                                   \
        (KERNELS)->pool_sum[DTYPE] = A##_pool_sum;                                                                     \
    } while (0)

#endif
