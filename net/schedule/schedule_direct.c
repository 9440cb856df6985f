/* SPDX-License-Identifier: MIT */
/* schedule_direct.c: direct exchange, for schedule_dims.c. Every member sends every other one the
 * block that the other owns, all at once. Owner m adds what arrives in the order m - 1, m - 2, ...
 * Gather: every owner sends its block to all.
 *
 *     m  ->  m + 1, m + 2, ...     n - 1 messages of one round
 *
 * The same bytes as a ring, one message deep instead of n - 1: right for few members on a switched
 * network. */
#include "net/schedule/schedule.h"

static void direct_exchange(struct gy_net_schedule *s, const struct gy_net_group *g, int round, int kind)
{
    const int n = g->members;
    for (int t = 1; t < n; t++)
        for (int m = 0; m < n; m++) {
            const int to = (m + t) % n, owner = kind == GY_NET_ADD ? to : m;
            gy_net_move(s, g->lane, round, g->rank[m], g->rank[to], kind, g->piece + owner * g->block, g->block);
        }
}

GY_INT int gy_net_direct_scatter(struct gy_net_schedule *s, const struct gy_net_group *g, int round)
{
    direct_exchange(s, g, round, GY_NET_ADD);
    return round + 1;
}

GY_INT int gy_net_direct_gather(struct gy_net_schedule *s, const struct gy_net_group *g, int round)
{
    direct_exchange(s, g, round, GY_NET_RECV);
    return round + 1;
}
