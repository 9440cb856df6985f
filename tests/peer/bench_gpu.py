#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training steps in PyTorch on a GPU, beside bench_gpu.c: the same nets, batches and CSV columns,
on random images that stay on the GPU. channels_last, cuDNN autotuned, autocast for bf16, fused SGD
with momentum. Steps run eager in a CUDA graph, or by torch.compile when asked for: the caller takes
the faster one. f32 is float32: TF32, which is on by default in convolutions, is off.

    bench_gpu.py NET BATCH f32|bf16 [eager|graph|compile] [STEPS]"""
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import models


def main():
    net_name, batch, dtype = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    mode = sys.argv[4] if len(sys.argv) > 4 else "graph"
    steps = int(sys.argv[5]) if len(sys.argv) > 5 else 30
    if not torch.cuda.is_available():
        sys.exit("no GPU")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    side, channels = {"lenet5": (28, 1), "resnet20": (32, 3)}.get(net_name, (224, 3))
    began = time.monotonic()
    net = models.ZOO[net_name]().cuda().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    x = torch.randn(batch, channels, side, side, device="cuda").to(memory_format=torch.channels_last)
    y = torch.arange(batch, device="cuda") % (1000 if side == 224 else 10)
    forward = torch.compile(net) if mode == "compile" else net

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    # A capture needs earlier steps on a stream of its own, and nothing may keep their gradients
    # alive.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
        torch.cuda.synchronize()
        first = time.monotonic() - began
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    run = step
    if mode == "graph":
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            loss = step()
        run = graph.replay
    took = []
    for i in range(-5, steps):
        torch.cuda.synchronize()
        start = time.monotonic()
        result = run()
        torch.cuda.synchronize()
        if i >= 0:
            took.append(time.monotonic() - start)
    loss = result if result is not None else loss
    median = statistics.median(took)
    print(f"pytorch-{mode},{net_name},{batch},{dtype},{batch / median:.1f},{first:.2f},{1e3 * min(took):.3f},{1e3 * median:.3f},"
          f"{torch.cuda.max_memory_allocated()},{float(loss):.4f}")


main()
