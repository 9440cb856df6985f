/* SPDX-License-Identifier: MIT */
/* gyre launch: starts several processes of a command on this host as the ranks of one job. They get their number, and an open file without
 * a name that becomes their memory together. When one ends badly, it says which and how, and ends the others. */
#include "cli.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCH_MOST 64

long syscall(long number, ...); /* not declared under strict POSIX */

struct launch_values {
    int64_t ranks, threads, restarts;
};

#define AT(member) offsetof(struct launch_values, member)
static const struct cli_option launch_rows[] = {
    { "ranks", "N", "2", "processes", CLI_WHOLE, AT(ranks), 1, LAUNCH_MOST },
    { "threads", "N", NULL, "threads that compute in each; default: the processors, divided", CLI_WHOLE, AT(threads), 1, 4096 },
    { "restarts", "N", "0", "times that the whole job is started again when a rank ends badly (with train --resume)", CLI_WHOLE,
      AT(restarts), 0, 1000 },
};
#undef AT

static volatile sig_atomic_t launch_asked; /* a signal handler has no other place */

static void launch_on_signal(int number) { launch_asked = number; }

static void launch_set(const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    setenv(name, text, 1);
}

static pid_t launch_start(const struct launch_values *v, int rank, int fd, char **command)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    launch_set("GYRE_RANK", rank);
    launch_set("GYRE_RANKS", v->ranks);
    launch_set("GYRE_LOCAL_RANK", rank);
    launch_set("GYRE_LOCAL_RANKS", v->ranks);
    launch_set("GYRE_NODE_FD", fd);
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (v->threads || !getenv("GYRE_THREADS"))
        launch_set("GYRE_THREADS", v->threads ? v->threads : processors > v->ranks ? processors / v->ranks : 1);
    execvp(command[0], command);
    fprintf(stderr, "gyre: %s cannot be started: %s\n", command[0], strerror(errno));
    _exit(127);
}

static void launch_kill(const pid_t *pids, int count, int number)
{
    for (int r = 0; r < count; r++)
        if (pids[r] > 0)
            kill(pids[r], number);
}

static void launch_say(int rank, pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        fprintf(stderr, "gyre: rank %d (process %d) was ended by signal %d; the others are ended\n", rank, (int)pid, WTERMSIG(status));
    else
        fprintf(stderr, "gyre: rank %d (process %d) ended with code %d; the others are ended\n", rank, (int)pid, WEXITSTATUS(status));
}

static int launch_find(const pid_t *pids, int count, pid_t pid)
{
    for (int r = 0; r < count; r++)
        if (pids[r] == pid)
            return r;
    return -1;
}

/* Waits for all. The first that ends badly decides the code; the others are asked to end, then ended. */
static int launch_wait(pid_t *pids, int count)
{
    int code = CLI_OK, left = count;
    while (left > 0) {
        int status = 0;
        const pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno == EINTR && launch_asked) {
            launch_kill(pids, count, (int)launch_asked); /* every rank finishes its step and writes, or follows */
            launch_asked = 0;
        }
        const int rank = pid > 0 ? launch_find(pids, count, pid) : -1;
        if (rank < 0)
            continue;
        pids[rank] = 0;
        left--;
        const int bad = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (bad == 0 || bad == CLI_STOPPED || code != CLI_OK) {
            code = code == CLI_OK ? bad : code;
            continue;
        }
        code = bad;
        launch_say(rank, pid, status);
        launch_kill(pids, count, SIGKILL); /* they would wait for the lost one; what is saved is whole */
    }
    return code;
}

static int launch_once(const struct launch_values *v, char **command)
{
    pid_t pids[LAUNCH_MOST] = { 0 };
    const int fd = (int)syscall(SYS_memfd_create, "gyre", 0u);
    if (fd < 0)
        return cli_fail(CLI_RESOURCES, "the ranks' memory cannot be made: %s", strerror(errno));
    int started = 0;
    for (; started < v->ranks; started++)
        if ((pids[started] = launch_start(v, started, fd, command)) < 0)
            break;
    close(fd);
    if (started < v->ranks) {
        const int why = errno;
        launch_kill(pids, started, SIGKILL);
        launch_wait(pids, started);
        return cli_fail(CLI_RESOURCES, "rank %d cannot be started: %s", started, strerror(why));
    }
    return launch_wait(pids, started);
}

static int launch_run(const void *values, char **args, int count)
{
    const struct launch_values *v = values;
    struct sigaction action = { .sa_handler = launch_on_signal };
    args[count] = NULL; /* the place of the "--" that went, or argv's own end */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int code = launch_once(v, args);
    for (int64_t k = 0; k < v->restarts && code != CLI_OK && code != CLI_STOPPED && code != CLI_USAGE; k++) {
        fprintf(stderr, "gyre: the job is started again, %" PRId64 " of %" PRId64 "\n", k + 1, v->restarts);
        code = launch_once(v, args);
    }
    return code;
}

const struct cli_command cmd_launch = {
    .name = "launch", .args = "-- COMMAND ...", .about = "starts a command as several processes that train together",
    .details = "Each process computes --batch images a step; gradients are summed over all of them before each update. Process 0 tests, writes\n"
               "and reports. When one process ends badly, launch names it and ends the others; with --restarts and 'train --resume' the\n"
               "job goes on from its last checkpoint.\n\n"
               "Examples:\n"
               "  gyre launch --ranks 2 -- gyre train resnet20 cifar10/ --batch 64\n"
               "  gyre launch --ranks 4 --restarts 3 -- gyre train resnet20 cifar10/ --resume --checkpoint-every 100\n",
    .least = 1, .most = 256, .bytes = sizeof(struct launch_values),
    .groups = { { launch_rows, CLI_COUNT(launch_rows), 0 } },
    .run = launch_run,
};
