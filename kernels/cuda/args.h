/* SPDX-License-Identifier: MIT */
/* args.h: the parameter of every CUDA kernel, one record by value, which plans.c fills. It has
 * tensors by role, as in the op record, and the block of what changes per step. Shapes are no
 * parameters: they are macros of the compiled variant (prelude.cuh lists them). The host and the
 * kernels read this file. */
#ifndef GY_CUDA_ARGS_H
#define GY_CUDA_ARGS_H

#define GY_CUDA_MAPS 4

/* A tensor map of bulk copies, made by the driver (CUtensorMap); CUDA 12 has a boundary of 64. */
#define GY_CUDA_MAP_ALIGN 128
struct __attribute__((aligned(GY_CUDA_MAP_ALIGN))) gy_tensor_map {
    uint64_t word[16];
};

struct gy_args {
    struct gy_tensor_map map[GY_CUDA_MAPS];
    void *ptr[GY_ROLES];           /* addresses on the device, NULL none */
    const struct gy_span *spans;   /* on the device */
    const struct gy_uniform *u;    /* on the device */
};

#endif
