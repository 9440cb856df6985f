/* SPDX-License-Identifier: MIT */
/* portable.c: the kernel table in portable C, which select.c fills first: vectors of four floats by
 * the compiler's vector types. Where there are no such registers it writes scalar code. */
#include "engine/base/half.h"
#include "kernels/cpu/isa/wino_points.h"

#define C4_ATTR
typedef float c4_f4 __attribute__((vector_size(16)));
typedef int32_t c4_i4 __attribute__((vector_size(16)));

GY_ALWAYS c4_f4 c4_load_n(const float *p, int64_t n)
{
    c4_f4 v = {0.0f, 0.0f, 0.0f, 0.0f};
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
}
GY_ALWAYS c4_f4 c4_load(const float *p) { return c4_load_n(p, 4); }
GY_ALWAYS void c4_store_n(float *p, c4_f4 v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof(float)); }
GY_ALWAYS void c4_store(float *p, c4_f4 v) { memcpy(p, &v, sizeof v); }
GY_ALWAYS void c4_stream(float *p, c4_f4 v) { c4_store(p, v); }
GY_ALWAYS void c4_fence(void) {}
GY_ALWAYS c4_f4 c4_set1(float v) { return (c4_f4){v, v, v, v}; }
GY_ALWAYS c4_f4 c4_bcast(const float *p) { return (c4_f4){*p, *p, *p, *p}; }
GY_ALWAYS c4_f4 c4_add(c4_f4 a, c4_f4 b) { return a + b; }
GY_ALWAYS c4_f4 c4_sub(c4_f4 a, c4_f4 b) { return a - b; }
GY_ALWAYS c4_f4 c4_mul(c4_f4 a, c4_f4 b) { return a * b; }
GY_ALWAYS c4_f4 c4_div(c4_f4 a, c4_f4 b) { return a / b; }
GY_ALWAYS c4_f4 c4_sqrt(c4_f4 a) { return (c4_f4){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])}; }
GY_ALWAYS c4_f4 c4_fma(c4_f4 a, c4_f4 b, c4_f4 c) { return a * b + c; }
GY_ALWAYS c4_f4 c4_select(c4_i4 take, c4_f4 a, c4_f4 b) { return (c4_f4)((take & (c4_i4)a) | (~take & (c4_i4)b)); }
GY_ALWAYS c4_f4 c4_max(c4_f4 a, c4_f4 b) { return c4_select(a > b, a, b); }
GY_ALWAYS c4_f4 c4_min(c4_f4 a, c4_f4 b) { return c4_select(a < b, a, b); }
/* v where lo < y < hi, else 0 */
GY_ALWAYS c4_f4 c4_keep(c4_f4 v, c4_f4 y, c4_f4 lo, c4_f4 hi)
{
    return (c4_f4)((c4_i4)v & (y > lo) & (y < hi));
}

GY_ALWAYS c4_f4 c4_pick(c4_f4 x, c4_f4 y, c4_f4 a, c4_f4 b) { return c4_select((x > y) | (x != x), a, b); }
GY_ALWAYS c4_f4 c4_bytes(const uint8_t *p) { return (c4_f4){(float)p[0], (float)p[1], (float)p[2], (float)p[3]}; }

typedef float c4_elem;
/* bf16 in memory: a vector is 4 halves, widened to floats one by one. */
typedef uint16_t c4h_elem;
GY_ALWAYS c4_f4 c4h_load_n(const uint16_t *p, int64_t n)
{
    float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int64_t i = 0; i < n; i++)
        t[i] = gy_bf16_widen(p[i]);
    return c4_load(t);
}
GY_ALWAYS c4_f4 c4h_load(const uint16_t *p) { return c4h_load_n(p, 4); }
GY_ALWAYS void c4h_store_n(uint16_t *p, c4_f4 v, int64_t n)
{
    float t[4];
    c4_store(t, v);
    for (int64_t i = 0; i < n; i++)
        p[i] = gy_bf16_narrow(t[i]);
}
GY_ALWAYS void c4h_store(uint16_t *p, c4_f4 v) { c4h_store_n(p, v, 4); }
GY_ALWAYS void c4h_stream(uint16_t *p, c4_f4 v) { c4h_store(p, v); }

#define PREFIX c4
#define ATTR C4_ATTR
#define V c4_f4
#define W 4
#define ACC 2
#define ROWS_2 4
#define ROWS_1 4
#define COPIES 1
#include "kernels/cpu/isa/tile.inc"

GY_MICRO_GET(c4, C4_ATTR, c4_f4, 4)
GY_MICRO_GET(c4h, C4_ATTR, c4_f4, 4)
#define OUTPUTS c4
#define DTYPE GY_F32
#define POOL 1
#define BYTES 2
#include "kernels/cpu/isa/rows.inc"
#define OUTPUTS c4h
#define DTYPE GY_BF16
#define POOL 1
#include "kernels/cpu/isa/rows.inc"
#define HALVES c4h
#include "kernels/cpu/isa/wino.inc"
#include "kernels/cpu/isa/flat.inc"
#undef PREFIX
#undef ATTR
#undef V
#undef W

static void c4_transpose(float *dst, int64_t dst_pitch, const float *src, int64_t src_pitch, int64_t rows, int64_t cols)
{
    for (int64_t c0 = 0; c0 < cols; c0 += 16)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = c0; c < gy_min64(cols, c0 + 16); c++)
                dst[c * dst_pitch + r] = src[r * src_pitch + c];
}

static void c4_pair_values(float *dst, const uint16_t *a, const uint16_t *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        memcpy(dst + i, (const uint16_t[2]){a[i], b[i]}, sizeof *dst);
}

static void c4_join(uint16_t *dst, int64_t pitch, const uint16_t *const *rows, int64_t line, int64_t taps, int64_t len,
                    int64_t count)
{
    for (int64_t i = 0; i < count; i++, dst += pitch) {
        for (int64_t t = 0; t < taps; t++)
            memcpy(dst + t * len, rows[i] + t * line, (size_t)len * sizeof *dst);
        dst[taps * len] = 0;
    }
}

GY_INT void gy_kernels_portable(struct gy_kernels *k)
{
    k->name = "portable";
    k->gemm[0] = (struct gy_gemm_kind){8, 4, c4_gemm_list_2, 0};
    k->gemm[1] = (struct gy_gemm_kind){4, 4, c4_gemm_list_1, 0};
    k->gemm[2] = (struct gy_gemm_kind){4, 4, c4_gemm_list_1, 0};
    k->outer[0] = (struct gy_outer_kind){8, 4, c4_outer_list_2, 0};
    k->outer[1] = (struct gy_outer_kind){4, 4, c4_outer_list_1, 0};
    k->outer[2] = (struct gy_outer_kind){4, 4, c4_outer_list_1, 0};
    k->transpose = c4_transpose;
    k->pair_values = c4_pair_values;
    k->join = c4_join;
    c4_flat_fill(k);
    c4_wino_fill(k);
    c4_rows_fill(k);
    c4h_rows_fill(k);
}
