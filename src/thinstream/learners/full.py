"""Learners that keep a full d×d covariance: their own loop, in Python, with BLAS for the matrix."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.full import Belief, Matrix, Point
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, T
from thinstream.engine.rule import Example
from thinstream.errors import InvalidInputError
from thinstream.learners.frozen import Frozen
from thinstream.learners.learner import Learner
from thinstream.learners.memory import physical_memory


class FullLearner(Learner):
    """A `Learner` with ``covariance="full"``.

    The vector (μ, θ or v) is the first field of its coordinates, the matrix its own: `sigma`. An example costs
    O(d·non-zeros) to score and O(d²) to learn.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 2, 3]), np.array([0, 1, 1]), np.ones(3), 2, y=np.array([-1, 1], np.int8))
    >>> model = FullLearner("arow", n_features=2, covariance="full", dtype="float64")
    >>> model.learn(rows).round(4).tolist()
    [0.0, -0.3333]
    >>> model.variance().round(4).tolist()
    [0.6, 0.4]

    """

    full = True

    def __init__(self, algorithm: str, *, n_features: int, **more: Any) -> None:
        super().__init__(algorithm, n_features=n_features, **more)
        self.sigma = Matrix(np.empty(0, dtype=self.memory.state.dtype), 0)
        self._widen_sigma()

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the score of each before its update (empty if not asked for)."""
        batch = batch.check()
        if batch.y is None:
            raise InvalidInputError("a batch to learn from needs labels")
        self._require_range(batch)
        self._widen(batch.n_features)
        found = np.array([self._learn(*example) for example in self._examples(batch)], dtype=self.memory.state.dtype)
        return found if scores else found[:0]

    def _examples(self, batch: Batch) -> Any:
        """Point, label and weight of each row."""
        assert batch.y is not None
        weights = np.ones(len(batch)) if batch.weights is None else batch.weights
        for start, stop in self._blocks(batch):
            rows = self._rows(batch, start, stop, batch.y[start:stop], weights[start:stop])
            for i, (label, weight) in enumerate(zip(rows.y.tolist(), rows.weights.tolist(), strict=True)):
                part = slice(rows.indptr[i], rows.indptr[i + 1])
                yield Point(rows.indices[part], rows.values[part]), label > 0, weight

    def _learn(self, x: Point, positive: bool, importance: float) -> Any:
        """One example, as `engine.loop` takes it; returns its score."""
        p, counts, totals = self.rule, self.memory.counts, self.memory.totals
        own = self.algorithm.totals(*totals[1:].tolist())
        now, absent = p.begin(self.t + 1, own), importance == 0.0
        seen = p.predict_full(self.belief, x, now, absent)
        if absent:
            return seen.s
        counts[T] += 1
        counts[POSITIVES] += positive
        counts[FALSE_NEGATIVES] += positive and not seen.s > 0
        counts[FALSE_POSITIVES] += not positive and seen.s > 0
        step = p.step(float(seen.s), float(seen.v), self._example(positive, importance), now)
        totals[0] += step.loss
        if step.update:
            counts[UPDATES] += 1
            p.update_full(self.belief, x, seen, step)
        return seen.s

    def _example(self, positive: bool, importance: float) -> Example:
        c_negative, c_positive, balanced = self.costs
        if balanced:
            c_negative, c_positive = 1.0, max(self.t - self.n_positives, 1) / max(self.n_positives, 1)
        return Example(
            1.0 if positive else -1.0,
            c_positive if positive else c_negative,
            c_positive / c_negative,
            importance,
        )

    @property
    def belief(self) -> Belief:
        """Vector and matrix; the vector is a view."""
        width = len(self.algorithm.coordinate._fields)
        return Belief(self.memory.state[::width][: self.sigma.d], self.sigma)

    def scores(self, batch: Batch) -> NDArray[Any]:
        """w·x with the weights the next unseen example would meet. Nothing changes."""
        return Frozen.of(self).scores(batch)

    def variance(self) -> NDArray[Any]:
        """σ of every feature: the diagonal of Σ."""
        return self.sigma.diagonal()[self.offset :]

    def _weight_block(self, start: int, stop: int) -> NDArray[Any]:
        own = self.algorithm.totals(*self.memory.totals[1:].tolist())
        weights = self.rule.weights_full(self.belief, self.rule.begin(self.t + 1, own))
        return np.array(weights[start:stop])

    def _widen(self, n_features: int) -> None:
        _require_room(self.algorithm.name, max(n_features, self.n_features) + self.offset, self.memory.state.dtype)
        super()._widen(n_features)
        self._widen_sigma()

    def _widen_sigma(self) -> None:
        d = self.n_features + self.offset
        if d > self.sigma.d:
            _require_room(self.algorithm.name, d, self.memory.state.dtype)
            self.sigma = self.sigma.grown(d, float(self.rule.variance(self.rule.fresh())))


def _require_room(owner: str, d: int, dtype: np.dtype[Any]) -> None:
    """Raises if the matrix would not fit."""
    needed, have = Matrix.size(d) * dtype.itemsize, physical_memory()
    if needed > 0.7 * have:
        raise InvalidInputError(
            f"{owner}: covariance='full' on {d:,} features needs {needed / 1e9:,.1f} GB, this machine has "
            f"{have / 1e9:,.1f} GB; use covariance='diagonal', or fewer features"
        )
