/* SPDX-License-Identifier: MIT */
/* pipeline_plan.c: finds this rank's layers, for open.c. It plans the whole net once for its ops'
 * work and sizes, without memory, and cuts it. All ranks compute the same cuts from the same
 * numbers, and compare them when they open. */
#include "engine/plan/plan_compile.h"
#include "engine/run/parallel.h"
#include "engine/run/pipeline_stage.h"

#define PLAN_WINDOW 65536 /* floats of rows of other stages, at least one row */

static int plan_check(struct gyre_net *net)
{
    const struct gyre_config *c = &net->config;
    const struct {
        int there;
        const char *sentence;
    } rows[] = {
        { c->mode != GYRE_TRAIN,
          "pipeline is for training: a net that was opened with GYRE_INFER is whole" },
        { c->sync_bn, "pipeline and sync_bn together: statistics of a batch norm are of one "
                      "stage's micro-batch" },
        { c->optimizer.clip_norm > 0,
          "pipeline and optimizer.clip_norm together: no stage knows the norm of all gradients" },
        { c->recompute > 0,
          "pipeline and recompute together: a stage makes nothing of another stage again" },
        { !net->caps.host_memory, "pipeline is for the CPU alone in this version" },
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        if (rows[i].there)
            return GY_FAIL(&net->error, GY_E_ARG, "%s", rows[i].sentence);
    return GY_OK;
}

/* Ranks are copies of the pipeline, one after the other. */
static int plan_ranks(struct gyre_net *net, struct gy_plan_config *plan, struct gy_pipe *p)
{
    const struct gyre_job *job = net->config.job;
    struct gy_parallel *all = &net->parallel;
    const int ranks = gyre_job_ranks(job);
    p->stages = net->config.pipeline;
    p->copies = job ? ranks / p->stages : 1;
    p->stage = job ? gyre_job_rank(job) % p->stages : net->config.stage;
    p->copy = job ? gyre_job_rank(job) / p->stages : 0;
    if (job && ranks % p->stages != 0)
        return GY_FAIL(
            &net->error, GY_E_ARG,
            "%d ranks are no whole copies of a pipeline of %d stages: there must be %d, %d, %d ...",
            ranks, p->stages, p->stages, 2 * p->stages, 4 * p->stages);
    if ((p->copies & (p->copies - 1)) != 0)
        return GY_FAIL(
            &net->error, GY_E_ARG,
            "%d ranks are %d copies of a pipeline of %d stages; there can be 1, 2, 4, 8 ... copies",
            ranks, p->copies, p->stages);
    if (all->sharded && p->copies > 1 &&
        (all->shards % p->copies != 0 || (all->mine & (all->mine - 1)) != 0))
        return GY_FAIL(&net->error, GY_E_ARG, "%d shards cannot be dealt to %d copies of the net: "
                       "each must have 1, 2, 4, 8 ... of them", all->shards, p->copies);
    p->micros = all->sharded ? all->mine : net->config.accumulate;
    all->ranks = plan->ranks = 1; /* sums between copies are the pipeline's own */
    return GY_OK;
}

static void plan_name(const struct gyre_net *net, const struct gy_stage_units *units,
                      const struct gy_stage_choice *choice)
{
    for (int s = 0, first = 0; s < choice->stages; first = choice->last[s++] + 1)
        gy_log_write(&net->log, GY_LOG_DEBUG, "stage %d: layers '%s' to '%s'", s,
                     net->graph.nodes[units->unit[first].first].name,
                     net->graph.nodes[units->unit[choice->last[s]].last].name);
}

/* Times that a gradient's bytes are needed again: optimiser state, sums of shards. */
static int plan_copies(const struct gyre_net *net)
{
    int levels = 0;
    while (net->parallel.mine > 1 && (net->parallel.mine - 1) >> levels)
        levels++;
    return levels + gy_plan_moments(net->config.optimizer.kind) + (net->config.optimizer.ema > 0);
}

static int plan_choose(struct gyre_net *net, const struct gy_plan *whole, struct gy_pipe *p,
                       struct gy_arena *arena)
{
    struct gy_stage_units units = { 0 };
    int slots[GY_STAGES_MOST];
    struct gy_stage_choice choice = { .stages = p->stages,
                                      .slots = slots,
                                      .limit = net->config.stage_bytes };
    for (int s = 0; s < p->stages; s++)
        slots[s] = gy_stage_slots(net->config.stage_schedule == GYRE_GPIPE ? GY_SCHEDULE_GPIPE
                                                                           : GY_SCHEDULE_1F1B,
                                  p->stages, p->micros, s);
    GY_TRY(gy_stages_look(&units, whole, &net->graph, plan_copies(net), arena, &net->error));
    GY_TRY(gy_stages_choose(&choice, &units, &net->graph, arena, &net->error));
    for (int s = 0, unit = 0; s < p->stages; s++)
        for (; unit <= choice.last[s]; unit++)
            for (int i = units.unit[unit].first; i <= units.unit[unit].last; i++)
                p->plan.of[i] = s;
    p->plan.slots = slots[p->stage];
    plan_name(net, &units, &choice);
    return GY_OK;
}

/* The whole net's plan, in memory that is given back. It recomputes nothing: the real plan, too,
 * makes no value again that another stage reads. */
static int plan_look(struct gyre_net *net, const struct gy_plan_config *config, struct gy_pipe *p)
{
    struct gy_plan_config c = *config;
    struct gy_arena arena;
    struct gy_plan whole;
    c.recompute = -1;
    gy_arena_open_hook(&arena, &net->alloc);
    int status = gy_plan_build(&whole, &net->graph, &c, &net->uniform, net->backend,
                               net->backend_self, &arena, &net->error);
    if (status == GY_OK)
        status = plan_choose(net, &whole, p, &arena);
    gy_arena_close(&arena);
    return status;
}

static int plan_tables(struct gyre_net *net, struct gy_pipe *p)
{
    int64_t row = 1;
    for (int i = 0; i < net->graph.param_count; i++)
        row = gy_max64(row, gy_param_row_count(&net->graph.params[i]));
    p->window_room = gy_max64(row, PLAN_WINDOW);
    p->exchange_count = gy_pipe_exchange_count(p);
    p->action = gy_arena_take(&net->arena, 2 * (size_t)p->micros, sizeof *p->action);
    p->micro = gy_arena_take(&net->arena, (size_t)p->micros, sizeof *p->micro);
    p->exchange = gy_arena_take(&net->arena, (size_t)p->exchange_count, sizeof *p->exchange);
    p->window = gy_arena_take(&net->arena, (size_t)p->window_room, sizeof *p->window);
    p->sum = gy_arena_take(&net->arena, p->copies > 1 ? GY_PIPE_SUM_FLOATS : 1, sizeof *p->sum);
    if (!p->action || !p->micro || !p->exchange || !p->window || !p->sum)
        return GY_NOMEM(&net->error, "the tables of a stage",
                        (size_t)(p->exchange_count + p->window_room) * sizeof *p->exchange);
    gy_stage_schedule(net->config.stage_schedule == GYRE_GPIPE ? GY_SCHEDULE_GPIPE
                                                               : GY_SCHEDULE_1F1B,
                      p->stages, p->micros, p->stage, p->action);
    return GY_OK;
}

GY_INT int gy_pipe_plan(struct gyre_net *net, struct gy_plan_config *plan)
{
    GY_TRY(plan_check(net));
    struct gy_pipe *const p = gy_arena_take(&net->arena, 1, sizeof *p);
    int *const of = gy_arena_take(&net->arena, (size_t)net->graph.node_count, sizeof *of);
    if (!p || !of)
        return GY_NOMEM(&net->error, "a stage",
                        sizeof *p + (size_t)net->graph.node_count * sizeof *of);
    GY_TRY(plan_ranks(net, plan, p));
    p->plan.of = of;
    p->plan.count = p->stages;
    p->plan.batches = p->micros;
    GY_TRY(plan_look(net, plan, p));
    GY_TRY(plan_tables(net, p));
    p->plan.base = (struct gy_stages){ .of = of, .mine = p->stage, .cut = gy_stages_cut };
    plan->stages = &p->plan.base;
    net->stage = p;
    net->pipe = gy_pipe_calls();
    return GY_OK;
}
