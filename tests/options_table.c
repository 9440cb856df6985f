/* SPDX-License-Identifier: MIT */
/* options_table.c: the table of options: what there is, how it is written and drawn, and what
 * cannot go together. */
#include "tests/options.h"
#include "tests/t.h"

enum opt_type { OPT_INT, OPT_FLOAT, OPT_INT64, OPT_SIZE, OPT_SEED };

/* Bodies of nets. All but one have only smooth activations; that one has relu, as most nets do. All
 * score 7 classes. */
static const char *const opt_bodies[] = {
    "input 4x4x2\n",
    "input 5x5x2\nconv 4 3x3 bias\ntanh\navgpool 2x2\n",
    "input 4x4x2\nconv 5 3x3\nbn\nsigmoid\nconv 4 1x1 bias\nbn\ntanh\n",
    "input 4x4x3\nc: conv 4 3x3\nb: bn\nt: tanh\nd: conv 4 3x3\nbn\nadd t\ntanh\ngap\n",
    "input 4x4x2\nconv 6 3x3\nbn\nrelu\nlinear 6\nbn\ntanh\n",
};
static const char *const opt_losses[] = { "softmax\n", "softmax smooth 0.2\n", "mse\n" };

const struct opt_row opt_rows[] = {
    { "body", OPT_INT, offsetof(struct opt_case, body), { 0, 1, 2, 3, 4 }, 5, { "linear", "conv", "norms", "residual", "deep" }, NULL, 0 },
    { "ranks", OPT_INT, offsetof(struct opt_case, ranks), { 1, 2 }, 2, { NULL }, NULL, 0 },
    { "optimizer", OPT_INT, offsetof(struct opt_case, config.optimizer.kind),
      { GYRE_SGD, GYRE_LARS, GYRE_ADAMW, GYRE_LAMB, GYRE_LARS_UNSCALED }, 5,
      { "sgd", "lars", "adamw", "lamb", "unscaled" }, NULL, 0 },
    { "momentum", OPT_FLOAT, offsetof(struct opt_case, config.optimizer.momentum), { .9, 0, .5 }, 3, { NULL }, NULL, 0 },
    { "nesterov", OPT_INT, offsetof(struct opt_case, config.optimizer.nesterov), { 0, 1 }, 2, { NULL }, NULL, 0 },
    { "decay", OPT_FLOAT, offsetof(struct opt_case, config.optimizer.weight_decay), { 0, .1, .01 }, 3, { NULL }, NULL, 0 },
    { "decay_all", OPT_INT, offsetof(struct opt_case, config.optimizer.decay_all), { 0, 1 }, 2, { NULL }, "decay=0.1", 0 },
    { "beta1", OPT_FLOAT, offsetof(struct opt_case, config.optimizer.beta1), { .9, .5, 0 }, 3, { NULL }, "optimizer=adamw", 0 },
    { "beta2", OPT_FLOAT, offsetof(struct opt_case, config.optimizer.beta2), { .999, .9 }, 2, { NULL }, "optimizer=adamw", 0 },
    { "eps", OPT_FLOAT, offsetof(struct opt_case, config.optimizer.eps), { 1e-8, .001 }, 2, { NULL }, "optimizer=adamw", 0 },
    { "eta", OPT_FLOAT, offsetof(struct opt_case, config.optimizer.lars_eta), { .1, .5 }, 2, { NULL }, "optimizer=lars", 0 },
    { "clip", OPT_FLOAT, offsetof(struct opt_case, config.optimizer.clip_norm), { 0, .1, .5, 1000 }, 4, { NULL }, NULL, 0 },
    { "ema", OPT_FLOAT, offsetof(struct opt_case, config.optimizer.ema), { 0, .998, .15 }, 3, { NULL }, NULL, 0 },
    { "rate", OPT_FLOAT, offsetof(struct opt_case, config.schedule.rate), { .05, .01, .3 }, 3, { NULL }, NULL, 0 },
    { "schedule", OPT_INT, offsetof(struct opt_case, config.schedule.kind), { GYRE_CONSTANT, GYRE_STEPS, GYRE_COSINE, GYRE_POLY }, 4,
      { "constant", "steps", "cosine", "poly" }, NULL, 0 },
    { "steps", OPT_INT64, offsetof(struct opt_case, config.schedule.steps), { 3, 10 }, 2, { NULL }, "schedule=cosine", 0 },
    { "final", OPT_FLOAT, offsetof(struct opt_case, config.schedule.final_rate), { 0, .02 }, 2, { NULL }, "schedule=poly", 0 },
    { "power", OPT_FLOAT, offsetof(struct opt_case, config.schedule.power), { 2, 1.5 }, 2, { NULL }, "schedule=poly", 0 },
    { "gamma", OPT_FLOAT, offsetof(struct opt_case, config.schedule.gamma), { .1, .5 }, 2, { NULL }, "schedule=steps", 0 },
    { "milestone", OPT_INT64, offsetof(struct opt_case, config.schedule.milestone), { 2, 1 }, 2, { NULL }, "schedule=steps", 0 },
    { "warmup", OPT_INT64, offsetof(struct opt_case, config.schedule.warmup), { 0, 1, 3 }, 3, { NULL }, NULL, 0 },
    { "warmup_from", OPT_FLOAT, offsetof(struct opt_case, config.schedule.warmup_from), { 0, .2 }, 2, { NULL }, "warmup=3", 0 },
    { "accumulate", OPT_INT, offsetof(struct opt_case, config.accumulate), { 1, 2, 3 }, 3, { NULL }, NULL, 0 },
    { "shards", OPT_INT, offsetof(struct opt_case, config.shards), { 0, 2, 4, 3, 6 }, 5, { NULL }, NULL, 0 },
    { "sync_bn", OPT_INT, offsetof(struct opt_case, config.sync_bn), { 0, 1 }, 2, { NULL }, "ranks=2 body=norms", 0 },
    { "input", OPT_INT, offsetof(struct opt_case, config.input), { GYRE_INPUT_F32, GYRE_INPUT_U8 }, 2, { "f32", "u8" }, NULL, 0 },
    { "mean", OPT_INT, offsetof(struct opt_case, mean), { 0, 1 }, 2, { "none", "own" }, NULL, 0 },
    { "mix", OPT_INT, offsetof(struct opt_case, mix), { OPT_MIX_NONE, OPT_MIX_UP, OPT_MIX_CUT, OPT_MIX_MOVE, OPT_MIX_FLIP, OPT_MIX_ALL }, 6,
      { "none", "mixup", "cutmix", "move", "flip", "all" }, NULL, 0 },
    { "brief", OPT_INT, offsetof(struct opt_case, brief), { OPT_FULL, OPT_BRIEF, OPT_SINGLE }, 3, { "no", "some", "one" }, NULL, 0 },
    { "labels", OPT_INT, offsetof(struct opt_case, labels), { OPT_LABELS_ALL, OPT_LABELS_SOME, OPT_LABELS_FEW, OPT_LABELS_NONE }, 4,
      { "all", "some", "few", "none" }, NULL, 0 },
    { "loss", OPT_INT, offsetof(struct opt_case, loss), { 0, 1, 2 }, 3, { "softmax", "smooth", "mse" }, NULL, 0 },
    { "targets", OPT_INT, offsetof(struct opt_case, targets), { 0, 1, 2 }, 3, { "none", "own", "alone" }, "loss=mse", 0 },
    { "dropout", OPT_FLOAT, offsetof(struct opt_case, dropout), { 0, .3 }, 2, { NULL }, NULL, 0 },
    { "dtype", OPT_INT, offsetof(struct opt_case, config.dtype), { GYRE_F32, GYRE_BF16, GYRE_F16 }, 3, { "f32", "bf16", "f16" }, NULL, 0 },
    { "isa", OPT_INT, offsetof(struct opt_case, isa), { 0, 1 }, 2, { "best", "ref" }, NULL, 0 },
    { "recompute", OPT_INT, offsetof(struct opt_case, config.recompute), { 0, 1, -1 }, 3, { NULL }, NULL, 1 },
    { "bucket", OPT_SIZE, offsetof(struct opt_case, config.bucket_bytes), { 0, 64, 400 }, 3, { NULL }, "ranks=2", 1 },
    { "threads", OPT_INT, offsetof(struct opt_case, config.threads), { 1, 2, 3 }, 3, { NULL }, NULL, 1 },
    { "trace", OPT_INT, offsetof(struct opt_case, config.trace_events), { 0, 64 }, 2, { NULL }, NULL, 1 },
    { "hosts", OPT_INT, offsetof(struct opt_case, hosts), { 0, 1 }, 2, { NULL }, "ranks=2", 1 },
    { "seed", OPT_SEED, offsetof(struct opt_case, config.seed), { 1, 77 }, 2, { NULL }, NULL, 0 },
    { "between", OPT_INT, offsetof(struct opt_case, between), { OPT_BETWEEN_NONE, OPT_BETWEEN_GRADIENT, OPT_BETWEEN_FIND, OPT_BETWEEN_SET,
      OPT_BETWEEN_EXPORT }, 5, { "none", "gradient", "find", "set", "export" }, NULL, 0 },
    { "bad", OPT_INT, offsetof(struct opt_case, bad), { 0, 1, 2, 4 }, 4, { "none", "first", "second", "fourth" }, NULL, 0 },
};
const int opt_row_count = (int)GY_COUNT(opt_rows);

/* ---- what cannot be ---- */

static int opt_own_shards(const struct opt_case *c) { return c->config.shards / c->ranks; }
static int opt_half(const struct opt_case *c) { return c->config.dtype == GYRE_F16; }
static int opt_uneven(const struct opt_case *c) { return c->config.shards % c->ranks != 0; }
static int opt_no_power(const struct opt_case *c) { return c->ranks > 1 && (opt_own_shards(c) & (opt_own_shards(c) - 1)) != 0; }
static int opt_shards_accumulate(const struct opt_case *c) { return c->config.shards > 0 && c->config.accumulate > 1; }
static int opt_shards_sync(const struct opt_case *c) { return c->config.shards > 0 && c->config.sync_bn; }
static int opt_brief_shards(const struct opt_case *c) { return c->config.shards > 0 && c->brief != OPT_FULL; }
static int opt_has_norms(const struct opt_case *c) { return strstr(opt_bodies[c->body], "bn\n") != NULL; }
static int opt_brief_sync(const struct opt_case *c)
{
    return c->config.shards == 0 && c->config.sync_bn && c->ranks > 1 && c->brief != OPT_FULL && opt_has_norms(c);
}
static int opt_one_value(const struct opt_case *c) /* the last body's norm is behind a linear */
{
    return c->config.shards == 0 && c->brief == OPT_SINGLE && c->body == (int)GY_COUNT(opt_bodies) - 1 && !opt_brief_sync(c);
}

const struct opt_refusal opt_refusals[] = {
    { opt_half, GYRE_E_UNSUPPORTED, 0, "dtype f16: " },
    { opt_uneven, GYRE_E_ARG, 0, "each must have as many" },
    { opt_no_power, GYRE_E_ARG, 0, "only 1, 2, 4, 8 ... give the same sums on any number of ranks" },
    { opt_shards_accumulate, GYRE_E_ARG, 0, "shards and accumulate together: more shards do what accumulate does" },
    { opt_shards_sync, GYRE_E_ARG, 0, "shards and sync_bn together: each shard has batch-norm statistics of its own" },
    { opt_brief_shards, GYRE_E_ARG, 1, " shards of 4 on " },
    { opt_brief_sync, GYRE_E_ARG, 1, " of 4 samples with sync_bn on 2 ranks: layer " },
    { opt_one_value, GYRE_E_ARG, 1, "which needs more than 1 value a channel to train" },
};
const int opt_refusal_count = (int)GY_COUNT(opt_refusals);

/* ---- a case ---- */

/* The k-th number of a case, 0 .. below - 1: SplitMix64 (Steele, Lea, Flood 2014). */
static int opt_number(uint64_t seed, uint64_t k, int below)
{
    uint64_t z = seed * 0xd1342543de82ef95u + (k + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int)((z ^ z >> 31) % (uint64_t)below);
}

int opt_row_named(const char *name)
{
    for (int i = 0; i < opt_row_count; i++)
        if (strcmp(opt_rows[i].name, name) == 0)
            return i;
    return -1;
}

const char *opt_value_name(int row, int value, char *buf, size_t room)
{
    const struct opt_row *r = &opt_rows[row];
    if (r->word[0])
        snprintf(buf, room, "%s", r->word[value]);
    else
        snprintf(buf, room, "%g", r->value[value]);
    return buf;
}

static int opt_set_one(struct opt_case *c, const char *name, const char *value)
{
    char text[32];
    const int row = opt_row_named(name);
    for (int v = 0; row >= 0 && v < opt_rows[row].count; v++)
        if (strcmp(opt_value_name(row, v, text, sizeof text), value) == 0) {
            c->pick[row] = v;
            return 0;
        }
    return -1;
}

int opt_set(struct opt_case *c, const char *text)
{
    char name[32], value[32];
    int used = 0;
    while (sscanf(text, " %31[^= ]=%31[^ ]%n", name, value, &used) == 2) {
        if (opt_set_one(c, name, value) != 0)
            return -1;
        text += used;
    }
    return text[strspn(text, " ")] ? -1 : 0;
}

/* The n-th of all values that are no default. */
static void opt_pick_nth(struct opt_case *c, int n)
{
    int row = 0;
    for (; n >= opt_rows[row].count - 1; row++)
        n -= opt_rows[row].count - 1;
    c->pick[row] = n + 1;
    if (opt_rows[row].needs)
        opt_set(c, opt_rows[row].needs);
}

static int opt_value_count(void)
{
    int count = 0;
    for (int i = 0; i < opt_row_count; i++)
        count += opt_rows[i].count - 1;
    return count;
}

void opt_plain(struct opt_case *c, uint64_t number)
{
    memset(c, 0, sizeof *c);
    c->seed = number;
    c->resume = 1;
}

/* Each value has its turn. Two to eight other values are drawn, and so are the net and the number
 * of ranks. */
void opt_draw(struct opt_case *c, uint64_t number)
{
    opt_plain(c, number);
    c->pick[opt_row_named("body")] = opt_number(number, 0, opt_rows[opt_row_named("body")].count);
    c->pick[opt_row_named("ranks")] = opt_number(number, 1, 2);
    for (int k = 1 + opt_number(number, 2, 7); k >= 0; k--)
        opt_pick_nth(c, opt_number(number, (uint64_t)(3 + k), opt_value_count()));
    opt_pick_nth(c, (int)(number % (uint64_t)opt_value_count()));
    opt_make(c);
}

static void opt_store(struct opt_case *c, const struct opt_row *row, double value)
{
    void *const at = (unsigned char *)c + row->at;
    const float real = (float)value;
    const int64_t wide = (int64_t)value;
    const size_t size = value > 0 ? (size_t)value : 0;
    const int narrow = (int)value;
    const void *const from[] = { &narrow, &real, &wide, &size, &wide };
    const size_t bytes[] = { sizeof narrow, sizeof real, sizeof wide, sizeof size, sizeof wide };
    memcpy(at, from[row->type], bytes[row->type]);
}

/* Bytes have no number that is not one, and a batch without labels has no loss. */
static void opt_settle(struct opt_case *c)
{
    static const struct gyre_config own = { .mean = { .3f, -.2f, .1f }, .std = { .5f, 2, .8f, 1 } };
    char dropout[32] = "";
    c->config.schedule.milestone[1] = c->config.schedule.milestone[0] + 1;
    c->config.isa = c->isa ? "ref" : NULL;
    const int lossless = c->targets > 1 && strcmp(opt_losses[c->loss], "mse\n") != 0;
    c->bad = c->config.input == GYRE_INPUT_U8 || lossless ? 0 : c->bad;
    if (c->mean) {
        memcpy(c->config.mean, own.mean, sizeof own.mean);
        memcpy(c->config.std, own.std, sizeof own.std);
    }
    if (c->dropout > 0)
        snprintf(dropout, sizeof dropout, "dropout %g\n", (double)c->dropout);
    snprintf(c->text, sizeof c->text, "%s%slinear 7\n%s", opt_bodies[c->body], dropout, opt_losses[c->loss]);
    c->config.net = c->text;
}

void opt_make(struct opt_case *c)
{
    gyre_config_default(&c->config);
    c->config.batch = OPT_BATCH;
    for (int i = 0; i < opt_row_count; i++)
        opt_store(c, &opt_rows[i], opt_rows[i].value[c->pick[i]]);
    opt_settle(c);
}

void opt_print(const struct opt_case *c, char *buf, size_t room)
{
    char value[32];
    size_t at = 0;
    buf[0] = 0;
    for (int i = 0; i < opt_row_count && at < room; i++)
        if (c->pick[i] > 0)
            at += (size_t)snprintf(buf + at, room - at, "%s%s=%s", at ? " " : "", opt_rows[i].name,
                                   opt_value_name(i, c->pick[i], value, sizeof value));
}
