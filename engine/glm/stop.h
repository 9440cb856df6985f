/* SPDX-License-Identifier: MIT */
/* stop.h: when a run ends; all solvers ask after an epoch. Certified points go up and down. So
 * patience watches the least P less the largest D of them all. A loss on validation rows is
 * compared with that of three checks ago. */
#ifndef GY_GLM_STOP_H
#define GY_GLM_STOP_H
#include "engine/glm/glm.h"

/* Mean losses on the validation rows, the oldest of the last three first. */
struct gy_glm_checks {
    double loss[3];
    int count;
};
/* Takes the next loss. 1: three checks ago it was larger by less than `part` of what it was
 * then. */
GY_INT int gy_glm_is_flat(struct gy_glm_checks *checks, double loss, double part);

struct gy_glm_patience {
    double primal, dual; /* the least P, the largest D */
    /* least: their difference when it had last become a tenth smaller; gained: that epoch */
    double least;
    int gained;
};

GY_INT void gy_glm_patience_begin(struct gy_glm_patience *patience, int epoch);
/* A certificate with a bound was made after that epoch. */
GY_INT void gy_glm_patience_note(struct gy_glm_patience *patience, const struct gy_glm_certificate *at, int epoch);

#define GY_GLM_EPOCHS_MOST 1000 /* of a run that says none */

/* What a solver knows after an epoch. */
struct gy_glm_end {
    const struct gy_glm_certificate *at;     /* of the present point; NULL: none was made */
    const struct gy_glm_patience *patience;  /* noted up to here; NULL: not to be asked now */
    int epoch, left;                         /* done, and still allowed */
    int flat, late;                          /* validation improves no more; a rank's time is up */
};
/* The first reason that holds: gap, target, validation, patience, epochs, time. Patience ends where
 * two hundred epochs have brought less than a tenth, and the remaining epochs cannot reach the gap
 * at four times that pace. It never ends where neither a gap nor a target was asked for. */
GY_INT enum gy_glm_why gy_glm_ends(const struct gy_glm_stop *stop, const struct gy_glm_end *end);
/* The same, asking for gap and target alone. */
GY_INT enum gy_glm_why gy_glm_reached(const struct gy_glm_stop *stop, const struct gy_glm_certificate *at);
/* The loss of run->w on the validation rows, if there are any. *flat 1: it improves no more.
 * Collective. */
GY_INT int gy_glm_validated(const struct gy_glm_run *run, struct gy_glm_checks *checks, int *flat, struct gy_error *err);
/* 1: this rank's time is up. began: gy_clock_ns at the run's begin. */
GY_INT int gy_glm_is_late(const struct gy_glm_stop *stop, int64_t began);

#endif
