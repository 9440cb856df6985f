/* SPDX-License-Identifier: MIT */
/* What a solver calls back while it trains, through struct gy_glm_run: the test rows' mean loss,
 * for its stopping rule, and the caller's progress, with a checkpoint where due. */
#include "engine/base/public.h"
#include "engine/job/peers.h"
#include "engine/glm/glm_model.h"
#include "engine/glm/glm_train_state.h"

/* ---- validation ---- */

struct glm_train_loss {
    const struct gy_glm_problem *problem;
    const struct gyre_glm *softmax; /* NULL: of one vector of weights */
    double sum, weight;
};

/* log sum exp(score) less the score of the row's class. A class that the model does not know counts
 * as a score of 0. */
static double glm_train_softmax_loss(const struct gyre_glm *model, const float *score, float label)
{
    const int32_t class = gy_glm_model_class(model, label);
    double most = (double)score[0], sum = 0;
    for (int k = 1; k < model->info.models; k++)
        most = (double)score[k] > most ? (double)score[k] : most;
    for (int k = 0; k < model->info.models; k++)
        sum += exp((double)score[k] - most);
    return log(sum) + most - (class < 0 ? 0 : (double)score[class]);
}

static int glm_train_loss_take(void *user, const struct gy_glm_slice *s, struct gy_error *err)
{
    struct glm_train_loss *l = user;
    (void)err;
    for (int32_t i = 0; i < s->count; i++) {
        const float label = s->rows->label[s->from + i];
        const double weight = s->rows->weight ? (double)s->rows->weight[s->from + i] : 1;
        const double y = l->problem->target == GY_GLM_TARGET_VALUE ? (double)label : label == l->problem->positive ? 1 : -1;
        l->sum += weight * (l->softmax ? glm_train_softmax_loss(l->softmax, s->score + (int64_t)i * l->softmax->info.models, label)
                                       : gy_glm_loss_of(l->problem)->value(y, (double)s->score[i]));
        l->weight += weight;
    }
    return GY_OK;
}

/* Test rows that any rank cannot read end the run on all ranks. A checkpoint then keeps what was
 * found so far. */
static int glm_train_rescue(struct glm_train *t, int status, struct gy_error *err)
{
    struct gy_error second;
    int failed = status != GY_OK;
    GY_TRY(gy_peers_any(t->apart ? NULL : t->c.job, failed, &failed, failed ? NULL : err));
    if (!failed)
        return GY_OK;
    const struct gy_log log = gy_log_of(&t->c.log);
    t->run_epoch = t->run.epochs;
    if (t->c.folder && gy_glm_train_keep(t, &second) != GY_OK)
        gy_log_write(&log, GY_LOG_ERROR, "no checkpoint could be written either: %s", second.text);
    return status != GY_OK ? status : GY_FAIL(err, GY_E_IO, "another rank could not read the test rows");
}

/* Every rank reads all of the test rows: then all of them stop at the same epoch. */
GY_INT int gy_glm_train_validate(void *user, const float *w, double *loss, struct gy_error *err)
{
    struct glm_train *t = user;
    struct glm_train_loss l = { .problem = t->run.problem, .softmax = gy_glm_model_is_whole(t->model) ? t->model : NULL };
    struct gy_glm_scorer scorer = gy_glm_model_scorer(t->model);
    scorer.w = w;
    scorer.models = l.softmax ? t->model->info.models : 1;
    GY_TRY(glm_train_rescue(t, gy_glm_source_score(t->tests, &scorer, t->pool, glm_train_loss_take, &l, err), err));
    *loss = l.weight > 0 ? l.sum / l.weight : 0;
    return GY_OK;
}

/* ---- progress ---- */

static int glm_train_tell(struct glm_train *t, const struct gy_glm_progress *p)
{
    t->seen |= p->has_certificate;
    struct gyre_glm_progress out = { .model = t->at, .models = t->model->info.models, .epoch = p->epoch, .epochs = t->run.stop.epochs,
                                     .certified = p->has_certificate, .rows_done = p->rows_done, .seconds = p->seconds,
                                     .rows_per_second = p->rows_per_second, .seconds_left = p->seconds_left >= 0 ? p->seconds_left : (double)NAN,
                                     .objective = (double)NAN, .bound = (double)NAN, .gap = (double)NAN };
    if (t->seen) {
        out.objective = p->at.primal;
        out.bound = isfinite(p->at.dual) ? p->at.dual : (double)NAN;
        out.gap = isfinite(p->at.dual) ? gy_glm_relative_gap(p->at.primal, p->at.dual) : (double)NAN;
    }
    return t->c.progress ? t->c.progress(t->c.user, &out) : 0;
}

/* One rank that is asked to stop, and the first one's clock, decide for all. */
GY_INT int gy_glm_train_progress(void *user, const struct gy_glm_progress *p)
{
    struct glm_train *t = user;
    float want[2] = { 0, 0 };
    t->run_epoch = p->epoch;
    want[0] = glm_train_tell(t, p) != 0;
    want[1] = gy_glm_train_due(t) != 0;
    if (t->c.job && !t->apart)
        GY_TRY(gy_peers_sum(t->c.job, want, 2, &t->progress_error));
    if (want[1] > 0)
        GY_TRY(gy_glm_train_keep(t, &t->progress_error));
    return want[0] > 0;
}
