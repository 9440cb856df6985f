/* SPDX-License-Identifier: MIT */
/* x86_avx512.h: vectors of 16 floats of the AVX-512 kernel sets. Masks cut vectors. */
#ifndef GY_CPU_X86_AVX512_H
#define GY_CPU_X86_AVX512_H
#include "kernels/cpu/isa/micro.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define A512_ATTR __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))

A512_ATTR GY_ALWAYS __mmask16 a512_mask(int64_t n) { return (__mmask16)((1u << n) - 1u); }
A512_ATTR GY_ALWAYS __m512 a512_load(const float *p) { return _mm512_loadu_ps(p); }
A512_ATTR GY_ALWAYS __m512 a512_load_n(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(a512_mask(n), p); }
A512_ATTR GY_ALWAYS void a512_store(float *p, __m512 v) { _mm512_storeu_ps(p, v); }
A512_ATTR GY_ALWAYS void a512_store_n(float *p, __m512 v, int64_t n) { _mm512_mask_storeu_ps(p, a512_mask(n), v); }
A512_ATTR GY_ALWAYS void a512_stream(float *p, __m512 v) { _mm512_stream_ps(p, v); }
A512_ATTR GY_ALWAYS void a512_fence(void) { _mm_sfence(); }
A512_ATTR GY_ALWAYS __m512 a512_set1(float v) { return _mm512_set1_ps(v); }
A512_ATTR GY_ALWAYS __m512 a512_bcast(const float *p) { return _mm512_set1_ps(*p); }
A512_ATTR GY_ALWAYS __m512 a512_add(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
A512_ATTR GY_ALWAYS __m512 a512_sub(__m512 a, __m512 b) { return _mm512_sub_ps(a, b); }
A512_ATTR GY_ALWAYS __m512 a512_mul(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }
A512_ATTR GY_ALWAYS __m512 a512_div(__m512 a, __m512 b) { return _mm512_div_ps(a, b); }
A512_ATTR GY_ALWAYS __m512 a512_sqrt(__m512 a) { return _mm512_sqrt_ps(a); }
A512_ATTR GY_ALWAYS __m512 a512_fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
A512_ATTR GY_ALWAYS __m512 a512_max(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
A512_ATTR GY_ALWAYS __m512 a512_min(__m512 a, __m512 b) { return _mm512_min_ps(a, b); }
/* v where lo < y < hi, else 0 */
A512_ATTR GY_ALWAYS __m512 a512_keep(__m512 v, __m512 y, __m512 lo, __m512 hi)
{
    const __mmask16 above = _mm512_cmp_ps_mask(y, lo, _CMP_GT_OQ);
    return _mm512_maskz_mov_ps(_mm512_mask_cmp_ps_mask(above, y, hi, _CMP_LT_OQ), v);
}

A512_ATTR GY_ALWAYS __m512 a512_pick(__m512 x, __m512 y, __m512 a, __m512 b)
{
    const __mmask16 no_number = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ) | no_number, a);
}
A512_ATTR GY_ALWAYS __m512 a512_same(__m512 v, const uint8_t *p, int id, int64_t n)
{
    const __m128i want = _mm_set1_epi8((char)id);
    if (n >= 16)
        return _mm512_maskz_mov_ps(_mm_cmpeq_epi8_mask(_mm_loadu_si128((const __m128i *)(const void *)p), want), v);
    const __mmask16 there = a512_mask(n);
    return _mm512_maskz_mov_ps(_mm_mask_cmpeq_epi8_mask(there, _mm_maskz_loadu_epi8(there, p), want), v);
}
A512_ATTR GY_ALWAYS void a512_put_bytes(uint8_t *p, __m512 v, int64_t n)
{
    const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v));
    if (n >= 16)
        _mm_storeu_si128((__m128i *)(void *)p, bytes);
    else
        _mm_mask_storeu_epi8(p, a512_mask(n), bytes);
}

typedef float a512_elem;
GY_MICRO_GET(a512, A512_ATTR, __m512, 16)

/* Turns 16 rows of 16 floats (destroyed) to columns: interleaves row pairs by 1, 2, 4, 8 floats. */
A512_ATTR GY_ALWAYS void a512_turn(float *dst, int64_t dst_pitch, __m512 a[16])
{
    __m512 b[16];
    GY_UNROLL for (int i = 0; i < 16; i += 2)
    {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    GY_UNROLL for (int i = 0; i < 16; i += 4)
    {
        a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    GY_UNROLL for (int j = 0; j < 4; j++)
    {
        const __m512 p = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x88), q = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xdd);
        const __m512 r = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x88);
        const __m512 s = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xdd);
        _mm512_storeu_ps(dst + j * dst_pitch, _mm512_shuffle_f32x4(p, r, 0x88));
        _mm512_storeu_ps(dst + (4 + j) * dst_pitch, _mm512_shuffle_f32x4(q, s, 0x88));
        _mm512_storeu_ps(dst + (8 + j) * dst_pitch, _mm512_shuffle_f32x4(p, r, 0xdd));
        _mm512_storeu_ps(dst + (12 + j) * dst_pitch, _mm512_shuffle_f32x4(q, s, 0xdd));
    }
}

/* bf16 in memory: 16 halves, widened to floats. */
A512_ATTR GY_ALWAYS __m512 a512h_wide(__m256i v)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
A512_ATTR GY_ALWAYS __m512 a512h_load(const uint16_t *p)
{
    return a512h_wide(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
A512_ATTR GY_ALWAYS __m512 a512h_load_n(const uint16_t *p, int64_t n)
{
    return a512h_wide(_mm256_maskz_loadu_epi16(a512_mask(n), p));
}

#endif
#endif
