/* SPDX-License-Identifier: MIT */
/* prelude.cuh: the dialect of kernels, as NVRTC compiles it. Every .cu file includes it first. A
 * kernel file is C99 and CUDA C at once: no templates, references, C++ casts or headers. Whatever
 * is not plain C is a macro or a function of this file; inline PTX stands nowhere else.
 * tests/emu/prelude.cuh gives the same words a meaning in plain C. There every kernel runs on a
 * CPU, one fiber a thread.
 *
 * A kernel: GY_KERNEL(name) { ... } one parameter, struct gy_args a (args.h); 1-D blocks
 *             GY_FN float f(float x) { }   a function of the device
 * Place: GY_TID (thread in its block), GY_LANE, GY_WARP,
 *             GY_BX GY_BY GY_BZ (block in the grid), GY_GX GY_GY GY_GZ (grid)
 * Memory: GY_SHARED(struct kind, s); the block's shared memory, GY_SHARED_BYTES, as *s
 *             GY_P(type, role)             tensor of a role as type *
 * Together: GY_SYNC() all threads of the block
 *             gy_shfl_xor(v, mask), gy_shfl_down(v, d), gy_shfl(v, lane), gy_shfl_i(v, lane):
 *             all 32 lanes take part
 *             gy_atomic_add(p, v), gy_load_live(p): floats that any thread changes at any time;
 *             between two meetings of all threads such a float has no other access
 * Elements: gy_t, as activations are stored (GY_DTYPE); gy_get(p, i) reads one as float,
 *             gy_put(p, i, v) rounds to nearest even; gy_get4, gy_put4: four neighbours at an index
 *             divisible by 4 of an aligned tensor (C % 4 == 0)
 * Macros: GY_ARCH (60, 70, 75, 80, ...), GY_THREADS (a block), GY_SHARED_BYTES, GY_DTYPE, GY_ACT,
 *             GY_ACT_PARAM (where it has one), GY_FLAGS, GY_ID, GY_N GY_H GY_W_ GY_C GY_P_ GY_Q
 *             GY_K GY_R GY_S GY_STRIDE_H GY_STRIDE_W GY_PAD_H GY_PAD_W GY_DIL_H GY_DIL_W
 *             GY_GROUPS, GY_F0 .. GY_F7, GY_SPANS, GY_HAS_<ROLE> (0 or 1) for each role
 *
 * Each variant is compiled with those macros that its row in variants_ops.c, variants_conv.c or
 * variants_glm.c names, and those that the row's cut adds. So layers that differ in nothing a
 * kernel uses share it. */
#ifndef GY_PRELUDE_CUH
#define GY_PRELUDE_CUH

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef uint64_t uintptr_t;
#define NULL 0

#include "op_device.h"
#include "args.h"

#define GY_FN static __device__ __forceinline__ __attribute__((unused))
#define GY_CONST static __device__ const
#define GY_RESTRICT __restrict__
#define GY_UNROLL _Pragma("unroll")
#define GY_UNROLL_NOT _Pragma("unroll 1")
#if GY_ARCH >= 70
#define GY_PARAM const __grid_constant__
#else
#define GY_PARAM const
#endif
#ifndef GY_BLOCKS
#define GY_BLOCKS 1 /* that shall fit on a multiprocessor at a time: bounds the registers */
#endif
#define GY_KERNEL(name) extern "C" __global__ void __launch_bounds__(GY_THREADS, GY_BLOCKS) name(GY_PARAM struct gy_args a)

#define GY_TID ((int)threadIdx.x)
#define GY_LANE ((int)threadIdx.x & 31)
#define GY_WARP ((int)threadIdx.x >> 5)
#define GY_BX ((int)blockIdx.x)
#define GY_BY ((int)blockIdx.y)
#define GY_BZ ((int)blockIdx.z)
#define GY_GX ((int)gridDim.x)
#define GY_GY ((int)gridDim.y)
#define GY_GZ ((int)gridDim.z)

extern __shared__ __align__(1024) unsigned char gy_shared[];
#define GY_SHARED(kind, s)                                                                                             \
    static_assert(sizeof(kind) <= GY_SHARED_BYTES, "the variant's shared memory is too small");                        \
    kind *const s = (kind *)gy_shared
#define GY_P(type, role) ((type *)a.ptr[role])
#define GY_SYNC() __syncthreads()

#define GY_ALL 0xffffffffu
GY_FN float gy_shfl_xor(float v, int mask) { return __shfl_xor_sync(GY_ALL, v, mask); }
GY_FN float gy_shfl_down(float v, int d) { return __shfl_down_sync(GY_ALL, v, d); }
GY_FN float gy_shfl(float v, int lane) { return __shfl_sync(GY_ALL, v, lane); }
GY_FN int gy_shfl_i(int v, int lane) { return __shfl_sync(GY_ALL, v, lane); }

/* Past the first cache, which does not see what other multiprocessors do. */
#if GY_ARCH >= 70
GY_FN void gy_atomic_add(float *p, float v) { asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory"); }
GY_FN float gy_load_live(const float *p)
{
    float v;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}
#else
GY_FN void gy_atomic_add(float *p, float v) { asm volatile("red.global.add.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory"); }
GY_FN float gy_load_live(const float *p)
{
    float v;
    asm volatile("ld.volatile.global.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}
#endif

GY_FN uint32_t gy_bits(float v) { return __float_as_uint(v); }
GY_FN float gy_float(uint32_t v) { return __uint_as_float(v); }

/* ---- elements ---- */

GY_FN float gy_from_bf16(uint16_t v) { return __uint_as_float((uint32_t)v << 16); }
GY_FN uint16_t gy_to_bf16(float v)
{
    const uint32_t b = __float_as_uint(v);
    return (b & 0x7fffffffu) > 0x7f800000u ? (uint16_t)(b >> 16 | 64) : (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
GY_FN float gy_from_f16(uint16_t v)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
    return f;
}
GY_FN uint16_t gy_to_f16(float v)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
    return h;
}
/* Two at a time, the first in the low half */
#if GY_ARCH >= 80
#define GY_PAIRS 1
GY_FN uint32_t gy_to_bf16x2(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
GY_FN uint32_t gy_to_f16x2(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
#endif

struct gy_vec4 {
    float v[4];
};
struct __align__(16) gy_raw16 {
    uint32_t w[4];
};
struct __align__(8) gy_raw8 {
    uint32_t w[2];
};
GY_FN struct gy_raw16 gy_load16(const void *p)
{
    const uint4 v = *(const uint4 *)p;
    return gy_raw16{ { v.x, v.y, v.z, v.w } };
}
GY_FN void gy_store16(void *p, struct gy_raw16 v) { *(uint4 *)p = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]); }
GY_FN struct gy_raw8 gy_load8(const void *p)
{
    const uint2 v = *(const uint2 *)p;
    return gy_raw8{ { v.x, v.y } };
}
GY_FN void gy_store8(void *p, struct gy_raw8 v) { *(uint2 *)p = make_uint2(v.w[0], v.w[1]); }
/* To global memory only, and surely one instruction: the compiler splits the others at times. */
#define GY_STORE_GLOBAL 1
GY_FN void gy_store16_global(void *p, struct gy_raw16 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3]) : "memory");
}
GY_FN void gy_store8_global(void *p, struct gy_raw8 v)
{
    asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]) : "memory");
}

#include "element.cuh"

/* ---- asynchronous copies (sm_80) ----
 * copy_async copies 16 bytes from global to shared memory: the first `valid` are read, the rest is
 * zero. wait(n), n a constant, waits for all but this thread's newest n groups; GY_SYNC follows. */
#if GY_ARCH >= 80
GY_FN uint32_t gy_shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
GY_FN void gy_copy_async(void *shared, const void *global, int valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(gy_shared_address(shared)), "l"(global), "r"(valid)
                 : "memory");
}
GY_FN void gy_copy_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define gy_copy_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#endif

/* ---- matrices held by a warp. ldmatrix: 4 tiles of 8x8 16-bit numbers ----
 * Lane i gives the address of row i % 8 of tile i / 8. */
#if GY_ARCH >= 70
/* four times d[8x8] += a[8x4] b[4x8], f16, sm_70's only product: lanes 4q to 4q + 3 and those 16
 * above compute product q */
GY_FN void gy_mma_8_8_4_f16(float d[8], const uint32_t a[2], const uint32_t b[2])
{
    asm("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, {%0,%1,%2,%3,%4,%5,%6,%7};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
}
#endif
#if GY_ARCH >= 75
GY_FN void gy_ldmatrix4(uint32_t r[4], const void *row)
{
    const uint32_t p = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p) : "memory");
}
GY_FN void gy_ldmatrix4_turned(uint32_t r[4], const void *row)
{
    const uint32_t p = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p) : "memory");
}
/* d[16x8] += a[16x8] b[8x8], f16 */
GY_FN void gy_mma_16_8_8_f16(float d[4], const uint32_t a[2], const uint32_t b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b));
}
#endif
#if GY_ARCH >= 80
/* d[16x8] += a[16x16] b[16x8] */
GY_FN void gy_mma_16_8_16_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
GY_FN void gy_mma_16_8_16_f16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#if GY_ARCH >= 90 && GY_ARCH < 100
#include "hopper.cuh"
#endif

#endif
