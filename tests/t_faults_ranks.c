/* SPDX-License-Identifier: MIT */
/* t_faults_ranks.c: faults by count in sums over ranks. One of two ranks dies, or is told that a
 * sum failed, at its first, second, third ... sum. Or its device fails at the n-th call, or an
 * allocation or a mapping of it. The other rank is told, soon and by name where that is possible,
 * and nothing that it had taken stays. Nets are opened and step (with synchronised batch norms,
 * with shards, in mid-accumulation); linear models are trained. */
#include "tests/faults_device.h"

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/gyre_glm.h"
#include "engine/job/job.h"
#include "net/comm/host_memory.h"
#include "tests/t.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- sums that count ---- */

enum fk_mode { FK_DIES, FK_FAILS, FK_DEVICE, FK_MEMORY, FK_MAP };
static const char *const fk_modes[] = { "a rank died in a sum", "a sum failed", "a device failed", "an allocation failed", "memory could not be mapped" };
static const int fk_kinds[] = { 0, 0, FAULTS_DEVICE, FAULTS_MEMORY, FAULTS_READ };

/* What both ranks leave, in memory that the parent sees. */
struct fk_left {
    int call;          /* number of the call that is going on */
    int status;        /* of the first that failed, and which it was; -1: none */
    int failed_in;
    int64_t sums;      /* this rank's sums so far */
    int64_t bytes;     /* of the hook, in the end */
    int met;           /* the fault */
    char what[16];     /* failed: of the library's calls */
    char text[480];
};

static struct fk_left *fk_left;  /* [2] */
static struct fk_left *fk_own;   /* of this process */
static int64_t fk_fatal;         /* number of the sum that is this rank's last; -1: none */
static int fk_mode, fk_kind;
static int64_t fk_number;        /* of what is to fail */

static int fk_now(struct gy_error *err)
{
    if (fk_own->sums++ != fk_fatal)
        return GY_OK;
    fk_own->met = 1;
    if (fk_mode == FK_DIES)
        _exit(9);
    /* GY_E_PEER would lead to the question which rank is lost */
    return GY_FAIL(err, GY_E_BUG, "a fault was planted in a sum");
}

static int fk_allreduce(struct gy_net_host *node, float *data, int64_t count, struct gy_error *err)
{
    GY_TRY(fk_now(err));
    return gy_net_host_allreduce(node, data, count, err);
}

static int fk_outside(struct gy_net_host *node, float *data, int64_t count, struct gy_error *err)
{
    GY_TRY(fk_now(err));
    return gy_net_host_allreduce_outside(node, data, count, err);
}

static int fk_start(struct gy_net_host *node, float *data, int64_t count, int64_t *ticket, struct gy_error *err)
{
    GY_TRY(fk_now(err));
    return gy_net_host_start(node, data, count, ticket, err);
}

/* The job with these sums, in place of the library's. */
#define gy_net_host_allreduce fk_allreduce
#define gy_net_host_allreduce_outside fk_outside
#define gy_net_host_start fk_start
#include "engine/job/job.c"
#undef gy_net_host_allreduce
#undef gy_net_host_allreduce_outside
#undef gy_net_host_start

/* ---- what the ranks do ---- */

struct fk_case {
    const char *name;
    int sync_bn, shards, accumulate, glm;
    size_t bucket;
    int64_t least; /* sums that there are */
};

#define FK_BATCH 2
#define FK_PIXELS 48
#define FK_ROWS 2400
#define FK_STEPS 3

static int fk_told(int status, const struct gyre_error *error)
{
    if (status == GYRE_OK)
        return 1;
    fk_own->status = status;
    fk_own->failed_in = fk_own->call;
    memcpy(fk_own->text, error->text, sizeof fk_own->text);
    return 0;
}

static int fk_next(void)
{
    fk_own->call++;
    return 1;
}

static void fk_net(const struct fk_case *c, struct gyre_job *job, int rank)
{
    struct gyre_config config;
    struct gyre_error error = { 0 };
    struct gyre_net *net = NULL;
    float x[FK_BATCH * FK_PIXELS];
    int32_t label[FK_BATCH];
    gyre_config_default(&config);
    config.net = "input 4x4x3\nconv 4 3x3\nbn\nrelu\nlinear 3\nsoftmax\n";
    config.batch = FK_BATCH;
    config.threads = 1;
    config.job = job;
    config.sync_bn = c->sync_bn;
    config.shards = c->shards;
    config.accumulate = c->accumulate;
    config.bucket_bytes = c->bucket;
    config.memory.hook = faults_hook;
    for (int i = 0; i < FK_BATCH * FK_PIXELS; i++)
        x[i] = gy_rng_normal(1, 2, (uint64_t)rank, (uint64_t)i);
    for (int i = 0; i < FK_BATCH; i++)
        label[i] = (rank + i) % 3;
    const struct gyre_batch batch = { .x = x, .label = label, .count = FK_BATCH };
    if (fk_next() && fk_told(gyre_open(&net, &config, &error), &error)) {
        int good = 1;
        for (int s = 0; s < FK_STEPS && good; s++) {
            fk_next();
            const int status = gyre_step(net, &batch, NULL);
            good = fk_told(status, gyre_last_error(net));
        }
    }
    gyre_close(net);
}

static void fk_glm(struct gyre_job *job)
{
    static int64_t start[FK_ROWS + 1];
    static uint32_t id[FK_ROWS * 3];
    static float value[FK_ROWS * 3], label[FK_ROWS];
    struct gyre_glm_data rows;
    struct gyre_glm_config c;
    struct gyre_error error = { 0 };
    struct gyre_glm *model = NULL;
    for (int i = 0; i < FK_ROWS; i++) {
        float sum = 0;
        for (int k = 0; k < 3; k++) {
            id[3 * i + k] = (uint32_t)(k * 5 + (i * 7 + k) % 5);
            value[3 * i + k] = gy_rng_normal(3, 4, (uint64_t)i, (uint64_t)k);
            sum += value[3 * i + k] * (float)(k - 1);
        }
        start[i + 1] = 3 * (i + 1);
        label[i] = sum + gy_rng_normal(3, 5, (uint64_t)i, 0) > 0 ? 1.0f : -1.0f;
    }
    gyre_glm_data_default(&rows);
    rows.rows = FK_ROWS;
    rows.start = start;
    rows.id = id;
    rows.value = value;
    rows.label = label;
    gyre_glm_config_default(&c);
    c.train = &rows;
    c.solver = "sdca";
    c.threads = 1;
    c.job = job;
    c.gap = 0.01;
    c.memory.hook = faults_hook;
    fk_next();
    fk_told(gyre_glm_train(&model, &c, NULL, &error), &error);
    gyre_glm_close(model);
}

static void fk_set(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void fk_rank(const struct fk_case *c, int rank, const char *name)
{
    const struct gyre_job_config wait = { .size = sizeof wait, .wait_seconds = 30 };
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    fk_own = &fk_left[rank];
    fk_set("GYRE_RANK", rank);
    fk_set("GYRE_LOCAL_RANK", rank);
    fk_set("GYRE_RANKS", 2);
    fk_set("GYRE_LOCAL_RANKS", 2);
    setenv("GYRE_JOB", name, 1);
    /* before that, nobody knows of this rank */
    if (fk_told(gyre_job_open(&job, &wait, &error), &error)) {
        faults_begin(fk_kind, FAULTS_ONCE, fk_number);
        if (c->glm)
            fk_glm(job);
        else
            fk_net(c, job, rank);
        if (fk_own->failed_in < 0 && fk_next())
            fk_told(gyre_job_end(job, &error), &error);
    }
    gyre_job_close(job);
    fk_own->met |= faults_end() > 0;
    snprintf(fk_own->what, sizeof fk_own->what, "%s", faults.what ? faults.what : "");
    fk_own->bytes = faults.bytes;
}

/* ---- one rank is lost ---- */

/* How many ends were as they should be. 1: rank 1 met its last sum. */
static int fk_once(const struct fk_case *c, int mode, int64_t n)
{
    static int jobs;
    char name[64];
    pid_t pid[2];
    snprintf(name, sizeof name, "t_faults_ranks %ld %d", (long)getpid(), jobs++);
    memset(fk_left, 0, 2 * sizeof *fk_left);
    fflush(stdout);
    for (int r = 0; r < 2; r++) {
        fk_left[r].failed_in = -1;
        pid[r] = fork();
        if (pid[r] == 0) {
            fk_mode = mode;
            fk_number = n;
            fk_fatal = r == 1 && mode < FK_DEVICE ? n : -1;
            fk_kind = r == 1 ? fk_kinds[mode] : 0;
            fk_rank(c, r, name);
            _exit(0);
        }
    }
    int code[2] = { -1, -1 };
    const int64_t began = gy_clock_ns();
    /* whoever ends first: a process that nobody has waited for still looks alive */
    for (int k = 0, one; k < 2; k++) {
        const pid_t ended = waitpid(-1, &one, 0);
        code[ended == pid[1]] = one;
    }
    const double seconds = (double)(gy_clock_ns() - began) * 1e-9;
    const struct fk_left *const a = &fk_left[0], *const b = &fk_left[1];
    T_CHECK_MSG(seconds < 20, "%s, %" PRId64 ": rank 0 hears of it after %.1f s", c->name, n, seconds);
    T_CHECK_MSG(WIFEXITED(code[0]) && WEXITSTATUS(code[0]) == 0 && a->bytes == 0, "%s, sum %" PRId64 ": code %d, %" PRId64 " bytes", c->name, n, code[0],
                a->bytes);
    /* a failed read of the system's files does no harm */
    if (mode == FK_MAP && strcmp(b->what, "mmap") != 0) {
        T_CHECK_MSG(a->failed_in < 0 && b->failed_in < 0, "%s, %" PRId64 " (%s): %s%s", c->name, n, b->what, a->text, b->text);
        return b->met;
    }
    if (!b->met) {
        T_CHECK_MSG(a->failed_in < 0 && b->failed_in < 0, "%s: %s%s", c->name, a->text, b->text);
        return 0;
    }
    const int named = a->status == GYRE_E_PEER && strstr(a->text, "rank 1");
    T_CHECK_MSG(mode < FK_MEMORY ? named : a->status < 0 && a->text[0], "%s, sum %" PRId64 ": rank 0 says %d, '%s'", c->name, n, a->status, a->text);
    /* Rank 1 died in its sum number n, counted from 0. The host's board says so, long before the
     * next sign of life is due. */
    if (mode == FK_DIES) {
        char sum[64];
        snprintf(sum, sizeof sum, "has ended; it has not entered sum %" PRId64 ",", n + 2);
        T_CHECK_MSG(strstr(a->text, sum), "%s, %" PRId64 ": no '%s' in '%s'", c->name, n, sum, a->text);
    }
    /* Rank 0 may still be at the end of the sum before. It may go on until it needs rank 1, whose
     * device failed behind the last sum. */
    const int late = a->failed_in - b->call;
    T_CHECK_MSG(a->failed_in >= 0 && late <= (mode >= FK_DEVICE), "%s, %" PRId64 ": rank 1 was lost in call %d, rank 0 says so in call %d", c->name, n,
                b->call, a->failed_in);
    if (mode != FK_DIES)
        T_CHECK_MSG(b->status < 0 && b->text[0] && b->failed_in == b->call && b->bytes == 0, "%s, %" PRId64 ": rank 1 says %d, '%s'", c->name, n,
                    b->status, b->text);
    return 1;
}

/* Opening a net has many sums and calls of a device that are alike: of them some are enough. */
static void fk_all(const struct fk_case *c, int mode, int64_t least)
{
    const int64_t opening = c->glm ? 0 : mode == FK_DEVICE ? 60 : 26;
    int64_t n = 0;
    const int before = t_failed;
    while (fk_once(c, mode, n) && t_failed - before < 8)
        n += mode == FK_DEVICE ? (n < opening ? 20 : 4) : c->glm ? 3 : n < opening && mode < FK_DEVICE ? 6 : 1;
    printf("%s: %s, up to number %" PRId64 "\n", c->name, fk_modes[mode], n);
    T_CHECK_MSG(n >= least, "%s: only %" PRId64, c->name, n);
}

int main(void)
{
    static const struct fk_case cases[] = {
        { .name = "buckets", .accumulate = 1, .bucket = 16, .least = 30 },
        { .name = "synchronised norms", .sync_bn = 1, .accumulate = 2, .least = 30 },
        { .name = "shards", .shards = 2, .accumulate = 1, .least = 30 },
        { .name = "linear models", .glm = 1, .least = 10 },
    };
    FILE *const file = tmpfile();
    setvbuf(stdout, NULL, _IOLBF, 4096);
    fk_left = file && ftruncate(fileno(file), 2 * sizeof *fk_left) == 0
                  ? mmap(NULL, 2 * sizeof *fk_left, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0) : MAP_FAILED;
    if (!T_CHECK(fk_left != MAP_FAILED))
        return 1;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        fk_all(&cases[i], FK_DIES, cases[i].least);
        fk_all(&cases[i], FK_FAILS, cases[i].least);
        if (!cases[i].glm)
            fk_all(&cases[i], FK_DEVICE, 60);
        fk_all(&cases[i], FK_MEMORY, 10);
        fk_all(&cases[i], FK_MAP, 1);
    }
    T_END("t_faults_ranks");
}
