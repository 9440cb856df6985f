/* SPDX-License-Identifier: MIT */
/* options_run.c: a training with a combination of options: batches, and ranks as processes. After
 * every step a second net continues from a file, as after an interruption. */
#include "engine/gyre_job.h"
#include "tests/options.h"
#include "tests/glm_ranks.h"

const char *const opt_prefix[] = { "", "momentum.", "second.", "ema.", "", "grad." };
#define OPT_KINDS 6
#define OPT_STATE 4

/* ---- batches ---- */

/* A number of its own for everything, 0 .. 2^32 - 1. */
static uint32_t opt_word(const struct opt_case *c, int kind, int step, int sample, int what)
{
    const uint64_t place = (uint64_t)kind << 56 | (uint64_t)step << 48 | (uint64_t)sample << 24 | (uint64_t)what;
    uint64_t z = (c->seed + 1) * 0xd1342543de82ef95u ^ (place + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 16);
}

static int opt_below(const struct opt_case *c, int kind, int step, int sample, int what, int below)
{
    return (int)(opt_word(c, kind, step, sample, what) % (uint32_t)below);
}

int opt_is_bad(const struct opt_case *c, int step) { return c->bad == step + 1; }

/* Samples of a batch. Shards, and norms over all ranks, refuse a batch that is not full, each time
 * and on every rank. */
static int opt_count(const struct opt_case *c, int kind, int step, int rank)
{
    const int own = c->config.shards > 0 && kind != OPT_EVAL ? c->config.shards / c->ranks * OPT_BATCH : OPT_BATCH;
    const int fixed = c->config.shards > 0 || c->config.sync_bn;
    if (c->brief == OPT_SINGLE)
        return 1;
    return c->brief == OPT_BRIEF && (fixed || (step % 3 > 0 && !(kind == OPT_TRAIN && opt_is_bad(c, step))))
               ? own - 1 - (fixed ? 0 : opt_below(c, kind, step, rank, 1, 2)) : own;
}

/* Moves, flips and a box, as far as the case has them. Partners are of the own shard. */
static struct gyre_mix opt_mixed(const struct opt_case *c, const struct gyre_shape *shape, int kind, int step, int sample, int place, int count)
{
    const int group = place / OPT_BATCH * OPT_BATCH, deep = count - group < OPT_BATCH ? count - group : OPT_BATCH;
    const int all = c->mix == OPT_MIX_ALL, up = c->mix == OPT_MIX_UP, cut = c->mix == OPT_MIX_CUT;
    const float share = .25f + .125f * (float)opt_below(c, kind, step, sample, 1000, 5);
    struct gyre_mix m = { .partner = place, .inside = 1, .label = 1, .h1 = shape->h, .w1 = shape->w };
    if (all || up || cut) {
        m.partner = group + opt_below(c, kind, step, sample, 1001, deep);
        m.label = m.partner == place ? 1 : share;
        m.inside = cut || (all && sample % 2) ? 0 : share;
    }
    if (m.inside <= 0) {
        m.h0 = 1;
        m.w1 = shape->w - 1 - opt_below(c, kind, step, sample, 1002, 2);
    }
    if (all || c->mix == OPT_MIX_MOVE) {
        m.dy = opt_below(c, kind, step, sample, 1003, 5) - 2;
        m.dx = opt_below(c, kind, step, sample, 1004, 5) - 2;
    }
    m.flip = (all || c->mix == OPT_MIX_FLIP) && opt_below(c, kind, step, sample, 1005, 3) > 0;
    return m;
}

static void opt_sample(const struct opt_case *c, const struct gyre_shape *shape, int kind, int step, int sample, int place, struct opt_data *d)
{
    const int pixels = shape->h * shape->w * shape->c;
    const int some = c->labels == OPT_LABELS_SOME && place % OPT_BATCH > 0 && opt_below(c, kind, step, sample, 999, 3) == 0;
    const int few = c->labels == OPT_LABELS_FEW && opt_below(c, kind, step, sample, 999, 4) > 0, none = c->labels == OPT_LABELS_NONE && step % 2 == 1;
    d->label[place] = some || few || none ? -1 : opt_below(c, kind, step, sample, 998, OPT_CLASSES);
    for (int i = 0; i < pixels; i++) {
        d->bytes[place * pixels + i] = (uint8_t)opt_below(c, kind, step, sample, i, 256);
        d->x[place * pixels + i] = (float)opt_word(c, kind, step, sample, i) / 2147483648.0f - 1;
    }
    for (int i = 0; i < OPT_CLASSES; i++)
        d->target[place * OPT_CLASSES + i] = (float)opt_word(c, kind, step, sample, 500 + i) / 2147483648.0f - 1;
}

void opt_batch(const struct opt_case *c, const struct gyre_shape *shape, int kind, int step, int rank, struct opt_data *d)
{
    const int count = opt_count(c, kind, step, rank), most = c->config.shards > 0 ? c->config.shards / c->ranks * OPT_BATCH : OPT_BATCH;
    d->batch = (struct gyre_batch){ .x = d->x, .label = d->label, .count = count };
    for (int i = 0; i < count; i++) {
        opt_sample(c, shape, kind, step, rank * most + i, i, d);
        d->mix[i] = opt_mixed(c, shape, kind, step, rank * most + i, i, count);
    }
    if (c->config.input == GYRE_INPUT_U8)
        d->batch.x = d->bytes;
    if (c->mix != OPT_MIX_NONE && kind != OPT_EVAL)
        d->batch.mix = d->mix;
    if (c->targets > 0)
        d->batch.target = d->target;
    if (c->targets > 1)
        d->batch.label = NULL;
    const int bad = kind == OPT_TRAIN && opt_is_bad(c, step) && rank == (c->config.shards > 0 ? 0 : c->ranks - 1);
    const int pixels = shape->h * shape->w * shape->c;
    for (int i = 0; i < pixels && bad; i++)
        /* a whole sample, wherever it is moved; the last one, which a brief batch keeps */
        d->x[(count - 1) * pixels + i] = NAN;
}

/* ---- what a net holds ---- */

int opt_has(const struct gyre_config *config, int kind, int trained)
{
    const int there = kind == 2 ? config->optimizer.kind == GYRE_ADAMW || config->optimizer.kind == GYRE_LAMB : kind == 3 ? config->optimizer.ema > 0 : 1;
    return there && trained == (kind != OPT_STATE);
}

int64_t opt_dump(struct gyre_net *net, const struct gyre_config *config, int from, int to,
                 float *values, int64_t room)
{
    struct gyre_tensor_info info;
    char name[200];
    int64_t at = 0;
    for (int kind = from; kind < to; kind++)
        for (int i = 0; i < gyre_tensor_count(net); i++) {
            gyre_tensor_at(net, i, &info);
            if (!opt_has(config, kind, info.trained))
                continue;
            snprintf(name, sizeof name, "%s%s", opt_prefix[kind], info.name);
            if (at + info.count > room || gyre_get_tensor(net, name, values + at, info.count) != GYRE_OK)
                return -1;
            at += info.count;
        }
    return at;
}

/* ---- a rank ---- */

struct opt_ranks {
    const struct opt_case *c;
    const char *folder;
    struct opt_left *left;
};

struct opt_net {
    const struct opt_case *c;
    struct gyre_config config;
    struct gyre_net *net, *resumed; /* undisturbed; and opened anew for every step, or NULL */
    struct gyre_shape shape;
    int rank, calls;                /* calls: steps that went through */
    /* files: checkpoints of this rank and of rank 0; exported weights */
    char own[300], common[300], exported[300];
};

static int opt_open(const struct opt_net *n, struct gyre_net **net, struct opt_left *left)
{
    struct gyre_error error = { 0 };
    left->status = gyre_open(net, &n->config, &error);
    if (left->status != GYRE_OK)
        memcpy(left->text, error.text, sizeof left->text);
    return left->status == GYRE_OK ? 0 : -1;
}

static void opt_said(const struct gyre_net *net, int status, char text[480])
{
    if (status != GYRE_OK)
        snprintf(text, 480, "%s", gyre_last_error(net)->text);
}

/* Gradients wait for their update. */
static int opt_waits(const struct opt_net *n) { return n->calls % n->config.accumulate != 0; }

static void opt_take_scores(const struct opt_net *n, const struct gyre_batch *b, struct opt_step *s)
{
    const float *scores, *each;
    const int32_t *rank;
    s->scores_status = gyre_get_scores(n->net, &scores, &each, &rank);
    if (s->scores_status != GYRE_OK)
        return;
    memcpy(s->scores, scores, (size_t)(b->count * OPT_CLASSES) * sizeof *scores);
    memcpy(s->each, each, (size_t)b->count * sizeof *each);
    memcpy(s->rank, rank, (size_t)b->count * sizeof *rank);
}

static void opt_evaluate(const struct opt_net *n, const struct gyre_batch *b, struct opt_step *s)
{
    const float *scores = NULL;
    s->eval_status = gyre_eval(n->net, b, &s->eval);
    s->eval_status = s->eval_status == GYRE_OK ? gyre_predict(n->net, b, s->predicted) : s->eval_status;
    s->eval_status = s->eval_status == GYRE_OK ? gyre_get_scores(n->net, &scores, NULL, NULL) : s->eval_status;
    if (s->eval_status == GYRE_OK && memcmp(scores, s->predicted, (size_t)(b->count * OPT_CLASSES) * sizeof *scores) != 0)
        snprintf(s->resumed, sizeof s->resumed, "gyre_get_scores is not what gyre_predict gave");
    opt_said(n->net, s->eval_status, s->said);
}

/* A weight is set to what it is: its average becomes the same. */
static int opt_set_again(struct gyre_net *net)
{
    float values[OPT_PARAMETERS];
    struct gyre_tensor_info info;
    gyre_tensor_at(net, 0, &info);
    return gyre_get_tensor(net, info.name, values, info.count) == GYRE_OK ? gyre_set_tensor(net, info.name, values, info.count) : GYRE_E_BUG;
}

/* What a caller may ask for between two steps. Nothing of it may change the training, except values
 * that are set. */
static void opt_between(const struct opt_net *n, int step, struct opt_step *s)
{
    static struct opt_data d;
    struct gyre_error where;
    opt_batch(n->c, &n->shape, OPT_EVAL, step, n->rank, &d);
    opt_evaluate(n, &d.batch, s);
    if (n->c->between == OPT_BETWEEN_FIND)
        s->probe_status = gyre_find_nonfinite(n->net, &d.batch, NULL, &where);
    if (n->c->between == OPT_BETWEEN_GRADIENT) {
        opt_batch(n->c, &n->shape, OPT_PROBE, step, n->rank, &d);
        s->probe_status = gyre_gradient(n->net, &d.batch, &s->probe);
        if (s->probe_status == GYRE_OK && opt_dump(n->net, &n->config, OPT_GRADIENT, OPT_KINDS, s->gradient, OPT_PARAMETERS) < 0)
            s->probe_status = GYRE_E_BUG;
    }
    if (n->c->between == OPT_BETWEEN_SET)
        s->probe_status = opt_set_again(n->net) == GYRE_OK && (!n->resumed || opt_set_again(n->resumed) == GYRE_OK) ? GYRE_OK : GYRE_E_BUG;
    if (n->c->between == OPT_BETWEEN_EXPORT)
        s->probe_status = gyre_export(n->net, n->exported);
    opt_said(n->net, s->probe_status, s->said);
}

int opt_same_results(const struct gyre_result *a, const struct gyre_result *b)
{
    return memcmp(&a->loss, &b->loss, sizeof a->loss) == 0 && a->top1 == b->top1 && a->top5 == b->top5 && a->labelled == b->labelled &&
           memcmp(&a->rate, &b->rate, sizeof a->rate) == 0 && a->step == b->step;
}

/* Running statistics of a rank go into no file but rank 0's. */
static int opt_has_state(const struct opt_net *n) { return n->rank == 0 || n->config.shards > 0 || n->config.sync_bn; }

/* Are tensors the same, bit for bit? Else the name of the first that is not. */
static int opt_same(const struct opt_net *n, const float *a, const float *b, char *text, size_t room)
{
    struct gyre_tensor_info info;
    for (int kind = 0; kind < OPT_KINDS; kind++)
        for (int i = 0; i < gyre_tensor_count(n->net); i++) {
            gyre_tensor_at(n->net, i, &info);
            if (!opt_has(&n->config, kind, info.trained))
                continue;
            if (memcmp(a, b, (size_t)info.count * sizeof *a) != 0 && (info.trained || opt_has_state(n))) {
                snprintf(text, room, "%s%s", opt_prefix[kind], info.name);
                return 0;
            }
            a += info.count;
            b += info.count;
        }
    return 1;
}

static void opt_resumed_step(const struct opt_net *n, const struct gyre_batch *b, struct opt_step *s)
{
    static float values[OPT_FLOATS];
    struct gyre_result r = { 0 };
    const int status = gyre_step(n->resumed, b, &r);
    char name[160] = "";
    if (status != s->status || (status == GYRE_OK && !opt_same_results(&r, &s->result)))
        snprintf(s->resumed, sizeof s->resumed, "status %d, loss %.9g, step %d", status, r.loss, (int)r.step);
    else if (opt_dump(n->resumed, &n->config, 0, OPT_KINDS, values, OPT_FLOATS) < 0 ||
             (status == GYRE_OK && !opt_same(n, s->values, values, name, sizeof name)))
        snprintf(s->resumed, sizeof s->resumed, "tensor %s", name);
}

static void opt_resumed_failed(const struct gyre_net *net, const char *call, struct opt_step *s)
{
    snprintf(s->resumed, sizeof s->resumed, "%s: %.150s", call, gyre_last_error(net)->text);
}

/* Into a file and, of rank 0's, out of it. Several ranks cannot while sums of each of them wait. */
static void opt_reopen(struct opt_net *n, struct opt_step *s, struct opt_left *left)
{
    struct gyre_error error;
    float all = 0;
    const int waits = n->config.job && opt_waits(n), status = gyre_save(n->resumed, n->own);
    if (status != (waits ? GYRE_E_STATE : GYRE_OK) || (waits && !strstr(gyre_last_error(n->resumed)->text, "save behind an update")))
        opt_resumed_failed(n->resumed, "save", s);
    if (waits || s->resumed[0])
        return;
    /* waits until all ranks have saved */
    if (n->config.job && gyre_job_sum(n->config.job, &all, 1, &error) != GYRE_OK)
        snprintf(s->resumed, sizeof s->resumed, "sum: %.150s", error.text);
    gyre_close(n->resumed);
    n->resumed = NULL;
    if (opt_open(n, &n->resumed, left) == 0 && gyre_load(n->resumed, n->common) != GYRE_OK)
        opt_resumed_failed(n->resumed, "load", s);
}

/* A net for inference loads the file and must predict what the training net did, also from
 * averages. */
static void opt_infer(const struct opt_net *n, struct opt_step *s, struct opt_left *left)
{
    static struct opt_data d;
    struct opt_net infer = *n;
    float scores[OPT_BATCH * OPT_CLASSES];
    infer.config.mode = GYRE_INFER;
    infer.config.job = NULL;
    if (opt_waits(n) || opt_open(&infer, &infer.net, left) != 0)
        return;
    opt_batch(n->c, &n->shape, OPT_EVAL, OPT_STEPS - 1, n->rank, &d);
    if (gyre_load(infer.net, n->own) != GYRE_OK || gyre_predict(infer.net, &d.batch, scores) != GYRE_OK)
        opt_resumed_failed(infer.net, "inference", s);
    else if (memcmp(scores, s->predicted, (size_t)(d.batch.count * OPT_CLASSES) * sizeof *scores) != 0)
        snprintf(s->resumed, sizeof s->resumed, "a net with GYRE_INFER predicts other bits");
    gyre_close(infer.net);
}

static int opt_one_step(struct opt_net *n, int step, struct opt_left *left)
{
    static struct opt_data d;
    struct opt_step *s = &left->step[step];
    opt_batch(n->c, &n->shape, OPT_TRAIN, step, n->rank, &d);
    s->status = gyre_step(n->net, &d.batch, &s->result);
    n->calls += s->status == GYRE_OK;
    opt_said(n->net, s->status, s->text);
    if (opt_dump(n->net, &n->config, 0, OPT_KINDS, s->values, OPT_FLOATS) < 0)
        s->status = GYRE_E_BUG;
    if (s->status == GYRE_OK)
        opt_take_scores(n, &d.batch, s);
    if (s->status != GYRE_OK && s->status != GYRE_E_NONFINITE && !strstr(s->text, "no sample has a label"))
        return 0;
    if (n->resumed)
        opt_resumed_step(n, &d.batch, s);
    if (n->resumed && !s->resumed[0])
        opt_reopen(n, s, left);
    opt_between(n, step, s);
    return !s->resumed[0];
}

static int opt_rank(void *user, struct gyre_job *job, int rank)
{
    const struct opt_ranks *all = user;
    struct opt_left *left = &all->left[rank];
    struct opt_net n = { .c = all->c, .config = all->c->config, .rank = rank };
    n.config.job = job;
    snprintf(n.own, sizeof n.own, "%s/rank%d", all->folder, rank);
    snprintf(n.common, sizeof n.common, "%s/rank0", all->folder);
    snprintf(n.exported, sizeof n.exported, "%s/weights%d", all->folder, rank);
    int good = opt_open(&n, &n.net, left) == 0 && (!n.c->resume || opt_open(&n, &n.resumed, left) == 0);
    if (good) {
        gyre_get_shape(n.net, &n.shape);
        left->shape = n.shape;
        left->floats = opt_dump(n.net, &n.config, 0, OPT_GRADIENT, left->begin, OPT_FLOATS);
        good = left->floats >= 0;
        left->status = good ? GYRE_OK : GYRE_E_BUG;
    }
    for (int step = 0; step < OPT_STEPS && good; step++)
        good = opt_one_step(&n, step, left);
    if (good && n.resumed && (rank == 0 || opt_has_state(&n)))
        opt_infer(&n, &left->step[OPT_STEPS - 1], left);
    gyre_close(n.resumed);
    gyre_close(n.net);
    return 1;
}

int opt_run(const struct opt_case *c, const char *folder, struct opt_left *left)
{
    struct opt_ranks all = { c, folder, left };
    memset(left, 0, OPT_RANKS * sizeof *left);
    if (c->hosts) {
        setenv("GYRE_ALLREDUCE", "flat/halving", 1);
        setenv("GYRE_TRANSPORT", "tcp", 1);
    }
    const int whole = gr_run(c->ranks, opt_rank, &all);
    unsetenv("GYRE_ALLREDUCE");
    unsetenv("GYRE_TRANSPORT");
    return whole;
}
