#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Linear models written as ONNX, run by onnxruntime, beside 'gyre glm predict': labels must be the
# same, probabilities and values within 1e-5. Two classes, three classes one against the rest and as
# a softmax, SVM, regression, with bias, with normalised rows.
#
#   tests/peer/check_glm_onnx.py GYRE      needs numpy, onnx and onnxruntime
import os, random, subprocess, sys, tempfile

import numpy, onnx, onnxruntime

FEATURES = 6


def rows(path, classes, seed):
    draw = random.Random(seed)
    x = numpy.zeros((200, FEATURES), dtype=numpy.float32)
    with open(path, "w") as file:
        for i in range(200):
            for j in range(FEATURES):
                if draw.random() < 0.6:
                    x[i, j] = round(draw.gauss(0, 1), 3)
            label = int(numpy.argmax(x[i, :classes] + 0.3 * numpy.array([draw.gauss(0, 1) for _ in range(classes)]))) + 1
            file.write(f"{label} " + " ".join(f"{j + 1}:{x[i, j]:.3f}" for j in range(FEATURES) if x[i, j] != 0) + "\n")
    return x


def check(gyre, folder, name, classes, options):
    data, model, path, out = (os.path.join(folder, f) for f in ("rows.svm", "a.model", "a.onnx", "out.txt"))
    x = rows(data, classes, 7)
    for to in (model, path):
        subprocess.run([gyre, "glm", "train", data, to, "--quiet", "--features", str(FEATURES)] + options, check=True)
    proved = "hinge" not in " ".join(options) and "squared" not in " ".join(options)
    subprocess.run([gyre, "glm", "predict", data, model, out, "--quiet"] + (["--probability", "1"] if proved else ["--scores"]), check=True)
    lines = [line.split() for line in open(out)]
    onnx.checker.check_model(onnx.load(path))
    got = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"input": x})
    if "squared" in options:
        off = max(abs(float(line[0]) - g) for line, g in zip(lines, got[0].ravel()))
        wrong = 0
    else:
        order = [int(v) for v in lines.pop(0)[1:]] if proved else None
        wrong = sum(int(line[0]) != label for line, label in zip(lines, got[0]))
        want = numpy.array([[float(v) for v in line[1:]] for line in lines])
        mine = got[1][:, [sorted(order).index(v) for v in order]] if proved else got[1][:, 1:] if classes == 2 else got[1]
        off = numpy.abs(mine - want).max()
    good = wrong == 0 and off < 1e-5
    print(f"{'ok' if good else 'FAILED'}  {name}: {wrong} of {len(lines)} labels differ, values by {off:.1e}")
    return good


def main():
    cases = [("two classes", 2, []), ("two classes, bias, normalised", 2, ["--bias", "1", "--normalize"]), ("SVM", 2, ["--loss", "hinge"]),
             ("three classes", 3, []), ("three classes, softmax", 3, ["--softmax", "--bias", "1"]), ("three classes, SVM", 3, ["--loss", "squared-hinge"]),
             ("regression", 3, ["--loss", "squared", "--bias", "2"])]
    with tempfile.TemporaryDirectory() as folder:
        good = sum(check(sys.argv[1], folder, *case) for case in cases)
    print(f"check_glm_onnx: {good} passed, {len(cases) - good} failed")
    return int(good != len(cases))


sys.exit(main())
