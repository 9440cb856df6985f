/* SPDX-License-Identifier: MIT */
/* served_worker.c: a worker's side, for served_job.c. It copies a gradient behind a frame, sends
 * it, and posts the receive of the answer at once. Both travel while the rest of the backward pass
 * is computed. */
#include "engine/job/served_parts.h"
#include "net/comm/reform.h"

static int worker_post(struct gy_served *s, struct gy_net_request *r, int sends, int server,
                       uint32_t tag, void *buffer, size_t bytes, struct gy_error *err)
{
    *r = (struct gy_net_request){ .sends = sends, .peer = gy_served_rank(s, server), .tag = tag,
                                  .buffer = buffer, .bytes = bytes };
    return s->all->peers->post(s->all, r, err);
}

/* What each server counted will come. */
static int worker_expect_reports(struct gy_served *s, struct gy_error *err)
{
    const size_t count = (size_t)s->servers;
    if (s->end && s->end[0].buffer)
        return GY_OK;
    s->end = s->end ? s->end : gy_alloc_take(&s->alloc, count, sizeof *s->end);
    s->counted = s->counted ? s->counted : gy_alloc_take(&s->alloc, count, sizeof *s->counted);
    if (!s->end || !s->counted)
        return GY_NOMEM(err, "what servers count", count * sizeof *s->counted);
    for (int server = 0; server < s->servers; server++)
        GY_TRY(worker_post(s, &s->end[server], 0, server, GY_SERVED_END, &s->counted[server],
                           sizeof *s->counted, err));
    return GY_OK;
}

/* The first report of each says that it serves. */
static int worker_await_servers(struct gy_served *s, struct gy_error *err)
{
    GY_TRY(worker_expect_reports(s, err));
    for (int server = 0; server < s->servers; server++)
        GY_TRY(gy_served_await(s, &s->end[server], err));
    s->end[0].buffer = NULL;
    return GY_OK;
}

GY_INT int gy_worker_begin(struct gy_served *s, struct gy_error *err)
{
    const size_t count = (size_t)s->net.count;
    s->lanes = gy_alloc_take(&s->alloc, count, sizeof *s->lanes);
    if (!s->lanes)
        return GY_NOMEM(err, "the slices on their way", count * sizeof *s->lanes);
    for (int k = 0; k < s->net.count; k++)
        GY_TRY(gy_served_lane_open(s, &s->lanes[k], k, err));
    s->told = gy_alloc_take(&s->alloc, (size_t)s->workers, 1);
    if (!s->told)
        return GY_NOMEM(err, "what is known of workers", (size_t)s->workers);
    return s->job->joined ? GY_OK : worker_await_servers(s, err);
}

GY_INT void gy_worker_close(struct gy_served *s)
{
    for (int k = 0; s->lanes && k < s->net.count; k++)
        gy_served_lane_close(s, &s->lanes[k]);
    gy_alloc_free(&s->alloc, s->lanes, (size_t)s->net.count * sizeof *s->lanes);
    gy_alloc_free(&s->alloc, s->room, s->room_bytes);
    gy_alloc_free(&s->alloc, s->told, (size_t)s->workers);
    gy_alloc_free(&s->alloc, s->end, (size_t)s->servers * sizeof *s->end);
    gy_alloc_free(&s->alloc, s->counted, (size_t)s->servers * sizeof *s->counted);
}

/* ---- a gradient, and its answer ---- */

static int worker_find(const struct gy_served *s, const float *gradient)
{
    int k = 0;
    while (k < s->net.count && s->net.gradients + s->slices[k].first != gradient)
        k++;
    return k;
}

GY_INT int gy_worker_push(struct gy_served *s, const float *gradient, int64_t *ticket,
                          struct gy_error *err)
{
    const int k = worker_find(s, gradient);
    if (s->phase != GY_SERVED_NOW || k == s->net.count)
        return GY_FAIL(err, GY_E_BUG, "a gradient that is of no server's slice");
    struct gy_served_lane *const lane = &s->lanes[k];
    const int64_t count = s->slices[k].count;
    GY_TRY(gy_served_await(s, &lane->out, err));
    *lane->give = (struct gy_server_frame){
        .kind = GY_SERVER_PUSH, .run = s->net.run, .worker = s->number, .slice = k,
        .number = ++lane->number,
        .version = lane->version, .count = count, .flags = s->stop ? GY_SERVER_STOP : 0u };
    s->net.figures(s->net.user, lane->give->sums);
    gy_server_seal(lane->give);
    memcpy(gy_served_floats(lane->give), gradient, (size_t)count * sizeof *gradient);
    if (k == 0)
        gy_net_comm_enter(s->all->world); /* the job moves */
    const uint32_t tag = GY_SERVED_SLICES + (uint32_t)k;
    GY_TRY(worker_post(s, &lane->in, 0, s->slices[k].server, tag, lane->get, lane->bytes, err));
    *ticket = k;
    return worker_post(s, &lane->out, 1, s->slices[k].server, tag, lane->give, lane->bytes, err);
}

GY_INT int gy_worker_pull(struct gy_served *s, int64_t ticket, struct gy_error *err)
{
    struct gy_served_lane *const lane = &s->lanes[ticket];
    const struct gy_server_frame want = { .kind = GY_SERVER_WEIGHTS, .run = s->net.run,
                                          .worker = s->number,
                                          .slice = (int)ticket, .number = lane->number,
                                          .count = s->slices[ticket].count };
    GY_TRY(gy_served_await(s, &lane->in, err));
    GY_TRY(gy_server_check(lane->get, &want, err));
    if (lane->get->version < lane->version)
        return GY_FAIL(err, GY_E_MISMATCH, "server %d answers with weights after %" PRId64
                       " updates; it had %" PRId64 " before", s->slices[ticket].server,
                       lane->get->version, lane->version);
    lane->version = lane->get->version;
    s->meet |= (lane->get->flags & GY_SERVER_CALL) != 0;
    s->stop |= (lane->get->flags & GY_SERVER_STOP) != 0;
    return s->net.place(s->net.user, (int)ticket, gy_served_floats(lane->get), err);
}

/* ---- all else ---- */

/* Room for `bytes` bytes; its former content is gone. */
static int worker_room(struct gy_served *s, size_t bytes, struct gy_error *err)
{
    if (bytes <= s->room_bytes)
        return GY_OK;
    gy_alloc_free(&s->alloc, s->room, s->room_bytes);
    s->room_bytes = 0;
    s->room = gy_alloc_take(&s->alloc, 1, bytes);
    if (!s->room)
        return GY_NOMEM(err, "what is said to a server", bytes);
    s->room_bytes = bytes;
    return GY_OK;
}

static int worker_tell(struct gy_served *s, int server, const struct gy_server_frame *frame,
                       struct gy_error *err)
{
    s->talk = *frame;
    s->talk.run = s->net.run;
    s->talk.worker = s->number;
    s->talk.slice = -1;
    gy_server_seal(&s->talk);
    GY_TRY(worker_post(s, &s->talk_out, 1, server, GY_SERVED_TALK, &s->talk, sizeof s->talk, err));
    return gy_served_await(s, &s->talk_out, err);
}

/* Of workers that do not go in step each has its own; of a step's figures the last one says that
 * a rank was asked to stop. */
static int worker_sum_alone(struct gy_served *s, float *data, int64_t count)
{
    s->stop |= data[count - 1] != 0;
    data[count - 1] = (float)s->stop;
    return GY_OK;
}

GY_INT int gy_worker_sum(struct gy_served *s, float *data, int64_t count, struct gy_error *err)
{
    const size_t bytes = (size_t)count * sizeof *data;
    if (count == 0)
        return GY_OK;
    if (!gy_served_lockstep(s))
        return worker_sum_alone(s, data, count);
    const struct gy_server_frame frame = { .kind = GY_SERVER_SUM, .number = ++s->sums,
                                           .count = count };
    GY_TRY(worker_room(s, bytes, err));
    memcpy(s->room, data, bytes);
    GY_TRY(worker_tell(s, 0, &frame, err));
    GY_TRY(worker_post(s, &s->out, 1, 0, GY_SERVED_SUMS, s->room, bytes, err));
    GY_TRY(gy_served_await(s, &s->out, err));
    GY_TRY(worker_post(s, &s->in, 0, 0, GY_SERVED_SUMS, s->room, bytes, err));
    GY_TRY(gy_served_await(s, &s->in, err));
    memcpy(data, s->room, bytes);
    return GY_OK;
}

/* One server's floats, region by region, to their places. */
static void worker_spread(struct gy_served *s, int server, unsigned regions, const float *from)
{
    for (int r = 0; r < s->net.regions; r++)
        for (int k = 0; k < s->net.count && regions >> r & 1; k++) {
            const struct gy_server_slice *const slice = &s->slices[k];
            if (slice->server != server)
                continue;
            memcpy(s->net.region[r] + slice->first, from, (size_t)slice->count * sizeof *from);
            from += slice->count;
        }
}

static int64_t worker_holds(const struct gy_served *s, int server, unsigned regions)
{
    int64_t floats = 0;
    for (int r = 0; r < s->net.regions; r++)
        for (int k = 0; k < s->net.count && regions >> r & 1; k++)
            floats += s->slices[k].server == server ? s->slices[k].count : 0;
    return floats;
}

/* The answer: a frame for each of the server's slices, which tells its version, then the floats. */
static int worker_take_all(struct gy_served *s, int server, unsigned regions,
                           const struct gy_server_frame *frames, struct gy_error *err)
{
    for (int k = 0; k < s->net.count; k++) {
        if (s->slices[k].server != server)
            continue;
        const struct gy_server_frame want = { .kind = GY_SERVER_WEIGHTS, .run = s->net.run,
                                              .worker = s->number,
                                              .slice = k, .number = s->fetches };
        GY_TRY(gy_server_check(frames, &want, err));
        s->meet |= (frames->flags & GY_SERVER_CALL) != 0;
        s->lanes[k].version = frames->version;
        frames++;
    }
    worker_spread(s, server, regions, (const float *)(const void *)frames);
    return GY_OK;
}

static int worker_fetch_one(struct gy_served *s, int server, unsigned regions, int last,
                            struct gy_error *err)
{
    const struct gy_server_frame frame = { .kind = GY_SERVER_FETCH, .number = s->fetches,
                                           .flags = last ? GY_SERVER_LAST : 0u,
                                           .version = (int64_t)regions };
    size_t bytes = (size_t)worker_holds(s, server, regions) * sizeof(float);
    for (int k = 0; k < s->net.count; k++)
        bytes += s->slices[k].server == server ? sizeof frame : 0;
    GY_TRY(worker_room(s, bytes, err));
    GY_TRY(worker_post(s, &s->in, 0, server, GY_SERVED_ALL, s->room, bytes, err));
    GY_TRY(worker_tell(s, server, &frame, err));
    GY_TRY(gy_served_await(s, &s->in, err));
    return worker_take_all(s, server, regions, (const void *)s->room, err);
}

GY_INT int gy_worker_fetch(struct gy_served *s, unsigned regions, int last, struct gy_error *err)
{
    for (int called = 1; called;) {
        GY_TRY(last ? gy_worker_meet(s, err) : GY_OK);
        s->fetches++;
        for (int server = 0; server < s->servers; server++)
            GY_TRY(worker_fetch_one(s, server, regions | 1u, last, err));
        called = last && s->meet;
    }
    return GY_OK;
}

/* ---- leaving ---- */

static void worker_add_report(struct gy_served_report *all, const struct gy_served_report *one)
{
    all->taken += one->taken;
    all->dropped += one->dropped;
    all->most = gy_max64(all->most, one->most);
    all->lost = gy_max64(all->lost, one->lost);
    all->came = gy_max64(all->came, one->came);
    all->again += one->again;
    for (int i = 0; i < GY_SERVED_STALE; i++)
        all->stale[i] += one->stale[i];
}

static int worker_is_called(const struct gy_served *s)
{
    for (int server = 0; server < s->servers; server++)
        if (s->end[server].state == GY_NET_DONE && s->counted[server].meet)
            return 1;
    return 0;
}

static int worker_has_reports(const struct gy_served *s)
{
    int count = 0;
    for (int server = 0; server < s->servers; server++)
        count += s->end[server].state == GY_NET_DONE && !s->counted[server].meet;
    return count == s->servers;
}

static int worker_tell_all(struct gy_served *s, int kind, unsigned flags, int64_t number,
                           struct gy_error *err)
{
    const struct gy_server_frame frame = { .kind = kind, .number = number, .flags = flags };
    for (int server = 0; server < s->servers; server++)
        GY_TRY(worker_tell(s, server, &frame, err));
    return GY_OK;
}

/* Whatever was under way has come. */
GY_INT int gy_worker_meet(struct gy_served *s, struct gy_error *err)
{
    if (!s->meet)
        return GY_OK;
    for (int k = 0; k < s->net.count; k++)
        GY_TRY(gy_served_await(s, &s->lanes[k].out, err));
    GY_TRY(worker_tell_all(s, GY_SERVER_MEET, 0, ++s->meets, err));
    GY_TRY(gy_served_reform(s, err));
    s->meet = 0;
    s->talk_out = s->out = s->in = (struct gy_net_request){ .state = GY_NET_DONE };
    for (int k = 0; k < s->net.count; k++)
        gy_served_lane_clear(&s->lanes[k]);
    for (int server = 0; server < s->servers && s->end; server++)
        s->end[server] = (struct gy_net_request){ .buffer = NULL };
    return GY_OK;
}

/* Servers stay until all workers have their reports, or are lost. So who has to lead while it waits
 * finds them all. */
GY_INT int gy_worker_leave(struct gy_served *s, int leads, struct gy_error *err)
{
    GY_TRY(gy_worker_meet(s, err));
    GY_TRY(worker_expect_reports(s, err));
    GY_TRY(worker_tell_all(s, GY_SERVER_LEAVE, leads ? GY_SERVER_LAST : 0u, ++s->leaves, err));
    for (int still = 0; !worker_has_reports(s); still++) {
        if (!leads && gy_served_leader(s) == s->number)
            return 1;
        GY_TRY(s->all->peers->progress(s->all, err));
        s->meet |= worker_is_called(s);
        GY_TRY(gy_worker_meet(s, err));
        GY_TRY(worker_expect_reports(s, err));
        gy_served_pause(s, still);
    }
    s->report = (struct gy_served_report){ .taken = 0 };
    for (int server = 0; server < s->servers; server++)
        worker_add_report(&s->report, &s->counted[server]);
    return worker_tell_all(s, GY_SERVER_END, 0, 1, err);
}
