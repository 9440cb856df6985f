/* SPDX-License-Identifier: MIT */
/* rendezvous.c: the file of a host: "KEY PORT PID\n". It is made under another name and renamed, so
 * it is whole when it is seen. A file whose process is gone is a leftover. The job gives its name;
 * the user gives that of its folder, which all processes of the host can see, also other users'. So
 * nothing is opened there that could make this process wait, and only this user's files are
 * used. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "net/comm/rendezvous.h"
#include "net/transport/socket.h"

#define RENDEZVOUS_KEY (2 * GY_NET_KEY_BYTES)
#define RENDEZVOUS_LOOK_NS 10000000
#define RENDEZVOUS_AGAIN_NS 1000000 /* another job of the user has just taken the folder away */
#define RENDEZVOUS_PORT 47201 /* where nobody says another */

static int rendezvous_number(const char *(*get)(const char *), const char *name, int64_t least, int64_t most, int *out, struct gy_error *err)
{
    const char *text = get(name);
    int64_t value;
    if (!text || text[0] == 0)
        return GY_OK;
    if (gy_text_int(text, least, most, &value) != 0)
        return GY_FAIL(err, GY_E_ARG, "%s is \"%s\"; it must be a number from %" PRId64 " to %" PRId64, name, text, least, most);
    *out = (int)value;
    return GY_OK;
}

/* ---- one host ---- */

static void rendezvous_names(const struct gy_net_launcher *place, struct gy_net_rendezvous *meeting)
{
    struct gy_sha256 sha;
    struct stat at;
    unsigned char digest[32];
    char hex[65];
    gy_sha256_open(&sha);
    gy_sha256_add(&sha, place->launcher, strlen(place->launcher) + 1);
    gy_sha256_add(&sha, place->job, strlen(place->job) + 1);
    gy_sha256_close(&sha, digest);
    gy_sha256_hex(digest, hex);
    snprintf(meeting->folder, sizeof meeting->folder, "%s/gyre-%ld", stat("/dev/shm", &at) == 0 && S_ISDIR(at.st_mode) ? "/dev/shm" : "/tmp",
             (long)geteuid());
    snprintf(meeting->name, sizeof meeting->name, "%.24s", hex);
}

/* Checks that the file at path is of this kind, belongs to this user, and is closed to others. Else
 * the sentence says what is wrong. */
static int rendezvous_check(const char *path, const struct stat *st, int right, const char *kind, struct gy_error *err)
{
    if (st->st_uid != geteuid())
        return GY_FAIL(err, GY_E_IO, "%s belongs to user %ld, not to this one, %ld: the ranks of this host cannot meet there", path, (long)st->st_uid,
                       (long)geteuid());
    if (!right)
        return GY_FAIL(err, GY_E_IO, "%s is no %s: the ranks of this host cannot meet there", path, kind);
    if ((st->st_mode & 077) != 0)
        return GY_FAIL(err, GY_E_IO, "%s is open to others, mode %03o: the ranks of this host cannot meet there", path, (unsigned)st->st_mode & 0777);
    return GY_OK;
}

/* Opens the folder. *fd -1: it is not there. */
static int rendezvous_folder(const char *path, int *fd, struct gy_error *err)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int problem = errno;
    if (*fd < 0 && problem == ENOENT) /* whatever is there by now: another job may have made it */
        return GY_OK;
    const int there = *fd >= 0 ? fstat(*fd, &st) == 0 : lstat(path, &st) == 0;
    const int status = there ? rendezvous_check(path, &st, S_ISDIR(st.st_mode), "folder", err) : GY_E_IO;
    if (status == GY_OK && *fd >= 0)
        return GY_OK;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return status != GY_OK && there ? status : GY_FAIL(err, GY_E_IO, "%s: cannot be opened: %s", path, strerror(problem));
}

/* What has the file's name in the folder, should there be anything, must be a file of this user. */
static int rendezvous_check_file(const struct gy_net_rendezvous *meeting, int folder, struct gy_error *err)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", meeting->folder, meeting->name);
    return fstatat(folder, meeting->name, &st, AT_SYMLINK_NOFOLLOW) != 0 ? GY_OK : rendezvous_check(path, &st, S_ISREG(st.st_mode), "file", err);
}

/* Writes the file. > 0: the folder was taken away meanwhile, by another job that ended. */
static int rendezvous_write(const struct gy_net_rendezvous *meeting, const char *text, size_t bytes, struct gy_error *err)
{
    char temporary[64];
    int folder;
    (void)mkdir(meeting->folder, 0700);
    GY_TRY(rendezvous_folder(meeting->folder, &folder, err));
    if (folder < 0)
        return 1;
    int status = rendezvous_check_file(meeting, folder, err);
    snprintf(temporary, sizeof temporary, "%s.%ld", meeting->name, (long)getpid());
    const int fd = status == GY_OK ? openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    const int good = fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes && renameat(folder, temporary, folder, meeting->name) == 0;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !good)
        unlinkat(folder, temporary, 0);
    close(folder);
    if (status == GY_OK && !good && why == ENOENT)
        return 1;
    return status != GY_OK || good ? status
                                   : GY_FAIL(err, GY_E_IO, "%s/%s: cannot be made for the other ranks: %s", meeting->folder, meeting->name, strerror(why));
}

static int rendezvous_leave(struct gy_net_rendezvous *meeting, struct gy_net_boot_config *config, struct gy_error *err)
{
    char text[RENDEZVOUS_KEY + 64];
    GY_TRY(gy_net_random(config->key, sizeof config->key, err));
    GY_TRY(gy_net_listen(NULL, 0, &config->listener, &config->place.port, err));
    gy_net_key_text(config->key, text);
    const int bytes = RENDEZVOUS_KEY + snprintf(text + RENDEZVOUS_KEY, sizeof text - RENDEZVOUS_KEY, " %d %ld\n", config->place.port, (long)getpid());
    const int64_t deadline = gy_clock_ns() + config->wait_ns;
    const struct timespec pause = {0, RENDEZVOUS_AGAIN_NS};
    do {
        const int status = rendezvous_write(meeting, text, (size_t)bytes, err);
        if (status <= 0)
            return status;
        nanosleep(&pause, NULL);
    } while (gy_clock_ns() < deadline);
    return GY_FAIL(err, GY_E_IO, "%s is taken away again and again", meeting->folder);
}

/* What the file says. 1: it is of a living rank 0. */
static int rendezvous_take(int fd, struct gy_net_boot_config *config)
{
    char text[RENDEZVOUS_KEY + 64] = {0}, *rest;
    int64_t port, pid;
    if (gy_net_key_take(fd, config->key, NULL) != GY_OK || read(fd, text, sizeof text - 1) <= 2 || !(rest = strchr(text + 1, ' ')))
        return 0;
    *rest++ = 0;
    rest[strcspn(rest, "\n")] = 0;
    if (gy_text_int(text + 1, 1, 65535, &port) != 0 || gy_text_int(rest, 1, INT_MAX, &pid) != 0 || kill((pid_t)pid, 0) != 0)
        return 0;
    config->place.port = (int)port;
    return 1;
}

/* 1: it was there and is of a living rank 0; 0: not yet; < 0: something else is in its place. */
static int rendezvous_read(const struct gy_net_rendezvous *meeting, struct gy_net_boot_config *config, struct gy_error *err)
{
    int folder;
    GY_TRY(rendezvous_folder(meeting->folder, &folder, err));
    if (folder < 0)
        return 0;
    const int status = rendezvous_check_file(meeting, folder, err);
    const int fd = status == GY_OK ? openat(folder, meeting->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    close(folder);
    if (fd < 0)
        return status;
    const int found = rendezvous_take(fd, config);
    close(fd);
    return found;
}

static int rendezvous_find(const struct gy_net_rendezvous *meeting, struct gy_net_boot_config *config, struct gy_error *err)
{
    const int64_t deadline = gy_clock_ns() + config->wait_ns;
    const struct timespec pause = {0, RENDEZVOUS_LOOK_NS};
    int found;
    while ((found = rendezvous_read(meeting, config, err)) == 0) {
        if (gy_clock_ns() > deadline)
            return GY_FAIL(err, GY_E_PEER, "rank 0 did not come within %.1f s: it leaves no %s/%s", (double)config->wait_ns * 1e-9, meeting->folder,
                           meeting->name);
        nanosleep(&pause, NULL);
    }
    return found < 0 ? found : GY_OK;
}

static int rendezvous_on_host(struct gy_net_rendezvous *meeting, struct gy_net_boot_config *config, struct gy_error *err)
{
    gy_text_copy(config->place.host, sizeof config->place.host, "127.0.0.1");
    rendezvous_names(&config->place, meeting);
    const int status = config->place.rank == 0 ? rendezvous_leave(meeting, config, err) : rendezvous_find(meeting, config, err);
    if (config->place.rank > 0 || status != GY_OK)
        meeting->name[0] = 0;
    if (status != GY_OK && config->listener >= 0) {
        close(config->listener);
        config->listener = -1;
    }
    return status;
}

/* ---- several hosts ---- */

/* torchrun keeps its own port busy. */
static void rendezvous_port(struct gy_net_boot_config *config, const char *(*get)(const char *))
{
    const int taken = config->place.launcher && strcmp(config->place.launcher, "torchrun") == 0 && !get("GYRE_MASTER_PORT");
    config->place.port = config->place.port == 0 ? RENDEZVOUS_PORT : config->place.port + taken;
}

static int rendezvous_by_file(struct gy_net_boot_config *config, const char *path, const char *(*get)(const char *), struct gy_error *err)
{
    GY_TRY(gy_net_key_read(path, config->key, err));
    rendezvous_port(config, get);
    return GY_OK;
}

static int rendezvous_by_pipe(struct gy_net_boot_config *config, int fd, const char *(*get)(const char *), struct gy_error *err)
{
    GY_TRY(gy_net_key_take(fd, config->key, err));
    if (fd > 2)
        close(fd);
    if (config->place.rank == 0)
        GY_TRY(rendezvous_number(get, "GYRE_LISTEN_FD", 0, INT_MAX, &config->listener, err));
    if (config->listener >= 0 && (fcntl(config->listener, F_SETFD, FD_CLOEXEC) != 0 || fcntl(config->listener, F_SETFL, O_NONBLOCK) != 0))
        return GY_FAIL(err, GY_E_ARG, "GYRE_LISTEN_FD is %d, which is not open: %s", config->listener, strerror(errno));
    return GY_OK;
}

GY_INT int gy_net_rendezvous(struct gy_net_rendezvous *meeting, struct gy_net_boot_config *config, const char *(*get)(const char *name),
                             struct gy_error *err)
{
    const struct gy_net_launcher *p = &config->place;
    const char *file = get("GYRE_KEY_FILE");
    int fd = -1, epoch = 0;
    meeting->name[0] = 0;
    config->listener = -1;
    GY_TRY(rendezvous_number(get, "GYRE_EPOCH", 0, INT_MAX, &epoch, err));
    GY_TRY(rendezvous_number(get, "GYRE_KEY_FD", 0, INT_MAX, &fd, err));
    config->epoch = (uint32_t)epoch;
    if (fd >= 0)
        return rendezvous_by_pipe(config, fd, get, err);
    if (file && file[0] != 0)
        return rendezvous_by_file(config, file, get, err);
    if (p->locals == p->ranks && p->job[0] != 0)
        return rendezvous_on_host(meeting, config, err);
    return GY_FAIL(err, GY_E_UNSUPPORTED, "the variables of %s say that this is rank %d of %d; on several hosts the ranks need a key that they share: "
                   "GYRE_KEY_FILE, a file of 64 hexadecimal digits that its owner alone may read%s; gyre launch brings both, and GYRE_RANK=0 "
                   "GYRE_RANKS=1 trains alone", p->launcher, p->rank, p->ranks,
                   p->host[0] != 0 ? "" : ", and GYRE_MASTER_HOST, where rank 0 is");
}

GY_INT void gy_net_rendezvous_end(struct gy_net_rendezvous *meeting)
{
    char path[128];
    if (meeting->name[0] == 0)
        return;
    snprintf(path, sizeof path, "%s/%s", meeting->folder, meeting->name);
    if (unlink(path) == 0)
        (void)rmdir(meeting->folder); /* not empty: another job meets there */
    meeting->name[0] = 0;
}
