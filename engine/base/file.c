/* SPDX-License-Identifier: MIT */
/* Writing beside, syncing, renaming; mapping for reading. */
#include "file.h"
#include "text.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int file_fail(struct gy_error *err, const char *path, const char *what)
{
    const int reason = errno;
    return GY_FAIL(err, GY_E_IO, "%.300s: %s: %s", path, what, strerror(reason));
}

GY_INT int gy_outfile_open(struct gy_outfile *out, const char *path, struct gy_error *err)
{
    memset(out, 0, sizeof *out);
    if (gy_text_copy(out->path, sizeof out->path, path) != 0 ||
        (size_t)snprintf(out->temp, sizeof out->temp, "%s.part%ld", path, (long)getpid()) >= sizeof out->temp)
        return out->status = GY_FAIL(err, GY_E_ARG, "path '%.80s...' is longer than %zu bytes", path, sizeof out->temp - 32);
    out->file = fopen(out->temp, "wb");
    if (!out->file)
        return out->status = file_fail(err, path, "cannot be written");
    return GY_OK;
}

GY_INT void gy_outfile_abandon(struct gy_outfile *out)
{
    if (!out->file)
        return;
    fclose(out->file);
    out->file = NULL;
    remove(out->temp);
}

GY_INT int gy_outfile_write(struct gy_outfile *out, const void *bytes, size_t count, struct gy_error *err)
{
    if (out->status == GY_OK && count && fwrite(bytes, 1, count, out->file) != count)
        out->status = file_fail(err, out->path, "writing failed");
    return out->status;
}

/* The rename is durable only when the folder is. */
static int file_sync_folder(const char *path, struct gy_error *err)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    const size_t bytes = slash ? (size_t)(slash - path) : 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(bytes ? bytes : 1) : 1, slash ? path : ".");
    const int fd = open(folder, O_RDONLY);
    if (fd < 0)
        return file_fail(err, folder, "cannot be opened");
    const int status = fsync(fd) != 0 && errno != EINVAL ? file_fail(err, folder, "syncing failed") : GY_OK;
    close(fd);
    return status;
}

GY_INT int gy_outfile_commit(struct gy_outfile *out, struct gy_error *err)
{
    if (!out->file)
        return out->status != GY_OK ? out->status : GY_FAIL(err, GY_E_STATE, "%.300s: not open for writing", out->path);
    if (out->status == GY_OK && (fflush(out->file) != 0 || fsync(fileno(out->file)) != 0))
        out->status = file_fail(err, out->path, "writing failed");
    const int closed = fclose(out->file);
    out->file = NULL;
    if (out->status == GY_OK && closed != 0)
        out->status = file_fail(err, out->path, "writing failed");
    if (out->status == GY_OK && rename(out->temp, out->path) != 0)
        out->status = file_fail(err, out->path, "renaming failed");
    if (out->status != GY_OK) {
        remove(out->temp);
        return out->status;
    }
    return out->status = file_sync_folder(out->path, err);
}

GY_INT int gy_map_open(struct gy_map *map, const char *path, struct gy_error *err)
{
    struct stat info;
    memset(map, 0, sizeof *map);
    const int fd = open(path, O_RDONLY);
    if (fd < 0)
        return file_fail(err, path, "cannot be read");
    int status = GY_OK;
    if (fstat(fd, &info) != 0)
        status = file_fail(err, path, "cannot be read");
    else if (!S_ISREG(info.st_mode))
        status = GY_FAIL(err, GY_E_IO, "%.300s: not a regular file", path);
    else if (info.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (bytes == MAP_FAILED)
            status = file_fail(err, path, "cannot be mapped");
        else
            *map = (struct gy_map){ bytes, (size_t)info.st_size };
    }
    close(fd);
    return status;
}

GY_INT void gy_map_close(struct gy_map *map)
{
    if (map->bytes)
        munmap((void *)(uintptr_t)map->bytes, map->size);
    memset(map, 0, sizeof *map);
}

static int file_read_open(const struct gy_alloc *alloc, FILE *file, const char *path, size_t limit, char **data, size_t *bytes,
                          struct gy_error *err)
{
    struct stat info;
    if (fstat(fileno(file), &info) != 0 || S_ISDIR(info.st_mode))
        return GY_FAIL(err, GY_E_IO, "%.300s: not a file", path);
    const size_t size = (size_t)info.st_size;
    if (size > limit)
        return GY_FAIL(err, GY_E_FORMAT, "%.300s: %zu bytes; at most %zu are read", path, size, limit);
    char *text = gy_alloc_take(alloc, size + 1, 1);
    if (!text)
        return GY_NOMEM(err, path, size + 1);
    if (fread(text, 1, size, file) != size) {
        gy_alloc_free(alloc, text, size + 1);
        return file_fail(err, path, "reading failed");
    }
    *data = text;
    *bytes = size;
    return GY_OK;
}

GY_INT int gy_file_read(const struct gy_alloc *alloc, const char *path, size_t limit, char **data, size_t *bytes,
                        struct gy_error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return file_fail(err, path, "cannot be read");
    const int status = file_read_open(alloc, file, path, limit, data, bytes, err);
    fclose(file);
    return status;
}

GY_INT int gy_file_exists(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return 0;
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
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
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
    const char *slash = length && folder[length - 1] == '/' ? "" : "/";
    if ((size_t)snprintf(out, room, "%s%s%s", folder, slash, name) >= room)
        return GY_FAIL(err, GY_E_ARG, "path '%.80s/%.80s' is longer than %zu bytes", folder, name, room - 1);
    return GY_OK;
}
