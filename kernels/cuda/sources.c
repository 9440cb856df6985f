/* SPDX-License-Identifier: MIT */
/* sources.c: the texts that are compiled at run time, by name, from a file that tools/embed.sh
 * makes. */
#include "kernels/cuda/sources.h"
#ifndef GY_NO_CUDA

GY_INT const char *gy_cuda_source_name(int index)
{
    const char *const *texts = gy_cuda_texts();
    for (int i = 0; *texts; texts += 2)
        if (i++ == index)
            return *texts;
    return NULL;
}

GY_INT const char *gy_cuda_source(const char *name)
{
    for (const char *const *texts = gy_cuda_texts(); *texts; texts += 2)
        if (strcmp(texts[0], name) == 0)
            return texts[1];
    return NULL;
}

#endif
