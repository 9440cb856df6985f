/* SPDX-License-Identifier: MIT */
/* cmd_why.c: gyre why: its own options and its call of the library. The net and the data come from
 * the options of gyre train (cmd_train.c), so "why" can replace "train" in a command line. */
#include "tools/lab/lab.h"
#include "tools/cli.h"

const struct cli_option cli_why_rows[2] = {
    { "measure", "N", "20", "steps that are measured, after three others", CLI_WHOLE, offsetof(struct cli_why_options, steps), 1, 100000 },
    { "ops", NULL, NULL, "a line for each op at the end", CLI_FLAG, offsetof(struct cli_why_options, all_ops), 0, 0 },
};

int cli_print_why(struct gyre_net *net, const struct gyre_train_config *loop, const struct cli_why_options *options, int json)
{
    struct gyre_why_config config;
    gyre_why_config_default(&config);
    config.data = loop->train;
    config.augment = loop->augment;
    config.loader_threads = loop->loader_threads;
    config.steps = (int)options->steps;
    config.all_ops = (int)options->all_ops;
    config.json = json;
    return gyre_print_why(net, &config, &cli_stdout) == GYRE_OK ? CLI_OK : cli_net_error(net);
}
