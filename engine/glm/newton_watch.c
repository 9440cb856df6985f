/* SPDX-License-Identifier: MIT */
/* When a solver of second order stops, and what it says on the way. All ranks decide the same: they have the same sums, and ask each other where only one may
 * know. */
#include "newton.h"
#include "../base/clock.h"
#include "../job.h"

#define NW_EPOCHS 1000

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
    GY_TRY(gy_job_any(run->job, stop, &stop, err));
    return stop ? GY_FAIL(err, GY_E_STOPPED, "the caller asked to stop after epoch %d", epoch) : GY_OK;
}

static int nw_validated(struct gy_nw *nw, struct gy_nw_watch *watch, int *done, struct gy_error *err)
{
    struct gy_glm_run *const run = nw->run;
    double loss;
    *done = 0;
    if (run->stop.validation <= 0 || !run->validate)
        return GY_OK;
    GY_TRY(run->validate(run->user, run->w, &loss, err));
    return gy_job_any(run->job, gy_glm_is_flat(&watch->checks, loss, run->stop.validation), done, err);
}

GY_INT int gy_nw_report(struct gy_nw *nw, struct gy_nw_watch *watch, const char **why, struct gy_error *err)
{
    struct gy_glm_run *const run = nw->run;
    const struct gy_glm_certificate *const at = &run->result;
    int validated, late = run->stop.seconds > 0 && (double)(gy_clock_ns() - nw->began) * 1e-9 >= run->stop.seconds;
    run->epochs = run->first_epoch + ++watch->epoch;
    run->rounds = nw->rounds;
    GY_TRY(nw_tell(nw, run->epochs, err));
    GY_TRY(nw_validated(nw, watch, &validated, err));
    if (run->stop.seconds > 0)
        GY_TRY(gy_job_any(run->job, late, &late, err));
    *why = run->stop.gap > 0 && at->gap <= run->stop.gap * fabs(at->primal)        ? "gap"
           : run->stop.target > 0 && at->primal <= run->stop.target                ? "target"
           : validated                                                             ? "validation"
           : run->epochs >= (run->stop.epochs > 0 ? run->stop.epochs : NW_EPOCHS) ? "epochs"
           : late                                                                  ? "time"
                                                                                   : NULL;
    return GY_OK;
}

GY_INT int gy_nw_finite(double primal, struct gy_error *err)
{
    if (isfinite(primal))
        return GY_OK;
    return GY_FAIL(err, GY_E_NONFINITE, "the objective at the weights it begins with is not a number: rows, their weights or the model are too large");
}
