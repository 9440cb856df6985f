/* SPDX-License-Identifier: MIT */
/* fit.h: what fits a machine, one candidate after the other. fit.c has it; fit_ranks.c chooses from
 * it for many processes. */
#ifndef GY_FIT_H
#define GY_FIT_H
#include "engine/base/status.h"
#include "tools/lab/lab.h"

#define GY_FIT_SLACK 0.02 /* expected speeds that near are the same */

/* Plans every candidate. take gets those that fit, by rising batch. Errors as gyre_print_fit:
 * GY_E_NOMEM when none fits. */
GY_INT int gy_fit_each(const struct gyre_config *config, const struct gyre_fit_config *fit,
                       void (*take)(void *user, const struct gyre_fit *candidate), void *user, struct gy_error *err);

#endif
