/* SPDX-License-Identifier: MIT */
/* net_case.c: draws weights, samples, labels and options for a net, and holds the parts of its
 * answer. */
#include "tests/net_case.h"

#define CASE_PADDED 15 /* percent of nets that get fewer samples than they were opened for */

void net_case_plain(struct net_case *c)
{
    *c = (struct net_case){ .net = c->net, .seed = c->seed, .count = c->net.batch, .accumulate = 1 };
}

void net_case_draw(struct net_case *c, uint64_t seed)
{
    struct random_draw d = { seed ^ 0x5eed };
    random_net_make(&c->net, seed);
    c->seed = seed;
    net_case_plain(c);
    c->recompute = random_percent(&d, 45) ? 0 : random_percent(&d, 75) ? 1 : -1;
    c->optimizer = random_below(&d, 3);
    c->nesterov = random_percent(&d, 30);
    c->decay_all = random_percent(&d, 30);
    c->u8 = random_percent(&d, 30);
    c->moved = random_percent(&d, 20);
    c->mixed = random_percent(&d, 25);
    c->targets = random_percent(&d, 60);
    c->unlabelled = random_percent(&d, 30);
    c->poison = random_percent(&d, 50);
    c->saves = random_percent(&d, 20);
    c->infers = random_percent(&d, 20);
    c->tight = random_percent(&d, 20);
    c->accumulate = random_percent(&d, 15) ? 2 : 1;
    if (random_percent(&d, CASE_PADDED)) /* at least half: norms have enough values still */
        c->count -= random_below(&d, c->net.batch / 2 + 1);
}

/* Eight bits of mantissa: a weight is then the same number in every type. */
static float case_short(double value)
{
    int exponent;
    const double mantissa = frexp(value, &exponent);
    return (float)ldexp(floor(mantissa * 256 + 0.5), exponent - 8);
}

static void case_fill_param(const struct gy_param *p, struct random_draw *d, float *values)
{
    /* uniform with He's variance, 2 / inputs */
    const double spread = sqrt(6.0 / (double)(p->r * p->s * p->c));
    static const struct { double lo, hi; } range[] = {
        [GY_PARAM_CONV_WEIGHT] = { -1, 1 }, [GY_PARAM_LINEAR_WEIGHT] = { -1, 1 }, [GY_PARAM_CONV_BIAS] = { -0.5, 0.5 },
        [GY_PARAM_LINEAR_BIAS] = { -0.5, 0.5 }, [GY_PARAM_GAMMA] = { 0.5, 1.5 }, [GY_PARAM_BETA] = { -0.5, 0.5 },
        [GY_PARAM_RUN_MEAN] = { -0.3, 0.3 }, [GY_PARAM_RUN_VAR] = { 0.5, 1.5 },
    };
    const double scale = p->kind == GY_PARAM_CONV_WEIGHT || p->kind == GY_PARAM_LINEAR_WEIGHT ? spread : 1;
    for (int64_t i = 0; i < p->count; i++)
        values[i] = case_short(scale * random_real(d, range[p->kind].lo, range[p->kind].hi));
}

/* Bytes are normalised; mean and std have four places: wider inputs stay as they are. */
static void case_normalise(struct net_test *t)
{
    static const float mean[4] = { 0.25f, 0.5f, 0.375f, 0.5f }, std[4] = { 0.25f, 0.5f, 0.5f, 0.25f };
    t->u8 = t->c->u8 && t->graph.c <= 4;
    for (int c = 0; c < 4; c++) {
        t->mean[c] = t->u8 ? mean[c] : 0;
        t->std[c] = t->u8 ? std[c] : 1;
    }
}

struct case_samples {
    float *x;
    uint8_t *bytes;
    double *exact, *exact_target;
    int32_t *label;
    float *target;
    struct gy_mix *mix;
};

static void case_fill_samples(const struct net_test *t, struct random_draw *d, const struct case_samples *s)
{
    const struct gy_graph *g = &t->graph;
    const int64_t sample = (int64_t)g->h * g->w * g->c, count = t->c->count;
    const int far_h = g->h / 2 | 1, far_w = g->w / 2 | 1; /* most of the image stays */
    for (int64_t i = 0; i < sample * count; i++) {
        s->bytes[i] = (uint8_t)random_below(d, 256);
        s->x[i] = (float)random_real(d, -1.7, 1.7);
        s->exact[i] = t->u8 ? s->bytes[i] / 255.0 : (double)s->x[i];
    }
    for (int64_t i = 0; i < count * g->classes; i++)
        s->exact_target[i] = (double)(s->target[i] = (float)random_real(d, -1, 1));
    for (int i = 0; i < count; i++) {
        struct gy_mix *m = &s->mix[i];
        s->label[i] = i > 0 && t->c->unlabelled && random_percent(d, 25) ? -1 : random_below(d, g->classes);
        *m = (struct gy_mix){ .partner = i, .inside = 1, .label = 1 };
        if (t->c->moved)
            *m = (struct gy_mix){ .partner = i, .inside = 1, .label = 1, .dy = random_below(d, far_h) - far_h / 2,
                                  .dx = random_below(d, far_w) - far_w / 2, .flip = random_below(d, 2) };
        if (!t->c->mixed)
            continue;
        m->partner = random_below(d, (int)count);
        m->inside = random_percent(d, 50) ? 0 : case_short(random_real(d, 0, 1));
        m->label = case_short(random_real(d, 0, 1));
        m->h0 = random_below(d, g->h + 1);
        m->w0 = random_below(d, g->w + 1);
        m->h1 = m->h0 + random_below(d, g->h - m->h0 + 1);
        m->w1 = m->w0 + random_below(d, g->w - m->w0 + 1);
    }
}

/* A batch for both; 0: out of memory. */
static int case_make_batch(struct net_test *t, struct random_draw *d, struct gyre_batch *batch,
                           struct truth_batch *exact)
{
    const size_t count = (size_t)t->c->count, sample = (size_t)t->graph.h * (size_t)t->graph.w * (size_t)t->graph.c;
    const size_t classes = (size_t)t->graph.classes;
    struct gy_arena *a = &t->arena;
    const struct case_samples s = {
        gy_arena_take(a, count * sample, sizeof(float)),  gy_arena_take(a, count * sample, 1),
        gy_arena_take(a, count * sample, sizeof(double)), gy_arena_take(a, count * classes, sizeof(double)),
        gy_arena_take(a, count, sizeof(int32_t)),         gy_arena_take(a, count * classes, sizeof(float)),
        gy_arena_take(a, count, sizeof(struct gy_mix))
    };
    const int mse = t->graph.nodes[t->graph.loss].layer == GY_LAYER_MSE, mix = t->c->moved || t->c->mixed;
    if (!s.x || !s.bytes || !s.exact || !s.exact_target || !s.label || !s.target || !s.mix)
        return 0;
    case_fill_samples(t, d, &s);
    *batch = (struct gyre_batch){ .x = t->u8 ? (const void *)s.bytes : (const void *)s.x,
                                  .label = s.label,
                                  .target = mse && t->c->targets ? s.target : NULL,
                                  .mix = mix ? (const void *)s.mix : NULL,
                                  .count = t->c->count };
    if (batch->target && !t->c->unlabelled)
        batch->label = NULL; /* a target is enough */
    *exact = (struct truth_batch){ .count = t->c->count,
                                   .x = s.exact,
                                   .label = batch->label,
                                   .target = batch->target ? s.exact_target : NULL,
                                   .mix = mix ? s.mix : NULL,
                                   .seed = t->c->seed };
    return 1;
}

static void case_add_part(struct net_test *t, int64_t count, int kind, int node, const char *prefix, const char *name)
{
    struct net_part *p = &t->part[t->part_count++];
    snprintf(p->name, sizeof p->name, "%s%s", prefix, name);
    p->first = t->count;
    p->count = count;
    p->kind = kind;
    p->node = node;
    t->count += count;
}

static int case_parts(struct net_test *t)
{
    const int64_t count = t->c->count, scores = count * t->graph.classes;
    t->part = gy_arena_take(&t->arena, 2 * (size_t)t->graph.param_count + 5, sizeof *t->part);
    if (!t->part)
        return 0;
    case_add_part(t, scores, NET_OUTPUT, t->graph.loss, "", "scores in evaluation");
    case_add_part(t, count, NET_OUTPUT, t->graph.loss, "", "losses in evaluation");
    case_add_part(t, scores, NET_OUTPUT, t->graph.loss, "", "scores");
    case_add_part(t, count, NET_OUTPUT, t->graph.loss, "", "losses");
    case_add_part(t, 1, NET_OUTPUT, t->graph.loss, "", "mean loss");
    for (int i = 0; i < t->graph.param_count; i++) {
        const int state = gy_param_is_state(t->graph.params[i].kind);
        case_add_part(t, t->graph.params[i].count, state ? NET_RUNNING : NET_GRADIENT, t->graph.params[i].node,
                      state ? "" : "grad.", t->graph.params[i].name);
    }
    for (int i = 0; i < t->graph.param_count; i++)
        case_add_part(t, t->graph.params[i].count, NET_UPDATED, t->graph.params[i].node, "updated ",
                      t->graph.params[i].name);
    return 1;
}

int net_test_open(struct net_test *t, const struct net_case *c, int draw, char *why)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct random_draw d = { c->seed + 1000003u * (uint64_t)draw };
    struct gy_error err;
    struct truth_batch unused;
    *t = (struct net_test){ .c = c, .draw = draw };
    gy_arena_open_hook(&t->arena, &alloc);
    if (gy_graph_parse(&t->graph, &t->arena, c->net.text, strlen(c->net.text), "net", &err) != GY_OK) {
        snprintf(why, NET_WHY, "%s", err.text);
        return -1;
    }
    case_normalise(t);
    int ok = case_parts(t) && (t->param = gy_arena_take(&t->arena, (size_t)t->graph.param_count, sizeof *t->param));
    for (int i = 0; i < t->graph.param_count && ok; i++) {
        ok = (t->param[i] = gy_arena_take(&t->arena, (size_t)t->graph.params[i].count, sizeof(float))) != NULL;
        if (ok)
            case_fill_param(&t->graph.params[i], &d, t->param[i]);
    }
    ok = ok && case_make_batch(t, &d, &t->batch, &t->exact) && case_make_batch(t, &d, &t->other, &unused) &&
         net_test_truths(t);
    if (!ok)
        snprintf(why, NET_WHY, "out of memory");
    return ok ? 0 : -1;
}

void net_test_close(struct net_test *t) { gy_arena_close(&t->arena); }
