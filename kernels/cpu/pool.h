/* SPDX-License-Identifier: MIT */
/* pool.h: drivers of pooling. */
#ifndef GY_CPU_POOL_H
#define GY_CPU_POOL_H
#include "kernels/cpu/cpu_context.h"

GY_INT void gy_cpu_pool_plan(struct gy_planner *planner, struct gy_op *op); /* both kinds, both ways */
GY_INT void gy_cpu_pool_max_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_pool_avg_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_pool_back_run(const struct gy_cpu *cpu, const struct gy_op *op); /* both kinds */

#endif
