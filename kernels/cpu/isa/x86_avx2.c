/* SPDX-License-Identifier: MIT */
/* x86_avx2.c: the kernel set of AVX2 and FMA. select.c calls gy_kernels_avx2, which fills the table
 * (table.h). This file defines the vector operations; the templates (*.inc) make kernels of them. A
 * processor of this set has 16 registers of 8 floats. A register tile is 6 pixels x 16 channels or
 * 12 x 8: 12 sums. avx2_ names handle floats in memory, avx2h_ names bf16 in memory, which is
 * widened to floats. */
#include "kernels/cpu/isa/wino_points.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2_ATTR __attribute__((target("avx2,fma")))

/* The first n of 8 lanes: a load that begins 8 - n places into this table. */
static const int32_t avx2_masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

AVX2_ATTR GY_ALWAYS __m256i avx2_mask(int64_t n)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(avx2_masks + 8 - n));
}
AVX2_ATTR GY_ALWAYS __m256 avx2_load(const float *p) { return _mm256_loadu_ps(p); }
AVX2_ATTR GY_ALWAYS __m256 avx2_load_n(const float *p, int64_t n) { return _mm256_maskload_ps(p, avx2_mask(n)); }
AVX2_ATTR GY_ALWAYS void avx2_store(float *p, __m256 v) { _mm256_storeu_ps(p, v); }
AVX2_ATTR GY_ALWAYS void avx2_store_n(float *p, __m256 v, int64_t n) { _mm256_maskstore_ps(p, avx2_mask(n), v); }
AVX2_ATTR GY_ALWAYS void avx2_stream(float *p, __m256 v) { _mm256_stream_ps(p, v); }
AVX2_ATTR GY_ALWAYS void avx2_fence(void) { _mm_sfence(); }
AVX2_ATTR GY_ALWAYS __m256 avx2_set1(float v) { return _mm256_set1_ps(v); }
AVX2_ATTR GY_ALWAYS __m256 avx2_bcast(const float *p) { return _mm256_broadcast_ss(p); }
AVX2_ATTR GY_ALWAYS __m256 avx2_add(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
AVX2_ATTR GY_ALWAYS __m256 avx2_sub(__m256 a, __m256 b) { return _mm256_sub_ps(a, b); }
AVX2_ATTR GY_ALWAYS __m256 avx2_mul(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
AVX2_ATTR GY_ALWAYS __m256 avx2_div(__m256 a, __m256 b) { return _mm256_div_ps(a, b); }
AVX2_ATTR GY_ALWAYS __m256 avx2_sqrt(__m256 a) { return _mm256_sqrt_ps(a); }
AVX2_ATTR GY_ALWAYS __m256 avx2_fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
AVX2_ATTR GY_ALWAYS __m256 avx2_max(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
AVX2_ATTR GY_ALWAYS __m256 avx2_min(__m256 a, __m256 b) { return _mm256_min_ps(a, b); }
/* v where lo < y < hi, else 0: what relu's gradient lets through */
AVX2_ATTR GY_ALWAYS __m256 avx2_keep(__m256 v, __m256 y, __m256 lo, __m256 hi)
{
    const __m256 in = _mm256_and_ps(_mm256_cmp_ps(y, lo, _CMP_GT_OQ), _mm256_cmp_ps(y, hi, _CMP_LT_OQ));
    return _mm256_and_ps(v, in);
}

/* a where x > y or x is no number, else b: the larger of two values goes on, and a NaN does */
AVX2_ATTR GY_ALWAYS __m256 avx2_pick(__m256 x, __m256 y, __m256 a, __m256 b)
{
    return _mm256_blendv_ps(b, a, _mm256_or_ps(_mm256_cmp_ps(x, y, _CMP_GT_OQ), _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
AVX2_ATTR GY_ALWAYS __m256 avx2_bytes(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
/* Whole numbers from 0 to 255 as n bytes, at most 8 */
AVX2_ATTR GY_ALWAYS void avx2_put_bytes(uint8_t *p, __m256 v, int64_t n)
{
    const __m256i whole = _mm256_cvttps_epi32(v);
    const __m128i pairs = _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    uint8_t t[8];
    _mm_storel_epi64((__m128i *)(void *)t, _mm_packus_epi16(pairs, pairs));
    memcpy(p, t, n >= 8 ? 8 : (size_t)n);
}

/* ---- bf16 in memory ---- */

typedef float avx2_elem;
typedef uint16_t avx2h_elem;
AVX2_ATTR GY_ALWAYS __m256 avx2h_wide(__m128i v)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}
/* To the nearest bf16, ties to even; a NaN stays one (its quiet bit is set). */
AVX2_ATTR GY_ALWAYS __m128i avx2h_round(__m256 v)
{
    const __m256i bits = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i half = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(half, half), 0x08));
}
AVX2_ATTR GY_ALWAYS __m256 avx2h_load(const uint16_t *p)
{
    return avx2h_wide(_mm_loadu_si128((const __m128i *)(const void *)p));
}
AVX2_ATTR GY_ALWAYS __m256 avx2h_load_n(const uint16_t *p, int64_t n)
{
    uint16_t t[8] = {0};
    memcpy(t, p, (size_t)n * sizeof *t);
    return avx2h_load(t);
}
AVX2_ATTR GY_ALWAYS void avx2h_store(uint16_t *p, __m256 v) { _mm_storeu_si128((__m128i *)(void *)p, avx2h_round(v)); }
AVX2_ATTR GY_ALWAYS void avx2h_store_n(uint16_t *p, __m256 v, int64_t n)
{
    uint16_t t[8];
    avx2h_store(t, v);
    memcpy(p, t, (size_t)n * sizeof *t);
}
AVX2_ATTR GY_ALWAYS void avx2h_stream(uint16_t *p, __m256 v) { _mm_stream_si128((__m128i *)(void *)p, avx2h_round(v)); }

/* ---- kernels ---- */

/* A pixel's 16 channels of a register tile: added to memory, or streamed past the caches. */
AVX2_ATTR GY_ALWAYS void avx2_put_two(float *p, __m256 first, __m256 second, const struct gy_gemm_finish *f)
{
    if (f->add) {
        first = avx2_add(first, avx2_load(p));
        second = avx2_add(second, avx2_load(p + 8));
    }
    if (f->stream) {
        avx2_stream(p, first);
        avx2_stream(p + 8, second);
    } else {
        avx2_store(p, first);
        avx2_store(p + 8, second);
    }
}

#define PREFIX avx2
#define ATTR AVX2_ATTR
#define V __m256
#define W 8
#define ACC 2
#define ROWS_2 6
#define ROWS_1 12
#define FLOATS avx2
#define OUTPUTS avx2
#define COPIES 2
#include "kernels/cpu/isa/tile.inc"

GY_MICRO_GET(avx2, AVX2_ATTR, __m256, 8)
GY_MICRO_GET(avx2h, AVX2_ATTR, __m256, 8)
#define OUTPUTS avx2
#define DTYPE GY_F32
#define POOL 4
#define BYTES 1
#include "kernels/cpu/isa/rows.inc"
#define OUTPUTS avx2h
#define DTYPE GY_BF16
#define POOL 1
#include "kernels/cpu/isa/rows.inc"
#define HALVES avx2h
#define SIZES 3
#include "kernels/cpu/isa/wino.inc"
#include "kernels/cpu/isa/flat.inc"
#undef PREFIX
#undef ATTR
#undef V
#undef W

/* ---- transposition ---- */

/* One 8 x 8 block in registers */
AVX2_ATTR GY_ALWAYS void avx2_transpose_8(float *dst, int64_t dst_pitch, const float *src, int64_t src_pitch)
{
    __m256 a[8], b[8];
    GY_UNROLL for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(src + i * src_pitch);
    GY_UNROLL for (int i = 0; i < 8; i += 2)
    {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    GY_UNROLL for (int i = 0; i < 8; i += 4)
    {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    GY_UNROLL for (int j = 0; j < 4; j++)
    {
        _mm256_storeu_ps(dst + j * dst_pitch, _mm256_permute2f128_ps(a[j], a[4 + j], 0x20));
        _mm256_storeu_ps(dst + (4 + j) * dst_pitch, _mm256_permute2f128_ps(a[j], a[4 + j], 0x31));
    }
}

/* Blocks of 8 x 8, then the rows and columns that are left */
AVX2_ATTR static void avx2_transpose(float *dst, int64_t dst_pitch, const float *src, int64_t src_pitch, int64_t rows,
                                     int64_t cols)
{
    const int64_t rows8 = rows & ~(int64_t)7, cols8 = cols & ~(int64_t)7;
    for (int64_t r = 0; r < rows8; r += 8)
        for (int64_t c = 0; c < cols8; c += 8)
            avx2_transpose_8(dst + c * dst_pitch + r, dst_pitch, src + r * src_pitch + c, src_pitch);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < rows8 ? cols8 : 0; c < cols; c++)
            dst[c * dst_pitch + r] = src[r * src_pitch + c];
}

GY_INT void gy_kernels_avx2(struct gy_kernels *k)
{
    k->name = "avx2";
    k->gemm[0] = (struct gy_gemm_kind){16, 6, avx2_gemm_list_2, 1};
    k->gemm[1] = (struct gy_gemm_kind){8, 12, avx2_gemm_list_1, 0};
    k->gemm[2] = (struct gy_gemm_kind){8, 12, avx2_gemm_list_1, 0};
    k->outer[0] = (struct gy_outer_kind){16, 6, avx2_outer_list_2, 1};
    k->outer[1] = (struct gy_outer_kind){8, 12, avx2_outer_list_1, 1};
    k->outer[2] = (struct gy_outer_kind){8, 12, avx2_outer_list_1, 1};
    k->transpose = avx2_transpose;
    k->panels = avx2_panels;
    avx2_flat_fill(k);
    avx2_wino_fill(k);
    avx2_rows_fill(k);
    avx2h_rows_fill(k);
}

#else

GY_INT void gy_kernels_avx2(struct gy_kernels *k) { (void)k; }

#endif
