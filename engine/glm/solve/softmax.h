/* SPDX-License-Identifier: MIT */
/* softmax.h: one linear model of several classes,
 *
 *     min over W:  sum over rows i of c_i (log sum_k exp(x_i . w_k) - x_i . w_y) + l2 / 2 |W|^2 */
#ifndef GY_GLM_SOFTMAX_H
#define GY_GLM_SOFTMAX_H
#include "engine/glm/glm.h"

/* Labels, at least 2, each once; a row with another is refused. */
struct gy_glm_classes {
    const float *label, *factor; /* [count]; factor: how often rows of a class count */
    int count;
};

/* Trains all classes as one softmax. c_i is the row's weight times its class's factor. It uses of
 * run: feed, pool, job, stop, first_epoch, and of the problem l2 (above 0) and bias (penalised).
 * run->w [count][features + (bias != 0)] is the start and the result; it is current whenever
 * progress or validate is called. It keeps count floats a row, and sets run->result, epochs and
 * why. */
GY_INT int gy_glm_softmax(struct gy_glm_run *run, const struct gy_glm_classes *classes, struct gy_error *err);

#endif
