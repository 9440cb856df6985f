/* SPDX-License-Identifier: MIT */
/* t_data.c: data sets. Every format against files made here with known pixels, every refusal with
 * its sentence, packing and unpacking, resizing and jitter against worked values. */
#include "engine/base/hash.h"
#include "io/images/augment.h"
#include "io/images/data_set.h"
#include "io/images/loader.h"
#include "io/images/resample.h"
#include "io/png.h"
#include "engine/base/rng.h"
#include "tests/data_files.h"

static struct gy_alloc data_alloc;
static struct gy_decoder *data_decoder;
static struct gy_error data_err;

/* status as expected and the sentence has the word. */
#define DATA_REFUSED(call, code, word)                                                                                 \
    do {                                                                                                               \
        data_err.text[0] = 0;                                                                                          \
        const int got_ = (call);                                                                                       \
        T_CHECK_MSG(got_ == (code) && strstr(data_err.text, (word)), "%d \"%s\" instead of %d with \"%s\"", got_,      \
                    data_err.text, (code), (word));                                                                    \
    } while (0)

static int data_open_path(const char *path, const char *split)
{
    struct gy_data *data;
    const int status = df_data(&data, path, split, 0, NULL, &data_err);
    gy_data_close(data);
    return status;
}

static int data_decode(const void *bytes, size_t count, struct gy_image *image)
{
    return gy_image_decode(data_decoder, bytes, count, "x.img", 0, 0, image, &data_err);
}

/* All pixels of sample index as df_pixel says. */
static int data_same(struct gy_data *data, int64_t index, int image_number, int h, int w, int c)
{
    struct gy_image image;
    if (gy_data_read(data, index, data_decoder, &image, &data_err) || image.h != h || image.w != w || image.c != c)
        return 0;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int k = 0; k < c; k++)
                if (image.pixels[(y * w + x) * c + k] != df_pixel(image_number, y, x, k))
                    return 0;
    return 1;
}

/* ---- IDX ---- */

static void test_idx(void)
{
    struct gy_data *data;
    int32_t h, w;
    char name[64];
    df_folder("idx");
    df_write_idx("idx/train", 13, 5, 7, 4);
    df_write_idx("idx/t10k", 3, 5, 7, 2);
    T_CHECK(df_data(&data, df_path("idx"), "train", 0, NULL, &data_err) == GY_OK);
    gy_data_side(data, &h, &w);
    T_CHECK(gy_data_count(data) == 13 && gy_data_classes(data) == 4 && h == 5 && w == 7 && gy_data_channels(data) == 1);
    T_CHECK(strcmp(gy_data_format(data), "idx") == 0 && strcmp(gy_data_class_name(data, 3), "3") == 0);
    T_CHECK(!gy_data_class_name(data, 4) && !gy_data_class_name(data, -1));
    T_CHECK(gy_data_label(data, 6) == 2 && gy_data_label(data, 13) == -1);
    T_CHECK(data_same(data, 0, 0, 5, 7, 1) && data_same(data, 12, 12, 5, 7, 1));
    gy_data_sample_name(data, 12, name, sizeof name);
    T_CHECK_MSG(strcmp(name, "train-images-idx3-ubyte[12]") == 0, "%s", name);
    struct gy_image image;
    DATA_REFUSED(gy_data_read(data, 13, data_decoder, &image, &data_err), GY_E_ARG, "13");
    gy_data_close(data);
    T_CHECK(df_data(&data, df_path("idx"), "test", 0, NULL, &data_err) == GY_OK && gy_data_count(data) == 3);
    gy_data_close(data);
    T_CHECK(df_data(&data, df_path("idx/t10k"), "", 0, NULL, &data_err) == GY_OK && gy_data_count(data) == 3);
    gy_data_close(data);
    T_CHECK(df_data(&data, df_path("idx/train-images-idx3-ubyte"), "", 0, NULL, &data_err) == GY_OK);
    gy_data_close(data);
}

static void test_idx_refused(void)
{
    unsigned char head[64];
    struct gy_idx_view view;
    memset(head, 0, sizeof head);
    head[2] = 8, head[3] = 3, head[7] = 2, head[11] = 3, head[15] = 4;
    T_CHECK(gy_idx_parse(head, 16 + 24, "i", &view, &data_err) == GY_OK && view.shape[0] == 2 && view.shape[2] == 4);
    DATA_REFUSED(gy_idx_parse(head, 16 + 23, "i", &view, &data_err), GY_E_TRUNCATED, "23 bytes");
    DATA_REFUSED(gy_idx_parse(head, 16 + 25, "i", &view, &data_err), GY_E_FORMAT, "25 bytes");
    DATA_REFUSED(gy_idx_parse(head, 3, "i", &view, &data_err), GY_E_TRUNCATED, "too few");
    DATA_REFUSED(gy_idx_parse(head, 15, "i", &view, &data_err), GY_E_TRUNCATED, "header");
    head[2] = 9;
    DATA_REFUSED(gy_idx_parse(head, 40, "i", &view, &data_err), GY_E_UNSUPPORTED, "0x09");
    head[2] = 8, head[3] = 0;
    DATA_REFUSED(gy_idx_parse(head, 40, "i", &view, &data_err), GY_E_FORMAT, "not an IDX");
    head[3] = 4;
    memset(head + 4, 0xff, 16);
    DATA_REFUSED(gy_idx_parse(head, 40, "i", &view, &data_err), GY_E_FORMAT, "dimension");
    df_folder("bad"), df_write("bad/text", "some", 4);
    df_write_idx("bad/train", 4, 2, 2, 2), df_write_idx("bad/other", 5, 2, 2, 2);
    DATA_REFUSED(data_open_path(df_path("bad/text"), "train"), GY_E_FORMAT, "no data set found");
    rename(df_path("bad/other-labels-idx1-ubyte"), df_path("bad/train-labels-idx1-ubyte"));
    DATA_REFUSED(data_open_path(df_path("bad"), "train"), GY_E_MISMATCH, "5 labels for 4 images");
    unlink(df_path("bad/train-labels-idx1-ubyte"));
    DATA_REFUSED(data_open_path(df_path("bad"), "train"), GY_E_IO, "labels file");
    DATA_REFUSED(data_open_path(df_path("nowhere"), ""), GY_E_IO, "no such");
    DATA_REFUSED(data_open_path("", ""), GY_E_ARG, "path");
}

/* A .gz file with one stored block, with a name field. */
static size_t data_gzip(unsigned char *out, const unsigned char *bytes, size_t count)
{
    static const unsigned char head[] = {0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3, 'a', 0};
    memcpy(out, head, sizeof head);
    unsigned char *at = out + sizeof head;
    *at++ = 1;
    *at++ = (unsigned char)count, *at++ = (unsigned char)(count >> 8);
    *at++ = (unsigned char)~count, *at++ = (unsigned char)(~count >> 8);
    memcpy(at, bytes, count);
    at += count;
    gy_put_le32(at, gy_crc32(0, bytes, count));
    gy_put_le32(at + 4, (uint32_t)count);
    return (size_t)(at + 8 - out);
}

static void test_gzip(void)
{
    unsigned char plain[300], packed[400], *out = NULL;
    size_t bytes = 0;
    for (int i = 0; i < 300; i++)
        plain[i] = (unsigned char)(i * i);
    const size_t n = data_gzip(packed, plain, sizeof plain);
    T_CHECK(gy_gzip_read(&data_alloc, packed, n, "z.gz", 1 << 20, &out, &bytes, &data_err) == GY_OK);
    T_CHECK(bytes == 300 && out && memcmp(out, plain, 300) == 0);
    gy_alloc_free(&data_alloc, out, bytes);
    DATA_REFUSED(gy_gzip_read(&data_alloc, packed, n, "z.gz", 299, &out, &bytes, &data_err), GY_E_FORMAT, "300");
    DATA_REFUSED(gy_gzip_read(&data_alloc, packed, 17, "z.gz", 999, &out, &bytes, &data_err), GY_E_TRUNCATED,
                 "too few");
    packed[n - 8] ^= 1;
    DATA_REFUSED(gy_gzip_read(&data_alloc, packed, n, "z.gz", 999, &out, &bytes, &data_err), GY_E_HASH, "checksum");
    packed[n - 8] ^= 1;
    packed[n - 1] = 0x7f; /* claims two gigabytes */
    DATA_REFUSED(gy_gzip_read(&data_alloc, packed, n, "z.gz", SIZE_MAX, &out, &bytes, &data_err), GY_E_TRUNCATED,
                 "cannot give");
    packed[n - 1] = 0;
    packed[0] = 0;
    DATA_REFUSED(gy_gzip_read(&data_alloc, packed, n, "z.gz", 999, &out, &bytes, &data_err), GY_E_FORMAT, "not a .gz");
}

/* ---- images ---- */

static void test_png(void)
{
    static uint8_t pixels[9 * 11 * 3];
    struct gy_image image;
    char *bytes;
    size_t count;
    for (int c = 1; c <= 3; c += 2) {
        df_fill(pixels, 3, 9, 11, c);
        T_CHECK(gy_image_write_png(df_path("a.png"), pixels, 9, 11, c, &data_alloc, &data_err) == GY_OK);
        T_CHECK(gy_image_read(data_decoder, df_path("a.png"), 0, 0, &image, &data_err) == GY_OK);
        T_CHECK(image.h == 9 && image.w == 11 && image.c == c &&
                memcmp(image.pixels, pixels, (size_t)(9 * 11 * c)) == 0);
    }
    T_CHECK(gy_file_read(&data_alloc, df_path("a.png"), 1 << 20, &bytes, &count, &data_err) == GY_OK);
    T_CHECK(gy_image_decode(data_decoder, (unsigned char *)bytes, count, "a", 1, 0, &image, &data_err) == GY_OK &&
            image.c == 1);
    DATA_REFUSED(gy_image_decode(data_decoder, (unsigned char *)bytes, count, "a", 2, 0, &image, &data_err), GY_E_ARG,
                 "2 channels");
    DATA_REFUSED(gy_image_decode(data_decoder, (unsigned char *)bytes, count, "a", 0, 98, &image, &data_err),
                 GY_E_IMAGE, "at most 98");
    int cut = 0;
    for (size_t n = 8; n < count; n++)
        cut += data_decode(bytes, n, &image) == GY_E_TRUNCATED;
    T_CHECK_MSG(cut == (int)count - 8, "%d of %d cuts are seen", cut, (int)count - 8);
    bytes[60] ^= 1;
    DATA_REFUSED(data_decode(bytes, count, &image), GY_E_HASH, "IDAT");
    gy_alloc_free(&data_alloc, bytes, count + 1);
    DATA_REFUSED(gy_image_write_png(df_path("no/a.png"), pixels, 9, 11, 3, &data_alloc, &data_err), GY_E_IO, "no");
    DATA_REFUSED(gy_image_write_png(df_path("b.png"), pixels, 9, 0, 3, &data_alloc, &data_err), GY_E_ARG, "cannot");
}

/* The smallest gray JPEG, 8x8, all 128: one block whose DC difference is zero. */
static const unsigned char data_jpeg[] = {
    0xff, 0xd8,
    0xff, 0xdb, 0, 67, 0,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0,
    0xff, 0xc4, 0, 20, 0x00, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0xff, 0xda, 0, 8, 1, 1, 0x00, 0, 63, 0,
    0x3f,
    0xff, 0xd9};

static void test_jpeg(void)
{
    struct gy_image image;
    unsigned char bytes[sizeof data_jpeg];
    T_CHECK_MSG(data_decode(data_jpeg, sizeof data_jpeg, &image) == GY_OK, "%s", data_err.text);
    T_CHECK(image.h == 8 && image.w == 8 && image.c == 1 && image.pixels[0] == 128 && image.pixels[63] == 128);
    int cut = 0;
    for (size_t n = 3; n < sizeof data_jpeg; n++)
        cut += data_decode(data_jpeg, n, &image) == GY_E_TRUNCATED;
    T_CHECK_MSG(cut == (int)sizeof data_jpeg - 3, "%d of %d cuts are seen", cut, (int)sizeof data_jpeg - 3);
    memcpy(bytes, data_jpeg, sizeof bytes);
    bytes[72] = 0xc9; /* arithmetic coding */
    DATA_REFUSED(data_decode(bytes, sizeof bytes, &image), GY_E_IMAGE, "SOF9");
    bytes[72] = 0xc0, bytes[75] = 12;
    DATA_REFUSED(data_decode(bytes, sizeof bytes, &image), GY_E_IMAGE, "12 bits");
    bytes[75] = 8, bytes[76] = 0xff;
    DATA_REFUSED(data_decode(bytes, sizeof bytes, &image), GY_E_IMAGE, "up to 16384");
    bytes[76] = 0, bytes[77] = 0;
    DATA_REFUSED(data_decode(bytes, sizeof bytes, &image), GY_E_IMAGE, "8 x 0");
    bytes[77] = 8, bytes[89] = 200; /* more codes than the segment has values */
    DATA_REFUSED(data_decode(bytes, sizeof bytes, &image), GY_E_IMAGE, "Huffman table of 200 codes");
}

static size_t data_bmp(unsigned char *out, int h, int w)
{
    const int row = (w * 3 + 3) / 4 * 4;
    memset(out, 0, 54 + (size_t)(row * h));
    memcpy(out, "BM", 2);
    gy_put_le32(out + 2, (uint32_t)(54 + row * h));
    gy_put_le32(out + 10, 54);
    gy_put_le32(out + 14, 40);
    gy_put_le32(out + 18, (uint32_t)w);
    gy_put_le32(out + 22, (uint32_t)h);
    out[26] = 1, out[28] = 24;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < 3; c++)
                out[54 + (h - 1 - y) * row + 3 * x + c] = df_pixel(2, y, x, 2 - c);
    return 54 + (size_t)(row * h);
}

static void test_bmp(void)
{
    unsigned char bytes[512];
    struct gy_image image;
    const size_t count = data_bmp(bytes, 4, 5);
    T_CHECK_MSG(data_decode(bytes, count, &image) == GY_OK, "%s", data_err.text);
    int same = image.h == 4 && image.w == 5 && image.c == 3;
    for (int i = 0; same && i < 60; i++)
        same = image.pixels[i] == df_pixel(2, i / 15, i / 3 % 5, i % 3);
    T_CHECK(same);
    DATA_REFUSED(data_decode(bytes, count - 1, &image), GY_E_TRUNCATED, "of a BMP file of");
    DATA_REFUSED(data_decode(bytes, 20, &image), GY_E_TRUNCATED, "too few");
    bytes[28] = 25;
    DATA_REFUSED(data_decode(bytes, count, &image), GY_E_IMAGE, "25 bits");
    bytes[28] = 24, bytes[21] = 1;
    DATA_REFUSED(data_decode(bytes, count, &image), GY_E_IMAGE, "up to 16384");
    bytes[14] = 30;
    DATA_REFUSED(data_decode(bytes, count, &image), GY_E_IMAGE, "header of 30");
}

static int bmp_draw(int turn, int i, int n)
{
    return (int)((double)gy_rng_uniform(7, GY_RNG_ORDER, (uint64_t)turn, (uint64_t)i) * n);
}

/* Palettes of any length: each has its last colour in use, and in some turns one more is. */
static void test_bmp_colours(int turn)
{
    unsigned char bytes[2048] = { 0 }, colour[81];
    struct gy_image image;
    const int bits = (int[]){ 1, 4, 8 }[turn % 3], h = 1 + bmp_draw(turn, 0, 9), w = 1 + bmp_draw(turn, 1, 9);
    const int colours = 1 + bmp_draw(turn, 2, 1 << bits), missing = colours < 1 << bits && bmp_draw(turn, 3, 3) == 0;
    const int row = (w * bits + 31) / 32 * 4, at = 54 + 4 * colours;
    memcpy(bytes, "BM", 2);
    bytes[10] = (unsigned char)at, bytes[11] = (unsigned char)(at >> 8);
    bytes[14] = 40, bytes[18] = (unsigned char)w, bytes[22] = (unsigned char)h;
    bytes[26] = 1, bytes[28] = (unsigned char)bits;
    for (int i = 54; i < at; i++)
        bytes[i] = (unsigned char)bmp_draw(turn, i, 256);
    for (int i = 0; i < h * w; i++) {
        const int x = i % w * bits;
        colour[i] = (unsigned char)(i + 1 < h * w ? bmp_draw(turn, 2000 + i, colours) : colours - 1 + missing);
        bytes[at + (h - 1 - i / w) * row + x / 8] |= (unsigned char)(colour[i] << (8 - bits - x % 8));
    }
    const int status = data_decode(bytes, (size_t)(at + h * row), &image);
    T_CHECK_MSG(status == (missing ? GY_E_IMAGE : GY_OK), "turn %d: %s", turn, data_err.text);
    int same = status != GY_OK || (image.h == h && image.w == w && image.c == 3);
    for (int i = 0; status == GY_OK && same && i < 3 * h * w; i++)
        same = image.pixels[i] == bytes[54 + 4 * colour[i / 3] + 2 - i % 3];
    T_CHECK_MSG(same, "turn %d", turn);
    bytes[14] = 12, bytes[20] = (unsigned char)h, bytes[22] = 1, bytes[24] = (unsigned char)bits;
    DATA_REFUSED(data_decode(bytes, sizeof bytes, &image), GY_E_IMAGE, "the palette of this BMP");
}

static void test_pnm(void)
{
    struct gy_image image;
    unsigned char bytes[512];
    const size_t count = df_pnm(bytes, 1, 3, 4, 3);
    T_CHECK(data_decode(bytes, count, &image) == GY_OK && image.h == 3 && image.w == 4 && image.c == 3);
    T_CHECK(image.pixels[5] == df_pixel(1, 0, 1, 2) && image.pixels[35] == df_pixel(1, 2, 3, 2));
    DATA_REFUSED(data_decode(bytes, count - 1, &image), GY_E_TRUNCATED, "PNM");
    static const char text[] = "P2 2 2 10\n0 5 # five\n10 1\n", wide[] = "P5 1 1 1000\n\x01\xf4";
    T_CHECK(data_decode(text, sizeof text - 1, &image) == GY_OK && image.c == 1);
    T_CHECK(image.pixels[0] == 0 && image.pixels[1] == 128 && image.pixels[2] == 255 && image.pixels[3] == 26);
    T_CHECK(data_decode(wide, sizeof wide - 1, &image) == GY_OK && image.pixels[0] == 128);
    T_CHECK(gy_image_decode(data_decoder, (const unsigned char *)text, sizeof text - 1, "t", 3, 0, &image,
                            &data_err) == GY_OK &&
            image.c == 3 && image.pixels[3] == 128 && image.pixels[5] == 128);
    DATA_REFUSED(data_decode("P2 2 2 10 0 5 11 1", 18, &image), GY_E_TRUNCATED, "damaged");
    DATA_REFUSED(data_decode("P5 99999 1 255\n0", 16, &image), GY_E_IMAGE, "16384");
    DATA_REFUSED(data_decode("P5 99999999999 1 255\n0", 22, &image), GY_E_IMAGE, "header");
    DATA_REFUSED(data_decode("P5 16384 16384 255\n0", 20, &image), GY_E_IMAGE, "67108864");
    DATA_REFUSED(data_decode("P5 4 4 255\n0", 12, &image), GY_E_TRUNCATED, "too few");
}

static void test_foreign(void)
{
    struct gy_image image;
    DATA_REFUSED(data_decode("GIF89a......", 12, &image), GY_E_IMAGE, "GIF images are not supported");
    DATA_REFUSED(data_decode("RIFF....WEBP", 12, &image), GY_E_IMAGE, "WebP");
    DATA_REFUSED(data_decode("<html>", 6, &image), GY_E_IMAGE, "not an image: begins with 3c 68 74 6d");
    DATA_REFUSED(data_decode("", 0, &image), GY_E_TRUNCATED, "empty");
    df_write("zero.jpg", "", 0);
    DATA_REFUSED(gy_image_read(data_decoder, df_path("zero.jpg"), 3, 0, &image, &data_err), GY_E_TRUNCATED,
                 "zero.jpg: the file is empty");
    DATA_REFUSED(gy_image_read(data_decoder, df_root, 3, 0, &image, &data_err), GY_E_IMAGE, "folder");
    DATA_REFUSED(gy_image_read(data_decoder, df_path("none.jpg"), 3, 0, &image, &data_err), GY_E_IO, "none.jpg");
}

static void test_small_decoder(void)
{
    struct gy_decoder *small;
    struct gy_image image;
    static unsigned char bytes[70000];
    const size_t count = df_pnm(bytes, 0, 100, 200, 3);
    T_CHECK(gy_decoder_open(&small, &data_alloc, 8192, &data_err) == GY_OK);
    DATA_REFUSED(gy_image_decode(small, bytes, count, "big", 0, 0, &image, &data_err), GY_E_IMAGE, "more memory");
    static uint8_t pixels[64 * 64 * 3];
    T_CHECK(gy_image_write_png(df_path("s.png"), pixels, 64, 64, 3, &data_alloc, &data_err) == GY_OK);
    DATA_REFUSED(gy_image_read(small, df_path("s.png"), 3, 0, &image, &data_err), GY_E_IMAGE, "more memory");
    gy_decoder_close(small);
}

/* ---- folder ---- */

static void test_folder(void)
{
    struct gy_data *data;
    struct df_log log = {0, ""};
    char name[64];
    df_folder("f"), df_folder("f/train"), df_folder("f/train/b (1) [x].png"), df_folder("f/train/a"),
        df_folder("f/train/.git");
    df_folder("f/val"), df_folder("f/val/a.png");
    df_write_pnm("f/train/b (1) [x].png/2 two.ppm", 2, 6, 5, 3);
    df_write_pnm("f/train/b (1) [x].png/10.PPM", 10, 4, 4, 3);
    df_write_pnm("f/train/a/z.pgm", 26, 3, 3, 1);
    df_write_pnm("f/train/a/B.pnm", 1, 3, 3, 3);
    df_write_pnm("f/val/a.png/v.ppm", 5, 3, 3, 3);
    df_write("f/train/a/notes.txt", "x", 1);
    df_write("f/train/a/x.gif", "GIF89a", 6);
    df_write("f/train/readme", "x", 1);
    T_CHECK(df_data(&data, df_path("f/"), "train", 0, &log, &data_err) == GY_OK);
    T_CHECK(strcmp(gy_data_format(data), "folder") == 0 && gy_data_count(data) == 4 && gy_data_classes(data) == 2);
    T_CHECK_MSG(log.lines == 1 && strstr(log.last, "2 files ignored"), "%d: %s", log.lines, log.last);
    T_CHECK(strcmp(gy_data_class_name(data, 0), "a") == 0 && strcmp(gy_data_class_name(data, 1), "b (1) [x].png") == 0);
    T_CHECK(gy_data_label(data, 1) == 0 && gy_data_label(data, 2) == 1);
    T_CHECK(data_same(data, 0, 1, 3, 3, 3) && data_same(data, 2, 10, 4, 4, 3) && data_same(data, 3, 2, 6, 5, 3));
    struct gy_image image;
    T_CHECK(gy_data_read(data, 1, data_decoder, &image, &data_err) == GY_OK && image.c == 3 &&
            image.pixels[4] == df_pixel(26, 0, 1, 0));
    gy_data_sample_name(data, 3, name, sizeof name);
    T_CHECK_MSG(strcmp(name, "train/b (1) [x].png/2 two.ppm") == 0, "%s", name);
    gy_data_close(data);
    T_CHECK(df_data(&data, df_path("f/train"), "", 0, NULL, &data_err) == GY_OK && gy_data_count(data) == 4);
    gy_data_close(data);
    T_CHECK(df_data(&data, df_path("f"), "test", 0, NULL, &data_err) == GY_OK && gy_data_count(data) == 1);
    gy_data_close(data);
    DATA_REFUSED(data_open_path(df_path("f"), ""), GY_E_FORMAT, "choose a split");
    df_folder("empty");
    DATA_REFUSED(data_open_path(df_path("empty"), ""), GY_E_FORMAT, "no images");
}

static void test_folder_order(void)
{
    struct gy_data *data;
    char name[64], before[64] = "";
    df_folder("many"), df_folder("many/c");
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "many/c/%u.jpg", (unsigned)(i * 2654435761u) % 100003u);
        df_write(name, "x", 1);
    }
    T_CHECK(df_data(&data, df_path("many"), "", 0, NULL, &data_err) == GY_OK && gy_data_count(data) == 500);
    int sorted = 0;
    for (int64_t i = 0; i < 500; i++) {
        gy_data_sample_name(data, i, name, sizeof name);
        sorted += strcmp(before, name) < 0;
        memcpy(before, name, sizeof name);
    }
    T_CHECK(sorted == 500);
    gy_data_close(data);
}

/* ---- CIFAR ---- */

static void data_write_cifar(const char *name, int records, int label_bytes, int bad_label)
{
    static unsigned char bytes[4 * 3074];
    unsigned char *at = bytes;
    for (int r = 0; r < records; r++) {
        if (label_bytes == 2)
            *at++ = 99;
        *at++ = (unsigned char)(bad_label >= 0 ? bad_label : r);
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 1024; i++)
                *at++ = df_pixel(r, i / 32, i % 32, c);
    }
    df_write(name, bytes, (size_t)(at - bytes));
}

static void test_cifar(void)
{
    struct gy_data *data;
    char name[64];
    df_folder("c10");
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "c10/data_batch_%d.bin", i);
        data_write_cifar(name, i < 5 ? 2 : 1, 1, -1);
    }
    data_write_cifar("c10/test_batch.bin", 3, 1, -1);
    df_write("c10/batches.meta.txt", "airplane\nautomobile\nbird\n\n", 26);
    T_CHECK(df_data(&data, df_path("c10"), "train", 0, NULL, &data_err) == GY_OK);
    T_CHECK(strcmp(gy_data_format(data), "cifar") == 0 && gy_data_count(data) == 9 && gy_data_classes(data) == 10);
    T_CHECK(strcmp(gy_data_class_name(data, 2), "bird") == 0 && strcmp(gy_data_class_name(data, 3), "3") == 0);
    T_CHECK(data_same(data, 3, 1, 32, 32, 3) && gy_data_label(data, 3) == 1 && data_same(data, 8, 0, 32, 32, 3));
    gy_data_sample_name(data, 3, name, sizeof name);
    T_CHECK(strcmp(name, "data_batch_2.bin[1]") == 0);
    gy_data_close(data);
    data_write_cifar("c10/test_batch.bin", 2, 1, 10);
    DATA_REFUSED(data_open_path(df_path("c10"), "test"), GY_E_FORMAT, "label 10");
    df_write("c10/test_batch.bin", "short", 5);
    DATA_REFUSED(data_open_path(df_path("c10"), "test"), GY_E_TRUNCATED, "3073");
    df_folder("c100");
    data_write_cifar("c100/train.bin", 3, 2, -1);
    T_CHECK(df_data(&data, df_path("c100"), "", 0, NULL, &data_err) == GY_OK && gy_data_classes(data) == 100);
    T_CHECK(gy_data_label(data, 2) == 2 && data_same(data, 2, 2, 32, 32, 3));
    gy_data_close(data);
}

/* ---- packed ---- */

static int data_stop(void *user, int64_t done, int64_t total)
{
    (void)user;
    return done < total;
}

static void test_pack(void)
{
    struct gy_data *folder, *packed;
    struct gy_pack_config config = {&data_alloc, NULL, 0, 2, NULL, NULL};
    char name[64], *first, *second;
    size_t first_bytes, second_bytes;
    T_CHECK(df_data(&folder, df_path("f"), "train", 0, NULL, &data_err) == GY_OK);
    T_CHECK_MSG(gy_data_pack(folder, df_path("train.gyr"), &config, &data_err) == GY_OK, "%s", data_err.text);
    config.threads = 1;
    T_CHECK(gy_data_pack(folder, df_path("again.gyr"), &config, &data_err) == GY_OK);
    T_CHECK(gy_file_read(&data_alloc, df_path("train.gyr"), 1 << 20, &first, &first_bytes, &data_err) == GY_OK);
    T_CHECK(gy_file_read(&data_alloc, df_path("again.gyr"), 1 << 20, &second, &second_bytes, &data_err) == GY_OK);
    T_CHECK(first_bytes == second_bytes && memcmp(first, second, first_bytes) == 0);
    T_CHECK(df_data(&packed, df_path("train.gyr"), "", 0, NULL, &data_err) == GY_OK);
    int32_t h, w;
    gy_data_side(packed, &h, &w);
    T_CHECK(strcmp(gy_data_format(packed), "packed") == 0 && gy_data_count(packed) == 4 && h == 0 && w == 0);
    T_CHECK(strcmp(gy_data_class_name(packed, 1), "b (1) [x].png") == 0 && gy_data_label(packed, 2) == 1);
    T_CHECK(data_same(packed, 0, 1, 3, 3, 3) && data_same(packed, 3, 2, 6, 5, 3));
    T_CHECK(strcmp(gy_data_sample_name(packed, 3, name, sizeof name), "train/b (1) [x].png/2 two.ppm") == 0);
    gy_data_close(packed);
    config.side = 4;
    T_CHECK(gy_data_pack(folder, df_path("again.gyr"), &config, &data_err) == GY_OK);
    T_CHECK(df_data(&packed, df_path("again.gyr"), "", 0, NULL, &data_err) == GY_OK);
    struct gy_image image;
    T_CHECK(gy_data_read(packed, 3, data_decoder, &image, &data_err) == GY_OK && image.h == 4 &&
            image.w == 4); /* 6x5: 4 * 6 / 5 */
    gy_data_close(packed);
    gy_alloc_free(&data_alloc, first, first_bytes + 1);
    gy_alloc_free(&data_alloc, second, second_bytes + 1);
    gy_data_close(folder);
    T_CHECK(df_data(&folder, df_path("many"), "", 1000, NULL, &data_err) == GY_OK);
    config.progress = data_stop;
    DATA_REFUSED(gy_data_pack(folder, df_path("stopped.gyr"), &config, &data_err), GY_E_STOPPED, "64 of 500");
    T_CHECK(gy_file_exists(df_path("stopped.gyr")) == 0 && gy_data_bad(folder) == 64);
    gy_data_close(folder);
}

static int data_parse(const unsigned char *bytes, size_t count)
{
    struct gy_packed_view view = { .index = NULL };
    const struct gy_file file = gy_file_of(bytes, count, "p");
    const int status = gy_packed_parse(&file, &data_alloc, &view, &data_err);
    gy_alloc_free(&data_alloc, view.index, view.index_bytes);
    return status;
}

/* Every byte of header, index and names is guarded; pixels are found when they are read. */
static void test_packed_damage(void)
{
    char *bytes;
    size_t count;
    struct gy_packed_view view;
    struct gy_packed_record record;
    T_CHECK(gy_file_read(&data_alloc, df_path("train.gyr"), 1 << 20, &bytes, &count, &data_err) == GY_OK);
    unsigned char *b = (unsigned char *)bytes;
    const struct gy_file file = gy_file_of(b, count, "p");
    T_CHECK(gy_packed_parse(&file, &data_alloc, &view, &data_err) == GY_OK);
    gy_packed_at(&view, 0, &record);
    const size_t pixels_end = (size_t)view.index_at;
    T_CHECK(record.at == 96);
    gy_alloc_free(&data_alloc, view.index, view.index_bytes);
    int seen = 0, cut = 0;
    for (size_t i = 0; i < count; i++) {
        b[i] ^= 0x10;
        seen += data_parse(b, count) != GY_OK;
        b[i] ^= 0x10;
        cut += data_parse(b, i) != GY_OK;
    }
    T_CHECK(seen == (int)(96 + count - pixels_end) && cut == (int)count);
    DATA_REFUSED(data_parse(b, count - 1), GY_E_TRUNCATED, "its header says");
    b[100] ^= 1;
    df_write("broken.gyr", b, count);
    struct gy_data *data;
    struct gy_image image;
    T_CHECK(df_data(&data, df_path("broken.gyr"), "", 0, NULL, &data_err) == GY_OK);
    DATA_REFUSED(gy_data_read(data, 0, data_decoder, &image, &data_err), GY_E_HASH, "sample 0 (train/a/B.pnm)");
    T_CHECK(gy_data_read(data, 1, data_decoder, &image, &data_err) == GY_OK);
    gy_data_close(data);
    gy_alloc_free(&data_alloc, bytes, count + 1);
}

/* ---- resizing ---- */

/* What an output position is made of, as the head of io/images/resample.c says. */
static int32_t data_weights(int32_t in, int32_t out, int32_t i, int32_t *first, int32_t *weights)
{
    const double scale = (double)in / out, width = scale > 1 ? scale : 1, centre = (i + 0.5) * scale;
    int32_t lo = (int32_t)(centre - width + 0.5), hi = (int32_t)(centre + width + 0.5);
    double total = 0;
    lo = lo < 0 ? 0 : lo;
    hi = hi > in ? in : hi;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t k = lo; k < hi; k++) {
            const double w = fmax(0, 1 - fabs((k - centre + 0.5) * (1 / width)));
            total += pass ? 0 : w;
            weights[k - lo] = (int32_t)(0.5 + w / total * (1 << 22));
        }
    *first = lo;
    return hi - lo;
}

static uint8_t data_sum(const uint8_t *cells, size_t step, const int32_t *weights, int32_t n)
{
    int64_t sum = 1 << 21;
    for (int32_t k = 0; k < n; k++)
        sum += (int64_t)weights[k] * cells[(size_t)k * step];
    return (uint8_t)(sum >> 22);
}

/* Every byte of a resize of h x w x c, cell by cell. Returns how many differ. */
static int data_resize_differs(const struct gy_window *from, int32_t h, int32_t w, const uint8_t *got)
{
    static uint8_t middle[40 * 90 * 3];
    int32_t weights[128], first;
    const int32_t c = from->c;
    int differ = 0;
    for (int32_t x = 0; x < w; x++) {
        const int32_t n = data_weights(from->w, w, x, &first, weights);
        for (int32_t y = 0; y < from->h; y++)
            for (int32_t k = 0; k < c; k++)
                middle[(y * w + x) * c + k] = data_sum(from->pixels + (size_t)y * from->stride + first * c + k, (size_t)c, weights, n);
    }
    for (int32_t y = 0; y < h; y++) {
        const int32_t n = data_weights(from->h, h, y, &first, weights);
        for (int32_t i = 0; i < w * c; i++)
            differ += got[y * w * c + i] != data_sum(middle + first * w * c + i, (size_t)(w * c), weights, n);
    }
    return differ;
}

static void test_resample_sizes(void)
{
    static uint8_t pixels[40 * 50 * 3], out[90 * 90 * 3];
    static const int32_t sizes[][2] = {{13, 17}, {40, 49}, {1, 1}, {90, 90}, {39, 3}, {7, 88}};
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i % 7 == 0 ? 255 : i * 2654435761u >> 11);
    for (int32_t c = 1; c <= 3; c += 2)
        for (size_t i = 0; i < GY_COUNT(sizes); i++) {
            const struct gy_window from = {pixels + (i % 3) * (size_t)c, (size_t)(50 * c), 40, 50 - (int32_t)i, c};
            const struct gy_resize to = {sizes[i][0], sizes[i][1], 0, 0, sizes[i][0], sizes[i][1]};
            gy_decoder_reset(data_decoder);
            T_CHECK(gy_resample(&from, &to, out, (size_t)(to.w * c), data_decoder, &data_err) == GY_OK);
            T_CHECK(data_resize_differs(&from, to.h, to.w, out) == 0);
        }
}

static void test_resample(void)
{
    static const uint8_t ramp[8] = {0, 32, 64, 96, 128, 160, 192, 224};
    const struct gy_window row = {ramp, 8, 1, 8, 1}, column = {ramp, 1, 8, 1, 1};
    uint8_t out[16];
    const struct gy_resize half = {1, 4, 0, 0, 1, 4}, twice = {1, 16, 0, 0, 1, 16}, tall = {4, 1, 0, 0, 4, 1};
    gy_decoder_reset(data_decoder);
    /* as Pillow gives: Image.resize(..., BILINEAR) */
    static const uint8_t want_half[4] = {23, 80, 144, 201};
    static const uint8_t want_twice[16] = {0, 8, 24, 40, 56, 72, 88, 104, 120, 136, 152, 168, 184, 200, 216, 224};
    T_CHECK(gy_resample(&row, &half, out, 4, data_decoder, &data_err) == GY_OK && memcmp(out, want_half, 4) == 0);
    T_CHECK(gy_resample(&column, &tall, out, 1, data_decoder, &data_err) == GY_OK && memcmp(out, want_half, 4) == 0);
    T_CHECK(gy_resample(&row, &twice, out, 16, data_decoder, &data_err) == GY_OK && memcmp(out, want_twice, 16) == 0);
    const struct gy_resize part = {1, 16, 0, 5, 1, 6};
    T_CHECK(gy_resample(&row, &part, out, 6, data_decoder, &data_err) == GY_OK && memcmp(out, want_twice + 5, 6) == 0);
}

static void test_fit(void)
{
    static uint8_t pixels[10 * 20 * 3], out[64 * 3];
    df_fill(pixels, 0, 10, 20, 3);
    const struct gy_image image = {pixels, 10, 20, 3, NULL};
    gy_decoder_reset(data_decoder);
    T_CHECK(gy_image_fit(&image, 4, 4, 3, 10, out, data_decoder, &data_err) == GY_OK);
    T_CHECK(out[0] == df_pixel(0, 3, 8, 0) && out[47] == df_pixel(0, 6, 11, 2));
    T_CHECK(gy_image_fit(&image, 4, 4, 1, 10, out, data_decoder, &data_err) == GY_OK);
    const double luma = .299 * df_pixel(0, 3, 8, 0) + .587 * df_pixel(0, 3, 8, 1) + .114 * df_pixel(0, 3, 8, 2);
    T_CHECK(fabs(out[0] - luma) < 0.51);
    /* 2 x 4 with zeros around */
    T_CHECK(gy_image_fit(&image, 8, 8, 3, 2, out, data_decoder, &data_err) == GY_OK);
    T_CHECK(out[0] == 0 && out[(3 * 8 + 1) * 3 + 1] == 0 && out[(3 * 8 + 2) * 3 + 1] != 0 &&
            out[(5 * 8 + 2) * 3 + 1] == 0);
}

/* Gray of colours as Pillow's convert("L") has it. */
static void test_gray(void)
{
    static const uint8_t colours[][4] = {{255, 0, 0, 76}, {0, 255, 0, 150}, {0, 0, 255, 29}, {255, 255, 255, 255}, {0, 0, 0, 0}, {1, 2, 3, 2},
                                         {10, 200, 30, 124}, {250, 3, 77, 85}, {7, 90, 201, 78}, {128, 128, 128, 128}};
    for (size_t i = 0; i < GY_COUNT(colours); i++) {
        const struct gy_image image = {colours[i], 1, 1, 3, NULL};
        uint8_t gray = 77;
        gy_decoder_reset(data_decoder);
        T_CHECK_MSG(gy_image_fit(&image, 1, 1, 1, 0, &gray, data_decoder, &data_err) == GY_OK && gray == colours[i][3], "%d %d %d: %d instead of %d",
                    colours[i][0], colours[i][1], colours[i][2], gray, colours[i][3]);
    }
}

/* ---- augmentation ---- */

static void test_augment(void)
{
    static uint8_t pixels[32 * 32 * 3], a[32 * 32 * 3], b[32 * 32 * 3];
    df_fill(pixels, 0, 32, 32, 3);
    const struct gy_image image = {pixels, 32, 32, 3, NULL};
    struct gy_augment aug;
    memset(&aug, 0, sizeof aug);
    aug.flip = 1;
    gy_decoder_reset(data_decoder);
    T_CHECK(gy_augment_sample(&aug, &image, 1, 2, 32, 32, 3, a, data_decoder, &data_err) == GY_OK);
    T_CHECK(a[0] == df_pixel(0, 0, 31, 0) && a[31 * 3 + 2] == df_pixel(0, 0, 0, 2));
    aug.flip = 0, aug.pad = 4;
    int shifts = 0, exact = 0;
    for (int i = 0; i < 200; i++) {
        gy_decoder_reset(data_decoder);
        (void)gy_augment_sample(&aug, &image, 1, i, 32, 32, 3, a, data_decoder, &data_err);
        shifts += memcmp(a, pixels, sizeof a) != 0;
        const int dy = (a[(16 * 32 + 16) * 3] - df_pixel(0, 16, 16, 0)); /* 7 a row, 3 a column */
        for (int y = -4; y <= 4; y++)
            for (int x = -4; x <= 4; x++)
                if ((uint8_t)dy == (uint8_t)(7 * y + 3 * x) &&
                    a[(20 * 32 + 20) * 3] == df_pixel(0, 20 + y, 20 + x, 0)) {
                    exact++;
                    y = x = 5;
                }
    }
    T_CHECK_MSG(exact == 200 && shifts > 180 && shifts < 200 + 1, "%d %d", exact, shifts);
    aug.pad = 0, aug.resized_crop = 1, aug.scale_min = .08f, aug.scale_max = 1, aug.ratio_min = .75f,
    aug.ratio_max = 4.f / 3;
    aug.brightness = aug.contrast = aug.saturation = .4f, aug.hue = .1f, aug.flip = .5f;
    gy_decoder_reset(data_decoder);
    T_CHECK(gy_augment_sample(&aug, &image, 1, 7, 24, 24, 3, a, data_decoder, &data_err) == GY_OK);
    gy_decoder_reset(data_decoder);
    T_CHECK(gy_augment_sample(&aug, &image, 1, 7, 24, 24, 3, b, data_decoder, &data_err) == GY_OK);
    T_CHECK(memcmp(a, b, 24 * 24 * 3) == 0);
    (void)gy_augment_sample(&aug, &image, 1, 8, 24, 24, 3, b, data_decoder, &data_err);
    T_CHECK(memcmp(a, b, 24 * 24 * 3) != 0);
    aug.flip = NAN;
    DATA_REFUSED(gy_augment_check(&aug, &data_err), GY_E_ARG, "flip");
    aug.flip = 0, aug.scale_min = 0;
    DATA_REFUSED(gy_augment_check(&aug, &data_err), GY_E_ARG, "scale");
}

/* Where no random window fits the image, the crop is its centre of the nearest allowed shape, or
 * the whole image. */
static void test_crop_fallback(void)
{
    static const struct {
        int32_t h, w;
        float ratio_min, ratio_max;
        int32_t y, x, crop_h, crop_w;
    } rows[] = {
        {2, 32, .75f, 4.f / 3, 0, 14, 2, 3}, {32, 2, .75f, 4.f / 3, 14, 0, 3, 2}, {32, 32, 1.2f, 1.3f, 2, 0, 27, 32}, {32, 32, .5f, .8f, 0, 3, 32, 26},
        {1, 32, .01f, .02f, 0, 15, 1, 1},    {20, 32, 1.6f, 1.6f, 0, 0, 20, 32},
    };
    static uint8_t pixels[32 * 32 * 3], out[32 * 32 * 3];
    struct gy_augment aug;
    memset(&aug, 0, sizeof aug);
    aug.resized_crop = 1, aug.scale_min = aug.scale_max = 1;
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        const struct gy_image image = {pixels, rows[i].h, rows[i].w, 3, NULL};
        int wrong = 0;
        df_fill(pixels, 0, rows[i].h, rows[i].w, 3);
        aug.ratio_min = rows[i].ratio_min, aug.ratio_max = rows[i].ratio_max;
        gy_decoder_reset(data_decoder);
        T_CHECK(gy_augment_check(&aug, &data_err) == GY_OK &&
                gy_augment_sample(&aug, &image, 1, (int64_t)i, rows[i].crop_h, rows[i].crop_w, 3, out, data_decoder, &data_err) == GY_OK);
        for (int32_t y = 0; y < rows[i].crop_h; y++)
            for (int32_t x = 0; x < rows[i].crop_w * 3; x++)
                wrong += out[y * rows[i].crop_w * 3 + x] != df_pixel(0, rows[i].y + y, rows[i].x + x / 3, x % 3);
        T_CHECK_MSG(wrong == 0, "row %zu: %d of %d values", i, wrong, rows[i].crop_h * rows[i].crop_w * 3);
    }
    aug.ratio_min = .001f;
    DATA_REFUSED(gy_augment_check(&aug, &data_err), GY_E_ARG, "crop ratio 0.001 to 1.6 is not within 0.01 to 100");
}

/* Moments of the weights that mixing draws.
 * Beta(a, a) has mean 1/2 and variance 1 / (4 (2a + 1)). */
static void test_mix(void)
{
    static const float alphas[] = { .1f, .2f, 1, 4 };
    struct gy_augment aug;
    struct gy_batch_mix mix[4];
    for (size_t k = 0; k < GY_COUNT(alphas); k++) {
        double sum = 0, squares = 0;
        memset(&aug, 0, sizeof aug);
        aug.mixup = alphas[k];
        for (int64_t n = 0; n < 20000; n++) {
            gy_augment_mix(&aug, 3, n, 4, 8, 8, mix);
            sum += (double)mix[1].label;
            squares += (double)mix[1].label * (double)mix[1].label;
        }
        const double mean = sum / 20000, var = squares / 20000 - mean * mean,
                     want = 1 / (4 * (2 * (double)alphas[k] + 1));
        T_CHECK_MSG(fabs(mean - .5) < .02 && fabs(var - want) < .05 * want, "alpha %g: %g %g", (double)alphas[k], mean,
                    var);
    }
    T_CHECK(mix[0].partner == 3 && mix[1].partner == 0 && mix[1].h1 == 8 && mix[1].inside == mix[1].label);
    aug.cutmix = 1;
    int cut = 0, right = 0;
    for (int64_t n = 0; n < 1000; n++) {
        gy_augment_mix(&aug, 3, n, 4, 8, 6, mix);
        const struct gy_batch_mix *m = mix;
        const int area = (m->h1 - m->h0) * (m->w1 - m->w0), is_cut = m->inside == 0 && m->label != 0;
        cut += is_cut;
        right += !is_cut || (m->h0 >= 0 && m->w0 >= 0 && m->h1 <= 8 && m->w1 <= 6 && area >= 0 &&
                             fabs((double)m->label - (1 - area / 48.0)) < 1e-6);
    }
    T_CHECK_MSG(cut > 430 && cut < 570 && right == 1000, "%d %d", cut, right);
}

/* ---- real files ---- */

static void test_real(void)
{
    struct gy_data *data;
    if (gy_file_exists("/usr/share/datasets/fashion-mnist") != 2) {
        T_SKIP("dataset-fashion-mnist is not installed");
        return;
    }
    const int status = df_data(&data, "/usr/share/datasets/fashion-mnist", "test", 0, NULL, &data_err);
    T_CHECK_MSG(status == GY_OK, "%s", data_err.text);
    if (status != GY_OK)
        return;
    int64_t each[10] = {0};
    for (int64_t i = 0; i < gy_data_count(data); i++)
        each[gy_data_label(data, i)]++;
    T_CHECK(gy_data_count(data) == 10000 && each[0] == 1000 && each[9] == 1000 && gy_data_classes(data) == 10);
    gy_data_close(data);
}

int main(void)
{
    data_alloc = gy_alloc_default();
    df_open();
    if (gy_decoder_open(&data_decoder, &data_alloc, (size_t)16 << 20, &data_err))
        return 2;
    test_idx(), test_idx_refused(), test_gzip();
    for (int turn = 0; turn < 300; turn++)
        test_bmp_colours(turn);
    test_png(), test_jpeg(), test_bmp(), test_pnm(), test_foreign(), test_small_decoder();
    test_folder(), test_folder_order(), test_cifar(), test_pack(), test_packed_damage();
    test_resample(), test_resample_sizes(), test_fit(), test_gray(), test_augment(), test_crop_fallback(), test_mix(), test_real();
    gy_decoder_close(data_decoder);
    df_remove(df_root);
    T_END("t_data");
}
