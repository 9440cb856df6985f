/* SPDX-License-Identifier: MIT */
/* exact_sums.h: sums in double over rows, features and ranks, with the same bits for any number of
 * threads, and on every rank. */
#ifndef GY_GLM_SUMS_H
#define GY_GLM_SUMS_H
#include "engine/glm/glm.h"

/* values[i] becomes the sum over ranks, in the order of ranks. Without a job values stay. Blocks
 * and allocates. */
GY_INT int gy_glm_sum(const struct gy_glm_run *run, double *values, int count, struct gy_error *err);
/* The same for long vectors: exact to 2^-46 of the largest magnitude among them. */
GY_INT int gy_glm_sum_vector(const struct gy_glm_run *run, double *values, int64_t count, struct gy_error *err);

/* u[features + (bias != 0)] = 1 / l2 sum over all rows of coefficient x: the w of dual variables,
 * before any soft threshold. One pass. */
GY_INT int gy_glm_rebuild(const struct gy_glm_run *run, const float *dual, double *u, struct gy_error *err);

#endif
