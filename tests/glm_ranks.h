/* SPDX-License-Identifier: MIT */
/* glm_ranks.h: a function run by several processes that are the ranks of one job, and memory in
 * which they leave what they found. */
#ifndef GY_GLM_RANKS_H
#define GY_GLM_RANKS_H
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/job/job.h"
#include "tests/t.h"

/* Zeroed memory that forked processes share; exits where there is none. */
static inline void *gr_memory(size_t bytes)
{
    FILE *const file = tmpfile();
    void *const p = file && ftruncate(fileno(file), (off_t)bytes) == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0) : MAP_FAILED;
    if (p == MAP_FAILED)
        exit(2);
    fclose(file);
    return p;
}

static inline void gr_set(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static inline void gr_rank(int (*fn)(void *user, struct gyre_job *job, int rank), void *user, int rank, int ranks, const char *name)
{
    const struct gyre_job_config wait_long = { .size = sizeof wait_long, .wait_seconds = 120 };
    struct gyre_job *job = NULL;
    struct gyre_error error;
    gr_set("GYRE_RANK", rank);
    gr_set("GYRE_LOCAL_RANK", rank);
    gr_set("GYRE_RANKS", ranks);
    gr_set("GYRE_LOCAL_RANKS", ranks);
    setenv("GYRE_JOB", name, 1);
    if (ranks > 1 && gyre_job_open(&job, &wait_long, &error) != GYRE_OK) {
        printf("    rank %d of %d: %s\n", rank, ranks, error.text);
        fflush(stdout);
        _exit(3);
    }
    const int good = fn(user, job, rank);
    gyre_job_close(job);
    fflush(stdout);
    _exit(good ? 0 : 1);
}

/* Runs fn in `ranks` processes; job is NULL when there is one. Returns 1 if every process exited by
 * itself and fn returned nonzero in each. */
static inline int gr_run(int ranks, int (*fn)(void *user, struct gyre_job *job, int rank), void *user)
{
    static int jobs;
    char name[64];
    int whole = 1;
    snprintf(name, sizeof name, "t_glm %ld %d", (long)getpid(), jobs++);
    fflush(stdout);
    for (int r = 0; r < ranks; r++)
        if (fork() == 0)
            gr_rank(fn, user, r, ranks, name);
    for (int r = 0; r < ranks; r++) {
        int status = -1;
        if (wait(&status) < 0)
            printf("    a rank of %d is missing: %s\n", ranks, strerror(errno));
        else if (!WIFEXITED(status))
            printf("    a rank of %d ended by signal %d\n", ranks, WTERMSIG(status));
        whole &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return whole;
}

#endif
