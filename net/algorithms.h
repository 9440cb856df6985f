/* SPDX-License-Identifier: MIT */
/* algorithms.h: the functions behind the table of algorithms; each file's head has the idea and a picture. */
#ifndef GY_NET_ALGORITHMS_H
#define GY_NET_ALGORITHMS_H
#include "schedule.h"

#define GY_NET_BUILDER(name)                                                                                           \
    GY_INT int name(struct gy_net_schedule *out, const struct gy_net_shape *shape, int goal, const struct gy_alloc *alloc, \
                    struct gy_error *err)
GY_NET_BUILDER(gy_net_build_ring);         /* schedule_dims.c */
GY_NET_BUILDER(gy_net_build_halving);
GY_NET_BUILDER(gy_net_build_direct);
GY_NET_BUILDER(gy_net_build_multiring);
GY_NET_BUILDER(gy_net_build_multihalving);
GY_NET_BUILDER(gy_net_build_hosts);        /* schedule_hosts.c */
GY_NET_BUILDER(gy_net_build_doubling);     /* schedule_tree.c */
GY_NET_BUILDER(gy_net_build_tree);
GY_NET_BUILDER(gy_net_build_binomial);

#endif
