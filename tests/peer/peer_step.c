/* SPDX-License-Identifier: MIT */
/* peer_step.c: one training step for comparison with another framework. It reads a net text,
 * weights and a batch, and writes loss, scores and every gradient. All tensors travel as
 * safetensors under PyTorch's names and layout; the batch holds 'x' [N][H][W][C] and 'label' [N].
 *
 *     peer_step NET.txt --weights W.safetensors --batch B.safetensors --out G.safetensors
 *         [--isa NAME] [--dtype f32|bf16] [--recompute] [--init]
 *
 * --init: W is written, not read: the weights that Gyre starts with. */
#include "engine/base/file.h"
#include "engine/gyre.h"
#include "io/safetensors.h"

struct peer_args {
    const char *net, *weights, *batch, *out, *isa;
    int recompute, init, dtype;
};

static int peer_fail(const char *text)
{
    fprintf(stderr, "peer_step: %s\n", text);
    return 1;
}

static int peer_parse(int argc, char **argv, struct peer_args *a)
{
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--weights") == 0)
            a->weights = next, i++;
        else if (strcmp(argv[i], "--batch") == 0)
            a->batch = next, i++;
        else if (strcmp(argv[i], "--out") == 0)
            a->out = next, i++;
        else if (strcmp(argv[i], "--isa") == 0)
            a->isa = next, i++;
        else if (strcmp(argv[i], "--dtype") == 0)
            a->dtype = strcmp(next, "bf16") == 0 ? GYRE_BF16 : GYRE_F32, i++;
        else if (strcmp(argv[i], "--recompute") == 0)
            a->recompute = 1;
        else if (strcmp(argv[i], "--init") == 0)
            a->init = 1;
        else
            a->net = argv[i];
    }
    return a->net && a->weights && a->batch && a->out ? 0 : -1;
}

static int peer_put(struct gy_st_writer *w, const char *name, const int64_t *shape, int dims, const float *values, int64_t count,
                    int declare, struct gy_error *err)
{
    return declare ? gy_st_declare(w, name, GY_ST_F32, shape, dims, err)
                   : gy_st_write(w, values, (size_t)count * sizeof(float), err);
}

/* All results, once to declare and once to write. */
static int peer_results(struct gyre_net *net, struct gy_st_writer *w, const struct gyre_result *result, int64_t n, int declare,
                        struct gy_error *err)
{
    struct gyre_shape shape;
    const float *scores, *losses;
    gyre_get_shape(net, &shape);
    gyre_get_scores(net, &scores, &losses, NULL);
    const float loss = (float)result->loss;
    const int64_t one = 1, table[2] = { n, shape.classes };
    GY_TRY(peer_put(w, "loss", &one, 1, &loss, 1, declare, err));
    GY_TRY(peer_put(w, "loss_samples", &n, 1, losses, n, declare, err));
    GY_TRY(peer_put(w, "scores", table, 2, scores, n * shape.classes, declare, err));
    for (int i = 0; i < gyre_tensor_count(net); i++) {
        struct gyre_tensor_info info;
        char name[300];
        gyre_tensor_at(net, i, &info);
        if (!info.trained)
            continue;
        snprintf(name, sizeof name, "grad.%s", info.name);
        float *values = calloc((size_t)info.count, sizeof *values);
        int status = values ? GY_OK : GY_FAIL(err, GY_E_NOMEM, "out of memory");
        if (status == GY_OK && !declare && gyre_get_tensor(net, name, values, info.count) != GYRE_OK)
            status = GY_FAIL(err, GY_E_BUG, "%s", gyre_last_error(net)->text);
        if (status == GY_OK)
            status = peer_put(w, name, info.shape, info.dims, values, info.count, declare, err);
        free(values);
        GY_TRY(status);
    }
    return GY_OK;
}

static int peer_write(struct gyre_net *net, const char *path, const struct gyre_result *result, int64_t n, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_st_writer *w;
    GY_TRY(gy_st_create(&w, &alloc, path, err));
    int status = peer_results(net, w, result, n, 1, err);
    if (status == GY_OK)
        status = peer_results(net, w, result, n, 0, err);
    if (status != GY_OK) {
        gy_st_abandon(w);
        return status;
    }
    return gy_st_commit(w, err);
}

static int peer_run(const struct peer_args *a, const char *text, const struct gy_st_tensor *x, const struct gy_st_tensor *label,
                    struct gy_error *err)
{
    const int64_t n = x->shape[0];
    struct gyre_config config;
    struct gyre_net *net;
    struct gyre_result result;
    gyre_config_default(&config);
    config.net = text;
    config.net_name = a->net;
    config.batch = (int)n;
    config.isa = a->isa;
    config.recompute = a->recompute;
    config.dtype = a->dtype;
    if (gyre_open(&net, &config, (struct gyre_error *)(void *)err) != GYRE_OK)
        return err->status;
    float *values = calloc((size_t)x->count, sizeof *values);
    int32_t *labels = calloc((size_t)n, sizeof *labels);
    int status = values && labels ? gy_st_read_f32(x, 0, x->count, values, err) : GY_E_NOMEM;
    if (status == GY_OK)
        status = gy_st_read_bytes(label, 0, (size_t)n * sizeof *labels, labels, err);
    if (status == GY_OK) {
        const struct gyre_batch batch = { .x = values, .label = labels, .count = (int32_t)n };
        status = a->init ? gyre_export(net, a->weights) : gyre_import(net, a->weights, 0, NULL);
        if (status == GY_OK)
            status = gyre_gradient(net, &batch, &result);
        if (status != GY_OK)
            GY_FAIL(err, status, "%s", gyre_last_error(net)->text);
    }
    if (status == GY_OK)
        status = peer_write(net, a->out, &result, n, err);
    free(values);
    free(labels);
    gyre_close(net);
    return status;
}

int main(int argc, char **argv)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct peer_args a = { 0 };
    struct gy_error err = { 0 };
    struct gy_st_file *file;
    char *text;
    size_t bytes;
    if (peer_parse(argc, argv, &a) != 0)
        return peer_fail("usage: peer_step NET.txt --weights W --batch B --out G [--isa NAME] [--recompute] [--init]");
    if (gy_file_read(&alloc, a.net, 1 << 20, &text, &bytes, &err) != GY_OK ||
        gy_st_open(&file, &alloc, a.batch, &err) != GY_OK)
        return peer_fail(err.text);
    const struct gy_st_tensor *x = gy_st_find(file, "x"), *label = gy_st_find(file, "label");
    if (!x || !label || label->type != GY_ST_I32 || x->dims != 4 || label->count != x->shape[0])
        return peer_fail("the batch needs x [N][H][W][C] and label [N] of i32");
    const int status = peer_run(&a, text, x, label, &err);
    gy_st_close(file);
    gy_alloc_free(&alloc, text, bytes + 1);
    return status == GY_OK ? 0 : peer_fail(err.text);
}
