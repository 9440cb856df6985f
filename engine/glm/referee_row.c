/* SPDX-License-Identifier: MIT */
/* Losses and conjugates of one row, each with what it may be off by. Functions of the mathematical
 * library are taken to err by four units at most (glibc states 1 for exp, log and log1p). A
 * coefficient is what it is as a double: its conjugate is off, not it. */
#include "engine/glm/referee_row.h"

#define ROW_FUNCTION (4 * GY_REFEREE_UNIT)
/* exp(x) > 0 has |x| below this; so its relative error is at most this times the relative error of
 * x */
#define ROW_FAR 800

GY_INT struct gy_near gy_referee_loss(int loss, double y, double c, struct gy_near z)
{
    const double m = y * z.value, under = 1 - m, off = z.value - y, e = z.error;
    struct gy_near out = { 0, 0 };
    double slope = 0;
    switch (loss) {
    case GY_GLM_LOGISTIC:
        out.value = log1p(exp(-fabs(m))) + (m < 0 ? -m : 0);
        slope = e < 0.5 && m > 0 ? 2 * exp(-m) : 1; /* anywhere in m - e .. m + e */
        break;
    case GY_GLM_SQUARED:
        out.value = 0.5 * off * off;
        slope = fabs(off) + e;
        break;
    case GY_GLM_HINGE:
        out.value = under > 0 ? under : 0;
        slope = under > -e ? 1 : 0;
        break;
    case GY_GLM_SQUARED_HINGE:
        out.value = under > 0 ? under * under : 0;
        slope = under > -e ? 2 * (fabs(under) + e) : 0;
        break;
    default: /* not known here: nothing is proved */
        out.value = slope = (double)NAN;
    }
    out.error = c * (slope * e + 2 * ROW_FUNCTION * out.value);
    out.value *= c;
    return out;
}

GY_INT double gy_referee_grid(int loss, double y, double c, double z, double grid)
{
    const double m = y * z;
    switch (loss) {
    case GY_GLM_LOGISTIC: return c * grid * grid * exp(-fabs(m));
    case GY_GLM_SQUARED: return c * grid * grid;
    case GY_GLM_HINGE: return fabs(1 - m) < grid ? c * grid : 0;
    case GY_GLM_SQUARED_HINGE: return m < 1 + grid ? 2 * c * grid * grid : 0;
    default: return (double)NAN;
    }
}

GY_INT double gy_referee_slope(int loss, double y, double c, double z)
{
    const double m = y * z, under = m < 1 ? 1 - m : 0;
    switch (loss) {
    case GY_GLM_LOGISTIC: return -m;
    case GY_GLM_SQUARED: return c * (y - z);
    case GY_GLM_HINGE: return m < 1 ? c : 0;
    case GY_GLM_SQUARED_HINGE: return 2 * c * under;
    default: return (double)NAN;
    }
}

/* -p log p - (1 - p) log (1 - p); rest: 1 - p. */
static struct gy_near row_entropy(double c, double p, double rest)
{
    const double small = fmin(p, rest), far = small > 0 ? -log(small) : 0, value = small > 0 ? small * far - fmax(p, rest) * log1p(-small) : 0;
    return (struct gy_near){ c * value, 2 * ROW_FUNCTION * c * (value + p * far) };
}

GY_INT struct gy_near gy_referee_conjugate(int loss, double y, double c, double dual, const struct gy_glm_moved *moved, double *pull)
{
    /* 0 is in every domain */
    const double number = dual == dual ? dual : 0, e = exp(-fabs(number));
    double sign = y, size = number;
    if (loss == GY_GLM_LOGISTIC)
        size = (number >= 0 ? 1 : e) / (1 + e);
    else if (loss == GY_GLM_SQUARED) {
        size = fabs(number - moved->shift * c);
        sign = number - moved->shift * c < 0 ? -1 : 1;
    } else if (!(size > 0))
        size = 0;
    else if (loss == GY_GLM_HINGE && size > c)
        size = c;
    const double part = moved->side[sign > 0], rest = part == 1 ? (number >= 0 ? e : 1) / (1 + e) : 1 - part * size;
    size *= part;
    if (!isfinite(size))
        return (struct gy_near){ -HUGE_VAL, 0 };
    *pull = sign * (loss == GY_GLM_LOGISTIC ? c * size : size);
    if (loss == GY_GLM_LOGISTIC)
        return row_entropy(c, size, rest);
    const double linear = loss == GY_GLM_SQUARED ? *pull * y : size;
    const double square = loss == GY_GLM_SQUARED ? 0.5 * size * size / c : loss == GY_GLM_SQUARED_HINGE ? 0.25 * size * size / c : 0;
    return (struct gy_near){ linear - square, ROW_FUNCTION * (fabs(linear) + square) };
}

/* -log of what probability k has become, and the probability. */
static double row_class(const struct gy_glm_moved *moved, int k, double far, double *p)
{
    *p = exp(-far);
    if (!(moved->share > 0))
        return far;
    *p = (1 - moved->share) * *p + moved->share * moved->q[k];
    return *p > 0 ? -log(*p) : 0;
}

/* Errors of a probability p = exp(-x). The rounding of x gives p x units, where p x is below one;
 * the sum gives some units for each class. In all that is at most `absolute`. Where x is below
 * ROW_FAR, which holds for every p > 0, it is at most `relative` times p. */
GY_INT void gy_referee_classes(double *z, int count, int y, double c, double error, const struct gy_glm_moved *moved, struct gy_near *loss,
                               struct gy_near *conjugate)
{
    const double relative = (count + 2 * ROW_FAR) * GY_REFEREE_UNIT, absolute = gy_referee_class_units(count) * GY_REFEREE_UNIT;
    double others = 0, entropy = 0;
    int top = 0;
    for (int k = 1; k < count; k++)
        top = z[k] > z[top] ? k : top;
    const double most = z[top], behind = most - z[y];
    for (int k = 0; k < count; k++)
        others += k == top ? 0 : exp(z[k] - most);
    /* wrong: at least 1 - the class's probability */
    const double spread = log1p(others), wrong = y == top ? others : 1;
    const double rounding = fmin(relative * spread, absolute * (1 + spread)) + 2 * GY_REFEREE_UNIT * behind;
    *loss = (struct gy_near){ c * (spread + behind), c * (4 * error * fmin(1, 2 * wrong) + rounding) };
    for (int k = 0; k < count; k++) {
        double p;
        const double far = row_class(moved, k, spread + (most - z[k]), &p);
        entropy += p * far;
        z[k] = c * ((k == y) - p);
    }
    const double off = moved->share > 0 ? absolute * (2 + entropy) : fmin(relative * entropy, absolute * (1 + entropy));
    *conjugate = (struct gy_near){ c * entropy, c * off };
}
