/* SPDX-License-Identifier: MIT */
/* widen.c: ops on bf16 that have only a float kernel. Activations are widened into scratch, the
 * float op runs there, its outputs are rounded back. Independent samples go a few at a time, so
 * that scratch stays in the caches; otherwise the whole batch goes at once. This is correct
 * everywhere but slower: ops that cost much have kernels of their own. */
#include "kernels/cpu/driver.h"

#define WIDE_FLOATS 524288 /* floats of scratch wanted for independent samples */
#define WIDE_PIECE 32768   /* elements in a tile of a conversion */

enum { WIDE_ROLES = 7 };
static const uint8_t wide_roles[WIDE_ROLES] = {GY_X, GY_Y, GY_RES, GY_DX, GY_DY, GY_DRES, GY_AGAIN};

struct wide_plan {
    struct gy_op part[2];      /* the float op on samples that are done together; on the rest */
    int64_t count[WIDE_ROLES]; /* elements a sample; 0: not widened */
    struct wide_all {
        float *at[WIDE_ROLES];
        void *scratch;         /* of the float op */
    } all;                     /* layout of scratch */
};

static int wide_is_loss(int code)
{
    return code == GY_OP_SOFTMAX_CE || code == GY_OP_MSE || code == GY_OP_SOFTMAX_CE_BWD || code == GY_OP_MSE_BWD;
}

/* Elements a sample of an activation; 0: the op has no such tensor, or it is no activation. */
static int64_t wide_count(const struct gy_op *op, int role)
{
    const struct gy_geom *g = &op->geom;
    if (op->tensor[role] < 0)
        return 0;
    if ((role == GY_Y && wide_is_loss(op->code)) || (role == GY_X && op->code == GY_OP_INPUT))
        return 0;
    const int inside = role == GY_X || role == GY_DX || role == GY_DRES;
    return inside ? (int64_t)g->h * g->w * g->c : (int64_t)g->p * g->q * g->k;
}

static int wide_is_output(const struct gy_op *op, int role)
{
    return op->code < GY_OP_SOFTMAX_CE_BWD ? role == GY_Y : role == GY_DX || role == GY_DRES || role == GY_AGAIN;
}

static int wide_independent(const struct gy_op *op)
{
    static const uint8_t yes[GY_OP_CODES] = {
        [GY_OP_POOL_MAX] = 1,     [GY_OP_POOL_AVG] = 1,     [GY_OP_LRN] = 1,        [GY_OP_ACT] = 1,
        [GY_OP_ADD] = 1,          [GY_OP_CONCAT] = 1,       [GY_OP_SHORTCUT] = 1,   [GY_OP_POOL_MAX_BWD] = 1,
        [GY_OP_POOL_AVG_BWD] = 1, [GY_OP_LRN_BWD] = 1,      [GY_OP_ADD_BWD] = 1,    [GY_OP_ACT_BWD] = 1,
        [GY_OP_CONCAT_BWD] = 1,   [GY_OP_SHORTCUT_BWD] = 1, [GY_OP_CONV_DGRAD] = 1, [GY_OP_CONV] = 1};
    return yes[op->code] && op->tensor[GY_STATS] < 0;
}

/* Samples that are done together. */
static int64_t wide_samples(const struct gy_op *op, const struct wide_plan *w)
{
    int64_t floats = 1;
    for (int i = 0; i < WIDE_ROLES; i++)
        floats += w->count[i];
    return wide_independent(op) ? gy_min64(gy_max64(WIDE_FLOATS / floats, 1), gy_max64(op->geom.n, 1)) : op->geom.n;
}

GY_INT void gy_cpu_wide_plan(struct gy_planner *planner, struct gy_op *op)
{
    struct wide_plan *const w = gy_planner_take(planner, 1, sizeof *w);
    if (!w)
        return;
    for (int i = 0; i < WIDE_ROLES; i++)
        w->count[i] = wide_count(op, wide_roles[i]);
    const int64_t samples = wide_samples(op, w), left = op->geom.n % gy_max64(samples, 1);
    for (int i = 0; i < WIDE_ROLES; i++)
        w->all.at[i] = gy_scratch_take(&op->scratch_bytes, (size_t)(samples * w->count[i]), sizeof(float));
    w->all.scratch = gy_scratch_take(&op->scratch_bytes, 0, 1);
    size_t own = 0;
    for (int i = 0; i < (left > 0 ? 2 : 1); i++) {
        w->part[i] = *op;
        w->part[i].dtype = GY_F32;
        w->part[i].geom.n = i == 0 ? samples : left;
        planner->prepare(planner, &w->part[i]);
        memcpy(op->block, w->part[i].block, sizeof op->block);
        own = w->part[i].scratch_bytes > own ? w->part[i].scratch_bytes : own;
    }
    op->plan = w;
    op->scratch_bytes += own;
}

struct wide_job {
    const struct gy_kernels *k;
    float *wide;
    uint16_t *half;
    int64_t count;
    int narrow;
};

static void wide_tile(void *arg, int64_t tile, int thread)
{
    const struct wide_job *job = arg;
    const int64_t at = tile * WIDE_PIECE, count = gy_min64(WIDE_PIECE, job->count - at);
    void *const half = job->half;
    if (job->narrow)
        job->k->narrow[GY_BF16](&half, at, job->wide + at, count, 1, count, 0);
    else
        job->k->widen[GY_BF16](job->wide + at, job->half + at, count);
    (void)thread;
}

/* Converts all activations of samples [first, first + wide->geom.n); narrow: only outputs, back. */
static void wide_convert(const struct gy_cpu *cpu, const struct gy_op *op, const struct gy_op *wide, int64_t first,
                         int narrow)
{
    const struct wide_plan *const w = op->plan;
    for (int i = 0; i < WIDE_ROLES; i++) {
        const int role = wide_roles[i];
        const int64_t count = w->count[i];
        if (count == 0 || (narrow && !wide_is_output(op, role)))
            continue;
        struct wide_job job = {&cpu->k, wide->ptr[role], (uint16_t *)op->ptr[role] + first * count,
                               wide->geom.n * count, narrow};
        gy_pool_run(cpu->pool, wide_tile, &job, gy_ceil_div(job.count, WIDE_PIECE));
    }
}

GY_INT void gy_cpu_wide_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    const struct wide_plan *const w = op->plan;
    struct wide_all all = w->all;
    gy_scratch_move(&all, sizeof all, op->ptr[GY_SCRATCH]);
    for (int64_t first = 0; first < op->geom.n; first += w->part[0].geom.n) {
        struct gy_op wide = w->part[op->geom.n - first < w->part[0].geom.n];
        memcpy(wide.ptr, op->ptr, sizeof wide.ptr);
        for (int i = 0; i < WIDE_ROLES; i++)
            if (w->count[i] > 0)
                wide.ptr[wide_roles[i]] = all.at[i];
        wide.ptr[GY_SCRATCH] = all.scratch;
        if (first > 0 && op->ptr[GY_ARG])
            wide.ptr[GY_ARG] = (uint8_t *)op->ptr[GY_ARG] + first * wide_count(op, op->code < GY_OP_SOFTMAX_CE_BWD ? GY_Y : GY_DY);
        wide_convert(cpu, op, &wide, first, 0);
        gy_driver_run(cpu, &wide);
        wide_convert(cpu, op, &wide, first, 1);
    }
}
