/* SPDX-License-Identifier: MIT */
/* emit_forward.c: emits the forward ops of each layer kind, from a table of emitters. They serve
 * training, evaluation and recomputation in backward; struct gy_emit says which. */
#include "engine/plan/emit.h"

static int fwd_tensor_like(struct gy_emit *e, const struct gy_node *node, const char *suffix, int dtype)
{
    char name[300];
    snprintf(name, sizeof name, "%s%s", node->name, suffix);
    const struct gy_geom *g = &node->geom;
    return gy_build_tensor(e->b, name, GY_AT_ACT, dtype, 4, e->b->config->batch, g->p, g->q, g->k);
}

static int fwd_vector(struct gy_emit *e, const struct gy_node *node, const char *suffix, int64_t rows)
{
    char name[300];
    snprintf(name, sizeof name, "%s%s", node->name, suffix);
    return gy_build_tensor(e->b, name, GY_AT_ACT, GY_F32, rows > 1 ? 2 : 1, rows > 1 ? rows : node->geom.k, node->geom.k, 1,
                           1);
}

static struct gy_op fwd_op(const struct gy_emit *e, int code, const struct gy_node *node)
{
    struct gy_op op = gy_op_make(code, node->name, &node->geom);
    op.geom.n = e->b->config->batch;
    op.dtype = e->b->config->dtype;
    op.id = (int32_t)(node - e->b->graph->nodes);
    memcpy(op.f, node->f, sizeof op.f);
    return op;
}

static int fwd_value(const struct gy_emit *e, const struct gy_node *node, int k)
{
    return e->nodes[e->nodes[node->input[k]].head].value;
}

static int fwd_param(const struct gy_emit *e, int param)
{
    return param < 0 ? -1 : e->b->plan->param[param];
}

/* Makes the value of a one-input op: X, Y and the activation. */
static struct gy_op fwd_simple(struct gy_emit *e, int i, int code)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    struct gy_op op = fwd_op(e, code, node);
    op.tensor[GY_X] = fwd_value(e, node, 0);
    op.tensor[GY_Y] = e->nodes[i].value = fwd_tensor_like(e, &e->b->graph->nodes[e->nodes[i].tail], "", op.dtype);
    gy_emit_set_act(e, i, &op);
    return op;
}

static void fwd_put(struct gy_emit *e, const struct gy_op *op) { gy_build_op(e->b, e->program, op); }

GY_INT struct gy_op gy_emit_input(const struct gy_emit *e, int i)
{
    const struct gy_plan_config *config = e->b->config;
    struct gy_op op = fwd_op(e, GY_OP_INPUT, &e->b->graph->nodes[i]);
    for (int c = 0; c < 4; c++) {
        op.f[c] = config->mean[c];
        op.f[4 + c] = config->std[c] > 0 ? 1.0f / config->std[c] : 1.0f;
    }
    op.flags = config->u8 ? GY_F_U8 : 0;
    op.tensor[GY_X] = e->b->plan->input;
    op.tensor[GY_MIX] = e->b->plan->mix;
    return op;
}

static void fwd_input(struct gy_emit *e, int i)
{
    struct gy_op op = gy_emit_input(e, i);
    op.tensor[GY_Y] = e->nodes[i].value = fwd_tensor_like(e, &e->b->graph->nodes[i], "", op.dtype);
    fwd_put(e, &op);
}

/* Scale and shift of the evaluation of a batch norm. */
static void fwd_bn_fold(struct gy_emit *e, int bn)
{
    const struct gy_node *node = &e->b->graph->nodes[bn];
    struct gy_op op = fwd_op(e, GY_OP_BN_FOLD, node);
    op.tensor[GY_GAMMA] = fwd_param(e, node->weight);
    op.tensor[GY_BETA] = fwd_param(e, node->bias);
    op.tensor[GY_RUN_MEAN] = fwd_param(e, node->run_mean);
    op.tensor[GY_RUN_VAR] = fwd_param(e, node->run_var);
    op.tensor[GY_SCALE] = e->nodes[bn].scale = fwd_vector(e, node, ".scale", 1);
    op.tensor[GY_SHIFT] = e->nodes[bn].shift = fwd_vector(e, node, ".shift", 1);
    fwd_put(e, &op);
}

static void fwd_conv(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    struct gy_emit_node *n = &e->nodes[i];
    if (!e->train && n->bn >= 0)
        fwd_bn_fold(e, n->bn);
    struct gy_op op = fwd_simple(e, i, GY_OP_CONV);
    op.tensor[GY_W] = fwd_param(e, node->weight);
    op.tensor[GY_BIAS] = fwd_param(e, node->bias);
    if (n->bn >= 0 && e->train && !e->again)
        op.tensor[GY_STATS] = n->stats = fwd_vector(e, node, ".stats", 2);
    if (n->bn >= 0 && !e->train) {
        op.tensor[GY_SCALE] = e->nodes[n->bn].scale;
        op.tensor[GY_SHIFT] = e->nodes[n->bn].shift;
        op.tensor[GY_RES] = n->res >= 0 ? e->nodes[n->res].value : -1;
    }
    fwd_put(e, &op);
}

/* Statistics become those of all ranks' samples. */
static void fwd_share_stats(struct gy_emit *e, int i)
{
    struct gy_op op = fwd_op(e, GY_OP_SHARE_STATS, &e->b->graph->nodes[i]);
    op.tensor[GY_STATS] = e->nodes[i].stats;
    fwd_put(e, &op);
}

/* A convolution's statistics for the norm behind it cover all samples; if some are absent, redo. */
static void fwd_bn_take(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    const struct gy_emit_node *in = &e->nodes[node->input[0]];
    const int taken = in->bn == i && in->stats >= 0;
    struct gy_op op = fwd_op(e, GY_OP_BN_STATS, node);
    e->nodes[i].stats = taken ? in->stats : fwd_vector(e, node, ".stats", 2);
    op.flags = taken ? GY_F_PARTIAL : 0;
    op.tensor[GY_X] = fwd_value(e, node, 0);
    op.tensor[GY_STATS] = e->nodes[i].stats;
    fwd_put(e, &op);
}

static void fwd_bn_statistics(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    struct gy_emit_node *n = &e->nodes[i];
    fwd_bn_take(e, i);
    if (e->b->config->sync_bn && e->b->config->ranks > 1)
        fwd_share_stats(e, i);
    struct gy_op op = fwd_op(e, GY_OP_BN_FINISH, node);
    op.geom.n *= e->b->config->sync_bn ? e->b->config->ranks : 1; /* samples in the statistics */
    op.tensor[GY_STATS] = n->stats;
    op.tensor[GY_GAMMA] = fwd_param(e, node->weight);
    op.tensor[GY_BETA] = fwd_param(e, node->bias);
    op.tensor[GY_RUN_MEAN] = fwd_param(e, node->run_mean);
    op.tensor[GY_RUN_VAR] = fwd_param(e, node->run_var);
    op.tensor[GY_SCALE] = n->scale = fwd_vector(e, node, ".scale", 1);
    op.tensor[GY_SHIFT] = n->shift = fwd_vector(e, node, ".shift", 1);
    op.tensor[GY_MEAN] = n->mean = fwd_vector(e, node, ".mean", 1);
    op.tensor[GY_RSTD] = n->rstd = fwd_vector(e, node, ".rstd", 1);
    fwd_put(e, &op);
}

static void fwd_bn(struct gy_emit *e, int i)
{
    struct gy_emit_node *n = &e->nodes[i];
    if (!e->train)
        fwd_bn_fold(e, i);
    else if (!e->again)
        fwd_bn_statistics(e, i);
    if (n->through)
        return;
    struct gy_op op = fwd_simple(e, i, GY_OP_BN_APPLY);
    const int added = gy_emit_added(e, i, &op);
    op.tensor[GY_SCALE] = n->scale;
    op.tensor[GY_SHIFT] = n->shift;
    op.tensor[GY_RES] = added >= 0 ? e->nodes[added].value : -1;
    fwd_put(e, &op);
}

static void fwd_act(struct gy_emit *e, int i)
{
    const struct gy_op op = fwd_simple(e, i, GY_OP_ACT);
    fwd_put(e, &op);
}

static void fwd_one(struct gy_emit *e, int i)
{
    static const int code[GY_LAYERS] = { [GY_LAYER_AVGPOOL] = GY_OP_POOL_AVG, [GY_LAYER_GAP] = GY_OP_POOL_AVG,
                                         [GY_LAYER_LRN] = GY_OP_LRN, [GY_LAYER_DROPOUT] = GY_OP_DROPOUT,
                                         [GY_LAYER_SHORTCUT] = GY_OP_SHORTCUT };
    const struct gy_op op = fwd_simple(e, i, code[e->b->graph->nodes[i].layer]);
    fwd_put(e, &op);
}

/* An activation that moved behind the pool works in place. */
static void fwd_maxpool(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    struct gy_op op = fwd_simple(e, i, GY_OP_POOL_MAX), act = fwd_op(e, GY_OP_ACT, node);
    if (e->train)
        op.tensor[GY_ARG] = e->nodes[i].arg = fwd_tensor_like(e, node, ".arg", GY_U8);
    act.act = op.act;
    act.act_param = op.act_param;
    op.act = GY_ACT_NONE;
    if (act.act != GY_ACT_NONE)
        op.tensor[GY_Y] = act.tensor[GY_X] = fwd_tensor_like(e, node, ".max", op.dtype);
    fwd_put(e, &op);
    act.geom.h = node->geom.p;
    act.geom.w = node->geom.q;
    act.tensor[GY_Y] = e->nodes[i].value;
    if (act.act != GY_ACT_NONE)
        fwd_put(e, &act);
}

/* add of two or more values: the sum so far and the next one; the last has the activation. */
static void fwd_add(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    int sum = fwd_value(e, node, 0);
    for (int k = 1; k < node->input_count; k++) {
        struct gy_op op = fwd_simple(e, i, GY_OP_ADD);
        op.tensor[GY_X] = sum;
        op.tensor[GY_RES] = fwd_value(e, node, k);
        op.act = k + 1 == node->input_count ? op.act : GY_ACT_NONE;
        sum = op.tensor[GY_Y];
        fwd_put(e, &op);
    }
}

static void fwd_concat(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    const int y = e->nodes[i].value = fwd_tensor_like(e, node, "", e->b->config->dtype);
    int32_t first = 0;
    for (int k = 0; k < node->input_count; k++) {
        struct gy_op op = fwd_op(e, GY_OP_CONCAT, node);
        op.geom.c = e->b->graph->nodes[node->input[k]].geom.k;
        op.geom.r = first;
        op.tensor[GY_X] = fwd_value(e, node, k);
        op.tensor[GY_Y] = y;
        first += op.geom.c;
        fwd_put(e, &op);
    }
}

static void fwd_loss(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    const struct gy_plan *plan = e->b->plan;
    const int softmax = node->layer == GY_LAYER_SOFTMAX;
    struct gy_op op = fwd_op(e, softmax ? GY_OP_SOFTMAX_CE : GY_OP_MSE, node);
    op.f[0] = e->train ? op.f[0] : 0; /* an evaluation's loss is not smoothed */
    op.tensor[GY_X] = fwd_value(e, node, 0);
    op.tensor[GY_LABEL] = plan->label;
    op.tensor[GY_MIX] = plan->mix;
    op.tensor[GY_TARGET] = plan->target;
    op.tensor[GY_Y] = plan->scores;
    op.tensor[GY_LOSS] = plan->loss;
    op.tensor[GY_ARG] = plan->rank;
    fwd_put(e, &op);
}

GY_INT void gy_emit_forward(struct gy_emit *e, int node)
{
    static void (*const emit[GY_LAYERS])(struct gy_emit *, int) = {
        [GY_LAYER_INPUT] = fwd_input,   [GY_LAYER_CONV] = fwd_conv,   [GY_LAYER_LINEAR] = fwd_conv,
        [GY_LAYER_BN] = fwd_bn,         [GY_LAYER_MAXPOOL] = fwd_maxpool, [GY_LAYER_AVGPOOL] = fwd_one,
        [GY_LAYER_GAP] = fwd_one,       [GY_LAYER_LRN] = fwd_one,     [GY_LAYER_DROPOUT] = fwd_one,
        [GY_LAYER_ADD] = fwd_add,       [GY_LAYER_CONCAT] = fwd_concat, [GY_LAYER_SHORTCUT] = fwd_one,
        [GY_LAYER_SOFTMAX] = fwd_loss,  [GY_LAYER_MSE] = fwd_loss,
    };
    const int layer = e->b->graph->nodes[node].layer;
    if (e->nodes[node].head != node)
        return;
    if (gy_emit_act(layer))
        fwd_act(e, node);
    else if (emit[layer])
        emit[layer](e, node);
    else if (e->b->status == GY_OK)
        e->b->status = GY_FAIL(e->b->err, GY_E_BUG, "emit_forward.c has no row for the layer '%s'",
                               gy_layer_name(layer));
}
