/* SPDX-License-Identifier: MIT */
/* rank_sums.h: ranks that train one linear model together, each on its own rows, for coordinate
 * ascent on CPUs (sdca*.c) and on devices (glm_device.c). It is nested CoCoA (Ma et al., "Adding
 * vs. averaging in distributed primal-dual optimization", 2015). Level 1 is a rank, level 2 a leaf
 * inside it: a thread, or a block of a GPU. A leaf sees
 *
 *     w + sigma1 u + sigma1 sigma2 u'          q = sigma1 sigma2 |x|^2 / l2
 *
 * u: what its rank changed since the last sum over ranks, u': what it changed itself since its
 * rank's last merge. A level's sigma is safe where it is the number of parallel workers. Less is
 * enough where they move w in different directions, which is measured at every sum.
 *
 * What a solver does: its vector v is w + sigma1 u. It trains on v as if alone, with every step's q
 * and change of v multiplied by levels->sigma. After each pass it calls gy_glm_levels_pass. After a
 * sum v is w, the same bits on all ranks. Alone sigma is 1 and nothing happens. */
#ifndef GY_GLM_LEVELS_H
#define GY_GLM_LEVELS_H
#include "engine/glm/glm.h"

struct gy_glm_levels {
    double sigma;        /* of ranks */
    int fixed;           /* 1: sigma is not measured; the guard may still raise it */
    int inner;           /* passes from one sum to the next */
    int parts;           /* of a pass, with a sum after each: more than 1 where inner is 1 */
    int rounds;          /* sums so far */
    double seconds_summing, seconds_training; /* of this rank, in all */
    /* its own: */
    struct gyre_job *job;
    struct gy_alloc alloc;
    int64_t width;
    /* [width] w of the last sum; [width + 1] this rank's change, and its square */
    float *base, *change;
    int forced, since;    /* inner was given; passes since the last sum */
    int part;             /* parts of this pass that are done */
    /* number of ranks; least sigma that the guard allows; dual objective of the last certificate */
    double fan, floor, last_dual;
    double pass_seconds;  /* since the last sum */
};

/* Takes memory for vectors of `width` floats: base, and change, which lies where ranks sum without
 * a copy. inner: passes from one sum to the next. 0: one pass where all ranks are on one host; else
 * inner follows the measured times of sums and passes, so runs do not repeat bit by bit. Close it
 * after a failure, too. Collective. */
GY_INT int gy_glm_levels_open(struct gy_glm_levels *levels, struct gyre_job *job, const struct gy_alloc *alloc, int64_t width, int inner, struct gy_error *err);
GY_INT void gy_glm_levels_close(struct gy_glm_levels *levels); /* safe on a zeroed struct */
/* v is the w of all ranks from here on. Called at the start, and after w was made anew from the
 * dual variables. */
GY_INT void gy_glm_levels_begin(struct gy_glm_levels *levels, const float *v);
/* Plans how often ranks of one host meet in a pass, by the shape of the data alone. Sums then cost
 * a small part of the pass. Collective. */
GY_INT int gy_glm_levels_plan(struct gy_glm_levels *levels, int64_t rows, int64_t entries, int threads, struct gy_error *err);
/* Whether gy_glm_levels_meet is due inside the pass, when `visited` of this rank's `rows` rows are
 * done. At the end of a pass it is called with INT64_MAX until it returns 0, so all ranks meet
 * equally often. */
GY_INT int gy_glm_levels_part(const struct gy_glm_levels *levels, int64_t visited, int64_t rows);
/* v becomes w of all ranks. Collective. */
GY_INT int gy_glm_levels_meet(struct gy_glm_levels *levels, float *v, struct gy_error *err);
/* Called after a pass of `seconds`. When the sum is due, or now != 0 on all ranks, v becomes w of
 * all ranks and *summed is 1. Collective. */
GY_INT int gy_glm_levels_pass(struct gy_glm_levels *levels, float *v, double seconds, int now, int *summed, struct gy_error *err);
/* Whether the next pass ends with a sum: where certificates can be made. */
GY_INT int gy_glm_levels_due(const struct gy_glm_levels *levels);
/* All ranks have seen that their steps together were too long. sigma doubles, at most to the number
 * of ranks, and does not fall below that again. */
GY_INT void gy_glm_levels_damp(struct gy_glm_levels *levels);
/* The dual objective of all ranks, after a sum: damps where it fell. 1: it fell. */
GY_INT int gy_glm_levels_guard(struct gy_glm_levels *levels, double dual);

#endif
