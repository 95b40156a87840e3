"""What forgetting costs: the same model with and without a half-life, single and in lanes.

    python benchmarks/forgetting.py [--rows N]

Caveats first. Generated data (Zipf's law with exponent 1.1, unit rows, about 60 non-zeros each), 47,000 features,
float32. With a half-life each non-zero reads a clock of 8 bytes and computes 2^(−Δ/H) in 64 bits when it is scored, and
again when it is learned. Timed as in lanes.py: CPU time of calls with 1,000 rows each, for each call the best of 12
rounds in which both take turns.
"""

import argparse
from functools import partial

import numpy as np
from lanes import best

from thinstream.batch import Batch
from thinstream.datasets import zipf_text
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner

WIDTH, LANES, HALF_LIFE = 47_000, 16, 1000.0
CONTESTANTS = {"FSOL": {"l1": 1e-6}, "AdaRDA": {"l1": 1e-6}, "AROW": {}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000, help="length of the stream (default 10000)")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], "\n\nns per non-zero (and lane) without and with a half-life")
    X, y = zipf_text(options.rows, WIDTH)
    batch = Batch.of(X.indptr.astype(np.int64), X.indices, X.data, WIDTH, y)
    for name, own in CONTESTANTS.items():
        make = partial(Learner, name, n_features=WIDTH, **own)
        show(name, make, partial(make, half_life=HALF_LIFE), batch, 1)
        each = [[own] * LANES, [{**own, "half_life": HALF_LIFE + k} for k in range(LANES)]]
        pair = [partial(Lanes, name, parameters, n_features=WIDTH) for parameters in each]
        show(f"{name}, {LANES} lanes", *pair, batch.until(len(batch) // 4), LANES)


def show(name, remembering, forgetting, batch, lanes):
    without, half_life = 1e9 * best((remembering, forgetting), batch) / batch.nnz / lanes
    print(f"  {name:18s} {without:6.2f} {half_life:6.2f}   ratio {half_life / without:.1f}")


if __name__ == "__main__":
    main()
