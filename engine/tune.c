/* SPDX-License-Identifier: MIT */
/* Measuring block sizes: for every distinct convolution of the programs, one size after the other, all its candidates take turns, so
 * that another program on the machine is in the way of all alike; the fastest run of each counts. What won is measured once more
 * against the sizes of the table, and kept when it is faster by more than chance. */
#include "base/clock.h"
#include "base/file.h"
#include "engine.h"
#include "roofline.h"
#include "tuned.h"
#include <time.h>

#define TUNE_LEAST_GAIN 1.02
#define TUNE_TURN_NS 1000000 /* a run is repeated until it takes about as long */
#define TUNE_REPEATS 256

struct tune_op { /* a distinct convolution */
    struct gy_op op; /* as prepared with the table's sizes */
    int count;       /* how often the programs have it */
    double before, after; /* seconds */
};

struct tune {
    struct gyre_net *net;
    struct gyre_tune_config config;
    struct gy_tuned tuned;
    struct gy_sink sink;
    struct tune_op *ops;
    int count, room;
    void *scratch;
    size_t scratch_bytes;
    char path[4096], source[256];
};

/* Candidates for one size of an op; the first is what it has. */
struct tune_race {
    struct gy_op op[GY_BLOCK_TRIES + 1];
    double seconds[GY_BLOCK_TRIES + 1];
    int count;
};

GYRE_API void gyre_tune_config_default(struct gyre_tune_config *config)
{
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->runs = 5;
}

/* ---- what there is to measure ---- */

static int tune_same(const struct gy_op *a, const struct gy_op *b)
{
    return a->code == b->code && a->dtype == b->dtype && memcmp(&a->geom, &b->geom, sizeof a->geom) == 0 &&
           (a->tensor[GY_STATS] >= 0) == (b->tensor[GY_STATS] >= 0);
}

static int tune_has_sizes(const struct tune *t, const struct gy_op *op)
{
    int32_t values[GY_BLOCK_TRIES];
    for (int place = 0; place < GY_OP_BLOCKS; place++)
        if (t->net->backend->block_tries(t->net->backend_self, op, place, t->config.any_order, values) > 0)
            return 1;
    return 0;
}

static void tune_collect_op(struct tune *t, const struct gy_op *op)
{
    if (!gy_op_is_conv(op) || !tune_has_sizes(t, op))
        return;
    for (int i = 0; i < t->count; i++)
        if (tune_same(&t->ops[i].op, op)) {
            t->ops[i].count++;
            return;
        }
    t->ops[t->count++] = (struct tune_op){ .op = *op, .count = 1 };
}

static int tune_collect(struct tune *t)
{
    const struct gyre_net *net = t->net;
    const int train = net->config.mode == GYRE_TRAIN, first = train ? GY_FORWARD : GY_EVAL, last = train ? GY_BACKWARD : GY_EVAL;
    for (int p = first; p <= last; p++)
        t->room += net->plan.program[p].count;
    t->ops = gy_alloc_take(gy_net_alloc(net), (size_t)t->room, sizeof *t->ops);
    if (!t->ops)
        return GY_NOMEM(&t->net->error, "a table of convolutions", (size_t)t->room * sizeof *t->ops);
    for (int p = first; p <= last; p++)
        for (int i = 0; i < net->plan.program[p].count; i++)
            tune_collect_op(t, &net->plan.program[p].ops[i]);
    return GY_OK;
}

/* ---- measuring ---- */

/* Chooses what op leaves open, with room for its scratch. */
static int tune_prepare(struct tune *t, struct gy_op *op)
{
    struct gyre_net *net = t->net;
    GY_TRY(net->backend->prepare(net->backend_self, op, &net->error));
    if (op->scratch_bytes <= t->scratch_bytes)
        return GY_OK;
    if (t->scratch)
        net->backend->mem_put(net->backend_self, t->scratch, t->scratch_bytes, GY_MEM_DEVICE);
    t->scratch = NULL;
    t->scratch_bytes = 0;
    GY_TRY(net->backend->mem_get(net->backend_self, op->scratch_bytes, GY_MEM_DEVICE, &t->scratch, &net->error));
    t->scratch_bytes = op->scratch_bytes;
    return GY_OK;
}

static int64_t tune_time(struct tune *t, struct gy_op *op, int repeats)
{
    struct gyre_net *net = t->net;
    op->ptr[GY_SCRATCH] = op->scratch_bytes ? t->scratch : NULL;
    const int64_t start = gy_clock_ns();
    for (int i = 0; i < repeats; i++)
        if (net->backend->run(net->backend_self, op) != GY_OK)
            return -1;
    if (net->backend->sync(net->backend_self) != GY_OK)
        return -1;
    return gy_clock_ns() - start;
}

/* Every candidate in turn, runs times. */
static int tune_run_race(struct tune *t, struct tune_race *race)
{
    const int64_t once = tune_time(t, &race->op[0], 1);
    const int repeats = (int)gy_max64(gy_min64(TUNE_TURN_NS / gy_max64(once, 1), TUNE_REPEATS), 1);
    for (int i = 0; i < race->count; i++)
        race->seconds[i] = HUGE_VAL;
    for (int run = 0; run < t->config.runs; run++)
        for (int i = 0; i < race->count; i++) {
            const int64_t ns = tune_time(t, &race->op[i], repeats);
            if (ns < 0)
                return gy_net_fail(t->net, GY_E_DEVICE, "the device failed in layer %s", race->op[i].name);
            race->seconds[i] = fmin(race->seconds[i], (double)gy_max64(ns, 1) * 1e-9 / repeats);
        }
    return GY_OK;
}

/* The best value of one size. */
static int tune_place(struct tune *t, struct gy_op *op, int place)
{
    struct tune_race race = { .count = 1 };
    int32_t values[GY_BLOCK_TRIES];
    const int tries = t->net->backend->block_tries(t->net->backend_self, op, place, t->config.any_order, values);
    race.op[0] = *op;
    for (int i = 0; i < tries; i++) {
        if (values[i] == op->block[place])
            continue;
        struct gy_op *const other = &race.op[race.count++];
        *other = *op;
        other->block[place] = values[i];
        GY_TRY(tune_prepare(t, other));
    }
    if (race.count == 1)
        return GY_OK;
    GY_TRY(tune_run_race(t, &race));
    int best = 0;
    for (int i = 1; i < race.count; i++)
        if (race.seconds[i] * TUNE_LEAST_GAIN < race.seconds[0] && race.seconds[i] < race.seconds[best])
            best = i;
    *op = race.op[best];
    return GY_OK;
}

/* Sizes that differ from the table's go into the row; without gain all are 0. */
static int tune_keep(struct tune *t, struct tune_op *o, const struct gy_op *best)
{
    const int changed = memcmp(o->op.block, best->block, sizeof best->block) != 0;
    struct tune_race last = { .op = { o->op, *best }, .count = 2 };
    GY_TRY(tune_run_race(t, &last));
    struct gy_tuned_row row = { .machine = t->tuned.machine, .set = t->tuned.set, .source = t->source, .variant = best->variant,
                                .code = best->code, .dtype = best->dtype, .geom = best->geom,
                                .stats = best->tensor[GY_STATS] >= 0 };
    o->before = o->after = last.seconds[0];
    row.gain = last.seconds[0] / last.seconds[1];
    if (changed && row.gain >= TUNE_LEAST_GAIN) {
        o->after = last.seconds[1];
        for (int place = 0; place < GY_OP_BLOCKS; place++)
            row.block[place] = best->block[place] != o->op.block[place] ? best->block[place] : 0;
    }
    char shape[96];
    gy_sink_printf(&t->sink, "%3d  %-12s %-34s %-9s %10.1f %10.1f %6.2f  ", o->count, gy_op_row(o->op.code)->name,
                   gy_op_shape(&o->op, shape, sizeof shape), best->variant, o->before * 1e6, o->after * 1e6, o->before / o->after);
    gy_tuned_sizes(t->net->backend, row.block, &t->sink);
    gy_sink_printf(&t->sink, "\n");
    return gy_tuned_put(&t->tuned, &row, &t->net->error);
}

static int tune_op(struct tune *t, struct tune_op *o)
{
    memset(o->op.block, 0, sizeof o->op.block);
    GY_TRY(tune_prepare(t, &o->op));
    struct gy_op best = o->op;
    for (int place = 0; place < GY_OP_BLOCKS; place++)
        GY_TRY(tune_place(t, &best, place));
    return tune_keep(t, o, &best);
}

static int tune_all(struct tune *t)
{
    double before = 0, after = 0;
    gy_sink_printf(&t->sink, "net %s, batch %d, on %s\n\n%3s  %-12s %-34s %-9s %10s %10s %6s  %s\n", t->net->config.net_name,
                   t->net->config.batch, t->net->caps.device, "#", "op", "shape", "kernel", "us", "tuned us", "gain", "sizes");
    for (int i = 0; i < t->count; i++) {
        GY_TRY(tune_op(t, &t->ops[i]));
        before += t->ops[i].count * t->ops[i].before;
        after += t->ops[i].count * t->ops[i].after;
    }
    gy_sink_printf(&t->sink, "\n%-63s %10.1f %10.1f %6.2f\n", "sum, weighted by count", before * 1e6, after * 1e6,
                   after > 0 ? before / after : 1);
    return GY_OK;
}

/* ---- the call ---- */

static void tune_say_source(struct tune *t)
{
    const time_t now = (time_t)gy_clock_wall();
    char command[128];
    struct tm date;
    snprintf(command, sizeof command, "%s", t->config.command ? t->config.command : "gyre_print_tune");
    for (char *p = command; *p; p++)
        if ((unsigned char)*p < 32)
            *p = '?';
    memset(&date, 0, sizeof date);
    gmtime_r(&now, &date);
    snprintf(t->source, sizeof t->source, "%04d-%02d-%02d, gyre %d.%d.%d %.12s, %d thread%s, %s%s", date.tm_year + 1900, date.tm_mon + 1,
             date.tm_mday, GYRE_VERSION_MAJOR, GYRE_VERSION_MINOR, GYRE_VERSION_PATCH, gyre_source_id(), t->net->caps.threads,
             t->net->caps.threads == 1 ? "" : "s", command, t->config.any_order ? ", any order of sums" : "");
}

/* Finds out before the work that the file cannot be written. */
static int tune_check_path(struct tune *t)
{
    struct gyre_net *net = t->net;
    const char *const wanted = t->config.path ? t->config.path : net->config.tune;
    struct gy_outfile out;
    int named;
    GY_TRY(gy_tuned_path(t->path, sizeof t->path, wanted, net->config.use_env, &named, &net->error));
    if (!t->path[0])
        return gy_net_fail(net, GY_E_ARG, "there is no place for block sizes: tuning is off, or neither a path, GYRE_TUNE, XDG_CACHE_HOME "
                           "nor HOME is set");
    char folder[sizeof t->path];
    memcpy(folder, t->path, sizeof folder);
    char *const slash = strrchr(folder, '/');
    if (slash && slash != folder) {
        *slash = 0;
        GY_TRY(gy_file_make_folder(folder, &net->error));
    }
    GY_TRY(gy_outfile_open(&out, t->path, &net->error));
    gy_outfile_abandon(&out);
    return GY_OK;
}

static int tune_check(struct tune *t, const struct gyre_tune_config *config)
{
    struct gyre_net *net = t->net;
    if (config->size != sizeof *config)
        return gy_net_fail(net, GY_E_ARG, "tune config.size is %zu; its default function sets it to %zu", config->size, sizeof *config);
    t->config = *config;
    if (config->runs < 1 || config->runs > 1000)
        return gy_net_fail(net, GY_E_ARG, "runs is %d; it must be in 1 .. 1000", config->runs);
    GY_TRY(gy_net_ready(net, "gyre_print_tune", 0));
    if (!net->backend->block || !net->backend->block_tries)
        return gy_net_fail(net, GY_E_UNSUPPORTED, "%s has no block sizes", net->caps.device);
    return tune_check_path(t);
}

static int tune_run(struct tune *t, const struct gyre_tune_config *config)
{
    struct gyre_net *net = t->net;
    GY_TRY(tune_check(t, config));
    GY_TRY(gy_tuned_read(&t->tuned, t->path, gy_net_alloc(net), net->backend, &net->caps, &net->error));
    tune_say_source(t);
    GY_TRY(tune_collect(t));
    if (t->count == 0)
        return gy_net_fail(net, GY_E_UNSUPPORTED, "%.200s has no convolution whose block sizes can be chosen on %s", net->config.net_name,
                           net->caps.device);
    GY_TRY(tune_all(t));
    GY_TRY(gy_tuned_write(&t->tuned, t->path, &net->error));
    gy_sink_printf(&t->sink, "%d rows in %s\n", t->tuned.count, t->path);
    return t->sink.failed ? gy_net_fail(net, GY_E_IO, "the table could not be written") : GY_OK;
}

GYRE_API int gyre_print_tune(struct gyre_net *net, const struct gyre_tune_config *config, const struct gyre_sink *out)
{
    struct gyre_tune_config usual;
    struct tune t = { .net = net, .sink = gy_sink_of(out) };
    gyre_tune_config_default(&usual);
    const int status = tune_run(&t, config ? config : &usual);
    if (t.scratch)
        net->backend->mem_put(net->backend_self, t.scratch, t.scratch_bytes, GY_MEM_DEVICE);
    gy_alloc_free(gy_net_alloc(net), t.ops, (size_t)t.room * sizeof *t.ops);
    if (t.tuned.alloc.fn)
        gy_tuned_close(&t.tuned);
    return status;
}

#undef TUNE_LEAST_GAIN
#undef TUNE_TURN_NS
#undef TUNE_REPEATS
