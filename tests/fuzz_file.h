/* SPDX-License-Identifier: MIT */
/* fuzz_file.h: an input as a file, for what is read by its path. A folder of the process, in memory
 * where the system has one there, goes with it. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H
#include "engine/base/file.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())
#define FUZZ_PATH 256

static char fuzz_folder_name[64];

/* All files of the folder. */
static inline void fuzz_empty(void)
{
    char path[FUZZ_PATH + 256];
    DIR *dir = opendir(fuzz_folder_name);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && snprintf(path, sizeof path, "%s/%s", fuzz_folder_name, entry->d_name) > 0)
            unlink(path);
    if (dir)
        closedir(dir);
}

static inline void fuzz_end_folder(void)
{
    fuzz_empty();
    rmdir(fuzz_folder_name);
}

static inline const char *fuzz_folder(void)
{
    struct stat info;
    if (fuzz_folder_name[0])
        return fuzz_folder_name;
    const int memory = stat("/dev/shm", &info) == 0 && access("/dev/shm", W_OK) == 0;
    snprintf(fuzz_folder_name, sizeof fuzz_folder_name, "%s/gyre-fuzz-%ld", memory ? "/dev/shm" : "/tmp", (long)getpid());
    FUZZ_REQUIRE(mkdir(fuzz_folder_name, 0700) == 0 && atexit(fuzz_end_folder) == 0);
    return fuzz_folder_name;
}

static inline const char *fuzz_path(char path[FUZZ_PATH], const char *name)
{
    FUZZ_REQUIRE(snprintf(path, FUZZ_PATH, "%s/%s", fuzz_folder(), name) < FUZZ_PATH);
    return path;
}

static inline void fuzz_write(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    FUZZ_REQUIRE(file && (count == 0 || fwrite(bytes, 1, count, file) == count));
    FUZZ_REQUIRE(fclose(file) == 0);
}

/* The whole file, a NUL behind it; to be freed. */
static inline char *fuzz_read(const char *path, size_t *bytes)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char *text = NULL;
    FUZZ_REQUIRE(gy_file_read(&alloc, path, (size_t)1 << 26, &text, bytes, NULL) == GY_OK);
    return text;
}

#endif
