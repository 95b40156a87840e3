"""The cost of crosses: text to model with ``cross=``, against learning rows that are crossed already.

    make bench            (or: python benchmarks/crosses.py [--rows N])

Caveats first. Generated text in Vowpal Wabbit's format, in the page cache, one pass of AdaRDA into 2^22 weights; names
by Zipf's law, 100,000 of each kind. "Few": a user and an item a row, and ten more features: one cross a row. "Many":
ten features of a user and ten of an item: a hundred crosses a row. "Learning" is of crossed rows that are in memory.
"Crossing" is what parsing with crosses takes longer than without, sorting the longer rows included. "By hand" is text
that has the crosses written out. One thread, unless another number is given. Vowpal Wabbit crosses with ``-q``, has its
own learner, parses on one thread and learns on another. Contestants take turns, medians of processor time are
shown.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from thinstream.data.labels import Classes
from thinstream.data.opening import open_stream
from thinstream.lanes.learner import Learner
from thinstream.models.model import Model
from thinstream.training.run import Run

REPEATS = 5
MARK = "×"  # names in this format cannot contain blanks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    print(__doc__.split("\n\n")[2], "\n")
    goals = []
    with tempfile.TemporaryDirectory() as folder:
        for name, shape, count in (("few", (1, 1, 10), rows), ("many", (10, 10, 0), rows // 10)):
            goals += measure(name, *generated(Path(folder), name, shape, count))
    print("\nTargets")
    for text, ratio in goals:
        print(f"  {'met   ' if ratio <= 3 else 'MISSED'} {text}: {ratio:.2f}x")


def generated(folder, name, shape, rows):
    """The text, and the same with its crosses written out."""
    rng = np.random.default_rng(0)
    plain, crossed = folder / f"{name}.vw", folder / f"{name}-by-hand.vw"
    with open(plain, "w") as one, open(crossed, "w") as two:
        for _ in range(rows):
            user, item, other = (
                [f"{letter}{k}" for k in np.exp(rng.random(size) * np.log(100_000)).astype(int).tolist()]
                for letter, size in zip("uio", shape, strict=True)
            )
            label = 1 if rng.random() < 0.5 else -1
            line = f"{label} |user {' '.join(user)} |item {' '.join(item)} |other {' '.join(other)}"
            one.write(line + "\n")
            two.write(line + " | " + " ".join(f"user^{u}{MARK}item^{i}" for u in user for i in item) + "\n")
    return plain, crossed


def measure(name, plain, crossed):
    cross = [("user", "item")]
    batches = list(open_stream(plain, cross=cross).batches())
    took = race(
        {
            "learning": lambda: learn_rows(batches),
            "parsing": lambda: parse(open_stream(plain, threads=0)),
            "parsing and crossing": lambda: parse(open_stream(plain, cross=cross, threads=0)),
            "text to model": lambda: learn(open_stream(plain, cross=cross, threads=0)),
            "text to model, 2 threads": lambda: learn(open_stream(plain, cross=cross, threads=1)),
            "by hand, text to model": lambda: learn(open_stream(crossed, threads=0)),
            **wabbit(plain),
        }
    )
    rows, nnz = sum(map(len, batches)), sum(batch.nnz for batch in batches)
    print(f"{name}: {rows:,} rows, {nnz / rows:.1f} non-zeros each with their crosses")
    for what, seconds in took.items():
        print(f"  {what:28s}{seconds:8.3f} s {seconds / nnz * 1e9:8.1f} ns a non-zero")
    crossing = (took["parsing and crossing"] - took["parsing"]) / took["learning"]
    return [
        (f"{name}: crossing ≤ 3x learning the crossed rows", crossing),
        (
            f"{name}: text to model ≤ 3x that of rows crossed by hand",
            took["text to model"] / took["by hand, text to model"],
        ),
    ]


def fresh():
    return Learner("adarda", n_features=1 << 22, l1=1e-6)


def learn_rows(batches):
    learner = fresh()
    start = time.process_time()
    for batch in batches:
        learner.learn(batch)
    return time.process_time() - start


def parse(stream):
    start = time.process_time()
    for _ in stream.batches():
        pass
    return time.process_time() - start


def learn(stream):
    model = Model(fresh(), Classes(-1, 1), stream.feature_space)
    start = time.process_time()
    Run(stream, model).run()
    return time.process_time() - start


def wabbit(path):
    """Vowpal Wabbit's own crosses, if it is installed."""
    try:
        import vowpalwabbit
    except ImportError:
        return {}

    def once():
        start = time.process_time()
        vowpalwabbit.Workspace(arg_list=["-d", str(path), "--quiet", "-q", "ui", "-b", "22"]).finish()
        return time.process_time() - start

    return {"Vowpal Wabbit -q ui": once}


def race(contestants, repeats=REPEATS):
    """Medians, after a turn that loads compiled code."""
    times = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, once in contestants.items():
            seconds = once()
            if turn:
                times[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


if __name__ == "__main__":
    main()
