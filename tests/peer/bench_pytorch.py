#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training speed and memory, Gyre beside PyTorch on the same threads, measured in turn. One process
of each side stays open and they run a few steps alternately, so that a busy machine slows both.

    bench_pytorch.py [--quick] [--only SUBSTRING] [--rounds 5] [--threads N] [--csv FILE]
                     [--library build/libgyre.a]

PyTorch's side (bench_step.py) is the faster of eager and torch.compile, found by the best of four
turns of each; channels_last, fused SGD, bf16 by autocast. Gyre's side (bench_step.c, compiled here)
makes the same steps through the public header. A row is 'net-batch-type'. With '-photo' both sides
decode and augment the ImageNet photographs of GYRE_TEST_DATA. Then PyTorch has the best of 0, 1 and
2 worker processes, Gyre the better of 1 and 2 loader threads. With '-avx2' both are held to AVX2.

Speed is the median of the rounds' medians; the ratio is the median of the rounds' ratios. Memory is
the largest resident size (VmHWM) of the process: 'peak' after the warm-up steps, 'whole' since its
start. 'whole' counts torch.compile's work; worker processes are not counted. A row ends with the
load average, because PyTorch's threads spin while they wait for each other. Where it is much above
the number of threads, its figures mean little.

Exit status: 0 measured, or PyTorch is absent (said); 1 a row failed."""
import argparse
import csv
import datetime
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

try:
    import torch
    import torchvision  # noqa: F401
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(0)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
UNSTEADY = 1.15  # fastest over slowest round
TRIALS = 4       # turns that find the faster variant
CACHE = "TORCHINDUCTOR_CACHE_DIR"
ROWS = [  # net, batch, type, input, kernel set
    ("resnet50", 16, "f32", "synthetic", ""),
    ("resnet50", 16, "bf16", "synthetic", ""),
    ("resnet50", 32, "f32", "synthetic", ""),
    ("resnet50", 32, "bf16", "synthetic", ""),
    ("resnet50", 16, "f32", "photo", ""),
    ("resnet50", 32, "f32", "photo", ""),
    ("resnet50", 32, "bf16", "photo", ""),
    ("resnet50", 16, "f32", "synthetic", "avx2"),
    ("alexnet", 64, "f32", "synthetic", ""),
    ("alexnet", 64, "bf16", "synthetic", ""),
    ("resnet18", 32, "f32", "synthetic", ""),
    ("resnet18", 32, "bf16", "synthetic", ""),
    ("resnet20", 128, "f32", "synthetic", ""),
    ("resnet20", 128, "bf16", "synthetic", ""),
]
COLUMNS = ["net", "batch", "type", "input", "isa", "side", "variant", "images_per_second", "ratio", "slowest_round",
           "fastest_round", "peak_mib", "whole_mib", "memory_ratio", "waits", "load", "rounds", "steps", "threads", "cpu", "commit",
           "version", "date", "command"]


class Side:
    """A process that makes steps when it is told to."""

    def __init__(self, variant, command, environment, log, turn):
        self.variant, self.command, self.rounds = variant, command, []
        self.shown = " ".join("%s=%s" % pair for pair in environment.items() if pair[0] != CACHE)
        self.process = subprocess.Popen(command + ["--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                        env=dict(os.environ, **environment), text=True)
        words = self.line().split()
        if words[:1] != ["ready"]:
            raise RuntimeError("%s said %s" % (" ".join(command), " ".join(words)))
        self.turn, self.steps = turn, 1
        self.fit(float(words[1]))

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            raise RuntimeError("%s ended, status %s" % (" ".join(self.command), self.process.wait()))
        return text.strip()

    def ask(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self.line()

    def seconds(self):
        """The median step of a turn."""
        return statistics.median(float(v) for v in self.ask("run %d" % self.steps).split())

    def fit(self, seconds):
        """Sets the number of steps of a turn from the time of one."""
        self.steps = max(1, min(20, int(self.turn / max(seconds, 1e-4))))

    def probe(self):
        """The first turn; the last warm-up step may have been far slower than the rest."""
        seconds, steps = self.seconds(), self.steps
        self.fit(seconds)
        return self.seconds() if self.steps >= 2 * steps else seconds

    def memory(self):
        """MiB: the most since the warm-up steps, and since the start."""
        return [int(v) / 1024 for v in self.ask("memory").split()]

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def best(makers):
    """Opens every variant and gives them turns in turn; the one with the fastest stays open. makers: functions that return a
    Side. One slow moment of the machine does not choose."""
    sides, said = [], []
    for make in makers:
        try:
            sides.append(make())
            sides[-1].trials = [sides[-1].probe()]
        except RuntimeError as error:
            said.append("failed: %s" % error)
    if not sides:
        raise RuntimeError("; ".join(said))
    for side in sides * (TRIALS - 1) if len(sides) > 1 else []:
        side.trials.append(side.seconds())
    kept = min(sides, key=lambda side: min(side.trials))
    said += ["%s %.3f s %.0f MiB" % (side.variant, min(side.trials), side.memory()[0]) for side in sides]
    for side in sides:
        if side is not kept:
            side.close()
    return kept, ", ".join(said)


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.photos = unpack_photos(folder)
        self.program = compile_step(options.library, folder)
        self.mode = {}  # of a net and type: torch's better mode, for photographs
        self.log = open(os.path.join(folder, "log"), "w+")

    def torch_side(self, row, mode, workers):
        net, batch, dtype, source, isa = row
        command = [sys.executable, os.path.join(HERE, "bench_step.py"), net, "--batch", str(batch), "--dtype", dtype, "--mode", mode,
                   "--threads", str(self.options.threads)]
        environment = {CACHE: self.options.cache} if self.options.cache else {}
        variant = mode
        if source == "photo":
            command += ["--data", os.path.join(self.photos, "train"), "--workers", str(workers)]
            variant += ", %d workers" % workers
        if isa:
            environment.update(ATEN_CPU_CAPABILITY=isa, ONEDNN_MAX_CPU_ISA=isa.upper())
        return Side(variant, command, environment, self.log, self.options.turn)

    def gyre_side(self, row, threads):
        net, batch, dtype, source, isa = row
        command = [self.program, net, "--batch", str(batch), "--dtype", dtype, "--threads", str(self.options.threads)]
        variant = "default"
        if source == "photo":
            command += ["--data", self.photos, "--loader-threads", str(threads)]
            variant = "%d loader threads" % threads
        if isa:
            command += ["--isa", isa]
        if self.options.recompute:
            command += ["--recompute"]
            variant += ", recompute"
        return Side(variant, command, {}, self.log, self.options.turn)

    def sides(self, row):
        net, _, dtype, source, isa = row
        modes = self.options.modes.split(",")
        if source == "photo":
            mode = self.mode.get((net, dtype), modes[0])
            torch_makers = [lambda w=w: self.torch_side(row, mode, w) for w in (0, 1, 2)]
            gyre_makers = [lambda t=t: self.gyre_side(row, t) for t in (1, 2)]
        else:
            torch_makers = [lambda m=m: self.torch_side(row, m, 0) for m in modes]
            gyre_makers = [lambda: self.gyre_side(row, 0)]
        gyre, said_gyre = best(gyre_makers)
        try:
            torch_side, said = best(torch_makers)
        except RuntimeError:
            gyre.close()
            raise
        if source != "photo" and not isa:
            self.mode[(net, dtype)] = torch_side.variant
        print("  tried: %s | %s" % (said, said_gyre), flush=True)
        return torch_side, gyre

    def measure(self, row):
        """A dictionary for each side."""
        batch = row[1]
        sides = self.sides(row)
        try:
            for _ in range(self.options.rounds):
                for side in sides:
                    side.rounds.append(batch / side.seconds())
                    time.sleep(0.1)
            memory = [side.memory() for side in sides]
            waits = [side.ask("waits") for side in sides]
        finally:
            for side in sides:
                side.close()
        ratio = statistics.median(g / t for t, g in zip(sides[0].rounds, sides[1].rounds))
        found = []
        for i, (side, name) in enumerate(zip(sides, ("pytorch", "gyre"))):
            found.append(dict(zip(COLUMNS, row), side=name, variant=side.variant, steps=side.steps, waits=waits[i],
                              images_per_second=round(statistics.median(side.rounds), 3), ratio=round(ratio, 3) if i else 1,
                              slowest_round=round(min(side.rounds), 3), fastest_round=round(max(side.rounds), 3),
                              peak_mib=round(memory[i][0], 1), whole_mib=round(memory[i][1], 1),
                              memory_ratio=round(memory[1][0] / memory[0][0], 3) if i else 1, rounds=self.options.rounds,
                              load=round(os.getloadavg()[0], 2),
                              threads=self.options.threads, command=self.words(side)))
        return found

    def words(self, side):
        """As somebody else would type it."""
        text = (side.shown + " " + shlex.join(side.command)).strip().replace(sys.executable, "python3")
        return text.replace(self.folder + "/", "").replace(ROOT + "/", "")


def unpack_photos(folder):
    """A data set of the photographs: FOLDER/train/CLASS/FILE; None without them."""
    archive = os.path.join(os.environ.get("GYRE_TEST_DATA", ""), "images", "imagenet-120.tar")
    if not os.path.isfile(archive):
        return None
    place, inside = os.path.join(folder, "photos"), os.path.join(folder, "archive")
    with tarfile.open(archive) as tar:
        tar.extractall(inside, filter="data")
    names = sorted(os.path.join(at, name) for at, _, files in os.walk(inside) for name in files if name.lower().endswith((".jpeg", ".jpg")))
    for i, name in enumerate(names):  # one photograph of each class: the number is the class
        at = os.path.join(place, "train", "c%03d" % i)
        os.makedirs(at)
        shutil.move(name, os.path.join(at, "photo.jpg"))
    shutil.rmtree(inside)
    return place


def compile_step(library, folder):
    program = os.path.join(folder, "bench_step")
    command = shlex.split(os.environ.get("CC", "cc")) + ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O2"]
    subprocess.run(command + [os.path.join(HERE, "bench_step.c"), library, "-lm", "-lpthread", "-ldl", "-o", program], check=True)
    return program


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        return done.stdout.strip().split("\n")[0]
    except OSError:
        return ""


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            facts = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].split("\n") if ":" in line)
    except OSError:
        return platform.machine()
    facts = {key.strip(): value.strip() for key, value in facts.items()}
    return "%s, family %s model %s" % (facts.get("model name", platform.machine()), facts.get("cpu family", "?"), facts.get("model", "?"))


def name_of(row):
    parts = [row[0], str(row[1]), row[2]] + (["photo"] if row[3] == "photo" else []) + ([row[4]] if row[4] else [])
    return "-".join(parts)


def chosen(options, photos):
    rows = [row for row in ROWS if any(word in name_of(row) for word in options.only.split(","))]
    if options.quick:
        rows = rows[:1]
    if not photos and any(row[3] == "photo" for row in rows):
        print("skipped: rows with photographs, GYRE_TEST_DATA has no images/imagenet-120.tar")
        rows = [row for row in rows if row[3] != "photo"]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the first row alone, three rounds")
    parser.add_argument("--only", default="", help="rows whose name contains one of these, comma between them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn", type=float, default=2.0, help="seconds that a turn should last")
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--recompute", action="store_true", help="Gyre recomputes activations")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--library", default=os.path.join(ROOT, "build", "libgyre.a"))
    parser.add_argument("--cache", help="folder that keeps what torch.compile makes")
    parser.add_argument("--csv", help="rows are added to this file")
    options = parser.parse_args()
    options.rounds = 3 if options.quick and options.rounds == 5 else options.rounds
    dirty = "-changed" if first_line(["git", "status", "--porcelain", "--untracked-files=no"]) else ""
    facts = {"cpu": processor(), "commit": first_line(["git", "rev-parse", "--short=12", "HEAD"]) + dirty,
             "version": torch.__version__, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")}
    failed, begin = 0, time.time()
    print("PyTorch %(version)s beside Gyre %(commit)s on %(cpu)s" % facts, flush=True)
    with tempfile.TemporaryDirectory(prefix="gyre-bench-") as folder:
        bench = Bench(options, folder)
        writer = csv.DictWriter(open(options.csv, "a") if options.csv else open(os.devnull, "w"), COLUMNS)
        if options.csv and os.path.getsize(options.csv) == 0:
            writer.writeheader()
        for row in chosen(options, bench.photos):
            print(name_of(row), flush=True)
            try:
                found = bench.measure(row)
            except RuntimeError as error:
                failed += 1
                bench.log.seek(0)
                print("  FAILED: %s\n%s" % (error, bench.log.read()[-600:]), flush=True)
                continue
            for line in found:
                print("  %(side)-8s %(images_per_second)9.2f images/s  x%(ratio).2f   peak %(peak_mib)7.0f MiB  x%(memory_ratio).2f"
                      "   rounds %(slowest_round).2f to %(fastest_round).2f  (%(variant)s)" % line, flush=True)
                writer.writerow(dict(line, **facts))
            steady = all(line["fastest_round"] < UNSTEADY * line["slowest_round"] for line in found)
            print("  fastest rounds x%.2f, load %.1f%s" % (found[1]["fastest_round"] / found[0]["fastest_round"], found[1]["load"],
                                                           "" if steady else "; UNSTEADY: measure this row again"))
    print("%.0f s, %d failed" % (time.time() - begin, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
