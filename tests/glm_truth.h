/* SPDX-License-Identifier: MIT */
/* glm_truth.h: linear models a second time, slow and exact, in long double: the objective of given
 * weights, and an interval that holds the optimum. It knows the problem alone and shares nothing
 * with the engine. */
#ifndef GY_GLM_TRUTH_H
#define GY_GLM_TRUTH_H
#include "tests/glm_problem.h"

/* One minimisation: min over w of sum c_i loss(y_i, x_i . w) + l2/2 |w|^2 + l1 |w|_1. With softmax
 * w holds `classes` vectors. */
struct gt_problem {
    int loss, rows, width, classes;   /* width: features and the bias; classes: 1 without softmax */
    int free;                         /* the last weight is not penalised */
    long double l1, l2;
    /* x: [rows][width]; y: -1 or 1, the regression's target, or the class; c: weights, 0 or more */
    long double *x, *y, *c;
    int *start, *at;                  /* entries of row i that are not 0: at[start[i]] .. */
};

/* features: of the model, at most the case's. 0; -1: out of memory. */
int gt_open(struct gt_problem *t, const struct gp_case *c, int part, int features);
void gt_close(struct gt_problem *t);

struct gt_value {
    long double p;      /* the objective */
    long double error;  /* of p itself, at most */
    long double f64;    /* how far a careful computation in float64 may be off */
    long double f32;    /* how much rounding all scores to float moves it */
    long double bound;  /* and how much that may take from a bound which slopes make */
};
/* w: [classes][width]. */
void gt_value_of(const struct gt_problem *t, const float *w, struct gt_value *out);

struct gt_optimum {
    long double lower, upper;
    int steps;
};
/* steps: of Newton's method, at most. */
void gt_optimum_of(const struct gt_problem *t, double work, struct gt_optimum *out);

#endif
