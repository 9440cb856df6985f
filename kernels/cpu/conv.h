/* SPDX-License-Identifier: MIT */
/* conv.h: drivers of convolutions by products, forward and data gradient, and the epilogue that other
 * convolutions share with them. */
#ifndef GY_CPU_CONV_H
#define GY_CPU_CONV_H
#include "kernels/cpu/cpu_context.h"

GY_INT void gy_cpu_conv_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_conv_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_dgrad_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_dgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);

/* Scale, shift, residual and activation on Y in place: rows pixels from pixel on, cols channels from channel on. */
GY_INT void gy_cpu_epilogue(const struct gy_cpu *cpu, const struct gy_op *op, int64_t pixel, int64_t rows,
                            int64_t channel, int64_t cols);

#endif
