/* SPDX-License-Identifier: MIT */
/* served_parts.c: what servers and workers of a job with servers do alike: ranks, frames, talk. */
#include <time.h>

#include "engine/job/messages.h"
#include "engine/job/served_parts.h"

#define SERVED_SPINS 20 /* looks without a pause: servers and workers often share processors */
#define SERVED_PAUSE_NS 20000
#define SERVED_PAUSE_MOST_NS 500000

GY_INT int gy_served_rank(const struct gy_served *s, int server)
{
    (void)s;
    return server;
}

GY_INT int gy_served_is_lost(const struct gy_served *s, int worker, const char **text)
{
    static const char gone[] = "a worker was lost while ranks came together";
    const int rank = s->rank_of[worker];
    if (rank < 0 && text)
        *text = gone;
    return rank < 0 || gy_net_comm_spared(s->all->world, rank, text);
}

GY_INT int gy_served_leader(const struct gy_served *s)
{
    int leader = -1;
    for (int w = 0; w < s->workers; w++)
        if (!gy_served_is_lost(s, w, NULL) && (leader < 0 || s->age[w] < s->age[leader]))
            leader = w;
    return leader;
}

GY_INT int gy_served_lockstep(const struct gy_served *s)
{
    return s->config.sync == GYRE_SYNC_SERVER && s->config.backup == 0;
}

GY_INT float *gy_served_floats(struct gy_server_frame *frame)
{
    return (float *)(void *)(frame + 1);
}

GY_INT void gy_served_lane_clear(struct gy_served_lane *lane)
{
    lane->in = lane->out = (struct gy_net_request){ .state = GY_NET_DONE };
}

GY_INT int gy_served_lane_open(struct gy_served *s, struct gy_served_lane *lane, int slice,
                               struct gy_error *err)
{
    const size_t floats = (size_t)s->slices[slice].count * sizeof(float);
    lane->bytes = sizeof *lane->get + floats;
    lane->get = gy_alloc_take(&s->alloc, 1, lane->bytes);
    lane->give = gy_alloc_take(&s->alloc, 1, lane->bytes);
    lane->version = s->net.version;
    gy_served_lane_clear(lane);
    return lane->get && lane->give ? GY_OK : GY_NOMEM(err, "a slice on its way", 2 * lane->bytes);
}

GY_INT void gy_served_lane_close(struct gy_served *s, struct gy_served_lane *lane)
{
    gy_alloc_free(&s->alloc, lane->get, lane->bytes);
    gy_alloc_free(&s->alloc, lane->give, lane->bytes);
}

GY_INT void gy_served_pause(const struct gy_served *s, int still)
{
    const int over = still - SERVED_SPINS;
    const int64_t long_ns = (int64_t)SERVED_PAUSE_NS * (1 + over / 4);
    const struct timespec pause = { 0, (long)gy_min64(long_ns, SERVED_PAUSE_MOST_NS) };
    gy_net_comm_waits(s->all->world);
    if (over > 0)
        nanosleep(&pause, NULL);
}

static int served_may_lose(const struct gy_served *s, int rank) { return rank >= s->servers; }

/* Waits until the request is done, or until its peer is gone, if that may be: both are GY_OK. */
GY_INT int gy_served_await(struct gy_served *s, struct gy_net_request *request,
                           struct gy_error *err)
{
    for (int still = 0; request->state == GY_NET_PENDING; still++) {
        if (gy_net_comm_spared(s->all->world, request->peer, NULL))
            return GY_OK;
        GY_TRY(s->all->peers->progress(s->all, err));
        if (request->state == GY_NET_PENDING)
            gy_served_pause(s, still);
    }
    if (request->state == GY_NET_DONE || served_may_lose(s, request->peer))
        return GY_OK;
    return s->all->peers->await(s->all, request, err);
}

GY_INT int gy_served_post(struct gy_served *s, struct gy_net_request *request, struct gy_error *err)
{
    struct gy_net_end end;
    if (!served_may_lose(s, request->peer))
        return s->all->peers->post(s->all, request, err);
    gy_job_way(s->all, request->peer, &end);
    request->state = GY_NET_PENDING;
    const int status = end.transport->post(end.self, request, err);
    if (status != GY_E_PEER)
        return status;
    request->state = GY_NET_LOST;
    return GY_OK;
}
