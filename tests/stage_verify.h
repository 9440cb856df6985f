/* SPDX-License-Identifier: MIT */
/* stage_verify.h: the proof of a pipeline's schedule, for its test. */
#ifndef GY_STAGE_VERIFY_H
#define GY_STAGE_VERIFY_H
#include "engine/plan/stage_schedule.h"

/* Plays all stages' actions, action[stages][2 * micros], with messages between any two stages,
 * which begin only when the receiver has a free place for them. GY_E_BUG with a sentence: an action
 * comes twice or never, a backward pass before its forward pass or out of order, more activations
 * than slots[stage], or ranks that wait for each other. peak: what each stage kept at most. */
int stage_verify(const struct gy_stage_action *action, int stages, int micros, const int *slots,
                 int *peak, const struct gy_alloc *alloc, struct gy_error *err);

#endif
