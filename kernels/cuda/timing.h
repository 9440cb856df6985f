/* SPDX-License-Identifier: MIT */
/* timing.h: times one op on the device: gy_backend_lab.time of cuda_backend.c. */
#ifndef GY_CUDA_TIMING_H
#define GY_CUDA_TIMING_H
#include "kernels/backend.h"
#ifndef GY_NO_CUDA

/* As backend.h says. */
GY_INT int gy_cuda_time(void *self, const struct gy_op *op, int repeats, double *seconds, struct gy_error *err);

#endif
#endif
