/* SPDX-License-Identifier: MIT */
/* split_rows.c: rows of split layers' parameters. A rank has those of its slices. While a
 * checkpoint is written, rank 0 asks the others for theirs, some rows at a time; they answer until
 * it has all. Loading needs no messages: each rank reads the whole file and keeps its own rows. */
#include "engine/job/wire.h"
#include "engine/run/split_ranks.h"

/* Numbers of messages that are no ops of the plan. */
enum { ROWS_ASK = 0x800000, ROWS_ANSWER };

struct split_row_asked {
    int64_t param, region, first, count; /* count 0: that was all */
};

static const struct gy_wire_calls *split_row_wire(const struct gyre_net *net)
{
    return net->config.job->peers->wire();
}

static int split_row_are_split(const struct gyre_net *net, int param)
{
    return net->graph.nodes[net->graph.params[param].node].split;
}

/* The first row of a rank. */
static int32_t split_row_first(const struct gyre_net *net, int param, int rank)
{
    const struct gy_split *s = &net->split->plan;
    return gy_split_column(net->graph.params[param].k, s->slices, rank * s->mine);
}

static int split_row_owner(const struct gyre_net *net, int param, int32_t k)
{
    int rank = 0;
    while (split_row_first(net, param, rank + 1) <= k)
        rank++;
    return rank;
}

GY_INT int32_t gy_split_place(const struct gyre_net *net, int param, int32_t k)
{
    const int rank = net->split->plan.rank;
    if (!split_row_are_split(net, param))
        return k;
    return split_row_owner(net, param, k) == rank ? k - split_row_first(net, param, rank) : -1;
}

GY_INT int gy_split_has(const struct gyre_net *net, int region, int param)
{
    const int state = gy_param_is_state(net->graph.params[param].kind);
    return net->base[region] && net->plan.region_bytes[region] && state == (region == GY_AT_STATE);
}

static int split_row_fetch(struct gyre_net *net, int param, int region, int32_t first)
{
    struct gy_split_net *s = net->split;
    const int64_t each = gy_param_row_count(&net->graph.params[param]);
    const int owner = split_row_owner(net, param, first);
    const int64_t left = split_row_first(net, param, owner + 1) - first;
    const struct split_row_asked ask = { param, region, first,
                                         gy_min64(left, s->window_room / each) };
    s->window_count = 0;
    GY_TRY(
        split_row_wire(net)->tell(net->config.job, owner, ROWS_ASK, &ask, sizeof ask, &net->error));
    GY_TRY(split_row_wire(net)->hear(net->config.job, owner, ROWS_ANSWER, s->window,
                                     (size_t)(ask.count * each) * sizeof(float), &net->error));
    s->window_param = param;
    s->window_region = region;
    s->window_first = first;
    s->window_count = ask.count;
    return GY_OK;
}

GY_INT int gy_split_row(struct gyre_net *net, int param, int region, int32_t k, float *row)
{
    struct gy_split_net *s = net->split;
    const int64_t each = gy_param_row_count(&net->graph.params[param]);
    if (gy_split_place(net, param, k) >= 0)
        return 0;
    if (!s->saving)
        return gy_engine_fail(
            net, GY_E_STATE, "row %d of tensor '%.100s' is of rank %d; this is rank %d", k,
            net->graph.params[param].name, split_row_owner(net, param, k), s->plan.rank);
    const int there = s->window_param == param && s->window_region == region &&
                      k >= s->window_first && k < s->window_first + s->window_count;
    if (!there)
        GY_TRY(split_row_fetch(net, param, region, k));
    memcpy(row, s->window + (k - s->window_first) * each, (size_t)each * sizeof *row);
    return 1;
}

/* Is the question one that this rank can answer? */
static int split_row_check(struct gyre_net *net, const struct split_row_asked *ask)
{
    const int known = ask->param >= 0 && ask->param < net->graph.param_count && ask->region >= 0 &&
                      ask->region < GY_REGIONS &&
                      gy_split_has(net, (int)ask->region, (int)ask->param);
    const struct gy_param *p = known ? &net->graph.params[ask->param] : NULL;
    if (p && ask->first >= 0 && ask->count > 0 && ask->first < p->k &&
        ask->count <= p->k - ask->first &&
        ask->count * gy_param_row_count(p) <= net->split->window_room &&
        gy_split_place(net, (int)ask->param, (int32_t)ask->first) >= 0 &&
        gy_split_place(net, (int)ask->param, (int32_t)(ask->first + ask->count - 1)) >= 0)
        return GY_OK;
    return gy_engine_fail(net, GY_E_PEER, "rank 0 asks rank %d for rows that it does not have",
                          net->split->plan.rank);
}

static int split_row_serve(struct gyre_net *net)
{
    struct gy_split_net *s = net->split;
    for (;;) {
        struct split_row_asked ask;
        GY_TRY(
            split_row_wire(net)->hear(net->config.job, 0, ROWS_ASK, &ask, sizeof ask, &net->error));
        if (ask.count == 0)
            return GY_OK;
        GY_TRY(split_row_check(net, &ask));
        const int64_t each = gy_param_row_count(&net->graph.params[ask.param]);
        for (int64_t k = 0; k < ask.count; k++)
            GY_TRY(gy_param_read_row(net, (int)ask.param, (int)ask.region, (int32_t)(ask.first + k),
                                     s->window + k * each));
        GY_TRY(split_row_wire(net)->tell(net->config.job, 0, ROWS_ANSWER, s->window,
                                         (size_t)(ask.count * each) * sizeof(float), &net->error));
    }
}

GY_INT int gy_split_save(struct gyre_net *net, const char *path, int everything)
{
    struct gy_split_net *s = net->split;
    const struct split_row_asked all = { 0, 0, 0, 0 };
    if (s->plan.rank > 0)
        return split_row_serve(net);
    s->saving = 1;
    s->window_count = 0;
    const int status = gy_ckpt_write(net, path, everything);
    s->saving = 0;
    for (int r = 1; r < s->plan.ranks && status != GY_E_PEER; r++)
        GY_TRY(
            split_row_wire(net)->tell(net->config.job, r, ROWS_ASK, &all, sizeof all, &net->error));
    return status;
}
