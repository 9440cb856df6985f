/* SPDX-License-Identifier: MIT */
/* Well-known nets, written in the language that users write. The residual nets come from one table of stages; the others are text.
 * Names of layers are PyTorch's (torchvision's where it has the net), so that weights can be exchanged. */
#include "graph.h"

struct zoo_net {
    const char *name, *about;
    int32_t classes, h, w, c;
    int32_t least;                       /* smallest side that fits */
    void (*write)(struct gy_sink *sink, const struct zoo_net *net, int32_t classes);
    int stage[4];                        /* residual nets: blocks a stage */
    const char *text;                    /* others: everything between input and the last layer */
    const char *last;                    /* others: name of the layer that gives the scores, and its words */
};

/* ---- residual nets ---- */


static void zoo_open_blocks(struct gy_sink *sink, const char *stage, int first, int last)
{
    if (first == last)
        gy_sink_printf(sink, "block %s.%d {\n", stage, first);
    else
        gy_sink_printf(sink, "repeat %s %d..%d {\n", stage, first, last);
}

static void zoo_conv_bn(struct gy_sink *sink, int number, int channels, int window, int stride)
{
    char step[24] = "";
    if (stride > 1)
        snprintf(step, sizeof step, " stride %d", stride);
    gy_sink_printf(sink, "  conv%d: conv %d %dx%d%s\n  bn%d: bn\n", number, channels, window, window, step, number);
}

/* The end of a block: plain sum, or sum with a projected shortcut. */
static void zoo_join(struct gy_sink *sink, int last, int channels, int stride, int project)
{
    if (!project) {
        gy_sink_printf(sink, "  add in\n  relu\n}\n");
        return;
    }
    gy_sink_printf(sink, stride > 1 ? "  downsample.0: conv %d 1x1 stride %d from in\n" : "  downsample.0: conv %d 1x1 from in\n", channels,
                   stride);
    gy_sink_printf(sink, "  downsample.1: bn\n  add bn%d\n  relu\n}\n", last);
}

static void zoo_basic(struct gy_sink *sink, int width, int stride, int project)
{
    zoo_conv_bn(sink, 1, width, 3, stride);
    gy_sink_printf(sink, "  relu\n");
    zoo_conv_bn(sink, 2, width, 3, 1);
    zoo_join(sink, 2, width, stride, project);
}

static void zoo_bottleneck(struct gy_sink *sink, int width, int stride, int project)
{
    zoo_conv_bn(sink, 1, width, 1, 1);
    gy_sink_printf(sink, "  relu\n");
    zoo_conv_bn(sink, 2, width, 3, stride);
    gy_sink_printf(sink, "  relu\n");
    zoo_conv_bn(sink, 3, 4 * width, 1, 1);
    zoo_join(sink, 3, 4 * width, stride, project);
}

static void zoo_stages(struct gy_sink *sink, const struct zoo_net *net, int bottleneck)
{
    for (int s = 0; s < 4; s++) {
        char stage[16];
        const int width = 64 << s, stride = s ? 2 : 1;
        void (*const block)(struct gy_sink *, int, int, int) = bottleneck ? zoo_bottleneck : zoo_basic;
        int first = 0;
        snprintf(stage, sizeof stage, "layer%d", s + 1);
        if (s || bottleneck) {
            zoo_open_blocks(sink, stage, 0, 0);
            block(sink, width, stride, 1);
            first = 1;
        }
        if (net->stage[s] > first) {
            zoo_open_blocks(sink, stage, first, net->stage[s] - 1);
            block(sink, width, 1, 0);
        }
    }
}

static void zoo_resnet_of(struct gy_sink *sink, const struct zoo_net *net, int32_t classes, int bottleneck)
{
    gy_sink_printf(sink, "conv1: conv 64 7x7 stride 2\nbn1: bn\nrelu\nmaxpool 3x3 stride 2 pad 1\n");
    zoo_stages(sink, net, bottleneck);
    gy_sink_printf(sink, "gap\nfc: linear %d\nsoftmax\n", classes);
}

static void zoo_resnet(struct gy_sink *sink, const struct zoo_net *net, int32_t classes) { zoo_resnet_of(sink, net, classes, 0); }

static void zoo_resnet_deep(struct gy_sink *sink, const struct zoo_net *net, int32_t classes)
{
    zoo_resnet_of(sink, net, classes, 1);
}

/* CIFAR nets of He et al. 2015, section 4.2: 6n + 2 layers, option A: shortcuts without weights. */
static void zoo_cifar(struct gy_sink *sink, const struct zoo_net *net, int32_t classes)
{
    gy_sink_printf(sink, "conv1: conv 16 3x3\nbn1: bn\nrelu\n");
    for (int s = 0; s < 3; s++) {
        char stage[16];
        const int width = 16 << s;
        snprintf(stage, sizeof stage, "layer%d", s + 1);
        if (s) {
            zoo_open_blocks(sink, stage, 0, 0);
            zoo_conv_bn(sink, 1, width, 3, 2);
            gy_sink_printf(sink, "  relu\n");
            zoo_conv_bn(sink, 2, width, 3, 1);
            gy_sink_printf(sink, "  side: shortcut %d stride 2 from in\n  add bn2\n  relu\n}\n", width);
        }
        zoo_open_blocks(sink, stage, s > 0, net->stage[0] - 1);
        zoo_basic(sink, width, 1, 0);
    }
    gy_sink_printf(sink, "gap\nlinear: linear %d\nsoftmax\n", classes);
}

/* ---- nets that are text ---- */

static void zoo_plain(struct gy_sink *sink, const struct zoo_net *net, int32_t classes)
{
    gy_sink_printf(sink, "%s%s: linear %d\nsoftmax\n", net->text, net->last, classes);
}

static const char zoo_lenet5[] = "conv1: conv 6 5x5 bias\nrelu\nmaxpool 2x2\nconv2: conv 16 5x5 pad 0 bias\nrelu\nmaxpool 2x2\n"
                                 "flatten\nfc1: linear 120\nrelu\nfc2: linear 84\nrelu\n";

static const char zoo_alexnet[] =
    "features.0: conv 64 11x11 stride 4 pad 2 bias\nrelu\nmaxpool 3x3 stride 2\n"
    "features.3: conv 192 5x5 pad 2 bias\nrelu\nmaxpool 3x3 stride 2\n"
    "features.6: conv 384 3x3 bias\nrelu\nfeatures.8: conv 256 3x3 bias\nrelu\n"
    "features.10: conv 256 3x3 bias\nrelu\nmaxpool 3x3 stride 2\nflatten\n"
    "dropout 0.5\nclassifier.1: linear 4096\nrelu\ndropout 0.5\nclassifier.4: linear 4096\nrelu\n";

static const char zoo_alexnet_bn[] =
    "conv1: conv 96 11x11 stride 4 pad 2\nbn1: bn\nrelu\nmaxpool 3x3 stride 2\n"
    "conv2: conv 256 5x5 pad 2\nbn2: bn\nrelu\nmaxpool 3x3 stride 2\n"
    "conv3: conv 384 3x3\nbn3: bn\nrelu\nconv4: conv 384 3x3\nbn4: bn\nrelu\n"
    "conv5: conv 256 3x3\nbn5: bn\nrelu\nmaxpool 3x3 stride 2\nflatten\n"
    "fc6: linear 4096 nobias\nbn6: bn\nrelu\ndropout 0.5\nfc7: linear 4096 nobias\nbn7: bn\nrelu\ndropout 0.5\n";

static const char zoo_mlp[] = "flatten\nfc1: linear 256\nrelu\nfc2: linear 128\nrelu\n";

static const char zoo_fashion[] =
    "conv1: conv 32 3x3\nbn1: bn\nrelu\nconv2: conv 32 3x3\nbn2: bn\nrelu\nmaxpool 2x2\n"
    "conv3: conv 64 3x3\nbn3: bn\nrelu\nconv4: conv 64 3x3\nbn4: bn\nrelu\nmaxpool 2x2\n"
    "conv5: conv 128 3x3\nbn5: bn\nrelu\ngap\ndropout 0.1\n";

static const struct zoo_net zoo_nets[] = {
    { "lenet5", "LeNet-5 (LeCun et al. 1998) with ReLU and max pooling", 10, 28, 28, 1, 12, zoo_plain, { 0 }, zoo_lenet5, "fc3" },
    { "alexnet", "AlexNet, one tower (Krizhevsky 2014), torchvision's weights fit", 1000, 224, 224, 3, 63, zoo_plain, { 0 }, zoo_alexnet, "classifier.6" },
    { "alexnet-bn", "AlexNet with batch norm, for large batches (You et al. 2017)", 1000, 224, 224, 3, 63, zoo_plain, { 0 }, zoo_alexnet_bn, "fc8" },
    { "resnet18", "ResNet-18 (He et al. 2015), torchvision's weights fit", 1000, 224, 224, 3, 1, zoo_resnet, { 2, 2, 2, 2 }, NULL, NULL },
    { "resnet34", "ResNet-34", 1000, 224, 224, 3, 1, zoo_resnet, { 3, 4, 6, 3 }, NULL, NULL },
    { "resnet50", "ResNet-50 v1.5: stride in the 3x3", 1000, 224, 224, 3, 1, zoo_resnet_deep, { 3, 4, 6, 3 }, NULL, NULL },
    { "resnet101", "ResNet-101 v1.5", 1000, 224, 224, 3, 1, zoo_resnet_deep, { 3, 4, 23, 3 }, NULL, NULL },
    { "resnet152", "ResNet-152 v1.5", 1000, 224, 224, 3, 1, zoo_resnet_deep, { 3, 8, 36, 3 }, NULL, NULL },
    { "resnet20", "CIFAR ResNet-20, option A shortcuts", 10, 32, 32, 3, 1, zoo_cifar, { 3 }, NULL, NULL },
    { "resnet32", "CIFAR ResNet-32", 10, 32, 32, 3, 1, zoo_cifar, { 5 }, NULL, NULL },
    { "resnet44", "CIFAR ResNet-44", 10, 32, 32, 3, 1, zoo_cifar, { 7 }, NULL, NULL },
    { "resnet56", "CIFAR ResNet-56", 10, 32, 32, 3, 1, zoo_cifar, { 9 }, NULL, NULL },
    { "resnet110", "CIFAR ResNet-110", 10, 32, 32, 3, 1, zoo_cifar, { 18 }, NULL, NULL },
    { "fashion", "a small convolutional net for 28x28 gray images: the demo", 10, 28, 28, 1, 4, zoo_plain, { 0 }, zoo_fashion, "fc" },
    { "logistic", "logistic regression on pixels", 10, 28, 28, 1, 1, zoo_plain, { 0 }, "", "fc" },
    { "mlp", "two hidden layers", 10, 28, 28, 1, 1, zoo_plain, { 0 }, zoo_mlp, "fc3" },
};

GY_INT const char *gy_zoo_name(int index)
{
    return index >= 0 && index < (int)GY_COUNT(zoo_nets) ? zoo_nets[index].name : NULL;
}

GY_INT const char *gy_zoo_about(int index)
{
    return index >= 0 && index < (int)GY_COUNT(zoo_nets) ? zoo_nets[index].about : NULL;
}

static const struct zoo_net *zoo_find(const char *name, struct gy_error *err)
{
    const char *names[GY_COUNT(zoo_nets)];
    for (size_t i = 0; i < GY_COUNT(zoo_nets); i++) {
        names[i] = zoo_nets[i].name;
        if (strcmp(name, names[i]) == 0)
            return &zoo_nets[i];
    }
    const char *near = gy_text_nearest(name, names, GY_COUNT(names));
    GY_FAIL(err, GY_E_ARG, "the zoo has no net '%.60s'%s%s%s", name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return NULL;
}

GY_INT int gy_zoo_write(struct gy_sink *sink, const char *name, int32_t classes, int32_t side_h, int32_t side_w, int32_t channels,
                        struct gy_error *err)
{
    const struct zoo_net *net = zoo_find(name, err);
    if (!net)
        return GY_E_ARG;
    const int32_t h = side_h ? side_h : net->h, w = side_w ? side_w : net->w, c = channels ? channels : net->c;
    const int32_t k = classes ? classes : net->classes;
    if (h < net->least || w < net->least || h > GY_MAX_SIDE || w > GY_MAX_SIDE)
        return GY_FAIL(err, GY_E_ARG, "%s needs images of %d to %d pixels a side, not %d x %d", name, net->least, GY_MAX_SIDE, h, w);
    if (k < 1 || k > GY_MAX_CHANNELS || c < 1 || c > GY_MAX_CHANNELS)
        return GY_FAIL(err, GY_E_ARG, "%s: %d classes and %d channels; both must be in 1 .. %d", name, k, c, GY_MAX_CHANNELS);
    gy_sink_printf(sink, "# %s: %s\ninput %dx%dx%d\n", net->name, net->about, h, w, c);
    net->write(sink, net, k);
    return GY_OK;
}
