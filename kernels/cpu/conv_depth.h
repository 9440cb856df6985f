/* SPDX-License-Identifier: MIT */
/* conv_depth.h: drivers of depthwise convolutions. */
#ifndef GY_CPU_CONV_DEPTH_H
#define GY_CPU_CONV_DEPTH_H
#include "kernels/cpu/cpu_context.h"

/* Depthwise: every channel is a group of its own. */
GY_INT int gy_cpu_is_depthwise(const struct gy_op *op);
GY_INT void gy_cpu_depth_plan(struct gy_planner *planner, struct gy_op *op); /* of all three */
GY_INT void gy_cpu_depth_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_depth_dgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_depth_wgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);

#endif
