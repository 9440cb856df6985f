/* SPDX-License-Identifier: MIT */
/* Pooling, a row of output pixels (or, backward, of input pixels) a tile. Backward passes gather: each input pixel asks the
 * windows that hold it. Both ways a pixel meets a rectangle, of cells or of windows, so that the kernels see only that. */
#include "norm.h"

struct pool_job {
    const struct gy_cpu *cpu;
    const struct gy_op *op;
    float *share_h, *share_w; /* average pooling: 1 / (cells that count) of each window along an axis: [p], [q] */
    float *one;               /* [max(r, s)]: ones */
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

GY_INT size_t gy_cpu_pool_avg_need(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    (void)cpu;
    return ((size_t)g->p + (size_t)g->q + (size_t)(g->r > g->s ? g->r : g->s)) * sizeof(float);
}

static struct pool_job pool_make_job(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    struct pool_job job = {.cpu = cpu, .op = op};
    if (op->code != GY_OP_POOL_AVG && op->code != GY_OP_POOL_AVG_BWD)
        return job;
    job.share_h = op->ptr[GY_SCRATCH];
    job.share_w = job.share_h + g->p;
    job.one = job.share_w + g->q;
    pool_shares(job.share_h, g->p, g->stride_h, g->pad_h, g->r, g->h, op->f[0] > 0.0f);
    pool_shares(job.share_w, g->q, g->stride_w, g->pad_w, g->s, g->w, op->f[0] > 0.0f);
    for (int32_t i = 0; i < g->r || i < g->s; i++)
        job.one[i] = 1.0f;
    return job;
}

/* The cells of output pixel (p, q) of image n. */
static struct gy_pool_rows pool_forward_rows(const struct gy_op *op, int64_t n, int32_t p, int32_t q)
{
    const struct gy_geom *g = &op->geom;
    const struct pool_range h = pool_cells(p, g->stride_h, g->pad_h, g->r, g->h);
    const struct pool_range w = pool_cells(q, g->stride_w, g->pad_w, g->s, g->w);
    const int64_t row = (int64_t)p * g->stride_h - g->pad_h + h.from, col = (int64_t)q * g->stride_w - g->pad_w + w.from;
    const int64_t out = ((n * g->p + p) * g->q + q) * g->c;
    return (struct gy_pool_rows){.x = gy_cpu_at(op->ptr[GY_X], ((n * g->h + row) * g->w + col) * g->c, op->dtype),
                                 .rows = h.to - h.from, .cells = w.to - w.from, .row_pitch = (int64_t)g->w * g->c,
                                 .cell_pitch = g->c, .cols = g->c, .id = (int64_t)h.from * g->s + w.from, .id_row = g->s,
                                 .id_cell = 1, .y = gy_cpu_out(op->ptr[GY_Y], out, op->dtype)};
}

static void pool_max_tile(void *arg, int64_t tile, int thread)
{
    const struct pool_job *job = arg;
    const struct gy_op *op = job->op;
    const struct gy_geom *g = &op->geom;
    uint8_t *const cells = op->ptr[GY_ARG];
    for (int32_t q = 0; q < g->q; q++) {
        struct gy_pool_rows a = pool_forward_rows(op, tile / g->p, (int32_t)(tile % g->p), q);
        a.cell = cells != NULL ? cells + (tile * g->q + q) * g->c : NULL;
        job->cpu->k.pool_max[op->dtype](&a);
    }
    (void)thread;
}

static void pool_avg_tile(void *arg, int64_t tile, int thread)
{
    const struct pool_job *job = arg;
    const struct gy_op *op = job->op;
    const struct gy_geom *g = &op->geom;
    for (int32_t q = 0; q < g->q; q++) {
        const int32_t p = (int32_t)(tile % g->p);
        struct gy_pool_rows a = pool_forward_rows(op, tile / g->p, p, q);
        const float share = job->share_h[p] * job->share_w[q];
        a.share_row = job->one;
        a.share_cell = job->one;
        job->cpu->k.pool_sum[op->dtype](&a, share);
    }
    (void)thread;
}

GY_INT void gy_cpu_pool_max_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct pool_job job = pool_make_job(cpu, op);
    gy_pool_run(cpu->pool, pool_max_tile, &job, op->geom.n * op->geom.p);
}

GY_INT void gy_cpu_pool_avg_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct pool_job job = pool_make_job(cpu, op);
    gy_pool_run(cpu->pool, pool_avg_tile, &job, op->geom.n * op->geom.p);
}

/* The windows over input pixel (h, w) of image n; p: those over its row. */
static struct gy_pool_rows pool_back_rows(const struct pool_job *job, int64_t n, int32_t h, int32_t w, struct pool_range p)
{
    const struct gy_op *op = job->op;
    const struct gy_geom *g = &op->geom;
    const struct pool_range q = pool_windows(w, g->stride_w, g->pad_w, g->s, g->q);
    const int64_t at = ((n * g->p + p.from) * g->q + q.from) * g->c, to = ((n * g->h + h) * g->w + w) * g->c;
    const int64_t r = (int64_t)h + g->pad_h - (int64_t)p.from * g->stride_h, s = (int64_t)w + g->pad_w - (int64_t)q.from * g->stride_w;
    const uint8_t *const cells = op->ptr[GY_ARG];
    struct gy_pool_rows a = {.x = gy_cpu_at(op->ptr[GY_DY], at, op->dtype), .rows = p.to - p.from, .cells = q.to - q.from,
                             .row_pitch = (int64_t)g->q * g->c, .cell_pitch = g->c, .cols = g->c, .id = r * g->s + s,
                             .id_row = -(int64_t)g->stride_h * g->s, .id_cell = -g->stride_w,
                             .from = cells != NULL ? cells + at : NULL, .y = gy_cpu_out(op->ptr[GY_DX], to, op->dtype),
                             .add = (op->flags & GY_F_ADD_DX) != 0};
    a.share_row = job->share_h != NULL ? job->share_h + p.from : NULL;
    a.share_cell = job->share_w != NULL ? job->share_w + q.from : NULL;
    return a;
}

static void pool_back_tile(void *arg, int64_t tile, int thread)
{
    const struct pool_job *job = arg;
    const struct gy_geom *g = &job->op->geom;
    const int32_t h = (int32_t)(tile % g->h);
    const struct pool_range p = pool_windows(h, g->stride_h, g->pad_h, g->r, g->p);
    for (int32_t w = 0; w < g->w; w++) {
        const struct gy_pool_rows a = pool_back_rows(job, tile / g->h, h, w, p);
        if (job->op->code == GY_OP_POOL_AVG_BWD)
            job->cpu->k.pool_sum[job->op->dtype](&a, 1.0f);
        else
            job->cpu->k.pool_back[job->op->dtype](&a);
    }
    (void)thread;
}

GY_INT void gy_cpu_pool_back_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct pool_job job = pool_make_job(cpu, op);
    gy_pool_run(cpu->pool, pool_back_tile, &job, op->geom.n * op->geom.h);
}
