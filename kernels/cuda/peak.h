/* SPDX-License-Identifier: MIT */
/* peak.h: measures the device's limits: gy_backend_lab.ceilings of cuda_backend.c. */
#ifndef GY_CUDA_PEAK_H
#define GY_CUDA_PEAK_H
#include "kernels/backend.h"
#ifndef GY_NO_CUDA

GY_INT int gy_cuda_ceilings(void *self, struct gy_ceilings *out); /* as backend.h says */

#endif
#endif
