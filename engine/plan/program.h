/* SPDX-License-Identifier: MIT */
/* program.h: a graph made ready to run: flat programs of ops, and a place in memory for every
 * tensor. engine/plan makes it, engine/run walks it. Nothing here depends on data.
 *
 * Time is the position of an op in the training timeline (forward, backward, update) or in the
 * evaluation timeline. A tensor of the ACT region lives from the op that first writes it to the
 * last that touches it. Tensors whose lives do not overlap share memory. All other regions are
 * permanent. Parameters and gradients lie in reverse layer order, at equal offsets. */
#ifndef GY_PROGRAM_H
#define GY_PROGRAM_H
#include "kernels/backend.h"
#include "engine/base/text.h"
#include "engine/text/graph.h"
#include "kernels/op_table.h"

/* Other lists of them: run/, train/outlive.c and train_served.c (grep GY_AT_OPT2). */
enum gy_region {
    GY_AT_PARAM,    /* trained weights, float32 masters */
    GY_AT_GRAD,     /* their gradients, the same layout */
    GY_AT_OPT1, GY_AT_OPT2, /* momentum; second moment: the same layout */
    GY_AT_EMA,      /* moving average of weights: the same layout */
    GY_AT_STATE,    /* running statistics */
    GY_AT_KEEP,     /* copy of STATE from before the step, to undo it */
    GY_AT_IN,       /* the batch: samples, labels, mix, targets */
    GY_AT_OUT,      /* scores, loss and rank of each sample, norms */
    GY_AT_ACT,      /* activations, their gradients, scratch of ops: shared by lifetime */
    GY_AT_LEVELS,   /* sums of gradients and statistics over 1, 2, 4 ... of a process's shards */
    GY_AT_LAND,     /* a device with own memory: where the next batch lands while IN is read */
    GY_AT_SLOTS,    /* a stage: what forward keeps of each micro-batch; split layers: their sums */
    GY_REGIONS
};

enum gy_program_kind { GY_FORWARD, GY_BACKWARD, GY_UPDATE, GY_EVAL, GY_PROGRAMS };

struct gy_tensor {
    const char *name;
    int region, dtype;
    int32_t dims;
    int64_t dim[4];      /* shape, 1..4 of them */
    int64_t count;
    size_t bytes, offset; /* in its region */
    int timeline;        /* ACT: 0 training, 1 evaluation */
    int first, last;     /* ACT: times */
    int buffer;          /* ACT: tensors with one buffer share one piece of memory */
};

struct gy_program {
    struct gy_op *ops;
    int count, room;
};

struct gy_builder;

/* A part of a net: a stage of its layers (stages.h), or slices of some layers (split.h). */
struct gy_stages {
    const int *of; /* [nodes]; NULL: all layers are here */
    int mine;
    int (*cut)(struct gy_builder *b); /* leaves this part's ops, and puts messages among them */
    /* 1: `own` rows of a parameter are here; any rank has at most `most`. NULL: all are whole */
    int (*rows)(const struct gy_builder *b, int param, int32_t *own, int32_t *most);
};

struct gy_plan_config {
    int64_t batch;
    int train, u8;
    int recompute; /* 1: segments of the net; 0: batch norms' outputs, the input; -1: nothing */
    int dtype;             /* of activations and their gradients */
    float mean[4], std[4];
    int optimizer;         /* enum gyre_optimizer_kind */
    int nesterov, decay_all, average; /* average: of weights, for evaluation */
    float f[8];            /* update constants, enum gy_update_constant */
    int ranks, shards;     /* processes; shards of each of them, one after the other: at least 1 */
    int sync_bn;           /* statistics of batch norms over all ranks */
    size_t bucket_bytes;   /* gradients that are summed at a time; 0: GY_BUCKET_BYTES */
    struct gy_tuned *tuned; /* measured block sizes, or NULL */
    const struct gy_stages *stages; /* NULL: one process has the whole net */
};

#define GY_PLAN_RULES 5 /* enum gyre_optimizer_kind */
/* Of each weight: its momentum, and a second moment where the rule has one. */
GY_INT int gy_plan_moments(int optimizer);
GY_INT int gy_plan_rule_norms(int optimizer); /* 1: the rule asks for the norms of each layer */

#define GY_BUCKET_BYTES ((size_t)4 << 20)

/* Gradients that are summed together: a contiguous piece of their region, and the spans in it. */
struct gy_bucket {
    int tensor;            /* that piece */
    int first_span, span_count;
    int ready;             /* last op of backward that writes into it; -1: none */
};

struct gy_plan {
    struct gy_program program[GY_PROGRAMS];
    struct gy_tensor *tensors;
    int tensor_count, tensor_room;
    struct gy_span *spans;
    int span_count, common; /* common: the first of them, of parameters that all ranks have whole */
    size_t common_bytes;   /* their gradients */
    struct gy_bucket *buckets; /* as they complete; only with several ranks or shards */
    int bucket_count;
    int levels;            /* of GY_AT_LEVELS */
    int *param;            /* tensor of each graph parameter */
    int *grad;             /* tensor of its gradient, -1 for state */
    int *span_of;          /* span of each graph parameter, -1 for state */
    int input, label, mix, target;     /* tensors; mix and target -1 when unused */
    int scores, loss, rank;            /* GY_AT_OUT */
    int all_scores, all_loss, all_rank; /* the same of all shards of a step; -1: one shard */
    int norms; /* GY_AT_OUT: of weights, gradients before the last update; -1: not needed */
    size_t region_bytes[GY_REGIONS];
    int64_t act_sum_bytes; /* what ACT would take without sharing */
};

/* Fills every op's ptr from the regions' base addresses. */
GY_INT void gy_plan_place(struct gy_plan *plan, void *const base[GY_REGIONS]);

GY_INT const char *gy_region_name(int region);
GY_INT const char *gy_program_name(int program);

/* A plan while it is made. plan_compile.c opens it; emitters, buckets and places fill it. */
struct gy_builder {
    struct gy_plan *plan;
    const struct gy_graph *graph;
    const struct gy_plan_config *config;
    const struct gy_uniform *uniform;
    struct gy_arena *arena;
    struct gy_error *err;
    int status;      /* first error, sticky: emitting goes on without effect */
    int timeline;    /* of tensors that are made now */
};
/* They make a tensor, -1 after an error, and an op, NULL after an error. */
GY_INT int gy_build_tensor(struct gy_builder *b, const char *name, int region, int dtype, int dims, int64_t d0, int64_t d1,
                           int64_t d2, int64_t d3);
GY_INT struct gy_op *gy_build_op(struct gy_builder *b, int program, const struct gy_op *op);
GY_INT void gy_build_buckets(struct gy_builder *b); /* bucket.c: after the backward program */
GY_INT int gy_build_places(struct gy_builder *b);   /* lifetimes.c */

#endif
