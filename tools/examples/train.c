/* SPDX-License-Identifier: MIT */
/* train.c: trains LeNet-5 from C: data, net, loop. Usage: train DATA FOLDER; it writes checkpoint,
 * curve and metrics into FOLDER.
 *     cc train.c libgyre.a -lm -lpthread -ldl */
#include "gyre.h"
#include <stdio.h>

static int show(void *user, const struct gyre_progress *p)
{
    (void)user;
    if (p->path)
        printf("step %d: loss %.4f, accuracy %.4f, written to %s\n", (int)p->step, p->loss, p->accuracy, p->path);
    return 0; /* not 0: write a checkpoint and stop */
}

int main(int argc, char **argv)
{
    struct gyre_data_config source;
    struct gyre_config config;
    struct gyre_train_config loop;
    struct gyre_data *data = NULL;
    struct gyre_net *net = NULL;
    struct gyre_error error = { 0 };
    int status = GYRE_E_ARG;
    gyre_data_config_default(&source);
    source.path = argc == 3 ? argv[1] : "";
    source.split = "train";
    gyre_config_default(&config);
    config.net = "input 28x28x1\nconv 6 5x5 pad 2\nrelu\nmaxpool 2x2\nconv 16 5x5\nrelu\nmaxpool 2x2\n"
                 "linear 120\nrelu\nlinear 84\nrelu\nlinear 10\nsoftmax\n";
    config.batch = 32;
    config.input = GYRE_INPUT_U8;
    config.schedule.rate = 0.02f;
    if (argc == 3 && gyre_open_data(&data, &source, &error) == GYRE_OK && gyre_open(&net, &config, &error) == GYRE_OK) {
        gyre_train_config_default(&loop);
        loop.train = data;
        loop.folder = argv[2];
        loop.progress = show;
        status = gyre_train(net, &loop);
        error = *gyre_last_error(net);
    }
    if (status != GYRE_OK)
        fprintf(stderr, "%s\n", argc == 3 ? error.text : "usage: train DATA FOLDER");
    gyre_close(net);
    gyre_close_data(data);
    return status != GYRE_OK;
}
