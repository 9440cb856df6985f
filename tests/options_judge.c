/* SPDX-License-Identifier: MIT */
/* options_judge.c: compares each number that ranks left with the truth. */
#include <math.h>

#include "tests/options.h"
#include "tests/t.h"
#include "tests/train_truth.h"

#define OPT_TIGHT 1e-4 /* of a tensor's largest number */

/* ---- one number beside another ---- */

static int opt_near(struct opt_verdict *v, int step, int rank, const char *what, int64_t element, double got, double is, double may)
{
    const double ratio = fabs(got - is) / (may > 0 ? may : 1e-300);
    const int same = got == is, near = same || ratio <= 1; /* a number that is none is not near */
    if (v->wrong || (near && (same || ratio <= v->worst)))
        return near;
    v->worst = near ? ratio : v->worst;
    v->wrong = !near;
    snprintf(v->what, sizeof v->what, "step %d, rank %d: %s[%" PRId64 "] is %.9g, not %.9g; it may be off by %.3g", step, rank, what, element, got,
             is, may);
    return near;
}

/* In [lo, hi]? */
static void opt_within(struct opt_verdict *v, int step, int rank, const char *what, int64_t got, int64_t lo, int64_t hi)
{
    if (v->wrong || (got >= lo && got <= hi))
        return;
    v->wrong = 1;
    snprintf(v->what, sizeof v->what, "step %d, rank %d: %s is %" PRId64 ", not in %" PRId64 " .. %" PRId64, step, rank, what, got, lo, hi);
}

void opt_says(struct opt_verdict *v, int step, int rank, const char *what, const char *text)
{
    if (v->wrong)
        return;
    v->wrong = 1;
    snprintf(v->what, sizeof v->what, "step %d, rank %d: %s: %.400s", step, rank, what, text);
}

/* ---- a step beside the truth's ---- */

struct opt_judge {
    const struct opt_case *c;
    struct train_truth t;
    const struct opt_left *left;
    struct opt_data data[OPT_RANKS];
    struct gyre_batch batch[OPT_RANKS];
    struct opt_verdict *v;
};

static void opt_batches(struct opt_judge *j, int kind, int step)
{
    for (int r = 0; r < j->c->ranks; r++) {
        opt_batch(j->c, &j->left[r].shape, kind, step, r, &j->data[r]);
        j->batch[r] = j->data[r].batch;
    }
}

static void opt_judge_result(struct opt_judge *j, int step, int rank, const char *what, const struct gyre_result *got, const struct train_samples *s)
{
    char name[60];
    snprintf(name, sizeof name, "%s's loss", what);
    opt_near(j->v, step, rank, name, 0, got->loss, s->loss, s->each_may);
    snprintf(name, sizeof name, "%s's labelled", what);
    opt_within(j->v, step, rank, name, got->labelled, s->labelled, s->labelled);
    snprintf(name, sizeof name, "%s's top1", what);
    opt_within(j->v, step, rank, name, got->top1, s->top1[0], s->top1[1]);
    snprintf(name, sizeof name, "%s's top5", what);
    opt_within(j->v, step, rank, name, got->top5, s->top5[0], s->top5[1]);
    opt_within(j->v, step, rank, "result.step", got->step, j->t.updates, j->t.updates);
}

static void opt_judge_scores(struct opt_judge *j, int step, int rank, const char *what, const float *got)
{
    const struct train_samples *s = &j->t.samples[rank];
    for (int64_t i = 0; i < s->count * OPT_CLASSES; i++)
        opt_near(j->v, step, rank, what, i, (double)got[i], s->world[0][i], s->may);
}

static void opt_judge_samples(struct opt_judge *j, int step, int rank)
{
    const struct train_samples *s = &j->t.samples[rank];
    const struct opt_step *got = &j->left[rank].step[step];
    opt_judge_scores(j, step, rank, "scores", got->scores);
    for (int i = 0; i < s->count; i++) {
        opt_near(j->v, step, rank, "losses", i, (double)got->each[i], s->each[0][i], s->each_may);
        opt_within(j->v, step, rank, "ranks", got->rank[i], s->rank[0][i], s->rank[1][i]);
    }
}

/* A tensor of a kind, of all ranks or of this one. */
static void opt_judge_vector(struct opt_judge *j, int step, int rank, int kind, int param, const float *got)
{
    const struct train_vector *v = &j->t.vector[kind][kind == TRAIN_STATE ? rank : 0][param];
    char name[200];
    snprintf(name, sizeof name, "%s%s", opt_prefix[kind], j->t.graph.params[param].name);
    double size = 0;
    for (int64_t i = 0; i < v->count; i++)
        size = fmax(size, fabs(v->world[0][i]));
    for (int64_t i = 0; i < v->count; i++) {
        opt_near(j->v, step, rank, name, i, (double)got[i], v->world[0][i], v->may[i]);
        j->v->numbers++;
        j->v->tight += v->may[i] <= OPT_TIGHT * size;
    }
}

/* Gradients are means over samples: of this rank before an update, of all ranks after it. With
 * sync_bn the truth knows only their sum over ranks. */
static void opt_judge_gradient(struct opt_judge *j, int step, int rank, int kind, int param, int64_t at, int summed)
{
    const int together = summed || j->c->config.sync_bn, from = together ? 0 : rank, to = together ? j->c->ranks : rank + 1;
    char name[200];
    snprintf(name, sizeof name, "grad.%s", j->t.graph.params[param].name);
    for (int64_t i = 0; i < j->t.graph.params[param].count; i++) {
        double got = 0, is = 0, may = 0, learned = 0;
        for (int r = from; r < to; r++) {
            const struct opt_step *s = &j->left[summed ? rank : r].step[step];
            const struct train_vector *v = &j->t.vector[kind][r][param];
            got += (double)(kind == TRAIN_PROBE ? s->gradient : s->values)[at + i] * j->t.learned[kind][r];
            is += v->world[0][i];
            may += v->may[i];
            learned += j->t.learned[kind][r];
        }
        const double unit = learned > 0 ? 1 / learned : 1;
        opt_near(j->v, step, rank, name, i, got * unit, is * unit, may * unit);
    }
}

/* With sync_bn a rank without labels contributes to the gradients of others, but has no mean of its
 * own. */
static int opt_has_mean(const struct opt_judge *j, int kind, int summed)
{
    int all = 1;
    for (int r = 0; r < j->c->ranks && j->c->config.sync_bn && !summed; r++)
        all &= j->t.learned[kind][r] > 0;
    return all;
}

/* Gradients stand at `at` of what a rank left. */
static void opt_judge_gradients(struct opt_judge *j, int step, int rank, int kind, int64_t at, int summed)
{
    for (int i = 0; i < j->t.graph.param_count; i++) {
        if (gy_param_is_state(j->t.graph.params[i].kind) || !opt_has_mean(j, kind, summed))
            continue;
        opt_judge_gradient(j, step, rank, kind, i, at, summed);
        at += j->t.graph.params[i].count;
    }
}

/* Compares all tensors of a rank with the truth and returns their floats. first: the initial
 * weights are not compared. */
static int64_t opt_judge_tensors(struct opt_judge *j, int step, int rank, const float *got, int first)
{
    int64_t at = 0;
    for (int kind = 0; kind < TRAIN_GRADIENT; kind++)
        for (int i = 0; i < j->t.graph.param_count; i++) {
            if (!opt_has(&j->c->config, kind, !gy_param_is_state(j->t.graph.params[i].kind)))
                continue;
            if (!first || kind != TRAIN_WEIGHT)
                opt_judge_vector(j, step, rank, kind, i, got + at);
            at += j->t.graph.params[i].count;
        }
    return at;
}

static void opt_adopt(struct opt_judge *j, int rank, const float *got)
{
    int64_t at = 0;
    for (int kind = 0; kind < TRAIN_GRADIENT; kind++)
        for (int i = 0; i < j->t.graph.param_count; i++) {
            if (!opt_has(&j->c->config, kind, !gy_param_is_state(j->t.graph.params[i].kind)))
                continue;
            if (kind == TRAIN_STATE || rank == 0)
                train_adopt(&j->t.vector[kind][kind == TRAIN_STATE ? rank : 0][i], got + at);
            at += j->t.graph.params[i].count;
        }
}

/* Before the first step: no momentum, averages are the weights, running variances are 1. */
static void opt_judge_begin(struct opt_judge *j)
{
    const struct train_truth *t = &j->t;
    opt_adopt(j, 0, j->left[0].begin);
    for (int r = 0; r < j->c->ranks; r++)
        for (int i = 0; i < t->graph.param_count; i++) {
            const struct gy_param *p = &t->graph.params[i];
            for (int64_t e = 0; e < p->count; e++) {
                t->vector[TRAIN_MOMENTUM][r][i].world[0][e] = t->vector[TRAIN_SECOND][r][i].world[0][e] = 0;
                t->vector[TRAIN_AVERAGE][r][i].world[0][e] = t->vector[TRAIN_WEIGHT][r][i].world[0][e];
                t->vector[TRAIN_STATE][r][i].world[0][e] = p->kind == GY_PARAM_RUN_VAR;
            }
        }
    for (int r = 0; r < j->c->ranks; r++)
        opt_judge_tensors(j, -1, r, j->left[r].begin, 1);
}

/* A step that fails: nothing moves; what gradients' places hold stays where sums wait in them. */
static void opt_judge_failed(struct opt_judge *j, int step, int rank, int status, const char *says)
{
    const struct opt_left *left = &j->left[rank];
    const float *values = left->step[step].values;
    if (left->step[step].status != status || !strstr(left->step[step].text, says))
        opt_says(j->v, step, rank, "gyre_step did not fail as it should", left->step[step].text);
    const int64_t at = opt_judge_tensors(j, step, rank, values, 0);
    if (j->t.pending > 0 && memcmp(left->step[step - 1].values + at, values + at, (size_t)(OPT_FLOATS - at) * sizeof *values) != 0)
        opt_says(j->v, step, rank, "a step that fails", "gradients that wait have changed");
}

/* gyre_gradient: not where it would overwrite gradients that wait, not without labels. */
static void opt_judge_probe(struct opt_judge *j, int step)
{
    opt_batches(j, OPT_PROBE, step);
    const int gradient = j->c->between == OPT_BETWEEN_GRADIENT, waits = gradient && j->t.pending > 0;
    const int learns = gradient && !waits && train_gradient(&j->t, j->batch);
    const int status = waits ? GYRE_E_STATE : gradient && !learns ? GYRE_E_ARG : GYRE_OK;
    const char *const says = waits ? "gyre_gradient in mid-accumulation" : gradient && !learns ? "no sample has a label" : "";
    for (int r = 0; r < j->c->ranks; r++) {
        const struct opt_step *s = &j->left[r].step[step];
        if (s->probe_status != status || !strstr(s->said, says))
            opt_says(j->v, step, r, "a call between", s->said);
        if (!learns)
            continue;
        opt_judge_result(j, step, r, "gyre_gradient", &s->probe, &j->t.all);
        opt_judge_gradients(j, step, r, TRAIN_PROBE, 0, 0);
    }
}

/* A weight was set: its average is the same. */
static void opt_judge_set(struct opt_judge *j)
{
    struct train_vector *average = &j->t.vector[TRAIN_AVERAGE][0][0];
    memcpy(average->world[0], j->t.vector[TRAIN_WEIGHT][0][0].world[0], (size_t)average->count * sizeof(double));
}

static void opt_judge_between(struct opt_judge *j, int step)
{
    opt_batches(j, OPT_EVAL, step);
    train_eval(&j->t, j->batch);
    for (int r = 0; r < j->c->ranks; r++) {
        const struct opt_step *s = &j->left[r].step[step];
        if (s->eval_status != GYRE_OK)
            opt_says(j->v, step, r, "evaluation", s->said);
        opt_judge_result(j, step, r, "evaluation", &s->eval, &j->t.samples[r]);
        opt_judge_scores(j, step, r, "predictions", s->predicted);
    }
    opt_judge_probe(j, step);
    if (j->c->between == OPT_BETWEEN_SET && j->t.fault != TRAIN_SET_ALONE)
        opt_judge_set(j);
}

static void opt_judge_good(struct opt_judge *j, int step)
{
    for (int r = 0; r < j->c->ranks; r++) {
        const struct opt_step *s = &j->left[r].step[step];
        if (s->status != GYRE_OK)
            opt_says(j->v, step, r, "gyre_step", s->text);
        opt_judge_result(j, step, r, "step", &s->result, &j->t.all);
        opt_near(j->v, step, r, "rate", 0, (double)s->result.rate, j->t.rate, 1e-6 * j->t.rate);
        opt_judge_samples(j, step, r);
        const int64_t at = opt_judge_tensors(j, step, r, s->values, 0);
        opt_judge_gradients(j, step, r, TRAIN_GRADIENT, at, j->t.pending == 0);
    }
    for (int r = 0; r < j->c->ranks; r++)
        opt_adopt(j, r, j->left[r].step[step].values);
}

/* Weights and the optimizer's tensors are equal on all ranks. With shards or sync_bn running
 * statistics are equal, too. */
static void opt_judge_ranks(struct opt_judge *j, int step)
{
    const int common = j->c->config.shards > 0 || j->c->config.sync_bn;
    int64_t count = 0;
    for (int kind = 0; kind <= TRAIN_STATE - !common; kind++)
        for (int i = 0; i < j->t.graph.param_count; i++)
            count += opt_has(&j->c->config, kind, !gy_param_is_state(j->t.graph.params[i].kind)) ? j->t.graph.params[i].count : 0;
    for (int r = 1; r < j->c->ranks; r++)
        if (memcmp(j->left[0].step[step].values, j->left[r].step[step].values, (size_t)count * sizeof(float)) != 0)
            opt_says(j->v, step, r, "tensors", "other bits than rank 0's");
}

static void opt_judge_step(struct opt_judge *j, int step)
{
    const int bad = opt_is_bad(j->c, step);
    opt_batches(j, OPT_TRAIN, step);
    const int learns = !bad && train_step(&j->t, j->batch);
    for (int r = 0; r < j->c->ranks && !learns; r++)
        opt_judge_failed(j, step, r, bad ? GYRE_E_NONFINITE : GYRE_E_ARG, bad ? "the loss is " : "no sample has a label");
    if (learns)
        opt_judge_good(j, step);
    for (int r = 0; r < j->c->ranks; r++)
        if (j->left[r].step[step].resumed[0])
            opt_says(j->v, step, r, "what should be the same", j->left[r].step[step].resumed);
    opt_judge_ranks(j, step);
    opt_judge_between(j, step);
}

static void opt_judge_steps(struct opt_judge *j)
{
    opt_judge_begin(j);
    for (int step = 0; step < OPT_STEPS && !j->v->wrong; step++)
        opt_judge_step(j, step);
}

void opt_judge_all(const struct opt_case *c, const struct opt_left *left, int fault, struct opt_verdict *v)
{
    static struct opt_judge j;
    memset(&j, 0, sizeof j);
    j.c = c;
    j.left = left;
    j.v = v;
    for (int r = 0; r < c->ranks; r++)
        if (left[r].status != GYRE_OK)
            opt_says(v, -1, r, "gyre_open", left[r].text);
    if (v->wrong)
        return;
    if (train_open(&j.t, &c->config, c->ranks, fault) == 0)
        opt_judge_steps(&j);
    else
        opt_says(v, -1, 0, "the truth", "it cannot be opened");
    train_close(&j.t);
}

/* ---- refusals ---- */

static int opt_refused_by(const struct opt_refusal *r, const struct opt_case *c, const struct opt_left *left)
{
    const int status = r->at_step ? left->step[0].status : left->status;
    return r->when(c) && status == r->status && strstr(r->at_step ? left->step[0].text : left->text, r->says);
}

int opt_judge_refusal(const struct opt_case *c, const struct opt_left *left, struct opt_verdict *v)
{
    int must = 0;
    for (int i = 0; i < opt_refusal_count; i++)
        must |= opt_refusals[i].when(c);
    for (int r = 0; r < c->ranks && must; r++) {
        int rightly = 0;
        for (int i = 0; i < opt_refusal_count; i++)
            rightly |= opt_refused_by(&opt_refusals[i], c, &left[r]);
        if (!rightly)
            opt_says(v, -1, r, "not refused as it should be", left[r].status != GYRE_OK ? left[r].text : left[r].step[0].text);
    }
    v->refused = must;
    return must;
}

/* ---- the way back of a failure ---- */

void opt_shrink(struct opt_case *c,
                void (*judge)(const void *user, struct opt_case *c, struct opt_verdict *v),
                const void *user, struct opt_verdict *v)
{
    for (int again = 1; again;) {
        again = 0;
        for (int i = 0; i < opt_row_count; i++) {
            struct opt_case plainer = *c;
            struct opt_verdict other;
            if (c->pick[i] == 0)
                continue;
            plainer.pick[i] = 0;
            judge(user, &plainer, &other);
            if (!other.wrong || plainer.pick[i] != 0)
                continue;
            *c = plainer;
            *v = other;
            again = 1;
        }
    }
}
