/* SPDX-License-Identifier: MIT */
/* ref_double.c: the references once more, in double: the truth against which every kernel is
 * measured (declared in op_case.h). */
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
