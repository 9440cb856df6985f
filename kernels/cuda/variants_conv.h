/* SPDX-License-Identifier: MIT */
/* variants_conv.h: the rows of convolutions; variants.c and cuda_list.c read them. */
#ifndef GY_CUDA_VARIANTS_CONV_H
#define GY_CUDA_VARIANTS_CONV_H
#include "kernels/cuda/variant_row.h"

GY_INT const struct gy_cuda_row *gy_cuda_conv_row_at(int index); /* NULL past the last */

#endif
