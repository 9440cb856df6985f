/* SPDX-License-Identifier: MIT */
/* t_sums.c: other programs sum over the ranks of a job, also into a result that the ranks of a host
 * share. Ranks wait for sums, and release memory, each in an order of its own. Those that do not
 * ask for the same get a sentence, as do calls and values that mean nothing. */
#include <string.h>

#include "engine/gyre_job.h"
#include "engine/base/rng.h"
#include "tests/glm_ranks.h"
#include "tests/rank.h"
#include "tests/t.h"

#define TS_FLOATS 40000
#define TS_MEMORIES 4
#define TS_MOST 3000 /* floats of random memory */
#define TS_STREAM 0x746573

/* ---- known sums ---- */

/* Data is filled anew as soon as its sum is there. The sum stands where all ranks of a host read
 * it, or in data if the rank is alone there. */
static int ts_plain(void *user, struct gyre_job *job, int rank)
{
    const int alone = *(const int *)user, ranks = gyre_job_ranks(job), count = TS_FLOATS, total = ranks * (ranks + 1) / 2;
    struct gyre_error error;
    void *memory = NULL, *sums = NULL;
    int64_t ticket[2];
    float own = 1;
    if (gyre_job_memory_shared(job, (size_t)count * sizeof(float), &memory, &sums, &error) != GYRE_OK)
        return 0;
    float *const data = memory;
    const float *const sum = sums;
    int right = (sums == memory) == alone && sum[0] == 0 && sum[count - 1] == 0, done;
    for (int round = 0; round < 20 && right; round++) {
        for (int i = 0; i < count && (round == 0 || alone); i++)
            data[i] = (float)((rank + 1) * (round + i % 7));
        if (round % 2) {
            right &= gyre_job_sum(job, data, count, &error) == GYRE_OK;
        } else {
            right &= gyre_job_sum_start(job, data, count / 3, &ticket[0], &error) == GYRE_OK;
            right &= gyre_job_sum_start(job, data + count / 3, count - count / 3, &ticket[1], &error) == GYRE_OK;
            right &= gyre_job_sum_test(job, ticket[1], &done, &error) == GYRE_OK;
            right &= gyre_job_sum_wait(job, ticket[0], &error) == GYRE_OK && gyre_job_sum_wait(job, ticket[1], &error) == GYRE_OK;
        }
        for (int i = 0; i < count && !alone; i++) {
            right &= data[i] == (float)((rank + 1) * (round + i % 7));
            data[i] = (float)((rank + 1) * (round + 1 + i % 7));
        }
        for (int i = 0; i < count; i++)
            right &= sum[i] == (float)(total * (round + i % 7));
    }
    right &= gyre_job_sum(job, &own, 1, &error) == GYRE_OK && own == (float)ranks;
    right &= gyre_job_sum_test(job, -1, &done, &error) == GYRE_E_ARG && strstr(error.text, "-1");
    right &= gyre_job_sum_wait(job, -1, &error) == GYRE_E_ARG && strstr(error.text, "-1");
    right &= ranks == 1 || gyre_job_sum_test(job, ticket[1] + 16000, &done, &error) == GYRE_E_ARG;
    right &= ranks == 1 || strstr(error.text, "not begun");
    right &= ranks == 1 || gyre_job_sum_wait(job, ticket[1] + 16000, &error) == GYRE_E_ARG;
    right &= ranks == 1 || gyre_job_sum_start(job, &own, 1, &ticket[0], &error) == GYRE_E_ARG;
    gyre_job_release(job, memory);
    right &= gyre_job_memory_shared(job, 0, &memory, &sums, &error) == GYRE_E_ARG;
    /* No machine has so much. As a file's length it is negative: one that is asked takes nothing. */
    return right && (alone || gyre_job_memory(job, SIZE_MAX / 4, &memory, &error) == GYRE_E_NOMEM);
}

/* Ranks begin the same sums in the same order; each waits for another one first, of other memory or
 * in a sum of plain memory. */
static int ts_crossed(void *user, struct gyre_job *job, int rank)
{
    const int large = *(const int *)user, ranks = gyre_job_ranks(job), late = rank == ranks - 1;
    const int total = ranks * (ranks + 1) / 2;
    void *memory[2], *sums[2];
    int64_t ticket[2];
    int right = 1;
    for (int m = 0; m < 2; m++)
        right &= gyre_job_memory_shared(job, large ? 4000 : 64, &memory[m], &sums[m], NULL) == GYRE_OK;
    for (int round = 0; round < 4 && right; round++) {
        const int first = (rank + round) % 2;
        float plain[5] = { 1, 2, 3, 4, (float)round };
        for (int m = 0; m < 2; m++) {
            *(float *)memory[m] = (float)(rank + 1 + m);
            right &= gyre_job_sum_start(job, memory[m], 16, &ticket[m], NULL) == GYRE_OK;
        }
        right &= !late || gyre_job_sum(job, plain, 5, NULL) == GYRE_OK;
        for (int done = round < 2; right && !done;)
            right &= gyre_job_sum_test(job, ticket[first], &done, NULL) == GYRE_OK;
        right &= gyre_job_sum_wait(job, ticket[first], NULL) == GYRE_OK;
        right &= gyre_job_sum_wait(job, ticket[!first], NULL) == GYRE_OK;
        right &= late || gyre_job_sum(job, plain, 5, NULL) == GYRE_OK;
        for (int m = 0; m < 2; m++)
            right &= *(const float *)sums[m] == (float)(total + m * ranks);
        right &= plain[4] == (float)(round * ranks);
    }
    return right;
}

/* ---- random sums ---- */

struct ts_random {
    uint64_t seed, drawn;
    void *memory[TS_MEMORIES], *sums[TS_MEMORIES];
    int floats[TS_MEMORIES];
};

/* In [0, below): the same on all ranks. */
static int ts_draw(struct ts_random *t, int below)
{
    return (int)(gy_rng_uniform(t->seed, TS_STREAM, 0, t->drawn++) * (float)below);
}

static float ts_value(const struct ts_random *t, int rank, int m, int i)
{
    return (float)((int)(t->drawn % 5) + rank + 2 * m + i % 11);
}

/* Halves of all memory are begun, and waited for in this rank's own order. */
static int ts_round(struct ts_random *t, struct gyre_job *job, int rank)
{
    int64_t ticket[2 * TS_MEMORIES];
    int right = 1;
    for (int m = 0; m < TS_MEMORIES; m++)
        for (int half = 0, all = t->floats[m]; half < 2 && t->memory[m]; half++) {
            float *const data = (float *)t->memory[m] + half * (all / 2);
            const int count = half ? all - all / 2 : all / 2;
            for (int i = 0; i < count; i++)
                data[i] = ts_value(t, rank, m, i);
            right &= gyre_job_sum_start(job, data, count, &ticket[2 * m + half], NULL) == GYRE_OK;
        }
    for (int k = 0; k < 2 * TS_MEMORIES && right; k++) {
        const int at = (k * 3 + 5 * rank) % (2 * TS_MEMORIES);
        right &= !t->memory[at / 2] || gyre_job_sum_wait(job, ticket[at], NULL) == GYRE_OK;
    }
    for (int m = 0; m < TS_MEMORIES; m++)
        for (int i = 0, ranks = gyre_job_ranks(job); i < t->floats[m] && t->memory[m]; i++) {
            const int at = i < t->floats[m] / 2 ? i : i - t->floats[m] / 2;
            float want = 0;
            for (int r = 0; r < ranks; r++)
                want += ts_value(t, r, m, at);
            right &= ((const float *)t->sums[m])[i] == want;
        }
    return right;
}

static int ts_rank(void *user, struct gyre_job *job, int rank)
{
    struct ts_random t = { .seed = *(const uint64_t *)user };
    int right = 1;
    for (int round = 0; round < 12 && right; round++) {
        for (int m = 0; m < TS_MEMORIES; m++) {
            const int most = ts_draw(&t, 2) ? 40 : TS_MOST, drawn = 1 + ts_draw(&t, most);
            t.floats[m] = t.memory[m] ? t.floats[m] : drawn;
            const size_t bytes = (size_t)t.floats[m] * sizeof(float);
            const int shared = ts_draw(&t, 2), skipped = ts_draw(&t, 3) == 0;
            if (t.memory[m] || skipped)
                continue;
            right &= (shared ? gyre_job_memory_shared(job, bytes, &t.memory[m], &t.sums[m], NULL)
                             : gyre_job_memory(job, bytes, &t.memory[m], NULL)) == GYRE_OK;
            t.sums[m] = shared ? t.sums[m] : t.memory[m];
            for (int i = 0; i < t.floats[m] && right; i++)
                right &= ((const float *)t.memory[m])[i] == 0;
        }
        right = right && ts_round(&t, job, rank);
        const int gone = ts_draw(&t, 1 << TS_MEMORIES);
        for (int k = 0; k < TS_MEMORIES; k++) {
            const int m = rank % 2 ? k : TS_MEMORIES - 1 - k;
            if (!(gone >> m & 1))
                continue;
            gyre_job_release(job, t.memory[m]);
            t.memory[m] = NULL;
        }
    }
    return right;
}

/* ---- ranks that do not do the same ---- */

enum ts_mistake { TS_BYTES, TS_SHARED, TS_RELEASED, TS_FEW, TS_MANY, TS_BEGUN, TS_MISTAKES };

/* The last rank sums other data: all have the sentence. */
static int ts_unlike(struct gyre_job *job, int what, int odd, float *data)
{
    const int count = (what == TS_FEW ? 20 : 2000) + odd;
    int64_t ticket;
    struct gyre_error error = { 0 };
    int status = what == TS_BEGUN ? gyre_job_sum_start(job, data, count, &ticket, &error)
                                  : gyre_job_sum(job, data, count, &error);
    if (status == GYRE_OK && what == TS_BEGUN)
        status = gyre_job_sum_wait(job, ticket, &error);
    return status == GYRE_E_PEER && strstr(error.text, "the same");
}

/* The last rank does something else: all have the sentence. */
static int ts_mistaken(void *user, struct gyre_job *job, int rank)
{
    const int what = *(const int *)user, odd = rank == gyre_job_ranks(job) - 1;
    void *first[2], *memory, *sums;
    struct gyre_error error = { 0 };
    for (int m = 0; m < 2; m++)
        if (gyre_job_memory(job, 300000, &first[m], NULL) != GYRE_OK)
            return 0;
    if (what >= TS_FEW)
        return ts_unlike(job, what, odd, first[1]);
    gyre_job_release(job, first[what == TS_RELEASED && odd]);
    const size_t bytes = what == TS_BYTES && odd ? 600000 : 64;
    const int status = what == TS_SHARED && odd
                           ? gyre_job_memory_shared(job, bytes, &memory, &sums, &error)
                           : gyre_job_memory(job, bytes, &memory, &error);
    return status == GYRE_E_MISMATCH && strstr(error.text, "memory for sums");
}

/* ---- jobs that processes open by themselves ---- */

#define TS_OWN 3

/* fn in so many processes, each a rank of one job. */
static int ts_run(int (*fn)(int rank))
{
    static int jobs;
    char name[64];
    int whole = 1;
    snprintf(name, sizeof name, "t_sums %ld %d", (long)getpid(), jobs++);
    fflush(stdout);
    for (int r = 0; r < TS_OWN; r++)
        if (fork() == 0) {
            test_be_rank(name, r, TS_OWN);
            _exit(fn(r) ? 0 : 1);
        }
    for (int r = 0; r < TS_OWN; r++) {
        int status = -1;
        whole &= wait(&status) > 0 && status == 0;
    }
    return whole;
}

/* A job with servers has no memory for sums: each call says so, in any order. */
static int ts_served(int rank)
{
    struct gyre_job_config c;
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    float data[4] = { 0 };
    int64_t ticket = 0;
    int done = 0;
    (void)rank;
    gyre_job_config_default(&c);
    c.servers = 1;
    c.sync = GYRE_SYNC_SERVER;
    if (gyre_job_open(&job, &c, &error) != GYRE_OK)
        return 0;
    const int right = gyre_job_sum_start(job, data, 4, &ticket, &error) == GYRE_E_UNSUPPORTED &&
                      gyre_job_sum_test(job, ticket, &done, &error) == GYRE_E_UNSUPPORTED &&
                      gyre_job_sum_wait(job, ticket, &error) == GYRE_E_UNSUPPORTED &&
                      strstr(error.text, "a job with servers has none") &&
                      gyre_job_end(job, &error) == GYRE_OK;
    gyre_job_close(job);
    return right;
}

/* Memory that nobody released goes with the job. */
static int ts_left(int rank)
{
    struct gyre_error error;
    struct gyre_job *job = NULL;
    void *memory = NULL;
    (void)rank;
    if (gyre_job_open(&job, NULL, &error) != GYRE_OK ||
        gyre_job_memory(job, 5 << 20, &memory, &error) != GYRE_OK)
        return 0;
    const int there = msync(memory, 1, MS_ASYNC) == 0,
        ended = gyre_job_end(job, &error) == GYRE_OK;
    gyre_job_close(job);
    return there && ended && msync(memory, 1, MS_ASYNC) != 0;
}

/* A rank that cannot open the network is named once. */
static int ts_transport(int rank)
{
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    (void)rank;
    setenv("GYRE_ALLREDUCE", "flat/ring", 1);
    setenv("GYRE_TRANSPORT", "pigeon", 1);
    return gyre_job_open(&job, NULL, &error) == GYRE_E_ARG && strstr(error.text, "pigeon") &&
           strncmp(error.text, "rank 0 on ", 10) == 0 && !strstr(error.text + 10, "rank 0 on ");
}

/* Values of servers that mean nothing. */
static void ts_configs(void)
{
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    for (int what = 0; what < 7; what++) {
        struct gyre_job_config c;
        gyre_job_config_default(&c);
        c.servers = what < 4;
        c.sync = what < 4 ? GYRE_SYNC_ASYNC : GYRE_SYNC_ALLREDUCE;
        c.staleness = what == 0 ? -2 : -1;
        c.stale_rate = what == 1 ? 2 : what == 2 ? -1 : 0;
        c.backup = what == 4;
        c.record = what == 3 || what == 5 ? "a" : NULL;
        c.replay = what == 3 || what == 6 ? "b" : NULL;
        T_CHECK_MSG(gyre_job_open(&job, &c, &error) == GYRE_E_ARG &&
                    strncmp(error.text, "job config: ", 12) == 0, "%d: %s", what, error.text);
    }
}

/* ---- all of it ---- */

static void ts_check_known(void)
{
    int alone = 1;
    struct gyre_job *job;
    struct gyre_error error;
    if (T_CHECK(gyre_job_open(&job, NULL, &error) == GYRE_OK)) {
        T_CHECK(ts_plain(&alone, job, 0));
        gyre_job_close(job);
    }
    setenv("GYRE_ALLREDUCE", "flat/doubling", 1);
    setenv("GYRE_TRANSPORT", "tcp", 1);
    T_CHECK(gr_run(2, ts_plain, &alone));
    T_CHECK(gr_run(3, ts_crossed, &alone));
    unsetenv("GYRE_TRANSPORT");
    unsetenv("GYRE_ALLREDUCE");
    alone = 0;
    T_CHECK(gr_run(2, ts_plain, &alone));
    T_CHECK(gr_run(3, ts_plain, &alone));
    T_CHECK(gr_run(3, ts_crossed, &alone));
}


static void ts_check(void)
{
    for (uint64_t seed = 0; seed < 8; seed++)
        T_CHECK_MSG(gr_run(2 + (int)seed % 4, ts_rank, &seed), "seed %d", (int)seed);
    for (int what = 0; what < TS_MISTAKES; what++)
        T_CHECK_MSG(gr_run(3, ts_mistaken, &what), "mistake %d", what);
}

int main(void)
{
    ts_check_known();
    ts_check();
    ts_configs();
    T_CHECK(ts_run(ts_served));
    T_CHECK(ts_run(ts_left));
    T_CHECK(ts_run(ts_transport));
    setenv("GYRE_ALLREDUCE", "flat/ring:2", 1);
    setenv("GYRE_TRANSPORT", "tcp", 1);
    ts_check();
    T_END("t_sums");
}
