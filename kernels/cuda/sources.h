/* SPDX-License-Identifier: MIT */
/* sources.h: the texts that are compiled at run time: .cu and .cuh files and the headers that they share with the host. */
#ifndef GY_CUDA_SOURCES_H
#define GY_CUDA_SOURCES_H
#include "kernels/cuda/variants.h"
#ifndef GY_NO_CUDA

GY_INT const char *const *gy_cuda_texts(void); /* made by tools/embed.sh: name, text, name, text, NULL */

#endif
#endif
