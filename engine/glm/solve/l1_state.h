/* SPDX-License-Identifier: MIT */
/* l1_state.h: what l1.c (the solver), l1_model.c, l1_columns.c and l1_groups.c share: the quadratic
 * model that a proximal Newton step minimises, over a set of features,
 *
 *     q(v) = g.(v - w) + (v - w)'M(v - w) / 2 + sum over j of l1_j |v_j|
 *
 * with its matrix in memory where the set is small enough, else by columns. */
#ifndef GY_GLM_L1_STATE_H
#define GY_GLM_L1_STATE_H
#include "engine/glm/solve/newton_state.h"

/* ---- l1_model.c: the matrix lies in memory ---- */

/* A value that moves along a line. */
struct gy_l1_line {
    uint32_t j;
    double v, d, l1;
    double at; /* the share of d after which the value is 0 */
};
/* The best share of the whole of d, where q begins with this slope and has this curvature along it.
 * *stop_at: that share when a value becomes 0 there, else -1. Sorts the line by at. */
GY_INT double gy_l1_best_share(struct gy_l1_line *line, size_t count, double slope, double curve, double *stop_at);

struct gy_l1_model {
    struct gy_pool *pool;
    unsigned cpu;
    size_t count, stride; /* features of the set; floats from one row of the matrix to the next */
    float *matrix;        /* [count][stride], both triangles */
    double *l1;           /* [count] penalties; 0 for a free bias */
    double *v, *r;        /* [count] values, gradient of the smooth part there: in g at w, out */
    struct gy_l1_line *face; /* [count] scratch */
    double *delta, *moved, *factor; /* [count], [count], triangle of GY_L1_FACE */
};
/* features that are not 0: up to this many by a factor, else by conjugate gradients */
#define GY_L1_FACE 256

/* The sum of the coordinates' violations: |r + l1 sign(v)|; where v is 0, what |r| has above l1. */
GY_INT double gy_l1_violation(const struct gy_l1_model *model);
/* Moves v until the violation is at most enough. */
GY_INT void gy_l1_minimise(struct gy_l1_model *model, double enough);

/* l1_groups.c: groups of features of which no row has two. */
#define GY_L1_GROUPS 64
#define GY_L1_GROUP_SUMS (GY_L1_GROUPS * (GY_L1_GROUPS + 1)) /* slopes, and E */
struct gy_l1_groups {
    uint8_t *of;     /* [dims] 1 + its group, 1 + GY_L1_GROUPS: none; 0: not looked for yet */
    uint8_t *now;    /* [dims] zeros; during a pass 1 + the group of those that move */
    uint64_t *taken; /* [rows] bit g: the row is in group g */
    double *sum;     /* [slots][GY_L1_GROUP_SUMS] */
    int64_t rows[GY_L1_GROUPS], longest[GY_L1_GROUPS]; /* entries of its columns, of the longest */
    size_t from[GY_L1_GROUPS + 1]; /* members in the model's order */
    /* first: the slope where t is 0 */
    double e[GY_L1_GROUPS][GY_L1_GROUPS], first[GY_L1_GROUPS], slope[GY_L1_GROUPS], t[GY_L1_GROUPS];
    double factor[GY_L1_GROUPS * (GY_L1_GROUPS + 1) / 2];
};

/* The same by columns, for a resident feed of one rank: no matrix, so any number of features. */
struct gy_l1_row {
    float curve, slope;   /* D, and D times the row's score along v - w */
};
struct gy_l1_coordinate {
    uint32_t id;
    double w, v, g, l1, l2;
    double curve; /* of its column; below 0: not known yet */
};
struct gy_l1_by_columns {
    struct gy_nw *nw;
    const struct gy_nw_columns *columns;
    size_t features, count, room; /* features: the id of the bias; room: of what is [count] */
    double bias;
    struct gy_l1_row *rows;       /* [row_count] */
    int64_t row_count;
    struct gy_l1_coordinate *at;  /* [count] */
    uint32_t *order;              /* [count] scratch */
    float *narrow;                /* [features + bias] zeros */
    double *r, *p, *q, *inverse, *first; /* [count] */
    struct gy_l1_line *line;      /* [count] */
    struct gy_l1_groups *groups;  /* NULL: not looked for yet */
    uint64_t seed;
};
/* Takes features whose value is not 0 into groups. *useful 1: at least two groups have many rows
 * beside those of their longest column. */
GY_INT int gy_l1_find_groups(struct gy_l1_by_columns *model, int *useful, struct gy_error *err);
/* Values that are not 0 move, those of a group together. Overwrites order, line and p. */
GY_INT int gy_l1_shift_groups(struct gy_l1_by_columns *model, struct gy_error *err);
/* Moves v until the sum of violations is at most enough (*done), or for `cycles` cycles of rounds
 * and a face. cycles 1: only rounds; 0: only LC_ROUNDS_LEAST rounds. grouped: twice as many cycles,
 * each of one round and a shift of the groups. */
GY_INT int gy_l1_descend(struct gy_l1_by_columns *model, double enough, int cycles, int grouped, int *done, struct gy_error *err);

#endif
