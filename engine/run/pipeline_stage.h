/* SPDX-License-Identifier: MIT */
/* pipeline_stage.h: the state of a net that is a stage of several, for the files pipeline*.c. */
#ifndef GY_PIPELINE_STAGE_H
#define GY_PIPELINE_STAGE_H
#include "engine/job/wire.h"
#include "engine/plan/stage_schedule.h"
#include "engine/plan/stages.h"
#include "engine/run/engine.h"

/* A micro-batch of the present update. */
struct gy_pipe_micro {
    int absent, unnamed;
    uint64_t counter;          /* of random numbers */
    struct gyre_result result; /* of this rank's copy on the last stage; then of all, everywhere */
};

struct gy_pipe {
    struct gy_stage_plan plan;
    int stage, stages, copy, copies;
    int micros;                     /* of an update */
    struct gy_stage_action *action; /* [2 * micros] */
    struct gy_pipe_micro *micro;    /* [micros] */
    int done;                       /* micro-batches whose results are there */
    int scored;                     /* scores of an evaluation are there */
    float *exchange; /* what ranks tell each other of an update; pipeline_results.c */
    int64_t exchange_count;
    struct gy_wire *wire;
    float *sum;                      /* a piece of another copy's gradients */
    unsigned char *in, *out, *slots; /* begins of these regions */
    int saving;                      /* rank 0 writes rows of all stages */
    float *window;                   /* rows of another stage */
    int64_t window_room;             /* floats */
    int window_param, window_region;
    int64_t window_first, window_count; /* rows */
    int64_t spent;                      /* nanoseconds in updates */
    int64_t busy[2], passes; /* of these in forward and backward passes, without waits */
};

#define GY_PIPE_SUM_FLOATS 65536

/* Numbers of messages that are no tensors of the plan. */
enum gy_pipe_number { GY_PIPE_SUM = 0x800000, GY_PIPE_ASK, GY_PIPE_ROWS, GY_PIPE_SHARE };

GY_INT const struct gy_wire_calls *gy_pipe_wire(const struct gyre_net *net);
GY_INT int gy_pipe_rank(const struct gyre_net *net, int stage, int copy); /* in the job */

/* pipeline_results.c */
GY_INT int64_t gy_pipe_exchange_count(const struct gy_pipe *pipe);
GY_INT int gy_pipe_exchange(struct gyre_net *net); /* results of all micro-batches, on all ranks;
                                                      and who was asked to stop */
GY_INT int gy_pipe_sum(struct gyre_net *net, float *data,
                       int64_t count); /* over the copies, as a balanced tree */
/* The result of an update; GY_E_NONFINITE or GY_E_ARG as gy_step_judge says. */
GY_INT int gy_pipe_judge(struct gyre_net *net, struct gyre_result *result);
GY_INT int gy_pipe_share(struct gyre_net *net, double *values, int count);
GY_INT int gy_pipe_result(const struct gyre_net *net, int micro, struct gyre_result *result);

/* pipeline_rows.c */
GY_INT int gy_pipe_has(const struct gyre_net *net, int region, int param);
GY_INT int gy_pipe_row(struct gyre_net *net, int param, int region, int32_t k, float *row);
GY_INT int gy_pipe_save(struct gyre_net *net, const char *path, int everything);

/* pipeline.c */
GY_INT const struct gy_pipe_calls *gy_pipe_calls(void);

#endif
