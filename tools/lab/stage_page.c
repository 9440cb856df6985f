/* SPDX-License-Identifier: MIT */
/* stage_page.c: a pipeline on paper, for gyre plan (tools/cmd_net.c). It prints the stages of a
 * net, what each takes, and an update's duration when its schedule is played with the stages'
 * times. Times are the roofline's, as the cuts are. So shares and the bubble mean something,
 * seconds do not. The bubble is the part of all stages' time in which they wait; with equal stages
 * it is (P - 1) / (M + P - 1). */
#include "tools/lab/stage_page.h"

#include "engine/base/public.h"
#include "engine/run/engine.h"
#include "engine/run/pipeline_stage.h"
#include "tools/lab/lab.h"

#define STAGES_BYTES 10e9

/* ---- the simulation ---- */

struct played {
    double *forward, *back; /* [stages][micros]: when a pass is done; negative: it is not */
    double *free;           /* [stages]: when the stage is */
    int *at;                /* [stages]: its next action */
    struct gy_stage_action *action;
    int stages, micros;
};

/* When the input of an action is there; negative: not yet. */
static double played_ready(const struct played *p, const struct gy_stage_time *time, int s,
                           const struct gy_stage_action *a)
{
    if (!a->back)
        return s == 0 ? 0
               : p->forward[(s - 1) * p->micros + a->micro] < 0
                   ? -1
                   : p->forward[(s - 1) * p->micros + a->micro] + time[s - 1].moves;
    if (s + 1 == p->stages)
        return p->forward[s * p->micros + a->micro];
    return p->back[(s + 1) * p->micros + a->micro] < 0
               ? -1
               : p->back[(s + 1) * p->micros + a->micro] + time[s].moves;
}

static int played_step(struct played *p, const struct gy_stage_time *time, int s)
{
    if (p->at[s] == 2 * p->micros)
        return 0;
    const struct gy_stage_action *a = &p->action[s * 2 * p->micros + p->at[s]];
    const double ready = played_ready(p, time, s, a);
    if (ready < 0)
        return 0;
    p->free[s] = fmax(p->free[s], ready) + (a->back ? time[s].back : time[s].forward);
    (a->back ? p->back : p->forward)[s * p->micros + a->micro] = p->free[s];
    p->at[s]++;
    return 1;
}

static int played_all(struct played *p, const struct gy_stage_time *time, double *seconds,
                      struct gy_error *err)
{
    int moved = 1, done = 0;
    while (moved) {
        moved = 0;
        for (int s = 0; s < p->stages; s++)
            moved += played_step(p, time, s);
        done += moved;
    }
    *seconds = 0;
    for (int s = 0; s < p->stages; s++)
        *seconds = fmax(*seconds, p->free[s]);
    return done == 2 * p->stages * p->micros
               ? GY_OK
               : GY_FAIL(err, GY_E_BUG, "simulation: the stages wait for each other");
}

GY_INT int gy_stage_simulate(int kind, int stages, int micros, const struct gy_stage_time *time,
                             double *seconds, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_arena arena;
    const size_t cells = (size_t)stages * (size_t)micros;
    struct played p = { .stages = stages, .micros = micros };
    gy_arena_open_hook(&arena, alloc);
    p.forward = gy_arena_take(&arena, cells, sizeof *p.forward);
    p.back = gy_arena_take(&arena, cells, sizeof *p.back);
    p.free = gy_arena_take(&arena, (size_t)stages, sizeof *p.free);
    p.at = gy_arena_take(&arena, (size_t)stages, sizeof *p.at);
    p.action = gy_arena_take(&arena, 2 * cells, sizeof *p.action);
    int status = p.forward && p.back && p.free && p.at && p.action
                     ? GY_OK
                     : GY_NOMEM(err, "a simulation", cells * 32);
    for (size_t i = 0; i < cells && status == GY_OK; i++)
        p.forward[i] = p.back[i] = -1;
    for (int s = 0; s < stages && status == GY_OK; s++)
        gy_stage_schedule(kind, stages, micros, s, p.action + (size_t)s * 2 * (size_t)micros);
    if (status == GY_OK)
        status = played_all(&p, time, seconds, err);
    gy_arena_close(&arena);
    return status;
}

/* ---- the page ---- */

struct stages_row {
    char names[2][64]; /* first and last layer */
    int ops, slots;
    int64_t parameters;
    size_t bytes, sent, received; /* of tensors; of one micro-batch */
    struct gy_stage_time time;
};

static double stages_seconds(const struct gyre_net *net, int program)
{
    const struct gy_program *p = &net->plan.program[program];
    double seconds = 0;
    for (int i = 0; i < p->count; i++)
        seconds += gy_stages_seconds(&net->plan, &p->ops[i]);
    return seconds;
}

static void stages_look(void *user, const struct gyre_net *net)
{
    struct stages_row *row = user;
    const struct gy_stage_plan *plan = &net->stage->plan;
    int first = -1, last = 0;
    for (int i = 0; i < net->graph.node_count; i++)
        if (plan->of[i] == net->stage->stage) {
            first = first < 0 ? i : first;
            last = i;
        }
    snprintf(row->names[0], sizeof row->names[0], "%s", net->graph.nodes[first].name);
    snprintf(row->names[1], sizeof row->names[1], "%s", net->graph.nodes[last].name);
    row->ops = net->plan.program[GY_FORWARD].count + net->plan.program[GY_BACKWARD].count;
    row->slots = plan->slots;
    row->bytes = net->memory_bytes;
    for (int i = 0; i < net->plan.span_count; i++)
        row->parameters += net->plan.spans[i].count;
    for (int m = 0; m < plan->message_count; m++) {
        const size_t bytes = net->plan.tensors[plan->messages[m].tensor].bytes;
        if (plan->messages[m].program != GY_EVAL)
            *(plan->messages[m].sends ? &row->sent : &row->received) += bytes;
    }
    row->time = (struct gy_stage_time){ stages_seconds(net, GY_FORWARD),
                                        stages_seconds(net, GY_BACKWARD), 0 };
    row->time.moves = (double)row->sent / 2 / STAGES_BYTES;
}

static void stages_line(const struct stages_row *row, int s, double all, int json,
                        struct gy_sink *sink)
{
    char memory[24];
    const double share = (row->time.forward + row->time.back) / all;
    if (json) {
        gy_sink_printf(sink, "%s{\"stage\":%d,\"first\":", s ? "," : "", s);
        gy_print_json_text(row->names[0], sink);
        gy_sink_printf(sink, ",\"last\":");
        gy_print_json_text(row->names[1], sink);
        gy_sink_printf(sink, ",\"ops\":%d,\"parameters\":%" PRId64
                       ",\"bytes\":%zu,\"slots\":%d,\"share\":%.4f,\"sent\":%zu,\"received\":%zu}",
                       row->ops, row->parameters, row->bytes, row->slots, share, row->sent,
                       row->received);
        return;
    }
    gy_sink_printf(sink, "%5d  %-24.24s %-24.24s %5d %11" PRId64 " %10s %6d %7.1f %% %9.3f %9.3f\n",
                   s, row->names[0], row->names[1], row->ops, row->parameters,
                   gy_text_bytes(memory, sizeof memory, (double)row->bytes), row->slots,
                   100 * share, (double)row->sent / 1e6, (double)row->received / 1e6);
}

static void stages_page(const struct gyre_config *c, const struct stages_row *rows, int micros,
                        double seconds, int json, struct gy_sink *sink)
{
    double all = 0, moved = 0;
    const double p = c->pipeline, ideal = (p - 1) / (micros + p - 1);
    for (int s = 0; s < c->pipeline; s++) {
        all += rows[s].time.forward + rows[s].time.back;
        moved += (double)rows[s].sent * micros;
    }
    const double bubble = 1 - all * micros / (p * seconds);
    if (json) {
        gy_sink_printf(sink, "{\"net\":");
        gy_print_json_text(c->net_name, sink);
        gy_sink_printf(sink, ",\"stages\":[");
    } else
        gy_sink_printf(sink, "net %s, %d stages, %s: %d micro-batches of %d make an update\n\n%5s "
                       " %-24s %-24s %5s %11s %10s %6s %9s %9s %9s\n", c->net_name, c->pipeline,
                       c->stage_schedule == GYRE_GPIPE ? "gpipe" : "1f1b", micros, c->batch,
                       "stage", "first layer", "last layer", "ops", "parameters", "memory", "slots",
                       "time", "MB sent", "MB taken");
    for (int s = 0; s < c->pipeline; s++)
        stages_line(&rows[s], s, all, json, sink);
    gy_sink_printf(sink,
                   json ? "],\"micro\":%d,\"bubble\":%.4f,\"ideal\":%.4f,\"moved\":%.0f}\n"
                        : "\n%d micro-batches: bubble %.1f %% of all stages' time; equal stages "
                          "would have %.1f %%; %.0f bytes moved an update\n",
                   micros, json ? bubble : 100 * bubble, json ? ideal : 100 * ideal, moved);
}

GYRE_API int gyre_print_stages(const struct gyre_config *config, int json,
                               const struct gyre_sink *out, struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_print_stages: config", error));
    GY_TRY(gy_given(out, "gyre_print_stages: sink", error));
    static const struct stages_row none;
    struct stages_row rows[GY_STAGES_MOST];
    struct gy_stage_time time[GY_STAGES_MOST];
    struct gy_error err = { 0 };
    struct gyre_need need;
    struct gyre_config c = { 0 };
    const struct gy_alloc alloc = gy_alloc_default();
    double seconds = 0;
    int status = gy_config_copy(&c, config, &err);
    if (status == GY_OK && c.pipeline < 2)
        status = GY_FAIL(&err, GY_E_ARG, "gyre_print_stages: pipeline is %d; it must be 2 or more",
                         c.pipeline);
    for (int s = 0; status == GY_OK && s < c.pipeline; s++) {
        rows[s] = none;
        c.stage = s;
        status = gy_engine_measure(&c, &need, stages_look, &rows[s], &err);
        time[s] = rows[s].time;
    }
    const int micros = c.shards > 0 ? c.shards : c.accumulate;
    if (status == GY_OK)
        status =
            gy_stage_simulate(c.stage_schedule == GYRE_GPIPE ? GY_SCHEDULE_GPIPE : GY_SCHEDULE_1F1B,
                              c.pipeline, micros, time, &seconds, &alloc, &err);
    if (status != GY_OK)
        return gy_error_out(error, &err);
    struct gy_sink sink = gy_sink_of(out);
    stages_page(&c, rows, micros, seconds, json, &sink);
    return sink.failed ? (GY_FAIL(&err, GY_E_IO, "the stages could not be written"),
                          gy_error_out(error, &err))
                       : GYRE_OK;
}

#undef STAGES_BYTES
