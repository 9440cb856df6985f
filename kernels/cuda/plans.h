/* SPDX-License-Identifier: MIT */
/* plans.h: makes ops ready and launches them. cuda_backend.c, timing.c (run) and cuda_list.c
 * (compilation, a user's kernel) call it. prepare chooses a kernel, ready compiles and loads all of
 * them, run launches. */
#ifndef GY_CUDA_PLANS_H
#define GY_CUDA_PLANS_H
#include "kernels/cuda/cuda_state.h"
#ifndef GY_NO_CUDA

/* compiles those that are missing; hashes all */
GY_INT int gy_cuda_compile_units(struct gy_cuda_backend *cuda, struct gy_error *err);
GY_INT int gy_cuda_prepare(void *self, struct gy_op *op, struct gy_error *err);
/* The same for a row and a cut, also of no table. Texts and row live as long as the backend. */
GY_INT int gy_cuda_prepare_cut(struct gy_cuda_backend *cuda, struct gy_op *op, const struct gy_cuda_row *row,
                               const struct gy_cuda_cut *cut, struct gy_error *err);
/* SHA-256, in hex, of the kernel that op->variant names: of text, macros and architecture. NULL: of
 * the table's choice. Returns 0 if there is none. Nothing is prepared. */
GY_INT int gy_cuda_kernel_hash(void *self, const struct gy_op *op, char hash[65]);
GY_INT int gy_cuda_ready(void *self, struct gy_error *err);
GY_INT int gy_cuda_run(void *self, const struct gy_op *op);
GY_INT void gy_cuda_plans_close(struct gy_cuda_backend *cuda);

#endif
#endif
