/* SPDX-License-Identifier: MIT */
/* file.h: writes files that are whole or absent, and reads files whole or at any place. Whatever
 * reads or writes data, checkpoints and models calls it. A writer fills a temporary file beside the
 * target, syncs it, renames it over the target and syncs the folder. An error before the rename
 * leaves the old file as it was. Nothing is mapped: a mapped file that shrinks ends the process,
 * while here it is an error. Signals end no call. Sentences name path and the system's reason. */
#ifndef GY_FILE_H
#define GY_FILE_H
#include "engine/base/mem.h"

#define GY_FILE_BUFFER 16384 /* bytes that are gathered before a write */

struct gy_outfile {
    int open, fd;
    char path[4096], temp[4096];
    int status; /* first error, sticky */
    int reason; /* errno of that error */
    size_t held; /* bytes of the buffer */
    unsigned char buffer[GY_FILE_BUFFER];
};
GY_INT int gy_outfile_open(struct gy_outfile *out, const char *path, struct gy_error *err);
GY_INT int gy_outfile_write(struct gy_outfile *out, const void *bytes, size_t count, struct gy_error *err);
/* what is written next stands at the file's beginning */
GY_INT int gy_outfile_rewind(struct gy_outfile *out, struct gy_error *err);
/* gy_file_begin_sync starts writing the file to disk and does not wait: the sync later is short. */
#define GY_FILE_AHEAD ((size_t)1 << 20) /* bytes between two such calls */
GY_INT void gy_file_begin_sync(int fd);
/* Flushes, syncs, renames, syncs the folder. On failure the temporary file is removed. Where the
 * folder alone cannot be synced, that is an error, too, with the new file in place: it is whole,
 * but a machine that stops may come back with the old one, and who asked must know. */
GY_INT int gy_outfile_commit(struct gy_outfile *out, struct gy_error *err);
GY_INT void gy_outfile_abandon(struct gy_outfile *out); /* safe after commit or a failed open */

/* A file that any number of threads read at any place, or bytes in memory read as one. */
struct gy_file {
    const unsigned char *bytes; /* in memory, which is the caller's; NULL: a file */
    uint64_t size;              /* when it was opened */
    int open, fd;
    char name[304];             /* for sentences */
};
/* path: of a regular file */
GY_INT int gy_file_open(struct gy_file *file, const char *path, struct gy_error *err);
GY_INT struct gy_file gy_file_of(const void *bytes, size_t count, const char *name);
/* All of count bytes from `at` on, which lie below the size; GY_E_TRUNCATED when the file has
 * become shorter since it was opened. */
GY_INT int gy_file_read_at(const struct gy_file *file, uint64_t at, void *to, size_t count, struct gy_error *err);
GY_INT void gy_file_close(struct gy_file *file); /* safe on a zeroed struct */
/* 1: a regular file that begins with these, at most 16; else 0 */
GY_INT int gy_file_begins(const char *path, const void *magic, size_t bytes);

/* All of count bytes; 0, or -1 with errno. For files that grow. */
GY_INT int gy_file_write_all(int fd, const void *bytes, size_t count);
GY_INT int gy_file_sync(int fd); /* as fsync */
/* strerror of it, with the limit of a file too large for this process. Returns text. */
GY_INT const char *gy_file_reason(int reason, char text[160]);

/* Whole file or pipe, through the hook, at most limit bytes; one more byte, a NUL, follows. Freed
 * with gy_alloc_free(alloc, *data, *bytes + 1). */
GY_INT int gy_file_read(const struct gy_alloc *alloc, const char *path, size_t limit, char **data, size_t *bytes,
                        struct gy_error *err);
/* parents too; existing is fine */
GY_INT int gy_file_make_folder(const char *path, struct gy_error *err);
/* Where a file of that name is kept between runs: gyre/NAME in $XDG_CACHE_HOME or ~/.cache; 0, or
 * -1 with "" when neither is known. */
GY_INT int gy_file_cache(char *path, size_t room, const char *name);
/* 0 no, 1 file, 2 folder; -1: the system does not say, errno has its reason */
GY_INT int gy_file_exists(const char *path);
/* Joins folder and name with one slash into room bytes; GY_E_ARG with a sentence when too long. */
GY_INT int gy_file_join(char *out, size_t room, const char *folder, const char *name, struct gy_error *err);

#endif
