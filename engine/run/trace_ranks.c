/* SPDX-License-Identifier: MIT */
/* trace_ranks.c: a trace of several ranks. Those of one host append to one file in turn; on several
 * hosts each rank writes its own. */
#include "engine/base/file.h"
#include "engine/run/trace.h"
#include "engine/job/peers.h"

#ifndef GY_NO_RANKS
#define TRACE_FILE_MOST ((size_t)1 << 31)

static int trace_append(struct gyre_net *net, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    GY_TRY(gy_file_read(&net->scratch, path, TRACE_FILE_MOST, &text, &bytes, &net->error));
    const size_t end = sizeof GY_TRACE_END - 1;
    const int whole = bytes > end && memcmp(text + bytes - end, GY_TRACE_END, end) == 0;
    const int status = whole ? gy_trace_write(net, path, text, bytes)
                             : gy_engine_fail(net, GY_E_MISMATCH, "%.300s is not the trace that rank "
                                              "0 wrote", path);
    gy_alloc_free(&net->scratch, text, bytes + 1);
    return status;
}

/* One rank after the other; the first that fails ends it for all. */
static int trace_in_turn(struct gyre_net *net, const char *path)
{
    struct gyre_job *job = net->config.job;
    int status = GY_OK, failed = 0;
    for (int turn = 0; turn < gyre_job_ranks(job) && !failed; turn++) {
        if (turn == gyre_job_rank(job))
            status = turn == 0 ? gy_trace_write(net, path, NULL, 0) : trace_append(net, path);
        const int wrong = status != GY_OK;
        GY_TRY(gy_peers_any(job, wrong, &failed, &net->error));
    }
    if (failed && status == GY_OK)
        status = gy_engine_fail(net, GY_E_IO, "another rank could not write its part of %.300s",
                                path);
    return status;
}

GYRE_API int gyre_write_trace(struct gyre_net *net, const char *path)
{
    GY_TRY(gy_trace_ready(net, path));
    char own[4096];
    struct gyre_job *job = net->config.job;
    if (gyre_job_ranks(job) == 1)
        return gy_trace_write(net, path, NULL, 0);
    if (job->hosts == 1)
        return trace_in_turn(net, path);
    if ((size_t)snprintf(own, sizeof own, "%s.%d", path, gyre_job_rank(job)) >= sizeof own)
        return gy_engine_fail(net, GY_E_ARG, "the trace's path is longer than %zu bytes",
                              sizeof own - 16);
    return gy_trace_write(net, own, NULL, 0);
}

#endif
