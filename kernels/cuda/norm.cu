/* SPDX-License-Identifier: MIT */
/* norm.cu: batch norm: statistics, finish, fold, apply; backward sums and gradient.
 *
 * Idea: a tensor is a table of GY_PIXELS rows and GY_C columns (channels). A thread stays with
 * GY_VEC neighbouring channels, whose constants it keeps in registers, and walks down the rows.
 * Memory bounds every pass, so their number counts. Forward apply, residual addition and activation
 * are one pass. Backward is two (sums, gradient), which mask dy themselves.
 *
 *   1  sum and sum of squares, subtracted: wrong where |mean| is much larger than the deviation
 *   2  two passes, mean then deviations: reads the tensor twice
 *   3  (this one) (count, mean, sum of squared deviations): of four rows at a time directly, then
 *      merged pairwise (Chan, Golub and LeVeque 1979) in a fixed tree: rows of a thread in order,
 *      threads of a block by halves, blocks by a second kernel
 *
 * Block: GY_THREADS = GY_COLS x rows; GY_COLS is a power of two up to 32, so that a warp reads
 * whole lines. It covers GY_COLS * GY_VEC channels (grid y) of GY_TILE pixels (grid x). Tiles
 * follow from the shape alone: the same bits on every card. Shared memory: two numbers a thread and
 * channel (and a count), for the tree. Alignment: tensors on 64 bytes, GY_VEC divides GY_C. Tails:
 * threads beyond the channels or pixels are idle, but take part in the barriers. In place
 * (BN_APPLY, BN_BWD): a thread reads NORM_FLIGHT rows of its own, then writes them; no other thread
 * touches these. Where Y is absent, the output that masks dy is recomputed from x, not rounded to
 * GY_DTYPE. The variant, a row of variants_ops.c, names one part: NORM_STATS, NORM_FINISH,
 * NORM_FOLD, NORM_APPLY, NORM_SUMS, NORM_BWD. */
#include "prelude.cuh"

#define NORM_ROWS (GY_THREADS / GY_COLS)
#define NORM_STEPS (GY_TILE / NORM_ROWS) /* rows a thread; GY_TILE is divisible */

GY_FN int norm_row(void) { return GY_TID / GY_COLS; }
GY_FN int norm_channel(void) { return (GY_BY * GY_COLS + GY_TID % GY_COLS) * GY_VEC; }
GY_FN int64_t norm_pixel(int step) { return (int64_t)GY_BX * GY_TILE + norm_row() + step * NORM_ROWS; }
/* First element of the row at `step`. If there is no such row, that of the thread's first row:
 * loads need no branch between them. A thread without a first row loads nothing. */
GY_FN int64_t norm_at(int step, int c)
{
    return (norm_pixel(step) < GY_PIXELS ? norm_pixel(step) : norm_pixel(0)) * GY_C + c;
}
GY_FN int norm_idle(int c) { return c >= GY_C || norm_pixel(0) >= GY_PIXELS; }

#if defined NORM_STATS || defined NORM_FINISH || defined NORM_BWD
/* Pixels of the samples that are there: what statistics are of. */
GY_FN int64_t norm_there(const struct gy_uniform *u) { return GY_PIXELS - (int64_t)u->absent * GY_IMAGE; }
#endif

#if defined NORM_STATS || defined NORM_SUMS
#define NORM_JOIN_WIDE 8 /* channels of a block that joins tiles: 32 bytes, a load's least */
#define NORM_JOIN_ROWS (GY_THREADS / NORM_JOIN_WIDE)
#define NORM_JOIN_FLIGHT 8 /* tiles that a thread of it loads before it adds the first */
/* Tile t's pair of a channel lies at (2 t + i) * GY_C + c. With one tile SUMS and STATS look like
 * that. */
GY_FN int64_t norm_part_at(int64_t tile, int i, int c) { return (2 * tile + i) * GY_C + c; }
#endif

#ifdef NORM_STATS
struct norm_stat {
    float mean, squares;
};

/* y's share in the mean of x and y rows; the weight of the square of the means' distance. */
struct norm_share {
    float share, weight;
};

GY_FN struct norm_share norm_share_of(float x, float y)
{
    struct norm_share out;
    out.share = x + y > 0.0f ? y / (x + y) : 0.0f;
    out.weight = x * out.share;
    return out;
}

GY_FN struct norm_stat norm_merge(struct norm_stat x, struct norm_stat y, struct norm_share by)
{
    const float far = y.mean - x.mean;
    struct norm_stat out;
    out.mean = x.mean + far * by.share;
    out.squares = x.squares + y.squares + far * far * by.weight;
    return out;
}

struct norm_stats_shared {
    float n[GY_THREADS], mean[GY_VEC][GY_THREADS], squares[GY_VEC][GY_THREADS];
};

GY_FN struct norm_stat norm_held(const struct norm_stats_shared *s, int j, int tid)
{
    struct norm_stat out;
    out.mean = s->mean[j][tid];
    out.squares = s->squares[j][tid];
    return out;
}

/* Takes rows `step` .. step + 3 of the thread, if among the first `pixels`, into (n, mean,
 * squares). */
GY_FN void norm_stats_four(const gy_t *x, int64_t pixels, int c, int step, float *n, struct gy_vec *mean, struct gy_vec *squares)
{
    struct gy_vec v[4];
    GY_UNROLL for (int u = 0; u < 4; u++) v[u] = gy_get_vec(x, norm_at(step + u, c));
    if (norm_pixel(step) >= pixels)
        return;
    const int64_t rest = (pixels - norm_pixel(step) + NORM_ROWS - 1) / NORM_ROWS;
    const int count = rest < 4 ? (int)rest : 4;
    const float each = count == 4 ? 0.25f : 1.0f / (float)count;
    const struct norm_share by = norm_share_of(*n, (float)count);
    GY_EACH(j) {
        float m = 0.0f, sum = 0.0f;
        GY_UNROLL for (int u = 0; u < 4; u++) m += u < count ? v[u].v[j] : 0.0f;
        m *= each;
        const float far = m - mean->v[j];
        GY_UNROLL for (int u = 0; u < 4; u++) sum += u < count ? (v[u].v[j] - m) * (v[u].v[j] - m) : 0.0f;
        mean->v[j] += far * by.share;
        squares->v[j] += sum + far * far * by.weight;
    }
    *n += (float)count;
}

/* Sets (mean, squares) of a tile; with one tile of the whole tensor. */
GY_KERNEL(norm_stats)
{
    GY_SHARED(struct norm_stats_shared, s);
    const int c = norm_channel();
    struct gy_vec mean, squares;
    float n = 0.0f;
    GY_EACH(j) mean.v[j] = squares.v[j] = 0.0f;
    if (!norm_idle(c))
        GY_UNROLL_NOT for (int step = 0; step < NORM_STEPS; step += 4)
            norm_stats_four(GY_P(const gy_t, GY_X), norm_there(a.u), c, step, &n, &mean, &squares);
    s->n[GY_TID] = n;
    GY_EACH(j) {
        s->mean[j][GY_TID] = mean.v[j];
        s->squares[j][GY_TID] = squares.v[j];
    }
    GY_UNROLL_NOT for (int half = NORM_ROWS / 2; half > 0; half /= 2) {
        GY_SYNC();
        if (norm_row() >= half)
            continue;
        const int other = GY_TID + half * GY_COLS;
        const struct norm_share by = norm_share_of(s->n[GY_TID], s->n[other]);
        GY_EACH(j) {
            const struct norm_stat both = norm_merge(norm_held(s, j, GY_TID), norm_held(s, j, other), by);
            mean.v[j] = s->mean[j][GY_TID] = both.mean;
            squares.v[j] = s->squares[j][GY_TID] = both.squares;
        }
        s->n[GY_TID] += s->n[other];
    }
    if (norm_row() == 0 && c < GY_C) {
        float *out = GY_P(float, GY_TILES == 1 ? GY_STATS : GY_SCRATCH);
        gy_put_floats(out, norm_part_at(GY_BX, 0, c), mean);
        gy_put_floats(out, norm_part_at(GY_BX, 1, c), squares);
    }
}

#if GY_TILES > 1
/* Rows of a tile, of the first `pixels`; 0 behind the last one. */
GY_FN float norm_tile_rows(int64_t pixels, int tile)
{
    const int64_t rest = pixels - (int64_t)tile * GY_TILE;
    return tile >= GY_TILES || rest < 0 ? 0.0f : rest < GY_TILE ? (float)rest : (float)GY_TILE;
}

/* Joins the tiles: thread (row, channel) merges tiles row, row + NORM_JOIN_ROWS, ... in order, then
 * rows by halves. */
GY_KERNEL(norm_stats_join)
{
    GY_SHARED(struct norm_stats_shared, s);
    const int c = GY_BX * NORM_JOIN_WIDE + GY_TID % NORM_JOIN_WIDE, row = GY_TID / NORM_JOIN_WIDE;
    const float *part = GY_P(const float, GY_SCRATCH);
    struct norm_stat sum = { 0.0f, 0.0f };
    float n = 0.0f;
    GY_UNROLL_NOT for (int first = row; first < GY_TILES && c < GY_C; first += NORM_JOIN_FLIGHT * NORM_JOIN_ROWS) {
        struct norm_stat more[NORM_JOIN_FLIGHT];
        GY_UNROLL for (int u = 0; u < NORM_JOIN_FLIGHT; u++) {
            const int tile = first + u * NORM_JOIN_ROWS, there = tile < GY_TILES ? tile : row;
            more[u].mean = part[norm_part_at(there, 0, c)];
            more[u].squares = part[norm_part_at(there, 1, c)];
        }
        GY_UNROLL for (int u = 0; u < NORM_JOIN_FLIGHT; u++) {
            const float rows = norm_tile_rows(norm_there(a.u), first + u * NORM_JOIN_ROWS);
            if (rows > 0.0f)
                sum = norm_merge(sum, more[u], norm_share_of(n, rows));
            n += rows;
        }
    }
    s->n[GY_TID] = n;
    s->mean[0][GY_TID] = sum.mean;
    s->squares[0][GY_TID] = sum.squares;
    GY_UNROLL_NOT for (int half = NORM_JOIN_ROWS / 2; half > 0; half /= 2) {
        GY_SYNC();
        if (row >= half)
            continue;
        const int other = GY_TID + half * NORM_JOIN_WIDE;
        sum = norm_merge(sum, norm_held(s, 0, other), norm_share_of(n, s->n[other]));
        n = s->n[GY_TID] = n + s->n[other];
        s->mean[0][GY_TID] = sum.mean;
        s->squares[0][GY_TID] = sum.squares;
    }
    if (row == 0 && c < GY_C) {
        GY_P(float, GY_STATS)[c] = sum.mean;
        GY_P(float, GY_STATS)[GY_C + c] = sum.squares;
    }
}
#endif
#endif

/* A channel a thread; in double, as there are few. */
#ifdef NORM_FINISH
GY_KERNEL(norm_finish)
{
    const int c = GY_BX * GY_THREADS + GY_TID;
    if (c >= GY_C)
        return;
    const double count = (double)norm_there(a.u), momentum = (double)GY_F1;
    const double mean = (double)GY_P(float, GY_STATS)[c], squares = (double)GY_P(float, GY_STATS)[GY_C + c];
    const double inverse = 1.0 / sqrt(squares / count + (double)GY_F0);
    const double gamma = (double)GY_P(float, GY_GAMMA)[c], beta = (double)GY_P(float, GY_BETA)[c];
    const double run_mean = (double)GY_P(float, GY_RUN_MEAN)[c], run_var = (double)GY_P(float, GY_RUN_VAR)[c];
    GY_P(float, GY_MEAN)[c] = (float)mean;
    GY_P(float, GY_RSTD)[c] = (float)inverse;
    GY_P(float, GY_SCALE)[c] = (float)(gamma * inverse);
    GY_P(float, GY_SHIFT)[c] = (float)(beta - mean * gamma * inverse);
    GY_P(float, GY_RUN_MEAN)[c] = (float)((1.0 - momentum) * run_mean + momentum * mean);
    GY_P(float, GY_RUN_VAR)[c] =
        (float)((1.0 - momentum) * run_var + momentum * squares / (count > 1.0 ? count - 1.0 : 1.0));
}
#endif

#ifdef NORM_FOLD
GY_KERNEL(norm_fold)
{
    const int c = GY_BX * GY_THREADS + GY_TID;
    if (c >= GY_C)
        return;
    const double scale = (double)GY_P(float, GY_GAMMA)[c] / sqrt((double)GY_P(float, GY_RUN_VAR)[c] + (double)GY_F0);
    const double bias = GY_HAS_BIAS ? (double)GY_P(float, GY_BIAS)[c] : 0.0;
    GY_P(float, GY_SCALE)[c] = (float)scale;
    GY_P(float, GY_SHIFT)[c] =
        (float)((double)GY_P(float, GY_BETA)[c] + (bias - (double)GY_P(float, GY_RUN_MEAN)[c]) * scale);
}
#endif

#if defined NORM_APPLY || defined NORM_SUMS || defined NORM_BWD
/* Scale and shift of what is added. */
struct norm_added {
    struct gy_vec scale, shift;
};

GY_FN struct norm_added norm_added_of(const float *scale, const float *shift, int c)
{
    struct norm_added out;
    GY_EACH(j) out.scale.v[j] = out.shift.v[j] = 0.0f;
    if (GY_HAS_RES_SCALE) {
        out.scale = gy_get_floats(scale, c);
        out.shift = gy_get_floats(shift, c);
    }
    return out;
}

/* What is added to a row: 0 without RES. */
GY_FN struct gy_vec norm_res(const gy_t *res, int64_t i, const struct norm_added *by)
{
    struct gy_vec out;
    GY_EACH(j) out.v[j] = 0.0f;
    if (GY_HAS_RES)
        out = gy_get_vec(res, i);
    if (GY_HAS_RES_SCALE)
        GY_EACH(j) out.v[j] = out.v[j] * by->scale.v[j] + by->shift.v[j];
    return out;
}
#endif

#ifdef NORM_APPLY
/* Rows in flight; with a residual two, so that twice the warps find registers. */
#define NORM_FLIGHT (NORM_STEPS < 4 ? NORM_STEPS : GY_HAS_RES ? 2 : 4)

GY_KERNEL(norm_apply)
{
    const int c = norm_channel();
    if (norm_idle(c))
        return;
    const struct gy_vec scale = gy_get_floats(GY_P(const float, GY_SCALE), c),
                        shift = gy_get_floats(GY_P(const float, GY_SHIFT), c);
    const struct norm_added by = norm_added_of(GY_P(const float, GY_RES_SCALE), GY_P(const float, GY_RES_SHIFT), c);
    GY_UNROLL_NOT for (int step = 0; step < NORM_STEPS; step += NORM_FLIGHT) {
        struct gy_vec x[NORM_FLIGHT], res[NORM_FLIGHT];
        GY_UNROLL for (int u = 0; u < NORM_FLIGHT; u++) {
            x[u] = gy_get_vec(GY_P(const gy_t, GY_X), norm_at(step + u, c));
            res[u] = norm_res(GY_P(const gy_t, GY_RES), norm_at(step + u, c), &by);
        }
        GY_UNROLL for (int u = 0; u < NORM_FLIGHT; u++) {
            GY_EACH(j) x[u].v[j] = gy_act_of(x[u].v[j] * scale.v[j] + shift.v[j] + res[u].v[j]);
            if (norm_pixel(step + u) < GY_PIXELS)
                gy_put_vec(GY_P(gy_t, GY_Y), norm_at(step + u, c), x[u]);
        }
    }
}
#endif

#if defined NORM_SUMS || defined NORM_BWD
#define NORM_FLIGHT (NORM_STEPS < 2 ? NORM_STEPS : 2) /* rows in flight, of 3 or 4 tensors */
#define NORM_MADE (!GY_HAS_Y && GY_HAS_SCALE)         /* the output is made again */

GY_FN float norm_output(float x, float y, float scale, float shift)
{
    return NORM_MADE ? gy_act_of(x * scale + shift + y) : y;
}

/* What masks a row: the output, or what is added before it; 0 where neither is read. */
GY_FN struct gy_vec norm_mask(const gy_t *y, const gy_t *res, int64_t i, const struct norm_added *by)
{
    struct gy_vec out;
    GY_EACH(j) out.v[j] = 0.0f;
    if (GY_HAS_Y && (GY_ACT || GY_HAS_AGAIN))
        out = gy_get_vec(y, i);
    else if (NORM_MADE && GY_HAS_RES)
        out = norm_res(res, i, by);
    return out;
}
#endif

#ifdef NORM_SUMS
struct norm_sums_shared {
    float sum[2][GY_VEC][GY_THREADS];
};

/* Sets (sum of dy', sum of dy' * (x - mean) * rstd) of a tile. */
GY_KERNEL(norm_sums)
{
    GY_SHARED(struct norm_sums_shared, s);
    const int c = norm_channel();
    struct gy_vec sum, product, mean, scale, shift;
    GY_EACH(j) sum.v[j] = product.v[j] = scale.v[j] = shift.v[j] = 0.0f;
    if (!norm_idle(c)) {
        const struct norm_added by = norm_added_of(GY_P(const float, GY_RES_SCALE), GY_P(const float, GY_RES_SHIFT), c);
        mean = gy_get_floats(GY_P(const float, GY_MEAN), c);
        if (NORM_MADE) {
            scale = gy_get_floats(GY_P(const float, GY_SCALE), c);
            shift = gy_get_floats(GY_P(const float, GY_SHIFT), c);
        }
        GY_UNROLL_NOT for (int step = 0; step < NORM_STEPS; step += NORM_FLIGHT) {
            struct gy_vec dy[NORM_FLIGHT], x[NORM_FLIGHT], y[NORM_FLIGHT];
            GY_UNROLL for (int u = 0; u < NORM_FLIGHT; u++) {
                const int64_t i = norm_at(step + u, c);
                dy[u] = gy_get_vec(GY_P(const gy_t, GY_DY), i);
                x[u] = gy_get_vec(GY_P(const gy_t, GY_X), i);
                y[u] = norm_mask(GY_P(const gy_t, GY_Y), GY_P(const gy_t, GY_RES), i, &by);
            }
            GY_UNROLL for (int u = 0; u < NORM_FLIGHT; u++) {
                const int there = norm_pixel(step + u) < GY_PIXELS;
                GY_EACH(j) {
                    y[u].v[j] = norm_output(x[u].v[j], y[u].v[j], scale.v[j], shift.v[j]);
                    const float d = gy_act_back(dy[u].v[j], y[u].v[j]);
                    sum.v[j] += there ? d : 0.0f;
                    product.v[j] += there ? d * (x[u].v[j] - mean.v[j]) : 0.0f;
                    dy[u].v[j] = d;
                }
                if (GY_HAS_DRES && there)
                    gy_put_vec(GY_P(gy_t, GY_DRES), norm_at(step + u, c), dy[u]);
                if (GY_HAS_AGAIN && there)
                    gy_put_vec(GY_P(gy_t, GY_AGAIN), norm_at(step + u, c), y[u]);
            }
        }
        const struct gy_vec rstd = gy_get_floats(GY_P(const float, GY_RSTD), c);
        GY_EACH(j) product.v[j] *= rstd.v[j];
    }
    GY_EACH(j) {
        s->sum[0][j][GY_TID] = sum.v[j];
        s->sum[1][j][GY_TID] = product.v[j];
    }
    GY_UNROLL_NOT for (int half = NORM_ROWS / 2; half > 0; half /= 2) {
        GY_SYNC();
        if (norm_row() >= half)
            continue;
        GY_EACH(j) {
            sum.v[j] = s->sum[0][j][GY_TID] += s->sum[0][j][GY_TID + half * GY_COLS];
            product.v[j] = s->sum[1][j][GY_TID] += s->sum[1][j][GY_TID + half * GY_COLS];
        }
    }
    if (norm_row() == 0 && c < GY_C) {
        gy_put_floats(GY_P(float, GY_SCRATCH), norm_part_at(GY_BX, 0, c), sum);
        gy_put_floats(GY_P(float, GY_SCRATCH), norm_part_at(GY_BX, 1, c), product);
    }
}

/* Joins the tiles as norm_stats_join does, and gives the parameters' gradients. */
GY_KERNEL(norm_sums_join)
{
    GY_SHARED(struct norm_sums_shared, s);
    const int c = GY_BX * NORM_JOIN_WIDE + GY_TID % NORM_JOIN_WIDE, row = GY_TID / NORM_JOIN_WIDE;
    const float *part = GY_P(const float, GY_SCRATCH);
    float sum = 0.0f, product = 0.0f;
    GY_UNROLL_NOT for (int first = row; first < GY_TILES && c < GY_C; first += NORM_JOIN_FLIGHT * NORM_JOIN_ROWS) {
        float more[2][NORM_JOIN_FLIGHT];
        GY_UNROLL for (int u = 0; u < NORM_JOIN_FLIGHT; u++) {
            const int tile = first + u * NORM_JOIN_ROWS, there = tile < GY_TILES ? tile : row;
            more[0][u] = part[norm_part_at(there, 0, c)];
            more[1][u] = part[norm_part_at(there, 1, c)];
        }
        GY_UNROLL for (int u = 0; u < NORM_JOIN_FLIGHT; u++) {
            const int there = first + u * NORM_JOIN_ROWS < GY_TILES;
            sum += there ? more[0][u] : 0.0f;
            product += there ? more[1][u] : 0.0f;
        }
    }
    s->sum[0][0][GY_TID] = sum;
    s->sum[1][0][GY_TID] = product;
    GY_UNROLL_NOT for (int half = NORM_JOIN_ROWS / 2; half > 0; half /= 2) {
        GY_SYNC();
        if (row >= half)
            continue;
        sum = s->sum[0][0][GY_TID] += s->sum[0][0][GY_TID + half * NORM_JOIN_WIDE];
        product = s->sum[1][0][GY_TID] += s->sum[1][0][GY_TID + half * NORM_JOIN_WIDE];
    }
    if (row > 0 || c >= GY_C)
        return;
    float *dbeta = GY_P(float, GY_DBETA), *dgamma = GY_P(float, GY_DGAMMA);
    GY_P(float, GY_SUMS)[c] = sum;
    GY_P(float, GY_SUMS)[GY_C + c] = product;
    dbeta[c] = sum + (a.u->accumulate ? dbeta[c] : 0.0f);
    dgamma[c] = product + (a.u->accumulate ? dgamma[c] : 0.0f);
}
#endif

#ifdef NORM_BWD
#define NORM_ADDS_DX (GY_HAS_DX && (GY_FLAGS & GY_F_ADD_DX))
#define NORM_ADDS_DRES (GY_HAS_DRES && (GY_FLAGS & GY_F_ADD_DRES))

/* dx = slope * dy' + tilt * x + level, with three constants a channel; 0 where the sample is
 * absent. */
GY_KERNEL(norm_bwd)
{
    const int c = norm_channel();
    const int64_t pixels = norm_there(a.u);
    struct gy_vec slope, tilt, level, scale, shift;
    if (norm_idle(c))
        return;
    const struct norm_added by = norm_added_of(GY_P(const float, GY_RES_SCALE), GY_P(const float, GY_RES_SHIFT), c);
    {
        const float share = (float)(1.0 / (double)pixels);
        const struct gy_vec mean = gy_get_floats(GY_P(const float, GY_MEAN), c),
                            rstd = gy_get_floats(GY_P(const float, GY_RSTD), c),
                            gamma = gy_get_floats(GY_P(const float, GY_GAMMA), c),
                            sum = gy_get_floats(GY_P(const float, GY_SUMS), c),
                            product = gy_get_floats(GY_P(const float, GY_SUMS), GY_C + c);
        GY_EACH(j) {
            slope.v[j] = gamma.v[j] * rstd.v[j];
            tilt.v[j] = -slope.v[j] * (product.v[j] * share) * rstd.v[j];
            level.v[j] = -slope.v[j] * (sum.v[j] * share) - tilt.v[j] * mean.v[j];
            scale.v[j] = shift.v[j] = 0.0f;
        }
    }
    if (NORM_MADE) {
        scale = gy_get_floats(GY_P(const float, GY_SCALE), c);
        shift = gy_get_floats(GY_P(const float, GY_SHIFT), c);
    }
    GY_UNROLL_NOT for (int step = 0; step < NORM_STEPS; step += NORM_FLIGHT) {
        struct gy_vec dy[NORM_FLIGHT], x[NORM_FLIGHT], y[NORM_FLIGHT], dx[NORM_FLIGHT], dres[NORM_FLIGHT];
        GY_UNROLL for (int u = 0; u < NORM_FLIGHT; u++) {
            const int64_t i = norm_at(step + u, c);
            GY_EACH(j) dx[u].v[j] = dres[u].v[j] = 0.0f;
            dy[u] = gy_get_vec(GY_P(const gy_t, GY_DY), i);
            x[u] = gy_get_vec(GY_P(const gy_t, GY_X), i);
            y[u] = norm_mask(GY_P(const gy_t, GY_Y), GY_P(const gy_t, GY_RES), i, &by);
            if (NORM_ADDS_DX)
                dx[u] = gy_get_vec(GY_P(const gy_t, GY_DX), i);
            if (NORM_ADDS_DRES)
                dres[u] = gy_get_vec(GY_P(const gy_t, GY_DRES), i);
        }
        GY_UNROLL for (int u = 0; u < NORM_FLIGHT; u++) {
            const int there = norm_pixel(step + u) < pixels;
            GY_EACH(j) {
                const float d = gy_act_back(dy[u].v[j], norm_output(x[u].v[j], y[u].v[j], scale.v[j], shift.v[j]));
                const float value = there ? slope.v[j] * d + (tilt.v[j] * x[u].v[j] + level.v[j]) : 0.0f;
                dx[u].v[j] = NORM_ADDS_DX ? dx[u].v[j] + value : value;
                dres[u].v[j] = NORM_ADDS_DRES ? dres[u].v[j] + d : d;
            }
            if (norm_pixel(step + u) >= GY_PIXELS)
                continue;
            if (GY_HAS_DX)
                gy_put_vec(GY_P(gy_t, GY_DX), norm_at(step + u, c), dx[u]);
            if (GY_HAS_DRES)
                gy_put_vec(GY_P(gy_t, GY_DRES), norm_at(step + u, c), dres[u]);
        }
    }
}
#endif
