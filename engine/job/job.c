/* SPDX-License-Identifier: MIT */
/* job.c: opens a job by all its ranks together. They find each other, compare what must be equal,
 * map the memory of their host, and connect the hosts. Programs and tools call its public
 * functions; nets, the training loop and solvers the table job_peers.
 *
 * Sums of any memory are copied through one buffer, channel 0 between hosts. Memory of gy_job_take
 * needs no copy. The first rank of a host lengthens the file of its ranks; each rank maps it and
 * has its part. Sums run there. Between hosts each such memory has its own channel.
 *
 * The rank's own thread sums, when it polls between two ops. With shared memory summing is work,
 * not waiting, and a rank's threads already fill its processors: another one would take time from
 * them. A rank that is ahead does not wait at each bucket. It marks its buffer as ready and
 * computes on, so that ranks meet once a step. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/knob.h"
#include "engine/base/public.h"
#include "engine/job/cast.h"
#include "engine/job/deal.h"
#include "engine/job/job.h"
#include "engine/job/newcomer.h"
#include "net/comm/reform.h"
#include "net/comm/rendezvous.h"
#include "engine/job/served_parts.h"
#include "engine/job/recorder.h"
#include "engine/job/wire.h"

#define JOB_BYTES ((size_t)8 << 20) /* of each rank: larger sums go piece by piece */
#define JOB_PAGE GY_NET_COMM_BYTES /* whole pages, whatever their size */

/* ---- opening ---- */

/* Never shortens the file, whoever comes late. The pages exist then, or this fails: a page that is
 * missing later would be a SIGBUS. The system would end processes for what the machine lacks. */
static int job_lengthen(int fd, size_t bytes, struct gy_error *err)
{
    struct stat info;
    uint64_t available;
    const uint64_t had = fstat(fd, &info) == 0 ? (uint64_t)info.st_size : 0;
    if (bytes > had && gy_memory_short(bytes - had, &available))
        return GY_NOMEM(err, "the ranks' memory", bytes - had);
    const int reason = posix_fallocate(fd, 0, (off_t)bytes);
    if (reason != 0)
        return GY_FAIL(err, GY_E_IO, "the ranks' memory cannot have %zu bytes: %s", bytes, strerror(reason));
    return GY_OK;
}

static const char *job_variable(const char *name) { return getenv(name); }

static int job_map(struct gyre_job *job, struct gy_error *err)
{
    job->fd = gy_net_comm_memory(job->world);
    job->bytes = gy_net_host_bytes(job->locals, JOB_BYTES, 0);
    if (job->bytes == 0)
        return GY_FAIL(err, GY_E_ARG, "%d ranks on one host; there may be %d", job->locals, GY_NET_HOST_RANKS);
    GY_TRY(job_lengthen(job->fd, GY_NET_COMM_BYTES + job->bytes, err));
    void *const base = mmap(NULL, job->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, job->fd, (off_t)GY_NET_COMM_BYTES);
    if (base == MAP_FAILED)
        return GY_FAIL(err, GY_E_NOMEM, "the ranks' memory of %zu bytes cannot be mapped: %s", job->bytes, strerror(errno));
    job->base = base;
    job->end = gy_align_up(GY_NET_COMM_BYTES + job->bytes, GY_NET_COMM_BYTES);
    return GY_OK;
}

/* met: filled where ranks meet for the first time; else boot and place are what they settled. */
static int job_world(struct gyre_job *job, struct gy_net_boot *boot,
                     const struct gy_net_launcher *place, struct gy_net_boot_config *met,
                     struct gy_error *err)
{
    const struct gyre_job_config *const c = job->config;
    char version[32], roles[160];
    snprintf(version, sizeof version, "%d", GYRE_VERSION);
    snprintf(roles, sizeof roles, "%d servers, sync %d, backup %d, staleness %" PRId64 ", rate %d, "
             "record %d, replay %d", c->servers, c->sync,
             c->backup, c->staleness, c->stale_rate, c->record != NULL, c->replay != NULL);
    const char *const type = c->wire == GYRE_WIRE_BF16 ? "bf16" : "f32";
    const struct gy_net_field fields[] = { { "the version of Gyre", version },
                                           { "the wire's type", type },
                                           { "messages", c->messages ? "yes" : "no" },
                                           { "the roles of ranks (--servers, --sync and what "
                                             "belongs to it)", roles } };
    const char *const bind = gy_knob_get("GYRE_BIND");
    const struct gy_net_comm_config config = { .bind = bind && strcmp(bind, "0") != 0, .get = job_variable, .wait_ns = job->wait_ns,
                                                .algorithm = gy_knob_get("GYRE_ALLREDUCE"), .topology = gy_knob_get("GYRE_TOPOLOGY"),
                                                .transport = gy_knob_get("GYRE_TRANSPORT"), .interface = gy_knob_get("GYRE_INTERFACE"),
                                                .code = gy_knob_get("GYRE_NET_CODE"),
                                                .boot = boot, .place = *place, .met = met,
                                                .firm = c->servers,
                                                .blocks = c->elastic_least > 0 && c->servers == 0,
                                                .fields = fields, .field_count = GY_COUNT(fields) };
    struct gy_net_standing at;
    GY_TRY(gy_net_comm_open(&job->world, &config, &job->alloc, err));
    gy_net_comm_standing(job->world, &at);
    job->rank = at.rank;
    job->ranks = at.ranks;
    job->local = at.local;
    job->locals = at.locals;
    job->hosts = at.hosts;
    job->blocks = at.blocks;
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

/* Two meetings: the file is long enough; all have mapped it. If one fails, all do. */
static int job_open_messages(struct gyre_job *job, struct gy_error *err)
{
    const size_t bytes = gy_align_up(gy_net_shared_bytes(job->locals), JOB_PAGE);
    const int several = job->locals > 1;
    int failed = 0;
    int status = several && job->local == 0 ? job_lengthen(job->fd, job->end + bytes, err) : GY_OK;
    job->messages = 1;
    job->ring_bytes = bytes;
    GY_TRY(gy_job_any(job, status != GY_OK, &failed, err));
    if (!failed && several)
        status = gy_job_open_rings(job, job->end, err);
    GY_TRY(gy_job_any(job, failed || status != GY_OK, &failed, err));
    job->end += several ? bytes : 0;
    if (status == GY_OK && failed)
        status = GY_FAIL(err, GY_E_NOMEM, "another rank could not map the ranks' messages");
    return status;
}

/* Memory and sums among the ranks of the world. */
static int job_stand(struct gyre_job *job, struct gy_error *err)
{
    if (job->ranks == 1)
        return GY_OK;
    GY_TRY(job_map(job, err));
    GY_TRY(gy_net_host_open(&job->node, job->base, job->local, job->locals, JOB_BYTES, job->wait_ns, &job->alloc, err));
    GY_TRY(gy_net_comm_join(job->world, job->node, 0, JOB_BYTES, GY_NET_JOIN_TREE, err));
    return job->config->messages || job->config->servers > 0 ? job_open_messages(job, err) : GY_OK;
}

static void job_shut(struct gyre_job *job)
{
    gy_net_comm_close(job->world);
    gy_net_host_close(job->node);
    gy_job_close_rings(job);
    if (job->base)
        munmap(job->base, job->bytes);
    job->world = NULL;
    job->node = NULL;
    job->base = NULL;
}

/* A folder that the environment names counts before the caller's, and must be there. */
static int job_recorder(struct gyre_job *job, int64_t came, struct gy_error *err)
{
    const char *const named = gy_knob_get("GYRE_FLIGHT");
    const int off = named && strcmp(named, "off") == 0;
    if (job->recorder)
        gy_recorder_reformed(job);
    if (job->recorder || job->ranks == 1)
        return GY_OK;
    return gy_recorder_open(job, off ? NULL : named ? named : job->config->flight, came,
                            named && !off, err);
}

/* ---- jobs that outlive their ranks ---- */

static int job_check_elastic(struct gyre_job *job, struct gy_error *err)
{
    const struct gyre_job_config *const c = job->config;
    job->elastic = c->elastic_least > 0 ? c->elastic_most : 0;
    if (job->elastic && c->elastic_most >= c->elastic_least && c->elastic_most <= GY_NET_MEMBERS)
        return GY_OK;
    if (!job->elastic && c->elastic_least == 0 && c->elastic_most == 0)
        return GY_OK;
    return GY_FAIL(err, GY_E_ARG, "job config: elastic_least is %d and elastic_most %d; they must "
                   "be 1 <= least <= most <= %d", c->elastic_least, c->elastic_most,
                   GY_NET_MEMBERS);
}

static int job_open_reform(struct gyre_job *job, struct gy_net_reform_config *c,
                           const struct gy_net_boot_config *met, struct gy_error *err)
{
    memcpy(c->key, met->key, sizeof c->key);
    c->epoch = met->epoch;
    c->least = job->config->elastic_least;
    c->most = job->config->elastic_most;
    if (job->config->servers > 0 && job->ranks > 0) /* the places of those that were lost */
        c->most = job->ranks < c->most ? job->ranks : c->most;
    c->wait_ns = job->wait_ns;
    GY_TRY(gy_newcomer_read(&c->board, &c->port, err));
    c->port += c->port > 0 ? c->id : 0;
    return gy_net_reform_open(&job->reform, c, &job->alloc, err);
}

/* A rank that is alone has met nobody, but may be joined by who knows the key of its launcher. */
static int job_met_nobody(struct gy_net_boot_config *met, struct gy_error *err)
{
    struct gy_net_rendezvous meeting;
    GY_TRY(gy_net_launcher_read(&met->place, job_variable, err));
    if (!gy_knob_get("GYRE_KEY_FD") && !gy_knob_get("GYRE_KEY_FILE"))
        return gy_net_random(met->key, sizeof met->key, err);
    GY_TRY(gy_net_rendezvous(&meeting, met, job_variable, err));
    if (met->listener >= 0)
        close(met->listener);
    return GY_OK;
}

/* Everybody's address to everybody, for the case. */
static int job_prepare(struct gyre_job *job, struct gy_net_boot_config *met, struct gy_error *err)
{
    struct gy_net_reform_config c = { .id = job->rank };
    struct gy_net_member all[GY_NET_MEMBERS], own;
    if (job->ranks > job->config->elastic_most)
        return GY_FAIL(err, GY_E_ARG, "%d ranks; the job may have %d", job->ranks,
                       job->config->elastic_most);
    gy_net_endpoint_loopback(&c.at);
    if (job->ranks == 1)
        GY_TRY(job_met_nobody(met, err));
    else
        GY_TRY(gy_net_comm_address(job->world, &c.at, err));
    GY_TRY(job_open_reform(job, &c, met, err));
    own = gy_net_reform_self(job->reform);
    GY_TRY(gy_job_share(job, &own, sizeof own, all, err));
    gy_net_reform_know(job->reform, all, job->ranks);
    return GY_OK;
}

static int job_begin(struct gyre_job *job, struct gy_error *err)
{
    const struct gy_net_launcher none = { .ranks = 0 };
    struct gy_net_boot_config met = { .wait_ns = job->wait_ns };
    const int64_t came = gy_clock_ns();
    GY_TRY(job_world(job, NULL, &none, &met, err));
    GY_TRY(job_recorder(job, came, err));
    GY_TRY(job_wire(job, job->config, err));
    GY_TRY(job_stand(job, err));
    return job->elastic ? job_prepare(job, &met, err) : GY_OK;
}

/* In the places that a meeting has settled. */
static int job_resume(struct gyre_job *job, struct gy_net_boot *boot,
                      const struct gy_net_launcher *place, struct gy_error *err)
{
    job->uneven = 0;
    const int64_t came = gy_clock_ns();
    GY_TRY(job_world(job, boot, place, NULL, err));
    GY_TRY(job_recorder(job, came, err));
    return job_stand(job, err);
}

/* One try of a newcomer. */
static int job_try(struct gyre_job *job, struct gy_newcomer *n, struct gy_net_boot_config *met,
                   struct gy_net_boot **boot, struct gy_net_launcher *place, struct gy_error *err)
{
    struct gy_net_reform_config c = { .id = met->place.rank };
    char host[GY_NEWCOMER_HOST];
    int port = 0;
    int64_t patience;
    GY_TRY(gy_newcomer_next(n, host, &port, &patience, err));
    GY_TRY(gy_net_reform_near(host, port, &c.at, err));
    if (!job->reform)
        GY_TRY(job_open_reform(job, &c, met, err));
    return gy_net_reform_join(job->reform, host, port, patience, boot, place, err);
}

/* A newcomer: who leads may be lost just then, and another lead soon. */
static int job_join(struct gyre_job *job, const char *said, struct gy_error *err)
{
    struct gy_newcomer newcomer;
    struct gy_net_boot_config met = { .wait_ns = job->wait_ns };
    struct gy_net_rendezvous meeting;
    struct gy_net_launcher place;
    struct gy_net_boot *boot = NULL;
    int status;
    GY_TRY(gy_net_launcher_read(&met.place, job_variable, err));
    GY_TRY(gy_net_rendezvous(&meeting, &met, job_variable, err));
    gy_newcomer_begin(&newcomer, said, job->wait_ns);
    while ((status = job_try(job, &newcomer, &met, &boot, &place, err)) == GY_E_PEER)
        if (gy_newcomer_is_late(&newcomer))
            break;
    GY_TRY(status);
    job->joined = 1;
    return job_resume(job, boot, &place, err);
}

GY_INT int gy_job_reform(struct gyre_job *job, struct gy_error *err)
{
    struct gy_net_launcher place;
    struct gy_net_boot *boot = NULL;
    for (int i = 0; i < GY_JOB_AREAS; i++)
        if (job->area[i].at && job->config->servers == 0) /* else it is its rank's own */
            return GY_FAIL(err, GY_E_STATE, "ranks cannot come together again while nets are open");
    job_shut(job);
    GY_TRY(gy_net_reform_meet(job->reform, &boot, &place, err));
    return job_resume(job, boot, &place, err);
}

GY_INT int gy_job_look(struct gyre_job *job)
{
    return job->rank == 0 && gy_net_reform_look(job->reform, job->ranks) > 0;
}

/* ---- opening all of it ---- */

static int job_roles(const struct gyre_job_config *c, struct gy_error *err)
{
    if (c->servers < 0 || c->sync < GYRE_SYNC_ALLREDUCE || c->sync > GYRE_SYNC_ASYNC ||
        (c->servers == 0) != (c->sync == GYRE_SYNC_ALLREDUCE))
        return GY_FAIL(err, GY_E_ARG, "job config: %d servers and sync %d: servers are for "
                       "GYRE_SYNC_SERVER and GYRE_SYNC_ASYNC, and these need one or more",
                       c->servers, c->sync);
    if (c->staleness < -1 || c->stale_rate < 0 || c->stale_rate > 1)
        return GY_FAIL(err, GY_E_ARG, "job config: staleness is %" PRId64 " and stale_rate %d; "
                       "they must be -1 or more, and 0 or 1", c->staleness, c->stale_rate);
    if (c->servers == 0 && (c->backup || c->record || c->replay))
        return GY_FAIL(err, GY_E_ARG, "job config: backup, record and replay are for servers, and "
                       "there are none");
    if (c->record && c->replay)
        return GY_FAIL(err, GY_E_ARG, "job config: record writes an order, replay follows one; "
                       "take one of both");
    if (c->elastic_least > 0 && (c->record || c->replay))
        return GY_FAIL(err, GY_E_ARG, "job config: a run to which workers come back (elastic) has "
                       "no record that could be replayed");
    if (c->wire != GYRE_WIRE_F32 && c->servers > 0)
        return GY_FAIL(err, GY_E_ARG, "job config: gradients to servers travel as f32, not as bf16 "
                       "(wire)");
    return GY_OK;
}

static int job_fill(struct gyre_job *job, const struct gyre_job_config *config, struct gy_error *err)
{
    if (!(config->wait_seconds > 0 && config->wait_seconds < 1e9))
        return GY_FAIL(err, GY_E_ARG, "job config: wait_seconds is %g; it must be above 0 and below 1e9", config->wait_seconds);
    job->wait_ns = (int64_t)(config->wait_seconds * 1e9);
    if (config->messages < 0 || config->messages > 1)
        return GY_FAIL(err, GY_E_ARG, "job config: messages is %d; it must be 0 or 1",
                       config->messages);
    *job->config = *config;
    GY_TRY(job_roles(config, err));
    GY_TRY(job_check_elastic(job, err));
    const char *const join = job->elastic ? gy_knob_get("GYRE_JOIN") : NULL;
    return join ? job_join(job, join, err) : job_begin(job, err);
}

/* ---- sums at once ---- */

GY_INT int gy_job_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err)
{
    if (!job || job->ranks == 1)
        return GY_OK;
    struct gy_net_host *const node = gy_job_node(job, data);
    gy_net_comm_enter(job->world);
    const int status = node ? gy_net_host_allreduce(node, data, count, err) : gy_net_host_allreduce_outside(job->node, data, count, err);
    return gy_net_comm_explain(job->world, status, err);
}

GY_INT int gy_job_any(struct gyre_job *job, int flag, int *out, struct gy_error *err)
{
    float sum = flag != 0;
    GY_TRY(job->peers->sum(job, &sum, 1, err));
    *out = sum != 0;
    return GY_OK;
}

/* ---- what must be equal ---- */

#define JOB_WORD 8  /* of 16 bits, exact in float: the kind, then the value */
#define JOB_PARTS 9 /* then 1: a rank that is gone has a row of zeros */
#define JOB_NAMED 8 /* ranks in a sentence */

/* A rank's word is its row; the others' rows are 0, so that the sum has all of them. */
static void job_put_word(float row[JOB_PARTS], uint64_t kind, uint64_t value)
{
    for (int k = 0; k < JOB_WORD; k++)
        row[k] = (float)((k < 4 ? kind : value) >> 16 * (k % 4) & 0xffff);
    row[JOB_WORD] = 1;
}

static int job_is_here(const float *words, int rank)
{
    return words[rank * JOB_PARTS + JOB_WORD] > 0;
}

/* The first rank of the same kind, itself where it is that. */
static int job_first_like(const float *words, int rank)
{
    int first = 0;
    while (!job_is_here(words, first) ||
           memcmp(words + first * JOB_PARTS, words + rank * JOB_PARTS, 4 * sizeof *words) != 0)
        first++;
    return first;
}

/* Writes the ranks whose value differs from that of the first of their kind, as text. Returns how
 * many; *like: the first rank of the first one's kind. */
static int job_differ(const float *words, int ranks, int *like, char *text, size_t room)
{
    int count = 0;
    size_t at = 0;
    for (int r = 1; r < ranks; r++) {
        const int first = job_is_here(words, r) ? job_first_like(words, r) : r;
        if (memcmp(words + first * JOB_PARTS, words + r * JOB_PARTS, JOB_PARTS * sizeof *words) == 0)
            continue;
        *like = count == 0 ? first : *like;
        if (count++ < JOB_NAMED && at < room)
            at += (size_t)snprintf(text + at, room - at, "%s%d", count > 1 ? ", " : "", r);
    }
    if (count > JOB_NAMED && at < room)
        snprintf(text + at, room - at, " and %d more", count - JOB_NAMED);
    return count;
}

GY_INT int gy_job_agree_alike(struct gyre_job *job, const char *what, uint64_t kind, uint64_t value, struct gy_error *err)
{
    const int ranks = gyre_job_ranks(job);
    char who[160];
    int like = 0;
    if (ranks == 1)
        return GY_OK;
    const size_t count = (size_t)ranks * JOB_PARTS;
    float *const words = gy_alloc_take(&job->alloc, count, sizeof *words);
    if (!words)
        return GY_NOMEM(err, "what ranks must agree on", count * sizeof *words);
    job_put_word(words + (size_t)job->rank * JOB_PARTS, kind, value);
    const int status = job->peers->sum(job, words, (int64_t)count, err),
        differ = status == GY_OK ? job_differ(words, ranks, &like, who, sizeof who) : 0;
    gy_alloc_free(&job->alloc, words, count * sizeof *words);
    GY_TRY(status);
    if (differ == 0)
        return GY_OK;
    return GY_FAIL(err, GY_E_MISMATCH, differ == 1 ? "rank %s has not the same as rank %d: %s" : "ranks %s have not the same as rank %d: %s", who, like, what);
}

GY_INT int gy_job_agree(struct gyre_job *job, const char *what, uint64_t value, struct gy_error *err)
{
    return gy_job_agree_alike(job, what, 0, value, err);
}

GY_INT int gy_job_follow(struct gyre_job *job, int64_t *value, struct gy_error *err)
{
    float parts[JOB_PARTS] = { 0 };
    uint64_t all = 0;
    if (gyre_job_ranks(job) == 1)
        return GY_OK;
    if (job->rank == 0)
        job_put_word(parts, 0, (uint64_t)*value);
    GY_TRY(job->peers->sum(job, parts, JOB_PARTS, err));
    for (int k = 4; k < JOB_WORD; k++)
        all |= (uint64_t)parts[k] << 16 * (k % 4);
    *value = (int64_t)all;
    return GY_OK;
}

/* ---- memory ---- */

static int job_free_area(struct gyre_job *job)
{
    for (int i = 0; i < GY_JOB_AREAS; i++)
        if (!job->area[i].at)
            return i;
    return -1;
}

static int job_map_area(const struct gyre_job *job, struct gy_job_area *a, struct gy_error *err)
{
    void *const base = mmap(NULL, a->base_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, job->fd, (off_t)a->offset);
    if (base == MAP_FAILED)
        return GY_FAIL(err, GY_E_NOMEM, "the ranks' memory of %zu bytes cannot be mapped: %s", a->base_bytes, strerror(errno));
    a->base = base;
    return GY_OK;
}

/* Are the ranks of one host on several sockets, with some together? With the tree of shards, only
 * sockets of a power of two of consecutive ranks sum as all ranks would. All ranks of the host find
 * the same. */
static int job_has_sockets(const struct gyre_job *job, struct gy_net_host_sockets_config *c, int *size)
{
    *c = (struct gy_net_host_sockets_config){ .size = size, .wait_ns = job->wait_ns };
    int most = 0, even = 1, ordered = 0;
    c->groups = gy_net_comm_groups(job->world, size, &c->group, &c->rank, &ordered);
    for (int g = 0; g < c->groups; g++) {
        most = size[g] > most ? size[g] : most;
        even = even && size[g] == size[0];
    }
    return job->hosts == 1 && c->groups > 1 && most > 1 &&
           (!job->tree || (!job->uneven && even && ordered && (size[0] & (size[0] - 1)) == 0));
}

static int job_open_sums(struct gyre_job *job, struct gy_job_area *a, struct gy_error *err)
{
    int size[GY_NET_GROUPS];
    struct gy_net_host_sockets_config c;
    if (!job_has_sockets(job, &c, size)) {
        GY_TRY(gy_net_host_open(&a->node, a->base, job->local, job->locals, a->bytes, job->wait_ns, &job->alloc, err));
        if (a->shared)
            gy_net_host_share(a->node);
        if (job->tree && job->uneven)
            gy_net_host_deal(a->node, job->first);
        gy_net_host_clear(a->node);
        return GY_OK;
    }
    c.base = a->base;
    c.most = a->bytes;
    c.shared = a->shared;
    GY_TRY(gy_net_host_sockets_open(&a->sockets, &c, &job->alloc, err));
    gy_net_host_sockets_clear(a->sockets);
    a->node = gy_net_host_sockets_node(a->sockets);
    return GY_OK;
}

static size_t job_area_bytes(const struct gyre_job *job, const struct gy_job_area *a)
{
    int size[GY_NET_GROUPS];
    struct gy_net_host_sockets_config c;
    const int sockets = job_has_sockets(job, &c, size);
    return gy_align_up(sockets ? gy_net_host_sockets_bytes(size, c.groups, a->bytes, a->shared) : gy_net_host_bytes(job->locals, a->bytes, a->shared),
                       JOB_PAGE);
}

static int job_open_area(struct gyre_job *job, struct gy_job_area *a, int channel, struct gy_error *err)
{
    GY_TRY(job_map_area(job, a, err));
    GY_TRY(job_open_sums(job, a, err));
    const unsigned how = (job->half ? GY_NET_JOIN_HALF : 0u) | (job->tree ? GY_NET_JOIN_TREE : 0u);
    GY_TRY(gy_net_comm_join(job->world, a->node, channel, a->bytes, how, err));
    a->at = gy_net_host_memory(a->node);
    return GY_OK;
}

static void job_close_area(struct gyre_job *job, struct gy_job_area *a, int channel)
{
    gy_net_comm_leave(job->world, channel);
    if (a->sockets)
        gy_net_host_sockets_close(a->sockets);
    else
        gy_net_host_close(a->node);
    if (a->base)
        munmap(a->base, a->base_bytes);
    *a = (struct gy_job_area){ 0 };
}

/* All ranks ask for the same, and have the same left: then it has one place on all. */
static int job_agree_area(struct gyre_job *job, const struct gy_job_area *a, struct gy_error *err)
{
    uint64_t left = 0;
    for (int i = 0; i < GY_JOB_AREAS; i++)
        left |= (uint64_t)(job->area[i].at != NULL) << i;
    GY_TRY(gy_job_agree(job, "how much memory for sums is taken", a->bytes, err));
    return gy_job_agree(job, "whether memory for sums is shared, or which was released before",
                        left << 1 | (uint64_t)a->shared, err);
}

/* Behind what is left, in whatever order the rest was released. */
static size_t job_area_offset(const struct gyre_job *job)
{
    size_t end = job->end;
    for (int i = 0; i < GY_JOB_AREAS; i++) {
        const size_t other = job->area[i].offset + job->area[i].base_bytes;
        end = other > end ? other : end;
    }
    return end;
}

/* Meets twice: when the file is long enough, and when all have mapped and cleared their parts. A
 * failure of one is a failure of all. */
static int job_take_shared(struct gyre_job *job, struct gy_job_area *a, int channel, struct gy_error *err)
{
    int failed = 0;
    GY_TRY(job_agree_area(job, a, err));
    a->base_bytes = job_area_bytes(job, a);
    a->offset = job_area_offset(job);
    if (a->base_bytes == 0 || a->base_bytes > SIZE_MAX - a->offset)
        return GY_FAIL(err, GY_E_NOMEM, "%d ranks with %zu bytes of gradients each are beyond the address space", job->locals, a->bytes);
    int status = job->local == 0 ? job_lengthen(job->fd, a->offset + a->base_bytes, err) : GY_OK;
    GY_TRY(gy_job_any(job, status != GY_OK, &failed, err));
    if (!failed)
        status = job_open_area(job, a, channel, err);
    GY_TRY(gy_job_any(job, failed || status != GY_OK, &failed, err));
    if (status == GY_OK && failed)
        status = GY_FAIL(err, GY_E_NOMEM, "another rank could not take its part of the ranks' memory of %zu bytes", a->base_bytes);
    return status;
}

GY_INT int gy_job_take(struct gyre_job *job, size_t bytes, void **out, void **sums, struct gy_error *err)
{
    const int place = job_free_area(job);
    if (place < 0)
        return GY_FAIL(err, GY_E_STATE, "%d nets or memories for sums are open in one job; there "
                       "may be no more", GY_JOB_AREAS);
    struct gy_job_area a = { .bytes = bytes, .shared = sums != NULL };
    if (job->node) {
        const int status = job_take_shared(job, &a, place + 1, err);
        if (status != GY_OK) {
            job_close_area(job, &a, place + 1);
            return status;
        }
    } else {
        a.base = NULL;
        a.at = gy_alloc_take(&job->alloc, 1, bytes + 1);
        if (!a.at)
            return GY_NOMEM(err, "gradients that are sent", bytes);
    }
    job->area[place] = a;
    *out = a.at;
    if (sums)
        *sums = a.node ? gy_net_host_sums(a.node) : a.at;
    return GY_OK;
}

static int job_find_area(const struct gyre_job *job, const void *memory)
{
    for (int i = 0; i < GY_JOB_AREAS; i++) {
        const unsigned char *at = job->area[i].at, *p = memory;
        if (at && p >= at && p < at + job->area[i].bytes)
            return i;
    }
    return -1;
}

GY_INT struct gy_net_host *gy_job_node(const struct gyre_job *job, const void *memory)
{
    const int place = job_find_area(job, memory);
    return place >= 0 ? job->area[place].node : NULL;
}

GY_INT void gy_job_put(struct gyre_job *job, void *memory)
{
    const int place = memory ? job_find_area(job, memory) : -1;
    if (place < 0)
        return;
    struct gy_job_area *a = &job->area[place];
    if (!a->node) {
        gy_alloc_free(&job->alloc, a->at, a->bytes + 1);
        *a = (struct gy_job_area){ 0 };
        return;
    }
    if (gy_net_host_busy(a->node)) /* after a failure: others wait for them */
        gy_net_comm_fail(job->world);
    job_close_area(job, a, place + 1);
}

/* ---- sums that are begun ---- */

GY_INT void gy_job_turn(struct gyre_job *job, const void *memory, int sums)
{
    const int place = job_find_area(job, memory);
    if (place >= 0 && job->area[place].node)
        gy_net_comm_turn(job->world, place + 1, sums);
}

GY_INT int gy_job_start(struct gyre_job *job, float *data, int64_t count, int64_t *ticket, struct gy_error *err)
{
    const int place = job_find_area(job, data);
    int64_t number = 0;
    if (place < 0)
        return GY_FAIL(err, GY_E_ARG, "a sum of %" PRId64 " floats was begun outside the ranks' memory", count);
    gy_net_comm_enter(job->world);
    if (job->area[place].node)
        GY_TRY(gy_net_comm_explain(job->world, gy_net_host_start(job->area[place].node, data, count, &number, err), err));
    *ticket = number * GY_JOB_AREAS + place;
    return GY_OK;
}

static int job_has_begun(const struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    const struct gy_net_host *const node = job->area[ticket % GY_JOB_AREAS].node;
    if (!node || gy_net_host_has_begun(node, ticket / GY_JOB_AREAS))
        return GY_OK;
    return GY_FAIL(err, GY_E_ARG, "the sum of ticket %" PRId64 " was not begun", ticket);
}

GY_INT int gy_job_test(struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    struct gy_net_host *const node = job->area[ticket % GY_JOB_AREAS].node;
    GY_TRY(job_has_begun(job, ticket, err));
    gy_net_comm_progress(job->world);
    const int status = node ? gy_net_host_test(node, ticket / GY_JOB_AREAS, err) : 1;
    return status == 0 ? gy_net_comm_check(job->world, err) : gy_net_comm_explain(job->world, status, err);
}

GY_INT int gy_job_wait(struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    struct gy_net_host *const node = job->area[ticket % GY_JOB_AREAS].node;
    GY_TRY(job_has_begun(job, ticket, err));
    return node ? gy_net_comm_explain(job->world, gy_net_host_wait(node, ticket / GY_JOB_AREAS, err), err) : GY_OK;
}

/* ---- what a net calls ---- */

static void job_note(struct gyre_job *job, int note, int ended, int64_t step)
{
    (void)job, (void)note, (void)ended, (void)step;
}

static void job_failed(struct gyre_job *job, int status, const char *text)
{
    (void)job, (void)status, (void)text;
}

static int job_alive(struct gyre_job *job, struct gy_error *err) { return gy_net_comm_check(job->world, err); }

static const struct gy_peers job_peers = {
    .sum = gy_job_sum, .any = gy_job_any, .agree = gy_job_agree, .agree_alike = gy_job_agree_alike, .follow = gy_job_follow,
    .alive = job_alive, .deal = gy_job_deal,
    .take = gy_job_take, .put = gy_job_put, .turn = gy_job_turn, .start = gy_job_start, .test = gy_job_test,
    .wait = gy_job_wait,
    .post = gy_job_post, .progress = gy_job_progress, .await = gy_job_await, .wire = gy_wire_calls,
    .reform = gy_job_reform, .look = gy_job_look, .cast = gy_job_cast, .share = gy_job_share,
    .note = job_note, .failed = job_failed,
};

/* ---- the public calls ---- */

GYRE_API void gyre_job_config_default(struct gyre_job_config *config)
{
    if (!config)
        return;
    *config = (struct gyre_job_config){ .size = sizeof *config, .wait_seconds = 600,
                                        .staleness = -1 };
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
    if (job) {
        job->alloc = alloc;
        job->area = gy_alloc_take(&alloc, GY_JOB_AREAS, sizeof *job->area);
        job->config = gy_alloc_take(&alloc, 1, sizeof *job->config);
    }
    int status = job && job->area && job->config ? GY_OK : GY_NOMEM(&err, "the job's handle", sizeof *job);
    if (status == GY_OK) {
        job->peers = &job_peers;
        status = job_fill(job, &c, &err);
    }
    struct gyre_job *opened = job;
    if (status == GY_OK && c.servers > 0)
        status = gy_served_open(&opened, job, &c, &err);
    if (status == GY_OK) {
        *out = opened;
        return GYRE_OK;
    }
    if (job)
        gy_recorder_ended(job, status, &err);
    gyre_job_close(opened);
    return gy_error_out(error, &err);
}

GYRE_API int gyre_job_end(struct gyre_job *job, struct gyre_error *error)
{
    struct gy_error err = { 0 };
    if (!job)
        return GYRE_OK;
    struct gyre_job *const all = job->served ? gy_served_all(job) : job; /* of all ranks */
    all->over = 1;
    job->peers->note(job, GY_DOES_END, 0, 0);
    const int status = gy_net_comm_end(all->world, &err);
    gy_recorder_ended(all, status, &err);
    if (status == GY_OK || job->elastic) /* what was trained is saved: gyre_train */
        return GYRE_OK;
    return gy_error_out(error, &err);
}

GYRE_API void gyre_job_close(struct gyre_job *job)
{
    if (!job)
        return;
    if (job->served) {
        gyre_job_close(gy_served_all(job)); /* first: messages may be under way */
        gy_served_close(job);
        return;
    }
    const struct gy_alloc alloc = job->alloc;
    for (int i = 0; job->area && i < GY_JOB_AREAS; i++)
        gy_job_put(job, job->area[i].at);
    job_shut(job);
    gy_wire_free_left(job);
    gy_recorder_close(job);
    if (!job->over)
        gy_net_reform_give_up(job->reform);
    gy_net_reform_close(job->reform);
    gy_alloc_free(&alloc, job->area, GY_JOB_AREAS * sizeof *job->area);
    gy_alloc_free(&alloc, job->config, sizeof *job->config);
    gy_alloc_free(&alloc, job, sizeof *job);
}
