/* SPDX-License-Identifier: MIT */
/* job_sums.c: the public sums over a job's ranks, for programs that train by other means, such as
 * tools/examples/sum.c. Memory and sums are as for gradients; one rank's data stay as they are. */
#include "engine/base/public.h"
#include "engine/job/job.h"

GYRE_API int gyre_job_sum(struct gyre_job *job, float *data, int64_t count, struct gyre_error *error)
{
    GY_TRY(gy_given(data, "gyre_job_sum: data", error));
    struct gy_error err = { 0 };
    if (count < 0) {
        GY_FAIL(&err, GY_E_ARG, "gyre_job_sum: count is %" PRId64, count);
        return gy_error_out(error, &err);
    }
    return gy_peers_sum(job, data, count, &err) == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

/* What a job with servers begins is a push of gradients, for a net alone. */
static int job_has_memory(const struct gyre_job *job, struct gyre_error *error)
{
    struct gy_error err = { 0 };
    if (!job || !job->served)
        return GYRE_OK;
    GY_FAIL(&err, GY_E_UNSUPPORTED, "memory for sums: a job with servers has none; gyre_job_sum "
            "sums");
    return gy_error_out(error, &err);
}

static int job_api_take(struct gyre_job *job, size_t bytes, void **out, void **sums, struct gyre_error *error)
{
    struct gy_error err = { 0 };
    GY_TRY(job_has_memory(job, error));
    if (bytes == 0 || bytes > SIZE_MAX / 4) {
        GY_FAIL(&err, GY_E_ARG, "%zu bytes of the ranks' memory; there may be 1 to %zu", bytes, SIZE_MAX / 4);
        return gy_error_out(error, &err);
    }
    const int status = job->peers->take(job, bytes, out, sums, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

GYRE_API int gyre_job_memory(struct gyre_job *job, size_t bytes, void **out, struct gyre_error *error)
{
    GY_TRY(gy_given(job, "gyre_job_memory: job", error));
    GY_TRY(gy_given(out, "gyre_job_memory: memory", error));
    return job_api_take(job, bytes, out, NULL, error);
}

GYRE_API int gyre_job_memory_shared(struct gyre_job *job, size_t bytes, void **out, void **sums, struct gyre_error *error)
{
    GY_TRY(gy_given(job, "gyre_job_memory_shared: job", error));
    GY_TRY(gy_given(out, "gyre_job_memory_shared: memory", error));
    GY_TRY(gy_given(sums, "gyre_job_memory_shared: sums", error));
    return job_api_take(job, bytes, out, sums, error);
}

GYRE_API void gyre_job_release(struct gyre_job *job, void *memory)
{
    if (job)
        gy_job_put(job, memory);
}

GYRE_API int gyre_job_sum_start(struct gyre_job *job, float *data, int64_t count, int64_t *ticket, struct gyre_error *error)
{
    GY_TRY(gy_given(data, "gyre_job_sum_start: data", error));
    GY_TRY(gy_given(ticket, "gyre_job_sum_start: ticket", error));
    struct gy_error err = { 0 };
    if (count < 0) {
        GY_FAIL(&err, GY_E_ARG, "gyre_job_sum_start: count is %" PRId64, count);
        return gy_error_out(error, &err);
    }
    *ticket = 0;
    GY_TRY(job_has_memory(job, error));
    if (gyre_job_ranks(job) == 1)
        return GYRE_OK;
    const int status = job->peers->start(job, data, count, ticket, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

static int job_ticket(const struct gyre_job *job, int64_t ticket, const char *call,
                      struct gyre_error *error)
{
    struct gy_error err = { 0 };
    GY_TRY(job_has_memory(job, error));
    if (ticket >= 0)
        return GYRE_OK;
    GY_FAIL(&err, GY_E_ARG, "%s: ticket is %" PRId64 "; gyre_job_sum_start gives none below 0",
            call, ticket);
    return gy_error_out(error, &err);
}

GYRE_API int gyre_job_sum_test(struct gyre_job *job, int64_t ticket, int *done, struct gyre_error *error)
{
    GY_TRY(gy_given(done, "gyre_job_sum_test: done", error));
    GY_TRY(job_ticket(job, ticket, "gyre_job_sum_test", error));
    struct gy_error err = { 0 };
    const int status = gyre_job_ranks(job) == 1 ? 1 : job->peers->test(job, ticket, &err);
    if (status < 0)
        return gy_error_out(error, &err);
    *done = status;
    return GYRE_OK;
}

GYRE_API int gyre_job_sum_wait(struct gyre_job *job, int64_t ticket, struct gyre_error *error)
{
    GY_TRY(job_ticket(job, ticket, "gyre_job_sum_wait", error));
    struct gy_error err = { 0 };
    if (gyre_job_ranks(job) == 1)
        return GYRE_OK;
    return job->peers->wait(job, ticket, &err) == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
