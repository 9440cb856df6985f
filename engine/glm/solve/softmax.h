/* SPDX-License-Identifier: MIT */
/* softmax.h: one linear model of several classes. glm_train_solve.c trains it, referee.c judges it:
 *
 *     min over W:  sum over rows i of c_i (log sum_k exp(x_i . w_k) - x_i . w_y) + l2 / 2 |W|^2 */
#ifndef GY_GLM_SOFTMAX_H
#define GY_GLM_SOFTMAX_H
#include "engine/glm/glm.h"

/* Labels, at least 2, each once. Training refuses a row with another label; the referee leaves it
 * out. */
struct gy_glm_classes {
    const float *label, *factor; /* [count]; factor: how often rows of a class count */
    int count;
};

/* Trains all classes as one softmax. c_i is the row's weight times its class's factor. Of the
 * problem it uses l2 (above 0), bias and bias_free. run->w [count][features + (bias != 0)] is the
 * start and the result; it is current whenever progress or validate is called. run->dual is not
 * used. It keeps count floats a row, and sets run->result, epochs, rounds and why. Collective. */
GY_INT int gy_glm_softmax(struct gy_glm_run *run, const struct gy_glm_classes *classes, struct gy_error *err);

#endif
