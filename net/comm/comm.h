/* SPDX-License-Identifier: MIT */
/* comm.h: a process among the ranks of its job: its place, the connections, the ranks near it, the
 * memory of its host, the failure detector. engine/job opens it; what a call says of NULL is for a
 * job of one rank. Opening is a collective: all ranks do it, and all of them fail when one does. */
#ifndef GY_NET_COMM_H
#define GY_NET_COMM_H
#include "net/comm/inter_host.h"
#include "net/comm/failure.h"
#include "net/transport/socket.h"

struct gy_net_comm_config {
    const char *(*get)(const char *name); /* variables of the environment */
    int64_t wait_ns;        /* how long ranks wait for each other */
    /* between hosts: "ring", "multiring:4", "file:PATH" or "fastest"; "flat/ring": every rank
     * counts as a host; NULL: by size */
    const char *algorithm;
    const char *transport;  /* between hosts: "ucx", "tcp"; NULL or empty: by what is there */
    /* for TCP between hosts, "eth1"; NULL or empty: the one on which rank 0 is reached */
    const char *interface;
    const char *code;       /* of messages between hosts: "crc", "hmac"; NULL or empty: crc */
    const char *topology;   /* path of a topology file, or NULL */
    struct gy_net_boot *boot; /* NULL, or of a meeting (reform.h), the world's from then on */
    struct gy_net_launcher place; /* what it settled; ranks 0: what the launcher says */
    struct gy_net_boot_config *met; /* NULL, or out: how the ranks met, with the job's key */
    int firm;               /* as in failure.h */
    /* Every rank counts as a host, and sums follow the blocks of shards (schedule_blocks.c). Not so
     * where all are on one host, or 1, 2, 4 ... ranks are on hosts with equally many, host by
     * host. */
    int blocks;
    int bind;               /* this process keeps to its part of the host's processors */
    const struct gy_net_field *fields; /* that must be equal on all ranks */
    int field_count;
};

struct gy_net_comm;
/* *out is NULL when this process is alone. */
GY_INT int gy_net_comm_open(struct gy_net_comm **out, const struct gy_net_comm_config *config, const struct gy_alloc *alloc,
                            struct gy_error *err);
GY_INT void gy_net_comm_close(struct gy_net_comm *world); /* NULL is fine */

/* The address by which the ranks reach this one. */
GY_INT int gy_net_comm_address(const struct gy_net_comm *world, struct gy_net_endpoint *out,
                               struct gy_error *err);

/* Its place; NULL: rank 0 of 1. */
struct gy_net_standing {
    int rank, ranks, local, locals, host, hosts;
    int blocks;             /* sums between hosts follow the blocks of shards */
};
GY_INT void gy_net_comm_standing(const struct gy_net_comm *world, struct gy_net_standing *out);
/* The groups (sockets) of this host's ranks. size: [GY_NET_GROUPS]. group, rank: this rank's group,
 * and its number there. ordered: ranks are numbered one group after the other. Returns the number
 * of groups; 1: groups are not worth a level of their own. */
GY_INT int gy_net_comm_groups(const struct gy_net_comm *world, int size[GY_NET_GROUPS], int *group, int *rank, int *ordered);
/* The open file that is the memory of this host's ranks. It belongs to the world, as do its first
 * GY_NET_COMM_BYTES. */
#define GY_NET_COMM_BYTES ((size_t)65536) /* whole pages, whatever their size */
GY_INT int gy_net_comm_memory(const struct gy_net_comm *world);
/* Sums of a node of this host become sums over all hosts; the node has all ranks of the host. All
 * ranks give the same channel, below GY_NET_CHANNELS. most: bytes of the node's buffers. how: enum
 * gy_net_join. A channel has one node; gy_net_comm_leave ends it before the node closes. */
#define GY_NET_CHANNELS 32
/* TREE: the algorithm comes from the rule, never from measured times. Over a power of two of hosts
 * the order of sums is then a balanced tree. */
enum gy_net_join {
    GY_NET_JOIN_HALF = 1 /* floats travel as bf16 */,
    GY_NET_JOIN_TREE = 2
};
GY_INT int gy_net_comm_join(struct gy_net_comm *world, struct gy_net_host *node, int channel, size_t most, unsigned how, struct gy_error *err);
/* The node's sums come in turns of `sums` each, the buckets of a step. Error sentences name a sum
 * by its place in the turn. */
GY_INT void gy_net_comm_turn(struct gy_net_comm *world, int channel, int sums);
GY_INT void gy_net_comm_leave(struct gy_net_comm *world, int channel);
/* Sums of all channels go on, without waiting; NULL is fine. */
GY_INT void gy_net_comm_progress(struct gy_net_comm *world);
/* The way of messages to ranks of other hosts; transport NULL: there are none. Tags from
 * GY_NET_MESSAGE_TAG on are the caller's. It ends with the world. */
#define GY_NET_MESSAGE_TAG 0x80000000u
GY_INT void gy_net_comm_messages(const struct gy_net_comm *world, struct gy_net_end *out);
/* local: [ranks]: a rank's number on this host; -1: it is on another one. */
GY_INT void gy_net_comm_locals(const struct gy_net_comm *world, int *local);
/* This rank's own thread waits: said again and again. NULL is fine. */
GY_INT void gy_net_comm_waits(struct gy_net_comm *world);
/* Who the ranks are; the world's. What this rank found of them, and its signs of life, are
 * gy_net_failure's. */
GY_INT const struct gy_net_identity *gy_net_comm_identities(const struct gy_net_comm *world);
GY_INT int gy_net_comm_is_cut(const struct gy_net_comm *world, int rank); /* NULL: none is */
GY_INT void gy_net_comm_beat(struct gy_net_comm *world, struct gy_net_beat *beat);
/* [ranks]: bytes that this rank has sent to each over the network; NULL: there is none. */
GY_INT const int64_t *gy_net_comm_sent(const struct gy_net_comm *world);
/* This rank begins a sum; all ranks begin the same number of them. NULL is fine. */
GY_INT void gy_net_comm_enter(struct gy_net_comm *world);
GY_INT void gy_net_comm_fail(struct gy_net_comm *world); /* as gy_net_failure_fail; NULL is fine */
/* GY_E_PEER: a rank is lost */
GY_INT int gy_net_comm_check(struct gy_net_comm *world, struct gy_error *err);
/* As gy_net_failure_spare; NULL is fine. */
GY_INT void gy_net_comm_spare(struct gy_net_comm *world);
/* As gy_net_failure_spared; NULL is fine. */
GY_INT int gy_net_comm_spared(const struct gy_net_comm *world, int rank, const char **text);
/* This rank has found what ends the job, as gy_net_failure_tell; NULL is fine. */
GY_INT void gy_net_comm_tell(struct gy_net_comm *world, const char *text);
/* Waits until all ranks have come here. GY_E_PEER: one is lost, or has left. NULL is fine. */
GY_INT int gy_net_comm_end(struct gy_net_comm *world, struct gy_error *err);
/* Explains a sum that failed with this status, and returns it. After GY_E_PEER, and GY_E_MISMATCH,
 * which becomes GY_E_PEER, it waits up to 3 s for the sentence of all ranks, which err gets. world
 * NULL: does nothing. */
GY_INT int gy_net_comm_explain(struct gy_net_comm *world, int status, struct gy_error *err);

#endif
