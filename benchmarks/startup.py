"""Whole processes, from start to exit, on files of 1, 20, 186 and 1,860 MB, compared with Vowpal Wabbit and LIBSOL.

    make bench            (or: python -m benchmarks.startup [--keep FOLDER] [--quick] [--python PYTHON])

Caveats first. The text of `streams.py`, in the page cache, one pass, a model written. With `--python`, thinstream is
the installation of another Python, for example a wheel with compiled code in a virtual environment, and starts with an
empty cache. Otherwise, its functions have been compiled before. Vowpal Wabbit is the package for Python, whose process
imports nothing else. Each tool has its own learner (FSOL, AROW and Auto; gradient descent with hinge loss; LIBSOL's
default), so only the time is compared. The tools take turns, and medians are shown. On a machine that others use, they
are worth little.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.streams import COPIES, ROWS, describe, generated, goal, race

#: Megabytes of the files.
SIZES = (1, 20, 186, 1860)
SMALL_ROWS = 200
#: Our learners, and their options.
LEARNERS = {"FSOL": ["-a", "fsol", "--l1", "1e-6"], "AROW": ["-a", "arow"], "Auto": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", type=Path, help="a folder for the generated files, used again if they are there")
    parser.add_argument("--quick", action="store_true", help="without the largest file")
    parser.add_argument("--python", default=sys.executable, help="the Python whose thinstream is measured")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the text that sizes are cut from (default 190000)")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    print(__doc__.split("\n\n")[2], f"\n\nMachine: {describe()}\n")
    if options.python != sys.executable:  # what a user has who just installed it
        os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="thinstream-bench-cache-")
        os.environ.pop("NUMBA_CACHE_DIR", None)
        os.environ.pop("PYTHONPATH", None)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="thinstream-bench-"))
    try:
        goals = measure(folder, options.rows, SIZES[:-1] if options.quick else SIZES, options.python)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)
    print("\nTargets")
    for text, value, met in goals:
        print(f"  {'met   ' if met else 'MISSED'} {text}: {value}")


def measure(folder, rows, sizes, python):
    text, wabbit = generated(folder, rows)
    small = folder / "start.svm"
    with open(text, "rb") as file:
        small.write_bytes(b"".join(next(file) for _ in range(SMALL_ROWS)))
    model, labels = folder / "start.ts", folder / "start.labels"
    ours = [python, "-m", "thinstream"]
    start = race(
        {
            "train": lambda: clocked(*ours, "train", small, "-a", "fsol", "-m", model, "-q"),
            "predict": lambda: clocked(*ours, "predict", small, "-m", model, "-o", labels, "-q"),
            "train auto": lambda: clocked(*ours, "train", small, "-m", model, "-q"),
            "python": lambda: clocked(python, "-c", "pass"),
            "python with numpy": lambda: clocked(python, "-c", "import numpy"),
        },
        repeats=15,
    )
    print(f"seconds on {SMALL_ROWS} rows: " + ", ".join(f"{name} {seconds:.3f}" for name, seconds in start.items()))
    goals = [
        goal(f"{n} of {SMALL_ROWS} rows in ≤ {limit} s", start[n], start[n] <= limit, "s")
        for n, limit in {"train": 0.25, "predict": 0.25, "train auto": 1.0}.items()
    ]
    names = [*LEARNERS, "Vowpal Wabbit", "LIBSOL"]
    print(f"\n{'MB':>6}" + "".join(f"{name:>15}" for name in names) + "   ratios to FSOL")
    for size in sizes:
        took = contest(sized(text, size), sized(wabbit, size), folder / "model", python, repeats=5 if size > 100 else 9)
        best = took["FSOL"]
        cells = "".join(f"{took[name]:>15.3f}" if name in took else f"{'–':>15}" for name in names)
        ratios = ", ".join(f"{name} {seconds / best:.1f}x" for name, seconds in took.items() if name != "FSOL")
        print(f"{size:>6,}{cells}   {ratios}")
        if size == 186:
            goals.append(
                goal("186 MB as a whole process within LIBSOL's 0.45 s (its time elsewhere)", best, best <= 0.45, "s")
            )
            goals.append(
                goal(
                    "and ≥ 3x faster than Vowpal Wabbit",
                    took["Vowpal Wabbit"] / best,
                    best * 3 <= took["Vowpal Wabbit"],
                    "x",
                )
            )
    return goals


def contest(text, wabbit, out, python, repeats):
    """Return the median seconds of whole processes that learn from a file."""
    sol = shutil.which("sol_train")
    lines = {
        name: [python, "-m", "thinstream", "train", text, *words, "-m", f"{out}.ts", "-q"]
        for name, words in LEARNERS.items()
    }
    program = [sys.executable, "-m", "vowpalwabbit", "-d", wabbit, "--quiet"]
    lines["Vowpal Wabbit"] = [*program, "--loss_function", "hinge", "-f", f"{out}.vw"]
    if sol:
        lines["LIBSOL"] = [sol, text, f"{out}.sol"]
    return race({name: lambda line=line: clocked(*line) for name, line in lines.items()}, repeats)


def sized(source, megabytes):
    """A file of about this size: the head of the generated one, itself, or copies of it."""
    if megabytes == 186:
        return source
    target = source.with_name(f"start-{megabytes}{source.suffix}")
    if not target.exists():
        content = source.read_bytes()
        if megabytes < 186:
            head = content[: megabytes * 1_000_000]
            target.write_bytes(head[: head.rindex(b"\n") + 1])
        else:
            with open(target, "wb") as file:
                for _ in range(COPIES):
                    file.write(content)
    return target


def clocked(*command):
    start = time.perf_counter()
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
