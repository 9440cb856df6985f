/* SPDX-License-Identifier: MIT */
/* job.h: the processes that train one net together. What a net needs of them: sums over all ranks, the same bits on each. */
#ifndef GY_JOB_H
#define GY_JOB_H
#include "gyre.h"
#include "../net/node.h"

/* data[i] = sum of all ranks' data[i]; NULL or one rank: as it is. Blocks; GY_E_PEER when a rank does not come. */
GY_INT int gy_job_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err);
/* flag of any rank, on every rank. */
GY_INT int gy_job_any(struct gyre_job *job, int flag, int *out, struct gy_error *err);

#endif
