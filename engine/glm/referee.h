/* SPDX-License-Identifier: MIT */
/* referee.h: what a linear model may claim. Objective and bound are computed once more, from the
 * rows as their blocks have them, the weights that are written and the dual variables. Nothing is
 * taken from a solver but its answer. Both are on the safe side of every rounding.
 * glm_train_solve.c calls it for each answer, claim.c for a model from a file. */
#ifndef GY_GLM_REFEREE_H
#define GY_GLM_REFEREE_H
#include "io/rows/blocks.h"
#include "engine/glm/solve/softmax.h"

/* An answer. Ranks hand in the same one, but for dual, and each reads its own part of the rows. */
struct gy_glm_answer {
    const struct gy_blocks *blocks;
    const struct gy_alloc *alloc;
    struct gy_pool *pool;
    struct gyre_job *job;                /* NULL: alone */
    const struct gy_glm_problem *problem; /* with classes: its l2 and bias alone */
    const struct gy_glm_classes *classes; /* one softmax of them all; NULL: one vector of weights */
    int normalize;
    uint32_t features;
    const float *w;                      /* [classes, or 1][features + (bias != 0)] */
    /* [rows of this rank] in the loss's own form (kernels/glm_loss.h); NULL: the slopes at point */
    const float *dual;
    const double *point;                 /* as w; NULL: w */
};

struct gy_glm_verdict {
    double objective; /* P(w) is not above this */
    double least;     /* nor below this */
    double bound;     /* min P is not below this; 0 or more: 0 bounds every P */
    double loss;      /* sum of losses alone, about */
    /* about the least gap that roundings allow: those of doubles here, and of w as floats */
    double rounding;
};
/* One pass over the rows, up to four where a weight is not penalised or l1 is above 0. Allocates up
 * to 8 vectors of 24 bytes a weight, and room for up to 8 blocks. Collective. */
GY_INT int gy_glm_referee(const struct gy_glm_answer *answer, struct gy_glm_verdict *out, struct gy_error *err);

#endif
