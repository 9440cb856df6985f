/* SPDX-License-Identifier: MIT */
/* driver.h: a CPU driver, and the functions of all of them, which the table of drivers.c names.
 * prepare takes the cheapest driver that fits an op and has it make its plan, once; run calls it. A
 * new driver is a row of drivers.c:
 *     {"depthwise", GY_OP_CONV, DRIVER_F32, driver_depth, NULL,
 *      gy_cpu_depth_plan, gy_cpu_depth_run, 0} */
#ifndef GY_CPU_DRIVER_H
#define GY_CPU_DRIVER_H
#include "kernels/cpu/cpu_context.h"

#define GY_DRIVER_ANY (-1) /* of every code: where no other fits */
struct gy_driver {
    const char *name;
    int code;        /* enum gy_opcode, or GY_DRIVER_ANY */
    unsigned dtypes; /* 1 << enum gy_dtype: activations that it reads and writes */
    /* size: the row's. fits NULL: always. cost NULL: 0; else multiply-adds of the direct way. */
    int (*fits)(const struct gy_op *op, const struct gy_kernels *k, int size);
    double (*cost)(const struct gy_op *op, const struct gy_kernels *k, int size);
    /* sets plan, scratch_bytes; NULL: neither is needed */
    void (*plan)(struct gy_planner *planner, struct gy_op *op);
    void (*run)(const struct gy_cpu *cpu, const struct gy_op *op);
    int size;        /* Winograd: number of gy_kernels.wino */
};

/* drivers.c: fills variant, kernel, plan, scratch_bytes, and block where it is 0. */
GY_INT void gy_driver_prepare(struct gy_planner *planner, struct gy_op *op);

static inline void gy_driver_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    ((const struct gy_driver *)op->kernel)->run(cpu, op);
}

/* ---- the drivers: ..._plan in prepare, ..._run in a step ---- */

GY_INT void gy_cpu_conv_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_conv_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_dgrad_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_dgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_wgrad_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_wgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);
/* Depthwise: every channel is a group of its own. One plan for all three. */
GY_INT int gy_cpu_is_depthwise(const struct gy_op *op);
GY_INT void gy_cpu_depth_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_depth_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_depth_dgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_depth_wgrad_run(const struct gy_cpu *cpu, const struct gy_op *op);
/* Winograd: 3x3 and 5x5 with stride 1, enough channels. size: a row of gy_kernels.wino. fits: 1 if
 * it does; costs are in multiply-adds of the direct way (gy_direct_cost: the direct way itself). */
GY_INT int gy_wino_fits(const struct gy_op *op, const struct gy_kernels *k, int size);
GY_INT double gy_wino_cost(const struct gy_op *op, const struct gy_kernels *k, int size);
GY_INT double gy_direct_cost(const struct gy_op *op, const struct gy_kernels *k, int size);
GY_INT void gy_cpu_wino_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_wino_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_wino_grad_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_wino_grad_run(const struct gy_cpu *cpu, const struct gy_op *op);
/* both kinds, both ways */
GY_INT void gy_cpu_pool_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_pool_max_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_pool_avg_run(const struct gy_cpu *cpu, const struct gy_op *op);
GY_INT void gy_cpu_pool_back_run(const struct gy_cpu *cpu, const struct gy_op *op); /* both kinds */
/* bf16 through a float driver */
GY_INT void gy_cpu_wide_plan(struct gy_planner *planner, struct gy_op *op);
GY_INT void gy_cpu_wide_run(const struct gy_cpu *cpu, const struct gy_op *op);

#endif
