#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints tests/t_metrics_values.h: what scikit-learn says of the scores that tests/t_metrics.c generates."""
import numpy as np
from sklearn import metrics as sk

N, C = 500, 7
state = 7


def draw():
    global state
    state = (state * 1664525 + 1013904223) % 2**32
    return state >> 16


label, scores, loss = np.zeros(N, int), np.zeros((N, C)), np.zeros(N)
for i in range(N):
    label[i] = draw() % (C - 1)
    for c in range(C):
        value = draw() % 32
        scores[i, c] = (value + (draw() % 24 if c == label[i] else 0)) / 64
    loss[i] = np.float32((draw() % 1000) / 256)

# A tie with the label is the label's: lift the label a little before taking the best.
lifted = scores.copy()
lifted[np.arange(N), label] += 1e-6
predicted = lifted.argmax(1)
precision, recall, f1, _ = sk.precision_recall_fscore_support(label, predicted, labels=range(C - 1), zero_division=0)
average = [sk.average_precision_score(label == c, scores[:, c]) for c in range(C - 1)]
table = np.stack([precision, recall, f1, average], 1)
confusion = sk.confusion_matrix(label, predicted, labels=range(C))[: C - 1]


def row(values):
    return "{" + ", ".join(repr(float(v)) for v in values) + "}"


print("/* SPDX-License-Identifier: MIT */")
print("/* Written by tests/peer/metrics_values.py: precision, recall, F1, average precision of each class that has samples."
      " */")
print("#ifndef GY_T_METRICS_VALUES_H\n#define GY_T_METRICS_VALUES_H")
print("static const double mt_mean_loss = %r;" % float(loss.mean()))
print("static const double mt_top1 = %r;" % float(sk.accuracy_score(label, predicted)))
print("static const double mt_top5 = %r;" % float(sk.top_k_accuracy_score(label, lifted, k=5, labels=range(C))))
print("static const double mt_classes[MT_C - 1][4] = {\n    " + ",\n    ".join(row(r) for r in table) + "};")
print("static const double mt_macro[4] = " + row(table.mean(0)) + ";")
print("static const int64_t mt_confusion[MT_C - 1][MT_C] = {\n    "
      + ",\n    ".join("{" + ", ".join(str(int(v)) for v in r) + "}" for r in confusion) + "};\n#endif")
