"""Streams for tests; the file imports little, as workers start by importing it."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from thinstream.batch import Batch, Position
from thinstream.data.stream import START, Skipped


def rows(X, y, weights=None, kind=np.int8):
    X = np.asarray(X)
    row, column = np.nonzero(X)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(X)))])
    return Batch.of(indptr, column.astype(np.int32), X[row, column], X.shape[1], np.asarray(y, kind), weights)


def noisy(n=300, d=30, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2)
    if classes > 2:
        return X, np.argmax(X @ rng.normal(size=(d, classes)), axis=1)
    return X, np.where(X @ rng.normal(size=d) > 0.3, 1.0, -1.0)


ROWS, WIDTH = 100, 20
X, Y = noisy(ROWS, WIDTH)


@dataclass
class Cut:
    """A stream of the rows of X, cut anywhere, with a bad record before every tenth row."""

    cuts: tuple[int, ...] = ()
    y: Any = None
    positions: bool = True
    first = 0
    dtype, classes, names, feature_space, size, unit = "float64", None, None, {}, None, "rows"

    def __post_init__(self):
        self.skipped = Skipped()

    def fingerprint(self):
        return {"rows": len(Y)}

    def batches(self, start=START):
        y = Y if self.y is None else self.y
        edges = sorted({0, *self.cuts, len(y)})
        for a, b in pairwise(edges):
            if a >= start.offset:
                self.skipped.count += sum(row % 10 == 0 for row in range(a, b))
                position = Position(0, b, 0, b) if self.positions else None
                kind = np.int8 if self.y is None else np.int32
                yield replace(rows(X[a:b], y[a:b], kind=kind), position=position, first_row=a)
