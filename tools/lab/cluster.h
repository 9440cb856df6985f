/* SPDX-License-Identifier: MIT */
/* cluster.h: a cluster for the simulation, read from a file. */
#ifndef GY_NET_CLUSTER_H
#define GY_NET_CLUSTER_H
#include "net/schedule/simulation.h"

/* The text format is explained by tools/examples/ddl.cluster; errors give line and column. */
GY_INT int gy_net_cluster_parse(struct gy_net_cluster *out, const char *text, size_t bytes, const char *name, struct gy_error *err);

#endif
