/* SPDX-License-Identifier: MIT */
/* builders.h: the functions that build schedules, one for each row of the table in algorithms.c,
 * which alone calls them. Each file's head has the idea and a picture; schedule_dims.c takes rings,
 * halving and direct exchange from the files named after them. */
#ifndef GY_NET_BUILDERS_H
#define GY_NET_BUILDERS_H
#include "net/schedule/schedule.h"

GY_INT gy_net_builder gy_net_build_ring;         /* schedule_dims.c */
GY_INT gy_net_builder gy_net_build_halving;
GY_INT gy_net_builder gy_net_build_direct;
GY_INT gy_net_builder gy_net_build_multiring;
GY_INT gy_net_builder gy_net_build_multihalving;
GY_INT gy_net_builder gy_net_build_hosts;        /* schedule_hosts.c */
GY_INT gy_net_builder gy_net_build_doubling;     /* schedule_tree.c */
GY_INT gy_net_builder gy_net_build_tree;
GY_INT gy_net_builder gy_net_build_blocks;       /* schedule_blocks.c */
GY_INT gy_net_builder gy_net_build_binomial;

/* The number of parts that every host deals to its ranks in order: part p goes to local rank p *
 * size / parts. It is the least common multiple of the sizes. Where that is above 64, it is the
 * largest size. inter_host.c and host_sockets.c cut their sums by it, too. */
GY_INT int gy_net_parts(const int *size, int hosts);

#endif
