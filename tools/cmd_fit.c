/* SPDX-License-Identifier: MIT */
/* cmd_fit.c: gyre fit: turns a memory limit into options of gyre train. gyre.c has its row,
 * tools/lab/fit.c does the work. */
#include "tools/lab/lab.h"
#include "tools/cli.h"
#include <stdlib.h>
#include <string.h>

struct fit_values {
    int64_t ranks;
    const char *cluster;
    int64_t mem, target_batch, type, optimizer, json, classes, size, channels;
    double ema;
    struct cli_net_options net;
};

#define AT(member) offsetof(struct fit_values, member)
static const struct cli_option fit_rows[] = {
    { "mem", "SIZE", NULL, "memory that training may take: 8G, 900M; units of 1024", CLI_SIZE, AT(mem), 0, 0 },
    { "target-batch", "N", NULL, "images an update, batch times accumulation; default: a batch of at most 256 alone", CLI_WHOLE,
      AT(target_batch), 1, 1 << 20 },
    { "type", "any|f32|bf16", "any", "what activations may be stored as", CLI_CHOICE, AT(type), 0, 0 },
    { "optimizer", CLI_OPTIMIZERS, "sgd", "update rule", CLI_CHOICE, AT(optimizer), 0, 0 },
    { "ema", "X", "0", "decay of averaged weights; 0: off", CLI_REAL, AT(ema), 0, 0.9999999 },
    { "classes", "N", NULL, "outputs of a zoo net; default: its own", CLI_WHOLE, AT(classes), 1, 1 << 20 },
    { "size", "N", NULL, "side of a zoo net's input; default: its own", CLI_WHOLE, AT(size), 1, 16384 },
    { "channels", "N", NULL, "channels of a zoo net's input; default: its own", CLI_WHOLE, AT(channels), 1, 4 },
    { "ranks", "N", NULL,
      "processes of a cluster that train together; --target-batch is of them all, --mem of each",
      CLI_WHOLE, AT(ranks), 1, 4096 },
    { "cluster", "FILE", NULL, "what the cluster is, as for 'gyre net simulate'", CLI_TEXT,
      AT(cluster), 0, 0 },
    { "json", NULL, NULL, "one JSON object", CLI_FLAG, AT(json), 0, 0 },
    { "threads", "N", "0", "threads that compute; 0: one per processor", CLI_WHOLE, AT(net.threads), 0, 4096 },
    { "isa", "NAME", NULL, "kernel set, as in 'gyre help train'", CLI_TEXT, AT(net.isa), 0, 0 },
    { "device", "NAME", "cpu", "where to compute", CLI_TEXT, AT(net.device), 0, 0 },
    { "log", "error|warn|info|debug", "warn", "what is said on standard error", CLI_CHOICE, AT(net.log), 0, 0 },
};
#undef AT

/* The command that trains as planned. */
static void print_command(const struct fit_values *v, const struct gyre_fit *choice, int half_wire, const char *name)
{
    printf("\n  ");
    if (v->ranks)
        printf("gyre launch --ranks %" PRId64 " --hosts HOSTS -- ", v->ranks);
    printf("gyre train %s DATA --batch %d", name, choice->batch);
    if (choice->accumulate > 1)
        printf(" --accumulate %d", choice->accumulate);
    if (choice->recompute)
        printf(" --recompute");
    if (choice->dtype == GYRE_BF16)
        printf(" --dtype bf16");
    if (half_wire)
        printf(" --wire bf16");
    if (v->optimizer) {
        const char *word = CLI_OPTIMIZERS;
        for (int64_t i = 0; i < v->optimizer; i++)
            word += strcspn(word, "|") + 1;
        printf(" --optimizer %.*s", (int)strcspn(word, "|"), word);
    }
    if (v->ema > 0)
        printf(" --ema %g", v->ema);
    if (v->size)
        printf(" --size %" PRId64, v->size);
    if (v->classes)
        printf(" --classes %" PRId64, v->classes);
    if (v->net.threads)
        printf(" --threads %" PRId64, v->net.threads);
    if (v->net.isa)
        printf(" --isa %s", v->net.isa);
    if (v->net.device && strcmp(v->net.device, "cpu") != 0)
        printf(" --device %s", v->net.device);
    printf("\n");
}

static int fit_cluster(const struct fit_values *v, const struct gyre_config *config, const struct gyre_fit_config *fit,
                       struct gyre_fit *choice, int *half_wire, struct gyre_error *error)
{
    struct gyre_fit_ranks ranks;
    gyre_fit_ranks_default(&ranks);
    ranks.ranks = (int)v->ranks;
    ranks.cluster = v->cluster;
    return gyre_print_fit_ranks(config, fit, &ranks, choice, half_wire, &cli_stdout, error);
}

static int fit_text(const struct fit_values *v, const char *text, const char *name, size_t bytes)
{
    static const int types[] = { 1 << GYRE_F32 | 1 << GYRE_BF16, 1 << GYRE_F32, 1 << GYRE_BF16 };
    struct gyre_config config;
    struct gyre_fit_config fit;
    struct gyre_fit choice;
    struct gyre_error error;
    int half_wire = 0;
    cli_net_config(&config, &v->net, text, name);
    config.input = GYRE_INPUT_U8;
    config.optimizer.kind = (int)v->optimizer;
    config.optimizer.ema = (float)v->ema;
    gyre_fit_config_default(&fit);
    fit.bytes = bytes;
    fit.target_batch = (int)v->target_batch;
    fit.dtypes = types[v->type];
    fit.json = (int)v->json;
    const int status = v->ranks ? fit_cluster(v, &config, &fit, &choice, &half_wire, &error)
                                : gyre_print_fit(&config, &fit, &choice, &cli_stdout, &error);
    if (status != GYRE_OK)
        return cli_error(&error);
    if (!v->json)
        print_command(v, &choice, half_wire, name);
    return CLI_OK;
}

static int fit_run(const void *values, char **args, int count)
{
    const struct fit_values *v = values;
    const struct gyre_shape shape = { (int32_t)v->size, (int32_t)v->size, (int32_t)v->channels, (int32_t)v->classes, 0 };
    int code = CLI_OK;
    (void)count;
    if (!v->mem)
        return cli_fail(CLI_USAGE, "fit needs --mem SIZE, such as --mem 8G");
    if (!v->ranks != !v->cluster)
        return cli_fail(CLI_USAGE, "fit: --ranks and --cluster go together");
    char *text = cli_net_text(args[0], &shape, &code);
    if (text)
        code = fit_text(v, text, args[0], (size_t)v->mem);
    free(text);
    return code;
}

const struct cli_command cmd_fit = {
    .name = "fit", .args = "NET", .about = "chooses batch, accumulation, recomputation and type for a memory limit",
    .least = 1, .most = 1, .bytes = sizeof(struct fit_values),
    .groups = { { fit_rows, CLI_COUNT(fit_rows), 0 } },
    .run = fit_run,
    .details =
        "Nothing is trained: each candidate is planned, which tells its memory exactly, and its speed is expected from\n"
        "what this machine is measured to do at most and the share of it that ops of each kind reach. Of all that fit, the\n"
        "fastest is taken; of those within 2 %, the largest batch. Prints the table and the command line to use.\n\n"
        "With --ranks and --cluster each rank is taken to be such a machine as this one; what its\n"
        "sums with the others take is simulated on the cluster. Prints images/s and efficiency for\n"
        "gradients in float and in bf16. HOSTS of the command line: its hosts ('gyre help launch').\n\n"
        "Examples:\n"
        "  gyre fit resnet50 --mem 8G\n"
        "  gyre fit resnet18 --mem 2G --target-batch 256 --type f32\n"
        "  gyre fit my.net --mem 900M --optimizer adamw --json\n"
        "  gyre fit resnet50 --mem 64G --ranks 256 --cluster tools/examples/ddl.cluster --target-batch 8192\n",
};
