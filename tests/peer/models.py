# SPDX-License-Identifier: MIT
"""The nets of the zoo and a few small ones as PyTorch modules, under the parameter names that Gyre
uses.

AlexNet and the ImageNet ResNets are torchvision's own; the rest is written here from the papers."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def act(x):
    """The activation of the nets written here: ReLU, or tanh while SMOOTH is set."""
    return torch.tanh(x) if SMOOTH else F.relu(x)


def pool(x, window, stride):
    """Max pooling, or average pooling while SMOOTH is set."""
    return F.avg_pool2d(x, window, stride) if SMOOTH else F.max_pool2d(x, window, stride)


SMOOTH = False


class Option(nn.Module):
    """Shortcut of type A (He et al. 2015): every stride-th pixel, new channels zero, half of them before and after."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.pad, self.stride = (after - before) // 2, stride

    def forward(self, x):
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.pad, self.pad))


class CifarBlock(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = Option(before, after, stride) if stride != 1 or before != after else nn.Identity()

    def forward(self, x):
        y = act(self.bn1(self.conv1(x)))
        return act(self.bn2(self.conv2(y)) + self.shortcut(x))


class CifarResNet(nn.Module):
    def __init__(self, depth, classes=10, channels=3):
        super().__init__()
        blocks, width = (depth - 2) // 6, 16
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        for stage in range(3):
            after, layers = 16 << stage, []
            for block in range(blocks):
                layers.append(CifarBlock(width, after, 2 if stage > 0 and block == 0 else 1))
                width = after
            setattr(self, "layer%d" % (stage + 1), nn.Sequential(*layers))
        self.linear = nn.Linear(64, classes)

    def forward(self, x):
        x = act(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


class PreactBlock(nn.Module):
    """Preactivation (He et al. 2016, arXiv:1603.05027); the first block of a stage preactivates its shortcut, too."""

    def __init__(self, before, after, stride, first):
        super().__init__()
        self.first = first
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.shortcut = nn.Sequential()
        if before != after:
            self.shortcut.add_module("conv", nn.Conv2d(before, after, 1, stride, bias=False))

    def forward(self, x):
        pre = act(self.bn1(x))
        return self.conv2(act(self.bn2(self.conv1(pre)))) + self.shortcut(pre if self.first else x)


class PreactResNet(nn.Module):
    def __init__(self, depth, classes=10):
        super().__init__()
        blocks, width = (depth - 2) // 6, 16
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        for stage in range(3):
            after, layers = 16 << stage, []
            for block in range(blocks):
                layers.append(PreactBlock(width, after, 2 if stage > 0 and block == 0 else 1, block == 0))
                width = after
            setattr(self, "layer%d" % (stage + 1), nn.Sequential(*layers))
        self.bn = nn.BatchNorm2d(64)
        self.linear = nn.Linear(64, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.conv1(x))))
        return self.linear(act(self.bn(x)).mean((2, 3)))


def he(model):
    """Weights as He et al. and torchvision's ResNets start them."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def torchvision_model(name):
    import torchvision

    return getattr(torchvision.models, name)(weights=None)


class LeNet(nn.Module):
    """LeNet-5 with ReLU and max pooling."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

    def forward(self, x):
        x = pool(act(self.conv1(x)), 2, 2)
        x = pool(act(self.conv2(x)), 2, 2)
        return self.fc3(act(self.fc2(act(self.fc1(x.flatten(1))))))


class AlexNetBN(nn.Module):
    """AlexNet with batch norm after every layer but the last, no biases there."""

    def __init__(self, classes=1000):
        super().__init__()
        shapes = [(3, 96, 11, 4, 2), (96, 256, 5, 1, 2), (256, 384, 3, 1, 1), (384, 384, 3, 1, 1), (384, 256, 3, 1, 1)]
        for i, (before, after, window, stride, pad) in enumerate(shapes, 1):
            setattr(self, "conv%d" % i, nn.Conv2d(before, after, window, stride, pad, bias=False))
            setattr(self, "bn%d" % i, nn.BatchNorm2d(after))
        self.fc6, self.bn6 = nn.Linear(256 * 36, 4096, bias=False), nn.BatchNorm1d(4096)
        self.fc7, self.bn7 = nn.Linear(4096, 4096, bias=False), nn.BatchNorm1d(4096)
        self.fc8 = nn.Linear(4096, classes)

    def forward(self, x):
        for i in range(1, 6):
            x = act(getattr(self, "bn%d" % i)(getattr(self, "conv%d" % i)(x)))
            if i in (1, 2, 5):
                x = pool(x, 3, 2)
        x = act(self.bn6(self.fc6(x.flatten(1))))
        return self.fc8(act(self.bn7(self.fc7(x))))


class Fashion(nn.Module):
    """The small net of the demo."""

    def __init__(self, classes=10):
        super().__init__()
        before = 1
        for i, after in enumerate((32, 64, 96, 96), 1):
            setattr(self, "conv%d" % i, nn.Conv2d(before, after, 3, 1, 1, bias=False))
            setattr(self, "bn%d" % i, nn.BatchNorm2d(after))
            before = after
        self.fc = nn.Linear(96 * 9, classes)

    def forward(self, x):
        x = pool(act(self.bn1(self.conv1(x))), 2, 2)
        x = pool(act(self.bn2(self.conv2(x))), 2, 2)
        side = act(self.bn3(self.conv3(x)))
        x = pool(act(self.bn4(self.conv4(side)) + side), 2, 2)
        return self.fc(x.flatten(1))


class Logistic(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.fc = nn.Linear(784, classes)

    def forward(self, x):
        return self.fc(x.flatten(1))


class Mlp(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 256), nn.Linear(256, 128), nn.Linear(128, classes)

    def forward(self, x):
        return self.fc3(act(self.fc2(act(self.fc1(x.flatten(1))))))


ZOO = {
    "lenet5": LeNet,
    "alexnet": lambda: torchvision_model("alexnet"),
    "alexnet-bn": AlexNetBN,
    "resnet18": lambda: torchvision_model("resnet18"),
    "resnet34": lambda: torchvision_model("resnet34"),
    "resnet50": lambda: torchvision_model("resnet50"),
    "resnet101": lambda: torchvision_model("resnet101"),
    "resnet152": lambda: torchvision_model("resnet152"),
    "resnet20": lambda: he(CifarResNet(20)),
    "resnet32": lambda: he(CifarResNet(32)),
    "resnet44": lambda: he(CifarResNet(44)),
    "resnet56": lambda: he(CifarResNet(56)),
    "resnet110": lambda: he(CifarResNet(110)),
    "preact-resnet20": lambda: he(PreactResNet(20)),
    "fashion": Fashion,
    "logistic": Logistic,
    "mlp": Mlp,
}


# Small nets for the layers that the zoo does not use: text for Gyre, module for PyTorch.

class Groups(nn.Module):
    SCALE = 8.0  # of the input: beyond the 6 of relu6
    TEXT = """input 13x11x6
conv1: conv 12 3x3 groups 3 bias
relu6
conv2: conv 12 3x3 stride 2 groups 12
bn2: bn
sigmoid
conv3: conv 10 3x3 pad 2 dilation 2 bias
tanh
gap
fc: linear 5
softmax smooth 0.1
"""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(6, 12, 3, padding=1, groups=3)
        self.conv2 = nn.Conv2d(12, 12, 3, 2, 1, groups=12, bias=False)
        self.bn2 = nn.BatchNorm2d(12)
        self.conv3 = nn.Conv2d(12, 10, 3, padding=2, dilation=2)
        self.fc = nn.Linear(10, 5)

    def forward(self, x):
        x = F.relu6(self.conv1(x))
        x = torch.sigmoid(self.bn2(self.conv2(x)))
        return self.fc(torch.tanh(self.conv3(x)).mean((2, 3)))

    def loss(self, scores, label):
        return F.cross_entropy(scores, label, reduction="none", label_smoothing=0.1)


class Norms(nn.Module):
    TEXT = """input 12x14x3
conv1: conv 16 5x5 stride 2 bias
relu
n: lrn 5 alpha 0.01 beta 0.75 k 2
a: maxpool 3x3 stride 2
b: avgpool 3x3 stride 2 from n
c: concat a
flatten
fc1: linear 24
tanh
fc2: linear 7
softmax
"""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 5, 2, 2)
        self.fc1, self.fc2 = nn.Linear(32 * 2 * 3, 24), nn.Linear(24, 7)

    def forward(self, x):
        x = F.local_response_norm(act(self.conv1(x)), 5, 0.01, 0.75, 2)
        x = torch.cat([F.avg_pool2d(x, 3, 2), pool(x, 3, 2)], 1)
        return self.fc2(torch.tanh(self.fc1(x.flatten(1))))


class Square(nn.Module):
    """Mean squared error against one-hot labels."""

    TEXT = """input 6x6x2
conv1: conv 8 3x3 bias
sigmoid
flatten
fc1: linear 16
sigmoid
fc2: linear 4
mse
"""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 8, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(288, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.fc2(torch.sigmoid(self.fc1(torch.sigmoid(self.conv1(x)).flatten(1))))

    def loss(self, scores, label):
        return ((scores - F.one_hot(label, scores.shape[1])) ** 2).mean(1)

    def scores(self, scores):
        return scores


SMALL = {"groups": Groups, "norms": Norms, "square": Square}
