/* SPDX-License-Identifier: MIT */
/* fuzz_cifar.c: any bytes as a file of CIFAR's records, and as the names of its classes. The first
 * byte chooses CIFAR-10 or CIFAR-100 and whether there are names, the second how many bytes the
 * names have. The rest is the records. A file that opens has whole records of known classes. */
#include "io/images/data.h"
#include "tests/fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void fuzz_samples(struct gy_data *data, struct gy_decoder *decoder)
{
    char name[64];
    for (int64_t i = 0; i < gy_data_count(data); i++) {
        struct gy_image image;
        unsigned sum = 0;
        FUZZ_REQUIRE(gy_data_label(data, i) >= 0 && gy_data_label(data, i) < gy_data_classes(data));
        FUZZ_REQUIRE(gy_data_read(data, i, decoder, &image, NULL) == GY_OK && image.h == 32 && image.w == 32 && image.c == 3);
        for (int k = 0; k < 32 * 32 * 3; k++)
            sum += image.pixels[k];
        FUZZ_REQUIRE(sum <= 255u * 32 * 32 * 3 && gy_data_sample_name(data, i, name, sizeof name)[0] != 0);
    }
    for (int32_t c = 0; c < gy_data_classes(data); c++)
        FUZZ_REQUIRE(gy_data_class_name(data, c)[0] != 0 && !strpbrk(gy_data_class_name(data, c), "\r\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct gy_decoder *decoder;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct gy_data *data = NULL;
    char path[FUZZ_PATH];
    if (count < 2 || (!decoder && gy_decoder_open(&decoder, &alloc, (size_t)1 << 20, &err) != GY_OK))
        return 0;
    const int fine = bytes[0] & 1;
    const size_t rest = count - 2, names = bytes[1] < rest ? bytes[1] : rest, record = fine ? 3074 : 3073;
    if (bytes[0] & 2)
        fuzz_write(fuzz_path(path, fine ? "fine_label_names.txt" : "batches.meta.txt"), bytes + 2, names);
    fuzz_write(fuzz_path(path, fine ? "test.bin" : "test_batch.bin"), bytes + 2 + names, rest - names);
    const struct gy_data_config config = { .alloc = &alloc, .path = fuzz_folder(), .split = "test" };
    const int status = gy_data_open(&data, &config, &err);
    FUZZ_REQUIRE(status == GY_OK || (!data && err.status == status && err.text[0] != 0));
    if (status == GY_OK) {
        FUZZ_REQUIRE((size_t)gy_data_count(data) * record == rest - names && gy_data_classes(data) == (fine ? 100 : 10));
        fuzz_samples(data, decoder);
    }
    gy_data_close(data);
    fuzz_empty();
    return 0;
}
