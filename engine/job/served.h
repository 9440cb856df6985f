/* SPDX-License-Identifier: MIT */
/* served.h: a job of workers and parameter servers. The first ranks are servers. Each holds a part
 * of the parameters, cut into slices, adds the gradients that workers push, updates its part and
 * sends it back. A worker sees the others as a job of workers alone, with the calls of any job.
 * There a sum that begins is a gradient that is pushed, and waiting for it puts weights in place.
 *
 * Until gy_served.begin all ranks do the same, as in any job. From then until .leave a server
 * serves, workers talk to servers alone, and workers may be lost. The first live worker leads: it
 * tests and saves. served_job.c fills the table of calls; engine/train/train_served.c and
 * train_lead.c call it. */
#ifndef GY_JOB_SERVED_H
#define GY_JOB_SERVED_H
#include "engine/job/peers.h"
#include "net/server/slice.h"

/* A server's update of a slice. */
struct gy_served_update {
    int slice;
    const float *gradient;   /* the sum */
    float labelled;          /* samples behind it */
    int64_t version, step;   /* updates of the slice before; steps of the schedule before */
    int64_t slower;          /* above 1: the learning rate is divided by it */
};

/* What is trained, as floats. */
struct gy_served_net {
    const struct gy_server_slice *slices; /* [count]; their servers are not read */
    int count;
    int64_t floats;          /* of all parameters */
    int64_t version;         /* updates so far */
    uint64_t run;            /* tells runs apart */
    const char *whole;       /* why no worker may be lost; NULL: each may */
    const float *gradients;  /* where sums are begun; a slice's are at its first */
    float *weights;          /* where a server finds what it answers */
    /* Regions of the same layout that a checkpoint needs, 4 at most. */
    int regions;
    float *region[4];        /* the first one is that of the weights */
    void *user;
    /* A worker: sum of losses and number of labelled samples behind the gradients. */
    void (*figures)(void *user, float out[2]);
    /* A worker: these are the slice's weights from now on. A server: makes the update. */
    int (*place)(void *user, int slice, const float *weights, struct gy_error *err);
    int (*update)(void *user, const struct gy_served_update *update, struct gy_error *err);
};

/* What a run with servers ends with. */
#define GY_SERVED_STALE 16 /* places of a histogram: 0, 1, ... and the last one: 15 and more */
struct gy_served_report {
    int64_t taken, dropped;            /* gradients of slices */
    int64_t stale[GY_SERVED_STALE];
    int64_t most;
    int64_t lost, came, again;         /* workers; that came back; gradients of those */
    int64_t meet;                      /* 1: none of it counts, the ranks come together first */
};

struct gy_served_calls {
    /* All ranks. A worker may begin its first step; of a server it returns when all workers have
     * left. */
    int (*begin)(struct gyre_job *job, const struct gy_served_net *net, struct gy_error *err);
    /* Whoever leads gets those regions of all servers (bit k: region k). last: when all others have
     * left. */
    int (*fetch)(struct gyre_job *job, unsigned regions, int last, struct gy_error *err);
    /* leads: this worker does, and has saved all. Waits until whoever leads has left. report: what
     * all servers counted. Returns 1: this worker has to lead by now, and leaves later. */
    int (*leave)(struct gyre_job *job, int leads, struct gy_served_report *report,
                 struct gy_error *err);
    /* Between two updates, after `steps` steps. Where somebody waits to join, all ranks come
     * together, and new ones take the places of workers that were lost. */
    int (*meet)(struct gyre_job *job, int64_t steps, struct gy_error *err);
    int (*came)(struct gyre_job *job); /* workers that joined since the last call */
    int64_t (*steps)(const struct gyre_job *job); /* of one that joined: the others' by then */
    int (*leads)(struct gyre_job *job); /* 1: this worker does from now on: its rank is 0 */
    /* Updates, in steps of all workers, that this worker has heard of. */
    int64_t (*updates)(const struct gyre_job *job);
    int (*is_lockstep)(const struct gyre_job *job); /* every step is of all workers */
    /* The sentence of a worker that was lost, where the others go on, each once; NULL: none. takes:
     * gradients of an update from then on; 0: each makes one. */
    const char *(*lost)(struct gyre_job *job, int *takes);
};

#endif
