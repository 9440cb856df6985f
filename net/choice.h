/* SPDX-License-Identifier: MIT */
/* choice.h: the algorithms that a job uses between its hosts when nobody named one. The first rank of the first host measures the way to
 * the first rank of the second (or remembers it from a job of the last day), chooses for a small and for a large sum, and tells all. */
#ifndef GY_NET_CHOICE_H
#define GY_NET_CHOICE_H
#include "boot.h"
#include "cost.h"
#include "topology.h"

#define GY_NET_CHOICE_FEW 16384.0  /* bytes of a host's sum that the small choice is made for */
#define GY_NET_CHOICE_MANY 8388608.0

struct gy_net_choice {
    struct gy_net_costs costs;  /* what was measured; zero: nothing */
    char few[48], many[48];     /* "name:lanes"; empty: nothing was chosen, since there are too few or too many hosts */
};
/* A collective of all ranks. all: their identities. Does not fail for want of a cache folder. */
GY_INT int gy_net_choice_make(struct gy_net_choice *out, struct gy_net_boot *boot, const struct gy_net_end *end,
                              const struct gy_net_topology *topology, const struct gy_net_identity *all, const struct gy_alloc *alloc,
                              struct gy_error *err);

#endif
