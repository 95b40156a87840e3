"""SOP: the second-order perceptron.

Cesa-Bianchi, Conconi, Gentile: A Second-Order Perceptron Algorithm (2005); a baseline of P0, P1 and P3. Specification
§4, D9.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from thinstream.engine.covariance import DIAGONAL, Belief, Covariance, EveryExample, OnUpdate, Point, always
from thinstream.engine.parameters import OneOf, Positive
from thinstream.engine.rule import Example, MergeRule, Nothing, Seen, Step, algorithm


class Coordinate(NamedTuple):
    v: float = 0.0
    A: float = 1.0  # a + S_j


@algorithm(paper="P1 baseline", order="second", coordinate=Coordinate)
class SOP(NamedTuple):
    """Second-order perceptron.

    ::

        w = v/(a + S + x²);   if ŷ ≠ y:  v += c_y·y·x,  S += x²

    Parameters
    ----------
    a : float, default=1.0
        The larger, the closer to the Perceptron.
    covariance : {"diagonal", "full"}, default="diagonal"
        The full d×d matrix, for up to a few thousand features.
    update_on : {"mistake", "every"}, default="mistake"
        Which examples enter S.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.SOP().fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).coef_
    array([[0. , 0.4]], dtype=float32)

    """

    a: Positive = 1.0
    covariance: Covariance = DIAGONAL
    update_on: Annotated[OnUpdate | EveryExample, OneOf(mistake=OnUpdate(), every=EveryExample())] = OnUpdate()

    def fresh(p) -> Coordinate:
        return Coordinate(0.0, p.a)

    def merge_rule(p) -> MergeRule:
        return MergeRule("v and S add", "formal", sums=("v", "A"), powers={"v": -1, "A": -2})

    def variance(p, f: Any) -> Any:
        return np.reciprocal(f.A)

    def observe(p, f: Coordinate, x: float, v: float, now: Nothing) -> Coordinate:
        return Coordinate(f.v, f.A + x * x)

    def keeps(p) -> bool:
        return always(p.update_on)

    def weight(p, f: Coordinate, now: Nothing) -> float:
        return f.v / f.A

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        mistake = (s > 0.0) != (e.y > 0.0)
        return Step(max(0.0, -e.y * s), mistake, e.cost * e.importance * e.y, 0.0)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Nothing) -> Coordinate:
        return Coordinate(f.v + step.size * x, f.A if always(p.update_on) else f.A + x * x)

    def reach(p, x: float, least: float, v: float, step: Step, now: Nothing) -> float:
        return abs(step.size) * x + x * x

    def gain(p) -> float:
        return 1.0 / p.a

    def predict_full(p, b: Belief, x: Point, now: Nothing, absent: bool) -> Seen:
        z = b.sigma.times(x)  # Σ = (aI + S)⁻¹
        v = b.sigma.variance_along(x, z)
        if absent:
            return Seen(np.dot(z, b.mean), v, z)
        s = np.dot(z, b.mean) / (1 + v)  # with xxᵀ taken into S for this score
        if always(p.update_on):
            b.sigma.shrink(z, 1.0, v)
        return Seen(s, v, z)

    def update_full(p, b: Belief, x: Point, seen: Seen, step: Step) -> None:
        if not always(p.update_on):
            b.sigma.shrink(seen.z, 1.0, seen.v)
        b.mean[x.indices] += b.mean.dtype.type(step.size) * x.values

    def weights_full(p, b: Belief, now: Nothing) -> Any:
        return b.sigma.product(b.mean)
