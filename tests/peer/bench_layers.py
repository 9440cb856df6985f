#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each convolution of a net beside cuDNN and cuBLAS. It reads the CSV of 'gyre bench NET --device
cuda --dtype bf16 --csv'. It times the same passes of the same shapes in PyTorch, and writes both
side by side. Each pass is captured in a CUDA graph of some repeats and timed by events. Data are
random, channels_last, with cuDNN's own search; a 1x1 image is a matrix product, by cuBLAS. Ratios
are the peer's time over ours: above 1 ours is faster. Ours include what is fused, such as batch
norm's statistics.

    bench_layers.py LAYERS.csv [--predicted FILE] [--seconds S]"""
import argparse
import csv
import math
import re
import statistics
import sys
import time

SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)x(\d+) \* (\d+)x(\d+)/(\d+) -> (\d+)$")
PASSES = {"conv": "forward", "conv-dgrad": "data", "conv-wgrad": "weight"}
REPEATS = 10


def distinct(path):
    """{(op, shape): [rows]} in the file's order, convolutions only."""
    found = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["op"] in PASSES and SHAPE.match(row["shape"]):
                found.setdefault((row["op"], row["shape"]), []).append(row)
    return found


def predictions(path):
    """{(op, shape without the batch): us}"""
    found = {}
    if path:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                for op, name in PASSES.items():
                    if row[name + "_us"]:
                        found[op, row["shape"]] = float(row[name + "_us"])
    return found


def seconds_of(torch, work):
    """Of one call, the median of graph replays."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            work()
    graph.replay()
    took = []
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        took.append(begin.elapsed_time(end) / 1e3 / REPEATS)
    return statistics.median(took)


def peer(torch, op, shape):
    n, h, w, c, r, s, stride, k = (int(g) for g in SHAPE.match(shape).groups())
    make = {"device": "cuda", "dtype": torch.bfloat16}
    p, q = (h + r // 2 * 2 - r) // stride + 1, (w + s // 2 * 2 - s) // stride + 1
    if h == w == r == s == 1:
        x, dy, weight = torch.randn(n, c, **make), torch.randn(n, k, **make), torch.randn(k, c, **make)
        work = {"conv": lambda: x @ weight.t(), "conv-dgrad": lambda: dy @ weight, "conv-wgrad": lambda: dy.t() @ x}[op]
        return seconds_of(torch, work)
    last = torch.channels_last
    x = torch.randn(n, c, h, w, **make).to(memory_format=last)
    dy = torch.randn(n, k, p, q, **make).to(memory_format=last)
    weight = torch.randn(k, c, r, s, **make).to(memory_format=last)
    size = ([stride, stride], [r // 2, s // 2], [1, 1], False, [0, 0], 1)
    if op == "conv":
        return seconds_of(torch, lambda: torch.ops.aten.convolution(x, weight, None, *size))
    mask = [op == "conv-dgrad", op == "conv-wgrad", False]
    return seconds_of(torch, lambda: torch.ops.aten.convolution_backward(dy, x, weight, None, *size, mask))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("layers")
    arguments.add_argument("--predicted")
    arguments.add_argument("--seconds", type=float, default=80)
    given = arguments.parse_args()
    layers, predicted = distinct(given.layers), predictions(given.predicted)
    if not layers:
        sys.exit(f"{given.layers} has no convolutions")
    import torch
    if not torch.cuda.is_available():
        sys.exit("no GPU")
    torch.backends.cudnn.benchmark = True
    print("op,shape,times,kernel,us,peer_us,ratio,limit_us,predicted_us", flush=True)
    stop = time.monotonic() + given.seconds
    sums = {op: [0.0, 0.0, 0.0, 0] for op in PASSES}
    for (op, shape), rows in layers.items():
        if time.monotonic() > stop:
            sys.exit(f"{given.seconds} s are over before {op} {shape}")
        ours = statistics.median(float(row["us"]) for row in rows)
        try:
            theirs = peer(torch, op, shape) * 1e6
        except Exception as problem:  # one case says why and the next goes on
            print(f"{op},{shape},{len(rows)},failed: {str(problem).splitlines()[0]}", flush=True)
            continue
        ratio = theirs / ours
        sums[op] = [a + b for a, b in zip(sums[op], (len(rows) * ours, len(rows) * theirs, math.log(ratio), 1))]
        least = statistics.median(float(row["limit us"]) for row in rows)
        print(f"{op},{shape},{len(rows)},{rows[0]['kernel']},{ours:.1f},{theirs:.1f},{ratio:.3f},{least:.1f},"
              f"{predicted.get((op, shape.split('x', 1)[1]), '')}", flush=True)
    for op, (ours, theirs, logs, count) in sums.items():
        if count:
            print(f"{op}: {ours / 1e3:.2f} ms ours, {theirs / 1e3:.2f} ms the peer's, weighted by count; "
                  f"geometric mean of {count} ratios {math.exp(logs / count):.3f}")


main()
