"""NAROW: AROW with a regularisation that adapts to the example, in the form of the LIBOL toolbox.

Orabona, Crammer: New Adaptive Algorithms for Online Classification (2010); a baseline of P1, which compared with this
form. Specification §4, D18, E13.
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
class NAROW(NamedTuple):
    """Narrow adaptive regularisation of weights.

    ::

        as AROW with r_t = v/(b·v − 1), divided by c_y, and only where v > 1/b

    Parameters
    ----------
    b : float, default=2.0
        Must exceed 1/(a·‖x‖²), or nothing is ever learned.
    a : float, default=1.0
        The variance every weight starts with.
    covariance : {"diagonal", "full"}, default="diagonal"
        The full d×d matrix, for up to a few thousand features;
        after an update xᵀΣx = 1/b then.
    diagonal : {"exact", "drop"}, default="exact"
        1/σ_j += x_j²/r_t, or the diagonal of the full update.
    half_life : float or None, default=None
        Rows after which what made a variance small counts half; None: nothing is forgotten. For streams that change;
        with ``diagonal="exact"``.

    Examples
    --------
    >>> import thinstream as ts
    >>> X, y = [[1.0, 0.0], [0.0, 2.0]], [0, 1]
    >>> ts.NAROW().fit(X, y).coef_
    array([[-0.375     ,  0.55397725]], dtype=float32)

    """

    b: Positive = 2.0
    a: Positive = 1.0
    covariance: Covariance = DIAGONAL
    diagonal: ExactOrDrop = Exact()

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        loss = hinge(s, e.y)
        if not (loss > 0.0 and v > 1.0 / p.b):
            return Step(loss, False, 0.0, 0.0)
        r_t, c = v / (p.b * v - 1.0), e.cost * e.importance
        return Step(loss, True, loss * c / (v * c + r_t) * e.y, c / r_t)  # r_t/c in place of r_t
