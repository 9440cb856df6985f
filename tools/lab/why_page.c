/* SPDX-License-Identifier: MIT */
/* why_page.c: the page of gyre_print_why: where a step's time goes, what binds, the ops furthest
 * from their limits, what each knob would bring. */
#include "tools/lab/lab.h"
#include "tools/lab/why_page.h"

struct why_share {
    const char *name, *what;
    double seconds;
};

/* In the order of the page; returns which is the largest. */
static int why_shares(const struct gy_why *why, struct why_share share[4])
{
    int largest = 0;
    share[0] = (struct why_share){ "input", "getting the batch from the loader", why->waited };
    share[1] = (struct why_share){ "compute", "ops whose limit is multiplications", why->compute };
    share[2] = (struct why_share){ "memory", "ops whose limit is bytes", why->memory };
    share[3] = (struct why_share){ "between", "outside of ops: feeding the batch, reading the loss", why->outside };
    for (int i = 1; i < 4; i++)
        if (share[i].seconds > share[largest].seconds)
            largest = i;
    return largest;
}

static double why_percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

static double why_gain(const struct gy_why *why, const struct gy_why_knob *knob)
{
    return knob->images > 0 ? 100 * (knob->images * why->seconds / why->net->config.batch - 1) : 0;
}

/* ---- text ---- */

static void why_print_head(const struct gy_why *why, struct gy_sink *sink)
{
    const struct gyre_config *c = &why->net->config;
    gy_sink_printf(sink, "net %s, batch %d, %s%s, %s data; medians of %d steps after 3\n", c->net_name, c->batch,
                   c->dtype == GYRE_BF16 ? "bf16" : c->dtype == GYRE_F16 ? "f16" : "f32", c->recompute == 1 ? ", recomputed" : "",
                   why->data ? why->data : "synthetic", why->steps);
    gy_ceilings_print(&why->ceilings, why->net->caps.device, sink);
}

static void why_print_shares(const struct gy_why *why, struct gy_sink *sink)
{
    struct why_share share[4];
    const int largest = why_shares(why, share);
    gy_sink_printf(sink, "\na step takes %.2f ms: %.1f images/s (%.1f over all %d steps)\n", why->seconds * 1e3,
                   why->net->config.batch / why->seconds, why->images, why->steps);
    for (int i = 0; i < 4; i++)
        gy_sink_printf(sink, "  %-8s %5.1f %%  %s\n", share[i].name, why_percent(share[i].seconds, why->seconds), share[i].what);
    if (why->data)
        gy_sink_printf(sink, "  %" PRId64 " of %d steps had to wait for their batch\n", why->waits, why->steps);
    if (largest == 3)
        gy_sink_printf(sink, "no limit binds: the net is so small that the time goes to what is between its ops.\n");
    else
        gy_sink_printf(sink, "%s binds. ", largest == 0 ? "Input" : largest == 1 ? "Compute" : "Memory");
    if (largest != 3)
        gy_sink_printf(sink, "The ops take %.2f times their limits; at the limits it would be %.1f images/s.\n",
                       why->in_ops / why->limit, why->net->config.batch / (why->limit + why->outside));
}

static void why_print_kinds(const struct gy_why *why, struct gy_sink *sink)
{
    gy_sink_printf(sink, "\n%-30s %5s %10s %10s %7s %7s\n", "by kind", "ops", "ms", "limit ms", "%limit", "share");
    for (int k = 0; k < GY_OP_KINDS; k++) {
        const struct gy_why_kind *kind = &why->kind[k];
        if (kind->ops)
            gy_sink_printf(sink, "%-30s %5d %10.3f %10.3f %7.0f %6.1f%%\n", gy_kind_name(k), kind->ops, kind->seconds * 1e3,
                           kind->limit * 1e3, why_percent(kind->limit, kind->seconds), why_percent(kind->seconds, why->seconds));
    }
}

static void why_print_op(const struct gy_why_op *o, struct gy_sink *sink)
{
    char shape[96];
    const int compute = o->limit.compute >= o->limit.memory;
    gy_sink_printf(sink, "%-8s %-14s %-22.22s %-32s %-10.10s %9.3f %9.3f %7.0f  %s\n", gy_program_name(o->program),
                   gy_op_row(o->op->code)->name, o->op->name, gy_op_shape(o->op, shape, sizeof shape),
                   o->op->variant ? o->op->variant : "-", o->seconds * 1e3, o->limit.seconds * 1e3,
                   why_percent(o->limit.seconds, o->seconds), compute ? "compute" : "memory");
}

static void why_print_ops(const struct gy_why *why, int all, struct gy_sink *sink)
{
    gy_sink_printf(sink, "\n%-79s %-10s %9s %9s %7s  %s\n", all ? "all ops" : "furthest from their limits", "kernel", "ms", "limit ms",
                   "%limit", "limit is");
    for (int i = 0; i < (all ? why->op_count : why->worst_count); i++)
        why_print_op(&why->ops[all ? i : why->worst[i]], sink);
}

static void why_print_knobs(const struct gy_why *why, struct gy_sink *sink)
{
    char bytes[24];
    gy_sink_printf(sink, "\n%-16s %-18s %9s %7s %10s  %s\n", "knob", "change", "images/s", "gain", "memory", "predicted, because");
    for (int i = 0; i < why->knob_count; i++) {
        const struct gy_why_knob *k = &why->knob[i];
        char images[24] = "-", gain[24] = "-";
        if (k->images > 0) {
            snprintf(images, sizeof images, "%.1f", k->images);
            snprintf(gain, sizeof gain, "%+.0f %%", why_gain(why, k));
        }
        gy_sink_printf(sink, "%-16s %-18s %9s %7s %10s  %s%s\n", k->name, k->change, images, gain,
                       k->bytes ? gy_text_bytes(bytes, sizeof bytes, (double)k->bytes) : "-", k->reason,
                       k->paced ? "; but the loader sets the pace" : "");
    }
    gy_sink_printf(sink, "%-16s %-18s %9.1f %7s %10s\n", "as it is", "", why->net->config.batch / why->seconds, "",
                   gy_text_bytes(bytes, sizeof bytes, (double)why->bytes));
}

/* ---- JSON ---- */

static void why_json_head(const struct gy_why *why, struct gy_sink *sink)
{
    const struct gyre_config *c = &why->net->config;
    const struct gy_ceilings *m = &why->ceilings;
    struct why_share share[4];
    const int largest = why_shares(why, share);
    gy_sink_printf(sink, "{\"net\":");
    gy_print_json_text(c->net_name, sink);
    gy_sink_printf(sink, ",\"device\":");
    gy_print_json_text(why->net->caps.device, sink);
    gy_sink_printf(sink, ",\"batch\":%d,\"dtype\":\"%s\",\"recompute\":%s,\"data\":\"%s\",\"steps\":%d,\"threads\":%d", c->batch,
                   c->dtype == GYRE_BF16 ? "bf16" : c->dtype == GYRE_F16 ? "f16" : "f32", c->recompute == 1 ? "true" : "false",
                   why->data ? why->data : "synthetic", why->steps, why->threads);
    gy_sink_printf(sink,
                   ",\"measured\":{\"f32_gflops\":%.1f,\"bf16_gflops\":%.1f,\"read_gbs\":%.2f,\"copy_gbs\":%.2f,"
                   "\"cache_read_gbs\":%.2f,\"cache_copy_gbs\":%.2f,\"cache_bytes\":%.0f}",
                   m->f32, m->bf16, m->read, m->copy, m->cache_read, m->cache_copy, m->cache_bytes);
    gy_sink_printf(sink, ",\"step_ms\":%.4f,\"limit_ms\":%.4f,\"images_per_second\":%.3f,\"waits\":%" PRId64 ",\"bytes\":%zu",
                   why->seconds * 1e3, why->limit * 1e3, why->images, why->waits, why->bytes);
    gy_sink_printf(sink, ",\"binds\":\"%s\",\"percent\":{", largest == 3 ? "none" : share[largest].name);
    for (int i = 0; i < 4; i++)
        gy_sink_printf(sink, "%s\"%s\":%.2f", i ? "," : "", share[i].name, why_percent(share[i].seconds, why->seconds));
    gy_sink_printf(sink, "}");
}

static void why_json_op(const struct gy_why_op *o, int first, struct gy_sink *sink)
{
    char shape[96];
    gy_sink_printf(sink, "%s{\"program\":\"%s\",\"op\":\"%s\",\"layer\":\"%s\",\"shape\":\"%s\",\"kernel\":\"%s\"", first ? "" : ",",
                   gy_program_name(o->program), gy_op_row(o->op->code)->name, o->op->name,
                   gy_op_shape(o->op, shape, sizeof shape), o->op->variant ? o->op->variant : "-");
    gy_sink_printf(sink, ",\"kind\":\"%s\",\"us\":%.2f,\"least_us\":%.2f,\"limit_us\":%.3f,\"flops\":%.0f,\"flops_done\":%.0f,\"read\":%.0f,\"written\":%.0f,"
                   "\"limit_is\":\"%s\"}",
                   gy_kind_name(gy_op_kind(o->op)), o->seconds * 1e6, o->least * 1e6, o->limit.seconds * 1e6, o->work.flops,
                   o->work.done, o->work.read, o->work.written, o->limit.compute >= o->limit.memory ? "compute" : "memory");
}

static void why_json(const struct gy_why *why, struct gy_sink *sink)
{
    int shown = 0;
    why_json_head(why, sink);
    gy_sink_printf(sink, ",\"kinds\":[");
    for (int k = 0; k < GY_OP_KINDS; k++)
        if (why->kind[k].ops)
            gy_sink_printf(sink, "%s{\"kind\":\"%s\",\"ops\":%d,\"ms\":%.4f,\"limit_ms\":%.4f}", shown++ ? "," : "", gy_kind_name(k),
                           why->kind[k].ops, why->kind[k].seconds * 1e3, why->kind[k].limit * 1e3);
    gy_sink_printf(sink, "],\"furthest\":[");
    for (int i = 0; i < why->worst_count; i++)
        why_json_op(&why->ops[why->worst[i]], i == 0, sink);
    gy_sink_printf(sink, "],\"knobs\":[");
    for (int i = 0; i < why->knob_count; i++) {
        const struct gy_why_knob *k = &why->knob[i];
        gy_sink_printf(sink, "%s{\"knob\":\"%s\",\"change\":\"%s\",", i ? "," : "", k->name, k->change);
        if (k->images > 0)
            gy_sink_printf(sink, "\"images_per_second\":%.3f,\"gain_percent\":%.2f,", k->images, why_gain(why, k));
        gy_sink_printf(sink, "\"bytes\":%zu,\"paced_by_loader\":%s,\"reason\":\"%s\"}", k->bytes ? k->bytes : why->bytes,
                       k->paced ? "true" : "false", k->reason);
    }
    gy_sink_printf(sink, "],\"ops\":[");
    for (int i = 0; i < why->op_count; i++)
        why_json_op(&why->ops[i], i == 0, sink);
    gy_sink_printf(sink, "]}\n");
}

GY_INT void gy_why_print(const struct gy_why *why, int json, int all_ops, struct gy_sink *sink)
{
    if (json) {
        why_json(why, sink);
        return;
    }
    why_print_head(why, sink);
    why_print_shares(why, sink);
    why_print_kinds(why, sink);
    why_print_ops(why, 0, sink);
    why_print_knobs(why, sink);
    if (all_ops)
        why_print_ops(why, 1, sink);
}
