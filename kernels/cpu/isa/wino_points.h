/* SPDX-License-Identifier: MIT */
/* wino_points.h: the numbers of Winograd's minimal filtering F(m x m, r x r) (Lavin and Gray 2016):
 *     y = A' [ (G g G') * (B' d B) ] A
 * with g the r x r filter, d a tile of e x e inputs, e = m + r - 1, y of m^2 outputs. wino.inc
 * applies each matrix to columns, then to rows, a line at a time, channels in vectors. The weight
 * gradient goes the same way backward: dg = G' [ (A dy A') * (B' d B) ] G. It is summed over tiles
 * inside the brackets.
 *
 * A line is Toom and Cook's product of polynomials, by values at e points: 0, pairs
 * f and -f, and infinity where e is even. With x^i at column i, q the pairs other than f:
 *     B':  prod(x^2 - f^2);  x (x +- f) prod(x^2 - q^2) for +-f;  x prod(x^2 - f^2) for infinity
 *     A':  row i has the points to the power i, and the last row a 1 for infinity
 *     G:   1 / prod(-f^2);  (1, +-f, f^2, ...) / (2 f^2 prod(f^2 - q^2)) for +-f;  0 ... 0 1 for
 *          infinity
 * So a size is its points, multiples of 1/8 with the least error. In units of the plain sum's it is
 * about 2 with two pairs (4 with 1 and 2, often seen), and 4 with three. With three and infinity it
 * is 7, and 19 with four. Most of it comes from the sums over channels: short ones, added up, have
 * less. */
#ifndef GY_CPU_WINO_POINTS_H
#define GY_CPU_WINO_POINTS_H
#include "kernels/cpu/isa/micro.h"

/* What the matrices hold, of two, three or four pairs. */
#define WINO_PAIRS_MAX 4
struct wino_points {
    float f[WINO_PAIRS_MAX];
    /* prod(x^2 - q^2): at x^0, x^2, ...; the last one is 1 */
    float rest[WINO_PAIRS_MAX][WINO_PAIRS_MAX - 1];
    float all[WINO_PAIRS_MAX];         /* prod(x^2 - f^2), likewise */
    float zero, scale[WINO_PAIRS_MAX]; /* of G: row of 0, rows of +-f */
};
/* Macros: constants of an initializer, which C99 does not let functions make. */
#define WINO_TWO(f, g, a, b)                                                                                           \
    {{f, g}, {{-(b)}, {-(a)}}, {(a) * (b), -(a) - (b)}, (float)(1 / ((a) * (b))),                                      \
     {(float)(0.5 / ((a) * ((a) - (b)))), (float)(0.5 / ((b) * ((b) - (a))))}}
#define WINO_THREE(f, g, h, a, b, c)                                                                                   \
    {{f, g, h}, {{(b) * (c), -(b) - (c)}, {(a) * (c), -(a) - (c)}, {(a) * (b), -(a) - (b)}},                           \
     {-(a) * (b) * (c), (a) * (b) + (a) * (c) + (b) * (c), -(a) - (b) - (c)}, (float)(-1 / ((a) * (b) * (c))),         \
     {(float)(0.5 / ((a) * ((a) - (b)) * ((a) - (c)))), (float)(0.5 / ((b) * ((b) - (a)) * ((b) - (c)))),              \
      (float)(0.5 / ((c) * ((c) - (a)) * ((c) - (b))))}}
#define WINO_BOTH3(a, b, c) ((a) * (b) + (a) * (c) + (b) * (c))
#define WINO_REST3(a, b, c) {-(a) * (b) * (c), WINO_BOTH3(a, b, c), -(a) - (b) - (c)}
#define WINO_SCALE4(a, b, c, d) (float)(0.5 / ((a) * ((a) - (b)) * ((a) - (c)) * ((a) - (d))))
#define WINO_FOUR(f, g, h, i, a, b, c, d)                                                                              \
    {{f, g, h, i}, {WINO_REST3(b, c, d), WINO_REST3(a, c, d), WINO_REST3(a, b, d), WINO_REST3(a, b, c)},               \
     {(a) * (b) * (c) * (d), -(a) * WINO_BOTH3(b, c, d) - (b) * (c) * (d),                                             \
      (a) * ((b) + (c) + (d)) + WINO_BOTH3(b, c, d), -(a) - (b) - (c) - (d)}, (float)(1 / ((a) * (b) * (c) * (d))),    \
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

#endif
