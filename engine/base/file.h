/* SPDX-License-Identifier: MIT */
/* file.h: files that are whole or absent. Writing goes to a temporary file beside the target, is synced, renamed over
 * the target, and the folder is synced; an error at any point leaves the old file as it was. Reading maps the file or
 * reads it whole, with a limit. Every sentence names the path and the system's reason. */
#ifndef GY_FILE_H
#define GY_FILE_H
#include "mem.h"

struct gy_outfile {
    FILE *file;
    char path[4096], temp[4096];
    int status; /* first error, sticky */
    int reason; /* errno of that error */
};
GY_INT int gy_outfile_open(struct gy_outfile *out, const char *path, struct gy_error *err);
GY_INT int gy_outfile_write(struct gy_outfile *out, const void *bytes, size_t count, struct gy_error *err);
/* Asks the system to write what it holds of the file, without waiting: then the sync at the end waits for little. */
#define GY_FILE_AHEAD ((size_t)1 << 20) /* bytes after which that is worth it */
GY_INT void gy_file_begin_sync(int fd);
/* Flushes, syncs, renames, syncs the folder. On failure the temporary file is removed. */
GY_INT int gy_outfile_commit(struct gy_outfile *out, struct gy_error *err);
GY_INT void gy_outfile_abandon(struct gy_outfile *out); /* safe after commit or a failed open */

struct gy_map {
    const unsigned char *bytes; /* read-only; NULL when size is 0 */
    size_t size;
};
GY_INT int gy_map_open(struct gy_map *map, const char *path, struct gy_error *err);
GY_INT void gy_map_close(struct gy_map *map); /* safe on a zeroed struct */

/* Whole file or pipe, through the hook, at most limit bytes; one more byte, a NUL, follows. Freed with
 * gy_alloc_free(alloc, *data, *bytes + 1). */
GY_INT int gy_file_read(const struct gy_alloc *alloc, const char *path, size_t limit, char **data, size_t *bytes,
                        struct gy_error *err);
GY_INT int gy_file_make_folder(const char *path, struct gy_error *err); /* parents too; existing is fine */
/* The first line of a small file of the system (/sys, /proc), with its end of line, cut to room; "" when there is none. Returns line. */
GY_INT const char *gy_file_line(const char *path, char *line, int room);
/* Where a file of that name is kept between runs: gyre/NAME in $XDG_CACHE_HOME or ~/.cache; 0, or -1 with "" when neither is known. */
GY_INT int gy_file_cache(char *path, size_t room, const char *name);
GY_INT int gy_file_exists(const char *path); /* 0 no, 1 file, 2 folder; -1: the system does not say, errno has its reason */
/* Joins folder and name with one slash into room bytes; GY_E_ARG with a sentence when too long. */
GY_INT int gy_file_join(char *out, size_t room, const char *folder, const char *name, struct gy_error *err);

#endif
