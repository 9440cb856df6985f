/* SPDX-License-Identifier: MIT */
/* update.c: updates of all parameters. Spans are cut into pieces; a piece is a tile. Norms are
 * summed a piece at a time in double, then joined in their order. LAMB's step is made twice: for
 * its norm, and to be taken. The arithmetic is the reference's (ref_optim.c). */
#include "kernels/cpu/update.h"

#define UPDATE_PIECE 16384 /* floats; sums are joined by pieces, so their bits depend on it */
#define UPDATE_DOT 4096 /* floats summed in one call of dot, of LAMB's step at a time */

struct update_job {
    const struct gy_cpu *cpu;
    const struct gy_op *op;
    double *part; /* [pieces][2]: sums of w^2 and g^2 */
    float scale;
};

static int64_t update_pieces(const struct gy_span *s) { return gy_ceil_div(s->count, UPDATE_PIECE); }

static int64_t update_all_pieces(const struct gy_op *op)
{
    int64_t pieces = 0;
    for (int32_t s = 0; s < op->span_count; s++)
        pieces += update_pieces(&op->spans[s]);
    return pieces;
}

/* The span of a piece, and the elements [*first, *first + *count) of the region. */
static int32_t update_locate(const struct gy_op *op, int64_t piece, int64_t *first, int64_t *count)
{
    int32_t s = 0;
    while (piece >= update_pieces(&op->spans[s]))
        piece -= update_pieces(&op->spans[s++]);
    *first = op->spans[s].first + piece * UPDATE_PIECE;
    *count = gy_min64(UPDATE_PIECE, op->spans[s].first + op->spans[s].count - *first);
    return s;
}

GY_INT size_t gy_cpu_norms_need(const struct gy_cpu *cpu, const struct gy_op *op)
{
    (void)cpu;
    return (size_t)update_all_pieces(op) * 2 * sizeof(double);
}

/* What the cut to the allowed total norm leaves of a gradient: 1 where it is below. */
static double update_cut(const struct gy_op *op)
{
    const float *sums = op->ptr[GY_SUMS];
    const double limit = (double)op->f[GY_C_CLIP];
    const double norm = sums && limit > 0.0 ? sqrt((double)sums[2 * op->span_count + 1]) : 0.0;
    return norm > limit ? limit / norm : 1.0;
}

/* Multiplies every gradient: scale and cut. */
static float update_scale(const struct gy_op *op) { return (float)((double)op->u->grad_scale * update_cut(op)); }

/* A span's rate, times its own where it adapts and no norm is 0: eta |w| / (|g| + decay |w|), g
 * after the cut. LAMB: |w| over the norm of its step. */
static float update_rate(const struct gy_op *op, int32_t s)
{
    const float *sums = op->ptr[GY_SUMS];
    const int lamb = op->code == GY_OP_LAMB;
    const int adapts = op->spans[s].adapt && (lamb || op->code == GY_OP_LARS);
    const double w = adapts ? sqrt((double)sums[2 * s]) : 0.0;
    const double g = adapts ? (lamb ? 1.0 : update_cut(op)) * sqrt((double)sums[2 * s + 1]) : 0.0;
    const double below = g + (lamb ? 0.0 : (double)op->f[GY_C_DECAY] * (double)op->spans[s].decay * w);
    const double own = w > 0.0 && g > 0.0 ? (lamb ? 1.0 : (double)op->f[GY_C_ETA]) * w / below : 1.0;
    return (float)((double)op->u->lr * (double)op->spans[s].rate * own);
}

/* What micro-kernels need of a piece. */
static struct gy_update_rows update_rows(const struct update_job *job, int64_t tile)
{
    const struct gy_op *op = job->op;
    int64_t first, count;
    const int32_t s = update_locate(op, tile, &first, &count);
    float *const m = op->ptr[GY_M], *const v = op->ptr[GY_V], *const ema = op->ptr[GY_EMA];
    const int inside = op->code == GY_OP_LARS && !(op->flags & GY_F_UNSCALED);
    const float lr = op->u->lr * op->spans[s].rate, rate = update_rate(op, s);
    struct gy_update_rows a = { .w = (float *)op->ptr[GY_W] + first, .m = m ? m + first : NULL, .v = v ? v + first : NULL,
                                .ema = ema ? ema + first : NULL, .g = (const float *)op->ptr[GY_DW] + first, .count = count,
                                .inner = inside ? rate : 1.0f, .outer = inside ? 1.0f : rate,
                                .mu = op->f[GY_C_MOMENTUM], .decay = op->f[GY_C_DECAY] * op->spans[s].decay,
                                .scale = job->scale, .keep = op->u->keep, .beta1 = op->f[GY_C_BETA1],
                                .beta2 = op->f[GY_C_BETA2], .eps = op->f[GY_C_EPS],
                                .root = 1.0f / (float)sqrt((double)op->u->bias2),
                                .nesterov = (op->flags & GY_F_NESTEROV) != 0 };
    if (op->code == GY_OP_ADAMW) {
        a.outer = lr / op->u->bias1;
        a.decay *= lr;
    }
    return a;
}

/* LAMB's step of n elements from i on; move: its moments first. */
static void update_step(const struct update_job *job, struct gy_update_rows a, int64_t i, int64_t n, int move, float *u)
{
    a.w += i, a.m += i, a.v += i;
    a.g = move ? a.g + i : NULL;
    a.count = n;
    a.outer = 1.0f / job->op->u->bias1;
    job->cpu->k.lamb(&a, u);
}

static void update_sums_tile(void *arg, int64_t tile, int thread)
{
    const struct update_job *job = arg;
    const struct gy_update_rows a = update_rows(job, tile);
    double sum_w = 0.0, sum_g = 0.0;
    float u[UPDATE_DOT];
    for (int64_t i = 0; i < a.count; i += UPDATE_DOT) {
        const int64_t n = gy_min64(UPDATE_DOT, a.count - i);
        const float *const g = job->op->code == GY_OP_LAMB ? u : a.g + i;
        if (g == u)
            update_step(job, a, i, n, 1, u);
        sum_w += job->cpu->k.dot(a.w + i, a.w + i, n);
        sum_g += job->cpu->k.dot(g, g, n);
    }
    job->part[2 * tile] = sum_w;
    job->part[2 * tile + 1] = sum_g;
    (void)thread;
}

/* Squares of weights and of gradients, or of LAMB's steps: of each span, and of all. */
static void update_sums(struct update_job *job, double scale2, double all[2])
{
    float *const sums = job->op->ptr[GY_SUMS];
    const double *part = job->part;
    gy_pool_run(job->cpu->pool, update_sums_tile, job, update_all_pieces(job->op));
    for (int32_t s = 0; s < job->op->span_count; s++) {
        double sum_w = 0.0, sum_g = 0.0;
        for (int64_t i = 0; i < update_pieces(&job->op->spans[s]); i++, part += 2) {
            sum_w += part[0];
            sum_g += part[1] * scale2;
        }
        sums[2 * s] = (float)sum_w;
        sums[2 * s + 1] = (float)sum_g;
        all[0] += sum_w;
        all[1] += sum_g;
    }
}

GY_INT void gy_cpu_norms_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct update_job job = {cpu, op, op->ptr[GY_SCRATCH], 0.0f};
    double all[2] = {0.0, 0.0};
    update_sums(&job, (double)op->u->grad_scale * (double)op->u->grad_scale, all);
    ((float *)op->ptr[GY_SUMS])[2 * op->span_count] = (float)all[0];
    ((float *)op->ptr[GY_SUMS])[2 * op->span_count + 1] = (float)all[1];
}

/* LAMB's step is applied by the sgd kernel, which is given it as momentum and gradient. */
static void update_tile(void *arg, int64_t tile, int thread)
{
    const struct update_job *job = arg;
    const struct gy_update_rows a = update_rows(job, tile);
    float u[UPDATE_DOT];
    if (job->op->code != GY_OP_LAMB)
        (job->op->code == GY_OP_ADAMW ? job->cpu->k.adamw : job->cpu->k.sgd)(&a);
    for (int64_t i = 0; i < a.count && job->op->code == GY_OP_LAMB; i += UPDATE_DOT) {
        const struct gy_update_rows step = { .w = a.w + i, .m = u, .g = u, .ema = a.ema ? a.ema + i : NULL,
                                             .count = gy_min64(UPDATE_DOT, a.count - i), .inner = 1.0f,
                                             .outer = a.outer, .scale = 1.0f, .keep = a.keep };
        update_step(job, a, i, step.count, 0, u);
        job->cpu->k.sgd(&step);
    }
    (void)thread;
}

GY_INT void gy_cpu_update_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct update_job job = {cpu, op, op->ptr[GY_SCRATCH], update_scale(op)};
    double all[2] = {0.0, 0.0};
    if (op->flags & GY_F_SKIP && !isfinite(((const float *)op->ptr[GY_SUMS])[2 * op->span_count + 1]))
        return;
    if (op->code == GY_OP_LAMB)
        update_sums(&job, 1.0, all);
    gy_pool_run(cpu->pool, update_tile, &job, update_all_pieces(op));
}
