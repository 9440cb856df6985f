/* SPDX-License-Identifier: MIT */
/* cmd_launch.c: gyre launch: starts processes of a command as the ranks of one job, on this host
 * or, through ssh, on those of a file. Each gets its number and the job's key through a pipe. On
 * other hosts it is the first line of their input, which stays open as long as the launcher lives.
 * When one ends badly, the launcher says which and how, and ends the others. It also ends a process
 * that stands still where no rank can notice: while they meet, or when all are done. gyre.c has its
 * row; cmd_ranks.c starts it, too. */
#include "tools/launch.h"
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCH_BOARD 128 /* bytes of an address on the board */
#define LAUNCH_CALLS 16384 /* bytes of a list of all ranks' addresses */
#define LAUNCH_PORTS 61000 /* a --port below it leaves a port above it for each rank */
#define LAUNCH_GRACE 2 /* seconds for the others to end by themselves */

struct launch_values {
    int64_t ranks, workers, servers, threads, restarts, port, bind;
    const char *hosts, *ssh, *elastic;
};

#define AT(member) offsetof(struct launch_values, member)
static const struct cli_option launch_rows[] = {
    { "ranks", "N", NULL, "processes; default: 2, with --hosts all that it has room for", CLI_WHOLE, AT(ranks), 1, LAUNCH_MOST },
    { "workers", "W", NULL, "with --servers, instead of --ranks: processes that compute",
      CLI_WHOLE, AT(workers), 2, LAUNCH_MOST },
    { "servers", "S", NULL, "parameter servers: the first processes, for 'train --sync server' and "
      "async", CLI_WHOLE, AT(servers), 1, LAUNCH_MOST },
    { "threads", "N", NULL, "threads that compute in each; default: the processors, divided", CLI_WHOLE, AT(threads), 1, 4096 },
    { "bind", NULL, NULL, "each process keeps to its part of its host's processors: for a job that has its hosts alone", CLI_FLAG, AT(bind), 0, 0 },
    { "restarts", "N", "0", "times that the whole job is started again when a rank ends badly (with train --resume)", CLI_WHOLE,
      AT(restarts), 0, 1000 },
    { "elastic", "MIN:MAX", NULL,
      "the job goes on when a process ends badly, while MIN remain; one that is lost is replaced, "
      "up to MAX, on its host (train --shards; or workers beside --servers)", CLI_TEXT,
      AT(elastic), 0, 0 },
    { "hosts", "FILE", NULL, "hosts of the job, a line each: NAME [slots=N] [address=ADDRESS]; the first one gets rank 0", CLI_TEXT, AT(hosts), 0, 0 },
    { "ssh", "COMMAND", "ssh", "how a process is started on another host: COMMAND HOST SHELL-COMMAND", CLI_TEXT, AT(ssh), 0, 0 },
    { "port", "N", "47201",
      "with rank 0 on another host: the port where it listens; with --hosts and --elastic newcomers "
      "call the ports behind it", CLI_WHOLE, AT(port), 1, 65535 },
};
#undef AT

struct launch_job {
    const struct launch_values *v;
    struct launch_host host[LAUNCH_HOSTS];
    int hosts, ranks;
    int rank_host[LAUNCH_MOST], local[LAUNCH_MOST]; /* host of a rank, its number there */
    char key[LAUNCH_KEY + 2];   /* digits and a newline */
    char address[256];          /* where rank 0 listens */
    int port, epoch, listener;  /* listener -1: rank 0 opens it */
    pid_t pid[LAUNCH_MOST];
    char still[LAUNCH_MOST];    /* stopped by a signal */
    /* seconds for the others to end by themselves, once one ended badly */
    unsigned grace;
    int asked, ended;           /* a signal asked to stop; all were ended by this process */
    int least, most;            /* processes with which the job goes on; 0: with all */
    int first, well;            /* ranks at the start; that have ended well */
    int board;                  /* the open file in which the ranks say where newcomers call; -1 */
    int closed;                 /* no newcomers any more */
    int input[LAUNCH_MOST];     /* of those on other hosts: held open; -1 */
    char **command;
};

static volatile sig_atomic_t launch_asked, launch_late; /* a signal handler has no other place */

static void launch_on_signal(int number) { launch_asked = number; }
static void launch_on_alarm(int number)
{
    launch_late = number;
    alarm(1); /* should it come just before a wait */
}

/* ---- the plan ---- */

/* Fills hosts in the order of the file. */
static int launch_place(struct launch_job *job)
{
    int room = 0, rank = 0;
    for (int h = 0; h < job->hosts; h++)
        room += job->host[h].slots;
    const int usual = job->most ? job->most : 2, roles = (int)(job->v->workers + job->v->servers);
    job->ranks = job->v->ranks ? (int)job->v->ranks : job->v->workers ? roles :
                 job->v->hosts ? room : usual;
    if (!job->v->hosts)
        job->host[0].slots = room = job->ranks;
    if (job->ranks > room || job->ranks > LAUNCH_MOST)
        return cli_fail(CLI_USAGE, "%d processes; the hosts have room for %d, a job for %d", job->ranks, room, LAUNCH_MOST);
    for (int h = 0; h < job->hosts; h++)
        for (int k = 0; k < job->host[h].slots && rank < job->ranks; k++, rank++) {
            job->rank_host[rank] = h;
            job->local[rank] = k;
            job->host[h].used = k + 1;
        }
    while (job->hosts > 1 && !job->host[job->hosts - 1].used)
        job->hosts--;
    return CLI_OK;
}

static int launch_check_roles(const struct launch_values *v)
{
    if (v->workers && !v->servers)
        return cli_fail(CLI_USAGE, "--workers is for --servers; without servers --ranks says how "
                        "many processes there are");
    if (v->ranks && v->workers && v->ranks != v->workers + v->servers)
        return cli_fail(CLI_USAGE, "%" PRId64 " workers and %" PRId64 " servers are not %" PRId64
                        " ranks", v->workers, v->servers, v->ranks);
    if (v->servers && !v->workers && (v->ranks ? v->ranks : 2) < v->servers + 2 && !v->hosts)
        return cli_fail(CLI_USAGE, "%" PRId64 " servers need 2 workers or more beside them: "
                        "--workers", v->servers);
    return CLI_OK;
}

static int launch_plan(struct launch_job *job)
{
    int code = launch_check_roles(job->v);
    job->hosts = 1;
    job->host[0] = (struct launch_host){ .name = "localhost", .here = 1 };
    if (code == CLI_OK && job->v->hosts)
        code = launch_read_hosts(job->v->hosts, job->host, &job->hosts);
    if (code == CLI_OK)
        code = launch_place(job);
    if (code != CLI_OK)
        return code;
    const struct launch_host *first = &job->host[0];
    snprintf(job->address, sizeof job->address, "%s", first->address[0] ? first->address : first->here && job->hosts == 1 ? "127.0.0.1" : first->name);
    if (job->hosts > 1 && !strcmp(job->address, "localhost"))
        return cli_fail(CLI_USAGE, "%s: the other hosts cannot reach rank 0 on localhost; name it, or add address=", job->v->hosts);
    return CLI_OK;
}

/* Rank 0 on this host gets a socket that listens already, on a port that is free. */
static int launch_listen(struct launch_job *job)
{
    struct sockaddr_storage at;
    socklen_t bytes = 0;
    if (launch_address(job->address, &at, &bytes) != 0)
        return cli_fail(CLI_USAGE, "the address \"%s\" of rank 0 is not known", job->address);
    job->listener = socket(at.ss_family, SOCK_STREAM, 0);
    if (job->listener < 0 || bind(job->listener, (struct sockaddr *)&at, bytes) != 0 || listen(job->listener, 128) != 0 ||
        getsockname(job->listener, (struct sockaddr *)&at, &bytes) != 0)
        return cli_fail(CLI_RESOURCES, "rank 0 cannot listen at %s: %s", job->address, strerror(errno));
    job->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port : ((struct sockaddr_in *)&at)->sin_port);
    return CLI_OK;
}

/* ---- one process ---- */

/* Where the rank that leads listens, as it said. 0: there is none yet. */
static int launch_leader(const struct launch_job *job, char at[LAUNCH_BOARD + 1])
{
    const ssize_t bytes = job->board >= 0 ? pread(job->board, at, LAUNCH_BOARD, 0) : 0;
    at[bytes > 0 ? bytes : 0] = 0;
    return at[0] != 0;
}

static void launch_set(const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    setenv(name, text, 1);
}

static void launch_variables(const struct launch_job *job, int rank, int key)
{
    const struct launch_host *host = &job->host[job->rank_host[rank]];
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    launch_set("GYRE_RANK", rank);
    launch_set("GYRE_RANKS", job->ranks);
    launch_set("GYRE_LOCAL_RANK", job->local[rank]);
    launch_set("GYRE_LOCAL_RANKS", host->used);
    launch_set("GYRE_KEY_FD", key);
    launch_set("GYRE_EPOCH", job->epoch);
    setenv("GYRE_MASTER_HOST", job->address, 1);
    launch_set("GYRE_MASTER_PORT", job->port);
    if (job->board >= 0)
        launch_set("GYRE_BOARD_FD", job->board);
    if (job->most && job->board < 0 && job->v->port < LAUNCH_PORTS)
        launch_set("GYRE_JOIN_PORT", job->v->port + 1);
    unsetenv("GYRE_LISTEN_FD");
    unsetenv("GYRE_KEY_FILE");
    if (rank == 0 && job->listener >= 0)
        launch_set("GYRE_LISTEN_FD", job->listener);
    if (host->here && job->v->threads)
        launch_set("GYRE_THREADS", job->v->threads);
    else if (host->here && !getenv("GYRE_THREADS"))
        launch_set("GYRE_THREADS", processors > host->used ? processors / host->used : 1);
}

/* Where all live ranks listen, as HOST:PORT with commas. One of them leads, mostly the first. */
static void launch_calls(const struct launch_job *job, char *text, size_t room)
{
    size_t at = 0;
    for (int r = 0; r < job->ranks; r++) {
        const struct launch_host *const host = &job->host[job->rank_host[r]];
        const char *const name = host->address[0] ? host->address : host->name;
        const int v6 = strchr(name, ':') != NULL;
        if (job->pid[r] <= 0 || at + sizeof host->address + 16 > room)
            continue;
        at += (size_t)snprintf(text + at, room - at, v6 ? "%s[%s]:%d" : "%s%s:%d", at ? "," : "",
                               name, (int)job->v->port + 1 + r);
    }
}

/* Tells a process that joins later, by its environment, who lets it in. */
static void launch_newcomer(const struct launch_job *job, int rank)
{
    char at[LAUNCH_CALLS] = "";
    if (rank < job->first)
        return;
    if (job->board < 0)
        launch_calls(job, at, sizeof at);
    else if (!launch_leader(job, at))
        return;
    launch_set("GYRE_RANKS", 4096);
    setenv("GYRE_JOIN", at, 1); /* and what stands on the board later */
}

/* In the child. */
static void launch_become(const struct launch_job *job, int rank, int key)
{
    char *args[LAUNCH_SSH_WORDS + 3];
    const struct launch_host *host = &job->host[job->rank_host[rank]];
    char *const *command = job->command;
    char *text = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!host->here) {
        dup2(key, 0);
        signal(SIGINT, SIG_IGN); /* a terminal's: the end of the input asks those there to stop */
        signal(SIGHUP, SIG_IGN);
    }
    launch_variables(job, rank, host->here ? key : 0);
    launch_newcomer(job, rank);
    if (!host->here) {
        int words = launch_split(job->v->ssh, args);
        text = launch_shell(job->command, host->used, (int)job->v->threads);
        args[words++] = (char *)(uintptr_t)host->name;
        args[words++] = text;
        args[words] = NULL;
        command = args;
    }
    signal(SIGXFSZ, SIG_DFL); /* as this program found it */
    if (host->here || text)
        execvp(command[0], command);
    fprintf(stderr, "gyre: %s cannot be started: %s\n", command[0], strerror(errno));
    _exit(127);
}

static int launch_start(struct launch_job *job, int rank)
{
    int ends[2];
    const int here = job->host[job->rank_host[rank]].here;
    job->input[rank] = -1;
    if (pipe(ends) != 0)
        return -1;
    /* a pipe takes this much at once */
    const ssize_t written = write(ends[1], job->key, LAUNCH_KEY + 1);
    const pid_t pid = written == LAUNCH_KEY + 1 ? fork() : -1;
    if (pid == 0) {
        close(ends[1]);
        for (int r = 0; r < rank; r++)
            if (job->input[r] >= 0)
                close(job->input[r]);
        if (rank > 0 && job->listener >= 0)
            close(job->listener);
        launch_become(job, rank, ends[0]);
    }
    close(ends[0]);
    if (pid < 0 || here)
        close(ends[1]);
    else
        job->input[rank] = ends[1];
    job->pid[rank] = pid > 0 ? pid : 0;
    job->still[rank] = 0;
    return pid < 0 ? -1 : 0;
}

/* ---- all of them ---- */

static void launch_kill(struct launch_job *job, int number)
{
    for (int r = 0; r < job->ranks; r++) {
        if (job->pid[r] > 0 && (job->input[r] < 0 || number == SIGKILL))
            kill(job->pid[r], number);
        if (job->input[r] >= 0)
            close(job->input[r]); /* the end of its input ends or stops a process on another host */
        job->input[r] = -1;
    }
}

static int launch_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/* Is a code that of a process which did its work? */
static int launch_well(int code)
{
    return code == CLI_OK || code == CLI_STOPPED || code == CLI_UNPROVED;
}

/* How a process ended; weight 0: well. */
struct launch_end {
    int rank, status, weight;
    pid_t pid;
};

/* The weight of a rank's end; the rank with the largest weight began. The others lose a rank and
 * end with CLI_FAILED, or are ended. They may do so before that rank's end is seen. */
static int launch_weight(const struct launch_job *job, int rank, int status)
{
    const int code = launch_code(status);
    if (launch_well(code))
        return 0;
    if (job->still[rank])
        return 4;
    if (WIFSIGNALED(status))
        return job->ended ? 1 : 3;
    return code != CLI_FAILED ? 2 : 1;
}

static void launch_say(const struct launch_job *job, const struct launch_end *end, const char *then)
{
    char where[320] = "", how[64];
    if (job->hosts > 1)
        snprintf(where, sizeof where, " on %s", job->host[job->rank_host[end->rank]].name);
    if (job->still[end->rank])
        snprintf(how, sizeof how, "stood still and was ended");
    else if (WIFSIGNALED(end->status))
        snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(end->status));
    else
        snprintf(how, sizeof how, "ended with code %d", WEXITSTATUS(end->status));
    fprintf(stderr, "gyre: rank %d%s (process %d) %s; %s\n", end->rank, where, (int)end->pid, how,
            then);
}

static int launch_find(const struct launch_job *job, pid_t pid)
{
    for (int r = 0; r < job->ranks; r++)
        if (job->pid[r] == pid)
            return r;
    return -1;
}

static int launch_stands(const struct launch_job *job, int rank) { return job->pid[rank] > 0 && job->still[rank]; }

/* Those that stand still cannot end by themselves. Returns how many there were. */
static int launch_end_still(const struct launch_job *job, const char *why)
{
    int count = 0;
    for (int r = 0; r < job->ranks; r++)
        if (launch_stands(job, r)) {
            if (why)
                fprintf(stderr, "gyre: rank %d (process %d) %s\n", r, (int)job->pid[r], why);
            kill(job->pid[r], SIGKILL);
            count++;
        }
    return count;
}

/* A process was stopped, or goes on. */
static void launch_note(struct launch_job *job, int rank, int stopped, int bad)
{
    int still = 0;
    job->still[rank] = (char)stopped;
    for (int r = 0; r < job->ranks; r++)
        still += launch_stands(job, r);
    if (bad)
        launch_end_still(job, NULL);
    else
        alarm(still ? LAUNCH_STILL : 0);
}

static void launch_on_asked(struct launch_job *job)
{
    /* every rank finishes its step and writes, or follows; ssh heeds a second one if it is this */
    launch_kill(job, job->asked ? SIGTERM : (int)launch_asked);
    launch_asked = 0;
    job->asked = 1;
}

/* The job is done: newcomers that nobody let in would wait on. */
static void launch_end_newcomers(const struct launch_job *job)
{
    for (int r = job->first; r < job->ranks; r++)
        if (job->pid[r] > 0)
            kill(job->pid[r], SIGKILL);
}

static void launch_on_late(struct launch_job *job, int bad)
{
    alarm(0);
    launch_late = 0;
    if (job->most && job->well > 0)
        launch_end_newcomers(job);
    if (!bad) {
        job->grace = launch_end_still(job, "is stopped for 4 seconds and is ended") ? 1 : job->grace;
        return;
    }
    job->ended = 1;
    launch_kill(job, SIGKILL); /* what is saved is whole */
}

/* A worker beside servers: without it the others go on, where they can, else they end by
 * themselves. What one worker refuses, all do. */
static int launch_spares(const struct launch_job *job, const struct launch_end *end)
{
    if (!job->v->servers || end->rank < (int)job->v->servers)
        return 0;
    const int code = launch_code(end->status);
    if (code == CLI_USAGE || code == CLI_FAILED) /* CLI_FAILED: it has lost one itself */
        return 0;
    fprintf(stderr, "gyre: rank %d (process %d) %s %d; the others go on if they can\n", end->rank,
            (int)end->pid, WIFSIGNALED(end->status) ? "was ended by signal" : "ended with code",
            WIFSIGNALED(end->status) ? WTERMSIG(end->status) : WEXITSTATUS(end->status));
    return 1;
}

/* After a bad end the others notice it and end, with a sentence; who does not, is ended. */
static void launch_note_end(struct launch_job *job, const struct launch_end *end, struct launch_end *worst)
{
    if (end->weight > 0 && worst->weight == 0 && launch_spares(job, end))
        return;
    if (end->weight > 0 && worst->weight == 0) {
        launch_end_still(job, NULL);
        alarm(job->grace);
    }
    if (end->weight > worst->weight)
        *worst = *end;
}

/* Starts a process for one that was lost. Returns how many it started: 1 or 0. */
static int launch_replace(struct launch_job *job, int left, const struct launch_end *end)
{
    char at[LAUNCH_BOARD + 1];
    const int rank = job->ranks;
    job->closed |= job->well > 0 || job->asked;
    const int code = launch_code(end->status);
    job->closed |= end->rank >= job->first && code < 128; /* nor could the next one join */
    job->closed |= code == CLI_FAILED;                    /* it has lost the others itself */
    if (job->closed || left >= job->most || rank == LAUNCH_MOST)
        return 0;
    if (job->board < 0 ? job->v->port >= LAUNCH_PORTS : !launch_leader(job, at))
        return 0;
    job->rank_host[rank] = job->rank_host[end->rank];
    job->local[rank] = job->local[end->rank];
    job->ranks++;
    if (launch_start(job, rank) != 0)
        return 0;
    fprintf(stderr, "gyre: process %d is started as rank %d and joins them\n", (int)job->pid[rank],
            rank);
    return 1;
}

/* Does the job go on without a process that ended badly? Not before its ranks have met: the others
 * will fail alike. */
static int launch_outlives(const struct launch_job *job, int left, const struct launch_end *end)
{
    char at[LAUNCH_BOARD + 1], then[64];
    if (job->most && job->well > 0 && end->rank >= job->first && end->weight > 0)
        return 1;
    if (!job->most || end->weight == 0 || left + job->well < job->least || job->ended)
        return 0;
    /* a server is needed; and who has lost one is no loss */
    if (job->v->servers && (end->rank < (int)job->v->servers ||
                            (launch_code(end->status) == CLI_FAILED && end->rank < job->first)))
        return 0;
    if (job->board >= 0 && !launch_leader(job, at))
        return 0;
    snprintf(then, sizeof then, "%d go on", left);
    launch_say(job, end, then);
    return 1;
}

/* Waits for all. Who began to end badly decides the code. */
static int launch_wait(struct launch_job *job, int left)
{
    struct launch_end worst = { .weight = 0 };
    int well = CLI_OK; /* the code where all end well */
    job->grace = LAUNCH_GRACE;
    job->ended = 0;
    while (left > 0) {
        int status = 0;
        const pid_t pid = waitpid(-1, &status, WUNTRACED | WCONTINUED);
        if (pid < 0 && errno == EINTR && launch_asked)
            launch_on_asked(job);
        if (launch_late)
            launch_on_late(job, worst.weight > 0);
        const int rank = pid > 0 ? launch_find(job, pid) : -1;
        if (rank < 0)
            continue;
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            launch_note(job, rank, WIFSTOPPED(status), worst.weight > 0);
            continue;
        }
        job->pid[rank] = 0;
        left--;
        const int code = launch_code(status);
        if (worst.weight == 0 && code != CLI_OK && launch_well(code))
            well = code;
        const int weight = well == CLI_STOPPED ? 0 : launch_weight(job, rank, status);
        const struct launch_end end = { rank, status, weight, pid };
        job->well += end.weight == 0;
        if (job->most && end.weight == 0)
            alarm(LAUNCH_STILL);
        if (worst.weight == 0 && launch_outlives(job, left, &end))
            left += launch_replace(job, left, &end);
        else
            launch_note_end(job, &end, &worst);
    }
    alarm(0);
    launch_late = 0;
    if (worst.weight == 0)
        return well;
    launch_say(job, &worst, "the others are ended");
    return launch_code(worst.status);
}

static int launch_once(struct launch_job *job)
{
    int started = 0, code = CLI_OK;
    job->listener = -1;
    job->well = job->closed = 0;
    job->ranks = job->first;
    if (job->board >= 0 && ftruncate(job->board, 0) != 0)
        return cli_fail(CLI_RESOURCES, "a file cannot be emptied: %s", strerror(errno));
    job->port = (int)job->v->port;
    if (job->host[0].here)
        code = launch_listen(job);
    for (; code == CLI_OK && started < job->ranks; started++)
        if (launch_start(job, started) != 0)
            break;
    const int why = errno;
    if (job->listener >= 0)
        close(job->listener);
    job->listener = -1;
    if (code == CLI_OK && started < job->ranks) {
        launch_kill(job, SIGKILL);
        launch_wait(job, started);
        return cli_fail(CLI_RESOURCES, "rank %d cannot be started: %s", started, strerror(why));
    }
    if (code == CLI_OK)
        code = launch_wait(job, started);
    launch_kill(job, 0); /* closes what is open */
    return code;
}

static int launch_elastic(struct launch_job *job, const char *text)
{
    FILE *const file = job->v->hosts ? NULL : tmpfile();
    const int code = cli_elastic(text, &job->least, &job->most);
    if (code != CLI_OK)
        return code;
    if (job->v->ranks && (job->v->ranks < job->least || job->v->ranks > job->most))
        return cli_fail(CLI_USAGE, "--ranks %" PRId64 " and --elastic %s: the job begins with MIN "
                        "to MAX processes", job->v->ranks, text);
    if (!job->v->hosts && !file)
        return cli_fail(CLI_RESOURCES, "no temporary file can be made: %s", strerror(errno));
    job->board = file ? fileno(file) : -1; /* until this process ends */
    setenv("GYRE_ELASTIC", text, 1);
    return CLI_OK;
}

static int launch_run(const void *values, char **args, int count)
{
    struct launch_job *job = calloc(1, sizeof *job);
    const struct launch_values *v = values;
    const struct sigaction alarmed = { .sa_handler = launch_on_alarm };
    if (!job)
        return cli_fail(CLI_RESOURCES, "out of memory");
    args[count] = NULL; /* the place of the "--" that went, or argv's own end */
    job->v = v;
    job->command = args;
    for (int r = 0; r < LAUNCH_MOST; r++)
        job->input[r] = -1;
    cli_on_stop(launch_on_signal, 0); /* they interrupt the wait */
    sigaction(SIGALRM, &alarmed, NULL);
    signal(SIGCHLD, SIG_DFL); /* ignored, it leaves no process to wait for */
    if (v->bind)
        setenv("GYRE_BIND", "1", 1); /* those on other hosts get it too */
    if (v->servers)
        launch_set("GYRE_SERVERS", v->servers);
    job->board = -1;
    int code = v->elastic ? launch_elastic(job, v->elastic) : CLI_OK;
    if (code == CLI_OK)
        code = launch_plan(job);
    job->first = job->ranks;
    if (code == CLI_OK && launch_key(job->key) != 0)
        code = cli_fail(CLI_RESOURCES, "the system gives no random bytes for the job's key: %s", strerror(errno));
    if (code == CLI_OK)
        code = launch_once(job);
    for (int64_t k = 0; k < v->restarts && !job->asked && !launch_well(code) && code != CLI_USAGE; k++) {
        fprintf(stderr, "gyre: the job is started again, %" PRId64 " of %" PRId64 "\n", k + 1, v->restarts);
        job->epoch++;
        code = launch_once(job);
    }
    free(job);
    return code;
}

static const struct cli_short launch_shorts[] = { { "n", "ranks" }, { NULL, NULL } };

const struct cli_command cmd_launch = {
    .name = "launch", .args = "-- COMMAND ...", .about = "starts a command as several processes that train together",
    .details = "Each process computes --batch images a step; gradients are summed over all of them before each update. Process 0 tests, writes\n"
               "and reports. When one process ends badly, launch names it and ends the others; with --restarts and 'train --resume' the\n"
               "job goes on from its last checkpoint.\n\n"
               "With --elastic and 'train --shards' the others go on without one that is lost, process 0\n"
               "too: from the very step, to the same bits. They end where fewer than MIN are left, or\n"
               "where those that are left are the smaller half. With mpirun: --enable-recovery;\n"
               "srun: -K0 --no-kill. One that is lost before the first step may end the job.\n\n"
               "With --hosts, processes of other hosts are started through ssh, in the folder of the same path, with the GYRE_ and UCX_\n"
               "variables of this one. Hosts talk over TCP, or, where all have RDMA devices and the library UCX, through it; GYRE_TRANSPORT=tcp or\n"
               "ucx says which, and only the latter lets UCX itself use TCP. Every message carries a checksum; with GYRE_NET_CODE=hmac also nobody\n"
               "on the way can change one. UCX keeps no stranger from its port: what strangers send there enters no sum, but can fill memory\n"
               "or end the job, and whoever sees the network can read what passes. Its ports belong on a network of the cluster alone.\n\n"
               "With --servers the first processes hold the weights: 'train --sync server' updates\n"
               "once a step, to the same bits as without servers, and --sync async once a gradient.\n"
               "Workers may be lost: the others go on, with fewer gradients a step, and one of them tests\n"
               "and saves; not with --shards or --sync-bn, which need them all. --elastic starts a lost\n"
               "worker again, which joins them.\n\n"
               "mpirun, srun and torchrun may start 'gyre train' instead; on one host nothing has to be said. On several, GYRE_KEY_FILE names\n"
               "a file of 64 hexadecimal digits that its owner alone may read, and GYRE_MASTER_HOST the host of rank 0 (Slurm and torchrun tell\n"
               "it). A PMIx server without a launcher's own variables tells no number of processes: GYRE_RANKS, GYRE_LOCAL_RANKS.\n\n"
               "Examples:\n"
               "  gyre launch --ranks 2 -- gyre train resnet20 cifar10/ --batch 64\n"
               "  gyre launch --ranks 4 --restarts 3 -- gyre train resnet20 cifar10/ --resume --checkpoint-every 100\n"
               "  gyre launch --workers 4 --servers 2 -- gyre train resnet20 cifar10/ --sync server\n"
               "  gyre launch --hosts hosts.txt -- gyre train resnet50 /data/imagenet --batch 32\n",
    .least = 1, .most = 256, .bytes = sizeof(struct launch_values),
    .groups = { { launch_rows, CLI_COUNT(launch_rows), 0 } },
    .shorts = launch_shorts,
    .run = launch_run,
};
