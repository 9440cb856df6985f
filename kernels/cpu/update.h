/* SPDX-License-Identifier: MIT */
/* update.h: drivers of norms and updates of parameters; rows of drivers.c call them. */
#ifndef GY_CPU_UPDATE_H
#define GY_CPU_UPDATE_H
#include "kernels/cpu/cpu_context.h"

GY_INT size_t gy_cpu_norms_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_norms_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_update_run(const struct gy_cpu *cpu, const struct gy_op *op);

#endif
