/* SPDX-License-Identifier: MIT */
/* image.c: decodes one image from bytes or from a file, for folder.c and engine/train/net_data.c.
 * The first bytes decide the format. Structure and size are checked before any decoder sees the
 * file. So a sentence of ours refuses a cut, oversized or foreign file, not luck. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/images/data_set.h"

#define IMAGE_FILE_BYTES ((int64_t)1 << 30)

enum image_kind { IMAGE_JPEG, IMAGE_PNG, IMAGE_BMP, IMAGE_PNM, IMAGE_FOREIGN };

struct image_magic {
    const char *bytes, *name;
    int count, kind;
};
/* Foreign ones are known only to be named. */
static const struct image_magic image_magics[] = {
    {"\xff\xd8\xff", "JPEG", 3, IMAGE_JPEG},      {"\x89PNG\r\n\x1a\n", "PNG", 8, IMAGE_PNG},
    {"BM", "BMP", 2, IMAGE_BMP},                  {"P2", "PNM", 2, IMAGE_PNM},
    {"P3", "PNM", 2, IMAGE_PNM},                  {"P5", "PNM", 2, IMAGE_PNM},
    {"P6", "PNM", 2, IMAGE_PNM},                  {"GIF8", "GIF", 4, IMAGE_FOREIGN},
    {"II*\0", "TIFF", 4, IMAGE_FOREIGN},          {"MM\0*", "TIFF", 4, IMAGE_FOREIGN},
    {"RIFF", "WebP", 4, IMAGE_FOREIGN},           {"8BPS", "Photoshop", 4, IMAGE_FOREIGN},
    {"P1", "PBM", 2, IMAGE_FOREIGN},              {"P4", "PBM", 2, IMAGE_FOREIGN},
    {"PF", "single PFM", 2, IMAGE_FOREIGN},       {"Pf", "single PFM", 2, IMAGE_FOREIGN},
    {"\0\0\0\x0cjP  ", "JPEG 2000", 8, IMAGE_FOREIGN},
};

static const struct image_magic *image_find_magic(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < GY_COUNT(image_magics); i++)
        if (count >= (size_t)image_magics[i].count &&
            memcmp(bytes, image_magics[i].bytes, (size_t)image_magics[i].count) == 0)
            return &image_magics[i];
    return NULL;
}

static int image_decode_checked(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                                const struct image_magic *magic, int32_t channels, int64_t max_pixels,
                                struct gy_image *image, struct gy_error *err)
{
    static int (*const checks[])(const unsigned char *, size_t, const char *, struct gy_image_head *,
                                 struct gy_error *) = {gy_jpeg_check, gy_png_check, gy_bmp_check};
    struct gy_image_head head = {0, 0, 0};
    GY_TRY(checks[magic->kind](bytes, count, name, &head, err));
    GY_TRY(gy_image_check_size(head.h, head.w, max_pixels, name, err));
    struct gy_image got;
    GY_TRY(gy_stb_decode(decoder, bytes, count, name, channels ? channels : head.gray ? 1 : 3, &got, err));
    if (got.h != head.h || got.w != head.w)
        return GY_FAIL(err, GY_E_IMAGE, "%s: its header says %" PRId64 " x %" PRId64 " pixels, its content %" PRId32
                       " x %" PRId32, name, head.w, head.h, got.w, got.h);
    *image = got;
    return GY_OK;
}

GY_INT int gy_image_decode_kept(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                                int32_t channels, int64_t max_pixels, struct gy_image *image, struct gy_error *err)
{
    if (channels != 0 && channels != 1 && channels != 3)
        return GY_FAIL(err, GY_E_ARG, "%s: %" PRId32 " channels asked for; 1, 3 or 0", name, channels);
    if (count == 0)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: the file is empty", name);
    const struct image_magic *magic = image_find_magic(bytes, count);
    if (!magic)
        return GY_FAIL(err, GY_E_IMAGE,
                       "%s: not an image: begins with %02x %02x %02x %02x, which is no JPEG, PNG, BMP or PNM", name,
                       bytes[0], count > 1 ? bytes[1] : 0, count > 2 ? bytes[2] : 0, count > 3 ? bytes[3] : 0);
    if (magic->kind == IMAGE_FOREIGN)
        return GY_FAIL(err, GY_E_IMAGE, "%s: %s images are not supported; convert it to JPEG, PNG, BMP or PNM", name,
                       magic->name);
    if (magic->kind == IMAGE_PNM)
        return gy_pnm_decode(decoder, bytes, count, name, channels, max_pixels, image, err);
    return image_decode_checked(decoder, bytes, count, name, magic, channels, max_pixels, image, err);
}

GY_INT int gy_image_decode(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                           int32_t channels, int64_t max_pixels, struct gy_image *image, struct gy_error *err)
{
    gy_decoder_reset(decoder);
    return gy_image_decode_kept(decoder, bytes, count, name, channels, max_pixels, image, err);
}

/* ---- files ---- */

static int image_read_bytes(int fd, unsigned char *bytes, size_t count, const char *name, struct gy_error *err)
{
    for (size_t at = 0; at < count;) {
        const ssize_t got = read(fd, bytes + at, count - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return GY_FAIL(err, GY_E_IO, "%s: cannot be read: %s", name, strerror(errno));
        if (got == 0)
            return GY_FAIL(err, GY_E_TRUNCATED, "%s: ended at byte %zu of %zu while it was read", name, at, count);
        at += (size_t)got;
    }
    return GY_OK;
}

/* The content of an open file, in the decoder's memory. */
static int image_load(int fd, struct gy_decoder *decoder, const char *name, unsigned char **bytes, size_t *count,
                      struct gy_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return GY_FAIL(err, GY_E_IO, "%s: cannot be read: %s", name, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return GY_FAIL(err, GY_E_IMAGE, "%s: not an image but a %s", name,
                       S_ISDIR(st.st_mode) ? "folder" : "special file");
    if (st.st_size == 0)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: the file is empty", name);
    if (st.st_size > IMAGE_FILE_BYTES)
        return GY_FAIL(err, GY_E_IMAGE, "%s: %" PRId64 " bytes, at most %" PRId64 " are read", name,
                       (int64_t)st.st_size, IMAGE_FILE_BYTES);
    unsigned char *content = gy_decoder_take(decoder, (size_t)st.st_size, 1);
    if (!content)
        return GY_FAIL(err, GY_E_IMAGE, "%s: %" PRId64 " bytes need more memory than a decoder has", name,
                       (int64_t)st.st_size);
    GY_TRY(image_read_bytes(fd, content, (size_t)st.st_size, name, err));
    *bytes = content;
    *count = (size_t)st.st_size;
    return GY_OK;
}

GY_INT int gy_image_load_file(struct gy_decoder *decoder, const char *path, const char *name, unsigned char **bytes,
                              size_t *count, struct gy_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us */
    if (fd < 0)
        return GY_FAIL(err, GY_E_IO, "%s: cannot be opened: %s", name, strerror(errno));
    gy_decoder_reset(decoder);
    const int status = image_load(fd, decoder, name, bytes, count, err);
    close(fd);
    return status;
}

GY_INT int gy_image_read_file(struct gy_decoder *decoder, const char *path, const char *name, int32_t channels,
                              int64_t max_pixels, struct gy_image *image, struct gy_error *err)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    GY_TRY(gy_image_load_file(decoder, path, name, &bytes, &count, err));
    return gy_image_decode_kept(decoder, bytes, count, name, channels, max_pixels, image, err);
}

GY_INT int gy_image_read(struct gy_decoder *decoder, const char *path, int32_t channels, int64_t max_pixels,
                         struct gy_image *image, struct gy_error *err)
{
    return gy_image_read_file(decoder, path, path, channels, max_pixels, image, err);
}
