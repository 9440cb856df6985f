/* SPDX-License-Identifier: MIT */
/* schedule_hosts.c: two levels with any number of ranks on each host; a row of algorithms.c. The
 * buffer of a lane has as many parts as the ranks of all hosts divide evenly: their least common
 * multiple. Where that is above HOSTS_PARTS_MOST, it has as many as the largest host has ranks.
 * Each host deals the parts to its ranks in order. Inside a host every rank sends each part to its
 * owner there (direct). Between hosts the owners of a part form a ring, or halve it where the
 * number of hosts is a power of two; then back. So every rank of every host uses its own path to
 * the network, however many there are.
 *
 *     host A: a0 a1 a2          parts of 6:  a0 a0 a1 a1 a2 a2
 *     host B: b0 b1                          b0 b0 b0 b1 b1 b1
 *                               rings:       a0-b0, a0-b0, a1-b0, a1-b1, a2-b1, a2-b1 */
#include "net/schedule/builders.h"

#define HOSTS_PARTS_MOST 64

struct hosts_walk {
    struct gy_net_schedule *s;
    const int *size, *base; /* [hosts] */
    int *rank;              /* [hosts] */
    int hosts, parts, lane;
};

static int hosts_owner(const struct hosts_walk *w, int host, int part)
{
    return w->base[host] + (int)((int64_t)part * w->size[host] / w->parts);
}

static int32_t hosts_piece(const struct hosts_walk *w, int part)
{
    return (w->lane * w->parts + part) * w->hosts;
}

/* Inside every host: each part between its owner and everybody else. */
static void hosts_inside(const struct hosts_walk *w, int round, int kind)
{
    for (int host = 0; host < w->hosts; host++)
        for (int part = 0; part < w->parts; part++)
            for (int k = 1; k < w->size[host]; k++) {
                const int owner = hosts_owner(w, host, part);
                const int other = w->base[host] + (owner - w->base[host] + k) % w->size[host];
                gy_net_move(w->s, w->lane, round, kind == GY_NET_ADD ? other : owner, kind == GY_NET_ADD ? owner : other, kind,
                            hosts_piece(w, part), w->hosts);
            }
}

static int hosts_between(const struct hosts_walk *w, int round)
{
    const int power = (w->hosts & (w->hosts - 1)) == 0;
    int end = round;
    for (int part = 0; part < w->parts; part++) {
        for (int host = 0; host < w->hosts; host++)
            w->rank[power ? gy_net_turned(host, w->hosts) : host] = hosts_owner(w, host, part);
        const struct gy_net_group g = {w->lane, w->hosts, w->rank, hosts_piece(w, part), 1};
        const int middle = (power ? gy_net_halving_scatter : gy_net_ring_scatter)(w->s, &g, round);
        end = (power ? gy_net_halving_gather : gy_net_ring_gather)(w->s, &g, middle);
    }
    return end;
}

GY_INT int gy_net_parts(const int *size, int hosts)
{
    int64_t parts = 1, most = 1;
    for (int host = 0; host < hosts; host++) {
        int64_t a = parts, b = size[host];
        while (b != 0) {
            const int64_t rest = a % b;
            a = b;
            b = rest;
        }
        parts = gy_min64(parts / a * size[host], HOSTS_PARTS_MOST + 1);
        most = gy_max64(most, size[host]);
    }
    return (int)(parts <= HOSTS_PARTS_MOST ? parts : most);
}

static int hosts_fill(const struct gy_net_shape *shape, int hosts, int *size, int *base)
{
    int sum = 0;
    for (int host = 0; host < hosts; host++) {
        size[host] = shape->host_count > 0 ? shape->hosts[host] : shape->dim_count > 0 ? shape->dims[0] : shape->ranks;
        base[host] = sum;
        sum += size[host];
    }
    return sum;
}

GY_INT int gy_net_build_hosts(struct gy_net_schedule *out, const struct gy_net_shape *shape,
                              int goal, const struct gy_alloc *alloc, struct gy_error *err)
{
    const int hosts = shape->host_count > 0 ? shape->host_count : shape->dim_count > 0 ? shape->ranks / shape->dims[0] : 1;
    int *const table = gy_alloc_take(alloc, (size_t)hosts * 3, sizeof *table);
    if (!table)
        return GY_NOMEM(err, "a schedule's hosts", (size_t)hosts * 3 * sizeof *table);
    struct hosts_walk w = { .s = out, .size = table, .base = table + hosts, .rank = table + 2 * hosts, .hosts = hosts };
    const int sum = hosts_fill(shape, hosts, table, table + hosts);
    int status = sum == shape->ranks ? GY_OK : GY_FAIL(err, GY_E_ARG, "the hosts have %d ranks together, not %d", sum, shape->ranks);
    if (status == GY_OK) {
        w.parts = gy_net_parts(table, hosts);
        gy_net_open_schedule(out, alloc, "hosts", goal, shape->ranks, w.parts * hosts * shape->lanes, shape->lanes);
        for (w.lane = 0; w.lane < shape->lanes; w.lane++) {
            hosts_inside(&w, 0, GY_NET_ADD);
            hosts_inside(&w, hosts_between(&w, 1), GY_NET_RECV);
        }
        status = gy_net_finish(out, err);
    }
    gy_alloc_free(alloc, table, (size_t)hosts * 3 * sizeof *table);
    return status;
}
