"""CW: confidence-weighted learning, variance and standard-deviation form.

Dredze, Crammer, Pereira: Confidence-Weighted Linear Classification (2008); Crammer, Dredze, Pereira: Exact Convex
Confidence-Weighted Learning (2008). A baseline of P1. Specification §4.
"""

import math
from typing import Annotated, NamedTuple

from thinstream.engine import gaussian
from thinstream.engine.covariance import DIAGONAL, Covariance, Exact, ExactOrDrop
from thinstream.engine.forgetting import forgets
from thinstream.engine.parameters import OneOf, Positive
from thinstream.engine.rows import finite
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm, hard_step

VARIANCE, STDEV = range(2)


@forgets
@algorithm(paper="P1 baseline", order="second", family=gaussian)
class CW(NamedTuple):
    """Confidence-weighted learning.

    ::

        m = y·μ·x;   v = xᵀΣx;   if m < φv (φ√v):  μ += α·y·Σx;   Σ⁻¹ += c·diag(x²)

    with the α and c that just satisfy y·μ·x ≥ φ·xᵀΣx (or φ·√(xᵀΣx)) afterwards. With class or
    sample weights the mean takes c_y/c_max of its step.

    Parameters
    ----------
    phi : float, default=0.5244005127080407
        φ = Φ⁻¹(confidence); the default is a confidence of 0.7.
    a : float, default=1.0
        The variance every weight starts with.
    form : {"variance", "stdev"}, default="variance"
        "stdev" has no bound on its confidence: labels that keep contradicting each other on a feature drive its
        variance to the smallest number there is. The weight then stands still: an update that would leave the range
        of finite numbers is left out. SCW does not have this problem.
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
    >>> ts.CW().fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).coef_.round(3)
    array([[-0.316,  0.567]], dtype=float32)

    """

    phi: Positive = 0.5244005127080407
    a: Positive = 1.0
    form: Annotated[int, OneOf(variance=VARIANCE, stdev=STDEV)] = VARIANCE
    covariance: Covariance = DIAGONAL
    diagonal: ExactOrDrop = Exact()

    def merge_rule(p) -> MergeRule:
        return gaussian.merge_rule(p)._replace(way="gain")

    def move(p, f: gaussian.Coordinate, x: float, v: float, step: Step, now: Nothing) -> gaussian.Coordinate:
        g = gaussian.move(p, f, x, v, step, now)
        return f if p.form == STDEV and not finite(g.mu + g.s) else g

    def stands_still(p) -> bool:
        return p.form == STDEV

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        m, phi = e.y * s, p.phi
        asked = phi * v if p.form == VARIANCE else phi * math.sqrt(v)
        if not (m < asked and v > 0.0):
            return Step(max(0.0, asked - m), m < asked, 0.0, 0.0)
        if p.form == STDEV:
            alpha = gaussian.stdev_alpha(m, v, phi)
            c = gaussian.stdev_c(alpha, v, phi)
        else:
            b = 1.0 + 2.0 * phi * m
            root = math.sqrt(b * b + 8.0 * phi * (phi * v - m))
            # the root of the same quadratic, each form where it does not cancel
            alpha = 2.0 * (phi * v - m) / (v * (b + root)) if b > 0.0 else (root - b) / (4.0 * phi * v)
            c = 2.0 * alpha * phi
        return Step(asked - m, True, alpha * hard_step(e) * e.y, c)
