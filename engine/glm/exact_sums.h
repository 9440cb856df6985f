/* SPDX-License-Identifier: MIT */
/* exact_sums.h: sums in double over ranks and rows, with the same bits on every rank and for any
 * number of threads. Certificate, referee and solvers call them. */
#ifndef GY_GLM_SUMS_H
#define GY_GLM_SUMS_H
#include "engine/glm/glm.h"

/* values[i] becomes the sum over ranks, in the order of ranks. Without a job values stay. Blocks
 * and allocates. */
GY_INT int gy_glm_sum(const struct gy_glm_run *run, double *values, int count, struct gy_error *err);
/* The same for long vectors. Each rank's values are first rounded to multiples of a unit, at most
 * 2^-46 of the largest magnitude on any rank. GY_E_UNSUPPORTED: there are more than 256 ranks. */
GY_INT int gy_glm_sum_vector(const struct gy_glm_run *run, double *values, int64_t count, struct gy_error *err);

/* u[features + (bias != 0)] = 1 / l2 sum over all rows of coefficient x: the w of the dual
 * variables, before l1 shrinks it. l2 is above 0. One pass, collective. certificate.c */
GY_INT int gy_glm_rebuild(const struct gy_glm_run *run, const float *dual, double *u, struct gy_error *err);

#endif
