"""SCW: soft confidence-weighted learning, SCW-I and SCW-II.

Wang, Zhao, Hoi: Exact Soft Confidence-Weighted Learning (2012); a baseline of P1. The formulas are the published ones,
not those of the LIBOL toolbox, whose SCW-II has a slip. Specification §4, E14.
"""

import math
from typing import Annotated, NamedTuple

from thinstream.engine import gaussian
from thinstream.engine.covariance import DIAGONAL, Covariance, Exact, ExactOrDrop
from thinstream.engine.forgetting import forgets
from thinstream.engine.parameters import Interval, OneOf, Positive
from thinstream.engine.rule import LEAST_WEIGHT, TINY, Example, MergeRule, Nothing, Step, algorithm
from thinstream.jit import scalar

I, II = range(2)  # noqa: E741 (the paper's names)
PHI = (0.6744897501960817, 1.2815515655446004)  # Φ⁻¹(0.75), Φ⁻¹(0.9)


@scalar
def first_alpha(m: float, v: float, phi: float, C: float) -> float:
    """α of SCW-I: that of CW, up to C."""
    return min(C, gaussian.stdev_alpha(m, v, phi))


@scalar
def second_alpha(m: float, v: float, phi: float, C: float) -> float:
    """α of SCW-II, free of cancellation for m > 0."""
    n = v + 1.0 / (2.0 * max(C, TINY))
    k = 2.0 * m * n + phi * phi * m * v
    gamma = phi * math.sqrt(phi * phi * m * m * v * v + 4.0 * n * v * (n + v * phi * phi))
    if m > 0.0:
        return max(0.0, 2.0 * (v * phi * phi - m * m) / (k + gamma))
    return max(0.0, (gamma - k) / (2.0 * (n * n + n * v * phi * phi)))


@forgets
@algorithm(paper="P1 baseline", order="second", family=gaussian)
class SCW(NamedTuple):
    """Soft confidence-weighted learning.

    ::

        m = y·μ·x;   v = xᵀΣx;   if m < φ√v:  μ += α·y·Σx;   Σ⁻¹ += c·diag(x²)

    CW that may leave its constraint violated, at price C linearly (I) or squared (II).

    Parameters
    ----------
    variant : {"I", "II"}, default="I"
    phi : float or None, default=None
        φ = Φ⁻¹(confidence). None: confidence 0.75 for I, 0.9 for II.
    C : float, default=1.0
        Price of a violated constraint; with class or sample weights it is C·c_y.
    a : float, default=1.0
        The variance every weight starts with.
    covariance : {"diagonal", "full"}, default="diagonal"
        The full d×d matrix, for up to a few thousand features.
    diagonal : {"exact", "drop"}, default="exact"
        1/σ_j += c·x_j², or the diagonal of the full update.
    half_life : float or None, default=None
        Rows after which what made a variance small counts half; None: nothing is forgotten. For streams that change;
        with ``diagonal="exact"``.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.SCW().fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).coef_.round(3)
    array([[-0.395,  0.649]], dtype=float32)

    """

    variant: Annotated[int, OneOf(I=I, II=II)] = I
    phi: Annotated[float, Interval(none=0.0)] = 0.0
    C: Positive = 1.0
    a: Positive = 1.0
    covariance: Covariance = DIAGONAL
    diagonal: ExactOrDrop = Exact()

    def for_width(p, d: int) -> "SCW":
        return p._replace(phi=p.phi or PHI[p.variant])

    def merge_rule(p) -> MergeRule:
        return gaussian.merge_rule(p)._replace(way="gain")

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        m, asked = e.y * s, p.phi * math.sqrt(v)
        if not (m < asked and v > 0.0):
            return Step(max(0.0, asked - m), m < asked, 0.0, 0.0)
        C = p.C * max(e.cost * e.importance, LEAST_WEIGHT)
        alpha = first_alpha(m, v, p.phi, C) if p.variant == I else second_alpha(m, v, p.phi, C)
        c = gaussian.stdev_c(alpha, v, p.phi)
        return Step(asked - m, True, alpha * e.y, c)
