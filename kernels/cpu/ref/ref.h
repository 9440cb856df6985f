/* SPDX-License-Identifier: MIT */
/* ref.h: the reference kernels: plain loops, one function an op, the definition of truth. Kept
 * forever, built for every target. The text is written in the type GY_REAL: float in the library;
 * the tests compile the same text once more in double (tests/ref_double.c). Bytes, integers and
 * struct gy_mix stay what they are.
 *
 * Settled here, for every backend:
 * - a value that is not a number is never lost: ReLU and ReLU6 pass it on, it wins in a max-pool
 *   window (the last one there), and no class that scores so is ranked. Padding never wins;
 * - losses: a sample without a label has loss 0, but no number where a score is not finite. With
 *   MIX `label` of the target is the own one, the rest the partner's; all is the own one where the
 *   partner has no label. Softmax: smoothing s turns a target t into t (1 - s) + s / C. A gradient
 *   is divided by N;
 * - batch norm, average pooling, local response norm (alpha / size), AdamW and SGD (v = mu v + g, w
 *   -= lr v, v = 0
 * before the first step) are PyTorch's; where a batch norm sees one value a channel, the running
 * variance takes the biased one;
 * - a gradient is cut to the allowed total norm before the rule sees it, as
 *   torch.nn.utils.clip_grad_norm_ does;
 * - LARS has the rate inside the momentum: v = mu v + lr local (g + decay w), w -= v; local is 1
 *   where the span does not adapt and where |w| or |g| is 0, as in NVIDIA's LARC and MLPerf's LARS;
 *   GY_F_UNSCALED: v = mu v + (g + decay w), w -= lr local v. LAMB: You et al. 2020, algorithm 2,
 *   where phi is the identity;
 * - a span's decay is f[GY_C_DECAY] * span.decay, its rate uniform.lr * span.rate; the average is
 *   taken last, ema = uniform.keep ema + (1 - uniform.keep) w. */
#ifndef GY_REF_H
#define GY_REF_H
#include "kernels/op.h"

#ifndef GY_REAL
#define GY_REAL float
#define GY_REF(name) gy_ref_##name##_f32
#define GY_REF_TABLE gy_ref_table
#endif

typedef void (*gy_ref_fn)(const struct gy_op *op);

static inline GY_REAL ref_act_value(GY_REAL x, const struct gy_op *op)
{
    switch (op->act) {
    case GY_ACT_RELU: return x <= 0 ? 0 : x;
    case GY_ACT_RELU6: return x <= 0 ? 0 : x >= 6 ? 6 : x;
    case GY_ACT_SIGMOID: return (GY_REAL)(1 / (1 + exp(-(double)x)));
    case GY_ACT_TANH: return (GY_REAL)tanh((double)x);
    case GY_ACT_LEAKY: return x > 0 ? x : (GY_REAL)op->act_param * x;
    default: return op->act == GY_ACT_NONE ? x : (GY_REAL)NAN;
    }
}

/* dy before the activation, from its output y. */
static inline GY_REAL ref_act_mask(GY_REAL dy, GY_REAL y, const struct gy_op *op)
{
    switch (op->act) {
    case GY_ACT_RELU: return y > 0 ? dy : 0;
    case GY_ACT_RELU6: return y > 0 && y < 6 ? dy : 0;
    case GY_ACT_SIGMOID: return dy * y * (1 - y);
    case GY_ACT_TANH: return dy * (1 - y * y);
    case GY_ACT_LEAKY: return y > 0 ? dy : (GY_REAL)op->act_param * dy;
    default: return op->act == GY_ACT_NONE ? dy : (GY_REAL)NAN;
    }
}

/* A function for every op code. */
GY_INT const gy_ref_fn *GY_REF_TABLE(void);

#define GY_REF_DECLARE(name) GY_INT void GY_REF(name)(const struct gy_op *op)
GY_REF_DECLARE(input); GY_REF_DECLARE(conv); GY_REF_DECLARE(bn_stats); GY_REF_DECLARE(bn_finish);
GY_REF_DECLARE(bn_fold); GY_REF_DECLARE(bn_apply); GY_REF_DECLARE(act); GY_REF_DECLARE(pool_max);
GY_REF_DECLARE(pool_avg); GY_REF_DECLARE(lrn); GY_REF_DECLARE(dropout); GY_REF_DECLARE(add);
GY_REF_DECLARE(concat); GY_REF_DECLARE(shortcut); GY_REF_DECLARE(softmax_ce); GY_REF_DECLARE(mse);
GY_REF_DECLARE(softmax_ce_bwd); GY_REF_DECLARE(mse_bwd); GY_REF_DECLARE(conv_dgrad);
GY_REF_DECLARE(conv_wgrad); GY_REF_DECLARE(bn_sums); GY_REF_DECLARE(bn_bwd);
GY_REF_DECLARE(act_bwd); GY_REF_DECLARE(pool_max_bwd); GY_REF_DECLARE(pool_avg_bwd);
GY_REF_DECLARE(lrn_bwd); GY_REF_DECLARE(add_bwd); GY_REF_DECLARE(concat_bwd);
GY_REF_DECLARE(shortcut_bwd); GY_REF_DECLARE(norms); GY_REF_DECLARE(momentum);
GY_REF_DECLARE(adamw); GY_REF_DECLARE(lamb);

#endif
