/* SPDX-License-Identifier: MIT */
/* conv_depth.c: depthwise convolution. Nothing is summed over channels, so channels lie in vectors
 * and each pixel sums its taps. Filters are transposed to [tap][channel] first. A tile is a run of
 * pixels; each pixel lists only taps inside the image. */
#include "kernels/cpu/conv.h"
#include "kernels/cpu/driver.h"
#include "kernels/cpu/norm.h"

#define DEPTH_TAPS 1024    /* most taps of a filter */
#define DEPTH_RUN 128      /* pixels in a tile */
#define DEPTH_PARTS 32     /* parts of the weight gradient */

/* Scratch. */
struct depth_all {
    float *filter;       /* [taps][C] */
    float *mean, *m2;    /* [runs][C] */
    float *parts;        /* [parts][taps][C] */
};

struct depth_plan {
    struct depth_all all;
    int64_t pixels, run, runs; /* of one run, how many */
};

struct depth_job {
    const struct gy_cpu *cpu;
    const struct gy_op *op;
    struct depth_all all;
    int64_t pixels, run, runs;
};

struct depth_taps {
    const float *x[DEPTH_TAPS], *w[DEPTH_TAPS];
    int64_t count;
};

GY_INT int gy_cpu_is_depthwise(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    return g->groups > 1 && g->groups == g->c && g->c == g->k && (int64_t)g->r * g->s <= DEPTH_TAPS;
}

GY_INT void gy_cpu_depth_plan(struct gy_planner *planner, struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    struct depth_plan *const d = gy_planner_take(planner, 1, sizeof *d);
    const size_t filter = (size_t)g->r * (size_t)g->s * (size_t)g->c;
    op->plan = d;
    if (!d)
        return;
    d->pixels = op->code == GY_OP_CONV_DGRAD ? g->n * g->h * g->w : g->n * g->p * g->q;
    d->run = op->code == GY_OP_CONV_WGRAD ? gy_max64(gy_ceil_div(d->pixels, DEPTH_PARTS), 1) : DEPTH_RUN;
    d->runs = gy_ceil_div(d->pixels, d->run);
    const size_t stats = op->code == GY_OP_CONV && op->tensor[GY_STATS] >= 0 ? (size_t)(d->runs * g->c) : 0;
    d->all.filter = gy_scratch_take(&op->scratch_bytes, filter, sizeof(float));
    d->all.mean = gy_scratch_take(&op->scratch_bytes, stats, sizeof(float));
    d->all.m2 = gy_scratch_take(&op->scratch_bytes, stats, sizeof(float));
    d->all.parts = gy_scratch_take(&op->scratch_bytes, op->code == GY_OP_CONV_WGRAD ? (size_t)d->runs * filter : 0, sizeof(float));
}

static struct depth_job depth_make_job(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct depth_plan *const d = op->plan;
    struct depth_job job = { .cpu = cpu, .op = op, .all = d->all, .pixels = d->pixels, .run = d->run, .runs = d->runs };
    gy_scratch_move(&job.all, sizeof job.all, op->ptr[GY_SCRATCH]);
    return job;
}

/* Input pixels that output pixel i meets. w: filter or sums, [taps][C]. */
static void depth_list(const struct gy_geom *g, int64_t i, const float *x, const float *w, struct depth_taps *taps)
{
    const int64_t n = i / g->q / g->p, p = i / g->q % g->p, q = i % g->q;
    taps->count = 0;
    for (int32_t r = 0; r < g->r; r++) {
        const int64_t h = p * g->stride_h - g->pad_h + (int64_t)r * g->dil_h;
        for (int32_t s = 0; h >= 0 && h < g->h && s < g->s; s++) {
            const int64_t v = q * g->stride_w - g->pad_w + (int64_t)s * g->dil_w;
            if (v < 0 || v >= g->w)
                continue;
            taps->x[taps->count] = x + ((n * g->h + h) * g->w + v) * g->c;
            taps->w[taps->count++] = w + (int64_t)(r * g->s + s) * g->c;
        }
    }
}

/* Output pixels that hold input pixel i. */
static void depth_list_back(const struct gy_geom *g, int64_t i, const float *dy, const float *w,
                            struct depth_taps *taps)
{
    const int64_t n = i / g->w / g->h, h = i / g->w % g->h, v = i % g->w;
    taps->count = 0;
    for (int32_t r = 0; r < g->r; r++) {
        const int64_t top = h + g->pad_h - (int64_t)r * g->dil_h;
        if (top < 0 || top % g->stride_h != 0 || top / g->stride_h >= g->p)
            continue;
        for (int32_t s = 0; s < g->s; s++) {
            const int64_t left = v + g->pad_w - (int64_t)s * g->dil_w;
            if (left < 0 || left % g->stride_w != 0 || left / g->stride_w >= g->q)
                continue;
            taps->x[taps->count] = dy + ((n * g->p + top / g->stride_h) * g->q + left / g->stride_w) * g->c;
            taps->w[taps->count++] = w + (int64_t)(r * g->s + s) * g->c;
        }
    }
}

static void depth_forward_tile(void *arg, int64_t tile, int thread)
{
    const struct depth_job *job = arg;
    const struct gy_op *op = job->op;
    const int64_t c = op->geom.c, first = tile * job->run, count = gy_min64(job->run, job->pixels - first);
    float *const y = op->ptr[GY_Y];
    struct depth_taps taps;
    for (int64_t i = first; i < first + count; i++) {
        depth_list(&op->geom, i, op->ptr[GY_X], job->all.filter, &taps);
        job->cpu->k.depthwise(y + i * c, taps.x, taps.w, taps.count, c, op->ptr[GY_BIAS]);
    }
    if (op->ptr[GY_STATS])
        job->cpu->k.stats[GY_F32](y + first * c, count, c, c, job->all.mean + tile * c, job->all.m2 + tile * c);
    gy_cpu_epilogue(job->cpu, op, first, count, 0, c);
    (void)thread;
}

static void depth_turn_filter(const struct gy_cpu *cpu, const struct gy_op *op, float *filter)
{
    const int64_t taps = (int64_t)op->geom.r * op->geom.s;
    cpu->k.transpose(filter, op->geom.c, op->ptr[GY_W], taps, op->geom.c, taps);
}

GY_INT void gy_cpu_depth_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct depth_job job = depth_make_job(cpu, op);
    depth_turn_filter(cpu, op, job.all.filter);
    gy_pool_run(cpu->pool, depth_forward_tile, &job, job.runs);
    if (op->ptr[GY_STATS])
        gy_cpu_merge_stats(cpu, job.all.mean, job.all.m2, job.runs, op->geom.c, job.run, job.pixels, op->ptr[GY_STATS]);
}

static void depth_dgrad_tile(void *arg, int64_t tile, int thread)
{
    const struct depth_job *job = arg;
    const struct gy_op *op = job->op;
    const int64_t c = op->geom.c, first = tile * job->run, count = gy_min64(job->run, job->pixels - first);
    float *const dx = op->ptr[GY_DX];
    struct depth_taps taps;
    for (int64_t i = first; i < first + count; i++) {
        depth_list_back(&op->geom, i, op->ptr[GY_DY], job->all.filter, &taps);
        job->cpu->k.depthwise(dx + i * c, taps.x, taps.w, taps.count, c, op->flags & GY_F_ADD_DX ? dx + i * c : NULL);
    }
    (void)thread;
}

GY_INT void gy_cpu_depth_dgrad_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct depth_job job = depth_make_job(cpu, op);
    depth_turn_filter(cpu, op, job.all.filter);
    gy_pool_run(cpu->pool, depth_dgrad_tile, &job, job.runs);
}

static void depth_wgrad_tile(void *arg, int64_t tile, int thread)
{
    const struct depth_job *job = arg;
    const struct gy_op *op = job->op;
    const int64_t c = op->geom.c, filter = (int64_t)op->geom.r * op->geom.s * c, first = tile * job->run;
    const float *dy = op->ptr[GY_DY];
    float *const sums = job->all.parts + tile * filter;
    struct depth_taps taps;
    float *sum[DEPTH_TAPS];
    memset(sums, 0, (size_t)filter * sizeof(float));
    for (int64_t i = first; i < gy_min64(first + job->run, job->pixels); i++) {
        depth_list(&op->geom, i, op->ptr[GY_X], sums, &taps);
        for (int64_t t = 0; t < taps.count; t++)
            sum[t] = sums + (taps.w[t] - sums);
        job->cpu->k.depth_grad(sum, taps.x, dy + i * c, taps.count, c);
    }
    (void)thread;
}

GY_INT void gy_cpu_depth_wgrad_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct depth_job job = depth_make_job(cpu, op);
    const int64_t parts = job.runs, c = op->geom.c, taps = (int64_t)op->geom.r * op->geom.s;
    float *const dw = op->ptr[GY_DW], *const dbias = op->ptr[GY_DBIAS];
    const float *dy = op->ptr[GY_DY];
    gy_pool_run(cpu->pool, depth_wgrad_tile, &job, parts);
    gy_cpu_sum_parts(cpu, job.all.parts, parts, taps * c, taps * c, job.all.filter, 0);
    for (int64_t k = 0; k < c; k++)
        for (int64_t t = 0; t < taps; t++)
            dw[k * taps + t] = (op->u->accumulate ? dw[k * taps + t] : 0.0f) + job.all.filter[t * c + k];
    if (!dbias)
        return;
    if (!op->u->accumulate)
        memset(dbias, 0, (size_t)c * sizeof(float));
    cpu->k.col_sums[GY_F32](dy, job.pixels, c, c, dbias);
}
