/* SPDX-License-Identifier: MIT */
/* trace.h: when the last events of a net ran, in a ring, for Chrome's trace viewer: ops, sums with
 * other ranks, input. step.c, parallel.c, split_run.c and train/net_train.c put them in. */
#ifndef GY_TRACE_H
#define GY_TRACE_H
#include "engine/run/engine.h"

enum gy_trace_row { GY_TRACE_COMPUTE, GY_TRACE_TALK, GY_TRACE_INPUT, GY_TRACE_ROWS };

GY_INT int gy_trace_open(struct gyre_net *net); /* trace_events; memory of the net's arena */
GY_INT int64_t gy_trace_clock(const struct gyre_net *net); /* 0 when nothing is kept */
/* From began until now. name: of the layer or bucket; what: op; group: program, or kind of sum. */
GY_INT void gy_trace_put(struct gyre_net *net, int row, const char *name, const char *what, const char *group, int64_t began, double bytes);

#define GY_TRACE_END "\n]\n"
GY_INT int gy_trace_ready(struct gyre_net *net, const char *path); /* may it be written? */
/* behind: the file as other ranks left it, or NULL. */
GY_INT int gy_trace_write(struct gyre_net *net, const char *path, const char *behind, size_t bytes);

#endif
