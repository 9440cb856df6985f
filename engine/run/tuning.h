/* SPDX-License-Identifier: MIT */
/* tuning.h: makes a net's plan with measured block sizes and kernels. A file that nobody named is
 * no reason not to train. Without tuning (GY_NO_TUNING) open.c answers, from the library's own
 * table. */
#ifndef GY_TUNING_H
#define GY_TUNING_H
#include "engine/run/engine.h"

/* net->plan; net->config.tune names what was used, or NULL. config: all but `tuned`. */
GY_INT int gy_engine_plan_tuned(struct gyre_net *net, const struct gy_plan_config *config);

#endif
