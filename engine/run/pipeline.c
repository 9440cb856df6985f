/* SPDX-License-Identifier: MIT */
/* pipeline.c: steps of a stage; step.c calls them. It keeps the batches of an update until the last
 * one arrives. Then it walks the stage's list of forward and backward passes. For each it sets the
 * addresses of all ops to the memory of its micro-batch, in microseconds. Messages are ops of the
 * programs. Passes of one kind go in the order of the batches. So sums of gradients, running
 * statistics and random numbers are those of one process. */
#include "engine/base/clock.h"
#include "engine/run/parallel.h"
#include "engine/run/pipeline_stage.h"

static int pipe_is_last(const struct gy_pipe *p) { return p->stage + 1 == p->stages; }

/* Ops read and write the memory of this batch and slot. */
static void pipe_place(struct gyre_net *net, int batch, int slot)
{
    const struct gy_pipe *p = net->stage;
    net->base[GY_AT_IN] = net->seen[GY_AT_IN] = p->in + (size_t)batch * p->plan.in_bytes;
    net->base[GY_AT_OUT] = net->seen[GY_AT_OUT] = p->out + (size_t)slot * p->plan.out_bytes;
    net->base[GY_AT_SLOTS] = p->slots + (size_t)slot * p->plan.slot_bytes;
    gy_plan_place(&net->plan, net->base);
}

/* ---- messages ---- */

static int pipe_run(struct gyre_net *net, const struct gy_op *op)
{
    const struct gy_wire_calls *wire = gy_pipe_wire(net);
    if (op->code == GY_OP_SEND)
        return wire->send(net->stage->wire, op->id, op->ptr[GY_X], &net->error);
    return wire->take(net->stage->wire, op->id, op->ptr[GY_Y], &net->error);
}

static int pipe_poll(struct gyre_net *net)
{
    return net->config.job->peers->progress(net->config.job, &net->error);
}

/* The program will run `count` times more: its messages will come. */
static int pipe_expect(struct gyre_net *net, int program, int count)
{
    const struct gy_stage_plan *plan = &net->stage->plan;
    for (int m = 0; m < plan->message_count; m++)
        if (!plan->messages[m].sends && plan->messages[m].program == program)
            GY_TRY(gy_pipe_wire(net)->expect(net->stage->wire, m, count, &net->error));
    return GY_OK;
}

static int pipe_open_wire(struct gyre_net *net)
{
    struct gy_pipe *p = net->stage;
    const size_t count = (size_t)p->plan.message_count;
    struct gy_wire_message *const m = gy_alloc_take(&net->scratch, count + 1, sizeof *m);
    if (!m)
        return GY_NOMEM(&net->error, "a stage's messages", count * sizeof *m);
    for (size_t i = 0; i < count; i++) {
        const struct gy_stage_message *of = &p->plan.messages[i];
        m[i] = (struct gy_wire_message){ .sends = of->sends,
                                         .peer = gy_pipe_rank(net, of->peer, p->copy),
                                         .number = (uint32_t)of->number,
                                         .bytes = net->plan.tensors[of->tensor].bytes,
                                         .places = gy_stage_buffers(p->stage, of->peer) };
    }
    const int status =
        gy_pipe_wire(net)->open(&p->wire, net->config.job, m, (int)count, &net->error);
    gy_alloc_free(&net->scratch, m, (count + 1) * sizeof *m);
    return status;
}

static int pipe_open(struct gyre_net *net)
{
    struct gy_pipe *p = net->stage;
    if (!net->config.job)
        return GY_FAIL(&net->error, GY_E_ARG, "pipeline is %d and there is no job: each stage is a "
                       "rank of one", p->stages);
    GY_TRY(net->config.job->peers->progress(net->config.job,
                                            &net->error)); /* do ranks send messages at all? */
    p->in = net->base[GY_AT_IN];
    p->out = net->base[GY_AT_OUT];
    p->slots = net->base[GY_AT_SLOTS];
    net->mixed = 1; /* so that each place of a batch gets its own */
    return pipe_open_wire(net);
}

/* What a simulation of the schedule needs, and what it is compared with. */
static void pipe_report(const struct gyre_net *net)
{
    const struct gy_pipe *p = net->stage;
    const double spent = (double)p->spent * 1e-9, passes = (double)gy_max64(p->passes, 1) * 1e6;
    const double busy = (double)(p->busy[0] + p->busy[1]) * 1e-9;
    gy_log_write(&net->log, GY_LOG_INFO, "stage %d of %d: %.3f s in updates, bubble %.1f %%; a "
                 "micro-batch takes %.3f ms forward and %.3f ms backward", p->stage, p->stages,
                 spent, spent > 0 ? 100 * (1 - busy / spent) : 0, (double)p->busy[0] / passes,
                 (double)p->busy[1] / passes);
}

static void pipe_close(struct gyre_net *net)
{
    if (!net->stage->wire)
        return;
    if (net->stage->passes > 0)
        pipe_report(net);
    gy_pipe_wire(net)->close(net->stage->wire);
}

/* ---- an update ---- */

static int pipe_feed(struct gyre_net *net, const struct gyre_batch *batch, int k)
{
    struct gy_pipe *p = net->stage;
    pipe_place(net, k, 0);
    net->mixed = 1;
    GY_TRY(gy_engine_feed(net, batch));
    if (k < p->micros) {
        GY_TRY(gy_step_check_norms(net, batch->count));
        p->micro[k] = (struct gy_pipe_micro){ .absent = net->uniform.absent,
                                              .unnamed = net->unnamed,
                                              .counter = gy_parallel_counter(net) };
    }
    return GY_OK;
}

static int pipe_forward(struct gyre_net *net, int k)
{
    struct gy_pipe *p = net->stage;
    const int sharded = net->parallel.sharded;
    if (sharded || k == 0)
        GY_TRY(gy_step_keep_state(
            net, sharded && k > 0)); /* every shard begins with the same running statistics */
    GY_TRY(gy_engine_run(net, GY_FORWARD));
    if (pipe_is_last(p))
        GY_TRY(gy_step_results(net, 1, "the forward pass", &p->micro[k].result));
    if (sharded)
        gy_parallel_join(net, &p->micro[k].result);
    return GY_OK;
}

static int pipe_action(struct gyre_net *net, const struct gy_stage_action *a)
{
    struct gy_pipe *p = net->stage;
    const struct gy_pipe_micro *m = &p->micro[a->micro];
    pipe_place(net, a->micro, a->micro % p->plan.slots);
    net->uniform.absent = m->absent;
    net->uniform.step = m->counter;
    net->uniform.accumulate = !net->parallel.sharded && a->micro > 0;
    net->uniform.loss_scale = net->scale.now;
    net->unnamed = m->unnamed;
    net->parallel.shard = net->parallel.sharded ? a->micro : 0;
    const int64_t began = gy_clock_ns(), waited = gy_pipe_wire(net)->waited(p->wire);
    const int status = a->back ? gy_engine_run(net, GY_BACKWARD) : pipe_forward(net, a->micro);
    p->busy[a->back] += gy_clock_ns() - began - (gy_pipe_wire(net)->waited(p->wire) - waited);
    p->passes += a->back;
    net->parallel.shard = 0;
    return status;
}

/* What the copies have in common. */
static int pipe_join_copies(struct gyre_net *net)
{
    const size_t *bytes = net->plan.region_bytes;
    GY_TRY(gy_pipe_sum(net, net->base[GY_AT_GRAD], (int64_t)(bytes[GY_AT_GRAD] / sizeof(float))));
    if (!net->parallel.sharded)
        return GY_OK;
    GY_TRY(gy_pipe_sum(net, net->base[GY_AT_STATE], (int64_t)(bytes[GY_AT_STATE] / sizeof(float))));
    return gy_parallel_state(net);
}

static int pipe_update(struct gyre_net *net, struct gyre_result *result)
{
    struct gy_pipe *p = net->stage;
    GY_TRY(pipe_expect(net, GY_FORWARD, p->micros));
    GY_TRY(pipe_expect(net, GY_BACKWARD, p->micros));
    for (int i = 0; i < 2 * p->micros; i++)
        GY_TRY(pipe_action(net, &p->action[i]));
    GY_TRY(gy_pipe_wire(net)->drain(p->wire, &net->error));
    GY_TRY(gy_pipe_exchange(net));
    GY_TRY(gy_pipe_judge(net, result));
    return pipe_join_copies(net);
}

/* A message that did not come leaves the stages apart: nothing goes on. */
static int pipe_timed_update(struct gyre_net *net, struct gyre_result *result)
{
    const int64_t began = gy_clock_ns();
    const int status = pipe_update(net, result);
    net->stage->spent += gy_clock_ns() - began;
    if (status != GY_OK && status != GY_E_NONFINITE && status != GY_E_ARG)
        net->failed = 1;
    return status;
}

static int pipe_gradients(struct gyre_net *net, const struct gyre_batch *batch,
                          struct gyre_result *result)
{
    struct gy_pipe *p = net->stage;
    const int sharded = net->parallel.sharded, first = sharded ? 0 : net->pending,
              last = sharded ? p->micros : first + 1;
    if (!batch || (sharded && batch->count != p->micros * net->config.batch))
        return gy_engine_fail(net, GY_E_ARG, "batch of %d samples; %d shards of %d in %d "
                              "pipelines need %d", batch ? batch->count : 0, net->parallel.shards,
                              net->config.batch, p->copies, p->micros * net->config.batch);
    memset(result, 0, sizeof *result);
    p->done = p->scored = 0;
    for (int k = first; k < last; k++) {
        const struct gyre_batch part = gy_parallel_part(net, batch, sharded ? k : 0);
        const int status = pipe_feed(net, &part, k);
        net->parallel.shard = 0;
        GY_TRY(status);
    }
    return last < p->micros ? GY_OK : pipe_timed_update(net, result);
}

/* ---- evaluation ---- */

static int pipe_eval(struct gyre_net *net, const struct gyre_batch *batch,
                     struct gyre_result *result)
{
    struct gy_pipe *p = net->stage;
    memset(result, 0, sizeof *result);
    p->scored = 0;
    GY_TRY(pipe_expect(net, GY_EVAL, 1));
    GY_TRY(pipe_feed(net, batch, p->plan.batches));
    GY_TRY(gy_engine_run(net, GY_EVAL));
    if (pipe_is_last(p))
        GY_TRY(gy_step_results(net, 0, "the evaluation", result));
    p->scored = pipe_is_last(p);
    return gy_pipe_wire(net)->drain(p->wire, &net->error); /* sums do not send what waits */
}

static void pipe_aside(struct gyre_net *net)
{
    pipe_place(net, net->stage->plan.batches, 0);
}

/* Micro-batches of an update have a memory each, which the next one takes. */
static int pipe_scores(struct gyre_net *net)
{
    const struct gy_pipe *p = net->stage;
    if (p->scored)
        return GY_OK;
    return gy_engine_fail(net, GY_E_STATE, "gyre_get_scores: this is stage %d of a pipeline of %d; "
                          "the last one has those of the batch of gyre_eval", p->stage, p->stages);
}

static int pipe_test(const struct gyre_net *net) { return net->stage->copy == 0; }

GY_INT const struct gy_pipe_calls *gy_pipe_calls(void)
{
    static const struct gy_pipe_calls calls = { .open = pipe_open,
                                                .close = pipe_close,
                                                .gradients = pipe_gradients,
                                                .eval = pipe_eval,
                                                .aside = pipe_aside,
                                                .scores = pipe_scores,
                                                .result = gy_pipe_result,
                                                .run = pipe_run,
                                                .poll = pipe_poll,
                                                .has = gy_pipe_has,
                                                .row = gy_pipe_row,
                                                .save = gy_pipe_save,
                                                .share = gy_pipe_share,
                                                .test = pipe_test };
    return &calls;
}
