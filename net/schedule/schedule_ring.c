/* SPDX-License-Identifier: MIT */
/* schedule_ring.c: rings, for schedule_dims.c and schedule_hosts.c. Scatter: in every round each
 * member sends one block to its successor, which adds its own. A block passes all members once and
 * ends, complete, at its owner. Gather: complete blocks go round the same way. n members, n - 1
 * rounds each.
 *
 *     round 0   0 -> 1 -> 2 -> 3 -> 0     member m sends block m - 1 - t, receives and adds block
 *     round 1   ...                       m - 2 - t; after t = n - 2 it holds block m
 *
 * Time n - 1 latencies, (n - 1) / n of the bytes: right for large buffers. (Patarasuk and Yuan
 * 2009.) */
#include "net/schedule/schedule.h"

static int ring_rank(const struct gy_net_group *g, int member)
{
    return g->rank[member % g->members];
}

static int32_t ring_block(const struct gy_net_group *g, int member)
{
    return g->piece + member % g->members * g->block;
}

GY_INT int gy_net_ring_scatter(struct gy_net_schedule *s, const struct gy_net_group *g, int round)
{
    const int n = g->members;
    for (int t = 0; t < n - 1; t++)
        for (int m = 0; m < n; m++)
            gy_net_move(s, g->lane, round + t, ring_rank(g, m), ring_rank(g, m + 1), GY_NET_ADD, ring_block(g, m + 2 * n - 1 - t),
                        g->block);
    return round + n - 1;
}

GY_INT int gy_net_ring_gather(struct gy_net_schedule *s, const struct gy_net_group *g, int round)
{
    const int n = g->members;
    for (int t = 0; t < n - 1; t++)
        for (int m = 0; m < n; m++)
            gy_net_move(s, g->lane, round + t, ring_rank(g, m), ring_rank(g, m + 1), GY_NET_RECV, ring_block(g, m + n - t), g->block);
    return round + n - 1;
}
