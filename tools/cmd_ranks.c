/* SPDX-License-Identifier: MIT */
/* --ranks N of a command: this process becomes 'gyre launch --ranks N' of the same command line. */
#include "tools/cli.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_WORD "--ranks"
#define RANKS_ELASTIC "--elastic"
#define RANKS_MOST 64 /* of one job that outlives some */

/* How many of the words at args[i] say this option; its value in *value. */
static int ranks_said(const char *word, char **args, int count, int i, const char **value)
{
    const size_t length = strlen(word);
    if (strncmp(args[i], word, length) != 0 || (args[i][length] && args[i][length] != '='))
        return 0;
    if (args[i][length] == '=') {
        *value = args[i] + length + 1;
        return 1;
    }
    *value = i + 1 < count ? args[i + 1] : "";
    return 2;
}

/* An option that cannot be read is said once, here, and not by every process. */
static int ranks_check(const struct cli_command *command, char **args, int count)
{
    char **const copy = calloc((size_t)count + 1, sizeof *copy);
    void *const values = calloc(1, command->bytes + 1);
    int kept = -1;
    if (!copy || !values)
        (void)cli_fail(CLI_RESOURCES, "out of memory: %zu bytes for options", command->bytes);
    else {
        memcpy(copy, args, (size_t)count * sizeof *copy);
        kept = cli_parse(command, copy, count, values);
    }
    free(copy);
    free(values);
    return kept;
}

/* Never returns where it works. */
static int ranks_become(const struct cli_command *command, char **args, int count,
                        const char *ranks)
{
    static char launch[] = "launch", option[] = RANKS_WORD, end[] = "--", elastic[] = RANKS_ELASTIC;
    static char self[4096], number[32], name[32], bounds[32];
    const ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    char **const words = calloc((size_t)count + 10, sizeof *words);
    const char *value;
    int used = 0;
    if (bytes <= 0 || !words) {
        free(words);
        return cli_fail(CLI_RESOURCES, "the processes cannot be started: %s", strerror(errno));
    }
    snprintf(number, sizeof number, "%s", ranks);
    snprintf(name, sizeof name, "%s", command->name);
    for (int i = 0; i < count; i++)
        if (ranks_said(RANKS_ELASTIC, args, count, i, &value))
            snprintf(bounds, sizeof bounds, "%s", value);
    char *const head[] = { self, launch, option, number, elastic, bounds, end, self, name };
    const size_t left_out = bounds[0] ? 0 : 2;
    memcpy(words, head, 4 * sizeof *head);
    memcpy(words + 4, head + 4 + left_out, (CLI_COUNT(head) - 4 - left_out) * sizeof *head);
    used = (int)(CLI_COUNT(head) - left_out);
    for (int i = 0; i < count;) {
        const int said = ranks_said(RANKS_WORD, args, count, i, &value);
        if (!said)
            words[used++] = args[i];
        i += said ? said : 1;
    }
    execv(self, words);
    free(words);
    return cli_fail(CLI_RESOURCES, "%s: %s", self, strerror(errno));
}

int cli_elastic(const char *text, int *least, int *most)
{
    char *end = NULL;
    const long first = strtol(text, &end, 10), last = *end == ':' ? strtol(end + 1, &end, 10) : 0;
    if (*end || first < 1 || last < first || last > RANKS_MOST)
        return cli_fail(CLI_USAGE, "--elastic %s: it must be MIN:MAX processes, 1 <= MIN <= MAX "
                        "<= %d", text, RANKS_MOST);
    *least = (int)first;
    *most = (int)last;
    return CLI_OK;
}

int cli_start_ranks(const struct cli_command *command, char **args, int count)
{
    const char *ranks = NULL;
    for (int i = 0; i < count; i++)
        ranks_said(RANKS_WORD, args, count, i, &ranks);
    if (!ranks)
        return CLI_OK;
    const int kept = ranks_check(command, args, count);
    if (kept == -2) /* help */
        return CLI_OK;
    if (kept < 0)
        return CLI_USAGE;
    if (strtol(ranks, NULL, 10) == 1)
        return CLI_OK;
    if (getenv("GYRE_RANK"))
        return cli_fail(CLI_USAGE, "--ranks starts the processes of a job, and this one is of a job already: of "
                                   "'gyre launch' or GYRE_RANK");
    return ranks_become(command, args, count, ranks);
}
