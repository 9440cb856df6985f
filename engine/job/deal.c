/* SPDX-License-Identifier: MIT */
/* deal.c: deals shards so that sums over the ranks follow the balanced tree over all shards, ((0 +
 * 1) + (2 + 3)) + ... Each rank has a whole branch of that tree. Where the number of ranks divides
 * that of shards, all have as many. Otherwise the largest branch is halved until there are as many
 * branches as ranks: 4 shards on 3 ranks are {0, 1}, {2}, {3}.
 *
 * Between hosts sums follow that tree by halving or doubling: a power of two of hosts with as many
 * ranks each, dealt in order. In a job that survives lost ranks they follow it by the algorithm
 * "blocks", whatever the hosts. */
#include "engine/base/knob.h"
#include "engine/job/deal.h"
#include "net/comm/host_memory.h"

static int deal_is_power(int n) { return n > 0 && (n & (n - 1)) == 0; }

/* 1: this value of GYRE_ALLREDUCE, with or without "flat/", sums in the order of the tree. */
static int deal_is_tree(const char *algorithm)
{
    const char *const name = strncmp(algorithm, "flat/", 5) == 0 ? algorithm + 5 : algorithm;
    return name[0] == 0 || strncmp(name, "doubling", 8) == 0 || strncmp(name, "halving", 7) == 0 ||
           strncmp(name, "multihalving", 12) == 0;
}

/* GY_E_ARG: sums between these hosts cannot follow the tree. */
static int deal_check_hosts(const struct gyre_job *job, struct gy_error *err)
{
    const char *const algorithm = gy_knob_get("GYRE_ALLREDUCE");
    const int even = job->ranks % job->hosts == 0 && job->locals == job->ranks / job->hosts &&
                     job->rank % job->locals == job->local;
    if (job->half)
        return GY_FAIL(err, GY_E_ARG, "shards with a wire of bf16: gradients would be rounded as "
                       "often as there are hosts");
    if (job->blocks)
        return GY_OK;
    if (!even || !deal_is_power(job->ranks))
        return GY_FAIL(err, GY_E_ARG, "shards on %d ranks of %d hosts: the same sums on any number "
                       "of ranks need 1, 2, 4, 8 ... hosts with as many ranks each, numbered host "
                       "by host", job->ranks, job->hosts);
    if (algorithm && !deal_is_tree(algorithm))
        return GY_FAIL(err, GY_E_ARG, "shards with GYRE_ALLREDUCE=%.40s: only doubling, halving "
                       "and multihalving sum as the shards' tree", algorithm);
    return GY_OK;
}

static int deal_check(const struct gyre_job *job, int shards, struct gy_error *err)
{
    const int ranks = job->ranks, each = shards / ranks;
    const int free = job->hosts == 1 || job->blocks;
    const int halved = free && deal_is_power(shards) && shards >= ranks;
    if (shards % ranks != 0 && !halved)
        return GY_FAIL(err, GY_E_ARG, "%d shards cannot be dealt to %d ranks: each must have as "
                       "many, or the shards be 2, 4, 8 ... on one host", shards, ranks);
    if (shards % ranks == 0 && !deal_is_power(each))
        return GY_FAIL(err, GY_E_ARG, "%d shards on %d ranks are %d each; only 1, 2, 4, 8 ... give "
                       "the same sums on any number of ranks", shards, ranks, each);
    return job->hosts > 1 ? deal_check_hosts(job, err) : GY_OK;
}

GY_INT void gy_job_blocks(int shards, int ranks, int *first)
{
    const int even = shards % ranks == 0;
    int large = shards, blocks = 1;
    while (blocks * 2 <= ranks && !even) {
        blocks *= 2;
        large /= 2;
    }
    first[0] = 0;
    for (int r = 0; r < ranks; r++)
        first[r + 1] = first[r] + (even ? shards / ranks : large >> (r >= 2 * blocks - ranks));
}

GY_INT int gy_job_deal(struct gyre_job *job, int shards, int *first, int *count,
                       struct gy_error *err)
{
    int *const all = job->first;
    GY_TRY(deal_check(job, shards, err));
    job->uneven = shards % job->ranks != 0;
    *count = shards / job->ranks;
    *first = job->rank * *count;
    if (!job->uneven)
        return GY_OK;
    gy_job_blocks(shards, job->ranks, all);
    if (job->node)
        gy_net_host_deal(job->node, all);
    *count = all[job->rank + 1] - all[job->rank];
    *first = all[job->rank];
    return GY_OK;
}
