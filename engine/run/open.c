/* SPDX-License-Identifier: MIT */
/* open.c: opens a net: configuration, graph, backend, plan, memory, first weights; closes it in
 * reverse order. gyre_measure is open with an allocator that counts and without the tensors'
 * memory, so the two cannot disagree. */
#include "kernels/devices.h"
#include "engine/job/peers.h"
#include "engine/run/kernel_notes.h"
#include "engine/run/parallel.h"
#include "engine/run/trace.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/plan/plan_compile.h"
#include "engine/run/tuning.h"

GY_STATIC_ASSERT((int)GYRE_OPTIMIZERS == GY_PLAN_RULES, optimizer_kinds);

static struct gy_plan_config ctx_plan_config(const struct gyre_config *c)
{
    struct gy_plan_config p = { .batch = c->batch, .train = c->mode == GYRE_TRAIN, .recompute = c->recompute, .dtype = c->dtype,
                                .u8 = c->input == GYRE_INPUT_U8, .optimizer = c->optimizer.kind,
                                .nesterov = c->optimizer.nesterov, .decay_all = c->optimizer.decay_all };
    memcpy(p.mean, c->mean, sizeof p.mean);
    memcpy(p.std, c->std, sizeof p.std);
    p.f[GY_C_MOMENTUM] = c->optimizer.momentum;
    p.f[GY_C_DECAY] = c->optimizer.weight_decay;
    p.f[GY_C_BETA1] = c->optimizer.beta1;
    p.f[GY_C_BETA2] = c->optimizer.beta2;
    p.f[GY_C_EPS] = c->optimizer.eps;
    p.f[GY_C_ETA] = c->optimizer.lars_eta;
    p.f[GY_C_CLIP] = c->optimizer.clip_norm;
    p.average = c->optimizer.ema > 0;
    return p;
}

/* The configuration's texts move into the arena: the caller may free them. */
static int ctx_keep_texts(struct gyre_net *net)
{
    const char **texts[] = { &net->config.net, &net->config.net_name, &net->config.device, &net->config.isa,
                             &net->config.tune, &net->config.kernel_cache, &net->config.kernel_pack };
    for (size_t i = 0; i < GY_COUNT(texts); i++) {
        if (!*texts[i])
            continue;
        const size_t bytes = strlen(*texts[i]);
        *texts[i] = gy_arena_text(&net->arena, *texts[i], bytes);
        if (!*texts[i])
            return GY_NOMEM(&net->error, "the net's text", bytes);
    }
    return GY_OK;
}

static int ctx_rows(struct gyre_net *net)
{
    net->row_count = 1;
    for (int i = 0; i < net->graph.param_count; i++)
        net->row_count = gy_max64(net->row_count, gy_param_row_count(&net->graph.params[i]));
    net->row = gy_arena_take(&net->arena, (size_t)net->row_count, sizeof(float));
    net->row2 = gy_arena_take(&net->arena, (size_t)net->row_count, sizeof(float));
    if (!net->row || !net->row2)
        return GY_NOMEM(&net->error, "a row of weights", (size_t)net->row_count * sizeof(float));
    return GY_OK;
}

/* mean and std have four places. */
static int ctx_check_channels(struct gyre_net *net)
{
    int plain = net->config.input == GYRE_INPUT_F32;
    for (int c = 0; c < 4; c++)
        plain &= net->config.mean[c] == 0 && net->config.std[c] == 1;
    if (net->graph.c > 4 && !plain)
        return GY_FAIL(&net->error, GY_E_UNSUPPORTED, "an input of %d channels cannot be normalised: mean and std have 4 places; "
                       "use GYRE_INPUT_F32 with mean 0 and std 1", net->graph.c);
    return GY_OK;
}

static int ctx_check_dtype(struct gyre_net *net)
{
    if (net->caps.dtypes >> net->config.dtype & 1)
        return GY_OK;
    return GY_FAIL(&net->error, GY_E_UNSUPPORTED, "dtype f16: %s has no kernels for it; it computes in f32 and bf16, a GPU (device cuda) in f16, too",
                   net->caps.device);
}

#ifdef GY_NO_TUNING
GY_INT int gy_engine_plan_tuned(struct gyre_net *net, const struct gy_plan_config *plan)
{
    if (net->config.tune)
        return GY_FAIL(&net->error, GY_E_UNSUPPORTED,
                       "tune: this build has no measured block sizes; the profiles nets and all read them");
    return gy_plan_build(&net->plan, &net->graph, plan, &net->uniform, net->backend,
                         net->backend_self, &net->arena, &net->error);
}
#endif

#ifdef GY_NO_RANKS
GY_INT int gy_parallel_open(struct gyre_net *net) { return net ? GY_OK : GY_E_BUG; }

static int gy_pipe_plan(struct gyre_net *net, struct gy_plan_config *plan)
{
    (void)plan;
    return GY_FAIL(&net->error, GY_E_UNSUPPORTED, "pipeline: this build has no jobs of ranks");
}

static int gy_split_plan(struct gyre_net *net, struct gy_plan_config *plan)
{
    (void)plan;
    if (!net->parallel.sharded)
        return GY_OK;
    return GY_FAIL(&net->error, GY_E_UNSUPPORTED, "a split layer with shards: this build has no jobs of ranks");
}
#endif

static int ctx_plan(struct gyre_net *net)
{
    struct gy_plan_config plan = ctx_plan_config(&net->config);
    GY_TRY(ctx_check_dtype(net));
    GY_TRY(gy_parallel_plan(net, &plan));
    if (net->config.pipeline > 1)
        GY_TRY(gy_pipe_plan(net, &plan));
    if (net->graph.splits > 0)
        GY_TRY(gy_split_plan(net, &plan));
    const int status = gy_engine_plan_tuned(net, &plan);
    net->plan.region_bytes[GY_AT_LAND] = net->caps.host_memory ? 0 : net->plan.region_bytes[GY_AT_IN];
    return status;
}

/* Bytes of a region in the net's memory. Gradients lie where ranks sum if the device reaches it. */
static size_t ctx_own_bytes(const struct gyre_net *net, int region)
{
    return region == GY_AT_GRAD && net->parallel.ranks > 1 && net->caps.host_memory ? 0 : gy_align_up(net->plan.region_bytes[region], 4096);
}

GY_INT int gy_engine_open_device(struct gyre_net *net)
{
    const struct gyre_job *const job = net->config.job;
    struct gy_backend_config config = { .alloc = &net->alloc, .log = &net->log, .isa = net->config.isa, .threads = net->config.threads,
                                        .pin = net->config.pin, .kernel_cache = net->config.kernel_cache,
                                        .kernel_pack = net->config.kernel_pack };
    const int own = job && job->locals > 1 ? job->local : 0; /* a GPU for each rank of a host */
    GY_TRY(gy_device_open_backend(net->config.device, &config, net->config.use_env, own, &net->backend, &net->backend_self, &net->error));
    net->backend->caps(net->backend_self, &net->caps);
    return GY_OK;
}

/* The arena is frozen at the end: what measuring counts is all that opening takes. */
GY_INT int gy_engine_compile(struct gyre_net *net)
{
    gy_arena_open_hook(&net->arena, &net->alloc);
    GY_TRY(ctx_keep_texts(net));
    GY_TRY(gy_graph_parse(&net->graph, &net->arena, net->config.net, strlen(net->config.net), net->config.net_name,
                          &net->error));
    GY_TRY(ctx_check_channels(net));
    GY_TRY(gy_engine_open_device(net));
    GY_TRY(ctx_plan(net));
    for (int r = 0; r < GY_REGIONS; r++)
        if (gy_add_size(net->memory_bytes, ctx_own_bytes(net, r), &net->memory_bytes))
            return GY_FAIL(&net->error, GY_E_NOMEM, "the net's tensors are beyond the address space");
    net->shared_bytes = net->parallel.ranks > 1 ? net->plan.region_bytes[GY_AT_GRAD] : 0;
    GY_TRY(gy_parallel_tables(net));
    GY_TRY(gy_trace_open(net));
    GY_TRY(ctx_rows(net));
    gy_arena_freeze(&net->arena);
    return GY_OK;
}

static size_t ctx_pinned_bytes(const struct gyre_net *net)
{
    const size_t *bytes = net->plan.region_bytes;
    return net->caps.host_memory ? 0 : gy_align_up(bytes[GY_AT_IN], 4096) + gy_align_up(bytes[GY_AT_OUT], 4096);
}

/* What comes from and goes to the caller, as the host sees it. */
static int ctx_take_pinned(struct gyre_net *net)
{
    net->seen[GY_AT_IN] = net->base[GY_AT_IN];
    net->seen[GY_AT_OUT] = net->base[GY_AT_OUT];
    if (net->caps.host_memory)
        return GY_OK;
    net->pinned_bytes = ctx_pinned_bytes(net);
    GY_TRY(net->backend->mem_get(net->backend_self, net->pinned_bytes, GY_MEM_HOST, &net->pinned, &net->error));
    net->seen[GY_AT_IN] = net->pinned;
    net->seen[GY_AT_OUT] = (unsigned char *)net->pinned + gy_align_up(net->plan.region_bytes[GY_AT_IN], 4096);
    return GY_OK;
}

static int ctx_take_memory(struct gyre_net *net)
{
    GY_TRY(net->backend->mem_get(net->backend_self, net->memory_bytes, GY_MEM_DEVICE, &net->memory, &net->error));
    size_t at = 0;
    for (int r = 0; r < GY_REGIONS; r++) {
        net->base[r] = (unsigned char *)net->memory + at;
        at += ctx_own_bytes(net, r);
    }
    if (net->parallel.ranks > 1) {
        GY_TRY(net->config.job->peers->take(net->config.job, net->shared_bytes, &net->shared, NULL, &net->error));
        net->config.job->peers->turn(net->config.job, net->shared, net->plan.bucket_count);
        if (net->caps.host_memory)
            net->base[GY_AT_GRAD] = net->shared;
        else
            net->backend->pin(net->backend_self, net->shared, net->shared_bytes, 1);
    }
    gy_plan_place(&net->plan, net->base);
    return ctx_take_pinned(net);
}

/* What has to lie on the device goes there with the first batch. */
static void ctx_identity_mix(struct gyre_net *net)
{
    struct gy_mix *mix = (void *)((unsigned char *)net->seen[GY_AT_IN] + net->plan.tensors[net->plan.mix].offset);
    for (int i = 0; i < net->config.batch; i++)
        mix[i] = (struct gy_mix){ .partner = i, .inside = 1, .label = 1 };
}

GY_INT void gy_engine_empty(struct gyre_net *net)
{
    if (net->pipe)
        net->pipe->close(net);
    if (net->pinned)
        net->backend->mem_put(net->backend_self, net->pinned, net->pinned_bytes, GY_MEM_HOST);
    if (net->shared && !net->caps.host_memory)
        net->backend->pin(net->backend_self, net->shared, net->shared_bytes, 0);
    if (net->shared)
        net->config.job->peers->put(net->config.job, net->shared);
    if (net->memory)
        net->backend->mem_put(net->backend_self, net->memory, net->memory_bytes, GY_MEM_DEVICE);
    if (net->backend_self)
        net->backend->close(net->backend_self);
    gy_arena_close(&net->arena);
}

GYRE_API void gyre_close(struct gyre_net *net)
{
    const struct gy_alloc alloc = net ? net->alloc : gy_alloc_default();
    if (net)
        gy_engine_empty(net);
    gy_alloc_free(&alloc, net, sizeof *net);
}

/* net with everything but memory, or NULL; *err says why. */
static struct gyre_net *ctx_new(const struct gyre_config *config, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gyre_net *net = gy_alloc_take(alloc, 1, sizeof *net);
    if (!net) {
        GY_NOMEM(err, "the net's handle", sizeof *net);
        return NULL;
    }
    net->config = *config;
    net->alloc = *alloc;
    net->scratch = gy_config_scratch(&config->memory);
    net->log = gy_log_of(&config->log);
    if (gy_engine_compile(net) == GY_OK)
        return net;
    *err = net->error;
    gyre_close(net);
    return NULL;
}

GY_INT int gy_engine_fill(struct gyre_net *net)
{
    GY_TRY(gy_parallel_open(net));
    GY_TRY(ctx_take_memory(net));
    if (net->pipe)
        GY_TRY(net->pipe->open(net));
    GY_TRY(net->backend->ready(net->backend_self, &net->error));
    GY_TRY(gy_engine_note_kernels(net));
    ctx_identity_mix(net);
    net->uniform.seed = net->config.seed;
    gy_scale_open(net);
    return gy_init_weights(net);
}

static int ctx_open(struct gyre_net **out, const struct gyre_config *config, struct gy_error *err)
{
    struct gyre_config copy;
    struct gy_alloc alloc;
    GY_TRY(gy_config_copy(&copy, config, err));
    GY_TRY(gy_config_seal(&copy.memory, &alloc, err));
    struct gyre_net *net = ctx_new(&copy, &alloc, err);
    if (!net)
        return err->status;
    const int status = gy_engine_fill(net);
    if (status != GY_OK) {
        *err = net->error;
        gyre_close(net);
        return status;
    }
    *out = net;
    return GY_OK;
}

GYRE_API int gyre_open(struct gyre_net **out, const struct gyre_config *config, struct gyre_error *error)
{
    GY_TRY(gy_given(out, "gyre_open: net", error));
    GY_TRY(gy_given(config, "gyre_open: config", error));
    struct gy_error err = { 0 };
    const int status = ctx_open(out, config, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

#define CTX_BLOCK_HEAD ((size_t)512) /* a block's head, and what aligns the memory of tensors */

/* Counts what goes through it, in whole cache lines, as a block of the caller's would be used. */
struct ctx_counter {
    struct gy_alloc inner;
    size_t bytes;
};

static void *ctx_count_fn(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct ctx_counter *counter = user;
    void *p = counter->inner.fn(counter->inner.user, ptr, old_bytes, new_bytes);
    if (p && new_bytes && new_bytes < SIZE_MAX / 2)
        counter->bytes += gy_align_up(new_bytes, GY_CACHE_LINE);
    return p;
}

static void ctx_need(const struct gyre_net *net, size_t counted, struct gyre_need *need)
{
    const size_t *bytes = net->plan.region_bytes;
    memset(need, 0, sizeof *need);
    need->host_bytes = counted + net->memory_bytes + net->shared_bytes + CTX_BLOCK_HEAD;
    need->param_bytes = bytes[GY_AT_PARAM] + bytes[GY_AT_STATE];
    need->gradient_bytes = bytes[GY_AT_GRAD];
    need->optimizer_bytes = bytes[GY_AT_OPT1] + bytes[GY_AT_OPT2] + bytes[GY_AT_EMA];
    need->activation_bytes = bytes[GY_AT_ACT] + bytes[GY_AT_IN] + bytes[GY_AT_OUT];
    need->other_bytes = need->host_bytes - need->param_bytes - need->gradient_bytes - need->optimizer_bytes -
                        need->activation_bytes;
    if (!net->caps.host_memory) {
        need->device_bytes = net->memory_bytes;
        need->pinned_bytes = ctx_pinned_bytes(net);
        need->host_bytes -= net->memory_bytes;
    }
    for (int i = 0; i < net->graph.param_count; i++)
        need->parameters += net->plan.span_of[i] < 0 ? 0 : net->graph.params[i].count;
    const int last = net->config.mode == GYRE_TRAIN ? GY_UPDATE : GY_EVAL;
    for (int p = net->config.mode == GYRE_TRAIN ? GY_FORWARD : GY_EVAL; p <= last; p++)
        for (int i = 0; i < net->plan.program[p].count; i++)
            need->flops += gy_op_flops(&net->plan.program[p].ops[i]);
}

GY_INT int gy_engine_measure(const struct gyre_config *config, struct gyre_need *need,
                             void (*look)(void *user, const struct gyre_net *net), void *user, struct gy_error *err)
{
    struct gyre_config copy;
    GY_TRY(gy_config_copy(&copy, config, err));
    struct ctx_counter counter = { .inner = gy_alloc_default() };
    if (copy.memory.hook && !copy.memory.block)
        counter.inner = (struct gy_alloc){ copy.memory.hook, copy.memory.user };
    const struct gy_alloc alloc = { ctx_count_fn, &counter };
    struct gyre_net *net = ctx_new(&copy, &alloc, err);
    if (!net)
        return err->status;
    ctx_need(net, counter.bytes, need);
    if (look)
        look(user, net);
    gyre_close(net);
    return GY_OK;
}

GYRE_API int gyre_measure(const struct gyre_config *config, struct gyre_need *need, struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_measure: config", error));
    GY_TRY(gy_given(need, "gyre_measure: need", error));
    struct gy_error err = { 0 };
    const int status = gy_engine_measure(config, need, NULL, NULL, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
