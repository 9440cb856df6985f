/* SPDX-License-Identifier: MIT */
/* same_weights.h: checks that all ranks have the same weights; the training loop (net_train.c)
 * calls it. */
#ifndef GY_SAME_WEIGHTS_H
#define GY_SAME_WEIGHTS_H
#include "engine/run/engine.h"

/* GY_E_PEER: the sentence names ranks whose weights differ from those of the first rank with the
 * same kernel set and stage. A collective, between two steps. */
GY_INT int gy_same_weights(struct gyre_net *net, int64_t step);

#endif
