/* SPDX-License-Identifier: MIT */
/* stop.h: whether passes still bring a run nearer to its goal. Certified points go up and down; the
 * least P and the largest D of all do not, and it is their difference that is watched. A loss on
 * validation rows is compared with that of three checks ago. */
#ifndef GY_GLM_STOP_H
#define GY_GLM_STOP_H
#include "engine/glm/glm.h"

/* Mean losses on the validation rows, the oldest of the last three first. */
struct gy_glm_checks {
    double loss[3];
    int count;
};
/* Takes the next loss. 1: since three checks ago it has improved by a smaller part. */
GY_INT int gy_glm_is_flat(struct gy_glm_checks *checks, double loss, double part);

struct gy_glm_patience {
    double primal, dual; /* the least, and the largest */
    double least;        /* their difference, when it had become a tenth less last, in epoch `gained` */
    int gained;
};

GY_INT void gy_glm_patience_begin(struct gy_glm_patience *patience, int epoch);
/* A certificate with a bound was made after that epoch. */
GY_INT void gy_glm_patience_note(struct gy_glm_patience *patience, const struct gy_glm_certificate *at, int epoch);
/* "stalled" or "rounding" where two hundred epochs have brought less than a tenth, and the gap cannot be reached in the `left` epochs at four times
 * that pace; else NULL, and always where neither a gap nor a target was asked for. */
GY_INT const char *gy_glm_patience_ends(const struct gy_glm_patience *patience, const struct gy_glm_stop *stop, const struct gy_glm_certificate *at, int epoch,
                                        int left);

#endif
