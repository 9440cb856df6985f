#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loss and every gradient tensor of one step, Gyre against PyTorch, for every net of the zoo and a
few small ones.

    parity.py [--zoo "build/gyre zoo"] [--step COMMAND] [--dtype bf16] [NET ...]

PyTorch makes weights and a batch; both compute loss and gradients from them in float32, PyTorch
also in float64. The step command (default: peer_step.c, compiled here against build/libgyre.a) is
called as

    COMMAND NET.txt --weights W.safetensors --batch B.safetensors --out G.safetensors

with W under PyTorch's names, B: x f32 [N][H][W][C] and label i32 [N], G: loss [1], loss_samples
[N], scores [N][classes] and grad.NAME in PyTorch's layout.

The error of a tensor is |difference| / |tensor| (Euclidean norms); 1e-4 is allowed between Gyre and
PyTorch in float32.

A ReLU has a kink. Where a sum lies within rounding of zero, it may fall on either side, so one
element of a gradient is present or not. Every gradient before it then differs by 1 /
sqrt(elements), 1e-3 or more, in any two float32 programs. Max pooling has the same with two nearly
equal maxima. So each bias of the batch norms is moved by less than 0.1 (off_kinks). Then zero lies
in the widest gap between the sums of its channel. Up to TRIES batches are taken until one meets no
accident in the rest (said). And each net is checked once more as NET/smooth, with tanh in place of
ReLU and averages in place of maxima.

--dtype bf16: both compute on bf16 (PyTorch by autocast). The gradient as a whole, and each tensor
of it, may lie 2e-2 from PyTorch's float64. Where rounding alone takes it further off, it may lie as
far as PyTorch's own bf16 gradient (times 1.1; with kinks 1.5).

Exit status: 0 all pass or PyTorch is absent (said), 1 some do not."""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    import torchvision  # noqa: F401
    from safetensors.numpy import load_file, save_file
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(0)

import models

HALF_LIMIT = 2e-2  # the same on bf16, against float64
LIMIT = 1e-4    # relative error that a float32 tensor may have
GAP = 0.1       # how far zero may be moved to lie between two sums
# a gradient smaller than this part of all is zero up to rounding: only its size is checked
SILENT = 1e-9
BATCH = 4       # few samples: fewer sums near a kink
MORE = {"alexnet-bn": 16}  # its batch norm after fully connected layers knows no other pixels
TRIES = 6       # batches, for nets with kinks


def net_text(name, smooth, options):
    """The net's text without dropout, and the sides of its input."""
    if name in models.SMALL:
        text = models.SMALL[name].TEXT
    else:
        text = subprocess.run(shlex.split(options.zoo) + [name], check=True, capture_output=True, text=True).stdout
    text = re.sub(r"\bdropout\s+[\d.]+", "dropout 0", text)
    if smooth:
        text = re.sub(r"\bmaxpool\b", "avgpool", re.sub(r"\brelu\b", "tanh", text))
    if options.side:
        text = re.sub(r"input \d+x\d+x", "input %dx%dx" % (options.side, options.side), text)
    return text, [int(v) for v in re.search(r"input (\d+)x(\d+)x(\d+)", text).groups()]


def model_of(name, smooth=False):
    """The PyTorch net in training mode, dropout off, batch norm away from its start so that its gradients matter. The
    last batch norm of a residual block is small, as in a trained net; else deep nets amplify rounding a thousandfold.
    """
    torch.manual_seed(1)
    models.SMOOTH = smooth
    model = (models.SMALL.get(name) or models.ZOO[name])()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.uniform_(module.weight, 0.7, 1.3)
            nn.init.normal_(module.bias, 0, 0.2)
        for child, value in list(module.named_children()):
            if smooth and isinstance(value, nn.ReLU):
                setattr(module, child, nn.Tanh())
            if smooth and isinstance(value, nn.MaxPool2d):
                setattr(module, child, nn.AvgPool2d(value.kernel_size, value.stride, value.padding))
    for module in model.modules():
        if type(module).__name__ in ("BasicBlock", "Bottleneck", "CifarBlock"):
            nn.init.uniform_(getattr(module, "bn3", module.bn2).weight, 0.07, 0.13)
    return model.train()


def widest_gap(sums):
    """For every row of sums the middle of the widest gap between two of them, within GAP of zero."""
    order = sums.sort(1).values
    middle, width = (order[:, 1:] + order[:, :-1]) / 2, order[:, 1:] - order[:, :-1]
    width[middle.abs() > GAP] = -1.0
    best = width.argmax(1, keepdim=True)
    return torch.where(width.gather(1, best) > 0, middle.gather(1, best), torch.zeros(())).squeeze(1)


def off_kinks(model, x):
    """Moves the biases of the batch norms so that no sum that meets a ReLU on batch x lies near zero."""
    last, handles, plain = [None], [], F.relu

    def relu(sums, inplace=False):
        norm, last[0] = last[0], None
        if norm is not None:
            move = -widest_gap(sums.transpose(0, 1).flatten(1))
            norm.bias.add_(move)
            sums = sums + move.reshape([1, -1] + [1] * (sums.dim() - 2))
        return plain(sums)

    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            handles.append(module.register_forward_hook(lambda norm, before, after: last.__setitem__(0, norm)))
    state = {key: value.clone() for key, value in model.state_dict().items() if "running" in key}
    F.relu = relu
    try:
        with torch.no_grad():
            model.double()(x.double())
    finally:
        F.relu = plain
    for handle in handles:
        handle.remove()
    model.float().load_state_dict(state, strict=False)


def batch_of(model, sides, classes, count, seed):
    """Smooth random images: neighbours resemble each other, as in photographs."""
    h, w, c = sides
    random = torch.Generator().manual_seed(seed)
    coarse = torch.randn(count, c, (h + 3) // 4, (w + 3) // 4, generator=random)
    x = F.interpolate(coarse, size=(h, w), mode="bilinear") + 0.25 * torch.randn(count, c, h, w, generator=random)
    return x * getattr(model, "SCALE", 1.0), torch.randint(0, classes, (count,), generator=random)


def torch_step(model, x, label, dtype):
    """Losses of the samples, their mean, scores as Gyre gives them, gradients: all float64 numpy arrays."""
    model = model.to(torch.float32 if dtype == torch.bfloat16 else dtype)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        out = model(x.to(torch.float32 if dtype == torch.bfloat16 else dtype))
    out = out.float() if dtype == torch.bfloat16 else out
    losses = model.loss(out, label) if hasattr(model, "loss") else F.cross_entropy(out, label, reduction="none")
    losses.mean().backward()
    scores = model.scores(out) if hasattr(model, "scores") else out.softmax(1)
    result = {"loss": losses.mean().reshape(1), "loss_samples": losses, "scores": scores}
    result.update(("grad." + name, p.grad) for name, p in model.named_parameters())
    return {key: value.detach().double().numpy().copy() for key, value in result.items()}


def gyre_step(options, text, state, x, label):
    with tempfile.TemporaryDirectory(prefix="gyre-parity-") as folder:
        keys = ("net.txt", "w.safetensors", "b.safetensors", "g.safetensors")
        place = {key: os.path.join(folder, key) for key in keys}
        with open(place["net.txt"], "w") as file:
            file.write(text)
        save_file(state, place["w.safetensors"])
        save_file({"x": np.ascontiguousarray(x.permute(0, 2, 3, 1).numpy()), "label": label.numpy().astype(np.int32)},
                  place["b.safetensors"])
        command = shlex.split(options.step) + [place["net.txt"], "--weights", place["w.safetensors"], "--batch",
                                               place["b.safetensors"], "--out", place["g.safetensors"]]
        command += ["--dtype", options.dtype] if options.dtype != "f32" else []
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("%s: exit status %d: %s" % (command[0], done.returncode, done.stderr.strip()[-300:]))
        return {key: value.astype(np.float64) for key, value in load_file(place["g.safetensors"]).items()}


def compile_step(library, folder):
    """peer_step.c with the library, in a folder for this run."""
    here, program = os.path.dirname(os.path.abspath(__file__)), os.path.join(folder, "peer_step")
    command = shlex.split(os.environ.get("CC", "cc")) + ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O2"]
    command += ["-I", os.path.dirname(os.path.dirname(here))]
    command += [os.path.join(here, "peer_step.c"), library, "-lm", "-lpthread", "-ldl", "-o", program]
    subprocess.run(command, check=True)
    return shlex.quote(program)


def error(value, truth):
    size = np.linalg.norm(truth.ravel())
    return float(np.linalg.norm((value - truth).ravel()) / size) if size > 0 else float(np.abs(value).max(initial=0))


def all_of(tensors):
    return np.concatenate([value.ravel() for key, value in sorted(tensors.items()) if key.startswith("grad.")])


def compare(gyre, single, double, smooth, half=False):
    """A row for every tensor: name, Gyre against float32, Gyre and PyTorch against float64, verdict."""
    whole = np.sqrt(sum(np.sum(v**2) for k, v in double.items() if k.startswith("grad.")))
    rows = []
    if half:
        for tensors in (gyre, single, double):
            tensors["all gradients"] = all_of({key: tensors[key] for key in double if key.startswith("grad.")})
    for key, truth in double.items():
        if key not in gyre or gyre[key].shape != truth.shape:
            shape = gyre[key].shape if key in gyre else None
            rows.append({"name": key, "verdict": "FAIL", "why": "shape %s, not %s" % (shape, truth.shape)})
            continue
        if key.startswith("grad.") and np.linalg.norm(truth) <= SILENT * whole:
            small = np.linalg.norm(gyre[key]) <= 1e-5 * whole
            rows.append({"name": key, "verdict": "zero" if small else "FAIL", "why": "should be zero"})
            continue
        row = {"name": key, "single": error(gyre[key], single[key]), "double": error(gyre[key], truth),
               "torch": error(single[key], truth)}
        row["verdict"] = "FAIL"
        if half:
            near = row["double"] <= row["torch"] * (1.1 if smooth else 1.5)
            row["verdict"] = "ok" if row["double"] <= HALF_LIMIT else "bf16" if near else "FAIL"
        elif row["single"] <= LIMIT:
            row["verdict"] = "ok"
        rows.append(row)
    for key in gyre:
        if key not in double:
            rows.append({"name": key, "verdict": "FAIL", "why": "PyTorch has no such tensor"})
    return rows


def worst(rows, key):
    return max((row.get(key, 0.0) for row in rows if row["name"].startswith("grad.")), default=0.0)


def step_both(name, smooth, seed, options):
    """One batch through both: count of samples, Gyre's loss, rows of compare."""
    text, sides = net_text(name, smooth, options)
    with torch.no_grad():
        classes = model_of(name)(torch.zeros(2, sides[2], sides[0], sides[1])).shape[1]
    model = model_of(name, smooth)
    count = options.batch or MORE.get(name, BATCH)
    x, label = batch_of(model, sides, classes, count, seed)
    if not smooth:
        off_kinks(model, x)
    state = {key: value.numpy().copy() for key, value in model.state_dict().items() if "num_batches" not in key}
    gyre = gyre_step(options, text, state, x, label)
    half = options.dtype == "bf16"
    single = torch_step(model, x, label, torch.bfloat16 if half else torch.float32)
    model.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()}, strict=False)
    double = torch_step(model, x, label, torch.float64)
    return count, gyre["loss"][0], compare(gyre, single, double, smooth, half)


def check(name, smooth, options):
    begin, tries = time.time(), 0
    while True:
        count, loss, rows = step_both(name, smooth, 2 + tries, options)
        failed = [row for row in rows if row["verdict"] == "FAIL"]
        tries += 1
        if not failed or smooth or tries == TRIES or any("why" in row for row in failed):
            break
    limited = sum(row["verdict"] == "bf16" for row in rows)
    gradients = sum(row["name"].startswith("grad.") for row in rows)
    of_loss = [row.get("single", 1.0) for row in rows if row["name"] == "loss"][0]
    name += "/smooth" if smooth else ""
    line = "%-17s batch %-2d  loss %.6f (error %.1e)  %3d gradients: " % (name, count, loss, of_loss, gradients)
    line += "worst against float32 %.1e, against float64 %.1e " % (worst(rows, "single"), worst(rows, "double"))
    line += "(PyTorch %.1e)" % worst(rows, "torch")
    line += ", %d at the type's own limit" % limited if limited else ""
    for row in rows:
        if row["name"] == "all gradients":
            line += ", all together %.1e (PyTorch %.1e)" % (row["double"], row["torch"])
    line += ", batch no. %d" % tries if tries > 1 else ""
    print("%s  %s  %.0f s" % (line, "FAIL" if failed else "ok", time.time() - begin), flush=True)
    for row in rows if options.verbose else failed:
        figures = "" if "why" in row else "float32 %(single).1e, float64 %(double).1e, PyTorch %(torch).1e" % row
        print("    %-8s %-40s %s" % (row["verdict"], row["name"], row.get("why") or figures))
    return {"net": name, "batch": count, "failed": len(failed), "bf16_limit": limited, "tensors": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("nets", nargs="*", help="names, with /smooth or without; default: all, both")
    parser.add_argument("--zoo", default="build/gyre zoo", help="command that prints the text of a net")
    parser.add_argument("--step", help="command that makes the step; default: peer_step.c, compiled now")
    parser.add_argument("--library", default="build/libgyre.a", help="for peer_step.c")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--side", type=int, default=0, help="height and width of the input, where the net allows it")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--json", help="file for all figures")
    parser.add_argument("--verbose", action="store_true", help="every tensor, not only the failed ones")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    folder = tempfile.TemporaryDirectory(prefix="gyre-parity-")
    options.step = options.step or compile_step(options.library, folder.name)
    known, results = list(models.SMALL) + list(models.ZOO), []
    for wanted in options.nets or [name + variant for name in known for variant in ("", "/smooth")]:
        name, _, variant = wanted.partition("/")
        if name not in known or variant not in ("", "smooth"):
            sys.exit("no net '%s'; there are %s" % (wanted, ", ".join(known)))
        if variant and not options.nets and name in ("groups", "square", "logistic"):
            continue  # no ReLU in them
        try:
            results.append(check(name, variant == "smooth", options))
        except (RuntimeError, OSError, subprocess.CalledProcessError) as problem:
            print("%-17s FAIL: %s" % (wanted, problem), flush=True)
            results.append({"net": wanted, "failed": 1, "error": str(problem)})
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    bad = sum(result["failed"] > 0 for result in results)
    print("parity: %d nets agree, %d do not" % (len(results) - bad, bad))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
