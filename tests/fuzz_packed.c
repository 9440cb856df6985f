/* SPDX-License-Identifier: MIT */
/* fuzz_packed.c: any bytes as a packed file. A file that opens must keep its promises: every sample
 * lies inside the bytes, has a class and a name. Checksums are not compared in this build. */
#include "io/images/data_set.h"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_file file = gy_file_of(bytes, count, "fuzz");
    struct gy_packed_view view;
    struct gy_packed_record r;
    struct gy_error err;
    if (gy_packed_parse(&file, &alloc, &view, &err) != GY_OK) {
        FUZZ_REQUIRE(err.text[0] != 0);
        return 0;
    }
    FUZZ_REQUIRE(view.count > 0 && view.classes > 0);
    for (int64_t i = 0; i < view.count; i++) {
        gy_packed_at(&view, i, &r);
        const size_t pixels = (size_t)r.h * (size_t)r.w * (size_t)view.channels;
        FUZZ_REQUIRE(r.at >= 96 && r.at + pixels <= view.index_at && pixels <= view.most_bytes && r.label >= 0 && r.label < view.classes);
        FUZZ_REQUIRE(r.h <= view.max_h && r.w <= view.max_w && r.name + strlen(r.name) < (const char *)view.index + view.index_bytes);
    }
    gy_alloc_free(&alloc, view.index, view.index_bytes);
    return 0;
}
