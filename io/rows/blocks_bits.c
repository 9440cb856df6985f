/* SPDX-License-Identifier: MIT */
/* blocks_bits.c: packs numbers of 1 to 32 bits, one behind the other, for blocks_pack.c, and
 * unpacks them for blocks.c. Number k begins at bit k * bits. Eight of them take `bits` whole
 * bytes, so AVX2 takes eight at a time with the same shuffle, shift and mask. Elsewhere each is cut
 * out of a word of 64 bits that begins at its byte. */
#include "io/rows/blocks_file.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

GY_INT int gy_bits_of(uint32_t most)
{
    int bits = 1;
    while (bits < 32 && most >> bits != 0)
        bits++;
    return bits;
}

static uint64_t bits_word(const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static void bits_unpack_plain(const unsigned char *from, int bits, uint32_t *out, size_t n)
{
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t at = 0;
    for (size_t k = 0; k < n; k++, at += (uint64_t)bits)
        out[k] = (uint32_t)(bits_word(from + (at >> 3)) >> (at & 7) & mask);
}

static void bits_see_plain(struct gy_bits_look *look, const uint32_t *id, size_t n)
{
    const uint32_t *last = id - 1;
    uint32_t most = look->most;
    size_t falls = 0;
    for (size_t k = 0; k < n; k++) {
        most = id[k] > most ? id[k] : most;
        falls += id[k] <= last[k];
    }
    look->most = most;
    look->falls += falls;
}

/* A turn to a whole number and back leaves the bits of whole ones alone as they are. */
static uint32_t bits_whole_plain(const float *value, size_t n, int32_t range[2])
{
    uint32_t differ = 0;
    for (size_t k = 0; k < n; k++) {
        const int32_t whole = fabsf(value[k]) <= BLOCKS_WHOLE_MOST ? (int32_t)value[k] : 0;
        differ |= gy_blocks_bits_of_float((float)whole) ^ gy_blocks_bits_of_float(value[k]);
        range[0] = whole < range[0] ? whole : range[0];
        range[1] = whole > range[1] ? whole : range[1];
    }
    return differ;
}

#if defined(__x86_64__)
#define BITS_AVX2 __attribute__((target("avx2")))
#define BITS_WIDE 25 /* a number of more bits may lie in five bytes */

/* Numbers 0 to 3 come from the 16 bytes at `from`, numbers 4 to 7 from those at from + bits / 2.
 * The latter begin half a byte later where bits is odd. */
BITS_AVX2 static void bits_unpack_avx2(const unsigned char *from, int bits, uint32_t *out, size_t n)
{
    unsigned char place[32];
    uint32_t shift[8];
    for (int k = 0; k < 8; k++) {
        const int bit = k < 4 ? k * bits : (k - 4) * bits + (bits & 1) * 4;
        for (int i = 0; i < 4; i++)
            place[4 * k + i] = (unsigned char)(bit / 8 + i);
        shift[k] = (uint32_t)bit & 7;
    }
    const __m256i places = _mm256_loadu_si256((const __m256i *)(const void *)place), shifts = _mm256_loadu_si256((const __m256i *)(const void *)shift);
    const __m256i mask = _mm256_set1_epi32((int)(((uint32_t)1 << bits) - 1));
    size_t k = 0;
    for (; k + 8 <= n; k += 8, from += bits) {
        const __m128i lo = _mm_loadu_si128((const __m128i *)(const void *)from), hi = _mm_loadu_si128((const __m128i *)(const void *)(from + bits / 2));
        const __m256i words = _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(lo), hi, 1), places);
        _mm256_storeu_si256((__m256i *)(void *)(out + k), _mm256_and_si256(_mm256_srlv_epi32(words, shifts), mask));
    }
    bits_unpack_plain(from, bits, out + k, n - k);
}

BITS_AVX2 static void bits_see_avx2(struct gy_bits_look *look, const uint32_t *id, size_t n)
{
    const uint32_t *before = id - 1;
    __m256i most = _mm256_setzero_si256(), falls = most;
    size_t k = 0;
    for (; k + 8 <= n; k += 8) {
        const __m256i now = _mm256_loadu_si256((const __m256i *)(const void *)(id + k));
        const __m256i last = _mm256_loadu_si256((const __m256i *)(const void *)(before + k));
        most = _mm256_max_epu32(most, now);
        falls = _mm256_sub_epi32(falls, _mm256_cmpeq_epi32(_mm256_max_epu32(now, last), last));
    }
    uint32_t m[8], f[8];
    _mm256_storeu_si256((__m256i *)(void *)m, most);
    _mm256_storeu_si256((__m256i *)(void *)f, falls);
    for (int i = 0; i < 8; i++) {
        look->most = m[i] > look->most ? m[i] : look->most;
        look->falls += f[i];
    }
    bits_see_plain(look, id + k, n - k);
}

/* What is too large becomes the least of all numbers. */
BITS_AVX2 static uint32_t bits_whole_avx2(const float *value, size_t n, int32_t range[2])
{
    __m256i least = _mm256_set1_epi32(range[0]), largest = _mm256_set1_epi32(range[1]), differ = _mm256_setzero_si256();
    size_t k = 0;
    for (; k + 8 <= n; k += 8) {
        const __m256 v = _mm256_loadu_ps(value + k);
        const __m256i whole = _mm256_cvttps_epi32(v);
        differ = _mm256_or_si256(differ, _mm256_castps_si256(_mm256_xor_ps(_mm256_cvtepi32_ps(whole), v)));
        least = _mm256_min_epi32(least, whole);
        largest = _mm256_max_epi32(largest, whole);
    }
    int32_t l[8], m[8];
    _mm256_storeu_si256((__m256i *)(void *)l, least);
    _mm256_storeu_si256((__m256i *)(void *)m, largest);
    for (int i = 0; i < 8; i++) {
        range[0] = l[i] < range[0] ? l[i] : range[0];
        range[1] = m[i] > range[1] ? m[i] : range[1];
    }
    return (uint32_t)!_mm256_testz_si256(differ, differ) | bits_whole_plain(value + k, n - k, range);
}
#endif

GY_INT void gy_bits_unpack(const unsigned char *from, int bits, uint32_t *out, size_t n)
{
#if defined(__x86_64__)
    if (bits <= BITS_WIDE && __builtin_cpu_supports("avx2")) {
        bits_unpack_avx2(from, bits, out, n);
        return;
    }
#endif
    bits_unpack_plain(from, bits, out, n);
}

GY_INT void gy_bits_see(struct gy_bits_look *look, const uint32_t *id, size_t n, int before)
{
    if (n == 0)
        return;
    if (!before) {
        look->most = id[0] > look->most ? id[0] : look->most;
        id++;
        n--;
    }
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        bits_see_avx2(look, id, n);
        return;
    }
#endif
    bits_see_plain(look, id, n);
}

GY_INT int gy_bits_see_whole(const float *value, size_t n, int32_t range[2])
{
    uint32_t differ;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        differ = bits_whole_avx2(value, n, range);
    else
#endif
        differ = bits_whole_plain(value, n, range);
    return differ != 0 || range[0] < -(int32_t)BLOCKS_WHOLE_MOST || range[1] > (int32_t)BLOCKS_WHOLE_MOST;
}

/* Adds a number of 1 to 64 bits. */
static inline void bits_add(struct gy_bits_writer *writer, uint64_t number, int bits)
{
    writer->word |= number << writer->held;
    writer->held += bits;
    if (writer->held < 64)
        return;
    memcpy(writer->to, &writer->word, sizeof writer->word);
    writer->to += sizeof writer->word;
    writer->held -= 64;
    writer->word = number >> 1 >> (bits - writer->held - 1); /* what did not fit */
}

GY_INT void gy_bits_pack(struct gy_bits_writer *writer, const uint32_t *value, size_t n, int bits)
{
    struct gy_bits_writer w = *writer;
    size_t k = 0;
    for (; bits <= 16 && n - k >= 4; k += 4) {
        const uint64_t low = value[k] | (uint64_t)value[k + 1] << bits, high = value[k + 2] | (uint64_t)value[k + 3] << bits;
        bits_add(&w, low | high << 2 * bits, 4 * bits);
    }
    for (; n - k >= 2; k += 2)
        bits_add(&w, value[k] | (uint64_t)value[k + 1] << bits, 2 * bits);
    if (k < n)
        bits_add(&w, value[k], bits);
    *writer = w;
}

GY_INT void gy_bits_flush(struct gy_bits_writer *writer)
{
    for (; writer->held > 0; writer->held -= 8, writer->word >>= 8)
        *writer->to++ = (unsigned char)writer->word;
    writer->held = 0;
}

#if defined(__x86_64__)
#endif
