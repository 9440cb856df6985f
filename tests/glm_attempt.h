/* SPDX-License-Identifier: MIT */
/* glm_attempt.h: a drawn problem trained by the library. */
#ifndef GY_GLM_ATTEMPT_H
#define GY_GLM_ATTEMPT_H
#include "tests/glm_check.h"

/* The problem's rows as a block file in the folder. */
int ga_write_blocks(const struct gp_case *c, const char *folder, struct gyre_error *error);

/* Solves the whole problem on one rank, with files in the folder. Training that has to stop early
 * is stopped (*first) and then resumed to the end (*last). */
void ga_rank(const struct gp_case *c, struct gyre_job *job, const char *folder, struct gc_outcome *first, struct gc_outcome *last);

int ga_same(double a, double b); /* both NAN too */

#endif
