/* SPDX-License-Identifier: MIT */
/* The layers of the language: one row each with word, options and limits; and what each does to shapes and parameters. */
#include "graph.h"

#define LAYER_SIDE GY_MAX_SIDE
#define LAYER_WINDOW { "window", GY_OPT_PAIR, 1, 0, 1, LAYER_SIDE }

/* ORDER: enum gy_layer. Options are read by position in gy_layer_args. */
static const struct gy_layer_row layer_rows[GY_LAYERS] = {
    { "input", "H x W x C of one sample; the first line", { { NULL, GY_OPT_END, 0, 0, 0, 0 } }, 0 },
    { "conv", "convolution; pad: dilation * (R - 1) / 2 unless given",
      { { "channels", GY_OPT_COUNT, 1, 0, 1, GY_MAX_CHANNELS }, LAYER_WINDOW, { "stride", GY_OPT_PAIR, 0, 1, 1, LAYER_SIDE },
        { "pad", GY_OPT_PAIR, 0, -1, 0, LAYER_SIDE }, { "dilation", GY_OPT_PAIR, 0, 1, 1, LAYER_SIDE },
        { "groups", GY_OPT_COUNT, 0, 1, 1, GY_MAX_CHANNELS }, { "bias", GY_OPT_FLAG, 0, 0, 0, 1 } }, 0 },
    { "linear", "fully connected; flattens its input",
      { { "channels", GY_OPT_COUNT, 1, 0, 1, GY_MAX_CHANNELS }, { "nobias", GY_OPT_FLAG, 0, 0, 0, 1 } }, 0 },
    { "bn", "batch norm; momentum: weight of the new batch in the running values",
      { { "eps", GY_OPT_REAL, 0, 1e-5, 1e-12, 1 }, { "momentum", GY_OPT_REAL, 0, 0.1, 0, 1 } }, 0 },
    { "relu", "max(x, 0)", { { NULL, GY_OPT_END, 0, 0, 0, 0 } }, 0 },
    { "relu6", "min(max(x, 0), 6)", { { NULL, GY_OPT_END, 0, 0, 0, 0 } }, 0 },
    { "sigmoid", "1 / (1 + exp(-x))", { { NULL, GY_OPT_END, 0, 0, 0, 0 } }, 0 },
    { "tanh", "hyperbolic tangent", { { NULL, GY_OPT_END, 0, 0, 0, 0 } }, 0 },
    { "maxpool", "maximum of a window; stride: the window unless given",
      { LAYER_WINDOW, { "stride", GY_OPT_PAIR, 0, 0, 1, LAYER_SIDE }, { "pad", GY_OPT_PAIR, 0, 0, 0, LAYER_SIDE },
        { "ceil", GY_OPT_FLAG, 0, 0, 0, 1 } }, 0 },
    { "avgpool", "mean of a window; stride: the window unless given; exclude-pad: divide by the cells inside the image",
      { LAYER_WINDOW, { "stride", GY_OPT_PAIR, 0, 0, 1, LAYER_SIDE }, { "pad", GY_OPT_PAIR, 0, 0, 0, LAYER_SIDE },
        { "ceil", GY_OPT_FLAG, 0, 0, 0, 1 }, { "exclude-pad", GY_OPT_FLAG, 0, 0, 0, 1 } }, 0 },
    { "gap", "global average: the mean of each channel", { { NULL, GY_OPT_END, 0, 0, 0, 0 } }, 0 },
    { "lrn", "local response norm: x / (k + alpha / size * sum x^2) ^ beta over size channels",
      { { "size", GY_OPT_COUNT, 1, 0, 1, 255 }, { "alpha", GY_OPT_REAL, 0, 1e-4, 0, 1e3 }, { "beta", GY_OPT_REAL, 0, 0.75, 0, 16 },
        { "k", GY_OPT_REAL, 0, 1, 1e-6, 1e6 } }, 0 },
    { "dropout", "zeroes with this probability in training, scales the rest", { { "rate", GY_OPT_REAL, 1, 0, 0, 0.9999 } }, 0 },
    { "add", "sum of the present value and the named ones", { { NULL, GY_OPT_END, 0, 0, 0, 0 } }, 1 },
    { "concat", "channels of the present value, then of the named ones", { { NULL, GY_OPT_END, 0, 0, 0, 0 } }, 1 },
    { "flatten", "H x W x C to 1 x 1 x HWC", { { NULL, GY_OPT_END, 0, 0, 0, 0 } }, 0 },
    { "shortcut", "every stride-th pixel, zero channels added on both sides",
      { { "channels", GY_OPT_COUNT, 1, 0, 1, GY_MAX_CHANNELS }, { "stride", GY_OPT_PAIR, 0, 1, 1, LAYER_SIDE } }, 0 },
    { "softmax", "loss: softmax cross-entropy; smooth: label smoothing", { { "smooth", GY_OPT_REAL, 0, 0, 0, 0.999 } }, 0 },
    { "mse", "loss: mean squared error against a target or a one-hot label", { { NULL, GY_OPT_END, 0, 0, 0, 0 } }, 0 },
};

GY_INT const struct gy_layer_row *gy_layer_row(int layer) { return &layer_rows[layer]; }
GY_INT const char *gy_layer_name(int layer) { return layer_rows[layer].word; }

/* ---- the language, for people ---- */

static void layer_help_option(struct gy_sink *sink, const struct gy_layer_option *o)
{
    static const char *const kind[] = { "", "N", "HxW", "X", "" };
    if (o->place)
        gy_sink_printf(sink, " %s", o->kind == GY_OPT_PAIR ? "HxW" : o->name);
    else if (o->kind == GY_OPT_FLAG)
        gy_sink_printf(sink, " [%s]", o->name);
    else if (o->initial > 0)
        gy_sink_printf(sink, " [%s %s = %g]", o->name, kind[o->kind], o->initial);
    else
        gy_sink_printf(sink, " [%s %s]", o->name, kind[o->kind]);
}

GY_INT void gy_layer_help(struct gy_sink *sink)
{
    gy_sink_printf(sink, "A net is text, one layer a line; # begins a comment. A layer reads the value of the line before it.\n\n");
    for (int i = 0; i < GY_LAYERS; i++) {
        gy_sink_printf(sink, "  %s%s", layer_rows[i].word, i == GY_LAYER_INPUT ? " HxWxC" : layer_rows[i].names ? " NAME..." : "");
        for (int k = 0; k < GY_LAYER_OPTIONS && layer_rows[i].option[k].kind != GY_OPT_END; k++)
            layer_help_option(sink, &layer_rows[i].option[k]);
        gy_sink_printf(sink, "\n      %s\n", layer_rows[i].about);
    }
    gy_sink_printf(sink, "\n  name: LAYER ...        names the layer's value and its weights\n"
                         "  LAYER ... from NAME    reads the named value instead of the line before\n"
                         "  block NAME { ... }     names inside get the prefix NAME. ; 'in' is the value that entered\n"
                         "  repeat NAME A..B { }   the block once for each number, with the prefixes NAME.A. to NAME.B.\n"
                         "\nThe last layer is the loss: softmax or mse.\n");
}

/* ---- shapes ---- */

struct layer_ctx {
    struct gy_graph *graph;
    struct gy_arena *arena;
    struct gy_node *node;
    const struct gy_layer_args *args;
    struct gy_error *err;
};

/* Outputs along one side of a window that moves, or an error when it does not fit. */
static int layer_extent(const struct layer_ctx *x, const char *side, int32_t in, int32_t window, int32_t stride, int32_t pad,
                        int32_t dilation, int ceil_mode, int32_t *out)
{
    const int64_t reach = (int64_t)dilation * (window - 1) + 1, padded = (int64_t)in + 2 * (int64_t)pad;
    if (reach > padded)
        return GY_FAIL(x->err, GY_E_NET, "a window of %s %" PRId64 " does not fit an image of %s %d padded by %d", side, reach, side,
                       in, pad);
    int64_t count = (padded - reach + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (ceil_mode && (count - 1) * stride >= (int64_t)in + pad)
        count--; /* the last window must begin inside the image or its left padding */
    *out = (int32_t)count;
    return GY_OK;
}

static int layer_window(const struct layer_ctx *x, int ceil_mode)
{
    struct gy_geom *g = &x->node->geom;
    GY_TRY(layer_extent(x, "height", g->h, g->r, g->stride_h, g->pad_h, g->dil_h, ceil_mode, &g->p));
    return layer_extent(x, "width", g->w, g->s, g->stride_w, g->pad_w, g->dil_w, ceil_mode, &g->q);
}

static int layer_add(const struct layer_ctx *x, int kind, const char *suffix, int32_t k, int32_t r, int32_t s, int32_t c, int *slot)
{
    const int32_t flat = kind == GY_PARAM_LINEAR_WEIGHT;
    const struct gy_param p = { .kind = kind, .node = (int)(x->node - x->graph->nodes), .k = k, .r = r, .s = s, .c = c,
                                .flat_h = flat ? x->node->flat_h : 1, .flat_w = flat ? x->node->flat_w : 1 };
    const int index = gy_graph_add_param(x->graph, x->arena, &p, suffix, x->err);
    if (index < 0)
        return index;
    *slot = index;
    return GY_OK;
}

static int layer_conv(const struct layer_ctx *x)
{
    struct gy_geom *g = &x->node->geom;
    const struct gy_layer_args *a = x->args;
    g->k = (int32_t)a->a[0];
    g->r = (int32_t)a->a[1], g->s = (int32_t)a->b[1];
    g->stride_h = (int32_t)a->a[2], g->stride_w = (int32_t)a->b[2];
    g->dil_h = (int32_t)a->a[4], g->dil_w = (int32_t)a->b[4];
    g->pad_h = a->a[3] < 0 ? (int32_t)(((int64_t)g->dil_h * (g->r - 1)) / 2) : (int32_t)a->a[3];
    g->pad_w = a->b[3] < 0 ? (int32_t)(((int64_t)g->dil_w * (g->s - 1)) / 2) : (int32_t)a->b[3];
    g->groups = (int32_t)a->a[5];
    x->node->flat_h = x->node->flat_w = 1;
    if (g->c % g->groups || g->k % g->groups)
        return GY_FAIL(x->err, GY_E_NET, "%d groups do not divide %d input and %d output channels", g->groups, g->c, g->k);
    GY_TRY(layer_window(x, 0));
    GY_TRY(layer_add(x, GY_PARAM_CONV_WEIGHT, "weight", g->k, g->r, g->s, g->c / g->groups, &x->node->weight));
    return a->a[6] > 0 ? layer_add(x, GY_PARAM_CONV_BIAS, "bias", g->k, 1, 1, 1, &x->node->bias) : GY_OK;
}

static int layer_linear(const struct layer_ctx *x)
{
    struct gy_geom *g = &x->node->geom;
    const struct gy_node *in = &x->graph->nodes[x->node->input[0]];
    const int flattens = g->h * g->w > 1;
    int64_t inputs;
    if (gy_mul_count((int64_t)g->h * g->w, g->c, &inputs) != 0 || inputs > INT32_MAX)
        return GY_FAIL(x->err, GY_E_NET, "an image of %d x %d x %d is too large to be flattened", g->h, g->w, g->c);
    x->node->flat_h = flattens ? g->h : in->flat_h;
    x->node->flat_w = flattens ? g->w : in->flat_w;
    g->c = (int32_t)inputs;
    g->k = (int32_t)x->args->a[0];
    g->h = g->w = g->p = g->q = 1;
    GY_TRY(layer_add(x, GY_PARAM_LINEAR_WEIGHT, "weight", g->k, 1, 1, g->c, &x->node->weight));
    if (x->args->a[1] <= 0)
        GY_TRY(layer_add(x, GY_PARAM_LINEAR_BIAS, "bias", g->k, 1, 1, 1, &x->node->bias));
    x->node->flat_h = x->node->flat_w = 1;
    return GY_OK;
}

static int layer_bn(const struct layer_ctx *x)
{
    const int32_t k = x->node->geom.k;
    x->node->f[0] = (float)x->args->a[0];
    x->node->f[1] = (float)x->args->a[1];
    GY_TRY(layer_add(x, GY_PARAM_GAMMA, "weight", k, 1, 1, 1, &x->node->weight));
    GY_TRY(layer_add(x, GY_PARAM_BETA, "bias", k, 1, 1, 1, &x->node->bias));
    GY_TRY(layer_add(x, GY_PARAM_RUN_MEAN, "running_mean", k, 1, 1, 1, &x->node->run_mean));
    return layer_add(x, GY_PARAM_RUN_VAR, "running_var", k, 1, 1, 1, &x->node->run_var);
}

static int layer_same(const struct layer_ctx *x)
{
    (void)x;
    return GY_OK;
}

static int layer_pool(const struct layer_ctx *x)
{
    struct gy_geom *g = &x->node->geom;
    const struct gy_layer_args *a = x->args;
    g->r = (int32_t)a->a[0], g->s = (int32_t)a->b[0];
    g->stride_h = a->a[1] > 0 ? (int32_t)a->a[1] : g->r, g->stride_w = a->b[1] > 0 ? (int32_t)a->b[1] : g->s;
    g->pad_h = (int32_t)a->a[2], g->pad_w = (int32_t)a->b[2];
    x->node->f[0] = (float)a->a[4];
    if (2 * g->pad_h > g->r || 2 * g->pad_w > g->s)
        return GY_FAIL(x->err, GY_E_NET, "pad %dx%d is more than half of the window %dx%d", g->pad_h, g->pad_w, g->r, g->s);
    if ((int64_t)g->r * g->s > 255 && x->node->layer == GY_LAYER_MAXPOOL)
        return GY_FAIL(x->err, GY_E_NET, "a max-pool window of %dx%d has more than 255 cells", g->r, g->s);
    return layer_window(x, a->a[3] > 0);
}

static int layer_gap(const struct layer_ctx *x)
{
    struct gy_geom *g = &x->node->geom;
    g->r = g->stride_h = g->h;
    g->s = g->stride_w = g->w;
    g->p = g->q = 1;
    return GY_OK;
}

static int layer_lrn(const struct layer_ctx *x)
{
    x->node->geom.r = (int32_t)x->args->a[0];
    x->node->f[0] = (float)x->args->a[3];
    x->node->f[1] = (float)x->args->a[1];
    x->node->f[2] = (float)x->args->a[2];
    return GY_OK;
}

static int layer_first(const struct layer_ctx *x) /* dropout's rate, the loss's smoothing */
{
    x->node->f[0] = (float)x->args->a[0];
    return GY_OK;
}

static int layer_sum(const struct layer_ctx *x)
{
    const struct gy_geom *g = &x->node->geom;
    for (int i = 1; i < x->node->input_count; i++) {
        const struct gy_node *in = &x->graph->nodes[x->node->input[i]];
        if (in->geom.p != g->p || in->geom.q != g->q || in->geom.k != g->k)
            return GY_FAIL(x->err, GY_E_NET, "cannot add %d x %d x %d ('%s') to %d x %d x %d", in->geom.p, in->geom.q, in->geom.k,
                           in->name, g->p, g->q, g->k);
    }
    return GY_OK;
}

static int layer_concat(const struct layer_ctx *x)
{
    struct gy_geom *g = &x->node->geom;
    int64_t channels = g->k;
    for (int i = 1; i < x->node->input_count; i++) {
        const struct gy_node *in = &x->graph->nodes[x->node->input[i]];
        if (in->geom.p != g->p || in->geom.q != g->q)
            return GY_FAIL(x->err, GY_E_NET, "cannot put %d x %d ('%s') beside %d x %d", in->geom.p, in->geom.q, in->name, g->p, g->q);
        channels += in->geom.k;
    }
    if (channels > GY_MAX_CHANNELS)
        return GY_FAIL(x->err, GY_E_NET, "%" PRId64 " channels are beyond the limit of %d", channels, GY_MAX_CHANNELS);
    g->k = (int32_t)channels;
    return GY_OK;
}

static int layer_flatten(const struct layer_ctx *x)
{
    struct gy_geom *g = &x->node->geom;
    int64_t all;
    if (gy_mul_count((int64_t)g->h * g->w, g->c, &all) != 0 || all > INT32_MAX)
        return GY_FAIL(x->err, GY_E_NET, "an image of %d x %d x %d is too large to be flattened", g->h, g->w, g->c);
    if (g->h * g->w > 1) {
        x->node->flat_h = g->h;
        x->node->flat_w = g->w;
    }
    g->k = (int32_t)all;
    g->p = g->q = 1;
    return GY_OK;
}

static int layer_shortcut(const struct layer_ctx *x)
{
    struct gy_geom *g = &x->node->geom;
    g->k = (int32_t)x->args->a[0];
    g->stride_h = (int32_t)x->args->a[1];
    g->stride_w = (int32_t)x->args->b[1];
    if (g->k < g->c || (g->k - g->c) % 2)
        return GY_FAIL(x->err, GY_E_NET, "shortcut to %d channels from %d: the difference must be even and not negative", g->k, g->c);
    g->p = (g->h - 1) / g->stride_h + 1;
    g->q = (g->w - 1) / g->stride_w + 1;
    return GY_OK;
}

static int layer_loss(const struct layer_ctx *x)
{
    const struct gy_geom *g = &x->node->geom;
    if (g->p * g->q != 1)
        return GY_FAIL(x->err, GY_E_NET, "the loss needs one vector of scores, not %d x %d x %d; use gap, flatten or linear before it",
                       g->p, g->q, g->k);
    return layer_first(x);
}

/* Every node starts as an op on one shape; its own function changes what differs. */
GY_INT int gy_layer_infer(struct gy_graph *graph, struct gy_arena *arena, struct gy_node *node, const struct gy_layer_args *args,
                          struct gy_error *err)
{
    static int (*const infer[GY_LAYERS])(const struct layer_ctx *) = {
        layer_same, layer_conv, layer_linear, layer_bn,   layer_same, layer_same,   layer_same,    layer_same,     layer_pool, layer_pool,
        layer_gap,  layer_lrn,  layer_first,  layer_sum,  layer_concat, layer_flatten, layer_shortcut, layer_loss, layer_loss
    };
    const struct layer_ctx x = { graph, arena, node, args, err };
    const struct gy_node *in = &graph->nodes[node->input[0]];
    struct gy_geom *g = &node->geom;
    *g = (struct gy_geom){ .h = in->geom.p, .w = in->geom.q, .c = in->geom.k, .p = in->geom.p, .q = in->geom.q, .k = in->geom.k,
                           .r = 1, .s = 1, .stride_h = 1, .stride_w = 1, .dil_h = 1, .dil_w = 1, .groups = 1 };
    node->flat_h = in->flat_h;
    node->flat_w = in->flat_w;
    node->weight = node->bias = node->run_mean = node->run_var = -1;
    return infer[node->layer](&x);
}
