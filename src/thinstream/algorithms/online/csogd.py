"""CS-OGD: cost-sensitive online gradient descent.

Wang, Zhao, Hoi: Cost-Sensitive Online Classification (2012); a baseline of P0 and P3 ("CSOGD-I"). Specification §3, D8.
"""

from typing import Annotated, NamedTuple

from thinstream.engine import linear
from thinstream.engine.parameters import OneOf, Positive
from thinstream.engine.prox import RATE_CONST, Rate, rate_at
from thinstream.engine.rule import Example, Nothing, Step, algorithm

I, II = range(2)  # noqa: E741 (the papers' names)


class Round(NamedTuple):
    eta_t: float


@algorithm(paper="P0 and P3 baseline", order="first", family=linear, uses_confidence=False)
class CSOGD(NamedTuple):
    """Cost-sensitive online gradient descent (without class costs: online gradient descent).

    ::

        ρ_t = ρ if y = +1 else 1
        I:   ℓ = max(0, ρ_t − y·w·x);       if ℓ > 0:  w += η_t·y·x
        II:  ℓ = ρ_t·max(0, 1 − y·w·x);     if ℓ > 0:  w += η_t·ρ_t·y·x

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η.
    variant : {"I", "II"}, default="I"
        Whether costs ask for a wider margin or for longer steps; ρ = c₊/c₋ comes from class_weight.
    rate : {"const", "inv_sqrt", "inv_t"}, default="const"
        η_t: η, η/√t or η/t.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.CSOGD(eta=0.5, class_weight={1: 4.0}).fit([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], [0, 1, 1]).coef_
    array([[ 1. , -0.5]], dtype=float32)

    """

    eta: Positive = 1.0
    variant: Annotated[int, OneOf(I=I, II=II)] = I
    rate: Rate = RATE_CONST

    def begin(p, t: int, totals: Nothing) -> Round:
        return Round(rate_at(p.rate, p.eta, t))

    def step(p, s: float, v: float, e: Example, now: Round) -> Step:
        rho_t = e.rho if e.y > 0.0 else 1.0
        if p.variant == I:
            loss, slope = max(0.0, rho_t - e.y * s), 1.0
        else:
            loss, slope = rho_t * max(0.0, 1.0 - e.y * s), rho_t
        return Step(loss, loss > 0.0, now.eta_t * e.importance * slope * e.y, 0.0)
