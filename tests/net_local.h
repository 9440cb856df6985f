/* SPDX-License-Identifier: MIT */
/* net_local.h: ranks of one process. Deliveries wait for a seeded number of progress calls. So
 * every order that a network allows can happen, and happens again with the same seed while one
 * thread drives all ranks. Any ends may be used by threads of their own. */
#ifndef GY_NET_LOCAL_H
#define GY_NET_LOCAL_H
#include "net/transport/transport.h"

struct gy_net_local;

/* delay: a message waits up to so many progress calls of its receiver; 0: none. */
GY_INT int gy_net_local_open(struct gy_net_local **out, int ranks, uint64_t seed, int delay, const struct gy_alloc *alloc,
                             struct gy_error *err);
GY_INT void gy_net_local_end(struct gy_net_local *local, int rank, struct gy_net_end *out);
/* Kills a rank like a process that dies: requests of its peers fail. */
GY_INT void gy_net_local_kill(struct gy_net_local *local, int rank);
GY_INT void gy_net_local_close(struct gy_net_local *local);          /* NULL is fine */

#endif
