/* SPDX-License-Identifier: MIT */
/* pnm.c: Netpbm's gray and colour maps, for image.c: P5 and P6 (binary), P2 and P3 (numbers as
 * text), values up to 65535, scaled to 0..255. The parser is our own: stb_image's was a source of
 * faults. */
#include "io/images/data_set.h"

struct pnm_reader {
    const unsigned char *at, *end;
};

static int pnm_is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next number in [0, limit], after spaces and comments; -1 when there is none. */
static int32_t pnm_number(struct pnm_reader *r, int32_t limit)
{
    while (r->at < r->end && (pnm_is_space(*r->at) || *r->at == '#')) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        else
            r->at++;
    }
    if (r->at >= r->end || *r->at < '0' || *r->at > '9')
        return -1;
    int32_t value = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        value = value * 10 + (*r->at - '0');
        if (value > limit)
            return -1;
    }
    return value;
}

static uint8_t pnm_scale(int32_t value, int32_t top) { return (uint8_t)((value * 255 + top / 2) / top); }

/* cells values of a binary file: 1 byte each, or 2 with the high one first. */
static int pnm_read_binary(struct pnm_reader *r, int64_t cells, int32_t top, uint8_t *out)
{
    const int64_t wide = top > 255 ? 2 : 1;
    if (r->end - r->at < 1 || r->end - r->at - 1 < cells * wide)
        return -1;
    r->at++; /* the one space behind the header */
    if (top == 255) {
        memcpy(out, r->at, (size_t)cells);
        return 0;
    }
    for (int64_t i = 0; i < cells; i++) {
        const int32_t value = wide == 2 ? r->at[2 * i] << 8 | r->at[2 * i + 1] : r->at[i];
        out[i] = pnm_scale(value > top ? top : value, top);
    }
    return 0;
}

static int pnm_read_text(struct pnm_reader *r, int64_t cells, int32_t top, uint8_t *out)
{
    for (int64_t i = 0; i < cells; i++) {
        const int32_t value = pnm_number(r, top);
        if (value < 0)
            return -1;
        out[i] = pnm_scale(value, top);
    }
    return 0;
}

/* Gray to colour or colour to gray (the weights of stb_image), in a new piece. */
static const uint8_t *pnm_convert(struct gy_decoder *decoder, const uint8_t *in, int64_t n, int32_t to)
{
    uint8_t *out = gy_decoder_take(decoder, (size_t)n, (size_t)to);
    for (int64_t i = 0; out && i < n; i++) {
        if (to == 3)
            out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = in[i];
        else
            out[i] = (uint8_t)((in[3 * i] * 77 + in[3 * i + 1] * 150 + in[3 * i + 2] * 29) >> 8);
    }
    return out;
}

GY_INT int gy_pnm_decode(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                         int32_t channels, int64_t max_pixels, struct gy_image *image, struct gy_error *err)
{
    struct pnm_reader r = {bytes + 2, bytes + count};
    const int32_t w = pnm_number(&r, 1 << 24), h = pnm_number(&r, 1 << 24), top = pnm_number(&r, 65535);
    if (w < 0 || h < 0 || top < 1)
        return GY_FAIL(err, GY_E_IMAGE, "%s: the PNM header is damaged", name);
    GY_TRY(gy_image_check_size(h, w, max_pixels, name, err));
    const int32_t c = bytes[1] == '3' || bytes[1] == '6' ? 3 : 1;
    const int64_t cells = (int64_t)h * w * c;
    if (cells > r.end - r.at)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: %zu bytes are too few for %" PRId32 " x %" PRId32 " pixels", name,
                       count, w, h);
    uint8_t *pixels = gy_decoder_take(decoder, (size_t)cells, 1);
    if (!pixels)
        return GY_FAIL(err, GY_E_IMAGE, "%s: decoding it needs more memory than a decoder has", name);
    if ((bytes[1] >= '5' ? pnm_read_binary : pnm_read_text)(&r, cells, top, pixels))
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: the PNM pixels are cut or damaged", name);
    const uint8_t *given = channels && channels != c ? pnm_convert(decoder, pixels, (int64_t)h * w, channels) : pixels;
    if (!given)
        return GY_FAIL(err, GY_E_IMAGE, "%s: decoding it needs more memory than a decoder has", name);
    *image = (struct gy_image){given, h, w, channels ? channels : c, NULL};
    return GY_OK;
}
