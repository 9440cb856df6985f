/* SPDX-License-Identifier: MIT */
/* stage_page.h: computes what a pipeline's schedule takes, without running it. stage_page.c prints
 * it; tests/t_pipeline.c checks it. */
#ifndef GY_STAGE_PAGE_H
#define GY_STAGE_PAGE_H
#include "engine/plan/stage_schedule.h"

/* What a stage computes of one micro-batch, seconds; what goes to each neighbour is `moves` on its
 * way. */
struct gy_stage_time {
    double forward, back, moves;
};

/* Seconds from the first action of a stage to the last one of any. GY_E_BUG: stages wait for each
 * other. */
GY_INT int gy_stage_simulate(int kind, int stages, int micros, const struct gy_stage_time *time,
                             double *seconds, const struct gy_alloc *alloc, struct gy_error *err);

#endif
