/* SPDX-License-Identifier: MIT */
/* winograd_grad.h: the driver of weight gradients by Winograd's way, of the sizes that gy_cpu_wino_fits. */
#ifndef GY_CPU_WINOGRAD_GRAD_H
#define GY_CPU_WINOGRAD_GRAD_H
#include "kernels/cpu/cpu_context.h"

GY_INT void gy_cpu_wino_grad_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_wino_grad_run(const struct gy_cpu *cpu, const struct gy_op *op);

#endif
