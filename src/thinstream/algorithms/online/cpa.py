"""CPA: prediction-based cost-sensitive passive-aggressive learning.

Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms (2006), the prediction-based
update; a baseline of P0 and P3 ("CPA_PB"). Specification §3.
"""

import math
from typing import Annotated, NamedTuple

from thinstream.engine import linear
from thinstream.engine.linear import PA_I, PA_II, UNBOUNDED, tau
from thinstream.engine.parameters import OneOf, Positive
from thinstream.engine.rule import Example, Nothing, Step, algorithm


@algorithm(paper="P0 and P3 baseline", order="first", family=linear)
class CPA(NamedTuple):
    """Cost-sensitive passive-aggressive learning, prediction-based.

    ::

        if ŷ ≠ y:  ℓ = √cost(y) − y·w·x;   w += τ·y·x        cost(y) = c_y, from class_weight

    Parameters
    ----------
    variant : {"PA", "PA-I", "PA-II"}, default="PA"
        τ = ℓ/‖x‖², min(C, ℓ/‖x‖²) or ℓ/(‖x‖² + 1/(2C)).
    C : float, default=1.0
        Aggressiveness; PA does not use it.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.CPA(class_weight={1: 4.0}).fit([[2.0, 0.0], [0.0, 2.0]], [0, 1]).coef_
    array([[0. , 0.8]], dtype=float32)

    """

    variant: Annotated[int, OneOf(**{"PA": UNBOUNDED, "PA-I": PA_I, "PA-II": PA_II})] = UNBOUNDED
    C: Positive = 1.0

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        mistake = (s > 0.0) != (e.y > 0.0)
        loss = math.sqrt(e.cost) - e.y * s if mistake else 0.0
        return Step(loss, mistake, tau(p.variant, p.C * e.importance, min(e.importance, 1.0), loss, v) * e.y, 0.0)
