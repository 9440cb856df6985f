/* SPDX-License-Identifier: MIT */
/* pipeline_rows.c: parameters of other stages. A stage has only those of its layers. While a
 * checkpoint is written, rank 0 asks the others for theirs, some rows at a time; they answer until
 * it has all. Loading needs no messages: each stage reads its part of the file. */
#include "engine/run/pipeline_stage.h"

struct rows_asked {
    int64_t param, region, first, count; /* count 0: that was all */
};

static int rows_owner(const struct gyre_net *net, int param)
{
    return net->stage->plan.of[net->graph.params[param].node];
}

/* Does a net of this configuration have the region? */
static int rows_region(const struct gyre_net *net, int region)
{
    const struct gyre_optimizer *o = &net->config.optimizer;
    return region == GY_AT_PARAM || region == GY_AT_STATE || region == GY_AT_GRAD ||
           region == GY_AT_OPT1 || (region == GY_AT_OPT2 && gy_plan_moments(o->kind) == 2) ||
           (region == GY_AT_EMA && o->ema > 0);
}

GY_INT int gy_pipe_has(const struct gyre_net *net, int region, int param)
{
    const int state = gy_param_is_state(net->graph.params[param].kind);
    const int own = rows_owner(net, param) == net->stage->stage;
    return state == (region == GY_AT_STATE) && rows_region(net, region) &&
           (own || net->stage->saving);
}

static int rows_fetch(struct gyre_net *net, int param, int region, int64_t first)
{
    struct gy_pipe *p = net->stage;
    const struct gy_param *of = &net->graph.params[param];
    const int64_t each = gy_param_row_count(of), most = p->window_room / each, left = of->k - first;
    const struct rows_asked ask = { param, region, first, left < most ? left : most };
    const int owner = gy_pipe_rank(net, rows_owner(net, param), p->copy);
    p->window_count = 0;
    GY_TRY(gy_pipe_wire(net)->tell(net->config.job, owner, GY_PIPE_ASK, &ask, sizeof ask,
                                   &net->error));
    GY_TRY(gy_pipe_wire(net)->hear(net->config.job, owner, GY_PIPE_ROWS, p->window,
                                   (size_t)(ask.count * each) * sizeof(float), &net->error));
    p->window_param = param;
    p->window_region = region;
    p->window_first = first;
    p->window_count = ask.count;
    return GY_OK;
}

GY_INT int gy_pipe_row(struct gyre_net *net, int param, int region, int32_t k, float *row)
{
    struct gy_pipe *p = net->stage;
    const int64_t each = gy_param_row_count(&net->graph.params[param]);
    if (rows_owner(net, param) == p->stage)
        return 0;
    if (!p->saving)
        return gy_engine_fail(net, GY_E_STATE, "tensor '%.100s' is of stage %d; this is stage %d",
                              net->graph.params[param].name, rows_owner(net, param), p->stage);
    const int there = p->window_param == param && p->window_region == region &&
                      k >= p->window_first && k < p->window_first + p->window_count;
    if (!there)
        GY_TRY(rows_fetch(net, param, region, k));
    memcpy(row, p->window + (k - p->window_first) * each, (size_t)each * sizeof *row);
    return 1;
}

/* Is the question one that this stage can answer? */
static int rows_check(struct gyre_net *net, const struct rows_asked *ask)
{
    const int known = ask->param >= 0 && ask->param < net->graph.param_count && ask->region >= 0 &&
                      ask->region < GY_REGIONS;
    const int own = known && gy_pipe_has(net, (int)ask->region, (int)ask->param);
    if (own && ask->first >= 0 && ask->count > 0 &&
        ask->first + ask->count <= net->graph.params[ask->param].k &&
        ask->count * gy_param_row_count(&net->graph.params[ask->param]) <= net->stage->window_room)
        return GY_OK;
    return gy_engine_fail(net, GY_E_PEER, "rank 0 asks stage %d for rows that it does not have",
                          net->stage->stage);
}

static int rows_serve(struct gyre_net *net)
{
    struct gy_pipe *p = net->stage;
    const int leader = gy_pipe_rank(net, 0, p->copy);
    for (;;) {
        struct rows_asked ask;
        GY_TRY(gy_pipe_wire(net)->hear(net->config.job, leader, GY_PIPE_ASK, &ask, sizeof ask,
                                       &net->error));
        if (ask.count == 0)
            return GY_OK;
        GY_TRY(rows_check(net, &ask));
        const int64_t each = gy_param_row_count(&net->graph.params[ask.param]);
        for (int64_t k = 0; k < ask.count; k++)
            GY_TRY(gy_param_read_row(net, (int)ask.param, (int)ask.region, (int32_t)(ask.first + k),
                                     p->window + k * each));
        GY_TRY(gy_pipe_wire(net)->tell(net->config.job, leader, GY_PIPE_ROWS, p->window,
                                       (size_t)(ask.count * each) * sizeof(float), &net->error));
    }
}

GY_INT int gy_pipe_save(struct gyre_net *net, const char *path, int everything)
{
    struct gy_pipe *p = net->stage;
    const struct rows_asked all = { 0, 0, 0, 0 };
    if (everything && net->pending > 0)
        return gy_engine_fail(
            net, GY_E_STATE,
            "gyre_save: %d of %d batches wait for the others of their update; save behind it",
            net->pending, net->config.accumulate);
    if (p->copy > 0)
        return GY_OK;
    if (p->stage > 0)
        return rows_serve(net);
    p->saving = 1;
    p->window_count = 0;
    const int status = gy_ckpt_write(net, path, everything);
    p->saving = 0;
    for (int s = 1; s < p->stages && status != GY_E_PEER; s++)
        GY_TRY(gy_pipe_wire(net)->tell(net->config.job, gy_pipe_rank(net, s, 0), GY_PIPE_ASK, &all,
                                       sizeof all, &net->error));
    return status;
}
