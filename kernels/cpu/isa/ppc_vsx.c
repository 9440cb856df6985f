/* SPDX-License-Identifier: MIT */
/* ppc_vsx.c: POWER8 and later, VSX: 64 registers of 4 floats. Register tiles are 8 x 16, 8 x 8 and
 * 8 x 4. The first holds 32 sums, more than two pipes of seven cycles need. select.c calls it. */
#include "engine/base/half.h"
#include "kernels/cpu/isa/wino_points.h"

#if defined(__powerpc64__) && defined(__VSX__)
#include <altivec.h>
#undef vector
#undef bool
#undef pixel

#define VSX_ATTR
typedef __vector float vsx_f4;

VSX_ATTR GY_ALWAYS vsx_f4 vsx_load(const float *p) { return vec_xl(0, p); }
VSX_ATTR GY_ALWAYS void vsx_store(float *p, vsx_f4 v) { vec_xst(v, 0, p); }
VSX_ATTR GY_ALWAYS vsx_f4 vsx_load_n(const float *p, int64_t n)
{
    float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int64_t i = 0; i < n; i++)
        t[i] = p[i];
    return vec_xl(0, t);
}
VSX_ATTR GY_ALWAYS void vsx_store_n(float *p, vsx_f4 v, int64_t n)
{
    float t[4];
    vec_xst(v, 0, t);
    for (int64_t i = 0; i < n; i++)
        p[i] = t[i];
}
VSX_ATTR GY_ALWAYS void vsx_stream(float *p, vsx_f4 v) { vsx_store(p, v); }
VSX_ATTR GY_ALWAYS void vsx_fence(void) {}
VSX_ATTR GY_ALWAYS vsx_f4 vsx_set1(float v) { return vec_splats(v); }
VSX_ATTR GY_ALWAYS vsx_f4 vsx_bcast(const float *p) { return vec_splats(*p); }
VSX_ATTR GY_ALWAYS vsx_f4 vsx_add(vsx_f4 a, vsx_f4 b) { return vec_add(a, b); }
VSX_ATTR GY_ALWAYS vsx_f4 vsx_sub(vsx_f4 a, vsx_f4 b) { return vec_sub(a, b); }
VSX_ATTR GY_ALWAYS vsx_f4 vsx_mul(vsx_f4 a, vsx_f4 b) { return vec_mul(a, b); }
VSX_ATTR GY_ALWAYS vsx_f4 vsx_div(vsx_f4 a, vsx_f4 b) { return vec_div(a, b); }
VSX_ATTR GY_ALWAYS vsx_f4 vsx_sqrt(vsx_f4 a) { return vec_sqrt(a); }
/* gcc may take AltiVec's vmaddfp for vec_madd: under Linux that one reads denormals as zero. */
VSX_ATTR GY_ALWAYS vsx_f4 vsx_fma(vsx_f4 a, vsx_f4 b, vsx_f4 c)
{
    __asm__("xvmaddasp %x0,%x1,%x2" : "+wa"(c) : "wa"(a), "wa"(b));
    return c;
}
/* Selections instead of vec_max and vec_min: b passes through if it is not a number. */
VSX_ATTR GY_ALWAYS vsx_f4 vsx_max(vsx_f4 a, vsx_f4 b) { return vec_sel(b, a, vec_cmpgt(a, b)); }
VSX_ATTR GY_ALWAYS vsx_f4 vsx_min(vsx_f4 a, vsx_f4 b) { return vec_sel(b, a, vec_cmpgt(b, a)); }
/* v where lo < y < hi, else 0 */
VSX_ATTR GY_ALWAYS vsx_f4 vsx_keep(vsx_f4 v, vsx_f4 y, vsx_f4 lo, vsx_f4 hi)
{
    const vsx_f4 zero = vec_splats(0.0f);
    return vec_sel(zero, vec_sel(zero, v, vec_cmpgt(y, lo)), vec_cmpgt(hi, y));
}

VSX_ATTR GY_ALWAYS vsx_f4 vsx_pick(vsx_f4 x, vsx_f4 y, vsx_f4 a, vsx_f4 b)
{
    return vec_sel(a, vec_sel(b, a, vec_cmpgt(x, y)), vec_cmpeq(x, x));
}
VSX_ATTR GY_ALWAYS vsx_f4 vsx_bytes(const uint8_t *p)
{
    const float t[4] = {(float)p[0], (float)p[1], (float)p[2], (float)p[3]};
    return vec_xl(0, t);
}

typedef float vsx_elem;
/* bf16 in memory: a vector is 4 halves, widened to floats one by one. */
typedef uint16_t vsxh_elem;
VSX_ATTR GY_ALWAYS vsx_f4 vsxh_load_n(const uint16_t *p, int64_t n)
{
    float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int64_t i = 0; i < n; i++)
        t[i] = gy_bf16_widen(p[i]);
    return vsx_load(t);
}
VSX_ATTR GY_ALWAYS vsx_f4 vsxh_load(const uint16_t *p) { return vsxh_load_n(p, 4); }
VSX_ATTR GY_ALWAYS void vsxh_store_n(uint16_t *p, vsx_f4 v, int64_t n)
{
    float t[4];
    vsx_store(t, v);
    for (int64_t i = 0; i < n; i++)
        p[i] = gy_bf16_narrow(t[i]);
}
VSX_ATTR GY_ALWAYS void vsxh_store(uint16_t *p, vsx_f4 v) { vsxh_store_n(p, v, 4); }
VSX_ATTR GY_ALWAYS void vsxh_stream(uint16_t *p, vsx_f4 v) { vsxh_store(p, v); }

#define PREFIX vsx
#define ATTR VSX_ATTR
#define V vsx_f4
#define W 4
#define ACC 4
#define ROWS_4 8
#define ROWS_2 8
#define ROWS_1 8
#define COPIES 1
#include "kernels/cpu/isa/tile.inc"

GY_MICRO_GET(vsx, VSX_ATTR, vsx_f4, 4)
GY_MICRO_GET(vsxh, VSX_ATTR, vsx_f4, 4)
#define OUTPUTS vsx
#define DTYPE GY_F32
#define POOL 1
#define BYTES 2
#include "kernels/cpu/isa/rows.inc"
#define OUTPUTS vsxh
#define DTYPE GY_BF16
#define POOL 1
#include "kernels/cpu/isa/rows.inc"
#define HALVES vsxh
#define SIZES 3
#include "kernels/cpu/isa/wino.inc"
#include "kernels/cpu/isa/flat.inc"
#undef PREFIX
#undef ATTR
#undef V
#undef W

GY_INT void gy_kernels_vsx(struct gy_kernels *k)
{
    k->name = "vsx";
    k->gemm[0] = (struct gy_gemm_kind){16, 8, vsx_gemm_list_4, 0};
    k->gemm[1] = (struct gy_gemm_kind){8, 8, vsx_gemm_list_2, 0};
    k->gemm[2] = (struct gy_gemm_kind){4, 8, vsx_gemm_list_1, 0};
    k->outer[0] = (struct gy_outer_kind){16, 8, vsx_outer_list_4, 0};
    k->outer[1] = (struct gy_outer_kind){8, 8, vsx_outer_list_2, 0};
    k->outer[2] = (struct gy_outer_kind){4, 8, vsx_outer_list_1, 0};
    vsx_flat_fill(k);
    vsx_wino_fill(k);
    vsx_rows_fill(k);
    vsxh_rows_fill(k);
}

#else

GY_INT void gy_kernels_vsx(struct gy_kernels *k) { (void)k; }

#endif
