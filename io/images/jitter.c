/* SPDX-License-Identifier: MIT */
/* jitter.c: colour jitter by torchvision's formulas: brightness, contrast, saturation and hue, each
 * by a random factor, in random order. Pixels are floats in [0, 1] in all four steps and are
 * rounded once, at the end. */
#include "io/images/jitter.h"
#include "engine/base/rng.h"

enum jitter_draw { JITTER_ORDER = 16, JITTER_FACTORS = 17 };

struct jitter_image {
    float *cells; /* [n][c] */
    int64_t n;
    int32_t c;
};

static float jitter_clamp(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

static float jitter_gray(const float *cell, int32_t c)
{
    return c == 3 ? 0.2989f * cell[0] + 0.587f * cell[1] + 0.114f * cell[2] : cell[0];
}

static void jitter_brightness(const struct jitter_image *image, float factor)
{
    for (int64_t i = 0; i < image->n * image->c; i++)
        image->cells[i] = jitter_clamp(image->cells[i] * factor);
}

static void jitter_contrast(const struct jitter_image *image, float factor)
{
    double sum = 0;
    for (int64_t i = 0; i < image->n; i++)
        sum += (double)jitter_gray(image->cells + i * image->c, image->c);
    const float rest = (1 - factor) * (float)(sum / (double)image->n);
    for (int64_t i = 0; i < image->n * image->c; i++)
        image->cells[i] = jitter_clamp(image->cells[i] * factor + rest);
}

static void jitter_saturation(const struct jitter_image *image, float factor)
{
    if (image->c != 3)
        return;
    for (int64_t i = 0; i < image->n; i++) {
        float *cell = image->cells + 3 * i;
        const float rest = (1 - factor) * jitter_gray(cell, 3);
        for (int k = 0; k < 3; k++)
            cell[k] = jitter_clamp(cell[k] * factor + rest);
    }
}

static void jitter_turn(float *cell, float turn)
{
    const float r = cell[0], g = cell[1], b = cell[2];
    const float hi = r > g ? (r > b ? r : b) : (g > b ? g : b), lo = r < g ? (r < b ? r : b) : (g < b ? g : b);
    const float range = hi - lo;
    if (!(range > 0))
        return; /* gray has no hue */
    const float s = range / hi, rc = (hi - r) / range, gc = (hi - g) / range, bc = (hi - b) / range;
    float h = hi == r ? bc - gc : hi == g ? 2 + rc - bc : 4 + gc - rc;
    h = h / 6 + turn + 2; /* at least 1 below */
    h -= floorf(h);
    const float sixth = floorf(h * 6), f = h * 6 - sixth;
    const float p = jitter_clamp(hi * (1 - s)), q = jitter_clamp(hi * (1 - s * f)),
                t = jitter_clamp(hi * (1 - s * (1 - f)));
    const float table[6][3] = {{hi, t, p}, {q, hi, p}, {p, hi, t}, {p, q, hi}, {t, p, hi}, {hi, p, q}};
    memcpy(cell, table[(int)sixth % 6], sizeof table[0]);
}

static void jitter_hue(const struct jitter_image *image, float turn)
{
    for (int64_t i = 0; image->c == 3 && i < image->n; i++)
        jitter_turn(image->cells + 3 * i, turn);
}

struct jitter_step {
    void (*apply)(const struct jitter_image *image, float factor);
    float amount, middle, floor; /* the factor is uniform in middle +- amount, not below floor */
};

static void jitter_run(const struct jitter_step steps[4], uint64_t seed, int64_t position,
                       const struct jitter_image *image)
{
    uint32_t shuffle[4], draw[4];
    int order[4] = {0, 1, 2, 3};
    gy_rng_words(seed, GY_RNG_AUGMENT, (uint64_t)position, JITTER_ORDER, shuffle);
    gy_rng_words(seed, GY_RNG_AUGMENT, (uint64_t)position, JITTER_FACTORS, draw);
    for (int i = 3; i > 0; i--) {
        const int k = (int)(((uint64_t)shuffle[i] * (uint64_t)(i + 1)) >> 32), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
    for (int i = 0; i < 4; i++) {
        const struct jitter_step *step = &steps[order[i]];
        if (!(step->amount > 0))
            continue;
        const float lo = step->middle - step->amount > step->floor ? step->middle - step->amount : step->floor;
        const float hi = step->middle + step->amount;
        step->apply(image, lo + (hi - lo) * ((float)(draw[order[i]] >> 8) * 0x1p-24f));
    }
}

GY_INT int gy_augment_jitter(const struct gy_augment *augment, uint64_t seed, int64_t position, uint8_t *pixels,
                             int32_t h, int32_t w, int32_t c, struct gy_decoder *decoder, struct gy_error *err)
{
    const struct jitter_step steps[4] = {
        {jitter_brightness, augment->brightness, 1, 0},
        {jitter_contrast, augment->contrast, 1, 0},
        {jitter_saturation, augment->saturation, 1, 0},
        {jitter_hue, augment->hue, 0, -1},
    };
    if (!(augment->brightness > 0 || augment->contrast > 0 || augment->saturation > 0 || augment->hue > 0))
        return GY_OK;
    const struct jitter_image image = {gy_decoder_take(decoder, (size_t)h * (size_t)w * (size_t)c, sizeof(float)),
                                       (int64_t)h * w, c};
    if (!image.cells)
        return GY_FAIL(err, GY_E_IMAGE,
                       "colour jitter of %" PRId32 " x %" PRId32 " pixels needs more memory than a decoder has", h, w);
    for (int64_t i = 0; i < image.n * c; i++)
        image.cells[i] = (float)pixels[i] / 255;
    jitter_run(steps, seed, position, &image);
    for (int64_t i = 0; i < image.n * c; i++)
        pixels[i] = (uint8_t)(image.cells[i] * 255 + 0.5f);
    return GY_OK;
}
