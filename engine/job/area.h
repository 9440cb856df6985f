/* SPDX-License-Identifier: MIT */
/* area.h: one piece of memory of a job in which sums need no copy, as job.c keeps it and recorder.c
 * reads it. gy_job_take makes it in the file that all ranks of the host map. */
#ifndef GY_JOB_AREA_H
#define GY_JOB_AREA_H
#include "net/comm/host_memory.h"
#include "net/comm/host_sockets.h"

#define GY_JOB_AREAS 16

/* Memory of gy_job_take: this rank's part, and what it belongs to. */
struct gy_job_area {
    void *at;                 /* NULL: a free place in the table */
    size_t bytes;
    int shared;               /* sums go into one result */
    void *base;               /* mapping; NULL: of this process alone */
    size_t base_bytes, offset; /* in the host's file */
    struct gy_net_host *node;  /* sums of this host's ranks, or of this socket's */
    struct gy_net_host_sockets *sockets; /* of sockets: the owner of the node; else NULL */
};

#endif
