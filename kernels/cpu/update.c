/* SPDX-License-Identifier: MIT */
/* Updates of all parameters: spans are cut into pieces, a piece is a tile. Norms are summed a piece at a time in
 * double, then joined in the order of pieces. The arithmetic is the references'. */
#include "kernels/cpu/update.h"

#define UPDATE_PIECE 16384
#define UPDATE_DOT 4096 /* floats summed in one call of dot */

struct update_job {
    const struct gy_cpu *cpu;
    const struct gy_op *op;
    double *part; /* [pieces][2]: sums of w^2 and g^2 */
    float scale;
};

static int64_t update_pieces(const struct gy_span *span)
{
    return gy_ceil_div(span->count, UPDATE_PIECE);
}

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

static void update_norms_tile(void *arg, int64_t tile, int thread)
{
    const struct update_job *job = arg;
    const float *w = job->op->ptr[GY_W], *g = job->op->ptr[GY_DW];
    int64_t first, count;
    update_locate(job->op, tile, &first, &count);
    double sum_w = 0.0, sum_g = 0.0;
    for (int64_t i = first; i < first + count; i += UPDATE_DOT) {
        const int64_t n = gy_min64(UPDATE_DOT, first + count - i);
        sum_w += job->cpu->k.dot(w + i, w + i, n);
        sum_g += job->cpu->k.dot(g + i, g + i, n);
    }
    job->part[2 * tile] = sum_w;
    job->part[2 * tile + 1] = sum_g;
    (void)thread;
}

GY_INT void gy_cpu_norms_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct update_job job = {cpu, op, op->ptr[GY_SCRATCH], 0.0f};
    float *const sums = op->ptr[GY_SUMS];
    const double scale2 = (double)op->u->grad_scale * (double)op->u->grad_scale;
    const double *part = job.part;
    double all_w = 0.0, all_g = 0.0;
    gy_pool_run(cpu->pool, update_norms_tile, &job, update_all_pieces(op));
    for (int32_t s = 0; s < op->span_count; s++) {
        double sum_w = 0.0, sum_g = 0.0;
        for (int64_t i = 0; i < update_pieces(&op->spans[s]); i++, part += 2) {
            sum_w += part[0];
            sum_g += part[1] * scale2;
        }
        sums[2 * s] = (float)sum_w;
        sums[2 * s + 1] = (float)sum_g;
        all_w += sum_w;
        all_g += sum_g;
    }
    sums[2 * op->span_count] = (float)all_w;
    sums[2 * op->span_count + 1] = (float)all_g;
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

/* LARS: the layer's own rate, from the gradient that is cut; 1 where a norm is 0 or the span does not adapt. */
static double update_lars_rate(const struct gy_op *op, int32_t s)
{
    const float *sums = op->ptr[GY_SUMS];
    const double w = sqrt((double)sums[2 * s]), g = update_cut(op) * sqrt((double)sums[2 * s + 1]);
    const double below = g + (double)op->f[GY_C_DECAY] * (double)op->spans[s].decay * w;
    return op->spans[s].adapt && w > 0.0 && g > 0.0 ? (double)op->f[GY_C_ETA] * w / below : 1.0;
}

static void update_tile(void *arg, int64_t tile, int thread)
{
    const struct update_job *job = arg;
    const struct gy_op *op = job->op;
    int64_t first, count;
    const int32_t s = update_locate(op, tile, &first, &count);
    const struct gy_span *span = &op->spans[s];
    float *const v = op->ptr[GY_V], *const ema = op->ptr[GY_EMA];
    const float lr = op->u->lr * span->rate;
    struct gy_update_rows a = { .w = (float *)op->ptr[GY_W] + first, .m = (float *)op->ptr[GY_M] + first,
                               .v = v ? v + first : NULL, .g = (const float *)op->ptr[GY_DW] + first,
                               .ema = ema ? ema + first : NULL, .count = count, .inner = 1.0f, .outer = lr,
                               .mu = op->f[GY_C_MOMENTUM], .decay = op->f[GY_C_DECAY] * span->decay,
                               .scale = job->scale, .keep = op->u->keep,
                               .nesterov = (op->flags & GY_F_NESTEROV) != 0 };
    if (op->code == GY_OP_LARS) {
        a.inner = (float)((double)op->u->lr * (double)span->rate * update_lars_rate(op, s));
        a.outer = 1.0f;
    }
    if (op->code != GY_OP_ADAMW) {
        job->cpu->k.sgd(&a);
        return;
    }
    a.outer = lr / op->u->bias1;
    a.decay *= lr;
    a.beta1 = op->f[GY_C_BETA1];
    a.beta2 = op->f[GY_C_BETA2];
    a.eps = op->f[GY_C_EPS];
    a.root = 1.0f / (float)sqrt((double)op->u->bias2);
    job->cpu->k.adamw(&a);
    (void)thread;
}

GY_INT void gy_cpu_update_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    struct update_job job = {cpu, op, NULL, update_scale(op)};
    if (op->flags & GY_F_SKIP && !isfinite(((const float *)op->ptr[GY_SUMS])[2 * op->span_count + 1]))
        return;
    gy_pool_run(cpu->pool, update_tile, &job, update_all_pieces(op));
}
