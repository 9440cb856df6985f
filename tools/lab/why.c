/* SPDX-License-Identifier: MIT */
/* why.c: finds why a step takes as long as it does, for gyre why (tools/cmd_why.c). Real steps run
 * through a backend that stands before the real one and reads the clock around each op. So caches,
 * memory and loader are as in training. Times are medians over the steps, waits are means. To
 * predict a change the net is planned anew with it. Each op of the new plan is expected to come as
 * near to its limit as ops of its kind came here. */
#include "tools/lab/lab.h"
#include "tools/lab/noise.h"
#include "engine/run/parallel.h"
#include "tools/lab/why_page.h"
#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "engine/train/net_data.h"

#define WHY_WARM 3
#define WHY_STEPS_MOST 100000

struct why_run {
    struct gy_why why;
    struct gyre_why_config config;
    const struct gy_backend *inner;
    void *inner_self;
    struct gyre_loader *loader;
    struct gyre_batch batch;       /* synthetic */
    struct gy_noise noise;
    int step;                      /* below 0: warming up */
    int64_t *ns;                   /* [op][step] */
    int64_t *whole, *wait, *rest;  /* [step] each: of a step, before it, outside of its ops */
    int64_t *sorted;               /* [step] */
};

GYRE_API void gyre_why_config_default(struct gyre_why_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->augment = (struct gyre_augment){ .scale_min = 0.08f, .scale_max = 1, .ratio_min = 0.75f, .ratio_max = 1.3333f };
    config->loader_threads = 1;
    config->steps = 20;
}

/* ---- a backend with a clock ---- */

static int why_place(const struct gy_why *why, const struct gy_op *op)
{
    int first = 0;
    for (int p = GY_FORWARD; p <= GY_UPDATE; p++) {
        const struct gy_program *program = &why->net->plan.program[p];
        if (op >= program->ops && op < program->ops + program->count)
            return first + (int)(op - program->ops);
        first += program->count;
    }
    return -1;
}

static int why_proxy_run(void *self, const struct gy_op *op)
{
    struct why_run *run = self;
    const int64_t start = gy_clock_ns();
    GY_TRY(run->inner->run(run->inner_self, op));
    GY_TRY(run->inner->sync(run->inner_self));
    const int place = why_place(&run->why, op);
    if (run->step >= 0 && place >= 0)
        run->ns[(int64_t)place * run->config.steps + run->step] += gy_clock_ns() - start;
    return GY_OK;
}

static int why_proxy_copy(void *self, void *dst, const void *src, size_t bytes, int kind)
{
    struct why_run *run = self;
    return run->inner->copy(run->inner_self, dst, src, bytes, kind);
}

static int why_proxy_copy_on(void *self, int queue, void *dst, const void *src, size_t bytes, int kind)
{
    struct why_run *run = self;
    return run->inner->copy_on(run->inner_self, queue, dst, src, bytes, kind);
}

static int why_proxy_mark(void *self, int queue, unsigned mark)
{
    struct why_run *run = self;
    return run->inner->mark(run->inner_self, queue, mark);
}

static int why_proxy_wait(void *self, int queue, unsigned mark)
{
    struct why_run *run = self;
    return run->inner->wait(run->inner_self, queue, mark);
}

static int why_proxy_reach(void *self, unsigned mark)
{
    struct why_run *run = self;
    return run->inner->reach(run->inner_self, mark);
}

static int why_proxy_sync(void *self)
{
    struct why_run *run = self;
    return run->inner->sync(run->inner_self);
}

/* Every op is walked, so that each has its time: nothing is repeated by the device alone. */
static int why_proxy_begin(void *self, int program, const struct gy_uniform *u)
{
    (void)self;
    (void)program;
    (void)u;
    return 0;
}

static int why_proxy_end(void *self, int program)
{
    (void)self;
    (void)program;
    return GY_OK;
}

/* All that a step calls. */
static const struct gy_backend why_proxy = { .begin = why_proxy_begin, .end = why_proxy_end, .run = why_proxy_run,
                                              .copy = why_proxy_copy, .copy_on = why_proxy_copy_on, .mark = why_proxy_mark,
                                              .wait = why_proxy_wait, .reach = why_proxy_reach, .sync = why_proxy_sync };

/* ---- steps ---- */

static int why_open_loader(struct why_run *run)
{
    struct gyre_net *net = run->why.net;
    struct gyre_loader_config c;
    struct gyre_error error;
    gyre_loader_config_default(&c);
    c.batch = net->config.batch;
    c.h = net->graph.h;
    c.w = net->graph.w;
    c.c = net->graph.c;
    c.training = 1;
    c.augment = run->config.augment;
    c.seed = net->config.seed;
    c.threads = run->config.loader_threads;
    GY_TRY(gy_data_check_input(net, run->config.data, "training"));
    const int status = gyre_open_loader(&run->loader, run->config.data, &c, &error);
    return status == GYRE_OK ? GYRE_OK : gy_engine_fail(net, status, "%s", error.text);
}

static int why_noise(struct why_run *run)
{
    GY_TRY(gy_noise_make(run->why.net, &run->noise));
    run->batch = run->noise.batch;
    return GY_OK;
}

static int why_step(struct why_run *run)
{
    struct gyre_net *net = run->why.net;
    struct gyre_batch batch = run->batch;
    struct gyre_error error;
    const int64_t start = gy_clock_ns();
    if (run->loader) {
        const int status = gyre_next_batch(run->loader, &batch, NULL, &error);
        if (status != GYRE_OK)
            return gy_engine_fail(net, status, "%s", error.text);
    }
    const int64_t ready = gy_clock_ns();
    GY_TRY(gyre_step(net, &batch, NULL));
    if (run->step >= 0) {
        run->wait[run->step] = ready - start;
        run->whole[run->step] = gy_clock_ns() - ready;
    }
    return GY_OK;
}

static int why_steps(struct why_run *run)
{
    double seconds;
    int64_t before = 0;
    for (run->step = -WHY_WARM; run->step < run->config.steps; run->step++) {
        if (run->loader && run->step == 0)
            before = gy_loader_ready_waits(run->loader, &seconds);
        GY_TRY(why_step(run));
    }
    run->why.waits = run->loader ? gy_loader_ready_waits(run->loader, &seconds) - before : 0;
    return GY_OK;
}

/* With learning rate 0: the weights stay as they are, and no loss can run away. */
static int why_steps_still(struct why_run *run)
{
    struct gyre_net *net = run->why.net;
    const struct gyre_schedule schedule = net->config.schedule;
    run->inner = net->backend;
    run->inner_self = net->backend_self;
    net->backend = &why_proxy;
    net->backend_self = run;
    net->config.schedule = (struct gyre_schedule){ .kind = GYRE_CONSTANT };
    const int status = why_steps(run);
    net->config.schedule = schedule;
    net->backend = run->inner;
    net->backend_self = run->inner_self;
    return status;
}

/* ---- sums ---- */

static int why_compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Seconds: the median over the steps with ns > 0. *least: the least of them; NULL: not wanted. */
static double why_median(struct why_run *run, const int64_t *ns, double *least)
{
    int count = 0;
    for (int i = 0; i < run->config.steps; i++)
        if (ns[i] > 0)
            run->sorted[count++] = ns[i];
    qsort(run->sorted, (size_t)count, sizeof *run->sorted, why_compare);
    if (least)
        *least = count ? (double)run->sorted[0] * 1e-9 : 0;
    return count ? (double)(run->sorted[(count - 1) / 2] + run->sorted[count / 2]) * 0.5e-9 : 0;
}

static void why_sum_op(struct why_run *run, int place, int program, const struct gy_op *op)
{
    struct gy_why *why = &run->why;
    struct gy_why_op *o = &why->ops[place];
    const double part = program == GY_UPDATE ? 1.0 / why->net->config.accumulate : 1.0;
    struct gy_why_kind *kind = &why->kind[gy_op_kind(op)];
    o->op = op;
    o->program = program;
    o->seconds = part * why_median(run, run->ns + (int64_t)place * run->config.steps, &o->least);
    o->work = gy_op_work(&why->net->plan, op);
    o->limit = gy_roofline(&o->work, &why->ceilings);
    kind->expected += part * gy_roofline_expect(op, &o->work, &why->ceilings);
    kind->ops++;
    kind->seconds += o->seconds;
    kind->limit += part * o->limit.seconds;
    why->in_ops += o->seconds;
    why->limit += part * o->limit.seconds;
    *(o->limit.compute >= o->limit.memory ? &why->compute : &why->memory) += o->seconds;
}

static void why_find_worst(struct gy_why *why)
{
    for (int n = 0; n < GY_WHY_WORST; n++) {
        int best = -1;
        for (int i = 0; i < why->op_count; i++) {
            int taken = 0;
            for (int k = 0; k < n; k++)
                taken |= why->worst[k] == i;
            if (!taken && (best < 0 || why->ops[i].seconds - why->ops[i].limit.seconds >
                                           why->ops[best].seconds - why->ops[best].limit.seconds))
                best = i;
        }
        if (best < 0)
            return;
        why->worst[why->worst_count++] = best;
    }
}

static void why_sum(struct why_run *run)
{
    struct gy_why *why = &run->why;
    int64_t all = 0, waited = 0;
    int place = 0;
    for (int p = GY_FORWARD; p <= GY_UPDATE; p++)
        for (int i = 0; i < why->net->plan.program[p].count; i++)
            why_sum_op(run, place++, p, &why->net->plan.program[p].ops[i]);
    for (int s = 0; s < run->config.steps; s++) {
        run->rest[s] = run->whole[s];
        for (int i = 0; i < why->op_count; i++)
            run->rest[s] -= run->ns[(int64_t)i * run->config.steps + s];
        all += run->whole[s] + run->wait[s];
        waited += run->wait[s];
    }
    why->outside = why_median(run, run->rest, NULL);
    why->waited = (double)waited * 1e-9 / run->config.steps;
    why->seconds = why->in_ops + why->outside + why->waited;
    why->images = (double)why->net->config.batch * run->config.steps / ((double)gy_max64(all, 1) * 1e-9);
    why_find_worst(why);
}

/* ---- what a change would bring ---- */

/* Seconds of a planned net's ops in a step. Each kind of op is assumed to come as near to its limit
 * as it did in the run. */
struct why_guess {
    const struct gy_why *why;
    struct gy_ceilings ceilings;
    double seconds, flops;
};

static void why_guess_net(void *user, const struct gyre_net *net)
{
    struct why_guess *guess = user;
    const struct gy_why *why = guess->why;
    for (int p = GY_FORWARD; p <= GY_UPDATE; p++)
        for (int i = 0; i < net->plan.program[p].count; i++) {
            const struct gy_op *op = &net->plan.program[p].ops[i];
            const struct gy_work work = gy_op_work(&net->plan, op);
            const struct gy_why_kind *kind = &why->kind[gy_op_kind(op)];
            const double share = kind->expected > 0 ? kind->seconds / kind->expected : 1;
            const double part = p == GY_UPDATE ? 1.0 / net->config.accumulate : 1.0;
            guess->seconds += part * share * gy_roofline_expect(op, &work, &guess->ceilings);
            guess->flops += part * work.flops;
        }
}

/* Does the loader set the pace: are batches often not ready? */
static int why_loader_lags(const struct gy_why *why)
{
    return 4 * why->waits >= why->steps && why->waited > 0.01 * why->seconds;
}

/* Adds a knob whose other value is in *config; the caller gives its reason. NULL: the change cannot
 * be planned. */
static struct gy_why_knob *why_try(struct gy_why *why, const char *name, const struct gyre_config *config,
                                   struct why_guess *guess)
{
    struct gyre_need need = { 0 };
    struct gy_error err = { 0 };
    if (why->knob_count == GY_WHY_KNOBS || gy_engine_measure(config, &need, why_guess_net, guess, &err) != GY_OK)
        return NULL;
    struct gy_why_knob *knob = &why->knob[why->knob_count++];
    const double scale = (double)config->batch / why->net->config.batch;
    knob->name = name;
    knob->bytes = need.host_bytes;
    const double computing = guess->seconds + why->outside * scale, before = why->in_ops + why->outside;
    /* a loader that was waited for gives no more than it gave */
    const double waits = why_loader_lags(why) ? why->seconds * scale - computing : why->waited * scale;
    knob->paced = why_loader_lags(why) && waits > 0;
    knob->images = config->batch / (computing + fmax(waits, 0));
    snprintf(knob->reason, sizeof knob->reason, "%.3g -> %.3g ms a step", before * 1e3, computing * 1e3);
    return knob;
}

static struct gyre_config why_config_now(const struct gy_why *why)
{
    struct gyre_config config = why->net->config;
    config.memory = (struct gyre_memory){ 0 };
    config.use_env = 0;
    return config;
}

static void why_try_batch(struct gy_why *why, int batch)
{
    struct gyre_config config = why_config_now(why);
    struct why_guess guess = { .why = why, .ceilings = why->ceilings };
    const int now = config.batch;
    config.batch = batch;
    struct gy_why_knob *knob = batch >= 1 && batch <= 1 << 20 ? why_try(why, "--batch", &config, &guess) : NULL;
    if (!knob)
        return;
    snprintf(knob->change, sizeof knob->change, "%d -> %d", now, batch);
    snprintf(knob->reason, sizeof knob->reason, "%.2fx the images take %.2fx the time in ops: weights, sums and small ops are shared",
             (double)batch / now, guess.seconds / why->in_ops);
}

static void why_try_dtype(struct gy_why *why)
{
    static const char *const names[] = { "f32", "bf16", "f16" };
    struct gyre_config config = why_config_now(why);
    struct why_guess guess = { .why = why, .ceilings = why->ceilings };
    const int now = config.dtype;
    const double ratio = why->ceilings.bf16 / why->ceilings.f32;
    config.dtype = now == GYRE_F32 ? GYRE_BF16 : GYRE_F32;
    if (!(why->net->caps.dtypes >> GY_BF16 & 1))
        return;
    struct gy_why_knob *knob = why_try(why, "--dtype", &config, &guess);
    if (!knob)
        return;
    snprintf(knob->change, sizeof knob->change, "%s -> %s", names[now], names[config.dtype]);
    if (config.dtype == GYRE_F32)
        snprintf(knob->reason, sizeof knob->reason, "twice the bytes, multiplications at %.0f instead of %.0f GFLOP/s",
                 why->ceilings.f32, why->ceilings.bf16);
    else if (ratio > 1.2)
        snprintf(knob->reason, sizeof knob->reason, "half the bytes, and this processor multiplies bf16 %.1fx as fast", ratio);
    else
        snprintf(knob->reason, sizeof knob->reason, "half the bytes, but this processor does not multiply bf16 faster");
}

static void why_try_recompute(struct gy_why *why)
{
    struct gyre_config config = why_config_now(why);
    struct why_guess guess = { .why = why, .ceilings = why->ceilings };
    const int now = config.recompute == 1;
    double flops = 0;
    config.recompute = !now;
    for (int i = 0; i < why->op_count; i++)
        flops += why->ops[i].work.flops;
    struct gy_why_knob *knob = why_try(why, "--recompute", &config, &guess);
    if (!knob)
        return;
    snprintf(knob->change, sizeof knob->change, now ? "on -> off" : "off -> on");
    snprintf(knob->reason, sizeof knob->reason, "%.2fx the arithmetic for %.2fx the memory%s", guess.flops / flops,
             (double)knob->bytes / (double)why->bytes, now ? "" : ": it gains where memory limits the batch");
}

/* Multiplications and the core's own caches grow with the threads; memory is shared. */
static void why_try_threads(struct gy_why *why)
{
    struct gyre_config config = why_config_now(why);
    struct why_guess guess = { .why = why, .ceilings = why->ceilings };
    const double ratio = (double)why->processors / why->threads;
    if (why->threads == why->processors) {
        struct gy_why_knob *knob = &why->knob[why->knob_count++];
        knob->name = "--threads";
        snprintf(knob->change, sizeof knob->change, "%d", why->threads);
        snprintf(knob->reason, sizeof knob->reason, "every processor computes already");
        return;
    }
    guess.ceilings.f32 *= fmax(ratio, 1);
    guess.ceilings.bf16 *= fmax(ratio, 1);
    guess.ceilings.cache_read *= fmax(ratio, 1);
    guess.ceilings.cache_copy *= fmax(ratio, 1);
    config.threads = why->processors;
    struct gy_why_knob *knob = why_try(why, "--threads", &config, &guess);
    if (!knob)
        return;
    snprintf(knob->change, sizeof knob->change, "%d -> %d", why->threads, why->processors);
    snprintf(knob->reason, sizeof knob->reason, ratio > 1 ? "multiplications go %.1fx as fast, memory does not"
                                                          : "more threads than processors take turns (%.1f of one each)", ratio);
}

static void why_try_loader(struct gy_why *why, int threads)
{
    if (!why->data || !why_loader_lags(why) || why->knob_count == GY_WHY_KNOBS)
        return;
    struct gy_why_knob *knob = &why->knob[why->knob_count++];
    knob->name = "--loader-threads";
    snprintf(knob->change, sizeof knob->change, "%d -> %d", threads, 2 * threads);
    knob->images = why->net->config.batch / fmax(why->seconds / 2, why->seconds - why->waited);
    snprintf(knob->reason, sizeof knob->reason, "at most: twice the images are read%s",
             threads + why->threads < why->processors ? "" : ", but on processors that the ops have too");
}

static void why_try_pack(struct gy_why *why)
{
    if (!why->data || why->knob_count == GY_WHY_KNOBS)
        return;
    struct gy_why_knob *knob = &why->knob[why->knob_count++];
    knob->name = "gyre pack";
    snprintf(knob->change, sizeof knob->change, strcmp(why->data, "packed") == 0 ? "packed" : "%s -> packed", why->data);
    if (strcmp(why->data, "packed") == 0) {
        snprintf(knob->reason, sizeof knob->reason, "the data are packed already");
        return;
    }
    if (!why_loader_lags(why)) {
        snprintf(knob->reason, sizeof knob->reason, "the loader keeps up: there is next to no waiting to remove");
        return;
    }
    knob->images = why->net->config.batch / (why->seconds - why->waited);
    snprintf(knob->reason, sizeof knob->reason, "at most, when images need no decoding and nothing waits for them any more");
}

static void why_try_all(struct gy_why *why, int loader_threads)
{
    why_try_batch(why, why->net->config.batch * 2);
    why_try_batch(why, why->net->config.batch / 2);
    why_try_dtype(why);
    why_try_recompute(why);
    why_try_threads(why);
    why_try_loader(why, loader_threads);
    why_try_pack(why);
}

/* ---- the call ---- */

static int why_take(struct why_run *run)
{
    struct gyre_net *net = run->why.net;
    const struct gy_alloc *alloc = gy_engine_scratch(net);
    const size_t steps = (size_t)run->config.steps, ops = (size_t)run->why.op_count;
    run->why.ops = gy_alloc_take(alloc, ops, sizeof *run->why.ops);
    run->ns = gy_alloc_take(alloc, ops * steps, sizeof *run->ns);
    run->whole = gy_alloc_take(alloc, 4 * steps, sizeof *run->whole);
    if (!run->why.ops || !run->ns || !run->whole)
        return GY_NOMEM(&net->error, "a table of times", ops * steps * sizeof *run->ns);
    run->wait = run->whole + steps;
    run->rest = run->wait + steps;
    run->sorted = run->rest + steps;
    return run->config.data ? why_open_loader(run) : why_noise(run);
}

static void why_give(struct why_run *run)
{
    struct gyre_net *net = run->why.net;
    const struct gy_alloc *alloc = gy_engine_scratch(net);
    const size_t steps = (size_t)run->config.steps, ops = (size_t)run->why.op_count;
    gyre_close_loader(run->loader);
    gy_noise_free(net, &run->noise);
    gy_alloc_free(alloc, run->whole, 4 * steps * sizeof *run->whole);
    gy_alloc_free(alloc, run->ns, ops * steps * sizeof *run->ns);
    gy_alloc_free(alloc, run->why.ops, ops * sizeof *run->why.ops);
}

static int why_ceilings(struct gy_why *why)
{
    struct gy_ceilings c;
    GY_TRY(gy_engine_ceilings(why->net, &c));
    gy_ceilings_merge(&why->ceilings, &c);
    return GY_OK;
}

static int why_measure(struct why_run *run)
{
    struct gy_why *why = &run->why;
    struct gyre_data_info info;
    GY_TRY(why_take(run));
    GY_TRY(why_ceilings(why));
    GY_TRY(why_steps_still(run));
    GY_TRY(why_ceilings(why));
    if (run->config.data)
        gyre_get_data_info(run->config.data, &info);
    why->data = run->config.data ? info.format : NULL;
    why->steps = run->config.steps;
    why->threads = why->net->caps.threads;
    why->processors = gy_thread_count_available();
    why->bytes = why->net->memory_bytes + why->net->arena.reserved + sizeof *why->net;
    why_sum(run);
    why_try_all(why, run->config.loader_threads);
    return GY_OK;
}

GYRE_API int gyre_print_why(struct gyre_net *net, const struct gyre_why_config *config, const struct gyre_sink *out)
{
    GY_TRY(gy_engine_given(net, out, "gyre_print_why: sink"));
    struct why_run run = { .why.net = net };
    struct gy_sink sink = gy_sink_of(out);
    GY_TRY(gy_engine_ready(net, "gyre_print_why", 1));
    GY_TRY(gy_engine_updated(net, "gyre_print_why"));
    GY_TRY(gy_parallel_alone(net, "gyre_print_why"));
    gyre_why_config_default(&run.config);
    if (config)
        GY_TRY(gy_config_take(&run.config, sizeof run.config, config, sizeof(size_t), "why config", &net->error));
    if (run.config.steps < 1 || run.config.steps > WHY_STEPS_MOST)
        return gy_engine_fail(net, GY_E_ARG, "steps is %d; it must be in 1 .. %d", run.config.steps, WHY_STEPS_MOST);
    for (int p = GY_FORWARD; p <= GY_UPDATE; p++)
        run.why.op_count += net->plan.program[p].count;
    const int status = why_measure(&run);
    if (status == GY_OK)
        gy_why_print(&run.why, run.config.json, run.config.all_ops, &sink);
    why_give(&run);
    GY_TRY(status);
    return sink.failed ? gy_engine_fail(net, GY_E_IO, "the page could not be written") : GYRE_OK;
}

#undef WHY_WARM
#undef WHY_STEPS_MOST
