/* SPDX-License-Identifier: MIT */
/* boot.h: how the ranks of a job find each other. Rank 0 listens on one address and every other
 * rank connects to it. Both ends prove that they know the job's key. From then on rank 0 gathers
 * and spreads what ranks must know of each other (a star: control only, no data).
 *
 * comm.c opens it and compares what must be equal everywhere; network.c and choice.c gather by it.
 * Then failure.c has the connections for signs of life. reform.c makes one from connections. */
#ifndef GY_NET_BOOT_H
#define GY_NET_BOOT_H
#include "engine/base/mem.h"
#include "net/transport/auth.h"

#define GY_NET_BLOB_MOST (1 << 22) /* bytes of an exchange, of all ranks together */

/* The place of a process in its job. It comes from the first launcher whose variables are set:
 * gyre, Open MPI, torchrun, Slurm, PMI or PMIx. */
struct gy_net_launcher {
    int rank, ranks;
    int local, locals;      /* among those of its host; -1 when the launcher does not say */
    const char *launcher;   /* "gyre", "Open MPI", ... or NULL: alone, rank 0 of 1 */
    char host[256];         /* where rank 0 listens; empty: this host */
    int port;               /* 0: not known */
    /* names the job among those of its launcher: the same text on all its ranks; empty: not
     * known */
    char job[192];
};
GY_INT int gy_net_launcher_read(struct gy_net_launcher *out, const char *(*get)(const char *name), struct gy_error *err);

struct gy_net_boot_config {
    struct gy_net_launcher place;
    unsigned char key[GY_NET_KEY_BYTES];
    /* rank 0: a listening socket that is already open; -1: opens place.port */
    int listener;
    /* for all ranks to come; a later exchange takes at most half a minute of it */
    int64_t wait_ns;
    /* of the job; each restart counts it up, so that ranks from before are refused */
    uint32_t epoch;
};

struct gy_net_boot;
/* Blocks until all ranks have come; owns config->listener from then on. GY_E_PEER: some did not
 * come within wait_ns, or one was lost; GY_E_MISMATCH: rank 0 has another key. */
GY_INT int gy_net_boot_open(struct gy_net_boot **out, const struct gy_net_boot_config *config, const struct gy_alloc *alloc,
                            struct gy_error *err);
/* Makes a boot from connections whose ends have already proved themselves. Rank 0 gives one link
 * for each rank; the other ranks give links[0], to rank 0. The boot owns them from then on, also
 * after an error. */
struct gy_net_boot_link {
    int fd;
    unsigned char key[GY_NET_KEY_BYTES];
};
/* The place by the variables that get returns; comm.c and engine/job/job.c call it. GY_E_ARG: a
 * value makes no sense. */
GY_INT int gy_net_boot_adopt(struct gy_net_boot **out, const struct gy_net_boot_config *config,
                             const struct gy_net_boot_link *links, const struct gy_alloc *alloc,
                             struct gy_error *err);
GY_INT void gy_net_boot_close(struct gy_net_boot *boot);
/* An allgather: all[rank * bytes] receives the bytes of each rank. All ranks give the same number
 * of bytes, at most GY_NET_BLOB_MOST / ranks. GY_E_PEER, on every rank: one is lost. */
GY_INT int gy_net_boot_gather(struct gy_net_boot *boot, const void *own, size_t bytes, void *all, struct gy_error *err);
/* Fields that must be equal on all ranks. GY_E_MISMATCH names the first field that differs, its
 * values and the rank; all ranks get the same sentence. */
struct gy_net_field {
    const char *name, *value;
};
GY_INT int gy_net_boot_compare(struct gy_net_boot *boot, const struct gy_net_field *fields, int count, struct gy_error *err);
/* Makes a key for one purpose. All ranks call it together and get the same key; each start of the
 * job gets another one. */
GY_INT int gy_net_boot_secret(struct gy_net_boot *boot, const char *purpose, unsigned char key[GY_NET_KEY_BYTES], struct gy_error *err);
/* The connection to a rank (rank 0: to any; others: to 0), for heartbeats; -1: none. */
GY_INT int gy_net_boot_socket(const struct gy_net_boot *boot, int rank);
/* One frame over that connection; both ends give the same number of bytes. GY_E_PEER: the
 * connection is closed, the frame is late, or its code is wrong. */
GY_INT int gy_net_boot_send(struct gy_net_boot *boot, int rank, const void *bytes, size_t count, int64_t deadline, struct gy_error *err);
GY_INT int gy_net_boot_take(struct gy_net_boot *boot, int rank, void *bytes, size_t count, int64_t deadline, struct gy_error *err);
GY_INT void gy_net_boot_drop(struct gy_net_boot *boot, int rank); /* ends it */

#endif
