/* SPDX-License-Identifier: MIT */
/* served_job.c: makes a job of workers from one that has servers as well; job.c opens it. Before
 * serving begins and after it ends, calls go to the job of all; in between they go to the
 * servers. */
#include "engine/base/hash.h"
#include "engine/job/deal.h"
#include "engine/job/recorder.h"
#include "engine/job/served_parts.h"

/* ---- what a net and its loop call ---- */

static int served_now(const struct gyre_job *job) { return job->served->phase == GY_SERVED_NOW; }

static const struct gy_peers *served_base(const struct gyre_job *job)
{
    return job->served->all->peers;
}

/* The same behind the recorder, which is of the job of all alone: these calls are for any job, as
 * long as it knows how to sum. */
static const struct gy_peers *served_plain(const struct gyre_job *job)
{
    const struct gyre_job *const all = job->served->all;
    return all->recorder ? all->recorder->inner : all->peers;
}

/* Whose sums are made: those of all ranks, or those of the workers. */
static struct gyre_job *served_those(struct gyre_job *job)
{
    return served_now(job) ? job : job->served->all;
}

static const struct gy_peers *served_calls_for(struct gyre_job *job)
{
    return served_those(job) == job ? served_plain(job) : served_base(job);
}

static int served_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err)
{
    struct gy_served *const s = job->served;
    if (s->phase == GY_SERVED_JOINS)
        return GY_OK;
    return served_now(job) ? gy_worker_sum(s, data, count, err)
                           : served_base(job)->sum(s->all, data, count, err);
}

static int served_any(struct gyre_job *job, int flag, int *out, struct gy_error *err)
{
    *out = flag != 0;
    if (job->served->phase == GY_SERVED_JOINS)
        return GY_OK;
    return served_calls_for(job)->any(served_those(job), flag, out, err);
}

/* Weights of workers that do not go in step are not the same, and need not be. */
static int served_agree_alike(struct gyre_job *job, const char *what, uint64_t kind, uint64_t value,
                              struct gy_error *err)
{
    const int apart = served_now(job) && !gy_served_lockstep(job->served);
    if (apart || job->served->phase == GY_SERVED_JOINS)
        return GY_OK;
    return served_calls_for(job)->agree_alike(served_those(job), what, kind, value, err);
}

static int served_agree(struct gyre_job *job, const char *what, uint64_t value,
                        struct gy_error *err)
{
    return served_agree_alike(job, what, 0, value, err);
}

static int served_follow(struct gyre_job *job, int64_t *value, struct gy_error *err)
{
    if (job->served->phase == GY_SERVED_JOINS)
        return GY_OK;
    return served_calls_for(job)->follow(served_those(job), value, err);
}

static int served_alive(struct gyre_job *job, struct gy_error *err)
{
    return served_base(job)->alive(job->served->all, err);
}

static int served_take(struct gyre_job *job, size_t bytes, void **out, void **sums,
                       struct gy_error *err)
{
    return served_plain(job)->take(job, bytes, out, sums, err);
}

static void served_put(struct gyre_job *job, void *memory) { served_plain(job)->put(job, memory); }

static void served_turn(struct gyre_job *job, const void *memory, int sums)
{
    (void)job, (void)memory, (void)sums; /* nothing is summed there */
}

static int served_start(struct gyre_job *job, float *data, int64_t count, int64_t *ticket,
                        struct gy_error *err)
{
    (void)count;
    return gy_worker_push(job->served, data, ticket, err);
}

/* Weights are put in place where they are waited for: until then some op may read the old ones. */
static int served_test(struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    (void)ticket;
    return served_base(job)->progress(job->served->all, err);
}

static int served_wait(struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    return gy_worker_pull(job->served, ticket, err);
}

static int served_post(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err)
{
    return served_base(job)->post(job->served->all, request, err);
}

static int served_progress(struct gyre_job *job, struct gy_error *err)
{
    return served_base(job)->progress(job->served->all, err);
}

static int served_await(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err)
{
    return served_base(job)->await(job->served->all, request, err);
}

/* ---- begin and end ---- */

static uint64_t served_hash(const void *bytes, size_t count)
{
    return (uint64_t)gy_crc32c(0, bytes, count) << 32 | gy_crc32(0, bytes, count);
}

/* Another way of training is another run. */
static uint64_t served_run(const struct gy_served *s)
{
    const struct gyre_job_config *const c = &s->config;
    const int64_t how[] = { s->workers, s->servers, c->sync, c->backup, c->staleness,
                            c->stale_rate };
    return s->net.run ^ served_hash(how, sizeof how);
}

static int served_slices(struct gy_served *s, struct gy_error *err)
{
    const size_t count = (size_t)s->net.count;
    s->slices = gy_alloc_take(&s->alloc, count, sizeof *s->slices);
    if (!s->slices)
        return GY_NOMEM(err, "the servers' slices", count * sizeof *s->slices);
    for (size_t k = 0; k < count; k++) {
        s->slices[k].first = s->net.slices[k].first;
        s->slices[k].count = s->net.slices[k].count;
    }
    GY_TRY(gy_server_deal(s->slices, s->net.count, s->servers, err));
    return gy_server_slices_check(s->slices, s->net.count, s->servers, s->net.floats, err);
}

/* All ranks have the same slices, of the same run. */
static int served_agree_slices(struct gy_served *s, struct gy_error *err)
{
    uint64_t hash = s->net.run;
    for (int k = 0; k < s->net.count; k++) {
        const int64_t row[3] = { s->slices[k].first, s->slices[k].count, s->slices[k].server };
        hash = hash * 31 + served_hash(row, sizeof row);
    }
    GY_TRY(s->all->peers->agree(s->all, "the servers' slices and the run", hash, err));
    return s->all->peers->agree(s->all, "updates so far", (uint64_t)s->net.version, err);
}

static int served_begin(struct gyre_job *job, const struct gy_served_net *net, struct gy_error *err)
{
    struct gy_served *const s = job->served;
    const int joins = s->phase == GY_SERVED_JOINS;
    int failed = 0;
    s->net = *net;
    s->net.version *= s->config.sync == GYRE_SYNC_ASYNC ? s->workers : 1;
    s->net.run = served_run(s);
    const int status = served_slices(s, err);
    if (!joins)
        GY_TRY(s->all->peers->any(s->all, status != GY_OK, &failed, err));
    GY_TRY(status);
    if (failed)
        return GY_FAIL(err, GY_E_PEER, "another rank cannot cut the parameters into slices");
    if (!joins)
        GY_TRY(served_agree_slices(s, err));
    s->phase = GY_SERVED_NOW;
    if (job->rank < job->ranks) {
        GY_TRY(gy_worker_begin(s, err));
        return joins ? gy_worker_fetch(s, 1, 0, err) : GY_OK;
    }
    const int served = gy_server_serve(s, err);
    s->phase = GY_SERVED_AFTER;
    return served;
}

static int served_fetch(struct gyre_job *job, unsigned regions, int last, struct gy_error *err)
{
    return gy_worker_fetch(job->served, regions, last, err);
}

static int served_leave(struct gyre_job *job, int leads, struct gy_served_report *report,
                        struct gy_error *err)
{
    struct gy_served *const s = job->served;
    const int status = s->phase == GY_SERVED_NOW ? gy_worker_leave(s, leads, err) : GY_OK;
    if (status != GY_OK)
        return status;
    s->phase = GY_SERVED_AFTER;
    *report = s->report;
    return GY_OK;
}

static int served_meet(struct gyre_job *job, int64_t steps, struct gy_error *err)
{
    job->served->steps = steps;
    return gy_worker_meet(job->served, err);
}

static int served_came(struct gyre_job *job)
{
    const int came = job->served->came;
    job->served->came = 0;
    return came;
}

static int64_t served_steps(const struct gyre_job *job) { return job->served->steps; }

static int served_leads(struct gyre_job *job)
{
    if (gy_served_leader(job->served) != job->served->number)
        return 0;
    job->rank = 0;
    return 1;
}

static const char *served_lost(struct gyre_job *job, int *takes)
{
    struct gy_served *const s = job->served;
    const char *text;
    int here = 0;
    for (int w = 0; w < s->workers; w++)
        here += !gy_served_is_lost(s, w, NULL);
    *takes = s->config.sync == GYRE_SYNC_ASYNC ? 0 : here > s->config.backup + 1
                                                         ? here - s->config.backup : 1;
    for (int w = 0; w < s->workers && s->told; w++)
        if (!s->told[w] && gy_served_is_lost(s, w, &text)) {
            s->told[w] = 1;
            return text;
        }
    return NULL;
}

static int64_t served_updates(const struct gyre_job *job)
{
    const struct gy_served *const s = job->served;
    const int64_t version = s->lanes ? s->lanes[0].version : s->net.version;
    return s->config.sync == GYRE_SYNC_ASYNC ? version / s->workers : version;
}

static int served_is_lockstep(const struct gyre_job *job)
{
    return gy_served_lockstep(job->served);
}

static const struct gy_served_calls served_calls = {
    .begin = served_begin, .fetch = served_fetch, .leave = served_leave, .updates = served_updates,
    .is_lockstep = served_is_lockstep, .leads = served_leads, .lost = served_lost,
    .meet = served_meet, .came = served_came, .steps = served_steps,
};

static void served_note(struct gyre_job *job, int note, int ended, int64_t step)
{
    served_base(job)->note(job->served->all, note, ended, step);
}

/* Servers begin no further sum, which would tell that this rank has left. All find a mismatch. */
static void served_failed(struct gyre_job *job, int status, const char *text)
{
    if (status != GY_E_MISMATCH && status != GY_E_PEER && status != GY_E_STOPPED)
        gy_net_comm_fail(job->served->all->world);
    served_base(job)->failed(job->served->all, status, text);
}

/* A server adds what workers push as branches of the same depth. */
static int served_deal(struct gyre_job *job, int shards, int *first, int *count,
                       struct gy_error *err)
{
    GY_TRY(gy_job_deal(job, shards, first, count, err));
    if (job->uneven)
        return GY_FAIL(err, GY_E_ARG, "%d shards cannot be dealt to %d workers: with servers each "
                       "must have as many", shards, job->ranks);
    return GY_OK;
}

static const struct gy_peers served_peers = {
    .deal = served_deal,
    .note = served_note, .failed = served_failed,
    .sum = served_sum, .any = served_any, .agree = served_agree, .agree_alike = served_agree_alike,
    .follow = served_follow, .alive = served_alive, .take = served_take, .put = served_put,
    .turn = served_turn, .start = served_start, .test = served_test, .wait = served_wait,
    .post = served_post, .progress = served_progress, .await = served_await,
    .served = &served_calls,
};

/* ---- opening ---- */

static int served_check(const struct gyre_job *all, const struct gyre_job_config *c,
                        struct gy_error *err)
{
    const int workers = all->ranks - c->servers;
    if (workers < 2 && !all->joined)
        return GY_FAIL(err, GY_E_ARG, "%d ranks of which %d are servers: there must be 2 workers "
                       "or more", all->ranks, c->servers);
    if (c->backup < 0 || (c->backup >= workers && !all->joined))
        return GY_FAIL(err, GY_E_ARG, "%d of %d workers as backup: there may be 0 to %d", c->backup,
                       workers, workers - 1);
    if (c->backup > 0 && c->sync != GYRE_SYNC_SERVER)
        return GY_FAIL(err, GY_E_ARG, "backup workers are for synchronous training with servers");
    return GY_OK;
}

GY_INT int gy_served_open(struct gyre_job **out, struct gyre_job *all,
                          const struct gyre_job_config *config, struct gy_error *err)
{
    GY_TRY(served_check(all, config, err));
    struct gyre_job *const job = gy_alloc_take(&all->alloc, 1, sizeof *job);
    struct gy_served *const s = gy_alloc_take(&all->alloc, 1, sizeof *s);
    if (!job || !s) {
        gy_alloc_free(&all->alloc, job, sizeof *job);
        gy_alloc_free(&all->alloc, s, sizeof *s);
        return GY_NOMEM(err, "the job with servers", sizeof *job + sizeof *s);
    }
    const int workers = all->ranks - config->servers, serves = all->rank < config->servers;
    *s = (struct gy_served){ .alloc = all->alloc, .all = all, .config = *config, .workers = workers,
                             .servers = config->servers,
                             .number = all->rank - (serves ? 0 : config->servers) };
    *job = (struct gyre_job){ .peers = &served_peers, .joined = all->joined,
                              .local = all->local,
                              .locals = all->locals, .hosts = 1, .alloc = all->alloc,
                              .world = all->world,
                              .area = all->area, .served = s };
    *out = job;
    s->job = job;
    return gy_served_places(s, all->joined, err);
}

GY_INT struct gyre_job *gy_served_all(const struct gyre_job *job) { return job->served->all; }

GY_INT void gy_served_close(struct gyre_job *job)
{
    struct gy_served *const s = job->served;
    const struct gy_alloc alloc = s->alloc;
    gy_worker_close(s);
    gy_server_close(s);
    gy_alloc_free(&alloc, s->rank_of, (size_t)s->workers * sizeof *s->rank_of);
    gy_alloc_free(&alloc, s->age, (size_t)s->workers * sizeof *s->age);
    gy_alloc_free(&alloc, s->slices, (size_t)s->net.count * sizeof *s->slices);
    gy_alloc_free(&alloc, s, sizeof *s);
    gy_alloc_free(&alloc, job, sizeof *job);
}
