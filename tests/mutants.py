#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutants.py LINES SEED COUNT: asks whether the tests would notice a mistake. build.sh starts it in
a scratch copy of the tree. It makes one small random change at a time in a source of the library
and compiles that file. Then it runs the tests that execute the line, the fastest first, until one
fails. LINES is what tests/run_coverage.sh left: a file for each test, 'file:line:count:branches'. A
mutant is CAUGHT by a test, or SURVIVED: then a person judges whether the change makes no difference
or a test is missing. One that does not compile, or whose machine code is the same, does not count.
The same sources and SEED give the same mutants. Variables, as build.sh sets them: DIR, FCC, FLAGS,
KERNEL_FLAGS, LINK, LIBS, SOURCE_ID, SUITE."""
import collections
import os
import random
import re
import shutil
import subprocess
import sys
import time

KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else", "case", "goto", "__builtin_prefetch"}
LEAST_SECONDS = 20  # a test may take at least this long: endless loops fail, busy machines do not
SLOWER = 3          # and this many times its time with counters

# kind, what it looks for, what it puts there; a call is looked at again by call_ends()
CHANGES = [
    ("comparison", r"(?<=[\w)\]] )<(?= )", "<="), ("comparison", r"(?<=[\w)\]] )<=(?= )", "<"),
    ("comparison", r"(?<=[\w)\]] )>(?= )", ">="), ("comparison", r"(?<=[\w)\]] )>=(?= )", ">"),
    ("comparison", r"(?<=[\w)\]] )==(?= )", "!="), ("comparison", r"(?<=[\w)\]] )!=(?= )", "=="),
    ("off by one", r"(?<= [+-] )1\b(?![.x])", "0"), ("off by one", r"(?<== )0(?=;)", "1"), ("off by one", r"(?<=\[)0(?=\])", "1"),
    ("and, or", r"&&", "||"), ("and, or", r"\|\|", "&&"),
    ("deleted call", r"^ +((?:\w+(?:->|\.))*\w+)\(.*\);$", ""),
    ("swallowed status", r"\bGY_TRY(?=\(\w+\()", "(void)"),
    ("swallowed status", r"\b(?:status|done) = (?:status == GY_OK \? )?(?=\w+\([^?;]*;$)", "((void)"),
]


def blanked(text):
    """Comments, strings and the preprocessor's lines as blanks: every position stays."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', blank, text, flags=re.S | re.M)


def call_ends(code):
    """The line is one whole call and nothing else."""
    deep = 0
    for at, c in enumerate(code):
        deep += (c == "(") - (c == ")")
        if deep == 0 and c == ")":
            return code[at + 1:] == ";"
    return False


def changed(kind, match, put, line):
    """The line with the change, or None."""
    if kind == "deleted call":
        if match.group(1) in KEYWORDS or not call_ends(line.strip()):
            return None
        return line[:len(line) - len(line.lstrip())] + ";"
    rest = line[match.end():]
    if put != "((void)":
        return line[:match.start()] + put + rest
    end = len(rest) - len(" : status;" if rest.endswith(" : status;") else ";")
    return line[:match.end()] + put + rest[:end] + ", 0)" + rest[end:]


def sites(path):
    """(kind, file, line number, new line) of every possible change."""
    text = open(path, encoding="utf-8").read()
    found = []
    for number, (line, code) in enumerate(zip(text.split("\n"), blanked(text).split("\n")), 1):
        if line.startswith("static const") or not line.startswith(" "):
            continue
        for kind, pattern, put in CHANGES:
            for match in re.finditer(pattern, code):
                new = changed(kind, match, put, line)
                if new is not None and new != line:
                    found.append((kind, path, number, new))
    return found


class Coverage:
    """Which tests run which line, and how long they take."""

    def __init__(self, folder):
        self.tests = collections.defaultdict(set)
        self.seconds = {}
        for row in open(os.path.join(folder, "counters.seconds"), encoding="utf-8"):
            name, seconds = row.split()
            self.seconds[name] = int(seconds)
        for name in os.listdir(os.path.join(folder, "lines")):
            for row in open(os.path.join(folder, "lines", name), encoding="utf-8"):
                path, line, count, _ = row.split(":")
                self.tests[path, int(line)].update({name} if count != "0" else ())

    def of(self, path, line):
        """Of a statement of several lines, the counters may lie at its first ones."""
        for at in range(line, max(line - 4, 0), -1):
            if (path, at) in self.tests:
                return sorted(self.tests[path, at], key=lambda name: (self.seconds.get(name, 0), name))
        return []


class Bench:
    """Compiles a file, links programs of it and the library, and runs tests with them."""

    def __init__(self, coverage):
        self.env = os.environ
        self.dir = self.env["DIR"]
        self.room = os.path.abspath(os.path.join(os.path.dirname(self.dir), "mutant"))
        self.seconds = coverage.seconds
        self.good = {}  # test -> it passes with the library as it is

    def compiler(self, path):
        more = self.env["KERNEL_FLAGS"].split() if path.startswith("kernels/cpu/") else []
        return [self.env["FCC"], *self.env["FLAGS"].split(), *more, "-w", f'-DGY_SOURCE_ID="{self.env["SOURCE_ID"]}"', path]

    def assembly(self, path):
        """Without the words about the source; None: it does not compile."""
        made = subprocess.run([*self.compiler(path), "-g0", "-S", "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return made.stdout if made.returncode == 0 else None

    def compile(self, path):
        os.makedirs(self.room, exist_ok=True)
        return subprocess.run([*self.compiler(path), "-c", "-o", f"{self.room}/mutant.o"], stderr=subprocess.DEVNULL).returncode == 0

    def link(self, program, objects, mutated):
        """The mutated object stands before the library, whose own member of that name is then not taken."""
        os.makedirs(os.path.dirname(f"{self.room}/{program}"), exist_ok=True)
        first = [f"{self.room}/mutant.o"] if mutated else []
        subprocess.run([self.env["FCC"], *self.env["LINK"].split(), "-o", f"{self.room}/{program}", *first, *objects, f"{self.dir}/libgyre.a",
                        *self.env["LIBS"].split()], check=True)

    def objects(self, folder):
        return sorted(f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".o"))

    def make(self, test, mutated):
        """What the test runs, alone in the room."""
        obj = f"{self.dir}/obj"
        for folder in ("tests", "replay", "examples"):
            shutil.rmtree(f"{self.room}/{folder}", ignore_errors=True)
        if test.startswith("t_"):
            helpers = f"{self.dir}/libtests.a"
            self.link(f"tests/{test}", [f"{obj}/tests/{test}.o", *([helpers] if os.path.exists(helpers) else [])], mutated)
        elif test.startswith("fuzz_"):
            self.link(f"replay/{test}", [f"{obj}/tests/{test}.o", f"{obj}/tests/replay.o"], mutated)
        else:
            self.link("gyre", self.objects(f"{obj}/tools"), mutated)
            for example in os.listdir("tools/examples") if test == "e2e_examples" else ():
                if example.endswith(".c"):
                    self.link(f"examples/{example[:-2]}", [f"{obj}/tools/examples/{example[:-2]}.o"], mutated)
        shutil.copy2(f"{self.dir}/libgyre-emu.so", self.room)

    def passes(self, test, mutated):
        self.make(test, mutated)
        tally = f"{self.room}/tally"
        open(tally, "w").close()
        limit = max(LEAST_SECONDS, SLOWER * self.seconds.get(test, 300))
        subprocess.run(["sh", "tests/run_suite.sh"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**self.env, "DIR": self.room, "TALLY": tally, "TESTS": test, "LIMIT": str(limit), "JOBS": "1", "COUNTERS": ""})
        counts = [row.split() for row in open(tally, encoding="utf-8")]
        return bool(counts) and all(row[1] == "0" for row in counts)

    def fails_mutated(self, test):
        """It fails now, and does not with the library as it is."""
        if not self.good.get(test, True) or self.passes(test, True):
            return False
        if test not in self.good:
            self.good[test] = self.passes(test, False)
            if not self.good[test]:
                print(f"{test} fails without a change: not asked any more", flush=True)
        return self.good[test]


def judge(bench, tests, path, number, new):
    """What became of one mutant, in a word, and the test that caught it."""
    was = open(path, encoding="utf-8").read()
    lines = was.split("\n")
    lines[number - 1] = new
    before = bench.assembly(path)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        after = bench.assembly(path)
        good = after is not None and bench.compile(path)
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(was)
    if not good:
        return "does not compile", ""
    if after == before:
        return "same code", ""
    for test in tests:
        if bench.fails_mutated(test):
            return "CAUGHT", test
    return "SURVIVED", ""


def main():
    coverage, seed, count = Coverage(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    places = [os.path.join(at, name) for top in ("engine", "io", "kernels", "net") for at, _, names in sorted(os.walk(top)) for name in sorted(names)
              if name.endswith(".c") and not re.match("ppc_", name)]
    by_kind = collections.defaultdict(list)
    for path in places:
        for site in sites(path):
            by_kind[site[0]].append(site)
    dice, bench, survivors, tally, seen = random.Random(seed), Bench(coverage), [], collections.Counter(), set()
    print(f"seed {seed}; " + ", ".join(f"{kind}: {len(rows)} places" for kind, rows in sorted(by_kind.items())), flush=True)
    while tally["CAUGHT"] + tally["SURVIVED"] < count and len(seen) < sum(map(len, by_kind.values())):
        site = dice.choice(by_kind[dice.choice(sorted(by_kind))])
        if site in seen:
            continue
        seen.add(site)
        kind, path, number, new = site
        old = open(path, encoding="utf-8").read().split("\n")[number - 1].strip()
        began, tests = time.time(), coverage.of(path, number)
        word, by = judge(bench, tests, path, number, new)
        tally[word] += 1
        note = f"by {by}" if by else f"{len(tests)} tests run the line" if word == "SURVIVED" else ""
        print(f"{word:<16} {path}:{number}: {kind}: {old} -> {new.strip()}  {note}, {time.time() - began:.0f} s", flush=True)
        if word == "SURVIVED":
            survivors.append(f"{path}:{number}: {kind}: {old} -> {new.strip()} ({len(tests)} tests run the line)")
    print(f"{tally['CAUGHT']} caught, {len(survivors)} survived; {tally['does not compile']} did not compile, {tally['same code']} gave the same code")
    for row in survivors:
        print(f"skipped: survived: {row}")
    print(f"mutants: {tally['CAUGHT']} passed, 0 failed, {len(survivors)} skipped")


if __name__ == "__main__":
    main()
