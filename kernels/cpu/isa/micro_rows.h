/* SPDX-License-Identifier: MIT */
/* micro_rows.h: micro-kernels of the passes over memory, written once as macros like those of micro.h. Activations
 * are read and written through a second prefix A, so that the same text serves float (A = P) and bf16: A_elem is
 * their type in memory; A_load, A_load_n, A_store, A_store_n and A_stream move W of them to and from a vector of
 * floats. Everything else is float. */
#ifndef GY_CPU_MICRO_ROWS_H
#define GY_CPU_MICRO_ROWS_H
#include "kernels/cpu/isa/micro.h"

#define GY_BN_ROWS 8       /* most rows of a block of batch norm's gradient */
#define GY_BN_RUN 1024     /* bytes of them, side by side in memory */
#define GY_NARROW_LOOKAHEAD 12 /* rows from what is written to the outputs that are prefetched */

/* Loads and stores of at most W elements. */
#define GY_MICRO_GET(P, ATTR, V, W)                                                                                    \
    ATTR GY_ALWAYS V P##_get(const P##_elem *p, int64_t n) { return n >= (W) ? P##_load(p) : P##_load_n(p, n); }       \
    ATTR GY_ALWAYS void P##_put(P##_elem *p, V v, int64_t n)                                                           \
    {                                                                                                                  \
        if (n >= (W))                                                                                                  \
            P##_store(p, v);                                                                                           \
        else                                                                                                           \
            P##_store_n(p, v, n);                                                                                      \
    }

/* Rows of a block of batch norm's gradient. Short rows go together, so that what belongs to columns stays in registers; long
 * ones go alone, since the processor fetches ahead what is read along a row. */
static inline int64_t gy_bn_rows_of(int64_t row_bytes)
{
    return row_bytes <= GY_BN_RUN / 4 ? gy_min64(GY_BN_RUN / gy_max64(row_bytes, 1), GY_BN_ROWS) : 1;
}

/* Blocks of a pass of batch norm's gradient over rows x columns; a vector that is left over is rare, and not worth a copy for
 * each case. */
#define GY_MICRO_BN_WALK(A, PASS, ATTR, W)                                                                             \
    ATTR static __attribute__((noinline)) void A##_##PASS##_rest(const struct gy_bn_rows *a, int64_t r, int64_t end,   \
                                                                 int64_t c, int masked, int made, int third)           \
    {                                                                                                                  \
        A##_##PASS##_block(a, r, end, c, 1, masked, made, third);                                                      \
    }                                                                                                                  \
    ATTR GY_ALWAYS void A##_##PASS##_with(const struct gy_bn_rows *a, const int masked, const int made, const int third)\
    {                                                                                                                  \
        const struct gy_bn_rows own = *a; /* nothing that is stored can change it */                                   \
        const int64_t rows = gy_bn_rows_of(own.cols * (int64_t)sizeof(A##_elem));                                      \
        for (int64_t r = 0; r < own.rows; r += rows) {                                                                 \
            const int64_t end = gy_min64(r + rows, own.rows);                                                          \
            int64_t c = 0;                                                                                             \
            for (; c + 2 * (W) <= own.cols; c += 2 * (W))                                                              \
                A##_##PASS##_block(&own, r, end, c, 2, masked, made, third);                                           \
            for (; c < own.cols; c += (W))                                                                             \
                A##_##PASS##_rest(a, r, end, c, masked, made, third);                                                  \
        }                                                                                                              \
    }

/* Columns go in vectors, the last one cut (n < W). */
#define GY_MICRO_ROWS(P, A, ATTR, V, W)                                                                                \
    ATTR GY_ALWAYS void A##_out(A##_elem *p, V v, int64_t n, int stream)                                               \
    {                                                                                                                  \
        if (stream)                                                                                                    \
            A##_stream(p, v);                                                                                          \
        else                                                                                                           \
            A##_put(p, v, n);                                                                                          \
    }                                                                                                                  \
    /* What is added: res, or that through a scale and a shift. */                                                     \
    ATTR GY_ALWAYS V A##_res(const A##_elem *res, const float *scale, const float *shift, int64_t c, int64_t n)        \
    {                                                                                                                  \
        const V v = A##_get(res + c, n);                                                                               \
        return scale != NULL ? P##_fma(v, P##_get(scale + c, n), P##_get(shift + c, n)) : v;                           \
    }                                                                                                                  \
    ATTR GY_ALWAYS void A##_affine_with(const struct gy_affine_rows *a, const int scaled, const int add)               \
    {                                                                                                                  \
        const A##_elem *const x = a->x, *const res = a->res;                                                           \
        const float *const res_scale = a->res_scale, *const res_shift = a->res_shift;                                  \
        A##_elem *const y = a->y;                                                                                      \
        const V lo = P##_set1(a->lo), hi = P##_set1(a->hi);                                                            \
        for (int64_t r = 0; r < a->rows; r++) {                                                                        \
            const int64_t at = r * a->pitch;                                                                           \
            for (int64_t c = 0; c < a->cols; c += (W)) {                                                               \
                const int64_t n = a->cols - c;                                                                         \
                V v = A##_get(x + at + c, n);                                                                          \
                gy_prefetch_ahead(x + at + c, GY_ROWS_LOOKAHEAD);                                                      \
                if (add)                                                                                               \
                    gy_prefetch_ahead(res + at + c, GY_ROWS_LOOKAHEAD);                                                \
                if (scaled)                                                                                            \
                    v = P##_fma(v, P##_get(a->scale + c, n), P##_get(a->shift + c, n));                                \
                if (add)                                                                                               \
                    v = P##_add(v, A##_res(res + at, res_scale, res_shift, c, n));                                     \
                v = P##_min(hi, P##_max(lo, v));                                                                       \
                A##_out(y + at + c, v, n, a->stream);                                                                  \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void A##_affine(const struct gy_affine_rows *a)                                                        \
    {                                                                                                                  \
        if (a->scale != NULL && a->res != NULL)                                                                        \
            A##_affine_with(a, 1, 1);                                                                                  \
        else if (a->scale != NULL)                                                                                     \
            A##_affine_with(a, 1, 0);                                                                                  \
        else if (a->res != NULL)                                                                                       \
            A##_affine_with(a, 0, 1);                                                                                  \
        else                                                                                                           \
            A##_affine_with(a, 0, 0);                                                                                  \
        if (a->stream)                                                                                                 \
            P##_fence();                                                                                               \
    }                                                                                                                  \
    ATTR GY_ALWAYS void A##_stats_block(const A##_elem *x, int64_t pitch, int64_t n, int64_t rows, V *mean, V *m2)     \
    {                                                                                                                  \
        V sum = A##_get(x, n);                                                                                         \
        for (int64_t r = 1; r < rows; r++)                                                                             \
            sum = P##_add(sum, A##_get(x + r * pitch, n));                                                             \
        const V mid = P##_mul(sum, P##_set1(1.0f / (float)rows));                                                      \
        V dev = P##_set1(0.0f);                                                                                        \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            const V d = P##_sub(A##_get(x + r * pitch, n), mid);                                                       \
            dev = P##_fma(d, d, dev);                                                                                  \
        }                                                                                                              \
        *mean = mid;                                                                                                   \
        *m2 = dev;                                                                                                     \
    }                                                                                                                  \
    /* The usual block: eight whole rows stay in registers; sums in pairs. */                                          \
    ATTR GY_ALWAYS void A##_stats_8(const A##_elem *x, int64_t pitch, V *mean, V *m2)                                  \
    {                                                                                                                  \
        V v[8], s[8];                                                                                                  \
        GY_UNROLL for (int r = 0; r < 8; r++) s[r] = v[r] = A##_load(x + r * pitch);                                   \
        GY_UNROLL for (int r = 0; r < 8; r += 2) s[r] = P##_add(s[r], s[r + 1]);                                       \
        const V mid = P##_mul(P##_add(P##_add(s[0], s[2]), P##_add(s[4], s[6])), P##_set1(0.125f));                    \
        GY_UNROLL for (int r = 0; r < 8; r++) v[r] = P##_sub(v[r], mid);                                               \
        GY_UNROLL for (int r = 0; r < 8; r++) s[r] = P##_mul(v[r], v[r]);                                              \
        GY_UNROLL for (int r = 0; r < 8; r += 2) s[r] = P##_add(s[r], s[r + 1]);                                       \
        *mean = mid;                                                                                                   \
        *m2 = P##_add(P##_add(s[0], s[2]), P##_add(s[4], s[6]));                                                       \
    }                                                                                                                  \
    /* Joins a block of count rows to the first rows rows. */                                                          \
    ATTR static void A##_stats_rows(const A##_elem *x, int64_t rows, int64_t count, int64_t cols, int64_t pitch,       \
                                    float *mean, float *m2)                                                            \
    {                                                                                                                  \
        const float part = (float)count / (float)(rows + count);                                                       \
        const V share = P##_set1(part), weight = P##_set1((float)rows * part);                                         \
        for (int64_t c = 0; c < cols; c += (W)) {                                                                      \
            const int64_t n = cols - c;                                                                                \
            V mid, dev;                                                                                                \
            if (count == 8 && n >= (W))                                                                                \
                A##_stats_8(x + c, pitch, &mid, &dev);                                                                 \
            else                                                                                                       \
                A##_stats_block(x + c, pitch, n, count, &mid, &dev);                                                   \
            if (rows > 0) {                                                                                            \
                const V old = P##_get(mean + c, n), gap = P##_sub(mid, old);                                           \
                mid = P##_fma(gap, share, old);                                                                        \
                dev = P##_add(P##_fma(P##_mul(gap, gap), weight, dev), P##_get(m2 + c, n));                            \
            }                                                                                                          \
            P##_put(mean + c, mid, n);                                                                                 \
            P##_put(m2 + c, dev, n);                                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void A##_stats(const void *in, int64_t rows, int64_t cols, int64_t pitch, float *mean, float *m2)      \
    {                                                                                                                  \
        const A##_elem *const x = in;                                                                                  \
        for (int64_t r = 0; r < rows; r += 8)                                                                          \
            A##_stats_rows(x + r * pitch, r, gy_min64(rows - r, 8), cols, pitch, mean, m2);                            \
    }                                                                                                                  \
    /* dy' of n columns at element `at`; dev: x - mean. masked: by y. made: by x * scale + shift [+ res], which goes to\
     * again. */                                                                                                       \
    ATTR GY_ALWAYS V A##_bn_dy(const struct gy_bn_rows *a, int64_t at, int64_t c, int64_t n, V scale, V shift, V mean, \
                               V *dev, const int masked, const int made, const int again)                              \
    {                                                                                                                  \
        const V lo = P##_set1(a->lo), hi = P##_set1(a->hi), x = A##_get((const A##_elem *)a->x + at, n);               \
        V d = A##_get((const A##_elem *)a->dy + at, n);                                                                \
        gy_prefetch_ahead((const A##_elem *)a->x + at, GY_ROWS_LOOKAHEAD);                                             \
        gy_prefetch_ahead((const A##_elem *)a->dy + at, GY_ROWS_LOOKAHEAD);                                            \
        if (made) {                                                                                                    \
            V y = P##_fma(x, scale, shift);                                                                            \
            if (a->res != NULL)                                                                                        \
                y = P##_add(y, A##_res((const A##_elem *)a->res + at - c, a->res_scale, a->res_shift, c, n));          \
            d = P##_keep(d, y, lo, hi);                                                                                \
            if (again)                                                                                                 \
                A##_out((A##_elem *)a->again + at, P##_min(hi, P##_max(lo, y)), n, a->stream);                         \
        } else if (masked) {                                                                                           \
            d = P##_keep(d, A##_get((const A##_elem *)a->y + at, n), lo, hi);                                          \
        }                                                                                                              \
        *dev = P##_sub(x, mean);                                                                                       \
        return d;                                                                                                      \
    }                                                                                                                  \
    /* A block: rows [first, end) of N vectors; what belongs to columns stays in registers. */                         \
    ATTR GY_ALWAYS void A##_bn_sums_block(const struct gy_bn_rows *a, int64_t first, int64_t end, int64_t from,        \
                                          const int N, const int masked, const int made, const int again)              \
    {                                                                                                                  \
        const int64_t n = N > 1 ? (W) : a->cols - from;                                                                \
        V sum0[2], sum1[2], mean[2], scale[2], shift[2], dev;                                                          \
        GY_UNROLL for (int v = 0; v < N; v++)                                                                          \
        {                                                                                                              \
            const int64_t c = from + v * (W);                                                                          \
            sum0[v] = first > 0 ? P##_get(a->sum0 + c, n) : P##_set1(0.0f);                                            \
            sum1[v] = first > 0 ? P##_get(a->sum1 + c, n) : P##_set1(0.0f);                                            \
            mean[v] = P##_get(a->mean + c, n);                                                                         \
            scale[v] = made ? P##_get(a->scale + c, n) : sum0[v];                                                      \
            shift[v] = made ? P##_get(a->shift + c, n) : sum0[v];                                                      \
        }                                                                                                              \
        for (int64_t r = first; r < end; r++) {                                                                        \
            GY_UNROLL for (int v = 0; v < N; v++)                                                                      \
            {                                                                                                          \
                const int64_t c = from + v * (W), at = r * a->pitch + c;                                               \
                const V d = A##_bn_dy(a, at, c, n, scale[v], shift[v], mean[v], &dev, masked, made, again);            \
                if (a->dres != NULL)                                                                                   \
                    A##_put((A##_elem *)a->dres + at, d, n);                                                           \
                sum0[v] = P##_add(sum0[v], d);                                                                         \
                sum1[v] = P##_fma(d, dev, sum1[v]);                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        GY_UNROLL for (int v = 0; v < N; v++)                                                                          \
        {                                                                                                              \
            P##_put(a->sum0 + from + v * (W), sum0[v], n);                                                             \
            P##_put(a->sum1 + from + v * (W), sum1[v], n);                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    GY_MICRO_BN_WALK(A, bn_sums, ATTR, W)                                                                              \
    ATTR static void A##_bn_sums(const struct gy_bn_rows *a)                                                           \
    {                                                                                                                  \
        if (a->scale != NULL && a->again != NULL)                                                                      \
            A##_bn_sums_with(a, 1, 1, 1);                                                                              \
        else if (a->scale != NULL)                                                                                     \
            A##_bn_sums_with(a, 1, 1, 0);                                                                              \
        else if (a->y != NULL)                                                                                         \
            A##_bn_sums_with(a, 1, 0, 0);                                                                              \
        else                                                                                                           \
            A##_bn_sums_with(a, 0, 0, 0);                                                                              \
        for (int64_t c = 0; c < a->cols; c += (W)) {                                                                   \
            const int64_t n = a->cols - c;                                                                             \
            P##_put(a->sum1 + c, P##_mul(P##_get(a->sum1 + c, n), P##_get(a->rstd + c, n)), n);                        \
        }                                                                                                              \
        if (a->stream)                                                                                                 \
            P##_fence();                                                                                               \
    }                                                                                                                  \
    ATTR GY_ALWAYS void A##_bn_back_block(const struct gy_bn_rows *a, int64_t first, int64_t end, int64_t from,        \
                                          const int N, const int masked, const int made, const int both)               \
    {                                                                                                                  \
        const int64_t n = N > 1 ? (W) : a->cols - from;                                                                \
        A##_elem *const dx = a->dx, *const dres = a->dres;                                                             \
        V mean[2], scale[2], shift[2], fa[2], fb[2], fc[2], dev;                                                       \
        GY_UNROLL for (int v = 0; v < N; v++)                                                                          \
        {                                                                                                              \
            const int64_t c = from + v * (W);                                                                          \
            mean[v] = P##_get(a->mean + c, n);                                                                         \
            scale[v] = made ? P##_get(a->scale + c, n) : mean[v];                                                      \
            shift[v] = made ? P##_get(a->shift + c, n) : mean[v];                                                      \
            fa[v] = P##_get(a->a + c, n);                                                                              \
            fb[v] = P##_get(a->b + c, n);                                                                              \
            fc[v] = P##_get(a->c + c, n);                                                                              \
        }                                                                                                              \
        for (int64_t r = first; r < end; r++) {                                                                        \
            GY_UNROLL for (int v = 0; v < N; v++)                                                                      \
            {                                                                                                          \
                const int64_t c = from + v * (W), at = r * a->pitch + c;                                               \
                const V d = A##_bn_dy(a, at, c, n, scale[v], shift[v], mean[v], &dev, masked, made, 0);                \
                if (both)                                                                                              \
                    A##_put(dres + at, a->add_dres ? P##_add(A##_get(dres + at, n), d) : d, n);                        \
                const V d_x = P##_fma(d, fa[v], P##_fma(dev, fb[v], fc[v]));                                           \
                A##_out(dx + at, a->add_dx ? P##_add(A##_get(dx + at, n), d_x) : d_x, n, a->stream);                   \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    GY_MICRO_BN_WALK(A, bn_back, ATTR, W)                                                                              \
    ATTR static void A##_bn_back(const struct gy_bn_rows *a)                                                           \
    {                                                                                                                  \
        if (a->dres != NULL) /* rare: a block that is left over is all of it */                                        \
            for (int64_t r = 0; r < a->rows; r++)                                                                      \
                for (int64_t c = 0; c < a->cols; c += (W))                                                             \
                    A##_bn_back_rest(a, r, r + 1, c, a->scale != NULL || a->y != NULL, a->scale != NULL, 1);           \
        else if (a->scale != NULL)                                                                                     \
            A##_bn_back_with(a, 1, 1, 0);                                                                              \
        else if (a->y != NULL)                                                                                         \
            A##_bn_back_with(a, 1, 0, 0);                                                                              \
        else                                                                                                           \
            A##_bn_back_with(a, 0, 0, 0);                                                                              \
        if (a->stream)                                                                                                 \
            P##_fence();                                                                                               \
    }                                                                                                                  \
    ATTR static void A##_back(const struct gy_back_rows *a)                                                            \
    {                                                                                                                  \
        const A##_elem *const dy = a->dy, *const y = a->y;                                                             \
        A##_elem *const dx = a->dx, *const dres = a->dres;                                                             \
        const V lo = P##_set1(a->lo), hi = P##_set1(a->hi);                                                            \
        for (int64_t c = 0; c < a->count; c += (W)) {                                                                  \
            const int64_t n = a->count - c;                                                                            \
            V d = A##_get(dy + c, n);                                                                                  \
            if (y != NULL)                                                                                             \
                d = P##_keep(d, A##_get(y + c, n), lo, hi);                                                            \
            if (dx != NULL)                                                                                            \
                A##_put(dx + c, a->add_dx ? P##_add(A##_get(dx + c, n), d) : d, n);                                    \
            if (dres != NULL)                                                                                          \
                A##_put(dres + c, a->add_dres ? P##_add(A##_get(dres + c, n), d) : d, n);                              \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void A##_col_sums(const void *in, int64_t rows, int64_t cols, int64_t pitch, float *sum)               \
    {                                                                                                                  \
        const A##_elem *const x = in;                                                                                  \
        for (int64_t c = 0; c < cols; c += (W)) {                                                                      \
            const int64_t n = cols - c;                                                                                \
            V s = A##_get(x + c, n);                                                                                   \
            for (int64_t r = 1; r < rows; r++)                                                                         \
                s = P##_add(s, A##_get(x + r * pitch + c, n));                                                         \
            P##_put(sum + c, P##_add(P##_get(sum + c, n), s), n);                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void A##_widen(float *dst, const void *in, int64_t count)                                              \
    {                                                                                                                  \
        const A##_elem *const src = in;                                                                                \
        for (int64_t c = 0; c < count; c += (W))                                                                       \
            P##_put(dst + c, A##_get(src + c, count - c), count - c);                                                  \
    }                                                                                                                  \
    ATTR GY_ALWAYS void A##_narrow_with(void *const *dst, int64_t at, const float *src, int64_t pitch, int64_t rows,   \
                                        int64_t cols, const int add)                                                   \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++, src += pitch) {                                                             \
            A##_elem *const to = (A##_elem *)dst[r] + at;                                                              \
            const A##_elem *const ahead = (const A##_elem *)dst[gy_min64(r + GY_NARROW_LOOKAHEAD, rows - 1)] + at;     \
            for (int64_t c = 0; c < cols; c += (W)) {                                                                  \
                if (c * (int64_t)sizeof(A##_elem) % GY_CACHE_LINE == 0)                                                \
                    __builtin_prefetch(ahead + c, 1);                                                                  \
                const V v = P##_get(src + c, cols - c);                                                                \
                A##_put(to + c, add ? P##_add(A##_get(to + c, cols - c), v) : v, cols - c);                            \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR static void A##_narrow(void *const *dst, int64_t at, const float *src, int64_t pitch, int64_t rows,           \
                                int64_t cols, int add)                                                                 \
    {                                                                                                                  \
        if (add)                                                                                                       \
            A##_narrow_with(dst, at, src, pitch, rows, cols, 1);                                                       \
        else                                                                                                           \
            A##_narrow_with(dst, at, src, pitch, rows, cols, 0);                                                       \
    }

/* What is float on both sides. */
#define GY_MICRO_FLAT(P, ATTR, V, W)                                                                                   \
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
            gy_prefetch_ahead(a->w + c, GY_ROWS_LOOKAHEAD);                                                            \
            gy_prefetch_ahead(a->m + c, GY_ROWS_LOOKAHEAD);                                                            \
            gy_prefetch_ahead(a->g + c, GY_ROWS_LOOKAHEAD);                                                            \
            const V d = P##_mul(inner, P##_fma(decay, w, P##_mul(P##_get(a->g + c, n), scale)));                       \
            const V m = P##_fma(mu, P##_get(a->m + c, n), d);                                                          \
            const V next = P##_fma(outer, a->nesterov ? P##_fma(mu, m, d) : m, w);                                     \
            P##_put(a->m + c, m, n);                                                                                   \
            P##_put(a->w + c, next, n);                                                                                \
            if (a->ema != NULL)                                                                                        \
                P##_average(a, c, next, n);                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR GY_ALWAYS V P##_moments(const struct gy_update_rows *a, int64_t c, int64_t n)             \
    {                                                                                              \
        V m = P##_get(a->m + c, n), v = P##_get(a->v + c, n);                                      \
        if (a->g != NULL) {                                                                        \
            const V g = P##_mul(P##_get(a->g + c, n), P##_set1(a->scale));                         \
            m = P##_fma(P##_set1(a->beta1), m, P##_mul(P##_set1(1.0f - a->beta1), g));             \
            v = P##_fma(P##_set1(a->beta2), v, P##_mul(P##_set1(1.0f - a->beta2), P##_mul(g, g))); \
            P##_put(a->m + c, m, n);                                                               \
            P##_put(a->v + c, v, n);                                                               \
        }                                                                                          \
        return P##_div(m, P##_fma(P##_sqrt(v), P##_set1(a->root), P##_set1(a->eps)));              \
    }                                                                                              \
    ATTR static void P##_adamw(const struct gy_update_rows *a)                                     \
    {                                                                                              \
        const V outer = P##_set1(-a->outer), decay = P##_set1(-a->decay);                          \
        for (int64_t c = 0; c < a->count; c += (W)) {                                              \
            const int64_t n = a->count - c;                                                        \
            const V old = P##_get(a->w + c, n);                                                    \
            const V next = P##_fma(outer, P##_moments(a, c, n), P##_fma(decay, old, old));         \
            P##_put(a->w + c, next, n);                                                            \
            if (a->ema != NULL)                                                                    \
                P##_average(a, c, next, n);                                                        \
        }                                                                                          \
    }                                                                                              \
    ATTR static void P##_lamb(const struct gy_update_rows *a, float *u)                            \
    {                                                                                              \
        const V outer = P##_set1(a->outer), decay = P##_set1(a->decay);                            \
        for (int64_t c = 0; c < a->count; c += (W)) {                                              \
            const int64_t n = a->count - c;                                                        \
            const V step = P##_mul(outer, P##_moments(a, c, n));                                   \
            P##_put(u + c, P##_fma(decay, P##_get(a->w + c, n), step), n);                         \
        }                                                                                          \
    }                                                                                              \
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
        (KERNELS)->gather_at = P##_gather_at;                                                                          \
        (KERNELS)->lanes = P##_lanes;                                                                                  \
        (KERNELS)->patches = P##_patches;                                                                              \
        (KERNELS)->depthwise = P##_depthwise;                                                                          \
        (KERNELS)->depth_grad = P##_depth_grad;                                                                        \
        (KERNELS)->sgd = P##_sgd;                                                                                      \
        (KERNELS)->adamw = P##_adamw;                                                                                  \
        (KERNELS)->lamb = P##_lamb;                                                                                    \
        (KERNELS)->dot = P##_dot;                                                                                      \
    } while (0)

#define GY_MICRO_TABLE_ROWS(A, DTYPE, KERNELS)                                                                         \
    do {                                                                                                               \
        (KERNELS)->affine[DTYPE] = A##_affine;                                                                         \
        (KERNELS)->stats[DTYPE] = A##_stats;                                                                           \
        (KERNELS)->bn_sums[DTYPE] = A##_bn_sums;                                                                       \
        (KERNELS)->bn_back[DTYPE] = A##_bn_back;                                                                       \
        (KERNELS)->back[DTYPE] = A##_back;                                                                             \
        (KERNELS)->col_sums[DTYPE] = A##_col_sums;                                                                     \
        (KERNELS)->widen[DTYPE] = A##_widen;                                                                           \
        (KERNELS)->narrow[DTYPE] = A##_narrow;                                                                         \
    } while (0)

#endif
