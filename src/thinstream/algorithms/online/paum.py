"""PAUM: the perceptron algorithm with uneven margins.

Li, Zaragoza, Herbrich, Shawe-Taylor, Kandola: The Perceptron Algorithm with Uneven Margins (2002); a baseline of P0 and
P3, without the original's bias, as P3's tables show. Specification §3, D2.
"""

from typing import NamedTuple

from thinstream.engine import linear
from thinstream.engine.parameters import Positive
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm


@algorithm(paper="P0 and P3 baseline", order="first", family=linear, uses_confidence=False)
class PAUM(NamedTuple):
    """Perceptron algorithm with uneven margins.

    ::

        if y·w·x ≤ τ_y:  w += η·y·x        τ_y = c_y

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η. The margins τ come from class_weight (1 without).

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.PAUM(class_weight={1: 2.0}).fit([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [0, 1, 1]).coef_
    array([[-1.,  2.]], dtype=float32)

    """

    eta: Positive = 1.0

    def merge_rule(p) -> MergeRule:
        return linear.merge_rule(p)._replace(way="mean")

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        margin = e.y * s
        return Step(max(0.0, e.cost - margin), margin <= e.cost, p.eta * e.importance * e.y, 0.0)
