#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's DistributedDataParallel over Gloo: one of the processes that 'gyre launch' starts. Rank
0 prints the images a second of all of them. The images are noise that lies in memory: no loader
takes part.

A step is forward, cross-entropy, backward with the gradients' allreduce beside it, SGD with
momentum 0.9, on one thread."""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import models

NETS = {"lenet5": (lambda: models.LeNet(), 1, 28), "resnet20": (lambda: models.CifarResNet(20), 3, 32)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("net", choices=sorted(NETS))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--meet", required=True, help="a file that does not exist yet, where the processes find each other")
    options = parser.parse_args()
    make, channels, side = NETS[options.net]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, ranks = int(os.environ["GYRE_RANK"]), int(os.environ["GYRE_RANKS"])
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath(options.meet), rank=rank, world_size=ranks)
    model = torch.nn.parallel.DistributedDataParallel(make().to(memory_format=torch.channels_last), bucket_cap_mb=4)
    update = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(options.batch, channels, side, side).to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (options.batch,))
    warm = max(1, options.steps // 10)
    for step in range(warm + options.steps):
        if step == warm:
            dist.barrier()
            began = time.perf_counter()
        loss = F.cross_entropy(model(x), y)
        update.zero_grad()
        loss.backward()
        update.step()
    dist.barrier()
    if rank == 0:
        print("%.1f" % (options.steps * options.batch * ranks / (time.perf_counter() - began)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
