/* SPDX-License-Identifier: MIT */
/* loader.c: a ring of batch slots between loader threads and the step. Threads claim a few samples
 * of the oldest unfinished batch at a time, never a whole batch, so that one slow image delays no
 * other. The step takes finished slots in order and gives each back when it asks for the next.
 *
 * A sample depends on (seed, batch number, position in the batch) alone, not on which thread makes
 * it or when. One lock guards who has what; pixels are written outside it, into places that belong
 * to one claim. The caller of next counts unreadable samples, in order, so the limit is reached at
 * the same batch in every run. Nothing is allocated after open. */
#include <pthread.h>
#include <signal.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "io/images/augment.h"
#include "io/images/data_set.h"
#include "io/images/loader.h"

#define LOADER_THREADS 1024
#define LOADER_DEPTH 1024
#define LOADER_BATCH 65536

struct loader_slot {
    int64_t number;          /* batch that it holds or will hold; -1: none yet */
    int32_t count, done;     /* samples in it, and finished */
    /* position of the first sample whose error is not that of a bad sample; batch: none */
    int32_t failed_at;
    struct gy_error error;
    uint8_t *pixels;         /* floats of a float set */
    int32_t *labels, *tries; /* tries [batch]: unreadable samples met at this position */
    int64_t *samples;
    struct gy_batch_mix *mix;
};

struct loader_thread {
    struct gy_loader *loader;
    struct gy_decoder *decoder;
    pthread_t id;
};

struct gy_loader {
    struct gy_loader_config config; /* its alloc points at the one here */
    struct gy_alloc alloc;
    struct gy_data *data;
    struct gy_arena arena;
    int64_t batches_per_epoch, end; /* end: number behind the last batch */
    size_t sample_bytes;
    int32_t chunk, attempts;        /* samples claimed at once; samples tried for one position */
    int mixing, telling;       /* batches have mix; moves are told in it */
    struct gy_augment made;    /* what is made here */
    struct loader_slot *slots;
    struct loader_thread *threads;
    struct gy_decoder *decoder;     /* of the caller of next */
    int started, failed;            /* threads running; status that next keeps returning */
    struct gy_error failure;
    int64_t waits, wait_ns;         /* of the caller of next alone, as are held and next_number */
    int64_t next_number;
    int held;

    /* guards all below, and number, count, done, failed_at, error of the slots */
    pthread_mutex_t lock;
    pthread_cond_t room, ready;
    int64_t claim_number;           /* next sample to claim */
    int32_t claim_at;
    int64_t released;               /* batches before this one may be overwritten */
    int stop;
};

/* ---- order ---- */

static int32_t loader_count(const struct gy_loader *loader, int64_t number)
{
    const int64_t batch = loader->config.batch;
    return loader->config.training ? (int32_t)batch : (int32_t)gy_min64(batch, loader->data->count - number * batch);
}

/* The place of a sample in a sequence of batches; all parts of a batch follow one another. */
static int64_t loader_position(const struct gy_loader_config *c, int64_t number, int32_t at)
{
    return (number * c->parts + c->part) * c->batch + at;
}

static int64_t loader_index(const struct gy_loader *loader, int64_t number, int32_t at)
{
    const int64_t batch = loader->config.batch;
    if (!loader->config.training)
        return number * batch + at;
    const int64_t epoch = number / loader->batches_per_epoch, within = number % loader->batches_per_epoch;
    return gy_rng_permute(loader->config.seed, GY_RNG_ORDER, (uint64_t)epoch, loader->data->count,
                          loader_position(&loader->config, within, at));
}

GY_INT void gy_loader_order(const struct gy_loader *loader, int64_t number, int64_t *samples)
{
    const int32_t count = number >= 0 && number < loader->end ? loader_count(loader, number) : 0;
    for (int32_t i = 0; i < loader->config.batch; i++)
        samples[i] = i < count ? loader_index(loader, number, i) : -1;
}

/* ---- making samples ---- */

static int loader_make_one(const struct gy_loader *loader, int64_t number, int32_t at, int64_t index, uint8_t *out,
                           struct gy_decoder *decoder, struct gy_error *err)
{
    const struct gy_loader_config *c = &loader->config;
    struct gy_image image;
    GY_TRY(gy_data_read(loader->data, index, decoder, &image, err));
    if (image.values) {
        gy_augment_real(c->training ? &loader->made : NULL, &image, c->seed, loader_position(c, number, at), out);
        return GY_OK;
    }
    if (!c->training)
        return gy_image_fit(&image, c->h, c->w, c->c, c->augment.resize, out, decoder, err);
    return gy_augment_sample(&loader->made, &image, c->seed, loader_position(c, number, at), c->h, c->w, c->c, out, decoder, err);
}

/* The sample at a position, or the next readable one by index. */
static int loader_make(const struct gy_loader *loader, const struct loader_slot *slot, int64_t number, int32_t at,
                       struct gy_decoder *decoder, struct gy_error *err)
{
    uint8_t *out = slot->pixels + (size_t)at * loader->sample_bytes;
    const int64_t first = loader_index(loader, number, at), count = loader->data->count;
    slot->samples[at] = first;
    for (int32_t t = 0; t < loader->attempts; t++) {
        const int64_t index = (first + t) % count;
        slot->tries[at] = t;
        const int status = loader_make_one(loader, number, at, index, out, decoder, err);
        if (status == GY_OK) {
            slot->samples[at] = index;
            slot->labels[at] = gy_data_label(loader->data, index);
            return GY_OK;
        }
        if (!gy_data_is_bad_status(status))
            return status;
    }
    slot->tries[at] = loader->attempts;
    slot->labels[at] = -1;
    memset(out, 0, loader->sample_bytes);
    return GY_OK;
}

/* What belongs to the batch as a whole: the mixing, and the places behind the last sample. */
static void loader_prepare(const struct gy_loader *loader, const struct loader_slot *slot, int64_t number,
                           int32_t count)
{
    const struct gy_loader_config *c = &loader->config;
    const int32_t group = c->batch / c->groups;
    for (int32_t g = 0; g < c->groups && loader->mixing; g++) {
        struct gy_batch_mix *const mix = slot->mix + g * group;
        gy_augment_mix(&c->augment, c->seed, (number * c->parts + c->part) * c->groups + g, group, c->h, c->w, mix);
        for (int32_t i = 0; i < group; i++)
            mix[i].partner += g * group;
    }
    for (int32_t i = 0; i < c->batch && loader->telling; i++) {
        if (!loader->mixing)
            slot->mix[i] = (struct gy_batch_mix){ .partner = i, .inside = 1, .label = 1 };
        gy_augment_tell(&c->augment, c->seed, loader_position(c, number, i), &slot->mix[i]);
    }
    memset(slot->pixels + (size_t)count * loader->sample_bytes, 0, (size_t)(c->batch - count) * loader->sample_bytes);
    for (int32_t i = count; i < c->batch; i++) {
        slot->labels[i] = -1;
        slot->samples[i] = -1;
        slot->tries[i] = 0;
    }
}

/* ---- threads ---- */

struct loader_claim {
    struct loader_slot *slot;
    int64_t number;
    int32_t first, end, count;
};

static struct loader_slot *loader_slot_of(const struct gy_loader *loader, int64_t number)
{
    return &loader->slots[(number - loader->config.first_batch) % loader->config.depth];
}

/* Waits until there is something to do; 0: stop. The lock is held. */
static int loader_take_claim(struct gy_loader *loader, struct loader_claim *claim)
{
    while (!loader->stop &&
           (loader->claim_number >= loader->end || loader->claim_number >= loader->released + loader->config.depth))
        pthread_cond_wait(&loader->room, &loader->lock);
    if (loader->stop)
        return 0;
    claim->number = loader->claim_number;
    claim->slot = loader_slot_of(loader, claim->number);
    claim->first = loader->claim_at;
    if (claim->first == 0) {
        claim->slot->number = claim->number;
        claim->slot->count = loader_count(loader, claim->number);
        claim->slot->done = 0;
        claim->slot->failed_at = loader->config.batch;
    }
    claim->count = claim->slot->count;
    claim->end = (int32_t)gy_min64(claim->count, claim->first + loader->chunk);
    loader->claim_at = claim->end;
    if (claim->end == claim->count) {
        loader->claim_at = 0;
        loader->claim_number++;
    }
    return 1;
}

static void loader_fail(struct gy_loader *loader, struct loader_slot *slot, int32_t at, const struct gy_error *error)
{
    pthread_mutex_lock(&loader->lock);
    if (at < slot->failed_at) {
        slot->failed_at = at;
        slot->error = *error;
    }
    pthread_mutex_unlock(&loader->lock);
}

static void *loader_run(void *user)
{
    struct loader_thread *self = user;
    struct gy_loader *loader = self->loader;
    struct loader_claim claim;
    struct gy_error error;
    pthread_mutex_lock(&loader->lock);
    while (loader_take_claim(loader, &claim)) {
        pthread_mutex_unlock(&loader->lock);
        if (claim.first == 0)
            loader_prepare(loader, claim.slot, claim.number, claim.count);
        for (int32_t at = claim.first; at < claim.end; at++)
            if (loader_make(loader, claim.slot, claim.number, at, self->decoder, &error) != GY_OK)
                loader_fail(loader, claim.slot, at, &error);
        pthread_mutex_lock(&loader->lock);
        claim.slot->done += claim.end - claim.first;
        if (claim.slot->done == claim.count)
            pthread_cond_signal(&loader->ready);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* ---- the caller's side ---- */

/* Gives the last slot back and waits for the next batch. */
static void loader_wait(struct gy_loader *loader, const struct loader_slot *slot)
{
    pthread_mutex_lock(&loader->lock);
    if (loader->held) {
        loader->released++;
        pthread_cond_broadcast(&loader->room);
    }
    loader->held = 0;
    int64_t began = -1;
    while (slot && (slot->number != loader->next_number || slot->done < slot->count)) {
        began = began < 0 ? gy_clock_ns() : began;
        pthread_cond_wait(&loader->ready, &loader->lock);
    }
    pthread_mutex_unlock(&loader->lock);
    if (began >= 0 && loader->next_number > loader->config.first_batch) {
        loader->waits++;
        loader->wait_ns += gy_clock_ns() - began;
    }
}

/* Counts one unreadable sample. It reads the sample again to get the sentence: this is rare, and
 * keeps the threads simple. */
static int loader_note(struct gy_loader *loader, const struct loader_slot *slot, int32_t at, int64_t index,
                       struct gy_error *err)
{
    struct gy_error why;
    uint8_t *out = slot->pixels + (size_t)at * loader->sample_bytes;
    struct gy_image image;
    int status = gy_data_read(loader->data, index, loader->decoder, &image, &why);
    /* Only fitting failed; the sample's place is zero and stays so. */
    if (status == GY_OK && !loader->config.training && !image.values)
        status = gy_image_fit(&image, loader->config.h, loader->config.w, loader->config.c,
                              loader->config.augment.resize, out, loader->decoder, &why);
    if (status == GY_OK) {
        char name[256];
        GY_FAIL(&why, GY_E_IMAGE, "%s: could not be read at first",
                gy_data_sample_name(loader->data, index, name, sizeof name));
    }
    if (!loader->config.training)
        memset(out, 0, loader->sample_bytes);
    return gy_data_note_bad(loader->data, index, &why, err);
}

static int loader_settle(struct gy_loader *loader, const struct loader_slot *slot, struct gy_error *err)
{
    const int64_t count = loader->data->count;
    for (int32_t at = 0; at < slot->count && at < slot->failed_at; at++) {
        if (slot->tries[at] == 0)
            continue;
        const int64_t first = loader_index(loader, slot->number, at);
        for (int32_t t = 0; t < slot->tries[at]; t++)
            GY_TRY(loader_note(loader, slot, at, (first + t) % count, err));
        if (slot->tries[at] >= count)
            return GY_FAIL(err, GY_E_IMAGE, "none of the %" PRId64 " images can be read", count);
    }
    if (slot->failed_at < slot->count)
        return GY_FAIL(err, slot->error.status, "%s", slot->error.text);
    return GY_OK;
}

GY_INT int gy_loader_next(struct gy_loader *loader, struct gy_batch *batch, struct gy_error *err)
{
    if (loader->failed)
        return GY_FAIL(err, loader->failed, "%s", loader->failure.text);
    const int64_t number = loader->next_number;
    const struct loader_slot *slot = number < loader->end ? loader_slot_of(loader, number) : NULL;
    loader_wait(loader, slot);
    if (!slot) {
        *batch = (struct gy_batch){ .number = number };
        return GY_OK;
    }
    loader->failed = loader_settle(loader, slot, &loader->failure);
    if (loader->failed)
        return GY_FAIL(err, loader->failed, "%s", loader->failure.text);
    loader->held = 1;
    loader->next_number++;
    *batch = (struct gy_batch){ .number = number, .count = slot->count, .labels = slot->labels, .mix = slot->mix,
                               .samples = slot->samples };
    if (loader->data->real)
        batch->values = (const float *)(const void *)slot->pixels;
    else
        batch->pixels = slot->pixels;
    return GY_OK;
}

GY_INT int64_t gy_loader_waits(const struct gy_loader *loader, int64_t *ns)
{
    *ns = loader->wait_ns;
    return loader->waits;
}

GY_INT int64_t gy_loader_batches_per_epoch(const struct gy_loader *loader) { return loader->batches_per_epoch; }

/* ---- open and close ---- */

/* Of a float set, nothing changes size or colour. */
static int loader_check_real(const struct gy_data *data, const struct gy_loader_config *c, struct gy_error *err)
{
    const struct gy_augment *a = &c->augment;
    if (!data->real)
        return GY_OK;
    if (c->h != data->h || c->w != data->w || c->c != data->channels)
        return GY_FAIL(err, GY_E_MISMATCH, "the float images are %" PRId32 " x %" PRId32 " x %" PRId32
                       " and are not resized; the net takes %" PRId32 " x %" PRId32 " x %" PRId32, data->h, data->w,
                       data->channels, c->h, c->w, c->c);
    if (a->resize || a->resized_crop || a->brightness > 0 || a->contrast > 0 || a->saturation > 0 || a->hue > 0)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "float images take no resize, resized crop or colour jitter, only padded "
                       "crop, flip, mixup and cutmix");
    return GY_OK;
}

static int loader_check(const struct gy_data *data, const struct gy_loader_config *c, struct gy_error *err)
{
    const struct {
        const char *name;
        int64_t value, lo, hi;
    } ranges[] = {
        {"batch", c->batch, 1, LOADER_BATCH}, {"height", c->h, 1, GY_IMAGE_SIDE},
        {"width", c->w, 1, GY_IMAGE_SIDE},    {"threads", c->threads, 1, LOADER_THREADS},
        {"depth", c->depth, 2, LOADER_DEPTH}, {"first batch", c->first_batch, 0, INT64_MAX / LOADER_BATCH / 2},
    };
    for (size_t i = 0; i < GY_COUNT(ranges); i++)
        if (ranges[i].value < ranges[i].lo || ranges[i].value > ranges[i].hi)
            return GY_FAIL(err, GY_E_ARG, "loader: %s %" PRId64 " is not within %" PRId64 " to %" PRId64,
                           ranges[i].name, ranges[i].value, ranges[i].lo, ranges[i].hi);
    if (c->training < 0 || c->training > 1 || c->moves < 0 || c->moves > 1)
        return GY_FAIL(err, GY_E_ARG, "loader: training %d and moves %d are not 0 or 1", c->training, c->moves);
    if (c->parts < 0 || c->groups < 0 || c->part < 0 || c->part >= (c->parts ? c->parts : 1))
        return GY_FAIL(err, GY_E_ARG, "loader: part %" PRId32 " of parts %" PRId32 ", groups %" PRId32 "; a part is from 0 on below their number",
                       c->part, c->parts, c->groups);
    if (c->c != 1 && c->c != 3)
        return GY_FAIL(err, GY_E_ARG, "loader: %" PRId32 " channels, images have 1 or 3", c->c);
    if (c->groups > 1 && c->batch % c->groups != 0)
        return GY_FAIL(err, GY_E_ARG, "loader: a batch of %" PRId32 " cannot be %" PRId32 " equal groups", c->batch, c->groups);
    if (c->training && data->count < c->batch)
        return GY_FAIL(err, GY_E_ARG, "the data set has %" PRId64 " samples, fewer than a batch of %" PRId32,
                       data->count, c->batch);
    if (c->training && c->parts > 1 && data->count / c->batch < c->parts)
        return GY_FAIL(err, GY_E_ARG,
                       "the data set has %" PRId64 " samples, fewer than %" PRId32 " batches of %"
                       PRId32 ", one for each part", data->count, c->parts, c->batch);
    GY_TRY(gy_augment_check(&c->augment, err));
    return loader_check_real(data, c, err);
}

static int loader_take_slots(struct gy_loader *loader, struct gy_error *err)
{
    const size_t batch = (size_t)loader->config.batch, depth = (size_t)loader->config.depth;
    const int mixes = loader->mixing || loader->telling;
    struct gy_arena *arena = &loader->arena;
    loader->slots = gy_arena_take(arena, depth, sizeof *loader->slots);
    loader->threads = gy_arena_take(arena, (size_t)loader->config.threads, sizeof *loader->threads);
    if (!loader->slots || !loader->threads)
        return GY_NOMEM(err, "a loader", depth * sizeof *loader->slots);
    for (size_t i = 0; i < depth; i++) {
        struct loader_slot *slot = &loader->slots[i];
        slot->number = -1;
        slot->pixels = gy_arena_take(arena, batch, loader->sample_bytes);
        slot->labels = gy_arena_take(arena, batch, sizeof *slot->labels);
        slot->tries = gy_arena_take(arena, batch, sizeof *slot->tries);
        slot->samples = gy_arena_take(arena, batch, sizeof *slot->samples);
        slot->mix = mixes ? gy_arena_take(arena, batch, sizeof *slot->mix) : NULL;
        if (!slot->pixels || !slot->labels || !slot->tries || !slot->samples || (mixes && !slot->mix))
            return GY_NOMEM(err, "a loader's batch", batch * loader->sample_bytes);
    }
    return GY_OK;
}

static int loader_take_decoders(struct gy_loader *loader, struct gy_error *err)
{
    const struct gy_loader_config *c = &loader->config;
    const struct gy_data *data = loader->data;
    const size_t bytes = data->decode_bytes + gy_augment_bytes(data->max_h, data->max_w, c->h, c->w);
    GY_TRY(gy_decoder_open(&loader->decoder, c->alloc, bytes, err));
    for (int i = 0; i < c->threads; i++) {
        loader->threads[i].loader = loader;
        GY_TRY(gy_decoder_open(&loader->threads[i].decoder, c->alloc, bytes, err));
    }
    return GY_OK;
}

/* Signals stay with the caller's threads. */
static int loader_start(struct gy_loader *loader, struct gy_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    for (int i = 0; i < loader->config.threads && !failed; i++) {
        failed = pthread_create(&loader->threads[i].id, NULL, loader_run, &loader->threads[i]);
        loader->started += !failed;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return GY_FAIL(err, GY_E_NOMEM, "loader thread %d of %d cannot be started: %s", loader->started + 1,
                       loader->config.threads, strerror(failed));
    return GY_OK;
}

static void loader_describe(struct gy_loader *loader, struct gy_data *data, const struct gy_loader_config *c)
{
    loader->config = *c;
    loader->alloc = *c->alloc;
    loader->config.alloc = &loader->alloc;
    loader->data = data;
    loader->config.parts = c->parts > 1 && c->training ? c->parts : 1;
    loader->config.part = loader->config.parts > 1 ? c->part : 0;
    loader->config.groups = c->groups > 1 ? c->groups : 1;
    loader->batches_per_epoch = c->training ? data->count / c->batch / loader->config.parts : gy_ceil_div(data->count, c->batch);
    loader->end = c->training ? INT64_MAX : loader->batches_per_epoch;
    loader->sample_bytes = (size_t)c->h * (size_t)c->w * (size_t)c->c * (data->real ? sizeof(float) : 1);
    loader->chunk = data->costly ? 1 : 16;
    loader->attempts = c->training ? (int32_t)gy_min64(gy_min64(data->max_bad, INT32_MAX - 1) + 1, data->count) : 1;
    loader->mixing = c->training && (c->augment.mixup > 0 || c->augment.cutmix > 0);
    loader->telling = c->training && c->moves && gy_augment_tells(&c->augment, &loader->made);
    if (!loader->telling)
        loader->made = c->augment;
    loader->next_number = loader->claim_number = loader->released = c->first_batch;
}

static int loader_take_locks(struct gy_loader *loader)
{
    if (pthread_mutex_init(&loader->lock, NULL))
        return -1;
    if (pthread_cond_init(&loader->room, NULL)) {
        pthread_mutex_destroy(&loader->lock);
        return -1;
    }
    if (pthread_cond_init(&loader->ready, NULL)) {
        pthread_cond_destroy(&loader->room);
        pthread_mutex_destroy(&loader->lock);
        return -1;
    }
    return 0;
}

GY_INT int gy_loader_open(struct gy_loader **out, struct gy_data *data, const struct gy_loader_config *config,
                          struct gy_error *err)
{
    GY_TRY(loader_check(data, config, err));
    struct gy_loader *loader = gy_alloc_take(config->alloc, 1, sizeof *loader);
    if (!loader)
        return GY_NOMEM(err, "a loader", sizeof *loader);
    if (loader_take_locks(loader)) {
        gy_alloc_free(config->alloc, loader, sizeof *loader);
        return GY_FAIL(err, GY_E_NOMEM, "out of memory: a loader's locks cannot be made");
    }
    loader_describe(loader, data, config);
    gy_arena_open_hook(&loader->arena, config->alloc);
    int status = loader_take_slots(loader, err);
    if (status == GY_OK)
        status = loader_take_decoders(loader, err);
    if (status == GY_OK)
        status = loader_start(loader, err);
    if (status != GY_OK) {
        gy_loader_close(loader);
        return status;
    }
    *out = loader;
    return GY_OK;
}

GY_INT void gy_loader_close(struct gy_loader *loader)
{
    if (!loader)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = 1;
    pthread_cond_broadcast(&loader->room);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->started; i++)
        pthread_join(loader->threads[i].id, NULL);
    for (int i = 0; loader->threads && i < loader->config.threads; i++)
        gy_decoder_close(loader->threads[i].decoder);
    gy_decoder_close(loader->decoder);
    const struct gy_alloc alloc = loader->alloc;
    gy_arena_close(&loader->arena);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->room);
    pthread_mutex_destroy(&loader->lock);
    gy_alloc_free(&alloc, loader, sizeof *loader);
}
