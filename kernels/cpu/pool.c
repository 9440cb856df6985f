/* SPDX-License-Identifier: MIT */
/* Pooling, a row of output pixels (or, backward, of input pixels) a tile. Channels are walked in blocks of 16 with
 * plain loops of known length, which compilers turn into vectors. Backward passes gather: each input pixel asks the
 * windows that hold it. */
#include "norm.h"

#define POOL_BLOCK 16

struct pool_job {
    const struct gy_op *op;
};

/* The windows or cells along one axis that meet position at: for r = from; r < to. */
struct pool_range {
    int32_t from, to;
};

/* Cells r of the window at output position p that lie inside [0, size). */
static struct pool_range pool_cells(int32_t p, int32_t stride, int32_t pad, int32_t cells, int32_t size)
{
    const int32_t first = p * stride - pad;
    struct pool_range range = {first < 0 ? -first : 0, cells};
    if (first + cells > size)
        range.to = size - first;
    return range;
}

static void pool_max_block(float *best, int32_t *cell, const float *x, int32_t id)
{
    for (int j = 0; j < POOL_BLOCK; j++) {
        const int take = x[j] > best[j] || x[j] != x[j]; /* a NaN comes in and stays */
        best[j] = take ? x[j] : best[j];
        cell[j] = take ? id : cell[j];
    }
}

/* One output pixel, channels [c, c + count) with count at most POOL_BLOCK. x: the image; y, arg: the pixel. */
static void pool_max_pixel(const struct gy_geom *g, const float *x, int32_t p, int32_t q, int32_t c, int32_t count,
                           float *y, uint8_t *arg)
{
    const struct pool_range h = pool_cells(p, g->stride_h, g->pad_h, g->r, g->h);
    const struct pool_range w = pool_cells(q, g->stride_w, g->pad_w, g->s, g->w);
    float best[POOL_BLOCK], cut[POOL_BLOCK] = {0.0f};
    int32_t cell[POOL_BLOCK];
    for (int j = 0; j < POOL_BLOCK; j++) {
        best[j] = -INFINITY;
        cell[j] = h.from * g->s + w.from;
    }
    for (int32_t r = h.from; r < h.to; r++) {
        for (int32_t s = w.from; s < w.to; s++) {
            const int64_t row = p * g->stride_h - g->pad_h + r, col = q * g->stride_w - g->pad_w + s;
            const float *at = x + (row * g->w + col) * g->c + c;
            if (count < POOL_BLOCK) {
                memcpy(cut, at, (size_t)count * sizeof(float));
                at = cut;
            }
            pool_max_block(best, cell, at, r * g->s + s);
        }
    }
    memcpy(y + c, best, (size_t)count * sizeof(float));
    for (int32_t j = 0; arg != NULL && j < count; j++)
        arg[c + j] = (uint8_t)cell[j];
}

static void pool_max_tile(void *arg, int64_t tile, int thread)
{
    const struct pool_job *job = arg;
    const struct gy_geom *g = &job->op->geom;
    const float *x = job->op->ptr[GY_X];
    float *const y = job->op->ptr[GY_Y];
    uint8_t *const cells = job->op->ptr[GY_ARG];
    const int64_t n = tile / g->p;
    for (int32_t q = 0; q < g->q; q++) {
        const int64_t at = (tile * g->q + q) * g->c;
        for (int32_t c = 0; c < g->c; c += POOL_BLOCK)
            pool_max_pixel(g, x + n * g->h * g->w * g->c, (int32_t)(tile % g->p), q, c,
                           g->c - c < POOL_BLOCK ? g->c - c : POOL_BLOCK, y + at, cells != NULL ? cells + at : NULL);
    }
    (void)thread;
}

GY_INT void gy_cpu_pool_max_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct pool_job job = {op};
    gy_pool_run(cpu->pool, pool_max_tile, &job, op->geom.n * op->geom.p);
}

/* y[j] += a * x[j]; blocks first. */
static void pool_add(float *restrict y, const float *restrict x, float a, int64_t count)
{
    int64_t i = 0;
    for (; i + POOL_BLOCK <= count; i += POOL_BLOCK)
        for (int j = 0; j < POOL_BLOCK; j++)
            y[i + j] += a * x[i + j];
    for (; i < count; i++)
        y[i] += a * x[i];
}

/* y[j] += x[j] where cell[j] == id. */
static void pool_add_cell(float *restrict y, const float *restrict x, const uint8_t *restrict cell, int id,
                          int64_t count)
{
    int64_t i = 0;
    for (; i + POOL_BLOCK <= count; i += POOL_BLOCK)
        for (int j = 0; j < POOL_BLOCK; j++)
            y[i + j] += cell[i + j] == id ? x[i + j] : 0.0f;
    for (; i < count; i++)
        y[i] += cell[i] == id ? x[i] : 0.0f;
}

/* 1 / (cells that count in window p, q): all, counting padding, or those inside the image. */
static float pool_share(const struct gy_op *op, int32_t p, int32_t q)
{
    const struct gy_geom *g = &op->geom;
    const int inside = op->f[0] > 0.0f;
    const int64_t top = (int64_t)p * g->stride_h - g->pad_h, left = (int64_t)q * g->stride_w - g->pad_w;
    const int64_t h0 = inside ? gy_max64(top, 0) : top, h1 = gy_min64(top + g->r, inside ? g->h : g->h + g->pad_h);
    const int64_t w0 = inside ? gy_max64(left, 0) : left, w1 = gy_min64(left + g->s, inside ? g->w : g->w + g->pad_w);
    return 1.0f / (float)((h1 - h0) * (w1 - w0));
}

static void pool_avg_tile(void *arg, int64_t tile, int thread)
{
    const struct pool_job *job = arg;
    const struct gy_geom *g = &job->op->geom;
    const int64_t n = tile / g->p;
    const int32_t p = (int32_t)(tile % g->p);
    const float *x = (const float *)job->op->ptr[GY_X] + n * g->h * g->w * g->c;
    float *y = (float *)job->op->ptr[GY_Y] + tile * g->q * g->c;
    const struct pool_range h = pool_cells(p, g->stride_h, g->pad_h, g->r, g->h);
    for (int32_t q = 0; q < g->q; q++, y += g->c) {
        const struct pool_range w = pool_cells(q, g->stride_w, g->pad_w, g->s, g->w);
        const float share = pool_share(job->op, p, q);
        memset(y, 0, (size_t)g->c * sizeof(float));
        for (int32_t r = h.from; r < h.to; r++) {
            const float *line = x + (int64_t)(p * g->stride_h - g->pad_h + r) * g->w * g->c;
            for (int32_t s = w.from; s < w.to; s++)
                pool_add(y, line + (int64_t)(q * g->stride_w - g->pad_w + s) * g->c, 1.0f, g->c);
        }
        for (int32_t c = 0; c < g->c; c++)
            y[c] *= share;
    }
    (void)thread;
}

GY_INT void gy_cpu_pool_avg_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct pool_job job = {op};
    gy_pool_run(cpu->pool, pool_avg_tile, &job, op->geom.n * op->geom.p);
}

/* Cell numbers r of windows that hold position x: p = (x + pad - r) / stride for every r that divides, with p < out. */
static int pool_window(int32_t x, int32_t r, int32_t stride, int32_t pad, int32_t out, int32_t *p)
{
    const int32_t from = x + pad - r;
    if (from < 0 || from % stride != 0 || from / stride >= out)
        return 0;
    *p = from / stride;
    return 1;
}

static void pool_back_pixel(const struct gy_op *op, int64_t n, int32_t h, int32_t w, float *dx)
{
    const struct gy_geom *g = &op->geom;
    const float *dy = op->ptr[GY_DY];
    const uint8_t *cells = op->ptr[GY_ARG];
    int32_t p, q;
    if (!(op->flags & GY_F_ADD_DX))
        memset(dx, 0, (size_t)g->c * sizeof(float));
    for (int32_t r = g->r - 1; r >= 0; r--) {
        if (!pool_window(h, r, g->stride_h, g->pad_h, g->p, &p))
            continue;
        for (int32_t s = g->s - 1; s >= 0; s--) {
            if (!pool_window(w, s, g->stride_w, g->pad_w, g->q, &q))
                continue;
            const int64_t at = ((n * g->p + p) * g->q + q) * g->c;
            if (op->code == GY_OP_POOL_AVG_BWD)
                pool_add(dx, dy + at, pool_share(op, p, q), g->c);
            else
                pool_add_cell(dx, dy + at, cells + at, r * g->s + s, g->c);
        }
    }
}

static void pool_back_tile(void *arg, int64_t tile, int thread)
{
    const struct pool_job *job = arg;
    const struct gy_geom *g = &job->op->geom;
    float *dx = (float *)job->op->ptr[GY_DX] + tile * g->w * g->c;
    for (int32_t w = 0; w < g->w; w++, dx += g->c)
        pool_back_pixel(job->op, tile / g->h, (int32_t)(tile % g->h), w, dx);
    (void)thread;
}

GY_INT void gy_cpu_pool_back_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct pool_job job = {op};
    gy_pool_run(cpu->pool, pool_back_tile, &job, op->geom.n * op->geom.h);
}
