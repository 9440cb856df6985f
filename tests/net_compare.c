/* SPDX-License-Identifier: MIT */
/* net_compare.c: compares the engine's numbers with the interpreter's. How far they may differ is
 * measured: the interpreter runs once more with every value rounded at random. A few times that
 * difference is allowed. */
#include "tests/net_case.h"

/* Numbers are rounded to so many parts of a value: f32 has 24 bits, bf16 8. Transforms of
 * convolutions cost f32 a few bits. */
static const double compare_rounding[2] = { 1.0 / (1 << 22), 1.0 / (1 << 9) };
#define COMPARE_FACTOR 8  /* so often may an error exceed the measured noise, */
#define COMPARE_SUMS 8    /* and so often the rounding of a number of the same size */
#define COMPARE_ILL 0.2   /* of the gradients: with more noise a net is ill-conditioned */
#define COMPARE_NEAR 1e-4 /* of the root mean square: nearer to a kink, it counts */

static double compare_norm(const double *a, const double *b, int64_t count)
{
    double squares = 0;
    for (int64_t i = 0; i < count; i++)
        squares += (a[i] - (b ? b[i] : 0)) * (a[i] - (b ? b[i] : 0));
    return sqrt(squares);
}

/* ---- the truth ---- */

struct compare_watch {
    const struct truth *t;
    double noise;
    /* 1: values are rounded to nearest, so nearly equal numbers round alike; 0: at random */
    int nearest;
    struct random_draw d;
    int back;
    int64_t kinks;
};

static void compare_count_kinks(struct compare_watch *w, int i, const double *y, int64_t count)
{
    const struct gy_node *node = &w->t->graph->nodes[i];
    const struct gy_geom *g = &node->geom;
    const double *x = w->t->value[node->input[0]];
    const int64_t in = (int64_t)w->t->now->count * g->h * g->w * g->c;
    double squares = 0;
    for (int64_t k = 0; k < in; k++)
        squares += x[k] * x[k];
    const double near = COMPARE_NEAR * sqrt(squares / (double)in);
    for (int64_t at = 0; at < count && node->layer != GY_LAYER_MAXPOOL; at++)
        w->kinks += x[at] != 0 && (fabs(x[at]) < near || (node->layer == GY_LAYER_RELU6 && fabs(x[at] - 6) < near));
    for (int64_t at = 0; at < count && node->layer == GY_LAYER_MAXPOOL; at++) {
        const int64_t c = at % g->k, q = at / g->k % g->q, p = at / g->k / g->q % g->p, n = at / g->k / g->q / g->p;
        int close = 0;
        for (int64_t h = p * g->stride_h - g->pad_h; h < p * g->stride_h - g->pad_h + g->r; h++)
            for (int64_t v = q * g->stride_w - g->pad_w; v < q * g->stride_w - g->pad_w + g->s; v++)
                close += h >= 0 && v >= 0 && h < g->h && v < g->w &&
                         y[at] - x[((n * g->h + h) * g->w + v) * g->c + c] < near;
        w->kinks += close > 1;
    }
}

/* Mean and 1 / deviation that batch norm i used for channel c; how many values there are of it. */
static int64_t compare_statistics(const struct truth *t, int i, int64_t c, double *mean, double *rstd)
{
    const struct gy_node *node = &t->graph->nodes[i];
    const int64_t step = node->geom.k, count = (int64_t)t->now->count * node->geom.p * node->geom.q;
    const double *x = t->value[node->input[0]];
    double squares = 0;
    *mean = t->training ? 0 : t->param[node->run_mean][c];
    for (int64_t k = 0; t->training && k < count; k++)
        *mean += x[k * step + c] / (double)count;
    for (int64_t k = 0; t->training && k < count; k++)
        squares += (x[k * step + c] - *mean) * (x[k * step + c] - *mean) / (double)count;
    *rstd = 1 / sqrt((t->training ? squares : t->param[node->run_var][c]) + (double)node->f[0]);
    return count;
}

/* A channel's sums are rounded once for all its values: forward its mean and deviation, back the
 * mean of its gradients. Values: of the norm itself, or the gradient of what it reads. */
static void compare_round_norm(struct compare_watch *w, int i, double *values)
{
    const struct gy_node *node = &w->t->graph->nodes[i];
    for (int64_t c = 0; c < node->geom.k; c++) {
        double mean, rstd, terms = 0;
        const int64_t count = compare_statistics(w->t, i, c, &mean, &rstd), step = node->geom.k;
        const double gamma = w->t->param[node->weight][c], sums = compare_rounding[0] * (1 + (double)count / 64);
        for (int64_t k = 0; w->back && k < count; k++)
            terms += fabs(w->t->dvalue[i][k * step + c]) / (double)count;
        const double shift = sums * gamma * rstd * (w->back ? terms : fabs(mean)) * random_real(&w->d, -1, 1);
        for (int64_t k = 0; k < count; k++)
            values[k * step + c] += shift;
    }
}

/* To eight bits of mantissa, as bf16 has. */
static double compare_nearest(double value)
{
    int exponent;
    const double mantissa = frexp(value, &exponent);
    return ldexp(floor(mantissa * 256 + 0.5), exponent - 8);
}

static void compare_seen(void *user, int node, double *values, int64_t count)
{
    struct compare_watch *w = user;
    const struct gy_graph *g = w->t->graph;
    const int layer = g->nodes[node].layer;
    if (w->noise <= 0 && !w->back && (layer == GY_LAYER_RELU || layer == GY_LAYER_RELU6 || layer == GY_LAYER_LEAKY ||
                                       layer == GY_LAYER_MAXPOOL))
        compare_count_kinks(w, node, values, count);
    if (w->noise <= 0)
        return;
    for (int i = w->back ? node + 1 : node; i < (w->back ? g->node_count : node + 1); i++)
        if (g->nodes[i].layer == GY_LAYER_BN && (!w->back || g->nodes[i].input[0] == node))
            compare_round_norm(w, i, values);
    for (int64_t i = 0; i < count; i++)
        values[i] = w->nearest ? compare_nearest(values[i] * (1 + w->noise / 16 * random_real(&w->d, -1, 1)))
                               : values[i] * (1 + w->noise * random_real(&w->d, -1, 1));
}

static double *compare_copy(double *to, const double *from, int64_t count)
{
    memcpy(to, from, (size_t)count * sizeof *to);
    return to + count;
}

/* The interpreter's answer, in the order of parts. */
static void compare_answer(struct net_test *t, struct truth *truth, double noise, int nearest, double *answer)
{
    const int64_t scores = (int64_t)t->c->count * t->graph.classes;
    struct compare_watch watch = {
        .t = truth, .noise = noise, .nearest = nearest, .d = { t->c->seed + 77u * (uint64_t)t->noise_draws++ }
    };
    truth->seen = compare_seen;
    truth->user = &watch;
    for (int i = 0; i < t->graph.param_count; i++)
        for (int64_t k = 0; k < t->graph.params[i].count; k++)
            truth->param[i][k] = (double)t->param[i][k];
    truth_forward(truth, &t->exact, 0);
    answer = compare_copy(answer, truth->scores, scores);
    answer = compare_copy(answer, truth->loss, t->c->count);
    watch.kinks = 0;
    for (int micro = 0; micro < t->c->accumulate; micro++) {
        watch.back = 0;
        t->exact.step = (uint64_t)micro;
        truth_forward(truth, &t->exact, 1);
        watch.back = 1;
        truth_backward(truth);
        double *at = compare_copy(answer, truth->scores, scores);
        at = compare_copy(at, truth->loss, t->c->count);
        at = compare_copy(at, &truth->mean_loss, 1);
        for (int i = 0; i < t->graph.param_count; i++) {
            const int state = gy_param_is_state(t->graph.params[i].kind);
            for (int64_t k = 0; k < t->graph.params[i].count; k++, at++)
                *at = state ? truth->param[i][k] : truth->grad[i][k] / t->c->accumulate + (micro ? *at : 0);
        }
    }
    t->kinks = noise > 0 ? t->kinks : watch.kinks;
}

static int compare_truth_open(const struct net_test *t, struct truth *truth)
{
    if (truth_open(truth, &t->graph, t->c->count) != 0)
        return 0;
    for (int c = 0; c < 4; c++) {
        truth->mean[c] = (double)t->mean[c];
        truth->std[c] = (double)t->std[c];
    }
    return 1;
}

/* The sum of a channel's gradients by their sizes, as a length over channels. A zero sum of large
 * numbers is not computed as zero. */
static double compare_terms(const struct truth *truth, int node)
{
    const struct gy_geom *g = &truth->graph->nodes[node].geom;
    double squares = 0;
    for (int32_t c = 0; c < g->k; c++) {
        double sum = 0;
        for (int64_t i = c; i < (int64_t)truth->now->count * g->p * g->q * g->k; i += g->k)
            sum += fabs(truth->dvalue[node][i]);
        squares += sum * sum;
    }
    return sqrt(squares);
}

/* What batch norm `node` reads, and 1: the root of the mean square of a channel, as a length over
 * channels. */
static double compare_values(const struct truth *truth, int node)
{
    const struct gy_geom *g = &truth->graph->nodes[node].geom;
    const double *x = truth->value[truth->graph->nodes[node].input[0]];
    const int64_t pixels = (int64_t)truth->now->count * g->p * g->q;
    double squares = 0;
    for (int64_t i = 0; i < pixels * g->k; i++)
        squares += x[i] * x[i];
    return sqrt(g->k + squares / (double)pixels);
}

/* Backward begins with scores less what they should be: where these are close, the scores' own
 * rounding weighs more. At least 1. */
static double compare_cancelled(const struct net_test *t, const struct truth *truth)
{
    const int64_t scores = (int64_t)t->c->count * t->graph.classes;
    const double left =
        compare_norm(truth->dvalue[t->graph.output], NULL, scores) * (truth->labelled ? truth->labelled : 1);
    return left > 0 ? fmax(1, compare_norm(truth->scores, NULL, scores) / left) : 1;
}

/* What the size of a part's rounding errors is measured by: a gradient is beside the others, a
 * running value is of the norm's input. */
static void compare_sizes(struct net_test *t, const struct truth *truth)
{
    const double cancelled = compare_cancelled(t, truth);
    double gradients = 0;
    for (int p = 0; p < t->part_count; p++) {
        const struct net_part *part = &t->part[p];
        t->size[p] = compare_norm(t->truth + part->first, NULL, part->count);
        gradients = part->kind == NET_GRADIENT ? hypot(gradients, t->size[p]) : gradients;
    }
    for (int p = 0; p < t->part_count; p++) {
        const struct net_part *part = &t->part[p];
        if (part->kind == NET_GRADIENT)
            t->size[p] = cancelled * hypot(gradients, compare_terms(truth, part->node));
        else if (part->kind == NET_RUNNING)
            t->size[p] = hypot(t->size[p], compare_values(truth, part->node));
    }
}

int net_test_add_noise(struct net_test *t, int dtype)
{
    struct truth truth;
    const int half = dtype == GYRE_BF16;
    if (!compare_truth_open(t, &truth))
        return -1;
    compare_answer(t, &truth, compare_rounding[half], half && t->noise_draws % 2 == 0, t->noisy);
    for (int p = 0; p < t->part_count; p++)
        t->noise[half][p] = fmax(t->noise[half][p], compare_norm(t->noisy + t->part[p].first,
                                                                 t->truth + t->part[p].first, t->part[p].count));
    truth_close(&truth);
    return 0;
}

int net_test_truths(struct net_test *t)
{
    struct truth truth;
    t->noisy = gy_arena_take(&t->arena, (size_t)t->count, sizeof *t->noisy);
    t->truth = gy_arena_take(&t->arena, (size_t)t->count, sizeof *t->truth);
    t->size = gy_arena_take(&t->arena, (size_t)t->part_count, sizeof(double));
    t->noise[0] = gy_arena_take(&t->arena, (size_t)t->part_count, sizeof(double));
    t->noise[1] = gy_arena_take(&t->arena, (size_t)t->part_count, sizeof(double));
    if (!t->noisy || !t->truth || !t->size || !t->noise[0] || !t->noise[1] || !compare_truth_open(t, &truth))
        return 0;
    compare_answer(t, &truth, 0, 0, t->truth);
    compare_sizes(t, &truth);
    truth_close(&truth);
    return 1;
}

/* ---- the comparison ---- */

/* Pixels of a batch: terms of the longest sum, one after the other, over numbers that may all be
 * equal and round alike. */
static double compare_longest_sum(const struct net_test *t)
{
    int64_t most = 0;
    for (int i = 0; i < t->graph.node_count; i++)
        most = gy_max64(most, (int64_t)t->c->count * t->graph.nodes[i].geom.p * t->graph.nodes[i].geom.q);
    return (double)most;
}

int net_test_is_ill(const struct net_test *t, int dtype)
{
    double noise = 0, truth = 0;
    for (int p = 0; p < t->part_count; p++) {
        const struct net_part *part = &t->part[p];
        if (part->kind != NET_GRADIENT)
            continue;
        noise = hypot(noise, t->noise[dtype == GYRE_BF16][p]);
        truth = hypot(truth, compare_norm(t->truth + part->first, NULL, part->count));
    }
    return noise > COMPARE_ILL * truth;
}

/* How far part p may be off: what rounding does to it, and to sums, which are f32 in every type, of
 * so many terms of its size. */
static double compare_allowed(const struct net_test *t, int dtype, int p)
{
    const int half = dtype == GYRE_BF16;
    const double sums = (COMPARE_SUMS + compare_longest_sum(t) / 16) * compare_rounding[0];
    const double allowed = COMPARE_FACTOR * t->noise[half][p] + (sums + half * 4 * compare_rounding[1]) * t->size[p];
    return half && net_test_is_ill(t, dtype) ? 100 * allowed : allowed; /* garbage is still seen */
}

double net_test_off(const struct net_test *t, int dtype, const double *answer, char *why)
{
    double worst = 0;
    for (int p = 0; p < t->part_count && isfinite(worst); p++) {
        const struct net_part *part = &t->part[p];
        const double off = compare_norm(answer + part->first, t->truth + part->first, part->count),
                     may = compare_allowed(t, dtype, p);
        if (part->kind == NET_UPDATED || off <= may * worst)
            continue;
        worst = off / may;
        snprintf(why, NET_WHY, "%s: off by %.3g of %.3g, %.3g allowed", part->name, off,
                 compare_norm(t->truth + part->first, NULL, part->count), may);
    }
    return worst;
}

/* ---- what an update makes of gradients, by the rules of gyre.h, in the first step ---- */

static double compare_rule(const struct gyre_optimizer *o, int decays, double w, double g, double ratio)
{
    const double decay = decays ? (double)o->weight_decay : 0, lr = (double)NET_RATE, mu = (double)o->momentum,
                 v = g + decay * w;
    if (o->kind == GYRE_ADAMW)
        /* the first update: its corrected moments are g and g^2 */
        return w - lr * decay * w - lr * g / (fabs(g) + (double)o->eps);
    return o->kind == GYRE_LARS || o->kind == GYRE_LARS_UNSCALED ? w - lr * ratio * v : w - lr * (o->nesterov ? v + mu * v : v);
}

static int compare_param_updated(const struct net_test *t, const struct gy_param *p, const float *before,
                              const double *grad, const double *after)
{
    const struct gyre_optimizer o = net_case_optimizer(t->c);
    const int decays = o.decay_all || p->kind == GY_PARAM_CONV_WEIGHT || p->kind == GY_PARAM_LINEAR_WEIGHT;
    const double g_norm = compare_norm(grad, NULL, p->count);
    double w_norm = 0;
    for (int64_t k = 0; k < p->count; k++)
        w_norm = hypot(w_norm, (double)before[k]);
    const double ratio = decays && w_norm > 0 && g_norm > 0
                             ? (double)o.lars_eta * w_norm / (g_norm + (double)o.weight_decay * w_norm)
                             : 1;
    for (int64_t k = 0; k < p->count; k++) {
        const double w = (double)before[k], to = compare_rule(&o, decays, w, grad[k], ratio);
        if (!(fabs(after[k] - to) <= 1e-6 * fabs(w) + 1e-4 * fabs(to - w) + 1e-30))
            return (int)k + 1;
    }
    return 0;
}

/* The gradient is nothing, or its square is a number in f32 too: where it is none, a rule's norm of
 * it is 0. */
static int compare_has_norm(const double *grad, int64_t count)
{
    const double norm = compare_norm(grad, NULL, count);
    return norm == 0 || norm > 1e-17;
}

int net_test_updated(const struct net_test *t, const double *answer, char *why)
{
    const int params = t->graph.param_count, first = t->part_count - 2 * params;
    for (int i = 0; i < params; i++) {
        const struct gy_param *p = &t->graph.params[i];
        const double *grad = answer + t->part[first + i].first, *after = answer + t->part[first + params + i].first;
        const int checked = !gy_param_is_state(p->kind) && compare_has_norm(grad, p->count);
        const int wrong = checked ? compare_param_updated(t, p, t->param[i], grad, after) : 0;
        if (!wrong)
            continue;
        snprintf(why, NET_WHY, "updated %s[%d]: %.9g to %.9g is not by the rule, with gradient %.9g", p->name,
                 wrong - 1, (double)t->param[i][wrong - 1], after[wrong - 1], grad[wrong - 1]);
        return -1;
    }
    return 0;
}
