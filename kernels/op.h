/* SPDX-License-Identifier: MIT */
/* op.h: what can be computed. A net becomes flat programs of op records. A record says which
 * operation, on which shapes, with which tensors (one pointer a role). It is constant after open.
 * What changes from step to step stands in one small block, to which records point: struct
 * gy_uniform.
 *
 * Activations are NHWC, convolution weights [K][R][S][C/groups]. A fully connected layer is a
 * convolution of a 1x1 image. Backward ops mirror forward ops; gradients begin with D. ORDER:
 * kernels/op_table.c and kernels/cpu/cpu_backend.c have a row per code. */
#ifndef GY_OP_H
#define GY_OP_H
#include "engine/base/base.h"
#include "kernels/op_device.h"

/* code                 reads                          writes                  meaning (f[] are the record's constants)
 * GY_OP_INPUT          X (u8 or f32, NHWC) [MIX]      Y                       y = (x/255 - f[c]) * f[4+c], moved and mixed as MIX says; f32 input: without /255
 * GY_OP_CONV           X W [BIAS SCALE SHIFT RES]     Y [STATS]               cross-correlation; epilogue in this order: + BIAS, STATS of that,
 *                                                                             * SCALE + SHIFT, + RES, act
 * GY_OP_BN_STATS       X                              STATS                   mean and sum of squared deviations a channel, over H*W and the
 *                                                                             N - uniform.absent samples that are there
 * GY_OP_BN_FINISH      STATS GAMMA BETA RUN_MEAN RUN_VAR  SCALE SHIFT MEAN RSTD RUN_*   f[0] eps, f[1] momentum of the running values (new weight);
 *                                                                             variance biased for RSTD, unbiased for RUN_VAR; of the
 *                                                                             samples that are there
 * GY_OP_BN_FOLD        GAMMA BETA RUN_MEAN RUN_VAR [BIAS]   SCALE SHIFT       evaluation: scale and shift from the running values; f[0] eps
 * GY_OP_BN_APPLY       X SCALE SHIFT [RES]            Y                       y = act(x * scale + shift [+ res])
 * GY_OP_ACT            X                              Y                       y = act(x)
 * GY_OP_POOL_MAX       X                              Y [ARG u8]              ARG: r * S + s of the maximum (the first one); padding never wins
 * GY_OP_POOL_AVG       X                              Y                       divides by R*S (f[0] = 0) or by the cells inside the image (f[0] = 1)
 * GY_OP_LRN            X                              Y                       y = x * (f[0] + f[1]/size * sum x^2)^-f[2]; size = geom.r channels
 * GY_OP_DROPOUT        X                              Y                       y = x * keep / (1 - f[0]); keep from (seed, GY_RNG_DROPOUT + id, step, element);
 *                                                                             backward is the same op with X = DY, Y = DX
 * GY_OP_ADD            X RES                          Y                       y = act(x + res)
 * GY_OP_CONCAT         X                              Y                       copies X's C channels to channel geom.r of Y, which has K channels
 * GY_OP_SHORTCUT       X                              Y                       y[p][q][pad + c] = x[p*stride][q*stride][c], zero elsewhere; pad = (K - C) / 2
 * GY_OP_SOFTMAX_CE     X LABEL [MIX]                  Y LOSS ARG(i32)         Y probabilities, LOSS a sample (f[0] label smoothing), ARG rank of the label
 *                                                                             (how many classes score higher); label < 0: loss 0, ARG -1
 * GY_OP_MSE            X LABEL [TARGET MIX]           Y LOSS ARG(i32)         Y = X; LOSS = mean over C of (x - target)^2; TARGET absent: one-hot LABEL;
 *                                                                             MIX mixes targets, of both losses, with those of partners that have a label
 *
 * GY_OP_SOFTMAX_CE_BWD Y LABEL [MIX]                  DX                      dx = (y - target) * uniform.loss_scale / N; 0 without label; f[0] smoothing
 * GY_OP_MSE_BWD        Y LABEL [TARGET MIX]           DX                      dx = 2 (y - target) / C * uniform.loss_scale / N; 0 without label
 * GY_OP_CONV_DGRAD     DY W                           DX                      data gradient
 * GY_OP_CONV_WGRAD     X DY                           DW [DBIAS]              weight gradient; adds to DW and DBIAS when uniform.accumulate
 * GY_OP_BN_SUMS        DY X MEAN RSTD [Y | SCALE SHIFT [RES]]   SUMS DGAMMA DBETA [DRES AGAIN]   SUMS: sum dy' [C], sum dy' * xhat [C]; DBETA, DGAMMA
 *                                                                             the same, added when uniform.accumulate; dres = dy' = dy masked by act,
 *                                                                             from Y or from y = act(x * scale + shift [+ res]), which AGAIN takes
 * GY_OP_BN_BWD         DY X MEAN RSTD GAMMA SUMS [Y | SCALE SHIFT [RES]]   DX [DRES]   dx = gamma * rstd * (dy' - (SUMS0 + xhat * SUMS1) / (N*H*W)); dres = dy'
 *                                                                             N without absent samples; these have dx = 0, and in SUMS dy = 0
 *                                                                             mask as in BN_SUMS; SCALE and SHIFT in both: not with sigmoid and tanh
 * GY_OP_ACT_BWD        DY Y                           DX                      from the output y
 * GY_OP_POOL_MAX_BWD   DY ARG                         DX
 * GY_OP_POOL_AVG_BWD   DY                             DX
 * GY_OP_LRN_BWD        DY X                           DX
 * GY_OP_ADD_BWD        DY [Y]                         DX [DRES]               dx = dres = dy masked by act, from Y; either may be absent
 * GY_OP_CONCAT_BWD     DY                             DX                      the K-channel DY's channels geom.r .. geom.r + C
 * GY_OP_SHORTCUT_BWD   DY                             DX
 *
 * In place: where kernels/op_table.c lists a pair (output role, input role), both may be one tensor; such an op reads every input element
 * before it writes the same element of any output, and never reads it again. Pairs: Y of BN_APPLY, ACT, DROPOUT, ADD, MSE with X or
 * RES; DX or DRES of BN_SUMS, BN_BWD, ACT_BWD, ADD_BWD with DY.
 *
 * GY_OP_NORMS          W DW                           SUMS                    for every span: sum w^2, sum g^2 (g = dw * uniform.grad_scale); then at
 *                                                                             2 * span_count: totals of both. Fixed tree.
 *                                                                             The rules see g cut to a total norm of f[GY_C_CLIP], if that is
 *                                                                             above 0; then ema = uniform.keep ema + (1 - uniform.keep) w
 * GY_OP_SGD            W DW M [SUMS EMA]              W M EMA                 v = mu v + (g + decay w); w -= lr * (nesterov ? g' + mu v : v)
 * GY_OP_LARS           W DW M SUMS [EMA]              W M EMA                 as SGD, lr * eta |w| / (|g| + decay |w|) inside v, for spans with adapt;
 *                                                                             lr alone where |w| or |g| is 0; GY_F_UNSCALED: outside of v
 * GY_OP_ADAMW          W DW M V [SUMS EMA]            W M V EMA               Loshchilov and Hutter 2019
 * GY_OP_LAMB           W DW M V SUMS [EMA]            W M V SUMS EMA          w -= lr |w| / |u| u, u = AdamW's step of rate 1 + decay w; SUMS: w^2, u^2
 *                                                                             the rules with GY_F_SKIP: nothing, when the total of g^2 is not finite
 *
 * Between processes and shards; done by the engine, never by a device:
 * GY_OP_BUCKET         DW                             DW                      these gradients are complete: sums over shards and processes begin
 * GY_OP_AWAIT          DW                             DW                      until these sums are there
 * GY_OP_SHARE_STATS    STATS                          STATS                   of the samples of all processes, from those of each
 * GY_OP_SHARE_SUMS     SUMS                           SUMS                    mean over the processes
 * GY_OP_SEND           X                              -                       to a reader's stage
 * GY_OP_RECV           -                              Y                       from the maker's stage
 * GY_OP_PASS           X                              Y                       X to one process, Y from another: engine/plan/split.h
 * GY_OP_SPLIT          X [RES]                        Y [RES]                 a split layer's columns: there, too
 *
 * Linear models (glm_loss.h), by devices with memory of their own; the CPU refuses them and trains without ops. X is a window of rows
 * (glm_window.h), W the weights, M the dual numbers of the window's rows, Y scores of them. act: gy_glm_loss_id; geom.n: rows worked on at a time, at most;
 * geom.k: the larger of a window's rows and the weights. struct gy_uniform: seed and step name the order of rows, lr is 1 / l2, loss_scale the
 * damping, bias1 the bias's value, bias2 l1 / l2: weights are what W has beyond it
 * GY_OP_GLM_STEP       X W M                          W M                     each row but the long ones gets its best dual number, W moves at once
 * GY_OP_GLM_STEP_LONG  X W M                          W M                     the same for the long ones
 * GY_OP_GLM_BUILD      X M                            W                       adds what the dual numbers make of it
 * GY_OP_GLM_SCORES     X W                            Y                       x . w
 * GY_OP_GLM_SUMS       X [Y M]                        SUMS (f64)              adds the losses at Y, and the conjugates of M
 * GY_OP_GLM_SQUARES    X W                            SUMS (f64)              adds the weights squared, and their sizes
 */
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

/* Shapes of an op. Input n x h x w x c, output n x p x q x k, filter r x s. c and k count all channels of all groups. Ops on one
 * shape (norm, act, add, loss) use n, h, w, c and set p, q, k equal. Output pixel p reads input row p*stride_h - pad_h + r*dil_h. */
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
    int32_t tensor[GY_ROLES];    /* index in the plan's tensor table, -1 none */
    void *ptr[GY_ROLES];         /* address on the device, NULL none; filled once the memory is placed */
    const char *name;            /* layer it came from, for people */
    /* filled by the backend's prepare */
    const char *variant;         /* kernel chosen, for people */
    const void *kernel, *plan;   /* CPU: its driver, and what that derived once, in prepare's arena */
    size_t scratch_bytes;
    int32_t block[GY_OP_BLOCKS]; /* block sizes, as the backend counts them: those that are 0 are chosen */
};

#endif
