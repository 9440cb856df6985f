/* SPDX-License-Identifier: MIT */
/* fuzz_rows.c: any bytes as text of rows; the first byte chooses format and settings. Converted
 * rows must keep their promises: as many rows and entries as the report says, finite labels and
 * values, ids below the number of features. A text that is well formed when read strictly gives the
 * same blocks leniently. Pieces of text are short in this build, so that lines begin in one and end
 * in the next. */
#include "io/rows/rows_text.h"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void fuzz_check_block(const struct gy_rows *rows, const struct gy_blocks_info *info)
{
    for (int32_t i = 0; i < rows->count; i++) {
        FUZZ_REQUIRE(isfinite(rows->label[i]));
        for (uint32_t k = gy_rows_begin(rows, i); k < gy_rows_end(rows, i); k++) {
            FUZZ_REQUIRE(rows->id[k] < info->features && (k == gy_rows_begin(rows, i) || rows->id[k] > rows->id[k - 1]));
            FUZZ_REQUIRE(isfinite(rows->value ? rows->value[k] : rows->same));
        }
    }
}

static void fuzz_check_blocks(const struct gy_blocks *blocks, const struct gy_convert_report *report)
{
    struct gy_blocks_info info;
    struct gy_error err;
    struct gy_rows rows;
    int64_t count = 0, entries = 0;
    gy_blocks_get_info(blocks, &info);
    const struct gy_blocks_room room = { malloc(gy_blocks_room_bytes(blocks, -1)), gy_blocks_room_bytes(blocks, -1) };
    for (int64_t i = 0; i < info.blocks; i++) {
        FUZZ_REQUIRE(gy_blocks_read(blocks, i, &room, &rows, &err) == GY_OK && rows.first == count);
        fuzz_check_block(&rows, &info);
        count += rows.count;
        entries += gy_rows_end(&rows, rows.count - 1);
    }
    free(room.memory);
    FUZZ_REQUIRE(count == report->rows && entries == report->entries && count == info.rows && entries == info.entries && count > 0);
}

/* The hash over the blocks; 0 when the text is refused. */
static uint64_t fuzz_convert(struct gy_convert_config *config, int lenient, const struct gy_rows_bytes *bytes)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_convert_report report;
    struct gy_blocks *blocks = NULL;
    struct gy_blocks_info info;
    struct gy_error err;
    config->lenient = lenient;
    err.text[0] = 0;
    if (gy_convert_bytes(&blocks, config, bytes, &alloc, &report, &err) != GY_OK) {
        FUZZ_REQUIRE(err.text[0] != 0 && err.status != GY_E_BUG && err.status != GY_E_ARG);
        return 0;
    }
    fuzz_check_blocks(blocks, &report);
    gy_blocks_get_info(blocks, &info);
    gy_blocks_close(blocks);
    return info.id;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const formats[] = { "svmlight", "libffm", "criteo", "csv", NULL };
    const unsigned how = count > 0 ? bytes[0] : 0;
    struct gy_convert_config config;
    memset(&config, 0, sizeof config);
    config.format = formats[how % 5];
    config.zero_based = how >> 4 & 1;
    config.hash_bits = (how >> 5 & 1) != 0 && how % 5 < 3 ? 9 : 0;
    config.label_column = how >> 6 & 1 ? 0 : -1;
    config.header = how >> 7 & 1 ? -1 : 0;
    config.block_rows = 3;
    const struct gy_rows_bytes text = { "fuzz", bytes + (count > 0), count - (count > 0) };
    const uint64_t strict = fuzz_convert(&config, 0, &text), lenient = fuzz_convert(&config, 1, &text);
    FUZZ_REQUIRE(strict == 0 || strict == lenient);
    return 0;
}
