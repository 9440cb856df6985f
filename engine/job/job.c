/* SPDX-License-Identifier: MIT */
/* A job is opened by its ranks together: they find each other, compare what must be equal, map the memory of their host, and connect the
 * hosts. Channel 0 between hosts is that of the memory for sums that are copied; those of gy_job_take have one each. */
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/knob.h"
#include "engine/base/public.h"
#include "engine/job/job.h"

#define JOB_BYTES ((size_t)8 << 20) /* of each rank: larger sums go piece by piece */

GYRE_API int gyre_job_rank(const struct gyre_job *job) { return job ? job->rank : 0; }
GYRE_API int gyre_job_ranks(const struct gyre_job *job) { return job ? job->ranks : 1; }

static const char *job_variable(const char *name) { return getenv(name); }

static int job_map(struct gyre_job *job, struct gy_error *err)
{
    job->fd = gy_net_comm_memory(job->world);
    job->bytes = gy_net_host_bytes(job->locals, JOB_BYTES, 0);
    if (job->bytes == 0)
        return GY_FAIL(err, GY_E_ARG, "%d ranks on one host; there may be %d", job->locals, GY_NET_HOST_RANKS);
    GY_TRY(gy_job_lengthen(job->fd, GY_NET_COMM_BYTES + job->bytes, err));
    void *const base = mmap(NULL, job->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, job->fd, (off_t)GY_NET_COMM_BYTES);
    if (base == MAP_FAILED)
        return GY_FAIL(err, GY_E_NOMEM, "the ranks' memory of %zu bytes cannot be mapped: %s", job->bytes, strerror(errno));
    job->base = base;
    job->end = gy_align_up(GY_NET_COMM_BYTES + job->bytes, GY_NET_COMM_BYTES);
    return GY_OK;
}

static int job_world(struct gyre_job *job, int wire, struct gy_error *err)
{
    char version[32];
    snprintf(version, sizeof version, "%d", GYRE_VERSION);
    const struct gy_net_field fields[] = { { "the version of Gyre", version }, { "the wire's type", wire == GYRE_WIRE_BF16 ? "bf16" : "f32" } };
    const char *const bind = gy_knob_get("GYRE_BIND");
    const struct gy_net_comm_config config = { .bind = bind && strcmp(bind, "0") != 0, .get = job_variable, .wait_ns = job->wait_ns,
                                               .algorithm = gy_knob_get("GYRE_ALLREDUCE"), .topology = gy_knob_get("GYRE_TOPOLOGY"),
                                               .transport = gy_knob_get("GYRE_TRANSPORT"), .interface = gy_knob_get("GYRE_INTERFACE"),
                                               .code = gy_knob_get("GYRE_NET_CODE"),
                                               .fields = fields, .field_count = GY_COUNT(fields) };
    struct gy_net_standing at;
    GY_TRY(gy_net_comm_open(&job->world, &config, &job->alloc, err));
    gy_net_comm_standing(job->world, &at);
    job->rank = at.rank;
    job->ranks = at.ranks;
    job->local = at.local;
    job->locals = at.locals;
    job->hosts = at.hosts;
    return GY_OK;
}

/* bf16 is for gradients on their way between hosts. */
static int job_wire(struct gyre_job *job, const struct gyre_job_config *config, struct gy_error *err)
{
    job->half = config->wire == GYRE_WIRE_BF16;
    if (config->wire < GYRE_WIRE_F32 || config->wire > GYRE_WIRE_BF16)
        return GY_FAIL(err, GY_E_ARG, "job config: wire is %d; it must be GYRE_WIRE_F32 or GYRE_WIRE_BF16", config->wire);
    if (job->half && job->hosts < 2)
        return GY_FAIL(err, GY_E_ARG, "gradients as bf16 (wire) halve what travels between hosts; all ranks of this job are on one host and share "
                       "its memory: nothing travels");
    return GY_OK;
}

static int job_fill(struct gyre_job *job, const struct gyre_job_config *config, struct gy_error *err)
{
    if (!(config->wait_seconds > 0 && config->wait_seconds < 1e9))
        return GY_FAIL(err, GY_E_ARG, "job config: wait_seconds is %g; it must be above 0 and below 1e9", config->wait_seconds);
    job->wait_ns = (int64_t)(config->wait_seconds * 1e9);
    GY_TRY(job_world(job, config->wire, err));
    GY_TRY(job_wire(job, config, err));
    if (job->ranks == 1)
        return GY_OK;
    GY_TRY(job_map(job, err));
    GY_TRY(gy_net_host_open(&job->node, job->base, job->local, job->locals, JOB_BYTES, job->wait_ns, &job->alloc, err));
    return gy_net_comm_join(job->world, job->node, 0, JOB_BYTES, GY_NET_JOIN_TREE, err);
}

GYRE_API void gyre_job_config_default(struct gyre_job_config *config)
{
    if (!config)
        return;
    *config = (struct gyre_job_config){ .size = sizeof *config, .wait_seconds = 600 };
}

GYRE_API int gyre_job_open(struct gyre_job **out, const struct gyre_job_config *config, struct gyre_error *error)
{
    GY_TRY(gy_given(out, "gyre_job_open: job", error));
    struct gyre_job_config c;
    struct gy_error err = { 0 };
    const struct gy_alloc alloc = gy_alloc_default();
    gyre_job_config_default(&c);
    if (config && gy_config_take(&c, sizeof c, config, sizeof c.size, "job config", &err) != GY_OK)
        return gy_error_out(error, &err);
    struct gyre_job *job = gy_alloc_take(&alloc, 1, sizeof *job);
    int status = job ? GY_OK : GY_NOMEM(&err, "the job's handle", sizeof *job);
    if (job) {
        job->alloc = alloc;
        status = job_fill(job, &c, &err);
    }
    if (status == GY_OK) {
        *out = job;
        return GYRE_OK;
    }
    gyre_job_close(job);
    return gy_error_out(error, &err);
}

GYRE_API int gyre_job_end(struct gyre_job *job, struct gyre_error *error)
{
    struct gy_error err = { 0 };
    return !job || gy_net_comm_end(job->world, &err) == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

GYRE_API void gyre_job_close(struct gyre_job *job)
{
    if (!job)
        return;
    const struct gy_alloc alloc = job->alloc;
    gy_net_comm_close(job->world);
    gy_net_host_close(job->node);
    if (job->base)
        munmap(job->base, job->bytes);
    gy_alloc_free(&alloc, job, sizeof *job);
}

GY_INT int gy_job_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err)
{
    if (!job || job->ranks == 1)
        return GY_OK;
    struct gy_net_host *const node = gy_job_node(job, data);
    gy_net_comm_enter(job->world);
    const int status = node ? gy_net_host_allreduce(node, data, count, err) : gy_net_host_allreduce_outside(job->node, data, count, err);
    return gy_net_comm_explain(job->world, status, err);
}

GYRE_API int gyre_job_sum(struct gyre_job *job, float *data, int64_t count, struct gyre_error *error)
{
    GY_TRY(gy_given(data, "gyre_job_sum: data", error));
    struct gy_error err = { 0 };
    if (count < 0) {
        GY_FAIL(&err, GY_E_ARG, "gyre_job_sum: count is %" PRId64, count);
        return gy_error_out(error, &err);
    }
    return gy_job_sum(job, data, count, &err) == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

GY_INT int gy_job_any(struct gyre_job *job, int flag, int *out, struct gy_error *err)
{
    float sum = flag != 0;
    GY_TRY(gy_job_sum(job, &sum, 1, err));
    *out = sum != 0;
    return GY_OK;
}
