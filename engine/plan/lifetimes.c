/* SPDX-License-Identifier: MIT */
/* lifetimes.c: places tensors that live only for a time, in three steps. First it finds how long
 * each lives. Then tensors share a buffer where an op may write its output over an input that dies
 * there. Last it places buffers, largest first, each at the lowest offset free of buffers alive at
 * the same time. A buffer is a small share larger than its tensor; two halves still fit into a
 * whole's place. Without the share, sizes are often whole pages, and rows of an op's tensors lie
 * equally far from a page's start. A processor then mistakes a load from one for a load of what was
 * just stored to the other (4K aliasing). */
#include "engine/plan/program.h"

#define PLACE_SHARE 1024 /* a tensor's bytes / PLACE_SHARE are left free behind it */

/* A piece of memory and the time during which it is taken. */
struct gy_buffer {
    size_t bytes, offset;
    int first, last, timeline;
};

struct gy_placer {
    struct gy_plan *plan;
    struct gy_buffer *buffers;
    int *order;   /* buffers by falling size */
    int *placed;  /* those that have an offset, by it */
    int count;
};

static const int place_timeline[2][GY_PROGRAMS + 1] = { { GY_FORWARD, GY_BACKWARD, GY_UPDATE, -1, -1 },
                                                         { GY_EVAL, -1, -1, -1, -1 } };

static void place_touch(struct gy_plan *plan, int tensor, int time)
{
    struct gy_tensor *t = &plan->tensors[tensor];
    if (t->first < 0)
        t->first = time;
    t->last = time;
}

static void place_lifetimes(struct gy_plan *plan, int timeline)
{
    int time = 0;
    for (const int *p = place_timeline[timeline]; *p >= 0; p++)
        for (int i = 0; i < plan->program[*p].count; i++, time++)
            for (int role = 0; role < GY_ROLES; role++)
                if (plan->program[*p].ops[i].tensor[role] >= 0)
                    place_touch(plan, plan->program[*p].ops[i].tensor[role], time);
}

/* Lets an output of op take over the buffer of an input that dies in it. */
static void place_in_place(struct gy_placer *pl, const struct gy_op *op, int time)
{
    const struct gy_op_row *row = gy_op_row(op->code);
    for (int i = 0; i < 2 && row->in_place[i].out >= 0; i++) {
        const int out = op->tensor[row->in_place[i].out], in = op->tensor[row->in_place[i].in];
        if (out < 0 || in < 0)
            continue;
        struct gy_tensor *a = &pl->plan->tensors[in], *b = &pl->plan->tensors[out];
        struct gy_buffer *taken = &pl->buffers[a->buffer];
        if (a->region != GY_AT_ACT || b->region != GY_AT_ACT || a->bytes != b->bytes || b->first != time ||
            b->buffer != out || taken->last != time)
            continue;
        b->buffer = a->buffer;
        taken->last = b->last;
        pl->buffers[out].bytes = 0;
    }
}

static void place_merge(struct gy_placer *pl, int timeline)
{
    int time = 0;
    for (const int *p = place_timeline[timeline]; *p >= 0; p++)
        for (int i = 0; i < pl->plan->program[*p].count; i++, time++)
            place_in_place(pl, &pl->plan->program[*p].ops[i], time);
}

static int place_meet(const struct gy_buffer *a, const struct gy_buffer *b)
{
    return a->timeline == b->timeline && a->first <= b->last && b->first <= a->last;
}

/* The lowest gap among the first `count` buffers that are alive at the same time. */
static size_t place_gap(const struct gy_placer *pl, int count, const struct gy_buffer *b)
{
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        const struct gy_buffer *other = &pl->buffers[pl->placed[i]];
        if (!place_meet(b, other))
            continue;
        if (other->offset >= at && other->offset - at >= b->bytes)
            return at;
        if (other->offset + other->bytes > at)
            at = other->offset + other->bytes;
    }
    return at;
}

static void place_one(struct gy_placer *pl, int rank)
{
    struct gy_buffer *b = &pl->buffers[pl->order[rank]];
    int i = rank;
    b->offset = place_gap(pl, rank, b);
    for (; i > 0 && pl->buffers[pl->placed[i - 1]].offset > b->offset; i--)
        pl->placed[i] = pl->placed[i - 1];
    pl->placed[i] = pl->order[rank];
    if (b->offset + b->bytes > pl->plan->region_bytes[GY_AT_ACT])
        pl->plan->region_bytes[GY_AT_ACT] = b->offset + b->bytes;
}

/* Insertion into falling size; ties keep the order of making, so that plans are reproducible. */
static void place_sort(struct gy_placer *pl)
{
    for (int b = 0; b < pl->plan->tensor_count; b++) {
        if (pl->buffers[b].bytes == 0)
            continue;
        int i = pl->count++;
        for (; i > 0 && pl->buffers[pl->order[i - 1]].bytes < pl->buffers[b].bytes; i--)
            pl->order[i] = pl->order[i - 1];
        pl->order[i] = b;
    }
}

/* No offset exceeds the sum of all buffers. If that is a size_t, so is every sum of this file. */
static int place_open(struct gy_placer *pl, struct gy_error *err)
{
    struct gy_plan *plan = pl->plan;
    size_t sum = 0;
    for (int i = 0; i < plan->tensor_count; i++) {
        struct gy_tensor *t = &plan->tensors[i];
        t->buffer = i;
        if (t->region != GY_AT_ACT || t->first < 0)
            continue;
        pl->buffers[i] = (struct gy_buffer){ .bytes = gy_align_up(t->bytes + t->bytes / PLACE_SHARE, GY_CACHE_LINE), .first = t->first,
                                             .last = t->last, .timeline = t->timeline };
        if (t->bytes > SIZE_MAX / 4 || gy_add_size(sum, pl->buffers[i].bytes, &sum) != 0 || sum > (size_t)INT64_MAX)
            return GY_FAIL(err, GY_E_NOMEM, "out of memory: the activations need more bytes than 63 bits count");
    }
    plan->act_sum_bytes = (int64_t)sum;
    return GY_OK;
}

GY_INT int gy_build_places(struct gy_builder *b)
{
    const size_t count = (size_t)b->plan->tensor_count + 1;
    struct gy_placer pl = { .plan = b->plan };
    pl.buffers = gy_arena_take(b->arena, count, sizeof *pl.buffers);
    pl.order = gy_arena_take(b->arena, count, sizeof *pl.order);
    pl.placed = gy_arena_take(b->arena, count, sizeof *pl.placed);
    if (!pl.buffers || !pl.order || !pl.placed)
        return GY_NOMEM(b->err, "the plan's buffers", count * sizeof *pl.buffers);
    for (int timeline = 0; timeline < 2; timeline++)
        place_lifetimes(b->plan, timeline);
    GY_TRY(place_open(&pl, b->err));
    for (int timeline = 0; timeline < 2; timeline++)
        place_merge(&pl, timeline);
    place_sort(&pl);
    for (int i = 0; i < pl.count; i++)
        place_one(&pl, i);
    for (int i = 0; i < b->plan->tensor_count; i++)
        if (b->plan->tensors[i].region == GY_AT_ACT)
            b->plan->tensors[i].offset = pl.buffers[b->plan->tensors[i].buffer].offset;
    return GY_OK;
}
