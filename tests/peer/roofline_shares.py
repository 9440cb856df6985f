# SPDX-License-Identifier: MIT
"""roofline_shares.py WHY.json...: the tables of shares in tools/lab/roofline.c, from the output of
`gyre why NET --threads 1 --json`.

For each op code, and for convolutions each type, a table has the share of the limit that its ops
reach in real steps. Its knots are powers of two: for convolutions multiplications and additions a
byte, for other ops bytes over the cache's bytes. A knot is the mean of the ops around it, weighted
by nearness and by time; a knot without ops takes its neighbour's. Limits here are those of memory,
not of the cache: in a step little is found there again. Convolutions of few channels have a factor
beside. Prints C, and for each file's step the ratio of expected to measured. One thread, because a
machine that others use too seldom gives two at once."""
import collections
import json
import math
import re
import sys

KNOTS = {True: [3, 4, 5, 6, 7, 8, 9], False: [-5, 0]}
PASSES = ["conv", "conv-dgrad", "conv-wgrad"]
LAUNCH = 4e-6
WIDE, NARROW, FEW, WINOGRAD = 0, 1, 2, 3  # classes of convolutions that have factors


def width(op):
    match = re.match(r"\d+x\d+x\d+x(\d+) \* .* -> (\d+)(?: by (\d+))?", op["shape"])
    if not match:
        return WIDE
    if op["kernel"].startswith("winograd"):
        return WINOGRAD
    c, k, groups = int(match[1]), int(match[2]), int(match[3] or 1)
    return FEW if c // groups < 8 else NARROW if min(c // groups, k) <= 16 else WIDE


def load(path):
    step = json.load(open(path))
    measured, rows = step["measured"], []
    for op in step["ops"]:
        conv = op["op"].startswith("conv")
        half = conv and step["dtype"] == "bf16" and not op["kernel"].startswith("winograd")
        read, written = op["read"], op["written"]
        pairs, rest = 2 * min(read, written), abs(read - written)
        memory = (pairs / measured["copy_gbs"] + rest / measured["read_gbs" if read > written else "copy_gbs"]) * 1e-9
        compute = op["flops_done"] * 1e-9 / measured["bf16_gflops" if half else "f32_gflops"]
        seconds = max(op["us"] * 1e-6 - LAUNCH * (step["threads"] > 1), 1e-8)
        total = max(read + written, 1)
        at = math.log2(max(op["flops"], 1) / total) if conv else math.log2(total / measured["cache_bytes"])
        rows.append((op["op"], half, conv, at, max(compute, memory), seconds, width(op)))
    return step, rows


def share_at(knots, shares, at):
    at = min(max(at, knots[0]), knots[-1])
    for i in range(len(knots) - 1):
        if at <= knots[i + 1]:
            part = (at - knots[i]) / (knots[i + 1] - knots[i])
            return shares[i] + part * (shares[i + 1] - shares[i])


def fit(rows, knots):
    shares = []
    for i, knot in enumerate(knots):
        left = knot - knots[i - 1] if i else 99
        right = knots[i + 1] - knot if i + 1 < len(knots) else 99
        limit = seconds = 0
        for _, _, _, at, op_limit, op_seconds, _ in rows:
            near = 1 - abs(at - knot) / (left if at < knot else right) if -left < at - knot < right else 0
            if (i == 0 and at < knot) or (i == len(knots) - 1 and at > knot):
                near = 1
            near = max(near, 0) ** 2
            limit += near * op_limit
            seconds += near * op_seconds
        shares.append(limit / seconds if seconds else None)
    for i in list(range(len(shares))) + list(range(len(shares) - 1, -1, -1)):
        if shares[i] is None:
            near = [s for s in shares[max(i - 1, 0):i + 2] if s is not None]
            shares[i] = near[0] if near else None
    return shares


def main():
    files = [load(path) for path in sys.argv[1:]]
    groups = collections.defaultdict(list)
    for _, rows in files:
        for row in rows:
            groups[row[:3]].append(row)
    table = {key: fit([r for r in rows if r[6] == WIDE], KNOTS[key[2]]) for key, rows in groups.items()}

    def expected(row):
        return row[4] / share_at(KNOTS[row[2]], table[row[:3]], row[3])

    factor = {}
    for half in (False, True):
        for kind in (NARROW, FEW, WINOGRAD):
            own = [r for key in groups if key[1] == half for r in groups[key] if r[6] == kind]
            factor[half, kind] = sum(map(expected, own)) / sum(r[5] for r in own) if own else 1
        factor[half, WIDE] = 1
    for half in (False, True):
        for name in PASSES:
            shares = table.get((name, half, True), [])
            print("    { %s }, /* %s, %s */" % (", ".join("%.2f" % s for s in shares), name, "bf16" if half else "f32"))
    for half in (False, True):
        print("    { %s }, /* factors, %s */" % (", ".join("%.2f" % factor[half, w] for w in (WIDE, NARROW, FEW, WINOGRAD)), "bf16" if half else "f32"))
    for name, half, conv in sorted(table):
        if not conv:
            code = "GY_OP_" + re.sub("^(max|avg)-pool", r"pool-\1", name).upper().replace("-", "_")
            print("    [%s] = { %s }," % (code, ", ".join("%.2f" % s for s in table[name, half, conv])))
    for path, (step, rows) in zip(sys.argv[1:], files):
        guess = sum(expected(r) / factor[r[1], r[6]] for r in rows)
        print("/* %-40s %5.3f */" % (path.split("/")[-1], guess / sum(r[5] for r in rows)))


if __name__ == "__main__":
    main()
