/* SPDX-License-Identifier: MIT */
/* program.c: a plan as data. Emitters add tensors and ops; open.c and pipeline.c set addresses. */
#include "engine/plan/program.h"

static const char *const plan_region_names[GY_REGIONS] = { "param", "grad", "opt1", "opt2", "ema", "state",
                                                           "keep",  "in",   "out",  "act",  "levels", "land",
                                                           "slots" };
static const char *const plan_program_names[GY_PROGRAMS] = { "forward", "backward", "update", "eval" };

GY_INT const char *gy_region_name(int region) { return plan_region_names[region]; }
GY_INT const char *gy_program_name(int program) { return plan_program_names[program]; }

/* Doubles a table of the arena (the old piece stays there, unused). */
static void *plan_grow(struct gy_builder *b, void *old, int count, int *room, size_t elem_bytes)
{
    const int more = *room ? *room * 2 : 64;
    void *table = gy_arena_take(b->arena, (size_t)more, elem_bytes);
    if (!table) {
        b->status = GY_NOMEM(b->err, "a table of the plan", (size_t)more * elem_bytes);
        return NULL;
    }
    if (count)
        memcpy(table, old, (size_t)count * elem_bytes);
    *room = more;
    return table;
}

static int plan_count(struct gy_tensor *t, struct gy_error *err)
{
    t->count = 1;
    int bad = 0;
    for (int i = 0; i < t->dims; i++)
        bad |= gy_mul_count(t->count, t->dim[i], &t->count);
    bad |= t->count > INT64_MAX / 16 || gy_mul_size((size_t)t->count, gy_dtype_bytes(t->dtype), &t->bytes);
    if (bad)
        return GY_FAIL(err, GY_E_NET, "tensor '%s' of %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                       " elements is beyond 2^59", t->name, t->dim[0], t->dim[1], t->dim[2], t->dim[3]);
    return GY_OK;
}

GY_INT int gy_build_tensor(struct gy_builder *b, const char *name, int region, int dtype, int dims, int64_t d0, int64_t d1,
                           int64_t d2, int64_t d3)
{
    struct gy_plan *plan = b->plan;
    if (b->status != GY_OK)
        return -1;
    if (plan->tensor_count == plan->tensor_room) {
        struct gy_tensor *grown =
            plan_grow(b, plan->tensors, plan->tensor_count, &plan->tensor_room, sizeof *plan->tensors);
        if (!grown)
            return -1;
        plan->tensors = grown;
    }
    struct gy_tensor t = { .region = region, .dtype = dtype, .dims = dims, .dim = { d0, d1, d2, d3 },
                           .timeline = b->timeline, .first = -1, .last = -1 };
    t.name = gy_arena_text(b->arena, name, strlen(name));
    b->status = t.name ? plan_count(&t, b->err) : GY_NOMEM(b->err, "a tensor's name", strlen(name) + 1);
    if (b->status != GY_OK)
        return -1;
    plan->tensors[plan->tensor_count] = t;
    return plan->tensor_count++;
}

GY_INT struct gy_op *gy_build_op(struct gy_builder *b, int program, const struct gy_op *op)
{
    struct gy_program *p = &b->plan->program[program];
    if (b->status != GY_OK)
        return NULL;
    if (p->count == p->room) {
        struct gy_op *grown = plan_grow(b, p->ops, p->count, &p->room, sizeof *p->ops);
        if (!grown)
            return NULL;
        p->ops = grown;
    }
    p->ops[p->count] = *op;
    p->ops[p->count].u = b->uniform;
    return &p->ops[p->count++];
}

GY_INT void gy_plan_place(struct gy_plan *plan, void *const base[GY_REGIONS])
{
    for (int p = 0; p < GY_PROGRAMS; p++) {
        for (int i = 0; i < plan->program[p].count; i++) {
            struct gy_op *op = &plan->program[p].ops[i];
            for (int role = 0; role < GY_ROLES; role++) {
                const struct gy_tensor *t = op->tensor[role] < 0 ? NULL : &plan->tensors[op->tensor[role]];
                op->ptr[role] = t ? (unsigned char *)base[t->region] + t->offset : NULL;
            }
        }
    }
}
