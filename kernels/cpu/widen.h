/* SPDX-License-Identifier: MIT */
/* widen.h: ops on bf16 through float kernels; see widen.c. */
#ifndef GY_CPU_WIDEN_H
#define GY_CPU_WIDEN_H
#include "kernels/cpu/cpu_context.h"

typedef void (*gy_wide_fn)(const void *self, const struct gy_op *op);

/* The float op that runs on each piece: its geometry, without addresses. */
GY_INT struct gy_op gy_cpu_wide_op(const struct gy_op *op);
/* Bytes of scratch for the widened tensors, a multiple of GY_CACHE_LINE; the float op's own scratch lies behind them. */
GY_INT size_t gy_cpu_wide_need(const struct gy_op *op);
GY_INT void gy_cpu_wide_run(const struct gy_cpu *cpu, const struct gy_op *op, gy_wide_fn run, const void *self);

#endif
