/* SPDX-License-Identifier: MIT */
/* plan_compile.c: makes a plan from a graph. Permanent tensors come first: parameters in reverse
 * layer order with their gradients, then the batch. Programs, kernels of every op, and places
 * follow. The builder keeps the first error, so that emitters need not check. */
#include "engine/plan/plan_compile.h"
#include "engine/plan/emit.h"
#include "engine/plan/tuning_file.h"

/* A permanent tensor with its place: behind what the region holds already. */
static int plan_permanent(struct gy_builder *b, const char *name, int region, int dtype, int dims, int64_t d0, int64_t d1,
                          int64_t d2, int64_t d3)
{
    const int t = gy_build_tensor(b, name, region, dtype, dims, d0, d1, d2, d3);
    if (t >= 0) {
        size_t *end = &b->plan->region_bytes[region];
        b->plan->tensors[t].offset = *end;
        if (b->plan->tensors[t].bytes > SIZE_MAX / 4 - *end)
            b->status = GY_FAIL(b->err, GY_E_NOMEM, "region %s grows beyond the address space", gy_region_name(region));
        *end += gy_align_up(b->plan->tensors[t].bytes, GY_CACHE_LINE);
    }
    return t;
}

/* A parameter of another stage: ops that name it do not stay, and it has no place. */
static int plan_is_foreign(const struct gy_builder *b, const struct gy_param *p)
{
    const struct gy_stages *s = b->config->stages;
    return s && s->of && s->of[p->node] != s->mine;
}

/* Rows of a parameter on this rank; 1: others have the rest. */
static int plan_rows(const struct gy_builder *b, int i, int32_t *own, int32_t *most)
{
    const struct gy_stages *s = b->config->stages;
    *own = *most = b->graph->params[i].k;
    return s && s->rows && s->rows(b, i, own, most);
}

static void plan_param(struct gy_builder *b, int i)
{
    const struct gy_param *p = &b->graph->params[i];
    const int state = gy_param_is_state(p->kind);
    const int dims = p->kind == GY_PARAM_CONV_WEIGHT ? 4 : p->kind == GY_PARAM_LINEAR_WEIGHT ? 2 : 1;
    const int64_t second = dims == 2 ? p->c : p->r;
    int32_t own, rows;
    plan_rows(b, i, &own, &rows);
    struct gy_plan *plan = b->plan;
    const int foreign = plan_is_foreign(b, p), region = state ? GY_AT_STATE : GY_AT_PARAM;
    plan->param[i] = (foreign ? gy_build_tensor : plan_permanent)(b, p->name, foreign ? GY_AT_ACT : region, GY_F32, dims,
                                                                  rows, second, p->s, p->c);
    plan->grad[i] = plan->span_of[i] = -1;
    if (state || foreign || b->status != GY_OK)
        return;
    const int decays = p->kind == GY_PARAM_CONV_WEIGHT || p->kind == GY_PARAM_LINEAR_WEIGHT || b->config->decay_all;
    plan->span_of[i] = plan->span_count;
    plan->spans[plan->span_count++] =
        (struct gy_span){ .first = (int64_t)(plan->tensors[plan->param[i]].offset / sizeof(float)), .count = p->count / p->k * own,
                          .decay = decays ? 1.0f : 0.0f, .rate = 1.0f, .adapt = decays };
    if (!b->config->train)
        return;
    char name[300];
    snprintf(name, sizeof name, "grad.%s", p->name);
    plan->grad[i] = plan_permanent(b, name, GY_AT_GRAD, GY_F32, dims, rows, second, p->s, p->c);
}

static void plan_params(struct gy_builder *b)
{
    struct gy_plan *plan = b->plan;
    const size_t count = (size_t)b->graph->param_count + 1;
    plan->param = gy_arena_take(b->arena, count, sizeof(int));
    plan->grad = gy_arena_take(b->arena, count, sizeof(int));
    plan->span_of = gy_arena_take(b->arena, count, sizeof(int));
    plan->spans = gy_arena_take(b->arena, count, sizeof *plan->spans);
    if (!plan->param || !plan->grad || !plan->span_of || !plan->spans) {
        b->status = GY_NOMEM(b->err, "the plan's parameter tables", count * 32);
        return;
    }
    /* what ranks have parts of comes last: the rest has the same places on all */
    for (int parts = 0; parts < 2; parts++) {
        int32_t own, most;
        for (int i = b->graph->param_count - 1; i >= 0 && b->status == GY_OK; i--)
            if (plan_rows(b, i, &own, &most) == parts)
                plan_param(b, i);
        plan->common = parts ? plan->common : plan->span_count;
        plan->common_bytes = parts ? plan->common_bytes : plan->region_bytes[GY_AT_GRAD];
    }
}

static void plan_batch(struct gy_builder *b)
{
    const struct gy_graph *g = b->graph;
    struct gy_plan *plan = b->plan;
    const int64_t n = b->config->batch;
    const int mse = g->nodes[g->loss].layer == GY_LAYER_MSE;
    plan->input = plan_permanent(b, "samples", GY_AT_IN, b->config->u8 ? GY_U8 : GY_F32, 4, n, g->h, g->w, g->c);
    plan->label = plan_permanent(b, "labels", GY_AT_IN, GY_I32, 1, n, 1, 1, 1);
    plan->mix = plan_permanent(b, "mix", GY_AT_IN, GY_I32, 2, n, (int64_t)(sizeof(struct gy_mix) / 4), 1, 1);
    plan->target = mse ? plan_permanent(b, "targets", GY_AT_IN, GY_F32, 2, n, g->classes, 1, 1) : -1;
    plan->scores = plan_permanent(b, "scores", GY_AT_OUT, GY_F32, 2, n, g->classes, 1, 1);
    plan->loss = plan_permanent(b, "losses", GY_AT_OUT, GY_F32, 1, n, 1, 1, 1);
    plan->rank = plan_permanent(b, "ranks", GY_AT_OUT, GY_I32, 1, n, 1, 1, 1);
    plan->all_scores = plan->all_loss = plan->all_rank = -1;
    if (!b->config->train || b->config->shards <= 1)
        return;
    const int64_t all = n * b->config->shards;
    plan->all_scores = plan_permanent(b, "shards.scores", GY_AT_OUT, GY_F32, 2, all, g->classes, 1, 1);
    plan->all_loss = plan_permanent(b, "shards.losses", GY_AT_OUT, GY_F32, 1, all, 1, 1, 1);
    plan->all_rank = plan_permanent(b, "shards.ranks", GY_AT_OUT, GY_I32, 1, all, 1, 1, 1);
}

/* A tensor that is the whole region; the region's size is known already. */
static int plan_whole(struct gy_builder *b, int region)
{
    const int64_t count = (int64_t)(b->plan->region_bytes[GY_AT_PARAM] / sizeof(float));
    b->plan->region_bytes[region] = b->plan->region_bytes[GY_AT_PARAM];
    return gy_build_tensor(b, gy_region_name(region), region, GY_F32, 1, count, 1, 1, 1);
}

static struct gy_op plan_update_op(const struct gy_builder *b, int code)
{
    struct gy_op op = gy_op_make(code, "update", NULL);
    op.spans = b->plan->spans;
    op.span_count = b->plan->span_count;
    op.flags = (b->config->nesterov ? GY_F_NESTEROV : 0u) | (b->config->dtype == GY_F16 ? GY_F_SKIP : 0u);
    memcpy(op.f, b->config->f, sizeof op.f);
    return op;
}

static void plan_await(struct gy_builder *b, int bucket)
{
    const struct gy_bucket *of = &b->plan->buckets[bucket];
    struct gy_op op = gy_op_make(GY_OP_AWAIT, b->plan->tensors[of->tensor].name, NULL);
    op.tensor[GY_DW] = of->tensor;
    op.geom.n = b->plan->tensors[of->tensor].count;
    op.id = bucket;
    gy_build_op(b, GY_UPDATE, &op);
}

/* ORDER: enum gyre_optimizer_kind. norms: the rule asks for those of each layer. */
static const struct { int code; uint32_t flags; int norms; } plan_rules[] = {
    { GY_OP_SGD, 0, 0 }, { GY_OP_LARS, 0, 1 }, { GY_OP_ADAMW, 0, 0 }, { GY_OP_LAMB, 0, 1 },
    { GY_OP_LARS, GY_F_UNSCALED, 1 },
};
GY_STATIC_ASSERT(GY_COUNT(plan_rules) == GY_PLAN_RULES, plan_rules);

GY_INT int gy_plan_rule_norms(int optimizer) { return plan_rules[optimizer].norms; }

GY_INT int gy_plan_moments(int optimizer)
{
    return gy_op_row(plan_rules[optimizer].code)->reads >> GY_V & 1 ? 2 : 1;
}

/* The update: norms if somebody needs them, then one op over all parameters. Between ranks and
 * shards a bucket is updated while the next are on their way; norms need all. */
static void plan_update(struct gy_builder *b)
{
    const int rule = b->config->optimizer;
    struct gy_op op = plan_update_op(b, plan_rules[rule].code), norms = plan_update_op(b, GY_OP_NORMS);
    op.tensor[GY_W] = norms.tensor[GY_W] = plan_whole(b, GY_AT_PARAM);
    op.tensor[GY_DW] = norms.tensor[GY_DW] = plan_whole(b, GY_AT_GRAD);
    op.tensor[GY_M] = plan_whole(b, GY_AT_OPT1);
    op.flags |= plan_rules[rule].flags;
    op.tensor[GY_V] = gy_plan_moments(rule) == 2 ? plan_whole(b, GY_AT_OPT2) : -1;
    op.tensor[GY_EMA] = b->config->average ? plan_whole(b, GY_AT_EMA) : -1;
    if (plan_rules[rule].norms || b->config->f[GY_C_CLIP] > 0 || op.flags & GY_F_SKIP) {
        b->plan->norms = norms.tensor[GY_SUMS] = op.tensor[GY_SUMS] =
            plan_permanent(b, "norms", GY_AT_OUT, GY_F32, 1, 2 * (int64_t)b->plan->span_count + 2, 1, 1, 1);
        for (int k = 0; k < b->plan->bucket_count; k++)
            plan_await(b, k);
        gy_build_op(b, GY_UPDATE, &norms);
    }
    const int parts = op.tensor[GY_SUMS] < 0 ? b->plan->bucket_count : 0;
    for (int k = 0; k < parts; k++) {
        plan_await(b, k);
        op.spans = b->plan->spans + b->plan->buckets[k].first_span;
        op.span_count = b->plan->buckets[k].span_count;
        gy_build_op(b, GY_UPDATE, &op);
    }
    op.spans = parts ? b->plan->spans + b->plan->common : op.spans;
    op.span_count = parts ? b->plan->span_count - b->plan->common : op.span_count;
    if (op.span_count > 0)
        gy_build_op(b, GY_UPDATE, &op);
}

static void plan_backward(struct gy_emit *e, const int *segment_end, int segments)
{
    for (int s = segments - 1; s >= 0; s--) {
        const int first = s ? segment_end[s - 1] + 1 : 0, last = segment_end[s];
        const int kept = e->nodes[last].head;
        e->again = 1;
        e->program = GY_BACKWARD;
        for (int i = first; i <= last && s + 1 < segments; i++)
            if (i != kept)
                gy_emit_forward(e, i);
        for (int i = last; i >= first; i--)
            gy_emit_backward(e, i);
    }
}

static void plan_training(struct gy_builder *b)
{
    struct gy_emit e = { .b = b, .train = 1, .program = GY_FORWARD };
    int *segment_end = gy_arena_take(b->arena, (size_t)b->graph->node_count, sizeof *segment_end);
    if (!segment_end)
        b->status = GY_NOMEM(b->err, "the plan's segments", (size_t)b->graph->node_count * sizeof *segment_end);
    if (b->status == GY_OK)
        b->status = gy_emit_fuse(&e);
    if (b->status != GY_OK)
        return;
    const int segments = gy_emit_segments(&e, segment_end);
    gy_emit_cheap(&e, segment_end, segments);
    for (int i = 0; i < b->graph->node_count; i++)
        gy_emit_forward(&e, i);
    plan_backward(&e, segment_end, segments);
    gy_build_buckets(b);
    plan_update(b);
}

static void plan_evaluation(struct gy_builder *b)
{
    struct gy_emit e = { .b = b, .train = 0, .program = GY_EVAL };
    b->timeline = 1;
    if (b->status == GY_OK)
        b->status = gy_emit_fuse(&e);
    for (int i = 0; i < b->graph->node_count && b->status == GY_OK; i++)
        gy_emit_forward(&e, i);
}

/* Evaluation reads averaged weights if there are any: these replace parameters' tensors in it. */
static void plan_average(struct gy_builder *b)
{
    struct gy_program *eval = &b->plan->program[GY_EVAL];
    for (int i = 0; i < b->graph->param_count; i++) {
        if (b->plan->span_of[i] < 0)
            continue;
        const int plain = b->plan->param[i];
        const struct gy_tensor t = b->plan->tensors[plain];
        const int average = gy_build_tensor(b, t.name, GY_AT_EMA, GY_F32, t.dims, t.dim[0], t.dim[1], t.dim[2], t.dim[3]);
        if (average < 0)
            return;
        b->plan->tensors[average].offset = t.offset;
        for (int k = 0; k < eval->count; k++)
            for (int role = 0; role < GY_ROLES; role++)
                if (eval->ops[k].tensor[role] == plain)
                    eval->ops[k].tensor[role] = average;
    }
}

/* Shards are summed as a balanced tree: a sum waits on its level until its neighbour is there. */
static void plan_levels(struct gy_builder *b)
{
    size_t *bytes = b->plan->region_bytes, each;
    b->plan->levels = 0;
    while (b->config->train && b->config->shards > 1 && (b->config->shards - 1) >> b->plan->levels)
        b->plan->levels++;
    if (b->status == GY_OK && (gy_add_size(b->plan->common_bytes, bytes[GY_AT_STATE], &each) != 0 ||
                               gy_mul_size(each, (size_t)b->plan->levels, &bytes[GY_AT_LEVELS]) != 0))
        b->status = GY_FAIL(b->err, GY_E_NOMEM, "gradients of %d shards are beyond the address space", b->config->shards);
}

static void plan_programs(struct gy_builder *b)
{
    plan_params(b);
    if (b->status == GY_OK)
        plan_batch(b);
    if (b->status == GY_OK && b->config->train)
        plan_training(b);
    plan_evaluation(b);
    if (b->status == GY_OK && b->config->train && b->config->average)
        plan_average(b);
    b->plan->region_bytes[GY_AT_KEEP] = b->config->train ? b->plan->region_bytes[GY_AT_STATE] : 0;
    if (b->status == GY_OK && b->config->stages)
        b->status = b->config->stages->cut(b);
    plan_levels(b);
}

/* What an op needs beside its tensors lives as long as the op. */
static void plan_scratch(struct gy_builder *b, int program)
{
    b->timeline = program == GY_EVAL;
    for (int i = 0; i < b->plan->program[program].count; i++) {
        struct gy_op *op = &b->plan->program[program].ops[i];
        char name[300];
        snprintf(name, sizeof name, "%s.scratch", op->name);
        if (op->scratch_bytes)
            op->tensor[GY_SCRATCH] = gy_build_tensor(b, name, GY_AT_ACT, GY_U8, 1, (int64_t)op->scratch_bytes, 0, 0, 0);
    }
}

static int plan_prepare(struct gy_builder *b, const struct gy_backend *backend, void *self)
{
    for (int p = 0; p < GY_PROGRAMS; p++) {
        for (int i = 0; i < b->plan->program[p].count; i++) {
            struct gy_op *op = &b->plan->program[p].ops[i];
            if (op->code >= GY_OP_CODES)
                continue;
#ifdef GY_NO_TUNING
            GY_TRY(backend->prepare(self, op, b->arena, b->err));
#else
            GY_TRY(gy_tuned_prepare(b->config->tuned, backend, self, op, b->arena, b->err));
#endif
        }
        plan_scratch(b, p);
    }
    return b->status;
}

GY_INT int gy_plan_build(struct gy_plan *plan, const struct gy_graph *graph, const struct gy_plan_config *config,
                         const struct gy_uniform *uniform, const struct gy_backend *backend, void *backend_self,
                         struct gy_arena *arena, struct gy_error *err)
{
    memset(plan, 0, sizeof *plan);
    plan->norms = -1;
    struct gy_builder b = { .plan = plan, .graph = graph, .config = config, .uniform = uniform, .arena = arena, .err = err };
    plan_programs(&b);
    GY_TRY(b.status);
    GY_TRY(plan_prepare(&b, backend, backend_self));
    return gy_build_places(&b);
}
