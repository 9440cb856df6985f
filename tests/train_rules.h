/* SPDX-License-Identifier: MIT */
/* train_rules.h: the rules of updates, in double: the rate, the cut, the optimisers, the average of
 * weights. */
#ifndef GY_TRAIN_RULES_H
#define GY_TRAIN_RULES_H
#include "tests/train_truth.h"

double train_rate(const struct gyre_schedule *s, int64_t update, int fault);
/* Makes new weights, momentum, second moments and averages from the gradients at hand, with bounds
 * on their errors. */
void train_update(struct train_truth *t);

#endif
