/* SPDX-License-Identifier: MIT */
/* conv.h: forward epilogue and bias gradient, for conv*.c and winograd*.c, which share them. */
#ifndef GY_CPU_CONV_H
#define GY_CPU_CONV_H
#include "kernels/cpu/cpu_context.h"

/* Scale, shift, residual, activation on Y in place: rows from pixel on, cols from channel on. */
GY_INT void gy_cpu_epilogue(const struct gy_cpu *cpu, const struct gy_op *op, int64_t pixel, int64_t rows,
                            int64_t channel, int64_t cols);

/* The bias's part of a weight gradient, where it is wanted; it uses scratch from its begin. */
GY_INT size_t gy_cpu_dbias_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_dbias_run(const struct gy_cpu *cpu, const struct gy_op *op);

#endif
