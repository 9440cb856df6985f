/* SPDX-License-Identifier: MIT */
/* cpu.h: finds out at run time what this processor can do: instruction sets, model, cache sizes.
 * kernels/cpu/ chooses kernels by the bits, and run/config.c checks gyre_config.isa by them. Linear
 * models and net/comm/ ask, too. */
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
/* The model into room bytes of buf, such as "AMD EPYC 9754", or "unknown". Returns buf. */
GY_INT const char *gy_cpu_model(char *buf, size_t room);
/* Bytes of a cache (level 1 for data, 2, 3) as one core sees it. It is the least plausible size
 * that the system and the processor report, or a usual one. Its parts: the size in a text such as
 * "32768K" (0: none); in registers a, b, c of a CPUID cache leaf (0: it is no data cache of that
 * level); the choice. */
GY_INT size_t gy_cpu_cache_bytes(int level);
GY_INT size_t gy_cpu_cache_text(const char *text);
GY_INT size_t gy_cpu_cache_leaf(const uint32_t registers[3], int level);
GY_INT size_t gy_cpu_cache_choose(int level, const size_t *said, size_t count);

#endif
