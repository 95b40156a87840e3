"""The family of confidence-weighted learners: a mean μ and a covariance Σ, diagonal or full, started at a·I.

Every update has the form  μ += α·y·Σx (old Σ),  Σ⁻¹ += c·xxᵀ; a rule adds the ``step`` that finds
α and c (specification §4).
"""

import math
from typing import Any, NamedTuple

from thinstream.engine import covariance
from thinstream.engine.covariance import Belief, Point
from thinstream.engine.prox import like
from thinstream.engine.rule import MergeRule, Seen, Step
from thinstream.jit import scalar


class Coordinate(NamedTuple):
    """μ_j and, in s, σ_j or its inverse (see `covariance`)."""

    mu: float = 0.0
    s: float = 1.0


def fresh(p: Any) -> Coordinate:
    """A feature that never occurred: μ_j = 0, σ_j = a."""
    return Coordinate(0.0, covariance.spread(p.diagonal, p.a))


def variance(p: Any, f: Any) -> Any:
    """σ_j, of one coordinate or of arrays of them."""
    return covariance.variance(p.diagonal, f.s)


def confidence(p: Any, f: Coordinate, x: float, now: Any) -> float:
    """σ_j·x_j², so that v = xᵀΣx."""
    return covariance.variance(p.diagonal, f.s) * x * x


def weight(p: Any, f: Coordinate, now: Any) -> float:
    """μ_j."""
    return f.mu


@scalar
def move(p: Any, f: Coordinate, x: float, v: float, step: Step, now: Any) -> Coordinate:
    """The mean along the old σ, then σ."""
    sigma = covariance.variance(p.diagonal, f.s)
    return Coordinate(f.mu + step.size * sigma * x, covariance.spread_after(p.diagonal, f.s, x, step.c, v))


def fade(p: Any, f: Coordinate, r: float) -> Coordinate:
    """Discount the precision above the initial one. The mean stays."""
    start = 1.0 / p.a
    return Coordinate(f.mu, like(start + r * (f.s - start), f.s))


def reach(p: Any, x: float, least: float, v: float, step: Step, now: Any) -> float:
    """The mean moves by |size|·σx with σ ≤ a, the precision by c·x²."""
    return abs(step.size) * p.a * x + step.c * x * x


def predict_full(p: Any, b: Belief, x: Point, now: Any, absent: bool) -> Seen:
    """μ·x, and v = xᵀΣx."""
    z = b.sigma.times(x)
    return Seen(x.dot(b.mean), b.sigma.variance_along(x, z), z)


def update_full(p: Any, b: Belief, x: Point, seen: Seen, step: Step) -> None:
    """The mean along the old Σ, then Σ."""
    b.sigma.shrink(seen.z, step.c, seen.v)  # z is of the old Σ
    b.mean[:] += b.mean.dtype.type(step.size) * seen.z


def weights_full(p: Any, b: Belief, now: Any) -> Any:
    """μ."""
    return b.mean


@scalar
def stdev_alpha(m: float, v: float, phi: float) -> float:
    """α of the standard-deviation form of CW, without cancellation for m > 0."""
    square = phi * phi  # products: powers would differ in bits between compiled and interpreted code
    psi, zeta = 1.0 + square / 2.0, 1.0 + square
    root = math.sqrt(m * m * square * square / 4.0 + v * square * zeta)
    divisor = v * (m * psi + root)
    if m > 0.0 and divisor > 0.0:
        return max(0.0, (v * phi * phi - m * m) / divisor)
    return max(0.0, (-m * psi + root) / (v * zeta))


@scalar
def stdev_c(alpha: float, v: float, phi: float) -> float:
    """C = αφ/√u with √u = 2v/(αvφ + √(α²v²φ² + 4v))."""
    avp = alpha * v * phi
    return alpha * phi * (avp + math.sqrt(avp * avp + 4.0 * v)) / (2.0 * v)


def merge_rule(p: Any) -> MergeRule:
    """The product of Gaussian beliefs."""
    return MergeRule(
        "precisions add (the prior counted once), means are weighted by precision",
        belief=("mu", "s"),
        stores_precision=isinstance(p.diagonal, covariance.Exact),
        powers={"mu": 1, "s": -2 if isinstance(p.diagonal, covariance.Exact) else 2},
    )
