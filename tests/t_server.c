/* SPDX-License-Identifier: MIT */
/* t_server.c: parameter servers. Random nets with random options: two and four workers with one and
 * two servers have the bits of one process, weights and the optimiser's state. Workers are not in
 * step: a record that is replayed gives the same bits. Workers are lost, worker 0 as well: the
 * others continue. Frames come twice, late, damaged or of another run, or a worker is of another
 * net or of other data. Each ends the job with one sentence on every rank. Slices, ledger and
 * records by themselves: each float has one server, no worker waits for ever. None is further ahead
 * than it may be, though some go and come back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/gyre_job.h"
#include "engine/job/served_parts.h"
#include "engine/train/train_served.h"
#include "net/server/arrivals.h"
#include "tests/random_net.h"
#include "tests/server_kill.h"
#include "tests/rank.h"
#include "tests/t.h"

#define SV_RANKS 6
#define SV_STEPS 4

enum sv_fault { SV_NONE, SV_TWICE, SV_OLD, SV_OTHER, SV_DAMAGED, SV_LONG_GONE, SV_NET, SV_DATA,
                SV_ROLES };

struct sv_case {
    const char *net;
    int batch, workers, servers, shards, optimizer, nesterov, steps, sync, backup, fault, slow;
    int64_t staleness;
    float ema, decay;
    size_t bucket;
    uint64_t seed;
    const char *record, *replay, *die; /* die: RANK:N, ... of all ranks, see sv_watch */
    int dead;                          /* workers that it kills, as bits */
};

struct sv_left {
    int status;
    char text[480];
    unsigned char digest[32]; /* of all that a checkpoint of worker 0 would have */
    struct gy_served_report report;
    int64_t version; /* of the weights of slice 0 that worker 0 has at its end */
};
static struct sv_left *sv_left; /* [SV_RANKS], shared: workers, then servers */
static char sv_folder[64];

static const char sv_text[] = "input 6x6x2\nconv1: conv 8 3x3\nbn1: bn\nrelu\ndropout 0.2\nfc: "
    "linear 5\nsoftmax\n";
/* another one of the same sizes */
static const char sv_other[] = "input 6x6x2\nconv1: conv 8 3x3\nbn1: bn\nrelu\ndropout 0.3\nfc: "
    "linear 5\nsoftmax\n";

/* ---- one rank ---- */

static void sv_config(struct gyre_config *config, const struct sv_case *c)
{
    gyre_config_default(config);
    config->net = c->net;
    config->batch = c->batch;
    config->threads = 1;
    config->shards = c->shards;
    config->bucket_bytes = c->bucket;
    config->seed = c->seed;
    config->schedule = (struct gyre_schedule){ .kind = GYRE_COSINE,
                                               .rate = c->optimizer == GYRE_LARS ? 0.5f : 0.01f,
                                               .steps = 100, .power = 2, .gamma = 0.1f };
    config->optimizer.kind = c->optimizer;
    config->optimizer.nesterov = c->nesterov;
    config->optimizer.ema = c->ema;
    config->optimizer.weight_decay = c->decay;
}

/* The samples of one step: of all shards, of which this rank takes its own. */
static int sv_step(struct gyre_net *net, const struct sv_case *c, int step, int first, int count)
{
    struct gyre_shape shape;
    gyre_get_shape(net, &shape);
    const int pixels = shape.h * shape.w * shape.c;
    float *const x = malloc((size_t)count * (size_t)pixels * sizeof *x);
    int32_t *const label = malloc((size_t)count * sizeof *label);
    int status = x && label ? GYRE_OK : GYRE_E_NOMEM;
    for (int i = 0; i < count && status == GYRE_OK; i++) {
        struct random_draw d = { c->seed * 1000003 + (uint64_t)step * 4099 + (uint64_t)(first + i) };
        label[i] = random_below(&d, shape.classes);
        for (int k = 0; k < pixels; k++)
            x[(size_t)i * (size_t)pixels + (size_t)k] = (float)random_real(&d, -1,
                    1) + 0.2f * (float)label[i];
    }
    const struct gyre_batch batch = { .x = x, .label = label, .count = count };
    if (status == GYRE_OK)
        status = gyre_step(net, &batch, NULL);
    free(label);
    free(x);
    return status;
}

static void sv_digest(struct gyre_net *net, unsigned char digest[32])
{
    static const char *const prefix[] = { "", "momentum.", "second.", "ema." };
    struct gyre_tensor_info info;
    struct gy_sha256 sha;
    gy_sha256_open(&sha);
    for (int i = 0; i < gyre_tensor_count(net); i++)
        for (size_t p = 0; p < GY_COUNT(prefix); p++) {
            char name[400];
            gyre_tensor_at(net, i, &info);
            snprintf(name, sizeof name, "%s%s", prefix[p], info.name);
            float *const values = calloc((size_t)info.count, sizeof *values);
            if (values && gyre_get_tensor(net, name, values, info.count) == GYRE_OK)
                gy_sha256_add(&sha, values, (size_t)info.count * sizeof *values);
            free(values);
        }
    gy_sha256_close(&sha, digest);
}

/* A worker sends once more what it sent, or something that was never sent so. */
static int sv_plant(struct gyre_job *job, int fault, struct gy_server_frame *kept,
                    struct gy_error *err)
{
    struct gy_served *const s = job->served;
    struct gy_served_lane *const lane = &s->lanes[0];
    struct gy_net_request out = { .sends = 1, .peer = gy_served_rank(s, s->slices[0].server),
                                  .tag = GY_SERVED_SLICES, .buffer = lane->give,
                                  .bytes = lane->bytes };
    if (fault == SV_OLD)
        *lane->give = *kept;
    if (fault == SV_OTHER) {
        lane->give->number++;
        lane->give->run ^= 1;
        gy_server_seal(lane->give);
    }
    if (fault == SV_DAMAGED)
        lane->give->version ^= 1;
    if (fault == SV_LONG_GONE) {
        lane->give->number++;
        lane->give->version -= 2;
        gy_server_seal(lane->give);
    }
    const int status = s->all->peers->post(s->all, &out, err);
    return status == GY_OK ? s->all->peers->await(s->all, &out, err) : status;
}

static int sv_work(struct gyre_net *net, struct gyre_job *job, const struct sv_case *c,
                   struct gy_train_served *served)
{
    const int ranks = gyre_job_ranks(job), rank = gyre_job_rank(job);
    const int shards = c->shards ? c->shards : ranks, count = shards / ranks * c->batch;
    const struct timespec pause = { 0, 20000000 };
    struct gy_server_frame kept = { 0 };
    int status = GYRE_OK;
    for (int step = 0; step < c->steps && status == GYRE_OK; step++) {
        status = sv_step(net, c, step, rank * count, count);
        if (c->slow && rank == 2)
            nanosleep(&pause, NULL);
        if (step == 0 && job)
            kept = *job->served->lanes[0].give;
        if (c->fault && c->fault < SV_NET && rank == 1 && step == 2 && status == GYRE_OK)
            status = sv_plant(job, c->fault, &kept, &net->error);
    }
    (void)served;
    return status;
}

/* Who leads gets all of it, and has it before the others end. */
static int sv_leave(struct gyre_net *net, struct gy_train_served *served, struct sv_left *left)
{
    int status, leads = gy_train_served_leads(served);
    do {
        if (leads) {
            GY_TRY(gy_train_served_fetch(served, 1, 1));
            sv_digest(net, left->digest);
        }
        status = gy_train_served_leave(served, leads);
        leads = 1;
    } while (status == 1);
    return status;
}

static int sv_net(struct gyre_net *net, struct gyre_job *job, const struct sv_case *c,
                  struct sv_left *left)
{
    struct gy_train_served served;
    gy_train_served_open(&served, net);
    const int other = c->fault == SV_DATA && gyre_job_rank(job) == 1;
    int status = job ? gy_train_served_begin(&served, (uint64_t)other) : GYRE_OK;
    if (status == GYRE_OK && !gy_train_served_serves(&served))
        status = sv_work(net, job, c, &served);
    if (status == GYRE_OK && !job)
        sv_digest(net, left->digest);
    else if (status == GYRE_OK && !gy_train_served_serves(&served))
        status = sv_leave(net, &served, left);
    left->report = served.report;
    if (job && job->served->lanes)
        left->version = job->served->lanes[0].version;
    gy_train_served_close(&served);
    snprintf(left->text, sizeof left->text, "%s", status == GYRE_OK ? ""
             : gyre_last_error(net)->text);
    return status;
}

static int sv_rank(const struct sv_case *c, int rank, const char *name, struct sv_left *left)
{
    struct gyre_job_config many;
    struct gyre_config config;
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    struct gyre_net *net = NULL;
    gyre_job_config_default(&many);
    many.wait_seconds = 60;
    many.servers = c->servers;
    many.sync = c->sync;
    many.backup = c->backup;
    many.staleness = c->staleness;
    many.record = c->record;
    many.replay = c->replay;
    if (c->fault == SV_ROLES && rank == c->servers + 1)
        many.staleness = 7;
    test_be_rank(name, rank, c->workers + c->servers);
    sv_config(&config, c);
    int status = c->servers ? gyre_job_open(&job, &many, &error) : GYRE_OK;
    config.job = job;
    if (status == GYRE_OK && c->die)
        sv_watch(job, c->die, rank);
    if (c->fault == SV_NET && gyre_job_rank(job) == 1)
        config.net = sv_other;
    if (status == GYRE_OK)
        status = gyre_open(&net, &config, &error);
    snprintf(left->text, sizeof left->text, "%s", error.text);
    if (status == GYRE_OK)
        status = sv_net(net, job, c, left);
    gyre_close(net);
    if (status == GYRE_OK)
        status = gyre_job_end(job, &error);
    if (status != GYRE_OK && !left->text[0])
        snprintf(left->text, sizeof left->text, "%s", error.text);
    gyre_job_close(job);
    return status;
}

/* On a machine with far more work than processors a rank may get no turn for so long that it is
 * taken
 * for lost. */
static int sv_starved(void)
{
    for (int r = 0; r < SV_RANKS; r++)
        if (strstr(sv_left[r].text, "is silent for"))
            return 1;
    return 0;
}

static int sv_bits(int set)
{
    int count = 0;
    for (; set; set &= set - 1)
        count++;
    return count;
}

/* All ranks, or one process where there are no servers. */
static int sv_run_once(const struct sv_case *c)
{
    static int jobs;
    char name[64];
    const int ranks = c->servers ? c->workers + c->servers : 1;
    int whole = 1, died = 0;
    snprintf(name, sizeof name, "t_server %ld %d", (long)getpid(), jobs++);
    memset(sv_left, 0, SV_RANKS * sizeof *sv_left);
    fflush(stdout);
    for (int r = 0; r < ranks; r++)
        if (fork() == 0) {
            const int at = r < c->servers ? c->workers + r : r - c->servers;
            sv_left[at].status = sv_rank(c, r, name, &sv_left[at]);
            _exit(0);
        }
    for (int r = 0; r < ranks; r++) {
        int status = -1;
        wait(&status);
        whole &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
        died += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }
    return whole || (c->dead && died == sv_bits(c->dead));
}

static int sv_run(const struct sv_case *c)
{
    int whole = sv_run_once(c);
    for (int again = 0; again < 5 && sv_starved(); again++)
        whole = sv_run_once(c);
    return whole;
}

static void sv_check_good(const struct sv_case *c, const char *what)
{
    const int ranks = c->servers ? c->workers + c->servers : 1;
    T_CHECK(sv_run(c));
    for (int r = 0; r < ranks; r++)
        T_CHECK_MSG(sv_left[r].status == GYRE_OK, "%s, seed %d, rank %d: %d %s", what, (int)c->seed,
                    r, sv_left[r].status, sv_left[r].text);
}

/* ---- the bits of one process ---- */

/* 0: the net has fewer slices than there are servers, or cannot learn. */
static int sv_same(struct sv_case *c)
{
    static const int shape[4][2] = { { 2, 1 }, { 2, 2 }, { 4, 1 }, { 4, 2 } };
    unsigned char digest[32];
    c->servers = 0;
    T_CHECK(sv_run(c));
    if (sv_left[0].status != GYRE_OK)
        return 0;
    memcpy(digest, sv_left[0].digest, sizeof digest);
    for (int i = 0; i < 4; i++) {
        c->workers = shape[i][0];
        c->servers = shape[i][1];
        T_CHECK(sv_run(c));
        if (strstr(sv_left[0].text, "slices: take fewer"))
            continue;
        for (int r = 0; r < c->workers + c->servers; r++)
            T_CHECK_MSG(sv_left[r].status == GYRE_OK, "seed %d, %d workers, %d servers, rank %d: "
                        "%s", (int)c->seed, c->workers, c->servers, r, sv_left[r].text);
        T_CHECK_MSG(memcmp(digest, sv_left[0].digest, sizeof digest) == 0,
                    "seed %d, optimizer %d, bucket %zu: %d workers and %d servers end with other "
                    "bits than one process\n%s",
                    (int)c->seed, c->optimizer, c->bucket, c->workers, c->servers, c->net);
    }
    return 1;
}

static void sv_random(int cases)
{
    int done = 0;
    for (uint64_t seed = 1; done < cases && seed < 200; seed++) {
        struct random_draw d = { seed };
        struct random_net net;
        random_net_make(&net, seed);
        struct sv_case c = { .net = net.text, .batch = net.batch < 2 ? 2 : net.batch,
                             .shards = random_percent(&d, 50) ? 4 : 8,
                             .optimizer = random_below(&d, 3), .steps = SV_STEPS,
                             .sync = GYRE_SYNC_SERVER, .staleness = -1,
                             .ema = random_percent(&d, 50) ? 0.9f : 0, .decay = random_percent(&d,
                                     50) ? 1e-3f : 0,
                             .bucket = (size_t)64 << random_below(&d, 8), .seed = seed };
        c.nesterov = c.optimizer != GYRE_ADAMW && random_percent(&d, 50);
        done += sv_same(&c);
    }
    T_CHECK_MSG(done == cases, "only %d of %d nets could learn", done, cases);
}

/* ---- workers that do not go in step ---- */

static struct sv_case sv_plain(void)
{
    return (struct sv_case){ .net = sv_text, .batch = 4, .workers = 3, .servers = 2, .steps = 30,
                             .sync = GYRE_SYNC_ASYNC,
                             .optimizer = GYRE_ADAMW, .ema = 0.9f, .bucket = 256, .seed = 3,
                             .staleness = -1 };
}

static int64_t sv_stale_above(const struct gy_served_report *report, int most)
{
    int64_t count = 0;
    for (int i = most + 1; i < GY_SERVED_STALE; i++)
        count += report->stale[i];
    return count;
}

static void sv_replay(void)
{
    char path[128];
    unsigned char digest[32];
    snprintf(path, sizeof path, "%s/order", sv_folder);
    for (int seed = 2; seed <= 3; seed++) {
        struct sv_case c = sv_plain();
        c.seed = (uint64_t)seed;
        c.servers = 1 + seed % 2;
        c.staleness = seed == 3 ? 1 : -1;
        c.record = path;
        /* the others have long ended when worker 2 does: worker 0 waits with its last fetch */
        c.slow = 1;
        sv_check_good(&c, "record");
        memcpy(digest, sv_left[0].digest, sizeof digest);
        T_CHECK(sv_left[0].report.dropped == 0 && sv_left[0].report.taken >= 3 * 30);
        /* each other worker makes at most 1 + 1 updates and then one that was under way */
        if (seed == 3)
            T_CHECK_MSG(sv_stale_above(&sv_left[0].report, 2 * 3) == 0, "staleness beyond what K = "
                        "1 allows");
        T_CHECK_MSG(sv_left[0].version == 3 * 30, "worker 0 ends with weights after %d updates",
                    (int)sv_left[0].version);
        c.record = NULL;
        c.replay = path;
        c.slow = 0;
        for (int turn = 0; turn < 2; turn++) {
            sv_check_good(&c, "replay");
            T_CHECK_MSG(memcmp(digest, sv_left[0].digest, sizeof digest) == 0,
                        "seed %d: a replay ends with other bits", seed);
        }
    }
    struct sv_case other = sv_plain();
    other.replay = path;
    other.servers = 2; /* seed 3 had as many, and another bound */
    T_CHECK(sv_run(&other));
    for (int r = 0; r < 5; r++)
        T_CHECK_MSG(sv_left[r].status < 0 && strstr(sv_left[r].text, "belongs to another run"),
                    "rank %d: %s", r, sv_left[r].text);
}

static void sv_backup(void)
{
    struct sv_case c = sv_plain();
    c.sync = GYRE_SYNC_SERVER;
    c.backup = 1;
    sv_check_good(&c, "backup");
    T_CHECK(sv_left[0].report.taken > 0 && sv_stale_above(&sv_left[0].report, 0) == 0);
    T_CHECK_MSG(sv_left[0].report.taken + sv_left[0].report.dropped > 2 * 30, "taken %d, dropped "
                "%d", (int)sv_left[0].report.taken, (int)sv_left[0].report.dropped);
}

/* ---- workers that are lost ---- */

/* Some of them, worker 0 as well, kill themselves at any push or wait; one is left at least. */
static void sv_lose(uint64_t seed)
{
    static const int syncs[3] = { GYRE_SYNC_SERVER, GYRE_SYNC_SERVER, GYRE_SYNC_ASYNC };
    struct random_draw d = { seed };
    struct sv_case c = sv_plain();
    char die[200] = "";
    const int how = random_below(&d, 3);
    c.seed = seed;
    c.workers = 2 + random_below(&d, 3);
    c.servers = 1 + random_below(&d, 2);
    c.sync = syncs[how];
    c.backup = how == 1 ? random_below(&d, c.workers) : 0;
    c.staleness = how == 2 && random_percent(&d, 50) ? random_below(&d, 3) : -1;
    for (int w = 0, here = c.workers; w < c.workers && here > 1; w++)
        if (random_percent(&d, w == 0 ? 70 : 40)) {
            const size_t at = strlen(die);
            snprintf(die + at, sizeof die - at, "%s%d:%s%d", at ? "," : "", c.servers + w,
                     random_percent(&d, 50) ? "w" : "", 1 + random_below(&d, 60));
            c.dead |= 1 << w;
            here--;
        }
    c.die = die;
    T_CHECK_MSG(sv_run(&c), "seed %d: not those were killed that should be: %s", (int)seed, die);
    for (int r = 0; r < c.workers + c.servers; r++) {
        if (c.dead >> r & 1)
            continue;
        T_CHECK_MSG(sv_left[r].status == GYRE_OK, "seed %d (%d workers, %d servers, sync %d, "
                    "backup %d, die %s), rank %d: %d %s", (int)seed, c.workers, c.servers, c.sync,
                    c.backup, die, r, sv_left[r].status, sv_left[r].text);
        T_CHECK_MSG(r >= c.workers || sv_left[r].report.lost == sv_bits(c.dead), "seed %d, rank %d: "
                    "%d lost, not %s", (int)seed, r, (int)sv_left[r].report.lost, die);
    }
}

/* With shards each worker is needed: all ranks say who was lost, and why that ends the job. */
static void sv_lose_shards(void)
{
    struct sv_case c = sv_plain();
    c.sync = GYRE_SYNC_SERVER;
    c.workers = c.shards = 4;
    c.servers = 1;
    c.die = "1:20";
    c.dead = 1;
    T_CHECK(sv_run(&c));
    for (int r = 1; r < c.workers + c.servers; r++)
        T_CHECK_MSG(sv_left[r].status == GYRE_E_PEER && strstr(sv_left[r].text, "rank 1 on ") &&
                    strstr(sv_left[r].text, "no other worker has its shards"),
                    "rank %d: %d %s", r, sv_left[r].status, sv_left[r].text);
}

/* ---- frames that are wrong ---- */

static void sv_faults(void)
{
    static const char *const says[] = { NULL, "came twice", "replayed one", "of another run",
                                        "is damaged",
                                        "of weights after" };
    for (int fault = SV_TWICE; fault <= SV_LONG_GONE; fault++) {
        struct sv_case c = sv_plain();
        c.sync = GYRE_SYNC_SERVER;
        c.fault = fault;
        c.servers = 1;
        T_CHECK(sv_run(&c));
        for (int r = 0; r < c.workers + c.servers; r++)
            T_CHECK_MSG(sv_left[r].status < 0 && strstr(sv_left[r].text, says[fault]) &&
                        strstr(sv_left[r].text, "worker 1"),
                        "fault %d, rank %d: %d %s", fault, r, sv_left[r].status, sv_left[r].text);
    }
}

/* A worker of another net of the same sizes, and one with other data. Each rank names it. */
static void sv_strangers(void)
{
    static const char *const says[] = { ": net", "the servers' slices and the run",
                                        "the roles of ranks" };
    for (int fault = SV_NET; fault <= SV_ROLES; fault++) {
        struct sv_case c = sv_plain();
        c.fault = fault;
        T_CHECK(sv_run(&c));
        for (int r = 0; r < c.workers + c.servers; r++)
            T_CHECK_MSG(sv_left[r].status < 0 && strstr(sv_left[r].text, says[fault - SV_NET]) &&
                        strstr(sv_left[r].text, "rank 3"),
                        "fault %d, rank %d: %d %s", fault, r, sv_left[r].status, sv_left[r].text);
    }
}

/* Each bit of a frame, and each number that is expected. */
static void sv_frames(void)
{
    const struct gy_server_frame want = { .kind = GY_SERVER_PUSH, .run = 77, .worker = 2,
                                          .slice = 3, .number = 9, .count = 5 };
    struct gy_server_frame frame = want;
    struct gy_error err;
    gy_server_seal(&frame);
    T_CHECK(gy_server_check(&frame, &want, &err) == GY_OK);
    for (size_t bit = 0; bit < 8 * sizeof frame; bit++) {
        struct gy_server_frame bad = frame;
        ((unsigned char *)&bad)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        T_CHECK_MSG(gy_server_check(&bad, &want, &err) < 0, "bit %d", (int)bit);
    }
}

/* ---- slices ---- */

static void sv_slices(void)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct random_draw d = { seed };
        struct gy_server_slice s[40];
        struct gy_error err;
        const int count = 1 + random_below(&d, 40), servers = 1 + random_below(&d, 8);
        int64_t at = 0, most = 0, largest = 0;
        for (int k = 0; k < count; k++) {
            s[k] = (struct gy_server_slice){ .first = at, .count = 1 + random_below(&d, 1000),
                                             .server = 7 };
            largest = gy_max64(largest, s[k].count);
            at += s[k].count;
        }
        if (gy_server_deal(s, count, servers, &err) != GY_OK) {
            T_CHECK_MSG(count < servers && strstr(err.text, "take fewer"), "seed %d: %s",
                        (int)seed, err.text);
            continue;
        }
        T_CHECK(gy_server_slices_check(s, count, servers, at, &err) == GY_OK);
        for (int server = 0; server < servers; server++) {
            int64_t load = 0;
            for (int k = 0; k < count; k++)
                load += s[k].server == server ? s[k].count : 0;
            most = gy_max64(most, load);
        }
        T_CHECK_MSG(most <= at / servers + largest, "seed %d: a server has %d of %d floats",
                    (int)seed, (int)most, (int)at);
        if (count > 1 && servers > 1) { /* two servers with one slice */
            struct gy_server_slice both = s[1];
            both.first = s[0].first + (int64_t)random_below(&d, (int)s[0].count);
            both.server = (s[0].server + 1) % servers;
            both.count = 1;
            s[1] = both;
            T_CHECK(gy_server_slices_check(s, count, servers, at, &err) < 0 && strstr(err.text,
                    "in common"));
        }
    }
}

/* ---- the ledger ---- */

#define SV_SLICES 3
#define SV_WORKERS 6
/* Workers with random speeds against some ledgers: events are the arrival of a gradient of a
 * slice. */
struct sv_world {
    struct gy_ledger ledger[SV_SLICES];
    struct gy_ledger_worker entry[SV_SLICES][SV_WORKERS];
    int64_t steps[SV_WORKERS];
    int waits[SV_WORKERS][SV_SLICES]; /* 1: pushed, and not answered */
    int next[SV_WORKERS];             /* slice that it pushes next; SV_SLICES: it waits */
    int64_t held[SV_WORKERS][SV_SLICES];
};

static void sv_answers(struct sv_world *w, int slice)
{
    for (int i = 0; i < w->ledger[slice].rules.workers; i++)
        if (gy_ledger_may_answer(&w->ledger[slice], i)) {
            gy_ledger_answered(&w->ledger[slice], i);
            w->held[i][slice] = w->ledger[slice].version;
            w->waits[i][slice] = 0;
        }
}

static void sv_push(struct sv_world *w, int i)
{
    struct gy_error err;
    const int k = w->next[i]++;
    struct gy_ledger *const l = &w->ledger[k];
    w->waits[i][k] = 1;
    T_CHECK(gy_ledger_push(l, i, w->held[i][k], &err) >= 0);
    if (gy_ledger_is_due(l))
        gy_ledger_updated(l, 0);
    sv_answers(w, k);
}

/* It has left, or is lost, whatever it waits for. */
static void sv_go(struct sv_world *w, int i)
{
    for (int k = 0; k < SV_SLICES; k++) {
        gy_ledger_gone(&w->ledger[k], i);
        if (gy_ledger_is_due(&w->ledger[k]))
            gy_ledger_updated(&w->ledger[k], 0);
        sv_answers(w, k);
    }
}

/* One that was lost is there again, with the weights of now. */
static void sv_return(struct sv_world *w, int i)
{
    for (int k = 0; k < SV_SLICES; k++) {
        gy_ledger_back(&w->ledger[k], i, 1);
        w->held[i][k] = w->ledger[k].version;
        w->waits[i][k] = 0;
    }
    w->steps[i] = w->entry[0][i].clock - 1; /* it begins the next one */
    w->next[i] = SV_SLICES;
}

static int sv_ready(const struct sv_world *w, int i)
{
    if (w->entry[0][i].gone)
        return 0;
    for (int k = 0; k < SV_SLICES && w->next[i] == SV_SLICES; k++)
        if (w->waits[i][k])
            return 0;
    return 1;
}

static void sv_ledger_run(uint64_t seed)
{
    struct random_draw d = { seed };
    const int workers = 2 + random_below(&d, SV_WORKERS - 1), any = random_percent(&d, 50);
    const struct gy_ledger_rules rules = { .workers = workers,
                                           .take = any ? 1 : 1 + random_below(&d, workers),
                                           .any_age = any,
                                           .ahead = any && random_percent(&d,
                                                   70) ? random_below(&d, 4) : -1 };
    struct sv_world w = { .next = { 0 } };
    int64_t apart = 0;
    int gone = 0;
    for (int k = 0; k < SV_SLICES; k++)
        gy_ledger_open(&w.ledger[k], &rules, w.entry[k], 0);
    for (int event = 0; event < 2000; event++) {
        int able[SV_WORKERS], count = 0;
        for (int i = 0; i < workers; i++)
            if (sv_ready(&w, i))
                able[count++] = i;
        if (!T_CHECK(count > 0)) {
            printf("    seed %d, event %d: all workers wait\n", (int)seed, event);
            return;
        }
        int i = able[random_below(&d, count)];
        i = random_percent(&d, 80) ? able[0] : i; /* some are fast */
        if (w.next[i] == SV_SLICES) {
            w.next[i] = 0;
            w.steps[i]++;
            int64_t least = INT64_MAX;
            for (int j = 0; j < workers; j++)
                least = w.entry[0][j].gone ? least : gy_min64(least, w.steps[j]);
            apart = gy_max64(apart, w.steps[i] - least);
        }
        sv_push(&w, i);
        if (w.next[i] == SV_SLICES && workers - gone > 1 && random_percent(&d, 1)) {
            sv_go(&w, i);
            gone++;
        } else if (gone > 0 && random_percent(&d, 1)) {
            int k = 0;
            while (!w.entry[0][k].gone)
                k++;
            sv_return(&w, k);
            gone--;
        }
    }
    T_CHECK_MSG(rules.ahead < 0 || apart <= rules.ahead + 1, "seed %d: %d steps apart, %d allowed",
                (int)seed, (int)apart, (int)rules.ahead);
}

static void sv_ledgers(void)
{
    for (uint64_t seed = 1; seed <= 300; seed++)
        sv_ledger_run(seed);
}

/* ---- records ---- */

static void sv_records(void)
{
    static const char *const bad[] = {
        "", "gyre arrivals 2 run", "push 1 1\n", "%spull 1 1\n", "%spush 3 1\n", "%spush 1 4\n",
        "%spush 1\n",
        "%spush -1 1\n", "%spush 1 1 1\n", "%sleave\n", "%sfetch 1 1\n",
        "%spush 99999999999999999999 1\n", "%s\n",
    };
    const struct gy_arrivals_head head = { .run = 5, .servers = 1, .workers = 3, .slices = 4 };
    char first[160], text[300];
    struct gy_arrivals a = { .head = head, .path = "record" };
    struct gy_error err;
    snprintf(first, sizeof first, "gyre arrivals 1 run %016x server 0 of 1 workers 3 slices 4\n",
             5);
    for (size_t i = 0; i < GY_COUNT(bad); i++) {
        const char *const rest = strncmp(bad[i], "%s", 2) == 0 ? bad[i] + 2 : NULL;
        snprintf(text, sizeof text, "%s%s", rest ? first : "", rest ? rest : bad[i]);
        T_CHECK_MSG(gy_arrivals_parse(&a, text, &err) < 0 && strstr(err.text, "record"),
                    "%d: \"%s\"", (int)i, bad[i]);
    }
    snprintf(text, sizeof text, "%spush 2 3\nfetch 0\nleave 1\n", first);
    T_CHECK(gy_arrivals_parse(&a, text, &err) == GY_OK);
    T_CHECK(!gy_arrivals_may(&a, GY_ARRIVAL_PUSH, 1, 3) && gy_arrivals_may(&a, GY_ARRIVAL_PUSH, 2,
            3));
    T_CHECK(gy_arrivals_taken(&a, GY_ARRIVAL_PUSH, 2, 3, &err) == GY_OK && gy_arrivals_may(&a,
            GY_ARRIVAL_FETCH, 0, 0));
    T_CHECK(gy_arrivals_end(&a, &err) == GY_E_MISMATCH && strstr(err.text, "goes on"));
    T_CHECK(gy_arrivals_taken(&a, GY_ARRIVAL_FETCH, 0, 0, &err) == GY_OK);
    T_CHECK(gy_arrivals_taken(&a, GY_ARRIVAL_LEAVE, 1, 0, &err) == GY_OK && gy_arrivals_end(&a,
            &err) == GY_OK);
}

int main(int argc, char **argv)
{
    const size_t bytes = SV_RANKS * sizeof *sv_left;
    FILE *const file = tmpfile();
    void *const at = file && ftruncate(fileno(file), (off_t)bytes) == 0
                         ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file),
                                0) : MAP_FAILED;
    snprintf(sv_folder, sizeof sv_folder, "/tmp/t_server.XXXXXX");
    if (at == MAP_FAILED || !mkdtemp(sv_folder))
        return 1;
    sv_left = at;
    sv_slices();
    sv_frames();
    sv_ledgers();
    sv_records();
    sv_random(argc > 1 ? atoi(argv[1]) : 4);
    sv_replay();
    sv_backup();
    for (int seed = 1; seed <= (argc > 2 ? atoi(argv[2]) : 8); seed++)
        sv_lose((uint64_t)seed);
    sv_lose_shards();
    sv_faults();
    sv_strangers();
    char path[160];
    for (int i = -1; i < 2; i++) {
        snprintf(path, sizeof path, i < 0 ? "%s/order" : "%s/order.%d", sv_folder, i);
        unlink(path);
    }
    T_CHECK(rmdir(sv_folder) == 0);
    T_END("t_server");
}
