/* SPDX-License-Identifier: MIT */
/* cmd_micro.c: --accumulate auto of gyre train (cmd_train.c): chooses the micro-batch of an update
 * that is larger than memory, by the code of 'gyre fit'. Batch norms see one micro-batch at a time,
 * as they see one shard: ghost batches (Hoffer et al. 2017). */
#include "engine/gyre_job.h"
#include "tools/lab/lab.h"
#include "tools/cli.h"
#include <stdlib.h>
#include <string.h>

static int micro_fit(const struct gyre_config *config, int processes, struct cli_micro *micro)
{
    struct gyre_fit_config fit;
    struct gyre_fit choice;
    struct gyre_error error;
    struct gyre_config c = *config;
    c.job = NULL;
    c.batch = c.accumulate = 1;
    gyre_fit_config_default(&fit);
    fit.bytes = micro->bytes;
    fit.processes = processes;
    fit.target_batch = micro->update;
    fit.dtypes = 1 << config->dtype;
    fit.recompute = config->recompute > 0;
    if (gyre_print_fit(&c, &fit, &choice, NULL, &error) != GYRE_OK)
        return cli_error(&error);
    micro->batch = choice.batch;
    micro->accumulate = choice.accumulate;
    micro->planned = choice.bytes;
    micro->bytes = choice.limit;
    return CLI_OK;
}

/* A run goes on with the batches that it began with: gyre_train notes how many make an update. */
static int micro_earlier(const char *checkpoint, struct cli_micro *micro)
{
    static const char word[] = "accumulate ";
    char text[256];
    if (!checkpoint || gyre_read_note(checkpoint, "train.step", text, sizeof text, NULL) != GYRE_OK)
        return 0;
    const char *at = strstr(text, word);
    const long accumulate = at ? strtol(at + strlen(word), NULL, 10) : 0;
    if (accumulate < 1 || micro->update % accumulate != 0)
        return 0;
    micro->batch = (int)(micro->update / accumulate);
    micro->accumulate = (int)accumulate;
    return 1;
}

static int micro_choose(const struct gyre_config *config, const char *checkpoint, int processes,
                        struct cli_micro *micro)
{
    if (config->dtype == GYRE_F16)
        return cli_fail(CLI_USAGE, "--accumulate auto plans f32 and bf16, not f16; give --batch "
                        "and --accumulate");
    return micro_earlier(checkpoint, micro) ? CLI_OK : micro_fit(config, processes, micro);
}

int cli_choose_micro(const struct gyre_config *config, const char *checkpoint, struct gyre_job *job,
                     struct cli_micro *micro)
{
    const int ranks = gyre_job_ranks(job), first = gyre_job_rank(job) == 0;
    struct gyre_error error;
    const int code = first ? micro_choose(config, checkpoint, ranks, micro) : CLI_OK;
    float said[2] = { first && code == CLI_OK ? (float)micro->batch : 0,
                      first && code == CLI_OK ? (float)micro->accumulate : 0 };
    if (ranks == 1)
        return code;
    if (gyre_job_sum(job, said, 2, &error) != GYRE_OK)
        return cli_error(&error);
    if (first)
        return code;
    if (said[0] < 1)
        return cli_fail(CLI_RESOURCES, "--accumulate auto: rank 0 found no batch that fits");
    micro->batch = (int)said[0];
    micro->accumulate = (int)said[1];
    return CLI_OK;
}

void cli_say_micro(const struct cli_micro *micro)
{
    char planned[32], limit[32];
    if (micro->update == 0)
        return;
    printf("update: %d images as %d batches of %d; batch norms see %d at a time; ", micro->update,
           micro->accumulate, micro->batch, micro->batch);
    if (micro->planned)
        printf("%s of %s of memory\n", cli_bytes(planned, (double)micro->planned),
               cli_bytes(limit, (double)micro->bytes));
    else
        printf("as the run has it\n");
}
