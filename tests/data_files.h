/* SPDX-License-Identifier: MIT */
/* data_files.h: writes small files for the tests of data sets, in a temporary folder: files of
 * given bytes, an IDX pair, images. Pixels are known by formula, so a test knows what a reader must
 * give. */
#ifndef GY_DATA_FILES_H
#define GY_DATA_FILES_H
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "io/images/loader.h"
#include "tests/t.h"

static char df_root[64];

static inline void df_open(void)
{
    memcpy(df_root, "/tmp/gyre-test-XXXXXX", 22);
    if (!mkdtemp(df_root))
        exit(2);
}

static inline void df_remove(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        unlink(path);
        return;
    }
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char sub[1024];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (gy_file_join(sub, sizeof sub, path, e->d_name, NULL) == GY_OK)
            df_remove(sub);
    }
    closedir(dir);
    rmdir(path);
}

/* Path of name in the temporary folder; one of eight buffers in turn. */
static inline const char *df_path(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", df_root, name);
    return path;
}

static inline void df_folder(const char *name) { mkdir(df_path(name), 0777); }

static inline void df_write(const char *name, const void *bytes, size_t count)
{
    FILE *f = fopen(df_path(name), "wb");
    if (!f || (count && fwrite(bytes, 1, count, f) != count) || fclose(f))
        exit(2);
}

/* The pixel of image number `image` at (y, x, c): any formula that differs everywhere. */
static inline uint8_t df_pixel(int image, int y, int x, int c)
{
    return (uint8_t)(image * 31 + y * 7 + x * 3 + c * 50);
}

static inline void df_fill(uint8_t *pixels, int image, int h, int w, int c)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int k = 0; k < c; k++)
                pixels[(y * w + x) * c + k] = df_pixel(image, y, x, k);
}

/* A binary PPM (c 3) or PGM (c 1); returns its size in out. */
static inline size_t df_pnm(unsigned char *out, int image, int h, int w, int c)
{
    const int head = sprintf((char *)out, "P%d\n# made for a test\n%d %d\n255\n", c == 3 ? 6 : 5, w, h);
    df_fill(out + head, image, h, w, c);
    return (size_t)head + (size_t)(h * w * c);
}

static inline void df_write_pnm(const char *name, int image, int h, int w, int c)
{
    static unsigned char bytes[1 << 20];
    df_write(name, bytes, df_pnm(bytes, image, h, w, c));
}

static inline void df_be32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* "<stem>-images-idx3-ubyte" of n images h x w with df_pixel, and its labels i % classes. */
static inline void df_write_idx(const char *stem, int n, int h, int w, int classes)
{
    static unsigned char bytes[1 << 22];
    char name[256];
    df_be32(bytes, 0x00000803);
    df_be32(bytes + 4, (uint32_t)n);
    df_be32(bytes + 8, (uint32_t)h);
    df_be32(bytes + 12, (uint32_t)w);
    for (int i = 0; i < n; i++)
        df_fill(bytes + 16 + i * h * w, i, h, w, 1);
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", stem);
    df_write(name, bytes, 16 + (size_t)(n * h * w));
    df_be32(bytes, 0x00000801);
    for (int i = 0; i < n; i++)
        bytes[8 + i] = (unsigned char)(i % classes);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", stem);
    df_write(name, bytes, 8 + (size_t)n);
}

struct df_log { /* what was logged, last line kept */
    int lines;
    char last[1024];
};
static inline void df_take_log(void *user, int level, const char *text)
{
    struct df_log *log = user;
    (void)level;
    log->lines++;
    snprintf(log->last, sizeof log->last, "%s", text);
}

/* Opens a data set; its status. */
static inline int df_data(struct gy_data **data, const char *path, const char *split, int64_t max_bad,
                          struct df_log *log, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_log to = {df_take_log, log, GY_LOG_WARN};
    const struct gy_data_config config = { .alloc = &alloc, .log = log ? &to : NULL, .path = path, .split = split, .max_bad = max_bad };
    *data = NULL;
    return gy_data_open(data, &config, err);
}

#endif
