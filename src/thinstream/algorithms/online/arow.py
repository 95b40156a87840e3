"""AROW: adaptive regularisation of weight vectors.

Crammer, Kulesza, Dredze: Adaptive Regularization of Weight Vectors (2009); a baseline of P1. Specification §4.
"""

from typing import NamedTuple

from thinstream.engine import gaussian
from thinstream.engine.covariance import DIAGONAL, Covariance, Exact, ExactOrDrop
from thinstream.engine.forgetting import forgets
from thinstream.engine.losses import hinge
from thinstream.engine.parameters import Positive
from thinstream.engine.rule import Example, Nothing, Step, algorithm


@forgets
@algorithm(paper="P1 baseline", order="second", family=gaussian)
class AROW(NamedTuple):
    """Adaptive regularisation of weight vectors.

    ::

        ℓ = max(0, 1 − y·μ·x);   v = xᵀΣx;   if ℓ > 0:  μ += ℓ/(v + r)·y·Σx;   Σ⁻¹ += diag(x²)/r

    Parameters
    ----------
    r : float, default=1.0
        The larger, the shorter the steps and the slower the variances fall. With class or sample weights it is r/c_y.
    a : float, default=1.0
        The variance every weight starts with.
    covariance : {"diagonal", "full"}, default="diagonal"
        The full d×d matrix, for up to a few thousand features.
    diagonal : {"exact", "drop"}, default="exact"
        1/σ_j += x_j²/r, or the diagonal of the full update.
    half_life : float or None, default=None
        Rows after which what made a variance small counts half; None: nothing is forgotten. For streams that change;
        with ``diagonal="exact"``.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.AROW().fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).coef_
    array([[-0.33333334,  0.4848485 ]], dtype=float32)

    """

    r: Positive = 1.0
    a: Positive = 1.0
    covariance: Covariance = DIAGONAL
    diagonal: ExactOrDrop = Exact()

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        loss, c = hinge(s, e.y), e.cost * e.importance
        return Step(loss, loss > 0.0, loss * c / (v * c + p.r) * e.y, c / p.r)  # r/c in place of r
