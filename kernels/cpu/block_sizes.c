/* SPDX-License-Identifier: MIT */
/* block_sizes.c: the table of block sizes of convolutions, by which drivers.c prepares an op. The
 * first row that fits an op and has a size gives it, so narrow rows precede wide ones. Each row
 * names its source. Sizes that `gyre tune` measured on the machine come before the table. */
#include "kernels/cpu/block_sizes.h"

enum blocks_class { BLOCKS_ANY, BLOCKS_1X1 /* filters of one tap */, BLOCKS_TAPS /* of several */ };

struct blocks_row {
    const char *set;       /* prefix of the kernel set's name; NULL: any */
    int code;              /* enum gy_opcode, -1: any */
    const char *variant;   /* NULL: any */
    int dtype;             /* -1: any */
    int shape;             /* enum blocks_class */
    int32_t size[GY_CPU_BLOCKS]; /* 0: a later row has it */
    const char *source;
};

static const char blocks_zen4[] = "AMD EPYC (Zen 4), 2 cores, gcc 12; 2026-11; bench_conv resnet50 16";
static const char blocks_tuned[] = "AMD EPYC (Zen 4), 2 cores, gcc 12; 2026-11-21; gyre tune resnet50 --batch 16, twice";
static const char blocks_turns[] = "AMD EPYC (Zen 4), 2 cores, gcc 12; 2026-11-22; layers of resnet50 --batch 32, alternated";
static const char blocks_zen5[] = "AMD EPYC (Zen 5), 2 cores, gcc 12; 2026-11-22; layers of resnet50 --batch 16, alternated";
static const char blocks_guess[] = "not measured: as on AVX2";

/* set, op, kernel, dtype, shape, {strip, slice, items, keep, rows}, source */
static const struct blocks_row blocks_rows[] = {
    {NULL, GY_OP_CONV_WGRAD, "winograd4", -1, BLOCKS_ANY, {0, 0, 16, 0, 0}, blocks_zen4},
    {NULL, GY_OP_CONV_WGRAD, "winograd7", -1, BLOCKS_ANY, {0, 0, 16, 0, 0}, blocks_zen4},
    {NULL, -1, "winograd4", -1, BLOCKS_ANY, {18, 256, 8, 1048576, 0}, blocks_zen4},
    {NULL, -1, "winograd7", -1, BLOCKS_ANY, {18, 256, 8, 1048576, 0}, blocks_zen4},
    {"avx512", -1, "gemm", GY_F32, BLOCKS_1X1, {0, 512, 0, 0, 0}, blocks_tuned},
    {"avx2", -1, "gemm", GY_F32, BLOCKS_1X1, {0, 512, 0, 0, 0}, blocks_zen5},
    {"avx", -1, "gemm", -1, BLOCKS_TAPS, {0, 512, 0, 0, 0}, blocks_turns},
    {"avx512", GY_OP_CONV_WGRAD, "outer", GY_BF16, BLOCKS_TAPS, {0, 0, 0, 524288, 0}, blocks_turns},
    {"avx512", GY_OP_CONV_WGRAD, "outer", GY_F32, BLOCKS_ANY, {96, 0, 0, 65536, 0}, blocks_zen5},
    {"avx512", GY_OP_CONV_WGRAD, "outer", GY_BF16, BLOCKS_1X1, {192, 0, 0, 65536, 0}, blocks_zen5},
    {"avx512", GY_OP_CONV_WGRAD, "outer", GY_F32, BLOCKS_ANY, {0, 0, 16, 0, 256}, blocks_turns},
    {"avx512", GY_OP_CONV_WGRAD, "outer", GY_BF16, BLOCKS_ANY, {384, 0, 16, 131072, 256}, blocks_turns},
    {"avx2", GY_OP_CONV_WGRAD, "outer", GY_F32, BLOCKS_1X1, {384, 0, 0, 65536, 0}, blocks_zen5},
    {"avx2", GY_OP_CONV_WGRAD, "outer", GY_F32, BLOCKS_ANY, {0, 0, 0, 131072, 256}, blocks_turns},
    {NULL, GY_OP_CONV_WGRAD, NULL, -1, BLOCKS_ANY, {0, 0, 32, 32768, 128}, blocks_zen4},
    {"avx512", -1, NULL, -1, BLOCKS_ANY, {252, 256, 24, 0, 0}, blocks_zen4},
    {"avx2", -1, NULL, -1, BLOCKS_ANY, {192, 256, 24, 0, 0}, blocks_zen4},
    {NULL, -1, NULL, -1, BLOCKS_ANY, {192, 256, 24, 32768, 128}, blocks_guess},
};

/* ORDER: enum gy_cpu_block. Upper ends keep scratch small and lie inside the drivers' arrays. */
static const struct gy_block_info blocks_info[GY_CPU_BLOCKS] = {
    {"strip", 8, 4096}, {"slice", 16, 512}, {"items", 1, 256}, {"keep", 1024, 2097152}, {"rows", 8, GY_BLOCK_ROWS_MOST},
};

GY_INT const struct gy_block_info *gy_cpu_block_info(int place)
{
    return place >= 0 && place < GY_CPU_BLOCKS ? &blocks_info[place] : NULL;
}

static int blocks_is_pass(const struct gy_op *op)
{
    return op->code == GY_OP_CONV || op->code == GY_OP_CONV_DGRAD || op->code == GY_OP_CONV_WGRAD;
}

static int blocks_fits(const struct blocks_row *row, const struct gy_op *op, const char *set)
{
    const int shape = op->geom.r * op->geom.s == 1 ? BLOCKS_1X1 : BLOCKS_TAPS;
    return (!row->set || strncmp(row->set, set, strlen(row->set)) == 0) && (row->code < 0 || row->code == op->code) &&
           (!row->variant || strcmp(row->variant, op->variant) == 0) && (row->dtype < 0 || row->dtype == op->dtype) &&
           (row->shape == BLOCKS_ANY || row->shape == shape);
}

GY_INT void gy_cpu_blocks_choose(struct gy_op *op, const char *set)
{
    if (!blocks_is_pass(op))
        return;
    for (size_t i = 0; i < GY_COUNT(blocks_rows); i++)
        for (int b = 0; b < GY_CPU_BLOCKS && blocks_fits(&blocks_rows[i], op, set); b++)
            if (op->block[b] == 0)
                op->block[b] = blocks_rows[i].size[b];
    for (int b = 0; b < GY_CPU_BLOCKS; b++)
        op->block[b] = (int32_t)gy_max64(gy_min64(op->block[b], blocks_info[b].hi), blocks_info[b].lo);
}
