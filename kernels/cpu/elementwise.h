/* SPDX-License-Identifier: MIT */
/* elementwise.h: ops that meet every element once (rows of drivers.c), and activation curves. */
#ifndef GY_CPU_ELEMENTWISE_H
#define GY_CPU_ELEMENTWISE_H
#include "kernels/cpu/cpu_context.h"
#include "kernels/op_table.h"

GY_INT void gy_act_curve(const struct gy_op *op, float *y, const float *x, int64_t count);
GY_INT void gy_act_curve_back(const struct gy_op *op, float *d, const float *dy, const float *y,
                              int64_t count);

GY_INT void gy_cpu_act_run(const struct gy_cpu *cpu, const struct gy_op *op); /* ACT and ADD */
GY_INT void gy_cpu_act_back_run(const struct gy_cpu *cpu, const struct gy_op *op);

GY_INT void gy_cpu_shortcut_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_shortcut_back_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_input_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_dropout_run(const struct gy_cpu *cpu, const struct gy_op *op);

#endif
