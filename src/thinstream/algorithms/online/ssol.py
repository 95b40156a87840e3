"""SSOL: second-order dual averaging with a soft threshold.

Wang, Wu, Zhao, Hoi: A Framework of Sparse Online Learning and Its Applications (P0, 2015), Algorithm 5 (diagonal) and 4
(full matrix); with class costs Algorithm 7 (CS-SSOL). Specification §2, D3 to D5.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from thinstream.engine import covariance
from thinstream.engine.covariance import (
    DIAGONAL,
    Belief,
    Covariance,
    Drop,
    EveryExample,
    Exact,
    OnUpdate,
    Point,
    always,
    spread_after,
)
from thinstream.engine.forgetting import forgets
from thinstream.engine.losses import hinge
from thinstream.engine.parameters import NonNegative, OneOf, Positive
from thinstream.engine.prox import INV_T, L1Schedule, like, soft, threshold
from thinstream.engine.rule import Example, MergeRule, Nothing, Seen, Step, algorithm


class Coordinate(NamedTuple):
    theta: float = 0.0
    s: float = 1.0  # σ = diag(A⁻¹) or its inverse, as `diagonal` keeps it


class Round(NamedTuple):
    lambda_t: float
    c: float  # strength at which the example enters A


@forgets
@algorithm(paper="P0 Alg. 5, 7", order="second", coordinate=Coordinate)
class SSOL(NamedTuple):
    """Second-order sparse online learning (with class costs: CS-SSOL).

    ::

        A += xxᵀ/r (its diagonal σ⁻¹, every example);   w = soft(σ·θ, λ_t)
        ℓ = max(0, 1 − y·w·x);   if ℓ > 0:  θ += η·c_y·y·x

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η.
    l1 : float, default=0.0
        λ: larger is sparser, 0 keeps every weight. With the default schedule the final threshold is λ/(T+1), so λ has
        to grow with the length of the stream.
    r : float, default=1.0
        The larger, the slower the variances fall.
    l1_schedule : {"inv_t", "eta", "const", "sqrt", "linear"}, default="inv_t"
        λ_t: λ/t, ηλ, λ, ηλ√t or ηλt.
    covariance : {"diagonal", "full"}, default="diagonal"
        The full d×d matrix (Algorithm 4), for up to a few thousand features.
    diagonal : {"drop", "exact"}, default="drop"
        The diagonal of the full update (as printed), or 1/σ_j += x_j²/r (a sum, so models can be merged). Without
        meaning for a full covariance.
    update_on : {"every", "loss"}, default="every"
        Whether every example enters A before it is predicted (as printed), or only those with loss, afterwards.
    half_life : float or None, default=None
        Rows after which what was learned counts half; None: nothing is forgotten. For streams that change; with
        ``diagonal="exact"``.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.SSOL().fit([[1.0, 0.0], [0.0, 2.0]], ["ham", "spam"]).coef_
    array([[-0.6666667 ,  0.58823526]], dtype=float32)

    """

    eta: Positive = 1.0
    l1: NonNegative = 0.0
    r: Positive = 1.0
    l1_schedule: L1Schedule = INV_T
    covariance: Covariance = DIAGONAL
    diagonal: Annotated[Drop | Exact, OneOf(drop=Drop(), exact=Exact())] = Drop()
    update_on: Annotated[EveryExample | OnUpdate, OneOf(every=EveryExample(), loss=OnUpdate())] = EveryExample()

    def merge_rule(p) -> MergeRule:
        if p.covariance == DIAGONAL and isinstance(p.diagonal, Drop):
            return MergeRule(
                "θ and σ are averaged by t",  # which keeps the scale of σ·θ
                means=("theta", "s"),
                powers={"theta": -1, "s": 2},
                refused="σ under diagonal='drop' depends on the order of the examples, so it is not a sum; learn with "
                "diagonal='exact', or average θ and σ: average=True, on the command line --average",
            )
        return MergeRule(
            "θ adds; A = A₁ + A₂ − I, which is exact if every example enters it",
            "formal",
            sums=("theta", "s"),
            way="root",
            powers={"theta": -1, "s": -2},
        )

    def variance(p, f: Any) -> Any:
        return covariance.variance(p.diagonal, f.s)

    def begin(p, t: int, totals: Nothing) -> Round:
        return Round(threshold(p.l1_schedule, p.eta, p.l1, t), 1.0 / p.r)

    def confidence(p, f: Coordinate, x: float, now: Round) -> float:
        return covariance.variance(p.diagonal, f.s) * x * x

    def observes(p) -> bool:
        return always(p.update_on)

    def observe(p, f: Coordinate, x: float, v: float, now: Round) -> Coordinate:
        return Coordinate(f.theta, spread_after(p.diagonal, f.s, x, now.c, v))

    def weight(p, f: Coordinate, now: Round) -> float:
        return soft(covariance.variance(p.diagonal, f.s) * f.theta, now.lambda_t)

    def step(p, s: float, v: float, e: Example, now: Round) -> Step:
        loss, c = hinge(s, e.y), e.cost * e.importance
        return Step(c * loss, loss > 0.0, p.eta * c * e.y, 0.0)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Round) -> Coordinate:
        s = f.s if always(p.update_on) else spread_after(p.diagonal, f.s, x, now.c, v)
        return Coordinate(f.theta + step.size * x, s)

    def fade(p, f: Coordinate, r: float) -> Coordinate:
        return Coordinate(like(r * f.theta, f.theta), like(1.0 + r * (f.s - 1.0), f.s))

    def reach(p, x: float, least: float, v: float, step: Step, now: Round) -> float:
        return abs(step.size) * x + now.c * x * x

    def predict_full(p, b: Belief, x: Point, now: Round, absent: bool) -> Seen:
        z = b.sigma.times(x)
        v = b.sigma.variance_along(x, z)
        if always(p.update_on) and not absent:
            b.sigma.shrink(z, now.c, v)
        u = b.sigma.at(x.indices, b.mean)
        return Seen(np.dot(_soft(u, now.lambda_t), x.values), v, z)

    def update_full(p, b: Belief, x: Point, seen: Seen, step: Step) -> None:
        if not always(p.update_on):
            b.sigma.shrink(seen.z, 1.0 / p.r, seen.v)
        b.mean[x.indices] += b.mean.dtype.type(step.size) * x.values

    def weights_full(p, b: Belief, now: Round) -> Any:
        return _soft(b.sigma.product(b.mean), now.lambda_t)


def _soft(u: Any, a: float) -> Any:
    return u - np.clip(u, u.dtype.type(-a), u.dtype.type(a))
