/* SPDX-License-Identifier: MIT */
/* Metadata says in words what a run was. So a file that does not belong to a run is refused with
 * the setting's name and both values. */
#include "engine/glm/glm_checkpoint.h"
#include "io/safetensors.h"
#include "engine/base/text.h"
#include "engine/job/peers.h"
#include "engine/glm/glm_stream.h"

#define GLMK_FORM "1"
#define GLMK_EPOCHS 1000000000 /* most of a run: what glm_train_check allows */
#define GLMK_PIECE 65536 /* numbers that are looked at at a time */

static int glmk_path(char own[4096], const char *path, int rank, struct gy_error *err)
{
    const int bytes = rank > 0 ? snprintf(own, 4096, "%s.%d", path, rank) : snprintf(own, 4096, "%s", path);
    return bytes < 0 || bytes >= 4096 ? GY_FAIL(err, GY_E_ARG, "the checkpoint's path is longer than 4080 bytes") : GY_OK;
}

/* A failure of one rank becomes one of all. Collective. */
static int glmk_together(struct gyre_job *job, int status, const char *path, struct gy_error *err)
{
    int failed = 0;
    GY_TRY(gy_peers_any(job, status != GY_OK, &failed, status == GY_OK ? err : NULL));
    if (failed && status == GY_OK)
        return GY_FAIL(err, GY_E_IO, "another rank could not use its part of the checkpoint %.300s", path);
    return status;
}

/* ---- writing ---- */

static int glmk_number(struct gy_st_writer *w, const char *key, uint64_t value, struct gy_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return gy_st_add_meta(w, key, text, err);
}

static int glmk_meta(const struct gy_glm_keep *k, int ranks, struct gy_st_writer *w, struct gy_error *err)
{
    GY_TRY(gy_st_add_meta(w, "glm.form", GLMK_FORM, err));
    GY_TRY(glmk_number(w, "glm.data", k->data, err));
    GY_TRY(glmk_number(w, "glm.seed", k->seed, err));
    GY_TRY(glmk_number(w, "glm.rows", (uint64_t)k->all_rows, err));
    GY_TRY(glmk_number(w, "glm.ranks", (uint64_t)ranks, err));
    GY_TRY(glmk_number(w, "glm.epoch", (uint64_t)k->epoch, err));
    for (int i = 0; i < k->fields; i++) {
        char key[80];
        snprintf(key, sizeof key, "set.%.70s", k->field[i].name);
        GY_TRY(gy_st_add_meta(w, key, k->field[i].value, err));
    }
    return GY_OK;
}

static int glmk_fill(const struct gy_glm_keep *k, int rank, int ranks, struct gy_st_writer *w, struct gy_error *err)
{
    GY_TRY(glmk_meta(k, ranks, w, err));
    if (rank == 0)
        GY_TRY(gy_st_declare(w, "w", GY_ST_F32, &k->width, 1, err));
    if (k->dual)
        GY_TRY(gy_st_declare(w, "dual", GY_ST_F32, &k->rows, 1, err));
    if (rank == 0)
        GY_TRY(gy_st_write_f32(w, k->w, k->width, err));
    return k->dual ? gy_st_write_f32(w, k->dual, k->rows, err) : GY_OK;
}

static int glmk_write(const struct gy_glm_keep *k, const char *path, int rank, int ranks, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_st_writer *w;
    char own[4096];
    GY_TRY(glmk_path(own, path, rank, err));
    GY_TRY(gy_st_create(&w, alloc, own, err));
    const int status = glmk_fill(k, rank, ranks, w, err);
    if (status == GY_OK)
        return gy_st_commit(w, err);
    gy_st_abandon(w);
    return status;
}

GY_INT int gy_glm_keep_write(const struct gy_glm_keep *keep, const char *path, struct gyre_job *job, const struct gy_alloc *alloc, struct gy_error *err)
{
    const int rank = gyre_job_rank(job), ranks = gyre_job_ranks(job);
    if (ranks > 1 && keep->dual) {
        const int status = rank > 0 ? glmk_write(keep, path, rank, ranks, alloc, err) : GY_OK;
        GY_TRY(glmk_together(job, status, path, err));
    }
    return glmk_together(job, rank == 0 ? glmk_write(keep, path, 0, ranks, alloc, err) : GY_OK, path, err);
}

/* ---- reading ---- */

static int glmk_get(const struct gy_st_file *file, const char *path, const char *key, uint64_t *value, struct gy_error *err)
{
    const char *const text = gy_st_meta(file, key);
    char *end = NULL;
    errno = 0;
    *value = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno != 0)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s: metadata '%s' is missing or not a number: not a checkpoint of a linear model", path, key);
    return GY_OK;
}

static int glmk_same(const struct gy_st_file *file, const char *path, const char *key, const char *what, uint64_t value, struct gy_error *err)
{
    uint64_t found;
    GY_TRY(glmk_get(file, path, key, &found, err));
    if (found != value)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s is of another run: %s was %" PRIu64 ", now it is %" PRIu64, path, what, found, value);
    return GY_OK;
}

static int glmk_belongs(const struct gy_glm_keep *k, const struct gy_st_file *file, const char *path, struct gy_error *err)
{
    const char *const form = gy_st_meta(file, "glm.form");
    if (!form || strcmp(form, GLMK_FORM) != 0)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s is not a checkpoint of a linear model that this version reads", path);
    GY_TRY(glmk_same(file, path, "glm.rows", "the number of rows", (uint64_t)k->all_rows, err));
    GY_TRY(glmk_same(file, path, "glm.data", "the data set's id", k->data, err));
    GY_TRY(glmk_same(file, path, "glm.seed", "the seed", k->seed, err));
    for (int i = 0; i < k->fields; i++) {
        char key[80];
        snprintf(key, sizeof key, "set.%.70s", k->field[i].name);
        const char *const was = gy_st_meta(file, key);
        if (!was || strcmp(was, k->field[i].value) != 0)
            return GY_FAIL(err, GY_E_MISMATCH, "%.300s is of another run: %.70s was %.60s, now it is %.60s", path, k->field[i].name, was ? was : "not set",
                           k->field[i].value);
    }
    return GY_OK;
}

/* Numbers [from, from + count) of a tensor of `all` numbers, all finite. */
static int glmk_take(const struct gy_st_file *file, const char *path, const char *name, int64_t all, int64_t from, int64_t count, float *to,
                     struct gy_error *err)
{
    const struct gy_st_tensor *const t = gy_st_find(file, name);
    if (!t || t->count != all || t->dims != 1)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s: tensor '%s' %s; it must have %" PRId64 " numbers", path, name, t ? "has another shape" : "is missing", all);
    for (int64_t done = 0; done < count; done += GLMK_PIECE) {
        const int64_t some = gy_min64(GLMK_PIECE, count - done);
        struct gy_error why = { 0 };
        const int status = gy_st_read_f32(t, from + done, some, to + done, &why);
        if (status != GY_OK)
            return GY_FAIL(err, status, "%.200s: %.240s", path, why.text);
        for (int64_t i = done; i < done + some; i++)
            if (!isfinite(to[i]))
                return GY_FAIL(err, GY_E_MISMATCH, "%.300s: tensor '%s' holds %g at element %" PRId64, path, name, (double)to[i], from + i);
    }
    return GY_OK;
}

/* Of the file that `rank` wrote: its epoch, what lies in it of this rank's rows, and rank 0's w. */
static int glmk_part(struct gy_glm_keep *k, const struct gy_st_file *file, const char *path, int rank, int ranks, struct gy_error *err)
{
    uint64_t epoch;
    int64_t first, end;
    GY_TRY(glmk_belongs(k, file, path, err));
    GY_TRY(glmk_get(file, path, "glm.epoch", &epoch, err));
    if (epoch > GLMK_EPOCHS)
        return GY_FAIL(err, GY_E_MISMATCH, "%.300s: the epoch %" PRIu64 " cannot be", path, epoch);
    if (rank == 0) {
        k->epoch = (int)epoch;
        GY_TRY(glmk_take(file, path, "w", k->width, 0, k->width, k->w, err));
    } else if ((int)epoch != k->epoch)
        k->exact = 0;
    gy_glm_deal(k->all_rows, rank, ranks, &first, &end);
    const int64_t from = gy_max64(first, k->first), to = gy_min64(end, k->first + k->rows);
    if (!k->dual)
        return GY_OK;
    return glmk_take(file, path, "dual", end - first, from < to ? from - first : 0, gy_max64(0, to - from), k->dual + gy_max64(0, from - k->first), err);
}

static int glmk_read_part(struct gy_glm_keep *k, const char *path, int rank, int *ranks, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_st_file *file = NULL;
    char own[4096];
    uint64_t count = 0;
    GY_TRY(glmk_path(own, path, rank, err));
    GY_TRY(gy_st_open(&file, alloc, own, err));
    int status = glmk_get(file, own, "glm.ranks", &count, err);
    if (status == GY_OK && (count < 1 || count > 1000000 || (rank > 0 && (int)count != *ranks)))
        status = GY_FAIL(err, GY_E_MISMATCH, "%.300s is of a run of %" PRIu64 " ranks; the first rank's file is of one of %d", own, count, *ranks);
    if (status == GY_OK) {
        *ranks = (int)count;
        status = glmk_part(k, file, own, rank, *ranks, err);
    }
    gy_st_close(file);
    return status;
}

GY_INT int gy_glm_keep_read(struct gy_glm_keep *keep, const char *path, struct gyre_job *job, const struct gy_alloc *alloc, struct gy_error *err)
{
    int ranks = 1, status = GY_OK;
    keep->exact = 1;
    for (int rank = 0; rank < (keep->dual ? ranks : 1) && status == GY_OK; rank++)
        status = glmk_read_part(keep, path, rank, &ranks, alloc, err);
    return glmk_together(job, status, path, err);
}
