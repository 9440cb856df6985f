/* SPDX-License-Identifier: MIT */
/* peers.c: calls of a rank that may be alone: the job's table, or without a job what one rank
 * gives. */
#include "engine/job/peers.h"

GYRE_API int gyre_job_rank(const struct gyre_job *job) { return job ? job->rank : 0; }
GYRE_API int gyre_job_ranks(const struct gyre_job *job) { return job ? job->ranks : 1; }

GY_INT int gy_peers_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err)
{
    return job ? job->peers->sum(job, data, count, err) : GY_OK;
}

GY_INT int gy_peers_any(struct gyre_job *job, int flag, int *out, struct gy_error *err)
{
    *out = flag != 0;
    return job ? job->peers->any(job, flag, out, err) : GY_OK;
}

GY_INT int gy_peers_agree(struct gyre_job *job, const char *what, uint64_t value, struct gy_error *err)
{
    return job ? job->peers->agree(job, what, value, err) : GY_OK;
}

GY_INT int gy_peers_agree_alike(struct gyre_job *job, const char *what, uint64_t kind, uint64_t value, struct gy_error *err)
{
    return job ? job->peers->agree_alike(job, what, kind, value, err) : GY_OK;
}

GY_INT int gy_peers_follow(struct gyre_job *job, int64_t *value, struct gy_error *err)
{
    return job ? job->peers->follow(job, value, err) : GY_OK;
}

GY_INT int gy_peers_alive(struct gyre_job *job, struct gy_error *err) { return job ? job->peers->alive(job, err) : GY_OK; }

GY_INT void gy_peers_note(struct gyre_job *job, int note, int ended, int64_t step)
{
    if (job)
        job->peers->note(job, note, ended, step);
}
