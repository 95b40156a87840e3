"""FOBOS with the l1 norm: forward-backward splitting.

Duchi, Singer: Efficient Online and Batch Learning using Forward Backward Splitting (2009); a baseline of P0.

Lazy form: the model keeps P = λ·Σ η_k, each weight the P_j it has taken; soft(soft(v, a), b) = soft(v, a + b).
"""

from typing import NamedTuple

from thinstream.engine.losses import HINGE, Loss, loss_and_slope
from thinstream.engine.parameters import NonNegative, Positive
from thinstream.engine.prox import RATE_INV_SQRT, Rate, like, rate_at, soft
from thinstream.engine.records import Clock
from thinstream.engine.rule import Example, Step, algorithm


class Coordinate(NamedTuple):
    w: float = 0.0
    P: Clock = 0.0


class Totals(NamedTuple):
    P: float = 0.0


class Round(NamedTuple):
    P: Clock
    eta_t: float


@algorithm(paper="P0 baseline", order="first", coordinate=Coordinate, totals=Totals)
class FOBOS(NamedTuple):
    """Forward-backward splitting with the l1 norm.

    ::

        w = soft(w − η_t·∇ℓ, η_t·λ)   every round

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η.
    l1 : float, default=0.0
        λ: larger is sparser.
    rate : {"inv_sqrt", "const", "inv_t"}, default="inv_sqrt"
        η_t: η/√t, η or η/t.
    loss : {"hinge", "logistic"}, default="hinge"

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.FOBOS(l1=0.25, rate="const").fit([[1.0, 0.5], [0.0, 1.0]], [0, 1]).coef_
    array([[-0.5,  0.5]], dtype=float32)

    """

    eta: Positive = 1.0
    l1: NonNegative = 0.0
    rate: Rate = RATE_INV_SQRT
    loss: Loss = HINGE

    def begin(p, t: int, totals: Totals) -> Round:
        return Round(totals.P, rate_at(p.rate, p.eta, t))

    def weight(p, f: Coordinate, now: Round) -> float:
        return soft(f.w, like(now.P - f.P, f.w))

    def step(p, s: float, v: float, e: Example, now: Round) -> Step:
        loss, slope = loss_and_slope(p.loss, s, e.y)
        c = e.cost * e.importance
        return Step(c * loss, slope > 0.0, now.eta_t * c * slope * e.y, 0.0)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Round) -> Coordinate:
        return Coordinate(soft(f.w, like(now.P - f.P, f.w)) + step.size * x, now.P)

    def end(p, totals: Totals, t: int, now: Round, change: int) -> Totals:
        return Totals(totals.P + now.eta_t * p.l1)
