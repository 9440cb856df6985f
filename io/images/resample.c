/* SPDX-License-Identifier: MIT */
/* resample.c: resizes as Pillow does (and torchvision through it). Each output pixel has a triangle
 * filter over the source, as wide as the reduction, with weights in 22-bit fixed point. Rows come
 * first; values are rounded to 8 bits between the passes. Pixel loops have integers only, so the
 * bits are the same everywhere. Only the rows and columns asked for are computed. */
#include "io/images/resample.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define RESAMPLE_BITS 22
#define RESAMPLE_HALF (1 << (RESAMPLE_BITS - 1))

/* For each output position: source positions [start, start + length) and their weights. */
struct resample_axis {
    int32_t *start, *length, *weights; /* [n], [n], [n][taps] */
    int32_t taps;
};

GY_INT struct gy_window gy_window_of(const struct gy_image *image)
{
    const struct gy_window window = {image->pixels, (size_t)image->w * (size_t)image->c, image->h, image->w, image->c};
    return window;
}

static void resample_weights(struct resample_axis *axis, int32_t i, double center, double width, int32_t in)
{
    int32_t lo = (int32_t)(center - width + 0.5), hi = (int32_t)(center + width + 0.5);
    lo = lo < 0 ? 0 : lo;
    hi = hi > in ? in : hi;
    double total = 0;
    for (int32_t k = lo; k < hi; k++) {
        const double weight = 1.0 - fabs((k - center + 0.5) * (1.0 / width));
        total += weight > 0 ? weight : 0;
    }
    int32_t *weights = axis->weights + (int64_t)i * axis->taps;
    for (int32_t k = lo; k < hi; k++) {
        const double weight = 1.0 - fabs((k - center + 0.5) * (1.0 / width));
        weights[k - lo] = weight > 0 ? (int32_t)(0.5 + weight / total * (1 << RESAMPLE_BITS)) : 0;
    }
    axis->start[i] = lo;
    axis->length[i] = hi - lo;
}

/* Output positions [first, first + n) of total, from in source positions. */
static int resample_prepare(struct resample_axis *axis, int32_t in, int64_t total, int64_t first, int32_t n,
                            struct gy_decoder *decoder)
{
    const double scale = (double)in / (double)total, width = scale > 1 ? scale : 1;
    axis->taps = (int32_t)ceil(width) * 2 + 1;
    axis->start = gy_decoder_take(decoder, (size_t)n, sizeof(int32_t));
    axis->length = gy_decoder_take(decoder, (size_t)n, sizeof(int32_t));
    axis->weights = gy_decoder_take(decoder, (size_t)n * (size_t)axis->taps, sizeof(int32_t));
    if (!axis->start || !axis->length || !axis->weights)
        return -1;
    for (int32_t i = 0; i < n; i++)
        resample_weights(axis, i, ((double)(first + i) + 0.5) * scale, width, in);
    return 0;
}

static inline uint8_t resample_round(int32_t sum)
{
    const int32_t value = sum >> RESAMPLE_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* n cells, each a sum over length pixels that lie step bytes apart. */
static void resample_cells(const int32_t *weights, int32_t length, const uint8_t *at, size_t step, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t sum = RESAMPLE_HALF;
        for (int32_t k = 0; k < length; k++)
            sum += weights[k] * at[(size_t)k * step + (size_t)i];
        out[i] = resample_round(sum);
    }
}

/* A row of pixels of c cells: output positions from first on. */
static void resample_row(const struct resample_axis *axis, const uint8_t *in, int32_t c, uint8_t *out, int32_t first, int32_t n)
{
    for (int32_t i = first; i < n; i++)
        resample_cells(axis->weights + (int64_t)i * axis->taps, axis->length[i], in + (int64_t)c * axis->start[i], (size_t)c,
                       out + (int64_t)c * i, c);
}

#if defined(__x86_64__)
#define RESAMPLE_AVX2 __attribute__((target("avx2")))

/* Resamples pixels of three bytes until the source's last pixel is used. It reads and writes four
 * bytes each; the next pixel overwrites the fourth. Returns how many pixels. */
RESAMPLE_AVX2 static int32_t resample_row_avx2(const struct resample_axis *axis, const uint8_t *in, int32_t pixels, uint8_t *out, int32_t n)
{
    int32_t i = 0;
    for (; i + 1 < n && axis->start[i] + axis->length[i] < pixels; i++) {
        const int32_t *const weights = axis->weights + (int64_t)i * axis->taps;
        const uint8_t *at = in + 3 * (int64_t)axis->start[i];
        __m128i sum = _mm_set1_epi32(RESAMPLE_HALF);
        for (int32_t k = 0; k < axis->length[i]; k++, at += 3) {
            int32_t cells;
            memcpy(&cells, at, sizeof cells);
            sum = _mm_add_epi32(sum, _mm_mullo_epi32(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(cells)), _mm_set1_epi32(weights[k])));
        }
        sum = _mm_srai_epi32(sum, RESAMPLE_BITS);
        sum = _mm_packs_epi32(sum, sum);
        const int32_t cells = _mm_cvtsi128_si32(_mm_packus_epi16(sum, sum));
        memcpy(out + 3 * (int64_t)i, &cells, sizeof cells);
    }
    return i;
}

/* A row of cells, eight at a time. Returns how many. */
RESAMPLE_AVX2 static int64_t resample_cells_avx2(const int32_t *weights, int32_t length, const uint8_t *at, size_t step, uint8_t *out,
                                                 int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i sum = _mm256_set1_epi32(RESAMPLE_HALF);
        for (int32_t k = 0; k < length; k++) {
            const __m256i cells = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(at + (size_t)k * step + i)));
            sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(cells, _mm256_set1_epi32(weights[k])));
        }
        sum = _mm256_srai_epi32(sum, RESAMPLE_BITS);
        const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        _mm_storel_epi64((void *)(out + i), _mm_packus_epi16(half, half));
    }
    return i;
}
#endif

/* What vectors do of a row of pixels, or of cells: so many of its first. */
static int32_t resample_row_begin(const struct resample_axis *axis, const uint8_t *in, int32_t pixels, int32_t c, uint8_t *out, int32_t n)
{
#if defined(__x86_64__)
    if (c == 3 && __builtin_cpu_supports("avx2"))
        return resample_row_avx2(axis, in, pixels, out, n);
#endif
    (void)axis, (void)in, (void)pixels, (void)c, (void)out, (void)n;
    return 0;
}

static int64_t resample_cells_begin(const int32_t *weights, int32_t length, const uint8_t *at, size_t step, uint8_t *out, int64_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return resample_cells_avx2(weights, length, at, step, out, n);
#endif
    (void)weights, (void)length, (void)at, (void)step, (void)out, (void)n;
    return 0;
}

static void resample_copy(const struct gy_window *from, const struct gy_resize *to, uint8_t *out, size_t out_stride)
{
    for (int32_t y = 0; y < to->h; y++)
        memcpy(out + (size_t)y * out_stride,
               from->pixels + (size_t)(to->y0 + y) * from->stride + (size_t)to->x0 * (size_t)from->c,
               (size_t)to->w * (size_t)from->c);
}

static void resample_passes(const struct gy_window *from, const struct resample_axis *across,
                            const struct resample_axis *down, const struct gy_resize *to, uint8_t *middle, uint8_t *out,
                            size_t out_stride)
{
    const int64_t row_bytes = (int64_t)to->w * from->c;
    const int32_t top = down->start[0], end = down->start[to->h - 1] + down->length[to->h - 1];
    for (int32_t y = top; y < end; y++) {
        const uint8_t *const in = from->pixels + (size_t)y * from->stride;
        uint8_t *const row = middle + (y - top) * row_bytes;
        resample_row(across, in, from->c, row, resample_row_begin(across, in, from->w, from->c, row, to->w), to->w);
    }
    for (int32_t y = 0; y < to->h; y++, out += out_stride) {
        const int32_t *const weights = down->weights + (int64_t)y * down->taps, length = down->length[y];
        const uint8_t *const at = middle + (down->start[y] - top) * row_bytes;
        const int64_t done = resample_cells_begin(weights, length, at, (size_t)row_bytes, out, row_bytes);
        resample_cells(weights, length, at + done, (size_t)row_bytes, out + done, row_bytes - done);
    }
}

GY_INT int gy_resample(const struct gy_window *from, const struct gy_resize *to, uint8_t *out, size_t out_stride,
                       struct gy_decoder *decoder, struct gy_error *err)
{
    if (to->total_h == from->h && to->total_w == from->w) {
        resample_copy(from, to, out, out_stride);
        return GY_OK;
    }
    struct resample_axis across, down;
    int bad = resample_prepare(&down, from->h, to->total_h, to->y0, to->h, decoder) ||
              resample_prepare(&across, from->w, to->total_w, to->x0, to->w, decoder);
    uint8_t *middle = NULL;
    if (!bad) {
        const int32_t rows = down.start[to->h - 1] + down.length[to->h - 1] - down.start[0];
        middle = gy_decoder_take(decoder, (size_t)rows * (size_t)to->w, (size_t)from->c);
        bad = !middle;
    }
    if (bad)
        return GY_FAIL(err, GY_E_IMAGE, "resizing %" PRId32 " x %" PRId32
                       " pixels needs more memory than a decoder has", from->h, from->w);
    resample_passes(from, &across, &down, to, middle, out, out_stride);
    return GY_OK;
}
