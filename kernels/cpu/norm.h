/* SPDX-License-Identifier: MIT */
/* norm.h: drivers of batch norm, element-wise ops, pooling, loss and updates, as the backend's table lists them. */
#ifndef GY_CPU_NORM_H
#define GY_CPU_NORM_H
#include "kernels/cpu/conv.h"

GY_INT size_t gy_cpu_bn_parts_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_bn_stats_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_bn_apply_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_bn_sums_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT size_t gy_cpu_bn_back_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_bn_back_run(const struct gy_cpu *cpu, const struct gy_op *op);

GY_INT void gy_cpu_act_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_add_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_act_back_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_add_back_run(const struct gy_cpu *cpu, const struct gy_op *op);

GY_INT void gy_cpu_shortcut_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_shortcut_back_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_input_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_dropout_run(const struct gy_cpu *cpu, const struct gy_op *op);

GY_INT size_t gy_cpu_pool_need(const struct gy_cpu *cpu, const struct gy_op *op); /* both kinds, both ways */
GY_INT void gy_cpu_pool_max_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_pool_avg_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_pool_back_run(const struct gy_cpu *cpu, const struct gy_op *op); /* both kinds */

GY_INT size_t gy_cpu_norms_need(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_norms_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_update_run(const struct gy_cpu *cpu, const struct gy_op *op); /* SGD, LARS, AdamW */

#endif
