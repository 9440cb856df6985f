/* SPDX-License-Identifier: MIT */
/* gather.h: sends a row of whole numbers from each rank to all of them. The report of ranks,
 * tools/lab/job_report.c, calls it. */
#ifndef GY_GATHER_H
#define GY_GATHER_H
#include "engine/job/peers.h"

/* all: [ranks][count], own is this rank's row. A collective; GY_E_PEER when a rank does not
 * come. */
GY_INT int gy_job_gather(struct gyre_job *job, const int64_t *own, int count, int64_t *all,
                         struct gy_error *err);

#endif
