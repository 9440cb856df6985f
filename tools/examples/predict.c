/* SPDX-License-Identifier: MIT */
/* predict.c: says which class an image is. Usage: predict CHECKPOINT IMAGE, for a checkpoint of the
 * program train beside this file. */
#include "gyre.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    static char text[65536];
    static uint8_t pixels[28 * 28];
    float scores[10] = { 0 };
    struct gyre_config config;
    struct gyre_net *net = NULL;
    struct gyre_error error = { 0 };
    const struct gyre_batch batch = { .x = pixels, .count = 1 };
    gyre_config_default(&config);
    config.net = text;
    config.mode = GYRE_INFER;
    config.batch = 1;
    int ok = argc == 3 && gyre_read_net(argv[1], text, sizeof text, NULL, &error) == GYRE_OK &&
             gyre_read_input(argv[1], &config, &error) == GYRE_OK &&
             gyre_read_image(argv[2], 28, 28, 1, 0, pixels, &error) == GYRE_OK && gyre_open(&net, &config, &error) == GYRE_OK;
    if (ok && (gyre_load(net, argv[1]) != GYRE_OK || gyre_predict(net, &batch, scores) != GYRE_OK)) {
        error = *gyre_last_error(net);
        ok = 0;
    }
    for (int i = 0; ok && i < 10; i++)
        printf("class %d: %.4f\n", i, (double)scores[i]);
    if (!ok)
        fprintf(stderr, "%s\n", argc == 3 ? error.text : "usage: predict CHECKPOINT IMAGE");
    gyre_close(net);
    return !ok;
}
