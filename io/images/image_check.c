/* SPDX-License-Identifier: MIT */
/* image_check.c: walks the structure of JPEG, PNG and BMP files before image.c has them decoded:
 * size, end mark, lengths inside the file, PNG's checksums. It also limits an image's size.
 * stb_image accepts cut files in silence (it reads zeros behind the end); these walks do not. */
#include "engine/base/hash.h"
#include "io/images/data_set.h"

GY_INT int gy_image_check_size(int64_t h, int64_t w, int64_t max_pixels, const char *name, struct gy_error *err)
{
    if (h < 1 || w < 1)
        return GY_FAIL(err, GY_E_IMAGE, "%s: an image of %" PRId64 " x %" PRId64 " pixels", name, w, h);
    if (h > GY_IMAGE_SIDE || w > GY_IMAGE_SIDE)
        return GY_FAIL(err, GY_E_IMAGE, "%s: %" PRId64 " x %" PRId64 " pixels, a side is read up to %d", name, w, h,
                       GY_IMAGE_SIDE);
    if (h * w > (max_pixels ? max_pixels : GY_IMAGE_PIXELS))
        return GY_FAIL(err, GY_E_IMAGE, "%s: %" PRId64 " x %" PRId64 " pixels, at most %" PRId64 " in all are read",
                       name, w, h, max_pixels ? max_pixels : GY_IMAGE_PIXELS);
    return GY_OK;
}

/* ---- JPEG (ITU-T T.81): segments of FF, a mark, a length; FF in data precedes 00 or RSTn ---- */

enum jpeg_mark {
    JPEG_SOF0 = 0xc0,
    JPEG_SOF2 = 0xc2,
    JPEG_SOF15 = 0xcf,
    JPEG_DHT = 0xc4,
    JPEG_JPG = 0xc8,
    JPEG_DAC = 0xcc,
    JPEG_RST0 = 0xd0,
    JPEG_RST7 = 0xd7,
    JPEG_SOI = 0xd8,
    JPEG_EOI = 0xd9,
    JPEG_SOS = 0xda
};

static int jpeg_cut(const char *name, struct gy_error *err)
{
    return GY_FAIL(err, GY_E_TRUNCATED, "%s: the JPEG data end before their end mark: the file is cut", name);
}

static int jpeg_is_frame(int mark)
{
    return mark >= JPEG_SOF0 && mark <= JPEG_SOF15 && mark != JPEG_DHT && mark != JPEG_JPG && mark != JPEG_DAC;
}

static int jpeg_read_frame(const unsigned char *segment, size_t length, int mark, const char *name,
                           struct gy_image_head *head, struct gy_error *err)
{
    if (mark > JPEG_SOF2)
        return GY_FAIL(err, GY_E_IMAGE, "%s: JPEG of kind SOF%d (lossless, hierarchical or "
                       "arithmetic) is not supported", name, mark - JPEG_SOF0);
    if (length < 8)
        return GY_FAIL(err, GY_E_IMAGE, "%s: a JPEG frame header of %zu bytes", name, length);
    if (segment[2] != 8)
        return GY_FAIL(err, GY_E_IMAGE, "%s: JPEG with %d bits a sample, 8 are supported", name, segment[2]);
    head->h = segment[3] << 8 | segment[4];
    head->w = segment[5] << 8 | segment[6];
    head->gray = segment[7] == 1;
    return GY_OK;
}

/* Huffman tables: each has a number, 16 counts of codes by length, and as many values. stb_image
 * 2.27 writes beyond its tables when there are more than 256 codes. segment begins with its
 * length. */
static int jpeg_check_tables(const unsigned char *segment, size_t length, const char *name, struct gy_error *err)
{
    for (size_t at = 2; at < length;) {
        size_t codes = 0;
        for (size_t i = 1; i <= 16 && at + i < length; i++)
            codes += segment[at + i];
        if (codes > 256 || codes + 17 > length - at)
            return GY_FAIL(err, GY_E_IMAGE, "%s: a Huffman table of %zu codes in a JPEG segment of %zu bytes", name,
                           codes, length);
        at += 17 + codes;
    }
    return GY_OK;
}

/* Offset of the next mark's FF in entropy-coded data, or count. */
static size_t jpeg_skip_scan(const unsigned char *bytes, size_t at, size_t count)
{
    while (at + 1 < count) {
        const unsigned char *ff = memchr(bytes + at, 0xff, count - 1 - at);
        if (!ff)
            return count;
        at = (size_t)(ff - bytes);
        const int mark = bytes[at + 1];
        if (mark != 0 && mark != 0xff && !(mark >= JPEG_RST0 && mark <= JPEG_RST7))
            return at;
        at += mark == 0xff ? 1 : 2;
    }
    return count;
}

GY_INT int gy_jpeg_check(const unsigned char *bytes, size_t count, const char *name, struct gy_image_head *head,
                         struct gy_error *err)
{
    int frames = 0, scans = 0;
    for (size_t at = 2; at + 1 < count;) {
        if (bytes[at] != 0xff) { /* padding behind a segment: every decoder passes over it */
            const unsigned char *ff = memchr(bytes + at, 0xff, count - at);
            at = ff ? (size_t)(ff - bytes) : count;
            continue;
        }
        const int mark = bytes[at + 1];
        if (mark == JPEG_EOI && frames && scans)
            return GY_OK;
        if (mark == JPEG_EOI)
            return GY_FAIL(err, GY_E_IMAGE, "%s: a JPEG file without an image", name);
        if (mark == 0xff || mark == JPEG_SOI || mark == 1 || (mark >= JPEG_RST0 && mark <= JPEG_RST7)) {
            at += mark == 0xff ? 1 : 2; /* fill bytes, marks without content */
            continue;
        }
        if (at + 4 > count)
            break;
        const size_t length = (size_t)(bytes[at + 2] << 8 | bytes[at + 3]);
        if (length < 2 || length > count - at - 2)
            return jpeg_cut(name, err);
        if (mark == JPEG_DHT)
            GY_TRY(jpeg_check_tables(bytes + at + 2, length, name, err));
        if (jpeg_is_frame(mark)) {
            if (frames++)
                return GY_FAIL(err, GY_E_IMAGE, "%s: a JPEG file with two frame headers", name);
            GY_TRY(jpeg_read_frame(bytes + at + 2, length, mark, name, head, err));
        }
        at += 2 + length;
        if (mark == JPEG_SOS) {
            scans++;
            at = jpeg_skip_scan(bytes, at, count);
        }
    }
    return jpeg_cut(name, err);
}

/* ---- PNG (ISO 15948): chunks of length, type, content, CRC-32 ---- */

#define PNG_BEGIN 8
#define PNG_IHDR_BYTES 13

static int png_check_crc(const unsigned char *chunk, size_t length, const char *name, struct gy_error *err)
{
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    if (gy_crc32(0, chunk + 4, length + 4) != gy_be32(chunk + 8 + length))
        return GY_FAIL(err, GY_E_HASH, "%s: the checksum of a PNG chunk %.4s differs", name, (const char *)chunk + 4);
#else
    (void)chunk, (void)length, (void)name, (void)err;
#endif
    return GY_OK;
}

static int png_read_head(const unsigned char *chunk, size_t length, const char *name, struct gy_image_head *head,
                         struct gy_error *err)
{
    if (length != PNG_IHDR_BYTES || memcmp(chunk + 4, "IHDR", 4) != 0)
        return GY_FAIL(err, GY_E_IMAGE, "%s: a PNG file that does not begin with its header", name);
    head->w = gy_be32(chunk + 8);
    head->h = gy_be32(chunk + 12);
    head->gray = chunk[17] == 0 || chunk[17] == 4; /* colour types gray, gray with alpha */
    return GY_OK;
}

GY_INT int gy_png_check(const unsigned char *bytes, size_t count, const char *name, struct gy_image_head *head,
                        struct gy_error *err)
{
    for (size_t at = PNG_BEGIN; count - at >= 12;) {
        const unsigned char *chunk = bytes + at;
        const size_t length = gy_be32(chunk);
        if (length > count - at - 12)
            break;
        if (at == PNG_BEGIN)
            GY_TRY(png_read_head(chunk, length, name, head, err));
        GY_TRY(png_check_crc(chunk, length, name, err));
        if (memcmp(chunk + 4, "IEND", 4) == 0)
            return GY_OK;
        at += 12 + length;
    }
    return GY_FAIL(err, GY_E_TRUNCATED, "%s: the PNG data end before their end chunk: the file is cut", name);
}

/* ---- BMP: a file header (14 bytes), one of 12 or >= 40, a palette, rows padded to 4 bytes ---- */

#define BMP_FILE_HEAD 14

/* Up to 8 bits a pixel are numbers of colours. stb_image 2.27 takes a colour that the palette lacks
 * from its stack, and miscounts the palette behind a header of 12 bytes. */
static int bmp_check_colours(const unsigned char *bytes, const struct gy_image_head *head, int64_t bits,
                             const char *name, struct gy_error *err)
{
    const int64_t offset = gy_le32(bytes + 10), head_bytes = gy_le32(bytes + 14);
    const int64_t colours = (offset - BMP_FILE_HEAD - head_bytes) / 4;
    const int64_t row_bytes = (head->w * bits + 31) / 32 * 4;
    if (head_bytes == 12 || colours < 1)
        return GY_FAIL(err, GY_E_IMAGE, "%s: the palette of this BMP cannot be read", name);
    if (gy_le32(bytes + 30) != 0) /* compressed: the decoder refuses it */
        return GY_OK;
    for (int64_t y = 0; y < head->h; y++)
        for (int64_t x = 0; x < head->w; x++) {
            const int byte = bytes[offset + y * row_bytes + x * bits / 8];
            const int colour = byte >> (8 - bits - x * bits % 8) & ((1 << bits) - 1);
            if (colour >= colours)
                return GY_FAIL(err, GY_E_IMAGE, "%s: a pixel of colour %d, the BMP's palette has %" PRId64,
                               name, colour, colours);
        }
    return GY_OK;
}

GY_INT int gy_bmp_check(const unsigned char *bytes, size_t count, const char *name, struct gy_image_head *head,
                        struct gy_error *err)
{
    if (count < 30)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: %zu bytes are too few for a BMP file", name, count);
    const uint32_t offset = gy_le32(bytes + 10), head_bytes = gy_le32(bytes + 14);
    const int old = head_bytes == 12;
    const int64_t w = old ? bytes[18] | bytes[19] << 8 : (int32_t)gy_le32(bytes + 18);
    const int64_t h = old ? bytes[20] | bytes[21] << 8 : (int32_t)gy_le32(bytes + 22);
    const int64_t bits = old ? bytes[24] | bytes[25] << 8 : bytes[28] | bytes[29] << 8;
    if (!old && (head_bytes < 40 || head_bytes > 124))
        return GY_FAIL(err, GY_E_IMAGE, "%s: a BMP header of %" PRIu32 " bytes is not supported", name, head_bytes);
    if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
        return GY_FAIL(err, GY_E_IMAGE, "%s: BMP with %" PRId64 " bits a pixel", name, bits);
    head->h = h < 0 ? -h : h;
    head->w = w;
    head->gray = 0;
    GY_TRY(gy_image_check_size(head->h, head->w, INT64_MAX, name, err));
    const uint64_t need = (uint64_t)offset + (uint64_t)((w * bits + 31) / 32 * 4 * head->h);
    if (need > count)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: %zu bytes of a BMP file of %" PRIu64, name, count, need);
    return bits <= 8 ? bmp_check_colours(bytes, head, bits, name, err) : GY_OK;
}
