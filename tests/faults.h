/* SPDX-License-Identifier: MIT */
/* faults.h: lets the n-th call of a kind fail. A program that includes this has its own realloc,
 * open, write, fsync and others. They go on to the C library, except for the one call that is to
 * fail. The library's memory comes from a hook of the test or from realloc. Its backends are copies
 * of the real ones, in whose tables every function that can fail counts. Only calls between
 * faults_begin and faults_end count. */
#ifndef GY_FAULTS_H
#define GY_FAULTS_H
#include "engine/base/mem.h"
#include "kernels/backend.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum faults_kind { FAULTS_MEMORY = 1, FAULTS_READ = 2, FAULTS_WRITE = 4, FAULTS_DEVICE = 8 };

/* How calls fail: the n-th alone, or it and all later ones, as on a disk that is full. */
enum faults_mode { FAULTS_ONCE, FAULTS_ON };

static struct {
    int kinds, mode;
    int64_t left;     /* calls that still go well */
    int hit;          /* calls that failed */
    const char *what; /* the first of them */
    int interrupts;   /* every second read or write is interrupted; the others get half the bytes */
    int64_t calls;    /* of reading and writing */
    unsigned char unsynced[1024]; /* by descriptor: 1: written since the last fsync */
    int64_t bytes;    /* of the hook that are held */
} faults;

static void faults_begin(int kinds, int mode, int64_t n)
{
    faults.mode = mode;
    faults.hit = 0;
    faults.what = "nothing";
    __atomic_store_n(&faults.left, n, __ATOMIC_SEQ_CST);
    __atomic_store_n(&faults.kinds, kinds, __ATOMIC_SEQ_CST);
}

/* How many calls failed. */
static int faults_end(void)
{
    __atomic_store_n(&faults.kinds, 0, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&faults.hit, __ATOMIC_SEQ_CST);
}

/* 1: this call is to fail. */
static int faults_now(int kind, const char *what)
{
    if (!(__atomic_load_n(&faults.kinds, __ATOMIC_RELAXED) & kind))
        return 0;
    const int64_t left = __atomic_fetch_sub(&faults.left, 1, __ATOMIC_SEQ_CST);
    if (faults.mode == FAULTS_ONCE ? left != 0 : left > 0)
        return 0;
    if (__atomic_fetch_add(&faults.hit, 1, __ATOMIC_SEQ_CST) == 0)
        faults.what = what;
    return 1;
}

static int faults_fails(int kind, const char *what, int reason)
{
    if (!faults_now(kind, what))
        return 0;
    errno = reason;
    return 1;
}

/* A call that a signal interrupts: 1. Else *bytes becomes what it may move. */
static int faults_interrupted(size_t *bytes)
{
    if (!__atomic_load_n(&faults.interrupts, __ATOMIC_RELAXED))
        return 0;
    *bytes = *bytes > 1 ? *bytes / 2 : *bytes;
    if (__atomic_fetch_add(&faults.calls, 1, __ATOMIC_RELAXED) % 2)
        return 0;
    errno = EINTR;
    return 1;
}

/* ---- memory ---- */

static void *faults_hook(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user;
    if (new_bytes == 0) {
        free(ptr);
        __atomic_fetch_sub(&faults.bytes, ptr ? (int64_t)old_bytes : 0, __ATOMIC_SEQ_CST);
        return NULL;
    }
    if (faults_now(FAULTS_MEMORY, "the hook"))
        return NULL;
    void *const now = malloc(new_bytes);
    if (now && ptr)
        memcpy(now, ptr, old_bytes < new_bytes ? old_bytes : new_bytes);
    if (now)
        free(ptr);
    if (now)
        __atomic_fetch_add(&faults.bytes, (int64_t)new_bytes - (ptr ? (int64_t)old_bytes : 0), __ATOMIC_SEQ_CST);
    return now;
}

/* ---- the C library ---- */

/* A new folder, in memory where the system has one for files. */
static inline void faults_folder(char *root, size_t room)
{
    static const char *const above[] = { "/dev/shm", "/tmp" };
    for (size_t i = 0; i < GY_COUNT(above); i++) {
        snprintf(root, room, "%s/gyre-test-XXXXXX", above[i]);
        if (mkdtemp(root))
            return;
    }
    _exit(2);
}

#ifndef RTLD_NEXT
#define RTLD_NEXT ((void *)-1L) /* POSIX headers hide it */
#endif

/* The C library's function of that name, as *out. */
static void faults_next(const char *name, void *out)
{
    void *const at = dlsym(RTLD_NEXT, name);
    if (!at)
        _exit(2);
    memcpy(out, &at, sizeof at);
}

void *realloc(void *ptr, size_t bytes)
{
    static void *(*next)(void *, size_t);
    if (!next)
        faults_next("realloc", &next);
    return faults_fails(FAULTS_MEMORY, "realloc", ENOMEM) ? NULL : next(ptr, bytes);
}

int open(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    va_list args;
    va_start(args, flags);
    const int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    if (!next)
        faults_next("open", &next);
    const int reads = (flags & O_ACCMODE) == O_RDONLY;
    return faults_fails(reads ? FAULTS_READ : FAULTS_WRITE, "open", reads ? EIO : ENOSPC) ? -1 : next(path, flags, mode);
}

/* What the system says of itself may be absent: nobody fails for it. */
static int faults_is_advice(const char *path) { return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0; }

FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*next)(const char *, const char *);
    if (!next)
        faults_next("fopen", &next);
    return !faults_is_advice(path) && faults_fails(mode[0] == 'r' ? FAULTS_READ : FAULTS_WRITE, "fopen", EIO) ? NULL : next(path, mode);
}

int fstat(int fd, struct stat *info)
{
    static int (*next)(int, struct stat *);
    if (!next)
        faults_next("fstat", &next);
    return faults_fails(FAULTS_READ, "fstat", EIO) ? -1 : next(fd, info);
}

int stat(const char *path, struct stat *info)
{
    static int (*next)(const char *, struct stat *);
    if (!next)
        faults_next("stat", &next);
    return faults_fails(FAULTS_READ, "stat", EIO) ? -1 : next(path, info);
}

void *mmap(void *at, size_t bytes, int may, int flags, int fd, off_t from)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (!next)
        faults_next("mmap", &next);
    return faults_fails(FAULTS_READ, "mmap", ENOMEM) ? MAP_FAILED : next(at, bytes, may, flags, fd, from);
}

ssize_t read(int fd, void *to, size_t bytes)
{
    static ssize_t (*next)(int, void *, size_t);
    if (!next)
        faults_next("read", &next);
    return faults_fails(FAULTS_READ, "read", EIO) || faults_interrupted(&bytes) ? -1 : next(fd, to, bytes);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t from)
{
    static ssize_t (*next)(int, void *, size_t, off_t);
    if (!next)
        faults_next("pread", &next);
    return faults_fails(FAULTS_READ, "pread", EIO) || faults_interrupted(&bytes) ? -1 : next(fd, to, bytes, from);
}

DIR *opendir(const char *path)
{
    static DIR *(*next)(const char *);
    if (!next)
        faults_next("opendir", &next);
    return faults_fails(FAULTS_READ, "opendir", EIO) ? NULL : next(path);
}

struct dirent *readdir(DIR *dir)
{
    static struct dirent *(*next)(DIR *);
    if (!next)
        faults_next("readdir", &next);
    return faults_fails(FAULTS_READ, "readdir", EIO) ? NULL : next(dir);
}

/* Marks a descriptor and returns its mark from before. Threads close and open the same number one
 * after another. */
static int faults_mark(int fd, unsigned char unsynced)
{
    return __atomic_exchange_n(&faults.unsynced[(unsigned)fd % sizeof faults.unsynced], unsynced, __ATOMIC_RELAXED);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    faults_mark(fd, 1);
    static ssize_t (*next)(int, const void *, size_t, off_t);
    if (!next)
        faults_next("pwrite", &next);
    return faults_fails(FAULTS_WRITE, "pwrite", ENOSPC) || faults_interrupted(&bytes) ? -1 : next(fd, from, bytes, at);
}

ssize_t write(int fd, const void *from, size_t bytes)
{
    faults_mark(fd, 1);
    static ssize_t (*next)(int, const void *, size_t);
    if (!next)
        faults_next("write", &next);
    return faults_fails(FAULTS_WRITE, "write", ENOSPC) || faults_interrupted(&bytes) ? -1 : next(fd, from, bytes);
}

/* A file without a name is lost in any case. */
static int faults_has_name(int fd)
{
    static int (*next)(int, struct stat *);
    struct stat info;
    if (!next)
        faults_next("fstat", &next);
    return next(fd, &info) == 0 && info.st_nlink > 0;
}

/* What was not written to, or is synced, closes without a fault. */
int close(int fd)
{
    static int (*next)(int);
    if (!next)
        faults_next("close", &next);
    const int fails = faults_mark(fd, 0) && faults_has_name(fd) && faults_now(FAULTS_WRITE, "close"), closed = next(fd);
    errno = fails ? ENOSPC : errno;
    return fails ? -1 : closed;
}


/* Nobody's disk is waited for. */
int fsync(int fd)
{
    size_t bytes = 0;
    faults_mark(fd, 0);
    return faults_fails(FAULTS_WRITE, "fsync", EIO) || faults_interrupted(&bytes) ? -1 : 0;
}

int rename(const char *from, const char *to)
{
    static int (*next)(const char *, const char *);
    if (!next)
        faults_next("rename", &next);
    return faults_fails(FAULTS_WRITE, "rename", EACCES) ? -1 : next(from, to);
}

int ftruncate(int fd, off_t bytes)
{
    static int (*next)(int, off_t);
    if (!next)
        faults_next("ftruncate", &next);
    return faults_fails(FAULTS_WRITE, "ftruncate", EIO) ? -1 : next(fd, bytes);
}

int mkdir(const char *path, mode_t mode)
{
    static int (*next)(const char *, mode_t);
    if (!next)
        faults_next("mkdir", &next);
    return faults_fails(FAULTS_WRITE, "mkdir", ENOSPC) ? -1 : next(path, mode);
}

#endif
