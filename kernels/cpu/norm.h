/* SPDX-License-Identifier: MIT */
/* norm.h: batch norm on CPUs. drivers.c has the drivers in its table; kernels/op.h says what their
 * ops compute. A tensor's rows, its pixels, are cut into parts that threads take. What each part
 * leaves is joined in a fixed order, so bits do not depend on threads. Convolutions join their
 * parts by the same two functions. */
#ifndef GY_CPU_NORM_H
#define GY_CPU_NORM_H
#include "kernels/cpu/cpu_context.h"

GY_INT void gy_cpu_bn_parts_plan(struct gy_planner *planner, struct gy_op *op); /* of stats and of sums */
GY_INT void gy_cpu_bn_stats_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_bn_apply_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_bn_apply_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_bn_sums_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_bn_back_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_bn_back_run(const struct gy_cpu *cpu, const struct gy_op *op);

/* Merges statistics of parts pairwise in a fixed tree (Chan et al. 1979). Part p begins at row p *
 * part_rows. mean, and m2, the sum of squared deviations: [parts][channels], destroyed. Writes
 * those of all rows to stats [2][channels]. */
GY_INT void gy_cpu_merge_stats(const struct gy_cpu *cpu, float *mean, float *m2, int64_t parts, int64_t channels,
                               int64_t part_rows, int64_t rows, float *stats);
/* out[count] = (add ? out : 0) + the sum over p of part[p * pitch .. + count), in the order of p. */
GY_INT void gy_cpu_sum_parts(const struct gy_cpu *cpu, const float *part, int64_t parts, int64_t count, int64_t pitch,
                             float *out, int add);

#endif
