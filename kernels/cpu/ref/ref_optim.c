/* SPDX-License-Identifier: MIT */
/* ref_optim.c: updates of all parameters; gradients are first scaled (accumulation, loss) and
 * cut. */
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

/* A span's rate: eta |w| / (|g| + decay |w|); 1 if a norm is 0 or the span does not adapt. */
static double ref_ratio(const struct gy_op *op, int32_t s, double eta, double cut, double decay)
{
    const GY_REAL *sums = op->ptr[GY_SUMS];
    const double w = sqrt((double)sums[2 * s]), g = cut * sqrt((double)sums[2 * s + 1]);
    return op->spans[s].adapt && w > 0 && g > 0 ? eta * w / (g + decay * w) : 1;
}

static GY_REAL ref_decay(const struct gy_op *op, int32_t s)
{
    return (GY_REAL)op->f[GY_C_DECAY] * (GY_REAL)op->spans[s].decay;
}

/* SGD and LARS. */
GY_INT void GY_REF(momentum)(const struct gy_op *op)
{
    GY_REAL *w = op->ptr[GY_W], *m = op->ptr[GY_M];
    const GY_REAL *dw = op->ptr[GY_DW], scale = ref_optim_scale(op), mu = (GY_REAL)op->f[GY_C_MOMENTUM];
    const int lars = op->code == GY_OP_LARS, inside = lars && !(op->flags & GY_F_UNSCALED);
    for (int32_t s = 0; s < op->span_count && !ref_optim_skips(op); s++) {
        const double decay = (double)op->f[GY_C_DECAY] * (double)op->spans[s].decay, eta = (double)op->f[GY_C_ETA];
        const double own = lars ? ref_ratio(op, s, eta, ref_optim_cut(op), decay) : 1;
        const GY_REAL lr = (GY_REAL)((double)op->u->lr * (double)op->spans[s].rate * own);
        for (int64_t i = op->spans[s].first; i < op->spans[s].first + op->spans[s].count; i++) {
            const GY_REAL step = (inside ? lr : 1) * (scale * dw[i] + ref_decay(op, s) * w[i]);
            m[i] = mu * m[i] + step;
            w[i] -= (inside ? 1 : lr) * (op->flags & GY_F_NESTEROV ? step + mu * m[i] : m[i]);
            ref_optim_average(op, i);
        }
    }
}

static void ref_moments(const struct gy_op *op, int64_t i)
{
    GY_REAL *m = op->ptr[GY_M], *v = op->ptr[GY_V];
    const GY_REAL b1 = (GY_REAL)op->f[GY_C_BETA1], b2 = (GY_REAL)op->f[GY_C_BETA2];
    const GY_REAL g = ref_optim_scale(op) * ((const GY_REAL *)op->ptr[GY_DW])[i];
    m[i] = b1 * m[i] + (1 - b1) * g;
    v[i] = b2 * v[i] + (1 - b2) * g * g;
}

/* Adam's step of the moments that are there. */
static GY_REAL ref_adam(const struct gy_op *op, int64_t i, GY_REAL lr)
{
    const GY_REAL *m = op->ptr[GY_M], *v = op->ptr[GY_V], root2 = (GY_REAL)sqrt((double)op->u->bias2);
    return lr / (GY_REAL)op->u->bias1 * m[i] / ((GY_REAL)sqrt((double)v[i]) / root2 + (GY_REAL)op->f[GY_C_EPS]);
}

GY_INT void GY_REF(adamw)(const struct gy_op *op)
{
    GY_REAL *w = op->ptr[GY_W];
    for (int32_t s = 0; s < op->span_count && !ref_optim_skips(op); s++) {
        const GY_REAL lr = (GY_REAL)op->u->lr * (GY_REAL)op->spans[s].rate;
        for (int64_t i = op->spans[s].first; i < op->spans[s].first + op->spans[s].count; i++) {
            ref_moments(op, i);
            w[i] -= lr * ref_decay(op, s) * w[i];
            w[i] -= ref_adam(op, i, lr);
            ref_optim_average(op, i);
        }
    }
}

GY_INT void GY_REF(lamb)(const struct gy_op *op)
{
    GY_REAL *w = op->ptr[GY_W], *sums = op->ptr[GY_SUMS];
    for (int32_t s = 0; s < op->span_count && !ref_optim_skips(op); s++) {
        const int64_t first = op->spans[s].first, end = first + op->spans[s].count;
        double sum_w = 0, sum_u = 0;
        for (int64_t i = first; i < end; i++) {
            ref_moments(op, i);
            const double u = (double)(ref_adam(op, i, 1) + ref_decay(op, s) * w[i]);
            sum_w += (double)w[i] * (double)w[i];
            sum_u += u * u;
        }
        sums[2 * s] = (GY_REAL)sum_w;
        sums[2 * s + 1] = (GY_REAL)sum_u;
        const GY_REAL lr = (GY_REAL)((double)op->u->lr * (double)op->spans[s].rate * ref_ratio(op, s, 1, 1, 0));
        for (int64_t i = first; i < end; i++) {
            w[i] -= lr * (ref_adam(op, i, 1) + ref_decay(op, s) * w[i]);
            ref_optim_average(op, i);
        }
    }
}
