/* SPDX-License-Identifier: MIT */
/* conv_mma.cu: convolution as an implicit matrix product on matrix units (mma.sync), for rows of
 * variants_conv.c. It does bf16 and f16 from sm_80 on, also on newer cards without a kernel of
 * their own. It does f16 on sm_75 and, except for the weight gradient, sm_70. Sums are float.
 * Weights are rounded to 16 bits once a launch, into scratch.
 *
 *   1  conv_ffma.cu
 *   2  the same tiles multiplied by mma, loads in registers
 *   3  cp.async, three to four tiles in flight, so that no thread waits for memory. The copy writes
 *      zeros for padding, so the image's border costs nothing
 *   4  (this) 16-byte chunks of shared memory lie swizzled: eight rows that ldmatrix reads at once
 *      are in different banks, without padding. All of a lane's addresses are one offset and
 *      constants. Outputs go through shared memory, so that stores are 16 bytes wide
 *
 * A block makes GY_BM x GY_BN values, 32 of the reduction a step. Its warps stand GY_WARPS_M x
 * GY_WARPS_N; each makes pieces of 16 x 8. Tiles lie along the reduction: lines of 32, [row][32],
 * chunk c of line r at c ^ (r / 2 % 4). Or they lie across it: lines of pixels or taps, [32][row],
 * chunk c of line k at c ^ (k % 8), transposed by ldmatrix.trans:
 *
 *                       A                              B
 *   forward             x, gathered          along     weights [K][R S C]                 along
 *   data gradient       dy, gathered         along     weights transposed to [R S][K][C]  across
 *   weight gradient     dy [pixels][K]       across    x, gathered [pixels][R S C]        across
 *
 * Channels that do not divide by 8 are gathered one by one through registers; weights are padded
 * when they are rounded. Images of at most 4 channels and an even stride (a stem) are first copied,
 * with their border and 4 channels a pixel (GY_LINES). Then a filter row of an output pixel is one
 * line of memory that begins on 16 bytes, and copies itself. The reduction has R lines of 4 S
 * numbers, rounded up to 32. Shared memory: GY_STAGES * (BM + BN) * 64 bytes, or the output tile if
 * that is more. Tails: copies of zero bytes, checked stores. Grid: as conv_ffma.cu, without
 * groups. */
#include "prelude.cuh"
#include "conv.cuh"

#define MM_BK 32
#ifndef GY_LINES
#define GY_LINES 0
#endif
#define MM_UP8(x) (((x) + 7) / 8 * 8)

/* The copied image: [N][ML_H][ML_W][4]; a line of the reduction. */
#define ML_LINE ((4 * GY_S + 31) / 32 * 32)
#define ML_H ((GY_P_ - 1) * GY_STRIDE_H + (GY_R - 1) * GY_DIL_H + 1)
#define ML_W (((GY_Q - 1) * GY_STRIDE_W + ML_LINE / 4 + 1) / 2 * 2)
#define ML_IMAGE(scratch) ((uint16_t *)((unsigned char *)(scratch) + GY_LINES_FIRST))

/* What lies across, what divides by 8, what copies itself. */
#define MM_A_ACROSS (GY_DIR == 2)
#define MM_OLD (GY_ARCH < 75) /* 16 x 16 x 4 a warp, no ldmatrix: both operands along, wide loads */
#define MM_B_ACROSS (GY_DIR == 2 || (GY_DIR == 1 && !MM_OLD))
#define MM_A_WHOLE ((GY_DIR == 2 ? GY_K : CV_RED) % 8 == 0 || (GY_LINES && GY_DIR == 0))
#define MM_B_WHOLE (GY_DIR != 2 || GY_C % 8 == 0 || GY_LINES)
#define MM_A_ASYNC (GY_ARCH >= 80 && MM_A_WHOLE)
#define MM_B_ASYNC (GY_ARCH >= 80 && MM_B_WHOLE)

/* Chunks side by side in a line of a tile; lines from a thread's chunk to its next; chunks a thread
 * loads. */
#define MM_A_SIDE ((MM_A_ACROSS ? GY_BM : MM_BK) / 8)
#define MM_B_SIDE ((MM_B_ACROSS ? GY_BN : MM_BK) / 8)
#define MM_A_STEP (GY_THREADS / MM_A_SIDE)
#define MM_B_STEP (GY_THREADS / MM_B_SIDE)
#define MM_A_COUNT ((MM_A_ACROSS ? MM_BK : GY_BM) / MM_A_STEP)
#define MM_B_COUNT ((MM_B_ACROSS ? MM_BK : GY_BN) / MM_B_STEP)

#define MM_ROW (GY_LINES ? GY_R * ML_LINE : CV_ROW)
#define MM_COLS (GY_DIR == 2 ? MM_ROW : CV_OUT)
/* rounded weights: [C][R S][K], else [R S][K][C] */
#define MM_W_TURNED (GY_DIR == 1 && MM_OLD)
#define MM_W_ROW (MM_W_TURNED ? CV_TAPS * MM_UP8(CV_RED) : GY_DIR == 1 ? MM_UP8(CV_CG) : MM_UP8(MM_ROW))
#define MM_WM (GY_BM / GY_WARPS_M)                              /* a warp's part */
#define MM_WN (GY_BN / GY_WARPS_N)
#define MM_MI (MM_WM / 16)
#define MM_PIECE (MM_OLD ? 16 : 8) /* columns that one product makes */
#define MM_NI (MM_WN / MM_PIECE)
#define MM_E (MM_PIECE / 2)        /* sums of it in a lane */
#define MM_A_BYTES (GY_BM * MM_BK * 2)
#define MM_B_BYTES (GY_BN * MM_BK * 2)
#define MM_OUT_ROW (GY_BN + 8) /* of the output tile: 8 more put rows on different banks */

struct mma_stage {
    uint16_t a[GY_BM * MM_BK], b[GY_BN * MM_BK];
};
union mma_shared {
    struct mma_stage stage[GY_STAGES];
    struct {
        float mean[GY_WARPS_M][GY_BN], squares[GY_WARPS_M][GY_BN];
    } stats;
    uint16_t out[GY_BM * MM_OUT_ROW];
};

struct mma_load {
    struct conv_view v;
    int first_row, first_col, step, steps, pixel, pixel_end;
    struct conv_walk walk, b_walk[MM_B_COUNT]; /* walk: of A, or of B's columns (weight gradient) */
    struct conv_row row[MM_A_COUNT];
    const uint16_t *x, *dy, *w;
    struct gy_raw16 a[MM_A_COUNT], b[MM_B_COUNT]; /* on their way through registers */
};

/* ---- where chunks lie: in units of 16-bit numbers ---- */

GY_FN int mma_along(int line, int chunk) { return line * MM_BK + ((chunk ^ (line >> 1 & 3)) << 3); }
GY_FN int mma_across(int line, int chunk, int width) { return line * width + ((chunk ^ (line & 7)) << 3); }

GY_FN int mma_a_place(int i)
{
    const int line = GY_TID / MM_A_SIDE + i * MM_A_STEP, chunk = GY_TID % MM_A_SIDE;
    return MM_A_ACROSS ? mma_across(line, chunk, GY_BM) : mma_along(line, chunk);
}
GY_FN int mma_b_place(int i)
{
    const int line = GY_TID / MM_B_SIDE + i * MM_B_STEP, chunk = GY_TID % MM_B_SIDE;
    return MM_B_ACROSS ? mma_across(line, chunk, GY_BN) : mma_along(line, chunk);
}

/* ---- loading: a chunk copies itself to shared memory, or waits in registers until after the
 * multiplication ---- */

GY_FN struct gy_raw16 mma_none(void)
{
    struct gy_raw16 r;
    GY_UNROLL for (int j = 0; j < 4; j++) r.w[j] = 0;
    return r;
}

/* The first bytes (0, 8 or 16) of a chunk, zeros behind them. */
GY_FN struct gy_raw16 mma_part(const uint16_t *from, int bytes)
{
    struct gy_raw16 r = bytes > 0 ? gy_load16(from) : mma_none();
    if (bytes < 16)
        r.w[2] = r.w[3] = 0;
    return r;
}

GY_FN void mma_fetch_a(struct mma_load *l, uint16_t *tile, int i, const uint16_t *from, int bytes)
{
#if MM_A_ASYNC
    gy_copy_async(tile + mma_a_place(i), from, bytes);
#else
    (void)tile;
    l->a[i] = mma_part(from, bytes);
#endif
}
GY_FN void mma_fetch_b(struct mma_load *l, uint16_t *tile, int i, const uint16_t *from, int bytes)
{
#if MM_B_ASYNC
    gy_copy_async(tile + mma_b_place(i), from, bytes);
#else
    (void)tile;
    l->b[i] = mma_part(from, bytes);
#endif
}

#if GY_LINES
/* Output pixel m's first number in the copied image; then number k of its reduction from there, and
 * how much of that chunk is the filter's. */
GY_FN int64_t mma_line_at(int m)
{
    const int n = m / (GY_P_ * GY_Q), p = m / GY_Q % GY_P_, q = m % GY_Q;
    return (((int64_t)n * ML_H + p * GY_STRIDE_H) * ML_W + q * GY_STRIDE_W) * 4;
}
GY_FN int mma_line_delta(int k) { return k / ML_LINE * (GY_DIL_H * ML_W * 4) + k % ML_LINE; }
GY_FN int mma_line_bytes(int k)
{
    const int left = GY_S - k % ML_LINE / 4;
    return k >= MM_ROW || left <= 0 ? 0 : left == 1 ? 8 : 16;
}
#endif

#if !MM_A_WHOLE || !MM_B_WHOLE
/* Number j of a chunk. */
GY_FN void mma_place_one(struct gy_raw16 *r, int j, uint16_t v) { r->w[j / 2] |= (uint32_t)v << (j % 2 * 16); }

/* The place at index k of the reduction or column k of the weights' rows. */
GY_FN struct conv_walk mma_place_of(const struct conv_view *v, int k)
{
    struct conv_walk at;
    const int tap = k / CV_RED, across = GY_DIR == 1 ? v->w.taps : GY_S;
    at.c = k - tap * CV_RED;
    at.th = k < v->depth ? tap / across : v->h.taps;
    at.tw = k < v->depth ? tap % across : 0;
    return at;
}
#endif

#if GY_DIR != 2
GY_FN void mma_load_a(struct mma_load *l, uint16_t *tile)
{
#if GY_LINES
    const int k = l->step * MM_BK + GY_TID % MM_A_SIDE * 8, delta = mma_line_delta(k), bytes = mma_line_bytes(k);
    GY_UNROLL for (int i = 0; i < MM_A_COUNT; i++)
        mma_fetch_a(l, tile, i, l->x + l->row[i].at + delta, l->row[i].h < 0 ? 0 : bytes);
#elif MM_A_WHOLE
    const int delta = conv_delta(&l->walk);
    GY_UNROLL for (int i = 0; i < MM_A_COUNT; i++)
        mma_fetch_a(l, tile, i, l->x + l->row[i].at + delta, conv_inside(&l->v, &l->row[i], &l->walk) ? 16 : 0);
    conv_walk_on(&l->v, &l->walk, MM_BK);
#else
    (void)tile;
    GY_UNROLL for (int i = 0; i < MM_A_COUNT; i++) {
        const uint16_t *const from = l->x + l->row[i].at;
        l->a[i] = mma_none();
        GY_UNROLL for (int j = 0; j < 8; j++) {
            const struct conv_walk at = mma_place_of(&l->v, l->step * MM_BK + GY_TID % MM_A_SIDE * 8 + j);
            if (conv_inside(&l->v, &l->row[i], &at))
                mma_place_one(&l->a[i], j, from[conv_delta(&at)]);
        }
    }
#endif
}
#endif

#if GY_DIR == 0
GY_FN void mma_load_b(struct mma_load *l, uint16_t *tile)
{
    const int k = l->step * MM_BK + GY_TID % MM_B_SIDE * 8;
    GY_UNROLL for (int i = 0; i < MM_B_COUNT; i++) {
        const int n = l->first_col + GY_TID / MM_B_SIDE + i * MM_B_STEP;
        mma_fetch_b(l, tile, i, l->w + (int64_t)n * MM_W_ROW + k, n < CV_OUT && k < MM_W_ROW ? 16 : 0);
    }
}
#elif MM_W_TURNED
GY_FN void mma_load_b(struct mma_load *l, uint16_t *tile)
{
    struct conv_walk *const k = &l->b_walk[0];
    const int at = conv_cell(&l->v, k) * MM_UP8(CV_RED) + k->c;
    GY_UNROLL for (int i = 0; i < MM_B_COUNT; i++) {
        const int n = l->first_col + GY_TID / MM_B_SIDE + i * MM_B_STEP;
        mma_fetch_b(l, tile, i, l->w + (int64_t)n * MM_W_ROW + at, n < CV_OUT && k->th < l->v.h.taps ? 16 : 0);
    }
    conv_walk_on(&l->v, k, MM_BK);
}
#elif GY_DIR == 1
GY_FN void mma_load_b(struct mma_load *l, uint16_t *tile)
{
    const int n = l->first_col + GY_TID % MM_B_SIDE * 8;
    GY_UNROLL for (int i = 0; i < MM_B_COUNT; i++) {
        struct conv_walk *const k = &l->b_walk[i];
        mma_fetch_b(l, tile, i, l->w + ((int64_t)conv_cell(&l->v, k) * CV_RED + k->c) * MM_W_ROW + n,
                    n < MM_W_ROW && k->th < l->v.h.taps ? 16 : 0);
        conv_walk_on(&l->v, k, MM_BK);
    }
}
#else
GY_FN void mma_load_a(struct mma_load *l, uint16_t *tile)
{
    const int k = l->first_row + GY_TID % MM_A_SIDE * 8;
    GY_UNROLL for (int i = 0; i < MM_A_COUNT; i++) {
        const int m = l->pixel + l->step * MM_BK + GY_TID / MM_A_SIDE + i * MM_A_STEP;
        const uint16_t *const from = l->dy + (int64_t)m * GY_K + k;
#if MM_A_WHOLE
        mma_fetch_a(l, tile, i, from, m < l->pixel_end && k < GY_K ? 16 : 0);
#else
        (void)tile;
        l->a[i] = mma_none();
        GY_UNROLL for (int j = 0; j < 8; j++)
            if (m < l->pixel_end && k + j < GY_K)
                mma_place_one(&l->a[i], j, from[j]);
#endif
    }
}

GY_FN void mma_load_b(struct mma_load *l, uint16_t *tile)
{
    GY_UNROLL for (int i = 0; i < MM_B_COUNT; i++) {
        const int m = l->pixel + l->step * MM_BK + GY_TID / MM_B_SIDE + i * MM_B_STEP;
#if GY_LINES
        const int k = l->first_col + GY_TID % MM_B_SIDE * 8;
        mma_fetch_b(l, tile, i, l->x + mma_line_at(m) + mma_line_delta(k), m < l->pixel_end ? mma_line_bytes(k) : 0);
        continue;
#endif
        const struct conv_row row = conv_row_of(&l->v, m < l->pixel_end ? m : CV_PIXELS);
#if MM_B_WHOLE
        mma_fetch_b(l, tile, i, l->x + row.at + conv_delta(&l->walk), conv_inside(&l->v, &row, &l->walk) ? 16 : 0);
#else
        (void)tile;
        l->b[i] = mma_none();
        GY_UNROLL for (int j = 0; j < 8; j++) {
            const struct conv_walk at = mma_place_of(&l->v, l->first_col + GY_TID % MM_B_SIDE * 8 + j);
            if (conv_inside(&l->v, &row, &at))
                mma_place_one(&l->b[i], j, l->x[row.at + conv_delta(&at)]);
        }
#endif
    }
}
#endif

GY_FN void mma_load_step(struct mma_load *l, struct mma_stage *stage)
{
    if (l->step < l->steps) {
        mma_load_a(l, stage->a);
        mma_load_b(l, stage->b);
    }
#if MM_A_ASYNC || MM_B_ASYNC
    gy_copy_commit();
#endif
}

/* What came through registers; then on to the next step. */
GY_FN void mma_load_store(struct mma_load *l, struct mma_stage *stage)
{
    if (l->step < l->steps) {
#if !MM_A_ASYNC
        GY_UNROLL for (int i = 0; i < MM_A_COUNT; i++) gy_store16(stage->a + mma_a_place(i), l->a[i]);
#endif
#if !MM_B_ASYNC
        GY_UNROLL for (int i = 0; i < MM_B_COUNT; i++) gy_store16(stage->b + mma_b_place(i), l->b[i]);
#endif
        (void)stage;
    }
    l->step++;
}

GY_FN void mma_load_begin(struct mma_load *l, const struct gy_args *a)
{
    const int tiles = (MM_COLS + GY_BN - 1) / GY_BN;
    l->first_row = GY_BX / tiles * GY_BM;
    l->first_col = GY_BX % tiles * GY_BN;
    l->step = 0;
    l->v = conv_view_of(GY_DIR == 1 ? GY_BY : 0);
#if GY_LINES
    l->x = ML_IMAGE(a->ptr[GY_SCRATCH]);
#else
    l->x = (const uint16_t *)a->ptr[GY_DIR == 1 ? GY_DY : GY_X];
#endif
    l->dy = (const uint16_t *)a->ptr[GY_DY];
    l->w = (const uint16_t *)a->ptr[GY_SCRATCH];
#if GY_DIR == 2
    l->pixel = GY_BY * GY_SLICE_PIXELS;
    l->pixel_end = l->pixel + GY_SLICE_PIXELS < CV_PIXELS ? l->pixel + GY_SLICE_PIXELS : CV_PIXELS;
    l->steps = (l->pixel_end - l->pixel + MM_BK - 1) / MM_BK;
    l->walk = conv_walk_to(&l->v, l->first_col + GY_TID % MM_B_SIDE * 8);
#else
    l->steps = GY_LINES ? MM_ROW / MM_BK : (l->v.depth + MM_BK - 1) / MM_BK;
    l->walk = conv_walk_to(&l->v, GY_TID % MM_A_SIDE * 8);
    GY_UNROLL for (int i = 0; i < MM_A_COUNT; i++) {
        const int m = l->first_row + GY_TID / MM_A_SIDE + i * MM_A_STEP;
#if GY_LINES
        l->row[i].h = m < CV_PIXELS ? 0 : -1;
        l->row[i].at = m < CV_PIXELS ? mma_line_at(m) : 0;
#else
        l->row[i] = conv_row_of(&l->v, m);
#endif
    }
#if GY_DIR == 1
    GY_UNROLL for (int i = 0; i < MM_B_COUNT; i++)
        l->b_walk[i] = conv_walk_to(&l->v, MM_W_TURNED ? GY_TID % MM_B_SIDE * 8 : GY_TID / MM_B_SIDE + i * MM_B_STEP);
#endif
#endif
}

/* ---- multiplying ---- */

/* Where this lane's rows for ldmatrix begin in the tiles; the warp's place in the block. */
struct mma_lane {
    int a, b, wm, wn;
};

#if MM_OLD
/* Four products of 8 x 8 side by side. Four lanes and those 16 above hold one; 2 x 2 of them are a
 * piece of 16 x 16. */
GY_FN struct mma_lane mma_lane_of(void)
{
    const int one = GY_LANE % 4 + GY_LANE / 16 * 4;
    struct mma_lane at;
    at.wm = GY_WARP / GY_WARPS_N * MM_WM;
    at.wn = GY_WARP % GY_WARPS_N * MM_WN;
    at.a = at.wm + (GY_LANE & 4) * 2 + one;
    at.b = at.wn + (GY_LANE & 8) + one;
    return at;
}

GY_FN void mma_multiply(const struct mma_stage *stage, const struct mma_lane *at, float sum[MM_MI][MM_NI][MM_E])
{
    GY_UNROLL for (int k = 0; k < MM_BK / 8; k++) {
        struct gy_raw16 a[MM_MI], b[MM_NI];
        GY_UNROLL for (int i = 0; i < MM_MI; i++) a[i] = gy_load16(stage->a + mma_along(at->a + i * 16, k));
        GY_UNROLL for (int j = 0; j < MM_NI; j++) b[j] = gy_load16(stage->b + mma_along(at->b + j * 16, k));
        GY_UNROLL for (int i = 0; i < MM_MI; i++)
            GY_UNROLL for (int j = 0; j < MM_NI; j++) {
                gy_mma_8_8_4_f16(sum[i][j], a[i].w, b[j].w);
                gy_mma_8_8_4_f16(sum[i][j], a[i].w + 2, b[j].w + 2);
            }
    }
}

#define MM_SHARE(n) ((n) == 0 ? 1 : (n) == 1 ? 4 : 16) /* bits of lanes that share a column */
#define MM_FIRST (!(GY_LANE & 21))
GY_FN int mma_row(const struct mma_lane *at, int i, int e)
{
    return at->wm + i * 16 + (GY_LANE & 4) * 2 + (GY_LANE & 1) + (e & 2) + GY_LANE / 16 * 4;
}
GY_FN int mma_col(const struct mma_lane *at, int j, int e)
{
    return at->wn + j * 16 + (GY_LANE & 8) + (e & 4) + (GY_LANE & 2) + (e & 1);
}
#else
GY_FN struct mma_lane mma_lane_of(void)
{
    const int low = GY_LANE & 7, mid = GY_LANE >> 3 & 1, high = GY_LANE >> 4;
    struct mma_lane at;
    at.wm = GY_WARP / GY_WARPS_N * MM_WM;
    at.wn = GY_WARP % GY_WARPS_N * MM_WN;
    at.a = MM_A_ACROSS ? mma_across(high * 8 + low, at.wm / 8 + mid, GY_BM) : mma_along(at.wm + mid * 8 + low, high);
    at.b = MM_B_ACROSS ? mma_across(mid * 8 + low, at.wn / 8 + high, GY_BN) : mma_along(at.wn + high * 8 + low, mid);
    return at;
}

/* Piece i of 16 rows, half k of the step: the lane's offset, its chunk moved by an exclusive or. */
GY_FN void mma_take_a(uint32_t r[4], const uint16_t *tile, const struct mma_lane *at, int i, int k)
{
    if (MM_A_ACROSS)
        gy_ldmatrix4_turned(r, tile + ((at->a ^ (i << 4)) + k * 16 * GY_BM));
    else
        gy_ldmatrix4(r, tile + ((at->a ^ (k << 4)) + i * 16 * MM_BK));
}
GY_FN void mma_take_b(uint32_t r[4], const uint16_t *tile, const struct mma_lane *at, int j, int k)
{
    if (MM_B_ACROSS)
        gy_ldmatrix4_turned(r, tile + ((at->b ^ (j << 4)) + k * 16 * GY_BN));
    else
        gy_ldmatrix4(r, tile + ((at->b ^ (k << 4)) + j * 16 * MM_BK));
}

GY_FN void mma_one(float d[4], const uint32_t a[4], const uint32_t b[2])
{
#if GY_ARCH < 80
    gy_mma_16_8_8_f16(d, a, b[0]);
    gy_mma_16_8_8_f16(d, a + 2, b[1]);
#elif GY_DTYPE == 1
    gy_mma_16_8_16_bf16(d, a, b);
#else
    gy_mma_16_8_16_f16(d, a, b);
#endif
}

GY_FN void mma_multiply(const struct mma_stage *stage, const struct mma_lane *at, float sum[MM_MI][MM_NI][MM_E])
{
    GY_UNROLL for (int k = 0; k < 2; k++) {
        uint32_t a[MM_MI][4], b[MM_NI / 2][4];
        GY_UNROLL for (int i = 0; i < MM_MI; i++) mma_take_a(a[i], stage->a, at, i, k);
        GY_UNROLL for (int j = 0; j < MM_NI / 2; j++) mma_take_b(b[j], stage->b, at, j, k);
        GY_UNROLL for (int i = 0; i < MM_MI; i++)
            GY_UNROLL for (int j = 0; j < MM_NI; j++) mma_one(sum[i][j], a[i], b[j / 2] + j % 2 * 2);
    }
}

/* Lane l of a piece has rows l / 4 and l / 4 + 8, columns l % 4 * 2 and the next. */
#define MM_SHARE(n) (4 << (n)) /* bits of lanes that share a column */
#define MM_FIRST (GY_LANE < 4)
GY_FN int mma_row(const struct mma_lane *at, int i, int e) { return at->wm + i * 16 + e / 2 * 8 + GY_LANE / 4; }
GY_FN int mma_col(const struct mma_lane *at, int j, int e) { return at->wn + j * 8 + GY_LANE % 4 * 2 + e % 2; }
#endif

/* ---- the end: sums e and e + 2 of a piece, e & 2 == 0, share a column; sums e and e + 1, e even,
 * are neighbours in a row ---- */

#if GY_DIR == 0 && GY_HAS_BIAS
GY_FN void mma_bias(const struct mma_load *l, const struct mma_lane *at, const float *bias,
                    float sum[MM_MI][MM_NI][MM_E])
{
    GY_UNROLL for (int j = 0; j < MM_NI; j++)
        GY_UNROLL for (int e = 0; e < MM_E; e++) {
            const int n = l->first_col + mma_col(at, j, e);
            const float add = n < CV_OUT ? bias[n] : 0.0f;
            GY_UNROLL for (int i = 0; i < MM_MI; i++) sum[i][j][e] += add;
        }
}
#endif

#if GY_DIR == 0 && GY_HAS_STATS
/* Over the eight lanes that share a column; every one gets it. */
GY_FN float mma_column_sum(float v)
{
    v += gy_shfl_xor(v, MM_SHARE(0));
    v += gy_shfl_xor(v, MM_SHARE(1));
    return v + gy_shfl_xor(v, MM_SHARE(2));
}

GY_FN int mma_pixels(int first, int most)
{
    const int left = CV_PIXELS - first;
    return left < 0 ? 0 : left < most ? left : most;
}

/* The warp's columns: mean, and squares around it. */
GY_FN void mma_stats_own(union mma_shared *s, const struct mma_load *l, const struct mma_lane *at,
                         float sum[MM_MI][MM_NI][MM_E])
{
    const float count = (float)mma_pixels(l->first_row + at->wm, MM_WM);
    GY_UNROLL for (int j = 0; j < MM_NI; j++)
        GY_UNROLL for (int f = 0; f < MM_E / 2; f++) {
            const int e = f / 2 * 4 + f % 2;
            float total = 0.0f, squares = 0.0f;
            GY_UNROLL for (int i = 0; i < MM_MI; i++)
                GY_UNROLL for (int h = e; h <= e + 2; h += 2)
                    total += l->first_row + mma_row(at, i, h) < CV_PIXELS ? sum[i][j][h] : 0.0f;
            const float mean = count > 0.0f ? mma_column_sum(total) / count : mma_column_sum(total);
            GY_UNROLL for (int i = 0; i < MM_MI; i++)
                GY_UNROLL for (int h = e; h <= e + 2; h += 2) {
                    const float off = l->first_row + mma_row(at, i, h) < CV_PIXELS ? sum[i][j][h] - mean : 0.0f;
                    squares += off * off;
                }
            squares = mma_column_sum(squares);
            if (MM_FIRST) {
                s->stats.mean[GY_WARP / GY_WARPS_N][mma_col(at, j, e)] = mean;
                s->stats.squares[GY_WARP / GY_WARPS_N][mma_col(at, j, e)] = squares;
            }
        }
}

/* The block's row of statistics: merges warps above each other around their mean, one thread a
 * column. */
GY_FN void mma_stats_row(const union mma_shared *s, const struct mma_load *l, float *out)
{
    const int n = l->first_col + GY_TID;
    if (GY_TID >= GY_BN || n >= CV_OUT)
        return;
    float total = 0.0f, squares = 0.0f;
    GY_UNROLL for (int w = 0; w < GY_WARPS_M; w++)
        total += (float)mma_pixels(l->first_row + w * MM_WM, MM_WM) * s->stats.mean[w][GY_TID];
    const float mean = total / (float)mma_pixels(l->first_row, GY_BM);
    GY_UNROLL for (int w = 0; w < GY_WARPS_M; w++) {
        const float off = s->stats.mean[w][GY_TID] - mean;
        squares += s->stats.squares[w][GY_TID] + (float)mma_pixels(l->first_row + w * MM_WM, MM_WM) * off * off;
    }
    out[n] = mean;
    out[GY_K + n] = squares;
}
#endif

#if GY_DIR != 2
/* Two neighbours of a tensor like the output, as far as there are two. */
GY_FN void mma_get_pair(float to[2], const uint16_t *p, int64_t i, int both)
{
#if CV_OUT % 2 == 0
    const uint32_t two = *(const uint32_t *)(p + i);
    (void)both;
    to[0] = gy_widen((uint16_t)two);
    to[1] = gy_widen((uint16_t)(two >> 16));
#else
    to[0] = gy_widen(p[i]);
    to[1] = both ? gy_widen(p[i + 1]) : 0.0f;
#endif
}

/* Values of one pair of columns and one pixel, finished. */
GY_FN void mma_finish_pair(const struct gy_args *a, const struct mma_load *l, int m, int n, float v[2])
{
    float other[2] = { 0.0f, 0.0f };
    if (m >= l->v.pixels || n >= CV_OUT)
        return;
#if GY_DIR == 1 && GY_FLAGS & 1
    mma_get_pair(other, (const uint16_t *)a->ptr[GY_DX], conv_out_pixel(&l->v, m) * CV_OUT_C + n, n + 1 < CV_OUT);
#elif GY_DIR == 0 && GY_HAS_RES
    mma_get_pair(other, (const uint16_t *)a->ptr[GY_RES], (int64_t)m * CV_OUT_C + n, n + 1 < CV_OUT);
#endif
    GY_UNROLL for (int e = 0; e < 2; e++) {
#if GY_DIR == 1
        v[e] += other[e];
        (void)a;
#else
        float scale = 1.0f, shift = 0.0f;
#if GY_HAS_SCALE
        scale = n + e < CV_OUT ? ((const float *)a->ptr[GY_SCALE])[n + e] : 0.0f;
        shift = n + e < CV_OUT ? ((const float *)a->ptr[GY_SHIFT])[n + e] : 0.0f;
#endif
        v[e] = conv_finish(v[e], scale, shift, other[e]);
        (void)a;
#endif
    }
}

GY_FN void mma_finish(const struct gy_args *a, union mma_shared *s, const struct mma_load *l, const struct mma_lane *at,
                      float sum[MM_MI][MM_NI][MM_E])
{
    GY_UNROLL for (int i = 0; i < MM_MI; i++)
        GY_UNROLL for (int j = 0; j < MM_NI; j++)
            GY_UNROLL for (int h = 0; h < MM_E; h += 2) {
                const int row = mma_row(at, i, h), col = mma_col(at, j, h);
                float *const v = sum[i][j] + h;
                mma_finish_pair(a, l, l->first_row + row, l->first_col + col, v);
                *(uint32_t *)(s->out + row * MM_OUT_ROW + col) = gy_narrow2(v[0], v[1]);
            }
}

/* The output tile, by chunks of 8 columns. */
GY_FN void mma_store(const union mma_shared *s, const struct mma_load *l, uint16_t *out)
{
    GY_UNROLL_NOT for (int i = GY_TID; i < GY_BM * GY_BN / 8; i += GY_THREADS) {
        const int row = i / (GY_BN / 8), col = i % (GY_BN / 8) * 8, m = l->first_row + row, n = l->first_col + col;
        const uint16_t *const from = s->out + row * MM_OUT_ROW + col;
        if (m >= l->v.pixels || n >= CV_OUT)
            continue;
        uint16_t *const to = out + conv_out_pixel(&l->v, m) * CV_OUT_C + n;
#if CV_OUT % 8 == 0
        gy_store16(to, gy_load16(from));
#else
        for (int j = 0; j < 8 && n + j < CV_OUT; j++)
            to[j] = from[j];
#endif
    }
}
#else
/* The place of a column in an output channel's weights, or -1. */
GY_FN int mma_weight(int col)
{
#if GY_LINES
    const int r = col / ML_LINE, s = col % ML_LINE / 4, c = col % 4;
    return r < GY_R && s < GY_S && c < GY_C ? (r * GY_S + s) * GY_C + c : -1;
#else
    return col < CV_ROW ? col : -1;
#endif
}

/* The gradient itself, or this slice's part of it. */
GY_FN void mma_finish_weights(const struct gy_args *a, const struct mma_load *l, const struct mma_lane *at,
                              float sum[MM_MI][MM_NI][MM_E])
{
    float *out = GY_SLICES > 1 ? (float *)a->ptr[GY_SCRATCH] + GY_BY * CV_WEIGHTS : (float *)a->ptr[GY_DW];
    const int add = GY_SLICES == 1 && a->u->accumulate;
    out += (int64_t)l->first_row * CV_ROW;
    GY_UNROLL for (int i = 0; i < MM_MI; i++)
        GY_UNROLL for (int j = 0; j < MM_NI; j++)
            GY_UNROLL for (int e = 0; e < MM_E; e++) {
                const int row = mma_row(at, i, e), col = mma_weight(l->first_col + mma_col(at, j, e));
                const int64_t to = (int64_t)row * CV_ROW + col;
                if (l->first_row + row < GY_K && col >= 0)
                    out[to] = add ? out[to] + sum[i][j][e] : sum[i][j][e];
            }
}
#endif

#if MM_A_ASYNC || MM_B_ASYNC
#define MM_WAIT() gy_copy_wait(GY_STAGES - 2)
#define MM_WAIT_ALL() gy_copy_wait(0)
#else
#define MM_WAIT() ((void)0)
#define MM_WAIT_ALL() ((void)0)
#endif

GY_KERNEL(conv_mma)
{
    GY_SHARED(union mma_shared, s);
    struct mma_load l;
    float sum[MM_MI][MM_NI][MM_E];
    const struct mma_lane at = mma_lane_of();
    mma_load_begin(&l, &a);
    if (GY_DIR == 1 && l.first_row >= l.v.pixels)
        return; /* a smaller class */
    GY_UNROLL for (int i = 0; i < MM_MI; i++)
        GY_UNROLL for (int j = 0; j < MM_NI; j++)
            GY_UNROLL for (int e = 0; e < MM_E; e++) sum[i][j][e] = 0.0f;
    GY_UNROLL for (int i = 0; i < GY_STAGES - 1; i++) {
        mma_load_step(&l, &s->stage[i]);
        mma_load_store(&l, &s->stage[i]);
    }
    int now = 0, next = GY_STAGES - 1; /* stages that are multiplied and filled */
    GY_UNROLL_NOT for (int step = 0; step < l.steps; step++) {
        MM_WAIT();
        GY_SYNC(); /* this stage is whole; the one before it is read no more */
        mma_load_step(&l, &s->stage[next]);
        mma_multiply(&s->stage[now], &at, sum);
        mma_load_store(&l, &s->stage[next]);
        now = now + 1 == GY_STAGES ? 0 : now + 1;
        next = next + 1 == GY_STAGES ? 0 : next + 1;
    }
    MM_WAIT_ALL();
    GY_SYNC();
#if GY_DIR == 2
    mma_finish_weights(&a, &l, &at, sum);
#else
#if GY_DIR == 0 && GY_HAS_BIAS
    mma_bias(&l, &at, GY_P(float, GY_BIAS), sum);
#endif
#if GY_DIR == 0 && GY_HAS_STATS
    mma_stats_own(s, &l, &at, sum);
    GY_SYNC();
    mma_stats_row(s, &l, CV_STAT_AT(l.first_row / GY_BM));
    GY_SYNC();
#endif
    mma_finish(&a, s, &l, &at, sum);
    GY_SYNC();
    mma_store(s, &l, GY_P(uint16_t, GY_DIR == 1 ? GY_DX : GY_Y));
#endif
}

#if GY_DIR != 2
/* Number `at` of row `row` of the rounded weights: its place in W, or -1. */
GY_FN int64_t mma_weight_of(int64_t row, int at)
{
#if MM_W_TURNED
    const int cell = at / MM_UP8(CV_RED), k = at % MM_UP8(CV_RED);
    return k < CV_RED ? ((int64_t)k * CV_TAPS + cell) * CV_CG + row : -1;
#elif GY_DIR == 1
    return at < CV_CG ? (row % GY_K * CV_TAPS + row / GY_K) * CV_CG + at : -1;
#elif GY_LINES
    const int r = at / ML_LINE, s = at % ML_LINE / 4, c = at % 4;
    return s < GY_S && c < GY_C ? row * CV_ROW + (r * GY_S + s) * GY_C + c : -1;
#else
    return at < CV_ROW ? row * CV_ROW + at : -1;
#endif
}

/* Chunk i of the weights, rounded to 16 bits: forward [K][R S C], data gradient [R S][K][C]. Zeros
 * pad rows. */
GY_FN void mma_round_weights(const float *w, uint16_t *to, int64_t i)
{
    const int64_t row = i / (MM_W_ROW / 8);
    const int first = (int)(i % (MM_W_ROW / 8)) * 8;
    struct gy_raw16 out = mma_none();
    if (row >= (MM_W_TURNED ? GY_C : GY_DIR == 1 ? GY_K * CV_TAPS : GY_K))
        return;
    GY_UNROLL for (int j = 0; j < 8; j++) {
        const int64_t from = mma_weight_of(row, first + j);
        out.w[j / 2] |= from >= 0 ? (uint32_t)gy_narrow(w[from]) << (j % 2 * 16) : 0;
    }
    gy_store16(to + i * 8, out);
}

/* One thread a chunk. */
GY_KERNEL(conv_mma_weights)
{
    mma_round_weights(GY_P(float, GY_W), GY_P(uint16_t, GY_SCRATCH), (int64_t)GY_BX * GY_THREADS + GY_TID);
}
#endif

#if GY_LINES
/* The image with its border, one thread a chunk of two pixels; behind it the weights. */
GY_KERNEL(conv_mma_lines)
{
    const int64_t i = (int64_t)GY_BX * GY_THREADS + GY_TID, chunks = (int64_t)GY_N * ML_H * (ML_W / 2),
                  line = i / (ML_W / 2);
    const int h = (int)(line % ML_H) - GY_PAD_H, w = (int)(i % (ML_W / 2)) * 2 - GY_PAD_W;
    const uint16_t *const from = GY_P(uint16_t, GY_X) + ((line / ML_H * GY_H + h) * GY_W_ + w) * GY_C;
    struct gy_raw16 out = mma_none();
    if (i >= chunks) {
#if GY_DIR == 0
        mma_round_weights(GY_P(float, GY_W), GY_P(uint16_t, GY_SCRATCH), i - chunks);
#endif
        return;
    }
    GY_UNROLL for (int j = 0; j < 2; j++)
        GY_UNROLL for (int c = 0; c < GY_C; c++)
            if ((unsigned)h < (unsigned)GY_H && (unsigned)(w + j) < (unsigned)GY_W_)
                out.w[j * 2 + c / 2] |= (uint32_t)from[j * GY_C + c] << (c % 2 * 16);
    gy_store16(ML_IMAGE(a.ptr[GY_SCRATCH]) + i * 8, out);
}
#endif
