/* SPDX-License-Identifier: MIT */
/* train_rules.c: the update rules, an element at a time. How far an element may be off follows from
 * its gradient and from the norms, each taken as far off as it may be. */
#include "tests/train_rules.h"

#define TRAIN_STEPS 8                    /* of halving what a gradient may be off */
#define TRAIN_MORE 1.1                   /* nor where it was looked at */
/* 2^-21: eight half steps of float, for the roundings of one update */
#define TRAIN_ROUND 4.76837158203125e-7

static const double train_pi = 3.14159265358979323846;

/* ---- the rate ---- */

static double train_steps_rate(const struct gyre_schedule *s, int64_t update, int fault)
{
    double rate = (double)s->rate;
    for (int i = 0; i < 8 && s->milestone[i] > 0; i++)
        rate *= update >= s->milestone[i] + (fault == TRAIN_MILESTONE_LATE) ? (double)s->gamma : 1;
    return rate;
}

/* After the rise, which takes the first `warmup` updates; 0 .. 1 of the way to the end. */
static double train_way(const struct gyre_schedule *s, int64_t update, int fault)
{
    const int64_t before = fault == TRAIN_WARMUP_COUNTS ? 0 : s->warmup;
    const double way = (double)(update - before) / (double)(s->steps - before > 1 ? s->steps - before : 1);
    return way > 1 && fault != TRAIN_PAST_END ? 1 : way;
}

double train_rate(const struct gyre_schedule *s, int64_t update, int fault)
{
    const int64_t n = update - (fault == TRAIN_RATE_LATE && update > 0);
    const double high = (double)s->rate, way = train_way(s, n, fault);
    const double low = fault == TRAIN_FINAL_0 ? 0 : (double)s->final_rate, first = fault == TRAIN_WARMUP_FROM_0 ? 0 : (double)s->warmup_from;
    if (n < s->warmup && fault != TRAIN_NO_WARMUP)
        return first + (high - first) * (double)(n + 1) / (double)s->warmup;
    if (s->kind == GYRE_STEPS)
        return train_steps_rate(s, n, fault);
    if (s->kind == GYRE_COSINE)
        return low + (high - low) * (1 + cos(train_pi * way)) / 2;
    if (s->kind == GYRE_POLY)
        return low + (high - low) * pow(1 - way, fault == TRAIN_POWER_1 ? 1 : (double)s->power);
    return high;
}

/* ---- one element ---- */

/* What is the same for all elements of a parameter. */
struct train_rule {
    const struct gyre_optimizer *o;
    double rate, decay, keep, cut, ratio, right1, right2; /* right: 1 - beta^t */
    int fault;
};

/* Of one element: weight, momentum, second moment, average. */
struct train_four {
    double of[TRAIN_STATE];
};

static void train_sgd(const struct train_rule *r, double g, struct train_four *e)
{
    const double mu = r->fault == TRAIN_NO_MOMENTUM ? 0 : (double)r->o->momentum;
    const int nesterov = r->o->nesterov && r->fault != TRAIN_NO_NESTEROV;
    const double slope = g + r->decay * e->of[TRAIN_WEIGHT];
    const double m = e->of[TRAIN_MOMENTUM] = mu * e->of[TRAIN_MOMENTUM] + slope * (r->fault == TRAIN_RATE_IN_MOMENTUM ? r->rate : 1);
    e->of[TRAIN_WEIGHT] -= (r->fault == TRAIN_RATE_IN_MOMENTUM ? 1 : r->rate) * (nesterov ? slope + mu * m : m);
}

static void train_lars(const struct train_rule *r, double g, struct train_four *e)
{
    const double mu = r->fault == TRAIN_NO_MOMENTUM ? 0 : (double)r->o->momentum, all = r->rate * r->ratio;
    const int nesterov = r->o->nesterov && r->fault != TRAIN_NO_NESTEROV;
    const int unscaled = (r->o->kind == GYRE_LARS_UNSCALED) != (r->fault == TRAIN_OTHER_LARS);
    const double step = (unscaled ? 1 : all) * (g + r->decay * e->of[TRAIN_WEIGHT]);
    const double m = e->of[TRAIN_MOMENTUM] = mu * e->of[TRAIN_MOMENTUM] + step;
    e->of[TRAIN_WEIGHT] -= (unscaled ? all : 1) * (nesterov ? step + mu * m : m);
}

/* Decay apart from the moments (Loshchilov and Hutter 2019). */
static void train_adamw(const struct train_rule *r, double g, struct train_four *e)
{
    const int swapped = r->fault == TRAIN_BETAS_SWAPPED, mixed = r->fault == TRAIN_DECAY_AS_L2, bare = r->fault == TRAIN_NO_CORRECTION;
    const double b1 = (double)(swapped ? r->o->beta2 : r->o->beta1), b2 = (double)(swapped ? r->o->beta1 : r->o->beta2);
    const double slope = g + (mixed ? r->decay * e->of[TRAIN_WEIGHT] : 0), eps = (double)r->o->eps;
    const double m = e->of[TRAIN_MOMENTUM] = b1 * e->of[TRAIN_MOMENTUM] + (1 - b1) * slope;
    const double v = e->of[TRAIN_SECOND] = b2 * e->of[TRAIN_SECOND] + (1 - b2) * slope * slope;
    const double first = bare ? m : m / r->right1, second = bare ? v : v / r->right2;
    e->of[TRAIN_WEIGHT] -= mixed ? 0 : r->rate * r->decay * e->of[TRAIN_WEIGHT];
    e->of[TRAIN_WEIGHT] -= r->rate * first / (r->fault == TRAIN_EPS_INSIDE ? sqrt(second + eps) : sqrt(second) + eps);
}

/* The moments anew, and the step of rate 1 (You et al. 2020). */
static double train_lamb_step(const struct train_rule *r, double g, struct train_four *e)
{
    const int swapped = r->fault == TRAIN_BETAS_SWAPPED, bare = r->fault == TRAIN_NO_CORRECTION;
    const double b1 = (double)(swapped ? r->o->beta2 : r->o->beta1), b2 = (double)(swapped ? r->o->beta1 : r->o->beta2);
    const double m = e->of[TRAIN_MOMENTUM] = b1 * e->of[TRAIN_MOMENTUM] + (1 - b1) * g;
    const double v = e->of[TRAIN_SECOND] = b2 * e->of[TRAIN_SECOND] + (1 - b2) * g * g;
    const double first = bare ? m : m / r->right1, second = sqrt(bare ? v : v / r->right2);
    return first / (second + (double)r->o->eps) + r->decay * e->of[TRAIN_WEIGHT];
}

static void train_lamb(const struct train_rule *r, double g, struct train_four *e)
{
    const double step = train_lamb_step(r, g, e);
    e->of[TRAIN_WEIGHT] -= r->rate * r->ratio * step;
}

/* ORDER: enum gyre_optimizer_kind */
static void (*const train_kinds[])(const struct train_rule *, double, struct train_four *) = {
    train_sgd, train_lars, train_adamw, train_lamb, train_lars
};
GY_STATIC_ASSERT(GY_COUNT(train_kinds) == GYRE_OPTIMIZERS, train_kinds);

static struct train_four train_element(const struct train_rule *r, double g, const struct train_four *was)
{
    struct train_four e = *was;
    train_kinds[r->o->kind](r, g * r->cut, &e);
    const double seen = r->fault == TRAIN_AVERAGE_BEFORE ? was->of[TRAIN_WEIGHT] : e.of[TRAIN_WEIGHT];
    e.of[TRAIN_AVERAGE] = r->keep * e.of[TRAIN_AVERAGE] + (1 - r->keep) * seen;
    return e;
}

/* ---- norms ---- */

/* Of a parameter and of the whole gradient; off: how far they may be off. */
struct train_norms {
    double w, g, all, g_off, all_off;
    double u, u_off; /* LAMB's steps */
};

/* Samples that an update learns from: the labelled ones of all calls, shards and ranks. */
static double train_learned(const struct train_truth *t)
{
    const double calls = t->fault == TRAIN_SUM_OF_CALLS ? t->config->accumulate : 1, ranks = t->fault == TRAIN_SUM_OF_RANKS ? t->ranks : 1;
    const double shards = t->fault == TRAIN_SUM_OF_SHARDS ? t->shards : 1;
    double sum = 0;
    for (int r = 0; r < t->ranks; r++)
        sum += t->learned[TRAIN_GRADIENT][r];
    return sum / calls / ranks / shards;
}

/* The mean over them. may: what it may be off. */
static double train_mean(const struct train_truth *t, int param, int64_t element, int may)
{
    double sum = 0;
    for (int r = 0; r < t->ranks; r++) {
        const struct train_vector *v = &t->vector[TRAIN_GRADIENT][r][param];
        sum += may ? v->may[element] : v->world[0][element];
    }
    return sum / (t->fault == TRAIN_CLIP_SUM ? 1 : train_learned(t));
}

static void train_norms_of(const struct train_truth *t, int param, struct train_norms *n)
{
    double w = 0, g = 0, off = 0;
    for (int64_t e = 0; e < t->graph.params[param].count; e++) {
        w += pow(t->vector[TRAIN_WEIGHT][0][param].world[0][e], 2);
        g += pow(train_mean(t, param, e, 0), 2);
        off += pow(train_mean(t, param, e, 1), 2);
    }
    n->w = sqrt(w);
    n->g = sqrt(g);
    n->g_off = sqrt(off) + TRAIN_ROUND * n->g;
}

static int train_decays(const struct train_truth *t, int param)
{
    const int kind = t->graph.params[param].kind, weight = kind == GY_PARAM_CONV_WEIGHT || kind == GY_PARAM_LINEAR_WEIGHT;
    return (weight || t->config->optimizer.decay_all || t->fault == TRAIN_DECAY_BIASES) && (weight || t->fault != TRAIN_DECAY_NO_BIASES);
}

/* The rule with norms that are off by so many times what they may be off. */
static struct train_rule train_rule_of(const struct train_truth *t, int param, const struct train_norms *n, double g_off, double all_off)
{
    const struct gyre_optimizer *o = &t->config->optimizer;
    const int decays = train_decays(t, param), fault = t->fault;
    const double step = (double)t->updates + 1, ramp = (1 + (double)t->updates) / (10 + (double)t->updates), clip = (double)o->clip_norm;
    const double own = fmax(0, n->g + g_off * n->g_off), all = fault == TRAIN_CLIP_EACH ? own : fmax(0, n->all + all_off * n->all_off);
    const double unit = fault == TRAIN_CLIP_SUM ? 1 / train_learned(t) : 1;
    struct train_rule r = { .o = o, .rate = t->rate, .decay = decays && fault != TRAIN_NO_DECAY ? (double)o->weight_decay : 0, .fault = fault };
    r.right1 = 1 - pow((double)o->beta1, step);
    r.right2 = 1 - pow((double)o->beta2, step);
    r.keep = fault == TRAIN_NO_RAMP ? (double)o->ema : fmin((double)o->ema, ramp);
    r.cut = clip > 0 && (all > clip || fault == TRAIN_CLIP_ALWAYS) && fault != TRAIN_NO_CLIP ? clip / all : 1;
    const double seen = (fault == TRAIN_RATIO_UNCUT ? 1 : r.cut) * own, below = seen + (fault == TRAIN_RATIO_NO_DECAY ? 0 : r.decay * n->w);
    const int adapts = (decays || fault == TRAIN_RATIO_OF_BIASES) && n->w > 0 && seen > 0 && fault != TRAIN_NO_RATIO;
    r.ratio = adapts ? (double)o->lars_eta * n->w / below : 1;
    const int lamb = (decays || fault == TRAIN_RATIO_OF_BIASES) && n->w > 0 && n->u > 0 && fault != TRAIN_NO_RATIO;
    if (o->kind == GYRE_LAMB)
        r.ratio = lamb ? n->w / fmax(n->u + g_off * n->u_off, n->u / 2) : 1;
    r.cut *= unit;
    return r;
}

/* LAMB: computes the norm of a parameter's steps, and bounds its error from errors of the gradients
 * and of the clip factor. */
static void train_lamb_norms(const struct train_truth *t, int param, struct train_norms *n)
{
    double u = 0, off = 0;
    for (int64_t e = 0; e < t->graph.params[param].count; e++) {
        const double g = train_mean(t, param, e, 0), g_off = train_mean(t, param, e, 1);
        double is = 0, far = 0;
        for (int k = 0; k < 5; k++) {
            const struct train_rule r = train_rule_of(t, param, n, 0, k == 3 ? 1 : k == 4 ? -1 : 0);
            struct train_four was;
            for (int i = 0; i < TRAIN_STATE; i++)
                was.of[i] = t->vector[i][0][param].world[0][e];
            const double step = train_lamb_step(&r, r.cut * (g + (k == 1 ? g_off : k == 2 ? -g_off : 0)), &was);
            is = k == 0 ? step : is;
            far = fmax(far, fabs(step - is));
        }
        u += is * is;
        off += far * far;
    }
    n->u = sqrt(u);
    n->u_off = sqrt(off) + TRAIN_ROUND * n->u;
}

/* ---- all elements ---- */

static void train_further(double off[TRAIN_STATE], const struct train_four *a, const struct train_four *b)
{
    for (int k = 0; k < TRAIN_STATE; k++)
        off[k] = fmax(off[k], fabs(a->of[k] - b->of[k]));
}

/* The element anew; off: its gradient may be off, and so may the norms. */
static struct train_four train_renew(const struct train_truth *t, int param, int64_t e, const struct train_norms *n, double off[TRAIN_STATE])
{
    const double g = train_mean(t, param, e, 0), g_off = train_mean(t, param, e, 1);
    const struct train_rule rule = train_rule_of(t, param, n, 0, 0);
    double by_norm[TRAIN_STATE] = { 0 };
    struct train_four was;
    for (int k = 0; k < TRAIN_STATE; k++)
        was.of[k] = t->vector[k][0][param].world[0][e];
    const struct train_four is = train_element(&rule, g, &was);
    for (int k = 0; k < 2 * TRAIN_STEPS; k++) { /* AdamW's step need not be largest at an end, */
        const double far = ldexp(k % 2 ? 1 : -1, -(k / 2)) * g_off;
        const struct train_four other = train_element(&rule, g + far, &was);
        train_further(off, &is, &other);
    }
    for (int corner = 0; corner < 4; corner++) {
        const struct train_rule moved = train_rule_of(t, param, n, corner & 1 ? 1 : -1, corner & 2 ? 1 : -1);
        const struct train_four other = train_element(&moved, g, &was);
        train_further(by_norm, &is, &other);
    }
    for (int k = 0; k < TRAIN_STATE; k++)
        off[k] = TRAIN_MORE * (off[k] + by_norm[k]) + TRAIN_ROUND * (fabs(was.of[k]) + fabs(is.of[k]));
    return is;
}

static void train_renew_param(struct train_truth *t, int param, const struct train_norms *n)
{
    for (int64_t e = 0; e < t->graph.params[param].count; e++) {
        double off[TRAIN_STATE] = { 0 };
        const struct train_four is = train_renew(t, param, e, n, off);
        for (int k = 0; k < TRAIN_STATE; k++) {
            t->vector[k][0][param].world[0][e] = is.of[k];
            t->vector[k][0][param].may[e] = off[k];
        }
    }
}

void train_update(struct train_truth *t)
{
    struct train_norms norms[TRAIN_PARAMS] = { { 0 } };
    double all = 0, off = 0;
    for (int i = 0; i < t->graph.param_count; i++) {
        if (gy_param_is_state(t->graph.params[i].kind))
            continue;
        train_norms_of(t, i, &norms[i]);
        all += norms[i].g * norms[i].g;
        off += norms[i].g_off * norms[i].g_off;
    }
    for (int i = 0; i < t->graph.param_count; i++) {
        norms[i].all = sqrt(all);
        norms[i].all_off = sqrt(off);
        if (t->config->optimizer.kind == GYRE_LAMB && !gy_param_is_state(t->graph.params[i].kind))
            train_lamb_norms(t, i, &norms[i]);
        if (!gy_param_is_state(t->graph.params[i].kind))
            train_renew_param(t, i, &norms[i]);
    }
}
