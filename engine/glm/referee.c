/* SPDX-License-Identifier: MIT */
/* The referee: P(w) from above and from below, and a lower bound of min P by weak duality,
 *
 *     min P >= D(a) = sum over rows of conjugates(a_i)
 *                     - sum over j of max(|u_j| - l1, 0)^2 / (2 l2),   u = sum of pull_i x_i
 *
 * for any dual variables a in their domain. The domain asks for two more things. Without an l2 no
 * |u_j| may be above l1, so all variables are scaled down. A weight that is not penalised wants u_j
 * = 0. So the variables of the sign that pulls more are scaled to what the other sign pulls. With
 * the squared loss every row has given its share of the excess before. With a softmax probabilities
 * move towards one distribution of all rows. Each such change needs a pass of its own.
 *
 * A sum of n doubles is off by n u sum of |terms| at most, u = 2^-53 (Higham, "Accuracy and
 * Stability of Numerical Algorithms", 2002, section 4.2), a product of two floats by nothing. So
 * every sum goes with that of its magnitudes. What is left of u_j = 0 after the change is a part d
 * of one sign's pulls. Some real number d scales these by 1 - d exactly. Conjugates are concave and
 * 0 at 0, so that costs d times their sum at most.
 *
 * Blocks are read a batch at a time. A strip s takes the s-th share of each block's rows, with sums
 * of its own, so bits do not depend on threads. */
#include "engine/glm/referee.h"
#include "engine/glm/referee_row.h"
#include "engine/job/peers.h"
#include "engine/glm/glm_stream.h"
#include "engine/glm/exact_sums.h"

#define REFEREE_STRIPS 8
#define REFEREE_BATCH 8     /* blocks in memory */
#define REFEREE_TILE 4096   /* weights that are summed on their own */
#define REFEREE_TINY 1e-300 /* more than an underflow to 0 can lose */
#define REFEREE_EXACT 65536 /* most values over all ranks that travel whole (exact_sums.h) */

/* A sum: of values, of their magnitudes, of what the values are off by. */
struct referee_sum {
    double value, size, error;
};

struct referee_sums {
    struct referee_sum loss, conjugate, pull[2]; /* pull: |coefficient| by sign */
    /* sums of c, of c |x|, and of the change of P when every weight moves by half a unit of a
     * float */
    double weight, length, grid;
};
#define REFEREE_DOUBLES ((int)(sizeof(struct referee_sums) / sizeof(double)))

/* An element of u: its value, what additions to it have lost, the sum of its terms' magnitudes. */
struct referee_pull {
    double value, rest, size;
};

/* Adds a term without losing bits (Knuth's TwoSum). After n terms value + rest is off by n^2 u^2
 * times the sizes, plus the terms' own errors. */
static inline void referee_pull_add(struct referee_pull *u, double term, double size)
{
    const double sum = u->value + term, of_term = sum - u->value;
    u->rest += (u->value - (sum - of_term)) + (term - of_term);
    u->value = sum;
    u->size += size;
}

struct referee {
    const struct gy_glm_answer *answer;
    const struct gy_glm_problem *problem;
    struct gy_glm_run sums_of;     /* job and memory, for sums over ranks */
    struct gy_glm_moved moved;
    int64_t first, end, rows;      /* of this rank; rows: of all */
    int64_t blocks, most_rows;
    int64_t dim, all, penalised;   /* weights of a class; of all; of a class that are penalised */
    int classes, is_free;
    int64_t strips, batch, threads;
    struct referee_pull *u;        /* [strips][all] */
    struct referee_sums *strip;    /* [strips] */
    /* [strips][classes] scores of a row; [classes] weights of each class's rows */
    double *score, *own;
    double *q;                     /* [classes] */
    unsigned char *memory;         /* [batch] rooms */
    size_t room;
    struct gy_rows rows_of[REFEREE_BATCH];
    int64_t row_of[REFEREE_BATCH]; /* number of the block's first row */
    int64_t block_of[REFEREE_BATCH];
    int status[REFEREE_BATCH];
    struct gy_error error[REFEREE_BATCH];
    int64_t here;                  /* blocks of the batch */
    struct referee_sums total;
    /* The largest |u_j| plus twice its error, of penalised weights. Scaled to l1 it stays inside,
     * whatever that pass rounds. */
    double largest;
    double square;                 /* sum of max(|u_j| + error - l1, 0)^2 */
};

static void referee_put(struct referee_sum *to, struct gy_near x)
{
    to->value += x.value;
    to->size += fabs(x.value);
    to->error += x.error;
}

/* What a sum of `count` terms is off by, and a little more, for the roundings of the magnitudes. */
static double referee_off(const struct referee_sum *sum, double count) { return 1.0001 * (sum->error + count * GY_REFEREE_UNIT * sum->size); }

/* ---- a row ---- */

/* Ids rise: those that the model has come first. */
static uint32_t referee_end(const struct referee *r, const struct gy_rows *rows, int32_t i)
{
    uint32_t end = gy_rows_end(rows, i);
    while (end > gy_rows_begin(rows, i) && rows->id[end - 1] >= r->answer->features)
        end--;
    return end;
}

/* The factor of a row's entries: their common value, where there is one. Where rows are to have
 * length 1, also 1 / |x| of what the model has, rounded to float as in training and prediction. */
static double referee_scale(const struct referee *r, const struct gy_rows *rows, int32_t i)
{
    double sum = 0;
    const double own = rows->value ? 1 : (double)rows->same;
    if (!r->answer->normalize)
        return own;
    for (uint32_t k = gy_rows_begin(rows, i); k < referee_end(r, rows, i); k++)
        sum += rows->value ? (double)rows->value[k] * (double)rows->value[k] : own * own;
    return sum > 0 ? own * (double)(float)(1 / sqrt(sum)) : own;
}

static struct gy_near referee_score(const struct referee *r, const struct gy_rows *rows, int32_t i, double scale, const float *w)
{
    const uint32_t begin = gy_rows_begin(rows, i), end = referee_end(r, rows, i);
    double sum = 0, size = 0;
    for (uint32_t k = begin; k < end; k++) {
        const double term = (double)w[rows->id[k]] * (rows->value ? (double)rows->value[k] : 1.0);
        sum += term;
        size += fabs(term);
    }
    const double bias = r->problem->bias != 0 ? r->problem->bias * (double)w[r->dim - 1] : 0;
    return (struct gy_near){ sum * scale + bias, ((double)(end - begin) + 4) * GY_REFEREE_UNIT * (size * fabs(scale) + fabs(bias)) };
}

/* The score at the point of the slopes. Any number proves a bound, so its roundings do not count. */
static double referee_at(const struct referee *r, const struct gy_rows *rows, int32_t i, double scale)
{
    const double *const w = r->answer->point;
    double sum = 0;
    for (uint32_t k = gy_rows_begin(rows, i); k < referee_end(r, rows, i); k++)
        sum += w[rows->id[k]] * (rows->value ? (double)rows->value[k] : 1.0);
    return sum * scale + (r->problem->bias != 0 ? r->problem->bias * w[r->dim - 1] : 0);
}

/* What the weights' roundings to floats do to the score. */
static double referee_grid(const struct referee *r, const struct gy_rows *rows, int32_t i, struct gy_near z)
{
    return z.error / (GY_REFEREE_UNIT * ((double)(referee_end(r, rows, i) - gy_rows_begin(rows, i)) + 4)) * 0x1p-24;
}

/* size: of the pull, or of what it is the difference of. */
static void referee_scatter(const struct referee *r, const struct gy_rows *rows, int32_t i, double scale, double pull, double size, struct referee_pull *u)
{
    const uint32_t end = referee_end(r, rows, i);
    const double f = pull * scale, most = size * fabs(scale);
    for (uint32_t k = gy_rows_begin(rows, i); k < end; k++) {
        const double value = rows->value ? (double)rows->value[k] : 1.0;
        referee_pull_add(&u[rows->id[k]], f * value, most * fabs(value));
    }
    if (r->problem->bias != 0)
        referee_pull_add(&u[r->dim - 1], pull * r->problem->bias, size * r->problem->bias);
}

/* The given dual variable of a row of weight c. Training rounds c to a float. The logistic loss
 * keeps a logit, the others a part of that c. */
static double referee_given(const struct referee *r, int64_t row, double c)
{
    const double dual = (double)r->answer->dual[row - r->first];
    return r->problem->loss == GY_GLM_LOGISTIC ? dual : dual * (c / (double)(float)c);
}

static void referee_row(const struct referee *r, const struct gy_rows *rows, int32_t i, int64_t strip)
{
    const struct gy_glm_answer *const a = r->answer;
    struct referee_sums *const sums = &r->strip[strip];
    const int loss = r->problem->loss;
    const float fy = gy_glm_y(r->problem, rows, i);
    const double y = (double)fy, c = gy_glm_c_exact(r->problem, rows, i, fy);
    const double scale = referee_scale(r, rows, i);
    if (!(c > 0))
        return;
    const struct gy_near z = referee_score(r, rows, i, scale, a->w);
    const double at = !a->dual && a->point ? referee_at(r, rows, i, scale) : z.value;
    const double dual = a->dual ? referee_given(r, rows->first + i, c) : gy_referee_slope(loss, y, c, at);
    double pull = 0;
    referee_put(&sums->loss, gy_referee_loss(loss, y, c, z));
    referee_put(&sums->conjugate, gy_referee_conjugate(loss, y, c, dual, &r->moved, &pull));
    referee_put(&sums->pull[pull > 0], (struct gy_near){ fabs(pull), 0 });
    sums->weight += c;
    sums->grid += gy_referee_grid(loss, y, c, z.value, referee_grid(r, rows, i, z));
    referee_scatter(r, rows, i, scale, pull, fabs(pull), r->u + strip * r->all);
}

static int referee_class(const struct gy_glm_classes *classes, float label)
{
    int y = 0;
    while (y < classes->count && classes->label[y] != label)
        y++;
    return y;
}

/* A row of several classes; of another label, it counts nothing. */
static void referee_row_classes(const struct referee *r, const struct gy_rows *rows, int32_t i, int64_t strip)
{
    const struct gy_glm_classes *const classes = r->answer->classes;
    struct referee_sums *const sums = &r->strip[strip];
    double *const z = r->score + strip * r->classes;
    const double scale = referee_scale(r, rows, i);
    const int y = referee_class(classes, rows->label[i]);
    const double c = y < classes->count ? (double)classes->factor[y] * (rows->weight ? (double)rows->weight[i] : 1.0) : 0;
    struct gy_near loss, conjugate, most = { 0, 0 };
    if (!(c > 0))
        return;
    for (int k = 0; k < classes->count; k++) {
        const struct gy_near near = referee_score(r, rows, i, scale, r->answer->w + k * r->dim);
        z[k] = near.value;
        most.error = fmax(most.error, near.error);
    }
    gy_referee_classes(z, classes->count, y, c, most.error, &r->moved, &loss, &conjugate);
    referee_put(&sums->loss, loss);
    referee_put(&sums->conjugate, conjugate);
    const double grid = referee_grid(r, rows, i, most);
    sums->weight += c;
    sums->grid += c * grid * grid;
    r->own[strip * r->classes + y] += c;
    for (uint32_t k = gy_rows_begin(rows, i); k < referee_end(r, rows, i); k++)
        sums->length += c * fabs(scale * (rows->value ? (double)rows->value[k] : 1.0));
    for (int k = 0; k < classes->count; k++)
        referee_scatter(r, rows, i, scale, z[k], c, r->u + strip * r->all + k * r->dim);
}

/* ---- a pass ---- */

static void referee_read_tile(void *job, int64_t tile, int thread)
{
    struct referee *const r = job;
    const struct gy_blocks_room room = { r->memory + (size_t)tile * r->room, r->room };
    (void)thread;
    r->status[tile] = gy_blocks_read(r->answer->blocks, r->block_of[tile], &room, &r->rows_of[tile], &r->error[tile]);
}

static void referee_strip_tile(void *job, int64_t tile, int thread)
{
    struct referee *const r = job;
    (void)thread;
    for (int64_t b = 0; b < r->here; b++) {
        const struct gy_rows *const rows = &r->rows_of[b];
        const int64_t from = gy_max64(0, r->first - rows->first), to = gy_min64(rows->count, r->end - rows->first), count = to - from;
        for (int64_t i = from + count * tile / r->strips; i < from + count * (tile + 1) / r->strips; i++)
            (r->answer->classes ? referee_row_classes : referee_row)(r, rows, (int32_t)i, tile);
    }
}

/* The next blocks with rows of this rank, from *block, whose first row is *row. */
static void referee_plan(struct referee *r, int64_t *block, int64_t *row)
{
    r->here = 0;
    for (; *block < r->blocks && r->here < r->batch && *row < r->end; (*block)++) {
        int32_t rows;
        gy_blocks_size(r->answer->blocks, *block, &rows, NULL);
        if (*row + rows > r->first)
            r->block_of[r->here++] = *block;
        *row += rows;
    }
}

static int referee_rows(struct referee *r, struct gy_error *err)
{
    int64_t block = 0, row = 0;
    for (;;) {
        referee_plan(r, &block, &row);
        if (r->here == 0)
            return GY_OK;
        gy_blocks_ahead(r->answer->blocks, block < r->blocks ? block : -1);
        gy_pool_run(r->answer->pool, referee_read_tile, r, r->here);
        for (int64_t b = 0; b < r->here; b++)
            if (r->status[b] != GY_OK)
                return *err = r->error[b], r->status[b];
        gy_pool_run(r->answer->pool, referee_strip_tile, r, r->strips);
    }
}

static void referee_add(struct referee_sums *to, const struct referee_sums *from)
{
    double a[REFEREE_DOUBLES], b[REFEREE_DOUBLES];
    memcpy(a, to, sizeof a);
    memcpy(b, from, sizeof b);
    for (int i = 0; i < REFEREE_DOUBLES; i++)
        a[i] += b[i];
    memcpy(to, a, sizeof a);
}

static void referee_fold_tile(void *job, int64_t tile, int thread)
{
    struct referee *const r = job;
    (void)thread;
    for (int64_t j = tile * REFEREE_TILE; j < gy_min64(r->all, (tile + 1) * REFEREE_TILE); j++)
        for (int64_t s = 1; s < r->strips; s++) {
            const struct referee_pull *const more = &r->u[s * r->all + j];
            referee_pull_add(&r->u[j], more->value, more->size);
            r->u[j].rest += more->rest;
        }
}

static int64_t referee_ranks(const struct referee *r) { return r->answer->job ? r->answer->job->ranks : 1; }

static int referee_sum_is_exact(const struct referee *r) { return 3 * r->all * referee_ranks(r) <= REFEREE_EXACT; }

/* Over strips and ranks. */
static int referee_fold(struct referee *r, struct gy_error *err)
{
    double sums[REFEREE_DOUBLES];
    gy_pool_run(r->answer->pool, referee_fold_tile, r, gy_ceil_div(r->all, REFEREE_TILE));
    memset(&r->total, 0, sizeof r->total);
    for (int64_t s = 0; s < r->strips; s++)
        referee_add(&r->total, &r->strip[s]);
    for (int64_t k = r->classes; k < r->strips * r->classes; k++)
        r->own[k % r->classes] += r->own[k];
    memcpy(sums, &r->total, sizeof sums);
    GY_TRY(gy_glm_sum(&r->sums_of, sums, REFEREE_DOUBLES, err));
    memcpy(&r->total, sums, sizeof sums);
    GY_TRY(gy_glm_sum(&r->sums_of, r->own, r->classes, err));
    double *const pulls = &r->u[0].value;
    GY_TRY(referee_sum_is_exact(r) ? gy_glm_sum(&r->sums_of, pulls, (int)(3 * r->all), err) : gy_glm_sum_vector(&r->sums_of, pulls, 3 * r->all, err));
    for (int64_t j = 0; j < r->all; j++)
        r->u[j].value += r->u[j].rest;
    return GY_OK;
}

/* Most terms of a sum over rows that is made as they come. */
static double referee_depth(const struct referee *r)
{
    const double ranks = (double)referee_ranks(r), strips = (double)r->strips;
    return ((double)r->rows / ranks + (double)r->blocks) / strips + (double)r->blocks + strips + ranks + 8;
}

/* Units that an element of u is off by, of the sum of its terms' magnitudes. */
static double referee_units(const struct referee *r)
{
    const double rows = referee_depth(r);
    return rows * rows * GY_REFEREE_UNIT + (double)r->strips + (double)referee_ranks(r) + 12 + (r->classes > 1 ? gy_referee_class_units(r->classes) : 0);
}

/* Sizes of u: part is what one sign's pulls may be off by. */
static void referee_measure(struct referee *r, double part)
{
    const double terms = referee_units(r);
    double most = 0, coarse = 0;
    for (int64_t j = 0; j < r->all; j++)
        most = fmax(most, r->u[j].size);
    if (!referee_sum_is_exact(r) && r->answer->job)
        /* 2^-46 of twice the largest value for each rank (exact_sums.h), of values and sizes */
        coarse = (double)referee_ranks(r) * 0x1p-44 * most;
    r->largest = r->square = 0;
    for (int64_t j = 0; j < r->all; j++) {
        if (j % r->dim >= r->penalised)
            continue;
        const double off = (terms * GY_REFEREE_UNIT + part) * (r->u[j].size + coarse) + coarse;
        const double over = fmax(fabs(r->u[j].value) + off - r->problem->l1, 0);
        r->largest = fmax(r->largest, fabs(r->u[j].value) + 2 * off);
        r->square += over * over;
    }
}

static int referee_pass(struct referee *r, struct gy_error *err)
{
    memset(r->u, 0, (size_t)(r->strips * r->all) * sizeof *r->u);
    memset(r->strip, 0, (size_t)r->strips * sizeof *r->strip);
    memset(r->own, 0, (size_t)(r->strips * r->classes) * sizeof *r->own);
    GY_TRY(referee_rows(r, err));
    return referee_fold(r, err);
}

/* ---- the verdict ---- */

/* Penalties of w, in parts: magnitudes are values. */
static struct referee_sum referee_penalty(const struct referee *r)
{
    struct referee_sum all = { 0, 0, 0 };
    for (int64_t at = 0; at < r->all; at += REFEREE_TILE) {
        double square = 0, one = 0;
        for (int64_t j = at; j < gy_min64(r->all, at + REFEREE_TILE); j++) {
            const double w = j % r->dim < r->penalised ? (double)r->answer->w[j] : 0;
            square += w * w;
            one += fabs(w);
        }
        all.value += 0.5 * r->problem->l2 * square + r->problem->l1 * one;
    }
    all.size = all.value;
    return all;
}

static double referee_penalty_depth(const struct referee *r) { return REFEREE_TILE + (double)r->all / REFEREE_TILE + 8; }

/* 1: P is 0 exactly. No term was lost: weights are 0, and the loss takes no exponentials of them. */
static int referee_is_zero(const struct referee *r)
{
    int zero = r->total.loss.value == 0 && r->total.loss.error == 0 &&
               (r->problem->loss != GY_GLM_LOGISTIC || r->total.weight == 0);
    for (int64_t j = 0; zero && j < r->all; j++)
        zero = r->answer->w[j] == 0;
    return zero;
}

static void referee_objective(const struct referee *r, struct gy_glm_verdict *out)
{
    const struct referee_sum penalty = referee_penalty(r);
    const double value = r->total.loss.value + penalty.value;
    const double off = referee_off(&r->total.loss, referee_depth(r)) + referee_off(&penalty, referee_penalty_depth(r)) + 2 * GY_REFEREE_UNIT * value +
                       (referee_is_zero(r) ? 0 : REFEREE_TINY * (1 + r->total.weight));
    out->loss = r->total.loss.value;
    out->objective = value + off;
    out->least = fmax(value - off, 0);
    out->rounding = 2 * off + r->total.grid;
}

/* D of the pass, after measuring. part: the share of the conjugates that balancing the pulls costs;
 * more: its other cost. */
static double referee_dual(const struct referee *r, double part, double more)
{
    const double l2 = r->problem->l2;
    const double off = referee_off(&r->total.conjugate, referee_depth(r)) + part * r->total.conjugate.size;
    const double square = r->square > 0 && l2 > 0 ? r->square / (2 * l2) : r->square > 0 ? HUGE_VAL : 0;
    const double value = r->total.conjugate.value - off - square * (1 + ((double)r->all + 8) * GY_REFEREE_UNIT) - more;
    const double safe = value - 4 * GY_REFEREE_UNIT * (fabs(r->total.conjugate.value) + off + square + more);
    return safe == safe ? safe : -HUGE_VAL;
}

/* Balances the two signs' pulls on a weight that is not penalised. */
static void referee_balance(struct referee *r)
{
    const struct referee_sum *const pull = r->total.pull;
    struct gy_glm_moved *const m = &r->moved;
    if (r->problem->loss == GY_GLM_SQUARED && m->shift == 0)
        m->shift = r->total.weight > 0 ? (pull[1].value - pull[0].value) / r->total.weight : 0;
    else if (pull[0].value > pull[1].value)
        m->side[0] *= pull[1].value / pull[0].value;
    else if (pull[1].value > 0)
        m->side[1] *= pull[0].value / pull[1].value;
}

static double referee_unbalanced(const struct referee *r)
{
    const struct referee_sum *const pull = r->total.pull;
    const double more = fmax(pull[0].value, pull[1].value), off = (referee_depth(r) + 4) * GY_REFEREE_UNIT * (pull[0].value + pull[1].value);
    return more > off ? 1.0001 * (fabs(pull[0].value - pull[1].value) + off) / (more - off) : more > 0 ? 1 : 0;
}

/* What the last pass proves, of one vector of weights. */
static double referee_proved(struct referee *r)
{
    const double part = r->is_free ? referee_unbalanced(r) : 0;
    referee_measure(r, part);
    return part < 1 ? referee_dual(r, part, 0) : -HUGE_VAL;
}

static int referee_bound(struct referee *r, double *bound, struct gy_error *err)
{
    const double l1 = r->problem->l1;
    const int turns = !r->is_free ? 0 : r->problem->loss == GY_GLM_SQUARED ? 2 : 1;
    for (int turn = 0; turn < turns; turn++) {
        referee_balance(r);
        GY_TRY(referee_pass(r, err));
    }
    *bound = referee_proved(r);
    if (!(l1 > 0) || !(r->largest > l1) || !isfinite(r->largest))
        return GY_OK;
    for (int s = 0; s < 2; s++)
        r->moved.side[s] *= l1 / r->largest * (1 - 8 * GY_REFEREE_UNIT);
    GY_TRY(referee_pass(r, err));
    *bound = fmax(*bound, referee_proved(r));
    return GY_OK;
}

/* What the probabilities of class k add up to: its own rows less the coefficients of the bias. */
static double referee_sum_of(const struct referee *r, int k) { return r->own[k] - r->u[k * r->dim + r->dim - 1].value / r->problem->bias; }

/* Chooses which part of the probabilities moves, and to which distribution q. Those of each class
 * then add up to its number of rows. */
static void referee_share(struct referee *r)
{
    double share = 0;
    for (int k = 0; k < r->classes; k++)
        share = referee_sum_of(r, k) > r->own[k] ? fmax(share, 1 - r->own[k] / referee_sum_of(r, k)) : share;
    for (int k = 0; k < r->classes; k++)
        r->q[k] = share > 0 ? fmax(r->own[k] - (1 - share) * referee_sum_of(r, k), 0) / (share * r->total.weight) : 0;
    r->moved.share = share;
    r->moved.q = r->q;
}

/* The part of the probabilities for which some distribution would make the sums exact. */
static double referee_unshared(const struct referee *r)
{
    const double terms = referee_units(r);
    double part = 0;
    for (int k = 0; k < r->classes; k++) {
        const struct referee_pull left = r->u[k * r->dim + r->dim - 1];
        const double off = (fabs(left.value) + terms * GY_REFEREE_UNIT * left.size) / r->problem->bias;
        part = r->own[k] > 0 ? fmax(part, 1.0001 * off / r->own[k]) : left.value == 0 ? part : 1;
    }
    return part;
}

/* The bound for a softmax. Entropies are concave. Pulls move by twice that part of their rows, all
 * classes of a row together. */
static int referee_bound_classes(struct referee *r, double *bound, struct gy_error *err)
{
    double part = 0;
    if (r->is_free) {
        referee_share(r);
        GY_TRY(referee_pass(r, err));
        part = referee_unshared(r);
    }
    referee_measure(r, 0);
    const double move = 2.001 * part * r->total.length;
    *bound = part < 1 ? referee_dual(r, part, move > 0 ? (r->largest + move) * move / r->problem->l2 : 0) : -HUGE_VAL;
    return GY_OK;
}

/* ---- room ---- */

static int referee_take(struct referee *r, struct gy_error *err)
{
    const struct gy_alloc *const alloc = r->answer->alloc;
    const size_t strips = (size_t)r->strips, classes = (size_t)r->classes;
    r->u = gy_alloc_take(alloc, strips * (size_t)r->all, sizeof *r->u);
    r->strip = gy_alloc_take(alloc, strips, sizeof *r->strip);
    r->score = gy_alloc_take(alloc, strips * classes, sizeof *r->score);
    r->own = gy_alloc_take(alloc, strips * classes, sizeof *r->own);
    r->q = gy_alloc_take(alloc, classes, sizeof *r->q);
    r->memory = gy_alloc_take(alloc, (size_t)r->batch, r->room);
    const size_t bytes = strips * (size_t)r->all * sizeof *r->u + (size_t)r->batch * r->room;
    return r->u && r->strip && r->score && r->own && r->q && r->memory ? GY_OK : GY_NOMEM(err, "the proof of a model's claim", bytes);
}

static void referee_give(const struct referee *r)
{
    const struct gy_alloc *const alloc = r->answer->alloc;
    const size_t strips = (size_t)r->strips, classes = (size_t)r->classes;
    gy_alloc_free(alloc, r->u, strips * (size_t)r->all * sizeof *r->u);
    gy_alloc_free(alloc, r->strip, strips * sizeof *r->strip);
    gy_alloc_free(alloc, r->score, strips * classes * sizeof *r->score);
    gy_alloc_free(alloc, r->own, strips * classes * sizeof *r->own);
    gy_alloc_free(alloc, r->q, classes * sizeof *r->q);
    gy_alloc_free(alloc, r->memory, (size_t)r->batch * r->room);
}

/* Chooses the sizes. More strips give work to more threads, but each is a vector to clear and to
 * add. So their number follows the entries for each weight. */
static void referee_shape(struct referee *r)
{
    const struct gy_glm_answer *const a = r->answer;
    struct gy_blocks_info info;
    gy_blocks_get_info(a->blocks, &info);
    r->classes = a->classes ? a->classes->count : 1;
    r->is_free = a->problem->bias != 0 && a->problem->bias_free;
    r->dim = (int64_t)a->features + (a->problem->bias != 0);
    r->all = r->dim * r->classes;
    r->penalised = r->dim - r->is_free;
    r->rows = info.rows;
    r->blocks = info.blocks;
    r->strips = gy_max64(1, gy_min64(REFEREE_STRIPS, info.entries / (8 * gy_max64(r->all, 1))));
    r->batch = gy_max64(1, gy_min64(gy_min64(REFEREE_BATCH, r->blocks), gy_pool_threads(a->pool)));
    r->room = gy_blocks_room_bytes(a->blocks, -1);
    r->room = gy_align_up(r->room ? r->room : 1, 64);
    gy_glm_deal(info.rows, gyre_job_rank(a->job), gyre_job_ranks(a->job), &r->first, &r->end);
}

GY_INT int gy_glm_referee(const struct gy_glm_answer *answer, struct gy_glm_verdict *out, struct gy_error *err)
{
    struct referee r = { .answer = answer, .problem = answer->problem, .sums_of = { .job = answer->job, .alloc = answer->alloc },
                         .moved = { .side = { 1, 1 } } };
    struct gy_glm_verdict found = { 0 };
    referee_shape(&r);
    int status = referee_take(&r, err);
    if (status == GY_OK)
        status = referee_pass(&r, err);
    if (status == GY_OK) {
        referee_objective(&r, &found);
        status = answer->classes ? referee_bound_classes(&r, &found.bound, err) : referee_bound(&r, &found.bound, err);
    }
    if (status == GY_OK) {
        found.bound = fmax(found.bound, 0); /* no loss and no penalty is below 0 */
        found.rounding += 2 * referee_off(&r.total.conjugate, referee_depth(&r));
        *out = found;
    }
    referee_give(&r);
    return status;
}
