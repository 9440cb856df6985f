/* SPDX-License-Identifier: MIT */
/* glm.h: generalised linear models: the problem, the feed of its rows, and what every solver takes
 * and leaves. The files of engine/glm/ that train include it. The problem is
 *
 *     min over w:  sum over rows i of c_i loss(y_i, x_i . w)  +  l2 / 2 |w|^2  +  l1 |w|_1
 *
 * with SUMS of losses, as Snap ML and liblinear have it. A feed hands out its rows pass after pass.
 * A solver (solver.c lists them) takes a run and leaves weights with a certificate: the objective
 * P(w) and a lower bound of the optimum. Their difference, the duality gap, bounds how far w is
 * from the best. A new loss is a row of kernels/glm_loss.h. */
#ifndef GY_GLM_H
#define GY_GLM_H
#include "io/rows/rows.h"
#include "kernels/glm_loss.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"

struct gyre_job;

/* What a row's label means. VALUE: y is the label. CLASS: y is 1 where the label equals positive,
 * else -1. */
enum gy_glm_target { GY_GLM_TARGET_VALUE /* y = label */, GY_GLM_TARGET_CLASS /* y = 1 or -1 */ };

struct gy_glm_problem {
    int loss;              /* enum gy_glm_loss_id of kernels/glm_loss.h */
    double l1, l2;
    double bias;           /* a last feature that every row has with this value; 0: none */
    int bias_free;         /* 1: its weight is not penalised (Newton and L1 solvers) */
    int target;            /* enum gy_glm_target */
    float positive;
    /* c_i is this times the row's own weight: of y = -1 and of y = 1; 1, 1 */
    float class_weight[2];
};

static inline const struct gy_glm_loss *gy_glm_loss_of(const struct gy_glm_problem *problem)
{
    return gy_glm_loss_at(problem->loss);
}
static inline int gy_glm_has_kink(const struct gy_glm_problem *problem)
{
    return gy_glm_loss_of(problem)->smooth == GY_GLM_KINK;
}

/* What row i is to this model: its y, and its weight c (0 or more). */
static inline float gy_glm_y(const struct gy_glm_problem *problem, const struct gy_rows *rows, int32_t i)
{
    return problem->target == GY_GLM_TARGET_VALUE ? rows->label[i] : rows->label[i] == problem->positive ? 1.0f : -1.0f;
}
static inline double gy_glm_c_exact(const struct gy_glm_problem *p, const struct gy_rows *rows, int32_t i, float y)
{
    const double own = rows->weight ? (double)rows->weight[i] : 1;
    return p->target == GY_GLM_TARGET_CLASS ? (double)p->class_weight[y > 0] * own : own;
}
/* As training takes it, rounded. */
static inline float gy_glm_c(const struct gy_glm_problem *p, const struct gy_rows *rows, int32_t i, float y)
{
    return (float)gy_glm_c_exact(p, rows, i, y);
}

/* Rows, pass after pass in the same order. A resident feed's views stay valid between passes,
 * others until the next call. Not thread-safe; the solver deals a view's rows to its threads. next:
 * rows->count 0 ends the pass, and the call after begins a new one. */
struct gy_glm_feed {
    int (*next)(void *self, struct gy_rows *rows, struct gy_error *err);
    /* Between two passes: from now on views come in another order in every pass (0: in that of the
     * rows again). A view's rows are then found by rows->first. NULL: they always come in order. */
    int (*shuffle)(void *self, int on, uint64_t seed, struct gy_error *err);
    void *self;
    int64_t first;         /* number of its first row in the data set, as rows->first counts */
    int64_t rows, entries; /* of this rank's part */
    int64_t all_rows;      /* of all ranks */
    uint32_t features;     /* without the bias; the same on all ranks */
    int32_t most_rows;     /* of one view */
    int64_t most_entries;
    int views;             /* of a pass */
    int resident;
    int parts; /* that all rows are dealt to, the same on all ranks; 0 or 1: this is all */
};

/* How far a model is. Sums in double. */
struct gy_glm_certificate {
    double primal, dual;   /* P(w), and a lower bound of min P; -INFINITY: no bound is known */
    double gap;            /* primal - dual, at least 0 up to rounding */
    double loss;           /* the sum of losses alone */
};

struct gy_glm_progress {
    int epoch;                 /* passes over the rows that trained, from 1 */
    int round;                 /* sums over ranks */
    int64_t rows_done;         /* rows visited in all */
    double seconds, rows_per_second, seconds_left; /* seconds_left: -1 where unknown */
    struct gy_glm_certificate at;
    int has_certificate;       /* 0: `at` is of an earlier epoch */
};

/* Why a run ended: what was asked for comes first, what nobody wants last. */
enum gy_glm_why {
    GY_GLM_GOES_ON,
    GY_GLM_GAP, GY_GLM_TARGET, GY_GLM_VALIDATION, GY_GLM_EPOCHS, GY_GLM_TIME,
    GY_GLM_ROUNDING, /* no step makes P less, as near as floats are */
    GY_GLM_STALLED,  /* steps bring nothing any more, far from that */
    GY_GLM_STOPPED,  /* by the caller */
    GY_GLM_WHYS
};
GY_INT const char *gy_glm_why_name(enum gy_glm_why why); /* NULL: it goes on. stop.c */

/* When to stop: the first that holds. */
struct gy_glm_stop {
    double gap;        /* relative gap (P - D) / P; 0: no */
    /* P at or below this; 0: no. Where no gap is asked for, coordinate ascent may then compute P
     * alone, and dual is -INFINITY */
    double target;
    /* relative improvement of the mean validation loss in three checks below this; 0: no */
    double validation;
    int epochs;        /* most passes; 0: 1000 */
    int every;         /* epochs between certificates; 0: the solver's choice */
    double seconds;    /* of solving; 0: no. Ranks decide together */
};

struct gy_glm_run {
    const struct gy_glm_problem *problem;
    struct gy_glm_feed *feed;
    const struct gy_alloc *alloc;
    struct gy_pool *pool;      /* threads of this rank */
    struct gyre_job *job;      /* ranks; NULL: alone */
    struct gy_glm_stop stop;
    uint64_t seed;
    /* [features + (bias != 0)]: where it begins (zeros) and what it finds; of the caller */
    float *w;
    /* [rows] dual variables in the loss's own form (kernels/glm_loss.h), or NULL: not kept between
     * runs */
    float *dual;
    int has_dual;              /* 1: dual holds those of an earlier run, w is made from them */
    /* [features + (bias != 0)] of the caller: weights whose slopes are the dual variables of the
     * best bound, or NULL */
    double *point;
    /* 1: the solver has left them there, as l1.c and newton.c do; 0: the slopes at w prove the
     * bound */
    int has_point;
    /* the same of l1.c where floats end the run: weights of one step more, whose bound may be the
     * better one, or not; NULL: not wanted */
    double *last;
    int has_last;
    int first_epoch;           /* epochs done before, by a run that was interrupted; 0 */
    /* Mean loss on other rows with the present w, for stop.validation; NULL: none. */
    int (*validate)(void *user, const float *w, double *loss, struct gy_error *err);
    /* After each epoch; above 0: stop (GY_E_STOPPED with w and dual as they are). A status below 0:
     * it failed, maybe on this rank alone, and ends the run without another sum. NULL: none. */
    int (*progress)(void *user, const struct gy_glm_progress *progress);
    void *user;
    /* What came out. */
    struct gy_glm_certificate result;
    int epochs, rounds;        /* done */
    enum gy_glm_why why;       /* it ended, by its own estimate: referee.c judges */
};

/* A solver: one file each, in the table of solver.c. */
struct gy_glm_solver {
    const char *name, *about;
    /* 1: it solves this; else *why (for people) says why not. */
    int (*fits)(const struct gy_glm_problem *problem, const struct gy_glm_feed *feed, const char **why);
    int (*solve)(struct gy_glm_run *run, struct gy_error *err);
};
/* sdca.c: stochastic dual coordinate ascent */
GY_INT const struct gy_glm_solver *gy_glm_sdca(void);
/* newton.c: trust-region Newton, conjugate gradients */
GY_INT const struct gy_glm_solver *gy_glm_newton(void);
/* l1.c: proximal Newton, coordinate descent on active columns */
GY_INT const struct gy_glm_solver *gy_glm_l1(void);
/* The solver of that name; name NULL: the one expected to be fastest for this problem. Solvers
 * whose bit is set in *tried are left out; the bit of the chosen one is set. tried NULL: none is
 * left out. Returns NULL with a sentence when none fits. */
GY_INT const struct gy_glm_solver *gy_glm_choose(const char *name, const struct gy_glm_problem *problem, const struct gy_glm_feed *feed, uint32_t *tried,
                                                 struct gy_error *err);

/* (P - D) / P; 0 where both are 0; NAN: P is below 0, or no number. certificate.c */
GY_INT double gy_glm_relative_gap(double objective, double bound);
/* P(w), and D of the dual variables, with sums in double: one pass over the feed. Collective. D is
 * -INFINITY where dual is NULL, a variable is outside its domain, l2 is 0 or the bias is free.
 * certificate.c */
GY_INT int gy_glm_certify(struct gy_glm_run *run, const float *w, const float *dual, struct gy_glm_certificate *out, struct gy_error *err);

/* x_i . w without the bias, in float with four partial sums at least. The kernel is chosen at run
 * time. certificate.c */
GY_INT float gy_glm_dot(const struct gy_rows *rows, int32_t i, const float *w);

#endif
