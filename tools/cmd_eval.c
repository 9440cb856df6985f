/* SPDX-License-Identifier: MIT */
/* cmd_eval.c: gyre eval: evaluates a checkpoint on a data set. gyre.c has its row. */
#include "tools/cli.h"
#include <stdlib.h>
#include <string.h>

struct eval_values {
    int64_t batch, max_bad, loader_threads, resize, json;
    const char *split, *confusion;
    struct cli_reals mean, std;
    struct cli_net_options net;
};

#define AT(member) offsetof(struct eval_values, member)
static const struct cli_option eval_rows[] = {
    { "split", "NAME", "test", "split of the data; without it, what the run held out (--val-split), else all of data that have no splits", CLI_TEXT,
      AT(split), 0, 0 },
    { "batch", "N", "100", "images at a time", CLI_WHOLE, AT(batch), 1, 1 << 20 },
    { "confusion", "FILE.svg", NULL, "draw the confusion matrix", CLI_TEXT, AT(confusion), 0, 0 },
    { "mean", "X,X,X", NULL, "of pixels in [0, 1], where a checkpoint of an older version does not say it; another than it says is refused", CLI_REALS,
      AT(mean), 0, 0 },
    { "std", "X,X,X", NULL, "likewise", CLI_REALS, AT(std), 1e-9, 1e9 },
    { "resize", "N", NULL, "shorter side before the centre crop; default: the checkpoint's", CLI_WHOLE, AT(resize), 1, 16384 },
    { "max-bad", "N", "0", "unreadable images that are skipped and named before it is an error", CLI_WHOLE, AT(max_bad), 0, 1e12 },
    { "loader-threads", "N", "1", "threads that read images", CLI_WHOLE, AT(loader_threads), 1, 256 },
    { "json", NULL, NULL, "one JSON object", CLI_FLAG, AT(json), 0, 0 },
};
#undef AT

/* A note has U+FFFD for a byte that is no UTF-8, and of a name its first line. */
static int noted_as(const char *noted, const char *name)
{
    for (; *noted; name++) {
        const int odd = strncmp(noted, "\xef\xbf\xbd", 3) == 0 && strncmp(name, noted, 3) != 0;
        if (odd ? (unsigned char)*name < 0x80 : *name != *noted)
            return 0;
        noted += odd ? 3 : 1;
    }
    return *name == 0 || *name == '\n';
}

static void warn_classes(const struct cli_checkpoint *c, const struct gyre_data *data)
{
    struct gyre_data_info info;
    char buf[512];
    gyre_get_data_info(data, &info);
    for (int32_t i = 0; c->classes[0] && !cli_only_numbers(data) && i < info.classes; i++) {
        const char *trained = cli_class(c->classes, i, buf, sizeof buf), *here = gyre_class_name(data, i);
        if (!noted_as(trained, here)) {
            char own[1024], other[1024];
            fprintf(stderr, "gyre: warning: class %d is '%s' in the checkpoint and '%s' in the data; are the classes the same?\n", i,
                    cli_plain(own, sizeof own, trained), cli_plain(other, sizeof other, here));
            return;
        }
    }
}

/* The checkpoint's names, [classes], in *text; NULL when it has fewer. Both are to free(). */
static const char **split_names(const struct cli_checkpoint *c, int32_t classes, char **text)
{
    const char **names = calloc((size_t)classes, sizeof *names);
    *text = malloc(strlen(c->classes) + 1);
    if (!names || !*text) {
        free(names);
        return NULL;
    }
    memcpy(*text, c->classes, strlen(c->classes) + 1);
    char *at = *text;
    for (int32_t i = 0; i < classes; i++) {
        char *end = strchr(at, '\n');
        if (!end) {
            free(names);
            return NULL;
        }
        *end = 0;
        names[i] = at;
        at = end + 1;
    }
    return names;
}

static int evaluate(struct gyre_net *net, struct gyre_data *data, const struct eval_values *v, int32_t resize,
                    const char *const *names)
{
    struct gyre_evaluate_config config;
    struct gyre_report report;
    gyre_evaluate_config_default(&config);
    config.data = data;
    config.resize = resize;
    config.loader_threads = (int)v->loader_threads;
    config.confusion_svg = v->confusion;
    config.names = names;
    config.json = (int)v->json;
    config.text = &cli_stdout;
    if (gyre_evaluate(net, &config, &report) != GYRE_OK)
        return cli_net_error(net);
    if (v->json)
        return CLI_OK;
    printf("%" PRId64 " images in %.1f s (%.0f a second)", report.samples, report.seconds,
           report.seconds > 0 ? (double)report.samples / report.seconds : 0);
    if (report.bad)
        printf(", %" PRId64 " unreadable ones skipped", report.bad);
    if (v->confusion)
        printf("\nconfusion matrix: %s", v->confusion);
    putchar('\n');
    return CLI_OK;
}

static int eval_data(struct cli_checkpoint *c, struct gyre_data *data, const struct eval_values *v)
{
    struct gyre_net *net;
    struct gyre_shape shape;
    struct gyre_data_info info;
    float mean[4], std[4];
    cli_net_input(c->net, &shape);
    int code = cli_normalisation(&v->mean, &v->std, shape.c, mean, std);
    if (code != CLI_OK)
        return code;
    if (v->mean.count)
        memcpy(c->mean, mean, sizeof mean);
    if (v->std.count)
        memcpy(c->std, std, sizeof std);
    warn_classes(c, data);
    gyre_get_data_info(data, &info);
    c->real = info.real;
    code = cli_open_net(&net, c, &v->net, (int)v->batch);
    if (code != CLI_OK)
        return code;
    char *text = NULL;
    gyre_get_shape(net, &shape);
    const char **names = cli_only_numbers(data) ? split_names(c, shape.classes, &text) : NULL;
    code = evaluate(net, data, v, v->resize ? (int32_t)v->resize : c->resize, names);
    free(names);
    free(text);
    gyre_close(net);
    return code;
}

/* To people on standard output, beside JSON on standard error. */
static void say_part(const struct cli_hold *hold, const struct gyre_data_info *info, int json)
{
    FILE *file = json ? stderr : stdout;
    if (info->hold_labels == hold->labels && info->hold_of == hold->of)
        fprintf(file, "data: the %" PRId64 " of %" PRId64 " images that the run held out (%.6g of each class, seed %" PRIu64 ")\n", info->samples,
                info->hold_of, info->hold_out, info->hold_seed);
    else
        fprintf(file, "data: all %" PRId64 " images; the run held out %.6g of each class of others, of %" PRId64 "\n", info->hold_of, hold->share,
                hold->of);
}

/* What the run held out, when these are the images that it was trained on; else *data is NULL. */
static int open_held(struct gyre_data **data, const struct cli_hold *hold, struct cli_source source, int json)
{
    struct gyre_data_info info;
    char why[480];
    source.split = "train";
    source.hold_out = hold->share;
    source.hold_seed = hold->seed;
    source.held = 1;
    const int code = cli_open_split(data, &source, why);
    if (code != CLI_OK || !*data)
        return code;
    gyre_get_data_info(*data, &info);
    say_part(hold, &info, json);
    if (info.hold_labels == hold->labels && info.hold_of == hold->of)
        return CLI_OK;
    gyre_close_data(*data);
    *data = NULL;
    return CLI_OK;
}

static int open_eval_data(struct gyre_data **data, const struct cli_checkpoint *c, const char *path, const struct eval_values *v)
{
    const struct cli_source source = { .path = path, .split = v->split, .max_bad = v->max_bad, .log = v->net.log };
    char why[480];
    int code = cli_open_split(data, &source, why);
    if (code == CLI_OK && !*data && c->hold.share > 0)
        code = open_held(data, &c->hold, source, (int)v->json);
    return code == CLI_OK && !*data ? cli_open_data(data, &source) : code;
}

static int eval_run(const void *values, char **args, int count)
{
    const struct eval_values *v = values;
    struct cli_checkpoint checkpoint;
    struct gyre_data *data;
    (void)count;
    int code = cli_open_checkpoint(&checkpoint, args[0]);
    if (code != CLI_OK)
        return code;
    code = open_eval_data(&data, &checkpoint, args[1], v);
    if (code == CLI_OK) {
        code = eval_data(&checkpoint, data, v);
        gyre_close_data(data);
    }
    cli_close_checkpoint(&checkpoint);
    return code;
}

const struct cli_command cmd_eval = {
    .name = "eval", .args = "CHECKPOINT DATA", .about = "measures a checkpoint on a data set", .least = 2, .most = 2,
    .bytes = sizeof(struct eval_values),
    .groups = { { eval_rows, CLI_COUNT(eval_rows), 0 }, CLI_NET_GROUP(struct eval_values, net) },
    .run = eval_run,
    .details =
        "CHECKPOINT is a file, or the folder of a run: then its newest one. Printed are loss, top-1 and top-5 accuracy, and for\n"
        "each class precision, recall and average precision; the confusion matrix with few classes. Data without a test split,\n"
        "of a run with --val-split: the images that it held out, which is said; so does '--split val' where there is no such\n"
        "split.\n\n"
        "Examples:\n"
        "  gyre eval runs/lenet5 /usr/share/datasets/fashion-mnist --confusion confusion.svg\n"
        "  gyre eval runs/resnet20/checkpoint-39000.safetensors cifar10 --json\n",
};
