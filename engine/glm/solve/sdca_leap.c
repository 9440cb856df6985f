/* SPDX-License-Identifier: MIT */
/* Ranks agree about w long before they agree about their dual numbers. What one rank's rows should
 * give to a frequent feature, and another's not, leaves w as it is. A round mends but a small part
 * of it. The slopes of the losses at w are dual numbers without such faults, whose gap is known,
 *
 *     P(w) - D = h(w) + l2 / 2 |soft(u)|^2 - l2 w . u          h(w) = l2 / 2 |w|^2 + l1 |w|_1,   u of the new numbers,
 *
 * which is l2 / 2 |w - u|^2 = g without an l1. A part r of the way to them takes the gap from G to
 * G - r G + r^2 g or less, D being concave: best is r = G / 2g, at most 1. They are as good as w is
 * calm: the round before is done with the safe sigma and one sum. */
#include "engine/glm/solve/sdca_state.h"

#define LEAP_ROWS 2048
#define LEAP_LEAST 0.2 /* of the way; less is not worth it */
#define LEAP_SAMPLE 8  /* every so-many-th row tells what is inside, where there are */
#define LEAP_SAMPLED 8192 /* more rows than this */

struct leap_pass {
    const struct gy_glm_run *run;
    struct gy_rows rows;
    const float *w;
    float *dual; /* of the view's first row */
    double *sum; /* [tiles] of the rows' gaps; NULL: dual is what is wanted */
    int step;    /* from row to row */
};

static void leap_tile(void *job, int64_t tile, int thread)
{
    const struct leap_pass *const p = job;
    const struct gy_glm_problem *const problem = p->run->problem;
    const struct gy_glm_loss *const loss = gy_glm_loss_of(problem);
    const float bias = problem->bias != 0 ? (float)problem->bias * p->w[p->run->feed->features] : 0;
    const int32_t end = (int32_t)gy_min64(p->rows.count, (tile + 1) * LEAP_ROWS);
    double sum = 0;
    (void)thread;
    for (int32_t i = (int32_t)(tile * LEAP_ROWS); i < end; i += p->step) {
        const float y = gy_glm_y(problem, &p->rows, i), c = gy_glm_c(problem, &p->rows, i, y), z = gy_glm_dot(&p->rows, i, p->w) + bias;
        if (!p->sum)
            p->dual[i] = loss->slope_dual(y, z, c);
        else if (c > 0)
            sum += loss->gap((double)y, (double)z, (double)p->dual[i], (double)c);
    }
    if (p->sum)
        p->sum[tile] = sum * p->step;
}

/* One pass over the rows, whose dual numbers are dual; *total: what tiles have summed. */
static int leap_walk(struct leap_pass *p, float *dual, double *total, struct gy_error *err)
{
    const struct gy_glm_run *const run = p->run;
    for (;;) {
        GY_TRY(run->feed->next(run->feed->self, &p->rows, err));
        if (p->rows.count == 0)
            return GY_OK;
        const int64_t tiles = gy_ceil_div(p->rows.count, LEAP_ROWS);
        p->dual = dual + (p->rows.first - run->feed->first);
        gy_pool_run(run->pool, leap_tile, p, tiles);
        for (int64_t t = 0; p->sum && t < tiles; t++)
            *total += p->sum[t];
    }
}

/* Every row's dual number from w. */
static int leap_slopes(const struct gy_glm_run *run, const float *w, float *dual, struct gy_error *err)
{
    struct leap_pass p = { .run = run, .w = w, .step = 1 };
    return leap_walk(&p, dual, NULL, err);
}

GY_INT int gy_sdca_inside(struct gy_sdca *s, double *inside, struct gy_error *err)
{
    const struct gy_glm_run *const run = s->run;
    const size_t tiles = (size_t)gy_ceil_div(run->feed->most_rows, LEAP_ROWS) + 1;
    struct leap_pass p = { .run = run, .w = run->w, .step = run->feed->all_rows > LEAP_SAMPLED ? LEAP_SAMPLE : 1 };
    double sums[2] = { 0, !s->view };
    int status = GY_OK;
    p.sum = gy_alloc_take(run->alloc, tiles, sizeof *p.sum);
    if (!p.sum)
        return GY_NOMEM(err, "the gaps of rows", tiles * sizeof *p.sum);
    if (s->view) {
        gy_sdca_weights(s, run->w);
        gy_sdca_duals(s, 0);
        status = leap_walk(&p, s->dual, sums, err);
    }
    gy_alloc_free(run->alloc, p.sum, tiles * sizeof *p.sum);
    GY_TRY(status == GY_OK ? gy_glm_sum(run, sums, 2, err) : status);
    *inside = sums[1] > 0 ? 0 : sums[0];
    return GY_OK;
}

static double leap_gap(const struct gy_glm_problem *problem, const float *w, const double *u, int64_t count)
{
    const double soft = problem->l1 / problem->l2;
    double sum = 0;
    for (int64_t j = 0; j < count; j++) {
        const double v = (double)w[j], s = fmax(fabs(u[j]) - soft, 0);
        sum += soft > 0 ? 0.5 * (v * v + s * s) + soft * fabs(v) - v * u[j] : 0.5 * (v - u[j]) * (v - u[j]);
    }
    return problem->l2 * sum;
}

/* A logit of which sig is so much of the way from that of a to that of b. */
static float leap_logit(float a, float b, double part)
{
    const double up = (1 - part) / (1 + exp(-(double)a)) + part / (1 + exp(-(double)b)), down = (1 - part) / (1 + exp((double)a)) + part / (1 + exp((double)b));
    return (float)log(up / down);
}

static void leap_go(struct gy_sdca *s, const double *u, double part)
{
    const int logit = s->loss->form == GY_GLM_LOGIT;
    for (int64_t i = 0; i < s->run->feed->rows; i++) {
        const float from = s->dual[i], to = s->dual_kept[i];
        const float between = (float)((1 - part) * (double)from + part * (double)to);
        s->dual[i] = part == 1 ? to : logit ? leap_logit(from, to, part) : between;
    }
    const double l2 = s->run->problem->l2, kappa = s->prox.kappa, all = l2 + kappa;
    for (int64_t j = 0; j < s->dim; j++) {
        const double w = (double)s->run->w[j], was = (all * (double)s->u[j] - kappa * (double)s->prox.centre[j]) / l2;
        s->u[j] = (float)((l2 * ((1 - part) * was + part * u[j]) + kappa * w) / all);
        s->prox.centre[j] = s->prox.before[j] = s->run->w[j]; /* from where it begins anew */
    }
    gy_glm_levels_begin(&s->ranks, s->u);
    s->threads.stale = 1;
}

GY_INT int gy_sdca_can_leap(const struct gy_sdca *s) { return s->ranks.base && !s->rough; }

GY_INT int gy_sdca_leap(struct gy_sdca *s, double *gap, int *done, struct gy_error *err)
{
    const struct gy_glm_run *const run = s->run;
    double *const u = gy_alloc_take(run->alloc, (size_t)s->dim, sizeof *u);
    if (!u)
        return GY_NOMEM(err, "the vector of the duals", (size_t)s->dim * sizeof *u);
    gy_sdca_weights(s, run->w);
    int status = leap_slopes(run, run->w, s->dual_kept, err);
    if (status == GY_OK)
        status = gy_glm_rebuild(run, s->dual_kept, u, err);
    const double found = status == GY_OK ? leap_gap(run->problem, run->w, u, s->dim) : HUGE_VAL, part = fmin(1, *gap / (2 * found));
    *done = part >= LEAP_LEAST && found < HUGE_VAL;
    if (*done) {
        leap_go(s, u, part);
        *gap += part * part * found - part * *gap;
    }
    gy_alloc_free(run->alloc, u, (size_t)s->dim * sizeof *u);
    return status;
}
