"""What preparing rows costs: in memory per non-zero, and from text to model.

    python benchmarks/preparing.py [--rows N]

Caveats first. Generated data (Zipf's law with exponent 1.1, 47k features, about 60 non-zeros a row), float32, FSOL.
In memory: CPU time of calls with 1,000 rows each, for each call the best of 12 rounds in which all take
turns. From text: one pass over a libsvm file in one process, the best of 5 in turns.
Lanes: 64 models on rows prepared once.
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from lanes import best

from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.data.opening import open_stream
from thinstream.datasets import zipf_text
from thinstream.models.file import write
from thinstream.models.model import Model
from thinstream.models.preparation import Preparation
from thinstream.training.run import Run
from thinstream.tuning.study import Study, StudyConfig, Trial

WIDTH, REPEATS, LANES = 47_000, 5, 64
KINDS = ((None, None), ("max", None), ("rms", None), (None, "l2"), ("max", "l2"), ("rms", "l2"))
#: ns per non-zero in memory, and how much longer the way from text to a model may be.
LIMITS, SHARE = {("max", None): 2.5, ("rms", None): 6.0}, 1.25


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000, help="length of the stream (default 10000)")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], "\n")
    X, y = zipf_text(options.rows, WIDTH)
    batch = Batch.of(X.indptr.astype(np.int64), X.indices, X.data, WIDTH, y)
    times = 1e9 * best([partial(Alone, kind) for kind in KINDS[1:]], batch) / batch.nnz
    print("in memory: ns per non-zero for preparing alone")
    for kind, each in zip(KINDS[1:], times, strict=True):
        print(f"  {named(kind):12s} {each:6.2f}{verdict(each, LIMITS.get(kind))}")
    short = batch.until(len(batch) // 4)
    times = 1e9 * best([partial(Lanes, kind) for kind in KINDS[:3]], short) / short.nnz
    print(f"{LANES} lanes: ns per non-zero of all lanes together")
    for kind, each in zip(KINDS, times, strict=False):
        print(f"  {named(kind):12s} {each:6.2f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.svm"
        to_text(X, y, path, copies=max(1, 100_000 // options.rows))
        print(f"from text ({path.stat().st_size / 1e6:.0f} MB) to model: seconds, and times the plain one")
        seconds = np.full((REPEATS + 1, len(KINDS)), np.inf)
        for repeat in range(REPEATS + 1):  # the first loads the code
            for k, kind in enumerate(KINDS):
                seconds[repeat, k] = from_text(path, kind, Path(folder) / "m.ts")
        found = seconds[1:].min(axis=0)
        for kind, each in zip(KINDS, found, strict=True):
            print(f"  {named(kind):12s} {each:6.3f} {each / found[0]:6.2f}{verdict(each / found[0], SHARE)}")


def named(kind):
    return " + ".join(filter(None, kind)) or "plain"


def verdict(found, limit):
    return "" if limit is None else f"   (target: at most {limit}: {'met' if found <= limit else 'MISSED'})"


class Alone:
    """Rows are prepared, and that is all."""

    def __init__(self, kind):
        self.preparation = Preparation(*kind)
        self.preparation.widen(WIDTH)

    def learn(self, piece):
        """As a model would have them."""
        self.preparation.learn(piece, np.dtype(np.float32))


class Lanes:
    """A study as `best` takes it."""

    def __init__(self, kind):
        trials = [Trial({"eta": float(eta)}) for eta in np.geomspace(0.1, 10.0, LANES)]
        self.study = Study(StudyConfig("fsol", n_features=WIDTH, scale=kind[0], normalize=kind[1]), trials)

    def learn(self, piece):
        """Rows prepared, and learned by all."""
        self.study.lanes.learn(self.study._prepared(piece))


def to_text(X, y, path, copies):
    lines = []
    for i in range(X.shape[0]):
        here = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip(X.indices[here].tolist(), X.data[here].tolist(), strict=True)
        lines.append(f"{y[i]} " + " ".join(f"{j + 1}:{x:.6g}" for j, x in pairs) + "\n")
    path.write_text("".join(lines) * copies)


def from_text(path, kind, out):
    start = time.perf_counter()
    model = Model.fresh("fsol", Classes(-1, 1), grow=True, scale=kind[0], normalize=kind[1])
    Run(open_stream(path), model).run()
    write(out, model)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
