/* SPDX-License-Identifier: MIT */
/* fit_ranks.c: finds the batch, accumulation and wire type that are fastest on many ranks, for
 * tools/cmd_fit.c. The time of one rank alone is expected as in fit.c; its sums over all ranks are
 * simulated on a described cluster. Gradients are complete at even intervals during the backward
 * part of an update's last batch, a bucket at a time. Sums still open when computing ends are
 * waited for. Never a measurement. */
#include "engine/base/base.h"
#include "engine/base/public.h"
#include "engine/base/text.h"
#include "engine/job/job.h"
#include "net/schedule/algorithms.h"
#include "tools/lab/cluster.h"
#include "tools/lab/fit.h"

#define FIT_RANKS_MOST 256 /* candidates */
#define FIT_RANKS_SAMPLES 5
#define FIT_RANKS_BUCKETS 64

enum { FIT_WIRES = 2 }; /* enum gyre_wire */

struct fit_ranks_run {
    struct gyre_fit_ranks ranks;
    struct gy_cluster_file cluster;
    struct gyre_fit candidate[FIT_RANKS_MOST];
    double seconds[FIT_RANKS_MOST][FIT_WIRES]; /* of an update of all ranks */
    int count, buckets;
    double bytes;           /* of gradients, in float */
    double took[FIT_WIRES]; /* a bucket's sum */
};

GYRE_API void gyre_fit_ranks_default(struct gyre_fit_ranks *ranks)
{
    if (ranks)
        *ranks = (struct gyre_fit_ranks){
            .size = sizeof *ranks, .ranks = 1, .lanes = 4, .bucket_bytes = 16e6
        };
}

static void fit_ranks_take(void *user, const struct gyre_fit *candidate)
{
    struct fit_ranks_run *run = user;
    if (run->count < FIT_RANKS_MOST)
        run->candidate[run->count++] = *candidate;
}

/* So many ranks of the cluster's hosts. */
static int fit_ranks_hosts(struct fit_ranks_run *run, struct gy_error *err)
{
    struct gy_net_cluster *c = &run->cluster.net;
    const int ranks = run->ranks.ranks,
              each = c->ranks_per_host < ranks ? c->ranks_per_host : ranks;
    if (ranks < 1 || ranks % each != 0 || ranks / each > c->hosts)
        return GY_FAIL(err, GY_E_ARG, "%d ranks are not some of the %d hosts with %d ranks each of "
                       "%s", ranks, c->hosts, c->ranks_per_host, run->ranks.cluster);
    c->ranks_per_host = each;
    c->hosts = ranks / each;
    return GY_OK;
}

/* The mean time of a bucket's sum, float and bf16. */
static int fit_ranks_sums(struct fit_ranks_run *run, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_shape shape = { .ranks = run->ranks.ranks, .lanes = run->ranks.lanes };
    struct gy_net_schedule s;
    struct gy_net_proof proof;
    gy_cluster_dims(&shape, &run->cluster.net);
    run->buckets =
        (int)fmin(fmax(ceil(run->bytes / run->ranks.bucket_bytes), 1), FIT_RANKS_BUCKETS);
    int status = gy_net_build(&s, "multihalving", &shape, GY_NET_ALLREDUCE, &alloc, err);
    status = status == GY_OK ? gy_net_verify(&s, &proof, err) : status;
    for (int k = 0; k < FIT_WIRES * FIT_RANKS_SAMPLES && status == GY_OK; k++) {
        const int wire = k % FIT_WIRES;
        double took = 0;
        status = gy_net_simulate(&s, &run->cluster.net, run->bytes / run->buckets / (wire + 1),
                                 (uint64_t)k + 1, &took, err);
        run->took[wire] += took / FIT_RANKS_SAMPLES;
    }
    gy_net_close_schedule(&s);
    return status;
}

static double fit_ranks_alone(const struct gyre_fit *c)
{
    return c->batch * c->accumulate / c->images_per_second;
}

static double fit_ranks_update(const struct fit_ranks_run *run, const struct gyre_fit *c, int wire)
{
    const double alone = fit_ranks_alone(c),
                 backward = run->cluster.net.backward * c->batch / c->images_per_second;
    double end = 0;
    for (int b = 0; b < run->buckets && run->ranks.ranks > 1; b++)
        end = fmax(end, alone - backward + backward * (b + 1) / run->buckets) + run->took[wire];
    return fmax(end, alone);
}

static double fit_ranks_images(const struct fit_ranks_run *run, int i, int wire)
{
    return (double)run->ranks.ranks * run->candidate[i].batch * run->candidate[i].accumulate /
           run->seconds[i][wire];
}

/* Chooses among those that are as good as the fastest: first float gradients, then the largest
 * batch. Returns the wire, *chosen: the candidate. */
static int fit_ranks_choose(const struct fit_ranks_run *run, int *chosen)
{
    double best = 0;
    for (int i = 0; i < run->count; i++)
        best = fmax(best, fmax(fit_ranks_images(run, i, 0), fit_ranks_images(run, i, 1)));
    for (int wire = 0; wire < FIT_WIRES; wire++)
        for (*chosen = run->count - 1; *chosen >= 0; --*chosen)
            if (fit_ranks_images(run, *chosen, wire) >= best * (1 - GY_FIT_SLACK))
                return wire;
    return 0;
}

/* ---- the page ---- */

static const char *fit_ranks_way(const struct gyre_fit *c)
{
    static const char *const ways[] = { "f32", "f32, recomputed", "bf16", "bf16, recomputed" };
    return ways[2 * (c->dtype == GYRE_BF16) + (c->recompute > 0)];
}

static void fit_ranks_print(const struct fit_ranks_run *run, const char *net, struct gy_sink *sink)
{
    static const char *const wires[FIT_WIRES] = { "f32", "bf16" };
    int chosen;
    const int wire = fit_ranks_choose(run, &chosen);
    const struct gyre_fit *c = &run->candidate[chosen];
    gy_sink_printf(sink, "net %s on %d ranks, %d hosts of %s: %.4g MB of gradients in "
                   "%d buckets\nsums are simulated, speeds expected from this machine; "
                   "neither is measured\n\n", net, run->ranks.ranks, run->cluster.net.hosts,
                   run->ranks.cluster, run->bytes * 1e-6, run->buckets);
    gy_sink_printf(
        sink, "%6s %6s %8s %-17s | wire f32: images/s     eff. | wire bf16: images/s     eff.\n",
        "batch", "accum.", "update", "");
    for (int i = 0; i < run->count; i++) {
        const struct gyre_fit *k = &run->candidate[i];
        const double alone = fit_ranks_alone(k);
        gy_sink_printf(sink, "%6d %6d %8d %-17s | %18.0f %6.1f %% | %19.0f %6.1f %%\n", k->batch,
                       k->accumulate, k->batch * k->accumulate * run->ranks.ranks, fit_ranks_way(k),
                       fit_ranks_images(run, i, 0), 100 * alone / run->seconds[i][0],
                       fit_ranks_images(run, i, 1), 100 * alone / run->seconds[i][1]);
    }
    gy_sink_printf(sink, "\nchoice: batch %d, %d an update, %s, wire %s: %.0f "
                   "images/s expected, %.1f %% efficient\n%s", c->batch, c->accumulate,
                   fit_ranks_way(c), wires[wire], fit_ranks_images(run, chosen, wire),
                   100 * fit_ranks_alone(c) / run->seconds[chosen][wire], run->cluster.notes);
}

static void fit_ranks_json(const struct fit_ranks_run *run, struct gy_sink *sink)
{
    int chosen;
    const int wire = fit_ranks_choose(run, &chosen);
    const struct gyre_fit *c = &run->candidate[chosen];
    gy_sink_printf(sink,
                   "{\"ranks\":%d,\"hosts\":%d,\"simulated\":true,\"gradient_bytes\":%.0f,"
                   "\"batch\":%d,\"accumulate\":%d,"
                   "\"recompute\":%s,\"dtype\":\"%s\",\"wire\":\"%s\",\"images_per_second\":%.4f,"
                   "\"efficiency\":%.6f}\n",
                   run->ranks.ranks, run->cluster.net.hosts, run->bytes, c->batch, c->accumulate,
                   c->recompute > 0 ? "true" : "false", c->dtype == GYRE_BF16 ? "bf16" : "f32",
                   wire ? "bf16" : "f32", fit_ranks_images(run, chosen, wire),
                   fit_ranks_alone(c) / run->seconds[chosen][wire]);
}

/* ---- the call ---- */

static int fit_ranks_take_config(struct fit_ranks_run *run, struct gyre_fit_config *fit,
                                 const struct gyre_fit_ranks *ranks, struct gy_error *err)
{
    GY_TRY(gy_config_take(&run->ranks, sizeof run->ranks, ranks, sizeof ranks->size, "fit ranks",
                          err));
    if (!run->ranks.cluster)
        return GY_FAIL(err, GY_E_ARG, "fit ranks: cluster is NULL");
    if (run->ranks.lanes < 1 || !(run->ranks.bucket_bytes > 0))
        return GY_FAIL(err, GY_E_ARG, "fit ranks: %d lanes, buckets of %g bytes; there must be "
                       "some", run->ranks.lanes, run->ranks.bucket_bytes);
    GY_TRY(gy_cluster_read(&run->cluster, run->ranks.cluster, err));
    GY_TRY(fit_ranks_hosts(run, err));
    if (fit->target_batch % run->ranks.ranks != 0)
        return GY_FAIL(err, GY_E_ARG, "an update of %d images is no whole number for each of %d "
                       "ranks", fit->target_batch, run->ranks.ranks);
    fit->target_batch /= run->ranks.ranks;
    return GY_OK;
}

static int fit_ranks_go(struct fit_ranks_run *run, const struct gyre_config *config,
                        const struct gyre_fit_config *given, const struct gyre_fit_ranks *ranks,
                        struct gy_error *err)
{
    struct gyre_fit_config fit = *given;
    struct gyre_need need;
    struct gyre_error error;
    GY_TRY(fit_ranks_take_config(run, &fit, ranks, err));
    GY_TRY(gy_fit_each(config, &fit, fit_ranks_take, run, err));
    if (gyre_measure(config, &need, &error) != GYRE_OK)
        return GY_FAIL(err, error.status, "%s", error.text);
    run->bytes = 4 * (double)need.parameters;
    GY_TRY(fit_ranks_sums(run, err));
    for (int i = 0; i < run->count; i++)
        for (int wire = 0; wire < FIT_WIRES; wire++)
            run->seconds[i][wire] = fit_ranks_update(run, &run->candidate[i], wire);
    return GY_OK;
}

GYRE_API int gyre_print_fit_ranks(const struct gyre_config *config,
                                  const struct gyre_fit_config *fit,
                                  const struct gyre_fit_ranks *ranks, struct gyre_fit *choice,
                                  int *half_wire, const struct gyre_sink *out,
                                  struct gyre_error *error)
{
    GY_TRY(gy_given(config, "gyre_print_fit_ranks: config", error));
    GY_TRY(gy_given(fit, "gyre_print_fit_ranks: fit", error));
    GY_TRY(gy_given(ranks, "gyre_print_fit_ranks: ranks", error));
    GY_TRY(gy_given(out, "gyre_print_fit_ranks: sink", error));
    struct gy_error err = { 0 };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_sink sink = gy_sink_of(out);
    struct fit_ranks_run *run = gy_alloc_take(&alloc, 1, sizeof *run);
    int status = run ? fit_ranks_go(run, config, fit, ranks, &err)
                     : GY_NOMEM(&err, "a table of candidates", sizeof *run);
    if (status == GY_OK && fit->json)
        fit_ranks_json(run, &sink);
    else if (status == GY_OK)
        fit_ranks_print(run, config->net_name ? config->net_name : "net", &sink);
    if (status == GY_OK && sink.failed)
        status = GY_FAIL(&err, GY_E_IO, "the table could not be written");
    int chosen;
    const int wire = status == GY_OK && fit_ranks_choose(run, &chosen);
    if (status == GY_OK && choice)
        *choice = run->candidate[chosen];
    if (status == GY_OK && half_wire)
        *half_wire = wire;
    gy_alloc_free(&alloc, run, sizeof *run);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
