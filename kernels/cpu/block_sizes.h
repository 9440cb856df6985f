/* SPDX-License-Identifier: MIT */
/* block_sizes.h: block sizes of the CPU's convolutions, from a table with its sources. prepare
 * (drivers.c) fills struct gy_op.block from it where the caller left 0; drivers read nothing else.
 * Shape and sizes alone cut sums, so results have the same bits for any number of threads. */
#ifndef GY_CPU_BLOCKS_H
#define GY_CPU_BLOCKS_H
#include "kernels/backend.h"

/* Places in struct gy_op.block. */
enum gy_cpu_block {
    GY_BLOCK_STRIP, /* pixels of a work item, about; Winograd: most tiles of an item */
    GY_BLOCK_SLICE, /* taps x channels reduced before sums go to memory */
    GY_BLOCK_ITEMS, /* work items wanted; panels or (weight gradient) pixels are split for it */
    GY_BLOCK_KEEP, /* floats an item keeps near: of dw, or of transformed tiles (Winograd) */
    GY_BLOCK_ROWS,  /* weight gradient: output channels of an item */
    GY_CPU_BLOCKS
};
GY_STATIC_ASSERT((int)GY_CPU_BLOCKS <= GY_OP_BLOCKS, cpu_blocks);

#define GY_BLOCK_ROWS_MOST 512 /* upper end of GY_BLOCK_ROWS */

/* Fills the places of op->block that are 0 and brings the others into their ranges. set: the kernel
 * set's name. op->variant must be chosen. */
GY_INT void gy_cpu_blocks_choose(struct gy_op *op, const char *set);
/* As backend.h says. */
GY_INT const struct gy_block_info *gy_cpu_block_info(int place);
#ifndef GY_NO_TUNING
GY_INT int gy_cpu_block_tries(const struct gy_op *op, int place, int any_order, int32_t values[GY_BLOCK_TRIES]);
#endif

#endif
