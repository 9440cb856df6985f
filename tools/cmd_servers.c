/* SPDX-License-Identifier: MIT */
/* cmd_servers.c: parameter servers: turns their options of gyre train (cmd_train.c) into a job's
 * configuration, and prints for cmd_progress.c what servers counted. Where no option gives the
 * number of servers, GYRE_SERVERS does. */
#include "engine/gyre_job.h"
#include "tools/cli.h"
#include <stdlib.h>

#define SERVERS_MOST 4095
#define SERVERS_SLICES 4 /* of each server, at least, where the parameters have so many */

const struct cli_option cli_server_rows[7] = {
    { "servers", "N", NULL, "so many of the processes, the first ones, are parameter servers; "
      "default: GYRE_SERVERS, which launch sets", CLI_WHOLE, offsetof(struct cli_servers, servers), 1,
      SERVERS_MOST },
    { "sync", "allreduce|server|async", "allreduce", "how processes train together; server: an "
      "update "
      "a step, async: one a gradient", CLI_CHOICE, offsetof(struct cli_servers, sync), 0, 0 },
    { "backup", "B", "0", "of --sync server: an update takes all but B gradients, late ones are "
      "dropped "
      "and counted", CLI_WHOLE, offsetof(struct cli_servers, backup), 0, SERVERS_MOST },
    { "staleness", "K", "-1", "of --sync async: steps that a worker may be ahead of the slowest; "
      "-1: any "
      "number", CLI_WHOLE, offsetof(struct cli_servers, staleness), -1, 1e12 },
    { "staleness-rate", NULL, NULL, "of --sync async: divide the learning rate by a gradient's "
      "staleness",
      CLI_FLAG, offsetof(struct cli_servers, stale_rate), 0, 0 },
    { "record", "FILE", NULL, "with servers: write the order in which gradients came", CLI_TEXT,
      offsetof(struct cli_servers, record), 0, 0 },
    { "replay", "FILE", NULL, "with servers: take gradients in that order, to the same bits",
      CLI_TEXT,
      offsetof(struct cli_servers, replay), 0, 0 },
};

static int servers_count(const struct cli_servers *v, int *out)
{
    const char *const text = getenv("GYRE_SERVERS");
    char *end = NULL;
    const long told = text && text[0] ? strtol(text, &end, 10) : -1;
    if (text && text[0] && (*end || told < 0 || told > SERVERS_MOST))
        return cli_fail(CLI_USAGE, "GYRE_SERVERS is \"%.40s\"; it must be a number from 0 to %d",
                        text, SERVERS_MOST);
    if (told >= 0 && v->servers > 0 && told != v->servers)
        return cli_fail(CLI_USAGE, "--servers is %" PRId64 ", but the job was started with %ld "
                        "servers", v->servers, told);
    *out = (int)(v->servers > 0 ? v->servers : told > 0 ? told : 0);
    return CLI_OK;
}

/* Options that are for one way of training alone. */
static int servers_check(const struct cli_servers *v, int servers)
{
    const int lockstep = v->sync == GYRE_SYNC_SERVER, async = v->sync == GYRE_SYNC_ASYNC;
    const struct {
        int wrong;
        const char *sentence;
    } rows[] = {
        { servers > 0 && v->sync == GYRE_SYNC_ALLREDUCE,
          "some ranks of the job are servers, but --sync is allreduce; with servers it is server "
          "or async" },
        { servers == 0 && v->sync != GYRE_SYNC_ALLREDUCE,
          "--sync server and async need servers: 'gyre launch --workers W --servers S', or "
          "--servers S" },
        { v->backup > 0 && !lockstep, "--backup is for --sync server" },
        { v->staleness >= 0 && !async, "--staleness is for --sync async" },
        { v->stale_rate && !async, "--staleness-rate is for --sync async" },
        { (v->record || v->replay) && servers == 0, "--record and --replay are for --sync server "
          "and async" },
        { v->record && v->replay, "--record writes an order, --replay follows one; take one of "
          "both" },
    };
    for (size_t i = 0; i < CLI_COUNT(rows); i++)
        if (rows[i].wrong)
            return cli_fail(CLI_USAGE, "%s", rows[i].sentence);
    return CLI_OK;
}

int cli_server_config(const struct cli_servers *v, struct gyre_job_config *out)
{
    int code = servers_count(v, &out->servers);
    if (code == CLI_OK)
        code = servers_check(v, out->servers);
    out->sync = (int)v->sync;
    out->backup = (int)v->backup;
    out->staleness = v->staleness;
    out->stale_rate = (int)v->stale_rate;
    out->record = v->record;
    out->replay = v->replay;
    return code;
}

/* Buckets are dealt to servers whole. */
void cli_server_bucket(struct gyre_config *config, int servers)
{
    struct gyre_need need;
    if (gyre_measure(config, &need, NULL) != GYRE_OK)
        return;
    const size_t most = need.gradient_bytes / (size_t)servers / SERVERS_SLICES + 1;
    if (config->bucket_bytes > most)
        config->bucket_bytes = most;
}

static void servers_json(const struct gyre_progress *p)
{
    printf("{\"event\":\"servers\",\"gradients\":%" PRId64 ",\"late\":%" PRId64 ",\"staleness\":[",
           p->taken, p->late);
    for (int i = 0; i < GYRE_STALE; i++)
        printf("%s%" PRId64, i ? "," : "", p->stale[i]);
    printf("],\"lost_workers\":%" PRId64 ",\"joined_workers\":%" PRId64 ",\"gradients_of_joined\":%" PRId64
           "}\n", p->lost, p->joined, p->again);
}

/* A row a staleness that there was, with a bar. */
static void servers_histogram(const struct gyre_progress *p)
{
    static const char bar[] = "########################################";
    for (int i = 0; i < GYRE_STALE; i++) {
        const double part = p->taken > 0 ? (double)p->stale[i] / (double)p->taken : 0;
        if (p->stale[i] > 0)
            printf("  %3d%s %10" PRId64 "  %5.1f %%  %.*s\n", i, i + 1 == GYRE_STALE ? "+" : " ",
                   p->stale[i], 100 * part, (int)(part * (double)(sizeof bar - 1) + 0.5), bar);
    }
}

void cli_server_report(const struct gyre_progress *p, int json)
{
    cli_progress_skip_line();
    if (json)
        servers_json(p);
    else {
        printf("gradients of slices: %" PRId64 " taken, %" PRId64
               " came too late and were dropped\n", p->taken, p->late);
        if (p->lost > 0)
            printf("workers that were lost: %" PRId64 "; the others went on\n", p->lost);
        if (p->joined > 0)
            printf("workers that joined: %" PRId64 "; gradients of slices that they gave: %" PRId64 "\n",
                   p->joined, p->again);
        if (p->stale[0] < p->taken) {
            puts("staleness, in updates that others made meanwhile:");
            servers_histogram(p);
        }
    }
    fflush(stdout);
}
