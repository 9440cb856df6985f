/* SPDX-License-Identifier: MIT */
/* deal.h: deals the shards of a step to ranks. A net asks for its shards when it is opened, through
 * the job's table; served_job.c deals to workers. */
#ifndef GY_DEAL_H
#define GY_DEAL_H
#include "engine/job/peers.h"

/* Which shards this rank has: `count` of them from *first on. From then on sums in the order of the
 * shards' tree follow this deal. GY_E_ARG: they cannot be dealt so. More than one rank. */
GY_INT int gy_job_deal(struct gyre_job *job, int shards, int *first, int *count,
                       struct gy_error *err);
/* The same for all ranks, which need not have equally many: first[r] of each, first[ranks] ==
 * shards. */
GY_INT void gy_job_blocks(int shards, int ranks, int *first);

#endif
