/* SPDX-License-Identifier: MIT */
/* cpu.h: what this processor can do, found at run time. A kernel set may be used only if all its bits are present. */
#ifndef GY_CPU_H
#define GY_CPU_H
#include "base.h"

enum gy_cpu_bits {
    GY_CPU_AVX2 = 1,       /* AVX2 and FMA, and the system saves the registers */
    GY_CPU_AVX512 = 2,     /* AVX-512 F, BW, DQ, VL */
    GY_CPU_AVX512BF16 = 4, /* vdpbf16ps */
    GY_CPU_AMX = 8,        /* AMX tiles with bf16 */
    GY_CPU_VSX = 16,       /* POWER8 vector-scalar extension */
    GY_CPU_MMA = 32        /* POWER10 matrix-multiply assist */
};

GY_INT unsigned gy_cpu_bits(void);
/* The mask for a name: "ref" none; "avx2", "avx512", "avx512bf16", "amx", "vsx", "mma": that set and what it builds on;
 * NULL or "" or "native" all. Returns 0, or -1 for an unknown name with *mask untouched. */
GY_INT int gy_cpu_mask(const char *name, unsigned *mask);
/* "AMD EPYC 9754" or so, into room bytes; "unknown" when the system does not say. */
GY_INT const char *gy_cpu_model(char *buf, size_t room);
GY_INT size_t gy_cpu_cache_bytes(int level); /* 1 data, 2, 3; a safe default when unknown */

#endif
