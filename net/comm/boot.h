/* SPDX-License-Identifier: MIT */
/* boot.h: how the ranks of a job find each other; comm.c calls it. Rank 0 listens on one address
 * and every other rank connects to it. Both ends prove that they know the job's key. From then on
 * rank 0 gathers and spreads what ranks must know of each other (a star: control only, no data).
 * First it compares what must be equal everywhere, and names the field and the rank that differ. */
#ifndef GY_NET_BOOT_H
#define GY_NET_BOOT_H
#include "engine/base/mem.h"
#include "net/transport/auth.h"

#define GY_NET_BLOB_MOST (1 << 22)

/* Where a process stands in its job, from the first launcher that left its variables: GYRE_RANK ..., Open MPI, PMI, Slurm, torchrun. */
struct gy_net_launcher {
    int rank, ranks;
    int local, locals;      /* among those of its host; -1 when the launcher does not say */
    const char *launcher;   /* "gyre", "Open MPI", ... or NULL: alone, rank 0 of 1 */
    char host[256];         /* where rank 0 listens; empty: this host */
    int port;               /* 0: not known */
    char job[192];          /* the job among those of its launcher: equal on its ranks, and there alone; empty: not known */
};
GY_INT int gy_net_launcher_read(struct gy_net_launcher *out, const char *(*get)(const char *name), struct gy_error *err);

struct gy_net_boot_config {
    struct gy_net_launcher place;
    unsigned char key[GY_NET_KEY_BYTES];
    int listener;           /* rank 0: a listening socket that somebody opened for it, or -1: open place.port */
    int64_t wait_ns;        /* for everybody to come; an exchange among those who came takes at most half a minute of it */
    uint32_t epoch;         /* of the job: restarts count up, so that ranks from before are refused */
};

struct gy_net_boot;
GY_INT int gy_net_boot_open(struct gy_net_boot **out, const struct gy_net_boot_config *config, const struct gy_alloc *alloc,
                            struct gy_error *err);
/* Of connections that are there already, whose ends have proved themselves: those to the others for
 * rank 0, links[0] to rank 0 for the others. They are the boot's then, also where it fails. */
struct gy_net_boot_link {
    int fd;
    unsigned char key[GY_NET_KEY_BYTES];
};
GY_INT int gy_net_boot_adopt(struct gy_net_boot **out, const struct gy_net_boot_config *config,
                             const struct gy_net_boot_link *links, const struct gy_alloc *alloc,
                             struct gy_error *err);
GY_INT void gy_net_boot_close(struct gy_net_boot *boot);
/* Everybody's bytes (the same number, at most GY_NET_BLOB_MOST / ranks) to everybody: all[rank * bytes]. */
GY_INT int gy_net_boot_gather(struct gy_net_boot *boot, const void *own, size_t bytes, void *all, struct gy_error *err);
/* Fields that must be equal on all ranks; GY_E_MISMATCH names the first that is not, its values and the rank, on every rank. */
struct gy_net_field {
    const char *name, *value;
};
GY_INT int gy_net_boot_compare(struct gy_net_boot *boot, const struct gy_net_field *fields, int count, struct gy_error *err);
/* A collective: a key for a purpose, the same on all ranks and of this start of the job alone. */
GY_INT int gy_net_boot_secret(struct gy_net_boot *boot, const char *purpose, unsigned char key[GY_NET_KEY_BYTES], struct gy_error *err);
/* The connection to a rank (rank 0: to any; others: to 0), for heartbeats; -1: none. */
GY_INT int gy_net_boot_socket(const struct gy_net_boot *boot, int rank);
/* One frame over it, the same number of bytes at both ends. GY_E_PEER: closed, late, or not of this job. */
GY_INT int gy_net_boot_send(struct gy_net_boot *boot, int rank, const void *bytes, size_t count, int64_t deadline, struct gy_error *err);
GY_INT int gy_net_boot_take(struct gy_net_boot *boot, int rank, void *bytes, size_t count, int64_t deadline, struct gy_error *err);
GY_INT void gy_net_boot_drop(struct gy_net_boot *boot, int rank); /* ends it */

#endif
