/* SPDX-License-Identifier: MIT */
/* glm_checkpoint.h: a linear training that goes on after it was interrupted; glm_train_checkpoint.c
 * calls it between epochs. One safetensors file holds the weights, the dual variables where the
 * solver has them, the epoch, and what the run was: data set, seed, settings. Of several ranks each
 * rank r above 0 writes its rows' dual variables into "path.r"; then rank 0 writes `path`, with its
 * own. So where `path` is, the others are, of its epoch or of a later one. Another number of ranks
 * can go on, for every choice of feasible dual variables has a bound. */
#ifndef GY_GLM_CHECKPOINT_H
#define GY_GLM_CHECKPOINT_H
#include "engine/base/mem.h"

struct gyre_job;

/* A setting on which the course of the run depends: "l2", "0.1". */
struct gy_glm_keep_field {
    const char *name, *value;
};

struct gy_glm_keep {
    uint64_t data;       /* which data set: gy_blocks_info.id */
    uint64_t seed;
    const struct gy_glm_keep_field *field;
    int fields;
    int64_t width;       /* of w: features and bias */
    int64_t rows, first; /* of this rank, and the number of its first row (gy_glm_deal) */
    int64_t all_rows;
    float *w;            /* [width] of the caller */
    float *dual;         /* [rows] of the caller; NULL: none are kept */
    int epoch;           /* passes that trained */
    /* read: 1: w belongs to the dual variables; 0: w must be made from them anew */
    int exact;
};

/* Whole or absent. All ranks call it together; a failure of one is a failure of all. */
GY_INT int gy_glm_keep_write(const struct gy_glm_keep *keep, const char *path, struct gyre_job *job,
                             const struct gy_alloc *alloc, struct gy_error *err);
/* Fills w, dual, epoch and exact. GY_E_MISMATCH names what differs of data set, seed and settings,
 * with both values. All ranks call it together. */
GY_INT int gy_glm_keep_read(struct gy_glm_keep *keep, const char *path, struct gyre_job *job,
                            const struct gy_alloc *alloc, struct gy_error *err);

#endif
