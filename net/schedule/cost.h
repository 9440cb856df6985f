/* SPDX-License-Identifier: MIT */
/* cost.h: finds the fastest algorithm between these hosts, for choice.c. Three numbers are measured
 * when a job begins, in some tens of milliseconds. For a size it takes the algorithm whose schedule
 * ends first in a simulation with them (simulation.h). So a new algorithm needs its schedule alone.
 * One rank chooses for all, so that they never differ. */
#ifndef GY_NET_COST_H
#define GY_NET_COST_H
#include "net/schedule/simulation.h"
#include "net/transport/transport.h"

#define GY_NET_COST_HOSTS 64 /* more are not simulated: that would take longer than it saves */

struct gy_net_costs {
    double latency; /* seconds of a message of some bytes */
    double rate;    /* bytes a second of a long one */
    double add;     /* bytes a second that a rank adds to its own */
    int lanes;      /* not measured: the most that a schedule may have; 0: any number */
};

/* The hosts of a shape with these costs. A quarter of a message's time is taken for the work of each end, which its messages share. */
GY_INT struct gy_net_cluster gy_net_cost_cluster(const struct gy_net_costs *costs, const struct gy_net_shape *shape);

/* Two ranks measure, each with the other as peer; leads: the one that begins. Takes what a few dozen small messages and some of a few
 * milliseconds take, at most seconds. GY_E_PEER when the other is lost or silent. alloc: for its duration. */
GY_INT int gy_net_cost_measure(struct gy_net_costs *out, const struct gy_net_end *end, int peer, int leads, const struct gy_alloc *alloc,
                               struct gy_error *err);
/* "name:lanes" of the fastest allreduce of so many bytes a host. shape: ranks is the number of hosts, at most GY_NET_COST_HOSTS; its lanes
 * do not count. like: an algorithm, "halving:2", whose sums must be kept to the bit: only schedules with its certificate of order are
 * candidates, so that what was measured never shows in a result; NULL: any. seconds may be NULL: what is expected. */
GY_INT int gy_net_cost_choose(const struct gy_net_costs *costs, const struct gy_net_shape *shape, const char *like, double bytes, char *name,
                              size_t room, double *seconds, const struct gy_alloc *alloc, struct gy_error *err);

#endif
