# SPDX-License-Identifier: MIT
"""Gloo's allreduce (torch.distributed) as gyre bench allreduce measures its own: two processes, sums of float, results checked.
    python3 bench_allreduce.py LEAST MOST ROUNDS"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, ranks, least, most, rounds, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    size = least
    while size <= most:
        count = size // 4
        repeats = max(1, min(1000, (64 << 20) // size))
        data = ((torch.arange(count) % 13 + 1) * (rank + 1)).float()
        dist.all_reduce(data)
        want = ((torch.arange(count) % 13 + 1) * (ranks * (ranks + 1) // 2)).float()
        assert torch.equal(data, want), f"rank {rank}: wrong sum of {size} bytes"
        data.zero_()
        seconds = []
        for r in range(rounds + 1):
            began = time.perf_counter()
            for _ in range(repeats):
                dist.all_reduce(data)
            if r:
                seconds.append((time.perf_counter() - began) / repeats)
        seconds.sort()
        if rank == 0:
            print(json.dumps({"ranks": ranks, "bytes": size, "fastest_us": round(seconds[0] * 1e6, 3),
                              "median_us": round(seconds[rounds // 2] * 1e6, 3)}), flush=True)
        size *= 2
    dist.destroy_process_group()


if __name__ == "__main__":
    least, most, rounds = (int(x) for x in (sys.argv[1:] + ["8", "268435456", "20"][len(sys.argv) - 1:]))
    mp.spawn(work, args=(2, least, most, rounds, 20000 + os.getpid() % 20000), nprocs=2)
