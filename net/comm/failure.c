/* SPDX-License-Identifier: MIT */
/* The thread sleeps in poll until a message, the next sign of life, or its end. Its own delays are no silence of others: after a pause of
 * this process everybody begins anew. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "net/comm/failure.h"

#define GUARD_SEND_NS 200000000   /* to hand a message to the system */
#define GUARD_PAUSE_NS 1000000000 /* a turn that took longer: this process itself stood still */
#define GUARD_LEAVE_NS 1000000000 /* for farewells to arrive */
#define GUARD_STILL_NS (GY_NET_SILENT_NS - 2 * GY_NET_BEAT_NS) /* whoever ends after so long without a sign of life stood still */
#define GUARD_SILENT "is silent for 2.5 seconds: it stands still or cannot be reached"

#define GUARD_MOMENT_NS 200000    /* between looks at whether all are through */
#define GUARD_AWAY_NS 1000000000  /* whose own thread was not seen for so long does not wait: it works, or hangs */
#define GUARD_GATHER_NS 1500000000 /* from the first word of a cut path until it is judged: systems ask once a second, so ends notice apart */

#define GUARD_TEXT 320
#define GUARD_PAIRS 64            /* of ranks between which no data comes through */
#define GUARD_WATCHED 2           /* processes of this host: the next rank's, and rank 0's */
#define GUARD_LINE (64 / sizeof(uint64_t)) /* of the board: a rank's own */

long syscall(long number, ...); /* not declared under strict POSIX */

enum guard_kind { GUARD_BEAT, GUARD_BYE, GUARD_LOST, GUARD_DEAD, GUARD_THROUGH, GUARD_FOUND, GUARD_CUT };
struct guard_message {
    uint64_t entered;
    int64_t away;              /* ns since the rank's own thread was last seen to begin a sum or to wait */
    int32_t kind, rank;        /* GUARD_DEAD, GUARD_CUT: the rank whose process is gone, to whom no data comes through; GUARD_BYE: not 0 when this
                                * one has failed in a sum */
    char text[GUARD_TEXT];     /* GUARD_LOST, GUARD_FOUND */
};
enum guard_state { GUARD_HERE, GUARD_LEFT };
struct guard_peer {
    int rank, state, through;  /* through: it said so; of rank 0: all are */
    uint64_t entered;          /* as it said last */
    const uint64_t *line;      /* where it counts; NULL: on another host */
    int64_t seen, away;        /* away: as it said last */
};
struct guard_pair {
    int one, other;
};
struct guard_watch {
    int rank, fd;              /* -1: nobody, or no longer */
};
struct gy_net_guard {
    struct gy_alloc alloc;
    struct gy_net_boot *boot;
    const struct gy_net_identity *all;
    struct guard_peer *peers;  /* rank 0: [ranks - 1]; others: rank 0 */
    struct pollfd *polled;     /* [count + GUARD_WATCHED + 1], the last one wakes */
    struct guard_watch watch[GUARD_WATCHED];
    int rank, ranks, count, one_host, wake[2];
    pthread_t thread;
    uint64_t alone, *entered;  /* this rank's count: on the board, or alone */
    uint64_t waits;            /* grows while this rank's own thread waits (atomic) */
    uint64_t last_entered, last_waits; /* both as the guard saw them last */
    int64_t wait_ns, active;   /* active: when one of them was another */
    uint64_t all_entered;      /* rank 0: the sums of all ranks together; since when they are so many while somebody waits */
    int64_t quiet;
    unsigned char *cut;        /* [ranks], enum guard_cut (atomic) */
    struct guard_pair pair[GUARD_PAIRS]; /* rank 0: that were told, the first one when */
    int pairs;
    int64_t first_pair;
    int lost, stop, failed;    /* atomic; text is written before lost */
    int through, told, ended;  /* this rank is (atomic); has said so; all are (atomic) */
    int found, found_told;     /* this rank has found what ends the job (atomic; found_text is written before); has said so */
    char text[GUARD_TEXT], found_text[GUARD_TEXT];
};

enum guard_cut { GUARD_WHOLE, GUARD_CUT_NOW, GUARD_CUT_TOLD };

static uint64_t guard_entered(struct gy_net_guard *g)
{
    return __atomic_load_n(g->entered, __ATOMIC_RELAXED);
}

static void guard_send(struct gy_net_guard *g, const struct guard_peer *peer, int kind, int rank)
{
    struct guard_message m = { .entered = guard_entered(g), .away = gy_clock_ns() - g->active, .kind = kind, .rank = rank };
    if (kind == GUARD_LOST || kind == GUARD_FOUND)
        memcpy(m.text, kind == GUARD_LOST ? g->text : g->found_text, sizeof m.text);
    if (peer->state == GUARD_HERE && gy_net_boot_socket(g->boot, peer->rank) >= 0)
        gy_net_boot_send(g->boot, peer->rank, &m, sizeof m, gy_clock_ns() + GUARD_SEND_NS, NULL); /* a broken one is noticed by reading */
}

static void guard_send_all(struct gy_net_guard *g, int kind)
{
    for (int i = 0; i < g->count; i++)
        guard_send(g, &g->peers[i], kind, 0);
}

/* ---- verdicts ---- */

/* The sums that a rank was seen to have begun. */
static uint64_t guard_peer_entered(const struct guard_peer *peer)
{
    const uint64_t now = peer->line ? __atomic_load_n(peer->line, __ATOMIC_RELAXED) : 0;
    return now > peer->entered ? now : peer->entered;
}

/* The most of all ranks. */
static uint64_t guard_most(struct gy_net_guard *g)
{
    uint64_t most = guard_entered(g);
    for (int i = 0; i < g->count; i++) {
        const uint64_t entered = guard_peer_entered(&g->peers[i]);
        most = entered > most ? entered : most;
    }
    return most;
}

static void guard_decide(struct gy_net_guard *g, const char *text)
{
    if (g->lost)
        return;
    gy_text_copy(g->text, sizeof g->text, text);
    __atomic_store_n(&g->lost, 1, __ATOMIC_RELEASE);
    if (g->rank == 0)
        guard_send_all(g, GUARD_LOST);
}

/* Without rank 0 everybody says no more than what all see alike: on one host the board, where a process that is gone counts no further. */
static void guard_blame(struct gy_net_guard *g, const struct guard_peer *peer, const char *how)
{
    char text[GUARD_TEXT], sum[64] = "", seen[48] = "";
    const struct gy_net_identity *who = &g->all[peer->rank];
    if (g->rank == 0 || (g->one_host && peer->line))
        snprintf(sum, sizeof sum, "; it has not entered sum %" PRIu64, guard_peer_entered(peer) + 1);
    if (g->rank == 0)
        snprintf(seen, sizeof seen, ", last seen %.1f s ago", (double)(gy_clock_ns() - peer->seen) * 1e-9);
    snprintf(text, sizeof text, "rank %d on %.63s (process %" PRId32 ") %s%s%s", peer->rank, who->name, who->pid, how, sum, seen);
    guard_decide(g, text);
}

/* Rank 0 of itself or of another. */
static void guard_blame_rank(struct gy_net_guard *g, int rank, const char *how)
{
    const struct guard_peer self = { .rank = 0, .entered = guard_entered(g), .seen = gy_clock_ns() };
    guard_blame(g, rank == 0 ? &self : &g->peers[rank - 1], how);
}

/* ---- late, or hanging ---- */

/* What this rank's own thread did since the last look. */
static void guard_see_own(struct gy_net_guard *g, int64_t now)
{
    const uint64_t entered = guard_entered(g), waits = __atomic_load_n(&g->waits, __ATOMIC_RELAXED);
    if (entered != g->last_entered || waits != g->last_waits)
        g->active = now;
    g->last_entered = entered;
    g->last_waits = waits;
}

/* Some rank waits, and for wait_ns none has begun another sum: whose own thread was away longest? */
static void guard_judge_late(struct gy_net_guard *g, int64_t now)
{
    int64_t longest = now - g->active, shortest = longest;
    uint64_t entered = guard_entered(g);
    int who = 0;
    char how[120];
    for (int i = 0; i < g->count; i++) {
        const struct guard_peer *peer = &g->peers[i];
        entered += guard_peer_entered(peer);
        if (peer->state != GUARD_HERE)
            continue;
        shortest = gy_min64(shortest, peer->away);
        who = peer->away > longest ? peer->rank : who;
        longest = gy_max64(longest, peer->away);
    }
    if (shortest > GUARD_AWAY_NS || entered != g->all_entered) {
        g->all_entered = entered;
        g->quiet = now;
    }
    if (g->lost || g->wait_ns == 0 || now - g->quiet < g->wait_ns)
        return;
    const double seconds = (double)g->wait_ns * 1e-9;
    snprintf(how, sizeof how, "lives, but others have waited for it for %.1f s", seconds);
    if (longest > GUARD_AWAY_NS) {
        guard_blame_rank(g, who, how);
        return;
    }
    snprintf(how, sizeof how, "all ranks have waited for %.1f s in sums that do not end: they do not do the same", seconds);
    guard_decide(g, how);
}

/* ---- cut paths ---- */

static void guard_add_pair(struct gy_net_guard *g, int one, int other)
{
    const struct guard_pair pair = {one < other ? one : other, one < other ? other : one};
    for (int i = 0; i < g->pairs; i++)
        if (g->pair[i].one == pair.one && g->pair[i].other == pair.other)
            return;
    if (g->pairs == 0)
        g->first_pair = gy_clock_ns();
    if (g->pairs < GUARD_PAIRS && one != other)
        g->pair[g->pairs++] = pair;
}

/* What this rank's own thread found goes to rank 0. */
static void guard_tell_cuts(struct gy_net_guard *g)
{
    for (int r = 0; r < g->ranks; r++) {
        if (__atomic_load_n(&g->cut[r], __ATOMIC_ACQUIRE) != GUARD_CUT_NOW)
            continue;
        __atomic_store_n(&g->cut[r], GUARD_CUT_TOLD, __ATOMIC_RELAXED);
        if (g->rank == 0)
            guard_add_pair(g, 0, r);
        else
            guard_send(g, &g->peers[0], GUARD_CUT, r);
    }
}

static int guard_count_pairs(const struct gy_net_guard *g, int rank)
{
    int count = 0;
    for (int i = 0; i < g->pairs; i++)
        count += g->pair[i].one == rank || g->pair[i].other == rank;
    return count;
}

/* A rank that cannot be reached at all is silent soon, and lost for that. */
static void guard_judge_cuts(struct gy_net_guard *g, int64_t now)
{
    int most = 0, who = -1;
    char text[GUARD_TEXT];
    if (g->lost || g->pairs == 0 || now - g->first_pair < GUARD_GATHER_NS)
        return;
    for (int r = 0; r < g->ranks; r++) {
        const int count = guard_count_pairs(g, r);
        who = count > most ? r : who;
        most = count > most ? count : most;
        if (count > 0 && r > 0 && now - g->peers[r - 1].seen > GUARD_AWAY_NS)
            return;
    }
    if (most > 1) {
        guard_blame_rank(g, who, "lives, but no data comes through to it or from it");
        return;
    }
    const struct gy_net_identity *const one = &g->all[g->pair[0].one], *const other = &g->all[g->pair[0].other];
    snprintf(text, sizeof text, "no data comes through between rank %d on %.40s (process %" PRId32 ") and rank %d on %.40s (process %" PRId32
             "), which both live", g->pair[0].one, one->name, one->pid, g->pair[0].other, other->name, other->pid);
    guard_decide(g, text);
}

static void guard_judge(struct gy_net_guard *g, int64_t now)
{
    for (int i = 0; i < g->count && !g->lost; i++) {
        const struct guard_peer *peer = &g->peers[i];
        if (peer->state == GUARD_HERE && now - peer->seen > GY_NET_SILENT_NS)
            guard_blame(g, peer, GUARD_SILENT);
        else if (peer->state == GUARD_LEFT &&
                 (guard_most(g) > guard_peer_entered(peer) || (!peer->through && __atomic_load_n(&g->through, __ATOMIC_ACQUIRE))))
            guard_blame(g, peer, "has left the job");
    }
}

/* ---- messages ---- */

/* One that stood still may be ended by whoever noticed it first, before the others do: they say the same. */
static void guard_end(struct gy_net_guard *g, struct guard_peer *peer, const char *how)
{
    gy_net_boot_drop(g->boot, peer->rank);
    peer->state = GUARD_LEFT;
    guard_blame(g, peer, gy_clock_ns() - peer->seen > GUARD_STILL_NS ? GUARD_SILENT : how);
}

/* 1: a message is there, 0: none, -1: the connection has ended. */
static int guard_look(const struct gy_net_guard *g, const struct guard_peer *peer)
{
    char first;
    const ssize_t n = recv(gy_net_boot_socket(g->boot, peer->rank), &first, 1, MSG_PEEK);
    return n > 0 ? 1 : n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : -1;
}

/* The process of a rank is gone: its farewell may be here already. Only rank 0 decides, and whoever loses rank 0. */
static void guard_dead(struct gy_net_guard *g, int rank);

static void guard_take(struct gy_net_guard *g, struct guard_peer *peer)
{
    struct guard_message m;
    if (gy_net_boot_take(g->boot, peer->rank, &m, sizeof m, gy_clock_ns() + GUARD_PAUSE_NS, NULL) != GY_OK) {
        guard_end(g, peer, "breaks off in the middle of a message");
        return;
    }
    m.text[sizeof m.text - 1] = 0;
    peer->seen = gy_clock_ns();
    peer->away = m.away;
    peer->entered = m.entered > peer->entered ? m.entered : peer->entered;
    peer->through |= m.kind == GUARD_THROUGH;
    if (m.kind == GUARD_LOST && g->rank > 0)
        guard_decide(g, m.text);
    if (m.kind == GUARD_FOUND && g->rank == 0)
        guard_decide(g, m.text);
    if (m.kind == GUARD_DEAD && g->rank == 0 && m.rank > 0 && m.rank < g->ranks)
        guard_dead(g, m.rank);
    if (m.kind == GUARD_CUT && g->rank == 0 && m.rank >= 0 && m.rank < g->ranks)
        guard_add_pair(g, peer->rank, m.rank);
    if (m.kind == GUARD_BYE) {
        gy_net_boot_drop(g->boot, peer->rank);
        peer->state = GUARD_LEFT;
        if (m.rank != 0)
            guard_blame(g, peer, "has failed in a sum and left the job");
    }
}

static void guard_read(struct gy_net_guard *g, struct guard_peer *peer)
{
    const int there = guard_look(g, peer);
    if (there > 0)
        guard_take(g, peer);
    else if (there < 0)
        guard_end(g, peer, "has ended");
}

static void guard_dead(struct gy_net_guard *g, int rank)
{
    struct guard_peer *const peer = &g->peers[g->rank == 0 ? rank - 1 : 0];
    if (peer->rank != rank) {
        guard_send(g, peer, GUARD_DEAD, rank);
        return;
    }
    while (peer->state == GUARD_HERE && guard_look(g, peer) > 0)
        guard_take(g, peer);
    if (peer->state == GUARD_HERE)
        guard_end(g, peer, "has ended");
}

static void guard_gone(struct gy_net_guard *g, struct guard_watch *w)
{
    close(w->fd);
    w->fd = -1;
    guard_dead(g, w->rank);
}

static void guard_poll(struct gy_net_guard *g, int64_t until)
{
    const int64_t left = until - gy_clock_ns();
    struct pollfd *const watched = g->polled + g->count;
    for (int i = 0; i < g->count; i++)
        g->polled[i] = (struct pollfd){ .fd = g->peers[i].state == GUARD_HERE ? gy_net_boot_socket(g->boot, g->peers[i].rank) : -1, .events = POLLIN };
    for (int i = 0; i < GUARD_WATCHED; i++)
        watched[i] = (struct pollfd){ .fd = g->watch[i].fd, .events = POLLIN };
    watched[GUARD_WATCHED] = (struct pollfd){ .fd = g->wake[0], .events = POLLIN };
    if (poll(g->polled, (nfds_t)(g->count + GUARD_WATCHED + 1), left <= 0 ? 0 : (int)(left / 1000000) + 1) <= 0)
        return;
    for (int i = 0; i < g->count; i++)
        if (g->polled[i].revents != 0 && g->peers[i].state == GUARD_HERE)
            guard_read(g, &g->peers[i]);
    for (int i = 0; i < GUARD_WATCHED; i++)
        if (watched[i].revents != 0)
            guard_gone(g, &g->watch[i]);
    if (watched[GUARD_WATCHED].revents != 0 && read(g->wake[0], &(char){0}, 1) < 0)
        return;
}

/* Rank 0 hears it of all, then tells all. */
static void guard_tell_through(struct gy_net_guard *g)
{
    int others = 1;
    for (int i = 0; i < g->count; i++)
        others = others && g->peers[i].through;
    if (!g->told && __atomic_load_n(&g->through, __ATOMIC_ACQUIRE) && (g->rank > 0 || others)) {
        guard_send_all(g, GUARD_THROUGH);
        g->told = 1;
    }
    if (g->told && others)
        __atomic_store_n(&g->ended, 1, __ATOMIC_RELEASE);
}

/* Rank 0 decides: it may know of a loss that came before. */
static void guard_tell_found(struct gy_net_guard *g)
{
    if (g->found_told || !__atomic_load_n(&g->found, __ATOMIC_ACQUIRE))
        return;
    g->found_told = 1;
    if (g->rank == 0)
        guard_decide(g, g->found_text);
    else
        guard_send(g, &g->peers[0], GUARD_FOUND, 0);
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
    for (int i = 0; i < g->count; i++)
        guard_send(g, &g->peers[i], GUARD_BYE, __atomic_load_n(&g->failed, __ATOMIC_ACQUIRE));
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
    g->active = g->quiet = beat;
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
        guard_see_own(g, now);
        guard_tell_cuts(g);
        guard_tell_through(g);
        guard_tell_found(g);
        guard_judge(g, now);
        if (g->rank == 0) {
            guard_judge_late(g, now);
            guard_judge_cuts(g, now);
        }
    }
    if (!g->lost)
        guard_leave(g);
    return NULL;
}

/* ---- open and close ---- */

static void guard_watch_rank(const struct gy_net_guard *g, struct guard_watch *w, int rank)
{
#ifdef SYS_pidfd_open
    w->rank = rank;
    w->fd = rank >= 0 ? (int)syscall(SYS_pidfd_open, (pid_t)g->all[rank].pid, 0u) : -1; /* refused: its connection tells */
#else
    (void)g, (void)rank, (void)w;
#endif
}

/* Who is on this host counts on its board, in the order of the ranks, and watches the next one. */
static void guard_neighbours(struct gy_net_guard *g, uint64_t *board)
{
    int local = 0, first = -1, next = -1;
    for (int r = 0; r < g->ranks; r++) {
        if (memcmp(g->all[r].host, g->all[g->rank].host, sizeof g->all[r].host) != 0)
            continue;
        uint64_t *const line = board && local < (int)(GY_NET_BOARD_BYTES / 64) ? board + (size_t)local * GUARD_LINE : NULL;
        struct guard_peer *const peer = r == g->rank || (r > 0 && g->rank > 0) ? NULL : &g->peers[g->rank == 0 ? r - 1 : 0];
        if (peer)
            peer->line = line;
        if (r == g->rank && line)
            g->entered = line;
        first = first < 0 ? r : first;
        next = next < 0 && r > g->rank ? r : next;
        local++;
    }
    next = next < 0 ? first : next;
    g->one_host = local == g->ranks;
    guard_watch_rank(g, &g->watch[0], next != g->rank ? next : -1);
    guard_watch_rank(g, &g->watch[1], first == 0 && next != 0 && g->rank != 0 ? 0 : -1);
}

static int guard_fill(struct gy_net_guard *g, uint64_t *board, struct gy_error *err)
{
    g->peers = gy_alloc_take(&g->alloc, (size_t)g->count, sizeof *g->peers);
    g->polled = gy_alloc_take(&g->alloc, (size_t)g->count + GUARD_WATCHED + 1, sizeof *g->polled);
    g->cut = gy_alloc_take(&g->alloc, (size_t)g->ranks, sizeof *g->cut);
    if (!g->peers || !g->polled || !g->cut)
        return GY_NOMEM(err, "the guard of the ranks", (size_t)g->count * sizeof *g->peers);
    for (int i = 0; i < g->count; i++)
        g->peers[i].rank = g->rank == 0 ? i + 1 : 0;
    guard_neighbours(g, board);
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
    for (int i = 0; i < GUARD_WATCHED; i++)
        if (g->watch[i].fd >= 0)
            close(g->watch[i].fd);
    gy_alloc_free(&alloc, g->peers, (size_t)g->count * sizeof *g->peers);
    gy_alloc_free(&alloc, g->polled, ((size_t)g->count + GUARD_WATCHED + 1) * sizeof *g->polled);
    gy_alloc_free(&alloc, g->cut, (size_t)g->ranks * sizeof *g->cut);
    gy_alloc_free(&alloc, g, sizeof *g);
}

GY_INT int gy_net_guard_open(struct gy_net_guard **out, const struct gy_net_guard_config *c, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_net_guard *g = gy_alloc_take(alloc, 1, sizeof *g);
    if (!g)
        return GY_NOMEM(err, "the guard of the ranks", sizeof *g);
    *g = (struct gy_net_guard){ .alloc = *alloc, .boot = c->boot, .all = c->all, .rank = c->rank, .ranks = c->ranks, .wait_ns = c->wait_ns,
                               .count = c->rank == 0 ? c->ranks - 1 : 1, .wake = {-1, -1}, .watch = {{-1, -1}, {-1, -1}} };
    g->entered = &g->alone;
    const int status = guard_fill(g, c->board, err);
    if (status == GY_OK)
        *out = g;
    else
        guard_free(g);
    return status;
}

static int guard_wake(struct gy_net_guard *g) { return write(g->wake[1], "", 1) == 1; }

GY_INT void gy_net_guard_close(struct gy_net_guard *g)
{
    if (!g)
        return;
    __atomic_store_n(&g->stop, 1, __ATOMIC_RELEASE);
    guard_wake(g);
    pthread_join(g->thread, NULL);
    guard_free(g);
}

GY_INT int gy_net_guard_end(struct gy_net_guard *g, struct gy_error *err)
{
    const struct timespec moment = {0, GUARD_MOMENT_NS};
    __atomic_store_n(&g->through, 1, __ATOMIC_RELEASE);
    guard_wake(g);
    while (!__atomic_load_n(&g->ended, __ATOMIC_ACQUIRE)) {
        gy_net_guard_wait(g);
        GY_TRY(gy_net_guard_lost(g, err));
        nanosleep(&moment, NULL);
    }
    return GY_OK;
}

GY_INT void gy_net_guard_enter(struct gy_net_guard *g)
{
    __atomic_add_fetch(g->entered, 1, __ATOMIC_RELAXED);
}

GY_INT void gy_net_guard_fail(struct gy_net_guard *g)
{
    __atomic_store_n(&g->failed, 1, __ATOMIC_RELEASE);
}

GY_INT void gy_net_guard_tell(struct gy_net_guard *g, const char *text)
{
    if (__atomic_load_n(&g->found, __ATOMIC_RELAXED))
        return;
    gy_text_copy(g->found_text, sizeof g->found_text, text);
    __atomic_store_n(&g->found, 1, __ATOMIC_RELEASE);
    guard_wake(g);
}

GY_INT void gy_net_guard_wait(struct gy_net_guard *g)
{
    __atomic_add_fetch(&g->waits, 1, __ATOMIC_RELAXED);
}

GY_INT void gy_net_guard_cut(struct gy_net_guard *g, int rank)
{
    unsigned char whole = GUARD_WHOLE;
    if (__atomic_compare_exchange_n(&g->cut[rank], &whole, GUARD_CUT_NOW, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        guard_wake(g);
}

GY_INT int gy_net_guard_lost(struct gy_net_guard *g, struct gy_error *err)
{
    if (!__atomic_load_n(&g->lost, __ATOMIC_ACQUIRE))
        return GY_OK;
    return GY_FAIL(err, GY_E_PEER, "%s", g->text);
}
