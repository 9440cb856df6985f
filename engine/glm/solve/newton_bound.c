/* SPDX-License-Identifier: MIT */
/* A lower bound of the optimum, for newton.c and l1.c. The slopes of the losses at any w are
 * numbers that the dual problem takes,
 *
 *     D = sum of conjugates - sum over features of max(|u_j| - l1, 0)^2 / (2 l2),
 *     u = sum of coefficient_i x_i
 *
 * once they are in its domain. Without l2 no |u_j| may be above l1, so all of them are scaled down.
 * With a free bias their sum must be 0, so the side of y that has more is scaled to what the other
 * has. With the squared loss every row gives the same share of the excess instead. */
#include "engine/glm/solve/newton_state.h"

static double nw_most(const double *u, size_t penalised)
{
    double most = 0;
    for (size_t j = 0; j < penalised; j++)
        most = fabs(u[j]) > most ? fabs(u[j]) : most;
    return most;
}

static double nw_excess(const struct gy_glm_problem *problem, const double *u, double s, size_t penalised)
{
    double sum = 0;
    for (size_t j = 0; j < penalised; j++) {
        const double over = s * fabs(u[j]) - problem->l1;
        sum += over > 0 ? over * over : 0;
    }
    return problem->l2 > 0 ? sum / (2 * problem->l2) : 0;
}

/* Sum of conjugates of s times the coefficients that sums is of. */
static int nw_conjugates(struct gy_nw *nw, const float *w, struct gy_nw_change change, const struct gy_nw_sums *sums, double s, double *out,
                         struct gy_error *err)
{
    struct gy_nw_sums scaled;
    if (s == 1)
        *out = sums->loss;
    else if (nw->loss->form != GY_GLM_LOGIT)
        *out = s * sums->linear - gy_glm_bend(nw->loss) * s * s * sums->square;
    else {
        change.side[0] *= s;
        change.side[1] *= s;
        GY_TRY(gy_nw_changed(nw, w, &change, NULL, &scaled, err));
        *out = scaled.loss;
    }
    return GY_OK;
}

/* The coefficients whose sum is 0. */
static struct gy_nw_change nw_balance(const struct gy_nw *nw, const struct gy_nw_sums *sums)
{
    struct gy_nw_change change = { { 1, 1 }, 0 };
    if (nw->loss->form == GY_GLM_NUMBER)
        change.shift = sums->weight > 0 ? sums->pull / sums->weight : 0;
    else if (sums->side[0] > sums->side[1])
        change.side[0] = sums->side[1] / sums->side[0];
    else if (sums->side[1] > 0)
        change.side[1] = sums->side[0] / sums->side[1];
    return change;
}

GY_INT int gy_nw_bound(struct gy_nw *nw, const float *w, const struct gy_nw_sums *sums, double *u, double *dual, struct gy_error *err)
{
    const struct gy_glm_problem *const problem = nw->problem;
    const int is_free = problem->bias != 0 && problem->bias_free;
    const size_t penalised = nw->dims - (size_t)is_free;
    struct gy_nw_change change = { { 1, 1 }, 0 };
    struct gy_nw_sums at = *sums;
    double conjugates, best = (double)-INFINITY;
    if (is_free) {
        change = nw_balance(nw, sums);
        GY_TRY(gy_nw_changed(nw, w, &change, u, &at, err));
    } else {
        /* a coefficient is a slope: its conjugate is l(z) + coefficient z */
        for (size_t j = 0; j < nw->dims; j++)
            at.loss += u[j] * (double)w[j];
    }
    const double most = nw_most(u, penalised), inside = most > problem->l1 ? problem->l1 / most : 1;
    if (problem->l2 > 0 || inside == 1)
        best = at.loss - nw_excess(problem, u, 1, penalised);
    if (problem->l1 > 0 && inside < 1) {
        GY_TRY(nw_conjugates(nw, w, change, &at, inside, &conjugates, err));
        best = conjugates > best ? conjugates : best;
    }
    *dual = best;
    return GY_OK;
}
