/* SPDX-License-Identifier: MIT */
/* zoo.c: well-known nets for gyre_zoo_text, in the layout that a user would write by hand. Residual
 * nets come from a table of stages; the others are text. Names of layers are PyTorch's
 * (torchvision's where it has the net), so that weights can be exchanged. */
#include "engine/text/graph.h"

struct zoo_net {
    const char *name, *about;
    int32_t classes, h, w, c;
    int32_t least;     /* smallest side that fits */
    void (*write)(struct gy_sink *sink, const struct zoo_net *net);
    const char *text;  /* plain nets: from behind the input up to the layer that gives the scores */
    const char *last;  /* label of that layer, with its blanks */
    int blocks[4];     /* residual nets: blocks of each stage */
};

/* ---- residual nets ---- */

/* Opens one block, or a repeated one, of a stage. */
static void zoo_open(struct gy_sink *sink, int stage, int first, int last)
{
    if (first == last)
        gy_sink_printf(sink, "\nblock layer%d.%d {\n", stage, first);
    else
        gy_sink_printf(sink, "\nrepeat layer%d %d..%d {\n", stage, first, last);
}

static const char *zoo_stride(int stride) { return stride == 2 ? " stride 2" : ""; }

/* from: "" or " from in", where the line above is another branch */
static void zoo_conv_bn(struct gy_sink *sink, int number, int channels, int window, int stride,
                        const char *from)
{
    gy_sink_printf(sink, "  conv%d: conv %d %dx%d%s%s\n  bn%d:   bn\n", number, channels, window, window,
                   zoo_stride(stride), from, number);
}

static void zoo_relu(struct gy_sink *sink) { gy_sink_printf(sink, "         relu\n"); }

static void zoo_basic(struct gy_sink *sink, int width, int stride, const char *from)
{
    zoo_conv_bn(sink, 1, width, 3, stride, from);
    zoo_relu(sink);
    zoo_conv_bn(sink, 2, width, 3, 1, "");
}

/* The stride stands in the 3x3 convolution: v1.5. */
static void zoo_bottleneck(struct gy_sink *sink, int width, int stride, const char *from)
{
    zoo_conv_bn(sink, 1, width, 1, 1, from);
    zoo_relu(sink);
    zoo_conv_bn(sink, 2, width, 3, stride, "");
    zoo_relu(sink);
    zoo_conv_bn(sink, 3, 4 * width, 1, 1, "");
}

/* Closes a block whose result is added to `value`. */
static void zoo_close(struct gy_sink *sink, const char *value)
{
    gy_sink_printf(sink, "         add %s\n         relu\n}\n", value);
}

/* A stage: its first block changes width or size and then has a projection; the others are equal.
 * The projection comes first: backward, which goes the other way, then writes conv1's gradient to
 * every pixel, and the strided projection adds to the few that it read. */
static void zoo_stage(struct gy_sink *sink, int stage, int blocks, int bottleneck)
{
    void (*const body)(struct gy_sink *, int, int, const char *) =
        bottleneck ? zoo_bottleneck : zoo_basic;
    const int width = 64 << (stage - 1), stride = stage > 1 ? 2 : 1, project = stage > 1 || bottleneck;
    if (project) {
        zoo_open(sink, stage, 0, 0);
        gy_sink_printf(sink, "  downsample.0: conv %d 1x1%s\n  downsample.1: bn\n",
                       bottleneck ? 4 * width : width, zoo_stride(stride));
        body(sink, width, stride, " from in");
        zoo_close(sink, "downsample.1");
    }
    zoo_open(sink, stage, project, blocks - 1);
    body(sink, width, 1, "");
    zoo_close(sink, "in");
}

static void zoo_imagenet(struct gy_sink *sink, const struct zoo_net *net, int bottleneck)
{
    gy_sink_printf(sink, "conv1: conv 64 7x7 stride 2\nbn1:   bn\n       relu\n       maxpool 3x3 stride 2 pad 1\n");
    for (int stage = 1; stage <= 4; stage++)
        zoo_stage(sink, stage, net->blocks[stage - 1], bottleneck);
    gy_sink_printf(sink, "\n    gap\n");
}

static void zoo_resnet(struct gy_sink *sink, const struct zoo_net *net) { zoo_imagenet(sink, net, 0); }

static void zoo_resnet_deep(struct gy_sink *sink, const struct zoo_net *net) { zoo_imagenet(sink, net, 1); }

/* 6n + 2 layers for CIFAR (He et al. 2015, section 4.2), option A: shortcuts without weights. */
static void zoo_cifar(struct gy_sink *sink, const struct zoo_net *net)
{
    gy_sink_printf(sink, "conv1: conv 16 3x3\nbn1:   bn\n       relu\n");
    for (int stage = 1; stage <= 3; stage++) {
        const int width = 8 << stage;
        if (stage > 1) {
            zoo_open(sink, stage, 0, 0);
            zoo_basic(sink, width, 2, "");
            gy_sink_printf(sink, "         shortcut %d stride 2 from in\n", width);
            zoo_close(sink, "bn2");
        }
        zoo_open(sink, stage, stage > 1, net->blocks[0] - 1);
        zoo_basic(sink, width, 1, "");
        zoo_close(sink, "in");
    }
    gy_sink_printf(sink, "\n        gap\n");
}

/* Preactivation (He et al. 2016, arXiv:1603.05027): a stage's first block begins its shortcut, too,
 * behind the first ReLU. */
static void zoo_preact(struct gy_sink *sink, const struct zoo_net *net)
{
    gy_sink_printf(sink, "conv1: conv 16 3x3\n");
    for (int part = 0; part < 6; part++) {
        const int first = part % 2 == 0, project = first && part > 0, width = 16 << part / 2;
        zoo_open(sink, part / 2 + 1, !first, first ? 0 : net->blocks[0] - 1);
        gy_sink_printf(sink, "  bn1:   bn\n  %srelu\n", first ? "pre:   " : "       ");
        if (project)
            gy_sink_printf(sink, "  shortcut.conv: conv %d 1x1 stride 2\n", width);
        gy_sink_printf(sink, "  conv1: conv %d 3x3%s\n  bn2:   bn\n         relu\n", width,
                       project ? " stride 2 from pre" : "");
        gy_sink_printf(sink, "  conv2: conv %d 3x3\n         add %s\n}\n", width,
                       project ? "shortcut.conv" : first ? "pre" : "in");
    }
    gy_sink_printf(sink, "\nbn:     bn\n        relu\n        gap\n");
}

/* ---- plain nets ---- */

static void zoo_plain(struct gy_sink *sink, const struct zoo_net *net) { gy_sink_printf(sink, "%s", net->text); }

static const char zoo_lenet5[] =
    "conv1: conv 6 5x5 bias\n       relu\n       maxpool 2x2\n"
    "conv2: conv 16 5x5 pad 0 bias\n       relu\n       maxpool 2x2\n"
    "fc1:   linear 120\n       relu\nfc2:   linear 84\n       relu\n";

static const char zoo_alexnet[] =
    "features.0:   conv 64 11x11 stride 4 pad 2 bias\n"
    "              relu\n              maxpool 3x3 stride 2\n"
    "features.3:   conv 192 5x5 bias\n              relu\n              maxpool 3x3 stride 2\n"
    "features.6:   conv 384 3x3 bias\n              relu\n"
    "features.8:   conv 256 3x3 bias\n              relu\n"
    "features.10:  conv 256 3x3 bias\n              relu\n              maxpool 3x3 stride 2\n"
    "              dropout 0.5\nclassifier.1: linear 4096\n              relu\n"
    "              dropout 0.5\nclassifier.4: linear 4096\n              relu\n";

static const char zoo_alexnet_bn[] =
    "conv1: conv 96 11x11 stride 4 pad 2\nbn1:   bn\n       relu\n       maxpool 3x3 stride 2\n"
    "conv2: conv 256 5x5\nbn2:   bn\n       relu\n       maxpool 3x3 stride 2\n"
    "conv3: conv 384 3x3\nbn3:   bn\n       relu\n"
    "conv4: conv 384 3x3\nbn4:   bn\n       relu\n"
    "conv5: conv 256 3x3\nbn5:   bn\n       relu\n       maxpool 3x3 stride 2\n"
    "fc6:   linear 4096 nobias\nbn6:   bn\n       relu\n       dropout 0.5\n"
    "fc7:   linear 4096 nobias\nbn7:   bn\n       relu\n       dropout 0.5\n";

static const char zoo_fashion[] =
    "conv1: conv 32 3x3\nbn1:   bn\n       relu\n       maxpool 2x2\n"
    "conv2: conv 64 3x3\nbn2:   bn\n       relu\n       maxpool 2x2\n"
    "conv3: conv 96 3x3\nbn3:   bn\nside:  relu\n"
    "conv4: conv 96 3x3\nbn4:   bn\n       add side\n       relu\n       maxpool 2x2\n"
    "       dropout 0.1\n";

static const char zoo_mlp[] = "fc1: linear 256\n     relu\nfc2: linear 128\n     relu\n";

static const struct zoo_net zoo_nets[] = {
    { "lenet5", "LeNet-5 (LeCun et al. 1998) with ReLU and max pooling",
      10, 28, 28, 1, 12, zoo_plain, zoo_lenet5, "fc3:   ", { 0 } },
    { "fashion", "small convolutional net for Fashion-MNIST: the demo",
      10, 28, 28, 1, 8, zoo_plain, zoo_fashion, "fc:    ", { 0 } },
    { "logistic", "logistic regression on pixels",
      10, 28, 28, 1, 1, zoo_plain, "", "fc: ", { 0 } },
    { "mlp", "two hidden layers",
      10, 28, 28, 1, 1, zoo_plain, zoo_mlp, "fc3: ", { 0 } },
    { "alexnet", "AlexNet in one tower (Krizhevsky 2014), torchvision's weights fit",
      1000, 224, 224, 3, 63, zoo_plain, zoo_alexnet, "classifier.6: ", { 0 } },
    { "alexnet-bn", "AlexNet with batch norm, for large batches (You et al. 2017)",
      1000, 224, 224, 3, 63, zoo_plain, zoo_alexnet_bn, "fc8:   ", { 0 } },
    { "resnet18", "ResNet-18 (He et al. 2015), torchvision's weights fit",
      1000, 224, 224, 3, 1, zoo_resnet, NULL, "fc: ", { 2, 2, 2, 2 } },
    { "resnet34", "ResNet-34, torchvision's weights fit",
      1000, 224, 224, 3, 1, zoo_resnet, NULL, "fc: ", { 3, 4, 6, 3 } },
    { "resnet50", "ResNet-50 v1.5: stride in the 3x3; torchvision's weights fit",
      1000, 224, 224, 3, 1, zoo_resnet_deep, NULL, "fc: ", { 3, 4, 6, 3 } },
    { "resnet101", "ResNet-101 v1.5, torchvision's weights fit",
      1000, 224, 224, 3, 1, zoo_resnet_deep, NULL, "fc: ", { 3, 4, 23, 3 } },
    { "resnet152", "ResNet-152 v1.5, torchvision's weights fit",
      1000, 224, 224, 3, 1, zoo_resnet_deep, NULL, "fc: ", { 3, 8, 36, 3 } },
    { "resnet20", "ResNet-20 for CIFAR, shortcuts of option A",
      10, 32, 32, 3, 1, zoo_cifar, NULL, "linear: ", { 3 } },
    { "resnet32", "ResNet-32 for CIFAR, shortcuts of option A",
      10, 32, 32, 3, 1, zoo_cifar, NULL, "linear: ", { 5 } },
    { "resnet44", "ResNet-44 for CIFAR, shortcuts of option A",
      10, 32, 32, 3, 1, zoo_cifar, NULL, "linear: ", { 7 } },
    { "resnet56", "ResNet-56 for CIFAR, shortcuts of option A",
      10, 32, 32, 3, 1, zoo_cifar, NULL, "linear: ", { 9 } },
    { "resnet110", "ResNet-110 for CIFAR, shortcuts of option A",
      10, 32, 32, 3, 1, zoo_cifar, NULL, "linear: ", { 18 } },
    { "preact-resnet20", "ResNet-20 with preactivation for CIFAR, projections where size changes",
      10, 32, 32, 3, 1, zoo_preact, NULL, "linear: ", { 3 } },
};

GY_INT const char *gy_zoo_name(int index)
{
    return index >= 0 && index < (int)GY_COUNT(zoo_nets) ? zoo_nets[index].name : NULL;
}

GY_INT const char *gy_zoo_about(int index)
{
    return index >= 0 && index < (int)GY_COUNT(zoo_nets) ? zoo_nets[index].about : NULL;
}

static int zoo_find(const char *name, const struct zoo_net **net, struct gy_error *err)
{
    const char *names[GY_COUNT(zoo_nets)];
    for (size_t i = 0; i < GY_COUNT(zoo_nets); i++) {
        names[i] = zoo_nets[i].name;
        *net = &zoo_nets[i];
        if (strcmp(name, names[i]) == 0)
            return GY_OK;
    }
    const char *near = gy_text_nearest(name, names, GY_COUNT(names));
    return GY_FAIL(err, GY_E_ARG,
                   near ? "the zoo has no net '%.60s'; did you mean '%s'?" : "the zoo has no net '%.60s'%s", name,
                   near ? near : "");
}

GY_INT int gy_zoo_write(struct gy_sink *sink, const char *name, int32_t classes, int32_t side_h, int32_t side_w,
                        int32_t channels, struct gy_error *err)
{
    const struct zoo_net *net;
    GY_TRY(zoo_find(name, &net, err));
    const int32_t h = side_h ? side_h : net->h, w = side_w ? side_w : net->w, c = channels ? channels : net->c;
    const int32_t k = classes ? classes : net->classes;
    if (h < net->least || w < net->least || h > GY_MAX_SIDE || w > GY_MAX_SIDE)
        return GY_FAIL(err, GY_E_ARG, "%s needs images of %d to %d pixels a side, not %d x %d", name, net->least,
                       GY_MAX_SIDE, h, w);
    if (k < 2 || k > GY_MAX_CHANNELS || c < 1 || c > GY_MAX_CHANNELS)
        return GY_FAIL(err, GY_E_ARG, "%s with %d classes and %d channels; 2 to %d and 1 to %d are allowed", name, k, c,
                       GY_MAX_CHANNELS, GY_MAX_CHANNELS);
    gy_sink_printf(sink, "# %s: %s\ninput %dx%dx%d\n\n", net->name, net->about, h, w, c);
    net->write(sink, net);
    gy_sink_printf(sink, "%slinear %d\n%*ssoftmax\n", net->last, k, (int)strlen(net->last), "");
    return GY_OK;
}
