/* SPDX-License-Identifier: MIT */
/* host_sockets.h: the level between the groups of one host; engine/job/job.c opens it. Ranks on one
 * socket sum among themselves as host_memory.h says. Then each rank sums what it owns with its
 * owners on the other sockets, in the same memory. So a byte crosses between two sockets once each
 * way, however many ranks they have; directly among all ranks it would cross for every rank. Groups
 * may have different numbers of ranks.
 *
 *     socket 0:  rank 0  rank 1  rank 2      each socket's slices, six parts:   0: 01  1: 23  2: 45
 *                   \  \   / \    /                                             3: 012    4: 345
 *     socket 1:      rank 3  rank 4          part 2 is summed by the ranks 1 and 3, a half each
 *
 * Sums are in the order of a balanced tree over the groups. */
#ifndef GY_NET_HOST_SOCKETS_H
#define GY_NET_HOST_SOCKETS_H
#include "net/comm/host_memory.h"
#include "net/comm/topology.h"

struct gy_net_host_sockets_config {
    void *base;            /* the mapping, the same memory in every rank, zeroed; the caller's */
    const int *size;       /* [groups]: ranks of each */
    int groups, group, rank; /* rank: in its group */
    size_t most;           /* bytes of a rank's buffers */
    int shared;            /* each group's sums go into one result, as gy_net_host_share says */
    int64_t wait_ns;
};

struct gy_net_host_sockets;
/* Bytes of the mapping; 0: beyond the limits. */
GY_INT size_t gy_net_host_sockets_bytes(const int *size, int groups, size_t most, int shared);
GY_INT int gy_net_host_sockets_open(struct gy_net_host_sockets **out, const struct gy_net_host_sockets_config *config, const struct gy_alloc *alloc,
                                    struct gy_error *err);
GY_INT void gy_net_host_sockets_close(struct gy_net_host_sockets *sockets);
/* This rank's group, joined to the level; sums go through it. */
GY_INT struct gy_net_host *gy_net_host_sockets_node(struct gy_net_host_sockets *sockets);
/* As gy_net_host_clear. */
GY_INT void gy_net_host_sockets_clear(struct gy_net_host_sockets *sockets);

#endif
