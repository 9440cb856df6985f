/* SPDX-License-Identifier: MIT */
/* Resizing as Pillow does it (and torchvision through it): for each output pixel a triangle filter over the source, as
 * wide as the reduction, weights in 22-bit fixed point, rows first, rounded to 8 bits between the passes. Integers only
 * in the pixel loops, so the bits are the same everywhere. Only the rows and columns asked for are computed. */
#include "augment.h"
#include "data_set.h"

#define RESAMPLE_BITS 22

struct resample_axis { /* for each output position: source positions [start, start + length) and their weights */
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

static void resample_row_rgb(const struct resample_axis *axis, const uint8_t *in, uint8_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t *weights = axis->weights + (int64_t)i * axis->taps;
        const uint8_t *at = in + 3 * (int64_t)axis->start[i];
        int32_t r = 1 << (RESAMPLE_BITS - 1), g = r, b = r;
        for (int32_t k = 0; k < axis->length[i]; k++, at += 3) {
            r += weights[k] * at[0];
            g += weights[k] * at[1];
            b += weights[k] * at[2];
        }
        out[3 * i] = resample_round(r);
        out[3 * i + 1] = resample_round(g);
        out[3 * i + 2] = resample_round(b);
    }
}

static void resample_row_gray(const struct resample_axis *axis, const uint8_t *in, uint8_t *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t *weights = axis->weights + (int64_t)i * axis->taps;
        int32_t sum = 1 << (RESAMPLE_BITS - 1);
        for (int32_t k = 0; k < axis->length[i]; k++)
            sum += weights[k] * in[axis->start[i] + k];
        out[i] = resample_round(sum);
    }
}

/* One output row: rows[k] has n cells; sums [n] is scratch. */
static void resample_column(const int32_t *weights, int32_t length, const uint8_t *rows, size_t stride, int32_t *sums,
                            uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] = 1 << (RESAMPLE_BITS - 1);
    for (int32_t k = 0; k < length; k++) {
        const uint8_t *row = rows + (size_t)k * stride;
        const int32_t weight = weights[k];
        for (int64_t i = 0; i < n; i++)
            sums[i] += weight * row[i];
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = resample_round(sums[i]);
}

static void resample_copy(const struct gy_window *from, const struct gy_resize *to, uint8_t *out, size_t out_stride)
{
    for (int32_t y = 0; y < to->h; y++)
        memcpy(out + (size_t)y * out_stride,
               from->pixels + (size_t)(to->y0 + y) * from->stride + (size_t)to->x0 * (size_t)from->c,
               (size_t)to->w * (size_t)from->c);
}

static void resample_passes(const struct gy_window *from, const struct resample_axis *across,
                            const struct resample_axis *down, const struct gy_resize *to, uint8_t *middle,
                            int32_t *sums, uint8_t *out, size_t out_stride)
{
    const size_t row_bytes = (size_t)to->w * (size_t)from->c;
    const int32_t top = down->start[0], end = down->start[to->h - 1] + down->length[to->h - 1];
    for (int32_t y = top; y < end; y++) {
        const uint8_t *in = from->pixels + (size_t)y * from->stride;
        uint8_t *row = middle + (size_t)(y - top) * row_bytes;
        if (from->c == 3)
            resample_row_rgb(across, in, row, to->w);
        else
            resample_row_gray(across, in, row, to->w);
    }
    for (int32_t y = 0; y < to->h; y++)
        resample_column(down->weights + (int64_t)y * down->taps, down->length[y],
                        middle + (size_t)(down->start[y] - top) * row_bytes, row_bytes, sums,
                        out + (size_t)y * out_stride, (int64_t)row_bytes);
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
    int32_t *sums = NULL;
    if (!bad) {
        const int32_t rows = down.start[to->h - 1] + down.length[to->h - 1] - down.start[0];
        sums = gy_decoder_take(decoder, (size_t)to->w * (size_t)from->c, sizeof(*sums));
        middle = gy_decoder_take(decoder, (size_t)rows * (size_t)to->w, (size_t)from->c);
        bad = !middle || !sums;
    }
    if (bad)
        return GY_FAIL(err, GY_E_IMAGE,
                       "resizing %" PRId32 " x %" PRId32 " pixels needs more memory than a decoder has", from->h,
                       from->w);
    resample_passes(from, &across, &down, to, middle, sums, out, out_stride);
    return GY_OK;
}

#undef RESAMPLE_BITS
