/* SPDX-License-Identifier: MIT */
/* recorder.c: notes each call before and behind the one of the inner table. Clocks are read for
 * that anyway, so their differences are the counters. A sum that is begun and awaited is noted four
 * times: begun, wait begun, wait ended, complete. A sum that is complete when a rank polls is noted
 * twice. */
#include "engine/base/clock.h"
#include "engine/job/recorder.h"
#include "engine/job/wire.h"

static const struct gy_flight_event recorder_blank = { .peer = -1, .bucket = -1 };

static int64_t recorder_note(struct gyre_job *job, int kind, int phase, int64_t sum, int64_t bytes)
{
    struct gy_flight_event e = recorder_blank;
    e.kind = (uint8_t)kind;
    e.phase = (uint8_t)phase;
    e.sum = sum;
    e.bytes = bytes;
    return gy_flight_note(&job->recorder->flight, &e);
}

/* The first failure counts: who is lost, and to whom no data comes through. */
static int recorder_judge(struct gyre_job *job, int status, const struct gy_error *err)
{
    struct gy_recorder *const r = job->recorder;
    struct gy_flight_event cut = recorder_blank;
    cut.kind = GY_DOES_CUT;
    if (status >= 0 || r->told)
        return status;
    r->told = 1;
    for (int peer = 0; peer < job->ranks; peer++)
        if (gy_net_comm_is_cut(job->world, peer)) {
            cut.peer = peer;
            gy_flight_note(&r->flight, &cut);
        }
    recorder_note(job, GY_DOES_LOST, GY_FLIGHT_BEGAN, 0, status);
    gy_flight_end(&r->flight, GY_FLIGHT_FAILED, status, err ? err->text : NULL);
    return status;
}

/* ---- calls that all ranks make together ---- */

static int64_t recorder_meet(struct gyre_job *job, int kind, int64_t bytes)
{
    job->recorder->inside++;
    return recorder_note(job, kind, GY_FLIGHT_BEGAN, ++job->recorder->sums, bytes);
}

static int recorder_met(struct gyre_job *job, int kind, int64_t began, int status,
                        const struct gy_error *err)
{
    struct gy_recorder *const r = job->recorder;
    const int64_t ns = gy_clock_ns() - began;
    r->inside--;
    *(r->in_step ? &r->counters.wait_ns : &r->counters.meet_ns) += ns;
    if (status >= 0)
        recorder_note(job, kind, GY_FLIGHT_ENDED, r->sums, 0);
    return recorder_judge(job, status, err);
}

static int recorder_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err)
{
    const int64_t bytes = count * (int64_t)sizeof *data;
    if (job->recorder->inside > 0)
        return job->recorder->inner->sum(job, data, count, err);
    const int64_t at = recorder_meet(job, GY_DOES_MEET, bytes);
    job->recorder->counters.sums++;
    job->recorder->counters.sum_bytes += bytes;
    const int status = job->recorder->inner->sum(job, data, count, err);
    return recorder_met(job, GY_DOES_MEET, at, status, err);
}

static int recorder_any(struct gyre_job *job, int flag, int *out, struct gy_error *err)
{
    const int64_t at = recorder_meet(job, GY_DOES_MEET, 0);
    return recorder_met(job, GY_DOES_MEET, at, job->recorder->inner->any(job, flag, out, err), err);
}

static int recorder_agree_alike(struct gyre_job *job, const char *what, uint64_t kind,
                                uint64_t value, struct gy_error *err)
{
    const int64_t at = recorder_meet(job, GY_DOES_AGREE, (int64_t)value);
    const int status = job->recorder->inner->agree_alike(job, what, kind, value, err);
    return recorder_met(job, GY_DOES_AGREE, at, status, err);
}

static int recorder_agree(struct gyre_job *job, const char *what, uint64_t value,
                          struct gy_error *err)
{
    return recorder_agree_alike(job, what, 0, value, err);
}

static int recorder_follow(struct gyre_job *job, int64_t *value, struct gy_error *err)
{
    const int64_t at = recorder_meet(job, GY_DOES_MEET, 0);
    return recorder_met(job, GY_DOES_MEET, at, job->recorder->inner->follow(job, value, err), err);
}

static int recorder_take(struct gyre_job *job, size_t bytes, void **out, void **sums,
                         struct gy_error *err)
{
    const int64_t at = recorder_meet(job, GY_DOES_MEET, (int64_t)bytes);
    const int status = job->recorder->inner->take(job, bytes, out, sums, err);
    return recorder_met(job, GY_DOES_MEET, at, status, err);
}

/* ---- sums that are begun ---- */

static void recorder_turn(struct gyre_job *job, const void *memory, int sums)
{
    for (int i = 0; i < GY_JOB_AREAS; i++)
        if (job->area[i].at == memory)
            job->recorder->turn[i] = sums;
    job->recorder->inner->turn(job, memory, sums);
}

static int64_t *recorder_number(struct gy_recorder *r, int64_t ticket)
{
    return &r->number[ticket % GY_JOB_AREAS][ticket / GY_JOB_AREAS % GY_NET_HOST_OPEN];
}

static int64_t recorder_note_sum(struct gyre_job *job, int kind, int phase, int64_t ticket,
                                 const struct gy_flight_event *more)
{
    struct gy_recorder *const r = job->recorder;
    const int area = (int)(ticket % GY_JOB_AREAS);
    struct gy_flight_event e = *more;
    e.kind = (uint8_t)kind;
    e.phase = (uint8_t)phase;
    e.sum = *recorder_number(r, ticket);
    if (r->turn[area] > 0 && r->turn[area] < INT16_MAX)
        e.bucket = (int16_t)(ticket / GY_JOB_AREAS % r->turn[area]);
    return gy_flight_note(&r->flight, &e);
}

static int recorder_start(struct gyre_job *job, float *data, int64_t count, int64_t *ticket,
                          struct gy_error *err)
{
    struct gy_recorder *const r = job->recorder;
    struct gy_flight_event more = recorder_blank;
    const int64_t began = gy_clock_ns();
    const int status = r->inner->start(job, data, count, ticket, err);
    if (status < 0)
        return recorder_judge(job, status, err);
    *recorder_number(r, *ticket) = ++r->sums;
    more.bytes = count * (int64_t)sizeof *data;
    r->counters.sums++;
    r->counters.sum_bytes += more.bytes;
    r->counters.sum_ns += recorder_note_sum(job, GY_DOES_SUM, GY_FLIGHT_BEGAN, *ticket, &more)
                          - began;
    return status;
}

static int recorder_test(struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    struct gy_recorder *const r = job->recorder;
    const int64_t began = gy_clock_ns();
    const int status = r->inner->test(job, ticket, err);
    r->counters.sum_ns += gy_clock_ns() - began;
    if (status == 1)
        recorder_note_sum(job, GY_DOES_SUM, GY_FLIGHT_ENDED, ticket, &recorder_blank);
    return recorder_judge(job, status, err);
}

/* Who of this host has not begun the sum, where ranks are numbered as on the host. */
static int recorder_missing(const struct gyre_job *job, int64_t ticket)
{
    const struct gy_job_area *a = &job->area[ticket % GY_JOB_AREAS];
    if (job->hosts > 1 || !a->node || a->sockets)
        return -1;
    return gy_net_host_missing(a->node, ticket / GY_JOB_AREAS);
}

static int recorder_wait(struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    struct gy_recorder *const r = job->recorder;
    struct gy_flight_event more = recorder_blank;
    const int there = recorder_test(job, ticket, err);
    if (there != 0)
        return there < 0 ? there : GY_OK;
    more.peer = recorder_missing(job, ticket);
    const int64_t began = recorder_note_sum(job, GY_DOES_WAIT, GY_FLIGHT_BEGAN, ticket, &more);
    const int status = r->inner->wait(job, ticket, err);
    if (status < 0)
        return recorder_judge(job, status, err);
    r->counters.wait_ns += recorder_note_sum(job, GY_DOES_WAIT, GY_FLIGHT_ENDED, ticket, &more)
                           - began;
    recorder_note_sum(job, GY_DOES_SUM, GY_FLIGHT_ENDED, ticket, &recorder_blank);
    return status;
}

/* ---- messages, and the rest ---- */

static int recorder_post(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err)
{
    struct gy_job_counters *const c = &job->recorder->counters;
    c->messages += request->sends;
    c->message_bytes += request->sends ? (int64_t)request->bytes : 0;
    return recorder_judge(job, job->recorder->inner->post(job, request, err), err);
}

static int recorder_progress(struct gyre_job *job, struct gy_error *err)
{
    return recorder_judge(job, job->recorder->inner->progress(job, err), err);
}

static int recorder_await(struct gyre_job *job, struct gy_net_request *request,
                          struct gy_error *err)
{
    struct gy_recorder *const r = job->recorder;
    struct gy_flight_event e = recorder_blank;
    if (request->state == GY_NET_DONE)
        return GY_OK;
    e.kind = GY_DOES_MESSAGE;
    e.peer = request->peer;
    e.bytes = (int64_t)request->bytes;
    const int64_t began = gy_flight_note(&r->flight, &e);
    const int status = r->inner->await(job, request, err);
    e.phase = GY_FLIGHT_ENDED;
    if (status >= 0)
        gy_flight_note(&r->flight, &e);
    *(r->in_step ? &r->counters.wait_ns : &r->counters.meet_ns) += gy_clock_ns() - began;
    return recorder_judge(job, status, err);
}

static int recorder_alive(struct gyre_job *job, struct gy_error *err)
{
    return recorder_judge(job, job->recorder->inner->alive(job, err), err);
}

static void recorder_put(struct gyre_job *job, void *memory)
{
    job->recorder->inner->put(job, memory);
}

/* Where the time of what the loop does is counted. */
static int64_t *recorder_place(struct gy_job_counters *c, int note)
{
    int64_t *const place[GY_DOINGS] = {
        [GY_DOES_STEP] = &c->step_ns, [GY_DOES_BATCH] = &c->batch_ns,
        [GY_DOES_SAVE] = &c->save_ns, [GY_DOES_TEST] = &c->test_ns,
    };
    return place[note];
}

static void recorder_take_note(struct gyre_job *job, int note, int ended, int64_t step)
{
    struct gy_recorder *const r = job->recorder;
    int64_t *const place = recorder_place(&r->counters, note);
    if (note == GY_DOES_EVAL)
        return; /* a test has many */
    if (note >= GY_DOES_STEP && note != GY_DOES_END)
        r->flight.step = step;
    const int64_t now = recorder_note(job, note, ended ? GY_FLIGHT_ENDED : GY_FLIGHT_BEGAN, 0, 0);
    if (!ended)
        r->began[note] = now;
    else if (place)
        *place += now - r->began[note];
    r->first = note == GY_DOES_BATCH && r->first == 0 ? now : r->first;
    if (note == GY_DOES_STEP) {
        r->counters.run_ns = now - r->first;
        r->in_step = !ended;
        r->counters.steps += ended;
    }
}

static void recorder_failed(struct gyre_job *job, int status, const char *text)
{
    gy_flight_end(&job->recorder->flight, GY_FLIGHT_FAILED, status, text);
}

/* ---- jobs that outlive their ranks ---- */

static int recorder_deal(struct gyre_job *job, int shards, int *first, int *count,
                         struct gy_error *err)
{
    return recorder_judge(job, job->recorder->inner->deal(job, shards, first, count, err), err);
}

/* Another loss is another story. */
static int recorder_reform(struct gyre_job *job, struct gy_error *err)
{
    const int64_t at = recorder_meet(job, GY_DOES_MEET, 0);
    const int status = job->recorder->inner->reform(job, err);
    job->recorder->told = 0;
    return recorder_met(job, GY_DOES_MEET, at, status, err);
}

static int recorder_look(struct gyre_job *job) { return job->recorder->inner->look(job); }

static int recorder_cast(struct gyre_job *job, int from, void *bytes, size_t count,
                         struct gy_error *err)
{
    const int64_t at = recorder_meet(job, GY_DOES_MEET, (int64_t)count);
    const int status = job->recorder->inner->cast(job, from, bytes, count, err);
    return recorder_met(job, GY_DOES_MEET, at, status, err);
}

static int recorder_share(struct gyre_job *job, const void *own, size_t count, void *all,
                          struct gy_error *err)
{
    const int64_t at = recorder_meet(job, GY_DOES_MEET, (int64_t)count);
    const int status = job->recorder->inner->share(job, own, count, all, err);
    return recorder_met(job, GY_DOES_MEET, at, status, err);
}

static const struct gy_peers recorder_peers = {
    .deal = recorder_deal, .reform = recorder_reform, .look = recorder_look,
    .cast = recorder_cast, .share = recorder_share, .wire = gy_wire_calls,
    .sum = recorder_sum, .any = recorder_any, .agree = recorder_agree,
    .agree_alike = recorder_agree_alike, .follow = recorder_follow, .alive = recorder_alive,
    .take = recorder_take, .put = recorder_put, .turn = recorder_turn, .start = recorder_start,
    .test = recorder_test, .wait = recorder_wait, .post = recorder_post,
    .progress = recorder_progress, .await = recorder_await, .note = recorder_take_note,
    .failed = recorder_failed,
};

/* ---- open and close ---- */

static int recorder_file(struct gyre_job *job, const char *folder, int64_t came,
                         struct gy_error *err)
{
    const struct gy_net_identity *const all = gy_net_comm_identities(job->world);
    struct gy_flight_head head = { .job = all[0].started, .rank = job->rank, .ranks = job->ranks,
                                   .pid = all[job->rank].pid, .local = job->local, .came = came,
                                   .met = gy_clock_ns() };
    memcpy(head.host, all[job->rank].host, sizeof head.host);
    memcpy(head.name, all[job->rank].name, sizeof head.name);
    GY_TRY(gy_flight_open(&job->recorder->flight, folder, &head, err));
    gy_net_comm_beat(job->world, &job->recorder->flight.live->beat);
    return GY_OK;
}

GY_INT int gy_recorder_open(struct gyre_job *job, const char *folder, int64_t came, int must,
                            struct gy_error *err)
{
    struct gy_recorder *const r = gy_alloc_take(&job->alloc, 1, sizeof *r);
    if (!r)
        return GY_NOMEM(err, "the flight recorder", sizeof *r);
    r->inner = job->peers;
    r->flight.keeps = must;
    job->recorder = r;
    job->peers = &recorder_peers;
    const int status = folder ? recorder_file(job, folder, came, must ? err : NULL) : GY_OK;
    return must ? status : GY_OK;
}

GY_INT void gy_recorder_reformed(struct gyre_job *job)
{
    struct gy_flight *const flight = &job->recorder->flight;
    if (flight->live && job->world)
        gy_net_comm_beat(job->world, &flight->live->beat);
}

GY_INT void gy_recorder_ended(struct gyre_job *job, int status, const struct gy_error *err)
{
    if (!job->recorder)
        return;
    gy_flight_end(&job->recorder->flight, status == GY_OK ? GY_FLIGHT_WELL : GY_FLIGHT_FAILED,
                  status, err->text);
}

GY_INT void gy_recorder_close(struct gyre_job *job)
{
    if (!job->recorder)
        return;
    gy_flight_close(&job->recorder->flight);
    gy_alloc_free(&job->alloc, job->recorder, sizeof *job->recorder);
    job->recorder = NULL;
}
