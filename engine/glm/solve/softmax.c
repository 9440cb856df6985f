/* SPDX-License-Identifier: MIT */
/* Newton's method with conjugate gradients for the softmax loss. Of a row its probabilities stay
 * between passes: a product with the curvature is then one look at its features to and one fro. P
 * is strongly convex, so |G|^2 / (2 l2) bounds its distance from the optimum: it is the gap at the
 * dual point that the probabilities make. A bias that is not penalised wants rows' probabilities
 * that add up to the rows of each class. They are moved towards one distribution for all rows just
 * so far that they do. Weights lie feature by feature, the classes of a feature beside each
 * other. */
#include "engine/glm/glm_room.h"
#include "engine/glm/solve/softmax.h"
#include "engine/glm/solve/newton_state.h"

struct soft {
    struct gy_nw_method m;  /* w and trial: [dims][count] */
    struct gy_nw nw;
    const struct gy_glm_classes *classes;
    int count;
    size_t dims, all;       /* features with the bias; times classes */
    size_t penalised;       /* of all; the bias comes last */
    int slots;
    float *probability;     /* [rows][count] at the point last visited */
    double *slot, *loss;    /* [slots][all], [slots][2]: loss, rows of no class */
    double *scratch;        /* [threads][count] */
    double *u;              /* [all] pull of the point last visited */
    /* [all] sums of each class's own rows; only with a bias that is not penalised */
    double *own;
    double sum;             /* of losses at the point last visited */
};

static struct soft *soft_of(struct gy_nw_method *m) { return (struct soft *)(void *)m; }

enum soft_what { SOFT_VISIT, SOFT_PRODUCT, SOFT_OWN };

struct soft_pass {
    struct gy_nw_view view;
    struct soft *soft;
    const float *w;
    /* a visit, the product of the curvature with w, or the sums of rows by classes */
    enum soft_what what;
    double *out;
};

/* ---- one row ---- */

static void soft_scores(const struct soft *soft, const struct gy_rows *rows, int32_t i, const float *w, double *z)
{
    const size_t count = (size_t)soft->count;
    const double scale = (rows->scale ? (double)rows->scale[i] : 1.0) * (rows->value ? 1.0 : (double)rows->same);
    const uint32_t end = gy_rows_end(rows, i);
    memset(z, 0, count * sizeof *z);
    for (uint32_t k = gy_rows_begin(rows, i); k < end; k++)
        gy_nw_add_floats(z, scale * (rows->value ? (double)rows->value[k] : 1.0), w + rows->id[k] * count, count);
    if (soft->dims > soft->nw.features)
        gy_nw_add_floats(z, soft->nw.problem->bias, w + soft->nw.features * count, count);
}

static void soft_scatter(const struct soft *soft, const struct gy_rows *rows, int32_t i, const double *t, double *slot)
{
    const size_t count = (size_t)soft->count;
    const double scale = (rows->scale ? (double)rows->scale[i] : 1.0) * (rows->value ? 1.0 : (double)rows->same);
    const uint32_t end = gy_rows_end(rows, i);
    for (uint32_t k = gy_rows_begin(rows, i); k < end; k++)
        gy_nw_add(slot + rows->id[k] * count, scale * (rows->value ? (double)rows->value[k] : 1.0), t, count);
    if (soft->dims > soft->nw.features)
        gy_nw_add(slot + soft->nw.features * count, soft->nw.problem->bias, t, count);
}

static int soft_class(const struct soft *soft, float label)
{
    for (int k = 0; k < soft->count; k++)
        if (soft->classes->label[k] == label)
            return k;
    return -1;
}

/* How often row i counts. y: its class, or -1. */
static double soft_weight(const struct soft *soft, const struct gy_rows *rows, int32_t i, int y)
{
    const double own = rows->weight ? (double)rows->weight[i] : 1.0;
    return y < 0 ? own : own * (double)soft->classes->factor[y];
}

/* The loss of scores z. z becomes the coefficients: the row's class less the probabilities, times
 * c. */
static double soft_visit_row(const struct soft *soft, double *z, int y, double c, float *probability)
{
    int top = 0;
    /* the sum of all but the largest term; 1 + beside would lose it where the row is right */
    double beside = 0;
    for (int k = 1; k < soft->count; k++)
        top = z[k] > z[top] ? k : top;
    const double most = z[top], lost = most - z[y];
    for (int k = 0; k < soft->count; k++)
        z[k] = z[k] - most > -700 ? z[k] - most : -700;
    gy_nw_exp(z, (size_t)soft->count);
    for (int k = 0; k < soft->count; k++)
        beside += k == top ? 0 : z[k];
    const double sum = 1 + beside, own = y == top ? beside / sum : 1 - z[y] / sum;
    for (int k = 0; k < soft->count; k++) {
        probability[k] = (float)(z[k] / sum);
        z[k] = c * (k == y ? own : -z[k] / sum);
    }
    return c * (log1p(beside) + lost);
}

static int soft_top(const struct soft *soft, const float *probability)
{
    int top = 0;
    for (int k = 1; k < soft->count; k++)
        top = probability[k] > probability[top] ? k : top;
    return top;
}

/* Turns the scores of a direction into their product with the curvature. It subtracts the score of
 * the likeliest class first: the probability of that class may be 1 but for the rounding of
 * floats. */
static void soft_product_row(const struct soft *soft, double *z, double c, const float *probability)
{
    const double from = z[soft_top(soft, probability)];
    double mean = 0;
    for (int k = 0; k < soft->count; k++) {
        z[k] -= from;
        mean += z[k] * (double)probability[k];
    }
    for (int k = 0; k < soft->count; k++)
        z[k] = c * (double)probability[k] * (z[k] - mean);
}

/* c p (1 - p): of the likeliest class 1 - p is the sum of the others'. */
static void soft_curves(const struct soft *soft, double c, const float *probability, double *t)
{
    const int top = soft_top(soft, probability);
    double beside = 0;
    for (int k = 0; k < soft->count; k++) {
        t[k] = c * (double)probability[k] * (1 - (double)probability[k]);
        beside += k == top ? 0 : (double)probability[k];
    }
    t[top] = c * (double)probability[top] * beside;
}

static void soft_tile(void *job, int64_t tile, int thread)
{
    const struct soft_pass *const pass = job;
    const struct soft *const soft = pass->soft;
    const struct gy_rows *const rows = &pass->view.rows;
    double *const slot = soft->slot + (size_t)tile * soft->all, *const z = soft->scratch + (size_t)thread * (size_t)soft->count;
    int32_t from, to;
    gy_nw_range(&pass->view, tile, soft->slots, &from, &to);
    for (int32_t i = from; i < to; i++) {
        float *const probability = soft->probability + (size_t)(pass->view.base + i) * (size_t)soft->count;
        const int y = soft_class(soft, rows->label[i]);
        const double c = soft_weight(soft, rows, i, y);
        if (pass->what == SOFT_OWN) {
            memset(z, 0, (size_t)soft->count * sizeof *z);
            z[y < 0 ? 0 : y] = y < 0 ? 0 : c;
            soft_scatter(soft, rows, i, z, slot);
            continue;
        }
        soft_scores(soft, rows, i, pass->w, z);
        if (pass->what == SOFT_PRODUCT) {
            soft_product_row(soft, z, c, probability);
        } else {
            soft->loss[2 * tile + 1] += y < 0;
            soft->loss[2 * tile] += y < 0 ? 0 : soft_visit_row(soft, z, y, c, probability);
        }
        soft_scatter(soft, rows, i, z, slot);
    }
}

/* One pass; then adds the slots, over all ranks. sums: losses, rows of no class. */
static int soft_walk(struct soft_pass *pass, double sums[2], struct gy_error *err)
{
    struct soft *const soft = pass->soft;
    memset(soft->slot, 0, (size_t)soft->slots * soft->all * sizeof *soft->slot);
    memset(soft->loss, 0, (size_t)soft->slots * 2 * sizeof *soft->loss);
    GY_TRY(gy_nw_walk(&soft->nw, soft_tile, &pass->view, soft->slots, err));
    memset(pass->out, 0, soft->all * sizeof *pass->out);
    sums[0] = sums[1] = 0;
    for (int s = 0; s < soft->slots; s++) {
        gy_nw_add(pass->out, 1.0, soft->slot + (size_t)s * soft->all, soft->all);
        sums[0] += soft->loss[2 * s];
        sums[1] += soft->loss[2 * s + 1];
    }
    GY_TRY(gy_nw_sum(&soft->nw, pass->out, soft->all, err));
    return gy_nw_sum(&soft->nw, sums, 2, err);
}

/* ---- diagonal ---- */

/* Of the curvature: sum of c p (1 - p) x^2. */
static void soft_diagonal_tile(void *job, int64_t tile, int thread)
{
    const struct soft_pass *const pass = job;
    const struct soft *const soft = pass->soft;
    const struct gy_rows *const rows = &pass->view.rows;
    const size_t count = (size_t)soft->count;
    double *const slot = soft->slot + (size_t)tile * soft->all, *const t = soft->scratch + (size_t)thread * count;
    int32_t from, to;
    gy_nw_range(&pass->view, tile, soft->slots, &from, &to);
    for (int32_t i = from; i < to; i++) {
        const float *const probability = soft->probability + (size_t)(pass->view.base + i) * count;
        const double scale = rows->scale ? (double)rows->scale[i] : 1.0, bias = soft->nw.problem->bias;
        const double c = soft_weight(soft, rows, i, soft_class(soft, rows->label[i]));
        soft_curves(soft, c, probability, t);
        for (uint32_t e = gy_rows_begin(rows, i); e < gy_rows_end(rows, i); e++) {
            const double x = scale * (double)(rows->value ? rows->value[e] : rows->same);
            gy_nw_add(slot + rows->id[e] * count, x * x, t, count);
        }
        if (soft->dims > soft->nw.features)
            gy_nw_add(slot + soft->nw.features * count, bias * bias, t, count);
    }
}

static int soft_diagonal(struct soft *soft, struct gy_error *err)
{
    struct soft_pass pass = { .soft = soft };
    memset(soft->slot, 0, (size_t)soft->slots * soft->all * sizeof *soft->slot);
    GY_TRY(gy_nw_walk(&soft->nw, soft_diagonal_tile, &pass.view, soft->slots, err));
    memset(soft->m.diagonal, 0, soft->all * sizeof *soft->m.diagonal);
    for (int s = 0; s < soft->slots; s++)
        gy_nw_add(soft->m.diagonal, 1.0, soft->slot + (size_t)s * soft->all, soft->all);
    return gy_nw_sum(&soft->nw, soft->m.diagonal, soft->all, err);
}

/* ---- certificate ---- */

/* The share of the way to the distribution q that the probabilities go. Class k has own[k] rows;
 * its probabilities add up to own[k] - pull[k]. */
static double soft_share(const double *own, const double *pull, int count, double *q)
{
    double share = 0, total = 0;
    for (int k = 0; k < count; k++) {
        const double sum = own[k] - pull[k], least = sum > 0 ? 1 - own[k] / sum : 0;
        share = least > share ? least : share;
        total += own[k];
    }
    for (int k = 0; k < count; k++) {
        const double left = share > 0 ? (own[k] - (1 - share) * (own[k] - pull[k])) / (share * total) : 0;
        q[k] = left > 0 ? left : 0;
    }
    return share;
}

/* The dual function where the bias is not penalised: concave entropies less |sum of c (y - p) x'|^2
 * / (2 l2). The entropies of the rows' own probabilities come from the losses and the product of
 * pull and w. */
static double soft_free_dual(const struct soft *soft)
{
    const size_t count = (size_t)soft->count, first = soft->penalised;
    double *const q = soft->scratch, square = 0, entropy = 0, rows = 0;
    const double share = soft_share(soft->own + first, soft->u + first, soft->count, q);
    for (size_t k = 0; k < count; k++) {
        rows += soft->own[first + k] / soft->nw.problem->bias;
        entropy -= q[k] > 0 ? q[k] * log(q[k]) : 0;
    }
    for (size_t j = 0; j < first; j += count) {
        double all = 0;
        for (size_t k = 0; k < count; k++)
            all += soft->own[j + k];
        for (size_t k = 0; k < count; k++) {
            const double pull = (1 - share) * soft->u[j + k] + share * (soft->own[j + k] - q[k] * all);
            square += pull * pull;
        }
    }
    double near = soft->sum;
    for (size_t j = 0; j < soft->all; j++)
        near += soft->u[j] * (double)soft->m.w[j];
    return (1 - share) * near + share * rows * entropy - square / (2 * soft->nw.problem->l2);
}

/* ---- Newton ---- */

static int soft_visit(struct gy_nw_method *m, const float *w, double *primal, struct gy_error *err)
{
    struct soft *const soft = soft_of(m);
    struct soft_pass pass = { .soft = soft, .w = w, .out = soft->u };
    double sums[2], square = 0;
    GY_TRY(soft_walk(&pass, sums, err));
    if (sums[1] > 0)
        return GY_FAIL(err, GY_E_MISMATCH, "%.0f rows have a label that is none of the %d classes", sums[1], soft->count);
    for (size_t j = 0; j < soft->penalised; j++)
        square += (double)w[j] * (double)w[j];
    soft->sum = sums[0];
    *primal = sums[0] + 0.5 * soft->nw.problem->l2 * square;
    return GY_OK;
}

static void soft_accept(struct gy_nw_method *m, double primal)
{
    struct soft *const soft = soft_of(m);
    const double l2 = soft->nw.problem->l2;
    for (size_t j = 0; j < soft->all; j++)
        m->g[j] = (j < soft->penalised ? l2 * (double)m->w[j] : 0) - soft->u[j];
    m->primal = primal;
    m->gap = soft->own ? primal - soft_free_dual(soft) : gy_nw_inner(m->g, m->g, soft->all) / (2 * l2);
    m->gap = m->gap > 0 ? m->gap : 0; /* by rounding */
}

static int soft_times(struct gy_nw_method *m, struct gy_error *err)
{
    struct soft *const soft = soft_of(m);
    struct soft_pass pass = { .soft = soft, .w = m->narrow, .what = SOFT_PRODUCT, .out = m->q };
    double sums[2];
    GY_TRY(soft_walk(&pass, sums, err));
    gy_nw_add(m->q, soft->nw.problem->l2, m->p, soft->penalised);
    return GY_OK;
}

static double soft_condition(struct gy_nw_method *m)
{
    double rho = 0;
    for (size_t j = 0; j < m->dims; j++) {
        m->z[j] = m->diagonal[j] * m->r[j];
        rho += m->r[j] * m->r[j] * m->diagonal[j];
    }
    return rho;
}

static int soft_direction(struct gy_nw_method *m, struct gy_error *err)
{
    struct soft *const soft = soft_of(m);
    double rho = 0;
    GY_TRY(soft_diagonal(soft, err));
    for (size_t j = 0; j < m->dims; j++) {
        const double curve = m->diagonal[j] + (j < soft->penalised ? soft->nw.problem->l2 : 0);
        m->diagonal[j] = curve > 0 ? 1 / curve : 0;
        m->s[j] = 0;
        m->r[j] = -m->g[j];
        m->z[j] = m->diagonal[j] * m->r[j];
        rho += m->r[j] * m->z[j];
    }
    return gy_nw_by_gradients(m, rho, err);
}

/* Between [class][feature] of the caller and [feature][class]. */
static void soft_turn(const struct soft *soft, float *theirs, int give)
{
    for (size_t k = 0; k < (size_t)soft->count; k++)
        for (size_t j = 0; j < soft->dims; j++) {
            float *const a = theirs + k * soft->dims + j, *const b = soft->m.w + j * (size_t)soft->count + k;
            *(give ? a : b) = give ? *b : *a;
        }
}

static int soft_certify(struct gy_nw_method *m, struct gy_error *err)
{
    struct soft *const soft = soft_of(m);
    struct gy_glm_run *const run = soft->nw.run;
    (void)err;
    run->result = (struct gy_glm_certificate){ .primal = m->primal, .dual = m->primal - m->gap, .gap = m->gap, .loss = soft->sum };
    soft_turn(soft, run->w, 1);
    return GY_OK;
}

/* A search that went nowhere has left another point's probabilities. */
static int soft_to_the_end(struct gy_nw_method *m, int moved, struct gy_error *err)
{
    double primal;
    return moved ? GY_OK : soft_visit(m, m->w, &primal, err);
}

static int soft_run(struct soft *soft, struct gy_error *err)
{
    struct soft_pass own = { .soft = soft, .what = SOFT_OWN, .out = soft->own };
    double sums[2];
    if (soft->own)
        GY_TRY(soft_walk(&own, sums, err));
    return gy_nw_loop(&soft->m, err);
}

/* ---- opening ---- */

static int soft_take(struct soft *soft, struct gy_error *err)
{
    struct gy_nw_method *const m = &soft->m;
    const int64_t all = (int64_t)soft->all, count = soft->count, slots = soft->slots;
    const struct gy_glm_room rooms[] = {
        { &soft->own, soft->penalised < soft->all ? all : -1, sizeof *soft->own },
        { &m->g, all, sizeof *m->g }, { &soft->u, all, sizeof *soft->u },
        { &m->diagonal, all, sizeof *m->diagonal }, { &m->s, all, sizeof *m->s },
        { &m->r, all, sizeof *m->r }, { &m->p, all, sizeof *m->p }, { &m->q, all, sizeof *m->q },
        { &m->w, all, sizeof *m->w }, { &m->trial, all, sizeof *m->trial },
        { &soft->probability, soft->nw.rows, (size_t)count * sizeof *soft->probability },
        { &soft->slot, slots, soft->all * sizeof *soft->slot },
        { &soft->loss, slots * 2, sizeof *soft->loss },
        { &soft->scratch, soft->nw.threads * count, sizeof *soft->scratch },
    };
    GY_TRY(gy_glm_take_rooms(&soft->nw.arena, rooms, GY_COUNT(rooms), "a model of several classes", err));
    m->nw = &soft->nw;
    m->dims = soft->all;
    m->inverse = 1;
    m->narrow = m->trial; /* a search and gradients are not at once */
    m->z = m->q;          /* a product is spent before the next r is conditioned */
    return GY_OK;
}

static int soft_check(const struct gy_glm_run *run, const struct gy_glm_classes *classes, struct gy_error *err)
{
    if (classes->count < 2)
        return GY_FAIL(err, GY_E_ARG, "a softmax model has %d classes, at least 2 are needed", classes->count);
    for (int k = 0; k < classes->count; k++)
        for (int i = 0; i < k; i++)
            if (classes->label[i] == classes->label[k])
                return GY_FAIL(err, GY_E_ARG, "class %g is listed twice", (double)classes->label[k]);
    if (!(run->problem->l2 > 0) || run->problem->l1 > 0)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "a softmax model has an l2 penalty above 0 (%g) and no l1 (%g)", run->problem->l2, run->problem->l1);
    return GY_OK;
}

GY_INT int gy_glm_softmax(struct gy_glm_run *run, const struct gy_glm_classes *classes, struct gy_error *err)
{
    struct soft soft = { .classes = classes, .count = classes->count,
                         .m = { .visit = soft_visit, .accept = soft_accept, .direction = soft_direction, .times = soft_times,
                                .condition = soft_condition, .certify = soft_certify, .to_the_end = soft_to_the_end } };
    GY_TRY(soft_check(run, classes, err));
    GY_TRY(gy_nw_open(&soft.nw, run, 0, 0, err));
    soft.dims = soft.nw.dims;
    soft.all = soft.dims * (size_t)classes->count;
    soft.penalised = run->problem->bias != 0 && run->problem->bias_free ? soft.all - (size_t)classes->count : soft.all;
    soft.slots = soft.all <= 1 << 16 ? GY_NW_SLOTS : soft.all <= 1 << 20 ? 8 : 4;
    int status = soft_take(&soft, err);
    if (status == GY_OK) {
        soft_turn(&soft, run->w, 0);
        status = soft_run(&soft, err);
        soft_turn(&soft, run->w, 1);
    }
    gy_nw_close(&soft.nw);
    return status;
}
