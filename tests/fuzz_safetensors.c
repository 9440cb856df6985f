/* SPDX-License-Identifier: MIT */
/* fuzz_safetensors.c: any bytes as a safetensors file. A file that opens must keep its promises:
 * every tensor lies inside the bytes, is found by its name, and can be read. */
#include "io/safetensors.h"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void fuzz_tensor(const struct gy_st_file *file, int index, const uint8_t *bytes, size_t count)
{
    const struct gy_st_tensor *tensor = gy_st_at(file, index);
    float real[16];
    struct gy_error err;
    FUZZ_REQUIRE(gy_st_find(file, tensor->name) == tensor);
    FUZZ_REQUIRE(tensor->data >= bytes + 8 && tensor->bytes <= (size_t)(bytes + count - tensor->data));
    const int64_t part = gy_min64(16, tensor->count);
    (void)gy_st_read_f32(tensor, tensor->count - part, part, real, &err);
    FUZZ_REQUIRE(gy_st_read_f32(tensor, tensor->count, 1, real, &err) != GY_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_st_file *file = NULL;
    struct gy_error err;
    const int status = gy_st_parse(&file, &alloc, bytes, count, "fuzz", &err);
    FUZZ_REQUIRE(status == GY_OK || (!file && err.status == status && err.text[0] != 0));
    if (status != GY_OK)
        return 0;
    for (int i = 0; i < gy_st_count(file); i++)
        fuzz_tensor(file, i, bytes, count);
    for (int i = 0; i < gy_st_meta_count(file); i++)
        FUZZ_REQUIRE(gy_st_meta(file, gy_st_meta_key(file, i)) != NULL);
    gy_st_close(file);
    return 0;
}
