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

/* c_i is the row's weight times its class's factor. Of run: w: [count][features + (bias != 0)], where it begins and what it finds, current whenever progress or
 * validate is called; its problem's l2 (above 0), bias (penalised) and nothing else, feed, pool, job, stop, first_epoch. Keeps count floats a row. Leaves
 * run->result, epochs, why. */
GY_INT int gy_glm_softmax(struct gy_glm_run *run, const struct gy_glm_classes *classes, struct gy_error *err);

#endif
