/* SPDX-License-Identifier: MIT */
/* Stochastic dual coordinate ascent on a device.
 *
 * Rows on the device go on at the same time, which makes their steps too long together; the damping
 * factor s shortens them. It begins with how alike rows are. After an epoch that let the dual
 * objective fall, weights and dual variables go back to what they were and s doubles, after a good
 * one it becomes a little smaller. The dual objective of an epoch costs next to nothing, the primal
 * one a pass: it is made every few epochs. Ranks train side by side, each on its own rows and its
 * own device, and sum after every epoch (rank_sums.h). A rank then watches the dual objective of
 * its own part, sum of conjugates - l2 / (2 sigma) |v|^2, which its steps alone make rise. With
 * sigma the number of ranks, nothing can diverge.
 *
 * Who decides is the host's certificate, in double: what the device believes to be enough is
 * checked there before the run ends. */
#include "engine/glm/solve/glm_device.h"
#include "engine/glm/solve/glm_device_state.h"
#include "engine/base/clock.h"
#include "engine/base/text.h"
#include "engine/job/peers.h"
#include "kernels/devices.h"
#include "kernels/op_table.h"
#include "engine/glm/exact_sums.h"

/* Ranks train on devices together or not at all: their sums differ from those of the CPU's solver.
 * Returns status, or GY_E_NODEVICE where another rank has failed. Collective. */
static int gld_agree(const struct gy_glm_run *run, int status, struct gy_error *err)
{
    struct gy_error lost = { 0 };
    int any = 0;
    const int told = gy_peers_any(run->job, status != GY_OK, &any, &lost);
    if (status != GY_OK)
        return status;
    if (told != GY_OK)
        return *err = lost, told;
    return any ? GY_FAIL(err, GY_E_NODEVICE, "another rank cannot train on its device") : GY_OK;
}

#ifndef GY_NO_CUDA

static void gld_say(void *user, int level, const char *text)
{
    struct gy_gld *d = user;
    if (level == GY_LOG_ERROR)
        gy_text_copy(d->said, sizeof d->said, text);
    gy_log_write(d->log_to, level, "%s", text);
}

/* A pass with its sums; what < 0: no pass, the square of w alone. */
static int gld_sum(struct gy_gld *d, int what, int epoch, double out[GLD_TOTALS])
{
    const size_t bytes = GLD_TOTALS * sizeof(double);
    GY_TRY(d->b->copy(d->self, d->totals, d->totals_host + GLD_TOTALS, bytes, GY_COPY_TO_DEVICE));
    if (what >= 0)
        GY_TRY(gy_gld_pass(d, what, epoch));
    GY_TRY(gy_gld_run(d, GLD_SQUARES, d->loaded ? d->window[0].at : d->slot[0].device, NULL, NULL, d->totals + GLD_SQUARE));
    GY_TRY(d->b->copy(d->self, d->totals_host, d->totals, bytes, GY_COPY_TO_HOST));
    GY_TRY(d->b->sync(d->self));
    memcpy(out, d->totals_host, bytes);
    return GY_OK;
}

/* ---- weights and dual variables, there and back ---- */

/* restore 0: remembers weights and dual variables; 1: goes back to them. */
static int gld_keep(struct gy_gld *d, int restore)
{
    GY_TRY(d->b->copy(d->self, restore ? d->w : d->w_kept, restore ? d->w_kept : d->w, gy_gld_w_bytes(d), GY_COPY_ON_DEVICE));
    if (d->dual)
        return d->b->copy(d->self, restore ? d->dual : d->dual_kept, restore ? d->dual_kept : d->dual, gy_gld_dual_bytes(d), GY_COPY_ON_DEVICE);
    memcpy(restore ? d->host_dual : d->host_kept, restore ? d->host_kept : d->host_dual, gy_gld_dual_bytes(d));
    return GY_OK;
}

/* gld_make_w of all ranks' dual variables, by the host. */
static int gld_make_w_of_ranks(struct gy_gld *d)
{
    double *const u = gy_alloc_take(d->run->alloc, (size_t)d->weights, sizeof *u);
    if (!u)
        return GY_NOMEM(&d->err, "the vector of the dual numbers", (size_t)d->weights * sizeof *u);
    int status = gy_gld_dual_copy(d, 0);
    if (status == GY_OK)
        status = gy_glm_rebuild(d->run, d->host_dual, u, &d->err);
    for (int64_t i = 0; i < d->weights && status == GY_OK; i++)
        d->run->w[i] = (float)u[i];
    gy_alloc_free(d->run->alloc, u, (size_t)d->weights * sizeof *u);
    GY_TRY(status);
    gy_glm_levels_begin(&d->levels, d->run->w);
    return d->b->copy(d->self, d->w, d->run->w, gy_gld_w_bytes(d), GY_COPY_TO_DEVICE);
}

/* w as the dual variables have it: without what rounding has added since. */
static int gld_make_w(struct gy_gld *d, int epoch)
{
    d->settled = 0;
    if (d->levels.base)
        return gld_make_w_of_ranks(d);
    memset(d->run->w, 0, gy_gld_w_bytes(d));
    GY_TRY(d->b->copy(d->self, d->w, d->run->w, gy_gld_w_bytes(d), GY_COPY_TO_DEVICE));
    return gy_gld_pass(d, GLD_MAKE_W, epoch);
}

/* Weights and dual variables for the caller. */
static int gld_fetch(struct gy_gld *d)
{
    float *const w = d->run->w;
    const float soft = d->u.bias2;
    GY_TRY(d->b->copy(d->self, w, d->w, gy_gld_w_bytes(d), GY_COPY_TO_HOST));
    GY_TRY(gy_gld_dual_copy(d, 0));
    GY_TRY(d->b->sync(d->self));
    for (int64_t i = 0; i < d->weights && soft > 0; i++)
        w[i] = w[i] > soft ? w[i] - soft : w[i] < -soft ? w[i] + soft : 0;
    return GY_OK;
}

/* Where no run went before, all coefficients are 0, or as near to it as a logit says. */
static int gld_begin(struct gy_gld *d)
{
    const struct gy_glm_run *run = d->run;
    const float none = gy_glm_loss_of(run->problem)->form == GY_GLM_LOGIT ? -18.0f : 0.0f;
    for (int64_t i = 0; i < run->feed->rows && !run->has_dual; i++)
        d->host_dual[i] = none;
    GY_TRY(gy_gld_dual_copy(d, 1));
    d->best = -HUGE_VAL;
    return gld_make_w(d, run->first_epoch);
}

/* ---- training ---- */

static double gld_dual_of(const struct gy_gld *d, const double sums[GLD_TOTALS])
{
    return sums[GLD_CONJUGATE] - 0.5 * d->run->problem->l2 / d->levels.sigma * sums[GLD_SQUARE];
}

/* Ranks sum their changes. The vector then changes, and so does the dual objective from which a
 * rank goes on. */
static int gld_meet(struct gy_gld *d, double seconds)
{
    double sums[GLD_TOTALS];
    int met = 0;
    if (!d->levels.base)
        return GY_OK;
    GY_TRY(d->b->copy(d->self, d->run->w, d->w, gy_gld_w_bytes(d), GY_COPY_TO_HOST));
    GY_TRY(d->b->sync(d->self));
    GY_TRY(gy_glm_levels_pass(&d->levels, d->run->w, seconds, 1, &met, &d->err));
    GY_TRY(d->b->copy(d->self, d->w, d->run->w, gy_gld_w_bytes(d), GY_COPY_TO_DEVICE));
    GY_TRY(gld_sum(d, -1, 0, sums));
    sums[GLD_CONJUGATE] = d->conjugates;
    d->best = gld_dual_of(d, sums);
    d->run->rounds = d->levels.rounds;
    return GY_OK;
}

/* One epoch, taken back when the dual objective fell by more than rounding can explain. */
static int gld_epoch(struct gy_gld *d, int epoch)
{
    const int64_t began = gy_clock_ns();
    double sums[GLD_TOTALS];
    d->settled = 0;
    if (epoch % GLD_ANEW == 0)
        GY_TRY(gld_make_w(d, epoch));
    GY_TRY(gld_keep(d, 0));
    GY_TRY(gld_sum(d, GLD_TRAIN, epoch, sums));
    const double dual = gld_dual_of(d, sums), noise = 1e-6 * (fabs(sums[GLD_CONJUGATE]) + 0.5 * d->run->problem->l2 * sums[GLD_SQUARE]);
    d->visited += d->run->feed->all_rows;
    if (dual >= d->best - noise) {
        d->best = dual;
        d->conjugates = sums[GLD_CONJUGATE];
        d->damping = d->damping > 1.1 ? d->damping / 1.1 : 1;
        return gld_meet(d, (double)(gy_clock_ns() - began) * 1e-9);
    }
    d->damping *= 2;
    gy_log_write(&d->log, GY_LOG_INFO, "epoch %d let the dual objective fall from %.9g to %.9g and was taken back; damping is %.3g now", epoch, d->best,
                 dual, d->damping);
    GY_TRY(gld_keep(d, 1));
    return gld_meet(d, (double)(gy_clock_ns() - began) * 1e-9);
}

/* P and D as the device sums them; of several ranks, as the host does. */
static int gld_look(struct gy_gld *d, int epoch, struct gy_glm_certificate *out)
{
    double sums[GLD_TOTALS];
    if (d->levels.base) {
        GY_TRY(gld_fetch(d));
        return gy_glm_certify(d->run, d->run->w, d->host_dual, out, &d->err);
    }
    GY_TRY(gld_sum(d, GLD_LOOK, epoch, sums));
    out->loss = sums[GLD_LOSS];
    out->primal = sums[GLD_LOSS] + 0.5 * d->run->problem->l2 * sums[GLD_SQUARE] + d->run->problem->l1 * sums[GLD_SIZE];
    out->dual = gld_dual_of(d, sums);
    out->gap = out->primal - out->dual;
    return GY_OK;
}

/* Weights and dual variables for the caller, and the host's judgement: once for each point. */
static int gld_settle(struct gy_gld *d)
{
    if (d->settled)
        return GY_OK;
    GY_TRY(gld_fetch(d));
    GY_TRY(gy_glm_certify(d->run, d->run->w, d->host_dual, &d->run->result, &d->err));
    d->settled = 1;
    return GY_OK;
}

/* Decides after a look whether the run ends. The host checks a goal that the device reports; where
 * the host disagrees, w is made anew. */
static int gld_decide(struct gy_gld *d, struct gy_glm_certificate *at, struct gy_glm_end *end)
{
    struct gy_glm_run *run = d->run;
    end->at = at;
    end->patience = &d->patience;
    if (gy_glm_reached(&run->stop, at)) {
        GY_TRY(gld_settle(d));
        *at = run->result;
        if (gy_glm_reached(&run->stop, at))
            return GY_OK;
        GY_TRY(gld_make_w(d, end->epoch));
    }
    if (run->stop.validation > 0 && run->validate)
        GY_TRY(gld_fetch(d));
    GY_TRY(gy_glm_validated(run, &d->checks, &end->flat, &d->err));
    gy_glm_patience_note(&d->patience, at, end->epoch);
    return GY_OK;
}

/* Whether a rank's time is up. */
static int gld_is_late(struct gy_gld *d, int *late)
{
    double sum = gy_glm_is_late(&d->run->stop, d->began);
    *late = 0;
    if (!(d->run->stop.seconds > 0))
        return GY_OK;
    GY_TRY(gy_glm_sum(d->run, &sum, 1, &d->err));
    *late = sum > 0;
    return GY_OK;
}

static int gld_tell(struct gy_gld *d, int epoch, const struct gy_glm_certificate *at, int looked)
{
    struct gy_glm_run *run = d->run;
    const double seconds = (double)(gy_clock_ns() - d->began) * 1e-9;
    const struct gy_glm_progress p = { .epoch = epoch, .rows_done = d->visited, .seconds = seconds, .seconds_left = -1, .at = *at,
                                       .rows_per_second = seconds > 0 ? (double)d->visited / seconds : 0, .has_certificate = looked };
    if (!run->progress)
        return GY_OK;
    if (run->dual)
        GY_TRY(gld_fetch(d)); /* the caller may store them */
    const int asked = run->progress(run->user, &p);
    if (asked <= 0)
        return asked < 0 ? GY_FAIL(&d->err, asked, "the caller failed after epoch %d", epoch) : GY_OK;
    GY_TRY(gld_settle(d));
    return GY_FAIL(&d->err, GY_E_STOPPED, "stopped after epoch %d", epoch);
}

static int gld_train(struct gy_gld *d)
{
    struct gy_glm_run *run = d->run;
    const int last = run->stop.epochs ? run->stop.epochs : GY_GLM_EPOCHS_MOST, every = run->stop.every ? run->stop.every : GLD_EVERY;
    struct gy_glm_certificate at = { .primal = HUGE_VAL, .dual = -HUGE_VAL, .gap = HUGE_VAL };
    GY_TRY(gld_begin(d));
    gy_glm_patience_begin(&d->patience, run->first_epoch);
    for (int epoch = run->first_epoch + 1; epoch <= last && !run->why; epoch++) {
        struct gy_glm_end end = { .epoch = epoch, .left = last - epoch };
        GY_TRY(gld_epoch(d, epoch));
        GY_TRY(gld_is_late(d, &end.late));
        const int look = epoch % every == 0 || epoch == last || end.late;
        run->epochs = epoch;
        if (look) {
            GY_TRY(gld_look(d, epoch, &at));
            GY_TRY(gld_decide(d, &at, &end));
        }
        run->why = gy_glm_ends(&run->stop, &end);
        GY_TRY(gld_tell(d, epoch, &at, look));
    }
    run->why = run->why ? run->why : GY_GLM_EPOCHS;
    return gld_settle(d);
}

/* ---- opening ---- */

static int gld_fits(const struct gy_glm_run *run, const char *name, struct gy_error *err)
{
    const struct gy_glm_problem *p = run->problem;
    struct gy_device device;
    if (gy_device_parse(name, &device) == 0 && device.kind == GY_DEVICE_ARCH)
        return GY_FAIL(err, GY_E_NODEVICE, "device '%s' is an architecture, not a device: nothing can run on it", name);
    if (!(p->l2 > 0) || (p->bias != 0 && p->bias_free))
        return GY_FAIL(err, GY_E_UNSUPPORTED, "a device trains with an l2 above 0, and with a bias that is penalised like every weight");
    if (run->feed->rows < 1)
        return GY_FAIL(err, GY_E_ARG, "there are no rows to train on");
    return GY_OK;
}

/* Chooses the number of rows at a time, from the first view: as many as the device can. It takes
 * fewer rows where they are so alike that steps would become tiny. */
static void gld_rows_at_a_time(struct gy_gld *d, int64_t *out)
{
    struct gy_caps caps;
    d->b->caps(d->self, &caps);
    const double alike = gy_glm_likeness(d->run->problem, d->views ? &d->view[0] : &d->head, d->run->seed);
    const int64_t all = gy_max64(8, (int64_t)caps.processors * GLD_WARPS), fit = alike * (double)all > GLD_RIVALS ? (int64_t)(GLD_RIVALS / alike) : all;
    *out = gy_max64(8, fit / 8 * 8);
    d->damping = (double)*out * alike > 1 ? (double)*out * alike : 1;
    gy_log_write(&d->log, GY_LOG_INFO, "%s: %" PRId64 " rows at a time, which are alike by %.3g; damping begins with %.3g", caps.device, *out, alike,
                 d->damping);
}

static int gld_prepare(struct gy_gld *d)
{
    struct gy_geom g = { .h = 1, .w = 1, .c = 1, .p = 1, .q = 1, .r = 1, .s = 1, .stride_h = 1, .stride_w = 1, .dil_h = 1, .dil_w = 1, .groups = 1 };
    gld_rows_at_a_time(d, &g.n);
    g.k = (int32_t)gy_min64(gy_max64(d->pack.most_rows, d->weights), INT32_MAX);
    for (int i = 0; i < GLD_OPS; i++) {
        d->op[i] = gy_op_make(GY_OP_GLM_STEP + i, "linear model", &g);
        d->op[i].act = d->run->problem->loss;
        d->op[i].u = &d->u;
        GY_TRY(d->b->prepare(d->self, &d->op[i], NULL, &d->err));
    }
    d->u = (struct gy_uniform){ .seed = d->run->seed, .lr = (float)(d->levels.sigma / d->run->problem->l2), .bias1 = (float)d->run->problem->bias,
                                .bias2 = (float)(d->run->problem->l1 / d->run->problem->l2) };
    return d->b->ready(d->self, &d->err);
}

static int gld_get_ready(struct gy_gld *d, size_t memory)
{
    GY_TRY(gy_gld_get_duals(d));
    GY_TRY(gy_gld_views(d));
    GY_TRY(gy_gld_deal(d, memory));
    GY_TRY(gld_prepare(d));
    return gy_gld_get_all(d);
}

static int gld_all(struct gy_gld *d, size_t memory)
{
    GY_TRY(gy_glm_levels_open(&d->levels, d->run->job, d->run->alloc, d->weights, 1, &d->err));
    d->levels.sigma = d->levels.base ? d->levels.fan : 1;
    d->levels.fixed = 1;
    GY_TRY(gld_agree(d->run, gld_get_ready(d, memory), &d->err));
    d->started = 1;
    return gld_train(d);
}

/* Prepares for another solver: ends the pass of the feed from which the first view was taken, and
 * puts views in order again. */
static void gld_leave_feed(struct gy_gld *d)
{
    const struct gy_glm_feed *feed = d->run->feed;
    while (!d->started && d->has_head && d->head.count > 0 && feed->next(feed->self, &d->head, NULL) == GY_OK) {
    }
    if (!feed->resident && feed->shuffle)
        feed->shuffle(feed->self, 0, 0, NULL);
}

static int gld_solve(struct gy_gld *d, size_t memory)
{
    struct gy_glm_run *run = d->run;
    d->weights = (int64_t)run->feed->features + (run->problem->bias != 0);
    d->pack = (struct gy_glm_pack){ .problem = run->problem, .pool = run->pool, .features = run->feed->features };
    d->began = gy_clock_ns();
    run->why = GY_GLM_GOES_ON;
    run->epochs = run->first_epoch;
    run->rounds = 0;
    const int status = gld_all(d, memory);
    d->b->sync(d->self);
    gy_gld_put_all(d);
    gy_glm_levels_close(&d->levels);
    if (status == GY_OK || status == GY_E_STOPPED || !d->started)
        gld_leave_feed(d);
    if (status != GY_OK && !d->err.text[0])
        return GY_FAIL(&d->err, status, "the device failed: %s", d->said[0] ? d->said : "it said nothing");
    return status;
}

/* *started: it has trained, or tried to. */
static int gld_on_device(struct gy_glm_run *run, const struct gy_glm_device *device, const char *name, int *started, struct gy_error *err)
{
    *started = 0;
    struct gy_gld d = { .run = run, .log_to = device->log };
    d.log = (struct gy_log){ gld_say, &d, device->log ? device->log->level : GY_LOG_ERROR };
    struct gy_backend_config config = { .alloc = run->alloc, .log = &d.log, .kernel_cache = device->kernel_cache };
    const int own = run->job && run->job->locals > 1 ? run->job->local : 0;
    int status = gld_fits(run, name, err);
    if (status == GY_OK)
        status = gy_device_open_backend(name, &config, device->use_env, own, &d.b, &d.self, err);
    const int opened = status == GY_OK;
    status = gld_agree(run, status, err);
    if (status == GY_OK) {
        status = gld_solve(&d, device->memory);
        *err = d.err;
    }
    if (opened)
        d.b->close(d.self);
    *started = d.started;
    return status;
}

#else

static int gld_on_device(struct gy_glm_run *run, const struct gy_glm_device *device, const char *name, int *started, struct gy_error *err)
{
    (void)device;
    *started = 0;
    GY_FAIL(err, GY_E_NODEVICE,
            "device '%s': this build has no CUDA; the profile all has it", name);
    return gld_agree(run, GY_E_NODEVICE, err);
}

#endif

GY_INT int gy_glm_solve_on(struct gy_glm_run *run, const struct gy_glm_device *device, struct gy_error *err)
{
    const int wanted = strcmp(device->name, "auto") != 0;
    struct gy_error why = { 0 };
    int started = 0;
    const int status = gld_on_device(run, device, wanted ? device->name : "cuda", &started, &why);
    if (status != GY_OK && !started && !wanted) {
        gy_log_write(device->log, GY_LOG_INFO, "device auto: the CPU, because %s", why.text);
        return GY_FAIL(err, GY_E_NODEVICE, "device auto: %s", why.text);
    }
    if (status != GY_OK && err)
        *err = why;
    return status;
}
