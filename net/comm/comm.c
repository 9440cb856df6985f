/* SPDX-License-Identifier: MIT */
/* comm.c: opens step by step, all ranks together. They meet, compare, tell who they are, map the
 * memory of their host, open the network, and start the failure detector.
 *
 * The memory: each rank makes a file without a name and tells its number in the host. The first
 * rank of a host keeps its own; the others open that one through /proc and close theirs. So no rank
 * that dies leaves anything behind. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "net/transport/counted.h"
#include "net/comm/rendezvous.h"
#include "net/comm/network.h"
#include "net/comm/comm.h"

#define COMM_FLAT "flat/"
#define COMM_FASTEST "fastest"
#define COMM_SCHEDULE_MOST ((size_t)64 << 20)
#define COMM_TEXT_MOST ((size_t)1 << 20)
/* ranks of a socket; with fewer, the level costs more passes over memory than it saves */
#define COMM_GROUP 4

long syscall(long number, ...); /* not declared under strict POSIX */

struct gy_net_comm {
    struct gy_alloc alloc;
    struct gy_net_launcher place;
    struct gy_net_boot *boot;
    struct gy_net_failure *guard;
    struct gy_net_identity *all; /* [ranks] */
    struct gy_net_topology topology;
    struct gy_net_network *network; /* NULL: one host */
    struct gy_net_counted *counted; /* around it */
    struct gy_net_end end;
    struct gy_net_inter_host *between[GY_NET_CHANNELS];
    struct gy_net_host *node[GY_NET_CHANNELS]; /* whose sums these are */
    /* sums of a turn there; 0: their order has no meaning */
    int turn[GY_NET_CHANNELS];
    char algorithm[1024];        /* empty: by size */
    struct gy_net_endpoint own;  /* of this rank's connection to the others; count 0: not known */
    int blocks;                  /* it is that, and every rank counts as a host */
    int fastest;                 /* any algorithm, whatever its order of sums */
    struct gy_net_choice choice; /* where `algorithm` is empty */
    int fd;
    void *board;                 /* the begin of that file, for the guard */
};

/* All ranks go on, or none. After a failure every rank has the sentence of the first that
 * failed. */
static int comm_agree(struct gy_net_comm *w, int status, struct gy_error *err)
{
    struct comm_word {
        int32_t status;
        char text[480];
    } own = { .status = status }, *all = gy_alloc_take(&w->alloc, (size_t)w->place.ranks, sizeof own);
    if (!all)
        return GY_NOMEM(err, "the ranks' agreement", (size_t)w->place.ranks * sizeof own);
    if (status != GY_OK && err)
        gy_text_copy(own.text, sizeof own.text, err->text);
    int result = gy_net_boot_gather(w->boot, &own, sizeof own, all, err);
    for (int r = 0; r < w->place.ranks && result == GY_OK; r++)
        if (all[r].status != GY_OK)
            result = GY_FAIL(err, all[r].status, "rank %d on %s: %.300s", r, w->all[r].name, all[r].text);
    gy_alloc_free(&w->alloc, all, (size_t)w->place.ranks * sizeof own);
    return result;
}

/* ---- the host ---- */

static int comm_memory(struct gy_net_comm *w, struct gy_error *err)
{
    const struct gy_net_topology *t = &w->topology;
    const int leader = t->member[t->first[t->host[w->place.rank]]];
    char path[64];
    if (leader == w->place.rank)
        return GY_OK;
    close(w->fd);
    snprintf(path, sizeof path, "/proc/%" PRId32 "/fd/%" PRId32, w->all[leader].pid, w->all[leader].fd);
    w->fd = open(path, O_RDWR | O_CLOEXEC);
    return w->fd >= 0 ? GY_OK : GY_FAIL(err, GY_E_IO, "the memory of rank %d on this host, %s, cannot be opened: %s; GYRE_ALLREDUCE=flat/ring works "
                                        "without it", leader, path, strerror(errno));
}

/* The pages are there, or this fails: one that is missing later would be a SIGBUS. */
static int comm_board(struct gy_net_comm *w, struct gy_error *err)
{
    const int reason = posix_fallocate(w->fd, 0, (off_t)GY_NET_COMM_BYTES);
    void *const board = reason == 0 ? mmap(NULL, GY_NET_COMM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0) : MAP_FAILED;
    if (board == MAP_FAILED)
        return GY_FAIL(err, GY_E_NOMEM, "the memory of this host's ranks cannot have %zu bytes: %s", GY_NET_COMM_BYTES,
                       strerror(reason != 0 ? reason : errno));
    w->board = board;
    return GY_OK;
}

static int comm_hosts(struct gy_net_comm *w, const char *path, struct gy_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    int status = path ? gy_file_read(&w->alloc, path, COMM_TEXT_MOST, &text, &bytes, err) : GY_OK;
    status = status == GY_OK ? gy_net_topology_open(&w->topology, w->all, w->place.ranks, text, path, &w->alloc, err) : status;
    gy_alloc_free(&w->alloc, text, bytes + 1);
    status = status == GY_OK ? comm_memory(w, err) : status;
    return status == GY_OK ? comm_board(w, err) : status;
}

static int comm_identities(struct gy_net_comm *w, int apart, struct gy_error *err)
{
    struct gy_net_identity own;
    gy_net_identity_read(&own, w->place.rank, apart);
    own.fd = w->fd = (int)syscall(SYS_memfd_create, "gyre", 1u /* close on exec */);
    w->all = gy_alloc_take(&w->alloc, (size_t)w->place.ranks, sizeof *w->all);
    if (!w->all)
        return GY_NOMEM(err, "the ranks' identities", (size_t)w->place.ranks * sizeof *w->all);
    if (w->fd < 0)
        return GY_FAIL(err, GY_E_NOMEM, "the memory of this host's ranks cannot be made: %s", strerror(errno));
    return gy_net_boot_gather(w->boot, &own, sizeof own, w->all, err);
}

/* ---- the network ---- */

static int comm_network_meet(struct gy_net_comm *w, struct gy_error *err)
{
    GY_TRY(gy_net_network_meet(w->network, &w->end, err));
    GY_TRY(gy_net_counted_open(&w->counted, &w->end, &w->alloc, err));
    return w->algorithm[0] != 0 ? GY_OK : gy_net_choice_make(&w->choice, w->boot, &w->end, &w->topology, w->all, w->fastest, &w->alloc, err);
}

static int comm_network(struct gy_net_comm *w, const struct gy_net_comm_config *c, struct gy_error *err)
{
    const struct gy_net_network_config config = { .boot = w->boot, .rank = w->place.rank, .ranks = w->place.ranks, .name = c->transport,
                                                 .interface = c->interface, .code = c->code, .wait_ns = c->wait_ns };
    if (w->topology.hosts == 1)
        return GY_OK;
    GY_TRY(comm_agree(w, gy_net_network_open(&w->network, &config, &w->alloc, err), err));
    return comm_agree(w, comm_network_meet(w, err), err);
}

/* ---- open ---- */

/* Binds this process to its part of the processors. Threads that it starts later have the same. */
static int comm_bind(const struct gy_net_launcher *p, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_pin_set allowed, own;
    if (p->local < 0 || p->locals < 1 || p->local >= p->locals)
        return GY_FAIL(err, GY_E_ARG, "GYRE_BIND: %s does not say which of its host's processes this is; GYRE_LOCAL_RANK and GYRE_LOCAL_RANKS of gyre "
                       "launch do", p->launcher);
    gy_pin_allowed(&allowed);
    GY_TRY(gy_net_affinity_share("/sys/devices/system", &allowed, p->local, p->locals, &own, alloc, err));
    return gy_pin_to(&own) == 0 ? GY_OK : GY_FAIL(err, GY_E_UNSUPPORTED, "GYRE_BIND: the system does not let this process choose its processors");
}

static int comm_meet(struct gy_net_comm *w, const struct gy_net_comm_config *c, struct gy_error *err)
{
    struct gy_net_boot_config boot = { .place = w->place, .wait_ns = c->wait_ns };
    struct gy_net_rendezvous meeting;
    int status = gy_net_rendezvous(&meeting, &boot, c->get, err);
    status = status == GY_OK ? gy_net_boot_open(&w->boot, &boot, &w->alloc, err) : status;
    gy_net_rendezvous_end(&meeting);
    if (c->met)
        *c->met = boot;
    return status;
}

/* The same name, and behind it the same schedule, on all ranks. */
static int comm_same_algorithm(struct gy_net_comm *w, const char *name, struct gy_error *err)
{
    struct gy_sha256 sha;
    unsigned char digest[32];
    char *text = NULL, hex[65];
    size_t bytes = 0;
    int status = GY_OK;
    if (strncmp(w->algorithm, GY_NET_FILE, strlen(GY_NET_FILE)) == 0)
        status = gy_file_read(&w->alloc, w->algorithm + strlen(GY_NET_FILE), COMM_SCHEDULE_MOST, &text, &bytes, err);
    gy_sha256_open(&sha);
    gy_sha256_add(&sha, text ? text : "", bytes);
    gy_sha256_close(&sha, digest);
    gy_sha256_hex(digest, hex);
    if (text)
        gy_alloc_free(&w->alloc, text, bytes + 1);
    GY_TRY(comm_agree(w, status, err));
    const struct gy_net_field fields[] = {{"the algorithm (GYRE_ALLREDUCE)", name}, {"the schedule's file (its SHA-256)", hex}};
    return gy_net_boot_compare(w->boot, fields, GY_COUNT(fields), err);
}

/* 1: all ranks are on one host, or 1, 2, 4 ... ranks are on hosts with equally many, host by host.
 * All ranks find the same. */
static int comm_is_regular(const struct gy_net_comm *w)
{
    const int ranks = w->place.ranks;
    const size_t bytes = sizeof w->all[0].host;
    int each = 0;
    while (each < ranks && memcmp(w->all[each].host, w->all[0].host, bytes) == 0)
        each++;
    if (each == ranks)
        return 1;
    for (int r = 0; r < ranks; r++)
        for (int k = 0; k < ranks; k++)
            if ((memcmp(w->all[r].host, w->all[k].host, bytes) == 0) != (r / each == k / each))
                return 0;
    return (ranks & (ranks - 1)) == 0 && ranks % each == 0;
}

static void comm_take_apart(struct gy_net_comm *w)
{
    w->blocks = 1;
    w->fastest = 0;
    gy_text_copy(w->algorithm, sizeof w->algorithm, "blocks");
    for (int r = 0; r < w->place.ranks; r++) {
        memset(w->all[r].host, 0, sizeof w->all[r].host);
        memcpy(w->all[r].host, &r, sizeof r);
    }
}

static int comm_fill(struct gy_net_comm *w, const struct gy_net_comm_config *c, struct gy_error *err)
{
    const char *name = c->algorithm ? c->algorithm : "";
    const int flat = strncmp(name, COMM_FLAT, strlen(COMM_FLAT)) == 0;
    if (gy_text_copy(w->algorithm, sizeof w->algorithm, name + (flat ? strlen(COMM_FLAT) : 0)) != 0)
        return GY_FAIL(err, GY_E_ARG, "\"%s\" is no algorithm", name);
    w->fastest = strcmp(w->algorithm, COMM_FASTEST) == 0;
    if (w->fastest)
        w->algorithm[0] = 0;
    if (!w->boot)
        GY_TRY(comm_meet(w, c, err));
    GY_TRY(gy_net_boot_compare(w->boot, c->fields, c->field_count, err));
    GY_TRY(comm_identities(w, flat, err));
    GY_TRY(comm_same_algorithm(w, name, err));
    if (c->blocks && !comm_is_regular(w))
        comm_take_apart(w);
    GY_TRY(comm_agree(w, comm_hosts(w, c->topology, err), err));
    GY_TRY(comm_network(w, c, err));
    const int fd = gy_net_boot_socket(w->boot, w->place.rank == 0); /* the guard's from here on */
    if (fd < 0 || gy_net_endpoint_own(fd, &w->own) != 0)
        w->own.count = 0;
    if (w->counted) /* what was measured is none of the job's */
        memset(gy_net_counted_sent(w->counted), 0, (size_t)w->place.ranks * sizeof(int64_t));
    const struct gy_net_failure_config guard = { .boot = w->boot, .all = w->all, .rank = w->place.rank, .ranks = w->place.ranks, .board = w->board,
                                                .wait_ns = c->wait_ns, .firm = c->firm };
    return gy_net_failure_open(&w->guard, &guard, &w->alloc, err);
}

GY_INT int gy_net_comm_open(struct gy_net_comm **out, const struct gy_net_comm_config *config, const struct gy_alloc *alloc,
                            struct gy_error *err)
{
    struct gy_net_launcher place = config->place;
    *out = NULL;
    if (place.ranks == 0)
        GY_TRY(gy_net_launcher_read(&place, config->get, err));
    if (place.ranks == 1)
        return GY_OK;
    if (config->bind && !config->boot)
        GY_TRY(comm_bind(&place, alloc, err));
    struct gy_net_comm *w = gy_alloc_take(alloc, 1, sizeof *w);
    if (!w) {
        gy_net_boot_close(config->boot);
        return GY_NOMEM(err, "the job's ranks", sizeof *w);
    }
    *w = (struct gy_net_comm){ .alloc = *alloc, .place = place, .boot = config->boot, .fd = -1 };
    const int status = comm_fill(w, config, err);
    if (status == GY_OK)
        *out = w;
    else
        gy_net_comm_close(w);
    return status;
}

GY_INT void gy_net_comm_close(struct gy_net_comm *w)
{
    if (!w)
        return;
    const struct gy_alloc alloc = w->alloc;
    if (w->guard && w->network && gy_net_failure_lost(w->guard, NULL) != GY_OK)
        w->end.transport->cancel(w->end.self, -1); /* nobody waits for what is under way */
    for (int c = 0; c < GY_NET_CHANNELS; c++)
        gy_net_comm_leave(w, c);
    gy_net_network_close(w->network);
    gy_net_counted_close(w->counted);
    gy_net_failure_close(w->guard);
    if (w->board)
        munmap(w->board, GY_NET_COMM_BYTES);
    gy_net_topology_close(&w->topology);
    gy_alloc_free(&alloc, w->all, (size_t)w->place.ranks * sizeof *w->all);
    if (w->fd >= 0)
        close(w->fd);
    gy_net_boot_close(w->boot);
    gy_alloc_free(&alloc, w, sizeof *w);
}

GY_INT void gy_net_comm_standing(const struct gy_net_comm *w, struct gy_net_standing *out)
{
    *out = (struct gy_net_standing){0, 1, 0, 1, 0, 1, 0};
    if (!w)
        return;
    const int host = w->topology.host[w->place.rank];
    *out = (struct gy_net_standing){w->place.rank, w->place.ranks, w->topology.local[w->place.rank], gy_net_topology_locals(&w->topology, host),
                                    host, w->topology.hosts, w->blocks};
}

GY_INT int gy_net_comm_address(const struct gy_net_comm *w, struct gy_net_endpoint *out,
                               struct gy_error *err)
{
    *out = w->own;
    if (w->own.count > 0)
        return GY_OK;
    return GY_FAIL(err, GY_E_PEER, "rank %d has no connection to the others", w->place.rank);
}

GY_INT int gy_net_comm_groups(const struct gy_net_comm *w, int size[GY_NET_GROUPS], int *group, int *rank, int *ordered)
{
    const struct gy_net_topology *t = &w->topology;
    const int host = t->host[w->place.rank];
    *group = t->group[w->place.rank];
    *ordered = 1;
    for (int k = t->first[host] + 1; k < t->first[host + 1]; k++)
        *ordered = *ordered && t->group[t->member[k]] >= t->group[t->member[k - 1]];
    *rank = gy_net_topology_group(t, w->place.rank, size);
    return t->told || gy_net_topology_locals(t, host) >= COMM_GROUP * t->groups[host] ? t->groups[host] : 1;
}

GY_INT int gy_net_comm_memory(const struct gy_net_comm *w)
{
    return w->fd;
}

/* The network says to whom data does not come through, the guard of all ranks who is lost. */
static int comm_lost(struct gy_net_comm *w, struct gy_error *err)
{
    for (int r; w->network != NULL && (r = gy_net_network_cut(w->network)) >= 0;)
        gy_net_failure_cut(w->guard, r);
    return gy_net_failure_lost(w->guard, err);
}

GY_INT void gy_net_comm_progress(struct gy_net_comm *w)
{
    for (int c = 0; w && c < GY_NET_CHANNELS; c++)
        if (w->node[c])
            gy_net_host_progress(w->node[c]);
}

/* Other ranks may wait for a sum of another channel first. */
static int comm_waits(void *self, struct gy_error *err)
{
    struct gy_net_comm *const w = self;
    gy_net_comm_progress(w);
    gy_net_failure_wait(w->guard);
    return comm_lost(w, err);
}

GY_INT int gy_net_comm_join(struct gy_net_comm *w, struct gy_net_host *node, int channel, size_t most, unsigned how, struct gy_error *err)
{
    struct gy_net_inter_host_config config = { .topology = &w->topology, .end = w->end, .channel = channel, .most = most,
                                                 .algorithm = w->algorithm[0] != 0 ? w->algorithm : NULL,
                                                 .choice = how & GY_NET_JOIN_TREE ? NULL : &w->choice };
    struct gy_net_host_level level;
    config.end.half = (how & GY_NET_JOIN_HALF) != 0;
    if (channel < 0 || channel >= GY_NET_CHANNELS || w->node[channel])
        return GY_FAIL(err, GY_E_STATE, "channel %d is taken or beyond %d", channel, GY_NET_CHANNELS - 1);
    gy_net_host_watch(node, comm_waits, w);
    w->node[channel] = node;
    if (w->topology.hosts == 1)
        return GY_OK;
    GY_TRY(gy_net_inter_host_open(&w->between[channel], &config, &w->alloc, err));
    gy_net_inter_host_level(w->between[channel], &level);
    gy_net_host_join(node, &level);
    return GY_OK;
}

GY_INT void gy_net_comm_leave(struct gy_net_comm *w, int channel)
{
    gy_net_inter_host_close(w->between[channel]);
    w->between[channel] = NULL;
    w->node[channel] = NULL;
    w->turn[channel] = 0;
}

GY_INT void gy_net_comm_turn(struct gy_net_comm *w, int channel, int sums)
{
    w->turn[channel] = sums;
}

GY_INT void gy_net_comm_messages(const struct gy_net_comm *w, struct gy_net_end *out)
{
    *out = w && w->network ? w->end : (struct gy_net_end){ 0 };
}

GY_INT void gy_net_comm_locals(const struct gy_net_comm *w, int *local)
{
    const int *const host = w->topology.host;
    for (int r = 0; r < w->place.ranks; r++)
        local[r] = host[r] == host[w->place.rank] ? w->topology.local[r] : -1;
}

GY_INT const struct gy_net_identity *gy_net_comm_identities(const struct gy_net_comm *w)
{
    return w->all;
}

GY_INT int gy_net_comm_is_cut(const struct gy_net_comm *w, int rank)
{
    return w && gy_net_failure_is_cut(w->guard, rank);
}

GY_INT void gy_net_comm_beat(struct gy_net_comm *w, struct gy_net_beat *beat)
{
    gy_net_failure_beat(w->guard, beat);
}

GY_INT const int64_t *gy_net_comm_sent(const struct gy_net_comm *w)
{
    return gy_net_counted_sent(w->counted);
}

GY_INT void gy_net_comm_waits(struct gy_net_comm *w)
{
    if (w)
        gy_net_failure_wait(w->guard);
}

GY_INT void gy_net_comm_enter(struct gy_net_comm *w)
{
    if (w)
        gy_net_failure_enter(w->guard);
}

GY_INT void gy_net_comm_fail(struct gy_net_comm *w)
{
    if (w)
        gy_net_failure_fail(w->guard);
}

GY_INT void gy_net_comm_spare(struct gy_net_comm *w)
{
    if (w)
        gy_net_failure_spare(w->guard);
}

GY_INT int gy_net_comm_spared(const struct gy_net_comm *w, int rank, const char **text)
{
    return w ? gy_net_failure_spared(w->guard, rank, text) : 0;
}

GY_INT void gy_net_comm_tell(struct gy_net_comm *w, const char *text)
{
    if (w)
        gy_net_failure_tell(w->guard, text);
}

GY_INT int gy_net_comm_check(struct gy_net_comm *w, struct gy_error *err)
{
    return w ? comm_lost(w, err) : GY_OK;
}

GY_INT int gy_net_comm_end(struct gy_net_comm *w, struct gy_error *err)
{
    return w ? gy_net_failure_end(w->guard, err) : GY_OK;
}

/* Tells all ranks what is wrong with the network, and which sum a message belongs to. */
static void comm_tell(struct gy_net_comm *w)
{
    const struct gy_net_fault *const fault = w->network ? gy_net_network_fault(w->network) : NULL;
    char text[320], sum[64] = "";
    if (!fault)
        return;
    for (int c = 0; c < GY_NET_CHANNELS; c++) {
        const int flight = w->between[c] ? gy_net_inter_host_flight(w->between[c], fault->tag) : -1;
        const int64_t ticket = flight >= 0 ? gy_net_host_in_flight(w->node[c], (unsigned)flight) : -1;
        if (ticket >= 0 && w->turn[c] > 0)
            snprintf(sum, sizeof sum, ", bucket %" PRId64, ticket % w->turn[c]);
        else if (ticket >= 0)
            snprintf(sum, sizeof sum, ", sum %" PRId64 " of channel %d", ticket, c);
    }
    snprintf(text, sizeof text, "%s%s", fault->text, sum);
    gy_net_failure_tell(w->guard, text);
}

GY_INT int gy_net_comm_explain(struct gy_net_comm *w, int status, struct gy_error *err)
{
    const struct timespec moment = {0, 5000000};
    if (status < 0)
        gy_net_comm_fail(w);
    if ((status != GY_E_PEER && status != GY_E_MISMATCH) || !w)
        return status;
    if (status == GY_E_MISMATCH) /* ranks sum what is not the same */
        gy_net_failure_tell(w->guard, err->text);
    else
        comm_tell(w);
    const int64_t deadline = gy_clock_ns() + GY_NET_SILENT_NS + 2 * GY_NET_BEAT_NS;
    while (comm_lost(w, err) == GY_OK && gy_clock_ns() < deadline)
        nanosleep(&moment, NULL);
    return GY_E_PEER;
}
