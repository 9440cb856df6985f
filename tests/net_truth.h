/* SPDX-License-Identifier: MIT */
/* net_truth.h: an interpreter of the graph, the truth of whole nets. It runs one layer after the
 * other as its definition says, in double, and back by the chain rule. Nothing is fused, planned or
 * recomputed. It reads the graph of a net text and draws dropout's words; it calls no kernel, plan
 * or emitter.
 *
 *     truth_open(&t, &graph, 8);  t.param[0][3] = .5;
 *     truth_forward(&t, &batch, 1);  truth_backward(&t); */
#ifndef GY_NET_TRUTH_H
#define GY_NET_TRUTH_H
#include "engine/text/graph.h"

/* Only the first `count` samples exist: batch norms take their statistics from them alone. */
struct truth_batch {
    int count;                 /* 1 .. batch of truth_open */
    const double *x;           /* [count][h][w][c]; bytes are divided by 255 by the caller */
    const int32_t *label;      /* [count], -1: none; NULL: none, but a target counts as a label */
    const double *target;      /* [count][classes], for mse; NULL: 1 at the label, 0 elsewhere */
    /* [count]; NULL: samples are not mixed. Targets are mixed like labels */
    const struct gy_mix *mix;
    uint64_t seed, step;       /* of dropout: the net's seed, micro-batches before this one */
};

struct truth {
    const struct gy_graph *graph;
    double mean[4], std[4];    /* of the input, a channel; 0 and 1 */
    /* values and gradients of each graph parameter, in the PyTorch layout of gyre_set_tensor */
    double **param, **grad;
    double **value, **dvalue;  /* [count][p][q][k] of each node: output, and gradient of the loss */
    double *scores;            /* [count][classes]: probabilities, or outputs with mse */
    double *loss;              /* [count]; 0 without a label */
    double mean_loss;          /* over the labelled samples */
    int labelled;
    /* NULL, or a callback. It gets the values of each node once they are computed, and its gradient
     * once that is complete. It may change them. */
    void (*seen)(void *user, int node, double *values, int64_t count);
    void *user;
    struct gy_arena arena;
    const struct truth_batch *now;
    int training;
    int64_t *place;            /* of a filter's or a window's elements */
};

int truth_open(struct truth *t, const struct gy_graph *graph, int batch); /* 0; -1: out of memory */
void truth_close(struct truth *t);
/* training: batch norms use and record the batch's statistics, and dropout works. */
void truth_forward(struct truth *t, const struct truth_batch *batch, int training);
/* Gradients of the last forward pass, which must have been a training pass. */
void truth_backward(struct truth *t);

#endif
