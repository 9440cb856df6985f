/* SPDX-License-Identifier: MIT */
/* drivers.h: the table of CPU drivers. prepare takes the cheapest that fits an op and has it make its plan, once;
 * run calls it. cpu_backend.c calls these, and widen.c for the float op inside. A new driver is a row of drivers.c:
 *     {"depthwise", GY_OP_CONV, DRIVER_F32, driver_depth, NULL, gy_cpu_depth_plan, gy_cpu_depth_run, 0} */
#ifndef GY_CPU_DRIVERS_H
#define GY_CPU_DRIVERS_H
#include "kernels/cpu/cpu_context.h"

#define GY_DRIVER_ANY (-1) /* of every code: where no other fits */
struct gy_driver {
    const char *name;
    int code;        /* enum gy_opcode, or GY_DRIVER_ANY */
    unsigned dtypes; /* 1 << enum gy_dtype: activations that it reads and writes */
    /* size: the row's. fits NULL: always. cost NULL: 0, the only one; else multiply-adds at the direct way's pace. */
    int (*fits)(const struct gy_op *op, const struct gy_kernels *k, int size);
    double (*cost)(const struct gy_op *op, const struct gy_kernels *k, int size);
    void (*plan)(struct gy_planner *planner, struct gy_op *op); /* sets plan, scratch_bytes; NULL: neither is needed */
    void (*run)(const struct gy_cpu *cpu, const struct gy_op *op);
    int size;        /* Winograd: number of gy_kernels.wino */
};

/* Fills variant, kernel, plan, scratch_bytes, and block where it is 0. */
GY_INT void gy_driver_prepare(struct gy_planner *planner, struct gy_op *op);

static inline void gy_driver_run(const struct gy_cpu *cpu, const struct gy_op *op)
{
    ((const struct gy_driver *)op->kernel)->run(cpu, op);
}

#endif
