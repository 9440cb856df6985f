/* SPDX-License-Identifier: MIT */
/* split.c: turns each op of a split layer into ops of slices with messages among them. In turn d a
 * rank works on the images of the rank d before it, and that rank's messages arrive in the same
 * turn. Inputs that arrive for forward are kept for the weights' gradient, as in a whole layer. */
#include "engine/plan/split.h"

/* What is known of a layer from an op before: tensors by turn. */
struct gy_split_node {
    int x, dy;   /* the tensors that input and output come from; -1: none */
    int *input;  /* [ranks] */
    int *output; /* [ranks * mine]: gradients of the output, by slice */
};

struct split_walk {
    struct gy_builder *b;
    struct gy_split *s;
    struct gy_split_node *node;
    const struct gy_op *op; /* which is cut */
    int program;
};

#define SPLIT_LEVELS 32

/* Sums of 1, 2, 4 ... tensors that wait for their neighbour. */
struct split_tree {
    int level[SPLIT_LEVELS];
    int count;
};

GY_INT int32_t gy_split_column(int32_t columns, int slices, int slice)
{
    return (int32_t)((int64_t)columns * slice / slices);
}

/* ---- who has what ---- */

/* The first column of a rank; with rank == ranks the number of columns. */
static int32_t split_of_rank(const struct gy_split *s, int32_t columns, int rank)
{
    return gy_split_column(columns, s->slices, rank * s->mine);
}

static int32_t split_columns(const struct gy_split *s, int32_t columns, int rank)
{
    return split_of_rank(s, columns, rank + 1) - split_of_rank(s, columns, rank);
}

static const struct gy_split *split_of(const struct gy_builder *b)
{
    return (const struct gy_split *)(const void *)b->config->stages;
}

GY_INT int gy_split_rows(const struct gy_builder *b, int param, int32_t *own, int32_t *most)
{
    const struct gy_split *s = split_of(b);
    const struct gy_param *p = &b->graph->params[param];
    if (!b->graph->nodes[p->node].split || s->ranks == 1)
        return 0;
    *own = split_columns(s, p->k, s->rank);
    *most = *own;
    for (int r = 0; r < s->ranks; r++)
        *most = (int32_t)gy_max64(*most, split_columns(s, p->k, r));
    return 1;
}

/* In turn d: whose images are worked on, and who works on those of this rank. */
static int split_before(const struct split_walk *w, int d)
{
    return (w->s->rank - d + w->s->ranks) % w->s->ranks;
}
static int split_behind(const struct split_walk *w, int d)
{
    return (w->s->rank + d) % w->s->ranks;
}

static int32_t split_slice(const struct split_walk *w, int k)
{
    const int32_t columns = w->op->geom.k;
    return gy_split_column(columns, w->s->slices, w->s->first + k + 1) -
           gy_split_column(columns, w->s->slices, w->s->first + k);
}

/* The first column of slice k among this rank's columns. */
static int32_t split_begin(const struct split_walk *w, int k)
{
    return gy_split_column(w->op->geom.k, w->s->slices, w->s->first + k) -
           split_of_rank(w->s, w->op->geom.k, w->s->rank);
}

/* ---- tensors and ops ---- */

static int split_tensor(const struct split_walk *w, const char *what, int32_t columns)
{
    char name[300];
    snprintf(name, sizeof name, "%s.%s", w->op->name, what);
    return gy_build_tensor(w->b, name, GY_AT_ACT, w->op->dtype, 4, w->op->geom.n, 1, 1, columns);
}

/* Rows of a parameter or its gradient: those of slice k. */
static int split_rows(const struct split_walk *w, int whole, int k)
{
    if (whole < 0 || w->b->status != GY_OK)
        return -1;
    const struct gy_tensor t = w->b->plan->tensors[whole];
    const int64_t each = t.dims == 1 ? 1 : t.count / t.dim[0];
    const int part = gy_build_tensor(w->b, t.name, t.region, t.dtype, t.dims, split_slice(w, k),
                                     t.dims == 1 ? 1 : t.dim[1], t.dim[2], t.dim[3]);
    if (part >= 0)
        w->b->plan->tensors[part].offset =
            t.offset + (size_t)split_begin(w, k) * (size_t)each * sizeof(float);
    return part;
}

static void split_emit(const struct split_walk *w, const struct gy_op *op)
{
    gy_build_op(w->b, w->program, op);
}

static struct gy_op split_op(const struct split_walk *w, int kind, int x, int y)
{
    struct gy_op op = gy_op_make(GY_OP_SPLIT, w->op->name, NULL);
    op.dtype = w->op->dtype;
    op.geom = (struct gy_geom) { .n = w->op->geom.n,
                                 .r = kind,
                                 .s = 1,
                                 .stride_h = 1,
                                 .stride_w = 1,
                                 .dil_h = 1,
                                 .dil_w = 1,
                                 .groups = 1 };
    op.tensor[GY_X] = x;
    op.tensor[GY_Y] = y;
    return op;
}

static int32_t split_width(const struct split_walk *w, int tensor)
{
    if (tensor < 0)
        return 0;
    const struct gy_tensor *t = &w->b->plan->tensors[tensor];
    return (int32_t)(t->count / gy_max64(1, t->dim[0]));
}

/* Columns of tensors, each with an image a row. */
static void split_copy(const struct split_walk *w, int x, int32_t from, int y, int32_t to,
                       int32_t count)
{
    struct gy_op op = split_op(w, GY_SPLIT_COPY, x, y);
    op.geom.c = op.geom.k = count;
    op.geom.h = split_width(w, x);
    op.geom.w = split_width(w, y);
    op.geom.p = from;
    op.geom.q = to;
    split_emit(w, &op);
}

/* x to one rank, and y from another, in turn d. */
static void split_pass(const struct split_walk *w, int d, int x, int to, int y, int from)
{
    struct gy_op op = split_op(w, 0, x, y);
    op.code = GY_OP_PASS;
    op.id = w->s->number + d;
    op.geom.c = op.geom.k = op.geom.h = split_width(w, x);
    op.geom.w = split_width(w, y);
    op.geom.p = to;
    op.geom.q = from;
    split_emit(w, &op);
}

static void split_passed(const struct split_walk *w) { w->s->number += w->s->ranks; }

/* The sum of two, in memory of its own. */
static int split_add(const struct split_walk *w, int a, int b)
{
    struct gy_op op = gy_op_make(GY_OP_ADD, w->op->name, &w->op->geom);
    op.dtype = w->op->dtype;
    op.geom.k = op.geom.c;
    op.tensor[GY_X] = a;
    op.tensor[GY_RES] = b;
    op.tensor[GY_Y] = split_tensor(w, "sum", op.geom.c);
    split_emit(w, &op);
    return op.tensor[GY_Y];
}

static void split_push(const struct split_walk *w, struct split_tree *t, int tensor)
{
    int l = 0;
    for (; t->count >> l & 1; l++)
        tensor = split_add(w, t->level[l], tensor);
    t->level[l] = tensor;
    t->count++;
}

static int split_total(const struct split_walk *w, const struct split_tree *t)
{
    int sum = -1;
    for (int l = 0; t->count >> l; l++)
        if (t->count >> l & 1)
            sum = sum < 0 ? t->level[l] : split_add(w, t->level[l], sum);
    return sum;
}

/* ---- forward ---- */

static const int *split_inputs(const struct split_walk *w)
{
    struct gy_split_node *n = w->node;
    const int x = w->op->tensor[GY_X];
    if (n->x == x)
        return n->input;
    n->x = n->input[0] = x;
    for (int d = 1; d < w->s->ranks; d++) {
        n->input[d] = split_tensor(w, "x", w->op->geom.c);
        split_pass(w, d, x, split_behind(w, d), n->input[d], split_before(w, d));
    }
    split_passed(w);
    return n->input;
}

/* Slice k of an op of the layer: its own weights. */
static struct gy_op split_sliced(const struct split_walk *w, int k)
{
    struct gy_op op = *w->op;
    op.geom.k = split_slice(w, k);
    op.tensor[GY_W] = split_rows(w, w->op->tensor[GY_W], k);
    op.tensor[GY_BIAS] = split_rows(w, w->op->tensor[GY_BIAS], k);
    return op;
}

/* This rank's columns of the images x, to the columns of y from `to` on. */
static void split_product(const struct split_walk *w, int x, int y, int32_t to)
{
    for (int k = 0; k < w->s->mine; k++) {
        struct gy_op op = split_sliced(w, k);
        const int whole = split_width(w, y) == op.geom.k;
        op.tensor[GY_X] = x;
        op.tensor[GY_Y] = whole ? y : split_tensor(w, "slice", op.geom.k);
        split_emit(w, &op);
        if (!whole)
            split_copy(w, op.tensor[GY_Y], 0, y, to + split_begin(w, k), op.geom.k);
    }
}

/* Columns go to the ranks of their images. */
static void split_columns_home(const struct split_walk *w, const int *x, int y)
{
    const struct gy_split *s = w->s;
    const int32_t k = w->op->geom.k;
    split_product(w, x[0], y, split_of_rank(s, k, s->rank));
    for (int d = 1; d < s->ranks; d++) {
        const int to = split_before(w, d), from = split_behind(w, d);
        const int out = split_tensor(w, "out", split_columns(s, k, s->rank));
        const int in = split_tensor(w, "in", split_columns(s, k, from));
        split_product(w, x[d], out, 0);
        split_pass(w, d, out, to, in, from);
        split_copy(w, in, 0, y, split_of_rank(s, k, from), split_columns(s, k, from));
    }
    split_passed(w);
}

/* A batch norm behind the layer is an op of its own here, or takes its own statistics. */
static void split_norm(const struct split_walk *w, const struct gy_op *whole, int y)
{
    struct gy_op op = gy_op_make(GY_OP_BN_STATS, whole->name, &whole->geom);
    op.geom.c = op.geom.k;
    op.dtype = whole->dtype;
    op.tensor[GY_X] = y;
    op.tensor[GY_STATS] = whole->tensor[GY_STATS];
    if (whole->tensor[GY_STATS] >= 0)
        split_emit(w, &op);
    if (whole->tensor[GY_SCALE] < 0)
        return;
    op.code = GY_OP_BN_APPLY;
    op.act = whole->act;
    op.tensor[GY_STATS] = -1;
    op.tensor[GY_SCALE] = whole->tensor[GY_SCALE];
    op.tensor[GY_SHIFT] = whole->tensor[GY_SHIFT];
    op.tensor[GY_RES] = whole->tensor[GY_RES];
    op.tensor[GY_Y] = whole->tensor[GY_Y];
    split_emit(w, &op);
}

static void split_forward(struct split_walk *w)
{
    const struct gy_op *const whole = w->op;
    const int scaled = whole->tensor[GY_SCALE] >= 0;
    struct gy_op op = *whole;
    struct split_walk plain = *w;
    plain.op = &op;
    op.tensor[GY_STATS] = op.tensor[GY_SCALE] = op.tensor[GY_SHIFT] = op.tensor[GY_RES] = -1;
    op.act = scaled ? GY_ACT_NONE : whole->act;
    const int y = scaled ? split_tensor(w, "y", whole->geom.k) : whole->tensor[GY_Y];
    split_columns_home(&plain, split_inputs(&plain), y);
    split_norm(w, whole, y);
}

/* ---- backward ---- */

/* Gradients of this rank's columns, for the images of turn d, by slice. */
static void split_cut_output(const struct split_walk *w, int d, int dy, int32_t from)
{
    int *const slice = w->node->output + d * w->s->mine;
    for (int k = 0; k < w->s->mine; k++) {
        const int32_t columns = split_slice(w, k);
        if (split_width(w, dy) == columns) {
            slice[k] = dy;
            continue;
        }
        slice[k] = split_tensor(w, "dy", columns);
        split_copy(w, dy, from + split_begin(w, k), slice[k], 0, columns);
    }
}

static const int *split_outputs(const struct split_walk *w)
{
    const struct gy_split *s = w->s;
    const int dy = w->op->tensor[GY_DY];
    const int32_t k = w->op->geom.k;
    if (w->node->dy == dy)
        return w->node->output;
    w->node->dy = dy;
    split_cut_output(w, 0, dy, split_of_rank(s, k, s->rank));
    for (int d = 1; d < s->ranks; d++) {
        const int to = split_behind(w, d);
        const int out = split_tensor(w, "dy.out", split_columns(s, k, to));
        const int in = split_tensor(w, "dy.in", split_columns(s, k, s->rank));
        split_copy(w, dy, split_of_rank(s, k, to), out, 0, split_columns(s, k, to));
        split_pass(w, d, out, to, in, split_before(w, d));
        split_cut_output(w, d, in, 0);
    }
    split_passed(w);
    return w->node->output;
}

/* Sums of a gradient that wait for others. */
static int split_waiting(const struct split_walk *w, int64_t count)
{
    const int64_t levels = (int64_t)w->s->ranks * w->s->levels + w->s->turns;
    if (levels == 0)
        return -1;
    const int t = gy_build_tensor(w->b, "split.sums", GY_AT_SLOTS, GY_F32, 2, levels, count, 1, 1);
    if (t < 0)
        return -1;
    size_t *const end = &w->b->plan->region_bytes[GY_AT_SLOTS];
    w->b->plan->tensors[t].offset = *end;
    *end += gy_align_up(w->b->plan->tensors[t].bytes, GY_CACHE_LINE);
    return t;
}

/* A gradient of one rank's images, before it is summed. */
struct split_part {
    int scratch, waiting, to;
};

static struct split_part split_part(const struct split_walk *w, int to)
{
    struct split_part p = { -1, -1, to };
    if (to < 0)
        return p;
    const struct gy_tensor t = w->b->plan->tensors[to];
    p.scratch = gy_build_tensor(w->b, t.name, GY_AT_ACT, GY_F32, t.dims, t.dim[0], t.dim[1],
                                t.dim[2], t.dim[3]);
    p.waiting = split_waiting(w, t.count);
    return p;
}

static void split_clear(const struct split_walk *w, const struct split_part *p)
{
    const struct gy_op op = split_op(w, GY_SPLIT_CLEAR, -1, p->scratch);
    if (p->scratch >= 0)
        split_emit(w, &op);
}

static void split_sum(const struct split_walk *w, const struct split_part *p, int rank)
{
    struct gy_op op = split_op(w, GY_SPLIT_SUM, p->scratch, p->to);
    op.tensor[GY_RES] = p->waiting;
    op.geom.p = rank;
    if (p->scratch >= 0)
        split_emit(w, &op);
}

static void split_weights(struct split_walk *w)
{
    const struct gy_split *s = w->s;
    const int *const x = split_inputs(w), *const dy = split_outputs(w);
    for (int k = 0; k < s->mine; k++) {
        struct gy_op op = *w->op;
        struct split_part weight = { -1, -1, split_rows(w, w->op->tensor[GY_DW], k) };
        struct split_part bias = { -1, -1, split_rows(w, w->op->tensor[GY_DBIAS], k) };
        if (w->b->status != GY_OK)
            return;
        if (s->ranks > 1) {
            weight = split_part(w, weight.to);
            bias = split_part(w, bias.to);
        }
        op.geom.k = split_slice(w, k);
        op.tensor[GY_DW] = s->ranks > 1 ? weight.scratch : weight.to;
        op.tensor[GY_DBIAS] = s->ranks > 1 ? bias.scratch : bias.to;
        for (int r = 0; r < s->ranks; r++) { /* in the order of the shards */
            const int d = (s->rank - r + s->ranks) % s->ranks;
            op.tensor[GY_X] = x[d];
            op.tensor[GY_DY] = dy[d * s->mine + k];
            split_clear(w, &weight);
            split_clear(w, &bias);
            split_emit(w, &op);
            split_sum(w, &weight, r);
            split_sum(w, &bias, r);
        }
    }
}

/* The gradient of the input of turn d's images, as this rank's columns have it. */
static int split_partial(const struct split_walk *w, int d, const int *dy)
{
    struct split_tree tree = { .count = 0 };
    for (int k = 0; k < w->s->mine; k++) {
        struct gy_op op = split_sliced(w, k);
        op.flags &= ~(uint32_t)GY_F_ADD_DX;
        op.tensor[GY_DY] = dy[d * w->s->mine + k];
        op.tensor[GY_DX] = split_tensor(w, "dx", op.geom.c);
        split_emit(w, &op);
        split_push(w, &tree, op.tensor[GY_DX]);
    }
    return split_total(w, &tree);
}

/* The op that made the sum, an addition, writes the gradient; or the sum is added to that. */
static void split_into(const struct split_walk *w, int sum)
{
    const struct gy_program *p = &w->b->plan->program[w->program];
    struct gy_op op = gy_op_make(GY_OP_ADD, w->op->name, &w->op->geom);
    if (w->b->status != GY_OK)
        return;
    if ((w->op->flags & GY_F_ADD_DX) == 0) {
        p->ops[p->count - 1].tensor[GY_Y] = w->op->tensor[GY_DX];
        return;
    }
    op.dtype = w->op->dtype;
    op.geom.k = op.geom.c;
    op.tensor[GY_X] = sum;
    op.tensor[GY_RES] = op.tensor[GY_Y] = w->op->tensor[GY_DX];
    split_emit(w, &op);
}

static void split_data(struct split_walk *w)
{
    const struct gy_split *s = w->s;
    const int *const dy = split_outputs(w);
    int *const part = gy_arena_take(w->b->arena, (size_t)s->ranks, sizeof *part); /* by rank */
    struct split_tree tree = { .count = 0 };
    if (!part) {
        w->b->status =
            GY_NOMEM(w->b->err, "a split layer's parts", (size_t)s->ranks * sizeof *part);
        return;
    }
    for (int d = s->ranks - 1; d > 0; d--) {
        const int out = split_partial(w, d, dy), from = split_behind(w, d);
        part[from] = split_tensor(w, "dx.in", w->op->geom.c);
        split_pass(w, d, out, split_before(w, d), part[from], from);
    }
    split_passed(w);
    part[s->rank] = split_partial(w, 0, dy);
    for (int r = 0; r < s->ranks && s->ranks > 1; r++)
        split_push(w, &tree, part[r]);
    split_into(w, s->ranks > 1 ? split_total(w, &tree) : part[s->rank]);
}

/* ---- the walk ---- */

static int split_tables(struct gy_builder *b, struct gy_split *s)
{
    const size_t each = (size_t)s->ranks * (size_t)(s->mine + 1);
    s->number = 0;
    s->nodes = gy_arena_take(b->arena, (size_t)b->graph->node_count, sizeof *s->nodes);
    for (int i = 0; s->nodes && i < b->graph->node_count; i++) {
        struct gy_split_node *n = &s->nodes[i];
        *n = (struct gy_split_node) { .x = -1, .dy = -1 };
        if (!b->graph->nodes[i].split)
            continue;
        n->input = gy_arena_take(b->arena, each, sizeof *n->input);
        if (!n->input)
            return GY_NOMEM(b->err, "a split layer's tables", each * sizeof *n->input);
        n->output = n->input + s->ranks;
    }
    return s->nodes
               ? GY_OK
               : GY_NOMEM(b->err, "split layers", (size_t)b->graph->node_count * sizeof *s->nodes);
}

static void split_one(struct split_walk *w)
{
    static void (*const cut[GY_OP_ALL_CODES])(struct split_walk *) = {
        [GY_OP_CONV] = split_forward,
        [GY_OP_CONV_WGRAD] = split_weights,
        [GY_OP_CONV_DGRAD] = split_data,
    };
    const struct gy_op *const op = w->op;
    if (!cut[op->code] || !w->b->graph->nodes[op->id].split) {
        split_emit(w, op);
        return;
    }
    w->node = &w->s->nodes[op->id];
    cut[op->code](w);
}

GY_INT int gy_split_cut(struct gy_builder *b)
{
    struct gy_split *const s = (struct gy_split *)(uintptr_t)split_of(b);
    GY_TRY(split_tables(b, s));
    for (int p = 0; p < GY_PROGRAMS; p++) {
        const struct gy_program old = b->plan->program[p];
        struct split_walk w = { .b = b, .s = s, .program = p };
        b->plan->program[p] = (struct gy_program) { 0 };
        b->timeline = p == GY_EVAL;
        for (int i = 0; i < old.count && b->status == GY_OK; i++) {
            w.op = &old.ops[i];
            split_one(&w);
        }
    }
    return b->status;
}

#undef SPLIT_LEVELS
