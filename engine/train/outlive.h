/* SPDX-License-Identifier: MIT */
/* outlive.h: a net whose job lost ranks or got new ones. The training loop keeps aside what it
 * learnt, opens the net anew for the present ranks and its new shards, and restores it. */
#ifndef GY_OUTLIVE_H
#define GY_OUTLIVE_H
#include "engine/run/engine.h"

/* Weights, state of the optimiser, average, running statistics; counters. */
struct gy_outlive {
    void *bytes;              /* region after region */
    size_t room;
    int64_t updates;
    char *text[7];            /* of the configuration: the net's lie in memory that goes */
};
/* torn: a step was begun whose update was not made. */
GY_INT int gy_outlive_keep(struct gy_outlive *kept, struct gyre_net *net, int torn);
GY_INT void gy_outlive_drop(struct gy_outlive *kept, struct gyre_net *net); /* zeroed: fine */
/* The ranks come together again; the net is opened anew in its place and has what was kept. After a
 * failure it can only be closed, or this is called again, as where one was lost meanwhile. */
GY_INT int gy_outlive_again(struct gyre_net *net, const struct gy_outlive *kept);
/* All ranks get what the first of those with the most updates has, and its `bytes` of state, where
 * one has less, or came anew. */
GY_INT int gy_outlive_share(struct gyre_net *net, void *state, size_t bytes);

#endif
