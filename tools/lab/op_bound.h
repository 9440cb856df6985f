/* SPDX-License-Identifier: MIT */
/* op_bound.h: how far from the truth a kernel's result may be. The op test and try_case.c (of 'gyre
 * kernels try') hold kernels against it. An element-wise op may differ by a few roundings. A sum of
 * products may differ by eps * (8 + 2 sqrt(terms)) times the sum of the products' sizes. Where
 * Winograd's way makes a tile at once, the tile's largest such sum counts. Where every partial sum
 * is a whole number below 2^24 it may not differ at all. With inputs in 16 bits an eighth of what
 * their rounding moved is added. */
#ifndef GY_OP_BOUND_H
#define GY_OP_BOUND_H
#include "kernels/op.h"

/* An op and its tensors, inputs and outputs. */
struct gy_bound {
    int code, act, dtype;
    float act_param;
    struct gy_geom geom;
    /* exact values; NULL: the op has no such tensor, or it does not hold real numbers */
    const double *truth[GY_ROLES];
    /* of a sum: what the op gives for inputs that are all positive, without activation */
    const double *size[GY_ROLES];
    int whole;                     /* inputs are powers of two */
};

/* Is the op a sum of products whose sizes must be known? */
GY_INT int gy_bound_is_sum(int code);
/* Root mean square; what is not finite counts as 0. */
GY_INT double gy_bound_rms(const double *x, int64_t count);
/* How far element i of output role may be off. rms: of its truth. half: the output is stored in 16
 * bits, as the op's dtype says. */
GY_INT double gy_bound_of(const struct gy_bound *b, int role, int64_t i, double rms, int half);

#endif
