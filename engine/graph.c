/* SPDX-License-Identifier: MIT */
/* Parameters of a graph, and the checks on the whole that only make sense at its end. */
#include "graph.h"

GY_INT int gy_param_is_state(int kind) { return kind == GY_PARAM_RUN_MEAN || kind == GY_PARAM_RUN_VAR; }

/* count = k * r * s * c, at most 2^33. */
static int graph_count(struct gy_param *p, struct gy_error *err)
{
    int bad = gy_mul_count(p->k, p->c, &p->count);
    bad |= gy_mul_count(p->count, p->r, &p->count);
    bad |= gy_mul_count(p->count, p->s, &p->count);
    if (bad || p->count > (int64_t)1 << 33)
        return GY_FAIL(err, GY_E_NET, "a weight of %d x %d x %d x %d numbers is beyond the limit of 2^33", p->k, p->c, p->r, p->s);
    return GY_OK;
}

static int graph_grow_params(struct gy_graph *graph, struct gy_arena *arena, struct gy_error *err)
{
    const int room = graph->param_room ? 2 * graph->param_room : 64;
    struct gy_param *params = gy_arena_take(arena, (size_t)room, sizeof *params);
    if (!params)
        return GY_NOMEM(err, "the parameter table", (size_t)room * sizeof *params);
    if (graph->param_count)
        memcpy(params, graph->params, (size_t)graph->param_count * sizeof *params);
    graph->params = params;
    graph->param_room = room;
    return GY_OK;
}

GY_INT int gy_graph_add_param(struct gy_graph *graph, struct gy_arena *arena, const struct gy_param *param, const char *suffix,
                              struct gy_error *err)
{
    char name[300];
    struct gy_param p = *param;
    GY_TRY(graph_count(&p, err));
    if (graph->param_count == graph->param_room)
        GY_TRY(graph_grow_params(graph, arena, err));
    snprintf(name, sizeof name, "%s.%s", graph->nodes[p.node].name, suffix);
    p.name = gy_arena_text(arena, name, strlen(name));
    if (!p.name)
        return GY_NOMEM(err, "a parameter's name", strlen(name) + 1);
    graph->params[graph->param_count] = p;
    return graph->param_count++;
}
