/* SPDX-License-Identifier: MIT */
/* fuzz_hosts.c: any bytes as a file of hosts. The hosts taken are the first words of its lines, in
 * their order. None is out of a comment or the middle of a line. The file that reads is part of
 * this one, since the command is no library. */
#include "tools/cmd_launch_parts.c"
#include "tests/fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static char fuzz_sentence[1024];

int cli_fail(int exit_code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(fuzz_sentence, sizeof fuzz_sentence, fmt, args);
    va_end(args);
    return exit_code;
}

static int fuzz_is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The first word of the line at *at, of no bytes where it has none; *at becomes the next line's. */
static size_t fuzz_word(const uint8_t *bytes, size_t count, size_t *at, size_t *begin)
{
    size_t end = *at;
    while (end < count && bytes[end] != '\n')
        end++;
    for (*begin = *at; *begin < end && fuzz_is_blank(bytes[*begin]);)
        ++*begin;
    size_t stop = *begin;
    while (stop < end && !fuzz_is_blank(bytes[stop]) && bytes[stop] != '#')
        stop++;
    *at = end + 1;
    return stop - *begin;
}

static void fuzz_compare(const struct launch_host *hosts, int hosts_count, const uint8_t *bytes, size_t count)
{
    int seen = 0;
    for (size_t at = 0, begin; at < count;) {
        const size_t length = fuzz_word(bytes, count, &at, &begin);
        if (length == 0)
            continue;
        FUZZ_REQUIRE(seen < hosts_count && strlen(hosts[seen].name) == length && memcmp(hosts[seen].name, bytes + begin, length) == 0);
        FUZZ_REQUIRE(hosts[seen].name[0] != '-' && hosts[seen].slots >= 1 && hosts[seen].slots <= LAUNCH_MOST && hosts[seen].used == 0);
        FUZZ_REQUIRE(strlen(hosts[seen].address) < sizeof hosts[seen].address);
        seen++;
    }
    FUZZ_REQUIRE(seen == hosts_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct launch_host hosts[LAUNCH_HOSTS];
    char path[FUZZ_PATH];
    int hosts_count = -1;
    fuzz_sentence[0] = 0;
    fuzz_write(fuzz_path(path, "hosts"), bytes, count);
    const int code = launch_read_hosts(path, hosts, &hosts_count);
    FUZZ_REQUIRE(code == CLI_OK || (code == CLI_USAGE && strncmp(fuzz_sentence, path, strlen(path)) == 0));
    if (code == CLI_OK)
        fuzz_compare(hosts, hosts_count, bytes, count);
    return 0;
}
