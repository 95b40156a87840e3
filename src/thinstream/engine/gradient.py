"""The step of every learner that follows the gradient of its loss."""

from thinstream.engine.losses import LOGISTIC, loss_and_slope
from thinstream.engine.rule import Example, Step
from thinstream.jit import scalar


@scalar
def descent(loss: int, s: float, e: Example) -> Step:
    """−∇ℓ = size·x, class cost and sample weight included; the logistic loss asks for an update always."""
    value, slope = loss_and_slope(loss, s, e.y)
    c = e.cost * e.importance
    return Step(c * value, slope > 0.0 or loss == LOGISTIC, c * slope * e.y, 0.0)
