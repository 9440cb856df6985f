/* SPDX-License-Identifier: MIT */
/* fuzz_tuned.c: any bytes as a file of measured block sizes. A table that is read has rows of sizes
 * inside their ranges; written and read again it has the same rows. */
#include "kernels/op_table.h"
#include "engine/plan/tuning_file.h"
#include "tests/fuzz_file.h"

#define FUZZ_WRITTEN ((size_t)1 << 20) /* bytes of a file that is read again */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void fuzz_row(const struct gy_tuned_row *row, const struct gy_backend *backend)
{
    const struct gy_block_info *info;
    FUZZ_REQUIRE(row->machine[0] && row->set[0] && row->source && row->variant && row->gain >= 0 && row->gain <= 1e6);
    FUZZ_REQUIRE(strlen(row->kernel) == 0 || strcmp(row->kernel, "any") == 0 || strlen(row->kernel) == 12);
    for (int place = 0; place < GY_OP_BLOCKS && (info = backend->lab->block(place)); place++)
        FUZZ_REQUIRE(row->block[place] == 0 || (row->block[place] >= info->lo && row->block[place] <= info->hi));
    FUZZ_REQUIRE(row->geom.n >= 1 && row->geom.h >= 1 && row->geom.stride_h >= 1 && row->geom.pad_w >= 0 && row->geom.groups >= 1);
}

static void fuzz_same(const struct gy_tuned_row *a, const struct gy_tuned_row *b)
{
    FUZZ_REQUIRE(strcmp(a->machine, b->machine) == 0 && strcmp(a->set, b->set) == 0 && strcmp(a->source, b->source) == 0);
    FUZZ_REQUIRE(strcmp(a->variant, b->variant) == 0 && strcmp(a->kernel, b->kernel) == 0 && a->code == b->code && a->dtype == b->dtype);
    FUZZ_REQUIRE(a->stats == b->stats && memcmp(a->block, b->block, sizeof a->block) == 0 && fabs(a->gain - b->gain) <= 0.0006);
    FUZZ_REQUIRE(a->geom.n == b->geom.n && a->geom.k == b->geom.k && a->geom.groups == b->geom.groups && a->geom.dil_w == b->geom.dil_w);
}

static void fuzz_again(const struct gy_tuned *tuned, const struct gy_caps *caps, const char *path)
{
    struct gy_tuned again;
    struct gy_error err = { 0 };
    size_t bytes;
    FUZZ_REQUIRE(gy_tuned_write(tuned, path, &err) == GY_OK);
    char *text = fuzz_read(path, &bytes);
    free(text);
    if (bytes > FUZZ_WRITTEN)
        return;
    FUZZ_REQUIRE(gy_tuned_read(&again, path, &tuned->alloc, tuned->backend, caps, &err) == GY_OK);
    FUZZ_REQUIRE(again.count == tuned->count && again.others == tuned->others);
    for (int i = 0; i < again.count; i++)
        fuzz_same(&tuned->rows[i], &again.rows[i]);
    gy_tuned_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_caps caps = { .machine = "A processor", .set = "avx2" };
    struct gy_tuned tuned;
    struct gy_error err = { 0 };
    char path[FUZZ_PATH];
    fuzz_write(fuzz_path(path, "tune.txt"), bytes, count);
    const int status = gy_tuned_read(&tuned, path, &alloc, gy_cpu_backend(), &caps, &err);
    FUZZ_REQUIRE(status == GY_OK || (err.status == status && strncmp(err.text, path, strlen(path)) == 0));
    if (status != GY_OK)
        return 0;
    for (int i = 0; i < tuned.count; i++)
        fuzz_row(&tuned.rows[i], tuned.backend);
    fuzz_again(&tuned, &caps, path);
    gy_tuned_close(&tuned);
    return 0;
}
