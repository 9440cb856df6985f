/* SPDX-License-Identifier: MIT */
/* pipeline_results.c: what the ranks of a pipeline tell each other at the end of an update. Only
 * last stages know losses. One sum over the whole job, to which the others give zeros, brings them
 * to all ranks. A loss travels as the four 16-bit words of its double, which are exact in float. */
#include "engine/run/parallel.h"
#include "engine/run/pipeline_stage.h"

#define RESULTS_WORDS 7 /* of a micro-batch: labelled, top 1, top 5, words of the loss */
#define RESULTS_TREE 4  /* of a copy: sums of its shards */

GY_INT int64_t gy_pipe_exchange_count(const struct gy_pipe *p)
{
    return (int64_t)p->copies * ((int64_t)p->micros * RESULTS_WORDS + RESULTS_TREE) + 1;
}

static float *results_copy(const struct gy_pipe *p, int copy)
{
    return p->exchange + (int64_t)copy * ((int64_t)p->micros * RESULTS_WORDS + RESULTS_TREE);
}

static void results_put(float *words, const struct gyre_result *r)
{
    uint64_t bits;
    memcpy(&bits, &r->loss, sizeof bits);
    words[0] = (float)r->labelled;
    words[1] = (float)r->top1;
    words[2] = (float)r->top5;
    for (int i = 0; i < 4; i++)
        words[3 + i] = (float)(bits >> 16 * i & 0xffff);
}

static struct gyre_result results_get(const float *words)
{
    struct gyre_result r = { .labelled = (int32_t)words[0],
                             .top1 = (int32_t)words[1],
                             .top5 = (int32_t)words[2] };
    uint64_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (uint64_t)words[3 + i] << 16 * i;
    memcpy(&r.loss, &bits, sizeof bits);
    return r;
}

/* A micro-batch's result over all copies; with one copy, its own in double. */
static struct gyre_result results_all(const struct gy_pipe *p, int micro)
{
    struct gyre_result all = results_get(results_copy(p, 0) + micro * RESULTS_WORDS);
    double loss = all.loss * all.labelled;
    for (int c = 1; c < p->copies; c++) {
        const struct gyre_result one = results_get(results_copy(p, c) + micro * RESULTS_WORDS);
        loss += one.loss * one.labelled;
        all.labelled += one.labelled;
        all.top1 += one.top1;
        all.top5 += one.top5;
    }
    if (p->copies > 1)
        all.loss = all.labelled ? loss / all.labelled : loss;
    return all;
}

GY_INT int gy_pipe_exchange(struct gyre_net *net)
{
    struct gy_pipe *p = net->stage;
    float *const own = results_copy(p, p->copy);
    memset(p->exchange, 0, (size_t)p->exchange_count * sizeof *p->exchange);
    p->exchange[p->exchange_count - 1] = net->parallel.stop != 0;
    for (int k = 0; k < p->micros && p->stage + 1 == p->stages; k++)
        results_put(own + k * RESULTS_WORDS, &p->micro[k].result);
    if (p->stage + 1 == p->stages)
        memcpy(own + p->micros * RESULTS_WORDS, net->parallel.results,
               sizeof net->parallel.results);
    GY_TRY(gy_peers_sum(net->config.job, p->exchange, p->exchange_count, &net->error));
    net->parallel.stopped = p->exchange[p->exchange_count - 1] != 0;
    for (int k = 0; k < p->micros; k++)
        p->micro[k].result = results_all(p, k);
    return GY_OK;
}

/* The copies' sums, as the tree of shards has them. */
static struct gyre_result results_tree(struct gy_pipe *p)
{
    for (int apart = 1; apart < p->copies; apart *= 2)
        for (int c = 0; c + apart < p->copies; c += 2 * apart)
            for (int i = 0; i < RESULTS_TREE; i++) {
                float *const to = results_copy(p, c) + p->micros * RESULTS_WORDS + i;
                *to = *to + results_copy(p, c + apart)[p->micros * RESULTS_WORDS + i];
            }
    const float *const sums = results_copy(p, 0) + p->micros * RESULTS_WORDS;
    struct gyre_result r = { .labelled = (int32_t)sums[1],
                             .top1 = (int32_t)sums[2],
                             .top5 = (int32_t)sums[3] };
    r.loss = r.labelled ? (double)sums[0] / r.labelled : (double)sums[0];
    return r;
}

/* Batches that nothing can be learnt from are dropped. The others wait, as in one process: for
 * batches in the place of these. */
static void results_drop(struct gyre_net *net)
{
    struct gy_pipe *p = net->stage;
    const size_t bytes = p->plan.in_bytes;
    int kept = 0;
    for (int k = 0; k < p->micros; k++) {
        const struct gyre_result *r = &p->micro[k].result;
        if (!isfinite(r->loss) || r->labelled == 0)
            continue;
        if (kept < k)
            memcpy(p->in + (size_t)kept * bytes, p->in + (size_t)k * bytes, bytes);
        p->micro[kept] = p->micro[k];
        p->micro[kept].counter -= (uint64_t)(k - kept) * (uint64_t)net->parallel.shards;
        kept++;
    }
    net->micro += kept - net->pending; /* the call that fails is counted in neither */
    net->pending = kept;
}

/* Batches of an accumulation are looked at one by one, as one process does. */
static int results_accumulated(struct gyre_net *net, struct gyre_result *result)
{
    struct gy_pipe *p = net->stage;
    double loss = 0;
    net->weight = 0;
    for (int k = 0; k < p->micros; k++) {
        const struct gyre_result *r = &p->micro[k].result;
        const int status = gy_step_judge(net, r);
        if (status != GY_OK)
            results_drop(net);
        GY_TRY(status);
        net->weight += (double)r->labelled / net->config.batch;
        loss += r->loss * r->labelled;
        result->labelled += r->labelled;
        result->top1 += r->top1;
        result->top5 += r->top5;
    }
    result->loss = loss / result->labelled;
    return GY_OK;
}

GY_INT int gy_pipe_judge(struct gyre_net *net, struct gyre_result *result)
{
    struct gy_pipe *p = net->stage;
    if (net->parallel.sharded) {
        *result = results_tree(p);
        GY_TRY(gy_step_judge(net, result));
        net->weight = (double)result->labelled / net->config.batch;
    } else {
        GY_TRY(results_accumulated(net, result));
    }
    net->grad_weight = net->weight;
    result->step = net->updates;
    p->done = net->parallel.sharded ? 0 : p->micros;
    return GY_OK;
}

GY_INT int gy_pipe_result(const struct gyre_net *net, int micro, struct gyre_result *result)
{
    if (micro >= net->stage->done)
        return 0;
    *result = net->stage->micro[micro].result;
    return 1;
}

/* Partners at distances 1, 2, 4 ... add each other's sums: a balanced tree, whose bits are the same
 * on all. */
GY_INT int gy_pipe_sum(struct gyre_net *net, float *data, int64_t count)
{
    struct gy_pipe *p = net->stage;
    for (int apart = 1; apart < p->copies; apart *= 2) {
        const int partner = gy_pipe_rank(net, p->stage, p->copy ^ apart);
        for (int64_t at = 0; at < count; at += GY_PIPE_SUM_FLOATS) {
            const int64_t part = count - at < GY_PIPE_SUM_FLOATS ? count - at : GY_PIPE_SUM_FLOATS;
            GY_TRY(gy_pipe_wire(net)->swap(net->config.job, partner, GY_PIPE_SUM, data + at, p->sum,
                                           (size_t)part * sizeof *data, &net->error));
            for (int64_t i = 0; i < part; i++)
                data[at + i] = data[at + i] + p->sum[i];
        }
    }
    return GY_OK;
}

GY_INT int gy_pipe_share(struct gyre_net *net, double *values, int count)
{
    struct gy_pipe *p = net->stage;
    const size_t bytes = (size_t)count * sizeof *values;
    const int last = p->stages - 1;
    if (p->stage < last)
        return gy_pipe_wire(net)->hear(net->config.job, gy_pipe_rank(net, last, p->copy),
                                       GY_PIPE_SHARE, values, bytes, &net->error);
    for (int s = 0; s < last; s++)
        GY_TRY(gy_pipe_wire(net)->tell(net->config.job, gy_pipe_rank(net, s, p->copy),
                                       GY_PIPE_SHARE, values, bytes, &net->error));
    return GY_OK;
}
