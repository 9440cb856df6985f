/* SPDX-License-Identifier: MIT */
/* emit_backward.c: emits the backward ops of each layer kind, in reverse node order. The first op
 * that contributes to a value's gradient writes it, later ones add to it (GY_F_ADD_DX), so no
 * gradient is ever cleared. Weight gradients come before data gradients: ranks can sum them while
 * the rest is computed. A weight gradient that reads a batch norm's output waits for that norm's
 * own backward. That recomputes the output on the way, so forward need not keep it. */
#include "engine/plan/emit.h"

static struct gy_op bwd_op(const struct gy_emit *e, int code, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    struct gy_op op = gy_op_make(code, node->name, &node->geom);
    op.geom.n = e->b->config->batch;
    op.dtype = e->b->config->dtype;
    op.id = i;
    memcpy(op.f, node->f, sizeof op.f);
    return op;
}

static void bwd_put(struct gy_emit *e, const struct gy_op *op) { gy_build_op(e->b, GY_BACKWARD, op); }

static int bwd_tensor_like(struct gy_emit *e, int like, const char *prefix)
{
    if (like < 0)
        return -1;
    const struct gy_tensor t = e->b->plan->tensors[like];
    char name[300];
    snprintf(name, sizeof name, "%s%s", prefix, t.name);
    return gy_build_tensor(e->b, name, GY_AT_ACT, t.dtype, t.dims, t.dim[0], t.dim[1], t.dim[2], t.dim[3]);
}

/* Where the gradient of value `head` goes; adds flag to *flags if one is there. -1: not needed. */
static int bwd_target(struct gy_emit *e, int head, uint32_t flag, uint32_t *flags)
{
    struct gy_emit_node *n = &e->nodes[head];
    if (!n->needs)
        return -1;
    if (n->gradient >= 0)
        *flags |= flag;
    else
        n->gradient = bwd_tensor_like(e, n->value, "d.");
    return n->gradient;
}

static int bwd_input(const struct gy_emit *e, int i, int k) { return e->nodes[e->b->graph->nodes[i].input[k]].head; }

/* One input, DY to DX; the caller has set extra roles. No op if the input needs no gradient. */
static void bwd_put_to(struct gy_emit *e, struct gy_op *op, int head)
{
    op->tensor[GY_DX] = bwd_target(e, head, GY_F_ADD_DX, &op->flags);
    if (op->tensor[GY_DX] >= 0)
        bwd_put(e, op);
}

static int bwd_value(struct gy_emit *e, int head);

/* The op that makes a batch norm's output. */
static struct gy_op bwd_apply(struct gy_emit *e, int bn)
{
    const struct gy_emit_node *n = &e->nodes[bn];
    struct gy_op op = bwd_op(e, GY_OP_BN_APPLY, bn);
    gy_emit_set_act(e, bn, &op);
    op.tensor[GY_X] = bwd_value(e, bwd_input(e, bn, 0));
    const int added = gy_emit_added(e, bn, &op);
    op.tensor[GY_RES] = added < 0 ? -1 : bwd_value(e, added);
    op.tensor[GY_SCALE] = n->scale;
    op.tensor[GY_SHIFT] = n->shift;
    return op;
}

/* The op that makes a convolution's output. */
static struct gy_op bwd_product(struct gy_emit *e, int conv)
{
    const struct gy_node *node = &e->b->graph->nodes[conv];
    struct gy_op op = bwd_op(e, GY_OP_CONV, conv);
    op.tensor[GY_X] = bwd_value(e, bwd_input(e, conv, 0));
    op.tensor[GY_W] = e->b->plan->param[node->weight];
    op.tensor[GY_BIAS] = node->bias < 0 ? -1 : e->b->plan->param[node->bias];
    return op;
}

/* The value of a head: kept, or made again by an op of its own. */
static int bwd_value(struct gy_emit *e, int head)
{
    struct gy_emit_node *n = &e->nodes[head];
    if (!n->cheap)
        return n->value;
    if (n->late >= 0)
        return n->late;
    const int layer = e->b->graph->nodes[head].layer;
    struct gy_op op = layer == GY_LAYER_INPUT ? gy_emit_input(e, head) : layer == GY_LAYER_BN ? bwd_apply(e, head) : bwd_product(e, head);
    op.tensor[GY_Y] = n->late = bwd_tensor_like(e, n->value, "again.");
    bwd_put(e, &op);
    return n->late;
}

/* The gradient before the activation that was fused into head i. */
static int bwd_through_act(struct gy_emit *e, int i)
{
    const struct gy_emit_node *n = &e->nodes[i];
    if (n->act == GY_ACT_NONE)
        return n->gradient;
    struct gy_op op = bwd_op(e, GY_OP_ACT_BWD, i);
    gy_emit_set_act(e, i, &op);
    op.geom.c = op.geom.k;
    op.geom.h = op.geom.p;
    op.geom.w = op.geom.q;
    op.tensor[GY_DY] = n->gradient;
    op.tensor[GY_Y] = n->value;
    op.tensor[GY_DX] = bwd_tensor_like(e, n->gradient, "pre.");
    bwd_put(e, &op);
    return op.tensor[GY_DX];
}

static void bwd_weights(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    struct gy_op w = bwd_op(e, GY_OP_CONV_WGRAD, i);
    w.tensor[GY_X] = bwd_value(e, bwd_input(e, i, 0));
    w.tensor[GY_DY] = e->nodes[i].dy;
    w.tensor[GY_DW] = e->b->plan->grad[node->weight];
    w.tensor[GY_DBIAS] = node->bias < 0 ? -1 : e->b->plan->grad[node->bias];
    bwd_put(e, &w);
}

static void bwd_conv(struct gy_emit *e, int i)
{
    const int in = bwd_input(e, i, 0), norm = e->b->graph->nodes[in].layer == GY_LAYER_BN;
    const int waits = norm && e->nodes[in].late < 0;
    e->nodes[i].dy = bwd_through_act(e, i);
    if (waits) {
        e->nodes[i].next = e->nodes[in].waiting;
        e->nodes[in].waiting = i;
    } else {
        bwd_weights(e, i);
    }
    struct gy_op d = bwd_op(e, GY_OP_CONV_DGRAD, i);
    d.tensor[GY_W] = e->b->plan->param[e->b->graph->nodes[i].weight];
    d.tensor[GY_DY] = e->nodes[i].dy;
    bwd_put_to(e, &d, in);
}

/* What the mask comes from: X if the activation allows it and no residual must be made for it, else
 * the output. AGAIN if somebody waits for the output. */
static void bwd_bn_mask(struct gy_emit *e, int i, struct gy_op *op)
{
    struct gy_emit_node *n = &e->nodes[i];
    const int wanted = n->cheap && n->late < 0 && n->waiting >= 0, there = !n->cheap || n->late >= 0;
    if (gy_act_is_curve(n->act) || (n->res >= 0 && there)) {
        op->tensor[GY_Y] = n->act == GY_ACT_NONE ? -1 : bwd_value(e, i);
    } else if (n->act != GY_ACT_NONE || wanted) {
        op->tensor[GY_SCALE] = n->scale;
        op->tensor[GY_SHIFT] = n->shift;
        const int added = gy_emit_added(e, i, op);
        op->tensor[GY_RES] = added < 0 ? -1 : bwd_value(e, added);
        if (wanted)
            op->tensor[GY_AGAIN] = n->late = bwd_tensor_like(e, n->value, "again.");
    }
}

/* A residual's gradient is that of the sum: where it is the first, no copy is made of it. */
static int bwd_bn_residual(struct gy_emit *e, const struct gy_emit_node *n, int gradient, uint32_t *flags)
{
    struct gy_emit_node *res = n->res < 0 ? NULL : &e->nodes[n->res];
    if (!res || (res->gradient >= 0 && res->needs))
        return res ? bwd_target(e, n->res, GY_F_ADD_DRES, flags) : -1;
    res->gradient = res->needs ? gradient : -1;
    return -1;
}

static void bwd_bn(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    struct gy_emit_node *n = &e->nodes[i];
    struct gy_op s = bwd_op(e, GY_OP_BN_SUMS, i);
    gy_emit_set_act(e, i, &s);
    s.tensor[GY_DY] = n->gradient;
    s.tensor[GY_X] = bwd_value(e, bwd_input(e, i, 0));
    s.tensor[GY_MEAN] = n->mean;
    s.tensor[GY_RSTD] = n->rstd;
    s.tensor[GY_SUMS] = gy_build_tensor(e->b, "bn.sums", GY_AT_ACT, GY_F32, 2, 2, node->geom.k, 1, 1);
    struct gy_op d = s;
    bwd_bn_mask(e, i, &s);
    const int clears = n->res >= 0 && n->act != GY_ACT_NONE; /* masked once, for both readers */
    if (clears)
        d.tensor[GY_DY] = s.tensor[GY_DRES] = bwd_tensor_like(e, n->gradient, "sum.");
    s.tensor[GY_DGAMMA] = e->b->plan->grad[node->weight];
    s.tensor[GY_DBETA] = e->b->plan->grad[node->bias];
    bwd_put(e, &s);
    if (e->b->config->sync_bn && e->b->config->ranks > 1) {
        struct gy_op share = bwd_op(e, GY_OP_SHARE_SUMS, i);
        share.tensor[GY_SUMS] = s.tensor[GY_SUMS];
        bwd_put(e, &share);
    }
    for (int conv = n->waiting; conv >= 0; conv = e->nodes[conv].next)
        bwd_weights(e, conv);
    if (clears)
        d.act = GY_ACT_NONE;
    else
        bwd_bn_mask(e, i, &d);
    d.code = GY_OP_BN_BWD;
    d.tensor[GY_GAMMA] = e->b->plan->param[node->weight];
    d.tensor[GY_DRES] = bwd_bn_residual(e, n, d.tensor[GY_DY], &d.flags);
    d.tensor[GY_DX] = bwd_target(e, bwd_input(e, i, 0), GY_F_ADD_DX, &d.flags);
    if (d.tensor[GY_DX] < 0 && d.tensor[GY_DRES] < 0)
        return;
    if (d.tensor[GY_DX] < 0) /* a norm of the input itself: the op has no way without */
        d.tensor[GY_DX] = bwd_tensor_like(e, n->gradient, "unused.");
    bwd_put(e, &d);
}

static void bwd_act(struct gy_emit *e, int i)
{
    struct gy_op op = bwd_op(e, GY_OP_ACT_BWD, i);
    gy_emit_set_act(e, i, &op);
    op.tensor[GY_DY] = e->nodes[i].gradient;
    op.tensor[GY_Y] = e->nodes[i].value;
    bwd_put_to(e, &op, bwd_input(e, i, 0));
}

static void bwd_one(struct gy_emit *e, int i)
{
    static const int code[GY_LAYERS] = { [GY_LAYER_MAXPOOL] = GY_OP_POOL_MAX_BWD, [GY_LAYER_AVGPOOL] = GY_OP_POOL_AVG_BWD,
                                         [GY_LAYER_GAP] = GY_OP_POOL_AVG_BWD, [GY_LAYER_LRN] = GY_OP_LRN_BWD,
                                         [GY_LAYER_SHORTCUT] = GY_OP_SHORTCUT_BWD };
    const struct gy_node *node = &e->b->graph->nodes[i];
    struct gy_op op = bwd_op(e, code[node->layer], i);
    op.tensor[GY_DY] = bwd_through_act(e, i);
    op.tensor[GY_ARG] = e->nodes[i].arg;
    if (node->layer == GY_LAYER_LRN)
        op.tensor[GY_X] = bwd_value(e, bwd_input(e, i, 0));
    bwd_put_to(e, &op, bwd_input(e, i, 0));
}

/* The forward op on the gradient. A sum goes through a tensor in between. */
static void bwd_dropout(struct gy_emit *e, int i)
{
    struct gy_op op = bwd_op(e, GY_OP_DROPOUT, i);
    uint32_t add = 0;
    const int target = bwd_target(e, bwd_input(e, i, 0), GY_F_ADD_DX, &add);
    if (target < 0)
        return;
    op.tensor[GY_X] = e->nodes[i].gradient;
    op.tensor[GY_Y] = add ? bwd_tensor_like(e, target, "part.") : target;
    bwd_put(e, &op);
    if (!add)
        return;
    struct gy_op sum = bwd_op(e, GY_OP_ADD, i);
    sum.tensor[GY_X] = op.tensor[GY_Y];
    sum.tensor[GY_RES] = sum.tensor[GY_Y] = target;
    bwd_put(e, &sum);
}

static void bwd_add(struct gy_emit *e, int i)
{
    const struct gy_emit_node *n = &e->nodes[i];
    for (int k = 0; k < e->b->graph->nodes[i].input_count; k++) {
        struct gy_op op = bwd_op(e, GY_OP_ADD_BWD, i);
        gy_emit_set_act(e, i, &op);
        op.tensor[GY_DY] = n->gradient;
        op.tensor[GY_Y] = n->act == GY_ACT_NONE ? -1 : n->value;
        bwd_put_to(e, &op, bwd_input(e, i, k));
    }
}

static void bwd_concat(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    int32_t first = 0;
    for (int k = 0; k < node->input_count; k++) {
        struct gy_op op = bwd_op(e, GY_OP_CONCAT_BWD, i);
        op.geom.c = e->b->graph->nodes[node->input[k]].geom.k;
        op.geom.r = first;
        op.tensor[GY_DY] = e->nodes[i].gradient;
        first += op.geom.c;
        bwd_put_to(e, &op, bwd_input(e, i, k));
    }
}

static void bwd_loss(struct gy_emit *e, int i)
{
    const struct gy_plan *plan = e->b->plan;
    const int softmax = e->b->graph->nodes[i].layer == GY_LAYER_SOFTMAX;
    struct gy_op op = bwd_op(e, softmax ? GY_OP_SOFTMAX_CE_BWD : GY_OP_MSE_BWD, i);
    op.tensor[GY_Y] = plan->scores;
    op.tensor[GY_LABEL] = plan->label;
    op.tensor[GY_MIX] = plan->mix;
    op.tensor[GY_TARGET] = plan->target;
    bwd_put_to(e, &op, bwd_input(e, i, 0));
}

GY_INT void gy_emit_backward(struct gy_emit *e, int node)
{
    static void (*const emit[GY_LAYERS])(struct gy_emit *, int) = {
        [GY_LAYER_CONV] = bwd_conv,     [GY_LAYER_LINEAR] = bwd_conv,   [GY_LAYER_BN] = bwd_bn,
        [GY_LAYER_MAXPOOL] = bwd_one,   [GY_LAYER_AVGPOOL] = bwd_one,
        [GY_LAYER_GAP] = bwd_one,       [GY_LAYER_LRN] = bwd_one,       [GY_LAYER_DROPOUT] = bwd_dropout,
        [GY_LAYER_ADD] = bwd_add,       [GY_LAYER_CONCAT] = bwd_concat, [GY_LAYER_SHORTCUT] = bwd_one,
        [GY_LAYER_SOFTMAX] = bwd_loss,  [GY_LAYER_MSE] = bwd_loss,
    };
    const int layer = e->b->graph->nodes[node].layer;
    const int reached = e->nodes[node].gradient >= 0 || layer == GY_LAYER_SOFTMAX || layer == GY_LAYER_MSE;
    if (e->nodes[node].head != node || !reached)
        return;
    if (gy_emit_act(layer))
        bwd_act(e, node);
    else if (emit[layer])
        emit[layer](e, node);
    else if (e->b->status == GY_OK)
        e->b->status = GY_FAIL(e->b->err, GY_E_BUG, "emit_backward.c has no row for the layer '%s'",
                               gy_layer_name(layer));
}
