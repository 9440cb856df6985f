/* SPDX-License-Identifier: MIT */
/* bucket.c: cuts gradients into buckets, which ranks sum while backward goes on. Gradients lie in
 * reverse layer order. So those that backward makes in turn are neighbours, and a bucket is one
 * piece of their region. An op behind the one that completes a bucket begins its sum. The update
 * program waits for the sums in the same order. Sums go element by element: the cut changes no bit.
 *
 * Buckets have no priorities. A step ends with the update of all weights, so the next forward pass
 * begins when the last sum is complete. Between hosts up to four sums run at once and share the
 * links. On one host the ranks themselves add, when the last of them has made a bucket. Any order
 * other than that of production could only leave links idle. */
#include "engine/plan/program.h"

static int bucket_tensor(struct gy_builder *b, int number, size_t from, size_t to)
{
    char name[32];
    snprintf(name, sizeof name, "bucket %d", number);
    const int t = gy_build_tensor(b, name, GY_AT_GRAD, GY_F32, 1, (int64_t)((to - from) / sizeof(float)), 1, 1, 1);
    if (t >= 0)
        b->plan->tensors[t].offset = from;
    return t;
}

/* Spans and gradients stand in the same order. */
static void bucket_cut(struct gy_builder *b, size_t bytes)
{
    struct gy_plan *plan = b->plan;
    size_t from = 0;
    int first = 0, span = 0;
    for (int i = b->graph->param_count - 1; i >= 0 && b->status == GY_OK; i--) {
        if (plan->span_of[i] < 0 || plan->span_of[i] >= plan->common)
            continue;
        const struct gy_tensor *t = &plan->tensors[plan->grad[i]];
        const size_t to = t->offset + gy_align_up(t->bytes, GY_CACHE_LINE);
        span++;
        if (to - from < bytes && span < plan->common)
            continue;
        plan->buckets[plan->bucket_count] = (struct gy_bucket){ bucket_tensor(b, plan->bucket_count, from, to), first, span - first, -1 };
        plan->bucket_count++;
        from = to;
        first = span;
    }
}

/* The bucket of a gradient. */
static struct gy_bucket *bucket_find(const struct gy_plan *plan, const struct gy_tensor *gradient)
{
    int k = 0;
    while (k + 1 < plan->bucket_count && plan->tensors[plan->buckets[k + 1].tensor].offset <= gradient->offset)
        k++;
    return &plan->buckets[k];
}

static void bucket_find_ready(const struct gy_plan *plan)
{
    const struct gy_program *p = &plan->program[GY_BACKWARD];
    for (int i = 0; i < p->count; i++)
        for (int role = 0; role < GY_ROLES; role++) {
            const int t = gy_op_row(p->ops[i].code)->writes >> role & 1 ? p->ops[i].tensor[role] : -1;
            if (t >= 0 && plan->tensors[t].region == GY_AT_GRAD)
                bucket_find(plan, &plan->tensors[t])->ready = i;
        }
}

/* By the time at which they are complete: few, and nearly so already. */
static void bucket_sort(const struct gy_plan *plan)
{
    for (int k = 1; k < plan->bucket_count; k++) {
        const struct gy_bucket one = plan->buckets[k];
        int i = k;
        for (; i > 0 && plan->buckets[i - 1].ready > one.ready; i--)
            plan->buckets[i] = plan->buckets[i - 1];
        plan->buckets[i] = one;
    }
}

static void bucket_put(struct gy_builder *b, int bucket)
{
    const int t = b->plan->buckets[bucket].tensor;
    struct gy_op op = gy_op_make(GY_OP_BUCKET, b->plan->tensors[t].name, NULL);
    op.tensor[GY_DW] = t;
    op.geom.n = b->plan->tensors[t].count;
    op.id = bucket;
    gy_build_op(b, GY_BACKWARD, &op);
}

/* The backward program once more, with an op behind the last writer of each bucket. */
static void bucket_insert(struct gy_builder *b)
{
    struct gy_program *p = &b->plan->program[GY_BACKWARD];
    const struct gy_program old = *p;
    int next = 0;
    *p = (struct gy_program){ 0 };
    for (int i = -1; i < old.count; i++) {
        if (i >= 0)
            gy_build_op(b, GY_BACKWARD, &old.ops[i]);
        while (next < b->plan->bucket_count && b->plan->buckets[next].ready == i)
            bucket_put(b, next++);
    }
}

GY_INT void gy_build_buckets(struct gy_builder *b)
{
    const size_t bytes = b->config->bucket_bytes ? b->config->bucket_bytes : GY_BUCKET_BYTES;
    if (b->status != GY_OK || (b->config->ranks == 1 && b->config->shards == 1))
        return;
    b->plan->buckets = gy_arena_take(b->arena, (size_t)b->plan->span_count + 1, sizeof *b->plan->buckets);
    if (!b->plan->buckets) {
        b->status = GY_NOMEM(b->err, "the plan's buckets of gradients", ((size_t)b->plan->span_count + 1) * sizeof *b->plan->buckets);
        return;
    }
    bucket_cut(b, bytes);
    if (b->status != GY_OK)
        return;
    bucket_find_ready(b->plan);
    bucket_sort(b->plan);
    bucket_insert(b);
}
