/* SPDX-License-Identifier: MIT */
/* bench_step.c: times whole training steps through the public header. The net is of the zoo or a
 * text. The data are a fixed batch made here, or a folder of images that is decoded and augmented
 * while it trains. Prints the median step, images a second and the largest resident memory.
 *
 *     bench_step NET [--batch 32] [--steps 5] [--warm 2] [--threads 0] [--isa NAME]
 *                [--dtype f32|bf16] [--recompute] [--size N] [--classes N] [--data FOLDER]
 *                [--split train] [--loader-threads 1] [--net-text] [--serve]
 *
 * --serve: after the warm-up steps it prints 'ready SECONDS' (of the last of them) and obeys lines
 * on standard input. So several programs can be measured in turn. 'run N' answers with N times in
 * seconds, 'memory' with KiB since the warm-up and since the start. 'waits' answers with the steps
 * that waited for data and the seconds they waited. The end of input ends it. */
#include "engine/gyre.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct step_args {
    const char *net, *isa, *dtype, *data, *split;
    int batch, steps, warm, threads, size, classes, loader_threads;
    int recompute, text, serve;
};

struct step_bench {
    struct gyre_net *net;
    struct gyre_data *data;
    struct gyre_loader *loader;
    struct gyre_shape shape;
    struct gyre_batch batch;
    float *x;
    int32_t *label;
    long waits, start_kib;
    double waited, last; /* seconds */
};

static double step_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int step_fail(const char *text)
{
    fprintf(stderr, "bench_step: %s\n", text);
    return -1;
}

/* ---- options ---- */

#define TEXT(member) { "--" #member, offsetof(struct step_args, member), 's' }
#define WHOLE(member) { "--" #member, offsetof(struct step_args, member), 'i' }
#define FLAG(member) { "--" #member, offsetof(struct step_args, member), 'f' }
static const struct step_option {
    const char *name;
    size_t at;
    char kind;
} step_options[] = {
    TEXT(isa), TEXT(dtype), TEXT(data), TEXT(split), WHOLE(batch), WHOLE(steps), WHOLE(warm), WHOLE(threads), WHOLE(size),
    WHOLE(classes), { "--loader-threads", offsetof(struct step_args, loader_threads), 'i' }, FLAG(recompute),
    { "--net-text", offsetof(struct step_args, text), 'f' }, FLAG(serve),
};

static int step_parse(int argc, char **argv, struct step_args *a)
{
    const struct step_option *const end = step_options + sizeof step_options / sizeof *step_options;
    for (int i = 1; i < argc; i++) {
        const struct step_option *o = step_options;
        while (o < end && strcmp(o->name, argv[i]) != 0)
            o++;
        if (o == end && argv[i][0] != '-' && !a->net) {
            a->net = argv[i];
            continue;
        }
        if (o == end || (o->kind != 'f' && i + 1 == argc))
            return step_fail("see the first lines of bench_step.c for the options");
        char *const member = (char *)a + o->at;
        if (o->kind == 's')
            *(const char **)(void *)member = argv[++i];
        else
            *(int *)(void *)member = o->kind == 'f' ? 1 : (int)strtol(argv[++i], NULL, 10);
    }
    return a->net && a->batch > 0 && a->steps > 0 ? 0 : step_fail("a net, and a batch and steps above 0 are needed");
}

/* ---- net and data ---- */

struct step_text {
    char bytes[262144];
    size_t used;
};

static int step_add(void *user, const char *text, size_t bytes)
{
    struct step_text *t = user;
    if (bytes >= sizeof t->bytes - t->used)
        return -1;
    memcpy(t->bytes + t->used, text, bytes);
    t->bytes[t->used += bytes] = 0;
    return 0;
}

/* The net's text from the zoo, or from a file with --net-text. */
static int step_read_text(const struct step_args *a, struct step_text *text)
{
    struct gyre_error error = { 0 };
    const struct gyre_sink sink = { step_add, text };
    text->used = 0;
    if (!a->text)
        return gyre_zoo_text(a->net, a->classes, a->size, a->size, a->size ? 3 : 0, &sink, &error) == GYRE_OK ? 0 : step_fail(error.text);
    FILE *f = fopen(a->net, "r");
    if (!f)
        return step_fail("the net's text cannot be read");
    text->used = fread(text->bytes, 1, sizeof text->bytes - 1, f);
    text->bytes[text->used] = 0;
    fclose(f);
    return 0;
}

static int step_open_net(const struct step_args *a, struct step_bench *b)
{
    static const float mean[3] = { 0.485f, 0.456f, 0.406f }, std[3] = { 0.229f, 0.224f, 0.225f };
    static struct step_text text;
    struct gyre_config c;
    struct gyre_error error = { 0 };
    if (step_read_text(a, &text) != 0)
        return -1;
    gyre_config_default(&c);
    c.net = text.bytes;
    c.net_name = a->net;
    c.batch = a->batch;
    c.threads = a->threads;
    c.isa = a->isa;
    c.recompute = a->recompute;
    c.dtype = a->dtype && strcmp(a->dtype, "bf16") == 0 ? GYRE_BF16 : GYRE_F32;
    c.schedule.rate = 0.01f;
    c.use_env = 1;
    if (a->data) {
        c.input = GYRE_INPUT_U8;
        memcpy(c.mean, mean, sizeof mean);
        memcpy(c.std, std, sizeof std);
    }
    if (gyre_open(&b->net, &c, &error) != GYRE_OK)
        return step_fail(error.text);
    gyre_get_shape(b->net, &b->shape);
    return 0;
}

/* Augmentation of the usual ImageNet recipe. */
static int step_open_loader(const struct step_args *a, struct step_bench *b)
{
    struct gyre_data_config d;
    struct gyre_loader_config c;
    struct gyre_error error = { 0 };
    gyre_data_config_default(&d);
    d.path = a->data;
    d.split = a->split;
    if (gyre_open_data(&b->data, &d, &error) != GYRE_OK)
        return step_fail(error.text);
    gyre_loader_config_default(&c);
    c.batch = b->shape.batch;
    c.h = b->shape.h;
    c.w = b->shape.w;
    c.c = b->shape.c;
    c.training = 1;
    c.augment.resized_crop = 1;
    c.augment.flip = 0.5f;
    c.threads = a->loader_threads;
    return gyre_open_loader(&b->loader, b->data, &c, &error) == GYRE_OK ? 0 : step_fail(error.text);
}

static int step_make_batch(struct step_bench *b)
{
    const size_t count = (size_t)b->shape.batch * (size_t)b->shape.h * (size_t)b->shape.w * (size_t)b->shape.c;
    uint32_t state = 1;
    b->x = malloc(count * sizeof *b->x);
    b->label = malloc((size_t)b->shape.batch * sizeof *b->label);
    if (!b->x || !b->label)
        return step_fail("out of memory: a batch");
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        b->x[i] = (float)(state >> 8) / 4194304.0f - 2.0f;
    }
    for (int32_t i = 0; i < b->shape.batch; i++)
        b->label[i] = (int32_t)((i * 37) % b->shape.classes);
    b->batch = (struct gyre_batch){ .x = b->x, .label = b->label, .count = b->shape.batch };
    return 0;
}

/* ---- measuring ---- */

/* Resident memory: the most since it was set back. */
static long step_peak_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

/* Linux: writing 5 sets the most back to what is resident now. */
static void step_reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        fputs("5", f);
        fclose(f);
    }
}

/* Seconds of a step with all it needs, data included; below 0: failed. */
static double step_once(struct step_bench *b)
{
    struct gyre_result result;
    struct gyre_error error = { 0 };
    const double begin = step_now();
    if (b->loader && gyre_next_batch(b->loader, &b->batch, NULL, &error) != GYRE_OK)
        return step_fail(error.text);
    const double waited = step_now() - begin;
    if (waited > 1e-3) {
        b->waits++;
        b->waited += waited;
    }
    if (gyre_step(b->net, &b->batch, &result) != GYRE_OK)
        return step_fail(gyre_last_error(b->net)->text);
    b->last = step_now() - begin;
    return b->last;
}

static int step_warm(const struct step_args *a, struct step_bench *b)
{
    for (int i = 0; i < a->warm; i++)
        if (step_once(b) < 0)
            return -1;
    b->waits = 0;
    b->waited = 0;
    b->start_kib = step_peak_kib();
    step_reset_peak();
    return 0;
}

static int step_serve(struct step_bench *b)
{
    char line[64];
    printf("ready %.6f\n", b->last);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        const long steps = strncmp(line, "run ", 4) == 0 ? strtol(line + 4, NULL, 10) : 0;
        for (long i = 0; i < steps; i++) {
            const double seconds = step_once(b);
            if (seconds < 0)
                return -1;
            printf("%s%.6f", i ? " " : "", seconds);
        }
        if (strncmp(line, "memory", 6) == 0) {
            const long kib = step_peak_kib();
            printf("%ld %ld", kib, kib > b->start_kib ? kib : b->start_kib);
        } else if (strncmp(line, "waits", 5) == 0)
            printf("%ld %.6f", b->waits, b->waited);
        printf("\n");
        fflush(stdout);
    }
    return 0;
}

static int step_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int step_report(const struct step_args *a, struct step_bench *b)
{
    double *seconds = malloc((size_t)a->steps * sizeof *seconds);
    int status = seconds ? 0 : step_fail("out of memory");
    for (int i = 0; status == 0 && i < a->steps; i++) {
        seconds[i] = step_once(b);
        status = seconds[i] < 0 ? -1 : 0;
    }
    if (status == 0) {
        qsort(seconds, (size_t)a->steps, sizeof *seconds, step_compare);
        const double median = (seconds[(a->steps - 1) / 2] + seconds[a->steps / 2]) / 2;
        printf("%s batch %d: median %.1f ms, least %.1f ms, %.2f images/s, peak %.1f MiB, %ld of %d steps waited for data, %.3f s\n",
               a->net, (int)b->shape.batch, median * 1e3, seconds[0] * 1e3, b->shape.batch / median, (double)step_peak_kib() / 1024,
               b->waits, a->steps, b->waited);
    }
    free(seconds);
    return status;
}

int main(int argc, char **argv)
{
    struct step_args a = { .batch = 32, .steps = 5, .warm = 2, .loader_threads = 1, .split = "train" };
    struct step_bench b = { 0 };
    int status = step_parse(argc, argv, &a);
    if (status == 0)
        status = step_open_net(&a, &b);
    if (status == 0)
        status = a.data ? step_open_loader(&a, &b) : step_make_batch(&b);
    if (status == 0)
        status = step_warm(&a, &b);
    if (status == 0)
        status = a.serve ? step_serve(&b) : step_report(&a, &b);
    gyre_close_loader(b.loader);
    gyre_close_data(b.data);
    gyre_close(b.net);
    free(b.x);
    free(b.label);
    return status != 0;
}
