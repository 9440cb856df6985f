/* SPDX-License-Identifier: MIT */
/* Updates over all parameters. A gradient is first scaled (accumulation, loss scale) and cut to the allowed total norm.
 */
#include "kernels/cpu/ref/ref.h"

/* SUMS: for span s |w|^2 at 2 s and |g|^2 at 2 s + 1; the totals behind them. */
GY_INT void GY_REF(norms)(const struct gy_op *op)
{
    const GY_REAL *w = op->ptr[GY_W], *dw = op->ptr[GY_DW];
    GY_REAL *sums = op->ptr[GY_SUMS];
    double all_w = 0, all_g = 0;
    for (int32_t s = 0; s < op->span_count; s++) {
        double sum_w = 0, sum_g = 0;
        for (int64_t i = op->spans[s].first; i < op->spans[s].first + op->spans[s].count; i++) {
            const double g = (double)dw[i] * (double)op->u->grad_scale;
            sum_w += (double)w[i] * (double)w[i];
            sum_g += g * g;
        }
        sums[2 * s] = (GY_REAL)sum_w;
        sums[2 * s + 1] = (GY_REAL)sum_g;
        all_w += sum_w;
        all_g += sum_g;
    }
    sums[2 * op->span_count] = (GY_REAL)all_w;
    sums[2 * op->span_count + 1] = (GY_REAL)all_g;
}

/* What the cut to the allowed total norm leaves of a gradient: 1 where it is below. */
static double ref_optim_cut(const struct gy_op *op)
{
    const GY_REAL *sums = op->ptr[GY_SUMS];
    const double limit = (double)op->f[GY_C_CLIP];
    const double norm = sums && limit > 0 ? sqrt((double)sums[2 * op->span_count + 1]) : 0;
    return norm > limit ? limit / norm : 1;
}

/* Multiplies every gradient: scale and cut. */
static GY_REAL ref_optim_scale(const struct gy_op *op) { return (GY_REAL)((double)op->u->grad_scale * ref_optim_cut(op)); }

/* Gradients overflowed: nothing is updated. */
static int ref_optim_skips(const struct gy_op *op)
{
    const GY_REAL *sums = op->ptr[GY_SUMS];
    return op->flags & GY_F_SKIP && !isfinite(sums[2 * op->span_count + 1]);
}

static void ref_optim_average(const struct gy_op *op, int64_t i)
{
    GY_REAL *ema = op->ptr[GY_EMA];
    const GY_REAL *w = op->ptr[GY_W], keep = (GY_REAL)op->u->keep;
    if (ema)
        ema[i] = keep * ema[i] + (1 - keep) * w[i];
}

GY_INT void GY_REF(sgd)(const struct gy_op *op)
{
    GY_REAL *w = op->ptr[GY_W], *m = op->ptr[GY_M];
    const GY_REAL *dw = op->ptr[GY_DW], scale = ref_optim_scale(op), mu = (GY_REAL)op->f[GY_C_MOMENTUM];
    for (int32_t s = 0; s < op->span_count && !ref_optim_skips(op); s++) {
        const struct gy_span *span = &op->spans[s];
        const GY_REAL decay = (GY_REAL)op->f[GY_C_DECAY] * (GY_REAL)span->decay,
                      lr = (GY_REAL)op->u->lr * (GY_REAL)span->rate;
        for (int64_t i = span->first; i < span->first + span->count; i++) {
            const GY_REAL g = scale * dw[i] + decay * w[i];
            m[i] = mu * m[i] + g;
            w[i] -= lr * (op->flags & GY_F_NESTEROV ? g + mu * m[i] : m[i]);
            ref_optim_average(op, i);
        }
    }
}

/* |w|, |g| of a span to the layer's own rate; 1 where a norm is 0 or the span does not adapt. g is the gradient that the rule
 * sees: cut. */
static double ref_lars_rate(const struct gy_op *op, int32_t s)
{
    const GY_REAL *sums = op->ptr[GY_SUMS];
    const double w = sqrt((double)sums[2 * s]), g = ref_optim_cut(op) * sqrt((double)sums[2 * s + 1]);
    const double below = g + (double)op->f[GY_C_DECAY] * (double)op->spans[s].decay * w;
    return op->spans[s].adapt && w > 0 && g > 0 ? (double)op->f[GY_C_ETA] * w / below : 1;
}

GY_INT void GY_REF(lars)(const struct gy_op *op)
{
    GY_REAL *w = op->ptr[GY_W], *m = op->ptr[GY_M];
    const GY_REAL *dw = op->ptr[GY_DW], scale = ref_optim_scale(op), mu = (GY_REAL)op->f[GY_C_MOMENTUM];
    for (int32_t s = 0; s < op->span_count && !ref_optim_skips(op); s++) {
        const struct gy_span *span = &op->spans[s];
        const GY_REAL decay = (GY_REAL)op->f[GY_C_DECAY] * (GY_REAL)span->decay;
        const GY_REAL lr = (GY_REAL)((double)op->u->lr * (double)span->rate * ref_lars_rate(op, s));
        for (int64_t i = span->first; i < span->first + span->count; i++) {
            const GY_REAL step = lr * (scale * dw[i] + decay * w[i]);
            m[i] = mu * m[i] + step;
            w[i] -= op->flags & GY_F_NESTEROV ? step + mu * m[i] : m[i];
            ref_optim_average(op, i);
        }
    }
}

GY_INT void GY_REF(adamw)(const struct gy_op *op)
{
    GY_REAL *w = op->ptr[GY_W], *m = op->ptr[GY_M], *v = op->ptr[GY_V];
    const GY_REAL *dw = op->ptr[GY_DW], scale = ref_optim_scale(op);
    const GY_REAL b1 = (GY_REAL)op->f[GY_C_BETA1], b2 = (GY_REAL)op->f[GY_C_BETA2], eps = (GY_REAL)op->f[GY_C_EPS];
    const GY_REAL root2 = (GY_REAL)sqrt((double)op->u->bias2);
    for (int32_t s = 0; s < op->span_count && !ref_optim_skips(op); s++) {
        const struct gy_span *span = &op->spans[s];
        const GY_REAL decay = (GY_REAL)op->f[GY_C_DECAY] * (GY_REAL)span->decay,
                      lr = (GY_REAL)op->u->lr * (GY_REAL)span->rate;
        for (int64_t i = span->first; i < span->first + span->count; i++) {
            const GY_REAL g = scale * dw[i];
            w[i] -= lr * decay * w[i];
            m[i] = b1 * m[i] + (1 - b1) * g;
            v[i] = b2 * v[i] + (1 - b2) * g * g;
            w[i] -= lr / (GY_REAL)op->u->bias1 * m[i] / ((GY_REAL)sqrt((double)v[i]) / root2 + eps);
            ref_optim_average(op, i);
        }
    }
}
