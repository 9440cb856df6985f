/* SPDX-License-Identifier: MIT */
/* augment.c: geometry and mixing of training samples, as torchvision does them, with counted draws.
 * Every use has its own element number in the random stream, so switching one thing on does not
 * change the draws of another. Colour is in jitter.c. */
#include "io/images/augment.h"
#include "engine/base/rng.h"
#include "io/images/data_set.h"
#include "io/images/jitter.h"
#include "io/images/resample.h"

enum augment_draw { /* element numbers; a batch's own draws lie above all samples' */
    AUGMENT_CROP = 0, /* one for each of the ten attempts */
    AUGMENT_PAD = 10,
    AUGMENT_FLIP = 11
};
#define AUGMENT_ATTEMPTS 10
#define AUGMENT_BATCH ((uint64_t)1 << 32)

/* NaN is not within */
static int augment_within(float value, float lo, float hi) { return value >= lo && value <= hi; }

GY_INT int gy_augment_check(const struct gy_augment *a, struct gy_error *err)
{
    const struct {
        const char *name;
        float value, lo, hi;
    } ranges[] = {
        {"pad", (float)a->pad, 0, 1024},         {"flip", a->flip, 0, 1},
        {"brightness", a->brightness, 0, 100},   {"contrast", a->contrast, 0, 100},
        {"saturation", a->saturation, 0, 100},   {"hue", a->hue, 0, 0.5f},
        {"mixup", a->mixup, 0, 1000},            {"cutmix", a->cutmix, 0, 1000},
        {"resize", (float)a->resize, 0, GY_IMAGE_SIDE},
    };
    for (size_t i = 0; i < GY_COUNT(ranges); i++)
        if (!augment_within(ranges[i].value, ranges[i].lo, ranges[i].hi))
            return GY_FAIL(err, GY_E_ARG, "augmentation: %s %g is not within %g to %g", ranges[i].name,
                           (double)ranges[i].value, (double)ranges[i].lo, (double)ranges[i].hi);
    if (a->resized_crop < 0 || a->resized_crop > 1)
        return GY_FAIL(err, GY_E_ARG, "augmentation: resized_crop %d is not 0 or 1", a->resized_crop);
    if (a->resized_crop && a->pad > 0)
        return GY_FAIL(err, GY_E_ARG, "augmentation: pad %" PRId32 " and resized_crop are two ways to crop; one of them can be taken", a->pad);
    if (a->resized_crop && !(a->scale_min > 0 && a->scale_min <= a->scale_max && a->scale_max <= 1))
        return GY_FAIL(err, GY_E_ARG, "augmentation: crop scale %g to %g is not within 0 to 1", (double)a->scale_min,
                       (double)a->scale_max);
    if (a->resized_crop && !(a->ratio_min >= 0.01f && a->ratio_min <= a->ratio_max && a->ratio_max <= 100))
        return GY_FAIL(err, GY_E_ARG, "augmentation: crop ratio %g to %g is not within 0.01 to 100",
                       (double)a->ratio_min, (double)a->ratio_max);
    return GY_OK;
}

GY_INT size_t gy_augment_bytes(int32_t max_h, int32_t max_w, int32_t h, int32_t w)
{
    const size_t out = (size_t)h * (size_t)w, weights = 4 * (size_t)(max_h + max_w) + 8 * (size_t)(h + w);
    return (size_t)max_h * (size_t)w * 3 + weights * 4 + out * 3 + out * 12 + 65536;
}

/* In [0, n) from one random word. */
static int32_t augment_below(uint32_t word, int32_t n) { return (int32_t)(((uint64_t)word * (uint64_t)n) >> 32); }

static double augment_between(uint32_t word, double lo, double hi) { return lo + (hi - lo) * ((double)word * 0x1p-32); }

/* ---- where to cut ---- */

static struct gy_window augment_cut(const struct gy_window *from, int32_t y, int32_t x, int32_t h, int32_t w)
{
    const struct gy_window part = {from->pixels + (size_t)y * from->stride + (size_t)x * (size_t)from->c, from->stride,
                                   h, w, from->c};
    return part;
}

/* The whole image, or its centre where the aspect ratio is out of the range. */
static struct gy_window augment_fallback_crop(const struct gy_augment *a, const struct gy_window *from)
{
    const double ratio = (double)from->w / from->h;
    int32_t h = from->h, w = from->w;
    if (ratio < (double)a->ratio_min)
        h = (int32_t)rint(w / (double)a->ratio_min);
    else if (ratio > (double)a->ratio_max)
        w = (int32_t)rint(h * (double)a->ratio_max);
    h = h < 1 ? 1 : h > from->h ? from->h : h;
    w = w < 1 ? 1 : w > from->w ? from->w : w;
    return augment_cut(from, (from->h - h) / 2, (from->w - w) / 2, h, w);
}

static struct gy_window augment_random_crop(const struct gy_augment *a, const struct gy_window *from, uint64_t seed,
                                            int64_t position)
{
    const double area = (double)from->h * from->w;
    const double lo = log((double)a->ratio_min), hi = log((double)a->ratio_max);
    for (int i = 0; i < AUGMENT_ATTEMPTS; i++) {
        uint32_t word[4];
        gy_rng_words(seed, GY_RNG_AUGMENT, (uint64_t)position, AUGMENT_CROP + (uint64_t)i, word);
        const double target = area * augment_between(word[0], (double)a->scale_min, (double)a->scale_max);
        const double ratio = exp(augment_between(word[1], lo, hi));
        const double w = rint(sqrt(target * ratio)), h = rint(sqrt(target / ratio));
        if (w >= 1 && w <= from->w && h >= 1 && h <= from->h)
            return augment_cut(from, augment_below(word[2], from->h - (int32_t)h + 1),
                               augment_below(word[3], from->w - (int32_t)w + 1), (int32_t)h, (int32_t)w);
    }
    return augment_fallback_crop(a, from);
}

/* ---- fitting ---- */

/* Half of difference, rounded to even as Python's round. */
static int64_t augment_half(int64_t difference)
{
    const int64_t half = difference / 2;
    return half + ((difference & 1) && (half & 1));
}

/* The size to which an image is resized before the centre crop. resize 0: the image just covers h x
 * w. */
static void augment_fit_size(const struct gy_window *from, int32_t h, int32_t w, int32_t resize, int64_t *total_h,
                             int64_t *total_w)
{
    const int64_t fh = from->h, fw = from->w;
    if (resize > 0) {
        *total_w = fw <= fh ? resize : resize * fw / fh;
        *total_h = fw <= fh ? resize * fh / fw : resize;
    } else if (fw * h <= fh * w) {
        *total_w = w;
        *total_h = gy_max64(h, fh * w / fw);
    } else {
        *total_h = h;
        *total_w = gy_max64(w, fw * h / fh);
    }
}

/* Resizes `from` and crops the centre into out [h][w][from->c]. A resized image that is smaller
 * gets zeros around it. */
static int augment_fit(const struct gy_window *from, int32_t h, int32_t w, int32_t resize, uint8_t *out,
                       struct gy_decoder *decoder, struct gy_error *err)
{
    struct gy_resize to;
    augment_fit_size(from, h, w, resize, &to.total_h, &to.total_w);
    const size_t stride = (size_t)w * (size_t)from->c;
    int64_t top = 0, left = 0;
    if (to.total_h < h || to.total_w < w)
        memset(out, 0, stride * (size_t)h);
    if (to.total_h < h)
        top = (h - to.total_h) / 2;
    if (to.total_w < w)
        left = (w - to.total_w) / 2;
    to.h = (int32_t)gy_min64(h, to.total_h);
    to.w = (int32_t)gy_min64(w, to.total_w);
    to.y0 = augment_half(to.total_h - to.h);
    to.x0 = augment_half(to.total_w - to.w);
    return gy_resample(from, &to, out + (size_t)top * stride + (size_t)left * (size_t)from->c, stride, decoder, err);
}

/* ---- channels ---- */

/* Luma of ITU-R BT.601 as Pillow's convert("L") rounds it: L24 of its src/libImaging/Convert.c. The
 * weights add up to 65536. */
static uint8_t augment_luma(const uint8_t *rgb)
{
    return (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

/* in [n][c_in] to out [n][c_out]. */
static void augment_channels(const uint8_t *in, int32_t c_in, uint8_t *out, int32_t c_out, int64_t n)
{
    if (c_in == c_out) {
        memcpy(out, in, (size_t)n * (size_t)c_in);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (c_out == 1)
            out[i] = augment_luma(in + 3 * i);
        else
            out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = in[i];
    }
}

/* Where pixels with the source's channels go: straight to out when the numbers of channels agree.
 * NULL: no memory. */
static uint8_t *augment_stage(const struct gy_window *from, int32_t h, int32_t w, int32_t c, uint8_t *out,
                              struct gy_decoder *decoder)
{
    return from->c == c ? out : gy_decoder_take(decoder, (size_t)h * (size_t)w, (size_t)from->c);
}

static int augment_no_memory(const struct gy_window *from, struct gy_error *err)
{
    return GY_FAIL(err, GY_E_IMAGE, "an image of %" PRId32 " x %" PRId32 " pixels needs more memory than a decoder has",
                   from->h, from->w);
}

GY_INT int gy_image_fit(const struct gy_image *image, int32_t h, int32_t w, int32_t c, int32_t resize, uint8_t *out,
                        struct gy_decoder *decoder, struct gy_error *err)
{
    const struct gy_window from = gy_window_of(image);
    uint8_t *stage = augment_stage(&from, h, w, c, out, decoder);
    if (!stage)
        return augment_no_memory(&from, err);
    GY_TRY(augment_fit(&from, h, w, resize, stage, decoder, err));
    if (stage != out)
        augment_channels(stage, from.c, out, c, (int64_t)h * w);
    return GY_OK;
}

/* ---- one training sample ---- */

/* Moves the pixels of [h][w][c] by (dy, dx); zeros come in. in and out are different. */
static void augment_shift(const uint8_t *in, int32_t h, int32_t w, int32_t c, int32_t dy, int32_t dx, uint8_t *out)
{
    const size_t row = (size_t)w * (size_t)c;
    memset(out, 0, row * (size_t)h);
    const int32_t x0 = dx > 0 ? dx : 0, x1 = dx > 0 ? w : w + dx;
    for (int32_t y = 0; y < h && x1 > x0; y++)
        if (y - dy >= 0 && y - dy < h)
            memcpy(out + (size_t)y * row + (size_t)x0 * (size_t)c,
                   in + (size_t)(y - dy) * row + (size_t)(x0 - dx) * (size_t)c, (size_t)(x1 - x0) * (size_t)c);
}

/* By how much the random crop from an image with a border moves it. */
static void augment_pad_draw(const struct gy_augment *a, uint64_t seed, int64_t position, int32_t *dy, int32_t *dx)
{
    uint32_t word[4];
    gy_rng_words(seed, GY_RNG_AUGMENT, (uint64_t)position, AUGMENT_PAD, word);
    *dy = a->pad - augment_below(word[0], 2 * a->pad + 1);
    *dx = a->pad - augment_below(word[1], 2 * a->pad + 1);
}

/* The random crop from [h][w] with a border; cell: bytes of a pixel. */
static void augment_pad_shift(const struct gy_augment *a, uint64_t seed, int64_t position, const uint8_t *in, int32_t h,
                              int32_t w, int32_t cell, uint8_t *out)
{
    int32_t dy, dx;
    augment_pad_draw(a, seed, position, &dy, &dx);
    augment_shift(in, h, w, cell, dy, dx, out);
}

static int augment_pad_crop(const struct gy_augment *a, const struct gy_window *from, uint64_t seed, int64_t position,
                            int32_t h, int32_t w, uint8_t *out, struct gy_decoder *decoder, struct gy_error *err)
{
    uint8_t *fitted = gy_decoder_take(decoder, (size_t)h * (size_t)w, (size_t)from->c);
    if (!fitted)
        return augment_no_memory(from, err);
    GY_TRY(augment_fit(from, h, w, 0, fitted, decoder, err));
    augment_pad_shift(a, seed, position, fitted, h, w, from->c, out);
    return GY_OK;
}

static int augment_place(const struct gy_augment *a, const struct gy_window *from, uint64_t seed, int64_t position,
                         int32_t h, int32_t w, uint8_t *out, struct gy_decoder *decoder, struct gy_error *err)
{
    if (a->resized_crop) {
        const struct gy_window part = augment_random_crop(a, from, seed, position);
        const struct gy_resize to = {h, w, 0, 0, h, w};
        return gy_resample(&part, &to, out, (size_t)w * (size_t)from->c, decoder, err);
    }
    if (a->pad > 0)
        return augment_pad_crop(a, from, seed, position, h, w, out, decoder, err);
    return augment_fit(from, h, w, a->resize, out, decoder, err);
}

static void augment_mirror(uint8_t *pixels, int32_t h, int32_t w, int32_t c)
{
    for (int32_t y = 0; y < h; y++) {
        uint8_t *left = pixels + (size_t)y * (size_t)w * (size_t)c, *right = left + (size_t)(w - 1) * (size_t)c;
        for (; left < right; left += c, right -= c)
            for (int32_t k = 0; k < c; k++) {
                const uint8_t kept = left[k];
                left[k] = right[k];
                right[k] = kept;
            }
    }
}

static int augment_flips(const struct gy_augment *a, uint64_t seed, int64_t position)
{
    return a->flip > 0 && gy_rng_uniform(seed, GY_RNG_AUGMENT, (uint64_t)position, AUGMENT_FLIP) < a->flip;
}

GY_INT int gy_augment_tells(const struct gy_augment *augment, struct gy_augment *rest)
{
    const int colour = augment->brightness > 0 || augment->contrast > 0 || augment->saturation > 0 || augment->hue > 0;
    const int pads = augment->pad > 0;
    *rest = *augment;
    if (colour || (!pads && !(augment->flip > 0)))
        return 0;
    rest->flip = 0;
    if (pads) {
        rest->pad = 0;
        rest->resize = 0; /* as augment_pad_crop fits */
    }
    return 1;
}

GY_INT void gy_augment_tell(const struct gy_augment *augment, uint64_t seed, int64_t position, struct gy_batch_mix *mix)
{
    mix->dy = mix->dx = 0;
    if (augment->pad > 0)
        augment_pad_draw(augment, seed, position, &mix->dy, &mix->dx);
    mix->flip = augment_flips(augment, seed, position);
}

GY_INT int gy_augment_sample(const struct gy_augment *augment, const struct gy_image *image, uint64_t seed,
                             int64_t position, int32_t h, int32_t w, int32_t c, uint8_t *out,
                             struct gy_decoder *decoder, struct gy_error *err)
{
    const struct gy_window from = gy_window_of(image);
    uint8_t *stage = augment_stage(&from, h, w, c, out, decoder);
    if (!stage)
        return augment_no_memory(&from, err);
    GY_TRY(augment_place(augment, &from, seed, position, h, w, stage, decoder, err));
    if (stage != out)
        augment_channels(stage, from.c, out, c, (int64_t)h * w);
    if (augment_flips(augment, seed, position))
        augment_mirror(out, h, w, c);
    return gy_augment_jitter(augment, seed, position, out, h, w, c, decoder, err);
}

GY_INT void gy_augment_real(const struct gy_augment *augment, const struct gy_image *image, uint64_t seed,
                            int64_t position, uint8_t *out)
{
    const uint8_t *in = (const uint8_t *)image->values;
    const int32_t h = image->h, w = image->w, cell = image->c * (int32_t)sizeof(float);
    if (augment && augment->pad > 0)
        augment_pad_shift(augment, seed, position, in, h, w, cell, out);
    else
        memcpy(out, in, (size_t)h * (size_t)w * (size_t)cell);
    if (augment && augment_flips(augment, seed, position))
        augment_mirror(out, h, w, cell);
}

/* ---- mixing of a batch ---- */

struct augment_stream { /* counted draws of one batch */
    uint64_t seed, number, next;
};

static double augment_next(struct augment_stream *s)
{
    uint32_t word[4];
    gy_rng_words(s->seed, GY_RNG_AUGMENT, s->number, AUGMENT_BATCH + s->next++, word);
    return ((double)word[0] + 0.5) * 0x1p-32;
}

static double augment_next_normal(struct augment_stream *s)
{
    const double radius = sqrt(-2 * log(augment_next(s))), angle = 6.283185307179586 * augment_next(s);
    return radius * cos(angle);
}

/* The logarithm of a Gamma(alpha, 1) draw, by Marsaglia and Tsang, "A simple method for generating
 * gamma variables", 2000. */
static double augment_log_gamma(struct augment_stream *s, double alpha)
{
    const double boosted = alpha < 1 ? alpha + 1 : alpha, d = boosted - 1.0 / 3, k = 1 / sqrt(9 * d);
    double log_draw = 0;
    for (int i = 0; i < 1000; i++) { /* each turn succeeds with more than 95 % */
        const double x = augment_next_normal(s), v = 1 + k * x, u = augment_next(s);
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v * v * v + 3 * d * log(v)) {
            log_draw = log(d) + 3 * log(v);
            break;
        }
    }
    return alpha < 1 ? log_draw + log(augment_next(s)) / alpha : log_draw;
}

/* Beta(alpha, alpha) through two Gammas, by logarithms: a small alpha does not underflow. */
static double augment_beta(struct augment_stream *s, double alpha)
{
    const double a = augment_log_gamma(s, alpha), b = augment_log_gamma(s, alpha);
    return 1 / (1 + exp(b - a));
}

static struct gy_batch_mix augment_cutmix(struct augment_stream *s, double weight, int32_t h, int32_t w)
{
    const int32_t x = (int32_t)(augment_next(s) * w), y = (int32_t)(augment_next(s) * h);
    const double half = 0.5 * sqrt(1 - weight);
    const int32_t half_w = (int32_t)(half * w), half_h = (int32_t)(half * h);
    struct gy_batch_mix m = {0};
    m.h0 = (int32_t)gy_max64(y - half_h, 0);
    m.w0 = (int32_t)gy_max64(x - half_w, 0);
    m.h1 = (int32_t)gy_min64(y + half_h, h);
    m.w1 = (int32_t)gy_min64(x + half_w, w);
    m.label = (float)(1 - (double)(m.h1 - m.h0) * (m.w1 - m.w0) / ((double)h * w));
    return m;
}

GY_INT void gy_augment_mix(const struct gy_augment *augment, uint64_t seed, int64_t number, int32_t batch, int32_t h,
                           int32_t w, struct gy_batch_mix *mix)
{
    struct augment_stream s = {seed, (uint64_t)number, 0};
    const double coin = augment_next(&s);
    const int cut = augment->cutmix > 0 && (!(augment->mixup > 0) || coin < 0.5);
    const double weight = augment_beta(&s, cut ? (double)augment->cutmix : (double)augment->mixup);
    struct gy_batch_mix m = { .inside = (float)weight, .label = (float)weight, .h1 = h, .w1 = w };
    if (cut)
        m = augment_cutmix(&s, weight, h, w);
    for (int32_t i = 0; i < batch; i++) {
        mix[i] = m;
        mix[i].partner = (i + batch - 1) % batch;
    }
}
