/* SPDX-License-Identifier: MIT */
/* conv.h: the epilogue of a convolution forward, which the direct way, depthwise and Winograd share. */
#ifndef GY_CPU_CONV_H
#define GY_CPU_CONV_H
#include "kernels/cpu/cpu_context.h"

/* Scale, shift, residual and activation on Y in place: rows pixels from pixel on, cols channels from channel on. */
GY_INT void gy_cpu_epilogue(const struct gy_cpu *cpu, const struct gy_op *op, int64_t pixel, int64_t rows,
                            int64_t channel, int64_t cols);

#endif
