"""RDA with the l1 norm: regularized dual averaging, plain and enhanced.

Xiao: Dual Averaging Methods for Regularized Stochastic Learning and Online Optimization (2010); a baseline of P0.
Specification §3.
"""

import math
from typing import Annotated, NamedTuple

from thinstream.engine.forgetting import forgets
from thinstream.engine.losses import HINGE, Loss, descent
from thinstream.engine.parameters import NonNegative, OneOf, Positive
from thinstream.engine.prox import like, soft
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm

SQRT, LINEAR, CONST = range(3)


class Coordinate(NamedTuple):
    G: float = 0.0  # sum of the gradients


class Round(NamedTuple):
    threshold: float  # (t−1)·λ_{t−1}
    inv_beta: float  # 1/β_{t−1}


@forgets
@algorithm(paper="P0 baseline", order="first", coordinate=Coordinate, uses_confidence=False)
class RDA(NamedTuple):
    """Regularised dual averaging with the l1 norm (rho > 0: enhanced).

    ::

        w_{t+1} = −soft(G_t, t·λ_t)/β_t,   λ_t = λ + γρ/√t,   G_t = Σ ∇ℓ

    Parameters
    ----------
    gamma : float, default=1.0
        γ: the larger, the smaller the steps.
    l1 : float, default=0.0
        λ: larger is sparser.
    rho : float, default=0.0
        ρ of the enhanced method: more truncation in early rounds.
    beta : {"sqrt", "linear", "const"}, default="sqrt"
        β_t: γ√t, γt or γ.
    loss : {"hinge", "logistic"}, default="hinge"
    half_life : float or None, default=None
        Rows after which what was learned counts half; None: nothing is forgotten. For streams that change.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.RDA(l1=0.125, beta="const").fit([[1.0, 0.5], [0.0, 1.0]], [0, 1]).coef_
    array([[-0.75,  0.25]], dtype=float32)

    """

    gamma: Positive = 1.0
    l1: NonNegative = 0.0
    rho: NonNegative = 0.0
    beta: Annotated[int, OneOf(sqrt=SQRT, linear=LINEAR, const=CONST)] = SQRT
    loss: Loss = HINGE

    def merge_rule(p) -> MergeRule:
        return MergeRule("G adds", "formal", sums=("G",), powers={"G": 1})

    def begin(p, t: int, totals: Nothing) -> Round:
        n = t - 1 if t > 1 else 1  # w_1 = 0 whatever stands here, as G is still 0
        beta = p.gamma
        if p.beta == SQRT:
            beta *= math.sqrt(n)
        elif p.beta == LINEAR:
            beta *= n
        return Round(n * (p.l1 + p.gamma * p.rho / math.sqrt(n)), 1.0 / beta)

    def weight(p, f: Coordinate, now: Round) -> float:
        return -soft(f.G, now.threshold) * now.inv_beta

    def step(p, s: float, v: float, e: Example, now: Round) -> Step:
        return descent(p.loss, s, e)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Round) -> Coordinate:
        return Coordinate(f.G - step.size * x)

    def fade(p, f: Coordinate, r: float) -> Coordinate:
        return Coordinate(like(r * f.G, f.G))

    def reach(p, x: float, least: float, v: float, step: Step, now: Round) -> float:
        return abs(step.size) * x
