"""Learners that keep a full d×d covariance: their own loop, compiled, or in Python with BLAS for the matrix."""

import math
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine import gaussian
from thinstream.engine.covariance import LARGE, Belief, Matrix, Point, one_blas_thread, reaches
from thinstream.engine.hooks import begin, read_totals, stands_still, step, width
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, T, make_example
from thinstream.engine.records import Memory
from thinstream.engine.rows import CHECKED, HEAVY, MUCH, REACH, SPAN, Bounds, Rows, finite, precision
from thinstream.engine.rule import Example, Seen, Step
from thinstream.jit import Compiled, apart, scalar
from thinstream.lanes.learner import Frozen, Learner

# The loop of learners with a mean μ and a full covariance Σ (`engine.gaussian`), compiled.
#
#     z = Σx,  s = μ·x,  v = x·z,  step = step(s, v, y);   μ += size·z,  Σ −= c/(1 + c·v)·zzᵀ
#
# While rows are learned Σ is a square, so that a product with few non-zeros is a sum of its rows and all loops run as
# SIMD; between calls it is packed. Both triangles are computed as (z_i·z_j)·share, which is bit-identical in
# both orders. Sums over features a model has not met add zeros: neither chunks nor room for more features change a bit.

U0, U1 = np.uint64(0), np.uint64(1)


@scalar
def _unpack(packed: Any, d: Any, sigma: Any) -> None:
    """The square of a packed triangle."""
    k = U0
    for j in range(d):
        for i in range(j + U1):
            sigma[j * d + i] = packed[k]
            sigma[i * d + j] = packed[k]
            k += U1


@scalar
def _pack(sigma: Any, d: Any, packed: Any) -> None:
    k = U0
    for j in range(d):
        for i in range(j + U1):
            packed[k] = sigma[j * d + i]
            k += U1


@scalar
def _take(rows: Any, i: Any, where: Any, x: Any) -> Any:
    """Coordinates and values of row i, the constant first; returns how many."""
    m = U0
    if rows.offset:
        where[m], x[m] = U0, rows.values.dtype.type(1)
        m += U1
    for k in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        where[m], x[m] = np.uint64(rows.indices[k]) + np.uint64(rows.offset), rows.values[k]
        m += U1
    return m


@scalar
def _dot(vector: Any, stride: Any, where: Any, x: Any, m: Any) -> Any:
    """Return the product of a row and every ``stride``-th number of a dense vector, in four accumulators."""
    s0 = s1 = s2 = s3 = vector.dtype.type(0)
    for k in range(m):
        s0, s1, s2, s3 = s1, s2, s3, s0 + vector[where[k] * stride] * x[k]
    return (s0 + s1) + (s2 + s3)


@scalar
def _times(sigma: Any, d: Any, where: Any, x: Any, m: Any, z: Any) -> None:
    """Z = Σx."""
    for i in range(d):
        z[i] = z.dtype.type(0)
    for k in range(m):
        start, value = where[k] * d, x[k]
        for i in range(d):
            z[i] += sigma[start + i] * value


@scalar
def _reaches(size: Any, c: Any, v: Any, zz: Any, state: Any) -> Any:
    """Whether mean and matrix can be moved so far for good (see `limits`)."""
    most, share = REACH[precision(state)], c / (1.0 + c * v)
    return (abs(size) * sqrt(zz) <= most) & (abs(size) <= HEAVY) & (share * zz <= most) & (share <= HEAVY)


@apart
def _make_certain(sigma: Any, d: Any, z: Any, share: Any, tiny: Any) -> None:
    """Set a variance of which only rounding errors are left to the smallest number, without correlations."""
    for j in range(d):
        if sigma[j * d + j] - z[j] * z[j] * share < tiny:
            for i in range(d):
                sigma[j * d + i] = sigma[i * d + j] = z.dtype.type(0)
            sigma[j * d + j], z[j] = tiny, z.dtype.type(0)


@scalar
def _shrink(sigma: Any, d: Any, z: Any, share: Any, tiny: Any) -> None:
    """Σ −= share·zzᵀ."""
    lost = np.int32(0)
    for j in range(d):
        lost |= np.int32(sigma[j * d + j] - z[j] * z[j] * share < tiny)
    if lost:
        _make_certain(sigma, d, z, share, tiny)
    for j in range(d):
        start, own = j * d, z[j]
        for i in range(d):
            sigma[start + i] -= own * z[i] * share


def full_loop(p: Any, rows: Any, costs: Any, memory: Any, wide: Any, tiny: Any, scores: Any) -> Any:
    """Learns checked rows in order; returns how many, or −1 − i where row i would leave numbers that are not finite.

    ``wide``: features of Σ. ``tiny``: the least variance, in the model's precision. ``scores``, unless empty, takes
    each row's score before its update. A row of weight 0 is scored, and otherwise absent.
    """
    counts, state, packed = memory.counts, memory.state, memory.extra
    d, stride, n = np.uint64(wide), np.uint64(width(p)), len(rows.indptr) - 1
    where, x = np.empty(wide, np.uint64), np.empty(wide, state.dtype)
    z = np.empty_like(x)
    sigma, unpacked = np.empty(0, state.dtype), False
    own = read_totals(p, memory.totals)
    done = n
    for i in range(n):
        importance = rows.weights[min(i, rows.weights.size - 1)] if rows.weights.size else 1.0
        m = _take(rows, i, where, x)
        s = _dot(state, stride, where, x, m)
        if not finite(s):
            done = -1 - i
            break
        if scores.size:
            scores[i] = s
        if importance == 0.0:
            continue

        if not unpacked:
            sigma, unpacked = np.empty(wide * wide, state.dtype), True
            _unpack(packed, d, sigma)
        _times(sigma, d, where, x, m, z)
        v = max(float(_dot(z, U1, where, x, m)), 0.0)  # rounding must not make it negative
        positive = rows.y[i] > 0
        example = make_example(costs, counts[T] + 1, counts[POSITIVES] + positive, positive, importance)
        decision = step(p, float(s), v, example, begin(p, counts[T] + 1, own))
        zz = 0.0
        if decision.update:
            for j in range(d):
                zz += float(z[j]) * float(z[j])
        moves = decision.update and _reaches(decision.size, decision.c, v, zz, state)
        sure = moves or not decision.update or stands_still(p)
        if not (finite(v) and decision.loss <= MUCH and sure):
            done = -1 - i
            break

        counts[T] += 1
        counts[POSITIVES] += positive
        if positive and not s > 0:
            counts[FALSE_NEGATIVES] += 1
        elif s > 0 and not positive:
            counts[FALSE_POSITIVES] += 1
        memory.totals[0] += decision.loss
        counts[UPDATES] += decision.update
        if moves:
            size = state.dtype.type(decision.size)
            for j in range(d):
                state[j * stride] += size * z[j]
            _shrink(sigma, d, z, state.dtype.type(decision.c / (1.0 + decision.c * v)), tiny)
    if unpacked:
        _pack(sigma, d, packed)
    return done


_LOOPS: dict[Any, Compiled] = {}


def full_loop_for(rule: Any) -> Compiled:
    """The loop compiled for one rule."""
    if rule not in _LOOPS:
        _LOOPS[rule] = Compiled(full_loop, rule.__module__, made_by=(full_loop_for, rule))
    return _LOOPS[rule]


class Limits(NamedTuple):
    """Limits of a row that keep all numbers finite (see `engine.rows`)."""

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
        import scipy.linalg.blas  # noqa: F401 (before the threads of loaded libraries are limited)

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
            try:
                _require_reachable(x, seen, step, belief, limits)
                p.update_full(belief, x, seen, step)
            except FloatingPointError:
                if not p.stands_still():
                    raise
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


def online_learner(algorithm: str, *, n_features: int, **options: Any) -> Learner:
    """Make the learner of an online algorithm: a `FullLearner` if the parameters ask for a full covariance.

    ``options`` are those of `Learner`, including the parameters of the algorithm.
    """
    learner = FullLearner if options.get("covariance") == "full" else Learner
    return learner(algorithm, n_features=n_features, **options)


def _require_reachable(x: Point, seen: Seen, step: Step, belief: Belief, limits: Limits) -> None:
    """Raise unless the vector stays finite."""
    along = seen.z if limits.moving_z else x.values
    if not reaches(abs(step.size), math.sqrt(np.dot(along, along)), belief.mean):
        raise FloatingPointError


def _require_observable(x: Point, guess: Step, example: Example, limits: Limits) -> None:
    """Raises unless all that will come of the example is finite for sure, whatever its score."""
    length = limits.longest
    if not max(length * limits.gain, abs(guess.size) * length) <= limits.span:
        length = math.sqrt(np.dot(x.values, x.values))
    reaches = abs(guess.size) * length <= limits.reach and example.cost * example.importance <= HEAVY
    if not (reaches and length * limits.gain <= limits.span):
        raise FloatingPointError
