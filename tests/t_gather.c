/* SPDX-License-Identifier: MIT */
/* t_gather.c: figures of ranks. Rows of random 64-bit numbers come to every rank whole. Bytes are
 * counted on each link as they were sent. The recorder's counts are those of what was done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/job/gather.h"
#include "engine/job/job.h"
#include "engine/job/recorder.h"
#include "tests/t.h"

#define GT_RANKS 4
#define GT_ROW 9
#define GT_ROUNDS 5

struct gt_left {
    int status, wrong, links, counts;
    char text[300];
};
static struct gt_left *gt_left; /* [GT_RANKS], shared */

static uint64_t gt_mix(uint64_t x) /* splitmix64 */
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Any bits: small, large, negative. */
static int64_t gt_number(uint64_t seed, int rank, int round, int i)
{
    const uint64_t x = gt_mix(seed + (uint64_t)(rank * 1000 + round * 100 + i));
    return (int64_t)(x >> x % 60);
}

static int gt_rows(struct gyre_job *job, uint64_t seed, int round, struct gt_left *left,
                   struct gy_error *err)
{
    int64_t own[GT_ROW], all[GT_RANKS * GT_ROW];
    const int ranks = gyre_job_ranks(job),
        count = 1 + (int)(gt_mix(seed + (uint64_t)round) % GT_ROW);
    for (int i = 0; i < count; i++)
        own[i] = gt_number(seed, gyre_job_rank(job), round, i);
    GY_TRY(gy_job_gather(job, own, count, all, err));
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < count; i++)
            left->wrong += all[r * count + i] != gt_number(seed, r, round, i);
    return GY_OK;
}

static size_t gt_bytes(uint64_t seed, int from,
                       int to) { return gt_mix(seed + (uint64_t)(from * 8 + to)) % 5000; }

/* Every rank sends each other one message of its own size. */
static int gt_messages(struct gyre_job *job, uint64_t seed, int64_t opened, struct gt_left *left,
                       struct gy_error *err)
{
    int64_t before[GT_RANKS];
    static unsigned char room[2 * GT_RANKS][5000];
    struct gy_net_request r[2 * GT_RANKS];
    const int rank = gyre_job_rank(job), ranks = gyre_job_ranks(job);
    const int64_t *const sent = gy_net_comm_sent(job->world);
    int64_t all = 0;
    memcpy(before, sent, (size_t)ranks * sizeof *before);
    memset(r, 0, sizeof r);
    for (int peer = 0; peer < ranks; peer++)
        for (int sends = 0; sends < 2 && peer != rank; sends++) {
            struct gy_net_request *const q = &r[2 * peer + sends];
            *q = (struct gy_net_request){ .sends = sends, .peer = peer, .tag = GY_NET_MESSAGE_TAG,
                                         .buffer = room[2 * peer + sends],
                                          .bytes = sends ? gt_bytes(seed, rank, peer)
                                              : gt_bytes(seed, peer, rank) };
            GY_TRY(job->peers->post(job, q, err));
        }
    for (int i = 0; i < 2 * ranks; i++)
        if (i / 2 != rank)
            GY_TRY(job->peers->await(job, &r[i], err));
    for (int peer = 0; peer < ranks; peer++) {
        const int64_t want = peer == rank ? 0 : (int64_t)gt_bytes(seed, rank, peer);
        left->links += sent[peer] - before[peer] == want;
        all += want;
    }
    const struct gy_job_counters *const c = &job->recorder->counters;
    left->counts = c->messages == ranks - 1 && c->message_bytes == all && c->sums - opened == GT_ROUNDS &&
        c->wait_ns == 0 && c->meet_ns > 0;
    return GY_OK;
}

static void gt_set(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void gt_rank(int rank, int ranks, const char *name, uint64_t seed)
{
    const struct gyre_job_config config = { .size = sizeof config, .wait_seconds = 60,
                                           .messages = 1 };
    struct gyre_error error = { 0 };
    struct gy_error err = { 0 };
    struct gyre_job *job = NULL;
    struct gt_left *const left = &gt_left[rank];
    gt_set("GYRE_RANK", rank);
    gt_set("GYRE_LOCAL_RANK", rank);
    gt_set("GYRE_RANKS", ranks);
    gt_set("GYRE_LOCAL_RANKS", ranks);
    setenv("GYRE_JOB", name, 1);
    setenv("GYRE_ALLREDUCE", "flat/ring", 1); /* links are between hosts: each rank is one */
    left->status = gyre_job_open(&job, &config, &error);
    const int64_t opened = left->status == GYRE_OK ? job->recorder->counters.sums : 0;
    for (int round = 0; round < GT_ROUNDS && left->status == GY_OK; round++)
        left->status = gt_rows(job, seed, round, left, &err);
    if (left->status == GY_OK)
        left->status = gt_messages(job, seed, opened, left, &err);
    if (left->status == GY_OK)
        left->status = gyre_job_end(job, &error);
    snprintf(left->text, sizeof left->text, "%.140s%.140s", err.text, error.text);
    gyre_job_close(job);
}

static void gt_run(int ranks, uint64_t seed)
{
    char name[64];
    snprintf(name, sizeof name, "t_gather %ld %d", (long)getpid(), (int)seed);
    memset(gt_left, 0, GT_RANKS * sizeof *gt_left);
    fflush(stdout);
    for (int r = 0; r < ranks; r++)
        if (fork() == 0) {
            gt_rank(r, ranks, name, seed);
            _exit(0);
        }
    for (int r = 0; r < ranks; r++)
        wait(NULL);
    for (int r = 0; r < ranks; r++) {
        const struct gt_left *const left = &gt_left[r];
        T_CHECK_MSG(left->status == GY_OK, "seed %d, rank %d of %d: %s", (int)seed, r, ranks,
                    left->text);
        T_CHECK_MSG(left->wrong == 0, "seed %d, rank %d of %d: %d numbers are wrong", (int)seed, r,
                    ranks, left->wrong);
        T_CHECK_MSG(left->links == ranks, "seed %d, rank %d of %d: %d links are right", (int)seed,
                    r, ranks, left->links);
        T_CHECK_MSG(left->counts, "seed %d, rank %d of %d: its counters are wrong", (int)seed, r,
                    ranks);
    }
}

int main(void)
{
    const size_t bytes = GT_RANKS * sizeof *gt_left;
    FILE *const file = tmpfile();
    void *const at = file && ftruncate(fileno(file), (off_t)bytes) == 0
                         ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0)
                             : MAP_FAILED;
    if (at == MAP_FAILED)
        return 1;
    gt_left = at;
    unsetenv("GYRE_FLIGHT");
    for (uint64_t seed = 1; seed <= 6; seed++)
        gt_run(2 + (int)(seed % 3), seed);
    T_END("t_gather");
}
