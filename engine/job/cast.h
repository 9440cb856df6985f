/* SPDX-License-Identifier: MIT */
/* cast.h: sends bytes of one rank, or of each, to all ranks, by sums of whole numbers. job.c and
 * served_meet.c call it, and engine/train/outlive.c through the job's table. GY_E_PEER: a rank is
 * lost. */
#ifndef GY_CAST_H
#define GY_CAST_H
#include "engine/job/peers.h"

/* Rank `from`'s bytes come to all ranks. Blocks. */
GY_INT int gy_job_cast(struct gyre_job *job, int from, void *bytes, size_t count,
                       struct gy_error *err);
/* Each rank's bytes come to all: all[rank * count]. Blocks. */
GY_INT int gy_job_share(struct gyre_job *job, const void *own, size_t count, void *all,
                        struct gy_error *err);

#endif
