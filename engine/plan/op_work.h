/* SPDX-License-Identifier: MIT */
/* op_work.h: how much an op of a plan computes and moves. Stages, printed plans and lab call it. */
#ifndef GY_OP_WORK_H
#define GY_OP_WORK_H
#include "engine/plan/program.h"

struct gy_work {
    double flops;         /* multiplications and additions as the op is defined */
    double done;          /* those that its kernel does: less where it is Winograd's */
    double read, written; /* bytes */
    int half;             /* multiplied as bf16 or f16 */
};

/* From the tensors' types and shapes; of a tensor of which the op touches a part, that part. */
GY_INT struct gy_work gy_op_work(const struct gy_plan *plan, const struct gy_op *op);
GY_INT int gy_op_is_winograd(const struct gy_op *op); /* its kernel is one of Winograd's */

#endif
