/* SPDX-License-Identifier: MIT */
/* variants.h: turns an op into launches of compiled kernels. Of the rows that fit, the last one
 * whose architecture is not above the device's is the best. There are three tables: all ops but
 * convolutions (variants_ops.h), convolutions (variants_conv.h), linear models (variants_glm.h).
 * 'gyre tune' may choose another row that fits. */
#ifndef GY_CUDA_VARIANTS_H
#define GY_CUDA_VARIANTS_H
#include "kernels/cuda/variant_row.h"
#ifndef GY_NO_CUDA

/* The row for an op, or NULL when none fits. want: a row's name that is taken if it fits, or NULL. */
GY_INT const struct gy_cuda_row *gy_cuda_pick(const struct gy_op *op, const struct gy_cuda_device *device, const char *want);
/* The macros of a variant as compiler options, each "-DNAME=VALUE", written one after another with a zero byte behind each; returns how
 * many, and the bytes used in *used, or -1 when room does not suffice. Launches of one cut share GY_THREADS and GY_SHARED_BYTES. */
GY_INT int gy_cuda_options(const struct gy_op *op, const struct gy_cuda_row *row, const struct gy_cuda_cut *cut,
                           const struct gy_cuda_device *device, char *room, size_t bytes, size_t *used);

#endif
#endif
