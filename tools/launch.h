/* SPDX-License-Identifier: MIT */
/* launch.h: parts of gyre launch that cmd_launch_parts.c has for cmd_launch.c: the file of hosts,
 * the job's key, and a command line for another host. */
#ifndef GYRE_LAUNCH_H
#define GYRE_LAUNCH_H
#include "tools/cli.h"
#include <sys/socket.h>

#define LAUNCH_MOST 256   /* ranks */
#define LAUNCH_HOSTS 256
#define LAUNCH_LINE 1022 /* bytes of a line of the file of hosts */
#define LAUNCH_KEY 64     /* hexadecimal digits */
#define LAUNCH_SSH_WORDS 16
/* Seconds that a process may be stopped. Ranks that notice it earlier report more. */
#define LAUNCH_STILL 4

struct launch_host {
    char name[128], address[128]; /* address: where others reach it; empty: by name */
    int slots, used;              /* ranks it has room for, and gets */
    int here;                     /* it is this host */
};

/* An exit code, after a sentence. */
int launch_read_hosts(const char *path, struct launch_host *hosts, int *count);
/* digits, newline, NUL; -1: no random bytes */
int launch_key(char key[LAUNCH_KEY + 2]);
/* any port; -1: not known */
int launch_address(const char *host, struct sockaddr_storage *out, socklen_t *bytes);
/* Its copies are never freed: it is for a process that becomes another program. */
int launch_split(const char *text, char *words[LAUNCH_SSH_WORDS + 3]);
/* What a shell on another host runs: this folder, these GYRE_ and UCX_ variables, the command. The
 * caller frees it. NULL: no memory. */
char *launch_shell(char *const *command, int locals, int threads);

#endif
