/* SPDX-License-Identifier: MIT */
/* One connection for each two ranks that talk (stream.h); the higher rank calls the lower one at its first message to or from it
 * (tcp_call.h). The system tells by edges (EPOLLET) what may be read and written: while something moves no time is spent on asking, and with
 * few connections none at all. */
#include <sched.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "../engine/base/clock.h"
#include "stream.h"
#include "tcp.h"
#include "tcp_call.h"

#define TCP_TURNS 16      /* of moving bytes in one progress call, while no request ends */
#define TCP_FEW 2         /* connections that are simply tried: asking first would be a call of the system more */
#define TCP_POLL 16       /* calls; then the system is asked whatever moves */
#define TCP_YIELDS 32     /* calls that move nothing before the processor is given away */
#define TCP_LONG 4000     /* and before this rank sleeps until something comes, for TCP_MOMENT_NS at most: it is far ahead of the others */
#define TCP_MOMENT_NS 50000
#define TCP_PATIENCE_NS 10000000000 /* for both ends of a connection to agree */
#define TCP_CALLER_NS 2000000000    /* for a caller to say whose it is */
#define TCP_RETRY_NS 20000000
#define TCP_CLOSE_NS 2000000000     /* for what is under way at the end */
#define TCP_CALLERS 64    /* connections that have not said yet whose they are */
#define TCP_EVENTS 32

enum tcp_state { TCP_APART /* its call is waited for, or ours under way */, TCP_OPEN, TCP_GONE };
struct tcp_peer {
    int rank;
    enum tcp_state state;
    int64_t patience;             /* until when it is called; 0: it is not */
    struct gy_net_call call;      /* while it is called; deadline: of the next try */
    struct gy_net_stream *stream;
    struct gy_net_endpoint here, there; /* of the connection */
};
struct gy_net_tcp {
    struct gy_alloc alloc;
    struct gy_net_call_self self;
    struct gy_net_endpoint own, *addresses; /* [ranks] */
    struct tcp_peer **peers, **open;        /* [ranks]: NULL: none yet; those with a connection */
    int open_count, apart;                  /* apart: peers that this rank is calling */
    struct gy_net_call callers[TCP_CALLERS];
    int caller_count, listener, epoll;
    struct gy_net_tally tally;
    unsigned idle;                          /* progress calls in a row that moved nothing */
    struct gy_net_fault fault;              /* the first */
};

/* ---- peers ---- */

enum tcp_event { TCP_ON_PEER, TCP_ON_CALLER, TCP_ON_LISTENER };

static int tcp_listen_to(const struct gy_net_tcp *t, int operation, int fd, enum tcp_event event, int index)
{
    struct epoll_event e = {.events = event == TCP_ON_LISTENER ? EPOLLIN : EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    e.data.u64 = (uint64_t)event << 32 | (uint32_t)index;
    return epoll_ctl(t->epoll, operation, fd, &e);
}

/* Its connection ends, and with it its requests. */
static void tcp_gone(struct gy_net_tcp *t, struct tcp_peer *p)
{
    for (int i = 0; i < t->open_count; i++)
        if (t->open[i] == p)
            t->open[i] = t->open[--t->open_count];
    t->apart -= p->state == TCP_APART && p->patience != 0;
    p->state = TCP_GONE;
    if (p->call.fd >= 0)
        close(p->call.fd);
    p->call.fd = -1;
    gy_net_stream_end(p->stream);
}

/* call: what was agreed on the connection. */
static void tcp_adopt(struct gy_net_tcp *t, struct tcp_peer *p, const struct gy_net_call *call, int fd)
{
    struct gy_net_code out, in;
    gy_net_call_codes(call, &t->self, &out, &in);
    t->apart -= p->patience != 0;
    p->call.fd = -1;
    p->state = TCP_OPEN;
    t->open[t->open_count++] = p;
    gy_net_socket_near(fd);
    gy_net_endpoint_own(fd, &p->here);
    gy_net_endpoint_peer(fd, &p->there);
    gy_net_stream_begin(p->stream, fd, &out, &in);
    if (tcp_listen_to(t, EPOLL_CTL_MOD, fd, TCP_ON_PEER, p->rank) != 0)
        tcp_gone(t, p);
}

/* Begins to call a lower rank. */
static void tcp_dial(struct gy_net_tcp *t, struct tcp_peer *p)
{
    const int64_t now = gy_clock_ns();
    int fd = -1;
    if (p->patience == 0) {
        p->patience = now + TCP_PATIENCE_NS;
        t->apart++;
    }
    if (now < p->patience && gy_net_connect_begin(&t->addresses[p->rank], &fd) == 0 && tcp_listen_to(t, EPOLL_CTL_ADD, fd, TCP_ON_PEER, p->rank) == 0) {
        gy_net_call_begin(&p->call, fd, p->rank, 0);
        return;
    }
    if (fd >= 0)
        close(fd);
    tcp_gone(t, p);
}

/* The call goes on. When it breaks off it is tried again, unless nobody listens there any more. */
static void tcp_dialled(struct gy_net_tcp *t, struct tcp_peer *p)
{
    const int problem = gy_net_connect_problem(p->call.fd), status = problem != 0 ? -1 : gy_net_call_go(&p->call, &t->self);
    if (status > 0) {
        tcp_adopt(t, p, &p->call, p->call.fd);
    } else if (status < 0 && problem == ECONNREFUSED) {
        tcp_gone(t, p);
    } else if (status < 0) {
        close(p->call.fd);
        p->call = (struct gy_net_call){.fd = -1, .deadline = gy_clock_ns() + TCP_RETRY_NS};
    }
}

/* NULL: no memory. */
static struct tcp_peer *tcp_peer(struct gy_net_tcp *t, int rank)
{
    struct tcp_peer *p = t->peers[rank];
    if (p != NULL || (p = gy_alloc_take(&t->alloc, 1, sizeof(*p))) == NULL)
        return p;
    p->rank = rank;
    p->call.fd = -1;
    p->stream = gy_net_stream_open(&t->tally, &t->alloc);
    if (p->stream != NULL)
        return t->peers[rank] = p;
    gy_alloc_free(&t->alloc, p, sizeof(*p));
    return NULL;
}

/* ---- calls ---- */

static void tcp_drop_caller(struct gy_net_tcp *t, int i, int closes)
{
    if (closes)
        close(t->callers[i].fd);
    t->callers[i].fd = -1;
    t->caller_count--;
}

/* Where the next caller goes: where they are all busy, whoever came first has had its time. */
static int tcp_caller_place(struct gy_net_tcp *t)
{
    int oldest = 0;
    for (int i = 0; i < TCP_CALLERS; i++) {
        if (t->callers[i].fd < 0)
            return i;
        oldest = t->callers[i].deadline < t->callers[oldest].deadline ? i : oldest;
    }
    tcp_drop_caller(t, oldest, 1);
    return oldest;
}

static void tcp_accept(struct gy_net_tcp *t)
{
    int fd;
    for (int k = 0; k < TCP_EVENTS && gy_net_accept_now(t->listener, &fd) == 0; k++) {
        const int i = tcp_caller_place(t);
        gy_net_call_begin(&t->callers[i], fd, -1, gy_clock_ns() + TCP_CALLER_NS);
        t->caller_count++;
        if (tcp_listen_to(t, EPOLL_CTL_ADD, fd, TCP_ON_CALLER, i) != 0)
            tcp_drop_caller(t, i, 1);
    }
}

static void tcp_caller(struct gy_net_tcp *t, int i)
{
    struct gy_net_call *const call = &t->callers[i];
    const int status = call->fd >= 0 ? gy_net_call_go(call, &t->self) : 0;
    struct tcp_peer *const p = status > 0 ? tcp_peer(t, call->rank) : NULL;
    const int fits = p != NULL && p->state == TCP_APART && p->patience == 0;
    const int fd = call->fd;
    if (status != 0)
        tcp_drop_caller(t, i, !fits);
    if (fits)
        tcp_adopt(t, p, call, fd);
}

/* Those who have had their time. */
static void tcp_calls(struct gy_net_tcp *t)
{
    const int64_t now = gy_clock_ns();
    for (int i = 0; i < TCP_CALLERS && t->caller_count > 0; i++)
        if (t->callers[i].fd >= 0 && now > t->callers[i].deadline)
            tcp_drop_caller(t, i, 1);
    for (int r = 0; r < t->self.rank && t->apart > 0; r++) {
        struct tcp_peer *const p = t->peers[r];
        if (p != NULL && p->state == TCP_APART && p->patience != 0 && (now > p->patience || (p->call.fd < 0 && now > p->call.deadline)))
            tcp_dial(t, p);
    }
}

static void tcp_event(struct gy_net_tcp *t, const struct epoll_event *e)
{
    const int index = (int)(e->data.u64 & 0xffffffffu);
    const enum tcp_event event = (enum tcp_event)(e->data.u64 >> 32);
    if (event == TCP_ON_LISTENER) {
        tcp_accept(t);
    } else if (event == TCP_ON_CALLER) {
        tcp_caller(t, index);
    } else {
        struct tcp_peer *const p = t->peers[index];
        gy_net_stream_news(p->stream, (e->events & EPOLLIN ? GY_NET_STREAM_IN : 0) | (e->events & EPOLLOUT ? GY_NET_STREAM_OUT : 0) |
                                          (e->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) ? GY_NET_STREAM_HUNG : 0));
        if (p->state == TCP_APART && p->call.fd >= 0)
            tcp_dialled(t, p);
    }
}

/* What the system has to tell; returns how many events. */
static int tcp_poll(struct gy_net_tcp *t)
{
    struct epoll_event events[TCP_EVENTS];
    const int count = epoll_wait(t->epoll, events, TCP_EVENTS, 0);
    for (int i = 0; i < count; i++)
        tcp_event(t, &events[i]);
    if (t->caller_count > 0 || t->apart > 0)
        tcp_calls(t);
    return count > 0 ? count : 0;
}

/* ---- the transport ---- */

/* Says once why a connection has ended on which came what was not sent. */
static void tcp_note_fault(struct gy_net_tcp *t, const struct tcp_peer *p)
{
    const struct gy_net_stream_fault *const f = gy_net_stream_fault(p->stream);
    char own[56], peer[56];
    if (f == NULL || t->fault.text[0] != 0)
        return;
    gy_net_endpoint_text(&p->here, own, sizeof(own));
    gy_net_endpoint_text(&p->there, peer, sizeof(peer));
    t->fault.tag = f->tag;
    snprintf(t->fault.text, sizeof(t->fault.text), "rank %d got a %s from rank %d by TCP, %s from %s, that is not what was sent (tag %08" PRIx32
             ", %" PRIu64 " bytes)", t->self.rank, f->what, p->rank, own, peer, f->tag, f->bytes);
}

static int tcp_post(void *self, struct gy_net_request *r, struct gy_error *err)
{
    struct gy_net_tcp *const t = self;
    struct tcp_peer *const p = tcp_peer(t, r->peer);
    r->state = GY_NET_LOST;
    if (p == NULL)
        return GY_NOMEM(err, "a rank's connection", sizeof(*p));
    if (p->state == TCP_APART && r->peer < t->self.rank && p->patience == 0)
        tcp_dial(t, p);
    const int status = gy_net_stream_post(p->stream, r);
    if (status == GY_OK)
        return GY_OK;
    return status == GY_E_PEER ? GY_FAIL(err, GY_E_PEER, "rank %d is gone", r->peer)
                               : GY_FAIL(err, status, "no memory for the tags of messages to rank %d", r->peer);
}

static size_t tcp_move(struct gy_net_tcp *t)
{
    size_t moved = 0;
    for (int i = t->open_count - 1; i >= 0; i--) { /* whoever goes leaves its place to one that was looked at */
        struct tcp_peer *const p = t->open[i];
        if (!gy_net_stream_has_ended(p->stream))
            moved += gy_net_stream_move(p->stream);
        if (gy_net_stream_has_ended(p->stream)) {
            tcp_note_fault(t, p);
            tcp_gone(t, p);
        }
    }
    return moved;
}

/* Nothing moved for a while: others may have the processor. */
static void tcp_wait(const struct gy_net_tcp *t)
{
    const int64_t now = gy_clock_ns();
    for (int i = 0; i < t->open_count; i++)
        gy_net_stream_rest(t->open[i]->stream, now);
    if (t->idle > TCP_LONG && t->epoll < FD_SETSIZE) {
        const struct timespec moment = {0, TCP_MOMENT_NS};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(t->epoll, &set);
        pselect(t->epoll + 1, &set, NULL, NULL, &moment, NULL);
    } else if (t->idle > TCP_YIELDS) {
        sched_yield();
    }
}

static int tcp_progress(void *self, struct gy_error *err)
{
    struct gy_net_tcp *const t = self;
    const unsigned ended = t->tally.ended;
    const int few = t->open_count > 0 && t->open_count <= TCP_FEW;
    int turn = 0;
    if (t->tally.calls++ % TCP_POLL == 0)
        tcp_poll(t);
    for (int i = 0; i < t->open_count && few; i++)
        gy_net_stream_news(t->open[i]->stream, GY_NET_STREAM_IN | GY_NET_STREAM_OUT);
    while (turn < TCP_TURNS && t->tally.ended == ended && (tcp_move(t) > 0 || (!few && tcp_poll(t) > 0)))
        turn++; /* whoever waits for what came looks at it while it is in a cache */
    t->idle = turn > 0 ? 0 : t->idle + 1;
    if (t->idle > 0)
        tcp_wait(t);
    return t->fault.text[0] == 0 ? GY_OK : GY_FAIL(err, GY_E_PEER, "%s", t->fault.text);
}

static void tcp_cancel(void *self, int peer)
{
    struct gy_net_tcp *const t = self;
    for (int r = 0; r < t->self.ranks; r++)
        if (peer == r || (peer < 0 && t->peers[r] != NULL)) {
            struct tcp_peer *const p = tcp_peer(t, r);
            if (p != NULL)
                tcp_gone(t, p);
        }
}

/* ---- open and close ---- */

static int tcp_start(struct gy_net_tcp *t, const struct gy_net_tcp_config *c, struct gy_error *err)
{
    const size_t ranks = (size_t)c->ranks;
    t->addresses = gy_alloc_take(&t->alloc, ranks, sizeof(*t->addresses));
    t->peers = gy_alloc_take(&t->alloc, ranks, sizeof(struct tcp_peer *));
    t->open = gy_alloc_take(&t->alloc, ranks, sizeof(struct tcp_peer *));
    if (t->addresses == NULL || t->peers == NULL || t->open == NULL)
        return GY_NOMEM(err, "the ranks' connections", ranks * sizeof(*t->addresses));
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (t->epoll < 0)
        return GY_FAIL(err, GY_E_IO, "no file to wait for connections with: %s", strerror(errno));
    GY_TRY(gy_net_listen_at(&c->own, &t->listener, &t->own, err));
    return tcp_listen_to(t, EPOLL_CTL_ADD, t->listener, TCP_ON_LISTENER, 0) == 0
               ? GY_OK : GY_FAIL(err, GY_E_IO, "connections cannot be waited for: %s", strerror(errno));
}

GY_INT int gy_net_tcp_open(struct gy_net_tcp **out, const struct gy_net_tcp_config *config, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_net_tcp *t = gy_alloc_take(alloc, 1, sizeof(*t));
    if (t == NULL)
        return GY_NOMEM(err, "the connections between ranks", sizeof(*t));
    t->alloc = *alloc;
    t->self = (struct gy_net_call_self){.rank = config->rank, .ranks = config->ranks, .code = config->code};
    memcpy(t->self.key, config->key, sizeof(t->self.key));
    t->listener = t->epoll = -1;
    for (int i = 0; i < TCP_CALLERS; i++)
        t->callers[i].fd = -1;
    const int status = tcp_start(t, config, err);
    if (status == GY_OK)
        *out = t;
    else
        gy_net_tcp_close(t);
    return status;
}

static void tcp_leave(struct gy_net_tcp *t)
{
    const int64_t deadline = gy_clock_ns() + TCP_CLOSE_NS;
    for (int i = 0; i < t->open_count; i++)
        gy_net_stream_close(t->open[i]->stream);
    while (t->open_count > 0) {
        for (int i = t->open_count - 1; i >= 0; i--)
            if (gy_net_stream_is_closed(t->open[i]->stream) || gy_clock_ns() > deadline)
                tcp_gone(t, t->open[i]);
        if (t->open_count > 0)
            nanosleep(&(const struct timespec){0, 100000}, NULL);
    }
}

static int tcp_is_pending(const struct gy_net_tcp *t)
{
    for (int r = 0; t->peers != NULL && r < t->self.ranks; r++)
        if (t->peers[r] != NULL && gy_net_stream_is_pending(t->peers[r]->stream))
            return 1;
    return 0;
}

static void tcp_free_peer(struct gy_net_tcp *t, struct tcp_peer *p)
{
    tcp_gone(t, p);
    gy_net_stream_free(p->stream);
    gy_alloc_free(&t->alloc, p, sizeof(*p));
}

GY_INT void gy_net_tcp_close(struct gy_net_tcp *t)
{
    if (t == NULL)
        return;
    const struct gy_alloc alloc = t->alloc;
    const size_t ranks = (size_t)t->self.ranks;
    if (tcp_is_pending(t))
        tcp_cancel(t, -1);
    tcp_leave(t);
    for (size_t r = 0; t->peers != NULL && r < ranks; r++)
        if (t->peers[r] != NULL)
            tcp_free_peer(t, t->peers[r]);
    for (int i = 0; i < TCP_CALLERS; i++)
        if (t->callers[i].fd >= 0)
            close(t->callers[i].fd);
    if (t->listener >= 0)
        close(t->listener);
    if (t->epoll >= 0)
        close(t->epoll);
    gy_alloc_free(&alloc, t->addresses, ranks * sizeof(*t->addresses));
    gy_alloc_free(&alloc, t->peers, ranks * sizeof(struct tcp_peer *));
    gy_alloc_free(&alloc, t->open, ranks * sizeof(struct tcp_peer *));
    gy_alloc_free(&alloc, t, sizeof(*t));
}

GY_INT void gy_net_tcp_address(const struct gy_net_tcp *t, struct gy_net_endpoint *address)
{
    *address = t->own;
}

GY_INT int gy_net_tcp_connect(struct gy_net_tcp *t, const struct gy_net_endpoint *addresses, struct gy_error *err)
{
    (void)err;
    memcpy(t->addresses, addresses, (size_t)t->self.ranks * sizeof(*addresses));
    return GY_OK;
}

GY_INT const struct gy_net_fault *gy_net_tcp_fault(const struct gy_net_tcp *t)
{
    return &t->fault;
}

GY_INT void gy_net_tcp_end(struct gy_net_tcp *t, struct gy_net_end *out)
{
    /* The processor itself moves the bytes: what counts is few and long calls of the system. */
    static const struct gy_net_transport transport = {tcp_post, tcp_progress, tcp_cancel, "tcp", 1 << 18, 1};
    *out = (struct gy_net_end){&transport, t, t->self.rank, t->self.ranks, 0};
}
