/* SPDX-License-Identifier: MIT */
/* roofline_bench.c: times each op of a training step, alone and repeated, beside this machine's
 * measured peak and bandwidth and the limit that they set. tools/cmd_net.c calls it for gyre bench.
 * It prints op by op, then the convolutions by shape, then sums by kind. Multiplications are those
 * of the op's definition, so a kernel that does less (Winograd's) may be above the peak. Its limit
 * is that of what it does. */
#include "tools/lab/lab.h"
#include "engine/run/parallel.h"
#include "engine/base/clock.h"
#include "engine/run/engine.h"
#include "tools/lab/noise.h"
#include "tools/lab/roofline.h"

#define RBENCH_TURN 1e-3 /* seconds: a run is repeated until it takes about as long, as for tune */
#define RBENCH_REPEATS 256

struct rbench_time {
    const struct gy_op *op;
    int program;
    double seconds; /* least */
    struct gy_work work;
    struct gy_limit limit;
};

struct rbench {
    struct gyre_net *net;
    struct gy_ceilings ceilings;
    struct rbench_time *times;
    int count;
    int runs, csv;
    struct gy_sink sink;
};

struct rbench_sum {
    int count;
    double seconds, limit, flops, peak; /* peak: seconds at the peak */
};

static void rbench_add(struct rbench_sum *sum, const struct rbench_time *t, double peak)
{
    sum->count++;
    sum->seconds += t->seconds;
    sum->limit += t->limit.seconds;
    sum->flops += t->work.flops;
    sum->peak += t->work.flops * 1e-9 / peak;
}

static double rbench_percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/* By the host's clock around one run, where the device has none. */
static int rbench_time_here(struct gyre_net *net, const struct gy_op *op, double *seconds)
{
    const int64_t start = gy_clock_ns();
    GY_TRY(net->backend->run(net->backend_self, op));
    GY_TRY(net->backend->sync(net->backend_self));
    *seconds = (double)gy_max64(gy_clock_ns() - start, 1) * 1e-9;
    return GY_OK;
}

static int rbench_time_once(struct gyre_net *net, const struct gy_op *op, int repeats, double *seconds)
{
    const int status = net->backend->lab->time(net->backend_self, op, repeats, seconds, &net->error);
    return status == GY_E_UNSUPPORTED ? rbench_time_here(net, op, seconds) : status;
}

/* Least time of an op over some runs, each repeated until it takes a while. */
static int rbench_time_op(struct gyre_net *net, const struct gy_op *op, int runs, double *seconds)
{
    double once;
    GY_TRY(rbench_time_once(net, op, 1, &once));
    const int repeats = (int)fmax(fmin(RBENCH_TURN / once, RBENCH_REPEATS), 1);
    *seconds = HUGE_VAL;
    for (int i = 0; i < runs; i++) {
        GY_TRY(rbench_time_once(net, op, repeats, &once));
        *seconds = fmin(*seconds, once);
    }
    return GY_OK;
}

/* A step on noise, so that no op is timed on the zeros of a net that has done nothing. */
static int rbench_fill(struct gyre_net *net)
{
    struct gy_noise noise = { .samples = NULL };
    int status = gy_noise_make(net, &noise);
    if (status == GY_OK)
        status = net->config.mode == GYRE_TRAIN ? gyre_step(net, &noise.batch, NULL)
                                                : gyre_eval(net, &noise.batch, NULL);
    gy_noise_free(net, &noise);
    return status;
}

static void rbench_head(struct rbench *b)
{
    if (!b->csv) {
        gy_sink_printf(&b->sink, "net %s, batch %d\n", b->net->config.net_name, b->net->config.batch);
        gy_ceilings_print(&b->ceilings, b->net->caps.device, &b->sink);
        gy_sink_printf(&b->sink, "\n");
    }
    gy_sink_printf(&b->sink,
                   b->csv ? "%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s\n"
                          : "%-8s %-14s %-22s %-32s %-10s %9s %8s %5s %7s %5s %9s %6s\n",
                   "program", "op", "layer", "shape", "kernel", "us", "GFLOP/s", b->csv ? "% of peak" : "%peak", "GB/s",
                   b->csv ? "% of bandwidth" : "%band", "limit us", b->csv ? "% of limit" : "%limit");
}

static void rbench_op(struct rbench *b, const struct rbench_time *t)
{
    char shape[96];
    const double flops = t->work.flops / t->seconds * 1e-9, bytes = (t->work.read + t->work.written) / t->seconds * 1e-9;
    gy_sink_printf(&b->sink,
                   b->csv ? "%s,%s,%s,%s,%s,%.1f,%.2f,%.1f,%.2f,%.1f,%.1f,%.1f\n"
                          : "%-8s %-14s %-22.22s %-32s %-10.10s %9.1f %8.1f %5.0f %7.1f %5.0f %9.1f %6.0f\n",
                   gy_program_name(t->program), gy_op_row(t->op->code)->name, t->op->name,
                   gy_op_shape(t->op, shape, sizeof shape), t->op->variant ? t->op->variant : "-", t->seconds * 1e6, flops,
                   rbench_percent(flops, gy_roofline_peak(&t->work, &b->ceilings)), bytes,
                   rbench_percent(bytes, gy_roofline_bandwidth(&t->work, &b->ceilings)), t->limit.seconds * 1e6,
                   rbench_percent(t->limit.seconds, t->seconds));
}

static int rbench_run(struct rbench *b)
{
    struct gyre_net *net = b->net;
    const int train = net->config.mode == GYRE_TRAIN;
    for (int p = train ? GY_FORWARD : GY_EVAL; p <= (train ? GY_UPDATE : GY_EVAL); p++)
        for (int i = 0; i < net->plan.program[p].count; i++) {
            if (net->plan.program[p].ops[i].flags & GY_F_PARTIAL)
                continue;
            struct rbench_time *t = &b->times[b->count++];
            t->op = &net->plan.program[p].ops[i];
            t->program = p;
            if (rbench_time_op(net, t->op, b->runs, &t->seconds) != GY_OK)
                return gy_engine_fail(net, GY_E_DEVICE, "the device failed in op %d of the %s program", i, gy_program_name(p));
            t->work = gy_op_work(&net->plan, t->op);
            t->limit = gy_roofline(&t->work, &b->ceilings);
            rbench_op(b, t);
        }
    return GY_OK;
}

/* ---- convolutions by shape ---- */

static int rbench_same(const struct gy_op *a, const struct gy_op *b)
{
    const struct gy_geom *g = &a->geom, *h = &b->geom;
    return g->h == h->h && g->w == h->w && g->c == h->c && g->k == h->k && g->r == h->r && g->s == h->s &&
           g->stride_h == h->stride_h && g->stride_w == h->stride_w && g->pad_h == h->pad_h && g->pad_w == h->pad_w &&
           g->dil_h == h->dil_h && g->dil_w == h->dil_w && g->groups == h->groups;
}

/* The first of the convolutions with op i's shape. */
static int rbench_first(const struct rbench *b, int i)
{
    int first = 0;
    while (!gy_op_is_conv(b->times[first].op) || !rbench_same(b->times[first].op, b->times[i].op))
        first++;
    return first;
}

static void rbench_pass(struct rbench *b, const struct rbench_sum *sum)
{
    if (sum->count == 0)
        gy_sink_printf(&b->sink, " | %31s", "-");
    else
        gy_sink_printf(&b->sink, " | %9.3f %8.1f %5.0f %6.0f", sum->seconds * 1e3, sum->flops / sum->seconds * 1e-9,
                       rbench_percent(sum->peak, sum->seconds), rbench_percent(sum->limit, sum->seconds));
}

static void rbench_shape(struct rbench *b, int first, struct rbench_sum total[3])
{
    char shape[96];
    struct rbench_sum sum[3] = { { 0 } };
    const struct gy_op *op = b->times[first].op;
    for (int i = first; i < b->count; i++)
        if (gy_op_is_conv(b->times[i].op) && rbench_same(op, b->times[i].op)) {
            const double peak = gy_roofline_peak(&b->times[i].work, &b->ceilings);
            rbench_add(&sum[gy_op_kind(b->times[i].op) - GY_OP_IS_CONV], &b->times[i], peak);
            rbench_add(&total[gy_op_kind(b->times[i].op) - GY_OP_IS_CONV], &b->times[i], peak);
        }
    gy_op_shape(op, shape, sizeof shape);
    gy_sink_printf(&b->sink, "%3d x %-32s", (int)gy_max64(sum[0].count, gy_max64(sum[1].count, sum[2].count)), shape);
    for (int pass = 0; pass < 3; pass++)
        rbench_pass(b, &sum[pass]);
    gy_sink_printf(&b->sink, "\n");
}

static void rbench_shapes(struct rbench *b)
{
    struct rbench_sum total[3] = { { 0 } };
    int shapes = 0;
    for (int i = 0; i < b->count; i++) {
        if (!gy_op_is_conv(b->times[i].op) || rbench_first(b, i) != i)
            continue;
        if (shapes++ == 0)
            gy_sink_printf(&b->sink, "\n%-38s | %-31s | %-31s | %s\n%38s | %9s %8s %5s %6s | %9s %8s %5s %6s | %9s %8s %5s %6s\n",
                           "convolutions by shape", "forward", "data gradient", "weight gradient", "", "ms", "GFLOP/s", "%peak",
                           "%limit", "ms", "GFLOP/s", "%peak", "%limit", "ms", "GFLOP/s", "%peak", "%limit");
        rbench_shape(b, i, total);
    }
    if (shapes == 0)
        return;
    gy_sink_printf(&b->sink, "%-38s", "sum, weighted by count");
    for (int pass = 0; pass < 3; pass++)
        rbench_pass(b, &total[pass]);
    gy_sink_printf(&b->sink, "\n");
}

/* ---- sums ---- */

static void rbench_kinds(struct rbench *b)
{
    struct rbench_sum sum[GY_OP_KINDS] = { { 0 } }, all = { 0 };
    for (int i = 0; i < b->count; i++) {
        const double peak = gy_roofline_peak(&b->times[i].work, &b->ceilings);
        rbench_add(&sum[gy_op_kind(b->times[i].op)], &b->times[i], peak);
        rbench_add(&all, &b->times[i], peak);
    }
    gy_sink_printf(&b->sink, "\n%-30s %5s %10s %10s %7s %7s\n", "sums by kind", "ops", "ms", "limit ms", "%limit", "share");
    for (int k = 0; k < GY_OP_KINDS; k++)
        if (sum[k].count)
            gy_sink_printf(&b->sink, "%-30s %5d %10.3f %10.3f %7.0f %6.1f%%\n", gy_kind_name(k), sum[k].count,
                           sum[k].seconds * 1e3, sum[k].limit * 1e3, rbench_percent(sum[k].limit, sum[k].seconds),
                           rbench_percent(sum[k].seconds, all.seconds));
    gy_sink_printf(&b->sink, "%-30s %5d %10.3f %10.3f %7.0f\n", "all", all.count, all.seconds * 1e3, all.limit * 1e3,
                   rbench_percent(all.limit, all.seconds));
    gy_sink_printf(&b->sink, "\nsum of the least times: %.3f ms, %.1f images/s; at the limits %.1f images/s\n", all.seconds * 1e3,
                   b->net->config.batch / all.seconds, b->net->config.batch / all.limit);
}

static int rbench_print(struct rbench *b)
{
    GY_TRY(gy_engine_ceilings(b->net, &b->ceilings));
    GY_TRY(rbench_fill(b->net));
    rbench_head(b);
    GY_TRY(rbench_run(b));
    if (!b->csv) {
        rbench_shapes(b);
        rbench_kinds(b);
    }
    return b->sink.failed ? gy_engine_fail(b->net, GY_E_IO, "the table could not be written") : GY_OK;
}

GYRE_API int gyre_print_bench(struct gyre_net *net, int runs, int csv, const struct gyre_sink *out)
{
    GY_TRY(gy_engine_given(net, out, "gyre_print_bench: sink"));
    struct rbench b = { .net = net, .runs = runs, .csv = csv, .sink = gy_sink_of(out) };
    size_t count = 0;
    if (runs < 1)
        return gy_engine_fail(net, GY_E_ARG, "runs is %d; it must be at least 1", runs);
    GY_TRY(gy_engine_ready(net, "gyre_print_bench", 0));
    GY_TRY(gy_parallel_alone(net, "gyre_print_bench"));
    for (int p = 0; p < GY_PROGRAMS; p++)
        count += (size_t)net->plan.program[p].count;
    b.times = gy_alloc_take(gy_engine_scratch(net), count, sizeof *b.times);
    if (!b.times)
        return GY_NOMEM(&net->error, "a table of times", count * sizeof *b.times);
    const int status = rbench_print(&b);
    gy_alloc_free(gy_engine_scratch(net), b.times, count * sizeof *b.times);
    return status;
}
