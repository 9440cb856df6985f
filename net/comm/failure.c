/* SPDX-License-Identifier: MIT */
/* failure.c: the failure detector's thread, one a rank; comm.c opens it. It sleeps in poll until a
 * message, the next sign of life or its end, and then judges who is lost. Its own delay must not
 * count as silence of others: after a pause of this process all waits begin anew. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "net/comm/failure.h"

#define FAILURE_SEND_NS 200000000   /* to hand a message to the system */
#define FAILURE_PAUSE_NS 1000000000 /* a turn that took longer: this process itself stood still */
#define FAILURE_LEAVE_NS 1000000000 /* for farewells to arrive */
/* A connection that ends after so long without a sign of life: its rank stood still. */
#define FAILURE_STILL_NS (GY_NET_SILENT_NS - 2 * GY_NET_BEAT_NS)
#define FAILURE_SILENT "is silent for 2.5 seconds: it stands still or cannot be reached"
#define FAILURE_MOMENT_NS 200000    /* from one check that all are through to the next */
#define FAILURE_AWAY_NS 1000000000  /* a rank away for longer works or hangs: it does not wait */
#define FAILURE_GATHER_NS 1500000000 /* to gather reports of cut paths: systems ask once a second */
#define FAILURE_TEXT 320
#define FAILURE_PAIRS 64            /* of ranks between which no data comes through */
#define FAILURE_WATCHED 2           /* processes of this host: the next rank's, and rank 0's */
#define FAILURE_LINE (64 / sizeof(uint64_t)) /* of the board: a rank's own */

long syscall(long number, ...); /* not declared under strict POSIX */

enum failure_kind {
    FAILURE_BEAT, FAILURE_BYE, FAILURE_LOST, FAILURE_DEAD, FAILURE_THROUGH, FAILURE_FOUND,
    FAILURE_CUT,
    FAILURE_SPARED /* rank is lost, and the job goes on; text says how */
};
struct failure_message {
    uint64_t entered;
    int64_t away;              /* ns since the rank's own thread last began a sum or a wait */
    int32_t kind, rank;        /* FAILURE_DEAD, FAILURE_SPARED: who is gone; FAILURE_CUT: whom no
                                * data reaches; FAILURE_BYE: not 0 after a failure in a sum */
    char text[FAILURE_TEXT];     /* FAILURE_LOST, FAILURE_FOUND, FAILURE_SPARED */
};
enum failure_state { FAILURE_HERE, FAILURE_LEFT, FAILURE_FORGOTTEN /* lost, and spared */ };
/* A rank that may be lost. */
struct failure_spare {
    int gone;                  /* atomic; text is written before */
    char text[FAILURE_TEXT];
};
struct failure_peer {
    int rank, state, through;  /* through: it said so; of rank 0: all are */
    uint64_t entered;          /* as it said last */
    const uint64_t *line;      /* its count on the board; NULL: on another host */
    int64_t seen, away;        /* away: as it said last */
};
struct failure_pair {
    int one, other;
};
struct failure_watch {
    int rank, fd;              /* -1: nobody, or no longer */
};
struct gy_net_failure {
    struct gy_alloc alloc;
    struct gy_net_boot *boot;
    const struct gy_net_identity *all;
    struct failure_peer *peers;  /* rank 0: [ranks - 1]; others: rank 0 */
    struct pollfd *polled;     /* [count + FAILURE_WATCHED + 1], the last one wakes */
    struct failure_watch watch[FAILURE_WATCHED];
    int rank, ranks, count, one_host, wake[2];
    pthread_t thread;
    uint64_t alone, *entered;  /* this rank's count: on the board, or alone */
    uint64_t waits;            /* grows while this rank's own thread waits (atomic) */
    uint64_t last_entered, last_waits; /* both as the detector saw them last */
    int64_t wait_ns, active;   /* active: when one of them changed last */
    uint64_t all_entered;      /* rank 0: sums that ranks have begun, added up */
    int64_t quiet;             /* when that changed last, or no rank waited */
    unsigned char *cut;        /* [ranks], enum failure_cut (atomic) */
    struct failure_pair pair[FAILURE_PAIRS]; /* rank 0: reported; first_pair: since when */
    int pairs;
    int64_t first_pair;
    int lost, stop, failed;    /* atomic; text is written before lost */
    struct gy_net_beat *beat;  /* atomic; NULL: nobody asked */
    int through, told, ended;  /* this rank is (atomic); has said so; all are (atomic) */
    int found, found_told;     /* found what ends the job (atomic; found_text first); has said so */
    char text[FAILURE_TEXT], found_text[FAILURE_TEXT];
    struct failure_spare *spare; /* [ranks] */
    int firm, spares;          /* spares: they may be lost by now (atomic) */
};

enum failure_cut { FAILURE_WHOLE, FAILURE_CUT_NOW, FAILURE_CUT_TOLD };

static uint64_t failure_entered(struct gy_net_failure *g)
{
    return __atomic_load_n(g->entered, __ATOMIC_RELAXED);
}

/* Ignores a broken connection: reading notices it. */
static void failure_send(struct gy_net_failure *g, const struct failure_peer *peer, int kind, int rank)
{
    struct failure_message m = { .entered = failure_entered(g), .away = gy_clock_ns() - g->active, .kind = kind, .rank = rank };
    if (kind == FAILURE_LOST || kind == FAILURE_FOUND)
        memcpy(m.text, kind == FAILURE_LOST ? g->text : g->found_text, sizeof m.text);
    if (peer->state == FAILURE_HERE && gy_net_boot_socket(g->boot, peer->rank) >= 0)
        gy_net_boot_send(g->boot, peer->rank, &m, sizeof m, gy_clock_ns() + FAILURE_SEND_NS, NULL);
}

static void failure_send_all(struct gy_net_failure *g, int kind)
{
    for (int i = 0; i < g->count; i++)
        failure_send(g, &g->peers[i], kind, 0);
}

/* ---- verdicts ---- */

/* The sums that a rank was seen to have begun. */
static uint64_t failure_peer_entered(const struct failure_peer *peer)
{
    const uint64_t now = peer->line ? __atomic_load_n(peer->line, __ATOMIC_RELAXED) : 0;
    return now > peer->entered ? now : peer->entered;
}

/* The most of all ranks. */
static uint64_t failure_most(struct gy_net_failure *g)
{
    uint64_t most = failure_entered(g);
    for (int i = 0; i < g->count; i++) {
        const uint64_t entered = failure_peer_entered(&g->peers[i]);
        most = entered > most ? entered : most;
    }
    return most;
}

static void failure_decide(struct gy_net_failure *g, const char *text)
{
    if (g->lost)
        return;
    gy_text_copy(g->text, sizeof g->text, text);
    __atomic_store_n(&g->lost, 1, __ATOMIC_RELEASE);
    if (g->rank == 0)
        failure_send_all(g, FAILURE_LOST);
}

/* Forgets all that was heard of a rank that may be lost. */
static void failure_forget(struct gy_net_failure *g, int rank, const char *text)
{
    struct failure_spare *const spare = &g->spare[rank];
    int kept = 0;
    gy_text_copy(spare->text, sizeof spare->text, text);
    __atomic_store_n(&spare->gone, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < g->pairs; i++)
        if (g->pair[i].one != rank && g->pair[i].other != rank)
            g->pair[kept++] = g->pair[i];
    g->pairs = kept;
}

static int failure_is_firm(const struct gy_net_failure *g, int rank)
{
    return g->firm < 1 || rank < g->firm || rank >= g->ranks;
}

/* Rank 0: may the job go on without it? All are told. */
static int failure_spares(struct gy_net_failure *g, int rank, const char *text)
{
    struct failure_message m = { .kind = FAILURE_SPARED, .rank = rank };
    const int now = __atomic_load_n(&g->spares, __ATOMIC_ACQUIRE);
    if (g->rank != 0 || failure_is_firm(g, rank) || !now)
        return 0;
    failure_forget(g, rank, text);
    g->peers[rank - 1].state = FAILURE_FORGOTTEN;
    g->peers[rank - 1].through = 1;
    gy_net_boot_drop(g->boot, rank);
    gy_text_copy(m.text, sizeof m.text, text);
    m.entered = failure_entered(g);
    for (int i = 0; i < g->count; i++)
        if (g->peers[i].state == FAILURE_HERE && gy_net_boot_socket(g->boot, g->peers[i].rank) >= 0)
            gy_net_boot_send(g->boot, g->peers[i].rank, &m, sizeof m,
                             gy_clock_ns() + FAILURE_SEND_NS, NULL);
    return 1;
}

/* Without rank 0, ranks say only what all see alike: on one host, the counts on the board. */
static void failure_blame(struct gy_net_failure *g, const struct failure_peer *peer, const char *how)
{
    char text[FAILURE_TEXT], sum[64] = "", seen[48] = "";
    const struct gy_net_identity *who = &g->all[peer->rank];
    if (g->rank == 0 || (g->one_host && peer->line))
        snprintf(sum, sizeof sum, "; it has not entered sum %" PRIu64, failure_peer_entered(peer) + 1);
    if (g->rank == 0)
        snprintf(seen, sizeof seen, ", last seen %.1f s ago", (double)(gy_clock_ns() - peer->seen) * 1e-9);
    snprintf(text, sizeof text, "rank %d on %.63s (process %" PRId32 ") %s%s%s", peer->rank, who->name, who->pid, how, sum, seen);
    if (!failure_spares(g, peer->rank, text))
        failure_decide(g, text);
}

/* Rank 0 of itself or of another. */
static void failure_blame_rank(struct gy_net_failure *g, int rank, const char *how)
{
    const struct failure_peer self = { .rank = 0, .entered = failure_entered(g), .seen = gy_clock_ns() };
    failure_blame(g, rank == 0 ? &self : &g->peers[rank - 1], how);
}

/* ---- late, or hanging ---- */

/* What this rank's own thread did since the last look. */
static void failure_see_own(struct gy_net_failure *g, int64_t now)
{
    const uint64_t entered = failure_entered(g), waits = __atomic_load_n(&g->waits, __ATOMIC_RELAXED);
    if (entered != g->last_entered || waits != g->last_waits)
        g->active = now;
    g->last_entered = entered;
    g->last_waits = waits;
}

/* Some rank waits, and for wait_ns none has begun a sum: blames the rank that was away longest. */
static void failure_judge_late(struct gy_net_failure *g, int64_t now)
{
    int64_t longest = now - g->active, shortest = longest;
    uint64_t entered = failure_entered(g);
    int who = 0;
    char how[120];
    for (int i = 0; i < g->count; i++) {
        const struct failure_peer *peer = &g->peers[i];
        entered += failure_peer_entered(peer);
        if (peer->state != FAILURE_HERE)
            continue;
        shortest = gy_min64(shortest, peer->away);
        who = peer->away > longest ? peer->rank : who;
        longest = gy_max64(longest, peer->away);
    }
    if (shortest > FAILURE_AWAY_NS || entered != g->all_entered) {
        g->all_entered = entered;
        g->quiet = now;
    }
    if (g->lost || g->wait_ns == 0 || now - g->quiet < g->wait_ns)
        return;
    const double seconds = (double)g->wait_ns * 1e-9;
    snprintf(how, sizeof how, "lives, but others have waited for it for %.1f s", seconds);
    if (longest > FAILURE_AWAY_NS) {
        failure_blame_rank(g, who, how);
        return;
    }
    snprintf(how, sizeof how, "all ranks have waited for %.1f s in sums that do not end: they do not do the same", seconds);
    failure_decide(g, how);
}

/* ---- cut paths ---- */

static void failure_add_pair(struct gy_net_failure *g, int one, int other)
{
    const struct failure_pair pair = {one < other ? one : other, one < other ? other : one};
    for (int i = 0; i < g->pairs; i++)
        if (g->pair[i].one == pair.one && g->pair[i].other == pair.other)
            return;
    if (g->pairs == 0)
        g->first_pair = gy_clock_ns();
    if (gy_net_failure_spared(g, one, NULL) || gy_net_failure_spared(g, other, NULL))
        return;
    if (g->pairs < FAILURE_PAIRS && one != other)
        g->pair[g->pairs++] = pair;
}

/* What this rank's own thread found goes to rank 0. */
static void failure_tell_cuts(struct gy_net_failure *g)
{
    for (int r = 0; r < g->ranks; r++) {
        if (__atomic_load_n(&g->cut[r], __ATOMIC_ACQUIRE) != FAILURE_CUT_NOW)
            continue;
        __atomic_store_n(&g->cut[r], FAILURE_CUT_TOLD, __ATOMIC_RELAXED);
        if (g->rank == 0)
            failure_add_pair(g, 0, r);
        else
            failure_send(g, &g->peers[0], FAILURE_CUT, r);
    }
}

static int failure_count_pairs(const struct gy_net_failure *g, int rank)
{
    int count = 0;
    for (int i = 0; i < g->pairs; i++)
        count += g->pair[i].one == rank || g->pair[i].other == rank;
    return count;
}

/* A rank that cannot be reached at all is silent soon, and lost for that. */
static void failure_judge_cuts(struct gy_net_failure *g, int64_t now)
{
    int most = 0, who = -1;
    char text[FAILURE_TEXT];
    if (g->lost || g->pairs == 0 || now - g->first_pair < FAILURE_GATHER_NS)
        return;
    for (int r = 0; r < g->ranks; r++) {
        const int count = failure_count_pairs(g, r);
        who = count > most ? r : who;
        most = count > most ? count : most;
        if (count > 0 && r > 0 && now - g->peers[r - 1].seen > FAILURE_AWAY_NS)
            return;
    }
    if (most > 1) {
        failure_blame_rank(g, who, "lives, but no data comes through to it or from it");
        return;
    }
    const struct gy_net_identity *const one = &g->all[g->pair[0].one], *const other = &g->all[g->pair[0].other];
    snprintf(text, sizeof text, "no data comes through between rank %d on %.40s (process %" PRId32 ") and rank %d on %.40s (process %" PRId32
             "), which both live", g->pair[0].one, one->name, one->pid, g->pair[0].other, other->name, other->pid);
    failure_decide(g, text);
}

/* A peer that has left was needed: before all were through a sum began without it, or it had not
 * said that it was through. Servers of parameters begin fewer sums than workers. */
static int failure_left_early(struct gy_net_failure *g, const struct failure_peer *peer)
{
    const int waited = !peer->through && __atomic_load_n(&g->through, __ATOMIC_ACQUIRE);
    return !__atomic_load_n(&g->ended, __ATOMIC_ACQUIRE) &&
           (waited || failure_most(g) > failure_peer_entered(peer));
}

static void failure_judge(struct gy_net_failure *g, int64_t now)
{
    for (int i = 0; i < g->count && !g->lost; i++) {
        const struct failure_peer *peer = &g->peers[i];
        if (peer->state == FAILURE_HERE && now - peer->seen > GY_NET_SILENT_NS)
            failure_blame(g, peer, FAILURE_SILENT);
        else if (peer->state == FAILURE_LEFT && failure_left_early(g, peer))
            failure_blame(g, peer, "has left the job");
    }
}

/* ---- messages ---- */

/* Whoever notices a silent rank first may end it: that end, too, is reported as silence. */
static void failure_end(struct gy_net_failure *g, struct failure_peer *peer, const char *how)
{
    gy_net_boot_drop(g->boot, peer->rank);
    peer->state = FAILURE_LEFT;
    failure_blame(g, peer, gy_clock_ns() - peer->seen > FAILURE_STILL_NS ? FAILURE_SILENT : how);
}

/* 1: a message is there, 0: none, -1: the connection has ended. */
static int failure_look(const struct gy_net_failure *g, const struct failure_peer *peer)
{
    char first;
    const ssize_t n = recv(gy_net_boot_socket(g->boot, peer->rank), &first, 1, MSG_PEEK);
    return n > 0 ? 1 : n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : -1;
}

/* A rank's process is gone, perhaps after a farewell: rank 0 decides, or whoever loses rank 0. */
static void failure_dead(struct gy_net_failure *g, int rank);

/* Rank 0 hears it of all, then tells all. */
static void failure_tell_through(struct gy_net_failure *g)
{
    int others = 1;
    for (int i = 0; i < g->count; i++)
        others = others && g->peers[i].through;
    if (!g->told && __atomic_load_n(&g->through, __ATOMIC_ACQUIRE) && (g->rank > 0 || others)) {
        failure_send_all(g, FAILURE_THROUGH);
        g->told = 1;
    }
    if (g->told && others)
        __atomic_store_n(&g->ended, 1, __ATOMIC_RELEASE);
}

static void failure_take(struct gy_net_failure *g, struct failure_peer *peer)
{
    struct failure_message m;
    if (gy_net_boot_take(g->boot, peer->rank, &m, sizeof m, gy_clock_ns() + FAILURE_PAUSE_NS, NULL) != GY_OK) {
        failure_end(g, peer, "breaks off in the middle of a message");
        return;
    }
    m.text[sizeof m.text - 1] = 0;
    peer->seen = gy_clock_ns();
    peer->away = m.away;
    peer->entered = m.entered > peer->entered ? m.entered : peer->entered;
    peer->through |= m.kind == FAILURE_THROUGH;
    failure_tell_through(g); /* before what follows it is judged */
    if (m.kind == FAILURE_LOST && g->rank > 0)
        failure_decide(g, m.text);
    if (m.kind == FAILURE_SPARED && g->rank > 0 && !failure_is_firm(g, m.rank))
        failure_forget(g, m.rank, m.text);
    if (m.kind == FAILURE_FOUND && g->rank == 0)
        failure_decide(g, m.text);
    if (m.kind == FAILURE_DEAD && g->rank == 0 && m.rank > 0 && m.rank < g->ranks)
        failure_dead(g, m.rank);
    if (m.kind == FAILURE_CUT && g->rank == 0 && m.rank >= 0 && m.rank < g->ranks)
        failure_add_pair(g, peer->rank, m.rank);
    if (m.kind == FAILURE_BYE) {
        gy_net_boot_drop(g->boot, peer->rank);
        peer->state = FAILURE_LEFT;
        if (m.rank != 0)
            failure_blame(g, peer, "has failed in a sum and left the job");
    }
}

static void failure_read(struct gy_net_failure *g, struct failure_peer *peer)
{
    const int there = failure_look(g, peer);
    if (there > 0)
        failure_take(g, peer);
    else if (there < 0)
        failure_end(g, peer, "has ended");
}

static void failure_dead(struct gy_net_failure *g, int rank)
{
    struct failure_peer *const peer = &g->peers[g->rank == 0 ? rank - 1 : 0];
    if (peer->rank != rank) {
        failure_send(g, peer, FAILURE_DEAD, rank);
        return;
    }
    while (peer->state == FAILURE_HERE && failure_look(g, peer) > 0)
        failure_take(g, peer);
    if (peer->state == FAILURE_HERE)
        failure_end(g, peer, "has ended");
}

static void failure_gone(struct gy_net_failure *g, struct failure_watch *w)
{
    close(w->fd);
    w->fd = -1;
    failure_dead(g, w->rank);
}

static void failure_poll(struct gy_net_failure *g, int64_t until)
{
    const int64_t left = until - gy_clock_ns();
    struct pollfd *const watched = g->polled + g->count;
    for (int i = 0; i < g->count; i++)
        g->polled[i] = (struct pollfd){ .fd = g->peers[i].state == FAILURE_HERE ? gy_net_boot_socket(g->boot, g->peers[i].rank) : -1, .events = POLLIN };
    for (int i = 0; i < FAILURE_WATCHED; i++)
        watched[i] = (struct pollfd){ .fd = g->watch[i].fd, .events = POLLIN };
    watched[FAILURE_WATCHED] = (struct pollfd){ .fd = g->wake[0], .events = POLLIN };
    if (poll(g->polled, (nfds_t)(g->count + FAILURE_WATCHED + 1), left <= 0 ? 0 : (int)(left / 1000000) + 1) <= 0)
        return;
    for (int i = 0; i < g->count; i++)
        if (g->polled[i].revents != 0 && g->peers[i].state == FAILURE_HERE)
            failure_read(g, &g->peers[i]);
    for (int i = 0; i < FAILURE_WATCHED; i++)
        if (watched[i].revents != 0)
            failure_gone(g, &g->watch[i]);
    if (watched[FAILURE_WATCHED].revents != 0 && read(g->wake[0], &(char){0}, 1) < 0)
        return;
}

/* Rank 0 decides: it may know of a loss that came before. */
static void failure_tell_found(struct gy_net_failure *g)
{
    if (g->found_told || !__atomic_load_n(&g->found, __ATOMIC_ACQUIRE))
        return;
    g->found_told = 1;
    if (g->rank == 0)
        failure_decide(g, g->found_text);
    else
        failure_send(g, &g->peers[0], FAILURE_FOUND, 0);
}

static void failure_begin_anew(struct gy_net_failure *g, int64_t now)
{
    for (int i = 0; i < g->count; i++)
        g->peers[i].seen = now;
}

/* A farewell must be read before the connection ends: whoever gets it ends the connection. */
static void failure_leave(struct gy_net_failure *g)
{
    const int64_t deadline = gy_clock_ns() + FAILURE_LEAVE_NS;
    int left = 0;
    for (int i = 0; i < g->count; i++)
        failure_send(g, &g->peers[i], FAILURE_BYE, __atomic_load_n(&g->failed, __ATOMIC_ACQUIRE));
    for (int i = 0; i < g->count; i++) {
        const int fd = g->peers[i].state == FAILURE_HERE ? gy_net_boot_socket(g->boot, g->peers[i].rank) : -1;
        if (fd >= 0)
            left += shutdown(fd, SHUT_WR) == 0;
    }
    __atomic_store_n(&g->lost, 1, __ATOMIC_RELEASE); /* nobody is blamed any more */
    while (left > 0 && gy_clock_ns() < deadline) {
        failure_poll(g, gy_min64(deadline, gy_clock_ns() + 20000000));
        left = 0;
        for (int i = 0; i < g->count; i++)
            left += g->peers[i].state == FAILURE_HERE;
    }
}

static void failure_beat(struct gy_net_failure *g, int64_t now)
{
    struct gy_net_beat *const beat = __atomic_load_n(&g->beat, __ATOMIC_ACQUIRE);
    if (!beat)
        return;
    if (now - beat->last > beat->gap) {
        beat->gap = now - beat->last;
        beat->gap_at = now;
    }
    beat->last = now;
}

static void *failure_thread(void *user)
{
    struct gy_net_failure *g = user;
    int64_t beat = gy_clock_ns(), turn = beat;
    g->active = g->quiet = beat;
    failure_begin_anew(g, beat);
    while (!__atomic_load_n(&g->stop, __ATOMIC_ACQUIRE)) {
        int64_t now = gy_clock_ns();
        if (now >= beat) {
            failure_send_all(g, FAILURE_BEAT);
            beat = now + GY_NET_BEAT_NS;
        }
        failure_poll(g, beat);
        now = gy_clock_ns();
        if (now - turn > FAILURE_PAUSE_NS + GY_NET_BEAT_NS)
            failure_begin_anew(g, now);
        turn = now;
        failure_beat(g, now);
        failure_see_own(g, now);
        failure_tell_cuts(g);
        failure_tell_through(g);
        failure_tell_found(g);
        failure_judge(g, now);
        if (g->rank == 0) {
            failure_judge_late(g, now);
            failure_judge_cuts(g, now);
        }
    }
    if (!g->lost)
        failure_leave(g);
    return NULL;
}

/* ---- open and close ---- */

/* Where the system refuses to watch a process, the end of its connection tells. */
static void failure_watch_rank(const struct gy_net_failure *g, struct failure_watch *w, int rank)
{
#ifdef SYS_pidfd_open
    w->rank = rank;
    w->fd = rank >= 0 ? (int)syscall(SYS_pidfd_open, (pid_t)g->all[rank].pid, 0u) : -1;
#else
    (void)g, (void)rank, (void)w;
#endif
}

/* Who is on this host counts on its board, in the order of the ranks, and watches the next one. */
static void failure_neighbours(struct gy_net_failure *g, uint64_t *board)
{
    int local = 0, first = -1, next = -1;
    for (int r = 0; r < g->ranks; r++) {
        if (memcmp(g->all[r].host, g->all[g->rank].host, sizeof g->all[r].host) != 0)
            continue;
        uint64_t *const line = board && local < (int)(GY_NET_BOARD_BYTES / 64) ? board + (size_t)local * FAILURE_LINE : NULL;
        struct failure_peer *const peer = r == g->rank || (r > 0 && g->rank > 0) ? NULL : &g->peers[g->rank == 0 ? r - 1 : 0];
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
    failure_watch_rank(g, &g->watch[0], next != g->rank ? next : -1);
    failure_watch_rank(g, &g->watch[1], first == 0 && next != 0 && g->rank != 0 ? 0 : -1);
}

static int failure_fill(struct gy_net_failure *g, uint64_t *board, struct gy_error *err)
{
    g->peers = gy_alloc_take(&g->alloc, (size_t)g->count, sizeof *g->peers);
    g->polled = gy_alloc_take(&g->alloc, (size_t)g->count + FAILURE_WATCHED + 1, sizeof *g->polled);
    g->cut = gy_alloc_take(&g->alloc, (size_t)g->ranks, sizeof *g->cut);
    g->spare = gy_alloc_take(&g->alloc, (size_t)g->ranks, sizeof *g->spare);
    if (!g->peers || !g->polled || !g->cut || !g->spare)
        return GY_NOMEM(err, "the guard of the ranks", (size_t)g->count * sizeof *g->peers);
    for (int i = 0; i < g->count; i++)
        g->peers[i].rank = g->rank == 0 ? i + 1 : 0;
    failure_neighbours(g, board);
    if (pipe(g->wake) != 0)
        return GY_FAIL(err, GY_E_IO, "the guard of the ranks gets no pipe: %s", strerror(errno));
    fcntl(g->wake[0], F_SETFD, FD_CLOEXEC);
    fcntl(g->wake[1], F_SETFD, FD_CLOEXEC);
    const int problem = pthread_create(&g->thread, NULL, failure_thread, g);
    return problem == 0 ? GY_OK : GY_FAIL(err, GY_E_NOMEM, "the guard of the ranks gets no thread: %s", strerror(problem));
}

static void failure_free(struct gy_net_failure *g)
{
    const struct gy_alloc alloc = g->alloc;
    for (int i = 0; i < 2; i++)
        if (g->wake[i] >= 0)
            close(g->wake[i]);
    for (int i = 0; i < FAILURE_WATCHED; i++)
        if (g->watch[i].fd >= 0)
            close(g->watch[i].fd);
    gy_alloc_free(&alloc, g->peers, (size_t)g->count * sizeof *g->peers);
    gy_alloc_free(&alloc, g->polled, ((size_t)g->count + FAILURE_WATCHED + 1) * sizeof *g->polled);
    gy_alloc_free(&alloc, g->cut, (size_t)g->ranks * sizeof *g->cut);
    gy_alloc_free(&alloc, g->spare, (size_t)g->ranks * sizeof *g->spare);
    gy_alloc_free(&alloc, g, sizeof *g);
}

GY_INT int gy_net_failure_open(struct gy_net_failure **out, const struct gy_net_failure_config *c, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_net_failure *g = gy_alloc_take(alloc, 1, sizeof *g);
    if (!g)
        return GY_NOMEM(err, "the guard of the ranks", sizeof *g);
    *g = (struct gy_net_failure){ .alloc = *alloc, .boot = c->boot, .all = c->all, .rank = c->rank, .ranks = c->ranks, .wait_ns = c->wait_ns,
                                 .firm = c->firm,
                                 .count = c->rank == 0 ? c->ranks - 1 : 1, .wake = {-1, -1}, .watch = {{-1, -1}, {-1, -1}} };
    g->entered = &g->alone;
    const int status = failure_fill(g, c->board, err);
    if (status == GY_OK)
        *out = g;
    else
        failure_free(g);
    return status;
}

static int failure_wake(struct gy_net_failure *g) { return write(g->wake[1], "", 1) == 1; }

GY_INT void gy_net_failure_close(struct gy_net_failure *g)
{
    if (!g)
        return;
    __atomic_store_n(&g->stop, 1, __ATOMIC_RELEASE);
    failure_wake(g);
    pthread_join(g->thread, NULL);
    failure_free(g);
}

GY_INT int gy_net_failure_end(struct gy_net_failure *g, struct gy_error *err)
{
    const struct timespec moment = {0, FAILURE_MOMENT_NS};
    if (!__atomic_load_n(&g->ended, __ATOMIC_ACQUIRE)) /* a job that failed has no good end */
        GY_TRY(gy_net_failure_lost(g, err));
    __atomic_store_n(&g->through, 1, __ATOMIC_RELEASE);
    failure_wake(g);
    while (!__atomic_load_n(&g->ended, __ATOMIC_ACQUIRE)) {
        gy_net_failure_wait(g);
        const int status = gy_net_failure_lost(g, err);
        if (status != GY_OK) /* whoever left when all were through is not lost */
            return __atomic_load_n(&g->ended, __ATOMIC_ACQUIRE) ? GY_OK : status;
        nanosleep(&moment, NULL);
    }
    return GY_OK;
}

GY_INT void gy_net_failure_enter(struct gy_net_failure *g)
{
    __atomic_add_fetch(g->entered, 1, __ATOMIC_RELAXED);
}

GY_INT void gy_net_failure_fail(struct gy_net_failure *g)
{
    __atomic_store_n(&g->failed, 1, __ATOMIC_RELEASE);
}

GY_INT void gy_net_failure_tell(struct gy_net_failure *g, const char *text)
{
    if (__atomic_load_n(&g->found, __ATOMIC_RELAXED))
        return;
    gy_text_copy(g->found_text, sizeof g->found_text, text);
    __atomic_store_n(&g->found, 1, __ATOMIC_RELEASE);
    failure_wake(g);
}

GY_INT void gy_net_failure_wait(struct gy_net_failure *g)
{
    __atomic_add_fetch(&g->waits, 1, __ATOMIC_RELAXED);
}

GY_INT void gy_net_failure_cut(struct gy_net_failure *g, int rank)
{
    unsigned char whole = FAILURE_WHOLE;
    if (__atomic_compare_exchange_n(&g->cut[rank], &whole, FAILURE_CUT_NOW, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        failure_wake(g);
}

GY_INT int gy_net_failure_is_cut(const struct gy_net_failure *g, int rank)
{
    return __atomic_load_n(&g->cut[rank], __ATOMIC_RELAXED) != FAILURE_WHOLE;
}

GY_INT void gy_net_failure_beat(struct gy_net_failure *g, struct gy_net_beat *beat)
{
    __atomic_store_n(&g->beat, beat, __ATOMIC_RELEASE);
}

GY_INT void gy_net_failure_spare(struct gy_net_failure *g)
{
    __atomic_store_n(&g->spares, 1, __ATOMIC_RELEASE);
}

GY_INT int gy_net_failure_spared(const struct gy_net_failure *g, int rank, const char **text)
{
    if (failure_is_firm(g, rank) || !__atomic_load_n(&g->spare[rank].gone, __ATOMIC_ACQUIRE))
        return 0;
    if (text)
        *text = g->spare[rank].text;
    return 1;
}

GY_INT int gy_net_failure_lost(struct gy_net_failure *g, struct gy_error *err)
{
    if (!__atomic_load_n(&g->lost, __ATOMIC_ACQUIRE))
        return GY_OK;
    return GY_FAIL(err, GY_E_PEER, "%s", g->text);
}
