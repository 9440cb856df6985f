/* SPDX-License-Identifier: MIT */
/* collective.c: the public calls on net/ that need no network, for tools/cmd_network.c: they print
 * schedules with their proof, and simulate training on described clusters. */
#include "tools/lab/lab.h"
#include "net/schedule/algorithms.h"
#include "tools/lab/cluster.h"
#include "engine/base/file.h"
#include "engine/run/engine.h"

#define NET_API_SAMPLES_MOST 1000
#define NET_API_SCHEDULE_MOST ((size_t)256 << 20)

GYRE_API const char *gyre_collective_name(int index)
{
    size_t count;
    const struct gy_net_algorithm *rows = gy_net_algorithms(&count);
    return index >= 0 && (size_t)index < count ? rows[index].name : NULL;
}

GYRE_API const char *gyre_collective_about(int index)
{
    size_t count;
    const struct gy_net_algorithm *rows = gy_net_algorithms(&count);
    return index >= 0 && (size_t)index < count ? rows[index].about : NULL;
}

GYRE_API void gyre_collective_default(struct gyre_collective *out)
{
    if (!out)
        return;
    *out = (struct gyre_collective){ .size = sizeof *out, .algorithm = "multihalving", .ranks = 1, .lanes = 1, .rank = -2 };
}

static int net_api_goal(const char *algorithm)
{
    const struct gy_net_algorithm *row = gy_net_algorithm(algorithm);
    return row && !(row->goals & 1u << GY_NET_ALLREDUCE) ? GY_NET_BROADCAST : GY_NET_ALLREDUCE;
}

static struct gy_net_shape net_api_shape(const struct gyre_collective *c)
{
    struct gy_net_shape shape = { .ranks = c->ranks, .lanes = c->lanes };
    while (shape.dim_count < GY_NET_DIMS && c->dims[shape.dim_count] > 0) {
        shape.dims[shape.dim_count] = c->dims[shape.dim_count];
        shape.dim_count++;
    }
    return shape;
}

static int net_api_schedule(struct gy_net_schedule *s, const struct gyre_collective *c, const struct gy_alloc *alloc, struct gy_error *err)
{
    const struct gy_net_shape shape = net_api_shape(c);
    char *text;
    size_t bytes;
    if (!c->file && !c->algorithm)
        return GY_FAIL(err, GY_E_ARG, "collective: neither an algorithm nor a file");
    if (!c->file)
        return gy_net_build(s, c->algorithm, &shape, net_api_goal(c->algorithm), alloc, err);
    *s = (struct gy_net_schedule){ .failed = 1 };
    GY_TRY(gy_file_read(alloc, c->file, NET_API_SCHEDULE_MOST, &text, &bytes, err));
    const int status = gy_net_read_schedule(s, text, bytes, c->file, alloc, err);
    gy_alloc_free(alloc, text, bytes + 1);
    return status;
}

static int net_api_collective(const struct gyre_collective *c, struct gy_sink *out, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_schedule s;
    struct gy_net_proof proof;
    memset(&s, 0, sizeof s);
    int status = net_api_schedule(&s, c, &alloc, err);
    status = status == GY_OK ? gy_net_verify(&s, &proof, err) : status;
    if (status == GY_OK && c->rank >= s.ranks)
        status = GY_FAIL(err, GY_E_ARG, "there is no rank %d of %d", c->rank, s.ranks);
    if (status == GY_OK)
        gy_net_print(&s, &proof, c->rank, out);
    gy_net_close_schedule(&s);
    return status;
}

GYRE_API int gyre_print_collective(const struct gyre_collective *config, const struct gyre_sink *sink, struct gyre_error *error)
{
    struct gyre_collective c;
    struct gy_error err = { 0 };
    struct gy_sink out = gy_sink_of(sink);
    GY_TRY(gy_given(sink, "gyre_print_collective: sink", error));
    gyre_collective_default(&c);
    int status = gy_config_take(&c, sizeof c, config, sizeof c.size, "collective", &err);
    if (status == GY_OK)
        status = net_api_collective(&c, &out, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

/* ---- simulated training ---- */

GYRE_API void gyre_simulation_default(struct gyre_simulation *out)
{
    if (!out)
        return;
    *out = (struct gyre_simulation){ .size = sizeof *out, .algorithm = "multihalving", .lanes = 4, .bytes = 102e6, .bucket_bytes = 16e6,
                                     .samples = 15 };
}

struct net_api_run {
    const struct gyre_simulation *config;
    const struct gy_cluster_file *file;
    struct gy_net_cluster cluster;
    struct gy_net_schedule s;
    double *steps, *reduces; /* [samples] */
};

/* Simulates one step. Gradients come evenly during the backward part. A bucket is reduced when it
 * is there and the one before is done. Ranks begin each reduction apart. */
static int net_api_sample(struct net_api_run *run, int sample, struct gy_error *err)
{
    const struct gyre_simulation *c = run->config;
    const int buckets = (int)ceil(c->bytes / c->bucket_bytes);
    const double begin = run->cluster.compute * (1 - run->cluster.backward), backward = run->cluster.compute * run->cluster.backward;
    double end = 0, took = 0;
    GY_TRY(gy_net_simulate(&run->s, &run->cluster, c->bytes, (uint64_t)sample + 1, &run->reduces[sample], err));
    for (int b = 0; b < buckets && run->s.ranks > 1; b++) {
        const double ready = begin + backward * (b + 1) / buckets;
        GY_TRY(gy_net_simulate(&run->s, &run->cluster, c->bytes / buckets, (uint64_t)sample * 64 + (uint64_t)b + 1000, &took, err));
        end = fmax(end, ready) + took;
    }
    run->steps[sample] = fmax(end, run->cluster.compute);
    return GY_OK;
}

static int net_api_ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double net_api_quantile(double *values, int count, double q)
{
    qsort(values, (size_t)count, sizeof *values, net_api_ascending);
    return values[(int)(q * (count - 1) + 0.5)];
}

/* What was published of so many ranks, and images a second where the file says a step's. */
static void net_api_beside(const struct gy_cluster_file *file, int ranks, double step,
                           struct gy_sink *out)
{
    char text[32] = "";
    for (int i = 0; i < file->published_count; i++)
        if (file->published[i].ranks == ranks)
            snprintf(text, sizeof text, "%.1f %%", 100 * file->published[i].efficiency);
    if (file->published_count)
        gy_sink_printf(out, "  %9s", text);
    if (file->batch)
        gy_sink_printf(out, "  %9.0f", ranks * file->batch / step);
    gy_sink_printf(out, "\n");
}

static int net_api_row(struct net_api_run *run, const struct gy_alloc *alloc, struct gy_sink *out, struct gy_error *err)
{
    const int samples = run->config->samples;
    struct gy_net_shape shape = { .ranks = run->cluster.hosts * run->cluster.ranks_per_host, .lanes = run->config->lanes };
    struct gy_net_proof proof;
    gy_cluster_dims(&shape, &run->cluster);
    int status = gy_net_build(&run->s, run->config->algorithm, &shape, GY_NET_ALLREDUCE, alloc, err);
    status = status == GY_OK ? gy_net_verify(&run->s, &proof, err) : status;
    for (int k = 0; k < samples && status == GY_OK; k++)
        status = net_api_sample(run, k, err);
    gy_net_close_schedule(&run->s);
    if (status != GY_OK)
        return status;
    const double compute = run->cluster.compute, r50 = net_api_quantile(run->reduces, samples, 0.5), r95 = net_api_quantile(run->reduces, samples, 0.95);
    const double s50 = net_api_quantile(run->steps, samples, 0.5), s95 = net_api_quantile(run->steps, samples, 0.95);
    gy_sink_printf(out, "%5d  %5d  %9.3f %9.3f  %9.3f %9.3f  %8.1f %% %8.1f %%", shape.ranks,
                   run->cluster.hosts, r50 * 1e3, r95 * 1e3, s50 * 1e3, s95 * 1e3,
                   100 * compute / s50, 100 * compute / s95);
    net_api_beside(run->file, shape.ranks, s50, out);
    return GY_OK;
}

static int net_api_table(const struct gyre_simulation *c, const struct gy_cluster_file *file,
                         double *room, struct gy_sink *out, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_net_cluster *const whole = &file->net;
    gy_sink_printf(
        out,
        "simulated, not measured: %s in %d lanes, %.4g MB of gradients in buckets of %.4g MB, %d "
        "samples\n"
        "                allreduce of all, ms   step, ms             efficiency\n"
        "ranks  hosts       p50       p95        p50       p95         p50        p95%s%s\n",
        c->algorithm, c->lanes, c->bytes * 1e-6, c->bucket_bytes * 1e-6, c->samples,
        file->published_count ? "  published" : "", file->batch ? "   images/s" : "");
    for (int hosts = 1;; hosts = hosts * 2 < whole->hosts ? hosts * 2 : whole->hosts) {
        struct net_api_run run = { .config = c,
                                   .file = file,
                                   .cluster = *whole,
                                   .steps = room,
                                   .reduces = room + c->samples };
        run.cluster.hosts = hosts;
        GY_TRY(net_api_row(&run, &alloc, out, err));
        if (hosts == whole->hosts)
            break;
    }
    gy_sink_printf(out, "%s", file->notes);
    return GY_OK;
}

static int net_api_check(const struct gyre_simulation *c, struct gy_error *err)
{
    if (!c->cluster || !c->algorithm)
        return GY_FAIL(err, GY_E_ARG, "simulation: %s is NULL", c->cluster ? "algorithm" : "cluster");
    if (c->samples < 1 || c->samples > NET_API_SAMPLES_MOST)
        return GY_FAIL(err, GY_E_ARG, "%d samples; there may be 1 to %d", c->samples, NET_API_SAMPLES_MOST);
    if (!(c->bytes > 0) || !(c->bucket_bytes > 0) || c->bytes / c->bucket_bytes > 64)
        return GY_FAIL(err, GY_E_ARG, "%g bytes in buckets of %g; there may be 1 to 64 buckets", c->bytes, c->bucket_bytes);
    return GY_OK;
}

static int net_api_simulate(const struct gyre_simulation *c, struct gy_sink *out, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_cluster_file cluster;
    GY_TRY(net_api_check(c, err));
    GY_TRY(gy_cluster_read(&cluster, c->cluster, err));
    const size_t room = 2 * (size_t)c->samples;
    double *const samples = gy_alloc_take(&alloc, room, sizeof *samples);
    const int status = samples ? net_api_table(c, &cluster, samples, out, err)
                               : GY_NOMEM(err, "a simulation's samples", room * sizeof *samples);
    gy_alloc_free(&alloc, samples, room * sizeof *samples);
    return status;
}

GYRE_API int gyre_print_simulation(const struct gyre_simulation *config, const struct gyre_sink *sink, struct gyre_error *error)
{
    struct gyre_simulation c;
    struct gy_error err = { 0 };
    struct gy_sink out = gy_sink_of(sink);
    GY_TRY(gy_given(sink, "gyre_print_simulation: sink", error));
    gyre_simulation_default(&c);
    int status = gy_config_take(&c, sizeof c, config, sizeof c.size, "simulation", &err);
    if (status == GY_OK)
        status = net_api_simulate(&c, &out, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}
