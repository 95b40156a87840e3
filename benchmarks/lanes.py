"""Many models in one pass against one model: what K lanes cost in single runs, side by side in one process.

    python benchmarks/lanes.py [--rows N]

Caveats first. One core, generated data in memory (Zipf's law, unit rows), float32; each lane has its own rate. CPU
time of calls with 1,000 rows each, for each call the best of 12 rounds in which single and lanes take turns: otherwise
the machine's slow phases and other users would decide.
"""

import argparse
import time
from functools import partial

import numpy as np

from thinstream.batch import Batch
from thinstream.datasets import zipf_text
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner

ROWS, ROUNDS = 1_000, 12
CASES = ((64, 47_000), (16, 3_200_000))
#: Algorithm, the parameter that differs by lane, others; targets at 64 lanes.
CONTESTANTS = (("FSOL", "eta", {"l1": 1e-6}, 9), ("SSOL", "eta", {"l1": 1e-6}, 13), ("AROW", "r", {}, 14))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000, help="length of the stream (default 20000)")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], "\n")
    for lanes, width in CASES:
        X, y = zipf_text(options.rows, width)
        batch = Batch.of(X.indptr.astype(np.int64), X.indices, X.data, width, y)
        print(f"{lanes} lanes, {width:,} features")
        for name, rate, others, target in CONTESTANTS:
            each = [{rate: float(value), **others} for value in np.geomspace(0.1, 10.0, lanes)]
            common = {"n_features": width, "fit_intercept": False}
            makers = partial(Learner, name, **common, **each[0]), partial(Lanes, name, each, **common)
            single, together = best(makers, batch)
            ratio = together / single
            goal = target if lanes == 64 else 5.5
            verdict = "met" if ratio <= goal else "MISSED"
            ns = 1e9 * single / X.nnz
            print(f"  {name:5s} {ratio:5.1f} single runs of {ns:.2f} ns per non-zero (target {goal}: {verdict})")


def best(makers, batch):
    """Seconds each kind of model takes for the batch, put together from its fastest calls."""
    pieces = [batch.after(start).until(min(ROWS, len(batch) - start)) for start in range(0, len(batch), ROWS)]
    found = np.full((len(makers), len(pieces)), np.inf)
    for _ in range(ROUNDS):
        for kind, make in enumerate(makers):
            model = make()
            for number, piece in enumerate(pieces):
                start = time.thread_time()
                model.learn(piece)
                found[kind, number] = min(found[kind, number], time.thread_time() - start)
    return found.sum(axis=1)


if __name__ == "__main__":
    main()
