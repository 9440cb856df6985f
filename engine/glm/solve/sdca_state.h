/* SPDX-License-Identifier: MIT */
/* sdca_state.h: the state of a run of stochastic dual coordinate ascent, for its four files: sdca.c
 * (the solver), sdca_pass.c, sdca_centre.c and sdca_state.c.
 *
 * u is the shared vector: 1 / l2 sum of coefficient x; the weights are u, or u shrunk by l1 / l2.
 * Each of `fan` threads moves a replica of its own, by sigma times what a row says, and takes a
 * row's curvature that much larger. When the threads meet,
 *
 *     u += (sum over threads of (replica - u)) / sigma        replica = u
 *
 * sigma = fan is safe for any data (CoCoA+: Ma et al., 2015); less is enough where threads move u
 * in different directions. Ranks are the level above (rank_sums.h), and multiply what threads do by
 * their own sigma.
 *
 * The passes are those of the problem with kappa / 2 |w - centre|^2 added, where they gain more:
 * its u is (sum of coefficient x + kappa centre) / (l2 + kappa). The centre follows w, and runs
 * ahead of it. Where both stand still, it is the problem itself that is solved (accelerated
 * proximal point: Shalev-Shwartz and Zhang, 2014; Lin, Mairal, Harchaoui, "A universal catalyst for
 * first-order optimization", 2015). */
#ifndef GY_GLM_SDCA_STATE_H
#define GY_GLM_SDCA_STATE_H
#include "kernels/cpu/sparse.h"
#include "engine/glm/rank_sums.h"
#include "engine/glm/exact_sums.h"

#define SDCA_RANGE 32768 /* rows that are shuffled together */
#define SDCA_FILL 8192   /* rows that are filled in together */
#define SDCA_MEANS 8     /* values of u in its mean */
#define SDCA_APART 8     /* doubles, so that threads write to cache lines of their own */

/* What a tile of rows adds up: P(0), and c |x|^2. */
struct sdca_sums {
    double start, square;
};

/* Threads, the lower level: how many work in parallel, and how much each step is damped for it. */
struct sdca_threads {
    int fan;                 /* how many */
    double sigma;
    double floor;            /* least sigma that the guard allows */
    int fixed;               /* sigma stays as it is, whatever is measured */
    /* [fan][pitch], equal to u between meetings; NULL: one thread moves u itself */
    float *replica;
    /* u was changed outside the threads, so replicas differ from it */
    int stale;
    int64_t unmet;           /* rows since threads met last */
    int64_t meet_every;
    /* [fan], SDCA_APART from one to the next: about the sum of the rows' gaps */
    double *gaps;
};

/* The proximal term, kappa / 2 |w - centre|^2 (sdca_centre.c). */
struct sdca_proximal {
    int plain;               /* kappa stays 0 */
    int rest;                /* kappa is 0 until passes without it bring nothing either */
    /* first_kappa: kappa after a first pass without it */
    double kappa, first_kappa;
    float *centre, *before;  /* [pitch]; before: the weights when the centre was moved last */
    double move;             /* the term after the pass */
    int turned;              /* ranks: the weights went against their way from those before */
    double step;             /* a kink: move / kappa of the pass before; 0: none */
};

/* What a pass sums; of all ranks once they have met. */
struct sdca_estimate {
    double gap;              /* the rows' gaps, each as of the time of its visit */
    /* the rows' gaps at the weights after the pass, where ranks hide them from gap; else 0 */
    double inside;
    double start, square;    /* first pass: P(0), sum of c |x|^2 */
};

/* Rows that are visited together: all of a resident feed, else the view that is out. */
struct sdca_window {
    struct gy_rows rows;
    struct gy_sparse_row *row; /* [rows of the largest window] */
    const float **value;     /* [rows] NULL: rows have none */
    int64_t at, count;       /* rows of this rank before it, in it */
    int64_t number;          /* in the pass */
    uint32_t *deal, *order;  /* rows in random order: by range, and by thread */
    int64_t ranges, most_ranges;
    int64_t *dealt;          /* [ranges] rows of each that count; -1: not known */
    /* [fan + 1][ranges] of deal: where each thread's rows of a range begin */
    int64_t *part;
    int64_t *begin;          /* [fan + 1] of order */
    int take;
    int slice, slices;
    double *fill_sums;       /* [tiles of the largest window][2]: P(0), sum of c |x|^2 */
};

struct gy_sdca {
    struct gy_glm_run *run;
    const struct gy_glm_loss *loss;
    int rough;               /* it has a kink: u is rough, and the centre does not run ahead */
    struct gy_arena arena;
    struct sdca_threads threads;
    struct gy_glm_levels ranks;
    struct sdca_proximal prox;
    struct sdca_estimate estimate;
    struct sdca_window window;
    int64_t dim, pitch;      /* of the vector, bias included; floats from replica to replica */
    float *u;                /* [pitch] this rank's */
    /* [pitch] the mean of u over the last pass, where its last value is too rough; else NULL */
    float *mean;
    float share;             /* part of the pass that u now counts for in mean */
    float *dual;             /* [rows] */
    /* [rows] |x|^2 once it is known, else -1; NULL: the feed is resident */
    float *norm;
    float *dual_kept, *u_kept; /* what the guard goes back to; NULL: sigma is always safe */
    struct gy_rows *view;    /* [views] of a resident feed; NULL: it is not */
    int64_t *view_at;        /* [views] rows before it */
    int64_t views;
    double *overlap;         /* [tiles of the vector][2]: |sum of changes|^2, sum of |change|^2 */
    int64_t visited;         /* rows of the pass */
    int pass;                /* passes begun, from first_epoch on */
    int fresh;               /* this is the first pass of a run without duals */
    int first;               /* this is the first pass of the run */
};

/* ---- sdca_state.c ---- */

/* Takes room for a run, and makes u from its dual variables. On failure nothing is held.
 * Collective. */
GY_INT int gy_sdca_open(struct gy_sdca *s, struct gy_glm_run *run, struct gy_error *err);
GY_INT void gy_sdca_close(struct gy_sdca *s);
/* Room for pointers to rows' values, if there is none. */
GY_INT int gy_sdca_values(struct gy_sdca *s, struct gy_error *err);
/* Copies the dual variables of the window's rows to dual; take 1: from dual to the rows. */
GY_INT void gy_sdca_copy(struct gy_sdca *s, int take);
/* The same for a resident feed, whose rows keep them from pass to pass. Else, or before the first
 * pass, nothing happens. */
GY_INT void gy_sdca_duals(struct gy_sdca *s, int take);
/* What the weights are shrunk by: l1 / (l2 + kappa). */
GY_INT float gy_sdca_soft(const struct gy_sdca *s);
static inline float gy_sdca_shrink(float u, float soft) { return u > soft ? u - soft : u < -soft ? u + soft : soft > 0 ? 0 : u; }
/* The weights that u stands for. */
GY_INT void gy_sdca_weights(const struct gy_sdca *s, float *w);
/* Called after u was changed outside a pass. The mean over the pass before is void; it becomes u
 * itself. */
GY_INT void gy_sdca_means(struct gy_sdca *s);
/* u of the vector that the duals give: 1 / l2 sum of coefficient x. */
GY_INT void gy_sdca_set(struct gy_sdca *s, const double *vector);
/* u from the dual variables. Collective. */
GY_INT int gy_sdca_from_duals(struct gy_sdca *s, struct gy_error *err);

/* ---- sdca_centre.c ---- */

/* The first kappa, of the sum of c |x|^2 of some rows. */
GY_INT double gy_sdca_kappa(const struct gy_sdca *s, double square, double rows);
/* Called after a pass and the ranks' meeting. Sets move, turned, inside. Collective. */
GY_INT int gy_sdca_measure(struct gy_sdca *s, struct gy_error *err);
/* Called before the next pass. The centre follows the weights. measured: kappa follows what was
 * measured. ahead: the centre may run ahead of the weights. */
GY_INT void gy_sdca_follow(struct gy_sdca *s, int measured, int ahead);

/* ---- sdca_pass.c ---- */

/* Visits every row of this rank once; its threads have met afterwards. Sets gap. Collective. */
GY_INT int gy_sdca_pass(struct gy_sdca *s, struct gy_error *err);

/* ---- sdca.c ---- */

/* Passes until the run's conditions hold. */
GY_INT int gy_sdca_run(struct gy_sdca *s, struct gy_error *err);

#endif
