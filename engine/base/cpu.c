/* SPDX-License-Identifier: MIT */
/* cpu.c: asks the processor and the system what cpu.h tells. On x86 CPUID, and XGETBV for the
 * registers that the system saves; Linux lends AMX tiles to a program that asks. On POWER the
 * kernel's auxiliary vector. */
#include "engine/base/cpu.h"
#include "engine/base/file_line.h"
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

/* Palette 1 has eight tiles of 16 rows x 64 bytes, and products take 16 pairs at a time. */
static int cpu_has_tiles(void)
{
    unsigned a, b, c, d, product;
    return __get_cpuid_count(0x1d, 0, &a, &b, &c, &d) && a >= 1 && __get_cpuid_count(0x1d, 1, &a, &b, &c, &d) &&
           (b & 0xffff) == 64 && b >> 16 >= 8 && (c & 0xffff) == 16 && __get_cpuid_count(0x1e, 0, &a, &product, &c, &d) &&
           (product & 0xff) == 16 && (product >> 8 & 0xffff) == 64;
}

/* Linux keeps room for tiles only after arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). All
 * threads have the right then. It is harmless to ask again. */
static int cpu_may_use_tiles(void)
{
#if defined(__linux__)
    long result = 158; /* arch_prctl */
    __asm__ volatile("syscall" : "+a"(result) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
    return result == 0;
#else
    return 0;
#endif
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
    if ((bits & GY_CPU_AVX512BF16) && tiles && (d7 >> 22 & 1) && (d7 >> 24 & 1) && cpu_has_tiles() && cpu_may_use_tiles())
        bits |= GY_CPU_AMX;
    return bits;
}
#elif defined(__powerpc64__)
GY_INT unsigned gy_cpu_bits(void)
{
    const unsigned long has_vsx = 0x00000080, arch_2_07 = 0x80000000, mma = 0x00060000;
    unsigned bits = 0;
    if ((getauxval(AT_HWCAP) & has_vsx) && (getauxval(AT_HWCAP2) & arch_2_07))
        bits |= GY_CPU_VSX;
    if (bits && (getauxval(AT_HWCAP2) & mma) == mma) /* and ISA 3.1 */
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
    while (file && gy_file_next(file, line, sizeof line)) {
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

/* ---- caches ---- */

/* Plausible sizes of a level, as virtual machines may report nonsense; usual: if none is known. */
static const struct { size_t lo, hi, usual; } cpu_caches[4] = {
    { 0, 0, 0 },
    { 4096, 1u << 20, 32768 },
    { 65536, 64u << 20, 524288 },
    { 131072, 512u << 20, 4194304 },
};

GY_INT size_t gy_cpu_cache_text(const char *text)
{
    size_t bytes = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (bytes > SIZE_MAX / 4096)
            return 0;
        bytes = bytes * 10 + (size_t)(*text - '0');
    }
    const char *const units = "KMG", *unit = *text != 0 ? strchr(units, *text) : NULL;
    text += unit != NULL;
    if ((*text != 0 && *text != '\n') || bytes > (SIZE_MAX >> 30))
        return 0;
    return bytes << (unit ? 10 * (unit - units + 1) : 0);
}

GY_INT size_t gy_cpu_cache_leaf(const uint32_t r[3], int level)
{
    const uint32_t type = r[0] & 31;
    const uint64_t line = (r[1] & 0xfff) + 1, parts = (r[1] >> 12 & 0x3ff) + 1, ways = (r[1] >> 22) + 1, sets = (uint64_t)r[2] + 1;
    if ((type != 1 && type != 3) || (int)(r[0] >> 5 & 7) != level || sets > 1u << 28)
        return 0;
    const uint64_t bytes = line * parts * ways * sets; /* at most 2^12 2^10 2^10 2^28 */
    return bytes <= SIZE_MAX ? (size_t)bytes : 0;
}

GY_INT size_t gy_cpu_cache_choose(int level, const size_t *said, size_t count)
{
    if (level < 1 || level > 3)
        return 0;
    size_t least = 0;
    for (size_t i = 0; i < count; i++)
        if (said[i] >= cpu_caches[level].lo && said[i] <= cpu_caches[level].hi && (least == 0 || said[i] < least))
            least = said[i];
    return least != 0 ? least : cpu_caches[level].usual;
}

/* A line of a file of the first processor's cache number index, or "". */
static const char *cpu_cache_line(int index, const char *name, char *line, int room)
{
    char path[80];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    return gy_file_line(path, line, room);
}

static size_t cpu_cache_system(int level)
{
    char line[32];
    for (int i = 0; i < 8; i++)
        if (gy_cpu_cache_text(cpu_cache_line(i, "level", line, sizeof line)) == (size_t)level &&
            strncmp(cpu_cache_line(i, "type", line, sizeof line), "Instr", 5) != 0)
            return gy_cpu_cache_text(cpu_cache_line(i, "size", line, sizeof line));
    return 0;
}

/* Leaf 4 is Intel's, 0x8000001d AMD's: what one core sees. (AMD's leaf 0x80000006, used by sysconf,
 * sums the third caches of a whole package.) */
#if defined(__x86_64__)
static size_t cpu_cache_cpuid(unsigned leaf, int level)
{
    unsigned a, b, c, d, words = 0;
    if (leaf > 0x80000000u && (!__get_cpuid(0x80000001u, &a, &b, &words, &d) || !(words >> 22 & 1)))
        return 0;
    for (unsigned i = 0; i < 8 && __get_cpuid_count(leaf, i, &a, &b, &c, &d) && (a & 31) != 0; i++) {
        const uint32_t r[3] = { a, b, c };
        if (gy_cpu_cache_leaf(r, level) != 0)
            return gy_cpu_cache_leaf(r, level);
    }
    return 0;
}
#else
static size_t cpu_cache_cpuid(unsigned leaf, int level)
{
    (void)leaf;
    (void)level;
    return 0;
}
#endif

GY_INT size_t gy_cpu_cache_bytes(int level)
{
    size_t said[4] = { cpu_cache_system(level), cpu_cache_cpuid(4, level), cpu_cache_cpuid(0x8000001du, level), 0 };
#if defined(_SC_LEVEL1_DCACHE_SIZE)
    static const int name[4] = { 0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE };
    const long bytes = level >= 1 && level <= 3 ? sysconf(name[level]) : 0;
    said[3] = bytes > 0 ? (size_t)bytes : 0;
#endif
    return gy_cpu_cache_choose(level, said, GY_COUNT(said));
}
