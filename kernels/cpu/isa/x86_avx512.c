/* SPDX-License-Identifier: MIT */
/* x86_avx512.c: AVX-512 (F, BW, DQ, VL): 32 registers of 16 floats. Register tiles are 6 x 64: 24
 * sums, 6 pointers in general registers. The last channels take 8 x 32 and 8 x 16. Cut vectors use
 * mask registers. select.c calls gy_kernels_avx512. */
#include "kernels/cpu/isa/x86_avx512.h"
#include "kernels/cpu/isa/wino_points.h"

#if defined(__x86_64__)

/* bf16 is rounded by hand: to nearest, ties to even, what is not a number stays so. */
typedef uint16_t a512h_elem;
A512_ATTR GY_ALWAYS __m256i a512h_round(__m512 v)
{
    const __m512i bits = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(up, nan, quiet), 16));
}
A512_ATTR GY_ALWAYS void a512h_store(uint16_t *p, __m512 v) { _mm256_storeu_si256((__m256i *)(void *)p, a512h_round(v)); }
A512_ATTR GY_ALWAYS void a512h_store_n(uint16_t *p, __m512 v, int64_t n)
{
    _mm256_mask_storeu_epi16(p, a512_mask(n), a512h_round(v));
}
A512_ATTR GY_ALWAYS void a512h_stream(uint16_t *p, __m512 v) { _mm256_stream_si256((__m256i *)(void *)p, a512h_round(v)); }

A512_ATTR GY_ALWAYS void a512_put_two(float *p, __m512 first, __m512 second, const struct gy_gemm_finish *f)
{
    if (f->add) {
        first = a512_add(first, a512_load(p));
        second = a512_add(second, a512_load(p + 16));
    }
    if (f->stream) {
        a512_stream(p, first);
        a512_stream(p + 16, second);
    } else {
        a512_store(p, first);
        a512_store(p + 16, second);
    }
}

#define PREFIX a512
#define ATTR A512_ATTR
#define V __m512
#define W 16
#define ACC 4
#define ROWS_4 6
#define ROWS_2 8
#define ROWS_1 8
#define FLOATS a512
#define OUTPUTS a512
#define COPIES 1
#include "kernels/cpu/isa/tile.inc"

GY_MICRO_GET(a512h, A512_ATTR, __m512, 16)
#define OUTPUTS a512
#define DTYPE GY_F32
#define POOL 4
#include "kernels/cpu/isa/rows.inc"
#define OUTPUTS a512h
#define DTYPE GY_BF16
#include "kernels/cpu/isa/rows.inc"
#define HALVES a512h
#define SIZES 3
#include "kernels/cpu/isa/wino.inc"
#include "kernels/cpu/isa/flat.inc"
#undef PREFIX
#undef ATTR
#undef V
#undef W

A512_ATTR static void a512_transpose(float *dst, int64_t dst_pitch, const float *src, int64_t src_pitch, int64_t rows,
                                     int64_t cols)
{
    const int64_t rows16 = rows & ~(int64_t)15, cols16 = cols & ~(int64_t)15;
    for (int64_t r = 0; r < rows16; r += 16)
        for (int64_t c = 0; c < cols16; c += 16) {
            __m512 a[16];
            GY_UNROLL for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_ps(src + (r + i) * src_pitch + c);
            a512_turn(dst + c * dst_pitch + r, dst_pitch, a);
        }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < rows16 ? cols16 : 0; c < cols; c++)
            dst[c * dst_pitch + r] = src[r * src_pitch + c];
}

GY_INT void gy_kernels_avx512(struct gy_kernels *k)
{
    k->name = "avx512";
    k->gemm[0] = (struct gy_gemm_kind){64, 6, a512_gemm_list_4, GY_GEMM_PREFETCHES};
    k->gemm[1] = (struct gy_gemm_kind){32, 8, a512_gemm_list_2, 0};
    k->gemm[2] = (struct gy_gemm_kind){16, 8, a512_gemm_list_1, 0};
    k->outer[0] = (struct gy_outer_kind){64, 6, a512_outer_list_4, 0};
    k->outer[1] = (struct gy_outer_kind){32, 8, a512_outer_list_2, 0};
    k->outer[2] = (struct gy_outer_kind){16, 8, a512_outer_list_1, 0};
    k->transpose = a512_transpose;
    a512_flat_fill(k);
    a512_wino_fill(k);
    a512_rows_fill(k);
    a512h_rows_fill(k);
}

#else

GY_INT void gy_kernels_avx512(struct gy_kernels *k) { (void)k; }

#endif
