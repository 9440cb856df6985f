/* SPDX-License-Identifier: MIT */
/* t_net.c: net text, graph and zoo: known parameter counts and work of well-known nets, shapes of
 * every layer kind. Every sentence that a mistake in a text can bring is tested word by word, with
 * its line and column. Memory: each allocation fails once in turn. */
#include "engine/plan/emit.h"
#include "engine/text/graph.h"
#include "kernels/op_table.h"
#include "kernels/cpu/ref/ref.h"
#include "tests/t.h"

#define NET_LINES(...) "input 8x8x4\n" __VA_ARGS__

struct net_case {
    struct gy_arena arena;
    struct gy_graph graph;
    struct gy_error err;
    int status;
};

static void net_parse_bytes(struct net_case *n, const char *text, size_t bytes)
{
    const struct gy_alloc alloc = gy_alloc_default();
    memset(n, 0, sizeof *n);
    gy_arena_open_hook(&n->arena, &alloc);
    n->status = gy_graph_parse(&n->graph, &n->arena, text, bytes, "net", &n->err);
}

static void net_parse(struct net_case *n, const char *text)
{
    net_parse_bytes(n, text, strlen(text));
    T_CHECK_MSG(n->status == GY_OK, "%s", n->err.text);
}

static void net_zoo(struct net_case *n, const char *name, int32_t classes, int32_t side, int32_t channels)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_buf buf;
    gy_buf_open(&buf, &alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    struct gy_error err = { 0 };
    T_CHECK_MSG(gy_zoo_write(&sink, name, classes, side, side, channels, &err) == GY_OK, "%s", err.text);
    net_parse(n, buf.text ? buf.text : "");
    gy_buf_close(&buf);
}

static const struct gy_node *net_node(const struct net_case *n, const char *name)
{
    static const struct gy_node none = { .layer = -1 };
    for (int i = 0; i < n->graph.node_count; i++)
        if (strcmp(n->graph.nodes[i].name, name) == 0)
            return &n->graph.nodes[i];
    T_CHECK_MSG(0, "no node '%s'", name);
    return &none;
}

static const struct gy_param *net_param(const struct net_case *n, const char *name)
{
    static const struct gy_param none = { .kind = -1 };
    for (int i = 0; i < n->graph.param_count; i++)
        if (strcmp(n->graph.params[i].name, name) == 0)
            return &n->graph.params[i];
    T_CHECK_MSG(0, "no parameter '%s'", name);
    return &none;
}

static int64_t net_count(const struct net_case *n)
{
    int64_t count = 0;
    for (int i = 0; i < n->graph.param_count; i++)
        count += gy_param_is_state(n->graph.params[i].kind) ? 0 : n->graph.params[i].count;
    return count;
}

static int64_t net_products(const struct net_case *n)
{
    int64_t count = 0;
    for (int i = 0; i < n->graph.node_count; i++) {
        const struct gy_node *node = &n->graph.nodes[i];
        const struct gy_geom *g = &node->geom;
        if (node->layer == GY_LAYER_CONV || node->layer == GY_LAYER_LINEAR)
            count += (int64_t)g->p * g->q * g->k * g->r * g->s * (g->c / g->groups);
    }
    return count;
}

/* ---- the zoo ---- */

/* What torchvision and the papers publish: parameters, and multiplications in millions, rounded (0:
 * not published). */
static void test_zoo_counts(void)
{
    static const struct { const char *name; int64_t params; double millions; } known[] = {
        { "lenet5", 61706, 0 },          { "logistic", 7850, 0.00784 },      { "mlp", 235146, 0 },
        { "alexnet", 61100840, 714 },    { "alexnet-bn", 62387912, 0 },      { "resnet18", 11689512, 1814 },
        { "resnet34", 21797672, 3664 },  { "resnet50", 25557032, 4089 },     { "resnet101", 44549160, 7801 },
        { "resnet152", 60192808, 11514 }, { "resnet20", 269722, 40.6 },      { "resnet32", 464154, 68.9 },
        { "resnet44", 658586, 97.2 },    { "resnet56", 853018, 125.5 },      { "resnet110", 1727962, 252.9 },
        { "fashion", 166186, 10.6 },     { "preact-resnet20", 272282, 40.8 },
    };
    struct net_case n;
    for (size_t i = 0; i < GY_COUNT(known); i++) {
        net_zoo(&n, known[i].name, 0, 0, 0);
        const int64_t params = net_count(&n);
        const double millions = (double)net_products(&n) * 1e-6;
        T_CHECK_MSG(params == known[i].params, "%s: %" PRId64 " parameters", known[i].name, params);
        T_CHECK_MSG(known[i].millions <= 0 || fabs(millions / known[i].millions - 1) < 2e-3, "%s: %g million products",
                    known[i].name, millions);
        gy_arena_close(&n.arena);
    }
    size_t names = 0;
    while (gy_zoo_name((int)names))
        T_CHECK(gy_zoo_about((int)names++) != NULL);
    T_CHECK(names == GY_COUNT(known));
    T_CHECK(!gy_zoo_about((int)names) && !gy_zoo_name(-1));
}

struct shape_row {
    const char *node;
    int32_t p, q, k;
};

static void check_shapes(const struct net_case *n, const struct shape_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct gy_geom *g = &net_node(n, rows[i].node)->geom;
        T_CHECK_MSG(g->p == rows[i].p && g->q == rows[i].q && g->k == rows[i].k, "%s: %dx%dx%d", rows[i].node, g->p,
                    g->q, g->k);
    }
}

static void test_zoo_shapes(void)
{
    static const struct shape_row resnet50[] = {
        { "input", 224, 224, 3 },          { "conv1", 112, 112, 64 },          { "maxpool1", 56, 56, 64 },
        { "layer1.0.conv2", 56, 56, 64 },  { "layer1.2.bn3", 56, 56, 256 },    { "layer2.0.conv1", 56, 56, 128 },
        { "layer2.0.conv2", 28, 28, 128 }, { "layer2.0.downsample.0", 28, 28, 512 }, { "layer3.5.bn3", 14, 14, 1024 },
        { "layer4.2.relu3", 7, 7, 2048 },  { "gap1", 1, 1, 2048 },             { "fc", 1, 1, 1000 },
    };
    static const struct shape_row alexnet[] = {
        { "features.0", 55, 55, 64 },  { "features.3", 27, 27, 192 },   { "features.6", 13, 13, 384 },
        { "features.10", 13, 13, 256 }, { "maxpool3", 6, 6, 256 },      { "classifier.1", 1, 1, 4096 },
    };
    static const struct shape_row resnet20[] = {
        { "layer1.2.conv2", 32, 32, 16 },
        { "layer2.0.shortcut1", 16, 16, 32 },
        { "layer3.2.bn2", 8, 8, 64 },
        { "linear", 1, 1, 10 },
    };
    static const struct shape_row lenet5[] = {
        { "conv1", 28, 28, 6 },   { "maxpool1", 14, 14, 6 }, { "conv2", 10, 10, 16 },
        { "maxpool2", 5, 5, 16 }, { "fc1", 1, 1, 120 },
    };
    static const struct shape_row preact[] = {
        { "layer1.0.pre", 32, 32, 16 },
        { "layer2.0.pre", 32, 32, 16 },
        { "layer2.0.shortcut.conv", 16, 16, 32 },
        { "layer2.0.conv1", 16, 16, 32 },
        { "layer3.2.conv2", 8, 8, 64 },
        { "bn", 8, 8, 64 },
        { "linear", 1, 1, 10 },
    };
    static const struct { const char *name; const struct shape_row *rows; size_t count; } nets[] = {
        { "preact-resnet20", preact, GY_COUNT(preact) },
        { "resnet50", resnet50, GY_COUNT(resnet50) }, { "alexnet", alexnet, GY_COUNT(alexnet) },
        { "resnet20", resnet20, GY_COUNT(resnet20) }, { "lenet5", lenet5, GY_COUNT(lenet5) },
    };
    struct net_case n;
    for (size_t i = 0; i < GY_COUNT(nets); i++) {
        net_zoo(&n, nets[i].name, 0, 0, 0);
        check_shapes(&n, nets[i].rows, nets[i].count);
        gy_arena_close(&n.arena);
    }
}

/* What torchvision's state_dict holds beside num_batches_tracked. */
static void test_zoo_names(void)
{
    struct net_case n;
    net_zoo(&n, "resnet50", 0, 0, 0);
    T_CHECK(n.graph.param_count == 161 + 2 * 53);
    if (n.status != GY_OK)
        return;
    T_CHECK(strcmp(n.graph.params[0].name, "conv1.weight") == 0 &&
            strcmp(n.graph.params[4].name, "bn1.running_var") == 0);
    const struct gy_param *p = net_param(&n, "layer3.5.conv2.weight");
    T_CHECK(p->kind == GY_PARAM_CONV_WEIGHT && p->k == 256 && p->r == 3 && p->s == 3 && p->c == 256 &&
            p->count == 589824);
    p = net_param(&n, "layer4.0.downsample.1.running_mean");
    T_CHECK(p->kind == GY_PARAM_RUN_MEAN && p->k == 2048 && p->count == 2048);
    p = net_param(&n, "fc.bias");
    T_CHECK(p->kind == GY_PARAM_LINEAR_BIAS && p->k == 1000 && n.graph.nodes[p->node].bias == p - n.graph.params);
    gy_arena_close(&n.arena);
    net_zoo(&n, "alexnet", 0, 0, 0);
    p = net_param(&n, "classifier.1.weight");
    T_CHECK(n.graph.param_count == 16 && p->kind == GY_PARAM_LINEAR_WEIGHT && p->c == 9216 && p->flat_h == 6 &&
            p->flat_w == 6);
    T_CHECK(net_param(&n, "features.10.bias")->kind == GY_PARAM_CONV_BIAS);
    p = net_param(&n, "classifier.4.weight");
    T_CHECK(p->flat_h == 1 && p->flat_w == 1);
    gy_arena_close(&n.arena);
}

static void test_zoo_sizes(void)
{
    static const struct { const char *name; int32_t least; } nets[] = {
        { "lenet5", 12 },  { "fashion", 8 },   { "alexnet", 63 }, { "alexnet-bn", 63 },
        { "resnet18", 1 }, { "resnet152", 1 }, { "resnet20", 1 }, { "mlp", 1 },
    };
    struct net_case n;
    struct gy_sink nowhere = { 0 };
    struct gy_error err;
    for (size_t i = 0; i < GY_COUNT(nets); i++) {
        net_zoo(&n, nets[i].name, 7, nets[i].least, 2);
        T_CHECK(n.graph.classes == 7 && n.graph.c == 2 && n.graph.h == nets[i].least && n.graph.w == nets[i].least);
        gy_arena_close(&n.arena);
        T_CHECK(nets[i].least == 1 ||
                gy_zoo_write(&nowhere, nets[i].name, 0, nets[i].least - 1, 0, 0, &err) == GY_E_ARG);
    }
    net_zoo(&n, "resnet18", 10, 32, 3);
    T_CHECK(net_node(&n, "layer4.1.conv2")->geom.p == 1 && net_count(&n) == 11689512 - 990 * 513);
    gy_arena_close(&n.arena);
    T_CHECK(gy_zoo_write(&nowhere, "lenet5", 0, 11, 0, 0, &err) == GY_E_ARG);
    T_CHECK_MSG(strcmp(err.text, "lenet5 needs images of 12 to 16384 pixels a side, not 11 x 28") == 0, "%s", err.text);
    T_CHECK(gy_zoo_write(&nowhere, "resnet51", 0, 0, 0, 0, &err) == GY_E_ARG);
    T_CHECK_MSG(strcmp(err.text, "the zoo has no net 'resnet51'; did you mean 'resnet50'?") == 0, "%s", err.text);
    T_CHECK(gy_zoo_write(&nowhere, "vgg", 0, 0, 0, 0, &err) == GY_E_ARG);
    T_CHECK(strcmp(err.text, "the zoo has no net 'vgg'") == 0);
    T_CHECK(gy_zoo_write(&nowhere, "mlp", 1, 0, 0, 0, &err) == GY_E_ARG &&
            gy_zoo_write(&nowhere, "mlp", 0, 0, 0, -1, &err) == GY_E_ARG);
}

/* Names and shapes of a file that PyTorch wrote: "name":{...,"shape":[k,c,r,s],...} for every
 * parameter. */
static void test_zoo_file(void)
{
    static char head[1 << 16];
    char path[1024];
    const char *data = getenv("GYRE_TEST_DATA");
    snprintf(path, sizeof path, "%s/weights/resnet20-cifar.safetensors", data ? data : "");
    FILE *file = data ? fopen(path, "rb") : NULL;
    if (!file) {
        T_SKIP("names of a PyTorch file: GYRE_TEST_DATA is not set");
        return;
    }
    const size_t read = fread(head, 1, sizeof head - 1, file);
    size_t bytes = 8;
    fclose(file);
    for (size_t i = 8; i < read; i++) /* blanks between JSON's words */
        if (head[i] != ' ')
            head[bytes++] = head[i];
    struct net_case n;
    int tensors = 0;
    net_zoo(&n, "resnet20", 0, 0, 0);
    for (size_t i = 8; i + 9 < bytes; i++)
        tensors += memcmp(head + i, "\"shape\":[", 9) == 0;
    head[bytes < sizeof head ? bytes : 0] = 0;
    T_CHECK_MSG(tensors == n.graph.param_count, "%d tensors", tensors);
    for (int i = 0; i < n.graph.param_count; i++) {
        const struct gy_param *p = &n.graph.params[i];
        char name[128], shape[64];
        snprintf(name, sizeof name, "\"%s\":", p->name);
        const int conv = p->kind == GY_PARAM_CONV_WEIGHT, linear = p->kind == GY_PARAM_LINEAR_WEIGHT;
        snprintf(shape, sizeof shape, conv ? "[%d,%d,%d,%d]" : linear ? "[%d,%d]" : "[%d]", p->k, p->c, p->r, p->s);
        const char *at = strstr(head + 8, name), *list = at ? strstr(at, "\"shape\":") : NULL;
        T_CHECK_MSG(list && strncmp(list + 8, shape, strlen(shape)) == 0, "%s %s", name, shape);
    }
    gy_arena_close(&n.arena);
}

/* ---- layers ---- */

/* Behind an input of 9x12x4, the line makes p x q x k. */
static void check_layer_shape(const char *line, int32_t p, int32_t q, int32_t k)
{
    char text[200];
    struct net_case n;
    snprintf(text, sizeof text, "input 9x12x4\nx: %s\nlinear 3\nsoftmax", line);
    net_parse(&n, text);
    const struct gy_geom *g = &net_node(&n, "x")->geom;
    T_CHECK_MSG(g->p == p && g->q == q && g->k == k, "%s: %dx%dx%d", line, g->p, g->q, g->k);
    gy_arena_close(&n.arena);
}

static void test_layer_shapes(void)
{
    static const struct { const char *line; int32_t p, q, k; } rows[] = {
        { "conv 6 3x3", 9, 12, 6 },
        { "conv 6 3", 9, 12, 6 },
        { "conv 6 1x5", 9, 12, 6 },
        { "conv 6 2x2", 8, 11, 6 },
        { "conv 6 3x3 stride 2", 5, 6, 6 },
        { "conv 6 3x3 stride 2x3", 5, 4, 6 },
        { "conv 6 3x3 pad 0", 7, 10, 6 },
        { "conv 6 3x3 pad 1x2 bias", 9, 14, 6 },
        { "conv 6 3x3 dilation 2", 9, 12, 6 },
        { "conv 6 3x3 dilation 2x1 pad 0", 5, 10, 6 },
        { "conv 8 3x3 groups 4", 9, 12, 8 },
        { "conv 6 9x12 pad 0", 1, 1, 6 },
        { "maxpool 2x2", 4, 6, 4 },
        { "maxpool 2x2 ceil", 5, 6, 4 },
        { "maxpool 3x3 stride 2 pad 1", 5, 6, 4 },
        { "maxpool 3x3 stride 2 pad 1 ceil", 5, 7, 4 },
        { "maxpool 1x1 stride 16 ceil", 1, 1, 4 },
        { "maxpool 2x2 stride 3 pad 1 ceil", 4, 5, 4 },
        { "avgpool 3x4 stride 1 pad 1 exclude-pad", 9, 11, 4 },
        { "avgpool 2x2 exclude-pad ceil", 5, 6, 4 },
        { "avgpool 4", 2, 3, 4 },
        { "gap", 1, 1, 4 },
        { "flatten", 1, 1, 432 },
        { "linear 17", 1, 1, 17 },
        { "linear 17 nobias", 1, 1, 17 },
        { "shortcut 4", 9, 12, 4 },
        { "shortcut 10 stride 2", 5, 6, 10 },
        { "shortcut 6 stride 4x5", 3, 3, 6 },
        { "bn", 9, 12, 4 }, { "lrn 5", 9, 12, 4 }, { "dropout 0.5", 9, 12, 4 },
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        check_layer_shape(rows[i].line, rows[i].p, rows[i].q, rows[i].k);
    for (int act = 1; act < GY_ACTS; act++)
        check_layer_shape(gy_act_row(act)->name, 9, 12, 4);
}

/* Activations have one name in net text and in ops; each is one layer. */
static void test_activations(void)
{
    int layers[GY_ACTS] = { 0 };
    for (int layer = 0; layer < GY_LAYERS; layer++) {
        const int act = gy_emit_act(layer);
        layers[act]++;
        T_CHECK_MSG(act == GY_ACT_NONE || strcmp(gy_layer_name(layer), gy_act_row(act)->name) == 0, "the layer %s is the activation %s",
                    gy_layer_name(layer), gy_act_row(act)->name);
    }
    for (int act = 1; act < GY_ACTS; act++)
        T_CHECK_MSG(layers[act] == 1, "%d layers are the activation %s", layers[act], gy_act_row(act)->name);
}

/* A row has all of its fields, and the reference agrees with them: with the limits of a clamp, or
 * with the slope of a curve by differences. */
static void test_activation_rows(void)
{
    for (int act = 0; act < GY_ACTS; act++) {
        const struct gy_act_row *const row = gy_act_row(act);
        const struct gy_op op = { .act = act, .act_param = 0.25f };
        T_CHECK_MSG(row->name && row->kind && row->lo < row->hi, "activation %d: its row lacks a field", act);
        for (int k = -40; k <= 40; k++) {
            const float x = 0.23f * (float)k, y = ref_act_value(x, &op), h = 1e-2f;
            const float slope = (ref_act_value(x + h, &op) - ref_act_value(x - h, &op)) / (2 * h);
            const int right = gy_act_is_curve(act) ? fabsf(gy_act_slope(act, op.act_param, y) - slope) < 1e-3f
                                                   : fabsf(fminf(fmaxf(x, row->lo), row->hi) - y) <= 0;
            T_CHECK_MSG(right || (row->bends && k == 0), "%s at %g: the reference has %g, slope %g", row->name, (double)x, (double)y, (double)slope);
        }
    }
    const struct gy_op none = { .act = GY_ACTS };
    T_CHECK(isnan(ref_act_value(1, &none)) && isnan(ref_act_mask(1, 1, &none)));
}

static void test_layer_constants(void)
{
    struct net_case n;
    net_parse(&n, "input 8x8x6\n"
                  "a: conv 12 3x5 stride 2x1 pad 3x0 dilation 2x1 groups 3 bias\n"
                  "b: bn eps 1e-3 momentum 0.25\n"
                  "c: lrn 3 alpha 2e-4 beta 0.5 k 2\n"
                  "d: avgpool 2x2 pad 1 exclude-pad\n"
                  "e: dropout 0.25\n"
                  "f: linear 9\n"
                  "g: linear 5 nobias\n"
                  "h: softmax smooth 0.125\n");
    if (n.status != GY_OK)
        return;
    const struct gy_node *a = net_node(&n, "a"), *b = net_node(&n, "b"), *c = net_node(&n, "c"), *d = net_node(&n, "d");
    T_CHECK(a->geom.h == 8 && a->geom.w == 8 && a->geom.c == 6 && a->geom.r == 3 && a->geom.s == 5 && a->geom.n == 0);
    T_CHECK(a->geom.stride_h == 2 && a->geom.stride_w == 1 && a->geom.pad_h == 3 && a->geom.pad_w == 0 &&
            a->geom.dil_h == 2);
    T_CHECK(a->geom.groups == 3 && a->weight == 0 && a->bias == 1 && a->run_mean == -1 && a->line == 2 &&
            a->column == 4);
    T_CHECK(n.graph.params[0].c == 2 && n.graph.params[0].count == 12 * 3 * 5 * 2 &&
            n.graph.params[1].kind == GY_PARAM_CONV_BIAS);
    T_CHECK(b->f[0] == 1e-3f && b->f[1] == 0.25f && b->weight == 2 && b->bias == 3 && b->run_mean == 4 &&
            b->run_var == 5);
    T_CHECK(n.graph.params[2].kind == GY_PARAM_GAMMA && n.graph.params[3].kind == GY_PARAM_BETA);
    T_CHECK(strcmp(n.graph.params[5].name, "b.running_var") == 0 && gy_param_is_state(n.graph.params[5].kind));
    T_CHECK(c->f[0] == 2 && c->f[1] == 2e-4f && c->f[2] == 0.5f && c->geom.r == 3 && c->geom.s == 1);
    T_CHECK(d->f[0] == 1 && d->geom.stride_h == 2 && d->geom.pad_w == 1);
    T_CHECK(net_node(&n, "e")->f[0] == 0.25f && net_node(&n, "h")->f[0] == 0.125f);
    const struct gy_node *f = net_node(&n, "f"), *g = net_node(&n, "g");
    T_CHECK(f->geom.h == 1 && f->geom.p == 1 && f->geom.c == d->geom.p * d->geom.q * 12 && f->geom.k == 9 &&
            f->bias == 7);
    T_CHECK(n.graph.params[6].flat_h == d->geom.p && n.graph.params[6].flat_w == d->geom.q);
    T_CHECK(g->bias == -1 && g->weight == 8 && n.graph.params[8].flat_h == 1 && n.graph.param_count == 9);
    T_CHECK(n.graph.classes == 5 && n.graph.loss == 8 && n.graph.output == 7 && n.graph.h == 8 && n.graph.c == 6);
    gy_arena_close(&n.arena);
}

/* Defaults that the documentation promises. */
static void test_layer_defaults(void)
{
    struct net_case n;
    net_parse(&n, NET_LINES("bn\nlrn 5\navgpool 3x2\nflatten\nrelu\ndropout 0.5\nlinear 2\nsoftmax"));
    T_CHECK(net_node(&n, "bn1")->f[0] == 1e-5f && net_node(&n, "bn1")->f[1] == 0.1f);
    const struct gy_node *lrn = net_node(&n, "lrn1"), *pool = net_node(&n, "avgpool1");
    T_CHECK(lrn->f[0] == 1 && lrn->f[1] == 1e-4f && lrn->f[2] == 0.75f && lrn->geom.r == 5);
    T_CHECK(pool->f[0] == 0 && pool->geom.stride_h == 3 && pool->geom.stride_w == 2 && pool->geom.pad_h == 0);
    T_CHECK(net_param(&n, "linear1.weight")->flat_h == 2 &&
            net_param(&n, "linear1.weight")->flat_w == 4); /* through flatten */
    T_CHECK(net_node(&n, "softmax1")->f[0] == 0);
    gy_arena_close(&n.arena);
    net_parse(&n, "input 1x1x7\nlinear 1\nmse");
    T_CHECK(n.graph.classes == 1 && n.graph.nodes[n.graph.loss].layer == GY_LAYER_MSE);
    gy_arena_close(&n.arena);
}

/* ---- names and blocks ---- */

static void check_inputs(const struct net_case *n, const char *name, int count, const char *const *inputs)
{
    const struct gy_node *node = net_node(n, name);
    T_CHECK_MSG(node->input_count == count, "%s has %d inputs", name, node->input_count);
    for (int i = 0; i < count && i < node->input_count; i++)
        T_CHECK_MSG(strcmp(n->graph.nodes[node->input[i]].name, inputs[i]) == 0, "%s reads %s", name,
                    n->graph.nodes[node->input[i]].name);
}

static void test_scopes(void)
{
    struct net_case n;
    net_parse(&n, "\xef\xbb\xbf# \xc3\xa9 in a comment\r\n"
                  "\r\n"
                  "  input 8x8x4\r\n"
                  "x: conv 4 3x3 # the outer x\r\n"
                  "y: conv 4 1x1 from in\n"
                  "repeat a 3..4 {\n"
                  "  x: conv 4 3x3\n"
                  "  block b.c {\n"
                  "\tx: relu\n"
                  "\t   add in y\n"
                  "\t   add x\n"
                  "  }\n"
                  "  z: add x in\n"
                  "}\n"
                  "w: concat a.3.z x a.3.b.c.x\n"
                  "   gap\n"
                  "linear7: linear 3\n"
                  "   softmax");
    const struct gy_node *w = net_node(&n, "w");
    T_CHECK(w->geom.k == 16 && w->line == 15 && w->column == 4);
    check_inputs(&n, "y", 1, (const char *const[]){ "input" });
    check_inputs(&n, "a.3.x", 1, (const char *const[]){ "y" });
    check_inputs(&n, "a.4.x", 1, (const char *const[]){ "a.3.z" });
    check_inputs(&n, "a.4.b.c.x", 1, (const char *const[]){ "a.4.x" });
    check_inputs(&n, "a.4.b.c.add1", 3, (const char *const[]){ "a.4.b.c.x", "a.4.x", "y" });
    check_inputs(&n, "a.4.b.c.add2", 2, (const char *const[]){ "a.4.b.c.add1", "a.4.b.c.x" });
    check_inputs(&n, "a.4.z", 3, (const char *const[]){ "a.4.b.c.add2", "a.4.x", "a.3.z" });
    check_inputs(&n, "w", 4, (const char *const[]){ "a.4.z", "a.3.z", "x", "a.3.b.c.x" });
    check_inputs(&n, "softmax1", 1, (const char *const[]){ "linear7" });
    gy_arena_close(&n.arena);
}

/* Labels win over automatic names, wherever they stand. */
static void test_automatic_names(void)
{
    struct net_case n;
    net_parse(&n, NET_LINES("conv 4 1x1\nrelu\nrelu\nblock b {\nrelu\n}\nconv1: conv 4 1x1\nconv 4 1x1\n"
                            "block b {\nrelu\n}\nrelu\n"
                            "gap\nlinear 2\nsoftmax"));
    static const char *const names[] = { "input", "conv2", "relu1",   "relu2", "b.relu1",
                                         "conv1", "conv3", "b.relu2", "relu3" };
    for (int i = 0; i < (int)GY_COUNT(names); i++)
        T_CHECK_MSG(strcmp(n.graph.nodes[i].name, names[i]) == 0, "%s is %s", names[i], n.graph.nodes[i].name);
    T_CHECK(strcmp(n.graph.params[0].name, "conv2.weight") == 0 && strcmp(n.graph.params[1].name, "conv1.weight") == 0);
    gy_arena_close(&n.arena);
}

/* ---- mistakes ---- */

struct mistake {
    const char *text, *sentence;
};

static const struct mistake mistakes[] = {
#include "tests/t_net_mistakes.h"
};

static void check_mistake(const char *text, size_t bytes, const char *sentence)
{
    struct net_case n;
    net_parse_bytes(&n, text, bytes);
    T_CHECK_MSG(n.status == GY_E_NET && strcmp(n.err.text, sentence) == 0, "%.60s\n    got:  %s\n    want: %s", text,
                n.status == GY_OK ? "no error" : n.err.text, sentence);
    T_CHECK(!n.graph.nodes && n.graph.node_count == 0);
    gy_arena_close(&n.arena);
}

static void test_mistakes(void)
{
    for (size_t i = 0; i < GY_COUNT(mistakes); i++)
        check_mistake(mistakes[i].text, strlen(mistakes[i].text), mistakes[i].sentence);
    check_mistake("input 8x8x3\nrel\0u\n", 18, "net:2:4: a control character (byte 0x00)");
}

/* Texts that are too long to write down: a line, repeated. */
static void check_long(const char *first, const char *line, int times, const char *last, const char *sentence)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_buf buf;
    gy_buf_open(&buf, &alloc);
    gy_buf_add(&buf, first, strlen(first));
    for (int i = 0; i < times; i++)
        gy_buf_add(&buf, line, strlen(line));
    gy_buf_add(&buf, last, strlen(last));
    if (sentence) {
        check_mistake(buf.text, buf.bytes, sentence);
    } else {
        struct net_case n;
        net_parse(&n, buf.text);
        gy_arena_close(&n.arena);
    }
    gy_buf_close(&buf);
}

static void test_limits(void)
{
    check_long("input 2x2x2\n", "relu\n", GY_MAX_NODES - 3, "linear 2\nsoftmax", NULL);
    check_long("input 2x2x2\n", "relu\n", GY_MAX_NODES - 2, "linear 2\nsoftmax", "net:8193:1: more than 8192 layers");
    check_long("input 2x2x2\nrepeat a 0..8191 {\nrepeat a 0..8191 {\nrelu\n}\n}\nlinear 2\nsoftmax", "", 0, "",
               "net:2:1: more than 8192 layers");
    check_long("input 2x2x2\nrepeat a 1..8190 {\nrelu\n}\nlinear 2\nsoftmax", "", 0, "",
               "net:6:1: more than 8192 layers");
    check_long("input 2x2x2\n", "block a {\n", 16,
               "relu\n}\n}\n}\n}\n}\n}\n}\n}\n}\n}\n}\n}\n}\n}\n}\n}\nlinear 2\nsoftmax", NULL);
    check_long("input 2x2x2\n", "block a {\n", 17, "relu\n", "net:18:1: blocks are nested deeper than 16");
    check_long("input 2x2x2\n#", "x", 999, "\nlinear 2\nsoftmax", NULL);
    check_long("input 2x2x2\n#", "x", 1000, "\nlinear 2\nsoftmax", "net:2:1001: the line is longer than 1000 bytes");
    check_long("input 2x2x2\n", "x", 101, "", "net:2:1: a word of 101 bytes; at most 100 are allowed");
    check_long("input 2x2x2\nx: relu\n", "y", 1, ": add x x x x x x x x x x x x x x x x\n",
               "net:3:38: 'add' takes at most 15 names");
    check_long("input 2x2x2\nadd", " in", 40, "\n", "net:2:122: more than 40 words in a line");
    check_long("input 2x2x2\n", "#\n", 520000, "linear 2\nsoftmax", NULL);
    check_long("input 2x2x2\n", "#\n", 524288, "", "net:1:1: the text has 1048588 bytes; at most 1048576 are allowed");
    check_long("input 2x2x2\nblock a {\nblock ", "a", 100,
               " {\nblock b234567890123456789012345678901234567890123456789012345 {\n"
               "relu\n}\n}\n}\nlinear 2\nsoftmax",
               NULL);
    check_long("input 2x2x2\nblock a2345 {\nblock ", "a", 100,
               " {\nblock b234567890123456789012345678901234567890123456789012345 {\n"
               "relu\n}\n}\n}\nlinear 2\nsoftmax",
               "net:4:1: names in this block begin with 163 bytes; a name has at most 160");
    check_long("input 2x2x2\nblock a {\nblock ", "a", 100,
               " {\nb2345678901234567890123456789012345678901234567890123456789: relu\n"
               "}\n}\nlinear 2\nsoftmax",
               "net:4:1: the name 'a.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...b23456789012345678901"
               "23456789012345678901234567890123456789' has 162 bytes; at most 160 are allowed");
}

/* ---- memory ---- */

struct failing {
    int64_t calls, fail_at, bytes;
};

static void *failing_hook(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct failing *f = user;
    if (new_bytes && f->calls++ == f->fail_at)
        return NULL;
    f->bytes += (int64_t)new_bytes - (int64_t)old_bytes;
    if (new_bytes)
        return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static char *zoo_text(const char *name, struct gy_buf *buf)
{
    const struct gy_alloc alloc = gy_alloc_default();
    gy_buf_open(buf, &alloc);
    struct gy_sink sink = gy_sink_buf(buf);
    T_CHECK(gy_zoo_write(&sink, name, 0, 0, 0, 0, NULL) == GY_OK);
    return buf->text;
}

static void test_allocation_failures(void)
{
    struct gy_buf buf;
    const char *text = zoo_text("resnet50", &buf);
    int status = GY_E_NOMEM, rounds = 0;
    for (int64_t k = 0; status == GY_E_NOMEM && k < 100; k++, rounds++) {
        struct failing f = { 0, k, 0 };
        const struct gy_alloc alloc = { failing_hook, &f };
        struct gy_graph graph = { 0 };
        struct gy_error err = { 0 };
        struct gy_arena arena;
        gy_arena_open_hook(&arena, &alloc);
        status = gy_graph_parse(&graph, &arena, text, buf.bytes, "net", &err);
        T_CHECK(status == GY_OK || (strncmp(err.text, "out of memory: ", 15) == 0 && !graph.nodes));
        gy_arena_close(&arena);
        T_CHECK(f.bytes == 0);
    }
    T_CHECK(status == GY_OK && rounds > 2);
    gy_buf_close(&buf);
}

/* A fixed block of any size is enough or leads to a clean error; nothing is written outside. Every
 * take is in turn the last one, which fails. */
static void test_fixed_blocks(void)
{
    struct gy_buf buf;
    const char *text = zoo_text("lenet5", &buf);
    struct gy_arena arena;
    size_t enough = 0;
    for (size_t bytes = 0; bytes < 65536 && !enough; bytes += GY_CACHE_LINE) {
        void *block = malloc(bytes + 1);
        struct gy_graph graph;
        struct gy_error err = { 0 };
        T_CHECK(block != NULL);
        gy_arena_open_fixed(&arena, block, bytes);
        const int status = gy_graph_parse(&graph, &arena, text, buf.bytes, "net", &err);
        T_CHECK_MSG(status == GY_OK || status == GY_E_NOMEM, "%zu bytes: %s", bytes, err.text);
        enough = status == GY_OK ? bytes : 0;
        free(block);
    }
    T_CHECK_MSG(enough > 4096 && enough < 32768, "%zu bytes were enough", enough);
    gy_buf_close(&buf);
}

static void test_help(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_buf buf;
    gy_buf_open(&buf, &alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    gy_layer_help(&sink);
    for (int i = 0; i < GY_LAYERS; i++) {
        char line[40];
        snprintf(line, sizeof line, "\n  %s ", gy_layer_name(i));
        T_CHECK_MSG(strstr(buf.text, line) != NULL, "no help for '%s'", gy_layer_name(i));
    }
    T_CHECK(strstr(buf.text, "eps X") && strstr(buf.text, "default 1e-05") && strstr(buf.text, "from NAME"));
    gy_buf_close(&buf);
}

int main(void)
{
    test_zoo_counts();
    test_zoo_shapes();
    test_zoo_names();
    test_zoo_sizes();
    test_zoo_file();
    test_layer_shapes();
    test_activations();
    test_activation_rows();
    test_layer_constants();
    test_layer_defaults();
    test_scopes();
    test_automatic_names();
    test_mistakes();
    test_limits();
    test_allocation_failures();
    test_fixed_blocks();
    test_help();
    T_END("t_net");
}
