"""Losses of a score s and a label y = ±1, their slopes −dℓ/ds·y ≥ 0, and the step along a gradient."""

import math
from typing import Annotated, Any

from thinstream.engine.parameters import OneOf
from thinstream.engine.rule import Example, Step
from thinstream.jit import scalar

HINGE, LOGISTIC = range(2)
Loss = Annotated[int, OneOf(hinge=HINGE, logistic=LOGISTIC)]


@scalar
def hinge(s: Any, y: Any) -> Any:
    """max(0, 1 − y·s)."""
    return max(0.0, 1.0 - y * s)


@scalar
def loss_and_slope(loss: int, s: Any, y: Any) -> tuple[float, float]:
    """ℓ and g with ∇ℓ = −g·y·x. Only negative numbers are exponentiated, so nothing overflows."""
    if loss == HINGE:
        value = max(0.0, 1.0 - y * s)
        return value, 1.0 if value > 0.0 else 0.0
    margin = y * s
    small = math.exp(-abs(margin))
    if margin > 0.0:
        return math.log1p(small), small / (1.0 + small)
    return math.log1p(small) - margin, 1.0 / (1.0 + small)


@scalar
def descent(loss: int, s: float, e: Example) -> Step:
    """−∇ℓ = size·x, with class cost and sample weight. The logistic loss always updates."""
    value, slope = loss_and_slope(loss, s, e.y)
    c = e.cost * e.importance
    return Step(c * value, slope > 0.0 or loss == LOGISTIC, c * slope * e.y, 0.0)
