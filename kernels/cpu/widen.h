/* SPDX-License-Identifier: MIT */
/* widen.h: ops on bf16 through float kernels; see widen.c. */
#ifndef GY_CPU_WIDEN_H
#define GY_CPU_WIDEN_H
#include "kernels/cpu/cpu_context.h"

GY_INT void gy_cpu_wide_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_wide_run(const struct gy_cpu *cpu, const struct gy_op *op);

#endif
