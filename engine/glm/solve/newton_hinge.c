/* SPDX-License-Identifier: MIT */
/* The hinge loss by Newton's method, for few features; newton.c calls it. Dual variables a are
 * sought by proximal points: with b those of the stage before,
 *
 *     max over a in [0, c]:  sum of a_i - l2 / 2 |w|^2 - sum of (a_i - b_i)^2 / (2 sigma c_i),
 *                            l2 w = sum of y_i a_i x_i
 *
 * whose own dual is smooth in w. Its slopes are a_i(w) = b_i + sigma c_i (1 - m_i), brought into
 * [0, c_i], where m_i = y_i x_i . w. Curvatures are sigma c_i where that lies inside: few rows, so
 * the matrix is cheap. A step is searched exactly, on the margins alone. sigma doubles from stage
 * to stage. Any a in the box is dual feasible, so every point has its certificate,
 *
 *     P(w) - D(a) = sum of (c_i max(0, 1 - m_i) - a_i (1 - m_i))  +  l2 / 2 |w - w(a)|^2,
 *
 * where no term is below 0. A stage ends where the second part is at most HINGE_SHARE times the
 * first.
 *
 * (Li, Sun, Toh, "A highly efficient semismooth Newton augmented Lagrangian method", 2018.) The
 * first stages, where most rows lie inside, see a sample.
 *
 * Margins and sum of y a x are moved on in double. They are made anew from w and a where a stage
 * begins and they have moved far. The goal is reached when the certificate of w and a as the floats
 * that they are kept in says so. A run that ends otherwise leaves the w of the least P and the a of
 * the largest D. */
#include "engine/glm/glm_room.h"
#include "engine/glm/solve/newton_state.h"
#include "engine/job/peers.h"

/* The first value: all rows lie inside. It is a power of two, so that sums of equal curvatures are
 * exact. */
#define HINGE_SIGMA 0.25
#define HINGE_CENTRE 0.5  /* of c */
#define HINGE_GROWTH 2.0  /* of sigma, from stage to stage */
#define HINGE_SHARE 3.0
#define HINGE_STEPS 30    /* most of a stage */
#define HINGE_MOST 1e8    /* sigma */
#define HINGE_WELL 0.01   /* of the goal: a gap that rounding alone keeps from it */
#define HINGE_EXACT 0.1   /* slope along a step at the point taken, over that where it begins */
#define HINGE_TRIALS 30
#define HINGE_SAMPLED 1.0 /* sigma up to which a sample serves */
#define HINGE_LANES 2     /* rows that the search takes at once */
#define HINGE_FAR 1e6     /* way of a margin after which it is made anew */
/* up to this many products the matrix is summed in double, and a stage always begins anew */
#define HINGE_SMALL 1e7
#define HINGE_FLOAT 0x1p-24 /* half the distance of two floats from 1 */
#define HINGE_DOUBLE 1e-13  /* what is known of a sum of many doubles */

struct hinge {
    struct gy_nw_view view; /* of a pass: comes first */
    struct gy_nw nw;
    double *w, *u, *g, *s;      /* [dims] u: sum of y a x */
    double *matrix;             /* triangle */
    float *narrow, *kept;       /* [dims] the step as it is taken; w of the least P */
    double *margin;             /* [rows] */
    double *move;               /* [rows] of the margins along the step */
    float *before;              /* [rows] a before it */
    /* [rows] weight, with the sign of y; 0 outside the sample. The arrays of rows up to here are
     * padded by zeros to whole lanes. */
    float *c;
    float *centre, *dual;       /* [rows] b, a */
    int64_t lanes;              /* [rows] in lanes */
    int step;                   /* the sample is every step-th row */
    double sigma, t;            /* t: of the step */
    double slope, curve;        /* along the step */
    double slack;               /* the certificate's first sum */
    double pull;                /* and its second */
    double least, most;         /* P of kept; the largest D, of the run's dual variables */
    /* longest way of a margin since they were made, at most; with ranks the sum of theirs */
    double far;
};

static float hinge_clip(double a, float c) { return a <= 0 ? 0 : a >= (double)c ? c : (float)a; }

/* ---- passes ---- */

static void hinge_begin_tile(void *job, int64_t tile, int thread)
{
    struct hinge *const h = job;
    const struct gy_nw *const nw = &h->nw;
    int32_t from, to;
    (void)thread;
    gy_nw_range(&h->view, tile, nw->slots, &from, &to);
    for (int32_t i = from; i < to; i++) {
        const int64_t at = h->view.base + i;
        const float y = gy_glm_y(nw->problem, &h->view.rows, i);
        const float c = at % h->step ? 0 : gy_glm_c(nw->problem, &h->view.rows, i, y) * (float)h->step;
        h->c[at] = y > 0 ? c : -c;
        h->centre[at] = nw->run->has_dual && nw->run->dual ? hinge_clip((double)nw->run->dual[at], c) : (float)HINGE_CENTRE * c;
    }
}

static void hinge_move_tile(void *job, int64_t tile, int thread)
{
    struct hinge *const h = job;
    const struct gy_nw *const nw = &h->nw;
    const double bias = nw->dims > nw->features ? nw->problem->bias * (double)h->narrow[nw->features] : 0;
    int32_t from, to;
    (void)thread;
    gy_nw_range(&h->view, tile, nw->slots, &from, &to);
    for (int32_t i = from; i < to; i++) {
        const float c = h->c[h->view.base + i];
        const double z = c != 0 ? gy_nw_dot(&h->view.rows, i, h->narrow) + bias : 0;
        h->move[h->view.base + i] = c > 0 ? z : -z;
    }
}

/* Some rows at once, as vectors. */
typedef double hinge_vec __attribute__((vector_size(HINGE_LANES * sizeof(double))));
typedef int64_t hinge_bits __attribute__((vector_size(HINGE_LANES * sizeof(double))));
typedef float hinge_floats __attribute__((vector_size(HINGE_LANES * sizeof(float))));
#define HINGE_WHERE(mask, a) ((hinge_vec)((hinge_bits)(mask) & (hinge_bits)(a)))
#define HINGE_CHOOSE(mask, a, b) ((hinge_vec)(((hinge_bits)(mask) & (hinge_bits)(a)) | (~(hinge_bits)(mask) & (hinge_bits)(b))))

struct hinge_lanes {
    hinge_vec margin, move, side, c, centre; /* side: c with the sign of y */
    /* at the point: 1 - m, the loss, the dual variable, and its curvature */
    hinge_vec under, lost, a, curve;
};

static inline void hinge_take_floats(const float *from, hinge_vec *to)
{
    hinge_floats v;
    memcpy(&v, from, sizeof v);
    *to = __builtin_convertvector(v, hinge_vec);
}

static inline void hinge_give_floats(const hinge_vec *from, float *to)
{
    const hinge_floats v = __builtin_convertvector(*from, hinge_floats);
    memcpy(to, &v, sizeof v);
}

/* Rows at, at + 1 .. at t of the step. */
static inline void hinge_look(const struct hinge *h, int64_t at, struct hinge_lanes *row)
{
    const hinge_vec zero = { 0 };
    memcpy(&row->margin, h->margin + at, sizeof row->margin);
    memcpy(&row->move, h->move + at, sizeof row->move);
    hinge_take_floats(h->c + at, &row->side);
    hinge_take_floats(h->centre + at, &row->centre);
    row->c = HINGE_CHOOSE(row->side > zero, row->side, -row->side);
    row->margin += h->t * row->move;
    row->under = 1 - row->margin;
    row->lost = row->c * HINGE_WHERE(row->under > zero, row->under);
    const hinge_vec wanted = row->centre + h->sigma * row->c * row->under, low = HINGE_WHERE(wanted > zero, wanted);
    row->a = HINGE_CHOOSE(low < row->c, low, row->c);
    row->curve = HINGE_WHERE((wanted > zero) & (wanted < row->c), h->sigma * row->c);
}

static double hinge_sum(const hinge_vec *v) { return (*v)[0] + (*v)[1]; }

/* Moves the margins; finds dual variables and curvatures at the new point. Sums losses, slacks and
 * curvatures, and finds the longest way of a margin. */
static void hinge_point_tile(void *job, int64_t tile, int thread)
{
    struct hinge *const h = job;
    const int64_t first = h->lanes * tile / h->nw.slots, last = h->lanes * (tile + 1) / h->nw.slots;
    const hinge_vec zero = { 0 };
    hinge_vec loss = zero, slack = zero, curve = zero, far = zero;
    (void)thread;
    for (int64_t at = first * HINGE_LANES; at < last * HINGE_LANES; at += HINGE_LANES) {
        struct hinge_lanes row;
        hinge_look(h, at, &row);
        memcpy(h->before + at, h->dual + at, HINGE_LANES * sizeof *h->dual);
        hinge_give_floats(&row.a, h->dual + at);
        hinge_take_floats(h->dual + at, &row.a); /* as it is kept */
        memcpy(h->margin + at, &row.margin, sizeof row.margin);
        const hinge_vec way = h->t * HINGE_CHOOSE(row.move > zero, row.move, -row.move);
        far = HINGE_CHOOSE(way > far, way, far);
        hinge_give_floats(&row.curve, h->nw.curve + at);
        loss += row.lost;
        slack += row.lost - row.a * row.under;
        curve += row.curve;
    }
    h->nw.sums[tile] = (struct gy_nw_sums){ .loss = hinge_sum(&loss), .square = hinge_sum(&slack), .curve = hinge_sum(&curve),
                                              .linear = hinge_sum(&far) };
}

/* Slope and curve of the stage's own objective at t, of the rows. */
static void hinge_search_tile(void *job, int64_t tile, int thread)
{
    struct hinge *const h = job;
    const int64_t first = h->lanes * tile / h->nw.slots, last = h->lanes * (tile + 1) / h->nw.slots;
    hinge_vec slope = { 0 }, curve = { 0 };
    (void)thread;
    for (int64_t at = first * HINGE_LANES; at < last * HINGE_LANES; at += HINGE_LANES) {
        struct hinge_lanes row;
        hinge_look(h, at, &row);
        slope -= row.a * row.move;
        curve += row.curve * row.move * row.move;
    }
    h->nw.sums[tile] = (struct gy_nw_sums){ .pull = hinge_sum(&slope), .curve = hinge_sum(&curve) };
}

static void hinge_pull_tile(void *job, int64_t tile, int thread)
{
    struct hinge *const h = job;
    struct gy_nw *const nw = &h->nw;
    double *const slot = nw->slot + (size_t)tile * nw->stride;
    double pull = 0;
    int32_t from, to;
    (void)thread;
    gy_nw_range(&h->view, tile, nw->slots, &from, &to);
    for (int32_t i = from; i < to; i++) {
        const int64_t at = h->view.base + i;
        const double more = (double)h->dual[at] - (double)h->before[at], f = h->c[at] > 0 ? more : -more;
        if (f == 0)
            continue;
        pull += f;
        gy_nw_scatter(&h->view.rows, i, f, slot);
    }
    nw->sums[tile].pull += pull;
}

static int hinge_walk(struct hinge *h, gy_tile_fn fn, struct gy_error *err) { return gy_nw_walk(&h->nw, fn, &h->view, h->nw.slots, err); }

/* The slots' sum is added to u, of all ranks; sums of a visit. */
static int hinge_gather(struct hinge *h, double sums[4], struct gy_error *err)
{
    struct gy_nw *const nw = &h->nw;
    double pull = 0;
    memset(h->g, 0, nw->dims * sizeof *h->g);
    for (int s = 0; s < nw->slots; s++) {
        double *const slot = nw->slot + (size_t)s * nw->stride;
        gy_nw_add(h->g, 1.0, slot, nw->dims);
        memset(slot, 0, nw->dims * sizeof *slot);
        sums[0] += nw->sums[s].loss;
        sums[1] += nw->sums[s].square;
        sums[2] += nw->sums[s].curve;
        sums[3] = fmax(sums[3], nw->sums[s].linear);
        pull += nw->sums[s].pull;
    }
    if (nw->dims > nw->features)
        h->g[nw->features] = nw->problem->bias * pull;
    GY_TRY(gy_nw_sum(nw, h->g, nw->dims, err));
    gy_nw_add(h->u, 1.0, h->g, nw->dims);
    return gy_nw_sum(nw, sums, 4, err);
}

/* Moves to t, and leaves P and the gap in the run's result, the gradient in g. */
static int hinge_visit(struct hinge *h, struct gy_error *err)
{
    struct gy_nw *const nw = &h->nw;
    struct gy_glm_certificate *const at = &nw->run->result;
    const double l2 = nw->problem->l2;
    double sums[4] = { 0, 0, 0, 0 }, square = 0, far = 0;
    gy_pool_run(nw->run->pool, hinge_point_tile, h, nw->slots);
    GY_TRY(hinge_walk(h, hinge_pull_tile, err));
    GY_TRY(hinge_gather(h, sums, err));
    for (size_t j = 0; j < nw->dims; j++) {
        h->w[j] += h->t * (double)h->narrow[j];
        nw->run->w[j] = (float)h->w[j];
        h->g[j] = l2 * h->w[j] - h->u[j];
        square += h->w[j] * h->w[j];
        far += h->g[j] * h->g[j];
    }
    h->slack = sums[1];
    h->far += sums[3];
    nw->curved = sums[2] / h->sigma;
    h->pull = far / (2 * l2);
    at->loss = sums[0];
    at->primal = sums[0] + 0.5 * l2 * square;
    at->gap = h->slack + h->pull;
    at->dual = at->primal - at->gap;
    if (at->primal < h->least) {
        memcpy(h->kept, nw->run->w, nw->dims * sizeof *h->kept);
        h->least = at->primal;
    }
    if (nw->run->dual && h->step == 1 && at->dual > h->most) {
        memcpy(nw->run->dual, h->dual, (size_t)nw->rows * sizeof *h->dual);
        h->most = at->dual;
    }
    return GY_OK;
}

/* ---- a step ---- */

static int hinge_direction(struct hinge *h, struct gy_error *err)
{
    struct gy_nw *const nw = &h->nw;
    const size_t dims = nw->dims;
    GY_TRY(gy_nw_matrix(nw, NULL, dims, h->matrix, err));
    for (size_t j = 0; j < dims; j++) {
        double *const diagonal = h->matrix + gy_nw_row_at(j, dims) + j;
        *diagonal += nw->problem->l2;
        /* no pivot is less, except by rounding */
        h->s[j] = nw->problem->l2 + (nw->exact ? HINGE_DOUBLE : HINGE_FLOAT) * *diagonal;
    }
    gy_nw_factor(nw->run->pool, nw->cpu, h->matrix, dims, h->s);
    for (size_t j = 0; j < dims; j++)
        h->s[j] = -h->g[j];
    gy_nw_solve(h->matrix, dims, h->s);
    for (size_t j = 0; j < dims; j++) {
        h->narrow[j] = (float)h->s[j];
        h->s[j] = (double)h->narrow[j];
    }
    return hinge_walk(h, hinge_move_tile, err);
}

static int hinge_along(struct hinge *h, double along, double square, struct gy_error *err)
{
    struct gy_nw *const nw = &h->nw;
    double sums[2] = { 0, 0 };
    gy_pool_run(nw->run->pool, hinge_search_tile, h, nw->slots);
    for (int s = 0; s < nw->slots; s++) {
        sums[0] += nw->sums[s].pull;
        sums[1] += nw->sums[s].curve;
    }
    GY_TRY(gy_nw_sum(nw, sums, 2, err));
    h->slope = sums[0] + nw->problem->l2 * (along + h->t * square);
    h->curve = sums[1] + nw->problem->l2 * square;
    return GY_OK;
}

/* Sets t in (0, 1]: the slope rises with it, and is piecewise linear. */
static int hinge_search(struct hinge *h, struct gy_error *err)
{
    const size_t dims = h->nw.dims;
    const double along = gy_nw_inner(h->w, h->s, dims), square = gy_nw_inner(h->s, h->s, dims), first = gy_nw_inner(h->g, h->s, dims);
    double low = 0, high = 1;
    h->t = 1;
    for (int trial = 0; trial < HINGE_TRIALS; trial++) {
        GY_TRY(hinge_along(h, along, square, err));
        if (fabs(h->slope) <= HINGE_EXACT * fabs(first) || (h->t == 1 && h->slope < 0))
            return GY_OK;
        *(h->slope > 0 ? &high : &low) = h->t;
        h->t -= h->slope / h->curve;
        if (!(h->t > low && h->t < high))
            h->t = 0.5 * (low + high);
    }
    return GY_OK;
}

/* ---- stages ---- */

/* Lets the next visit make margins and u from nothing, at the present w and for the dual variables
 * that it finds. */
static int hinge_anew(struct hinge *h, struct gy_error *err)
{
    const size_t dims = h->nw.dims, rows = (size_t)h->lanes * HINGE_LANES;
    h->t = 1;
    h->far = 0;
    memcpy(h->narrow, h->nw.run->w, dims * sizeof *h->narrow);
    memset(h->w, 0, dims * sizeof *h->w);
    memset(h->u, 0, dims * sizeof *h->u);
    memset(h->margin, 0, rows * sizeof *h->margin);
    memset(h->dual, 0, (size_t)h->nw.rows * sizeof *h->dual);
    return hinge_walk(h, hinge_move_tile, err);
}

/* Begins on every step-th row, at the present w. */
static int hinge_begin(struct hinge *h, int step, struct gy_error *err)
{
    h->step = step;
    h->least = (double)INFINITY;
    h->most = (double)-INFINITY;
    GY_TRY(hinge_walk(h, hinge_begin_tile, err));
    return hinge_anew(h, err);
}

static int hinge_step(struct hinge *h, struct gy_error *err)
{
    GY_TRY(hinge_direction(h, err));
    return hinge_search(h, err);
}

/* *next 1: a stage has ended, and the next is begun. */
static int hinge_stage(struct hinge *h, int *steps, int *next, struct gy_error *err)
{
    *next = !(h->pull > HINGE_SHARE * h->slack) || ++*steps > HINGE_STEPS;
    if (!*next)
        return GY_OK;
    memcpy(h->centre, h->dual, (size_t)h->nw.rows * sizeof *h->dual);
    h->sigma *= HINGE_GROWTH;
    h->t = 0;
    *steps = 0;
    return h->nw.exact || h->far > HINGE_FAR ? hinge_anew(h, err) : GY_OK;
}

static int hinge_sample(void *user, int step, struct gy_error *err)
{
    struct hinge *const h = user;
    int steps = 0, next = 0;
    GY_TRY(hinge_begin(h, step, err));
    while (!next || h->sigma <= HINGE_SAMPLED) {
        GY_TRY(hinge_visit(h, err));
        GY_TRY(gy_nw_finite(h->nw.run->result.primal, err));
        GY_TRY(hinge_stage(h, &steps, &next, err));
        if (!next)
            GY_TRY(hinge_step(h, err));
    }
    h->sigma /= HINGE_GROWTH;
    return GY_OK;
}

static int hinge_samples(struct hinge *h, struct gy_error *err)
{
    GY_TRY(gy_nw_samples(&h->nw, h->nw.run->has_dual, hinge_sample, h, err));
    return hinge_begin(h, 1, err);
}

/* What the run returns, exactly. A goal counts only if it holds after w is rounded to floats. There
 * is more to gain as long as the gap before that rounding is not far below the goal. */
static int hinge_close(struct hinge *h, enum gy_glm_why *why, struct gy_error *err)
{
    struct gy_glm_run *const run = h->nw.run;
    const double before = run->result.gap;
    if (*why != GY_GLM_GAP)
        memcpy(run->w, h->kept, h->nw.dims * sizeof *run->w);
    else if (run->dual)
        memcpy(run->dual, h->dual, (size_t)h->nw.rows * sizeof *h->dual);
    GY_TRY(gy_glm_certify(run, run->w, run->dual ? run->dual : h->dual, &run->result, err));
    const double goal = run->stop.gap * fabs(run->result.primal);
    if (run->stop.gap > 0 && run->result.gap <= goal)
        *why = GY_GLM_GAP;
    else if (*why == GY_GLM_GAP)
        *why = h->sigma >= HINGE_MOST || before < HINGE_WELL * goal ? GY_GLM_ROUNDING : GY_GLM_GOES_ON;
    return GY_OK;
}

static int hinge_run(struct hinge *h, struct gy_error *err)
{
    struct gy_glm_run *const run = h->nw.run;
    struct gy_nw_watch watch = { 0 };
    int steps = 0, next;
    GY_TRY(hinge_samples(h, err));
    for (;;) {
        GY_TRY(hinge_visit(h, err));
        if (watch.epoch == 0)
            GY_TRY(gy_nw_finite(run->result.primal, err));
        GY_TRY(gy_nw_report(&h->nw, &watch, &run->why, err));
        if (!run->why && (h->sigma >= HINGE_MOST || !isfinite(run->result.primal)))
            run->why = GY_GLM_STALLED;
        if (run->why)
            GY_TRY(hinge_close(h, &run->why, err));
        if (run->why)
            return GY_OK;
        GY_TRY(hinge_stage(h, &steps, &next, err));
        if (!next)
            GY_TRY(hinge_step(h, err));
    }
}

static int hinge_take(struct hinge *h, struct gy_error *err)
{
    const int64_t dims = (int64_t)h->nw.dims, lanes = gy_ceil_div(h->nw.rows, HINGE_LANES), rows = lanes * HINGE_LANES;
    const struct gy_glm_room rooms[] = {
        { &h->narrow, dims, sizeof *h->narrow }, { &h->matrix, dims * (dims + 1) / 2, sizeof *h->matrix },
        { &h->kept, dims, sizeof *h->kept }, { &h->margin, rows, sizeof *h->margin },
        { &h->move, rows, sizeof *h->move }, { &h->w, dims, sizeof *h->w }, { &h->u, dims, sizeof *h->u },
        { &h->g, dims, sizeof *h->g }, { &h->s, dims, sizeof *h->s }, { &h->before, rows, sizeof *h->before },
        { &h->c, rows, sizeof *h->c }, { &h->centre, rows, sizeof *h->centre },
        { &h->dual, rows, sizeof *h->dual },
    };
    h->lanes = lanes;
    h->sigma = HINGE_SIGMA;
    return gy_glm_take_rooms(&h->nw.arena, rooms, GY_COUNT(rooms), "Newton's method", err);
}

GY_INT int gy_nw_hinge(struct gy_glm_run *run, struct gy_error *err)
{
    struct hinge h = { .sigma = 0 };
    GY_TRY(gy_nw_open(&h.nw, run, 0, 0, err));
    const double per_row = (double)run->feed->entries / (double)(run->feed->rows > 0 ? run->feed->rows : 1);
    int large = (double)run->feed->entries * per_row > HINGE_SMALL;
    int status = hinge_take(&h, err);
    if (status == GY_OK)
        status = gy_peers_any(run->job, large, &large, err);
    h.nw.exact = !large;
    if (status == GY_OK)
        status = hinge_run(&h, err);
    gy_nw_close(&h.nw);
    return status;
}
