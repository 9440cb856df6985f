/* SPDX-License-Identifier: MIT */
/* train_truth.c: what a call makes of the samples of all ranks: dealing them out, statistics,
 * dropout, sums. train_rules.c has the rules of updates. */
#include "tests/train_truth.h"
#include "engine/base/rng.h"
#include "tests/train_rules.h"

#define TRAIN_PARTS 8           /* of a group, at most */
#define TRAIN_SURE 12           /* times the largest difference between worlds that was seen */
#define TRAIN_EPS 2.384185791015625e-7 /* 2^-22: float's half step, 2^-24, for some roundings */
#define TRAIN_HALF_EPS 0.00390625      /* 2^-8: bf16's half step, 2^-9, for two stores */

/* Samples of one rank, or of one of its shards. Places are in the caller's batch (first) and in the
 * joined batch (at). */
struct train_part {
    int rank, first, at, count;
    uint64_t counter;           /* dropout's */
};

/* Parts that pass the net as one batch: one part, or those of all ranks where they share
 * statistics. */
struct train_group {
    struct train_part part[TRAIN_PARTS];
    int parts, count, training, world;
};

static int train_is(const struct train_truth *t, int fault) { return t->fault == fault; }
static int train_sharded(const struct train_truth *t) { return t->config->shards > 0; }
static int train_mse(const struct train_truth *t) { return t->graph.nodes[t->graph.loss].layer == GY_LAYER_MSE; }

/* -1 .. 1, from a counter: what a value is off in a world. */
static double train_noise(int world, int node, int64_t element)
{
    uint32_t words[4];
    gy_rng_words(77, (uint32_t)node, (uint64_t)world, (uint64_t)element, words);
    return (double)words[0] / 2147483648.0 - 1;
}

/* ---- one pass of a group ---- */

/* What storing a value costs. */
static double train_eps(const struct train_truth *t) { return t->config->dtype == GYRE_BF16 ? TRAIN_HALF_EPS : TRAIN_EPS; }

static void train_shake(const struct train_truth *t, int stream, double *values, int64_t count)
{
    double squares = 0;
    for (int64_t i = 0; i < count; i++)
        squares += values[i] * values[i];
    const double mean = sqrt(squares / (double)(count > 0 ? count : 1));
    for (int64_t i = 0; i < count && t->now->world > 0; i++)
        values[i] += (train_eps(t) * fabs(values[i]) + TRAIN_EPS * mean) * train_noise(t->now->world, stream, i);
}

/* Of a norm's input. */
struct train_channel {
    double mean, rstd, slope; /* slope: the mean size of the gradient by its output */
};

static struct train_channel train_channel_of(const struct train_truth *t, int norm, int64_t c)
{
    const struct gy_node *node = &t->graph.nodes[norm];
    const int64_t channels = node->geom.k, count = t->now->count * (int64_t)node->geom.p * node->geom.q * channels;
    const double *x = t->net.value[node->input[0]], *dy = t->net.dvalue[norm], pixels = (double)(count / channels);
    struct train_channel of = { 0, 0, 0 };
    double square = 0;
    for (int64_t i = c; i < count; i += channels) {
        of.mean += x[i] / pixels;
        of.slope += fabs(dy[i]) / pixels;
    }
    for (int64_t i = c; i < count; i += channels)
        square += (x[i] - of.mean) * (x[i] - of.mean) / pixels;
    of.rstd = 1 / sqrt(square + (double)node->f[0]);
    return of;
}

/* A norm's output, and the gradient by its input, are differences that may be far smaller than
 * their terms. The mean is rounded, or taken from values before they are stored, which shifts a
 * whole channel together. Terms of the gradient are rounded, too. */
static void train_shake_norm(const struct train_truth *t, int norm, int back, double *values, int64_t count)
{
    const struct gy_node *node = &t->graph.nodes[norm];
    const int64_t channels = node->geom.k;
    for (int64_t c = 0; c < channels && t->now->world > 0; c++) {
        const struct train_channel of = train_channel_of(t, norm, c);
        const double gamma = fabs(t->net.param[node->weight][c]), term = gamma * (back ? of.rstd * of.slope : 1);
        const double mean = train_eps(t) * fabs(of.mean) * of.rstd, each = back ? TRAIN_EPS : 0;
        const double common = (each + mean) * train_noise(t->now->world, 20000 + 2 * norm + back, c);
        for (int64_t i = c; i < count; i += channels)
            values[i] += term * (common + each * train_noise(t->now->world, 30000 + norm, i));
    }
}

/* Element e of a part is kept when word e % 4 of draw e / 4 is at least rate * 2^32. */
static void train_drop(const struct train_truth *t, const struct train_part *part, int node, double *values, int64_t size)
{
    const double rate = t->drop[node];
    uint32_t words[4] = { 0 };
    for (int64_t e = 0; e < part->count * size; e++) {
        if (e % 4 == 0)
            gy_rng_words(t->config->seed, GY_RNG_DROPOUT + (uint32_t)node, part->counter, (uint64_t)(e / 4), words);
        values[part->at * size + e] *= words[e % 4] >= (uint32_t)(rate * 4294967296.0) ? 1 / (1 - rate) : 0;
    }
}

static int train_labelled(const struct train_truth *t, int at, int count)
{
    int sum = 0;
    for (int i = at; i < at + count; i++)
        sum += t->label[i] >= 0;
    return sum;
}

/* The net's gradient is for the mean over the group's labelled samples. This factor turns it into
 * the sum over samples, which is kept until an update. */
static void train_share(const struct train_truth *t, const struct train_part *part, double *values, int64_t size)
{
    const int own = train_labelled(t, part->at, part->count), all = train_labelled(t, 0, t->now->count);
    const double share = !train_is(t, TRAIN_MEAN_OF_MEANS) ? all : own > 0 ? (double)all / own : 0;
    for (int64_t e = 0; e < part->count * size; e++)
        values[part->at * size + e] *= share;
}

/* A node's value when it is made, and its gradient when it is complete. */
static void train_node(void *user, int node, double *values, int64_t count)
{
    const struct train_truth *t = user;
    const struct train_group *g = t->now;
    const int back = values == t->net.dvalue[node];
    const int64_t size = count / g->count;
    train_shake(t, 2 * node + back, values, count);
    if (back && t->norm[node] > 0)
        train_shake_norm(t, t->norm[node], 1, values, count);
    if (!back && g->training && t->graph.nodes[node].layer == GY_LAYER_BN)
        train_shake_norm(t, node, 0, values, count);
    for (int p = 0; p < g->parts; p++) {
        if (t->drop[node] > 0 && (g->training || train_is(t, TRAIN_EVAL_DROPS)))
            train_drop(t, &g->part[p], node, values, size);
        if (back && node == t->graph.output)
            train_share(t, &g->part[p], values, size);
    }
}

/* Weights and running statistics of a rank go into the net. */
static void train_load(struct train_truth *t, int rank)
{
    const int averaged = !t->now->training && t->config->optimizer.ema > 0 && !train_is(t, TRAIN_AVERAGE_UNUSED);
    for (int i = 0; i < t->graph.param_count; i++) {
        const struct gy_param *p = &t->graph.params[i];
        const int state = gy_param_is_state(p->kind), kind = state ? TRAIN_STATE : averaged ? TRAIN_AVERAGE : TRAIN_WEIGHT;
        memcpy(t->net.param[i], t->vector[kind][state ? rank : 0][i].world[0], (size_t)p->count * sizeof(double));
        if (t->config->dtype == GYRE_BF16 && (p->kind == GY_PARAM_CONV_WEIGHT || p->kind == GY_PARAM_LINEAR_WEIGHT))
            train_shake(t, 10000 + i, t->net.param[i], p->count);
    }
}

static void train_pass(struct train_truth *t, const struct train_group *g)
{
    const struct truth_batch batch = { .count = g->count, .x = t->x, .label = t->label, .mix = t->mix,
                                       .target = t->targets ? t->target : NULL };
    t->now = g;
    train_load(t, g->part[0].rank);
    truth_forward(&t->net, &batch, g->training);
    if (g->training)
        truth_backward(&t->net);
}

/* ---- from callers' batches ---- */

static double train_pixel(const struct train_truth *t, const struct gyre_batch *b, int64_t at)
{
    if (t->config->input == GYRE_INPUT_U8)
        return ((const uint8_t *)b->x)[at] / (train_is(t, TRAIN_BYTES_WHOLE) ? 1.0 : 255.0);
    return (double)((const float *)b->x)[at];
}

/* How a sample is made; its partner as the joined batch counts. */
static struct gy_mix train_mixed(const struct train_truth *t, const struct gyre_batch *b, int from, int to)
{
    struct gy_mix m = { .partner = to, .inside = 1, .label = 1 };
    if (!b->mix)
        return m;
    memcpy(&m, &b->mix[from], sizeof m);
    /* an unlabelled partner leaves the label unmixed */
    m.label = train_is(t, TRAIN_LABELS_UNMIXED) || (b->label && b->label[m.partner] < 0) ? 1 : m.label;
    m.inside = train_is(t, TRAIN_PIXELS_UNMIXED) ? 1 : m.inside;
    m.flip = train_is(t, TRAIN_NO_FLIP) ? 0 : m.flip;
    m.dx = train_is(t, TRAIN_MOVED_BACK) ? -m.dx : m.dx;
    m.partner += to - from;
    return m;
}

static void train_sample(struct train_truth *t, const struct gyre_batch *b, int from, int to)
{
    const int64_t pixels = (int64_t)t->graph.h * t->graph.w * t->graph.c, classes = t->graph.classes;
    t->targets = train_mse(t) && b->target && !train_is(t, TRAIN_TARGETS_IGNORED);
    for (int64_t i = 0; i < pixels; i++)
        t->x[to * pixels + i] = from < b->count ? train_pixel(t, b, from * pixels + i) : 0;
    t->label[to] = from >= b->count ? -1 : b->label ? b->label[from] : train_mse(t) && b->target ? 0 : -1;
    for (int64_t c = 0; c < classes; c++)
        t->target[to * classes + c] = t->targets && from < b->count ? (double)b->target[from * classes + c] : 0;
    t->mix[to] = from < b->count ? train_mixed(t, b, from, to) : (struct gy_mix){ .partner = to, .inside = 1, .label = 1 };
}

/* Dropout's counter: every shard of every call has a number of its own. */
static uint64_t train_counter(const struct train_truth *t, int rank, int shard)
{
    const uint64_t own = (uint64_t)(rank * t->mine + shard);
    return train_is(t, TRAIN_SAME_DROPOUT) ? 0 : (uint64_t)t->calls * (uint64_t)t->shards + (train_is(t, TRAIN_RANKS_DROP_ALIKE) ? 0 : own);
}

/* A rank's batch, or the one shard of it, joins the group. */
static void train_join(struct train_truth *t, struct train_group *g, const struct gyre_batch *b, int rank, int shard)
{
    const int sharded = train_sharded(t) && g->training, full = sharded || train_is(t, TRAIN_FILLED_UP);
    struct train_part *part = &g->part[g->parts++];
    *part = (struct train_part){ .rank = rank, .first = sharded ? shard * t->config->batch : 0, .at = g->count,
                                 .count = full ? t->config->batch : b->count, .counter = train_counter(t, rank, shard) };
    for (int i = 0; i < part->count; i++)
        train_sample(t, b, part->first + i, part->at + i);
    g->count += part->count;
}

/* ---- what comes out ---- */

static void train_add(double *to, const double *from, double share, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += share * from[i];
}

/* Scores and losses of the group's samples, as the ranks' callers see them. */
static void train_keep_samples(struct train_truth *t, const struct train_group *g)
{
    const int classes = t->graph.classes;
    for (int p = 0; p < g->parts; p++) {
        const struct train_part *part = &g->part[p];
        struct train_samples *s = &t->samples[part->rank];
        memcpy(s->world[g->world] + part->first * classes, t->net.scores + part->at * classes,
               (size_t)(part->count * classes) * sizeof(double));
        memcpy(s->each[g->world] + part->first, t->net.loss + part->at, (size_t)part->count * sizeof(double));
    }
}

/* Adds gradients to those of `kind`. Running statistics replace the fresh ones; with shards their
 * means add up. */
static void train_keep_sums(struct train_truth *t, const struct train_group *g, int kind)
{
    const double share = train_sharded(t) && !train_is(t, TRAIN_LAST_STATE) ? 1.0 / t->shards * g->parts : 1;
    for (int i = 0; i < t->graph.param_count; i++) {
        const int64_t count = t->graph.params[i].count;
        const int state = gy_param_is_state(t->graph.params[i].kind);
        if (!state)
            train_add(t->vector[kind][g->part[0].rank][i].world[g->world], t->net.grad[i], 1, count);
        for (int r = 0; r < t->ranks && state; r++) {
            double *to = t->vector[TRAIN_FRESH][r][i].world[g->world];
            const int own = train_sharded(t) || t->config->sync_bn || r == g->part[0].rank;
            if (own && train_is(t, TRAIN_LAST_STATE))
                memset(to, 0, (size_t)count * sizeof *to);
            if (own)
                train_add(to, t->net.param[i], share, count);
        }
    }
}

static void train_zero(struct train_truth *t, int kind, int world)
{
    for (int r = 0; r < t->ranks; r++) {
        t->learned[kind][r] = 0;
        for (int i = 0; i < t->graph.param_count; i++)
            memset(t->vector[kind][r][i].world[world], 0, (size_t)t->graph.params[i].count * sizeof(double));
    }
}

static void train_group_run(struct train_truth *t, struct train_group *g, int kind)
{
    train_pass(t, g);
    train_keep_samples(t, g);
    if (g->training)
        train_keep_sums(t, g, kind);
    for (int p = 0; p < g->parts && g->training && g->world == 0; p++)
        t->learned[kind][g->part[p].rank] += train_is(t, TRAIN_MEAN_OF_MEANS) ? 1 : train_labelled(t, g->part[p].at, g->part[p].count);
}

/* Everything in one world. training 0: evaluation. */
static void train_world(struct train_truth *t, const struct gyre_batch *batches, int kind, int training, int world)
{
    const int shards = training ? t->mine : 1;
    const int synced = training && t->config->sync_bn && !train_is(t, TRAIN_OWN_STATISTICS);
    const int joined = training && train_sharded(t) && train_is(t, TRAIN_SHARDS_TOGETHER);
    struct train_group g = { .training = training, .world = world };
    train_zero(t, TRAIN_FRESH, world);
    for (int r = 0; r < t->ranks; r++)
        for (int s = 0; s < shards; s++) {
            train_join(t, &g, &batches[r], r, s);
            if ((synced && r + 1 < t->ranks) || (joined && s + 1 < shards))
                continue;
            train_group_run(t, &g, kind);
            g.parts = g.count = 0;
        }
}

/* ---- how far off ---- */

static double train_apart(const struct train_truth *t, double *const *world, int64_t count)
{
    double most = 0;
    for (int w = 1; w < TRAIN_WORLDS; w++)
        for (int64_t i = 0; i < count; i++)
            most = fmax(most, fabs(world[w][i] - world[0][i]));
    /* the factor covers kinks of relu, which are met by chance */
    return (t->config->dtype == GYRE_BF16 ? 2 : 1) * TRAIN_SURE * most;
}

static void train_bound(struct train_truth *t, int kind)
{
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < t->graph.param_count; i++) {
            struct train_vector *v = &t->vector[kind][r][i];
            const double apart = train_apart(t, v->world, v->count);
            for (int64_t e = 0; e < v->count; e++)
                v->may[e] = apart + TRAIN_EPS * fabs(v->world[0][e]);
        }
}

/* How many classes score higher than the label. rank[0] counts only those that are higher by more
 * than rounding; rank[1] also counts those nearer than that. */
static void train_rank(struct train_samples *s, int sample, int label, int classes)
{
    const double *score = s->world[0] + sample * classes;
    s->rank[0][sample] = s->rank[1][sample] = label < 0 ? -1 : 0;
    for (int c = 0; c < classes && label >= 0; c++) {
        const double over = score[c] - score[label], near = 2 * s->may;
        s->rank[0][sample] += c != label && over > near;
        s->rank[1][sample] += c != label && over >= -near;
    }
}

static void train_count(struct train_samples *s, int sample)
{
    for (int k = 0; k < 2; k++) {
        s->top1[k] += s->rank[1 - k][sample] == 0;
        s->top5[k] += s->rank[1 - k][sample] >= 0 && s->rank[1 - k][sample] < 5;
    }
}

/* A target without a label counts, but nothing says which class would be right. */
static void train_measure(struct train_truth *t, int rank, const struct gyre_batch *b)
{
    struct train_samples *s = &t->samples[rank];
    const int targets = train_mse(t) && b->target && !b->label;
    s->count = b->count;
    s->loss = s->labelled = s->top1[0] = s->top1[1] = s->top5[0] = s->top5[1] = 0;
    s->may = train_apart(t, s->world, (int64_t)b->count * t->graph.classes) + TRAIN_EPS;
    s->each_may = train_apart(t, s->each, b->count) + TRAIN_EPS;
    for (int i = 0; i < b->count; i++) {
        const int label = b->label ? b->label[i] : -1, counts = label >= 0 || targets;
        train_rank(s, i, label, t->graph.classes);
        train_count(s, i);
        s->loss += counts ? s->each[0][i] : 0;
        s->labelled += counts;
    }
    const int samples = train_is(t, TRAIN_UNLABELLED_COUNT) ? b->count : s->labelled;
    s->loss /= samples > 0 ? samples : 1;
}

/* Of all ranks' samples. */
static void train_total(struct train_truth *t)
{
    struct train_samples *all = &t->all;
    *all = (struct train_samples){ 0 };
    for (int r = 0; r < t->ranks; r++) {
        const struct train_samples *s = &t->samples[r];
        all->count += s->count;
        all->labelled += s->labelled;
        all->loss += s->loss * s->labelled;
        all->each_may = fmax(all->each_may, s->each_may);
        for (int k = 0; k < 2; k++) {
            all->top1[k] += s->top1[k];
            all->top5[k] += s->top5[k];
        }
    }
    all->loss = train_is(t, TRAIN_OWN_LOSS) ? t->samples[0].loss : all->labelled ? all->loss / all->labelled : 0;
}

static void train_call(struct train_truth *t, const struct gyre_batch *batches, int kind, int training)
{
    for (int w = 0; w < TRAIN_WORLDS; w++)
        train_world(t, batches, kind, training, w);
    for (int r = 0; r < t->ranks; r++)
        train_measure(t, r, &batches[r]);
    train_total(t);
    if (!training)
        return;
    train_bound(t, kind);
    train_bound(t, TRAIN_FRESH);
}

/* ---- calls ---- */

static void train_take_fresh(struct train_truth *t)
{
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < t->graph.param_count; i++) {
            const struct train_vector *from = &t->vector[TRAIN_FRESH][r][i];
            struct train_vector *to = &t->vector[TRAIN_STATE][r][i];
            memcpy(to->world[0], from->world[0], (size_t)to->count * sizeof(double));
            memcpy(to->may, from->may, (size_t)to->count * sizeof(double));
        }
}

static int train_can_learn(const struct train_truth *t, const struct gyre_batch *batches)
{
    int labelled = 0;
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < batches[r].count; i++)
            labelled += batches[r].label ? batches[r].label[i] >= 0 : train_mse(t) && batches[r].target;
    return labelled > 0;
}

int train_step(struct train_truth *t, const struct gyre_batch *batches)
{
    if (!train_can_learn(t, batches))
        return 0;
    for (int w = 0; w < TRAIN_WORLDS && (t->pending == 0 || train_is(t, TRAIN_LAST_CALL)); w++)
        train_zero(t, TRAIN_GRADIENT, w);
    train_call(t, batches, TRAIN_GRADIENT, 1);
    train_take_fresh(t);
    t->rate = train_rate(&t->config->schedule, t->updates, t->fault);
    t->calls++;
    if (++t->pending < t->config->accumulate)
        return 1;
    train_update(t);
    t->pending = 0;
    t->updates++;
    return 1;
}

int train_gradient(struct train_truth *t, const struct gyre_batch *batches)
{
    if (!train_can_learn(t, batches))
        return 0;
    for (int w = 0; w < TRAIN_WORLDS; w++)
        train_zero(t, TRAIN_PROBE, w);
    train_call(t, batches, TRAIN_PROBE, 1);
    t->calls += train_is(t, TRAIN_PROBE_COUNTS);
    return 1;
}

void train_eval(struct train_truth *t, const struct gyre_batch *batches)
{
    train_call(t, batches, TRAIN_KINDS, 0);
}

void train_adopt(struct train_vector *v, const float *values)
{
    for (int64_t i = 0; i < v->count; i++) {
        v->world[0][i] = (double)values[i];
        v->may[i] = 0;
    }
}

/* ---- opening ---- */

static int train_take_vectors(struct train_truth *t)
{
    for (int kind = 0; kind < TRAIN_KINDS; kind++)
        for (int r = 0; r < t->ranks; r++)
            for (int i = 0; i < t->graph.param_count; i++) {
                struct train_vector *v = &t->vector[kind][r][i];
                v->count = t->graph.params[i].count;
                v->may = gy_arena_take(&t->arena, (size_t)v->count, sizeof(double));
                for (int w = 0; w < TRAIN_WORLDS; w++)
                    v->world[w] = gy_arena_take(&t->arena, (size_t)v->count, sizeof(double));
                if (!v->may || !v->world[TRAIN_WORLDS - 1])
                    return -1;
            }
    return 0;
}

static int train_take_samples(struct train_truth *t, size_t count)
{
    const size_t classes = (size_t)t->graph.classes;
    for (int r = 0; r < t->ranks; r++) {
        struct train_samples *s = &t->samples[r];
        for (int w = 0; w < TRAIN_WORLDS; w++) {
            s->world[w] = gy_arena_take(&t->arena, count * classes, sizeof(double));
            s->each[w] = gy_arena_take(&t->arena, count, sizeof(double));
        }
        s->rank[0] = gy_arena_take(&t->arena, count, sizeof(int));
        s->rank[1] = gy_arena_take(&t->arena, count, sizeof(int));
        if (!s->world[TRAIN_WORLDS - 1] || !s->each[TRAIN_WORLDS - 1] || !s->rank[0] || !s->rank[1])
            return -1;
    }
    return 0;
}

/* Dropout is done here: in the net its rate is 0. A fault may lie in what the graph says. */
static int train_take_graph(struct train_truth *t)
{
    struct gy_graph *g = &t->graph;
    t->drop = gy_arena_take(&t->arena, (size_t)g->node_count, sizeof *t->drop);
    t->norm = gy_arena_take(&t->arena, (size_t)g->node_count, sizeof *t->norm);
    for (int i = 0; i < g->node_count && t->drop && t->norm; i++) {
        t->drop[i] = g->nodes[i].layer == GY_LAYER_DROPOUT ? (double)g->nodes[i].f[0] : 0;
        g->nodes[i].f[0] = g->nodes[i].layer == GY_LAYER_DROPOUT ? 0 : g->nodes[i].f[0];
        if (g->nodes[i].layer == GY_LAYER_BN)
            t->norm[g->nodes[i].input[0]] = i;
    }
    if (train_is(t, TRAIN_NO_SMOOTHING))
        g->nodes[g->loss].f[0] = 0;
    return t->drop && t->norm ? 0 : -1;
}

static int train_take_batch(struct train_truth *t, size_t count)
{
    const struct gy_graph *g = &t->graph;
    t->x = gy_arena_take(&t->arena, count * (size_t)(g->h * g->w * g->c), sizeof *t->x);
    t->target = gy_arena_take(&t->arena, count * (size_t)g->classes, sizeof *t->target);
    t->label = gy_arena_take(&t->arena, count, sizeof *t->label);
    t->mix = gy_arena_take(&t->arena, count, sizeof *t->mix);
    return t->x && t->target && t->label && t->mix ? truth_open(&t->net, g, (int)count) : -1;
}

static void train_normalise(struct train_truth *t)
{
    for (int c = 0; c < 4; c++) {
        t->net.std[c] = (double)t->config->std[c];
        t->net.mean[c] = train_is(t, TRAIN_NO_MEAN) ? 0 : (double)t->config->mean[c] * (train_is(t, TRAIN_STD_FIRST) ? t->net.std[c] : 1);
    }
    t->net.seen = train_node;
    t->net.user = t;
}

int train_open(struct train_truth *t, const struct gyre_config *config, int ranks, int fault)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err;
    *t = (struct train_truth){ .config = config, .ranks = ranks, .fault = fault };
    t->shards = config->shards > 0 ? config->shards : ranks;
    t->mine = t->shards / ranks;
    const size_t own = (size_t)(t->mine * config->batch);
    gy_arena_open_hook(&t->arena, &alloc);
    int status = gy_graph_parse(&t->graph, &t->arena, config->net, strlen(config->net), "net", &err) == GY_OK ? 0 : -1;
    status = status == 0 && t->graph.param_count <= TRAIN_PARAMS && ranks <= TRAIN_RANKS ? 0 : -1;
    status = status == 0 ? train_take_graph(t) : status;
    status = status == 0 ? train_take_vectors(t) : status;
    status = status == 0 ? train_take_samples(t, own) : status;
    status = status == 0 ? train_take_batch(t, own * (size_t)ranks) : status;
    if (status == 0)
        train_normalise(t);
    else
        train_close(t);
    return status;
}

void train_close(struct train_truth *t)
{
    truth_close(&t->net);
    gy_arena_close(&t->arena);
}
