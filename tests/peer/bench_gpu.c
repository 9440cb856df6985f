/* SPDX-License-Identifier: MIT */
/* bench_gpu.c: times whole training steps of a zoo net, or of a net in a file, on random images
 * that never change. Usage: bench_gpu NET BATCH f32|bf16 [DEVICE [STEPS]]. It prints a CSV row:
 *
 *     net, batch, type; images a second (median step); seconds until the first step was done
 *     (opening and compiling included); milliseconds of a step (fastest, median); device bytes;
 *     loss of the last step */
#include "engine/gyre.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Text of gyre_zoo_text into a buffer. */
struct text {
    char bytes[1 << 18];
    size_t used;
};
static int text_add(void *user, const char *bytes, size_t count)
{
    struct text *text = user;
    if (text->used + count >= sizeof text->bytes)
        return -1;
    memcpy(text->bytes + text->used, bytes, count);
    text->used += count;
    return 0;
}

static void say(void *user, int level, const char *line)
{
    (void)user;
    if (level <= GYRE_LOG_INFO)
        fprintf(stderr, "%s\n", line);
}

static int fail(const char *what, const char *why) { return fprintf(stderr, "bench_gpu: %s: %s\n", what, why), 1; }

int main(int argc, char **argv)
{
    static struct text text;
    const struct gyre_sink sink = { text_add, &text };
    struct gyre_config config;
    struct gyre_need need;
    struct gyre_error error;
    struct gyre_net *net;
    struct gyre_shape shape;
    struct gyre_result result = { 0 };
    if (argc < 4)
        return fail("usage", "bench_gpu NET BATCH f32|bf16 [DEVICE [STEPS]]");
    FILE *file = fopen(argv[1], "r");
    if (file) {
        text.used = fread(text.bytes, 1, sizeof text.bytes - 1, file);
        fclose(file);
    } else if (gyre_zoo_text(argv[1], 0, 0, 0, 0, &sink, &error) != GYRE_OK)
        return fail(argv[1], error.text);
    gyre_config_default(&config);
    config.net = text.bytes;
    config.batch = atoi(argv[2]);
    config.dtype = strcmp(argv[3], "bf16") == 0 ? GYRE_BF16 : GYRE_F32;
    config.input = GYRE_INPUT_U8;
    config.device = argc > 4 ? argv[4] : "cuda";
    config.log = (struct gyre_logger){ say, NULL, GYRE_LOG_INFO };
    config.use_env = 1;
    const int steps = argc > 5 ? atoi(argv[5]) : 30;
    const double began = now();
    if (gyre_measure(&config, &need, &error) != GYRE_OK || gyre_open(&net, &config, &error) != GYRE_OK)
        return fail(argv[1], error.text);
    gyre_get_shape(net, &shape);
    const size_t bytes = (size_t)shape.batch * (size_t)shape.h * (size_t)shape.w * (size_t)shape.c;
    unsigned char *x = malloc(bytes);
    int32_t *label = malloc((size_t)shape.batch * sizeof *label);
    double *took = malloc((size_t)steps * sizeof *took), first = 0;
    if (!x || !label || !took)
        return fail(argv[1], "out of memory");
    unsigned state = 1;
    for (size_t i = 0; i < bytes; i++)
        x[i] = (unsigned char)((state = state * 1664525u + 1013904223u) >> 24);
    for (int i = 0; i < shape.batch; i++)
        label[i] = i % shape.classes;
    const struct gyre_batch batch = { .x = x, .label = label, .count = shape.batch };
    for (int i = -5; i < steps; i++) {
        const double start = now();
        if (gyre_step(net, &batch, &result) != GYRE_OK)
            return fail(argv[1], gyre_last_error(net)->text);
        if (i == -5)
            first = now() - began;
        if (i >= 0)
            took[i] = now() - start;
    }
    qsort(took, (size_t)steps, sizeof *took, compare);
    printf("gyre,%s,%d,%s,%.1f,%.2f,%.3f,%.3f,%zu,%.4f\n", argv[1], shape.batch, argv[3], shape.batch / took[steps / 2], first,
           1e3 * took[0], 1e3 * took[steps / 2], need.device_bytes, result.loss);
    gyre_close(net);
    free(x);
    free(label);
    free(took);
    return 0;
}
