/* SPDX-License-Identifier: MIT */
/* rank.h: a test's forked process becomes a rank of a job on this host: it sets what a launcher
 * would, before gyre_job_open. */
#ifndef GY_TESTS_RANK_H
#define GY_TESTS_RANK_H
#include <stdio.h>
#include <stdlib.h>

/* name: of the job, another one for each */
static inline void test_be_rank(const char *name, int rank, int ranks)
{
    static const char *const own[] = { "GYRE_RANK", "GYRE_LOCAL_RANK" };
    static const char *const all[] = { "GYRE_RANKS", "GYRE_LOCAL_RANKS" };
    char text[2][16];
    snprintf(text[0], sizeof text[0], "%d", rank);
    snprintf(text[1], sizeof text[1], "%d", ranks);
    for (int i = 0; i < 2; i++) {
        setenv(own[i], text[0], 1);
        setenv(all[i], text[1], 1);
    }
    setenv("GYRE_JOB", name, 1);
}

#endif
