/* SPDX-License-Identifier: MIT */
/* cmd_help.c: finds commands by name, and prints gyre help: the overview, a command, the language
 * of nets, exit codes. gyre.c, which has the table of commands, calls it. */
#include "tools/cli.h"
#include <string.h>

const struct cli_command *cli_find_command(const struct cli_table *table, const char *name)
{
    const char *names[CLI_COMMANDS_MOST];
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->commands[i]->name, name) == 0)
            return table->commands[i];
        names[i] = table->commands[i]->name;
    }
    const char *near = cli_nearest(name, names, table->count);
    if (near)
        cli_fail(CLI_USAGE, "there is no command '%s'; did you mean %s?", name, near);
    else
        cli_fail(CLI_USAGE, "there is no command '%s'; 'gyre help' lists them", name);
    return NULL;
}

const struct cli_command *cli_find_two(const struct cli_table *table, const char *first, const char *second, int *wrong)
{
    const char *names[CLI_COMMANDS_MOST];
    const size_t bytes = strlen(first);
    size_t count = 0;
    *wrong = 0;
    for (size_t i = 0; i < table->two_count; i++) {
        const char *name = table->two_words[i]->name;
        if (strncmp(name, first, bytes) != 0 || name[bytes] != ' ')
            continue;
        names[count++] = name + bytes + 1;
        if (strcmp(name + bytes + 1, second) == 0)
            return table->two_words[i];
    }
    if (strcmp(first, cmd_glm.name) != 0 || second[0] == '-')
        return NULL; /* the first word is a command of its own */
    const char *near = cli_nearest(second, names, count);
    if (near)
        cli_fail(CLI_USAGE, "there is no command 'glm %s'; did you mean glm %s?", second, near);
    else
        cli_fail(CLI_USAGE, "there is no command 'glm %s'; 'gyre help glm' lists them", second);
    *wrong = 1;
    return NULL;
}

/* ---- help ---- */

static int help_overview(const struct cli_table *table)
{
    printf("gyre %d.%d.%d: trains convolutional nets and linear models\n\nusage: gyre COMMAND ...\n\n", GYRE_VERSION_MAJOR, GYRE_VERSION_MINOR,
           GYRE_VERSION_PATCH);
    for (size_t i = 0; i < table->count; i++)
        printf("  %-10s %s\n", table->commands[i]->name, table->commands[i]->about);
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

static int help_has(const struct cli_table *table, const char *topic)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->commands[i]->name, topic) == 0)
            return 1;
    return strcmp(topic, "exit") == 0 || strcmp(topic, "language") == 0;
}

int cli_help(const struct cli_table *table, const char *topic, const char *more)
{
    if (!topic)
        return help_overview(table);
    if (!more && strcmp(topic, "exit") == 0)
        return help_exit();
    if (!more && strcmp(topic, "language") == 0)
        return gyre_print_language(&cli_stdout) == GYRE_OK ? CLI_OK : CLI_FAILED;
    int wrong = 0;
    const struct cli_command *command = more ? cli_find_two(table, topic, more, &wrong) : cli_find_command(table, topic);
    if (!command && more && !wrong)
        return cli_fail(CLI_USAGE, "there is no help of '%s %s' alone; see 'gyre help %s'", topic,
                        more, help_has(table, topic) ? topic : "help");
    if (!command)
        return CLI_USAGE;
    cli_print_command(command, stdout);
    return CLI_OK;
}
