/* SPDX-License-Identifier: MIT */
/* glm_loss.c: the table of losses, and what only the host does with them. A new loss is a row here,
 * with its functions above and in glm_loss.h. Solvers and certificates (engine/glm) call a row's
 * functions; they never ask which loss it is. */
#include "kernels/glm_loss.h"

static double loss_under(double y, double z) { return fmax(1 - y * z, 0); }

/* log(1 + exp(t)) */
static double loss_soft(double t) { return fmax(t, 0) + log1p(exp(-fabs(t))); }

/* ---- logistic ---- */

static void logistic_slopes(double y, double z, double *first, double *second)
{
    const double s = 1 / (1 + exp(y * z));
    *first = -y * s;
    *second = s * (1 - s);
}

static double logistic_gap(double y, double z, double dual, double c)
{
    const double m = y * z;
    return c * (loss_soft(-m) - loss_soft(dual) + (dual + m) / (1 + exp(-dual)));
}

static float logistic_gap_seen(float y, float z, float dual, float c)
{
    const float s = gy_glm_sigmoid(dual), off = dual + y * z;
    return 0.5f * c * s * (1.0f - s) * off * off;
}

static double logistic_steepest(double y, double z, double off)
{
    return off < 0.5 && y * z > 0 ? 2 * exp(-(y * z)) : 1;
}

static double logistic_moved(double y, double z, double c, double grid)
{
    return c * grid * grid * exp(-fabs(y * z));
}

/* ---- squared ---- */

static void squared_slopes(double y, double z, double *first, double *second)
{
    *first = z - y;
    *second = 1;
}

static double squared_gap(double y, double z, double dual, double c)
{
    const double off = y - z - dual / c;
    return 0.5 * c * off * off;
}

static float squared_gap_seen(float y, float z, float dual, float c)
{
    const float off = y - z - dual / c;
    return 0.5f * c * off * off;
}

static double squared_steepest(double y, double z, double off) { return fabs(z - y) + off; }
static double squared_moved(double y, double z, double c, double grid)
{
    return (void)y, (void)z, c * grid * grid;
}

/* ---- hinge ---- */

static void hinge_slopes(double y, double z, double *first, double *second)
{
    *first = y * z < 1 ? -y : 0;
    *second = 0;
}

static double hinge_gap(double y, double z, double dual, double c)
{
    return c * loss_under(y, z) - dual * (1 - y * z);
}

static float hinge_gap_seen(float y, float z, float dual, float c)
{
    const float under = 1.0f - y * z;
    return c * (under > 0 ? under : 0) - dual * under;
}

static double hinge_steepest(double y, double z, double off) { return 1 - y * z > -off ? 1 : 0; }
static double hinge_moved(double y, double z, double c, double grid)
{
    return fabs(1 - y * z) < grid ? c * grid : 0;
}

/* ---- squared hinge ---- */

static void squared_hinge_slopes(double y, double z, double *first, double *second)
{
    *first = -2 * y * loss_under(y, z);
    *second = y * z < 1 ? 2 : 0;
}

static double squared_hinge_gap(double y, double z, double dual, double c)
{
    const double under = loss_under(y, z);
    return c * under * under + 0.25 * dual * dual / c - dual * (1 - y * z);
}

static float squared_hinge_gap_seen(float y, float z, float dual, float c)
{
    const float under = 1.0f - y * z, lost = under > 0 ? under : 0;
    return c * lost * lost + 0.25f * dual * dual / c - dual * under;
}

static double squared_hinge_steepest(double y, double z, double off)
{
    const double under = 1 - y * z;
    return under > -off ? 2 * (fabs(under) + off) : 0;
}

static double squared_hinge_moved(double y, double z, double c, double grid)
{
    return y * z < 1 + grid ? 2 * c * grid * grid : 0;
}

GY_INT const struct gy_glm_loss *gy_glm_loss_at(int loss)
{
    static const struct gy_glm_loss rows[GY_GLM_LOSSES] = {
        [GY_GLM_LOGISTIC] = {
            .name = "logistic", .symbol = "logistic",
            .liblinear = { "L2R_LR", "L1R_LR" },
            .labels = GY_GLM_CLASSES, .form = GY_GLM_LOGIT, .least = -HUGE_VAL, .most = HUGE_VAL,
            .smooth = GY_GLM_SMOOTH, .curvature = 0.25,
            .slopes = logistic_slopes,
            .step = gy_glm_logistic_step, .coefficient = gy_glm_logistic_coefficient,
            .value = gy_glm_logistic_value, .conjugate_inside = gy_glm_logistic_conjugate,
            .gap = logistic_gap, .gap_seen = logistic_gap_seen,
            .steepest = logistic_steepest, .moved = logistic_moved,
        },
        [GY_GLM_SQUARED] = {
            .name = "squared", .symbol = "squared",
            .liblinear = { "L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR" },
            .labels = GY_GLM_NUMBERS, .form = GY_GLM_NUMBER, .least = -HUGE_VAL, .most = HUGE_VAL,
            .smooth = GY_GLM_QUADRATIC, .curvature = 1,
            .slopes = squared_slopes,
            .step = gy_glm_squared_step, .coefficient = gy_glm_squared_coefficient,
            .value = gy_glm_squared_value, .conjugate_inside = gy_glm_squared_conjugate,
            .gap = squared_gap, .gap_seen = squared_gap_seen,
            .steepest = squared_steepest, .moved = squared_moved,
        },
        [GY_GLM_HINGE] = {
            .name = "hinge", .symbol = "hinge",
            .liblinear = { "L2R_L1LOSS_SVC_DUAL", "L2R_L1LOSS_SVC_DUAL" },
            .labels = GY_GLM_CLASSES, .form = GY_GLM_SIZE, .least = 0, .most = 1,
            .smooth = GY_GLM_KINK, .curvature = HUGE_VAL,
            .slopes = hinge_slopes,
            .step = gy_glm_hinge_step, .coefficient = gy_glm_hinge_coefficient,
            .value = gy_glm_hinge_value, .conjugate_inside = gy_glm_hinge_conjugate,
            .gap = hinge_gap, .gap_seen = hinge_gap_seen,
            .steepest = hinge_steepest, .moved = hinge_moved,
        },
        [GY_GLM_SQUARED_HINGE] = {
            .name = "squared-hinge", .symbol = "squared_hinge",
            .liblinear = { "L2R_L2LOSS_SVC", "L1R_L2LOSS_SVC" },
            .labels = GY_GLM_CLASSES, .form = GY_GLM_SIZE, .least = 0, .most = HUGE_VAL,
            .smooth = GY_GLM_SMOOTH, .curvature = 2,
            .slopes = squared_hinge_slopes,
            .step = gy_glm_squared_hinge_step, .coefficient = gy_glm_squared_hinge_coefficient,
            .value = gy_glm_squared_hinge_value, .conjugate_inside = gy_glm_squared_hinge_conjugate,
            .gap = squared_hinge_gap, .gap_seen = squared_hinge_gap_seen,
            .steepest = squared_hinge_steepest, .moved = squared_hinge_moved,
        },
    };
    return loss >= 0 && loss < GY_GLM_LOSSES ? &rows[loss] : NULL;
}
