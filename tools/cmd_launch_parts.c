/* SPDX-License-Identifier: MIT */
/* cmd_launch_parts.c: for cmd_launch.c: the file of hosts, the job's key, and a command line for
 * another host, quoted so that its shell sees the same words. */
#include "tools/launch.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

/* ---- hosts ---- */

static int host_is_here(const char *name)
{
    char own[128] = "";
    gethostname(own, sizeof own - 1);
    return !strcmp(name, "localhost") || !strcmp(name, "127.0.0.1") || !strcmp(name, own);
}

static int host_word(struct launch_host *host, const char *word, const char *path, int line)
{
    char *end = NULL;
    if (!strncmp(word, "slots=", 6)) {
        const long slots = strtol(word + 6, &end, 10);
        if (!word[6] || *end || slots < 1 || slots > LAUNCH_MOST)
            return cli_fail(CLI_USAGE, "%s:%d: \"%s\"; slots are a number from 1 to %d", path, line, word, LAUNCH_MOST);
        host->slots = (int)slots;
        return CLI_OK;
    }
    if (!strncmp(word, "address=", 8) && strlen(word + 8) < sizeof host->address && word[8]) {
        snprintf(host->address, sizeof host->address, "%s", word + 8);
        return CLI_OK;
    }
    return cli_fail(CLI_USAGE, "%s:%d: \"%s\" is not known; after a host's name come slots=N and address=ADDRESS", path, line, word);
}

static int host_line(char *text, const char *path, int line, struct launch_host *host, int *taken)
{
    char *rest = NULL;
    text[strcspn(text, "#")] = 0;
    const char *word = strtok_r(text, " \t\r\n", &rest);
    *taken = word != NULL;
    if (!word)
        return CLI_OK;
    if (strlen(word) >= sizeof host->name || word[0] == '-')
        return cli_fail(CLI_USAGE, "%s:%d: this is no host's name", path, line);
    *host = (struct launch_host){ .slots = 1, .here = host_is_here(word) };
    snprintf(host->name, sizeof host->name, "%s", word);
    while ((word = strtok_r(NULL, " \t\r\n", &rest))) {
        const int code = host_word(host, word, path, line);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

/* Reads a line without its end. 1: it is there; 0: there is none; -1: it is too long; -2: a byte of
 * it is 0. */
static int host_next_line(FILE *file, char *text, size_t room)
{
    size_t count = 0;
    int c = getc(file);
    if (c == EOF)
        return 0;
    for (; c != EOF && c != '\n'; c = getc(file)) {
        if (c == 0)
            return -2;
        if (count + 1 == room)
            return -1;
        text[count++] = (char)c;
    }
    text[count] = 0;
    return 1;
}

/* Its processes would be numbered twice. */
static int host_is_new(const struct launch_host *hosts, int count, const char *path, int line)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(hosts[i].name, hosts[count].name))
            return cli_fail(CLI_USAGE, "%s:%d: %s is there twice; slots=N gives it N processes",
                            path, line, hosts[i].name);
    return CLI_OK;
}

int launch_read_hosts(const char *path, struct launch_host *hosts, int *count)
{
    char text[LAUNCH_LINE + 1];
    int code = CLI_OK, line = 0, taken, there;
    FILE *file = fopen(path, "r");
    if (!file)
        return cli_fail(CLI_DATA, "%s: cannot be opened: %s", path, strerror(errno));
    *count = 0;
    while (code == CLI_OK && (there = host_next_line(file, text, sizeof text)) != 0) {
        line++;
        if (*count == LAUNCH_HOSTS) {
            code = cli_fail(CLI_USAGE, "%s:%d: more than %d hosts", path, line, LAUNCH_HOSTS);
            break;
        }
        if (there < 0) {
            code = there == -2 ? cli_fail(CLI_USAGE, "%s:%d: a byte of the line is 0; a file of hosts is text", path, line)
                               : cli_fail(CLI_USAGE, "%s:%d: a line of more than %d bytes", path, line, LAUNCH_LINE);
            break;
        }
        code = host_line(text, path, line, &hosts[*count], &taken);
        if (code == CLI_OK && taken)
            code = host_is_new(hosts, *count, path, line);
        *count += taken;
    }
    fclose(file);
    if (code == CLI_OK && *count == 0)
        code = cli_fail(CLI_USAGE, "%s: there is no host in it", path);
    return code;
}

/* ---- key ---- */

long syscall(long number, ...); /* not declared under strict POSIX */

/* From the system, which needs no /dev for it. */
int launch_key(char key[LAUNCH_KEY + 2])
{
    unsigned char bytes[LAUNCH_KEY / 2];
    if (syscall(SYS_getrandom, bytes, sizeof bytes, 0u) != (long)sizeof bytes)
        return -1;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(key + 2 * i, 3, "%02x", bytes[i]);
    memcpy(key + LAUNCH_KEY, "\n", 2);
    return 0;
}

/* ---- address ---- */

int launch_address(const char *host, struct sockaddr_storage *out, socklen_t *bytes)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, host, &at.sin_addr) == 1) {
        memcpy(out, &at, sizeof at);
        *bytes = sizeof at;
        return 0;
    }
#ifndef GY_NO_NAMES /* else a static build, which looks no names up */
    const struct addrinfo want = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, NULL, &want, &found) == 0) {
        memcpy(out, found->ai_addr, found->ai_addrlen);
        *bytes = found->ai_addrlen;
        freeaddrinfo(found);
        return 0;
    }
#endif
    return -1;
}

/* ---- command lines ---- */

int launch_split(const char *text, char *words[LAUNCH_SSH_WORDS + 3])
{
    char *rest = NULL, *copy = strdup(text);
    int count = 0;
    for (char *word = copy ? strtok_r(copy, " \t", &rest) : NULL; word && count < LAUNCH_SSH_WORDS; word = strtok_r(NULL, " \t", &rest))
        words[count++] = word;
    return count;
}

/* In single quotes; one inside becomes '\''. */
static void shell_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    fputs("' ", out);
}

static void shell_variables(FILE *out)
{
    for (char **e = environ; *e; e++) {
        const size_t name = strcspn(*e, "=");
        if ((strncmp(*e, "GYRE_", 5) && strncmp(*e, "UCX_", 4)) || !(*e)[name])
            continue;
        fprintf(out, "%.*s=", (int)name, *e);
        shell_quoted(out, *e + name + 1);
    }
}

/* What a shell on another host runs. The key is the first line of its input, never a word of a
 * command line. At the end of the input the launcher is gone: the command is asked to end, and half
 * a minute later it is ended. A command that is stopped for long is ended there, since only its own
 * host sees that. */
char *launch_shell(char *const *command, int locals, int threads)
{
    char *text = NULL, folder[4096];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fputs("cd ", out);
    shell_quoted(out, getcwd(folder, sizeof folder) ? folder : "/");
    fputs("&& exec 3<&0 && IFS= read -r key <&3 && { printf '%s\\n' \"$key\" | env ", out);
    shell_variables(out);
    if (threads)
        fprintf(out, "GYRE_THREADS=%d ", threads);
    else if (!getenv("GYRE_THREADS"))
        fprintf(out, "GYRE_THREADS=$(n=$(($(getconf _NPROCESSORS_ONLN) / %d)); echo $((n > 0 ? n : 1))) ", locals);
    for (int i = 0; command[i]; i++)
        shell_quoted(out, command[i]);
    fputs("& } && pid=$! && { { cat <&3 >/dev/null; kill $pid; kill -CONT $pid; sleep 30; kill -9 $pid; } 2>/dev/null & } && watch=$! && exec 3<&- && ", out);
    fprintf(out, "{ still=0; while sleep 1 && read -r state </proc/$pid/stat; do case ${state##*) } in T*) still=$((still + 1)) ;; *) still=0 ;; esac; "
            "[ $still -lt %d ] || kill -9 $pid; done </dev/null >/dev/null 2>&1 & } && stands=$! && ", LAUNCH_STILL);
    fputs("{ wait $pid; code=$?; kill $watch $stands 2>/dev/null; exit $code; }", out);
    return fclose(out) == 0 ? text : NULL;
}
