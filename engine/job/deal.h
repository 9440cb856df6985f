/* SPDX-License-Identifier: MIT */
/* deal.h: deals the shards of a step to ranks. A net asks for its shards when it is opened. */
#ifndef GY_DEAL_H
#define GY_DEAL_H
#include "engine/job/peers.h"

/* Which shards this rank has: count of them from *first on. Sums in the tree's order are those of
 * this deal from then on. GY_E_ARG: they cannot be dealt so. More than one rank. */
GY_INT int gy_job_deal(struct gyre_job *job, int shards, int *first, int *count,
                       struct gy_error *err);
/* The same of all ranks of one host: first[r] of each, first[ranks] == shards. */
GY_INT void gy_job_blocks(int shards, int ranks, int *first);

#endif
