/* SPDX-License-Identifier: MIT */
/* newton_state.h: what the solvers of second order share: newton*.c, softmax.c and l1*.c. A pass
 * over the rows visits a point w. It leaves three things: sums of losses, the pull of the rows u,
 * and the curvature of each row's loss. The pull u = sum of coefficient_i x_i is minus the gradient
 * of the losses. Further passes at the same point give products of the curvature matrix X'DX with a
 * direction, or the matrix itself for a set of features.
 *
 * Every pass cuts each view into the same tiles. A tile adds into a slot of its own, and slots are
 * added in order. So bits are the same for any number of threads. */
#ifndef GY_GLM_NEWTON_STATE_H
#define GY_GLM_NEWTON_STATE_H
#include "engine/glm/stop.h"

#define GY_NW_BLOCK 256 /* rows whose losses are taken at once */
#define GY_NW_SLOTS 16  /* at most */

/* Over rows: coefficients are -c l'(z), curvatures c l''(z). */
struct gy_nw_sums {
    double loss;    /* c l(z) */
    double side[2]; /* |coefficient| of rows with y <= 0, y > 0 */
    double linear;  /* y coefficient */
    double square;  /* coefficient^2 / c */
    double pull;    /* coefficient */
    double curve;   /* curvature */
    double weight;  /* c */
};

/* The rows by columns: for a resident feed alone. Rows rise within a column. */
struct gy_nw_columns {
    int64_t *start; /* [features + 1] */
    uint32_t *row;
    float *value;   /* NULL: all are `same` */
    float same;
    size_t entries;
    struct gy_large row_memory, value_memory;
};

struct gy_nw {
    struct gy_glm_run *run;
    const struct gy_glm_problem *problem;
    const struct gy_glm_loss *loss;
    struct gy_arena arena;      /* everything below lies in it */
    size_t features, dims;      /* dims: with the bias, which comes last */
    int64_t rows;
    int slots, threads;
    int step;                   /* every step-th row counts, step times */
    int exact;                  /* matrices are summed in double, not in float */
    unsigned cpu;
    struct gy_rows *views;      /* of a resident feed; else NULL */
    int view_count;
    float *curve;               /* [rows, and up to 8 more] at the point last visited */
    double *pull;               /* [rows] coefficients there; with columns */
    float *product;             /* [rows] scratch of products; with columns */
    double *slot;               /* [slots][stride]: pulls, diagonals; NULL with columns */
    size_t stride;
    struct gy_nw_sums *sums;    /* [slots] */
    struct gy_nw_columns *columns;
    float *wire;                /* [2 * wire_room] what is summed over ranks */
    size_t wire_room;           /* above 0, where there is one, whatever dims */
    float *block;               /* matrices: [threads][block_room] */
    double *total; /* [slots of the matrix][numbers of the triangle], total_room at most */
    size_t block_room, total_room;
    double curved;              /* rows that have a curvature, about; 0: nearly all */
    float *filtered;            /* [threads][dims + dims]: a row's entries in a set */
    int64_t visited;            /* rows, by all passes */
    int rounds;                 /* sums over ranks */
    int64_t began;              /* clock */
};

/* with_columns: a resident feed is turned into columns. with_diagonal: visits will be asked for it.
 * On failure nothing is held. */
GY_INT int gy_nw_open(struct gy_nw *nw, struct gy_glm_run *run, int with_columns, int with_diagonal, struct gy_error *err);
GY_INT void gy_nw_close(struct gy_nw *nw);
/* Visits w [dims]: u [dims], and diagonal [dims] of X'DX unless NULL. All ranks together.
 * sums->loss need not be finite. */
GY_INT int gy_nw_visit(struct gy_nw *nw, const float *w, double *u, double *diagonal, struct gy_nw_sums *sums, struct gy_error *err);
/* out = X'D X p at the point last visited. */
GY_INT int gy_nw_product(struct gy_nw *nw, const float *p, double *out, struct gy_error *err);
/* With columns, the two halves of it: nw->product = D X p, and X' t of one column (the bias
 * too). */
GY_INT int gy_nw_forward(struct gy_nw *nw, const float *p, struct gy_error *err);
GY_INT double gy_nw_column(const struct gy_nw *nw, size_t j, const float *t);
/* out = X'DX among the features with map[j] = 0 .. count - 1, rising in j (others -1; NULL: all),
 * the bias among them. It has the upper triangle, row after row: count (count + 1) / 2 numbers. */
GY_INT int gy_nw_matrix(struct gy_nw *nw, const int32_t *map, size_t count, double *out, struct gy_error *err);
/* Dual variables of the point w in the loss's own form into run->dual, where there is one. */
GY_INT int gy_nw_dual(struct gy_nw *nw, const float *w, struct gy_error *err);
/* A lower bound of min P from the coefficients at w, where the last visit left u and sums. They are
 * brought into the dual problem's domain first. A free bias may overwrite u. */
GY_INT int gy_nw_bound(struct gy_nw *nw, const float *w, const struct gy_nw_sums *sums, double *u, double *dual, struct gy_error *err);
/* A pass that leaves u and sums (loss: of the conjugates) of changed coefficients. */
struct gy_nw_change {
    double side[2]; /* times this, of y <= 0 and y > 0 */
    double shift;   /* less this times c */
};
GY_INT int gy_nw_changed(struct gy_nw *nw, const float *w, const struct gy_nw_change *change, double *u, struct gy_nw_sums *sums, struct gy_error *err);
/* A run that begins at 0 on a resident feed first trains on every 512th, 64th, 8th row. Each sample
 * must have at least GY_NW_ROWS_PER_DIM rows for each weight. It finds what few rows tell at a
 * fraction of a pass. begun: this rank does not begin at 0. Collective. */
#define GY_NW_ROWS_PER_DIM 8
typedef int gy_nw_sample(void *user, int step, struct gy_error *err);
GY_INT int gy_nw_samples(struct gy_nw *nw, int begun, gy_nw_sample *sample, void *user,
                         struct gy_error *err);
/* Whether to stop: calls progress and validation, checks the rules of run->stop. P and the bound
 * are in run->result. *why GY_GLM_GOES_ON: it goes on. Collective. */
struct gy_nw_watch {
    struct gy_glm_checks checks;
    int epoch;
};
GY_INT int gy_nw_report(struct gy_nw *nw, struct gy_nw_watch *watch, enum gy_glm_why *why, struct gy_error *err);

/* Whether the steps of a run still bring something. At first it has P and gap of the first point,
 * else zeros. */
struct gy_nw_judge {
    double primal, gap; /* of the last step that brought something */
    int idle;           /* steps since then */
    int exact;          /* steps are solved to the end */
};
struct gy_nw_step {
    int moved;          /* P fell, as far as floats show */
    double primal, gap;
    double promise;     /* what P should lose by the step, about */
    double noise;       /* what P may owe to the floats of the weights and the sums of its terms */
};
/* Takes the next step. 1: from now on steps are to be solved to the end; judge->exact has become 1.
 * Where they bring nothing even so, *why is set: rounding if they promised no more than noise, else
 * stalled. */
GY_INT int gy_nw_judged(struct gy_nw_judge *judge, const struct gy_nw_step *step, double goal, enum gy_glm_why *why);
/* The noise of weights whose curvatures are this diagonal, or 1 over it. */
GY_INT double gy_nw_noise(const float *w, const double *diagonal, int inverse, size_t dims, double primal);

/* newton_loop.c: a model that Newton's method trains, the first member of its state. */
struct gy_nw_method {
    struct gy_nw *nw;
    size_t dims;                  /* weights */
    float *w, *trial, *narrow;    /* [dims] the point, where a search looks, p in float */
    double *g, *s;                /* [dims] gradient, step */
    double *diagonal;             /* [dims] of X'DX + l2, or 1 over it: inverse */
    int inverse;
    double *r, *p, *q, *z;        /* [dims] of conjugate gradients: z is r by the preconditioner */
    double primal, gap, slope;    /* P, its gap, g.s of the last step */
    double first;                 /* gap where the run began */
    struct gy_nw_judge judge;     /* exact: systems are solved to the end */
    int (*visit)(struct gy_nw_method *m, const float *w, double *primal, struct gy_error *err);
    void (*accept)(struct gy_nw_method *m, double primal); /* w was visited: g, primal, gap */
    int (*direction)(struct gy_nw_method *m, struct gy_error *err); /* s */
    int (*times)(struct gy_nw_method *m, struct gy_error *err); /* q = (X'DX + l2) p, of narrow */
    double (*condition)(struct gy_nw_method *m);                   /* z; r.z */
    int (*certify)(struct gy_nw_method *m, struct gy_error *err); /* the run's result, and its w */
    /* judge.exact has just become 1; moved: w moved in the last step */
    int (*to_the_end)(struct gy_nw_method *m, int moved, struct gy_error *err);
};
GY_INT int gy_nw_loop(struct gy_nw_method *m, struct gy_error *err);
/* Its parts. start: w is visited. direction: the step s is found. search: w moves along s; *moved
 * 0: P falls nowhere, as far as floats show. by_gradients: s from r, z and rho = r.z; s is 0
 * before. */
GY_INT int gy_nw_start(struct gy_nw_method *m, struct gy_error *err);
GY_INT int gy_nw_direction(struct gy_nw_method *m, struct gy_error *err);
GY_INT int gy_nw_search(struct gy_nw_method *m, int *moved, struct gy_error *err);
GY_INT int gy_nw_by_gradients(struct gy_nw_method *m, double rho, struct gy_error *err);

/* A view of a pass: what the job of a tile function begins with. */
struct gy_nw_view {
    struct gy_rows rows;
    int64_t base; /* number of its first row within this rank's part */
};
/* One pass: fn(job, tile, thread) for every tile of `slots`, of every view. job begins with
 * view. */
GY_INT int gy_nw_walk(struct gy_nw *nw, gy_tile_fn fn, struct gy_nw_view *job, int slots, struct gy_error *err);
/* Rows [*from, *to) of the view are those of the tile. */
static inline void gy_nw_range(const struct gy_nw_view *view, int64_t tile, int slots, int32_t *from, int32_t *to)
{
    *from = (int32_t)(tile * view->rows.count / slots);
    *to = (int32_t)((tile + 1) * view->rows.count / slots);
}
/* x_i . w without the bias. newton_pass.c */
GY_INT double gy_nw_dot(const struct gy_rows *rows, int32_t i, const float *w);
/* slot += t times row i */
GY_INT void gy_nw_scatter(const struct gy_rows *rows, int32_t i, double t, double *slot);

/* GY_E_NONFINITE with a sentence where P of the first point is no finite number. newton_watch.c */
GY_INT int gy_nw_finite(double primal, struct gy_error *err);

/* newton_hinge.c: the hinge loss, of features few enough for a matrix, without a free bias. */
GY_INT int gy_nw_hinge(struct gy_glm_run *run, struct gy_error *err);

/* newton_sum.c: x[i] = sum over ranks, with the same bits on all. Few numbers are summed exactly,
 * in the order of ranks. Many are summed to 2^-46 of the largest, or to a float's rounding where
 * that is less. */
GY_INT int gy_nw_sum(struct gy_nw *nw, double *x, size_t count, struct gy_error *err);

/* newton_columns.c */
GY_INT int gy_nw_columns_open(struct gy_nw *nw, struct gy_error *err);
GY_INT void gy_nw_columns_close(struct gy_nw *nw);

/* newton_math.c: count <= GY_NW_BLOCK rows: coefficients and curvatures from scores, sums added. */
struct gy_nw_block {
    const struct gy_glm_loss *loss;
    int count;
    double z[GY_NW_BLOCK], pull[GY_NW_BLOCK];
    float y[GY_NW_BLOCK], c[GY_NW_BLOCK], curve[GY_NW_BLOCK];
    int32_t row[GY_NW_BLOCK];
};
GY_INT void gy_nw_losses(struct gy_nw_block *block, int weighted, unsigned cpu, struct gy_nw_sums *sums);
/* The upper triangle a, row after row, becomes its factor. Pivot j is lifted to least[j] > 0. That
 * bound goes with its own diagonal, as features have any scale. */
GY_INT void gy_nw_factor(struct gy_pool *pool, unsigned cpu, double *a, size_t count, const double *least);
/* x: right side, becomes the solution */
GY_INT void gy_nw_solve(const double *factor, size_t count, double *x);
GY_INT void gy_nw_exp(double *x, size_t count); /* in place, of numbers in [-700, 0]; to 1e-14 */
GY_INT double gy_nw_inner(const double *a, const double *b, size_t count);
GY_INT void gy_nw_add(double *y, double factor, const double *x, size_t count); /* y += factor x */
GY_INT void gy_nw_add_floats(double *y, double factor, const float *x, size_t count);
/* 1: a weight is not 0. */
static inline int gy_nw_has_begun(const float *w, size_t dims)
{
    size_t j = 0;
    while (j < dims && w[j] == 0)
        j++;
    return j < dims;
}
/* Place of a row in the triangle; add the column. */
static inline size_t gy_nw_row_at(size_t row, size_t count) { return row * (2 * count - row - 1) / 2; }

#endif
