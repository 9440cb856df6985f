/* SPDX-License-Identifier: MIT */
/* plant.h: for tests of what survives: this process kills itself at a point that is planted in
 * GYRE_DIE, "1:20,0:r1": rank 1 as it begins its sum 20, rank 0 amid the first meeting. */
#ifndef GY_PLANT_H
#define GY_PLANT_H
#include "engine/base/mem.h"

struct gy_job_plant;
/* *out is NULL where nothing is planted for the process id. */
GY_INT int gy_job_plant_open(struct gy_job_plant **out, int id, const struct gy_alloc *alloc,
                             struct gy_error *err);
GY_INT void gy_job_plant_close(struct gy_job_plant *plant, const struct gy_alloc *alloc);
/* NULL is fine. It begins a sum; waits for one; comes to a meeting (after: has its place there). */
GY_INT void gy_job_plant_sums(struct gy_job_plant *plant);
GY_INT void gy_job_plant_waits(struct gy_job_plant *plant);
GY_INT void gy_job_plant_meets(struct gy_job_plant *plant, int after);

#endif
