/* SPDX-License-Identifier: MIT */
/* peers.h: the other ranks, as a net and its training loop see them: a table of calls in struct
 * gyre_job. A program that opens no job links no network. gy_peers_NAME accepts a NULL job, which
 * is one rank alone. engine/job fills the table; engine/run, engine/train and engine/glm call
 * it. */
#ifndef GY_PEERS_H
#define GY_PEERS_H
#include "engine/gyre_base.h"
#include "engine/base/mem.h"

struct gyre_job;
struct gyre_job_config;
struct gy_net_request;
struct gy_wire;
struct gy_wire_calls;
GYRE_API int gyre_job_rank(const struct gyre_job *job); /* as in gyre_job.h, which is a job's own */
GYRE_API int gyre_job_ranks(const struct gyre_job *job);

/* What a rank does, for its flight recorder: programs as in program.h, work of the training loop,
 * and exchanges with other ranks. */
enum gy_doing {
    GY_DOES_FORWARD, GY_DOES_BACKWARD, GY_DOES_UPDATE, GY_DOES_EVAL,
    GY_DOES_STEP, GY_DOES_BATCH, GY_DOES_SAVE, GY_DOES_TEST,
    GY_DOES_SUM, GY_DOES_WAIT, GY_DOES_MEET, GY_DOES_AGREE, GY_DOES_MESSAGE, GY_DOES_END,
    GY_DOES_LOST, GY_DOES_CUT, GY_DOINGS
};

/* gy_job_NAME says what a call does, in job.h, deal.h, cast.h or messages.h. */
struct gy_peers {
    int (*sum)(struct gyre_job *job, float *data, int64_t count, struct gy_error *err);
    int (*any)(struct gyre_job *job, int flag, int *out, struct gy_error *err);
    int (*agree)(struct gyre_job *job, const char *what, uint64_t value, struct gy_error *err);
    int (*agree_alike)(struct gyre_job *job, const char *what, uint64_t kind, uint64_t value, struct gy_error *err);
    int (*follow)(struct gyre_job *job, int64_t *value, struct gy_error *err);
    int (*alive)(struct gyre_job *job, struct gy_error *err);
    int (*deal)(struct gyre_job *job, int shards, int *first, int *count, struct gy_error *err);
    int (*take)(struct gyre_job *job, size_t bytes, void **out, void **sums, struct gy_error *err);
    void (*put)(struct gyre_job *job, void *memory);
    void (*turn)(struct gyre_job *job, const void *memory, int sums);
    int (*start)(struct gyre_job *job, float *data, int64_t count, int64_t *ticket, struct gy_error *err);
    int (*test)(struct gyre_job *job, int64_t ticket, struct gy_error *err);
    int (*wait)(struct gyre_job *job, int64_t ticket, struct gy_error *err);
    int (*post)(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err);
    int (*progress)(struct gyre_job *job, struct gy_error *err);
    int (*await)(struct gyre_job *job, struct gy_net_request *request, struct gy_error *err);
    int (*reform)(struct gyre_job *job, struct gy_error *err);
    int (*look)(struct gyre_job *job);
    int (*cast)(struct gyre_job *job, int from, void *bytes, size_t count, struct gy_error *err);
    int (*share)(struct gyre_job *job, const void *own, size_t count, void *all, struct gy_error *);
    const struct gy_served_calls *served; /* served.h; NULL: there are no servers */
    void (*note)(struct gyre_job *job, int note, int ended, int64_t step); /* for recorder.c */
    void (*failed)(struct gyre_job *job, int status, const char *text); /* this rank, by itself */
    const struct gy_wire_calls *(*wire)(void); /* wire.h */
};

struct gy_net_comm;
struct gy_net_host;
struct gy_net_shared;
struct gy_recorder;

#define GY_JOB_BLOCKS 64 /* ranks of a host, or of an elastic job */

/* A net reads who the ranks are; the rest is job.c's own. */
struct gyre_job {
    const struct gy_peers *peers;
    int rank, ranks, local, locals, hosts; /* local: among those of this host */
    int half;                 /* gradients travel as bf16 between hosts */
    int tree; /* memory taken now is for sums in the order of the tree of shards */
    int uneven, first[GY_JOB_BLOCKS + 1]; /* not equally many shards: rank r from first[r] on */
    /* elastic: the most ranks of a job that survives losses; 0: off. joined: this rank came late.
     * blocks: sums between hosts follow the blocks of shards, whatever the hosts. */
    int elastic, joined, blocks;
    int over; /* gyre_job_end was called */

    struct gy_alloc alloc;
    struct gyre_job_config *config;
    struct gy_net_reform *reform; /* elastic: by which ranks come together again */
    struct gy_served *served; /* with servers: what the calls there need */
    struct gy_net_comm *world; /* NULL: alone */
    void *base;               /* mapping of the host's file, for sums that are copied */
    size_t bytes;
    struct gy_net_host *node;
    int fd;                   /* the file that is the memory of this host's ranks; the world's */
    int64_t wait_ns;
    struct gy_recorder *recorder; /* recorder.h; NULL: alone */
    size_t end;               /* bytes of the file before those of areas */
    struct gy_job_area *area; /* [GY_JOB_AREAS] */

    int messages;              /* ranks send each other messages */
    struct gy_net_shared *shared; /* to those of this host; NULL: it has one rank */
    void *rings;               /* its memory */
    size_t ring_bytes;
    struct gy_wire *left;     /* messages that a failure left under way */
};

/* Calls that a rank may also make without a job (NULL): it agrees with itself, and a sum leaves its
 * data as it was. */
GY_INT int gy_peers_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err);
GY_INT int gy_peers_any(struct gyre_job *job, int flag, int *out, struct gy_error *err);
GY_INT int gy_peers_agree(struct gyre_job *job, const char *what, uint64_t value, struct gy_error *err);
GY_INT int gy_peers_agree_alike(struct gyre_job *job, const char *what, uint64_t kind, uint64_t value, struct gy_error *err);
GY_INT int gy_peers_follow(struct gyre_job *job, int64_t *value, struct gy_error *err);
/* GY_E_PEER: a rank is lost */
GY_INT int gy_peers_alive(struct gyre_job *job, struct gy_error *err);
GY_INT void gy_peers_note(struct gyre_job *job, int note, int ended, int64_t step);

#endif
