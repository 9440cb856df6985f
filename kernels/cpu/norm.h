/* SPDX-License-Identifier: MIT */
/* norm.h: batch norm's drivers (for drivers.c), and joins of parts (for convolutions, too). */
#ifndef GY_CPU_NORM_H
#define GY_CPU_NORM_H
#include "kernels/cpu/cpu_context.h"

GY_INT void gy_cpu_bn_parts_plan(struct gy_planner *planner, struct gy_op *op); /* stats, sums */
GY_INT void gy_cpu_bn_stats_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_bn_apply_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_bn_apply_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_bn_sums_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_bn_back_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_bn_back_run(const struct gy_cpu *cpu, const struct gy_op *op);

/* Merges statistics of parts pairwise in a fixed tree (Chan et al. 1979). Part p begins at row p *
 * part_rows. mean, m2: [parts][channels], destroyed. Writes stats [2][channels]. */
GY_INT void gy_cpu_merge_stats(const struct gy_cpu *cpu, float *mean, float *m2, int64_t parts, int64_t channels,
                               int64_t part_rows, int64_t rows, float *stats);
/* out = (add ? out : 0) + sum over parts of part[p][count], in the order of p. */
GY_INT void gy_cpu_sum_parts(const struct gy_cpu *cpu, const float *part, int64_t parts, int64_t count, int64_t pitch,
                             float *out, int add);

#endif
