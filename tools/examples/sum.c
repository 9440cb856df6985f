/* SPDX-License-Identifier: MIT */
/* sum.c: sums over processes, for a program that trains by other means. It uses memory that the
 * ranks share, and sums that run while the program computes.
 *
 *   cc -Iengine tools/examples/sum.c -o sum -Lbuild -lgyre-net
 *   (or with build/libgyre.a -lm -lpthread -ldl)
 *   gyre launch -n 4 -- ./sum 1000000
 *
 * Exit status: 0 every sum is right on this rank, 1 not. */
#include "gyre_job.h"
#include <stdio.h>
#include <stdlib.h>

#define PARTS 4

static int fail(const struct gyre_error *error)
{
    fprintf(stderr, "sum: %s\n", error->text);
    return 1;
}

/* Whole numbers that are exact in float, so that the order of a sum does not show. */
static float part_of(int rank, int64_t i) { return (float)(rank + 1 + i % 7); }

static int64_t count_wrong(const float *data, int64_t count, int ranks)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++)
        wrong += data[i] != (float)(ranks * (ranks + 1) / 2 + ranks * (int)(i % 7));
    return wrong;
}

/* Four parts: each is begun when it is ready, then all are waited for. */
static int sum_parts(struct gyre_job *job, float *data, int64_t count, struct gyre_error *error)
{
    int64_t ticket[PARTS];
    for (int p = 0; p < PARTS; p++) {
        const int64_t first = count * p / PARTS, end = count * (p + 1) / PARTS;
        for (int64_t i = first; i < end; i++)
            data[i] = part_of(gyre_job_rank(job), i);
        if (gyre_job_sum_start(job, data + first, end - first, &ticket[p], error) != GYRE_OK)
            return 1;
        int done = 0; /* the parts before may go on while this one was computed */
        for (int before = 0; before < p; before++)
            if (gyre_job_sum_test(job, ticket[before], &done, error) != GYRE_OK)
                return 1;
    }
    for (int p = 0; p < PARTS; p++)
        if (gyre_job_sum_wait(job, ticket[p], error) != GYRE_OK)
            return 1;
    return 0;
}

static int run(struct gyre_job *job, int64_t count, struct gyre_error *error)
{
    void *memory;
    if (gyre_job_memory(job, (size_t)count * sizeof(float), &memory, error) != GYRE_OK)
        return fail(error);
    const int failed = sum_parts(job, memory, count, error);
    const int64_t wrong = failed ? 0 : count_wrong(memory, count, gyre_job_ranks(job));
    if (!failed)
        printf("rank %d of %d: %lld of %lld sums are wrong\n", gyre_job_rank(job), gyre_job_ranks(job), (long long)wrong, (long long)count);
    gyre_job_release(job, memory);
    return failed ? fail(error) : wrong != 0;
}

int main(int argc, char **argv)
{
    struct gyre_job *job;
    struct gyre_error error;
    const long long count = argc > 1 ? atoll(argv[1]) : 100000;
    if (count < PARTS || count > 1000000000)
        return fprintf(stderr, "sum: a count of %d to 1000000000 floats\n", PARTS), 1;
    if (gyre_job_open(&job, NULL, &error) != GYRE_OK)
        return fail(&error);
    int status = run(job, count, &error);
    /* all ranks are through, or one of them is not */
    if (status == 0 && gyre_job_end(job, &error) != GYRE_OK)
        status = fail(&error);
    gyre_job_close(job);
    return status;
}
