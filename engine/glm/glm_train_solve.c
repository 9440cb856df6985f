/* SPDX-License-Identifier: MIT */
/* One model of a training; glm_train.c calls gy_glm_train_one for each. A solver gives an answer,
 * the referee says what it is worth. A solver that wrongly believed to have reached the gap goes on
 * with a smaller one. Where it stands still far from the gap, and the caller named no solver,
 * another one begins with zeros. The model gets the best answer, and the best bound of all answers.
 * An answer whose objective is not finite does not count, nor does one that memory is short for. */
#include <float.h>

#include "engine/base/clock.h"
#include "engine/base/public.h"
#include "engine/job/peers.h"
#include "engine/glm/solve/glm_device.h"
#include "engine/glm/feed.h"
#include "engine/glm/referee.h"
#include "engine/glm/glm_train_state.h"

#define SOLVE_AGAIN 3        /* times that a solver goes on with a smaller gap */
#define SOLVE_LEAST_GAP 1e-13 /* some hundred units of a double */
#define SOLVE_LENGTHEN 8     /* most that weights are lengthened by, in FLT_EPSILON */
#define SOLVE_NO_TIME 1e-9   /* seconds that stand for none: 0 would be no limit */
/* A gap of more than this many times the rounding errors is not due to them. */
#define SOLVE_ROUNDING 64

struct solve_best {
    struct gy_glm_verdict verdict; /* objective and bound may be of two answers */
    enum gy_glm_why why;   /* what the solver said of these weights */
    int there, is_last;    /* there is an answer; is_last 1: its weights are in run.w */
    float *w;              /* [all] its weights while run.w has others; NULL before that */
    int64_t all;           /* weights of the model, or of all classes of a softmax */
};

/* ---- an answer ---- */

/* 1: the solver leaves dual variables. 0: the slopes of the losses at its weights are used. */
static int solve_has_duals(const struct glm_train *t, const struct gy_glm_solver *solver)
{
    return !t->classes && (solver == gy_glm_sdca() || gy_glm_has_kink(t->run.problem));
}

static int solve_take(struct glm_train *t, float **at, int64_t count, const char *what, struct gy_error *err)
{
    *at = *at ? *at : gy_alloc_take(&t->alloc, (size_t)count + 1, sizeof **at);
    return *at ? GY_OK : GY_NOMEM(err, what, ((size_t)count + 1) * sizeof **at);
}

static int solve_take_point(struct glm_train *t, double **at, struct gy_error *err)
{
    const size_t all = (size_t)t->model->width + 1;
    *at = *at ? *at : gy_alloc_take(&t->alloc, all, sizeof **at);
    return *at ? GY_OK : GY_NOMEM(err, "weights that prove a bound", all * sizeof **at);
}

/* Room for the dual variables, or the weights, that will prove the solver's bound. */
static int solve_take_proof(struct glm_train *t, const struct gy_glm_solver *solver, struct gy_error *err)
{
    if (solve_has_duals(t, solver))
        GY_TRY(solve_take(t, &t->dual, t->rows, "dual numbers of rows", err));
    const int is_l1 = !t->classes && solver == gy_glm_l1();
    if (is_l1 || (!t->classes && solver == gy_glm_newton()))
        GY_TRY(solve_take_point(t, &t->point, err));
    if (is_l1)
        GY_TRY(solve_take_point(t, &t->last, err));
    t->run.dual = t->dual;
    t->run.point = t->point;
    t->run.last = t->last;
    t->run.has_point = t->run.has_last = 0;
    return GY_OK;
}

/* Coordinate ascent on features in the order of gy_glm_feed_order; feature: the one at each place.
 * Weights get the model's order at the end, so nobody may look at them before. The bias is last. */
static int solve_by_places(struct glm_train *t, const struct gy_glm_solver *solver, const uint32_t *feature, struct gy_error *err)
{
    struct gy_glm_run *const run = &t->run;
    const uint32_t places = t->feed->features;
    float *const w = run->w;
    run->w = gy_alloc_take(&t->alloc, (size_t)places + 1, sizeof *run->w);
    if (!run->w) {
        run->w = w;
        return GY_NOMEM(err, "weights", ((size_t)places + 1) * sizeof *run->w);
    }
    const int status = solver->solve(run, err);
    for (uint32_t j = 0; j < places; j++)
        w[feature[j]] = run->w[j];
    if (run->problem->bias != 0)
        w[t->model->width - 1] = run->w[places];
    gy_alloc_free(&t->alloc, run->w, ((size_t)places + 1) * sizeof *run->w);
    run->w = w;
    return status;
}

static int solve_on_cpu(struct glm_train *t, const struct gy_glm_solver *solver, struct gy_error *err)
{
    const int hidden = solver == gy_glm_sdca() && !t->streamed && !t->run.validate && gyre_job_ranks(t->c.job) == 1 && !t->c.folder;
    const uint32_t *const feature = hidden ? gy_glm_feed_order(t->feed, t->pool) : NULL;
    t->placed |= feature != NULL;
    if (feature)
        return solve_by_places(t, solver, feature, err);
    if (t->placed)
        gy_glm_feed_unorder(t->feed, t->pool);
    t->placed = 0;
    return solver->solve(&t->run, err);
}

static int solve_with(struct glm_train *t, const struct gy_glm_solver *solver, struct gy_error *err)
{
    const struct gy_log log = gy_log_of(&t->c.log);
    const struct gy_glm_device device = { .name = t->c.device, .memory = t->c.device_bytes, .use_env = 1, .log = &log };
    const int rounds = t->run.rounds;
    GY_TRY(solve_take_proof(t, solver, err));
    const int status = t->classes ? gy_glm_softmax(&t->run, t->classes, err) : gy_glm_train_is_own(t) ? solve_on_cpu(t, solver, err)
                                  : gy_glm_solve_on(&t->run, &device, err);
    t->run.rounds += rounds;
    if (t->progress_error.status != GY_OK)
        return *err = t->progress_error, err->status;
    return status;
}

static int solve_has_gap(const struct glm_train *t, const struct gy_glm_verdict *v)
{
    return t->c.gap > 0 && gy_glm_relative_gap(v->objective, v->bound) <= t->c.gap;
}

static int solve_judge(const struct glm_train *t, const struct gy_glm_solver *solver, struct gy_glm_verdict *out, struct gy_error *err)
{
    const double *points[3] = { NULL };
    int count = 0;
    struct gy_glm_verdict found;
    struct gy_glm_answer answer = { .blocks = t->source->blocks, .alloc = &t->alloc, .pool = t->pool, .job = t->run.job, .problem = t->run.problem,
                                          .classes = t->classes, .normalize = t->c.normalize, .features = t->model->info.features, .w = t->run.w,
                                          .dual = solve_has_duals(t, solver) ? t->dual : NULL };
    if (t->run.has_point)
        points[count++] = t->run.point;
    if (t->run.has_last)
        points[count++] = t->run.last;
    /* a point mostly proves more than the weights, which are the last here, but need not */
    for (int i = 0; i == 0 || (i <= count && t->c.gap > 0 && !solve_has_gap(t, out)); i++) {
        answer.point = points[i];
        GY_TRY(gy_glm_referee(&answer, &found, err));
        found.bound = i ? fmax(found.bound, out->bound) : found.bound;
        *out = found;
    }
    if (isfinite(out->objective))
        return GY_OK;
    return GY_FAIL(err, GY_E_NONFINITE, "the objective is no finite number: rows, their weights or the model are too large for floats");
}

/* ---- what it is worth ---- */

/* 1: the solver ended because it found no better step, or believed to have reached the gap. */
static int solve_is_still(enum gy_glm_why why) { return why == GY_GLM_GAP || why == GY_GLM_ROUNDING || why == GY_GLM_STALLED; }

static enum gy_glm_why solve_why(const struct glm_train *t, const struct solve_best *best)
{
    const struct gy_glm_verdict *const v = &best->verdict;
    if (best->why == GY_GLM_STOPPED)
        return best->why;
    if (solve_has_gap(t, v))
        return GY_GLM_GAP;
    if (!solve_is_still(best->why))
        return best->why;
    return v->objective - v->bound <= SOLVE_ROUNDING * v->rounding ? GY_GLM_ROUNDING : GY_GLM_STALLED;
}

static void solve_keep(struct solve_best *best, const struct gy_glm_verdict *v, enum gy_glm_why why)
{
    const double bound = best->there ? fmax(best->verdict.bound, v->bound) : v->bound;
    best->is_last = !best->there || v->objective < best->verdict.objective;
    if (best->is_last)
        best->verdict = *v;
    if (best->is_last || why == GY_GLM_STOPPED)
        best->why = why;
    best->verdict.bound = bound;
    best->there = 1;
}

/* Keeps the best weights before run.w changes. solve_restore puts them back into run.w. */
static int solve_save(struct glm_train *t, struct solve_best *best, struct gy_error *err)
{
    GY_TRY(solve_take(t, &best->w, best->all, "the best weights", err));
    if (best->is_last)
        memcpy(best->w, t->run.w, (size_t)best->all * sizeof *best->w);
    return GY_OK;
}

static void solve_restore(const struct glm_train *t, const struct solve_best *best)
{
    if (best->there && !best->is_last && best->w)
        memcpy(t->run.w, best->w, (size_t)best->all * sizeof *best->w);
    gy_alloc_free(&t->alloc, best->w, ((size_t)best->all + 1) * sizeof *best->w);
}

/* ---- again ---- */

struct solve_course {
    const struct gy_glm_solver *solver;
    uint32_t tried;        /* bits of solvers, as gy_glm_choose sets them */
    int again, warm;       /* times that this one went on; 1: from its weights, 0: from zeros */
    double gap;            /* that it is asked for */
    int64_t began;         /* clock, ns */
};

/* 0: there is no limit. Where there is one, the result is above 0. */
static double solve_seconds_left(const struct glm_train *t, const struct solve_course *course)
{
    return t->c.seconds > 0 ? fmax(t->c.seconds - (double)(gy_clock_ns() - course->began) * 1e-9, SOLVE_NO_TIME) : 0;
}

/* *late 1: the time is up on some rank. Collective where there is a limit. */
static int solve_is_late(const struct glm_train *t, const struct solve_course *course, int *late, struct gy_error *err)
{
    *late = t->c.seconds > 0 && solve_seconds_left(t, course) <= SOLVE_NO_TIME;
    return t->c.seconds > 0 ? gy_peers_any(t->run.job, *late, late, err) : GY_OK;
}

/* 1: the solver, which believed to have reached the gap, goes on. It is asked for half the gap that
 * it was asked for, less by as much as the proved gap is too large. */
static int solve_is_further(const struct glm_train *t, struct solve_course *course, const struct gy_glm_verdict *v)
{
    const double gap = gy_glm_relative_gap(v->objective, v->bound), next = 0.5 * course->gap * fmin(1, t->c.gap / gap);
    if (t->run.why != GY_GLM_GAP || course->again == SOLVE_AGAIN || !(next >= SOLVE_LEAST_GAP))
        return 0;
    course->again++;
    course->gap = next;
    course->warm = 1;
    return 1;
}

/* The solver for this model, of those that were not tried. It is chosen for all features, though
 * the feed may still have them by their places. */
static const struct gy_glm_solver *solve_choose(const struct glm_train *t, struct solve_course *course,
                                                struct gy_error *err)
{
    struct gy_glm_feed feed = *t->feed;
    feed.features = t->model->info.features;
    return gy_glm_choose(t->c.solver, t->run.problem, &feed, &course->tried, err);
}

/* The solver to begin with. A device has one of its own: where another one is named, "auto" is the
 * CPU. */
static const struct gy_glm_solver *solve_first(struct glm_train *t, struct solve_course *course,
                                               struct gy_error *err)
{
    const int fits = !t->c.solver || strcmp(t->c.solver, gy_glm_sdca()->name) == 0;
    if (!fits && gy_glm_train_is_auto(t))
        t->c.device = "cpu";
    if (gy_glm_train_is_own(t))
        return solve_choose(t, course, err);
    if (fits)
        return gy_glm_sdca();
    (void)GY_FAIL(err, GY_E_UNSUPPORTED, "on a device there is one solver, %s; solver is '%.40s'", gy_glm_sdca()->name, t->c.solver);
    return NULL;
}

/* With "auto" no device can train this, and none has begun: the CPU does, here and in what
 * follows. */
static int solve_leave_device(struct glm_train *t, struct solve_course *course, int *more,
                              struct gy_error *err)
{
    t->c.device = "cpu";
    course->solver = solve_first(t, course, err);
    *more = course->solver != NULL;
    return *more ? GY_OK : err->status;
}

/* 1: another solver begins. Not for a softmax or a device, nor where the caller named the
 * solver. */
static int solve_is_other(const struct glm_train *t, struct solve_course *course)
{
    struct gy_error none = { 0 };
    if (t->classes || t->c.solver || !gy_glm_train_is_own(t))
        return 0;
    const struct gy_glm_solver *const other = solve_choose(t, course, &none);
    if (!other)
        return 0;
    course->solver = other;
    course->again = course->warm = 0;
    course->gap = t->c.gap;
    return 1;
}

/* Whether another answer is to be sought. v NULL: there was none. */
static int solve_goes_on(const struct glm_train *t, struct solve_course *course, const struct solve_best *best, const struct gy_glm_verdict *v, int late)
{
    if (!v)
        return !late && solve_is_other(t, course);
    if (!(t->c.gap > 0) || solve_has_gap(t, &best->verdict) || !solve_is_still(t->run.why) || t->run.epochs >= t->run.stop.epochs)
        return 0;
    if (late)
        return 0;
    return solve_is_further(t, course, v) || solve_is_other(t, course);
}

static int solve_prepare(struct glm_train *t, const struct solve_course *course, struct solve_best *best, struct gy_error *err)
{
    if (best->there)
        GY_TRY(solve_save(t, best, err));
    if (!course->warm)
        memset(t->run.w, 0, (size_t)best->all * sizeof *t->run.w);
    t->run.has_dual = course->warm && solve_has_duals(t, course->solver);
    t->run.first_epoch = t->run.epochs;
    best->is_last = 0;
    return GY_OK;
}

/* The turn ended with status and without an answer. Another solver must give one, or the best
 * answer so far stands. Where there is one, the failed turn's dual variables become 0. */
static int solve_without(struct glm_train *t, struct solve_course *course, struct solve_best *best, int status, int *more, struct gy_error *err)
{
    int late = 0;
    if (best->there) {
        if (t->dual && solve_has_duals(t, course->solver))
            memset(t->dual, 0, (size_t)t->rows * sizeof *t->dual);
        if (status == GY_E_STOPPED) {
            best->why = GY_GLM_STOPPED;
            return status;
        }
        GY_TRY(solve_is_late(t, course, &late, err));
    }
    *more = status != GY_E_NOMEM && solve_goes_on(t, course, best, NULL, late);
    return *more ? solve_prepare(t, course, best, err) : best->there ? GY_OK : status;
}

/* One answer; *more: another is to be sought. */
static int solve_turn(struct glm_train *t, struct solve_course *course, struct solve_best *best, int *more, struct gy_error *err)
{
    struct gy_glm_verdict v;
    struct gy_error why = { 0 };
    int late;
    *more = 0;
    t->solver = t->classes ? "softmax-newton" : course->solver->name;
    t->run.stop.gap = course->gap;
    t->run.stop.seconds = solve_seconds_left(t, course);
    const int status = solve_with(t, course->solver, err);
    if (status == GY_E_NODEVICE && gy_glm_train_is_auto(t))
        return solve_leave_device(t, course, more, err);
    /* memory may be short on one rank alone: ranks then fail together */
    if (status == GY_E_NONFINITE || (status == GY_E_NOMEM && best->there && !t->run.job))
        return solve_without(t, course, best, status, more, err);
    if (status != GY_OK && status != GY_E_STOPPED)
        return status;
    const int judged = solve_judge(t, course->solver, &v, &why);
    if (judged == GY_E_NONFINITE && (best->there || status == GY_OK)) {
        const int then = solve_without(t, course, best, status == GY_OK ? judged : status, more, err);
        if (then == judged)
            *err = why;
        return then;
    }
    if (judged != GY_OK)
        return *err = why, judged;
    GY_TRY(solve_is_late(t, course, &late, err));
    solve_keep(best, &v, status == GY_E_STOPPED ? GY_GLM_STOPPED : t->run.why);
    *more = status == GY_OK && solve_goes_on(t, course, best, &v, late);
    return *more ? solve_prepare(t, course, best, err) : status;
}

/* For a loss with a kink at a margin of 1. Rows that should lie on the kink have a slightly smaller
 * margin, as weights are rounded to floats. Slightly longer weights lose less there. */
static int solve_lengthen(struct glm_train *t, const struct solve_course *course, struct solve_best *best, struct gy_error *err)
{
    struct gy_glm_verdict v;
    const int ended = solve_is_still(best->why) || best->why == GY_GLM_EPOCHS;
    if (!gy_glm_has_kink(t->run.problem) || !(t->c.gap > 0) || !ended)
        return GY_OK;
    for (double more = (double)FLT_EPSILON; more <= SOLVE_LENGTHEN * (double)FLT_EPSILON && !solve_has_gap(t, &best->verdict); more *= 2) {
        GY_TRY(solve_save(t, best, err));
        for (int64_t j = 0; j < best->all; j++)
            t->run.w[j] = (float)((double)best->w[j] * (1 + more));
        const int judged = solve_judge(t, course->solver, &v, err);
        if (judged == GY_E_NONFINITE) {
            best->is_last = 0;
            return GY_OK;
        }
        GY_TRY(judged);
        solve_keep(best, &v, best->why);
    }
    return GY_OK;
}

static void solve_claim(struct glm_train *t, const struct solve_best *best)
{
    struct gyre_glm_part *const part = &t->model->part[t->at];
    part->objective = best->verdict.objective;
    part->bound = best->verdict.bound;
    part->loss = best->verdict.loss;
    part->why = gy_glm_why_name(solve_why(t, best));
    for (int k = t->at; k < (t->classes ? t->model->info.models : t->at + 1); k++)
        t->model->part[k].epochs = t->run.epochs;
    t->run_epoch = t->run.epochs;
}

static int solve_to_end(struct glm_train *t, struct solve_course *course, struct gy_error *err)
{
    struct solve_best best = { .all = t->model->width * (t->classes ? t->model->info.models : 1) };
    int more = 1, status = GY_OK;
    while (status == GY_OK && more)
        status = solve_turn(t, course, &best, &more, err);
    if (status == GY_OK)
        status = solve_lengthen(t, course, &best, err);
    solve_restore(t, &best);
    if (status != GY_OK && status != GY_E_STOPPED)
        return status;
    solve_claim(t, &best);
    if (t->c.folder)
        GY_TRY(gy_glm_train_keep(t, err));
    return status;
}

/* ---- one model ---- */

static struct gy_glm_run solve_run(struct glm_train *t, const struct gy_glm_problem *problem, int k)
{
    return (struct gy_glm_run){ .problem = problem, .feed = t->feed, .alloc = &t->alloc, .pool = t->pool, .seed = t->c.seed,
                                .job = t->apart ? NULL : t->c.job,
                                .stop = { .gap = t->c.gap, .target = t->c.target, .validation = t->c.validation,
                                          .epochs = t->c.epochs ? t->c.epochs : 1000, .every = t->c.every },
                                .w = t->model->w + k * t->model->width, .dual = t->dual, .validate = t->c.validation > 0 ? gy_glm_train_validate : NULL,
                                .progress = gy_glm_train_progress, .user = t };
}

static int solve_check_softmax(const struct glm_train *t, struct gy_error *err)
{
    if (t->c.loss != GYRE_GLM_LOGISTIC || t->c.l1 > 0)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "softmax is for the logistic loss with l2");
    if (t->c.solver)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "softmax has a solver of its own; solver is '%.40s'", t->c.solver);
    if (!gy_glm_train_is_own(t) && !gy_glm_train_is_auto(t))
        return GY_FAIL(err, GY_E_UNSUPPORTED, "softmax is trained on the CPU; device is '%.40s'",
                       t->c.device);
    return GY_OK;
}

GY_INT int gy_glm_train_one(struct glm_train *t, int k, struct gy_error *err)
{
    const struct gyre_glm *const m = t->model;
    const struct gy_glm_problem problem = gy_glm_model_problem(m, k);
    const struct gy_glm_classes classes = { .label = m->label, .factor = m->class_weight, .count = m->info.classes };
    struct solve_course course = { .gap = t->c.gap, .began = gy_clock_ns() };
    t->classes = gy_glm_model_is_whole(m) ? &classes : NULL;
    t->at = k;
    t->seen = 0;
    t->run = solve_run(t, &problem, k);
    if (t->classes)
        GY_TRY(solve_check_softmax(t, err));
    else if (!(course.solver = solve_first(t, &course, err)))
        return err->status;
    GY_TRY(gy_glm_train_resume(t, err));
    t->run.epochs = t->run.first_epoch;
    const int status = solve_to_end(t, &course, err);
    t->classes = NULL;
    return status;
}
