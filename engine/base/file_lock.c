/* SPDX-License-Identifier: MIT */
/* file_lock.c: takes a lock file by fcntl, signs it, and removes it. */
#include "engine/base/file_lock.h"
#include "engine/base/file.h"
#include "engine/base/text.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__)
#define LOCK_SET 37 /* F_OFD_SETLK, which POSIX headers hide: of an open file, not of a process */
#else
#define LOCK_SET F_SETLK
#endif

static int lock_fail(const char *what, struct gy_error *err)
{
    char why[160];
    return GY_FAIL(err, GY_E_IO, "%.300s: cannot be written: %s", what, gy_file_reason(errno, why));
}

/* Process and host, in the lock file. */
static int lock_sign(int fd)
{
    char host[128] = "", text[192];
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    const int bytes = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host[0] ? host : "this host");
    return bytes > 0 && ftruncate(fd, 0) == 0 ? gy_file_write_all(fd, text, (size_t)bytes) : -1;
}

static int lock_refused(int fd, const char *what, struct gy_error *err)
{
    char text[160];
    ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
    bytes = bytes > 0 && text[bytes - 1] == '\n' ? bytes - 1 : 0;
    text[bytes] = 0;
    for (ssize_t i = 0; i < bytes; i++)
        text[i] = text[i] >= ' ' && text[i] < 127 ? text[i] : '?';
    return GY_FAIL(err, GY_E_STATE, "%.300s is being written already%s%s; two at once would remove "
                   "each other's files", what, bytes ? ", by " : "", text);
}

/* The file of that name may be another one by now: its last owner has removed what is locked. */
static int lock_stands(int fd, const char *path)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

/* *again: 1: the file was gone when it was locked. */
static int lock_try(struct gy_lock *lock, const char *what, int *again, struct gy_error *err)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    const int fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    *again = 0;
    if (fd < 0)
        return lock_fail(what, err);
    const int failed = fcntl(fd, LOCK_SET, &whole) != 0, reason = errno;
    if (failed && (reason == EACCES || reason == EAGAIN)) {
        const int status = lock_refused(fd, what, err);
        close(fd);
        return status;
    }
    *again = !failed && !lock_stands(fd, lock->path);
    if (*again) {
        close(fd);
        return GY_OK;
    }
    lock->fd = fd;
    lock->open = 1;
    if (lock_sign(fd) == 0)
        return GY_OK;
    lock_fail(what, err);
    gy_lock_drop(lock);
    return GY_E_IO;
}

GY_INT int gy_lock_take(struct gy_lock *lock, const char *path, const char *what, struct gy_error *err)
{
    int again = 1;
    lock->open = 0;
    if (gy_text_copy(lock->path, sizeof lock->path, path) != 0)
        return GY_FAIL(err, GY_E_ARG, "path '%.80s' is longer than %zu bytes", path, sizeof lock->path - 1);
    for (int turn = 0; again && turn < 100; turn++)
        GY_TRY(lock_try(lock, what, &again, err));
    return again ? GY_FAIL(err, GY_E_STATE, "%.300s is made and removed by others all the time", lock->path) : GY_OK;
}

GY_INT int gy_lock_beside(struct gy_lock *lock, const char *path, struct gy_error *err)
{
    char name[4096];
    lock->open = 0;
    if ((size_t)snprintf(name, sizeof name, "%s.lock", path) >= sizeof name)
        return GY_FAIL(err, GY_E_ARG, "path '%.80s' is longer than %zu bytes", path, sizeof name - sizeof ".lock");
    return gy_lock_take(lock, name, path, err);
}

GY_INT int gy_run_folder_lock(struct gy_lock *lock, const char *folder, struct gy_error *err)
{
    char path[4096];
    GY_TRY(gy_file_join(path, sizeof path, folder, "run.lock", err));
    return gy_lock_take(lock, path, folder, err);
}

GY_INT void gy_lock_drop(struct gy_lock *lock)
{
    if (!lock->open)
        return;
    remove(lock->path);
    close(lock->fd);
    lock->open = 0;
}
