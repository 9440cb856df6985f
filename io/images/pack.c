/* SPDX-License-Identifier: MIT */
/* pack.c: writes a packed file, for engine/train/net_data.c; packed.c describes its bytes. Threads
 * decode and resize a window of samples; then it is written in order, window after window. So the
 * file's bytes depend on the data set and the side alone. The header is written last, over its
 * place, before the file gets its name. */
#include "engine/base/file_lock.h"
#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "io/images/augment.h"
#include "io/images/packed.h"
#include "io/images/resample.h"

#define PACK_WINDOW 64

struct pack_place { /* one sample of the window */
    uint8_t *pixels;
    size_t room;
    int32_t h, w;
    uint32_t crc;
    int status;
    struct gy_error error;
};

struct pack_job {
    struct gy_data *data;
    const struct gy_pack_config *config;
    struct gy_pool *pool;
    struct gy_decoder **decoders;          /* [threads] */
    struct pack_place places[PACK_WINDOW];
    int64_t first;                         /* sample in place 0 */
    struct gy_outfile out;
    struct gy_lock lock;
    struct gy_buf index, names;
    uint64_t at, count;                    /* next pixel byte; samples written */
    int32_t h, w;                          /* of all so far; 0: they differ */
    int differ;
};

/* ---- one sample, on any thread ---- */

static int pack_room(const struct pack_job *job, struct pack_place *place, size_t bytes, struct gy_error *err)
{
    if (place->room >= bytes)
        return GY_OK;
    uint8_t *grown = gy_alloc_grow(job->config->alloc, place->pixels, place->room, bytes, 1);
    if (!grown)
        return GY_NOMEM(err, "a packed image", bytes);
    place->pixels = grown;
    place->room = bytes;
    return GY_OK;
}

static int pack_make(const struct pack_job *job, struct pack_place *place, int64_t index, struct gy_decoder *decoder,
                     struct gy_error *err)
{
    struct gy_image image;
    GY_TRY(gy_data_read(job->data, index, decoder, &image, err));
    const int64_t side = job->config->side, h = image.h, w = image.w;
    int64_t to_h = h, to_w = w;
    if (side > 0) {
        to_w = w <= h ? side : side * w / h;
        to_h = w <= h ? side * h / w : side;
    }
    if (to_h > GY_IMAGE_SIDE || to_w > GY_IMAGE_SIDE)
        return GY_FAIL(err, GY_E_IMAGE, "%" PRId64 " x %" PRId64 " pixels would become %" PRId64 " x %" PRId64, w, h,
                       to_w, to_h);
    place->h = (int32_t)to_h;
    place->w = (int32_t)to_w;
    const size_t row = (size_t)to_w * (size_t)image.c, bytes = row * (size_t)to_h;
    GY_TRY(pack_room(job, place, bytes, err));
    const struct gy_window from = gy_window_of(&image);
    const struct gy_resize to = {to_h, to_w, 0, 0, place->h, place->w};
    GY_TRY(gy_resample(&from, &to, place->pixels, row, decoder, err));
    place->crc = gy_crc32c(0, place->pixels, bytes);
    return GY_OK;
}

static void pack_tile(void *user, int64_t tile, int thread)
{
    struct pack_job *job = user;
    struct pack_place *place = &job->places[tile];
    place->status = pack_make(job, place, job->first + tile, job->decoders[thread], &place->error);
}

/* ---- writing in order ---- */

static int pack_append(struct pack_job *job, const struct pack_place *place, int64_t index, struct gy_error *err)
{
    char name[4096];
    unsigned char entry[PACKED_ENTRY];
    const size_t bytes = (size_t)place->h * (size_t)place->w * (size_t)job->data->channels;
    gy_put_le64(entry, job->at);
    gy_put_le32(entry + 8, (uint32_t)place->h);
    gy_put_le32(entry + 12, (uint32_t)place->w);
    gy_put_le32(entry + 16, (uint32_t)gy_data_label(job->data, index));
    gy_put_le32(entry + 20, place->crc);
    gy_put_le64(entry + 24, job->names.bytes);
    gy_data_sample_name(job->data, index, name, sizeof name);
    gy_buf_add(&job->index, entry, sizeof entry);
    gy_buf_add(&job->names, name, strlen(name) + 1);
    if (job->index.failed || job->names.failed)
        return GY_NOMEM(err, "the index of a packed file", job->index.bytes);
    GY_TRY(gy_outfile_write(&job->out, place->pixels, bytes, err));
    job->at += bytes;
    if (job->count++ > 0 && (place->h != job->h || place->w != job->w))
        job->differ = 1;
    job->h = place->h;
    job->w = place->w;
    return GY_OK;
}

static int pack_window(struct pack_job *job, int64_t n, struct gy_error *err)
{
    gy_pool_run(job->pool, pack_tile, job, n);
    for (int64_t i = 0; i < n; i++) {
        const struct pack_place *place = &job->places[i];
        if (place->status == GY_OK)
            GY_TRY(pack_append(job, place, job->first + i, err));
        else if (gy_data_is_bad_status(place->status))
            GY_TRY(gy_data_note_bad(job->data, job->first + i, &place->error, err));
        else
            return GY_FAIL(err, place->status, "%s", place->error.text);
    }
    return GY_OK;
}

static int pack_samples(struct pack_job *job, struct gy_error *err)
{
    const int64_t total = job->data->count;
    for (job->first = 0; job->first < total; job->first += PACK_WINDOW) {
        const int64_t n = gy_min64(PACK_WINDOW, total - job->first);
        GY_TRY(pack_window(job, n, err));
        if (job->config->progress && job->config->progress(job->config->user, job->first + n, total))
            return GY_FAIL(err, GY_E_STOPPED, "packing was stopped at sample %" PRId64 " of %" PRId64, job->first + n,
                           total);
    }
    if (job->count == 0)
        return GY_FAIL(err, GY_E_IMAGE, "none of the %" PRId64 " images can be read", total);
    return GY_OK;
}

/* Index, class names, sample names; then the header at the front. */
static int pack_finish(struct pack_job *job, struct gy_error *err)
{
    const struct gy_data *data = job->data;
    const uint64_t class_at = job->index.bytes;
    for (int32_t i = 0; i < data->classes; i++)
        gy_buf_add(&job->index, data->class_names[i], strlen(data->class_names[i]) + 1);
    if (job->index.failed)
        return GY_NOMEM(err, "class names", job->index.bytes);
    GY_TRY(gy_outfile_write(&job->out, job->index.text, job->index.bytes, err));
    GY_TRY(gy_outfile_write(&job->out, job->names.text, job->names.bytes, err));
    unsigned char head[PACKED_HEADER] = {0};
    memcpy(head, PACKED_MAGIC, 8);
    gy_put_le32(head + 8, 1);
    gy_put_le64(head + 16, job->count);
    gy_put_le32(head + 24, (uint32_t)data->classes);
    gy_put_le32(head + 28, (uint32_t)data->channels);
    gy_put_le32(head + 32, job->differ ? 0 : (uint32_t)job->h);
    gy_put_le32(head + 36, job->differ ? 0 : (uint32_t)job->w);
    gy_put_le64(head + 40, job->at);
    gy_put_le64(head + 48, job->index.bytes - class_at);
    gy_put_le64(head + 56, job->names.bytes);
    gy_put_le64(head + 64, job->at + job->index.bytes + job->names.bytes);
    gy_put_le32(head + 72,
                gy_crc32c(gy_crc32c(0, job->index.text, job->index.bytes), job->names.text, job->names.bytes));
    gy_put_le32(head + PACKED_HEADER - 4, gy_crc32c(0, head, PACKED_HEADER - 4));
    GY_TRY(gy_outfile_rewind(&job->out, err));
    return gy_outfile_write(&job->out, head, sizeof head, err);
}

static int pack_write(struct pack_job *job, const char *path, struct gy_error *err)
{
    const unsigned char blank[PACKED_HEADER] = {0};
    job->at = PACKED_HEADER;
    GY_TRY(gy_lock_beside(&job->lock, path, err));
    GY_TRY(gy_outfile_open(&job->out, path, err));
    int status = gy_outfile_write(&job->out, blank, sizeof blank, err);
    if (status == GY_OK)
        status = pack_samples(job, err);
    if (status == GY_OK)
        status = pack_finish(job, err);
    if (status == GY_OK)
        return gy_outfile_commit(&job->out, err);
    gy_outfile_abandon(&job->out);
    return status;
}

/* ---- open and close ---- */

static int pack_open(struct pack_job *job, struct gy_error *err)
{
    const struct gy_pack_config *c = job->config;
    const int32_t side = c->side > job->data->max_w ? c->side : job->data->max_w;
    const size_t bytes = job->data->decode_bytes +
                         gy_augment_bytes(job->data->max_h, job->data->max_w, side, side) +
                         (job->data->max_h ? (size_t)GY_IMAGE_SIDE * 64 : 0);
    GY_TRY(gy_pool_open(&job->pool, c->alloc, c->threads, err));
    const int threads = gy_pool_threads(job->pool);
    job->decoders = gy_alloc_take(c->alloc, (size_t)threads, sizeof *job->decoders);
    if (!job->decoders)
        return GY_NOMEM(err, "decoders", (size_t)threads * sizeof *job->decoders);
    for (int i = 0; i < threads; i++)
        GY_TRY(gy_decoder_open(&job->decoders[i], c->alloc, bytes, err));
    gy_buf_open(&job->index, c->alloc);
    gy_buf_open(&job->names, c->alloc);
    return GY_OK;
}

static void pack_close(struct pack_job *job)
{
    const struct gy_alloc *alloc = job->config->alloc;
    const int threads = job->pool ? gy_pool_threads(job->pool) : 0;
    for (int i = 0; job->decoders && i < threads; i++)
        gy_decoder_close(job->decoders[i]);
    gy_alloc_free(alloc, job->decoders, (size_t)threads * sizeof *job->decoders);
    for (int i = 0; i < PACK_WINDOW; i++)
        gy_alloc_free(alloc, job->places[i].pixels, job->places[i].room);
    if (job->index.alloc.fn)
        gy_buf_close(&job->index);
    if (job->names.alloc.fn)
        gy_buf_close(&job->names);
    gy_lock_drop(&job->lock);
    gy_pool_close(job->pool);
    gy_alloc_free(alloc, job, sizeof *job);
}

GY_INT int gy_data_pack(struct gy_data *data, const char *path, const struct gy_pack_config *config,
                        struct gy_error *err)
{
    if (config->side < 0 || config->side > GY_IMAGE_SIDE || config->threads < 0)
        return GY_FAIL(err, GY_E_ARG, "pack: side %" PRId32 " is not within 0 to %d, or %d threads", config->side,
                       GY_IMAGE_SIDE, config->threads);
    if (data->real)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "%s: float images cannot be packed; a packed file holds bytes", path);
    struct pack_job *job = gy_alloc_take(config->alloc, 1, sizeof *job);
    if (!job)
        return GY_NOMEM(err, "packing", sizeof *job);
    job->data = data;
    job->config = config;
    int status = pack_open(job, err);
    if (status == GY_OK)
        status = gy_data_warn_empty(data, path, config->alloc, config->log, err);
    if (status == GY_OK)
        status = pack_write(job, path, err);
    const int64_t count = (int64_t)job->count;
    const uint64_t bytes = job->at;
    pack_close(job);
    if (status == GY_OK)
        gy_log_write(config->log, GY_LOG_INFO, "pack: %s: %" PRId64 " samples, %" PRIu64 " bytes of pixels", path,
                     count, bytes);
    return status;
}
