/* SPDX-License-Identifier: MIT */
/* glm_loss.h: the losses of linear models, for the host, for kernels of a GPU and for tests: the same functions everywhere. A loss l(y, z) of a score
 * z = x . w, times a row's weight c. Each has a conjugate, and with it a dual problem in one number a row,
 *
 *     w = 1 / l2 sum over rows of coefficient_i x_i          D = sum of conjugate_i - l2 / 2 |w|^2
 *
 * in which one row can be solved exactly while the others stand still: gy_glm_step (Shalev-Shwartz and Zhang, "Stochastic dual coordinate ascent", 2013).
 *
 *     loss            l(y, z)                  dual number              coefficient       conjugate
 *     logistic        log(1 + exp(-y z))       t, any (a logit)         y c sig(t)        c (entropy of sig(t))
 *     squared         (z - y)^2 / 2            a, any                   a                 a y - a^2 / (2 c)
 *     hinge           max(0, 1 - y z)          a in [0, c]              y a               a
 *     squared hinge   max(0, 1 - y z)^2        a >= 0                   y a               a - a^2 / (4 c)
 *
 * The logistic dual is kept as a logit: sig(t) and 1 - sig(t) = sig(-t) are then both exact at either end. */
#ifndef GY_GLM_LOSS_H
#define GY_GLM_LOSS_H

#ifndef GY_GLM_FN /* kernels of a GPU give their own mark before they include this */
#include "engine/base/base.h"
#define GY_GLM_FN static inline __attribute__((unused)) /* in one file with all sources clang would name them */
#endif

enum gy_glm_loss { GY_GLM_LOGISTIC, GY_GLM_SQUARED, GY_GLM_HINGE, GY_GLM_SQUARED_HINGE, GY_GLM_LOSSES };

GY_GLM_FN float gy_glm_sigmoid(float t)
{
    const float e = expf(-fabsf(t));
    return (t >= 0 ? 1.0f : e) / (1.0f + e);
}

/* The root of t + m + q (sig(t) - old) = 0. The left side rises by at least 1, the root is in [-m - q (1 - old), -m + q old]: Newton, halved where
 * it leaves that. */
GY_GLM_FN float gy_glm_logit(float m, float q, float start)
{
    const float old = gy_glm_sigmoid(start);
    float lo = -m - q * (1.0f - old), hi = -m + q * old, t = start < lo ? lo : start > hi ? hi : start;
    for (int i = 0; i < 40; i++) {
        const float s = gy_glm_sigmoid(t), f = t + m + q * (s - old);
        float next = t - f / (1.0f + q * s * (1.0f - s));
        if (f > 0)
            hi = t;
        else
            lo = t;
        if (!(next > lo && next < hi))
            next = 0.5f * (lo + hi);
        if (fabsf(next - t) <= 1e-6f * (1.0f + fabsf(t)))
            return next;
        t = next;
    }
    return t;
}

/* What the row's features count in l2 w: see above. */
GY_GLM_FN float gy_glm_coefficient(int loss, float y, float dual, float c)
{
    return loss == GY_GLM_SQUARED ? dual : loss == GY_GLM_LOGISTIC ? y * c * gy_glm_sigmoid(dual) : y * dual;
}

/* The dual number that is best for this row alone, from score z and its present number. q = s |x|^2 / l2 with s >= 1, the damping of everything that moves w
 * at the same time. */
GY_GLM_FN float gy_glm_step(int loss, float y, float z, float dual, float q, float c)
{
    float a;
    if (loss == GY_GLM_LOGISTIC)
        return gy_glm_logit(y * z, q * c, dual);
    if (loss == GY_GLM_SQUARED)
        return dual + (y - z - dual / c) / (1.0f / c + q);
    if (loss == GY_GLM_SQUARED_HINGE) {
        a = dual + (1.0f - y * z - 0.5f * dual / c) / (q + 0.5f / c);
        return a > 0 ? a : 0;
    }
    if (q <= 0)
        return c;
    a = dual + (1.0f - y * z) / q;
    return a < 0 ? 0 : a > c ? c : a;
}

#ifndef GY_GLM_DEVICE /* sums over rows, and slopes, are the host's: in double */

GY_GLM_FN double gy_glm_value(int loss, double y, double z)
{
    const double m = y * z, under = m < 1 ? 1 - m : 0;
    if (loss == GY_GLM_LOGISTIC)
        return m > 0 ? log1p(exp(-m)) : log1p(exp(m)) - m;
    return loss == GY_GLM_SQUARED ? 0.5 * (z - y) * (z - y) : loss == GY_GLM_HINGE ? under : under * under;
}

/* x log(x) of a logistic pair: sig(t) log sig(t) + sig(-t) log sig(-t), negated. */
GY_GLM_FN double gy_glm_entropy(double t)
{
    const double e = exp(-fabs(t)), small = e / (1 + e);
    return log1p(e) + small * fabs(t);
}

GY_GLM_FN double gy_glm_conjugate(int loss, double y, double dual, double c)
{
    if (loss == GY_GLM_LOGISTIC)
        return c * gy_glm_entropy(dual);
    return loss == GY_GLM_SQUARED ? dual * y - 0.5 * dual * dual / c : loss == GY_GLM_HINGE ? dual : dual - 0.25 * dual * dual / c;
}

/* dl/dz and d2l/dz2 (of the hinge losses: where it exists, else 0). */
GY_GLM_FN void gy_glm_slopes(int loss, double y, double z, double *first, double *second)
{
    const double m = y * z, s = 1 / (1 + exp(m)), under = m < 1 ? 1 - m : 0;
    *first = loss == GY_GLM_LOGISTIC ? -y * s : loss == GY_GLM_SQUARED ? z - y : loss == GY_GLM_HINGE ? (m < 1 ? -y : 0) : -2 * y * under;
    *second = loss == GY_GLM_LOGISTIC ? s * (1 - s) : loss == GY_GLM_SQUARED ? 1 : loss == GY_GLM_HINGE ? 0 : m < 1 ? 2 : 0;
}

/* Whether it is a dual number at all: the conjugate of any other is -infinity. */
GY_GLM_FN int gy_glm_is_dual(int loss, double dual, double c)
{
    return isfinite(dual) && (loss == GY_GLM_LOGISTIC || loss == GY_GLM_SQUARED || (dual >= 0 && (loss == GY_GLM_SQUARED_HINGE || dual <= c)));
}

/* The dual number of the slope at z: its coefficient is -c dl/dz. */
GY_GLM_FN float gy_glm_slope_dual(int loss, float y, float z, float c)
{
    const float under = 1.0f - y * z;
    if (loss == GY_GLM_LOGISTIC)
        return -y * z;
    if (loss == GY_GLM_SQUARED)
        return c * (y - z);
    return under > 0 ? loss == GY_GLM_HINGE ? c : 2.0f * c * under : 0;
}

/* log(1 + exp(t)) */
GY_GLM_FN double gy_glm_soft(double t) { return fmax(t, 0) + log1p(exp(-fabs(t))); }

/* What a row's loss at its score and conjugate at its dual number lack to be each other's, c l + coefficient z - conjugate: 0 where the dual number is
 * the slope's. */
GY_GLM_FN double gy_glm_row_gap(int loss, double y, double z, double dual, double c)
{
    const double m = y * z, off = y - z - dual / c, under = fmax(1 - m, 0);
    return loss == GY_GLM_LOGISTIC  ? c * (gy_glm_soft(-m) - gy_glm_soft(dual) + (dual + m) / (1 + exp(-dual)))
           : loss == GY_GLM_SQUARED ? 0.5 * c * off * off
           : loss == GY_GLM_HINGE   ? c * under - dual * (1 - m)
                                    : c * under * under + 0.25 * dual * dual / c - dual * (1 - m);
}

#endif
#endif
