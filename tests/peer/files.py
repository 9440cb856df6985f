#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files that Gyre writes, read by the packages that others read them with: safetensors,
TensorBoard.

    files.py FOLDER_OF_TEST_PROGRAMS (build/default/tests)

Whatever package is absent is skipped, and said. The closing line is that of every test."""
import glob
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom

counts = {"passed": 0, "failed": 0, "skipped": 0}


def check(holds, what):
    counts["passed" if holds else "failed"] += 1
    if not holds:
        print("failed: %s" % what)


def skip(why):
    counts["skipped"] += 1
    print("skipped: %s" % why)


def safetensors(folder):
    try:
        import numpy as np
        from safetensors import safe_open
    except ImportError as missing:
        return skip(str(missing))
    with safe_open(os.path.join(folder, "sample.safetensors"), "np") as file:
        meta = file.metadata()
        check(meta["net"] == 'conv 16 3x3\n"quoted" \\ \u00e9 \x01' and meta["step"] == "1000", "metadata: %r" % meta)
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    check(sorted(tensors) == ["bytes", "conv1.weight", "counters", "empty", "scalar"], "names: %r" % sorted(tensors))
    weight = np.array([[1, -2.5, 3e-38], [65504, 0.1, -0.0]], np.float32)
    check(tensors["conv1.weight"].tobytes() == weight.tobytes(), "conv1.weight: %r" % tensors["conv1.weight"])
    check(tensors["counters"].tolist() == [-1, 2**63 - 1], "counters: %r" % tensors["counters"])
    check(tensors["bytes"].tolist() == [7, 8, 9] and tensors["bytes"].dtype == np.uint8, "bytes: %r" % tensors["bytes"])
    check(tensors["scalar"].shape == () and tensors["empty"].shape == (0, 4), "shapes")


def events(folder):
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as missing:
        return skip(str(missing))
    reader = EventAccumulator(folder)
    reader.Reload()
    check(reader.file_version == 2.0, "file version %r" % reader.file_version)
    check(sorted(reader.Tags()["scalars"]) == ["eval/acc\u00e9", "train/loss"], "tags: %r" % reader.Tags()["scalars"])
    loss = [(event.step, event.value) for event in reader.Scalars("train/loss")]
    check(loss == [(0, 2.5), (300, -0.125)], "train/loss: %r" % loss)
    last = reader.Scalars("eval/acc\u00e9")[0]
    check(last.step == 2**40 and abs(last.value / 1e30 - 1) < 1e-6, "eval: %r" % (last,))


def chart(folder):
    text = xml.dom.minidom.parse(os.path.join(folder, "curve.svg"))
    labels = [node.firstChild.data for node in text.getElementsByTagName("text")]
    check("resnet20 <on> 'CIFAR' & more" in labels and "training loss (left)" in labels, "labels: %r" % labels)


def main():
    programs = sys.argv[1] if len(sys.argv) == 2 else "build/default/tests"
    if not glob.glob(os.path.join(programs, "t_files")):
        sys.exit("no test programs in %s" % programs)
    with tempfile.TemporaryDirectory(prefix="gyre-files-") as folder:
        for program in ("t_files", "t_report"):
            done = subprocess.run([os.path.join(programs, program), "--write", folder])
            check(done.returncode == 0, "%s --write: exit status %d" % (program, done.returncode))
        if counts["failed"] == 0:
            safetensors(folder)
            events(folder)
            chart(folder)
    print("peer_files: %(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
