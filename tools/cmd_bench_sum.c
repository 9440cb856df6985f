/* SPDX-License-Identifier: MIT */
/* cmd_bench_sum.c: gyre bench allreduce: times sums over the ranks of a job, from a few bytes to
 * many, and checks their results. Alone it starts itself as two ranks; under a launcher it takes
 * the ranks of the job. gyre.c has its row. */
#include "engine/gyre_job.h"
#include "tools/cli.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct bench_sum_values {
    int64_t least, most, rounds, repeats, ranks, json, outside, shared;
};

#define AT(member) offsetof(struct bench_sum_values, member)
static const struct cli_option bench_sum_rows[] = {
    { "least", "BYTES", "8", "smallest buffer", CLI_WHOLE, AT(least), 4, 1 << 30 },
    { "most", "BYTES", "268435456", "largest buffer; each is twice the one before", CLI_WHOLE, AT(most), 4, 1 << 30 },
    { "rounds", "N", "20", "measurements of each size; the fastest and the median are printed", CLI_WHOLE, AT(rounds), 1, 10000 },
    { "repeats", "N", NULL, "sums of each measurement; default: by size", CLI_WHOLE, AT(repeats), 1, 1000000 },
    { "ranks", "N", "2", "processes to start on this host, where no launcher did", CLI_WHOLE, AT(ranks), 2, 64 },
    { "outside", NULL, NULL, "buffers in memory of the process's own, which is copied", CLI_FLAG, AT(outside), 0, 0 },
    { "shared", NULL, NULL, "sums into one result that all ranks of a host read, in place of one a rank (JSON: shared)", CLI_FLAG, AT(shared), 0, 0 },
    { "json", NULL, NULL, "one JSON object a line", CLI_FLAG, AT(json), 0, 0 },
};
#undef AT

struct bench_sum {
    const struct bench_sum_values *v;
    struct gyre_job *job;
    float *data, *sums;      /* sums: where those of data stand; data itself without --shared */
    double *seconds; /* [rounds] */
    int rank, ranks;
    struct gyre_error error;
};

static double bench_sum_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int bench_sum_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The same number of sums on all ranks: about 64 MiB a round, at most a thousand. */
static int64_t bench_sum_repeats(const struct bench_sum *b, int64_t bytes)
{
    const int64_t repeats = ((int64_t)64 << 20) / bytes;
    return b->v->repeats ? b->v->repeats : repeats > 1000 ? 1000 : repeats < 1 ? 1 : repeats;
}

/* Small whole numbers, whose sums are exact: 1, or 0 after a sentence. */
static int bench_sum_check(struct bench_sum *b, int64_t count)
{
    const float ranks = (float)b->ranks * (float)(b->ranks + 1) / 2;
    for (int64_t i = 0; i < count; i++)
        b->data[i] = (float)(i % 13 + 1) * (float)(b->rank + 1);
    if (gyre_job_sum(b->job, b->data, count, &b->error) != GYRE_OK)
        return 0;
    for (int64_t i = 0; i < count; i++)
        if (b->sums[i] < (float)(i % 13 + 1) * ranks || b->sums[i] > (float)(i % 13 + 1) * ranks) {
            b->error.status = GYRE_E_BUG;
            snprintf(b->error.text, sizeof b->error.text, "rank %d: float %" PRId64 " of %" PRId64 " is %g, not %g", b->rank, i, count,
                     (double)b->sums[i], (double)((float)(i % 13 + 1) * ranks));
            return 0;
        }
    /* sums of zeros stay zero, however often they are summed */
    memset(b->data, 0, (size_t)count * sizeof *b->data);
    return 1;
}

static int bench_sum_measure(struct bench_sum *b, int64_t count)
{
    const int64_t repeats = bench_sum_repeats(b, count * 4);
    for (int64_t round = -1; round < b->v->rounds; round++) { /* the first is not counted */
        const double began = bench_sum_clock();
        for (int64_t k = 0; k < repeats; k++)
            if (gyre_job_sum(b->job, b->data, count, &b->error) != GYRE_OK)
                return 0;
        if (round >= 0)
            b->seconds[round] = (bench_sum_clock() - began) / (double)repeats;
    }
    qsort(b->seconds, (size_t)b->v->rounds, sizeof *b->seconds, bench_sum_compare);
    return 1;
}

static void bench_sum_print(const struct bench_sum *b, int64_t count)
{
    const double least = b->seconds[0] * 1e6, median = b->seconds[b->v->rounds / 2] * 1e6, bytes = (double)count * 4;
    char size[32];
    if (b->rank > 0)
        return;
    if (b->v->json)
        printf("{\"ranks\":%d,\"bytes\":%.0f,\"fastest_us\":%.3f,\"median_us\":%.3f,\"shared\":%s}\n", b->ranks, bytes, least, median,
               b->sums != b->data ? "true" : "false");
    else
        printf("%10s  %12.2f us  %12.2f us  %8.2f GB/s\n", cli_bytes(size, bytes), least, median, bytes / least * 1e-3);
    fflush(stdout);
}

static int bench_sum_all(struct bench_sum *b)
{
    if (b->rank == 0 && !b->v->json)
        printf("sums of float over %d ranks, results checked\n%10s  %15s  %15s  %13s\n", b->ranks, "bytes", "fastest", "median", "at fastest");
    for (int64_t bytes = b->v->least / 4 * 4; bytes <= b->v->most; bytes *= 2) {
        if (!bench_sum_check(b, bytes / 4) || !bench_sum_measure(b, bytes / 4) || !bench_sum_check(b, bytes / 4))
            return cli_error(&b->error);
        bench_sum_print(b, bytes / 4);
    }
    return CLI_OK;
}

/* This program again, as ranks; returns only when that fails. */
static int bench_sum_launch(const struct bench_sum_values *v)
{
    char path[4096], text[6][32];
    const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    if (bytes <= 0 || (size_t)bytes >= sizeof path - 1)
        return cli_fail(CLI_RESOURCES, "this program does not find itself in /proc; gyre launch -- gyre bench allreduce");
    path[bytes] = 0;
    const struct {
        const char *name;
        int64_t value;
    } rows[] = { { "--least", v->least }, { "--most", v->most }, { "--rounds", v->rounds }, { "--repeats", v->repeats } };
    const char *args[24] = { path, "launch", "--ranks", text[5], "--", path, "bench", "allreduce" };
    int count = 8;
    snprintf(text[5], sizeof text[5], "%" PRId64, v->ranks);
    for (size_t i = 0; i < CLI_COUNT(rows); i++) {
        if (!rows[i].value)
            continue;
        snprintf(text[i], sizeof text[i], "%" PRId64, rows[i].value);
        args[count++] = rows[i].name;
        args[count++] = text[i];
    }
    if (v->json)
        args[count++] = "--json";
    if (v->outside)
        args[count++] = "--outside";
    if (v->shared)
        args[count++] = "--shared";
    execv(path, (char *const *)(uintptr_t)args);
    return cli_fail(CLI_RESOURCES, "%s cannot be started", path);
}

static int bench_sum_take(struct bench_sum *b, void **memory, void **sums)
{
    const size_t bytes = (size_t)b->v->most;
    return b->v->shared ? gyre_job_memory_shared(b->job, bytes, memory, sums, &b->error) : gyre_job_memory(b->job, bytes, memory, &b->error);
}

static int bench_sum_run(const void *values, char **args, int count)
{
    struct bench_sum b = { .v = values };
    void *memory = NULL, *sums = NULL;
    (void)args;
    (void)count;
    if (b.v->outside && b.v->shared)
        return cli_fail(CLI_USAGE, "--outside has no result to share");
    if (gyre_job_open(&b.job, NULL, &b.error) != GYRE_OK)
        return cli_error(&b.error);
    b.rank = gyre_job_rank(b.job);
    b.ranks = gyre_job_ranks(b.job);
    if (b.ranks == 1) {
        gyre_job_close(b.job);
        return bench_sum_launch(b.v);
    }
    int code = CLI_OK;
    b.seconds = malloc((size_t)b.v->rounds * sizeof *b.seconds);
    if (b.v->outside)
        b.data = b.sums = malloc((size_t)b.v->most);
    else if (bench_sum_take(&b, &memory, &sums) != GYRE_OK)
        code = cli_error(&b.error);
    else {
        b.data = memory;
        b.sums = b.v->shared ? sums : memory;
    }
    if (code == CLI_OK && (!b.data || !b.seconds))
        code = cli_fail(CLI_RESOURCES, "out of memory: a buffer of %" PRId64 " bytes", b.v->most);
    if (code == CLI_OK)
        code = bench_sum_all(&b);
    code = cli_job_end(b.job, code);
    gyre_job_release(b.job, memory);
    gyre_job_close(b.job);
    if (b.v->outside)
        free(b.data);
    free(b.seconds);
    return code;
}

const struct cli_command cmd_bench_sum = {
    .name = "bench allreduce", .args = "", .about = "times sums over the processes of a job", .bytes = sizeof(struct bench_sum_values),
    .groups = { { bench_sum_rows, CLI_COUNT(bench_sum_rows), 0 } },
    .run = bench_sum_run,
    .details = "GYRE_ALLREDUCE names the algorithm between hosts; with flat/ before it every rank counts as a host and memory is not shared;\n"
               "flat/ alone does so and leaves the algorithm to the size.\n\n"
               "Examples:\n"
               "  gyre bench allreduce\n"
               "  GYRE_ALLREDUCE=flat/halving gyre bench allreduce --least 1024 --most 67108864\n"
               "  gyre launch --hosts hosts.txt -- gyre bench allreduce --json\n",
};
