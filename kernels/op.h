/* SPDX-License-Identifier: MIT */
/* op.h: what can be computed. A net becomes flat programs of op records. A record says which
 * operation, on which shapes, with which tensors (one pointer a role). It is constant after open.
 * What changes from step to step stands in one small block, to which records point: struct
 * gy_uniform.
 *
 * Activations are NHWC, convolution weights [K][R][S][C/groups]. A fully connected layer is a
 * convolution of a 1x1 image. Backward ops mirror forward ops; gradients begin with D. ORDER:
 * kernels/op_table.c and kernels/cpu/ref/ref_table.c have a row per code. */
#ifndef GY_OP_H
#define GY_OP_H
#include "engine/base/base.h"
#include "kernels/op_device.h"

/* Each row: the op, the roles it reads -> the roles it writes: the meaning. Roles in [] are
 * optional. f[] are constants of the record.
 * GY_OP_INPUT X (u8 or f32, NHWC) [MIX] -> Y: y = (x/255 - f[c]) * f[4+c], moved and mixed as MIX
 *     says (f32: no /255)
 * GY_OP_CONV X W [BIAS SCALE SHIFT RES] -> Y [STATS]: cross-correlation. Its epilogue is, in this
 *     order: + BIAS, STATS of that, * SCALE + SHIFT, + RES, act.
 * GY_OP_BN_STATS X -> STATS: mean and sum of squared deviations a channel, over H*W and the samples
 *     that are present (N - uniform.absent)
 * GY_OP_BN_FINISH STATS GAMMA BETA RUN_MEAN RUN_VAR -> SCALE SHIFT MEAN RSTD RUN_MEAN RUN_VAR: f[0]
 *     is eps, f[1] the running values' momentum (weight of the new one). The variance, of present
 *     samples, is biased for RSTD, unbiased for RUN_VAR.
 * GY_OP_BN_FOLD GAMMA BETA RUN_MEAN RUN_VAR [BIAS] -> SCALE SHIFT: evaluation; f[0] is eps
 * GY_OP_BN_APPLY X SCALE SHIFT [RES [RES_SCALE RES_SHIFT]] -> Y: act(x * scale + shift [+ res])
 * GY_OP_ACT X -> Y: y = act(x)
 * GY_OP_POOL_MAX X -> Y [ARG u8]: ARG is r * S + s of the first maximum. Padding never wins.
 * GY_OP_POOL_AVG X -> Y: divides by cells inside the padded image (f[0] 0) or the image (f[0] 1)
 * GY_OP_LRN X -> Y: y = x * (f[0] + f[1]/size * sum x^2)^-f[2]; size = geom.r channels
 * GY_OP_DROPOUT X -> Y: y = x * keep / (1 - f[0]), keep from (seed, GY_RNG_DROPOUT + id, step,
 *     element). Backward is the same op with X = DY, Y = DX.
 * GY_OP_ADD X RES -> Y: y = act(x + res)
 * GY_OP_CONCAT X -> Y: copies X's C channels to channel geom.r of Y, which has K
 * GY_OP_SHORTCUT X -> Y: y[p][q][pad + c] = x[p*stride][q*stride][c], pad = (K - C) / 2; else 0
 * GY_OP_SOFTMAX_CE X LABEL [MIX] -> Y LOSS ARG(i32): Y has probabilities, LOSS one loss a sample.
 *     f[0] is label smoothing. ARG is the label's rank: how many classes score higher. A label
 *     below 0 gives loss 0 and ARG -1.
 * GY_OP_MSE X LABEL [TARGET MIX] -> Y LOSS ARG(i32): Y = X; LOSS = mean over C of (x - target)^2.
 *     Without TARGET the target is the one-hot LABEL. In both losses MIX mixes a target only with
 *     that of a partner that has a label.
 *
 * GY_OP_SOFTMAX_CE_BWD Y LABEL [MIX] -> DX: dx = (y - target) * uniform.loss_scale / N, or 0
 *     without a label; f[0] is label smoothing
 * GY_OP_MSE_BWD Y LABEL [TARGET MIX] -> DX: dx = 2 (y - target) / C * uniform.loss_scale / N, or 0
 *     without a label
 * GY_OP_CONV_DGRAD DY W -> DX: data gradient
 * GY_OP_CONV_WGRAD X DY -> DW [DBIAS]: weight gradient; adds to both when uniform.accumulate
 * GY_OP_BN_SUMS DY X MEAN RSTD [Y | SCALE SHIFT [RES]] -> SUMS DGAMMA DBETA [DRES AGAIN]: SUMS are
 *     sum dy' [C], then sum dy' * xhat [C]. DBETA, DGAMMA are the same, added when
 *     uniform.accumulate. dres = dy' = dy masked by act, from Y or from y = act(x * scale + shift
 *     [+ res]), which AGAIN takes.
 * GY_OP_BN_BWD DY X MEAN RSTD GAMMA SUMS [Y | SCALE SHIFT [RES]] -> DX [DRES]: dx = gamma * rstd *
 *     (dy' - (SUMS0 + xhat * SUMS1) / (N*H*W)); dres = dy'. N excludes absent samples, which have
 *     dx = 0, and dy = 0 in SUMS. The mask is that of BN_SUMS. Neither op takes SCALE and SHIFT
 *     with a curve (op_table.h).
 * GY_OP_ACT_BWD DY Y -> DX; GY_OP_POOL_MAX_BWD DY ARG -> DX; GY_OP_POOL_AVG_BWD DY -> DX
 * GY_OP_LRN_BWD        DY X -> DX; GY_OP_SHORTCUT_BWD DY -> DX
 * GY_OP_ADD_BWD DY [Y] -> DX [DRES]: dx = dres = dy masked by act, from Y; either may be absent
 * GY_OP_CONCAT_BWD DY -> DX: channels geom.r .. geom.r + C of DY's K
 * kernels/op_table.c lists pairs (output role, input role) that may be one tensor. Such an op reads
 * each input element before it writes that element of any output, and never reads it again.
 *
 * GY_OP_NORMS W DW -> SUMS: for every span sum w^2 and sum g^2, g = dw * uniform.grad_scale; at 2 *
 *     span_count the totals, by a fixed tree. With f[GY_C_CLIP] above 0 the update rules see g cut
 *     to that total norm. They end with ema = uniform.keep ema + (1 - uniform.keep) w.
 * GY_OP_SGD W DW M [SUMS EMA] -> W M EMA: v = mu v + (g + decay w); w -= lr * (nesterov ? g' + mu v
 *     : v)
 * GY_OP_LARS W DW M SUMS [EMA] -> W M EMA: as SGD, with lr * eta |w| / (|g| + decay |w|) inside v
 *     for spans with adapt, or lr where |w| or |g| is 0. GY_F_UNSCALED puts both outside of v.
 * GY_OP_ADAMW W DW M V [SUMS EMA] -> W M V EMA: Loshchilov and Hutter 2019
 * GY_OP_LAMB W DW M V SUMS [EMA] -> W M V SUMS EMA: w -= lr |w| / |u| u, u = AdamW's step of rate 1
 *     + decay w; SUMS get w^2, u^2
 *
 * The engine does these, between processes and shards; a device never does:
 * GY_OP_BUCKET DW -> DW: complete; sums over shards, processes begin. GY_OP_AWAIT DW -> DW: waits.
 * GY_OP_SHARE_STATS STATS -> STATS: of all ranks' samples. GY_OP_SHARE_SUMS SUMS -> SUMS: mean
 * GY_OP_SEND X -> -: to a reader's stage. GY_OP_RECV - -> Y: from the maker's stage.
 * GY_OP_PASS X -> Y: X to one process, Y from another: engine/plan/split.h
 * GY_OP_SPLIT X [RES] -> Y [RES]: a split layer's columns: there, too
 *
 * Linear models (glm_loss.h) run on devices with memory of their own; the CPU refuses these ops. X
 * is a window of rows (glm_window.h), W the weights, M the rows' dual variables, Y the scores. act
 * is a gy_glm_loss_id, geom.n the most rows at a time, geom.k the larger of a window's rows and the
 * weights. Of struct gy_uniform, seed and step name the order of rows, lr is 1 / l2, loss_scale the
 * damping, bias1 the bias. bias2 is l1 / l2, by which W is shrunk towards 0 to give the weights.
 * GY_OP_GLM_STEP X W M -> W M: each row but long ones gets its best dual variable; W moves at once
 * GY_OP_GLM_STEP_LONG X W M -> W M: the same for the long ones
 * GY_OP_GLM_BUILD X M -> W: adds each row's share of W. GY_OP_GLM_SCORES X W -> Y: x . w
 * GY_OP_GLM_SUMS X [Y M] -> SUMS (f64): adds the losses at Y, and the conjugates of M
 * GY_OP_GLM_SQUARES X W -> SUMS (f64): adds the weights' squares and their absolute values */

/* ORDER: forward ops stand before GY_OP_SOFTMAX_CE_BWD, gradients from there to GY_OP_NORMS, update
 * rules between GY_OP_NORMS and GY_OP_LAMB. widen.c and tests compare codes. */
enum gy_opcode {
    GY_OP_INPUT, GY_OP_CONV, GY_OP_BN_STATS, GY_OP_BN_FINISH, GY_OP_BN_FOLD, GY_OP_BN_APPLY, GY_OP_ACT, GY_OP_POOL_MAX,
    GY_OP_POOL_AVG, GY_OP_LRN, GY_OP_DROPOUT, GY_OP_ADD, GY_OP_CONCAT, GY_OP_SHORTCUT, GY_OP_SOFTMAX_CE, GY_OP_MSE,
    GY_OP_SOFTMAX_CE_BWD, GY_OP_MSE_BWD, GY_OP_CONV_DGRAD, GY_OP_CONV_WGRAD, GY_OP_BN_SUMS, GY_OP_BN_BWD, GY_OP_ACT_BWD,
    GY_OP_POOL_MAX_BWD, GY_OP_POOL_AVG_BWD, GY_OP_LRN_BWD, GY_OP_ADD_BWD, GY_OP_CONCAT_BWD, GY_OP_SHORTCUT_BWD,
    GY_OP_NORMS, GY_OP_SGD, GY_OP_LARS, GY_OP_ADAMW, GY_OP_LAMB,
    GY_OP_CODES, /* of devices */
    GY_OP_BUCKET = GY_OP_CODES, GY_OP_AWAIT, GY_OP_SHARE_STATS, GY_OP_SHARE_SUMS,
    GY_OP_SEND, GY_OP_RECV, GY_OP_PASS, GY_OP_SPLIT,
    GY_OP_ALL_CODES,
    GY_OP_GLM_STEP = GY_OP_ALL_CODES, GY_OP_GLM_STEP_LONG, GY_OP_GLM_BUILD, GY_OP_GLM_SCORES, GY_OP_GLM_SUMS, GY_OP_GLM_SQUARES,
    GY_OP_GLM_END
};

/* Shapes of an op: input n x h x w x c, output n x p x q x k, filter r x s. c and k count the
 * channels of all groups. Ops on one shape (norm, act, add, loss) use n, h, w, c and set p, q, k
 * equal. Output pixel p reads input row p*stride_h - pad_h + r*dil_h. */
struct gy_geom {
    int64_t n;
    int32_t h, w, c, p, q, k, r, s;
    int32_t stride_h, stride_w, pad_h, pad_w, dil_h, dil_w, groups;
};

#define GY_OP_BLOCKS 6

struct gy_op {
    int32_t code;                /* enum gy_opcode */
    int32_t dtype;               /* of activations and their gradients */
    int32_t act;                 /* enum gy_act, where the op has one; of linear models a loss */
    float act_param;             /* of an activation that has a parameter */
    int32_t id;                  /* number of the layer; dropout's stream */
    uint32_t flags;              /* enum gy_op_flags */
    int32_t span_count;
    struct gy_geom geom;
    float f[8];
    const struct gy_span *spans; /* update ops */
    const struct gy_uniform *u;
    int32_t tensor[GY_ROLES]; /* index in the plan's tensor table, -1 none */
    void *ptr[GY_ROLES];      /* device address, set when memory is placed; NULL none */
    const char *name;         /* layer it came from, for people */
    /* filled by the backend's prepare */
    const char *variant;       /* kernel chosen, for people */
    const void *kernel, *plan; /* CPU: its driver, and that one's plan in prepare's arena */
    size_t scratch_bytes;
    int32_t block[GY_OP_BLOCKS]; /* block sizes; the backend chooses those that are 0 */
};

#endif
