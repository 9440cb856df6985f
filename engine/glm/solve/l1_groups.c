/* SPDX-License-Identifier: MIT */
/* A field written as one-hot features is a group of which no row has two. Where nearly all rows
 * have one of each of two groups, moving one group's weights up and the other's down hardly changes
 * any score. Coordinate descent creeps along these directions. So, as on a coarse grid (Xu,
 * "Iterative methods by space decomposition and subspace correction", 1992), the weights of group g
 * that are not 0 move together, by t_g, to where
 *
 *     slope.t + t'Et / 2 + sum over j of l1_j |v_j + t_g(j)|
 *
 * is least: with all its kinks, so that the weights of a group that every row is in come to their
 * median. Groups are found first fit, long columns first: a feature joins the first group that none
 * of its rows is in. The bias is a group. */
#include "engine/glm/solve/l1_state.h"

#define LG_SAMPLE 32768  /* rows that E is made of, about */
#define LG_ROUNDS 40
#define LG_ENOUGH 1e-4   /* of the most that a round has promised */
#define LG_USEFUL 0.05   /* part of all rows that a useful group has beside its longest column's */
#define LG_LEAST 1e-9    /* pivots of E, of their own diagonals */

struct lg_pass {
    struct gy_nw_view view;
    const struct gy_l1_by_columns *model;
    int64_t step;        /* every step-th row counts in E, step times */
};

struct lg_column {
    int64_t length;
    uint32_t id;
};

/* ---- which feature is in which group ---- */

static int lg_longer(const void *a, const void *b)
{
    const struct lg_column *const x = a, *const y = b;
    return x->length != y->length ? (x->length > y->length ? -1 : 1) : x->id < y->id ? -1 : x->id > y->id;
}

static void lg_join(struct gy_l1_by_columns *model, struct lg_column column)
{
    struct gy_l1_groups *const groups = model->groups;
    const uint32_t *const row = model->columns->row + model->columns->start[column.id];
    uint64_t taken = 0;
    int g = 0;
    for (int64_t k = 0; k < column.length && taken != UINT64_MAX; k++)
        taken |= groups->taken[row[k]];
    while (g < GY_L1_GROUPS && (taken >> g & 1))
        g++;
    groups->of[column.id] = (uint8_t)(1 + g);
    if (g == GY_L1_GROUPS)
        return;
    for (int64_t k = 0; k < column.length; k++)
        groups->taken[row[k]] |= (uint64_t)1 << g;
    groups->rows[g] += column.length;
    groups->longest[g] = gy_max64(groups->longest[g], column.length);
}

static int lg_open(struct gy_l1_by_columns *model, struct gy_error *err)
{
    struct gy_arena *const arena = &model->nw->arena;
    const size_t dims = model->nw->dims, rows = (size_t)model->row_count, sums = (size_t)model->nw->slots * GY_L1_GROUP_SUMS;
    struct gy_l1_groups *const groups = gy_arena_take(arena, 1, sizeof *groups);
    if (groups) {
        groups->of = gy_arena_take(arena, dims, 1);
        groups->now = gy_arena_take(arena, dims, 1);
        groups->taken = gy_arena_take(arena, rows, sizeof *groups->taken);
        groups->sum = gy_arena_take(arena, sums, sizeof *groups->sum);
    }
    if (!groups || !groups->of || !groups->now || !groups->taken || !groups->sum)
        return GY_NOMEM(err, "groups of features", sizeof *groups + 2 * dims + rows * sizeof *groups->taken + sums * sizeof *groups->sum);
    model->groups = groups;
    if (dims == model->features)
        return GY_OK;
    groups->of[model->features] = 1;
    for (size_t i = 0; i < rows; i++)
        groups->taken[i] = 1;
    return GY_OK;
}

GY_INT int gy_l1_find_groups(struct gy_l1_by_columns *model, int *useful, struct gy_error *err)
{
    const struct gy_nw_columns *const columns = model->columns;
    size_t n = 0;
    int many = 0;
    if (!model->groups)
        GY_TRY(lg_open(model, err));
    const struct gy_l1_groups *const groups = model->groups;
    struct lg_column *const fresh = (struct lg_column *)(void *)model->line;
    for (size_t k = 0; k < model->count; k++) {
        const uint32_t id = model->at[k].id;
        if (model->at[k].v != 0 && groups->of[id] == 0)
            fresh[n++] = (struct lg_column){ columns->start[id + 1] - columns->start[id], id };
    }
    if (n > 0)
        qsort(fresh, n, sizeof *fresh, lg_longer);
    for (size_t i = 0; i < n; i++)
        lg_join(model, fresh[i]);
    for (int g = 0; g < GY_L1_GROUPS; g++)
        many += (double)(groups->rows[g] - groups->longest[g]) > LG_USEFUL * (double)model->row_count;
    *useful = many > 1;
    return GY_OK;
}

/* ---- E and the slope ---- */

static void lg_row(const struct lg_pass *pass, int32_t i, int counts, double *slope)
{
    const struct gy_l1_by_columns *const model = pass->model;
    const struct gy_rows *const rows = &pass->view.rows;
    const struct gy_l1_row *const at = &model->rows[pass->view.base + i];
    const double scale = (rows->value ? 1 : (double)rows->same) * (rows->scale ? (double)rows->scale[i] : 1);
    double x[GY_L1_GROUPS], *const e = slope + GY_L1_GROUPS;
    int group[GY_L1_GROUPS], n = 0;
    if (model->nw->dims > model->features && model->groups->now[model->features]) {
        group[n] = 0;
        x[n++] = model->bias;
    }
    for (uint32_t k = gy_rows_begin(rows, i); k < gy_rows_end(rows, i); k++) {
        const int in = model->groups->now[rows->id[k]];
        if (in == 0)
            continue;
        group[n] = in - 1;
        x[n++] = rows->value ? scale * (double)rows->value[k] : scale;
    }
    for (int a = 0; a < n; a++) {
        const double h = (double)at->curve * x[a];
        slope[group[a]] += (double)at->slope * x[a];
        for (int b = 0; counts && b <= a; b++)
            e[group[a] * GY_L1_GROUPS + group[b]] += h * x[b];
    }
}

static void lg_tile(void *job, int64_t tile, int thread)
{
    const struct lg_pass *const pass = job;
    int32_t from, to;
    (void)thread;
    gy_nw_range(&pass->view, tile, pass->model->nw->slots, &from, &to);
    for (int32_t i = from; i < to; i++)
        lg_row(pass, i, (pass->view.base + i) % pass->step == 0, pass->model->groups->sum + (size_t)tile * GY_L1_GROUP_SUMS);
}

static int lg_sums(struct gy_l1_by_columns *model, struct gy_error *err)
{
    struct gy_l1_groups *const groups = model->groups;
    const int slots = model->nw->slots;
    struct lg_pass pass = { .model = model, .step = model->row_count / LG_SAMPLE + 1 };
    memset(groups->sum, 0, (size_t)slots * GY_L1_GROUP_SUMS * sizeof *groups->sum);
    GY_TRY(gy_nw_walk(model->nw, lg_tile, &pass.view, slots, err));
    for (int s = 1; s < slots; s++)
        gy_nw_add(groups->sum, 1, groups->sum + (size_t)s * GY_L1_GROUP_SUMS, GY_L1_GROUP_SUMS);
    const double *const e = groups->sum + GY_L1_GROUPS;
    for (size_t a = 0; a < GY_L1_GROUPS; a++) {
        groups->slope[a] += groups->sum[a];
        for (size_t b = 0; b < GY_L1_GROUPS; b++)
            groups->e[a][b] += (double)pass.step * (e[a * GY_L1_GROUPS + b] + (a != b ? e[b * GY_L1_GROUPS + a] : 0));
    }
    return GY_OK;
}

/* Members by group: order, and their values in p. t = 0, slope and E there. */
static int lg_begin(struct gy_l1_by_columns *model, struct gy_error *err)
{
    struct gy_l1_groups *const groups = model->groups;
    size_t next[GY_L1_GROUPS];
    memset(groups->from, 0, sizeof groups->from);
    memset(groups->e, 0, sizeof groups->e);
    memset(groups->slope, 0, sizeof groups->slope);
    memset(groups->t, 0, sizeof groups->t);
    for (size_t k = 0; k < model->count; k++) {
        const struct gy_l1_coordinate *const at = &model->at[k];
        const size_t g = groups->of[at->id];
        if ((at->v == 0 && at->l1 > 0) || g == 0 || g > GY_L1_GROUPS)
            continue;
        groups->now[at->id] = (uint8_t)g;
        groups->from[g]++;
        groups->slope[g - 1] += at->g + at->l2 * (at->v - at->w);
        groups->e[g - 1][g - 1] += at->l2;
    }
    for (size_t g = 0; g < GY_L1_GROUPS; g++)
        groups->from[g + 1] += groups->from[g];
    memcpy(next, groups->from, sizeof next);
    for (size_t k = 0; k < model->count; k++)
        if (groups->now[model->at[k].id] > 0) {
            const size_t i = next[groups->now[model->at[k].id] - 1]++;
            model->order[i] = (uint32_t)k;
            model->p[i] = model->at[k].v;
        }
    const int status = lg_sums(model, err);
    for (size_t k = 0; k < model->count; k++)
        groups->now[model->at[k].id] = 0;
    memcpy(groups->first, groups->slope, sizeof groups->first);
    return status;
}

/* ---- the least over t ---- */

/* How fast the sum of l1 |v| rises where group g begins to move by d. */
static double lg_rise(const struct gy_l1_by_columns *model, size_t g, double d)
{
    double sum = 0;
    for (size_t i = model->groups->from[g]; i < model->groups->from[g + 1]; i++) {
        const double v = model->p[i];
        sum += model->at[model->order[i]].l1 * (v > 0 ? d : v < 0 ? -d : fabs(d));
    }
    return sum;
}

/* Values of the groups [first, last) come to the best point along d; the share of d. */
static double lg_search(struct gy_l1_by_columns *model, size_t first, size_t last, const double *d, double slope, double curve)
{
    const size_t *const from = model->groups->from, n = from[last] - from[first];
    double stop_at;
    for (size_t g = first; g < last; g++)
        for (size_t i = from[g]; i < from[g + 1]; i++)
            model->line[i - from[first]] = (struct gy_l1_line){ (uint32_t)i, model->p[i], d[g], model->at[model->order[i]].l1, 0 };
    const double share = slope < 0 ? gy_l1_best_share(model->line, n, slope, curve, &stop_at) : 0;
    for (size_t i = 0; share > 0 && i < n; i++) {
        const struct gy_l1_line *const line = &model->line[i];
        model->p[line->j] = stop_at > 0 && line->at == stop_at ? 0 : line->v + share * line->d;
    }
    return share > 0 ? share : 0;
}

/* The same; t and the groups' slopes follow. Returns what the slope promised. */
static double lg_move(struct gy_l1_by_columns *model, size_t first, size_t last, const double *d, double slope, double curve)
{
    struct gy_l1_groups *const groups = model->groups;
    const double share = lg_search(model, first, last, d, slope, curve);
    for (size_t g = first; g < last && share > 0; g++) {
        groups->t[g] += share * d[g];
        gy_nw_add(groups->slope, share * d[g], groups->e[g], GY_L1_GROUPS);
    }
    return -share * slope;
}

/* Each group moves alone. Returns what the slopes promised. */
static double lg_sweep(struct gy_l1_by_columns *model)
{
    const struct gy_l1_groups *const groups = model->groups;
    double d[GY_L1_GROUPS], promised = 0;
    for (size_t g = 0; g < GY_L1_GROUPS; g++)
        for (d[g] = 1; d[g] >= -1 && groups->from[g] < groups->from[g + 1]; d[g] -= 2) {
            const double slope = groups->slope[g] * d[g] + lg_rise(model, g, d[g]);
            if (slope < 0) {
                promised += lg_move(model, g, g + 1, d, slope, groups->e[g][g]);
                break;
            }
        }
    return promised;
}

/* 1: there is a value of the group at 0, where the sum has a kink. */
static int lg_at_kink(const struct gy_l1_by_columns *model, size_t g)
{
    for (size_t i = model->groups->from[g]; i < model->groups->from[g + 1]; i++)
        if (model->p[i] == 0 && model->at[model->order[i]].l1 > 0)
            return 1;
    return 0;
}

/* All groups that are at no kink move at once, by a Newton step. Returns what the slope
 * promised. */
static double lg_newton(struct gy_l1_by_columns *model)
{
    struct gy_l1_groups *const groups = model->groups;
    size_t loose[GY_L1_GROUPS], n = 0;
    double x[GY_L1_GROUPS], down[GY_L1_GROUPS], least[GY_L1_GROUPS], d[GY_L1_GROUPS] = { 0 }, most = 0, slope = 0, curve = 0, *a = groups->factor;
    for (size_t g = 0; g < GY_L1_GROUPS; g++)
        if (groups->from[g] < groups->from[g + 1] && !lg_at_kink(model, g))
            loose[n++] = g;
    for (size_t i = 0; i < n; i++) {
        const double *const e = groups->e[loose[i]];
        most = e[loose[i]] > most ? e[loose[i]] : most;
        least[i] = LG_LEAST * e[loose[i]];
        x[i] = down[i] = -(groups->slope[loose[i]] + lg_rise(model, loose[i], 1));
        for (size_t k = i; k < n; k++)
            *a++ = e[loose[k]];
    }
    if (!(most > 0))
        return 0;
    for (size_t i = 0; i < n; i++)
        least[i] = least[i] > 0 ? least[i] : LG_LEAST * most;
    gy_nw_factor(model->nw->run->pool, model->nw->cpu, groups->factor, n, least);
    gy_nw_solve(groups->factor, n, x);
    for (size_t i = 0; i < n; i++) {
        d[loose[i]] = x[i];
        slope -= x[i] * down[i];
    }
    for (size_t i = 0; i < n; i++)
        curve += x[i] * gy_nw_inner(groups->e[loose[i]], d, GY_L1_GROUPS);
    return lg_move(model, 0, GY_L1_GROUPS, d, slope, curve);
}

/* ---- the step ---- */

/* E comes from a sample. This computes the curvature along t over all rows, and the share of t to
 * take. p follows. */
static double lg_share(struct gy_l1_by_columns *model)
{
    const struct gy_l1_groups *const groups = model->groups;
    double curve = 0, slope = 0, rise = 0;
    for (int64_t i = 0; i < model->row_count; i++) {
        const double t = (double)model->nw->product[i];
        curve += t != 0 ? t * t / (double)model->rows[i].curve : 0;
    }
    for (size_t g = 0; g < GY_L1_GROUPS; g++) {
        slope += groups->first[g] * groups->t[g];
        for (size_t i = groups->from[g]; i < groups->from[g + 1]; i++) {
            const struct gy_l1_coordinate *const at = &model->at[model->order[i]];
            curve += at->l2 * groups->t[g] * groups->t[g];
            rise += at->l1 * (fabs(model->p[i]) - fabs(at->v));
        }
    }
    if (slope + 0.5 * curve + rise < 0)
        return 1;
    for (size_t i = 0; i < groups->from[GY_L1_GROUPS]; i++)
        model->p[i] = model->at[model->order[i]].v;
    for (size_t g = 0; g < GY_L1_GROUPS; g++)
        slope += lg_rise(model, g, groups->t[g]);
    return lg_search(model, 0, GY_L1_GROUPS, groups->t, slope, curve);
}

GY_INT int gy_l1_shift_groups(struct gy_l1_by_columns *model, struct gy_error *err)
{
    const struct gy_l1_groups *const groups = model->groups;
    double most = 0, promised = 1;
    GY_TRY(lg_begin(model, err));
    const size_t n = groups->from[GY_L1_GROUPS];
    for (int round = 0; round < LG_ROUNDS && promised > LG_ENOUGH * most; round++) {
        promised = lg_sweep(model);
        promised += lg_newton(model);
        most = promised > most ? promised : most;
    }
    if (!(most > 0))
        return GY_OK;
    for (size_t g = 0; g < GY_L1_GROUPS; g++)
        for (size_t i = groups->from[g]; i < groups->from[g + 1]; i++)
            model->narrow[model->at[model->order[i]].id] = (float)groups->t[g];
    const int status = gy_nw_forward(model->nw, model->narrow, err);
    for (size_t i = 0; i < n; i++)
        model->narrow[model->at[model->order[i]].id] = 0;
    GY_TRY(status);
    const double share = lg_share(model);
    for (size_t i = 0; i < n; i++)
        model->at[model->order[i]].v = model->p[i];
    for (int64_t i = 0; share > 0 && i < model->row_count; i++)
        model->rows[i].slope += (float)share * model->nw->product[i];
    return GY_OK;
}
