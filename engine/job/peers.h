/* SPDX-License-Identifier: MIT */
/* peers.h: the other ranks, as a net and its loop see them. A job brings a table of its calls
 * along; whoever opens no job links no network. */
#ifndef GY_PEERS_H
#define GY_PEERS_H
#include "engine/gyre_job.h"
#include "engine/base/mem.h"

struct gy_net_request;
struct gy_wire;
struct gy_wire_calls;

/* job.h says what each call does; its name there is gy_job_ with this one. */
struct gy_peers {
    int (*sum)(struct gyre_job *job, float *data, int64_t count, struct gy_error *err);
    int (*any)(struct gyre_job *job, int flag, int *out, struct gy_error *err);
    int (*agree)(struct gyre_job *job, const char *what, uint64_t value, struct gy_error *err);
    int (*agree_alike)(struct gyre_job *job, const char *what, uint64_t kind, uint64_t value, struct gy_error *err);
    int (*follow)(struct gyre_job *job, int64_t *value, struct gy_error *err);
    int (*alive)(struct gyre_job *job, struct gy_error *err);
    int (*take)(struct gyre_job *job, size_t bytes, void **out, void **sums, struct gy_error *err);
    void (*put)(struct gyre_job *job, void *memory);
    void (*turn)(struct gyre_job *job, const void *memory, int sums);
    int (*start)(struct gyre_job *job, float *data, int64_t count, int64_t *ticket, struct gy_error *err);
    int (*test)(struct gyre_job *job, int64_t ticket, struct gy_error *err);
    int (*wait)(struct gyre_job *job, int64_t ticket, struct gy_error *err);
    int (*post)(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err);
    int (*progress)(struct gyre_job *job, struct gy_error *err);
    int (*await)(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err);
    const struct gy_wire_calls *(*wire)(void); /* wire.h */
};

struct gy_net_comm;
struct gy_net_host;
struct gy_net_host_sockets;

#define GY_JOB_AREAS 16

/* Memory of gy_job_take: this rank's part, and what it belongs to. */
struct gy_job_area {
    void *at;                 /* NULL: a free place in the table */
    size_t bytes;
    int shared;               /* sums go into one result */
    void *base;               /* mapping; NULL: of this process alone */
    size_t base_bytes, offset; /* in the host's file */
    struct gy_net_host *node;  /* of all ranks of this host, or of its socket's */
    struct gy_net_host_sockets *sockets; /* then, else NULL; it owns the node */
};

/* A net reads who the ranks are, and sets tree; the rest is job.c's own. */
struct gyre_job {
    const struct gy_peers *peers;
    int rank, ranks, local, locals, hosts; /* local: among those of this host */
    int half;                 /* gradients travel as bf16 between hosts */
    int tree;                 /* memory that is taken now is for sums in the order of the tree of shards */

    struct gy_alloc alloc;
    struct gy_net_comm *world; /* NULL: alone */
    void *base;               /* mapping of the host's file, for sums that are copied */
    size_t bytes;
    struct gy_net_host *node;
    int fd;                   /* the file that is the memory of this host's ranks; the world's */
    int64_t wait_ns;
    size_t end;               /* bytes of the file that are taken */
    struct gy_job_area area[GY_JOB_AREAS];
    struct gy_wire *left;     /* messages that a failure left under way */
};

/* The calls that a rank may make without a job, which is NULL then: it agrees with itself, and a
 * sum is what it was. */
GY_INT int gy_peers_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err);
GY_INT int gy_peers_any(struct gyre_job *job, int flag, int *out, struct gy_error *err);
GY_INT int gy_peers_agree(struct gyre_job *job, const char *what, uint64_t value, struct gy_error *err);
GY_INT int gy_peers_agree_alike(struct gyre_job *job, const char *what, uint64_t kind, uint64_t value, struct gy_error *err);
GY_INT int gy_peers_follow(struct gyre_job *job, int64_t *value, struct gy_error *err);
GY_INT int gy_peers_alive(struct gyre_job *job, struct gy_error *err); /* GY_E_PEER: a rank is lost */

#endif
