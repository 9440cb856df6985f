/* SPDX-License-Identifier: MIT */
/* sdca.h: the state of a run of stochastic dual coordinate ascent, for its own files.
 *
 * u is the shared vector: 1 / l2 sum of coefficient x; the weights are u, or u shrunk by l1 / l2. Each of `fan` threads moves a replica of its own, by
 * sigma times what a row says, takes a row's curvature that much larger, and when the threads meet
 *
 *     u += (sum over threads of (replica - u)) / sigma        replica = u
 *
 * sigma = fan is safe for any data (CoCoA+: Ma et al., 2015); less is enough where threads move u in different directions. Ranks are the level above
 * (levels.h), and multiply what threads do by their own sigma. */
#ifndef GY_GLM_SDCA_H
#define GY_GLM_SDCA_H
#include "../../kernels/cpu/sparse.h"
#include "levels.h"
#include "sums.h"

struct gy_sdca {
    struct gy_glm_run *run;
    struct gy_arena arena;
    struct gy_glm_levels levels; /* ranks */
    int fan;                 /* threads */
    double sigma;            /* of threads */
    double floor;            /* least sigma that the guard allows */
    int fixed;               /* sigma stays as it is, whatever is measured */
    int64_t dim, pitch;      /* of the vector, bias included; floats from replica to replica */
    float *u;                /* [pitch] this rank's */
    float *replica;          /* [fan][pitch], between meetings equal to u; NULL: one thread moves u itself */
    int stale;               /* u has been changed by others than threads: replicas are not equal to it */
    float *dual;             /* [rows] */
    float *norm;             /* [rows] |x|^2; NULL: a row's number of entries says it */
    float *dual_kept, *u_kept; /* what the guard goes back to; NULL: sigma is always safe */
    /* The view that is worked on, and all of a resident feed's. */
    struct gy_rows rows;
    int64_t at;              /* rows of the pass before it */
    int view_number;
    struct gy_rows *view;
    int64_t *view_at;
    int views;
    struct gy_sparse_row *row; /* [rows of the largest view] */
    uint32_t *deal, *order;  /* rows in random order: as dealt, and by thread */
    int32_t *dealt;          /* [fan] rows of each thread's range that are to be visited */
    int32_t *begin;          /* [fan + 1] of order */
    struct sdca_sums {
        double gap, start;   /* about the sum of the rows' gaps; P(0) */
        char apart[GY_CACHE_LINE];
    } *sums;                 /* [fan] */
    double *overlap;         /* [tiles of the vector][2]: |sum of changes|^2, sum of |change|^2 */
    int64_t visited;         /* rows of the pass */
    int64_t unmet;           /* rows since threads met last */
    int64_t meet_every;
    int slice, slices;
    int pass;                /* passes begun, from first_epoch on */
    int fresh;               /* the first pass of a run without duals */
    double gap, start;       /* of the pass; of all ranks once they have met */
};

/* Room for a run, and u from its duals. */
GY_INT int gy_sdca_open(struct gy_sdca *s, struct gy_glm_run *run, struct gy_error *err);
GY_INT void gy_sdca_close(struct gy_sdca *s);
/* Visits every row of this rank once; its threads have met afterwards. Sets gap. */
GY_INT int gy_sdca_pass(struct gy_sdca *s, struct gy_error *err);
/* The weights that u stands for. */
GY_INT void gy_sdca_weights(const struct gy_sdca *s, float *w);
/* sdca_leap.c: with several ranks and a loss that has a slope everywhere, from time to time: towards dual numbers from w itself, where that makes *gap
 * smaller. The guard's copy is lost. Collective. */
GY_INT int gy_sdca_can_leap(const struct gy_sdca *s);
GY_INT int gy_sdca_leap(struct gy_sdca *s, double *gap, int *done, struct gy_error *err);
/* Passes until the run's conditions hold. */
GY_INT int gy_sdca_run(struct gy_sdca *s, struct gy_error *err);

#endif
