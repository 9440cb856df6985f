/* SPDX-License-Identifier: MIT */
/* same_weights.c: ranks compare sums of their weights' bytes before a checkpoint. A rank whose
 * memory or processor errs is found before it spoils the weights of the others. */
#include "engine/train/same_weights.h"
#include "engine/base/hash.h"
#include "engine/job/peers.h"

/* Slices of a split layer are no other rank's. */
static int same_is_whole(const struct gyre_net *net, int param)
{
    const int32_t last = net->graph.params[param].k - 1;
    return !net->pipe || !net->pipe->place ||
           (net->pipe->place(net, param, 0) >= 0 && net->pipe->place(net, param, last) >= 0);
}

/* Two sums of other polynomials: 64 bits. */
static int same_hash(struct gyre_net *net, uint64_t *hash)
{
    uint32_t low = 0, high = 0;
    for (int i = 0; i < net->graph.param_count; i++) {
        const struct gy_param *p = &net->graph.params[i];
        const size_t bytes = (size_t)gy_param_row_count(p) * sizeof(float);
        const int has = gy_region_has(net, GY_AT_PARAM, i) && same_is_whole(net, i);
        for (int32_t k = 0; has && k < p->k; k++) {
            GY_TRY(gy_param_read_row(net, i, GY_AT_PARAM, k, net->row2));
            low = gy_crc32c(low, net->row2, bytes);
            high = gy_crc32(high, net->row2, bytes);
        }
    }
    *hash = (uint64_t)high << 32 | low;
    return GY_OK;
}

/* Kernels of one set round alike, those of others need not; and stages have other weights. */
static uint64_t same_kind(const struct gyre_net *net)
{
    const char *const set = net->caps.set ? net->caps.set : "", *const versions =
                                                                    net->caps.versions
                                                                        ? net->caps.versions
                                                                        : "";
    const uint32_t word = gy_crc32c(gy_crc32c(0, set, strlen(set)), versions, strlen(versions));
    const uint64_t stage =
        net->stage ? (uint64_t)(gyre_job_rank(net->config.job) % net->config.pipeline) + 1 : 0;
    return stage << 32 | word;
}

GY_INT int gy_same_weights(struct gyre_net *net, int64_t step)
{
    uint64_t hash;
    char what[120];
    if (net->parallel.ranks == 1 && !net->pipe)
        return GY_OK;
    GY_TRY(gy_scale_settle(net));
    GY_TRY(same_hash(net, &hash));
    snprintf(what, sizeof what,
             "the weights after step %" PRId64 ", of which no checkpoint is written", step);
    const int status =
        gy_peers_agree_alike(net->config.job, what, same_kind(net), hash, &net->error);
    if (status == GY_E_MISMATCH)
        net->error.status = GY_E_PEER;
    return status == GY_E_MISMATCH ? GY_E_PEER : status;
}
