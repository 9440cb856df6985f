/* SPDX-License-Identifier: MIT */
/* ref.h: the reference kernels, which define what each op computes: plain loops, one function an
 * op. Every backend is tested against them; `isa ref` trains with them. GY_REAL is the type of
 * numbers: float in the library. Tests compile the same text in double (tests/ref_double.c). Bytes,
 * integers and struct gy_mix keep their types.
 *
 * Settled here, for every backend:
 * - NaN is never lost. ReLU and ReLU6 pass it on. The last one in a max-pool window wins. No class
 *   whose score is NaN is ranked. Padding never wins.
 * - Losses: a sample without a label has loss 0, but NaN where a score is not finite. With MIX
 *   `label` of the target is the own one, the rest the partner's; where the partner has no label,
 *   all is own. Softmax: smoothing s turns a target t into t (1 - s) + s / C. A gradient is divided
 *   by N.
 * - Batch norm, average pooling, local response norm (alpha / size), AdamW and SGD are PyTorch's.
 *   SGD: v = mu v + g, w -= lr v, v = 0 before the first step. Where a batch norm sees one value a
 *   channel, the running variance takes the biased one.
 * - A gradient is cut to the allowed total norm before the rule sees it, as PyTorch's
 *   clip_grad_norm_.
 * - LARS: v = mu v + lr local (g + decay w), w -= v, with the rate inside the momentum. local is 1
 *   where the span does not adapt and where |w| or |g| is 0, as in NVIDIA's LARC and MLPerf's LARS.
 *   GY_F_UNSCALED: v = mu v + (g + decay w), w -= lr local v.
 * - LAMB: You et al. 2020, algorithm 2, where phi is the identity.
 * - A span's decay is f[GY_C_DECAY] * span.decay, its rate uniform.lr * span.rate. The average is
 *   taken last: ema = uniform.keep ema + (1 - uniform.keep) w. */
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
