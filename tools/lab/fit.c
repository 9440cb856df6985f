/* SPDX-License-Identifier: MIT */
/* fit.c: finds the batch, accumulation, recomputation and type that fit a machine's memory and
 * train fastest. tools/cmd_fit.c and cmd_micro.c call it. Nothing is trained. Planning a candidate
 * tells its memory exactly. Its images per second are expected from this machine's measured peak
 * and bandwidth, and the shares of them that ops of each kind reach (roofline.c). */
#include "tools/lab/fit.h"
#include "engine/base/memory.h"
#include "engine/run/engine.h"
#include "tools/lab/roofline.h"

#define FIT_BATCHES 64
#define FIT_WAYS 4            /* float and bf16, kept and recomputed */
#define FIT_BATCH_MOST 256    /* without a target: larger ones want another learning rate */
#define FIT_PROCESS ((size_t)16 << 20) /* the program itself, and images being decoded */
#define FIT_QUEUE 6                    /* batches that the loader holds */

struct fit_candidate {
    int batch, accumulate, recompute, dtype;
    int fits;
    size_t bytes;
    double images;
};

struct fit_run {
    struct gyre_config config;     /* the caller's, checked */
    struct gyre_fit_config fit;
    struct gy_ceilings ceilings;
    struct gy_caps caps;
    char device[128];
    size_t sample_bytes;
    int batch[FIT_BATCHES], batch_count; /* rising */
    struct fit_candidate candidate[FIT_BATCHES][FIT_WAYS];
    int chosen_batch, chosen_way;  /* -1: none fits */
    double seconds;                /* of the net that is looked at */
    int status;
};

GYRE_API void gyre_fit_config_default(struct gyre_fit_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->dtypes = 1 << GYRE_F32 | 1 << GYRE_BF16;
    config->processes = 1;
    config->recompute = -1;
}

/* ---- candidates ---- */

/* The batches to try. With a target they are its divisors, as batch times accumulation is the
 * target. Else they are 1, 2, 3, 4, 6, 8, 12, ... */
static void fit_batches(struct fit_run *run)
{
    const int target = run->fit.target_batch;
    const int64_t most = target ? target : FIT_BATCH_MOST;
    for (int64_t b = 1; b <= most && run->batch_count < FIT_BATCHES; b++) {
        const int64_t odd = b / (b & -b);
        if (target ? target % b == 0 : odd == 1 || odd == 3)
            run->batch[run->batch_count++] = (int)b;
    }
}

/* What a process may take where nobody said it. */
static int fit_free(struct fit_run *run, struct gy_error *err)
{
    struct gy_memory memory;
    if (run->fit.bytes > 0)
        return GY_OK;
    if (!run->caps.host_memory)
        return GY_FAIL(err, GY_E_ARG, "how much of the GPU's memory may be taken has to be said");
    gy_memory_look(&memory, "");
    if (memory.available == UINT64_MAX)
        return GY_FAIL(err, GY_E_ARG,
                       "the system does not say how much memory is free; a limit has to be given");
    run->fit.bytes = (size_t)(memory.available / 10 * 9) / (size_t)run->fit.processes;
    return GY_OK;
}

/* The first look at the net: what the machine can do. */
static void fit_look_machine(void *user, const struct gyre_net *net)
{
    struct fit_run *run = user;
    struct gy_ceilings again = { 0 };
    net->backend->caps(net->backend_self, &run->caps);
    snprintf(run->device, sizeof run->device, "%s", run->caps.device);
    run->sample_bytes = net->plan.tensors[net->plan.input].bytes / (size_t)net->config.batch;
    const struct gy_backend_lab *const lab = net->backend->lab;
    run->status = lab ? lab->ceilings(net->backend_self, &run->ceilings) : GY_E_UNSUPPORTED;
    if (run->status == GY_OK && lab->ceilings(net->backend_self, &again) == GY_OK)
        gy_ceilings_merge(&run->ceilings, &again);
}

static void fit_look(void *user, const struct gyre_net *net)
{
    struct fit_run *run = user;
    run->seconds = 0;
    for (int p = GY_FORWARD; p <= GY_UPDATE; p++)
        for (int i = 0; i < net->plan.program[p].count; i++) {
            const struct gy_work work = gy_op_work(&net->plan, &net->plan.program[p].ops[i]);
            const double part = p == GY_UPDATE ? 1.0 / net->config.accumulate : 1.0;
            run->seconds += part * gy_roofline_expect(&net->plan.program[p].ops[i], &work, &run->ceilings);
        }
}

static struct gyre_config fit_config(const struct fit_run *run, int batch, int way)
{
    struct gyre_config config = run->config;
    config.batch = batch;
    config.accumulate = run->fit.target_batch ? run->fit.target_batch / batch : 1;
    config.dtype = way / 2 ? GYRE_BF16 : GYRE_F32;
    config.recompute = way % 2;
    return config;
}

static int fit_try(struct fit_run *run, int index, int way, struct gy_error *err)
{
    const struct gyre_config config = fit_config(run, run->batch[index], way);
    struct fit_candidate *c = &run->candidate[index][way];
    struct gyre_need need = { 0 };
    GY_TRY(gy_engine_measure(&config, &need, fit_look, run, err));
    *c = (struct fit_candidate){ config.batch, config.accumulate, config.recompute, config.dtype, 0, 0, 0 };
    c->bytes = need.host_bytes + FIT_PROCESS + FIT_QUEUE * (size_t)config.batch * run->sample_bytes;
    c->bytes = need.device_bytes ? need.device_bytes : c->bytes;
    c->fits = c->bytes <= run->fit.bytes;
    c->images = config.batch / run->seconds;
    return GY_OK;
}

static int fit_way_allowed(const struct fit_run *run, int way)
{
    const int wanted = run->fit.dtypes >> (way / 2 ? GYRE_BF16 : GYRE_F32) & 1;
    if (run->fit.recompute >= 0 && run->fit.recompute != way % 2)
        return 0;
    return wanted && (run->caps.dtypes >> (way / 2 ? GY_BF16 : GY_F32) & 1);
}

/* Memory rises with the batch: after one that does not fit, none does. */
static int fit_try_all(struct fit_run *run, struct gy_error *err)
{
    for (int way = 0; way < FIT_WAYS; way++)
        for (int i = 0; i < run->batch_count && fit_way_allowed(run, way); i++) {
            GY_TRY(fit_try(run, i, way, err));
            if (!run->candidate[i][way].fits)
                break;
        }
    return GY_OK;
}

/* ---- the choice ---- */

/* Chooses the largest batch among those as fast as the fastest one. Of its ways it takes the
 * plainest: float, nothing recomputed. */
static void fit_choose(struct fit_run *run)
{
    double best = 0;
    for (int i = 0; i < run->batch_count; i++)
        for (int way = 0; way < FIT_WAYS; way++)
            if (run->candidate[i][way].fits)
                best = fmax(best, run->candidate[i][way].images);
    run->chosen_batch = run->chosen_way = -1;
    for (int i = run->batch_count - 1; i >= 0; i--)
        for (int way = 0; way < FIT_WAYS; way++) {
            const struct fit_candidate *c = &run->candidate[i][way];
            if (!c->fits || c->images < best * (1 - GY_FIT_SLACK))
                continue;
            run->chosen_batch = i;
            run->chosen_way = way;
            return;
        }
}

static int fit_fail(const struct fit_run *run, struct gy_error *err)
{
    char least[24], limit[24];
    size_t bytes = SIZE_MAX;
    int at = 0;
    for (int way = 0; way < FIT_WAYS; way++)
        if (run->candidate[0][way].batch && run->candidate[0][way].bytes < bytes) {
            bytes = run->candidate[0][way].bytes;
            at = way;
        }
    return GY_FAIL(err, GY_E_NOMEM, "%.200s needs %s with a batch of %d%s%s; the limit is %s", run->config.net_name,
                   gy_text_bytes(least, sizeof least, (double)bytes), run->batch[0], at / 2 ? " in bf16" : "",
                   at % 2 ? ", recomputed" : "", gy_text_bytes(limit, sizeof limit, (double)run->fit.bytes));
}

/* ---- the page ---- */

static const char *const fit_ways[FIT_WAYS] = { "f32", "f32, recomputed", "bf16", "bf16, recomputed" };

static void fit_print_cell(const struct fit_candidate *c, int chosen, struct gy_sink *sink)
{
    char bytes[24];
    if (c->batch == 0)
        gy_sink_printf(sink, " | %20s", "");
    else if (!c->fits)
        gy_sink_printf(sink, " | %10s %9s", gy_text_bytes(bytes, sizeof bytes, (double)c->bytes), "too large");
    else
        gy_sink_printf(sink, " | %10s %8.1f%s", gy_text_bytes(bytes, sizeof bytes, (double)c->bytes), c->images, chosen ? "*" : " ");
}

static void fit_print(const struct fit_run *run, struct gy_sink *sink)
{
    char bytes[24];
    const struct fit_candidate *c = &run->candidate[run->chosen_batch][run->chosen_way];
    gy_sink_printf(sink, "net %s in %s\n", run->config.net_name, gy_text_bytes(bytes, sizeof bytes, (double)run->fit.bytes));
    gy_ceilings_print(&run->ceilings, run->device, sink);
    gy_sink_printf(sink, "\nplanned memory and expected images/s\n%6s %6s", "batch", run->fit.target_batch ? "accum." : "");
    for (int way = 0; way < FIT_WAYS; way++)
        if (fit_way_allowed(run, way))
            gy_sink_printf(sink, " | %-20s", fit_ways[way]);
    for (int i = 0; i < run->batch_count; i++) {
        int tried = 0;
        for (int way = 0; way < FIT_WAYS; way++)
            tried |= run->candidate[i][way].batch != 0;
        if (!tried)
            break;
        gy_sink_printf(sink, run->fit.target_batch ? "\n%6d %6d" : "\n%6d %6.0d", run->batch[i],
                       run->fit.target_batch ? run->fit.target_batch / run->batch[i] : 0);
        for (int way = 0; way < FIT_WAYS; way++)
            if (fit_way_allowed(run, way))
                fit_print_cell(&run->candidate[i][way], i == run->chosen_batch && way == run->chosen_way, sink);
    }
    gy_sink_printf(sink, "\n\nchoice: batch %d", c->batch);
    if (c->accumulate > 1)
        gy_sink_printf(sink, ", %d batches an update", c->accumulate);
    gy_sink_printf(sink, ", %s: %s, %.1f images/s expected\n", fit_ways[run->chosen_way],
                   gy_text_bytes(bytes, sizeof bytes, (double)c->bytes), c->images);
}

static void fit_json_candidate(const struct fit_candidate *c, struct gy_sink *sink)
{
    gy_sink_printf(sink,
                   "{\"batch\":%d,\"accumulate\":%d,\"recompute\":%s,\"dtype\":\"%s\",\"fits\":%s,\"bytes\":%zu,"
                   "\"images_per_second\":%.4f}",
                   c->batch, c->accumulate, c->recompute ? "true" : "false", c->dtype == GYRE_BF16 ? "bf16" : "f32",
                   c->fits ? "true" : "false", c->bytes, c->images);
}

static void fit_json(const struct fit_run *run, struct gy_sink *sink)
{
    int shown = 0;
    gy_sink_printf(sink, "{\"net\":");
    gy_print_json_text(run->config.net_name, sink);
    gy_sink_printf(sink, ",\"device\":");
    gy_print_json_text(run->device, sink);
    gy_sink_printf(sink, ",\"limit_bytes\":%zu,\"choice\":", run->fit.bytes);
    fit_json_candidate(&run->candidate[run->chosen_batch][run->chosen_way], sink);
    gy_sink_printf(sink, ",\"candidates\":[");
    for (int i = 0; i < run->batch_count; i++)
        for (int way = 0; way < FIT_WAYS; way++)
            if (run->candidate[i][way].batch) {
                gy_sink_printf(sink, shown++ ? "," : "");
                fit_json_candidate(&run->candidate[i][way], sink);
            }
    gy_sink_printf(sink, "]}\n");
}

/* ---- the call ---- */

static int fit_check(struct fit_run *run, const struct gyre_config *config, const struct gyre_fit_config *fit, struct gy_error *err)
{
    gyre_fit_config_default(&run->fit);
    GY_TRY(gy_config_copy(&run->config, config, err));
    if (fit->size != sizeof *fit)
        return GY_FAIL(err, GY_E_ARG, "fit config.size is %zu; its default function sets it to %zu", fit->size, sizeof *fit);
    run->fit = *fit;
    run->config.mode = GYRE_TRAIN;
    run->config.memory = (struct gyre_memory){ 0 };
    run->config.use_env = 0;
    if (fit->target_batch < 0 || fit->target_batch > 1 << 20)
        return GY_FAIL(err, GY_E_ARG, "target_batch is %d; it must be in 0 .. %d", fit->target_batch, 1 << 20);
    if (fit->processes < 1 || fit->recompute < -1 || fit->recompute > 1)
        return GY_FAIL(err, GY_E_ARG, "processes is %d, recompute %d; they must be 1 or more, and "
                       "in -1 .. 1", fit->processes, fit->recompute);
    if (!(fit->dtypes & (1 << GYRE_F32 | 1 << GYRE_BF16)))
        return GY_FAIL(err, GY_E_ARG, "dtypes is %d; it must allow a type", fit->dtypes);
    return GY_OK;
}

static int fit_measure(struct fit_run *run, struct gy_error *err)
{
    struct gyre_need need = { 0 };
    fit_batches(run);
    const struct gyre_config first = fit_config(run, run->batch[0], 0);
    GY_TRY(gy_engine_measure(&first, &need, fit_look_machine, run, err));
    if (run->status != GY_OK)
        return GY_FAIL(err, run->status, "%s", run->status == GY_E_NOMEM
                           ? "out of memory: buffers to measure the bandwidth with"
                           : "the speed of this device cannot be measured");
    GY_TRY(fit_free(run, err));
    GY_TRY(fit_try_all(run, err));
    fit_choose(run);
    return run->chosen_batch < 0 ? fit_fail(run, err) : GY_OK;
}

GY_INT int gy_fit_each(const struct gyre_config *config, const struct gyre_fit_config *fit,
                       void (*take)(void *user, const struct gyre_fit *candidate), void *user,
                       struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct fit_run *run = gy_alloc_take(&alloc, 1, sizeof *run);
    if (!run)
        return GY_NOMEM(err, "a table of candidates", sizeof *run);
    int status = fit_check(run, config, fit, err);
    if (status == GY_OK)
        status = fit_measure(run, err);
    for (int i = 0; i < run->batch_count && status == GY_OK; i++)
        for (int way = 0; way < FIT_WAYS; way++) {
            const struct fit_candidate *c = &run->candidate[i][way];
            const struct gyre_fit fits = { c->batch, c->accumulate,  c->recompute, c->dtype,
                                           c->bytes, run->fit.bytes, c->images };
            if (c->fits)
                take(user, &fits);
        }
    gy_alloc_free(&alloc, run, sizeof *run);
    return status;
}

GYRE_API int gyre_print_fit(const struct gyre_config *config, const struct gyre_fit_config *fit, struct gyre_fit *choice,
                            const struct gyre_sink *out, struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_print_fit: config", error));
    GY_TRY(gy_given(fit, "gyre_print_fit: fit", error));
    struct gy_error err = { 0 };
    const struct gy_alloc alloc = gy_alloc_default();
    struct fit_run *run = gy_alloc_take(&alloc, 1, sizeof *run);
    if (!run) {
        GY_NOMEM(&err, "a table of candidates", sizeof *run);
        return gy_error_out(error, &err);
    }
    int status = fit_check(run, config, fit, &err);
    if (status == GY_OK)
        status = fit_measure(run, &err);
    if (status == GY_OK && out) {
        struct gy_sink sink = gy_sink_of(out);
        (run->fit.json ? fit_json : fit_print)(run, &sink);
        if (sink.failed)
            status = GY_FAIL(&err, GY_E_IO, "the table could not be written");
    }
    if (status == GY_OK && choice) {
        const struct fit_candidate *c = &run->candidate[run->chosen_batch][run->chosen_way];
        *choice = (struct gyre_fit){ c->batch, c->accumulate,  c->recompute, c->dtype,
                                     c->bytes, run->fit.bytes, c->images };
    }
    gy_alloc_free(&alloc, run, sizeof *run);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

#undef FIT_BATCHES
#undef FIT_WAYS
#undef FIT_BATCH_MOST
#undef FIT_PROCESS
#undef FIT_QUEUE
