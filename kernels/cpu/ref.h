/* SPDX-License-Identifier: MIT */
/* ref.h: the reference kernels: plain loops, one function an op, the definition of truth. Kept forever, built for every target. The text
 * is written in the type GY_REAL: float in the library; the tests compile the same text once more in double (tests/ref_double.c).
 *
 * Settled here: a NaN in a max-pool window wins (a comparison that is not "less or equal" takes the new cell); padding never wins. With MIX the target is
 * `label` on the own label and the rest on the partner's; smoothing s turns a target t into t (1 - s) + s / C. Momentum and decay
 * are PyTorch's: v = mu v + g, w -= lr v. */
#ifndef GY_REF_H
#define GY_REF_H
#include "../op.h"

#ifndef GY_REAL
#define GY_REAL float
#define GY_REF(name) gy_ref_##name##_f32
#define GY_REF_TABLE gy_ref_table
#endif

typedef void (*gy_ref_fn)(const struct gy_op *op);

/* A function for every op code. */
GY_INT const gy_ref_fn *GY_REF_TABLE(void);

#define GY_REF_DECLARE(name) GY_INT void GY_REF(name)(const struct gy_op *op)
GY_REF_DECLARE(input);
GY_REF_DECLARE(conv);
GY_REF_DECLARE(bn_stats);
GY_REF_DECLARE(bn_finish);
GY_REF_DECLARE(bn_fold);
GY_REF_DECLARE(bn_apply);
GY_REF_DECLARE(act);
GY_REF_DECLARE(pool_max);
GY_REF_DECLARE(pool_avg);
GY_REF_DECLARE(lrn);
GY_REF_DECLARE(dropout);
GY_REF_DECLARE(add);
GY_REF_DECLARE(concat);
GY_REF_DECLARE(shortcut);
GY_REF_DECLARE(softmax_ce);
GY_REF_DECLARE(mse);
GY_REF_DECLARE(softmax_ce_bwd);
GY_REF_DECLARE(mse_bwd);
GY_REF_DECLARE(conv_dgrad);
GY_REF_DECLARE(conv_wgrad);
GY_REF_DECLARE(bn_sums);
GY_REF_DECLARE(bn_bwd);
GY_REF_DECLARE(act_bwd);
GY_REF_DECLARE(pool_max_bwd);
GY_REF_DECLARE(pool_avg_bwd);
GY_REF_DECLARE(lrn_bwd);
GY_REF_DECLARE(add_bwd);
GY_REF_DECLARE(concat_bwd);
GY_REF_DECLARE(shortcut_bwd);
GY_REF_DECLARE(norms);
GY_REF_DECLARE(sgd);
GY_REF_DECLARE(lars);
GY_REF_DECLARE(adamw);

#endif
