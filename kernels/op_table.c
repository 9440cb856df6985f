/* SPDX-License-Identifier: MIT */
/* op_table.c: the op set as data. The planner (engine/plan) reads from the roles how long a tensor
 * lives. In-place pairs say which output may take the memory of an input that dies there. */
#include "kernels/op_table.h"

#define OP_R(role) (1ull << (role))
#define OP_RES (OP_R(GY_RES) | OP_R(GY_RES_SCALE) | OP_R(GY_RES_SHIFT))
#define OP_STEP (OP_R(GY_W) | OP_R(GY_M) | OP_R(GY_EMA))
#define OP_NONE { { -1, -1 }, { -1, -1 } }
#define OP_ONE(out, in) { { (out), (in) }, { -1, -1 } }
#define OP_TWO(out, in, out2, in2) { { (out), (in) }, { (out2), (in2) } }

static const struct gy_op_row op_rows[GY_OP_GLM_END] = {
    [GY_OP_INPUT] = { "input", OP_R(GY_X) | OP_R(GY_MIX), OP_R(GY_Y), OP_NONE },
    [GY_OP_CONV] = { "conv",
                     OP_R(GY_X) | OP_R(GY_W) | OP_R(GY_BIAS) | OP_R(GY_SCALE) | OP_R(GY_SHIFT) | OP_R(GY_RES),
                     OP_R(GY_Y) | OP_R(GY_STATS), OP_NONE },
    [GY_OP_BN_STATS] = { "bn-stats", OP_R(GY_X), OP_R(GY_STATS), OP_NONE },
    [GY_OP_BN_FINISH] = { "bn-finish",
                          OP_R(GY_STATS) | OP_R(GY_GAMMA) | OP_R(GY_BETA) | OP_R(GY_RUN_MEAN) | OP_R(GY_RUN_VAR),
                          OP_R(GY_SCALE) | OP_R(GY_SHIFT) | OP_R(GY_MEAN) | OP_R(GY_RSTD) | OP_R(GY_RUN_MEAN) |
                              OP_R(GY_RUN_VAR),
                          OP_NONE },
    [GY_OP_BN_FOLD] = { "bn-fold",
                        OP_R(GY_GAMMA) | OP_R(GY_BETA) | OP_R(GY_RUN_MEAN) | OP_R(GY_RUN_VAR) | OP_R(GY_BIAS),
                        OP_R(GY_SCALE) | OP_R(GY_SHIFT), OP_NONE },
    [GY_OP_BN_APPLY] = { "bn-apply", OP_R(GY_X) | OP_R(GY_SCALE) | OP_R(GY_SHIFT) | OP_RES, OP_R(GY_Y),
                         OP_TWO(GY_Y, GY_X, GY_Y, GY_RES) },
    [GY_OP_ACT] = { "act", OP_R(GY_X), OP_R(GY_Y), OP_ONE(GY_Y, GY_X) },
    [GY_OP_POOL_MAX] = { "max-pool", OP_R(GY_X), OP_R(GY_Y) | OP_R(GY_ARG), OP_NONE },
    [GY_OP_POOL_AVG] = { "avg-pool", OP_R(GY_X), OP_R(GY_Y), OP_NONE },
    [GY_OP_LRN] = { "lrn", OP_R(GY_X), OP_R(GY_Y), OP_NONE },
    [GY_OP_DROPOUT] = { "dropout", OP_R(GY_X), OP_R(GY_Y), OP_ONE(GY_Y, GY_X) },
    [GY_OP_ADD] = { "add", OP_R(GY_X) | OP_R(GY_RES), OP_R(GY_Y), OP_TWO(GY_Y, GY_X, GY_Y, GY_RES) },
    [GY_OP_CONCAT] = { "concat", OP_R(GY_X), OP_R(GY_Y), OP_NONE },
    [GY_OP_SHORTCUT] = { "shortcut", OP_R(GY_X), OP_R(GY_Y), OP_NONE },
    [GY_OP_SOFTMAX_CE] = { "softmax-ce", OP_R(GY_X) | OP_R(GY_LABEL) | OP_R(GY_MIX),
                           OP_R(GY_Y) | OP_R(GY_LOSS) | OP_R(GY_ARG), OP_NONE },
    [GY_OP_MSE] = { "mse", OP_R(GY_X) | OP_R(GY_LABEL) | OP_R(GY_TARGET) | OP_R(GY_MIX),
                    OP_R(GY_Y) | OP_R(GY_LOSS) | OP_R(GY_ARG), OP_NONE },
    [GY_OP_SOFTMAX_CE_BWD] = { "softmax-ce-bwd", OP_R(GY_Y) | OP_R(GY_LABEL) | OP_R(GY_MIX), OP_R(GY_DX), OP_NONE },
    [GY_OP_MSE_BWD] = { "mse-bwd", OP_R(GY_Y) | OP_R(GY_LABEL) | OP_R(GY_TARGET) | OP_R(GY_MIX), OP_R(GY_DX), OP_NONE },
    [GY_OP_CONV_DGRAD] = { "conv-dgrad", OP_R(GY_DY) | OP_R(GY_W), OP_R(GY_DX), OP_NONE },
    [GY_OP_CONV_WGRAD] = { "conv-wgrad", OP_R(GY_X) | OP_R(GY_DY), OP_R(GY_DW) | OP_R(GY_DBIAS), OP_NONE },
    [GY_OP_BN_SUMS] = { "bn-sums",
                        OP_R(GY_DY) | OP_R(GY_X) | OP_R(GY_MEAN) | OP_R(GY_RSTD) | OP_R(GY_Y) | OP_R(GY_SCALE) |
                            OP_R(GY_SHIFT) | OP_RES,
                        OP_R(GY_SUMS) | OP_R(GY_DGAMMA) | OP_R(GY_DBETA) | OP_R(GY_DRES) | OP_R(GY_AGAIN), OP_ONE(GY_DRES, GY_DY) },
    [GY_OP_BN_BWD] = { "bn-bwd",
                       OP_R(GY_DY) | OP_R(GY_X) | OP_R(GY_MEAN) | OP_R(GY_RSTD) | OP_R(GY_GAMMA) | OP_R(GY_SUMS) |
                           OP_R(GY_Y) | OP_R(GY_SCALE) | OP_R(GY_SHIFT) | OP_R(GY_RES),
                       OP_R(GY_DX) | OP_R(GY_DRES), OP_TWO(GY_DRES, GY_DY, GY_DX, GY_DY) },
    [GY_OP_ACT_BWD] = { "act-bwd", OP_R(GY_DY) | OP_R(GY_Y), OP_R(GY_DX), OP_ONE(GY_DX, GY_DY) },
    [GY_OP_POOL_MAX_BWD] = { "max-pool-bwd", OP_R(GY_DY) | OP_R(GY_ARG), OP_R(GY_DX), OP_NONE },
    [GY_OP_POOL_AVG_BWD] = { "avg-pool-bwd", OP_R(GY_DY), OP_R(GY_DX), OP_NONE },
    [GY_OP_LRN_BWD] = { "lrn-bwd", OP_R(GY_DY) | OP_R(GY_X), OP_R(GY_DX), OP_NONE },
    [GY_OP_ADD_BWD] = { "add-bwd", OP_R(GY_DY) | OP_R(GY_Y), OP_R(GY_DX) | OP_R(GY_DRES),
                        OP_TWO(GY_DX, GY_DY, GY_DRES, GY_DY) },
    [GY_OP_CONCAT_BWD] = { "concat-bwd", OP_R(GY_DY), OP_R(GY_DX), OP_NONE },
    [GY_OP_SHORTCUT_BWD] = { "shortcut-bwd", OP_R(GY_DY), OP_R(GY_DX), OP_NONE },
    [GY_OP_NORMS] = { "norms", OP_R(GY_W) | OP_R(GY_DW), OP_R(GY_SUMS), OP_NONE },
    [GY_OP_SGD] = { "sgd", OP_STEP | OP_R(GY_DW) | OP_R(GY_SUMS), OP_STEP, OP_NONE },
    [GY_OP_LARS] = { "lars", OP_STEP | OP_R(GY_DW) | OP_R(GY_SUMS), OP_STEP, OP_NONE },
    [GY_OP_ADAMW] = { "adamw", OP_STEP | OP_R(GY_V) | OP_R(GY_DW) | OP_R(GY_SUMS), OP_STEP | OP_R(GY_V), OP_NONE },
    [GY_OP_LAMB] = { "lamb", OP_STEP | OP_R(GY_V) | OP_R(GY_DW) | OP_R(GY_SUMS), OP_STEP | OP_R(GY_V) | OP_R(GY_SUMS),
                     OP_NONE },
    [GY_OP_BUCKET] = { "bucket", OP_R(GY_DW), OP_R(GY_DW), OP_NONE },
    [GY_OP_AWAIT] = { "await", OP_R(GY_DW), OP_R(GY_DW), OP_NONE },
    [GY_OP_SHARE_STATS] = { "share-stats", OP_R(GY_STATS), OP_R(GY_STATS), OP_NONE },
    [GY_OP_SHARE_SUMS] = { "share-sums", OP_R(GY_SUMS), OP_R(GY_SUMS), OP_NONE },
    [GY_OP_SEND] = { "send", OP_R(GY_X), 0, OP_NONE },
    [GY_OP_RECV] = { "recv", 0, OP_R(GY_Y), OP_NONE },
    [GY_OP_PASS] = { "pass", OP_R(GY_X), OP_R(GY_Y), OP_NONE },
    [GY_OP_SPLIT] = { "split", OP_R(GY_X) | OP_R(GY_RES), OP_R(GY_Y) | OP_R(GY_RES), OP_NONE },
};

static const char *const op_role_names[GY_ROLES] = {
    "x", "y", "w", "bias", "res", "stats", "gamma", "beta", "scale", "shift", "res_scale", "res_shift", "mean", "rstd", "run_mean",
    "run_var", "arg", "label", "mix", "target", "loss", "dx", "dy", "dw", "dbias", "dres", "sums", "dgamma", "dbeta", "again", "m", "v", "ema", "scratch"
};

static const struct gy_act_row op_acts[GY_ACTS] = {
    { "", GY_ACT_IS_CLAMP, -INFINITY, INFINITY, 0, 0, 0, 0 },
    { "relu", GY_ACT_IS_CLAMP, 0, INFINITY, 0, 0, 0, 0 },
    { "relu6", GY_ACT_IS_CLAMP, 0, 6, 0, 0, 0, 0 },
    { "sigmoid", GY_ACT_IS_CURVE, -INFINITY, INFINITY, 0, 1, 1, 0 },
    { "tanh", GY_ACT_IS_CURVE, -INFINITY, INFINITY, 1, 0, 1, 0 },
    { "leaky", GY_ACT_IS_CURVE, -INFINITY, INFINITY, 1, 0, 0, 1 },
};
static const uint8_t op_dtype_bytes[GY_DTYPES] = { 4, 2, 2, 4, 1 };

GY_INT const struct gy_op_row *gy_op_row(int code) { return &op_rows[code]; }
GY_INT const char *gy_role_name(int role) { return op_role_names[role]; }
GY_INT const struct gy_act_row *gy_act_row(int act) { return &op_acts[act]; }
GY_INT size_t gy_dtype_bytes(int dtype) { return op_dtype_bytes[dtype]; }

/* Exact for convolutions; others: about one an element and filter cell, a concatenation none. */
GY_INT int64_t gy_op_flops(const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const int none = op->spans || op->code == GY_OP_CONCAT || op->code == GY_OP_CONCAT_BWD;
    const int64_t outputs = g->n * g->p * g->q * g->k, window = (int64_t)g->r * g->s;
    return gy_op_is_conv(op) ? 2 * outputs * window * (g->c / g->groups)
           : none || op->code >= GY_OP_CODES || op->flags & GY_F_PARTIAL ? 0 : outputs * window;
}

GY_INT struct gy_op gy_op_make(int code, const char *name, const struct gy_geom *geom)
{
    struct gy_op op;
    memset(&op, 0, sizeof op);
    op.code = code;
    op.name = name;
    if (geom)
        op.geom = *geom;
    for (int role = 0; role < GY_ROLES; role++)
        op.tensor[role] = -1;
    return op;
}

/* ---- kinds and shapes, for people ---- */

static const char *const op_kind_names[GY_OP_KINDS] = {
    "other", "convolution, forward", "convolution, data gradient", "convolution, weight gradient", "batch norm, forward",
    "batch norm, backward", "add, activation, copy", "pooling", "update",
};

/* ORDER: enum gy_opcode. What is not named is of the first kind. */
static const uint8_t op_kinds[GY_OP_GLM_END] = {
    [GY_OP_CONV] = GY_OP_IS_CONV, [GY_OP_BN_STATS] = GY_OP_IS_NORM, [GY_OP_BN_FINISH] = GY_OP_IS_NORM,
    [GY_OP_BN_FOLD] = GY_OP_IS_NORM, [GY_OP_BN_APPLY] = GY_OP_IS_NORM, [GY_OP_ACT] = GY_OP_IS_ELEMENT,
    [GY_OP_POOL_MAX] = GY_OP_IS_POOL, [GY_OP_POOL_AVG] = GY_OP_IS_POOL, [GY_OP_DROPOUT] = GY_OP_IS_ELEMENT,
    [GY_OP_ADD] = GY_OP_IS_ELEMENT, [GY_OP_CONCAT] = GY_OP_IS_ELEMENT, [GY_OP_SHORTCUT] = GY_OP_IS_ELEMENT,
    [GY_OP_CONV_DGRAD] = GY_OP_IS_DGRAD, [GY_OP_CONV_WGRAD] = GY_OP_IS_WGRAD, [GY_OP_BN_SUMS] = GY_OP_IS_NORM_BACK,
    [GY_OP_BN_BWD] = GY_OP_IS_NORM_BACK, [GY_OP_ACT_BWD] = GY_OP_IS_ELEMENT, [GY_OP_POOL_MAX_BWD] = GY_OP_IS_POOL,
    [GY_OP_POOL_AVG_BWD] = GY_OP_IS_POOL, [GY_OP_ADD_BWD] = GY_OP_IS_ELEMENT, [GY_OP_CONCAT_BWD] = GY_OP_IS_ELEMENT,
    [GY_OP_SHORTCUT_BWD] = GY_OP_IS_ELEMENT, [GY_OP_NORMS] = GY_OP_IS_UPDATE, [GY_OP_SGD] = GY_OP_IS_UPDATE,
    [GY_OP_LARS] = GY_OP_IS_UPDATE, [GY_OP_ADAMW] = GY_OP_IS_UPDATE, [GY_OP_LAMB] = GY_OP_IS_UPDATE,
};

GY_INT const char *gy_kind_name(int kind) { return op_kind_names[kind]; }
GY_INT int gy_op_kind(const struct gy_op *op) { return op_kinds[op->code]; }

GY_INT int gy_op_is_conv(const struct gy_op *op)
{
    return op_kinds[op->code] >= GY_OP_IS_CONV && op_kinds[op->code] <= GY_OP_IS_WGRAD;
}

GY_INT const char *gy_op_shape(const struct gy_op *op, char *text, size_t room)
{
    const struct gy_geom *g = &op->geom;
    if (op->spans)
        snprintf(text, room, "%d spans", op->span_count);
    else if (op->code >= GY_OP_CODES)
        snprintf(text, room, "%" PRId64 " floats", g->n);
    else if (gy_op_is_conv(op))
        snprintf(text, room, g->groups > 1 ? "%" PRId64 "x%dx%dx%d * %dx%d/%d -> %d by %d" : "%" PRId64 "x%dx%dx%d * %dx%d/%d -> %d",
                 g->n, g->h, g->w, g->c, g->r, g->s, g->stride_h, g->k, g->groups);
    else
        snprintf(text, room, "%" PRId64 "x%dx%dx%d", g->n, g->h, g->w, g->c);
    return text;
}
