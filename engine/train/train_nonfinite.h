/* SPDX-License-Identifier: MIT */
/* train_nonfinite.h: finds the image that makes a step's loss NaN or infinite, for net_train.c. */
#ifndef GY_TRAIN_NONFINITE_H
#define GY_TRAIN_NONFINITE_H
#include "engine/train/train_notes.h"

/* GY_E_NONFINITE with a sentence, or why the replay failed. Stages do not call it. samples: of the
 * batch, in the data set. */
GY_INT int gy_train_locate(struct train_run *run, const struct gyre_batch *batch, const int64_t *samples);

#endif
