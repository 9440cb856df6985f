/* SPDX-License-Identifier: MIT */
/* file.c: writes to a temporary file, syncs and renames it; reads at any place, or a file whole. */
#include "engine/base/file.h"
#include "engine/base/text.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

GY_INT const char *gy_file_reason(int reason, char text[160])
{
    struct rlimit limit;
    if (reason == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, 160, "%.80s; the limit of this process is %" PRIu64 " bytes", strerror(reason), (uint64_t)limit.rlim_cur);
    else
        snprintf(text, 160, "%.150s", strerror(reason));
    return text;
}

static int file_fail(struct gy_error *err, const char *path, const char *what)
{
    char why[160];
    gy_file_reason(errno, why);
    return GY_FAIL(err, GY_E_IO, "%.300s: %s: %s", path, what, why);
}

/* The first error of a file stays; whoever asks later gets the same sentence. */
static int file_out_status(const struct gy_outfile *out, struct gy_error *err)
{
    char why[160];
    if (out->status == GY_OK)
        return GY_OK;
    return GY_FAIL(err, out->status, "%.300s: cannot be written: %s", out->path, gy_file_reason(out->reason, why));
}

static int file_out_fail(struct gy_outfile *out, struct gy_error *err)
{
    out->reason = errno;
    out->status = GY_E_IO;
    return file_out_status(out, err);
}

/* A new file "target.part", process, three digits. Names that other writers have are skipped. A
 * device or a pipe is written itself: a rename would put a file in its place. */
static int file_make_temp(struct gy_outfile *out)
{
    struct stat info;
    const int there = stat(out->path, &info) == 0;
    if (!there && errno != ENOENT)
        return -1;
    if (there && !S_ISREG(info.st_mode))
        return open(out->path, O_WRONLY | O_CLOEXEC);
    for (int turn = 0; turn < 1000; turn++) {
        const int length = snprintf(out->temp, sizeof out->temp, "%s.part%ld%03d", out->path, (long)getpid(), turn);
        if (length < 0 || (size_t)length >= sizeof out->temp) {
            errno = ENAMETOOLONG;
            return -1;
        }
        const int fd = open(out->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

GY_INT int gy_outfile_open(struct gy_outfile *out, const char *path, struct gy_error *err)
{
    memset(out, 0, offsetof(struct gy_outfile, buffer));
    if (gy_text_copy(out->path, sizeof out->path, path) != 0) {
        errno = ENAMETOOLONG;
        return file_out_fail(out, err);
    }
    const int fd = file_make_temp(out);
    if (fd < 0)
        return file_out_fail(out, err);
    out->fd = fd;
    out->open = 1;
    return GY_OK;
}

GY_INT void gy_outfile_abandon(struct gy_outfile *out)
{
    if (!out->open)
        return;
    close(out->fd);
    out->open = 0;
    remove(out->temp);
}

#if defined(__linux__)
#define FILE_BEGIN_WRITE 2 /* SYNC_FILE_RANGE_WRITE; POSIX headers hide it and the function */
extern int sync_file_range(int, off_t, off_t, unsigned);

GY_INT void gy_file_begin_sync(int fd) { (void)sync_file_range(fd, 0, 0, FILE_BEGIN_WRITE); }
#else
GY_INT void gy_file_begin_sync(int fd) { (void)fd; }
#endif

GY_INT int gy_file_write_all(int fd, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        const ssize_t some = write(fd, (const unsigned char *)bytes + done, count - done);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0) {
            errno = some == 0 ? EIO : errno;
            return -1;
        }
        done += (size_t)some;
    }
    return 0;
}

GY_INT int gy_file_sync(int fd)
{
    int failed;
    do
        failed = fsync(fd);
    while (failed != 0 && errno == EINTR);
    return failed;
}

static int file_out_flush(struct gy_outfile *out)
{
    const int failed = gy_file_write_all(out->fd, out->buffer, out->held);
    out->held = 0;
    return failed ? file_out_fail(out, NULL) : GY_OK;
}

/* Gathers bytes in the buffer; a piece that is larger than the buffer is written at once. */
static int file_out_put(struct gy_outfile *out, const unsigned char *bytes, size_t count)
{
    if (out->held + count > sizeof out->buffer)
        GY_TRY(file_out_flush(out));
    if (count > sizeof out->buffer)
        return gy_file_write_all(out->fd, bytes, count) ? file_out_fail(out, NULL) : GY_OK;
    if (count)
        memcpy(out->buffer + out->held, bytes, count);
    out->held += count;
    return GY_OK;
}

static int file_out_open(const struct gy_outfile *out, struct gy_error *err)
{
    GY_TRY(file_out_status(out, err));
    return out->open ? GY_OK : GY_FAIL(err, GY_E_STATE, "%.300s: not open for writing", out->path);
}

GY_INT int gy_outfile_write(struct gy_outfile *out, const void *bytes, size_t count, struct gy_error *err)
{
    GY_TRY(file_out_open(out, err));
    for (size_t done = 0, some; done < count; done += some) {
        some = count - done < GY_FILE_AHEAD ? count - done : GY_FILE_AHEAD;
        if (file_out_put(out, (const unsigned char *)bytes + done, some) != GY_OK)
            return file_out_status(out, err);
        if (some == GY_FILE_AHEAD)
            gy_file_begin_sync(out->fd);
    }
    return GY_OK;
}

GY_INT int gy_outfile_rewind(struct gy_outfile *out, struct gy_error *err)
{
    GY_TRY(file_out_open(out, err));
    if (file_out_flush(out) == GY_OK && lseek(out->fd, 0, SEEK_SET) != 0)
        file_out_fail(out, NULL);
    return file_out_status(out, err);
}

/* The rename is durable only when the folder is. */
static int file_sync_folder(const char *path, struct gy_error *err)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    const size_t bytes = slash ? (size_t)(slash - path) : 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(bytes ? bytes : 1) : 1, slash ? path : ".");
    static const char what[] = "its new file is in place, but not synced";
    const int fd = open(folder, O_RDONLY | O_CLOEXEC);
    if (fd < 0) /* a folder may allow writing but not reading: then it cannot be synced */
        return errno == EACCES ? GY_OK : file_fail(err, folder, what);
    const int failed = gy_file_sync(fd) != 0 && errno != EINVAL;
    const int status = failed ? file_fail(err, folder, what) : GY_OK;
    close(fd);
    return status;
}

GY_INT int gy_outfile_commit(struct gy_outfile *out, struct gy_error *err)
{
    if (!out->open)
        return file_out_open(out, err);
    if (out->status == GY_OK && file_out_flush(out) == GY_OK && out->temp[0] && gy_file_sync(out->fd) != 0)
        file_out_fail(out, NULL);
    const int closed = close(out->fd);
    out->open = 0;
    if (out->status == GY_OK && ((closed != 0 && errno != EINTR) || (out->temp[0] && rename(out->temp, out->path) != 0)))
        file_out_fail(out, NULL);
    if (out->status != GY_OK) {
        remove(out->temp);
        return file_out_status(out, err);
    }
    return out->temp[0] ? file_sync_folder(out->path, err) : GY_OK;
}

/* ---- reading ---- */

static int file_open_read(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    while (fd < 0 && errno == EINTR);
    return fd;
}

GY_INT int gy_file_open(struct gy_file *file, const char *path, struct gy_error *err)
{
    struct stat info;
    memset(file, 0, sizeof *file);
    snprintf(file->name, sizeof file->name, "%.300s", path);
    const int fd = file_open_read(path, O_NONBLOCK); /* a pipe is refused, not waited for */
    if (fd < 0)
        return file_fail(err, path, "cannot be read");
    int status = GY_OK;
    if (fstat(fd, &info) != 0)
        status = file_fail(err, path, "cannot be read");
    else if (!S_ISREG(info.st_mode))
        status = GY_FAIL(err, GY_E_IO, "%.300s: not a regular file", path);
    if (status != GY_OK) {
        close(fd);
        return status;
    }
    file->size = (uint64_t)info.st_size;
    file->fd = fd;
    file->open = 1;
    return GY_OK;
}

GY_INT struct gy_file gy_file_of(const void *bytes, size_t count, const char *name)
{
    struct gy_file file = { .bytes = count ? bytes : (const unsigned char *)"", .size = count };
    snprintf(file.name, sizeof file.name, "%.300s", name);
    return file;
}

GY_INT void gy_file_close(struct gy_file *file)
{
    if (file->open)
        close(file->fd);
    memset(file, 0, sizeof *file);
}

GY_INT int gy_file_read_at(const struct gy_file *file, uint64_t at, void *to, size_t count, struct gy_error *err)
{
    if (at > file->size || count > file->size - at)
        return GY_FAIL(err, GY_E_TRUNCATED, "%.300s: %zu bytes at byte %" PRIu64 " of %" PRIu64, file->name, count, at, file->size);
    if (file->bytes && count)
        memcpy(to, file->bytes + at, count);
    for (size_t done = 0; !file->bytes && done < count;) {
        const ssize_t some = pread(file->fd, (unsigned char *)to + done, count - done, (off_t)(at + done));
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return file_fail(err, file->name, "cannot be read");
        if (some == 0)
            return GY_FAIL(err, GY_E_TRUNCATED, "%.300s: nothing is at byte %" PRIu64 " any more; it had %" PRIu64 " bytes when it was opened",
                           file->name, at + done, file->size);
        done += (size_t)some;
    }
    return GY_OK;
}

GY_INT int gy_file_begins(const char *path, const void *magic, size_t bytes)
{
    unsigned char head[16];
    struct gy_file file;
    if (bytes > sizeof head || gy_file_open(&file, path, NULL) != GY_OK)
        return 0;
    const int same = gy_file_read_at(&file, 0, head, bytes, NULL) == GY_OK && memcmp(head, magic, bytes) == 0;
    gy_file_close(&file);
    return same;
}

/* What was read so far: `bytes` bytes, in memory of `room` bytes. The NUL comes at the end. */
struct file_text {
    char *text;
    size_t room, bytes;
};

static int file_resize(const struct gy_alloc *alloc, struct file_text *t, size_t room, const char *path,
                       struct gy_error *err)
{
    char *text = gy_alloc_grow(alloc, t->text, t->room, room, 1);
    if (!text)
        return GY_NOMEM(err, path, room);
    t->text = text;
    t->room = room;
    return GY_OK;
}

/* Reads to the end, whatever size was foretold: a pipe has none, and a file may change. */
static int file_read_all(const struct gy_alloc *alloc, int fd, const char *path, size_t limit, struct file_text *t,
                         struct gy_error *err)
{
    for (;;) {
        const ssize_t some = read(fd, t->text + t->bytes, t->room - t->bytes);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return file_fail(err, path, "reading failed");
        if (some == 0)
            break;
        t->bytes += (size_t)some;
        if (t->bytes > limit)
            return GY_FAIL(err, GY_E_FORMAT, "%.300s: more than %zu bytes", path, limit);
        if (t->bytes < t->room)
            continue;
        GY_TRY(file_resize(alloc, t, t->room < limit / 2 ? 2 * t->room : limit + 1, path, err));
    }
    GY_TRY(file_resize(alloc, t, t->bytes + 1, path, err));
    t->text[t->bytes] = 0;
    return GY_OK;
}

static int file_read_open(const struct gy_alloc *alloc, int fd, const char *path, size_t limit, char **data,
                          size_t *bytes, struct gy_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || S_ISDIR(info.st_mode))
        return GY_FAIL(err, GY_E_IO, "%.300s: not a file", path);
    const int regular = S_ISREG(info.st_mode);
    if (regular && (uint64_t)info.st_size > limit)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: %" PRIu64 " bytes; at most %zu are read", path,
                       (uint64_t)info.st_size, limit);
    struct file_text t = { NULL, 0, 0 };
    int status = file_resize(alloc, &t, regular && info.st_size > 0 ? (size_t)info.st_size + 1 : 4096, path, err);
    if (status == GY_OK)
        status = file_read_all(alloc, fd, path, limit, &t, err);
    if (status != GY_OK) {
        gy_alloc_free(alloc, t.text, t.room);
        return status;
    }
    *data = t.text;
    *bytes = t.bytes;
    return GY_OK;
}

GY_INT int gy_file_read(const struct gy_alloc *alloc, const char *path, size_t limit, char **data, size_t *bytes,
                        struct gy_error *err)
{
    limit = limit < SIZE_MAX / 4 ? limit : SIZE_MAX / 4;
    const int fd = file_open_read(path, 0);
    if (fd < 0)
        return file_fail(err, path, "cannot be read");
    const int status = file_read_open(alloc, fd, path, limit, data, bytes, err);
    close(fd);
    return status;
}

GY_INT int gy_file_cache(char *path, size_t room, const char *name)
{
    const char *const cache = getenv("XDG_CACHE_HOME"), *const home = getenv("HOME");
    const int set = cache && cache[0] == '/', known = set || (home && home[0] == '/');
    const int bytes = known ? snprintf(path, room, "%s%s/gyre/%s", set ? cache : home, set ? "" : "/.cache", name) : -1;
    if (bytes > 0 && (size_t)bytes < room)
        return 0;
    path[0] = 0;
    return -1;
}

GY_INT int gy_file_exists(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    return S_ISDIR(info.st_mode) ? 2 : 1;
}

GY_INT int gy_file_make_folder(const char *path, struct gy_error *err)
{
    char part[4096];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part || !part[0])
        return GY_FAIL(err, GY_E_ARG, "folder path '%.80s' is empty or longer than %zu bytes", path, sizeof part - 1);
    for (char *p = part + 1;; p++) {
        const char end = *p;
        if (end != '/' && end != 0)
            continue;
        *p = 0;
        if (gy_file_exists(part) != 2 && mkdir(part, 0777) != 0 && errno != EEXIST)
            return file_fail(err, part, "cannot be made");
        if (end == 0)
            break;
        *p = '/';
    }
    if (gy_file_exists(path) != 2)
        return GY_FAIL(err, GY_E_IO, "%.300s: a file is in the way of this folder", path);
    return GY_OK;
}

GY_INT int gy_file_join(char *out, size_t room, const char *folder, const char *name, struct gy_error *err)
{
    const size_t length = strlen(folder);
    const char *slash = length == 0 || folder[length - 1] == '/' ? "" : "/";
    if ((size_t)snprintf(out, room, "%s%s%s", folder, slash, name) >= room)
        return GY_FAIL(err, GY_E_ARG, "path '%.80s/%.80s' is longer than %zu bytes", folder, name, room - 1);
    return GY_OK;
}
