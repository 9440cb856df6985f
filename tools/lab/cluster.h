/* SPDX-License-Identifier: MIT */
/* cluster.h: a cluster for the simulation, read from a file, with published figures of it to
 * compare with. collective.c and fit_ranks.c read it. */
#ifndef GY_NET_CLUSTER_H
#define GY_NET_CLUSTER_H
#include "net/schedule/schedule.h"
#include "net/schedule/simulation.h"

#define GY_CLUSTER_PUBLISHED 12

struct gy_cluster_file {
    struct gy_net_cluster net;
    int batch; /* images of a rank's step, which takes net.compute; 0: the file does not say */
    int published_count; /* efficiencies that others measured, by ranks */
    struct {
        int ranks;
        double efficiency;
    } published[GY_CLUSTER_PUBLISHED];
    char notes[800]; /* lines to print below a table */
};

/* The text format is explained by tools/examples/ddl.cluster; errors give line and column. A file
 * may include others, whose names are relative to its folder; files that include each other in a
 * loop are refused. */
GY_INT int gy_cluster_read(struct gy_cluster_file *out, const char *path, struct gy_error *err);
/* The same of a text; what it includes is read. */
GY_INT int gy_cluster_parse(struct gy_cluster_file *out, const char *text, size_t bytes,
                            const char *name, struct gy_error *err);
/* Ranks in hosts, hosts in two dimensions as square as they divide. */
GY_INT void gy_cluster_dims(struct gy_net_shape *shape, const struct gy_net_cluster *cluster);

#endif
