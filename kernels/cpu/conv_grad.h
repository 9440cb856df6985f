/* SPDX-License-Identifier: MIT */
/* conv_grad.h: the bias's part of a weight gradient, which the direct way and Winograd share. */
#ifndef GY_CPU_CONV_GRAD_H
#define GY_CPU_CONV_GRAD_H
#include "kernels/cpu/cpu_context.h"

/* The part of a weight gradient that is a bias's, where it is wanted; it uses scratch from the begin. */
GY_INT size_t gy_cpu_dbias_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_dbias_run(const struct gy_cpu *cpu, const struct gy_op *op);

#endif
