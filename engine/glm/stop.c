/* SPDX-License-Identifier: MIT */
/* When a run ends. Every solver asks gy_glm_ends after an epoch. The patience here is coordinate
 * ascent's (sdca.c, glm_device.c). Solvers of second order judge their steps in newton_watch.c. */
#include "engine/glm/stop.h"
#include "engine/base/clock.h"
#include "engine/job/peers.h"
#include <float.h>

#define PATIENCE_EPOCHS 200    /* in which the gap must shrink by PATIENCE_PART of itself */
#define PATIENCE_PART 0.1
/* the pace that is hoped for in the epochs that are left, over the pace so far */
#define PATIENCE_SPURT 4.0
/* a gap below this part of P may be due to floats: weights, dual variables and scores have 24
 * bits */
#define PATIENCE_ROUNDING 1e-6

GY_INT const char *gy_glm_why_name(enum gy_glm_why why)
{
    static const char *const names[GY_GLM_WHYS] = {
        [GY_GLM_GAP] = "gap", [GY_GLM_TARGET] = "target", [GY_GLM_VALIDATION] = "validation",
        [GY_GLM_EPOCHS] = "epochs", [GY_GLM_TIME] = "time", [GY_GLM_ROUNDING] = "rounding",
        [GY_GLM_STALLED] = "stalled", [GY_GLM_STOPPED] = "stopped",
    };
    return names[why];
}

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

static enum gy_glm_why patience_ends(const struct gy_glm_patience *patience, const struct gy_glm_stop *stop,
                                     const struct gy_glm_certificate *at, int epoch, int left)
{
    const int passes = epoch - patience->gained;
    if (!(stop->gap > 0 || stop->target > 0) || passes < PATIENCE_EPOCHS || patience_has_hope(patience, stop->gap, passes, left))
        return GY_GLM_GOES_ON;
    return at->gap <= PATIENCE_ROUNDING * fabs(at->primal) ? GY_GLM_ROUNDING : GY_GLM_STALLED;
}

GY_INT enum gy_glm_why gy_glm_reached(const struct gy_glm_stop *stop, const struct gy_glm_certificate *at)
{
    return stop->gap > 0 && at->gap <= stop->gap * fabs(at->primal) ? GY_GLM_GAP
           : stop->target > 0 && at->primal <= stop->target         ? GY_GLM_TARGET
                                                                    : GY_GLM_GOES_ON;
}

GY_INT int gy_glm_validated(const struct gy_glm_run *run, struct gy_glm_checks *checks, int *flat, struct gy_error *err)
{
    double loss;
    *flat = 0;
    if (!(run->stop.validation > 0) || !run->validate)
        return GY_OK;
    GY_TRY(run->validate(run->user, run->w, &loss, err));
    return gy_peers_any(run->job, gy_glm_is_flat(checks, loss, run->stop.validation), flat, err);
}

GY_INT int gy_glm_is_late(const struct gy_glm_stop *stop, int64_t began)
{
    return stop->seconds > 0 && (double)(gy_clock_ns() - began) * 1e-9 >= stop->seconds;
}

GY_INT enum gy_glm_why gy_glm_ends(const struct gy_glm_stop *stop, const struct gy_glm_end *end)
{
    enum gy_glm_why why = end->at ? gy_glm_reached(stop, end->at) : GY_GLM_GOES_ON;
    why = why ? why : end->flat ? GY_GLM_VALIDATION : GY_GLM_GOES_ON;
    if (!why && end->at && end->patience)
        why = patience_ends(end->patience, stop, end->at, end->epoch, end->left);
    return why ? why : end->left <= 0 ? GY_GLM_EPOCHS : end->late ? GY_GLM_TIME : GY_GLM_GOES_ON;
}
