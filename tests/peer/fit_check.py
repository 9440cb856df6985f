#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `gyre fit` expects beside what real steps reach. Each net is fitted to its memory limit,
then `gyre why` trains the chosen configuration for some steps.

    fit_check.py GYRE [--csv FILE] [--threads N]

Wants a machine that nobody else uses. Exit status: 0 every expectation within 15 % of the measured
images a second; 1 not."""
import argparse
import csv
import json
import os
import subprocess
import sys

CASES = [  # net, memory, type
    ("resnet50", "2G", "f32"), ("resnet50", "2G", "bf16"), ("resnet18", "1G", "f32"), ("resnet18", "1G", "bf16"),
    ("alexnet", "1500M", "f32"), ("alexnet", "1500M", "bf16"),
]
LIMIT = 0.15


def ask(*command):
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def measure(gyre, net, memory, dtype, threads):
    fit = ask(gyre, "fit", net, "--mem", memory, "--type", dtype, "--threads", threads, "--json")["choice"]
    why = ask(gyre, "why", net, "--batch", str(fit["batch"]), "--accumulate", str(fit["accumulate"]), "--dtype", dtype,
              "--threads", threads, "--tune", "off", "--measure", "5", "--json", *(["--recompute"] if fit["recompute"] else []))
    expected, reached = fit["images_per_second"], why["images_per_second"]
    return dict(net=net, memory=memory, type=dtype, batch=fit["batch"], recompute=int(fit["recompute"]), threads=why["threads"],
                expected="%.2f" % expected, measured="%.2f" % reached, off_percent="%+.1f" % (100 * (expected / reached - 1)),
                load="%.2f" % os.getloadavg()[0], device=why["device"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gyre")
    parser.add_argument("--csv")
    parser.add_argument("--threads", default="0")
    options = parser.parse_args()
    rows = []
    for case in CASES:
        rows.append(measure(options.gyre, *case, options.threads))
        print(" ".join("%s %s" % pair for pair in rows[-1].items()), flush=True)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            table = csv.DictWriter(file, rows[0], lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
    return any(abs(float(row["off_percent"])) > 100 * LIMIT for row in rows)


if __name__ == "__main__":
    sys.exit(main())
