/* SPDX-License-Identifier: MIT */
/* train_notes.c: writes and reads a checkpoint's notes: its counters in words, and the sums of the
 * row and the epoch that were open then. */
#include "engine/train/train_notes.h"

/* What the counters of a checkpoint count: batches of these samples. */
static void train_data_text(const struct train_run *run, char *text, size_t room)
{
    char shards[32] = "", part[128] = "";
    const struct gyre_data_info *d = &run->info;
    if (run->net->parallel.sharded)
        snprintf(shards, sizeof shards, " in %d shards", run->net->parallel.shards);
    if (d->hold_out > 0)
        gy_text_print(part, sizeof part,
                      " (of %" PRId64 ", %.6g held out by seed %" PRIu64 ", labels %08" PRIx32 ")",
                      d->hold_of, d->hold_out, d->hold_seed, d->hold_labels);
    snprintf(text, room, "%" PRId64 " samples%s, batch %d%s", d->samples, part, run->shape.batch, shards);
}

/* How many batches are a step, and how many steps an update. On other ranks, or with other steps,
 * the counters mean something else. Shards are dealt to any number of ranks. */
static void train_step_text(const struct train_run *run, char *text, size_t room)
{
    const struct gy_parallel *p = &run->net->parallel;
    char ranks[48] = "any number of ranks";
    if (!p->sharded)
        snprintf(ranks, sizeof ranks, "%d rank%s", p->shards, p->shards > 1 ? "s" : "");
    snprintf(text, room, "%s, accumulate %d", ranks, run->net->config.accumulate);
}

GY_INT int gy_train_write_notes(struct train_run *run)
{
    char text[256];
    const struct train_sums *e = &run->epoch, *r = &run->row;
    gy_text_print(text, sizeof text, "%.17g %" PRId64 " %" PRId64 " %.17g %" PRId64 " %" PRId64,
                  e->loss, e->labelled, e->right, r->loss, r->labelled, r->right);
    GY_TRY(gyre_note(run->net, "train.sums", text));
    train_data_text(run, text, sizeof text);
    GY_TRY(gyre_note(run->net, "train.data", text));
    train_step_text(run, text, sizeof text);
    GY_TRY(gyre_note(run->net, "train.step", text));
    gy_text_print(text, sizeof text, "%.4f", (double)run->done / (double)run->per_epoch);
    return gyre_note(run->net, "epochs", text);
}

/* A note of the checkpoint. Returns 1, 0 if there is none, or the status of reading it. */
static int train_read_note(struct train_run *run, const char *path, const char *key, char *text, size_t room)
{
    struct gyre_error error;
    const int status = gyre_read_note(path, key, text, room, &error);
    return status == GYRE_OK ? 1 : status == GYRE_E_ARG ? 0 : gy_engine_fail(run->net, status, "%s", error.text);
}

/* The checkpoint's steps were as those of this run. Older versions did not write it. */
static int train_read_step(struct train_run *run, const char *path)
{
    char text[256], want[256];
    train_step_text(run, want, sizeof want);
    const int found = train_read_note(run, path, "train.step", text, sizeof text);
    if (found != 1 || strcmp(text, want) == 0)
        return found < 0 ? found : GY_OK;
    return gy_engine_fail(run->net, GY_E_MISMATCH, "%.200s: the run had %.80s; now it has %.80s: its steps would be others (shards go on with any number "
                          "of ranks)", path, text, want);
}

/* Three numbers of the note: a sum of losses, how many samples it has, and how many of them were
 * right. An update of a pipeline that an epoch ends in counts whole in the next one, so they are of
 * an epoch and of the rest of an update at most. */
static int train_take_sums(const struct train_run *run, const double in[3], struct train_sums *out)
{
    const int64_t batches = run->per_epoch + run->net->config.accumulate - 1;
    const double most = (double)batches * (double)run->all;
    if (!isfinite(in[0]) || !(in[1] >= 0 && in[1] <= most) || !(in[2] >= 0 && in[2] <= in[1]))
        return -1;
    *out = (struct train_sums){ in[0], (int64_t)in[1], (int64_t)in[2] };
    return (double)out->labelled == in[1] && (double)out->right == in[2] ? 0 : -1;
}

/* The checkpoint must have this data set and this batch, or its counters mean something else. */
GY_INT int gy_train_read_notes(struct train_run *run, const char *path)
{
    char text[256], want[256];
    int found = train_read_note(run, path, "train.data", text, sizeof text);
    if (found != 1)
        return found; /* none: not of this loop, weights and counters alone go on */
    train_data_text(run, want, sizeof want);
    if (strcmp(text, want) != 0)
        return gy_engine_fail(run->net, GY_E_MISMATCH, "%.120s: the run had %.160s; now there are %.160s", path, text, want);
    GY_TRY(train_read_step(run, path));
    double sums[6];
    found = train_read_note(run, path, "train.sums", text, sizeof text);
    if (found < 0)
        return found;
    if (found == 0 || gy_text_reals(text, sums, 6) != 6 || train_take_sums(run, sums, &run->epoch) != 0 || train_take_sums(run, sums + 3, &run->row) != 0)
        return gy_engine_fail(run->net, GY_E_MISMATCH, "%.200s: its note of the epoch's sums is damaged", path);
    return GY_OK;
}
