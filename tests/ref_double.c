/* SPDX-License-Identifier: MIT */
/* The references once more, in double: the truth that every kernel is measured against (declared in op_case.h). */
#define GY_REAL double
#define GY_REF(name) ref_##name##_f64
#define GY_REF_TABLE op_truth_table

#include "kernels/cpu/ref_act.c"
#include "kernels/cpu/ref_conv.c"
#include "kernels/cpu/ref_loss.c"
#include "kernels/cpu/ref_norm.c"
#include "kernels/cpu/ref_optim.c"
#include "kernels/cpu/ref_pool.c"
#include "kernels/cpu/ref_table.c"
