/* SPDX-License-Identifier: MIT */
/* arrays.c: trains the zoo's net for Fashion-MNIST on images that lie in arrays, and saves it; the
 * profile core is enough. Usage: arrays IMAGES LABELS STEPS NET, with MNIST's uncompressed files:
 * heads of 16 and 8 bytes, then pixels, labels. */
#include "gyre.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 100, IMAGES = 60000, PIXELS = 28 * 28 };
static unsigned char image[IMAGES][PIXELS], byte[IMAGES];

static char text[4096];

/* Where gyre_zoo_text writes */
static int keep(void *user, const char *piece, size_t bytes)
{
    const size_t used = strlen(text);
    (void)user;
    if (bytes >= sizeof text - used)
        return 1;
    memcpy(text + used, piece, bytes);
    return 0;
}

static int fill(const char *path, long head, void *to, size_t size)
{
    FILE *const file = fopen(path, "rb");
    const int whole = file && fseek(file, head, SEEK_SET) == 0 && fread(to, size, IMAGES, file) == IMAGES;
    if (file)
        fclose(file);
    return whole;
}

int main(int argc, char **argv)
{
    const struct gyre_sink sink = { keep, NULL };
    struct gyre_config config;
    struct gyre_net *net = NULL;
    struct gyre_error error = { 0 };
    struct gyre_result result = { 0 };
    int status = argc == 5 && fill(argv[1], 16, image, PIXELS) && fill(argv[2], 8, byte, 1) ? GYRE_OK : GYRE_E_ARG;
    gyre_config_default(&config);
    config.net = text;
    config.batch = BATCH;
    config.input = GYRE_INPUT_U8;
    config.schedule.rate = 0.05f;
    status = status == GYRE_OK ? gyre_zoo_text("fashion", 0, 0, 0, 0, &sink, &error) : status;
    status = status == GYRE_OK ? gyre_open(&net, &config, &error) : status;
    for (long step = 0, steps = status == GYRE_OK ? strtol(argv[3], NULL, 10) : 0; step < steps && status == GYRE_OK; step++) {
        const long first = step * BATCH % IMAGES;
        int32_t label[BATCH];
        for (int i = 0; i < BATCH; i++)
            label[i] = byte[first + i];
        status = gyre_step(net, &(struct gyre_batch){ .x = image[first], .label = label, .count = BATCH }, &result);
        if (step % 100 == 99)
            printf("step %ld: loss %.3f, %d of %d right\n", step + 1, result.loss, result.top1, BATCH);
    }
    status = status == GYRE_OK ? gyre_save(net, argv[4]) : status;
    if (status != GYRE_OK)
        fprintf(stderr, "%s\n", net ? gyre_last_error(net)->text : error.text[0] ? error.text : "usage: arrays IMAGES LABELS STEPS NET");
    gyre_close(net);
    return status != GYRE_OK;
}
