/* SPDX-License-Identifier: MIT */
/* x86_bf16.c: AVX-512 BF16. vdpbf16ps multiplies 16 pairs of bf16 and adds both products to 16
 * float sums. Register tiles are those of AVX-512; a "float" of the operands is a pair, so the same
 * text serves. It takes numbers below 2^-126 as zero, and so does vcvtneps2bf16, which stores. */
#include "engine/base/half.h"
#include "kernels/cpu/isa/x86_avx512.h"

#if defined(__x86_64__)

#define P512_ATTR __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")))

#define P512_LOOKAHEAD 128     /* floats of a row from what is read to what is prefetched */
#define P512_ROWS_LOOKAHEAD 16 /* rows, where pairs are made of rows */

/* A pair, whatever it was written as. */
typedef float __attribute__((may_alias)) p512_unit;

P512_ATTR GY_ALWAYS __m512 p512_load(const float *p) { return a512_load(p); }
P512_ATTR GY_ALWAYS __m512 p512_load_n(const float *p, int64_t n) { return a512_load_n(p, n); }
P512_ATTR GY_ALWAYS void p512_store(float *p, __m512 v) { a512_store(p, v); }
P512_ATTR GY_ALWAYS void p512_store_n(float *p, __m512 v, int64_t n) { a512_store_n(p, v, n); }
P512_ATTR GY_ALWAYS __m512 p512_set1(float v) { return a512_set1(v); }
P512_ATTR GY_ALWAYS __m512 p512_bcast(const float *p) { return _mm512_set1_ps(*(const p512_unit *)p); }
P512_ATTR GY_ALWAYS __m512 p512_fma(__m512 a, __m512 b, __m512 c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}

/* bf16 in memory, rounded by one instruction. */
typedef uint16_t p512h_elem;
P512_ATTR GY_ALWAYS __m256i p512h_round(__m512 v) { return (__m256i)_mm512_cvtneps_pbh(v); }
P512_ATTR GY_ALWAYS __m512 p512h_load(const uint16_t *p) { return a512h_load(p); }
P512_ATTR GY_ALWAYS __m512 p512h_load_n(const uint16_t *p, int64_t n) { return a512h_load_n(p, n); }
P512_ATTR GY_ALWAYS void p512h_store(uint16_t *p, __m512 v) { _mm256_storeu_si256((__m256i *)(void *)p, p512h_round(v)); }
P512_ATTR GY_ALWAYS void p512h_store_n(uint16_t *p, __m512 v, int64_t n)
{
    _mm256_mask_storeu_epi16(p, a512_mask(n), p512h_round(v));
}
P512_ATTR GY_ALWAYS void p512h_stream(uint16_t *p, __m512 v) { _mm256_stream_si256((__m256i *)(void *)p, p512h_round(v)); }

GY_MICRO_GET(p512h, P512_ATTR, __m512, 16)
#define PREFIX a512
#define ATTR P512_ATTR
#define V __m512
#define W 16
#define OUTPUTS p512h
#define DTYPE GY_BF16
#define POOL 2
#include "kernels/cpu/isa/rows.inc"
#undef PREFIX

P512_ATTR GY_ALWAYS void p512h_put_two(uint16_t *p, __m512 first, __m512 second, const struct gy_gemm_finish *f)
{
    if (f->add) {
        first = a512_add(first, p512h_load(p));
        second = a512_add(second, p512h_load(p + 16));
    }
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    if (f->stream)
        _mm512_stream_si512((__m512i *)(void *)p, both);
    else
        _mm512_storeu_si512(p, both);
}

P512_ATTR GY_ALWAYS __m512 p512_add(__m512 a, __m512 b) { return a512_add(a, b); }

#define PREFIX p512
#define ACC 4
#define ROWS_4 6
#define ROWS_2 8
#define ROWS_1 8
#define FLOATS a512
#define OUTPUTS p512h
#include "kernels/cpu/isa/tile.inc"
#undef PREFIX
#undef ATTR
#undef V
#undef W

P512_ATTR GY_ALWAYS __m512i p512_wide(const uint16_t *p, int64_t n)
{
    return _mm512_cvtepu16_epi32(n >= 16 ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                                         : _mm256_maskz_loadu_epi16(a512_mask(n), p));
}

/* 16 columns of two rows, interleaved. */
P512_ATTR GY_ALWAYS void p512_pair(float *dst, const uint16_t *a, const uint16_t *b, int64_t n)
{
    const __m512i hi = b ? _mm512_slli_epi32(p512_wide(b, n), 16) : _mm512_setzero_si512();
    const __m512 pair = _mm512_castsi512_ps(_mm512_or_si512(p512_wide(a, n), hi));
    if (n >= 16)
        _mm512_storeu_ps(dst, pair);
    else
        _mm512_mask_storeu_ps(dst, a512_mask(n), pair);
}

/* Places of 16 pairs' values in two vectors of 32: the first's, and 32 further the second's. */
#define P512_FOUR(i) i, 32 + i, i + 1, 33 + i, i + 2, 34 + i, i + 3, 35 + i
static const uint16_t p512_weave[2][32] = {{P512_FOUR(0), P512_FOUR(4), P512_FOUR(8), P512_FOUR(12)},
                                           {P512_FOUR(16), P512_FOUR(20), P512_FOUR(24), P512_FOUR(28)}};

P512_ATTR static void p512_pair_rows(float *dst, int64_t pitch, const uint16_t *const *rows, int64_t first, int64_t cols,
                                     int64_t count)
{
    const __m512i near = _mm512_loadu_si512(p512_weave[0]), far = _mm512_loadu_si512(p512_weave[1]);
    int64_t i = 0;
    for (; i + 1 < count; i += 2, dst += pitch) {
        const uint16_t *a = rows[i] + first, *b = rows[i + 1] + first;
        const uint16_t *ahead = rows[gy_min64(i + P512_ROWS_LOOKAHEAD, count - 1)] + first;
        const uint16_t *ahead1 = rows[gy_min64(i + P512_ROWS_LOOKAHEAD + 1, count - 1)] + first;
        int64_t c = 0;
        for (; c + 32 <= cols; c += 32) {
            __builtin_prefetch(ahead + c);
            __builtin_prefetch(ahead1 + c);
            const __m512i va = _mm512_loadu_si512(a + c), vb = _mm512_loadu_si512(b + c);
            _mm512_storeu_si512(dst + c, _mm512_permutex2var_epi16(va, near, vb));
            _mm512_storeu_si512(dst + c + 16, _mm512_permutex2var_epi16(va, far, vb));
        }
        for (; c < cols; c += 16)
            p512_pair(dst + c, a + c, b + c, cols - c);
    }
    for (int64_t c = 0; i < count && c < cols; c += 16)
        p512_pair(dst + c, rows[i] + first + c, NULL, cols - c);
}

P512_ATTR static void p512_pair_values(float *dst, const uint16_t *a, const uint16_t *b, int64_t count)
{
    for (int64_t c = 0; c < count; c += 16)
        p512_pair(dst + c, a + c, b + c, count - c);
}

P512_ATTR static void p512_join(uint16_t *dst, int64_t pitch, const uint16_t *const *rows, int64_t line, int64_t taps,
                                int64_t len, int64_t count)
{
    for (int64_t i = 0; i < count; i++, dst += pitch) {
        for (int64_t t = 0; t < taps; t++)
            for (int64_t c = 0; c < len; c += 32)
                _mm512_storeu_si512(dst + t * len + c, _mm512_loadu_si512(rows[i] + t * line + c));
        dst[taps * len] = 0;
    }
}

/* Rounded to bf16 in the upper half; what is below is rubbish. */
P512_ATTR GY_ALWAYS __m512i p512_round(const float *p, int64_t n)
{
    const __m512 v = n >= 16 ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(a512_mask(n), p);
    const __m512i bits = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), bits, _mm512_set1_epi32(0x400000));
}

P512_ATTR static void p512_pair_floats(float *dst, const float *a, const float *b, int64_t count)
{
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    for (int64_t c = 0; c < count; c += 16) {
        const int64_t n = count - c;
        const __m512i lo = _mm512_srli_epi32(p512_round(a + c, n), 16), hi = _mm512_and_si512(p512_round(b + c, n), upper);
        const __m512 pair = _mm512_castsi512_ps(_mm512_or_si512(lo, hi));
        if (n >= 16)
            _mm512_storeu_ps(dst + c, pair);
        else
            _mm512_mask_storeu_ps(dst + c, a512_mask(n), pair);
    }
}

/* Blocks of 16 rows x 32 floats, rounded by rows: two vectors become one of pairs. Rest: singly. */
P512_ATTR static void p512_pair_turn(float *dst, int64_t dst_pitch, const float *src, int64_t src_pitch, int64_t rows, int64_t elems)
{
    const int64_t rows16 = rows & ~(int64_t)15, whole = elems & ~(int64_t)31;
    for (int64_t r = 0; r < rows16; r += 16) {
        for (int64_t c = 0; c < whole; c += 32) {
            const float *const from = src + r * src_pitch + c;
            __m512 a[16];
            GY_UNROLL for (int i = 0; i < 16; i++)
            {
                const float *const row = from + i * src_pitch;
                __builtin_prefetch(row + P512_LOOKAHEAD, 0, 2);
                __builtin_prefetch(row + P512_LOOKAHEAD + 16, 0, 2);
                a[i] = (__m512)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(row + 16), _mm512_loadu_ps(row));
            }
            a512_turn(dst + c / 2 * dst_pitch + r, dst_pitch, a);
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = r < rows16 ? whole : 0; c < elems; c += 2) {
            const float *const from = src + r * src_pitch + c;
            const uint16_t pair[2] = {gy_bf16_narrow(from[0]), c + 1 < elems ? gy_bf16_narrow(from[1]) : 0};
            memcpy(dst + c / 2 * dst_pitch + r, pair, sizeof pair);
        }
    }
}

GY_INT void gy_kernels_avx512bf16(struct gy_kernels *k)
{
    k->name = "avx512bf16";
    k->gemm_pair[0] = (struct gy_gemm_kind){64, 6, p512_gemm_list_4, GY_GEMM_PREFETCHES};
    k->gemm_pair[1] = (struct gy_gemm_kind){32, 8, p512_gemm_list_2, 0};
    k->gemm_pair[2] = (struct gy_gemm_kind){16, 8, p512_gemm_list_1, 0};
    k->outer_pair[0] = (struct gy_outer_kind){64, 6, p512_outer_list_4, 0};
    k->outer_pair[1] = (struct gy_outer_kind){32, 8, p512_outer_list_2, 0};
    k->outer_pair[2] = (struct gy_outer_kind){16, 8, p512_outer_list_1, 0};
    k->pair_rows = p512_pair_rows;
    k->pair_floats = p512_pair_floats;
    k->pair_turn = p512_pair_turn;
    k->pair_pace = 2.0f;
    k->pair_values = p512_pair_values;
    k->join = p512_join;
    p512h_rows_fill(k);
}

#else

GY_INT void gy_kernels_avx512bf16(struct gy_kernels *k) { (void)k; }

#endif
