/* SPDX-License-Identifier: MIT */
/* Newton's method for smooth losses with an l2 penalty (the hinge: newton_hinge.c). A step solves (X'DX + l2) s = -g: by the matrix itself and its Cholesky
 * factor where features are few, else by conjugate gradients, preconditioned by the diagonal, until the residual is as small as this step is worth; then it
 * is halved until P falls.
 * The matrix is summed in float. Where that brings no more, the factor of one summed in double preconditions conjugate gradients that are solved to the end.
 * What then moves no more is called rounding if P has at most that to lose which floats make of the weights, else stalled.
 * P is strongly convex in w, so |g|^2 / (2 l2) is the duality gap at the dual point that the slopes make, and costs nothing.
 *
 * With many more rows than features it begins on every 64th row, then every 8th: what few rows know is found at a fraction of a pass. */
#include "engine/glm/solve/newton_state.h"
#include "engine/job/peers.h"

#define NEWTON_MATRIX_DIMS 1024 /* at most so many features have a matrix */
#define NEWTON_HALVINGS 30
#define NEWTON_CG_STEPS 250
#define NEWTON_ROWS_PER_DIM 8   /* at least, on a sample */
#define NEWTON_EXACT 1e-10      /* of the residual, squared, is left when the system is solved to the end */
#define NEWTON_FLOAT 0x1p-24    /* half the distance of two floats from 1 */
#define NEWTON_DOUBLE 1e-13     /* what is known of a sum of many doubles */
#define NEWTON_PRODUCTS 2e9     /* at most, in a matrix that is made only because products of gradients were not exact enough */

struct newton {
    struct gy_nw nw;
    float *w, *trial, *narrow;      /* [dims]; w is the caller's */
    double *g, *u, *s;              /* [dims] gradient, pull of the point last visited, step */
    double *diagonal;               /* [dims] of X'DX + l2 */
    double *r, *p, *q, *z;          /* [dims] of conjugate gradients */
    double *matrix;                 /* triangle, factored; NULL: conjugate gradients */
    struct gy_nw_sums sums;
    double primal, slope;           /* slope: g's */
    double gap;                     /* |g|^2 / (2 l2) of what is penalised */
    double was;                     /* g's of the step before */
    int factored;                   /* the matrix is of an earlier point of these rows */
    double first;                   /* gap where the run began */
    struct gy_nw_judge judge;
};

static int newton_fits(const struct gy_glm_problem *problem, const struct gy_glm_feed *feed, const char **why)
{
    const int hinge = problem->loss == GY_GLM_HINGE;
    *why = problem->l1 > 0                                   ? "an l1 penalty is not smooth"
           : problem->l2 <= 0                                ? "without an l2 penalty the optimum may lie nowhere"
           : !hinge && gy_glm_has_kink(problem)              ? "a loss with a kink is not smooth"
           : hinge && feed->features >= NEWTON_MATRIX_DIMS   ? "the hinge loss needs a matrix, and there are too many features for one"
           : hinge && problem->bias != 0 && problem->bias_free ? "the hinge loss with a weight that is not penalised has no bound"
                                                             : NULL;
    return !*why;
}

static double newton_l2(const struct newton *newton, size_t j)
{
    return j == newton->nw.features && newton->nw.problem->bias_free ? 0 : newton->nw.problem->l2;
}

/* P, and with its gradient the gap, of the point that was visited last. */
static double newton_primal(const struct newton *newton, const float *w)
{
    double sum = 0;
    for (size_t j = 0; j < newton->nw.dims; j++)
        sum += newton_l2(newton, j) * (double)w[j] * (double)w[j];
    return newton->sums.loss + 0.5 * sum;
}

static void newton_accept(struct newton *newton, const float *w, double primal)
{
    double sum = 0;
    for (size_t j = 0; j < newton->nw.dims; j++) {
        const double l2 = newton_l2(newton, j);
        newton->g[j] = l2 * (double)w[j] - newton->u[j];
        sum += l2 > 0 ? newton->g[j] * newton->g[j] : 0;
    }
    newton->primal = primal;
    newton->gap = sum / (2 * newton->nw.problem->l2);
    if (w != newton->w)
        memcpy(newton->w, w, newton->nw.dims * sizeof *w);
}

static int newton_visit(struct newton *newton, const float *w, struct gy_error *err)
{
    GY_TRY(gy_nw_visit(&newton->nw, w, newton->u, newton->matrix ? NULL : newton->diagonal, &newton->sums, err));
    for (size_t j = 0; j < newton->nw.dims && !newton->matrix; j++)
        newton->diagonal[j] += newton_l2(newton, j);
    return GY_OK;
}

static int newton_begin(struct newton *newton, struct gy_error *err)
{
    GY_TRY(newton_visit(newton, newton->w, err));
    newton_accept(newton, newton->w, newton_primal(newton, newton->w));
    return GY_OK;
}

/* ---- the step ---- */

/* Steps by the factor of an earlier matrix shrink g's by the ratio that is seen: is that enough for the goal? */
static int newton_factor_serves(const struct newton *newton)
{
    double sum = 0;
    for (size_t j = 0; j < newton->nw.dims; j++)
        sum += newton->g[j] * newton->s[j]; /* s: the solution with the old factor */
    const double ratio = sum / newton->was, goal = newton->nw.run->stop.gap * fabs(newton->primal);
    return ratio < 1e-4 || newton->gap * ratio < 0.1 * goal;
}

/* A pivot is at least l2, and known to a rounding of its own diagonal, whatever the scale of its feature. */
static int newton_factorise(struct newton *newton, struct gy_error *err)
{
    const size_t dims = newton->nw.dims;
    const double known = newton->nw.exact ? NEWTON_DOUBLE : NEWTON_FLOAT;
    double *const least = newton->z;
    GY_TRY(gy_nw_matrix(&newton->nw, NULL, dims, newton->matrix, err));
    for (size_t j = 0; j < dims; j++) {
        double *const diagonal = newton->matrix + gy_nw_row_at(j, dims) + j;
        *diagonal += newton_l2(newton, j);
        newton->diagonal[j] = *diagonal;
        least[j] = newton_l2(newton, j) + known * *diagonal;
        least[j] = least[j] > 0 ? least[j] : 1;
    }
    gy_nw_factor(newton->nw.run->pool, newton->nw.cpu, newton->matrix, dims, least);
    newton->factored = 1;
    return GY_OK;
}

static int newton_by_matrix(struct newton *newton, struct gy_error *err)
{
    const size_t dims = newton->nw.dims;
    for (int fresh = !newton->factored;; fresh = 1) {
        if (fresh)
            GY_TRY(newton_factorise(newton, err));
        for (size_t j = 0; j < dims; j++)
            newton->s[j] = -newton->g[j];
        gy_nw_solve(newton->matrix, dims, newton->s);
        if (fresh || newton_factor_serves(newton))
            return GY_OK;
    }
}

/* q = (X'DX + l2) p, of p as it is in float. */
static int newton_times(struct newton *newton, double *p, double *q, struct gy_error *err)
{
    const size_t dims = newton->nw.dims;
    for (size_t j = 0; j < dims; j++) {
        newton->narrow[j] = (float)p[j];
        p[j] = (double)newton->narrow[j];
    }
    GY_TRY(gy_nw_product(&newton->nw, newton->narrow, q, err));
    for (size_t j = 0; j < dims; j++)
        q[j] += newton_l2(newton, j) * p[j];
    return GY_OK;
}

/* z = r by the preconditioner; their product. */
static double newton_condition(struct newton *newton)
{
    const size_t dims = newton->nw.dims;
    for (size_t j = 0; j < dims; j++)
        newton->z[j] = newton->matrix ? newton->r[j] : newton->r[j] / (newton->diagonal[j] > 0 ? newton->diagonal[j] : 1);
    if (newton->matrix)
        gy_nw_solve(newton->matrix, dims, newton->z);
    return gy_nw_inner(newton->r, newton->z, dims);
}

/* How small the residual of a step becomes, squared, as a share: the square root of how far the gap has come, but no better than the goal needs. */
static double newton_share(const struct newton *newton)
{
    const double far = newton->gap / newton->first, goal = newton->nw.run->stop.gap * fabs(newton->primal), need = 0.1 * goal / newton->gap;
    const double share = far < 1 ? 0.1 * far : 0.1;
    return newton->nw.exact ? NEWTON_EXACT : share > need ? share : need < 0.1 ? need : 0.1;
}

static int newton_by_gradients(struct newton *newton, struct gy_error *err)
{
    const size_t dims = newton->nw.dims;
    double *const r = newton->r, *const p = newton->p, *const q = newton->q, *const s = newton->s;
    for (size_t j = 0; j < dims; j++) {
        s[j] = 0;
        r[j] = -newton->g[j];
    }
    double rho = newton_condition(newton);
    memcpy(p, newton->z, dims * sizeof *p);
    const double enough = rho * newton_share(newton);
    for (int step = 0; step < NEWTON_CG_STEPS && rho > enough; step++) {
        GY_TRY(newton_times(newton, p, q, err));
        const double curve = gy_nw_inner(p, q, dims), alpha = gy_nw_inner(p, r, dims) / curve, before = rho;
        if (!(curve > 0))
            break;
        gy_nw_add(s, alpha, p, dims);
        gy_nw_add(r, -alpha, q, dims);
        rho = newton_condition(newton);
        for (size_t j = 0; j < dims; j++)
            p[j] = newton->z[j] + rho / before * p[j];
    }
    return GY_OK;
}

/* ---- the search along it ---- */

/* *moved 0: no halving of the step makes P fall, as far as floats show. */
static int newton_search(struct newton *newton, int *moved, struct gy_error *err)
{
    const size_t dims = newton->nw.dims;
    double t = 1;
    *moved = 0;
    for (int halving = 0; halving < NEWTON_HALVINGS; halving++, t *= 0.5) {
        for (size_t j = 0; j < dims; j++)
            newton->trial[j] = (float)((double)newton->w[j] + t * newton->s[j]);
        GY_TRY(newton_visit(newton, newton->trial, err));
        const double primal = newton_primal(newton, newton->trial);
        if (primal <= newton->primal + 1e-4 * t * newton->slope + 1e-13 * fabs(newton->primal)) {
            newton_accept(newton, newton->trial, primal);
            *moved = 1;
            return GY_OK;
        }
        if (-t * newton->slope < 1e-13 * fabs(newton->primal))
            return GY_OK;
    }
    return GY_OK;
}

static int newton_step(struct newton *newton, struct gy_error *err)
{
    const int stays = newton->factored && newton->nw.loss->smooth == GY_GLM_QUADRATIC;
    if (newton->matrix && newton->nw.exact && !stays)
        GY_TRY(newton_factorise(newton, err));
    GY_TRY(newton->matrix && !newton->nw.exact ? newton_by_matrix(newton, err) : newton_by_gradients(newton, err));
    newton->slope = gy_nw_inner(newton->g, newton->s, newton->nw.dims);
    newton->was = newton->slope;
    return GY_OK;
}

/* ---- samples ---- */

static int64_t newton_rows(const struct newton *newton)
{
    const struct gy_glm_feed *const feed = newton->nw.run->feed;
    return feed->all_rows > feed->rows ? feed->all_rows : feed->rows;
}

/* Some steps on every step-th row: until P would fall by less than what those rows cannot know. */
static int newton_sample(struct newton *newton, int step, struct gy_error *err)
{
    const double unknown = 0.05 * step * (double)newton->nw.dims;
    int moved = 1;
    newton->nw.step = step;
    newton->factored = 0;
    GY_TRY(newton_begin(newton, err));
    for (int i = 0; i < 20 && moved; i++) {
        GY_TRY(newton_step(newton, err));
        if (-0.5 * newton->slope < unknown) {
            for (size_t j = 0; j < newton->nw.dims; j++)
                newton->w[j] = (float)((double)newton->w[j] + newton->s[j]);
            break;
        }
        GY_TRY(newton_search(newton, &moved, err));
    }
    return GY_OK;
}

static int newton_samples(struct newton *newton, struct gy_error *err)
{
    static const int steps[] = { 512, 64, 8 };
    const struct gy_glm_feed *const feed = newton->nw.run->feed;
    int streamed = !feed->resident || gy_nw_has_begun(newton->w, newton->nw.dims); /* on any rank; a sample would spoil what an earlier run found */
    GY_TRY(gy_peers_any(newton->nw.run->job, streamed, &streamed, err));
    if (!newton->matrix || streamed)
        return GY_OK;
    for (size_t i = 0; i < GY_COUNT(steps); i++)
        if (newton_rows(newton) / steps[i] >= NEWTON_ROWS_PER_DIM * (int64_t)newton->nw.dims)
            GY_TRY(newton_sample(newton, steps[i], err));
    newton->nw.step = 1;
    newton->factored = 0;
    return GY_OK;
}

/* ---- all rows ---- */

/* The certificate of the present point. With a free bias it costs two passes, so only when the gap of the rest says it may be the last; exact: now. */
static int newton_certify(struct newton *newton, int exact, struct gy_error *err)
{
    struct gy_glm_run *const run = newton->nw.run;
    struct gy_glm_certificate *const at = &run->result;
    const int is_free = run->problem->bias != 0 && run->problem->bias_free;
    at->primal = newton->primal;
    at->loss = newton->sums.loss;
    at->gap = newton->gap;
    if (!is_free) {
        at->dual = at->primal - at->gap;
        return GY_OK;
    }
    at->dual = (double)-INFINITY;
    if (exact || newton->gap <= run->stop.gap * fabs(newton->primal))
        GY_TRY(gy_nw_bound(&newton->nw, newton->w, &newton->sums, newton->u, &at->dual, err));
    at->dual = at->dual > at->primal ? at->primal : at->dual; /* by rounding */
    at->gap = at->primal - at->dual;
    return GY_OK;
}

/* From now on steps are solved to the end, with a matrix if one can be had. */
static int newton_open_exact(struct newton *newton, struct gy_error *err)
{
    const struct gy_glm_feed *const feed = newton->nw.run->feed;
    const size_t dims = newton->nw.dims;
    const double per_row = (double)feed->entries / (double)(feed->rows > 0 ? feed->rows : 1);
    int none = !newton->matrix && (dims > NEWTON_MATRIX_DIMS || (double)feed->rows * per_row * per_row > NEWTON_PRODUCTS);
    GY_TRY(gy_peers_any(newton->nw.run->job, none, &none, err));
    if (!none && !newton->matrix && !(newton->matrix = gy_arena_take(&newton->nw.arena, dims * (dims + 1) / 2, sizeof(double))))
        return GY_NOMEM(err, "Newton's method", dims * (dims + 1) / 2 * sizeof(double));
    newton->nw.exact = 1;
    newton->factored = 0;
    return newton_begin(newton, err);
}

static int newton_judge(struct newton *newton, int moved, enum gy_glm_why *why, struct gy_error *err)
{
    const struct gy_nw_step step = { moved, newton->primal, newton->gap, -0.5 * newton->slope,
                                     gy_nw_noise(newton->w, newton->diagonal, 0, newton->nw.dims, newton->primal) };
    return gy_nw_judged(&newton->judge, &step, newton->nw.run->stop.gap, why) ? newton_open_exact(newton, err) : GY_OK;
}

static int newton_run(struct newton *newton, struct gy_error *err)
{
    struct gy_glm_run *const run = newton->nw.run;
    struct gy_nw_watch watch = { 0 };
    int moved = 1;
    GY_TRY(newton_samples(newton, err));
    GY_TRY(newton_begin(newton, err));
    newton->first = newton->gap;
    newton->judge = (struct gy_nw_judge){ .primal = newton->primal, .gap = newton->gap };
    GY_TRY(gy_nw_finite(newton->primal, err));
    GY_TRY(newton_certify(newton, 0, err));
    run->why = GY_GLM_GOES_ON;
    while (!run->why) {
        GY_TRY(newton_step(newton, err));
        GY_TRY(newton_search(newton, &moved, err));
        if (moved)
            GY_TRY(newton_certify(newton, 0, err));
        GY_TRY(gy_nw_report(&newton->nw, &watch, &run->why, err));
        if (!run->why)
            GY_TRY(newton_judge(newton, moved, &run->why, err));
    }
    if (!isfinite(run->result.dual)) {
        GY_TRY(newton_visit(newton, newton->w, err));
        GY_TRY(newton_certify(newton, 1, err));
    }
    return GY_OK;
}

/* ---- opening ---- */

/* Whether the matrix is cheaper than some twenty products. */
static int newton_wants_matrix(const struct gy_glm_feed *feed, size_t dims)
{
    const double rows = feed->rows > 0 ? (double)feed->rows : 1, per_row = (double)feed->entries / rows;
    return dims <= NEWTON_MATRIX_DIMS && (per_row <= 100 || dims <= 160);
}

static int newton_take(struct newton *newton, int matrix, struct gy_error *err)
{
    struct gy_arena *const arena = &newton->nw.arena;
    const size_t dims = newton->nw.dims, room = dims * (dims + 1) / 2;
    double **const vectors[] = { &newton->g, &newton->u, &newton->s, &newton->diagonal, &newton->r, &newton->p, &newton->q, &newton->z };
    int bad = 0;
    for (size_t i = 0; i < GY_COUNT(vectors); i++)
        bad |= !(*vectors[i] = gy_arena_take(arena, dims, sizeof(double)));
    bad |= !(newton->trial = gy_arena_take(arena, dims, sizeof(float)));
    bad |= !(newton->narrow = gy_arena_take(arena, dims, sizeof(float)));
    if (matrix)
        bad |= !(newton->matrix = gy_arena_take(arena, room, sizeof(double)));
    newton->w = newton->nw.run->w;
    return bad ? GY_NOMEM(err, "Newton's method", (9 * dims + (matrix ? room : 0)) * sizeof(double)) : GY_OK;
}

static int newton_solve(struct gy_glm_run *run, struct gy_error *err)
{
    struct newton newton = { .was = 0 };
    const size_t dims = (size_t)run->feed->features + (run->problem->bias != 0);
    int matrix = newton_wants_matrix(run->feed, dims);
    if (run->problem->loss == GY_GLM_HINGE)
        return gy_nw_hinge(run, err);
    GY_TRY(gy_peers_any(run->job, !matrix, &matrix, err)); /* one rank without: none has one */
    matrix = !matrix;
    GY_TRY(gy_nw_open(&newton.nw, run, !matrix, !matrix, err));
    int status = newton_take(&newton, matrix, err);
    if (status == GY_OK)
        status = newton_run(&newton, err);
    if (status == GY_OK || status == GY_E_STOPPED) {
        const int dual = gy_nw_dual(&newton.nw, run->w, err);
        status = dual != GY_OK ? dual : status;
    }
    gy_nw_close(&newton.nw);
    return status;
}

GY_INT const struct gy_glm_solver *gy_glm_newton(void)
{
    static const struct gy_glm_solver solver = { "newton", "Newton's method with conjugate gradients; few passes, many rows of few features; l2", newton_fits,
        newton_solve };
    return &solver;
}
