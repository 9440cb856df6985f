/* SPDX-License-Identifier: MIT */
/* step.c: runs steps: copies a batch into its place, walks programs, brings a few numbers back. A
 * step allocates and opens nothing. A device with memory of its own stays busy: the batch
 * goes up in a queue of its own during the last step's backward pass. Backward starts before its
 * step's results are back. A loss that is not finite changes no weights or statistics. */
#include "engine/run/parallel.h"
#include "engine/run/trace.h"
#include "engine/job/peers.h"

#define STEP_FAR 65536 /* pixels; a sample is moved by less */

/* One op; then what other ranks have sent meanwhile. */
static int step_op(struct gyre_net *net, int program, const struct gy_op *op)
{
    const int64_t began = gy_trace_clock(net);
    const int own = op->code >= GY_OP_CODES;
#ifndef GY_NO_RANKS
    if (op->code >= GY_OP_SHARE_STATS)
        GY_TRY(gy_parallel_share(net, op));
    else
#endif
    GY_TRY(own ? gy_parallel_run(net, op) : net->backend->run(net->backend_self, op));
    if (began)
        gy_trace_put(net, GY_TRACE_COMPUTE, op->name, gy_op_row(op->code)->name, gy_program_name(program), began, 0);
    if (net->pipe)
        return net->pipe->poll(net);
    return net->parallel.closed < net->parallel.opened ? gy_parallel_poll(net) : GY_OK;
}

/* The device failed, or another rank: that one's sentence stands already. */
static int step_failed(struct gyre_net *net, int program, int status)
{
    net->failed = 1;
    if (status == GY_E_PEER || status == GY_E_BUG)
        return status;
    return gy_engine_fail(net, status, "the device failed in the %s program; the log says how", gy_program_name(program));
}

GY_INT int gy_engine_skips(const struct gyre_net *net, const struct gy_op *op)
{
    return op->flags & GY_F_PARTIAL && net->uniform.absent == 0;
}

/* What the device calls the program: forward with absent samples is another one, with more ops. */
static int step_number(const struct gyre_net *net, int program)
{
    return program == GY_FORWARD && net->uniform.absent > 0 ? GY_PROGRAMS : program;
}

GY_INT int gy_engine_run(struct gyre_net *net, int program)
{
    const struct gy_program *p = &net->plan.program[program];
    const int number = step_number(net, program);
    gy_peers_note(net->config.job, program, 0, net->micro);
    const int meets = program == GY_UPDATE && gy_bridge_is(net); /* waits for ranks: no replay */
    int status = meets ? GY_OK : net->backend->begin(net->backend_self, number, &net->uniform);
    if (status == 1)
        return GY_OK;
    for (int i = 0; i < p->count && status == GY_OK; i++)
        status = gy_engine_skips(net, &p->ops[i]) ? GY_OK : step_op(net, program, &p->ops[i]);
    if (status == GY_OK && !meets)
        status = net->backend->end(net->backend_self, number);
    return status == GY_OK ? GY_OK : step_failed(net, program, status);
}

GY_INT int gy_engine_ceilings(struct gyre_net *net, struct gy_ceilings *out)
{
    const struct gy_backend_lab *const lab = net->backend->lab;
    const int status = lab ? lab->ceilings(net->backend_self, out) : GY_E_UNSUPPORTED;
    if (status == GY_OK)
        return GY_OK;
    return gy_engine_fail(net, status, status == GY_E_NOMEM ? "out of memory: buffers to measure the bandwidth with"
                                                         : "the speed of this device cannot be measured");
}

/* A tensor of the batch or of the results, where the host reads and writes it. */
static void *step_place(const struct gyre_net *net, int tensor)
{
    const struct gy_tensor *t = &net->plan.tensors[tensor];
    return (unsigned char *)net->seen[t->region] + t->offset;
}

/* Sends the batch from host to device: during running work to a landing place; from there in the
 * work's own queue, as that work may still read the batch before. */
static int step_send(struct gyre_net *net)
{
    const struct gy_backend *b = net->backend;
    void *const self = net->backend_self;
    const size_t bytes = net->plan.region_bytes[GY_AT_IN];
    if (!net->pinned)
        return GY_OK;
    GY_TRY(b->wait(self, GY_QUEUE_COPY, GY_MARK_TAKEN));
    GY_TRY(b->copy_on(self, GY_QUEUE_COPY, net->base[GY_AT_LAND], net->seen[GY_AT_IN], bytes, GY_COPY_TO_DEVICE));
    GY_TRY(b->mark(self, GY_QUEUE_COPY, GY_MARK_SENT));
    GY_TRY(b->wait(self, GY_QUEUE_WORK, GY_MARK_SENT));
    GY_TRY(b->copy(self, net->base[GY_AT_IN], net->base[GY_AT_LAND], bytes, GY_COPY_ON_DEVICE));
    return b->mark(self, GY_QUEUE_WORK, GY_MARK_TAKEN);
}

/* Fetches one tensor of the results to the host; it is there when the host waited for the queue. */
static int step_fetch(struct gyre_net *net, int queue, int tensor)
{
    const struct gy_tensor *t = &net->plan.tensors[tensor];
    if (!net->pinned)
        return GY_OK;
    return net->backend->copy_on(net->backend_self, queue, step_place(net, tensor), (unsigned char *)net->base[t->region] + t->offset,
                                 t->bytes, GY_COPY_TO_HOST);
}

static int step_fetch_scores(struct gyre_net *net)
{
    GY_TRY(gy_engine_checked(net, step_fetch(net, GY_QUEUE_WORK, net->plan.scores), "the evaluation"));
    return gy_engine_checked(net, net->backend->sync(net->backend_self), "the evaluation");
}

/* Asks for loss and rank of every sample. They come while the device goes on. */
static int step_ask_results(struct gyre_net *net)
{
    const struct gy_backend *b = net->backend;
    void *const self = net->backend_self;
    GY_TRY(b->mark(self, GY_QUEUE_WORK, GY_MARK_FORWARD));
    GY_TRY(b->wait(self, GY_QUEUE_COPY, GY_MARK_FORWARD));
    GY_TRY(step_fetch(net, GY_QUEUE_COPY, net->plan.loss));
    GY_TRY(step_fetch(net, GY_QUEUE_COPY, net->plan.rank));
    return b->mark(self, GY_QUEUE_COPY, GY_MARK_RESULTS);
}

/* Keeps one tensor of the present shard's results beside those of the others. */
static void step_keep_part(const struct gyre_net *net, int part, int all)
{
    const size_t bytes = net->plan.tensors[part].bytes;
    if (all >= 0)
        memcpy((unsigned char *)step_place(net, all) + (size_t)net->parallel.shard * bytes, step_place(net, part), bytes);
}

/* Waits for them, and keeps those of a shard. */
static int step_await_results(struct gyre_net *net, const char *what)
{
    const struct gy_plan *plan = &net->plan;
    GY_TRY(gy_engine_checked(net, net->backend->reach(net->backend_self, GY_MARK_RESULTS), what));
    if (net->unnamed)
        memset(step_place(net, plan->rank), 0xff, plan->tensors[plan->rank].bytes); /* -1 */
    step_keep_part(net, plan->scores, plan->all_scores);
    step_keep_part(net, plan->loss, plan->all_loss);
    step_keep_part(net, plan->rank, plan->all_rank);
    return GY_OK;
}

/* The present shard's first sample in the caller's batch. */
static int32_t step_first(const struct gyre_net *net) { return (int32_t)(net->parallel.shard * net->config.batch); }

static int step_check_mix(struct gyre_net *net, const struct gyre_batch *batch)
{
    const int32_t first = step_first(net);
    for (int i = 0; i < batch->count; i++) {
        const struct gyre_mix *m = &batch->mix[i];
        const int64_t partner = (int64_t)m->partner - first;
        const int box = m->h0 >= 0 && m->w0 >= 0 && m->h0 <= m->h1 && m->w0 <= m->w1 && m->h1 <= net->graph.h &&
                        m->w1 <= net->graph.w;
        if (partner < 0 || partner >= batch->count || !box)
            return gy_engine_fail(net, GY_E_ARG, "batch.mix[%d]: partner %d, box [%d,%d) x [%d,%d); they must be in samples %d .. %d and "
                                  "an image of %d x %d", first + i, m->partner, m->h0, m->h1, m->w0, m->w1, first,
                                  first + batch->count - 1, net->graph.h, net->graph.w);
        if (m->dy <= -STEP_FAR || m->dy >= STEP_FAR || m->dx <= -STEP_FAR || m->dx >= STEP_FAR)
            return gy_engine_fail(net, GY_E_ARG, "batch.mix[%d]: moved by %d, %d; it must be by less than %d", first + i, m->dy, m->dx, STEP_FAR);
        if (!(m->inside >= 0 && m->inside <= 1 && m->label >= 0 && m->label <= 1) || m->flip < 0 || m->flip > 1) /* NaN, too */
            return gy_engine_fail(net, GY_E_ARG, "batch.mix[%d]: inside %g, label %g, flip %d; the first two must be in 0 .. 1, flip 0 or 1", first + i,
                                  (double)m->inside, (double)m->label, m->flip);
    }
    return GY_OK;
}

static int step_check(struct gyre_net *net, const struct gyre_batch *batch)
{
    if (!batch->x)
        return gy_engine_fail(net, GY_E_ARG, "batch.x is NULL");
    if (batch->count < 1 || batch->count > net->config.batch)
        return gy_engine_fail(net, GY_E_ARG, "batch of %d samples; the net was opened for 1 .. %d", batch->count, net->config.batch);
    for (int i = 0; i < batch->count && batch->label; i++)
        if (batch->label[i] < -1 || batch->label[i] >= net->graph.classes)
            return gy_engine_fail(net, GY_E_ARG, "label %d of sample %d is not in -1 .. %d", batch->label[i], step_first(net) + i,
                                  net->graph.classes - 1);
    return batch->mix ? step_check_mix(net, batch) : GY_OK;
}

/* Labels for the loss: -1 for none. A sample with only a target has label 0, but no rank. */
static void step_labels(struct gyre_net *net, const struct gyre_batch *batch)
{
    int32_t *label = step_place(net, net->plan.label);
    const int targets = batch->target && net->plan.target >= 0;
    net->unnamed = targets && !batch->label;
    for (int i = 0; i < net->config.batch; i++) {
        label[i] = i >= batch->count ? -1 : batch->label ? batch->label[i] : targets ? 0 : -1;
    }
}

static void step_targets(struct gyre_net *net, const struct gyre_batch *batch)
{
    if (net->plan.target < 0)
        return;
    float *target = step_place(net, net->plan.target);
    const int32_t *label = step_place(net, net->plan.label);
    const int32_t classes = net->graph.classes;
    memset(target, 0, net->plan.tensors[net->plan.target].bytes);
    if (batch->target) {
        memcpy(target, batch->target, (size_t)batch->count * (size_t)classes * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < batch->count; i++)
        if (label[i] >= 0)
            target[i * classes + label[i]] = 1;
}

static void step_mix(struct gyre_net *net, const struct gyre_batch *batch)
{
    struct gy_mix *mix = step_place(net, net->plan.mix);
    if (!batch->mix && !net->mixed)
        return;
    for (int i = 0; i < net->config.batch; i++) {
        mix[i] = (struct gy_mix){ .partner = i, .inside = 1, .label = 1 };
        if (batch->mix && i < batch->count)
            memcpy(&mix[i], &batch->mix[i], sizeof mix[i]);
        mix[i].partner -= batch->mix && i < batch->count ? step_first(net) : 0;
    }
    net->mixed = batch->mix != NULL;
}

GY_INT int gy_engine_feed(struct gyre_net *net, const struct gyre_batch *batch)
{
    GY_TRY(step_check(net, batch));
    const struct gy_tensor *x = &net->plan.tensors[net->plan.input];
    const size_t sample = x->bytes / (size_t)net->config.batch, used = sample * (size_t)batch->count;
    unsigned char *place = step_place(net, net->plan.input);
    GY_TRY(gy_engine_checked(net, net->backend->reach(net->backend_self, GY_MARK_SENT), "sending the last batch"));
    memcpy(place, batch->x, used);
    memset(place + used, 0, x->bytes - used);
    net->uniform.absent = net->config.batch - batch->count;
    step_labels(net, batch);
    step_targets(net, batch);
    step_mix(net, batch);
    return gy_engine_checked(net, step_send(net), "sending the batch");
}

/* In training a batch norm needs two values a channel, as in PyTorch; with sync_bn full batches. */
GY_INT int gy_step_check_norms(struct gyre_net *net, int32_t count)
{
    const int ranks = net->config.sync_bn ? net->parallel.ranks : 1;
    for (int i = 0; i < net->graph.node_count; i++) {
        const struct gy_node *node = &net->graph.nodes[i];
        const struct gy_geom *g = &node->geom;
        if (node->layer != GY_LAYER_BN)
            continue;
        if (ranks > 1 && count < net->config.batch)
            return gy_engine_fail(net, GY_E_ARG, "%d of %d samples with sync_bn on %d ranks: layer '%.80s' needs as many of each", count,
                                  net->config.batch, ranks, node->name);
        if ((int64_t)count * ranks * g->h * g->w < 2)
            return gy_engine_fail(net, GY_E_ARG, "%d sample of %d x %d: layer '%.80s' is a batch norm, which needs more than 1 value a channel to train",
                                  count, g->h, g->w, node->name);
    }
    return GY_OK;
}

/* Results of the last forward pass, summed in the order of samples. train: samples without a label
 * count, too. Their loss is 0 or NaN, which would enter the gradients of weights. */
static void step_collect(const struct gyre_net *net, int train, struct gyre_result *result)
{
    const int32_t *label = step_place(net, net->plan.label), *rank = step_place(net, net->plan.rank);
    const float *loss = step_place(net, net->plan.loss);
    double sum = 0;
    memset(result, 0, sizeof *result);
    for (int i = 0; i < net->config.batch; i++) {
        sum += label[i] >= 0 || train ? (double)loss[i] : 0;
        if (label[i] < 0)
            continue;
        result->labelled++;
        result->top1 += rank[i] == 0;
        result->top5 += rank[i] >= 0 && rank[i] < 5;
    }
    result->loss = result->labelled ? sum / result->labelled : sum;
    result->step = net->updates;
}

GY_INT int gy_step_results(struct gyre_net *net, int train, const char *what,
                           struct gyre_result *result)
{
    GY_TRY(gy_engine_checked(net, step_ask_results(net), what));
    GY_TRY(step_await_results(net, what));
    step_collect(net, train, result);
    return GY_OK;
}

GY_INT int gy_step_keep_state(struct gyre_net *net, int restore)
{
    void *state = net->base[GY_AT_STATE], *kept = net->base[GY_AT_KEEP];
    const size_t bytes = net->plan.region_bytes[GY_AT_KEEP];
    const int status = net->backend->copy(net->backend_self, restore ? state : kept, restore ? kept : state, bytes, GY_COPY_ON_DEVICE);
    return gy_engine_checked(net, status, "keeping the running statistics");
}

/* Is the loss, of all ranks' samples, one to learn from? Else nothing of the call remains. */
GY_INT int gy_step_judge(struct gyre_net *net, const struct gyre_result *result)
{
    if (isfinite(result->loss) && result->labelled > 0)
        return GY_OK;
    GY_TRY(gy_parallel_settle(net));
    GY_TRY(gy_step_keep_state(net, 1));
    if (isfinite(result->loss))
        return gy_engine_fail(net, GY_E_ARG, "no sample has a label: there is nothing to learn from");
    return gy_engine_fail(net, GY_E_NONFINITE, "the loss is %g at step %" PRId64, result->loss, net->updates);
}

static int step_backward(struct gyre_net *net)
{
    const int status = gy_scale_settle(net);
    if (status != GY_OK)
        GY_TRY(gy_step_keep_state(net, 1));
    GY_TRY(status);
    net->uniform.loss_scale = net->scale.now;
    GY_TRY(gy_engine_run(net, GY_BACKWARD)); /* a GPU goes on when the next batch is fed */
    const int fetched = gy_parallel_fetch(net);
    return fetched == GY_OK ? GY_OK : step_failed(net, GY_BACKWARD, fetched);
}

/* Forward and backward of a shard, or of the whole batch. late: other shards and ranks are asked
 * after it whether all is well. A device with queues begins backward before the results come. It
 * does not where it adds to gradients, as a loss that is not finite must leave these alone. */
static int step_shard(struct gyre_net *net, const struct gyre_batch *batch, int add, int late, struct gyre_result *result)
{
    GY_TRY(gy_engine_feed(net, batch));
    GY_TRY(gy_step_check_norms(net, batch->count));
    net->uniform.step = gy_parallel_counter(net);
    net->uniform.accumulate = add;
    GY_TRY(gy_step_keep_state(net, net->parallel.shard > 0)); /* each shard begins with the same */
    GY_TRY(gy_engine_run(net, GY_FORWARD));
    const int early = net->pinned && !add && (late || net->parallel.ranks == 1);
    GY_TRY(gy_engine_checked(net, step_ask_results(net), "the forward pass"));
    if (early)
        GY_TRY(step_backward(net));
    GY_TRY(step_await_results(net, "the forward pass"));
    step_collect(net, 1, result);
    gy_parallel_join(net, result);
    if (!late) {
        GY_TRY(gy_parallel_result(net, result));
        GY_TRY(gy_step_judge(net, result));
    }
    return early ? GY_OK : step_backward(net);
}

/* Forward and backward in training mode. add: adds gradients. train: an update may follow. */
static int step_gradients(struct gyre_net *net, const struct gyre_batch *batch, int add, int train, struct gyre_result *result)
{
    struct gy_parallel *p = &net->parallel;
    const int late = gy_parallel_is_late(net, train);
    if (net->pipe && net->pipe->gradients)
        return net->pipe->gradients(net, batch, result);
    if (p->sharded && (!batch || batch->count != p->mine * net->config.batch))
        return gy_engine_fail(net, GY_E_ARG, "batch of %d samples; %d shards of %d on %d ranks need %d", batch ? batch->count : 0, p->shards,
                              net->config.batch, p->ranks, p->mine * net->config.batch);
    int status = GY_OK;
    for (int s = 0; s < p->mine && status == GY_OK; s++) {
        const struct gyre_batch part = batch ? gy_parallel_part(net, batch, s) : (struct gyre_batch){ 0 };
        p->begin = train && s + 1 == p->mine && net->pending + 1 >= net->config.accumulate;
        status = step_shard(net, &part, add, late, result);
        if (status == GY_E_ARG && s > 0)
            GY_TRY(gy_step_keep_state(net, 1));
    }
    p->shard = 0;
    GY_TRY(status);
    if (late) {
        GY_TRY(gy_parallel_result(net, result));
        GY_TRY(gy_step_judge(net, result));
        GY_TRY(gy_parallel_state(net));
    }
    net->weight = (add ? net->weight : 0) + (double)result->labelled / net->config.batch;
    net->grad_weight = (add ? net->grad_weight : 0) + (double)p->results[1] / net->config.batch;
    return GY_OK;
}

/* Gradients were divided by the batch. The update takes the mean over all labelled samples. */
GY_INT void gy_engine_rates(struct gyre_net *net)
{
    struct gy_uniform *u = &net->uniform;
    const double t = (double)net->updates + 1;
    u->lr = gy_schedule_rate(&net->config.schedule, net->updates);
    u->grad_scale = 1.0f / (net->scale.now * (float)net->weight);
    u->bias1 = (float)(1 - pow((double)net->config.optimizer.beta1, t));
    u->bias2 = (float)(1 - pow((double)net->config.optimizer.beta2, t));
    u->keep = gy_average_keep(net->config.optimizer.ema, net->updates);
}

static int step_update(struct gyre_net *net)
{
    gy_engine_rates(net);
    if (net->config.job && net->config.job->elastic) /* no half of an update, if one is lost */
        GY_TRY(gy_parallel_settle(net));
    GY_TRY(gy_engine_run(net, GY_UPDATE));
    net->pending = 0;
    net->grad_weight = net->weight;
    net->updates++;
    return gy_scale_updated(net);
}

GYRE_API int gyre_step(struct gyre_net *net, const struct gyre_batch *batch, struct gyre_result *result)
{
    GY_TRY(gy_engine_given(net, batch, "gyre_step: batch"));
    struct gyre_result r;
    GY_TRY(gy_engine_ready(net, "gyre_step", 1));
    GY_TRY(step_gradients(net, batch, net->pending > 0, 1, &r));
    net->micro++;
    r.rate = gy_schedule_rate(&net->config.schedule, net->updates);
    if (++net->pending >= net->config.accumulate)
        GY_TRY(step_update(net));
    r.step = net->updates;
    r.skipped_steps = net->scale.skipped;
    r.loss_scale = net->uniform.loss_scale;
    if (result)
        *result = r;
    return GYRE_OK;
}

GYRE_API int gyre_gradient(struct gyre_net *net, const struct gyre_batch *batch, struct gyre_result *result)
{
    GY_TRY(gy_engine_given(net, batch, "gyre_gradient: batch"));
    struct gyre_result r;
    GY_TRY(gy_engine_ready(net, "gyre_gradient", 1));
    GY_TRY(gy_parallel_alone(net, "gyre_gradient"));
    GY_TRY(gy_engine_updated(net, "gyre_gradient"));
    GY_TRY(step_gradients(net, batch, 0, 0, &r));
    GY_TRY(gy_step_keep_state(net, 1));
    if (result)
        *result = r;
    return GYRE_OK;
}

GYRE_API int gyre_eval(struct gyre_net *net, const struct gyre_batch *batch, struct gyre_result *result)
{
    GY_TRY(gy_engine_given(net, batch, "gyre_eval: batch"));
    struct gyre_result r;
    GY_TRY(gy_engine_ready(net, "gyre_eval", 0));
    if (net->pipe && net->pipe->eval)
        return net->pipe->eval(net, batch, result ? result : &r);
    GY_TRY(gy_engine_feed(net, batch));
    GY_TRY(gy_engine_run(net, GY_EVAL));
    return gy_step_results(net, 0, "the evaluation", result ? result : &r);
}

GYRE_API int gyre_predict(struct gyre_net *net, const struct gyre_batch *batch, float *scores)
{
    GY_TRY(gy_engine_given(net, batch, "gyre_predict: batch"));
    GY_TRY(gy_engine_given(net, scores, "gyre_predict: scores"));
    if (net->stage)
        GY_TRY(gy_parallel_alone(net, "gyre_predict"));
    GY_TRY(gyre_eval(net, batch, NULL));
    GY_TRY(step_fetch_scores(net));
    const size_t count = (size_t)batch->count * (size_t)net->graph.classes;
    memcpy(scores, step_place(net, net->plan.scores), count * sizeof *scores);
    return GYRE_OK;
}

GYRE_API int gyre_get_scores(struct gyre_net *net, const float **scores, const float **loss, const int32_t **rank)
{
    if (!net)
        return GYRE_E_ARG;
    if (net->pipe && net->pipe->scores)
        GY_TRY(net->pipe->scores(net));
    if (scores)
        GY_TRY(step_fetch_scores(net));
    const struct gy_plan *plan = &net->plan;
    const int parts = plan->all_scores >= 0;
    if (scores)
        *scores = step_place(net, parts ? plan->all_scores : plan->scores);
    if (loss)
        *loss = step_place(net, parts ? plan->all_loss : plan->loss);
    if (rank)
        *rank = step_place(net, parts ? plan->all_rank : plan->rank);
    return GYRE_OK;
}
