/* SPDX-License-Identifier: MIT */
/* cmd_net.c: commands on a net without data: plan, bench, tune, zoo, knobs. gyre.c has their rows.
 * */
#include "engine/gyre_job.h"
#include "tools/lab/lab.h"
#include "tools/cli.h"
#include <stdlib.h>

struct net_values {
    int64_t batch, accumulate, recompute, infer, json, runs, csv, any_order, optimizer, classes, size, channels;
    int64_t shards, sync_bn, pipeline, micro, stage_schedule;
    int64_t mem;
    double bucket;
    const char *out;
    struct gyre_job *job;
    struct cli_net_options net;
};

#define AT(member) offsetof(struct net_values, member)
#define SHAPE_ROWS                                                                                                     \
    { "classes", "N", NULL, "outputs of a zoo net; default: its own", CLI_WHOLE, AT(classes), 1, 1 << 20 },            \
    { "size", "N", NULL, "side of a zoo net's input; default: its own", CLI_WHOLE, AT(size), 1, 16384 },               \
    { "channels", "N", NULL, "channels of a zoo net's input; default: its own", CLI_WHOLE, AT(channels), 1, 4 }
#define STEP_ROWS                                                                                                      \
    { "batch", "N", "32", "images a step", CLI_WHOLE, AT(batch), 1, 1 << 20 },                                         \
    { "recompute", NULL, NULL, "less memory for more time: keep only block inputs", CLI_FLAG, AT(recompute), 0, 0 },   \
    { "infer", NULL, NULL, "the net without gradients", CLI_FLAG, AT(infer), 0, 0 },                                   \
    { "optimizer", CLI_OPTIMIZERS, "sgd", "update rule", CLI_CHOICE, AT(optimizer), 0, 0 }

static const struct cli_option plan_rows[] = {
    STEP_ROWS, SHAPE_ROWS,
    { "shards", "N", "0", "a step is N batches, dealt to the processes", CLI_WHOLE, AT(shards), 0, 65536 },
    { "sync-bn", NULL, NULL, "batch norms see the images of all processes", CLI_FLAG, AT(sync_bn), 0, 0 },
    { "bucket", "X", "4", "megabytes of gradients that processes or shards sum at a time", CLI_REAL, AT(bucket), 0.001, 1e6 },
    { "pipeline", "P", "1", "stages of a pipeline: prints these instead", CLI_WHOLE, AT(pipeline), 1, 64 },
    { "micro", "M", "4", "equal parts of --batch that go through the stages", CLI_WHOLE, AT(micro), 1, 1 << 20 },
    { "stage-schedule", "1f1b|gpipe", "1f1b", "order of a stage's passes", CLI_CHOICE,
      AT(stage_schedule), 0, 0 },
    { "mem", "SIZE", NULL, "memory for the tensors of a stage; default: any", CLI_SIZE, AT(mem), 0, 0 },
    { "json", NULL, NULL, "one JSON object", CLI_FLAG, AT(json), 0, 0 },
};
static const struct cli_option bench_rows[] = {
    STEP_ROWS, SHAPE_ROWS,
    { "runs", "N", "10", "times that each op runs; the fastest counts", CLI_WHOLE, AT(runs), 1, 1000000 },
    { "csv", NULL, NULL, "comma-separated values", CLI_FLAG, AT(csv), 0, 0 },
};
static const struct cli_option tune_rows[] = {
    STEP_ROWS, SHAPE_ROWS,
    { "runs", "N", "5", "times that each candidate runs, in turn with the others; the fastest counts", CLI_WHOLE, AT(runs), 1, 1000 },
    { "any-order", NULL, NULL, "also sizes that change the order of sums: results differ in their last bits", CLI_FLAG, AT(any_order), 0, 0 },
    { "out", "FILE", NULL, "file to write; default: --tune, else GYRE_TUNE, else ~/.cache/gyre/tune.txt", CLI_TEXT, AT(out), 0, 0 },
};
static const struct cli_option zoo_rows[] = { SHAPE_ROWS };
#undef AT
#undef SHAPE_ROWS
#undef STEP_ROWS

static struct gyre_shape wanted_shape(const struct net_values *v)
{
    return (struct gyre_shape){ (int32_t)v->size, (int32_t)v->size, (int32_t)v->channels, (int32_t)v->classes, 0 };
}

/* NET as training would open it; the text is to free(). NULL: *code says why. */
static char *configure_plain(struct gyre_config *config, const struct net_values *v, const char *name, int *code)
{
    const struct gyre_shape shape = wanted_shape(v);
    char *text = cli_net_text(name, &shape, code);
    if (!text)
        return NULL;
    cli_net_config(config, &v->net, text, name);
    config->batch = (int)v->batch;
    config->recompute = (int)v->recompute;
    config->mode = v->infer ? GYRE_INFER : GYRE_TRAIN;
    config->input = GYRE_INPUT_U8;
    config->optimizer.kind = (int)v->optimizer;
    config->shards = (int)v->shards;
    config->sync_bn = (int)v->sync_bn;
    config->bucket_bytes = (size_t)(v->bucket * 1048576);
    config->job = v->job;
    return text;
}

static int open_plain(struct gyre_net **net, const struct net_values *v, const char *name)
{
    struct gyre_config config;
    struct gyre_error error;
    int code = CLI_OK;
    char *text = configure_plain(&config, v, name, &code);
    if (text && gyre_open(net, &config, &error) != GYRE_OK)
        code = cli_error(&error);
    free(text);
    return code;
}

static int plan_stages(const struct net_values *v, const char *name)
{
    struct gyre_config config;
    struct gyre_error error;
    int code = CLI_OK;
    if (v->batch % v->micro != 0 && !v->shards)
        return cli_fail(CLI_USAGE, "--batch %" PRId64 " cannot be cut into %" PRId64 " equal parts",
                        v->batch, v->micro);
    char *text = configure_plain(&config, v, name, &code);
    if (!text)
        return code;
    config.pipeline = (int)v->pipeline;
    config.accumulate = v->shards ? 1 : (int)v->micro;
    config.batch = (int)(v->shards ? v->batch : v->batch / v->micro);
    config.stage_schedule = v->stage_schedule ? GYRE_GPIPE : GYRE_1F1B;
    config.stage_bytes = (size_t)v->mem;
    if (gyre_print_stages(&config, (int)v->json, &cli_stdout, &error) != GYRE_OK)
        code = cli_error(&error);
    free(text);
    return code;
}

/* Every rank plans, one prints. Nothing is opened: a plan takes no memory of the net's size. */
static int plan_plain(const struct net_values *v, const char *name)
{
    struct gyre_config config;
    struct gyre_error error;
    struct gyre_need need;
    int code = CLI_OK;
    char *text = configure_plain(&config, v, name, &code);
    const int prints = gyre_job_rank(v->job) == 0;
    if (text && (prints ? gyre_print_config_plan(&config, (int)v->json, &cli_stdout, &error) : gyre_measure(&config, &need, &error)) != GYRE_OK)
        code = cli_error(&error);
    free(text);
    return code;
}

static int plan_run(const void *values, char **args, int count)
{
    struct net_values v = *(const struct net_values *)values;
    struct gyre_error error;
    (void)count;
    if (v.pipeline > 1)
        return plan_stages(&v, args[0]);
    if (gyre_job_open(&v.job, NULL, &error) != GYRE_OK)
        return cli_error(&error);
    const int code = cli_job_end(v.job, plan_plain(&v, args[0]));
    gyre_job_close(v.job);
    return code;
}

static int bench_run(const void *values, char **args, int count)
{
    const struct net_values *v = values;
    struct gyre_net *net = NULL;
    (void)count;
    int code = open_plain(&net, v, args[0]);
    if (code == CLI_OK && gyre_print_bench(net, (int)v->runs, (int)v->csv, &cli_stdout) != GYRE_OK)
        code = cli_net_error(net);
    gyre_close(net);
    return code;
}

/* What is measured now begins from the table, not from an earlier file. */
static int tune_run(const void *values, char **args, int count)
{
    struct net_values v = *(const struct net_values *)values;
    struct gyre_tune_config config;
    struct gyre_net *net = NULL;
    char command[128];
    (void)count;
    gyre_tune_config_default(&config);
    snprintf(command, sizeof command, "gyre tune %.60s --batch %" PRId64 "%s%s", args[0], v.batch, v.net.dtype ? " --dtype bf16" : "",
             v.infer ? " --infer" : "");
    config.path = v.out ? v.out : v.net.tune;
    config.runs = (int)v.runs;
    config.any_order = (int)v.any_order;
    config.command = command;
    v.net.tune = "off";
    int code = open_plain(&net, &v, args[0]);
    if (code == CLI_OK && gyre_print_tune(net, &config, &cli_stdout) != GYRE_OK)
        code = cli_net_error(net);
    gyre_close(net);
    return code;
}

static int zoo_run(const void *values, char **args, int count)
{
    const struct gyre_shape shape = wanted_shape(values);
    int code = CLI_OK;
    if (count == 0) {
        for (int i = 0; gyre_zoo_name(i); i++)
            printf("%-12s %s\n", gyre_zoo_name(i), gyre_zoo_about(i));
        return CLI_OK;
    }
    char *text = cli_net_text(args[0], &shape, &code);
    if (text)
        fputs(text, stdout);
    free(text);
    return code;
}

static int knobs_run(const void *values, char **args, int count)
{
    (void)values;
    (void)args;
    (void)count;
    return gyre_print_knobs(&cli_stdout) == GYRE_OK ? CLI_OK : cli_fail(CLI_DATA, "writing to standard output failed");
}

const struct cli_command cmd_plan = {
    .name = "plan", .args = "NET", .about = "prints a net's programs and memory map", .least = 1, .most = 1,
    .bytes = sizeof(struct net_values),
    .groups = { { plan_rows, CLI_COUNT(plan_rows), 0 }, CLI_NET_GROUP(struct net_values, net) },
    .run = plan_run,
    .details = "NET is a net of the zoo or a file of net text.\n\nExamples:\n"
               "  gyre plan resnet50 --batch 32\n  gyre plan my.net --recompute --json\n  gyre launch --ranks 2 -- gyre plan resnet20\n"
               "  gyre plan resnet50 --batch 64 --pipeline 4 --micro 8\n"
               "  gyre launch --ranks 4 -- gyre plan tools/examples/alexnet-split.net\n",
};
const struct cli_command cmd_bench = {
    .name = "bench", .args = "NET", .about = "times every op of a training step beside the machine's limits", .least = 1, .most = 1,
    .bytes = sizeof(struct net_values),
    .groups = { { bench_rows, CLI_COUNT(bench_rows), 0 }, CLI_NET_GROUP(struct net_values, net) },
    .run = bench_run,
    .details = "Each op runs alone, again and again; 'gyre why' times them inside real steps. Beside its time: multiplications a second\n"
               "and bytes a second, in per cent of this machine's measured peak and bandwidth (cache or memory, by size), and its\n"
               "limit, the larger of multiplications over peak and bytes over bandwidth. At the end the convolutions by shape, each\n"
               "with its forward pass, data gradient and weight gradient, and sums by kind. Above 100 % of the peak is a kernel\n"
               "that multiplies less than the op's definition (Winograd's).\n\n"
               "Examples:\n  gyre bench resnet18 --batch 8 --runs 5\n  gyre bench resnet50 --isa avx2 --csv > avx2.csv\n",
};
const struct cli_command cmd_tune = {
    .name = "tune", .args = "NET", .about = "measures block sizes of a net's convolutions on this machine and keeps them", .least = 1,
    .most = 1, .bytes = sizeof(struct net_values),
    .groups = { { tune_rows, CLI_COUNT(tune_rows), 0 }, CLI_NET_GROUP(struct net_values, net) },
    .run = tune_run,
    .details = "For every distinct convolution of the net, forward and both gradients, at this batch and type, candidates take turns; what\n"
               "wins by at least 2 % goes into a text file with its source: machine, kernel set, date, version, command. Commands that\n"
               "open a net read that file (--tune, GYRE_TUNE); rows of other machines, kernel sets, shapes and kernels are passed over,\n"
               "and 'gyre plan' says how many are used. Results keep every bit, unless --any-order was given: then sums are cut at\n"
               "other places, and results differ from those without the file in their last bits. With whatever file they are the same\n"
               "for any number of threads.\n\n"
               "Examples:\n  gyre tune resnet50 --batch 16\n  gyre tune resnet50 --batch 32 --dtype bf16 --any-order\n",
};
const struct cli_command cmd_zoo = {
    .name = "zoo", .args = "[NAME]", .about = "lists well-known nets, or prints the text of one", .most = 1,
    .bytes = sizeof(struct net_values),
    .groups = { { zoo_rows, CLI_COUNT(zoo_rows), 0 } },
    .run = zoo_run,
    .details = "Examples:\n  gyre zoo\n  gyre zoo resnet20 --classes 100 > my.net\n",
};
const struct cli_command cmd_knobs = {
    .name = "knobs", .args = "", .about = "lists environment variables", .run = knobs_run,
};
