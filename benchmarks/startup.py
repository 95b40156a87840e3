"""Whole processes, from start to exit, on files of 1, 20, 186 and 1,860 MB: beside Vowpal Wabbit, and LIBSOL if there.

    make bench            (or: python -m benchmarks.startup [--keep FOLDER] [--quick])

Caveats first. The text of `streams.py`, in the page cache, one pass, a model written; what thinstream runs has been
compiled before. Vowpal Wabbit is the package for Python, whose process imports it and nothing else. Each has its own
learner (FSOL, gradient descent with hinge loss, LIBSOL's default): only the time is compared. Contestants take turns,
medians are shown; on a machine that others use, too, they are of little worth.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", type=Path, help="a folder for the generated files, used again if they are there")
    parser.add_argument("--quick", action="store_true", help="without the largest file")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the text that sizes are cut from (default 190000)")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    print(__doc__.split("\n\n")[2], f"\n\nMachine: {describe()}\n")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="thinstream-bench-"))
    try:
        goals = measure(folder, options.rows, SIZES[:-1] if options.quick else SIZES)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)
    print("\nTargets")
    for text, value, met in goals:
        print(f"  {'met   ' if met else 'MISSED'} {text}: {value}")


def measure(folder, rows, sizes):
    text, wabbit = generated(folder, rows)
    small = folder / "start.svm"
    with open(text, "rb") as file:
        small.write_bytes(b"".join(next(file) for _ in range(SMALL_ROWS)))
    model, labels = folder / "start.ts", folder / "start.labels"
    ours = [sys.executable, "-m", "thinstream"]
    start = race(
        {
            "train": lambda: clocked(*ours, "train", small, "-a", "fsol", "-m", model, "-q"),
            "predict": lambda: clocked(*ours, "predict", small, "-m", model, "-o", labels, "-q"),
            "python": lambda: clocked(sys.executable, "-c", "pass"),
            "python with numpy": lambda: clocked(sys.executable, "-c", "import numpy"),
        },
        repeats=15,
    )
    print(f"seconds on {SMALL_ROWS} rows: " + ", ".join(f"{name} {seconds:.3f}" for name, seconds in start.items()))
    goals = [
        goal(f"{n} of {SMALL_ROWS} rows in ≤ 0.25 s", start[n], start[n] <= 0.25, "s") for n in ("train", "predict")
    ]
    print(f"\n{'MB':>6}  {'thinstream':>12}{'Vowpal Wabbit':>15}{'LIBSOL':>10}   ratios to thinstream")
    for size in sizes:
        took = contest(sized(text, size), sized(wabbit, size), folder / "model", repeats=5 if size > 100 else 9)
        best = took["thinstream"]
        cells = [f"{took[name]:.3f}" if name in took else "–" for name in ("Vowpal Wabbit", "LIBSOL")]
        ratios = ", ".join(f"{name} {seconds / best:.1f}x" for name, seconds in took.items() if name != "thinstream")
        print(f"{size:>6,}  {best:>12.3f}{cells[0]:>15}{cells[1]:>10}   {ratios}")
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


def contest(text, wabbit, out, repeats):
    """Median seconds of whole processes that learn from a file."""
    python, sol = sys.executable, shutil.which("sol_train")
    lines = {
        "thinstream": [
            python,
            "-m",
            "thinstream",
            "train",
            text,
            "-a",
            "fsol",
            "--l1",
            "1e-6",
            "-m",
            f"{out}.ts",
            "-q",
        ],
        "Vowpal Wabbit": [
            python,
            "-m",
            "vowpalwabbit",
            "-d",
            wabbit,
            "--quiet",
            "--loss_function",
            "hinge",
            "-f",
            f"{out}.vw",
        ],
    }
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
