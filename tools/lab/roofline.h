/* SPDX-License-Identifier: MIT */
/* roofline.h: how fast an op could be and how fast it will be, for fit.c, why.c, why_page.c,
 * roofline_bench.c and tune.c. Its limit is the larger of its multiplications over the measured
 * peak and its bytes, each read and written once, over the measured bandwidth. No program is faster
 * on this machine unless it does less. The expected time is the limit over a share that ops of its
 * kind reach, from a table with its source. */
#ifndef GY_ROOFLINE_H
#define GY_ROOFLINE_H
#include "engine/base/text.h"
#include "engine/plan/op_work.h"

struct gy_limit {
    double compute, memory; /* seconds that each would take alone */
    double seconds;         /* the larger */
};

/* Bytes that fit the last cache go at its speed, others at that of memory. Writing counts as
 * copying as far as something is read. */
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

#endif
