/* SPDX-License-Identifier: MIT */
/* tuning.h: plans a net with measured block sizes and kernels, for open.c. A broken file that
 * nobody named stops no training. Built with GY_NO_TUNING, open.c has this call, and plans without
 * measured rows. */
#ifndef GY_TUNING_H
#define GY_TUNING_H
#include "engine/run/engine.h"

/* net->plan; net->config.tune names what was used, or NULL. config: all but `tuned`. */
GY_INT int gy_engine_plan_tuned(struct gyre_net *net, const struct gy_plan_config *config);

#endif
