/* SPDX-License-Identifier: MIT */
/* select.c: chooses a kernel set. The portable one fills the table first. Each set that bits (the
 * processor's, masked by the configuration) allow then overrides what precedes it. */
#include "kernels/cpu/isa/select.h"
#include "engine/base/cpu.h"

GY_INT struct gy_kernels gy_kernels_select(unsigned bits)
{
    struct gy_kernels k;
    memset(&k, 0, sizeof k);
    gy_kernels_portable(&k);
    if (bits & GY_CPU_AVX2)
        gy_kernels_avx2(&k);
    if (bits & GY_CPU_AVX512)
        gy_kernels_avx512(&k);
    if (bits & GY_CPU_AVX512BF16)
        gy_kernels_avx512bf16(&k);
    if (bits & GY_CPU_AMX)
        gy_kernels_amx(&k);
    if (bits & GY_CPU_VSX)
        gy_kernels_vsx(&k);
    if (bits & GY_CPU_MMA)
        gy_kernels_mma(&k);
    return k;
}
