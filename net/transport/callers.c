/* SPDX-License-Identifier: MIT */
/* callers.c: a table of calls under way and one poll for all of them. */
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "net/transport/callers.h"
#include "net/transport/socket.h"

#define CALLERS_MOST 256
#define CALLERS_TIME_NS 2000000000    /* for a caller to prove which rank it is */
#define CALLERS_AT_ONCE 32            /* that are let in before those who are here go on */
#define CALLERS_SHORT_NS 10000000     /* until the next try where no file is free */
#define CALLERS_STARVED_NS 1000000000 /* and until that is a failure */

enum { CALLERS_LISTENER, CALLERS_WAKE, CALLERS_FIRST };
struct gy_net_callers {
    struct gy_alloc alloc;
    struct gy_net_callers_config config;
    struct gy_net_handshake call[CALLERS_MOST]; /* fd -1: a free place */
    /* Only used entries are passed to poll(): all of them may exceed the limit of open files. */
    struct pollfd polled[CALLERS_FIRST + CALLERS_MOST];
    struct gy_net_handshake *waits[CALLERS_MOST]; /* whose these are */
    int64_t starved; /* since when no file is free; 0: there are some */
};

/* Closes the connection and reports why; the place is free. */
static void callers_send_away(struct gy_net_callers *c, struct gy_net_handshake *call, const char *why)
{
    if (c->config.refuse)
        c->config.refuse(c->config.owner, call, why);
    close(call->fd);
    call->fd = -1;
}

/* A caller goes on as far as its bytes are here. */
static void callers_go(struct gy_net_callers *c, struct gy_net_handshake *call)
{
    const int status = gy_net_handshake_go(call, c->config.self);
    if (status < 0)
        callers_send_away(c, call, call->why);
    else if (status > 0 && c->config.take(c->config.owner, call) != 0)
        callers_send_away(c, call, "it claims a rank that is taken");
    else if (status > 0)
        call->fd = -1;
}

/* The oldest caller that has not named a rank, also not by what lies unread. It may have left just
 * now. NULL: all have named one. */
static struct gy_net_handshake *callers_stranger(struct gy_net_callers *c)
{
    struct gy_net_handshake *oldest = NULL;
    for (int i = 0; i < CALLERS_MOST; i++)
        if (c->call[i].fd >= 0 && c->call[i].step == GY_NET_HANDSHAKE_LISTENS && (!oldest || c->call[i].deadline < oldest->deadline))
            oldest = &c->call[i];
    if (!oldest)
        return NULL;
    callers_go(c, oldest);
    return oldest->fd < 0 || oldest->step == GY_NET_HANDSHAKE_LISTENS ? oldest : callers_stranger(c);
}

/* 1: there is a free place, or a stranger can be sent away for one. */
static int callers_have_place(const struct gy_net_callers *c)
{
    for (int i = 0; i < CALLERS_MOST; i++)
        if (c->call[i].fd < 0 || c->call[i].step == GY_NET_HANDSHAKE_LISTENS)
            return 1;
    return 0;
}

/* Frees the place of a stranger, who has to leave. NULL: all who are here have named a missing
 * rank. */
static struct gy_net_handshake *callers_make_place(struct gy_net_callers *c)
{
    struct gy_net_handshake *const stranger = callers_stranger(c);
    if (stranger && stranger->fd >= 0)
        callers_send_away(c, stranger, "it says nothing");
    return stranger;
}

static void callers_begin(struct gy_net_callers *c, int fd, int64_t now)
{
    struct gy_net_handshake *place = NULL;
    for (int i = 0; i < CALLERS_MOST && !place; i++)
        place = c->call[i].fd < 0 ? &c->call[i] : NULL;
    if (!place && !(place = callers_make_place(c))) {
        close(fd); /* it calls again */
        return;
    }
    gy_net_handshake_begin(place, fd, -1, now + CALLERS_TIME_NS);
    callers_go(c, place);
}

static int callers_accept(struct gy_net_callers *c, int64_t now, struct gy_error *err)
{
    for (int k = 0; k < CALLERS_AT_ONCE && callers_have_place(c); k++) {
        int fd;
        const int problem = gy_net_accept_now(c->config.listener, &fd);
        if (problem == EMFILE || problem == ENFILE || problem == ENOBUFS || problem == ENOMEM) {
            c->starved = c->starved != 0 ? c->starved : now;
            if (callers_make_place(c))
                continue;
            return now - c->starved < CALLERS_STARVED_NS
                       ? GY_OK : GY_FAIL(err, GY_E_IO, "other ranks cannot be let in: %s", strerror(problem));
        }
        c->starved = 0;
        if (problem == EAGAIN || problem == EWOULDBLOCK)
            break;
        if (problem == 0)
            callers_begin(c, fd, now);
    }
    return GY_OK;
}

/* Who has had its time leaves. Returns when the next one has. */
static int64_t callers_expire(struct gy_net_callers *c, int64_t now)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < CALLERS_MOST; i++) {
        struct gy_net_handshake *const call = &c->call[i];
        if (call->fd >= 0 && now >= call->deadline)
            callers_send_away(c, call, call->step == GY_NET_HANDSHAKE_LISTENS ? "it says nothing" : "it has another key, or was lost");
        else if (call->fd >= 0)
            next = gy_min64(next, call->deadline);
    }
    return next;
}

/* Returns how many callers were waited for. */
static int callers_poll(struct gy_net_callers *c, int64_t until)
{
    const int64_t left = until - gy_clock_ns();
    int count = 0;
    /* deaf: the listener is not polled, as it would be ready all the time */
    const int deaf = c->starved != 0 || !callers_have_place(c);
    c->polled[CALLERS_LISTENER] = (struct pollfd){ .fd = deaf ? -1 : c->config.listener, .events = POLLIN };
    c->polled[CALLERS_WAKE] = (struct pollfd){ .fd = c->config.wake, .events = POLLIN };
    for (int i = 0; i < CALLERS_MOST; i++) {
        if (c->call[i].fd < 0)
            continue;
        c->polled[CALLERS_FIRST + count] = (struct pollfd){ .fd = c->call[i].fd, .events = POLLIN };
        c->waits[count++] = &c->call[i];
    }
    const int ready = poll(c->polled, (nfds_t)(CALLERS_FIRST + count), left <= 0 ? 0 : (int)gy_min64(left / 1000000 + 1, 1000));
    if (ready < 0 && errno != EINTR)
        nanosleep(&(const struct timespec){0, CALLERS_SHORT_NS}, NULL);
    for (int i = 0; i < CALLERS_FIRST + count && ready <= 0; i++)
        c->polled[i].revents = 0;
    return count;
}

GY_INT int gy_net_callers_serve(struct gy_net_callers *c, int64_t until, struct gy_error *err)
{
    int64_t now = gy_clock_ns();
    until = gy_min64(until, callers_expire(c, now));
    const int count = callers_poll(c, c->starved != 0 ? gy_min64(until, now + CALLERS_SHORT_NS) : until);
    for (int i = 0; i < count; i++)
        if (c->polled[CALLERS_FIRST + i].revents != 0)
            callers_go(c, c->waits[i]);
    now = gy_clock_ns();
    callers_expire(c, now);
    return c->starved != 0 || c->polled[CALLERS_LISTENER].revents != 0 ? callers_accept(c, now, err) : GY_OK;
}

GY_INT int gy_net_callers_open(struct gy_net_callers **out, const struct gy_net_callers_config *config, const struct gy_alloc *alloc,
                               struct gy_error *err)
{
    struct gy_net_callers *const c = gy_alloc_take(alloc, 1, sizeof *c);
    if (!c)
        return GY_NOMEM(err, "the calls of other ranks", sizeof *c);
    c->alloc = *alloc;
    c->config = *config;
    for (int i = 0; i < CALLERS_MOST; i++)
        c->call[i].fd = -1;
    *out = c;
    return GY_OK;
}

GY_INT void gy_net_callers_close(struct gy_net_callers *c)
{
    if (!c)
        return;
    const struct gy_alloc alloc = c->alloc;
    for (int i = 0; i < CALLERS_MOST; i++)
        if (c->call[i].fd >= 0)
            close(c->call[i].fd);
    gy_alloc_free(&alloc, c, sizeof *c);
}
