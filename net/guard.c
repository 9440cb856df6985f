/* SPDX-License-Identifier: MIT */
/* The thread sleeps in poll until a message, the next sign of life, or its end. Its own delays are no silence of others: after a pause of
 * this process everybody begins anew. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../engine/base/clock.h"
#include "guard.h"

#define GUARD_SEND_NS 200000000   /* to hand a message to the system */
#define GUARD_PAUSE_NS 1000000000 /* a turn that took longer: this process itself stood still */
#define GUARD_LEAVE_NS 1000000000 /* for farewells to arrive */

enum guard_kind { GUARD_BEAT, GUARD_BYE, GUARD_LOST };
struct guard_message {
    uint64_t entered;
    int32_t kind;
    char text[244];
};
enum guard_state { GUARD_HERE, GUARD_LEFT };
struct guard_peer {
    int rank, state;
    uint64_t entered;
    int64_t seen;
};
struct gy_net_guard {
    struct gy_alloc alloc;
    struct gy_net_boot *boot;
    const struct gy_net_identity *all;
    struct guard_peer *peers;  /* rank 0: [ranks - 1]; others: rank 0 */
    struct pollfd *polled;     /* [count + 1], the last one wakes */
    int rank, ranks, count, wake[2];
    pthread_t thread;
    uint64_t entered;
    int lost, stop;            /* atomic; text is written before lost */
    char text[244];
};

static uint64_t guard_entered(struct gy_net_guard *g)
{
    return __atomic_load_n(&g->entered, __ATOMIC_RELAXED);
}

static void guard_send(struct gy_net_guard *g, const struct guard_peer *peer, int kind)
{
    struct guard_message m = {.entered = guard_entered(g), .kind = kind};
    if (kind == GUARD_LOST)
        memcpy(m.text, g->text, sizeof(m.text));
    if (peer->state == GUARD_HERE && gy_net_boot_socket(g->boot, peer->rank) >= 0)
        gy_net_boot_send(g->boot, peer->rank, &m, sizeof(m), gy_clock_ns() + GUARD_SEND_NS, NULL); /* a broken one is noticed by reading */
}

static void guard_send_all(struct gy_net_guard *g, int kind)
{
    for (int i = 0; i < g->count; i++)
        guard_send(g, &g->peers[i], kind);
}

/* ---- verdicts ---- */

/* The most sums that a rank was seen to have begun. */
static uint64_t guard_most(struct gy_net_guard *g)
{
    uint64_t most = guard_entered(g);
    for (int i = 0; i < g->count; i++)
        most = g->peers[i].entered > most ? g->peers[i].entered : most;
    return most;
}

static void guard_decide(struct gy_net_guard *g, const char *text)
{
    if (g->lost)
        return;
    gy_text_copy(g->text, sizeof(g->text), text);
    __atomic_store_n(&g->lost, 1, __ATOMIC_RELEASE);
    if (g->rank == 0)
        guard_send_all(g, GUARD_LOST);
}

static void guard_blame(struct gy_net_guard *g, const struct guard_peer *peer, const char *how)
{
    char text[244];
    const uint64_t most = guard_most(g);
    const struct gy_net_identity *who = &g->all[peer->rank];
    const int bytes = snprintf(text, sizeof(text), "rank %d on %.63s (process %" PRId32 ") %s", peer->rank, who->name, who->pid, how);
    if (g->rank == 0 && bytes > 0 && (size_t)bytes < sizeof(text))
        snprintf(text + bytes, sizeof(text) - (size_t)bytes, most > peer->entered ? "; it has not entered sum %" PRIu64 : "; last in sum %" PRIu64,
                 peer->entered + (most > peer->entered));
    guard_decide(g, text);
}

static void guard_judge(struct gy_net_guard *g, int64_t now)
{
    for (int i = 0; i < g->count && !g->lost; i++) {
        const struct guard_peer *peer = &g->peers[i];
        if (peer->state == GUARD_HERE && now - peer->seen > GY_NET_SILENT_NS)
            guard_blame(g, peer, "is silent for 2.5 seconds: it stands still or cannot be reached");
        else if (peer->state == GUARD_LEFT && guard_most(g) > peer->entered)
            guard_blame(g, peer, "has left the job");
    }
}

/* ---- messages ---- */

static void guard_read(struct gy_net_guard *g, struct guard_peer *peer)
{
    struct guard_message m;
    if (gy_net_boot_take(g->boot, peer->rank, &m, sizeof(m), gy_clock_ns() + GUARD_PAUSE_NS, NULL) != GY_OK) {
        gy_net_boot_drop(g->boot, peer->rank);
        peer->state = GUARD_LEFT;
        guard_blame(g, peer, "has ended: its connection is gone");
        return;
    }
    m.text[sizeof(m.text) - 1] = 0;
    peer->seen = gy_clock_ns();
    peer->entered = m.entered > peer->entered ? m.entered : peer->entered;
    if (m.kind == GUARD_LOST && g->rank > 0)
        guard_decide(g, m.text);
    if (m.kind == GUARD_BYE) {
        gy_net_boot_drop(g->boot, peer->rank);
        peer->state = GUARD_LEFT;
    }
}

static void guard_poll(struct gy_net_guard *g, int64_t until)
{
    const int64_t left = until - gy_clock_ns();
    for (int i = 0; i < g->count; i++)
        g->polled[i] = (struct pollfd){.fd = g->peers[i].state == GUARD_HERE ? gy_net_boot_socket(g->boot, g->peers[i].rank) : -1, .events = POLLIN};
    g->polled[g->count] = (struct pollfd){.fd = g->wake[0], .events = POLLIN};
    if (poll(g->polled, (nfds_t)g->count + 1, left <= 0 ? 0 : (int)(left / 1000000) + 1) <= 0)
        return;
    for (int i = 0; i < g->count; i++)
        if (g->polled[i].revents != 0)
            guard_read(g, &g->peers[i]);
}

static void guard_begin_anew(struct gy_net_guard *g, int64_t now)
{
    for (int i = 0; i < g->count; i++)
        g->peers[i].seen = now;
}

/* A farewell must be read before the connection ends: whoever gets it ends the connection. */
static void guard_leave(struct gy_net_guard *g)
{
    const int64_t deadline = gy_clock_ns() + GUARD_LEAVE_NS;
    int left = 0;
    guard_send_all(g, GUARD_BYE);
    for (int i = 0; i < g->count; i++) {
        const int fd = g->peers[i].state == GUARD_HERE ? gy_net_boot_socket(g->boot, g->peers[i].rank) : -1;
        if (fd >= 0)
            left += shutdown(fd, SHUT_WR) == 0;
    }
    __atomic_store_n(&g->lost, 1, __ATOMIC_RELEASE); /* nobody is blamed any more */
    while (left > 0 && gy_clock_ns() < deadline) {
        guard_poll(g, gy_min64(deadline, gy_clock_ns() + 20000000));
        left = 0;
        for (int i = 0; i < g->count; i++)
            left += g->peers[i].state == GUARD_HERE;
    }
}

static void *guard_thread(void *user)
{
    struct gy_net_guard *g = user;
    int64_t beat = gy_clock_ns(), turn = beat;
    guard_begin_anew(g, beat);
    while (!__atomic_load_n(&g->stop, __ATOMIC_ACQUIRE)) {
        int64_t now = gy_clock_ns();
        if (now >= beat) {
            guard_send_all(g, GUARD_BEAT);
            beat = now + GY_NET_BEAT_NS;
        }
        guard_poll(g, beat);
        now = gy_clock_ns();
        if (now - turn > GUARD_PAUSE_NS + GY_NET_BEAT_NS)
            guard_begin_anew(g, now);
        turn = now;
        guard_judge(g, now);
    }
    if (!g->lost)
        guard_leave(g);
    return NULL;
}

/* ---- open and close ---- */

static int guard_fill(struct gy_net_guard *g, struct gy_error *err)
{
    g->peers = gy_alloc_take(&g->alloc, (size_t)g->count, sizeof(*g->peers));
    g->polled = gy_alloc_take(&g->alloc, (size_t)g->count + 1, sizeof(*g->polled));
    if (g->peers == NULL || g->polled == NULL)
        return GY_NOMEM(err, "the guard of the ranks", (size_t)g->count * sizeof(*g->peers));
    for (int i = 0; i < g->count; i++)
        g->peers[i].rank = g->rank == 0 ? i + 1 : 0;
    if (pipe(g->wake) != 0)
        return GY_FAIL(err, GY_E_IO, "the guard of the ranks gets no pipe: %s", strerror(errno));
    fcntl(g->wake[0], F_SETFD, FD_CLOEXEC);
    fcntl(g->wake[1], F_SETFD, FD_CLOEXEC);
    const int problem = pthread_create(&g->thread, NULL, guard_thread, g);
    return problem == 0 ? GY_OK : GY_FAIL(err, GY_E_NOMEM, "the guard of the ranks gets no thread: %s", strerror(problem));
}

static void guard_free(struct gy_net_guard *g)
{
    const struct gy_alloc alloc = g->alloc;
    for (int i = 0; i < 2; i++)
        if (g->wake[i] >= 0)
            close(g->wake[i]);
    gy_alloc_free(&alloc, g->peers, (size_t)g->count * sizeof(*g->peers));
    gy_alloc_free(&alloc, g->polled, ((size_t)g->count + 1) * sizeof(*g->polled));
    gy_alloc_free(&alloc, g, sizeof(*g));
}

GY_INT int gy_net_guard_open(struct gy_net_guard **out, struct gy_net_boot *boot, const struct gy_net_identity *all, int rank, int ranks,
                             const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_net_guard *g = gy_alloc_take(alloc, 1, sizeof(*g));
    if (g == NULL)
        return GY_NOMEM(err, "the guard of the ranks", sizeof(*g));
    *g = (struct gy_net_guard){.alloc = *alloc, .boot = boot, .all = all, .rank = rank, .ranks = ranks, .count = rank == 0 ? ranks - 1 : 1,
                               .wake = {-1, -1}};
    const int status = guard_fill(g, err);
    if (status == GY_OK)
        *out = g;
    else
        guard_free(g);
    return status;
}

GY_INT void gy_net_guard_close(struct gy_net_guard *g)
{
    if (g == NULL)
        return;
    __atomic_store_n(&g->stop, 1, __ATOMIC_RELEASE);
    if (write(g->wake[1], "", 1) == 1 || errno != 0)
        pthread_join(g->thread, NULL);
    guard_free(g);
}

GY_INT void gy_net_guard_enter(struct gy_net_guard *g)
{
    __atomic_add_fetch(&g->entered, 1, __ATOMIC_RELAXED);
}

GY_INT int gy_net_guard_lost(struct gy_net_guard *g, struct gy_error *err)
{
    if (!__atomic_load_n(&g->lost, __ATOMIC_ACQUIRE))
        return GY_OK;
    return GY_FAIL(err, GY_E_PEER, "%s", g->text);
}
