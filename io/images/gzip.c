/* SPDX-License-Identifier: MIT */
/* gzip.c: reads a .gz file (RFC 1952) of one member whole, for idx.c; text has rows/rows_inflate.c.
 * The trailer's size says how much memory the content takes. It is believed only as far as deflate
 * could reach it; then length and CRC-32 are checked. */
#include "engine/base/hash.h"
#include "io/images/data_set.h"

#define GZIP_HEAD 10
#define GZIP_TAIL 8
#define GZIP_RATIO 1032 /* deflate's best: 258 bytes in 2 bits */

enum gzip_flags { GZIP_CRC = 2, GZIP_EXTRA = 4, GZIP_NAME = 8, GZIP_COMMENT = 16, GZIP_RESERVED = 224 };

/* Offset behind a zero-terminated field at `at`; 0 when it does not end. */
static size_t gzip_skip_text(const unsigned char *bytes, size_t at, size_t end)
{
    const unsigned char *nul = at < end ? memchr(bytes + at, 0, end - at) : NULL;
    return nul ? (size_t)(nul - bytes) + 1 : 0;
}

/* Offset of the deflate data, or 0 when the header is cut. end: offset of the trailer. */
static size_t gzip_skip_head(const unsigned char *bytes, size_t end)
{
    const int flags = bytes[3];
    size_t at = GZIP_HEAD;
    if (flags & GZIP_EXTRA) {
        if (at + 2 > end)
            return 0;
        at += 2 + (size_t)(bytes[at] | bytes[at + 1] << 8);
    }
    if ((flags & GZIP_NAME) && (at = gzip_skip_text(bytes, at, end)) == 0)
        return 0;
    if ((flags & GZIP_COMMENT) && (at = gzip_skip_text(bytes, at, end)) == 0)
        return 0;
    if (flags & GZIP_CRC)
        at += 2;
    return at < end ? at : 0;
}

static int gzip_check_head(const unsigned char *bytes, size_t count, const char *name, size_t *at, struct gy_error *err)
{
    if (count < GZIP_HEAD + GZIP_TAIL)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: %zu bytes are too few for a .gz file", name, count);
    if (bytes[0] != 0x1f || bytes[1] != 0x8b || bytes[2] != 8 || (bytes[3] & GZIP_RESERVED))
        return GY_FAIL(err, GY_E_FORMAT, "%s: not a .gz file: begins with %02x %02x %02x %02x", name, bytes[0],
                       bytes[1], bytes[2], bytes[3]);
    *at = gzip_skip_head(bytes, count - GZIP_TAIL);
    if (*at == 0)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: ends inside the .gz header", name);
    return GY_OK;
}

GY_INT int gy_gzip_read(const struct gy_alloc *alloc, const unsigned char *bytes, size_t count, const char *name,
                        size_t limit, unsigned char **out, size_t *out_bytes, struct gy_error *err)
{
    size_t at = 0;
    GY_TRY(gzip_check_head(bytes, count, name, &at, err));
    const size_t packed = count - GZIP_TAIL - at, size = gy_le32(bytes + count - 4);
    if (size == 0 || size / GZIP_RATIO > packed)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: damaged or cut: %zu compressed bytes cannot give "
                       "the %zu that it states", name, packed, size);
    if (size > limit)
        return GY_FAIL(err, GY_E_FORMAT, "%s: unpacks to %zu bytes, at most %zu are read", name, size, limit);
    unsigned char *content = gy_alloc_take(alloc, size, 1);
    if (!content)
        return GY_NOMEM(err, name, size);
    int status = gy_stb_inflate(bytes + at, packed + GZIP_TAIL, content, size, name, err);
    if (status == GY_OK && gy_crc32(0, content, size) != gy_le32(bytes + count - 8))
        status = GY_FAIL(err, GY_E_HASH, "%s: the checksum of the unpacked content differs", name);
    if (status != GY_OK) {
        gy_alloc_free(alloc, content, size);
        return status;
    }
    *out = content;
    *out_bytes = size;
    return GY_OK;
}
