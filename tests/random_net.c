/* SPDX-License-Identifier: MIT */
/* random_net.c: draws nets. A net grows by motifs: a layer, or a few that belong together. Each
 * begins at a value and returns the one that goes on. Values left over are brought together before
 * the loss. Sizes are bounded by a budget, which the batch divides. */
#include "tests/random_net.h"
#include "kernels/op_table.h"

#define RNET_VALUES 120

struct rnet_value {
    int h, w, c, flat, used;
};

struct rnet {
    struct random_draw d;
    char *text;
    size_t bytes;
    struct rnet_value value[RNET_VALUES];
    int count, most;            /* of values, while the net grows at most */
    int batch, params;
    int64_t products, cells;    /* that are left, of one sample */
};

uint64_t random_word(struct random_draw *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int random_below(struct random_draw *d, int n) { return (int)(random_word(d) % (uint64_t)n); }
int random_percent(struct random_draw *d, int percent) { return random_below(d, 100) < percent; }
double random_real(struct random_draw *d, double lo, double hi)
{
    return lo + (hi - lo) * (double)(random_word(d) >> 11) / 9007199254740992.0;
}

/* ---- lines ---- */

static void rnet_print(struct rnet *g, const char *fmt, ...) GY_PRINTF(2, 3);
static void rnet_print(struct rnet *g, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int bytes = vsnprintf(g->text + g->bytes, RANDOM_TEXT - g->bytes, fmt, args);
    va_end(args);
    g->bytes += bytes > 0 && (size_t)bytes < RANDOM_TEXT - g->bytes ? (size_t)bytes : 0;
}

/* Is there room for a value of this shape, with so many products? */
static int rnet_fits(const struct rnet *g, int64_t h, int64_t w, int64_t c, int64_t products)
{
    return g->count < g->most && g->bytes + 200 < RANDOM_TEXT && h > 0 && w > 0 && h * w * c <= g->cells &&
           products <= g->products;
}

/* A line whose layer reads value v and makes the given shape; returns the new value. */
static int rnet_line(struct rnet *g, int v, int h, int w, int c, int flat, const char *layer)
{
    rnet_print(g, "n%d: %s", g->count, layer);
    if (v != g->count - 1)
        rnet_print(g, " from n%d", v);
    rnet_print(g, "\n");
    g->value[v].used = 1;
    g->value[g->count] = (struct rnet_value){ h, w, c, flat, 0 };
    g->cells -= (int64_t)h * w * c;
    return g->count++;
}

/* A layer that keeps the shape; -1: no room. */
static int rnet_same(struct rnet *g, int v, const char *layer)
{
    const struct rnet_value *in = &g->value[v];
    return rnet_fits(g, in->h, in->w, in->c, 0) ? rnet_line(g, v, in->h, in->w, in->c, in->flat, layer) : -1;
}

/* ---- layers ---- */

static int rnet_channels(struct rnet *g)
{
    static const int few[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12 }, many[] = { 8, 15, 16, 17, 24, 31, 32, 33, 48, 64 };
    return random_percent(&g->d, 70) ? few[random_below(&g->d, GY_COUNT(few))]
                                     : many[random_below(&g->d, GY_COUNT(many))];
}

/* The window of a convolution, or of a pool. */
static struct gy_geom rnet_window(int r, int s, int stride, int pad)
{
    return (struct gy_geom){ .r = r, .s = s, .stride_h = stride, .stride_w = stride, .pad_h = pad, .pad_w = pad,
                             .dil_h = 1, .dil_w = 1, .groups = 1 };
}

/* a: window, stride, padding, dilation, groups; the rest is filled. */
static int rnet_conv(struct rnet *g, int v, int k, struct gy_geom a)
{
    const struct rnet_value *in = &g->value[v];
    const int room_h = in->h + 2 * a.pad_h - a.dil_h * (a.r - 1) - 1,
              room_w = in->w + 2 * a.pad_w - a.dil_w * (a.s - 1) - 1;
    struct gy_node node = { .layer = GY_LAYER_CONV, .bias = random_percent(&g->d, 30) ? 0 : -1 };
    char layer[200];
    a.k = k;
    a.p = room_h < 0 ? 0 : room_h / a.stride_h + 1;
    a.q = room_w < 0 ? 0 : room_w / a.stride_w + 1;
    const int64_t products = (int64_t)a.p * a.q * k * a.r * a.s * in->c / a.groups;
    if (in->flat || in->c % a.groups || k % a.groups || !rnet_fits(g, a.p, a.q, k, products))
        return -1;
    g->products -= products;
    g->params++;
    node.geom = a;
    random_net_words(&node, layer, sizeof layer);
    return rnet_line(g, v, a.p, a.q, k, 0, layer);
}

/* Keeps height and width. */
static int rnet_conv_plain(struct rnet *g, int v, int k)
{
    const int r = random_percent(&g->d, 50) ? 3 : 1;
    return rnet_conv(g, v, k, rnet_window(r, r, 1, r / 2));
}

static int rnet_conv_wild(struct rnet *g, int v)
{
    const struct rnet_value *in = &g->value[v];
    struct random_draw *d = &g->d;
    struct gy_geom a = rnet_window(1 + random_below(d, 4), 1 + random_below(d, 4), 1, 0);
    int k = rnet_channels(g);
    if (random_percent(d, 10))
        a.r = a.s = 5 + 2 * random_below(d, 2);
    if (random_percent(d, 35))
        a.stride_h = 1 + random_below(d, 3), a.stride_w = random_percent(d, 70) ? a.stride_h : 1 + random_below(d, 3);
    if (random_percent(d, 15))
        a.dil_h = 1 + random_below(d, 3), a.dil_w = 1 + random_below(d, 3);
    a.pad_h = random_percent(d, 60) ? a.dil_h * (a.r - 1) / 2 : random_below(d, 3);
    a.pad_w = random_percent(d, 60) ? a.dil_w * (a.s - 1) / 2 : random_below(d, 3);
    if (random_percent(d, 25)) {
        /* depthwise, with one to three filters a channel; or two groups */
        a.groups = random_percent(d, 60) ? in->c : 2;
        k = a.groups * (1 + random_below(d, 3));
    }
    return rnet_conv(g, v, k, a);
}

static int rnet_linear(struct rnet *g, int v, int k)
{
    const struct rnet_value *in = &g->value[v];
    const int64_t products = (int64_t)in->h * in->w * in->c * k;
    char layer[64];
    if (!rnet_fits(g, 1, 1, k, products))
        return -1;
    g->products -= products;
    g->params++;
    snprintf(layer, sizeof layer, "linear %d%s", k, random_percent(&g->d, 30) ? " nobias" : "");
    return rnet_line(g, v, 1, 1, k, 0, layer);
}

static int rnet_bn(struct rnet *g, int v)
{
    const struct rnet_value *in = &g->value[v];
    if (in->flat || (int64_t)g->batch * in->h * in->w < RANDOM_NORM_LEAST)
        return -1;
    const int n = rnet_same(g, v, random_percent(&g->d, 80) ? "bn" : "bn eps 1e-3 momentum 0.4");
    g->params += n >= 0;
    return n;
}

/* Every activation that ops know; relu three times as often as each other one. */
static int rnet_act(struct rnet *g, int v)
{
    const int drawn = random_below(&g->d, GY_ACTS + 1);
    if (drawn - 1 == GY_ACT_LEAKY && random_percent(&g->d, 70))
        return rnet_same(g, v, random_percent(&g->d, 50) ? "leaky slope 0.25" : "leaky slope 0.7");
    return rnet_same(g, v, gy_act_row(drawn < GY_ACT_RELU + 2 ? GY_ACT_RELU : drawn - 1)->name);
}

static int rnet_pool(struct rnet *g, int v)
{
    const struct rnet_value *in = &g->value[v];
    struct random_draw *d = &g->d;
    const int most = random_percent(d, 60), r = 1 + random_below(d, 3), s = 1 + random_below(d, 3);
    const int stride_h = 1 + random_below(d, 3), stride_w = 1 + random_below(d, 3), up = random_percent(d, 20);
    const int pad_h = random_below(d, r / 2 + 1), pad_w = random_below(d, s / 2 + 1),
              inside = !most && (up || random_percent(d, 50));
    const int room_h = in->h + 2 * pad_h - r, room_w = in->w + 2 * pad_w - s;
    int p = (room_h + (up ? stride_h - 1 : 0)) / stride_h + 1, q = (room_w + (up ? stride_w - 1 : 0)) / stride_w + 1;
    char layer[160];
    p -= up && (p - 1) * stride_h >= in->h + pad_h;
    q -= up && (q - 1) * stride_w >= in->w + pad_w;
    if (in->flat || room_h < 0 || room_w < 0 || !rnet_fits(g, p, q, in->c, 0))
        return -1;
    snprintf(layer, sizeof layer, "%s %dx%d stride %dx%d pad %dx%d%s%s", most ? "maxpool" : "avgpool", r, s, stride_h,
             stride_w, pad_h, pad_w, inside ? " exclude-pad" : "", up ? " ceil" : "");
    return rnet_line(g, v, p, q, in->c, 0, layer);
}

static int rnet_lrn(struct rnet *g, int v)
{
    char layer[80];
    snprintf(layer, sizeof layer, "lrn %d alpha %g beta %g k %g", 1 + 2 * random_below(&g->d, 4),
             random_percent(&g->d, 50) ? 0.5 : 1e-4, random_percent(&g->d, 50) ? 0.75 : 0.5,
             random_percent(&g->d, 50) ? 1.0 : 2.0);
    return g->value[v].flat ? -1 : rnet_same(g, v, layer);
}

static int rnet_dropout(struct rnet *g, int v)
{
    static const char *const rates[] = { "dropout 0.1", "dropout 0.5", "dropout 0", "dropout 0.3" };
    return rnet_same(g, v, rates[random_below(&g->d, GY_COUNT(rates))]);
}

static int rnet_gap(struct rnet *g, int v)
{
    const struct rnet_value *in = &g->value[v];
    return in->flat || !rnet_fits(g, 1, 1, in->c, 0) ? -1 : rnet_line(g, v, 1, 1, in->c, 0, "gap");
}

static int rnet_flatten(struct rnet *g, int v)
{
    const struct rnet_value in = g->value[v];
    const int flat = in.flat || in.h > 1 || in.w > 1;
    return rnet_fits(g, 1, 1, in.h * in.w * in.c, 0) ? rnet_line(g, v, 1, 1, in.h * in.w * in.c, flat, "flatten") : -1;
}

/* Adds values, or puts them side by side; -1 where that is not legal. */
static int rnet_join(struct rnet *g, const char *word, const int *values, int count)
{
    const struct rnet_value *in = &g->value[values[0]];
    const int adds = strcmp(word, "add") == 0;
    char layer[200];
    int channels = 0, bytes = snprintf(layer, sizeof layer, "%s", word);
    for (int i = 0; i < count; i++) {
        const struct rnet_value *x = &g->value[values[i]];
        channels += x->c;
        for (int k = 0; k < i; k++)
            if (values[k] == values[i])
                return -1;
        if (x->h != in->h || x->w != in->w || (adds ? x->c != in->c || x->flat || in->flat : x->flat))
            return -1;
        if (i > 0)
            bytes += snprintf(layer + bytes, sizeof layer - (size_t)bytes, " n%d", values[i]);
    }
    if (!rnet_fits(g, in->h, in->w, adds ? in->c : channels, 0))
        return -1;
    for (int i = 1; i < count; i++)
        g->value[values[i]].used = 1;
    return rnet_line(g, values[0], in->h, in->w, adds ? in->c : channels, 0, layer);
}

/* ---- motifs: from value v on; the value that goes on, which is v where nothing could be done
 * ---- */

/* v, or what `next` is when there was room for it. */
static int rnet_or(int next, int v) { return next < 0 ? v : next; }

static int rnet_then(struct rnet *g, int v, int percent, int (*layer)(struct rnet *, int))
{
    return random_percent(&g->d, percent) ? rnet_or(layer(g, v), v) : v;
}

static int rnet_conv_any(struct rnet *g, int v)
{
    return random_percent(&g->d, 50) ? rnet_conv_wild(g, v) : rnet_conv_plain(g, v, rnet_channels(g));
}

static int rnet_conv_bn_act(struct rnet *g, int v)
{
    const int c = rnet_or(rnet_conv_any(g, v), v);
    return rnet_then(g, rnet_then(g, c, 85, rnet_bn), 70, rnet_act);
}

/* relu and relu6 alone: the activations that fusion moves behind a pool. */
static int rnet_conv_act_pool(struct rnet *g, int v)
{
    const int c = rnet_then(g, rnet_or(rnet_conv_any(g, v), v), 15, rnet_bn);
    const int a = rnet_or(rnet_same(g, c, random_percent(&g->d, 70) ? "relu" : "relu6"), c);
    return rnet_or(rnet_pool(g, a), a);
}

/* A branch that keeps v's height and width and has `channels`. */
static int rnet_branch(struct rnet *g, int v, int channels)
{
    int c = v;
    if (random_percent(&g->d, 40))
        c = rnet_conv_bn_act(g, v);
    if (g->value[c].h != g->value[v].h || g->value[c].w != g->value[v].w)
        c = v;
    c = rnet_or(rnet_conv_plain(g, c, channels), c);
    return rnet_then(g, rnet_then(g, c, 80, rnet_bn), 20, random_percent(&g->d, 50) ? rnet_act : rnet_bn);
}

static int rnet_residual(struct rnet *g, int v)
{
    const int b = rnet_branch(g, v, g->value[v].c), first = random_percent(&g->d, 80);
    const int sum = rnet_join(g, "add", (const int[]){ first ? b : v, first ? v : b }, 2);
    return rnet_then(g, rnet_or(sum, b), 70, rnet_act);
}

/* Two or three norms, or what else a branch ends in, added: the downsampling blocks of residual
 * nets and stranger ones. The second may begin where the first one's norm reads. */
static int rnet_twins(struct rnet *g, int v)
{
    const int k = rnet_channels(g), near = random_percent(&g->d, 40);
    const int base = near ? rnet_or(rnet_conv_plain(g, v, k), v) : v;
    const int a = near ? rnet_or(rnet_bn(g, base), base) : rnet_branch(g, v, k), b = rnet_branch(g, base, k);
    const int c = random_percent(&g->d, 25) ? rnet_branch(g, v, k) : b;
    const int sum = rnet_join(g, "add", (const int[]){ c, a, b }, c == b ? 2 : 3);
    return rnet_then(g, rnet_or(sum, b), 60, rnet_act);
}

/* Two convolutions, their norms, then the sum. One operand of the sum is made between the other's
 * convolution and its norm. */
static int rnet_crossed(struct rnet *g, int v)
{
    const int k = rnet_channels(g), a = rnet_or(rnet_conv_plain(g, v, k), v), b = rnet_or(rnet_conv_plain(g, v, k), v);
    const int swap = random_percent(&g->d, 30), norm = rnet_or(rnet_bn(g, swap ? b : a), swap ? b : a);
    const int other = rnet_then(g, swap ? a : b, 50, rnet_bn), first = random_percent(&g->d, 70);
    const int sum = rnet_join(g, "add", (const int[]){ first ? norm : other, first ? other : norm }, 2);
    return rnet_then(g, rnet_or(sum, norm), 60, rnet_act);
}

/* A chain of residual blocks, as recomputation looks for. */
static int rnet_chain(struct rnet *g, int v)
{
    int at = rnet_then(g, rnet_then(g, rnet_or(rnet_conv_plain(g, v, rnet_channels(g)), v), 80, rnet_bn), 80, rnet_act);
    if (random_percent(&g->d, 30))
        at = rnet_twins(g, at);
    for (int i = 1 + random_below(&g->d, 4); i > 0; i--) {
        const int b = rnet_or(rnet_bn(g, rnet_or(rnet_conv_plain(g, at, g->value[at].c), at)), at);
        at = rnet_then(g, rnet_or(rnet_join(g, "add", (const int[]){ b, at }, 2), b), 85, rnet_act);
    }
    return at;
}

static int rnet_concat(struct rnet *g, int v)
{
    int in[4] = { v, v, v, v };
    const int count = 2 + random_below(&g->d, 2);
    for (int i = random_percent(&g->d, 30); i < count; i++)
        in[i] = rnet_branch(g, v, rnet_channels(g));
    return rnet_or(rnet_join(g, "concat", in, count), in[count - 1]);
}

static int rnet_shortcut(struct rnet *g, int v)
{
    const struct rnet_value in = g->value[v];
    const int stride = 1 + random_below(&g->d, 3), k = in.c + 2 * random_below(&g->d, 4), p = (in.h - 1) / stride + 1,
              q = (in.w - 1) / stride + 1;
    char layer[64];
    snprintf(layer, sizeof layer, "shortcut %d stride %d", k, stride);
    if (in.flat || !rnet_fits(g, p, q, k, 0))
        return v;
    const int cut = rnet_line(g, v, p, q, k, 0, layer);
    if (random_percent(&g->d, 30))
        return cut;
    const int c = rnet_conv(g, v, k, rnet_window(3, 3, stride, 1));
    const int b = c < 0 ? cut : rnet_then(g, c, 80, rnet_bn);
    return rnet_then(g, rnet_or(rnet_join(g, "add", (const int[]){ b, cut }, 2), b), 60, rnet_act);
}

/* Several linear layers, or convolutions, that read one value: often a norm. */
static int rnet_fan(struct rnet *g, int v)
{
    const int from = rnet_then(g, v, 70, rnet_bn), k = 1 + random_below(&g->d, 9), flat = random_percent(&g->d, 70);
    int in[4];
    const int count = 2 + random_below(&g->d, 2);
    for (int i = 0; i < count; i++) {
        const int x = flat ? rnet_linear(g, from, k) : rnet_conv_plain(g, from, k);
        if (x < 0)
            return from;
        in[i] = rnet_then(g, x, 40, rnet_bn);
    }
    return rnet_then(g, rnet_or(rnet_join(g, random_percent(&g->d, 60) ? "add" : "concat", in, count), in[count - 1]),
                     40, rnet_act);
}

static int rnet_linear_in_between(struct rnet *g, int v)
{
    const int n = rnet_then(g, rnet_then(g, v, 30, rnet_bn), 20, rnet_flatten), norm = random_percent(&g->d, 40);
    const int x = rnet_or(rnet_linear(g, n, rnet_channels(g)), n);
    return rnet_then(g, norm ? rnet_or(rnet_bn(g, x), x) : x, 70, rnet_act);
}

static int rnet_norms(struct rnet *g, int v)
{
    return rnet_then(g, rnet_or(rnet_bn(g, rnet_or(rnet_bn(g, v), v)), v), 50, rnet_act);
}

/* A value that nobody reads yet: it comes back at the end, or by chance. */
static int rnet_open_branch(struct rnet *g, int v)
{
    rnet_conv_bn_act(g, v);
    return v;
}

/* An older value is added where the shapes agree. */
static int rnet_add_older(struct rnet *g, int v)
{
    for (int i = 0; i < 8; i++) {
        const int old = random_below(&g->d, g->count), sum = rnet_join(g, "add", (const int[]){ v, old }, 2);
        if (sum >= 0)
            return rnet_then(g, sum, 40, rnet_act);
    }
    return v;
}

/* The same few layers several times: names inside, the value that entered, prefixes. */
static int rnet_repeat(struct rnet *g, int v)
{
    const struct rnet_value in = g->value[v];
    const int times = 1 + random_below(&g->d, 3), norm = (int64_t)g->batch * in.h * in.w >= RANDOM_NORM_LEAST;
    const int64_t each = (int64_t)in.h * in.w * in.c, products = each * in.c * 10 * times;
    if (in.flat || v != g->count - 1 || !rnet_fits(g, in.h, in.w, (int64_t)in.c * (times * 6 + 1), products))
        return v;
    rnet_print(g, "repeat r%d 0..%d {\n  a: conv %d 3x3\n%s  relu\n  conv %d 1x1\n  add in%s\n  tanh\n}\n", v,
               times - 1, in.c, norm ? "  bn\n" : "", in.c, random_percent(&g->d, 40) ? " a" : "");
    g->products -= products;
    g->cells -= each * times * 6;
    g->params++;
    return rnet_line(g, v, in.h, in.w, in.c, 0, "dropout 0"); /* the value of the line before */
}

static const struct {
    int weight;
    int (*grow)(struct rnet *, int);
} rnet_motifs[] = {
    { 14, rnet_conv_bn_act }, { 14, rnet_conv_act_pool }, { 12, rnet_residual },        { 14, rnet_twins },
    { 8, rnet_crossed },      { 20, rnet_chain },         { 7, rnet_concat },           { 6, rnet_shortcut },
    { 9, rnet_fan },          { 5, rnet_norms },          { 8, rnet_linear_in_between }, { 4, rnet_open_branch },
    { 3, rnet_add_older },    { 3, rnet_repeat },         { 3, rnet_act },              { 3, rnet_pool },
    { 4, rnet_lrn },          { 7, rnet_dropout },        { 3, rnet_bn },               { 2, rnet_gap },
    { 4, rnet_flatten },
};

static int rnet_grow(struct rnet *g, int v)
{
    int sum = 0;
    for (size_t i = 0; i < GY_COUNT(rnet_motifs); i++)
        sum += rnet_motifs[i].weight;
    int at = random_below(&g->d, sum);
    size_t i = 0;
    while (at >= rnet_motifs[i].weight)
        at -= rnet_motifs[i++].weight;
    return rnet_or(rnet_motifs[i].grow(g, v), v);
}

/* ---- the whole ---- */

static void rnet_begin(struct rnet *g)
{
    static const int batches[] = { 1,  2,  3,  4,  5,  6,   7,   8,   9,   12,  16,  17,
                                   24, 31, 33, 48, 64, 100, 128, 200, 256, 500, 768, 1024 };
    struct random_draw *d = &g->d;
    const int large = random_percent(d, 15);
    g->batch = batches[random_percent(d, 75) ? random_below(d, 14) : random_below(d, GY_COUNT(batches))];
    g->products = (large ? 2000000 : 400000) / g->batch;
    g->cells = (large ? 300000 : 100000) / g->batch;
    int h = 1 + random_below(d, random_percent(d, 70) ? 9 : 28),
        w = random_percent(d, 60) ? h : 1 + random_below(d, 12), c = 1 + random_below(d, 4);
    while ((int64_t)h * w * c * 12 > g->cells && h * w > 1) {
        h = (h + 1) / 2;
        w = (w + 1) / 2;
    }
    rnet_print(g, "n0: input %dx%dx%d\n", h, w, c);
    g->value[0] = (struct rnet_value){ h, w, c, 0, 0 };
    g->count = 1;
    g->most = RNET_VALUES / 3; /* as many again may be needed to bring together what is left over */
}

/* Every value must be used: those that are left over become as many numbers as the current one has,
 * or stand beside it. */
static int rnet_gather(struct rnet *g, int v)
{
    for (int i = 0, count = g->count; i < count; i++) {
        if (g->value[i].used || i == v)
            continue;
        const int other = rnet_linear(g, i, g->value[v].c);
        v = rnet_or(rnet_join(g, random_percent(&g->d, 60) ? "add" : "concat", (const int[]){ v, other }, 2), v);
    }
    return v;
}

static void rnet_end(struct rnet *g, int v)
{
    static const char *const losses[] = { "softmax", "softmax", "softmax smooth 0.1", "mse" };
    const struct rnet_value *at = &g->value[v];
    g->products += INT64_MAX / 2; /* the end may cost what it does: it is small */
    g->cells += INT64_MAX / 2;
    g->most = RNET_VALUES;
    if (!at->flat && (at->h > 1 || at->w > 1) && random_percent(&g->d, 40))
        v = rnet_gap(g, v);
    else if (at->h * at->w * at->c > 2000)
        v = rnet_gap(g, at->flat ? rnet_linear(g, v, 4) : v);
    const int several =
        g->value[v].c > 1 && g->value[v].c < 13 && g->value[v].h == 1 && g->value[v].w == 1 && !g->value[v].flat;
    v = several && random_percent(&g->d, 30) && g->params ? v : rnet_linear(g, v, 2 + random_below(&g->d, 9));
    v = rnet_gather(g, v);
    rnet_print(g, "%s", losses[random_below(&g->d, GY_COUNT(losses))]);
    if (v != g->count - 1)
        rnet_print(g, " from n%d", v);
    rnet_print(g, "\n");
}

void random_net_make(struct random_net *net, uint64_t seed)
{
    struct rnet g = { .d = { seed }, .text = net->text };
    int v = 0;
    rnet_begin(&g);
    net->batch = g.batch;
    for (int i = 1 + random_below(&g.d, 8); i > 0; i--)
        v = rnet_grow(&g, v);
    rnet_end(&g, v);
}
