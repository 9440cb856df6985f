/* SPDX-License-Identifier: MIT */
/* norm.c: batch norm as passes over rows (pixels) of channels, each once over memory. Rows are cut
 * into fixed parts. A part leaves its sums in scratch; parts are joined in a fixed order.
 * Activations are float or bf16. */
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/norm.h"

#define NORM_PART_FLOATS 32768 /* floats of a tensor in a part: three tensors fill a second cache */
#define NORM_STREAM 33554432   /* bytes of a tensor that no cache keeps until the next op */
#define NORM_COEFFICIENTS 3    /* of a channel's dx */
#define NORM_CHANNELS 64       /* channels that join their parts in one tile */

struct norm_plan {
    int64_t rows, part_rows; /* pixels of the batch; in a part, at most */
    int streams;             /* outputs go past the caches, if they begin a cache line */
};

/* Of the samples that are there: what statistics are of. */
static int64_t norm_rows_there(const struct gy_op *op)
{
    return (op->geom.n - op->u->absent) * op->geom.h * op->geom.w;
}

struct norm_merge_job {
    float *mean, *m2, *stats;
    int64_t parts, channels, part_rows, rows;
};

/* Joins part b into part a of a channel: counts na, nb. */
static void norm_join(float *mean_a, float *m2_a, float mean_b, float m2_b, double na, double nb)
{
    const double gap = (double)mean_b - (double)*mean_a, share = nb / (na + nb);
    *mean_a = (float)((double)*mean_a + gap * share);
    *m2_a = (float)((double)*m2_a + (double)m2_b + gap * gap * na * share);
}

static void norm_merge_tile(void *arg, int64_t tile, int thread)
{
    const struct norm_merge_job *job = arg;
    const int64_t from = tile * NORM_CHANNELS, to = gy_min64(from + NORM_CHANNELS, job->channels);
    for (int64_t step = 1; step < job->parts; step *= 2) {
        for (int64_t i = 0; i + step < job->parts; i += 2 * step) {
            const double na = (double)(step * job->part_rows);
            const int64_t end = gy_min64((i + 2 * step) * job->part_rows, job->rows);
            const double nb = (double)(end - (i + step) * job->part_rows);
            float *const mean = job->mean + i * job->channels, *const m2 = job->m2 + i * job->channels;
            const int64_t other = step * job->channels;
            for (int64_t c = from; c < to; c++)
                norm_join(mean + c, m2 + c, mean[other + c], m2[other + c], na, nb);
        }
    }
    for (int64_t c = from; c < to; c++) {
        job->stats[c] = job->mean[c];
        job->stats[job->channels + c] = job->m2[c];
    }
    (void)thread;
}

GY_INT void gy_cpu_merge_stats(const struct gy_cpu *cpu, float *mean, float *m2, int64_t parts, int64_t channels,
                               int64_t part_rows, int64_t rows, float *stats)
{
    struct norm_merge_job job = {mean, m2, stats, parts, channels, part_rows, rows};
    gy_pool_run(cpu->pool, norm_merge_tile, &job, gy_ceil_div(channels, NORM_CHANNELS));
}

struct norm_sum_job {
    const struct gy_kernels *k;
    const float *part;
    int64_t parts, count, pitch, block;
    float *out;
    int add;
};

static void norm_sum_tile(void *arg, int64_t tile, int thread)
{
    const struct norm_sum_job *job = arg;
    const int64_t from = tile * job->block, count = gy_min64(job->block, job->count - from);
    struct gy_affine_rows a = { .y = job->out + from, .rows = 1, .cols = count, .lo = -INFINITY, .hi = INFINITY };
    for (int64_t p = 0; p < job->parts; p++) {
        a.x = p == 0 && !job->add ? job->part + from : job->out + from;
        a.res = p == 0 && !job->add ? NULL : job->part + p * job->pitch + from;
        job->k->affine[GY_F32](&a);
    }
    (void)thread;
}

GY_INT void gy_cpu_sum_parts(const struct gy_cpu *cpu, const float *part, int64_t parts, int64_t count, int64_t pitch,
                             float *out, int add)
{
    struct norm_sum_job job = {&cpu->k, part, parts, count, pitch, count >= 65536 ? 4096 : 1024, out, add};
    gy_pool_run(cpu->pool, norm_sum_tile, &job, gy_ceil_div(count, job.block));
}

struct norm_job {
    const struct gy_cpu *cpu;
    const struct gy_op *op;
    float *parts; /* [parts][2][C], or coefficients [3][C] */
    int64_t begin, rows, part_rows; /* rows [begin, rows) in parts */
    int64_t count;                  /* of parts */
};

GY_INT void gy_cpu_bn_apply_plan(struct gy_planner *planner, struct gy_op *op)
{
    struct norm_plan *const plan = gy_planner_take(planner, 1, sizeof *plan);
    const struct gy_geom *g = &op->geom;
    op->plan = plan;
    if (!plan)
        return;
    plan->rows = g->n * g->h * g->w;
    plan->part_rows = gy_max64(NORM_PART_FLOATS / g->c, 16);
    plan->streams = g->c % 16 == 0 && plan->rows * g->c * (op->dtype == GY_F32 ? 4 : 2) >= NORM_STREAM;
}

/* Statistics and sums leave two numbers of every channel in each part. */
GY_INT void gy_cpu_bn_parts_plan(struct gy_planner *planner, struct gy_op *op)
{
    gy_cpu_bn_apply_plan(planner, op);
    const struct norm_plan *const plan = op->plan;
    op->scratch_bytes = plan ? (size_t)(gy_ceil_div(plan->rows, plan->part_rows) * 2 * op->geom.c) * sizeof(float) : 0;
}

GY_INT void gy_cpu_bn_back_plan(struct gy_planner *planner, struct gy_op *op)
{
    gy_cpu_bn_apply_plan(planner, op);
    op->scratch_bytes = NORM_COEFFICIENTS * (size_t)op->geom.c * sizeof(float);
}

static int norm_streams(const struct gy_op *op, const void *out)
{
    return out && ((const struct norm_plan *)op->plan)->streams && (uintptr_t)out % GY_CACHE_LINE == 0;
}

static struct norm_job norm_make_job_of(const struct gy_cpu *cpu, const struct gy_op *op, int64_t begin, int64_t rows)
{
    const struct norm_plan *const plan = op->plan;
    struct norm_job job = { .cpu = cpu, .op = op, .parts = op->ptr[GY_SCRATCH], .begin = begin, .rows = rows };
    job.part_rows = gy_min64(plan->part_rows, gy_max64(rows - begin, 1));
    job.count = gy_ceil_div(rows - begin, job.part_rows);
    return job;
}

static struct norm_job norm_make_job(const struct gy_cpu *cpu, const struct gy_op *op)
{
    return norm_make_job_of(cpu, op, 0, ((const struct norm_plan *)op->plan)->rows);
}

static void norm_stats_tile(void *arg, int64_t tile, int thread)
{
    const struct norm_job *job = arg;
    const struct gy_op *op = job->op;
    const int64_t c = op->geom.c, first = tile * job->part_rows, parts = job->count;
    float *const mean = job->parts + tile * c;
    job->cpu->k.stats[op->dtype](gy_cpu_at(op->ptr[GY_X], first * c, op->dtype),
                                 gy_min64(job->part_rows, job->rows - first), c, c, mean, mean + parts * c);
    (void)thread;
}

GY_INT void gy_cpu_bn_stats_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct norm_job job = norm_make_job_of(cpu, op, 0, norm_rows_there(op));
    const int64_t parts = job.count, c = op->geom.c;
    gy_pool_run(cpu->pool, norm_stats_tile, &job, parts);
    gy_cpu_merge_stats(cpu, job.parts, job.parts + parts * c, parts, c, job.part_rows, job.rows, op->ptr[GY_STATS]);
}

static void norm_apply_tile(void *arg, int64_t tile, int thread)
{
    const struct norm_job *job = arg;
    const struct gy_op *op = job->op;
    const int64_t first = tile * job->part_rows, rows = gy_min64(job->part_rows, job->rows - first), c = op->geom.c, at = first * c;
    const int dtype = op->dtype, curve = gy_act_is_curve(op->act);
    struct gy_affine_rows a = { .y = gy_cpu_out(op->ptr[GY_Y], at, dtype), .x = gy_cpu_at(op->ptr[GY_X], at, dtype),
                               .res = gy_cpu_at(op->ptr[GY_RES], at, dtype), .scale = op->ptr[GY_SCALE], .shift = op->ptr[GY_SHIFT],
                               .res_scale = op->ptr[GY_RES_SCALE], .res_shift = op->ptr[GY_RES_SHIFT],
                               .rows = rows, .cols = c, .pitch = c, .stream = norm_streams(op, op->ptr[GY_Y]) && !curve };
    gy_act_limits(op->act, &a.lo, &a.hi);
    job->cpu->k.affine[dtype](&a);
    if (curve) /* float only */
        gy_act_curve(op, a.y, a.y, a.rows * op->geom.c);
    (void)thread;
}

GY_INT void gy_cpu_bn_apply_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct norm_job job = norm_make_job(cpu, op);
    gy_pool_run(cpu->pool, norm_apply_tile, &job, job.count);
}

/* Rows [first, first + rows), as both passes of the gradient read them. */
static struct gy_bn_rows norm_back_rows(const struct gy_op *op, int64_t first, int64_t rows)
{
    const int64_t at = first * op->geom.c;
    const int dtype = op->dtype;
    const void *y = op->act != GY_ACT_NONE ? op->ptr[GY_Y] : NULL;
    struct gy_bn_rows a = { .dy = gy_cpu_at(op->ptr[GY_DY], at, dtype), .x = gy_cpu_at(op->ptr[GY_X], at, dtype),
                           .y = gy_cpu_at(y, at, dtype), .res = gy_cpu_at(op->ptr[GY_RES], at, dtype), .scale = op->ptr[GY_SCALE],
                           .shift = op->ptr[GY_SHIFT], .res_scale = op->ptr[GY_RES_SCALE], .res_shift = op->ptr[GY_RES_SHIFT],
                           .mean = op->ptr[GY_MEAN], .rstd = op->ptr[GY_RSTD], .rows = rows, .cols = op->geom.c, .pitch = op->geom.c };
    gy_act_limits(op->act, &a.lo, &a.hi);
    return a;
}

static void norm_sums_tile(void *arg, int64_t tile, int thread)
{
    const struct norm_job *job = arg;
    const struct gy_op *op = job->op;
    const int64_t first = tile * job->part_rows, c = op->geom.c;
    struct gy_bn_rows a = norm_back_rows(op, first, gy_min64(job->part_rows, job->rows - first));
    a.again = gy_cpu_out(op->ptr[GY_AGAIN], first * c, op->dtype);
    a.stream = norm_streams(op, op->ptr[GY_AGAIN]);
    a.dres = gy_cpu_out(op->ptr[GY_DRES], first * c, op->dtype);
    a.sum0 = job->parts + tile * 2 * c;
    a.sum1 = a.sum0 + c;
    job->cpu->k.bn_sums[op->dtype](&a);
    (void)thread;
}

/* The parts [parts][2][C] become SUMS, and the gradients of gamma and beta. */
static void norm_sums_join(const struct gy_cpu *cpu, const struct gy_op *op, const float *part, int64_t parts)
{
    const int64_t c = op->geom.c;
    float *const sums = op->ptr[GY_SUMS], *const dgamma = op->ptr[GY_DGAMMA], *const dbeta = op->ptr[GY_DBETA];
    gy_cpu_sum_parts(cpu, part, parts, 2 * c, 2 * c, sums, 0);
    for (int64_t i = 0; i < c; i++) {
        const float beta = op->u->accumulate ? dbeta[i] : 0.0f, gamma = op->u->accumulate ? dgamma[i] : 0.0f;
        dbeta[i] = beta + sums[i];
        dgamma[i] = gamma + sums[c + i];
    }
}

GY_INT void gy_cpu_bn_sums_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct norm_job job = norm_make_job(cpu, op);
    gy_pool_run(cpu->pool, norm_sums_tile, &job, job.count);
    norm_sums_join(cpu, op, job.parts, job.count);
}

static void norm_back_tile(void *arg, int64_t tile, int thread)
{
    const struct norm_job *job = arg;
    const struct gy_op *op = job->op;
    const int64_t first = job->begin + tile * job->part_rows, c = op->geom.c;
    struct gy_bn_rows a = norm_back_rows(op, first, gy_min64(job->part_rows, job->rows - first));
    a.a = job->parts;
    a.b = a.a + c;
    a.c = a.b + c;
    a.dx = gy_cpu_out(op->ptr[GY_DX], first * c, op->dtype);
    a.dres = gy_cpu_out(op->ptr[GY_DRES], first * c, op->dtype);
    a.add_dx = (op->flags & GY_F_ADD_DX) != 0;
    a.add_dres = (op->flags & GY_F_ADD_DRES) != 0;
    a.stream = norm_streams(op, op->ptr[GY_DX]);
    job->cpu->k.bn_back[op->dtype](&a);
    (void)thread;
}

/* a, b, c [3][C]: dx = gamma rstd (dy' - (sum0 + xhat sum1) / rows) = a dy' + b (x - mean) + c. */
static void norm_back_ready(const struct gy_op *op, float *coefficients)
{
    const int64_t c = op->geom.c;
    const float *gamma = op->ptr[GY_GAMMA], *rstd = op->ptr[GY_RSTD], *sums = op->ptr[GY_SUMS];
    const float share = 1.0f / (float)norm_rows_there(op);
    for (int64_t i = 0; i < c; i++) {
        const float a = gamma[i] * rstd[i];
        coefficients[i] = a;
        coefficients[c + i] = -a * rstd[i] * sums[c + i] * share;
        coefficients[2 * c + i] = -a * sums[i] * share;
    }
}

GY_INT void gy_cpu_bn_back_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct norm_job job = norm_make_job_of(cpu, op, 0, norm_rows_there(op));
    norm_back_ready(op, job.parts);
    gy_pool_run(cpu->pool, norm_back_tile, &job, job.count);
    if (op->u->absent == 0)
        return;
    struct norm_job rest = norm_make_job_of(cpu, op, job.rows, ((const struct norm_plan *)op->plan)->rows);
    memset(rest.parts, 0, op->scratch_bytes); /* dx of what is not there: 0 */
    gy_pool_run(cpu->pool, norm_back_tile, &rest, rest.count);
}
