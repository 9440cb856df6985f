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

/* The batch-reduce product on an R x (N vectors) register tile; of the narrowest kind, one vector, columns may be cut. First
 * where sums begin and end. */
#define GY_MICRO_TILE(P, ATTR, V, W, ACC)                                                                              \
    ATTR GY_ALWAYS void P##_gemm_end(const struct gy_gemm_tile *t, V acc[][ACC], const int R, const int N)             \
    {                                                                                                                  \
        const int whole = N > 1 || t->cols == (W);                                                                     \
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
    ATTR GY_ALWAYS V P##_gemm_get(const struct gy_gemm_tile *t, const float *from, const int v, const int N)           \
    {                                                                                                                  \
        from += v * (W);                                                                                               \
        return N > 1 || t->cols == (W) ? P##_load(from) : P##_load_n(from, gy_max64(gy_min64(t->cols - v * (W), (W)), 0));\
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_gemm_begin(const struct gy_gemm_tile *t, V acc[][ACC], const int R, const int N)           \
    {                                                                                                                  \
        GY_UNROLL for (int v = 0; v < N; v++)                                                                          \
        {                                                                                                              \
            const V first = t->init != NULL ? P##_gemm_get(t, t->init, v, N) : P##_set1(0.0f);                         \
            GY_UNROLL for (int i = 0; i < R; i++) acc[i][v] = first;                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    /* Sums so far are added behind those of this slice, which so are rounded apart: errors grow with its length. */   \
    ATTR GY_ALWAYS void P##_gemm_add(const struct gy_gemm_tile *t, V acc[][ACC], const int R, const int N)             \
    {                                                                                                                  \
        if (t->init != NULL)                                                                                           \
            return;                                                                                                    \
        GY_UNROLL for (int i = 0; i < R; i++)                                                                          \
        {                                                                                                              \
            GY_UNROLL for (int v = 0; v < N; v++)                                                                      \
                acc[i][v] = P##_add(acc[i][v], P##_gemm_get(t, t->out[i] + t->out_first, v, N));                       \
        }                                                                                                              \
    }

/* The tile's sums end as activations (A, as in micro_rows.h), with their statistics; F: floats' operations where P's are pairs'. */
#define GY_MICRO_FINISH(P, F, A, ATTR, V, W, ACC)                                                                      \
    ATTR GY_ALWAYS void P##_finish_stats(const struct gy_gemm_finish *f, V acc[][ACC], const int R, const int v)       \
    {                                                                                                                  \
        float *const mean = f->mean + v * (W), *const m2 = f->m2 + v * (W);                                            \
        V sum = acc[0][v], dev = F##_set1(0.0f);                                                                       \
        GY_UNROLL for (int i = 1; i < R; i++) sum = F##_add(sum, acc[i][v]);                                           \
        V mid = F##_mul(sum, F##_set1(1.0f / (float)R));                                                               \
        GY_UNROLL for (int i = 0; i < R; i++)                                                                          \
        {                                                                                                              \
            const V d = F##_sub(acc[i][v], mid);                                                                       \
            dev = F##_fma(d, d, dev);                                                                                  \
        }                                                                                                              \
        if (f->before > 0) {                                                                                           \
            const float part = (float)R / (float)(f->before + R);                                                      \
            const V old = F##_load(mean), gap = F##_sub(mid, old);                                                     \
            mid = F##_fma(gap, F##_set1(part), old);                                                                   \
            dev = F##_add(F##_fma(F##_mul(gap, gap), F##_set1((float)f->before * part), dev), F##_load(m2));           \
        }                                                                                                              \
        F##_store(mean, mid);                                                                                          \
        F##_store(m2, dev);                                                                                            \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_gemm_finish(const struct gy_gemm_tile *t, V acc[][ACC], const int R, const int N)          \
    {                                                                                                                  \
        if (N < (ACC) || t->finish == NULL) {                                                                          \
            P##_gemm_end(t, acc, R, N);                                                                                \
            return;                                                                                                    \
        }                                                                                                              \
        const struct gy_gemm_finish own = *t->finish, *const f = &own; /* nothing that is stored can change it */      \
        if (f->mean != NULL) {                                                                                         \
            GY_UNROLL for (int v = 0; v < N; v++) P##_finish_stats(f, acc, R, v);                                      \
        }                                                                                                              \
        GY_UNROLL for (int i = 0; i < R; i++)                                                                          \
        {                                                                                                              \
            A##_elem *const to = (A##_elem *)f->rows[i] + f->first;                                                    \
            GY_UNROLL for (int v = 0; v < N; v += 2) A##_put_two(to + v * (W), acc[i][v], acc[i][v + 1], f);           \
        }                                                                                                              \
        if (f->stream && f->last)                                                                                      \
            F##_fence();                                                                                               \
    }

/* END: what is done with the sums. */
#define GY_MICRO_GEMM(P, ATTR, V, W, ACC, END)                                                                         \
    ATTR GY_ALWAYS void P##_gemm(const struct gy_gemm_tile *t, const int R, const int N)                               \
    {                                                                                                                  \
        const int goes = N == (ACC) && (W) >= 16; /* a step lasts long, and there are registers */                     \
        V acc[GY_ROWS_MAX][ACC];                                                                                       \
        P##_gemm_begin(t, acc, R, N);                                                                                  \
        const float *w = t->panel;                                                                                     \
        for (int64_t tap = 0; tap < t->taps; tap++) {                                                                  \
            const float *const *from = t->rows + tap * t->row_pitch, *p[GY_ROWS_MAX];                                  \
            GY_UNROLL for (int i = 0; i < R; i++) p[i] = from[i] + t->row_first;                                       \
            int64_t c = 0;                                                                                             \
            for (; N == 1 && c + 4 <= t->len; c += 4, w += 4 * (W)) {                                                  \
                V b[4];                                                                                                \
                GY_UNROLL for (int u = 0; u < 4; u++) b[u] = P##_load(w + u * (W));                                    \
                GY_UNROLL for (int u = 0; u < 4; u++)                                                                  \
                {                                                                                                      \
                    GY_UNROLL for (int i = 0; i < R; i++) acc[i][0] = P##_fma(P##_bcast(p[i] + c + u), b[u], acc[i][0]); \
                }                                                                                                      \
            }                                                                                                          \
            while (c < t->len) {                                                                                       \
                const int64_t line = c, end = gy_min64(c + GY_CACHE_LINE / (int64_t)sizeof(float), t->len);            \
                const int64_t asks = goes ? gy_gemm_asks(t, tap, line) : 0;                                            \
                for (int64_t i = t->ask.from; !goes && i < t->ask.to; i++) __builtin_prefetch(from[i] + t->row_first + c);\
                for (; c < end; c++, w += N * (W)) {                                                                   \
                    if (goes && c - line < asks)                                                                       \
                        gy_gemm_ask_step(t, from, tap, line, c - line);                                                \
                    V b[ACC];                                                                                          \
                    GY_UNROLL for (int v = 0; v < N; v++) b[v] = P##_load(w + v * (W));                                \
                    GY_UNROLL for (int i = 0; i < R; i++)                                                              \
                    {                                                                                                  \
                        const V a = P##_bcast(p[i] + c);                                                               \
                        GY_UNROLL for (int v = 0; v < N; v++) acc[i][v] = P##_fma(a, b[v], acc[i][v]);                 \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        P##_gemm_add(t, acc, R, N);                                                                                    \
        END(t, acc, R, N);                                                                                             \
    }

/* The outer product summed over pixels, from packed panels; cut as above. */
#define GY_MICRO_OUTER(P, ATTR, V, W, ACC)                                                                             \
    ATTR GY_ALWAYS void P##_outer(const struct gy_outer_tile *t, const int R, const int N)                             \
    {                                                                                                                  \
        const int whole = N > 1 || t->cols == (W);                                                                     \
        const V zero = P##_set1(0.0f);                                                                                 \
        V acc[GY_ROWS_MAX][ACC];                                                                                       \
        GY_UNROLL for (int i = 0; i < R; i++)                                                                          \
        {                                                                                                              \
            GY_UNROLL for (int v = 0; v < N; v++)                                                                      \
            {                                                                                                          \
                const float *from = t->dw + i * t->dw_pitch + v * (W);                                                 \
                const int64_t n = gy_max64(gy_min64(t->cols - v * (W), (W)), 0);                                       \
                if (!t->add) /* written at the end */                                                                  \
                    __builtin_prefetch(from, 1);                                                                       \
                acc[i][v] = !t->add ? zero : whole ? P##_load(from) : P##_load_n(from, n);                             \
            }                                                                                                          \
        }                                                                                                              \
        const float *x = t->x, *d = t->dy;                                                                             \
        const int64_t step = t->x_pitch > 0 ? t->x_pitch : N * (W);                                                    \
        for (int64_t at = 0; at < t->pixels; at++, x += step, d += t->dy_pitch) {                                      \
            if (t->at != NULL) {                                                                                       \
                d = t->dy + t->at[at] * t->dy_pitch;                                                                   \
                __builtin_prefetch(t->dy + t->at[at + GY_OUTER_AHEAD] * t->dy_pitch + (R - 1));                        \
            }                                                                                                          \
            if (at < t->asks)                                                                                          \
                __builtin_prefetch((const char *)t->ahead[at * t->ahead_step] + t->ahead_from, 0, 2);                  \
            V b[ACC];                                                                                                  \
            GY_UNROLL for (int v = 0; v < N; v++) b[v] = P##_load(x + v * (W));                                        \
            GY_UNROLL for (int i = 0; i < R; i++)                                                                      \
            {                                                                                                          \
                const V a = P##_bcast(d + i);                                                                          \
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
    }

/* Copies into panels and patches. */
#define GY_MICRO_COPY(P, ATTR, W)                                                                                      \
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
    enum { P##_lanes = (W) };                                                                                          \
    ATTR static void P##_gather_at(float *dst, int64_t width, const float *const *rows, const int32_t *at,             \
                                   int64_t count)                                                                      \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++, dst += width)                                                              \
            for (int64_t c = 0, v = 0; c < width; c += (W), v++)                                                       \
                P##_store(dst + c, P##_load(rows[i] + at[v]));                                                         \
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

/* Panels of rows: vectors are stored whole, and the next row overwrites what is too much. */
#define GY_MICRO_PANELS(P, ATTR, W)                                                                                    \
    ATTR static void P##_panels(float *dst, int64_t pitch, const float *const *rows, int64_t first, int64_t cols, int64_t width,\
                                int64_t count)                                                                         \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++, dst += width) {                                                            \
            const float *src = rows[i] + first, *ahead = rows[gy_min64(i + 4, count - 1)] + first;                     \
            float *to = dst;                                                                                           \
            for (int64_t c = 0; c < cols; c += width, to += pitch) {                                                   \
                __builtin_prefetch(ahead + c);                                                                         \
                for (int64_t v = c; v < c + width; v += (W))                                                           \
                    P##_store(to + v - c, v + (W) <= cols ? P##_load(src + v) : P##_load_n(src + v, gy_max64(cols - v, 0)));\
            }                                                                                                          \
        }                                                                                                              \
    }

/* The functions for one tile: R rows, N vectors. */
#define GY_MICRO_FN(P, ATTR, R, N)                                                                                     \
    ATTR static void P##_gemm_##R##_##N(const struct gy_gemm_tile *t) { P##_gemm(t, R, N); }                           \
    ATTR static void P##_outer_##R##_##N(const struct gy_outer_tile *t) { P##_outer(t, R, N); }

#endif
