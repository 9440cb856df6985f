/* SPDX-License-Identifier: MIT */
/* fuzz_net.c: any bytes as net text. An accepted text must keep the promises of graph.h, on which
 * everything behind it builds. These are: order, shapes that fit together, sizes within the limits,
 * unique names, parameters that belong to their nodes, bounded memory. */
#include "engine/text/graph_finish.h"
#include "engine/text/layer.h"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())
#define FUZZ_MEMORY ((size_t)24 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Shapes of a node and of what it reads. */
static void fuzz_node(const struct gy_graph *graph, int index)
{
    const struct gy_node *node = &graph->nodes[index];
    const struct gy_geom *g = &node->geom;
    FUZZ_REQUIRE(node->input_count == 0 ? index == 0 : index > 0 && node->input_count <= GY_NODE_INPUTS);
    for (int i = 0; i < node->input_count; i++) {
        FUZZ_REQUIRE(node->input[i] >= 0 && node->input[i] < index);
        const struct gy_geom *in = &graph->nodes[node->input[i]].geom;
        if (i == 0)
            FUZZ_REQUIRE((int64_t)in->p * in->q * in->k == (int64_t)g->h * g->w * g->c);
        else
            FUZZ_REQUIRE(in->p == g->p && in->q == g->q && (in->k == g->k || node->layer == GY_LAYER_CONCAT));
    }
    FUZZ_REQUIRE(g->n == 0 && g->p >= 1 && g->q >= 1 && g->k >= 1 && g->p <= GY_MAX_SIDE && g->q <= GY_MAX_SIDE);
    FUZZ_REQUIRE((int64_t)g->p * g->q * g->k <= GY_MAX_VALUE_COUNT && g->c % g->groups == 0 && g->k % g->groups == 0);
    FUZZ_REQUIRE(g->stride_h >= 1 && g->stride_w >= 1 && g->dil_h >= 1 && g->dil_w >= 1 && g->pad_h >= 0 && g->pad_w >= 0);
    for (size_t i = 0; i < GY_COUNT(node->f); i++)
        FUZZ_REQUIRE(isfinite(node->f[i]));
}

/* A window must begin inside the padded image. */
static void fuzz_window(const struct gy_node *node)
{
    const struct gy_geom *g = &node->geom;
    if (node->layer != GY_LAYER_CONV && node->layer != GY_LAYER_MAXPOOL && node->layer != GY_LAYER_AVGPOOL)
        return;
    FUZZ_REQUIRE((int64_t)(g->p - 1) * g->stride_h < (int64_t)g->h + 2 * g->pad_h);
    FUZZ_REQUIRE((int64_t)(g->q - 1) * g->stride_w < (int64_t)g->w + 2 * g->pad_w);
    FUZZ_REQUIRE(node->layer != GY_LAYER_MAXPOOL || g->r * g->s <= 256);
}

static void fuzz_params(const struct gy_graph *graph)
{
    int64_t total = 0;
    for (int i = 0; i < graph->param_count; i++) {
        const struct gy_param *p = &graph->params[i];
        const struct gy_node *node = &graph->nodes[p->node];
        FUZZ_REQUIRE(p->count == (int64_t)p->k * p->r * p->s * p->c && p->count > 0 && p->k == node->geom.k);
        FUZZ_REQUIRE(node->weight == i || node->bias == i || node->run_mean == i || node->run_var == i);
        FUZZ_REQUIRE(p->c % ((int64_t)p->flat_h * p->flat_w) == 0);
        FUZZ_REQUIRE(strncmp(p->name, node->name, strlen(node->name)) == 0);
        total += p->count;
    }
    FUZZ_REQUIRE(graph->param_count > 0 && total <= GY_MAX_PARAM_COUNT);
}

static void fuzz_names(const struct gy_graph *graph, struct gy_arena *arena)
{
    struct gy_names names;
    struct gy_error err;
    FUZZ_REQUIRE(gy_names_open(&names, graph, graph->node_count, arena, &err) == GY_OK);
    for (int i = 0; i < graph->node_count; i++) {
        FUZZ_REQUIRE(gy_names_find(&names, graph->nodes[i].name) < 0);
        gy_names_add(&names, i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_arena arena;
    struct gy_graph graph = { 0 };
    struct gy_error err = { 0 };
    gy_arena_open_hook(&arena, &alloc);
    const int status = gy_graph_parse(&graph, &arena, (const char *)bytes, count, "fuzz", &err);
    FUZZ_REQUIRE(arena.reserved <= FUZZ_MEMORY);
    FUZZ_REQUIRE(status == GY_OK || (status == GY_E_NET && !graph.nodes && strncmp(err.text, "fuzz:", 5) == 0));
    for (int i = 0; status == GY_OK && i < graph.node_count; i++) {
        fuzz_node(&graph, i);
        fuzz_window(&graph.nodes[i]);
    }
    if (status == GY_OK) {
        FUZZ_REQUIRE(graph.loss == graph.node_count - 1 && graph.classes == graph.nodes[graph.output].geom.k);
        fuzz_params(&graph);
        fuzz_names(&graph, &arena);
    }
    gy_arena_close(&arena);
    return 0;
}
