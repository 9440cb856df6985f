/* SPDX-License-Identifier: MIT */
/* t_net_rendezvous.c: ranks of one host meet in a folder of shared memory that belongs to their
 * user. Another user, or a careless one, puts something in its place or in that of the file. Both
 * ranks say at once whose or what it is, and neither waits for it. Needs root, to be several
 * users. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "net/comm/rendezvous.h"
#include "tests/t.h"

#define TM_WAIT 20000000000LL
#define TM_ROUNDS 60
#define TM_BURST 2000 /* jobs that begin and end at once, before a pause */

enum tm_what { TM_NOTHING, TM_FOLDER, TM_FIFO, TM_FILE, TM_LINK };
struct tm_case {
    enum tm_what what;
    int own, inside;  /* of the user that meets; in the place of the file, not of the folder */
    mode_t mode;
    const char *words;
};
struct tm_left { /* in memory of all */
    int status, port, done;
    int listens; /* after a failure */
    unsigned char key[GY_NET_KEY_BYTES];
    double seconds;
    char text[480];
};

static const char *tm_get(const char *name)
{
    (void)name;
    return NULL;
}

static void tm_pause(void) { nanosleep(&(const struct timespec){0, 10000000}, NULL); }

/* One rank meets; rank 0 stays until the other has. */
static void tm_rank(struct tm_left *left, int rank, uid_t user)
{
    struct gy_net_boot_config config = { .place = { .rank = rank, .ranks = 2, .locals = 2, .launcher = "gyre", .job = "t_net_meet"}, .wait_ns = TM_WAIT };
    struct gy_net_rendezvous meeting;
    struct gy_error err = {0};
    const int64_t began = gy_clock_ns();
    left[rank].status = setuid(user) != 0 ? GY_E_BUG : gy_net_rendezvous(&meeting, &config, tm_get, &err);
    left[rank].seconds = (double)(gy_clock_ns() - began) * 1e-9;
    left[rank].port = config.place.port;
    left[rank].listens = left[rank].status != GY_OK && config.listener >= 0;
    memcpy(left[rank].key, config.key, sizeof config.key);
    memcpy(left[rank].text, err.text, sizeof err.text);
    __atomic_store_n(&left[rank].done, 1, __ATOMIC_RELEASE);
    while (left[rank].status == GY_OK && rank == 0 && !__atomic_load_n(&left[1].done, __ATOMIC_ACQUIRE))
        tm_pause();
    if (left[rank].status == GY_OK)
        gy_net_rendezvous_end(&meeting);
}

static void tm_put(const struct tm_case *c, const char *path, uid_t user)
{
    int good = 1;
    if (c->what == TM_FOLDER)
        good = mkdir(path, c->mode) == 0;
    else if (c->what == TM_FIFO)
        good = mkfifo(path, c->mode) == 0;
    else if (c->what == TM_FILE)
        good = close(open(path, O_WRONLY | O_CREAT | O_EXCL, c->mode)) == 0;
    else if (c->what == TM_LINK)
        good = symlink("/", path) == 0;
    if (c->what != TM_NOTHING && c->what != TM_LINK)
        good = good && chmod(path, c->mode) == 0;
    if (c->what != TM_NOTHING)
        good = good && lchown(path, c->own ? user : 0, 0) == 0;
    T_CHECK_MSG(good, "%s cannot be put in the way", path);
}

static void tm_take_away(const char *folder, const char *file)
{
    (void)unlink(file);
    (void)unlink(folder);
    (void)rmdir(file);
    (void)rmdir(folder);
}

/* The name of the file: it is found by a rank 0 that leaves it. */
static void tm_find(uid_t user, struct gy_net_rendezvous *shared)
{
    const pid_t pid = fork();
    if (pid == 0) {
        struct gy_net_boot_config config = { .place = { .ranks = 2, .locals = 2, .launcher = "gyre", .job = "t_net_meet"}, .wait_ns = TM_WAIT };
        struct gy_net_rendezvous meeting;
        if (setuid(user) == 0 && gy_net_rendezvous(&meeting, &config, tm_get, NULL) == GY_OK) {
            *shared = meeting;
            gy_net_rendezvous_end(&meeting);
        }
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void tm_run(const struct tm_case *c, struct tm_left *left, const struct gy_net_rendezvous *names, uid_t user)
{
    char file[128];
    pid_t pids[2];
    snprintf(file, sizeof file, "%s/%s", names->folder, names->name);
    if (c->inside)
        T_CHECK(mkdir(names->folder, 0700) == 0 && chown(names->folder, user, 0) == 0);
    tm_put(c, c->inside ? file : names->folder, user);
    memset(left, 0, 2 * sizeof *left);
    fflush(stdout);
    for (int r = 1; r >= 0; r--)
        if ((pids[r] = fork()) == 0) {
            tm_rank(left, r, user);
            _exit(0);
        }
    for (int k = 0; k < 300 && !(left[0].done && left[1].done); k++)
        tm_pause();
    for (int r = 0; r < 2; r++) {
        T_CHECK_MSG(left[r].done && left[r].seconds < 2, "rank %d waits %.1f s for what is in the way: %s", r, left[r].seconds, c->words);
        if (!left[r].done)
            kill(pids[r], SIGKILL);
        waitpid(pids[r], NULL, 0);
        T_CHECK_MSG(!left[r].listens, "rank %d is left with its listener: %s", r, c->words);
        if (c->what == TM_NOTHING)
            T_CHECK_MSG(left[r].status == GY_OK && left[r].port == left[0].port && memcmp(left[r].key, left[0].key, sizeof left->key) == 0,
                        "rank %d: %d %s", r, left[r].status, left[r].text);
        else
            T_CHECK_MSG(left[r].status == GY_E_IO && strstr(left[r].text, names->folder) && strstr(left[r].text, c->words),
                        "rank %d says %d, '%s', not '%s'", r, left[r].status, left[r].text, c->words);
    }
    struct stat st;
    T_CHECK_MSG(c->what != TM_NOTHING || lstat(names->folder, &st) != 0, "%s is left behind", names->folder);
    tm_take_away(names->folder, file);
}

/* Other jobs of the user begin and end meanwhile: each makes the folder, and takes it away. */
static void tm_neighbours(struct tm_left *left, const struct gy_net_rendezvous *names, uid_t user)
{
    fflush(stdout);
    const pid_t neighbour = fork();
    if (neighbour == 0 && setuid(user) == 0)
        for (int k = 0;; k++) {
            (void)mkdir(names->folder, 0700);
            (void)rmdir(names->folder);
            if (k % TM_BURST == 0)
                nanosleep(&(const struct timespec){ 0, 1000000 }, NULL);
        }
    for (int k = 0; k < TM_ROUNDS; k++) {
        pid_t pids[2];
        memset(left, 0, 2 * sizeof *left);
        for (int r = 1; r >= 0; r--)
            if ((pids[r] = fork()) == 0) {
                tm_rank(left, r, user);
                _exit(0);
            }
        for (int r = 0; r < 2; r++) {
            waitpid(pids[r], NULL, 0);
            T_CHECK_MSG(left[r].status == GY_OK, "rank %d beside other jobs: %d %s", r, left[r].status, left[r].text);
        }
    }
    kill(neighbour, SIGKILL);
    waitpid(neighbour, NULL, 0);
    (void)rmdir(names->folder);
}

int main(void)
{
    static const struct tm_case cases[] = {
        {TM_NOTHING, 0, 0, 0, ""},
        {TM_FOLDER, 0, 0, 0700, "belongs to user 0"}, {TM_FOLDER, 0, 0, 0777, "belongs to user 0"}, {TM_FIFO, 0, 0, 0666, "belongs to user 0"},
        {TM_FILE, 0, 0, 0666, "belongs to user 0"}, {TM_LINK, 0, 0, 0, "belongs to user 0"}, {TM_LINK, 1, 0, 0, "is no folder"},
        {TM_FIFO, 1, 0, 0600, "is no folder"}, {TM_FILE, 1, 0, 0600, "is no folder"}, {TM_FOLDER, 1, 0, 0755, "is open to others, mode 755"},
        {TM_FIFO, 0, 1, 0666, "belongs to user 0"}, {TM_FILE, 0, 1, 0644, "belongs to user 0"}, {TM_FIFO, 1, 1, 0600, "is no file"},
        {TM_FOLDER, 1, 1, 0700, "is no file"}, {TM_LINK, 1, 1, 0, "is no file"}, {TM_FILE, 1, 1, 0644, "is open to others, mode 644"},
    };
    const uid_t user = 100000 + (uid_t)getpid() % 800000; /* nobody else's */
    struct tm_shared {
        struct tm_left left[2];
        struct gy_net_rendezvous names;
    } *shared = NULL;
    if (geteuid() != 0) {
        T_SKIP("several users need root");
        T_END("t_net_rendezvous");
    }
    FILE *const memory = tmpfile();
    shared = memory && ftruncate(fileno(memory), (off_t)sizeof *shared) == 0
                 ? mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(memory), 0) : MAP_FAILED;
    if (!T_CHECK(shared != MAP_FAILED))
        T_END("t_net_rendezvous");
    tm_find(user, &shared->names);
    if (T_CHECK(shared->names.name[0] != 0))
        for (size_t i = 0; i < GY_COUNT(cases); i++)
            tm_run(&cases[i], shared->left, &shared->names, user);
    if (t_failed == 0)
        tm_neighbours(shared->left, &shared->names, user);
    T_END("t_net_rendezvous");
}
