/* SPDX-License-Identifier: MIT */
/* split_run.c: the slices of layers on this rank, and the ops between ranks. All ranks run the same
 * ops in the same order, so no rank waits long for the other end of a message. */
#include "engine/job/wire.h"
#include "engine/run/parallel.h"
#include "engine/run/split_ranks.h"
#include "engine/run/trace.h"

#define SPLIT_WINDOW 65536 /* floats of rows of other ranks, at least one row */

/* ---- opening ---- */

static const struct gy_node *slices_first(const struct gyre_net *net)
{
    int i = 0;
    while (!net->graph.nodes[i].split)
        i++;
    return &net->graph.nodes[i];
}

static int slices_check_ranks(struct gyre_net *net)
{
    const struct gyre_config *c = &net->config;
    const struct gy_parallel *p = &net->parallel;
    const struct {
        int there;
        const char *sentence;
    } rows[] = {
        { gy_plan_rule_norms(c->optimizer.kind), "its optimizer needs the norm of a whole layer, which no rank knows" },
        { c->optimizer.clip_norm > 0,
          "optimizer.clip_norm needs the norm of all gradients, which no rank knows" },
        { !net->caps.host_memory, "ranks split layers on the CPU alone in this version" },
        { p->sharded && p->shards % p->ranks != 0, "its slices are the shards, and each rank must "
                                                   "have as many of them" },
    };
    for (size_t i = 0; i < GY_COUNT(rows) && p->ranks > 1; i++)
        if (rows[i].there)
            return GY_FAIL(&net->error, GY_E_ARG, "layer '%.100s' is split over %d ranks: %s",
                           slices_first(net)->name, p->ranks, rows[i].sentence);
    return GY_OK;
}

static int slices_check(struct gyre_net *net)
{
    const struct gy_parallel *p = &net->parallel;
    const struct gy_graph *g = &net->graph;
    if (net->pipe)
        return GY_FAIL(&net->error, GY_E_ARG, "layer '%.100s' is split, and a stage of a pipeline "
                       "has whole layers: one of both", slices_first(net)->name);
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i].split && g->nodes[i].geom.k < p->shards)
            return GY_FAIL(&net->error, GY_E_ARG, "layer '%.100s' is split into %d slices, "
                           "one a %s, and has %d columns", g->nodes[i].name, p->shards,
                           p->sharded ? "shard" : "rank", g->nodes[i].geom.k);
    return slices_check_ranks(net);
}

static int slices_levels(int count)
{
    int levels = 0;
    while ((count - 1) >> levels)
        levels++;
    return levels;
}

static int slices_window(struct gyre_net *net)
{
    struct gy_split_net *s = net->split;
    s->window_room = SPLIT_WINDOW;
    for (int i = 0; i < net->graph.param_count; i++)
        s->window_room = gy_max64(s->window_room, gy_param_row_count(&net->graph.params[i]));
    s->window = gy_arena_take(&net->arena, (size_t)s->window_room, sizeof *s->window);
    return s->window ? GY_OK
                     : GY_NOMEM(&net->error, "rows of split layers",
                                (size_t)s->window_room * sizeof *s->window);
}

/* ---- calls ---- */

static int slices_open(struct gyre_net *net)
{
    return net->config.job->peers->progress(net->config.job,
                                            &net->error); /* do ranks send messages? */
}

static void slices_close(struct gyre_net *net) { (void)net; }

static int slices_result(const struct gyre_net *net, int number, struct gyre_result *result)
{
    (void)net, (void)number, (void)result;
    return 0; /* a step is a step */
}

static int slices_poll(struct gyre_net *net)
{
    return net->parallel.closed < net->parallel.opened ? gy_parallel_poll(net) : GY_OK;
}

static int slices_share(struct gyre_net *net, double *values, int count)
{
    (void)net, (void)values, (void)count;
    return GY_OK; /* rank 0 reports its own */
}

static int slices_test(const struct gyre_net *net) { return net != NULL; }

static const struct gy_pipe_calls slices_calls = {
    .open = slices_open,
    .close = slices_close,
    .result = slices_result,
    .run = gy_split_run,
    .poll = slices_poll,
    .has = gy_split_has,
    .row = gy_split_row,
    .save = gy_split_save,
    .share = slices_share,
    .test = slices_test,
    .place = gy_split_place,
};

GY_INT int gy_split_plan(struct gyre_net *net, struct gy_plan_config *plan)
{
    const struct gy_parallel *p = &net->parallel;
    const int slices = p->ranks > 1 || p->sharded ? p->shards : 1;
    if (slices == 1 && !net->pipe)
        return GY_OK;
    GY_TRY(slices_check(net));
    struct gy_split_net *const s = gy_arena_take(&net->arena, 1, sizeof *s);
    if (!s)
        return GY_NOMEM(&net->error, "split layers", sizeof *s);
    s->plan = (struct gy_split) { .base = { .cut = gy_split_cut, .rows = gy_split_rows },
                                  .rank = p->rank,
                                  .ranks = p->ranks,
                                  .slices = slices,
                                  .first = p->first,
                                  .mine = p->mine,
                                  .levels = slices_levels(p->mine),
                                  .turns = p->sharded ? slices_levels(p->ranks) - 1 : 0 };
    plan->stages = &s->plan.base;
    net->split = s;
    net->pipe = p->ranks > 1 ? &slices_calls : NULL;
    return p->ranks > 1 ? slices_window(net) : GY_OK;
}

GY_INT int gy_split_agree(struct gyre_net *net)
{
    const struct gyre_job *const job = net->config.job;
    if (job && (job->elastic || job->peers->served))
        return GY_FAIL(&net->error, GY_E_ARG, "layer '%.100s' is split: its job cannot %s",
                       slices_first(net)->name,
                       job->elastic ? "outlive its ranks (elastic)" : "have servers");
    return GY_OK;
}

/* ---- ops ---- */

static int slices_pass(struct gyre_net *net, const struct gy_op *op)
{
    const struct gy_tensor *const t = net->plan.tensors;
    const size_t out = t[op->tensor[GY_X]].bytes, in = t[op->tensor[GY_Y]].bytes;
    const int64_t began = gy_trace_clock(net);
    GY_TRY(net->config.job->peers->wire()->pass(net->config.job, (uint32_t)op->id, op->geom.p,
                                                op->ptr[GY_X], out, op->geom.q, op->ptr[GY_Y], in,
                                                &net->error));
    gy_trace_put(net, GY_TRACE_TALK, op->name, "split", "messages", began, (double)out);
    return GY_OK;
}

static int slices_copy(struct gyre_net *net, const struct gy_op *op)
{
    const struct gy_geom *g = &op->geom;
    const size_t each = gy_dtype_bytes(net->plan.tensors[op->tensor[GY_X]].dtype);
    const unsigned char *const x = op->ptr[GY_X];
    unsigned char *const y = op->ptr[GY_Y];
    for (int64_t i = 0; i < g->n; i++)
        memcpy(y + (size_t)(i * g->w + g->q) * each, x + (size_t)(i * g->h + g->p) * each,
               (size_t)g->c * each);
    return GY_OK;
}

static int slices_clear(struct gyre_net *net, const struct gy_op *op)
{
    if (net->uniform.accumulate)
        memset(op->ptr[GY_Y], 0, net->plan.tensors[op->tensor[GY_Y]].bytes);
    return GY_OK;
}

static void slices_add(float *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i] + to[i];
}

/* One more of a tree's sums, number `turn` of `turns`; data becomes their total with the last one.
 * level: sums that wait, one after the other; the one behind them lies in last. 0: it waits. */
static int slices_tree(float *data, float *level, int levels, float *last, int64_t count, int turn,
                       int turns)
{
    int l = 0;
    for (; turn >> l & 1; l++)
        slices_add(data, l < levels ? level + l * count : last, count);
    if (turn + 1 < turns) {
        memcpy(l < levels ? level + l * count : last, data, (size_t)count * sizeof *data);
        return 0;
    }
    for (; turn >> l; l++)
        if (turn >> l & 1)
            slices_add(data, l < levels ? level + l * count : last, count);
    return 1;
}

/* With shards over those of a rank, then over the ranks: one tree. */
static int slices_sum(struct gyre_net *net, const struct gy_op *op)
{
    const struct gy_split *s = &net->split->plan;
    const struct gy_parallel *p = &net->parallel;
    const int64_t count = net->plan.tensors[op->tensor[GY_X]].count;
    const int rank = op->geom.p, adds = !p->sharded && (rank > 0 || net->uniform.accumulate);
    float *const data = op->ptr[GY_X], *const own = op->ptr[GY_RES], *const to = op->ptr[GY_Y];
    float *const shards = s->levels ? own + (int64_t)rank * s->levels * count : NULL;
    float *const ranks = s->turns ? own + (int64_t)s->ranks * s->levels * count : NULL;
    const int waits =
        p->sharded && (!slices_tree(data, shards, s->levels, NULL, count, p->shard, p->mine) ||
                       !slices_tree(data, ranks, s->turns, to, count, rank, s->ranks));
    if (adds)
        slices_add(to, data, count);
    else if (!waits)
        memcpy(to, data, (size_t)count * sizeof *data);
    return GY_OK;
}

GY_INT int gy_split_run(struct gyre_net *net, const struct gy_op *op)
{
    static int (*const run[GY_SPLIT_KINDS])(struct gyre_net *, const struct gy_op *) = {
        [GY_SPLIT_COPY] = slices_copy,
        [GY_SPLIT_CLEAR] = slices_clear,
        [GY_SPLIT_SUM] = slices_sum,
    };
    return op->code == GY_OP_PASS ? slices_pass(net, op) : run[op->geom.r](net, op);
}

#undef SPLIT_WINDOW
