/* SPDX-License-Identifier: MIT */
/* Messages between two ranks of a job, beside its sums and on the same connections. They are posted
 * and then moved by whoever comes by, as transport.h says; who waits says so to the job's guard, so
 * that a rank that is gone ends the wait with its name. */
#include <time.h>

#include "engine/job/job.h"

#define MESSAGES_SPINS 2000      /* looks without a pause: some tens of microseconds */
#define MESSAGES_PAUSE_NS 50000

GY_INT int gy_job_post(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err)
{
    struct gy_net_end end;
    if (request->tag < GY_NET_MESSAGE_TAG)
        return GY_FAIL(err, GY_E_BUG, "a message's tag %08" PRIx32 " belongs to sums", request->tag);
    GY_TRY(gy_net_comm_messages(job->world, &end, err));
    request->state = GY_NET_PENDING;
    return gy_net_comm_explain(job->world, end.transport->post(end.self, request, err), err);
}

GY_INT int gy_job_progress(struct gyre_job *job, struct gy_error *err)
{
    struct gy_net_end end;
    GY_TRY(gy_net_comm_messages(job->world, &end, err));
    const int status = end.transport->progress(end.self, err);
    if (status < 0)
        return gy_net_comm_explain(job->world, status, err);
    return gy_net_comm_check(job->world, err);
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
    GY_FAIL(err, GY_E_PEER, "a message %s rank %d was not finished: it is gone", request->sends ? "to" : "from", request->peer);
    return gy_net_comm_explain(job->world, GY_E_PEER, err);
}

#undef MESSAGES_SPINS
#undef MESSAGES_PAUSE_NS
