/* SPDX-License-Identifier: MIT */
/* convert.h: turns text files of rows into a file of blocks (blocks.h), once, by all threads. A
 * thread takes a piece of whole lines at a time, and blocks are written in the order of the text.
 * So the result does not depend on the threads. Strict: the first line that is not of the format
 * ends it with file, line and column. Lenient: what can be read without doubt is mended and
 * counted; nothing is dropped silently. glm_api.c (gyre_glm_convert) and source.c of engine/glm/
 * call it. A new format is a file beside svmlight.c, and a row in convert_format of
 * rows_convert.c. */
#ifndef GY_CONVERT_H
#define GY_CONVERT_H
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "io/rows/blocks.h"

struct gy_convert_config {
    const char *const *from; /* paths; .gz too */
    int files;
    const char *to;          /* path of the block file */
    /* "svmlight", "libffm", "csv" or "criteo" (TSV or CSV by its first line); NULL: by the first
     * lines */
    const char *format;
    /* 1: `to` exists, rows are added behind its own; settings that do not agree are
     * GY_E_MISMATCH */
    int append;
    int lenient;
    int zero_based;          /* svmlight: ids of the text begin with 0 */
    uint32_t features;       /* 0: as many as the ids say */
    /* the most features allowed, as memory has no room for more weights; 0: any */
    uint32_t features_most;
    /* criteo: bits of the ids' hashes (20); svmlight and libffm: ids are hashed when it is not 0;
     * at most 30 */
    int hash_bits;
    uint64_t hash_seed;
    /* csv: from 0; -1: the last. Other columns are dense features, numbers. */
    int label_column;
    int header;              /* csv: 1: the first line has names; -1: by its look */
    int32_t block_rows;      /* 0: 65536, fewer where rows are long */
    struct gy_pool *pool;
    /* done, total: bytes of the files; non-zero stops; may be NULL */
    int (*progress)(void *user, int64_t done, int64_t total);
    void *user;
};
struct gy_convert_report {
    int64_t rows, entries, bytes; /* bytes of text */
    struct gy_convert_mend {
        const char *what;    /* "duplicate ids, values were added" */
        int64_t count, line; /* how often, and the first one's line */
        int file;
    } mend[12];
    int mends;
};
GY_INT int gy_convert(const struct gy_convert_config *config, const struct gy_alloc *alloc, struct gy_convert_report *report, struct gy_error *err);
/* The same, into memory: blocks that were never a file. config->to is not used. */
GY_INT int gy_convert_to_memory(struct gy_blocks **out, const struct gy_convert_config *config, const struct gy_alloc *alloc, struct gy_convert_report *report,
                                struct gy_error *err);
/* Name of format number index, and one line about it (about may be NULL); NULL after the last. */
GY_INT const char *gy_convert_format(int index, const char **about);

#endif
