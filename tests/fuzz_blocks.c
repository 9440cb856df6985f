/* SPDX-License-Identifier: MIT */
/* fuzz_blocks.c: any bytes as a block file. A file that opens must keep its promises: labels rise
 * and are all rows' labels. Every block is refused with a sentence or has the rows that the index
 * says. Their arrays can be read whole and their ids rise below the number of features. Checksums
 * are not compared in this build. */
#include "io/rows/blocks.h"
#include "io/rows/blocks_file.h"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void fuzz_check_rows(const struct gy_rows *rows, const struct gy_blocks_info *info)
{
    float sum = 0; /* every number is read */
    volatile float kept;
    FUZZ_REQUIRE(rows->count > 0 && (rows->width > 0) == (!rows->start));
    for (int32_t i = 0; i < rows->count; i++) {
        const uint32_t begin = gy_rows_begin(rows, i), end = gy_rows_end(rows, i);
        FUZZ_REQUIRE(begin <= end);
        sum += rows->label[i] + (rows->weight ? rows->weight[i] : 1);
        for (uint32_t k = begin; k < end; k++) {
            FUZZ_REQUIRE(rows->id[k] < info->features && (k == begin || rows->id[k] > rows->id[k - 1]));
            sum += rows->value ? rows->value[k] : rows->same;
        }
    }
    kept = sum;
    (void)kept;
}

static void fuzz_check_info(const struct gy_blocks_info *info)
{
    int64_t rows = 0;
    for (int32_t i = 0; i < info->classes; i++) {
        FUZZ_REQUIRE(isfinite(info->label[i]) && (i == 0 || info->label[i] > info->label[i - 1]));
        rows += info->label_rows[i];
    }
    FUZZ_REQUIRE(info->classes == 0 || rows == info->rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *blocks = NULL;
    struct gy_blocks_info info;
    struct gy_error err;
    err.text[0] = 0;
    if (gy_blocks_open_memory(&blocks, bytes, count, "fuzz", &alloc, NULL, 0, &err) != GY_OK) {
        FUZZ_REQUIRE(err.text[0] != 0);
        return 0;
    }
    gy_blocks_get_info(blocks, &info);
    fuzz_check_info(&info);
    const struct gy_blocks_room room = { malloc(gy_blocks_room_bytes(blocks, -1)), gy_blocks_room_bytes(blocks, -1) };
    for (int64_t i = 0; i < info.blocks; i++) {
        struct gy_rows rows;
        int32_t count_said;
        int64_t entries_said;
        gy_blocks_size(blocks, i, &count_said, &entries_said);
        if (gy_blocks_read(blocks, i, &room, &rows, &err) != GY_OK)
            continue;
        fuzz_check_rows(&rows, &info);
        FUZZ_REQUIRE(rows.count == count_said && gy_rows_end(&rows, rows.count - 1) == entries_said);
    }
    free(room.memory);
    gy_blocks_close(blocks);
    return 0;
}
