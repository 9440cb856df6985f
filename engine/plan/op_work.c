/* SPDX-License-Identifier: MIT */
/* op_work.c: the work of an op: operations as defined and as its kernel does them, bytes moved. */
#include "engine/plan/op_work.h"

/* Part of a tensor that an op touches. A filter smaller than its stride leaves input out. An op of
 * a concatenation has the channels of one input. */
static double work_part(const struct gy_op *op, int role)
{
    const struct gy_geom *g = &op->geom;
    const int whole = op->code == GY_OP_CONCAT ? GY_Y : op->code == GY_OP_CONCAT_BWD ? GY_DY : -1;
    if (role == whole)
        return (double)g->c / (double)g->k;
    if (role == GY_X && (op->code == GY_OP_CONV || op->code == GY_OP_CONV_WGRAD))
        return fmin(1.0, (double)g->r / g->stride_h) * fmin(1.0, (double)g->s / g->stride_w);
    return 1.0;
}

/* Winograd: m x m outputs, r x r filter, (m + r - 1)^2 float multiplications instead of (m r)^2 */
GY_INT int gy_op_is_winograd(const struct gy_op *op) { return op->variant && strncmp(op->variant, "winograd", 8) == 0; }

static double work_multiplications(const struct gy_op *op)
{
    if (!gy_op_is_winograd(op))
        return 1;
    const double m = op->variant[8] - '0', r = op->geom.r, share = (m + r - 1) / (m * r);
    return share * share;
}

GY_INT struct gy_work gy_op_work(const struct gy_plan *plan, const struct gy_op *op)
{
    const struct gy_op_row *row = gy_op_row(op->code);
    const uint64_t adds = ((op->flags & GY_F_ADD_DX) != 0 ? 1ull << GY_DX : 0) |
                          ((op->flags & GY_F_ADD_DRES) != 0 ? 1ull << GY_DRES : 0);
    if (op->flags & GY_F_PARTIAL) /* no part of a usual step */
        return (struct gy_work){ 0 };
    struct gy_work work = { .flops = (double)gy_op_flops(op), .half = op->dtype != GY_F32 && gy_op_is_conv(op) && !gy_op_is_winograd(op) };
    work.done = work.flops * work_multiplications(op);
    for (int role = 0; role < GY_ROLES; role++) {
        if (op->tensor[role] < 0 || role == GY_SCRATCH)
            continue;
        const struct gy_tensor *t = &plan->tensors[op->tensor[role]];
        const double bytes = work_part(op, role) * (double)t->count * (double)gy_dtype_bytes(t->dtype);
        work.read += ((row->reads | adds) >> role & 1) ? bytes : 0;
        work.written += (row->writes >> role & 1) ? bytes : 0;
    }
    return work;
}
