/* SPDX-License-Identifier: MIT */
/* stages.c: extracts one stage's programs from the whole net's. It walks the ops in order and knows
 * of each tensor which stage made it and which stages have it. Where an op reads what its stage
 * lacks, a message carries it there. All stages walk alike, so they count messages alike. */
#include "engine/plan/stages.h"

struct stages_tensor {
    int home;      /* stage that wrote it last; -1: none */
    int program;   /* in which */
    uint64_t have; /* stages that have it */
    unsigned used; /* programs of this stage that touch it, as bits */
};

struct stages_walk {
    struct gy_builder *b;
    struct gy_stage_plan *plan;
    struct stages_tensor *tensors;
    int number; /* messages so far, of all stages */
};

GY_INT uint64_t gy_stages_reads(const struct gy_op *op)
{
    const struct gy_op_row *row = gy_op_row(op->code);
    const uint64_t adds = ((op->flags & GY_F_ADD_DX) != 0 ? 1ull << GY_DX : 0) |
                          ((op->flags & GY_F_ADD_DRES) != 0 ? 1ull << GY_DRES : 0);
    return row->reads | adds | (op->flags & GY_F_PARTIAL ? row->writes : 0);
}

static int stages_grow(struct stages_walk *w)
{
    struct gy_stage_plan *p = w->plan;
    const int room = p->message_room ? 2 * p->message_room : 16;
    if (p->message_count < p->message_room)
        return GY_OK;
    struct gy_stage_message *table = gy_arena_take(w->b->arena, (size_t)room, sizeof *table);
    if (!table)
        return GY_NOMEM(w->b->err, "a stage's messages", (size_t)room * sizeof *table);
    if (p->message_count)
        memcpy(table, p->messages, (size_t)p->message_count * sizeof *table);
    p->messages = table;
    p->message_room = room;
    return GY_OK;
}

static int stages_put(struct stages_walk *w, int t, int program, int sends, int peer)
{
    struct gy_stage_plan *p = w->plan;
    const struct gy_tensor *tensor = &w->b->plan->tensors[t];
    struct gy_op op = gy_op_make(sends ? GY_OP_SEND : GY_OP_RECV, tensor->name, NULL);
    GY_TRY(stages_grow(w));
    op.id = p->message_count;
    op.tensor[sends ? GY_X : GY_Y] = t;
    op.geom = (struct gy_geom){ .n = tensor->dim[0],
                                .h = 1,
                                .w = 1,
                                .c = (int32_t)(tensor->count / gy_max64(1, tensor->dim[0])),
                                .p = 1,
                                .q = 1,
                                .r = 1,
                                .s = 1,
                                .stride_h = 1,
                                .stride_w = 1,
                                .groups = 1 };
    op.geom.k = op.geom.c;
    op.dtype = tensor->dtype;
    p->messages[p->message_count++] = (struct gy_stage_message){
        .number = w->number, .sends = sends, .peer = peer, .program = program, .tensor = t
    };
    w->tensors[t].used |= 1u << program;
    gy_build_op(w->b, program, &op);
    return w->b->status;
}

/* Tensor t to stage `to`, in the program that makes it. Activations go up, gradients down. */
static int stages_send(struct stages_walk *w, int t, int to)
{
    struct stages_tensor *s = &w->tensors[t];
    const int from = s->home, up = s->program != GY_BACKWARD, mine = w->plan->base.mine;
    if (up ? to < from : to > from)
        return GY_FAIL(w->b->err, GY_E_BUG,
                       "stages: tensor '%.80s' would go from stage %d to stage %d in program %s",
                       w->b->plan->tensors[t].name, from, to, gy_program_name(s->program));
    s->have |= 1ull << to;
    if (from == mine)
        GY_TRY(stages_put(w, t, s->program, 1, to));
    if (to == mine)
        GY_TRY(stages_put(w, t, s->program, 0, from));
    w->number++;
    return GY_OK;
}

static int stages_op(struct stages_walk *w, int program, const struct gy_op *op)
{
    const int engine = op->code >= GY_OP_CODES,
              stage = engine ? w->plan->base.mine : w->plan->of[op->id];
    const uint64_t reads = gy_stages_reads(op), writes = gy_op_row(op->code)->writes;
    for (int role = 0; role < GY_ROLES && !engine; role++) {
        const int t = op->tensor[role];
        if (t >= 0 && reads >> role & 1 && w->tensors[t].home >= 0 &&
            !(w->tensors[t].have >> stage & 1))
            GY_TRY(stages_send(w, t, stage));
    }
    for (int role = 0; role < GY_ROLES && !engine; role++) {
        const int t = op->tensor[role];
        if (t < 0 || w->b->plan->tensors[t].region != GY_AT_ACT)
            continue;
        if (writes >> role & 1)
            w->tensors[t] =
                (struct stages_tensor){ stage, program, 1ull << stage, w->tensors[t].used };
        if (stage == w->plan->base.mine)
            w->tensors[t].used |= 1u << program;
    }
    if (stage == w->plan->base.mine)
        gy_build_op(w->b, program, op);
    return w->b->status;
}

static int stages_program(struct stages_walk *w, int program)
{
    const struct gy_program old = w->b->plan->program[program];
    w->b->plan->program[program] = (struct gy_program){ 0 };
    for (int i = 0; i < old.count; i++)
        GY_TRY(stages_op(w, program, &old.ops[i]));
    return GY_OK;
}

/* What both passes touch moves into the slots. As in places, a little is left free behind each, so
 * that sizes of whole pages do not put rows of all tensors equally far from a page's begin. */
static int stages_slots(struct stages_walk *w)
{
    struct gy_stage_plan *p = w->plan;
    size_t *bytes = w->b->plan->region_bytes, end = 0;
    for (int t = 0; t < w->b->plan->tensor_count; t++) {
        struct gy_tensor *tensor = &w->b->plan->tensors[t];
        const unsigned both = 1u << GY_FORWARD | 1u << GY_BACKWARD;
        if (tensor->region != GY_AT_ACT || (w->tensors[t].used & both) != both)
            continue;
        tensor->region = GY_AT_SLOTS;
        tensor->offset = end;
        if (gy_add_size(end, gy_align_up(tensor->bytes + tensor->bytes / 1024, GY_CACHE_LINE),
                        &end))
            return GY_FAIL(w->b->err, GY_E_NOMEM, "a stage's slots are beyond the address space");
    }
    p->slot_bytes = gy_align_up(end, 4096);
    p->in_bytes = bytes[GY_AT_IN] = gy_align_up(bytes[GY_AT_IN], 4096);
    p->out_bytes = bytes[GY_AT_OUT] = gy_align_up(bytes[GY_AT_OUT], 4096);
    if (gy_mul_size(p->slot_bytes, (size_t)p->slots, &bytes[GY_AT_SLOTS]) ||
        gy_mul_size(p->out_bytes, (size_t)p->slots, &bytes[GY_AT_OUT]) ||
        gy_mul_size(p->in_bytes, (size_t)p->batches + 1, &bytes[GY_AT_IN]))
        return GY_FAIL(w->b->err, GY_E_NOMEM, "%d slots of %zu bytes are beyond the address space",
                       p->slots, p->slot_bytes);
    return GY_OK;
}

GY_INT int gy_stages_cut(struct gy_builder *b)
{
    struct stages_walk w = { .b = b, .plan = (struct gy_stage_plan *)(uintptr_t)b->config->stages };
    w.tensors = gy_arena_take(b->arena, (size_t)b->plan->tensor_count + 1, sizeof *w.tensors);
    if (!w.tensors)
        return GY_NOMEM(b->err, "the stages' tensors",
                        (size_t)b->plan->tensor_count * sizeof *w.tensors);
    for (int t = 0; t < b->plan->tensor_count; t++)
        w.tensors[t].home = -1;
    GY_TRY(stages_program(&w, GY_FORWARD));
    GY_TRY(stages_program(&w, GY_BACKWARD));
    GY_TRY(stages_program(&w, GY_EVAL));
    return stages_slots(&w);
}
