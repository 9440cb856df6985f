/* SPDX-License-Identifier: MIT */
/* A resident feed's rows by columns; newton_pass.c opens and closes them. The rows are cut into
 * tiles. Each counts its entries of every column, the counts become places, and each tile writes
 * its entries there: rows rise within a column, whatever the number of threads. */
#include "engine/glm/solve/newton_state.h"

struct nw_turn {
    struct gy_nw *nw;
    struct gy_nw_columns *columns;
    struct gy_large memory; /* of count */
    /* [parts][features]: entries of the tile in a column; later the column's entries before them */
    uint32_t *count;
    int parts;
    int filling;
};

/* Rows [from, to) of a view whose first row is number `base`: their entries are counted, or, when
 * filling, written to their places. */
static void nw_turn_rows(const struct nw_turn *turn, const struct gy_rows *rows, int32_t from, int32_t to, int64_t base, uint32_t *count)
{
    const struct gy_nw_columns *const columns = turn->columns;
    for (int32_t i = from; i < to; i++) {
        const uint32_t end = gy_rows_end(rows, i);
        const float scale = rows->scale ? rows->scale[i] : 1.0f;
        for (uint32_t k = gy_rows_begin(rows, i); k < end; k++) {
            const uint32_t j = rows->id[k], before = count[j]++;
            if (!turn->filling)
                continue;
            const int64_t place = columns->start[j] + before;
            columns->row[place] = (uint32_t)(base + i);
            if (columns->value)
                columns->value[place] = (rows->value ? rows->value[k] : rows->same) * scale;
        }
    }
}

static void nw_turn_tile(void *job, int64_t tile, int thread)
{
    const struct nw_turn *const turn = job;
    const struct gy_nw *const nw = turn->nw;
    const int64_t from = tile * nw->rows / turn->parts, to = (tile + 1) * nw->rows / turn->parts;
    uint32_t *const count = turn->count + (size_t)tile * nw->features;
    int64_t base = 0;
    (void)thread;
    if (!turn->filling)
        memset(count, 0, nw->features * sizeof *count);
    for (int v = 0; v < nw->view_count; base += nw->views[v].count, v++) {
        const int64_t low = gy_max64(from - base, 0), high = gy_min64(to - base, nw->views[v].count);
        if (low < high)
            nw_turn_rows(turn, &nw->views[v], (int32_t)low, (int32_t)high, base, count);
    }
}

/* Counts become places. */
static int nw_turn_places(struct nw_turn *turn)
{
    const struct gy_nw *const nw = turn->nw;
    int64_t at = 0;
    for (size_t j = 0; j < nw->features; j++) {
        int64_t within = 0;
        turn->columns->start[j] = at;
        for (int s = 0; s < turn->parts; s++) {
            uint32_t *const count = turn->count + (size_t)s * nw->features + j;
            const uint32_t here = *count;
            *count = (uint32_t)within;
            within += here;
        }
        at += within;
    }
    turn->columns->start[nw->features] = at;
    return at == nw->run->feed->entries;
}

/* Values must be written down unless all entries have the same. */
static int nw_turn_values(const struct gy_nw *nw)
{
    for (int v = 0; v < nw->view_count; v++)
        if (nw->views[v].value || nw->views[v].scale || nw->views[v].same != nw->views[0].same)
            return 1;
    return 0;
}

static int nw_turn_fill(struct nw_turn *turn, struct gy_error *err)
{
    struct gy_nw *const nw = turn->nw;
    struct gy_nw_columns *const columns = turn->columns;
    gy_pool_run(nw->run->pool, nw_turn_tile, turn, turn->parts);
    if (!nw_turn_places(turn))
        return GY_FAIL(err, GY_E_MISMATCH, "the rows have %" PRId64 " entries instead of %" PRId64, columns->start[nw->features], nw->run->feed->entries);
    turn->filling = 1;
    gy_pool_run(nw->run->pool, nw_turn_tile, turn, turn->parts);
    return GY_OK;
}

/* Memory that is written as a whole, so not cleared. */
static void *nw_turn_take(const struct gy_nw *nw, struct gy_large *memory, size_t count)
{
    size_t bytes;
    return gy_mul_size(count > 0 ? count : 1, sizeof(uint32_t), &bytes) == 0 && gy_large_take(memory, nw->run->alloc, bytes) == 0 ? memory->bytes : NULL;
}

static int nw_turn_run(struct gy_nw *nw, struct gy_nw_columns *columns, int values, struct gy_error *err)
{
    const size_t entries = columns->entries, features = nw->features;
    struct nw_turn turn = { .nw = nw, .columns = columns, .parts = entries >= 64 * features ? 16 : entries >= 16 * features ? 8 : 4 };
    const size_t counts = (size_t)turn.parts * features;
    turn.count = nw_turn_take(nw, &turn.memory, counts);
    int status = GY_OK;
    if (!columns->start || !columns->row || (values && !columns->value) || !turn.count)
        status = GY_NOMEM(err, "the rows by columns", entries * (values ? 8 : 4) + counts * sizeof(uint32_t));
    if (status == GY_OK)
        status = nw_turn_fill(&turn, err);
    gy_large_drop(&turn.memory, nw->run->alloc);
    return status;
}

GY_INT int gy_nw_columns_open(struct gy_nw *nw, struct gy_error *err)
{
    const int values = nw_turn_values(nw), room = gy_arena_reserve(&nw->arena, (nw->features + 2) * sizeof(int64_t) + sizeof *nw->columns);
    struct gy_nw_columns *const columns = room == 0 ? gy_arena_take(&nw->arena, 1, sizeof *columns) : NULL;
    if (!columns)
        return GY_NOMEM(err, "columns", sizeof *columns);
    nw->columns = columns;
    columns->entries = (size_t)nw->run->feed->entries;
    columns->same = nw->view_count ? nw->views[0].same : 1.0f;
    columns->start = gy_arena_take(&nw->arena, nw->features + 1, sizeof *columns->start);
    columns->row = nw_turn_take(nw, &columns->row_memory, columns->entries);
    columns->value = values ? nw_turn_take(nw, &columns->value_memory, columns->entries) : NULL;
    return nw_turn_run(nw, columns, values, err);
}

GY_INT void gy_nw_columns_close(struct gy_nw *nw)
{
    if (!nw->columns)
        return;
    gy_large_drop(&nw->columns->row_memory, nw->run->alloc);
    gy_large_drop(&nw->columns->value_memory, nw->run->alloc);
}
