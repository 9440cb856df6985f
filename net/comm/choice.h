/* SPDX-License-Identifier: MIT */
/* choice.h: the algorithms that a job uses between its hosts when nobody named one. comm.c has the
 * choice made when a job opens; inter_host.c takes it, or the rule. The first rank of the first
 * host measures the way to the first rank of the second. Or it remembers a measurement of the last
 * day. It chooses for a small and for a large sum, and tells all.
 *
 * Measurements differ from run to run, and sums must not. So it takes the fastest of the schedules
 * that make the sums of a fixed rule, bit for bit. Only a job that asks for the fastest of all gets
 * sums whose last bits may change. */
#ifndef GY_NET_CHOICE_H
#define GY_NET_CHOICE_H
#include "net/comm/boot.h"
#include "net/schedule/cost.h"
#include "net/comm/topology.h"

#define GY_NET_CHOICE_FEW 16384.0  /* bytes of a host's sum that the small choice is made for */
/* floats of a piece of a large sum, for any number of hosts; the large choice is made for one
 * piece */
#define GY_NET_PIECE_MOST ((int64_t)1 << 20)

struct gy_net_choice {
    struct gy_net_costs costs;  /* what was measured; zero: nothing */
    char few[48], many[48];     /* "name:lanes" */
};
/* The choice by rule, as "name:lanes". Small sums take recursive doubling, which needs the fewest
 * rounds. Large sums take halving over the dimensions, halving over a power of two of hosts, or a
 * ring. */
GY_INT const char *gy_net_choice_rule(const struct gy_net_topology *topology, const struct gy_net_transport *transport, int many);
/* A collective of all ranks. all: [ranks], their identities. fastest: any schedule may be chosen,
 * whatever its order of sums. A missing cache folder is no error. With one host, or more than
 * GY_NET_COST_HOSTS, the rule stands. */
GY_INT int gy_net_choice_make(struct gy_net_choice *out, struct gy_net_boot *boot, const struct gy_net_end *end,
                              const struct gy_net_topology *topology, const struct gy_net_identity *all, int fastest,
                              const struct gy_alloc *alloc, struct gy_error *err);

#endif
