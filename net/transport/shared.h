/* SPDX-License-Identifier: MIT */
/* shared.h: a transport among ranks that map the same memory; engine/job/messages.c opens it. Each
 * ordered pair of them has a ring of bytes there: the one writes, the other reads.
 *
 *     ring from A to B:   WANT tag 3 | PIECE tag 7, 32 KiB | PIECE tag 7, 9 KiB | WANT tag 3 | ...
 *
 * A receive is announced (WANT), and a message is only written once its receive was announced. So a
 * ring's head can be taken at once. Nothing is kept aside, no message waits behind an unwanted one,
 * and the memory is bounded.
 *
 * The ranks belong to one job and one host, and the memory to them alone: messages carry no
 * code. */
#ifndef GY_NET_SHARED_H
#define GY_NET_SHARED_H
#include "net/transport/transport.h"

struct gy_net_shared_config {
    void *base;       /* gy_net_shared_bytes(locals), zeroed, on a cache line, the same on all */
    int rank, ranks;  /* of the job */
    const int *local; /* [ranks]: its number in this memory; -1: it is elsewhere. Copied */
    int locals;       /* that are in it */
};

struct gy_net_shared;
GY_INT size_t gy_net_shared_bytes(int locals);
GY_INT int gy_net_shared_open(struct gy_net_shared **out, const struct gy_net_shared_config *config,
                              const struct gy_alloc *alloc, struct gy_error *err);
GY_INT void gy_net_shared_close(struct gy_net_shared *shared); /* NULL is fine */
GY_INT int gy_net_shared_has(const struct gy_net_shared *shared, int rank); /* NULL: it has none */
/* An end with the job's numbers of ranks; it must not outlive the transport. */
GY_INT void gy_net_shared_end(struct gy_net_shared *shared, struct gy_net_end *out);

#endif
