/* SPDX-License-Identifier: MIT */
/* cmd_network.c: gyre net: proves and prints schedules of allreduce; simulates training on
 * described clusters; judges a job's flight records. gyre.c has its row. */
#include "tools/lab/lab.h"
#include "tools/cli.h"
#include <stdlib.h>
#include <string.h>

struct network_values {
    const char *algorithm, *dims, *file, *cluster;
    int64_t ranks, lanes, rank, samples, json, before;
    double bytes, bucket;
};

#define AT(member) offsetof(struct network_values, member)
static const struct cli_option network_rows[] = {
    { "algorithm", "NAME", "multihalving", "see 'gyre net list'", CLI_TEXT, AT(algorithm), 0, 0 },
    { "ranks", "N", NULL, "of plan; default: the product of --dims", CLI_WHOLE, AT(ranks), 1, 4096 },
    { "dims", "AxBxC", NULL, "of plan: ranks of a host, hosts of a rack, racks", CLI_TEXT, AT(dims), 0, 0 },
    { "file", "FILE", NULL, "of plan: a schedule as plan prints it, in place of --algorithm", CLI_TEXT, AT(file), 0, 0 },
    { "lanes", "N", "1", "parts of the buffer that follow each other", CLI_WHOLE, AT(lanes), 1, 1024 },
    { "rank", "N", "-1", "of plan: whose steps are printed; -1: all, -2: none", CLI_WHOLE, AT(rank), -2, 4095 },
    { "cluster", "FILE", NULL, "of simulate: what the machines and their network are", CLI_TEXT, AT(cluster), 0, 0 },
    { "megabytes", "X", "102", "of simulate: gradients of a step", CLI_REAL, AT(bytes), 0.001, 1e6 },
    { "bucket", "X", "16", "of simulate: megabytes that are reduced at a time", CLI_REAL, AT(bucket), 0.001, 1e6 },
    { "samples", "N", "15", "of simulate: runs with other noise each", CLI_WHOLE, AT(samples), 1, 1000 },
    { "json", NULL, NULL, "of doctor: one JSON object", CLI_FLAG, AT(json), 0, 0 },
    { "before", NULL, NULL, "of doctor: the records of the start before the last one", CLI_FLAG,
      AT(before), 0, 0 },
};
#undef AT

static int network_dims(const struct network_values *v, struct gyre_collective *c)
{
    const char *at = v->dims;
    int64_t product = 1;
    for (int d = 0; at && *at && d < 7; d++) {
        char *end;
        const long size = strtol(at, &end, 10);
        if (end == at || size < 1 || size > 4096 || (*end != 'x' && *end != 0) || (*end == 'x' && end[1] == 0))
            return cli_fail(CLI_USAGE, "net: --dims takes sizes such as 4x8x8, not '%s'", v->dims);
        c->dims[d] = (int)size;
        product = product > 4096 ? product : product * size;
        at = *end == 'x' ? end + 1 : end;
    }
    if ((at && *at) || product > 4096)
        return cli_fail(CLI_USAGE, "net: --dims %s: at most 7 dimensions and 4096 ranks", v->dims);
    c->ranks = v->ranks ? (int)v->ranks : (int)product;
    return CLI_OK;
}

static int network_plan(const struct network_values *v)
{
    struct gyre_collective c;
    struct gyre_error error;
    gyre_collective_default(&c);
    c.algorithm = v->algorithm;
    c.lanes = (int)v->lanes;
    c.rank = (int)v->rank;
    c.file = v->file;
    const int code = network_dims(v, &c);
    if (code != CLI_OK)
        return code;
    return gyre_print_collective(&c, &cli_stdout, &error) == GYRE_OK ? CLI_OK : cli_error(&error);
}

static int network_simulate(const struct network_values *v)
{
    struct gyre_simulation s;
    struct gyre_error error;
    if (!v->cluster)
        return cli_fail(CLI_USAGE, "net simulate needs --cluster FILE");
    gyre_simulation_default(&s);
    s.cluster = v->cluster;
    s.algorithm = v->algorithm;
    s.lanes = (int)v->lanes;
    s.bytes = v->bytes * 1e6;
    s.bucket_bytes = v->bucket * 1e6;
    s.samples = (int)v->samples;
    return gyre_print_simulation(&s, &cli_stdout, &error) == GYRE_OK ? CLI_OK : cli_error(&error);
}

static int network_list(void)
{
    for (int i = 0; gyre_collective_name(i); i++)
        printf("%-13s %s\n", gyre_collective_name(i), gyre_collective_about(i));
    return CLI_OK;
}

static int network_doctor(const struct network_values *v, const char *folder)
{
    struct gyre_error error;
    const int status = gyre_print_doctor(folder, (int)v->before, (int)v->json, &cli_stdout, &error);
    return status == GYRE_OK ? CLI_OK : cli_error(&error);
}

static int network_run(const void *values, char **args, int count)
{
    const struct network_values *v = values;
    if (strcmp(args[0], "doctor") == 0 && count == 2)
        return network_doctor(v, args[1]);
    if (strcmp(args[0], "doctor") == 0)
        return cli_fail(CLI_USAGE, "net doctor needs the folder of the records");
    if (count > 1)
        return cli_fail(CLI_USAGE, "net: only doctor takes a folder, '%s'", args[1]);
    if (strcmp(args[0], "list") == 0)
        return network_list();
    if (strcmp(args[0], "plan") == 0)
        return network_plan(v);
    if (strcmp(args[0], "simulate") == 0)
        return network_simulate(v);
    return cli_fail(CLI_USAGE, "net: '%s' is not one of list, plan, simulate and doctor", args[0]);
}

const struct cli_command cmd_network = {
    .name = "net", .args = "list|plan|simulate|doctor [DIR]",
    .about = "schedules between machines: proved, printed, simulated; what held up a job",
    .details = "plan builds the schedule of an allreduce (or broadcast), or reads one, proves it and prints every rank's steps; what it\n"
               "prints, an editor can change and --file reads again. simulate runs training on a described cluster: the same steps,\n"
               "by events, on links that are shared max-min fairly. What it prints is a simulation; its assumptions stand in the\n"
               "cluster's file.\n\n"
               "doctor reads what the ranks of a job did last. They keep it in the folder of\n"
               "their run (--out) until the job has ended well, or in that of GYRE_FLIGHT, where\n"
               "it stays. It says who waited for whom, since when, the likely cause and what to\n"
               "look at; also of a job that still runs. Records of hosts without a common folder\n"
               "are copied into one first.\n\n"
               "Examples:\n"
               "  gyre net plan --algorithm multiring --dims 2x2 --rank 1\n"
               "  gyre net plan --ranks 4 > mine.schedule\n"
               "  gyre net plan --file mine.schedule --rank -2\n"
               "  gyre net simulate --cluster tools/examples/ddl.cluster --lanes 4\n"
               "  gyre net doctor runs/resnet50\n",
    .least = 1, .most = 2, .bytes = sizeof(struct network_values),
    .groups = { { network_rows, CLI_COUNT(network_rows), 0 } },
    .run = network_run,
};
