/* SPDX-License-Identifier: MIT */
/* stages_choose.c: chooses where to cut a net into stages. First it finds the possible borders.
 * Tensors of the forward pass may only go to later layers, gradients only to earlier ones. All ops
 * of a parameter stay together. A unit is what no border can part. Then dynamic programming deals
 * the units to the stages, in their order: the best for fewer stages and units is known before more
 * are tried. A unit's time is the roofline's of a core that does eight operations a byte moved,
 * half as many in a Winograd kernel. A tensor that crosses a border is moved four times more,
 * through the ranks' messages. */
#include "engine/plan/stages.h"
#include "engine/plan/op_work.h"

#define STAGES_FLOPS 80e9
#define STAGES_WINOGRAD 40e9 /* of what Winograd leaves to multiply */
#define STAGES_BYTES 10e9

GY_INT double gy_stages_seconds(const struct gy_plan *plan, const struct gy_op *op)
{
    const struct gy_work work = gy_op_work(plan, op);
    if (op->code >= GY_OP_CODES)
        return 0;
    return fmax(work.done / (gy_op_is_winograd(op) ? STAGES_WINOGRAD : STAGES_FLOPS),
                (work.read + work.written) / STAGES_BYTES);
}

struct look_tensor {
    int made;                  /* node; -1: by none */
    int program, last_forward; /* the last node that reads it in forward */
    int back;                  /* read in backward: by a node above the maker, the highest */
    int begin, end;            /* times of its life */
    unsigned used;
};

struct look {
    const struct gy_plan *plan;
    const struct gy_graph *graph;
    struct look_tensor *tensors;
    int *closed;     /* [nodes + 1]: differences; above 0 there is no border behind this node */
    double *seconds; /* [nodes] */
    size_t *fixed, *kept, *most, *crosses, *enters, *live; /* [nodes]; live: [times], differences */
    int *works; /* [nodes]: it has ops in forward */
};

/* No border between two nodes. */
static void look_join(struct look *l, int a, int b)
{
    l->closed[a < b ? a : b]++;
    l->closed[a < b ? b : a]--;
}

static void look_read(struct look *l, int program, int node, int t)
{
    struct look_tensor *s = &l->tensors[t];
    if (s->made < 0)
        return;
    if (s->program == GY_BACKWARD ? node > s->made : node < s->made)
        look_join(l, s->made, node);
    if (program == GY_FORWARD && node > s->last_forward)
        s->last_forward = node;
    if (program == GY_BACKWARD && s->program == GY_FORWARD && node > s->back)
        s->back = node;
}

/* The owner of a permanent tensor: ops that use it are its own. */
static void look_param(struct look *l, int node, int t)
{
    for (int i = 0; i < l->graph->param_count; i++)
        if (l->plan->param[i] == t || l->plan->grad[i] == t)
            look_join(l, l->graph->params[i].node, node);
}

static void look_op(struct look *l, int program, const struct gy_op *op, int time)
{
    const uint64_t reads = gy_stages_reads(op), writes = gy_op_row(op->code)->writes;
    if (op->code >= GY_OP_CODES)
        return;
    for (int role = 0; role < GY_ROLES; role++) {
        const int t = op->tensor[role];
        if (t < 0)
            continue;
        if (l->plan->tensors[t].region != GY_AT_ACT) {
            look_param(l, op->id, t);
            continue;
        }
        struct look_tensor *s = &l->tensors[t];
        if (reads >> role & 1)
            look_read(l, program, op->id, t);
        if (writes >> role & 1) {
            s->made = op->id;
            s->program = program;
        }
        s->begin = s->used ? s->begin : time;
        s->end = time;
        s->used |= 1u << program;
    }
    if (program != GY_EVAL)
        l->seconds[op->id] += gy_stages_seconds(l->plan, op);
    l->works[op->id] |= program == GY_FORWARD;
}

/* Of what lives in forward or in backward alone, the sum at each op. */
static void look_live(struct look *l, int times)
{
    const int forward = l->plan->program[GY_FORWARD].count;
    size_t sum = 0;
    for (int t = 0; t < l->plan->tensor_count; t++) {
        const struct look_tensor *s = &l->tensors[t];
        const unsigned both = 1u << GY_FORWARD | 1u << GY_BACKWARD;
        if (s->made < 0 || s->program == GY_EVAL || (s->used & both) == both)
            continue;
        l->live[s->begin] += l->plan->tensors[t].bytes;
        l->live[s->end + 1] -= l->plan->tensors[t].bytes;
    }
    for (int time = 0; time < times; time++) {
        const struct gy_op *op = time < forward
                                     ? &l->plan->program[GY_FORWARD].ops[time]
                                     : &l->plan->program[GY_BACKWARD].ops[time - forward];
        sum += l->live[time];
        if (op->code < GY_OP_CODES && sum + op->scratch_bytes > l->most[op->id])
            l->most[op->id] = sum + op->scratch_bytes;
    }
}

static void look_bytes(struct look *l, int copies)
{
    const unsigned both = 1u << GY_FORWARD | 1u << GY_BACKWARD;
    for (int t = 0; t < l->plan->tensor_count; t++) {
        const struct look_tensor *s = &l->tensors[t];
        const size_t bytes = l->plan->tensors[t].bytes;
        if (s->made < 0 || s->program != GY_FORWARD)
            continue;
        l->kept[s->made] += (s->used & both) == both ? bytes : 0;
        for (int c = s->made; c < s->last_forward || c < s->back; c++) {
            l->crosses[c] += bytes;
            l->enters[c] += c < s->back ? bytes : 0;
        }
    }
    for (int i = 0; i < l->graph->param_count; i++) {
        const int state = gy_param_is_state(l->graph->params[i].kind);
        l->fixed[l->graph->params[i].node] +=
            (size_t)l->graph->params[i].count * sizeof(float) * (size_t)(state ? 2 : 2 + copies);
    }
}

static int look_open(struct look *l, int times, struct gy_arena *arena, struct gy_error *err)
{
    const size_t nodes = (size_t)l->graph->node_count + 1;
    void **const tables[] = { (void **)&l->fixed, (void **)&l->kept, (void **)&l->most,
                              (void **)&l->crosses, (void **)&l->enters };
    l->tensors = gy_arena_take(arena, (size_t)l->plan->tensor_count + 1, sizeof *l->tensors);
    l->closed = gy_arena_take(arena, nodes, sizeof *l->closed);
    l->works = gy_arena_take(arena, nodes, sizeof *l->works);
    l->seconds = gy_arena_take(arena, nodes, sizeof *l->seconds);
    l->live = gy_arena_take(arena, (size_t)times + 2, sizeof *l->live);
    int whole = l->tensors && l->closed && l->works && l->seconds && l->live;
    for (size_t i = 0; i < GY_COUNT(tables); i++) {
        *tables[i] = gy_arena_take(arena, nodes, sizeof(size_t));
        whole = whole && *tables[i];
    }
    if (!whole)
        return GY_NOMEM(err, "the layers of the stages", nodes * 64);
    for (int t = 0; t < l->plan->tensor_count; t++)
        l->tensors[t].made = l->tensors[t].last_forward = l->tensors[t].back = -1;
    return GY_OK;
}

/* Nodes between borders become units. A border needs ops on both sides. */
static void look_units(const struct look *l, struct gy_stage_units *out)
{
    const int nodes = l->graph->node_count;
    struct gy_stage_unit u = { 0 };
    int closed = 0, works = 0, later = 0;
    for (int i = 0; i < nodes; i++)
        later += l->works[i];
    for (int i = 0; i < nodes; i++) {
        closed += l->closed[i];
        works += l->works[i];
        later -= l->works[i];
        u.seconds += l->seconds[i];
        u.fixed += l->fixed[i];
        u.kept += l->kept[i];
        u.most = l->most[i] > u.most ? l->most[i] : u.most;
        u.crosses = l->crosses[i];
        u.last = i;
        const int last = i + 1 == nodes;
        if (!last && (closed > 0 || !works || !later || !l->works[i + 1]))
            continue;
        u.enters = u.first > 0 ? l->enters[u.first - 1] : 0;
        out->unit[out->count++] = u;
        u = (struct gy_stage_unit){ .first = i + 1 };
        works = 0;
    }
}

GY_INT int gy_stages_look(struct gy_stage_units *out, const struct gy_plan *plan,
                          const struct gy_graph *graph, int copies, struct gy_arena *arena,
                          struct gy_error *err)
{
    struct look l = { .plan = plan, .graph = graph };
    const int programs[] = { GY_FORWARD, GY_BACKWARD, GY_EVAL };
    const int times = plan->program[GY_FORWARD].count + plan->program[GY_BACKWARD].count;
    int time = 0;
    GY_TRY(look_open(&l, times + plan->program[GY_EVAL].count, arena, err));
    out->unit = gy_arena_take(arena, (size_t)graph->node_count + 1, sizeof *out->unit);
    out->count = 0;
    if (!out->unit)
        return GY_NOMEM(err, "the units of the stages",
                        (size_t)graph->node_count * sizeof *out->unit);
    for (size_t p = 0; p < GY_COUNT(programs); p++)
        for (int i = 0; i < plan->program[programs[p]].count; i++, time++)
            look_op(&l, programs[p], &plan->program[programs[p]].ops[i], time);
    look_live(&l, times);
    look_bytes(&l, copies);
    look_units(&l, out);
    return GY_OK;
}

/* ---- choosing ---- */

GY_INT size_t gy_stages_bytes(const struct gy_stage_units *units, int first, int last, int slots)
{
    size_t fixed = 0, kept = units->unit[first].enters, most = 0;
    for (int i = first; i <= last; i++) {
        const struct gy_stage_unit *u = &units->unit[i];
        fixed += u->fixed;
        kept += u->kept;
        most = u->most > most ? u->most : most;
    }
    return fixed + kept * (size_t)slots + most;
}

static double choose_seconds(const struct gy_stage_units *units, int first, int last)
{
    double seconds = 0;
    for (int i = first; i <= last; i++)
        seconds += units->unit[i].seconds;
    const double moved = (first > 0 ? (double)units->unit[first - 1].crosses : 0) +
                         (last + 1 < units->count ? (double)units->unit[last].crosses : 0);
    return seconds + 4 * moved / STAGES_BYTES;
}

/* What stage s costs with these units: its time, or its bytes where those are asked for; infinite
 * beyond the limit. */
static double choose_cost(const struct gy_stage_choice *c, const struct gy_stage_units *units,
                          int s, int first, int last, int bytes)
{
    const size_t need = bytes || c->limit ? gy_stages_bytes(units, first, last, c->slots[s]) : 0;
    if (bytes)
        return (double)need;
    return c->limit && need > c->limit ? (double)INFINITY : choose_seconds(units, first, last);
}

/* best[s][i]: the slowest of stages 0 .. s when they end with unit i; from[s][i]: their last one's
 * first unit. */
static double choose_best(struct gy_stage_choice *c, const struct gy_stage_units *units,
                          double *best, int *from, int bytes)
{
    const int n = units->count;
    for (int s = 0; s < c->stages; s++)
        for (int i = s; i < n; i++) {
            double *const here = &best[s * n + i];
            *here = (double)INFINITY;
            from[s * n + i] = s;
            for (int first = s ? i : 0; first >= s; first--) {
                const double before = s ? best[(s - 1) * n + first - 1] : 0;
                const double cost = before < *here
                                        ? fmax(before, choose_cost(c, units, s, first, i, bytes))
                                        : before;
                if (cost < *here) {
                    *here = cost;
                    from[s * n + i] = first;
                }
                if (s == 0)
                    break;
            }
        }
    for (int s = c->stages - 1, i = n - 1; s >= 0; i = from[s * n + i] - 1, s--)
        c->last[s] = i;
    return best[(c->stages - 1) * n + n - 1];
}

/* Names the largest stage of the cuts that need the least memory, by its first and last layer. */
static int choose_too_large(const struct gy_stage_choice *c, const struct gy_stage_units *units,
                            const struct gy_graph *graph, struct gy_error *err)
{
    size_t worst = 0;
    int stage = 0;
    for (int s = 0; s < c->stages; s++) {
        const size_t need =
            gy_stages_bytes(units, s ? c->last[s - 1] + 1 : 0, c->last[s], c->slots[s]);
        stage = need > worst ? s : stage;
        worst = need > worst ? need : worst;
    }
    const int first = stage ? c->last[stage - 1] + 1 : 0, last = c->last[stage];
    const char *const from = graph->nodes[units->unit[first].first].name,
                      *const to = graph->nodes[units->unit[last].last].name;
    return GY_FAIL(err, GY_E_ARG, "stage %d, %s '%.60s'%s%.60s%s, fits no rank's memory: "
                   "it needs %zu bytes, %zu too many for the limit of %zu", stage,
                   first == last && strcmp(from, to) == 0 ? "layer" : "layers", from,
                   strcmp(from, to) == 0 ? "" : " to '", strcmp(from, to) == 0 ? "" : to,
                   strcmp(from, to) == 0 ? "" : "'", worst, worst - c->limit, c->limit);
}

GY_INT int gy_stages_choose(struct gy_stage_choice *c, const struct gy_stage_units *units,
                            const struct gy_graph *graph, struct gy_arena *arena,
                            struct gy_error *err)
{
    if (c->stages > units->count)
        return GY_FAIL(err, GY_E_ARG, "a pipeline of %d stages is longer than the net, which can "
                       "be cut into %d", c->stages, units->count);
    const size_t places = (size_t)c->stages * (size_t)units->count;
    double *const best = gy_arena_take(arena, places, sizeof *best);
    int *const from = gy_arena_take(arena, places, sizeof *from);
    if (!best || !from)
        return GY_NOMEM(err, "the choice of stages", places * (sizeof *best + sizeof *from));
    c->seconds = choose_best(c, units, best, from, 0);
    if (c->seconds < (double)INFINITY)
        return GY_OK;
    choose_best(c, units, best, from, 1);
    return choose_too_large(c, units, graph, err);
}
