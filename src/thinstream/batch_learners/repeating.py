"""Learners that go over all rows again and again: a matrix, or a stream from its start each time."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.batch_learners.base import BatchLearner
from thinstream.batch_learners.rows import Arrays, Examples
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, Costs, T
from thinstream.errors import InvalidInputError
from thinstream.learners.frozen import require_array
from thinstream.learners.learner import EQUAL_COSTS
from thinstream.learners.protocol import Reads


class Block(NamedTuple):
    """Some of the rows."""

    X: Any  # scipy CSR, float64
    y: NDArray[np.float64]  # ±1
    c: NDArray[np.float64]  # cost of the class times sample weight

    def wrong(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Positives and negatives that scores call wrong; rows of weight 0 are not counted."""
        positive, called = self.y > 0, scores > 0
        missed = (positive & ~called, ~positive & called)
        return np.array([np.count_nonzero(rows & (self.c > 0)) for rows in missed], dtype=np.int64)


class Passes:
    """All rows of a source, a block at a time.

    Making one takes a pass: width and class counts must be known before the first step.

    Parameters
    ----------
    batches : callable
        Returns the labelled batches from the first on, whenever it is called.
    costs : Costs
        Class costs; balanced: c₊ is the ratio of the class counts, n₋/n₊, and c₋ is 1.
    fit_intercept : bool
        Whether a last column of ones is added.
    n_features : int
        Width, if more columns than the rows show.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 3]), np.array([1.0, 2.0]), 4, y=np.array([-1, 1], np.int8))
    >>> passes = Passes.of(rows)
    >>> len(passes), passes.n_features, passes.total
    (2, 4, 2.0)
    >>> next(passes.blocks()).X.toarray()
    array([[1., 0., 0., 0.],
           [0., 0., 0., 2.]])

    """

    def __init__(
        self,
        batches: Callable[[], Iterable[Batch]],
        *,
        costs: Costs = EQUAL_COSTS,
        fit_intercept: bool = False,
        n_features: int = 0,
    ) -> None:
        self._batches = batches
        self._kept: Block | None = None
        self.n_features, self.offset = n_features, int(fit_intercept)
        rows = positives = negatives = 0
        for batch in batches():
            y = batch.require_labels()
            there = np.ones(len(batch), np.bool_) if batch.weights is None else batch.weights > 0
            rows += len(batch)
            positives += int(np.count_nonzero(there & (y > 0)))
            negatives += int(np.count_nonzero(there & (y < 0)))
            self.n_features = max(self.n_features, batch.n_features)
        if positives + negatives == 0:
            raise InvalidInputError("there is no example to learn from" + (", all weights are zero" if rows else ""))
        self.rows, self.positives, self.negatives = rows, positives, negatives
        balanced = max(negatives, 1) / max(positives, 1)
        self._costs = (1.0, balanced) if costs.balanced else (costs.negative, costs.positive)
        self.total = sum(float(block.c.sum()) for block in self.blocks())

    @classmethod
    def of(cls, batch: Batch, costs: Costs = EQUAL_COSTS, fit_intercept: bool = False) -> Self:
        """The rows of one batch, converted once."""
        found = cls(lambda: [batch], costs=costs, fit_intercept=fit_intercept)
        found._kept = found.block()
        return found

    @property
    def width(self) -> int:
        """Coordinates, the constant one included."""
        return self.n_features + self.offset

    @property
    def in_memory(self) -> bool:
        """Whether all rows are at hand, and a pass costs no reading."""
        return self._kept is not None

    def __len__(self) -> int:
        return self.rows

    def blocks(self) -> Iterator[Block]:
        """One pass."""
        if self._kept is not None:
            yield self._kept
            return
        for batch in self._batches():
            yield self._block(batch)

    def block(self) -> Block:
        """All rows in one block, in memory."""
        import scipy.sparse as sp

        if self._kept is not None:
            return self._kept
        parts = [part for part in self.blocks() if part.X.shape[0]]
        if len(parts) == 1:
            return parts[0]
        X, y, c = zip(*parts, strict=True)
        return Block(sp.vstack(X, format="csr"), np.concatenate(y), np.concatenate(c))

    def gram(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """XᵀCXv, in one pass."""
        out = np.zeros(self.width)
        for X, _, c in self.blocks():
            out += X.T @ (c * (X @ v))
        return out

    def _block(self, batch: Batch) -> Block:
        import scipy.sparse as sp

        batch = batch.check()
        n, end, indptr, width = len(batch), int(batch.indptr[-1]), batch.indptr, self.n_features
        indices, values = batch.indices[:end], batch.values[:end].astype(np.float64, copy=False)
        if self.offset:
            indices, values = np.insert(indices, indptr[1:], width), np.insert(values, indptr[1:], 1.0)
            indptr = indptr + np.arange(n + 1)
        X = sp.csr_matrix((values, indices, indptr), shape=(n, width + self.offset))
        y = np.asarray(batch.y, dtype=np.float64)
        weights = 1.0 if batch.weights is None else batch.weights
        return Block(X, y, np.where(y > 0, self._costs[1], self._costs[0]) * weights)


class RepeatingLearner(BatchLearner):
    """A learner that starts anew each time; a subclass has ``solve``, which ends with ``take``.

    To the solver the constant feature is the last coordinate; kept, as by the others, it is the first.
    """

    selects = True
    draws = False  # whether it needs random numbers
    attributes: ClassVar[dict[str, Any]] = {}  # what it finds beside the weights: name → float or np.ndarray
    no_merge = "it goes over all rows again and again; fit it on all of them"

    def start(self) -> None:
        """Nothing is found."""
        self.found: dict[str, Any] = {}

    @property
    def reads(self) -> Reads:
        """In several passes (`learn_from`); rows that cannot be read again may also be held (`learn`, `finish`)."""
        return "again"

    def learn_rows(self, examples: Examples, *, last: bool = True) -> NDArray[Any]:
        """Learns from all rows, from scratch; returns their scores under the final weights."""
        self.require_learnable(examples.n_features)
        X = examples.sparse(np.float64)
        rows = Batch.of(X.indptr, X.indices, X.data, X.shape[1], y=examples.y, weights=examples.weights)
        self.solve(Passes.of(rows, self.costs, bool(self.offset)))
        return self.row_scores(X)

    def learn_from(self, batches: Callable[[], Iterable[Batch]]) -> None:
        """The same from rows that are read anew, from the first on, for each pass."""
        passes = Passes(batches, costs=self.costs, fit_intercept=bool(self.offset), n_features=self.n_features)
        self.require_learnable(passes.n_features)
        self.widen(passes.n_features)
        self.solve(passes)

    def solve(self, passes: Passes) -> None:
        """Finds the weights."""
        raise NotImplementedError

    def take(self, passes: Passes, w: NDArray[np.float64], wrong: Any, updates: int, loss: float, **found: Any) -> None:
        """The weights found, the rows they call wrong (positives, negatives), steps that moved, loss of all rows."""
        self.version += 1
        self.w = (np.roll(w, 1) if self.offset else w).astype(self.dtype)
        self.counts[T], self.counts[POSITIVES] = passes.positives + passes.negatives, passes.positives
        self.counts[FALSE_NEGATIVES], self.counts[FALSE_POSITIVES] = wrong
        self.counts[UPDATES], self.cumulative_loss, self.found = updates, loss, found

    def arrays(self, *, weights_only: bool = False) -> Arrays:
        """The state, what was found included."""
        found = {f"found.{name}": np.atleast_1d(value) for name, value in self.found.items()}
        return super().arrays(weights_only=weights_only) | found

    def restore_weights(self, arrays: Arrays) -> None:
        """Weights, counters and what was found: there is no more."""
        super().restore_weights(arrays)
        for name, kind in self.attributes.items():
            shape = (1,) if kind is float else arrays[f"found.{name}"].shape[:1]
            array = require_array(arrays, f"found.{name}", shape, np.dtype(np.float64))
            self.found[name] = float(array[0]) if kind is float else array.copy()
