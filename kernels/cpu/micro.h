/* SPDX-License-Identifier: MIT */
/* micro.h: every micro-kernel written once, as macros over a vector type. An instruction set's file defines a dozen
 * inline operations with its prefix P (P_load, P_load_n, P_store, P_store_n, P_set1, P_add, P_sub, P_mul, P_fma,
 * P_div, P_sqrt, P_max, P_min, P_keep, P_stream, P_fence) and instantiates: V the vector type, W its floats, ATTR
 * the function attribute that allows its instructions.
 *
 * Sums run in the written order, so the bits depend on the kernel set and the shapes only. */
#ifndef GY_CPU_MICRO_H
#define GY_CPU_MICRO_H
#include "kernels.h"

/* Loops over registers are unrolled whole; under a sanitizer they stay loops, or compiling would take minutes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
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

/* The batch-reduce product on an R x (N vectors) register tile; part: the last vector is cut. */
#define GY_MICRO_GEMM(P, ATTR, V, W, ACC)                                                                              \
    ATTR GY_ALWAYS void P##_gemm_end(const struct gy_gemm_tile *t, V acc[][ACC], const int R, const int N)             \
    {                                                                                                                  \
        const int64_t whole = t->cols == (int64_t)N * (W);                                                             \
        GY_UNROLL for (int i = 0; i < R; i++)                                                                          \
        {                                                                                                              \
            float *out = t->out[i] + t->out_first;                                                                     \
            if (whole) {                                                                                               \
                GY_UNROLL for (int v = 0; v < N; v++) P##_store(out + v * (W), acc[i][v]);                             \
            } else {                                                                                                   \
                GY_UNROLL for (int v = 0; v < N; v++)                                                                  \
                {                                                                                                      \
                    if (t->cols > v * (W))                                                                             \
                        P##_store_n(out + v * (W), acc[i][v], gy_min64(t->cols - v * (W), (W)));                       \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_gemm_begin(const struct gy_gemm_tile *t, V acc[][ACC], const int R, const int N)           \
    {                                                                                                                  \
        const int64_t whole = t->cols == (int64_t)N * (W);                                                             \
        GY_UNROLL for (int i = 0; i < R; i++)                                                                          \
        {                                                                                                              \
            const float *from = t->init != NULL ? t->init : t->out[i] + t->out_first;                                  \
            GY_UNROLL for (int v = 0; v < N; v++)                                                                      \
            {                                                                                                          \
                if (whole)                                                                                             \
                    acc[i][v] = P##_load(from + v * (W));                                                              \
                else                                                                                                   \
                    acc[i][v] = P##_load_n(from + v * (W), gy_max64(gy_min64(t->cols - v * (W), (W)), 0));             \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_gemm(const struct gy_gemm_tile *t, const int R, const int N)                               \
    {                                                                                                                  \
        V acc[GY_ROWS_MAX][ACC];                                                                                       \
        P##_gemm_begin(t, acc, R, N);                                                                                  \
        const float *w = t->panel;                                                                                     \
        for (int64_t tap = 0; tap < t->taps; tap++) {                                                                  \
            const float *const *p = t->rows + tap * t->row_pitch;                                                      \
            int64_t c = 0;                                                                                             \
            for (; N == 1 && c + 4 <= t->len; c += 4, w += 4 * (W)) {                                                  \
                V b[4];                                                                                                \
                GY_UNROLL for (int u = 0; u < 4; u++) b[u] = P##_load(w + u * (W));                                    \
                GY_UNROLL for (int i = 0; i < R; i++)                                                                  \
                {                                                                                                      \
                    const float *x = p[i] + c;                                                                         \
                    GY_UNROLL for (int u = 0; u < 4; u++) acc[i][0] = P##_fma(P##_set1(x[u]), b[u], acc[i][0]);        \
                }                                                                                                      \
            }                                                                                                          \
            for (; c < t->len; c++, w += N * (W)) {                                                                    \
                V b[ACC];                                                                                              \
                GY_UNROLL for (int v = 0; v < N; v++) b[v] = P##_load(w + v * (W));                                    \
                GY_UNROLL for (int i = 0; i < R; i++)                                                                  \
                {                                                                                                      \
                    const V a = P##_set1(p[i][c]);                                                                     \
                    GY_UNROLL for (int v = 0; v < N; v++) acc[i][v] = P##_fma(a, b[v], acc[i][v]);                     \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        P##_gemm_end(t, acc, R, N);                                                                                    \
    }

/* The outer product summed over pixels, from packed panels. */
#define GY_MICRO_OUTER(P, ATTR, V, W, ACC)                                                                             \
    ATTR GY_ALWAYS void P##_outer(const struct gy_outer_tile *t, const int R, const int N)                             \
    {                                                                                                                  \
        const int64_t whole = t->cols == (int64_t)N * (W);                                                             \
        const V zero = P##_set1(0.0f);                                                                                 \
        V acc[GY_ROWS_MAX][ACC];                                                                                       \
        GY_UNROLL for (int i = 0; i < R; i++)                                                                          \
        {                                                                                                              \
            GY_UNROLL for (int v = 0; v < N; v++)                                                                      \
            {                                                                                                          \
                const float *from = t->dw + i * t->dw_pitch + v * (W);                                                 \
                const int64_t n = gy_max64(gy_min64(t->cols - v * (W), (W)), 0);                                       \
                acc[i][v] = !t->add ? zero : whole ? P##_load(from) : P##_load_n(from, n);                             \
            }                                                                                                          \
        }                                                                                                              \
        const float *x = t->x;                                                                                         \
        for (int64_t at = 0; at < t->pixels; at++, x += N * (W)) {                                                     \
            const float *d = t->dy + t->at[at] * t->dy_pitch;                                                          \
            __builtin_prefetch(t->dy + t->at[at + GY_OUTER_AHEAD] * t->dy_pitch);                                      \
            V b[ACC];                                                                                                  \
            GY_UNROLL for (int v = 0; v < N; v++) b[v] = P##_load(x + v * (W));                                        \
            GY_UNROLL for (int i = 0; i < R; i++)                                                                      \
            {                                                                                                          \
                const V a = P##_set1(d[i]);                                                                            \
                GY_UNROLL for (int v = 0; v < N; v++) acc[i][v] = P##_fma(a, b[v], acc[i][v]);                         \
            }                                                                                                          \
        }                                                                                                              \
        GY_UNROLL for (int i = 0; i < R; i++)                                                                          \
        {                                                                                                              \
            GY_UNROLL for (int v = 0; v < N; v++)                                                                      \
            {                                                                                                          \
                float *to = t->dw + i * t->dw_pitch + v * (W);                                                         \
                if (whole)                                                                                             \
                    P##_store(to, acc[i][v]);                                                                          \
                else if (t->cols > v * (W))                                                                            \
                    P##_store_n(to, acc[i][v], gy_min64(t->cols - v * (W), (W)));                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* Panel of x: dst [count][width] from rows[i] + first, zero beyond cols. */                                       \
    ATTR static void P##_gather(float *dst, int64_t width, const float *const *rows, int64_t first, int64_t cols,      \
                                int64_t count)                                                                         \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++, dst += width) {                                                            \
            const float *src = rows[i] + first;                                                                        \
            const float *ahead = rows[gy_min64(i + 16, count - 1)] + first;                                            \
            for (int64_t c = 0; c < width; c += (W)) {                                                                 \
                __builtin_prefetch(ahead + c);                                                                         \
                if (cols - c >= (W))                                                                                   \
                    P##_store(dst + c, P##_load(src + c));                                                             \
                else                                                                                                   \
                    P##_store(dst + c, P##_load_n(src + c, gy_max64(cols - c, 0)));                                    \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void P##_patches(float *dst, int64_t pitch, const float *const *rows, int64_t taps, int64_t len,       \
                                 int64_t count)                                                                        \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            float *to = dst + i * pitch;                                                                               \
            for (int64_t t = 0; t < taps; t++, to += len) {                                                            \
                for (int64_t c = 0; c < len; c += (W))                                                                 \
                    P##_store(to + c, P##_load(rows[t * count + i] + c));                                              \
            }                                                                                                          \
        }                                                                                                              \
    }

/* The functions for one tile: R rows, N vectors. */
#define GY_MICRO_FN(P, ATTR, R, N)                                                                                     \
    ATTR static void P##_gemm_##R##_##N(const struct gy_gemm_tile *t) { P##_gemm(t, R, N); }                           \
    ATTR static void P##_outer_##R##_##N(const struct gy_outer_tile *t) { P##_outer(t, R, N); }

/* Row kernels. Columns go in vectors, the last one cut (n < W). */
#define GY_MICRO_ROWS(P, ATTR, V, W)                                                                                   \
    ATTR GY_ALWAYS V P##_get(const float *p, int64_t n) { return n >= (W) ? P##_load(p) : P##_load_n(p, n); }          \
    ATTR GY_ALWAYS void P##_put(float *p, V v, int64_t n)                                                              \
    {                                                                                                                  \
        if (n >= (W))                                                                                                  \
            P##_store(p, v);                                                                                           \
        else                                                                                                           \
            P##_store_n(p, v, n);                                                                                      \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_out(float *p, V v, int64_t n, int stream)                                                  \
    {                                                                                                                  \
        if (stream)                                                                                                    \
            P##_stream(p, v);                                                                                          \
        else                                                                                                           \
            P##_put(p, v, n);                                                                                          \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_affine_with(const struct gy_affine_rows *a, const int scaled, const int res)               \
    {                                                                                                                  \
        const V lo = P##_set1(a->lo), hi = P##_set1(a->hi);                                                            \
        for (int64_t r = 0; r < a->rows; r++) {                                                                        \
            const int64_t at = r * a->pitch;                                                                           \
            for (int64_t c = 0; c < a->cols; c += (W)) {                                                               \
                const int64_t n = a->cols - c;                                                                         \
                V v = P##_get(a->x + at + c, n);                                                                       \
                if (scaled)                                                                                            \
                    v = P##_fma(v, P##_get(a->scale + c, n), P##_get(a->shift + c, n));                                \
                if (res)                                                                                               \
                    v = P##_add(v, P##_get(a->res + at + c, n));                                                       \
                P##_out(a->y + at + c, P##_min(hi, P##_max(lo, v)), n, a->stream);                                     \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void P##_affine(const struct gy_affine_rows *a)                                                        \
    {                                                                                                                  \
        if (a->scale != NULL && a->res != NULL)                                                                        \
            P##_affine_with(a, 1, 1);                                                                                  \
        else if (a->scale != NULL)                                                                                     \
            P##_affine_with(a, 1, 0);                                                                                  \
        else if (a->res != NULL)                                                                                       \
            P##_affine_with(a, 0, 1);                                                                                  \
        else                                                                                                           \
            P##_affine_with(a, 0, 0);                                                                                  \
        if (a->stream)                                                                                                 \
            P##_fence();                                                                                               \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_stats_block(const float *x, int64_t pitch, int64_t n, int64_t rows, V *mean, V *m2)        \
    {                                                                                                                  \
        V sum = P##_get(x, n);                                                                                         \
        for (int64_t r = 1; r < rows; r++)                                                                             \
            sum = P##_add(sum, P##_get(x + r * pitch, n));                                                             \
        const V mid = P##_mul(sum, P##_set1(1.0f / (float)rows));                                                      \
        V dev = P##_set1(0.0f);                                                                                        \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            const V d = P##_sub(P##_get(x + r * pitch, n), mid);                                                       \
            dev = P##_fma(d, d, dev);                                                                                  \
        }                                                                                                              \
        *mean = mid;                                                                                                   \
        *m2 = dev;                                                                                                     \
    }                                                                                                                  \
    /* The usual block: eight whole rows stay in registers; sums in pairs. */                                          \
    ATTR GY_ALWAYS void P##_stats_8(const float *x, int64_t pitch, V *mean, V *m2)                                     \
    {                                                                                                                  \
        V v[8], s[8];                                                                                                  \
        GY_UNROLL for (int r = 0; r < 8; r++) s[r] = v[r] = P##_load(x + r * pitch);                                   \
        GY_UNROLL for (int r = 0; r < 8; r += 2) s[r] = P##_add(s[r], s[r + 1]);                                       \
        const V mid = P##_mul(P##_add(P##_add(s[0], s[2]), P##_add(s[4], s[6])), P##_set1(0.125f));                    \
        GY_UNROLL for (int r = 0; r < 8; r++) v[r] = P##_sub(v[r], mid);                                               \
        GY_UNROLL for (int r = 0; r < 8; r++) s[r] = P##_mul(v[r], v[r]);                                              \
        GY_UNROLL for (int r = 0; r < 8; r += 2) s[r] = P##_add(s[r], s[r + 1]);                                       \
        *mean = mid;                                                                                                   \
        *m2 = P##_add(P##_add(s[0], s[2]), P##_add(s[4], s[6]));                                                       \
    }                                                                                                                  \
    /* Joins a block of count rows to the first rows rows. */                                                          \
    ATTR static void P##_stats_rows(const float *x, int64_t rows, int64_t count, int64_t cols, int64_t pitch,          \
                                    float *mean, float *m2)                                                            \
    {                                                                                                                  \
        const float part = (float)count / (float)(rows + count);                                                       \
        const V share = P##_set1(part), weight = P##_set1((float)rows * part);                                         \
        for (int64_t c = 0; c < cols; c += (W)) {                                                                      \
            const int64_t n = cols - c;                                                                                \
            V mid, dev;                                                                                                \
            if (count == 8 && n >= (W))                                                                                \
                P##_stats_8(x + c, pitch, &mid, &dev);                                                                 \
            else                                                                                                       \
                P##_stats_block(x + c, pitch, n, count, &mid, &dev);                                                   \
            if (rows > 0) {                                                                                            \
                const V old = P##_get(mean + c, n), gap = P##_sub(mid, old);                                           \
                mid = P##_fma(gap, share, old);                                                                        \
                dev = P##_add(P##_fma(P##_mul(gap, gap), weight, dev), P##_get(m2 + c, n));                            \
            }                                                                                                          \
            P##_put(mean + c, mid, n);                                                                                 \
            P##_put(m2 + c, dev, n);                                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void P##_stats(const float *x, int64_t rows, int64_t cols, int64_t pitch, float *mean, float *m2)      \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r += 8)                                                                          \
            P##_stats_rows(x + r * pitch, r, gy_min64(rows - r, 8), cols, pitch, mean, m2);                            \
    }                                                                                                                  \
    /* Sums of up to eight rows, added to sum0 and sum1. */                                                            \
    ATTR GY_ALWAYS void P##_bn_sums_rows(const struct gy_bn_rows *a, int64_t first, int64_t rows, const int masked)    \
    {                                                                                                                  \
        const V lo = P##_set1(a->lo), hi = P##_set1(a->hi);                                                            \
        for (int64_t c = 0; c < a->cols; c += (W)) {                                                                   \
            const int64_t n = a->cols - c;                                                                             \
            const V mean = P##_get(a->mean + c, n);                                                                    \
            V sum0 = P##_set1(0.0f), sum1 = sum0;                                                                      \
            for (int64_t r = 0; r < rows; r++) {                                                                       \
                const int64_t at = (first + r) * a->pitch + c;                                                         \
                V d = P##_get(a->dy + at, n);                                                                          \
                if (masked)                                                                                            \
                    d = P##_keep(d, P##_get(a->y + at, n), lo, hi);                                                    \
                sum0 = P##_add(sum0, d);                                                                               \
                sum1 = P##_fma(d, P##_sub(P##_get(a->x + at, n), mean), sum1);                                         \
            }                                                                                                          \
            P##_put(a->sum0 + c, P##_add(P##_get(a->sum0 + c, n), sum0), n);                                           \
            P##_put(a->sum1 + c, P##_fma(sum1, P##_get(a->rstd + c, n), P##_get(a->sum1 + c, n)), n);                  \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_bn_sums_with(const struct gy_bn_rows *a, const int masked)                                 \
    {                                                                                                                  \
        for (int64_t r = 0; r < a->rows; r += 8)                                                                       \
            P##_bn_sums_rows(a, r, gy_min64(a->rows - r, 8), masked);                                                  \
    }                                                                                                                  \
    ATTR static void P##_bn_sums(const struct gy_bn_rows *a)                                                           \
    {                                                                                                                  \
        if (a->y != NULL)                                                                                              \
            P##_bn_sums_with(a, 1);                                                                                    \
        else                                                                                                           \
            P##_bn_sums_with(a, 0);                                                                                    \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_bn_back_with(const struct gy_bn_rows *a, const int masked, const int res)                  \
    {                                                                                                                  \
        const V lo = P##_set1(a->lo), hi = P##_set1(a->hi);                                                            \
        for (int64_t r = 0; r < a->rows; r++) {                                                                        \
            for (int64_t c = 0; c < a->cols; c += (W)) {                                                               \
                const int64_t n = a->cols - c, at = r * a->pitch + c;                                                  \
                V d = P##_get(a->dy + at, n);                                                                          \
                if (masked)                                                                                            \
                    d = P##_keep(d, P##_get(a->y + at, n), lo, hi);                                                    \
                if (res)                                                                                               \
                    P##_put(a->dres + at, a->add_dres ? P##_add(P##_get(a->dres + at, n), d) : d, n);                  \
                const V dev = P##_sub(P##_get(a->x + at, n), P##_get(a->mean + c, n));                                 \
                V dx = P##_fma(dev, P##_get(a->b + c, n), P##_get(a->c + c, n));                                       \
                dx = P##_fma(d, P##_get(a->a + c, n), dx);                                                             \
                P##_out(a->dx + at, a->add_dx ? P##_add(P##_get(a->dx + at, n), dx) : dx, n, a->stream);               \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void P##_bn_back(const struct gy_bn_rows *a)                                                           \
    {                                                                                                                  \
        if (a->y != NULL && a->dres != NULL)                                                                           \
            P##_bn_back_with(a, 1, 1);                                                                                 \
        else if (a->y != NULL)                                                                                         \
            P##_bn_back_with(a, 1, 0);                                                                                 \
        else if (a->dres != NULL)                                                                                      \
            P##_bn_back_with(a, 0, 1);                                                                                 \
        else                                                                                                           \
            P##_bn_back_with(a, 0, 0);                                                                                 \
        if (a->stream)                                                                                                 \
            P##_fence();                                                                                               \
    }

/* Flat kernels: count floats in a row. */
#define GY_MICRO_FLAT(P, ATTR, V, W)                                                                                   \
    ATTR static void P##_back(const struct gy_back_rows *a)                                                            \
    {                                                                                                                  \
        const V lo = P##_set1(a->lo), hi = P##_set1(a->hi);                                                            \
        for (int64_t c = 0; c < a->count; c += (W)) {                                                                  \
            const int64_t n = a->count - c;                                                                            \
            V d = P##_get(a->dy + c, n);                                                                               \
            if (a->y != NULL)                                                                                          \
                d = P##_keep(d, P##_get(a->y + c, n), lo, hi);                                                         \
            if (a->dx != NULL)                                                                                         \
                P##_put(a->dx + c, a->add_dx ? P##_add(P##_get(a->dx + c, n), d) : d, n);                              \
            if (a->dres != NULL)                                                                                       \
                P##_put(a->dres + c, a->add_dres ? P##_add(P##_get(a->dres + c, n), d) : d, n);                        \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void P##_col_sums(const float *x, int64_t rows, int64_t cols, int64_t pitch, float *sum)               \
    {                                                                                                                  \
        for (int64_t c = 0; c < cols; c += (W)) {                                                                      \
            const int64_t n = cols - c;                                                                                \
            V s = P##_get(x + c, n);                                                                                   \
            for (int64_t r = 1; r < rows; r++)                                                                         \
                s = P##_add(s, P##_get(x + r * pitch + c, n));                                                         \
            P##_put(sum + c, P##_add(P##_get(sum + c, n), s), n);                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void P##_depthwise(float *y, const float *const *x, const float *const *w, int64_t taps, int64_t cols, \
                                   const float *init)                                                                  \
    {                                                                                                                  \
        for (int64_t c = 0; c < cols; c += (W)) {                                                                      \
            const int64_t n = cols - c;                                                                                \
            V s = init != NULL ? P##_get(init + c, n) : P##_set1(0.0f);                                                \
            for (int64_t t = 0; t < taps; t++)                                                                         \
                s = P##_fma(P##_get(x[t] + c, n), P##_get(w[t] + c, n), s);                                            \
            P##_put(y + c, s, n);                                                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void P##_depth_grad(float *const *sum, const float *const *x, const float *dy, int64_t taps,           \
                                    int64_t cols)                                                                      \
    {                                                                                                                  \
        for (int64_t c = 0; c < cols; c += (W)) {                                                                      \
            const int64_t n = cols - c;                                                                                \
            const V d = P##_get(dy + c, n);                                                                            \
            for (int64_t t = 0; t < taps; t++)                                                                         \
                P##_put(sum[t] + c, P##_fma(P##_get(x[t] + c, n), d, P##_get(sum[t] + c, n)), n);                      \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_average(const struct gy_update_rows *a, int64_t c, V w, int64_t n)                         \
    {                                                                                                                  \
        const V old = P##_mul(P##_get(a->ema + c, n), P##_set1(a->keep));                                              \
        P##_put(a->ema + c, P##_fma(P##_set1(1.0f - a->keep), w, old), n);                                             \
    }                                                                                                                  \
    ATTR static void P##_sgd(const struct gy_update_rows *a)                                                           \
    {                                                                                                                  \
        const V outer = P##_set1(-a->outer), inner = P##_set1(a->inner), mu = P##_set1(a->mu);                         \
        const V decay = P##_set1(a->decay), scale = P##_set1(a->scale);                                                \
        for (int64_t c = 0; c < a->count; c += (W)) {                                                                  \
            const int64_t n = a->count - c;                                                                            \
            const V w = P##_get(a->w + c, n);                                                                          \
            const V d = P##_mul(inner, P##_fma(decay, w, P##_mul(P##_get(a->g + c, n), scale)));                       \
            const V m = P##_fma(mu, P##_get(a->m + c, n), d);                                                          \
            const V next = P##_fma(outer, a->nesterov ? P##_fma(mu, m, d) : m, w);                                     \
            P##_put(a->m + c, m, n);                                                                                   \
            P##_put(a->w + c, next, n);                                                                                \
            if (a->ema != NULL)                                                                                        \
                P##_average(a, c, next, n);                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void P##_adamw(const struct gy_update_rows *a)                                                         \
    {                                                                                                                  \
        const V outer = P##_set1(-a->outer), decay = P##_set1(-a->decay), scale = P##_set1(a->scale);                  \
        const V b1 = P##_set1(a->beta1), b2 = P##_set1(a->beta2), root = P##_set1(a->root), eps = P##_set1(a->eps);    \
        const V b1_rest = P##_set1(1.0f - a->beta1), b2_rest = P##_set1(1.0f - a->beta2);                              \
        for (int64_t c = 0; c < a->count; c += (W)) {                                                                  \
            const int64_t n = a->count - c;                                                                            \
            const V old = P##_get(a->w + c, n), g = P##_mul(P##_get(a->g + c, n), scale);                              \
            const V m = P##_fma(b1, P##_get(a->m + c, n), P##_mul(b1_rest, g));                                        \
            const V v = P##_fma(b2, P##_get(a->v + c, n), P##_mul(b2_rest, P##_mul(g, g)));                            \
            const V below = P##_fma(P##_sqrt(v), root, eps);                                                           \
            const V next = P##_fma(outer, P##_div(m, below), P##_fma(decay, old, old));                                \
            P##_put(a->m + c, m, n);                                                                                   \
            P##_put(a->v + c, v, n);                                                                                   \
            P##_put(a->w + c, next, n);                                                                                \
            if (a->ema != NULL)                                                                                        \
                P##_average(a, c, next, n);                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static double P##_dot(const float *a, const float *b, int64_t count)                                          \
    {                                                                                                                  \
        V s[4];                                                                                                        \
        GY_UNROLL for (int j = 0; j < 4; j++) s[j] = P##_set1(0.0f);                                                   \
        for (int64_t c = 0; c < count; c += 4 * (W)) {                                                                 \
            GY_UNROLL for (int j = 0; j < 4; j++)                                                                      \
            {                                                                                                          \
                const int64_t n = gy_max64(count - c - j * (W), 0);                                                    \
                if (n > 0)                                                                                             \
                    s[j] = P##_fma(P##_get(a + c + j * (W), n), P##_get(b + c + j * (W), n), s[j]);                    \
            }                                                                                                          \
        }                                                                                                              \
        float part[W];                                                                                                 \
        P##_store(part, P##_add(P##_add(s[0], s[1]), P##_add(s[2], s[3])));                                            \
        double sum = 0.0;                                                                                              \
        for (int j = 0; j < (W); j++)                                                                                  \
            sum += (double)part[j];                                                                                    \
        return sum;                                                                                                    \
    }

#define GY_MICRO_TABLE(P, KERNELS)                                                                                     \
    do {                                                                                                               \
        (KERNELS)->gather = P##_gather;                                                                                \
        (KERNELS)->patches = P##_patches;                                                                              \
        (KERNELS)->affine = P##_affine;                                                                                \
        (KERNELS)->stats = P##_stats;                                                                                  \
        (KERNELS)->bn_sums = P##_bn_sums;                                                                              \
        (KERNELS)->bn_back = P##_bn_back;                                                                              \
        (KERNELS)->back = P##_back;                                                                                    \
        (KERNELS)->col_sums = P##_col_sums;                                                                            \
        (KERNELS)->depthwise = P##_depthwise;                                                                          \
        (KERNELS)->depth_grad = P##_depth_grad;                                                                        \
        (KERNELS)->sgd = P##_sgd;                                                                                      \
        (KERNELS)->adamw = P##_adamw;                                                                                  \
        (KERNELS)->dot = P##_dot;                                                                                      \
    } while (0)

#endif
