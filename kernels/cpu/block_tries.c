/* SPDX-License-Identifier: MIT */
/* block_tries.c: lists block sizes to try for an op, from a table of values by driver. Only `gyre
 * tune` asks (cpu_backend.c's lab); builds with GY_NO_TUNING lack this file. Unless any order of
 * sums is allowed, the list has only sizes that leave every bit of the result. */
#include "kernels/cpu/block_sizes.h"

#ifndef GY_NO_TUNING

struct blocks_try_row {
    const char *variant;
    int code, place; /* code -1: any */
    int32_t value[GY_BLOCK_TRIES]; /* 0 ends */
};
static const struct blocks_try_row blocks_try_rows[] = {
    {"gemm", -1, GY_BLOCK_STRIP, {84, 126, 168, 252, 336, 504}},
    {"gemm", -1, GY_BLOCK_SLICE, {128, 192, 256, 384, 512}},
    {"gemm", -1, GY_BLOCK_ITEMS, {8, 16, 24, 48, 96}},
    {"outer", -1, GY_BLOCK_STRIP, {96, 144, 192, 252, 384, 512}},
    {"outer", -1, GY_BLOCK_KEEP, {16384, 32768, 65536, 131072, 262144, 524288}},
    {"outer", -1, GY_BLOCK_ROWS, {64, 128, 256, 512}},
    {"outer", -1, GY_BLOCK_ITEMS, {8, 16, 32, 64}},
    {"winograd4", GY_OP_CONV, GY_BLOCK_STRIP, {12, 18, 24, 36, 48, 64}},
    {"winograd4", GY_OP_CONV_DGRAD, GY_BLOCK_STRIP, {12, 18, 24, 36, 48, 64}},
    {"winograd4", GY_OP_CONV, GY_BLOCK_ITEMS, {4, 8, 16, 32}},
    {"winograd4", GY_OP_CONV_DGRAD, GY_BLOCK_ITEMS, {4, 8, 16, 32}},
    {"winograd4", GY_OP_CONV_WGRAD, GY_BLOCK_ITEMS, {8, 16, 32}},
    {"winograd7", GY_OP_CONV, GY_BLOCK_STRIP, {8, 9, 18, 36, 54}},
    {"winograd7", GY_OP_CONV_DGRAD, GY_BLOCK_STRIP, {8, 9, 18, 36, 54}},
    {"winograd7", GY_OP_CONV, GY_BLOCK_ITEMS, {4, 8, 16, 32}},
    {"winograd7", GY_OP_CONV_DGRAD, GY_BLOCK_ITEMS, {4, 8, 16, 32}},
    {"winograd7", GY_OP_CONV_WGRAD, GY_BLOCK_ITEMS, {8, 16, 32}},
};

/* 1: the size also moves the places where sums begin anew; 0: it only cuts work. Cuts of pixels
 * move statistics, which are merged item by item. bf16 pairs of pixels count from a strip's begin.
 * Parts of a weight gradient are added. A slice of channels has its own sum. */
static int blocks_moves_sums(const struct gy_op *op, int place)
{
    const int grad = op->code == GY_OP_CONV_WGRAD;
    if (place == GY_BLOCK_STRIP)
        return grad ? op->dtype == GY_BF16 : op->tensor[GY_STATS] >= 0;
    return place == GY_BLOCK_SLICE || (place == GY_BLOCK_ITEMS && grad);
}

GY_INT int gy_cpu_block_tries(const struct gy_op *op, int place, int any_order, int32_t values[GY_BLOCK_TRIES])
{
    const int pass = op->code == GY_OP_CONV || op->code == GY_OP_CONV_DGRAD || op->code == GY_OP_CONV_WGRAD;
    int count = 0;
    if (!pass || (blocks_moves_sums(op, place) && !any_order))
        return 0;
    for (size_t i = 0; i < GY_COUNT(blocks_try_rows); i++) {
        const struct blocks_try_row *row = &blocks_try_rows[i];
        if (row->place != place || strcmp(row->variant, op->variant) != 0 || (row->code >= 0 && row->code != op->code))
            continue;
        for (int j = 0; j < GY_BLOCK_TRIES && row->value[j] != 0; j++)
            values[count++] = row->value[j];
        break;
    }
    return count;
}

#endif
