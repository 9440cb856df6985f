/* SPDX-License-Identifier: MIT */
/* train_served.c: connects a net to parameter servers. Slices are the plan's buckets, so a gradient
 * is pushed where its sum would begin. A worker's update program only waits for weights. A server
 * runs the update ops of one bucket on its part of the net: the same ops on the same floats as one
 * process. */
#include "engine/train/train_served.h"
#include "engine/base/hash.h"

GY_STATIC_ASSERT(GY_SERVED_STALE == GYRE_STALE, served_stale);

static const struct gyre_job *served_job(const struct gy_train_served *t)
{
    return t->net->config.job;
}

GY_INT void gy_train_served_open(struct gy_train_served *t, struct gyre_net *net)
{
    const struct gyre_job *const job = net->config.job;
    *t = (struct gy_train_served){ .net = net, .calls = job ? job->peers->served : NULL };
}

GY_INT void gy_train_served_close(struct gy_train_served *t)
{
    gy_alloc_free(gy_engine_scratch(t->net), t->slices,
                  (size_t)t->net->plan.bucket_count * sizeof *t->slices);
    t->slices = NULL;
}

GY_INT int gy_train_served_serves(const struct gy_train_served *t)
{
    return t->calls && gyre_job_rank(served_job(t)) >= gyre_job_ranks(served_job(t));
}

GY_INT int gy_train_served_jumps(const struct gy_train_served *t)
{
    return t->calls && !t->calls->is_lockstep(served_job(t));
}

/* ---- a worker ---- */

static void served_figures(void *user, float out[2])
{
    const struct gyre_net *const net = ((struct gy_train_served *)user)->net;
    const double before = net->pending > 0 ? net->grad_weight * net->config.batch : 0;
    out[0] = net->parallel.results[0];
    out[1] = (float)(before + (double)net->parallel.results[1]);
}

static int served_place(void *user, int slice, const float *weights, struct gy_error *err)
{
    struct gyre_net *const net = ((struct gy_train_served *)user)->net;
    const struct gy_tensor *const t = &net->plan.tensors[net->plan.buckets[slice].tensor];
    (void)err; /* it is the net's */
    memcpy((unsigned char *)net->base[GY_AT_PARAM] + t->offset, weights, t->bytes);
    return GY_OK;
}

/* What is left of the update program waits for weights. */
static void served_wait_only(struct gy_program *p)
{
    int kept = 0;
    for (int i = 0; i < p->count; i++)
        if (p->ops[i].code == GY_OP_AWAIT)
            p->ops[kept++] = p->ops[i];
    p->count = kept;
}

/* ---- a server ---- */

/* An update op on the spans of one bucket alone. */
static int served_run_op(struct gyre_net *net, const struct gy_op *op,
                         const struct gy_bucket *bucket)
{
    struct gy_op one = *op;
    one.spans = net->plan.spans + bucket->first_span;
    one.span_count = bucket->span_count;
    return gy_engine_checked(net, net->backend->run(net->backend_self, &one), "a server's update");
}

static int served_update(void *user, const struct gy_served_update *update, struct gy_error *err)
{
    struct gyre_net *const net = ((struct gy_train_served *)user)->net;
    const struct gy_bucket *const bucket = &net->plan.buckets[update->slice];
    const struct gy_tensor *const t = &net->plan.tensors[bucket->tensor];
    const struct gy_program *const p = &net->plan.program[GY_UPDATE];
    (void)err; /* it is the net's */
    memcpy((unsigned char *)net->base[GY_AT_GRAD] + t->offset, update->gradient, t->bytes);
    net->updates = update->version;
    net->weight = (double)update->labelled / net->config.batch;
    gy_engine_rates(net);
    net->uniform.lr = gy_schedule_rate(&net->config.schedule, update->step);
    if (update->slower > 1)
        net->uniform.lr /= (float)update->slower;
    if (p->count > 1 && p->ops[p->count - 2].code == GY_OP_NORMS)
        GY_TRY(served_run_op(net, &p->ops[p->count - 2], bucket));
    return served_run_op(net, &p->ops[p->count - 1], bucket);
}

/* ---- begin ---- */

static int served_fits(const struct gy_train_served *t)
{
    struct gyre_net *const net = t->net;
    const struct gyre_config *const c = &net->config;
    if (!net->caps.host_memory)
        return gy_engine_fail(net, GY_E_UNSUPPORTED, "parameter servers are for the CPU alone in "
                              "this version, not for %s", net->caps.device);
    if (c->optimizer.clip_norm > 0)
        return gy_engine_fail(net, GY_E_UNSUPPORTED, "clip_norm with parameter servers: the norm "
                              "of the whole gradient is on none of them");
    if (gy_train_served_jumps(t) && (c->shards > 0 || c->sync_bn))
        return gy_engine_fail(net, GY_E_ARG, "%s with workers that do not wait for each other: it "
                              "needs the sums of them all", c->shards > 0 ? "shards" : "sync_bn");
    return GY_OK;
}

/* Another net, optimiser, data set or number of workers is another run. */
static uint64_t served_run_hash(const struct gyre_net *net, uint64_t data)
{
    const struct gyre_config *const c = &net->config;
    const struct gyre_schedule *const s = &c->schedule;
    const int64_t numbers[] = { c->batch, c->accumulate, c->shards, c->sync_bn, (int64_t)c->seed,
                                c->dtype, c->input, s->kind, s->warmup,
                                s->steps, net->parallel.ranks, net->plan.bucket_count,
                                net->updates, (int64_t)data };
    const float reals[] = { s->rate, s->warmup_from, s->final_rate, s->power, s->gamma };
    uint32_t low = gy_crc32c(0, c->net, strlen(c->net)), high = gy_crc32(0, c->net, strlen(c->net));
    low = gy_crc32c(gy_crc32c(low, numbers, sizeof numbers), reals, sizeof reals);
    high = gy_crc32(gy_crc32(high, numbers, sizeof numbers), reals, sizeof reals);
    low = gy_crc32c(gy_crc32c(low, &c->optimizer, sizeof c->optimizer), s->milestone,
                    sizeof s->milestone);
    return (uint64_t)high << 32 | low;
}

/* Why each worker is needed. */
static const char *served_whole(const struct gyre_net *net)
{
    if (net->parallel.sharded)
        return "no other worker has its shards (--shards): the job ends";
    return net->config.sync_bn ? "batch norms sum over all workers (--sync-bn): the job ends"
                               : NULL;
}

static void served_describe(struct gy_train_served *t, struct gy_served_net *out, uint64_t data)
{
    static const int regions[] = { GY_AT_PARAM, GY_AT_OPT1, GY_AT_OPT2, GY_AT_EMA };
    struct gyre_net *const net = t->net;
    const size_t *const bytes = net->plan.region_bytes;
    *out = (struct gy_served_net){ .slices = t->slices, .count = net->plan.bucket_count,
                                   .version = net->updates,
                                   .floats = (int64_t)(bytes[GY_AT_PARAM] / sizeof(float)),
                                   .run = served_run_hash(net, data), .whole = served_whole(net),
                                   .gradients = net->base[GY_AT_GRAD],
                                   .weights = net->base[GY_AT_PARAM], .user = t,
                                   .figures = served_figures,
                                   .place = served_place, .update = served_update };
    for (size_t i = 0; i < GY_COUNT(regions); i++)
        if (bytes[regions[i]] > 0)
            out->region[out->regions++] = net->base[regions[i]];
}

GY_INT int gy_train_served_begin(struct gy_train_served *t, uint64_t data)
{
    struct gyre_net *const net = t->net;
    struct gy_served_net served;
    const size_t count = (size_t)net->plan.bucket_count;
    GY_TRY(served_fits(t));
    t->slices = gy_alloc_take(gy_engine_scratch(net), count, sizeof *t->slices);
    if (!t->slices)
        return gy_engine_fail(net, GY_E_NOMEM, "out of memory: %zu slices of the parameters",
                              count);
    for (size_t k = 0; k < count; k++) {
        const struct gy_tensor *const tensor = &net->plan.tensors[net->plan.buckets[k].tensor];
        t->slices[k].first = (int64_t)(tensor->offset / sizeof(float));
        t->slices[k].count = tensor->count;
    }
    served_describe(t, &served, data);
    if (!gy_train_served_serves(t))
        served_wait_only(&net->plan.program[GY_UPDATE]);
    return t->calls->begin(net->config.job, &served, &net->error);
}

GY_INT int gy_train_served_fetch(struct gy_train_served *t, int all, int last)
{
    struct gyre_net *const net = t->net;
    const int average = net->plan.region_bytes[GY_AT_EMA] > 0,
        second = net->plan.region_bytes[GY_AT_OPT2] > 0;
    const unsigned ema = average ? 1u << (2 + second) : 0u, every =
        (1u << (2 + second + average)) - 1;
    if (!t->calls || (!all && !average && !gy_train_served_jumps(t)))
        return GY_OK;
    return t->calls->fetch(net->config.job, all ? every : ema | 1u, last, &net->error);
}

GY_INT int gy_train_served_leave(struct gy_train_served *t, int leads)
{
    return t->calls ? t->calls->leave(t->net->config.job, leads, &t->report, &t->net->error)
                    : GY_OK;
}

GY_INT int64_t gy_train_served_steps(const struct gy_train_served *t)
{
    return t->calls->updates(served_job(t)) * t->net->config.accumulate;
}

GY_INT int gy_train_served_leads(const struct gy_train_served *t)
{
    return t->calls->leads(t->net->config.job);
}

GY_INT void gy_train_served_warn(const struct gy_train_served *t, int leads)
{
    int takes;
    char then[64] = "";
    for (const char *text; leads && (text = t->calls->lost(t->net->config.job, &takes));) {
        if (takes > 0)
            snprintf(then, sizeof then, ", an update takes %d gradient%s", takes,
                     takes > 1 ? "s" : "");
        gy_log_write(gy_engine_log(t->net), GY_LOG_WARN, "%s; the other workers go on%s", text,
                     then);
    }
}
