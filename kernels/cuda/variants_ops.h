/* SPDX-License-Identifier: MIT */
/* variants_ops.h: the rows of all ops but convolutions and those of linear models. variants.c and
 * cuda_list.c read them. */
#ifndef GY_CUDA_VARIANTS_OPS_H
#define GY_CUDA_VARIANTS_OPS_H
#include "kernels/cuda/variant_row.h"
#ifndef GY_NO_CUDA

GY_INT const struct gy_cuda_row *gy_cuda_row_at(int index); /* NULL past the last */

#endif
#endif
