/* SPDX-License-Identifier: MIT */
/* When a solver of second order stops, and what it says on the way; newton_loop.c, newton_hinge.c
 * and l1.c call it. All ranks decide the same: they have the same sums, and ask each other where
 * only one may know. */
#include "engine/glm/solve/newton_state.h"
#include "engine/base/clock.h"
#include "engine/job/peers.h"

/* Steps in which P must fall by a part of itself, or the gap by half. The part is NW_SLOW, and a
 * tenth of the goal where steps are solved to the end. */
#define NW_PATIENCE 20
#define NW_SLOW 0.1
#define NW_FLOAT 0x1p-24   /* half the distance of two floats from 1 */
#define NW_DOUBLE 1e-12    /* of P: what sums of its terms may owe to doubles */

static int nw_tell(struct gy_nw *nw, int epoch, struct gy_error *err)
{
    struct gy_glm_run *const run = nw->run;
    const double seconds = (double)(gy_clock_ns() - nw->began) * 1e-9;
    const struct gy_glm_progress progress = { .epoch = epoch, .round = nw->rounds, .rows_done = nw->visited, .seconds = seconds,
        .rows_per_second = seconds > 0 ? (double)nw->visited / seconds : 0, .seconds_left = -1, .at = run->result, .has_certificate = 1 };
    const int asked = run->progress ? run->progress(run->user, &progress) : 0;
    int stop = asked > 0;
    if (asked < 0)
        return GY_FAIL(err, asked, "the caller failed after epoch %d", epoch);
    GY_TRY(gy_peers_any(run->job, stop, &stop, err));
    return stop ? GY_FAIL(err, GY_E_STOPPED, "the caller asked to stop after epoch %d", epoch) : GY_OK;
}

GY_INT int gy_nw_report(struct gy_nw *nw, struct gy_nw_watch *watch, enum gy_glm_why *why, struct gy_error *err)
{
    struct gy_glm_run *const run = nw->run;
    int late = gy_glm_is_late(&run->stop, nw->began);
    const int most = run->stop.epochs > 0 ? run->stop.epochs : GY_GLM_EPOCHS_MOST;
    run->epochs = run->first_epoch + ++watch->epoch;
    run->rounds = nw->rounds;
    struct gy_glm_end end = { .at = &run->result, .epoch = run->epochs, .left = most - run->epochs };
    GY_TRY(nw_tell(nw, run->epochs, err));
    GY_TRY(gy_glm_validated(run, &watch->checks, &end.flat, err));
    if (run->stop.seconds > 0)
        GY_TRY(gy_peers_any(run->job, late, &late, err));
    end.late = late;
    *why = gy_glm_ends(&run->stop, &end);
    return GY_OK;
}

GY_INT int gy_nw_samples(struct gy_nw *nw, int begun, gy_nw_sample *sample, void *user,
                         struct gy_error *err)
{
    static const int steps[] = { 512, 64, 8 };
    const struct gy_glm_feed *const feed = nw->run->feed;
    const int64_t rows = gy_max64(feed->all_rows, feed->rows);
    const int64_t least = GY_NW_ROWS_PER_DIM * (int64_t)nw->dims;
    /* a sample would spoil what an earlier run found */
    begun |= !feed->resident || gy_nw_has_begun(nw->run->w, nw->dims);
    GY_TRY(gy_peers_any(nw->run->job, begun, &begun, err));
    for (size_t i = 0; !begun && i < GY_COUNT(steps); i++)
        if (rows / steps[i] >= least)
            GY_TRY(sample(user, steps[i], err));
    return GY_OK;
}

GY_INT int gy_nw_finite(double primal, struct gy_error *err)
{
    if (isfinite(primal))
        return GY_OK;
    return GY_FAIL(err, GY_E_NONFINITE, "the objective at the weights it begins with is not a number: rows, their weights or the model are too large");
}

/* ---- whether steps still bring something ---- */

GY_INT double gy_nw_noise(const float *w, const double *diagonal, int inverse, size_t dims, double primal)
{
    double size = 0;
    for (size_t j = 0; j < dims; j++) {
        const double curve = !inverse ? diagonal[j] : diagonal[j] > 0 ? 1 / diagonal[j] : 0;
        size += sqrt(curve) * fabs((double)w[j]);
    }
    return 0.5 * (NW_FLOAT * size) * (NW_FLOAT * size) + NW_DOUBLE * fabs(primal);
}

GY_INT int gy_nw_judged(struct gy_nw_judge *judge, const struct gy_nw_step *step, double goal, enum gy_glm_why *why)
{
    const double enough = (judge->exact ? 0.1 * goal : NW_SLOW) * fabs(step->primal);
    if (step->moved && (judge->primal - step->primal > fmax(enough, step->noise) || step->gap < 0.5 * judge->gap)) {
        judge->primal = step->primal;
        judge->gap = fmin(step->gap, judge->gap);
        judge->idle = 0;
        return 0;
    }
    if (step->moved && ++judge->idle < NW_PATIENCE)
        return 0;
    judge->idle = 0;
    if (judge->exact)
        *why = step->promise <= step->noise ? GY_GLM_ROUNDING : GY_GLM_STALLED;
    else
        judge->exact = 1;
    return !*why;
}
