/* SPDX-License-Identifier: MIT */
/* gyre help: the overview, a command, the language of nets, exit codes. */
#include "tools/cli.h"
#include <string.h>

static int help_overview(void)
{
    size_t count;
    const struct cli_command *const *commands = cli_commands(&count);
    printf("gyre %d.%d.%d: trains convolutional nets and linear models\n\nusage: gyre COMMAND ...\n\n", GYRE_VERSION_MAJOR, GYRE_VERSION_MINOR,
           GYRE_VERSION_PATCH);
    for (size_t i = 0; i < count; i++)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->about);
    printf("\n'gyre help COMMAND' says more; also 'gyre help language' (how nets are written) and 'gyre help exit' (exit codes).\n"
           "'gyre --version' prints version and source id.\n\n"
           "Examples:\n"
           "  gyre train lenet5 DATA --epochs 5        train a net of the zoo on a folder of images or IDX files\n"
           "  gyre eval runs/lenet5 DATA               how good its newest checkpoint is\n"
           "  gyre predict runs/lenet5 IMAGE.png       what is in an image\n");
    return CLI_OK;
}

static int help_exit(void)
{
    static const struct {
        int code;
        const char *what;
    } rows[] = {
        { CLI_OK, "done" },
        { CLI_FAILED, "failed for a reason that has no code of its own" },
        { CLI_USAGE, "usage: a command, an option, a value or a net text is wrong" },
        { CLI_DATA, "data: a file cannot be read, written or used, or the disk is full" },
        { CLI_RESOURCES, "resources: memory or a device is missing" },
        { CLI_NONFINITE, "a loss or gradient was not finite; the sentence says where it began" },
        { CLI_STOPPED, "stopped by SIGINT, SIGTERM or SIGHUP; the step was finished and a checkpoint written" },
        { CLI_UNPROVED, "a linear model was written, but is not proved to be within --gap; or what a model's file says does not hold" },
    };
    printf("Exit codes:\n");
    for (size_t i = 0; i < CLI_COUNT(rows); i++)
        printf("  %d  %s\n", rows[i].code, rows[i].what);
    return CLI_OK;
}

int cli_help(const char *topic, const char *more)
{
    if (!topic)
        return help_overview();
    if (strcmp(topic, "exit") == 0)
        return help_exit();
    if (strcmp(topic, "language") == 0)
        return gyre_print_language(&cli_stdout) == GYRE_OK ? CLI_OK : CLI_FAILED;
    int wrong = 0;
    const struct cli_command *command = more ? cli_find_two(topic, more, &wrong) : cli_find_command(topic);
    if (!command && more && !wrong)
        return cli_fail(CLI_USAGE, "there is no command '%s %s'; 'gyre help' lists them", topic, more);
    if (!command)
        return CLI_USAGE;
    cli_print_command(command, stdout);
    return CLI_OK;
}

static int help_run(const void *values, char **args, int count)
{
    (void)values;
    return cli_help(count ? args[0] : NULL, count > 1 ? args[1] : NULL);
}

const struct cli_command cmd_help = {
    .name = "help", .args = "[COMMAND|language|exit]", .about = "explains a command, the language of nets, exit codes", .most = 2,
    .run = help_run,
};
