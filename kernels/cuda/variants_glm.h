/* SPDX-License-Identifier: MIT */
/* variants_glm.h: the rows of linear models' ops; variants.c reads them. */
#ifndef GY_CUDA_VARIANTS_GLM_H
#define GY_CUDA_VARIANTS_GLM_H
#include "kernels/cuda/variant_row.h"
#ifndef GY_NO_CUDA

GY_INT const struct gy_cuda_row *gy_cuda_glm_row_at(int index); /* NULL past the last */

#endif
#endif
