/* SPDX-License-Identifier: MIT */
/* fuzz_idx.c: any bytes as an IDX file, plain or in .gz wrapping. An accepted file must fill
 * exactly the bytes given. */
#include "io/images/data_set.h"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void fuzz_idx_bytes(const unsigned char *bytes, size_t count)
{
    struct gy_idx_view view;
    struct gy_error err;
    if (gy_idx_parse(bytes, count, "fuzz", &view, &err) != GY_OK) {
        FUZZ_REQUIRE(err.text[0] != 0);
        return;
    }
    FUZZ_REQUIRE(view.dims >= 1 && view.dims <= 4);
    const int64_t cells = view.shape[0] * view.shape[1] * view.shape[2] * view.shape[3];
    FUZZ_REQUIRE(view.at >= 8 && view.at + (size_t)cells == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err;
    unsigned char *out = NULL;
    size_t out_bytes = 0;
    fuzz_idx_bytes(bytes, count);
    const int status = gy_gzip_read(&alloc, bytes, count, "fuzz.gz", (size_t)1 << 22, &out, &out_bytes, &err);
    FUZZ_REQUIRE((status == GY_OK) == (out != NULL));
    if (status == GY_OK)
        fuzz_idx_bytes(out, out_bytes);
    gy_alloc_free(&alloc, out, out_bytes);
    return 0;
}
