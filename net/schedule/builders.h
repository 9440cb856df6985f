/* SPDX-License-Identifier: MIT */
/* builders.h: the functions that build schedules, one for each row of the table of algorithms. Each
 * file's head has the idea and a picture. */
#ifndef GY_NET_BUILDERS_H
#define GY_NET_BUILDERS_H
#include "net/schedule/schedule.h"

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
GY_NET_BUILDER(gy_net_build_blocks);       /* schedule_blocks.c */
GY_NET_BUILDER(gy_net_build_binomial);

/* The number of parts that every host deals to its ranks in order: part p goes to local rank p *
 * size / parts. It is the least common multiple of the sizes; where that is too large, it is the
 * largest size. */
GY_INT int gy_net_parts(const int *size, int hosts);

#endif
