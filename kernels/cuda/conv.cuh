/* SPDX-License-Identifier: MIT */
/* conv.cuh: what the convolution kernels share.
 *
 * Forward and data gradient are two views of one product of output pixels and filter taps. Each
 * pair of them has one input pixel or none. Grid pixel g and tap j have the input row g * CV_STEP_H
 * + off0 + j * CV_OFF_H and the filter row tap0 + j * GY_TAP_H. Columns have _W likewise. The data
 * gradient of a strided convolution is cut into classes of pixels with equal remainder. Each has
 * this form with step 1, so no inserted zeros are multiplied; a class is one value of GY_BY. The
 * reduction runs over taps outside and channels inside, flattened to one index. A thread that loads
 * walks along it without divisions.
 *
 * GY_DIR: 0 forward, 1 data gradient, 2 weight gradient. From the row: GY_TAP_H, GY_TAP_W (1 for
 * forward; the gradient's: stride / gcd(stride, dilation)). CV_RED channels are summed, CV_OUT
 * made, of one group (GY_BZ). */
#ifndef GY_CONV_CUH
#define GY_CONV_CUH

#define CV_PIXELS (GY_N * GY_P_ * GY_Q) /* of the output of forward */
#define CV_TAPS (GY_R * GY_S)
#define CV_CG (GY_C / GY_GROUPS)
#define CV_KG (GY_K / GY_GROUPS)
#define CV_ROW (CV_TAPS * CV_CG)        /* weights of one output channel */

#if GY_DIR == 1
#define CV_IN_H GY_P_
#define CV_IN_W GY_Q
#define CV_IN_C GY_K
#define CV_RED CV_KG
#define CV_OUT_H GY_H
#define CV_OUT_W GY_W_
#define CV_OUT_C GY_C
#define CV_OUT CV_CG
#define CV_STEP_H 1
#define CV_STEP_W 1
#define CV_OFF_H (-(GY_TAP_H * GY_DIL_H / GY_STRIDE_H))
#define CV_OFF_W (-(GY_TAP_W * GY_DIL_W / GY_STRIDE_W))
#define CV_CLASSES (GY_STRIDE_H * GY_STRIDE_W)
#define CV_PER_H GY_STRIDE_H            /* from grid pixel to grid pixel of a class */
#define CV_PER_W GY_STRIDE_W
#else
#define CV_IN_H GY_H
#define CV_IN_W GY_W_
#define CV_IN_C GY_C
#define CV_RED CV_CG
#define CV_OUT_H GY_P_
#define CV_OUT_W GY_Q
#define CV_OUT_C GY_K
#define CV_OUT CV_KG
#define CV_STEP_H GY_STRIDE_H
#define CV_STEP_W GY_STRIDE_W
#define CV_OFF_H GY_DIL_H
#define CV_OFF_W GY_DIL_W
#define CV_CLASSES 1
#define CV_PER_H 1
#define CV_PER_W 1
#endif

struct conv_axis {
    int grid, taps, tap0, off0;
};

/* The grid of one class: everything a block has in common. */
struct conv_view {
    struct conv_axis h, w;
    int class_h, class_w, pixels, depth; /* depth: length of the reduction */
};

GY_FN struct conv_axis conv_axis_of(int cls, int size, int filter, int stride, int pad, int dil, int tap_step)
{
    struct conv_axis x;
    x.tap0 = 0;
#if GY_DIR == 1
    while (x.tap0 < filter && (cls + pad - x.tap0 * dil) % stride != 0)
        x.tap0++;
    x.grid = (size - cls + stride - 1) / stride;
    x.off0 = (cls + pad - x.tap0 * dil) / stride;
    x.taps = x.tap0 < filter ? (filter - 1 - x.tap0) / tap_step + 1 : 0;
#else
    (void)cls, (void)stride, (void)dil, (void)tap_step;
    x.grid = size;
    x.off0 = -pad;
    x.taps = filter;
#endif
    return x;
}

GY_FN struct conv_view conv_view_of(int cls)
{
    struct conv_view v;
    v.class_h = CV_CLASSES == 1 ? 0 : cls / CV_PER_W;
    v.class_w = CV_CLASSES == 1 ? 0 : cls % CV_PER_W;
    v.h = conv_axis_of(v.class_h, CV_OUT_H, GY_R, GY_STRIDE_H, GY_PAD_H, GY_DIL_H, GY_TAP_H);
    v.w = conv_axis_of(v.class_w, CV_OUT_W, GY_S, GY_STRIDE_W, GY_PAD_W, GY_DIL_W, GY_TAP_W);
    v.pixels = v.h.grid > 0 && v.w.grid > 0 ? GY_N * v.h.grid * v.w.grid : 0;
    v.depth = v.h.taps * v.w.taps * CV_RED;
    return v;
}

/* Where grid pixel m of the view reads: input coordinates at tap 0, and the element there (of
 * channel 0 of the whole tensor), which may lie outside. Beyond the grid, coordinates are outside
 * at every tap. */
struct conv_row {
    int h, w;
    int64_t at;
};

GY_FN struct conv_row conv_row_of(const struct conv_view *v, int m)
{
    struct conv_row row;
    row.h = row.w = -0x1000000;
    row.at = 0;
    if (m < v->pixels) {
        const int area = v->h.grid * v->w.grid, n = m / area, left = m - n * area, g = left / v->w.grid;
        row.h = g * CV_STEP_H + v->h.off0;
        row.w = (left - g * v->w.grid) * CV_STEP_W + v->w.off0;
        row.at = (((int64_t)n * CV_IN_H + row.h) * CV_IN_W + row.w) * CV_IN_C;
    }
    return row;
}

/* The output pixel of grid pixel m. */
GY_FN int64_t conv_out_pixel(const struct conv_view *v, int m)
{
    if (CV_CLASSES == 1)
        return m;
    const int area = v->h.grid * v->w.grid, n = m / area, left = m - n * area, g = left / v->w.grid;
    return ((int64_t)n * CV_OUT_H + v->class_h + g * CV_PER_H) * CV_OUT_W + v->class_w +
        (left - g * v->w.grid) * CV_PER_W;
}

/* A place in the reduction: tap (th, tw), channel c. Past the end th is h.taps. */
struct conv_walk {
    int th, tw, c;
};

GY_FN void conv_walk_carry(const struct conv_view *v, struct conv_walk *k)
{
    k->c -= CV_RED;
    if (++k->tw == v->w.taps) {
        k->tw = 0;
        k->th++;
    }
}

/* A step that is no longer than the channels carries at most once. */
GY_FN void conv_walk_on(const struct conv_view *v, struct conv_walk *k, int by)
{
    k->c += by;
    if (by <= CV_RED) {
        if (k->c >= CV_RED)
            conv_walk_carry(v, k);
    } else {
        while (k->c >= CV_RED && k->th < v->h.taps)
            conv_walk_carry(v, k);
    }
}

GY_FN struct conv_walk conv_walk_to(const struct conv_view *v, int first)
{
    struct conv_walk k;
    k.th = k.tw = k.c = 0;
    if (v->depth == 0)
        k.th = v->h.taps; /* no tap at all: the end already */
    else
        conv_walk_on(v, &k, first);
    return k;
}

/* 1x1 without padding: every pixel of the grid has its input. */
#define CV_POINTS                                                                                                      \
    (CV_TAPS == 1 && GY_PAD_H == 0 && GY_PAD_W == 0 && (GY_H + GY_STRIDE_H - 1) / GY_STRIDE_H == GY_P_ &&              \
     (GY_W_ + GY_STRIDE_W - 1) / GY_STRIDE_W == GY_Q)

/* Is input pixel (row at tap) there, and how far is the element from row.at? */
GY_FN int conv_inside(const struct conv_view *v, const struct conv_row *row, const struct conv_walk *k)
{
    if (CV_POINTS)
        return k->th < v->h.taps && row->h >= 0;
    return k->th < v->h.taps && (unsigned)(row->h + k->th * CV_OFF_H) < (unsigned)CV_IN_H &&
           (unsigned)(row->w + k->tw * CV_OFF_W) < (unsigned)CV_IN_W;
}
GY_FN int conv_delta(const struct conv_walk *k)
{
    return (k->th * CV_OFF_H * CV_IN_W + k->tw * CV_OFF_W) * CV_IN_C + k->c;
}
/* The filter cell of a tap: r * S + s. */
GY_FN int conv_cell(const struct conv_view *v, const struct conv_walk *k)
{
    return (v->h.tap0 + k->th * GY_TAP_H) * GY_S + v->w.tap0 + k->tw * GY_TAP_W;
}

/* ---- the end of forward, one value: what comes after the statistics ---- */
#if GY_DIR == 0
GY_FN float conv_finish(float v, float scale, float shift, float res)
{
#if GY_HAS_SCALE
    v = v * scale + shift;
#else
    (void)scale, (void)shift;
#endif
#if GY_HAS_RES
    v += res;
#else
    (void)res;
#endif
    return gy_act_of(v);
}
#endif

/* ---- statistics: rows of (mean, sum of squared deviations), each over `each` pixels but the last.
 * They are merged around the mean of them all in a fixed order: one thread a channel and strip of
 * rows; strips are added two by two ---- */
#if GY_DIR == 0 && defined GY_STAT_PIXELS
#define CV_STRIPS (GY_THREADS / 32)
#define CV_CHUNK 128 /* rows that one block of the first merge takes */

struct conv_merge_shared {
    float sum[CV_STRIPS][32];
};

GY_FN float conv_add_strips(struct conv_merge_shared *s, float v)
{
    GY_SYNC();
    s->sum[GY_WARP][GY_LANE] = v;
    for (int count = CV_STRIPS; count > 1; count = (count + 1) / 2) {
        GY_SYNC();
        if (GY_WARP < count / 2)
            s->sum[GY_WARP][GY_LANE] += s->sum[GY_WARP + (count + 1) / 2][GY_LANE];
    }
    GY_SYNC();
    return s->sum[0][GY_LANE];
}

GY_FN float conv_row_pixels(int row, int64_t each)
{
    const int64_t left = CV_PIXELS - row * each;
    return (float)(left < each ? left : each);
}

/* Rows [first, end) of in become one, of 32 channels: out[k] mean, out[K + k] squares. */
GY_FN void conv_merge(struct conv_merge_shared *s, int channels, const float *in, int first, int end, int64_t each,
                      float *out)
{
    const int k = channels * 32 + GY_LANE;
    const int64_t stop = end * each < CV_PIXELS ? end * each : CV_PIXELS;
    float sum = 0.0f, squares = 0.0f;
    for (int row = first + GY_WARP; row < end && k < GY_K; row += CV_STRIPS)
        sum += conv_row_pixels(row, each) * in[(int64_t)row * 2 * GY_K + k];
    const float mean = conv_add_strips(s, sum) / (float)(stop - first * each);
    for (int row = first + GY_WARP; row < end && k < GY_K; row += CV_STRIPS) {
        const float off = in[(int64_t)row * 2 * GY_K + k] - mean;
        squares += in[((int64_t)row * 2 + 1) * GY_K + k] + conv_row_pixels(row, each) * off * off;
    }
    squares = conv_add_strips(s, squares);
    if (GY_WARP == 0 && k < GY_K) {
        out[k] = mean;
        out[GY_K + k] = squares;
    }
}

/* Scratch: CV_STAT_ROWS rows of GY_STAT_PIXELS pixels each. If these are more than a chunk, the
 * merged chunks follow. */
#define CV_STAT_ROWS ((CV_PIXELS + GY_STAT_PIXELS - 1) / GY_STAT_PIXELS)
#define CV_STAT_CHUNKS ((CV_STAT_ROWS + CV_CHUNK - 1) / CV_CHUNK)
#define CV_STAT_AT(row) ((float *)((unsigned char *)a.ptr[GY_SCRATCH] + GY_STAT_FIRST) + (int64_t)(row) * 2 * GY_K)

/* Block (x, y): a chunk, 32 channels. */
GY_KERNEL(conv_stats_chunks)
{
    GY_SHARED(struct conv_merge_shared, s);
    const int first = GY_BX * CV_CHUNK, end = first + CV_CHUNK < CV_STAT_ROWS ? first + CV_CHUNK : CV_STAT_ROWS;
    conv_merge(s, GY_BY, CV_STAT_AT(0), first, end, GY_STAT_PIXELS, CV_STAT_AT(CV_STAT_ROWS + GY_BX));
}

GY_KERNEL(conv_stats)
{
    GY_SHARED(struct conv_merge_shared, s);
    if (CV_STAT_CHUNKS == 1)
        conv_merge(s, GY_BX, CV_STAT_AT(0), 0, CV_STAT_ROWS, GY_STAT_PIXELS, GY_P(float, GY_STATS));
    else
        conv_merge(s, GY_BX, CV_STAT_AT(CV_STAT_ROWS), 0, CV_STAT_CHUNKS, (int64_t)GY_STAT_PIXELS * CV_CHUNK,
                   GY_P(float, GY_STATS));
}
#endif

/* ---- weight gradient: each of GY_SLICES slices of the pixels has left a whole gradient in
 * scratch. The bias's gradient is a column sum of dy, by GY_BIAS_CHUNKS pieces of pixels behind
 * that. Both are added here, in order of the slices ---- */
#if GY_DIR == 2 && defined GY_SLICES
#define CV_WEIGHTS ((int64_t)GY_K * CV_ROW)
#define CV_PART(slice) ((float *)a.ptr[GY_SCRATCH] + (slice) * CV_WEIGHTS)
#define CV_BIAS_PART ((float *)a.ptr[GY_SCRATCH] + (GY_SLICES > 1 ? GY_SLICES : 0) * CV_WEIGHTS)

#if GY_HAS_DBIAS
struct conv_bias_shared {
    float sum[GY_THREADS / 32][32];
};

/* Block (x, y): 32 channels, one chunk of pixels; a warp takes every (threads / 32)-th pixel. */
GY_KERNEL(conv_bias_chunks)
{
    GY_SHARED(struct conv_bias_shared, s);
    const int strips = GY_THREADS / 32, k = GY_BX * 32 + GY_LANE;
    const int first = GY_BY * GY_BIAS_PIXELS,
              end = first + GY_BIAS_PIXELS < CV_PIXELS ? first + GY_BIAS_PIXELS : CV_PIXELS;
    float sum = 0.0f;
    for (int m = first + GY_WARP; m < end && k < GY_K; m += strips)
        sum += gy_get(GY_P(gy_t, GY_DY), (int64_t)m * GY_K + k);
    s->sum[GY_WARP][GY_LANE] = sum;
    GY_SYNC();
    if (GY_WARP == 0 && k < GY_K) {
        for (int i = 1; i < strips; i++)
            sum += s->sum[i][GY_LANE];
        CV_BIAS_PART[(int64_t)GY_BY * GY_K + k] = sum;
    }
}
#endif

/* The sum over parts of part[p * pitch]: four chains, which are added in pairs at the end. */
GY_FN float conv_sum_parts(const float *part, int parts, int64_t pitch)
{
    float sum[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
    int p = 0;
    for (; p + 4 <= parts; p += 4)
        GY_UNROLL for (int j = 0; j < 4; j++) sum[j] += part[(p + j) * pitch];
    for (; p < parts; p++)
        sum[0] += part[p * pitch];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* One thread an element: of the weights' gradient where there are slices, then of the bias's. */
GY_KERNEL(conv_sum)
{
    const int64_t weights = GY_SLICES > 1 ? CV_WEIGHTS : 0, i = (int64_t)GY_BX * GY_THREADS + GY_TID;
    const int add = a.u->accumulate;
    if (i < weights) {
        float *const dw = GY_P(float, GY_DW) + i;
        const float sum = conv_sum_parts(CV_PART(0) + i, GY_SLICES, CV_WEIGHTS);
        *dw = add ? *dw + sum : sum;
    }
#if GY_HAS_DBIAS
    const int64_t k = i - weights;
    if (k >= 0 && k < GY_K) {
        float *const db = GY_P(float, GY_DBIAS) + k;
        const float sum = conv_sum_parts(CV_BIAS_PART + k, GY_BIAS_CHUNKS, GY_K);
        *db = add ? *db + sum : sum;
    }
#endif
}
#endif

#endif
