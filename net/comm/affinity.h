/* SPDX-License-Identifier: MIT */
/* affinity.h: the NUMA node and the socket that a process is bound to, and its own processors among
 * several processes of a host. topology.c groups ranks by it; comm.c takes a rank's own
 * processors. */
#ifndef GY_NET_AFFINITY_H
#define GY_NET_AFFINITY_H
#include "engine/base/mem.h"
#include "engine/base/pin.h"

/* Numbers of the system, -1: on several, or not known. */
struct gy_net_affinity {
    int32_t node, socket;
};
/* root: "/sys/devices/system". */
GY_INT void gy_net_affinity_read(const char *root, const struct gy_pin_set *allowed, struct gy_net_affinity *out);
/* out: the processors of one part of about equal parts. A part gets whole cores where there are
 * enough. Parts are filled socket by socket and node by node; more parts than processors share
 * them. GY_E_UNSUPPORTED: `allowed` is empty. */
GY_INT int gy_net_affinity_share(const char *root, const struct gy_pin_set *allowed, int part, int parts, struct gy_pin_set *out,
                                 const struct gy_alloc *alloc, struct gy_error *err);

#endif
