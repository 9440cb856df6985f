/* SPDX-License-Identifier: MIT */
/* train_lead.h: one rank tests, writes and reports. When it is lost, another takes over.
 * net_train.c calls it. */
#ifndef GY_TRAIN_LEAD_H
#define GY_TRAIN_LEAD_H
#include "engine/train/train_notes.h"

GY_INT int gy_train_lead(struct train_run *run); /* this one, from now on */
/* Of rank 0, behind all that can refuse the run: only now the files of an earlier run, which it
 * overwrites, make room. Nothing where they are open: this rank took the lead meanwhile. */
GY_INT int gy_train_open_files(struct train_run *run);
/* With servers, behind a step: names who was lost, and leads if that was who led. */
GY_INT int gy_train_served_turn(struct train_run *run);
/* Between two steps: where somebody waits to join, the ranks come together. */
GY_INT int gy_train_served_meet(struct train_run *run);
/* Of a worker that joined: it stands where the others do. */
GY_INT void gy_train_served_place(struct train_run *run);
/* What servers have counted goes into run->progress. */
GY_INT void gy_train_served_report(struct train_run *run);

#endif
