"""The head of a blend: a logistic regression on the scores of K models, learned by an online Newton step on every row.

Specification §15. Row t has the scores s₁ … s_K its models gave before they learned it:

    m_k = mean of |s_k| over the rows before t;   x_k = clip(s_k/m_k, −10, 10), 0 while m_k is 0
    z = w·x;   p = 1/(1 + e^−z);   g = c(p − [y = 1]);   h = c·max(p(1 − p), 0.01)
    P ← P − h·(Px)(Px)ᵀ/(1 + h·xᵀPx);   w ← w − g·Px

c is the cost of the row's class times its weight. With our own portfolio c has a factor 1 + n/128, n being the rows
before: what models said when they knew little counts less and less; and the floor of the curvature is the smaller of
0.003 and the rate of positives, (n₊ + 1)/(n + 2), counted with row t. A model that once had a score that is not finite
is out: its x is 0 from then on.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import Costs
from thinstream.engine.rule import TINY
from thinstream.jit import compiled
from thinstream.learners.learner import EQUAL_COSTS

#: |x_k| at most.
CLIP = 10.0
#: Places in ``Head.counts``.
ROWS, POSITIVES = range(2)


class Counting(NamedTuple):
    """How much a row counts beside its cost and weight."""

    later: float  # after so many rows one counts twice as much as the first, after twice as many three times
    flat: float  # the floor of the curvature p(1 − p); lower for rare positives if ``later`` is finite


#: The specification's: all rows count alike.
ALIKE = Counting(math.inf, 0.01)


@compiled()
def _learn(
    scores: Any,
    y: Any,
    weights: Any,
    costs: Costs,
    counting: Counting,
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
        c *= 1.0 + n / counting.later
        flat = counting.flat
        if counting.later < math.inf:  # a floor above the rate of positives would hold p far above that rate
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
    """What the scores of K models are worth together.

    Parameters
    ----------
    models : int
        K.
    costs : Costs
        Class costs c₋, c₊.
    counting : Counting
        How much later rows count, and rows that were easy.

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
        self.w, self.P = np.full(models, 2.0 / models), np.eye(models)
        self.sums, self.gone = np.zeros(models), np.zeros(models, np.bool_)
        self.counts, self.loss = np.zeros(2, np.int64), np.zeros(1)  # of the logarithmic loss: the sum over rows

    def __len__(self) -> int:
        return len(self.w)

    def learn(
        self, scores: NDArray[Any], y: NDArray[np.int8], weights: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Takes rows in order; returns the blend's score z of each before it was learned."""
        z = np.empty(len(scores))
        given = np.empty(0) if weights is None else weights
        state = self.w, self.P, self.sums, self.gone, self.counts, self.loss
        _learn(np.ascontiguousarray(scores), y, given, self.costs, self.counting, *state, z)
        return z

    def coefficients(self) -> NDArray[np.float64]:
        """w_k/m_k: the blend's score of a row is their sum, each times the score of its model."""
        there = ~self.gone & (self.sums > 0.0)
        found = np.zeros(len(self))
        np.divide(self.w * self.counts[ROWS], self.sums, out=found, where=there)
        return found

    def share(self) -> NDArray[np.float64]:
        """|w_k| over the sum of all, of models that are in the blend."""
        size: NDArray[np.float64] = np.where(self.coefficients() != 0.0, np.abs(self.w), 0.0)
        shares: NDArray[np.float64] = size / max(float(size.sum()), TINY)
        return shares

    def keep(self, models: NDArray[np.intp]) -> Self:
        """A head of these models alone: as if the others had been held at 0 (the Gaussian's condition)."""
        made, others = type(self)(len(models), self.costs, self.counting), np.setdiff1d(np.arange(len(self)), models)
        across = self.P[np.ix_(models, others)]
        held = np.linalg.solve(self.P[np.ix_(others, others)], np.column_stack([across.T, self.w[others]]))
        made.P = self.P[np.ix_(models, models)] - across @ held[:, :-1]
        made.w = self.w[models] - across @ held[:, -1]
        made.sums, made.gone = self.sums[models], self.gone[models]
        made.counts, made.loss = self.counts.copy(), self.loss.copy()
        return made
