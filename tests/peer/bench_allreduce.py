# SPDX-License-Identifier: MIT
"""Gloo's allreduce (torch.distributed) as gyre bench allreduce measures its own: two processes,
sums of float, results checked. A size takes about SECONDS. Where sums are slow a round has fewer of
them, at least one, and there are fewer rounds, at least two. Rank 0's clock decides.
    python3 bench_allreduce.py LEAST MOST ROUNDS SECONDS"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def reduce(data, repeats):
    began = time.perf_counter()
    for _ in range(repeats):
        dist.all_reduce(data)
    return (time.perf_counter() - began) / repeats


def first_rank(value):
    box = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(box, 0)
    return box.item()


def measure(data, size, rounds, limit):
    began = time.perf_counter()
    most = max(1, min(1000, (64 << 20) // size))
    fits = limit / rounds / first_rank(reduce(data, min(most, 10)))
    repeats = max(1, min(most, int(fits)))
    reduce(data, repeats)
    seconds = []
    while len(seconds) < rounds and (len(seconds) < 2 or first_rank(time.perf_counter() - began) < limit):
        seconds.append(reduce(data, repeats))
    return sorted(seconds)


def work(rank, ranks, least, most, rounds, limit, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    size = least
    while size <= most:
        pattern = (torch.arange(size // 4, dtype=torch.int32) % 13 + 1).float()
        data = pattern * (rank + 1)
        dist.all_reduce(data)
        assert torch.equal(data, pattern * (ranks * (ranks + 1) // 2)), f"rank {rank}: wrong sum of {size} bytes"
        data.zero_()
        seconds = measure(data, size, rounds, limit)
        if rank == 0:
            print(json.dumps({"ranks": ranks, "bytes": size, "fastest_us": round(seconds[0] * 1e6, 3),
                              "median_us": round(seconds[len(seconds) // 2] * 1e6, 3), "rounds": len(seconds)}), flush=True)
        size *= 2
    dist.destroy_process_group()


if __name__ == "__main__":
    given = sys.argv[1:] + ["8", "268435456", "20", "10"][len(sys.argv) - 1:]
    least, most, rounds = (int(x) for x in given[:3])
    mp.spawn(work, args=(2, least, most, rounds, float(given[3]), 20000 + os.getpid() % 20000), nprocs=2)
