/* SPDX-License-Identifier: MIT */
/* train_nonfinite.c: runs the batch of a step whose loss is not finite again, with all tensors
 * checked. The sentence names the first tensor that is not finite, and the image where it belongs
 * to one. */
#include "engine/run/parallel.h"
#include "engine/train/train_nonfinite.h"

static void nonfinite_sample(const struct train_run *run, const struct gyre_batch *batch,
                           const int64_t *samples, int32_t i, char *text, size_t room)
{
    char name[248], partner[248];
    gyre_sample_name(run->config.train, samples[i], name, sizeof name);
    if (batch->mix && batch->mix[i].partner != i) {
        gyre_sample_name(run->config.train, samples[batch->mix[i].partner], partner,
                         sizeof partner);
        snprintf(text, room, "%s, mixed with %s", name, partner);
    } else
        snprintf(text, room, "%s", name);
}

/* No one image is known to be the cause, so up to eight of the batch are listed in the log. */
static void nonfinite_samples(const struct train_run *run, const struct gyre_batch *batch,
                           const int64_t *samples)
{
    char text[512];
    const int32_t shown = batch->count < 8 ? batch->count : 8;
    for (int32_t i = 0; i < shown; i++) {
        nonfinite_sample(run, batch, samples, i, text, sizeof text);
        gy_log_write(gy_engine_log(run->net), GY_LOG_ERROR, "sample %d of %d of this batch: %s", i,
                     batch->count, text);
    }
}

/* Runs the batch again, shard by shard. *sample: the image's place in the batch, if it is one. */
static int nonfinite_run(struct train_run *run, const struct gyre_batch *batch, int32_t *sample,
                            struct gyre_error *where)
{
    int status = GYRE_OK;
    for (int s = 0; s < run->net->parallel.mine && status == GYRE_OK; s++) {
        const struct gyre_batch part = gy_parallel_part(run->net, batch, s);
        status = gyre_find_nonfinite(run->net, &part, sample, where);
        *sample += *sample >= 0 ? s * run->shape.batch : 0;
    }
    run->net->parallel.shard = 0;
    return status;
}

GY_INT int gy_train_locate(struct train_run *run, const struct gyre_batch *batch,
                           const int64_t *samples)
{
    struct gyre_error where = { 0 };
    char name[512];
    int32_t sample = -1;
    const int status = nonfinite_run(run, batch, &sample, &where);
    if (status == GYRE_OK)
        snprintf(where.text, sizeof where.text, "a replay with all tensors checked found none");
    else if (status != GYRE_E_NONFINITE && status != GYRE_E_STATE) /* the replay ended before */
        return gy_engine_fail(run->net, status, "%s", where.text);
    if (sample >= 0 && sample < batch->count) {
        nonfinite_sample(run, batch, samples, sample, name, sizeof name);
        return gy_engine_fail(run->net, GY_E_NONFINITE, "step %" PRId64 " is not finite: %.220s; "
                              "image %.220s", run->done + 1, where.text, name);
    }
    nonfinite_samples(run, batch, samples);
    nonfinite_sample(run, batch, samples, 0, name, sizeof name);
    return gy_engine_fail(run->net, GY_E_NONFINITE, "step %" PRId64
                          " is not finite: %.240s; the batch's %d images begin with %.160s",
                          run->done + 1, where.text, batch->count, name);
}
