#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Linear models beside Snap ML, liblinear, multi-core liblinear and scikit-learn. It measures the
# time to a model whose objective, evaluated here in double, is within 1e-3 and 1e-5 of the optimum.
# For each tool it first searches the loosest setting of its tolerance that reaches this. Then all
# tools run in turn, and medians are printed (*: one of the timed runs was not within the level).
# Peers hold their data in their own form in memory, and only their fit is timed. Gyre's time begins
# with opening the converted file and ends with the last certificate, without the start of the
# process. It is its own report's "open_seconds" + "train_seconds".
#
#   tests/peer/bench_glm.py --gyre build/gyre --data FOLDER [--work FOLDER]
#                           [--sets a9a,frappe,imdb,clicks,mixed,fashion] [--problems lr,svm,l1]
#                           [--rounds 5] [--tools gyre,snapml,...] [--threads N] [--limit SECONDS]
#                           [--rows N] [--levels 1e-3,1e-5] [--clock cpu] [--csv FILE]
#
# FOLDER has a9a, frappe.validation.libfm and imdb.train.svm.gz. Two sets are made here: mixed, by a
# recipe below, and fashion, the first 20,000 images of Debian's dataset-fashion-mnist as dense
# rows, tops against the rest. --clock cpu measures seconds of processors, for a machine that others
# use too; Gyre's are of its whole process, start and files as well. Needs numpy, scipy and
# scikit-learn; snapml, and liblinear-official and liblinear-multicore each in a folder of its own
# (pip install --target), named by LIBLINEAR and LIBLINEAR_MULTICORE. A tool that is absent is left
# out, with a line.
import argparse, csv, gzip, json, os, platform, resource, select, signal, subprocess, sys, time

SETS = {  # file, first id, l2 of lr, svm; l1
    "a9a": ("a9a", 1, {"lr": 1.0, "svm": 1.0, "l1": 10.0}),
    "frappe": ("frappe.validation.libfm", 0, {"lr": 1.0, "svm": 1.0, "l1": 10.0}),
    "imdb": ("imdb.train.svm.gz", 1, {"lr": 10.0, "svm": 10.0, "l1": 10.0}),
    "clicks": (None, 1, {"lr": 10.0, "svm": 10.0, "l1": 10.0}),
    "mixed": (None, 1, {"lr": 1.0, "svm": 1.0, "l1": 10.0}),
    "fashion": (None, 1, {"lr": 1.0, "svm": 1.0, "l1": 10.0}),
}
TOLERANCES = [1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 1e-7, 1e-8]
EPOCHS = [1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 110, 160, 220, 320, 640, 1280]
GAPS = [0.1, 0.05, 0.02, 0.01, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5, 1e-5, 5e-6, 2e-6, 1e-6]
TIGHT = {"lr": ["--gap 1e-8", "--gap 1e-9 --solver newton"], "svm": ["--gap 1e-4", "--gap 1e-6 --epochs 3000"],
         "l1": ["--gap 1e-4", "--gap 1e-6", "--gap 1e-8"]}


# ---- data and objective

def load(args, name):
    """scipy CSR, labels -1 and 1"""
    import numpy, scipy.sparse
    from sklearn.datasets import load_svmlight_file
    cache = os.path.join(args.work, f"{name}.npz" if name != "clicks" else f"clicks{args.rows}.npz")
    if not os.path.exists(cache):
        x, y = load_svmlight_file(text_of(args, name), zero_based=SETS[name][1] == 0)
        y = numpy.where(y == y.max(), 1.0, -1.0)
        scipy.sparse.save_npz(cache, x)
        numpy.save(cache + ".y.npy", y)
    x = scipy.sparse.load_npz(cache)
    x.sort_indices()
    return x, numpy.load(cache + ".y.npy")


def write_rows(path, rows):
    """rows: label, ids from 1, values"""
    with open(path + ".part", "w") as out:
        for y, ids, values in rows:
            cells = (f"{j}:{v:.4g}" for j, v in zip(ids, values))
            out.write(f"{y} {' '.join(cells)}\n")
    os.rename(path + ".part", path)


def fashion_rows(count=20000):
    import numpy
    at = "/usr/share/datasets/fashion-mnist/train-"
    with gzip.open(at + "images-idx3-ubyte.gz") as file:
        x = numpy.frombuffer(file.read(16 + 784 * count), numpy.uint8, offset=16).reshape(-1, 784)
    with gzip.open(at + "labels-idx1-ubyte.gz") as file:
        y = numpy.frombuffer(file.read(8 + count), numpy.uint8, offset=8)
    for pixels, label in zip(x, y):
        ids = numpy.flatnonzero(pixels)
        yield 1 if label in (0, 2, 4, 6) else -1, ids + 1, pixels[ids] / 255


def mixed_rows(count=24000, words=20000, fields=(10, 50, 300, 4000), seed=7):
    """40 numbers that depend on each other, 4 fields as one-hot features, some 30 of 20,000 words
    by tf-idf; labels of a planted logistic model. Everything's sizes are about 1."""
    import numpy
    r = numpy.random.default_rng(seed)
    dense = r.normal(size=(count, 8)) @ r.normal(size=(8, 40)) * 0.35 + r.normal(size=(count, 40)) * 0.5
    values = [numpy.minimum(r.zipf(1.3, count) - 1, field - 1) for field in fields]
    share = 1 / numpy.arange(3, words + 3) ** 1.05
    share /= share.sum()
    of_dense, of_fields = r.normal(size=40) * 0.4, [r.normal(size=field) * 0.5 for field in fields]
    of_words = r.normal(size=words) * (r.random(words) < 0.05) * 4
    rare = numpy.log(1 / numpy.minimum(1 - (1 - share) ** 30 + 1 / count, 1))
    first = 41 + numpy.cumsum([0, *fields])  # ids of the fields, then of words
    for i in range(count):
        word, times = numpy.unique(r.choice(words, size=r.poisson(30) + 1, p=share), return_counts=True)
        tf = (1 + numpy.log(times)) * rare[word]
        tf /= numpy.sqrt((tf * tf).sum())
        z = dense[i] @ of_dense + tf @ of_words[word] + sum(w[v[i]] for w, v in zip(of_fields, values))
        ids = [*range(1, 41), *(first[k] + v[i] for k, v in enumerate(values)), *(first[-1] + word)]
        yield 1 if r.random() < 1 / (1 + numpy.exp(-z)) else -1, ids, [*dense[i], 1, 1, 1, 1, *tf]


MADE = {"fashion": fashion_rows, "mixed": mixed_rows}


def text_of(args, name):
    if name in MADE:
        path = os.path.join(args.work, f"{name}.svm")
        if not os.path.exists(path):
            write_rows(path, MADE[name]())
        return path
    if name == "clicks":
        path = os.path.join(args.work, f"clicks{args.rows}.svm")
        if not os.path.exists(path):
            subprocess.run([args.gyre, "glm", "generate", path, "--text", "--rows", str(args.rows)], check=True, stdout=subprocess.DEVNULL)
        return path
    return os.path.join(args.data, SETS[name][0])


def blocks_of(args, name):
    path = os.path.join(args.work, f"{name}.blocks" if name != "clicks" else f"clicks{args.rows}.blocks")
    if not os.path.exists(path):
        if name == "clicks":
            command = [args.gyre, "glm", "generate", path, "--rows", str(args.rows)]
        else:
            command = [args.gyre, "glm", "convert", text_of(args, name), path] + (["--zero-based", "--format", "svmlight"] if SETS[name][1] == 0 else [])
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def objective(x, y, w, problem, strength):
    import numpy
    w = numpy.asarray(w, dtype=numpy.float64).ravel()
    w = numpy.concatenate([w, numpy.zeros(max(0, x.shape[1] - len(w)))])[:x.shape[1]]
    m = y * (x @ w)
    loss = numpy.maximum(0, 1 - m).sum() if problem == "svm" else numpy.logaddexp(0, -m).sum()
    return loss + (strength * numpy.abs(w).sum() if problem == "l1" else 0.5 * strength * (w @ w))


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


# ---- tools: fit(x, y, problem, strength, setting) -> seconds, w; settings(problem): loose to tight

class Gyre:
    def __init__(self, args, name):
        self.args, self.path, self.model = args, blocks_of(args, name), os.path.join(args.work, "gyre.model")

    def settings(self, problem):
        return [f"--gap {g:g}" for g in GAPS] + [f"--gap 0 --epochs {n}" for n in EPOCHS]

    def fit(self, x, y, problem, strength, setting):
        import numpy
        extra = {"lr": ["--l2", str(strength)], "svm": ["--loss", "hinge", "--l2", str(strength)], "l1": ["--l1", str(strength)]}[problem]
        command = [self.args.gyre, "glm", "train", self.path, self.model, "--json", "--threads", str(self.args.threads)] + extra + setting.split()
        before = children_cpu()
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        spent = children_cpu() - before
        end = json.loads(out.splitlines()[-1])
        lines = open(self.model).read().split("\n")
        at = lines.index("w") + 1
        self.bound = end["bound"]
        seconds = spent if self.args.clock == "cpu" else end["open_seconds"] + end["train_seconds"]
        return seconds, numpy.array(lines[at:at + end["features"]], dtype=numpy.float64)


class Snap:
    def __init__(self, args, name):
        import snapml
        self.snapml, self.threads, self.clock = snapml, args.threads, CLOCKS[args.clock]

    def settings(self, problem):
        return [f"max_iter={n}" for n in EPOCHS]

    def fit(self, x, y, problem, strength, setting):
        count = int(setting.split("=")[1])
        common = dict(regularizer=strength, max_iter=count, tol=0.0, fit_intercept=False, n_jobs=self.threads, verbose=False)
        if problem == "svm":
            model = self.snapml.SupportVectorMachine(**common)
        else:
            model = self.snapml.LogisticRegression(penalty="l1" if problem == "l1" else "l2", dual=problem != "l1", **common)
        began = self.clock()
        model.fit(x, y)
        return self.clock() - began, model.coef_


class Sklearn:
    kinds = {"lr": ["lbfgs", "newton-cg", "saga", "liblinear"], "l1": ["saga", "liblinear"], "svm": ["linearsvc"]}

    def __init__(self, args, name):
        import sklearn.linear_model, sklearn.svm
        self.linear, self.svm, self.clock = sklearn.linear_model, sklearn.svm, CLOCKS[args.clock]

    def settings(self, problem):
        return [f"{kind} tol={t:g}" for kind in self.kinds[problem] for t in TOLERANCES]

    def fit(self, x, y, problem, strength, setting):
        import warnings
        warnings.filterwarnings("ignore")
        kind, tol = setting.split()[0], float(setting.split("=")[1])
        if problem == "svm":
            model = self.svm.LinearSVC(loss="hinge", dual=True, C=1 / strength, tol=tol, fit_intercept=False, max_iter=2000, random_state=1)
        else:
            model = self.linear.LogisticRegression(penalty="l1" if problem == "l1" else "l2", solver=kind, C=1 / strength, tol=tol, fit_intercept=False,
                                                   max_iter=2000, random_state=1)
        began = self.clock()
        model.fit(x, y)
        return self.clock() - began, model.coef_


class Liblinear:
    """of either package, which have the same module name"""
    types = {"lr": [0, 7], "svm": [3], "l1": [6]}
    variable, threads = "LIBLINEAR", None

    def __init__(self, args, name):
        sys.path.insert(0, os.environ[self.variable])
        from liblinear import liblinear, liblinearutil
        self.lib, self.util, self.more = liblinear, liblinearutil, (f" -m {args.threads}" if self.threads else "")
        self.held, self.clock = None, CLOCKS[args.clock]

    def settings(self, problem):
        return [f"-s {s} -e {t:g}" for s in self.types[problem] for t in TOLERANCES]

    def fit(self, x, y, problem, strength, setting):
        if self.held is None:
            self.held = self.lib.problem(y, x)
        param = self.lib.parameter(f"{setting} -c {1 / strength:.17g} -q{self.more}")
        began = self.clock()
        model = self.util.train(self.held, param)
        seconds = self.clock() - began
        w, _ = model.get_decfun()
        return seconds, w


class LiblinearMulticore(Liblinear):
    variable, threads = "LIBLINEAR_MULTICORE", True


TOOLS = {"gyre": Gyre, "snapml": Snap, "liblinear": Liblinear, "liblinear-multicore": LiblinearMulticore, "sklearn": Sklearn}


# ---- a worker: one tool on one set, a request a line

def work(args):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    try:
        tool = TOOLS[args.worker](args, args.sets)
    except Exception as error:
        print(json.dumps({"missing": f"{type(error).__name__}: {error}"}), file=out, flush=True)
        return
    x, y = load(args, args.sets)
    print(json.dumps({"settings": {p: tool.settings(p) for p in args.problems.split(",")}}), file=out, flush=True)
    for line in sys.stdin:
        problem, strength, setting = json.loads(line)
        try:
            seconds, w = tool.fit(x, y, problem, strength, setting)
            print(json.dumps({"seconds": seconds, "objective": objective(x, y, w, problem, strength), "bound": getattr(tool, "bound", None)}), file=out,
                  flush=True)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=out, flush=True)


class Worker:
    def __init__(self, args, tool, name):
        self.args, self.tool, self.name, self.process = args, tool, name, None

    def start(self):
        command = [sys.executable, __file__, "--worker", self.tool, "--sets", self.name] + [
            word for key in ("gyre", "data", "work", "problems", "threads", "rows", "clock") for word in (f"--{key}", str(getattr(self.args, key)))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        start_new_session=True)
        return self.read(600)

    def read(self, limit):
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            return None
        return json.loads(line)

    def ask(self, problem, strength, setting, longer=1):
        if self.process is None:
            self.start()
        print(json.dumps([problem, strength, setting]), file=self.process.stdin, flush=True)
        return self.read(self.args.limit * longer)

    def stop(self):
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)  # and what it runs
            self.process.wait()
            self.process = None


# ---- searching and timing

def search(worker, problem, strength, settings, optimum, level, seen):
    """For each kind of the tool (what stands before the last number), the loosest setting that is good enough; of those the fastest."""
    best, done = None, set()
    for setting in settings:
        kind = setting.rsplit("=", 1)[0].rsplit(" ", 1)[0] if "=" in setting or " " in setting else setting
        if kind in done:
            continue
        if setting not in seen:
            seen[setting] = worker.ask(problem, strength, setting)
        answer = seen[setting]
        if not answer or "error" in answer:
            done.add(kind)  # too slow, or not possible: tighter ones are too
        elif answer["objective"] <= optimum * (1 + level):
            # some begin with other random numbers each time
            again = worker.ask(problem, strength, setting)
            if not again or "error" in again or again["objective"] > optimum * (1 + level):
                continue
            done.add(kind)
            answer["seconds"] = min(answer["seconds"], again["seconds"])
            if best is None or answer["seconds"] < seen[best]["seconds"]:
                best = setting
    return best


def machine():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return f"{line.split(':')[1].strip()}, {os.cpu_count()} processors, {platform.system()} {platform.release()}"
    return platform.processor()


def commit():
    found = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def median(values):
    s = sorted(values)
    return s[len(s) // 2] if len(s) % 2 else 0.5 * (s[len(s) // 2 - 1] + s[len(s) // 2])


def best_known(worker, problem, strength):
    """The least objective of Gyre's solvers, and how far it is at most from the optimum by the best of their bounds. The first setting is in reach always."""
    best, bound = None, float("-inf")
    for setting in TIGHT[problem]:
        answer = worker.ask(problem, strength, setting, 5)
        if answer and "error" not in answer:
            best = answer["objective"] if best is None else min(best, answer["objective"])
            bound = max(bound, answer.get("bound") or bound)
    return best, 0 if best is None else (best - bound) / best


def bench_problem(args, name, problem, workers, answers, writer):
    strength = SETS[name][2][problem]
    optimum, gap = best_known(workers["gyre"], problem, strength)
    if optimum is None:
        print(f"{name} {problem}: no optimum")
        return
    print(f"\n{name}, {problem}, {'l1' if problem == 'l1' else 'l2'} {strength:g}: optimum {optimum:.9g}, proved to {gap:.1e}", flush=True)
    seen = {tool: {} for tool in workers}
    for level in args.levels:
        if gap > 0.2 * level:
            print(f"  {level:g}  left out: the optimum is not known well enough")
            continue
        chosen = {}
        for tool, worker in workers.items():
            chosen[tool] = search(worker, problem, strength, answers[tool]["settings"][problem], optimum, level, seen[tool])
        times, off = {t: [] for t in workers}, {}
        for _ in range(args.rounds):
            for tool, worker in workers.items():
                if chosen[tool]:
                    time.sleep(args.pause)
                    answer = worker.ask(problem, strength, chosen[tool])
                    if answer and "seconds" in answer:
                        times[tool].append(answer["seconds"])
                        off[tool] = max(off.get(tool, 0), answer["objective"] / optimum - 1)
        report(args, name, problem, strength, level, chosen, times, off, writer)


def report(args, name, problem, strength, level, chosen, times, off, writer):
    medians = {t: median(v) for t, v in times.items() if v}
    peers = [v for t, v in medians.items() if t != "gyre"]
    for tool in times:
        if tool not in medians:
            print(f"  {level:g}  {tool:20} not reached, by no setting within {args.limit:g} s a fit", flush=True)
            continue
        ratio = f"{medians['gyre'] / medians[tool]:7.3f}x of it" if tool != "gyre" and "gyre" in medians else ""
        beyond = "*" if off[tool] > level else " "
        print(f"  {level:g}  {tool:20} {medians[tool]:9.4f} s  (least {min(times[tool]):9.4f})  off {off[tool]:.1e}{beyond} {chosen[tool]:22} {ratio}",
              flush=True)
        if writer:
            writer.writerow([name, problem, strength, level, tool, chosen[tool], f"{medians[tool]:.6f}", f"{min(times[tool]):.6f}", len(times[tool]),
                             f"{off[tool]:.3e}", args.threads, machine(), commit(), " ".join(sys.argv)])
    if peers and "gyre" in medians:
        print(f"  {level:g}  gyre takes {medians['gyre'] / min(peers):.3f} of the fastest peer's time", flush=True)


def bench(args):
    os.makedirs(args.work, exist_ok=True)
    file = open(args.csv, "w", newline="") if args.csv else None
    writer = csv.writer(file) if file else None
    if writer:
        writer.writerow(["set", "problem", "strength", "level", "tool", "setting", "median_s", "least_s", "rounds", "worst_off", "threads", "machine", "commit",
                         "command"])
    print(f"{machine()}; commit {commit()}; {args.threads} threads; medians of {args.rounds}, sides in turn")
    for name in args.sets.split(","):
        workers, answers = {}, {}
        for tool in args.tools.split(","):
            worker = Worker(args, tool, name)
            answer = worker.start()
            if not answer or "missing" in answer:
                print(f"{name}: {tool} is left out: {answer['missing'] if answer else 'it did not start'}")
                worker.stop()
                continue
            workers[tool], answers[tool] = worker, answer
        for problem in args.problems.split(","):
            bench_problem(args, name, problem, workers, answers, writer)
            if file:
                file.flush()
        for worker in workers.values():
            worker.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gyre", default="build/gyre")
    parser.add_argument("--data", default=".")
    parser.add_argument("--work", default="/tmp/bench_glm")
    parser.add_argument("--sets", default="a9a,frappe,imdb,clicks,mixed,fashion")
    parser.add_argument("--problems", default="lr,svm,l1")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--pause", type=float, default=0.3, help="seconds before each timed fit: threads of the tool before may still wait by spinning")
    parser.add_argument("--levels", type=lambda text: [float(v) for v in text.split(",")], default=[1e-3, 1e-5])
    parser.add_argument("--rows", type=int, default=2000000)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--csv")
    parser.add_argument("--worker", choices=TOOLS)
    args = parser.parse_args()
    if args.worker:
        work(args)
    else:
        bench(args)


main()
