/* SPDX-License-Identifier: MIT */
/* tune.c: measures block sizes, or on a GPU kernels, for every distinct convolution of the
 * programs, for gyre tune (tools/cmd_net.c). It takes one size after the other. All its candidates
 * take turns, so that another program on the machine disturbs all alike. The fastest run of each
 * counts. The winner is measured once more against the sizes of the table, and kept when it is
 * faster by more than chance. */
#include "tools/lab/lab.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/run/engine.h"
#include "tools/lab/roofline.h"
#include "engine/plan/tuning_file.h"

#define TUNE_LEAST_GAIN 1.02
#define TUNE_TURN 1e-3 /* seconds: a run is repeated until it takes about as long */
#define TUNE_REPEATS 256

#define TUNE_KERNELS 32 /* most variants of an op */

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
    int kernels; /* whole kernels are the candidates, not block sizes */
    void *scratch;
    size_t scratch_bytes;
    struct gy_arena plans; /* of all that was tried */
    char path[4096], source[256];
};

/* Candidates for one size of an op; the first is what it has. */
struct tune_race {
    struct gy_op op[TUNE_KERNELS];
    double seconds[TUNE_KERNELS];
    int count;
};

GYRE_API void gyre_tune_config_default(struct gyre_tune_config *config)
{
    if (!config)
        return;
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
    if (t->kernels)
        return t->net->backend->lab->variant(t->net->backend_self, op, 1) != NULL;
    for (int place = 0; place < GY_OP_BLOCKS; place++)
        if (t->net->backend->lab->block_tries(t->net->backend_self, op, place, t->config.any_order, values) > 0)
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
    t->ops = gy_alloc_take(gy_engine_scratch(net), (size_t)t->room, sizeof *t->ops);
    if (!t->ops)
        return GY_NOMEM(&t->net->error, "a table of convolutions", (size_t)t->room * sizeof *t->ops);
    for (int p = first; p <= last; p++)
        for (int i = 0; i < net->plan.program[p].count; i++)
            tune_collect_op(t, &net->plan.program[p].ops[i]);
    return GY_OK;
}

/* ---- measuring ---- */

static int tune_scratch(struct tune *t, size_t bytes)
{
    struct gyre_net *net = t->net;
    if (bytes <= t->scratch_bytes)
        return GY_OK;
    if (t->scratch)
        net->backend->mem_put(net->backend_self, t->scratch, t->scratch_bytes, GY_MEM_DEVICE);
    t->scratch = NULL;
    t->scratch_bytes = 0;
    GY_TRY(net->backend->mem_get(net->backend_self, bytes, GY_MEM_DEVICE, &t->scratch, &net->error));
    t->scratch_bytes = bytes;
    return GY_OK;
}

/* Chooses what op leaves open, with room for its scratch. */
static int tune_prepare(struct tune *t, struct gy_op *op)
{
    GY_TRY(t->net->backend->prepare(t->net->backend_self, op, &t->plans, &t->net->error));
    return tune_scratch(t, op->scratch_bytes);
}

static int tune_time(struct tune *t, struct gy_op *op, int repeats, double *seconds)
{
    struct gyre_net *net = t->net;
    op->ptr[GY_SCRATCH] = op->scratch_bytes ? t->scratch : NULL;
    return net->backend->lab->time(net->backend_self, op, repeats, seconds, &net->error);
}

/* Every candidate in turn, runs times. */
static int tune_run_race(struct tune *t, struct tune_race *race)
{
    double once;
    GY_TRY(tune_time(t, &race->op[0], 1, &once));
    const int repeats = (int)fmax(fmin(TUNE_TURN / once, TUNE_REPEATS), 1);
    for (int i = 0; i < race->count; i++)
        race->seconds[i] = HUGE_VAL;
    for (int run = 0; run < t->config.runs; run++)
        for (int i = 0; i < race->count; i++) {
            double seconds;
            GY_TRY(tune_time(t, &race->op[i], repeats, &seconds));
            race->seconds[i] = fmin(race->seconds[i], seconds);
        }
    return GY_OK;
}

/* The fastest of the race, by more than chance than the first. */
static int tune_best(const struct tune_race *race)
{
    int best = 0;
    for (int i = 1; i < race->count; i++)
        if (race->seconds[i] * TUNE_LEAST_GAIN < race->seconds[0] && race->seconds[i] < race->seconds[best])
            best = i;
    return best;
}

/* The best value of one size. */
static int tune_place(struct tune *t, struct gy_op *op, int place)
{
    struct tune_race race = { .count = 1 };
    int32_t values[GY_BLOCK_TRIES];
    const int tries = t->net->backend->lab->block_tries(t->net->backend_self, op, place, t->config.any_order, values);
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
    *op = race.op[tune_best(&race)];
    return GY_OK;
}

/* ---- kernels ---- */

/* Prepares the op and its alternatives. It leaves out the table's own choice under another name,
 * and what needs more than the device has. */
static int tune_kernels_of(struct tune *t, const struct gy_op *op, struct tune_race *race)
{
    const struct gy_backend *const backend = t->net->backend;
    void *const self = t->net->backend_self;
    const char *name;
    char usual[65] = "", hash[65];
    struct gy_error unused;
    race->count = 1;
    race->op[0] = *op;
    backend->lab->kernel_hash(self, op, usual);
    for (int i = 0; race->count < TUNE_KERNELS && (name = backend->lab->variant(self, op, i)); i++) {
        struct gy_op *const other = &race->op[race->count];
        *other = *op;
        other->variant = name;
        if (!backend->lab->kernel_hash(self, other, hash) || strcmp(hash, usual) == 0 || backend->prepare(self, other, &t->plans, &unused) != GY_OK)
            continue;
        race->count++;
    }
    return race->count;
}

/* Every kernel of every op, compiled together. */
static int tune_compile(struct tune *t, struct tune_race *race)
{
    for (int i = 0; i < t->count; i++)
        tune_kernels_of(t, &t->ops[i].op, race);
    return t->net->backend->ready(t->net->backend_self, &t->net->error);
}

/* Scratch for the largest. */
static int tune_room(struct tune *t, const struct tune_race *race)
{
    for (int i = 0; i < race->count; i++)
        GY_TRY(tune_scratch(t, race->op[i].scratch_bytes));
    return GY_OK;
}

static int tune_keep_kernel(struct tune *t, struct tune_op *o, const struct gy_op *best)
{
    struct tune_race last = { .op = { o->op, *best }, .count = 2 };
    char hash[65] = "", shape[96];
    GY_TRY(tune_run_race(t, &last));
    struct gy_tuned_row row = { .machine = t->tuned.machine, .set = t->tuned.set, .source = t->source, .variant = best->variant,
                                .code = best->code, .dtype = best->dtype, .geom = best->geom,
                                .stats = best->tensor[GY_STATS] >= 0 };
    row.gain = last.seconds[0] / last.seconds[1];
    const int better = strcmp(best->variant, o->op.variant) != 0 && row.gain >= TUNE_LEAST_GAIN;
    if (better && t->net->backend->lab->kernel_hash(t->net->backend_self, best, hash))
        memcpy(row.kernel, hash, sizeof row.kernel - 1);
    o->before = last.seconds[0];
    o->after = better ? last.seconds[1] : o->before;
    gy_sink_printf(&t->sink, "%3d  %-12s %-34s %-14s %10.1f %10.1f %6.2f  %s\n", o->count, gy_op_row(o->op.code)->name,
                   gy_op_shape(&o->op, shape, sizeof shape), o->op.variant, o->before * 1e6, o->after * 1e6, o->before / o->after,
                   better ? best->variant : "");
    return gy_tuned_put(&t->tuned, &row, &t->net->error);
}

static int tune_kernel(struct tune *t, struct tune_op *o, struct tune_race *race)
{
    tune_kernels_of(t, &o->op, race);
    GY_TRY(t->net->backend->ready(t->net->backend_self, &t->net->error));
    GY_TRY(tune_room(t, race));
    GY_TRY(tune_run_race(t, race));
    return tune_keep_kernel(t, o, &race->op[tune_best(race)]);
}

static int tune_every_kernel(struct tune *t)
{
    struct tune_race *const race = gy_alloc_take(gy_engine_scratch(t->net), 1, sizeof *race);
    int status = race ? GY_OK : GY_NOMEM(&t->net->error, "the list of variants", sizeof *race);
    if (status == GY_OK)
        status = tune_compile(t, race);
    for (int i = 0; i < t->count && status == GY_OK; i++)
        status = tune_kernel(t, &t->ops[i], race);
    gy_alloc_free(gy_engine_scratch(t->net), race, sizeof *race);
    return status;
}

/* ---- block sizes ---- */

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
    const int wide = t->kernels ? 14 : 9;
    gy_sink_printf(&t->sink, "net %s, batch %d, on %s\n\n%3s  %-12s %-34s %-*s %10s %10s %6s  %s\n", t->net->config.net_name,
                   t->net->config.batch, t->net->caps.device, "#", "op", "shape", wide, "kernel", "us", "tuned us", "gain",
                   t->kernels ? "tuned kernel" : "sizes");
    if (t->kernels)
        GY_TRY(tune_every_kernel(t));
    for (int i = 0; i < t->count; i++) {
        if (!t->kernels)
            GY_TRY(tune_op(t, &t->ops[i]));
        before += t->ops[i].count * t->ops[i].before;
        after += t->ops[i].count * t->ops[i].after;
    }
    gy_sink_printf(&t->sink, "\n%-*s %10.1f %10.1f %6.2f\n", 54 + wide, "sum, weighted by count", before * 1e6, after * 1e6,
                   after > 0 ? before / after : 1);
    return GY_OK;
}

/* ---- the call ---- */

static void tune_say_source(struct tune *t)
{
    char command[128], where[32], date[32];
    snprintf(command, sizeof command, "%s", t->config.command ? t->config.command : "gyre_print_tune");
    for (char *p = command; *p; p++)
        if ((unsigned char)*p < 32)
            *p = '?';
    /* the compiler's version is known by now */
    t->net->backend->caps(t->net->backend_self, &t->net->caps);
    snprintf(where, sizeof where, "%d thread%s", t->net->caps.threads, t->net->caps.threads == 1 ? "" : "s");
    snprintf(t->source, sizeof t->source, "%s, gyre %d.%d.%d %.12s, %s, %s%s", gy_clock_date(gy_clock_wall(), date),
             GYRE_VERSION_MAJOR, GYRE_VERSION_MINOR, GYRE_VERSION_PATCH, gyre_source_id(),
             t->net->caps.versions ? t->net->caps.versions : where, command, t->config.any_order ? ", any order of sums" : "");
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
        return gy_engine_fail(net, GY_E_ARG, "there is no place for block sizes: tuning is off, or neither a path, GYRE_TUNE, XDG_CACHE_HOME "
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
        return gy_engine_fail(net, GY_E_ARG, "tune config.size is %zu; its default function sets it to %zu", config->size, sizeof *config);
    t->config = *config;
    if (config->runs < 1 || config->runs > 1000)
        return gy_engine_fail(net, GY_E_ARG, "runs is %d; it must be in 1 .. 1000", config->runs);
    GY_TRY(gy_engine_ready(net, "gyre_print_tune", 0));
    if (!net->backend->lab)
        return gy_engine_fail(net, GY_E_UNSUPPORTED, "%s has neither block sizes nor kernels to choose from", net->caps.device);
    t->kernels = !net->caps.host_memory;
    if (t->kernels && !config->any_order)
        return gy_engine_fail(net, GY_E_ARG, "the kernels of %s take sums in different orders, so that results differ in their last bits: "
                              "any order (--any-order) must be allowed", net->caps.device);
    return tune_check_path(t);
}

/* Is there a clock? The first op of the net says it, before hundreds of kernels are compiled. */
static int tune_check_clock(struct tune *t)
{
    struct gyre_net *net = t->net;
    const int program = net->config.mode == GYRE_TRAIN ? GY_FORWARD : GY_EVAL;
    double seconds;
    return t->kernels ? net->backend->lab->time(net->backend_self, &net->plan.program[program].ops[0], 1, &seconds, &net->error) : GY_OK;
}

static int tune_run(struct tune *t, const struct gyre_tune_config *config)
{
    struct gyre_net *net = t->net;
    GY_TRY(tune_check(t, config));
    GY_TRY(tune_check_clock(t));
    GY_TRY(gy_tuned_read(&t->tuned, t->path, gy_engine_scratch(net), net->backend, &net->caps, &net->error));
    tune_say_source(t);
    GY_TRY(tune_collect(t));
    if (t->count == 0)
        return gy_engine_fail(net, GY_E_UNSUPPORTED, "%.200s has no convolution whose %s can be chosen on %s", net->config.net_name,
                              t->kernels ? "kernels" : "block sizes", net->caps.device);
    GY_TRY(tune_all(t));
    GY_TRY(gy_tuned_write(&t->tuned, t->path, &net->error));
    gy_sink_printf(&t->sink, "%d rows in %s\n", t->tuned.count, t->path);
    return t->sink.failed ? gy_engine_fail(net, GY_E_IO, "the table could not be written") : GY_OK;
}

GYRE_API int gyre_print_tune(struct gyre_net *net, const struct gyre_tune_config *config, const struct gyre_sink *out)
{
    GY_TRY(gy_engine_given(net, out, "gyre_print_tune: sink"));
    struct gyre_tune_config usual;
    struct tune t = { .net = net, .sink = gy_sink_of(out) };
    gyre_tune_config_default(&usual);
    gy_arena_open_hook(&t.plans, gy_engine_scratch(net));
    const int status = tune_run(&t, config ? config : &usual);
    if (t.scratch)
        net->backend->mem_put(net->backend_self, t.scratch, t.scratch_bytes, GY_MEM_DEVICE);
    gy_arena_close(&t.plans);
    gy_alloc_free(gy_engine_scratch(net), t.ops, (size_t)t.room * sizeof *t.ops);
    if (t.tuned.alloc.fn)
        gy_tuned_close(&t.tuned);
    return status;
}

#undef TUNE_LEAST_GAIN
#undef TUNE_TURN
#undef TUNE_REPEATS
#undef TUNE_KERNELS
