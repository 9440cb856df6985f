/* SPDX-License-Identifier: MIT */
/* t_outlive.c: jobs that outlive their ranks. 2 to 4 processes train 4 shards and some are killed,
 * rank 0 too. They are killed amid a sum, between two steps, together, and while the others come
 * together. It happens on one host and on several, behind the last step and in the last test. Each
 * run ends with the file of an undisturbed one. A rank that is lost before the first step may end
 * the job, with a sentence on each rank. GYRE_TEST_ALL=1: thirty kills and more, not a sample. */
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/gyre.h"
#include "engine/job/job.h"
#include "engine/job/newcomer.h"
#include "engine/train/outlive.h"
#include "tests/rank.h"
#include "tests/data_files.h"

#define OL_RANKS 4
#define OL_SHARDS 4
#define OL_BATCH 4
#define OL_SIDE 12
#define OL_SAMPLES 320
#define OL_EPOCHS 3
#define OL_STEPS (OL_EPOCHS * OL_SAMPLES / OL_SHARDS / OL_BATCH)
#define OL_OPENING 45  /* sums of a rank before its first step, at most */
#define OL_LATEST 180  /* sums that every rank reaches */
#define OL_LIMIT_NS 240000000000LL /* for a disk that is slow */

static const char ol_net[] = "input 12x12x1\nconv 8 3x3\nbn\nrelu\nconv 8 3x3 stride 2\nbn\nrelu\n"
                             "dropout 0.2\nlinear 4\nsoftmax\n";

/* What is planted in one run. */
struct ol_case {
    int ranks, least;
    char die[80];            /* "1:20,0:r1": enum ol_kind */
    int victim, at_step;     /* killed from outside once a step is done; victim -1: none */
    int killed;              /* how many die */
    int only_share;          /* they do not train */
    int flat;                /* each counts as a host */
    int wait;                /* seconds for a rank that does not come; 0: many */
    int64_t later;           /* ns from that step to the kill; at_step -1: from the start */
};

/* What the ranks leave. */
struct ol_left {
    int64_t step;            /* done, as rank 0 of the time said */
    int64_t first[OL_RANKS + 1]; /* when the first step with so many ranks was done; 0: never */
    char text[OL_RANKS][300];
};
static struct ol_left *ol_left;

/* ---- where a rank kills itself ---- */

/* N: as it begins its sum N; wN: waits for a sum; rN: is awaited at meeting N; vN: has its place
 * there; cN, oN: at the N-th call of the system, of meetings and of what opens the job. */
enum ol_kind { OL_SUM, OL_WAIT, OL_AMID, OL_BEHIND, OL_CALL, OL_OPEN, OL_KINDS };
static struct {
    int64_t left[OL_KINDS];  /* until then; 0: never */
    const struct gy_peers *real;
    struct gy_peers peers;
    int maps;                /* of this meeting */
} ol_plant;
static __thread int ol_inside; /* OL_CALL, OL_OPEN, or 0 */

static void ol_down(int kind)
{
    if (ol_plant.left[kind] == 0 || --ol_plant.left[kind] > 0)
        return;
    if (kind == OL_AMID)
        nanosleep(&(const struct timespec){ 0, 150000000 }, NULL); /* for the others to call */
    raise(SIGKILL);
}

static void ol_parse(const char *text, int rank)
{
    static const char letters[OL_KINDS] = { 0, 'w', 'r', 'v', 'c', 'o' };
    memset(&ol_plant, 0, sizeof ol_plant);
    for (const char *at = text; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char *end = NULL;
        int kind = OL_SUM;
        const long whose = strtol(at, &end, 10);
        for (int k = OL_WAIT; k < OL_KINDS; k++)
            kind = end[1] == letters[k] ? k : kind;
        if (whose == rank)
            ol_plant.left[kind] = strtol(end + 1 + (kind != OL_SUM), NULL, 10);
    }
}

#ifndef RTLD_NEXT
#define RTLD_NEXT ((void *)-1L) /* POSIX headers hide it */
#endif

/* A call of the system, of this program's own name; *out: the C library's. */
static void ol_system(const char *name, void *out, size_t bytes)
{
    void *const at = dlsym(RTLD_NEXT, name);
    if (!at)
        _exit(2);
    memcpy(out, &at, bytes);
    if (ol_inside)
        ol_down(ol_inside);
}

int connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
    int (*next)(int, const struct sockaddr *, socklen_t);
    ol_system("connect", &next, sizeof next);
    return next(fd, to, bytes);
}

int accept(int fd, struct sockaddr *from, socklen_t *bytes)
{
    int (*next)(int, struct sockaddr *, socklen_t *);
    ol_system("accept", &next, sizeof next);
    return next(fd, from, bytes);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
    int (*next)(int, int, int, const void *, socklen_t);
    ol_system("setsockopt", &next, sizeof next);
    return next(fd, level, name, value, bytes);
}

int close(int fd)
{
    int (*next)(int);
    ol_system("close", &next, sizeof next);
    return next(fd);
}

void *mmap(void *at, size_t bytes, int may, int flags, int fd, off_t from)
{
    void *(*next)(void *, size_t, int, int, int, off_t);
    ol_system("mmap", &next, sizeof next);
    if (ol_inside == OL_CALL && ol_plant.maps++ == 0)
        ol_down(OL_BEHIND);
    return next(at, bytes, may, flags, fd, from);
}

static int ol_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err)
{
    ol_down(OL_SUM);
    return ol_plant.real->sum(job, data, count, err);
}

static int ol_start(struct gyre_job *job, float *data, int64_t count, int64_t *ticket,
                    struct gy_error *err)
{
    ol_down(OL_SUM);
    return ol_plant.real->start(job, data, count, ticket, err);
}

static int ol_wait(struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    ol_down(OL_WAIT);
    return ol_plant.real->wait(job, ticket, err);
}

static int ol_reform(struct gyre_job *job, struct gy_error *err)
{
    ol_plant.maps = 0;
    ol_down(OL_AMID);
    ol_inside = OL_CALL;
    const int status = ol_plant.real->reform(job, err);
    ol_inside = 0;
    return status;
}

static void ol_watch(struct gyre_job *job)
{
    ol_plant.real = job->peers;
    ol_plant.peers = *job->peers;
    ol_plant.peers.sum = ol_sum;
    ol_plant.peers.start = ol_start;
    ol_plant.peers.wait = ol_wait;
    ol_plant.peers.reform = ol_reform;
    job->peers = &ol_plant.peers;
}

/* ---- a rank ---- */

static uint64_t ol_mix(uint64_t x) /* splitmix64 */
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int ol_progress(void *user, const struct gyre_progress *p)
{
    const int ranks = gyre_job_ranks(user);
    if (strcmp(p->event, "step") != 0)
        return 0;
    if (__atomic_load_n(&ol_left->first[ranks], __ATOMIC_RELAXED) == 0)
        __atomic_store_n(&ol_left->first[ranks], gy_clock_ns(), __ATOMIC_RELAXED);
    __atomic_store_n(&ol_left->step, p->step, __ATOMIC_RELEASE);
    return 0;
}

/* Room for one net, and for the tables of more shards, but not for two. */
static int ol_block(struct gyre_config *config, void **block, struct gyre_error *error)
{
    struct gyre_need need;
    GY_TRY(gyre_measure(config, &need, error));
    config->memory.block_bytes = need.host_bytes / 2 * 3;
    if (posix_memalign(block, GY_CACHE_LINE, config->memory.block_bytes) != 0)
        return GYRE_E_NOMEM;
    config->memory.block = *block;
    return GYRE_OK;
}

static int ol_train(struct gyre_job *job, const char *folder, struct gyre_error *error)
{
    struct gyre_data_config data;
    struct gyre_config config;
    struct gyre_train_config train;
    struct gyre_net *net = NULL;
    gyre_config_default(&config);
    gyre_data_config_default(&data);
    gyre_train_config_default(&train);
    config.net = ol_net;
    config.batch = OL_BATCH;
    config.shards = OL_SHARDS;
    config.threads = 1;
    config.job = job;
    config.bucket_bytes = 1024;
    config.input = GYRE_INPUT_U8;
    config.optimizer.ema = 0.9f;
    data.path = df_root;
    data.split = "train";
    train.epochs = OL_EPOCHS;
    train.folder = folder;
    train.checkpoint_steps = 13;
    train.augment.pad = 1;
    train.augment.mixup = 0.2f;
    train.progress = ol_progress;
    train.user = job;
    GY_TRY(gyre_open_data(&train.train, &data, error));
    train.test = train.train;
    void *block = NULL;
    int status = gyre_job_rank(job) % 2 ? ol_block(&config, &block, error) : GYRE_OK;
    status = status == GYRE_OK ? gyre_open(&net, &config, error) : status;
    if (status == GYRE_OK && (status = gyre_train(net, &train)) != GYRE_OK)
        *error = *gyre_last_error(net);
    gyre_close(net);
    free(block);
    gyre_close_data(train.train);
    return status;
}

/* Two of three ranks are one update ahead. All must get what the first of these two has, bit for
 * bit. */
static int ol_share_rank(struct gyre_job *job, int rank, struct gyre_error *error)
{
    static const int64_t updates[] = { 5, 6, 6 };
    static const int region[] = { GY_AT_PARAM, GY_AT_OPT1, GY_AT_EMA, GY_AT_STATE };
    struct gyre_config config;
    struct gyre_net *net = NULL;
    int state[3] = { rank, 77 * rank, -rank }, wrong = 0;
    gyre_config_default(&config);
    config.net = ol_net;
    config.batch = OL_BATCH;
    config.shards = OL_SHARDS;
    config.job = job;
    config.optimizer.ema = 0.9f;
    GY_TRY(gyre_open(&net, &config, error));
    for (size_t i = 0; i < GY_COUNT(region); i++)
        for (size_t k = 0; k < net->plan.region_bytes[region[i]]; k++)
            ((unsigned char *)net->base[region[i]])[k] = (unsigned char)ol_mix((uint64_t)rank * 99999 + i * 999 + k);
    net->micro = net->updates = updates[rank];
    int status = gy_outlive_share(net, state, sizeof state);
    for (size_t i = 0; i < GY_COUNT(region); i++)
        for (size_t k = 0; k < net->plan.region_bytes[region[i]]; k++)
            wrong += ((unsigned char *)net->base[region[i]])[k] != (unsigned char)ol_mix(99999 + i * 999 + k);
    wrong += net->micro != 6 || net->updates != 6 || state[0] != 1 || state[1] != 77 || state[2] != -1;
    gyre_close(net);
    return status != GYRE_OK ? status : wrong ? GYRE_E_MISMATCH : GYRE_OK;
}

static int ol_rank(const struct ol_case *c, int rank, const char *name, const char *folder)
{
    struct gyre_job_config config;
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    gyre_job_config_default(&config);
    config.wait_seconds = c->wait ? c->wait : 30;
    config.elastic_least = c->least;
    config.elastic_most = OL_RANKS;
    test_be_rank(name, rank, c->ranks);
    ol_parse(c->die, rank);
    setenv("GYRE_ALLREDUCE", c->flat ? "flat/doubling" : "", 1);
    ol_inside = OL_OPEN;
    int status = gyre_job_open(&job, &config, &error);
    ol_inside = 0;
    if (status == GYRE_OK)
        ol_watch(job);
    if (status == GYRE_OK)
        status = c->only_share ? ol_share_rank(job, rank, &error) : ol_train(job, folder, &error);
    if (status == GYRE_OK)
        status = gyre_job_end(job, &error);
    snprintf(ol_left->text[rank], sizeof ol_left->text[rank], "%.299s", error.text);
    gyre_job_close(job);
    return status;
}

/* ---- a run ---- */

struct ol_run {
    pid_t pid[OL_RANKS];
    int status[OL_RANKS];    /* of wait */
    int64_t died;            /* when the last one was killed */
    int left;
};

static void ol_reap(struct ol_run *run)
{
    int status;
    for (pid_t pid; run->left > 0 && (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int r = 0; r < OL_RANKS; r++)
            if (run->pid[r] == pid) {
                run->status[r] = status;
                run->pid[r] = 0;
                run->left--;
                run->died = WIFSIGNALED(status) ? gy_clock_ns() : run->died;
            }
}

/* Returns when all have ended; who does not in time is killed. */
static void ol_go(const struct ol_case *c, const char *folder, uint64_t seed, struct ol_run *run)
{
    static int jobs;
    char name[64];
    snprintf(name, sizeof name, "t_outlive %ld %d", (long)getpid(), jobs++);
    memset(ol_left, 0, sizeof *ol_left);
    *run = (struct ol_run){ .left = c->ranks };
    fflush(stdout);
    for (int r = 0; r < c->ranks; r++)
        if ((run->pid[r] = fork()) == 0)
            _exit(ol_rank(c, r, name, folder) == GYRE_OK ? 0 : 1);
    const int64_t deadline = gy_clock_ns() + OL_LIMIT_NS;
    for (int struck = c->victim < 0; run->left > 0;) {
        if (!struck && __atomic_load_n(&ol_left->step, __ATOMIC_ACQUIRE) >= c->at_step) {
            const int64_t later = c->later ? c->later : (int64_t)(seed % 3000) * 1000;
            nanosleep(&(const struct timespec){ 0, (long)later }, NULL);
            if (run->pid[c->victim] > 0)
                kill(run->pid[c->victim], SIGKILL);
            struck = 1;
        }
        for (int r = 0; r < c->ranks && gy_clock_ns() > deadline; r++)
            if (run->pid[r] > 0)
                kill(run->pid[r], SIGKILL);
        ol_reap(run);
        nanosleep(&(const struct timespec){ 0, 100000 }, NULL);
    }
}

static void ol_hash(const char *folder, char hex[65])
{
    const struct gy_alloc alloc = gy_alloc_default();
    char path[600], *text = NULL;
    unsigned char digest[32];
    struct gy_sha256 sha;
    size_t bytes = 0;
    hex[0] = 0;
    snprintf(path, sizeof path, "%s/checkpoint-%d.safetensors", folder, OL_STEPS);
    if (gy_file_read(&alloc, path, (size_t)1 << 24, &text, &bytes, NULL) != GY_OK)
        return;
    gy_sha256_open(&sha);
    gy_sha256_add(&sha, text, bytes);
    gy_sha256_close(&sha, digest);
    gy_sha256_hex(digest, hex);
    gy_alloc_free(&alloc, text, bytes + 1);
}

/* Rows of the metrics: each step once, in order, whoever wrote them. */
static int ol_rows(const char *folder)
{
    char path[600], line[400];
    long last = 0, step;
    int rows = 0;
    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    FILE *const file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%ld", &step) == 1) {
            rows = step > last ? rows + 1 : -1000;
            last = step;
        }
    if (file)
        fclose(file);
    return last == OL_STEPS ? rows : -1;
}

static char ol_want[65];
static int ol_want_rows;

/* From a death to the next step, by who died and when. */
enum ol_when {
    OL_WORKER_SUMS, OL_WORKER_BETWEEN, OL_FIRST_SUMS, OL_FIRST_BETWEEN, OL_TWO, OL_WHENS
};
static const char *const ol_names[OL_WHENS] = { "a worker, during sums", "a worker, from outside",
                                                "rank 0, during sums", "rank 0, from outside",
                                                "two ranks" };
static double ol_took[OL_WHENS + 1][128];
static int ol_count[OL_WHENS + 1], ol_ended; /* the last row: all; runs that ended with sentences */

static void ol_add(const struct ol_case *c, double ms)
{
    const int rank = c->victim >= 0 ? c->victim : (int)strtol(c->die, NULL, 10);
    const int when = c->killed > 1 ? OL_TWO : 2 * (rank == 0) + (c->victim >= 0);
    const int rows[] = { when, OL_WHENS };
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        if (ol_count[rows[i]] < (int)GY_COUNT(ol_took[0]))
            ol_took[rows[i]][ol_count[rows[i]]++] = ms;
}

static int ol_less(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void ol_table(void)
{
    printf("%-26s %5s %9s %9s\n", "lost", "runs", "median ms", "worst ms");
    for (int i = 0; i <= OL_WHENS; i++) {
        const int count = ol_count[i];
        qsort(ol_took[i], (size_t)count, sizeof ol_took[i][0], ol_less);
        if (count > 0)
            printf("%-26s %5d %9.0f %9.0f\n", i < OL_WHENS ? ol_names[i] : "all", count,
                   ol_took[i][count / 2], ol_took[i][count - 1]);
    }
    printf("%d runs without a first step ended with a sentence on each rank\n", ol_ended);
}

/* How the ranks of a run ended. */
struct ol_ends {
    int killed, well, told; /* told: a failure, with a sentence */
};

static struct ol_ends ol_ends(const struct ol_case *c, const struct ol_run *run)
{
    struct ol_ends e = { 0, 0, 0 };
    for (int r = 0; r < c->ranks; r++) {
        const int code = WIFEXITED(run->status[r]) ? WEXITSTATUS(run->status[r]) : -1;
        e.killed += WIFSIGNALED(run->status[r]);
        e.well += code == 0;
        e.told += code == 1 && ol_left->text[r][0] != 0;
    }
    return e;
}

/* A kill from outside may come when all is over, and some points are seldom reached. */
static int ol_is_chance(const struct ol_case *c)
{
    return c->victim >= 0 || strpbrk(c->die, "wco") != NULL;
}

static void ol_check(const struct ol_case *c, uint64_t seed)
{
    struct ol_run run;
    const char *const folder = df_path("run");
    char hex[65], what[160];
    df_remove(folder);
    ol_go(c, folder, seed, &run);
    ol_hash(folder, hex);
    const struct ol_ends e = ol_ends(c, &run);
    snprintf(what, sizeof what, "seed %d, %d ranks, die '%s', kill %d at %d + %" PRId64 " us",
             (int)seed, c->ranks, c->die, c->victim, c->at_step, c->later / 1000);
    const int right = e.killed == c->killed || (ol_is_chance(c) && e.killed < c->killed);
    T_CHECK_MSG(right, "%s: %d killed", what, e.killed);
    const int64_t began = ol_left->first[c->ranks];
    if (e.killed > 0 && e.told == c->ranks - e.killed && (began == 0 || began > run.died)) {
        ol_ended++;
        return;
    }
    T_CHECK_MSG(e.well == c->ranks - e.killed, "%s: %d killed, %d well: %s|%s|%s|%s", what,
                e.killed, e.well, ol_left->text[0], ol_left->text[1], ol_left->text[2], ol_left->text[3]);
    T_CHECK_MSG(strcmp(hex, ol_want) == 0, "%s: %s", what, hex[0] ? "other bits" : "no file");
    T_CHECK_MSG(ol_rows(folder) == ol_want_rows, "%s: %d rows, not %d", what, ol_rows(folder),
                ol_want_rows);
    const int64_t next = ol_left->first[c->ranks - e.killed];
    if (e.killed == c->killed && c->killed <= 2 && next > run.died)
        ol_add(c, (double)(next - run.died) * 1e-6);
}

/* ---- cases ---- */

/* One process dies, or two do: amid sums, from outside, or one while the others come together. */
static struct ol_case ol_random(uint64_t seed)
{
    const uint64_t a = ol_mix(seed), b = ol_mix(a), d = ol_mix(b);
    struct ol_case c = { .ranks = 2 + (int)(a % 3), .least = 1, .victim = -1, .killed = 1 };
    const int first = (int)((a >> 8) % (uint64_t)c.ranks), second = (first + 1) % c.ranks;
    const int sum = OL_OPENING + (int)(b % (OL_LATEST - OL_OPENING));
    if (a >> 20 & 1)
        snprintf(c.die, sizeof c.die, "%d:%d", first, sum);
    else {
        c.victim = first;
        c.at_step = 1 + (int)(b % (OL_STEPS * 3 / 4));
    }
    if (c.ranks < 3 || a >> 24 & 1)
        return c;
    const char *const how[] = { "r1", "v1", "sum" };
    const size_t at = strlen(c.die);
    c.killed = 2;
    if (d % 3 == 2)
        snprintf(c.die + at, sizeof c.die - at, "%s%d:%d", at ? "," : "", second, sum);
    else
        snprintf(c.die + at, sizeof c.die - at, "%s%d:%s", at ? "," : "", second, how[d % 3]);
    return c;
}

/* Before the first step: while the ranks meet, or agree. */
static struct ol_case ol_early(uint64_t seed)
{
    const uint64_t a = ol_mix(seed), b = ol_mix(a);
    struct ol_case c = { .ranks = 2 + (int)(a % 3), .least = 1, .victim = -1, .killed = 1 };
    const int rank = (int)((a >> 8) % (uint64_t)c.ranks);
    c.wait = 6;
    if (b % 3 == 0)
        snprintf(c.die, sizeof c.die, "%d:o%d", rank, 1 + (int)(b / 3 % 40));
    else if (b % 3 == 1)
        snprintf(c.die, sizeof c.die, "%d:%d", rank, 1 + (int)(b / 3 % OL_OPENING));
    else {
        c.victim = rank;
        c.at_step = -1;
        c.later = 1 + (int64_t)(b / 3 % 400000) * 1000;
    }
    return c;
}

/* In the last step, the last test, or behind it. */
static struct ol_case ol_late(uint64_t seed)
{
    const uint64_t a = ol_mix(seed), b = ol_mix(a);
    struct ol_case c = { .ranks = 2 + (int)(a % 3), .least = 1, .killed = 1 };
    c.victim = (int)((a >> 8) % (uint64_t)c.ranks);
    c.at_step = OL_STEPS - (int)(b % 3 == 0);
    c.later = 1 + (int64_t)(b / 3 % 20000) * 1000;
    return c;
}

/* A second one while those that are left come together, at any point of that. */
static struct ol_case ol_again(uint64_t seed)
{
    const uint64_t a = ol_mix(seed), b = ol_mix(a);
    struct ol_case c = { .ranks = 3 + (int)(a % 2), .least = 1, .victim = -1, .killed = 2 };
    const int first = (int)((a >> 8) % (uint64_t)c.ranks);
    const int second = (first + 1 + (int)((a >> 16) % (uint64_t)(c.ranks - 1))) % c.ranks;
    snprintf(c.die, sizeof c.die, "%d:%d,%d:c%d", first, OL_OPENING + (int)(b % 100), second,
             1 + (int)(b / 100 % 60));
    return c;
}

/* By hand: each rank of two, and those that a random case seldom has. */
static const struct ol_case ol_cases[] = {
    { .ranks = 2, .least = 1, .die = "1:60", .victim = -1, .killed = 1 },
    { .ranks = 2, .least = 1, .die = "0:60", .victim = -1, .killed = 1 },
    { .ranks = 4, .least = 1, .die = "3:70", .victim = -1, .killed = 1 },
    { .ranks = 4, .least = 1, .die = "0:70", .victim = -1, .killed = 1 },
    { .ranks = 3, .least = 1, .die = "2:w9", .victim = -1, .killed = 1 }, /* some sums are there */
    { .ranks = 3, .least = 1, .die = "1:w20,0:w24", .victim = -1, .killed = 2 },
    { .ranks = 4, .least = 1, .die = "0:70,1:70", .victim = -1, .killed = 2 }, /* together */
    { .ranks = 4, .least = 1, .die = "3:70,0:r1", .victim = -1, .killed = 2 }, /* leader, amid it */
    { .ranks = 4, .least = 1, .die = "3:70,0:v1", .victim = -1, .killed = 2 }, /* and behind it */
    { .ranks = 4, .least = 1, .die = "0:70,1:r1,2:v1", .victim = -1, .killed = 3 },
    { .ranks = 4, .least = 1, .die = "3:70", .victim = -1, .killed = 1, .flat = 1 }, /* on hosts */
    { .ranks = 4, .least = 1, .die = "0:70,1:70", .victim = -1, .killed = 2, .flat = 1 },
    { .ranks = 3, .least = 1, .die = "0:90", .victim = -1, .killed = 1, .flat = 1 },
};

static void ol_share(void)
{
    const struct ol_case c = { .ranks = 3, .least = 1, .victim = -1, .only_share = 1 };
    struct ol_run run;
    ol_go(&c, "", 0, &run);
    for (int r = 0; r < 3; r++)
        T_CHECK_MSG(WIFEXITED(run.status[r]) && WEXITSTATUS(run.status[r]) == 0, "rank %d: %s", r, ol_left->text[r]);
}

/* ---- a step that breaks amid its sums ---- */

static int ol_fake_sum(struct gyre_job *job, float *data, int64_t count, struct gy_error *err)
{
    (void)job, (void)data, (void)count, (void)err;
    return GY_OK;
}
static int ol_fake_agree(struct gyre_job *job, const char *what, uint64_t value, struct gy_error *err)
{
    (void)job, (void)what, (void)value, (void)err;
    return GY_OK;
}
static int ol_fake_deal(struct gyre_job *job, int shards, int *first, int *count, struct gy_error *err)
{
    (void)job, (void)err;
    *first = 0;
    *count = shards / 2;
    return GY_OK;
}
static int ol_fake_take(struct gyre_job *job, size_t bytes, void **out, void **sums, struct gy_error *err)
{
    (void)sums, (void)err;
    if (posix_memalign(out, 64, bytes) != 0)
        *out = NULL;
    job->fd = 0;
    return *out ? GY_OK : GY_E_NOMEM;
}
static void ol_fake_put(struct gyre_job *job, void *memory) { (void)job, free(memory); }
static void ol_fake_turn(struct gyre_job *job, const void *memory, int sums) { (void)job, (void)memory, (void)sums; }
static int ol_fake_start(struct gyre_job *job, float *data, int64_t count, int64_t *ticket, struct gy_error *err)
{
    (void)data, (void)count, (void)err;
    *ticket = job->fd++;
    return GY_OK;
}
static int ol_fake_test(struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    (void)job, (void)ticket, (void)err;
    return 0;
}
static int ol_fake_wait(struct gyre_job *job, int64_t ticket, struct gy_error *err)
{
    return ticket + 1 < job->fd ? GY_OK : GY_FAIL(err, GY_E_PEER, "rank 1 was lost");
}

static void ol_fake_note(struct gyre_job *job, int note, int ended, int64_t step)
{
    (void)job, (void)note, (void)ended, (void)step;
}

/* The last sum of the step never comes. Returns 1 where weights were touched. */
static int ol_breaks(int elastic)
{
    static const struct gy_peers peers = { .sum = ol_fake_sum, .agree = ol_fake_agree, .deal = ol_fake_deal, .take = ol_fake_take, .put = ol_fake_put,
                                           .turn = ol_fake_turn, .start = ol_fake_start, .test = ol_fake_test, .wait = ol_fake_wait,
                                           .note = ol_fake_note };
    static unsigned char images[2 * OL_BATCH * OL_SIDE * OL_SIDE], before[1 << 20];
    static const int32_t labels[2 * OL_BATCH] = { 0, 1, 2, 3, 0, 1, 2, 3 };
    const struct gyre_batch batch = { .x = images, .label = labels, .count = 2 * OL_BATCH };
    struct gyre_job job = { .peers = &peers, .ranks = 2, .locals = 2, .hosts = 1, .elastic = elastic };
    struct gyre_config config;
    struct gyre_net *net = NULL;
    gyre_config_default(&config);
    config.net = ol_net;
    config.input = GYRE_INPUT_U8;
    config.batch = OL_BATCH;
    config.shards = OL_SHARDS;
    config.bucket_bytes = 1024;
    config.job = &job;
    config.threads = 1;
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (unsigned char)ol_mix(i);
    if (!T_CHECK(gyre_open(&net, &config, NULL) == GYRE_OK))
        return -1;
    const size_t bytes = net->plan.region_bytes[GY_AT_PARAM];
    T_CHECK(bytes < sizeof before && net->plan.bucket_count > 2);
    memcpy(before, net->base[GY_AT_PARAM], bytes);
    T_CHECK(gyre_step(net, &batch, NULL) == GYRE_E_PEER);
    const int touched = memcmp(before, net->base[GY_AT_PARAM], bytes) != 0;
    gyre_close(net);
    return touched;
}

/* Fewer are left than the job needs: each says so, and ends. */
static void ol_too_few(void)
{
    const struct ol_case c = { .ranks = 3, .least = 3, .die = "1:60", .victim = -1 };
    struct ol_run run;
    df_remove(df_path("run"));
    ol_go(&c, df_path("run"), 0, &run);
    for (int r = 0; r < 3; r += 2) {
        T_CHECK(WIFEXITED(run.status[r]) && WEXITSTATUS(run.status[r]) == 1);
        T_CHECK_MSG(strcmp(ol_left->text[r], "2 of 3 ranks are left; the job needs 3") == 0,
                    "rank %d says: %s", r, ol_left->text[r]);
    }
}

/* A newcomer calls those of its list in turn, each round for longer. */
static void ol_newcomer(void)
{
    static const int seconds[] = { 1, 1, 1, 2, 2, 2, 4, 4, 4, 5, 5, 5 };
    struct gy_newcomer n;
    char host[GY_NEWCOMER_HOST], want[2] = "a";
    int64_t patience = 0;
    int port = 0;
    gy_newcomer_begin(&n, "a:11,b:12,[c]:13", 5000000000);
    for (size_t i = 0; i < GY_COUNT(seconds); i++) {
        want[0] = (char)('a' + i % 3);
        T_CHECK(gy_newcomer_next(&n, host, &port, &patience, NULL) == GY_OK);
        T_CHECK(strcmp(host, want) == 0 && port == 11 + (int)(i % 3));
        T_CHECK(patience == seconds[i] * INT64_C(1000000000) && !gy_newcomer_is_late(&n));
    }
    gy_newcomer_begin(&n, "a:11", 5000000000);
    T_CHECK(gy_newcomer_next(&n, host, &port, &patience, NULL) == GY_OK && patience == 5000000000);
    gy_newcomer_begin(&n, "nowhere", 1);
    T_CHECK(gy_newcomer_next(&n, host, &port, &patience, NULL) != GY_OK);
}

/* ---- what they train on ---- */

static void ol_data(void)
{
    static unsigned char images[16 + OL_SAMPLES * OL_SIDE * OL_SIDE], labels[8 + OL_SAMPLES];
    const unsigned char head[16] = { 0, 0, 8, 3, 0, 0, OL_SAMPLES >> 8, OL_SAMPLES & 255,
                                     0, 0, 0, OL_SIDE, 0, 0, 0, OL_SIDE };
    memcpy(images, head, 16);
    memcpy(labels, head, 8);
    labels[3] = 1;
    for (int i = 0; i < OL_SAMPLES; i++) {
        labels[8 + i] = (unsigned char)(ol_mix((uint64_t)i) % 4);
        for (int k = 0; k < OL_SIDE * OL_SIDE; k++)
            images[16 + i * OL_SIDE * OL_SIDE + k] =
                (unsigned char)(40 * (k % (2 + labels[8 + i])) + ol_mix((uint64_t)(i * 999 + k)) % 60);
    }
    df_write("train-images-idx3-ubyte", images, sizeof images);
    df_write("train-labels-idx1-ubyte", labels, sizeof labels);
}

static const struct ol_kind_of_case {
    const char *name;
    struct ol_case (*make)(uint64_t seed);
    int some, all;           /* cases of a sample; of the whole test */
} ol_makes[] = { { "early", ol_early, 3, 20 }, { "late", ol_late, 2, 20 },
                 { "again", ol_again, 2, 20 }, { "random", ol_random, 4, 30 } };

/* The last kind is the one whose times are shown. */
static void ol_random_cases(int whole)
{
    for (size_t i = 0; i < GY_COUNT(ol_makes); i++) {
        const int count = whole ? ol_makes[i].all : ol_makes[i].some;
        memset(ol_count, 0, sizeof ol_count);
        for (int k = 1; k <= count; k++) {
            const struct ol_case c = ol_makes[i].make((uint64_t)k);
            ol_check(&c, (uint64_t)k);
        }
    }
    ol_table();
}

/* One of them again, as a message names it. */
static void ol_one(const char *name, const char *seed, int times)
{
    for (size_t i = 0; i < GY_COUNT(ol_makes); i++)
        for (int k = 0; k < times && strcmp(name, ol_makes[i].name) == 0; k++) {
            const uint64_t number = strtoull(seed, NULL, 10);
            const struct ol_case c = ol_makes[i].make(number);
            ol_check(&c, number);
        }
}

static void ol_all(int count, char **args)
{
    const char *const all = getenv("GYRE_TEST_ALL");
    const struct ol_case plain = { .ranks = 1, .least = 1, .victim = -1 };
    struct ol_run run;
    ol_data();
    ol_go(&plain, df_path("one"), 0, &run);
    ol_hash(df_path("one"), ol_want);
    ol_want_rows = ol_rows(df_path("one"));
    if (!T_CHECK(ol_want[0] != 0 && ol_want_rows > 5))
        return;
    if (count > 2) {
        ol_one(args[1], args[2], count > 3 ? atoi(args[3]) : 1);
        return;
    }
    for (size_t i = 0; i < GY_COUNT(ol_cases); i++)
        ol_check(&ol_cases[i], i);
    ol_too_few();
    ol_share();
    ol_newcomer();
    T_CHECK(ol_breaks(0) == 1 && ol_breaks(1) == 0);
    ol_random_cases(all && all[0] == '1');
}

/* Or: t_outlive early|late|again|random SEED [TIMES] */
int main(int count, char **args)
{
    FILE *const file = tmpfile();
    void *const at = file && ftruncate(fileno(file), sizeof *ol_left) == 0
                         ? mmap(NULL, sizeof *ol_left, PROT_READ | PROT_WRITE, MAP_SHARED,
                                fileno(file), 0) : MAP_FAILED;
    if (at == MAP_FAILED)
        return 1;
    ol_left = at;
    df_open();
    ol_all(count, args);
    df_remove(df_root);
    T_END("t_outlive");
}
