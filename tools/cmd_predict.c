/* SPDX-License-Identifier: MIT */
/* cmd_predict.c: gyre predict: a net's classes of images, from files or from a data set. gyre.c has
 * its row. */
#include "tools/cli.h"
#include <stdlib.h>
#include <string.h>

struct predict_values {
    int64_t top, sample, resize, json;
    const char *data, *split;
    struct cli_net_options net;
};

#define AT(member) offsetof(struct predict_values, member)
static const struct cli_option predict_rows[] = {
    { "top", "N", "5", "classes that are shown", CLI_WHOLE, AT(top), 1, 1000000 },
    { "data", "PATH", NULL, "take the image from this data set", CLI_TEXT, AT(data), 0, 0 },
    { "split", "NAME", NULL, "split of --data; default: test; all of data that have no splits", CLI_TEXT, AT(split), 0, 0 },
    { "sample", "N", "0", "number of the image in --data", CLI_WHOLE, AT(sample), 0, 1e15 },
    { "resize", "N", NULL, "shorter side before the centre crop; default: the checkpoint's", CLI_WHOLE, AT(resize), 1, 16384 },
    { "json", NULL, NULL, "one JSON object a line", CLI_FLAG, AT(json), 0, 0 },
};
#undef AT

struct predict_job {
    const struct predict_values *v;
    const struct cli_checkpoint *checkpoint;
    struct gyre_net *net;
    struct gyre_shape shape;
    int32_t resize;
    uint8_t *pixels;
    float *values;  /* the same from 0 to 1, for a net of float images; else NULL */
    float *scores;  /* [classes]; those that were shown become -1e30 */
};

/* ---- output ---- */

/* The class with the highest score, which is lowered so that the next call gives the next one. */
static int32_t take_best(float *scores, int32_t classes, float *score)
{
    int32_t best = 0;
    for (int32_t i = 1; i < classes; i++)
        if (scores[i] > scores[best])
            best = i;
    *score = scores[best];
    scores[best] = -1e30f;
    return best;
}

static void print_class(const struct predict_job *job, int rank)
{
    char name[512], number[32], plain[1024];
    float score;
    const int32_t best = take_best(job->scores, job->shape.classes, &score);
    const char *text = cli_class(job->checkpoint->classes, best, name, sizeof name);
    if (!job->v->json) {
        printf("  %6.2f %%  %s\n", 100 * (double)score, cli_plain(plain, sizeof plain, text));
        return;
    }
    printf("%s{\"class\":%d,\"name\":", rank ? "," : "", best);
    cli_json_text(stdout, text);
    printf(",\"score\":%s}", cli_json_number(number, (double)score));
}

static size_t pixels_of(const struct predict_job *job) { return (size_t)job->shape.h * (size_t)job->shape.w * (size_t)job->shape.c; }

/* truth: the name of the sample's label; NULL: it has none. */
static int predict_one(struct predict_job *job, const char *name, const char *truth)
{
    const struct gyre_batch batch = { .x = job->values ? (const void *)job->values : job->pixels, .count = 1 };
    char plain[1024], label[1024];
    for (size_t i = 0; job->values && i < pixels_of(job); i++)
        job->values[i] = (float)job->pixels[i] / 255;
    if (gyre_predict(job->net, &batch, job->scores) != GYRE_OK)
        return cli_net_error(job->net);
    if (job->v->json) {
        printf("{\"image\":");
        cli_json_text(stdout, name);
        if (truth) {
            printf(",\"truth\":");
            cli_json_text(stdout, truth);
        }
        printf(",\"top\":[");
    } else
        printf("%s%s%s%s\n", cli_plain(plain, sizeof plain, name), truth ? " (labelled " : "",
               truth ? cli_plain(label, sizeof label, truth) : "", truth ? ")" : "");
    for (int i = 0; i < job->v->top && i < job->shape.classes; i++)
        print_class(job, i);
    if (job->v->json)
        puts("]}");
    return CLI_OK;
}

/* ---- input ---- */

static int predict_files(struct predict_job *job, char **paths, int count)
{
    struct gyre_error error;
    int code = CLI_OK;
    for (int i = 0; i < count; i++) {
        const int status = gyre_read_image(paths[i], job->shape.h, job->shape.w, job->shape.c, job->resize, job->pixels, &error);
        const int one = status == GYRE_OK ? predict_one(job, paths[i], NULL) : cli_error(&error);
        code = code == CLI_OK ? one : code; /* the others are still shown */
    }
    return code;
}

/* Data whose classes are only numbered take the names of the checkpoint. */
static const char *predict_label(const struct predict_job *job, const struct gyre_data *data,
                                 int32_t label, char *buf, size_t room)
{
    if (label < 0)
        return NULL;
    if (cli_only_numbers(data))
        return cli_class(job->checkpoint->classes, label, buf, room);
    return gyre_class_name(data, label);
}

/* Batches of one image: batch number N is sample N. */
static int predict_sample_of(struct predict_job *job, struct gyre_data *data)
{
    struct gyre_loader_config c;
    struct gyre_loader *loader;
    struct gyre_batch batch = { 0 };
    struct gyre_error error;
    char name[512], class[512];
    gyre_loader_config_default(&c);
    c.batch = 1;
    c.h = job->shape.h;
    c.w = job->shape.w;
    c.c = job->shape.c;
    c.augment.resize = job->resize;
    c.first_batch = job->v->sample;
    if (gyre_open_loader(&loader, data, &c, &error) != GYRE_OK)
        return cli_error(&error);
    const int status = gyre_next_batch(loader, &batch, NULL, &error);
    int32_t label = -1;
    if (status == GYRE_OK && batch.count == 1) {
        memcpy(job->pixels, batch.x, (size_t)c.h * (size_t)c.w * (size_t)c.c);
        label = batch.label[0];
    }
    gyre_close_loader(loader);
    if (status != GYRE_OK)
        return cli_error(&error);
    return predict_one(job, gyre_sample_name(data, job->v->sample, name, sizeof name),
                       predict_label(job, data, label, class, sizeof class));
}

static int predict_sample(struct predict_job *job)
{
    struct gyre_data *data;
    struct gyre_data_info info;
    const struct cli_source source = { .path = job->v->data, .split = job->v->split ? job->v->split : "test", .log = job->v->net.log };
    int code = cli_open_data(&data, &source);
    if (code != CLI_OK)
        return code;
    gyre_get_data_info(data, &info);
    if (info.real)
        code = cli_fail(CLI_DATA, "%s has float images (.pfm); predict takes others, 'gyre eval' takes these", job->v->data);
    else if (job->v->sample >= info.samples)
        code = cli_fail(CLI_USAGE, "--sample is %" PRId64 "; the data has %" PRId64 " images, from 0", job->v->sample, info.samples);
    else
        code = predict_sample_of(job, data);
    gyre_close_data(data);
    return code;
}

static int predict_all(struct predict_job *job, char **args, int count)
{
    int code = cli_open_net(&job->net, job->checkpoint, &job->v->net, 1);
    if (code != CLI_OK)
        return code;
    gyre_get_shape(job->net, &job->shape);
    job->resize = job->v->resize ? (int32_t)job->v->resize : job->checkpoint->resize;
    job->pixels = malloc(pixels_of(job));
    job->values = job->checkpoint->real ? malloc(pixels_of(job) * sizeof *job->values) : NULL;
    job->scores = calloc((size_t)job->shape.classes, sizeof *job->scores);
    if (!job->pixels || !job->scores || (job->checkpoint->real && !job->values))
        code = cli_fail(CLI_RESOURCES, "out of memory: an image and its scores");
    if (code == CLI_OK && job->v->data)
        code = predict_sample(job);
    if (code == CLI_OK)
        code = predict_files(job, args, count);
    free(job->scores);
    free(job->values);
    free(job->pixels);
    gyre_close(job->net);
    return code;
}

static int predict_run(const void *values, char **args, int count)
{
    struct cli_checkpoint checkpoint;
    struct predict_job job = { .v = values, .checkpoint = &checkpoint };
    if (count == 1 && !job.v->data)
        return cli_fail(CLI_USAGE, "predict needs image files after the checkpoint, or --data PATH --sample N");
    if (!job.v->data && (job.v->split || job.v->sample))
        return cli_fail(CLI_USAGE, "--split and --sample are for --data PATH");
    int code = cli_open_checkpoint(&checkpoint, args[0]);
    if (code != CLI_OK)
        return code;
    if (checkpoint.real)
        fprintf(stderr, "gyre: warning: %s was trained on float images; the bytes of these, over 255, are taken for such\n", checkpoint.path);
    code = predict_all(&job, args + 1, count - 1);
    cli_close_checkpoint(&checkpoint);
    return code;
}

const struct cli_command cmd_predict = {
    .name = "predict", .args = "CHECKPOINT IMAGE...", .about = "says what is in images", .least = 1, .most = 1 << 20,
    .bytes = sizeof(struct predict_values),
    .groups = { { predict_rows, CLI_COUNT(predict_rows), 0 }, CLI_NET_GROUP(struct predict_values, net) },
    .run = predict_run,
    .details =
        "CHECKPOINT is a file, or the folder of a run: then its newest one. Images are JPEG, PNG, BMP or PNM; they are scaled and\n"
        "cropped as in evaluation, and normalised as the checkpoint says.\n\n"
        "Examples:\n"
        "  gyre predict runs/resnet20 cat.jpg dog.png\n"
        "  gyre predict runs/lenet5 --data /usr/share/datasets/fashion-mnist --sample 17\n",
};
