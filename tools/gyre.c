/* SPDX-License-Identifier: MIT */
/* gyre.c: the command. It finds the subcommand's row, has cmd_options.c read the rest, and runs it.
 * A new command is a line in its tables: commands, and two_words for one of two words. */
#include "tools/cli.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int help_run(const void *values, char **args, int count);
static const struct cli_command help = {
    .name = "help", .args = "[COMMAND|language|exit]", .about = "explains a command, the language of nets, exit codes", .most = 2,
    .run = help_run,
};

static const struct cli_command *const commands[] = {
    &cmd_train, &cmd_eval, &cmd_predict, &cmd_plan, &cmd_zoo, &cmd_pack, &cmd_export, &cmd_import, &cmd_info, &cmd_bench, &cmd_bench_sum,
    &cmd_recipe, &cmd_tune, &cmd_kernels, &cmd_audit, &cmd_why, &cmd_fit, &cmd_network, &cmd_launch,
    &cmd_glm, &cmd_knobs, &help,
};

static const struct cli_command *const two_words[] = {
    &cmd_bench_sum, &cmd_glm_train, &cmd_glm_predict, &cmd_glm_verify, &cmd_glm_convert, &cmd_glm_inspect, &cmd_glm_generate,
};

typedef char gyre_names_fit[CLI_COUNT(commands) <= CLI_COMMANDS_MOST && CLI_COUNT(two_words) <= CLI_COMMANDS_MOST ? 1 : -1];
static const struct cli_table table = { commands, CLI_COUNT(commands), two_words, CLI_COUNT(two_words) };

static int help_run(const void *values, char **args, int count)
{
    (void)values;
    return cli_help(&table, count ? args[0] : NULL, count > 1 ? args[1] : NULL);
}

static int run_command(const struct cli_command *command, char **args, int count)
{
    void *values = calloc(1, command->bytes + 1);
    if (!values)
        return cli_fail(CLI_RESOURCES, "out of memory: %zu bytes for options", command->bytes);
    int code = command->words ? command->words(args, count) : CLI_OK;
    const int kept = code == CLI_OK ? cli_parse(command, args, count, values) : -1;
    if (kept == -2)
        cli_print_command(command, stdout);
    else if (code == CLI_OK && kept < 0)
        code = CLI_USAGE;
    else if (kept >= 0)
        code = command->run(values, args, kept);
    free(values);
    return code;
}

static int print_version(void)
{
    const int v = gyre_version();
    printf("gyre %d.%d.%d\nsource %s\n", v / 10000, v / 100 % 100, v % 100, gyre_source_id());
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        cli_help(&table, NULL, NULL);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0)
        return argc == 2 ? print_version() :
                           cli_fail(CLI_USAGE, "usage: gyre --version; '%s' is not known", argv[2]);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return cli_help(&table, argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
    int wrong = 0;
    const struct cli_command *command = argc > 2 ? cli_find_two(&table, argv[1], argv[2], &wrong) : NULL;
    if (wrong)
        return CLI_USAGE;
    if (command)
        return run_command(command, argv + 3, argc - 3);
    command = cli_find_command(&table, argv[1]);
    return command ? run_command(command, argv + 2, argc - 2) : CLI_USAGE;
}

/* Opens descriptors 0 to 2 where they are closed. A file that is opened takes the first free
 * number, which must not be that of standard input or output. */
static int take_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return cli_fail(CLI_RESOURCES, "descriptor %d is closed, and /dev/null cannot stand in for it", fd);
    return CLI_OK;
}

int main(int argc, char **argv)
{
    const int standard = take_standard();
    if (standard != CLI_OK)
        return standard;
    /* A file that would become larger than allowed is then an error of its writer, which reports
     * it. */
    signal(SIGXFSZ, SIG_IGN);
    const int code = run(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_OK)
        return cli_fail(CLI_DATA, "writing to standard output failed");
    return code;
}
