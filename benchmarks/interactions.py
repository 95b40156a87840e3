"""Log-loss of Auto with and without the members that learn products of features, on early rows and on all rows.

    python -m benchmarks.interactions [--docs docs/measurements.md] [--data DIR] [--sets a9a,w8a]

Caveats first. Training rows only, in the order of ``benchmarks.versus``, at most 50,000. All members learn all rows.
One head gets the scores of all members, another one those of the members without products. Each log-loss is the mean
over the later half of the first rows, before each row is learned.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.pages import put, table
from benchmarks.versus.contest import open_contest
from benchmarks.versus.sets import TRIAL_ROWS
from benchmarks.versus.tools import ours_running
from numpy.typing import NDArray

from thinstream.models.blend import COUNTING, Blend
from thinstream.models.head import Head

#: Sets with at most 300 features and 40 values per row.
SETS = ["a9a", "covtype", "ijcnn1", "w8a", "kdd99", "elec2", "campaign", "mammography", "spambase", "svmguide3"]
SETS += ["australian"]
EARLY = (4_096, 16_384)


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.interactions", description=__doc__.split("\n")[0])
    parser.add_argument("--docs", type=Path, help="a page whose table is to be replaced")
    parser.add_argument("--data", type=Path, help="folder of the data sets (default: THINSTREAM_DATA)")
    parser.add_argument("--sets", default=",".join(SETS), help="names of sets, with commas (default: all)")
    parser.add_argument("--scratch", type=Path, default=Path("build/versus/text"), help="for texts of sets")
    options = parser.parse_args()
    if options.data:
        os.environ["THINSTREAM_DATA"] = str(options.data.resolve())
    lines = []
    for name in options.sets.split(","):
        contest = open_contest(name, options.scratch, smoke=False)
        batches = ours_running.batches(contest, "train", rows=min(len(contest.y), TRIAL_ROWS))
        lines.append([name, *cells(*losses(batches))])
        print(*lines[-1], flush=True)
    text = table(["dataset", *(f"rows to {rows:,}" for rows in EARLY), "all rows"], lines)
    if options.docs:
        put(options.docs, "interactions", text)


class Watched(Blend):
    """A blend that keeps the scores of its members."""

    seen: list[tuple[NDArray[Any], NDArray[np.int8]]]

    def _learn(self, scores: Any, y: Any, weights: Any) -> Any:
        self.seen.append((np.array(scores), y.copy()))
        return super()._learn(scores, y, weights)


def losses(batches: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log-loss of each row with all members, and with those without products.

    >>> from thinstream.batch import Batch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2)).astype(np.float32)
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1).astype(np.int8)
    >>> rows = Batch.of(np.arange(0, 1001, 2), np.tile(np.arange(2), 500), X.ravel(), 2, y)
    >>> with_products, without = losses([rows])
    >>> bool(with_products[250:].mean() < 0.5 < without[250:].mean())
    True

    """
    model = Watched(n_features=0, grow=True, fit_intercept=True, drop=False)
    model.seen = []
    for batch in batches:
        model.learn(batch, scores=False)
    has_products = np.array([member.products for member in model.record.members])
    if model.products is None:
        raise ValueError("too many features, or too many values per row, for products")
    scores, y = (np.concatenate(arrays) for arrays in zip(*model.seen, strict=True))
    found = []
    for columns in (np.ones(len(has_products), np.bool_), ~has_products):
        z = Head(int(columns.sum()), counting=COUNTING).learn(np.ascontiguousarray(scores[:, columns]), y)
        found.append(np.logaddexp(0.0, np.where(y > 0, -z, z)))
    return found[0], found[1]


def cells(with_products: NDArray[np.float64], without: NDArray[np.float64]) -> list[str]:
    """Return the change of the log-loss in percent with its standard error, for each number of rows.

    >>> cells(np.full(5000, 0.3), np.full(5000, 0.4))
    ['-25.0 ± 0.0', '', '-25.0 ± 0.0']
    """
    found = []
    for rows in (*EARLY, len(without)):
        if rows > len(without):
            found.append("")
            continue
        later = slice(rows // 2, rows)
        scale = 100 / without[later].mean()
        change = (with_products - without)[later] * scale
        error = change.std() / np.sqrt(len(change))
        found.append(f"{change.mean():+.1f} ± {error:.1f}")
    return found


if __name__ == "__main__":
    main()
