/* SPDX-License-Identifier: MIT */
/* agree.c: ranks that open a net (open.c) compare what must be equal to train together. */
#include "engine/base/hash.h"
#include "engine/job/peers.h"
#include "engine/run/parallel.h"
#include "engine/run/pipeline_stage.h"
#include "engine/run/split_ranks.h"

/* A pipeline's job is one of ranks that all train. */
static int agree_pipe(struct gyre_net *net)
{
    const struct gyre_job *const job = net->config.job;
    if (job->elastic || job->peers->served)
        return GY_FAIL(&net->error, GY_E_ARG, "pipeline: its job cannot %s",
                       job->elastic ? "outlive its ranks (elastic)" : "have servers");
    return GY_OK;
}

static uint64_t agree_hash(const void *bytes, size_t count)
{
    struct gy_sha256 sha;
    unsigned char digest[32];
    uint64_t value;
    gy_sha256_open(&sha);
    gy_sha256_add(&sha, bytes, count);
    gy_sha256_close(&sha, digest);
    memcpy(&value, digest, sizeof value);
    return value;
}

/* Where the net is cut; each stage has gradients of its own. */
static uint64_t agree_sizes(const struct gyre_net *net)
{
    const int *of = net->stage ? net->stage->plan.of : NULL;
    return of ? agree_hash(of, (size_t)net->graph.node_count * sizeof *of)
              : (uint64_t)net->plan.region_bytes[GY_AT_GRAD];
}

/* What all ranks must have in common. */
static int agree_all(struct gyre_net *net)
{
    const struct gyre_config *c = &net->config;
    const struct gyre_schedule *s = &c->schedule;
    char schedule[400];
    gy_text_print(schedule, sizeof schedule, "%d %a %" PRId64 " %a %" PRId64 " %a %a %a", s->kind,
             (double)s->rate, s->warmup, (double)s->warmup_from, s->steps, (double)s->final_rate,
             (double)s->power, (double)s->gamma);
    const struct {
        const char *what;
        uint64_t value;
    } row[] = {
        { "version of Gyre", GYRE_VERSION },
        { "net", agree_hash(c->net, strlen(c->net)) },
        { "batch", (uint64_t)c->batch },
        { "dtype", (uint64_t)c->dtype },
        { "input", (uint64_t)c->input },
        { "mean and std of the input",
          agree_hash(c->mean, sizeof c->mean) ^ agree_hash(c->std, sizeof c->std) },
        { "seed", c->seed },
        { "accumulate", (uint64_t)c->accumulate },
        { "shards", (uint64_t)c->shards },
        { "sync_bn", (uint64_t)c->sync_bn },
        { "loss_scale", agree_hash(&c->loss_scale, sizeof c->loss_scale) },
        { "bucket_bytes", (uint64_t)c->bucket_bytes },
        { "optimizer", agree_hash(&c->optimizer, sizeof c->optimizer) },
        { "schedule",
          agree_hash(schedule, strlen(schedule)) ^ agree_hash(s->milestone, sizeof s->milestone) },
        { "stages of the pipeline", (uint64_t)c->pipeline << 1 | (uint64_t)c->stage_schedule },
        { net->stage ? "layers of the stages" : "size of the gradients", agree_sizes(net) },
    };
    const size_t rows = net->pipe || net->parallel.ranks > 1 ? GY_COUNT(row) : 0;
    for (size_t i = 0; i < rows; i++)
        GY_TRY(gy_peers_agree(c->job, row[i].what, row[i].value, &net->error));
    return GY_OK;
}

GY_INT int gy_parallel_open(struct gyre_net *net)
{
    if (net->stage)
        GY_TRY(agree_pipe(net));
    if (net->split)
        GY_TRY(gy_split_agree(net));
    if (net->parallel.ranks > 1)
        net->config.job->tree = net->parallel.sharded;
    return agree_all(net);
}
