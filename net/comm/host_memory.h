/* SPDX-License-Identifier: MIT */
/* host_memory.h: allreduce among the ranks of one host in memory that all of them map.
 * engine/job/job.c opens one for each memory of sums, host_sockets.c one for each socket. Gradients
 * live there, so nothing is copied in or out. Every rank sums its slice of all buffers and writes
 * the sum into all of them. Each byte is read once and written once a rank, and there are two
 * meetings. Without a level above and a shared result, buffers of up to 512 bytes go through slots:
 * one meeting.
 *
 * A sum can also be begun, and finished later. A rank says that its buffer is ready and continues
 * its own work. A rank that polls and finds all ready sums its slice. The sum is complete when
 * every rank has done so. No rank waits for another until it must.
 *
 * Sums are made in the order of a balanced tree over the ranks, ((0 + 1) + (2 + 3)) + ..., the same
 * for every slice. With a level above, between hosts, a rank that has summed its slice hands it
 * over, and writes into all buffers what comes back.
 *
 * Sums may also go into one result that all ranks read. Then each byte is written once a host, not
 * once a rank, and a rank's own data stays as it is. That needs no further meeting: a result is
 * written again only when all ranks have begun a later sum at the same place. A rank begins that
 * one when it has read this one. On two cores of Zen 5 a shared result takes 0.7 to 1 of the time
 * with 3, 4 and 8 ranks. With two it takes 0.9 to 1 beyond the caches, where reading dominates, and
 * 1.1 to 1.6 in them, which then hold a third piece. */
#ifndef GY_NET_HOST_H
#define GY_NET_HOST_H
#include "engine/base/mem.h"

#define GY_NET_HOST_RANKS 64   /* at most */
#define GY_NET_HOST_SMALL 4096 /* bytes of a slot */
#define GY_NET_HOST_OPEN 256   /* sums that a rank may have begun and not finished */

struct gy_net_host;

/* Bytes of a mapping for `ranks` ranks with `most` bytes of buffers each. shared: with room for
 * gy_net_host_share. 0: beyond the limits. */
GY_INT size_t gy_net_host_bytes(int ranks, size_t most, int shared);
/* base: the mapping, which belongs to the caller. It is the same memory in every rank, zeroed
 * before the first rank opens it. All ranks give the same ranks and most. wait_ns: how long a rank
 * waits for the others, 3 s more under gy_net_host_watch. After that GY_E_PEER names the first rank
 * that is missing. GY_E_ARG: beyond the limits. */
GY_INT int gy_net_host_open(struct gy_net_host **out, void *base, int rank, int ranks, size_t most, int64_t wait_ns,
                            const struct gy_alloc *alloc, struct gy_error *err);
GY_INT void gy_net_host_close(struct gy_net_host *node);
/* From now on sums go into one shared result of `most` bytes in the mapping. A sum stands there at
 * the offset of its data in gy_net_host_memory. Ranks only read it; they must have read a sum
 * before they begin the next one at its place. Data may be written again as soon as the sum is
 * there. A rank that is alone still sums in its own memory. Called on all ranks, before the first
 * sum. */
GY_INT void gy_net_host_share(struct gy_net_host *node);
/* The sum is a tree over leaves, and a rank's buffers hold the sum of one branch. first[r] is the
 * first leaf of rank r; first[ranks] is the number of leaves. Without this call each rank has one
 * leaf. Called on all ranks, before the first sum. */
GY_INT void gy_net_host_deal(struct gy_net_host *node, const int *first);
/* Where sums stand: that result, or gy_net_host_memory. */
GY_INT void *gy_net_host_sums(struct gy_net_host *node);
/* For a mapping that was used before: zeroes this rank's line, its buffers and its part of the
 * result. No rank may go on before all ranks have done so. */
GY_INT void gy_net_host_clear(struct gy_net_host *node);
/* This rank's buffers: `most` bytes, aligned to a cache line. All ranks use the same offsets. */
GY_INT void *gy_net_host_memory(struct gy_net_host *node);
/* Sums `count` floats at data, which lies in gy_net_host_memory at the same offset on every rank.
 * The sum stands in gy_net_host_sums. Blocks. */
GY_INT int gy_net_host_allreduce(struct gy_net_host *node, float *data, int64_t count, struct gy_error *err);
/* The same for memory of the rank's own: copied in and out, a piece at a time. */
GY_INT int gy_net_host_allreduce_outside(struct gy_net_host *node, float *data, int64_t count, struct gy_error *err);
/* Begins the sum of `count` floats at data, as above. The data and the place of the sum are not
 * touched until the sum is there. All ranks begin the same sums in the same order; tickets count
 * from 0. It waits for other ranks only when GY_NET_HOST_OPEN sums of this rank are not
 * finished. */
GY_INT int gy_net_host_start(struct gy_net_host *node, float *data, int64_t count, int64_t *ticket, struct gy_error *err);
/* Sums this rank's slice of all that every rank is ready for, without waiting. */
GY_INT void gy_net_host_progress(struct gy_net_host *node);
/* 1: this rank has begun the sum of this ticket. */
GY_INT int gy_net_host_has_begun(const struct gy_net_host *node, int64_t ticket);
/* As gy_net_host_progress, and asks for one sum. 1: the sum is there; 0: not yet; < 0: a status
 * of the level above. */
GY_INT int gy_net_host_test(struct gy_net_host *node, int64_t ticket, struct gy_error *err);
/* The same until the sum is there. GY_E_PEER: a rank is lost, or later than wait_ns. */
GY_INT int gy_net_host_wait(struct gy_net_host *node, int64_t ticket, struct gy_error *err);
/* The first other rank of this host that has not begun the sum, else that has not finished it;
 * -1: none. */
GY_INT int gy_net_host_missing(const struct gy_net_host *node, int64_t ticket);
/* not 0: this rank has begun sums and not done its part of them */
GY_INT int gy_net_host_busy(const struct gy_net_host *node);
/* of this host alone */
GY_INT int gy_net_host_barrier(struct gy_net_host *node, struct gy_error *err);

/* The level above. A sum is cut into `parts` parts of equal size up to 16 floats. The ranks own
 * them in order: rank r of n from part ceil(r parts / n) on. */
struct gy_net_host_level {
    void *self;
    int parts;
    unsigned flights; /* sums that it works on at once, numbered from 0 */
    /* Begins the sum over hosts of this rank's parts of `count` floats at data, in
     * gy_net_host_sums. Flights are used in turn. */
    int (*start)(void *self, unsigned flight, float *data, int64_t count, struct gy_error *err);
    /* 1: the sum is there; 0: not yet; < 0: a status */
    int (*test)(void *self, unsigned flight, struct gy_error *err);
};
/* Before the first sum, on all ranks of all hosts. */
GY_INT void gy_net_host_join(struct gy_net_host *node, const struct gy_net_host_level *level);
/* The ticket of the sum that the level works on in this flight; -1: none. */
GY_INT int64_t gy_net_host_in_flight(const struct gy_net_host *node, unsigned flight);
/* lost: what a waiting rank calls again and again. It returns GY_OK, or a status that ends the wait
 * (a rank is lost). */
GY_INT void gy_net_host_watch(struct gy_net_host *node, int (*lost)(void *self, struct gy_error *err), void *self);
GY_INT int64_t gy_net_host_part(int64_t count, int parts, int part); /* where a part begins */

#endif
