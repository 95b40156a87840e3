"""The time of single-row calls: ``learn``, ``partial_fit``, ``predict``, and ``predict`` right after an update.

    python benchmarks/single_row.py [--rows N]

Caveats first. Generated rows of 20 features; one process; code is compiled before the clock starts. Each number is the
best of 9 rounds in microseconds, so that other programs on the machine matter little. It compares two versions of the
library on one machine, and says little about another machine.
"""

import argparse
import time

import numpy as np

import thinstream as ts
from thinstream.data.labels import Classes
from thinstream.data.text.hashing import Hashing
from thinstream.models.model import Model

FEATURES, ROUNDS = 20, 9
MODELS = (
    ("FSOL", ts.FSOL(), 2),
    ("AROW", ts.AROW(), 2),
    ("AROW, scaled", ts.AROW(scale="rms", normalize="l2"), 2),
    ("AROW, full covariance", ts.AROW(covariance="full"), 2),
    ("AROW, 10 classes", ts.AROW(), 10),
    ("Auto", ts.Auto(), 2),
    ("Auto, 10 classes", ts.Auto(), 10),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=300, help="calls of each round (default 300)")
    calls = parser.parse_args().rows
    print(f"{'µs per call':24}{'partial_fit':>12}{'predict':>12}{'predict after an update':>26}")
    for name, estimator, n_classes in MODELS:
        print(f"{name:24}{''.join(f'{time:{width}.1f}' for time, width in timed(estimator, n_classes, calls))}")
    print(f"\n{'Model.learn of a dict of 5 features, hashed':50}{learned_dict(calls):10.1f}")
    print("\nTargets\n  none: compare the numbers before and after a change")


def timed(estimator, n_classes, calls):
    """Microseconds of the three kinds of calls, each with the width of its column."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(512, FEATURES)), rng.integers(n_classes, size=512)
    estimator.partial_fit(X, y, classes=np.arange(n_classes))
    rows = [X[k : k + 1] for k in range(len(X))]

    def learn(k):
        estimator.partial_fit(rows[k % 512], y[k % 512 : k % 512 + 1])

    def predict(k):
        estimator.predict(rows[k % 512])

    def both(k):
        learn(k)
        predict(k)

    learning, predicting = best(learn, calls), best(predict, calls)
    return (learning, 12), (predicting, 12), (best(both, calls) - learning, 26)


def learned_dict(calls):
    """Microseconds of reading and learning one dict."""
    from thinstream.data.in_memory import batch_like

    space = {"hashing": Hashing(bits=18).as_dict()}
    model = Model.fresh("arow", Classes(0, 1), feature_space=space, grow=True)
    row = {"age": 31, "city": "Oslo", "income": 5.5, "device": "phone", "clicks": 3}
    signs = np.array([1], np.int8)

    def learn(k):
        model.learn(batch_like(model.reading_spec, [row]).labelled(signs), model.classes)

    return best(learn, calls)


def best(call, calls):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for k in range(calls):
            call(k)
        times.append(time.perf_counter() - start)
    return 1e6 * min(times) / calls


if __name__ == "__main__":
    main()
