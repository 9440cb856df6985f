/* SPDX-License-Identifier: MIT */
/* sdca.c: stochastic dual coordinate ascent (1), proximal where there is an l1 besides the l2, over
 * threads (2) and ranks (3), accelerated by a proximal term (4). solver.c has it in its table. A
 * run, with who does each line:
 *
 *     w = shrink(u, l1 / (l2 + kappa))    u = (sum of coefficient x + kappa centre) / (l2 + kappa)
 *     repeat
 *         kappa by its law; centre = w + ahead (w - w before)                gy_sdca_follow
 *             ahead 0: a kink, a gap 1.5 times the last, ranks' w turned back
 *         ranks, and where damping may be too small: keep dual variables, u    sdca_keep
 *         repeat until ranks have met                                        sdca_round
 *             each thread, its rows in random order, on its replica of u     gy_sdca_pass
 *                 z = x . shrink(replica)      rate = sigma of threads, of ranks / (l2 + kappa)
 *                 gap += gap of the row at z
 *                 dual = step(y, z, dual, rate |x|^2)
 *                 replica += rate (coefficient - the one before) x
 *             from time to time: u += sum of (replica - u) / sigma           sdca_meet_threads
 *             ranks: u = that of all of them                                 gy_glm_levels_meet
 *         a kink or a stream, one rank: w is of the mean of u over the pass  gy_sdca_weights
 *         ranks add up gap; move = kappa / 2 |w - centre|^2                  sdca_agree
 *             ranks: inside = gaps of a sample of rows at the w of them all  gy_sdca_measure
 *         gap > 4 times its least: back to what was kept, damping doubled    sdca_guard
 *         where ratio gap + kappa / l2 move says that it may end the run     sdca_is_due
 *             P(w), D(dual variables); ratio = their gap over what was said    sdca_check
 *                 ratio > 8: u afresh from the dual variables                  sdca_mend
 *                 75 passes for nothing: on without kappa, or with it again
 *         progress; until the run's rule says why                            sdca_is_over
 *
 * Three laws, each on what a pass has measured:
 *
 *     sigma of threads   1.1 |sum of changes|^2 / sum of |change|^2: up at once, down by half (3)
 *     sigma of ranks     the same at their sums (rank_sums.c)
 *     kappa              times sqrt(gap / (15 move)), from 1/2 (ranks: 0.7) to 2: the gap inside
 *                        and what the centre lacks fall alike. Where inside > 3 gap, ranks hide it:
 *                        sqrt(inside / (0.7 move)). A kink: by how fast the centre's steps shrink
 *
 * A certificate costs about as much as a pass. The same inputs give the same bits for the same
 * number of threads; with another number rows are visited in another order.
 *
 * (1) Shalev-Shwartz, Zhang, "Stochastic dual coordinate ascent", 2013. (2) Ioannou,
 * Mendler-Duenner, Parnell, "SySCD", 2019. (3) Ma et al., "Adding vs. averaging", 2015. (4) Lin,
 * Mairal, Harchaoui, "A universal catalyst for first-order optimization", 2015. */
#include "engine/glm/solve/sdca_state.h"
#include "engine/base/clock.h"
#include "engine/glm/stop.h"

/* gap over that of the pass before, from which on the centre stops running ahead */
#define SDCA_RESTART 1.5
#define SDCA_GROWN 4.0           /* gap over the best one, from where on the guard steps in */
/* certified gap over its estimate, from which on u is made anew */
#define SDCA_DRIFTED 8.0
/* passes without progress, after which they go on without kappa, or with it again */
#define SDCA_TURN 75
/* most passes from one certificate to the next, where a gap or a target was asked for */
#define SDCA_LOOK 25

static int sdca_fits(const struct gy_glm_problem *problem, const struct gy_glm_feed *feed, const char **why)
{
    (void)feed;
    *why = !(problem->l2 > 0) ? "dual coordinate ascent needs an l2 above 0"
         : problem->bias != 0 && problem->bias_free ? "dual coordinate ascent has no weight that is not penalised" : NULL;
    return !*why;
}

/* ---- passes ---- */

/* What a run goes by. */
struct sdca_watch {
    int64_t began;         /* ns */
    int epoch, epochs;     /* done by this run, at most */
    int cold;              /* the last pass was the first of a run without duals */
    double ratio;          /* certified gap over its estimate */
    double scale;          /* P as it is known; at first of w = 0 */
    double best, before;   /* estimates: the least, and that of the pass before */
    struct gy_glm_checks checks;
    int risky;             /* the pass before was, and its harm shows in the next one's gap */
    int late;              /* a rank's time is up */
    int looked;            /* epoch of the last certificate with a bound */
    struct gy_glm_patience patience;
    int turned;            /* epoch of the last change between passes with kappa and without */
    struct gy_glm_progress progress;
};

/* P - D is the sum of the rows' gaps, and l2 / 2 |w - the duals' vector|^2. */
static double sdca_estimate(const struct gy_sdca *s, const struct sdca_watch *watch)
{
    return s->estimate.gap * watch->ratio + s->prox.kappa / s->run->problem->l2 * s->prox.move;
}

static int sdca_has_goal(const struct gy_sdca *s) { return s->run->stop.gap > 0 || s->run->stop.target > 0; }

/* A certificate is made from time to time, whatever the estimate says. */
static int sdca_must_look(const struct gy_sdca *s, const struct sdca_watch *watch)
{
    return watch->epoch >= watch->epochs || watch->late || (sdca_has_goal(s) && watch->epoch - watch->looked >= SDCA_LOOK);
}

static int sdca_is_due(const struct gy_sdca *s, const struct sdca_watch *watch)
{
    const struct gy_glm_stop *const stop = &s->run->stop;
    if (sdca_must_look(s, watch) || stop->target > 0)
        return 1;
    if (stop->every > 0)
        return watch->epoch % stop->every == 0;
    return stop->validation > 0 || (stop->gap > 0 && !watch->cold && sdca_estimate(s, watch) <= stop->gap * watch->scale);
}

/* Writes the present weights to run->w, the dual variables to s->dual, and their certificate to
 * run->result. */
static int sdca_certify(struct gy_sdca *s, struct sdca_watch *watch, int primal_only, struct gy_error *err)
{
    struct gy_glm_run *const run = s->run;
    gy_sdca_weights(s, run->w);
    if (!primal_only)
        gy_sdca_duals(s, 0);
    GY_TRY(gy_glm_certify(run, run->w, primal_only ? NULL : s->dual, &run->result, err));
    watch->progress.at = run->result;
    watch->progress.has_certificate = 1;
    watch->scale = run->result.primal;
    return GY_OK;
}

/* Makes u anew from the dual variables. Its weights replace the certified ones where they are
 * better. */
static int sdca_mend(struct gy_sdca *s, struct sdca_watch *watch, struct gy_error *err)
{
    struct gy_glm_run *const run = s->run;
    const struct gy_glm_certificate was = run->result;
    const size_t bytes = (size_t)s->dim * sizeof *run->w;
    float *const kept = gy_alloc_take(run->alloc, (size_t)s->dim, sizeof *kept);
    if (!kept)
        return GY_NOMEM(err, "the certified weights", bytes);
    memcpy(kept, run->w, bytes);
    int status = gy_sdca_from_duals(s, err);
    if (status == GY_OK)
        status = sdca_certify(s, watch, 0, err);
    if (status == GY_OK && !(run->result.primal <= was.primal)) {
        memcpy(run->w, kept, bytes);
        run->result = watch->progress.at = was;
        watch->scale = was.primal;
    }
    gy_alloc_free(run->alloc, kept, bytes);
    return status;
}

/* How much the estimate is off. */
static double sdca_ratio(const struct gy_sdca *s, double gap)
{
    const double lacks = s->prox.kappa / s->run->problem->l2 * s->prox.move;
    return fmax(gap - lacks, 0.01 * gap) / s->estimate.gap;
}

/* Certifies; only P where nothing but a target was asked for. */
static int sdca_check(struct gy_sdca *s, struct sdca_watch *watch, struct gy_error *err)
{
    struct gy_glm_run *const run = s->run;
    const int primal_only = run->stop.target > 0 && !(run->stop.gap > 0) && !sdca_must_look(s, watch);
    GY_TRY(sdca_certify(s, watch, primal_only, err));
    if (primal_only)
        return GY_OK;
    (void)gy_glm_levels_guard(&s->ranks, run->result.dual);
    if (s->estimate.gap > 0 && !watch->cold) {
        watch->ratio = sdca_ratio(s, run->result.gap);
        if (!(watch->ratio <= SDCA_DRIFTED))
            GY_TRY(sdca_mend(s, watch, err));
    }
    watch->looked = watch->epoch;
    gy_glm_patience_note(&watch->patience, &run->result, watch->epoch);
    if (sdca_has_goal(s) && watch->epoch - (int)gy_max64(watch->patience.gained, watch->turned) >= SDCA_TURN) {
        s->prox.rest = !s->prox.rest;
        watch->turned = watch->epoch;
    }
    return GY_OK;
}

/* Whether the run ends here. The weights of a certificate are those that are validated. */
static int sdca_is_over(struct gy_sdca *s, struct sdca_watch *watch, struct gy_error *err)
{
    struct gy_glm_run *const run = s->run;
    const int certified = watch->progress.has_certificate;
    struct gy_glm_end end = { .at = certified ? &run->result : NULL, .epoch = watch->epoch, .left = watch->epochs - watch->epoch,
                              .patience = watch->looked == watch->epoch ? &watch->patience : NULL, .late = watch->late };
    if (certified && run->dual && run->validate)
        gy_sdca_duals(s, 0); /* they are kept where the test rows cannot be read */
    if (certified)
        GY_TRY(gy_glm_validated(run, &watch->checks, &end.flat, err));
    run->why = gy_glm_ends(&run->stop, &end);
    return GY_OK;
}

static double sdca_seconds(const struct sdca_watch *watch) { return (double)(gy_clock_ns() - watch->began) * 1e-9; }

/* The weights of a certificate stay as they are; a run that is stopped without one makes it. */
static int sdca_tell(struct gy_sdca *s, struct sdca_watch *watch, struct gy_error *err)
{
    const struct gy_glm_run *const run = s->run;
    struct gy_glm_progress *const progress = &watch->progress;
    const double goal = run->stop.gap * watch->scale, now = sdca_estimate(s, watch), shrinks = s->estimate.gap / watch->before;
    if (!run->progress)
        return GY_OK;
    progress->epoch = s->pass;
    progress->round = run->rounds;
    progress->seconds = sdca_seconds(watch);
    progress->rows_done = (int64_t)watch->epoch * run->feed->all_rows;
    progress->rows_per_second = progress->seconds > 0 ? (double)progress->rows_done / progress->seconds : 0;
    progress->seconds_left = -1;
    if (goal > 0 && now > goal && shrinks > 0 && shrinks < 0.999)
        progress->seconds_left = progress->seconds / watch->epoch * log(goal / now) / log(shrinks);
    if (run->dual && !progress->has_certificate) /* they are kept between runs, and may be now */
        gy_sdca_weights(s, run->w);
    if (run->dual)
        gy_sdca_duals(s, 0);
    const int asked = run->progress(run->user, progress);
    if (asked <= 0)
        return asked < 0 ? GY_FAIL(err, asked, "the caller failed after pass %d", s->pass) : GY_OK;
    if (!progress->has_certificate)
        GY_TRY(sdca_certify(s, watch, 0, err));
    return GY_FAIL(err, GY_E_STOPPED, "training was stopped after %d passes", s->pass);
}

/* ---- the guard ---- */

static int sdca_may_diverge(const struct gy_sdca *s)
{
    return s->dual_kept && (s->threads.sigma < s->threads.fan || s->ranks.sigma < s->ranks.fan);
}

/* What is kept of u is the sum of coefficient x, whatever kappa and centre will be. */
static void sdca_keep(struct gy_sdca *s)
{
    const double kappa = s->prox.kappa, all = s->run->problem->l2 + kappa;
    gy_sdca_duals(s, 0);
    memcpy(s->dual_kept, s->dual, (size_t)s->run->feed->rows * sizeof *s->dual);
    for (int64_t j = 0; j < s->dim; j++)
        s->u_kept[j] = (float)(all * (double)s->u[j] - kappa * (double)s->prox.centre[j]);
}

/* Back to the best point, and twice the damping; at the number of members nothing can diverge. */
static void sdca_back(struct gy_sdca *s)
{
    const double kappa = s->prox.kappa, all = s->run->problem->l2 + kappa;
    memcpy(s->dual, s->dual_kept, (size_t)s->run->feed->rows * sizeof *s->dual);
    gy_sdca_duals(s, 1);
    for (int64_t j = 0; j < s->dim; j++)
        s->u[j] = (float)(((double)s->u_kept[j] + kappa * (double)s->prox.centre[j]) / all);
    gy_sdca_means(s);
    s->threads.floor = fmin(2 * fmax(s->threads.floor, s->threads.sigma), s->threads.fan);
    s->threads.sigma = s->threads.floor;
    s->threads.stale = 1;
    gy_glm_levels_damp(&s->ranks);
    gy_glm_levels_begin(&s->ranks, s->u);
}

/* 1: the passes have made the point worse, and it went back. A pass sums each row's gap as of its
 * visit. The first pass of a cold run says nothing. */
static int sdca_guard(struct gy_sdca *s, struct sdca_watch *watch, int guarded)
{
    if (watch->cold)
        return 0;
    if (guarded && !(s->estimate.gap <= SDCA_GROWN * watch->best)) {
        sdca_back(s);
        return 1;
    }
    watch->best = fmin(watch->best, s->estimate.gap);
    return 0;
}

/* What ranks have summed together, after a round. */
static int sdca_agree(struct gy_sdca *s, struct sdca_watch *watch, int first, int *guarded, struct gy_error *err)
{
    struct sdca_estimate *const e = &s->estimate;
    const int late = gy_glm_is_late(&s->run->stop, watch->began);
    /* summed, so that all ranks decide alike */
    double sums[5] = { e->gap, e->start, e->square, *guarded, late };
    GY_TRY(gy_glm_sum(s->run, sums, 5, err));
    s->estimate.gap = sums[0];
    *guarded = sums[3] > 0;
    watch->late = sums[4] > 0;
    watch->scale = watch->cold ? sums[1] : watch->scale;
    if (first)
        s->prox.first_kappa = gy_sdca_kappa(s, sums[2], (double)s->run->feed->all_rows);
    s->threads.stale |= s->ranks.base != NULL;
    return gy_sdca_measure(s, err);
}

/* Passes until ranks have met. *unsettled: the guard has gone back, and the next pass must show the
 * worth of the point. */
static int sdca_round(struct gy_sdca *s, struct sdca_watch *watch, int *unsettled, struct gy_error *err)
{
    const int first = s->first, risky = sdca_may_diverge(s);
    int met = 0, guarded = risky || watch->risky;
    if (!first)
        gy_sdca_follow(s, !watch->cold,
                       watch->cold || s->estimate.gap < SDCA_RESTART * watch->before);
    watch->cold = s->fresh;
    watch->before = s->estimate.gap;
    if ((guarded || s->ranks.base) && s->estimate.gap <= watch->best)
        sdca_keep(s);
    while (!met) {
        const int64_t began = gy_clock_ns();
        GY_TRY(gy_sdca_pass(s, err));
        watch->epoch++;
        GY_TRY(gy_glm_levels_pass(&s->ranks, s->u, (double)(gy_clock_ns() - began) * 1e-9, watch->epoch >= watch->epochs, &met, err));
    }
    GY_TRY(sdca_agree(s, watch, first, &guarded, err));
    watch->risky = risky;
    *unsettled = sdca_guard(s, watch, guarded);
    return GY_OK;
}

static int sdca_rounds(struct gy_sdca *s, struct sdca_watch *watch, struct gy_error *err)
{
    for (;;) {
        int unsettled;
        GY_TRY(sdca_round(s, watch, &unsettled, err));
        watch->progress.has_certificate = 0;
        if (sdca_is_due(s, watch) && (!unsettled || watch->epoch >= watch->epochs || watch->late))
            GY_TRY(sdca_check(s, watch, err));
        s->run->epochs = s->pass;
        s->run->rounds = s->ranks.rounds;
        GY_TRY(sdca_is_over(s, watch, err));
        GY_TRY(sdca_tell(s, watch, err));
        if (s->run->why)
            return GY_OK;
    }
}

GY_INT int gy_sdca_run(struct gy_sdca *s, struct gy_error *err)
{
    const struct gy_glm_stop *const stop = &s->run->stop;
    const int epochs = (stop->epochs > 0 ? stop->epochs : GY_GLM_EPOCHS_MOST) - s->pass;
    struct sdca_watch watch = { .began = gy_clock_ns(), .epochs = epochs > 0 ? epochs : 1, .ratio = 1,
                                .best = HUGE_VAL, .scale = HUGE_VAL };
    gy_glm_patience_begin(&watch.patience, 0);
    const int status = sdca_rounds(s, &watch, err);
    gy_sdca_duals(s, 0);
    return status;
}

static int sdca_solve(struct gy_glm_run *run, struct gy_error *err)
{
    struct gy_sdca s;
    GY_TRY(gy_sdca_open(&s, run, err));
    int status = gy_sdca_run(&s, err);
    if (status == GY_OK && !s.view && run->feed->shuffle)
        status = run->feed->shuffle(run->feed->self, 0, 0, err);
    gy_sdca_close(&s);
    return status;
}

GY_INT const struct gy_glm_solver *gy_glm_sdca(void)
{
    static const struct gy_glm_solver solver = { "sdca", "stochastic dual coordinate ascent: any loss with an l2, one pass of exact steps after another",
                                                 sdca_fits, sdca_solve };
    return &solver;
}
