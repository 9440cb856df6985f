/* SPDX-License-Identifier: MIT */
/* The command: finds the subcommand's row, lets the options mechanism read the rest, runs it. */
#include "tools/cli.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_command *const commands[] = {
    &cmd_train, &cmd_eval, &cmd_predict, &cmd_plan, &cmd_zoo, &cmd_pack, &cmd_export, &cmd_import, &cmd_info, &cmd_bench, &cmd_bench_sum,
    &cmd_tune, &cmd_kernels, &cmd_audit, &cmd_why, &cmd_fit, &cmd_network, &cmd_launch, &cmd_glm, &cmd_knobs, &cmd_help,
};

static const struct cli_command *const two_words[] = {
    &cmd_bench_sum, &cmd_glm_train, &cmd_glm_predict, &cmd_glm_verify, &cmd_glm_convert, &cmd_glm_inspect, &cmd_glm_generate,
};

const struct cli_command *const *cli_commands(size_t *count)
{
    *count = CLI_COUNT(commands);
    return commands;
}

const struct cli_command *cli_find_command(const char *name)
{
    const char *names[CLI_COUNT(commands)];
    for (size_t i = 0; i < CLI_COUNT(commands); i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
        names[i] = commands[i]->name;
    }
    const char *near = cli_nearest(name, names, CLI_COUNT(names));
    if (near)
        cli_fail(CLI_USAGE, "there is no command '%s'; did you mean %s?", name, near);
    else
        cli_fail(CLI_USAGE, "there is no command '%s'; 'gyre help' lists them", name);
    return NULL;
}

const struct cli_command *cli_find_two(const char *first, const char *second, int *wrong)
{
    const char *names[CLI_COUNT(two_words)];
    const size_t bytes = strlen(first);
    size_t count = 0;
    *wrong = 0;
    for (size_t i = 0; i < CLI_COUNT(two_words); i++) {
        const char *name = two_words[i]->name;
        if (strncmp(name, first, bytes) != 0 || name[bytes] != ' ')
            continue;
        names[count++] = name + bytes + 1;
        if (strcmp(name + bytes + 1, second) == 0)
            return two_words[i];
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

static int run_command(const struct cli_command *command, char **args, int count)
{
    void *values = calloc(1, command->bytes + 1);
    if (!values)
        return cli_fail(CLI_RESOURCES, "out of memory: %zu bytes for options", command->bytes);
    int code = command->words ? command->words(args, count) : CLI_OK;
    const int kept = code == CLI_OK ? cli_parse(command, args, count, values) : -1;
    code = CLI_USAGE;
    if (kept == -2) {
        cli_print_command(command, stdout);
        code = CLI_OK;
    } else if (kept >= 0)
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
        cli_help(NULL, NULL);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return cli_help(argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
    int wrong = 0;
    const struct cli_command *command = argc > 2 ? cli_find_two(argv[1], argv[2], &wrong) : NULL;
    if (wrong)
        return CLI_USAGE;
    if (command)
        return run_command(command, argv + 3, argc - 3);
    command = cli_find_command(argv[1]);
    return command ? run_command(command, argv + 2, argc - 2) : CLI_USAGE;
}

/* A file that is opened takes the first number that is free: standard input and output must not be. */
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
    signal(SIGXFSZ, SIG_IGN); /* a file that would become larger than allowed is an error of its writer, who says so */
    const int code = run(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_OK)
        return cli_fail(CLI_DATA, "writing to standard output failed");
    return code;
}
