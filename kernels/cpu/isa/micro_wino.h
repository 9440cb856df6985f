/* SPDX-License-Identifier: MIT */
/* micro_wino.h: the transforms of Winograd's minimal filtering F(m x m, r x r) (Lavin and Gray 2016), channels in vectors:
 *     y = A' [ (G g G') * (B' d B) ] A
 * with g the r x r filter, d a tile of e x e inputs, e = m + r - 1, y of m^2 outputs. Each matrix is applied to columns, then to
 * rows, a line at a time. The weight gradient goes the same way backward: dg = G' [ (A dy A') * (B' d B) ] G, summed over
 * tiles inside the brackets.
 *
 * A line is Toom and Cook's product of polynomials, by their values at e points: 0, pairs f and -f, and infinity where e is
 * even. With x^i at column i, q the pairs other than f:
 *     B':  prod(x^2 - f^2);  x (x +- f) prod(x^2 - q^2) for +-f;  x prod(x^2 - f^2) for infinity
 *     A':  row i has the points to the power i, and the last row a 1 for infinity
 *     G:   1 / prod(-f^2);  (1, +-f, f^2, ...) / (2 f^2 prod(f^2 - q^2)) for +-f;  0 ... 0 1 for infinity
 * so that a size is its points. Of the multiples of 1/8 with the least error: beside that of the plain sum about twice with two
 * pairs (1 and 2, often seen, have four times), 4 with three, 7 with three and infinity and 19 with four. Most of it comes
 * from the sums over channels: short ones, added up, have less.
 */
#ifndef GY_CPU_MICRO_WINO_H
#define GY_CPU_MICRO_WINO_H
#include "kernels/cpu/isa/micro.h"

/* What the matrices hold, of two, three or four pairs. */
#define WINO_PAIRS_MAX 4
struct wino_points {
    float f[WINO_PAIRS_MAX];
    float rest[WINO_PAIRS_MAX][WINO_PAIRS_MAX - 1]; /* prod(x^2 - q^2): at x^0, x^2, ...; the last one is 1 */
    float all[WINO_PAIRS_MAX];                      /* prod(x^2 - f^2), likewise */
    float zero, scale[WINO_PAIRS_MAX];              /* of G: row of 0, rows of +-f */
};
#define WINO_TWO(f, g, a, b)                                                                                           \
    {{f, g}, {{-(b)}, {-(a)}}, {(a) * (b), -(a) - (b)}, 1 / ((a) * (b)), {0.5 / ((a) * ((a) - (b))), 0.5 / ((b) * ((b) - (a)))}}
#define WINO_THREE(f, g, h, a, b, c)                                                                                   \
    {{f, g, h}, {{(b) * (c), -(b) - (c)}, {(a) * (c), -(a) - (c)}, {(a) * (b), -(a) - (b)}},                           \
     {-(a) * (b) * (c), (a) * (b) + (a) * (c) + (b) * (c), -(a) - (b) - (c)}, -1 / ((a) * (b) * (c)),                  \
     {0.5 / ((a) * ((a) - (b)) * ((a) - (c))), 0.5 / ((b) * ((b) - (a)) * ((b) - (c))), 0.5 / ((c) * ((c) - (a)) * ((c) - (b)))}}
#define WINO_BOTH3(a, b, c) ((a) * (b) + (a) * (c) + (b) * (c))
#define WINO_REST3(a, b, c) {-(a) * (b) * (c), WINO_BOTH3(a, b, c), -(a) - (b) - (c)}
#define WINO_SCALE4(a, b, c, d) 0.5 / ((a) * ((a) - (b)) * ((a) - (c)) * ((a) - (d)))
#define WINO_FOUR(f, g, h, i, a, b, c, d)                                                                              \
    {{f, g, h, i}, {WINO_REST3(b, c, d), WINO_REST3(a, c, d), WINO_REST3(a, b, d), WINO_REST3(a, b, c)},               \
     {(a) * (b) * (c) * (d), -(a) * WINO_BOTH3(b, c, d) - (b) * (c) * (d),                                             \
      (a) * ((b) + (c) + (d)) + WINO_BOTH3(b, c, d), -(a) - (b) - (c) - (d)}, 1 / ((a) * (b) * (c) * (d)),             \
     {WINO_SCALE4(a, b, c, d), WINO_SCALE4(b, a, c, d), WINO_SCALE4(c, a, b, d), WINO_SCALE4(d, a, b, c)}}
/* By e - 6. */
static const struct wino_points wino_points[] = {
    [0] = WINO_TWO(0.625, 1.5, 0.625 * 0.625, 1.5 * 1.5),
    [2] = WINO_THREE(0.5, 1.0, 2.0, 0.25, 1.0, 4.0),
    [3] = WINO_FOUR(0.5, 0.875, 1.5, 3.75, 0.25, 0.875 * 0.875, 1.5 * 1.5, 3.75 * 3.75),
};
#undef WINO_TWO
#undef WINO_THREE
#undef WINO_FOUR
#undef WINO_BOTH3
#undef WINO_REST3
#undef WINO_SCALE4

GY_ALWAYS float wino_power(const float f, const int n)
{
    float v = 1.0f;
    GY_UNROLL for (int i = 0; i < n; i++) v *= f;
    return v;
}

/* Row `row` of G with e points: r numbers. */
static inline void wino_points_row(float *g, int row, int r, int e)
{
    const struct wino_points *const p = &wino_points[e - 6];
    const int pair = (row - 1) / 2, last = e % 2 == 0 && row == e - 1;
    const float f = row % 2 == 1 ? p->f[pair] : -p->f[pair];
    g[0] = row == 0 ? p->zero : last ? 0.0f : p->scale[pair];
    for (int i = 1; i < r; i++)
        g[i] = row == 0 || last ? 0.0f : g[i - 1] * f;
    g[r - 1] = last ? 1.0f : g[r - 1];
}

/* Along one line of e points: o, to steps apart; all counts are constants. */
#define GY_MICRO_WINO_LINES(P, ATTR, V)                                                                                \
    /* The sum of c[i] d[2 i] over i < n, and d[2 n]. */                                                               \
    ATTR GY_ALWAYS V P##_line_sum(const V *d, const float *c, const int n)                                             \
    {                                                                                                                  \
        V v = d[2 * n];                                                                                                \
        GY_UNROLL for (int i = n - 1; i >= 0; i--) v = P##_fma(P##_set1(c[i]), d[2 * i], v);                           \
        return v;                                                                                                      \
    }                                                                                                                  \
    /* y[0] + y[2] x + y[4] x^2 + ... of n terms */                                                                    \
    ATTR GY_ALWAYS V P##_line_at(const V *y, const int n, const float x)                                               \
    {                                                                                                                  \
        V v = y[2 * (n - 1)];                                                                                          \
        GY_UNROLL for (int i = n - 2; i >= 0; i--) v = P##_fma(P##_set1(x), v, y[2 * i]);                              \
        return v;                                                                                                      \
    }                                                                                                                  \
    /* o = even + f odd, even - f odd: the pair of points f and -f. */                                                 \
    ATTR GY_ALWAYS void P##_line_pair(V *o, const int to, V even, V odd, const float f)                                \
    {                                                                                                                  \
        o[0] = P##_fma(P##_set1(f), odd, even);                                                                        \
        o[to] = P##_fma(P##_set1(-f), odd, even);                                                                      \
    }                                                                                                                  \
    /* B' */                                                                                                           \
    ATTR GY_ALWAYS void P##_line_in(V *o, const int to, const V *d, const int e)                                       \
    {                                                                                                                  \
        const int pairs = (e - 1) / 2;                                                                                 \
        const struct wino_points *const p = &wino_points[e - 6];                                                       \
        o[0] = P##_line_sum(d, p->all, pairs);                                                                         \
        GY_UNROLL for (int i = 0; i < pairs; i++)                                                                      \
            P##_line_pair(o + (2 * i + 1) * to, to, P##_line_sum(d + 2, p->rest[i], pairs - 1),                        \
                          P##_line_sum(d + 1, p->rest[i], pairs - 1), p->f[i]);                                        \
        if (e % 2 == 0)                                                                                                \
            o[(e - 1) * to] = P##_line_sum(d + 1, p->all, pairs);                                                      \
    }                                                                                                                  \
    /* A of n outputs; or, with filter, G of n taps. */                                                                \
    ATTR GY_ALWAYS void P##_line_spread(V *o, const int to, const V *y, const int n, const int e,                      \
                                        const int filter)                                                              \
    {                                                                                                                  \
        const struct wino_points *const p = &wino_points[e - 6];                                                       \
        o[0] = filter ? P##_mul(P##_set1(p->zero), y[0]) : y[0];                                                       \
        GY_UNROLL for (int i = 0; i < (e - 1) / 2; i++)                                                                \
        {                                                                                                              \
            const V even = P##_line_at(y, (n + 1) / 2, p->f[i] * p->f[i]);                                             \
            const V odd = P##_line_at(y + 1, n / 2, p->f[i] * p->f[i]);                                                \
            P##_line_pair(o + (2 * i + 1) * to, to, filter ? P##_mul(P##_set1(p->scale[i]), even) : even, odd,         \
                          filter ? p->scale[i] * p->f[i] : p->f[i]);                                                   \
        }                                                                                                              \
        if (e % 2 == 0)                                                                                                \
            o[(e - 1) * to] = y[n - 1];                                                                                \
    }                                                                                                                  \
    /* A' or G': n numbers from those of e points. */                                                                  \
    ATTR GY_ALWAYS void P##_line_gather(V *o, const int to, const V *m, const int n, const int e,                      \
                                        const int filter)                                                              \
    {                                                                                                                  \
        const int pairs = (e - 1) / 2;                                                                                 \
        const struct wino_points *const p = &wino_points[e - 6];                                                       \
        V both[2][WINO_PAIRS_MAX];                                                                                     \
        GY_UNROLL for (int i = 0; i < pairs; i++)                                                                      \
        {                                                                                                              \
            both[0][i] = P##_add(m[2 * i + 1], m[2 * i + 2]);                                                          \
            both[1][i] = P##_sub(m[2 * i + 1], m[2 * i + 2]);                                                          \
        }                                                                                                              \
        GY_UNROLL for (int j = 0; j < n; j++)                                                                          \
        {                                                                                                              \
            V v = P##_set1(0.0f);                                                                                      \
            if (j == 0)                                                                                                \
                v = filter ? P##_mul(P##_set1(p->zero), m[0]) : m[0];                                                  \
            else if (j == n - 1 && e % 2 == 0)                                                                         \
                v = m[e - 1];                                                                                          \
            GY_UNROLL for (int i = pairs - 1; i >= 0; i--)                                                             \
                v = P##_fma(P##_set1((filter ? p->scale[i] : 1.0f) * wino_power(p->f[i], j)), both[j % 2][i], v);      \
            o[j * to] = v;                                                                                             \
        }                                                                                                              \
    }

/* The transforms of filters and back, float: outputs M and taps R of a line. */
#define GY_MICRO_WINO_FILTER(P, ATTR, V, W, M, R)                                                                      \
    /* (G g G')[row][j], g from R^2 taps. */                                                                           \
    ATTR static void P##_wino_filter_##M##_##R(const struct gy_wino_filters *f)                                        \
    {                                                                                                                  \
        enum { e = (M) + (R) - 1 };                                                                                    \
        float g[R];                                                                                                    \
        wino_points_row(g, f->row, R, e);                                                                              \
        for (int64_t i = 0; i < f->channels; i++) {                                                                    \
            for (int64_t c = 0; c < f->count; c += (W)) {                                                              \
                const int64_t n = f->count - c, at = i * f->step + c;                                                  \
                float *const to = f->u + i * f->width + c;                                                             \
                V t[R], o[e];                                                                                          \
                GY_UNROLL for (int j = 0; j < R; j++) t[j] = P##_mul(P##_set1(g[0]), P##_get(f->taps[j] + at, n));     \
                for (int k = 1; k < R; k++) {                                                                          \
                    GY_UNROLL for (int j = 0; j < R; j++)                                                              \
                        t[j] = P##_fma(P##_set1(g[k]), P##_get(f->taps[k * R + j] + at, n), t[j]);                     \
                }                                                                                                      \
                P##_line_spread(o, 1, t, R, e, 1);                                                                     \
                GY_UNROLL for (int j = 0; j < e; j++) P##_store(to + j * f->pitch, o[j]);                              \
            }                                                                                                          \
        }                                                                                                              \
    }

#define GY_MICRO_WINO_FILTER_BACK(P, ATTR, V, W, M, R)                                                                 \
    /* Weight gradients: dg[tap][c] = (or +=) (G' u G)[tap]. */                                                        \
    ATTR static void P##_wino_filter_back_##M##_##R(float *const *dg, const float *u, int64_t pitch, int64_t count, int add) \
    {                                                                                                                  \
        enum { e = (M) + (R) - 1 };                                                                                    \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V t[R * e];                                                                                                \
            for (int i = 0; i < e; i++) {                                                                              \
                V d[e];                                                                                                \
                GY_UNROLL for (int j = 0; j < e; j++) d[j] = P##_load(u + (i * e + j) * pitch + c);                    \
                P##_line_gather(t + i, e, d, R, e, 1);                                                                 \
            }                                                                                                          \
            for (int j = 0; j < R; j++) {                                                                              \
                V o[R];                                                                                                \
                P##_line_gather(o, 1, t + e * j, R, e, 1);                                                             \
                GY_UNROLL for (int i = 0; i < R; i++)                                                                  \
                    P##_put(dg[i * R + j] + c, add ? P##_add(P##_get(dg[i * R + j] + c, n), o[i]) : o[i], n);          \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Of outputs, float. */
#define GY_MICRO_WINO_OUTPUT(P, ATTR, V, W, M, R)                                                                      \
    /* y[i][c] = (A' m A)[i] + init[c] for the pixels of a tile; NULL: left out. */                                    \
    ATTR static void P##_wino_output_##M##_##R(float *const *y, const float *m, int64_t pitch, const float *init,      \
                                                       int64_t count)                                                  \
    {                                                                                                                  \
        enum { e = (M) + (R) - 1 };                                                                                    \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            const V first = P##_get(init + c, n);                                                                      \
            V t[M * e];                                                                                                \
            for (int i = 0; i < e; i++) {                                                                              \
                V d[e];                                                                                                \
                GY_UNROLL for (int j = 0; j < e; j++) d[j] = P##_load(m + (i * e + j) * pitch + c);                    \
                P##_line_gather(t + i, e, d, M, e, 0);                                                                 \
            }                                                                                                          \
            for (int j = 0; j < M; j++) {                                                                              \
                V o[M];                                                                                                \
                P##_line_gather(o, 1, t + e * j, M, e, 0);                                                             \
                GY_UNROLL for (int i = 0; i < M; i++)                                                                  \
                {                                                                                                      \
                    if (y[M * i + j] != NULL)                                                                          \
                        P##_store(y[M * i + j] + c, P##_add(o[i], first));                                             \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* The transforms of activations: prefix A reads them, as in micro_rows.h. What of the next tile (ahead) this one does not
 * have, and the places of the next channels, are fetched. */
#define GY_MICRO_WINO_INPUT(P, A, ATTR, V, W, M, R)                                                                    \
    /* v[(i * e + j) * pitch + c] = (B' d B)[i][j], d from the pixels of a tile. */                                    \
    ATTR static void A##_wino_input_##M##_##R(float *v, int64_t pitch, const void *const *pixels,                      \
                                                       const void *const *ahead, int64_t count)                        \
    {                                                                                                                  \
        enum { e = (M) + (R) - 1, shared = (R) - 1 };                                                                  \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V t[e * e];                                                                                                \
            for (int j = 0; j < e; j++) {                                                                              \
                V d[e];                                                                                                \
                GY_UNROLL for (int i = 0; i < e; i++) d[i] = A##_get((const A##_elem *)pixels[i * e + j] + c, n);      \
                if (j >= shared) {                                                                                     \
                    GY_UNROLL for (int i = shared; i < e; i++)                                                         \
                        __builtin_prefetch((const A##_elem *)ahead[i * e + j] + c);                                    \
                }                                                                                                      \
                P##_line_in(t + j, e, d, e);                                                                           \
            }                                                                                                          \
            for (int i = 0; i < e; i++) {                                                                              \
                V o[e];                                                                                                \
                float *const to = v + i * e * pitch + c;                                                               \
                P##_line_in(o, 1, t + e * i, e);                                                                       \
                GY_UNROLL for (int j = 0; j < e; j++)                                                                  \
                {                                                                                                      \
                    __builtin_prefetch(to + j * pitch + (W), 1);                                                       \
                    P##_store(to + j * pitch, o[j]);                                                                   \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* The same of weight gradients. */
#define GY_MICRO_WINO_SPREAD(P, A, ATTR, V, W, M, R)                                                                   \
    /* m[(i * e + j) * pitch + c] = (A dy A')[i][j], dy from M^2 pixels. */                                            \
    ATTR static void A##_wino_spread_##M##_##R(float *m, int64_t pitch, const void *const *dy, const void *const *ahead, \
                                                     int64_t count)                                                    \
    {                                                                                                                  \
        enum { e = (M) + (R) - 1 };                                                                                    \
        for (int64_t c = 0; c < count; c += (W)) {                                                                     \
            const int64_t n = count - c;                                                                               \
            V t[M * e];                                                                                                \
            for (int j = 0; j < M; j++) {                                                                              \
                V d[M];                                                                                                \
                GY_UNROLL for (int i = 0; i < M; i++) d[i] = A##_get((const A##_elem *)dy[i * M + j] + c, n);          \
                GY_UNROLL for (int i = 0; i < M; i++) __builtin_prefetch((const A##_elem *)ahead[i * M + j] + c);      \
                P##_line_spread(t + j, M, d, M, e, 0);                                                                 \
            }                                                                                                          \
            for (int i = 0; i < e; i++) {                                                                              \
                V o[e];                                                                                                \
                float *const to = m + i * e * pitch + c;                                                               \
                P##_line_spread(o, 1, t + M * i, M, e, 0);                                                             \
                GY_UNROLL for (int j = 0; j < e; j++)                                                                  \
                {                                                                                                      \
                    __builtin_prefetch(to + j * pitch + (W), 1);                                                       \
                    P##_store(to + j * pitch, o[j]);                                                                   \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Every size of a kernel set: prefix P for float, H for bf16. */
#define GY_MICRO_WINO_SIZE(P, H, ATTR, V, W, M, R)                                                                     \
    GY_MICRO_WINO_FILTER(P, ATTR, V, W, M, R)                                                                          \
    GY_MICRO_WINO_OUTPUT(P, ATTR, V, W, M, R)                                                                          \
    GY_MICRO_WINO_INPUT(P, P, ATTR, V, W, M, R)                                                                        \
    GY_MICRO_WINO_FILTER_BACK(P, ATTR, V, W, M, R)                                                                     \
    GY_MICRO_WINO_INPUT(P, H, ATTR, V, W, M, R)                                                                        \
    GY_MICRO_WINO_SPREAD(P, P, ATTR, V, W, M, R)                                                                       \
    GY_MICRO_WINO_SPREAD(P, H, ATTR, V, W, M, R)

#define GY_MICRO_WINO_FIRST(P, H, ATTR, V, W)                                                                          \
    GY_MICRO_WINO_LINES(P, ATTR, V)                                                                                    \
    GY_MICRO_WINO_SIZE(P, H, ATTR, V, W, 4, 3)

#define GY_MICRO_WINOS(P, H, ATTR, V, W)                                                                               \
    GY_MICRO_WINO_FIRST(P, H, ATTR, V, W)                                                                              \
    GY_MICRO_WINO_SIZE(P, H, ATTR, V, W, 7, 3)                                                                         \
    GY_MICRO_WINO_SIZE(P, H, ATTR, V, W, 4, 5)

#define GY_MICRO_TABLE_WINO_SIZE(P, H, M, R)                                                                           \
    {.m = M, .r = R, .filter = P##_wino_filter_##M##_##R, .filter_back = P##_wino_filter_back_##M##_##R,               \
     .output = P##_wino_output_##M##_##R, .input = {P##_wino_input_##M##_##R, H##_wino_input_##M##_##R},               \
     .spread = {P##_wino_spread_##M##_##R, H##_wino_spread_##M##_##R}}

/* ORDER: wino_least in winograd.c. */
#define GY_MICRO_TABLE_WINO_FIRST(P, H, KERNELS) (KERNELS)->wino[0] = (struct gy_wino)GY_MICRO_TABLE_WINO_SIZE(P, H, 4, 3)

#define GY_MICRO_TABLE_WINO(P, H, KERNELS)                                                                             \
    do {                                                                                                               \
        GY_MICRO_TABLE_WINO_FIRST(P, H, KERNELS);                                                                      \
        (KERNELS)->wino[1] = (struct gy_wino)GY_MICRO_TABLE_WINO_SIZE(P, H, 7, 3);                                     \
        (KERNELS)->wino[2] = (struct gy_wino)GY_MICRO_TABLE_WINO_SIZE(P, H, 4, 5);                                     \
    } while (0)

#endif
