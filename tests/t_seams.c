/* SPDX-License-Identifier: MIT */
/* t_seams.c: options in company. An update is what a plain second implementation makes of the same
 * gradients, whatever rule, clipping, decay, averaging, accumulation and checkpoints are combined.
 * It runs on the reference, the machine's own kernels and the CUDA emulator. */
#include "tools/lab/lab.h"
#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "engine/gyre.h"
#include "tests/data_files.h"
#include "tests/t.h"

/* The emulator's kernels call its own thread checker, which this one would replace. */
#if defined(__SANITIZE_THREAD__)
#define SEAM_NO_EMULATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SEAM_NO_EMULATOR 1
#endif
#endif

#define SEAM_BATCH 6
#define SEAM_SIDE 4
#define SEAM_PIXELS (SEAM_SIDE * SEAM_SIDE * 2)
#define SEAM_CLASSES 4
#define SEAM_TENSORS 8 /* trained ones, of the nets whose updates are made again */
#define SEAM_ROOM 256 /* elements of the largest tensor */

static const char seam_text[] = "input 4x4x2\nconv: conv 3 3x3 bias\nrelu\nfc: linear 4\nsoftmax\n";

/* Device and kernel set. */
struct seam_set {
    const char *device, *isa;
};
static const struct seam_set seam_sets[] = { { "cpu", "ref" }, { "cpu", NULL }, { "emu", NULL } };

/* The last set cannot be used everywhere. */
static int seam_set_count(void)
{
#ifdef SEAM_NO_EMULATOR
    return 2;
#else
    struct gyre_config config;
    struct gyre_need need;
    gyre_config_default(&config);
    config.net = seam_text;
    config.device = "emu";
    return gyre_measure(&config, &need, NULL) == GYRE_OK ? 3 : 2;
#endif
}

static struct gyre_config seam_config(const struct seam_set *set)
{
    struct gyre_config config;
    gyre_config_default(&config);
    config.net = seam_text;
    config.batch = SEAM_BATCH;
    config.threads = 1;
    config.device = set->device;
    config.isa = set->isa;
    config.use_env = strcmp(set->device, "emu") == 0; /* the cache of kernels */
    config.optimizer.lars_eta = 0.02f;
    config.optimizer.weight_decay = 0.01f;
    return config;
}

static struct gyre_net *seam_open(const struct gyre_config *config)
{
    struct gyre_net *net = NULL;
    struct gyre_error error = { 0 };
    T_CHECK_MSG(gyre_open(&net, config, &error) == GYRE_OK, "%s", error.text);
    return net;
}

struct seam_data {
    float x[SEAM_BATCH * SEAM_PIXELS];
    int32_t label[SEAM_BATCH];
    struct gyre_batch batch;
};

static void seam_fill(struct seam_data *d, uint64_t number, float scale)
{
    for (int i = 0; i < SEAM_BATCH * SEAM_PIXELS; i++)
        d->x[i] = scale * gy_rng_normal(3, 4, number, (uint64_t)i);
    for (int i = 0; i < SEAM_BATCH; i++)
        d->label[i] = (int32_t)((number + (uint64_t)i) % SEAM_CLASSES);
    d->batch = (struct gyre_batch){ .x = d->x, .label = d->label, .count = SEAM_BATCH };
}

/* ---- the second implementation of an update ---- */

struct seam_tensor {
    char name[64];
    int count, decays;
    double w[SEAM_ROOM], g[SEAM_ROOM], m[SEAM_ROOM], v[SEAM_ROOM], ema[SEAM_ROOM];
};

struct seam_model {
    struct gyre_optimizer o;
    double rate;
    int count, updates;
    struct seam_tensor t[SEAM_TENSORS];
};

static void seam_get(struct gyre_net *net, const char *prefix, const struct seam_tensor *t, double *out)
{
    char name[128];
    float values[SEAM_ROOM];
    snprintf(name, sizeof name, "%s%s", prefix, t->name);
    T_CHECK_MSG(gyre_get_tensor(net, name, values, t->count) == GYRE_OK, "%s", gyre_last_error(net)->text);
    for (int i = 0; i < t->count; i++)
        out[i] = (double)values[i];
}

static void seam_model_open(struct seam_model *s, struct gyre_net *net, const struct gyre_config *config)
{
    memset(s, 0, sizeof *s);
    s->o = config->optimizer;
    s->rate = (double)config->schedule.rate;
    for (int i = 0; i < gyre_tensor_count(net) && s->count < SEAM_TENSORS; i++) {
        struct gyre_tensor_info info;
        struct seam_tensor *t = &s->t[s->count];
        gyre_tensor_at(net, i, &info);
        if (!info.trained || !T_CHECK(info.count <= SEAM_ROOM))
            continue;
        snprintf(t->name, sizeof t->name, "%s", info.name);
        t->count = (int)info.count;
        t->decays = info.dims > 1 || s->o.decay_all;
        seam_get(net, "", t, t->w);
        memcpy(t->ema, t->w, sizeof t->ema);
        s->count++;
    }
}

static double seam_norm(const double *x, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* Cuts the gradient to the allowed norm before any rule sees it, as torch.nn.utils.clip_grad_norm_
 * does. */
static void seam_clip(struct seam_model *s)
{
    double all = 0;
    for (int k = 0; k < s->count; k++)
        all = hypot(all, seam_norm(s->t[k].g, s->t[k].count));
    const double limit = (double)s->o.clip_norm, cut = limit > 0 && all > limit ? limit / all : 1;
    for (int k = 0; k < s->count; k++)
        for (int i = 0; i < s->t[k].count; i++)
            s->t[k].g[i] *= cut;
}

/* torch.optim.SGD. LARS adds the layer's own rate, inside the momentum or outside. */
static void seam_sgd(struct seam_model *s, struct seam_tensor *t)
{
    const double mu = (double)s->o.momentum, decay = t->decays ? (double)s->o.weight_decay : 0;
    const double w = seam_norm(t->w, t->count), g = seam_norm(t->g, t->count);
    const int unscaled = s->o.kind == GYRE_LARS_UNSCALED, lars = s->o.kind == GYRE_LARS || unscaled;
    const double ratio = lars && t->decays && w > 0 && g > 0 ? (double)s->o.lars_eta * w / (g + decay * w) : 1;
    const double all = s->rate * ratio, inside = lars && !unscaled ? all : 1, outside = lars && !unscaled ? 1 : all;
    for (int i = 0; i < t->count; i++) {
        const double step = inside * (t->g[i] + decay * t->w[i]);
        t->m[i] = mu * t->m[i] + step;
        t->w[i] -= outside * (s->o.nesterov ? step + mu * t->m[i] : t->m[i]);
    }
}

/* torch.optim.AdamW */
static void seam_adamw(struct seam_model *s, struct seam_tensor *t)
{
    const double b1 = (double)s->o.beta1, b2 = (double)s->o.beta2, decay = t->decays ? (double)s->o.weight_decay : 0;
    for (int i = 0; i < t->count; i++) {
        t->w[i] *= 1 - s->rate * decay;
        t->m[i] = b1 * t->m[i] + (1 - b1) * t->g[i];
        t->v[i] = b2 * t->v[i] + (1 - b2) * t->g[i] * t->g[i];
        const double m = t->m[i] / (1 - pow(b1, s->updates + 1)), v = t->v[i] / (1 - pow(b2, s->updates + 1));
        t->w[i] -= s->rate * m / (sqrt(v) + (double)s->o.eps);
    }
}

/* You et al. 2020, algorithm 2, with the identity as its phi. Tensors without decay do not
 * adapt. */
static void seam_lamb(struct seam_model *s, struct seam_tensor *t)
{
    const double b1 = (double)s->o.beta1, b2 = (double)s->o.beta2, decay = t->decays ? (double)s->o.weight_decay : 0;
    double step[SEAM_ROOM];
    for (int i = 0; i < t->count; i++) {
        t->m[i] = b1 * t->m[i] + (1 - b1) * t->g[i];
        t->v[i] = b2 * t->v[i] + (1 - b2) * t->g[i] * t->g[i];
        const double m = t->m[i] / (1 - pow(b1, s->updates + 1)), v = t->v[i] / (1 - pow(b2, s->updates + 1));
        step[i] = m / (sqrt(v) + (double)s->o.eps) + decay * t->w[i];
    }
    const double w = seam_norm(t->w, t->count), u = seam_norm(step, t->count);
    for (int i = 0; i < t->count; i++)
        t->w[i] -= s->rate * (t->decays && w > 0 && u > 0 ? w / u : 1) * step[i];
}

/* tf.train.ExponentialMovingAverage with num_updates: the decay rises to its value. */
static void seam_average(struct seam_model *s, struct seam_tensor *t)
{
    const double keep = fmin((double)s->o.ema, (1.0 + s->updates) / (10.0 + s->updates));
    for (int i = 0; i < t->count; i++)
        t->ema[i] = keep * t->ema[i] + (1 - keep) * t->w[i];
}

static void seam_update(struct seam_model *s)
{
    seam_clip(s);
    for (int k = 0; k < s->count; k++) {
        (s->o.kind == GYRE_ADAMW ? seam_adamw : s->o.kind == GYRE_LAMB ? seam_lamb : seam_sgd)(s, &s->t[k]);
        seam_average(s, &s->t[k]);
    }
    s->updates++;
}

/* ---- beside the net ---- */

static void seam_same(struct gyre_net *net, const char *prefix, const struct seam_tensor *t, const double *want, const char *what)
{
    double got[SEAM_ROOM], off[SEAM_ROOM];
    seam_get(net, prefix, t, got);
    for (int i = 0; i < t->count; i++)
        off[i] = got[i] - want[i];
    const double apart = seam_norm(off, t->count), size = seam_norm(want, t->count);
    T_CHECK_MSG(apart <= 2e-5 * size + 1e-9, "%s: %s%s is %g apart of %g", what, prefix, t->name, apart, size);
}

static void seam_compare(struct gyre_net *net, const struct seam_model *s, const char *what)
{
    for (int k = 0; k < s->count; k++) {
        seam_same(net, "", &s->t[k], s->t[k].w, what);
        seam_same(net, "momentum.", &s->t[k], s->t[k].m, what);
        if (s->o.kind == GYRE_ADAMW || s->o.kind == GYRE_LAMB)
            seam_same(net, "second.", &s->t[k], s->t[k].v, what);
        if (s->o.ema > 0)
            seam_same(net, "ema.", &s->t[k], s->t[k].ema, what);
    }
}

/* One option in company; what it is called. */
struct seam_row {
    const char *what;
    struct gyre_optimizer o; /* fields that are 0 stay at their default */
    float scale;             /* of the input; 0: no gradient reaches the first weights */
    const char *emptied;     /* tensor that begins as 0, or NULL */
};
static const struct seam_row seam_rows[] = {
    { "sgd", { .kind = GYRE_SGD }, 1, NULL },
    { "sgd, clipped", { .kind = GYRE_SGD, .clip_norm = 0.05f }, 1, NULL },
    { "sgd, nesterov, decay of all, clipped", { .kind = GYRE_SGD, .nesterov = 1, .decay_all = 1, .clip_norm = 0.05f }, 1, NULL },
    { "sgd, averaged", { .kind = GYRE_SGD, .ema = 0.998f }, 1, NULL },
    { "sgd, averaged briefly", { .kind = GYRE_SGD, .ema = 0.2f }, 1, NULL },
    { "lars", { .kind = GYRE_LARS }, 1, NULL },
    { "lars, clipped", { .kind = GYRE_LARS, .clip_norm = 0.05f }, 1, NULL },
    { "lars, clipped, averaged", { .kind = GYRE_LARS, .clip_norm = 0.05f, .ema = 0.9f }, 1, NULL },
    { "lars, nesterov, decay of all, clipped", { .kind = GYRE_LARS, .nesterov = 1, .decay_all = 1, .clip_norm = 0.05f }, 1, NULL },
    { "lars, no gradient", { .kind = GYRE_LARS }, 0, NULL },
    { "lars, no weights", { .kind = GYRE_LARS, .clip_norm = 0.05f }, 1, "fc.weight" },
    { "lars unscaled", { .kind = GYRE_LARS_UNSCALED }, 1, NULL },
    { "lars unscaled, nesterov, clipped, averaged", { .kind = GYRE_LARS_UNSCALED, .nesterov = 1, .clip_norm = 0.05f, .ema = 0.9f }, 1, NULL },
    { "lars unscaled, decay of all", { .kind = GYRE_LARS_UNSCALED, .decay_all = 1 }, 1, NULL },
    { "lars unscaled, no gradient", { .kind = GYRE_LARS_UNSCALED }, 0, NULL },
    { "lamb", { .kind = GYRE_LAMB }, 1, NULL },
    { "lamb, clipped, averaged", { .kind = GYRE_LAMB, .clip_norm = 0.05f, .ema = 0.9f }, 1, NULL },
    { "lamb, decay of all, clipped", { .kind = GYRE_LAMB, .decay_all = 1, .clip_norm = 0.05f }, 1, NULL },
    { "lamb, no gradient", { .kind = GYRE_LAMB }, 0, NULL },
    { "lamb, no weights", { .kind = GYRE_LAMB }, 1, "fc.weight" },
    { "adamw", { .kind = GYRE_ADAMW }, 1, NULL },
    { "adamw, clipped, averaged", { .kind = GYRE_ADAMW, .clip_norm = 0.05f, .ema = 0.998f }, 1, NULL },
    { "adamw, decay of all", { .kind = GYRE_ADAMW, .decay_all = 1 }, 1, NULL },
};

static void seam_take_row(struct gyre_config *config, const struct seam_row *row)
{
    config->optimizer.kind = row->o.kind;
    config->optimizer.nesterov = row->o.nesterov;
    config->optimizer.decay_all = row->o.decay_all;
    config->optimizer.clip_norm = row->o.clip_norm;
    config->optimizer.ema = row->o.ema;
    config->schedule.rate = row->o.kind == GYRE_ADAMW || row->o.kind == GYRE_LAMB ? 0.01f : 0.1f;
}

static void seam_check_row(const struct seam_set *set, const struct seam_row *row)
{
    static struct seam_model model;
    static struct seam_data d;
    static const float zeros[SEAM_ROOM];
    struct gyre_config config = seam_config(set);
    char what[128];
    seam_take_row(&config, row);
    struct gyre_net *net = seam_open(&config);
    if (!net)
        return;
    snprintf(what, sizeof what, "%s %s: %s", set->device, set->isa ? set->isa : "", row->what);
    if (row->emptied)
        T_CHECK_MSG(gyre_set_tensor(net, row->emptied, zeros, 4 * 48) == GYRE_OK, "%s", gyre_last_error(net)->text);
    seam_model_open(&model, net, &config);
    for (int step = 0; step < 4; step++) {
        seam_fill(&d, (uint64_t)step, row->scale);
        T_CHECK(gyre_gradient(net, &d.batch, NULL) == GYRE_OK);
        for (int k = 0; k < model.count; k++)
            seam_get(net, "grad.", &model.t[k], model.t[k].g);
        T_CHECK(gyre_step(net, &d.batch, NULL) == GYRE_OK);
        seam_update(&model);
        seam_compare(net, &model, what);
    }
    gyre_close(net);
}

/* A weight that is set is what evaluation uses from then on; its average alone can be set, too. */
static void seam_check_set_average(const struct seam_set *set)
{
    static struct seam_data d;
    struct gyre_config config = seam_config(set);
    float w[SEAM_CLASSES], got[SEAM_CLASSES] = { 0 };
    struct gyre_result was = { 0 }, is = { 0 };
    config.optimizer.ema = 0.5f;
    struct gyre_net *net = seam_open(&config);
    if (!net)
        return;
    seam_fill(&d, 0, 1);
    T_CHECK(gyre_step(net, &d.batch, NULL) == GYRE_OK && gyre_eval(net, &d.batch, &was) == GYRE_OK);
    T_CHECK(gyre_get_tensor(net, "fc.bias", w, SEAM_CLASSES) == GYRE_OK);
    w[1] += 2;
    T_CHECK(gyre_set_tensor(net, "fc.bias", w, SEAM_CLASSES) == GYRE_OK);
    T_CHECK(gyre_get_tensor(net, "ema.fc.bias", got, SEAM_CLASSES) == GYRE_OK && memcmp(got, w, sizeof w) == 0);
    T_CHECK(gyre_eval(net, &d.batch, &is) == GYRE_OK && fabs(is.loss - was.loss) > 0.1);
    const float before = w[2];
    w[2] += 1;
    T_CHECK(gyre_set_tensor(net, "ema.fc.bias", w, SEAM_CLASSES) == GYRE_OK);
    T_CHECK(gyre_get_tensor(net, "fc.bias", got, SEAM_CLASSES) == GYRE_OK && got[2] == before);
    gyre_close(net);
}

/* ---- mixed samples ---- */

static const char seam_mse_text[] = "input 4x4x2\nconv: conv 3 3x3 bias\nrelu\nfc: linear 4\nmse\n";

/* Mixes pixels and targets (or one-hot labels) by hand. A partner without a label leaves the target
 * as it is. */
static void seam_mix_by_hand(const struct seam_data *d, const float *target, const struct gyre_mix *mix, float *x, float *wanted)
{
    for (int i = 0; i < SEAM_BATCH; i++) {
        const struct gyre_mix *m = &mix[i];
        const float label = d->label[m->partner] >= 0 ? m->label : 1;
        for (int k = 0; k < SEAM_PIXELS; k++) {
            /* the box reaches from the left, over all rows */
            const float inside = k / 2 % SEAM_SIDE < m->w1 ? m->inside : 1;
            x[i * SEAM_PIXELS + k] = inside * d->x[i * SEAM_PIXELS + k] + (1 - inside) * d->x[m->partner * SEAM_PIXELS + k];
        }
        for (int c = 0; c < SEAM_CLASSES; c++) {
            const float own = target ? target[i * SEAM_CLASSES + c] : c == d->label[i] ? 1 : 0;
            const float other = target ? target[m->partner * SEAM_CLASSES + c] : c == d->label[m->partner] ? 1 : 0;
            wanted[i * SEAM_CLASSES + c] = label * own + (1 - label) * other;
        }
    }
}

/* Loss and gradients of samples that the net mixes, and of those that were mixed by hand. */
static void seam_check_mixed(const struct seam_set *set, int cutmix, int targets)
{
    static struct seam_model a, b;
    static struct seam_data d;
    static float x[SEAM_BATCH * SEAM_PIXELS], target[SEAM_BATCH * SEAM_CLASSES], wanted[SEAM_BATCH * SEAM_CLASSES];
    struct gyre_mix mix[SEAM_BATCH];
    struct gyre_config config = seam_config(set);
    struct gyre_result mixed = { 0 }, plain = { 0 };
    config.net = seam_mse_text;
    struct gyre_net *net = seam_open(&config);
    if (!net)
        return;
    seam_fill(&d, 5, 1);
    d.label[4] = -1;
    for (int i = 0; i < SEAM_BATCH * SEAM_CLASSES; i++)
        target[i] = gy_rng_normal(3, 5, 1, (uint64_t)i);
    for (int i = 0; i < SEAM_BATCH; i++)
        mix[i] = (struct gyre_mix){ .partner = (i + 2) % SEAM_BATCH, .inside = cutmix ? 0.0f : 0.7f, .label = 0.7f, .h1 = SEAM_SIDE,
                                    .w1 = cutmix ? 1 : SEAM_SIDE };
    seam_mix_by_hand(&d, targets ? target : NULL, mix, x, wanted);
    struct gyre_batch batch = d.batch;
    batch.mix = mix;
    batch.target = targets ? target : NULL;
    seam_model_open(&a, net, &config);
    seam_model_open(&b, net, &config);
    T_CHECK(gyre_gradient(net, &batch, &mixed) == GYRE_OK);
    for (int k = 0; k < a.count; k++)
        seam_get(net, "grad.", &a.t[k], a.t[k].g);
    batch.x = x;
    batch.mix = NULL;
    batch.target = wanted;
    T_CHECK(gyre_gradient(net, &batch, &plain) == GYRE_OK);
    T_CHECK_MSG(fabs(mixed.loss - plain.loss) < 1e-5, "%s: %g, by hand %g", set->device, mixed.loss, plain.loss);
    for (int k = 0; k < b.count; k++)
        seam_same(net, "grad.", &b.t[k], a.t[k].g, targets ? "mixed targets" : "mixed labels");
    gyre_close(net);
}

/* ---- accumulation ---- */

static const char seam_norm_text[] =
    "input 4x4x2\nn0: bn\na: conv 4 3x3 bias\nn1: bn\nr: relu\nb: conv 4 3x3\nn2: bn\nadd r\nrelu\ndropout 0.2\nd: conv 4 1x1\nn3: bn\n"
    "n4: bn\ngap\nf: linear 6\nn5: bn\nrelu\nfc: linear 4\nsoftmax\n";

/* All tensors with a prefix, of two nets of one text: `allowed` of their size and `least` apart. */
static void seam_same_nets(struct gyre_net *a, struct gyre_net *b, const char *prefix, double allowed, double least, const char *what)
{
    for (int i = 0; i < gyre_tensor_count(a); i++) {
        struct gyre_tensor_info info;
        char name[128];
        float x[SEAM_ROOM], y[SEAM_ROOM];
        double off = 0, size = 0;
        gyre_tensor_at(a, i, &info);
        snprintf(name, sizeof name, "%s%s", prefix, info.name);
        if (prefix[0] && !info.trained)
            continue;
        T_CHECK(gyre_get_tensor(a, name, x, info.count) == GYRE_OK && gyre_get_tensor(b, name, y, info.count) == GYRE_OK);
        for (int64_t k = 0; k < info.count; k++) {
            off = hypot(off, (double)x[k] - (double)y[k]);
            size = hypot(size, (double)y[k]);
        }
        T_CHECK_MSG(off <= allowed * size + least, "%s: %s is %g apart of %g", what, name, off, size);
    }
}

static int seam_nowhere(void *user, const char *text, size_t bytes) { return (void)user, (void)text, (void)bytes, 0; }

/* Calls that would overwrite gradients that wait for their update are refused, or leave them
 * alone. */
static void seam_check_pending(const struct seam_set *set)
{
    static struct seam_data d;
    static struct seam_model model;
    struct gyre_config config = seam_config(set);
    const struct gyre_sink sink = { seam_nowhere, NULL };
    config.accumulate = 2;
    struct gyre_net *plain = seam_open(&config), *net = seam_open(&config);
    if (plain && net) {
        seam_fill(&d, 0, 1);
        T_CHECK(gyre_step(plain, &d.batch, NULL) == GYRE_OK && gyre_step(net, &d.batch, NULL) == GYRE_OK);
        seam_fill(&d, 1, 1);
        T_CHECK(gyre_gradient(net, &d.batch, NULL) == GYRE_E_STATE && strstr(gyre_last_error(net)->text, "1 of 2 calls"));
        T_CHECK(gyre_print_why(net, NULL, &sink) == GYRE_E_STATE && strstr(gyre_last_error(net)->text, "1 of 2 calls"));
        T_CHECK(gyre_eval(net, &d.batch, NULL) == GYRE_OK && gyre_find_nonfinite(net, &d.batch, NULL, NULL) == GYRE_OK);
        d.x[3] = NAN;
        T_CHECK(gyre_step(net, &d.batch, NULL) == GYRE_E_NONFINITE && gyre_find_nonfinite(net, &d.batch, NULL, NULL) == GYRE_E_NONFINITE);
        seam_fill(&d, 1, 1);
        T_CHECK(gyre_step(plain, &d.batch, NULL) == GYRE_OK && gyre_step(net, &d.batch, NULL) == GYRE_OK);
        seam_model_open(&model, plain, &config);
        for (int k = 0; k < model.count; k++)
            seam_same(net, "", &model.t[k], model.t[k].w, "two calls with others between");
        T_CHECK(gyre_gradient(net, &d.batch, NULL) == GYRE_OK);
    }
    gyre_close(plain);
    gyre_close(net);
}

/* An update from several calls, of uneven sizes and with or without labels, equals one call with
 * all the samples. */
static void seam_check_uneven(const struct seam_set *set, const struct seam_row *row, int resume)
{
    static struct seam_data d;
    static const int32_t part[] = { 1, 3, 2 };
    struct gyre_config config = seam_config(set);
    struct gyre_result all = { 0 }, r = { 0 };
    char what[128], path[] = "/tmp/gyre_t_seams_XXXXXX";
    double loss = 0;
    seam_take_row(&config, row);
    struct gyre_net *whole = seam_open(&config), *parts = NULL;
    config.accumulate = 3;
    parts = seam_open(&config);
    const int fd = mkstemp(path);
    T_CHECK(fd >= 0 && close(fd) == 0);
    snprintf(what, sizeof what, "%s %s: uneven%s: %s", set->device, set->isa ? set->isa : "", resume ? ", resumed" : "", row->what);
    for (uint64_t step = 0; whole && parts && step < 3; step++) {
        seam_fill(&d, step, 1);
        d.label[2] = -1;
        T_CHECK(gyre_step(whole, &d.batch, &all) == GYRE_OK);
        loss = 0;
        for (int k = 0, at = 0; k < 3 && parts; at += part[k++]) {
            const struct gyre_batch batch = { .x = d.x + at * SEAM_PIXELS, .label = d.label + at, .count = part[k] };
            T_CHECK(gyre_step(parts, &batch, &r) == GYRE_OK);
            loss += r.loss * r.labelled;
            if (!resume)
                continue;
            T_CHECK(gyre_save(parts, path) == GYRE_OK);
            gyre_close(parts);
            parts = seam_open(&config);
            T_CHECK(parts && gyre_load(parts, path) == GYRE_OK);
        }
        if (!parts)
            break;
        T_CHECK_MSG(fabs(loss / all.labelled - all.loss) < 1e-5 && r.step == all.step, "%s: losses %g and %g", what, loss / all.labelled, all.loss);
        seam_same_nets(parts, whole, "", 2e-6, 1e-7, what);
        seam_same_nets(parts, whole, "momentum.", 1e-5, 1e-7, what);
        if (!resume)
            seam_same_nets(parts, whole, "grad.", 1e-5, 1e-7, what);
    }
    remove(path);
    gyre_close(whole);
    gyre_close(parts);
}

/* What has no label at all changes nothing. */
static void seam_check_unlabelled(const struct seam_set *set, int accumulate)
{
    static struct seam_data d;
    struct gyre_config config = seam_config(set);
    struct gyre_result r = { 0 };
    config.net = seam_norm_text;
    config.accumulate = accumulate;
    struct gyre_net *net = seam_open(&config), *same = seam_open(&config);
    for (uint64_t step = 0; net && same && step < 3; step++) {
        seam_fill(&d, step, 1);
        T_CHECK(gyre_step(net, &d.batch, NULL) == GYRE_OK && gyre_step(same, &d.batch, NULL) == GYRE_OK);
        memset(d.label, 0xff, sizeof d.label);
        T_CHECK(gyre_step(net, &d.batch, &r) == GYRE_E_ARG && strstr(gyre_last_error(net)->text, "label"));
        seam_same_nets(net, same, "", 0, 0, "a call without labels");
        seam_same_nets(net, same, "momentum.", 0, 0, "a call without labels");
    }
    gyre_close(net);
    gyre_close(same);
}

/* A run of 3 steps, of which `accumulate` make an update; *moved: the weights did. */
static int seam_train(int accumulate, struct df_log *heard, int *moved, struct gyre_error *error)
{
    struct gyre_config config;
    struct gyre_data_config files;
    struct gyre_train_config train;
    struct gyre_data *data = NULL;
    struct gyre_net *net = NULL;
    float w[2][3] = { { 0 } };
    gyre_config_default(&config);
    config.net = "input 4x4x1\nfc: linear 3\nsoftmax\n";
    config.batch = 4;
    config.threads = 1;
    config.input = GYRE_INPUT_U8;
    config.accumulate = accumulate;
    config.log = (struct gyre_logger){ df_take_log, heard, GYRE_LOG_WARN };
    gyre_data_config_default(&files);
    files.path = df_root;
    files.split = "train";
    gyre_train_config_default(&train);
    int status = gyre_open_data(&data, &files, error);
    if (status == GYRE_OK)
        status = gyre_open(&net, &config, error);
    train.train = data;
    if (status == GYRE_OK) {
        gyre_get_tensor(net, "fc.bias", w[0], 3);
        status = gyre_train(net, &train);
        *error = *gyre_last_error(net);
        gyre_get_tensor(net, "fc.bias", w[1], 3);
    }
    *moved = memcmp(w[0], w[1], sizeof w[0]) != 0;
    gyre_close(net);
    gyre_close_data(data);
    return status;
}

/* A run that would end without an update is refused. A run whose last calls wait for an update says
 * so. */
static void seam_check_length(void)
{
    static const struct { int accumulate, status; const char *said; } row[] = {
        { 1, GYRE_OK, NULL }, { 2, GYRE_OK, "last 1 of 3 steps" }, { 3, GYRE_OK, NULL }, { 4, GYRE_E_ARG, "3 steps" }, { 21, GYRE_E_ARG, "3 steps" },
    };
    df_open();
    df_write_idx("train", 12, 4, 4, 3);
    for (size_t i = 0; i < GY_COUNT(row); i++) {
        struct df_log heard = { 0 };
        struct gyre_error error = { 0 };
        int moved = 0;
        const int status = seam_train(row[i].accumulate, &heard, &moved, &error);
        const char *const text = status == GYRE_OK ? heard.last : error.text;
        T_CHECK_MSG(status == row[i].status && moved == (status == GYRE_OK), "accumulate %d: %d %s", row[i].accumulate, status, error.text);
        T_CHECK_MSG(row[i].said ? strstr(text, row[i].said) != NULL : heard.lines == 0, "accumulate %d: '%s'", row[i].accumulate, text);
    }
    df_remove(df_root);
}

/* ---- shards ---- */

static void seam_copy(struct gyre_net *from, struct gyre_net *to)
{
    for (int i = 0; i < gyre_tensor_count(from); i++) {
        struct gyre_tensor_info info;
        float values[SEAM_ROOM];
        gyre_tensor_at(from, i, &info);
        T_CHECK(gyre_get_tensor(from, info.name, values, info.count) == GYRE_OK && gyre_set_tensor(to, info.name, values, info.count) == GYRE_OK);
    }
}

static int seam_scores_equal(struct gyre_net *a, struct gyre_net *b, int count)
{
    const float *scores[2] = { NULL, NULL }, *loss[2] = { NULL, NULL };
    const int32_t *rank[2] = { NULL, NULL };
    if (gyre_get_scores(a, &scores[0], &loss[0], &rank[0]) != GYRE_OK || gyre_get_scores(b, &scores[1], &loss[1], &rank[1]) != GYRE_OK)
        return 0;
    return memcmp(scores[0], scores[1], (size_t)(count * SEAM_CLASSES) * sizeof(float)) == 0 &&
           memcmp(loss[0], loss[1], (size_t)count * sizeof(float)) == 0 && memcmp(rank[0], rank[1], (size_t)count * sizeof(int32_t)) == 0;
}

/* Scores of all samples of a step, in their order, whether computed at once or in shards; then of
 * an evaluation. */
static void seam_check_shard_scores(int shards)
{
    static struct seam_data d;
    struct gyre_config config = seam_config(&seam_sets[1]);
    struct gyre_need need;
    struct gyre_net *whole = seam_open(&config), *parts = NULL;
    config.shards = shards;
    config.batch = SEAM_BATCH / shards;
    T_CHECK(gyre_measure(&config, &need, NULL) == GYRE_OK);
    unsigned char *raw = calloc(1, need.host_bytes + 64);
    config.memory.block = raw ? raw + (64 - (uintptr_t)raw % 64) % 64 : NULL;
    config.memory.block_bytes = need.host_bytes;
    parts = seam_open(&config);
    seam_fill(&d, 1, 1);
    d.label[1] = -1;
    if (whole && parts) {
        T_CHECK(gyre_step(whole, &d.batch, NULL) == GYRE_OK && gyre_step(parts, &d.batch, NULL) == GYRE_OK);
        T_CHECK_MSG(seam_scores_equal(whole, parts, SEAM_BATCH), "%d shards", shards);
        d.batch.count = config.batch;
        d.batch.x = d.x + SEAM_PIXELS;
        seam_copy(whole, parts); /* their gradients were summed in another order */
        T_CHECK(gyre_eval(whole, &d.batch, NULL) == GYRE_OK && gyre_eval(parts, &d.batch, NULL) == GYRE_OK);
        T_CHECK_MSG(seam_scores_equal(whole, parts, config.batch), "%d shards, evaluation", shards);
    }
    gyre_close(whole);
    gyre_close(parts);
    free(raw);
}

/* Targets without labels: the loss counts, but nothing can be right. */
static void seam_check_unnamed(const struct seam_set *set)
{
    static struct seam_data d;
    static float target[SEAM_BATCH * SEAM_CLASSES];
    struct gyre_config config = seam_config(set);
    struct gyre_result named = { 0 }, unnamed = { 0 };
    const int32_t *rank = NULL;
    int ranked = 0;
    config.net = seam_mse_text;
    struct gyre_net *net = seam_open(&config);
    if (!net)
        return;
    seam_fill(&d, 6, 1);
    memset(d.label, 0, sizeof d.label);
    d.batch.target = target;
    T_CHECK(gyre_eval(net, &d.batch, &named) == GYRE_OK && named.top5 == SEAM_BATCH);
    d.batch.label = NULL;
    T_CHECK(gyre_eval(net, &d.batch, &unnamed) == GYRE_OK && gyre_get_scores(net, NULL, NULL, &rank) == GYRE_OK);
    for (int i = 0; i < SEAM_BATCH && rank; i++)
        ranked += rank[i] != -1;
    T_CHECK(unnamed.loss == named.loss && unnamed.labelled == SEAM_BATCH && ranked == 0);
    T_CHECK_MSG(unnamed.top1 == 0 && unnamed.top5 == 0, "%d and %d are right", unnamed.top1, unnamed.top5);
    gyre_close(net);
}

/* ---- smoothing ---- */

/* The loss of an evaluation is the cross-entropy; that of training contains the smoothing. */
static void seam_check_smooth(const struct seam_set *set)
{
    static struct seam_data d;
    struct gyre_config config = seam_config(set);
    struct gyre_result trained = { 0 }, tested = { 0 };
    const float *scores = NULL;
    double plain = 0, smoothed = 0;
    config.net = "input 4x4x2\nfc: linear 4\nsoftmax smooth 0.2\n";
    struct gyre_net *net = seam_open(&config);
    if (!net)
        return;
    seam_fill(&d, 12, 3);
    T_CHECK(gyre_eval(net, &d.batch, &tested) == GYRE_OK && gyre_get_scores(net, &scores, NULL, NULL) == GYRE_OK);
    for (int i = 0; i < SEAM_BATCH && scores; i++)
        for (int c = 0; c < SEAM_CLASSES; c++) {
            const double surprise = -log((double)scores[i * SEAM_CLASSES + c]) / SEAM_BATCH;
            plain += c == d.label[i] ? surprise : 0;
            smoothed += ((c == d.label[i] ? 0.8 : 0) + 0.2 / SEAM_CLASSES) * surprise;
        }
    T_CHECK(gyre_gradient(net, &d.batch, &trained) == GYRE_OK);
    T_CHECK_MSG(fabs(tested.loss - plain) < 1e-5 && fabs(trained.loss - smoothed) < 1e-5 && fabs(plain - smoothed) > 0.01,
                "test %g, cross-entropy %g; training %g, smoothed %g", tested.loss, plain, trained.loss, smoothed);
    gyre_close(net);
}

/* ---- batches that are not full ---- */

/* Absent samples change nothing: a net opened for fewer samples gives the same results. */
static void seam_check_partial(const struct seam_set *set, int recompute, int dtype, int count)
{
    static struct seam_data d;
    struct gyre_config config = seam_config(set);
    struct gyre_result few = { 0 }, part = { 0 };
    char what[96];
    config.net = seam_norm_text;
    config.recompute = recompute;
    config.dtype = dtype;
    struct gyre_net *b = seam_open(&config), *a = NULL;
    config.batch = count;
    a = seam_open(&config);
    snprintf(what, sizeof what, "%s %s: %d of %d, recompute %d, dtype %d", set->device, set->isa ? set->isa : "", count, SEAM_BATCH, recompute, dtype);
    if (a && b) {
        seam_fill(&d, 8, 50);
        /* other numbers where none should be read */
        T_CHECK_MSG(gyre_gradient(b, &d.batch, NULL) == GYRE_OK, "%s", gyre_last_error(b)->text);
        seam_fill(&d, 9, 1);
        d.batch.count = count;
        T_CHECK(gyre_gradient(a, &d.batch, &few) == GYRE_OK && gyre_gradient(b, &d.batch, &part) == GYRE_OK);
        T_CHECK_MSG(fabs(few.loss - part.loss) < (dtype ? 3e-2 : 1e-5), "%s: loss %g, alone %g", what, part.loss, few.loss);
        seam_same_nets(b, a, "grad.", dtype ? 0.15 : 5e-5, dtype ? 1e-2 : 1e-5, what);
        T_CHECK(gyre_step(a, &d.batch, &few) == GYRE_OK && gyre_step(b, &d.batch, &part) == GYRE_OK);
        seam_same_nets(b, a, "", dtype ? 3e-2 : 1e-5, dtype ? 1e-3 : 1e-6, what);
        seam_fill(&d, 10, 1); /* a full one behind it */
        T_CHECK(gyre_step(b, &d.batch, &part) == GYRE_OK && part.labelled == SEAM_BATCH);
    }
    gyre_close(a);
    gyre_close(b);
}

/* One value a channel has no deviation. */
static void seam_check_one_value(const struct seam_set *set)
{
    static struct seam_data d;
    struct gyre_config config = seam_config(set);
    config.net = seam_norm_text;
    seam_fill(&d, 11, 1);
    d.batch.count = 1;
    for (int batch = 1; batch <= 2; batch++) {
        config.batch = batch;
        struct gyre_net *net = seam_open(&config);
        if (!net)
            return;
        T_CHECK(gyre_step(net, &d.batch, NULL) == GYRE_E_ARG && strstr(gyre_last_error(net)->text, "layer 'n5'"));
        T_CHECK(gyre_gradient(net, &d.batch, NULL) == GYRE_E_ARG && gyre_eval(net, &d.batch, NULL) == GYRE_OK);
        gyre_close(net);
    }
}

static void seam_check_set(const struct seam_set *set)
{
    for (size_t i = 0; i < GY_COUNT(seam_rows); i++)
        seam_check_row(set, &seam_rows[i]);
    seam_check_set_average(set);
    for (int i = 0; i < 4; i++)
        seam_check_mixed(set, i % 2, i / 2);
    seam_check_unnamed(set);
    seam_check_pending(set);
    for (int recompute = -1; recompute <= 1; recompute++)
        seam_check_partial(set, recompute, GYRE_F32, 3 + recompute);
    seam_check_partial(set, 0, GYRE_BF16, 4);
    seam_check_one_value(set);
    seam_check_smooth(set);
    for (size_t i = 0; i < GY_COUNT(seam_rows); i += 3)
        seam_check_uneven(set, &seam_rows[i], i % 2 == 0);
    seam_check_unlabelled(set, 1);
    seam_check_unlabelled(set, 2);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 1024);
    const int sets = seam_set_count();
    if (sets < 3)
        T_SKIP("no emulator");
    for (int i = 0; i < sets; i++)
        seam_check_set(&seam_sets[i]);
    seam_check_length();
    seam_check_shard_scores(2);
    seam_check_shard_scores(3);
    seam_check_shard_scores(6);
    T_END("t_seams");
}
