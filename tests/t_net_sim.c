/* SPDX-License-Identifier: MIT */
/* t_net_sim.c: the simulator against times that can be calculated: rings and halving without
 * contention, flows that share a link, latency. Also the cluster format with its mistakes. */
#include "net/schedule/algorithms.h"
#include "tools/lab/cluster.h"
#include "tests/t.h"

static double sim_time(const char *algorithm, const struct gy_net_cluster *c, const struct gy_net_shape *shape, double bytes, uint64_t seed)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_schedule s;
    struct gy_error err = {0};
    double seconds = -1;
    int status = gy_net_build(&s, algorithm, shape, GY_NET_ALLREDUCE, &alloc, &err);
    status = status == GY_OK ? gy_net_simulate(&s, c, bytes, seed, &seconds, &err) : status;
    T_CHECK_MSG(status == GY_OK, "%s: %s", algorithm, err.text);
    gy_net_close_schedule(&s);
    return seconds;
}

static int sim_near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

static void sim_formulas(void)
{
    const struct gy_net_cluster c = { .hosts = 8, .ranks_per_host = 1, .inside_rate = 1e12, .nic_rate = 1e9, .nic_latency = 1e-5 };
    const struct gy_net_shape shape = { .ranks = 8, .lanes = 1 };
    const double n = 8e6, ring = 2 * 7 * (1e-5 + n / 8 / 1e9), halving = 2 * (3 * 1e-5 + 7.0 / 8 * n / 1e9);
    T_CHECK(sim_near(sim_time("ring", &c, &shape, n, 1), ring));
    T_CHECK(sim_near(sim_time("halving", &c, &shape, n, 1), halving));
    T_CHECK(sim_near(sim_time("doubling", &c, &shape, n, 1), 3 * (1e-5 + n / 1e9)));
    /* all to all: seven flows out of and into every host at once */
    T_CHECK(sim_near(sim_time("direct", &c, &shape, n, 1), 2 * (1e-5 + 7 * n / 8 / 1e9)));
}

static void sim_sharing(void)
{
    struct gy_net_cluster c = { .hosts = 2, .ranks_per_host = 4, .inside_rate = 1e12, .nic_rate = 1e9 };
    const struct gy_net_shape shape = { .ranks = 8, .lanes = 1, .dim_count = 2, .dims = {4, 2} };
    const double n = 8e6;
    /* Between the hosts each of four ranks exchanges an eighth, then gets it back. So the NIC
     * carries a half each way, twice. */
    const double seconds = sim_time("multihalving", &c, &shape, n, 1);
    T_CHECK_MSG(seconds > 2 * n / 2 / 1e9 && seconds < 1.02 * 2 * n / 2 / 1e9, "%g", seconds);
    c.hosts_per_rack = 1;
    c.rack_rate = 0.25e9;
    T_CHECK(sim_time("multihalving", &c, &shape, n, 1) > 3.9 * seconds);
    c.add_rate = 1e9;
    T_CHECK(sim_time("multihalving", &c, &shape, n, 1) > 3.9 * seconds + 6e-3);
}

/* Two ranks exchange halves in four lanes that arrive together. A rank adds them one after
 * another. */
static void sim_adds(void)
{
    const struct gy_net_cluster c = { .hosts = 2, .ranks_per_host = 1, .inside_rate = 1e15, .nic_rate = 1e9, .add_rate = 1e8 };
    const double n = 8e6, wire = n / 1e9, add = n / 2 / 1e8;
    const double one = sim_time("halving", &c, &(struct gy_net_shape){ .ranks = 2, .lanes = 1 }, n, 1);
    const double four = sim_time("halving", &c, &(struct gy_net_shape){ .ranks = 2, .lanes = 4 }, n, 1);
    T_CHECK_MSG(sim_near(one, wire + add), "%g %g", one, wire + add);
    /* the first three lanes' way back lies within the adding of the next ones */
    T_CHECK_MSG(sim_near(four, wire / 2 + add + wire / 8), "%g %g", four, wire / 2 + add + wire / 8);
    /* a message sent and one received each round, and their work at the end of it */
    const struct gy_net_cluster d = { .hosts = 2, .ranks_per_host = 1, .inside_rate = 1e15, .nic_rate = 1e9, .nic_latency = 1e-4, .overhead = 1e-5 };
    const double works = sim_time("halving", &d, &(struct gy_net_shape){ .ranks = 2, .lanes = 1 }, n, 1);
    T_CHECK_MSG(sim_near(works, wire + 2 * (1e-4 + 2e-5)), "%g", works);
}

/* A link rests for the latency before each of a sum's messages. What it could have carried in that
 * time, up to the burst, it then carries at its peak rate. */
static double sim_bucket_round(const struct gy_net_cluster *c, double bytes)
{
    const double tokens = fmin(c->burst, c->nic_latency * c->nic_rate), quick = tokens / (c->peak - c->nic_rate);
    return c->nic_latency + quick + (bytes - c->peak * quick) / c->nic_rate;
}

static void sim_buckets(void)
{
    struct gy_net_cluster c = { .hosts = 8, .ranks_per_host = 1, .inside_rate = 1e12, .nic_rate = 1e8, .nic_latency = 1e-3, .burst = 2e5,
                               .peak = 1e9 };
    const struct gy_net_shape shape = { .ranks = 8, .lanes = 1 };
    const double n = 8e6;
    T_CHECK(sim_near(sim_time("ring", &c, &shape, n, 1), 2 * 7 * sim_bucket_round(&c, n / 8)));
    T_CHECK(sim_near(sim_time("doubling", &c, &shape, n, 1), 3 * sim_bucket_round(&c, n)));
    c.burst = 2e4; /* less than what the latency is worth */
    T_CHECK(sim_near(sim_time("ring", &c, &shape, n, 1), 2 * 7 * sim_bucket_round(&c, n / 8)));
    T_CHECK(sim_near(sim_time("direct", &c, &shape, n, 1), 2 * sim_bucket_round(&c, 7 * n / 8)));
    c.burst = 1e9; /* whatever it rested comes back: as if there were no latency */
    c.peak = 1e12;
    const double free = sim_time("ring", &c, &shape, n, 1), wire = 2 * 7 * n / 8 / 1e8;
    T_CHECK_MSG(free > 0.999 * wire && free < 1.001 * wire, "%g %g", free, wire);
    /* rates that others' flows leave over: the bucket of a host's way in, shared by all */
    c.burst = 5e5;
    c.peak = 1e9;
    const double shared = sim_time("hosts", &(struct gy_net_cluster){ .hosts = 4, .ranks_per_host = 2, .inside_rate = 1e12, .nic_rate = 1e8,
                                   .nic_latency = 1e-3, .burst = 5e5, .peak = 1e9 }, &(struct gy_net_shape){ .ranks = 8, .lanes = 3, .dim_count = 2,
                                   .dims = {2, 4} }, n, 1), least = 2 * 3 * n / 4 / 1e8;
    T_CHECK_MSG(shared >= 0.999 * least && shared < 1.05 * least, "%g %g", shared, least);
}

static void sim_noise(void)
{
    const struct gy_net_cluster c = { .hosts = 8, .ranks_per_host = 1, .inside_rate = 1e12, .nic_rate = 1e9, .noise = 0.2, .skew = 1e-3 };
    const struct gy_net_shape shape = { .ranks = 8, .lanes = 2 };
    const double a = sim_time("ring", &c, &shape, 1e6, 1), b = sim_time("ring", &c, &shape, 1e6, 2);
    T_CHECK(a == sim_time("ring", &c, &shape, 1e6, 1) && a != b);
}

static int sim_parse(const char *text, struct gy_net_cluster *c, struct gy_error *err)
{
    struct gy_cluster_file file = { .batch = 0 };
    const int status = gy_cluster_parse(&file, text, strlen(text), "x.cluster", err);
    *c = file.net;
    return status;
}

/* Writes name in the folder; the whole path. */
static const char *sim_write(const char *folder, const char *name, const char *text, char path[300])
{
    snprintf(path, 300, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!T_CHECK(file != NULL))
        return path;
    fputs(text, file);
    fclose(file);
    return path;
}

/* A file's own lines count, then those that it includes, in their order; a loop is refused, however
 * long. */
static void sim_includes(void)
{
    char folder[] = "/tmp/gyre_t_net_sim_XXXXXX", a[300], b[300], c[300];
    struct gy_cluster_file file;
    struct gy_error err = { 0 };
    if (!T_CHECK(mkdtemp(folder) != NULL))
        return;
    sim_write(folder, "a.cluster", "include b.cluster\nhosts 3\npublished 3 0.5\nnote of three\n",
              a);
    sim_write(folder, "b.cluster", "hosts 2\ninside 1G 1us\nnic 1G 1us\ncompute 1ms\nbatch 7\nnote "
              "of two # as it is\n", b);
    T_CHECK_MSG(gy_cluster_read(&file, a, &err) == GY_OK, "%s", err.text);
    T_CHECK(file.net.hosts == 3 && file.batch == 7 && file.published_count == 1 &&
            file.published[0].ranks == 3 &&
            strcmp(file.notes, "of two # as it is\nof three\n") == 0);
    sim_write(folder, "b.cluster", "hosts 2\n  include c.cluster\n", b);
    sim_write(folder, "c.cluster", "include a.cluster\n", c);
    T_CHECK(gy_cluster_read(&file, a, &err) == GY_E_FORMAT &&
            strstr(err.text, "c.cluster:1:9: the file includes itself in a loop of 3"));
    sim_write(folder, "c.cluster", "include c.cluster\n", c);
    T_CHECK(gy_cluster_read(&file, c, &err) == GY_E_FORMAT &&
            strstr(err.text, "c.cluster:1:9: the file includes itself in a loop of 1"));
    sim_write(folder, "c.cluster", "include ./c.cluster\n", c);
    T_CHECK(gy_cluster_read(&file, c, &err) == GY_E_FORMAT &&
            strstr(err.text, "more than 8 files include each other"));
    sim_write(folder, "c.cluster", "include none.cluster\n", c);
    T_CHECK(gy_cluster_read(&file, c, &err) == GY_E_IO && strstr(err.text, "none.cluster"));
    T_CHECK(remove(a) == 0 && remove(b) == 0 && remove(c) == 0 && remove(folder) == 0);
}

static void sim_files(void)
{
    struct gy_net_cluster c;
    struct gy_error err = {0};
    T_CHECK(sim_parse("hosts 3 # three\n\nranks-per-host 2\ninside 1.5e+9 2us\nnic 10M 1ms\r\nnoise 0.1", &c, &err) == GY_OK);
    T_CHECK(c.hosts == 3 && c.ranks_per_host == 2 && sim_near(c.inside_rate, 1.5e9) && sim_near(c.inside_latency, 2e-6) &&
            sim_near(c.nic_rate, 1e7) && sim_near(c.nic_latency, 1e-3));
    const struct {
        const char *text, *where;
    } bad[] = { { "hosts 0\ninside 1G 1us", ":1:" },
                { "hosts 1.5\n", ":1:" },
                { "inside 1G\n", ":1:10: a number" },
                { "inside 1G 1us 3", ":1:15: the line" },
                { "inside 1Q 1us", "unit" },
                { "speed 3", "1:1: this property" },
                { "hosts 2\ninside 1G 1us", "missing" },
                { "hosts 2\ninside 1G 1us\nnic 1G 1us\nburst 64k 1G", "burst" },
                { "hosts 2\nburst 64k", ":2:10: a number" },
                { "published 3 1.5", "at most 1" },
                { "published 3", "a number" },
                { "hosts 1\ninside 1G 1us\nbackward 1.5", "at most 1" },
                { "inside 1G+ 1us", "unit" },
                { "inside 1us 1G", ":1:8: this unit" },
                { "nic 1G 1G", ":1:8: this unit" },
                { "hosts 3k", ":1:7: this unit" },
                { "hosts 2000ms", ":1:7: this unit" },
                { "compute 1G", ":1:9: this unit" },
                { "noise 50ms", ":1:7: this unit" },
                { "burst 64k 1s", ":1:11: this unit" },
                { "include", "missing" },
                { "hosts 4096\nranks-per-host 2\ninside 1G 1us\nnic 1G 1us", "4096" },
                { "", "missing" } };
    struct gy_cluster_file file;
    T_CHECK(gy_cluster_parse(&file, "inside 1\0G 1us", 14, "x", &err) == GY_E_FORMAT);
    for (size_t i = 0; i < GY_COUNT(bad); i++)
        T_CHECK_MSG(sim_parse(bad[i].text, &c, &err) == GY_E_FORMAT && strstr(err.text, bad[i].where), "%zu: %s", i, err.text);
}

int main(void)
{
    sim_formulas();
    sim_sharing();
    sim_adds();
    sim_buckets();
    sim_noise();
    sim_files();
    sim_includes();
    T_END("t_net_sim");
}
