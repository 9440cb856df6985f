/* SPDX-License-Identifier: MIT */
/* X'DX among a set of features, as a triangle, made row of data by row of data, for newton.c,
 * newton_hinge.c and l1.c. A row with m entries in the set adds m (m + 1) / 2 products. Short rows
 * make it cheap, rows of ones cheapest. A thread adds in float, in a block that stays in its cache.
 * It empties it into the tile's total in double before rounding piles up. With nw->exact products
 * and sums are doubles, and there is no block. */
#include "engine/glm/solve/newton_state.h"
#include "engine/job/peers.h"

#define NW_EMPTY_ROWS 16384 /* rows between two emptyings */
#define NW_MATRIX_CHUNK 16384
#define NW_LEAST_SLOTS 4
#define NW_FILLED 64.0

struct nw_matrix {
    struct gy_nw_view view;
    struct gy_nw *nw;
    const int32_t *map;
    size_t count, room; /* room: numbers of the triangle */
    double *out;
    int slots;
};

/* Entries of one row within the set. value NULL: all are one, times `times`. */
struct nw_entries {
    const uint32_t *id;
    const float *value;
    uint32_t count;
    double times;
};

static struct nw_entries nw_entries_of(const struct nw_matrix *matrix, int32_t i, int thread)
{
    const struct gy_rows *const rows = &matrix->view.rows;
    const uint32_t from = gy_rows_begin(rows, i), end = gy_rows_end(rows, i);
    const double scale = rows->scale ? (double)rows->scale[i] : 1.0;
    struct nw_entries entries = { rows->id + from, rows->value ? rows->value + from : NULL, end - from, rows->value ? scale : scale * (double)rows->same };
    if (!matrix->map)
        return entries;
    float *const values = matrix->nw->filtered + (size_t)thread * 2 * matrix->nw->dims;
    uint32_t *const ids = (uint32_t *)(void *)(values + matrix->nw->dims);
    uint32_t n = 0;
    for (uint32_t k = from; k < end; k++) {
        const int32_t place = matrix->map[rows->id[k]];
        if (place < 0)
            continue;
        ids[n] = (uint32_t)place;
        if (rows->value)
            values[n] = rows->value[k];
        n++;
    }
    entries.id = ids;
    entries.value = rows->value ? values : NULL;
    entries.count = n;
    return entries;
}

/* The products of a row of ones. */
static void nw_add_ones(const struct nw_entries *entries, float h, float *block, size_t count)
{
    const uint32_t *const id = entries->id, n = entries->count;
    for (uint32_t a = 0; a < n; a++) {
        float *const row = block + gy_nw_row_at(id[a], count);
        uint32_t b = a;
        for (; b + 4 <= n; b += 4) {
            row[id[b]] += h;
            row[id[b + 1]] += h;
            row[id[b + 2]] += h;
            row[id[b + 3]] += h;
        }
        for (; b < n; b++)
            row[id[b]] += h;
    }
}

static void nw_add_values(const struct nw_entries *entries, float h, float *block, size_t count)
{
    const uint32_t *const id = entries->id, n = entries->count;
    const float *const value = entries->value;
    const int dense = n > 0 && id[n - 1] - id[0] == n - 1; /* no gaps */
    for (uint32_t a = 0; a < n; a++) {
        float *const row = block + gy_nw_row_at(id[a], count);
        const float t = h * value[a];
        if (dense)
            for (uint32_t b = a; b < n; b++)
                (row + id[0])[b] += t * value[b];
        else
            for (uint32_t b = a; b < n; b++)
                row[id[b]] += t * value[b];
    }
}

/* A row's products, its bias among them, as doubles. */
static void nw_add_exactly(const struct nw_entries *entries, double h, double bias, double *total, size_t count)
{
    for (uint32_t a = 0; a < entries->count; a++) {
        double *const row = total + gy_nw_row_at(entries->id[a], count);
        const double t = h * entries->times * (entries->value ? (double)entries->value[a] : 1);
        for (uint32_t b = a; b < entries->count; b++)
            row[entries->id[b]] += t * entries->times * (entries->value ? (double)entries->value[b] : 1);
        if (bias != 0)
            row[count - 1] += t * bias;
    }
    if (bias != 0)
        total[gy_nw_row_at(count - 1, count) + count - 1] += h * bias * bias;
}

/* The bias is the set's last column. */
static void nw_add_bias(const struct nw_entries *entries, double h, double bias, float *block, size_t count)
{
    const float t = (float)(h * entries->times * bias);
    for (uint32_t a = 0; a < entries->count; a++)
        block[gy_nw_row_at(entries->id[a], count) + count - 1] += entries->value ? t * entries->value[a] : t;
    block[gy_nw_row_at(count - 1, count) + count - 1] += (float)(h * bias * bias);
}

static void nw_empty(float *block, double *total, size_t room)
{
    for (size_t k = 0; k < room; k++)
        total[k] += (double)block[k];
    memset(block, 0, room * sizeof *block);
}

static void nw_matrix_tile(void *job, int64_t tile, int thread)
{
    const struct nw_matrix *const matrix = job;
    const struct gy_nw *const nw = matrix->nw;
    const double bias = nw->dims > nw->features && (!matrix->map || matrix->map[nw->features] >= 0) ? nw->problem->bias : 0;
    float *const block = nw->block + (size_t)thread * matrix->room;
    double *const total = nw->total + (size_t)tile * matrix->room;
    int32_t from, to;
    int since = 0;
    gy_nw_range(&matrix->view, tile, matrix->slots, &from, &to);
    for (int64_t i = gy_ceil_div(matrix->view.base + from, nw->step) * nw->step - matrix->view.base; i < to; i += nw->step) {
        const double h = (double)nw->curve[matrix->view.base + i];
        if (h == 0)
            continue;
        const struct nw_entries entries = nw_entries_of(matrix, (int32_t)i, thread);
        if (nw->exact) {
            nw_add_exactly(&entries, h, bias, total, matrix->count);
            continue;
        }
        (entries.value ? nw_add_values : nw_add_ones)(&entries, (float)(h * entries.times * entries.times), block, matrix->count);
        if (bias != 0)
            nw_add_bias(&entries, h, bias, block, matrix->count);
        if (++since == NW_EMPTY_ROWS) {
            nw_empty(block, total, matrix->room);
            since = 0;
        }
    }
    nw_empty(block, total, matrix->room);
}

static void nw_matrix_reduce(void *job, int64_t tile, int thread)
{
    const struct nw_matrix *const matrix = job;
    const size_t from = (size_t)tile * NW_MATRIX_CHUNK, left = matrix->room - from, length = left < NW_MATRIX_CHUNK ? left : NW_MATRIX_CHUNK;
    (void)thread;
    memset(matrix->out + from, 0, length * sizeof *matrix->out);
    for (int s = 0; s < matrix->slots; s++) {
        double *const total = matrix->nw->total + (size_t)s * matrix->room + from;
        gy_nw_add(matrix->out + from, 1.0, total, length);
        memset(total, 0, length * sizeof *total);
    }
}

static int nw_matrix_slots(size_t room) { return room <= 1 << 16 ? GY_NW_SLOTS : room <= 1 << 20 ? 8 : 4; }

/* The number of slots; fewer where they would be emptied too often. NW_FILLED products of rows with
 * a curvature are worth one number of a slot. */
static int nw_matrix_filled(const struct gy_nw *nw, double rows, size_t room)
{
    const double per = (double)nw->run->feed->entries / (double)(nw->rows > 0 ? nw->rows : 1), filled = 0.5 * rows * per * per / (NW_FILLED * (double)room);
    const int most = nw_matrix_slots(room);
    return filled > most ? most : filled > NW_LEAST_SLOTS ? (int)filled : NW_LEAST_SLOTS;
}

/* Numbers that hold the totals of any triangle up to room. */
static size_t nw_matrix_totals(size_t room)
{
    if (room <= 1 << 16)
        return GY_NW_SLOTS * room;
    const size_t whole = (size_t)nw_matrix_slots(room) * room, least = room <= 1 << 20 ? (size_t)GY_NW_SLOTS << 16 : (size_t)8 << 20;
    return whole > least ? whole : least;
}

/* Takes memory for triangles of `room` numbers, at least doubled each time. */
static int nw_matrix_room(struct gy_nw *nw, size_t room, int with_map, struct gy_error *err)
{
    const size_t threads = (size_t)nw->threads;
    if (with_map && !nw->filtered) {
        nw->filtered = gy_arena_take(&nw->arena, threads * 2 * nw->dims, sizeof *nw->filtered);
        if (!nw->filtered)
            return GY_NOMEM(err, "entries of a row", threads * 2 * nw->dims * sizeof *nw->filtered);
    }
    if (room <= nw->block_room)
        return GY_OK;
    room = room > 2 * nw->block_room ? room : 2 * nw->block_room;
    nw->block = gy_arena_take(&nw->arena, threads * room, sizeof *nw->block);
    nw->total_room = with_map ? nw_matrix_totals(room) : (size_t)nw_matrix_filled(nw, (double)nw->rows, room) * room;
    nw->total = gy_arena_take(&nw->arena, nw->total_room, sizeof *nw->total);
    nw->block_room = nw->block && nw->total ? room : 0;
    return nw->block_room ? GY_OK : GY_NOMEM(err, "the curvature of a set of features", (threads * sizeof *nw->block + 8 * sizeof *nw->total) * room);
}

static int nw_matrix_sum(struct gy_nw *nw, double *out, size_t room, struct gy_error *err)
{
    if (!nw->wire)
        return GY_OK;
    nw->rounds++;
    for (size_t at = 0; at < room; at += 2 * nw->wire_room) {
        const size_t count = room - at < 2 * nw->wire_room ? room - at : 2 * nw->wire_room;
        for (size_t k = 0; k < count; k++)
            nw->wire[k] = (float)out[at + k];
        GY_TRY(gy_peers_sum(nw->run->job, nw->wire, (int64_t)count, err));
        for (size_t k = 0; k < count; k++)
            out[at + k] = (double)nw->wire[k];
    }
    return GY_OK;
}

GY_INT int gy_nw_matrix(struct gy_nw *nw, const int32_t *map, size_t count, double *out, struct gy_error *err)
{
    struct nw_matrix matrix = { .nw = nw, .map = map, .count = count, .room = count * (count + 1) / 2, .out = out };
    if (count == 0) /* on all ranks */
        return GY_OK;
    GY_TRY(nw_matrix_room(nw, matrix.room, map != NULL, err));
    matrix.slots = map ? nw_matrix_slots(matrix.room) : nw_matrix_filled(nw, nw->curved > 0 ? nw->curved : (double)nw->rows / nw->step, matrix.room);
    if ((size_t)matrix.slots > nw->total_room / matrix.room)
        matrix.slots = (int)(nw->total_room / matrix.room);
    GY_TRY(gy_nw_walk(nw, nw_matrix_tile, &matrix.view, matrix.slots, err));
    gy_pool_run(nw->run->pool, nw_matrix_reduce, &matrix, gy_ceil_div((int64_t)matrix.room, NW_MATRIX_CHUNK));
    return (nw->exact ? gy_nw_sum : nw_matrix_sum)(nw, out, matrix.room, err);
}
