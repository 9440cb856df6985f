/* SPDX-License-Identifier: MIT */
/* plan_print.c: prints a plan, for people or as JSON: programs, op by op, and the memory map. */
#include "engine/run/engine.h"
#include "engine/plan/op_work.h"

static const struct gy_tensor *print_tensor(const struct gyre_net *net, const struct gy_op *op, int role)
{
    return op->tensor[role] < 0 ? NULL : &net->plan.tensors[op->tensor[role]];
}

/* The tensor that an op is about, for the memory map's offset: the first one that it writes. */
static const struct gy_tensor *print_output(const struct gyre_net *net, const struct gy_op *op)
{
    const uint64_t writes = gy_op_row(op->code)->writes;
    for (int role = 0; role < GY_ROLES; role++)
        if (writes >> role & 1 && print_tensor(net, op, role))
            return print_tensor(net, op, role);
    return NULL;
}

static void print_op(const struct gyre_net *net, const struct gy_op *op, int index, int json, struct gy_sink *sink)
{
    char shape[96], name[64];
    const struct gy_tensor *y = print_output(net, op);
    const struct gy_work work = gy_op_work(&net->plan, op);
    const double flops = work.flops, bytes = work.read + work.written;
    snprintf(name, sizeof name, "%s%s%s%s%s", gy_op_row(op->code)->name, op->act ? "+" : "", gy_act_row(op->act)->name,
             op->tensor[GY_RES] >= 0 && op->code != GY_OP_ADD ? "+add" : "", op->flags & GY_F_PARTIAL ? " if partial" : "");
    gy_sink_printf(sink,
                   json ? "%s{\"index\":%d,\"op\":\"%s\",\"layer\":\"%s\",\"shape\":\"%s\",\"flops\":%.0f,\"bytes\":%.0f,"
                          "\"region\":\"%s\",\"offset\":%zu,\"variant\":\"%s\"}"
                        : "%s%4d  %-22s %-28.28s %-36s %9.1f %9.2f  %s+%zu  %s\n",
                   json && index ? "," : "", index, name, op->name, gy_op_shape(op, shape, sizeof shape),
                   json ? flops : flops / 1e6, json ? bytes : bytes / 1e6, y ? gy_region_name(y->region) : "-",
                   y ? y->offset : 0, op->variant ? op->variant : "-");
}

static void print_programs(const struct gyre_net *net, int json, struct gy_sink *sink)
{
    for (int p = 0, shown = 0; p < GY_PROGRAMS; p++) {
        const struct gy_program *program = &net->plan.program[p];
        if (program->count == 0)
            continue;
        gy_sink_printf(sink, json ? "%s\"%s\":[" : "%sprogram %s\n", json && shown++ ? "," : "", gy_program_name(p));
        if (!json)
            gy_sink_printf(sink, "   #  %-22s %-28s %-36s %9s %9s  %s  %s\n", "op", "layer", "shape", "MFLOP", "MB", "writes at",
                           "kernel");
        for (int i = 0; i < program->count; i++)
            print_op(net, &program->ops[i], i, json, sink);
        gy_sink_printf(sink, json ? "]" : "\n");
    }
}

static void print_regions(const struct gyre_net *net, int json, struct gy_sink *sink)
{
    char size[24];
    for (int r = 0, shown = 0; r < GY_REGIONS; r++) {
        const size_t bytes = net->plan.region_bytes[r];
        if (json)
            gy_sink_printf(sink, "%s\"%s\":%zu", shown++ ? "," : "", gy_region_name(r), bytes);
        else if (bytes)
            gy_sink_printf(sink, "  %-8s %12zu bytes  %10s\n", gy_region_name(r), bytes, gy_text_bytes(size, sizeof size, (double)bytes));
    }
}

static void print_tensors(const struct gyre_net *net, int json, struct gy_sink *sink)
{
    if (!json)
        gy_sink_printf(sink, "\ntensors of region act      offset         bytes   first   last  timeline\n");
    for (int i = 0, shown = 0; i < net->plan.tensor_count; i++) {
        const struct gy_tensor *t = &net->plan.tensors[i];
        if (t->region != GY_AT_ACT || t->first < 0)
            continue;
        gy_sink_printf(sink,
                       json ? "%s{\"name\":\"%s\",\"offset\":%zu,\"bytes\":%zu,\"first\":%d,\"last\":%d,\"timeline\":\"%s\"}"
                            : "%s  %-24.24s %10zu  %12zu  %6d %6d  %s\n",
                       json && shown++ ? "," : "", t->name, t->offset, t->bytes, t->first, t->last,
                       t->timeline ? "eval" : "train");
    }
}

static size_t print_total(const struct gyre_net *net)
{
    return net->memory_bytes + net->shared_bytes + net->arena.reserved + sizeof *net;
}

static int64_t print_parameters(const struct gyre_net *net)
{
    int64_t sum = 0;
    for (int i = 0; i < net->graph.param_count; i++)
        sum += net->plan.span_of[i] < 0 ? 0 : net->graph.params[i].count;
    return sum;
}

/* Only where measured sizes are used: they may change the last bits of results. */
static void print_tuned(const struct gyre_net *net, struct gy_sink *sink)
{
    if (net->tuned_ops)
        gy_sink_printf(sink, "%d ops have %s from %s\n\n", net->tuned_ops, net->caps.host_memory ? "block sizes" : "kernels",
                       net->config.tune ? net->config.tune : "a file");
}

/* Bytes of a layer that this rank sends the others in a step. */
static double print_sent(const struct gyre_net *net, int node)
{
    double sum = 0;
    for (int p = GY_FORWARD; p <= GY_BACKWARD; p++)
        for (int i = 0; i < net->plan.program[p].count; i++) {
            const struct gy_op *op = &net->plan.program[p].ops[i];
            if (op->code == GY_OP_PASS && op->name == net->graph.nodes[node].name)
                sum += (double)net->plan.tensors[op->tensor[GY_X]].bytes;
        }
    return sum * net->parallel.mine;
}

static void print_split(const struct gyre_net *net, int node, int first, int json, struct gy_sink *sink)
{
    const struct gy_node *n = &net->graph.nodes[node];
    const struct gy_param *w = &net->graph.params[n->weight];
    const int64_t each = w->count / w->k, columns = net->plan.spans[net->plan.span_of[n->weight]].count / each;
    const double here = (double)(columns * each) * sizeof(float), all = (double)w->count * sizeof(float);
    char size[3][24];
    if (json) {
        gy_sink_printf(sink, "%s{\"layer\":", first ? "" : ",");
        gy_print_json_text(n->name, sink);
        gy_sink_printf(sink, ",\"columns\":%" PRId64 ",\"of\":%d,\"weight_bytes\":%.0f,\"sent_bytes\":%.0f}", columns, w->k, here,
                       print_sent(net, node));
    } else
        gy_sink_printf(sink, "split '%s': %" PRId64 " of %d columns, weights of %s instead of %s; sends %s a step\n", n->name, columns, w->k,
                       gy_text_bytes(size[0], sizeof size[0], here), gy_text_bytes(size[1], sizeof size[1], all),
                       gy_text_bytes(size[2], sizeof size[2], print_sent(net, node)));
}

static void print_splits(const struct gyre_net *net, int json, struct gy_sink *sink)
{
    int shown = 0;
    gy_sink_printf(sink, json ? "],\"splits\":[" : "%s", net->split ? "\n" : "");
    for (int i = 0; i < net->graph.node_count && net->split; i++)
        if (net->graph.nodes[i].split)
            print_split(net, i, !shown++, json, sink);
}

static void print_plan(const struct gyre_net *net, int json, struct gy_sink *sink)
{
    char size[24], without[24];
    if (json) {
        gy_sink_printf(sink, "{\"net\":");
        gy_print_json_text(net->config.net_name, sink);
        gy_sink_printf(sink, ",\"device\":\"%s\",\"batch\":%d,\"parameters\":%" PRId64 ",\"peak_bytes\":%zu,\"programs\":{",
                       net->caps.device, net->config.batch, print_parameters(net), print_total(net));
    } else
        gy_sink_printf(sink, "net %s, batch %d, on %s, %" PRId64 " parameters\n\n", net->config.net_name, net->config.batch,
                       net->caps.device, print_parameters(net));
    if (!json)
        print_tuned(net, sink);
    print_programs(net, json, sink);
    gy_sink_printf(sink, json ? "},\"regions\":{" : "memory\n");
    print_regions(net, json, sink);
    if (json)
        gy_sink_printf(sink, "},\"tensors\":[");
    print_tensors(net, json, sink);
    print_splits(net, json, sink);
    if (json)
        gy_sink_printf(sink, "]}\n");
    else
        gy_sink_printf(sink, "\npeak: %zu bytes (%s); without shared activations %s\n", print_total(net),
                       gy_text_bytes(size, sizeof size, (double)print_total(net)),
                       gy_text_bytes(without, sizeof without, (double)(print_total(net) - net->plan.region_bytes[GY_AT_ACT]) +
                                                                  (double)net->plan.act_sum_bytes));
}

GYRE_API int gyre_print_plan(struct gyre_net *net, int json, const struct gyre_sink *out)
{
    GY_TRY(gy_engine_given(net, out, "gyre_print_plan: sink"));
    struct gy_sink sink = gy_sink_of(out);
    print_plan(net, json, &sink);
    return sink.failed ? gy_engine_fail(net, GY_E_IO, "the plan could not be written") : GYRE_OK;
}

struct print_look {
    struct gy_sink sink;
    int json;
};

static void print_look(void *user, const struct gyre_net *net)
{
    struct print_look *look = user;
    print_plan(net, look->json, &look->sink);
}

GYRE_API int gyre_print_config_plan(const struct gyre_config *config, int json, const struct gyre_sink *out, struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_print_config_plan: config", error));
    GY_TRY(gy_given(out, "gyre_print_config_plan: sink", error));
    struct gy_error err = { 0 };
    struct gyre_need need;
    struct print_look look = { .sink = gy_sink_of(out), .json = json };
    int status = gy_engine_measure(config, &need, print_look, &look, &err);
    if (status == GY_OK && look.sink.failed)
        status = GY_FAIL(&err, GY_E_IO, "the plan could not be written");
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
