/* SPDX-License-Identifier: MIT */
/* roofline.h: how fast an op could be and how fast it will be. Its limit is the larger of its multiplications over the
 * measured peak and its bytes, each read and written once, over the measured bandwidth; no program is faster on this machine
 * unless it does less. What is expected is the limit over a share that ops of its kind reach, from a table with its source. */
#ifndef GY_ROOFLINE_H
#define GY_ROOFLINE_H
#include "engine/base/text.h"
#include "engine/plan/program.h"

struct gy_work {
    double flops;         /* multiplications and additions as the op is defined */
    double done;          /* those that its kernel does: less where it is Winograd's */
    double read, written; /* bytes */
    int half;             /* multiplied as bf16 or f16 */
};

struct gy_limit {
    double compute, memory; /* seconds that each would take alone */
    double seconds;         /* the larger */
};

/* Kinds of ops, as tables and predictions know them. */
enum gy_op_kinds {
    GY_OP_IS_OTHER, GY_OP_IS_CONV, GY_OP_IS_DGRAD, GY_OP_IS_WGRAD, GY_OP_IS_NORM, GY_OP_IS_NORM_BACK, GY_OP_IS_ELEMENT,
    GY_OP_IS_POOL, GY_OP_IS_UPDATE,
    GY_OP_KINDS
};
GY_INT const char *gy_kind_name(int kind);
GY_INT int gy_op_kind(const struct gy_op *op);
GY_INT int gy_op_is_conv(const struct gy_op *op); /* forward or either gradient */

/* From the tensors' types and shapes; of a tensor of which the op touches a part, that part. */
GY_INT struct gy_work gy_op_work(const struct gy_plan *plan, const struct gy_op *op);
/* Bytes that fit the last cache go at its speed, others at memory's; writing counts as copying as far as something is read. */
GY_INT struct gy_limit gy_roofline(const struct gy_work *work, const struct gy_ceilings *ceilings);
/* Peak and bandwidth that hold for this work: GFLOP/s, GB/s. */
GY_INT double gy_roofline_peak(const struct gy_work *work, const struct gy_ceilings *ceilings);
GY_INT double gy_roofline_bandwidth(const struct gy_work *work, const struct gy_ceilings *ceilings);
/* Seconds that the op is expected to take in a step. */
GY_INT double gy_roofline_expect(const struct gy_op *op, const struct gy_work *work, const struct gy_ceilings *ceilings);

/* Each figure the larger of the two: another program may have been in the way of one. */
GY_INT void gy_ceilings_merge(struct gy_ceilings *ceilings, const struct gy_ceilings *more);
/* Two lines: the device, its peaks, its bandwidths. */
GY_INT void gy_ceilings_print(const struct gy_ceilings *ceilings, const char *device, struct gy_sink *sink);
/* "32x56x56x64 * 3x3/1 -> 64", or the shape alone, or spans; returns text. */
GY_INT const char *gy_op_shape(const struct gy_op *op, char *text, size_t room);

#endif
