/* SPDX-License-Identifier: MIT */
/* cpu.h: what this processor can do, found at run time. A kernel set needs all its bits. */
#ifndef GY_CPU_H
#define GY_CPU_H
#include "engine/base/base.h"

enum gy_cpu_bits {
    GY_CPU_AVX2 = 1,       /* AVX2 and FMA, and the system saves the registers */
    GY_CPU_AVX512 = 2,     /* AVX-512 F, BW, DQ, VL */
    GY_CPU_AVX512BF16 = 4, /* vdpbf16ps */
    GY_CPU_AMX = 8,        /* AMX tiles with bf16, and the system lends them to this program */
    GY_CPU_VSX = 16,       /* POWER8 vector-scalar extension */
    GY_CPU_MMA = 32        /* POWER10 matrix-multiply assist */
};

GY_INT unsigned gy_cpu_bits(void);
/* The mask for a name: "ref" none; "avx2", "avx512", "avx512bf16", "amx", "vsx", "mma": that set
 * and what it builds on; NULL or "" or "native" all. Returns 0, or -1 for an unknown name with
 * *mask untouched. */
GY_INT int gy_cpu_mask(const char *name, unsigned *mask);
/* "AMD EPYC 9754" or so, into room bytes; "unknown" when the system does not say. */
GY_INT const char *gy_cpu_model(char *buf, size_t room);
/* 1 data, 2, 3, as one core sees it: the least that the system and the processor say and that can
 * be; a safe default when unknown. The parts of it: the size in a text such as "32768K", in the
 * registers a, b, c of CPUID's cache leaves (0: none of that level), and the choice among
 * several. */
GY_INT size_t gy_cpu_cache_bytes(int level);
GY_INT size_t gy_cpu_cache_text(const char *text);
GY_INT size_t gy_cpu_cache_leaf(const uint32_t registers[3], int level);
GY_INT size_t gy_cpu_cache_choose(int level, const size_t *said, size_t count);

#endif
