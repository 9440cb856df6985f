/* SPDX-License-Identifier: MIT */
/* Newton's method with a line search, for any model that can visit a point: the one loop of
 * newton.c and softmax.c. From weights w to the run's end:
 *
 *     until the run's rule says why:
 *         s     = about -(H + l2)^-1 g                          direction, often by gradients below
 *         t     = 1, 1/2, ... until P(w + t s) <= P + 1e-4 t g.s
 *         w    += t s, where there was such a t
 *         a certificate of w; progress, validation, goals (gy_nw_report)
 *         steps that bring nothing: solved to the end from now on, or the end (gy_nw_judged)
 *     where floats end it: w + s, in double, has the better bound
 *
 * (Nocedal, Wright, "Numerical optimization", 2006, chapters 3 and 7.) */
#include "engine/glm/solve/newton_state.h"

#define LOOP_HALVINGS 30
#define LOOP_CG_STEPS 250
/* part of the squared residual that is left when the system is solved to the end */
#define LOOP_EXACT 1e-10

/* The squared residual that a step may leave, as a share of the first. It is a tenth of the part
 * that is left of the first gap, but not less than the goal needs. */
static double loop_share(const struct gy_nw_method *m)
{
    const struct gy_glm_run *const run = m->nw->run;
    const double far = m->gap / m->first, need = 0.1 * (run->stop.gap * fabs(m->primal)) / m->gap;
    const double share = far < 1 ? 0.1 * far : 0.1;
    return m->judge.exact ? LOOP_EXACT : share > need ? share : need < 0.1 ? need : 0.1;
}

/* Conjugate gradients (Hestenes, Stiefel, 1952), preconditioned: H p is one pass over the rows. */
GY_INT int gy_nw_by_gradients(struct gy_nw_method *m, double rho, struct gy_error *err)
{
    const size_t dims = m->dims;
    const double enough = rho * loop_share(m);
    memcpy(m->p, m->z, dims * sizeof *m->p);
    for (int step = 0; step < LOOP_CG_STEPS && rho > enough; step++) {
        for (size_t j = 0; j < dims; j++) { /* p as it is in float */
            m->narrow[j] = (float)m->p[j];
            m->p[j] = (double)m->narrow[j];
        }
        GY_TRY(m->times(m, err));
        const double curve = gy_nw_inner(m->p, m->q, dims), alpha = gy_nw_inner(m->p, m->r, dims) / curve, before = rho;
        if (!(curve > 0))
            break;
        gy_nw_add(m->s, alpha, m->p, dims);
        gy_nw_add(m->r, -alpha, m->q, dims);
        rho = m->condition(m);
        for (size_t j = 0; j < dims; j++)
            m->p[j] = m->z[j] + rho / before * m->p[j];
    }
    return GY_OK;
}

GY_INT int gy_nw_search(struct gy_nw_method *m, int *moved, struct gy_error *err)
{
    const double noise = 1e-13 * fabs(m->primal);
    double t = 1, primal;
    *moved = 0;
    for (int halving = 0; halving < LOOP_HALVINGS; halving++, t *= 0.5) {
        for (size_t j = 0; j < m->dims; j++)
            m->trial[j] = (float)((double)m->w[j] + t * m->s[j]);
        GY_TRY(m->visit(m, m->trial, &primal, err));
        if (primal <= m->primal + 1e-4 * t * m->slope + noise) {
            memcpy(m->w, m->trial, m->dims * sizeof *m->w);
            m->accept(m, primal);
            *moved = 1;
            return GY_OK;
        }
        if (-t * m->slope < noise)
            return GY_OK;
    }
    return GY_OK;
}

GY_INT int gy_nw_direction(struct gy_nw_method *m, struct gy_error *err)
{
    GY_TRY(m->direction(m, err));
    m->slope = gy_nw_inner(m->g, m->s, m->dims);
    return GY_OK;
}

GY_INT int gy_nw_start(struct gy_nw_method *m, struct gy_error *err)
{
    double primal;
    GY_TRY(m->visit(m, m->w, &primal, err));
    m->accept(m, primal);
    return GY_OK;
}

/* Floats ended the run. A step more, kept in double, is the point of the bound. moved 0: s is of
 * the present w already. */
static int loop_leave_point(struct gy_nw_method *m, int moved, struct gy_error *err)
{
    struct gy_glm_run *const run = m->nw->run;
    if (!run->point || (run->why != GY_GLM_STALLED && run->why != GY_GLM_ROUNDING))
        return GY_OK;
    if (moved)
        GY_TRY(gy_nw_direction(m, err));
    for (size_t j = 0; j < m->dims; j++)
        run->point[j] = (double)m->w[j] + m->s[j];
    run->has_point = 1;
    return GY_OK;
}

GY_INT int gy_nw_loop(struct gy_nw_method *m, struct gy_error *err)
{
    struct gy_glm_run *const run = m->nw->run;
    struct gy_nw_watch watch = { 0 };
    int moved = 1;
    GY_TRY(gy_nw_start(m, err));
    GY_TRY(gy_nw_finite(m->primal, err));
    m->first = m->gap;
    m->judge = (struct gy_nw_judge){ .primal = m->primal, .gap = m->gap };
    GY_TRY(m->certify(m, err));
    for (run->why = GY_GLM_GOES_ON; !run->why;) {
        GY_TRY(gy_nw_direction(m, err));
        GY_TRY(gy_nw_search(m, &moved, err));
        if (moved)
            GY_TRY(m->certify(m, err));
        GY_TRY(gy_nw_report(m->nw, &watch, &run->why, err));
        const double noise = gy_nw_noise(m->w, m->diagonal, m->inverse, m->dims, m->primal);
        const struct gy_nw_step step = { moved, m->primal, m->gap, -0.5 * m->slope, noise };
        if (!run->why && gy_nw_judged(&m->judge, &step, run->stop.gap, &run->why))
            GY_TRY(m->to_the_end(m, moved, err));
    }
    return loop_leave_point(m, moved, err);
}
