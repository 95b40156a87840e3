"""The numerically stable sparse perceptron of P2.

Xie, Fan, Verscheure, Ren: Efficient and Numerically Stable Sparse Learning (P2, 2010), Algorithm 1. Specification §6,
D14.
"""

import math
from typing import Annotated, NamedTuple

from thinstream.engine import linear
from thinstream.engine.linear import Coordinate
from thinstream.engine.parameters import Interval, NonNegative, Positive
from thinstream.engine.prox import soft
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm


class Totals(NamedTuple):
    nnz: float = 0.0


@algorithm(paper="P2 Alg. 1", order="first", family=linear, totals=Totals, uses_confidence=False)
class StableSparsePerceptron(NamedTuple):
    """Perceptron with a margin that thresholds what it touches and stops for good at a given density.

    ::

        z = y·w·x;   if z ≤ τ:  w_j = soft(w_j + η·y·x_j, λ) where x_j ≠ 0;   stop before nnz(w)/d ≥ s

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η.
    l1 : float, default=0.0
        λ: larger is sparser (not multiplied by η).
    margin : float, default=0.0
        τ: update where the margin is at or below it.
    max_density : float or None, default=None
        s: once this fraction of the weights is not zero the model is frozen; nothing counts any more.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.StableSparsePerceptron(l1=0.5).fit([[1.0, 0.5], [0.0, 3.0]], [0, 1]).coef_
    array([[-0.5,  2.5]], dtype=float32)

    """

    eta: Positive = 1.0
    l1: NonNegative = 0.0
    margin: NonNegative = 0.0
    max_density: Annotated[float, Interval(high=1.0, none=math.inf)] = math.inf

    def needs_dimension(p) -> bool:
        return p.max_density < math.inf

    def for_width(p, d: int) -> "StableSparsePerceptron":
        """max_density as the number of weights at which it is reached."""
        if p.max_density == math.inf:
            return p
        limit = math.floor(p.max_density * d)
        while d and limit / d < p.max_density:  # a slice of a model can have no features
            limit += 1
        return p._replace(max_density=float(limit))

    def merge_rule(p) -> MergeRule:
        return MergeRule(
            refused="it thresholds only what an example touches and stops by density, so neither sums nor averages of "
            "shards mean anything; split the features instead of the examples: partial scores add exactly"
        )

    def stopped(p, totals: Totals) -> bool:
        return totals.nnz >= p.max_density

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        z, c = e.y * s, e.cost * e.importance
        return Step(c * max(0.0, p.margin - z), z <= p.margin, p.eta * c * e.y, 0.0)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Nothing) -> Coordinate:
        return Coordinate(soft(f.w + step.size * x, p.l1))

    def tally(p, f: Coordinate, g: Coordinate) -> int:
        return int(g.w != 0) - int(f.w != 0)

    def end(p, totals: Totals, t: int, v: float, now: Nothing, change: int) -> Totals:
        return Totals(totals.nnz + change)
