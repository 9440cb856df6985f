/* SPDX-License-Identifier: MIT */
/* evaluate.c: runs every sample of a data set once through the net, in order. Sums are taken in
 * that order, so that equal weights give equal bits. gyre_evaluate is public; the training loop
 * tests by it. */
#include "engine/run/parallel.h"
#include "engine/train/net_data.h"
#include "engine/train/metrics.h"
#include "engine/base/clock.h"
#include "io/report.h"

GYRE_API void gyre_evaluate_config_default(struct gyre_evaluate_config *config)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->size = sizeof *config;
    config->loader_threads = 1;
}

struct eval_run {
    struct gyre_net *net;
    struct gyre_evaluate_config config;
    struct gyre_shape shape;
    struct gyre_data_info info;
    struct gyre_loader *loader;
    struct gy_metrics *metrics; /* NULL: only sums are wanted */
    struct gyre_report report;
    int64_t right1, right5;
    double loss;                /* sum */
    char (*numbers)[12];        /* names of classes that the data set does not know */
    const char **names;         /* [classes] */
};

static int eval_open_loader(struct eval_run *run)
{
    struct gyre_loader_config c;
    struct gyre_error error;
    gyre_loader_config_default(&c);
    c.batch = run->shape.batch;
    c.h = run->shape.h;
    c.w = run->shape.w;
    c.c = run->shape.c;
    memset(&c.augment, 0, sizeof c.augment);
    c.augment.resize = run->config.resize;
    c.threads = run->config.loader_threads;
    const int status = gyre_open_loader(&run->loader, run->config.data, &c, &error);
    return status == GYRE_OK ? GYRE_OK : gy_engine_fail(run->net, status, "%s", error.text);
}

static int eval_names(struct eval_run *run)
{
    const struct gy_alloc *alloc = gy_engine_scratch(run->net);
    const int32_t classes = run->shape.classes;
    run->names = gy_alloc_take(alloc, (size_t)classes, sizeof *run->names);
    run->numbers = gy_alloc_take(alloc, (size_t)classes, sizeof *run->numbers);
    if (!run->names || !run->numbers)
        return gy_engine_fail(run->net, GY_E_NOMEM, "out of memory: the names of %d classes", classes);
    for (int32_t i = 0; i < classes; i++) {
        snprintf(run->numbers[i], sizeof run->numbers[i], "%d", i);
        run->names[i] = run->config.names ? run->config.names[i] : gyre_class_name(run->config.data, i);
        if (!run->names[i])
            run->names[i] = run->numbers[i];
    }
    return GY_OK;
}

static int eval_open(struct eval_run *run)
{
    const int detailed = run->config.text || run->config.confusion_svg;
    gyre_get_shape(run->net, &run->shape);
    gyre_get_data_info(run->config.data, &run->info);
    if (run->info.classes > run->shape.classes)
        return gy_engine_fail(run->net, GY_E_MISMATCH, "the data set has %d classes, the net %d", run->info.classes,
                              run->shape.classes);
    if (detailed) {
        GY_TRY(eval_names(run));
        GY_TRY(gy_metrics_open(&run->metrics, gy_engine_scratch(run->net), run->shape.classes,
                               run->config.text ? run->info.samples : 0, &run->net->error));
    }
    return eval_open_loader(run);
}

static int eval_batch(struct eval_run *run, const struct gyre_batch *batch)
{
    struct gyre_result result;
    const float *scores, *loss;
    const int32_t *rank;
    GY_TRY(gyre_eval(run->net, batch, &result));
    run->report.samples += result.labelled;
    run->loss += result.loss * result.labelled;
    run->right1 += result.top1;
    run->right5 += result.top5;
    if (!run->metrics)
        return GY_OK;
    GY_TRY(gyre_get_scores(run->net, &scores, &loss, &rank));
    return gy_metrics_add(run->metrics, scores, batch->label, loss, rank, batch->count, &run->net->error);
}

static int eval_all(struct eval_run *run)
{
    for (;;) {
        struct gyre_batch batch = { 0 };
        struct gyre_error error;
        const int status = gyre_next_batch(run->loader, &batch, NULL, &error);
        if (status != GYRE_OK)
            return gy_engine_fail(run->net, status, "%s", error.text);
        if (batch.count == 0)
            return GY_OK;
        GY_TRY(gy_parallel_alive(run->net));
        GY_TRY(eval_batch(run, &batch));
    }
}

static int eval_svg(struct eval_run *run)
{
    const int64_t *counts = gy_metrics_confusion(run->metrics);
    if (!counts)
        return gy_engine_fail(run->net, GY_E_UNSUPPORTED, "%.200s: a confusion matrix is drawn for at most %d classes; there are %d",
                              run->config.confusion_svg, GY_METRICS_MATRIX, run->shape.classes);
    return gy_svg_confusion(run->config.confusion_svg, "confusion matrix", counts, run->shape.classes, run->names,
                            &run->net->error);
}

static int eval_print(struct eval_run *run)
{
    struct gy_sink sink = gy_sink_of(run->config.text);
    if (run->config.json)
        gy_metrics_json(run->metrics, run->names, &sink);
    else
        gy_metrics_print(run->metrics, run->names, &sink);
    return sink.failed ? gy_engine_fail(run->net, GY_E_IO, "the report could not be written") : GY_OK;
}

/* The last stage of a pipeline has the sums. */
static int eval_share(struct eval_run *run)
{
    double sums[4] = { (double)run->report.samples, run->loss, (double)run->right1,
                       (double)run->right5 };
    if (!run->net->pipe)
        return GY_OK;
    GY_TRY(run->net->pipe->share(run->net, sums, 4));
    run->report.samples = (int64_t)sums[0];
    run->loss = sums[1];
    run->right1 = (int64_t)sums[2];
    run->right5 = (int64_t)sums[3];
    return GY_OK;
}

static int eval_finish(struct eval_run *run, int64_t began)
{
    GY_TRY(eval_share(run));
    const int64_t samples = run->report.samples;
    gyre_get_data_info(run->config.data, &run->info);
    run->report.bad = run->info.bad;
    run->report.loss = samples ? run->loss / (double)samples : 0;
    run->report.top1 = samples ? (double)run->right1 / (double)samples : 0;
    run->report.top5 = samples ? (double)run->right5 / (double)samples : 0;
    run->report.seconds = (double)(gy_clock_ns() - began) * 1e-9;
    if (run->metrics)
        gy_metrics_finish(run->metrics);
    if (run->config.text)
        GY_TRY(eval_print(run));
    return run->config.confusion_svg ? eval_svg(run) : GY_OK;
}

static void eval_close(struct eval_run *run)
{
    const struct gy_alloc *alloc = gy_engine_scratch(run->net);
    gyre_close_loader(run->loader);
    gy_metrics_close(run->metrics);
    gy_alloc_free(alloc, run->numbers, (size_t)run->shape.classes * sizeof *run->numbers);
    gy_alloc_free(alloc, run->names, (size_t)run->shape.classes * sizeof *run->names);
}

GYRE_API int gyre_evaluate(struct gyre_net *net, const struct gyre_evaluate_config *config, struct gyre_report *report)
{
    GY_TRY(gy_engine_given(net, config, "gyre_evaluate: config"));
    struct eval_run run = { .net = net };
    const int64_t began = gy_clock_ns();
    gyre_evaluate_config_default(&run.config);
    GY_TRY(gy_config_take(&run.config, sizeof run.config, config,
                          offsetof(struct gyre_evaluate_config, resize), "evaluate config", &net->error));
    if (!run.config.data)
        return gy_engine_fail(net, GY_E_ARG, "gyre_evaluate needs a data set");
    GY_TRY(gy_data_check_input(net, run.config.data, "data set's"));
    int status = eval_open(&run);
    if (status == GY_OK)
        status = eval_all(&run);
    if (status == GY_OK)
        status = eval_finish(&run, began);
    eval_close(&run);
    if (status == GY_OK && report)
        *report = run.report;
    return status;
}
