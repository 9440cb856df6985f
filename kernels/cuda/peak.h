/* SPDX-License-Identifier: MIT */
/* peak.h: measures what a GPU can do at most: operations and bytes a second. cuda_backend.c has it
 * in its table as gy_backend_lab.ceilings; commands print a step's ops beside these limits. */
#ifndef GY_CUDA_PEAK_H
#define GY_CUDA_PEAK_H
#include "kernels/backend.h"
#ifndef GY_NO_CUDA

GY_INT int gy_cuda_ceilings(void *self, struct gy_ceilings *out); /* as backend.h says */

#endif
#endif
