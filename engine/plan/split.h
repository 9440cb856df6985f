/* SPDX-License-Identifier: MIT */
/* split.h: fully connected layers whose columns lie on several ranks (Krizhevsky 2014, "One weird
 * trick for parallelizing convolutional neural networks"). run/split_run.c gives it to
 * the planner as gy_plan_config.stages, run/split_rows.c asks where a row is.
 *
 * A split layer's columns are cut into slices: as many as a step has shards, or, without shards,
 * ranks. A rank keeps the slices with the numbers of its shards: weights, gradients, optimiser
 * state. Each op of the layer becomes one op a slice, for its own images and for those of each
 * other rank. Before it the inputs of all ranks come together; behind it columns return to the
 * ranks of their images. Backward, gradients of the output travel as inputs do. Gradients of the
 * input travel as columns do, and are summed over all slices.
 *
 * With shards one process cuts its ops into the same slices, and every sum follows one balanced
 * tree. Gradients of the input are summed over the slices, those of the weights over the shards. So
 * any number of ranks gives the same bits. */
#ifndef GY_PLAN_SPLIT_H
#define GY_PLAN_SPLIT_H
#include "engine/plan/program.h"

struct gy_split_node;
struct gy_split {
    struct gy_stages base; /* first: what the planner sees */
    int rank, ranks, slices;
    int first, mine;   /* slices of this rank; others have as many */
    int levels, turns; /* partial sums of gradients that wait beside them: of a rank's shards; of
                        * ranks */
    int number;        /* of the next message: all ranks count alike */
    struct gy_split_node *nodes; /* [nodes] */
};

/* GY_OP_PASS: X to rank geom.p, Y from rank geom.q; id: number of the message.
 * What an op with code GY_OP_SPLIT does: its geom.r. */
enum gy_split_kind {
    GY_SPLIT_COPY, /* geom.c columns of X, of geom.h, from geom.p on, to those of Y, of geom.w, from
                      geom.q on */
    GY_SPLIT_CLEAR, /* Y = 0 where gradients are added */
    GY_SPLIT_SUM,   /* X, of rank geom.p's images, to the sums that wait in RES; in the end to Y */
    GY_SPLIT_KINDS
};

GY_INT int32_t gy_split_column(int32_t columns, int slices, int slice); /* the first of a slice */
/* gy_stages.cut and .rows of such a plan. */
GY_INT int gy_split_cut(struct gy_builder *b);
GY_INT int gy_split_rows(const struct gy_builder *b, int param, int32_t *own, int32_t *most);

#endif
