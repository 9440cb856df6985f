/* SPDX-License-Identifier: MIT */
/* tuning_file.h: rows of a text file of what was measured on a machine: block sizes, or on a GPU
 * the fastest kernel. `gyre tune` writes it; opening a net reads it. A row holds for one
 * convolution in one direction, by exact shape and type, on one kernel set and processor model. A
 * row of block sizes holds for one kernel alone. Other rows are ignored. */
#ifndef GY_TUNED_H
#define GY_TUNED_H
#include "kernels/backend.h"
#include "engine/base/text.h"

struct gy_tuned_row {
    const char *machine, *set; /* texts are the file's, or the caller's of gy_tuned_put */
    const char *source;        /* date, version, command */
    const char *variant;
    char kernel[13];           /* not "": the row chooses variant, of this hash; "any": any hash */
    int code, dtype;
    int stats;                 /* forward with statistics, whose sums follow the cut */
    struct gy_geom geom;
    int32_t block[GY_OP_BLOCKS]; /* 0: as the backend chooses */
    double gain;                 /* time without over time with */
    int used;                    /* by an op of this process */
};
struct gy_tuned {
    struct gy_alloc alloc;
    const struct gy_backend *backend;
    const char *machine, *set; /* of this process's rows; machine NULL: of any with this set */
    char *text;
    size_t text_bytes;
    struct gy_tuned_row *rows;
    int count, room;
    int others;                /* rows of other machines and sets */
    int used;                  /* ops that took a row */
    int stale;                 /* ops whose row's kernel is not this library's or does not fit */
};

#ifndef GY_NO_TUNING
/* Where rows are: `wanted`, or with use_env GYRE_TUNE, or tune.txt in gyre's folder of the user's
 * cache. "": nowhere. *named: a caller or a variable named it, so an unusable file is an error. */
GY_INT int gy_tuned_path(char *path, size_t room, const char *wanted, int use_env, int *named, struct gy_error *err);
/* Reads a file; no file or path "" begins an empty table. path may be the text (gy_tuned_is_text).
 * The sentence has file and line. A failure leaves nothing to close. caps outlive the table. */
GY_INT int gy_tuned_is_text(const char *path);
GY_INT int gy_tuned_read(struct gy_tuned *tuned, const char *path, const struct gy_alloc *alloc, const struct gy_backend *backend,
                         const struct gy_caps *caps, struct gy_error *err);
GY_INT void gy_tuned_close(struct gy_tuned *tuned);
/* The row for a convolution, whatever kernel does it; NULL: none. */
GY_INT const struct gy_tuned_row *gy_tuned_find(const struct gy_tuned *tuned, const struct gy_op *op);
/* Replaces the row of the same key or adds it; with all sizes 0 and no kernel it is taken away. */
GY_INT int gy_tuned_put(struct gy_tuned *tuned, const struct gy_tuned_row *row, struct gy_error *err);
/* The rows that ops took, as a file's text. */
GY_INT void gy_tuned_print_used(const struct gy_tuned *tuned, struct gy_sink *sink);
/* All rows, into a file beside path that is then renamed. */
GY_INT int gy_tuned_write(const struct gy_tuned *tuned, const char *path, struct gy_error *err);
/* prepare with the row's sizes if the row's kernel is the chosen one, or with the kernel that the
 * row chooses. tuned may be NULL. */
GY_INT int gy_tuned_prepare(struct gy_tuned *tuned, const struct gy_backend *backend, void *self, struct gy_op *op,
                            struct gy_arena *arena, struct gy_error *err);
/* "strip=168 items=48 " */
GY_INT void gy_tuned_sizes(const struct gy_backend *backend, const int32_t block[GY_OP_BLOCKS], struct gy_sink *sink);
#endif

#endif
