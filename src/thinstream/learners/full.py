"""Learners that keep a full d×d covariance: their own loop, in Python, with BLAS for the matrix."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.full import Belief, Matrix, Point, calmly
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, T
from thinstream.engine.records import Memory
from thinstream.engine.rows import TRUSTED, Bounds, Rows
from thinstream.engine.rule import Example
from thinstream.learners.frozen import Frozen
from thinstream.learners.learner import Learner


class FullLearner(Learner):
    """A `Learner` with ``covariance="full"``.

    The vector (μ, θ or v) is the first field of its coordinates, the packed matrix its own array. An example costs
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

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the score of each before its update (empty if not asked for)."""
        return super().learn(batch.check(), scores)

    def scores(self, batch: Batch) -> NDArray[Any]:
        """w·x with the weights the next unseen example would meet. Nothing changes."""
        return Frozen.of(self).scores(batch)

    def _run(self, rows: Rows, memory: Memory, out: NDArray[Any], bounds: Bounds = TRUSTED) -> int:
        """The rows in order, as `engine.loop` takes them."""
        n, weights = len(rows.indptr) - 1, rows.weights
        with calmly(self.sigma.d):
            for i in range(n):
                here = slice(rows.indptr[i], rows.indptr[i + 1])
                x = Point(rows.indices[here], rows.values[here])
                if rows.offset:
                    x = Point(np.append(0, x.indices + 1), np.append(rows.values.dtype.type(1), x.values))
                weight = float(weights[min(i, weights.size - 1)]) if weights.size else 1.0
                score = self._learn(x, bool(rows.y[i] > 0) if rows.y.size else False, weight)
                if out.size:
                    out[i] = score
        return n

    def _learn(self, x: Point, positive: bool, importance: float) -> Any:
        """One example; returns its score."""
        p, counts, totals = self.rule, self.memory.counts, self.memory.totals
        now, absent = self._now(), importance == 0.0
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
    def sigma(self) -> Matrix:
        """Σ, in the model's memory."""
        return Matrix(self.memory.extra)

    @property
    def belief(self) -> Belief:
        """Vector and matrix; both are views."""
        sigma, fields = self.sigma, len(self.algorithm.coordinate._fields)
        return Belief(self.memory.state[::fields][: sigma.d], sigma)

    def variance(self) -> NDArray[Any]:
        """σ of every feature: the diagonal of Σ."""
        return self.sigma.diagonal()[self.offset :]

    def _now(self) -> Any:
        """The scalars of the next round."""
        return self.rule.begin(self.t + 1, self.algorithm.totals(*self.memory.totals[1:].tolist()))

    def _weight_block(self, start: int, stop: int) -> NDArray[Any]:
        return np.array(self.rule.weights_full(self.belief, self._now())[start:stop])
