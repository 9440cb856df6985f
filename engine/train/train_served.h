/* SPDX-License-Identifier: MIT */
/* train_served.h: training with parameter servers, for net_train.c and train_lead.c. A worker's net
 * pushes gradients, which servers sum; a server's net updates the part that it holds. */
#ifndef GY_TRAIN_SERVED_H
#define GY_TRAIN_SERVED_H
#include "engine/job/served.h"
#include "engine/run/engine.h"

struct gy_train_served {
    struct gyre_net *net;
    const struct gy_served_calls *calls; /* NULL: there are no servers */
    struct gy_server_slice *slices;      /* [buckets] */
    struct gy_served_report report;      /* behind gy_train_served_leave */
};

/* Zeroes t, and looks whether the net's job has servers. Without them serves, jumps, fetch, leave
 * and close do nothing; the other calls need them. */
GY_INT void gy_train_served_open(struct gy_train_served *t, struct gyre_net *net);
GY_INT void gy_train_served_close(struct gy_train_served *t);
GY_INT int gy_train_served_serves(const struct gy_train_served *t); /* this rank is a server */
/* Names workers that were lost, each once, in the log of who leads. One that begins to lead names
 * all that are gone: the leader may have been lost before it named another. */
GY_INT void gy_train_served_warn(const struct gy_train_served *t, int leads);
GY_INT int gy_train_served_leads(const struct gy_train_served *t); /* does this worker by now? */
/* a step need not be of all workers */
GY_INT int gy_train_served_jumps(const struct gy_train_served *t);
/* data: identifies the data set. On a server it returns when all workers have left. */
GY_INT int gy_train_served_begin(struct gy_train_served *t, uint64_t data);
/* Takes from the servers the average of weights, or, with all, what a checkpoint needs. last: the
 * end of the run, at which all other workers have left. */
GY_INT int gy_train_served_fetch(struct gy_train_served *t, int all, int last);
/* 1: this worker has to lead, and leaves later. */
GY_INT int gy_train_served_leave(struct gy_train_served *t, int leads);
/* Batches that all workers have done, as this one has heard. */
GY_INT int64_t gy_train_served_steps(const struct gy_train_served *t);

#endif
