"""What an intercept costs: the same model with and without one, single and in lanes.

    python benchmarks/intercept.py [--rows N]

Caveats first. Generated data (Zipf's law with exponent 1.1, unit rows, about 60 non-zeros each), float32; the constant
is one non-zero more in each row, which alone is 1.6 %. Timed as in lanes.py: CPU time of calls with 1,000 rows each,
for each call the best of 12 rounds in which both take turns.
"""

import argparse
from functools import partial

import numpy as np
from lanes import best

from thinstream.batch import Batch
from thinstream.datasets import zipf_text
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner

TARGET = 1.1
WIDTHS = (47_000, 3_200_000)
#: Lanes by width: as many as fit into a few hundred megabytes.
LANES = {47_000: 64, 3_200_000: 16}
#: Algorithm, and the parameter that differs by lane.
CONTESTANTS = (("FSOL", "eta"), ("SSOL", "eta"), ("AROW", "r"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000, help="length of the stream (default 10000)")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], "\n")
    for width in WIDTHS:
        X, y = zipf_text(options.rows, width)
        batch, lanes = Batch.of(X.indptr.astype(np.int64), X.indices, X.data, width, y), LANES[width]
        print(f"{width:,} features: ns per non-zero without and with an intercept")
        for name, rate in CONTESTANTS:
            each = [{rate: float(value)} for value in np.geomspace(0.1, 10.0, lanes)]
            show(name, partial(Learner, name, n_features=width), batch)
            show(f"{name}, {lanes} lanes", partial(Lanes, name, each, n_features=width), batch.until(len(batch) // 4))


def show(name, make, batch):
    without, with_intercept = 1e9 * best((make, partial(make, fit_intercept=True)), batch) / batch.nnz
    ratio = with_intercept / without
    verdict = "met" if ratio <= TARGET else "MISSED"
    print(f"  {name:15s} {without:6.2f} {with_intercept:6.2f}   ratio {ratio:.2f} (target {TARGET}: {verdict})")


if __name__ == "__main__":
    main()
