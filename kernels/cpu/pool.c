/* SPDX-License-Identifier: MIT */
/* pool.c: pooling; a tile is a row of output pixels, or backward of input pixels. Backward passes
 * gather: each input pixel reads the windows that hold it. So both ways a pixel meets a rectangle,
 * of cells or of windows. Along a row it meets the same in every row. */
#include "kernels/cpu/driver.h"

#define POOL_STREAM 33554432 /* bytes of outputs that no cache keeps until the next op */

struct pool_plan {
    struct gy_pool_span *spans; /* of a row's pixels: [q]; backward [w] */
    float *share_h, *share_w;   /* average: 1 / (cells that count) of a window, by axis: [p], [q] */
    float *one;                 /* [max(r, w)]: ones */
    int streams;                /* outputs go past the caches, if they begin a cache line */
};

struct pool_job {
    const struct gy_cpu *cpu;
    const struct gy_op *op;
    const struct pool_plan *plan;
};

/* What meets along one axis: [from, to). */
struct pool_range {
    int32_t from, to;
};

static int32_t pool_max32(int32_t a, int32_t b) { return a > b ? a : b; }
static int32_t pool_min32(int32_t a, int32_t b) { return a < b ? a : b; }

/* Cells of the window at output position p that lie inside [0, size). */
static struct pool_range pool_cells(int32_t p, int32_t stride, int32_t pad, int32_t cells, int32_t size)
{
    const int32_t first = p * stride - pad;
    return (struct pool_range){pool_max32(-first, 0), pool_min32(cells, size - first)};
}

/* Windows that hold input position x: p stride - pad <= x < p stride - pad + cells. */
static struct pool_range pool_windows(int32_t x, int32_t stride, int32_t pad, int32_t cells, int32_t out)
{
    const int32_t at = x + pad, from = at < cells ? 0 : (at - cells) / stride + 1;
    return (struct pool_range){from, pool_min32(at / stride + 1, out)};
}

/* 1 / (cells that count) along one axis: all that padding allows, or those inside the image. */
static void pool_shares(float *share, int32_t out, int32_t stride, int32_t pad, int32_t cells, int32_t size, int inside)
{
    for (int32_t p = 0; p < out; p++) {
        const int32_t first = p * stride - pad, from = inside ? pool_max32(first, 0) : first;
        share[p] = 1.0f / (float)(pool_min32(first + cells, inside ? size : size + pad) - from);
    }
}

static int pool_is_back(const struct gy_op *op)
{
    return op->code == GY_OP_POOL_MAX_BWD || op->code == GY_OP_POOL_AVG_BWD;
}

/* The cells of each window of a row, or the windows over each pixel. */
static void pool_spans(struct gy_pool_span *spans, const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    for (int32_t q = 0; q < g->q && !pool_is_back(op); q++) {
        const struct pool_range w = pool_cells(q, g->stride_w, g->pad_w, g->s, g->w);
        spans[q] = (struct gy_pool_span){q * g->stride_w - g->pad_w + w.from, w.to - w.from, w.from};
    }
    for (int32_t x = 0; x < g->w && pool_is_back(op); x++) {
        const struct pool_range q = pool_windows(x, g->stride_w, g->pad_w, g->s, g->q);
        spans[x] = (struct gy_pool_span){q.from, q.to - q.from, x + g->pad_w - q.from * g->stride_w};
    }
}

/* Gradients of inputs bypass caches that cannot hold them if whole lines are written, once. */
static int pool_streams(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const int64_t row = g->c * (op->dtype == GY_F32 ? 4 : 2);
    return (op->flags & GY_F_ADD_DX) == 0 && row % GY_CACHE_LINE == 0 && g->n * g->h * g->w * row >= POOL_STREAM;
}

/* Of both kinds, both ways. */
GY_INT void gy_cpu_pool_plan(struct gy_planner *planner, struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const int average = op->code == GY_OP_POOL_AVG || op->code == GY_OP_POOL_AVG_BWD;
    struct pool_plan *const t = gy_planner_take(planner, 1, sizeof *t);
    op->plan = t;
    if (t && average) {
        t->share_h = gy_planner_take(planner, g->p, sizeof(float));
        t->share_w = gy_planner_take(planner, g->q, sizeof(float));
        t->one = gy_planner_take(planner, pool_max32(g->r, g->w), sizeof(float));
    }
    if (t)
        t->spans = gy_planner_take(planner, pool_is_back(op) ? g->w : g->q, sizeof *t->spans);
    if (planner->full)
        return;
    t->streams = pool_streams(op);
    pool_spans(t->spans, op);
    if (!average)
        return;
    pool_shares(t->share_h, g->p, g->stride_h, g->pad_h, g->r, g->h, op->f[0] > 0.0f);
    pool_shares(t->share_w, g->q, g->stride_w, g->pad_w, g->s, g->w, op->f[0] > 0.0f);
    for (int32_t i = 0; i < g->r || i < g->w; i++)
        t->one[i] = 1.0f;
}

/* Row p of the outputs of image n. */
static struct gy_pool_rows pool_forward_rows(const struct pool_job *job, int64_t n, int32_t p)
{
    const struct gy_op *op = job->op;
    const struct gy_geom *g = &op->geom;
    const struct pool_range h = pool_cells(p, g->stride_h, g->pad_h, g->r, g->h);
    const int64_t row = (int64_t)p * g->stride_h - g->pad_h + h.from, out = (n * g->p + p) * g->q * g->c;
    return (struct gy_pool_rows){ .x = gy_cpu_at(op->ptr[GY_X], (n * g->h + row) * g->w * g->c, op->dtype),
                                 .rows = h.to - h.from, .row_pitch = (int64_t)g->w * g->c, .cols = g->c,
                                 .id = (int64_t)h.from * g->s, .id_row = g->s, .id_cell = 1, .span = job->plan->spans, .count = g->q,
                                 .y = gy_cpu_out(op->ptr[GY_Y], out, op->dtype) };
}

static void pool_max_tile(void *arg, int64_t tile, int thread)
{
    const struct pool_job *job = arg;
    const struct gy_geom *g = &job->op->geom;
    uint8_t *const cells = job->op->ptr[GY_ARG];
    struct gy_pool_rows a = pool_forward_rows(job, tile / g->p, (int32_t)(tile % g->p));
    a.cell = cells ? cells + tile * g->q * g->c : NULL;
    job->cpu->k.pool_max[job->op->dtype](&a);
    (void)thread;
}

static void pool_avg_tile(void *arg, int64_t tile, int thread)
{
    const struct pool_job *job = arg;
    const struct gy_geom *g = &job->op->geom;
    const int32_t p = (int32_t)(tile % g->p);
    struct gy_pool_rows a = pool_forward_rows(job, tile / g->p, p);
    a.share_row = a.share_cell = job->plan->one;
    a.share_out = job->plan->share_w;
    a.scale = job->plan->share_h[p];
    job->cpu->k.pool_sum[job->op->dtype](&a);
    (void)thread;
}

GY_INT void gy_cpu_pool_max_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct pool_job job = { cpu, op, op->plan };
    gy_pool_run(cpu->pool, pool_max_tile, &job, op->geom.n * op->geom.p);
}

GY_INT void gy_cpu_pool_avg_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct pool_job job = { cpu, op, op->plan };
    gy_pool_run(cpu->pool, pool_avg_tile, &job, op->geom.n * op->geom.p);
}

/* Row h of the inputs of image n. */
static struct gy_pool_rows pool_back_rows(const struct pool_job *job, int64_t n, int32_t h)
{
    const struct gy_op *op = job->op;
    const struct gy_geom *g = &op->geom;
    const struct pool_range p = pool_windows(h, g->stride_h, g->pad_h, g->r, g->p);
    const int64_t at = (n * g->p + p.from) * g->q * g->c, to = (n * g->h + h) * g->w * g->c;
    const int64_t r = (int64_t)h + g->pad_h - (int64_t)p.from * g->stride_h;
    const uint8_t *const cells = op->ptr[GY_ARG];
    const float *const share = job->plan->share_h; /* average */
    return (struct gy_pool_rows){ .x = gy_cpu_at(op->ptr[GY_DY], at, op->dtype), .rows = p.to - p.from,
                                 .row_pitch = (int64_t)g->q * g->c, .cols = g->c, .id = r * g->s,
                                 .id_row = -(int64_t)g->stride_h * g->s, .id_cell = -g->stride_w, .span = job->plan->spans,
                                 .count = g->w, .from = cells ? cells + at : NULL,
                                 .share_row = share ? share + p.from : NULL, .share_cell = job->plan->share_w, .scale = 1.0f,
                                 .y = gy_cpu_out(op->ptr[GY_DX], to, op->dtype), .add = (op->flags & GY_F_ADD_DX) != 0,
                                 .stream = job->plan->streams && (uintptr_t)op->ptr[GY_DX] % GY_CACHE_LINE == 0 };
}

static void pool_back_tile(void *arg, int64_t tile, int thread)
{
    const struct pool_job *job = arg;
    const struct gy_geom *g = &job->op->geom;
    const struct gy_pool_rows a = pool_back_rows(job, tile / g->h, (int32_t)(tile % g->h));
    if (job->op->code == GY_OP_POOL_AVG_BWD)
        job->cpu->k.pool_sum[job->op->dtype](&a);
    else
        job->cpu->k.pool_back[job->op->dtype](&a);
    (void)thread;
}

GY_INT void gy_cpu_pool_back_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct pool_job job = { cpu, op, op->plan };
    gy_pool_run(cpu->pool, pool_back_tile, &job, op->geom.n * op->geom.h);
}
