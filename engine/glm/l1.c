/* SPDX-License-Identifier: MIT */
/* Proximal Newton for an l1 penalty, with l2 beside it or not (Yuan, Ho, Lin, "An improved GLMNET for l1-regularized logistic regression", 2012), on working
 * sets. A visit gives the pull of the rows on every feature; those whose value is not 0, and those that are pulled hardest beyond l1, are the set; one more
 * pass over the rows gives the set's curvature matrix; the quadratic model is minimised there, and P searched along the way. The rows are only read in passes,
 * whatever the feed, and ranks add up pulls and matrices: the model is then the same on all, and so is its minimum.
 *
 * The dual point is made of the slopes, scaled until no feature is pulled beyond l1 (newton_bound.c). */
#include "l1.h"
#include "../job.h"

#define L1_SET_MOST 2048    /* features of a set */
#define L1_SET_LEAST 256
#define L1_WIDE_LEAST 1024   /* by columns: a set costs what its columns are long */
#define L1_HALVINGS 30
#define L1_ROWS_PER_DIM 8
#define L1_COLUMNS_FROM 512 /* features from which a resident feed of one rank is taken by columns */
#define L1_CYCLES 6 /* of coordinate descent and a face, at most, of a step */
#define L1_NEAR 0.9         /* of l1: pulls from here on are of interest */

struct l1_candidate {
    double score;
    uint32_t id;
};

struct l1 {
    struct gy_nw nw;
    float *w, *trial;          /* [dims] */
    double *g, *u;             /* gradient of losses and l2 at w; pull at the point last visited */
    int32_t *map;              /* place in the set, or -1 */
    uint32_t *set;             /* [count of the model] ids, rising */
    struct l1_candidate *candidate;
    double *triangle;
    struct gy_l1_model model;
    struct gy_l1_by_columns wide; /* instead, with columns */
    size_t room;               /* features that the set's memory has room for */
    struct gy_nw_sums sums;
    double primal, dual;       /* dual: the best bound so far */
    double violation;          /* of all features, at w */
    double most;               /* the largest of them */
    int same_matrix;           /* squared loss: the set's matrix still holds */
};

static int l1_fits(const struct gy_glm_problem *problem, const struct gy_glm_feed *feed, const char **why)
{
    (void)feed;
    *why = problem->loss == GY_GLM_HINGE ? "the hinge loss has no second derivative" : problem->l1 <= 0 ? "there is no l1 penalty" : NULL;
    return *why == NULL;
}

static int l1_is_free(const struct l1 *l1, size_t j) { return j == l1->nw.features && l1->nw.problem->bias_free; }

/* ---- a point ---- */

static double l1_primal(const struct l1 *l1, const float *w)
{
    const struct gy_glm_problem *const problem = l1->nw.problem;
    double square = 0, size = 0;
    for (size_t j = 0; j < l1->nw.dims; j++) {
        if (w[j] == 0 || l1_is_free(l1, j))
            continue;
        square += (double)w[j] * (double)w[j];
        size += fabs((double)w[j]);
    }
    return l1->sums.loss + 0.5 * problem->l2 * square + problem->l1 * size;
}

/* How far feature j is from its condition, by its gradient. */
static double l1_off(const struct l1 *l1, size_t j)
{
    const double g = l1->g[j], size = l1_is_free(l1, j) ? 0 : l1->nw.problem->l1, w = (double)l1->w[j];
    const double off = w > 0 ? fabs(g + size) : w < 0 ? fabs(g - size) : fabs(g) - size;
    return off > 0 ? off : 0;
}

static void l1_accept(struct l1 *l1, const float *w, double primal)
{
    if (w != l1->w)
        memcpy(l1->w, w, l1->nw.dims * sizeof *w);
    l1->primal = primal;
    l1->violation = l1->most = 0;
    for (size_t j = 0; j < l1->nw.dims; j++) {
        l1->g[j] = (l1_is_free(l1, j) ? 0 : l1->nw.problem->l2 * (double)w[j]) - l1->u[j];
        const double off = l1_off(l1, j);
        l1->violation += off;
        l1->most = off > l1->most ? off : l1->most;
    }
}

static int l1_visit(struct l1 *l1, const float *w, struct gy_error *err) { return gy_nw_visit(&l1->nw, w, l1->u, NULL, &l1->sums, err); }

static int l1_begin(struct l1 *l1, struct gy_error *err)
{
    GY_TRY(l1_visit(l1, l1->w, err));
    l1_accept(l1, l1->w, l1_primal(l1, l1->w));
    return GY_OK;
}

/* ---- the set ---- */

static int l1_harder(const void *a, const void *b)
{
    const struct l1_candidate *const x = a, *const y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1) : x->id < y->id ? -1 : x->id > y->id;
}

/* Memory of a set of so many features. */
static int l1_room(struct l1 *l1, size_t count, struct gy_error *err)
{
    struct gy_arena *const arena = &l1->nw.arena;
    struct gy_l1_model *const model = &l1->model;
    if (count <= l1->room)
        return GY_OK;
    size_t room = count < 2 * l1->room ? 2 * l1->room : count;
    room = room > l1->nw.dims ? l1->nw.dims : room;
    const size_t stride = (room + 15) / 16 * 16, face = room < GY_L1_FACE ? room : GY_L1_FACE, triangle = face * (face + 1) / 2;
    model->matrix = gy_arena_take(arena, room * stride, sizeof *model->matrix);
    model->l1 = gy_arena_take(arena, room, sizeof *model->l1);
    model->v = gy_arena_take(arena, room, sizeof *model->v);
    model->r = gy_arena_take(arena, room, sizeof *model->r);
    model->face = gy_arena_take(arena, room, sizeof *model->face);
    model->delta = gy_arena_take(arena, room, sizeof *model->delta);
    model->moved = gy_arena_take(arena, room, sizeof *model->moved);
    model->factor = gy_arena_take(arena, triangle > 4 * room ? triangle : 4 * room, sizeof *model->factor);
    l1->set = gy_arena_take(arena, room, sizeof *l1->set);
    l1->triangle = gy_arena_take(arena, room * (room + 1) / 2, sizeof *l1->triangle);
    if (!model->matrix || !model->l1 || !model->v || !model->r || !model->face || !model->delta || !model->moved || !model->factor || !l1->set || !l1->triangle)
        return GY_NOMEM(err, "a set of features and its curvature", room * room * 8);
    l1->room = room;
    return GY_OK;
}

/* Candidates in the order in which they are wanted; how many. */
static size_t l1_candidates(struct l1 *l1, size_t *held)
{
    const size_t dims = l1->nw.dims;
    const double size = l1->nw.problem->l1;
    size_t n = 0;
    *held = 0;
    for (size_t j = 0; j < dims; j++)
        *held += l1->w[j] != 0;
    const double keep = 2 * *held < L1_SET_MOST || l1->nw.columns ? 2 * size + l1->most : 0; /* all that are held stay, or those that are worst off come */
    for (size_t j = 0; j < dims; j++) {
        const double pull = fabs(l1->g[j]);
        const int has = l1->w[j] != 0 || l1_is_free(l1, j);
        if (has || pull > L1_NEAR * size)
            l1->candidate[n++] = (struct l1_candidate){ l1_is_free(l1, j) ? (double)INFINITY : l1_off(l1, j) + (has ? keep : 0), (uint32_t)j };
    }
    qsort(l1->candidate, n, sizeof *l1->candidate, l1_harder);
    return n;
}

/* Chooses the set, rising; *same: it is the one before. Few features are all taken. */
static int l1_choose(struct l1 *l1, int *same, struct gy_error *err)
{
    const size_t dims = l1->nw.dims, before = l1->model.count;
    size_t held = 0, n = l1_candidates(l1, &held), most = 2 * held > L1_SET_LEAST ? 2 * held : L1_SET_LEAST;
    most = most > L1_SET_MOST ? L1_SET_MOST : most;
    n = n > most ? most : n;
    if (dims <= L1_SET_LEAST)
        n = dims;
    GY_TRY(l1_room(l1, n, err));
    *same = n == before;
    for (size_t i = 0; i < n; i++) {
        const size_t j = dims <= L1_SET_LEAST ? i : l1->candidate[i].id;
        *same &= l1->map[j] >= 0;
        l1->map[j] = INT32_MAX;
    }
    l1->model.count = 0;
    for (size_t j = 0; j < dims; j++) {
        const int in = l1->map[j] == INT32_MAX;
        l1->map[j] = in ? (int32_t)l1->model.count : -1;
        if (in)
            l1->set[l1->model.count++] = (uint32_t)j;
    }
    return GY_OK;
}

/* The quadratic model at w, over the set. */
static int l1_build(struct l1 *l1, struct gy_error *err)
{
    struct gy_l1_model *const model = &l1->model;
    const size_t count = model->count;
    int same;
    GY_TRY(l1_choose(l1, &same, err));
    if (!same || !l1->same_matrix) {
        GY_TRY(gy_nw_matrix(&l1->nw, l1->map, model->count, l1->triangle, err));
        model->stride = (model->count + 15) / 16 * 16;
        const double *a = l1->triangle;
        for (size_t i = 0; i < model->count; i++)
            for (size_t k = i; k < model->count; k++) {
                const double l2 = i == k && !l1_is_free(l1, l1->set[i]) ? l1->nw.problem->l2 : 0;
                model->matrix[i * model->stride + k] = model->matrix[k * model->stride + i] = (float)(*a++ + l2);
            }
        l1->same_matrix = l1->nw.problem->loss == GY_GLM_SQUARED;
    }
    (void)count;
    for (size_t i = 0; i < model->count; i++) {
        const size_t j = l1->set[i];
        model->l1[i] = l1_is_free(l1, j) ? 0 : l1->nw.problem->l1;
        model->v[i] = (double)l1->w[j];
        model->r[i] = l1->g[j];
    }
    return GY_OK;
}

/* ---- steps ---- */

/* What P would lose along the whole step if it were its linear part and the penalty. */
static double l1_promise(const struct l1 *l1)
{
    const struct gy_l1_model *const model = &l1->model;
    double sum = 0;
    for (size_t i = 0; i < l1->wide.count; i++) {
        const struct gy_l1_coordinate *const at = &l1->wide.at[i];
        sum += at->g * (at->v - at->w) + at->l1 * (fabs(at->v) - fabs(at->w));
    }
    for (size_t i = 0; i < model->count; i++) {
        const double w = (double)l1->w[l1->set[i]];
        sum += l1->g[l1->set[i]] * (model->v[i] - w) + model->l1[i] * (fabs(model->v[i]) - fabs(w));
    }
    return sum;
}

static void l1_place(struct l1 *l1, double t)
{
    memcpy(l1->trial, l1->w, l1->nw.dims * sizeof *l1->trial);
    for (size_t i = 0; i < l1->wide.count; i++) {
        const struct gy_l1_coordinate *const at = &l1->wide.at[i];
        l1->trial[at->id] = (float)(t < 1 ? at->w + t * (at->v - at->w) : at->v);
    }
    for (size_t i = 0; i < l1->model.count; i++) {
        const double w = (double)l1->w[l1->set[i]], v = l1->model.v[i];
        l1->trial[l1->set[i]] = (float)(t < 1 ? w + t * (v - w) : v);
    }
}

static int l1_search(struct l1 *l1, int *moved, struct gy_error *err)
{
    const double promise = l1_promise(l1), noise = 1e-13 * fabs(l1->primal);
    double t = 1;
    *moved = 0;
    for (int halving = 0; halving < L1_HALVINGS && promise < 0; halving++, t *= 0.5) {
        l1_place(l1, t);
        GY_TRY(l1_visit(l1, l1->trial, err));
        const double primal = l1_primal(l1, l1->trial);
        if (primal <= l1->primal + 0.01 * t * promise + noise) {
            l1_accept(l1, l1->trial, primal);
            *moved = 1;
            return GY_OK;
        }
        if (-t * promise < noise)
            return GY_OK;
    }
    return GY_OK;
}

/* ---- the same by columns ---- */

static void l1_build_wide(struct l1 *l1)
{
    struct gy_l1_by_columns *const wide = &l1->wide;
    size_t held, n = l1_candidates(l1, &held), most = 3 * held > L1_WIDE_LEAST ? 3 * held : L1_WIDE_LEAST;
    wide->count = n < most ? n : most;
    for (size_t i = 0; i < wide->count; i++) {
        const size_t j = l1->candidate[i].id;
        const int is_free = l1_is_free(l1, j);
        const double w = (double)l1->w[j];
        wide->at[i] = (struct gy_l1_coordinate){ (uint32_t)j, w, w, l1->g[j], is_free ? 0 : l1->nw.problem->l1, is_free ? 0 : l1->nw.problem->l2, -1 };
    }
    for (int64_t i = 0; i < wide->row_count; i++)
        wide->rows[i] = (struct gy_l1_row){ l1->nw.curve[i], 0 };
}

static double l1_wide_off(const struct l1 *l1)
{
    double sum = 0;
    for (size_t i = 0; i < l1->wide.count; i++)
        sum += l1_off(l1, l1->wide.at[i].id);
    return sum;
}

/* ---- a step ---- */

static int l1_step(struct l1 *l1, int *moved, struct gy_error *err)
{
    if (l1->nw.columns) {
        l1_build_wide(l1);
        const double off = l1_wide_off(l1);
        GY_TRY(gy_l1_descend(&l1->wide, 0.25 * off, L1_CYCLES, err));
        return l1_search(l1, moved, err);
    }
    GY_TRY(l1_build(l1, err));
    gy_l1_minimise(&l1->model, (l1->model.count > L1_SET_LEAST ? 0.05 : 1e-3) * gy_l1_violation(&l1->model));
    return l1_search(l1, moved, err);
}

/* ---- certificate ---- */

/* Without a further pass: conjugates are concave and 0 at 0, so those of s times a coefficient are at least s times the coefficient's. */
static double l1_cheap_bound(const struct l1 *l1)
{
    const struct gy_glm_problem *const problem = l1->nw.problem;
    double most = 0, conjugates = l1->sums.loss, excess = 0;
    for (size_t j = 0; j < l1->nw.dims; j++) {
        const double u = fabs(l1->u[j]), over = u - problem->l1;
        conjugates += l1->u[j] * (double)l1->w[j];
        most = u > most ? u : most;
        excess += over > 0 ? over * over : 0;
    }
    const double s = most > problem->l1 ? problem->l1 / most : 1, scaled = s * conjugates;
    const double whole = problem->l2 > 0 ? conjugates - excess / (2 * problem->l2) : (double)-INFINITY;
    return whole > scaled ? whole : scaled;
}

/* u and sums are of w. exact: whatever passes it costs; else they are spent only where they may end the run. */
static int l1_certify(struct l1 *l1, int exact, struct gy_error *err)
{
    struct gy_glm_run *const run = l1->nw.run;
    struct gy_glm_certificate *const at = &run->result;
    const struct gy_glm_problem *const problem = run->problem;
    const int is_free = problem->bias != 0 && problem->bias_free, logistic = problem->loss == GY_GLM_LOGISTIC;
    const double goal = run->stop.gap * fabs(l1->primal);
    double dual = logistic && !is_free ? l1_cheap_bound(l1) : (double)-INFINITY;
    const int near = is_free ? l1->violation < problem->l1 : l1->primal - dual <= 10 * goal;
    if (exact || (!logistic && !is_free) || (near && l1->primal - dual > goal))
        GY_TRY(gy_nw_bound(&l1->nw, l1->w, &l1->sums, l1->u, &dual, err));
    l1->dual = dual > l1->dual ? dual : l1->dual;
    at->primal = l1->primal;
    at->loss = l1->sums.loss;
    at->dual = l1->dual;
    at->dual = at->dual > at->primal ? at->primal : at->dual; /* by rounding */
    at->gap = at->primal - at->dual;
    return GY_OK;
}

/* ---- the run ---- */

/* Some steps on every step-th row, where these are many for the features. */
static int l1_samples(struct l1 *l1, struct gy_error *err)
{
    static const int steps[] = { 512, 64, 8 };
    const struct gy_glm_feed *const feed = l1->nw.run->feed;
    const int64_t rows = feed->all_rows > feed->rows ? feed->all_rows : feed->rows;
    int streamed = !feed->resident || gy_nw_has_begun(l1->w, l1->nw.dims); /* on any rank; a sample would spoil what an earlier run found */
    GY_TRY(gy_job_any(l1->nw.run->job, streamed, &streamed, err));
    if (streamed || l1->nw.columns)
        return GY_OK;
    for (size_t i = 0; i < GY_COUNT(steps); i++) {
        if (rows / steps[i] < L1_ROWS_PER_DIM * (int64_t)l1->nw.dims)
            continue;
        l1->nw.step = steps[i];
        GY_TRY(l1_begin(l1, err));
        int moved = 1;
        for (int k = 0; k < 10 && moved; k++) {
            const double before = l1->primal;
            GY_TRY(l1_step(l1, &moved, err));
            if (before - l1->primal < 0.05 * steps[i] * (double)l1->nw.dims)
                break;
        }
        l1->same_matrix = 0;
    }
    l1->nw.step = 1;
    return GY_OK;
}

static int l1_run(struct l1 *l1, struct gy_error *err)
{
    struct gy_glm_run *const run = l1->nw.run;
    struct gy_nw_watch watch = { 0 };
    int moved = 1;
    GY_TRY(l1_samples(l1, err));
    GY_TRY(l1_begin(l1, err));
    GY_TRY(gy_nw_finite(l1->primal, err));
    GY_TRY(l1_certify(l1, 0, err));
    run->why = NULL;
    while (!run->why) {
        const double primal = l1->primal, violation = l1->violation;
        GY_TRY(l1_step(l1, &moved, err));
        if (moved)
            GY_TRY(l1_certify(l1, 0, err));
        GY_TRY(gy_nw_report(&l1->nw, &watch, &run->why, err));
        if (!run->why && (!moved || (primal - l1->primal <= 1e-13 * fabs(primal) && l1->violation > 0.5 * violation)))
            run->why = "rounding";
    }
    if (!moved)
        GY_TRY(l1_visit(l1, l1->w, err));
    return run->why[0] == 'g' ? GY_OK : l1_certify(l1, 1, err);
}

static int l1_take(struct l1 *l1, struct gy_error *err)
{
    struct gy_arena *const arena = &l1->nw.arena;
    const size_t dims = l1->nw.dims;
    l1->w = l1->nw.run->w;
    l1->dual = (double)-INFINITY;
    l1->model.pool = l1->nw.run->pool;
    l1->model.cpu = l1->nw.cpu;
    l1->trial = gy_arena_take(arena, dims, sizeof *l1->trial);
    l1->g = gy_arena_take(arena, dims, sizeof *l1->g);
    l1->u = gy_arena_take(arena, dims, sizeof *l1->u);
    l1->map = gy_arena_take(arena, dims, sizeof *l1->map);
    l1->candidate = gy_arena_take(arena, dims, sizeof *l1->candidate);
    if (!l1->trial || !l1->g || !l1->u || !l1->map || !l1->candidate)
        return GY_NOMEM(err, "proximal Newton", dims * 40);
    memset(l1->map, 0xff, dims * sizeof *l1->map);
    if (!l1->nw.columns)
        return GY_OK;
    l1->wide = (struct gy_l1_by_columns){ .nw = &l1->nw, .columns = l1->nw.columns, .features = l1->nw.features, .bias = l1->nw.problem->bias };
    l1->wide.row_count = l1->nw.rows;
    l1->wide.rows = gy_arena_take(arena, (size_t)l1->nw.rows, sizeof *l1->wide.rows);
    l1->wide.at = gy_arena_take(arena, dims, sizeof *l1->wide.at);
    l1->wide.order = gy_arena_take(arena, dims, sizeof *l1->wide.order);
    l1->wide.narrow = gy_arena_take(arena, dims, sizeof *l1->wide.narrow);
    l1->wide.line = gy_arena_take(arena, dims, sizeof *l1->wide.line);
    l1->wide.r = gy_arena_take(arena, 5 * dims, sizeof *l1->wide.r);
    if (!l1->wide.rows || !l1->wide.at || !l1->wide.order || !l1->wide.narrow || !l1->wide.line || !l1->wide.r)
        return GY_NOMEM(err, "proximal Newton by columns", dims * 136 + (size_t)l1->nw.rows * 8);
    double **const parts[] = { &l1->wide.p, &l1->wide.q, &l1->wide.inverse, &l1->wide.first };
    for (size_t i = 0; i < GY_COUNT(parts); i++)
        *parts[i] = l1->wide.r + (i + 1) * dims;
    return GY_OK;
}

static int l1_solve(struct gy_glm_run *run, struct gy_error *err)
{
    struct l1 l1 = { .primal = 0 };
    GY_TRY(gy_nw_open(&l1.nw, run, run->feed->features >= L1_COLUMNS_FROM && (!run->job || run->job->ranks == 1), 0, err));
    int status = l1_take(&l1, err);
    if (status == GY_OK)
        status = l1_run(&l1, err);
    if (status == GY_OK || status == GY_E_STOPPED) {
        const int dual = gy_nw_dual(&l1.nw, run->w, err);
        status = dual != GY_OK ? dual : status;
    }
    gy_nw_close(&l1.nw);
    return status;
}

GY_INT const struct gy_glm_solver *gy_glm_l1(void)
{
    static const struct gy_glm_solver solver = { "l1", "proximal Newton on working sets; l1, with l2 or without", l1_fits, l1_solve };
    return &solver;
}
