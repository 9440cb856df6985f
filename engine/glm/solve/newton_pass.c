/* SPDX-License-Identifier: MIT */
/* Passes over the rows. A resident feed's views are listed once; another feed is read from its
 * beginning in each pass. Of a row only its curvature stays between passes, one float, so that
 * memory does not grow with the entries. With columns (newton_columns.c) more stays. */
#include "engine/glm/solve/newton_state.h"
#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/job/peers.h"

#define NW_CHUNK 4096 /* columns that are added up as one tile */
/* numbers that ranks sum at once, at least; longer vectors travel in several pieces */
#define NW_WIRE_LEAST 4096

struct nw_pass {
    struct gy_nw_view view;
    struct gy_nw *nw;
    const float *w;
    double *diagonal;    /* not NULL: is wanted */
    double *out;
    const struct gy_nw_change *change;
};

/* The first row at or after `row` that counts. */
static int32_t nw_counting(const struct nw_pass *pass, int32_t row)
{
    const int64_t step = pass->nw->step;
    return (int32_t)(gy_ceil_div(pass->view.base + row, step) * step - pass->view.base);
}

GY_INT double gy_nw_dot(const struct gy_rows *rows, int32_t i, const float *w)
{
    const uint32_t end = gy_rows_end(rows, i);
    const uint32_t *const id = rows->id;
    const float *const value = rows->value;
    uint32_t k = gy_rows_begin(rows, i);
    double a = 0, b = 0, c = 0, d = 0;
    if (value)
        for (; k + 4 <= end; k += 4) {
            a += (double)value[k] * (double)w[id[k]];
            b += (double)value[k + 1] * (double)w[id[k + 1]];
            c += (double)value[k + 2] * (double)w[id[k + 2]];
            d += (double)value[k + 3] * (double)w[id[k + 3]];
        }
    else
        for (; k + 4 <= end; k += 4) {
            a += (double)w[id[k]];
            b += (double)w[id[k + 1]];
            c += (double)w[id[k + 2]];
            d += (double)w[id[k + 3]];
        }
    for (; k < end; k++)
        a += value ? (double)value[k] * (double)w[id[k]] : (double)w[id[k]];
    const double sum = (a + b) + (c + d);
    return sum * (value ? 1.0 : (double)rows->same) * (rows->scale ? (double)rows->scale[i] : 1.0);
}

static double nw_score(const struct gy_nw *nw, const struct gy_rows *rows, int32_t i, const float *w)
{
    const double z = gy_nw_dot(rows, i, w);
    return nw->dims > nw->features ? z + nw->problem->bias * (double)w[nw->features] : z;
}

GY_INT void gy_nw_scatter(const struct gy_rows *rows, int32_t i, double t, double *slot)
{
    const uint32_t end = gy_rows_end(rows, i);
    const uint32_t *const id = rows->id;
    const float *const value = rows->value;
    t *= rows->scale ? (double)rows->scale[i] : 1.0;
    if (value) {
        for (uint32_t k = gy_rows_begin(rows, i); k < end; k++)
            slot[id[k]] += t * (double)value[k];
        return;
    }
    t *= (double)rows->same;
    for (uint32_t k = gy_rows_begin(rows, i); k < end; k++)
        slot[id[k]] += t;
}

/* slot += t times the squares of row i. */
static void nw_scatter_squares(const struct gy_rows *rows, int32_t i, double t, double *slot)
{
    const double scale = (rows->scale ? (double)rows->scale[i] : 1.0) * (rows->value ? 1.0 : (double)rows->same);
    const uint32_t end = gy_rows_end(rows, i);
    t *= scale * scale;
    for (uint32_t k = gy_rows_begin(rows, i); k < end; k++)
        slot[rows->id[k]] += rows->value ? t * (double)rows->value[k] * (double)rows->value[k] : t;
}

/* ---- walking over views ---- */

GY_INT int gy_nw_walk(struct gy_nw *nw, gy_tile_fn fn, struct gy_nw_view *job, int slots, struct gy_error *err)
{
    struct gy_glm_feed *const feed = nw->run->feed;
    job->base = 0;
    nw->visited += nw->rows / nw->step;
    for (int v = 0;; v++) {
        if (nw->views && v == nw->view_count)
            return GY_OK;
        if (nw->views)
            job->rows = nw->views[v];
        else
            GY_TRY(feed->next(feed->self, &job->rows, err));
        if (job->rows.count == 0)
            return job->base == nw->rows ? GY_OK
                                         : GY_FAIL(err, GY_E_MISMATCH, "a pass over the rows had %" PRId64 " of them instead of %" PRId64, job->base, nw->rows);
        if (job->base + job->rows.count > nw->rows)
            return GY_FAIL(err, GY_E_MISMATCH, "a pass over the rows had more than the %" PRId64 " that were announced", nw->rows);
        gy_pool_run(nw->run->pool, fn, job, slots);
        job->base += job->rows.count;
    }
}

static int nw_walk(struct nw_pass *pass, gy_tile_fn fn, struct gy_error *err)
{
    struct gy_nw *const nw = pass->nw;
    memset(nw->sums, 0, (size_t)nw->slots * sizeof *nw->sums);
    return gy_nw_walk(nw, fn, &pass->view, nw->slots, err);
}

static void nw_add_sums(struct gy_nw_sums *to, const struct gy_nw_sums *from)
{
    to->loss += from->loss;
    to->side[0] += from->side[0];
    to->side[1] += from->side[1];
    to->linear += from->linear;
    to->square += from->square;
    to->pull += from->pull;
    to->curve += from->curve;
    to->weight += from->weight;
}

/* Adds the slots of a chunk of columns in their order, and clears them. */
static void nw_reduce_tile(void *job, int64_t tile, int thread)
{
    const struct nw_pass *const pass = job;
    const struct gy_nw *const nw = pass->nw;
    const size_t from = (size_t)tile * NW_CHUNK, to = from + NW_CHUNK < nw->dims ? from + NW_CHUNK : nw->dims;
    (void)thread;
    for (int part = 0; part < (pass->diagonal ? 2 : 1); part++) {
        double *const out = part ? pass->diagonal : pass->out;
        memset(out + from, 0, (to - from) * sizeof *out);
        for (int s = 0; s < nw->slots; s++) {
            double *const slot = nw->slot + (size_t)s * nw->stride + (size_t)part * nw->dims;
            gy_nw_add(out + from, 1.0, slot + from, to - from);
            memset(slot + from, 0, (to - from) * sizeof *slot);
        }
    }
}

/* The sum over column j of t_i x_ij; t: one float a row. */
GY_INT double gy_nw_column(const struct gy_nw *nw, size_t j, const float *t)
{
    const struct gy_nw_columns *const columns = nw->columns;
    double sum = 0, other = 0;
    if (j == nw->features) {
        for (int64_t i = 0; i < nw->rows; i++)
            sum += (double)t[i];
        return sum * nw->problem->bias;
    }
    int64_t k = columns->start[j];
    const int64_t end = columns->start[j + 1];
    if (columns->value)
        for (; k < end; k++)
            sum += (double)t[columns->row[k]] * (double)columns->value[k];
    for (; k + 2 <= end; k += 2) {
        sum += (double)t[columns->row[k]];
        other += (double)t[columns->row[k + 1]];
    }
    if (k < end)
        sum += (double)t[columns->row[k]];
    return (sum + other) * (columns->value ? 1.0 : (double)columns->same);
}

/* The same for the pulls, which are doubles. */
static double nw_column_pull(const struct gy_nw *nw, size_t j)
{
    const struct gy_nw_columns *const columns = nw->columns;
    const double *const t = nw->pull;
    double sum = 0, other = 0;
    int64_t k = columns->start[j];
    const int64_t end = columns->start[j + 1];
    if (columns->value)
        for (; k < end; k++)
            sum += t[columns->row[k]] * (double)columns->value[k];
    for (; k + 2 <= end; k += 2) {
        sum += t[columns->row[k]];
        other += t[columns->row[k + 1]];
    }
    if (k < end)
        sum += t[columns->row[k]];
    return (sum + other) * (columns->value ? 1.0 : (double)columns->same);
}

static double nw_column_diagonal(const struct gy_nw *nw, size_t j)
{
    const struct gy_nw_columns *const columns = nw->columns;
    double squares = 0;
    for (int64_t k = columns->start[j]; k < columns->start[j + 1]; k++) {
        const double x = (double)(columns->value ? columns->value[k] : columns->same);
        squares += (double)nw->curve[columns->row[k]] * x * x;
    }
    return squares;
}

static void nw_columns_tile(void *job, int64_t tile, int thread)
{
    const struct nw_pass *const pass = job;
    const struct gy_nw *const nw = pass->nw;
    const size_t from = (size_t)tile * NW_CHUNK, to = from + NW_CHUNK < nw->features ? from + NW_CHUNK : nw->features;
    (void)thread;
    for (size_t j = from; j < to; j++) {
        pass->out[j] = pass->w ? nw_column_pull(nw, j) : gy_nw_column(nw, j, nw->product);
        if (pass->diagonal)
            pass->diagonal[j] = nw_column_diagonal(nw, j);
    }
}

/* What the tiles left becomes out (and diagonal) [dims] and sums; over all ranks. */
static int nw_gather(struct nw_pass *pass, struct gy_nw_sums *sums, struct gy_error *err)
{
    struct gy_nw *const nw = pass->nw;
    const double bias = nw->problem->bias;
    memset(sums, 0, sizeof *sums);
    for (int s = 0; s < nw->slots; s++)
        nw_add_sums(sums, &nw->sums[s]);
    if (pass->out) {
        gy_pool_run(nw->run->pool, nw->columns ? nw_columns_tile : nw_reduce_tile, pass, gy_ceil_div((int64_t)nw->dims, NW_CHUNK));
        if (nw->dims > nw->features)
            pass->out[nw->features] = bias * sums->pull;
        GY_TRY(gy_nw_sum(nw, pass->out, nw->dims, err));
    }
    if (pass->diagonal) {
        if (nw->dims > nw->features)
            pass->diagonal[nw->features] = bias * bias * sums->curve;
        GY_TRY(gy_nw_sum(nw, pass->diagonal, nw->dims, err));
    }
    return gy_nw_sum(nw, (double *)sums, sizeof *sums / sizeof(double), err);
}

/* ---- visit ---- */

static void nw_visit_rows(const struct nw_pass *pass, const struct gy_nw_block *block, double *slot)
{
    const struct gy_nw *const nw = pass->nw;
    for (int b = 0; b < block->count; b++) {
        const int32_t i = block->row[b];
        nw->curve[pass->view.base + i] = block->curve[b];
        if (nw->pull)
            nw->pull[pass->view.base + i] = block->pull[b];
        if (!slot)
            continue;
        if (block->pull[b] != 0)
            gy_nw_scatter(&pass->view.rows, i, block->pull[b], slot);
        if (pass->diagonal && block->curve[b] != 0)
            nw_scatter_squares(&pass->view.rows, i, (double)block->curve[b], slot + nw->dims);
    }
}

static void nw_visit_tile(void *job, int64_t tile, int thread)
{
    const struct nw_pass *const pass = job;
    const struct gy_nw *const nw = pass->nw;
    const struct gy_rows *const rows = &pass->view.rows;
    const struct gy_glm_problem *const problem = nw->problem;
    int32_t from, to;
    struct gy_nw_block block = { .loss = nw->loss };
    struct gy_nw_sums sums = nw->sums[tile];
    double *const slot = nw->slot ? nw->slot + (size_t)tile * nw->stride : NULL;
    (void)thread;
    gy_nw_range(&pass->view, tile, nw->slots, &from, &to);
    for (int32_t i = nw_counting(pass, from); i < to; i = i < to - nw->step ? i + nw->step : to) {
        const int b = block.count++;
        block.row[b] = i;
        block.z[b] = nw_score(nw, rows, i, pass->w);
        block.y[b] = gy_glm_y(problem, rows, i);
        block.c[b] = gy_glm_c(problem, rows, i, block.y[b]) * (float)nw->step;
        if (block.count < GY_NW_BLOCK && i < to - nw->step)
            continue;
        gy_nw_losses(&block, rows->weight != NULL, nw->cpu, &sums);
        nw_visit_rows(pass, &block, slot);
        block.count = 0;
    }
    nw->sums[tile] = sums;
}

GY_INT int gy_nw_visit(struct gy_nw *nw, const float *w, double *u, double *diagonal, struct gy_nw_sums *sums, struct gy_error *err)
{
    struct nw_pass pass = { .nw = nw, .w = w, .out = u, .diagonal = diagonal };
    GY_TRY(nw_walk(&pass, nw_visit_tile, err));
    return nw_gather(&pass, sums, err);
}

/* ---- products ---- */

static void nw_product_tile(void *job, int64_t tile, int thread)
{
    const struct nw_pass *const pass = job;
    const struct gy_nw *const nw = pass->nw;
    double *const slot = nw->slot ? nw->slot + (size_t)tile * nw->stride : NULL;
    const float *const p = pass->w;
    double pull = nw->sums[tile].pull;
    int32_t from, to;
    (void)thread;
    gy_nw_range(&pass->view, tile, nw->slots, &from, &to);
    for (int32_t i = nw_counting(pass, from); i < to; i = i < to - nw->step ? i + nw->step : to) {
        const double curve = (double)nw->curve[pass->view.base + i], t = curve != 0 ? curve * nw_score(nw, &pass->view.rows, i, p) : 0;
        pull += t;
        if (!slot)
            nw->product[pass->view.base + i] = (float)t;
        else if (t != 0)
            gy_nw_scatter(&pass->view.rows, i, t, slot);
    }
    nw->sums[tile].pull = pull;
}

GY_INT int gy_nw_product(struct gy_nw *nw, const float *p, double *out, struct gy_error *err)
{
    struct gy_nw_sums sums;
    struct nw_pass pass = { .nw = nw, .w = p, .out = out };
    GY_TRY(nw_walk(&pass, nw_product_tile, err));
    pass.w = NULL; /* columns: products, not pulls */
    return nw_gather(&pass, &sums, err);
}

GY_INT int gy_nw_forward(struct gy_nw *nw, const float *p, struct gy_error *err)
{
    struct nw_pass pass = { .nw = nw, .w = p };
    return nw_walk(&pass, nw_product_tile, err);
}

/* ---- changed coefficients ---- */

/* The conjugate of the dual variable whose coefficient is pull. */
static double nw_conjugate(const struct gy_glm_loss *loss, double y, double pull, double c)
{
    if (loss->form != GY_GLM_LOGIT)
        return c > 0 ? gy_glm_conjugate(loss, y, gy_glm_sign(loss, y) * pull, c) : 0;
    const double share = c > 0 ? fabs(pull) / c : 0;
    if (share > 0 && share < 1)
        return c * (-share * log(share) - (1 - share) * log1p(-share));
    return share > 1 ? -HUGE_VAL : 0;
}

static void nw_changed_tile(void *job, int64_t tile, int thread)
{
    const struct nw_pass *const pass = job;
    const struct gy_nw *const nw = pass->nw;
    double *const slot = nw->slot ? nw->slot + (size_t)tile * nw->stride : NULL;
    struct gy_nw_sums sums = nw->sums[tile];
    int32_t from, to;
    (void)thread;
    gy_nw_range(&pass->view, tile, nw->slots, &from, &to);
    for (int32_t i = from; i < to; i++) {
        const double y = (double)gy_glm_y(nw->problem, &pass->view.rows, i), c = (double)gy_glm_c(nw->problem, &pass->view.rows, i, (float)y);
        double first, second;
        nw->loss->slopes(y, nw_score(nw, &pass->view.rows, i, pass->w), &first, &second);
        const double pull = -c * first * pass->change->side[y > 0] - c * pass->change->shift;
        sums.loss += nw_conjugate(nw->loss, y, pull, c);
        sums.linear += y * pull;
        sums.square += c > 0 ? pull * pull / c : 0;
        sums.pull += pull;
        if (!pass->out)
            continue;
        if (slot)
            gy_nw_scatter(&pass->view.rows, i, pull, slot);
        else
            nw->pull[pass->view.base + i] = pull;
    }
    nw->sums[tile] = sums;
}

GY_INT int gy_nw_changed(struct gy_nw *nw, const float *w, const struct gy_nw_change *change, double *u, struct gy_nw_sums *sums, struct gy_error *err)
{
    struct nw_pass pass = { .nw = nw, .w = w, .out = u, .change = change };
    GY_TRY(nw_walk(&pass, nw_changed_tile, err));
    return nw_gather(&pass, sums, err);
}

/* ---- dual variables ---- */

static void nw_dual_tile(void *job, int64_t tile, int thread)
{
    const struct nw_pass *const pass = job;
    const struct gy_nw *const nw = pass->nw;
    float *const dual = nw->run->dual;
    int32_t from, to;
    (void)thread;
    gy_nw_range(&pass->view, tile, nw->slots, &from, &to);
    for (int32_t i = from; i < to; i++) {
        const float y = gy_glm_y(nw->problem, &pass->view.rows, i), c = gy_glm_c(nw->problem, &pass->view.rows, i, y);
        const double z = nw_score(nw, &pass->view.rows, i, pass->w);
        dual[pass->view.base + i] = (float)gy_glm_dual_at(nw->loss, (double)y, z, (double)c);
    }
}

GY_INT int gy_nw_dual(struct gy_nw *nw, const float *w, struct gy_error *err)
{
    struct nw_pass pass = { .nw = nw, .w = w };
    return nw->run->dual ? nw_walk(&pass, nw_dual_tile, err) : GY_OK;
}

/* ---- opening ---- */

static int nw_list_views(struct gy_nw *nw, struct gy_error *err)
{
    struct gy_glm_feed *const feed = nw->run->feed;
    const size_t room = (size_t)(feed->views > 0 ? feed->views : 1);
    struct gy_rows rows;
    nw->views = gy_arena_take(&nw->arena, room, sizeof *nw->views);
    if (!nw->views)
        return GY_NOMEM(err, "the list of views", room * sizeof *nw->views);
    int64_t count = 0;
    for (;;) {
        GY_TRY(feed->next(feed->self, &rows, err));
        if (rows.count == 0)
            break;
        if ((size_t)nw->view_count == room)
            return GY_FAIL(err, GY_E_MISMATCH, "the feed has more views than the %d that it announced", feed->views);
        nw->views[nw->view_count++] = rows;
        count += rows.count;
    }
    return count == nw->rows ? GY_OK : GY_FAIL(err, GY_E_MISMATCH, "the feed has %" PRId64 " rows instead of %" PRId64, count, nw->rows);
}

static int nw_take(struct gy_nw *nw, int columns, struct gy_error *err)
{
    const size_t rows = (size_t)nw->rows, slots = (size_t)nw->slots;
    const int ranks = nw->run->job && nw->run->job->ranks > 1;
    size_t most;
    if (gy_mul_size(nw->stride, slots, &most) != 0)
        return GY_NOMEM(err, "sums of features", SIZE_MAX);
    nw->sums = gy_arena_take(&nw->arena, slots, sizeof *nw->sums);
    nw->curve = gy_arena_take(&nw->arena, rows + 8, sizeof *nw->curve);
    if (columns) {
        nw->pull = gy_arena_take(&nw->arena, rows, sizeof *nw->pull);
        nw->product = gy_arena_take(&nw->arena, rows, sizeof *nw->product);
    } else {
        nw->slot = gy_arena_take(&nw->arena, most, sizeof *nw->slot);
    }
    nw->wire_room = !ranks ? 0 : nw->dims > NW_WIRE_LEAST ? nw->dims : NW_WIRE_LEAST;
    nw->wire = ranks ? gy_arena_take(&nw->arena, 2 * nw->wire_room, sizeof *nw->wire) : NULL;
    if (!nw->sums || !nw->curve || (ranks && !nw->wire) || (columns ? !nw->pull || !nw->product : !nw->slot))
        return GY_NOMEM(err, "sums of rows and features", most * sizeof *nw->slot + 3 * rows * sizeof *nw->curve);
    return columns ? gy_nw_columns_open(nw, err) : GY_OK;
}

static int nw_slots(size_t dims) { return dims <= 1 << 16 ? GY_NW_SLOTS : dims <= 1 << 20 ? 8 : 4; }

GY_INT int gy_nw_open(struct gy_nw *nw, struct gy_glm_run *run, int with_columns, int with_diagonal, struct gy_error *err)
{
    const struct gy_glm_feed *const feed = run->feed;
    memset(nw, 0, sizeof *nw);
    nw->began = gy_clock_ns();
    nw->run = run;
    nw->problem = run->problem;
    nw->loss = gy_glm_loss_of(run->problem);
    nw->features = feed->features;
    nw->dims = nw->features + (run->problem->bias != 0);
    nw->stride = nw->dims * (with_diagonal ? 2 : 1);
    nw->rows = feed->rows;
    nw->step = 1;
    nw->threads = gy_pool_threads(run->pool);
    nw->cpu = gy_cpu_bits();
    const int columns = with_columns && feed->resident && feed->rows <= (int64_t)UINT32_MAX;
    nw->slots = columns ? GY_NW_SLOTS : nw_slots(nw->dims);
    gy_arena_open_hook(&nw->arena, run->alloc);
    int status = feed->resident ? nw_list_views(nw, err) : GY_OK;
    if (status == GY_OK)
        status = nw_take(nw, columns, err);
    if (status != GY_OK)
        gy_nw_close(nw);
    return status;
}

GY_INT void gy_nw_close(struct gy_nw *nw)
{
    gy_nw_columns_close(nw);
    gy_arena_close(&nw->arena);
}
