/* SPDX-License-Identifier: MIT */
/* inter_host.h: the level between hosts; comm.c opens one for each memory of sums. A host's ranks
 * have summed their shared memory, each its slice. Now the slices are summed over the hosts, by any
 * algorithm, and the host's ranks get the sums back (host_memory.h does both). Every rank works on
 * its own slice, so all of them use the network at once:
 *
 *     host A:  a0 a1      part 0:  a0 - b0 - c0      with unequal hosts a rank has several parts:
 *     host B:  b0 b1      part 1:  a1 - b1 - c1      as many as make the slices of all hosts fit
 *     host C:  c0 c1 */
#ifndef GY_NET_INTER_HOST_H
#define GY_NET_INTER_HOST_H
#include "net/comm/choice.h"
#include "net/schedule/exec.h"
#include "net/comm/host_memory.h"
#include "net/comm/topology.h"

#define GY_NET_FILE "file:"

struct gy_net_inter_host_config {
    const struct gy_net_topology *topology;
    struct gy_net_end end;    /* among all ranks */
    /* "multiring", "multiring:4" (lanes) or "file:PATH" (a schedule as text); NULL: by size */
    const char *algorithm;
    /* for few and for many bytes, where no algorithm is named; NULL: by rule */
    const struct gy_net_choice *choice;
    /* separates its messages from those of other levels between the same ranks */
    int channel;
    size_t most;              /* bytes of the largest sum */
    int64_t piece;            /* floats of a part that travel together; 0: by the number of hosts */
};

struct gy_net_inter_host;
/* topology must outlive it. GY_E_ARG, GY_E_FORMAT, GY_E_MISMATCH: the algorithm is none for these
 * hosts. */
GY_INT int gy_net_inter_host_open(struct gy_net_inter_host **out, const struct gy_net_inter_host_config *config, const struct gy_alloc *alloc,
                                  struct gy_error *err);
GY_INT void gy_net_inter_host_close(struct gy_net_inter_host *between); /* NULL is fine */
/* The flight of this level that a message with this tag belongs to; -1: it is of another
 * channel. */
GY_INT int gy_net_inter_host_flight(const struct gy_net_inter_host *between, uint32_t tag);
/* What gy_net_host_join takes. */
GY_INT void gy_net_inter_host_level(struct gy_net_inter_host *between, struct gy_net_host_level *out);

#endif
