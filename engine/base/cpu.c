/* SPDX-License-Identifier: MIT */
/* x86: CPUID, and XGETBV for the registers that the system saves. POWER: the kernel's auxiliary vector. */
#include "cpu.h"
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__powerpc64__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
static uint64_t cpu_saved_registers(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

GY_INT unsigned gy_cpu_bits(void)
{
    unsigned a, b, c, d, b7, c7, d7, a71 = 0, unused;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1) || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7))
        return 0;
    if (a >= 1)
        __get_cpuid_count(7, 1, &a71, &unused, &unused, &unused);
    const uint64_t saved = cpu_saved_registers();
    const int ymm = (saved & 6) == 6, zmm = (saved & 0xe6) == 0xe6, tiles = (saved & 0x60000) == 0x60000;
    unsigned bits = 0;
    if (ymm && (c >> 28 & 1) && (c >> 12 & 1) && (b7 >> 5 & 1))
        bits |= GY_CPU_AVX2;
    if (bits && zmm && (b7 >> 16 & 1) && (b7 >> 17 & 1) && (b7 >> 30 & 1) && (b7 >> 31 & 1))
        bits |= GY_CPU_AVX512;
    if ((bits & GY_CPU_AVX512) && (a71 >> 5 & 1))
        bits |= GY_CPU_AVX512BF16;
    if ((bits & GY_CPU_AVX512) && tiles && (d7 >> 22 & 1) && (d7 >> 24 & 1))
        bits |= GY_CPU_AMX;
    return bits;
}
#elif defined(__powerpc64__)
GY_INT unsigned gy_cpu_bits(void)
{
    const unsigned long has_vsx = 0x00000080, arch_2_07 = 0x80000000, mma = 0x00020000;
    unsigned bits = 0;
    if ((getauxval(AT_HWCAP) & has_vsx) && (getauxval(AT_HWCAP2) & arch_2_07))
        bits |= GY_CPU_VSX;
    if (bits && (getauxval(AT_HWCAP2) & mma))
        bits |= GY_CPU_MMA;
    return bits;
}
#else
GY_INT unsigned gy_cpu_bits(void) { return 0; }
#endif

static const struct { const char *name; unsigned mask; } cpu_sets[] = {
    { "ref", 0 },
    { "avx2", GY_CPU_AVX2 },
    { "avx512", GY_CPU_AVX2 | GY_CPU_AVX512 },
    { "avx512bf16", GY_CPU_AVX2 | GY_CPU_AVX512 | GY_CPU_AVX512BF16 },
    { "amx", GY_CPU_AVX2 | GY_CPU_AVX512 | GY_CPU_AVX512BF16 | GY_CPU_AMX },
    { "vsx", GY_CPU_VSX },
    { "mma", GY_CPU_VSX | GY_CPU_MMA },
    { "native", ~0u },
    { "", ~0u },
};

GY_INT int gy_cpu_mask(const char *name, unsigned *mask)
{
    for (size_t i = 0; i < GY_COUNT(cpu_sets); i++)
        if (strcmp(name ? name : "", cpu_sets[i].name) == 0) {
            *mask = cpu_sets[i].mask;
            return 0;
        }
    return -1;
}

GY_INT const char *gy_cpu_model(char *buf, size_t room)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(buf, room, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (!colon || (strncmp(line, "model name", 10) != 0 && strncmp(line, "cpu\t", 4) != 0))
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(buf, room, "%s", colon[1] == ' ' ? colon + 2 : colon + 1);
        break;
    }
    if (file)
        fclose(file);
    return buf;
}

GY_INT size_t gy_cpu_cache_bytes(int level)
{
    static const size_t usual[4] = { 0, 32768, 524288, 4194304 };
    long bytes = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
    static const int name[4] = { 0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE };
    if (level >= 1 && level <= 3)
        bytes = sysconf(name[level]);
#endif
    return bytes > 0 ? (size_t)bytes : usual[level >= 1 && level <= 3 ? level : 0];
}
