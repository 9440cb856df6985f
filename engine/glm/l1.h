/* SPDX-License-Identifier: MIT */
/* l1.h: the quadratic model that a proximal Newton step minimises, over a set of features small enough that its matrix lies in memory:
 *
 *     q(v) = g.(v - w) + (v - w)'M(v - w) / 2 + sum over j of l1_j |v_j| */
#ifndef GY_GLM_L1_H
#define GY_GLM_L1_H
#include "newton.h"

struct gy_l1_face;

struct gy_l1_model {
    struct gy_pool *pool;
    size_t count, stride; /* features of the set; floats from one row of the matrix to the next */
    float *matrix;        /* [count][stride], both triangles */
    double *l1;           /* [count] penalties; 0 for a free bias */
    double *v, *r;        /* [count] values, gradient of the smooth part there: in g at w, out */
    struct gy_l1_face *face; /* [count] scratch */
    double *delta, *moved, *factor; /* [count], [count], triangle of GY_L1_FACE */
};
#define GY_L1_FACE 512    /* features that are not 0: at most so many by a factor, else by conjugate gradients */

struct gy_l1_face {
    double at;  /* the value is 0 after so much of a step */
    uint32_t j;
};

/* Sum of how far coordinates are from their conditions: |r + l1 sign(v)|, or above l1 where v is 0. */
GY_INT double gy_l1_violation(const struct gy_l1_model *model);
/* Moves v until the violation is at most enough. */
GY_INT void gy_l1_minimise(struct gy_l1_model *model, double enough);

#endif
