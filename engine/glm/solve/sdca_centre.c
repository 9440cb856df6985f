/* SPDX-License-Identifier: MIT */
/* The centre of the proximal term, and kappa; sdca.c calls it between passes. A larger kappa takes
 * a pass faster towards the best point of its own problem, and those points slower towards the best
 * of all. Both are balanced where the gap that is left inside, summed by the pass, is about
 * CENTRE_BALANCE times kappa / 2 |w - centre|^2, which is what the centre still lacks. So kappa is
 * moved towards that by steps. Between ranks a pass sums only a part of that gap: each rank's dual
 * variables agree with its own copy of the weights. The rest falls slowly where kappa is small, so
 * the balance is another one. The centre runs ahead by the momentum that belongs to kappa for
 * strongly convex functions. Points of several ranks are rough. There it does not run ahead where
 * the weights turn back from it. (O'Donoghue and Candes, "Adaptive restart for accelerated gradient
 * schemes", 2015.) */
#include "engine/glm/solve/sdca_state.h"

#define CENTRE_TILE 4096
#define CENTRE_BALANCE 15.0
/* the gap at the weights over the gap summed by the pass, from which on ranks hide it */
#define CENTRE_HIDDEN 3.0
#define CENTRE_BALANCE_HIDDEN 0.7
/* every this-many-th row gives the gap at the weights, where there are more rows than the next
 * number */
#define CENTRE_SAMPLE 8
#define CENTRE_SAMPLED 8192
#define CENTRE_STEP 2.0     /* most that kappa changes by */
/* least factor between ranks: they take long to repair what a smaller one has spoilt */
#define CENTRE_DOWN_RANKS 0.7
#define CENTRE_LEAST 0.02   /* kappa / l2 */
#define CENTRE_MOST 4096.0
/* kappa / l2 at first, over the mean |x|^2 / l2 times the loss's curvature */
#define CENTRE_FIRST 0.25
#define CENTRE_HINGE 1.2    /* kappa of the hinge loss at first, over sqrt(l2 mean |x|^2) */
#define CENTRE_HINGE_STEP 1.21 /* most that it changes by */
/* the goal: the rate at which the centre's steps shrink, over that of exact passes; as measured */
#define CENTRE_SHRINKS 0.6

struct centre_job {
    struct gy_sdca *s;
    double kappa;       /* the next */
    float ahead;
};

GY_INT double gy_sdca_kappa(const struct gy_sdca *s, double square, double rows)
{
    const double l2 = s->run->problem->l2;
    if (s->prox.plain || !(rows > 0))
        return 0;
    const double mean = square / rows;
    /* A kink: a pass gains about (l2 + kappa) / |x|^2 inside, and the centre l2 / (l2 + kappa):
     * alike where kappa is about their geometric mean. */
    const double smooth = CENTRE_FIRST * s->loss->curvature * mean;
    const double kappa = s->rough ? CENTRE_HINGE * sqrt(l2 * mean) : smooth;
    return fmin(kappa, CENTRE_MOST * l2);
}

static void centre_measure_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const int64_t end = gy_min64(s->dim, (tile + 1) * CENTRE_TILE);
    const float soft = gy_sdca_soft(s);
    float sum[4] = { 0, 0, 0, 0 }, along[4] = { 0, 0, 0, 0 };
    (void)thread;
    for (int64_t j = tile * CENTRE_TILE; j < end; j++) {
        const float w = gy_sdca_shrink(s->u[j], soft), d = w - s->prox.centre[j];
        sum[j & 3] += d * d;
        along[j & 3] += d * (w - s->prox.before[j]);
    }
    s->overlap[2 * tile] = (double)sum[0] + (double)sum[1] + (double)sum[2] + (double)sum[3];
    s->overlap[2 * tile + 1] = (double)along[0] + (double)along[1] + (double)along[2] + (double)along[3];
}

/* Gaps of some rows of a resident feed at the weights in run->w. */
static void centre_gaps_tile(void *job, int64_t tile, int thread)
{
    struct gy_sdca *const s = job;
    const struct gy_glm_run *const run = s->run;
    const struct gy_glm_problem *const problem = run->problem;
    const int64_t first = tile * SDCA_FILL, last = gy_min64(first + SDCA_FILL, run->feed->rows);
    const int step = run->feed->all_rows > CENTRE_SAMPLED ? CENTRE_SAMPLE : 1;
    const float bias = problem->bias != 0 ? (float)problem->bias * run->w[run->feed->features] : 0;
    double sum = 0;
    (void)thread;
    for (int64_t v = 0; v < s->views; v++) {
        const struct gy_rows *const rows = &s->view[v];
        const int64_t base = s->view_at[v], end = gy_min64(last, base + rows->count);
        for (int64_t at = gy_ceil_div(gy_max64(first, base), step) * step; at < end; at += step) {
            const int32_t i = (int32_t)(at - base);
            const float y = gy_glm_y(problem, rows, i), c = gy_glm_c(problem, rows, i, y);
            const float z = gy_glm_dot(rows, i, run->w) + bias;
            if (c > 0)
                sum += s->loss->gap((double)y, (double)z, (double)s->window.row[at].dual, (double)c);
        }
    }
    s->window.fill_sums[2 * tile] = sum * step;
}

/* The rows' gaps at the weights that all ranks have; 0: a rank's feed is not resident. */
static int centre_inside(struct gy_sdca *s, struct gy_error *err)
{
    const int64_t tiles = s->view ? gy_ceil_div(s->run->feed->rows, SDCA_FILL) : 0;
    double sums[2] = { 0, !s->view };
    if (s->view)
        gy_sdca_weights(s, s->run->w);
    gy_pool_run(s->run->pool, centre_gaps_tile, s, tiles);
    for (int64_t t = 0; t < tiles; t++)
        sums[0] += s->window.fill_sums[2 * t];
    GY_TRY(gy_glm_sum(s->run, sums, 2, err));
    s->estimate.inside = sums[1] > 0 ? 0 : sums[0];
    return GY_OK;
}

GY_INT int gy_sdca_measure(struct gy_sdca *s, struct gy_error *err)
{
    const int64_t tiles = gy_ceil_div(s->dim, CENTRE_TILE);
    double sum = 0, along = 0;
    s->estimate.inside = s->prox.move = s->prox.turned = 0;
    if (s->prox.kappa == 0)
        return GY_OK;
    gy_pool_run(s->run->pool, centre_measure_tile, s, tiles);
    for (int64_t t = 0; t < tiles; t++) {
        sum += s->overlap[2 * t];
        along += s->overlap[2 * t + 1];
    }
    s->prox.move = 0.5 * s->prox.kappa * sum;
    s->prox.turned = s->ranks.base && along < 0;
    return s->ranks.base && !s->rough ? centre_inside(s, err) : GY_OK;
}

/* (l2 + kappa) u - kappa centre is the sum of coefficient x, and stays. */
static void centre_follow_tile(void *job, int64_t tile, int thread)
{
    const struct centre_job *const c = job;
    struct gy_sdca *const s = c->s;
    const int64_t end = gy_min64(s->dim, (tile + 1) * CENTRE_TILE);
    const double l2 = s->run->problem->l2, per = 1 / (l2 + c->kappa);
    const float soft = gy_sdca_soft(s), keep = (float)((l2 + s->prox.kappa) * per), drop = (float)(s->prox.kappa * per), take = (float)(c->kappa * per);
    (void)thread;
    for (int64_t j = tile * CENTRE_TILE; j < end; j++) {
        const float w = gy_sdca_shrink(s->u[j], soft);
        const float next = w + c->ahead * (w - s->prox.before[j]);
        s->u[j] = keep * s->u[j] + (take * next - drop * s->prox.centre[j]);
        s->prox.centre[j] = next;
        s->prox.before[j] = w;
    }
}

/* With the hinge loss the inner gaps fall too slowly to balance with them. With exact passes the
 * centre's steps would shrink by kappa / (l2 + kappa) or more. Steps that shrink nearly so slowly
 * want less kappa. Steps that do not shrink, because passes are rough, want more. */
static double centre_hinge(struct gy_sdca *s)
{
    const double l2 = s->run->problem->l2;
    const double step = s->prox.move / s->prox.kappa, before = s->prox.step;
    s->prox.step = step;
    if (!(step > 0 && before > 0))
        return s->prox.kappa;
    const double shrinks = 0.5 * log(step / before) / log(s->prox.kappa / (l2 + s->prox.kappa));
    const double by = pow(CENTRE_HINGE_STEP, fmin(fmax(CENTRE_SHRINKS - shrinks, -1), 1));
    return fmin(fmax(s->prox.kappa * by, CENTRE_LEAST * l2), CENTRE_MOST * l2);
}

static double centre_kappa(struct gy_sdca *s)
{
    if (s->rough)
        return centre_hinge(s);
    const int hidden = s->estimate.inside > CENTRE_HIDDEN * s->estimate.gap;
    const double l2 = s->run->problem->l2, lacks = hidden ? s->estimate.inside / CENTRE_BALANCE_HIDDEN : s->estimate.gap / CENTRE_BALANCE;
    const double step = s->prox.move > 0 ? sqrt(lacks / s->prox.move) : CENTRE_STEP;
    const double least = s->ranks.base ? CENTRE_DOWN_RANKS : 1 / CENTRE_STEP;
    return fmin(fmax(s->prox.kappa * fmin(fmax(step, least), CENTRE_STEP), CENTRE_LEAST * l2), CENTRE_MOST * l2);
}

GY_INT void gy_sdca_follow(struct gy_sdca *s, int measured, int ahead)
{
    const double l2 = s->run->problem->l2;
    struct centre_job job = { .s = s, .kappa = s->prox.rest ? 0 : s->prox.kappa == 0 ? s->prox.first_kappa : measured ? centre_kappa(s) : s->prox.kappa };
    const double root = sqrt(l2 / (l2 + job.kappa));
    if (job.kappa == 0 && s->prox.kappa == 0)
        return;
    const int runs = ahead && !s->prox.turned && !s->rough && s->prox.kappa > 0;
    job.ahead = runs ? (float)((1 - root) / (1 + root)) : 0.0f;
    gy_pool_run(s->run->pool, centre_follow_tile, &job, gy_ceil_div(s->dim, CENTRE_TILE));
    s->prox.kappa = job.kappa;
    gy_glm_levels_begin(&s->ranks, s->u);
    s->threads.stale = 1;
}
