/* SPDX-License-Identifier: MIT */
/* cmd_kernels.c: gyre kernels: lists, dumps or packs a net's GPU kernels, and tries a user's own
 * kernel. gyre audit: compares them with those that a checkpoint records. gyre.c has their rows;
 * tools/lab/kernel_list.c and try.c do the work. */
#include "tools/lab/lab.h"
#include "tools/cli.h"
#include <stdlib.h>
#include <string.h>

struct kernels_values {
    int64_t batch, infer, optimizer, classes, size, channels, show, strict, runs;
    struct cli_reals arch;
    const char *out, *layer, *op;
    struct cli_net_options net;
};

#define AT(member) offsetof(struct kernels_values, member)
static const struct cli_option kernels_rows[] = {
    { "arch", "N,N", NULL, "architectures, 75,80,90 for sm_75 and so on; the list shows the first (80)", CLI_REALS, AT(arch), 60, 999 },
    { "layer", "NAME", NULL, "this layer alone", CLI_TEXT, AT(layer), 0, 0 },
    { "show", "list|source|ptx|cubin", "list", "the list, or a layer's kernels: text with macros, PTX, machine code (--out)", CLI_CHOICE,
      AT(show), 0, 0 },
    { "op", "NAME", NULL, "with --show: what the op does, such as conv-wgrad", CLI_TEXT, AT(op), 0, 0 },
    { "out", "FILE", NULL, "file to write: the pack, or what is shown", CLI_TEXT, AT(out), 0, 0 },
    { "strict", NULL, NULL, "fails when a convolution spills registers", CLI_FLAG, AT(strict), 0, 0 },
    { "runs", "N", "5", "of try: times that each kernel runs, in turn; the fastest counts", CLI_WHOLE, AT(runs), 1, 1000 },
    { "batch", "N", "32", "images a step", CLI_WHOLE, AT(batch), 1, 1 << 20 },
    { "infer", NULL, NULL, "the net without gradients", CLI_FLAG, AT(infer), 0, 0 },
    { "optimizer", CLI_OPTIMIZERS, "sgd", "update rule", CLI_CHOICE, AT(optimizer), 0, 0 },
    { "classes", "N", NULL, "outputs of a zoo net; default: its own", CLI_WHOLE, AT(classes), 1, 1 << 20 },
    { "size", "N", NULL, "side of a zoo net's input; default: its own", CLI_WHOLE, AT(size), 1, 16384 },
    { "channels", "N", NULL, "channels of a zoo net's input; default: its own", CLI_WHOLE, AT(channels), 1, 4 },
};
#undef AT

static void kernels_config(struct gyre_config *config, const struct kernels_values *v, const char *text, const char *name, char device[16])
{
    cli_net_config(config, &v->net, text, name);
    config->batch = (int)v->batch;
    config->mode = v->infer ? GYRE_INFER : GYRE_TRAIN;
    config->input = GYRE_INPUT_U8;
    config->optimizer.kind = (int)v->optimizer;
    if (strcmp(config->device, "cpu") != 0)
        return;
    config->log = cli_logger(v->net.log + 1 + (v->net.log == 1)); /* compiling takes a while */
    snprintf(device, 16, "sm_%d", v->arch.count ? (int)v->arch.value[0] : 80);
    config->device = device;
}

static int kernels_pack(const struct gyre_config *config, const struct kernels_values *v)
{
    struct gyre_error error;
    int archs[CLI_REALS_MAX], count = v->arch.count;
    for (int i = 0; i < count; i++)
        archs[i] = (int)v->arch.value[i];
    if (!v->out || !count)
        return cli_fail(CLI_USAGE, "kernels pack needs --arch and --out");
    if (gyre_pack_kernels(config, archs, count, v->out, &error) != GYRE_OK)
        return cli_error(&error);
    printf("%s: kernels for %d architecture%s; GYRE_KERNEL_PACK names it to other commands\n", v->out, count, count == 1 ? "" : "s");
    return CLI_OK;
}

static int kernels_write(void *user, const char *text, size_t bytes)
{
    struct cli_out *const out = user;
    return fwrite(text, 1, bytes, out->file) == bytes ? 0 : -cli_out_failed(out);
}

static int kernels_print(const struct gyre_config *config, const struct kernels_values *v)
{
    struct gyre_kernels_config what;
    struct gyre_error error;
    struct cli_out out = { .file = stdout };
    int code = v->out ? cli_out_open(&out, v->out) : CLI_OK;
    if (code != CLI_OK)
        return code;
    const struct gyre_sink sink = { kernels_write, &out };
    gyre_kernels_config_default(&what);
    what.form = (int)v->show;
    what.layer = v->layer;
    what.op = v->op;
    what.strict = (int)v->strict;
    if (gyre_print_kernels(config, &what, &sink, &error) != GYRE_OK && out.reason == 0)
        code = cli_error(&error);
    return v->out ? cli_out_close(&out, code) : code;
}

/* On the GPU, unless another device or an architecture is named. */
static int kernels_try(const struct kernels_values *v, const char *path)
{
    struct gyre_config config;
    struct gyre_try_config what;
    struct gyre_error error;
    char device[16];
    kernels_config(&config, v, "", path, device);
    if (strcmp(v->net.device, "cpu") == 0 && !v->arch.count)
        config.device = "cuda";
    gyre_try_config_default(&what);
    what.file = path;
    what.runs = (int)v->runs;
    what.seed = (uint64_t)v->net.seed;
    return gyre_print_try(&config, &what, &cli_stdout, &error) == GYRE_OK ? CLI_OK : cli_error(&error);
}

static int kernels_run(const void *values, char **args, int count)
{
    const struct kernels_values *v = values;
    const struct gyre_shape shape = { (int32_t)v->size, (int32_t)v->size, (int32_t)v->channels, (int32_t)v->classes, 0 };
    const struct cli_reals none = { .count = 0 };
    const int pack = count == 2 && strcmp(args[0], "pack") == 0;
    struct gyre_config config;
    struct gyre_shape input;
    char device[16];
    int code = CLI_OK;
    if (count == 2 && strcmp(args[0], "try") == 0)
        return kernels_try(v, args[1]);
    if (count == 2 && !pack)
        return cli_fail(CLI_USAGE, "kernels: '%s' is not known; there are: gyre kernels pack NET, gyre kernels try FILE.cu", args[0]);
    char *text = cli_net_text(args[count - 1], &shape, &code);
    if (!text)
        return code;
    kernels_config(&config, v, text, args[count - 1], device);
    cli_net_input(text, &input);
    /* as train does without --mean: a kernel contains it */
    cli_normalisation(&none, &none, input.c, config.mean, config.std);
    code = pack ? kernels_pack(&config, v) : kernels_print(&config, v);
    free(text);
    return code;
}

const struct cli_command cmd_kernels = {
    .name = "kernels", .args = "[pack] NET | try FILE.cu",
    .about = "a GPU's kernels for a net: registers, spills, source, PTX; or a file of them; tries your own",
    .least = 1, .most = 2, .bytes = sizeof(struct kernels_values),
    .groups = { { kernels_rows, CLI_COUNT(kernels_rows), 0 }, CLI_NET_GROUP(struct kernels_values, net) },
    .run = kernels_run,
    .details = "Kernels are compiled for the net's shapes by CUDA's compiler NVRTC; no GPU is needed. One line a launch: the kernel\n"
               "chosen, its file and entry, the hash of its text and macros, blocks, threads of a block, bytes of shared memory;\n"
               "then what the compiler said: registers and stack of a thread, bytes spilled, share of a multiprocessor's threads.\n"
               "'pack' compiles a net for several architectures into one file, with which a machine needs no NVRTC.\n"
               "'try' compiles a kernel file of your own, checks it on random inputs against the reference, with poisoned outputs, and\n"
               "ranks it beside the library's variants. Lines '// gyre: ...' of the file say what it does and how it is launched; see\n"
               "tools/examples/bn_apply.cu. Device: --device cuda (usual), emu (checked, no times), --arch N (only compiled).\n\n"
               "Examples:\n  gyre kernels resnet50 --arch 90 --dtype bf16\n"
               "  gyre kernels resnet20 --layer layer1.0.conv1 --show ptx\n"
               "  gyre kernels pack resnet20 --arch 75,80,90 --out resnet20.kernels\n"
               "  gyre kernels try tools/examples/bn_apply.cu --device emu\n",
};

static int audit_run(const void *values, char **args, int count)
{
    struct cli_checkpoint checkpoint;
    struct gyre_error error;
    const struct gyre_logger log = cli_logger(3);
    (void)values;
    (void)count;
    int code = cli_open_checkpoint(&checkpoint, args[0]);
    if (code != CLI_OK)
        return code;
    if (gyre_print_audit(checkpoint.path, &log, &cli_stdout, &error) != GYRE_OK)
        code = cli_error(&error);
    cli_close_checkpoint(&checkpoint);
    return code;
}

const struct cli_command cmd_audit = {
    .name = "audit", .args = "CHECKPOINT", .about = "compiles the GPU kernels that a checkpoint records again and compares their hashes",
    .least = 1, .most = 1, .run = audit_run,
    .details = "CHECKPOINT is a file or the folder of a run that trained on a GPU. No GPU is needed, but CUDA's compiler NVRTC, and for\n"
               "the same machine code the same version of it.\n\nExample:\n  gyre audit runs/resnet50\n",
};
