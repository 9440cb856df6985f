#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times whole training steps in PyTorch: the counterpart of bench_step.c, with the same words on
standard input (--serve).

A step is: forward, cross-entropy, zero_grad, backward, SGD with momentum 0.9 and weight decay 1e-4
(fused), on channels_last tensors; bf16 is CPU autocast. With --data torchvision decodes and
augments a folder of images while it trains: random resized crop, flip. Whole batches are normalised
after they are collated as uint8."""
import argparse
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import models

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1) * 255
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1) * 255
SIDES = {"lenet5": (1, 28), "resnet20": (3, 32), "resnet32": (3, 32), "resnet56": (3, 32)}


def status_kib(key):
    """A line of this process's /proc status; 0 where there is none."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(key))
    except (OSError, StopIteration):
        return 0


def reset_peak():
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


class Photos(torch.utils.data.Dataset):
    """Decoded by torchvision's libjpeg-turbo where that is built in, else by PIL; cropped and scaled as uint8."""

    def __init__(self, folder, side):
        from torchvision import datasets
        from torchvision.transforms import v2

        self.samples = datasets.ImageFolder(folder).samples
        self.transform = v2.Compose([v2.RandomResizedCrop(side, antialias=True), v2.RandomHorizontalFlip()])

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        from torchvision.io import ImageReadMode, decode_image

        path, label = self.samples[index]
        return self.transform(decode_image(path, mode=ImageReadMode.RGB)), label


def endless(folder, side, batch, workers, threads):
    """Batches without end. Decoding in this process uses the threads of the step, in worker processes one each."""
    data = Photos(folder, side)
    loader = torch.utils.data.DataLoader(data, batch, shuffle=True, drop_last=True, num_workers=workers,
                                         persistent_workers=workers > 0)
    while True:
        for pixels, label in loader:
            pixels = pixels.to(memory_format=torch.channels_last)
            yield (pixels.float() - MEAN).div_(STD), label


def fixed(channels, side, batch, classes):
    torch.manual_seed(1)
    x = torch.rand(batch, channels, side, side) * 4 - 2
    x, label = x.to(memory_format=torch.channels_last), torch.arange(batch) * 37 % classes
    while True:
        yield x, label


class Bench:
    def __init__(self, options):
        channels, side = SIDES.get(options.net, (3, 224))
        model = models.ZOO[options.net]().to(memory_format=torch.channels_last).train()
        self.bf16 = options.dtype == "bf16"
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
        self.model = torch.compile(model) if options.mode == "compile" else model
        self.batches = (endless(options.data, side, options.batch, options.workers, options.threads) if options.data
                        else fixed(channels, side, options.batch, 10 if side == 32 else 1000))

    def once(self):
        begin = time.perf_counter()
        x, label = next(self.batches)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            loss = F.cross_entropy(self.model(x), label)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        loss.item()
        return time.perf_counter() - begin


def serve(bench, start, last):
    print("ready %.6f" % last, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["run"]:
            print(" ".join("%.6f" % bench.once() for _ in range(int(words[1]))), flush=True)
        elif words == ["memory"]:
            kib = status_kib("VmHWM")
            print(kib, max(kib, start), flush=True)
        else:
            print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("net", choices=sorted(models.ZOO))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--data", help="folder with a folder of images per class")
    parser.add_argument("--workers", type=int, default=0, help="processes that decode; 0: this one does")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    if options.mode == "compile" and os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
        from torch._inductor import config

        config.cpp.simdlen = 256
    bench = Bench(options)
    last = 0.0
    for _ in range(options.warm):
        last = bench.once()
    start = status_kib("VmHWM")
    reset_peak()
    if options.serve:
        return serve(bench, start, last)
    seconds = [bench.once() for _ in range(options.steps)]
    median = statistics.median(seconds)
    print("%s batch %d %s %s: median %.1f ms, least %.1f ms, %.2f images/s, peak %.1f MiB" % (
        options.net, options.batch, options.dtype, options.mode, median * 1e3, min(seconds) * 1e3, options.batch / median,
        status_kib("VmHWM") / 1024))


if __name__ == "__main__":
    main()
