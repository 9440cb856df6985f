/* SPDX-License-Identifier: MIT */
/* net_local.c: ranks of one process. Posted sends and receives lie in lists, one a receiving rank.
 * The receiver's progress pairs the first send of a (sender, tag) with the first receive. A send is
 * over when its bytes were copied, as in a rendezvous. */
#include <pthread.h>

#include "engine/base/rng.h"
#include "tests/net_local.h"

#define LOCAL_STREAM 0x6e6574

struct local_rank {
    struct gy_net_local *all;
    int rank;
    struct gy_net_request *sends, *receives; /* to this rank, oldest first */
    int64_t clock;                           /* its progress calls */
    int dead;
};
struct gy_net_local {
    struct gy_alloc alloc;
    pthread_mutex_t lock;
    int ranks, delay;
    uint64_t seed, posted;
    struct local_rank rank[];
};

static void local_append(struct gy_net_request **list, struct gy_net_request *request)
{
    while (*list)
        list = &(*list)->next;
    request->next = NULL;
    *list = request;
}

static int64_t local_delay(struct gy_net_local *all)
{
    uint32_t words[4];
    gy_rng_words(all->seed, LOCAL_STREAM, all->posted++, 0, words);
    return all->delay > 0 ? words[0] % (uint32_t)(all->delay + 1) : 0;
}

/* A send waits in its receiver's list. Its stamp holds the sender and the receiver's call from
 * which on it may arrive. */
#define LOCAL_SENDER(request) ((int)((request)->stamp & 0xffff))
#define LOCAL_TIME(request) ((request)->stamp >> 16)

static int local_post(void *self, struct gy_net_request *request, struct gy_error *err)
{
    struct local_rank *own = self, *other = &own->all->rank[request->peer];
    pthread_mutex_lock(&own->all->lock);
    const int dead = other->dead || own->dead;
    request->state = dead ? GY_NET_LOST : GY_NET_PENDING;
    if (!dead && request->sends) {
        request->stamp = (other->clock + local_delay(own->all)) << 16 | own->rank;
        local_append(&other->sends, request);
    } else if (!dead)
        local_append(&own->receives, request);
    pthread_mutex_unlock(&own->all->lock);
    return dead ? GY_FAIL(err, GY_E_PEER, "rank %d is gone", request->peer) : GY_OK;
}

/* Finds the first send that matches this receive, if it has arrived. Earlier messages of the same
 * sender and tag come first in the list. */
static struct gy_net_request **local_find(struct local_rank *own, const struct gy_net_request *receive)
{
    struct gy_net_request **at = &own->sends;
    while (*at && (LOCAL_SENDER(*at) != receive->peer || (*at)->tag != receive->tag))
        at = &(*at)->next;
    return *at && LOCAL_TIME(*at) <= own->clock ? at : NULL;
}

static int local_pass(struct local_rank *own, struct gy_net_request *receive, struct gy_net_request **at, struct gy_error *err)
{
    struct gy_net_request *send = *at;
    if (send->bytes != receive->bytes)
        return GY_FAIL(err, GY_E_PEER, "rank %d sends %zu bytes, rank %d expects %zu", receive->peer, send->bytes, own->rank, receive->bytes);
    if (send->bytes > 0)
        memcpy(receive->buffer, send->buffer, send->bytes);
    *at = send->next;
    __atomic_store_n(&send->state, GY_NET_DONE, __ATOMIC_RELEASE);
    receive->state = GY_NET_DONE;
    return GY_OK;
}

static int local_progress(void *self, struct gy_error *err)
{
    struct local_rank *own = self;
    int status = GY_OK;
    pthread_mutex_lock(&own->all->lock);
    own->clock++;
    for (struct gy_net_request **at = &own->receives; *at != NULL && status == GY_OK;) {
        struct gy_net_request *receive = *at, **send = local_find(own, receive);
        if (!send) {
            at = &receive->next;
            continue;
        }
        *at = receive->next;
        status = local_pass(own, receive, send, err);
    }
    pthread_mutex_unlock(&own->all->lock);
    return status;
}

/* Ends those requests of a list whose other end is peer; -1: anybody. */
static void local_drop(struct gy_net_request **list, int peer)
{
    while (*list) {
        struct gy_net_request *request = *list;
        const int other = request->sends ? LOCAL_SENDER(request) : request->peer;
        if (peer >= 0 && other != peer) {
            list = &request->next;
            continue;
        }
        *list = request->next;
        __atomic_store_n(&request->state, GY_NET_LOST, __ATOMIC_RELEASE);
    }
}

static void local_cancel(void *self, int peer)
{
    struct local_rank *own = self;
    pthread_mutex_lock(&own->all->lock);
    local_drop(&own->receives, peer);
    for (int r = 0; r < own->all->ranks; r++)
        if (peer < 0 || r == peer)
            local_drop(&own->all->rank[r].sends, own->rank);
    pthread_mutex_unlock(&own->all->lock);
}

GY_INT void gy_net_local_kill(struct gy_net_local *local, int rank)
{
    pthread_mutex_lock(&local->lock);
    local->rank[rank].dead = 1;
    local_drop(&local->rank[rank].sends, -1);
    local_drop(&local->rank[rank].receives, -1);
    for (int r = 0; r < local->ranks; r++) {
        local_drop(&local->rank[r].sends, rank);
        local_drop(&local->rank[r].receives, rank);
    }
    pthread_mutex_unlock(&local->lock);
}

GY_INT void gy_net_local_end(struct gy_net_local *local, int rank, struct gy_net_end *out)
{
    static const struct gy_net_transport transport = {local_post, local_progress, local_cancel, "local", 1 << 16, 0};
    *out = (struct gy_net_end){&transport, &local->rank[rank], rank, local->ranks, 0};
}

GY_INT int gy_net_local_open(struct gy_net_local **out, int ranks, uint64_t seed, int delay, const struct gy_alloc *alloc,
                             struct gy_error *err)
{
    const size_t bytes = sizeof(struct gy_net_local) + (size_t)ranks * sizeof(struct local_rank);
    struct gy_net_local *local = gy_alloc_take(alloc, 1, bytes);
    if (!local)
        return GY_NOMEM(err, "the ranks of a process", bytes);
    local->alloc = *alloc;
    local->ranks = ranks;
    local->seed = seed;
    local->delay = delay;
    for (int r = 0; r < ranks; r++) {
        local->rank[r].all = local;
        local->rank[r].rank = r;
    }
    if (pthread_mutex_init(&local->lock, NULL) != 0) {
        gy_alloc_free(alloc, local, bytes);
        return GY_FAIL(err, GY_E_NOMEM, "no lock for the ranks of a process");
    }
    *out = local;
    return GY_OK;
}

GY_INT void gy_net_local_close(struct gy_net_local *local)
{
    if (!local)
        return;
    const struct gy_alloc alloc = local->alloc;
    const size_t bytes = sizeof *local + (size_t)local->ranks * sizeof(struct local_rank);
    pthread_mutex_destroy(&local->lock);
    gy_alloc_free(&alloc, local, bytes);
}
