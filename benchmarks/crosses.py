"""What crosses cost: text to model with ``cross=``, against learning rows that are crossed already.

    make bench            (or: python benchmarks/crosses.py [--rows N])

Caveats first. Generated text in Vowpal Wabbit's format, in the page cache, one pass of AdaRDA into 2^22 weights.
"Few": a user and an item a row, beside ten more features: one cross a row. "Many": ten features of a user and ten of an
item: a hundred crosses a row. "Learned" is the time to learn the crossed rows, in memory already; "on one core" parses,
crosses and learns on one thread, "all cores" parses and crosses on others. "By hand" is text that has the crosses
written out. Vowpal Wabbit crosses with ``-q``, with its own learner, and combines two hashes where this library hashes
the crossed name. Contestants take turns, medians are shown.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from thinstream.learners import Classes, Learner
from thinstream.models.model import Model
from thinstream.streams.opening import open_stream
from thinstream.training import Run

REPEATS = 5
MARK = "×"  # blanks cannot stand in a name of this format


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    print(__doc__.split("\n\n")[2], "\n")
    met = []
    with tempfile.TemporaryDirectory() as folder:
        for name, shape, count in (("few", (1, 1, 10), rows), ("many", (10, 10, 0), rows // 10)):
            met.append(measure(name, *generated(Path(folder), name, shape, count)))
    print("\nTargets")
    for name, one, all_cores in met:
        for where, ratio in (("on one core", one), ("all cores", all_cores)):
            verdict = "met   " if ratio <= 3 else "MISSED"
            print(f"  {verdict} {name}, {where}: text to model ≤ 3x learning the crossed rows: {ratio:.2f}x")


def generated(folder, name, shape, rows):
    """The text, and the same with its crosses written out."""
    rng = np.random.default_rng(0)
    plain, crossed = folder / f"{name}.vw", folder / f"{name}-by-hand.vw"
    with open(plain, "w") as one, open(crossed, "w") as two:
        for _ in range(rows):
            user, item, other = (
                [f"{letter}{k}" for k in np.minimum(rng.zipf(1.3, size), 10**6).tolist()]
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
            "learned": lambda: learn_rows(batches),
            "on one core": lambda: learn(open_stream(plain, cross=cross, threads=0)),
            "all cores": lambda: learn(open_stream(plain, cross=cross)),
            "without crosses, one core": lambda: learn(open_stream(plain, threads=0)),
            "by hand, one core": lambda: learn(open_stream(crossed, threads=0)),
            "by hand, all cores": lambda: learn(open_stream(crossed)),
            **wabbit(plain),
        }
    )
    rows, nnz = sum(map(len, batches)), sum(batch.nnz for batch in batches)
    print(f"{name}: {rows:,} rows, {nnz / rows:.1f} non-zeros each with their crosses")
    for what, seconds in took.items():
        print(f"  {what:28s}{seconds:8.3f} s {seconds / nnz * 1e9:8.1f} ns a non-zero")
    return name, took["on one core"] / took["learned"], took["all cores"] / took["learned"]


def fresh():
    return Learner("adarda", n_features=1 << 22, l1=1e-6)


def learn_rows(batches):
    learner = fresh()
    start = time.perf_counter()
    for batch in batches:
        learner.learn(batch)
    return time.perf_counter() - start


def learn(stream):
    model = Model(fresh(), Classes(-1, 1), stream.feature_space)
    start = time.perf_counter()
    Run(stream, model).run()
    return time.perf_counter() - start


def wabbit(path):
    """Vowpal Wabbit's own crosses, if it is installed."""
    try:
        import vowpalwabbit
    except ImportError:
        return {}

    def once():
        start = time.perf_counter()
        vowpalwabbit.Workspace(arg_list=["-d", str(path), "--quiet", "-q", "ui", "-b", "22"]).finish()
        return time.perf_counter() - start

    return {"Vowpal Wabbit -q ui": once}


def race(contestants, repeats=REPEATS):
    """Medians, after a turn that loads compiled code."""
    times = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, once in contestants.items():
            seconds = once()
            if turn:
                times[name].append(seconds)
    return {name: statistics.median(found) for name, found in times.items()}


if __name__ == "__main__":
    main()
