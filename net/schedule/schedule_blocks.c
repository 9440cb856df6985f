/* SPDX-License-Identifier: MIT */
/* schedule_blocks.c: the order of a balanced tree over any number of ranks, as shards are dealt to
 * them (engine/job/deal.c). comm.c takes it for jobs that survive lost ranks. With 2^k <= ranks <
 * 2^(k+1) there are 2^k blocks. The first ranks have a block each; of the others two share one. Up
 * that tree each rank sends what it has to the first rank of the next branch; the sum returns the
 * same way. For a power of two it is the order of halving and doubling.
 *
 *     5 ranks, 4 blocks:  0   1   2   3 4        3 <- 4;  0 <- 1, 2 <- 3;  0 <- 2 */
#include "net/schedule/builders.h"

/* Half blocks before rank r of `ranks`. Half blocks are the leaves of the tree. */
static int blocks_first(int ranks, int r)
{
    int blocks = 1;
    while (blocks * 2 <= ranks)
        blocks *= 2;
    const int whole = 2 * blocks - ranks;
    return r < whole ? 2 * r : whole + r;
}

/* Ranks of the left branch of [lo, lo + count). */
static int blocks_left(int ranks, int lo, int count)
{
    const int first = blocks_first(ranks, lo), leaves = blocks_first(ranks, lo + count) - first;
    int half = 1, left = 1;
    while (half * 2 < leaves)
        half *= 2;
    while (left + 1 < count && blocks_first(ranks, lo + left) - first < half)
        left++;
    return left;
}

/* Levels of the tree over [lo, lo + count). */
static int blocks_height(int ranks, int lo, int count)
{
    if (count == 1)
        return 0;
    const int left = blocks_left(ranks, lo, count);
    const int a = blocks_height(ranks, lo, left);
    const int b = blocks_height(ranks, lo + left, count - left);
    return 1 + (a > b ? a : b);
}

/* The messages of this branch: sums go up, the deepest first; results come down in later rounds.
 * depth: of the branch; all: levels of the whole tree. */
static void blocks_moves(struct gy_net_schedule *s, int lane, int lo, int count, int depth, int all)
{
    if (count == 1)
        return;
    const int left = blocks_left(s->ranks, lo, count);
    gy_net_move(s, lane, all - 1 - depth, lo + left, lo, GY_NET_ADD, lane, 1);
    gy_net_move(s, lane, all + depth, lo, lo + left, GY_NET_RECV, lane, 1);
    blocks_moves(s, lane, lo, left, depth + 1, all);
    blocks_moves(s, lane, lo + left, count - left, depth + 1, all);
}

GY_INT int gy_net_build_blocks(struct gy_net_schedule *out, const struct gy_net_shape *shape,
                               int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    const int all = blocks_height(shape->ranks, 0, shape->ranks);
    gy_net_open_schedule(out, alloc, "blocks", goal, shape->ranks, shape->lanes, shape->lanes);
    out->dim_count = 1;
    out->dims[0] = shape->ranks;
    for (int lane = 0; lane < shape->lanes; lane++)
        blocks_moves(out, lane, 0, shape->ranks, 0, all);
    return gy_net_finish(out, err);
}
