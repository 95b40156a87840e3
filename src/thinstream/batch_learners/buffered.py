"""Learners that take batch after batch: rows wait until theirs is full."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.batch_learners.base import BatchLearner
from thinstream.batch_learners.rows import Arrays, Examples, csr_arrays, csr_of_arrays, of_width, stack
from thinstream.engine.loop import POSITIVES, T
from thinstream.errors import ModelFileError
from thinstream.learners.frozen import require_array
from thinstream.learners.protocol import Reads


class BufferedLearner(BatchLearner):
    """A learner that learns as soon as ``batch_size`` rows are there; without one, each call is a batch."""

    def start(self) -> None:
        """Nothing waits."""
        self.waiting = Buffer(self.rule.batch_size)
        self._widest = self.n_features  # of the batches of a stream

    @property
    def reads(self) -> Reads:
        """Once, if it knows the size of a batch."""
        return "once" if self.rule.batch_size else "held"

    @property
    def n_waiting(self) -> int:
        """Rows that wait for their batch."""
        return super().n_waiting + len(self.waiting)

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Learns from every batch that fills; without a ``batch_size`` all rows are held until `finish`."""
        if self.reads == "held":
            return super().learn(batch, scores)
        batch = self._check(batch)
        self._widest = max(self._widest, batch.n_features)
        examples = Examples.of(batch, max(self.n_features, batch.n_features))
        if scores:
            return self.learn_rows(examples)
        self._take(examples)
        return np.empty(0, dtype=self.dtype)

    def finish(self) -> None:
        """Learns from what waits, as a batch smaller than the others."""
        super().finish()
        for batch in self.waiting.rest():
            self._absorb(batch)
        if self.grow:
            self.widen(self._widest)

    def learn_rows(self, examples: Examples, *, last: bool = False) -> NDArray[Any]:
        """Learns from every batch that fills; a row that goes on waiting is answered with the weights as they are."""
        learned = self._take(examples, last)
        if len(learned) == len(examples):
            return learned
        found = self.row_scores(examples.X)
        found[np.flatnonzero(examples.weights > 0)[: len(learned)]] = learned
        return found

    def _take(self, examples: Examples, last: bool = False) -> NDArray[Any]:
        """The scores of the first of these rows, which were learned; the others wait."""
        rows, n_waiting = self.prepare(examples), len(self.waiting)
        done = [self._absorb(batch) for batch in self.waiting.batches(rows)]
        done += [self._absorb(batch) for batch in self.waiting.rest()] if last else []
        return np.concatenate([np.empty(0, self.dtype), *done])[n_waiting:]

    def _absorb(self, batch: Examples) -> NDArray[Any]:
        if self.grow:  # by what the batch holds, not by what was read so far: reading ahead must change nothing
            X = batch.sparse(batch.X.dtype)
            self.widen(int(X.indices.max(initial=-1)) + 1 - self.offset)
            batch = replace(batch, X=of_width(X, len(self.w)))
        return self.absorb(batch)

    def absorb(self, batch: Examples) -> NDArray[Any]:
        """Learns from one batch; returns the scores before each update."""
        raise NotImplementedError

    def row_costs(self, batch: Examples) -> NDArray[np.float64]:
        """c_i of the rows of a batch, after all rows before."""
        positives = int(self.counts[POSITIVES])
        return batch.running_costs(self.costs, positives, int(self.counts[T]) - positives)

    def arrays(self, *, weights_only: bool = False) -> Arrays:
        """The state, rows that wait included."""
        return super().arrays(weights_only=weights_only) | ({} if weights_only else self.waiting.arrays())

    def restore(self, arrays: Arrays) -> None:
        """Becomes the learner these arrays were taken from."""
        super().restore(arrays)
        self.waiting.restore(arrays, len(self.w))


class Buffer:
    """Rows that wait for their batch to be full: part of a learner's state."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pieces: list[Examples] = []

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def batches(self, examples: Examples) -> Iterator[Examples]:
        """Every batch that these rows fill (size 0: they are one)."""
        if self.size == 0:
            if len(examples):
                yield examples
            return
        start = 0
        while len(self) + len(examples) - start >= self.size:
            stop = start + self.size - len(self)
            yield stack([*self.pieces, examples.take(slice(start, stop))])
            self.pieces, start = [], stop
        if start < len(examples):
            rest = examples.take(slice(start, None))
            self.pieces.append(replace(rest, X=rest.X.copy()) if isinstance(rest.X, np.ndarray) else rest)

    def rest(self) -> Iterator[Examples]:
        """What is left, as one batch, if there is any; then nothing waits."""
        if self.pieces:
            yield stack(self.pieces)
            self.pieces = []

    def arrays(self) -> Arrays:
        """What is saved: the rows as CSR in the precision they came in."""
        if not self.pieces:
            return {}
        rows = stack(self.pieces)
        X = rows.sparse(rows.X.dtype)
        return csr_arrays(X, "waiting") | {"waiting.y": rows.y, "waiting.weights": rows.weights}

    def restore(self, arrays: Arrays, width: int) -> None:
        """Takes back what was saved."""
        self.pieces = []
        if "waiting.y" in arrays:
            X = csr_of_arrays(arrays, "waiting", width)
            rows = (X.shape[0],)
            y = require_array(arrays, "waiting.y", rows, np.dtype(np.int8))
            weights = require_array(arrays, "waiting.weights", rows, np.dtype(np.float64))
            if not (np.all(np.abs(y) == 1) and np.all(weights >= 0)):
                raise ModelFileError("its waiting rows must have labels -1 or 1 and weights of at least 0")
            self.pieces = [Examples(X, y, weights)]
