/* SPDX-License-Identifier: MIT */
/* t_pfm.c: Portable Float Maps: both byte orders, both kinds, rows in reverse order, values bit by
 * bit, and each damage refused by a sentence. Batches of a float set hold the same floats. */
#include "io/images/augment.h"
#include "io/images/data_set.h"
#include "tests/data_files.h"
#include "tests/t.h"

static struct gy_decoder *pfm_decoder;
static struct gy_error pfm_err;

#define PFM_REFUSED(call, want, words) \
    do { \
        memset(&pfm_err, 0, sizeof pfm_err); \
        const int got_status = (call); \
        T_CHECK_MSG(got_status == (want) && strstr(pfm_err.text, (words)), "status %d, '%s'", got_status, pfm_err.text); \
    } while (0)

/* A file of the header and count values, low byte first or last. Returns its bytes. */
static size_t pfm_make(unsigned char *out, const char *header, const float *values, size_t count, int low_first)
{
    const size_t n = strlen(header);
    memcpy(out, header, n);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if (low_first)
            gy_put_le32(out + n + 4 * i, bits);
        else
            gy_put_be32(out + n + 4 * i, bits);
    }
    return n + 4 * count;
}

static int pfm_decode(const void *bytes, size_t count, struct gy_image *image)
{
    gy_decoder_reset(pfm_decoder);
    return gy_pfm_decode(pfm_decoder, bytes, count, "x.pfm", 0, image, &pfm_err);
}

static void test_values(void)
{
    static const float gray[6] = { 0.25f, -1.5f, 3e38f, 0.0f, 1e-40f, 7.0f };
    float odd[3];
    /* NaN, infinity, a NaN with a payload */
    const uint32_t odd_bits[3] = { 0x7fc00000u, 0x7f800000u, 0xff812345u };
    unsigned char bytes[256];
    struct gy_image image;
    memcpy(odd, odd_bits, sizeof odd);
    for (int low = 0; low < 2; low++) {
        size_t n = pfm_make(bytes, low ? "Pf\n3 2\n-1.0\n" : "Pf\n3 2\n1\n", gray, 6, low);
        T_CHECK(pfm_decode(bytes, n, &image) == GY_OK && image.h == 2 && image.w == 3 && image.c == 1 && !image.pixels);
        T_CHECK(memcmp(image.values, gray + 3, 12) == 0 && memcmp(image.values + 3, gray, 12) == 0);
        n = pfm_make(bytes, low ? "PF 1 1 -2e-3\n" : "PF 1 1 255.0 ", odd, 3, low);
        T_CHECK(pfm_decode(bytes, n, &image) == GY_OK && image.h == 1 && image.w == 1 && image.c == 3);
        T_CHECK(memcmp(image.values, odd, sizeof odd) == 0);
    }
}

static void test_refused(void)
{
    static const char *const headers[] = {
        "", "P", "PF", "Pf\n", "Pf\n1", "Pf\n1 1", "Pf\n1 1\n", "Pf\n1 1\n-1.0", "pf\n1 1\n-1.0\n....", "PFx\n1 1\n-1.0\n....",
        "Pf\n-1 1\n-1.0\n....", "Pf\n1.5 1\n-1.0\n....", "Pf\n1 x\n-1.0\n....", "Pf\n1 1\n0\n....", "Pf\n1 1\nnan\n....",
        "Pf\n1 1\n-\n....", "Pf\n99999999999999999999 1\n-1\n....", "Pf # c\n1 1\n-1\n....", "P6\n1 1\n255\n....",
    };
    static const float values[12] = { 0 };
    unsigned char bytes[256], big[64];
    struct gy_image image;
    for (size_t i = 0; i < GY_COUNT(headers); i++)
        PFM_REFUSED(pfm_decode(headers[i], strlen(headers[i]), &image), GY_E_IMAGE, "x.pfm: the PFM header");
    PFM_REFUSED(pfm_decode("Pf\0\n1 1\n-1\n....", 15, &image), GY_E_IMAGE, "header");
    const size_t n = pfm_make(bytes, "PF\n2 2\n-1\n", values, 12, 1), head = n - 48;
    /* in its own memory, so that reading behind the end is seen */
    for (size_t cut = 0; cut < n; cut++) {
        unsigned char *part = malloc(cut ? cut : 1);
        memcpy(part, bytes, cut);
        PFM_REFUSED(pfm_decode(part, cut, &image), cut < head ? GY_E_IMAGE : GY_E_TRUNCATED, "x.pfm");
        free(part);
    }
    T_CHECK(pfm_decode(bytes, n, &image) == GY_OK);
    PFM_REFUSED(pfm_decode(bytes, n + 1, &image), GY_E_IMAGE, "49 bytes");
    PFM_REFUSED(pfm_decode(big, pfm_make(big, "Pf\n0 4\n-1\n", values, 1, 1), &image), GY_E_IMAGE, "0 x 4");
    PFM_REFUSED(pfm_decode(big, pfm_make(big, "Pf\n99999 1\n-1\n", values, 1, 1), &image), GY_E_IMAGE, "16384");
    PFM_REFUSED(pfm_decode(big, pfm_make(big, "PF\n16384 16384\n-1\n", values, 1, 1), &image), GY_E_IMAGE, "67108864");
    PFM_REFUSED(pfm_decode(big, pfm_make(big, "PF\n8192 8192\n-1\n", values, 1, 1), &image), GY_E_TRUNCATED, "805306368");
}

/* A file of 3 x 2 gray values number .. number + 5 from the top row on. */
static void pfm_write(const char *name, float number, const char *header, size_t count)
{
    float values[12];
    unsigned char bytes[256];
    for (size_t i = 0; i < count; i++)
        values[i] = number + (float)(i < 3 ? i + 3 : i - 3); /* rows go upwards */
    df_write(name, bytes, pfm_make(bytes, header, values, count, 1));
}

static void test_batches(struct gy_data *data)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_loader_config c = { .alloc = &alloc, .batch = 2, .h = 2, .w = 3, .c = 1, .threads = 2, .depth = 2 };
    struct gy_loader *loader;
    struct gy_batch batch;
    T_CHECK(gy_loader_open(&loader, data, &c, &pfm_err) == GY_OK);
    T_CHECK(gy_loader_next(loader, &batch, &pfm_err) == GY_OK && batch.count == 2 && !batch.pixels);
    for (int i = 0; i < 12; i++)
        T_CHECK(batch.values[i] == (float)(i < 6 ? 10 + i : 20 + i - 6));
    gy_loader_close(loader);
    c.training = 1;
    c.augment.flip = 1;
    T_CHECK(gy_loader_open(&loader, data, &c, &pfm_err) == GY_OK);
    T_CHECK(gy_loader_next(loader, &batch, &pfm_err) == GY_OK);
    for (int i = 0; i < 12; i++) /* each row turned over */
        T_CHECK(batch.values[i] == 10 + 10 * (float)batch.samples[i / 6] + (float)(i % 6 / 3 * 3 + 2 - i % 3));
    gy_loader_close(loader);
    c.w = 2;
    PFM_REFUSED(gy_loader_open(&loader, data, &c, &pfm_err), GY_E_MISMATCH, "2 x 3 x 1");
    c.w = 3;
    c.augment.brightness = 0.5f;
    PFM_REFUSED(gy_loader_open(&loader, data, &c, &pfm_err), GY_E_UNSUPPORTED, "colour jitter");
    c.augment.brightness = 0;
    c.augment.resize = 4;
    PFM_REFUSED(gy_loader_open(&loader, data, &c, &pfm_err), GY_E_UNSUPPORTED, "resize");
}

static void test_folder(void)
{
    static const char header[] = "Pf\n3 2\n-1\n";
    struct gy_data *data;
    struct gy_image image;
    int32_t h, w;
    df_folder("p"), df_folder("p/a"), df_folder("p/b");
    pfm_write("p/a/1.pfm", 10, header, 6), pfm_write("p/b/2.PFM", 20, header, 6);
    T_CHECK(df_data(&data, df_path("p"), "", 0, NULL, &pfm_err) == GY_OK);
    gy_data_side(data, &h, &w);
    T_CHECK(gy_data_is_real(data) && h == 2 && w == 3 && gy_data_channels(data) == 1 && gy_data_count(data) == 2);
    test_batches(data);
    pfm_write("p/b/2.PFM", 20, "Pf\n2 3\n-1\n", 6);
    PFM_REFUSED(gy_data_read(data, 1, pfm_decoder, &image, &pfm_err), GY_E_IMAGE, "3 x 2 x 1, but");
    gy_data_close(data);
    df_write_pnm("p/b/3.ppm", 1, 2, 3, 3);
    PFM_REFUSED(df_data(&data, df_path("p"), "", 0, NULL, &pfm_err), GY_E_FORMAT, "2 of 3 images are .pfm");
    df_write("p/a/1.pfm", "Pf", 2);
    remove(df_path("p/b/3.ppm"));
    PFM_REFUSED(df_data(&data, df_path("p"), "", 0, NULL, &pfm_err), GY_E_IMAGE, "1.pfm");
    T_CHECK(df_data(&data, df_path("p"), "", 1, NULL, &pfm_err) == GY_OK && gy_data_is_real(data));
    gy_data_side(data, &h, &w);
    T_CHECK(h == 3 && w == 2);
    gy_data_close(data);
}

int main(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    df_open();
    if (gy_decoder_open(&pfm_decoder, &alloc, (size_t)1 << 20, &pfm_err))
        return 2;
    test_values(), test_refused(), test_folder();
    gy_decoder_close(pfm_decoder);
    df_remove(df_root);
    T_END("t_pfm");
}
