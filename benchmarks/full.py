"""What a row costs AROW with a full covariance: compiled, and as wide models run, in Python with BLAS.

    python benchmarks/full.py [--rows N]

Caveats first. Generated rows, normal values, two classes with noise, so that about half of the rows update; float32,
with an intercept; CPU time (not what a clock says) of one call of `learn`, compiled code being there; medians of three.
"""

import argparse
import time

import numpy as np

from thinstream.batch import Batch
from thinstream.lanes import full
from thinstream.lanes.full import FullLearner

SHAPES = ((8, 1.0), (54, 0.25), (123, 0.11), (300, 0.04), (300, 1.0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=4000)
    options = parser.parse_args()
    print("features  share of non-zeros  compiled, µs a row  Python and BLAS")
    for features, density in SHAPES:
        batch = rows(options.rows, features, density)
        print(f"{features:8d}{density:20.2f}{spent(batch, full.LARGE):20.2f}{spent(batch, 0):17.2f}", flush=True)


def rows(n, features, density):
    rng = np.random.default_rng(0)
    there = rng.random((n, features)) < density
    indptr, indices = np.concatenate([[0], np.cumsum(there.sum(axis=1))]), np.nonzero(there)[1].astype(np.int32)
    values = rng.normal(size=len(indices)).astype(np.float32)
    dense = np.zeros((n, features))
    dense[there] = values
    y = np.where(dense @ rng.normal(size=features) + rng.normal(size=n) > 0, 1, -1).astype(np.int8)
    return Batch.of(indptr, indices, values, features, y=y)


def spent(batch, compiled_below):
    """Microseconds of CPU a row; matrices of so many coordinates run in Python."""
    usual, full.LARGE = full.LARGE, compiled_below
    took = []
    try:
        for _ in range(4):  # the first loads what is compiled
            model = FullLearner("arow", n_features=batch.n_features, covariance="full", fit_intercept=True)
            start = time.process_time()
            model.learn(batch, scores=False)
            took.append(time.process_time() - start)
    finally:
        full.LARGE = usual
    return 1e6 * float(np.median(took[1:])) / len(batch)


if __name__ == "__main__":
    main()
