#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the CIFAR ResNet-20 in PyTorch with the recipe of

    gyre train resnet20 FOLDER --epochs 5 --batch 128 --lr 0.1 --momentum 0.9
               --weight-decay 1e-4 --schedule cosine --pad-crop 4 --flip

on a folder of images (FOLDER/train/CLASS/*.jpg, FOLDER/test/CLASS/*.jpg), and prints its test
accuracy as JSON. No weight decay for batch norm and biases; the learning rate follows a cosine over
all steps; mean .485 .456 .406, std .229 .224 .225. With --weights it only evaluates a safetensors
file with PyTorch's names."""
import argparse
import json
import math
import os
import sys
import time

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
    from PIL import Image
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(0)

from models import CifarResNet, he

MEAN = torch.tensor([0.485, 0.456, 0.406])
STD = torch.tensor([0.229, 0.224, 0.225])


def load(folder):
    """All images of a folder per class, decoded once: uint8 [N][32][32][3] and labels."""
    pixels, labels = [], []
    for label, name in enumerate(sorted(os.listdir(folder))):
        inside = os.path.join(folder, name)
        for file in sorted(os.listdir(inside)):
            with Image.open(os.path.join(inside, file)) as image:
                pixels.append(np.asarray(image.convert("RGB")))
            labels.append(label)
    return np.stack(pixels), np.array(labels)


def augment(pixels, random, pad=4):
    """A zero border, a random crop of the old size, a flip of every second image."""
    n, h, w, _ = pixels.shape
    padded = np.zeros((n, h + 2 * pad, w + 2 * pad, 3), np.uint8)
    padded[:, pad:-pad, pad:-pad] = pixels
    span = 2 * pad + 1
    top, left, flip = random.integers(0, span, n), random.integers(0, span, n), random.random(n) < 0.5
    rows = top[:, None] + np.arange(h)
    columns = left[:, None] + np.where(flip[:, None], np.arange(w)[::-1], np.arange(w))
    return padded[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]


def tensor(pixels, device):
    x = (torch.from_numpy(np.ascontiguousarray(pixels)).to(device).float() / 255 - MEAN.to(device)) / STD.to(device)
    return x.permute(0, 3, 1, 2)  # NHWC in memory: channels_last


def evaluate(model, pixels, labels, device):
    model.eval()
    right, loss = 0, 0.0
    with torch.no_grad():
        for i in range(0, len(pixels), 500):
            scores = model(tensor(pixels[i : i + 500], device))
            truth = torch.from_numpy(labels[i : i + 500]).to(device)
            right += (scores.argmax(1) == truth).sum().item()
            loss += F.cross_entropy(scores, truth, reduction="sum").item()
    return right / len(pixels), loss / len(pixels)


def train(model, pixels, labels, options, device):
    random = np.random.default_rng(options.seed)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 1e-4}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=options.rate, momentum=0.9)
    each = len(pixels) // options.batch
    steps, step, begin = each * options.epochs, 0, time.time()
    for epoch in range(options.epochs):
        model.train()
        order, total = random.permutation(len(pixels)), 0.0
        for i in range(each):
            if options.steps and step >= options.steps:
                return step, time.time() - begin
            chosen = order[i * options.batch : (i + 1) * options.batch]
            for group in optimizer.param_groups:
                group["lr"] = options.rate * 0.5 * (1 + math.cos(math.pi * step / steps))
            loss = F.cross_entropy(model(tensor(augment(pixels[chosen], random), device)),
                                   torch.from_numpy(labels[chosen]).to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            step += 1
            if step % 50 == 0:
                seconds = time.time() - begin
                print("epoch %d step %d loss %.4f, %.0f images/s" % (epoch + 1, step, total / (i + 1),
                      step * options.batch / seconds), file=sys.stderr, flush=True)
    return step, time.time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps")
    parser.add_argument("--limit", type=int, default=0, help="test images")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--weights", help="evaluate these, do not train")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    if options.threads:
        torch.set_num_threads(options.threads)
    model = he(CifarResNet(20))
    step, seconds = 0, 0.0
    if options.weights:
        from safetensors.torch import load_file

        model.load_state_dict(load_file(options.weights), strict=False)
    model = model.to(options.device).to(memory_format=torch.channels_last)
    if not options.weights:
        pixels, labels = load(os.path.join(options.folder, "train"))
        step, seconds = train(model, pixels, labels, options, options.device)
    pixels, labels = load(os.path.join(options.folder, "test"))
    if options.limit:
        chosen = np.random.default_rng(0).permutation(len(pixels))[: options.limit]
        pixels, labels = pixels[chosen], labels[chosen]
    accuracy, loss = evaluate(model, pixels, labels, options.device)
    print(json.dumps({"net": "resnet20", "epochs": options.epochs, "steps": step, "seconds": round(seconds, 1),
                      "test_images": len(pixels), "test_accuracy": accuracy, "test_loss": loss}))


if __name__ == "__main__":
    main()
