/* SPDX-License-Identifier: MIT */
/* Minimises the quadratic model of l1.c whose matrix is in memory, by two kinds of moves in turn.
 * Coordinate descent finds which values are 0: a look at a coordinate costs nothing, a move one row
 * of the matrix. It hardly moves along groups of features whose sum is constant. Then the face of
 * all values that are not 0 is solved at once, as if their signs stood. The exact best point along
 * that line is taken: the sum of absolute values is convex there, with a kink where a value passes
 * 0. */
#include "engine/glm/solve/l1_state.h"

#define L1_ROUNDS 200
#define L1_SWEEPS 3
#define L1_FACES 8
#define L1_CG_STEPS 15
#define L1_LEAST 2e-6 /* pivots, of their own diagonals: these are floats */

static double l1_sign(double v) { return v > 0 ? 1.0 : v < 0 ? -1.0 : 0.0; }

static double l1_soft(double x, double l1) { return x > l1 ? x - l1 : x < -l1 ? x + l1 : 0; }

static double l1_away(const struct gy_l1_model *model, size_t j)
{
    const double v = model->v[j], r = model->r[j], l1 = model->l1[j];
    const double away = v != 0 ? fabs(r + l1 * l1_sign(v)) : fabs(r) - l1;
    return away > 0 ? away : 0;
}

GY_INT double gy_l1_violation(const struct gy_l1_model *model)
{
    double sum = 0;
    for (size_t j = 0; j < model->count; j++)
        sum += l1_away(model, j);
    return sum;
}

static void l1_sweep(struct gy_l1_model *model)
{
    for (size_t j = 0; j < model->count; j++) {
        const float *const row = model->matrix + j * model->stride;
        const double h = (double)row[j], v = model->v[j];
        if (l1_away(model, j) == 0)
            continue;
        const double next = h > 0 ? l1_soft(v * h - model->r[j], model->l1[j]) / h : 0, d = next - v;
        if (d == 0)
            continue;
        model->v[j] = next;
        gy_nw_add_floats(model->r, d, row, model->count);
    }
}

/* ---- the face ---- */

static size_t l1_face_list(const struct gy_l1_model *model)
{
    size_t n = 0;
    for (size_t j = 0; j < model->count; j++)
        if (model->v[j] != 0 || model->l1[j] == 0)
            model->face[n++].j = (uint32_t)j;
    return n;
}

static void l1_face_factor(struct gy_l1_model *model, size_t n)
{
    double *a = model->factor, *const least = model->moved;
    for (size_t i = 0; i < n; i++) {
        const float *const row = model->matrix + model->face[i].j * model->stride;
        least[i] = row[model->face[i].j] > 0 ? L1_LEAST * (double)row[model->face[i].j] : 1;
        for (size_t k = i; k < n; k++)
            *a++ = (double)row[model->face[k].j];
    }
    gy_nw_factor(model->pool, model->cpu, model->factor, n, least);
    gy_nw_solve(model->factor, n, model->delta);
}

/* out = M p, both over the face. */
static void l1_face_times(struct gy_l1_model *model, size_t n, const double *p, double *out)
{
    memset(model->moved, 0, model->count * sizeof *model->moved);
    for (size_t i = 0; i < n; i++)
        gy_nw_add_floats(model->moved, p[i], model->matrix + model->face[i].j * model->stride, model->count);
    for (size_t i = 0; out && i < n; i++)
        out[i] = model->moved[model->face[i].j];
}

/* Solves the same system by conjugate gradients, preconditioned by the diagonal. The triangle's
 * memory is scratch. */
static void l1_face_gradients(struct gy_l1_model *model, size_t n)
{
    double *const x = model->delta, *const r = model->factor, *const p = r + n, *const q = p + n, *const inverse = q + n;
    double rho = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)model->matrix[model->face[i].j * (model->stride + 1)];
        inverse[i] = d > 0 ? 1 / d : 1;
        r[i] = x[i];
        x[i] = 0;
        p[i] = inverse[i] * r[i];
        rho += r[i] * p[i];
    }
    const double enough = 1e-6 * rho;
    for (int step = 0; step < L1_CG_STEPS && rho > enough; step++) {
        l1_face_times(model, n, p, q);
        const double curve = gy_nw_inner(p, q, n), alpha = rho / curve, before = rho;
        if (!(curve > 0))
            break;
        gy_nw_add(x, alpha, p, n);
        gy_nw_add(r, -alpha, q, n);
        rho = 0;
        for (size_t i = 0; i < n; i++)
            rho += r[i] * r[i] * inverse[i];
        for (size_t i = 0; i < n; i++)
            p[i] = inverse[i] * r[i] + rho / before * p[i];
    }
}

static int l1_earlier(const void *a, const void *b)
{
    const struct gy_l1_line *const x = a, *const y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : x->j < y->j ? -1 : x->j > y->j;
}

GY_INT double gy_l1_best_share(struct gy_l1_line *line, size_t count, double slope, double curve, double *stop_at)
{
    *stop_at = -1;
    for (size_t i = 0; i < count; i++) {
        const double at = line[i].d != 0 && line[i].l1 > 0 ? -line[i].v / line[i].d : -1;
        line[i].at = at > 0 ? at : (double)INFINITY;
    }
    qsort(line, count, sizeof *line, l1_earlier);
    for (size_t k = 0; k < count && isfinite(line[k].at); k++) {
        const double at = line[k].at;
        if (slope + curve * at >= 0)
            break;
        slope += 2 * line[k].l1 * fabs(line[k].d);
        if (slope + curve * at >= 0) {
            *stop_at = at;
            return at;
        }
    }
    return curve > 0 ? -slope / curve : 0;
}

/* Takes the best point along the line to the face's minimum. 1: that point is the minimum, or
 * nothing moved. */
static int l1_face(struct gy_l1_model *model)
{
    const size_t n = l1_face_list(model);
    double slope = 0, stop_at = -1;
    if (n == 0)
        return 1;
    for (size_t i = 0; i < n; i++) {
        const size_t j = model->face[i].j;
        model->delta[i] = -(model->r[j] + model->l1[j] * l1_sign(model->v[j]));
    }
    (n <= GY_L1_FACE ? l1_face_factor : l1_face_gradients)(model, n);
    l1_face_times(model, n, model->delta, NULL);
    for (size_t i = n; i-- > 0;) { /* to where its feature is: face rises, so from the end */
        const double d = model->delta[i];
        model->delta[i] = 0;
        model->delta[model->face[i].j] = d;
        slope += d * (model->r[model->face[i].j] + model->l1[model->face[i].j] * l1_sign(model->v[model->face[i].j]));
    }
    double curve = 0;
    for (size_t i = 0; i < n; i++)
        curve += model->delta[model->face[i].j] * model->moved[model->face[i].j];
    for (size_t i = 0; i < n; i++) {
        const size_t j = model->face[i].j;
        model->face[i] = (struct gy_l1_line){ (uint32_t)j, model->v[j], model->delta[j], model->l1[j], 0 };
    }
    const double share = slope < 0 ? gy_l1_best_share(model->face, n, slope, curve, &stop_at) : 0;
    for (size_t i = 0; share > 0 && i < n; i++) {
        const struct gy_l1_line *const at = &model->face[i];
        model->v[at->j] = stop_at > 0 && at->at == stop_at ? 0 : at->v + share * at->d;
    }
    gy_nw_add(model->r, share, model->moved, model->count);
    memset(model->delta, 0, model->count * sizeof *model->delta);
    return share <= 0 || fabs(share - 1) < 1e-9;
}

GY_INT void gy_l1_minimise(struct gy_l1_model *model, double enough)
{
    for (int round = 0; round < L1_ROUNDS; round++) {
        for (int i = 0; i < L1_SWEEPS; i++)
            l1_sweep(model);
        if (gy_l1_violation(model) <= enough)
            return;
        const int faces = model->count > GY_L1_FACE ? 1 : L1_FACES;
        for (int i = 0; i < faces; i++)
            if (l1_face(model))
                break;
        if (gy_l1_violation(model) <= enough)
            return;
    }
}
