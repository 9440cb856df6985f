/* SPDX-License-Identifier: MIT */
/* graph_finish.c: checks a whole net: every value is used, the loss comes last, sums of sizes stay
 * within limits. It gives layers without a label a unique name, and names parameters as PyTorch
 * would: the layer's name and what they are. */
#include "engine/text/graph_finish.h"
#include "engine/text/layer.h"

#define GRAPH_NAME_BYTES 256

static uint32_t graph_hash(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

GY_INT int gy_names_open(struct gy_names *names, const struct gy_graph *graph, int count, struct gy_arena *arena,
                         struct gy_error *err)
{
    uint32_t slots = 16;
    while (slots < 2 * (uint32_t)count)
        slots *= 2;
    *names = (struct gy_names){ graph, gy_arena_take(arena, slots, sizeof *names->slots), slots - 1 };
    return names->slots ? GY_OK : GY_NOMEM(err, "the table of names", slots * sizeof *names->slots);
}

GY_INT int gy_names_find(const struct gy_names *names, const char *name)
{
    for (uint32_t i = graph_hash(name);; i++) {
        const int node = names->slots[i & names->mask] - 1;
        if (node < 0 || strcmp(names->graph->nodes[node].name, name) == 0)
            return node;
    }
}

GY_INT void gy_names_add(struct gy_names *names, int node)
{
    uint32_t i = graph_hash(names->graph->nodes[node].name);
    while (names->slots[i & names->mask])
        i++;
    names->slots[i & names->mask] = node + 1;
}

/* "relu3", or the next number that no label has taken. */
static int graph_name_node(struct gy_graph *graph, struct gy_names *names, int node, int number, struct gy_arena *arena,
                           struct gy_error *err)
{
    char name[GRAPH_NAME_BYTES];
    struct gy_node *n = &graph->nodes[node];
    int length;
    do
        length = snprintf(name, sizeof name, "%s%s%d", n->name, gy_layer_name(n->layer), number++);
    while (gy_names_find(names, name) >= 0);
    n->name = gy_arena_text(arena, name, (size_t)length);
    if (!n->name)
        return GY_NOMEM(err, "a layer's name", (size_t)length + 1);
    gy_names_add(names, node);
    return GY_OK;
}

static int graph_name_nodes(struct gy_graph *graph, struct gy_names *names, const int *unlabelled,
                            struct gy_arena *arena, struct gy_error *err)
{
    for (int i = 0; i < graph->node_count; i++)
        if (unlabelled[i] > 0)
            GY_TRY(graph_name_node(graph, names, i, unlabelled[i], arena, err));
    return GY_OK;
}

static int graph_check_loss(struct gy_graph *graph, const char *source, struct gy_error *err)
{
    const struct gy_node *last = &graph->nodes[graph->node_count - 1];
    if (last->layer != GY_LAYER_SOFTMAX && last->layer != GY_LAYER_MSE)
        return gy_layer_fail(err, source, last->line, last->column,
                             "the last layer is '%s'; it must be a loss: softmax or mse", gy_layer_name(last->layer));
    graph->loss = graph->node_count - 1;
    graph->output = last->input[0];
    graph->classes = last->geom.c;
    graph->h = graph->nodes[0].geom.h;
    graph->w = graph->nodes[0].geom.w;
    graph->c = graph->nodes[0].geom.c;
    return GY_OK;
}

static int graph_check_used(const struct gy_graph *graph, unsigned char *used, const char *source, struct gy_error *err)
{
    for (int i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            used[graph->nodes[i].input[k]] = 1;
    for (int i = 0; i + 1 < graph->node_count; i++) {
        const struct gy_node *n = &graph->nodes[i];
        if (!used[i])
            return gy_layer_fail(err, source, n->line, n->column, "the value of '%.100s' at line %d is never used",
                                 n->name, n->line);
    }
    return GY_OK;
}

static int64_t graph_products(const struct gy_node *n)
{
    if (n->layer != GY_LAYER_CONV && n->layer != GY_LAYER_LINEAR)
        return 0;
    const struct gy_geom *g = &n->geom; /* a filter has at least 1 element */
    const int64_t outputs = (int64_t)g->p * g->q * g->k, filter = (int64_t)g->r * g->s * (g->c / g->groups);
    return outputs > GY_MAX_PRODUCTS / filter ? GY_MAX_PRODUCTS + 1 : outputs * filter;
}

static int graph_check_work(const struct gy_graph *graph, const char *source, struct gy_error *err)
{
    int64_t products = 0;
    for (int i = 0; i < graph->node_count; i++) {
        const struct gy_node *n = &graph->nodes[i];
        products += graph_products(n); /* below 2^46 before, at most 2^45 + 1 more */
        if (products > GY_MAX_PRODUCTS)
            return gy_layer_fail(err, source, n->line, n->column,
                                 "with '%.100s' one sample takes more than %" PRId64 " multiplications, the limit",
                                 n->name, GY_MAX_PRODUCTS);
    }
    return GY_OK;
}

GY_INT int gy_param_is_state(int kind) { return kind == GY_PARAM_RUN_MEAN || kind == GY_PARAM_RUN_VAR; }

/* The parameters that a node may have, and where it keeps their index. */
static const struct graph_part {
    size_t index_at;
    const char *suffix;
    int conv, linear, other; /* enum gy_param_kind by layer */
} graph_parts[] = {
    { offsetof(struct gy_node, weight), ".weight", GY_PARAM_CONV_WEIGHT, GY_PARAM_LINEAR_WEIGHT, GY_PARAM_GAMMA },
    { offsetof(struct gy_node, bias), ".bias", GY_PARAM_CONV_BIAS, GY_PARAM_LINEAR_BIAS, GY_PARAM_BETA },
    { offsetof(struct gy_node, run_mean), ".running_mean", 0, 0, GY_PARAM_RUN_MEAN },
    { offsetof(struct gy_node, run_var), ".running_var", 0, 0, GY_PARAM_RUN_VAR },
};

static int *graph_part_index(struct gy_node *n, const struct graph_part *part)
{
    return (int *)(void *)((char *)n + part->index_at);
}

static void graph_param_shape(const struct gy_graph *graph, const struct gy_node *n, struct gy_param *p)
{
    const struct gy_geom *g = &n->geom;
    p->k = g->k;
    p->r = p->s = p->c = p->flat_h = p->flat_w = 1;
    if (p->kind == GY_PARAM_CONV_WEIGHT || p->kind == GY_PARAM_LINEAR_WEIGHT) {
        p->r = g->r;
        p->s = g->s;
        p->c = g->c / g->groups;
    }
    if (p->kind == GY_PARAM_LINEAR_WEIGHT) {
        const struct gy_node *in = &graph->nodes[n->input[0]];
        p->flat_h = in->flat_h * in->geom.p; /* a factor is 1: what is flat is 1x1 */
        p->flat_w = in->flat_w * in->geom.q;
    }
    p->count = (int64_t)p->k * p->r * p->s * p->c; /* within GY_MAX_PARAM_COUNT: layer.c */
}

static int graph_add_param(struct gy_graph *graph, int node, const struct graph_part *part, struct gy_arena *arena,
                           struct gy_error *err)
{
    char name[GRAPH_NAME_BYTES];
    struct gy_node *n = &graph->nodes[node];
    struct gy_param *p = &graph->params[graph->param_count];
    const int length = snprintf(name, sizeof name, "%s%s", n->name, part->suffix);
    p->kind = n->layer == GY_LAYER_CONV ? part->conv : n->layer == GY_LAYER_LINEAR ? part->linear : part->other;
    p->node = node;
    graph_param_shape(graph, n, p);
    p->name = gy_arena_text(arena, name, (size_t)length);
    if (!p->name)
        return GY_NOMEM(err, "a parameter's name", (size_t)length + 1);
    *graph_part_index(n, part) = graph->param_count++;
    return GY_OK;
}

static int graph_count_params(const struct gy_graph *graph)
{
    int count = 0;
    for (int i = 0; i < graph->node_count; i++) {
        const struct gy_node *n = &graph->nodes[i];
        count += (n->weight >= 0) + (n->bias >= 0) + (n->run_mean >= 0) + (n->run_var >= 0);
    }
    return count;
}

static int graph_make_params(struct gy_graph *graph, struct gy_arena *arena, const char *source, struct gy_error *err)
{
    const size_t room = (size_t)graph_count_params(graph);
    int64_t total = 0;
    if (room == 0)
        return gy_layer_fail(err, source, graph->nodes[graph->loss].line, 1,
                             "the net has no weights: there is nothing to train");
    graph->params = gy_arena_take(arena, room, sizeof *graph->params);
    if (!graph->params)
        return GY_NOMEM(err, "the parameter table", room * sizeof *graph->params);
    for (int i = 0; i < graph->node_count; i++)
        for (size_t k = 0; k < GY_COUNT(graph_parts); k++) {
            struct gy_node *n = &graph->nodes[i];
            if (*graph_part_index(n, &graph_parts[k]) < 0)
                continue;
            GY_TRY(graph_add_param(graph, i, &graph_parts[k], arena, err));
            total += graph->params[graph->param_count - 1].count;
            if (total > GY_MAX_PARAM_COUNT)
                return gy_layer_fail(err, source, n->line, n->column,
                                     "with '%.100s' the net has more than %" PRId64 " parameters, the limit", n->name,
                                     GY_MAX_PARAM_COUNT);
        }
    return GY_OK;
}

GY_INT int gy_graph_finish(struct gy_graph *graph, struct gy_names *names, const int *unlabelled,
                           struct gy_arena *arena, const char *source, struct gy_error *err)
{
    unsigned char *used = gy_arena_take(arena, (size_t)graph->node_count, 1);
    if (!used)
        return GY_NOMEM(err, "the table of used values", (size_t)graph->node_count);
    GY_TRY(graph_check_loss(graph, source, err));
    GY_TRY(graph_name_nodes(graph, names, unlabelled, arena, err));
    GY_TRY(graph_check_used(graph, used, source, err));
    GY_TRY(graph_check_work(graph, source, err));
    return graph_make_params(graph, arena, source, err);
}
