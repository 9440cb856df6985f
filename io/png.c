/* SPDX-License-Identifier: MIT */
/* png.c: a PNG writer. Rows are stored without compression (deflate's stored blocks, one for each
 * row). So the writer is a page long and needs memory for a row alone. */
#include "io/png.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "io/byte_order.h"

#define PNG_ADLER 65521u

struct png_out {
    struct gy_outfile file;
    uint32_t crc;            /* of the present chunk */
    uint32_t low, high;      /* Adler-32 of the rows */
};

static int png_put(struct png_out *out, const void *bytes, size_t count, struct gy_error *err)
{
    out->crc = gy_crc32(out->crc, bytes, count);
    return gy_outfile_write(&out->file, bytes, count, err);
}

static int png_begin_chunk(struct png_out *out, const char *type, size_t bytes, struct gy_error *err)
{
    unsigned char length[4];
    gy_put_be32(length, (uint32_t)bytes);
    GY_TRY(gy_outfile_write(&out->file, length, 4, err));
    out->crc = 0;
    return png_put(out, type, 4, err);
}

static int png_end_chunk(struct png_out *out, struct gy_error *err)
{
    unsigned char crc[4];
    gy_put_be32(crc, out->crc);
    return gy_outfile_write(&out->file, crc, 4, err);
}

static void png_add_adler(struct png_out *out, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out->low = (out->low + bytes[i]) % PNG_ADLER;
        out->high = (out->high + out->low) % PNG_ADLER;
    }
}

/* A stored block of one row: 5 bytes of block header, the filter byte 0, the pixels. */
static int png_put_row(struct png_out *out, const uint8_t *row, size_t bytes, int last, struct gy_error *err)
{
    const unsigned length = (unsigned)bytes + 1;
    const unsigned char head[6] = {(unsigned char)last,    (unsigned char)length,         (unsigned char)(length >> 8),
                                   (unsigned char)~length, (unsigned char)(~length >> 8), 0};
    png_add_adler(out, head + 5, 1);
    png_add_adler(out, row, bytes);
    GY_TRY(png_put(out, head, sizeof head, err));
    return png_put(out, row, bytes, err);
}

static int png_write_all(struct png_out *out, const uint8_t *pixels, int32_t h, int32_t w, int32_t c,
                         struct gy_error *err)
{
    const size_t row = (size_t)w * (size_t)c;
    unsigned char head[13] = {0}, adler[4];
    gy_put_be32(head, (uint32_t)w);
    gy_put_be32(head + 4, (uint32_t)h);
    head[8] = 8;
    head[9] = c == 3 ? 2 : 0;
    GY_TRY(gy_outfile_write(&out->file, "\x89PNG\r\n\x1a\n", 8, err));
    GY_TRY(png_begin_chunk(out, "IHDR", sizeof head, err));
    GY_TRY(png_put(out, head, sizeof head, err));
    GY_TRY(png_end_chunk(out, err));
    GY_TRY(png_begin_chunk(out, "IDAT", 2 + (row + 6) * (size_t)h + 4, err));
    GY_TRY(png_put(out, "\x78\x01", 2, err));
    for (int32_t y = 0; y < h; y++)
        GY_TRY(png_put_row(out, pixels + (size_t)y * row, row, y == h - 1, err));
    gy_put_be32(adler, out->high << 16 | out->low);
    GY_TRY(png_put(out, adler, 4, err));
    GY_TRY(png_end_chunk(out, err));
    GY_TRY(png_begin_chunk(out, "IEND", 0, err));
    return png_end_chunk(out, err);
}

GY_INT int gy_image_write_png(const char *path, const uint8_t *pixels, int32_t h, int32_t w, int32_t c,
                              const struct gy_alloc *alloc, struct gy_error *err)
{
    (void)alloc;
    if (h < 1 || w < 1 || (c != 1 && c != 3) || (int64_t)w * c > 65534 || ((int64_t)w * c + 6) * h > INT32_MAX - 64)
        return GY_FAIL(err, GY_E_ARG, "%s: a PNG of %" PRId32 " x %" PRId32 " x %" PRId32 " cannot be written", path, h,
                       w, c);
    struct png_out out;
    memset(&out, 0, sizeof out);
    out.low = 1;
    GY_TRY(gy_outfile_open(&out.file, path, err));
    int status = png_write_all(&out, pixels, h, w, c, err);
    if (status == GY_OK)
        status = gy_outfile_commit(&out.file, err);
    else
        gy_outfile_abandon(&out.file);
    return status;
}
