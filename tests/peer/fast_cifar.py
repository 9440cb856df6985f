#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The fast CIFAR-10 recipe of fast_cifar.sh in PyTorch. It has the net of fast_cifar.net, SGD with
Nesterov momentum 0.85, and a linear rise and fall of the learning rate. Label smoothing is 0.2;
there are crops from a border of 2, and flips.

    fast_cifar.py FOLDER [options]              trains, tests, prints one JSON object
    fast_cifar.py FOLDER --write-start FILE     writes the weights that both programs begin with

The start: the first convolution whitens 2x2 patches of the training images. Its filters are the
eigenvectors of their covariance over the roots of its eigenvalues, each also negated. Every other
convolution passes its first channels on (dirac), the rest is PyTorch's own. Time is that of the
training steps, decoding apart, with one step before the clock starts."""
import argparse
import json
import os
import sys
import time

try:
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from safetensors.torch import load_file, save_file
    from train_cifar import augment, load
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(0)

MEAN, STD = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.247, 0.2435, 0.2616])


class Group(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after, momentum=0.4)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after, momentum=0.4)

    def forward(self, x):
        x = F.relu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.relu(self.norm2(self.conv2(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.group1, self.group2, self.group3 = Group(24, 64), Group(64, 256), Group(256, 256)
        self.head = nn.Linear(256, 10, bias=False)

    def forward(self, x):
        x = self.group3(self.group2(self.group1(F.relu(self.whiten(x)))))
        return self.head(F.max_pool2d(x, 3).flatten(1)) / 9


def whitening(pixels):
    """[24][3][2][2] from up to 5,000 images."""
    x = tensor(pixels[np.random.default_rng(0).permutation(len(pixels))[:5000]])
    patches = F.unfold(x, 2).transpose(1, 2).reshape(-1, 12)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    rows = (vectors / (values + 5e-4).sqrt()).T.flip(0).reshape(12, 3, 2, 2)
    return torch.cat([rows, -rows])


def start(pixels):
    torch.manual_seed(1)
    net = Net()
    with torch.no_grad():
        net.whiten.weight.copy_(whitening(pixels))
        net.whiten.bias.zero_()
        for group in (net.group1, net.group2, net.group3):
            for conv in (group.conv1, group.conv2):
                nn.init.dirac_(conv.weight[: conv.in_channels])
    return net


def tensor(pixels):
    x = (torch.from_numpy(np.ascontiguousarray(pixels)).float() / 255 - MEAN) / STD
    return x.permute(0, 3, 1, 2)  # NHWC in memory: channels_last


def rate_at(step, steps, warm, options):
    """As gyre train --schedule poly --power 1 --warmup-epochs --final-lr."""
    if step < warm:
        return options.rate * (step + 1) / warm
    return options.final + (options.rate - options.final) * (1 - (step - warm) / max(steps - warm, 1))


class Trainer:
    def __init__(self, net, options):
        plain = [p for p in net.parameters() if p.dim() == 1]
        groups = [{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": options.decay},
                  {"params": plain, "weight_decay": 0.0}]
        self.optimizer = torch.optim.SGD(groups, lr=options.rate, momentum=0.85, nesterov=True, fused=True)
        self.net, self.bf16 = (torch.compile(net) if options.mode == "compile" else net), options.dtype == "bf16"

    def loss(self, x, label):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            loss = F.cross_entropy(self.net(x), label, label_smoothing=0.2)
        self.optimizer.zero_grad()
        loss.backward()
        return loss

    def step(self, x, label, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = self.loss(x, label)
        self.optimizer.step()
        return loss.item()


def train(net, pixels, labels, test, options):
    """Seconds and the mean loss of the last epoch. With --curve a row an epoch is written: the clock stands while it tests."""
    trainer, random = Trainer(net.train(), options), np.random.default_rng(options.seed)
    each = len(pixels) // options.batch
    steps, warm, total = each * options.epochs, round(options.warm * each), 0.0
    first = slice(0, options.batch)
    state = {key: value.clone() for key, value in net.state_dict().items()}
    # compiles; the running statistics that this leaves are taken back
    trainer.loss(tensor(pixels[first]), torch.from_numpy(labels[first]))
    net.load_state_dict(state)
    begin, curve = time.perf_counter(), open(options.curve, "w") if options.curve else None
    for epoch in range(options.epochs):
        order, total = random.permutation(len(pixels)), 0.0
        for i in range(each):
            chosen = order[i * options.batch : (i + 1) * options.batch]
            total += trainer.step(tensor(augment(pixels[chosen], random, 2)), torch.from_numpy(labels[chosen]),
                                  rate_at(epoch * each + i, steps, warm, options))
        seconds = time.perf_counter() - begin
        print("epoch %d loss %.4f, %.1f s" % (epoch + 1, total / each, seconds), file=sys.stderr, flush=True)
        if curve:
            print("%d,%.2f,%.4f" % (epoch + 1, seconds, evaluate(net, *test)), file=curve, flush=True)
            net.train()
            begin = time.perf_counter() - seconds
    return time.perf_counter() - begin, total / each


def evaluate(net, pixels, labels):
    net.eval()
    right = 0
    with torch.no_grad():
        for i in range(0, len(pixels), 500):
            right += (net(tensor(pixels[i : i + 500])).argmax(1).numpy() == labels[i : i + 500]).sum()
    return right / len(pixels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=1.5)
    parser.add_argument("--final", type=float, default=0.1)
    parser.add_argument("--warm", type=float, default=2.3, help="epochs of rising learning rate")
    parser.add_argument("--decay", type=float, default=0.00133)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--start", help="weights to begin with; default: made here")
    parser.add_argument("--curve", help="file for a row an epoch: epoch, seconds of training, test accuracy")
    parser.add_argument("--write-start", help="writes the weights to begin with, and ends")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pixels, labels = load(os.path.join(options.folder, "train"))
    net = start(pixels)
    if options.write_start:
        save_file({key: value.contiguous() for key, value in net.state_dict().items() if value.dim() > 0}, options.write_start)
        return
    if options.start:
        net.load_state_dict(load_file(options.start), strict=False)
    net = net.to(memory_format=torch.channels_last)
    test = load(os.path.join(options.folder, "test"))
    seconds, loss = train(net, pixels, labels, test, options)
    accuracy = evaluate(net, *test)
    print(json.dumps({"side": "pytorch", "version": torch.__version__, "type": options.dtype, "mode": options.mode,
                      "epochs": options.epochs, "seconds": round(seconds, 2), "loss": round(loss, 4),
                      "test_accuracy": round(float(accuracy), 4)}))


if __name__ == "__main__":
    main()
