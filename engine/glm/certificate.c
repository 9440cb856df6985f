/* SPDX-License-Identifier: MIT */
/* One pass over the rows gives P(w) and, with dual variables, D. Two kinds of tiles run side by
 * side over each view. Pieces of CERT_ROWS rows have their losses and conjugates summed in double.
 * Strips, fixed shares of a view's rows, each add coefficient x to a vector of their own, in the
 * order of the rows. Pieces and strips are cut by the shape of the data alone and added in their
 * order. So bits are the same for any number of threads. D is computed from the vector that the
 * dual variables give, not from w, which has drifted by the roundings of a whole run. So D bounds P
 * from below whatever w is. Solvers call gy_glm_certify.
 *
 * The logistic loss takes one logarithm of a product of up to CERT_LOGS factors 1 + exp(-|m|), each
 * at most 2. The product less 1 is kept. So the sum of many tiny losses has as small a relative
 * error as that of large ones. */
#include "kernels/cpu/sparse.h"
#include "engine/glm/exact_sums.h"

#define CERT_ROWS 2048       /* of a piece */
#define CERT_ROWS_SHARED 128 /* of a view, from which on threads share it */
#define CERT_LOGS 512
#define CERT_STRIPS 8        /* at most */
#define CERT_FEATURES 4096 /* of a tile that adds strips */

struct cert_piece {
    double loss, conjugate;
};

struct cert_pass {
    const struct gy_glm_run *run;
    struct gy_rows rows;
    const float *w;           /* NULL: only the vector u */
    const float *dual;        /* of the view's first row, or NULL */
    int64_t dim;              /* features, and the bias */
    int64_t strips;
    double *u;                /* [strips][dim]; NULL: not wanted */
    struct cert_piece *piece; /* [pieces of the largest view] */
    int64_t pieces;
};

/* Sum of c log(1 + e), e >= 0: a product as long as c stays. */
struct cert_logs {
    double c, over, sum; /* over: the product of 1 + e, less 1 */
    int count;
};

static void cert_logs_close(struct cert_logs *logs)
{
    logs->sum += logs->c * log1p(logs->over);
    logs->over = 0;
    logs->count = 0;
}

static void cert_logs_add(struct cert_logs *logs, double c, double e)
{
    if (c != logs->c || logs->count == CERT_LOGS) {
        cert_logs_close(logs);
        logs->c = c;
    }
    logs->over += e + logs->over * e;
    logs->count++;
}

static double cert_sum_ones(const uint32_t *id, uint32_t count, const float *w)
{
    double a = 0, b = 0, c = 0, d = 0;
    uint32_t k = 0;
    for (; k + 4 <= count; k += 4) {
        a += (double)w[id[k]];
        b += (double)w[id[k + 1]];
        c += (double)w[id[k + 2]];
        d += (double)w[id[k + 3]];
    }
    for (; k < count; k++)
        a += (double)w[id[k]];
    return (a + b) + (c + d);
}

static double cert_sum_values(const uint32_t *id, const float *value, uint32_t count, const float *w)
{
    double even = 0, odd = 0;
    uint32_t k = 0;
    for (; k + 2 <= count; k += 2) {
        even += (double)w[id[k]] * (double)value[k];
        odd += (double)w[id[k + 1]] * (double)value[k + 1];
    }
    return even + odd + (k < count ? (double)w[id[k]] * (double)value[k] : 0);
}

/* Score of a row, in double. */
static double cert_score(const struct cert_pass *p, int32_t i)
{
    const struct gy_rows *const rows = &p->rows;
    const uint32_t begin = gy_rows_begin(rows, i), count = gy_rows_end(rows, i) - begin;
    const uint32_t *const id = rows->id + begin;
    const float *const value = rows->value ? rows->value + begin : NULL, *const w = p->w;
    const double all = value ? cert_sum_values(id, value, count, w) : cert_sum_ones(id, count, w), bias = p->run->problem->bias;
    return all * (value ? 1 : (double)rows->same) * (rows->scale ? (double)rows->scale[i] : 1) + (bias != 0 ? bias * (double)w[p->dim - 1] : 0);
}

static void cert_piece(struct cert_pass *p, int64_t number)
{
    const struct gy_glm_problem *const problem = p->run->problem;
    const int32_t end = (int32_t)gy_min64(p->rows.count, (number + 1) * CERT_ROWS);
    const struct gy_glm_loss *const loss = gy_glm_loss_of(problem);
    const int logistic = loss->form == GY_GLM_LOGIT; /* its logarithms are taken together */
    struct cert_logs up = { 0 }, down = { 0 };
    struct cert_piece sum = { 0, 0 };
    for (int32_t i = (int32_t)(number * CERT_ROWS); i < end; i++) {
        const float fy = gy_glm_y(problem, &p->rows, i);
        const double y = (double)fy, c = (double)gy_glm_c(problem, &p->rows, i, fy);
        if (!(c > 0))
            continue;
        const double z = cert_score(p, i);
        if (logistic) {
            const double m = y * z;
            cert_logs_add(&up, c, exp(-fabs(m)));
            sum.loss += m < 0 ? -c * m : 0;
        } else
            sum.loss += c * loss->value(y, z);
        if (!p->dual)
            continue;
        const double dual = (double)p->dual[i];
        if (logistic && gy_glm_is_dual(loss, dual, c)) {
            const double e = exp(-fabs(dual));
            cert_logs_add(&down, c, e);
            sum.conjugate += c * (e / (1 + e)) * fabs(dual);
        } else
            sum.conjugate += gy_glm_conjugate(loss, y, dual, c);
    }
    cert_logs_close(&up);
    cert_logs_close(&down);
    p->piece[number] = (struct cert_piece){ sum.loss + up.sum, sum.conjugate + down.sum };
}

static double cert_coefficient(const struct gy_glm_loss *loss, double y, double dual, double c)
{
    if (loss->form != GY_GLM_LOGIT)
        return gy_glm_sign(loss, y) * dual;
    const double e = exp(-fabs(dual));
    return y * c * (dual >= 0 ? 1 : e) / (1 + e);
}

static void cert_strip(struct cert_pass *p, int64_t number)
{
    const struct gy_glm_problem *const problem = p->run->problem;
    const struct gy_glm_loss *const loss = gy_glm_loss_of(problem);
    const struct gy_rows *const rows = &p->rows;
    const int32_t end = (int32_t)(rows->count * (number + 1) / p->strips);
    double *const u = p->u + number * p->dim;
    for (int32_t i = (int32_t)(rows->count * number / p->strips); i < end; i++) {
        const float y = gy_glm_y(problem, rows, i), c = gy_glm_c(problem, rows, i, y);
        const double dual = (double)p->dual[i];
        const double g = c > 0 ? cert_coefficient(loss, (double)y, dual, (double)c) : 0;
        const double f = g * (rows->scale ? (double)rows->scale[i] : 1) * (rows->value ? 1 : (double)rows->same);
        const uint32_t last = gy_rows_end(rows, i);
        if (g == 0)
            continue;
        for (uint32_t k = gy_rows_begin(rows, i); k < last; k++)
            u[rows->id[k]] += rows->value ? f * (double)rows->value[k] : f;
        if (problem->bias != 0)
            u[p->dim - 1] += g * problem->bias;
    }
}

static void cert_tile(void *job, int64_t tile, int thread)
{
    struct cert_pass *const p = job;
    const int64_t strips = p->u ? p->strips : 0;
    (void)thread;
    if (tile < strips)
        cert_strip(p, tile);
    else
        cert_piece(p, tile - strips);
}

/* ---- the vector of the duals ---- */

static void cert_clear_tile(void *job, int64_t tile, int thread)
{
    struct cert_pass *const p = job;
    const int64_t all = p->strips * p->dim, first = tile * 8 * CERT_FEATURES;
    (void)thread;
    memset(p->u + first, 0, (size_t)gy_min64(all - first, 8 * CERT_FEATURES) * sizeof *p->u);
}

static void cert_add_tile(void *job, int64_t tile, int thread)
{
    struct cert_pass *const p = job;
    const int64_t end = gy_min64(p->dim, (tile + 1) * CERT_FEATURES);
    (void)thread;
    for (int64_t s = 1; s < p->strips; s++)
        for (int64_t j = tile * CERT_FEATURES; j < end; j++)
            p->u[j] += p->u[s * p->dim + j];
}

static size_t cert_vector_bytes(const struct cert_pass *p) { return (size_t)(p->strips * p->dim) * sizeof *p->u; }

/* Takes the vectors of the strips. More strips give work to more threads, but each is a vector to
 * clear and to add. So their number follows the entries for each feature. */
static int cert_take_vector(struct cert_pass *p, struct gy_error *err)
{
    const struct gy_glm_run *const run = p->run;
    p->strips = gy_max64(1, gy_min64(CERT_STRIPS, run->feed->entries / (8 * gy_max64(p->dim, 1))));
    p->u = run->alloc->fn(run->alloc->user, NULL, 0, cert_vector_bytes(p) ? cert_vector_bytes(p) : 1);
    if (!p->u)
        return GY_NOMEM(err, "the certificate's vectors", cert_vector_bytes(p));
    gy_mem_large_pages(p->u, cert_vector_bytes(p));
    gy_pool_run(run->pool, cert_clear_tile, p, gy_ceil_div(p->strips * p->dim, 8 * CERT_FEATURES));
    return GY_OK;
}

/* Strips and ranks are added, and divided by l2. */
static int cert_close_vector(struct cert_pass *p, struct gy_error *err)
{
    gy_pool_run(p->run->pool, cert_add_tile, p, gy_ceil_div(p->dim, CERT_FEATURES));
    GY_TRY(gy_glm_sum_vector(p->run, p->u, p->dim, err));
    for (int64_t j = 0; j < p->dim; j++)
        p->u[j] /= p->run->problem->l2;
    return GY_OK;
}

/* ---- passes ---- */

/* Views of few rows are this thread's alone: others would wake for longer than they work. */
static void cert_run(struct cert_pass *p, int64_t tiles)
{
    if (p->rows.count >= CERT_ROWS_SHARED)
        gy_pool_run(p->run->pool, cert_tile, p, tiles);
    else
        for (int64_t tile = 0; tile < tiles; tile++)
            cert_tile(p, tile, 0);
}

/* sums[0] losses, [1] conjugates. */
static int cert_rows(struct cert_pass *p, const float *dual, double sums[2], struct gy_error *err)
{
    const struct gy_glm_feed *const feed = p->run->feed;
    for (;;) {
        GY_TRY(feed->next(feed->self, &p->rows, err));
        if (p->rows.count == 0)
            return GY_OK;
        p->dual = dual ? dual + (p->rows.first - feed->first) : NULL;
        const int64_t pieces = p->w ? gy_ceil_div(p->rows.count, CERT_ROWS) : 0;
        cert_run(p, pieces + (p->u ? p->strips : 0));
        for (int64_t k = 0; k < pieces; k++) {
            sums[0] += p->piece[k].loss;
            sums[1] += p->piece[k].conjugate;
        }
    }
}

/* |x| and x^2 of w, or of what is left of u beyond soft. */
struct cert_size {
    double one, square;
};
static void cert_grow(struct cert_size *size, double v)
{
    size->one += fabs(v);
    size->square += v * v;
}
static struct cert_size cert_size_of(const float *w, const double *u, int64_t count, double soft)
{
    struct cert_size all = { 0, 0 };
    for (int64_t at = 0; at < count; at += CERT_FEATURES) {
        struct cert_size part = { 0, 0 };
        for (int64_t j = at; j < gy_min64(count, at + CERT_FEATURES); j++) {
            const double over = w ? fabs((double)w[j]) : fabs(u[j]) - soft;
            cert_grow(&part, over < 0 ? 0 : over); /* what is no number stays none */
        }
        all.one += part.one;
        all.square += part.square;
    }
    return all;
}

static int cert_finish(struct cert_pass *p, const float *w, const double sums[2], struct gy_glm_certificate *out, struct gy_error *err)
{
    const struct gy_glm_problem *const problem = p->run->problem;
    const int64_t penalised = p->dim - (problem->bias != 0 && problem->bias_free);
    const struct cert_size size = cert_size_of(w, NULL, penalised, 0);
    out->loss = sums[0];
    out->primal = sums[0] + 0.5 * problem->l2 * size.square + problem->l1 * size.one;
    out->dual = -HUGE_VAL;
    if (p->u) {
        GY_TRY(cert_close_vector(p, err));
        /* else the dual variables are not finite, and the vector may not be either */
        if (sums[1] > -HUGE_VAL)
            out->dual = sums[1] - 0.5 * problem->l2 * cert_size_of(NULL, p->u, p->dim, problem->l1 / problem->l2).square;
    }
    out->gap = out->primal - out->dual;
    return GY_OK;
}

GY_INT double gy_glm_relative_gap(double objective, double bound)
{
    return objective > 0 ? (objective - bound) / objective : objective == 0 ? 0 : (double)NAN;
}

GY_INT int gy_glm_certify(struct gy_glm_run *run, const float *w, const float *dual, struct gy_glm_certificate *out, struct gy_error *err)
{
    const struct gy_glm_problem *const problem = run->problem;
    const int64_t pieces = gy_ceil_div(run->feed->most_rows, CERT_ROWS);
    struct cert_pass p = { .run = run, .w = w, .dim = (int64_t)run->feed->features + (problem->bias != 0), .pieces = pieces, .strips = 1 };
    double sums[2] = { 0, 0 };
    struct gy_glm_certificate found;
    p.piece = gy_alloc_take(run->alloc, (size_t)pieces, sizeof *p.piece);
    int status = p.piece ? GY_OK : GY_NOMEM(err, "the certificate's sums", (size_t)pieces * sizeof *p.piece);
    if (status == GY_OK && dual && problem->l2 > 0 && !(problem->bias != 0 && problem->bias_free))
        status = cert_take_vector(&p, err);
    if (status == GY_OK)
        status = cert_rows(&p, dual, sums, err);
    if (status == GY_OK)
        status = gy_glm_sum(run, sums, 2, err);
    if (status == GY_OK)
        status = cert_finish(&p, w, sums, &found, err);
    if (status == GY_OK)
        *out = found;
    gy_alloc_free(run->alloc, p.u, cert_vector_bytes(&p));
    gy_alloc_free(run->alloc, p.piece, (size_t)pieces * sizeof *p.piece);
    return status;
}

GY_INT int gy_glm_rebuild(const struct gy_glm_run *run, const float *dual, double *u, struct gy_error *err)
{
    struct cert_pass p = { .run = run, .dim = (int64_t)run->feed->features + (run->problem->bias != 0), .strips = 1 };
    double sums[2] = { 0, 0 };
    int status = cert_take_vector(&p, err);
    if (status == GY_OK)
        status = cert_rows(&p, dual, sums, err);
    if (status == GY_OK)
        status = cert_close_vector(&p, err);
    if (status == GY_OK)
        memcpy(u, p.u, (size_t)p.dim * sizeof *u);
    gy_alloc_free(run->alloc, p.u, cert_vector_bytes(&p));
    return status;
}

GY_INT float gy_glm_dot(const struct gy_rows *rows, int32_t i, const float *w)
{
    const uint32_t begin = gy_rows_begin(rows, i), count = gy_rows_end(rows, i) - begin;
    const float *const value = rows->value ? rows->value + begin : NULL;
    return gy_sparse_dot(rows->id + begin, value, count, w) * (value ? 1.0f : rows->same) * (rows->scale ? rows->scale[i] : 1.0f);
}
