/* SPDX-License-Identifier: MIT */
/* conv_wgmma.cu: convolution as an implicit matrix product on sm_90a's warp-group units: bf16 and
 * f16, sums in float. Rows of variants_conv.c launch it. The copy engine gathers, so no thread
 * computes addresses. An im2col box is 64 channels of 128 neighbouring output pixels at one filter
 * tap, zeros outside the image.
 *
 *   1  conv_mma.cu
 *   2  (this) one thread issues bulk copies into a ring of GY_STAGES tiles. Two warp groups
 *      multiply 64 rows each with wgmma out of shared memory, and return tiles by counting
 *      barriers. Blocks stay and take tile after tile: the next tile's copies run while the last
 *      one is finished. Registers move from the group that copies to those that multiply
 *
 *                    A                              B
 *   forward          x by im2col [128 pixels]       weights [K][R S][C rounded up to 64]
 *                    [64 channels]
 *   data gradient    dy by im2col, taps in reverse  weights transposed [C][R S][K rounded up to 64]
 *   weight gradient  dy [64 pixels]                 x by im2col [64 pixels][64 channels],
 *                    [2 x 64 channels]              a box for 64 columns
 *
 * So forward and data gradient are one kernel on other weights, which are rounded, padded and
 * transposed once a launch. The weight gradient's operands lie with the reduction outside; wgmma
 * transposes them. All boxes have rows of 128 bytes, swizzled. A 1x1 convolution of stride 1 is a
 * plain product: its boxes are rectangles.
 *
 * A block: 3 warp groups, tiles of GY_BM x GY_BN, 64 of the reduction a step. GY_BM is 128, or 64
 * in a weight gradient of few filters. Then both groups have all rows, each takes half of every
 * step, and their sums are parts of their own. Shared memory: GY_STAGES * (BM + BN) * 128 bytes,
 * two output tiles of 64 rows, statistics of 8 warps, barriers. Tails: boxes bring zeros, stores
 * are checked. Grid: x blocks over tiles, columns first. Forward and data gradient have as many as
 * multiprocessors, which orders no sum; the weight gradient has y slices. */
#include "prelude.cuh"
#include "conv.cuh"

#define WG_BM GY_BM
#define WG_HALVES (128 / GY_BM) /* of a step, one a group */
#define WG_BK 64
#define WG_UP(x) (((x) + 63) / 64 * 64)
#define WG_BLOCKS (WG_UP(CV_RED) / 64)     /* of 64 channels, a tap */
#define WG_W_ROW (CV_TAPS * WG_UP(CV_RED)) /* of an output channel */
#define WG_COLS (GY_DIR == 2 ? CV_TAPS * WG_BLOCKS * 64 : CV_OUT)
#define WG_ROWS_MOST                                                                                                   \
    (GY_DIR == 2 ? GY_K :                                                                                              \
                    GY_N * ((CV_OUT_H + CV_PER_H - 1) / CV_PER_H) * ((CV_OUT_W + CV_PER_W - 1) / CV_PER_W))
#define WG_ACROSS ((WG_COLS + GY_BN - 1) / GY_BN)
#define WG_DOWN ((WG_ROWS_MOST + WG_BM - 1) / WG_BM)
#define WG_TILES (WG_ACROSS * WG_DOWN * CV_CLASSES)
#define WG_STAGE_BYTES ((WG_BM + GY_BN) * WG_BK * 2)
#define WG_OUT_ROW (GY_BN + 8)
#define WG_SUMS (GY_BN / 2)                                 /* that a thread holds */

struct wgmma_shared {
    uint16_t a[GY_STAGES][WG_BM * WG_BK], b[GY_STAGES][GY_BN * WG_BK];
    uint16_t out[2][64 * WG_OUT_ROW];
    float mean[8][GY_BN], squares[8][GY_BN];
    uint64_t full[GY_STAGES], empty[GY_STAGES];
};

/* The ring: stage and parity of the round. */
struct wgmma_ring {
    int stage, parity;
};

GY_FN void wgmma_ring_on(struct wgmma_ring *r)
{
    if (++r->stage == GY_STAGES) {
        r->stage = 0;
        r->parity ^= 1;
    }
}

/* One tile of the output. */
struct wgmma_tile {
    struct conv_view v;
    int first_row, first_col, steps, pixel;
};

GY_FN struct wgmma_tile wgmma_tile_of(int index)
{
    struct wgmma_tile t;
    t.first_col = index % WG_ACROSS * GY_BN;
    t.first_row = index / WG_ACROSS % WG_DOWN * WG_BM;
    t.v = conv_view_of(CV_CLASSES == 1 ? 0 : index / WG_ACROSS / WG_DOWN);
#if GY_DIR == 2
    t.pixel = GY_BY * GY_SLICE_PIXELS;
    const int end = t.pixel + GY_SLICE_PIXELS < CV_PIXELS ? t.pixel + GY_SLICE_PIXELS : CV_PIXELS;
    t.steps = (end - t.pixel + WG_BK - 1) / WG_BK;
#else
    t.pixel = 0;
    t.steps = t.v.h.taps * t.v.w.taps * WG_BLOCKS;
    if (t.first_row >= t.v.pixels || (GY_FLAGS & 1 && t.steps == 0))
        t.steps = -1; /* a smaller class, or nothing to add: no tile */
#endif
    return t;
}

/* ---- copying: one thread ---- */

#if GY_DIR != 2
/* Copies a tile. It finds where pixel m of the view stands in the input at the first tap in memory,
 * and the tap's offset from there. */
GY_FN void wgmma_copy_tile(const struct gy_args *a, struct wgmma_shared *s, const struct wgmma_tile *t,
                           struct wgmma_ring *ring)
{
    const struct conv_view *const v = &t->v;
    const int area = v->h.grid * v->w.grid, n = t->first_row / area, left = t->first_row - n * area,
              g = left / v->w.grid;
    const int reach_h = GY_DIR == 1 ? (v->h.taps - 1) * CV_OFF_H : 0,
              reach_w = GY_DIR == 1 ? (v->w.taps - 1) * CV_OFF_W : 0;
    const int h = g * CV_STEP_H + v->h.off0 + reach_h, w = (left - g * v->w.grid) * CV_STEP_W + v->w.off0 + reach_w;
    struct conv_walk k;
    for (k.th = 0; k.th < v->h.taps; k.th++)
        for (k.tw = 0; k.tw < v->w.taps; k.tw++)
            for (k.c = 0; k.c < WG_UP(CV_RED); k.c += WG_BK) {
                uint64_t *const bar = &s->full[ring->stage];
                gy_bar_wait(&s->empty[ring->stage], ring->parity ^ 1);
                gy_bar_expect(bar, WG_STAGE_BYTES);
#if GY_TILED
                gy_bulk_load2(s->a[ring->stage], &a->map[0], bar, k.c, t->first_row);
                (void)h, (void)w, (void)n;
#else
                gy_bulk_im2col(s->a[ring->stage], &a->map[0], bar, k.c, w, h, n, k.tw * CV_OFF_W - reach_w,
                               k.th * CV_OFF_H - reach_h);
#endif
                gy_bulk_load2(s->b[ring->stage], &a->map[1], bar, conv_cell(v, &k) * WG_UP(CV_RED) + k.c, t->first_col);
                wgmma_ring_on(ring);
            }
}
#else
GY_FN void wgmma_copy_tile(const struct gy_args *a, struct wgmma_shared *s, const struct wgmma_tile *t,
                           struct wgmma_ring *ring)
{
    for (int step = 0; step < t->steps; step++) {
        const int m = t->pixel + step * WG_BK, q = m % GY_Q, p = m / GY_Q % GY_P_, n = m / (GY_P_ * GY_Q);
        uint64_t *const bar = &s->full[ring->stage];
        gy_bar_wait(&s->empty[ring->stage], ring->parity ^ 1);
        gy_bar_expect(bar, WG_STAGE_BYTES);
        GY_UNROLL for (int i = 0; i < WG_BM / 64; i++)
            gy_bulk_load2(s->a[ring->stage] + i * 64 * WG_BK, &a->map[0], bar, t->first_row + i * 64, m);
        for (int i = 0; i < GY_BN / 64; i++) {
            const int last = CV_TAPS * WG_BLOCKS - 1, at = t->first_col / 64 + i, block = at < last ? at : last;
            const int cell = block / WG_BLOCKS, c = block % WG_BLOCKS * 64;
            uint16_t *const to = s->b[ring->stage] + i * 64 * WG_BK;
#if GY_TILED
            gy_bulk_load2(to, &a->map[1], bar, c, m);
            (void)p, (void)q, (void)n, (void)cell;
#else
            gy_bulk_im2col(to, &a->map[1], bar, c, q * GY_STRIDE_W - GY_PAD_W, p * GY_STRIDE_H - GY_PAD_H, n,
                           cell % GY_S * GY_DIL_W, cell / GY_S * GY_DIL_H);
#endif
        }
        wgmma_ring_on(ring);
    }
}
#endif

/* ---- multiplying: a warp group takes 64 rows ---- */

#if GY_BN == 64
#define WG_PRODUCT gy_wgmma_64
#elif GY_BN == 128
#define WG_PRODUCT gy_wgmma_128
#elif GY_BN == 192
#define WG_PRODUCT gy_wgmma_192
#else
#define WG_PRODUCT gy_wgmma_256
#endif

/* One stage: four products of 16, or two a group. A step of 16 along the reduction is 32 bytes in a
 * row, or 16 rows where it lies outside; WG_STEP is what it adds to an operand's description. */
#if GY_DIR == 2
#define WG_TILE(operand) gy_wgmma_tile(operand, 8192, 1024, 3)
#define WG_STEP (16 * 128 >> 4)
#define WG_TURN 1
#else
#define WG_TILE(operand) gy_wgmma_tile(operand, 16, 1024, 3)
#define WG_STEP (16 * 2 >> 4)
#define WG_TURN 0
#endif

/* Lane of a group: its rows are row and row + 8, its columns col + 8 * i and the next. */
struct wgmma_lane {
    int group, warp, row, col;
};

#if GY_DIR != 2
GY_FN float wgmma_bias(const float *bias, int n) { return n < CV_OUT ? bias[n] : 0.0f; }

/* What the tile is added to: the gradient so far, or a residual. */
#if GY_DIR == 1 && GY_FLAGS & 1
#define WG_ADDED GY_DX
#elif GY_DIR == 0 && GY_HAS_RES
#define WG_ADDED GY_RES
#endif

/* Two neighbouring columns, finished. waiting: what they are added to. */
GY_FN void wgmma_finish_pair(const struct gy_args *a, int n, uint32_t waiting, float v[2])
{
#ifdef WG_ADDED
    const float other[2] = { gy_widen((uint16_t)waiting), gy_widen((uint16_t)(waiting >> 16)) };
#else
    const float other[2] = { 0.0f, 0.0f };
#endif
    (void)a, (void)n, (void)waiting;
    GY_UNROLL for (int e = 0; e < 2; e++) {
#if GY_DIR == 1
        v[e] += other[e];
#else
        float scale = 1.0f, shift = 0.0f;
#if GY_HAS_SCALE
        scale = wgmma_bias((const float *)a->ptr[GY_SCALE], n + e);
        shift = wgmma_bias((const float *)a->ptr[GY_SHIFT], n + e);
#endif
        v[e] = conv_finish(v[e], scale, shift, other[e]);
#endif
    }
}

/* The group's rows by chunks of 8 columns: the place of chunk i in the buffer and in the output. */
struct wgmma_chunk {
    int at, count; /* count: columns that are there, 0: outside */
    int64_t out;
};

GY_FN struct wgmma_chunk wgmma_chunk_of(const struct wgmma_tile *t, const struct wgmma_lane *at, int i)
{
    struct wgmma_chunk c;
    const int row = i / (GY_BN / 8), col = i % (GY_BN / 8) * 8, n = t->first_col + col;
    const int m = t->first_row + at->group * 64 + row;
    c.at = row * WG_OUT_ROW + col;
    c.count = m >= t->v.pixels || n >= CV_OUT ? 0 : CV_OUT - n < 8 ? CV_OUT - n : 8;
    c.out = c.count > 0 ? conv_out_pixel(&t->v, m) * CV_OUT_C + n : 0;
    return c;
}

#ifdef WG_ADDED
/* What is added goes into the output buffer while the products run; zeros where nothing is. */
GY_FN void wgmma_fetch(const struct gy_args *a, struct wgmma_shared *s, const struct wgmma_tile *t,
                       const struct wgmma_lane *at)
{
    const uint16_t *const from = (const uint16_t *)a->ptr[WG_ADDED];
    gy_some_sync(2 + at->group, 128); /* the tile before has been stored */
    GY_UNROLL_NOT for (int i = GY_TID % 128; i < 64 * GY_BN / 8; i += 128) {
        const struct wgmma_chunk c = wgmma_chunk_of(t, at, i);
        uint16_t *const to = s->out[at->group] + c.at;
#if CV_OUT % 8 == 0
        gy_copy_async(to, from + c.out, c.count > 0 ? 16 : 0);
#else
        for (int j = 0; j < 8; j++)
            to[j] = j < c.count ? from[c.out + j] : 0;
#endif
    }
    gy_copy_commit();
}
#endif

GY_FN void wgmma_finish(const struct gy_args *a, struct wgmma_shared *s, const struct wgmma_tile *t,
                        const struct wgmma_lane *at, float d[WG_SUMS])
{
    uint16_t *const out = s->out[at->group];
#ifdef WG_ADDED
    gy_copy_wait(0);
#endif
    /* what is added is there; or the tile before has been stored */
    gy_some_sync(2 + at->group, 128);
    GY_UNROLL for (int i = 0; i < WG_SUMS; i += 2) {
        const int row = at->row + i / 2 % 2 * 8, col = i / 4 * 8 + at->col;
        uint32_t *const two = (uint32_t *)(out + row * WG_OUT_ROW + col);
        uint32_t waiting = 0;
        if (i % 16 == 0)
            gy_wgmma_hold(&d[i]); /* no more than 16 sums' other values wait in registers */
#if GY_BN == 256 && (defined WG_ADDED || GY_HAS_SCALE)
        if (i % 16 == 0 && i > 0)
            gy_warp_sync(); /* the compiler loads all it can before, until registers spill */
#endif
#ifdef WG_ADDED
        waiting = *two;
#endif
        wgmma_finish_pair(a, t->first_col + col, waiting, d + i);
        *two = gy_narrow2(d[i], d[i + 1]);
    }
    gy_some_sync(2 + at->group, 128);
}

GY_FN void wgmma_store(const struct wgmma_shared *s, const struct wgmma_tile *t, const struct wgmma_lane *at,
                       uint16_t *to)
{
    GY_UNROLL_NOT for (int i = GY_TID % 128; i < 64 * GY_BN / 8; i += 128) {
        const struct wgmma_chunk c = wgmma_chunk_of(t, at, i);
        const uint16_t *const from = s->out[at->group] + c.at;
#if CV_OUT % 8 == 0
        if (c.count > 0)
            gy_store16_global(to + c.out, gy_load16(from));
#else
        for (int j = 0; j < c.count; j++)
            to[c.out + j] = from[j];
#endif
    }
}

#if GY_DIR == 1
/* Pixels that no tap reaches. */
GY_FN void wgmma_store_zeros(const struct wgmma_tile *t, const struct wgmma_lane *at, uint16_t *to)
{
    GY_UNROLL_NOT for (int i = GY_TID % 128; i < 64 * GY_BN / 8; i += 128) {
        const struct wgmma_chunk c = wgmma_chunk_of(t, at, i);
#if CV_OUT % 8 == 0
        const struct gy_raw16 zeros = { { 0, 0, 0, 0 } };
        if (c.count > 0)
            gy_store16_global(to + c.out, zeros);
#else
        for (int j = 0; j < c.count; j++)
            to[c.out + j] = 0;
#endif
    }
}
#endif
#endif /* GY_DIR != 2 */

#if GY_DIR == 0 && GY_HAS_BIAS
GY_FN void wgmma_add_bias(const struct wgmma_tile *t, const struct wgmma_lane *at, const float *bias, float d[WG_SUMS])
{
    GY_UNROLL for (int i = 0; i < WG_SUMS; i += 4)
        GY_UNROLL for (int e = 0; e < 2; e++) {
            const float add = wgmma_bias(bias, t->first_col + i / 4 * 8 + at->col + e);
            d[i + e] += add;
            d[i + 2 + e] += add;
        }
}
#endif

#if GY_DIR == 0 && GY_HAS_STATS
/* Merges two lanes' (mean, squares) over `own` and `their` pixels: mean = mean * own + their mean *
 * their, and squares += off^2 * off. */
struct wgmma_weights {
    float own, their, off, pixels;
};

GY_FN struct wgmma_weights wgmma_weights_of(float own, int mask)
{
    const float their = gy_shfl_xor(own, mask), sum = own + their;
    struct wgmma_weights w;
    w.own = sum > 0.0f ? own / sum : 0.0f;
    w.their = sum > 0.0f ? their / sum : 0.0f;
    w.off = own * w.their;
    w.pixels = sum;
    return w;
}

/* Of `count` columns a lane keeps one half and sends the other, then merges. */
GY_FN void wgmma_merge(float *mean, float *squares, int count, int mask, const struct wgmma_weights *w)
{
    const int upper = GY_LANE & mask;
    GY_UNROLL for (int j = 0; j < count / 2; j++) {
        const float keep = upper ? mean[count / 2 + j] : mean[j], keep2 = upper ? squares[count / 2 + j] : squares[j];
        const float got = gy_shfl_xor(upper ? mean[j] : mean[count / 2 + j], mask);
        const float got2 = gy_shfl_xor(upper ? squares[j] : squares[count / 2 + j], mask);
        const float off = got - keep;
        mean[j] = keep * w->own + got * w->their;
        squares[j] = keep2 + got2 + off * off * w->off;
    }
}

GY_FN int wgmma_pixels(int first, int most)
{
    const int left = CV_PIXELS - first;
    return left < 0 ? 0 : left < most ? left : most;
}

/* The warp's 16 rows, 64 columns at a time: two rows of a lane, then eight lanes. At the end lane l
 * has piece l / 4. */
GY_FN void wgmma_stats_own(struct wgmma_shared *s, const struct wgmma_tile *t, const struct wgmma_lane *at,
                           const float d[WG_SUMS])
{
    const int first = t->first_row + at->group * 64 + at->row,
              count = wgmma_pixels(first, 1) + wgmma_pixels(first + 8, 1);
    const struct wgmma_weights w4 = wgmma_weights_of((float)count, 16), w2 = wgmma_weights_of(w4.pixels, 8),
                               w1 = wgmma_weights_of(w2.pixels, 4);
    GY_UNROLL for (int part = 0; part < GY_BN / 64; part++) {
        float mean[16], squares[16];
        GY_UNROLL for (int j = 0; j < 16; j++) {
            const float upper = d[part * 32 + j / 2 * 4 + j % 2], lower = d[part * 32 + j / 2 * 4 + 2 + j % 2],
                        off = upper - lower;
            mean[j] = count == 2 ? 0.5f * (upper + lower) : upper;
            squares[j] = count == 2 ? 0.5f * off * off : 0.0f;
        }
        wgmma_merge(mean, squares, 16, 16, &w4);
        wgmma_merge(mean, squares, 8, 8, &w2);
        wgmma_merge(mean, squares, 4, 4, &w1);
        GY_UNROLL for (int e = 0; e < 2; e++) {
            const int col = part * 64 + GY_LANE / 4 * 8 + at->col + e;
            s->mean[at->warp][col] = mean[e];
            s->squares[at->warp][col] = squares[e];
        }
    }
}

/* The tile's row of statistics: eight warps merged around their mean, one thread a column. */
GY_FN void wgmma_stats_row(const struct wgmma_shared *s, const struct wgmma_tile *t, float *out)
{
    const int col = GY_TID - 128, n = t->first_col + col;
    if (col >= GY_BN || n >= CV_OUT)
        return;
    float total = 0.0f, squares = 0.0f;
    GY_UNROLL for (int w = 0; w < 8; w++) total += (float)wgmma_pixels(t->first_row + w * 16, 16) * s->mean[w][col];
    const float mean = total / (float)wgmma_pixels(t->first_row, WG_BM);
    GY_UNROLL for (int w = 0; w < 8; w++) {
        const float off = s->mean[w][col] - mean;
        squares += s->squares[w][col] + (float)wgmma_pixels(t->first_row + w * 16, 16) * off * off;
    }
    out[n] = mean;
    out[GY_K + n] = squares;
}
#endif

#if GY_DIR == 2
/* The gradient itself, or this slice's part of it. */
GY_FN void wgmma_finish_weights(const struct gy_args *a, const struct wgmma_tile *t, const struct wgmma_lane *at,
                                const float d[WG_SUMS])
{
    const int halves = WG_HALVES > 1, low = halves ? 0 : at->group * 64;
    const int part = halves ? GY_BY * 2 + at->group : GY_BY;
    float *const parts = (float *)a->ptr[GY_SCRATCH] + part * CV_WEIGHTS;
    float *const out = GY_SLICES > 1 ? parts : (float *)a->ptr[GY_DW];
    const int add = GY_SLICES == 1 && a->u->accumulate;
    GY_UNROLL for (int i = 0; i < WG_SUMS; i++) {
        const int k = t->first_row + low + at->row + i / 2 % 2 * 8,
                  col = t->first_col + i / 4 * 8 + at->col + i % 2;
        const int block = col / 64, c = block % WG_BLOCKS * 64 + col % 64, cell = block / WG_BLOCKS;
        const int64_t to = (int64_t)k * CV_ROW + cell * CV_CG + c;
        if (k < GY_K && cell < CV_TAPS && c < CV_CG)
            out[to] = add ? out[to] + d[i] : d[i];
    }
}
#endif

/* The warp reads a stage no more. */
GY_FN void wgmma_give(uint64_t *empty)
{
    gy_warp_sync();
    if (GY_LANE == 0)
        gy_bar_arrive(empty);
}

/* One tile's sums. A stage is handed back when the next product has begun, so the units never
 * rest. */
GY_FN void wgmma_multiply(struct wgmma_shared *s, int steps, int group, struct wgmma_ring *ring, float d[WG_SUMS])
{
    int before = -1, step = 0;
    do { /* at least once: otherwise the compiler would wait after every product */
        const int stage = ring->stage, first = WG_HALVES > 1 ? group * 2 * WG_STEP : 0;
        const int rows = WG_HALVES > 1 ? 0 : group * 64 * WG_BK;
        const uint64_t left = WG_TILE(s->a[stage] + rows) + first;
        const uint64_t right = WG_TILE(s->b[stage]) + first;
        gy_bar_wait(&s->full[stage], ring->parity);
        gy_wgmma_fence();
        GY_UNROLL for (int k = 0; k < 4 / WG_HALVES; k++)
            WG_PRODUCT(d, left + k * WG_STEP, right + k * WG_STEP, step > 0 || k > 0, WG_TURN,
                       WG_TURN);
        gy_wgmma_commit();
        gy_wgmma_wait(1);
        if (before >= 0)
            wgmma_give(&s->empty[before]);
        before = stage;
        wgmma_ring_on(ring);
    } while (++step < steps);
    gy_wgmma_wait(0);
    GY_UNROLL for (int i = 0; i < WG_SUMS; i++) gy_wgmma_hold(&d[i]);
    wgmma_give(&s->empty[before]);
}

GY_FN void wgmma_end(const struct gy_args *a, struct wgmma_shared *s, const struct wgmma_tile *t,
                     const struct wgmma_lane *at, float d[WG_SUMS])
{
#if GY_DIR == 2
    (void)s;
    wgmma_finish_weights(a, t, at, d);
#else
#if GY_DIR == 0 && GY_HAS_BIAS
    wgmma_add_bias(t, at, (const float *)a->ptr[GY_BIAS], d);
#endif
#if GY_DIR == 0 && GY_HAS_STATS
    gy_some_sync(1, 256); /* the row before has been made */
    wgmma_stats_own(s, t, at, d);
    gy_some_sync(1, 256);
    wgmma_stats_row(s, t, (float *)((unsigned char *)a->ptr[GY_SCRATCH] + GY_STAT_FIRST) +
                    (int64_t)(t->first_row / WG_BM) * 2 * GY_K);
#endif
    wgmma_finish(a, s, t, at, d);
    wgmma_store(s, t, at, (uint16_t *)a->ptr[GY_DIR == 1 ? GY_DX : GY_Y]);
#endif
}

GY_FN void wgmma_copy_all(const struct gy_args *a, struct wgmma_shared *s)
{
    struct wgmma_ring ring = { 0, 0 };
    gy_map_fetch(&a->map[0]);
    gy_map_fetch(&a->map[1]);
    for (int index = GY_BX; index < WG_TILES; index += GY_GX) {
        const struct wgmma_tile t = wgmma_tile_of(index);
        if (t.steps > 0)
            wgmma_copy_tile(a, s, &t, &ring);
    }
}

GY_FN void wgmma_multiply_all(const struct gy_args *a, struct wgmma_shared *s)
{
    struct wgmma_ring ring = { 0, 0 };
    struct wgmma_lane at;
    float d[WG_SUMS];
    at.group = gy_shfl_i(GY_WARP, 0) / 4 - 1; /* the compiler sees: the same in all lanes */
    at.warp = GY_WARP - 4;
    at.row = GY_WARP % 4 * 16 + GY_LANE / 4;
    at.col = GY_LANE % 4 * 2;
    for (int index = GY_BX; index < WG_TILES; index += GY_GX) {
        const struct wgmma_tile t = wgmma_tile_of(index);
        if (t.steps < 0)
            continue;
#if GY_DIR == 1
        if (t.steps == 0) {
            wgmma_store_zeros(&t, &at, (uint16_t *)a->ptr[GY_DX]);
            continue;
        }
#endif
#ifdef WG_ADDED
        wgmma_fetch(a, s, &t, &at);
#endif
        wgmma_multiply(s, t.steps, at.group, &ring, d);
        wgmma_end(a, s, &t, &at, d);
    }
}

GY_KERNEL(conv_wgmma)
{
    GY_SHARED(struct wgmma_shared, s);
    if (GY_TID == 0) {
        for (int i = 0; i < GY_STAGES; i++) {
            gy_bar_init(&s->full[i], 1);
            gy_bar_init(&s->empty[i], 8); /* a lane of each warp that multiplies */
        }
        gy_bar_init_done();
    }
    GY_SYNC();
    if (GY_WARP < 4) {
        gy_registers_less(40);
        if (GY_TID == 0)
            wgmma_copy_all(&a, s);
    } else {
        gy_registers_more(232);
        wgmma_multiply_all(&a, s);
    }
}

#if GY_DIR != 2
/* Weights to 16 bits: one thread has a chunk of 8 along the reduction; zeros pad the channels.
 * Neighbouring threads take neighbours in memory: of the reduction (forward), of the columns (data
 * gradient). */
GY_KERNEL(conv_wgmma_weights)
{
    const int chunks = WG_UP(CV_RED) / 8;
    const int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID;
    if (i >= (int64_t)CV_OUT * CV_TAPS * chunks)
        return;
#if GY_DIR == 1
    const int n = (int)(i % CV_OUT), cell = (int)(i / CV_OUT % CV_TAPS), first = (int)(i / CV_OUT / CV_TAPS) * 8;
    const float *const from = GY_P(float, GY_W) + ((int64_t)first * CV_TAPS + cell) * CV_CG + n;
    const int64_t each = CV_ROW;
#else
    const int first = (int)(i % chunks) * 8, cell = (int)(i / chunks % CV_TAPS), n = (int)(i / chunks / CV_TAPS);
    const float *const from = GY_P(float, GY_W) + (int64_t)n * CV_ROW + cell * CV_CG + first;
    const int64_t each = 1;
#endif
    struct gy_raw16 out;
    GY_UNROLL for (int j = 0; j < 4; j++) out.w[j] = 0;
    GY_UNROLL for (int j = 0; j < 8; j++)
        if (first + j < CV_RED)
            out.w[j / 2] |= (uint32_t)gy_narrow(from[j * each]) << (j % 2 * 16);
    gy_store16(GY_P(uint16_t, GY_SCRATCH) + (int64_t)n * WG_W_ROW + cell * WG_UP(CV_RED) + first, out);
}
#endif
