/* SPDX-License-Identifier: MIT */
/* stages.h: a net in stages of consecutive layers, each on a rank. run/pipeline_plan.c calls it.
 *
 * The planner emits the ops of the whole net as for one process, so that fusion, order and bits are
 * the same. Then each stage keeps the ops of its layers. A tensor that one stage makes and another
 * reads becomes a message: activations go to later stages, gradients to earlier ones. A gradient to
 * which several stages add goes from one to the next, so that terms are added in their order.
 *
 * What forward leaves for backward has a slot, a place of its own for each micro-batch in flight.
 * Other activations share memory by lifetime as in one process. */
#ifndef GY_PLAN_STAGES_H
#define GY_PLAN_STAGES_H
#include "engine/plan/program.h"

#define GY_STAGES_MOST 64

struct gy_stage_message {
    int number;      /* the same on both sides, and another for every message */
    int sends, peer; /* peer: a stage */
    int program;     /* enum gy_program_kind */
    int tensor;
};

struct gy_stage_plan {
    struct gy_stages base; /* first: what the planner sees */
    int count;             /* stages */
    int slots;   /* micro-batches between their forward and their backward pass, at most */
    int batches; /* micro-batches whose samples are kept; one of an evaluation comes behind */
    int *of;     /* [nodes] */
    struct gy_stage_message *messages; /* that this stage sends and receives */
    int message_count, message_room;
    size_t slot_bytes, in_bytes, out_bytes; /* of one slot of GY_AT_SLOTS, GY_AT_IN, GY_AT_OUT */
};

/* Roles that an op reads, as bits. What it adds to counts, too. So does what a GY_F_PARTIAL op
 * writes: with no sample absent, it keeps its value. */
GY_INT uint64_t gy_stages_reads(const struct gy_op *op);

/* Seconds that an op takes one core, estimated from its work: stages are cut by them. */
GY_INT double gy_stages_seconds(const struct gy_plan *plan, const struct gy_op *op);

/* gy_stages.cut of such a plan. */
GY_INT int gy_stages_cut(struct gy_builder *b);

/* What is known of the layers before they are cut. */
struct gy_stage_unit {
    int first, last;    /* nodes: the net can be cut before the first and behind the last */
    double seconds;     /* of forward and backward, one micro-batch, from the ops' work */
    size_t fixed, kept; /* bytes: parameters with all that belongs to them; for each slot */
    size_t most;        /* bytes: the most that lives at once besides */
    size_t crosses;     /* bytes that go over the border behind it, forward */
    size_t enters;      /* bytes kept of those that come over the border before it */
};
struct gy_stage_units {
    struct gy_stage_unit *unit;
    int count;
};
/* Of a whole plan with recompute -1; other plans have its ops in the same order. copies: of a
 * gradient's bytes, for optimiser state and sums. Memory: the arena's. */
GY_INT int gy_stages_look(struct gy_stage_units *out, const struct gy_plan *plan,
                          const struct gy_graph *graph, int copies, struct gy_arena *arena,
                          struct gy_error *err);

/* Where to cut. */
struct gy_stage_choice {
    int stages;
    const int *slots;         /* [stages] */
    size_t limit;             /* bytes of a rank; 0: any */
    int last[GY_STAGES_MOST]; /* out: the last unit of each stage */
    double seconds;           /* out: of the slowest stage */
};
/* The slowest stage is as fast as can be. GY_E_ARG: the pipeline is longer than the net, or a stage
 * fits no rank. */
GY_INT int gy_stages_choose(struct gy_stage_choice *choice, const struct gy_stage_units *units,
                            const struct gy_graph *graph, struct gy_arena *arena,
                            struct gy_error *err);
GY_INT size_t gy_stages_bytes(const struct gy_stage_units *units, int first, int last,
                              int slots); /* of units, about */

#endif
