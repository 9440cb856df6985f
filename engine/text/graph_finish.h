/* SPDX-License-Identifier: MIT */
/* graph_finish.h: what net_text.c calls behind the last layer, and its table of layers' names. */
#ifndef GY_GRAPH_FINISH_H
#define GY_GRAPH_FINISH_H
#include "engine/text/graph.h"

/* Names of values, found by hash. */
struct gy_names {
    const struct gy_graph *graph;
    int *slots;       /* node + 1, 0 empty */
    uint32_t mask;
};
GY_INT int gy_names_open(struct gy_names *names, const struct gy_graph *graph, int count, struct gy_arena *arena,
                         struct gy_error *err);
GY_INT int gy_names_find(const struct gy_names *names, const char *name); /* node, or -1 */
GY_INT void gy_names_add(struct gy_names *names, int node);               /* its name must be new */

/* Ends a graph that has all nodes: loss, unused values, names of unlabelled nodes, parameters.
 * unlabelled[node]: its number among the unlabelled ones of its kind and scope; its name is the
 * scope's prefix. 0: it has a name. */
GY_INT int gy_graph_finish(struct gy_graph *graph, struct gy_names *names, const int *unlabelled,
                           struct gy_arena *arena, const char *source, struct gy_error *err);

#endif
