/* SPDX-License-Identifier: MIT */
/* Proximal Newton for an l1 penalty, with l2 beside it or not (1), on working sets; solver.c has it
 * in its table. A run, with who does each line:
 *
 *     without columns: steps on every 512th, 64th, 8th row, where many         l1_samples
 *     u = pull of the rows at w; g = l2 w - u; P                               l1_begin
 *     repeat
 *         candidates: w_j not 0, |g_j| > 0.9 l1, a free bias; the worst first  l1_candidates
 *         v = about the least of g.(v - w) + (v - w)'M(v - w) / 2 + l1 |v|_1 over the first of them
 *             streams, ranks, few features: M in memory, of a pass             l1_build
 *                 coordinate descent and faces, until 0.05 of the violation    gy_l1_minimise
 *             by columns, the first that will do:                              l1_step_by_columns
 *                 the few worst alone, where they are half of what is wrong    l1_focus
 *                 M of an earlier point, where it left at most 0.4             l1_by_kept_matrix
 *                 the first two steps: two rounds of coordinate descent        gy_l1_descend
 *                 M of a pass, where it is at most 32 products an entry        l1_by_matrix
 *                 rounds; when they become slow, M of at most 400 products     gy_l1_descend
 *                 6 cycles of rounds and a face; where there are groups, 12    gy_l1_descend
 *                     of a round and a move of them
 *         t = 1, 1/2, ... until P(w + t (v - w)) <= P + 0.01 t promise         l1_search
 *         D of the slopes at w, scaled into its domain; the best one is kept   l1_certify
 *         progress; the run's rule may say why                                 gy_nw_report
 *         steps that bring nothing: M gets a ridge, then the end               l1_judge
 *     a last bound, whatever passes it costs, unless the gap is reached        l1_certify
 *     where floats end it: v of one step more, in double, for another bound    l1_leave_last
 *
 * A visit gives the pull of the rows on every feature; one more pass gives M. Rows are only read in
 * passes, whatever the feed, and ranks add up pulls and matrices: the model is the same on all.
 *
 * (1) Yuan, Ho, Lin, "An improved GLMNET for l1-regularized logistic regression", 2012. Groups: Xu,
 * "Iterative methods by space decomposition and subspace correction", 1992 (l1_groups.c). Bounds:
 * newton_bound.c. */
#include "engine/glm/glm_room.h"
#include "engine/glm/solve/l1_state.h"
#include "engine/job/peers.h"

#define L1_SET_MOST 2048    /* features of a set */
#define L1_SET_LEAST 256
#define L1_WIDE_LEAST 1024   /* by columns: a set costs what its columns are long */
#define L1_HALVINGS 30
#define L1_MATRIX_LOOKS 32.0 /* most products of the matrix, over entries of its columns; */
#define L1_SLOW_LOOKS 400.0  /* the same, where rounds without it have become slow */
/* a matrix of an earlier point serves as long as a step leaves at most this part of the
 * violation */
#define L1_KEEP 0.4
/* Steps without progress. The best of their bounds is taken; each is of weights with other
 * roundings. */
#define L1_STUCK 5
#define L1_FOCUS 64            /* features of a step on the worst alone */
#define L1_FOCUS_SHARE 8        /* they are no more of those that are not 0 than one in so many */
#define L1_FOCUS_LEAST 0.05 /* of the worst */
#define L1_MATRIX_AFTER 2      /* steps on all rows that rounds are enough for */
/* The part of the violation that may be left in a model with a matrix of columns, or with groups of
 * features. */
#define L1_ENOUGH 0.1
#define L1_LAST 1e-6 /* the same, of the step in double that proves what floats cannot */
/* features from which on a resident feed of one rank is taken by columns */
#define L1_COLUMNS_FROM 512
#define L1_CYCLES 6 /* of coordinate descent and a face, at most, of a step */
/* Share that a matrix's diagonal gains where steps bring nothing: float roundings may have left
 * curvatures below 0. */
#define L1_RIDGE 1e-6
#define L1_FLOAT 0x1p-24    /* half the distance of two floats from 1 */
#define L1_NEAR 0.9         /* of l1: pulls from here on are of interest */

struct l1_candidate {
    double score;
    uint32_t id;
};

struct l1 {
    struct gy_nw nw;
    float *w, *trial;          /* [dims] */
    /* [live_count] features whose weight may differ from 0 at the optimum, rising; NULL: all */
    uint32_t *live;
    size_t live_count;
    double *g, *u;             /* gradient of losses and l2 at w; pull at the point last visited */
    int32_t *map;              /* place in the set, or -1 */
    uint32_t *set;             /* [count of the model] ids, rising */
    struct l1_candidate *candidate;
    double *triangle;
    struct gy_l1_model model;
    struct gy_l1_by_columns wide; /* instead, with columns */
    int steps, focused;        /* by columns so far; the last one was on few features */
    int cheap;                 /* the last set's matrix was */
    int kept;                  /* the model's matrix is the last set's */
    double before;             /* violation before the last step */
    int grouped;               /* the features are groups, of which rows have one each */
    int by_model;              /* this step's values are the model's, else wide's */
    size_t room, candidate_room; /* features that the set's memory has room for */
    struct gy_nw_sums sums;
    double primal, dual;       /* dual: the best bound so far */
    double violation;          /* of all features, at w */
    double most;               /* the largest of them */
    int same_matrix;           /* squared loss: the set's matrix still holds */
    double promise;            /* what P should lose by the last step */
    struct gy_nw_judge judge;  /* exact: matrices have a ridge */
};

static int l1_fits(const struct gy_glm_problem *problem, const struct gy_glm_feed *feed, const char **why)
{
    (void)feed;
    *why = gy_glm_has_kink(problem) ? "the hinge loss has no second derivative"
           : problem->l1 <= 0       ? "there is no l1 penalty"
                                    : NULL;
    return !*why;
}

/* The i-th feature that counts. */
static size_t l1_live(const struct l1 *l1, size_t i) { return l1->live ? l1->live[i] : i; }

static int l1_is_free(const struct l1 *l1, size_t j) { return j == l1->nw.features && l1->nw.problem->bias_free; }

/* ---- a point ---- */

static double l1_primal(const struct l1 *l1, const float *w)
{
    const struct gy_glm_problem *const problem = l1->nw.problem;
    double square = 0, size = 0;
    for (size_t i = 0; i < l1->live_count; i++) {
        const size_t j = l1_live(l1, i);
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
    for (size_t i = 0; i < l1->live_count; i++) {
        const size_t j = l1_live(l1, i);
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
    struct gy_l1_model *const model = &l1->model;
    if (count <= l1->room)
        return GY_OK;
    size_t room = count < 2 * l1->room ? 2 * l1->room : count;
    room = room > l1->nw.dims ? l1->nw.dims : room;
    const int64_t all = (int64_t)room, stride = (all + 15) / 16 * 16, face = gy_min64(all, GY_L1_FACE);
    const struct gy_glm_room rooms[] = {
        { &model->matrix, all * stride, sizeof *model->matrix }, { &model->l1, all, sizeof *model->l1 },
        { &model->v, all, sizeof *model->v }, { &model->r, all, sizeof *model->r },
        { &model->face, all, sizeof *model->face }, { &model->delta, all, sizeof *model->delta },
        { &model->moved, all, sizeof *model->moved },
        { &model->factor, gy_max64(face * (face + 1) / 2, 4 * all), sizeof *model->factor },
        { &l1->set, all, sizeof *l1->set },
        { &l1->triangle, all * (all + 1) / 2, sizeof *l1->triangle },
    };
    GY_TRY(gy_glm_take_rooms(&l1->nw.arena, rooms, GY_COUNT(rooms), "a set of features and its curvature", err));
    l1->room = room;
    return GY_OK;
}

static int l1_is_candidate(const struct l1 *l1, size_t j)
{
    return l1->w[j] != 0 || fabs(l1->g[j]) > L1_NEAR * l1->nw.problem->l1 || l1_is_free(l1, j);
}

/* Candidates in the order in which they are wanted, or the worst off first; *count of them. */
static int l1_candidates(struct l1 *l1, int worst, size_t *held, size_t *count, struct gy_error *err)
{
    const size_t dims = l1->nw.dims;
    size_t n = 0;
    *held = 0;
    for (size_t i = 0; i < l1->live_count; i++) {
        *held += l1->w[l1_live(l1, i)] != 0;
        n += (size_t)l1_is_candidate(l1, l1_live(l1, i));
    }
    if (n > l1->candidate_room) {
        l1->candidate_room = n < dims / 2 ? 2 * n : dims;
        l1->candidate = gy_arena_take(&l1->nw.arena, l1->candidate_room, sizeof *l1->candidate);
        if (!l1->candidate)
            return GY_NOMEM(err, "candidates of a set", l1->candidate_room * sizeof *l1->candidate);
    }
    n = 0;
    /* stay: all that are held stay; otherwise the worst ones come */
    const int stay = !worst && (2 * *held < L1_SET_MOST || l1->nw.columns);
    const double keep = stay ? 2 * l1->nw.problem->l1 + l1->most : 0;
    for (size_t i = 0; i < l1->live_count; i++) {
        const size_t j = l1_live(l1, i);
        if (l1_is_candidate(l1, j))
            l1->candidate[n++] = (struct l1_candidate){ l1_is_free(l1, j) && !worst ? (double)INFINITY : l1_off(l1, j) + (l1->w[j] != 0 ? keep : 0),
                (uint32_t)j };
    }
    if (n > 0)
        qsort(l1->candidate, n, sizeof *l1->candidate, l1_harder);
    *count = n;
    return GY_OK;
}

/* How many of the candidates a set takes whose matrix is made whatever it costs. */
static size_t l1_most(size_t candidates, size_t held)
{
    const size_t wanted = 2 * held > L1_SET_LEAST ? 2 * held : L1_SET_LEAST, most = wanted < L1_SET_MOST ? wanted : L1_SET_MOST;
    return candidates < most ? candidates : most;
}

static int l1_by_id(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The set becomes the first n candidates, rising. *same: it is the set of before. A small number of
 * features is taken whole. */
static int l1_choose(struct l1 *l1, size_t n, int *same, struct gy_error *err)
{
    const int all = l1->nw.dims <= L1_SET_LEAST;
    n = all ? l1->nw.dims : n;
    *same = n == l1->model.count;
    for (size_t i = 0; i < n; i++)
        *same &= l1->map[all ? i : l1->candidate[i].id] >= 0;
    for (size_t i = 0; i < l1->model.count; i++)
        l1->map[l1->set[i]] = -1;
    l1->model.count = 0;
    GY_TRY(l1_room(l1, n, err));
    for (size_t i = 0; i < n; i++)
        l1->set[i] = all ? (uint32_t)i : l1->candidate[i].id;
    if (n > 0)
        qsort(l1->set, n, sizeof *l1->set, l1_by_id);
    for (size_t i = 0; i < n; i++)
        l1->map[l1->set[i]] = (int32_t)i;
    l1->model.count = n;
    return GY_OK;
}

static int l1_build_matrix(struct l1 *l1, struct gy_error *err)
{
    struct gy_l1_model *const model = &l1->model;
    GY_TRY(gy_nw_matrix(&l1->nw, l1->map, model->count, l1->triangle, err));
    const double *a = l1->triangle;
    for (size_t i = 0; i < model->count; i++)
        for (size_t k = i; k < model->count; k++) {
            const double l2 = i == k && !l1_is_free(l1, l1->set[i]) ? l1->nw.problem->l2 : 0;
            model->matrix[i * model->stride + k] = model->matrix[k * model->stride + i] = (float)(*a++ + l2);
        }
    return GY_OK;
}

/* The quadratic model at w, over the first n candidates. */
static int l1_build(struct l1 *l1, size_t n, struct gy_error *err)
{
    struct gy_l1_model *const model = &l1->model;
    int same;
    GY_TRY(l1_choose(l1, n, &same, err));
    if (!same || !l1->same_matrix) {
        model->stride = (model->count + 15) / 16 * 16;
        GY_TRY(l1_build_matrix(l1, err));
        l1->same_matrix = l1->nw.loss->smooth == GY_GLM_QUADRATIC;
        for (size_t i = 0; i < model->count && l1->judge.exact; i++)
            model->matrix[i * (model->stride + 1)] *= (float)(1 + L1_RIDGE);
    }
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
    for (size_t i = 0; !l1->by_model && i < l1->wide.count; i++) {
        const struct gy_l1_coordinate *const at = &l1->wide.at[i];
        sum += at->g * (at->v - at->w) + at->l1 * (fabs(at->v) - fabs(at->w));
    }
    for (size_t i = 0; l1->by_model && i < model->count; i++) {
        const double w = (double)l1->w[l1->set[i]];
        sum += l1->g[l1->set[i]] * (model->v[i] - w) + model->l1[i] * (fabs(model->v[i]) - fabs(w));
    }
    return sum;
}

static void l1_place(struct l1 *l1, double t)
{
    memcpy(l1->trial, l1->w, l1->nw.dims * sizeof *l1->trial);
    for (size_t i = 0; !l1->by_model && i < l1->wide.count; i++) {
        const struct gy_l1_coordinate *const at = &l1->wide.at[i];
        l1->trial[at->id] = (float)(t < 1 ? at->w + t * (at->v - at->w) : at->v);
    }
    for (size_t i = 0; l1->by_model && i < l1->model.count; i++) {
        const double w = (double)l1->w[l1->set[i]], v = l1->model.v[i];
        l1->trial[l1->set[i]] = (float)(t < 1 ? w + t * (v - w) : v);
    }
}

static int l1_search(struct l1 *l1, int *moved, struct gy_error *err)
{
    const double promise = l1_promise(l1), noise = 1e-13 * fabs(l1->primal);
    double t = 1;
    *moved = 0;
    l1->promise = -promise;
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

/* Memory of so many coordinates. */
static int l1_wide_room(struct l1 *l1, size_t count, struct gy_error *err)
{
    struct gy_l1_by_columns *const wide = &l1->wide;
    if (count <= wide->room)
        return GY_OK;
    const size_t room = count < l1->nw.dims / 2 ? 2 * count : l1->nw.dims;
    const struct gy_glm_room rooms[] = {
        { &wide->at, (int64_t)room, sizeof *wide->at }, { &wide->order, (int64_t)room, sizeof *wide->order },
        { &wide->line, (int64_t)room, sizeof *wide->line }, { &wide->r, 5 * (int64_t)room, sizeof *wide->r },
    };
    GY_TRY(gy_glm_take_rooms(&l1->nw.arena, rooms, GY_COUNT(rooms), "proximal Newton by columns", err));
    double **const parts[] = { &wide->p, &wide->q, &wide->inverse, &wide->first };
    for (size_t i = 0; i < GY_COUNT(parts); i++)
        *parts[i] = wide->r + (i + 1) * room;
    wide->room = room;
    return GY_OK;
}

static int l1_build_wide(struct l1 *l1, struct gy_error *err)
{
    struct gy_l1_by_columns *const wide = &l1->wide;
    size_t held, n;
    GY_TRY(l1_candidates(l1, 0, &held, &n, err));
    const size_t most = 3 * held > L1_WIDE_LEAST ? 3 * held : L1_WIDE_LEAST;
    wide->count = n < most ? n : most;
    GY_TRY(l1_wide_room(l1, wide->count, err));
    for (size_t i = 0; i < wide->count; i++) {
        const size_t j = l1->candidate[i].id;
        const int is_free = l1_is_free(l1, j);
        const double w = (double)l1->w[j];
        wide->at[i] = (struct gy_l1_coordinate){ (uint32_t)j, w, w, l1->g[j], is_free ? 0 : l1->nw.problem->l1, is_free ? 0 : l1->nw.problem->l2, -1 };
    }
    for (int64_t i = 0; i < wide->row_count; i++)
        wide->rows[i] = (struct gy_l1_row){ l1->nw.curve[i], 0 };
    return GY_OK;
}

/* The cost of the set's matrix, in looks at its columns. A row with m of their entries adds m (m +
 * 1) / 2 products. */
static double l1_matrix_looks(const struct l1 *l1)
{
    const struct gy_nw_columns *const columns = l1->nw.columns;
    const size_t count = l1->wide.count;
    double entries = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t j = l1->wide.at[i].id;
        entries += j < l1->nw.features ? (double)(columns->start[j + 1] - columns->start[j]) : (double)l1->nw.rows;
    }
    const double rows = l1->nw.rows > 0 ? (double)l1->nw.rows : 1;
    return count <= L1_SET_MOST && (double)count * (double)count < entries ? 0.5 * entries / rows : (double)INFINITY;
}

/* The same set by its matrix, from where the columns have come. */
static int l1_by_matrix(struct l1 *l1, double enough, struct gy_error *err)
{
    struct gy_l1_model *const model = &l1->model;
    GY_TRY(l1_build(l1, l1->wide.count, err));
    for (size_t i = 0; i < l1->wide.count; i++) {
        const struct gy_l1_coordinate *const at = &l1->wide.at[i];
        const size_t k = (size_t)l1->map[at->id];
        model->v[k] = at->v;
        if (at->v != at->w)
            gy_nw_add_floats(model->r, at->v - at->w, model->matrix + k * model->stride, model->count);
    }
    gy_l1_minimise(model, enough);
    return GY_OK;
}

static double l1_wide_off(const struct l1 *l1)
{
    double sum = 0;
    for (size_t i = 0; i < l1->wide.count; i++)
        sum += l1_off(l1, l1->wide.at[i].id);
    return sum;
}

/* A step by the matrix of an earlier point, which hardly differs near the optimum. The gradient is
 * this point's, so steps only become a little shorter or longer. *done 0: it did not help enough,
 * or features outside the matrix are off. */
static void l1_by_kept_matrix(struct l1 *l1, double enough, int *done)
{
    struct gy_l1_model *const model = &l1->model;
    *done = l1->kept && l1->violation <= L1_KEEP * l1->before;
    for (size_t i = 0; i < l1->wide.count && *done; i++) {
        const size_t j = l1->wide.at[i].id;
        *done = l1->map[j] >= 0 || (l1->w[j] == 0 && l1_off(l1, j) == 0);
    }
    for (size_t i = 0; i < model->count && *done; i++) {
        model->v[i] = (double)l1->w[l1->set[i]];
        model->r[i] = l1->g[l1->set[i]];
    }
    if (*done)
        gy_l1_minimise(model, enough);
}

/* Near the optimum often a few features delay the certificate, as features of many rows hold each
 * other back. This makes a step on these alone, where they have at least half of the violation. */
static int l1_focus(struct l1 *l1, int *focused, struct gy_error *err)
{
    size_t held, n;
    double sum = 0;
    *focused = 0;
    if (l1->focused || l1->cheap || l1->grouped || l1->steps < L1_MATRIX_AFTER)
        return GY_OK;
    GY_TRY(l1_candidates(l1, 1, &held, &n, err));
    n = n < L1_FOCUS ? n : L1_FOCUS;
    for (size_t i = 0; i < n; i++) {
        const double off = l1_off(l1, l1->candidate[i].id);
        sum += off;
        if (off < L1_FOCUS_LEAST * l1->most)
            n = i;
    }
    if (n * L1_FOCUS_SHARE > held || sum < 0.5 * l1->violation)
        return GY_OK;
    GY_TRY(l1_build(l1, n, err));
    gy_l1_minimise(&l1->model, L1_ENOUGH * gy_l1_violation(&l1->model));
    *focused = 1;
    return GY_OK;
}

/* ---- a step ---- */

static int l1_step_by_columns(struct l1 *l1, struct gy_error *err)
{
    GY_TRY(l1_focus(l1, &l1->focused, err));
    l1->by_model = l1->focused;
    if (l1->focused)
        return GY_OK;
    GY_TRY(l1_build_wide(l1, err));
    const double off = l1_wide_off(l1);
    int done;
    l1_by_kept_matrix(l1, 0.5 * L1_ENOUGH * off, &done);
    l1->before = l1->violation;
    l1->by_model = done;
    if (done)
        return GY_OK;
    const double looks = l1_matrix_looks(l1);
    const int cheap = looks <= L1_MATRIX_LOOKS;
    if (!cheap)
        GY_TRY(gy_l1_find_groups(&l1->wide, &l1->grouped, err));
    const int can = cheap || (looks <= L1_SLOW_LOOKS && !l1->grouped);
    const int cycles = cheap ? 0 : can ? 1 : L1_CYCLES;
    if (!cheap || l1->steps < L1_MATRIX_AFTER)
        GY_TRY(gy_l1_descend(&l1->wide, (l1->grouped ? L1_ENOUGH : 0.25) * off, cycles, l1->grouped, &done, err));
    l1->steps++;
    l1->by_model = l1->kept = can && !done;
    l1->cheap = cheap || l1->by_model;
    return l1->by_model ? l1_by_matrix(l1, L1_ENOUGH * off, err) : GY_OK;
}

static int l1_step(struct l1 *l1, int *moved, struct gy_error *err)
{
    size_t held, n;
    if (l1->nw.columns) {
        GY_TRY(l1_step_by_columns(l1, err));
    } else {
        GY_TRY(l1_candidates(l1, 0, &held, &n, err));
        GY_TRY(l1_build(l1, l1_most(n, held), err));
        gy_l1_minimise(&l1->model, (l1->model.count > L1_SET_LEAST ? 0.05 : 1e-3) * gy_l1_violation(&l1->model));
        l1->by_model = 1;
    }
    return l1_search(l1, moved, err);
}

/* ---- certificate ---- */

/* A bound without another pass. Conjugates are concave and 0 at 0, so those of s times a
 * coefficient are at least s times its own. */
static double l1_cheap_bound(const struct l1 *l1)
{
    const struct gy_glm_problem *const problem = l1->nw.problem;
    double most = 0, conjugates = l1->sums.loss, excess = 0;
    for (size_t i = 0; i < l1->live_count; i++) {
        const size_t j = l1_live(l1, i);
        const double u = fabs(l1->u[j]), over = u - problem->l1;
        conjugates += l1->u[j] * (double)l1->w[j];
        most = u > most ? u : most;
        excess += over > 0 ? over * over : 0;
    }
    const double s = most > problem->l1 ? problem->l1 / most : 1, scaled = s * conjugates;
    const double whole = problem->l2 > 0 ? conjugates - excess / (2 * problem->l2) : (double)-INFINITY;
    return whole > scaled ? whole : scaled;
}

/* u and sums are of w. exact 1: passes are spent in any case; 0: they are spent only where they may
 * end the run. */
static int l1_certify(struct l1 *l1, int exact, struct gy_error *err)
{
    struct gy_glm_run *const run = l1->nw.run;
    struct gy_glm_certificate *const at = &run->result;
    const struct gy_glm_problem *const problem = run->problem;
    const int is_free = problem->bias != 0 && problem->bias_free;
    const int logit = l1->nw.loss->form == GY_GLM_LOGIT;
    const double goal = run->stop.gap * fabs(l1->primal);
    double dual = logit && !is_free ? l1_cheap_bound(l1) : (double)-INFINITY;
    /* the exact bound's share is some 0.2 to 0.6 of this, less for small ones */
    const double share = (l1->primal - dual) / fabs(l1->primal);
    const int near = is_free ? l1->violation < problem->l1 : share * (0.1 + 0.5 * share) <= run->stop.gap;
    if (exact || (!logit && !is_free) || (near && l1->primal - dual > goal))
        GY_TRY(gy_nw_bound(&l1->nw, l1->w, &l1->sums, l1->u, &dual, err));
    if (dual > l1->dual) {
        l1->dual = dual;
        run->has_point = run->point != NULL;
        for (size_t j = 0; run->point && j < l1->nw.dims; j++)
            run->point[j] = (double)l1->w[j];
    }
    at->primal = l1->primal;
    at->loss = l1->sums.loss;
    at->dual = l1->dual;
    at->dual = at->dual > at->primal ? at->primal : at->dual; /* by rounding */
    at->gap = at->primal - at->dual;
    return GY_OK;
}

/* ---- the run ---- */

/* Some steps on every step-th row. */
static int l1_sample(void *user, int step, struct gy_error *err)
{
    struct l1 *const l1 = user;
    int moved = 1;
    l1->nw.step = step;
    GY_TRY(l1_begin(l1, err));
    for (int k = 0; k < 10 && moved; k++) {
        const double before = l1->primal;
        GY_TRY(l1_step(l1, &moved, err));
        if (before - l1->primal < 0.05 * step * (double)l1->nw.dims)
            break;
    }
    l1->same_matrix = 0;
    return GY_OK;
}

static int l1_samples(struct l1 *l1, struct gy_error *err)
{
    GY_TRY(gy_nw_samples(&l1->nw, l1->nw.columns != NULL, l1_sample, l1, err));
    l1->nw.step = 1;
    return GY_OK;
}

/* What the floats of the last set's weights may cost P, and the sums of its terms. */
static double l1_noise(const struct l1 *l1)
{
    const struct gy_l1_model *const model = &l1->model;
    double size = 0;
    for (size_t i = 0; i < model->count && l1->by_model; i++)
        size += sqrt(fabs((double)model->matrix[i * (model->stride + 1)])) * fabs((double)l1->w[l1->set[i]]);
    for (size_t i = 0; i < l1->wide.count && !l1->by_model; i++)
        size += sqrt(fmax(l1->wide.at[i].curve, 0)) * fabs((double)l1->w[l1->wide.at[i].id]);
    return 0.5 * (L1_FLOAT * size) * (L1_FLOAT * size) + 1e-12 * fabs(l1->primal);
}

/* Judges after L1_STUCK steps without progress, or many slow ones. Matrices get a ridge; if that
 * does not help either, it sets run->why. */
static int l1_judge(struct l1 *l1, int moved, int better, int *stuck, struct gy_error *err)
{
    struct gy_glm_run *const run = l1->nw.run;
    if (!better) {
        if (!moved)
            GY_TRY(l1_visit(l1, l1->w, err));
        GY_TRY(l1_certify(l1, 1, err));
        ++*stuck;
    }
    const struct gy_nw_step step = { *stuck < L1_STUCK, l1->primal, run->result.gap, l1->promise, l1_noise(l1) };
    if (!step.moved && step.promise <= step.noise)
        run->why = GY_GLM_ROUNDING;
    else if (gy_nw_judged(&l1->judge, &step, run->stop.gap, &run->why))
        l1->same_matrix = l1->kept = *stuck = 0;
    return GY_OK;
}

/* Floats ended the run. The target of a step more, kept in double, may prove more than they can. It
 * moves at most L1_SET_MOST weights: where more are not 0, the others stay as floats have them. */
static int l1_leave_last(struct l1 *l1, struct gy_error *err)
{
    struct gy_glm_run *const run = l1->nw.run;
    const struct gy_l1_model *const model = &l1->model;
    size_t held, n;
    if (!run->last || (run->why != GY_GLM_STALLED && run->why != GY_GLM_ROUNDING))
        return GY_OK;
    GY_TRY(l1_candidates(l1, 0, &held, &n, err));
    GY_TRY(l1_build(l1, l1_most(n, held), err));
    gy_l1_minimise(&l1->model, L1_LAST * gy_l1_violation(model));
    for (size_t j = 0; j < l1->nw.dims; j++)
        run->last[j] = (double)l1->w[j];
    for (size_t i = 0; i < model->count; i++)
        run->last[l1->set[i]] = model->v[i];
    run->has_last = 1;
    return GY_OK;
}

static int l1_run(struct l1 *l1, struct gy_error *err)
{
    struct gy_glm_run *const run = l1->nw.run;
    struct gy_nw_watch watch = { 0 };
    double primal = 0, violation = 0, gap = 0;
    int moved = 1, stuck = 0;
    GY_TRY(l1_samples(l1, err));
    GY_TRY(l1_begin(l1, err));
    GY_TRY(gy_nw_finite(l1->primal, err));
    GY_TRY(l1_certify(l1, 0, err));
    l1->judge = (struct gy_nw_judge){ .primal = l1->primal, .gap = run->result.gap };
    run->why = GY_GLM_GOES_ON;
    while (!run->why) {
        /* a step on few features is judged together with the next one */
        if (!l1->focused) {
            primal = l1->primal;
            violation = l1->violation;
            gap = run->result.gap;
        }
        GY_TRY(l1_step(l1, &moved, err));
        if (moved)
            GY_TRY(l1_certify(l1, 0, err));
        GY_TRY(gy_nw_report(&l1->nw, &watch, &run->why, err));
        const int nearer = l1->violation <= 0.5 * violation || run->result.gap <= 0.7 * gap;
        if (!run->why && !l1->focused)
            GY_TRY(l1_judge(l1, moved, primal - l1->primal > 1e-13 * fabs(primal) || (moved && nearer), &stuck, err));
    }
    if (!moved)
        GY_TRY(l1_visit(l1, l1->w, err));
    if (run->why == GY_GLM_GAP)
        return GY_OK;
    GY_TRY(l1_certify(l1, 1, err));
    return l1_leave_last(l1, err);
}

/* Slopes of the logistic loss are at most a row's cost c. So a feature whose sum over all rows is
 * at most l1 stays at 0. */
static int l1_screen(struct l1 *l1, struct gy_error *err)
{
    const struct gy_nw *const nw = &l1->nw;
    const struct gy_nw_columns *const columns = nw->columns;
    const float *const weight = nw->problem->class_weight;
    const double cost = fmax(1, fmax((double)weight[0], (double)weight[1]));
    for (int v = 0; v < nw->view_count; v++)
        if (nw->views[v].weight)
            return GY_OK;
    if (nw->loss->form != GY_GLM_LOGIT)
        return GY_OK;
    l1->live = gy_arena_take(&l1->nw.arena, nw->dims, sizeof *l1->live);
    if (!l1->live)
        return GY_NOMEM(err, "the features that count", nw->dims * sizeof *l1->live);
    l1->live_count = 0;
    for (size_t j = 0; j < nw->dims; j++) {
        double sum = j < nw->features ? 0 : (double)INFINITY;
        if (j < nw->features && !columns->value)
            sum = (double)(columns->start[j + 1] - columns->start[j]) * fabs((double)columns->same);
        for (int64_t k = columns->start[j]; j < nw->features && columns->value && k < columns->start[j + 1]; k++)
            sum += fabs((double)columns->value[k]);
        if (l1->w[j] != 0 || cost * sum > 0.999 * nw->problem->l1)
            l1->live[l1->live_count++] = (uint32_t)j;
    }
    return GY_OK;
}

static int l1_take(struct l1 *l1, struct gy_error *err)
{
    const int64_t dims = (int64_t)l1->nw.dims, wide = l1->nw.columns ? dims : -1;
    const struct gy_glm_room rooms[] = {
        { &l1->trial, dims, sizeof *l1->trial }, { &l1->g, dims, sizeof *l1->g }, { &l1->u, dims, sizeof *l1->u },
        { &l1->map, dims, sizeof *l1->map }, { &l1->wide.narrow, wide, sizeof *l1->wide.narrow },
        { &l1->wide.rows, l1->nw.columns ? l1->nw.rows : -1, sizeof *l1->wide.rows },
    };
    l1->wide = (struct gy_l1_by_columns){ .nw = &l1->nw, .columns = l1->nw.columns, .features = l1->nw.features,
                                          .bias = l1->nw.problem->bias, .row_count = l1->nw.rows };
    l1->w = l1->nw.run->w;
    l1->dual = (double)-INFINITY;
    l1->live_count = l1->nw.dims;
    l1->model.pool = l1->nw.run->pool;
    l1->model.cpu = l1->nw.cpu;
    if (gy_arena_reserve(&l1->nw.arena, l1->nw.dims * 32 + (size_t)l1->nw.rows * 8) != 0)
        return GY_NOMEM(err, "proximal Newton", l1->nw.dims * 32);
    GY_TRY(gy_glm_take_rooms(&l1->nw.arena, rooms, GY_COUNT(rooms), "proximal Newton", err));
    memset(l1->map, 0xff, l1->nw.dims * sizeof *l1->map);
    if (!l1->nw.columns)
        return GY_OK;
    return l1_screen(l1, err);
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
