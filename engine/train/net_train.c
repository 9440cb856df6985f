/* SPDX-License-Identifier: MIT */
/* The loop: batches from the loader through gyre_step, an evaluation after each epoch, rows of metrics, checkpoints. A checkpoint also
 * holds, as notes, the sums that the next row and epoch will need; with the counted random numbers of loader and net, a run that goes on
 * from a checkpoint ends with the same bits as one that was never stopped. */
#include "engine/train/same_weights.h"
#include "engine/train/train_files.h"
#include "engine/base/clock.h"
#include "engine/job/peers.h"
#include "engine/run/parallel.h"
#include "engine/run/trace.h"

#define TRAIN_ROWS 20 /* rows of metrics in an epoch */

struct train_sums {
    double loss;
    int64_t labelled, right;
};

struct train_run {
    struct gyre_net *net;
    struct gyre_train_config config;
    struct gyre_shape shape;
    struct gyre_data_info info;
    struct gyre_loader *loader;
    struct gy_run_files files;
    struct gy_lock lock;            /* of the folder */
    int64_t per_epoch, total, done; /* batches */
    int64_t saved;                  /* batches done at the last checkpoint; -1: none */
    int64_t lent;                   /* batches done when weights went to rank 0 last; -1: never */
    int64_t compared;               /* batches done when the ranks' weights were compared last; -1: never */
    int64_t row_every;
    struct train_sums epoch, row;   /* since the epoch's begin, since the last row */
    int64_t epoch_began, epoch_first; /* clock and batches done when this process began the epoch */
    double seconds_per_batch, seconds_per_test;
    struct gyre_progress progress;
    int stop, between;              /* the callback asked to stop; the net stands between two steps, whole */
    int halt;                       /* some rank's callback did, and all know it */
    int due;                        /* a checkpoint waits for the next update */
    int32_t mine, all;              /* samples of a step: of this rank, of all */
};

GYRE_API void gyre_train_config_default(struct gyre_train_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->epochs = 1;
    config->augment = (struct gyre_augment){ .scale_min = 0.08f, .scale_max = 1, .ratio_min = 0.75f, .ratio_max = 1.3333f };
    config->loader_threads = 1;
    config->keep = 3;
}

static void train_sum(struct train_sums *sums, const struct gyre_result *result)
{
    sums->loss += result->loss * result->labelled;
    sums->labelled += result->labelled;
    sums->right += result->top1;
}

static double train_mean(double sum, int64_t count) { return count ? sum / (double)count : (double)NAN; }

/* ---- notes in the checkpoint ---- */

/* What the counters of a checkpoint count: batches of these samples. */
static void train_data_text(const struct train_run *run, char *text, size_t room)
{
    char shards[32] = "", part[128] = "";
    const struct gyre_data_info *d = &run->info;
    if (run->net->parallel.sharded)
        snprintf(shards, sizeof shards, " in %d shards", run->net->parallel.shards);
    if (d->hold_out > 0)
        snprintf(part, sizeof part, " (of %" PRId64 ", %.6g held out by seed %" PRIu64 ", labels %08" PRIx32 ")", d->hold_of, d->hold_out,
                 d->hold_seed, d->hold_labels);
    snprintf(text, room, "%" PRId64 " samples%s, batch %d%s", d->samples, part, run->shape.batch, shards);
}

/* How many batches are a step, and how many steps an update: on other ranks, or of other steps, the counters mean something else. Shards are
 * dealt to any number of ranks. */
static void train_step_text(const struct train_run *run, char *text, size_t room)
{
    const struct gy_parallel *p = &run->net->parallel;
    char ranks[48] = "any number of ranks";
    if (!p->sharded)
        snprintf(ranks, sizeof ranks, "%d rank%s", p->shards, p->shards > 1 ? "s" : "");
    snprintf(text, room, "%s, accumulate %d", ranks, run->net->config.accumulate);
}

static int train_write_notes(struct train_run *run)
{
    char text[256];
    const struct train_sums *e = &run->epoch, *r = &run->row;
    snprintf(text, sizeof text, "%.17g %" PRId64 " %" PRId64 " %.17g %" PRId64 " %" PRId64, e->loss, e->labelled, e->right,
             r->loss, r->labelled, r->right);
    GY_TRY(gyre_note(run->net, "train.sums", text));
    train_data_text(run, text, sizeof text);
    GY_TRY(gyre_note(run->net, "train.data", text));
    train_step_text(run, text, sizeof text);
    GY_TRY(gyre_note(run->net, "train.step", text));
    snprintf(text, sizeof text, "%.4f", (double)run->done / (double)run->per_epoch);
    return gyre_note(run->net, "epochs", text);
}

/* A note of the checkpoint: 1 when it is there, 0 when there is none, else the status of reading it. */
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

/* Three numbers of the note: a sum of losses, and of how many samples, of which how many were right; they are of one epoch at most. */
static int train_take_sums(const struct train_run *run, const double in[3], struct train_sums *out)
{
    const double most = (double)run->per_epoch * (double)run->all;
    if (!isfinite(in[0]) || !(in[1] >= 0 && in[1] <= most) || !(in[2] >= 0 && in[2] <= in[1]))
        return -1;
    *out = (struct train_sums){ in[0], (int64_t)in[1], (int64_t)in[2] };
    return (double)out->labelled == in[1] && (double)out->right == in[2] ? 0 : -1;
}

/* The checkpoint was made on this data set with this batch, else its counters mean something else. */
static int train_read_notes(struct train_run *run, const char *path)
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

/* ---- progress ---- */

static void train_times(struct train_run *run)
{
    struct gyre_progress *p = &run->progress;
    const double seconds = (double)(gy_clock_ns() - run->epoch_began) * 1e-9;
    const int64_t batches = run->done - run->epoch_first;
    if (batches > 0 && seconds > 0) {
        run->seconds_per_batch = seconds / (double)batches;
        p->images_per_second = (double)run->all / run->seconds_per_batch;
    }
    const int64_t tests = gy_ceil_div(run->total, run->per_epoch) - run->done / run->per_epoch;
    p->seconds_left = (double)(run->total - run->done) * run->seconds_per_batch + (double)tests * run->seconds_per_test;
}

static void train_report(struct train_run *run, const char *event)
{
    struct gyre_progress *p = &run->progress;
    p->event = event;
    p->step = run->done;
    p->steps = run->total;
    p->epochs = (int)gy_ceil_div(run->total, run->per_epoch);
    p->epoch = run->done ? (int)gy_ceil_div(run->done, run->per_epoch) : 1;
    if (run->epoch.labelled) { /* else the epoch is over, and what was said of it stands */
        p->loss = train_mean(run->epoch.loss, run->epoch.labelled);
        p->accuracy = train_mean((double)run->epoch.right, run->epoch.labelled);
    }
    p->skipped_steps = run->net->scale.skipped;
    p->loss_scale = run->net->config.dtype == GYRE_F16 ? (double)run->net->scale.now : 0;
    p->loader_waits = gy_loader_ready_waits(run->loader, &p->loader_wait_seconds);
    if (run->config.progress && run->config.progress(run->config.user, p) != 0)
        run->stop = 1;
    p->path = NULL;
}

/* ---- checkpoints ---- */

/* Ranks have gradients of their own that wait for their update. A checkpoint has room for those of one rank, so it comes behind the update. */
static int train_several(const struct train_run *run)
{
    return run->net->parallel.ranks > 1 || run->net->pipe;
}

static int train_waits(const struct train_run *run)
{
    return train_several(run) && run->net->pending > 0;
}

/* Stages beside rank 0's give it their weights. */
static int train_lend(struct train_run *run)
{
    const int lends = run->net->pipe && gyre_job_rank(run->net->config.job) > 0;
    if (!lends || run->lent == run->done || train_waits(run))
        return GY_OK;
    run->lent = run->done;
    return gyre_save(run->net, "");
}

static int train_save(struct train_run *run)
{
    char path[4096];
    struct gy_error *err = &run->net->error;
    if (!run->config.folder || run->saved == run->done || train_waits(run))
        return GY_OK;
    GY_TRY(gy_checkpoint_path(path, sizeof path, run->config.folder, run->done, err));
    GY_TRY(train_write_notes(run));
    const int64_t began = gy_trace_clock(run->net);
    GY_TRY(gyre_save(run->net, path));
    gy_trace_put(run->net, GY_TRACE_INPUT, "checkpoint", "save", "files", began, 0);
    run->saved = run->done;
    GY_TRY(gy_checkpoints_prune(gy_engine_alloc(run->net), gy_engine_log(run->net), run->config.folder, run->done, run->config.keep,
                                err));
    run->progress.path = path;
    train_report(run, "checkpoint");
    return GY_OK;
}

/* One of the list. A file under another name would take the place of others, or lose it to them. */
static int train_load(struct train_run *run, const char *path, int64_t step)
{
    GY_TRY(gyre_load(run->net, path));
    if (run->net->micro != step)
        return gy_engine_fail(run->net, GY_E_MISMATCH, "%.200s: it is of step %" PRId64 ", not of the step that its name says", path, run->net->micro);
    return GY_OK;
}

/* Newest first, until one can be loaded. The first sentence is the one that counts when none can. */
static int train_load_newest(struct train_run *run, const struct gy_checkpoints *list)
{
    struct gyre_error first = { 0 };
    char path[4096];
    for (int i = 0; i < list->count; i++) {
        GY_TRY(gy_checkpoint_path(path, sizeof path, run->config.folder, list->steps[i], &run->net->error));
        if (train_load(run, path, list->steps[i]) == GYRE_OK) {
            run->done = run->saved = run->net->micro;
            gy_log_write(gy_engine_log(run->net), GY_LOG_INFO, "going on from %s", path);
            return train_read_notes(run, path);
        }
        if (!gy_checkpoint_is_bad(gyre_last_error(run->net)->status))
            return gyre_last_error(run->net)->status;
        if (i == 0)
            first = *gyre_last_error(run->net);
        gy_log_write(gy_engine_log(run->net), GY_LOG_WARN, "this checkpoint cannot be used: %s", gyre_last_error(run->net)->text);
    }
    return gy_engine_fail(run->net, first.status, "%.420s; no older one can be used", first.text);
}

/* What is in the folder already: go on, start anew, or refuse. */
static int train_take_folder(struct train_run *run, const struct gy_checkpoints *list)
{
    char path[4096];
    struct gy_error *err = &run->net->error;
    if (list->count == 0)
        return GY_OK;
    if (run->config.resume)
        return train_load_newest(run, list);
    GY_TRY(gy_checkpoint_path(path, sizeof path, run->config.folder, list->steps[0], err));
    if (!run->config.overwrite)
        return gy_engine_fail(run->net, GY_E_STATE, "%.300s is there: the folder holds a run; resume it, overwrite it, or take another "
                              "folder", path);
    return gy_checkpoints_prune(gy_engine_alloc(run->net), gy_engine_log(run->net), run->config.folder, INT64_MAX, 0, err);
}

static int train_open_folder(struct train_run *run)
{
    struct gy_checkpoints list;
    const struct gy_alloc *alloc = gy_engine_alloc(run->net);
    GY_TRY(gy_file_make_folder(run->config.folder, &run->net->error));
    GY_TRY(gy_run_folder_lock(&run->lock, run->config.folder, &run->net->error));
    gy_run_folder_clean(run->config.folder);
    GY_TRY(gy_checkpoints_list(&list, alloc, run->config.folder, &run->net->error));
    const int status = train_take_folder(run, &list);
    gy_checkpoints_close(&list);
    GY_TRY(status);
    return gy_run_files_open(&run->files, alloc, run->config.folder, run->saved, &run->net->error);
}

/* ---- opening ---- */

static int train_open_loader(struct train_run *run)
{
    struct gyre_loader_config c;
    struct gyre_error error;
    gyre_loader_config_default(&c);
    c.batch = run->mine;
    c.h = run->shape.h;
    c.w = run->shape.w;
    c.c = run->shape.c;
    c.training = 1;
    c.augment = run->config.augment;
    c.seed = run->net->config.seed;
    c.first_batch = run->done;
    c.threads = run->config.loader_threads;
    c.moves = !run->net->caps.host_memory; /* a GPU moves images while it normalises them */
    c.part = run->net->parallel.rank;
    c.parts = run->all / run->mine;
    c.groups = run->mine / run->shape.batch;
    const int status = gyre_open_loader(&run->loader, run->config.train, &c, &error);
    return status == GYRE_OK ? GYRE_OK : gy_engine_fail(run->net, status, "%s", error.text);
}

/* Folders number their classes by name: a class that is missing on one side would shift all labels. */
static int train_check_classes(struct train_run *run)
{
    const struct gyre_train_config *c = &run->config;
    struct gyre_data_info test;
    if (!c->test)
        return GY_OK;
    gyre_get_data_info(c->test, &test);
    for (int32_t i = 0; i < test.classes; i++) {
        const char *a = gyre_class_name(c->train, i), *b = gyre_class_name(c->test, i);
        if (!a || !b || strcmp(a, b) != 0)
            return gy_engine_fail(run->net, GY_E_MISMATCH, "class %d is '%.80s' in the training data and '%.80s' in the test data", i,
                                  a ? a : "(none)", b ? b : "(none)");
    }
    return GY_OK;
}

static int train_check(struct train_run *run)
{
    const struct gyre_train_config *c = &run->config;
    if (!c->train || run->net->config.mode != GYRE_TRAIN)
        return gy_engine_fail(run->net, GY_E_ARG, "gyre_train needs training data and a net with GYRE_TRAIN");
    GY_TRY(gy_data_check_input(run->net, c->train, "training"));
    if (c->test)
        GY_TRY(gy_data_check_input(run->net, c->test, "test"));
    if (c->resume < 0 || c->resume > 1 || c->overwrite < 0 || c->overwrite > 1)
        return gy_engine_fail(run->net, GY_E_ARG, "resume is %d and overwrite %d; they must be 0 or 1", c->resume, c->overwrite);
    if (c->resume && c->overwrite)
        return gy_engine_fail(run->net, GY_E_ARG, "resume goes on from the folder's checkpoints, overwrite removes them; take one of both");
    if (c->epochs < 1 || c->max_steps < 0 || c->checkpoint_steps < 0 || c->keep < 1)
        return gy_engine_fail(run->net, GY_E_ARG, "epochs %d and keep %d must be 1 or more, max_steps %" PRId64
                              " and checkpoint_steps %" PRId64 " 0 or more", c->epochs, c->keep, c->max_steps, c->checkpoint_steps);
    if (run->info.classes > run->shape.classes)
        return gy_engine_fail(run->net, GY_E_MISMATCH, "the training data has %d classes, the net %d", run->info.classes,
                              run->shape.classes);
    if (run->info.samples < run->all)
        return gy_engine_fail(run->net, GY_E_ARG, "the batch of %d%s is larger than the training data, %" PRId64 " samples", run->shape.batch,
                              run->net->parallel.sharded ? " of each shard" : run->all > run->mine ? " of each rank" : "", run->info.samples);
    GY_TRY(train_check_classes(run));
    if (gyre_job_rank(run->net->config.job) > 0)
        return GY_OK;
    return gy_data_warn_empty(c->train->data, "the training data", gy_engine_alloc(run->net), gy_engine_log(run->net), &run->net->error);
}

/* Says where the run goes on. */
static int train_report_resume(struct train_run *run)
{
    char path[4096];
    if (run->saved < 0)
        return GY_OK;
    GY_TRY(gy_checkpoint_path(path, sizeof path, run->config.folder, run->saved, &run->net->error));
    run->progress.path = path;
    train_report(run, "resume");
    return GY_OK;
}

/* Rank 0 alone tests, writes and reports; the others only look whether there is something to go on from. */
static int train_follow(struct train_run *run)
{
    struct gy_checkpoints list;
    const char *folder = run->config.folder;
    int status = GY_OK;
    run->config.test = run->net->pipe && run->net->pipe->test(run->net) ? run->config.test : NULL;
    run->config.progress = NULL;
    if (folder && run->config.resume) {
        GY_TRY(gy_checkpoints_list(&list, gy_engine_alloc(run->net), folder, &run->net->error));
        status = list.count > 0 ? train_load_newest(run, &list) : GY_OK;
        gy_checkpoints_close(&list);
    }
    run->config.folder = NULL;
    run->lent = run->saved;
    run->saved = -1;
    return status;
}

/* All ranks read the same data and go on from the same step: each has looked for itself. */
static int train_agree(struct train_run *run)
{
    struct gyre_job *job = run->net->config.job;
    if (!train_several(run))
        return GY_OK;
    GY_TRY(gy_peers_follow(job, &run->config.checkpoint_steps, &run->net->error)); /* weights are compared then */
    GY_TRY(gy_peers_agree(job, "number of training samples", (uint64_t)run->info.samples, &run->net->error));
    return gy_peers_agree(job, "step that the run goes on from", (uint64_t)run->done, &run->net->error);
}

static int train_open(struct train_run *run)
{
    gyre_get_shape(run->net, &run->shape);
    run->mine = run->shape.batch * run->net->parallel.mine;
    run->all = run->shape.batch * run->net->parallel.shards;
    if (run->config.train)
        gyre_get_data_info(run->config.train, &run->info);
    GY_TRY(train_check(run));
    run->per_epoch = run->info.samples / run->all;
    if (gy_mul_count(run->per_epoch, run->config.epochs, &run->total))
        return gy_engine_fail(run->net, GY_E_ARG, "%d epochs of %" PRId64 " steps are too many", run->config.epochs, run->per_epoch);
    run->total = run->config.max_steps ? run->config.max_steps : run->total;
    if (run->total < run->net->config.accumulate)
        return gy_engine_fail(run->net, GY_E_ARG, "a run of %" PRId64 " steps makes no update: accumulate is %d", run->total, run->net->config.accumulate);
    run->row_every = gy_max64(1, run->per_epoch / TRAIN_ROWS);
    run->done = run->net->micro;
    run->saved = run->lent = run->compared = -1;
    run->progress.loss = run->progress.accuracy = (double)NAN;
    if (gyre_job_rank(run->net->config.job) > 0)
        GY_TRY(train_follow(run));
    else if (run->config.folder)
        GY_TRY(train_open_folder(run));
    GY_TRY(train_agree(run));
    GY_TRY(train_open_loader(run));
    run->epoch_first = run->done;
    run->epoch_began = gy_clock_ns();
    return train_report_resume(run);
}

/* status: of the run so far. Rows that cannot be written in the end fail one that went well. */
static int train_close(struct train_run *run, int status)
{
    struct gy_error err = { 0 };
    gyre_close_loader(run->loader);
    const int closed = gy_run_files_close(&run->files, &err);
    gy_lock_drop(&run->lock);
    if (closed == GY_OK || (status != GY_OK && status != GY_E_STOPPED))
        return status;
    return gy_engine_fail(run->net, closed, "%s", err.text);
}

/* ---- a loss that is not finite ---- */

static void train_name_sample(const struct train_run *run, const struct gyre_batch *batch, const int64_t *samples, int32_t i,
                              char *text, size_t room)
{
    char name[248], partner[248];
    gyre_sample_name(run->config.train, samples[i], name, sizeof name);
    if (batch->mix && batch->mix[i].partner != i) {
        gyre_sample_name(run->config.train, samples[batch->mix[i].partner], partner, sizeof partner);
        snprintf(text, room, "%s, mixed with %s", name, partner);
    } else
        snprintf(text, room, "%s", name);
}

/* Nothing of one sample: all could be the cause, so up to eight are listed in the log. */
static void train_list_samples(const struct train_run *run, const struct gyre_batch *batch, const int64_t *samples)
{
    char text[512];
    const int32_t shown = batch->count < 8 ? batch->count : 8;
    for (int32_t i = 0; i < shown; i++) {
        train_name_sample(run, batch, samples, i, text, sizeof text);
        gy_log_write(gy_engine_log(run->net), GY_LOG_ERROR, "sample %d of %d of this batch: %s", i, batch->count, text);
    }
}

/* Shard by shard. */
static int train_replay(struct train_run *run, const struct gyre_batch *batch, int32_t *sample, struct gyre_error *where)
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

static int train_locate(struct train_run *run, const struct gyre_batch *batch, const int64_t *samples)
{
    struct gyre_error where = { 0 };
    char name[512];
    int32_t sample = -1;
    const int status = train_replay(run, batch, &sample, &where);
    if (status == GYRE_OK)
        snprintf(where.text, sizeof where.text, "a replay with all tensors checked found none");
    else if (status != GYRE_E_NONFINITE)
        return gy_engine_fail(run->net, status, "%s", where.text);
    if (sample >= 0 && sample < batch->count) {
        train_name_sample(run, batch, samples, sample, name, sizeof name);
        return gy_engine_fail(run->net, GY_E_NONFINITE, "step %" PRId64 " is not finite: %.220s; image %.220s", run->done + 1,
                              where.text, name);
    }
    train_list_samples(run, batch, samples);
    train_name_sample(run, batch, samples, 0, name, sizeof name);
    return gy_engine_fail(run->net, GY_E_NONFINITE, "step %" PRId64 " is not finite: %.240s; the batch's %d images begin with %.160s",
                          run->done + 1, where.text, batch->count, name);
}

/* ---- the loop ---- */

static int train_row(struct train_run *run, const struct gyre_report *test)
{
    struct gy_run_row row = { .step = run->done, .samples = run->row.labelled, .epoch = run->progress.epoch,
                              .rate = (double)run->progress.rate, .images_per_second = run->progress.images_per_second,
                              .skipped_steps = run->net->scale.skipped,
                              .loss_scale = run->net->config.dtype == GYRE_F16 ? (double)run->net->scale.now : 0 };
    row.loss = train_mean(run->row.loss, run->row.labelled);
    row.accuracy = train_mean((double)run->row.right, run->row.labelled);
    if (test) {
        row.tested = 1;
        row.test_loss = test->loss;
        row.test_accuracy = test->top1;
        row.test_top5 = test->top5;
    }
    if (run->config.folder)
        GY_TRY(gy_run_files_row(&run->files, &row, &run->net->error));
    memset(&run->row, 0, sizeof run->row); /* not before: a checkpoint of a run that fails here has them */
    return GY_OK;
}

static int train_test(struct train_run *run, struct gyre_report *report)
{
    struct gyre_evaluate_config c;
    struct gyre_progress *p = &run->progress;
    gyre_evaluate_config_default(&c);
    c.data = run->config.test;
    c.resize = run->config.augment.resize;
    c.loader_threads = run->config.loader_threads;
    const int64_t began = gy_trace_clock(run->net);
    GY_TRY(gyre_evaluate(run->net, &c, report));
    gy_trace_put(run->net, GY_TRACE_INPUT, "test", "evaluate", "evaluation", began, 0);
    run->seconds_per_test = report->seconds;
    p->test_loss = report->loss;
    p->test_accuracy = report->top1;
    p->test_top5 = report->top5;
    return GY_OK;
}

static int train_end_epoch(struct train_run *run)
{
    struct gyre_report report;
    struct gyre_progress *p = &run->progress;
    p->test_loss = p->test_accuracy = p->test_top5 = (double)NAN;
    if (run->config.test)
        GY_TRY(train_test(run, &report));
    GY_TRY(train_row(run, run->config.test ? &report : NULL));
    train_report(run, "epoch");
    memset(&run->epoch, 0, sizeof run->epoch);
    if (run->config.folder)
        GY_TRY(gy_run_files_curve(&run->files, run->per_epoch, &run->net->error));
    run->epoch_first = run->done;
    run->epoch_began = gy_clock_ns();
    return GY_OK;
}

/* Batches of a pipeline's update come together. They are counted one by one, and rows that were
 * due meanwhile are written. */
static int train_count(struct train_run *run, const struct gyre_result *result)
{
    struct gyre_result one = *result;
    const int64_t now = run->done + 1, before = now - run->net->config.accumulate;
    const int apart = run->net->pipe && run->net->pipe->result(run->net, 0, &one);
    for (int k = 0; k == 0 || (apart && run->net->pipe->result(run->net, k, &one)); k++) {
        train_sum(&run->epoch, &one);
        train_sum(&run->row, &one);
        run->done = apart ? before + k + 1 : now;
        if (run->done < now && run->done % run->row_every == 0 && run->done % run->per_epoch != 0)
            GY_TRY(train_row(run, NULL));
    }
    return GY_OK;
}

static int train_batch(struct train_run *run)
{
    struct gyre_batch batch = { 0 };
    const int64_t *samples = NULL;
    struct gyre_error error;
    struct gyre_result result;
    const int64_t began = gy_trace_clock(run->net);
    int status = gyre_next_batch(run->loader, &batch, &samples, &error);
    gy_trace_put(run->net, GY_TRACE_INPUT, "wait for images", "input", "input", began, 0);
    if (status != GYRE_OK)
        return gy_engine_fail(run->net, status, "%s", error.text);
    run->between = 0;
    status = gyre_step(run->net, &batch, &result);
    if (status == GYRE_E_NONFINITE && !run->net->pipe)
        return train_locate(run, &batch, samples);
    GY_TRY(status);
    run->between = 1;
    run->progress.rate = result.rate;
    GY_TRY(train_count(run, &result));
    train_times(run);
    train_report(run, "step");
    return GY_OK;
}

static int train_is_epoch(const struct train_run *run) { return run->done % run->per_epoch == 0 || run->done == run->total; }

/* Is now the time for a checkpoint? What remains behind the last update of several ranks is in none, and is done again by a longer run. */
static int train_saves(const struct train_run *run)
{
    const int64_t every = run->config.checkpoint_steps, left = run->total - run->done;
    const int short_of = train_several(run) && !train_waits(run) && left < run->net->config.accumulate;
    const int final = left == 0 || short_of;
    return final || run->due || (every ? run->done % every == 0 : train_is_epoch(run));
}

/* All ranks have the same weights, or there is no checkpoint of them, nor one of what comes behind. */
static int train_keep(struct train_run *run)
{
    run->due = train_waits(run);
    if (run->due)
        return GY_OK;
    if (run->compared != run->done) {
        run->compared = run->done;
        run->between = 0;
        GY_TRY(gy_same_weights(run->net, run->done));
        run->between = 1;
    }
    GY_TRY(train_lend(run));
    return train_save(run);
}

/* What a step is followed by: the end of an epoch, or a row. */
static int train_conclude(struct train_run *run)
{
    if (train_is_epoch(run))
        return train_end_epoch(run);
    const int later = run->net->pipe && train_waits(run);
    return run->done % run->row_every == 0 && !later ? train_row(run, NULL) : GY_OK;
}

/* A checkpoint comes before the test and the row of its step, which can fail. Where a run goes on and that row is not there, they come now. */
static int train_catch_up(struct train_run *run)
{
    int64_t due = run->saved >= 0 && gy_run_files_last(&run->files) < run->saved;
    if (run->net->pipe) /* all stages test */
        GY_TRY(gy_peers_follow(run->net->config.job, &due, &run->net->error));
    if (run->saved < 0 && !due)
        return GY_OK;
    if (due) {
        run->progress.rate = gy_schedule_rate(&run->net->config.schedule, run->net->updates - (run->net->pending == 0)); /* of that step */
        return train_conclude(run);
    }
    memset(&run->row, 0, sizeof run->row);
    if (run->done % run->per_epoch == 0)
        memset(&run->epoch, 0, sizeof run->epoch);
    return GY_OK;
}

static int train_loop(struct train_run *run)
{
    const int several = train_several(run);
    run->between = 1;
    GY_TRY(train_catch_up(run));
    run->net->parallel.stop = run->stop;
    run->halt = !several && run->stop;
    while (run->done < run->total && (!run->halt || train_waits(run))) {
        GY_TRY(train_batch(run));
        if (train_saves(run))
            GY_TRY(train_keep(run));
        GY_TRY(train_conclude(run));
        /* whatever was reported above may have asked to stop: the next step tells all ranks, which stop behind it, or behind an update */
        run->net->parallel.stop = run->stop;
        run->halt = run->halt || (several ? run->net->parallel.stopped : run->stop);
    }
    return GY_OK;
}

static int train_finish(struct train_run *run)
{
    if (run->done == run->total && run->net->pending > 0 && gyre_job_rank(run->net->config.job) == 0)
        gy_log_write(gy_engine_log(run->net), GY_LOG_WARN, "the last %d of %" PRId64 " steps have made no update: accumulate is %d", run->net->pending,
                     run->total, run->net->config.accumulate);
    GY_TRY(train_keep(run));
    if (run->config.folder && run->done > 0)
        GY_TRY(gy_run_files_curve(&run->files, run->per_epoch, &run->net->error));
    return run->done < run->total ? gy_engine_fail(run->net, GY_E_STOPPED, "stopped after %" PRId64 " of %" PRId64 " steps",
                                                   run->done, run->total)
                                  : GY_OK;
}

/* A run that fails between two steps, for want of data or of a disk for its rows, can go on later from where it was. */
static void train_rescue(struct train_run *run)
{
    const struct gyre_error error = *gyre_last_error(run->net);
    if (run->between && run->done > 0 && !run->net->pipe && train_save(run) != GYRE_OK)
        gy_log_write(gy_engine_log(run->net), GY_LOG_ERROR, "no checkpoint could be written either: %s",
                     gyre_last_error(run->net)->text);
    gy_engine_fail(run->net, error.status, "%s", error.text);
}

GYRE_API int gyre_train(struct gyre_net *net, const struct gyre_train_config *config)
{
    GY_TRY(gy_engine_given(net, config, "gyre_train: config"));
    struct train_run run = { .net = net };
    gyre_train_config_default(&run.config);
    GY_TRY(gy_config_take(&run.config, sizeof run.config, config, offsetof(struct gyre_train_config, epochs),
                          "train config", &net->error));
    int status = train_open(&run);
    if (status == GY_OK) {
        status = train_loop(&run);
        if (status == GY_OK)
            status = train_finish(&run);
        else
            train_rescue(&run);
    }
    return train_close(&run, status);
}

#undef TRAIN_ROWS
