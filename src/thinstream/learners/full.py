"""Learners that keep a full d×d covariance: their own loop, compiled, or in Python with BLAS for the matrix."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine import gaussian
from thinstream.engine.full import LARGE, Belief, Matrix, Point, one_blas_thread, reaches
from thinstream.engine.limits import HEAVY, MUCH, REACH, SPAN, precision
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, T, make_example
from thinstream.engine.records import Memory
from thinstream.engine.rows import Bounds, Rows
from thinstream.engine.rule import Example, Step
from thinstream.learners.frozen import Frozen
from thinstream.learners.full_loop import full_loop_for
from thinstream.learners.learner import CHECKED, Learner


class Limits(NamedTuple):
    """What a row must keep to for its numbers to be finite (see `engine.limits`)."""

    reach: float  # of a change
    span: float  # of a length, times gain
    gain: float
    longest: float  # no row is longer
    observing: bool  # whether Σ changes before the score is known
    moving_z: bool  # whether the vector moves along Σx, or else along x


class FullLearner(Learner):
    """A `Learner` with ``covariance="full"``.

    The vector (μ, θ or v) is the first field of its coordinates, the packed matrix its own array. An example costs
    O(d·non-zeros) to score and O(d²) to learn. AROW, CW, NAROW and SCW of fewer than 1,024 coordinates run compiled;
    the others run in Python, and BLAS, which may use all cores for wider matrices, does the work.

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

    def _run(self, rows: Rows, memory: Memory, out: NDArray[Any], bounds: Bounds = CHECKED) -> int:
        """The rows in order, as `engine.loop` takes them."""
        n, wide = len(rows.indptr) - 1, Matrix(memory.extra).d
        if wide < LARGE and type(self.rule).update_full is gaussian.update_full:
            tiny, learn = np.finfo(self.dtype).tiny, full_loop_for(type(self.rule))
            done: int = learn(self.rule, rows, self.costs, memory, wide, tiny, out)
            return done
        if n == 0:
            return 0  # code is being loaded, while rows are read
        import scipy.linalg.blas  # noqa: F401 (before threads of what is loaded are limited for the first time)

        weights, belief, limits = rows.weights, self.belief, self._limits(bounds.limit)
        # infinite numbers are found where they come up
        with one_blas_thread(belief.sigma.d), np.errstate(over="ignore", invalid="ignore"):
            for i in range(n):
                here = slice(rows.indptr[i], rows.indptr[i + 1])
                x = Point(rows.indices[here], rows.values[here])
                if rows.offset:
                    x = Point(np.append(0, x.indices + 1), np.append(rows.values.dtype.type(1), x.values))
                weight = float(weights[min(i, weights.size - 1)]) if weights.size else 1.0
                try:
                    score = self._learn(x, bool(rows.y[i] > 0) if rows.y.size else False, weight, belief, limits)
                except (FloatingPointError, ZeroDivisionError, OverflowError):
                    return -1 - i
                if out.size:
                    out[i] = score
        return n

    def _limits(self, largest: float) -> Limits:
        p, d, which = self.rule, self.sigma.d, precision(self.memory.state)
        gain = math.sqrt(d) * float(p.variance(p.fresh()))
        span = max(largest, 1.0) * math.sqrt(d)  # no row is longer
        return Limits(REACH[which], SPAN[which], gain, span, p.observes() and p.keeps(), bool(p.merge_rule().belief))

    def _learn(self, x: Point, positive: bool, importance: float, belief: Belief, limits: Limits) -> Any:
        """One example; returns its score. FloatingPointError, and nothing changes, where a number is not finite."""
        p, counts, totals = self.rule, self.memory.counts, self.memory.totals
        now, absent = self._now(), importance == 0.0
        example = make_example(self.costs, self.t + 1, self.n_positives + positive, positive, importance)
        if limits.observing and not absent:  # Σ changes before the score is known
            _require_observable(x, p.step(0.0, 0.0, example, now), example, limits)
        seen = p.predict_full(belief, x, now, absent)
        if not (math.isfinite(seen.s) and math.isfinite(seen.v)):
            raise FloatingPointError
        if absent:
            return seen.s
        step = p.step(float(seen.s), float(seen.v), example, now)
        if not step.loss <= MUCH:
            raise FloatingPointError
        if step.update:
            along = seen.z if limits.moving_z else x.values
            if not reaches(abs(step.size), math.sqrt(np.dot(along, along)), belief.mean):
                raise FloatingPointError
            p.update_full(belief, x, seen, step)
        counts[T] += 1
        counts[POSITIVES] += positive
        counts[FALSE_NEGATIVES] += positive and not seen.s > 0
        counts[FALSE_POSITIVES] += not positive and seen.s > 0
        counts[UPDATES] += step.update
        totals[0] += step.loss
        return seen.s

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


def _require_observable(x: Point, guess: Step, example: Example, limits: Limits) -> None:
    """Raises unless all that will come of the example is finite for sure, whatever its score."""
    length = limits.longest
    if not max(length * limits.gain, abs(guess.size) * length) <= limits.span:
        length = math.sqrt(np.dot(x.values, x.values))
    reaches = abs(guess.size) * length <= limits.reach and example.cost * example.importance <= HEAVY
    if not (reaches and length * limits.gain <= limits.span):
        raise FloatingPointError
