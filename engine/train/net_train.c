/* SPDX-License-Identifier: MIT */
/* net_train.c: gyre_train, the training loop: batches from the loader through gyre_step, an
 * evaluation after each epoch, rows of metrics, checkpoints. A checkpoint also has, as notes, the
 * sums that the next row and epoch need. Random numbers of loader and net are counted. So a resumed
 * run ends with the same bits as one that never stopped. */
#include "engine/train/outlive.h"
#include "engine/train/train_lead.h"
#include "engine/train/train_nonfinite.h"
#include "engine/train/train_notes.h"
#include "engine/train/same_weights.h"
#include "engine/base/clock.h"
#include "engine/job/peers.h"
#include "engine/run/parallel.h"
#include "engine/run/trace.h"

#define TRAIN_AGAIN 20 /* tries; a loss while ranks come together costs one */
#define TRAIN_GROWS 1  /* a status of this file: newcomers wait */
#define TRAIN_ROWS 20 /* rows of metrics in an epoch, about */

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

/* ---- what takes time, for the trace and the recorder of ranks ---- */

static int64_t train_begin(struct train_run *run, int note)
{
    gy_peers_note(run->net->config.job, note, 0, run->done);
    return gy_trace_clock(run->net);
}

static void train_ended(struct train_run *run, int note, int64_t began)
{
    static const struct {
        int note;
        const char *name, *what, *group;
    } rows[] = { { GY_DOES_BATCH, "wait for images", "input", "input" },
                 { GY_DOES_SAVE, "checkpoint", "save", "files" },
                 { GY_DOES_TEST, "test", "evaluate", "evaluation" } };
    gy_peers_note(run->net->config.job, note, 1, run->done);
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        if (rows[i].note == note)
            gy_trace_put(run->net, GY_TRACE_INPUT, rows[i].name, rows[i].what, rows[i].group, began,
                         0);
}

/* ---- checkpoints ---- */

/* Several ranks have gradients of their own that wait for their update. A checkpoint has room for
 * those of one rank, so it comes after the update. */
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
    if (!run->lends || run->lent == run->done || train_waits(run))
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
    GY_TRY(gy_train_write_notes(run));
    const int64_t began = train_begin(run, GY_DOES_SAVE);
    GY_TRY(gy_train_served_fetch(&run->served, 1, run->done == run->total || run->halt));
    const int64_t own = run->net->micro;
    run->net->micro = run->done;
    const int saved = gyre_save(run->net, path);
    run->net->micro = own;
    GY_TRY(saved);
    train_ended(run, GY_DOES_SAVE, began);
    run->saved = run->done;
    GY_TRY(gy_checkpoints_prune(gy_engine_scratch(run->net), gy_engine_log(run->net), run->config.folder, run->done, run->config.keep,
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

/* Tries the newest first, until one can be loaded. If none can, the first sentence counts. */
static int train_load_newest(struct train_run *run, const struct gy_checkpoints *list)
{
    struct gyre_error first = { 0 };
    char path[4096];
    for (int i = 0; i < list->count; i++) {
        GY_TRY(gy_checkpoint_path(path, sizeof path, run->config.folder, list->steps[i], &run->net->error));
        if (train_load(run, path, list->steps[i]) == GYRE_OK) {
            run->done = run->saved = run->net->micro;
            gy_log_write(gy_engine_log(run->net), GY_LOG_INFO, "going on from %s", path);
            return gy_train_read_notes(run, path);
        }
        if (!gy_checkpoint_is_bad(gyre_last_error(run->net)->status))
            return gyre_last_error(run->net)->status;
        if (i == 0)
            first = *gyre_last_error(run->net);
        gy_log_write(gy_engine_log(run->net), GY_LOG_WARN, "this checkpoint cannot be used: %s", gyre_last_error(run->net)->text);
    }
    return gy_engine_fail(run->net, first.status, "%.420s; no older one can be used", first.text);
}

/* What is in the folder already: go on, start anew, or refuse. Nothing is removed yet. */
static int train_take_folder(struct train_run *run, const struct gy_checkpoints *list)
{
    char path[4096];
    struct gy_error *err = &run->net->error;
    if (list->count == 0)
        return GY_OK;
    if (run->config.resume)
        return train_load_newest(run, list);
    if (run->config.overwrite)
        return GY_OK;
    GY_TRY(gy_checkpoint_path(path, sizeof path, run->config.folder, list->steps[0], err));
    return gy_engine_fail(run->net, GY_E_STATE, "%.300s is there: the folder holds a run; resume it, overwrite it, or take another "
                          "folder", path);
}

static int train_open_folder(struct train_run *run)
{
    struct gy_checkpoints list;
    const struct gy_alloc *alloc = gy_engine_scratch(run->net);
    GY_TRY(gy_file_make_folder(run->config.folder, &run->net->error));
    GY_TRY(gy_run_folder_lock(&run->lock, run->config.folder, &run->net->error));
    gy_run_folder_clean(run->config.folder);
    GY_TRY(gy_checkpoints_list(&list, alloc, run->config.folder, &run->net->error));
    const int status = train_take_folder(run, &list);
    gy_checkpoints_close(&list);
    return status;
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
    c.part = run->net->parallel.first / run->net->parallel.mine; /* blocks begin at multiples */
    c.parts = run->all / run->mine;
    c.groups = run->mine / run->shape.batch;
    const int status = gyre_open_loader(&run->loader, run->config.train, &c, &error);
    return status == GYRE_OK ? GYRE_OK : gy_engine_fail(run->net, status, "%s", error.text);
}

/* Folders number their classes by name. A class that one side lacks would shift all labels. */
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
    return gy_data_warn_empty(c->train->data, "the training data", gy_engine_scratch(run->net), gy_engine_log(run->net), &run->net->error);
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

/* Rank 0 alone tests, writes and reports. The others only look whether there is something to
 * resume. */
static int train_follow(struct train_run *run)
{
    struct gy_checkpoints list;
    const char *folder = run->config.folder;
    int status = GY_OK;
    run->config.test = run->net->pipe && run->net->pipe->test(run->net) ? run->config.test : NULL;
    run->config.progress = NULL;
    if (folder && run->config.resume && !run->joined) {
        GY_TRY(gy_checkpoints_list(&list, gy_engine_scratch(run->net), folder, &run->net->error));
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
    const int64_t step = job->elastic ? run->total : run->done; /* then ranks may stand apart */
    int64_t saves = run->given.folder != NULL;
    /* weights are compared at checkpoints, and lent to rank 0, where it writes any */
    GY_TRY(gy_peers_follow(job, &run->config.checkpoint_steps, &run->net->error));
    GY_TRY(gy_peers_follow(job, &saves, &run->net->error));
    run->lends = run->net->pipe && saves && gyre_job_rank(job) > 0;
    GY_TRY(gy_peers_agree(job, "number of training samples", (uint64_t)run->info.samples, &run->net->error));
    const char *const what = job->elastic ? "number of steps" : "step that the run goes on from";
    return gy_peers_agree(job, what, (uint64_t)step, &run->net->error);
}

/* ---- ranks that were lost, and others that came ---- */

static int train_check_elastic(struct train_run *run)
{
    const struct gyre_job *const job = run->net->config.job;
    const struct gy_parallel *const p = &run->net->parallel;
    if (!job || !job->elastic)
        return GY_OK;
    if (!p->sharded || (p->shards & (p->shards - 1)) != 0)
        return gy_engine_fail(run->net, GY_E_ARG, "a job that outlives its ranks needs shards, "
                              "1, 2, 4, 8 ... of them, that others can take over; there are %d",
                              p->sharded ? p->shards : 0);
    if (job->elastic > p->shards)
        return gy_engine_fail(run->net, GY_E_ARG, "a job of up to %d ranks needs as many shards; "
                              "there are %d", job->elastic, p->shards);
    return GY_OK;
}

static void train_pack(const struct train_run *run, struct train_state *s)
{
    memset(s, 0, sizeof *s); /* its bytes travel */
    *s = (struct train_state){ run->done, run->concluded, run->epoch, run->row, run->last_epoch,
                               run->last_row, run->halt };
}

static void train_unpack(struct train_run *run, const struct train_state *s)
{
    run->done = s->done;
    run->before = s->done - 1;
    run->concluded = s->concluded;
    run->epoch = s->epoch;
    run->row = s->row;
    run->last_epoch = s->last_epoch;
    run->last_row = s->last_row;
    run->halt = s->halt != 0;
}

/* All ranks stand at the same step, and each reads its part of the next one's samples. */
static int train_come(struct train_run *run)
{
    struct gyre_job *const job = run->net->config.job;
    struct train_state state;
    if (job && job->elastic) {
        train_pack(run, &state);
        GY_TRY(gy_outlive_share(run->net, &state, sizeof state));
        train_unpack(run, &state);
        if (job->rank == 0 && !run->leads)
            GY_TRY(gy_train_lead(run));
    }
    run->mine = run->shape.batch * run->net->parallel.mine;
    gyre_close_loader(run->loader);
    run->loader = NULL;
    return train_open_loader(run);
}

/* Those that are left come together, with what they have learnt, as often as it takes. */
static int train_again(struct train_run *run, int lost)
{
    struct gy_outlive kept;
    const struct gyre_error why = *gyre_last_error(run->net);
    const int64_t began = gy_clock_ns();
    const int were = run->net->parallel.ranks;
    int status = gy_outlive_keep(&kept, run->net, run->stepping);
    run->between = run->stepping = 0;
    kept.updates = run->done;
    for (int tries = 0; status == GY_OK || (status == GY_E_PEER && tries < TRAIN_AGAIN); tries++) {
        status = gy_outlive_again(run->net, &kept);
        status = status == GY_OK ? train_agree(run) : status;
        status = status == GY_OK ? train_come(run) : status;
        if (status == GY_OK)
            break;
    }
    gy_outlive_drop(&kept, run->net);
    run->compared = -1;
    if (status == GY_E_STATE)
        status = gy_engine_fail(run->net, GY_E_PEER, "%s", gyre_last_error(run->net)->text);
    if (status == GY_OK && run->leads && lost)
        gy_log_write(gy_engine_log(run->net), GY_LOG_WARN, "%s; %d of %d ranks go on behind step %"
                     PRId64 ", %.0f ms later", why.text, run->net->parallel.ranks, were, run->done,
                     (double)(gy_clock_ns() - began) * 1e-6);
    else if (status == GY_OK && run->leads)
        gy_log_write(gy_engine_log(run->net), GY_LOG_INFO, "%d ranks go on behind step %" PRId64
                     "; they were %d", run->net->parallel.ranks, run->done, were);
    return status;
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
    run->done = run->before = run->net->micro;
    run->saved = run->lent = run->compared = -1;
    run->progress.loss = run->progress.accuracy = (double)NAN;
    run->given = run->config;
    run->leads = gyre_job_rank(run->net->config.job) == 0;
    run->joined = run->net->config.job && run->net->config.job->joined;
    GY_TRY(train_check_elastic(run));
    if (run->leads && run->config.folder)
        GY_TRY(train_open_folder(run));
    else if (!run->leads)
        GY_TRY(train_follow(run));
    run->concluded = run->done;
    run->last_epoch = run->epoch;
    run->last_row = run->row;
    run->written = -1;
    GY_TRY(train_agree(run));
    run->before = run->done - 1;
    if (!gy_train_served_serves(&run->served))
        GY_TRY(train_come(run));
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
    gy_train_served_close(&run->served);
    if (closed == GY_OK || (status != GY_OK && status != GY_E_STOPPED))
        return status;
    return gy_engine_fail(run->net, closed, "%s", err.text);
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
    if (run->config.folder && run->written < run->done) /* a rank that was lost may have done so */
        GY_TRY(gy_run_files_row(&run->files, &row, &run->net->error));
    run->written = run->done;
    /* not before: if the run fails here, its checkpoint has them */
    memset(&run->row, 0, sizeof run->row);
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
    const int64_t began = train_begin(run, GY_DOES_TEST);
    GY_TRY(gy_train_served_fetch(&run->served, 0, 0));
    GY_TRY(gyre_evaluate(run->net, &c, report));
    train_ended(run, GY_DOES_TEST, began);
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
 * due meanwhile are written. Workers that do not go in step count what all have done, as the
 * servers say. */
static int train_count(struct train_run *run, const struct gyre_result *result)
{
    struct gyre_result one = *result;
    const int64_t now = run->done + 1, first = now - run->net->config.accumulate;
    const int apart = run->net->pipe && run->net->pipe->result(run->net, 0, &one);
    run->before = run->done;
    for (int k = 0; k == 0 || (apart && run->net->pipe->result(run->net, k, &one)); k++) {
        train_sum(&run->epoch, &one);
        train_sum(&run->row, &one);
        run->done = apart ? first + k + 1 : now;
        if (run->done < now && run->done % run->row_every == 0 && run->done % run->per_epoch != 0)
            GY_TRY(train_row(run, NULL));
    }
    GY_TRY(gy_train_served_turn(run));
    if (!gy_train_served_jumps(&run->served))
        return GY_OK;
    run->done = gy_max64(run->before, gy_min64(run->total, gy_train_served_steps(&run->served)));
    /* Others may be beyond the total. */
    run->net->updates = run->done / run->net->config.accumulate;
    return GY_OK;
}

static int train_batch(struct train_run *run)
{
    struct gyre_batch batch = { 0 };
    const int64_t *samples = NULL;
    struct gyre_error error;
    struct gyre_result result;
    const int64_t began = train_begin(run, GY_DOES_BATCH);
    int status = gyre_next_batch(run->loader, &batch, &samples, &error);
    train_ended(run, GY_DOES_BATCH, began);
    if (status != GYRE_OK)
        return gy_engine_fail(run->net, status, "%s", error.text);
    run->between = 0;
    run->stepping = 1;
    train_begin(run, GY_DOES_STEP);
    status = gyre_step(run->net, &batch, &result);
    gy_peers_note(run->net->config.job, GY_DOES_STEP, 1, run->done + 1);
    if (status == GYRE_E_NONFINITE && !run->net->pipe)
        return gy_train_locate(run, &batch, samples);
    GY_TRY(status);
    run->between = 1;
    run->stepping = 0;
    run->progress.rate = result.rate;
    GY_TRY(train_count(run, &result));
    train_times(run);
    train_report(run, "step");
    return GY_OK;
}

/* 1: the last step reached or passed a multiple of `turn` batches. */
static int train_passes(const struct train_run *run, int64_t turn)
{
    return run->done / turn != run->before / turn;
}
static int train_is_epoch(const struct train_run *run)
{
    return train_passes(run, run->per_epoch) || (run->done == run->total &&
                                                 run->before < run->total);
}

/* Is now the time for a checkpoint? Batches after the last update of several ranks are in none; a
 * longer run does them again. */
static int train_saves(const struct train_run *run)
{
    const int64_t every = run->config.checkpoint_steps, left = run->total - run->done;
    const int short_of = train_several(run) && !train_waits(run) && left < run->net->config.accumulate;
    const int final = left == 0 || short_of;
    return final || run->due || (every ? train_passes(run, every) : train_is_epoch(run));
}

/* All ranks have the same weights, or neither a checkpoint nor anything after it is written. */
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
static int train_is_row(const struct train_run *run)
{
    return train_is_epoch(run) || train_passes(run, run->row_every);
}

static int train_conclude(struct train_run *run)
{
    const struct train_sums epoch = run->epoch, row = run->row;
    const int later = run->net->pipe && train_waits(run);
    if (train_is_epoch(run))
        GY_TRY(train_end_epoch(run));
    else if (train_is_row(run) && !later)
        GY_TRY(train_row(run, NULL));
    run->concluded = run->done;
    run->last_epoch = epoch;
    run->last_row = row;
    return GY_OK;
}

/* A checkpoint comes before the test and the row of its step, which can fail. If a resumed run
 * lacks that row, they come now. */
static int train_catch_up(struct train_run *run)
{
    int64_t due = run->saved >= 0 && gy_run_files_last(&run->files) < run->saved;
    if (run->net->pipe) /* all stages test */
        GY_TRY(gy_peers_follow(run->net->config.job, &due, &run->net->error));
    if (run->saved < 0 && run->lent < 0 && !due)
        return GY_OK;
    if (due) {
        /* the rate of that step */
        run->progress.rate = gy_schedule_rate(&run->net->config.schedule, run->net->updates - (run->net->pending == 0));
        return train_conclude(run);
    }
    memset(&run->row, 0, sizeof run->row);
    if (run->done % run->per_epoch == 0)
        memset(&run->epoch, 0, sizeof run->epoch);
    return GY_OK;
}

/* Catches up after a loss of ranks: what follows the last step may have been lost with one. A
 * checkpoint has the sums that the step left. */
static int train_mend(struct train_run *run)
{
    const struct train_sums epoch = run->epoch, row = run->row;
    const int over = run->concluded == run->done;
    run->between = 1;
    if (run->done == 0)
        return GY_OK;
    if (over) {
        run->epoch = run->last_epoch;
        run->row = run->last_row;
    }
    if (train_saves(run))
        GY_TRY(train_keep(run));
    if (!over || (run->leads && train_is_row(run) && run->written < run->done))
        return train_conclude(run);
    run->epoch = epoch;
    run->row = row;
    return GY_OK;
}

/* TRAIN_GROWS: newcomers wait. */
static int train_loop(struct train_run *run)
{
    const int several = train_several(run);
    struct gyre_job *const job = run->net->config.job;
    run->between = 1;
    run->net->parallel.stop = run->stop;
    run->halt = run->halt || (!several && run->stop);
    while (run->done < run->total && (!run->halt || train_waits(run))) {
        run->net->parallel.grow = job && job->elastic && job->peers->look(job);
        GY_TRY(train_batch(run));
        if (train_saves(run))
            GY_TRY(train_keep(run));
        GY_TRY(train_conclude(run));
        GY_TRY(gy_train_served_meet(run));
        /* a callback above may have asked to stop; the next step tells all ranks, and they stop
         * after it, or after an update */
        run->net->parallel.stop = run->stop;
        run->halt = run->halt || (several ? run->net->parallel.stopped : run->stop);
        if (run->net->parallel.grown && run->done < run->total && !run->halt)
            return TRAIN_GROWS;
    }
    return GY_OK;
}

/* A rank ends when rank 0 has written all: until then it may have to take over. */
static int train_leave(struct train_run *run)
{
    struct gyre_job *const job = run->net->config.job;
    int any;
    return job && job->elastic ? gy_peers_any(job, 0, &any, &run->net->error) : GY_OK;
}

static int train_finish(struct train_run *run)
{
    if (run->done == run->total && run->net->pending > 0 && gyre_job_rank(run->net->config.job) == 0)
        gy_log_write(gy_engine_log(run->net), GY_LOG_WARN, "the last %d of %" PRId64 " steps have made no update: accumulate is %d", run->net->pending,
                     run->total, run->net->config.accumulate);
    GY_TRY(train_keep(run));
    if (run->config.folder && run->done > 0)
        GY_TRY(gy_run_files_curve(&run->files, run->per_epoch, &run->net->error));
    GY_TRY(train_leave(run));
    return run->done < run->total ? gy_engine_fail(run->net, GY_E_STOPPED, "stopped after %" PRId64 " of %" PRId64 " steps",
                                                   run->done, run->total)
                                  : GY_OK;
}

/* A run that fails between two steps, for lack of data or of disk space, can go on later from
 * there. */
static void train_rescue(struct train_run *run)
{
    const struct gyre_error error = *gyre_last_error(run->net);
    if (run->between && run->done > 0 && !run->net->pipe && train_save(run) != GYRE_OK)
        gy_log_write(gy_engine_log(run->net), GY_LOG_ERROR, "no checkpoint could be written either: %s",
                     gyre_last_error(run->net)->text);
    gy_engine_fail(run->net, error.status, "%s", error.text);
}

/* From here to the end, through losses of ranks where the job outlives them. */
static int train_whole(struct train_run *run)
{
    const int elastic = run->net->config.job && run->net->config.job->elastic;
    int status = train_loop(run);
    status = status == GY_OK ? train_finish(run) : status;
    while (elastic && (status == GY_E_PEER || status == TRAIN_GROWS)) {
        GY_TRY(train_again(run, status == GY_E_PEER));
        status = train_mend(run);
        status = status == GY_OK ? train_loop(run) : status;
        status = status == GY_OK ? train_finish(run) : status;
    }
    return status;
}

/* With servers: all ranks learn what they counted. A worker that waited, and leads now, saves what
 * the last one may have not. */
static int train_leave_servers(struct train_run *run, int status)
{
    const struct gyre_error error = *gyre_last_error(run->net);
    if (!run->served.calls || (status != GY_OK && status != GY_E_STOPPED))
        return status;
    for (int left; (left = gy_train_served_leave(&run->served, run->leads)) != GY_OK;) {
        if (left < 0)
            return left;
        GY_TRY(gy_train_served_turn(run));
        GY_TRY(train_keep(run));
        GY_TRY(train_mend(run));
    }
    gy_train_served_warn(&run->served, run->leads);
    gy_train_served_report(run);
    if (run->config.progress)
        train_report(run, "servers");
    return status == GY_OK ? status : gy_engine_fail(run->net, error.status, "%s", error.text);
}

GYRE_API int gyre_train(struct gyre_net *net, const struct gyre_train_config *config)
{
    GY_TRY(gy_engine_given(net, config, "gyre_train: config"));
    struct train_run run = { .net = net };
    gyre_train_config_default(&run.config);
    GY_TRY(gy_config_take(&run.config, sizeof run.config, config, offsetof(struct gyre_train_config, epochs),
                          "train config", &net->error));
    gy_train_served_open(&run.served, net);
    int status = train_open(&run);
    if (status == GY_OK && run.served.calls)
        status = gy_train_served_begin(&run.served, (uint64_t)run.info.samples ^
                                                        (uint64_t)run.total << 32);
    if (status == GY_OK && run.joined && run.served.calls) {
        gy_train_served_place(&run);
        status = train_come(&run);
    }
    if (status == GY_OK && !gy_train_served_serves(&run.served)) {
        status = gy_train_open_files(&run);
        if (status == GY_OK)
            status = run.joined ? train_mend(&run) : train_catch_up(&run);
        status = status == GY_OK ? train_whole(&run) : status;
        if (status != GY_OK && status != GY_E_STOPPED)
            train_rescue(&run);
    }
    status = train_close(&run, train_leave_servers(&run, status));
    if (status != GY_OK && net->config.job)
        net->config.job->peers->failed(net->config.job, status, net->error.text);
    return status;
}
