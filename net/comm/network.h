/* SPDX-License-Identifier: MIT */
/* network.h: the transport between hosts, for comm.c: "ucx" where devices move memory themselves
 * (RDMA); else "tcp", our own, which needs no library. UCX's own TCP runs only when ucx is named.
 * UCX authenticates nobody, so its messages are sealed (sealed.h). All ranks take the same
 * transport. Opening is a collective of two steps, between which ranks agree that all of them
 * could. A further transport is a row of network_ways in network.c. */
#ifndef GY_NET_NETWORK_H
#define GY_NET_NETWORK_H
#include "net/comm/boot.h"
#include "net/transport/transport.h"

struct gy_net_network_config {
    struct gy_net_boot *boot; /* connections that nothing else uses meanwhile */
    int rank, ranks;
    const char *name;         /* of a transport; NULL: by what is there */
    const char *interface;    /* TCP's, "eth1"; NULL: the one of the job's control */
    int64_t wait_ns;          /* how long a rank is called that does not answer */
    const char *code;         /* of messages: "crc" or "hmac"; NULL: crc */
};

struct gy_net_network;
GY_INT int gy_net_network_open(struct gy_net_network **out, const struct gy_net_network_config *config, const struct gy_alloc *alloc,
                               struct gy_error *err);
GY_INT int gy_net_network_meet(struct gy_net_network *network, struct gy_net_end *out, struct gy_error *err);
/* Why progress fails from then on; NULL: it does not. */
GY_INT const struct gy_net_fault *gy_net_network_fault(const struct gy_net_network *network);
/* The next rank that is waited for while nothing comes through to it; each rank once. -1: none, or
 * the network cannot tell. Called while ranks wait. */
GY_INT int gy_net_network_cut(struct gy_net_network *network);
GY_INT void gy_net_network_close(struct gy_net_network *network); /* NULL is fine */

#endif
