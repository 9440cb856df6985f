/* SPDX-License-Identifier: MIT */
/* referee_row.h: what one row adds to an objective and to a bound, each with how far it may be off.
 * referee.c alone calls it. It shares no formula with the solvers. */
#ifndef GY_GLM_REFEREE_ROW_H
#define GY_GLM_REFEREE_ROW_H
#include "kernels/glm_loss.h"

#define GY_REFEREE_UNIT 0x1p-53 /* an operation's relative error, at most */

/* Units that a probability of `count` classes may be off by. */
static inline double gy_referee_class_units(int count) { return 8 * count + 16; }

/* A number, and how far from it the truth may be. */
struct gy_near {
    double value, error;
};
/* How dual variables are moved into their domain, in this order: less shift times c; times a side,
 * by their sign. For classes they go a share of the way to q. */
struct gy_glm_moved {
    double shift, side[2], share;
    const double *q;
};
/* For a row whose score is near z: its loss, and how much that changes when the score moves by
 * grid. */
GY_INT struct gy_near gy_referee_loss(int loss, double y, double c, struct gy_near z);
GY_INT double gy_referee_grid(int loss, double y, double c, double z, double grid);
/* The dual variable, in its own form, that equals the slope at score z. */
GY_INT double gy_referee_slope(int loss, double y, double c, double z);
/* The conjugate of a dual variable, which is first moved into its domain. *pull: its coefficient,
 * with the sign of its effect on the scores. */
GY_INT struct gy_near gy_referee_conjugate(int loss, double y, double c, double dual, const struct gy_glm_moved *moved, double *pull);
/* The same of a softmax: z[count] scores, all within error; z becomes the coefficients. */
GY_INT void gy_referee_classes(double *z, int count, int y, double c, double error, const struct gy_glm_moved *moved, struct gy_near *loss,
                               struct gy_near *conjugate);

#endif
