/* SPDX-License-Identifier: MIT */
/* micro_wino.h: the transforms of Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray 2016), channels in vectors:
 *     y = A' [ (G g G') * (B' d B) ] A     B' = 1 0 -1 0   G = 1    0    0     A' = 1 1  1  0
 *                                              0 1  1 0        1/2  1/2  1/2       0 1 -1 -1
 *                                              0 -1 1 0        1/2 -1/2  1/2
 *                                              0 1 0 -1        0    0    1
 * All factors are powers of two. Each is applied to columns, then to rows, in registers. The weight gradient goes the same
 * way backward: dg = G' [ (A dy A') * (B' d B) ] G, summed over tiles inside the brackets. */
#ifndef GY_CPU_MICRO_WINO_H
#define GY_CPU_MICRO_WINO_H
#include "micro.h"

#define GY_MICRO_WINO(P, ATTR, V, W)                                                                                   \
    ATTR GY_ALWAYS void P##_wino_b(V *o, V a, V b, V c, V d, const int step)                                           \
    {                                                                                                                  \
        o[0] = P##_sub(a, c);                                                                                          \
        o[step] = P##_add(b, c);                                                                                       \
        o[2 * step] = P##_sub(c, b);                                                                                   \
        o[3 * step] = P##_sub(b, d);                                                                                   \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_wino_g(V *o, V a, V b, V c, const int step)                                                \
    {                                                                                                                  \
        const V half = P##_set1(0.5f), ac = P##_add(a, c);                                                             \
        o[0] = a;                                                                                                      \
        o[step] = P##_mul(half, P##_add(ac, b));                                                                       \
        o[2 * step] = P##_mul(half, P##_sub(ac, b));                                                                   \
        o[3 * step] = c;                                                                                               \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_wino_a(V *o, V a, V b, V c, V d, const int step)                                           \
    {                                                                                                                  \
        o[0] = P##_add(a, P##_add(b, c));                                                                              \
        o[step] = P##_sub(P##_sub(b, c), d);                                                                           \
    }                                                                                                                  \
    /* v[(i * 4 + j) * pitch + c] = (B' d B)[i][j], d from 16 pixels. */                                               \
    ATTR static void P##_wino_input(float *v, int64_t pitch, const float *const *d, int64_t count)                     \
    {                                                                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V t[16], o[16];                                                                                            \
            GY_UNROLL for (int j = 0; j < 4; j++)                                                                      \
                P##_wino_b(t + j, P##_get(d[j] + c, n), P##_get(d[4 + j] + c, n), P##_get(d[8 + j] + c, n),            \
                           P##_get(d[12 + j] + c, n), 4);                                                              \
            GY_UNROLL for (int i = 0; i < 4; i++)                                                                      \
                P##_wino_b(o + 4 * i, t[4 * i], t[4 * i + 1], t[4 * i + 2], t[4 * i + 3], 1);                          \
            GY_UNROLL for (int i = 0; i < 16; i++) P##_put(v + i * pitch + c, o[i], n);                                \
        }                                                                                                              \
    }                                                                                                                  \
    /* u[(i * 4 + j) * pitch + c] = (G g G')[i][j], g from 9 taps. */                                                  \
    ATTR static void P##_wino_filter(float *u, int64_t pitch, const float *const *g, int64_t count)                    \
    {                                                                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V t[12], o[16];                                                                                            \
            GY_UNROLL for (int j = 0; j < 3; j++)                                                                      \
                P##_wino_g(t + j, P##_get(g[j] + c, n), P##_get(g[3 + j] + c, n), P##_get(g[6 + j] + c, n), 3);        \
            GY_UNROLL for (int i = 0; i < 4; i++) P##_wino_g(o + 4 * i, t[3 * i], t[3 * i + 1], t[3 * i + 2], 1);      \
            GY_UNROLL for (int i = 0; i < 16; i++) P##_put(u + i * pitch + c, o[i], n);                                \
        }                                                                                                              \
    }                                                                                                                  \
    /* y[i][c] = (A' m A)[i] + init[c] for four pixels; NULL: left out. */                                             \
    ATTR static void P##_wino_output(float *const *y, const float *m, int64_t pitch, const float *init, int64_t count) \
    {                                                                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            const V first = P##_get(init + c, n);                                                                      \
            V t[8], o[4];                                                                                              \
            GY_UNROLL for (int j = 0; j < 4; j++)                                                                      \
                P##_wino_a(t + j, P##_get(m + j * pitch + c, n), P##_get(m + (4 + j) * pitch + c, n),                  \
                           P##_get(m + (8 + j) * pitch + c, n), P##_get(m + (12 + j) * pitch + c, n), 4);              \
            GY_UNROLL for (int i = 0; i < 2; i++)                                                                      \
                P##_wino_a(o + 2 * i, t[4 * i], t[4 * i + 1], t[4 * i + 2], t[4 * i + 3], 1);                          \
            GY_UNROLL for (int i = 0; i < 4; i++)                                                                      \
            {                                                                                                          \
                if (y[i] != NULL)                                                                                      \
                    P##_put(y[i] + c, P##_add(o[i], first), n);                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_wino_spread(V *o, V a, V b, const int step)                                                \
    {                                                                                                                  \
        o[0] = a;                                                                                                      \
        o[step] = P##_add(a, b);                                                                                       \
        o[2 * step] = P##_sub(a, b);                                                                                   \
        o[3 * step] = P##_sub(P##_set1(0.0f), b);                                                                      \
    }                                                                                                                  \
    ATTR GY_ALWAYS void P##_wino_gather(V *o, V a, V b, V c, V d, const int step)                                      \
    {                                                                                                                  \
        const V half = P##_set1(0.5f);                                                                                 \
        o[0] = P##_fma(half, P##_add(b, c), a);                                                                        \
        o[step] = P##_mul(half, P##_sub(b, c));                                                                        \
        o[2 * step] = P##_fma(half, P##_add(b, c), d);                                                                 \
    }                                                                                                                  \
    /* m[(i * 4 + j) * pitch + c] = (A dy A')[i][j], dy from 4 pixels. */                                              \
    ATTR static void P##_wino_output_back(float *m, int64_t pitch, const float *const *dy, int64_t count)              \
    {                                                                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V t[8], o[16];                                                                                             \
            GY_UNROLL for (int j = 0; j < 2; j++)                                                                      \
                P##_wino_spread(t + j, P##_get(dy[j] + c, n), P##_get(dy[2 + j] + c, n), 2);                           \
            GY_UNROLL for (int i = 0; i < 4; i++) P##_wino_spread(o + 4 * i, t[2 * i], t[2 * i + 1], 1);               \
            GY_UNROLL for (int i = 0; i < 16; i++) P##_put(m + i * pitch + c, o[i], n);                                \
        }                                                                                                              \
    }                                                                                                                  \
    /* dg[tap][c] = (or +=) (G' u G)[tap]. */                                                                          \
    ATTR static void P##_wino_filter_back(float *const *dg, const float *u, int64_t pitch, int64_t count, int add)     \
    {                                                                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V t[12], o[9];                                                                                             \
            GY_UNROLL for (int j = 0; j < 4; j++)                                                                      \
                P##_wino_gather(t + j, P##_get(u + j * pitch + c, n), P##_get(u + (4 + j) * pitch + c, n),             \
                                P##_get(u + (8 + j) * pitch + c, n), P##_get(u + (12 + j) * pitch + c, n), 4);         \
            GY_UNROLL for (int i = 0; i < 3; i++)                                                                      \
                P##_wino_gather(o + 3 * i, t[4 * i], t[4 * i + 1], t[4 * i + 2], t[4 * i + 3], 1);                     \
            GY_UNROLL for (int i = 0; i < 9; i++)                                                                      \
                P##_put(dg[i] + c, add ? P##_add(P##_get(dg[i] + c, n), o[i]) : o[i], n);                              \
        }                                                                                                              \
    }

#define GY_MICRO_TABLE_WINO(P, KERNELS)                                                                                \
    do {                                                                                                               \
        (KERNELS)->wino_input = P##_wino_input;                                                                        \
        (KERNELS)->wino_filter = P##_wino_filter;                                                                      \
        (KERNELS)->wino_output = P##_wino_output;                                                                      \
        (KERNELS)->wino_output_back = P##_wino_output_back;                                                            \
        (KERNELS)->wino_filter_back = P##_wino_filter_back;                                                            \
    } while (0)

#endif
