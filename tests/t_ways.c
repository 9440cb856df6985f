/* SPDX-License-Identifier: MIT */
/* Every way to train over processes with options of training in random company (options.h). A
 * combination trains in one process, and again in stages, with split layers, with parameter
 * servers, and as a job that may lose ranks. Each way must give the same results, evaluations and
 * bits, or refuse in words before it begins. Halfway all is saved, closed, opened and loaded again.
 * What a caller may ask for between updates is asked for: a way gives the same or refuses in words.
 *
 * Planted: for each option a way that forgets it. It must be noticed.
 *
 *     t_ways                              the quick suite
 *     t_ways --runs N [FROM]              N combinations, from number FROM on
 *     t_ways --one NUMBER WAY             one of them, in the way of that number
 *     t_ways --one NUMBER WAY NAME=VALUE...  its samples with these options alone */
#include <unistd.h>

#include "engine/gyre_job.h"
#include "engine/train/train_served.h"
#include "tests/glm_ranks.h"
#include "tests/options.h"
#include "tests/rank.h"
#include "tests/t.h"

#define WAYS_QUICK 84 /* combinations of the quick suite */
#define WAYS_CALLS 6  /* of gyre_step: a multiple of every `accumulate` of the table */
#define WAYS_RANKS 6
#define WAYS_FILE 65536 /* bytes of a checkpoint of these nets, at most */
#define WAYS_FLOATS (2 * OPT_FLOATS)

/* A way; its ranks are servers + workers, or stages * copies. */
struct way {
    const char *name;
    int stages, copies, split, servers, elastic;
};
static const struct way ways[] = {
    { "2 stages", .stages = 2, .copies = 1 },
    { "2 split ranks", .copies = 2, .split = 1 },
    { "1 server, 2 workers", .copies = 2, .servers = 1 },
    { "3 stages", .stages = 3, .copies = 1 },
    { "2 servers, 4 workers", .copies = 4, .servers = 2 },
    { "2 copies of 2 stages", .stages = 2, .copies = 2 },
    { "2 ranks that may be lost", .copies = 2, .elastic = 1 },
};
#define WAYS ((int)GY_COUNT(ways))

static int way_stages(const struct way *w) { return w->stages > 1 ? w->stages : 1; }
static int way_ranks(const struct way *w) { return way_stages(w) * w->copies + w->servers; }

/* ---- a run ---- */

struct way_step {
    int status, eval_status, asked; /* asked: the status of what is asked for between */
    char text[480];
    struct gyre_result result, eval;
    int evaluated; /* it was behind an update */
    int scored[2]; /* the status of gyre_get_scores behind a step, an evaluation */
    float scores[2][OPT_SAMPLES * OPT_CLASSES], each[2][OPT_SAMPLES];
};
struct way_left {
    int status; /* of all but steps */
    char text[480];
    struct way_step step[WAYS_CALLS];
    int64_t floats; /* with servers */
    float values[WAYS_FLOATS];
};
static struct way_left *way_one, *way_all; /* [1], [WAYS_RANKS], shared */
static char way_folder[] = "/tmp/t_ways.XXXXXX";

struct way_run {
    const struct opt_case *c;
    const struct way *way; /* NULL: one process */
    int part;              /* whose samples: of so many copies */
    struct gyre_config config;
    struct gyre_net *net;
    struct gyre_shape shape;
    struct way_left *left;
    char name[16]; /* of its files */
    int updates;   /* calls that went through since the last update */
};

static void way_path(const struct way_run *r, const char *what, char path[300])
{
    snprintf(path, 300, "%s/%s-%s", way_folder, r->name, what);
}

static int way_said(const struct way_run *r, int status)
{
    if (status != GYRE_OK && !r->left->text[0])
        snprintf(r->left->text, sizeof r->left->text, "%s", gyre_last_error(r->net)->text);
    return status;
}

static int way_open(struct way_run *r)
{
    struct gyre_error error = { 0 };
    const int status = gyre_open(&r->net, &r->config, &error);
    if (status != GYRE_OK)
        snprintf(r->left->text, sizeof r->left->text, "%s", error.text);
    gyre_get_shape(r->net, &r->shape);
    return status;
}

static int way_set_again(struct gyre_net *net)
{
    float values[OPT_PARAMETERS];
    struct gyre_tensor_info info;
    gyre_tensor_at(net, 0, &info);
    GY_TRY(gyre_get_tensor(net, info.name, values, info.count));
    return gyre_set_tensor(net, info.name, values, info.count);
}

/* Something of the training's own, or a sentence why it cannot be had here. */
static int way_ask(struct way_run *r, int call, struct gyre_error *where)
{
    static struct opt_data d;
    struct gyre_result result;
    float scores[OPT_SAMPLES * OPT_CLASSES];
    char path[300];
    int32_t sample;
    way_path(r, "export", path);
    opt_batch(r->c, &r->shape, OPT_EVAL, call, 0, &d);
    switch (r->c->between) {
    case OPT_BETWEEN_FIND: return gyre_find_nonfinite(r->net, &d.batch, &sample, where);
    case OPT_BETWEEN_GRADIENT: return gyre_gradient(r->net, &d.batch, &result);
    case OPT_BETWEEN_SET: return way_set_again(r->net);
    case OPT_BETWEEN_EXPORT: return gyre_export(r->net, path);
    default: return gyre_predict(r->net, &d.batch, scores);
    }
}

static void way_scores(const struct way_run *r, int which, int count, struct way_step *s)
{
    const float *scores, *each;
    s->scored[which] = gyre_get_scores(r->net, &scores, &each, NULL);
    if (s->scored[which] != GYRE_OK)
        return;
    memcpy(s->scores[which], scores, (size_t)(count * OPT_CLASSES) * sizeof *scores);
    memcpy(s->each[which], each, (size_t)count * sizeof *each);
}

/* Behind an update; not with servers, whose workers have weights alone. */
static void way_between(struct way_run *r, int call)
{
    static struct opt_data d;
    struct way_step *const s = &r->left->step[call];
    struct gyre_error where = { 0 };
    opt_batch(r->c, &r->shape, OPT_EVAL, call, 0, &d);
    s->evaluated = 1;
    s->eval_status = gyre_eval(r->net, &d.batch, &s->eval);
    way_scores(r, 1, d.batch.count, s);
    s->asked = way_ask(r, call, &where);
    if (s->asked != GYRE_OK)
        snprintf(s->text, sizeof s->text, "%s",
                 where.text[0] ? where.text : gyre_last_error(r->net)->text);
}

/* Amid the batches of an update: another batch is looked at, and takes the place of none. */
static void way_amid(const struct way_run *r, int call)
{
    static struct opt_data d;
    int32_t sample;
    opt_batch(r->c, &r->shape, OPT_PROBE, call, 0, &d);
    if (r->c->between == OPT_BETWEEN_FIND)
        gyre_find_nonfinite(r->net, &d.batch, &sample, NULL);
}

static int way_goes_on(const struct way_step *s)
{
    return s->status == GYRE_OK || s->status == GYRE_E_NONFINITE ||
           strstr(s->text, "no sample has a label");
}

/* 0: it goes on. */
static int way_step(struct way_run *r, int call)
{
    static struct opt_data d;
    struct opt_case c = *r->c;
    struct way_step *const s = &r->left->step[call];
    c.ranks = r->way ? r->way->copies : 1;
    opt_batch(&c, &r->shape, OPT_TRAIN, call, r->part, &d);
    s->status = gyre_step(r->net, &d.batch, &s->result);
    if (s->status != GYRE_OK)
        snprintf(s->text, sizeof s->text, "%s", gyre_last_error(r->net)->text);
    if (s->status == GYRE_OK)
        way_scores(r, 0, d.batch.count, s);
    r->updates += s->status == GYRE_OK;
    if (!way_goes_on(s))
        return way_said(r, s->status);
    if (s->status != GYRE_OK || (r->way && r->way->servers))
        return GYRE_OK;
    if (r->updates % c.config.accumulate == 0)
        way_between(r, call);
    else
        way_amid(r, call);
    return GYRE_OK;
}

/* All ranks come here. */
static int way_meet(const struct way_run *r)
{
    float one = 1;
    struct gyre_error error;
    return r->config.job ? gyre_job_sum(r->config.job, &one, 1, &error) : GYRE_OK;
}

/* rank 0 alone has a file, where ranks need not work together for it */
static int way_save(struct way_run *r, const char *what)
{
    char path[300];
    way_path(r, what, path);
    const int together = r->way && (r->way->stages || r->way->split);
    GY_TRY(together || gyre_job_rank(r->config.job) == 0 ? way_said(r, gyre_save(r->net, path))
                                                         : GYRE_OK);
    return way_meet(r);
}

static int way_reopen(struct way_run *r)
{
    char path[300];
    way_path(r, "half", path);
    GY_TRY(way_save(r, "half"));
    gyre_close(r->net);
    r->net = NULL;
    GY_TRY(way_open(r));
    return way_said(r, gyre_load(r->net, path));
}

static int way_dump(struct way_run *r)
{
    r->left->floats = opt_dump(r->net, &r->config, 0, OPT_GRADIENT, r->left->values, WAYS_FLOATS);
    return r->left->floats < 0 ? way_said(r, GYRE_E_BUG) : GYRE_OK;
}

/* Weights alone, out of a file and into it. */
static int way_import(struct way_run *r)
{
    char path[300];
    way_path(r, "export", path);
    GY_TRY(way_said(r, gyre_export(r->net, path)));
    GY_TRY(way_meet(r));
    GY_TRY(way_said(r, gyre_import(r->net, path, 0, NULL)));
    return way_save(r, "import");
}

static int way_train(struct way_run *r)
{
    const int each = r->config.accumulate;
    for (int call = 0; call < WAYS_CALLS; call++) {
        GY_TRY(way_step(r, call));
        if (call + 1 >= WAYS_CALLS / 2 && call + 1 - each < WAYS_CALLS / 2 &&
            r->updates % each == 0)
            GY_TRY(way_reopen(r));
    }
    if (!r->way)
        GY_TRY(way_dump(r));
    if (r->updates % each != 0)
        return GYRE_OK;
    GY_TRY(way_save(r, "end"));
    return way_import(r);
}

/* ---- with servers ---- */

static int way_work(struct way_run *r, struct gy_train_served *served)
{
    const int leads = gyre_job_rank(r->config.job) == 0;
    for (int call = 0; call < WAYS_CALLS; call++)
        GY_TRY(way_step(r, call));
    if (leads) {
        GY_TRY(way_said(r, gy_train_served_fetch(served, 1, 1)));
        GY_TRY(way_dump(r));
    }
    return way_said(r, gy_train_served_leave(served, leads));
}

static int way_served(struct way_run *r)
{
    struct gy_train_served served;
    gy_train_served_open(&served, r->net);
    int status = way_said(r, gy_train_served_begin(&served, 1));
    if (status == GYRE_OK && !gy_train_served_serves(&served))
        status = way_work(r, &served);
    gy_train_served_close(&served);
    return status;
}

/* ---- processes ---- */

static int way_net(struct way_run *r)
{
    r->left->status = way_open(r);
    if (r->left->status == GYRE_OK)
        r->left->status = r->way && r->way->servers ? way_served(r) : way_train(r);
    gyre_close(r->net);
    return r->left->status;
}

static int way_rank(const struct opt_case *c, const struct way *w, int rank, const char *name)
{
    struct way_run r = {
        .c = c, .way = w, .config = c->config, .left = &way_all[rank], .name = "all"
    };
    struct gyre_job_config many;
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    gyre_job_config_default(&many);
    many.wait_seconds = 120;
    many.messages = w->stages || w->split;
    many.servers = w->servers;
    many.sync = w->servers ? GYRE_SYNC_SERVER : GYRE_SYNC_ALLREDUCE;
    many.elastic_least = w->elastic;
    many.elastic_most = w->elastic ? w->copies : 0;
    test_be_rank(name, rank, way_ranks(w));
    int status = gyre_job_open(&job, &many, &error);
    if (status == GYRE_OK) {
        r.config.job = job;
        r.config.pipeline = w->stages;
        r.config.stage_schedule = (int)(c->seed % 2);
        r.part = gyre_job_rank(job) / way_stages(w);
        status = way_net(&r);
    }
    if (status == GYRE_OK)
        status = gyre_job_end(job, &error);
    if (status != GYRE_OK && !r.left->text[0])
        snprintf(r.left->text, sizeof r.left->text, "%s", error.text);
    gyre_job_close(job);
    r.left->status = status;
    return status;
}

/* 1: all ended by themselves. */
static int way_wait(int count)
{
    int whole = 1;
    for (int r = 0; r < count; r++) {
        int status = -1;
        wait(&status);
        whole &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return whole;
}

static int way_run_alone(const struct opt_case *c)
{
    memset(way_one, 0, sizeof *way_one);
    fflush(stdout);
    if (fork() == 0) {
        struct way_run r = { .c = c, .config = c->config, .left = way_one, .name = "one" };
        way_net(&r);
        _exit(0);
    }
    return way_wait(1);
}

static int way_run_all(const struct opt_case *c, const struct way *w)
{
    static int jobs;
    char name[64];
    snprintf(name, sizeof name, "t_ways %ld %d", (long)getpid(), jobs++);
    memset(way_all, 0, WAYS_RANKS * sizeof *way_all);
    fflush(stdout);
    for (int r = 0; r < way_ranks(w); r++)
        if (fork() == 0) {
            way_rank(c, w, r, name);
            fflush(stdout);
            _exit(0);
        }
    return way_wait(way_ranks(w));
}

/* ---- what may be refused ---- */

/* of: which ways may */
enum { WAY_STAGES = 1, WAY_SPLIT = 2, WAY_SERVERS = 4 };
struct way_refusal {
    int of;
    int (*when)(const struct opt_case *c); /* NULL: always */
    const char *says;
};

static int way_clips(const struct opt_case *c) { return c->config.optimizer.clip_norm > 0; }
static int way_again(const struct opt_case *c) { return c->config.recompute > 0; }
static int way_syncs(const struct opt_case *c) { return c->config.sync_bn; }
static int way_is_linear(const struct opt_case *c) { return c->body == 0; }
static int way_norms(const struct opt_case *c)
{
    const int kind = c->config.optimizer.kind;
    return kind != GYRE_SGD && kind != GYRE_ADAMW;
}

static const struct way_refusal way_refusals[] = {
    { WAY_STAGES, way_clips, "pipeline and optimizer.clip_norm together" },
    { WAY_STAGES, way_again, "pipeline and recompute together" },
    { WAY_STAGES, way_syncs, "pipeline and sync_bn together" },
    { WAY_STAGES, way_is_linear, "is longer than the net" },
    { WAY_SPLIT, way_clips, "optimizer.clip_norm needs the norm of all gradients" },
    { WAY_SPLIT, way_norms, "its optimizer needs the norm of a whole layer" },
    { WAY_SERVERS, way_clips, "clip_norm with parameter servers" },
    { WAY_SERVERS, NULL, "take fewer servers or smaller buckets" },
};

/* Why this rank may say so; NULL: there is no reason. */
static const char *way_reason(const struct opt_case *c, const struct way *w, const char *text)
{
    const int of =
        (w->stages ? WAY_STAGES : 0) | (w->split ? WAY_SPLIT : 0) | (w->servers ? WAY_SERVERS : 0);
    for (size_t i = 0; i < GY_COUNT(way_refusals); i++) {
        const struct way_refusal *const r = &way_refusals[i];
        if (r->of & of && (!r->when || r->when(c)) && strstr(text, r->says))
            return r->says;
    }
    return NULL;
}

/* 1: every rank refuses, for a reason that there is; 0: none does; -1: one did, and ought not to */
static int way_refused(const struct opt_case *c, const struct way *w)
{
    int rightly = 0, wrongly = 0;
    for (int r = 0; r < way_ranks(w); r++) {
        const int reason = way_reason(c, w, way_all[r].text) != NULL;
        rightly += reason && way_all[r].status != GYRE_OK;
        wrongly += !reason && way_all[r].status != GYRE_OK;
    }
    return rightly == way_ranks(w) ? 1 : rightly + wrongly > 0 ? -1 : 0;
}

/* ---- one beside the other ---- */

static int64_t way_read(const char *name, const char *what, unsigned char *bytes)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s-%s", way_folder, name, what);
    FILE *const f = fopen(path, "rb");
    const int64_t count = f ? (int64_t)fread(bytes, 1, WAYS_FILE, f) : -1;
    if (f)
        fclose(f);
    return count;
}

static void way_judge_file(const char *what, struct opt_verdict *v)
{
    static unsigned char one[WAYS_FILE], all[WAYS_FILE];
    const int64_t a = way_read("one", what, one), b = way_read("all", what, all);
    if (a != b)
        opt_says(v, -1, 0, what,
                 b < 0   ? "no file"
                 : a < 0 ? "a file, and of one process there is none"
                         : "another size");
    else if (a > 0 && (a == WAYS_FILE || memcmp(one, all, (size_t)a) != 0))
        opt_says(v, -1, 0, what, "other bytes than of one process");
}

static int way_same_result(const struct gyre_result *a, const struct gyre_result *b)
{
    return a->labelled == b->labelled && a->top1 == b->top1 && a->top5 == b->top5 &&
           memcmp(&a->loss, &b->loss, sizeof a->loss) == 0;
}

/* Does this rank evaluate what one process does? In stages it is the last one. */
static int way_evaluates(const struct way *w, int rank)
{
    return !w->servers && (!w->stages || rank % w->stages == w->stages - 1);
}

static void way_judge_step(const struct opt_case *c, const struct way *w, int rank, int call,
                           struct opt_verdict *v)
{
    const struct way_step *const one = &way_one->step[call], *const all = &way_all[rank].step[call];
    char text[400];
    snprintf(text, sizeof text, "status %d (%.120s), of one process %d (%.120s)", all->status,
             all->text, one->status, one->text);
    if (all->status != one->status)
        opt_says(v, call, rank, "gyre_step", text);
    snprintf(text, sizeof text,
             "loss %.17g of %d samples, %d and %d right; of one process %.17g of %d, %d and %d",
             all->result.loss, all->result.labelled, all->result.top1, all->result.top5,
             one->result.loss, one->result.labelled, one->result.top1, one->result.top5);
    const int told = c->config.accumulate == 1 || !w->stages;
    if (one->status == GYRE_OK && told && !way_same_result(&one->result, &all->result))
        opt_says(v, call, rank, "gyre_step", text);
    if (one->status == GYRE_OK &&
        (one->result.step != all->result.step ||
         memcmp(&one->result.rate, &all->result.rate, sizeof(float)) != 0))
        opt_says(v, call, rank, "gyre_step", "another step or rate");
    snprintf(text, sizeof text, "status %d, loss %.17g; of one process %d, %.17g", all->eval_status,
             all->eval.loss, one->eval_status, one->eval.loss);
    if (way_evaluates(w, rank) &&
        (one->eval_status != all->eval_status || !way_same_result(&one->eval, &all->eval)))
        opt_says(v, call, rank, "gyre_eval", text);
    if (all->asked != GYRE_OK && (!all->text[0] || all->asked == GYRE_E_NONFINITE) &&
        all->asked != one->asked)
        opt_says(v, call, rank, "what is asked for between", all->text);
    if (w->stages && all->evaluated && c->between == OPT_BETWEEN_NONE && all->asked == GYRE_OK)
        opt_says(v, call, rank, "gyre_predict", "a stage gives scores, which it has not");
}

/* Scores are those of one process, of the samples that this rank has; or they are refused. */
static void way_judge_scores(const struct opt_case *c, const struct way *w, int rank, int call,
                             struct opt_verdict *v)
{
    const struct way_step *const one = &way_one->step[call], *const all = &way_all[rank].step[call];
    const int shards = c->config.shards > 0 ? c->config.shards / w->copies : 1,
              part = w->servers ? rank - w->servers : rank / way_stages(w);
    const size_t samples = (size_t)(shards * OPT_BATCH), first = (size_t)part * samples;
    if (one->status != GYRE_OK || c->brief != OPT_FULL)
        return;
    if (all->scored[0] == GYRE_OK &&
        (memcmp(all->scores[0], one->scores[0] + first * OPT_CLASSES,
                samples * OPT_CLASSES * sizeof(float)) != 0 ||
         memcmp(all->each[0], one->each[0] + first, samples * sizeof(float)) != 0))
        opt_says(v, call, rank, "gyre_get_scores",
                 "other scores than of one process behind gyre_step");
    if (all->scored[1] == GYRE_OK && way_evaluates(w, rank) &&
        (memcmp(all->scores[1], one->scores[1], OPT_BATCH * OPT_CLASSES * sizeof(float)) != 0 ||
         memcmp(all->each[1], one->each[1], OPT_BATCH * sizeof(float)) != 0))
        opt_says(v, call, rank, "gyre_get_scores",
                 "other scores than of one process behind gyre_eval");
    if (w->stages && (all->scored[0] == GYRE_OK ||
                      (all->evaluated && all->scored[1] == GYRE_OK && !way_evaluates(w, rank))))
        opt_says(v, call, rank, "gyre_get_scores", "a stage gives what it has not");
}

/* An update that fails amid its batches: one process says so at the bad batch, stages with the last
 * one. t_pipeline compares what they learn. */
static int way_may_differ(const struct opt_case *c, const struct way *w)
{
    for (int call = 0; call < WAYS_CALLS && c->config.accumulate > 1; call++)
        if (way_one->step[call].status != GYRE_OK && w->stages)
            return 1;
    return 0;
}

static void way_judge(const struct opt_case *c, const struct way *w, struct opt_verdict *v)
{
    for (int r = w->servers; r < way_ranks(w); r++)
        for (int call = 0; call < WAYS_CALLS; call++) {
            way_judge_step(c, w, r, call, v);
            way_judge_scores(c, w, r, call, v);
        }
    if (w->servers) {
        const struct way_left *const all = &way_all[w->servers];
        if (all->floats != way_one->floats ||
            memcmp(all->values, way_one->values, (size_t)all->floats * sizeof(float)) != 0)
            opt_says(v, -1, 0, "what servers hold", "other bits than of one process");
        return;
    }
    way_judge_file("half", v);
    way_judge_file("end", v);
    way_judge_file("export", v);
    way_judge_file("import", v);
}

static void way_unlink(void)
{
    static const char *const whose[] = { "one", "all" }, *const what[] = { "half", "end", "export",
                                                                           "import" };
    char path[300];
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "%s/%s-%s", way_folder, whose[i % 2], what[i / 2]);
        unlink(path);
    }
}

/* ---- a combination ---- */

static void way_default(struct opt_case *c, const char *name) { c->pick[opt_row_named(name)] = 0; }

/* "linear 7" -> "linear 7 split" */
static void way_split_text(struct opt_case *c)
{
    char text[OPT_TEXT];
    size_t at = 0;
    for (const char *line = c->text; *line && at < sizeof text;) {
        const int length = (int)strcspn(line, "\n");
        at += (size_t)snprintf(text + at, sizeof text - at, "%.*s%s\n", length, line,
                               strncmp(line, "linear", 6) == 0 ? " split" : "");
        line += length + (line[length] == '\n');
    }
    memcpy(c->text, text, sizeof text);
}

/* One process is the peer; ways whose ranks have samples of their own need shards. */
static void way_make(struct opt_case *c, const struct way *w)
{
    char shards[32];
    way_default(c, "ranks");
    way_default(c, "hosts");
    if (c->pick[opt_row_named("dtype")] == 2) /* f16 is for GPUs */
        way_default(c, "dtype");
    if (w->copies > 1) {
        snprintf(shards, sizeof shards, "shards=%d",
                 w->copies * (c->seed % 3 == 0 && w->copies < 4 ? 2 : 1));
        opt_set(c, shards);
    }
    if (w->servers > 1)
        opt_set(c, "bucket=64");
    if (w->servers > 0) /* a worker has weights for a step */
        way_default(c, "between");
    if (c->pick[opt_row_named("shards")] > 0) {
        way_default(c, "accumulate");
        way_default(c, "sync_bn");
        way_default(c, "brief");
    }
    opt_make(c);
    if (w->split)
        way_split_text(c);
}

static int way_is_refused_alone(const struct opt_case *c)
{
    for (int i = 0; i < opt_refusal_count; i++)
        if (opt_refusals[i].when(c))
            return 1;
    return 0;
}

static void way_say_refusal(const struct way *w, int rank, struct opt_verdict *v)
{
    char text[500];
    const struct way_left *const left = &way_all[rank];
    snprintf(text, sizeof text, "%d, %.450s", left->status, left->text);
    if (left->status != GYRE_OK || rank + 1 == way_ranks(w))
        opt_says(v, -1, rank, "not all ranks refuse, or without a reason", text);
}

/* forgets: a row of the table that the way does as if it were not given; -1: none. */
static void way_try(struct opt_case *c, const struct way *w, int forgets, struct opt_verdict *v)
{
    *v = (struct opt_verdict){ 0 };
    way_make(c, w);
    v->refused = way_is_refused_alone(c);
    if (v->refused)
        return;
    struct opt_case other = *c;
    if (forgets >= 0) {
        other.pick[forgets] = 0;
        way_make(&other, w);
    }
    other.config.net = other.text;
    way_unlink();
    if (!way_run_alone(c) || way_one->status != GYRE_OK)
        opt_says(v, -1, 0, "one process", way_one->text);
    else if (!way_run_all(&other, w))
        opt_says(v, -1, 0, "a rank", "it did not end by itself");
    if (v->wrong)
        return;
    const int refused = way_refused(c, w);
    v->refused = refused > 0 || (refused == 0 && way_may_differ(c, w));
    for (int r = 0; r < way_ranks(w) && refused < 0; r++)
        way_say_refusal(w, r, v);
    if (!v->refused && !v->wrong)
        way_judge(c, w, v);
}

static void way_try_whole(const void *w, struct opt_case *c, struct opt_verdict *v)
{
    way_try(c, w, -1, v);
}

static void way_complain(const struct opt_case *c, const struct way *w, const struct opt_verdict *v)
{
    struct opt_case small = *c;
    struct opt_verdict other = *v;
    char all[600], few[600];
    opt_print(c, all, sizeof all);
    opt_shrink(&small, way_try_whole, w, &other);
    opt_print(&small, few, sizeof few);
    printf("    %s, number %" PRIu64 " (%s): %s\n    t_ways --one %" PRIu64 " %d %s\n    %s\n",
           w->name, c->seed, all, v->what, c->seed, (int)(w - ways), few, other.what);
}

static void way_many(uint64_t from, int count)
{
    int judged[WAYS] = { 0 }, refused = 0;
    for (uint64_t n = from; n < from + (uint64_t)count; n++) {
        const struct way *const w = &ways[n % WAYS];
        struct opt_case c;
        struct opt_verdict v;
        opt_draw(&c, n);
        way_try(&c, w, -1, &v);
        judged[n % WAYS] += !v.refused;
        refused += v.refused;
        if (!T_CHECK(!v.wrong))
            way_complain(&c, w, &v);
    }
    for (int i = 0; i < WAYS && count >= WAYS_QUICK; i++)
        T_CHECK_MSG(judged[i] >= count / WAYS / 3, "%s: %d of %d combinations were judged",
                    ways[i].name, judged[i], count / WAYS);
    printf("t_ways: %d combinations, %d refused\n", count, refused);
}

/* ---- faults ---- */

/* Options that a way forgets, with what they need to show. */
static const char *const way_forgotten[] = {
    "momentum=0.5",
    "nesterov=1",
    "decay=0.1",
    "decay_all=1 decay=0.1 body=norms",
    "ema=0.15",
    "rate=0.3",
    "schedule=cosine",
    "warmup=3",
    "mean=own",
    "mix=mixup",
    "labels=some",
    "loss=smooth",
    "dropout=0.3",
    "dtype=bf16",
    "seed=77 dropout=0.3",
    "input=u8",
    "optimizer=adamw",
    "beta1=0.5 optimizer=adamw",
    "eps=0.001 optimizer=adamw",
};

static void way_check_fault(const char *options, uint64_t number)
{
    const struct way *const w = &ways[number % WAYS];
    struct opt_case c;
    struct opt_verdict right, wrong;
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(options, "="), options);
    opt_plain(&c, number);
    T_CHECK(opt_set(&c, "body=conv") == 0 && opt_set(&c, options) == 0);
    way_try(&c, w, -1, &right);
    T_CHECK_MSG(!right.wrong && !right.refused, "%s, %s: %s", w->name, options, right.what);
    way_try(&c, w, opt_row_named(name), &wrong);
    T_CHECK_MSG(wrong.wrong, "%s that forget %s are not noticed", w->name, options);
}

static int way_command_one(int argc, char **argv)
{
    struct opt_case c;
    struct opt_verdict v;
    char text[600];
    const int way = atoi(argv[3]);
    if (way < 0 || way >= WAYS) {
        printf("there are the ways 0 to %d\n", WAYS - 1);
        return 1;
    }
    opt_draw(&c, strtoull(argv[2], NULL, 10));
    if (argc > 4)
        opt_plain(&c, c.seed);
    for (int i = 4; i < argc; i++)
        if (opt_set(&c, argv[i]) != 0) {
            printf("%s: no such option or value\n", argv[i]);
            return 1;
        }
    way_try(&c, &ways[way], -1, &v);
    opt_print(&c, text, sizeof text);
    printf("%s, number %" PRIu64 " (%s): %s %s\n%s", ways[way].name, c.seed, text,
           v.refused ? "refused"
           : v.wrong ? "wrong"
                     : "right",
           v.refused ? way_all[0].text : v.what, c.text);
    return v.wrong;
}

static int way_command(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "--one") == 0)
        return way_command_one(argc, argv);
    if (argc > 2 && strcmp(argv[1], "--runs") == 0) {
        way_many(argc > 3 ? strtoull(argv[3], NULL, 10) : 1, atoi(argv[2]));
        return t_end("t_ways");
    }
    way_many(1, WAYS_QUICK);
    for (size_t i = 0; i < GY_COUNT(way_forgotten); i++)
        way_check_fault(way_forgotten[i], 5000 + i);
    return t_end("t_ways");
}

int main(int argc, char **argv)
{
    way_one = gr_memory(sizeof *way_one);
    way_all = gr_memory(WAYS_RANKS * sizeof *way_all);
    if (!mkdtemp(way_folder))
        return 2;
    const int status = way_command(argc, argv);
    way_unlink();
    rmdir(way_folder);
    return status;
}
