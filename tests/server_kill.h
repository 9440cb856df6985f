/* SPDX-License-Identifier: MIT */
/* server_kill.h: a worker that kills itself at one of its own calls, for t_server.c. */
#ifndef GY_TESTS_SERVER_KILL_H
#define GY_TESTS_SERVER_KILL_H
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "engine/job/peers.h"

enum { SV_PUSH, SV_WAIT, SV_ENDS };
static struct {
    int64_t left[SV_ENDS]; /* calls until then; 0: never */
    const struct gy_peers *real;
    struct gy_peers peers;
} sv_fate;

static void sv_down(int kind)
{
    if (sv_fate.left[kind] > 0 && --sv_fate.left[kind] == 0)
        raise(SIGKILL);
}

static int sv_start(struct gyre_job *job, float *data, int64_t count, int64_t *ticket,
                    struct gy_error *err)
{
    sv_down(SV_PUSH);
    return sv_fate.real->start(job, data, count, ticket, err);
}

static int sv_wait(struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    sv_down(SV_WAIT);
    return sv_fate.real->wait(job, ticket, err);
}

/* text: "RANK:N" as it begins its push N, "RANK:wN" as it waits for that; with commas between. */
static void sv_watch(struct gyre_job *job, const char *text, int rank)
{
    for (const char *at = text; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char *end = NULL;
        const long whose = strtol(at, &end, 10);
        const int waits = end[1] == 'w';
        if (whose == rank)
            sv_fate.left[waits ? SV_WAIT : SV_PUSH] = strtol(end + 1 + waits, NULL, 10);
    }
    sv_fate.real = job->peers;
    sv_fate.peers = *job->peers;
    sv_fate.peers.start = sv_start;
    sv_fate.peers.wait = sv_wait;
    job->peers = &sv_fate.peers;
}

#endif
