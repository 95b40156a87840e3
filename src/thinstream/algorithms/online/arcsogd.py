"""ARCSOGD: adaptively regularized cost-sensitive online gradient descent.

Zhao, Zhuang, Wu, Li, Hoi: Cost-Sensitive Online Classification with Adaptive Regularization and Its Applications (P3,
2015), Algorithm 1, with a full covariance or a diagonal one ("ARCSOGD_diag"). Specification §7, D15, D16.
"""

from typing import NamedTuple

from thinstream.engine import gaussian
from thinstream.engine.covariance import DIAGONAL, Belief, Covariance, Exact, ExactOrDrop, Point, spread_after, variance
from thinstream.engine.parameters import Positive
from thinstream.engine.rule import Example, MergeRule, Nothing, Seen, Step, algorithm


@algorithm(paper="P3 Alg. 1", order="second", family=gaussian)
class ARCSOGD(NamedTuple):
    """Adaptively regularized cost-sensitive online gradient descent.

    ::

        ρ_t = ρ if y = +1 else 1;   ℓ = max(0, ρ_t − y·μ·x)
        if ℓ > 0:  Σ⁻¹ += diag(x²)/γ;   μ += η·y·Σx  (the new Σ)

    ρ = c₊/c₋ comes from class_weight; with "balanced" it is the running ratio of the class counts. It changes only the
    margin that positive rows must reach, not the step. Variances fall with every update, so scores may stay below even
    the margin 1. Then every positive row already updates, and larger ρ change nothing. A larger γ helps.

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η.
    gamma : float, default=1.0
        γ: the larger, the slower the variances fall; towards ∞ this is CSOGD.
    covariance : {"diagonal", "full"}, default="diagonal"
        The full d×d matrix, for up to a few thousand features.
    diagonal : {"exact", "drop"}, default="exact"
        1/σ_j += x_j²/γ, or the diagonal of the full update. Without meaning for a full covariance.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.ARCSOGD(class_weight="balanced").fit([[1.0, 0.0], [0.0, 3.0]], [0, 1]).coef_
    array([[-0.5,  0.3]], dtype=float32)

    """

    eta: Positive = 1.0
    gamma: Positive = 1.0
    covariance: Covariance = DIAGONAL
    diagonal: ExactOrDrop = Exact()

    def fresh(p) -> gaussian.Coordinate:
        return gaussian.Coordinate(0.0, 1.0)

    def merge_rule(p) -> MergeRule:
        return gaussian.merge_rule(p)._replace(way="gain")

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        rho_t = e.rho if e.y > 0.0 else 1.0
        loss = max(0.0, rho_t - e.y * s)
        return Step(loss, loss > 0.0, p.eta * e.importance * e.y, 1.0 / p.gamma)

    def move(p, f: gaussian.Coordinate, x: float, v: float, step: Step, now: Nothing) -> gaussian.Coordinate:
        s = spread_after(p.diagonal, f.s, x, step.c, v)
        return gaussian.Coordinate(f.mu + step.size * variance(p.diagonal, s) * x, s)

    def reach(p, x: float, least: float, v: float, step: Step, now: Nothing) -> float:
        return abs(step.size) * x + step.c * x * x

    def update_full(p, b: Belief, x: Point, seen: Seen, step: Step) -> None:
        b.sigma.shrink(seen.z, step.c, seen.v)
        new_z = seen.z / (1 + b.mean.dtype.type(step.c) * seen.v)  # the new Σx
        b.mean[:] += b.mean.dtype.type(step.size) * new_z
