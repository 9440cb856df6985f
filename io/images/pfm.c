/* SPDX-License-Identifier: MIT */
/* pfm.c: Portable Float Map, for folder.c. The file has "PF" (colour) or "Pf" (gray), width,
 * height, a scale, and float32 rows from the bottom up. The scale's sign is the byte order
 * (negative: low byte first). Its size is a unit of light that training does not need, so values
 * are taken as they are. Training finds those that are not finite. */
#include "engine/base/text.h"
#include "io/images/data_set.h"

struct pfm_header {
    int64_t h, w;
    int32_t c;
    int low_first;
    size_t bytes; /* of the header */
};

static int pfm_is_space(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next word, after spaces, and the one space behind it; -1 when it is cut or too long. */
static int pfm_word(const unsigned char *bytes, size_t count, size_t *at, char *word, size_t room)
{
    size_t i = *at, n = 0;
    while (i < count && pfm_is_space(bytes[i]))
        i++;
    for (; i < count && !pfm_is_space(bytes[i]); i++) {
        if (bytes[i] == 0 || n + 1 >= room)
            return -1;
        word[n++] = (char)bytes[i];
    }
    if (i >= count || n == 0)
        return -1;
    word[n] = 0;
    *at = i + 1;
    return 0;
}

static int pfm_parse(const unsigned char *bytes, size_t count, struct pfm_header *header)
{
    char kind[4], w[16], h[16], scale[40];
    double value;
    size_t at = 0;
    if (count == 0 || bytes[0] != 'P' || pfm_word(bytes, count, &at, kind, sizeof kind) ||
        pfm_word(bytes, count, &at, w, sizeof w) || pfm_word(bytes, count, &at, h, sizeof h) ||
        pfm_word(bytes, count, &at, scale, sizeof scale))
        return -1;
    if ((strcmp(kind, "PF") != 0 && strcmp(kind, "Pf") != 0) || gy_text_int(w, 0, 1 << 24, &header->w) ||
        gy_text_int(h, 0, 1 << 24, &header->h) || gy_text_real(scale, -1e30, 1e30, &value) || !(value < 0 || value > 0))
        return -1;
    header->c = kind[1] == 'F' ? 3 : 1;
    header->low_first = value < 0;
    header->bytes = at;
    return 0;
}

/* cells values of one row. */
static void pfm_row(const unsigned char *from, size_t cells, int low_first, float *out)
{
    for (size_t i = 0; i < cells; i++) {
        const uint32_t bits = low_first ? gy_le32(from + 4 * i) : gy_be32(from + 4 * i);
        memcpy(&out[i], &bits, sizeof bits);
    }
}

GY_INT int gy_pfm_decode(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                         int64_t max_pixels, struct gy_image *image, struct gy_error *err)
{
    struct pfm_header header;
    if (pfm_parse(bytes, count, &header))
        return GY_FAIL(err, GY_E_IMAGE, "%s: the PFM header is damaged or missing", name);
    GY_TRY(gy_image_check_size(header.h, header.w, max_pixels, name, err));
    const size_t row = (size_t)header.w * (size_t)header.c, h = (size_t)header.h, need = row * h * sizeof(float);
    const size_t there = count - header.bytes;
    if (there != need)
        return GY_FAIL(err, there < need ? GY_E_TRUNCATED : GY_E_IMAGE, "%s: %zu bytes of pixels, %" PRId64 " x %" PRId64
                       " x %" PRId32 " float pixels have %zu", name, there, header.w, header.h, header.c, need);
    float *values = gy_decoder_take(decoder, row * h, sizeof *values);
    if (!values)
        return GY_FAIL(err, GY_E_IMAGE, "%s: decoding it needs more memory than a decoder has", name);
    for (size_t y = 0; y < h; y++)
        pfm_row(bytes + header.bytes + (h - 1 - y) * row * sizeof(float), row, header.low_first, values + y * row);
    *image = (struct gy_image){NULL, (int32_t)header.h, (int32_t)header.w, header.c, values};
    return GY_OK;
}

GY_INT int gy_pfm_read_file(struct gy_decoder *decoder, const char *path, int64_t max_pixels, struct gy_image *image,
                            struct gy_error *err)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    GY_TRY(gy_image_load_file(decoder, path, path, &bytes, &count, err));
    return gy_pfm_decode(decoder, bytes, count, path, max_pixels, image, err);
}
