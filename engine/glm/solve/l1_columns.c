/* SPDX-License-Identifier: MIT */
/* The quadratic model of l1.c by columns of the rows, where the set is too large for its matrix.
 * Coordinate descent keeps the model's slope of every row (Yuan, Ho, Lin, 2012): a look at a
 * coordinate reads its column, a move writes it. Those that are 0 and well inside their condition
 * rest until the others are done. Where that is slow, all values that are not 0 are moved at once,
 * to about where the model is least with their signs, by conjugate gradients; or where there are
 * groups of features of which no row has two, after each round, those of a group together
 * (l1_groups.c). */
#include "engine/glm/solve/l1_state.h"

#define LC_ROUNDS_LEAST 2
#define LC_ROUNDS_MOST 30
#define LC_SLOW 0.93 /* part of a round's sum; a round that leaves more of it is slow */
#define LC_STEPS 10 /* of conjugate gradients */

static double lc_soft(double x, double l1) { return x > l1 ? x - l1 : x < -l1 ? x + l1 : 0; }

/* The sum of x slope over column j; lc_curve: of x^2 D. */
static double lc_look(const struct gy_nw_columns *columns, const struct gy_l1_row *rows, size_t j)
{
    const uint32_t *const row = columns->row;
    int64_t k = columns->start[j];
    const int64_t end = columns->start[j + 1];
    float sum[4] = { 0, 0, 0, 0 };
    if (columns->value) {
        for (; k < end; k++)
            sum[0] += columns->value[k] * rows[row[k]].slope;
        return (double)sum[0];
    }
    for (; k + 4 <= end; k += 4)
        for (int l = 0; l < 4; l++)
            sum[l] += rows[row[k + l]].slope;
    for (; k < end; k++)
        sum[0] += rows[row[k]].slope;
    return (double)((sum[0] + sum[1]) + (sum[2] + sum[3])) * (double)columns->same;
}

static double lc_curve(const struct gy_nw_columns *columns, const struct gy_l1_row *rows, size_t j)
{
    double sum = 0;
    for (int64_t k = columns->start[j]; k < columns->start[j + 1]; k++) {
        const double x = (double)(columns->value ? columns->value[k] : columns->same);
        sum += x * x * (double)rows[columns->row[k]].curve;
    }
    return sum;
}

/* v_j moves by d. */
static void lc_move(const struct gy_nw_columns *columns, struct gy_l1_row *rows, size_t j, double d)
{
    const float t = (float)d * (columns->value ? 1.0f : columns->same);
    for (int64_t k = columns->start[j]; k < columns->start[j + 1]; k++) {
        struct gy_l1_row *const row = &rows[columns->row[k]];
        row->slope += row->curve * (columns->value ? t * columns->value[k] : t);
    }
}

/* The bias is a column of all rows. */
static double lc_look_bias(const struct gy_l1_by_columns *model)
{
    double sum = 0;
    for (int64_t i = 0; i < model->row_count; i++)
        sum += (double)model->rows[i].slope;
    return sum * model->bias;
}

static double lc_curve_bias(const struct gy_l1_by_columns *model)
{
    double sum = 0;
    for (int64_t i = 0; i < model->row_count; i++)
        sum += (double)model->rows[i].curve;
    return sum * model->bias * model->bias;
}

static void lc_move_bias(const struct gy_l1_by_columns *model, double d)
{
    const float t = (float)(d * model->bias);
    for (int64_t i = 0; i < model->row_count; i++)
        model->rows[i].slope += model->rows[i].curve * t;
}

/* How far coordinate k was from its condition; *inside: it is 0 and how far inside. */
static double lc_visit(struct gy_l1_by_columns *model, uint32_t k, double *inside)
{
    struct gy_l1_coordinate *const at = &model->at[k];
    const int is_bias = at->id == model->features;
    const double slope = is_bias ? lc_look_bias(model) : lc_look(model->columns, model->rows, at->id);
    const double r = at->g + slope + at->l2 * (at->v - at->w), v = at->v, l1 = at->l1;
    const double off = v > 0 ? fabs(r + l1) : v < 0 ? fabs(r - l1) : fabs(r) - l1;
    *inside = v == 0 ? -off : 0;
    if (off <= 0)
        return 0;
    if (at->curve < 0)
        at->curve = is_bias ? lc_curve_bias(model) : lc_curve(model->columns, model->rows, at->id);
    const double h = at->curve + at->l2, next = h > 0 ? lc_soft(v * h - r, l1) / h : 0, d = next - v;
    if (d == 0)
        return off;
    at->v = next;
    if (is_bias)
        lc_move_bias(model, d);
    else
        lc_move(model->columns, model->rows, at->id, d);
    return off;
}

/* One round over the coordinates that do not rest; the sum of how far they were. */
static double lc_round(struct gy_l1_by_columns *model, size_t *awake, double margin, double *most)
{
    double sum = 0;
    *most = 0;
    for (size_t i = 0; i < *awake; i++) {
        model->seed = model->seed * 6364136223846793005u + 1442695040888963407u;
        const size_t other = i + (size_t)(((model->seed >> 33) * (uint64_t)(*awake - i)) >> 31);
        const uint32_t k = model->order[other];
        double inside;
        model->order[other] = model->order[i];
        model->order[i] = k;
        const double off = lc_visit(model, k, &inside);
        sum += off;
        *most = off > *most ? off : *most;
        if (inside > margin) {
            model->order[i] = model->order[*awake - 1];
            model->order[*awake - 1] = k;
            --*awake;
            i--;
        }
    }
    return sum;
}

/* At most `rounds` rounds. 1: all coordinates were near enough; 0: a round hardly brought them
 * nearer, or the rounds are over. */
static int lc_rounds(struct gy_l1_by_columns *model, double enough, int rounds)
{
    size_t awake = model->count;
    double margin = (double)INFINITY, most, before = (double)INFINITY;
    for (size_t k = 0; k < model->count; k++)
        model->order[k] = (uint32_t)k;
    for (int i = 0; i < rounds; i++) {
        const int all = awake == model->count;
        const double off = lc_round(model, &awake, margin, &most);
        if (off <= enough && all)
            return 1;
        if (i >= LC_ROUNDS_LEAST && off > LC_SLOW * before)
            return 0;
        before = off;
        awake = off <= enough ? model->count : awake;
        margin = off <= enough ? (double)INFINITY : most;
    }
    return 0;
}

/* ---- the face of all values that are not 0 ---- */

struct lc_face {
    struct gy_l1_by_columns *model;
    size_t count;
    double *out;
};

#define LC_TILE 64 /* columns */

/* out = X' t of the face's columns, t from the last product's rows. */
static void lc_gather_tile(void *job, int64_t tile, int thread)
{
    const struct lc_face *const face = job;
    const struct gy_l1_by_columns *const model = face->model;
    const float *const t = model->nw->product;
    const size_t from = (size_t)tile * LC_TILE, to = from + LC_TILE < face->count ? from + LC_TILE : face->count;
    (void)thread;
    for (size_t i = from; i < to; i++)
        face->out[i] = gy_nw_column(model->nw, model->at[model->line[i].j].id, t);
}

/* out = (X'DX + l2) p over the face. */
static int lc_times(struct gy_l1_by_columns *model, size_t n, const double *p, double *out, struct gy_error *err)
{
    struct lc_face face = { model, n, out };
    for (size_t i = 0; i < n; i++)
        model->narrow[model->at[model->line[i].j].id] = (float)p[i];
    const int status = gy_nw_forward(model->nw, model->narrow, err);
    for (size_t i = 0; i < n; i++)
        model->narrow[model->at[model->line[i].j].id] = 0;
    GY_TRY(status);
    gy_pool_run(model->nw->run->pool, lc_gather_tile, &face, gy_ceil_div((int64_t)n, LC_TILE));
    for (size_t i = 0; i < n; i++)
        out[i] += model->at[model->line[i].j].l2 * p[i];
    return GY_OK;
}

/* Lists the face; r = what its coordinates are pulled by, inverse = 1 / diagonal. */
static size_t lc_list(struct gy_l1_by_columns *model)
{
    size_t n = 0;
    for (size_t k = 0; k < model->count; k++) {
        struct gy_l1_coordinate *const at = &model->at[k];
        const int is_bias = at->id == model->features;
        if (at->v == 0 && at->l1 > 0)
            continue;
        if (at->curve < 0)
            at->curve = is_bias ? lc_curve_bias(model) : lc_curve(model->columns, model->rows, at->id);
        const double slope = is_bias ? lc_look_bias(model) : lc_look(model->columns, model->rows, at->id);
        const double sign = at->v > 0 ? 1.0 : at->v < 0 ? -1.0 : 0.0;
        model->line[n] = (struct gy_l1_line){ (uint32_t)k, at->v, 0, at->l1, 0 };
        model->inverse[n] = at->curve + at->l2 > 0 ? 1 / (at->curve + at->l2) : 1;
        model->r[n] = -(at->g + slope + at->l2 * (at->v - at->w) + at->l1 * sign);
        n++;
    }
    return n;
}

/* line.d: about the step to the face's minimum, as if no value passed 0. The slope along it. */
static int lc_solve(struct gy_l1_by_columns *model, size_t n, double *slope, struct gy_error *err)
{
    double rho = 0;
    for (size_t i = 0; i < n; i++) {
        model->p[i] = model->inverse[i] * model->r[i];
        model->first[i] = model->r[i];
        rho += model->p[i] * model->r[i];
    }
    const double enough = 1e-4 * rho;
    for (int step = 0; step < LC_STEPS && rho > enough; step++) {
        GY_TRY(lc_times(model, n, model->p, model->q, err));
        const double curve = gy_nw_inner(model->p, model->q, n), alpha = rho / curve, before = rho;
        if (!(curve > 0))
            break;
        rho = 0;
        for (size_t i = 0; i < n; i++) {
            model->line[i].d += alpha * model->p[i];
            model->r[i] -= alpha * model->q[i];
            rho += model->r[i] * model->r[i] * model->inverse[i];
        }
        for (size_t i = 0; i < n; i++)
            model->p[i] = model->inverse[i] * model->r[i] + rho / before * model->p[i];
    }
    *slope = 0;
    for (size_t i = 0; i < n; i++) {
        *slope -= model->line[i].d * model->first[i];
    }
    return GY_OK;
}

/* The best point along the line to the face's minimum. */
static int lc_face(struct gy_l1_by_columns *model, struct gy_error *err)
{
    const size_t n = lc_list(model);
    double slope, stop_at;
    if (n == 0)
        return GY_OK;
    GY_TRY(lc_solve(model, n, &slope, err));
    for (size_t i = 0; i < n; i++)
        model->p[i] = model->line[i].d;
    GY_TRY(lc_times(model, n, model->p, model->q, err));
    const double share = slope < 0 ? gy_l1_best_share(model->line, n, slope, gy_nw_inner(model->p, model->q, n), &stop_at) : 0;
    for (size_t i = 0; share > 0 && i < n; i++) {
        const struct gy_l1_line *const line = &model->line[i];
        model->at[line->j].v = stop_at > 0 && line->at == stop_at ? 0 : line->v + share * line->d;
    }
    for (int64_t i = 0; share > 0 && i < model->row_count; i++)
        model->rows[i].slope += (float)share * model->nw->product[i];
    return GY_OK;
}

GY_INT int gy_l1_descend(struct gy_l1_by_columns *model, double enough, int cycles, int grouped, int *done, struct gy_error *err)
{
    *done = cycles == 0 && lc_rounds(model, enough, LC_ROUNDS_LEAST);
    for (int cycle = 0; cycle < cycles * (grouped ? 2 : 1); cycle++) {
        *done = lc_rounds(model, enough, grouped ? 1 : LC_ROUNDS_MOST);
        if (*done || (cycles == 1 && !grouped))
            return GY_OK;
        GY_TRY((grouped ? gy_l1_shift_groups : lc_face)(model, err));
    }
    return GY_OK;
}
