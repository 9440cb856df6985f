/* SPDX-License-Identifier: MIT */
/* When validation ends a run, and the passes that it may take without coming nearer to its goal. */
#include "engine/glm/stop.h"
#include <float.h>

#define PATIENCE_EPOCHS 200    /* in which the difference must become less by PATIENCE_PART of it */
#define PATIENCE_PART 0.1
#define PATIENCE_SPURT 4.0     /* times faster than so far it may become less in the epochs that are left */
#define PATIENCE_ROUNDING 1e-6 /* of P: a gap that floats leave, of 24 bits in weights, dual numbers and scores */

GY_INT int gy_glm_is_flat(struct gy_glm_checks *checks, double loss, double part)
{
    const double before = checks->loss[0];
    memmove(checks->loss, checks->loss + 1, 2 * sizeof *checks->loss);
    checks->loss[2] = loss;
    return ++checks->count > 3 && before - loss < part * fabs(before);
}

GY_INT void gy_glm_patience_begin(struct gy_glm_patience *patience, int epoch)
{
    *patience = (struct gy_glm_patience){ .primal = HUGE_VAL, .dual = -HUGE_VAL, .least = DBL_MAX, .gained = epoch };
}

GY_INT void gy_glm_patience_note(struct gy_glm_patience *patience, const struct gy_glm_certificate *at, int epoch)
{
    patience->primal = fmin(patience->primal, at->primal);
    patience->dual = fmax(patience->dual, at->dual);
    const double gap = patience->primal - patience->dual;
    /* A gap below 0 is the noise of a device's sums: what is less than that has gained nothing. */
    if (patience->least > 0 && gap < patience->least - PATIENCE_PART * patience->least) {
        patience->least = gap;
        patience->gained = epoch;
    }
}

static int patience_has_hope(const struct gy_glm_patience *p, double part, int passes, int left)
{
    const double gap = p->primal - p->dual, goal = part * fabs(p->primal);
    return gap < p->least && passes / PATIENCE_SPURT * log(gap / goal) <= left * log(p->least / gap);
}

GY_INT const char *gy_glm_patience_ends(const struct gy_glm_patience *patience, const struct gy_glm_stop *stop, const struct gy_glm_certificate *at, int epoch,
                                        int left)
{
    const int passes = epoch - patience->gained;
    if (!(stop->gap > 0 || stop->target > 0) || passes < PATIENCE_EPOCHS || patience_has_hope(patience, stop->gap, passes, left))
        return NULL;
    return at->gap <= PATIENCE_ROUNDING * fabs(at->primal) ? "rounding" : "stalled";
}

#undef PATIENCE_EPOCHS
#undef PATIENCE_PART
#undef PATIENCE_SPURT
#undef PATIENCE_ROUNDING
