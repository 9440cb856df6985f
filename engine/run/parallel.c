/* SPDX-License-Identifier: MIT */
/* parallel.c: ranks and shards of a step. With gyre_config.shards each shard of the global batch
 * has batch-norm statistics, random numbers and gradients of its own. Results are summed in the
 * order of a balanced tree over the shards: ((0 + 1) + (2 + 3)) + ... . A rank has a whole subtree
 * (engine/job/deal.c); ranks sum the rest in the same order. So any number of ranks gives the same
 * bits. Within a rank the tree grows as a binary counter: sums of 2^k shards wait on level k. */
#include "engine/run/parallel.h"
#include "engine/run/trace.h"
#include "engine/job/peers.h"

/* ---- opening ---- */

static int parallel_check(struct gyre_net *net)
{
    const struct gyre_config *c = &net->config;
    const struct gy_parallel *p = &net->parallel;
    struct gy_error *err = &net->error;
    if (p->sharded && (int64_t)p->mine * c->batch > INT32_MAX)
        return GY_FAIL(err, GY_E_ARG, "%d shards of %d samples: a step of this rank has at most %d samples", p->mine, c->batch, INT32_MAX);
    if (p->sharded && c->accumulate > 1)
        return GY_FAIL(err, GY_E_ARG, "shards and accumulate together: more shards do what accumulate does");
    if (p->sharded && c->sync_bn)
        return GY_FAIL(err, GY_E_ARG, "shards and sync_bn together: each shard has batch-norm statistics of its own");
    if ((p->sharded || (p->ranks > 1 && c->sync_bn)) && !net->caps.host_memory)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "shards and sync_bn are for the CPU alone in this version, not for %s", net->caps.device);
    return GY_OK;
}

GY_INT int gy_parallel_plan(struct gyre_net *net, struct gy_plan_config *plan)
{
    struct gy_parallel *p = &net->parallel;
    const int train = net->config.mode == GYRE_TRAIN;
    const int stages = net->config.pipeline > 1 ? net->config.pipeline : 1;
    p->ranks = train ? (gyre_job_ranks(net->config.job) + stages - 1) / stages : 1;
    p->rank = train ? gyre_job_rank(net->config.job) / stages : 0;
    p->sharded = train && net->config.shards > 0;
    p->shards = p->sharded ? net->config.shards : p->ranks;
    p->mine = p->shards / p->ranks;
    p->first = p->rank * p->mine;
    if (p->sharded && p->ranks > 1 && stages == 1)
        GY_TRY(net->config.job->peers->deal(net->config.job, p->shards, &p->first, &p->mine,
                                            &net->error));
    plan->ranks = p->ranks;
    plan->shards = p->mine;
    plan->sync_bn = net->config.sync_bn;
    plan->bucket_bytes = net->config.bucket_bytes;
    return parallel_check(net);
}

/* Channels of the widest batch norm that is synchronised. */
static int64_t parallel_channels(const struct gyre_net *net)
{
    const struct gy_program *p = &net->plan.program[GY_FORWARD];
    int64_t most = 1;
    for (int i = 0; i < p->count; i++)
        if (p->ops[i].code == GY_OP_SHARE_STATS)
            most = gy_max64(most, p->ops[i].geom.c);
    return most;
}

GY_INT int gy_parallel_tables(struct gyre_net *net)
{
    struct gy_parallel *p = &net->parallel;
    const size_t buckets = (size_t)net->plan.bucket_count + 1, levels = (size_t)net->plan.levels + 1;
    p->ticket = gy_arena_take(&net->arena, buckets, sizeof *p->ticket);
    p->began = gy_arena_take(&net->arena, buckets, sizeof *p->began);
    p->level = gy_arena_take(&net->arena, levels, sizeof *p->level);
    p->room = gy_arena_take(&net->arena, (size_t)parallel_channels(net), sizeof *p->room);
    if (!p->ticket || !p->began || !p->level || !p->room)
        return GY_NOMEM(&net->error, "the tables of buckets", buckets * 2 * sizeof(int64_t) + levels * sizeof *p->level);
    return GY_OK;
}

/* ---- a step ---- */

GY_INT int gy_parallel_is_late(const struct gyre_net *net, int training)
{
    return net->parallel.sharded || (training && net->parallel.ranks > 1 && net->config.accumulate == 1);
}

GY_INT uint64_t gy_parallel_counter(const struct gyre_net *net)
{
    const struct gy_parallel *p = &net->parallel;
    return (uint64_t)net->micro * (uint64_t)p->shards + (uint64_t)p->first + (uint64_t)p->shard;
}

GY_INT struct gyre_batch gy_parallel_part(struct gyre_net *net, const struct gyre_batch *batch, int shard)
{
    struct gyre_batch part = *batch;
    const size_t sample = net->plan.tensors[net->plan.input].bytes / (size_t)net->config.batch, first = (size_t)shard * (size_t)net->config.batch;
    net->parallel.shard = shard;
    if (net->parallel.closed == net->parallel.opened)
        net->parallel.closed = net->parallel.opened = 0;
    if (net->parallel.mine == 1)
        return part;
    part.x = batch->x ? (const unsigned char *)batch->x + first * sample : NULL;
    part.label = batch->label ? batch->label + first : NULL;
    part.target = batch->target ? batch->target + first * (size_t)net->graph.classes : NULL;
    part.mix = batch->mix ? batch->mix + first : NULL;
    part.count = net->config.batch;
    return part;
}

/* ---- the tree of shards ---- */

static void parallel_add(float *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i] + to[i];
}

/* Adds a shard's data to the tree. Levels are `stride` floats apart. The last shard has the sum. */
static void parallel_tree(const struct gy_parallel *p, float *data, float *level, size_t stride, int64_t count)
{
    const int last = p->shard + 1 == p->mine;
    int l = 0;
    for (; p->shard >> l & 1; l++)
        parallel_add(data, level + (size_t)l * stride, count);
    if (!last) {
        memcpy(level + (size_t)l * stride, data, (size_t)count * sizeof *data);
        return;
    }
    for (; p->shard >> l; l++)
        if (p->shard >> l & 1)
            parallel_add(data, level + (size_t)l * stride, count);
}

/* offset: bytes from the beginning of a level. */
static void parallel_tree_at(const struct gyre_net *net, float *data, size_t offset, int64_t count)
{
    const size_t each = net->plan.common_bytes + net->plan.region_bytes[GY_AT_STATE];
    unsigned char *const levels = net->base[GY_AT_LEVELS];
    if (net->parallel.mine > 1)
        parallel_tree(&net->parallel, data, (float *)(void *)(levels + offset), each / sizeof(float), count);
}

/* A sum that this rank waits for. */
GY_INT int gy_parallel_sum(struct gyre_net *net, const char *name, float *data, int64_t count)
{
    const int64_t began = gy_trace_clock(net);
    if (net->parallel.ranks == 1)
        return GY_OK;
    GY_TRY(gy_peers_sum(net->config.job, data, count, &net->error));
    gy_trace_put(net, GY_TRACE_TALK, name, "allreduce", "sums", began, (double)count * sizeof(float));
    return GY_OK;
}

GY_INT void gy_parallel_join(struct gyre_net *net, const struct gyre_result *result)
{
    struct gy_parallel *p = &net->parallel;
    const float sums[4] = { (float)(result->loss * result->labelled), (float)result->labelled, (float)result->top1, (float)result->top5 };
    memcpy(p->results, sums, sizeof sums);
    parallel_tree(p, p->results, p->level[0], 4, 4);
    if (p->sharded)
        parallel_tree_at(net, net->base[GY_AT_STATE], net->plan.common_bytes,
                         (int64_t)(net->plan.region_bytes[GY_AT_STATE] / sizeof(float)));
}

GY_INT int gy_parallel_result(struct gyre_net *net, struct gyre_result *result)
{
    struct gy_parallel *p = &net->parallel;
    float sums[6];
    memcpy(sums, p->results, sizeof p->results);
    sums[4] = p->stop != 0;
    sums[5] = p->grow != 0;
    p->stopped = p->stop;
    if (p->ranks == 1 && !p->sharded)
        return GY_OK; /* as it is, in double */
    GY_TRY(gy_parallel_sum(net, "results", sums, 6));
    p->stopped = sums[4] != 0;
    p->grown = sums[5] != 0;
    result->labelled = (int32_t)sums[1];
    result->top1 = (int32_t)sums[2];
    result->top5 = (int32_t)sums[3];
    result->loss = result->labelled ? (double)sums[0] / result->labelled : (double)sums[0];
    return GY_OK;
}

GY_INT int gy_parallel_alone(struct gyre_net *net, const char *call)
{
    if (!net->pipe)
        return GY_OK;
    return gy_engine_fail(net, GY_E_UNSUPPORTED, "%s: this rank has a part of the net alone, a "
                          "stage of it or columns of split layers", call);
}

GY_INT int gy_parallel_state(struct gyre_net *net)
{
    float *const state = net->base[GY_AT_STATE];
    const int64_t count = (int64_t)(net->plan.region_bytes[GY_AT_STATE] / sizeof(float));
    const float part = 1.0f / (float)net->parallel.shards;
    if (!net->parallel.sharded || count == 0)
        return GY_OK;
    GY_TRY(gy_parallel_sum(net, "running statistics", state, count));
    for (int64_t i = 0; i < count; i++)
        state[i] *= part;
    return GY_OK;
}

/* ---- ops ---- */

static int parallel_start(struct gyre_net *net, int bucket, float *data, int64_t count)
{
    struct gy_parallel *p = &net->parallel;
    p->began[bucket] = gy_trace_clock(net);
    GY_TRY(net->config.job->peers->start(net->config.job, data, count, &p->ticket[bucket], &net->error));
    p->opened = bucket + 1;
    return GY_OK;
}

GY_INT int gy_parallel_fetch(struct gyre_net *net)
{
    float *data = NULL;
    if (!net->parallel.begin || !gy_bridge_is(net))
        return GY_OK;
    GY_TRY(gy_bridge_fetch(net));
    for (int k = 0; k < net->plan.bucket_count; k++) {
        GY_TRY(gy_bridge_take(net, k, &data));
        GY_TRY(parallel_start(net, k, data, net->plan.tensors[net->plan.buckets[k].tensor].count));
        GY_TRY(gy_parallel_poll(net));
    }
    return GY_OK;
}

static int parallel_bucket(struct gyre_net *net, const struct gy_op *op)
{
    const struct gy_parallel *p = &net->parallel;
    if (gy_bridge_is(net))
        return gy_bridge_mark(net, op->id);
    parallel_tree_at(net, op->ptr[GY_DW], net->plan.tensors[op->tensor[GY_DW]].offset, op->geom.n);
    if (!p->begin || p->ranks == 1)
        return GY_OK;
    return parallel_start(net, op->id, op->ptr[GY_DW], op->geom.n);
}

static void parallel_closed(struct gyre_net *net)
{
    struct gy_parallel *p = &net->parallel;
    const struct gy_tensor *t = &net->plan.tensors[net->plan.buckets[p->closed].tensor];
    gy_trace_put(net, GY_TRACE_TALK, t->name, "allreduce", "gradients", p->began[p->closed], (double)t->bytes);
    p->closed++;
}

GY_INT int gy_parallel_poll(struct gyre_net *net)
{
    struct gy_parallel *p = &net->parallel;
    while (p->closed < p->opened) {
        const int status = net->config.job->peers->test(net->config.job, p->ticket[p->closed], &net->error);
        if (status != 1)
            return status;
        parallel_closed(net);
    }
    return GY_OK;
}

GY_INT int gy_parallel_alive(struct gyre_net *net)
{
    return gy_peers_alive(net->config.job, &net->error);
}

static int parallel_await(struct gyre_net *net, const struct gy_op *op)
{
    struct gy_parallel *p = &net->parallel;
    while (p->closed <= op->id && p->closed < p->opened) {
        GY_TRY(net->config.job->peers->wait(net->config.job, p->ticket[p->closed], &net->error));
        parallel_closed(net);
    }
    return gy_bridge_is(net) && op->id < net->plan.bucket_count ? gy_bridge_return(net, op->id) : GY_OK;
}

GY_INT int gy_parallel_settle(struct gyre_net *net)
{
    const struct gy_op all = { .id = net->plan.bucket_count };
    return parallel_await(net, &all);
}

GY_INT int gy_parallel_run(struct gyre_net *net, const struct gy_op *op)
{
    return op->code == GY_OP_BUCKET ? parallel_bucket(net, op) : parallel_await(net, op);
}
