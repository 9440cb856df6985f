/* SPDX-License-Identifier: MIT */
/* t_messages.c: messages between the ranks of a job, in the memory of one host and between hosts.
 * Every rank sends every other random sizes under random tags, in an order of its own. What arrives
 * is what was sent. A rank that ends ends the others' wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/job/job.h"
#include "engine/job/messages.h"
#include "engine/job/wire.h"
#include "tests/t.h"

#define MS_RANKS 4
#define MS_EACH 24     /* messages from a rank to another */
#define MS_BYTES 70000 /* the largest */
#define MS_ROUND 9     /* seeds from here on: messages in a round */

struct ms_left {
    int status, wrong, came;
    char text[300];
};
static struct ms_left *ms_left; /* [MS_RANKS], shared */

static uint64_t ms_mix(uint64_t x) /* splitmix64 */
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void ms_set(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* What both ends know of message k from one rank to another. */
static uint64_t ms_seed(uint64_t seed, int from, int to, int k)
{
    return ms_mix(seed + (uint64_t)(from * MS_RANKS + to) * 1000 + (uint64_t)k);
}

static size_t ms_bytes(uint64_t s) { return s % 3 == 0 ? s % 97 : s % MS_BYTES; }
static uint32_t ms_tag(uint64_t s) { return GY_NET_MESSAGE_TAG + (uint32_t)(s >> 40) % 5; }

static void ms_fill(unsigned char *to, uint64_t s)
{
    for (size_t i = 0; i < ms_bytes(s); i++)
        to[i] = (unsigned char)(ms_mix(s + i / 8) >> i % 8 * 8);
}

static int ms_exchange(struct gyre_job *job, uint64_t seed, int quits, struct ms_left *left,
                       struct gy_error *err)
{
    enum { ALL = 2 * MS_RANKS * MS_EACH };
    struct gy_net_request *const r = calloc(ALL, sizeof *r);
    unsigned char *const room = malloc((size_t)ALL * MS_BYTES), *const want = malloc(MS_BYTES);
    const int rank = gyre_job_rank(job), ranks = gyre_job_ranks(job);
    int status = r && room && want ? GY_OK : GY_E_NOMEM, count = 0;
    for (int k = 0; k < MS_EACH && status == GY_OK; k++)
        for (int step = 1; step < ranks && status == GY_OK; step++) {
            const int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
            const uint64_t out = ms_seed(seed, rank, to, k), in = ms_seed(seed, from, rank, k);
            unsigned char *const a = room + (size_t)count * MS_BYTES;
            ms_fill(a, out);
            r[count] = (struct gy_net_request) {
                .sends = 1, .peer = to, .tag = ms_tag(out), .buffer = a, .bytes = ms_bytes(out)
            };
            r[count + 1] = (struct gy_net_request) { .peer = from,
                                                     .tag = ms_tag(in),
                                                     .buffer = a + MS_BYTES,
                                                     .bytes = ms_bytes(in),
                                                     .stamp = (int64_t)in };
            status = gy_job_post(job, &r[count + (rank & 1)], err);
            if (status == GY_OK)
                status = gy_job_post(job, &r[count + 1 - (rank & 1)], err);
            count += 2;
            if (quits && k == MS_EACH / 2)
                _exit(3);
        }
    for (int i = 0; i < count && status == GY_OK; i++)
        status = gy_job_await(job, &r[i], err);
    for (int i = 1; i < count && status == GY_OK; i += 2) {
        const uint64_t in = (uint64_t)r[i].stamp;
        ms_fill(want, in);
        left->came++;
        left->wrong += memcmp(want, r[i].buffer, ms_bytes(in)) != 0;
    }
    for (int peer = 0; peer < ranks && status != GY_OK; peer++)
        if (peer != rank)
            gy_job_forget(job, peer);
    free(want);
    free(room);
    free(r);
    return status;
}

/* Each takes from the rank before and gives to the one behind, until rank `quits` is gone. */
static int ms_round(struct gyre_job *job, int quits, struct gy_error *err)
{
    const int rank = gyre_job_rank(job), ranks = gyre_job_ranks(job);
    unsigned char out[64] = { 0 }, in[64];
    int status = GY_OK;
    for (int turn = 0; turn < 200 && status == GY_OK; turn++) {
        if (turn == 20 && quits)
            _exit(3);
        status = gy_wire_calls()->pass(job, 1, (rank + 1) % ranks, out, sizeof out,
                                       (rank + ranks - 1) % ranks, in, sizeof in, err);
    }
    return status;
}

/* Whatever lay on the stack before is gone. */
static void ms_overwrite(void)
{
    volatile unsigned char room[16384];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0x5a;
}

static void ms_rank(int rank, int ranks, const char *name, uint64_t seed, int quits)
{
    struct gyre_job_config config = { .size = sizeof config, .wait_seconds = 30, .messages = 1 };
    struct gyre_error error = { 0 };
    struct gy_error err = { 0 };
    struct gyre_job *job = NULL;
    struct ms_left *const left = &ms_left[rank];
    ms_set("GYRE_RANK", rank);
    ms_set("GYRE_LOCAL_RANK", rank);
    ms_set("GYRE_RANKS", ranks);
    ms_set("GYRE_LOCAL_RANKS", ranks);
    setenv("GYRE_JOB", name, 1);
    if (seed & 1)
        setenv("GYRE_ALLREDUCE", "flat/ring", 1); /* every rank counts as a host */
    left->status = gyre_job_open(&job, &config, &error);
    if (left->status == GYRE_OK) {
        left->status = seed >= MS_ROUND ? ms_round(job, rank == quits, &err)
                                        : ms_exchange(job, seed, rank == quits, left, &err);
        ms_overwrite();
        snprintf(left->text, sizeof left->text, "%.290s", err.text);
    }
    if (left->status == GYRE_OK)
        left->status = gyre_job_end(job, &error);
    if (left->status != GYRE_OK && !left->text[0])
        snprintf(left->text, sizeof left->text, "%.290s", error.text);
    gyre_job_close(job);
}

/* How many ranks were ended by a signal. */
static int ms_run(int ranks, uint64_t seed, int quits)
{
    static int jobs;
    char name[64];
    snprintf(name, sizeof name, "t_messages %ld %d", (long)getpid(), jobs++);
    memset(ms_left, 0, MS_RANKS * sizeof *ms_left);
    fflush(stdout);
    for (int r = 0; r < ranks; r++)
        if (fork() == 0) {
            ms_rank(r, ranks, name, seed, quits);
            _exit(0);
        }
    int signals = 0;
    for (int r = 0, status = 0; r < ranks; r++) {
        wait(&status);
        signals += WIFSIGNALED(status);
    }
    return signals;
}

static void ms_checks(void)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        const int ranks = 2 + (int)(seed % 3);
        T_CHECK(ms_run(ranks, seed, -1) == 0);
        for (int r = 0; r < ranks; r++) {
            T_CHECK_MSG(ms_left[r].status == GYRE_OK, "seed %d, rank %d of %d: %s", (int)seed, r,
                        ranks, ms_left[r].text);
            T_CHECK(ms_left[r].came == (ranks - 1) * MS_EACH && ms_left[r].wrong == 0);
        }
    }
    for (uint64_t seed = MS_ROUND - 2; seed < MS_ROUND + 6; seed++) {
        T_CHECK_MSG(ms_run(3, seed, 1) == 0, "seed %d: a rank was ended by a signal", (int)seed);
        for (int r = 0; r < 3; r += 2) {
            T_CHECK_MSG(ms_left[r].status == GYRE_E_PEER, "rank %d: %d", r, ms_left[r].status);
            T_CHECK_MSG(strstr(ms_left[r].text, "rank 1 ") != NULL, "rank %d says: %s", r,
                        ms_left[r].text);
        }
    }
}

/* A tag of sums, and a job without messages, are refused. */
static void ms_bad(void)
{
    struct gyre_job_config config = { .size = sizeof config, .wait_seconds = 30, .messages = 2 };
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    T_CHECK(gyre_job_open(&job, &config, &error) == GYRE_E_ARG &&
            strstr(error.text, "messages is 2"));
    struct gy_error err = { 0 };
    if (!T_CHECK(gyre_job_open(&job, NULL, &error) == GYRE_OK))
        return;
    T_CHECK(gy_wire_calls()->tell(job, 1, 0, &err, sizeof err, &err) == GY_E_BUG &&
            strstr(err.text, "a job without them"));
    gyre_job_close(job);
}

int main(void)
{
    const size_t bytes = MS_RANKS * sizeof *ms_left;
    FILE *const file = tmpfile();
    void *const at = file && ftruncate(fileno(file), (off_t)bytes) == 0
                         ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0)
                         : MAP_FAILED;
    if (at == MAP_FAILED)
        return 1;
    ms_left = at;
    ms_checks();
    ms_bad();
    T_END("t_messages");
}
