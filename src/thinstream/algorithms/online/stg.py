"""STG: stochastic truncated gradient.

Langford, Li, Zhang: Sparse Online Learning via Truncated Gradient (2009); "STG" in P0, "TG" in P2. Specification §3,
D6.

Lazy form: `truncated`; a weight with |w_j| > θ stands still until its next gradient.
"""

from typing import Annotated, NamedTuple

from thinstream.engine import truncated
from thinstream.engine.losses import HINGE, Loss
from thinstream.engine.parameters import Count, Interval, NonNegative, Positive
from thinstream.engine.prox import RATE_INV_SQRT, Rate
from thinstream.engine.rule import Step, algorithm
from thinstream.engine.truncated import Coordinate, Round, Totals


@algorithm(paper="P0 and P2 baseline", order="first", family=truncated, totals=Totals, uses_confidence=False)
class STG(NamedTuple):
    """Stochastic truncated gradient.

    ::

        w −= η_t·∇ℓ;   if t mod K = 0:  w_j = soft(w_j, K·η_t·λ) for every j with |w_j| ≤ θ

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η.
    l1 : float, default=0.0
        Gravity (g in the paper, λ elsewhere): larger is sparser.
    period : int, default=1
        K: truncate every K-th round, K times as strongly.
    ceiling : float or None, default=None
        θ: weights above it are left alone. None: all are truncated.
    rate : {"inv_sqrt", "const", "inv_t"}, default="inv_sqrt"
        η_t: η/√t, η or η/t.
    loss : {"hinge", "logistic"}, default="hinge"

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.STG(l1=0.25, rate="const").fit([[1.0, 0.5], [0.0, 1.0]], [0, 1]).coef_
    array([[-0.5,  0.5]], dtype=float32)

    """

    eta: Positive = 1.0
    l1: NonNegative = 0.0
    period: Count = 1
    ceiling: Annotated[float, Interval(none=float("inf"))] = float("inf")
    rate: Rate = RATE_INV_SQRT
    loss: Loss = HINGE

    def weight(p, f: Coordinate, now: Round) -> float:
        return truncated.weight(p, f, now) if abs(f.w) <= p.ceiling else f.w

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Round) -> Coordinate:
        w = truncated.weight(p, f, now) if abs(f.w) <= p.ceiling else f.w
        return Coordinate(w + now.eta_t * step.size * x, now.P)

    def end(p, totals: Totals, t: int, v: float, now: Round, change: int) -> Totals:
        return Totals(totals.P + p.period * now.eta_t * p.l1) if t % p.period == 0 else totals
