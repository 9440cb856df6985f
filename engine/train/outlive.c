/* SPDX-License-Identifier: MIT */
/* outlive.c: carries parameters, optimiser and average over a new open of the net. Their regions
 * have the same layout whatever the ranks and shards, and nothing else outlives a step. An update
 * is made when all sums of its step are complete, so ranks differ by one update at most. */
#include "engine/train/outlive.h"
#include "engine/job/peers.h"

static const int outlive_regions[] = { GY_AT_PARAM, GY_AT_OPT1, GY_AT_OPT2, GY_AT_EMA,
                                       GY_AT_STATE };

/* ---- keeping ---- */

static void outlive_list(struct gyre_config *c, const char **texts[7])
{
    const char **const list[7] = { &c->net, &c->net_name, &c->device, &c->isa, &c->tune,
                                   &c->kernel_cache, &c->kernel_pack };
    memcpy(texts, list, sizeof list);
}

static int outlive_keep_texts(struct gy_outlive *kept, struct gyre_net *net)
{
    const char **texts[7];
    outlive_list(&net->config, texts);
    for (size_t i = 0; i < GY_COUNT(texts); i++) {
        const size_t bytes = *texts[i] ? strlen(*texts[i]) + 1 : 0;
        kept->text[i] = bytes ? gy_alloc_take(&net->scratch, bytes, 1) : NULL;
        if (bytes && !kept->text[i])
            return gy_engine_fail(net, GY_E_NOMEM, "out of memory: %zu bytes of the net's text",
                                  bytes);
        if (bytes)
            memcpy(kept->text[i], *texts[i], bytes);
    }
    return GY_OK;
}

GY_INT int gy_outlive_keep(struct gy_outlive *kept, struct gyre_net *net, int torn)
{
    size_t at = 0;
    *kept = (struct gy_outlive){ .updates = net->updates };
    for (size_t i = 0; i < GY_COUNT(outlive_regions); i++)
        kept->room += net->plan.region_bytes[outlive_regions[i]];
    kept->bytes = gy_alloc_take(&net->scratch, kept->room + 1, 1);
    if (!kept->bytes)
        return gy_engine_fail(net, GY_E_NOMEM, "out of memory: %zu bytes of weights to keep",
                              kept->room);
    for (size_t i = 0; i < GY_COUNT(outlive_regions); i++) {
        const int region = outlive_regions[i];
        const size_t bytes = net->plan.region_bytes[region];
        memcpy((unsigned char *)kept->bytes + at,
               net->base[region == GY_AT_STATE && torn ? GY_AT_KEEP : region], bytes);
        at += bytes;
    }
    return outlive_keep_texts(kept, net);
}

GY_INT void gy_outlive_drop(struct gy_outlive *kept, struct gyre_net *net)
{
    const char **texts[7];
    outlive_list(&net->config, texts);
    gy_alloc_free(&net->scratch, kept->bytes, kept->room + 1);
    for (size_t i = 0; i < GY_COUNT(texts); i++) {
        const size_t bytes = kept->text[i] ? strlen(kept->text[i]) + 1 : 0;
        if (bytes && *texts[i] == kept->text[i]) /* of a net that was not opened */
            *texts[i] = "";
        gy_alloc_free(&net->scratch, kept->text[i], bytes);
    }
    *kept = (struct gy_outlive){ .bytes = NULL };
}

static int outlive_put(struct gyre_net *net, const struct gy_outlive *kept)
{
    size_t at = 0;
    for (size_t i = 0; i < GY_COUNT(outlive_regions); i++) {
        const size_t bytes = net->plan.region_bytes[outlive_regions[i]];
        if (bytes > kept->room - at)
            return gy_engine_fail(net, GY_E_BUG, "a net that was opened anew has other regions");
        memcpy(net->base[outlive_regions[i]], (unsigned char *)kept->bytes + at, bytes);
        at += bytes;
    }
    net->micro = net->updates = kept->updates;
    return GY_OK;
}

/* ---- opening anew ---- */

/* Only what was configured and noted is left. In a block, the handle is the first piece again. */
static int outlive_blank(struct gyre_net *net)
{
    struct gyre_net *const old = gy_alloc_take(&net->scratch, 1, sizeof *old);
    if (!old)
        return gy_engine_fail(net, GY_E_NOMEM, "out of memory: the net's handle");
    gy_engine_empty(net);
    *old = *net;
    if (old->config.memory.block) {
        (void)gy_config_seal(&old->config.memory, &old->alloc, &old->error);
        (void)gy_alloc_take(&old->alloc, 1, sizeof *net);
    }
    memset(net, 0, sizeof *net);
    net->config = old->config;
    net->alloc = old->alloc;
    net->scratch = old->scratch;
    net->log = old->log;
    net->error = old->error;
    memcpy(net->notes, old->notes, sizeof net->notes);
    memcpy(net->note_text, old->note_text, sizeof net->note_text);
    net->note_count = old->note_count;
    net->note_bytes = old->note_bytes;
    gy_alloc_free(&net->scratch, old, sizeof *old);
    return GY_OK;
}

GY_INT int gy_outlive_again(struct gyre_net *net, const struct gy_outlive *kept)
{
    struct gyre_job *const job = net->config.job;
    const char **texts[7];
    GY_TRY(outlive_blank(net));
    outlive_list(&net->config, texts);
    for (size_t i = 0; i < GY_COUNT(texts); i++)
        *texts[i] = kept->text[i];
    GY_TRY(job->peers->reform(job, &net->error));
    GY_TRY(gy_engine_compile(net));
    GY_TRY(gy_engine_fill(net));
    return outlive_put(net, kept);
}

/* ---- who has most ---- */

GY_INT int gy_outlive_share(struct gyre_net *net, void *state, size_t bytes)
{
    struct gyre_job *const job = net->config.job;
    int64_t own = job->joined ? -1 : net->updates, all[GY_JOB_BLOCKS], counters[2];
    int from = 0, behind = 0;
    if (job->ranks == 1)
        return GY_OK;
    GY_TRY(job->peers->share(job, &own, sizeof own, all, &net->error));
    for (int r = 1; r < job->ranks; r++) {
        behind |= all[r] != all[0];
        from = all[r] > all[from] ? r : from;
    }
    if (!behind)
        return GY_OK;
    counters[0] = net->micro;
    counters[1] = net->updates;
    GY_TRY(job->peers->cast(job, from, counters, sizeof counters, &net->error));
    GY_TRY(job->peers->cast(job, from, state, bytes, &net->error));
    for (size_t i = 0; i < GY_COUNT(outlive_regions); i++)
        GY_TRY(job->peers->cast(job, from, net->base[outlive_regions[i]],
                                net->plan.region_bytes[outlive_regions[i]], &net->error));
    net->micro = counters[0];
    net->updates = counters[1];
    job->joined = 0;
    return GY_OK;
}
