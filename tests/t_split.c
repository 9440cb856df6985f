/* SPDX-License-Identifier: MIT */
/* t_split.c: nets with split layers beside whole ones. Nets are drawn at random: convolutions,
 * batch norms, dropout, residuals and bends before, between and behind layers that are split or
 * not. So are ranks, shards, type, optimiser and threads. With shards the file that rank 0 saves
 * must be, to its last byte, that of one process. Without shards losses must be near those of the
 * same ranks with the same net whose layers are whole. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/gyre.h"
#include "engine/gyre_job.h"
#include "tests/random_net.h"
#include "tests/rank.h"
#include "tests/t.h"

#define SP_RANKS 4
#define SP_STEPS 3

struct sp_case {
    char text[4096], whole[4096]; /* whole: without the word */
    uint64_t seed;
    int batch, ranks, shards, accumulate, dtype, adamw, threads, ema, sync_bn;
};
struct sp_left {
    int status;
    double loss[SP_STEPS], test;
    char text[300];
};
static struct sp_left *sp_left; /* [SP_RANKS], shared */
static char sp_folder[] = "/tmp/t_split.XXXXXX";

/* ---- a net ---- */

static void sp_put(struct sp_case *c, const char *line, int split)
{
    const size_t a = strlen(c->text), b = strlen(c->whole);
    snprintf(c->text + a, sizeof c->text - a, "%s%s\n", line, split ? " split" : "");
    snprintf(c->whole + b, sizeof c->whole - b, "%s\n", line);
}

/* What may stand behind a layer; nothing of it changes the shape. */
static void sp_put_bend(struct sp_case *c, struct random_draw *d)
{
    static const char *const bends[] = { "relu", "sigmoid", "tanh", "relu6" };
    if (random_percent(d, 30))
        sp_put(c, "bn", 0);
    if (random_percent(d, 60))
        sp_put(c, bends[random_below(d, 4)], 0);
    if (random_percent(d, 25))
        sp_put(c, "dropout 0.3", 0);
}

static void sp_put_images(struct sp_case *c, struct random_draw *d)
{
    char line[80];
    const int side = 3 + random_below(d, 6);
    snprintf(line, sizeof line, "input %dx%dx%d", side, side, 1 + random_below(d, 3));
    sp_put(c, line, 0);
    for (int i = random_below(d, 3); i > 0; i--) {
        snprintf(line, sizeof line, "conv %d 3x3", 2 + random_below(d, 7));
        sp_put(c, line, 0);
        sp_put_bend(c, d);
    }
    if (random_percent(d, 40))
        sp_put(c, "maxpool 2x2", 0);
    else if (random_percent(d, 20))
        sp_put(c, "gap", 0);
}

/* Layers of one width, some added to one that came before; one at least is split. */
static void sp_put_linear(struct sp_case *c, struct random_draw *d, int least)
{
    char line[80];
    const int width = least + random_below(d, 40), layers = 1 + random_below(d, 4),
              sure = random_below(d, layers);
    for (int i = 0; i < layers; i++) {
        snprintf(line, sizeof line, "fc%d: linear %d%s", i, width,
                 random_percent(d, 30) ? " nobias" : "");
        sp_put(c, line, i == sure || random_percent(d, 60));
        sp_put_bend(c, d);
        if (i > 0 && random_percent(d, 40)) {
            snprintf(line, sizeof line, "add fc%d", random_below(d, i));
            sp_put(c, line, 0);
        }
    }
    snprintf(line, sizeof line, "linear %d", least + random_below(d, 6));
    sp_put(c, line, random_percent(d, 40));
    sp_put(c, "softmax", 0);
}

static void sp_draw(struct sp_case *c, uint64_t seed)
{
    struct random_draw d = { seed };
    *c = (struct sp_case) { .seed = seed };
    const int sharded = random_percent(&d, 65);
    c->ranks = sharded ? 1 << (1 + random_below(&d, 2)) : 2 + random_below(&d, 3);
    if (sharded && random_percent(&d, 20))
        c->ranks = 3;
    c->shards = sharded ? c->ranks << random_below(&d, 3) : 0;
    c->accumulate = sharded ? 1 : 1 + random_below(&d, 3);
    c->batch = 6 + random_below(&d, 6);
    c->dtype = sharded && random_percent(&d, 25) ? GYRE_BF16 : GYRE_F32;
    c->adamw = random_percent(&d, 40);
    c->threads = 1 + random_below(&d, 3);
    c->ema = random_percent(&d, 25);
    c->sync_bn = !sharded && random_percent(&d, 40);
    sp_put_images(c, &d);
    sp_put_linear(c, &d, sharded ? c->shards : c->ranks > 2 ? c->ranks : 2);
}

/* ---- a run ---- */

static struct gyre_config sp_config(const struct sp_case *c, int threads, int split)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = split ? c->text : c->whole;
    config.batch = c->batch;
    config.seed = c->seed;
    config.dtype = c->dtype;
    config.threads = threads;
    config.optimizer.kind = c->adamw ? GYRE_ADAMW : GYRE_SGD;
    config.optimizer.ema = c->ema ? 0.9f : 0;
    config.schedule.rate = c->adamw ? 0.001f : 0.01f;
    config.shards = c->shards;
    config.sync_bn = c->sync_bn;
    config.accumulate = c->accumulate;
    return config;
}

/* Samples of a batch: the same numbers for the same place in the run. */
static void sp_fill(const struct sp_case *c, const struct gyre_shape *s, int64_t first, int count,
                    float *x, int32_t *label)
{
    const int64_t each = (int64_t)s->h * s->w * s->c;
    for (int i = 0; i < count; i++) {
        struct random_draw d = { c->seed * 1000003 + (uint64_t)(first + i) };
        label[i] = (int32_t)random_below(&d, (int)s->classes);
        for (int64_t k = 0; k < each; k++)
            x[i * each + k] = (float)random_real(&d, -1, 1);
    }
}

/* part of parts: which of the samples of an update this process has. */
static int sp_train(const struct sp_case *c, struct gyre_net *net, int part, int parts,
                    struct sp_left *left)
{
    struct gyre_shape s;
    gyre_get_shape(net, &s);
    const int mine = c->shards ? c->shards / parts * s.batch : s.batch;
    float *const x = calloc((size_t)mine * (size_t)s.h * (size_t)s.w * (size_t)s.c, sizeof *x);
    int32_t *const label = calloc((size_t)mine, sizeof *label);
    struct gyre_batch batch = { .x = x, .label = label, .count = mine };
    struct gyre_result r = { 0 };
    int status = x && label ? GYRE_OK : GYRE_E_NOMEM;
    for (int step = 0; step < SP_STEPS * c->accumulate && status == GYRE_OK; step++) {
        sp_fill(c, &s, ((int64_t)step * parts + part) * mine, mine, x, label);
        status = gyre_step(net, &batch, &r);
        left->loss[step / c->accumulate] = r.loss;
    }
    batch.count = s.batch;
    sp_fill(c, &s, 1 << 20, s.batch, x, label);
    if (status == GYRE_OK)
        status = gyre_eval(net, &batch, &r);
    left->test = r.loss;
    free(label);
    free(x);
    return status;
}

static int sp_run(const struct sp_case *c, struct gyre_job *job, int split, const char *path,
                  struct sp_left *left)
{
    struct gyre_config config = sp_config(c, job ? c->threads : 1, split);
    struct gyre_error error = { 0 };
    struct gyre_net *net = NULL;
    config.job = job;
    int status = gyre_open(&net, &config, &error);
    if (status == GYRE_OK) {
        status = sp_train(c, net, gyre_job_rank(job), gyre_job_ranks(job), left);
        if (status == GYRE_OK && (split || gyre_job_rank(job) == 0))
            status = gyre_save(net, path);
        error = *gyre_last_error(net);
    }
    snprintf(left->text, sizeof left->text, "%.290s", error.text);
    gyre_close(net);
    return status;
}

static void sp_rank(const struct sp_case *c, int rank, int split, const char *name,
                    const char *path)
{
    struct gyre_job_config config;
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    gyre_job_config_default(&config);
    config.wait_seconds = 60;
    config.messages = 1;
    test_be_rank(name, rank, c->ranks);
    int status = gyre_job_open(&job, &config, &error);
    if (status == GYRE_OK)
        status = sp_run(c, job, split, path, &sp_left[rank]);
    else
        snprintf(sp_left[rank].text, sizeof sp_left[rank].text, "%.290s", error.text);
    if (status == GYRE_OK)
        status = gyre_job_end(job, &error);
    gyre_job_close(job);
    sp_left[rank].status = status;
}

/* ranks 1: a process without a job. This one must have no threads when it forks. */
static void sp_ranks(const struct sp_case *c, int ranks, int split, const char *path)
{
    static int jobs;
    char name[64];
    snprintf(name, sizeof name, "t_split %ld %d", (long)getpid(), jobs++);
    memset(sp_left, 0, SP_RANKS * sizeof *sp_left);
    fflush(stdout);
    for (int r = 0; r < ranks; r++)
        if (fork() == 0) {
            if (ranks == 1)
                sp_left[0].status = sp_run(c, NULL, split, path, &sp_left[0]);
            else
                sp_rank(c, r, split, name, path);
            _exit(0);
        }
    for (int r = 0; r < ranks; r++)
        wait(NULL);
}

/* ---- comparing ---- */

static int sp_same(const char *a, const char *b)
{
    FILE *const f = fopen(a, "rb"), *const g = fopen(b, "rb");
    int x = 0, y = 0, count = 0;
    while (f && g && x == y && x != EOF) {
        x = getc(f);
        y = getc(g);
        count++;
    }
    if (f)
        fclose(f);
    if (g)
        fclose(g);
    return x == y && count > 1;
}

static int sp_near(double a, double b, double share)
{
    return fabs(a - b) <= share * (fabs(b) + 1e-3);
}

/* Are the losses of all ranks those of the other run? */
static int sp_losses(const struct sp_case *c, const struct sp_left *other, double share)
{
    int well = 1;
    for (int r = 0; r < c->ranks; r++) {
        const struct sp_left *left = &sp_left[r];
        well = well && left->status == GYRE_OK;
        T_CHECK_MSG(left->status == GYRE_OK, "seed %d, rank %d: %d, %s", (int)c->seed, r,
                    left->status, left->text);
        for (int k = 0; k < SP_STEPS && well; k++) {
            const int near = sp_near(left->loss[k], other->loss[k], share);
            T_CHECK_MSG(near, "seed %d, rank %d, update %d: loss %.17g, of the other run %.17g",
                        (int)c->seed, r, k, left->loss[k], other->loss[k]);
            well = well && near;
        }
        /* running statistics are a rank's own without shards */
        T_CHECK_MSG(!well || (r > 0 && !c->shards) || sp_near(left->test, other->test, share),
                    "seed %d, rank %d: test loss %.17g, of the other run %.17g", (int)c->seed, r,
                    left->test, other->test);
    }
    return well;
}

static void sp_check(const struct sp_case *c)
{
    char one[64], all[64];
    snprintf(one, sizeof one, "%s/one", sp_folder);
    snprintf(all, sizeof all, "%s/all", sp_folder);
    sp_ranks(c, c->shards ? 1 : c->ranks, c->shards > 0, one);
    const struct sp_left other = sp_left[0];
    T_CHECK_MSG(other.status == GYRE_OK, "seed %d: %s", (int)c->seed, other.text);
    sp_ranks(c, c->ranks, 1, all);
    int well = sp_losses(c, &other, c->shards ? 1e-12 : 1e-3);
    if (c->shards && well) {
        well = sp_same(one, all);
        T_CHECK_MSG(well, "seed %d: not the bits of one process", (int)c->seed);
    }
    if (!well)
        printf("seed %d: batch %d, %d ranks, %d shards, accumulate %d, dtype %d, adamw %d, ema "
               "%d:\n%s", (int)c->seed, c->batch, c->ranks, c->shards, c->accumulate, c->dtype,
               c->adamw, c->ema, c->text);
    unlink(one);
    unlink(all);
}

static void sp_random(uint64_t first, int count)
{
    static const char *const words[] = { "dropout", "bn", "add", "conv" };
    static struct sp_case c;
    int ranks[SP_RANKS + 1] = { 0 }, has[GY_COUNT(words)] = { 0 }, sharded = 0;
    for (uint64_t seed = first; seed < first + (uint64_t)count; seed++) {
        sp_draw(&c, seed);
        sp_check(&c);
        ranks[c.ranks]++;
        sharded += c.shards > 0;
        for (size_t i = 0; i < GY_COUNT(words); i++)
            has[i] += strstr(c.text, words[i]) != NULL;
    }
    printf("seeds from %d: %d nets on 2 ranks, %d on 3, %d on 4; %d with shards;", (int)first,
           ranks[2], ranks[3], ranks[4], sharded);
    for (size_t i = 0; i < GY_COUNT(words); i++) {
        printf(" %d with %s", has[i], words[i]);
        T_CHECK_MSG(has[i] > 0 || count < 20, "no net has %s", words[i]);
    }
    puts("");
}

/* ---- mistakes ---- */

/* What opening says to the net on so many ranks; "": nothing. */
static void sp_says(const struct sp_case *c, const char *sentence)
{
    struct gyre_need need;
    struct gyre_error error = { 0 };
    const struct gyre_config config = sp_config(c, 1, 1);
    gyre_measure(&config, &need, &error);
    T_CHECK_MSG(sentence[0] ? strstr(error.text, sentence) != NULL : !error.text[0],
                "it says '%s', not '%s'", error.text, sentence);
}

static void sp_mistakes(void)
{
    static struct sp_case c = { .batch = 4, .accumulate = 1 };
    sp_put(&c, "input 4x4x1\nfc1: linear 7 split\nrelu\nlinear 3\nsoftmax", 0);
    sp_says(&c, "");
    c.shards = 7;
    sp_says(&c, "");
    c.shards = 8;
    sp_says(&c, "layer 'fc1' is split into 8 slices, one a shard, and has 7 columns");
}

int main(int argc, char **argv)
{
    const size_t bytes = SP_RANKS * sizeof *sp_left;
    FILE *const file = tmpfile();
    void *const at = file && ftruncate(fileno(file), (off_t)bytes) == 0
                         ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0)
                         : MAP_FAILED;
    if (at == MAP_FAILED || !mkdtemp(sp_folder))
        return 1;
    sp_left = at;
    sp_mistakes();
    sp_random(argc > 1 ? strtoull(argv[1], NULL, 10) : 500, argc > 2 ? atoi(argv[2]) : 24);
    rmdir(sp_folder);
    T_END("t_split");
}
