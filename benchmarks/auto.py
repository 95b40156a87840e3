"""What `Auto` costs: all models of its portfolio from text to model, beside one AROW and one run of Vowpal Wabbit.

    make bench            (or: python benchmarks/auto.py [--rows N])

Caveats first. Generated text (Zipf's law, about 61 non-zeros a row, six digits), in the page cache, one pass: 190,000
rows of 47k features (183 MB), and a tenth as many of 3.2M. Measured inside each process, from opening the text to the
model written, imports and compiled code being there; thinstream may use all cores for parsing and for learning, Vowpal
Wabbit (its default learner, logistic loss) parses on one thread and learns on another. Contestants take turns, medians
are shown. Memory is the most that was resident, less what was before the text was opened.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from streams import WABBIT, describe, fresh, generated, goal, race

WIDE, NARROW, ROWS = 3_200_000, 47_000, 190_000
OURS = """
import os, sys, time
from thinstream.data.labels import Classes
from thinstream.models.model import make_learner
from thinstream.models.file import write
from thinstream.models.model import Model
from thinstream.data.opening import open_stream
from thinstream.training.run import Run
path, out, algorithm, what = sys.argv[1:]
def resident(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) / 1e3
def once():
    start = time.perf_counter()
    model = Model(make_learner(algorithm, n_features=0, grow=True, fit_intercept=True), Classes(-1, 1))
    for blend in model.learner.blends:
        blend.threads = os.cpu_count()
    Run(open_stream(path), model).run()
    write(out, model)
    return time.perf_counter() - start
if what == "memory":
    before = resident("VmRSS")
    once()
    print(resident("VmHWM") - before)
else:
    once()
    print(once())
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="of the text of 47k features (default 190000)")
    parser.add_argument("--keep", type=Path, help="a folder for the generated files, used again if they are there")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], f"\n\nMachine: {describe()}\n")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="thinstream-auto-"))
    try:
        goals = narrow(folder / "narrow", options.rows) + wide(folder / "wide", max(options.rows // 10, 1))
    finally:
        if options.keep is None:
            shutil.rmtree(folder)
    print("\nTargets")
    for text, value, met in goals:
        print(f"  {'met   ' if met else 'MISSED'} {text}: {value}")


def narrow(folder, rows):
    text, wabbit = generated(folder, rows, NARROW)
    out = folder / "model"
    took = raced(
        text,
        out,
        {"Vowpal Wabbit": lambda: fresh(WABBIT, "-d", wabbit, "--quiet", "--loss_function", "logistic", "-f", out)},
    )
    auto, arow, theirs = took["Auto"], took["AROW"], took["Vowpal Wabbit"]
    return [
        goal("at 47k features less time than one run of Vowpal Wabbit", auto / theirs, auto < theirs, "x"),
        goal("at 47k features at most 5 times one AROW", auto / arow, auto <= 5 * arow, "x"),
    ]


def wide(folder, rows):
    text, _ = generated(folder, rows, WIDE)
    took = raced(text, folder / "model", {})
    ratio = took["Auto"] / took["AROW"]
    return [goal("at 3.2M features at most 10 times one AROW", ratio, ratio <= 10, "x")]


def raced(text, out, peers):
    """Seconds of Auto, AROW and the peers, which are printed with the memory of the first two."""
    size = text.stat().st_size / 1e6
    ours = {"Auto": "auto", "AROW": "arow"}
    took = race({name: lambda one=one: fresh(OURS, text, out, one, "time") for name, one in ours.items()} | peers)
    memory = {name: fresh(OURS, text, out, one, "memory") for name, one in ours.items()}
    print(f"{size:.0f} MB of text: seconds to model, MB/s, MB of memory")
    for name, seconds in took.items():
        held = f"{memory[name]:8.0f}" if name in memory else ""
        print(f"  {name:16s}{seconds:8.3f}{size / seconds:8.0f}{held}")
    return took


if __name__ == "__main__":
    main()
