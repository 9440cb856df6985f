/* SPDX-License-Identifier: MIT */
/* prelude.cuh: the words of the dialect (kernels/cuda/prelude.cuh lists them) in plain C, for
 * running kernels on a CPU. The emulator compiles kernels with this file in place of the other one,
 * by the host's compiler with -fsanitize=thread. Its calls before every load and store
 * (__tsan_read4 and so on) are defined here and go to the emulator's checker.
 *
 * One fiber is one CUDA thread. A word of several threads (barrier, shuffle, matrix of a warp)
 * hands its operands to the emulator. It parks the fiber until the others have come, too. Functions
 * marked GY_EMU_PLAIN are not checked. */
#ifndef GY_PRELUDE_CUH
#define GY_PRELUDE_CUH

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "words.h"
#include "op_device.h"
#include "args.h"

#define GY_EMU_PLAIN __attribute__((no_sanitize_thread))
#define GY_EMU_HIDDEN __attribute__((visibility("hidden")))

/* ---- the way to the emulator ---- */

static struct gy_emu_words *gy_emu;
GY_EMU_PLAIN void gy_emu_open(struct gy_emu_words *words);
GY_EMU_PLAIN void gy_emu_open(struct gy_emu_words *words) { gy_emu = words; }

#ifndef GY_EMU_TSAN
#define GY_EMU_ACCESS(name, bytes, write)                                                                              \
    GY_EMU_HIDDEN GY_EMU_PLAIN void name(void *p);                                                                     \
    GY_EMU_HIDDEN GY_EMU_PLAIN void name(void *p)                                                                      \
    {                                                                                                                  \
        if ((unsigned long)p - gy_emu->place.stack >= gy_emu->place.stack_bytes)                                       \
            gy_emu->access(p, bytes, write, __builtin_return_address(0));                                              \
    }
#define GY_EMU_ACCESSES(bytes)                                                                                         \
    GY_EMU_ACCESS(__tsan_read##bytes, bytes, 0)                                                                        \
    GY_EMU_ACCESS(__tsan_write##bytes, bytes, 1)                                                                       \
    GY_EMU_ACCESS(__tsan_read_write##bytes, bytes, 1)                                                                  \
    GY_EMU_ACCESS(__tsan_volatile_read##bytes, bytes, 0)                                                               \
    GY_EMU_ACCESS(__tsan_volatile_write##bytes, bytes, 1)                                                              \
    GY_EMU_ACCESS(__tsan_unaligned_read##bytes, bytes, 0)                                                              \
    GY_EMU_ACCESS(__tsan_unaligned_write##bytes, bytes, 1)                                                             \
    GY_EMU_ACCESS(__tsan_unaligned_read_write##bytes, bytes, 1)                                                        \
    GY_EMU_ACCESS(__tsan_unaligned_volatile_read##bytes, bytes, 0)                                                     \
    GY_EMU_ACCESS(__tsan_unaligned_volatile_write##bytes, bytes, 1)
GY_EMU_ACCESSES(1)
GY_EMU_ACCESSES(2)
GY_EMU_ACCESSES(4)
GY_EMU_ACCESSES(8)
GY_EMU_ACCESSES(16)
#define GY_EMU_RANGE(name, write)                                                                                      \
    GY_EMU_HIDDEN GY_EMU_PLAIN void name(void *p, unsigned long bytes);                                                \
    GY_EMU_HIDDEN GY_EMU_PLAIN void name(void *p, unsigned long bytes)                                                 \
    {                                                                                                                  \
        gy_emu->access(p, bytes, write, __builtin_return_address(0));                                                  \
    }
GY_EMU_RANGE(__tsan_read_range, 0)
GY_EMU_RANGE(__tsan_write_range, 1)
#define GY_EMU_NOTHING(name, parameter)                                                                                \
    GY_EMU_HIDDEN GY_EMU_PLAIN void name(parameter);                                                                   \
    GY_EMU_HIDDEN GY_EMU_PLAIN void name(parameter) {}
GY_EMU_HIDDEN GY_EMU_PLAIN void __tsan_func_entry(void *pc);
GY_EMU_HIDDEN GY_EMU_PLAIN void __tsan_func_entry(void *pc) { (void)pc; }
GY_EMU_NOTHING(__tsan_func_exit, void)
GY_EMU_NOTHING(__tsan_init, void)
#endif

/* ---- C and CUDA C ---- */

#define GY_FN static inline __attribute__((unused))
#define GY_CONST static const __attribute__((unused))
#define GY_RESTRICT restrict
#define GY_UNROLL
#define GY_UNROLL_NOT
/* The emulator calls the entry with the arguments' address. The kernel gets a copy, as on a GPU. */
#define GY_KERNEL(name)                                                                                                \
    static void name##_thread(const struct gy_args a);                                                                 \
    GY_EMU_PLAIN void name(const struct gy_args *gy_emu_args);                                                         \
    GY_EMU_PLAIN void name(const struct gy_args *gy_emu_args) { name##_thread(*gy_emu_args); }                         \
    static __attribute__((noinline)) void name##_thread(const struct gy_args a)

#define GY_EMU_TEXT_(x) #x
#define GY_EMU_TEXT(x) GY_EMU_TEXT_(x)
#define GY_HERE __FILE__ ":" GY_EMU_TEXT(__LINE__) /* where a word stands in the kernel */

/* The place of a thread does not change while it runs: 'const' lets the compiler ask once. */
#define GY_EMU_PLACE(name, what)                                                                                       \
    static __attribute__((noinline, const, unused)) GY_EMU_PLAIN int name(void) { return gy_emu->place.what; }
GY_EMU_PLACE(gy_emu_tid, tid)
GY_EMU_PLACE(gy_emu_bx, block[0])
GY_EMU_PLACE(gy_emu_by, block[1])
GY_EMU_PLACE(gy_emu_bz, block[2])
GY_EMU_PLACE(gy_emu_gx, grid[0])
GY_EMU_PLACE(gy_emu_gy, grid[1])
GY_EMU_PLACE(gy_emu_gz, grid[2])
#define GY_TID gy_emu_tid()
#define GY_LANE (gy_emu_tid() & 31)
#define GY_WARP (gy_emu_tid() >> 5)
#define GY_BX gy_emu_bx()
#define GY_BY gy_emu_by()
#define GY_BZ gy_emu_bz()
#define GY_GX gy_emu_gx()
#define GY_GY gy_emu_gy()
#define GY_GZ gy_emu_gz()

static __attribute__((noinline, const, unused)) GY_EMU_PLAIN unsigned char *gy_emu_shared(void)
{
    return gy_emu->place.shared;
}
#define GY_SHARED(kind, s)                                                                                             \
    _Static_assert(sizeof(kind) <= GY_SHARED_BYTES, "the variant's shared memory is too small");                       \
    kind *const s = (kind *)gy_emu_shared()
#define GY_P(type, role) ((type *)a.ptr[role])

/* ---- threads together ---- */

static __attribute__((noinline, unused)) GY_EMU_PLAIN void gy_emu_sync(const char *site) { gy_emu->sync(site); }
static __attribute__((noinline, unused)) GY_EMU_PLAIN void gy_emu_group(int word, const char *site, const void *in, void *out)
{
    gy_emu->group(word, site, in, out);
}
#define GY_SYNC() gy_emu_sync(GY_HERE)

GY_FN uint32_t gy_bits(float v)
{
    const union { float f; uint32_t u; } x = {.f = v};
    return x.u;
}
GY_FN float gy_float(uint32_t v)
{
    const union { uint32_t u; float f; } x = {.u = v};
    return x.f;
}
GY_FN uint32_t gy_emu_shfl(int word, uint32_t v, int which, const char *site)
{
    const struct gy_emu_shfl in = {v, which};
    uint32_t out = 0;
    gy_emu_group(word, site, &in, &out);
    return out;
}
#define gy_shfl_xor(v, mask) gy_float(gy_emu_shfl(GY_EMU_SHFL_XOR, gy_bits(v), mask, GY_HERE))
#define gy_shfl_down(v, d) gy_float(gy_emu_shfl(GY_EMU_SHFL_DOWN, gy_bits(v), d, GY_HERE))
#define gy_shfl(v, lane) gy_float(gy_emu_shfl(GY_EMU_SHFL, gy_bits(v), lane, GY_HERE))
#define gy_shfl_i(v, lane) ((int)gy_emu_shfl(GY_EMU_SHFL, (uint32_t)(v), lane, GY_HERE))

/* One at a time, whoever comes; with other accesses to the same float they are checked like any. */
static __attribute__((noinline, unused)) GY_EMU_PLAIN float gy_emu_live(const float *p, float v, int add, const char *site)
{
    return gy_emu->live((float *)p, v, add, site, __builtin_return_address(0));
}
#define gy_atomic_add(p, v) ((void)gy_emu_live(p, v, 1, GY_HERE))
#define gy_load_live(p) gy_emu_live(p, 0.0f, 0, GY_HERE)

/* ---- elements ---- */

GY_FN float gy_from_bf16(uint16_t v) { return gy_float((uint32_t)v << 16); }
GY_FN uint16_t gy_to_bf16(float v)
{
    const uint32_t b = gy_bits(v);
    return (b & 0x7fffffffu) > 0x7f800000u ? (uint16_t)(b >> 16 | 64) : (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
GY_FN float gy_from_f16(uint16_t v)
{
    const uint32_t sign = (uint32_t)(v & 0x8000u) << 16, low = v & 0x7fffu;
    if (low >= 0x7c00u)
        return gy_float(sign | 0x7f800000u | (low & 0x3ffu) << 13);
    if (low >= 0x400u)
        return gy_float(sign | ((low << 13) + (112u << 23)));
    const float small = (float)low * 5.9604644775390625e-8f; /* 2^-24 */
    return sign ? -small : small;
}
/* Rounds to nearest even; beyond 65504 to infinity. */
GY_FN uint16_t gy_to_f16(float v)
{
    const uint32_t b = gy_bits(v), sign = b >> 16 & 0x8000u, low = b & 0x7fffffffu;
    if (low > 0x7f800000u)
        return 0x7fffu;
    if (low >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u);
    if (low >= 0x38800000u)
        return (uint16_t)(sign | ((low - (112u << 23) + 0xfffu + (low >> 13 & 1)) >> 13));
    const float half = gy_float(low) + 0.5f; /* the float's last bit is 2^-24, f16's least step */
    return (uint16_t)(sign | (gy_bits(half) - 0x3f000000u));
}

/* Two at a time, the first in the low half */
#if GY_ARCH >= 80
#define GY_PAIRS 1
GY_FN uint32_t gy_to_bf16x2(float low, float high) { return gy_to_bf16(low) | (uint32_t)gy_to_bf16(high) << 16; }
GY_FN uint32_t gy_to_f16x2(float low, float high) { return gy_to_f16(low) | (uint32_t)gy_to_f16(high) << 16; }
#endif

struct gy_vec4 {
    float v[4];
};
struct gy_raw16 {
    uint32_t w[4];
} __attribute__((aligned(16)));
struct gy_raw8 {
    uint32_t w[2];
} __attribute__((aligned(8)));
/* A GPU refuses addresses that a CPU would take. */
static __attribute__((noinline, unused)) GY_EMU_PLAIN void gy_emu_aligned(const void *p, unsigned long bytes)
{
    gy_emu->aligned(p, bytes, __builtin_return_address(0));
}
#define GY_EMU_INLINE static inline __attribute__((unused, always_inline))
GY_EMU_INLINE struct gy_raw16 gy_load16(const void *p)
{
    gy_emu_aligned(p, 16);
    return *(const struct gy_raw16 *)p;
}
GY_EMU_INLINE void gy_store16(void *p, struct gy_raw16 v)
{
    gy_emu_aligned(p, 16);
    *(struct gy_raw16 *)p = v;
}
GY_EMU_INLINE struct gy_raw8 gy_load8(const void *p)
{
    gy_emu_aligned(p, 8);
    return *(const struct gy_raw8 *)p;
}
GY_EMU_INLINE void gy_store8(void *p, struct gy_raw8 v)
{
    gy_emu_aligned(p, 8);
    *(struct gy_raw8 *)p = v;
}

#define GY_STORE_GLOBAL 1
#define gy_store16_global gy_store16
#define gy_store8_global gy_store8

GY_FN float rsqrtf(float v) { return 1.0f / sqrtf(v); }

#include "element.cuh"

/* ---- copies that go on by themselves ---- */
#if GY_ARCH >= 80
static __attribute__((noinline, unused)) GY_EMU_PLAIN void gy_emu_copy_async(void *shared, const void *global, int valid,
                                                                             const char *site)
{
    gy_emu->copy_async(shared, global, valid, site, __builtin_return_address(0));
}
static __attribute__((noinline, unused)) GY_EMU_PLAIN void gy_copy_commit(void) { gy_emu->copy_commit(); }
static __attribute__((noinline, unused)) GY_EMU_PLAIN void gy_copy_wait(int newest) { gy_emu->copy_wait(newest); }
#define gy_copy_async(shared, global, valid) gy_emu_copy_async(shared, global, valid, GY_HERE)
#endif

/* ---- matrices held by a warp ---- */

GY_FN void gy_emu_mma(int word, const char *site, float *d, int ds, const uint32_t *a, int as, const uint32_t *b, int bs)
{
    struct gy_emu_mma in = {{0}, {0}, {0}};
    for (int i = 0; i < ds; i++)
        in.d[i] = d[i];
    for (int i = 0; i < as; i++)
        in.a[i] = a[i];
    for (int i = 0; i < bs; i++)
        in.b[i] = b[i];
    gy_emu_group(word, site, &in, d);
}
#if GY_ARCH >= 70
#define gy_mma_8_8_4_f16(d, a, b) gy_emu_mma(GY_EMU_MMA_8_8_4_F16, GY_HERE, d, 8, a, 2, b, 2)
#endif
#if GY_ARCH >= 75
#define gy_ldmatrix4(r, row) gy_emu_ldmatrix(GY_EMU_LDMATRIX4, GY_HERE, r, row)
#define gy_ldmatrix4_turned(r, row) gy_emu_ldmatrix(GY_EMU_LDMATRIX4_TURNED, GY_HERE, r, row)
GY_FN void gy_emu_ldmatrix(int word, const char *site, uint32_t r[4], const void *row)
{
    gy_emu_group(word, site, &row, r);
}
#define gy_mma_16_8_8_f16(d, a, b) gy_emu_mma_one(GY_EMU_MMA_16_8_8_F16, GY_HERE, d, a, b)
GY_FN void gy_emu_mma_one(int word, const char *site, float d[4], const uint32_t a[2], const uint32_t b)
{
    gy_emu_mma(word, site, d, 4, a, 2, &b, 1);
}
#endif
#if GY_ARCH >= 80
#define gy_mma_16_8_16_bf16(d, a, b) gy_emu_mma(GY_EMU_MMA_16_8_16_BF16, GY_HERE, d, 4, a, 4, b, 2)
#define gy_mma_16_8_16_f16(d, a, b) gy_emu_mma(GY_EMU_MMA_16_8_16_F16, GY_HERE, d, 4, a, 4, b, 2)
#endif

#if GY_ARCH >= 90 && GY_ARCH < 100
#include "hopper.cuh"
#endif

#endif
