/* SPDX-License-Identifier: MIT */
/* outlive.h: a net whose job lost ranks or got new ones. The training loop (net_train.c) keeps
 * aside what it learnt, opens the net anew for the present ranks and its new shards, and restores
 * it. */
#ifndef GY_OUTLIVE_H
#define GY_OUTLIVE_H
#include "engine/run/engine.h"

/* Weights, state of the optimiser, average, running statistics; counters. */
struct gy_outlive {
    void *bytes;              /* region after region */
    size_t room;
    int64_t updates;
    char *text[7];            /* copies of the configuration's texts */
};
/* torn: a step was begun whose update was not made. */
GY_INT int gy_outlive_keep(struct gy_outlive *kept, struct gyre_net *net, int torn);
GY_INT void gy_outlive_drop(struct gy_outlive *kept, struct gyre_net *net); /* zeroed: fine */
/* The ranks come together again; the net is opened anew in its place and has what was kept. After a
 * failure it can only be closed, or this is called again, as where one was lost meanwhile. */
GY_INT int gy_outlive_again(struct gyre_net *net, const struct gy_outlive *kept);
/* A collective: all ranks get the weights, the counters and the `bytes` of state of the rank with
 * the most updates, of several the first. A rank that joined has none. Where all have equally many
 * nothing is sent. */
GY_INT int gy_outlive_share(struct gyre_net *net, void *state, size_t bytes);

#endif
