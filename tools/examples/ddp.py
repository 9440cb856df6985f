#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's DistributedDataParallel with its gradients summed by Gyre. A communication hook copies
each bucket into memory that the ranks share, begins the sum, and hands it back averaged. Class Gyre
has the handful of functions that PyTorch needs of the library.

    launch="gyre launch -n 2 -- python3 ddp.py FOLDER --library build/libgyre-net.so --meet FILE"
    $launch           Gyre sums
    $launch --gloo    Gloo sums: for comparison

FOLDER holds Fashion-MNIST's four .gz files (Debian: dataset-fashion-mnist,
/usr/share/datasets/fashion-mnist). Rank 0 prints the mean loss of every tenth step over all ranks,
and the accuracy on the test images. The weights of all ranks are compared at the end.

Exit status: 0 trained; 1 a rank failed or the weights differ; 3 PyTorch is absent."""
import argparse
import ctypes
import gzip
import os
import struct
import sys

try:
    import numpy as np
    import torch
    import torch.distributed as dist
    import torch.nn as nn
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(3)


class Gyre:
    """The job that this process belongs to; functions of engine/gyre.h."""

    class Error(ctypes.Structure):
        _fields_ = [("status", ctypes.c_int), ("file", ctypes.c_char_p), ("line", ctypes.c_int), ("text", ctypes.c_char * 480)]

    def __init__(self, path):
        self.library, self.error, self.job = ctypes.CDLL(path), Gyre.Error(), ctypes.c_void_p()
        for name in ("gyre_job_close", "gyre_job_release"):
            getattr(self.library, name).restype = None
        self.call("open", ctypes.byref(self.job), None)
        self.rank = self.library.gyre_job_rank(self.job)
        self.ranks = self.library.gyre_job_ranks(self.job)

    def call(self, name, *arguments):
        if getattr(self.library, "gyre_job_" + name)(*arguments, ctypes.byref(self.error)) != 0:
            raise RuntimeError(self.error.text.decode())

    def memory(self, count):
        """count floats in which sums need no copies on one host, as a tensor. All ranks take the same, in the same order."""
        at = ctypes.c_void_p()
        self.call("memory", self.job, ctypes.c_size_t(4 * count), ctypes.byref(at))
        return torch.from_numpy(np.ctypeslib.as_array(ctypes.cast(at, ctypes.POINTER(ctypes.c_float)), (count,)))

    def start(self, tensor):
        """Begins the sum over the ranks of a tensor of memory()."""
        ticket = ctypes.c_int64()
        data = ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_float))
        self.call("sum_start", self.job, data, ctypes.c_int64(tensor.numel()), ctypes.byref(ticket))
        return ticket

    def test(self, ticket):
        done = ctypes.c_int()
        self.call("sum_test", self.job, ticket, ctypes.byref(done))
        return bool(done.value)

    def wait(self, ticket):
        self.call("sum_wait", self.job, ticket)

    def release(self, tensor):
        self.library.gyre_job_release(self.job, ctypes.c_void_p(tensor.data_ptr()))

    def end(self):
        """Waits until all ranks are through; raises when one is lost."""
        self.call("end", self.job)

    def close(self):
        self.library.gyre_job_close(self.job)


class Sums:
    """The hook's state. Sums begin as backward fills buckets; every bucket helps the earlier ones along, the last one waits for all."""

    def __init__(self, gyre):
        self.gyre, self.memory, self.open = gyre, {}, []

    def begin(self, bucket):
        gradients, future = bucket.buffer(), torch.futures.Future()
        place = (bucket.index(), gradients.numel())
        if place not in self.memory:
            self.memory[place] = self.gyre.memory(gradients.numel())
        shared = self.memory[place]
        torch.div(gradients, self.gyre.ranks, out=shared)
        self.open.append((self.gyre.start(shared), shared, gradients, future))
        for ticket, *_ in self.open:
            if not self.gyre.test(ticket):
                break
        if bucket.is_last():
            self.finish()
        return future

    def finish(self):
        for ticket, shared, gradients, future in self.open:
            self.gyre.wait(ticket)
            gradients.copy_(shared)
            future.set_result(gradients)
        self.open = []

    def close(self):
        for tensor in self.memory.values():
            self.gyre.release(tensor)


def hook(sums, bucket):
    return sums.begin(bucket)


def idx(folder, name):
    with gzip.open(os.path.join(folder, name)) as file:
        data = file.read()
    sizes = struct.unpack(">%dI" % data[3], data[4:4 + 4 * data[3]])
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(sizes).copy())


def load(folder, part):
    pixels = idx(folder, part + "-images-idx3-ubyte.gz").float().unsqueeze(1) / 255 - 0.5
    return pixels, idx(folder, part + "-labels-idx1-ubyte.gz").long()


def net():
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 256), nn.ReLU(), nn.Linear(256, 10))


def train(options, gyre):
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(net(), bucket_cap_mb=1)
    sums = Sums(gyre)
    if not options.gloo:
        model.register_comm_hook(sums, hook)
    update = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    pixels, labels = load(options.folder, "train")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(2))
    for step in range(options.steps):
        first = (step * gyre.ranks + gyre.rank) * options.batch % (len(labels) - options.batch)
        chosen = order[first:first + options.batch]
        loss = nn.functional.cross_entropy(model(pixels[chosen]), labels[chosen])
        update.zero_grad()
        loss.backward()
        update.step()
        if step % 10 == 9:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if gyre.rank == 0:
                print("step %d loss %.7f" % (step + 1, mean.item() / gyre.ranks), flush=True)
    sums.close()
    return model


def check(options, gyre, model):
    """The accuracy, and whether all ranks hold the same weights."""
    own = torch.cat([p.detach().flatten() for p in model.parameters()])
    other = own.clone()
    dist.broadcast(other, 0)
    same = torch.tensor(float(torch.equal(own, other)))
    dist.all_reduce(same)
    if gyre.rank == 0:
        pixels, labels = load(options.folder, "t10k")
        with torch.no_grad():
            right = (model.module(pixels).argmax(1) == labels).float().mean().item()
        print("test accuracy %.4f, weights of %d ranks %s, sums by %s" %
              (right, gyre.ranks, "equal" if same.item() == gyre.ranks else "DIFFER", "Gloo" if options.gloo else "Gyre"))
    return 0 if same.item() == gyre.ranks else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--library", required=True)
    parser.add_argument("--meet", required=True, help="a file that does not exist yet, where PyTorch's processes find each other")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--gloo", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gyre = Gyre(options.library)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath(options.meet), rank=gyre.rank, world_size=gyre.ranks)
    status = check(options, gyre, train(options, gyre))
    dist.destroy_process_group()
    gyre.end()
    gyre.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
