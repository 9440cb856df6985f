#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""machine_code.py [--csv FILE] NAME=GYRE[,CACHE]...: counts instructions of the wgmma convolutions
of ResNet-50 (bf16, batch 256, sm_90), as nvdisasm shows them. It predicts the milliseconds of a
step.

Each NAME is a build of the command, the older first: a mend's row stands between two of them. One
kernel stands for its kind: op, width of a tile, added to or not. No GPU is needed. The model is
that of docs/measured.md: 132 multiprocessors at 1.75 GHz, matrix units at 790 TFLOP/s, tiles from
L2 at 8.3 TB/s. An issue rate of 0.7 and whole waves of weight gradients complete it. nvdisasm: of
PATH, or NVDISASM."""
import csv
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

CLOCK, PROCESSORS, FLOPS, L2, ISSUE, LAUNCH, DRAM = 1.75e9, 132, 790e12, 8.3e12, 0.7, 2.5e-6, 2.84e12
NET = ["resnet50", "--arch", "90", "--batch", "256", "--dtype", "bf16"]
HASH = re.compile(r"^[0-9a-f]{12}$")


def geometry():
    """layer -> (side of the output, channels, filter's side, filters, stride)"""
    out, side, channels = {}, 56, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            name, small = "layer%d.%d." % (stage + 1, block), side // stride
            out[name + "conv1"] = (side, channels, 1, width, 1)
            out[name + "conv2"] = (small, width, 3, width, stride)
            out[name + "conv3"] = (small, width, 1, 4 * width, 1)
            if block == 0:
                out[name + "downsample.0"] = (small, channels, 1, 4 * width, stride)
            side, channels = small, 4 * width
    return out


def run(gyre, cache, words):
    env = dict(os.environ, GYRE_KERNEL_CACHE=cache) if cache else os.environ
    return subprocess.run([gyre, "kernels"] + words, capture_output=True, text=True, env=env).stdout


def launches(gyre, cache):
    """one dictionary a launch of the convolutions with wgmma, without those of evaluation"""
    out = []
    for line in run(gyre, cache, NET).split("\n"):
        w = line.split()
        at = [i for i, x in enumerate(w) if HASH.match(x)]
        if ("conv_wgmma.cu" not in line and "conv_mma_lines" not in line) or line.startswith("eval") or not at:
            continue
        grid = [int(x) for x in w[at[0] + 1].split("x")]
        out.append({"op": w[2], "layer": w[3], "entry": w[at[0] - 1], "hash": w[at[0]], "grid": grid,
                    "threads": int(w[at[0] + 2]), "shared": int(w[at[0] + 3])})
    return out


def images(gyre, cache):
    """hash -> machine code, from a pack"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pack")
        run(gyre, cache, ["pack"] + NET + ["--out", path])
        data = open(path, "rb").read()
    at, out = 8, {}
    while at < len(data):
        size, text = struct.unpack("<QQ", data[at + 40:at + 56])
        out[data[at + 8:at + 40].hex()[:12]] = data[at + 96:at + 96 + size]
        at += 96 + size + text
    return out


def disassemble(tool, image, entry="conv_wgmma"):
    """instructions of a kernel, and where its labels stand"""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as f:
        f.write(image)
        f.flush()
        text = subprocess.run([tool, "-c", f.name], capture_output=True, text=True).stdout
    code, label, inside = [], {}, False
    for line in text.split("\n"):
        if line.startswith(".text."):
            inside = line.strip() == ".text.%s:" % entry
        name = re.match(r"(\.L_x_\d+):", line)
        word = re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?);", line)
        if inside and name:
            label[name.group(1)] = len(code)
        if inside and word:
            code.append(word.group(1))
    return code, label


def counts(code, label, trips):
    """(main loop, epilogue, R2UR in the loop, conversions); the loop is 0 where it is unrolled"""
    products = [i for i, x in enumerate(code) if "HGMMA" in x]
    loops = []
    for i, x in enumerate(code):
        to = re.search(r"BRA `\((\.L_x_\d+)\)", x)
        if to and label.get(to.group(1), len(code)) <= i:
            loops.append((label[to.group(1)], i))
    waits = [i for i, x in enumerate(code) if "DEPBAR.LE gsb0, 0x0" in x]
    begin = waits[-1]
    around = [b for a, b in loops if a <= products[0] and b > begin]
    end = min(around) if around else next(i for i in range(begin, len(code)) if "EXIT" in code[i])
    main = [(b - a + 1, a, b) for a, b in loops if a <= products[0] and products[-1] <= b < begin]
    body = code[min(main)[1]:min(main)[2]] if main else []
    weight = sum((b - a + 1) * (trips - 1) for a, b in loops if begin < a and b < end and b - a < 200)
    return (min(main)[0] if main else 0, end - begin + weight, sum("R2UR" in x for x in body),
            sum("F2FP" in x for x in code))


def copy_of_image(code, launch):
    """seconds of the stem's copy: 224 x 224 x 3 read, 230 x 230 x 4 written, of 16 bits; or its instructions"""
    moved = 256 * 2 * (224 * 224 * 3 + 230 * 230 * 4) / DRAM
    warps = launch["grid"][0] * launch["threads"] / 32
    return max(moved, warps * len(code) / (4 * PROCESSORS) / ISSUE / CLOCK) + LAUNCH


def width_of(op, shared):
    """rows and columns of a tile, from its shared memory"""
    for rows, cols, stages in ((128, 64, 5), (128, 128, 4), (128, 256, 3), (64, 192, 4)):
        if shared == stages * (rows + cols) * 128 + 256 * (cols + 8) + 64 * cols + 16 * stages:
            return rows, cols
    return 128, 128


def predict(row, rows, cols, loop, epilogue, grid):
    """seconds of one launch by the model"""
    side, channels, taps, filters, classes = row
    pixels = 256 * side * side
    step = max(rows * cols * 128 / (FLOPS / PROCESSORS), (rows + cols) * 128 / (L2 / PROCESSORS),
               2 * loop / ISSUE / CLOCK)
    end = 2 * epilogue / ISSUE / CLOCK
    if grid is not None:
        blocks = grid[0] * grid[1]
        return -(-blocks // PROCESSORS) * (-(-pixels // 64 // grid[1]) * step + end) + LAUNCH
    tiles, depth = -(-pixels // rows) * -(-filters // cols), taps * taps * channels // classes
    return -(-tiles // PROCESSORS) * (-(-depth // 64) * step + end) + LAUNCH


def build(name, gyre, cache, tool):
    """what a build's launches cost: rows of kinds, and sums by op"""
    shapes, code, kinds, sums = geometry(), images(gyre, cache), {}, {}
    for x in launches(gyre, cache):
        # counted twice: forward copies, too, and rounds weights
        if x["entry"] == "conv_mma_lines" and x["op"] == "conv-wgrad":
            body = disassemble(tool, code[x["hash"]], x["entry"])[0]
            sums["stem's copies"] = 2 * copy_of_image(body, x)
        if x["layer"] not in shapes:
            continue
        side, channels, taps, filters, stride = shapes[x["layer"]]
        if x["entry"] != "conv_wgmma":
            # helpers: blocks a multiprocessor by shared memory and threads, a memory latency a wave
            most = min(5, 233472 // (x["shared"] + 1024))
            waves = -(-x["grid"][0] * x["grid"][1] // (PROCESSORS * most))
            sums["helpers"] = sums.get("helpers", 0) + waves * 0.8e-6 + LAUNCH
            continue
        rows, cols = width_of(x["op"], x["shared"])
        kind = (x["op"], rows, cols)
        if kind not in kinds:
            kinds[kind] = counts(*disassemble(tool, code[x["hash"]]), max(1, cols // 16))
        loop, epilogue = kinds[kind][:2]
        if x["op"] == "conv-dgrad": # the tiles are of the input, the reduction is over filters
            row = (side * stride, filters, taps, channels, stride * stride)
        else:
            row = (side, channels, taps, filters, 1)
        grid = x["grid"] if x["op"] == "conv-wgrad" else None
        sums[x["op"]] = sums.get(x["op"], 0) + predict(row, rows, cols, loop, epilogue, grid)
    return {"name": name, "kinds": kinds, "ms": {k: 1e3 * v for k, v in sums.items()}}


def main():
    words = sys.argv[1:]
    path = words[1] if words[:1] == ["--csv"] else None
    tool = os.environ.get("NVDISASM") or shutil.which("nvdisasm")
    if not tool:
        print("skipped: nvdisasm is not here")
        return 0
    out = [["build", "what", "rows", "columns", "loop", "epilogue", "r2ur", "f2fp", "ms"]]
    for word in words[2:] if path else words:
        name, _, rest = word.partition("=")
        gyre, _, cache = rest.partition(",")
        b = build(name, gyre, cache, tool)
        for (op, rows, cols), c in sorted(b["kinds"].items()):
            out.append([name, op, rows, cols] + list(c) + [""])
        for op, ms in sorted(b["ms"].items()):
            out.append([name, op + " in all", "", "", "", "", "", "", "%.2f" % ms])
        out.append([name, "sum", "", "", "", "", "", "", "%.2f" % sum(b["ms"].values())])
    csv.writer(open(path, "w", newline="") if path else sys.stdout, lineterminator="\n").writerows(out)
    return 0


sys.exit(main())
