/* SPDX-License-Identifier: MIT */
/* simulation.h: how long a schedule takes on a described cluster; cost.c and the lab call it.
 * Events run the same steps that an executor would run. A message begins when both ends have posted
 * it, waits for its latency, then flows. All flows share the links on their ways max-min fairly.
 * Each addition and each message costs time of the rank, one lane after another. A token bucket may
 * shape a host's way: it carries faster, up to the burst, what it did not carry while idle. Noise
 * and the ranks' different beginnings are drawn from a seed. A figure from here is a simulation,
 * never a measurement. */
#ifndef GY_NET_SIM_H
#define GY_NET_SIM_H
#include "net/schedule/schedule.h"

/* A cluster: hosts of ranks, racks of hosts. Every rank has a link out of and into its host's
 * inside. Every host has one out of and into its network; every rack has one up and one down. */
struct gy_net_cluster {
    int hosts, ranks_per_host, hosts_per_rack; /* hosts_per_rack 0: no racks */
    /* of a rank's way inside its host: bytes a second, seconds */
    double inside_rate, inside_latency;
    double nic_rate, nic_latency;              /* of a host's way to the network, each direction */
    /* token bucket of that way; 0: none. burst: bytes, empty at first; peak: the rate while there
     * are tokens */
    double burst, peak;
    double rack_rate, rack_latency;            /* of a rack's way to other racks, each direction */
    double add_rate;                           /* bytes a second that a rank adds; 0: at once */
    /* seconds that a rank spends on each message, sent or received, when it is over */
    double overhead;
    double noise;                              /* spread of a message's time: log-normal sigma */
    double skew;                               /* seconds within which ranks begin */
    /* seconds of a step without communication; seconds of it in which gradients are made. Only the
     * lab's steps use these two. */
    double compute, backward;
    char about[128];
};

/* Seconds from time 0 to the last rank's end, for a buffer of `bytes` bytes; ranks begin within [0,
 * skew). The schedule must have been verified. The same seed gives the same figure. */
GY_INT int gy_net_simulate(const struct gy_net_schedule *s, const struct gy_net_cluster *cluster, double bytes, uint64_t seed,
                           double *seconds, struct gy_error *err);

#endif
