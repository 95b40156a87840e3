"""The head of a blend: a logistic regression on the scores of K members, learned by online Newton steps.

Specification §15. For row t, s₁ … s_K are the progressive scores of the members:

    m_k = mean of |s_k| over the rows before t;   x_k = clip(s_k/m_k, −10, 10), 0 while m_k is 0
    z = w·x;   p = 1/(1 + e^−z);   g = c(p − [y = 1]);   h = c·max(p(1 − p), 0.01)
    P ← P − h·(Px)(Px)ᵀ/(1 + h·xᵀPx);   w ← w − g·Px

P begins as the identity, and c is the cost of the row's class times its weight. With the default portfolio P begins as
3I, and c has a factor 1 + n/128 with n rows before: early scores, from members that have learned little, count less.
The floor of the curvature is then the smaller of 0.003 and the rate of positives, (n₊ + 1)/(n + 2), row t included. A
member is out after a score that is not finite: its x is 0 from then on.

In a second pass over the same rows the members have seen all labels, so their scores look better than they are. The
head therefore learns in the first pass only: later passes change neither w and P nor the counts.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import EQUAL_COSTS, Costs
from thinstream.engine.rule import TINY
from thinstream.errors import NumericalError
from thinstream.jit import compiled
from thinstream.lanes.learner import Frozen
from thinstream.models.members import Group, Kind, Part, Weights
from thinstream.models.preparation import Preparation, Several
from thinstream.models.products import feature_columns

#: Largest |x_k|.
CLIP = 10.0
#: Positions in ``Head.counts``.
ROWS, POSITIVES = range(2)


class Counting(NamedTuple):
    """How much a row counts, in addition to its cost and weight, and how much it moves a fresh head."""

    later: float  # after this many rows, a row counts twice as much as the first; after twice as many, three times
    flat: float  # the floor of the curvature p(1 − p); lower for rare positives if ``later`` is finite
    prior: float = 1.0  # P begins as this times the identity


#: The default of the specification: all rows count equally.
ALIKE = Counting(math.inf, 0.01)


@compiled()
def _learn(
    scores: Any,
    y: Any,
    weights: Any,
    costs: Costs,
    counting: Counting,
    learns: bool,
    w: Any,
    P: Any,
    sums: Any,
    gone: Any,
    counts: Any,
    loss: Any,
    z: Any,
) -> None:
    models = len(w)
    x, u = np.empty(models), np.empty(models)
    for t in range(len(scores)):
        n = counts[ROWS]
        for k in range(models):
            s = np.float64(scores[t, k])
            if not np.isfinite(s):
                gone[k] = True
            x[k] = 0.0 if gone[k] or sums[k] == 0.0 else max(-CLIP, min(s * n / sums[k], CLIP))
        total = 0.0
        for k in range(models):
            total += w[k] * x[k]
        z[t] = total
        importance = 1.0 if weights.size == 0 else weights[t]
        if importance == 0.0:
            continue

        positive = y[t] > 0
        if learns:
            counts[ROWS] += 1
            counts[POSITIVES] += positive
        c = importance
        if costs.balanced:
            if positive:
                c *= max(counts[ROWS] - counts[POSITIVES], 1) / max(counts[POSITIVES], 1)
        else:
            c *= costs.positive if positive else costs.negative
        p = 1.0 / (1.0 + math.exp(-total)) if total > -700.0 else 0.0
        loss[0] += c * (max(-total if positive else total, 0.0) + math.log1p(math.exp(-abs(total))))
        if not learns:
            continue
        c *= 1.0 + n / counting.later
        flat = counting.flat
        if counting.later < math.inf:  # a floor above the rate of positives would keep p far above that rate
            flat = min(flat, (counts[POSITIVES] + 1.0) / (counts[ROWS] + 2.0))
        g, h = c * (p - positive), c * max(p * (1.0 - p), flat)
        u[:] = 0.0
        for k in range(models):
            for j in range(models):
                u[j] += P[k, j] * x[k]
        spread = 0.0
        for k in range(models):
            spread += x[k] * u[k]
        shrink = 1.0 / (1.0 + h * spread)
        for k in range(models):
            gain = h * shrink * u[k]
            for j in range(models):
                P[k, j] -= gain * u[j]
            w[k] -= g * shrink * u[k]  # Px with the new P
        for k in range(models):
            if not gone[k]:
                sums[k] += abs(np.float64(scores[t, k]))


class Head:
    """A logistic regression on the scores of K members.

    Parameters
    ----------
    models : int
        K.
    costs : Costs
        Class costs c₋, c₊.
    counting : Counting
        How much later rows count, and rows with a clear score.

    Examples
    --------
    >>> head = Head(2)
    >>> scores = np.array([[1.0, -1.0], [1.0, -2.0], [-1.0, 1.0], [1.0, -1.0]])
    >>> head.learn(scores, np.array([1, 1, -1, 1], np.int8)).round(3)
    array([ 0.   , -1.   , -1.194,  1.356])
    >>> head.share().round(2)
    array([0.9, 0.1])

    """

    def __init__(self, models: int, costs: Costs = EQUAL_COSTS, counting: Counting = ALIKE) -> None:
        self.costs, self.counting = costs, counting
        self.w, self.P = np.full(models, 2.0 / models), counting.prior * np.eye(models)
        self.sums, self.gone = np.zeros(models), np.zeros(models, np.bool_)
        self.counts, self.loss = np.zeros(2, np.int64), np.zeros(1)  # the sum of the logistic loss

    def __len__(self) -> int:
        return len(self.w)

    def learn(
        self, scores: NDArray[Any], y: NDArray[np.int8], weights: NDArray[np.float64] | None = None, learns: bool = True
    ) -> NDArray[np.float64]:
        """Learn the rows in order; return the progressive score z of each.

        With ``learns=False``, only the sum of the losses changes, and members with scores that are not finite are out.
        """
        z = np.empty(len(scores))
        row_weights = np.empty(0) if weights is None else weights
        state = self.w, self.P, self.sums, self.gone, self.counts, self.loss
        _learn(np.ascontiguousarray(scores), y, row_weights, self.costs, self.counting, learns, *state, z)
        return z

    def coefficients(self) -> NDArray[np.float64]:
        """Return w_k/m_k. The blend's score of a row is the sum of these, each times the score of its member."""
        there = ~self.gone & (self.sums > 0.0)
        coefficients = np.zeros(len(self))
        np.divide(self.w * self.counts[ROWS], self.sums, out=coefficients, where=there)
        return coefficients

    def share(self) -> NDArray[np.float64]:
        """Return |w_k| divided by the sum over all members that are in the blend."""
        size: NDArray[np.float64] = np.where(self.coefficients() != 0.0, np.abs(self.w), 0.0)
        shares: NDArray[np.float64] = size / max(float(size.sum()), TINY)
        return shares

    def signed_share(self) -> NDArray[np.float64]:
        """Return the share of each member, with the sign of its weight in the blend."""
        shares: NDArray[np.float64] = np.sign(self.w) * self.share()
        return shares

    def keep(self, models: NDArray[np.intp]) -> Self:
        """Return a head of these members only: the Gaussian, conditioned on weights 0 of the others."""
        made, others = type(self)(len(models), self.costs, self.counting), np.setdiff1d(np.arange(len(self)), models)
        across = self.P[np.ix_(models, others)]
        held = np.linalg.solve(self.P[np.ix_(others, others)], np.column_stack([across.T, self.w[others]]))
        made.P = self.P[np.ix_(models, models)] - across @ held[:, :-1]
        made.w = self.w[models] - across @ held[:, -1]
        made.sums, made.gone = self.sums[models], self.gone[models]
        made.counts, made.loss = self.counts.copy(), self.loss.copy()
        return made


# The features whose weights are read from the members: all of them, or those of some rows.


class AllFeatures(NamedTuple):
    """All features."""

    n_features: int

    def models(self, group: Group) -> Iterator[Any]:
        """Return a copy of each model."""
        return group.wide(self.n_features)

    def divisors(self, preparation: Preparation) -> NDArray[np.float64]:
        """Return the scales of the features."""
        return preparation.divisors(self.n_features)


class FeaturesOfRows:
    """The features of some rows, renumbered. Their weights are bit-identical to those from `AllFeatures`.

    >>> rows = Batch.of(np.array([0, 2, 3]), np.array([5, 900, 5]), np.ones(3), 1000)
    >>> few = FeaturesOfRows(rows, 0)
    >>> few.features, few.renumbered(rows).indices
    (array([  5, 900]), array([0, 1, 0], dtype=int32))
    """

    def __init__(self, rows: Batch, offset: int) -> None:
        self.features, positions = np.unique(rows.indices[: rows.indptr[-1]], return_inverse=True)
        self._positions, self.offset, self.n_features = positions.astype(np.int32), offset, len(self.features)

    def models(self, group: Group) -> Iterator[Weights]:
        """Return the models' weights of the features."""
        coordinates = np.concatenate([np.zeros(self.offset, np.int64), self.features.astype(np.int64) + self.offset])
        return (Weights(column, self.offset) for column in group.weights_at(coordinates).T)

    def divisors(self, preparation: Preparation) -> NDArray[np.float64]:
        """Return the scales of the features."""
        return preparation.at(self.features).divisors(self.n_features)

    def renumbered(self, rows: Batch) -> Batch:
        """Return the rows, prepared or not, with positions in ``features`` as indices."""
        return replace(rows, indices=self._positions, n_features=self.n_features)


# A blend as one linear model, v = Σ (w_k/m_k)·v_k.
#
# Members that learn unscaled or scaled rows add up to one vector in the units of the caller. For rows of unit length, a
# score is not a linear function of the original row, so these members add up to a separate vector for prepared rows.


#: Weights and intercept.
Vector = tuple[NDArray[Any], float]


def vectors_of(
    parts: Sequence[Part],
    coefficients: NDArray[np.float64],
    features: Sequence[AllFeatures | FeaturesOfRows],
    dtype: np.dtype[Any],
    most: int | None = None,
) -> list[Vector]:
    """Return weights and intercept of each part; ``coefficients`` are in the order of the members.

    ``features`` has the features of each part. With ``most``, only the most important weights of all parts are kept.
    """
    remaining = iter(coefficients.tolist())
    sums = [_vector(part, remaining, own) for part, own in zip(parts, features, strict=True)]
    with np.errstate(over="ignore"):
        vectors = [vector.astype(dtype) for vector, _ in sums]
    if not all(np.isfinite(vector).all() for vector in vectors):
        raise NumericalError(
            f"Auto: a weight, in the units of its feature, is not finite in {dtype.name}. Use dtype='float64'"
        )
    if most is not None:
        most_important(vectors, [part.squares for part in parts], most)
    return [(vector, intercept) for vector, (_, intercept) in zip(vectors, sums, strict=True)]


def frozen(blend: Any, vectors: Sequence[Vector]) -> Frozen:
    """Return a frozen model with these vectors, one after another, and the options of the blend."""
    weights = np.concatenate([vector for vector, _ in vectors])
    where = np.flatnonzero(weights)
    return Frozen(
        blend.algorithm.name,
        blend.parameters,
        n_features=len(weights),
        where=where,
        values=weights[where],
        intercept=float(sum(intercept for _, intercept in vectors)),
        counts=blend.counts,
        loss=blend.cumulative_loss,
        costs=blend.costs,
        dtype=blend.dtype.name,
        grow=blend.grow,
        fit_intercept=bool(blend.offset),
    )


def preparation_of_kinds(
    blends: Sequence[Sequence[Part]], n_features: int, width: int, t: int | None = None
) -> Preparation:
    """Return the preparation of rows for the vectors of all these blends. Several kinds are side by side.

    ``width`` is the number of features and products. With ``t``, the number of rows learned, the preparation knows the
    mean lengths of rows. Only weights per feature need them, not scores.
    """
    parts = sorted(chain(*blends), key=lambda part: part.kind[1] is not None)
    plain = next((part.squares[:n_features] for part in parts if part.kind == (None, None, False)), None)
    preparations: dict[Kind, Preparation] = {}
    for part in parts:
        if part.kind not in preparations:
            preparations[part.kind] = preparation = _spread_scales(part, n_features, width)
            if t is not None:
                length = _row_length(part.preparation, plain, part.width(n_features), t)
                lengths = _feature_lengths(part, plain, n_features)
                preparations[part.kind] = preparation.of_length(length, lengths)
    every = list(preparations.values())
    return every[0] if len(every) == 1 else Several(every, width)


def _spread_scales(part: Part, n_features: int, width: int) -> Preparation:
    """Return the preparation of a part, with scales by feature number and products from ``n_features`` on."""
    preparation, few = part.preparation, part.few
    if preparation.scales is None or width == n_features:
        return preparation
    spread = preparation.with_scales(type(preparation.scales).fresh())
    assert spread.scales is not None
    spread.widen(width)
    own = np.arange(min(part.width(n_features), len(preparation.scales)))
    where = own
    if part.products and few is not None:
        where = n_features + own
        where[feature_columns(len(few))] = few.numbers
    spread.scales.put(where, preparation.scales.columns(own))
    return spread


def _row_length(preparation: Preparation, squares: NDArray[np.float64] | None, n_features: int, t: int) -> float | None:
    """Return the root mean square length of t rows before normalization, or None if it is not known.

    ``squares`` has Σx_j² of unprepared rows. Divided by its root mean square, a feature has mean square 1, so the mean
    square of lengths is the mean number of values in a row.
    """
    if preparation.normalize is None or not t:
        return None
    if preparation.scale == "rms" and preparation.scales is not None:
        columns = preparation.scales.columns(np.arange(min(n_features, len(preparation.scales))))
        total = float(columns["counts"][columns["squares"] > 0.0].sum())
    elif squares is not None:
        m = preparation.divisors(n_features)[: len(squares)]
        scaled = m > 0.0
        total = math.fsum((squares[scaled] / m[scaled] ** 2).tolist())  # independent of the order
    else:
        return None
    return math.sqrt(total / t) or None


def _feature_lengths(part: Part, plain: NDArray[np.float64] | None, n_features: int) -> NDArray[np.float32] | None:
    """Return the mean length, before normalization, of the rows with each feature, or None if it is not known.

    A value x in a row of length L is x/(mL) in the row of unit length. So Σx²/(m²·Σ(x/(mL))²) is L², or 1 over the mean
    of 1/L² if all x are equal. Both sums exist already, because importance needs them.
    """
    if part.preparation.normalize is None or plain is None or part.products:
        return None
    unit, m = part.squares[:n_features], part.preparation.divisors(n_features)
    size = min(len(unit), len(plain), len(m))
    mean_lengths = np.zeros(n_features, np.float32)
    unit, plain, m = unit[:size], plain[:size], m[:size]
    occurred = (unit > 0.0) & (plain > 0.0) & (m > 0.0)
    with np.errstate(over="ignore", under="ignore"):
        lengths = np.sqrt(plain[occurred] / unit[occurred]) / m[occurred]
    mean_lengths[np.flatnonzero(occurred)] = np.where(lengths < np.finfo(np.float32).max, lengths, 0.0)
    return mean_lengths


def _vector(
    part: Part, coefficients: Iterator[float], features: AllFeatures | FeaturesOfRows
) -> tuple[NDArray[np.float64], float]:
    """Return the sum of the members of a part: v (for these features) and b. It consumes their coefficients."""
    total, intercept = np.zeros(features.n_features), 0.0
    for view in part.views:
        m = None if part.preparation or not view.preparation else features.divisors(view.preparation)
        for model in (model for group in view.groups for model in features.models(group)):
            coefficient = next(coefficients)
            if coefficient != 0.0:
                weights = model.weights()[: features.n_features].astype(np.float64)
                total[: len(weights)] += coefficient * (weights if m is None else _over(weights, m[: len(weights)]))
                intercept += coefficient * model.intercept
    return total, intercept


def most_important(vectors: Sequence[NDArray[Any]], squares: Sequence[NDArray[np.float64]], most: int) -> None:
    """Keep the ``most`` weights of largest |v_j|·q_j^½, q_j = √Σx_j², of all vectors together. Others become 0."""
    sizes = [np.abs(v) * q[: len(v)] ** 0.25 for v, q in zip(vectors, squares, strict=True)]
    importance = np.concatenate(sizes)
    if np.count_nonzero(importance) <= most:
        return
    kept = np.zeros(len(importance), np.bool_)
    kept[np.argsort(-importance, kind="stable")[:most]] = True
    first = 0
    for v in vectors:
        v[~kept[first : first + len(v)]] = 0.0
        first += len(v)


def _over(weights: NDArray[np.float64], m: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(weights, m, out=np.zeros_like(weights), where=m > 0.0)
