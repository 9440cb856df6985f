/* SPDX-License-Identifier: MIT */
/* For the solvers of second order: losses of a block of rows, and the algebra of small matrices. It
 * is in vectors of four doubles, by the compilers' vector types. Operations and their order are the
 * same on every processor, so bits are, whatever registers it has. */
#include "engine/glm/solve/newton_state.h"
#include "engine/base/cpu.h"

typedef double nw_vec __attribute__((vector_size(32)));
typedef int64_t nw_bits __attribute__((vector_size(32)));
#define NW_LANES 4

#if defined(__x86_64__)
#define NW_AVX2 __attribute__((target("avx2")))
#endif
#define NW_INLINE static inline __attribute__((always_inline))

#define NW_SPLAT(x) ((nw_vec){ (x), (x), (x), (x) })
#define NW_CHOOSE(mask, a, b) ((nw_vec)(((mask) & (nw_bits)(a)) | (~(mask) & (nw_bits)(b))))

/* ---- logistic loss ---- */

/* exp(x) for x in [-700, 0]: 2^k exp(r) with |r| <= log(2) / 2. exp(r) is its series to r^11 (the
 * rest is below 1e-14). */
NW_INLINE void nw_exp(const nw_vec *in, nw_vec *out)
{
    /* 1.5 2^52: a sum with it holds a rounded integer in its low bits */
    const nw_vec big = NW_SPLAT(6755399441055744.0), x = *in;
    const nw_vec shifted = x * NW_SPLAT(1.4426950408889634) + big, k = shifted - big;
    const nw_vec r = (x - k * NW_SPLAT(0.693147180369123816490)) - k * NW_SPLAT(1.90821492927058770002e-10);
    static const double term[] = { 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1 };
    nw_vec sum = NW_SPLAT(term[0]);
    for (size_t i = 1; i < GY_COUNT(term); i++)
        sum = sum * r + NW_SPLAT(term[i]);
    *out = (nw_vec)((nw_bits)sum + ((nw_bits)shifted << 52));
}

GY_INT void gy_nw_exp(double *x, size_t count)
{
    for (size_t i = 0; i < count; i += NW_LANES) {
        const size_t left = count - i < NW_LANES ? count - i : NW_LANES;
        nw_vec in = NW_SPLAT(0.0), out;
        memcpy(&in, x + i, left * sizeof *x);
        nw_exp(&in, &out);
        memcpy(x + i, &out, left * sizeof *x);
    }
}

/* Coefficients and curvatures of a block padded to whole vectors. The sum of log(1 + e) is the
 * logarithm of a product, at most 2^64 a lane. The product less 1 is kept: p + e + p e has no term
 * below 0, so the sum stays exact far below 1. under: the sums of max(0, -m). beyond: the products
 * less 1. Both have one value for y <= 0 and one for y > 0. */
NW_INLINE void nw_logistic_rows(struct gy_nw_block *block, double under[2], double beyond[2])
{
    const nw_vec zero = NW_SPLAT(0.0), one = NW_SPLAT(1.0), least = NW_SPLAT(-700.0);
    nw_vec below[2] = { zero, zero }, over[2] = { zero, zero };
    for (int b = 0; b < block->count; b += NW_LANES) {
        nw_vec z, y = zero, c = zero, e;
        memcpy(&z, block->z + b, sizeof z);
        for (int l = 0; l < NW_LANES; l++) {
            y[l] = (double)block->y[b + l];
            c[l] = (double)block->c[b + l];
        }
        const nw_vec m = y * z;
        const nw_bits is_up = (nw_bits)(y > zero), is_good = (nw_bits)(m > zero);
        nw_vec x = NW_CHOOSE(is_good, -m, m);
        x = NW_CHOOSE((nw_bits)(x > least), x, least);
        nw_exp(&x, &e);
        const nw_vec inverse = one / (one + e), share = NW_CHOOSE(is_good, e * inverse, inverse), bad = NW_CHOOSE(is_good, zero, -m);
        const nw_vec pull = y * c * share, curve = c * e * inverse * inverse;
        below[0] += NW_CHOOSE(is_up, zero, bad);
        below[1] += NW_CHOOSE(is_up, bad, zero);
        over[0] += NW_CHOOSE(is_up, zero, e) * (one + over[0]);
        over[1] += NW_CHOOSE(is_up, e, zero) * (one + over[1]);
        memcpy(block->pull + b, &pull, sizeof pull);
        for (int l = 0; l < NW_LANES; l++)
            block->curve[b + l] = (float)curve[l];
    }
    for (int s = 0; s < 2; s++) {
        under[s] = (below[s][0] + below[s][1]) + (below[s][2] + below[s][3]);
        beyond[s] = over[s][0];
        for (int l = 1; l < NW_LANES; l++)
            beyond[s] += over[s][l] * (1 + beyond[s]);
    }
}

static void nw_logistic_plain(struct gy_nw_block *block, double under[2], double beyond[2]) { nw_logistic_rows(block, under, beyond); }
#ifdef NW_AVX2
NW_AVX2 static void nw_logistic_avx2(struct gy_nw_block *block, double under[2], double beyond[2]) { nw_logistic_rows(block, under, beyond); }
#endif

/* Rows that are right by so much that they count nothing, up to whole vectors. */
static void nw_pad(struct gy_nw_block *block)
{
    for (int b = block->count; b % NW_LANES; b++) {
        block->z[b] = -1e3;
        block->y[b] = -1;
        block->c[b] = 0;
    }
}

static void nw_logistic(struct gy_nw_block *block, int weighted, unsigned cpu, struct gy_nw_sums *sums)
{
    double under[2], beyond[2];
    nw_pad(block);
#ifdef NW_AVX2
    (cpu & GY_CPU_AVX2 ? nw_logistic_avx2 : nw_logistic_plain)(block, under, beyond);
#else
    (void)cpu;
    nw_logistic_plain(block, under, beyond);
#endif
    float c[2] = { 0, 0 }; /* of this block's rows of a side, all the same */
    for (int b = 0; b < block->count; b++) {
        c[block->y[b] > 0] = block->c[b];
        const double value = weighted ? block->loss->value((double)block->y[b], block->z[b]) : 0;
        if (weighted)
            sums->loss += (double)block->c[b] * value;
    }
    if (!weighted)
        sums->loss += (double)c[0] * (under[0] + log1p(beyond[0])) + (double)c[1] * (under[1] + log1p(beyond[1]));
}

static void nw_other_losses(struct gy_nw_block *block, struct gy_nw_sums *sums)
{
    for (int b = 0; b < block->count; b++) {
        const double y = (double)block->y[b], c = (double)block->c[b], z = block->z[b];
        double first, second;
        block->loss->slopes(y, z, &first, &second);
        block->pull[b] = -c * first;
        block->curve[b] = (float)(c * second);
        sums->loss += c * block->loss->value(y, z);
        sums->linear -= y * c * first;
        sums->square += c * first * first;
    }
}

GY_INT void gy_nw_losses(struct gy_nw_block *block, int weighted, unsigned cpu, struct gy_nw_sums *sums)
{
    if (block->loss->form == GY_GLM_LOGIT)
        nw_logistic(block, weighted, cpu, sums);
    else
        nw_other_losses(block, sums);
    for (int b = 0; b < block->count; b++) {
        const double pull = block->pull[b];
        sums->side[block->y[b] > 0] += fabs(pull);
        sums->pull += pull;
        sums->curve += (double)block->curve[b];
        sums->weight += (double)block->c[b];
    }
}

/* ---- vectors ---- */

GY_INT void gy_nw_add(double *y, double factor, const double *x, size_t count)
{
    const nw_vec f = NW_SPLAT(factor);
    const size_t whole = count / NW_LANES * NW_LANES;
    for (size_t i = 0; i < whole; i += NW_LANES) {
        nw_vec a, b;
        memcpy(&a, y + i, sizeof a);
        memcpy(&b, x + i, sizeof b);
        a += f * b;
        memcpy(y + i, &a, sizeof a);
    }
    for (size_t i = whole; i < count; i++)
        y[i] += factor * x[i];
}

GY_INT void gy_nw_add_floats(double *y, double factor, const float *x, size_t count)
{
    const size_t whole = count / NW_LANES * NW_LANES;
    for (size_t i = 0; i < whole; i += NW_LANES) {
        nw_vec a;
        memcpy(&a, y + i, sizeof a);
        a += NW_SPLAT(factor) * (nw_vec){ (double)x[i], (double)x[i + 1], (double)x[i + 2], (double)x[i + 3] };
        memcpy(y + i, &a, sizeof a);
    }
    for (size_t i = whole; i < count; i++)
        y[i] += factor * (double)x[i];
}

GY_INT double gy_nw_inner(const double *a, const double *b, size_t count)
{
    nw_vec sum = NW_SPLAT(0.0), other = sum;
    const size_t whole = count / (2 * NW_LANES) * (2 * NW_LANES);
    double rest = 0;
    for (size_t i = 0; i < whole; i += 2 * NW_LANES) {
        nw_vec x, y, u, v;
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        memcpy(&u, a + i + NW_LANES, sizeof u);
        memcpy(&v, b + i + NW_LANES, sizeof v);
        sum += x * y;
        other += u * v;
    }
    for (size_t i = whole; i < count; i++)
        rest += a[i] * b[i];
    sum += other;
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

/* ---- Cholesky ---- */

#define NW_PANEL 4 /* rows of the factor that are taken from the others at once */

struct nw_panel {
    double *a;
    size_t count, at; /* rows [at, at + NW_PANEL) are done */
    unsigned cpu;
};

/* y -= sum of four f_r x_r. */
NW_INLINE void nw_take_four_body(double *y, const double f[NW_PANEL], const double *const x[NW_PANEL], size_t count)
{
    const nw_vec f0 = NW_SPLAT(f[0]), f1 = NW_SPLAT(f[1]), f2 = NW_SPLAT(f[2]), f3 = NW_SPLAT(f[3]);
    size_t i = 0;
    for (; i + NW_LANES <= count; i += NW_LANES) {
        nw_vec v, p, q, r, s;
        memcpy(&v, y + i, sizeof v);
        memcpy(&p, x[0] + i, sizeof p);
        memcpy(&q, x[1] + i, sizeof q);
        memcpy(&r, x[2] + i, sizeof r);
        memcpy(&s, x[3] + i, sizeof s);
        v -= (f0 * p + f1 * q) + (f2 * r + f3 * s);
        memcpy(y + i, &v, sizeof v);
    }
    for (; i < count; i++)
        y[i] -= (f[0] * x[0][i] + f[1] * x[1][i]) + (f[2] * x[2][i] + f[3] * x[3][i]);
}

/* A row below the panel loses the panel's part of it. */
NW_INLINE void nw_panel_row(const struct nw_panel *panel, size_t row)
{
    double f[NW_PANEL];
    const double *x[NW_PANEL];
    for (size_t r = 0; r < NW_PANEL; r++) {
        x[r] = panel->a + gy_nw_row_at(panel->at + r, panel->count) + row;
        f[r] = *x[r];
    }
    nw_take_four_body(panel->a + gy_nw_row_at(row, panel->count) + row, f, x, panel->count - row);
}

static void nw_panel_row_plain(const struct nw_panel *panel, size_t row) { nw_panel_row(panel, row); }
#ifdef NW_AVX2
NW_AVX2 static void nw_panel_row_avx2(const struct nw_panel *panel, size_t row) { nw_panel_row(panel, row); }
#endif

#define NW_PANEL_ROWS 32 /* of a tile */

static void nw_panel_tile(void *job, int64_t tile, int thread)
{
    const struct nw_panel *const panel = job;
    const size_t from = panel->at + NW_PANEL + (size_t)tile * NW_PANEL_ROWS;
    const size_t to = from + NW_PANEL_ROWS < panel->count ? from + NW_PANEL_ROWS : panel->count;
    (void)thread;
#ifdef NW_AVX2
    if (panel->cpu & GY_CPU_AVX2) {
        for (size_t row = from; row < to; row++)
            nw_panel_row_avx2(panel, row);
        return;
    }
#endif
    for (size_t row = from; row < to; row++)
        nw_panel_row_plain(panel, row);
}

/* Row j from the rows of its panel before it. */
static void nw_factor_row(const struct nw_panel *panel, size_t j, double least)
{
    double *const row = panel->a + gy_nw_row_at(j, panel->count) + j;
    const size_t length = panel->count - j;
    for (size_t r = panel->at; r < j; r++) {
        const double *const other = panel->a + gy_nw_row_at(r, panel->count) + j;
        gy_nw_add(row, -other[0], other, length);
    }
    const double inverse = 1 / sqrt(row[0] > least ? row[0] : least);
    for (size_t k = 1; k < length; k++)
        row[k] *= inverse;
    row[0] = 1 / inverse;
}

GY_INT void gy_nw_factor(struct gy_pool *pool, unsigned cpu, double *a, size_t count, const double *least)
{
    struct nw_panel panel = { .a = a, .count = count, .cpu = cpu };
    for (; panel.at < count; panel.at += NW_PANEL) {
        const size_t end = panel.at + NW_PANEL < count ? panel.at + NW_PANEL : count;
        for (size_t j = panel.at; j < end; j++)
            nw_factor_row(&panel, j, least[j]);
        const int64_t tiles = gy_ceil_div((int64_t)(count - end), NW_PANEL_ROWS);
        if (count - end > 256)
            gy_pool_run(pool, nw_panel_tile, &panel, tiles);
        else
            for (int64_t t = 0; t < tiles; t++)
                nw_panel_tile(&panel, t, 0);
    }
}

GY_INT void gy_nw_solve(const double *factor, size_t count, double *x)
{
    for (size_t j = 0; j < count; j++) {
        const double *const row = factor + gy_nw_row_at(j, count) + j;
        x[j] /= row[0];
        gy_nw_add(x + j + 1, -x[j], row + 1, count - j - 1);
    }
    for (size_t j = count; j-- > 0;) {
        const double *const row = factor + gy_nw_row_at(j, count) + j;
        x[j] = (x[j] - gy_nw_inner(row + 1, x + j + 1, count - j - 1)) / row[0];
    }
}
