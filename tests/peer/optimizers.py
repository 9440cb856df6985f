#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""LARS in both published forms, LAMB, SGD and AdamW of 'gyre train' beside PyTorch code of thirty
lines.

    optimizers.py GYRE [--steps 20]

A small net with a batch norm learns from 48 images at once, so that the order of the images does
not matter. Each step begins from the weights in Gyre's checkpoint; gradients (float64) and the
optimiser's state are PyTorch's own. A tensor's change must be PyTorch's to TOLERANCE of its largest
element. A planted fault must be seen."""
import argparse
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
    from PIL import Image
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(0)

# Gyre's weights are float32. A weight of 1 that changes by 0.0001, as at the end of a schedule, has
# ten bits for its change.
TOLERANCE = 1e-3
NET = """input 8x8x3
conv1: conv 8 3x3
bn1: bn
relu
conv2: conv 8 3x3 bias
relu
avgpool 8x8
fc: linear 4
softmax
"""
CASES = {  # options of gyre train, and the rule below with its numbers
    "sgd": ("--optimizer sgd --lr 0.1 --momentum 0.9 --nesterov", "sgd", 0.1),
    "lars": ("--optimizer lars --lr 20 --momentum 0.9", "lars", 20),
    "lars-unscaled": ("--optimizer lars-unscaled --lr 20 --momentum 0.9", "lars-unscaled", 20),
    "lars, rate 9 to 0": ("--optimizer lars --lr 9 --momentum 0.9 --schedule poly", "lars", 9),
    "unscaled, rate 9 to 0": ("--optimizer lars-unscaled --lr 9 --momentum 0.9 --schedule poly", "lars-unscaled", 9),
    "lars, all decay": ("--optimizer lars --lr 20 --momentum 0.9 --skip none", "lars", 20),
    "lamb": ("--optimizer lamb --lr 0.02", "lamb", 0.02),
    "lamb, all decay": ("--optimizer lamb --lr 0.02 --skip none", "lamb", 0.02),
    "adamw": ("--optimizer adamw --lr 0.01", "adamw", 0.01),
}
DECAY, ETA, MU, B1, B2, EPS = 0.01, 0.001, 0.9, 0.9, 0.999, 1e-8


def rule(kind, w, g, state, step, rate, decay, fault):
    """The change of one tensor. You et al. 2017 (lars: the rate inside of the momentum), Kumar et al. 2019 (unscaled),
    You et al. 2020 (LAMB), Loshchilov and Hutter 2019 (AdamW)."""
    m, v = state
    adapt = decay > 0
    if kind in ("lars", "lars-unscaled"):
        wn, gn = w.norm(), g.norm()
        ratio = ETA * wn / (gn + decay * wn) if adapt and wn > 0 and gn > 0 else 1.0
        inside = (kind == "lars") != fault
        m.mul_(MU).add_((rate * ratio if inside else 1.0) * (g + decay * w))
        return -m if inside else -rate * ratio * m
    if kind == "sgd":
        d = g + decay * w
        m.mul_(MU).add_(d)
        return -rate * (m if fault else d + MU * m)
    m.mul_(B1).add_((1 - B1) * g)
    v.mul_(B2).add_((1 - B2) * g * g)
    u = m / (1 - B1 ** step) / ((v / (1 - B2 ** step)).sqrt() + EPS)
    u = u if fault else u + decay * w
    if kind == "lamb" and adapt and w.norm() > 0 and u.norm() > 0:
        u = u * w.norm() / u.norm()
    return -rate * u


def loss(p, x, label):
    x = F.conv2d(x, p["conv1.weight"], padding=1)
    x = F.relu(F.batch_norm(x, None, None, p["bn1.weight"], p["bn1.bias"], training=True, eps=1e-5))
    x = F.relu(F.conv2d(x, p["conv2.weight"], p["conv2.bias"], padding=1)).mean((2, 3))
    return F.cross_entropy(F.linear(x, p["fc.weight"], p["fc.bias"]), label)


def images(folder):
    """48 images of 4 classes in PNG files, and as PyTorch's input: mean 0.5, deviation 0.25."""
    random = np.random.default_rng(1)
    pixels, labels = random.integers(0, 256, (48, 8, 8, 3), np.uint8), np.arange(48) % 4
    for i in range(48):
        os.makedirs("%s/data/c%d" % (folder, labels[i]), exist_ok=True)
        Image.fromarray(pixels[i]).save("%s/data/c%d/%02d.png" % (folder, labels[i], i))
    x = (torch.from_numpy(pixels).double() / 255 - 0.5) / 0.25
    return x.permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels)


def start():
    torch.manual_seed(2)
    p = {"conv1.weight": torch.randn(8, 3, 3, 3) * 0.3, "bn1.weight": torch.rand(8) + 0.5, "bn1.bias": torch.randn(8) * 0.1,
         "bn1.running_mean": torch.zeros(8), "bn1.running_var": torch.ones(8), "conv2.weight": torch.randn(8, 8, 3, 3) * 0.2,
         "conv2.bias": torch.randn(8) * 0.1, "fc.weight": torch.randn(4, 8) * 0.5, "fc.bias": torch.zeros(4)}
    return p


def trained(gyre, folder, options, steps):
    """Weights before the first step and after each one, as Gyre wrote them."""
    out = tempfile.mkdtemp(dir=folder)
    command = [gyre, "train", folder + "/net", folder + "/data", "--batch", "48", "--steps", str(steps), "--test-data", "none",
               "--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25", "--weights", folder + "/start.safetensors", "--out", out,
               "--overwrite", "--checkpoint-every", "1", "--keep", str(steps), "--weight-decay", str(DECAY), "--log", "error"]
    subprocess.run(command + options.split() + ([] if "schedule" in options else ["--schedule", "constant"]), check=True,
                   stdout=subprocess.DEVNULL)
    files = sorted((name for name in os.listdir(out) if name.startswith("checkpoint-")), key=lambda name: int(name[11:].split(".")[0]))
    assert len(files) == steps, files
    return [start()] + [load_file(os.path.join(out, name)) for name in files]


def rate_at(options, rate, step, steps):
    return rate * (1 - step / steps) ** 2 if "poly" in options else rate


def distance(weights, x, label, options, kind, rate, fault=False):
    """Largest distance of a change over all steps and tensors, as a part of the tensor's largest change."""
    steps, worst, state = len(weights) - 1, 0.0, {}
    for step in range(steps):
        p = {k: t.double().requires_grad_() for k, t in weights[step].items() if k in start() and "running" not in k}
        loss(p, x, label).backward()
        for name, t in p.items():
            w = t.detach()
            moments = state.setdefault(name, (torch.zeros_like(w), torch.zeros_like(w)))
            decay = DECAY if w.dim() > 1 or "none" in options else 0.0
            change = rule(kind, w, t.grad, moments, step + 1, rate_at(options, rate, step, steps), decay, fault)
            away = (weights[step + 1][name].double() - w - change).abs().max() / change.abs().max()
            worst = max(worst, away.item())
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("gyre")
    parser.add_argument("--steps", type=int, default=20)
    options, failed = parser.parse_args(), 0
    with tempfile.TemporaryDirectory() as folder:
        x, label = images(folder)
        with open(folder + "/net", "w") as file:
            file.write(NET)
        save_file(start(), folder + "/start.safetensors")
        for name, (words, kind, rate) in CASES.items():
            weights = trained(options.gyre, folder, words, options.steps)
            away = distance(weights, x, label, words, kind, rate)
            planted = distance(weights, x, label, words, kind, rate, True)
            good = away < TOLERANCE < planted
            failed += not good
            print("%-22s %d steps: farthest %.1e of the largest change; planted fault %.1e  %s" %
                  (name, options.steps, away, planted, "ok" if good else "FAILED"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
