/* SPDX-License-Identifier: MIT */
/* fuzz_glm_keep.c: any bytes as the checkpoint of a linear training. Two bytes say how many bytes
 * the first rank's file has, the rest is the second's. A checkpoint that is taken has finite
 * numbers, and is the same when written and read again. */
#include "engine/glm/glm_checkpoint.h"
#include "tests/fuzz_file.h"

enum { FUZZ_WIDTH = 3, FUZZ_ROWS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct fuzz_run {
    struct gy_glm_keep keep;
    float w[FUZZ_WIDTH], dual[FUZZ_ROWS];
};

static void fuzz_open(struct fuzz_run *run)
{
    static const struct gy_glm_keep_field field[] = { { "l2", "0.10000000000000001" }, { "loss", "logistic" } };
    memset(run, 0, sizeof *run);
    run->keep = (struct gy_glm_keep){ .data = 7, .seed = 3, .field = field, .fields = 2, .width = FUZZ_WIDTH, .rows = FUZZ_ROWS, .all_rows = FUZZ_ROWS,
                                      .w = run->w, .dual = run->dual };
}

static int fuzz_is_finite(const struct fuzz_run *run)
{
    int finite = 1;
    for (int i = 0; i < FUZZ_WIDTH; i++)
        finite &= isfinite(run->w[i]) != 0;
    for (int i = 0; i < FUZZ_ROWS; i++)
        finite &= isfinite(run->dual[i]) != 0;
    return finite;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    struct fuzz_run run, again;
    char path[FUZZ_PATH], second[FUZZ_PATH];
    if (count < 2)
        return 0;
    const size_t most = count - 2, first = (size_t)gy_min64(bytes[0] << 8 | bytes[1], (int64_t)most);
    fuzz_write(fuzz_path(path, "glm-0"), bytes + 2, first);
    if (most > first)
        fuzz_write(fuzz_path(second, "glm-0.1"), bytes + 2 + first, most - first);
    fuzz_open(&run);
    const int status = gy_glm_keep_read(&run.keep, path, NULL, &alloc, &err);
    FUZZ_REQUIRE(status == GY_OK || (err.status == status && strstr(err.text, path)));
    if (status == GY_OK) {
        FUZZ_REQUIRE(fuzz_is_finite(&run) && run.keep.epoch >= 0 && (run.keep.exact == 0 || run.keep.exact == 1));
        FUZZ_REQUIRE(gy_glm_keep_write(&run.keep, path, NULL, &alloc, &err) == GY_OK);
        fuzz_open(&again);
        FUZZ_REQUIRE(gy_glm_keep_read(&again.keep, path, NULL, &alloc, &err) == GY_OK && again.keep.epoch == run.keep.epoch);
        FUZZ_REQUIRE(memcmp(again.w, run.w, sizeof run.w) == 0 && memcmp(again.dual, run.dual, sizeof run.dual) == 0);
    }
    fuzz_empty();
    return 0;
}
