/* SPDX-License-Identifier: MIT */
/* sparse.h: what coordinate ascent does with rows of sparse features on a processor: a row's
 * features times a vector, and the sweep. The sweep takes rows in a given order, solves each row's
 * dual variable and moves the vector by it. engine/glm calls it: solve/sdca_*.c, certificate.c.
 *
 * Gathered loads are scalar. Two or three loads a cycle are as fast as most processors' gather
 * instructions, and much faster than the others'. Speed depends on prefetching the next row's
 * numbers before its turn. */
#ifndef GY_CPU_SPARSE_H
#define GY_CPU_SPARSE_H
#include "kernels/glm_loss.h"

/* A row as the sweep sees it: half a cache line. */
struct gy_sparse_row {
    const uint32_t *id;
    uint32_t count;
    float dual;          /* in the loss's own form: glm_loss.h */
    float part;          /* of a logit gy_sparse_sigmoid(dual); else y */
    float q;             /* |x|^2 */
    float c;             /* its weight, with the sign of y where labels are classes */
    float f;             /* its features are f times value (or f, where all values are equal) */
};

struct gy_sparse_sweep {
    const struct gy_glm_loss *loss;
    int steps;              /* of Newton's method, for logits */
    const uint32_t *order;  /* [count] rows to visit */
    int64_t count;
    struct gy_sparse_row *row;
    const float *const *value; /* of each row; NULL: all are 1 */
    float *u;               /* moved by rate (coefficient - old) x */
    float rate;             /* damping / l2 */
    float soft;             /* scores are of u shrunk towards 0 by so much */
    float bias;             /* value of the feature `bias_at`; 0: none */
    uint32_t bias_at;
    double gap;             /* out: about the sum of the rows' gaps, each when it was visited */
};

/* Sum of value[k] w[id[k]], or of w[id[k]] where value is NULL. */
GY_INT float gy_sparse_dot(const uint32_t *id, const float *value, uint32_t count, const float *w);
/* Rows with c = 0 must not be in the order. */
GY_INT void gy_sparse_visit(struct gy_sparse_sweep *sweep);
GY_INT float gy_sparse_sigmoid(float t);

#endif
