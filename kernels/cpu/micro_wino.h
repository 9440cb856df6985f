/* SPDX-License-Identifier: MIT */
/* micro_wino.h: the transforms of Winograd's minimal filtering F(m x m, 3 x 3) (Lavin and Gray 2016), channels in vectors:
 *     y = A' [ (G g G') * (B' d B) ] A
 * with g the 3x3 filter, d a tile of (m + 2)^2 inputs, y of m^2 outputs. Each matrix is applied to columns, then to rows,
 * in registers. The weight gradient goes the same way backward: dg = G' [ (A dy A') * (B' d B) ] G, summed over tiles
 * inside the brackets.
 *
 * m = 2, points 0, 1, -1, infinity: factors are powers of two.
 *     B' = 1 0 -1 0   G = 1    0    0     A' = 1 1  1  0
 *          0 1  1 0       1/2  1/2  1/2        0 1 -1 -1
 *          0 -1 1 0       1/2 -1/2  1/2
 *          0 1 0 -1       0    0    1
 * m = 4, points 0, s, -s, t, -t, infinity with s = 5/8, t = 3/2: of the pairs with exact factors the one with the least error,
 * about twice that of the plain sum (1 and 2, often seen, have four times). The polynomials, with x^i at column i:
 *     B':  (x^2 - s^2)(x^2 - t^2);  x (x +- s)(x^2 - t^2);  x (x +- t)(x^2 - s^2);  x (x^2 - s^2)(x^2 - t^2)
 *     A':  row i has (0, s, -s, t, -t)^i, and the last a 1 for infinity
 *     G:   (1 +-s s^2) / (2 s^2 (s^2 - t^2)), the same with t; 1 / (s^2 t^2) for 0 and 1 for infinity */
#ifndef GY_CPU_MICRO_WINO_H
#define GY_CPU_MICRO_WINO_H
#include "micro.h"

#define WINO_S 0.625f
#define WINO_T 1.5f
#define WINO_SS (WINO_S * WINO_S)
#define WINO_TT (WINO_T * WINO_T)
#define WINO_G0 (1.0f / (WINO_SS * WINO_TT))
#define WINO_GS (0.5f / (WINO_SS * (WINO_SS - WINO_TT)))
#define WINO_GT (0.5f / (WINO_TT * (WINO_TT - WINO_SS)))

/* Along one line: o (to steps apart) from d (by steps apart); to and by are constants. */
#define GY_MICRO_WINO_LINES_2(P, ATTR, V)                                                                              \
    ATTR GY_ALWAYS void P##_line_b_2(V *o, const int to, const V *d, const int by)                                     \
    {                                                                                                                  \
        o[0] = P##_sub(d[0], d[2 * by]);                                                                               \
        o[to] = P##_add(d[by], d[2 * by]);                                                                             \
        o[2 * to] = P##_sub(d[2 * by], d[by]);                                                                         \
        o[3 * to] = P##_sub(d[by], d[3 * by]);                                                                         \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_line_g_2(V *o, const int to, const V *g, const int by)                                     \
    {                                                                                                                  \
        const V half = P##_set1(0.5f), ends = P##_add(g[0], g[2 * by]);                                                \
        o[0] = g[0];                                                                                                   \
        o[to] = P##_mul(half, P##_add(ends, g[by]));                                                                   \
        o[2 * to] = P##_mul(half, P##_sub(ends, g[by]));                                                               \
        o[3 * to] = g[2 * by];                                                                                         \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_line_a_2(V *o, const int to, const V *m, const int by)                                     \
    {                                                                                                                  \
        o[0] = P##_add(m[0], P##_add(m[by], m[2 * by]));                                                               \
        o[to] = P##_sub(P##_sub(m[by], m[2 * by]), m[3 * by]);                                                         \
    }                                                                                                                  \
    /* A and G': backward. */                                                                                          \
    ATTR GY_ALWAYS void P##_line_spread_2(V *o, const int to, const V *y, const int by)                                \
    {                                                                                                                  \
        o[0] = y[0];                                                                                                   \
        o[to] = P##_add(y[0], y[by]);                                                                                  \
        o[2 * to] = P##_sub(y[0], y[by]);                                                                              \
        o[3 * to] = P##_sub(P##_set1(0.0f), y[by]);                                                                    \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_line_gather_2(V *o, const int to, const V *m, const int by)                                \
    {                                                                                                                  \
        const V half = P##_set1(0.5f), sum = P##_add(m[by], m[2 * by]);                                                \
        o[0] = P##_fma(half, sum, m[0]);                                                                               \
        o[to] = P##_mul(half, P##_sub(m[by], m[2 * by]));                                                              \
        o[2 * to] = P##_fma(half, sum, m[3 * by]);                                                                     \
    }

#define GY_MICRO_WINO_LINES_4(P, ATTR, V)                                                                              \
    /* o = even + f odd, even - f odd: the pair of points f and -f. */                                                 \
    ATTR GY_ALWAYS void P##_line_pair(V *o, const int to, V even, V odd, const float f)                                \
    {                                                                                                                  \
        o[0] = P##_fma(P##_set1(f), odd, even);                                                                        \
        o[to] = P##_fma(P##_set1(-f), odd, even);                                                                      \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_line_b_4(V *o, const int to, const V *d, const int by)                                     \
    {                                                                                                                  \
        const V ss = P##_set1(-WINO_SS), tt = P##_set1(-WINO_TT), both = P##_set1(-WINO_SS - WINO_TT);                 \
        const V product = P##_set1(WINO_SS * WINO_TT);                                                                 \
        o[0] = P##_fma(product, d[0], P##_fma(both, d[2 * by], d[4 * by]));                                            \
        P##_line_pair(o + to, to, P##_fma(tt, d[2 * by], d[4 * by]), P##_fma(tt, d[by], d[3 * by]), WINO_S);           \
        P##_line_pair(o + 3 * to, to, P##_fma(ss, d[2 * by], d[4 * by]), P##_fma(ss, d[by], d[3 * by]), WINO_T);       \
        o[5 * to] = P##_fma(product, d[by], P##_fma(both, d[3 * by], d[5 * by]));                                      \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_line_g_4(V *o, const int to, const V *g, const int by)                                     \
    {                                                                                                                  \
        const V s = P##_fma(P##_set1(WINO_SS), g[2 * by], g[0]), t = P##_fma(P##_set1(WINO_TT), g[2 * by], g[0]);      \
        o[0] = P##_mul(P##_set1(WINO_G0), g[0]);                                                                       \
        P##_line_pair(o + to, to, P##_mul(P##_set1(WINO_GS), s), g[by], WINO_GS * WINO_S);                             \
        P##_line_pair(o + 3 * to, to, P##_mul(P##_set1(WINO_GT), t), g[by], WINO_GT * WINO_T);                         \
        o[5 * to] = g[2 * by];                                                                                         \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_line_a_4(V *o, const int to, const V *m, const int by)                                     \
    {                                                                                                                  \
        const V s = P##_add(m[by], m[2 * by]), t = P##_add(m[3 * by], m[4 * by]);                                      \
        const V s1 = P##_sub(m[by], m[2 * by]), t1 = P##_sub(m[3 * by], m[4 * by]);                                    \
        o[0] = P##_add(m[0], P##_add(s, t));                                                                           \
        o[to] = P##_fma(P##_set1(WINO_S), s1, P##_mul(P##_set1(WINO_T), t1));                                          \
        o[2 * to] = P##_fma(P##_set1(WINO_SS), s, P##_mul(P##_set1(WINO_TT), t));                                      \
        o[3 * to] = P##_fma(P##_set1(WINO_S * WINO_SS), s1, P##_fma(P##_set1(WINO_T * WINO_TT), t1, m[5 * by]));       \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_line_spread_4(V *o, const int to, const V *y, const int by)                                \
    {                                                                                                                  \
        const V ss = P##_set1(WINO_SS), tt = P##_set1(WINO_TT);                                                        \
        o[0] = y[0];                                                                                                   \
        P##_line_pair(o + to, to, P##_fma(ss, y[2 * by], y[0]), P##_fma(ss, y[3 * by], y[by]), WINO_S);                \
        P##_line_pair(o + 3 * to, to, P##_fma(tt, y[2 * by], y[0]), P##_fma(tt, y[3 * by], y[by]), WINO_T);            \
        o[5 * to] = y[3 * by];                                                                                         \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_line_gather_4(V *o, const int to, const V *m, const int by)                                \
    {                                                                                                                  \
        const V s = P##_mul(P##_set1(WINO_GS), P##_add(m[by], m[2 * by]));                                             \
        const V t = P##_mul(P##_set1(WINO_GT), P##_add(m[3 * by], m[4 * by]));                                         \
        const V s1 = P##_sub(m[by], m[2 * by]), t1 = P##_sub(m[3 * by], m[4 * by]);                                    \
        o[0] = P##_fma(P##_set1(WINO_G0), m[0], P##_add(s, t));                                                        \
        o[to] = P##_fma(P##_set1(WINO_GS * WINO_S), s1, P##_mul(P##_set1(WINO_GT * WINO_T), t1));                      \
        o[2 * to] = P##_fma(P##_set1(WINO_SS), s, P##_fma(P##_set1(WINO_TT), t, m[5 * by]));                           \
    }

/* The transforms of filters and outputs, all float. M: outputs of a line, E = M + 2. */
#define GY_MICRO_WINO(P, ATTR, V, W, M, E)                                                                             \
    /* u[(i * E + j) * pitch + c] = (G g G')[i][j], g from 9 taps. */                                                  \
    ATTR static void P##_wino_filter_##M(float *u, int64_t pitch, const float *const *g, int64_t count)                \
    {                                                                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V w[9], t[3 * E], o[E * E];                                                                                \
            GY_UNROLL for (int i = 0; i < E * E; i++) __builtin_prefetch(u + i * pitch + c + (W), 1);                  \
            GY_UNROLL for (int i = 0; i < 9; i++) w[i] = P##_get(g[i] + c, n);                                         \
            GY_UNROLL for (int j = 0; j < 3; j++) P##_line_g_##M(t + j, 3, w + j, 3);                                  \
            GY_UNROLL for (int i = 0; i < E; i++) P##_line_g_##M(o + E * i, 1, t + 3 * i, 1);                          \
            GY_UNROLL for (int i = 0; i < E * E; i++) P##_put(u + i * pitch + c, o[i], n);                             \
        }                                                                                                              \
    }                                                                                                                  \
    /* y[i][c] = (A' m A)[i] + init[c] for M^2 pixels; NULL: left out. */                                              \
    ATTR static void P##_wino_output_##M(float *const *y, const float *m, int64_t pitch, const float *init,            \
                                           int64_t count)                                                              \
    {                                                                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            const V first = P##_get(init + c, n);                                                                      \
            V t[M * E];                                                                                                \
            GY_UNROLL for (int j = 0; j < E; j++)                                                                      \
            {                                                                                                          \
                V d[E];                                                                                                \
                GY_UNROLL for (int i = 0; i < E; i++) d[i] = P##_get(m + (i * E + j) * pitch + c, n);                  \
                P##_line_a_##M(t + j, E, d, 1);                                                                        \
            }                                                                                                          \
            GY_UNROLL for (int i = 0; i < M; i++)                                                                      \
            {                                                                                                          \
                V o[M];                                                                                                \
                P##_line_a_##M(o, 1, t + E * i, 1);                                                                    \
                GY_UNROLL for (int j = 0; j < M; j++)                                                                  \
                {                                                                                                      \
                    if (y[M * i + j] != NULL)                                                                          \
                        P##_put(y[M * i + j] + c, P##_add(o[j], first), n);                                            \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* dg[tap][c] = (or +=) (G' u G)[tap]. */                                                                          \
    ATTR static void P##_wino_filter_back_##M(float *const *dg, const float *u, int64_t pitch, int64_t count, int add) \
    {                                                                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V t[3 * E], o[9];                                                                                          \
            GY_UNROLL for (int j = 0; j < E; j++)                                                                      \
            {                                                                                                          \
                V d[E];                                                                                                \
                GY_UNROLL for (int i = 0; i < E; i++) d[i] = P##_get(u + (i * E + j) * pitch + c, n);                  \
                P##_line_gather_##M(t + j, E, d, 1);                                                                   \
            }                                                                                                          \
            GY_UNROLL for (int i = 0; i < 3; i++) P##_line_gather_##M(o + 3 * i, 1, t + E * i, 1);                     \
            GY_UNROLL for (int i = 0; i < 9; i++)                                                                      \
                P##_put(dg[i] + c, add ? P##_add(P##_get(dg[i] + c, n), o[i]) : o[i], n);                              \
        }                                                                                                              \
    }

/* The transforms of activations: prefix A reads them, as in micro_rows.h. What of the next tile (ahead) this one does not
 * have, and the places of the next channels, are fetched. */
#define GY_MICRO_WINO_ROWS(P, A, ATTR, V, W, M, E)                                                                     \
    /* v[(i * E + j) * pitch + c] = (B' d B)[i][j], d from E^2 pixels. */                                              \
    ATTR static void A##_wino_input_##M(float *v, int64_t pitch, const void *const *pixels, const void *const *ahead,  \
                                        int64_t count)                                                                 \
    {                                                                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V t[E * E];                                                                                                \
            GY_UNROLL for (int i = 0; i < E * E; i++) __builtin_prefetch(v + i * pitch + c + (W), 1);                  \
            GY_UNROLL for (int i = 2 * E; i < E * E; i++)                                                              \
            {                                                                                                          \
                if (i % E >= 2)                                                                                        \
                    __builtin_prefetch((const A##_elem *)ahead[i] + c);                                                \
            }                                                                                                          \
            GY_UNROLL for (int j = 0; j < E; j++)                                                                      \
            {                                                                                                          \
                V d[E];                                                                                                \
                GY_UNROLL for (int i = 0; i < E; i++) d[i] = A##_get((const A##_elem *)pixels[i * E + j] + c, n);      \
                P##_line_b_##M(t + j, E, d, 1);                                                                        \
            }                                                                                                          \
            GY_UNROLL for (int i = 0; i < E; i++)                                                                      \
            {                                                                                                          \
                V o[E];                                                                                                \
                P##_line_b_##M(o, 1, t + E * i, 1);                                                                    \
                GY_UNROLL for (int j = 0; j < E; j++) P##_put(v + (i * E + j) * pitch + c, o[j], n);                   \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* m[(i * E + j) * pitch + c] = (A dy A')[i][j], dy from M^2 pixels. */                                            \
    ATTR static void A##_wino_spread_##M(float *m, int64_t pitch, const void *const *dy, const void *const *ahead,     \
                                         int64_t count)                                                                \
    {                                                                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V t[M * E];                                                                                                \
            GY_UNROLL for (int i = 0; i < E * E; i++) __builtin_prefetch(m + i * pitch + c + (W), 1);                  \
            GY_UNROLL for (int i = 0; i < M * M; i++) __builtin_prefetch((const A##_elem *)ahead[i] + c);              \
            GY_UNROLL for (int j = 0; j < M; j++)                                                                      \
            {                                                                                                          \
                V d[M];                                                                                                \
                GY_UNROLL for (int i = 0; i < M; i++) d[i] = A##_get((const A##_elem *)dy[i * M + j] + c, n);          \
                P##_line_spread_##M(t + j, M, d, 1);                                                                   \
            }                                                                                                          \
            GY_UNROLL for (int i = 0; i < E; i++)                                                                      \
            {                                                                                                          \
                V o[E];                                                                                                \
                P##_line_spread_##M(o, 1, t + M * i, 1);                                                               \
                GY_UNROLL for (int j = 0; j < E; j++) P##_put(m + (i * E + j) * pitch + c, o[j], n);                   \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Both sizes of a kernel set: prefix P for float, H for bf16. */
#define GY_MICRO_WINOS(P, H, ATTR, V, W)                                                                               \
    GY_MICRO_WINO_LINES_2(P, ATTR, V)                                                                                  \
    GY_MICRO_WINO_LINES_4(P, ATTR, V)                                                                                  \
    GY_MICRO_WINO(P, ATTR, V, W, 2, 4)                                                                                 \
    GY_MICRO_WINO(P, ATTR, V, W, 4, 6)                                                                                 \
    GY_MICRO_WINO_ROWS(P, P, ATTR, V, W, 2, 4)                                                                         \
    GY_MICRO_WINO_ROWS(P, P, ATTR, V, W, 4, 6)                                                                         \
    GY_MICRO_WINO_ROWS(P, H, ATTR, V, W, 2, 4)                                                                         \
    GY_MICRO_WINO_ROWS(P, H, ATTR, V, W, 4, 6)

#define GY_MICRO_WINO_TABLE(P, H, M)                                                                                   \
    {                                                                                                                  \
        M, P##_wino_filter_##M, P##_wino_output_##M, P##_wino_filter_back_##M,                                         \
            {P##_wino_input_##M, H##_wino_input_##M}, {P##_wino_spread_##M, H##_wino_spread_##M}                       \
    }

#define GY_MICRO_TABLE_WINO(P, H, KERNELS)                                                                             \
    do {                                                                                                               \
        (KERNELS)->wino[0] = (struct gy_wino)GY_MICRO_WINO_TABLE(P, H, 2);                                             \
        (KERNELS)->wino[1] = (struct gy_wino)GY_MICRO_WINO_TABLE(P, H, 4);                                             \
    } while (0)

#endif
