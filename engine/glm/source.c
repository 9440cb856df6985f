/* SPDX-License-Identifier: MIT */
/* Rows for a model, wherever they are. A block file is read a block at a time. Text and the
 * caller's arrays become blocks in memory first. io/rows/ turns text into blocks, so a new text
 * format belongs there. glm_train*.c, glm_api.c, claim.c and tools/lab/glm_inspect.c call it.
 * Scores are made in slices whose size does not depend on the number of threads. */
#include "io/rows/blocks_write.h"
#include "io/rows/convert.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/rng.h"
#include "engine/base/public.h"
#include "engine/glm/glm_model.h"

#define SOURCE_ROWS 65536
#define SOURCE_TILE 1024    /* rows that a thread scores at a time */
#define SOURCE_SCORES 262144 /* most scores of a slice, unless one row has more */
#define SOURCE_STREAM_FOLD 0x676c6d66u

GY_INT int gy_glm_is_blocks(const char *path)
{
    return gy_file_begins(path, "\x89GYB", 4);
}

/* ---- the caller's arrays ---- */

/* Packs the rows as one block and gives it to the writer. *packed is used again for the next. */
static int source_pack(struct gy_blocks_writer *writer, struct gy_blocks_packed **packed, const struct gy_rows *rows, const struct gy_alloc *alloc,
                       struct gy_error *err)
{
    GY_TRY(gy_blocks_pack(packed, rows, 1, alloc, err));
    return gy_blocks_put(writer, *packed, err);
}

/* Checks rows [first, first + count) of the arrays, and makes them a view. start: scratch for their
 * offsets, [SOURCE_ROWS + 1]. */
static int source_array_rows(const struct gyre_glm_data *d, int64_t first, int64_t count, uint32_t *start, struct gy_rows *rows, struct gy_error *err)
{
    for (int64_t i = 0; i <= count; i++) {
        const int64_t at = d->start[first + i] - d->start[first];
        if (at < 0 || at > (1 << 30) || (i && at < (int64_t)start[i - 1]))
            return GY_FAIL(err, GY_E_ARG, "data.start[%" PRId64 "] is %" PRId64 "; offsets must rise, by at most 2^30 in %d rows", first + i,
                           d->start[first + i], SOURCE_ROWS);
        start[i] = (uint32_t)at;
    }
    for (int64_t i = 0; d->weight && i < count; i++)
        if (!(d->weight[first + i] >= 0 && d->weight[first + i] < 1e30f))
            return GY_FAIL(err, GY_E_ARG, "data.weight[%" PRId64 "] is %g; rows weigh 0 or more, and less than 1e30", first + i,
                           (double)d->weight[first + i]);
    *rows = (struct gy_rows){ .first = first, .count = (int32_t)count, .start = start, .id = d->id + d->start[first],
                              .value = d->value ? d->value + d->start[first] : NULL, .same = 1, .label = d->label + first,
                              .weight = d->weight ? d->weight + first : NULL };
    return GY_OK;
}

static int source_fill_arrays(struct gy_blocks_writer *writer, const struct gyre_glm_data *d, uint32_t *start, const struct gy_alloc *alloc,
                              struct gy_error *err)
{
    struct gy_blocks_packed *packed = NULL;
    struct gy_rows rows;
    int status = GY_OK;
    for (int64_t first = 0; first < d->rows && status == GY_OK; first += SOURCE_ROWS) {
        status = source_array_rows(d, first, gy_min64(SOURCE_ROWS, d->rows - first), start, &rows, err);
        if (status == GY_OK)
            status = source_pack(writer, &packed, &rows, alloc, err);
    }
    gy_blocks_drop(packed, alloc);
    return status;
}

static int source_arrays(struct gy_blocks **out, const struct gyre_glm_data *d, const struct gy_alloc *alloc, struct gy_error *err)
{
    const struct gy_blocks_write config = { .features = d->features, .alloc = alloc };
    struct gy_blocks_writer *writer;
    if (d->rows < 1 || !d->start || !d->id || !d->label || d->start[0] != 0)
        return GY_FAIL(err, GY_E_ARG, "data: files, or rows (%" PRId64 ") with start (from 0), id and label are needed", d->rows);
    uint32_t *start = gy_alloc_take(alloc, SOURCE_ROWS + 1, sizeof *start);
    if (!start)
        return GY_NOMEM(err, "offsets of rows", (SOURCE_ROWS + 1) * sizeof *start);
    int status = gy_blocks_create(&writer, &config, err);
    if (status == GY_OK) {
        status = source_fill_arrays(writer, d, start, alloc, err);
        if (status == GY_OK)
            status = gy_blocks_finish(writer, out, err);
        else
            gy_blocks_abandon(writer);
    }
    gy_alloc_free(alloc, start, (SOURCE_ROWS + 1) * sizeof *start);
    return status;
}

/* ---- text ---- */

static void source_log_mends(const struct gyre_glm_data *d, const struct gy_convert_report *report)
{
    const struct gy_log log = gy_log_of(&d->log);
    for (int i = 0; i < report->mends; i++)
        gy_log_write(&log, GY_LOG_WARN, "%.300s: %s: %" PRId64 " times, first in line %" PRId64, d->files[report->mend[i].file], report->mend[i].what,
                     report->mend[i].count, report->mend[i].line);
}

static int source_text(struct gy_blocks **out, const struct gyre_glm_data *d, const struct gyre_glm_info *hash, uint32_t most,
                       struct gy_pool *pool, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_convert_config config = { .from = d->files, .files = d->file_count, .format = d->format, .lenient = d->lenient, .zero_based = d->zero_based,
                                        .features = d->features, .features_most = most, .hash_bits = d->hash_bits, .hash_seed = d->hash_seed,
                                        .label_column = d->label_column, .header = d->header, .pool = pool };
    struct gy_convert_report report = { 0 };
    if (hash) {
        config.hash_bits = hash->hash_bits;
        config.hash_seed = hash->hash_seed;
    }
    GY_TRY(gy_convert_to_memory(out, &config, alloc, &report, err));
    source_log_mends(d, &report);
    return GY_OK;
}

/* ---- opening ---- */

static int source_blocks(struct gy_glm_source *s, const struct gyre_glm_data *d, const struct gyre_glm_info *hash, uint32_t most,
                         struct gy_pool *pool, struct gy_error *err)
{
    s->in_memory = 1;
    if (!d->files)
        return source_arrays(&s->blocks, d, &s->alloc, err);
    for (int i = 0; i < d->file_count; i++)
        if (gy_glm_is_blocks(d->files[i])) {
            s->in_memory = 0;
            if (d->file_count > 1)
                return GY_FAIL(err, GY_E_ARG, "%.300s is a block file, one of %d files; either one block file is read, or any number of texts",
                               d->files[i], d->file_count);
            return gy_blocks_open(&s->blocks, d->files[0], &s->alloc, err);
        }
    return source_text(&s->blocks, d, hash, most, pool, &s->alloc, err);
}

static int source_check_hash(const struct gy_glm_source *s, const struct gyre_glm_info *hash, struct gy_error *err)
{
    if (s->info.hash_bits == hash->hash_bits && (!hash->hash_bits || s->info.hash_seed == hash->hash_seed))
        return GY_OK;
    return GY_FAIL(err, GY_E_MISMATCH, "%.300s has ids hashed to %d bits with seed %" PRIu64 "; the model has %d bits and seed %" PRIu64
                   " (0 bits: not hashed)", s->name, s->info.hash_bits, s->info.hash_seed, hash->hash_bits, hash->hash_seed);
}

static int source_ready(struct gy_glm_source *s, struct gy_error *err)
{
    gy_blocks_get_info(s->blocks, &s->info);
    if (s->info.rows == 0)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s has no rows", s->name);
    return GY_OK;
}

static struct gy_glm_source *source_take(const char *name, const struct gy_alloc *alloc)
{
    struct gy_glm_source *s = gy_alloc_take(alloc, 1, sizeof *s);
    if (s) {
        s->alloc = *alloc;
        snprintf(s->name, sizeof s->name, "%s", name);
    }
    return s;
}

GY_INT int gy_glm_source_open(struct gy_glm_source **out, const struct gyre_glm_data *data, const struct gyre_glm_info *hash, uint32_t most,
                              struct gy_pool *pool, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_pool *own = NULL;
    struct gy_glm_source *s = source_take(data->files && data->file_count > 0 ? data->files[0] : "data", alloc);
    if (!s)
        return GY_NOMEM(err, "a source of rows", sizeof *s);
    int status = data->files && data->file_count < 1 ? GY_FAIL(err, GY_E_ARG, "data.file_count is %d with files", data->file_count) : GY_OK;
    if (status == GY_OK && !pool)
        status = gy_pool_open(&own, alloc, 1, err);
    if (status == GY_OK)
        status = source_blocks(s, data, hash, most, pool ? pool : own, err);
    if (status == GY_OK)
        status = source_ready(s, err);
    if (status == GY_OK && hash)
        status = source_check_hash(s, hash, err);
    gy_pool_close(own);
    if (status != GY_OK)
        gy_glm_source_close(s);
    else
        *out = s;
    return status;
}

GY_INT void gy_glm_source_close(struct gy_glm_source *s)
{
    if (!s)
        return;
    const struct gy_alloc alloc = s->alloc;
    gy_blocks_close(s->blocks);
    if (s->room.memory)
        gy_alloc_free(&alloc, s->room.memory, s->room.bytes + GY_CACHE_LINE);
    gy_alloc_free(&alloc, s, sizeof *s);
}

/* Takes room for the largest block. The one that next handed out lies there. */
static int source_block_room(struct gy_glm_source *s, struct gy_error *err)
{
    s->room.bytes = gy_blocks_room_bytes(s->blocks, -1);
    s->room.memory = s->alloc.fn(s->alloc.user, NULL, 0, s->room.bytes + GY_CACHE_LINE);
    return s->room.memory ? GY_OK : GY_NOMEM(err, "a block of rows", s->room.bytes);
}

GY_INT int gy_glm_source_next(struct gy_glm_source *s, struct gy_rows *rows, struct gy_error *err)
{
    if (s->at == s->info.blocks) {
        s->at = 0;
        *rows = (struct gy_rows){ .count = 0 };
        return GY_OK;
    }
    if (!s->room.memory)
        GY_TRY(source_block_room(s, err));
    gy_blocks_ahead(s->blocks, s->at + 1 < s->info.blocks ? s->at + 1 : -1);
    GY_TRY(gy_blocks_read(s->blocks, s->at, &s->room, rows, err));
    s->at++;
    return GY_OK;
}

/* ---- folds ---- */

/* The rows of one block that belong to a fold, in arrays that hold the largest block. */
struct source_picked {
    uint32_t *start, *id;
    float *value, *label, *weight;
    int32_t rows;
    int64_t entries;
};

static int source_belongs(const struct gy_glm_source *from, const struct gy_glm_fold *f, int64_t row)
{
    const int64_t place = gy_rng_permute(f->seed, SOURCE_STREAM_FOLD, 0, from->info.rows, row);
    return (place % f->folds == f->number) != f->others;
}

static void source_pick_row(struct source_picked *p, const struct gy_rows *rows, int32_t i)
{
    const uint32_t begin = gy_rows_begin(rows, i), end = gy_rows_end(rows, i);
    for (uint32_t k = begin; k < end; k++) {
        p->id[p->entries] = rows->id[k];
        p->value[p->entries++] = rows->value ? rows->value[k] : rows->same;
    }
    p->label[p->rows] = rows->label[i];
    p->weight[p->rows] = rows->weight ? rows->weight[i] : 1;
    p->start[++p->rows] = (uint32_t)p->entries;
}

static int source_pick(struct source_picked *p, struct gy_glm_source *from, const struct gy_glm_fold *f, struct gy_blocks_writer *writer, struct gy_error *err)
{
    struct gy_blocks_packed *packed = NULL;
    struct gy_rows rows;
    int status;
    from->at = 0;
    while ((status = gy_glm_source_next(from, &rows, err)) == GY_OK && rows.count) {
        p->rows = 0;
        p->entries = 0;
        for (int32_t i = 0; i < rows.count; i++)
            if (source_belongs(from, f, rows.first + i))
                source_pick_row(p, &rows, i);
        const struct gy_rows mine = { .count = p->rows, .start = p->start, .id = p->id, .value = p->value, .label = p->label, .weight = p->weight };
        if (p->rows && (status = source_pack(writer, &packed, &mine, &from->alloc, err)) != GY_OK)
            break;
    }
    gy_blocks_drop(packed, &from->alloc);
    return status;
}

static int source_fold_blocks(struct gy_glm_source *s, struct gy_glm_source *from, const struct gy_glm_fold *f, struct gy_error *err)
{
    const struct gy_blocks_write config = { .features = from->info.features, .alloc = &s->alloc, .hash_bits = from->info.hash_bits,
                                            .hash_seed = from->info.hash_seed };
    const size_t rows = (size_t)from->info.most_rows, entries = (size_t)from->info.most_entries, bytes = (rows + 1) * 12 + (entries + 1) * 8;
    struct gy_blocks_writer *writer;
    unsigned char *memory = gy_alloc_take(&s->alloc, bytes, 1);
    if (!memory)
        return GY_NOMEM(err, "rows of a fold", bytes);
    struct source_picked p = { .start = (uint32_t *)(void *)memory };
    p.label = (float *)(void *)(p.start + rows + 1);
    p.weight = p.label + rows + 1;
    p.value = p.weight + rows + 1;
    p.id = (uint32_t *)(void *)(p.value + entries + 1);
    int status = gy_blocks_create(&writer, &config, err);
    if (status == GY_OK) {
        status = source_pick(&p, from, f, writer, err);
        if (status == GY_OK)
            status = gy_blocks_finish(writer, &s->blocks, err);
        else
            gy_blocks_abandon(writer);
    }
    gy_alloc_free(&s->alloc, memory, bytes);
    return status;
}

GY_INT int gy_glm_source_fold(struct gy_glm_source **out, struct gy_glm_source *from, const struct gy_glm_fold *fold, const struct gy_alloc *alloc,
                              struct gy_error *err)
{
    struct gy_glm_source *s = source_take(from->name, alloc);
    if (!s)
        return GY_NOMEM(err, "a source of rows", sizeof *s);
    s->in_memory = 1;
    int status = source_fold_blocks(s, from, fold, err);
    if (status == GY_OK)
        status = source_ready(s, err);
    if (status != GY_OK)
        gy_glm_source_close(s);
    else
        *out = s;
    return status;
}

/* ---- scores ---- */

struct source_job {
    const struct gy_glm_scorer *scorer;
    const struct gy_rows *rows;
    int32_t from, count;
    float *score;
};

static void source_score_tile(void *user, int64_t tile, int thread)
{
    const struct source_job *j = user;
    const int32_t at = (int32_t)tile * SOURCE_TILE;
    (void)thread;
    gy_glm_score(j->scorer, j->rows, j->from + at, (int32_t)gy_min64(SOURCE_TILE, j->count - at), j->score + (int64_t)at * j->scorer->models);
}

static int source_score_rows(struct source_job *j, int32_t most, struct gy_pool *pool,
                             int (*take)(void *user, const struct gy_glm_slice *slice, struct gy_error *err), void *user, struct gy_error *err)
{
    for (j->from = 0; j->from < j->rows->count; j->from += most) {
        j->count = (int32_t)gy_min64(most, j->rows->count - j->from);
        gy_pool_run(pool, source_score_tile, j, gy_ceil_div(j->count, SOURCE_TILE));
        const struct gy_glm_slice slice = { .rows = j->rows, .from = j->from, .count = j->count, .score = j->score };
        GY_TRY(take(user, &slice, err));
    }
    return GY_OK;
}

GY_INT int gy_glm_source_score(struct gy_glm_source *s, const struct gy_glm_scorer *scorer, struct gy_pool *pool,
                               int (*take)(void *user, const struct gy_glm_slice *slice, struct gy_error *err), void *user, struct gy_error *err)
{
    const int32_t most = (int32_t)gy_max64(1, SOURCE_SCORES / scorer->models);
    const size_t count = (size_t)gy_min64(most, s->info.most_rows) * (size_t)scorer->models;
    float *score = gy_alloc_take(&s->alloc, count, sizeof *score);
    struct gy_rows rows;
    int status;
    if (!score)
        return GY_NOMEM(err, "scores of rows", count * sizeof *score);
    s->at = 0;
    while ((status = gy_glm_source_next(s, &rows, err)) == GY_OK && rows.count) {
        struct source_job job = { .scorer = scorer, .rows = &rows, .score = score };
        if ((status = source_score_rows(&job, most, pool, take, user, err)) != GY_OK)
            break;
    }
    gy_alloc_free(&s->alloc, score, count * sizeof *score);
    return status;
}
