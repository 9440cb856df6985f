/* SPDX-License-Identifier: MIT */
/* trace.h: what a net did when, kept in a ring, for Chrome's trace viewer. Rows of a rank: its ops, its sums with other ranks, its input. */
#ifndef GY_TRACE_H
#define GY_TRACE_H
#include "engine/base/base.h"

enum gy_trace_row { GY_TRACE_COMPUTE, GY_TRACE_TALK, GY_TRACE_INPUT, GY_TRACE_ROWS };

struct gyre_net;

struct gy_trace_event {
    const char *name, *what, *group; /* they live as long as the net */
    int64_t began, ended;            /* gy_clock_ns */
    int64_t step;
    double bytes;                    /* 0: not said */
    int row;
};
struct gy_trace {
    struct gy_trace_event *events;   /* [room]; NULL: nothing is kept */
    int64_t room, count;             /* count: of all times; the last `room` of them are there */
    int64_t talk_ended;              /* sums are there one after the other */
};

GY_INT int gy_trace_open(struct gyre_net *net); /* gyre_config.trace_events; memory is the net's arena's */
GY_INT int64_t gy_trace_clock(const struct gyre_net *net); /* 0 when nothing is kept */
/* From began until now. name: of the layer or bucket; what: op; group: program. */
GY_INT void gy_trace_put(struct gyre_net *net, int row, const char *name, const char *what, const char *group, int64_t began, double bytes);

#endif
