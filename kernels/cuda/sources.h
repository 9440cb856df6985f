/* SPDX-License-Identifier: MIT */
/* sources.h: the texts that are compiled at run time: .cu and .cuh files and the headers that they
 * share with the host. compile.c and cuda_list.c read them. tools/embed.sh takes a new file in. */
#ifndef GY_CUDA_SOURCES_H
#define GY_CUDA_SOURCES_H
#include "engine/base/base.h"
#ifndef GY_NO_CUDA

/* made by tools/embed.sh: name, text, name, text, NULL */
GY_INT const char *const *gy_cuda_texts(void);
/* Text by file name, or NULL. */
GY_INT const char *gy_cuda_source(const char *name);
GY_INT const char *gy_cuda_source_name(int index); /* NULL past the last */

#endif
#endif
