/* SPDX-License-Identifier: MIT */
/* variants.h: turns an op into launches of compiled kernels; plans.c and cuda_list.c call it. There
 * are three tables of rows: all other ops (variants_ops.h), convolutions (variants_conv.h), linear
 * models (variants_glm.h). Of the rows that fit op, type and architecture, the last one is taken. A
 * row for newer architectures therefore stands behind the older ones. 'gyre tune' may choose
 * another row that fits. */
#ifndef GY_CUDA_VARIANTS_H
#define GY_CUDA_VARIANTS_H
#include "kernels/cuda/variant_row.h"
#ifndef GY_NO_CUDA

/* The row for an op; NULL: none fits. want: the name of a row that is taken if it fits, else the
 * usual choice; or NULL. */
GY_INT const struct gy_cuda_row *gy_cuda_pick(const struct gy_op *op, const struct gy_cuda_device *device, const char *want);
/* Writes a variant's macros as compiler options "-DNAME=VALUE", each with a zero byte behind it.
 * Returns how many, *used: their bytes; -1: room does not suffice. Launches of one cut share
 * GY_THREADS and GY_SHARED_BYTES. */
GY_INT int gy_cuda_options(const struct gy_op *op, const struct gy_cuda_row *row, const struct gy_cuda_cut *cut,
                           const struct gy_cuda_device *device, char *room, size_t bytes, size_t *used);

#endif
#endif
