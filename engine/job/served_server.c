/* SPDX-License-Identifier: MIT */
/* served_server.c: a server's side, for served_job.c: a loop over messages that arrived. It enters
 * each gradient into its slice's ledger. When an update is due it adds the waiting gradients,
 * updates the slice, and answers those that the rule of sync admits with its weights. What an
 * update is, is the net's call alone. */
#include <math.h>

#include "engine/base/clock.h"
#include "engine/job/served_parts.h"
#include "net/comm/reform.h"
#include "net/server/arrivals.h"

#define SERVER_LOOK_NS 50000000  /* between looks for who wants to join */
#define SERVER_REPLAY_SECONDS 60 /* until what the record has next must have come */

/* One worker's talk: its frames alone, the floats of its sum, and what it fetches. */
struct server_talk {
    struct gy_server_frame frame;
    struct gy_net_request in, sums_in, sums_out, all_out;
    int64_t number[GY_SERVER_KINDS];
    float *sum;              /* [room] */
    int64_t room, count;     /* count: of the sum that it takes part in; 0: none */
    unsigned char *all;
    size_t all_bytes;
    int summed;              /* its floats are there */
    int fetches, last;       /* it waits for what this server holds; when all others have left */
    int gone, told, ended;   /* it pushes no more; has the report; was heard last, or is lost */
    int meets, joins, age;   /* it has come to meet; has not begun; as gy_served.age */
    struct gy_net_request end_out;
};

struct gy_server_run {
    struct gy_served *s;
    int *owned;                      /* [count] slices of this server */
    int count;
    struct gy_ledger *ledger;        /* [count] */
    struct gy_ledger_worker *entry;  /* [count * workers] */
    struct gy_served_lane *lane;     /* [count * workers] */
    struct server_talk *talk;        /* [workers] */
    float **part;                    /* [workers]: contributions of an update or a sum */
    int left, here;                  /* workers that still push; whose last frame is to come */
    int saved;                       /* who leads has all */
    int meet;                        /* all ranks come together */
    int64_t looked;                  /* for who wants to join, when */
    struct gy_served_report report, calls; /* what was counted at the end; a call to meet */
    int order_ended;                 /* order and report are final */
    struct gy_arrivals order;        /* recorded, or replayed */
};

static struct gy_served_lane *server_lane(const struct gy_server_run *run, int i, int worker)
{
    return &run->lane[(size_t)i * (size_t)run->s->workers + (size_t)worker];
}

/* What ends the job: all ranks say so. */
static int server_fail(const struct gy_server_run *run, int status, struct gy_error *err)
{
    char text[400];
    if (status != GY_E_PEER && err) {
        snprintf(text, sizeof text, "server %d: %.360s", run->s->number, err->text);
        gy_net_comm_tell(run->s->all->world, text);
        gy_text_copy(err->text, sizeof err->text, text);
    }
    return status;
}

/* Is what was posted before done with its buffer? A transport may end it later than its receiver.
 * 1: yes; 0: it goes to one that is lost. */
static int server_settled(const struct gy_server_run *run, struct gy_net_request *r,
                          struct gy_error *err)
{
    if (r->buffer && r->state == GY_NET_PENDING)
        GY_TRY(gy_served_await(run->s, r, err));
    return !r->buffer || r->state != GY_NET_PENDING;
}

static int server_post(const struct gy_server_run *run, struct gy_net_request *r, int sends,
                       int worker, uint32_t tag, void *buffer, size_t bytes, struct gy_error *err)
{
    const int settled = server_settled(run, r, err);
    if (settled < 1)
        return settled;
    *r = (struct gy_net_request){ .sends = sends, .peer = run->s->rank_of[worker], .tag = tag,
                                  .buffer = buffer, .bytes = bytes };
    return gy_served_post(run->s, r, err);
}

/* Has what was posted come? It is taken once. */
static int server_came(struct gy_net_request *r)
{
    const int came = r->buffer && r->state == GY_NET_DONE;
    if (came)
        r->buffer = NULL;
    return came;
}

/* ---- opening ---- */

static int server_receive(struct gy_server_run *run, int i, int worker, struct gy_error *err)
{
    struct gy_served_lane *const lane = server_lane(run, i, worker);
    const uint32_t tag = GY_SERVED_SLICES + (uint32_t)run->owned[i];
    return server_post(run, &lane->in, 0, worker, tag, lane->get, lane->bytes, err);
}

static int server_listen(struct gy_server_run *run, int worker, struct gy_error *err)
{
    struct server_talk *const talk = &run->talk[worker];
    return server_post(run, &talk->in, 0, worker, GY_SERVED_TALK, &talk->frame,
                       sizeof talk->frame, err);
}

static int server_take(struct gy_server_run *run, struct gy_error *err)
{
    const struct gy_served *const s = run->s;
    const size_t workers = (size_t)s->workers, slices = (size_t)s->net.count,
        all = workers * slices;
    run->owned = gy_alloc_take(&s->alloc, slices, sizeof *run->owned);
    run->ledger = gy_alloc_take(&s->alloc, slices, sizeof *run->ledger);
    run->entry = gy_alloc_take(&s->alloc, all, sizeof *run->entry);
    run->lane = gy_alloc_take(&s->alloc, all, sizeof *run->lane);
    run->talk = gy_alloc_take(&s->alloc, workers, sizeof *run->talk);
    run->part = gy_alloc_take(&s->alloc, workers, sizeof *run->part);
    if (!run->owned || !run->ledger || !run->entry || !run->lane || !run->talk || !run->part)
        return GY_NOMEM(err, "a server's tables", all * (sizeof *run->lane + sizeof *run->entry));
    return GY_OK;
}

static struct gy_ledger_rules server_rules(const struct gy_served *s)
{
    const int async = s->config.sync == GYRE_SYNC_ASYNC;
    return (struct gy_ledger_rules){ .workers = s->workers, .take = async ? 1
                                     : s->workers - s->config.backup,
                                     .any_age = async, .ahead = async ? s->config.staleness : -1 };
}

/* Of several servers each has a file of its own. */
static int server_order(struct gy_server_run *run, struct gy_error *err)
{
    struct gy_served *const s = run->s;
    const struct gyre_job_config *const c = &s->config;
    const struct gy_arrivals_head head = { .run = s->net.run, .server = s->number,
                                           .workers = s->workers,
                                           .servers = s->servers, .slices = s->net.count };
    const char *const name = c->record ? c->record : c->replay;
    char path[4096];
    if (!name)
        return GY_OK;
    if ((size_t)snprintf(path, sizeof path, s->servers > 1 ? "%s.%d" : "%s", name,
                         s->number) >= sizeof path)
        return GY_FAIL(err, GY_E_ARG, "the path of the record of arrivals has more than %zu bytes",
                       sizeof path);
    return c->record ? gy_arrivals_record(&run->order, &s->alloc, path, &head, err)
                     : gy_arrivals_replay(&run->order, &s->alloc, path, &head, err);
}

static int server_open(struct gy_server_run *run, struct gy_error *err)
{
    struct gy_served *const s = run->s;
    const struct gy_ledger_rules rules = server_rules(s);
    GY_TRY(server_take(run, err));
    run->left = run->here = s->workers;
    for (int k = 0; k < s->net.count; k++) {
        if (s->slices[k].server != s->number)
            continue;
        const int i = run->count++;
        run->owned[i] = k;
        gy_ledger_open(&run->ledger[i], &rules, run->entry + (size_t)i * (size_t)s->workers,
                       s->net.version);
        for (int w = 0; w < s->workers; w++) {
            GY_TRY(gy_served_lane_open(s, server_lane(run, i, w), k, err));
            GY_TRY(server_receive(run, i, w, err));
        }
    }
    for (int w = 0; w < s->workers; w++)
        GY_TRY(server_listen(run, w, err));
    GY_TRY(server_order(run, err));
    for (int w = 0; w < s->workers; w++) /* it may begin, and be lost from now on */
        GY_TRY(server_post(run, &run->talk[w].end_out, 1, w, GY_SERVED_END, &run->calls,
                           sizeof run->calls, err));
    return GY_OK;
}

GY_INT void gy_server_close(struct gy_served *s)
{
    struct gy_server_run *const run = s->server;
    if (!run)
        return;
    const size_t workers = (size_t)s->workers, slices = (size_t)s->net.count,
        all = workers * slices;
    for (size_t i = 0; run->lane && i < all; i++)
        gy_served_lane_close(s, &run->lane[i]);
    for (size_t w = 0; run->talk && w < workers; w++) {
        gy_alloc_free(&s->alloc, run->talk[w].sum, (size_t)run->talk[w].room * sizeof(float));
        gy_alloc_free(&s->alloc, run->talk[w].all, run->talk[w].all_bytes);
    }
    gy_arrivals_close(&run->order);
    gy_alloc_free(&s->alloc, run->owned, slices * sizeof *run->owned);
    gy_alloc_free(&s->alloc, run->ledger, slices * sizeof *run->ledger);
    gy_alloc_free(&s->alloc, run->entry, all * sizeof *run->entry);
    gy_alloc_free(&s->alloc, run->lane, all * sizeof *run->lane);
    gy_alloc_free(&s->alloc, run->talk, workers * sizeof *run->talk);
    gy_alloc_free(&s->alloc, run->part, workers * sizeof *run->part);
    gy_alloc_free(&s->alloc, run, sizeof *run);
}

/* ---- gradients ---- */

static unsigned server_flags(const struct gy_server_run *run)
{
    return (run->s->stop ? GY_SERVER_STOP : 0u) | (run->meet ? GY_SERVER_CALL : 0u);
}

static int server_answer(struct gy_server_run *run, int i, int worker, struct gy_error *err)
{
    struct gy_served *const s = run->s;
    struct gy_ledger *const ledger = &run->ledger[i];
    struct gy_served_lane *const lane = server_lane(run, i, worker);
    const int k = run->owned[i];
    const struct gy_server_slice *const slice = &s->slices[k];
    GY_TRY(gy_served_await(s, &lane->out, err));
    if (lane->out.state == GY_NET_PENDING) /* it is lost */
        return GY_OK;
    *lane->give = (struct gy_server_frame){ .kind = GY_SERVER_WEIGHTS, .run = s->net.run,
                                            .worker = worker,
                                            .slice = k, .number = lane->number,
                                            .version = ledger->version,
                                            .count = slice->count, .flags = server_flags(run) };
    gy_server_seal(lane->give);
    memcpy(gy_served_floats(lane->give), s->net.weights + slice->first,
           (size_t)slice->count * sizeof(float));
    gy_ledger_answered(ledger, worker);
    GY_TRY(server_receive(run, i, worker, err));
    return server_post(run, &lane->out, 1, worker, GY_SERVED_SLICES + (uint32_t)k, lane->give,
                       lane->bytes, err);
}

static int server_answer_all(struct gy_server_run *run, int i, struct gy_error *err)
{
    for (int w = 0; w < run->s->workers; w++)
        if (gy_ledger_may_answer(&run->ledger[i], w))
            GY_TRY(server_answer(run, i, w, err));
    return GY_OK;
}

static void server_count(struct gy_served_report *report, int64_t stale)
{
    report->taken++;
    report->most = gy_max64(report->most, stale);
    report->stale[gy_min64(stale, GY_SERVED_STALE - 1)]++;
}

/* What was added makes an update of the slice. Of updates of single gradients as many as there are
 * workers are a step of the schedule. */
static int server_apply(struct gy_server_run *run, int i, float labelled, int64_t stale,
                        struct gy_error *err)
{
    struct gy_served *const s = run->s;
    const struct gy_served_update update = {
        .slice = run->owned[i], .gradient = run->part[0], .labelled = labelled,
        .version = run->ledger[i].version,
        .step = run->ledger[i].version / (s->config.sync == GYRE_SYNC_ASYNC ? s->workers : 1),
        .slower = s->config.stale_rate ? stale : 0 };
    return s->net.update(s->net.user, &update, err);
}

/* Adds what waits, updates the slice. A loss that is no number, or no label at all, is no
 * update: the workers see the same in their sums. */
static int server_update(struct gy_server_run *run, int i, struct gy_error *err)
{
    struct gy_served *const s = run->s;
    struct gy_ledger *const ledger = &run->ledger[i];
    const int k = run->owned[i];
    int64_t stale = 0;
    int parts = 0;
    for (int w = 0; w < s->workers; w++) {
        if (!ledger->worker[w].here)
            continue;
        run->part[parts++] = server_lane(run, i, w)->get->sums;
        stale = ledger->version - ledger->worker[w].version;
        server_count(&s->report, stale);
    }
    gy_server_add(run->part, parts, 2); /* loss, labelled */
    const float loss = run->part[0][0], labelled = run->part[0][1];
    const int refused = !(labelled > 0) || !isfinite((double)loss / (double)labelled);
    for (int w = 0, p = 0; w < s->workers; w++)
        if (ledger->worker[w].here)
            run->part[p++] = gy_served_floats(server_lane(run, i, w)->get);
    if (!refused) {
        gy_server_add(run->part, parts, s->slices[k].count);
        GY_TRY(server_apply(run, i, labelled, stale, err));
    }
    gy_ledger_updated(ledger, refused);
    return server_answer_all(run, i, err);
}

static int server_push(struct gy_server_run *run, int i, int worker, struct gy_error *err)
{
    struct gy_served *const s = run->s;
    struct gy_served_lane *const lane = server_lane(run, i, worker);
    const int k = run->owned[i];
    const struct gy_server_frame want = { .kind = GY_SERVER_PUSH, .run = s->net.run,
                                          .worker = worker, .slice = k,
                                          .number = lane->number + 1, .count = s->slices[k].count };
    GY_TRY(gy_server_check(lane->get, &want, err));
    const int verdict = gy_ledger_push(&run->ledger[i], worker, lane->get->version, err);
    if (verdict < 0)
        return verdict;
    lane->number++;
    GY_TRY(gy_arrivals_taken(&run->order, GY_ARRIVAL_PUSH, worker, k, err));
    s->stop |= (lane->get->flags & GY_SERVER_STOP) != 0;
    s->report.dropped += verdict == GY_LEDGER_LATE;
    s->report.again += verdict != GY_LEDGER_LATE && run->talk[worker].age > 0;
    if (gy_ledger_is_due(&run->ledger[i]))
        return server_update(run, i, err);
    return server_answer_all(run, i, err);
}

/* ---- sums ---- */

static int server_sum_begin(struct gy_server_run *run, int worker, struct gy_error *err)
{
    const struct gy_served *const s = run->s;
    struct server_talk *const talk = &run->talk[worker];
    const int64_t count = talk->frame.count;
    if (count < 1 || count > INT32_MAX || talk->count != 0)
        return GY_FAIL(err, GY_E_MISMATCH, "a sum of %" PRId64 " floats of worker %d", count,
                       worker);
    const int settled = server_settled(run, &talk->sums_out, err);
    if (settled < 1)
        return settled;
    if (count > talk->room) {
        gy_alloc_free(&s->alloc, talk->sum, (size_t)talk->room * sizeof *talk->sum);
        talk->room = 0;
        talk->sum = gy_alloc_take(&s->alloc, (size_t)count, sizeof *talk->sum);
        if (!talk->sum)
            return GY_NOMEM(err, "a sum of workers", (size_t)count * sizeof *talk->sum);
        talk->room = count;
    }
    talk->count = count;
    return server_post(run, &talk->sums_in, 0, worker, GY_SERVED_SUMS, talk->sum,
                       (size_t)count * sizeof *talk->sum, err);
}

/* Workers that have not left have all given theirs. Returns how many they are, and one of them. */
static int server_sums(const struct gy_server_run *run, int *one)
{
    int count = 0, all = 1;
    for (int w = 0; w < run->s->workers; w++) {
        if (run->talk[w].gone)
            continue;
        all = all && run->talk[w].summed;
        run->part[count] = run->talk[w].sum;
        *one = count++ == 0 ? w : *one;
    }
    return all ? count : 0;
}

static int server_sum_end(struct gy_server_run *run, struct gy_error *err)
{
    struct gy_served *const s = run->s;
    int first = 0;
    const int parts = server_sums(run, &first);
    const int64_t count = run->talk[first].count;
    for (int w = first; w < s->workers && parts > 0; w++)
        if (!run->talk[w].gone && run->talk[w].count != count)
            return GY_FAIL(err, GY_E_MISMATCH, "worker %d sums %" PRId64 " floats, worker %d %"
                           PRId64, w, run->talk[w].count, first, count);
    gy_server_add(run->part, parts, count);
    for (int w = 0; w < s->workers && parts > 0; w++) {
        struct server_talk *const talk = &run->talk[w];
        const size_t bytes = (size_t)count * sizeof *talk->sum;
        if (talk->gone)
            continue;
        if (w != first)
            memcpy(talk->sum, run->talk[first].sum, bytes);
        talk->summed = 0;
        talk->count = 0;
        GY_TRY(server_post(run, &talk->sums_out, 1, w, GY_SERVED_SUMS, talk->sum, bytes, err));
    }
    return GY_OK;
}

/* ---- what a worker fetches ---- */

static size_t server_put_frames(struct gy_server_run *run, int worker, unsigned char *to)
{
    const struct gy_served *const s = run->s;
    for (int i = 0; i < run->count; i++) {
        struct gy_server_frame frame = { .kind = GY_SERVER_WEIGHTS, .run = s->net.run,
                                         .worker = worker,
                                         .slice = run->owned[i], .version = run->ledger[i].version,
                                         .flags = run->talk[worker].last ? server_flags(run) : 0u,
                                         .number = run->talk[worker].number[GY_SERVER_FETCH] };
        gy_server_seal(&frame);
        memcpy(to + (size_t)i * sizeof frame, &frame, sizeof frame);
        if (!run->ledger[i].worker[worker].here)
            run->ledger[i].worker[worker].version = frame.version;
    }
    return (size_t)run->count * sizeof(struct gy_server_frame);
}

static size_t server_put_regions(const struct gy_server_run *run, unsigned regions,
                                 unsigned char *to)
{
    const struct gy_served_net *const net = &run->s->net;
    size_t at = 0;
    for (int r = 0; r < net->regions; r++)
        for (int i = 0; i < run->count && regions >> r & 1; i++) {
            const struct gy_server_slice *const slice = &run->s->slices[run->owned[i]];
            const size_t bytes = (size_t)slice->count * sizeof(float);
            if (to)
                memcpy(to + at, net->region[r] + slice->first, bytes);
            at += bytes;
        }
    return at;
}

static int server_give_all(struct gy_server_run *run, int worker, struct gy_error *err)
{
    const struct gy_served *const s = run->s;
    struct server_talk *const talk = &run->talk[worker];
    const unsigned regions = (unsigned)talk->fetches;
    const size_t head = (size_t)run->count * sizeof(struct gy_server_frame);
    const size_t bytes = head + server_put_regions(run, regions, NULL);
    const int settled = server_settled(run, &talk->all_out, err);
    if (settled < 1)
        return settled;
    if (!talk->last)
        GY_TRY(gy_arrivals_taken(&run->order, GY_ARRIVAL_FETCH, worker, 0, err));
    for (int i = 0; i < run->count && talk->joins; i++)
        gy_ledger_back(&run->ledger[i], worker, 1);
    talk->joins = 0;
    talk->fetches = 0;
    if (bytes > talk->all_bytes) {
        gy_alloc_free(&s->alloc, talk->all, talk->all_bytes);
        talk->all_bytes = 0;
        talk->all = gy_alloc_take(&s->alloc, 1, bytes);
        if (!talk->all)
            return GY_NOMEM(err, "what a server holds", bytes);
        talk->all_bytes = bytes;
    }
    server_put_regions(run, regions, talk->all + server_put_frames(run, worker, talk->all));
    return server_post(run, &talk->all_out, 1, worker, GY_SERVED_ALL, talk->all, bytes, err);
}

/* ---- talk ---- */

/* Whoever waits for it no more is answered. */
static int server_without(struct gy_server_run *run, int worker, struct gy_error *err)
{
    for (int i = 0; i < run->count; i++) {
        gy_ledger_gone(&run->ledger[i], worker);
        if (gy_ledger_is_due(&run->ledger[i]))
            GY_TRY(server_update(run, i, err));
        GY_TRY(server_answer_all(run, i, err));
    }
    return GY_OK;
}

/* It pushes no more. */
static int server_forget(struct gy_server_run *run, int worker, int kind, struct gy_error *err)
{
    if (run->talk[worker].gone)
        return GY_OK;
    GY_TRY(gy_arrivals_taken(&run->order, kind, worker, 0, err));
    run->talk[worker].gone = 1;
    run->left--;
    return server_without(run, worker, err);
}

/* All is saved and nobody pushes any more: each that is here gets what was counted, once. */
static int server_report(struct gy_server_run *run, struct gy_error *err)
{
    if (!run->saved || run->left > 0 || run->meet)
        return GY_OK;
    if (!run->order_ended)
        run->report = run->s->report;
    if (!run->order_ended)
        GY_TRY(gy_arrivals_end(&run->order, err));
    run->order_ended = 1;
    for (int w = 0; w < run->s->workers; w++) {
        struct server_talk *const talk = &run->talk[w];
        if (talk->told || talk->ended)
            continue;
        talk->told = 1;
        GY_TRY(server_post(run, &talk->end_out, 1, w, GY_SERVED_END, &run->report,
                           sizeof run->report, err));
    }
    return GY_OK;
}

static int server_leave(struct gy_server_run *run, int worker, struct gy_error *err)
{
    run->saved |= (run->talk[worker].frame.flags & GY_SERVER_LAST) != 0;
    GY_TRY(server_forget(run, worker, GY_ARRIVAL_LEAVE, err));
    return server_report(run, err);
}

static int server_end(struct gy_server_run *run, int worker, struct gy_error *err)
{
    (void)err;
    run->talk[worker].ended = 1;
    run->here--;
    return GY_OK;
}

/* Until all have come together it holds up nobody. */
static int server_meet(struct gy_server_run *run, int worker, struct gy_error *err)
{
    run->meet = run->talk[worker].meets = 1;
    return server_without(run, worker, err);
}

/* A worker was lost that the job needs: all ranks say so. */
static int server_give_up(const struct gy_server_run *run, const char *text, const char *why,
                          struct gy_error *err)
{
    GY_FAIL(err, GY_E_PEER, "%.220s; %.90s", text, why);
    gy_net_comm_tell(run->s->all->world, err ? err->text : text);
    return GY_E_PEER;
}

/* Those that live go on without it, unless each of them is needed. */
static int server_lose(struct gy_server_run *run, int worker, const char *text,
                       struct gy_error *err)
{
    struct server_talk *const talk = &run->talk[worker];
    talk->ended = 1;
    talk->fetches = talk->summed = 0;
    run->here--;
    run->s->report.lost++;
    if (run->s->net.whole)
        return server_give_up(run, text, run->s->net.whole, err);
    GY_TRY(server_forget(run, worker, GY_ARRIVAL_LOST, err));
    GY_TRY(server_sum_end(run, err));
    if (run->here == 0)
        return server_give_up(run, text, "it was the last worker", err);
    return server_report(run, err);
}

/* Whoever fetches last has left, but for the answer. */
static int server_begin_fetch(struct gy_server_run *run, int worker, struct gy_error *err)
{
    struct server_talk *const talk = &run->talk[worker];
    if (talk->frame.version < 1 || talk->frame.version >> run->s->net.regions)
        return GY_FAIL(err, GY_E_MISMATCH, "worker %d fetches the regions %" PRIx64, worker,
                       talk->frame.version);
    talk->fetches = (int)talk->frame.version;
    talk->last = (talk->frame.flags & GY_SERVER_LAST) != 0;
    return talk->last ? server_forget(run, worker, GY_ARRIVAL_LEAVE, err) : GY_OK;
}

static int server_hear(struct gy_server_run *run, int worker, struct gy_error *err)
{
    static int (*const hear[GY_SERVER_KINDS])(struct gy_server_run *, int, struct gy_error *) = {
        [GY_SERVER_SUM] = server_sum_begin, [GY_SERVER_FETCH] = server_begin_fetch,
        [GY_SERVER_LEAVE] = server_leave, [GY_SERVER_END] = server_end,
        [GY_SERVER_MEET] = server_meet,
    };
    struct server_talk *const talk = &run->talk[worker];
    const int kind = talk->frame.kind;
    if (kind < 0 || kind >= GY_SERVER_KINDS || !hear[kind])
        return GY_FAIL(err, GY_E_MISMATCH, "worker %d sends a frame of kind %d", worker, kind);
    /* one that joins, of another run, finds that in the answer and goes: it is no reason to end */
    const uint64_t its = talk->joins ? talk->frame.run : run->s->net.run;
    const struct gy_server_frame want = { .kind = kind, .run = its, .worker = worker, .slice = -1,
                                          .number = talk->number[kind] + 1,
                                          .count = talk->frame.count };
    GY_TRY(gy_server_check(&talk->frame, &want, err));
    talk->number[kind]++;
    GY_TRY(hear[kind](run, worker, err));
    return talk->ended ? GY_OK : server_listen(run, worker, err);
}

/* ---- the loop ---- */

/* That a worker pushes no more has its place in the order. */
static int server_may_hear(const struct gy_server_run *run, int worker)
{
    const struct server_talk *const talk = &run->talk[worker];
    const struct gy_server_frame *const f = &talk->frame;
    const int leaves = f->kind == GY_SERVER_LEAVE ||
                       (f->kind == GY_SERVER_FETCH && f->flags & GY_SERVER_LAST);
    return talk->in.state != GY_NET_DONE || !leaves || talk->gone ||
           gy_arrivals_may(&run->order, GY_ARRIVAL_LEAVE, worker, 0);
}

static int server_look_talk(struct gy_server_run *run, int worker, int *moved, struct gy_error *err)
{
    struct server_talk *const talk = &run->talk[worker];
    if (talk->ended) /* what a lost one had sent before */
        return GY_OK;
    if (server_may_hear(run, worker) && server_came(&talk->in)) {
        *moved = 1;
        GY_TRY(server_hear(run, worker, err));
    }
    if (server_came(&talk->sums_in)) {
        *moved = talk->summed = 1;
        GY_TRY(server_sum_end(run, err));
    }
    const int given = talk->last ? run->left == 0 || run->meet
                                 : gy_arrivals_may(&run->order, GY_ARRIVAL_FETCH, worker, 0);
    if (talk->fetches && given) {
        *moved = 1;
        GY_TRY(server_give_all(run, worker, err));
    }
    return GY_OK;
}

/* Those that may be lost and are: the others go on. */
static int server_look_lost(struct gy_server_run *run, int *moved, struct gy_error *err)
{
    const char *text;
    for (int w = 0; w < run->s->workers; w++)
        if (!run->talk[w].ended && gy_served_is_lost(run->s, w, &text)) {
            *moved = 1;
            GY_TRY(server_lose(run, w, text, err));
        }
    return GY_OK;
}

/* ---- workers that come back ---- */

/* Server 0 looks who waits to be let in, and calls all others while all of them push. */
static void server_look_newcomers(struct gy_server_run *run)
{
    struct gy_served *const s = run->s;
    const int64_t now = gy_clock_ns();
    if (s->number > 0 || !s->all->reform || run->meet || now - run->looked < SERVER_LOOK_NS)
        return;
    run->looked = now;
    if (run->left == run->here)
        run->meet = gy_net_reform_look(s->all->reform, s->servers + run->here) > 0;
}

/* Those that have left wait for the report, and are called by it. */
static int server_call(struct gy_server_run *run, struct gy_error *err)
{
    run->calls = (struct gy_served_report){ .meet = 1 };
    for (int w = 0; w < run->s->workers; w++) {
        struct server_talk *const talk = &run->talk[w];
        if (!talk->gone || talk->ended || talk->told)
            continue;
        talk->told = 1;
        GY_TRY(server_post(run, &talk->end_out, 1, w, GY_SERVED_END, &run->calls,
                           sizeof run->calls, err));
    }
    return GY_OK;
}

/* It is as it was before its first frame, but for its memory. */
static void server_renew(struct gy_server_run *run, int worker)
{
    struct server_talk *const talk = &run->talk[worker];
    *talk = (struct server_talk){ .sum = talk->sum, .room = talk->room, .all = talk->all,
                                  .all_bytes = talk->all_bytes, .joins = 1,
                                  .age = run->s->age[worker] };
    for (int i = 0; i < run->count; i++)
        server_lane(run, i, worker)->number = 0;
    run->s->report.came++;
}

/* Of a worker that has a rank now: what was posted before is no more. */
static int server_resume(struct gy_server_run *run, int worker, struct gy_error *err)
{
    struct server_talk *const talk = &run->talk[worker];
    if (talk->age != run->s->age[worker])
        server_renew(run, worker);
    talk->in = talk->sums_in = talk->sums_out = talk->all_out = talk->end_out =
        (struct gy_net_request){ .state = GY_NET_DONE };
    talk->told = talk->meets = talk->summed = talk->fetches = 0;
    talk->count = 0;
    run->here++;
    run->left += !talk->gone;
    for (int i = 0; i < run->count; i++) {
        gy_served_lane_clear(server_lane(run, i, worker));
        GY_TRY(server_receive(run, i, worker, err));
        if (!talk->gone && !talk->joins)
            gy_ledger_back(&run->ledger[i], worker, 0);
    }
    return server_listen(run, worker, err);
}

/* Workers in step wait for who joins; others do not, until it has begun. */
static int server_reform(struct gy_server_run *run, struct gy_error *err)
{
    struct gy_served *const s = run->s;
    const int were = run->here;
    GY_TRY(gy_served_reform(s, err));
    gy_net_comm_spare(s->all->world);
    run->meet = run->left = run->here = 0;
    const int64_t came = s->report.came;
    for (int w = 0; w < s->workers; w++) {
        if (s->rank_of[w] >= 0)
            GY_TRY(server_resume(run, w, err));
        else
            run->talk[w].ended = run->talk[w].gone = 1;
    }
    s->report.lost += were + s->report.came - came - run->here;
    for (int w = 0; w < s->workers; w++)
        for (int i = 0; i < run->count && run->talk[w].joins && gy_served_lockstep(s); i++)
            gy_ledger_back(&run->ledger[i], w, 1);
    if (run->here == 0)
        return GY_FAIL(err, GY_E_PEER, "all workers were lost while ranks came together");
    return server_report(run, err);
}

static int server_look_meeting(struct gy_server_run *run, int *moved, struct gy_error *err)
{
    int come = 0;
    server_look_newcomers(run);
    if (!run->meet)
        return GY_OK;
    GY_TRY(server_call(run, err));
    for (int w = 0; w < run->s->workers; w++)
        come += !run->talk[w].ended && run->talk[w].meets;
    if (come < run->here)
        return GY_OK;
    *moved = 1;
    return server_reform(run, err);
}

static int server_look(struct gy_server_run *run, int *moved, struct gy_error *err)
{
    GY_TRY(run->s->all->peers->progress(run->s->all, err));
    for (int i = 0; i < run->count; i++)
        for (int w = 0; w < run->s->workers; w++)
            if (!run->talk[w].ended &&
                gy_arrivals_may(&run->order, GY_ARRIVAL_PUSH, w, run->owned[i]) &&
                server_came(&server_lane(run, i, w)->in)) {
                *moved = 1;
                GY_TRY(server_push(run, i, w, err));
            }
    for (int w = 0; w < run->s->workers; w++)
        GY_TRY(server_look_talk(run, w, moved, err));
    GY_TRY(server_look_lost(run, moved, err));
    return server_look_meeting(run, moved, err);
}

/* A replay waits for one alone: for how long? */
static int server_replay_stands(const struct gy_server_run *run, int64_t since,
                                struct gy_error *err)
{
    const struct gy_arrivals *const o = &run->order;
    const double waited = (double)(gy_clock_ns() - since) * 1e-9;
    if (!o->at || (o->ended && run->left == 0) || (!o->ended && !run->talk[o->next.worker].ended &&
                                                   waited < SERVER_REPLAY_SECONDS))
        return GY_OK;
    return GY_FAIL(err, GY_E_MISMATCH, "%s:%" PRId64 ": what comes is not what the record has "
                   "there: it belongs to another run", o->path, o->line);
}

static int server_loop(struct gy_server_run *run, struct gy_error *err)
{
    int64_t since = gy_clock_ns();
    for (int still = 0; run->here > 0; still++) {
        int moved = 0;
        GY_TRY(server_look(run, &moved, err));
        since = moved ? gy_clock_ns() : since;
        still = moved ? 0 : still;
        if (still > 0)
            GY_TRY(server_replay_stands(run, since, err));
        gy_served_pause(run->s, still);
    }
    return GY_OK;
}

GY_INT int gy_server_serve(struct gy_served *s, struct gy_error *err)
{
    s->server = gy_alloc_take(&s->alloc, 1, sizeof *s->server);
    if (!s->server)
        return GY_NOMEM(err, "a server", sizeof *s->server);
    s->server->s = s;
    gy_net_comm_spare(s->all->world);
    int status = server_open(s->server, err);
    if (status == GY_OK)
        status = server_loop(s->server, err);
    return status == GY_OK ? GY_OK : server_fail(s->server, status, err);
}
