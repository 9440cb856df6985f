/* SPDX-License-Identifier: MIT */
/* train_options.h: the options of 'gyre train', which 'gyre why' takes, too. cmd_train.c reads
 * them. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H
#include "tools/cli.h"

struct train_values {
    int64_t batch, epochs, steps, accumulate, mem, recompute, classes, size;
    double smoothing;
    /* optimiser */
    int64_t optimizer, nesterov, skip;
    double lr, momentum, weight_decay, clip, ema;
    /* schedule */
    int64_t schedule;
    double warmup_epochs, warmup_from, final_rate, power;
    struct cli_reals milestones;
    /* data */
    int64_t pad_crop, flip, resized_crop, resize, max_bad, loader_threads;
    double jitter, mixup, cutmix, val_split;
    struct cli_reals mean, std;
    const char *test_data, *show_batch, *names;
    /* run */
    const char *out, *weights, *recipe;
    int64_t checkpoint_every, keep, resume, overwrite, json;
    /* several processes */
    int64_t ranks, shards, sync_bn, wire;
    double bucket;
    int64_t pipeline, micro, stage_schedule;
    const char *trace, *elastic;
    struct cli_servers servers;
    struct cli_net_options net;
};

extern const struct cli_option train_recipe_rows[4], train_rows[42],
    train_ranks_rows[10];

/* Parts of --batch that make an update: of a pipeline, without shards. */
int64_t train_micros(const struct train_values *v);
int64_t train_batch_of(const struct train_values *v); /* images of a step */
int64_t train_accumulate_of(const struct train_values *v);
/* CLI_USAGE, after a sentence, for options that leave others without effect. */
int train_check_pairs(const struct train_values *v);

#endif
