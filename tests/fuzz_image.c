/* SPDX-License-Identifier: MIT */
/* fuzz_image.c: any bytes as an image file, decoded into a small decoder with each number of
 * channels. A decoded image must lie in the decoder, within the limits, and stand being resized.
 * Checksums are not compared in this build. */
#include "io/images/data_set.h"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())
#define FUZZ_PIXELS 16384
#define FUZZ_ROOM ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void fuzz_look(const struct gy_image *image, int32_t channels, struct gy_decoder *decoder)
{
    static uint8_t small[16 * 16 * 3];
    struct gy_error err;
    FUZZ_REQUIRE(image->c == channels || (channels == 0 && (image->c == 1 || image->c == 3)));
    FUZZ_REQUIRE(image->h > 0 && image->w > 0 && (int64_t)image->h * image->w <= FUZZ_PIXELS);
    FUZZ_REQUIRE(image->pixels >= decoder->block && image->pixels < decoder->block + decoder->used);
    unsigned sum = 0;
    for (int64_t i = 0; i < (int64_t)image->h * image->w * image->c; i++)
        sum += image->pixels[i]; /* every byte is there */
    FUZZ_REQUIRE(sum <= 255u * 3 * FUZZ_PIXELS);
    (void)gy_image_fit(image, 16, 16, 3, 0, small, decoder, &err);
}

/* The same bytes as a float map. */
static void fuzz_float_map(struct gy_decoder *decoder, const uint8_t *bytes, size_t count)
{
    struct gy_image image;
    struct gy_error err;
    gy_decoder_reset(decoder);
    const int status = gy_pfm_decode(decoder, bytes, count, "fuzz", FUZZ_PIXELS, &image, &err);
    FUZZ_REQUIRE(status == GY_OK || err.text[0] != 0);
    if (status != GY_OK)
        return;
    FUZZ_REQUIRE(image.h > 0 && image.w > 0 && (int64_t)image.h * image.w <= FUZZ_PIXELS && (image.c == 1 || image.c == 3));
    unsigned finite = 0;
    for (int64_t i = 0; i < (int64_t)image.h * image.w * image.c; i++)
        finite += isfinite(image.values[i]) != 0; /* every value is there */
    FUZZ_REQUIRE(finite <= 3 * FUZZ_PIXELS);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    /* one for all inputs: opening it would take most of the time */
    static struct gy_decoder *decoder;
    struct gy_image image;
    struct gy_error err;
    if (!decoder && gy_decoder_open(&decoder, &alloc, FUZZ_ROOM, &err))
        return 0;
    for (int32_t channels = 0; channels <= 3; channels++) {
        const int status = gy_image_decode(decoder, bytes, count, "fuzz", channels, FUZZ_PIXELS, &image, &err);
        FUZZ_REQUIRE(status == GY_OK || err.text[0] != 0);
        if (status == GY_OK)
            fuzz_look(&image, channels, decoder);
    }
    fuzz_float_map(decoder, bytes, count);
    return 0;
}
