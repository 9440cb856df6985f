/* SPDX-License-Identifier: MIT */
/* The matrix of a set of features, from the rows by columns. Column j's rows, with their entries in
 * the set at j or after it, add up to row j of the matrix, which stays in the cache. A row is a
 * task of its own, so there is nothing to add up afterwards, and the bits do not depend on threads.
 * The entries of the rows that lie in the set are listed first, from their columns. */
#include "engine/glm/solve/l1_state.h"

#define LM_TILES 16

struct lm_job {
    const struct gy_nw *nw;
    const uint32_t *set;
    struct gy_l1_model *model;
    struct gy_l1_listed *listed;
};

/* ---- rows of the data, as far as they lie in the set ---- */

/* The first entry of column j at or after the row. */
static int64_t lm_from(const struct gy_nw_columns *columns, size_t j, int64_t row)
{
    int64_t low = columns->start[j], high = columns->start[j + 1];
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (columns->row[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void lm_list_tile(void *data, int64_t tile, int thread)
{
    const struct lm_job *const job = data;
    const struct gy_nw_columns *const columns = job->nw->columns;
    struct gy_l1_listed *const listed = job->listed;
    const int64_t from = tile * job->nw->rows / LM_TILES, to = (tile + 1) * job->nw->rows / LM_TILES;
    (void)thread;
    for (int64_t row = from; row < to; row++)
        listed->row[row].to = listed->row[row].from;
    for (size_t j = 0; j < job->model->count && job->set[j] < job->nw->features; j++)
        for (int64_t k = lm_from(columns, job->set[j], from); k < columns->start[job->set[j] + 1] && columns->row[k] < to; k++) {
            const uint32_t at = listed->row[columns->row[k]].to++;
            listed->place[at] = (uint16_t)j;
            if (listed->value)
                listed->value[at] = columns->value[k];
        }
}

static int lm_open(struct gy_nw *nw, struct gy_l1_listed *listed, struct gy_error *err)
{
    const size_t rows = (size_t)nw->rows, entries = nw->columns->entries;
    int64_t row = 0;
    uint32_t at = 0;
    if (gy_arena_reserve(&nw->arena, 8 * rows + (nw->columns->value ? 6 : 2) * entries) != 0)
        return GY_NOMEM(err, "the rows' entries in a set", 8 * rows + 6 * entries);
    listed->row = gy_arena_take(&nw->arena, rows, sizeof *listed->row);
    listed->place = gy_arena_take(&nw->arena, entries, sizeof *listed->place);
    listed->value = nw->columns->value ? gy_arena_take(&nw->arena, entries, sizeof *listed->value) : NULL;
    listed->sum = gy_arena_take(&nw->arena, (size_t)nw->threads * GY_L1_LISTED, sizeof *listed->sum);
    if (!listed->row || !listed->place || (nw->columns->value && !listed->value) || !listed->sum)
        return GY_NOMEM(err, "the rows' entries in a set", 8 * rows + 6 * entries);
    for (int v = 0; v < nw->view_count; v++)
        for (int32_t i = 0; i < nw->views[v].count; i++) {
            listed->row[row++].from = at;
            at += gy_rows_end(&nw->views[v], i) - gy_rows_begin(&nw->views[v], i);
        }
    return GY_OK;
}

/* ---- rows of the matrix ---- */

/* sum[k] for k >= j. */
static void lm_products(const struct lm_job *job, size_t j, double *sum)
{
    const struct gy_nw *const nw = job->nw;
    const struct gy_nw_columns *const columns = nw->columns;
    const struct gy_l1_listed *const listed = job->listed;
    const uint16_t *const place = listed->place;
    double pull = 0;
    for (int64_t k = columns->start[job->set[j]]; k < columns->start[job->set[j] + 1]; k++) {
        const uint32_t row = columns->row[k];
        const struct gy_l1_entries in = listed->row[row];
        const double h = (double)nw->curve[row] * (double)(columns->value ? columns->value[k] : columns->same);
        pull += h;
        if (listed->value)
            for (uint32_t p = in.to; p > in.from && place[p - 1] >= j; p--)
                sum[place[p - 1]] += h * (double)listed->value[p - 1];
        else
            for (uint32_t p = in.to; p > in.from && place[p - 1] >= j; p--)
                sum[place[p - 1]] += h;
    }
    for (size_t k = j; !listed->value && k < job->model->count; k++)
        sum[k] *= (double)columns->same;
    if (job->set[job->model->count - 1] == nw->features) /* the bias comes last */
        sum[job->model->count - 1] = pull * nw->problem->bias;
}

static void lm_row_tile(void *data, int64_t tile, int thread)
{
    const struct lm_job *const job = data;
    const struct gy_nw *const nw = job->nw;
    struct gy_l1_model *const model = job->model;
    double *const sum = job->listed->sum + (size_t)thread * GY_L1_LISTED;
    const size_t j = (size_t)tile;
    memset(sum + j, 0, (model->count - j) * sizeof *sum);
    if (job->set[j] < nw->features)
        lm_products(job, j, sum);
    else
        for (int64_t i = 0; i < nw->rows; i++)
            sum[j] += (double)nw->curve[i] * nw->problem->bias * nw->problem->bias;
    if (job->set[j] < nw->features || !nw->problem->bias_free)
        sum[j] += nw->problem->l2;
    for (size_t k = j; k < model->count; k++)
        model->matrix[j * model->stride + k] = model->matrix[k * model->stride + j] = (float)sum[k];
}

GY_INT int gy_l1_matrix(struct gy_nw *nw, const uint32_t *set, struct gy_l1_listed *listed, struct gy_l1_model *model, struct gy_error *err)
{
    struct lm_job job = { nw, set, model, listed };
    if (!listed->row)
        GY_TRY(lm_open(nw, listed, err));
    gy_pool_run(nw->run->pool, lm_list_tile, &job, LM_TILES);
    gy_pool_run(nw->run->pool, lm_row_tile, &job, (int64_t)model->count);
    return GY_OK;
}
