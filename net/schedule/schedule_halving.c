/* SPDX-License-Identifier: MIT */
/* schedule_halving.c: recursive halving and doubling among 2^k members, for schedule_dims.c and
 * schedule_hosts.c. Member b is the owner of block b. Scatter: in every round a member splits the
 * blocks that it still holds in two. It sends the half without its own block to the partner that
 * keeps it, and adds what arrives to its own half. Gather: the same backward, the parts doubling.
 *
 *     blocks 0 1 2 3     distance 2   0 <-> 2   1 <-> 3     half of the buffer
 *                        distance 1   0 <-> 1   2 <-> 3     a quarter
 *
 * It takes k latencies where a ring takes 2^k - 1, for the same bytes. The sums form a balanced
 * tree over the members. The caller decides by the owners of blocks which ranks meet first, and
 * exchange most. (Rabenseifner 2004, Thakur et al. 2005.) */
#include "net/schedule/schedule.h"

/* The first piece that the owner of block b holds at this distance. It holds `distance` blocks:
 * those that agree with b in the higher bits. */
static int32_t halving_piece(const struct gy_net_group *g, int b, int distance)
{
    return g->piece + b / distance * distance * g->block;
}

static void halving_exchange(struct gy_net_schedule *s, const struct gy_net_group *g, int round, int distance, int kind)
{
    for (int b = 0; b < g->members; b++) {
        const int partner = b ^ distance, owner = kind == GY_NET_ADD ? partner : b;
        gy_net_move(s, g->lane, round, g->rank[b], g->rank[partner], kind, halving_piece(g, owner, distance), distance * g->block);
    }
}

GY_INT int gy_net_halving_scatter(struct gy_net_schedule *s, const struct gy_net_group *g, int round)
{
    for (int distance = g->members / 2; distance > 0; distance /= 2)
        halving_exchange(s, g, round++, distance, GY_NET_ADD);
    return round;
}

GY_INT int gy_net_halving_gather(struct gy_net_schedule *s, const struct gy_net_group *g, int round)
{
    for (int distance = 1; distance < g->members; distance *= 2)
        halving_exchange(s, g, round++, distance, GY_NET_RECV);
    return round;
}
