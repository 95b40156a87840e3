"""PA: passive-aggressive learning, PA, PA-I and PA-II.

Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms (2006); a baseline of P0 and P3.
Specification §3.
"""

from typing import Annotated, NamedTuple

from thinstream.engine import linear
from thinstream.engine.linear import PA_I, PA_II, UNBOUNDED, tau
from thinstream.engine.losses import hinge
from thinstream.engine.parameters import OneOf, Positive
from thinstream.engine.rule import Example, Nothing, Step, algorithm, hard_step


@algorithm(paper="P0 and P3 baseline", order="first", family=linear)
class PA(NamedTuple):
    """Passive-aggressive learning.

    ::

        ℓ = max(0, 1 − y·w·x);   w += τ·y·x
        τ = ℓ/‖x‖² (PA)  |  min(C, ℓ/‖x‖²) (PA-I)  |  ℓ/(‖x‖² + 1/(2C)) (PA-II)

    With class or sample weights C is C·c_y; PA, which has no C, takes c_y/c_max of its step.

    Parameters
    ----------
    variant : {"PA-I", "PA", "PA-II"}, default="PA-I"
    C : float, default=1.0
        Aggressiveness; PA does not use it.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.PA().fit([[2.0, 0.0], [0.0, 2.0]], [0, 1]).coef_
    array([[-0.4 ,  0.48]], dtype=float32)

    """

    variant: Annotated[int, OneOf(**{"PA-I": PA_I, "PA": UNBOUNDED, "PA-II": PA_II})] = PA_I
    C: Positive = 1.0

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        loss = hinge(s, e.y)
        C = p.C * e.cost * e.importance
        return Step(loss, loss > 0.0, tau(p.variant, C, hard_step(e), loss, v) * e.y, 0.0)
