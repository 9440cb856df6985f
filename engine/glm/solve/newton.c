/* SPDX-License-Identifier: MIT */
/* Newton's method for smooth losses with an l2 penalty (the hinge: newton_hinge.c). A step solves
 * (X'DX + l2) s = -g. Where features are few it takes the matrix itself and its Cholesky factor.
 * Else it takes conjugate gradients, preconditioned by the diagonal, until the residual is as small
 * as this step is worth. Then it is halved until P falls. The matrix is summed in float. Where that
 * brings no more, the factor of one summed in double preconditions conjugate gradients that are
 * solved to the end. If such steps move nothing either, the run ends. It ends as rounding if P has
 * no more to lose than the rounding of weights to floats costs, else as stalled. P is strongly
 * convex in w, so |g|^2 / (2 l2) is the duality gap at the dual point that the slopes make, and
 * costs nothing.
 *
 * With a matrix, and many more rows than features, it begins on every 512th, 64th and 8th row. What
 * few rows know is found at a fraction of a pass. solver.c has it in its table. */
#include "engine/glm/glm_room.h"
#include "engine/glm/solve/newton_state.h"
#include "engine/job/peers.h"

#define NEWTON_MATRIX_DIMS 1024 /* most weights of which a matrix is made */
#define NEWTON_FLOAT 0x1p-24    /* half the distance of two floats from 1 */
#define NEWTON_DOUBLE 1e-13     /* what is known of a sum of many doubles */
/* most products of a matrix that is made only because products of gradients were not exact
 * enough */
#define NEWTON_PRODUCTS 2e9

struct newton {
    struct gy_nw_method m;
    struct gy_nw nw;
    double *u;                      /* [dims] pull of the point last visited */
    double *matrix;                 /* triangle, factored; NULL: conjugate gradients */
    struct gy_nw_sums sums;
    int factored;                   /* the matrix is of an earlier point of these rows */
};

static struct newton *newton_of(struct gy_nw_method *m) { return (struct newton *)(void *)m; }

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

/* P, of the point that was visited last. */
static double newton_primal(const struct newton *newton, const float *w)
{
    double sum = 0;
    for (size_t j = 0; j < newton->nw.dims; j++)
        sum += newton_l2(newton, j) * (double)w[j] * (double)w[j];
    return newton->sums.loss + 0.5 * sum;
}

static void newton_accept(struct gy_nw_method *m, double primal)
{
    struct newton *const newton = newton_of(m);
    double sum = 0;
    for (size_t j = 0; j < m->dims; j++) {
        const double l2 = newton_l2(newton, j);
        m->g[j] = l2 * (double)m->w[j] - newton->u[j];
        sum += l2 > 0 ? m->g[j] * m->g[j] : 0;
    }
    m->primal = primal;
    m->gap = sum / (2 * newton->nw.problem->l2);
}

static int newton_visit(struct gy_nw_method *m, const float *w, double *primal, struct gy_error *err)
{
    struct newton *const newton = newton_of(m);
    GY_TRY(gy_nw_visit(&newton->nw, w, newton->u, newton->matrix ? NULL : m->diagonal, &newton->sums, err));
    for (size_t j = 0; j < m->dims && !newton->matrix; j++)
        m->diagonal[j] += newton_l2(newton, j);
    *primal = newton_primal(newton, w);
    return GY_OK;
}

/* ---- the step ---- */

/* Whether an earlier matrix's factor serves: its steps shrink the gap by the ratio seen here. Is
 * that enough for the goal? */
static int newton_factor_serves(const struct newton *newton)
{
    double sum = 0;
    for (size_t j = 0; j < newton->nw.dims; j++)
        sum += newton->m.g[j] * newton->m.s[j]; /* s: the solution with the old factor */
    const double ratio = sum / newton->m.slope, goal = newton->nw.run->stop.gap * fabs(newton->m.primal);
    return ratio < 1e-4 || newton->m.gap * ratio < 0.1 * goal;
}

/* Factorises the matrix. A pivot is at least l2. It is known to a rounding of its own diagonal,
 * whatever the scale of its feature. */
static int newton_factorise(struct newton *newton, struct gy_error *err)
{
    const size_t dims = newton->nw.dims;
    const double known = newton->nw.exact ? NEWTON_DOUBLE : NEWTON_FLOAT;
    double *const least = newton->m.z;
    GY_TRY(gy_nw_matrix(&newton->nw, NULL, dims, newton->matrix, err));
    for (size_t j = 0; j < dims; j++) {
        double *const diagonal = newton->matrix + gy_nw_row_at(j, dims) + j;
        *diagonal += newton_l2(newton, j);
        newton->m.diagonal[j] = *diagonal;
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
            newton->m.s[j] = -newton->m.g[j];
        gy_nw_solve(newton->matrix, dims, newton->m.s);
        if (fresh || newton_factor_serves(newton))
            return GY_OK;
    }
}

static int newton_times(struct gy_nw_method *m, struct gy_error *err)
{
    struct newton *const newton = newton_of(m);
    GY_TRY(gy_nw_product(&newton->nw, m->narrow, m->q, err));
    for (size_t j = 0; j < m->dims; j++)
        m->q[j] += newton_l2(newton, j) * m->p[j];
    return GY_OK;
}

static double newton_condition(struct gy_nw_method *m)
{
    const struct newton *const newton = newton_of(m);
    for (size_t j = 0; j < m->dims; j++)
        m->z[j] = newton->matrix ? m->r[j] : m->r[j] / (m->diagonal[j] > 0 ? m->diagonal[j] : 1);
    if (newton->matrix)
        gy_nw_solve(newton->matrix, m->dims, m->z);
    return gy_nw_inner(m->r, m->z, m->dims);
}

static int newton_step(struct gy_nw_method *m, struct gy_error *err)
{
    struct newton *const newton = newton_of(m);
    const int stays = newton->factored && newton->nw.loss->smooth == GY_GLM_QUADRATIC;
    if (newton->matrix && newton->nw.exact && !stays)
        GY_TRY(newton_factorise(newton, err));
    if (newton->matrix && !newton->nw.exact)
        return newton_by_matrix(newton, err);
    for (size_t j = 0; j < m->dims; j++) {
        m->s[j] = 0;
        m->r[j] = -m->g[j];
    }
    return gy_nw_by_gradients(m, newton_condition(m), err);
}

/* ---- samples ---- */

/* Some steps on every step-th row: until P would fall by less than what those rows cannot know. */
static int newton_sample(void *user, int step, struct gy_error *err)
{
    struct newton *const newton = user;
    const double unknown = 0.05 * step * (double)newton->nw.dims;
    int moved = 1;
    newton->nw.step = step;
    newton->factored = 0;
    GY_TRY(gy_nw_start(&newton->m, err));
    for (int i = 0; i < 20 && moved; i++) {
        GY_TRY(gy_nw_direction(&newton->m, err));
        if (-0.5 * newton->m.slope < unknown) {
            for (size_t j = 0; j < newton->nw.dims; j++)
                newton->m.w[j] = (float)((double)newton->m.w[j] + newton->m.s[j]);
            break;
        }
        GY_TRY(gy_nw_search(&newton->m, &moved, err));
    }
    return GY_OK;
}

static int newton_samples(struct newton *newton, struct gy_error *err)
{
    GY_TRY(gy_nw_samples(&newton->nw, !newton->matrix, newton_sample, newton, err));
    newton->nw.step = 1;
    newton->factored = 0;
    return GY_OK;
}

/* ---- all rows ---- */

/* The certificate of the present point. With a free bias it costs two passes. So it is made only
 * when the remaining gap says that it may be the last; exact: now. */
static int newton_bound(struct newton *newton, int exact, struct gy_error *err)
{
    struct gy_glm_run *const run = newton->nw.run;
    struct gy_glm_certificate *const at = &run->result;
    const int is_free = run->problem->bias != 0 && run->problem->bias_free;
    at->primal = newton->m.primal;
    at->loss = newton->sums.loss;
    at->gap = newton->m.gap;
    if (!is_free) {
        at->dual = at->primal - at->gap;
        return GY_OK;
    }
    at->dual = (double)-INFINITY;
    if (exact || at->gap <= run->stop.gap * fabs(at->primal))
        GY_TRY(gy_nw_bound(&newton->nw, newton->m.w, &newton->sums, newton->u, &at->dual, err));
    at->dual = at->dual > at->primal ? at->primal : at->dual; /* by rounding */
    at->gap = at->primal - at->dual;
    return GY_OK;
}

static int newton_certify(struct gy_nw_method *m, struct gy_error *err) { return newton_bound(newton_of(m), 0, err); }

/* From now on steps are solved to the end, with a matrix if one can be had. */
static int newton_to_the_end(struct gy_nw_method *m, int moved, struct gy_error *err)
{
    struct newton *const newton = newton_of(m);
    const struct gy_glm_feed *const feed = newton->nw.run->feed;
    const size_t dims = m->dims;
    const double per_row = (double)feed->entries / (double)(feed->rows > 0 ? feed->rows : 1);
    int none = !newton->matrix && (dims > NEWTON_MATRIX_DIMS || (double)feed->rows * per_row * per_row > NEWTON_PRODUCTS);
    (void)moved;
    GY_TRY(gy_peers_any(newton->nw.run->job, none, &none, err));
    if (!none && !newton->matrix && !(newton->matrix = gy_arena_take(&newton->nw.arena, dims * (dims + 1) / 2, sizeof(double))))
        return GY_NOMEM(err, "Newton's method", dims * (dims + 1) / 2 * sizeof(double));
    newton->nw.exact = 1;
    newton->factored = 0;
    return gy_nw_start(m, err);
}

static int newton_run(struct newton *newton, struct gy_error *err)
{
    double primal;
    GY_TRY(newton_samples(newton, err));
    GY_TRY(gy_nw_loop(&newton->m, err));
    if (isfinite(newton->nw.run->result.dual))
        return GY_OK;
    GY_TRY(newton_visit(&newton->m, newton->m.w, &primal, err));
    return newton_bound(newton, 1, err);
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
    struct gy_nw_method *const m = &newton->m;
    const int64_t dims = (int64_t)newton->nw.dims, room = dims * (dims + 1) / 2;
    const struct gy_glm_room rooms[] = {
        { &m->g, dims, sizeof *m->g }, { &newton->u, dims, sizeof *newton->u },
        { &m->s, dims, sizeof *m->s }, { &m->diagonal, dims, sizeof *m->diagonal },
        { &m->r, dims, sizeof *m->r }, { &m->p, dims, sizeof *m->p },
        { &m->q, dims, sizeof *m->q }, { &m->z, dims, sizeof *m->z },
        { &m->trial, dims, sizeof *m->trial }, { &m->narrow, dims, sizeof *m->narrow },
        { &newton->matrix, matrix ? room : -1, sizeof *newton->matrix },
    };
    m->nw = &newton->nw;
    m->dims = newton->nw.dims;
    m->w = newton->nw.run->w;
    return gy_glm_take_rooms(&newton->nw.arena, rooms, GY_COUNT(rooms), "Newton's method", err);
}

static int newton_solve(struct gy_glm_run *run, struct gy_error *err)
{
    struct newton newton = { .m = { .visit = newton_visit, .accept = newton_accept, .direction = newton_step,
                                    .times = newton_times, .condition = newton_condition, .certify = newton_certify,
                                    .to_the_end = newton_to_the_end } };
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
