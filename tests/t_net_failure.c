/* SPDX-License-Identifier: MIT */
/* t_net_failure.c: a rank that is gone is named, in the same sentence on every rank. It is killed,
 * or its child keeps its connections open. It stands still, or does and is ended before all
 * noticed. It left in peace before the others were done. It failed in a sum which the others are
 * in. It stands still or leaves while the others wait for all to be through. After a failure no
 * rank ends well, though all say that they are through. Ranks that leave together are no loss, nor
 * is one that leaves first when all are through: it may have been in fewer sums, as servers of
 * parameters are. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "net/comm/failure.h"
#include "net/transport/socket.h"
#include "tests/t.h"

long syscall(long number, ...); /* not declared under strict POSIX */

#define GUARD_RANKS 4
#define GUARD_WAIT 20000000000LL

enum guard_end {
    GUARD_END_PEACE, GUARD_END_FEWER, GUARD_END_KILL, GUARD_END_STOP, GUARD_END_STILL, GUARD_END_EARLY, GUARD_END_FAILED, GUARD_END_ORPHAN, GUARD_END_LAST_STOP,
    GUARD_END_LAST_LEFT, GUARD_END_UNLIKE
};
struct guard_case {
    enum guard_end end;
    int victim, board; /* board: the ranks count in memory of the host */
    const char *sentence;
};
struct guard_left { /* what a rank saw; in memory of all */
    int status, done;
    pid_t pid;
    double seconds;
    char text[480];
};
struct guard_shared { /* memory of all */
    unsigned char board[GY_NET_BOARD_BYTES];
    struct guard_left left[GUARD_RANKS];
};

static void guard_sleep(double seconds)
{
    const struct timespec time = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&time, NULL);
}

/* One finds what ends the job; then all say that they are through, and ask again. */
static int guard_unlike(const struct guard_case *c, struct gy_net_failure *guard, int rank, struct gy_error *err)
{
    char text[120];
    snprintf(text, sizeof text, "the sums of rank %d (process %ld) differ", rank, (long)getpid());
    if (rank == c->victim)
        gy_net_failure_tell(guard, text);
    guard_sleep(0.6);
    if (gy_net_failure_end(guard, err) != GY_E_PEER)
        return GY_E_STATE;
    guard_sleep(0.6);
    return gy_net_failure_end(guard, err);
}

/* A few sums together, then the case. The other ranks begin one more and wait in it, or wait until
 * all are through, while rank 1 may still be in a sum. */
static int guard_rank(const struct guard_case *c, struct gy_net_failure *guard, int rank, struct guard_left *left, struct gy_error *err)
{
    for (int k = 0; k < 5; k++)
        gy_net_failure_enter(guard);
    guard_sleep(0.6); /* signs of life pass */
    if (c->end == GUARD_END_FEWER && rank != c->victim)
        gy_net_failure_enter(guard);
    if (c->end <= GUARD_END_FEWER) {
        const int status = gy_net_failure_end(guard, err);
        guard_sleep(c->end == GUARD_END_FEWER && rank != c->victim ? 0.6 : 0);
        return status == GY_OK ? gy_net_failure_lost(guard, err) : status;
    }
    if (c->end == GUARD_END_UNLIKE)
        return guard_unlike(c, guard, rank, err);
    if ((c->end == GUARD_END_EARLY || c->end == GUARD_END_LAST_LEFT) && rank == c->victim)
        return GY_OK;
    if (rank == c->victim && c->end == GUARD_END_FAILED) { /* in the sum in which the others wait */
        gy_net_failure_enter(guard);
        gy_net_failure_fail(guard);
        return GY_OK;
    }
    if (rank == c->victim && c->end == GUARD_END_ORPHAN && fork() == 0) {
        guard_sleep(6); /* longer than the others take; it has all that was open */
        _exit(0);
    }
    if (rank == c->victim)
        raise(c->end == GUARD_END_KILL || c->end == GUARD_END_ORPHAN ? SIGKILL : SIGSTOP);
    const int64_t began = gy_clock_ns();
    int status = GY_OK;
    if (c->end < GUARD_END_LAST_STOP)
        gy_net_failure_enter(guard);
    else if (c->end == GUARD_END_LAST_LEFT || rank != 1)
        status = gy_net_failure_end(guard, err);
    while (status == GY_OK && gy_clock_ns() < began + GUARD_WAIT) {
        guard_sleep(0.005);
        status = gy_net_failure_lost(guard, err);
    }
    left->seconds = (double)(gy_clock_ns() - began) * 1e-9;
    return status;
}

static void guard_process(const struct guard_case *c, struct gy_net_boot_config *config, struct guard_shared *shared)
{
    struct guard_left *const left = shared->left;
    const struct gy_alloc alloc = gy_alloc_default();
    const int rank = config->place.rank;
    struct gy_net_identity own, all[GUARD_RANKS];
    struct gy_net_boot *boot = NULL;
    struct gy_net_failure *guard = NULL;
    struct gy_error err = {0};
    gy_net_identity_read(&own, rank, 0);
    int status = gy_net_boot_open(&boot, config, &alloc, &err);
    status = status == GY_OK ? gy_net_boot_gather(boot, &own, sizeof own, all, &err) : status;
    const struct gy_net_failure_config g = { .boot = boot, .all = all, .rank = rank, .ranks = GUARD_RANKS, .board = c->board ? shared->board : NULL };
    status = status == GY_OK ? gy_net_failure_open(&guard, &g, &alloc, &err) : status;
    left[rank].pid = getpid();
    if (status == GY_OK)
        status = guard_rank(c, guard, rank, &left[rank], &err);
    memcpy(left[rank].text, err.text, sizeof err.text);
    left[rank].status = status;
    gy_net_failure_close(guard);
    gy_net_boot_close(boot);
    left[rank].done = 1;
}

static void guard_check(const struct guard_case *c, const struct guard_left *left)
{
    char who[64];
    snprintf(who, sizeof who, "(process %ld)", (long)left[c->victim].pid);
    for (int r = 0; r < GUARD_RANKS; r++) {
        if (r == c->victim && c->end > GUARD_END_FEWER)
            continue;
        if (c->end <= GUARD_END_FEWER) {
            T_CHECK_MSG(left[r].done && left[r].status == GY_OK, "rank %d: %s", r, left[r].text);
            continue;
        }
        T_CHECK_MSG(left[r].status == GY_E_PEER && strstr(left[r].text, c->sentence) && strstr(left[r].text, who),
                    "rank %d of case %d: %d %s", r, c->end, left[r].status, left[r].text);
        T_CHECK_MSG(strcmp(left[r].text, left[c->victim == 1 ? 2 : 1].text) == 0, "rank %d says another sentence: %s", r, left[r].text);
        T_CHECK_MSG(left[r].seconds < 5, "rank %d after %.1f s", r, left[r].seconds);
    }
}

static void guard_run(const struct guard_case *c, struct guard_shared *shared)
{
    struct gy_net_boot_config config = { .place = { .ranks = GUARD_RANKS }, .wait_ns = GUARD_WAIT };
    struct gy_error err = {0};
    pid_t pids[GUARD_RANKS];
    int listener, port = 0;
    memset(shared, 0, sizeof *shared);
    if (!T_CHECK(gy_net_listen(NULL, 0, &listener, &port, &err) == GY_OK))
        return;
    fflush(stdout);
    for (int r = 0; r < GUARD_RANKS; r++)
        if ((pids[r] = fork()) == 0) {
            config.place.rank = r;
            config.place.port = port;
            config.listener = r == 0 ? listener : -1;
            if (r > 0)
                close(listener);
            guard_process(c, &config, shared);
            _exit(0);
        }
    close(listener);
    if (c->end == GUARD_END_STILL && waitpid(pids[c->victim], NULL, WUNTRACED) > 0) {
        guard_sleep(2.15);
        kill(pids[c->victim], SIGKILL);
    }
    for (int r = 0; r < GUARD_RANKS; r++)
        if (r != c->victim || c->end <= GUARD_END_FEWER)
            waitpid(pids[r], NULL, 0);
    if (c->end > GUARD_END_FEWER) {
        kill(pids[c->victim], SIGKILL); /* it may stand still */
        waitpid(pids[c->victim], NULL, 0);
    }
    guard_check(c, shared->left);
}

static int guard_has_pidfd(void)
{
#ifdef SYS_pidfd_open
    const int fd = (int)syscall(SYS_pidfd_open, getpid(), 0u);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
#else
    return 0;
#endif
}

int main(void)
{
    static const struct guard_case cases[] = {
        {GUARD_END_PEACE, 0, 1, ""}, {GUARD_END_FEWER, 1, 1, ""}, {GUARD_END_FEWER, 0, 0, ""},
        {GUARD_END_KILL, 2, 1, "rank 2 on "}, {GUARD_END_KILL, 0, 0, "has ended"}, {GUARD_END_KILL, 0, 1, "has ended; it has not entered sum 6"},
        {GUARD_END_KILL, 1, 0, "has ended; it has not entered sum 6, last seen "}, {GUARD_END_STOP, 3, 1, "is silent for 2.5 seconds"},
        {GUARD_END_STOP, 0, 1, "rank 0 on "}, {GUARD_END_STILL, 0, 1, "is silent for 2.5 seconds"}, {GUARD_END_STILL, 2, 1, "is silent for 2.5 seconds"},
        {GUARD_END_EARLY, 1, 1, "has left the job; it has not entered sum 6"},
        {GUARD_END_EARLY, 0, 0, "has left the job"}, {GUARD_END_FAILED, 2, 1, "has failed in a sum and left the job"},
        {GUARD_END_FAILED, 0, 1, "has failed in a sum and left the job"}, {GUARD_END_ORPHAN, 2, 1, "has ended; it has not entered sum 6"},
        {GUARD_END_ORPHAN, 0, 1, "has ended; it has not entered sum 6"}, {GUARD_END_LAST_STOP, 2, 1, "is silent for 2.5 seconds"},
        {GUARD_END_LAST_STOP, 0, 1, "is silent for 2.5 seconds"}, {GUARD_END_LAST_LEFT, 1, 1, "has left the job"},
        {GUARD_END_LAST_LEFT, 0, 0, "has left the job"}, {GUARD_END_UNLIKE, 2, 1, "differ"},
    };
    const int pidfd = guard_has_pidfd();
    struct guard_shared *shared = NULL;
    FILE *file = tmpfile();
    if (file && ftruncate(fileno(file), (off_t)sizeof *shared) == 0)
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (T_CHECK(shared && shared != MAP_FAILED))
        for (size_t i = 0; i < GY_COUNT(cases); i++) {
            if (cases[i].end == GUARD_END_ORPHAN && !pidfd)
                T_SKIP("this system has no pidfd_open");
            else
                guard_run(&cases[i], shared);
        }
    T_END("t_net_failure");
}
