/* SPDX-License-Identifier: MIT */
/* fuzz_metrics.c: any bytes as the metrics.csv of a resumed run. The first byte is the step of its
 * checkpoint, the rest is the file. A file that is taken keeps its whole rows of steps up to that
 * one, and no other, by a second reader. It takes a new row, is drawn, and opens the same once
 * more. */
#include "engine/train/train_files.h"
#include "tests/fuzz_file.h"

static const char fuzz_header[] = "step,epoch,loss,accuracy,test_loss,test_accuracy,test_top5,rate,images_per_second\n";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Reads the step of a row, a number up to a comma or the row's end; -1: there is none. *odd is set
 * if a reader may parse the number differently. */
static int64_t fuzz_step(const uint8_t *at, const uint8_t *end, int *odd)
{
    const uint8_t *const sign = at, *digit = at + (at < end && (*at == '+' || *at == '-'));
    int64_t step = 0;
    const uint8_t *const first = digit;
    for (; digit < end && *digit >= '0' && *digit <= '9' && digit - first < 18; digit++)
        step = step * 10 + (*digit - '0');
    const int whole = digit > first && (digit == end || *digit == ',');
    *odd |= digit - first == 18 || (digit < end && *digit == 0);
    return whole && (*sign != '-' || step == 0) ? step : -1;
}

/* Makes the file that must be left: the header, and the input's whole rows of steps up to keep.
 * Returns 0 if the file is not to be compared. */
static int fuzz_kept(struct gy_buf *kept, const uint8_t *bytes, size_t count, int64_t keep)
{
    const uint8_t *const end = bytes + count, *line = memchr(bytes, '\n', count), *next;
    int odd = 0;
    gy_buf_add(kept, fuzz_header, sizeof fuzz_header - 1);
    for (line = line ? line + 1 : end; line < end && (next = memchr(line, '\n', (size_t)(end - line))); line = next + 1) {
        const int64_t step = fuzz_step(line, next, &odd);
        if (step >= 0 && step <= keep)
            gy_buf_add(kept, (const char *)line, (size_t)(next + 1 - line));
    }
    return !odd && !kept->failed;
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
        size_t bytes_left;
        struct gy_buf kept;
        gy_buf_open(&kept, &alloc);
        char *const text = fuzz_read(path, &bytes_left);
        if (fuzz_kept(&kept, bytes + 1, count - 1, bytes[0]))
            FUZZ_REQUIRE(bytes_left == kept.bytes && memcmp(text, kept.text, bytes_left) == 0);
        gy_buf_close(&kept);
        FUZZ_REQUIRE(gy_run_files_close(&files, &err) == GY_OK);
        char *const again = fuzz_go_on(&files, &alloc, bytes[0], path);
        FUZZ_REQUIRE(memcmp(text, again, bytes_left + 1) == 0);
        fuzz_row_and_curve(&files, bytes[0]);
        free(again);
        free(text);
    }
    (void)gy_run_files_close(&files, &err);
    fuzz_empty();
    return 0;
}
