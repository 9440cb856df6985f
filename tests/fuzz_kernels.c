/* SPDX-License-Identifier: MIT */
/* fuzz_kernels.c: any bytes as a pack of compiled kernels, or as a file of their cache. The first
 * byte chooses which, and whether the records' checksums are made to fit. A checksum stops all that
 * Gyre did not write; only so is the code behind it reached. A pack that opens gives, for each of
 * its keys, bytes that lie inside. Written and read again it is the same. */
#include "kernels/cuda/cache.c"
#include "kernels/cuda/compile.h"
#include "tests/fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Writes the checksum of each record from data on that lies inside. */
static void fuzz_sign(char *data, size_t bytes)
{
    struct cache_head head;
    while (bytes >= sizeof head) {
        memcpy(&head, data, sizeof head);
        const size_t room = bytes - sizeof head;
        if (head.size > room || head.text_bytes > room - head.size)
            return;
        cache_hash(&head, data + sizeof head, data + sizeof head + head.size, head.hash);
        memcpy(data, &head, sizeof head);
        data += sizeof head + head.size + head.text_bytes;
        bytes = room - (size_t)head.size - (size_t)head.text_bytes;
    }
}

/* What was given out is memory of its own: every byte is read, and the compiler's words too. */
static void fuzz_image(const struct gy_cuda_image *image, size_t most)
{
    struct gy_cuda_report report;
    unsigned sum = 0;
    FUZZ_REQUIRE(image->size <= most && image->bytes[image->size] == 0);
    for (size_t i = 0; i < image->size; i++)
        sum += image->bytes[i];
    FUZZ_REQUIRE(sum <= 255 * (uint64_t)most && (!image->text || strlen(image->text) <= most));
    if (image->text)
        (void)gy_cuda_report_of(image->text, "kernel", &report);
}

static void fuzz_equal(const struct gy_cuda_image *a, const struct gy_cuda_image *b)
{
    FUZZ_REQUIRE(a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0 && a->nvrtc == b->nvrtc);
    FUZZ_REQUIRE(strcmp(a->text ? a->text : "", b->text ? b->text : "") == 0);
}

static void fuzz_pack_again(const char *path, unsigned char (*keys)[32], const struct gy_cuda_image *images, int count)
{
    struct gy_cuda_pack again;
    FUZZ_REQUIRE(gy_cuda_pack_write(path, keys, images, count, NULL) == GY_OK && gy_cuda_pack_open(&again, path, NULL) == GY_OK);
    FUZZ_REQUIRE(again.count == count);
    for (int i = 0; i < count; i++) {
        struct gy_cuda_image image = { .size = 0 };
        FUZZ_REQUIRE(gy_cuda_pack_get(&again, keys[i], &image) == 1);
        fuzz_equal(&images[i], &image);
        gy_cuda_image_free(&image);
    }
    gy_cuda_pack_close(&again);
}

static void fuzz_pack(const char *path, size_t count)
{
    enum { MOST = 16 };
    unsigned char keys[MOST][32];
    struct gy_cuda_image images[MOST] = { { .size = 0 } };
    struct gy_cuda_pack pack;
    struct gy_error err = { 0 };
    const int status = gy_cuda_pack_open(&pack, path, &err);
    FUZZ_REQUIRE(status == GY_OK || (err.status == status && err.text[0] != 0));
    if (status != GY_OK)
        return;
    size_t at = sizeof cache_pack_mark;
    const int taken = pack.count < MOST ? pack.count : MOST;
    for (int i = 0; i < taken; i++) {
        struct cache_head head;
        FUZZ_REQUIRE(pack.bytes - at >= sizeof head);
        memcpy(&head, pack.data + at, sizeof head);
        at += sizeof head + (size_t)(head.size + head.text_bytes);
        memcpy(keys[i], head.key, sizeof head.key);
        FUZZ_REQUIRE(at <= pack.bytes && gy_cuda_pack_get(&pack, keys[i], &images[i]) == 1);
        fuzz_image(&images[i], count);
    }
    FUZZ_REQUIRE(taken < pack.count || at == pack.bytes);
    fuzz_pack_again(path, keys, images, taken);
    for (int i = 0; i < taken; i++)
        gy_cuda_image_free(&images[i]);
    gy_cuda_pack_close(&pack);
}

static void fuzz_cache(const unsigned char key[32], size_t count)
{
    struct gy_cuda_image image = { .size = 0 }, again = { .size = 0 };
    const struct gy_log log = { .fn = NULL };
    if (!gy_cuda_cache_get(fuzz_folder(), key, &image))
        return;
    fuzz_image(&image, count);
    gy_cuda_cache_put(fuzz_folder(), key, &image, &log);
    FUZZ_REQUIRE(gy_cuda_cache_get(fuzz_folder(), key, &again) == 1);
    fuzz_equal(&image, &again);
    gy_cuda_image_free(&again);
    gy_cuda_image_free(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const unsigned char key[32] = "the key of the file of the cache";
    char path[FUZZ_PATH], *const data = count > 1 ? malloc(count - 1) : NULL;
    if (!data)
        return 0;
    const int is_pack = bytes[0] & 1, is_signed = bytes[0] & 2;
    const size_t mark = sizeof cache_pack_mark;
    memcpy(data, bytes + 1, count - 1);
    if (is_signed && count - 1 > (is_pack ? mark : 0))
        fuzz_sign(data + (is_pack ? mark : 0), count - 1 - (is_pack ? mark : 0));
    char hex[65];
    gy_sha256_hex(key, hex);
    fuzz_write(fuzz_path(path, is_pack ? "kernels.pack" : hex), data, count - 1);
    free(data);
    if (is_pack)
        fuzz_pack(path, count);
    else
        fuzz_cache(key, count);
    fuzz_empty();
    return 0;
}
