/* SPDX-License-Identifier: MIT */
/* topology.h: which ranks are near each other; comm.c asks, inter_host.c and choice.c read. Ranks
 * on one host see the same kernel, processes and shared memory (namespaces of PID and IPC), and the
 * same host name: they can map each other's memory. Hosts are numbered by their first rank, or rack
 * after rack where a file has racks. Ranks of a host that are bound to different sockets, or else
 * to different NUMA nodes, are its groups, numbered by their first rank. Where one rank may run
 * anywhere, or there would be more than GY_NET_GROUPS, the host is one group. A file tells what the
 * system cannot:
 *
 *     dims 4x8x8               sizes whose product is the number of ranks, the nearest first: ranks
 *                              of a host, hosts of a rack, racks
 *     rack left  node0 node1   hosts of a rack by name; racks have equally many hosts, each host is
 *                              in one
 *     sockets 3 2              groups of every host: the first three ranks, the other two */
#ifndef GY_NET_TOPOLOGY_H
#define GY_NET_TOPOLOGY_H
#include "net/comm/affinity.h"
#include "net/schedule/schedule.h"

#define GY_NET_GROUPS 16 /* of a host; HOST_SOCKETS_DEPTH and a sentence of topology.c follow */

/* What a rank tells of itself. Fixed size: all ranks exchange it. */
struct gy_net_identity {
    unsigned char host[32]; /* equal on ranks of one host, and there alone */
    char name[64];          /* of the host, for people */
    int32_t pid;            /* in the host's own numbers */
    int32_t fd;             /* an open file that the others of its host may open; -1 */
    int64_t started;        /* nanoseconds since 1970 when it came to the ranks' meeting */
    struct gy_net_affinity near;
};
/* apart: this rank is a host of its own. */
GY_INT void gy_net_identity_read(struct gy_net_identity *out, int rank, int apart);

struct gy_net_topology {
    struct gy_alloc alloc;
    int ranks, hosts;
    int *host;      /* [ranks] */
    int *local;     /* [ranks]: its number on its host */
    int *first;     /* [hosts + 1]: where a host's ranks begin in member */
    int *member;    /* [ranks]: ranks, host after host */
    int *group;     /* [ranks]: of its host's */
    int *groups;    /* [hosts] */
    int told;       /* groups are those of the file */
    int dim_count, dims[GY_NET_DIMS]; /* of hosts; 0: one dimension */
};
/* all: [ranks]. text: of a topology file, or NULL; name is its name in sentences. GY_E_FORMAT: the
 * text does not fit the job's ranks. */
GY_INT int gy_net_topology_open(struct gy_net_topology *out, const struct gy_net_identity *all, int ranks, const char *text, const char *name,
                                const struct gy_alloc *alloc, struct gy_error *err);
GY_INT void gy_net_topology_close(struct gy_net_topology *topology); /* safe on a zeroed struct */
GY_INT int gy_net_topology_locals(const struct gy_net_topology *topology, int host);
/* size: [GY_NET_GROUPS], ranks of each group of the host. Returns the rank's number in its own
 * group. */
GY_INT int gy_net_topology_group(const struct gy_net_topology *topology, int rank, int size[GY_NET_GROUPS]);

#endif
