/* SPDX-License-Identifier: MIT */
/* cmd_files.c: commands on files: pack a data set, export and import weights, say what a file is.
 * gyre.c has their rows. */
#include "tools/cli.h"
#include <stdlib.h>
#include <string.h>

/* ---- pack ---- */

struct pack_values {
    int64_t side, threads, max_bad, log;
    const char *split;
};

#define AT(member) offsetof(struct pack_values, member)
static const struct cli_option pack_rows[] = {
    { "side", "N", "0", "shorter side after scaling; 0: as it is", CLI_WHOLE, AT(side), 0, 16384 },
    { "split", "NAME", "train", "part of the data; all of it when it has no parts", CLI_TEXT, AT(split), 0, 0 },
    { "threads", "N", "2", "threads that read and scale", CLI_WHOLE, AT(threads), 1, 256 },
    { "max-bad", "N", "0", "unreadable images that are left out and named before it is an error", CLI_WHOLE, AT(max_bad), 0, 1e12 },
    { "log", "error|warn|info|debug", "warn", "what is said on standard error", CLI_CHOICE, AT(log), 0, 0 },
};
#undef AT

static int pack_data(struct gyre_data *data, const char *path, const struct pack_values *v)
{
    struct gyre_data_info info;
    struct gyre_error error;
    struct cli_progress *progress = cli_progress_open(CLI_PROGRESS_AUTO);
    if (!progress)
        return cli_fail(CLI_RESOURCES, "out of memory: the progress bar");
    cli_catch_signals();
    const int status = gyre_pack(data, path, (int32_t)v->side, (int)v->threads, cli_progress_count, progress, &error);
    cli_progress_close(progress);
    if (status == GYRE_E_STOPPED)
        return cli_fail(CLI_FAILED, "stopped; %s was not written", path);
    if (status != GYRE_OK)
        return cli_error(&error);
    gyre_get_data_info(data, &info);
    printf("%s: %" PRId64 " images in %d classes", path, info.samples - info.bad, info.classes);
    if (info.bad)
        printf(", %" PRId64 " unreadable ones left out", info.bad);
    putchar('\n');
    return CLI_OK;
}

static int pack_run(const void *values, char **args, int count)
{
    const struct pack_values *v = values;
    struct gyre_data *data;
    (void)count;
    const struct cli_source source = { .path = args[0], .split = v->split, .max_bad = v->max_bad, .log = v->log };
    int code = cli_open_data(&data, &source);
    if (code != CLI_OK)
        return code;
    code = pack_data(data, args[1], v);
    gyre_close_data(data);
    return code;
}

const struct cli_command cmd_pack = {
    .name = "pack", .args = "DATA OUT.gyr", .about = "writes a data set as one file that is read fast", .least = 2, .most = 2,
    .bytes = sizeof(struct pack_values), .groups = { { pack_rows, CLI_COUNT(pack_rows), 0 } }, .run = pack_run,
    .details = "Examples:\n  gyre pack imagenet train.gyr --side 256\n  gyre pack imagenet test.gyr --side 256 --split test\n"
               "  gyre train resnet18 train.gyr --test-data test.gyr --resized-crop --flip\n",
};

/* ---- export ---- */

struct export_values {
    struct cli_net_options net;
};

static int export_run(const void *values, char **args, int count)
{
    const struct export_values *v = values;
    struct cli_checkpoint checkpoint;
    struct gyre_net *net = NULL;
    (void)count;
    int code = cli_open_checkpoint(&checkpoint, args[0]);
    if (code != CLI_OK)
        return code;
    code = cli_open_net(&net, &checkpoint, &v->net, 1);
    if (code == CLI_OK && gyre_export(net, args[1]) != GYRE_OK)
        code = cli_net_error(net);
    if (code == CLI_OK)
        printf("%s: weights of %s under PyTorch's names\n", args[1], checkpoint.path);
    gyre_close(net);
    cli_close_checkpoint(&checkpoint);
    return code;
}

const struct cli_command cmd_export = {
    .name = "export", .args = "CHECKPOINT OUT.safetensors", .about = "writes weights alone, for PyTorch", .least = 2, .most = 2,
    .bytes = sizeof(struct export_values),
    .groups = { { &cli_net_option_rows[CLI_NET_ROWS - 1], 1, offsetof(struct export_values, net) } },
    .run = export_run,
    .details = "Examples:\n  gyre export runs/resnet20 resnet20.safetensors\n"
               "In Python: model.load_state_dict(safetensors.torch.load_file('resnet20.safetensors'))\n",
};

/* ---- import ---- */

struct import_values {
    const char *net_name, *out, *data, *names;
    int64_t classes, size, channels, partial, resize;
    struct cli_reals mean, std;
    struct cli_net_options net;
};

#define AT(member) offsetof(struct import_values, member)
static const struct cli_option import_rows[] = {
    { "net", "NET", NULL, "net of the zoo, or a file of net text (needed)", CLI_TEXT, AT(net_name), 0, 0 },
    { "out", "CHECKPOINT", NULL, "file that is written (needed)", CLI_TEXT, AT(out), 0, 0 },
    { "partial", NULL, NULL, "tensors that are missing or of another shape keep their first values, those that NET does not have are left out", CLI_FLAG,
      AT(partial), 0, 0 },
    { "seed", "N", "1", "start of the first values", CLI_WHOLE, AT(net.seed), 0, 9e15 },
    { "classes", "N", NULL, "outputs of a zoo net; default: its own", CLI_WHOLE, AT(classes), 1, 1 << 20 },
    { "size", "N", NULL, "side of a zoo net's input; default: its own", CLI_WHOLE, AT(size), 1, 16384 },
    { "channels", "N", NULL, "channels of a zoo net's input; default: its own", CLI_WHOLE, AT(channels), 1, 4 },
    { "mean", "X,X,X", NULL, "of pixels in [0, 1], a channel; default: 0.286 for gray, ImageNet's for colour", CLI_REALS, AT(mean), 0, 0 },
    { "std", "X,X,X", NULL, "likewise; default: 0.353 for gray, ImageNet's for colour", CLI_REALS, AT(std), 1e-9, 1e9 },
    { "resize", "N", "0", "shorter side before the centre crop; 0: the net's side", CLI_WHOLE, AT(resize), 0, 16384 },
    { "names", "A,B,...", NULL, "names of the classes", CLI_TEXT, AT(names), 0, 0 },
    { "data", "PATH", NULL, "data set whose class names are kept", CLI_TEXT, AT(data), 0, 0 },
};
#undef AT

static int import_notes(struct gyre_net *net, const struct import_values *v, const struct gyre_config *config, int32_t channels)
{
    struct gyre_data *data = NULL;
    int code = cli_note_input(net, config->mean, config->std, channels, (int32_t)v->resize);
    if (code == CLI_OK && v->names)
        code = cli_note_classes(net, NULL, v->names);
    if (code != CLI_OK || v->names || !v->data)
        return code;
    const struct cli_source source = { .path = v->data, .split = "train", .log = v->net.log };
    code = cli_open_data(&data, &source);
    if (code == CLI_OK)
        code = cli_note_classes(net, data, NULL);
    gyre_close_data(data);
    return code;
}

static int import_into(struct gyre_net *net, const char *weights, const struct import_values *v, const struct gyre_config *config,
                       int32_t channels)
{
    int skipped = 0;
    if (gyre_import(net, weights, (int)v->partial, &skipped) != GYRE_OK)
        return cli_net_error(net);
    const int code = import_notes(net, v, config, channels);
    if (code != CLI_OK)
        return code;
    if (gyre_save(net, v->out) != GYRE_OK)
        return cli_net_error(net);
    printf("%s: %d tensors, %d of them not in %s\n", v->out, gyre_tensor_count(net), skipped, weights);
    return CLI_OK;
}

static int import_run(const void *values, char **args, int count)
{
    const struct import_values *v = values;
    const struct gyre_shape want = { (int32_t)v->size, (int32_t)v->size, (int32_t)v->channels, (int32_t)v->classes, 0 };
    struct gyre_config config;
    struct gyre_shape input;
    struct gyre_error error;
    struct gyre_net *net = NULL;
    int code = CLI_OK;
    (void)count;
    if (!v->net_name || !v->out)
        return cli_fail(CLI_USAGE, "import needs --net NET and --out CHECKPOINT");
    if (v->names && v->data)
        return cli_fail(CLI_USAGE, "--names and --data both name the classes; take one of both");
    char *text = cli_net_text(v->net_name, &want, &code);
    if (!text)
        return code;
    cli_net_input(text, &input);
    cli_net_config(&config, &v->net, text, v->net_name);
    config.mode = GYRE_INFER;
    config.batch = 1;
    config.input = GYRE_INPUT_U8;
    code = cli_normalisation(&v->mean, &v->std, input.c, config.mean, config.std);
    if (code == CLI_OK && gyre_open(&net, &config, &error) != GYRE_OK)
        code = cli_error(&error);
    if (code == CLI_OK)
        code = import_into(net, args[0], v, &config, input.c);
    gyre_close(net);
    free(text);
    return code;
}

const struct cli_command cmd_import = {
    .name = "import", .args = "WEIGHTS.safetensors", .about = "makes a checkpoint from PyTorch's weights", .least = 1, .most = 1,
    .bytes = sizeof(struct import_values),
    .groups = { { import_rows, CLI_COUNT(import_rows), 0 },
                { &cli_net_option_rows[CLI_NET_ROWS - 1], 1, offsetof(struct import_values, net) } },
    .run = import_run,
    .details = "Examples:\n  gyre import resnet50.safetensors --net resnet50 --out resnet50-gyre.safetensors --resize 256\n"
               "  gyre eval resnet50-gyre.safetensors imagenet\n",
};

/* ---- info ---- */

struct info_values {
    int64_t tensors, json;
    const char *split;
    struct cli_net_options net;
};

#define AT(member) offsetof(struct info_values, member)
static const struct cli_option info_rows[] = {
    { "tensors", NULL, NULL, "list every tensor of a checkpoint", CLI_FLAG, AT(tensors), 0, 0 },
    { "split", "NAME", "train", "part of a data set; all of it when it has no parts", CLI_TEXT, AT(split), 0, 0 },
    { "json", NULL, NULL, "one JSON object", CLI_FLAG, AT(json), 0, 0 },
};
#undef AT

static int info_data(const char *path, const struct info_values *v)
{
    struct gyre_data *data;
    struct gyre_data_info info;
    char plain[1024];
    const struct cli_source source = { .path = path, .split = v->split, .log = v->net.log };
    const int code = cli_open_data(&data, &source);
    if (code != CLI_OK)
        return code;
    gyre_get_data_info(data, &info);
    if (v->json)
        printf("{\"kind\":\"data\",\"format\":\"%s\",\"samples\":%" PRId64 ",\"channels\":%d,\"h\":%d,\"w\":%d,\"classes\":[",
               info.format, info.samples, info.channels, info.h, info.w);
    else
        printf("data set, format %s\nimages: %" PRId64 ", channels %d, size %d x %d%s\nclasses: %d\n", info.format, info.samples,
               info.channels, info.h, info.w, info.h ? "" : " (they may differ)", info.classes);
    for (int32_t i = 0; i < info.classes; i++) {
        if (!v->json)
            printf("  %d %s\n", i, cli_plain(plain, sizeof plain, gyre_class_name(data, i)));
        else {
            fputs(i ? "," : "", stdout);
            cli_json_text(stdout, gyre_class_name(data, i));
        }
    }
    if (v->json)
        puts("]}");
    gyre_close_data(data);
    return CLI_OK;
}

static void info_tensors(const struct gyre_net *net, int json)
{
    struct gyre_tensor_info t;
    for (int i = 0; i < gyre_tensor_count(net) && gyre_tensor_at(net, i, &t) == GYRE_OK; i++) {
        if (json) {
            printf("%s{\"name\":", i ? "," : "");
            cli_json_text(stdout, t.name);
            printf(",\"shape\":[");
        } else
            printf("  %-48s ", t.name);
        for (int d = 0; d < t.dims; d++)
            printf("%s%" PRId64, d == 0 ? "" : json ? "," : " x ", t.shape[d]);
        fputs(json ? "]}" : "\n", stdout);
    }
}

static int64_t count_parameters(const struct gyre_net *net)
{
    struct gyre_tensor_info t;
    int64_t count = 0;
    for (int i = 0; i < gyre_tensor_count(net); i++)
        if (gyre_tensor_at(net, i, &t) == GYRE_OK && t.trained)
            count += t.count;
    return count;
}

/* The options of the run, where it had a recipe. */
static void info_recipe(const char *path, int json)
{
    char text[16384];
    if (gyre_read_note(path, "recipe", text, sizeof text, NULL) != GYRE_OK)
        return;
    if (json) {
        printf(",\"recipe\":");
        cli_json_text(stdout, text);
        return;
    }
    puts("recipe:");
    for (char *at = text; *at;) {
        char plain[1024];
        const size_t bytes = strcspn(at, "\n"), more = at[bytes] == '\n';
        at[bytes] = 0;
        printf("  %s\n", cli_plain(plain, sizeof plain, at));
        at += bytes + more;
    }
}

static void info_print(const struct cli_checkpoint *c, const struct gyre_net *net, const struct info_values *v)
{
    static const char *const keys[] = { "name", "epochs", "train.data", "mean", "std", "resize", "val-split" };
    struct gyre_shape shape;
    char text[512], plain[1024];
    gyre_get_shape(net, &shape);
    if (v->json) {
        printf("{\"kind\":\"checkpoint\",\"path\":");
        cli_json_text(stdout, c->path);
        printf(",\"input\":[%d,%d,%d],\"classes\":%d,\"parameters\":%" PRId64, shape.h, shape.w, shape.c, shape.classes,
               count_parameters(net));
    } else
        printf("checkpoint %s\ninput: %d x %d x %d, classes: %d, parameters: %" PRId64 "\n", c->path, shape.h, shape.w, shape.c,
               shape.classes, count_parameters(net));
    for (size_t i = 0; i < CLI_COUNT(keys); i++) {
        if (gyre_read_note(c->path, keys[i], text, sizeof text, NULL) != GYRE_OK)
            continue;
        if (v->json) {
            printf(",\"%s\":", keys[i]);
            cli_json_text(stdout, text);
        } else
            printf("%s: %s\n", keys[i], cli_plain(plain, sizeof plain, text));
    }
    info_recipe(c->path, (int)v->json);
    if (v->json)
        printf(",\"tensors\":[");
    if (v->tensors || v->json)
        info_tensors(net, (int)v->json);
    if (v->json)
        puts("]}");
}

static int info_checkpoint(const char *path, const struct info_values *v)
{
    struct cli_checkpoint checkpoint;
    struct gyre_net *net;
    int code = cli_open_checkpoint(&checkpoint, path);
    if (code != CLI_OK)
        return code;
    code = cli_open_net(&net, &checkpoint, &v->net, 1);
    if (code == CLI_OK)
        info_print(&checkpoint, net, v);
    gyre_close(net);
    cli_close_checkpoint(&checkpoint);
    return code;
}

/* A folder with checkpoints is a run. A file called .safetensors is a checkpoint. Everything else
 * is data. */
static int info_run(const void *values, char **args, int count)
{
    char path[4096];
    const char *dot = strrchr(args[0], '.');
    (void)count;
    if (dot && strcmp(dot, ".safetensors") == 0)
        return info_checkpoint(args[0], values);
    if (cli_is_folder(args[0]) && gyre_find_checkpoint(args[0], path, sizeof path, NULL) == GYRE_OK)
        return info_checkpoint(path, values);
    return info_data(args[0], values);
}

const struct cli_command cmd_info = {
    .name = "info", .args = "CHECKPOINT|DATA", .about = "says what a checkpoint or a data set holds", .least = 1, .most = 1,
    .bytes = sizeof(struct info_values),
    .groups = { { info_rows, CLI_COUNT(info_rows), 0 },
                { &cli_net_option_rows[CLI_NET_ROWS - 1], 1, offsetof(struct info_values, net) } },
    .run = info_run,
    .details = "Examples:\n  gyre info runs/resnet20\n  gyre info cifar10 --json\n",
};
