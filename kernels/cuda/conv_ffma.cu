/* SPDX-License-Identifier: MIT */
/* conv_ffma.cu: convolution as an implicit matrix product on ordinary multiply-add units, for every
 * architecture and type. Rows of variants_conv.c launch it. All sums are float. Forward and data
 * gradient: rows are output pixels, columns output channels, the reduction is taps x channels.
 * Nothing is laid out in memory; a tile gathers what it multiplies. Weight gradient: rows are
 * output channels, columns filter cells x channels, the reduction is the pixels. These are cut into
 * GY_SLICES fixed slices whose sums conv_sum adds in order.
 *
 *   1  explicit patches (conv_plain.cu)
 *   2  gathered, one value a thread and load
 *   3  tiles of 128x128x8 with 8x8 sums a thread, 16 bytes a load where channels divide by 4:
 *      shared memory feeds 8x8 sums with 16 reads for 64 multiply-adds
 *   4  (this) two buffers and loads one step ahead in registers, so that one barrier a step
 *      suffices; tiles of 64x64x16 and 128x64x16 for few channels or pixels; a warp is 8 x 4
 *      threads, so that both its reads of shared memory are broadcasts
 *
 * A block makes GY_BM x GY_BN values with 256 threads of GY_TM x GY_TN; GY_BK of the reduction a
 * step. Shared memory: two buffers of (BM + 4 + BN + 4) * BK floats; the 4 keep the stores of
 * transposed loads on different banks. Tails: loads beyond the image, the channels or the reduction
 * give zero, stores are checked. Grid: x tiles, columns first, so that neighbours share input; y
 * class of pixels (data gradient) or slice; z group. */
#include "prelude.cuh"
#include "conv.cuh"

/* Elements of a load. FF_A_ALONG: the A load runs along the product's rows (weight gradient).
 * FF_B_ALONG: the B load runs along its columns. */
#define FF_VA (GY_DIR == 2 ? (CV_KG % 4 == 0 ? 4 : 1) : (CV_RED % 4 == 0 ? 4 : 1))
#define FF_VB (GY_DIR == 0 ? (CV_ROW % 4 == 0 ? 4 : 1) : (CV_CG % 4 == 0 ? 4 : 1))
#define FF_A_ALONG (GY_DIR == 2)
#define FF_B_ALONG (GY_DIR != 0)
/* Loads side by side, then how many a thread does, FF_?_STEP lines apart. */
#define FF_A_SIDE ((FF_A_ALONG ? GY_BM : GY_BK) / FF_VA)
#define FF_B_SIDE ((FF_B_ALONG ? GY_BN : GY_BK) / FF_VB)
#define FF_A_STEP (GY_THREADS / FF_A_SIDE)
#define FF_B_STEP (GY_THREADS / FF_B_SIDE)
#define FF_A_COUNT ((FF_A_ALONG ? GY_BK : GY_BM) / FF_A_STEP)
#define FF_B_COUNT ((FF_B_ALONG ? GY_BK : GY_BN) / FF_B_STEP)

#define FF_COLS (GY_DIR == 2 ? CV_ROW : CV_OUT)
#define FF_STRIPES (GY_BM / GY_TM)                 /* threads along the rows */

struct ffma_tiles {
    float a[2][GY_BK][GY_BM + 4], b[2][GY_BK][GY_BN + 4];
};
struct ffma_stats {
    float mean[FF_STRIPES][GY_BN], squares[FF_STRIPES][GY_BN];
};
union ffma_shared {
    struct ffma_tiles t;
    struct ffma_stats s;
};

/* Steps of a block. In the weight gradient every slice has equally many, and the rest of the last
 * is zeros. So the bound takes no register. */
#if GY_DIR == 2
#define FF_STEPS ((GY_SLICE_PIXELS + GY_BK - 1) / GY_BK)
#else
#define FF_STEPS l.steps
#endif

/* What a thread loads next, and where from. */
struct ffma_load {
    struct conv_view v;
    int first_row, first_col, group;
    int step, steps, pixel, pixel_end; /* pixels: loaded next, and of this slice, weight gradient */
    struct conv_walk a_walk, b_walk[FF_B_COUNT];
    struct conv_row row[FF_A_COUNT];
    const gy_t *x, *dy;
    const float *w;
    float a[FF_A_COUNT][FF_VA], b[FF_B_COUNT][FF_VB];
};

GY_FN void ffma_get(float *to, const gy_t *p, int64_t i, int count)
{
    if (count == 4) {
        const struct gy_vec4 v = gy_get4(p, i);
        GY_UNROLL for (int j = 0; j < 4; j++) to[j] = v.v[j];
    } else {
        to[0] = gy_get(p, i);
    }
}

GY_FN void ffma_get_float(float *to, const float *p, int count)
{
    if (count == 4) {
        const struct gy_raw16 v = gy_load16(p);
        GY_UNROLL for (int j = 0; j < 4; j++) to[j] = gy_float(v.w[j]);
    } else {
        to[0] = p[0];
    }
}

GY_FN void ffma_zero(float *to, int count)
{
    GY_UNROLL for (int j = 0; j < count; j++) to[j] = 0.0f;
}

#if GY_DIR != 2
/* A: a row is a pixel; the thread's place in the reduction is the same for all its rows. */
GY_FN void ffma_load_a(struct ffma_load *l)
{
    const int delta = conv_delta(&l->a_walk);
    GY_UNROLL for (int i = 0; i < FF_A_COUNT; i++) {
        if (conv_inside(&l->v, &l->row[i], &l->a_walk))
            ffma_get(l->a[i], l->x, l->row[i].at + delta, FF_VA);
        else
            ffma_zero(l->a[i], FF_VA);
    }
    conv_walk_on(&l->v, &l->a_walk, GY_BK);
}
#endif

#if GY_DIR == 0
/* B: a column's weights lie one after another along the reduction. */
GY_FN void ffma_load_b(struct ffma_load *l)
{
    const int k = l->step * GY_BK + GY_TID % FF_B_SIDE * FF_VB;
    GY_UNROLL for (int i = 0; i < FF_B_COUNT; i++) {
        const int n = l->first_col + GY_TID / FF_B_SIDE + i * FF_B_STEP;
        if (n < CV_OUT && k < CV_ROW)
            ffma_get_float(l->b[i], l->w + (int64_t)n * CV_ROW + k, FF_VB);
        else
            ffma_zero(l->b[i], FF_VB);
    }
}
#elif GY_DIR == 1
/* B: a line is one place of the reduction, its columns are neighbours. */
GY_FN void ffma_load_b(struct ffma_load *l)
{
    const int n = l->first_col + GY_TID % FF_B_SIDE * FF_VB;
    GY_UNROLL for (int i = 0; i < FF_B_COUNT; i++) {
        struct conv_walk *const k = &l->b_walk[i];
        if (n < CV_OUT && k->th < l->v.h.taps)
            ffma_get_float(l->b[i], l->w + ((int64_t)k->c * CV_TAPS + conv_cell(&l->v, k)) * CV_CG + n, FF_VB);
        else
            ffma_zero(l->b[i], FF_VB);
        conv_walk_on(&l->v, k, GY_BK);
    }
}
#else
/* Both: a line is a pixel. A: dy's channels; B: x at the thread's fixed tap and channel. */
GY_FN void ffma_load_a(struct ffma_load *l)
{
    const int k = l->first_row + GY_TID % FF_A_SIDE * FF_VA;
    GY_UNROLL for (int i = 0; i < FF_A_COUNT; i++) {
        const int m = l->pixel + GY_TID / FF_A_SIDE + i * FF_A_STEP;
        if (m < l->pixel_end && k < CV_KG)
            ffma_get(l->a[i], l->dy, (int64_t)m * GY_K + k, FF_VA);
        else
            ffma_zero(l->a[i], FF_VA);
    }
}

GY_FN void ffma_load_b(struct ffma_load *l)
{
    const int delta = conv_delta(&l->a_walk);
    GY_UNROLL for (int i = 0; i < FF_B_COUNT; i++) {
        const int m = l->pixel + GY_TID / FF_B_SIDE + i * FF_B_STEP;
        const struct conv_row row = conv_row_of(&l->v, m < l->pixel_end ? m : CV_PIXELS);
        if (conv_inside(&l->v, &row, &l->a_walk))
            ffma_get(l->b[i], l->x, row.at + delta, FF_VB);
        else
            ffma_zero(l->b[i], FF_VB);
    }
    l->pixel += GY_BK;
}
#endif

GY_FN void ffma_load_begin(struct ffma_load *l)
{
    const int tiles = (FF_COLS + GY_BN - 1) / GY_BN;
    l->group = GY_BZ;
    l->first_row = GY_BX / tiles * GY_BM;
    l->first_col = GY_BX % tiles * GY_BN;
    l->step = 0;
    l->v = conv_view_of(GY_DIR == 1 ? GY_BY : 0);
#if GY_DIR == 2
    l->pixel = GY_BY * GY_SLICE_PIXELS;
    l->pixel_end = l->pixel + GY_SLICE_PIXELS < CV_PIXELS ? l->pixel + GY_SLICE_PIXELS : CV_PIXELS;
    l->a_walk = conv_walk_to(&l->v, l->first_col + GY_TID % FF_B_SIDE * FF_VB);
#else
    l->steps = (l->v.depth + GY_BK - 1) / GY_BK;
    l->a_walk = conv_walk_to(&l->v, GY_TID % FF_A_SIDE * FF_VA);
    GY_UNROLL for (int i = 0; i < FF_A_COUNT; i++)
        l->row[i] = conv_row_of(&l->v, l->first_row + GY_TID / FF_A_SIDE + i * FF_A_STEP);
#if GY_DIR == 1
    GY_UNROLL for (int i = 0; i < FF_B_COUNT; i++)
        l->b_walk[i] = conv_walk_to(&l->v, GY_TID / FF_B_SIDE + i * FF_B_STEP);
#endif
#endif
}

/* Group offsets are constants where there is one group. */
GY_FN void ffma_load_from(struct ffma_load *l, const gy_t *x, const gy_t *dy, const float *w)
{
#if GY_DIR == 1
    l->x = x + l->group * CV_RED;
    l->w = w + (int64_t)l->group * CV_RED * CV_ROW;
#else
    l->x = x + l->group * CV_CG;
    l->w = w == NULL ? NULL : w + (int64_t)l->group * CV_KG * CV_ROW;
#endif
    l->dy = dy == NULL ? NULL : dy + l->group * CV_KG;
}

GY_FN void ffma_put4(float *to, const float *v)
{
    struct gy_raw16 r;
    GY_UNROLL for (int j = 0; j < 4; j++) r.w[j] = gy_bits(v[j]);
    gy_store16(to, r);
}

/* One load into a tile [GY_BK][pitch]: along a line as it is, else turned. */
GY_FN void ffma_store(float *tile, int pitch, const float *v, int count, int along, int side, int line)
{
    if (!along) {
        GY_UNROLL for (int j = 0; j < count; j++) tile[(side + j) * pitch + line] = v[j];
    } else if (count == 4) {
        ffma_put4(tile + line * pitch + side, v);
    } else {
        tile[line * pitch + side] = v[0];
    }
}

GY_FN void ffma_store_tiles(struct ffma_tiles *t, int buffer, const struct ffma_load *l)
{
    GY_UNROLL for (int i = 0; i < FF_A_COUNT; i++)
        ffma_store(t->a[buffer][0], GY_BM + 4, l->a[i], FF_VA, FF_A_ALONG, GY_TID % FF_A_SIDE * FF_VA,
                   GY_TID / FF_A_SIDE + i * FF_A_STEP);
    GY_UNROLL for (int i = 0; i < FF_B_COUNT; i++)
        ffma_store(t->b[buffer][0], GY_BN + 4, l->b[i], FF_VB, FF_B_ALONG, GY_TID % FF_B_SIDE * FF_VB,
                   GY_TID / FF_B_SIDE + i * FF_B_STEP);
}

/* A thread's rows and columns: quads, spread over the tile. */
struct ffma_place {
    int x, y;
};

GY_FN struct ffma_place ffma_place_of(void)
{
    const int across = GY_BN / GY_TN / 8;
    struct ffma_place at;
    at.x = GY_WARP % across * 8 + GY_LANE % 8;
    at.y = GY_WARP / across * 4 + GY_LANE / 8;
    return at;
}
GY_FN int ffma_row(const struct ffma_place *at, int i) { return i / 4 * (4 * GY_BM / GY_TM) + at->y * 4 + i % 4; }
GY_FN int ffma_col(const struct ffma_place *at, int j) { return j / 4 * (4 * GY_BN / GY_TN) + at->x * 4 + j % 4; }

GY_FN void ffma_multiply(const struct ffma_tiles *t, int buffer, const struct ffma_place *at, float sum[GY_TM][GY_TN])
{
    GY_UNROLL_NOT for (int part = 0; part < GY_BK; part += 8) GY_UNROLL for (int k = part; k < part + 8; k++) {
        float a[GY_TM], b[GY_TN];
        GY_UNROLL for (int i = 0; i < GY_TM; i += 4) ffma_get_float(a + i, &t->a[buffer][k][ffma_row(at, i)], 4);
        GY_UNROLL for (int j = 0; j < GY_TN; j += 4) ffma_get_float(b + j, &t->b[buffer][k][ffma_col(at, j)], 4);
        GY_UNROLL for (int i = 0; i < GY_TM; i++)
            GY_UNROLL for (int j = 0; j < GY_TN; j++) sum[i][j] += a[i] * b[j];
    }
}

#if GY_DIR == 0
/* What statistics are taken of: not rounded yet. */
GY_FN void ffma_bias(const struct ffma_load *l, const struct ffma_place *at, const float *bias, float sum[GY_TM][GY_TN])
{
    GY_UNROLL for (int j = 0; j < GY_TN; j++) {
        const int n = l->first_col + ffma_col(at, j);
        const float add = bias != NULL && n < CV_OUT ? bias[l->group * CV_OUT + n] : 0.0f;
        GY_UNROLL for (int i = 0; i < GY_TM; i++) sum[i][j] += add;
    }
}
#endif

#if GY_DIR == 0 && GY_HAS_STATS
/* Pixels of the image among the quad of rows that begins at row. */
GY_FN int ffma_quad(const struct ffma_load *l, int row)
{
    const int left = CV_PIXELS - l->first_row - row;
    return left < 0 ? 0 : left > 4 ? 4 : left;
}

GY_FN int ffma_stripe_pixels(const struct ffma_load *l, int stripe)
{
    int count = 0;
    GY_UNROLL for (int i = 0; i < GY_TM; i += 4) count += ffma_quad(l, i * GY_BM / GY_TM + stripe * 4);
    return count;
}

/* A thread's own column pieces: mean, and squares around it. */
GY_FN void ffma_stats_own(struct ffma_stats *s, const struct ffma_load *l, const struct ffma_place *at,
                          float sum[GY_TM][GY_TN])
{
    const int count = ffma_stripe_pixels(l, at->y);
    GY_UNROLL for (int j = 0; j < GY_TN; j++) {
        float total = 0.0f, squares = 0.0f;
        GY_UNROLL for (int i = 0; i < GY_TM; i++)
            total += l->first_row + ffma_row(at, i) < CV_PIXELS ? sum[i][j] : 0.0f;
        const float mean = count > 0 ? total / (float)count : 0.0f;
        GY_UNROLL for (int i = 0; i < GY_TM; i++) {
            const float off = l->first_row + ffma_row(at, i) < CV_PIXELS ? sum[i][j] - mean : 0.0f;
            squares += off * off;
        }
        s->mean[at->y][ffma_col(at, j)] = mean;
        s->squares[at->y][ffma_col(at, j)] = squares;
    }
}

/* The block's row of statistics: pieces merged around their mean, one thread a column. */
GY_FN void ffma_stats_row(const struct ffma_stats *s, const struct ffma_load *l, float *out)
{
    const int n = l->first_col + GY_TID;
    if (GY_TID >= GY_BN || n >= CV_OUT)
        return;
    float total = 0.0f, squares = 0.0f, pixels = 0.0f;
    for (int y = 0; y < FF_STRIPES; y++) {
        const float count = (float)ffma_stripe_pixels(l, y);
        pixels += count;
        total += count * s->mean[y][GY_TID];
    }
    const float mean = total / pixels;
    for (int y = 0; y < FF_STRIPES; y++) {
        const float off = s->mean[y][GY_TID] - mean;
        squares += s->squares[y][GY_TID] + (float)ffma_stripe_pixels(l, y) * off * off;
    }
    out[l->group * CV_OUT + n] = mean;
    out[GY_K + l->group * CV_OUT + n] = squares;
}
#endif

#if GY_DIR != 2
/* One quad of columns of one pixel: finished and stored. first: element of the output. */
GY_FN void ffma_finish_quad(const struct gy_args *a, int64_t first, int channel, int count, float *v)
{
#if GY_DIR == 0
    gy_t *const out = (gy_t *)a->ptr[GY_Y];
    for (int j = 0; j < count; j++) {
        float scale = 1.0f, shift = 0.0f, res = 0.0f;
#if GY_HAS_SCALE
        scale = ((const float *)a->ptr[GY_SCALE])[channel + j];
        shift = ((const float *)a->ptr[GY_SHIFT])[channel + j];
#endif
#if GY_HAS_RES
        res = gy_get((const gy_t *)a->ptr[GY_RES], first + j);
#endif
        v[j] = conv_finish(v[j], scale, shift, res);
    }
#else
    gy_t *const out = (gy_t *)a->ptr[GY_DX];
    (void)channel;
#if GY_FLAGS & 1
    for (int j = 0; j < count; j++)
        v[j] += gy_get(out, first + j);
#endif
#endif
#if CV_OUT % 4 == 0
    struct gy_vec4 four;
    GY_UNROLL for (int j = 0; j < 4; j++) four.v[j] = v[j];
    gy_put4(out, first, four);
#else
    for (int j = 0; j < count; j++)
        gy_put(out, first + j, v[j]);
#endif
}

GY_FN void ffma_finish(const struct gy_args *a, const struct ffma_load *l, const struct ffma_place *at,
                       float sum[GY_TM][GY_TN])
{
    GY_UNROLL for (int i = 0; i < GY_TM; i++) {
        const int m = l->first_row + ffma_row(at, i);
        const int64_t pixel = m < l->v.pixels ? conv_out_pixel(&l->v, m) : 0;
        GY_UNROLL for (int j = 0; j < GY_TN; j += 4) {
            const int n = l->first_col + ffma_col(at, j), left = CV_OUT - n, channel = l->group * CV_OUT + n;
            if (m < l->v.pixels && left > 0)
                ffma_finish_quad(a, pixel * CV_OUT_C + channel, channel, left < 4 ? left : 4, sum[i] + j);
        }
    }
}
#else
/* The gradient itself, or this slice's part of it. */
GY_FN void ffma_finish(const struct gy_args *a, const struct ffma_load *l, const struct ffma_place *at,
                       float sum[GY_TM][GY_TN])
{
    float *out = GY_SLICES > 1 ? (float *)a->ptr[GY_SCRATCH] + GY_BY * CV_WEIGHTS : (float *)a->ptr[GY_DW];
    const int add = GY_SLICES == 1 && a->u->accumulate;
    out += ((int64_t)l->group * CV_KG + l->first_row) * CV_ROW + l->first_col;
    GY_UNROLL for (int i = 0; i < GY_TM; i++) {
        const int row = ffma_row(at, i);
        GY_UNROLL for (int j = 0; j < GY_TN; j++) {
            const int col = ffma_col(at, j);
            const int64_t to = (int64_t)row * CV_ROW + col;
            if (l->first_row + row < CV_KG && l->first_col + col < CV_ROW)
                out[to] = add ? out[to] + sum[i][j] : sum[i][j];
        }
    }
}
#endif

GY_KERNEL(conv_ffma)
{
    GY_SHARED(union ffma_shared, s);
    struct ffma_load l;
    float sum[GY_TM][GY_TN];
    const struct ffma_place at = ffma_place_of();
    ffma_load_begin(&l);
    if (GY_DIR == 1 && l.first_row >= l.v.pixels)
        return; /* a smaller class */
    ffma_load_from(&l, GY_P(gy_t, GY_DIR == 1 ? GY_DY : GY_X), GY_P(gy_t, GY_DY), GY_P(float, GY_W));
    GY_UNROLL for (int i = 0; i < GY_TM; i++) ffma_zero(sum[i], GY_TN);
    ffma_load_a(&l);
    ffma_load_b(&l);
    ffma_store_tiles(&s->t, 0, &l);
    GY_UNROLL_NOT for (l.step = 1; l.step <= FF_STEPS; l.step++) {
        const int now = (l.step - 1) & 1;
        GY_SYNC(); /* the tile is whole, and nobody reads the other one */
        if (l.step < FF_STEPS) {
            ffma_load_a(&l);
            ffma_load_b(&l);
        }
        ffma_multiply(&s->t, now, &at, sum);
        if (l.step < FF_STEPS)
            ffma_store_tiles(&s->t, !now, &l);
    }
#if GY_DIR == 0
    ffma_bias(&l, &at, GY_P(float, GY_BIAS), sum);
#if GY_HAS_STATS
    GY_SYNC(); /* tiles are read no more */
    ffma_stats_own(&s->s, &l, &at, sum);
    GY_SYNC();
    ffma_stats_row(&s->s, &l, CV_STAT_AT(l.first_row / GY_BM));
#endif
#endif
    ffma_finish(&a, &l, &at, sum);
}
