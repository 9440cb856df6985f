/* SPDX-License-Identifier: MIT */
/* Fuzz target: any bytes as the metrics.csv of a run that goes on. The first byte is the step of its checkpoint, the rest is the file. A file that
 * is taken keeps whole rows of steps up to that one, in their order; it takes a new row, is drawn, and opens the same once more. */
#include "../engine/train.h"
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Every line of the file but its first is one of the input, in the same order. */
static void fuzz_kept(const char *text, const uint8_t *bytes, size_t count)
{
    const char *line = text + strcspn(text, "\n");
    size_t at = 0;
    FUZZ_REQUIRE(*line++ == '\n');
    while (*line) {
        const size_t length = strcspn(line, "\n") + 1;
        while (at + length <= count && memcmp(bytes + at, line, length) != 0)
            at++;
        FUZZ_REQUIRE(at + length <= count);
        at += length;
        line += length;
    }
}

static char *fuzz_go_on(struct gy_run_files *files, const struct gy_alloc *alloc, int64_t step, const char *path)
{
    struct gy_error err = { 0 };
    size_t bytes;
    FUZZ_REQUIRE(gy_run_files_open(files, alloc, fuzz_folder(), step, &err) == GY_OK);
    return fuzz_read(path, &bytes);
}

static void fuzz_row_and_curve(struct gy_run_files *files, int64_t step)
{
    const struct gy_run_row row = { .step = step + 1, .samples = 8, .epoch = 1, .loss = 0.5, .accuracy = 0.25, .rate = 0.1, .images_per_second = 1e4 };
    struct gy_error err = { 0 };
    char path[FUZZ_PATH];
    FUZZ_REQUIRE(gy_run_files_row(files, &row, &err) == GY_OK && gy_run_files_curve(files, 3, &err) == GY_OK);
    FUZZ_REQUIRE(gy_file_exists(fuzz_path(path, "curve.svg")) == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_run_files files;
    struct gy_error err = { 0 };
    char path[FUZZ_PATH];
    if (count < 1)
        return 0;
    fuzz_write(fuzz_path(path, "metrics.csv"), bytes + 1, count - 1);
    const int status = gy_run_files_open(&files, &alloc, fuzz_folder(), bytes[0], &err);
    FUZZ_REQUIRE(status == GY_OK || (err.status == status && strstr(err.text, "metrics.csv")));
    if (status == GY_OK) {
        size_t kept;
        char *const text = fuzz_read(path, &kept);
        if (strlen(text) == kept)
            fuzz_kept(text, bytes + 1, count - 1);
        FUZZ_REQUIRE(gy_run_files_close(&files, &err) == GY_OK);
        char *const again = fuzz_go_on(&files, &alloc, bytes[0], path);
        FUZZ_REQUIRE(strcmp(text, again) == 0);
        fuzz_row_and_curve(&files, bytes[0]);
        free(again);
        free(text);
    }
    (void)gy_run_files_close(&files, &err);
    fuzz_empty();
    return 0;
}
