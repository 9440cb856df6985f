/* SPDX-License-Identifier: MIT */
/* t_liveness.c: alive, late and lost ranks are told apart. A seed draws schedules: two to four
 * ranks, each a host of its own, sum over TCP; some are late. At one sum a victim is killed,
 * stopped, left hanging by its own thread, or leaves. Or its data is cut off while its control goes
 * on. An oracle says who must be named, and when. All that are left name it with the same sentence.
 * Where no rank is lost all sums must be right.
 *
 *     t_liveness [--cases N] [--seed S]   at random, N of the kinds in turn; else the first four
 *     t_liveness --late SECONDS           rank 0 comes to its first sum SECONDS later than anybody
 *                                         waits for a connection
 *     t_liveness --hang SECONDS           the cost of a rank that hangs for ever, for such a wait
 *     t_liveness --flood JOBS             strangers call the data ports of jobs without pause
 *
 * A path is cut by a filter on this side's sockets that lets nothing in, as a firewall that drops;
 * so no rights are needed. */
#include <asm/socket.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/gyre_job.h"
#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/gyre.h"
#include "net/transport/ports.h"
#include "net/transport/socket.h"
#include "tests/t.h"

#define TL_RANKS 4
#define TL_SUMS 6
#define TL_COUNT 3000
#define TL_AT_ONCE 4 /* cases */
#define TL_FILES 512

enum tl_event { TL_NONE, TL_HANGS, TL_CUT, TL_CUT_PAIR, TL_KILLED, TL_STOPPED, TL_HANGS_INSIDE, TL_LEAVES, TL_EVENTS };
static const struct tl_kind {
    const char *name, *words; /* in the sentence */
    /* seconds from the event until all ranks report it, without the time that ranks wait */
    double most;
    int waits;
} tl_kinds[TL_EVENTS] = {
    [TL_NONE] = {"nobody is lost", "", 0, 0},
    [TL_KILLED] = {"killed", "has ended", 2, 0},
    [TL_STOPPED] = {"stopped", "is silent", 5, 0},
    [TL_HANGS] = {"hangs", "lives, but others have waited for it", 2, 1},
    [TL_HANGS_INSIDE] = {"hangs in a sum", "lives, but others have waited for it", 2, 1},
    [TL_LEAVES] = {"leaves", "has left the job", 2, 0},
    [TL_CUT] = {"cut off", "lives, but no data comes through to it or from it", 5, 0},
    [TL_CUT_PAIR] = {"cut off from one", "no data comes through between", 5, 0},
};
struct tl_case {
    int number, ranks, event, victim, other, sum; /* other: the rank from which it is cut off */
    double wait, late[TL_RANKS]; /* seconds; each rank's before the sum of the event */
};
/* In memory of all processes: what a rank left. */
struct tl_left {
    int status, right, done;
    pid_t pid;
    int64_t ended;
    char text[480];
};
struct tl_shared {
    struct gy_net_ports ports[TL_RANKS];
    int opened, pair; /* pair: the port of the higher one's end of what is cut */
    int64_t happened; /* when the event did */
    struct tl_left left[TL_RANKS];
};

static void tl_sleep(double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&time, NULL);
}

static void *tl_memory(size_t bytes)
{
    FILE *const file = tmpfile();
    void *const at = file && ftruncate(fileno(file), (off_t)bytes) == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0)
                                                                                : MAP_FAILED;
    if (at == MAP_FAILED) {
        puts("no memory that processes share");
        exit(1);
    }
    fclose(file);
    return at;
}

/* ---- cases ---- */

static uint32_t tl_draw(uint64_t seed, int number, uint64_t what, uint32_t below)
{
    uint32_t words[4];
    gy_rng_words(seed, 0x746c, (uint64_t)number, what, words);
    return words[0] % below;
}

static struct tl_case tl_make(uint64_t seed, int number, int event)
{
    struct tl_case c = { .number = number, .event = event, .wait = tl_kinds[event].waits ? 2.5 : 30 };
    c.ranks = 2 + (int)tl_draw(seed, number, 1, TL_RANKS - 1);
    const int cut = event == TL_CUT || event == TL_CUT_PAIR;
    c.ranks = cut && c.ranks == 2 ? 3 : c.ranks;
    c.victim = (int)tl_draw(seed, number, 2, (uint32_t)c.ranks);
    c.other = (c.victim + 1) % c.ranks; /* in a ring they talk */
    c.sum = (int)tl_draw(seed, number, 3, TL_SUMS - 1);
    /* before the first sum only the called rank has a socket */
    if (cut && c.sum == 0 && (event == TL_CUT_PAIR || c.victim > 0))
        c.sum = 1;
    for (int r = 0; r < c.ranks; r++)
        c.late[r] = tl_draw(seed, number, 10 + (uint64_t)r, 3) == 0 ? tl_draw(seed, number, 20 + (uint64_t)r, 1000) / 1000.0 : 0;
    return c;
}

/* ---- a cut ---- */

static int tl_has(const struct gy_net_ports *ports, int port)
{
    for (int i = 0; i < ports->count; i++)
        if (ports->port[i] == port)
            return 1;
    return 0;
}

/* 1: the socket is of this rank's data: it listens, was called, or has called a lower rank. */
static int tl_is_data(const struct tl_shared *shared, int rank, int fd)
{
    struct gy_net_endpoint own, peer;
    if (gy_net_endpoint_own(fd, &own) != 0)
        return 0;
    int is = tl_has(&shared->ports[rank], gy_net_endpoint_port(&own));
    for (int r = 0; r < rank && !is && gy_net_endpoint_peer(fd, &peer) == 0; r++)
        is = tl_has(&shared->ports[r], gy_net_endpoint_port(&peer));
    return is;
}

/* 1: fd is the pair's connection. The higher rank knows it by the lower one's port. It publishes
 * its own port, by which the lower rank knows it. */
static int tl_is_pair(struct tl_shared *shared, int rank, int other, int fd)
{
    struct gy_net_endpoint own, peer;
    if (gy_net_endpoint_own(fd, &own) != 0 || gy_net_endpoint_peer(fd, &peer) != 0)
        return 0;
    if (rank < other)
        return gy_net_endpoint_port(&peer) == __atomic_load_n(&shared->pair, __ATOMIC_ACQUIRE);
    if (!tl_has(&shared->ports[other], gy_net_endpoint_port(&peer)))
        return 0;
    __atomic_store_n(&shared->pair, gy_net_endpoint_port(&own), __ATOMIC_RELEASE);
    return 1;
}

/* other: from whom; -1: from all. */
static void tl_cut(struct tl_shared *shared, int rank, int other)
{
    struct sock_filter nothing = { .code = BPF_RET | BPF_K, .k = 0 };
    const struct sock_fprog filter = { .len = 1, .filter = &nothing };
    while (rank < other && __atomic_load_n(&shared->pair, __ATOMIC_ACQUIRE) == 0)
        tl_sleep(0.001);
    for (int fd = 3; fd < TL_FILES; fd++)
        if (other < 0 ? tl_is_data(shared, rank, fd) : tl_is_pair(shared, rank, other, fd))
            setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

/* ---- a rank ---- */

static void tl_happens(const struct tl_case *c, struct tl_shared *shared, int rank)
{
    const int pair = c->event == TL_CUT_PAIR && (rank == c->victim || rank == c->other);
    if (rank != c->victim && !pair)
        return;
    shared->happened = gy_clock_ns();
    if (pair)
        tl_cut(shared, rank, c->victim + c->other - rank);
    if (c->event == TL_KILLED)
        raise(SIGKILL);
    if (c->event == TL_STOPPED)
        raise(SIGSTOP);
    if (c->event == TL_HANGS)
        pause();
    if (c->event == TL_CUT)
        tl_cut(shared, rank, -1);
}

static int tl_sum(const struct tl_case *c, struct gyre_job *job, float *data, int number, int begins, struct gyre_error *error)
{
    const int rank = gyre_job_rank(job);
    int64_t ticket;
    for (int i = 0; i < TL_COUNT; i++)
        data[i] = (float)((rank + 1) * (number + 1) + i % 7);
    const int status = begins ? gyre_job_sum_start(job, data, TL_COUNT, &ticket, error) : gyre_job_sum(job, data, TL_COUNT, error);
    if (begins && c->event == TL_HANGS_INSIDE && rank == c->victim && number == c->sum)
        pause();
    return status == GYRE_OK && begins ? gyre_job_sum_wait(job, ticket, error) : status;
}

static int tl_right(const struct tl_case *c, const float *data, int number)
{
    for (int i = 0; i < TL_COUNT; i++)
        if (data[i] != (float)(c->ranks * (c->ranks + 1) / 2 * (number + 1) + c->ranks * (i % 7)))
            return 0;
    return 1;
}

/* Called before sum number k. Taking memory does sums of its own; the event of sum 0 comes before
 * them. 1: this rank leaves. */
static int tl_before(const struct tl_case *c, struct tl_shared *shared, int rank, int k)
{
    if (k != c->sum)
        return 0;
    tl_sleep(c->late[rank]);
    tl_happens(c, shared, rank);
    return c->event == TL_LEAVES && rank == c->victim;
}

static int tl_work(const struct tl_case *c, struct tl_shared *shared, struct gyre_job *job, struct gyre_error *error)
{
    const int rank = gyre_job_rank(job);
    void *memory = NULL;
    shared->left[rank].right = 1;
    if (tl_before(c, shared, rank, 0))
        return GYRE_OK;
    int status = gyre_job_memory(job, TL_COUNT * sizeof(float), &memory, error);
    for (int k = 0; k < TL_SUMS && status == GYRE_OK; k++) {
        if (k > 0 && tl_before(c, shared, rank, k))
            return GYRE_OK;
        if (k == c->sum && c->event == TL_HANGS_INSIDE && rank == c->victim)
            shared->happened = gy_clock_ns();
        status = tl_sum(c, job, memory, k, c->event == TL_HANGS_INSIDE || (c->number + k) % 2, error);
        shared->left[rank].right &= status != GYRE_OK || tl_right(c, memory, k);
    }
    status = status == GYRE_OK ? gyre_job_end(job, error) : status;
    gyre_job_release(job, memory);
    return status;
}

static void tl_set(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void tl_rank(const struct tl_case *c, struct tl_shared *shared, int rank, const char *name)
{
    const struct gyre_job_config config = { .size = sizeof config, .wait_seconds = c->wait };
    struct tl_left *const left = &shared->left[rank];
    struct gyre_error error = {0};
    struct gyre_job *job = NULL;
    tl_set("GYRE_RANK", rank);
    tl_set("GYRE_LOCAL_RANK", rank);
    tl_set("GYRE_RANKS", c->ranks);
    tl_set("GYRE_LOCAL_RANKS", c->ranks);
    setenv("GYRE_JOB", name, 1);
    setenv("GYRE_ALLREDUCE", "flat/ring", 1);
    setenv("GYRE_TRANSPORT", "tcp", 1);
    left->pid = getpid();
    left->status = gyre_job_open(&job, &config, &error);
    gy_net_ports_read(&shared->ports[rank]);
    __atomic_add_fetch(&shared->opened, 1, __ATOMIC_ACQ_REL);
    while (left->status == GYRE_OK && __atomic_load_n(&shared->opened, __ATOMIC_ACQUIRE) < c->ranks)
        tl_sleep(0.001);
    if (left->status == GYRE_OK)
        left->status = tl_work(c, shared, job, &error);
    left->ended = gy_clock_ns();
    memcpy(left->text, error.text, sizeof left->text);
    left->done = 1;
    gyre_job_close(job);
}

/* ---- the oracle ---- */

static void tl_check_rank(const struct tl_case *c, const struct tl_shared *shared, int rank)
{
    const struct tl_left *const left = &shared->left[rank];
    const struct tl_kind *const kind = &tl_kinds[c->event];
    /* 1 second for late ranks */
    const double seconds = (double)(left->ended - shared->happened) * 1e-9, most = kind->most + (kind->waits ? c->wait : 0) + 1;
    char who[40], other[40];
    snprintf(who, sizeof who, "rank %d on ", c->victim);
    snprintf(other, sizeof other, "rank %d on ", c->other);
    T_CHECK_MSG(left->done && left->right, "case %d (%s): rank %d of %d %s", c->number, kind->name, rank, c->ranks,
                left->done ? "has wrong sums" : "did not end");
    if (c->event == TL_NONE) {
        T_CHECK_MSG(left->status == GYRE_OK, "case %d: rank %d of %d says %d, '%s'", c->number, rank, c->ranks, left->status, left->text);
        return;
    }
    const int named = strstr(left->text, who) && strstr(left->text, kind->words) &&
                      (c->event != TL_CUT_PAIR || strstr(left->text, other));
    T_CHECK_MSG(left->status == GYRE_E_PEER && named, "case %d (rank %d of %d %s at sum %d): rank %d says %d, '%s'", c->number, c->victim, c->ranks,
                kind->name, c->sum, rank, left->status, left->text);
    T_CHECK_MSG(seconds < most, "case %d (%s): rank %d says so after %.1f s, not within %.1f", c->number, kind->name, rank, seconds, most);
    /* other ranks may have waited before, for a rank that was late */
    T_CHECK_MSG(!kind->waits || seconds > c->wait - 1.2,
                "case %d: rank %d waited for %.1f s only", c->number, rank, seconds);
}

static void tl_check(const struct tl_case *c, const struct tl_shared *shared)
{
    /* the victim reports, too */
    const int speaks = c->event == TL_NONE || c->event == TL_CUT || c->event == TL_CUT_PAIR;
    const char *first = NULL;
    for (int r = 0; r < c->ranks; r++) {
        if (r == c->victim && !speaks)
            continue;
        tl_check_rank(c, shared, r);
        first = !first ? shared->left[r].text : first;
        T_CHECK_MSG(strcmp(first, shared->left[r].text) == 0, "case %d: other words: '%s'", c->number, shared->left[r].text);
    }
}

/* ---- running them ---- */

static void tl_start(const struct tl_case *c, struct tl_shared *shared, pid_t pids[TL_RANKS])
{
    char name[64];
    snprintf(name, sizeof name, "t_liveness %ld %d", (long)getpid(), c->number);
    fflush(stdout);
    for (int r = 0; r < c->ranks; r++)
        if ((pids[r] = fork()) == 0) {
            tl_rank(c, shared, r, name);
            _exit(0);
        }
}

/* All ranks but one that will never end, or the time is over. */
static void tl_finish(const struct tl_case *c, const struct tl_shared *shared, const pid_t pids[TL_RANKS], int64_t deadline)
{
    for (int left = 1; left && gy_clock_ns() < deadline; tl_sleep(0.01)) {
        left = 0;
        for (int r = 0; r < c->ranks; r++)
            left += !shared->left[r].done && (r != c->victim || c->event == TL_NONE);
    }
    for (int r = 0; r < c->ranks; r++) {
        if (!shared->left[r].done)
            kill(pids[r], SIGKILL);
        waitpid(pids[r], NULL, 0);
    }
}

static void tl_run(const struct tl_case *cases, int count, double most)
{
    struct tl_shared *const shared = tl_memory((size_t)count * sizeof *shared);
    pid_t pids[TL_AT_ONCE][TL_RANKS];
    for (int first = 0; first < count; first += TL_AT_ONCE) {
        const int64_t deadline = gy_clock_ns() + (int64_t)(most * 1e9);
        const int last = first + TL_AT_ONCE < count ? first + TL_AT_ONCE : count;
        for (int i = first; i < last; i++)
            tl_start(&cases[i], &shared[i], pids[i - first]);
        for (int i = first; i < last; i++) {
            tl_finish(&cases[i], &shared[i], pids[i - first], deadline);
            tl_check(&cases[i], &shared[i]);
        }
    }
    munmap(shared, (size_t)count * sizeof *shared);
}

/* Does the system tell how long a connection has been silent? An emulator of processors returns
 * four bytes of TCP_INFO. Then the library cannot know that a connection is cut. */
static int tl_cuts_show(void)
{
    unsigned char info[64];
    socklen_t bytes = sizeof info;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int shows = fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &bytes) == 0 && bytes == sizeof info;
    if (fd >= 0)
        close(fd);
    return shows;
}

static void tl_random(uint64_t seed, int count)
{
    const int cuts = tl_cuts_show();
    int used = 0;
    struct tl_case *const cases = calloc((size_t)count, sizeof *cases);
    int seen[TL_EVENTS] = {0};
    if (!T_CHECK(cases != NULL))
        return;
    if (!cuts)
        T_SKIP("the system does not tell how long a connection is silent: nothing is cut off");
    for (int i = 0; i < count; i++) {
        const int event = i % TL_EVENTS;
        if (!cuts && (event == TL_CUT || event == TL_CUT_PAIR))
            continue;
        cases[used++] = tl_make(seed, i, event);
        seen[event]++;
    }
    tl_run(cases, used, 25);
    for (int e = 0; e < TL_EVENTS; e++)
        printf("%s: %d cases\n", tl_kinds[e].name, seen[e]);
    free(cases);
}

static void tl_late(double seconds)
{
    struct tl_case c = { .event = TL_NONE, .ranks = 3, .wait = 600, .late = {seconds, 0, 0} };
    tl_run(&c, 1, seconds + 20);
}

static void tl_hang(double seconds)
{
    struct tl_case c = { .event = TL_HANGS, .ranks = 3, .wait = seconds, .victim = 1, .sum = 2 };
    tl_run(&c, 1, seconds + 20);
}

/* ---- strangers ---- */

struct tl_flood {
    struct tl_shared *shared;
    int stop;        /* atomic */
    int64_t calls;
};

/* Calls every port that a rank listens on, as fast as it can, and keeps the last connections open.
 * One in three sends something. */
static void *tl_flood(void *user)
{
    struct tl_flood *const flood = user;
    unsigned char noise[64];
    int fds[256], at = 0;
    memset(noise, 'G', sizeof noise);
    for (int i = 0; i < 256; i++)
        fds[i] = -1;
    while (!__atomic_load_n(&flood->stop, __ATOMIC_ACQUIRE))
        for (int r = 0; r < TL_RANKS; r++)
            for (int i = 0; i < flood->shared->ports[r].count; i++) {
                char port[24], host[16];
                int fd = -1, number;
                snprintf(port, sizeof port, "127.0.0.1:%d", flood->shared->ports[r].port[i]);
                if (gy_net_address(port, host, sizeof host, &number, NULL) != GY_OK || gy_net_connect(host, number, gy_clock_ns(), &fd, NULL) != GY_OK)
                    continue;
                if (flood->calls++ % 3 == 0)
                    (void)!send(fd, noise, sizeof noise, MSG_NOSIGNAL);
                if (fds[at] >= 0)
                    close(fds[at]);
                fds[at] = fd;
                at = (at + 1) % 256;
            }
    for (int i = 0; i < 256; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return NULL;
}

static void tl_flooded(int jobs)
{
    for (int k = 0; k < jobs; k++) {
        struct tl_shared *const shared = tl_memory(sizeof *shared);
        struct tl_flood flood = { .shared = shared };
        const struct tl_case c = { .event = TL_NONE, .ranks = TL_RANKS, .wait = 30, .number = k, .late = {1, 0, 0.5, 1.5} };
        pid_t pids[TL_RANKS];
        pthread_t thread;
        tl_start(&c, shared, pids);
        pthread_create(&thread, NULL, tl_flood, &flood);
        const int64_t began = gy_clock_ns();
        tl_finish(&c, shared, pids, gy_clock_ns() + 40000000000);
        const double seconds = (double)(gy_clock_ns() - began) * 1e-9;
        __atomic_store_n(&flood.stop, 1, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        tl_check(&c, shared);
        T_CHECK_MSG(flood.calls > 100, "only %" PRId64 " calls of strangers", flood.calls);
        printf("job %d of %d: %.1f s, %" PRId64 " calls of strangers\n", k + 1, jobs, seconds, flood.calls);
        munmap(shared, sizeof *shared);
    }
}

int main(int argc, char **argv)
{
    int64_t cases = TL_AT_ONCE, seed = 1;
    double late = 0, hang = 0;
    int64_t flood = 0;
    setvbuf(stdout, NULL, _IOLBF, 4096);
    for (int i = 1; i + 1 < argc; i += 2) {
        const int bad = strcmp(argv[i], "--cases") == 0   ? gy_text_int(argv[i + 1], 1, 100000, &cases)
                        : strcmp(argv[i], "--seed") == 0  ? gy_text_int(argv[i + 1], 0, INT64_MAX, &seed)
                        : strcmp(argv[i], "--late") == 0  ? gy_text_real(argv[i + 1], 0.1, 1000, &late)
                        : strcmp(argv[i], "--hang") == 0  ? gy_text_real(argv[i + 1], 0.1, 1000, &hang)
                        : strcmp(argv[i], "--flood") == 0 ? gy_text_int(argv[i + 1], 1, 1000, &flood) : -1;
        if (bad) {
            fprintf(stderr, "%s %s is not known\n", argv[i], argv[i + 1]);
            return 2;
        }
    }
    if (late > 0)
        tl_late(late);
    if (hang > 0)
        tl_hang(hang);
    if (flood > 0)
        tl_flooded((int)flood);
    if (late == 0 && hang == 0 && flood == 0)
        tl_random((uint64_t)seed, (int)cases);
    T_END("t_liveness");
}
