/* SPDX-License-Identifier: MIT */
/* Losses and conjugates of one row, each with what it may be off by. Functions of the mathematical library are taken to err by four units at most (glibc
 * states 1 for exp, log and log1p). A coefficient is what it is as a double: its conjugate is off, not it. */
#include "engine/glm/referee_row.h"

#define ROW_FUNCTION (4 * GY_REFEREE_UNIT)
#define ROW_FAR 800 /* exp(x) > 0 has |x| below this: its relative error is that of x, times this at most */

GY_INT struct gy_near gy_referee_loss(const struct gy_glm_loss *loss, double y, double c,
                                      struct gy_near z)
{
    const double value = loss->value(y, z.value), slope = loss->steepest(y, z.value, z.error);
    return (struct gy_near){ c * value, c * (slope * z.error + 2 * ROW_FUNCTION * value) };
}

/* -p log p - (1 - p) log (1 - p); rest: 1 - p. */
static struct gy_near row_entropy(double c, double p, double rest)
{
    const double small = fmin(p, rest), far = small > 0 ? -log(small) : 0, value = small > 0 ? small * far - fmax(p, rest) * log1p(-small) : 0;
    return (struct gy_near){ c * value, 2 * ROW_FUNCTION * c * (value + p * far) };
}

/* As a size in its domain, and a sign. 0 is in every domain. */
static double row_size(const struct gy_glm_loss *loss, double c, double number, double shift,
                       double *sign)
{
    const double e = exp(-fabs(number));
    const double inside = fmax(fmin(number - shift * c, loss->most * c), loss->least * c);
    if (loss->form == GY_GLM_LOGIT)
        return (number >= 0 ? 1 : e) / (1 + e);
    if (loss->form == GY_GLM_SIZE)
        return inside;
    *sign = inside < 0 ? -1 : 1;
    return fabs(inside);
}

GY_INT struct gy_near gy_referee_conjugate(const struct gy_glm_loss *loss, double y, double c,
                                           double dual, const struct gy_glm_moved *moved,
                                           double *pull)
{
    const double number = dual == dual ? dual : 0, e = exp(-fabs(number));
    double sign = y, size = row_size(loss, c, number, moved->shift, &sign);
    const double part = moved->side[sign > 0], rest = part == 1 ? (number >= 0 ? e : 1) / (1 + e) : 1 - part * size;
    size *= part;
    if (!isfinite(size))
        return (struct gy_near){ -HUGE_VAL, 0 };
    *pull = sign * (loss->form == GY_GLM_LOGIT ? c * size : size);
    if (loss->form == GY_GLM_LOGIT)
        return row_entropy(c, size, rest);
    const double linear = loss->form == GY_GLM_NUMBER ? *pull * y : size;
    const double square = gy_glm_bend(loss) * size * size / c;
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

/* A probability p = exp(-x) is off by p x units for x's rounding, which is less than one, and by some for each class that the sum of them has: in all by
 * `absolute`, and, where x is below ROW_FAR, as it is for all that are not 0, by `relative` of itself. */
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
    const double spread = log1p(others), wrong = y == top ? others : 1; /* wrong: not below 1 - the class's probability */
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
