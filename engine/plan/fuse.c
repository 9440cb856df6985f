/* SPDX-License-Identifier: MIT */
/* fuse.c: decides which nodes one op computes together. The op of a node's input absorbs the node
 * if no other node reads that input. Then that value need not exist. emit.h has the list. */
#include "engine/plan/emit.h"

GY_INT int gy_emit_act(int layer)
{
    static const int act[GY_LAYERS] = { [GY_LAYER_RELU] = GY_ACT_RELU, [GY_LAYER_RELU6] = GY_ACT_RELU6,
                                        [GY_LAYER_SIGMOID] = GY_ACT_SIGMOID, [GY_LAYER_TANH] = GY_ACT_TANH,
                                        [GY_LAYER_LEAKY] = GY_ACT_LEAKY };
    return act[layer];
}

/* An activation that is an op of its own is done by itself. */
GY_INT void gy_emit_set_act(const struct gy_emit *e, int node, struct gy_op *op)
{
    const struct gy_node *const n = &e->b->graph->nodes[node];
    const int own = gy_emit_act(n->layer);
    op->act = own ? own : e->nodes[node].act;
    op->act_param = own ? n->f[0] : e->nodes[node].act_param;
}

static void fuse_count_users(struct gy_emit *e)
{
    const struct gy_graph *g = e->b->graph;
    for (int i = 0; i < g->node_count; i++) {
        struct gy_emit_node *n = &e->nodes[i];
        *n = (struct gy_emit_node){ .head = i, .tail = i, .last_use = i, .res = -1, .bn = -1, .value = -1, .gradient = -1,
                                    .stats = -1, .scale = -1, .shift = -1, .mean = -1, .rstd = -1, .arg = -1,
                                    .late = -1, .waiting = -1, .next = -1, .dy = -1 };
        for (int k = 0; k < g->nodes[i].input_count; k++) {
            struct gy_emit_node *in = &e->nodes[g->nodes[i].input[k]];
            in->users++;
            in->user = i;
            in->last_use = i;
        }
    }
}

static void fuse_absorb(struct gy_emit *e, int head, int node)
{
    e->nodes[node].head = head;
    e->nodes[head].tail = node;
}

/* The only reader of node when it is of the given layer, else -1. */
static int fuse_next(const struct gy_emit *e, int node, int layer)
{
    const struct gy_emit_node *n = &e->nodes[node];
    return n->users == 1 && (int)e->b->graph->nodes[n->user].layer == layer ? n->user : -1;
}

/* Training: a clamp before a max pool moves behind it, with the same numbers. So the pool's large
 * input is not kept for the clamp's gradient. A batch norm's is not kept anyway. */
static void fuse_activation(struct gy_emit *e, int head)
{
    const struct gy_emit_node *tail = &e->nodes[e->nodes[head].tail];
    if (tail->users != 1)
        return;
    const int act = gy_emit_act(e->b->graph->nodes[tail->user].layer);
    if (act == GY_ACT_NONE)
        return;
    const int pool = fuse_next(e, tail->user, GY_LAYER_MAXPOOL);
    const int moves = e->train && !gy_act_is_curve(act) && pool >= 0 && e->b->graph->nodes[head].layer != GY_LAYER_BN;
    e->nodes[moves ? pool : head].act = act;
    e->nodes[moves ? pool : head].act_param = e->b->graph->nodes[tail->user].f[0];
    fuse_absorb(e, head, tail->user);
}

/* bn + add: the norm that is the later of the add's two inputs takes it; the other value exists. */
static void fuse_add(struct gy_emit *e, int bn)
{
    const int add = fuse_next(e, bn, GY_LAYER_ADD);
    if (add < 0 || e->b->graph->nodes[add].input_count != 2)
        return;
    const int *in = e->b->graph->nodes[add].input;
    const int other = in[0] == bn ? in[1] : in[0];
    if (other >= bn)
        return;
    e->nodes[bn].res = e->nodes[other].head;
    e->nodes[other].through = e->train && e->b->graph->nodes[other].layer == GY_LAYER_BN && e->nodes[other].users == 1;
    fuse_absorb(e, bn, add);
}

GY_INT int gy_emit_added(const struct gy_emit *e, int bn, struct gy_op *op)
{
    const int res = e->nodes[bn].res;
    if (res < 0 || !e->nodes[res].through)
        return res;
    op->tensor[GY_RES_SCALE] = e->nodes[res].scale;
    op->tensor[GY_RES_SHIFT] = e->nodes[res].shift;
    return e->nodes[e->b->graph->nodes[res].input[0]].head;
}

static void fuse_bn(struct gy_emit *e, int bn)
{
    fuse_add(e, bn);
    fuse_activation(e, bn);
    const int conv = e->b->graph->nodes[bn].input[0];
    const int layer = e->b->graph->nodes[conv].layer;
    if ((layer == GY_LAYER_CONV || layer == GY_LAYER_LINEAR) && e->nodes[conv].users == 1)
        e->nodes[conv].bn = bn;
}

/* Evaluation: the convolution takes over its batch norm's op, unless that adds a later value. */
static void fuse_fold(struct gy_emit *e, int conv)
{
    const int bn = e->nodes[conv].bn;
    if (bn < 0 || e->nodes[bn].res >= conv) {
        e->nodes[conv].bn = -1;
        return;
    }
    e->nodes[conv].act = e->nodes[bn].act;
    e->nodes[conv].act_param = e->nodes[bn].act_param;
    e->nodes[conv].res = e->nodes[bn].res;
    for (int i = bn; i <= e->nodes[bn].tail; i++)
        if (e->nodes[i].head == bn)
            e->nodes[i].head = conv;
    e->nodes[conv].tail = e->nodes[bn].tail;
}

static void fuse_node(struct gy_emit *e, int i)
{
    const struct gy_node *node = &e->b->graph->nodes[i];
    if (e->nodes[i].head != i)
        return;
    if (node->layer == GY_LAYER_FLATTEN || (node->layer == GY_LAYER_DROPOUT && (!e->train || node->f[0] <= 0)))
        e->nodes[i].head = e->nodes[node->input[0]].head;
    else if (node->layer == GY_LAYER_BN)
        fuse_bn(e, i);
    else if (node->layer == GY_LAYER_CONV || node->layer == GY_LAYER_LINEAR || node->layer == GY_LAYER_ADD)
        fuse_activation(e, i);
}

/* Follows heads and residuals to the end: later fusions moved some (a flatten of a folded norm). */
static void fuse_settle(struct gy_emit *e)
{
    for (int i = 0; i < e->b->graph->node_count; i++) {
        struct gy_emit_node *n = &e->nodes[i];
        while (e->nodes[n->head].head != n->head)
            n->head = e->nodes[n->head].head;
        if (n->res >= 0)
            n->res = e->nodes[n->res].head;
    }
}

static void fuse_needs(struct gy_emit *e)
{
    const struct gy_graph *g = e->b->graph;
    for (int i = 0; i < g->node_count; i++) {
        int needs = g->nodes[i].weight >= 0;
        for (int k = 0; k < g->nodes[i].input_count; k++)
            needs |= e->nodes[g->nodes[i].input[k]].needs;
        e->nodes[i].needs = needs && e->train;
        if (needs && e->train)
            e->nodes[e->nodes[i].head].needs = 1;
    }
}

GY_INT int gy_emit_fuse(struct gy_emit *e)
{
    const struct gy_graph *g = e->b->graph;
    e->nodes = gy_arena_take(e->b->arena, (size_t)g->node_count, sizeof *e->nodes);
    if (!e->nodes)
        return GY_NOMEM(e->b->err, "the plan's node table", (size_t)g->node_count * sizeof *e->nodes);
    fuse_count_users(e);
    for (int i = 0; i < g->node_count; i++)
        fuse_node(e, i);
    if (!e->train)
        for (int i = 0; i < g->node_count; i++)
            if (e->nodes[i].bn >= 0)
                fuse_fold(e, i);
    fuse_settle(e);
    fuse_needs(e);
    return GY_OK;
}
