/* SPDX-License-Identifier: MIT */
/* tcp.c: one connection for each two ranks that talk (stream.h). The higher rank calls the lower
 * one at its first message to or from it (tcp_handshake.h). A thread of its own answers calls
 * (callers.h), so that a rank that computes is late, not lost. Its connections lie ready for the
 * thread that uses the transport. The system tells by edges (EPOLLET) what may be read and written.
 * While something moves no time is spent on asking, and with few connections none at all. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "net/transport/callers.h"
#include "net/transport/stream.h"
#include "net/transport/tcp.h"
#include "net/transport/tcp_handshake.h"

#define TCP_TURNS 16      /* of moving bytes in one progress call, while no request ends */
/* connections that are tried directly; asking first would cost one more call of the system */
#define TCP_FEW 2
#define TCP_POLL 16       /* calls; then the system is asked whatever moves */
#define TCP_YIELDS 32     /* calls that move nothing before the processor is given away */
/* More such calls before this rank sleeps until bytes come, at most TCP_MOMENT_NS: it is far ahead
 * of the others. */
#define TCP_LONG 4000
#define TCP_MOMENT_NS 50000
/* for a system to answer a call; the next call comes sooner than the system's own retry would */
#define TCP_CONNECT_NS 500000000
#define TCP_ANSWER_NS 2000000000    /* for the rank behind it to answer */
#define TCP_RETRY_NS 20000000
#define TCP_ASK_NS 250000000        /* between looks at whether connections are cut */
#define TCP_CLOSE_NS 2000000000     /* for what is under way at the end */
#define TCP_EVENTS 32

enum tcp_state { TCP_APART /* its call is waited for, or ours under way */, TCP_OPEN, TCP_GONE };
struct tcp_peer {
    int rank;
    enum tcp_state state;
    int64_t patience;             /* until when it is called; 0: it is not */
    int64_t reached;              /* while it is called: when its system answered last */
    /* broke: its connection ended while it was waited for. told: that, or a cut, was reported. */
    int broke, told;
    int fd;                       /* TCP_OPEN: the stream's */
    struct gy_net_handshake call;      /* while it is called; deadline: of the next try */
    struct gy_net_stream *stream;
    struct gy_net_endpoint here, there; /* of the connection */
};
struct gy_net_tcp {
    struct gy_alloc alloc;
    struct gy_net_handshake_self self;
    struct gy_net_endpoint own, *addresses; /* [ranks] */
    struct tcp_peer **peers, **open;        /* [ranks]: NULL: none yet; those with a connection */
    int open_count, apart;                  /* apart: peers that this rank is calling */
    int listener, epoll;
    int64_t wait_ns;                        /* how long a rank is called */
    int64_t asked;                          /* when it was looked for cut connections last */
    struct gy_net_callers *callers;         /* of the serving thread, as what follows */
    /* [ranks]: who was let in, under lock. fd TCP_NOBODY: not yet; TCP_SEEN: its peer has it. */
    struct gy_net_handshake *arrived;
    pthread_mutex_t lock;
    pthread_t server;
    /* locked, serves: the lock and the thread exist; stop: atomic */
    int locked, serves, stop, wake[2];
    unsigned arrivals, arrivals_seen;       /* arrivals: atomic */
    int deaf;                               /* atomic, after deaf_why: nobody is let in any more */
    struct gy_error deaf_why;
    struct gy_net_tally tally;
    unsigned idle;                          /* progress calls in a row that moved nothing */
    struct gy_net_fault fault;              /* the first */
};

/* ---- peers ---- */

enum { TCP_NOBODY = -1, TCP_SEEN = -2 };

static int tcp_listen_to(const struct gy_net_tcp *t, int operation, int fd, int rank)
{
    struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
    e.data.fd = rank;
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

/* The connection ended by itself, which loses the peer to whoever waits for it. */
static void tcp_break(struct gy_net_tcp *t, struct tcp_peer *p)
{
    p->broke = 1;
    tcp_gone(t, p);
}

/* call: holds what was agreed on the connection. operation: EPOLL_CTL_MOD where epoll has the
 * connection already. */
static void tcp_adopt(struct gy_net_tcp *t, struct tcp_peer *p, const struct gy_net_handshake *call, int operation)
{
    struct gy_net_code out, in;
    const int fd = call->fd;
    gy_net_handshake_codes(call, &t->self, &out, &in);
    t->apart -= p->patience != 0;
    p->call.fd = -1;
    p->state = TCP_OPEN;
    p->fd = fd;
    t->open[t->open_count++] = p;
    gy_net_socket_near(fd);
    gy_net_socket_watch(fd);
    gy_net_endpoint_own(fd, &p->here);
    gy_net_endpoint_peer(fd, &p->there);
    gy_net_stream_begin(p->stream, fd, &out, &in);
    if (tcp_listen_to(t, operation, fd, p->rank) != 0)
        tcp_break(t, p);
}

/* The call under way, if there is one, has failed. */
static void tcp_hang_up(struct tcp_peer *p, int64_t now)
{
    if (p->call.fd >= 0)
        close(p->call.fd);
    p->call = (struct gy_net_handshake){ .fd = -1, .deadline = now + TCP_RETRY_NS };
}

/* Begins to call a lower rank. */
static void tcp_dial(struct gy_net_tcp *t, struct tcp_peer *p)
{
    const int64_t now = gy_clock_ns();
    int fd = -1;
    if (p->patience == 0) {
        p->patience = t->wait_ns > 0 ? now + t->wait_ns : INT64_MAX;
        p->reached = now;
        t->apart++;
    }
    if (now > p->patience) {
        tcp_break(t, p);
    } else if (gy_net_connect_begin(&t->addresses[p->rank], &fd) == 0 && tcp_listen_to(t, EPOLL_CTL_ADD, fd, p->rank) == 0) {
        gy_net_socket_watch(fd);
        gy_net_handshake_begin(&p->call, fd, p->rank, now + TCP_CONNECT_NS);
    } else {
        p->call.fd = fd;
        tcp_hang_up(p, now);
    }
}

/* The call goes on. A call that breaks off is tried again, unless nobody listens there any more. A
 * caller that has proved itself waits for the answer as long as the peer is called at all. */
static void tcp_dialled(struct gy_net_tcp *t, struct tcp_peer *p)
{
    const enum gy_net_handshake_step before = p->call.step;
    const int problem = gy_net_connect_problem(p->call.fd), status = problem != 0 ? -1 : gy_net_handshake_go(&p->call, &t->self);
    const int64_t now = gy_clock_ns();
    if (status > 0) {
        tcp_adopt(t, p, &p->call, EPOLL_CTL_MOD);
    } else if (status < 0 && problem == ECONNREFUSED) {
        tcp_break(t, p);
    } else if (status < 0) {
        tcp_hang_up(p, now);
    } else if (p->call.step != before) {
        p->reached = now;
        p->call.deadline = p->call.step == GY_NET_HANDSHAKE_HOPES ? INT64_MAX : now + TCP_ANSWER_NS;
    }
}

/* NULL: no memory. */
static struct tcp_peer *tcp_peer(struct gy_net_tcp *t, int rank)
{
    struct tcp_peer *p = t->peers[rank];
    if (p || !(p = gy_alloc_take(&t->alloc, 1, sizeof *p)))
        return p;
    p->rank = rank;
    p->call.fd = -1;
    p->stream = gy_net_stream_open(&t->tally, &t->alloc);
    if (p->stream)
        return t->peers[rank] = p;
    gy_alloc_free(&t->alloc, p, sizeof *p);
    return NULL;
}

/* ---- calls to this rank, in a thread of their own ---- */

static int tcp_missing(void *owner, int rank)
{
    struct gy_net_tcp *const t = owner;
    pthread_mutex_lock(&t->lock);
    const int missing = t->arrived[rank].fd == TCP_NOBODY;
    pthread_mutex_unlock(&t->lock);
    return missing;
}

static int tcp_take(void *owner, struct gy_net_handshake *call)
{
    struct gy_net_tcp *const t = owner;
    pthread_mutex_lock(&t->lock);
    const int fits = t->arrived[call->rank].fd == TCP_NOBODY && gy_net_handshake_take(call, &t->self) == 0;
    if (fits) {
        t->arrived[call->rank] = *call;
        __atomic_add_fetch(&t->arrivals, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&t->lock);
    return fits ? 0 : -1;
}

static void *tcp_serve(void *user)
{
    struct gy_net_tcp *const t = user;
    while (!__atomic_load_n(&t->stop, __ATOMIC_ACQUIRE))
        if (gy_net_callers_serve(t->callers, INT64_MAX, &t->deaf_why) != GY_OK) {
            __atomic_store_n(&t->deaf, 1, __ATOMIC_RELEASE);
            break;
        }
    return NULL;
}

/* A rank that was let in. */
static void tcp_arrive(struct gy_net_tcp *t, const struct gy_net_handshake *call)
{
    struct tcp_peer *const p = tcp_peer(t, call->rank);
    if (p && p->state == TCP_APART)
        tcp_adopt(t, p, call, EPOLL_CTL_ADD);
    else
        close(call->fd);
}

static void tcp_look_for_arrivals(struct gy_net_tcp *t)
{
    const unsigned arrivals = __atomic_load_n(&t->arrivals, __ATOMIC_ACQUIRE);
    if (arrivals == t->arrivals_seen)
        return;
    t->arrivals_seen = arrivals;
    for (int r = t->self.rank + 1; r < t->self.ranks; r++) {
        pthread_mutex_lock(&t->lock);
        const struct gy_net_handshake call = t->arrived[r];
        t->arrived[r].fd = call.fd >= 0 ? TCP_SEEN : call.fd;
        pthread_mutex_unlock(&t->lock);
        if (call.fd >= 0)
            tcp_arrive(t, &call);
    }
}

/* ---- what the system tells ---- */

/* Calls that have had their time are made again. */
static void tcp_calls(struct gy_net_tcp *t)
{
    const int64_t now = gy_clock_ns();
    for (int r = 0; r < t->self.rank && t->apart > 0; r++) {
        struct tcp_peer *const p = t->peers[r];
        if (!p || p->state != TCP_APART || p->patience == 0 || (now <= p->call.deadline && now <= p->patience))
            continue;
        tcp_hang_up(p, now);
        tcp_dial(t, p);
    }
}

static void tcp_event(struct gy_net_tcp *t, const struct epoll_event *e)
{
    struct tcp_peer *const p = t->peers[e->data.fd];
    gy_net_stream_news(p->stream, (e->events & EPOLLIN ? GY_NET_STREAM_IN : 0) | (e->events & EPOLLOUT ? GY_NET_STREAM_OUT : 0) |
                                      (e->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) ? GY_NET_STREAM_HUNG : 0));
    if (p->state == TCP_APART && p->call.fd >= 0)
        tcp_dialled(t, p);
}

/* Returns how many events there were. */
static int tcp_poll(struct gy_net_tcp *t)
{
    struct epoll_event events[TCP_EVENTS];
    const int count = epoll_wait(t->epoll, events, TCP_EVENTS, 0);
    for (int i = 0; i < count; i++)
        tcp_event(t, &events[i]);
    if (t->apart > 0)
        tcp_calls(t);
    return count > 0 ? count : 0;
}

/* ---- the transport ---- */

/* Says once why a connection has ended on which came what was not sent. */
static void tcp_note_fault(struct gy_net_tcp *t, const struct tcp_peer *p)
{
    const struct gy_net_stream_fault *const f = gy_net_stream_fault(p->stream);
    char own[56], peer[56];
    if (!f || t->fault.text[0] != 0)
        return;
    gy_net_endpoint_text(&p->here, own, sizeof own);
    gy_net_endpoint_text(&p->there, peer, sizeof peer);
    t->fault.tag = f->tag;
    if (f->waited != f->bytes)
        snprintf(t->fault.text, sizeof t->fault.text, "rank %d waits for %" PRIu64 " bytes, and "
                 "rank %d sends %" PRIu64 ": they do not do the same (tag %08" PRIx32 ")",
                 t->self.rank, f->waited, p->rank, f->bytes, f->tag);
    else
        snprintf(t->fault.text, sizeof t->fault.text, "rank %d got a %s from rank %d by TCP, %s from %s, that is not what was sent (tag %08" PRIx32
             ", %" PRIu64 " bytes)", t->self.rank, f->what, p->rank, own, peer, f->tag, f->bytes);
}

static int tcp_post(void *self, struct gy_net_request *r, struct gy_error *err)
{
    struct gy_net_tcp *const t = self;
    struct tcp_peer *const p = tcp_peer(t, r->peer);
    r->state = GY_NET_LOST;
    if (!p)
        return GY_NOMEM(err, "a rank's connection", sizeof *p);
    if (p->state == TCP_APART && r->peer < t->self.rank && p->patience == 0)
        tcp_dial(t, p);
    const int status = gy_net_stream_post(p->stream, r);
    p->broke |= status == GY_E_PEER;
    if (status == GY_E_PEER)
        tcp_note_fault(t, p);
    if (status == GY_OK)
        return GY_OK;
    return status == GY_E_PEER ? GY_FAIL(err, GY_E_PEER, "rank %d is gone", r->peer)
                               : GY_FAIL(err, status, "no memory for the tags of messages to rank %d", r->peer);
}

static size_t tcp_move(struct gy_net_tcp *t)
{
    size_t moved = 0;
    /* A peer that goes leaves its place to one that was looked at already. */
    for (int i = t->open_count - 1; i >= 0; i--) {
        struct tcp_peer *const p = t->open[i];
        const int pending = gy_net_stream_is_pending(p->stream);
        if (!gy_net_stream_has_ended(p->stream))
            moved += gy_net_stream_move(p->stream);
        if (gy_net_stream_has_ended(p->stream)) {
            p->broke |= pending;
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
    tcp_look_for_arrivals(t);
    if (t->tally.calls++ % TCP_POLL == 0)
        tcp_poll(t);
    for (int i = 0; i < t->open_count && few; i++)
        gy_net_stream_news(t->open[i]->stream, GY_NET_STREAM_IN | GY_NET_STREAM_OUT);
    while (turn < TCP_TURNS && t->tally.ended == ended && (tcp_move(t) > 0 || (!few && tcp_poll(t) > 0)))
        turn++; /* whoever waits for what came looks at it while it is in a cache */
    t->idle = turn > 0 ? 0 : t->idle + 1;
    if (t->idle > 0)
        tcp_wait(t);
    if (__atomic_load_n(&t->deaf, __ATOMIC_ACQUIRE) && t->fault.text[0] == 0) {
        t->fault.tag = UINT32_MAX; /* it is of no message */
        snprintf(t->fault.text, sizeof t->fault.text, "rank %d: %.180s", t->self.rank, t->deaf_why.text);
    }
    return t->fault.text[0] == 0 ? GY_OK : GY_FAIL(err, GY_E_PEER, "%s", t->fault.text);
}

static void tcp_cancel(void *self, int peer)
{
    struct gy_net_tcp *const t = self;
    for (int r = 0; r < t->self.ranks; r++)
        if (peer == r || (peer < 0 && t->peers[r])) {
            struct tcp_peer *const p = tcp_peer(t, r);
            if (!p)
                continue;
            p->told = 1; /* it was this rank's wish */
            tcp_gone(t, p);
        }
}

/* This rank waits for the peer, and nothing comes through, or the connection broke. A peer that has
 * not called yet counts as late: only the calling end can tell that its call is cut. */
static int tcp_is_cut(const struct tcp_peer *p, int64_t now)
{
    if (p->state == TCP_OPEN)
        return gy_net_socket_is_cut(p->fd, gy_net_stream_is_pending(p->stream));
    if (p->state == TCP_GONE || p->patience == 0)
        return p->broke;
    if (p->call.fd >= 0 && p->call.step != GY_NET_HANDSHAKE_CONNECTS)
        return gy_net_socket_is_cut(p->call.fd, 1);
    return now - p->reached > (int64_t)GY_NET_CUT_MS * 1000000;
}

GY_INT int gy_net_tcp_cut(struct gy_net_tcp *t)
{
    const int64_t now = gy_clock_ns();
    for (int r = 0; r < t->self.ranks && now - t->asked > TCP_ASK_NS; r++) {
        struct tcp_peer *const p = t->peers[r];
        if (!p || p->told || !tcp_is_cut(p, now))
            continue;
        p->told = 1;
        return r;
    }
    t->asked = now - t->asked > TCP_ASK_NS ? now : t->asked;
    return -1;
}

/* ---- open and close ---- */

static int tcp_start_server(struct gy_net_tcp *t, struct gy_error *err)
{
    const struct gy_net_callers_config config = { .listener = t->listener, .wake = t->wake[0], .self = &t->self, .take = tcp_take, .owner = t };
    GY_TRY(gy_net_callers_open(&t->callers, &config, &t->alloc, err));
    t->locked = pthread_mutex_init(&t->lock, NULL) == 0;
    const int problem = t->locked ? pthread_create(&t->server, NULL, tcp_serve, t) : ENOMEM;
    t->serves = problem == 0;
    return problem == 0 ? GY_OK : GY_FAIL(err, GY_E_NOMEM, "the calls of other ranks get no thread: %s", strerror(problem));
}

static void tcp_stop_server(struct gy_net_tcp *t)
{
    __atomic_store_n(&t->stop, 1, __ATOMIC_RELEASE);
    if (t->serves && write(t->wake[1], "", 1) == 1)
        pthread_join(t->server, NULL);
    t->serves = 0;
}

static int tcp_start(struct gy_net_tcp *t, const struct gy_net_tcp_config *c, struct gy_error *err)
{
    const size_t ranks = (size_t)c->ranks;
    t->addresses = gy_alloc_take(&t->alloc, ranks, sizeof *t->addresses);
    t->peers = gy_alloc_take(&t->alloc, ranks, sizeof(struct tcp_peer *));
    t->open = gy_alloc_take(&t->alloc, ranks, sizeof(struct tcp_peer *));
    t->arrived = gy_alloc_take(&t->alloc, ranks, sizeof *t->arrived);
    if (!t->addresses || !t->peers || !t->open || !t->arrived)
        return GY_NOMEM(err, "the ranks' connections", ranks * sizeof *t->addresses);
    for (size_t r = 0; r < ranks; r++)
        t->arrived[r].fd = TCP_NOBODY;
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (t->epoll < 0 || pipe(t->wake) != 0)
        return GY_FAIL(err, GY_E_IO, "no file to wait for connections with: %s", strerror(errno));
    GY_TRY(gy_net_listen_at(&c->own, &t->listener, &t->own, err));
    fcntl(t->wake[0], F_SETFD, FD_CLOEXEC);
    fcntl(t->wake[1], F_SETFD, FD_CLOEXEC);
    return tcp_start_server(t, err);
}

GY_INT int gy_net_tcp_open(struct gy_net_tcp **out, const struct gy_net_tcp_config *config, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_net_tcp *t = gy_alloc_take(alloc, 1, sizeof *t);
    if (!t)
        return GY_NOMEM(err, "the connections between ranks", sizeof *t);
    t->alloc = *alloc;
    t->self = (struct gy_net_handshake_self){ .rank = config->rank, .ranks = config->ranks, .code = config->code, .missing = tcp_missing,
                                              .owner = t };
    t->wait_ns = config->wait_ns;
    memcpy(t->self.key, config->key, sizeof t->self.key);
    t->listener = t->epoll = t->wake[0] = t->wake[1] = -1;
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
        if (t->peers[r] && gy_net_stream_is_pending(t->peers[r]->stream))
            return 1;
    return 0;
}

static void tcp_free_peer(struct gy_net_tcp *t, struct tcp_peer *p)
{
    tcp_gone(t, p);
    gy_net_stream_free(p->stream);
    gy_alloc_free(&t->alloc, p, sizeof *p);
}

GY_INT void gy_net_tcp_close(struct gy_net_tcp *t)
{
    if (!t)
        return;
    const struct gy_alloc alloc = t->alloc;
    const size_t ranks = (size_t)t->self.ranks;
    tcp_stop_server(t);
    if (tcp_is_pending(t))
        tcp_cancel(t, -1);
    tcp_leave(t);
    for (size_t r = 0; t->peers != NULL && r < ranks; r++)
        if (t->peers[r])
            tcp_free_peer(t, t->peers[r]);
    for (size_t r = 0; t->arrived != NULL && r < ranks; r++)
        if (t->arrived[r].fd >= 0)
            close(t->arrived[r].fd);
    gy_net_callers_close(t->callers);
    if (t->locked)
        pthread_mutex_destroy(&t->lock);
    const int files[] = {t->listener, t->epoll, t->wake[0], t->wake[1]};
    for (size_t i = 0; i < GY_COUNT(files); i++)
        if (files[i] >= 0)
            close(files[i]);
    gy_alloc_free(&alloc, t->arrived, ranks * sizeof *t->arrived);
    gy_alloc_free(&alloc, t->addresses, ranks * sizeof *t->addresses);
    gy_alloc_free(&alloc, t->peers, ranks * sizeof(struct tcp_peer *));
    gy_alloc_free(&alloc, t->open, ranks * sizeof(struct tcp_peer *));
    gy_alloc_free(&alloc, t, sizeof *t);
}

GY_INT void gy_net_tcp_address(const struct gy_net_tcp *t, struct gy_net_endpoint *address)
{
    *address = t->own;
}

GY_INT int gy_net_tcp_connect(struct gy_net_tcp *t, const struct gy_net_endpoint *addresses, struct gy_error *err)
{
    (void)err;
    memcpy(t->addresses, addresses, (size_t)t->self.ranks * sizeof *addresses);
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
