/* SPDX-License-Identifier: MIT */
/* train_truth.h: training once more, in double and as plainly as possible: what a call with any
 * options must give. It reads struct gyre_config and batches as engine/gyre.h explains them and
 * calls nothing of the engine; the net itself is net_truth.h's. All ranks of a job are computed in
 * one place, one after the other.
 *
 * Beside each number stands how far off float arithmetic may be. It is measured, not guessed. The
 * same call is computed in other worlds, in which every layer's values and gradients are off by as
 * much as they are rounded.
 *
 *     train_open(&t, &config, 2, TRAIN_RIGHT);
 *     train_step(&t, batches);                                batches[rank]
 *     t.vector[TRAIN_WEIGHT][0][3].is[5], .may[5];          weight 5 of parameter 3; how far off
 *     train_adopt(&t.vector[TRAIN_WEIGHT][0][3], weights);  goes on from the engine's: roundings
 *                                                           do not add up */
#ifndef GY_TRAIN_TRUTH_H
#define GY_TRAIN_TRUTH_H
#include "engine/gyre.h"
#include "tests/net_truth.h"

#define TRAIN_WORLDS 6  /* the first is the truth */
#define TRAIN_RANKS 4
#define TRAIN_PARAMS 40

/* Numbers of a parameter. Those before TRAIN_STATE are the same on all ranks: rank 0 has them. */
enum train_kind {
    TRAIN_WEIGHT, TRAIN_MOMENTUM, TRAIN_SECOND, TRAIN_AVERAGE,
    TRAIN_STATE,    /* running statistics */
    /* Sum over a rank's samples since the last update. With sync_bn rank 0 holds the sum over all
     * ranks. */
    TRAIN_GRADIENT,
    TRAIN_PROBE,    /* the same of gyre_gradient */
    TRAIN_FRESH,    /* running statistics that a call makes */
    TRAIN_KINDS
};

/* A rule that is done wrongly, to see that somebody looks. */
enum train_fault {
    TRAIN_RIGHT,
    TRAIN_NO_MOMENTUM, TRAIN_RATE_IN_MOMENTUM, TRAIN_NO_NESTEROV, TRAIN_NO_DECAY, TRAIN_DECAY_BIASES, TRAIN_DECAY_NO_BIASES,
    TRAIN_DECAY_AS_L2, TRAIN_NO_CORRECTION, TRAIN_BETAS_SWAPPED, TRAIN_EPS_INSIDE, TRAIN_NO_RATIO, TRAIN_RATIO_UNCUT,
    TRAIN_RATIO_NO_DECAY, TRAIN_RATIO_OF_BIASES, TRAIN_OTHER_LARS, TRAIN_NO_CLIP, TRAIN_CLIP_EACH, TRAIN_CLIP_ALWAYS,
    TRAIN_CLIP_SUM, TRAIN_NO_RAMP, TRAIN_AVERAGE_BEFORE, TRAIN_AVERAGE_UNUSED, TRAIN_RATE_LATE, TRAIN_NO_WARMUP,
    TRAIN_WARMUP_FROM_0, TRAIN_WARMUP_COUNTS, TRAIN_MILESTONE_LATE, TRAIN_FINAL_0, TRAIN_POWER_1, TRAIN_PAST_END,
    TRAIN_MEAN_OF_MEANS, TRAIN_SUM_OF_CALLS, TRAIN_LAST_CALL, TRAIN_SUM_OF_SHARDS, TRAIN_LAST_STATE, TRAIN_SHARDS_TOGETHER, TRAIN_SUM_OF_RANKS,
    TRAIN_OWN_STATISTICS, TRAIN_OWN_LOSS, TRAIN_SAME_DROPOUT, TRAIN_RANKS_DROP_ALIKE, TRAIN_EVAL_DROPS, TRAIN_LABELS_UNMIXED,
    TRAIN_PIXELS_UNMIXED, TRAIN_NO_FLIP, TRAIN_MOVED_BACK, TRAIN_NO_SMOOTHING, TRAIN_UNLABELLED_COUNT, TRAIN_TARGETS_IGNORED,
    TRAIN_FILLED_UP, TRAIN_BYTES_WHOLE, TRAIN_NO_MEAN, TRAIN_STD_FIRST, TRAIN_PROBE_COUNTS, TRAIN_SET_ALONE,
    TRAIN_FAULTS
};

struct train_vector {
    int64_t count;
    double *world[TRAIN_WORLDS], *may;
};

/* What a rank's samples gave. */
struct train_samples {
    int count, labelled, top1[2], top5[2];        /* at least and at most so many are right */
    double loss;                                  /* the mean over the labelled ones */
    double *world[TRAIN_WORLDS], may;             /* scores [count][classes] */
    double *each[TRAIN_WORLDS], each_may;         /* losses [count]; their mean is no further off */
    /* [count]; lower and upper bound of the classes that score above the label; -1: no label */
    int *rank[2];
};

struct train_truth {
    const struct gyre_config *config;
    /* shards: of all ranks; mine: of one rank; a rank's batch without shards counts as a shard */
    int ranks, shards, mine, fault;
    struct gy_graph graph;
    struct truth net;
    struct train_vector vector[TRAIN_KINDS][TRAIN_RANKS][TRAIN_PARAMS];
    struct train_samples samples[TRAIN_RANKS];
    struct train_samples all;       /* of all ranks together: no scores */
    double rate;                    /* of the last train_step */
    int64_t calls, updates;         /* train_step's */
    int pending;                    /* train_step's since the last update */
    /* labelled samples in each sum of gradients */
    double learned[TRAIN_KINDS][TRAIN_RANKS];
    double *drop;                   /* a node's dropout rate: this file drops, by rank and shard */
    int *norm;                      /* that reads the node; 0: none does */
    struct gy_arena arena;
    const struct train_group *now;
    double *x, *target;             /* a group's batch, joined */
    int targets;                    /* it has targets */
    int32_t *label;
    struct gy_mix *mix;
};

/* 0; -1: it cannot be opened */
int train_open(struct train_truth *t, const struct gyre_config *config, int ranks, int fault);
void train_close(struct train_truth *t);
void train_adopt(struct train_vector *v, const float *values);
/* 0: no sample of any rank has a label, and nothing is done. */
int train_step(struct train_truth *t, const struct gyre_batch *batches);
int train_gradient(struct train_truth *t, const struct gyre_batch *batches);
void train_eval(struct train_truth *t, const struct gyre_batch *batches); /* each rank for itself */

#endif
