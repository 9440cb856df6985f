/* SPDX-License-Identifier: MIT */
/* same_weights.h: checks that all ranks have the same weights; the training loop calls it. */
#ifndef GY_SAME_WEIGHTS_H
#define GY_SAME_WEIGHTS_H
#include "engine/run/engine.h"

/* GY_E_PEER: ranks, which are named, have other weights than those before them with the same kernel
 * set, and of the same stage. Of all ranks, between two steps. */
GY_INT int gy_same_weights(struct gyre_net *net, int64_t step);

#endif
