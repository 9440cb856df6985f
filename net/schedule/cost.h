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

/* The cluster of a shape's hosts with these costs. A quarter of a message's latency counts as work
 * of each end; an end does this work for one message at a time. */
GY_INT struct gy_net_cluster gy_net_cost_cluster(const struct gy_net_costs *costs, const struct gy_net_shape *shape);

/* Two ranks measure; each gives the other as peer. leads: 1 on the rank that begins. It takes a few
 * dozen small messages, and longer ones until a way takes milliseconds. GY_E_PEER: the other rank
 * is lost, or silent for 10 s. alloc: used only during the call. */
GY_INT int gy_net_cost_measure(struct gy_net_costs *out, const struct gy_net_end *end, int peer, int leads, const struct gy_alloc *alloc,
                               struct gy_error *err);
/* Writes "name:lanes" of the fastest allreduce of `bytes` bytes a host. shape: ranks is the number
 * of hosts, at most GY_NET_COST_HOSTS; its lanes do not count. like: an algorithm, such as
 * "halving:2", whose sums must be kept to the bit; NULL: any. Only schedules with its certificate
 * of order are then candidates, so measured times never change a result. seconds: the expected
 * time; may be NULL. GY_E_UNSUPPORTED: too many hosts, or no candidate; name is then as before. */
GY_INT int gy_net_cost_choose(const struct gy_net_costs *costs, const struct gy_net_shape *shape, const char *like, double bytes, char *name,
                              size_t room, double *seconds, const struct gy_alloc *alloc, struct gy_error *err);

#endif
