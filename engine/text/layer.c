/* SPDX-License-Identifier: MIT */
/* layer.c: the layer kinds: a row each with word, options, limits and shape inference. Shapes are
 * those of one sample, written HxWxC. Every size is checked here against the limits of graph.h and
 * layer.h, so that nothing behind the graph can overflow.
 *
 * A flattened value remembers its height and width: PyTorch numbers its elements CHW, Gyre HWC.
 * Layers that work element by element may follow; a linear layer ends it. Others would mix the two
 * orders, and are refused. */
#include "engine/text/layer.h"

GY_INT int gy_layer_fail(struct gy_error *err, const char *source, int line, int column, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return GY_FAIL(err, GY_E_NET, "%.60s:%d:%d: %s", source, line, column, text);
}

/* A sentence about the given option, or about the layer when the option was not written. */
#define LAYER_FAIL(use, slot, ...)                                                                                     \
    gy_layer_fail((use)->err, (use)->source, (use)->node->line,                                                        \
                  (use)->column[slot] ? (use)->column[slot] : (use)->node->column, __VA_ARGS__)

static const struct gy_node *layer_input(const struct gy_layer_use *use, int k)
{
    return &use->graph->nodes[use->node->input[k]];
}

static int layer_refuse_flat(const struct gy_layer_use *use)
{
    const int32_t h = layer_input(use, 0)->flat_h, w = layer_input(use, 0)->flat_w;
    const char *word = gy_layer_name(use->node->layer);
    if (h == 1 && w == 1)
        return GY_OK;
    return LAYER_FAIL(use, GY_OPT_OUT, "'%s' cannot follow the flatten of %dx%d: its channels "
                      "would have no order; put it before", word, h, w);
}

/* Input shape from the first input, output the same, window 1x1. */
static struct gy_geom *layer_geom(struct gy_layer_use *use)
{
    use->node->flat_h = layer_input(use, 0)->flat_h;
    use->node->flat_w = layer_input(use, 0)->flat_w;
    const struct gy_geom *in = &layer_input(use, 0)->geom;
    use->node->geom = (struct gy_geom){ .h = in->p, .w = in->q, .c = in->k, .p = in->p, .q = in->q, .k = in->k,
                                        .r = 1, .s = 1, .stride_h = 1, .stride_w = 1, .dil_h = 1, .dil_w = 1,
                                        .groups = 1 };
    return &use->node->geom;
}

static int layer_check_value(const struct gy_layer_use *use)
{
    const struct gy_geom *g = &use->node->geom;
    const int64_t count = (int64_t)g->p * g->q * g->k; /* at most 2^62; of an input 2^60 */
    if (g->p > GY_MAX_SIDE || g->q > GY_MAX_SIDE || count > GY_MAX_VALUE_COUNT)
        return LAYER_FAIL(use, GY_OPT_OUT,
                          "the value of '%s' would be %dx%dx%d; at most %d a side and %" PRId64 " elements are allowed",
                          gy_layer_name(use->node->layer), g->p, g->q, g->k, GY_MAX_SIDE, GY_MAX_VALUE_COUNT);
    return GY_OK;
}

static int layer_check_weights(const struct gy_layer_use *use)
{
    const struct gy_geom *g = &use->node->geom;
    const int64_t filter = (int64_t)g->r * g->s * (g->c / g->groups); /* at most 2^50 */
    if (filter > GY_MAX_VALUE_COUNT || filter > GY_MAX_PARAM_COUNT / g->k)
        return LAYER_FAIL(use, GY_OPT_OUT, "%d filters of %dx%dx%d weights: at most %" PRId64
                          " weights a filter and %" PRId64 " in all are allowed", g->k, g->r, g->s,
                          g->c / g->groups, GY_MAX_VALUE_COUNT, GY_MAX_PARAM_COUNT);
    return GY_OK;
}

static void layer_read_window(const struct gy_layer_use *use, struct gy_geom *g)
{
    g->r = (int32_t)use->value[GY_OPT_WINDOW][0];
    g->s = (int32_t)use->value[GY_OPT_WINDOW][1];
    g->stride_h = (int32_t)use->value[GY_OPT_STRIDE][0];
    g->stride_w = (int32_t)use->value[GY_OPT_STRIDE][1];
    g->pad_h = (int32_t)use->value[GY_OPT_PAD][0];
    g->pad_w = (int32_t)use->value[GY_OPT_PAD][1];
}

/* Output size of a side; 0: the window does not fit. With ceil a last window may hang over the far
 * edge if it begins inside the image or its near padding (PyTorch's rule). */
static int32_t layer_out_side(int64_t side, int64_t window, int64_t stride, int64_t pad, int64_t dilation,
                              int ceil_mode)
{
    const int64_t room = side + 2 * pad - dilation * (window - 1) - 1;
    if (room < 0)
        return 0;
    int64_t out = (ceil_mode ? gy_ceil_div(room, stride) : room / stride) + 1;
    if (ceil_mode && (out - 1) * stride >= side + pad)
        out--;
    return (int32_t)out;
}

static int layer_slide(struct gy_layer_use *use)
{
    struct gy_geom *g = &use->node->geom;
    const int up = use->column[GY_OPT_CEIL] != 0;
    g->p = layer_out_side(g->h, g->r, g->stride_h, g->pad_h, g->dil_h, up);
    g->q = layer_out_side(g->w, g->s, g->stride_w, g->pad_w, g->dil_w, up);
    if (g->p > 0 && g->q > 0)
        return layer_check_value(use);
    return LAYER_FAIL(use, GY_OPT_WINDOW, "the window of %dx%d%s is larger than the padded image of %dx%d",
                      g->dil_h * (g->r - 1) + 1, g->dil_w * (g->s - 1) + 1,
                      g->dil_h > 1 || g->dil_w > 1 ? " (dilation included)" : "", g->h + 2 * g->pad_h,
                      g->w + 2 * g->pad_w);
}

static int layer_shape_input(struct gy_layer_use *use)
{
    const double *v = use->value[GY_OPT_SHAPE];
    const int32_t h = (int32_t)v[0], w = (int32_t)v[1], c = (int32_t)v[2];
    use->node->flat_h = use->node->flat_w = 1;
    use->node->geom = (struct gy_geom){ .h = h, .w = w, .c = c, .p = h, .q = w, .k = c, .r = 1, .s = 1, .stride_h = 1,
                                        .stride_w = 1, .dil_h = 1, .dil_w = 1, .groups = 1 };
    return layer_check_value(use);
}

static int layer_shape_conv(struct gy_layer_use *use)
{
    GY_TRY(layer_refuse_flat(use));
    struct gy_geom *g = layer_geom(use);
    layer_read_window(use, g);
    g->k = (int32_t)use->value[GY_OPT_OUT][0];
    g->groups = (int32_t)use->value[GY_OPT_GROUPS][0];
    g->dil_h = (int32_t)use->value[GY_OPT_DILATION][0];
    g->dil_w = (int32_t)use->value[GY_OPT_DILATION][1];
    if (!use->column[GY_OPT_PAD]) {
        g->pad_h = g->dil_h * (g->r - 1) / 2;
        g->pad_w = g->dil_w * (g->s - 1) / 2;
    }
    if (g->c % g->groups != 0 || g->k % g->groups != 0)
        return LAYER_FAIL(use, GY_OPT_GROUPS, "groups %d does not divide both the %d input and the %d output channels",
                          g->groups, g->c, g->k);
    use->node->weight = 0;
    use->node->bias = use->column[GY_OPT_BIAS] ? 0 : -1;
    GY_TRY(layer_slide(use));
    return layer_check_weights(use);
}

static int layer_shape_linear(struct gy_layer_use *use)
{
    struct gy_geom *g = layer_geom(use);
    g->c *= g->h * g->w; /* the value's own count: at most GY_MAX_VALUE_COUNT */
    g->h = g->w = g->p = g->q = 1;
    g->k = (int32_t)use->value[GY_OPT_OUT][0];
    use->node->flat_h = use->node->flat_w = 1;
    use->node->weight = 0;
    use->node->bias = use->column[GY_OPT_NOBIAS] ? -1 : 0;
    use->node->split = use->column[GY_OPT_SPLIT] != 0;
    use->graph->splits += use->node->split;
    return layer_check_weights(use);
}

static int layer_shape_bn(struct gy_layer_use *use)
{
    GY_TRY(layer_refuse_flat(use));
    layer_geom(use);
    use->node->f[0] = (float)use->value[GY_OPT_EPS][0];
    use->node->f[1] = (float)use->value[GY_OPT_MOMENTUM][0];
    use->node->weight = use->node->bias = use->node->run_mean = use->node->run_var = 0;
    return GY_OK;
}

static int layer_shape_same(struct gy_layer_use *use)
{
    layer_geom(use);
    return GY_OK;
}

static int layer_shape_pool(struct gy_layer_use *use)
{
    GY_TRY(layer_refuse_flat(use));
    struct gy_geom *g = layer_geom(use);
    layer_read_window(use, g);
    if (!use->column[GY_OPT_STRIDE]) {
        g->stride_h = g->r;
        g->stride_w = g->s;
    }
    if (g->pad_h > g->r / 2 || g->pad_w > g->s / 2)
        return LAYER_FAIL(use, GY_OPT_PAD, "pad %dx%d is more than half of the %dx%d window", g->pad_h, g->pad_w, g->r,
                          g->s);
    use->node->f[0] = use->column[GY_OPT_EXCLUDE_PAD] ? 1 : 0;
    return layer_slide(use);
}

static int layer_shape_maxpool(struct gy_layer_use *use)
{
    const double cells = use->value[GY_OPT_WINDOW][0] * use->value[GY_OPT_WINDOW][1];
    if (cells > 256)
        return LAYER_FAIL(use, GY_OPT_WINDOW, "a max pooling window of %.0f cells: at most 256 are allowed", cells);
    return layer_shape_pool(use);
}

static int layer_shape_avgpool(struct gy_layer_use *use)
{
    if (use->column[GY_OPT_CEIL] && !use->column[GY_OPT_EXCLUDE_PAD])
        return LAYER_FAIL(use, GY_OPT_CEIL,
                          "'ceil' of avgpool needs 'exclude-pad': a window that hangs over has no fixed divisor");
    return layer_shape_pool(use);
}

static int layer_shape_gap(struct gy_layer_use *use)
{
    struct gy_geom *g = layer_geom(use);
    g->r = g->stride_h = g->h;
    g->s = g->stride_w = g->w;
    g->p = g->q = 1;
    return GY_OK;
}

static int layer_shape_lrn(struct gy_layer_use *use)
{
    GY_TRY(layer_refuse_flat(use));
    struct gy_geom *g = layer_geom(use);
    g->r = (int32_t)use->value[GY_OPT_SIZE][0];
    if (g->r % 2 == 0)
        return LAYER_FAIL(use, GY_OPT_SIZE, "lrn over %d channels: the number must be odd", g->r);
    use->node->f[0] = (float)use->value[GY_OPT_K][0];
    use->node->f[1] = (float)use->value[GY_OPT_ALPHA][0];
    use->node->f[2] = (float)use->value[GY_OPT_BETA][0];
    return GY_OK;
}

static int layer_shape_dropout(struct gy_layer_use *use)
{
    layer_geom(use);
    use->node->f[0] = (float)use->value[GY_OPT_RATE][0];
    return GY_OK;
}

static int layer_shape_leaky(struct gy_layer_use *use)
{
    layer_geom(use);
    use->node->f[0] = (float)use->value[GY_OPT_SLOPE][0];
    return GY_OK;
}

/* Refuses values of different shapes, or the same value twice. Sentences name inputs by word and
 * line: layers without a label have no name yet. */
static int layer_check_pair(const struct gy_layer_use *use, int k, int channels_too)
{
    const struct gy_node *a = layer_input(use, 0), *b = layer_input(use, k);
    const char *word = gy_layer_name(use->node->layer);
    const struct gy_geom *x = &a->geom, *y = &b->geom;
    if (x->p != y->p || x->q != y->q || (channels_too && x->k != y->k))
        return LAYER_FAIL(use, GY_OPT_OUT,
                          "'%s' of different shapes: %dx%dx%d (%s at line %d) and %dx%dx%d (%s at line %d)", word, x->p,
                          x->q, x->k, gy_layer_name(a->layer), a->line, y->p, y->q, y->k, gy_layer_name(b->layer),
                          b->line);
    for (int i = 0; i < k; i++)
        if (use->node->input[i] == use->node->input[k])
            return LAYER_FAIL(use, GY_OPT_OUT, "'%s' has the same value twice (%s at line %d)", word,
                              gy_layer_name(b->layer), b->line);
    return GY_OK;
}

static int layer_shape_add(struct gy_layer_use *use)
{
    const struct gy_node *a = layer_input(use, 0);
    for (int k = 1; k < use->node->input_count; k++) {
        const struct gy_node *b = layer_input(use, k);
        GY_TRY(layer_check_pair(use, k, 1));
        if (a->flat_h != b->flat_h || a->flat_w != b->flat_w)
            return LAYER_FAIL(use, GY_OPT_OUT,
                              "'add' of values flattened from %dx%d and from %dx%d: their orders differ", a->flat_h,
                              a->flat_w, b->flat_h, b->flat_w);
    }
    layer_geom(use);
    return GY_OK;
}

static int layer_shape_concat(struct gy_layer_use *use)
{
    GY_TRY(layer_refuse_flat(use));
    struct gy_geom *g = layer_geom(use);
    int64_t channels = g->c;
    for (int k = 1; k < use->node->input_count; k++) {
        const struct gy_node *in = layer_input(use, k);
        GY_TRY(layer_check_pair(use, k, 0));
        if (in->flat_h != 1 || in->flat_w != 1)
            return LAYER_FAIL(use, GY_OPT_OUT, "'concat' cannot follow the flatten of %dx%d: put it before",
                              in->flat_h, in->flat_w);
        channels += in->geom.k;
    }
    if (channels > GY_MAX_CHANNELS)
        return LAYER_FAIL(use, GY_OPT_OUT, "'concat' to %" PRId64 " channels; at most %d are allowed", channels,
                          GY_MAX_CHANNELS);
    g->k = (int32_t)channels;
    return layer_check_value(use);
}

static int layer_shape_flatten(struct gy_layer_use *use)
{
    struct gy_geom *g = layer_geom(use);
    use->node->flat_h *= g->h; /* a factor is 1: what is flat is 1x1 */
    use->node->flat_w *= g->w;
    g->k = g->h * g->w * g->c;
    g->p = g->q = 1;
    return GY_OK;
}

static int layer_shape_shortcut(struct gy_layer_use *use)
{
    GY_TRY(layer_refuse_flat(use));
    struct gy_geom *g = layer_geom(use);
    g->k = (int32_t)use->value[GY_OPT_OUT][0];
    g->stride_h = (int32_t)use->value[GY_OPT_STRIDE][0];
    g->stride_w = (int32_t)use->value[GY_OPT_STRIDE][1];
    g->p = (g->h - 1) / g->stride_h + 1;
    g->q = (g->w - 1) / g->stride_w + 1;
    if (g->k < g->c || (g->k - g->c) % 2 != 0)
        return LAYER_FAIL(use, GY_OPT_OUT, "shortcut from %d to %d channels: there must be as many "
                          "or more, by an even number", g->c, g->k);
    return layer_check_value(use);
}

static int layer_shape_loss(struct gy_layer_use *use)
{
    const char *word = gy_layer_name(use->node->layer);
    const struct gy_geom *g = layer_geom(use);
    if (g->h != 1 || g->w != 1)
        return LAYER_FAIL(use, GY_OPT_OUT, "'%s' needs scores of 1x1xC, not %dx%dx%d; put 'gap' or 'linear' before it",
                          word, g->h, g->w, g->c);
    if (g->c > GY_MAX_CHANNELS || (g->c < 2 && use->node->layer == GY_LAYER_SOFTMAX))
        return LAYER_FAIL(use, GY_OPT_OUT, "'%s' of %d scores; %d to %d are allowed", word, g->c,
                          use->node->layer == GY_LAYER_SOFTMAX ? 2 : 1, GY_MAX_CHANNELS);
    use->node->f[0] = (float)use->value[GY_OPT_SMOOTH][0];
    return GY_OK;
}

static const struct gy_option layer_input_options[] = {
    { NULL, GY_OPT_SHAPE, GY_KIND_SHAPE, 1, GY_MAX_CHANNELS, 0, "height, width and channels" },
};
static const struct gy_option layer_conv_options[] = {
    { NULL, GY_OPT_OUT, GY_KIND_WHOLE, 1, GY_MAX_CHANNELS, 0, "output channels" },
    { NULL, GY_OPT_WINDOW, GY_KIND_PAIR, 1, 1024, 0, "window" },
    { "stride", GY_OPT_STRIDE, GY_KIND_PAIR, 1, GY_MAX_SIDE, 1, "step between windows" },
    { "pad", GY_OPT_PAD, GY_KIND_PAIR, 0, GY_MAX_SIDE, -1, "zeros around the image; default dilation*(R-1)/2" },
    { "dilation", GY_OPT_DILATION, GY_KIND_PAIR, 1, GY_MAX_SIDE, 1, "step inside a window" },
    { "groups", GY_OPT_GROUPS, GY_KIND_WHOLE, 1, GY_MAX_CHANNELS, 1, "groups of channels that do not see each other" },
    { "bias", GY_OPT_BIAS, GY_KIND_FLAG, 0, 0, 0, "adds a number a channel" },
};
static const struct gy_option layer_linear_options[] = {
    { NULL, GY_OPT_OUT, GY_KIND_WHOLE, 1, GY_MAX_CHANNELS, 0, "outputs" },
    { "nobias", GY_OPT_NOBIAS, GY_KIND_FLAG, 0, 0, 0, "without a bias" },
    { "split", GY_OPT_SPLIT, GY_KIND_FLAG, 0, 0, 0, "each of several processes keeps a slice of the outputs" },
};
static const struct gy_option layer_bn_options[] = {
    { "eps", GY_OPT_EPS, GY_KIND_REAL, 1e-12, 1, 1e-5, "added to the variance" },
    { "momentum", GY_OPT_MOMENTUM, GY_KIND_REAL, 0, 1, 0.1, "weight of a new batch in the running values" },
};
static const struct gy_option layer_maxpool_options[] = {
    { NULL, GY_OPT_WINDOW, GY_KIND_PAIR, 1, 1024, 0, "window" },
    { "stride", GY_OPT_STRIDE, GY_KIND_PAIR, 1, GY_MAX_SIDE, -1, "step between windows; default: the window" },
    { "pad", GY_OPT_PAD, GY_KIND_PAIR, 0, 512, 0, "padding, at most half a window; it never wins" },
    { "ceil", GY_OPT_CEIL, GY_KIND_FLAG, 0, 0, 0, "the last window may hang over the edge" },
};
static const struct gy_option layer_avgpool_options[] = {
    { NULL, GY_OPT_WINDOW, GY_KIND_PAIR, 1, 1024, 0, "window" },
    { "stride", GY_OPT_STRIDE, GY_KIND_PAIR, 1, GY_MAX_SIDE, -1, "step between windows; default: the window" },
    { "pad", GY_OPT_PAD, GY_KIND_PAIR, 0, 512, 0, "zeros around the image, at most half a window" },
    { "exclude-pad", GY_OPT_EXCLUDE_PAD, GY_KIND_FLAG, 0, 0, 0, "divides by the cells inside the image" },
    { "ceil", GY_OPT_CEIL, GY_KIND_FLAG, 0, 0, 0, "the last window may hang over the edge; needs exclude-pad" },
};
static const struct gy_option layer_lrn_options[] = {
    { NULL, GY_OPT_SIZE, GY_KIND_WHOLE, 1, 1023, 0, "channels that are summed, an odd number" },
    { "alpha", GY_OPT_ALPHA, GY_KIND_REAL, 0, 1e6, 1e-4, "weight of the squares" },
    { "beta", GY_OPT_BETA, GY_KIND_REAL, 0, 100, 0.75, "exponent" },
    { "k", GY_OPT_K, GY_KIND_REAL, 1e-6, 1e6, 1, "added to the sum" },
};
static const struct gy_option layer_dropout_options[] = {
    { NULL, GY_OPT_RATE, GY_KIND_REAL, 0, 0.999, 0, "share that is set to zero in training" },
};
static const struct gy_option layer_leaky_options[] = {
    { "slope", GY_OPT_SLOPE, GY_KIND_REAL, 0, 1, 0.1, "below 0; darknet has 0.1, PyTorch 0.01" },
};
static const struct gy_option layer_shortcut_options[] = {
    { NULL, GY_OPT_OUT, GY_KIND_WHOLE, 1, GY_MAX_CHANNELS, 0, "output channels" },
    { "stride", GY_OPT_STRIDE, GY_KIND_PAIR, 1, GY_MAX_SIDE, 1, "step between pixels that are kept" },
};
static const struct gy_option layer_softmax_options[] = {
    { "smooth", GY_OPT_SMOOTH, GY_KIND_REAL, 0, 0.999, 0,
      "label smoothing: share of the target spread over all classes, in training alone" },
};

#define LAYER_OPTIONS(kind) layer_##kind##_options, (int)GY_COUNT(layer_##kind##_options)
#define LAYER_NO_OPTIONS NULL, 0

static const struct gy_layer_row layer_rows[GY_LAYERS] = {
    [GY_LAYER_INPUT] = { "input", 0, 0, LAYER_OPTIONS(input), layer_shape_input, "input HxWxC",
                         "one sample; the first line" },
    [GY_LAYER_CONV] = { "conv", 0, 0, LAYER_OPTIONS(conv), layer_shape_conv, "conv K RxS",
                        "convolution to K channels" },
    [GY_LAYER_LINEAR] = { "linear", 0, 0, LAYER_OPTIONS(linear), layer_shape_linear, "linear K",
                          "fully connected; flattens its input" },
    [GY_LAYER_BN] = { "bn", 0, 0, LAYER_OPTIONS(bn), layer_shape_bn, "bn",
                      "batch normalisation; to train it needs 2 values a channel or more" },
    [GY_LAYER_RELU] = { "relu", 0, 0, LAYER_NO_OPTIONS, layer_shape_same, "relu", "max(x, 0)" },
    [GY_LAYER_RELU6] = { "relu6", 0, 0, LAYER_NO_OPTIONS, layer_shape_same, "relu6", "min(max(x, 0), 6)" },
    [GY_LAYER_SIGMOID] = { "sigmoid", 0, 0, LAYER_NO_OPTIONS, layer_shape_same, "sigmoid", "1 / (1 + exp(-x))" },
    [GY_LAYER_TANH] = { "tanh", 0, 0, LAYER_NO_OPTIONS, layer_shape_same, "tanh", "hyperbolic tangent" },
    [GY_LAYER_LEAKY] = { "leaky", 0, 0, LAYER_OPTIONS(leaky), layer_shape_leaky, "leaky",
                         "x, and slope * x below 0" },
    [GY_LAYER_MAXPOOL] = { "maxpool", 0, 0, LAYER_OPTIONS(maxpool), layer_shape_maxpool, "maxpool RxS",
                           "largest of a window" },
    [GY_LAYER_AVGPOOL] = { "avgpool", 0, 0, LAYER_OPTIONS(avgpool), layer_shape_avgpool, "avgpool RxS",
                           "mean of a window" },
    [GY_LAYER_GAP] = { "gap", 0, 0, LAYER_NO_OPTIONS, layer_shape_gap, "gap", "mean of the whole image, a channel" },
    [GY_LAYER_LRN] = { "lrn", 0, 0, LAYER_OPTIONS(lrn), layer_shape_lrn, "lrn SIZE",
                       "local response norm: x * (k + alpha / SIZE * sum of squares)^-beta" },
    [GY_LAYER_DROPOUT] = { "dropout", 0, 0, LAYER_OPTIONS(dropout), layer_shape_dropout, "dropout RATE",
                           "random zeros in training, the rest scaled up" },
    [GY_LAYER_ADD] = { "add", 1, GY_NODE_INPUTS - 1, LAYER_NO_OPTIONS, layer_shape_add, "add NAME ...",
                       "adds named values to the current one" },
    [GY_LAYER_CONCAT] = { "concat", 1, GY_NODE_INPUTS - 1, LAYER_NO_OPTIONS, layer_shape_concat, "concat NAME ...",
                          "channels of the current value, then of the named ones" },
    [GY_LAYER_FLATTEN] = { "flatten", 0, 0, LAYER_NO_OPTIONS, layer_shape_flatten, "flatten",
                           "HxWxC becomes 1x1x(H*W*C)" },
    [GY_LAYER_SHORTCUT] = { "shortcut", 0, 0, LAYER_OPTIONS(shortcut), layer_shape_shortcut, "shortcut K",
                            "keeps some pixels, adds (K-C)/2 zero channels on each side" },
    [GY_LAYER_SOFTMAX] = { "softmax", 0, 0, LAYER_OPTIONS(softmax), layer_shape_loss, "softmax",
                           "loss: cross-entropy of the softmax; the last line" },
    [GY_LAYER_MSE] = { "mse", 0, 0, LAYER_NO_OPTIONS, layer_shape_loss, "mse",
                       "loss: mean squared error; the last line" },
};

GY_INT const struct gy_layer_row *gy_layer_row(int layer) { return &layer_rows[layer]; }

GY_INT const char *gy_layer_name(int layer)
{
    return layer >= 0 && layer < GY_LAYERS ? layer_rows[layer].word : "?";
}

GY_INT int gy_layer_find(const char *word)
{
    for (int i = 0; i < GY_LAYERS; i++)
        if (strcmp(layer_rows[i].word, word) == 0)
            return i;
    return -1;
}

GY_INT const char *gy_layer_suggest(const char *word)
{
    const char *words[GY_LAYERS + 2] = { "repeat", "block" };
    for (int i = 0; i < GY_LAYERS; i++)
        words[i + 2] = layer_rows[i].word;
    return gy_text_nearest(word, words, GY_COUNT(words));
}

static void layer_help_option(struct gy_sink *sink, const struct gy_option *o)
{
    static const char *const value[] = { " N", " N|HxW", "", " X", "" };
    char range[64] = "", word[40];
    snprintf(word, sizeof word, "%s%s", o->word ? o->word : "", o->word ? value[o->kind] : "");
    if (o->kind != GY_KIND_FLAG)
        gy_text_print(range, sizeof range, " (%g to %.10g)", o->lo, o->hi);
    if (o->word && o->kind != GY_KIND_FLAG && o->initial >= 0)
        gy_sink_printf(sink, "      %-18s %s%s; default %g\n", word, o->about, range, o->initial);
    else if (o->word)
        gy_sink_printf(sink, "      %-18s %s%s\n", word, o->about, range);
}

GY_INT void gy_layer_help(struct gy_sink *sink)
{
    gy_sink_printf(sink, "%s",
                   "A net is a text: one layer a line, from the input to the loss. '#' begins a comment.\n"
                   "\n"
                   "  input 32x32x3\n"
                   "  conv1: conv 16 3x3           a layer may have a name; its parameters are conv1.weight, ...\n"
                   "  repeat layer1 0..2 {         three copies; names inside get the prefix layer1.0. to layer1.2.\n"
                   "    conv1: conv 16 3x3\n"
                   "           add in              'in' is the value that entered the block\n"
                   "  }\n"
                   "  block head {                 one copy, prefix head.\n"
                   "    relu\n"
                   "  }\n"
                   "  gap\n"
                   "  linear 10\n"
                   "  softmax\n"
                   "\n"
                   "A layer works on the value of the line before. 'from NAME' at its end takes a named value instead.\n"
                   "Names are searched in the own block first, then outwards; only values above can be named. Every\n"
                   "value must be used.\n"
                   "\n"
                   "Layers and their options:\n");
    for (int i = 0; i < GY_LAYERS; i++) {
        gy_sink_printf(sink, "  %-22s %s\n", layer_rows[i].usage, layer_rows[i].about);
        for (int k = 0; k < layer_rows[i].option_count; k++)
            layer_help_option(sink, &layer_rows[i].options[k]);
    }
}
