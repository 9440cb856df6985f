/* SPDX-License-Identifier: MIT */
/* cmd_ranks.c: --ranks N of gyre train (cmd_train.c): this process becomes 'gyre launch --ranks N'
 * of the same command line. With --device cuda:all N is the number of GPUs here, and each process
 * takes its own. cli_elastic reads --elastic for gyre launch (cmd_launch.c), too. */
#include "tools/lab/lab.h"
#include "tools/cli.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_WORD "--ranks"
#define RANKS_ELASTIC "--elastic"
#define RANKS_MOST 64 /* of an elastic job: GY_NET_MEMBERS of net/comm/reform.h */
#define RANKS_DEVICE "--device"
#define RANKS_ALL ":all"

/* How many of the words at args[i] say an option; its value in *value. */
static int ranks_said(char **args, int count, int i, const char *option, const char **value)
{
    const size_t length = strlen(option);
    if (strncmp(args[i], option, length) != 0 || (args[i][length] && args[i][length] != '='))
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
        if (ranks_said(args, count, i, RANKS_ELASTIC, &value))
            snprintf(bounds, sizeof bounds, "%s", value);
    char *const head[] = { self, launch, option, number, elastic, bounds, end, self, name };
    const size_t left_out = bounds[0] ? 0 : 2;
    memcpy(words, head, 4 * sizeof *head);
    memcpy(words + 4, head + 4 + left_out, (CLI_COUNT(head) - 4 - left_out) * sizeof *head);
    used = (int)(CLI_COUNT(head) - left_out);
    for (int i = 0; i < count;) {
        const int said = ranks_said(args, count, i, RANKS_WORD, &value);
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
        return cli_fail(CLI_USAGE, "--elastic %s: it must be MIN:MAX processes, 1 <= MIN <= MAX <= "
                        "%d", text, RANKS_MOST);
    *least = (int)first;
    *most = (int)last;
    return CLI_OK;
}

/* "cuda" of "cuda:all"; 0: the device is no such one. */
static int ranks_all(const char *device, char kind[32])
{
    const size_t bytes = device ? strlen(device) : 0, tail = strlen(RANKS_ALL);
    if (bytes <= tail || bytes - tail >= 32 || strcmp(device + bytes - tail, RANKS_ALL) != 0)
        return 0;
    memcpy(kind, device, bytes - tail);
    kind[bytes - tail] = 0;
    return 1;
}

/* Every process gets "--device cuda", which is the one of its own number. */
static void ranks_set_device(char **args, int count, const char *kind)
{
    static char word[64];
    const char *value;
    for (int i = 0; i < count; i++) {
        const int said = ranks_said(args, count, i, RANKS_DEVICE, &value);
        if (said)
            snprintf(word, sizeof word, "%s%s", said == 1 ? RANKS_DEVICE "=" : "", kind);
        if (said && i + said <= count)
            args[i + said - 1] = word;
    }
}

static int ranks_devices(char **args, int count, const char *kind, char number[32])
{
    struct gyre_error error;
    int devices = 0;
    if (gyre_count_devices(kind, &devices, &error) != GYRE_OK)
        return cli_error(&error);
    snprintf(number, 32, "%d", devices);
    ranks_set_device(args, count, kind);
    return CLI_OK;
}

int cli_start_ranks(const struct cli_command *command, char **args, int count)
{
    const char *ranks = NULL, *device = NULL;
    char kind[32], number[32];
    for (int i = 0; i < count; i++)
        if (!ranks_said(args, count, i, RANKS_WORD, &ranks))
            ranks_said(args, count, i, RANKS_DEVICE, &device);
    const int all = ranks_all(device, kind);
    if (!ranks && !all)
        return CLI_OK;
    const int kept = ranks_check(command, args, count);
    if (kept == -2) /* help */
        return CLI_OK;
    if (kept < 0)
        return CLI_USAGE;
    if (ranks && all)
        return cli_fail(CLI_USAGE, "--ranks and --device %s both say how many processes there are; "
                                   "take one of both", device);
    if (!all && strtol(ranks, NULL, 10) == 1)
        return CLI_OK;
    if (getenv("GYRE_RANK"))
        return cli_fail(CLI_USAGE, "%s starts the processes of a job, and this "
                        "one is of a job already: of 'gyre launch' or GYRE_RANK",
                        all ? "--device with :all" : RANKS_WORD);
    const int code = all ? ranks_devices(args, count, kind, number) : CLI_OK;
    if (code != CLI_OK || (all && strcmp(number, "1") == 0))
        return code;
    return ranks_become(command, args, count, all ? number : ranks);
}
