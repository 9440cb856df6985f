/* SPDX-License-Identifier: MIT */
/* host_memory.c: the mapping has one line a rank with the number of the meeting that it has
 * reached. Then come two slots a rank for small buffers, used in turn, what ranks have begun, and
 * their buffers. At a meeting a rank writes its number, then waits until every other is at least
 * there. It spins a while, then yields its processor, so that more ranks than processors work,
 * too.
 *
 * A sum that was begun uses two counters a rank. `ready` passes its number when the rank's buffer
 * is ready, `done` when the rank has summed its slice. The sum is complete when all ranks' `done`
 * are past it. Counters only grow; one rank alone writes each. With a level above, a slice is
 * summed into this rank's own buffer, where that level works on it. When complete it is copied into
 * the others'. Where the result is shared, the level works on the slice in it, and nothing is
 * copied. The result's place is that of a further rank's buffers.
 *
 * A rank writes what it sums, for a meeting into its line, else into a row of its last sums. Where
 * all have come, each compares. */
#include <sched.h>

#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "net/schedule/add.h"
#include "net/comm/host_memory.h"

#define HOST_PAGE ((size_t)4096)
#define HOST_LOOKS 2000      /* before a rank yields */
/* added to wait_ns where lost() is set: the guard knows all ranks and reports first */
#define HOST_GRACE_NS 3000000000
/* bytes; larger sums are faster with two meetings and one slice a rank than with one meeting */
#define HOST_FEW 512
#define HOST_STRIP 2048      /* floats that are summed at a time: they stay in the first cache */
/* A rank that is GY_NET_HOST_OPEN sums ahead may begin as many more before this one looks. */
#define HOST_BEGUN (2 * GY_NET_HOST_OPEN)
#define HOST_DEPTH 7         /* strips that a sum of 64 ranks keeps at once */

struct host_begun {
    size_t offset;
    int64_t count;
};
struct host_memory_line {
    uint64_t reached, ready, done;
    struct host_begun meets[2];             /* for which sum: meeting % 2 */
    unsigned char pad[GY_CACHE_LINE - 3 * sizeof(uint64_t) - 2 * sizeof(struct host_begun)];
};
struct gy_net_host {
    struct gy_alloc alloc;
    struct host_memory_line *lines;                /* [ranks] */
    unsigned char *slots;                   /* [2][ranks][GY_NET_HOST_SMALL] */
    struct host_begun *begun;               /* [ranks][HOST_BEGUN]: ticket % HOST_BEGUN */
    unsigned char *memory[GY_NET_HOST_RANKS];
    unsigned char *result;                  /* this rank's memory, or the result of all */
    /* floats; larger sums and their operands of all ranks do not fit in the last cache */
    int64_t past;
    float strip[HOST_DEPTH][HOST_STRIP];
    int rank, ranks;
    size_t most;
    int64_t wait_ns;
    uint64_t meeting;                       /* the last one that this rank reached */
    unsigned turn;                          /* small sums so far: which slot is next */
    int first[GY_NET_HOST_RANKS + 1];       /* leaves of the tree before those of each rank */
    uint64_t ready, done;                   /* this rank's, as they stand in its line */
    struct gy_net_host_level level;         /* above; parts 0: none */
    int (*lost)(void *self, struct gy_error *err);
    void *watch;                            /* of lost */
    uint64_t given;                         /* sums that were given to the level above */
    int status;                             /* of begun sums, once one failed; with err */
    struct gy_error err;
};

/* Bytes of a rank's memory: an odd number of pages, at most two more than asked for. The same
 * offset of two ranks is then never a large power of two apart. Zen's first cache guesses its way
 * by a hash of the address and would confuse such addresses: sums were 15 times as slow 256 MiB
 * apart. */
static size_t host_each(size_t most) { return ((gy_align_up(most, HOST_PAGE) / HOST_PAGE) | 1) * HOST_PAGE; }

GY_INT size_t gy_net_host_bytes(int ranks, size_t most, int shared)
{
    size_t each, bytes;
    if (ranks < 1 || ranks > GY_NET_HOST_RANKS || gy_add_size(most, 2 * HOST_PAGE, &each) != 0)
        return 0;
    each = host_each(most);
    if (gy_add_size(each, sizeof(struct host_memory_line) + 2 * GY_NET_HOST_SMALL +
                              HOST_BEGUN * sizeof(struct host_begun), &each) != 0 ||
        gy_mul_size(each, (size_t)ranks + (shared && ranks > 1), &bytes) != 0)
        return 0;
    return gy_add_size(bytes, HOST_PAGE, &bytes) == 0 ? bytes : 0;
}

GY_INT int gy_net_host_open(struct gy_net_host **out, void *base, int rank, int ranks, size_t most, int64_t wait_ns,
                            const struct gy_alloc *alloc, struct gy_error *err)
{
    if (gy_net_host_bytes(ranks, most, 0) == 0 || rank < 0 || rank >= ranks)
        return GY_FAIL(err, GY_E_ARG, "rank %d of %d on a host with %zu bytes each; there may be %d", rank, ranks, most, GY_NET_HOST_RANKS);
    struct gy_net_host *node = gy_alloc_take(alloc, 1, sizeof *node);
    if (!node)
        return GY_NOMEM(err, "a host's ranks", sizeof *node);
    const size_t each = host_each(most), lines = gy_align_up((size_t)ranks * sizeof(struct host_memory_line), HOST_PAGE);
    *node = (struct gy_net_host){ .alloc = *alloc, .lines = base, .rank = rank, .ranks = ranks, .most = most, .wait_ns = wait_ns };
    node->slots = (unsigned char *)base + lines;
    unsigned char *const begun = node->slots + 2 * (size_t)ranks * GY_NET_HOST_SMALL;
    node->begun = (struct host_begun *)(void *)begun;
    for (int r = 0; r < ranks; r++)
        node->memory[r] = begun + (size_t)ranks * HOST_BEGUN * sizeof *node->begun + (size_t)r * each;
    node->result = node->memory[rank];
    for (int r = 0; r <= ranks; r++)
        node->first[r] = r;
    *out = node;
    return GY_OK;
}

GY_INT void gy_net_host_deal(struct gy_net_host *node, const int *first)
{
    memcpy(node->first, first, ((size_t)node->ranks + 1) * sizeof *first);
}

GY_INT void gy_net_host_share(struct gy_net_host *node)
{
    if (node->ranks == 1)
        return;
    node->result = node->memory[node->ranks - 1] + host_each(node->most);
    node->past = (int64_t)(gy_cpu_cache_bytes(3) / (size_t)(node->ranks + 1) / sizeof(float));
}

static int host_shared(const struct gy_net_host *node) { return node->result != node->memory[node->rank]; }

GY_INT void gy_net_host_close(struct gy_net_host *node)
{
    if (node) {
        const struct gy_alloc alloc = node->alloc;
        gy_alloc_free(&alloc, node, sizeof *node);
    }
}

GY_INT void gy_net_host_clear(struct gy_net_host *node)
{
    memset(&node->lines[node->rank], 0, sizeof node->lines[0]);
    memset(node->memory[node->rank], 0, node->most);
    if (host_shared(node)) {
        const int64_t begin = gy_net_host_part((int64_t)node->most, node->ranks, node->rank);
        memset(node->result + begin, 0, (size_t)(gy_net_host_part((int64_t)node->most, node->ranks, node->rank + 1) - begin));
    }
}

GY_INT void *gy_net_host_memory(struct gy_net_host *node)
{
    return node->memory[node->rank];
}

GY_INT void *gy_net_host_sums(struct gy_net_host *node)
{
    return node->result;
}

GY_INT void gy_net_host_watch(struct gy_net_host *node, int (*lost)(void *self, struct gy_error *err), void *self)
{
    node->lost = lost;
    node->watch = self;
}

/* After HOST_LOOKS looks: yields the processor. The first call sets the deadline. Returns 1 when it
 * is over, < 0 when a rank is lost. */
static int host_pause(const struct gy_net_host *node, int look, int64_t *deadline, struct gy_error *err)
{
    if (look < HOST_LOOKS)
        return 0;
    sched_yield();
    if (node->lost)
        GY_TRY(node->lost(node->watch, err));
    const int64_t now = gy_clock_ns();
    *deadline = *deadline == 0 ? now + node->wait_ns + (node->lost ? HOST_GRACE_NS : 0) : *deadline;
    return now > *deadline;
}

static int host_wait(const struct gy_net_host *node, int other, int64_t *deadline, struct gy_error *err)
{
    for (int look = 0; __atomic_load_n(&node->lines[other].reached, __ATOMIC_ACQUIRE) < node->meeting; look++) {
        const int over = host_pause(node, look, deadline, err);
        if (over != 0)
            return over < 0 ? over : GY_FAIL(err, GY_E_PEER, "rank %d of this host did not come to meeting %" PRIu64 " within %.1f s", other, node->meeting,
                           (double)node->wait_ns * 1e-9);
    }
    return GY_OK;
}

/* All ranks that compare have the same sentence. */
static int host_compare(const struct host_begun *first, const struct host_begun *other, int rank,
                        struct gy_error *err)
{
    if (first->offset == other->offset && first->count == other->count)
        return GY_OK;
    return GY_FAIL(err, GY_E_MISMATCH, "rank %d of this host sums %" PRId64 " floats at byte %zu, "
                   "rank 0 sums %" PRId64 " at byte %zu: all ranks begin the same sums in the same "
                   "order", rank, other->count, other->offset, first->count, first->offset);
}

/* At a meeting all ranks sum the same. A rank may be one meeting ahead of those that compare. */
static int host_meet(struct gy_net_host *node, size_t offset, int64_t count, struct gy_error *err)
{
    const uint64_t turn = ++node->meeting % 2;
    int64_t deadline = 0;
    node->lines[node->rank].meets[turn] = (struct host_begun){ offset, count };
    __atomic_store_n(&node->lines[node->rank].reached, node->meeting, __ATOMIC_RELEASE);
    for (int k = 1; k < node->ranks; k++)
        GY_TRY(host_wait(node, (node->rank + k) % node->ranks, &deadline, err));
    for (int r = 1; r < node->ranks; r++)
        GY_TRY(host_compare(&node->lines[0].meets[turn], &node->lines[r].meets[turn], r, err));
    return GY_OK;
}

GY_INT int gy_net_host_barrier(struct gy_net_host *node, struct gy_error *err)
{
    return host_meet(node, 0, 0, err);
}

/* How many of `count` ranks, from rank lo on, the left branch of the tree has. */
static int host_left(const struct gy_net_host *node, int lo, int count)
{
    const int *const first = node->first + lo;
    int leaves = 1, left = 1;
    while (leaves * 2 < first[count] - first[0])
        leaves *= 2;
    while (left + 1 < count && first[left] - first[0] < leaves)
        left++;
    return left;
}

/* One strip of a sum: n floats of each rank, from float `at` on. */
struct host_strip {
    const struct gy_net_host *node;
    const float *const *from;
    int64_t at, n;
};

/* The sum of `count` ranks from lo on, as a balanced tree. Returns `to`; for one rank, the place of
 * its data. room: a strip for each level of the tree. */
static const float *host_sum(const struct host_strip *s, float *to, int lo, int count,
                             float (*room)[HOST_STRIP])
{
    if (count == 1)
        return s->from[lo] + s->at;
    const int left = host_left(s->node, lo, count);
    const float *const a = host_sum(s, to, lo, left, room);
    const float *const b = host_sum(s, room[0], lo + left, count - left, room + 1);
    gy_net_sum2(to, a, b, s->n);
    return to;
}

GY_INT int64_t gy_net_host_part(int64_t count, int parts, int part)
{
    return part >= parts ? count : gy_min64(gy_ceil_div(gy_ceil_div(count, parts), 16) * 16 * part, count);
}

/* This rank's slice [from, to) of count floats, on whole cache lines. */
static int64_t host_slice(const struct gy_net_host *node, int64_t count, int rank)
{
    const int parts = node->level.parts > 0 ? node->level.parts : node->ranks;
    return gy_net_host_part(count, parts, (int)gy_ceil_div((int64_t)rank * parts, node->ranks));
}

static void host_reduce(struct gy_net_host *node, float *const *data, int64_t count)
{
    if (node->ranks == 1)
        return;
    const int64_t begin = host_slice(node, count, node->rank), end = host_slice(node, count, node->rank + 1);
    if (node->ranks == 2) { /* each byte is read once and written once */
        gy_net_sum_both(data[0] + begin, data[1] + begin, end - begin);
        return;
    }
    for (int64_t at = begin; at < end; at += HOST_STRIP) {
        const int64_t n = gy_min64(HOST_STRIP, end - at);
        const struct host_strip strip = {node, (const float *const *)data, at, n};
        host_sum(&strip, node->strip[0], 0, node->ranks, node->strip + 1);
        for (int r = 0; r < node->ranks; r++)
            memcpy(data[r] + at, node->strip[0], (size_t)n * sizeof(float));
    }
}

/* Sums into the shared result. The branches of the tree are summed in the first cache; only the
 * root writes to the result. A result too large for the last cache is written past the caches. */
static void host_reduce_shared(struct gy_net_host *node, const float *const *from, float *to, int64_t count)
{
    const int64_t begin = host_slice(node, count, node->rank), end = host_slice(node, count, node->rank + 1);
    const int left = host_left(node, 0, node->ranks);
    for (int64_t at = begin; at < end; at += HOST_STRIP) {
        const int64_t n = gy_min64(HOST_STRIP, end - at);
        const struct host_strip strip = {node, from, at, n};
        const float *const a = host_sum(&strip, node->strip[0], 0, left, node->strip + 1);
        const float *const b =
            host_sum(&strip, node->strip[1], left, node->ranks - left, node->strip + 2);
        (count > node->past ? gy_net_sum2_past : gy_net_sum2)(to + at, a, b, n);
    }
    gy_net_past_end();
}

static int host_small(struct gy_net_host *node, float *data, int64_t count, struct gy_error *err)
{
    const float *from[GY_NET_HOST_RANKS];
    unsigned char *slots = node->slots + (size_t)(node->turn++ % 2) * (size_t)node->ranks * GY_NET_HOST_SMALL;
    memcpy(slots + (size_t)node->rank * GY_NET_HOST_SMALL, data, (size_t)count * sizeof(float));
    GY_TRY(host_meet(node, 0, count, err));
    for (int r = 0; r < node->ranks; r++)
        from[r] = (const float *)(const void *)(slots + (size_t)r * GY_NET_HOST_SMALL);
    const struct host_strip strip = {node, from, 0, count};
    if (node->ranks > 1)
        host_sum(&strip, data, 0, node->ranks, node->strip);
    return GY_OK;
}

static int host_place(const struct gy_net_host *node, const float *data, int64_t count, size_t *offset, struct gy_error *err)
{
    *offset = (size_t)((const unsigned char *)data - node->memory[node->rank]);
    if (count < 0 || *offset > node->most || (uint64_t)count > (node->most - *offset) / sizeof(float))
        return GY_FAIL(err, GY_E_ARG, "%" PRId64 " floats at byte %zu; a rank of this host has %zu bytes", count, *offset, node->most);
    return GY_OK;
}

static void host_reduce_at(struct gy_net_host *node, size_t offset, int64_t count)
{
    float *all[GY_NET_HOST_RANKS];
    for (int r = 0; r < node->ranks; r++)
        all[r] = (float *)(void *)(node->memory[r] + offset);
    if (host_shared(node))
        host_reduce_shared(node, (const float *const *)all, (float *)(void *)(node->result + offset), count);
    else
        host_reduce(node, all, count);
}

static int host_both(struct gy_net_host *node, float *data, int64_t count, struct gy_error *err)
{
    int64_t ticket;
    GY_TRY(gy_net_host_start(node, data, count, &ticket, err));
    return gy_net_host_wait(node, ticket, err);
}

GY_INT int gy_net_host_allreduce(struct gy_net_host *node, float *data, int64_t count, struct gy_error *err)
{
    size_t offset;
    GY_TRY(host_place(node, data, count, &offset, err));
    if (node->level.parts > 0)
        return host_both(node, data, count, err);
    if ((size_t)count * sizeof(float) <= HOST_FEW && !host_shared(node))
        return host_small(node, data, count, err);
    GY_TRY(host_meet(node, offset, count, err));
    host_reduce_at(node, offset, count);
    return host_meet(node, offset, count, err);
}

/* ---- sums that are begun ---- */

/* This rank's slice. spread 0: sums it into its own buffer or the shared result. spread 1: copies
 * it from its own buffer into the others'. */
static void host_own(struct gy_net_host *node, const struct host_begun *sum, int spread)
{
    const float *from[GY_NET_HOST_RANKS];
    const int64_t begin = host_slice(node, sum->count, node->rank), end = host_slice(node, sum->count, node->rank + 1);
    float *const own = (float *)(void *)(node->result + sum->offset);
    for (int r = 0; r < node->ranks; r++)
        from[r] = (const float *)(const void *)(node->memory[r] + sum->offset);
    for (int64_t at = begin; at < end && !spread && node->ranks > 1; at += HOST_STRIP) {
        const int64_t n = gy_min64(HOST_STRIP, end - at);
        const struct host_strip strip = {node, from, at, n};
        host_sum(&strip, node->strip[0], 0, node->ranks, node->strip + 1);
        memcpy(own + at, node->strip[0], (size_t)n * sizeof(float));
    }
    for (int r = 0; r < node->ranks && spread && end > begin; r++)
        if (r != node->rank)
            memcpy((float *)(void *)(node->memory[r] + sum->offset) + begin, own + begin, (size_t)(end - begin) * sizeof(float));
}

static struct host_begun *host_begun_at(const struct gy_net_host *node, int rank, uint64_t ticket)
{
    return &node->begun[(size_t)rank * HOST_BEGUN + ticket % HOST_BEGUN];
}

/* All ranks have begun it. */
static int host_is_same(struct gy_net_host *node, uint64_t ticket)
{
    for (int r = 1; r < node->ranks && node->status == GY_OK; r++)
        node->status = host_compare(host_begun_at(node, 0, ticket), host_begun_at(node, r, ticket),
                                    r, &node->err);
    return node->status == GY_OK;
}

/* As many sums as the level takes are with it at once; they come back in their order. */
static void host_progress_level(struct gy_net_host *node, uint64_t all)
{
    const struct gy_net_host_level *level = &node->level;
    int done = 1;
    for (; node->given < all && node->given - node->done < level->flights; node->given++) {
        if (!host_is_same(node, node->given))
            break;
        const struct host_begun *sum = host_begun_at(node, node->rank, node->given);
        host_own(node, sum, 0);
        node->status = level->start(level->self, (unsigned)(node->given % level->flights), (float *)(void *)(node->result + sum->offset),
                                    sum->count, &node->err);
    }
    for (uint64_t s = node->done; s < node->given && node->status == GY_OK; s++) {
        const int there = level->test(level->self, (unsigned)(s % level->flights), &node->err);
        node->status = there < 0 ? there : GY_OK;
        done = done && there == 1;
        if (!done)
            continue; /* later ones move too */
        if (!host_shared(node))
            host_own(node, host_begun_at(node, node->rank, s), 1);
        __atomic_store_n(&node->lines[node->rank].done, ++node->done, __ATOMIC_RELEASE);
    }
}

GY_INT void gy_net_host_progress(struct gy_net_host *node)
{
    uint64_t all = node->ready;
    for (int r = 0; r < node->ranks && all > node->done; r++) {
        const uint64_t ready = __atomic_load_n(&node->lines[r].ready, __ATOMIC_ACQUIRE);
        all = ready < all ? ready : all;
    }
    if (node->level.parts > 0) {
        host_progress_level(node, all);
        return;
    }
    while (node->done < all && host_is_same(node, node->done)) {
        const struct host_begun *sum = host_begun_at(node, node->rank, node->done);
        host_reduce_at(node, sum->offset, sum->count);
        __atomic_store_n(&node->lines[node->rank].done, ++node->done, __ATOMIC_RELEASE);
    }
}

GY_INT void gy_net_host_join(struct gy_net_host *node, const struct gy_net_host_level *level)
{
    node->level = *level;
}

GY_INT int gy_net_host_has_begun(const struct gy_net_host *node, int64_t ticket)
{
    return ticket >= 0 && (uint64_t)ticket < node->ready;
}

GY_INT int gy_net_host_test(struct gy_net_host *node, int64_t ticket, struct gy_error *err)
{
    gy_net_host_progress(node);
    if (node->status != GY_OK) {
        if (err)
            *err = node->err;
        return node->status;
    }
    for (int r = 0; r < node->ranks; r++)
        if (__atomic_load_n(&node->lines[r].done, __ATOMIC_ACQUIRE) <= (uint64_t)ticket)
            return 0;
    return 1;
}

/* The rank to blame, never the one that asks. It is the first that has not begun the sum, else the
 * first that has not finished it. -1: none of this host. */
GY_INT int gy_net_host_missing(const struct gy_net_host *node, int64_t ticket)
{
    int late = -1;
    for (int r = node->ranks - 1; r >= 0; r--)
        if (r != node->rank && __atomic_load_n(&node->lines[r].ready, __ATOMIC_ACQUIRE) <= (uint64_t)ticket)
            late = r;
    for (int r = node->ranks - 1; r >= 0 && late < 0 && node->level.parts == 0; r--)
        if (r != node->rank && __atomic_load_n(&node->lines[r].done, __ATOMIC_ACQUIRE) <= (uint64_t)ticket)
            late = r;
    return late;
}

static int host_late(const struct gy_net_host *node, int64_t ticket, struct gy_error *err)
{
    const int late = gy_net_host_missing(node, ticket);
    const double seconds = (double)node->wait_ns * 1e-9;
    if (late < 0)
        return GY_FAIL(err, GY_E_PEER, "sum %" PRId64 " did not come back from the other ranks within %.1f s", ticket, seconds);
    return GY_FAIL(err, GY_E_PEER, "rank %d of this host did not take part in sum %" PRId64 " within %.1f s", late, ticket, seconds);
}

GY_INT int gy_net_host_wait(struct gy_net_host *node, int64_t ticket, struct gy_error *err)
{
    int64_t deadline = 0;
    int status, over;
    for (int look = 0; (status = gy_net_host_test(node, ticket, err)) == 0; look++)
        if ((over = host_pause(node, look, &deadline, err)) != 0)
            return over < 0 ? over : host_late(node, ticket, err);
    return status < 0 ? status : GY_OK;
}

GY_INT int64_t gy_net_host_in_flight(const struct gy_net_host *node, unsigned flight)
{
    for (uint64_t s = node->done; s < node->given; s++)
        if (s % node->level.flights == flight)
            return (int64_t)s;
    return -1;
}

GY_INT int gy_net_host_busy(const struct gy_net_host *node) { return node->done != node->ready; }

GY_INT int gy_net_host_start(struct gy_net_host *node, float *data, int64_t count, int64_t *ticket, struct gy_error *err)
{
    size_t offset;
    GY_TRY(host_place(node, data, count, &offset, err));
    if (node->ready - node->done == GY_NET_HOST_OPEN)
        GY_TRY(gy_net_host_wait(node, (int64_t)node->done, err));
    *ticket = (int64_t)node->ready;
    *host_begun_at(node, node->rank, node->ready) = (struct host_begun){offset, count};
    __atomic_store_n(&node->lines[node->rank].ready, ++node->ready, __ATOMIC_RELEASE);
    return GY_OK;
}

GY_INT int gy_net_host_allreduce_outside(struct gy_net_host *node, float *data, int64_t count, struct gy_error *err)
{
    const int64_t most = (int64_t)(node->most / sizeof(float));
    float *const own = gy_net_host_memory(node);
    const float *const sums = gy_net_host_sums(node);
    if (most == 0 && count > 0)
        return GY_FAIL(err, GY_E_ARG, "the ranks of this host have no memory together");
    for (int64_t at = 0; at < count; at += most) {
        const int64_t n = gy_min64(most, count - at);
        memcpy(own, data + at, (size_t)n * sizeof(float));
        GY_TRY(gy_net_host_allreduce(node, own, n, err));
        memcpy(data + at, sums, (size_t)n * sizeof(float));
    }
    return GY_OK;
}
