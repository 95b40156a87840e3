"""Streams for tests; the file imports little, as workers start by importing it."""

import os
import signal
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from thinstream.batch import Batch, Position
from thinstream.streams.stream import START, Skipped


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

    def batches(self, start=START):
        y = Y if self.y is None else self.y
        edges = sorted({0, *self.cuts, len(y)})
        for a, b in pairwise(edges):
            if a >= start.offset:
                self.skipped.count += sum(row % 10 == 0 for row in range(a, b))
                position = Position(0, b, 0, b) if self.positions else None
                kind = np.int8 if self.y is None else np.int32
                yield replace(rows(X[a:b], y[a:b], kind=kind), position=position, first_row=a)


@dataclass(frozen=True)
class Everything:
    """Its source, and its only shard."""

    feature_space: ClassVar = {"a": 1}
    cuts: tuple[int, ...] = (13, 14, 60)
    y: Any = None

    def shards(self, workers):
        assert workers == 1
        return [self]

    def open(self):
        return Cut(self.cuts, self.y)

    def fingerprint(self):
        return {"rows": ROWS}


@dataclass(frozen=True)
class Deadly(Everything):
    """Kills the first process that comes to row 70, once."""

    marker: Path = Path()

    def open(self):
        stream = super().open()
        every = stream.batches

        def batches(start=START):
            for batch in every(start):
                if batch.first_row >= 70:
                    self.strike()
                yield batch

        stream.batches = batches
        return stream

    def strike(self):
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)
