/* SPDX-License-Identifier: MIT */
/* glm_loss.h: the losses of linear models, one row each. A loss l(y, z) is of a label y and a score
 * z = x . w, and counts c times, its row's weight. It has a conjugate, and with it a dual problem
 * in one number for each row of data:
 *
 *     w = 1 / l2 sum over rows of coefficient_i x_i          D = sum of conjugate_i - l2 / 2 |w|^2
 *
 * One row of data can be solved exactly while the others stand still: its step (Shalev-Shwartz and
 * Zhang, "Stochastic dual coordinate ascent", 2013).
 *
 *     loss           l(y, z)               dual variable       coefficient  conjugate
 *     logistic       log(1 + exp(-y z))    t, any (a logit)  y c sig(t)   c (entropy of sig(t))
 *     squared        (z - y)^2 / 2         a, any            a            a y - a^2 / (2 c)
 *     hinge          max(0, 1 - y z)       a in [0, c]       y a          a
 *     squared hinge  max(0, 1 - y z)^2     a >= 0            y a          a - a^2 / (4 c)
 *
 * The logistic dual is kept as a logit: sig(t) and 1 - sig(t) = sig(-t) are then both exact.
 *
 * Kernels of a GPU (cuda/glm.cu) include this file, too, and name a loss's functions by its symbol:
 * gy_glm_SYMBOL_step, ... engine/glm and cpu/sparse.c take the row, which has them all. */
#ifndef GY_GLM_LOSS_H
#define GY_GLM_LOSS_H

#ifndef GY_GLM_FN /* kernels of a GPU give their own mark before they include this */
#include "engine/base/base.h"
#define GY_GLM_FN static inline __attribute__((unused)) /* clang names unused ones */
#define GY_GLM_HOST 1
#endif

GY_GLM_FN float gy_glm_sigmoid(float t)
{
    const float e = expf(-fabsf(t));
    return (t >= 0 ? 1.0f : e) / (1.0f + e);
}

/* The root of t + m + q (sig(t) - old) = 0. The left side rises by at least 1, the root is in
 * [-m - q (1 - old), -m + q old]: Newton, halved where it leaves that. */
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

/* ---- step: the best dual variable for this row of data alone, from its score and present one ----
 * q = s |x|^2 / l2 with s >= 1, the damping of everything that moves w at the same time. */

GY_GLM_FN float gy_glm_logistic_step(float y, float z, float dual, float q, float c)
{
    return gy_glm_logit(y * z, q * c, dual);
}

GY_GLM_FN float gy_glm_squared_step(float y, float z, float dual, float q, float c)
{
    return dual + (y - z - dual / c) / (1.0f / c + q);
}

GY_GLM_FN float gy_glm_hinge_step(float y, float z, float dual, float q, float c)
{
    const float a = q > 0 ? dual + (1.0f - y * z) / q : c;
    return a < 0 ? 0 : a > c ? c : a;
}

GY_GLM_FN float gy_glm_squared_hinge_step(float y, float z, float dual, float q, float c)
{
    const float a = dual + (1.0f - y * z - 0.5f * dual / c) / (q + 0.5f / c);
    return a > 0 ? a : 0;
}

/* ---- coefficient: what the row's features count in l2 w ---- */

GY_GLM_FN float gy_glm_logistic_coefficient(float y, float t, float c)
{
    return y * c * gy_glm_sigmoid(t);
}
GY_GLM_FN float gy_glm_squared_coefficient(float y, float a, float c)
{
    return (void)y, (void)c, a;
}
GY_GLM_FN float gy_glm_hinge_coefficient(float y, float a, float c) { return (void)c, y * a; }
GY_GLM_FN float gy_glm_squared_hinge_coefficient(float y, float a, float c)
{
    return (void)c, y * a;
}

/* ---- value: l(y, z) ---- */

GY_GLM_FN double gy_glm_logistic_value(double y, double z)
{
    const double m = y * z;
    return m > 0 ? log1p(exp(-m)) : log1p(exp(m)) - m;
}

GY_GLM_FN double gy_glm_squared_value(double y, double z) { return 0.5 * (z - y) * (z - y); }

GY_GLM_FN double gy_glm_hinge_value(double y, double z) { return y * z < 1 ? 1 - y * z : 0; }

GY_GLM_FN double gy_glm_squared_hinge_value(double y, double z)
{
    return gy_glm_hinge_value(y, z) * gy_glm_hinge_value(y, z);
}

/* ---- conjugate, of a dual variable inside the domain ---- */

/* -s log s - (1 - s) log(1 - s) with s = sig(dual). */
GY_GLM_FN double gy_glm_logistic_conjugate(double y, double dual, double c)
{
    const double e = exp(-fabs(dual)), small = e / (1 + e);
    return (void)y, c * (log1p(e) + small * fabs(dual));
}

GY_GLM_FN double gy_glm_squared_conjugate(double y, double a, double c)
{
    return a * y - 0.5 * a * a / c;
}
GY_GLM_FN double gy_glm_hinge_conjugate(double y, double a, double c)
{
    return (void)y, (void)c, a;
}
GY_GLM_FN double gy_glm_squared_hinge_conjugate(double y, double a, double c)
{
    return (void)y, a - 0.25 * a * a / c;
}

#ifdef GY_GLM_HOST

enum gy_glm_loss_id {
    GY_GLM_LOGISTIC, GY_GLM_SQUARED, GY_GLM_HINGE, GY_GLM_SQUARED_HINGE, GY_GLM_LOSSES
};

/* None of a row's answers is 0, so that one which nobody gave is seen (tests/t_glm_losses.c). */
enum gy_glm_labels { GY_GLM_CLASSES = 1 /* y is -1 or 1 */, GY_GLM_NUMBERS };
enum gy_glm_form { /* of a dual variable, by its coefficient */
    GY_GLM_LOGIT = 1, /* y c sig(t) */
    GY_GLM_NUMBER,    /* a */
    GY_GLM_SIZE       /* y a */
};
enum gy_glm_smooth {
    GY_GLM_KINK = 1,  /* the slope jumps */
    GY_GLM_SMOOTH,
    GY_GLM_QUADRATIC  /* l'' is the same everywhere */
};

struct gy_glm_loss {
    const char *name, *symbol;    /* in options and files; in names of functions */
    const char *liblinear[2];     /* the solver_type that predicts alike: of an l2, of an l1 */
    enum gy_glm_labels labels;
    enum gy_glm_form form;        /* of its dual variables */
    double least, most;           /* they lie in [least c, most c] */
    enum gy_glm_smooth smooth;
    /* l'', at most; INFINITY: a kink. Conjugates but of logits: linear - a^2 / (2 curvature c). */
    double curvature;
    float (*step)(float y, float z, float dual, float q, float c);
    float (*coefficient)(float y, float dual, float c);
    double (*value)(double y, double z);
    void (*slopes)(double y, double z, double *first, double *second); /* dl/dz, d2l/dz2 */
    /* Inside the domain: for gy_glm_conjugate alone, which looks. */
    double (*conjugate_inside)(double y, double dual, double c);
    /* c l + coefficient z - conjugate: 0 where the dual variable is the slope's; seen: about. */
    double (*gap)(double y, double z, double dual, double c);
    float (*gap_seen)(float y, float z, float dual, float c);
    /* For proofs: the steepest slope within `off` of z; about what a grid of scores does to c l. */
    double (*steepest)(double y, double z, double off);
    double (*moved)(double y, double z, double c, double grid);
};
GY_INT const struct gy_glm_loss *gy_glm_loss_at(int loss); /* NULL: there is no such loss */

/* Whether it is a dual variable at all. */
static inline int gy_glm_is_dual(const struct gy_glm_loss *loss, double dual, double c)
{
    return isfinite(dual) && dual >= loss->least * c && dual <= loss->most * c;
}

/* -INFINITY outside of the domain: a sum with such a term bounds nothing. */
static inline double gy_glm_conjugate(const struct gy_glm_loss *loss, double y, double dual,
                                      double c)
{
    return gy_glm_is_dual(loss, dual, c) ? loss->conjugate_inside(y, dual, c) : -HUGE_VAL;
}

/* What turns a dual variable that is no logit into its coefficient, and back. */
static inline double gy_glm_sign(const struct gy_glm_loss *loss, double y)
{
    return loss->form == GY_GLM_NUMBER ? 1 : y;
}

/* The dual variable of the slope at z, in double. */
static inline double gy_glm_dual_at(const struct gy_glm_loss *loss, double y, double z, double c)
{
    double first, second;
    loss->slopes(y, z, &first, &second);
    return loss->form == GY_GLM_LOGIT ? -y * z : -c * first * gy_glm_sign(loss, y);
}

/* Of no logit: what a^2 / c counts in a conjugate. */
static inline double gy_glm_bend(const struct gy_glm_loss *loss) { return 0.5 / loss->curvature; }

#endif
#endif
