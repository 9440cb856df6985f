/* SPDX-License-Identifier: MIT */
/* messages.c: messages between two ranks of a job, beside its sums. Ranks of one host have rings in
 * shared memory; those of other hosts use the connections of the sums. Messages are posted, then
 * progress moves them, as transport.h says. It also asks whether a rank is lost, which ends a wait
 * with the sentence of all ranks. A wait tells the failure detector that this rank waits, so that
 * it is not blamed as late. Servers and workers wait in gy_served_await (served_parts.c) instead of
 * gy_job_await. */
#include <sys/mman.h>
#include <time.h>

#include "engine/job/messages.h"

#define MESSAGES_SPINS 2000 /* looks without a pause: some tens of microseconds */
#define MESSAGES_PAUSE_NS 50000
#define MESSAGES_RANKS 4096 /* as many as a launcher may start */

/* ---- opening ---- */

GY_INT int gy_job_open_rings(struct gyre_job *job, size_t offset, struct gy_error *err)
{
    int local[MESSAGES_RANKS];
    struct gy_net_shared_config config = {
        .rank = job->rank, .ranks = job->ranks, .local = local, .locals = job->locals
    };
    if (job->ranks > MESSAGES_RANKS)
        return GY_FAIL(err, GY_E_ARG, "%d ranks that send each other messages; there may be %d",
                       job->ranks, MESSAGES_RANKS);
    void *const base =
        mmap(NULL, job->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, job->fd, (off_t)offset);
    if (base == MAP_FAILED)
        return GY_FAIL(err, GY_E_NOMEM, "the ranks' messages of %zu bytes cannot be mapped: %s",
                       job->ring_bytes, strerror(errno));
    job->rings = config.base = base;
    gy_net_comm_locals(job->world, local);
    return gy_net_shared_open(&job->shared, &config, &job->alloc, err);
}

GY_INT void gy_job_close_rings(struct gyre_job *job)
{
    gy_net_shared_close(job->shared);
    if (job->rings)
        munmap(job->rings, job->ring_bytes);
    job->shared = NULL;
    job->rings = NULL;
}

/* ---- messages ---- */

GY_INT void gy_job_way(const struct gyre_job *job, int rank, struct gy_net_end *out)
{
    if (gy_net_shared_has(job->shared, rank))
        gy_net_shared_end(job->shared, out);
    else
        gy_net_comm_messages(job->world, out);
}

GY_INT int gy_job_post(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err)
{
    struct gy_net_end end;
    if (!job->messages || request->tag < GY_NET_MESSAGE_TAG || request->peer == job->rank)
        return GY_FAIL(err, GY_E_BUG,
                       "a message between rank %d and rank %d of a job %s them, tag %08" PRIx32,
                       job->rank, request->peer, job->messages ? "with" : "without", request->tag);
    gy_job_way(job, request->peer, &end);
    request->state = GY_NET_PENDING;
    return gy_net_comm_explain(job->world, end.transport->post(end.self, request, err), err);
}

GY_INT void gy_job_forget(struct gyre_job *job, int peer)
{
    struct gy_net_end end;
    gy_job_way(job, peer, &end);
    if (end.transport)
        end.transport->cancel(end.self, peer);
}

static int messages_move(const struct gy_net_end *end, struct gy_error *err)
{
    return end->transport ? end->transport->progress(end->self, err) : GY_OK;
}

GY_INT int gy_job_progress(struct gyre_job *job, struct gy_error *err)
{
    struct gy_net_end near = { 0 }, far;
    if (job->shared)
        gy_net_shared_end(job->shared, &near);
    gy_net_comm_messages(job->world, &far);
    int status = messages_move(&near, err);
    status = status < 0 ? status : messages_move(&far, err);
    return status < 0 ? gy_net_comm_explain(job->world, status, err)
                      : gy_net_comm_check(job->world, err);
}

GY_INT int gy_job_await(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err)
{
    const struct timespec pause = { 0, MESSAGES_PAUSE_NS };
    for (int i = 0; request->state == GY_NET_PENDING; i++) {
        GY_TRY(gy_job_progress(job, err));
        gy_net_comm_waits(job->world);
        if (i >= MESSAGES_SPINS)
            nanosleep(&pause, NULL);
    }
    if (request->state == GY_NET_DONE)
        return GY_OK;
    GY_FAIL(err, GY_E_PEER, "a message %s rank %d was not finished: it is gone",
            request->sends ? "to" : "from", request->peer);
    return gy_net_comm_explain(job->world, GY_E_PEER, err);
}
