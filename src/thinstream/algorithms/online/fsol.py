"""FSOL: dual averaging with a soft threshold.

Wang, Wu, Zhao, Hoi: A Framework of Sparse Online Learning and Its Applications (P0, 2015), Algorithm 3; with class
costs Algorithm 6 (CS-FSOL). Specification §2, E4.
"""

from typing import NamedTuple

from thinstream.engine.forgetting import forgets
from thinstream.engine.losses import hinge
from thinstream.engine.parameters import NonNegative, Positive
from thinstream.engine.prox import ETA, L1Schedule, like, soft, threshold
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm


class Coordinate(NamedTuple):
    theta: float = 0.0


class Round(NamedTuple):
    lambda_t: float


@forgets
@algorithm(paper="P0 Alg. 3, 6", order="first", coordinate=Coordinate, uses_confidence=False)
class FSOL(NamedTuple):
    """First-order sparse online learning (with class costs: CS-FSOL).

    ::

        w = soft(θ, λ_t);   ℓ = max(0, 1 − y·w·x);   if ℓ > 0:  θ += η·c_y·y·x

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η.
    l1 : float, default=0.0
        λ: larger is sparser, 0 keeps every weight. θ grows with the stream.
    l1_schedule : {"eta", "const", "sqrt", "linear", "inv_t"}, default="eta"
        λ_t: ηλ, λ, ηλ√t, ηλt or λ/t.
    half_life : float or None, default=None
        Rows after which what was learned counts half; None: nothing is forgotten. For streams that change.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.FSOL(l1=0.25).fit([[1.0, 0.25], [0.0, 1.0]], ["ham", "spam"]).coef_
    array([[-0.75,  0.5 ]], dtype=float32)

    """

    eta: Positive = 1.0
    l1: NonNegative = 0.0
    l1_schedule: L1Schedule = ETA

    def merge_rule(p) -> MergeRule:
        how = "θ adds; exact if every example updates and costs are fixed"
        return MergeRule(how, "formal", sums=("theta",), powers={"theta": 1})

    def begin(p, t: int, totals: Nothing) -> Round:
        return Round(threshold(p.l1_schedule, p.eta, p.l1, t))

    def weight(p, f: Coordinate, now: Round) -> float:
        return soft(f.theta, now.lambda_t)

    def step(p, s: float, v: float, e: Example, now: Round) -> Step:
        loss, c = hinge(s, e.y), e.cost * e.importance
        return Step(c * loss, loss > 0.0, p.eta * c * e.y, 0.0)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Round) -> Coordinate:
        return Coordinate(f.theta + step.size * x)

    def fade(p, f: Coordinate, r: float) -> Coordinate:
        return Coordinate(like(r * f.theta, f.theta))

    def reach(p, x: float, least: float, v: float, step: Step, now: Round) -> float:
        return abs(step.size) * x
