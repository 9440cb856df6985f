/* SPDX-License-Identifier: MIT */
/* The references once more, in double: the truth that every kernel is measured against (declared in
 * op_case.h). */
#define GY_REAL double
#define GY_REF(name) ref_##name##_f64
#define GY_REF_TABLE op_truth_table

#include "kernels/cpu/ref/ref_act.c"
#include "kernels/cpu/ref/ref_conv.c"
#include "kernels/cpu/ref/ref_loss.c"
#include "kernels/cpu/ref/ref_norm.c"
#include "kernels/cpu/ref/ref_optim.c"
#include "kernels/cpu/ref/ref_pool.c"
#include "kernels/cpu/ref/ref_table.c"
