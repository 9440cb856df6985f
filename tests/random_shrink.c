/* SPDX-License-Identifier: MIT */
/* random_shrink.c: makes a net that fails smaller. It writes the net's graph as text again, each
 * time with one thing changed. A text that is legal and still fails is the net from then on. */
#include "engine/plan/emit.h"
#include "tests/random_net.h"
#include "tests/words.h"

#define SHRINK_NODES 400

struct shrink {
    struct gy_node node[SHRINK_NODES];
    int count, batch;
    struct random_net *net;
    int (*fails)(void *user, const struct random_net *net);
    void *user;
    int calls, tries;
};

/* ---- text ---- */

static void shrink_pair(struct words *w, const char *word, int a, int b, int usual_a, int usual_b)
{
    if (a == b && (a != usual_a || b != usual_b))
        words_put(w, " %s %d", word, a);
    else if (a != usual_a || b != usual_b)
        words_put(w, " %s %dx%d", word, a, b);
}

/* Output pixels of a pool along a side without ceil. */
static int shrink_floor(int side, int window, int stride, int pad) { return (side + 2 * pad - window) / stride + 1; }

static void shrink_window(struct words *w, const struct gy_node *node)
{
    const struct gy_geom *g = &node->geom;
    if (node->layer == GY_LAYER_CONV) {
        words_put(w, " %d %dx%d", g->k, g->r, g->s);
        shrink_pair(w, "stride", g->stride_h, g->stride_w, 1, 1);
        shrink_pair(w, "pad", g->pad_h, g->pad_w, g->dil_h * (g->r - 1) / 2, g->dil_w * (g->s - 1) / 2);
        shrink_pair(w, "dilation", g->dil_h, g->dil_w, 1, 1);
        shrink_pair(w, "groups", g->groups, g->groups, 1, 1);
        words_put(w, "%s", node->bias >= 0 ? " bias" : "");
        return;
    }
    const int up = g->p != shrink_floor(g->h, g->r, g->stride_h, g->pad_h) ||
                   g->q != shrink_floor(g->w, g->s, g->stride_w, g->pad_w);
    words_put(w, " %dx%d", g->r, g->s);
    shrink_pair(w, "stride", g->stride_h, g->stride_w, g->r, g->s);
    shrink_pair(w, "pad", g->pad_h, g->pad_w, 0, 0);
    words_put(w, "%s%s", node->layer == GY_LAYER_AVGPOOL && node->f[0] > 0 ? " exclude-pad" : "", up ? " ceil" : "");
}

void random_net_words(const struct gy_node *node, char *words, size_t room)
{
    struct words w = { words, room };
    const struct gy_geom *g = &node->geom;
    const double a = (double)node->f[0], b = (double)node->f[1], c = (double)node->f[2];
    words_put(&w, "%s", gy_layer_name(node->layer));
    switch (node->layer) {
    case GY_LAYER_INPUT: words_put(&w, " %dx%dx%d", g->p, g->q, g->k); break;
    case GY_LAYER_CONV: case GY_LAYER_MAXPOOL: case GY_LAYER_AVGPOOL: shrink_window(&w, node); break;
    case GY_LAYER_LINEAR: words_put(&w, " %d%s%s", g->k, node->bias >= 0 ? "" : " nobias", node->split ? " split" : ""); break;
    case GY_LAYER_BN:
        if (node->f[0] != 1e-5f || node->f[1] != 0.1f)
            words_put(&w, " eps %.9g momentum %.9g", a, b);
        break;
    case GY_LAYER_LRN: words_put(&w, " %d alpha %.9g beta %.9g k %.9g", g->r, b, c, a); break;
    case GY_LAYER_DROPOUT: words_put(&w, " %.9g", a); break;
    case GY_LAYER_LEAKY: words_put(&w, " slope %.9g", a); break;
    case GY_LAYER_SHORTCUT:
        words_put(&w, " %d", g->k);
        shrink_pair(&w, "stride", g->stride_h, g->stride_w, 1, 1);
        break;
    case GY_LAYER_SOFTMAX:
        if (a > 0)
            words_put(&w, " smooth %.9g", a);
        break;
    default: break;
    }
}

/* A node is named when another than the next one reads it. */
static int shrink_is_named(const struct shrink *s, int i)
{
    for (int k = i + 1; k < s->count; k++)
        for (int in = 0; in < s->node[k].input_count; in++)
            if (s->node[k].input[in] == i && (k != i + 1 || in > 0))
                return 1;
    return 0;
}

static void shrink_text(const struct shrink *s, struct random_net *net)
{
    struct words w = { net->text, sizeof net->text };
    net->batch = s->batch;
    for (int i = 0; i < s->count; i++) {
        const struct gy_node *node = &s->node[i];
        char words[200];
        random_net_words(node, words, sizeof words);
        if (shrink_is_named(s, i))
            words_put(&w, "v%d: ", i);
        words_put(&w, "%s", words);
        for (int k = 1; k < node->input_count; k++)
            words_put(&w, " v%d", node->input[k]);
        if (node->input_count && node->input[0] != i - 1)
            words_put(&w, " from v%d", node->input[0]);
        words_put(&w, "\n");
    }
}

/* Its norms have enough to say. */
static int shrink_is_sound(const struct gy_graph *graph, int batch)
{
    int sound = 1;
    for (int i = 0; i < graph->node_count; i++) {
        const struct gy_geom *g = &graph->nodes[i].geom;
        sound &= graph->nodes[i].layer != GY_LAYER_BN || (int64_t)batch * g->p * g->q >= RANDOM_NORM_LEAST;
    }
    return sound;
}

/* The text's nodes; 0: it is not legal, or too long. */
static int shrink_read(struct shrink *s, const struct random_net *net)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_arena arena;
    struct gy_graph graph;
    gy_arena_open_hook(&arena, &alloc);
    const int ok = gy_graph_parse(&graph, &arena, net->text, strlen(net->text), "net", NULL) == GY_OK &&
                   graph.node_count <= SHRINK_NODES && shrink_is_sound(&graph, net->batch);
    if (ok) {
        memcpy(s->node, graph.nodes, (size_t)graph.node_count * sizeof s->node[0]);
        s->count = graph.node_count;
        s->batch = net->batch;
    }
    gy_arena_close(&arena);
    return ok;
}

/* ---- changes ---- */

/* Nodes that nobody reads go. */
static void shrink_sweep(struct shrink *s)
{
    for (int i = s->count - 2; i > 0; i--) {
        int used = 0;
        for (int k = i + 1; k < s->count; k++)
            for (int in = 0; in < s->node[k].input_count; in++)
                used |= s->node[k].input[in] == i;
        if (used)
            continue;
        memmove(&s->node[i], &s->node[i + 1], (size_t)(s->count - i - 1) * sizeof s->node[0]);
        s->count--;
        for (int k = i; k < s->count; k++)
            for (int in = 0; in < s->node[k].input_count; in++)
                s->node[k].input[in] -= s->node[k].input[in] > i;
    }
}

/* Whoever reads node i reads its input k. */
static int shrink_drop(struct shrink *s, int i, int k)
{
    if (i == 0 || i + 1 >= s->count || k >= s->node[i].input_count)
        return 0;
    for (int j = i + 1; j < s->count; j++)
        for (int in = 0; in < s->node[j].input_count; in++)
            if (s->node[j].input[in] == i)
                s->node[j].input[in] = s->node[i].input[k];
    return 1;
}

/* An add or a concat reads all but its input k. */
static int shrink_narrow(struct shrink *s, int i, int k)
{
    struct gy_node *node = &s->node[i];
    if (node->input_count < 3 || k >= node->input_count)
        return 0;
    for (int in = k; in + 1 < node->input_count; in++)
        node->input[in] = node->input[in + 1];
    node->input_count--;
    return 1;
}

static int shrink_number(int32_t *number, int to)
{
    const int changed = to < *number && to >= -1;
    *number = changed ? to : *number;
    return changed;
}

/* Output channels of node i, or of all that have as many: one, half, one fewer. */
static int shrink_channels(struct shrink *s, int i, int how)
{
    const int32_t k = s->node[i].geom.k;
    const int to = how % 3 == 0 ? 1 : how % 3 == 1 ? k / 2 : k - 1, all = how >= 3;
    int changed = 0;
    for (int j = all ? 0 : i; j < (all ? s->count : i + 1); j++) {
        struct gy_node *node = &s->node[j];
        const int has = node->layer == GY_LAYER_CONV || node->layer == GY_LAYER_LINEAR ||
                        node->layer == GY_LAYER_SHORTCUT || node->layer == GY_LAYER_INPUT;
        if (has && node->geom.k == k && to > 0 && how < 6) {
            const int deep = node->geom.groups == k;
            changed |= shrink_number(&node->geom.k, to);
            node->geom.groups = deep ? to : node->geom.groups;
        }
    }
    return changed;
}

static int shrink_image(struct shrink *s, int i, int how)
{
    struct gy_geom *g = &s->node[i].geom;
    static const int divide[] = { 2, 2, 2, 1, 1, 1 }, less[] = { 0, 0, 0, 1, 1, 1 };
    int32_t *const side[] = { &g->p, &g->q, &g->p };
    if (s->node[i].layer != GY_LAYER_INPUT || how >= 6)
        return 0;
    const int both = how % 3 == 2, to = *side[how % 3] / divide[how] - less[how],
              other = g->q / divide[how] - less[how];
    const int changed = to > 0 && shrink_number(side[how % 3], to);
    return both && other > 0 ? shrink_number(&g->q, other) || changed : changed;
}

static int shrink_real(float *value, float to)
{
    const int changed = *value != to; /* both are what was written in a text */
    *value = to;
    return changed;
}

/* Plainer options of one layer. */
static int shrink_option(struct shrink *s, int i, int how)
{
    struct gy_node *node = &s->node[i];
    struct gy_geom *g = &node->geom;
    const int layer = node->layer, conv = layer == GY_LAYER_CONV, has_bias = conv || layer == GY_LAYER_LINEAR;
    const int window = conv || layer == GY_LAYER_MAXPOOL || layer == GY_LAYER_AVGPOOL,
              strides = window || layer == GY_LAYER_SHORTCUT;
    switch (how) {
    case 0: return strides && shrink_number(&g->stride_h, 1) + shrink_number(&g->stride_w, 1) > 0;
    case 1: return window && shrink_number(&g->pad_h, 0) + shrink_number(&g->pad_w, 0) > 0;
    case 2: return conv && shrink_number(&g->dil_h, 1) + shrink_number(&g->dil_w, 1) > 0;
    case 3: return conv && shrink_number(&g->groups, 1);
    case 4:
        g->pad_h = g->pad_w = window ? 0 : g->pad_h;
        return window && shrink_number(&g->r, 1) + shrink_number(&g->s, 1) > 0;
    case 5: return window && g->r > 1 && shrink_number(&g->r, g->r - 1);
    case 6: return window && g->s > 1 && shrink_number(&g->s, g->s - 1);
    case 7: return has_bias && shrink_number(&node->bias, -1);
    case 8: return layer == GY_LAYER_LRN && shrink_number(&g->r, 1);
    case 9: return (layer == GY_LAYER_DROPOUT || layer == GY_LAYER_SOFTMAX) && shrink_real(&node->f[0], 0);
    case 10: return layer == GY_LAYER_BN && shrink_real(&node->f[0], 1e-5f) + shrink_real(&node->f[1], 0.1f) > 0;
    case 11: return layer != GY_LAYER_RELU && gy_emit_act(layer) && shrink_number(&node->layer, GY_LAYER_RELU);
    case 12: return layer == GY_LAYER_MSE && shrink_number(&node->layer, GY_LAYER_SOFTMAX);
    default: return 0;
    }
}

static int shrink_batch(struct shrink *s, int i, int how)
{
    const int to = how == 0 ? 1 : how == 1 ? s->batch / 4 : how == 2 ? s->batch / 2 : how == 3 ? s->batch - 1 : 0;
    return i == 0 && to > 0 && shrink_number(&s->batch, to);
}

/* Takes the present change when the net is legal with it and still fails; else takes it back. */
static int shrink_try(struct shrink *s, const struct shrink *before)
{
    struct random_net net;
    struct shrink after;
    shrink_sweep(s);
    shrink_text(s, &net);
    const int taken = s->calls < s->tries && shrink_read(&after, &net) && (s->calls++, s->fails(s->user, &net));
    const int calls = s->calls;
    if (taken)
        *s->net = net;
    *s = *before;
    s->calls = calls;
    return taken && shrink_read(s, &net);
}

int random_net_shrink(struct random_net *net, int (*fails)(void *user, const struct random_net *net), void *user,
                      int tries)
{
    static int (*const change[])(struct shrink *, int, int) = { shrink_drop,  shrink_narrow,   shrink_batch,
                                                                shrink_image, shrink_channels, shrink_option };
    struct shrink s = { .net = net, .fails = fails, .user = user, .tries = tries }, before;
    if (!shrink_read(&s, net))
        return 0;
    for (int progress = 1; progress && s.calls < tries;) {
        progress = 0;
        for (size_t kind = 0; kind < GY_COUNT(change); kind++)
            for (int i = s.count - 1; i >= 0; i--)
                for (int how = 0; how < GY_NODE_INPUTS && i < s.count; how++) {
                    before = s;
                    if (change[kind](&s, i, how))
                        progress |= shrink_try(&s, &before);
                }
    }
    return s.calls;
}
