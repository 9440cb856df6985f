/* SPDX-License-Identifier: MIT */
/* t_parallel.c: several processes train one net. With shards any number of them gives the same
 * bits. Buckets have any size. A batch norm over all of them stands against one process with the
 * whole batch. Also refusals, a loss that is not finite on one of them, a trace of all. Ranks on
 * devices with memory of their own (the emulator) stand beside ranks on the CPU. */
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/gyre_job.h"
#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "engine/gyre.h"
#include "tests/device_here.h"
#include "tests/glm_ranks.h"
#include "tests/t.h"

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define PAR_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PAR_NO_EMULATOR 1
#endif
#endif

#define PAR_RANKS 4
#define PAR_FLOATS 40000
#define PAR_SIDE 8
#define PAR_PIXELS (PAR_SIDE * PAR_SIDE * 3)
#define PAR_CLASSES 5

static const char par_norms[] =
    "input 8x8x3\nconv1: conv 8 3x3\nbn1: bn\nrelu\n"
    "block a {\n conv1: conv 16 3x3 stride 2\n bn1: bn\n relu\n conv2: conv 16 3x3\n bn2: bn\n s: conv 16 1x1 stride 2 from in\n"
    " sb: bn\n add bn2\n relu\n}\n"
    "dropout 0.2\ngap\nfc: linear 5\nsoftmax\n";
/* the same without random numbers, for comparison with one process */
static const char par_sure[] =
    "input 8x8x3\nx: bn\nconv1: conv 8 3x3\nbn1: bn\nrelu\nconv2: conv 16 3x3 stride 2\nbn2: bn\nr: relu\nconv3: conv 16 3x3 bias\n"
    "relu\nb: bn\ngap\nfc: linear 5\nsoftmax\n";

/* without norms: a batch in pieces has the gradient of the whole one */
static const char par_conv[] = "input 8x8x3\nconv1: conv 8 3x3 bias\nrelu\nconv2: conv 16 3x3 stride 2 bias\nrelu\ngap\nfc: linear 5\nsoftmax\n";

struct par_case {
    const char *net;
    int ranks, batch, shards, sync_bn, accumulate, threads, steps, optimizer, dtype;
    size_t bucket;
    int bad_rank, bad_step;     /* its input is not finite then; -1 */
    int odd_rank;               /* has another seed, or with odd_scale loss_scale; -1 */
    int odd_scale;
    const char *trace;
    int plain;                  /* samples are not mixed */
    const char *hosts;          /* every rank counts as a host: GYRE_ALLREDUCE; NULL */
    const char *transport;      /* GYRE_TRANSPORT; NULL */
    const char *interface;      /* GYRE_INTERFACE; NULL */
    int wire;
    const char *device;         /* NULL: the CPU */
    int sparse;                 /* the first samples of sixteen have no label: so many */
    int missing;                /* samples of a step that are absent */
};

/* What a rank leaves, in memory that the parent sees. */
struct par_left {
    int status, count, trained; /* trained: the first of the values, which are all ranks' alike */
    char text[480];
    double loss[8];
    int64_t taken;              /* allocations after open */
    float values[PAR_FLOATS];   /* all tensors */
};

static int64_t par_taken;

static void *par_hook(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    par_taken++;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    void *p = realloc(ptr, new_bytes);
    if (p && !ptr)
        memset(p, 0, new_bytes);
    return p;
}

static void par_config(struct gyre_config *config, const struct par_case *c, int rank)
{
    gyre_config_default(config);
    config->net = c->net;
    config->batch = c->batch;
    config->threads = c->threads;
    config->shards = c->shards;
    config->sync_bn = c->sync_bn;
    config->accumulate = c->accumulate;
    config->bucket_bytes = c->bucket;
    config->seed = rank == c->odd_rank && !c->odd_scale ? 8 : 7;
    config->loss_scale = rank == c->odd_rank && c->odd_scale ? 2 : 4;
    config->memory.hook = par_hook;
    config->schedule.rate = 0.05f;
    config->optimizer.kind = c->optimizer;
    config->dtype = c->dtype;
    config->optimizer.clip_norm = c->optimizer == GYRE_ADAMW ? 1 : 0;
    config->trace_events = c->trace ? 4096 : 0;
    if (c->device) {
        config->device = c->device;
        config->use_env = 1; /* the cache of kernels */
    }
}

/* Sample number `index` of the run. */
static void par_sample(int64_t index, float *x, int32_t *label)
{
    *label = (int32_t)(index * 7 % PAR_CLASSES);
    for (int i = 0; i < PAR_PIXELS; i++)
        x[i] = gy_rng_uniform(5, 6, (uint64_t)index, (uint64_t)i) * 2 - 1 + 0.3f * (float)*label;
}

static void par_dump(struct gyre_net *net, struct par_left *left, int trained)
{
    struct gyre_tensor_info info;
    for (int i = 0; i < gyre_tensor_count(net); i++) {
        gyre_tensor_at(net, i, &info);
        if (info.trained != trained)
            continue;
        if (left->count + info.count > PAR_FLOATS || gyre_get_tensor(net, info.name, left->values + left->count, info.count) != GYRE_OK)
            left->status = GYRE_E_BUG;
        else
            left->count += (int)info.count;
    }
}

static int par_steps(struct gyre_net *net, const struct par_case *c, int rank, struct par_left *left)
{
    static float x[64 * PAR_PIXELS];
    static int32_t label[64];
    static struct gyre_mix mix[64];
    const int ranks = c->ranks, mine = c->batch * (c->shards ? c->shards / ranks : 1);
    const struct gyre_batch batch = { .x = x, .label = label, .mix = c->plain ? NULL : mix, .count = mine - c->missing };
    struct gyre_result result;
    for (int s = 0; s < c->steps; s++) {
        for (int i = 0; i < mine; i++) {
            const int group = i / c->batch * c->batch;
            const int64_t index = (int64_t)s * mine * ranks + rank * mine + i;
            par_sample(index, x + i * PAR_PIXELS, &label[i]);
            label[i] = c->sparse && index % 16 < c->sparse ? -1 : label[i];
            mix[i] = (struct gyre_mix){ .partner = group + (i - group + 1) % c->batch, .inside = 0.75f, .label = 0.75f, .h1 = PAR_SIDE,
                                         .w1 = PAR_SIDE };
        }
        if (s == c->bad_step && rank == c->bad_rank)
            x[3] = NAN;
        const int status = gyre_step(net, &batch, &result);
        if (status != GYRE_OK)
            return status;
        left->loss[s] = result.loss;
    }
    return GYRE_OK;
}

static void par_rank(const struct par_case *c, int rank, const char *job_name, struct par_left *left)
{
    char text[16];
    struct gyre_config config;
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    struct gyre_net *net = NULL;
    const struct gyre_job_config wait = { .size = sizeof wait, .wait_seconds = 60, .wire = c->wire };
    snprintf(text, sizeof text, "%d", rank);
    setenv("GYRE_RANK", text, 1);
    setenv("GYRE_LOCAL_RANK", text, 1);
    snprintf(text, sizeof text, "%d", c->ranks);
    setenv("GYRE_RANKS", text, 1);
    setenv("GYRE_LOCAL_RANKS", text, 1);
    setenv("GYRE_JOB", job_name, 1);
    if (c->hosts)
        setenv("GYRE_ALLREDUCE", c->hosts, 1);
    if (c->transport)
        setenv("GYRE_TRANSPORT", c->transport, 1);
    if (c->interface)
        setenv("GYRE_INTERFACE", c->interface, 1);
    setenv("UCX_MEM_EVENTS", "n", 1); /* its hooks take locks that ThreadSanitizer does not know */
    par_config(&config, c, rank);
    left->status = gyre_job_open(&job, &wait, &error);
    config.job = job;
    if (left->status == GYRE_OK)
        left->status = gyre_open(&net, &config, &error);
    if (left->status == GYRE_OK) {
        const int64_t before = par_taken;
        left->status = par_steps(net, c, rank, left);
        left->taken = par_taken - before;
        error = *gyre_last_error(net);
        par_dump(net, left, 1);
        left->trained = left->count;
        par_dump(net, left, 0);
        if (c->trace && gyre_write_trace(net, c->trace) != GYRE_OK)
            left->status = GYRE_E_IO;
    }
    memcpy(left->text, error.text, sizeof left->text);
    gyre_close(net);
    gyre_job_close(job);
}

/* All ranks; left: [PAR_RANKS], shared. 1: every process ended by itself. */
static int par_run(const struct par_case *c, struct par_left *left)
{
    static int jobs;
    char name[64];
    int whole = 1;
    snprintf(name, sizeof name, "t_parallel %ld %d", (long)getpid(), jobs++);
    memset(left, 0, PAR_RANKS * sizeof *left);
    fflush(stdout);
    for (int r = 0; r < c->ranks; r++)
        if (fork() == 0) {
            par_rank(c, r, name, &left[r]);
            _exit(0);
        }
    for (int r = 0; r < c->ranks; r++) {
        int status = -1;
        wait(&status);
        whole &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return whole;
}

static struct par_left *par_memory(void)
{
    const size_t bytes = PAR_RANKS * sizeof(struct par_left);
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), (off_t)bytes) != 0)
        return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    fclose(file);
    return p == MAP_FAILED ? NULL : p;
}

static int par_good(const struct par_case *c, struct par_left *left)
{
    int good = T_CHECK(par_run(c, left));
    for (int r = 0; r < c->ranks; r++) {
        good &= left[r].status == GYRE_OK && left[r].count > 1000;
        T_CHECK_MSG(left[r].status == GYRE_OK && left[r].count > 1000, "rank %d of %d: %d %s", r, c->ranks, left[r].status, left[r].text);
        T_CHECK_MSG(left[r].taken == 0, "rank %d took memory %d times after open", r, (int)left[r].taken);
    }
    return good;
}

/* Every rank has the weights of the first one, to the bit. */
static void par_check_together(const struct par_case *c, const struct par_left *left)
{
    for (int r = 1; r < c->ranks; r++)
        T_CHECK_MSG(left[r].trained == left->trained && left->trained > 1000 &&
                        memcmp(left[r].values, left->values, (size_t)left->trained * sizeof *left->values) == 0,
                    "rank %d of %d has other weights than rank 0", r, c->ranks);
}

/* Weights, running statistics and losses: the same bits? */
static int par_equal(const struct par_left *a, const struct par_left *b)
{
    return a->count == b->count && memcmp(a->values, b->values, (size_t)a->count * sizeof *a->values) == 0 &&
           memcmp(a->loss, b->loss, sizeof a->loss) == 0;
}

static const struct par_case par_plain = { .net = par_norms, .ranks = 1, .batch = 4, .accumulate = 1, .threads = 1, .steps = 3,
                                           .bad_rank = -1, .bad_step = -1, .odd_rank = -1 };

/* ---- shards ---- */

static void par_check_shards(struct par_left *left, struct par_left *want, int optimizer, int dtype)
{
    static const struct {
        int ranks, threads;
        size_t bucket;
    } rows[] = { { 1, 1, 0 }, { 1, 3, 1000 }, { 2, 1, 0 }, { 2, 2, 256 }, { 4, 1, 3000 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct par_case c = par_plain;
        c.shards = 4;
        c.optimizer = optimizer;
        c.dtype = dtype;
        c.ranks = rows[i].ranks;
        c.threads = rows[i].threads;
        c.bucket = rows[i].bucket;
        if (!par_good(&c, left))
            return;
        if (i == 0)
            memcpy(want, left, sizeof *want);
        for (int r = 0; r < c.ranks; r++)
            T_CHECK_MSG(par_equal(&left[r], want), "optimizer %d: rank %d of %d has other bits than one rank", optimizer, r, c.ranks);
    }
}

static double par_apart(const struct par_left *a, const struct par_left *b)
{
    double most = a->count == b->count ? 0 : 1e9;
    for (int i = 0; i < a->count && i < b->count; i++)
        most = fmax(most, fabs((double)a->values[i] - (double)b->values[i]) / (0.1 + fabs((double)b->values[i])));
    return most;
}

/* A net without norms learns the same from shards as from the whole batch, also if their number is
 * no power of two. */
static void par_check_odd(struct par_left *left, struct par_left *want)
{
    static const int shards[] = { 1, 2, 3, 5, 6, 7 };
    for (size_t i = 0; i < GY_COUNT(shards); i++) {
        struct par_case c = par_plain;
        c.net = par_conv;
        c.plain = 1;
        c.sparse = shards[i] > 1 ? 5 : 0;
        c.batch = 4 * shards[i];
        if (!par_good(&c, left))
            return;
        memcpy(want, left, sizeof *want);
        c.batch = 4;
        c.shards = shards[i];
        if (!par_good(&c, left))
            return;
        T_CHECK_MSG(par_apart(left, want) < 1e-5, "%d shards end %g from the whole batch", shards[i], par_apart(left, want));
        for (int s = 0; s < c.steps; s++)
            T_CHECK_MSG(fabs(left->loss[s] - want->loss[s]) < 1e-5, "%d shards, step %d: loss %.9g, not %.9g", shards[i], s, left->loss[s], want->loss[s]);
    }
}

/* With norms it does not: each shard has its own statistics. */
static void par_check_own_norms(struct par_left *left, struct par_left *want)
{
    struct par_case c = par_plain;
    c.net = par_sure;
    c.plain = 1;
    c.shards = 2;
    if (!par_good(&c, left))
        return;
    memcpy(want, left, sizeof *want);
    c.shards = 0;
    c.batch = 8;
    if (par_good(&c, left))
        T_CHECK_MSG(par_apart(left, want) > 1e-3, "two shards end only %g from one batch", par_apart(left, want));
}

/* Without shards all ranks have the same bits, whatever the buckets. Each rank has its own running
 * statistics. */
static void par_check_buckets(struct par_left *left, struct par_left *want)
{
    static const size_t sizes[] = { 1, 2000, 0 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct par_case c = par_plain;
        c.ranks = 3;
        c.bucket = sizes[i];
        if (!par_good(&c, left))
            return;
        par_check_together(&c, left);
        T_CHECK(memcmp(left[0].loss, left[1].loss, sizeof left[0].loss) == 0 && memcmp(left[0].loss, left[2].loss, sizeof left[0].loss) == 0);
        if (i == 0)
            memcpy(want, left, (size_t)c.ranks * sizeof *want);
        for (int r = 0; r < c.ranks && i > 0; r++)
            T_CHECK_MSG(par_equal(&left[r], &want[r]), "buckets of %zu bytes give rank %d other bits", sizes[i], r);
    }
}

/* ---- one process with the whole batch ---- */

static void par_check_whole(struct par_left *left, struct par_left *want)
{
    struct par_case c = par_plain;
    c.net = par_sure;
    c.batch = 8;
    c.plain = 1;
    if (!par_good(&c, left))
        return;
    memcpy(want, left, sizeof *want);
    c.sync_bn = 1;
    for (c.ranks = 2; c.ranks <= 4; c.ranks *= 2) {
        c.batch = 8 / c.ranks;
        if (!par_good(&c, left))
            return;
        for (int r = 0; r < c.ranks; r++)
            T_CHECK_MSG(par_apart(&left[r], want) < 2e-4, "sync_bn on %d ranks: %g from one rank", c.ranks, par_apart(&left[r], want));
        T_CHECK(memcmp(left[0].values, left[1].values, (size_t)left->count * sizeof(float)) == 0);
    }
    c.ranks = 2;
    c.batch = 4;
    c.sync_bn = 0;
    if (par_good(&c, left))
        T_CHECK_MSG(par_apart(left, want) > 1e-3, "without sync_bn: only %g from one rank", par_apart(left, want));
}

/* Two batches of four on two ranks to an update equal one batch of sixteen, whatever the buckets
 * and the number of labels in each. */
static void par_check_accumulate(struct par_left *left, struct par_left *want, int sparse)
{
    struct par_case c = par_plain;
    c.sparse = sparse;
    c.net = par_conv;
    c.plain = 1;
    c.batch = 16;
    c.steps = 2;
    if (!par_good(&c, left))
        return;
    memcpy(want, left, sizeof *want);
    c.batch = 4;
    c.ranks = 2;
    c.accumulate = 2;
    c.steps = 4;
    if (!par_good(&c, left))
        return;
    T_CHECK_MSG(par_apart(left, want) < 1e-5, "accumulated on two ranks: %g from one rank", par_apart(left, want));
    par_check_together(&c, left);
    memcpy(want, left, sizeof *want);
    c.bucket = 500;
    if (par_good(&c, left))
        T_CHECK(par_equal(left, want));
}

static void par_refused(struct par_left *left, const struct par_case *c, int rank, int status, const char *says)
{
    T_CHECK(par_run(c, left));
    T_CHECK_MSG(left[rank].status == status && strstr(left[rank].text, says), "status %d, '%s'; not %d, '%s'", left[rank].status,
                left[rank].text, status, says);
}

/* ---- several hosts, each with one rank ---- */

/* The same bits as one rank; and the same with small buckets. */
static void par_check_hosts(struct par_left *left, struct par_left *want)
{
    static const char *const names[] = { "flat/doubling", "flat/halving", "flat/halving", "flat/" };
    struct par_case c = par_plain;
    c.shards = 4;
    if (!par_good(&c, left))
        return;
    memcpy(want, left, sizeof *want);
    for (int i = 0; i < 4; i++) {
        c.hosts = names[i];
        c.ranks = i < 2 ? 2 : 4;
        c.bucket = i == 1 ? 1000 : 0;
        if (!par_good(&c, left))
            return;
        for (int r = 0; r < c.ranks; r++)
            T_CHECK_MSG(par_equal(&left[r], want), "rank %d of %d hosts (%s) has other bits than one rank", r, c.ranks, c.hosts);
    }
    c.hosts = "flat/ring";
    par_refused(left, &c, 1, GYRE_E_ARG, "GYRE_ALLREDUCE=flat/ring");
    c.transport = "udp";
    par_refused(left, &c, 1, GYRE_E_ARG, "GYRE_TRANSPORT is \"udp\"");
    c.transport = "tcp";
    c.interface = "no-such";
    par_refused(left, &c, 1, GYRE_E_ARG, "GYRE_INTERFACE is \"no-such\"");
    c.interface = "lo";
    c.hosts = "flat/halving";
    if (par_good(&c, left))
        T_CHECK(par_equal(&left[0], want));
    c.interface = NULL;
    c.transport = "ucx";
    c.hosts = "flat/halving";
    const int ended = T_CHECK(par_run(&c, left)), absent = left[0].status == GYRE_E_UNSUPPORTED && strstr(left[0].text, "needs the library UCX");
    for (int r = 0; r < c.ranks && ended && !absent; r++)
        T_CHECK_MSG(left[r].status == GYRE_OK && par_equal(&left[r], want), "rank %d over UCX: %d, '%s', or other bits", r, left[r].status, left[r].text);
    if (absent)
        T_SKIP(left[0].text);
}

/* A sum of many floats goes along the shards' tree, too, by the algorithm that nobody named. */
static void par_check_hosts_many(struct par_left *left, struct par_left *want)
{
    struct par_case c = par_plain;
    c.net = "input 8x8x3\nc: conv 8 3x3\nrelu\nwide: linear 40\nrelu\nfc: linear 5\nsoftmax\n";
    c.shards = 4;
    if (!par_good(&c, left))
        return;
    memcpy(want, left, sizeof *want);
    c.hosts = "flat/";
    c.ranks = 4;
    const int good = par_good(&c, left);
    for (int r = 0; r < c.ranks && good; r++)
        T_CHECK_MSG(par_equal(&left[r], want), "rank %d of 4 hosts has other bits than one", r);
}

/* Each host writes its own trace: a rank is found in its file alone. */
static void par_check_hosts_trace(struct par_left *left)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char path[64], own[80], name[32], *text = NULL;
    struct gy_error err;
    size_t bytes = 0;
    struct par_case c = par_plain;
    snprintf(path, sizeof path, "/tmp/t_parallel.%d.hosts", (int)getpid());
    c.ranks = 2;
    c.hosts = "flat/doubling";
    c.trace = path;
    const int good = par_good(&c, left);
    for (int r = 0; r < 2 && good; r++) {
        snprintf(own, sizeof own, "%s.%d", path, r);
        snprintf(name, sizeof name, "\"rank %d\"", 1 - r);
        if (T_CHECK(gy_file_read(&alloc, own, 1 << 24, &text, &bytes, &err) == GY_OK)) {
            T_CHECK(strstr(text, "\"op\":\"allreduce\"") && !strstr(text, name));
            gy_alloc_free(&alloc, text, bytes + 1);
        }
        unlink(own);
    }
}

/* Gradients as bf16: all ranks the same, near those of float and not equal. */
static void par_check_wire(struct par_left *left, struct par_left *want)
{
    struct par_case c = par_plain;
    c.net = par_sure;
    c.ranks = 2;
    c.hosts = "flat/halving";
    if (!par_good(&c, left))
        return;
    memcpy(want, left, sizeof *want);
    c.wire = GYRE_WIRE_BF16;
    for (int i = 0; i < 2; i++) {
        c.bucket = i ? 700 : 0;
        if (!par_good(&c, left))
            return;
        T_CHECK_MSG(par_apart(left, want) < 0.005 && par_apart(left, want) > 1e-6, "bf16 is %g from float", par_apart(left, want));
        T_CHECK(memcmp(left[0].loss, left[1].loss, sizeof left[0].loss) == 0);
    }
    c.shards = 2;
    par_refused(left, &c, 0, GYRE_E_ARG, "wire");
    c.shards = 0;
    c.hosts = NULL;
    par_refused(left, &c, 0, GYRE_E_ARG, "all ranks of this job are on one host");
}

/* ---- what is refused, and what goes wrong ---- */

static void par_check_mistakes(struct par_left *left)
{
    struct par_case c = par_plain;
    c.shards = 3;
    c.ranks = 2;
    par_refused(left, &c, 0, GYRE_E_ARG, "3 shards cannot be dealt to 2 ranks");
    c.shards = 6;
    par_refused(left, &c, 1, GYRE_E_ARG, "6 shards on 2 ranks are 3 each");
    c.shards = 4;
    c.accumulate = 2;
    par_refused(left, &c, 0, GYRE_E_ARG, "accumulate");
    c.accumulate = 1;
    c.sync_bn = 1;
    par_refused(left, &c, 0, GYRE_E_ARG, "sync_bn");
    c = par_plain;
    c.ranks = 3;
    c.odd_rank = 2;
    for (int r = 0; r < 3; r++)
        par_refused(left, &c, r, GYRE_E_MISMATCH, "rank 2 has not the same as rank 0: seed");
    c.odd_scale = 1;
    par_refused(left, &c, 0, GYRE_E_MISMATCH, "rank 2 has not the same as rank 0: loss_scale");
}

/* A step in which no rank has a label changes nothing, and all ranks know it. Synchronised norms
 * need full batches. */
static void par_check_unlabelled(struct par_left *left, struct par_left *want)
{
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        struct par_case c = par_plain;
        c.ranks = 2;
        c.steps = 0;
        c.accumulate = accumulate;
        if (!par_good(&c, left))
            return;
        memcpy(want, left, 2 * sizeof *want);
        c.steps = 1;
        c.sparse = 16;
        T_CHECK(par_run(&c, left));
        for (int r = 0; r < 2; r++) {
            T_CHECK_MSG(left[r].status == GYRE_E_ARG && strstr(left[r].text, "label"), "rank %d: %d %s", r, left[r].status, left[r].text);
            T_CHECK(left[r].count == want[r].count && memcmp(left[r].values, want[r].values, (size_t)want[r].count * sizeof(float)) == 0);
        }
        c.sparse = 0;
        c.sync_bn = c.missing = c.plain = 1;
        for (int r = 0; r < 2; r++)
            par_refused(left, &c, r, GYRE_E_ARG, "3 of 4 samples with sync_bn");
    }
}

static void par_check_nonfinite(struct par_left *left, struct par_left *want)
{
    struct par_case c = par_plain;
    c.ranks = 2;
    c.steps = 1;
    if (!par_good(&c, left))
        return;
    memcpy(want, left, 2 * sizeof *want);
    c.steps = 2;
    c.bad_rank = c.bad_step = 1;
    T_CHECK(par_run(&c, left));
    for (int r = 0; r < 2; r++) {
        T_CHECK_MSG(left[r].status == GYRE_E_NONFINITE, "rank %d: %d %s", r, left[r].status, left[r].text);
        T_CHECK(left[r].count == want[r].count && memcmp(left[r].values, want[r].values, (size_t)want[r].count * sizeof(float)) == 0);
    }
}

static void par_check_trace(struct par_left *left)
{
    static const char *const rows[] = { "\"rank 0\"", "\"rank 2\"", "\"communication\"", "\"bucket 1\"", "\"cat\":\"backward\"",
                                        "\"op\":\"allreduce\"", "\"name\":\"a.conv1\"" };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err;
    char path[64], *text = NULL;
    size_t bytes = 0;
    struct par_case c = par_plain;
    snprintf(path, sizeof path, "/tmp/t_parallel.%d.json", (int)getpid());
    c.ranks = 3;
    c.bucket = 4000;
    c.trace = path;
    if (par_good(&c, left) && T_CHECK(gy_file_read(&alloc, path, 1 << 24, &text, &bytes, &err) == GY_OK)) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            T_CHECK_MSG(strstr(text, rows[i]) != NULL, "the trace has no %s", rows[i]);
        T_CHECK(bytes > 3 && text[0] == '[' && memcmp(text + bytes - 3, "\n]\n", 3) == 0 && strstr(text, "\n]\n") == text + bytes - 3);
        gy_alloc_free(&alloc, text, bytes + 1);
    }
    unlink(path);
}

/* ---- devices with memory of their own ---- */

static void par_check_device(struct par_left *left, struct par_left *want, const char *device)
{
    static const struct {
        int optimizer, accumulate, dtype;
        size_t bucket;
        double allowed;
    } rows[] = { { GYRE_SGD, 1, GYRE_F32, 600, 1e-6 }, { GYRE_ADAMW, 2, GYRE_F32, 0, 1e-5 }, { GYRE_SGD, 1, GYRE_F16, 1, 2e-3 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct par_case c = par_plain;
        c.net = par_conv;
        c.ranks = 2;
        c.steps = 6;
        c.optimizer = rows[i].optimizer;
        c.accumulate = rows[i].accumulate;
        c.bucket = rows[i].bucket;
        if (!par_good(&c, left))
            return;
        memcpy(want, left, sizeof *want);
        c.device = device;
        c.dtype = rows[i].dtype;
        c.ranks = 1; /* compiles the kernels for both */
        if (!par_good(&c, left))
            return;
        T_CHECK_MSG(par_apart(&left[0], want) > 10 * rows[i].allowed, "case %zu: one rank ends where two do", i);
        c.ranks = 2;
        if (!par_good(&c, left))
            return;
        T_CHECK_MSG(par_equal(&left[0], &left[1]), "case %zu: the ranks have other bits", i);
        T_CHECK_MSG(par_apart(&left[0], want) <= rows[i].allowed, "case %zu: %.3g from the CPU's ranks, allowed %.3g", i,
                    par_apart(&left[0], want), rows[i].allowed);
        c.bad_rank = c.bad_step = 1; /* one rank's loss: all stop, none has updated */
        if (i == 0 && T_CHECK(par_run(&c, left)))
            T_CHECK(left[0].status == GYRE_E_NONFINITE && left[1].status == GYRE_E_NONFINITE && par_apart(&left[0], &left[1]) <= 0);
    }
}

/* What is for the CPU alone, and a device that is not there. */
static void par_check_devices(struct par_left *left, struct par_left *want)
{
    struct gyre_config config;
    struct gyre_need need;
    struct gyre_error error;
    struct par_case c = par_plain;
    c.net = par_conv;
    c.device = "emu";
#ifdef PAR_NO_EMULATOR
    T_SKIP("no emulator under ThreadSanitizer");
    return;
#endif
    par_config(&config, &c, 0);
    config.memory.hook = NULL;
    if (!dh_opened(c.device, gyre_measure(&config, &need, &error), error.text))
        return;
    par_check_device(left, want, "emu");
    c.shards = 2;
    T_CHECK(par_run(&c, left) && left->status == GYRE_E_UNSUPPORTED && strstr(left->text, "shards"));
}

int main(void)
{
    struct par_left *left = par_memory(), *want = par_memory();
    if (!T_CHECK(left && want))
        return 1;
    par_check_shards(left, want, GYRE_SGD, GYRE_F32);
    par_check_shards(left, want, GYRE_LARS, GYRE_BF16);
    par_check_shards(left, want, GYRE_ADAMW, GYRE_F32);
    par_check_shards(left, want, GYRE_LAMB, GYRE_F32);
    par_check_shards(left, want, GYRE_LARS_UNSCALED, GYRE_F32);
    par_check_odd(left, want);
    par_check_own_norms(left, want);
    par_check_buckets(left, want);
    par_check_whole(left, want);
    par_check_accumulate(left, want, 0);
    par_check_accumulate(left, want, 5);
    par_check_mistakes(left);
    par_check_hosts(left, want);
    par_check_hosts_many(left, want);
    par_check_wire(left, want);
    par_check_hosts_trace(left);
    par_check_unlabelled(left, want);
    par_check_nonfinite(left, want);
    par_check_trace(left);
    par_check_devices(left, want);
    T_END("t_parallel");
}
