/* SPDX-License-Identifier: MIT */
/* stage_schedule.c: schedules of a pipeline. A stage warms up with some forward passes, then
 * alternates, then ends with backward passes. GPipe warms up with all of them. */
#include "engine/plan/stage_schedule.h"

/* Forward passes before the first backward pass. */
static int schedule_ahead(int kind, int stages, int micros, int stage)
{
    const int most = kind == GY_SCHEDULE_GPIPE ? micros : stages - stage;
    return most < micros ? most : micros;
}

GY_INT int gy_stage_buffers(int from, int to) { return (from < to ? to - from : from - to) + 1; }

GY_INT int gy_stage_slots(int kind, int stages, int micros, int stage)
{
    return schedule_ahead(kind, stages, micros, stage);
}

GY_INT void gy_stage_schedule(int kind, int stages, int micros, int stage,
                              struct gy_stage_action *out)
{
    int forward = schedule_ahead(kind, stages, micros, stage), back = 0, at = 0;
    for (int k = 0; k < forward; k++)
        out[at++] = (struct gy_stage_action){ 0, k };
    while (back < micros) {
        out[at++] = (struct gy_stage_action){ 1, back++ };
        if (forward < micros)
            out[at++] = (struct gy_stage_action){ 0, forward++ };
    }
}
