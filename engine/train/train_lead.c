/* SPDX-License-Identifier: MIT */
/* train_lead.c: the files of the rank that leads. One that leads next takes the folder, and
 * continues the rows that are in it. With servers it is the next worker; without them, rank 0 of
 * those that are left. */
#include <time.h>

#include "engine/base/clock.h"
#include "engine/job/peers.h"
#include "engine/train/train_lead.h"

#define LEAD_LOCK_NS 8000000000LL /* a lost process may stand still before it is ended */
#define LEAD_LOOK_NS 100000000

static int lead_lock(struct train_run *run)
{
    const struct timespec pause = { 0, LEAD_LOOK_NS };
    const int64_t deadline = gy_clock_ns() + LEAD_LOCK_NS;
    int status;
    while ((status = gy_run_folder_lock(&run->lock, run->config.folder, &run->net->error)) ==
               GY_E_STATE &&
           gy_clock_ns() < deadline)
        nanosleep(&pause, NULL);
    return status;
}

/* Rank 0 was lost: this one tests, writes and reports from now on. */
GY_INT int gy_train_lead(struct train_run *run)
{
    struct gy_error *const err = &run->net->error;
    run->config.test = run->given.test;
    run->config.progress = run->given.progress;
    run->config.folder = run->given.folder;
    run->leads = 1;
    run->saved = run->written = -1;
    run->epoch_first = run->done;
    run->epoch_began = gy_clock_ns();
    if (!run->config.folder)
        return GY_OK;
    GY_TRY(gy_file_make_folder(run->config.folder, err));
    GY_TRY(lead_lock(run));
    gy_run_folder_clean(run->config.folder);
    GY_TRY(gy_run_files_open(&run->files, gy_engine_scratch(run->net), run->config.folder, run->done,
                             err));
    run->written = gy_run_files_last(&run->files);
    return GY_OK;
}

GY_INT int gy_train_open_files(struct train_run *run)
{
    const struct gy_alloc *const alloc = gy_engine_scratch(run->net);
    const char *const folder = run->config.folder;
    struct gy_error *const err = &run->net->error;
    if (!folder || run->files.csv)
        return GY_OK;
    if (run->config.overwrite)
        GY_TRY(gy_checkpoints_prune(alloc, gy_engine_log(run->net), folder, INT64_MAX, 0, err));
    GY_TRY(gy_run_files_open(&run->files, alloc, folder, run->saved, err));
    run->written = gy_run_files_last(&run->files);
    return GY_OK;
}

GY_INT int gy_train_served_turn(struct train_run *run)
{
    if (!run->served.calls)
        return GY_OK;
    const int leads = run->leads;
    if (!leads && gy_train_served_leads(&run->served))
        GY_TRY(gy_train_lead(run));
    gy_train_served_warn(&run->served, run->leads);
    if (run->leads && !leads)
        gy_log_write(gy_engine_log(run->net), GY_LOG_INFO,
                     "this worker tests and saves from step %" PRId64 " on", run->done);
    return GY_OK;
}

GY_INT int gy_train_served_meet(struct train_run *run)
{
    struct gyre_job *const job = run->net->config.job;
    if (!run->served.calls || run->net->pending > 0)
        return GY_OK;
    GY_TRY(run->served.calls->meet(job, run->done, &run->net->error));
    const int came = run->served.calls->came(job);
    if (came > 0 && run->leads)
        gy_log_write(gy_engine_log(run->net), GY_LOG_WARN, "%d worker%s joined behind step %"
                     PRId64, came, came > 1 ? "s" : "", run->done);
    return GY_OK;
}

GY_INT void gy_train_served_place(struct train_run *run)
{
    const struct gy_train_served *const t = &run->served;
    const int64_t steps =
        gy_train_served_jumps(t) ? gy_train_served_steps(t) : t->calls->steps(run->net->config.job);
    run->done = run->concluded = run->compared = run->epoch_first = gy_min64(run->total, steps);
    run->before = run->done - 1;
    run->net->micro = run->done;
    run->net->updates = run->done / run->net->config.accumulate;
}

GY_INT void gy_train_served_report(struct train_run *run)
{
    const struct gy_served_report *const report = &run->served.report;
    struct gyre_progress *const p = &run->progress;
    p->taken = report->taken;
    p->late = report->dropped;
    p->lost = report->lost;
    p->joined = report->came;
    p->again = report->again;
    memcpy(p->stale, report->stale, sizeof p->stale);
}

#undef LEAD_LOCK_NS
#undef LEAD_LOOK_NS
