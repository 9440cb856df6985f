/* SPDX-License-Identifier: MIT */
/* stage_schedule.h: the order in which the stages of a pipeline work on micro-batches, as data.
 * run/pipeline_plan.c takes slots and the list from it; run/pipeline.c walks the list.
 *
 * GPipe (Huang et al. 2019): each stage does all forward passes, then all backward passes. 1F1B
 * (Narayanan et al. 2019, PipeDream-Flush): a stage does a backward pass behind each forward pass,
 * as soon as it may. So stage s of P keeps the activations of at most P - s micro-batches. Backward
 * passes go in the order of the micro-batches, in which one process would sum. */
#ifndef GY_STAGE_SCHEDULE_H
#define GY_STAGE_SCHEDULE_H
#include "engine/base/mem.h"

enum gy_stage_schedule_kind { GY_SCHEDULE_1F1B, GY_SCHEDULE_GPIPE, GY_SCHEDULE_KINDS };

struct gy_stage_action {
    int back; /* 0: forward */
    int micro;
};

/* Writes the 2 * micros actions of a stage. */
GY_INT void gy_stage_schedule(int kind, int stages, int micros, int stage,
                              struct gy_stage_action *out);
GY_INT int gy_stage_slots(int kind, int stages, int micros,
                          int stage); /* micro-batches whose activations it keeps, at most */

/* Places that a message has at either end: one more than its stages are apart. */
GY_INT int gy_stage_buffers(int from, int to);

#endif
